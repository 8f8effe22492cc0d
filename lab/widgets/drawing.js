// Bars drawn into lanes: the field in which a guess is drawn, and the guess laid over the truth.

import { element } from "./dom.js";
import { span } from "./judge.js";
import { lanes, layout } from "./lanes.js";
import { coloursOf } from "./player.js";

/** Bars { A: [lane, start, stop] } as a scene for lanes.js. */
export function sceneOf({ lanes: names, steps, who }, bars, title) {
  const drawn = who.filter((name) => bars[name]);
  const words = drawn.map((name) => `${name} in ${bars[name][0]}, ${span(bars[name][1], bars[name][2])}`);
  return {
    title, conditions: words.length ? `${words.join("; ")}.` : "Nothing is drawn yet.", lanes: names,
    marks: drawn.map((name) => ({
      id: name, role: "decode", lane: bars[name][0], start: bars[name][1], stop: bars[name][2], label: name, who: name,
    })),
    frames: Array.from({ length: steps }, (_, at) => ({ at, label: String(at + 1), caption: "" })),
  };
}

/** The lane and the step that a point of the drawing lies in. */
export function placeAt(answer, width, x, y) {
  const at = layout(sceneOf(answer, {}, ""), width, answer.steps);
  const step = Math.min(Math.max(Math.floor((x - at.left) / at.scale), 0), answer.steps - 1);
  const middle = (name) => Math.abs(at.y(name) + 17 - y);
  return { step, lane: answer.lanes.reduce((best, name) => (middle(name) < middle(best) ? name : best)) };
}

/** The bar from one step to another, whichever was drawn first. */
export const barOf = (lane, from, to) => [lane, Math.min(from, to), Math.max(from, to) + 1];

const colourOf = ({ who }) => coloursOf([{ marks: who.map((name) => ({ who: name })) }]);

/** A stage that shows bars and, as outlines, others over them: `show(bars, over)`. */
function stageOf(answer, title) {
  const drawn = lanes(sceneOf(answer, {}, title), colourOf(answer));
  const stage = element("div", { className: "stage drawing" }, drawn.node);
  let bars = {};
  const fit = () => {
    drawn.fit(stage.clientWidth || 600, answer.steps);
    drawn.show(answer.steps);
  };
  new ResizeObserver(fit).observe(stage);
  return {
    stage, field: drawn.node,
    show(now, over) {
      bars = now;
      drawn.replace(sceneOf(answer, bars, title), over && sceneOf(answer, over, ""));
      fit();
    },
  };
}

/** The truth, with the guess as dashed outlines over it. */
export function drawingOver(answer, guess) {
  const { stage, show } = stageOf(answer, "The truth.");
  show(answer.truth, guess ?? undefined);
  return stage;
}

/** Bars to be drawn: with a pointer in the figure, or from three menus a bar. */
export function drawingField(answer) {
  const { stage, field, show } = stageOf(answer, "Your guess.");
  let bars = {};
  const radios = new Map(), menus = new Map();
  const name = `tif-${Math.random()}`;
  const node = element("fieldset", { className: "field" },
    element("legend", { textContent: "Draw a bar for each, in the figure or from the menus" }), stage,
    element("div", { className: "bars" }, ...answer.who.map(row)));

  function menu(who, label, texts) {
    const select = element("select", {}, element("option", { value: "", textContent: "–" }),
      ...texts.map((text, i) => element("option", { value: i, textContent: text })));
    select.setAttribute("aria-label", `${who}: ${label}`);
    select.addEventListener("change", () => chosen(who));
    return select;
  }
  function row(who) {
    const radio = element("input", { type: "radio", name, value: who, checked: who === answer.who[0] });
    radio.setAttribute("aria-label", `Draw ${who} in the figure`);
    const steps = Array.from({ length: answer.steps }, (_, i) => i + 1);
    const lane = menu(who, "where", answer.lanes);
    const start = menu(who, "first step", steps.map((i) => `step ${i}`));
    const length = menu(who, "how long", steps.map((i) => (i === 1 ? "1 step" : `${i} steps`)));
    radios.set(who, radio);
    menus.set(who, [lane, start, length]);
    return element("div", { className: `bar ${colourOf(answer)(who)}` },
      element("label", {}, radio, element("span", { className: "who", textContent: who })), lane, " from ", start, " for ", length);
  }
  /** A bar stands as soon as its three menus say where; one that is too long is cut at the last step. */
  function chosen(who) {
    const [lane, start, length] = menus.get(who).map((select) => select.value);
    radios.get(who).checked = true;
    if (lane && start && length) {
      const stop = Math.min(Number(start) + Number(length) + 1, answer.steps);
      put(who, [answer.lanes[lane], Number(start), stop]);
    } else put(who, null, false);
  }
  function put(who, bar, tell = true) {
    bars = { ...bars, [who]: bar };
    if (tell) {
      const [lane, start, length] = menus.get(who);
      lane.value = bar ? answer.lanes.indexOf(bar[0]) : "";
      start.value = bar ? bar[1] : "";
      length.value = bar ? bar[2] - bar[1] - 1 : "";
    }
    show(bars);
  }
  field.addEventListener("pointerdown", (down) => {
    if (node.disabled || down.button) return;
    down.preventDefault();
    field.setPointerCapture(down.pointerId);
    const who = answer.who.find((other) => radios.get(other).checked);
    const place = ({ clientX, clientY }) => {
      const { left, top } = field.getBoundingClientRect();
      return placeAt(answer, stage.clientWidth || 600, clientX - left, clientY - top);
    };
    const first = place(down);
    put(who, barOf(first.lane, first.step, first.step));
    field.onpointermove = (move) => put(who, barOf(first.lane, first.step, place(move).step));
    field.onpointerup = field.onpointercancel = () => {
      field.onpointermove = field.onpointerup = field.onpointercancel = null;
      const open = answer.who.find((other) => !bars[other]);
      if (open) radios.get(open).checked = true;
    };
  });
  show(bars);
  return {
    node,
    read: () => bars,
    write(given) { for (const who of answer.who) put(who, given?.[who] ?? null); },
    lock(is) { node.disabled = is; },
  };
}
