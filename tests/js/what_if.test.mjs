// What-ifs: the place of a result among all, results out of their pool, and the newest question.

import assert from "node:assert/strict";
import { test } from "node:test";
import { newest } from "../../lab/widgets/engine.js";
import { bounded, placeOf, told, unpack } from "../../lab/widgets/what_if.js";

const KNOBS = [{ name: "A", low: 1, high: 3, step: 1 }, { name: "B", low: 0, high: 1, step: 0.5 }];

test("the last knob turns fastest", () => {
  const places = [];
  for (const A of [1, 2, 3]) for (const B of [0, 0.5, 1]) places.push(placeOf(KNOBS, { A, B }));
  assert.deepEqual(places, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
});

test("a knob takes the nearest of its values", () => {
  const queue = { low: 0, high: 80, step: 10 };
  assert.deepEqual([14, 15, -30, 999].map((value) => bounded(queue, value)), [10, 20, 0, 80]);
  assert.equal(bounded({ low: 5, high: 25, step: 10 }, 19), 15); // steps count from low
});

test("a knob is told by its words: the option that is chosen, or the value with its unit", () => {
  const options = ["first come", "shortest"];
  assert.equal(told({ name: "order", label: "Who goes first", unit: "", options }, 1), "Who goes first: shortest.");
  assert.equal(told({ name: "A", label: "", unit: "steps", options: [] }, 3), "A 3 steps.");
  assert.equal(told({ name: "step", label: "each step takes", unit: "", options: [] }, 20), "each step takes 20.");
});

test("a result comes out of the pool as it went in", () => {
  const baked = { fields: ["title", "marks"], pool: ["x", { id: 1 }, { id: 2 }], results: [[[0, []]], [[0, [2, 1]]]] };
  assert.deepEqual(unpack(baked, 1), [{ title: "x", marks: [{ id: 2 }, { id: 1 }] }]);
});

test("of the questions that come while one is answered only the newest is asked", async () => {
  const asked = [], done = [], answers = [];
  const put = newest((question) => {
    asked.push(question);
    return new Promise((resolve) => answers.push(() => resolve(question)));
  }, (answer) => done.push(answer), () => assert.fail());
  const turn = () => new Promise((resolve) => setTimeout(resolve));
  put(1); put(2); put(3);
  assert.deepEqual(asked, [1]);
  answers[0]();
  await turn();
  assert.deepEqual([asked, done], [[1, 3], []]); // 1 was overtaken, 2 never asked
  answers[1]();
  await turn();
  assert.deepEqual(done, [3]);
});

test("a failure is told, unless a newer question is waiting", async () => {
  const told = [];
  const put = newest(() => Promise.reject(new Error("no")), () => assert.fail(), (error) => told.push(error.message));
  await put(1);
  assert.deepEqual(told, ["no"]);
});
