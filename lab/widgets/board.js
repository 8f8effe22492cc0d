// Draws trays and the items in them; from frame to frame an item moves from tray to tray.

import { shape } from "./dom.js";
import { frameAt } from "./frames.js";

const BLOCK = 44, STEP = 52, ROW = 58, CELL = 7;
const MOST_CELLS = 10; // of a stack that is drawn; a higher one is a number

/** The most items that lie in a tray in any frame. */
export const fullest = (board, tray) => Math.max(1, ...board.frames.map(({ places }) =>
  Object.values(places).filter(([name]) => name === tray).length));

/** Where trays and their places stand in a window of `width` pixels; full rows go on below. */
export function shelves(board, width) {
  const narrow = width < 520;
  const words = board.trays.map(({ name, capacity, group }) => Math.max(name.length, capacity && group ? `${group}: ${capacity} in all`.length : 0));
  const names = Math.max(...words) * 7 + 20;
  const left = narrow ? 12 : names;
  const across = Math.max(1, Math.floor((width - left - 8) / STEP));
  const tops = new Map();
  let height = 4;
  for (const { name } of board.trays) {
    height += narrow ? 20 : 0;
    tops.set(name, height);
    height += Math.ceil(fullest(board, name) / across) * ROW + 8;
  }
  const at = ([tray, position]) => ({ x: left + 6 + (position % across) * STEP,
    y: tops.get(tray) + 6 + Math.floor(position / across) * ROW });
  return { narrow, left, tops, at, height, width };
}

/** A stage like that of `lanes`, for a board. */
export function board(scene, colour) {
  const svg = shape("svg", { role: "img" });
  const back = shape("g"), body = shape("g");
  const groups = new Map();
  let shelf = null;
  svg.append(back, body);

  function fit(width) {
    shelf = shelves(scene, width);
    svg.setAttribute("aria-label", `${scene.title} ${scene.conditions}`);
    svg.setAttribute("width", shelf.width);
    svg.setAttribute("height", shelf.height);
    svg.setAttribute("viewBox", `0 0 ${shelf.width} ${shelf.height}`);
    const tops = [...shelf.tops.values(), shelf.height];
    back.replaceChildren(...scene.trays.flatMap(({ name, capacity, group }, i) => {
      const y = tops[i], tall = tops[i + 1] - y - 8 - (shelf.narrow && i + 1 < scene.trays.length ? 20 : 0);
      const place = shelf.narrow ? { x: 6, y: y - 6 } : { x: 6, y: y + 28 };
      const words = [shape("text", { class: "soft", ...place }, name)];
      const first = !group || scene.trays.findIndex((tray) => tray.group === group) === i;
      if (capacity && first) {
        const of = group ? `${group}: ${capacity} in all` : `at most ${capacity}`;
        words.push(shelf.narrow ? shape("text", { class: "soft end", x: shelf.width - 6, y: y - 6 }, of)
          : shape("text", { class: "soft", x: 6, y: y + 45 }, of));
      }
      return [shape("rect", { class: "tray", x: shelf.left, y, width: shelf.width - shelf.left - 2, height: tall, rx: 6 }), ...words];
    }));
    for (const item of scene.items) if (!groups.has(item.id)) {
      const group = shape("g");
      group.append(shape("title", {}, item.note || item.label),
        shape("rect", { class: "box", width: BLOCK, height: 32, rx: 4 }),
        shape("text", { class: "on mid", x: BLOCK / 2, y: 21 }, item.label), shape("g", { class: "stack" }));
      groups.set(item.id, group);
      body.append(group);
    }
  }

  function show(moment) {
    const { places } = frameAt(scene, moment) ?? scene.frames[0];
    for (const item of scene.items) {
      const group = groups.get(item.id), place = places[item.id];
      group.setAttribute("class", `item ${colour(item.who)}${place ? "" : " away"}`);
      if (!place) continue;
      const { x, y } = shelf.at(place);
      group.style.transform = `translate(${x}px, ${y}px)`;
      group.lastChild.replaceChildren(...stack(place[2]));
    }
    return 0;
  }
  return { node: svg, fit, show, replace(other) { scene = other; } };
}

/** Cache blocks below an item: one square each, five in a row, or their number. */
function stack(count) {
  if (count > MOST_CELLS) return [shape("text", { class: "words", x: 0, y: 46 }, `${count} ▪`)];
  return Array.from({ length: count }, (_, i) => shape("rect", { class: "cell",
    x: (i % 5) * (CELL + 2), y: 35 + Math.floor(i / 5) * (CELL + 2), width: CELL, height: CELL }));
}
