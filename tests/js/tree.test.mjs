// The arithmetic of a tree: which line stands within which.

import assert from "node:assert/strict";
import { test } from "node:test";
import { nested } from "../../lab/widgets/tree.js";

const shape = (branches) => branches.map(({ node: [, label], below }) => [label, shape(below)]);

test("lines with depths become lists within lists", () => {
  const lines = [[0, "a"], [1, "b"], [2, "c"], [1, "d"], [0, "e"], [1, "f"]];
  assert.deepEqual(shape(nested(lines)), [["a", [["b", [["c", []]]], ["d", []]]], ["e", [["f", []]]]]);
  assert.deepEqual(nested([]), []);
});
