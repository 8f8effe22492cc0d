// Draws lanes against time: marks that last, marks of one moment, brackets over a span.

import { element, shape } from "./dom.js";
import { momentOf } from "./frames.js";

const BOX = 34;
const SPAN = 30; // the height of a lane that holds brackets only
const GRIP = 18; // the width that a pointer needs
const QUIET = ["idle", "waiting", "elsewhere", "queued", "shared", "skipped"]; // what is no work of the engine for a request

/** Past, now or future: what a mark is when the reader stands at a moment. */
export const whenOf = (mark, at) => (mark.start > at ? "future" : mark.stop > at ? "now" : "past");

/**
 * Where everything stands, for a window of `width` pixels. Text keeps its size: a narrow window
 * gets the lanes' names above the lanes, and a long scene becomes wider than the window.
 */
export function layout(scene, width, end) {
  const narrow = width < 520;
  const names = Math.max(...scene.lanes.map((name) => name.length)) * 7 + 16;
  const left = narrow ? 24 : Math.max(64, names);
  const times = scene.frames.map((frame) => frame.at);
  const gaps = times.slice(1).map((time, i) => time - times[i]).filter((gap) => gap > 0);
  const widest = Math.max(...scene.frames.map((frame) => frame.label.length), 2) * 8 + 8;
  const smallest = Math.min(...gaps, end);
  const steps = times.every(Number.isInteger) && smallest === Math.max(...gaps, smallest);
  const words = Math.max(...scene.marks.map((mark) => (mark.label ?? "").length), 0) * 7 + 14;
  // a step keeps its width, and a block of text has room for its words; of measured times the shortest
  // may be too short to be seen
  const needed = scene.unit === "block" ? words
    : steps ? Math.min(widest, 30) / smallest : Math.min(3 / smallest, (30 * times.length) / end);
  const scale = Math.max((width - left - 40) / end, needed);
  const tops = new Map();
  let height = 26;
  for (const name of scene.lanes) {
    const here = scene.marks.filter((mark) => mark.lane === name);
    const spans = here.length > 0 && here.every((mark) => mark.role === "span");
    height += narrow ? 18 : 0;
    tops.set(name, height);
    height += (spans ? SPAN : BOX) + (narrow ? 8 : 12);
  }
  const x = (time) => left + time * scale;
  return { narrow, left, scale, x, y: (name) => tops.get(name), height: height + 4,
           width: Math.max(width, x(end) + 40) };
}

/** The shortest time between two tokens of a lane. */
function tightest(scene) {
  const gaps = scene.lanes.flatMap((lane) => {
    const times = scene.marks.filter((mark) => mark.lane === lane && mark.role === "token").map((mark) => mark.start);
    return times.slice(1).map((time, i) => time - times[i]).filter((gap) => gap > 0);
  });
  return Math.min(...gaps, Infinity);
}

/**
 * What a scene shows of each request as one outline a lane: from its first mark to its last. A lane
 * with a mark whose id is one of `names`, and no request's name, has an outline for each mark.
 */
export function outlines(scene, names = []) {
  const requests = new Set(scene.marks.map((mark) => mark.who));
  const apart = new Set(scene.marks.filter(({ id }) => names.includes(id) && !requests.has(id)).map((mark) => mark.lane));
  const found = new Map();
  for (const { id, role, lane, who, start, stop } of scene.marks) {
    const alone = apart.has(lane);
    if (start === stop || role === "span" || (!alone && (!who || QUIET.includes(role)))) continue;
    const key = `${lane} ${alone ? id : who}`;
    const known = found.get(key) ?? { lane, who, start, stop, ...(alone && { id }) };
    found.set(key, { ...known, start: Math.min(known.start, start), stop: Math.max(known.stop, stop) });
  }
  return [...found.values()];
}

/** The brackets of a scene that stand in a lane of their own. */
export const brackets = ({ marks }) => marks
  .filter((mark) => mark.role === "span" && marks.every((other) => other === mark || other.lane !== mark.lane))
  .map(({ lane, who, start, stop }) => ({ lane, who, start, stop, bracket: true }));

/**
 * The ends that may be dragged, from left to right: of the last bar of a request, or of the mark with
 * that id. `each` is how long one unit of the value is on the axis; undefined where either is 0.
 */
export function ends(scene, values) {
  const bars = outlines(scene, Object.keys(values));
  return Object.entries(values).flatMap(([name, value]) => {
    const mine = bars.filter((bar) => (bar.id ?? bar.who) === name).sort((a, b) => a.stop - b.stop);
    const last = mine.at(-1) ?? scene.marks.find((mark) => mark.id === name);
    const length = mine.reduce((sum, { start, stop }) => sum + stop - start, 0);
    const each = value && length ? length / value : undefined;
    return last ? [{ name, lane: last.lane, who: last.who, stop: last.stop, each }] : [];
  }).sort((a, b) => a.stop - b.stop);
}

/** Places from left to right, moved to the right where they would be nearer than `least`. */
export function spread(places, least) {
  let before = -Infinity;
  return places.map((place) => (before = Math.max(place, before + least)));
}

/** The line of a bracket, from its left foot at x, y. */
const bracket = (x, y, wide) => `M${x} ${y}v-7h${Math.max(wide, 2)}v7`;

/**
 * What of a label fits into `room` pixels: all of it, or what says most in little, as the 40 of
 * "queue 40" and the × of "× falls".
 */
export function labelFor(label, room) {
  const fits = (text) => room > (text.length + text.split("→").length - 1) * 7 + 10; // an arrow takes two places
  const words = label.split(" "), sign = /^[×–]$/.test(words[0]);
  const short = sign ? words[0] : words.at(-1);
  return fits(label) ? [label, true] : [short, (sign || /^\d/.test(short)) && fits(short)];
}

/**
 * The ids of the `queued` marks whose label is written: from left to right, those that begin where the
 * one before in their lane has ended. `x` says where a moment stands.
 */
export function written(marks, x) {
  const free = new Map(), found = new Set();
  for (const { id, role, lane, start, label } of marks) {
    if (role !== "queued" || x(start) < (free.get(lane) ?? -Infinity)) continue;
    found.add(id);
    free.set(lane, x(start) + label.length * 8 + 8);
  }
  return found;
}

/**
 * What a mark looks like at the origin, `wide` pixels long. A token takes no more than `slim` pixels;
 * a bracket has its label at its `start`, at its `end` or nowhere, as `labelled` says; who waits, if
 * `labelled` is true.
 */
function paint(mark, wide, slim, labelled) {
  if (mark.role === "span") {
    const nodes = [shape("path", { class: "bracket", d: bracket(1, 26, wide - 2) })];
    const place = { start: { class: "words", x: 2 }, end: { class: "words end", x: wide } }[labelled];
    if (place) nodes.push(shape("text", { ...place, y: 13 }, mark.label));
    return nodes;
  }
  if (mark.role === "waiting" || mark.role === "queued") {
    const nodes = [shape("line", { class: "wait", x1: 0, x2: wide - 3, y1: 27, y2: 27 })];
    const told = mark.role === "queued" ? labelled : mark.label.length * 7 + 8 < wide;
    if (mark.label && told) nodes.push(shape("text", { class: "words", x: 4, y: 20 }, mark.label));
    return nodes;
  }
  if (mark.start === mark.stop) {
    const token = mark.role === "token";
    const sign = { arrival: "▸", end: "×" }[mark.role] ?? mark.label;
    const text = shape("text", { class: token ? "on mid" : "words mid", x: 0, y: 22 }, sign);
    if (!token) return [text];
    const box = shape("rect", { class: "box", x: -slim / 2, y: 0, width: slim, height: BOX, rx: slim < 12 ? 2 : 4 });
    return slim < 14 ? [box] : [box, text];
  }
  const nodes = [shape("rect", { class: "box", width: Math.max(wide - 3, 3), height: BOX, rx: 4 })];
  const [label, fits] = labelFor(mark.role === "idle" ? "idle" : mark.label, wide - 3);
  if (["prefill", "recompute", "partly", "backward"].includes(mark.role)) {
    const start = fits ? label.length * 8 + 14 : 4;
    const beside = wide - 15 > start; // else the strokes are short, below the label
    const [from, tall] = beside ? [start, BOX] : [3, 7];
    let path = "";
    for (let step = from; step < wide - 3 - tall * 0.35; step += beside ? 7 : 5) path += `M${step} ${BOX}l${tall * 0.35} -${tall}`;
    nodes.push(shape("path", { class: "hatch", d: path }));
  }
  if (mark.role === "elsewhere" || mark.role === "exchange") {
    let path = "";
    for (let x = fits ? label.length * 7 + 18 : 5; x < wide - 5; x += fits ? 14 : 5) path += `M${x} 5v${BOX - 10}`;
    nodes.push(shape("path", { class: "stroke", d: path }));
  }
  if (mark.role === "shared" && wide > 14)
    nodes.push(shape("rect", { class: "box", x: 3, y: 3, width: wide - 9, height: BOX - 6, rx: 2 }));
  if (fits) nodes.push(shape("text", { class: /^[×–]/.test(label) ? "on signed" : "on", x: 7, y: 22 }, label));
  return nodes;
}

/**
 * A stage for one scene: `fit(width, end)` lays it out, `show(moment, next)` stands at a moment and
 * returns its place, `replace(scene, ghost)` moves every mark to where another scene has it.
 * `grips` ({ of: () => {name: value}, move(name, value), done() }) lets the ends of bars be dragged;
 * it hears of values between those that may be.
 */
export function lanes(scene, colour, grips) {
  const svg = shape("svg", { role: "img" });
  const names = element("div", { className: "names", ariaHidden: "true" });
  const [back, ghosts, body, front] = [0, 1, 2, 3].map(() => shape("g"));
  const now = shape("line", { class: "present" });
  const groups = new Map(), held = new Map();
  let at = null, until = 0, whole = 0, before = [], points = false;
  svg.append(back, ghosts, body, front, now);

  function fit(width, end) {
    until = end;
    at = layout(scene, width, end);
    svg.setAttribute("aria-label", `${scene.title} ${scene.conditions}`);
    svg.setAttribute("width", at.width);
    svg.setAttribute("height", at.height);
    svg.setAttribute("viewBox", `0 0 ${at.width} ${at.height}`);
    whole = Math.max(...scene.marks.map((mark) => mark.stop), 0);
    points = scene.marks.some((mark) => mark.start === mark.stop);
    ground();
    call(width);
    const kept = new Set(scene.marks.map((mark) => mark.id));
    for (const [id, { group }] of groups) if (!kept.has(id)) { group.remove(); groups.delete(id); }
    const slim = Math.min(22, Math.max(4, tightest(scene) * at.scale - 2));
    const queue = written(scene.marks, at.x);
    for (const mark of scene.marks) {
      const group = groups.get(mark.id)?.group ?? shape("g");
      const x = at.x(mark.start);
      group.style.transform = `translate(${x}px, ${at.y(mark.lane)}px)`;
      const wide = (mark.stop - mark.start) * at.scale;
      group.replaceChildren(...paint(mark, wide, slim, mark.role === "span" ? labelOf(mark, x, wide) : queue.has(mark.id)));
      groups.set(mark.id, { mark, group });
      body.append(group);
    }
    hold();
  }

  /** Where a bracket has room for its label: it may reach to the next bracket of its lane. */
  function labelOf(mark, x, wide) {
    const later = scene.marks.filter((other) => other.lane === mark.lane && other.start > mark.start).map((other) => other.start);
    const room = (later.length ? at.x(Math.min(...later)) : at.width) - x;
    if (mark.label.length * 7.5 < Math.max(room, wide)) return "start";
    return later.length ? null : "end";
  }

  /** The lanes' names: they stay where they are while a figure that is wider than its box scrolls. */
  function call(width) {
    names.classList.toggle("over", !at.narrow && at.width > width);
    names.style.width = `${at.left - 6}px`;
    names.replaceChildren(...scene.lanes.map((name) => {
      const node = element("span", { textContent: name });
      node.style.top = `${at.y(name) + (at.narrow ? -19 : 8)}px`;
      return node;
    }));
  }

  function ground() {
    const nodes = [];
    let free = 0;
    for (const frame of scene.frames) {
      const x = at.x(frame.at);
      nodes.push(shape("line", { class: "tick", x1: x, x2: x, y1: 20, y2: at.height }));
      if (x < free) continue; // no room for its label
      const label = free || scene.unit === "step" ? frame.label : momentOf(frame.label, scene.unit);
      nodes.push(shape("text", { class: "soft", x: x + 3, y: 14 }, label));
      free = x + label.length * 8 + 6;
    }
    back.replaceChildren(...nodes);
    now.setAttribute("y1", 20);
    now.setAttribute("y2", at.height);
    ghosts.replaceChildren(...before.filter(({ lane }) => scene.lanes.includes(lane)).map(ghostOf));
  }

  function ghostOf({ lane, who, start, stop, bracket: thin }) {
    const x = at.x(start), y = at.y(lane), wide = (stop - start) * at.scale;
    if (thin) return shape("path", { class: `ghost thin ${colour(who)}`, d: bracket(x + 1, y + 29, wide - 2) });
    return shape("rect", { class: `ghost ${colour(who)}`, x: x - 2, y: y - 3, width: wide, height: BOX + 6, rx: 6 });
  }

  /** The grips below the ends of the bars that may be dragged; one that is held stays the same node. */
  function hold() {
    if (!grips) return;
    const found = ends(scene, grips.of());
    const next = new Map(scene.lanes.map((lane) => {
      const here = found.filter((end) => end.lane === lane);
      return [lane, spread(here.map((end) => at.x(end.stop) - 2), GRIP)];
    }));
    for (const { grip } of held.values()) grip.style.visibility = "hidden";
    for (const { name, lane, who, stop, each } of found) {
      const known = held.get(name) ?? gripOf(name);
      const x = next.get(lane).shift(), y = at.y(lane) + BOX - 5;
      known.each = each ?? known.each;
      known.grip.style.visibility = "";
      known.grip.setAttribute("class", `grip ${colour(who)}`);
      known.grip.firstChild.setAttribute("d", `M${at.x(stop) - 2} ${y}L${x + 8} ${y + 7}v9h-16v-9z`);
    }
  }

  function gripOf(name) {
    const grip = shape("g"), known = { grip, each: 1 };
    grip.append(shape("path"));
    grip.addEventListener("pointerdown", (down) => {
      down.preventDefault();
      grip.setPointerCapture(down.pointerId);
      const value = grips.of()[name], unit = at.scale * known.each;
      grip.onpointermove = (move) => grips.move(name, value + (move.clientX - down.clientX) / unit);
      grip.onpointerup = grip.onpointercancel = () => { grip.onpointermove = null; grips.done(); };
    });
    held.set(name, known);
    front.append(grip);
    return known;
  }

  function show(moment, next) {
    for (const { mark, group } of groups.values())
      group.setAttribute("class", `mark ${mark.role} ${colour(mark.who)} ${whenOf(mark, moment)}`);
    const line = Math.min(points ? moment : next ?? until, whole);
    now.style.transform = `translateX(${at.x(line)}px)`;
    for (const { mark, group } of groups.values()) {
      if (mark.role !== "waiting" && mark.role !== "queued") continue;
      const seen = Math.min(mark.stop, Math.max(line, mark.start)) - mark.start;
      group.firstChild.setAttribute("x2", Math.max(seen * at.scale - 3, 0));
    }
    return at.x(Math.min(moment, whole)); // whoever has ended before the others stays in sight
  }

  function replace(other, ghost) {
    const names = Object.keys(grips?.of() ?? {});
    const drawn = (one) => [...outlines(one, names), ...brackets(one)];
    const now = drawn(other).map((bar) => JSON.stringify(bar));
    before = ghost ? drawn(ghost).filter((bar) => !now.includes(JSON.stringify(bar))) : [];
    scene = other;
  }

  return { node: element("div", { className: "lanes" }, svg, names), fit, show, replace };
}
