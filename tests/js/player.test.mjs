// The arithmetic of the player and its lanes: moments, frames, places, colours.

import assert from "node:assert/strict";
import { test } from "node:test";
import { foundIn, frameAt, momentsOf, toldAt } from "../../lab/widgets/frames.js";
import { brackets, ends, labelFor, layout, outlines, spread, whenOf, written } from "../../lab/widgets/lanes.js";
import { clockAt, coloursOf, figureOf } from "../../lab/widgets/player.js";

const frame = (at, label = String(at)) => ({ at, label, caption: "" });
const mark = (who, lane, start, stop, role = "decode") => ({ id: `${who}${lane}${start}`, role, lane, start, stop, label: who, who });
const scene = {
  title: "", conditions: "", lanes: ["seat 1", "queue"], frames: [frame(0), frame(1), frame(3)],
  marks: [mark("A", "seat 1", 0, 1), mark("A", "seat 1", 1, 3), mark("B", "queue", 0, 3, "waiting")],
};

test("the moments of several scenes are the union of theirs, in order", () => {
  const other = { frames: [frame(2), frame(1)] };
  assert.deepEqual(momentsOf([scene, other]), [0, 1, 2, 3]);
});

test("the frame that counts is the last that has begun", () => {
  assert.equal(frameAt(scene, 2.5).at, 1);
  assert.equal(frameAt(scene, 3).at, 3);
  assert.equal(frameAt({ frames: [frame(1)] }, 0), null);
});

test("frames of one moment are one step, which tells the last of them", () => {
  const still = { title: "Who?", frames: [{ at: 1, label: "a", caption: "first" }, { at: 1, label: "b", caption: "second" }] };
  assert.deepEqual(momentsOf([still]), [1]);
  assert.equal(toldAt({ ...still, marks: [] }, 1), "second");
  assert.equal(figureOf([still], 1), "Figure: Who?");
  assert.equal(figureOf([still, still], 3), "Figure in 3 steps: Who?; Who?");
});

test("a mark is past, now or future; its end is already past", () => {
  assert.deepEqual([0, 1, 2, 3].map((at) => whenOf(mark("A", "x", 1, 3), at)), ["future", "now", "now", "past"]);
});

test("colours go by name, and beyond six there is one for all", () => {
  const marks = (names) => [{ marks: [...names].map((who) => ({ who })) }];
  assert.deepEqual(["B", "A", "?"].map(coloursOf(marks("BA"))), ["b", "a", "none"]);
  assert.equal(coloursOf(marks("CA"))("C"), "c"); // C is C's colour, also without a B
  const others = coloursOf([{ marks: [{ who: "r9" }, { who: "r10" }] }]);
  assert.deepEqual([others("r10"), others("r9")], ["a", "b"]);
  assert.equal(coloursOf(marks("ABCDEFG"))("G"), "a");
});

test("a scene beside another says when nothing is new, and when it is over", () => {
  const one = { frames: [{ at: 0, label: "0", caption: "begins" }, { at: 2, label: "2", caption: "goes on" }], marks: [mark("A", "x", 0, 3)] };
  assert.deepEqual([0, 1, 2, 2.5, 3, 4].map((at) => toldAt(one, at)), ["begins", "nothing new", "goes on", "nothing new", "over", "over"]);
  assert.equal(toldAt(one, -1), "not begun");
});

test("a wide window is filled, with the names of the lanes beside them", () => {
  const at = layout(scene, 900, 3);
  assert.equal(at.narrow, false);
  assert.equal(at.width, 900);
  assert.equal(at.x(3), 900 - 40);
  assert.ok(at.y("seat 1") < at.y("queue"));
  assert.ok(at.left >= "seat 1".length * 7);
});

test("a narrow window puts the names above, and keeps room for every label", () => {
  const long = { ...scene, frames: Array.from({ length: 60 }, (_, at) => frame(at)) };
  const at = layout(long, 320, 60);
  assert.equal(at.narrow, true);
  assert.ok(at.width > 320);
  assert.ok(at.x(1) - at.x(0) >= 24);
});

test("outlines join what a request does in one lane, and leave out waiting and idle", () => {
  assert.deepEqual(outlines(scene), [{ lane: "seat 1", who: "A", start: 0, stop: 3 }]);
  const idle = { marks: [mark("A", "seat 1", 0, 1, "idle"), mark("A", "seat 1", 1, 1, "token"), { ...mark("A", "seat 1", 0, 1), who: null }] };
  assert.deepEqual(outlines(idle), []);
});

const part = (id, start, stop, role = "decode", lane = "A") => ({ id, role, lane, start, stop, label: id, who: "A" });
const life = { marks: [part("TTFT", 0, 100, "span", "TTFT"), part("queue", 0, 40, "waiting"), part("prefill", 40, 100, "prefill"),
  part("step", 100, 180), part("database", 180, 980, "elsewhere")] };

test("a lane with a part that is dragged has an outline for each of its parts", () => {
  assert.deepEqual(outlines(life), [{ lane: "A", who: "A", start: 40, stop: 180 }]);
  const names = ["queue", "prefill", "step", "database"];
  assert.deepEqual(outlines(life, ["step"]).map((one) => [one.id, one.stop]), names.map((id, i) => [id, [40, 100, 180, 980][i]]));
  assert.equal(outlines(life, ["TTFT"]).length, 1); // a bracket is no part
  const asked = { marks: [...life.marks, { ...part("x", 0, 1), who: "step", lane: "other" }] };
  assert.equal(outlines(asked, ["step"]).length, 2); // a request is called so, and it goes first
});

test("brackets leave an outline where they are alone in their lane", () => {
  assert.deepEqual(brackets(life), [{ lane: "TTFT", who: "A", start: 0, stop: 100, bracket: true }]);
  assert.deepEqual(brackets({ marks: [...life.marks, part("gap", 100, 120, "span", "TTFT")] }), []);
});

test("the end of a part is dragged by its length for one unit of its value", () => {
  const found = ends(life, { step: 20, queue: 40 });
  assert.deepEqual(found.map(({ name, stop, each }) => [name, stop, each]), [["queue", 40, 1], ["step", 180, 4]]);
  assert.equal(ends({ marks: [part("queue", 0, 0, "waiting")] }, { queue: 0 })[0].each, undefined);
  assert.equal(ends(life, { queue: 0 })[0].each, undefined);
  assert.deepEqual(ends(life, { nobody: 1 }), []);
});

test("the end of a request is that of its last bar, and its bars count together", () => {
  const moved = { marks: [mark("A", "seat 1", 0, 20), mark("A", "seat 2", 30, 50), mark("B", "seat 1", 20, 30)] };
  assert.deepEqual(ends(moved, { A: 4 }), [{ name: "A", lane: "seat 2", who: "A", stop: 50, each: 10 }]);
});

test("grips do not lie on one another", () => {
  assert.deepEqual(spread([10, 13, 60], 18), [10, 28, 60]);
  assert.deepEqual(spread([10, 10, 10], 18), [10, 28, 46]);
});

test("a finding keeps the name that the title has before a colon", () => {
  assert.equal(foundIn({ title: "Static: who waits?", finding: "half wait" }), "Static: half wait");
  assert.equal(foundIn({ title: "Static: who waits?", finding: "Static rules" }), "Static rules");
  assert.equal(foundIn({ title: "Who waits?", finding: "B waits" }), "B waits");
});

test("a block too narrow for its label shows the number in it, or nothing", () => {
  assert.deepEqual(labelFor("queue 40", 100), ["queue 40", true]);
  assert.deepEqual(labelFor("queue 40", 30), ["40", true]);
  assert.deepEqual(labelFor("queue 40", 20), ["40", false]);
  assert.deepEqual(labelFor("decode", 30), ["decode", false]);
  assert.deepEqual(labelFor("× falls", 60), ["× falls", true]);
  assert.deepEqual(labelFor("× falls", 27), ["×", true]);
  assert.deepEqual(labelFor("– thrown", 27), ["–", true]);
  assert.deepEqual(labelFor("3→2", 34), ["3→2", false]);
});

test("who waits is written again only where the words before have ended", () => {
  const at = (start, label = "D E F", lane = "queue") => ({ id: `${lane}.${start}`, role: "queued", lane, start, label });
  const marks = [at(0), at(10), at(47), at(48), at(60), at(96, "E F"), at(5, "X", "other"), { ...at(100), role: "idle" }];
  assert.deepEqual([...written(marks, (time) => time)], ["queue.0", "queue.48", "queue.96", "other.5"]);
});

test("one measured time that is very short does not stretch a figure beyond its window", () => {
  const life = { ...scene, frames: [0, 0.25, 3.2].map(frame) };
  assert.equal(layout(life, 640, 128).width, 640);
  const many = { ...scene, frames: Array.from({ length: 100 }, (_, i) => frame(i + (i % 2) / 3)) };
  assert.ok(layout(many, 320, 100).width > 320, "many moments keep their room");
});

test("a time has its unit, and a word has none", () => {
  const frames = [{ at: 0, label: "0.5" }, { at: 7, label: "end" }];
  assert.deepEqual([0, 7].map((at) => clockAt([{ unit: "ms", frames }], at)), [", 0.5 ms", ", end"]);
  assert.equal(clockAt([{ unit: "step", frames }], 0), "");
  assert.equal(clockAt([{ unit: "block", frames: [{ at: 0, label: "1" }] }], 0), ", block 1");
});

test("a block of text has room for its words on a telephone", () => {
  const block = { id: "A 1", role: "kept", lane: scene.lanes[0], start: 0, stop: 1, label: "the limit is 600" };
  const asked = { ...scene, unit: "block", frames: [0, 1].map(frame), marks: [block] };
  assert.ok(labelFor(block.label, layout(asked, 284, 2).scale - 3)[1]);
  assert.ok(!labelFor(block.label, layout({ ...asked, unit: "step" }, 284, 2).scale - 3)[1]);
});
