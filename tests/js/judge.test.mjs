// What is right, what is wrong, and which turn led there.

import assert from "node:assert/strict";
import { test } from "node:test";
import { inWords, judge, parseNumber, placeOf, quantity, shown, span } from "../../lab/widgets/judge.js";

const close = (x, y) => assert.ok(Math.abs(x - y) < 1e-12, `${x} is not ${y}`);

for (const [text, value] of [
  ["1/3", 1 / 3], ["-2 / 4", -0.5], ["33 %", 0.33], ["33%", 0.33], ["1,024", 1024], ["1 024", 1024],
  ["12,345,678.5", 12345678.5], ["1.5e3", 1500], ["2E-3", 0.002], ["−2", -2], ["+7", 7], [" 12 ", 12],
  [".5", 0.5], ["5.", 5], ["0", 0], ["1\u202f024", 1024], ["1/3 %", 1 / 300],
]) {
  test(`“${text}” is ${value}`, () => close(parseNumber(text).value, value));
}

for (const [text, reason] of [
  ["", /Nothing is written/], ["   ", /Nothing is written/], ["four", /not a number/], ["1,5", /two ways/],
  ["0,012", /two ways/], ["-0,500", /two ways/], ["00,012", /two ways/], ["0,012,500", /not a number/], ["012,500", /two ways/],
  ["0,33 %", /two ways/], ["3,0", /two ways/], ["0 012", /not a number/],
  ["1,02,4", /not a number/], ["1/0", /below the line/], ["1/2/3", /not a number/], ["--2", /not a number/],
  [".", /not a number/], ["e3", /not a number/], ["1e999", /not a number/], ["Infinity", /not a number/],
  ["0x10", /not a number/], ["%", /not a number/], ["3 4", /not a number/], ["/2", /not a number/],
]) {
  test(`“${text}” is no number, and the reason says why`, () => {
    assert.equal(parseNumber(text).value, null);
    assert.match(parseNumber(text).reason, reason);
  });
}

test("the worth of the last digit is known, and a fraction is exact", () => {
  close(parseNumber("0.33").place, 0.01);
  close(parseNumber("1.5e3").place, 100);
  close(parseNumber("33 %").place, 0.01);
  assert.equal(parseNumber("1/3").place, 0);
});

test("numbers are shown short, with commas and a true minus", () => {
  assert.deepEqual([shown(1024), shown(1 / 3), shown(-2), shown(0), shown(123456)], ["1,024", "0.3333", "−2", "0", "123,500"]);
  assert.deepEqual([quantity(4, "steps"), quantity(4, "")], ["4 steps", "4"]);
});

test("one of a unit is said as one", () => {
  const units = ["steps", "seat-steps", "tokens/s", "dollars", "ms", "s", "%"];
  assert.deepEqual(units.map((unit) => quantity(1, unit)), ["1 step", "1 seat-step", "1 token/s", "1 dollar", "1 ms", "1 s", "1 %"]);
  assert.deepEqual(units.map((unit) => quantity(0.5, unit)).slice(0, 3), ["0.5 steps", "0.5 seat-steps", "0.5 tokens/s"]);
  assert.deepEqual([span(2, 3), span(0, 4)], ["step 3", "steps 1 to 4"]);
});

const number = (answer) => ({ kind: "number", answer: { units: [{ name: answer.unit, factor: 1 }], tolerance: 0, wrong: [], ...answer } });
const idle = number({ value: 4, unit: "steps", wrong: [
  { value: 2, method: "counting requests", says: "Two requests, but four seats of steps." }] });
const say = (exercise, text, unit = exercise.answer.unit) => judge(exercise, { text, unit });

test("the right number is right, with its unit or without", () => {
  for (const text of ["4", "4.0", "8/2", "4 steps", "4e0"]) assert.equal(say(idle, text).right, true, text);
});

test("a known wrong number names its turn", () => {
  assert.deepEqual(say(idle, "2"), { right: false, says: "Two requests, but four seats of steps.", method: "counting requests" });
});

test("an unknown wrong number says only which side it lies on", () => {
  assert.deepEqual(say(idle, "9"), { right: false, says: "It is too large." });
  assert.deepEqual(say(idle, "3"), { right: false, says: "It is too small." });
  assert.deepEqual(say(idle, "-4"), { right: false, says: "The size is right and the sign is not." });
});

test("what is no number is not judged", () => {
  assert.deepEqual(say(idle, ""), { right: null, says: "Nothing is written yet." });
  assert.equal(say(idle, "many").right, null);
});

test("the tolerance reaches to its edge and no further", () => {
  const near = number({ value: 10, unit: "ms", tolerance: 0.5 });
  assert.deepEqual(["9.5", "10.5", "9.49", "10.51"].map((text) => say(near, text).right), [true, true, false, false]);
});

const time = number({ value: 1.5, unit: "s", units: [{ name: "s", factor: 1 }, { name: "ms", factor: 0.001 }] });

test("any unit of the menu will do", () => {
  assert.equal(say(time, "1500", "ms").right, true);
  assert.equal(say(time, "1,500 ms", "s").right, true);
});

test("a number that would be right in another unit says so", () => {
  assert.equal(say(time, "1500", "s").says, "The number would be right in ms, and the unit says s.");
  assert.equal(say(time, "1.5", "ms").says, "The number would be right in s, and the unit says ms.");
});

test("a percentage and a fraction of 1 are told apart", () => {
  const share = number({ value: 0.25, unit: "share" }), percent = number({ value: 25, unit: "%" });
  assert.match(say(share, "25").says, /This is the percentage/);
  assert.match(say(percent, "0.25").says, /This is the fraction of 1/);
  for (const [exercise, text] of [[share, "25 %"], [share, "1/4"], [percent, "25 %"], [percent, "25"]]) {
    assert.equal(say(exercise, text).right, true, `${text} of ${exercise.answer.unit}`);
  }
  assert.doesNotMatch(say(number({ value: 4, unit: "steps" }), "400").says, /percent/);
});

test("a number that was rounded too far is told from a wrong one", () => {
  const third = number({ value: 1 / 3, unit: "share" });
  assert.match(say(third, "0.33").says, /rounded too far/);
  assert.equal(say(third, "1/3").right, true);
  assert.equal(say(third, "0.34").says, "It is too large.");
  assert.equal(say(third, "0").says, "It is too small.");
});

test("a known wrong number that a rounded one looks like is told with both reasons", () => {
  const half = number({ value: 19.5, wrong: [{ value: 20, method: "m", says: "Only what is cut is shared." }] });
  assert.match(say(half, "20").says, /^Only what is cut is shared\. Or else: .* rounded too far/);
  assert.equal(say(half, "20.0").says, "Only what is cut is shared.");
});

const choice = { kind: "choice", answer: { several: false, options: [
  { text: "A", right: false, says: "A leaves first." }, { text: "B", right: true, says: "B stays longest." }] } };
const several = { kind: "choice", answer: { several: true, options: [
  { text: "A", right: true, says: "A holds." }, { text: "B", right: false, says: "B does not." }, { text: "C", right: true, says: "C holds." }] } };

test("a choice answers with its own sentence", () => {
  assert.deepEqual(judge(choice, [0]), { right: false, says: "A leaves first." });
  assert.deepEqual(judge(choice, [1]), { right: true, says: "B stays longest." });
  assert.equal(judge(choice, []).right, null);
});

test("several choices: each wrong one is answered, those missing are only counted", () => {
  assert.deepEqual(judge(several, [0, 1]).lines, ["“B”: B does not.", "1 right choice is missing."]);
  assert.deepEqual(judge(several, [0]).lines, ["1 right choice is missing."]);
  assert.deepEqual(judge(several, [0, 2]), { right: true, says: "", lines: ["A holds.", "C holds."] });
});

const order = { kind: "order", answer: { items: ["one", "two", "three", "three"], shown: [1, 0, 2, 3],
  wrong: [{ order: [1, 0, 2, 3], says: "Two cannot come before one." }] } };

test("an order is right, known wrong, or right up to a place", () => {
  assert.deepEqual(judge(order, [0, 1, 2, 3]), { right: true, says: "" });
  assert.equal(judge(order, [1, 0, 3, 2]).says, "Two cannot come before one.");
  assert.equal(judge(order, [0, 2, 1, 3]).says, "The first one stands right; number 2 does not.");
  assert.equal(judge(order, [2, 1, 0, 3]).says, "Number 1 does not come first.");
});

test("equal items may stand for one another", () => assert.equal(judge(order, [0, 1, 3, 2]).right, true));

const table = { kind: "table", answer: { columns: ["step", "seat 1", "idle seats"], rows: [
  ["1", { text: "A", wrong: [{ text: "B", says: "B comes second." }] }, { value: 0, tolerance: 0, wrong: [] }],
  ["2", { text: "idle", wrong: [] }, { value: 1, tolerance: 0, wrong: [{ value: 2, says: "One seat is taken." }] }]] } };

test("a table is judged cell by cell, in any case of letters", () => {
  const verdict = judge(table, [[null, "a", "0"], [null, "–", "2"]]);
  assert.equal(verdict.right, false);
  assert.equal(verdict.says, "3 of 4 cells are right.");
  assert.deepEqual(verdict.lines, ["step 2, idle seats: One seat is taken."]);
  assert.deepEqual(verdict.cells[1].map((cell) => cell?.right), [undefined, true, false]);
});

for (const blank of ["", " ", "–", "-", "idle", "Idle"]) {
  test(`“${blank}” says that a seat is idle`, () => {
    assert.equal(judge(table, [[null, "A", "0"], [null, blank, "1"]]).right, true);
  });
}

test("a cell that should hold something is not right when empty, and an empty table is not judged", () => {
  assert.equal(judge(table, [[null, "", "0"], [null, "", "1"]]).says, "3 of 4 cells are right.");
  assert.equal(judge(table, [[null, "", ""], [null, " ", ""]]).right, null);
  assert.equal(placeOf(table.answer, 1, 2), "step 2, idle seats");
});

test("a picked line is answered", () => {
  const line = { kind: "line", answer: { lines: ["a", "b"], wrong: 1, says: ["This one holds.", "Here it is."] } };
  assert.deepEqual(judge(line, 1), { right: true, says: "Here it is." });
  assert.deepEqual(judge(line, 0), { right: false, says: "This one holds." });
  assert.equal(judge(line, null).right, null);
});

const predict = (answer) => ({ kind: "predict", answer: { why: "", ...answer } });
const scale = predict({ by: "scale", low: 0, high: 100, step: 1, unit: "%", truth: 4, wrong: [{ value: 50, says: "Half of one part only." }] });

test("a guess on a scale says how far off it is", () => {
  const verdict = judge(scale, { text: "50", unit: "%" });
  assert.equal(verdict.off, 46);
  assert.equal(verdict.says, "You said 50 %, and it is 4 %: 46 % too high, 12.5 times the truth. Half of one part only.");
  assert.equal(judge(scale, { text: "3", unit: "%" }).says, "You said 3 %, and it is 4 %: 1 % too low.");
  assert.equal(judge(scale, { text: "4 %", unit: "%" }).right, true);
  assert.match(judge(scale, { text: "120", unit: "%" }).says, /The scale goes from 0 to 100 %, and 120 is not on it/);
});

test("a guessed order says how many pairs are in order", () => {
  const guess = predict({ by: "order", items: ["x", "y", "z"], shown: [0, 1, 2], wrong: [{ order: [2, 1, 0], says: "All reversed." }] });
  assert.deepEqual(judge(guess, [0, 2, 1]), { right: false, off: 1, says: "2 of 3 pairs stand in the right order." });
  assert.deepEqual(judge(guess, [2, 1, 0]), { right: false, off: 3, says: "0 of 3 pairs stand in the right order. All reversed." });
  assert.equal(judge(guess, [0, 1, 2]).right, true);
});

const drawing = predict({ by: "drawing", lanes: ["seat 1", "seat 2"], steps: 6, who: ["A", "B"],
  truth: { A: ["seat 1", 0, 2], B: ["seat 2", 1, 4] } });

test("a drawing says of each bar how it differs", () => {
  const verdict = judge(drawing, { A: ["seat 1", 0, 2], B: ["seat 1", 0, 5] });
  assert.deepEqual(verdict.lines, ["A is as you drew it.", "B stands in seat 2, starts 1 step later, lasts 2 steps less than you drew."]);
  assert.equal(verdict.off, 2);
  assert.deepEqual(judge(drawing, drawing.answer.truth), { right: true, off: 0, says: "", lines: [] });
  assert.equal(judge(drawing, { A: ["seat 1", 0, 2] }).says, "B is not drawn yet.");
  assert.deepEqual(judge(drawing, { A: ["seat 2", 0, 2], B: ["seat 2", 1, 4] }).lines[0], "A stands in seat 1.");
});

test("every answer can be said in words", () => {
  assert.equal(inWords(idle, { text: " 4 ", unit: "steps" }), "4 steps");
  assert.equal(inWords(idle, { text: "1", unit: "steps" }), "1 step");
  assert.equal(inWords(idle, { text: "1", unit: "" }), "1");
  for (const text of ["4 steps", "33 %"]) assert.equal(inWords(idle, { text, unit: "steps" }), text);
  assert.equal(inWords(several, [0, 2]), "A; C");
  assert.equal(inWords(order, [1, 0, 2, 3]), "two, one, three, three");
  assert.equal(inWords({ kind: "line", answer: {} }, 1), "line 2");
  assert.equal(inWords(table, [[null, "a", ""], [null, "b", "2"]]), "a, –, b, 2");
  assert.equal(inWords(drawing, drawing.answer.truth), "A in seat 1, steps 1 to 2; B in seat 2, steps 2 to 4");
});
