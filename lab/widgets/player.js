// Plays scenes: lanes, marks and frames in, pictures and captions out. It knows nothing of models.

/** The moments at which any of the scenes has a frame, in order. */
export const momentsOf = (scenes) =>
  [...new Set(scenes.flatMap((scene) => scene.frames.map((frame) => frame.at)))].sort((a, b) => a - b);

/** The frame of a scene that counts at a moment: the last one that has begun. */
export const frameAt = (scene, at) => scene.frames.filter((frame) => frame.at <= at).at(-1) ?? null;

/** Past, now or future: what a mark is when the reader stands at a moment. */
export const whenOf = (mark, at) => (mark.start > at ? "future" : mark.stop > at ? "now" : "past");

/**
 * Where everything stands, for a window of `width` pixels. Text keeps its size: a narrow window
 * gets the lanes' names above the lanes, and a long scene becomes wider than the window.
 */
export function layout(scene, width, end) {
  const narrow = width < 520;
  const left = narrow ? 24 : 64;
  const lane = narrow ? 60 : 46;
  const top = 26;
  const times = scene.frames.map((frame) => frame.at);
  const gaps = times.slice(1).map((time, i) => time - times[i]).filter((gap) => gap > 0);
  const widest = Math.max(...scene.frames.map((frame) => frame.label.length), 2) * 8 + 8;
  const smallest = Math.min(...gaps, end);
  const scale = Math.max((width - left - 40) / end, Math.min(widest, 30) / smallest);
  const x = (time) => left + time * scale;
  const y = (name) => top + scene.lanes.indexOf(name) * lane + (narrow ? 18 : 0);
  return { narrow, left, lane, top, x, y, scale, width: Math.max(width, x(end) + 40),
           height: top + scene.lanes.length * lane + 6 };
}

const SVG = "http://www.w3.org/2000/svg";
const COLOURS = ["a", "b", "c", "d", "e", "f"];
const BOX = 34;

function shape(name, attributes, text) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

function element(name, properties = {}, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

/** One colour a request, the same in every scene of the player; beyond six, one for all. */
function coloursOf(scenes) {
  const who = [...new Set(scenes.flatMap((s) => s.marks.map((m) => m.who)).filter(Boolean))].sort();
  return (name) => (who.length > COLOURS.length ? "a" : COLOURS[who.indexOf(name)] ?? "none");
}

/** Draws a scene once; returns a function that shows it at a moment. */
function draw(svg, scene, width, end, colour) {
  const at = layout(scene, width, end);
  svg.setAttribute("width", at.width);
  svg.setAttribute("height", at.height);
  svg.setAttribute("viewBox", `0 0 ${at.width} ${at.height}`);
  const nodes = [];
  for (const frame of scene.frames) {
    nodes.push(shape("line", { class: "tick", x1: at.x(frame.at), x2: at.x(frame.at), y1: 20, y2: at.height }));
    nodes.push(shape("text", { class: "soft", x: at.x(frame.at) + 3, y: 14 }, frame.label));
  }
  for (const name of scene.lanes) {
    const place = at.narrow ? { x: 4, y: at.y(name) - 5 } : { x: 4, y: at.y(name) + 22 };
    nodes.push(shape("text", { class: "soft", ...place }, name));
  }
  const waits = [];
  const marks = scene.marks.map((mark) => {
    const group = shape("g", {});
    const x = at.x(mark.start), y = at.y(mark.lane), wide = (mark.stop - mark.start) * at.scale - 3;
    if (mark.role === "waiting" || mark.role === "queued") {
      group.append(shape("line", { class: "wait", x1: x, x2: x + wide, y1: y + 27, y2: y + 27 }));
      waits.push([mark, group.firstChild]);
      if (mark.label) group.append(shape("text", { class: "words", x: x + 4, y: y + 20 }, mark.label));
    } else if (mark.start === mark.stop) {
      const sign = { arrival: "▸", end: "×" }[mark.role] ?? mark.label;
      if (mark.role === "token") group.append(shape("rect", { class: "box", x: x - 11, y, width: 22, height: BOX, rx: 4 }));
      group.append(shape("text", { class: mark.role === "token" ? "on mid" : "words mid", x, y: y + 22 }, sign));
    } else {
      group.append(shape("rect", { class: "box", x, y, width: Math.max(wide, 3), height: BOX, rx: 4 }));
      if (mark.role === "prefill" || mark.role === "recompute") {
        let path = "";
        for (let step = 24; step < wide - 12; step += 7) path += `M${x + step} ${y + BOX}l12 -${BOX}`;
        group.append(shape("path", { class: "hatch", d: path }));
      }
      const label = mark.role === "idle" ? "idle" : mark.label;
      if (wide > label.length * 7 + 10) group.append(shape("text", { class: "on", x: x + 7, y: y + 22 }, label));
    }
    return [mark, group];
  });
  const now = shape("line", { class: "present", y1: 20, y2: at.height });
  svg.replaceChildren(...nodes, ...marks.map(([, group]) => group), now);
  const points = scene.marks.some((mark) => mark.start === mark.stop);
  return (moment, next) => {
    for (const [mark, group] of marks) {
      group.setAttribute("class", `mark ${mark.role} ${colour(mark.who)} ${whenOf(mark, moment)}`);
    }
    const line = points ? moment : Math.min(next ?? end, end);
    now.setAttribute("x1", at.x(line));
    now.setAttribute("x2", at.x(line));
    for (const [mark, wait] of waits) wait.setAttribute("x2", at.x(Math.min(mark.stop, Math.max(line, mark.start))) - 3);
    return at.x(moment);
  };
}

/** The frames as a table: what a screen reader reads, and what the Table button shows. */
function table(scenes) {
  const rows = scenes.flatMap((scene) => scene.frames.map((frame) => element("tr", {},
    ...(scenes.length > 1 ? [element("td", { textContent: scene.title })] : []),
    element("th", { scope: "row", textContent: frame.label }),
    element("td", { textContent: frame.caption }))));
  const heads = [...(scenes.length > 1 ? ["figure"] : []), scenes[0].unit, "what happens"];
  return element("table", {}, element("thead", {}, element("tr", {},
    ...heads.map((text) => element("th", { scope: "col", textContent: text })))),
    element("tbody", {}, ...rows));
}

function render({ model, el }) {
  const scenes = model.get("scenes");
  const moments = momentsOf(scenes), last = moments.length - 1;
  const end = Math.max(...scenes.flatMap((scene) => scene.marks.map((mark) => mark.stop)));
  const colour = coloursOf(scenes);
  let timer = null, show = [];

  const parts = scenes.map((scene) => {
    const title = element("p", { className: "title" });
    const stage = element("div", { className: "stage", tabIndex: -1 });
    const svg = shape("svg", { role: "img", "aria-label": `${scene.title} ${scene.conditions}` });
    stage.append(svg);
    const tag = element("span", { className: "tag", textContent: scene.tag });
    const conditions = element("p", { className: "conditions" }, `${scene.conditions} `, tag);
    return { scene, title, stage, svg, box: element("div", {}, title, conditions, stage) };
  });
  const caption = element("p", { className: "caption" });
  caption.setAttribute("aria-live", "polite");
  const button = (text, name, act) => {
    const node = element("button", { type: "button", textContent: text, title: name, onclick: act });
    node.setAttribute("aria-label", name);
    return node;
  };
  const go = (step) => {
    model.set("step", Math.min(Math.max(step, 0), last));
    model.save_changes();
  };
  const stop = () => { clearInterval(timer); timer = null; playing(); };
  const toggle = () => {
    if (timer) return stop();
    if (model.get("step") === last) go(0);
    timer = setInterval(() => {
      if (model.get("step") >= last) return stop();
      go(model.get("step") + 1);
    }, 1200 / Number(speed.value));
    playing();
  };
  const byHand = (step) => { stop(); go(step); };
  const play = button("▶ Play", "Play", toggle);
  play.className = "primary";
  const scrubber = element("input", { type: "range", min: 0, max: last, step: 1 });
  scrubber.setAttribute("aria-label", "Step");
  scrubber.addEventListener("input", () => byHand(Number(scrubber.value)));
  const count = element("span", { className: "count" });
  const speed = element("select", {}, ...["0.5", "1", "2", "4"].map((value) =>
    element("option", { value, textContent: `${value}×`, selected: value === "1" })));
  speed.setAttribute("aria-label", "Speed");
  speed.addEventListener("change", () => { if (timer) { stop(); toggle(); } });
  const frames = element("div", { className: "frames unseen" }, table(scenes));
  const tables = button("Table", "Show the steps as a table", () => {
    const shown = frames.classList.toggle("unseen") === false;
    tables.setAttribute("aria-pressed", shown);
  });
  tables.setAttribute("aria-pressed", "false");
  const large = button("⤢", "Enlarge the figure", () =>
    document.fullscreenElement ? document.exitFullscreen() : root.requestFullscreen?.());
  const root = element("div", { className: "tif-player", tabIndex: 0 }, ...parts.map((p) => p.box), caption,
    element("div", { className: "controls" },
      button("|◀", "Restart", () => byHand(0)),
      button("‹", "Previous step", () => byHand(model.get("step") - 1)), play,
      button("›", "Next step", () => byHand(model.get("step") + 1)),
      scrubber, count, speed, tables, large),
    frames);
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", `Figure in ${last + 1} steps: ${scenes.map((s) => s.title).join("; ")}`);

  function playing() {
    play.textContent = timer ? "❚❚ Pause" : "▶ Play";
    play.setAttribute("aria-label", timer ? "Pause" : "Play");
    caption.setAttribute("aria-live", timer ? "off" : "polite");
  }
  function update() {
    const step = model.get("step"), at = moments[step], next = moments[step + 1];
    parts.forEach(({ scene, title, stage }, i) => {
      title.textContent = step === last ? scene.finding : scene.title;
      const x = show[i]?.(at, next) ?? 0;
      if (x < stage.scrollLeft + 80 || x > stage.scrollLeft + stage.clientWidth - 80)
        stage.scrollLeft = x - stage.clientWidth / 2;
    });
    const told = scenes.map((scene) => frameAt(scene, at)?.caption ?? "");
    const lines = scenes.length > 1 ? scenes.map((s, i) => `${s.title.replace(/[?.:]$/, "")}: ${told[i]}`) : told;
    caption.replaceChildren(element("strong", { textContent: `Step ${step + 1} of ${last + 1}. ` }),
      ...lines.flatMap((line, i) => (i ? [element("br"), line] : [line])));
    scrubber.value = step;
    scrubber.setAttribute("aria-valuetext", `step ${step + 1} of ${last + 1}`);
    count.textContent = `${step + 1} / ${last + 1}`;
  }
  function resize() {
    show = parts.map(({ scene, stage, svg }) => draw(svg, scene, stage.clientWidth || 600, end, colour));
    update();
  }
  root.addEventListener("keydown", (event) => {
    const typing = event.target !== root && event.target.matches("input, select");
    const acts = { ArrowLeft: () => byHand(model.get("step") - 1), ArrowRight: () => byHand(model.get("step") + 1),
      Home: () => byHand(0), End: () => byHand(last) };
    if (event.key === " " && event.target === root) acts[" "] = toggle;
    if (typing || !acts[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    acts[event.key]();
  });
  const printed = () => model.get("step") !== last && go(last);
  window.addEventListener("beforeprint", printed);
  model.on("change:step", update);
  el.append(root);
  const watcher = new ResizeObserver(resize);
  watcher.observe(root);
  resize();
  return () => {
    stop();
    watcher.disconnect();
    window.removeEventListener("beforeprint", printed);
    model.off("change:step", update);
  };
}

export default { render };
