// Draws numbered cells and the rows that lead to them, as tables: cells stay, and change hands.

import { element } from "./dom.js";
import { frameAt } from "./frames.js";

const CELL = 74, HEAD = 34; // pixels a cell and a row's name take at least

/** How many cells stand side by side in a window of `width` pixels: 3, 4, 8 or 16, or all of them. */
export function columnsIn(width, count) {
  const fits = [16, 8, 4].find((columns) => HEAD + columns * CELL <= width) ?? 3;
  return Math.min(fits, count);
}

/** The holders of a cell in short: three by name, of more the number. */
export const namesIn = (who) => [...who.slice(0, 3), ...(who.length > 3 ? [`+${who.length - 3}`] : [])].join(" ");

/** What a screen reader says of a cell. */
export function cellWords(number, [role, who, filled, note], { cell, slots }) {
  const whose = who.length ? `held by ${who.join(", ")}` : role;
  const much = who.length ? [filled < slots ? `${filled} of ${slots} slots filled` : "full"] : [];
  return [`${cell} ${number}`, whose, ...much, ...(note ? [note] : [])].join(", ");
}

/** The cell that a key leads to from cell `from`, or null if it is none of the grid's keys. */
export function cellAfter(key, from, columns, count) {
  const row = from - (from % columns);
  const to = { ArrowLeft: from - 1, ArrowRight: from + 1, ArrowUp: from - columns, ArrowDown: from + columns,
    Home: row, End: Math.min(row + columns, count) - 1 }[key];
  if (to === undefined) return null;
  return to < 0 || to >= count ? from : to;
}

/** A stage like that of `lanes`, for a grid. */
export function grid(scene, colour) {
  const sum = element("p", { className: "soft" });
  const pool = element("table", { className: "pool" });
  const rows = element("table", { className: "rows" });
  const node = element("div", { className: "grid" }, sum, element("div", { className: "both" }, pool, rows));
  let columns = 0, cells = [], at = 0;
  pool.setAttribute("role", "grid");
  pool.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const to = cellAfter(event.key, at, columns, cells.length);
    if (to === null && event.key !== "Escape") return;
    event.preventDefault();
    event.stopPropagation();
    if (to === null) return pool.closest(".tif-player").focus();
    stand(to);
    cells[at].focus();
  });
  pool.addEventListener("focusin", (event) => {
    const found = cells.indexOf(event.target);
    if (found >= 0) stand(found);
  });

  /** One cell is reached by Tab, the others from it by arrows. */
  function stand(number) {
    cells[at].tabIndex = -1;
    at = number;
    cells[at].tabIndex = 0;
  }

  function fit(width) {
    const count = scene.frames[0].cells.length, now = columnsIn(width, count);
    const name = `${scene.title} Arrow keys lead from ${scene.cell} to ${scene.cell}.`;
    pool.setAttribute("aria-label", name);
    if (now === columns && cells.length === count) return;
    columns = now;
    at = Math.min(at, count - 1);
    cells = Array.from({ length: count }, () => element("td", { tabIndex: -1 }));
    const heads = Array.from({ length: columns }, (_, i) => head("col", `+${i}`));
    const lines = Array.from({ length: Math.ceil(count / columns) }, (_, row) =>
      element("tr", {}, head("row", row * columns), ...cells.slice(row * columns, (row + 1) * columns)));
    pool.replaceChildren(element("thead", {}, element("tr", {}, head("col", scene.cell), ...heads)), element("tbody", {}, ...lines));
    stand(at);
  }

  function show(moment) {
    const frame = frameAt(scene, moment) ?? scene.frames[0];
    sum.textContent = frame.sum;
    frame.cells.forEach((cell, number) => {
      const [role, who, filled, note] = cell;
      cells[number].className = `${role} ${who.length === 1 ? colour(who[0]) : "none"}${note ? " fresh" : ""}`;
      cells[number].replaceChildren(element("span", { className: "unseen", textContent: cellWords(number, cell, scene) }),
        ...inside(number, role, who, filled, note));
    });
    const some = [...Object.entries(frame.rows).map(([who, row]) => [who, row.map((cell, place) => step(place, cell, frame))]),
      ...Object.entries(frame.aside).map(([who, text]) => [who, [element("span", { textContent: text })]])];
    rows.hidden = !some.length;
    rows.replaceChildren(element("caption", { textContent: `${scene.row}s: place in the request → ${scene.cell}` }),
      element("tbody", {}, ...some.map(([who, steps]) => element("tr", {},
        element("th", { scope: "row", className: colour(who) }, element("span", { className: "name", textContent: who })),
        element("td", {}, ...steps)))));
    return 0;
  }

  function inside(number, role, who, filled, note) {
    const part = filled < scene.slots && who.length ? `${filled}/${scene.slots}` : "";
    const bar = element("span", { className: "bar" }, element("span"));
    bar.firstChild.style.width = `${(100 * filled) / scene.slots}%`;
    const seen = [
      element("span", { className: "line soft" }, element("span", { textContent: number }), element("span", { textContent: part })),
      element("span", { className: "name", textContent: namesIn(who) || role }), bar,
      element("span", { className: "note", textContent: note }),
    ];
    for (const one of seen) one.setAttribute("aria-hidden", "true"); // the words say the same
    return seen;
  }

  function step(place, cell, frame) {
    const [role, , filled] = frame.cells[cell];
    const part = filled < scene.slots ? ` (${filled}/${scene.slots})` : "";
    return element("span", { className: role === "shared" ? "place shared" : "place", textContent: `${place} → ${cell}${part}` });
  }
  return { node, fit, show, replace(other) { scene = other; } };
}

const head = (scope, text) => element("th", { scope, textContent: text });
