// Plays scenes: lanes, marks and frames in, pictures and captions out. It knows nothing of models.

import { board } from "./board.js";
import { cards } from "./cards.js";
import { crowd } from "./crowd.js";
import { button, columnHead, element, keepKeys, reach } from "./dom.js";
import { endOf, foundIn, momentOf, momentsOf, nameOf, toldAt } from "./frames.js";
import { grid } from "./grid.js";
import { lanes } from "./lanes.js";
import { tagOf } from "./tag.js";
import { tree } from "./tree.js";

const MANY = 40; // lanes; more are drawn on a canvas

/** Who draws a scene. */
const stageOf = (scene) => ({ board, cards, grid, tree })[scene.kind] ?? (scene.lanes.length > MANY ? crowd : lanes);

/**
 * One colour a request, the same in every figure: A to F have their own, others take them in the
 * order of their names. More than six share one.
 */
export function coloursOf(scenes) {
  const letters = ["a", "b", "c", "d", "e", "f"];
  const named = (s) => s.who ?? (s.marks ?? s.items ?? []).map((m) => m.who);
  const who = [...new Set(scenes.flatMap(named).filter(Boolean))].sort();
  if (who.every((name) => /^[A-F]$/.test(name))) return (name) => (who.includes(name) ? name.toLowerCase() : "none");
  return (name) => (who.length > letters.length ? "a" : letters[who.indexOf(name)] ?? "none");
}

/** The frames as a table: what a screen reader reads, and what the Table button shows. */
function table(scenes) {
  const rows = scenes.flatMap((scene) => scene.frames.map((frame) => element("tr", {},
    ...(scenes.length > 1 ? [element("td", { textContent: scene.title })] : []),
    element("th", { scope: "row", textContent: frame.label }),
    element("td", { textContent: frame.caption }))));
  const heads = [...(scenes.length > 1 ? ["figure"] : []), scenes[0].unit, "what happens"];
  return element("table", {}, element("thead", {}, element("tr", {},
    ...heads.map(columnHead))),
    element("tbody", {}, ...rows));
}

/** The title, the conditions with their tag, and the stage of one scene. */
function part(scene, colour, grips) {
  const title = element("p", { className: "title" });
  const conditions = element("p", { className: "conditions" });
  const stage = element("div", { className: "stage" });
  const drawn = stageOf(scene)(scene, colour, grips);
  stage.append(drawn.node);
  const words = (now) => conditions.replaceChildren(`${now.conditions} `, tagOf(now.tag));
  return { title, stage, drawn, words, box: element("div", {}, title, conditions, stage) };
}

/** When a step is, as its caption says it: ", 180 ms", ", end"; nothing where steps are counted. */
export function clockAt(scenes, at) {
  if (scenes[0].unit === "step") return "";
  const label = scenes.map((scene) => scene.frames.find((frame) => frame.at === at)?.label).find(Boolean);
  return /^\d/.test(label) ? `, ${momentOf(label, scenes[0].unit)}` : `, ${label}`;
}

/** What a figure is called to those who hear it; only one of several steps can be stepped through. */
export const figureOf = (scenes, steps) =>
  `Figure${steps > 1 ? ` in ${steps} steps` : ""}: ${scenes.map((scene) => scene.title).join("; ")}`;

/**
 * Puts a player for scenes into an element. Returns `go(step)`, `show(scenes, ghosts)` for other
 * scenes of the same kinds, and `destroy()`. `onStep` hears of every step, `grips` are for `lanes`.
 */
export function player(el, scenes, { step = 0, onStep = () => {}, grips } = {}) {
  const parts = scenes.map((scene) => part(scene, (name) => colour(name), grips));
  let moments, last, end, colour, timer = null;

  const caption = element("p", { className: "caption" });
  const playing = () => {
    play.textContent = timer ? "❚❚ Pause" : "▶ Play";
    play.setAttribute("aria-label", timer ? "Pause" : "Play");
    caption.setAttribute("aria-live", timer ? "off" : "polite");
  };
  const stop = () => { clearInterval(timer); timer = null; playing(); };
  const pace = () => Math.min(1200, Math.max(60, 20000 / (last + 1))) / Number(speed.value);
  const toggle = () => {
    if (timer) return stop();
    if (!last) return;
    if (step === last) go(0);
    timer = setInterval(() => {
      if (step + 1 >= last) stop();
      go(step + 1);
    }, pace());
    playing();
  };
  const byHand = (to) => { stop(); go(to); };
  const play = button("▶ Play", "Play", toggle);
  play.className = "primary";
  const scrubber = element("input", { type: "range", min: 0, step: 1 });
  scrubber.setAttribute("aria-label", "Step");
  scrubber.addEventListener("input", () => byHand(Number(scrubber.value)));
  const count = element("span", { className: "count" });
  const speed = element("select", {}, ...["0.5", "1", "2", "4"].map((value) =>
    element("option", { value, textContent: `${value}×`, selected: value === "1" })));
  speed.setAttribute("aria-label", "Speed");
  speed.addEventListener("change", () => { if (timer) { stop(); toggle(); } });
  const frames = element("div", { className: "frames unseen" });
  const tables = button("Table", "Show the steps as a table", () => {
    const shown = frames.classList.toggle("unseen") === false;
    tables.setAttribute("aria-pressed", shown);
    reach(frames, "The steps as a table");
  });
  tables.setAttribute("aria-pressed", "false");
  const large = button("⤢", "Enlarge the figure", enlarge);
  const steering = [ // for figures of several steps
    button("|◀", "Restart", () => byHand(0)),
    button("‹", "Previous step", () => byHand(step - 1)), play,
    button("›", "Next step", () => byHand(step + 1)),
    scrubber, count, speed];
  const root = element("div", { className: "tif tif-player", tabIndex: 0 }, ...parts.map((p) => p.box), caption,
    element("div", { className: "controls" },
      ...steering, tables, large),
    frames);
  root.setAttribute("role", "group");

  function enlarge() {
    if (document.fullscreenElement) return document.exitFullscreen();
    const inPage = () => root.classList.toggle("enlarged"); // where a browser or a frame forbids the whole screen
    return root.classList.contains("enlarged") || !root.requestFullscreen ? inPage() : root.requestFullscreen().catch(inPage);
  }
  function go(to) {
    const before = step;
    step = Math.min(Math.max(to, 0), last);
    update();
    if (step !== before) onStep(step);
  }
  function show(others, ghosts = []) {
    scenes = others;
    moments = momentsOf(scenes);
    last = moments.length - 1;
    end = Math.max(...[...scenes, ...ghosts].map(endOf));
    colour = coloursOf(scenes);
    step = Math.min(step, last);
    scrubber.max = last;
    frames.replaceChildren(table(scenes));
    steering.forEach((control) => { control.hidden = !last; });
    root.setAttribute("aria-label", figureOf(scenes, last + 1));
    parts.forEach(({ drawn, words }, i) => { drawn.replace(scenes[i], ghosts[i]); words(scenes[i]); });
    fit();
  }
  function update() {
    const at = moments[step], next = moments[step + 1];
    parts.forEach(({ title, stage, drawn }, i) => {
      title.textContent = step === last ? foundIn(scenes[i]) : scenes[i].title;
      const x = drawn.show(at, next);
      if (x < stage.scrollLeft + 80 || x > stage.scrollLeft + stage.clientWidth - 80)
        stage.scrollLeft = x - stage.clientWidth / 2;
      reach(stage, `Drawing: ${scenes[i].title}`);
    });
    const told = scenes.map((scene) => toldAt(scene, at));
    const lines = scenes.length > 1 ? scenes.map((s, i) => `${nameOf(s)}: ${told[i]}`) : told;
    caption.replaceChildren(...(last ? [element("strong", { textContent: `Step ${step + 1} of ${last + 1}${clock(at)}. ` })] : []),
      ...lines.flatMap((line, i) => (i ? [element("br"), line] : [line])));
    scrubber.value = step;
    scrubber.setAttribute("aria-valuetext", `step ${step + 1} of ${last + 1}`);
    count.textContent = `${step + 1} / ${last + 1}`;
  }
  /** The moment in words, where steps are not counted anyway. */
  const clock = (at) => clockAt(scenes, at);
  function fit() {
    parts.forEach(({ stage, drawn }) => drawn.fit(stage.clientWidth || 600, end));
    update();
  }
  root.addEventListener("keydown", (event) => {
    const typing = event.target !== root && event.target.matches("input, select, textarea, .scrolls");
    const acts = { ArrowLeft: () => byHand(step - 1), ArrowRight: () => byHand(step + 1),
      Home: () => byHand(0), End: () => byHand(last) };
    if (event.key === " " && event.target === root) acts[" "] = toggle;
    if (event.key === "Escape" && root.classList.contains("enlarged")) acts.Escape = enlarge;
    if (typing || !acts[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    acts[event.key]();
  });
  root.addEventListener("click", () => { // a pointer scrolls without keys: they shall go on to step
    if (document.activeElement.matches(".scrolls")) root.focus({ preventScroll: true });
  });
  keepKeys(root);
  const printed = () => go(last);
  window.addEventListener("beforeprint", printed);
  el.append(root);
  playing();
  show(scenes);
  let width = root.clientWidth;
  const watcher = new ResizeObserver(() => {
    if (root.clientWidth === width) return;
    width = root.clientWidth;
    fit();
  });
  watcher.observe(root);
  return {
    go,
    show,
    destroy() {
      stop();
      watcher.disconnect();
      parts.forEach(({ drawn }) => drawn.destroy?.());
      window.removeEventListener("beforeprint", printed);
    },
  };
}

function render({ model, el }) {
  const playing = player(el, model.get("scenes"), {
    step: model.get("step"),
    onStep: (step) => { model.set("step", step); model.save_changes(); },
  });
  const follow = () => playing.go(model.get("step"));
  model.on("change:step", follow);
  return () => {
    model.off("change:step", follow);
    playing.destroy();
  };
}

export default { render };
