// The arithmetic of a grid: how wide it is, where a key leads, what a cell is called.

import assert from "node:assert/strict";
import { test } from "node:test";
import { cellAfter, cellWords, columnsIn, namesIn } from "../../lab/widgets/grid.js";
import { coloursOf } from "../../lab/widgets/player.js";

test("a window is filled with 4, 8 or 16 cells a row, and a narrow one keeps 3", () => {
  assert.deepEqual([200, 300, 360, 640, 1300].map((width) => columnsIn(width, 64)), [3, 3, 4, 8, 16]);
  assert.equal(columnsIn(1300, 6), 6);
  assert.equal(columnsIn(300, 3), 3);
});

test("arrows lead to the cell beside, above and below, and stop at the edges", () => {
  const after = (key, from) => cellAfter(key, from, 4, 10);
  assert.deepEqual(["ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp"].map((key) => after(key, 5)), [6, 4, 9, 1]);
  assert.deepEqual([after("ArrowLeft", 0), after("ArrowUp", 2), after("ArrowRight", 9), after("ArrowDown", 6)], [0, 2, 9, 6]);
  assert.deepEqual([after("Home", 6), after("End", 6), after("End", 9), after("Home", 9)], [4, 7, 9, 8]);
  assert.equal(after("a", 1), null);
  assert.equal(after("Escape", 1), null);
});

test("a cell says its number, whose it is, how full it is and what happened", () => {
  const of = { cell: "block", slots: 16 };
  assert.equal(cellWords(3, ["used", ["A"], 9, "new"], of), "block 3, held by A, 9 of 16 slots filled, new");
  assert.equal(cellWords(0, ["shared", ["A", "B"], 16, ""], of), "block 0, held by A, B, full");
  assert.equal(cellWords(7, ["cached", [], 16, "kept"], of), "block 7, cached, kept");
  assert.equal(cellWords(8, ["free", [], 0, ""], of), "block 8, free");
});

test("many holders are told by three names and the number of the others", () => {
  assert.deepEqual([[], ["A"], ["A", "B", "C"], ["A", "B", "C", "D", "E"]].map(namesIn), ["", "A", "A B C", "A B C +2"]);
});

test("the holders of a grid have the colours of their names", () => {
  assert.deepEqual(["A", "C", "?"].map(coloursOf([{ who: ["A", "C"] }])), ["a", "c", "none"]);
});
