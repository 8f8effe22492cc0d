// Progress is kept where there is a place for it, and nothing fails where there is none.

import assert from "node:assert/strict";
import { test } from "node:test";
import { browserStorage, progressIn, stampOf } from "../../lab/widgets/progress.js";

/** A storage like the browser's, over a plain object. */
function storage(items = {}) {
  return {
    items,
    getItem: (key) => items[key] ?? null,
    setItem(key, text) { items[key] = text; },
    removeItem(key) { delete items[key]; },
  };
}
const entry = { variant: 2, stamp: "s", solved: true, attempts: [{ variant: 2, words: "4", given: { text: "4" }, right: true }] };
const denied = { getItem() { throw new Error("denied"); }, setItem() { throw new Error("denied"); }, removeItem() { throw new Error("denied"); } };

test("what one page keeps, the next one finds", () => {
  const place = storage();
  progressIn(place).put("x", entry);
  assert.deepEqual(progressIn(place).of("x"), entry);
  assert.deepEqual(Object.keys(place.items), ["tif-progress"]);
});

test("two pages do not overwrite one another", () => {
  const place = storage(), [one, two] = [progressIn(place), progressIn(place)];
  one.put("x", entry);
  two.put("y", entry);
  assert.deepEqual(Object.keys(one.all()), ["x", "y"]);
});

for (const [name, place] of [["no storage", null], ["a storage that refuses", denied]]) {
  test(`with ${name} the page remembers by itself`, () => {
    const progress = progressIn(place);
    progress.put("x", entry);
    assert.equal(progress.of("x").solved, true);
    progress.clear();
    assert.equal(progress.of("x").solved, false);
  });
}

test("what is not ours is taken for nothing", () => {
  for (const text of ["", "{", "null", "7", '{"exercises": null}', '{"exercises": {"x": {"attempts": 3}}}', '{"exercises": {"x": null}}']) {
    assert.deepEqual(progressIn(storage({ "tif-progress": text })).of("x").attempts, [], text);
  }
});

test("cleared is cleared, and only the last fifty attempts are kept", () => {
  const place = storage(), progress = progressIn(place);
  progress.put("x", { ...entry, attempts: Array.from({ length: 60 }, (_, i) => i) });
  assert.equal(progress.of("x").attempts.length, 50);
  assert.equal(progress.of("x").attempts.at(-1), 59);
  progress.clear();
  assert.deepEqual(place.items, {});
});

test("a stamp tells exercises apart", () => {
  assert.equal(stampOf({ a: 1 }), stampOf({ a: 1 }));
  assert.notEqual(stampOf({ a: 1 }), stampOf({ a: 2 }));
});

test("a browser that refuses its storage has none", () => {
  globalThis.window = { get localStorage() { throw new Error("SecurityError"); } };
  assert.equal(browserStorage(), null);
  delete globalThis.window;
});
