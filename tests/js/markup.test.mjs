// The little markup of questions.

import assert from "node:assert/strict";
import { test } from "node:test";
import { spans } from "../../lab/widgets/markup.js";

test("code and emphasis are found, all else is text", () => {
  assert.deepEqual(spans("a `b*c*` and *d e*."), [
    { kind: "text", text: "a " }, { kind: "code", text: "b*c*" }, { kind: "text", text: " and " },
    { kind: "em", text: "d e" }, { kind: "text", text: "." }]);
});

test("a product, a lone sign and tags are text", () => {
  for (const line of ["2 * 3 * 4", "a ` b", "* x", "<b>x</b>", "**"]) {
    assert.deepEqual(spans(line).filter(({ kind }) => kind !== "text"), [], line);
    assert.equal(spans(line).map(({ text }) => text).join(""), line);
  }
});
