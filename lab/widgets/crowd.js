// Draws very many lanes on a canvas: painted once as past and once as future, then only cut at now.

import { element } from "./dom.js";

const LEFT = 44, TOP = 22, TICK = 72;
const TALLEST = 620, LOWEST = 200;
const NAMES = { waiting: "waits", shared: "waits for a shared prompt", prefill: "prefill", decode: "decode", stalled: "stalled",
  preempted: "has lost its seat", recompute: "recompute" };
const PAINTS = { waiting: "line", shared: "f", prefill: "b", decode: "a", stalled: "e", preempted: "wrong", recompute: "d", end: "wrong" };

/** Round moments from 0 to `end`, at most `most` of them: steps of 1, 2 or 5 times a power of ten. */
export function ticks(end, most) {
  const least = end / Math.max(most, 1), power = 10 ** Math.floor(Math.log10(least));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= least);
  return Array.from({ length: Math.floor(end / step + 1e-9) + 1 }, (_, i) => Number((i * step).toPrecision(12)));
}

/** The moments that the deltas of packed dots stand for. */
export function unpackTimes({ tick, deltas }) {
  let sum = 0;
  return deltas.map((delta) => (sum += delta) * tick);
}

/** A stage like that of `lanes`, for a scene of hundreds of lanes. Only `replace` has no ghosts. */
export function crowd(scene) {
  const canvas = element("canvas");
  canvas.setAttribute("role", "img");
  const key = element("p", { className: "key" });
  const node = element("div", { className: "crowd" }, canvas, key);
  const past = element("canvas"), future = element("canvas");
  let width = 600, height = LOWEST, end = 1, sharp = 1, shown = 0;
  let near = false, painted = false; // what is out of sight is painted when it comes near

  const x = (time) => LEFT + (time * (width - LEFT - 12)) / end;
  const tint = (name) => getComputedStyle(node).getPropertyValue(`--tif-${name}`).trim() || "gray";

  function fit(space, until) {
    end = until;
    width = space;
    height = TOP + Math.min(TALLEST, Math.max(LOWEST, scene.lanes.length * 2)) + 4;
    sharp = window.devicePixelRatio || 1;
    for (const one of [canvas, past, future]) {
      one.width = Math.round(width * sharp);
      one.height = Math.round(height * sharp);
    }
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    canvas.setAttribute("aria-label", `${scene.title} ${scene.conditions}`);
    painted = false;
    const roles = new Set(scene.marks.map((mark) => mark.role));
    key.replaceChildren(...Object.keys(NAMES).filter((role) => roles.has(role)).flatMap((role) => {
      const swatch = element("span", { className: "swatch" });
      swatch.style.background = tint(PAINTS[role]);
      return [element("span", { className: "entry" }, swatch, NAMES[role])];
    }));
  }

  function paint(onto, full) {
    const pen = onto.getContext("2d");
    pen.setTransform(sharp, 0, 0, sharp, 0, 0);
    pen.clearRect(0, 0, width, height);
    axis(pen);
    const tall = (height - TOP - 4) / scene.lanes.length;
    const y = new Map(scene.lanes.map((name, i) => [name, TOP + i * tall]));
    for (const [role, name] of Object.entries(PAINTS)) {
      pen.fillStyle = tint(full ? name : "line");
      pen.globalAlpha = full && role !== "decode" ? 1 : 0.35; // its tokens are painted over it
      for (const mark of scene.marks)
        if (mark.role === role)
          pen.fillRect(x(mark.start), y.get(mark.lane), Math.max(x(mark.stop) - x(mark.start), 1), Math.max(tall, 0.5));
    }
    if (full) {
      pen.fillStyle = tint(PAINTS.decode);
      pen.globalAlpha = 1;
      for (const dots of scene.dots) {
        let drawn = -1;
        for (const time of unpackTimes(dots)) {
          const column = Math.round(x(time) * sharp);
          if (column === drawn) continue; // one pixel is enough
          drawn = column;
          pen.fillRect(column / sharp, y.get(dots.lane), 1, Math.max(tall, 0.5));
        }
      }
    }
    pen.globalAlpha = 1;
  }

  function axis(pen) {
    pen.font = "13px system-ui, sans-serif";
    pen.fillStyle = tint("soft");
    for (const time of ticks(end, (width - LEFT) / TICK)) {
      if (x(time) > width - 40) continue;
      pen.fillText(time ? time : `0 ${scene.unit}`, x(time) + 3, 14);
      pen.fillRect(x(time), 18, 1, 4);
    }
    const names = [scene.lanes[0], scene.lanes.at(-1)];
    pen.fillText(names[0], 2, TOP + 12, LEFT - 6);
    if (names[1] !== names[0]) pen.fillText(names[1], 2, height - 6, LEFT - 6);
  }

  function show(moment) {
    shown = moment;
    if (near) draw();
    return x(moment);
  }

  function draw() {
    if (!painted) {
      paint(past, true);
      paint(future, false);
      painted = true;
    }
    const pen = canvas.getContext("2d");
    const now = Math.round(x(shown) * sharp), tall = canvas.height, wide = canvas.width;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, wide, tall);
    if (now > 0) pen.drawImage(past, 0, 0, now, tall, 0, 0, now, tall);
    if (now < wide) pen.drawImage(future, now, 0, wide - now, tall, now, 0, wide - now, tall);
    pen.fillStyle = tint("ink");
    pen.fillRect(now, 18 * sharp, 1.5 * sharp, tall);
  }

  const come = (is) => { near = is; show(shown); };
  const sight = new IntersectionObserver((seen) => come(seen.at(-1).isIntersecting), { rootMargin: "400px" });
  sight.observe(node);
  const print = () => come(true);
  window.addEventListener("beforeprint", print);
  const again = new MutationObserver(() => { fit(width, end); show(shown); });
  again.observe(document.documentElement, { attributeFilter: ["data-theme"] });
  again.observe(document.body, { attributeFilter: ["data-jp-theme-light"] });
  return {
    node, fit, show,
    replace(other) { scene = other; },
    destroy() {
      again.disconnect();
      sight.disconnect();
      window.removeEventListener("beforeprint", print);
    },
  };
}
