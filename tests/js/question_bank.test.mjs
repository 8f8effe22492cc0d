// The button over all answers.

import assert from "node:assert/strict";
import { test } from "node:test";
import { words } from "../../book/_static/question_bank.js";

test("the button closes only when nothing is left to open", () => {
  for (const [open, act] of [[0, "Open"], [1, "Open"], [14, "Open"], [15, "Close"]]) {
    assert.deepEqual(words(open, 15), { act: `${act} all answers`, state: `${open} of 15 answers are open` });
  }
});
