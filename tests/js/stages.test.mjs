// Where things stand: trays on a board, and the axis and the tokens of a crowd.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fullest, shelves } from "../../lab/widgets/board.js";
import { ticks, unpackTimes } from "../../lab/widgets/crowd.js";

const BOARD = {
  trays: [{ name: "waiting" }, { name: "seats" }],
  frames: [{ at: 0, places: { A: ["waiting", 0], B: ["waiting", 1], C: ["waiting", 2] } }, { at: 1, places: { A: ["seats", 0] } }],
};

test("a tray is as large as it is ever full", () => {
  assert.equal(fullest(BOARD, "waiting"), 3);
  assert.equal(fullest(BOARD, "seats"), 1);
});

test("in a wide window all lie in a row, in a narrow one rows follow below", () => {
  const wide = shelves(BOARD, 700), narrow = shelves(BOARD, 130);
  assert.equal(wide.at(["waiting", 0]).y, wide.at(["waiting", 2]).y);
  assert.ok(narrow.at(["waiting", 2]).y > narrow.at(["waiting", 0]).y);
  assert.ok(narrow.at(["seats", 0]).y > narrow.at(["waiting", 2]).y);
  assert.ok(narrow.at(["waiting", 1]).x + 44 <= 130);
});

test("ticks are round, begin at 0 and are never more than there is room for", () => {
  assert.deepEqual(ticks(27.9, 6), [0, 5, 10, 15, 20, 25]);
  assert.deepEqual(ticks(1, 4), [0, 0.5, 1]);
  assert.deepEqual(ticks(0.3, 3), [0, 0.1, 0.2, 0.3]);
  for (const end of [0.07, 3, 188, 1e6]) assert.ok(ticks(end, 8).length <= 9, `${end}`);
});

test("packed moments are unpacked", () => {
  assert.deepEqual(unpackTimes({ tick: 0.5, deltas: [2, 0, 3] }), [1, 1, 2.5]);
});
