// What a seed chooses, and where a drawn bar lies.

import assert from "node:assert/strict";
import { test } from "node:test";
import { barOf, placeAt, sceneOf } from "../../lab/widgets/drawing.js";
import { layout } from "../../lab/widgets/lanes.js";
import { variantOf } from "../../lab/widgets/self_check.js";

test("a seed chooses one of twelve variants, and a page without one none", () => {
  assert.deepEqual(["?seed=0", "?seed=5", "?seed=2026", "?a=1&seed=12"].map(variantOf), [0, 5, 2026 % 12, 0]);
  assert.equal(variantOf("?seed=123456789012345678901234567890"), Number(123456789012345678901234567890n % 12n));
  assert.deepEqual(["", "?seed=", "?seed=x", "?seed=-1", "?seed=1.5"].map(variantOf), [null, null, null, null, null]);
});

const answer = { lanes: ["seat 1", "seat 2"], steps: 6, who: ["A", "B"] };

test("a bar reaches from the first step to the last, whichever way it is drawn", () => {
  assert.deepEqual(barOf("seat 1", 1, 3), ["seat 1", 1, 4]);
  assert.deepEqual(barOf("seat 1", 3, 1), ["seat 1", 1, 4]);
  assert.deepEqual(barOf("seat 1", 2, 2), ["seat 1", 2, 3]);
});

for (const width of [360, 900]) {
  test(`in ${width} pixels every point of a lane is found again`, () => {
    const at = layout(sceneOf(answer, {}, ""), width, answer.steps);
    for (const [step, lane] of [[0, "seat 1"], [5, "seat 2"], [3, "seat 1"]]) {
      assert.deepEqual(placeAt(answer, width, at.x(step + 0.5), at.y(lane) + 20), { step, lane });
    }
    assert.deepEqual(placeAt(answer, width, -50, 0), { step: 0, lane: "seat 1" });
    assert.deepEqual(placeAt(answer, width, 5000, 5000), { step: 5, lane: "seat 2" });
  });
}

test("a drawn scene says in words what is drawn", () => {
  assert.equal(sceneOf(answer, {}, "").conditions, "Nothing is drawn yet.");
  const scene = sceneOf(answer, { B: ["seat 2", 1, 4] }, "");
  assert.equal(scene.conditions, "B in seat 2, steps 2 to 4.");
  assert.deepEqual(scene.marks.map(({ id, lane, start, stop }) => [id, lane, start, stop]), [["B", "seat 2", 1, 4]]);
});
