// Draws cards that hold cells of a network: cells go from card to card and keep their places.

import { shape } from "./dom.js";
import { frameAt } from "./frames.js";

const GAP = 14, HEAD = 28, NAME = 22, METER = 14, BETWEEN = 96, GRIP = 18;
const CELLS = [32, 28, 24, 20]; // the widths of a cell, of which the largest is taken that has room

/** How much lies on a card in a frame. */
export const heldOn = (scene, frame, card) =>
  scene.cell_size * Object.values(frame.cells).filter((name) => name === card).length;

/** Rows and columns of cells in a block. */
const sideOf = (scene) => Math.max(...scene.cells.map(({ row, column }) => Math.max(row, column))) + 1;

/**
 * Where things stand in a window of `width` pixels: blocks side by side in a card, as many as there
 * is room for; cards side by side with room for messages between them, or below one another.
 */
export function placed(scene, width) {
  const blocks = scene.blocks.length, count = scene.cards.length, least = CELLS.at(-1);
  const cardOf = (cell, across) => across * (sideOf(scene) * cell + GAP) + GAP;
  const row = (cell) => count * cardOf(cell, blocks) + (count - 1) * BETWEEN + 4;
  const narrow = row(least) > width;
  const cell = CELLS.find((size) => (narrow ? cardOf(size, blocks) + 4 : row(size)) <= width) ?? least;
  const side = sideOf(scene) * cell, step = side + GAP;
  const across = Math.max(1, Math.min(blocks, Math.floor((width - 4 - GAP) / step)));
  const grid = HEAD + Math.ceil(blocks / across) * (side + NAME);
  const card = { width: cardOf(cell, across), height: grid + METER + 46 };
  const network = { x: 2, y: 0 }, top = grid + 8;
  const cards = new Map(scene.cards.map((name, i) => [name, narrow
    ? { x: 2, y: top + i * (card.height + 46), ...card }
    : { x: 2 + i * (card.width + BETWEEN), y: top, ...card }]));
  const spot = ({ block, row, column }, name) => {
    const { x, y } = cards.get(name) ?? network;
    return { x: x + GAP + (block % across) * step + column * cell,
      y: y + HEAD + Math.floor(block / across) * (side + NAME) + row * cell };
  };
  const last = [...cards.values()].at(-1);
  return { narrow, network, cards, spot, cell, side, inner: card.width - 2 * GAP, meter: grid + 4,
    width: last.x + card.width + 2, height: last.y + card.height + 4 };
}

/** Where a message stands between two cards: messages one way lie beside those the other way. */
export function midway(at, from, to) {
  const a = at.cards.get(from), b = at.cards.get(to);
  if (at.narrow) {
    const down = a.y < b.y, upper = down ? a : b;
    return { x: a.x + (down ? 0 : 40), y: upper.y + upper.height + 11, sign: down ? "↓" : "↑" };
  }
  const right = a.x < b.x, left = right ? a : b;
  return { x: left.x + left.width + BETWEEN / 2 - 16, y: a.y + (right ? 52 : 82), sign: right ? "→" : "←" };
}

/** A stage like that of `lanes`, for cards. `grips` let the limit of a card be dragged. */
export function cards(scene, colour, grips) {
  const svg = shape("svg", { role: "img" });
  const back = shape("g"), body = shape("g"), wires = shape("g"), front = shape("g");
  const groups = new Map(), parts = new Map();
  let at = null, before = null;
  svg.append(back, body, wires, front);

  /** The end of the meter's bar for so much. */
  const wide = (amount) => Math.min(1, amount / scene.most) * at.inner;

  function fit(width) {
    at = placed(scene, width);
    svg.setAttribute("aria-label", `${scene.title} ${scene.conditions}`);
    for (const name of ["width", "height"]) svg.setAttribute(name, at[name]);
    svg.setAttribute("viewBox", `0 0 ${at.width} ${at.height}`);
    const { network } = at;
    const outlines = (card) => scene.blocks.map((name, block) => {
      const { x, y } = at.spot({ block, row: 0, column: 0 }, card);
      return [shape("rect", { class: "slot", x, y, width: at.side, height: at.side }),
        shape("text", { class: "soft", x, y: y + at.side + 14 }, at.side < 60 ? name.replace("layer ", "L") : name)];
    }).flat();
    parts.clear();
    back.replaceChildren(shape("text", { class: "soft", x: network.x, y: 16 }, "the network, once"), ...outlines(""),
      ...scene.cards.flatMap((name) => {
        const { x, y, width: w, height } = at.cards.get(name), low = y + at.meter;
        const part = {
          box: shape("rect", { class: "card-box", x, y, width: w, height, rx: 6 }),
          state: shape("text", { class: "end", x: x + w - GAP, y: y + 17 }),
          bar: shape("rect", { class: "fill", x: x + GAP, y: low, height: METER, rx: 2 }),
          over: shape("path", { class: "over" }),
          told: shape("text", { x: x + GAP, y: low + METER + 34 }),
        };
        parts.set(name, part);
        const limit = x + GAP + wide(scene.limit);
        return [part.box, shape("text", { x: x + GAP, y: y + 17 }, name), part.state, ...outlines(name),
          shape("rect", { class: "slot", x: x + GAP, y: low, width: at.inner, height: METER, rx: 2 }), part.bar, part.over,
          shape("line", { class: "limit", x1: limit, x2: limit, y1: low - 4, y2: low + METER + 4 }), part.told,
          ...(before ? ghostOf(name, x + GAP, low) : [])];
      }));
    for (const cell of scene.cells) if (!groups.has(cell.id)) {
      const group = shape("g");
      group.append(shape("rect", { class: "box", rx: 2 }));
      groups.set(cell.id, group);
      body.append(group);
    }
    for (const group of groups.values())
      for (const name of ["width", "height"]) group.firstChild.setAttribute(name, at.cell - 3);
    hold();
  }

  /** What was there before: how much lay on a card in the end, and its limit. */
  function ghostOf(name, x, low) {
    const held = wide(heldOn(before, before.frames.at(-1), name)), limit = x + wide(before.limit);
    return [shape("rect", { class: "ghost none thin", x, y: low - 2, width: held, height: METER + 4 }),
      shape("path", { class: "ghost none thin", d: `M${limit} ${low - 6}v${METER + 12}` })];
  }

  function show(moment) {
    const frame = frameAt(scene, moment) ?? scene.frames[0];
    for (const cell of scene.cells) {
      const group = groups.get(cell.id), card = frame.cells[cell.id];
      const work = frame.at_work.includes(cell.id) ? "at-work" : "";
      group.setAttribute("class", `piece ${"abcdef"[cell.block % 6]} ${work}${card === undefined ? " away" : ""}`);
      const { x, y } = at.spot(cell, card ?? "");
      group.style.transform = `translate(${x + 1}px, ${y + 1}px)`;
    }
    const begun = frame.busy.length > 0;
    for (const [name, { box, state, bar, over, told }] of parts) {
      const held = heldOn(scene, frame, name), busy = frame.busy.includes(name);
      box.setAttribute("class", `card-box${busy ? " busy" : begun ? " idle" : ""}`);
      state.textContent = busy ? "works" : begun ? "idle" : "";
      bar.setAttribute("width", wide(held));
      const x = Number(bar.getAttribute("x")), y = Number(bar.getAttribute("y"));
      let strokes = "";
      for (let s = wide(scene.limit) + 3; s < wide(held) - 3; s += 6) strokes += `M${x + s} ${y + METER}l4 -${METER}`;
      over.setAttribute("d", strokes);
      told.textContent = `${held} of ${scene.limit} ${scene.size_unit}${held > scene.limit ? ": too much" : ""}`;
      told.setAttribute("class", held > scene.limit ? "wrong" : "");
    }
    wires.replaceChildren(...frame.messages.map(([from, to]) => {
      const { x, y, sign } = midway(at, from, to), message = shape("g", { class: "message" });
      message.style.transform = `translate(${x}px, ${y}px)`;
      message.append(shape("rect", { width: 32, height: 24, rx: 3 }), shape("text", { class: "mid", x: 16, y: 17 }, sign));
      return message;
    }), ...sentence(frame));
    return 0;
  }

  /** What is sent, and how many messages were. */
  function sentence({ exchange, sent }) {
    if (scene.cards.length < 2) return [];
    const first = at.cards.get(scene.cards[0]);
    const place = at.narrow ? { class: "soft", x: first.x + 84, y: first.y + first.height + 28 }
      : { class: "soft mid", x: first.x + first.width + BETWEEN / 2, y: first.y + 40 };
    if (at.narrow) return [shape("text", place, [exchange, `${sent} sent`].filter(Boolean).join(", "))];
    return [shape("text", place, exchange), shape("text", { ...place, y: first.y + 128 }, `${sent} sent`)];
  }

  /** One grip below the limit of each card. */
  function hold() {
    const value = grips?.of()[scene.knob];
    if (value === undefined) return;
    scene.cards.forEach((name, i) => {
      const grip = front.children[i] ?? front.appendChild(gripOf());
      const { x, y } = at.cards.get(name), low = y + at.meter + METER + 4, middle = x + GAP + wide(scene.limit);
      grip.firstChild.setAttribute("d", `M${middle} ${low}l${GRIP / 2} 7v8h-${GRIP}v-8z`);
    });
  }

  function gripOf() {
    const grip = shape("g", { class: "grip none" });
    grip.append(shape("path"));
    grip.addEventListener("pointerdown", (down) => {
      down.preventDefault();
      grip.setPointerCapture(down.pointerId);
      const value = grips.of()[scene.knob], unit = at.inner / scene.most;
      grip.onpointermove = (move) => grips.move(scene.knob, value + (move.clientX - down.clientX) / unit);
      grip.onpointerup = grip.onpointercancel = () => { grip.onpointermove = null; grips.done(); };
    });
    return grip;
  }

  return { node: svg, fit, show, replace(other, ghost) { scene = other; before = ghost ?? null; } };
}
