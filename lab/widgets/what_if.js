// A figure whose inputs can be changed: by the ends of its bars, by buttons, by sliders.

import { button, element, keepKeys } from "./dom.js";
import { call, newest, stop } from "./engine.js";
import { player } from "./player.js";

/** The place of a point in a space of results, the last knob turning fastest. */
export const placeOf = (knobs, values) =>
  knobs.reduce((place, { name, low, high, step }) =>
    place * (Math.round((high - low) / step) + 1) + Math.round((values[name] - low) / step), 0);

/** One result of many, out of the pool that they share. */
export const unpack = ({ fields, pool, results }, place) =>
  results[place].map((scene) => Object.fromEntries(fields.map((name, i) =>
    [name, Array.isArray(scene[i]) ? scene[i].map((at) => pool[at]) : pool[scene[i]]])));

const bounded = ({ low, high, step }, value) =>
  Math.min(high, Math.max(low, low + Math.round((value - low) / step) * step));

function render({ model, el }) {
  const knobs = model.get("knobs"), first = model.get("scenes"), baked = model.get("baked");
  const start = Object.fromEntries(knobs.map((knob) => [knob.name, knob.value]));
  let values = { ...start }, shown = first, held = null;

  const status = element("p", { className: "status soft" });
  status.setAttribute("role", "status");
  const outputs = {};
  const rows = knobs.map((knob) => row(knob));
  const reset = button("As in the book", "As in the book: set everything back", () => change(start));
  const halt = button("Stop", "Stop computing", () => { stop(); halt.hidden = true; });
  halt.hidden = true;
  const figure = element("div");
  const root = element("div", { className: "tif tif-what-if" },
    element("p", { className: "title", textContent: "What if?" }),
    element("div", { className: "knobs" }, ...rows, reset, halt), status, figure);
  keepKeys(root);
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", "A figure that you can change");
  el.append(root);

  const bars = knobs.filter((knob) => knob.kind === "bar");
  const playing = player(figure, first, {
    grips: bars.length ? {
      of: () => Object.fromEntries(bars.map(({ name, low, high }) => [name, { value: values[name], min: low, max: high }])),
      move(name, value) {
        held ??= shown;
        if (values[name] !== value) change({ ...values, [name]: value });
      },
      done() { held = null; },
    } : undefined,
  });

  function row(knob) {
    const name = knob.label || `${knob.name} needs`;
    const output = element("span", { textContent: knob.value });
    const group = element("div", { className: "knob" });
    const words = element("span", { textContent: knob.kind === "slider" ? `${name}: ` : `${name} ` });
    const unit = element("span", { textContent: ` ${knob.unit}` });
    const set = (value) => change({ ...values, [knob.name]: bounded(knob, value) });
    if (knob.kind === "slider") {
      const slider = element("input", { type: "range", min: knob.low, max: knob.high, step: knob.step, value: knob.value });
      slider.setAttribute("aria-label", name);
      slider.setAttribute("aria-valuetext", `${knob.value} ${knob.unit}`);
      slider.addEventListener("input", () => set(Number(slider.value)));
      group.append(element("span", { className: "value" }, words, output, unit), slider);
      outputs[knob.name] = (value) => {
        output.textContent = value;
        slider.value = value;
        slider.setAttribute("aria-valuetext", `${value} ${knob.unit}`);
      };
    } else {
      group.setAttribute("role", "group");
      group.setAttribute("aria-label", name);
      const less = button("−", `${name}: less`, () => set(values[knob.name] - knob.step));
      const more = button("+", `${name}: more`, () => set(values[knob.name] + knob.step));
      group.append(words, less, element("span", { className: "value" }, output, unit), more);
      outputs[knob.name] = (value) => {
        output.textContent = value;
        less.setAttribute("aria-disabled", value <= knob.low);
        more.setAttribute("aria-disabled", value >= knob.high);
      };
      outputs[knob.name](knob.value);
    }
    return group;
  }

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
    for (const [name, put] of Object.entries(outputs)) put(values[name]);
    if (placeOf(knobs, values) === placeOf(knobs, start)) answer(first);
    else if (baked.results) answer(unpack(baked, placeOf(knobs, values)));
    else ask(values);
  }
  function answer(scenes) {
    const ghosts = held ?? shown;
    shown = scenes;
    playing.show(scenes, ghosts);
    playing.go(Infinity);
    const told = [...knobs.map(({ name, unit }) => `${name} ${values[name]} ${unit}.`), ...scenes.map((scene) => scene.finding)];
    status.replaceChildren(element("span", { className: "unseen", textContent: `${told.join(" ")} ` }), "Outlined: what was there before.");
  }
  return () => playing.destroy();
}

export default { render };
