// What the reader's choices come to: steps left, marks, the account, and the words for them.

import assert from "node:assert/strict";
import test from "node:test";

import { account, asked, beside, left, marksOf, preempted, sceneOf, told } from "../../lab/widgets/hand.js";

// A needs 1 step, B 2: every state and choice, as lab.figures.hands writes them.
const HAND = {
  requests: [{ id: "A", steps: 1 }, { id: "B", steps: 2 }],
  seats: 2,
  states: {
    "0 0": {}, "0 1": { B: "0 0" }, "0 2": { B: "0 1" },
    "1 0": { A: "0 0" }, "1 1": { A: "0 1", B: "1 0", "A B": "0 0" },
    "1 2": { A: "0 2", B: "1 1", "A B": "0 1" },
  },
  rules: [{ name: "Static batching", scene: { unit: "step" }, ends: { A: 1, B: 2 }, steps: 2, idle: 1 }],
};
const TOGETHER = [["B", "A"], ["B", null]];
const IN_TURN = [["B", null], ["A", null], [null, "B"]];

test("the steps left are those of the state that the choices lead to", () => {
  assert.deepEqual(left(HAND, []), { A: 1, B: 2 });
  assert.deepEqual(left(HAND, TOGETHER.slice(0, 1)), { A: 0, B: 1 });
  assert.deepEqual(left(HAND, IN_TURN), { A: 0, B: 0 });
});

test("who is asked takes the first free seat, and gets up when asked again", () => {
  assert.deepEqual(asked([null, null], "A"), ["A", null]);
  assert.deepEqual(asked([null, "B"], "A"), ["A", "B"]);
  assert.deepEqual(asked(["A", "B"], "A"), [null, "B"]);
  assert.equal(asked(["A", "B"], "C"), null);
});

test("asking changes nothing that is already played", () => {
  const seated = ["A", null];
  asked(seated, "B");
  assert.deepEqual(seated, ["A", null]);
});

test("the first step of a request is prefill and the others are decodes, wherever it sits", () => {
  const roles = marksOf(HAND, IN_TURN).filter((mark) => mark.who).map((mark) => [mark.who, mark.lane, mark.role]);
  assert.deepEqual(roles, [["B", "seat 1", "prefill"], ["A", "seat 1", "prefill"], ["B", "seat 2", "decode"]]);
});

test("ids of marks are unique, and who waits stands in the queue", () => {
  const marks = marksOf(HAND, IN_TURN);
  assert.equal(new Set(marks.map((mark) => mark.id)).size, marks.length);
  assert.deepEqual(marks.filter((mark) => mark.role === "queued").map((mark) => mark.label), ["A", "B"]);
});

test("the account counts ends, steps and idle seat-steps from the marks", () => {
  assert.deepEqual(account(marksOf(HAND, TOGETHER)), { ends: { A: 1, B: 2 }, steps: 2, idle: 1 });
  assert.deepEqual(account(marksOf(HAND, IN_TURN)), { ends: { A: 2, B: 3 }, steps: 3, idle: 3 });
  assert.deepEqual(account([]), { ends: {}, steps: 0, idle: 0 });
});

test("an idle seat that somebody still holds is idle all the same", () => {
  const held = [{ role: "prefill", who: "A", start: 0, stop: 1 }, { role: "idle", who: "A", start: 1, stop: 3 }];
  assert.deepEqual(account(held), { ends: { A: 1 }, steps: 3, idle: 2 });
});

test("only who leaves a seat with work to do is preempted", () => {
  assert.deepEqual(preempted(HAND, TOGETHER), []);
  assert.deepEqual(preempted(HAND, IN_TURN.slice(0, 1)), []);
  assert.deepEqual(preempted(HAND, IN_TURN.slice(0, 2)), ["B"]);
});

test("a change of seats is no preemption", () => {
  assert.deepEqual(preempted(HAND, [["B", null], [null, "B"]]), []);
});

test("a step is told in the words of a timeline", () => {
  assert.equal(told(HAND, TOGETHER.slice(0, 1)), "prefill done: B token 1 of 2, A token 1 of 1; A finished");
  assert.equal(told(HAND, IN_TURN.slice(0, 2)),
    "prefill done: A token 1 of 1; A finished; B was preempted and keeps what it has; idle: seat 2; waiting: B");
});

test("the scene has a frame a step, and its finding is the account", () => {
  const scene = sceneOf(HAND, TOGETHER);
  assert.deepEqual(scene.frames.map((frame) => frame.label), ["1", "2"]);
  assert.equal(scene.finding, "Your hand: ends A step 1, B step 2; idle seat-steps: 1");
  assert.equal(scene.unit, "step");
});

test("the comparison says who ended sooner, who later, and what stood idle", () => {
  const [rule] = HAND.rules;
  assert.equal(beside("Static batching", account(marksOf(HAND, TOGETHER)), rule),
    "Beside static batching: everybody ended at the same step; as many seat-steps stood idle.");
  assert.equal(beside("Static batching", account(marksOf(HAND, IN_TURN)), rule),
    "Beside static batching: A ended 1 step later, B ended 1 step later; 2 more seat-steps stood idle.");
  assert.equal(beside("Static batching", { ends: { A: 1, B: 1 }, steps: 1, idle: 0 }, rule),
    "Beside static batching: B ended 1 step sooner; 1 fewer seat-step stood idle.");
});
