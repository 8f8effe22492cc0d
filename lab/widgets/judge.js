// Judges an answer: exercise and answer in, verdict in words out. It knows nothing of pages.

const NUMBER = /^([+-]?)([1-9]\d{0,2}(?:,\d{3})+|[1-9]\d{0,2}(?: \d{3})+|\d*)(?:\.(\d*))?(?:e([+-]?\d+))?$/i;
const ROUNDED = "This is rounded too far: give more digits, or a fraction.";
const EMPTY = ["", "-", "–", "—", "−", "idle"]; // the ways to write that nothing is there
const SHARES = ["", "%", "share", "fraction"]; // units in which a percentage and a fraction of 1 get mixed up

/** A decimal with the worth of its last digit, or null. */
function decimal(text) {
  const found = NUMBER.exec(text);
  if (!found || !(found[2] || found[3])) return null;
  const [, sign, whole, part = "", power = "0"] = found;
  const value = Number(`${sign}${whole.replace(/[, ]/g, "") || "0"}.${part || "0"}e${power}`);
  return Number.isFinite(value) ? { value, place: 10 ** (Number(power) - part.length) } : null;
}

/**
 * A number as a reader writes it: 1/3, 33 %, 1,024, 1.5e3, −2. `place` is the worth of the last digit
 * (0 for a fraction, which is exact); `value` is null with a `reason` when it is no number.
 */
export function parseNumber(text) {
  const none = (reason) => ({ value: null, reason });
  const plain = text.trim().replace(/[−–]/g, "-").replace(/[\u00a0\u2009\u202f]/g, " ");
  if (!plain) return none("Nothing is written yet.");
  const percent = plain.endsWith("%");
  const body = percent ? plain.slice(0, -1).trimEnd() : plain;
  const terms = body.split("/").map((term) => decimal(term.trim()));
  if (terms.includes(null) || terms.length > 2) {
    return none(/^[+-]?\d+,\d+$/.test(body)
      ? `“${text.trim()}” can be read in two ways: write a point before decimals, and commas only between thousands.`
      : `“${text.trim()}” is not a number. These are: 12, 0.5, 1/3, 33 %, 1,024, 1.5e3.`);
  }
  const [over, under] = terms;
  if (under?.value === 0) return none("A fraction cannot have 0 below the line.");
  const hundredth = percent ? 0.01 : 1;
  return under
    ? { value: (over.value / under.value) * hundredth, place: 0, percent }
    : { value: over.value * hundredth, place: over.place * hundredth, percent };
}

/** Equal within an absolute tolerance, and within what floating point loses. */
const near = (x, y, tolerance = 0) => Math.abs(x - y) <= tolerance + 1e-9 * Math.max(Math.abs(x), Math.abs(y));

/** A unit behind a number: "1 step", "4 steps", "1 token/s". */
const unitOf = (value, unit) => (value === 1 ? unit.replace(/^([a-z-]{3,})s(?=$|\/)/, "$1") : unit);

/** The steps from `start` up to `stop`, which count from 0: "step 3", "steps 1 to 4". */
export const span = (start, stop) => (stop - start === 1 ? `step ${stop}` : `steps ${start + 1} to ${stop}`);

/** A number for a sentence: 1,024, 0.3333, −2. */
export const shown = (value) =>
  Number(value.toPrecision(4)).toLocaleString("en", { maximumFractionDigits: 12 }).replace("-", "−");

/** A number and its unit: "4 steps", "33 %", "4". */
export const quantity = (value, unit) => (unit ? `${shown(value)} ${unitOf(value, unit)}` : shown(value));

const plural = (count, one, many = `${one}s`) => `${count} ${count === 1 ? one : many}`;
const unjudged = (says) => ({ right: null, says });

/** What was written, as a number `x` in a unit of `units`: a unit or % in the text counts before the menu. */
function measured(text, units, chosen) {
  const named = [...units].sort((a, b) => b.name.length - a.name.length)
    .find(({ name }) => name && name !== "%" && text.trim().endsWith(` ${name}`));
  const read = parseNumber(named ? text.trim().slice(0, -named.name.length) : text);
  const percent = read.percent && units.find(({ name }) => name === "%");
  const unit = percent || named || units.find(({ name }) => name === chosen) || units[0];
  return { ...read, unit, x: percent ? read.value * 100 : read.value, place: read.place * (percent ? 100 : 1) };
}

function judgeNumber({ answer }, { text, unit: chosen }) {
  const { value: read, reason, x, place, unit } = measured(text, answer.units, chosen);
  if (read === null) return unjudged(reason);
  const value = x * unit.factor;
  if (near(value, answer.value, answer.tolerance)) return { right: true, says: "" };
  const known = (answer.wrong ?? []).find((other) => near(value, other.value, answer.tolerance));
  const says = slip(answer, x, place, unit);
  if (!known) return { right: false, says };
  return { right: false, says: says === ROUNDED ? `${known.says} Or else: ${ROUNDED}` : known.says, method: known.method };
}

/** The likely slip behind a number that no known method gives: unit, percent, sign, rounding, or its side. */
function slip(answer, x, place, unit) {
  const value = x * unit.factor;
  const meant = answer.units.find((other) => near(x * other.factor, answer.value, answer.tolerance));
  if (meant) return `The number would be right in ${meant.name}, and the unit says ${unit.name}.`;
  if (SHARES.includes(answer.unit)) {
    if (near(value / 100, answer.value, answer.tolerance)) return "This is the percentage, and a fraction of 1 is asked: divide by 100.";
    if (near(value * 100, answer.value, answer.tolerance)) return "This is the fraction of 1, and the percentage is asked: multiply by 100.";
  }
  if (near(-value, answer.value, answer.tolerance)) return "The size is right and the sign is not.";
  if (x !== 0 && near(value, answer.value, (place * unit.factor) / 2)) return ROUNDED;
  return value > answer.value ? "It is too large." : "It is too small.";
}

function judgeChoice({ answer }, picked) {
  if (!picked.length) return unjudged("Nothing is chosen yet.");
  const wrong = picked.filter((i) => !answer.options[i].right);
  if (!answer.several) return { right: !wrong.length, says: answer.options[picked[0]].says };
  const missed = answer.options.filter(({ right }, i) => right && !picked.includes(i)).length;
  const lines = wrong.map((i) => `“${answer.options[i].text}”: ${answer.options[i].says}`);
  if (missed) lines.push(`${plural(missed, "right choice is", "right choices are")} missing.`);
  const right = !lines.length;
  return { right, says: "", lines: right ? picked.map((i) => answer.options[i].says) : lines };
}

const inOrder = (items, order) => order.every((i, place) => items[i] === items[place]);

function judgeOrder({ answer }, order) {
  const { items } = answer;
  if (inOrder(items, order)) return { right: true, says: "" };
  const known = (answer.wrong ?? []).find((other) => order.every((i, place) => items[i] === items[other.order[place]]));
  if (known) return { right: false, says: known.says };
  const first = order.findIndex((i, place) => items[i] !== items[place]);
  return { right: false, says: first
    ? `The first ${first === 1 ? "one stands" : `${first} stand`} right; number ${first + 1} does not.`
    : "Number 1 does not come first." };
}

/** Of all pairs of items, how many stand in the right order; equal items cannot be wrong. */
function pairsInOrder(items, order) {
  let kept = 0, all = 0;
  for (let i = 0; i < order.length; i++) {
    for (let j = i + 1; j < order.length; j++) {
      all += 1;
      if (order[i] < order[j] || items[order[i]] === items[order[j]]) kept += 1;
    }
  }
  return { kept, all };
}

const isBlank = (cell) => typeof cell !== "string";
const same = (text) => (EMPTY.includes(text.trim().toLowerCase()) ? "" : text.trim().toLowerCase());

function judgeCell(cell, text) {
  const known = (fits) => (cell.wrong ?? []).find(fits)?.says;
  if (cell.text !== undefined) {
    const right = same(text) === same(cell.text);
    return { right, says: right ? "" : known((other) => same(other.text) === same(text)) ?? "" };
  }
  const { value, reason } = parseNumber(text);
  if (value === null) return { right: false, says: text.trim() ? reason : "" };
  const right = near(value, cell.value, cell.tolerance);
  return { right, says: right ? "" : known((other) => near(value, other.value, cell.tolerance)) ?? "" };
}

function judgeTable({ answer }, texts) {
  if (texts.flat().every((text) => !text?.trim())) return unjudged("Nothing is written yet.");
  const cells = answer.rows.map((row, r) => row.map((cell, c) => (isBlank(cell) ? judgeCell(cell, texts[r][c]) : null)));
  const judged = cells.flat().filter(Boolean);
  const correct = judged.filter(({ right }) => right).length;
  const lines = cells.flatMap((row, r) => row.flatMap((cell, c) =>
    (cell?.says ? [`${placeOf(answer, r, c)}: ${cell.says}`] : [])));
  const right = correct === judged.length;
  return { right, says: right ? "" : `${correct} of ${plural(judged.length, "cell is", "cells are")} right.`, lines: [...new Set(lines)], cells };
}

/** The name of a cell of a table: its row and its column. */
export const placeOf = ({ columns, rows }, r, c) =>
  `${columns[0]} ${isBlank(rows[r][0]) ? r + 1 : rows[r][0]}, ${columns[c]}`;

function judgeLine({ answer }, picked) {
  if (picked === null) return unjudged("No line is chosen yet.");
  return { right: picked === answer.wrong, says: answer.says[picked] ?? "" };
}

function judgeScale({ answer }, { text }) {
  const { low, high, step, unit, truth } = answer;
  const { value: read, reason, x } = measured(text, [{ name: unit, factor: 1 }], unit);
  if (read === null) return unjudged(reason);
  if (x < low || x > high) return unjudged(`The scale goes from ${shown(low)} to ${quantity(high, unit)}, and ${shown(x)} is not on it.`);
  const off = x - truth;
  if (near(x, truth, step / 2)) return { right: true, says: `It is ${quantity(truth, unit)}.`, off, x };
  const times = truth > 0 && x > 0 && Math.max(x / truth, truth / x) >= 1.5 ? `, ${shown(x / truth)} times the truth` : "";
  const known = (answer.wrong ?? []).find((other) => near(x, other.value, step / 2))?.says;
  const says = `You said ${quantity(x, unit)}, and it is ${quantity(truth, unit)}: ${quantity(Math.abs(off), unit)} too ${off > 0 ? "high" : "low"}${times}.`;
  return { right: false, says: known ? `${says} ${known}` : says, off, x };
}

function judgeGuessedOrder(exercise, order) {
  const { kept, all } = pairsInOrder(exercise.answer.items, order);
  const { right } = judgeOrder(exercise, order);
  const known = right ? "" : (exercise.answer.wrong ?? []).find((other) => String(other.order) === String(order))?.says;
  return { right, off: all - kept, says: right ? "" : [`${kept} of ${plural(all, "pair stands", "pairs stand")} in the right order.`, known].filter(Boolean).join(" ") };
}

function judgeDrawing({ answer }, bars) {
  const missing = answer.who.filter((who) => !bars[who]);
  if (missing.length) return unjudged(`${missing.join(", ")} ${missing.length === 1 ? "is" : "are"} not drawn yet.`);
  const lines = answer.who.map((who) => `${who} ${difference(bars[who], answer.truth[who])}.`);
  const off = answer.who.reduce((sum, who) => sum
    + Math.abs(bars[who][1] - answer.truth[who][1]) + Math.abs(bars[who][2] - answer.truth[who][2]), 0);
  const right = answer.who.every((who) => String(bars[who]) === String(answer.truth[who]));
  return { right, off, says: "", lines: right ? [] : lines };
}

/** How a drawn bar differs from the true one. */
function difference([lane, start, stop], [trueLane, trueStart, trueStop]) {
  const longer = stop - start - (trueStop - trueStart);
  const faults = [
    lane !== trueLane && `stands in ${trueLane}`,
    start !== trueStart && `starts ${plural(Math.abs(start - trueStart), "step")} ${start < trueStart ? "later" : "earlier"}`,
    longer && `lasts ${plural(Math.abs(longer), "step")} ${longer < 0 ? "longer" : "less"}`,
  ].filter(Boolean);
  return faults.length ? `${faults.join(", ")} than you drew`.replace(/^(stands in [^,]*) than you drew$/, "$1") : "is as you drew it";
}

const KINDS = { number: judgeNumber, choice: judgeChoice, order: judgeOrder, table: judgeTable, line: judgeLine };
const GUESSES = { choice: judgeChoice, scale: judgeScale, order: judgeGuessedOrder, drawing: judgeDrawing };

/**
 * Judges an answer: { right, says }, and where there is more to say `lines`, one a wrong turn. `right`
 * is null when there is nothing to judge yet. A guess also says in `off` how far from the truth it is.
 * Answers by kind: number and scale { text, unit }, choice [indices], order [indices], line an index,
 * table a text a cell, drawing { A: [lane, start, stop] }.
 */
export function judge(exercise, given) {
  return (exercise.kind === "predict" ? GUESSES[exercise.answer.by] : KINDS[exercise.kind])(exercise, given);
}

/** An answer in words, for the list of attempts. */
export function inWords({ kind, answer }, given) {
  const by = kind === "predict" ? answer.by : kind;
  if (by === "number" || by === "scale") {
    const text = given.text.trim(), namesUnit = /[a-z%]$/i.test(text);
    return namesUnit || !given.unit ? text : `${text} ${unitOf(parseNumber(text).value, given.unit)}`;
  }
  if (by === "choice") return given.map((i) => answer.options[i].text).join("; ");
  if (by === "order") return given.map((i) => answer.items[i]).join(", ");
  if (by === "line") return `line ${given + 1}`;
  if (by === "table") return given.flat().filter((text) => text !== null).map((text) => text.trim() || "–").join(", ");
  return answer.who.map((who) => `${who} in ${given[who][0]}, ${span(given[who][1], given[who][2])}`).join("; ");
}
