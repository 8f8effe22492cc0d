// A figure whose inputs can be changed: by the ends of its bars, by buttons, sliders and menus.

import { button, element, keepKeys } from "./dom.js";
import { call, newest, stop } from "./engine.js";
import { player } from "./player.js";

const PLACES = ["slot"]; // units of places: a figure of places opens whole, one of moments at its first

/** The place of a point in a space of results, the last knob turning fastest. */
export const placeOf = (knobs, values) =>
  knobs.reduce((place, { name, low, high, step }) =>
    place * (Math.round((high - low) / step) + 1) + Math.round((values[name] - low) / step), 0);

/** One result of many, out of the pool that they share. */
export const unpack = ({ fields, pool, results }, place) =>
  results[place].map((scene) => Object.fromEntries(fields.map((name, i) =>
    [name, Array.isArray(scene[i]) ? scene[i].map((at) => pool[at]) : pool[scene[i]]])));

/** The value that a knob can take next to this one. */
export const bounded = ({ low, high, step }, value) =>
  Math.min(high, Math.max(low, low + Math.round((value - low) / step) * step));

/** A knob in words: what it is set to, with its unit, or the option that is chosen. */
export const told = ({ name, label, unit, options }, value) =>
  (options.length ? `${label}: ${options[value]}.` : `${label || name} ${value} ${unit}`.trimEnd() + ".");

/** What a knob is called on the page. */
const nameOf = (knob) => knob.label || `${knob.name} needs`;
const output = (knob) => element("span", { textContent: knob.value });

/** The three controls: each is a node, and `put(value)` that shows a value there. */
function slider(knob, set) {
  const shown = output(knob), name = nameOf(knob);
  const range = element("input", { type: "range", min: knob.low, max: knob.high, step: knob.step });
  range.setAttribute("aria-label", name);
  range.addEventListener("input", () => set(Number(range.value)));
  return {
    node: element("div", { className: "knob" },
      element("span", { className: "value" }, `${name}: `, shown, ` ${knob.unit}`), range),
    put(value) {
      shown.textContent = value;
      range.value = value;
      range.setAttribute("aria-valuetext", `${value} ${knob.unit}`);
    },
  };
}

function menu(knob, set) {
  const select = element("select", {}, ...knob.options.map((textContent, value) => element("option", { value, textContent })));
  select.addEventListener("change", () => set(Number(select.value)));
  return {
    node: element("label", { className: "knob" }, element("span", { textContent: nameOf(knob) }), select),
    put(value) { select.value = value; },
  };
}

function buttons(knob, set) {
  const shown = output(knob), name = nameOf(knob);
  let now = knob.value;
  const less = button("−", `${name}: less`, () => set(now - knob.step));
  const more = button("+", `${name}: more`, () => set(now + knob.step));
  const node = element("div", { className: "knob" }, `${name} `, less,
    element("span", { className: "value" }, shown, ` ${knob.unit}`), more);
  node.setAttribute("role", "group");
  node.setAttribute("aria-label", name);
  return {
    node,
    put(value) {
      now = value;
      shown.textContent = value;
      less.setAttribute("aria-disabled", value <= knob.low);
      more.setAttribute("aria-disabled", value >= knob.high);
    },
  };
}

const CONTROLS = { slider, choice: menu, bar: buttons, count: buttons };

function render({ model, el }) {
  const knobs = model.get("knobs"), first = model.get("scenes"), baked = model.get("baked");
  const start = Object.fromEntries(knobs.map((knob) => [knob.name, knob.value]));
  let values = { ...start }, shown = first, held = null;

  const status = element("p", { className: "status soft" });
  status.setAttribute("role", "status");
  const set = (knob, value) => change({ ...values, [knob.name]: bounded(knob, value) });
  const controls = knobs.map((knob) => CONTROLS[knob.kind](knob, (value) => set(knob, value)));
  const put = () => knobs.forEach(({ name }, i) => controls[i].put(values[name]));
  put();
  const reset = button("As in the book", "As in the book: set everything back", () => change(start));
  const halt = button("Stop", "Stop computing", () => { stop(); halt.hidden = true; });
  halt.hidden = true;
  const figure = element("div");
  const root = element("div", { className: "tif tif-what-if" },
    element("p", { className: "title", textContent: "What if?" }),
    element("div", { className: "knobs" }, ...controls.map(({ node }) => node), reset, halt), status, figure);
  keepKeys(root);
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", "A figure that you can change");
  el.append(root);

  const bars = knobs.filter((knob) => knob.kind === "bar");
  const playing = player(figure, first, {
    step: first.every(({ unit }) => PLACES.includes(unit)) ? Infinity : 0,
    grips: bars.length ? {
      of: () => Object.fromEntries(bars.map(({ name }) => [name, values[name]])),
      move(name, value) {
        held ??= shown;
        const knob = bars.find((bar) => bar.name === name);
        if (values[name] !== bounded(knob, value)) set(knob, value);
      },
      done() { held = null; },
    } : undefined,
  });

  const ask = newest(
    (wanted) => {
      halt.hidden = !globalThis.tifPython;
      status.textContent = "computing";
      return call(model, model.get("function"), wanted, (words) => { status.textContent = words; })
        .then((scenes) => ({ wanted, scenes }));
    },
    ({ scenes }) => { halt.hidden = true; answer(scenes); },
    (error) => {
      halt.hidden = true;
      status.textContent = `The figure stays as it was: ${error.message.replace(/\.$/, "")}.`;
    });

  /** Take new values, and show what follows from them beside what was there before. */
  function change(wanted) {
    values = { ...wanted };
    put();
    if (placeOf(knobs, values) === placeOf(knobs, start)) answer(first);
    else if (baked.results) answer(unpack(baked, placeOf(knobs, values)));
    else ask(values);
  }
  function answer(scenes) {
    const ghosts = held ?? shown;
    shown = scenes;
    playing.show(scenes, ghosts);
    playing.go(Infinity);
    const words = [...knobs.map((knob) => told(knob, values[knob.name])), ...scenes.map((scene) => scene.finding)];
    const outlined = scenes.some((scene) => scene.marks) ? "Outlined: what was there before." : ""; // only lanes have outlines
    status.replaceChildren(element("span", { className: "unseen", textContent: `${words.join(" ")} ` }), outlined);
  }
  return () => playing.destroy();
}

export default { render };
