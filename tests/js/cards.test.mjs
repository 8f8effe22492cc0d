// Where cards, their cells and the messages between them stand.

import assert from "node:assert/strict";
import { test } from "node:test";
import { heldOn, midway, placed } from "../../lab/widgets/cards.js";

const cells = [];
for (let block = 0; block < 4; block++) for (let row = 0; row < 2; row++) for (let column = 0; column < 2; column++)
  cells.push({ id: `${block}${row}${column}`, block, row, column });
const SCENE = { cards: ["device 0", "device 1"], blocks: ["1", "2", "3", "4"], cells, cell_size: 25 };

test("cards stand side by side in a wide window and below one another in a narrow one", () => {
  const wide = placed(SCENE, 850), narrow = placed(SCENE, 310);
  const [a, b] = [...wide.cards.values()], [c, d] = [...narrow.cards.values()];
  assert.equal(a.y, b.y);
  assert.ok(b.x >= a.x + a.width + 40);
  assert.equal(c.x, d.x);
  assert.ok(d.y >= c.y + c.height);
  assert.ok(wide.width <= 850 && narrow.width <= 310);
});

test("cells are as large as there is room for, and nothing is wider than the window", () => {
  for (const width of [200, 260, 300, 320, 360, 520, 640, 800, 1200]) {
    const at = placed(SCENE, width);
    assert.ok(at.width <= width, `${at.width} in ${width}`);
    assert.ok(at.cell >= 20 && at.cell <= 32);
  }
  assert.ok(placed(SCENE, 1200).cell > placed(SCENE, 640).cell);
});

test("a cell has the same place on every card, and no two of a card share one", () => {
  for (const width of [250, 900]) {
    const at = placed(SCENE, width);
    const corner = at.cards.get("device 1"), other = at.cards.get("device 0");
    const spots = cells.map((cell) => at.spot(cell, "device 1"));
    assert.equal(new Set(spots.map(({ x, y }) => `${x},${y}`)).size, cells.length);
    cells.forEach((cell, i) => {
      const there = at.spot(cell, "device 0");
      assert.equal(spots[i].x - corner.x, there.x - other.x);
      assert.equal(spots[i].y - corner.y, there.y - other.y);
      assert.ok(spots[i].x + at.cell <= corner.x + corner.width);
      assert.ok(spots[i].y + at.cell <= corner.y + at.meter);
    });
  }
});

test("messages stand between their cards, one way beside the other", () => {
  const wide = placed(SCENE, 900), narrow = placed(SCENE, 300);
  const there = midway(wide, "device 0", "device 1"), back = midway(wide, "device 1", "device 0");
  const [a, b] = [...wide.cards.values()];
  assert.ok(there.x > a.x + a.width && there.x + 32 < b.x);
  assert.deepEqual([there.sign, back.sign], ["→", "←"]);
  assert.notEqual(there.y, back.y);
  const [c, d] = [...narrow.cards.values()];
  const down = midway(narrow, "device 0", "device 1"), up = midway(narrow, "device 1", "device 0");
  assert.ok(down.y >= c.y + c.height && down.y + 24 <= d.y);
  assert.deepEqual([down.sign, up.sign], ["↓", "↑"]);
  assert.notEqual(down.x, up.x);
});

test("what lies on a card is what its cells weigh", () => {
  const frame = { cells: { "000": "device 0", "001": "device 1", "010": "device 0" } };
  assert.equal(heldOn(SCENE, frame, "device 0"), 50);
  assert.equal(heldOn(SCENE, frame, ""), 0);
});
