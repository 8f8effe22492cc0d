// What a guess meets once it is given: the truth beside it, on the same axis.

import { element } from "./dom.js";
import { drawingOver } from "./drawing.js";
import { quantity, shown } from "./judge.js";
import { inline } from "./markup.js";

const tag = (text) => element("span", { className: "tag", textContent: text });

/** The guess (null where the reader did not guess) and the truth, in one picture. `x` is a guess on a scale. */
export function reveal(answer, given, x) {
  if (answer.by === "choice") return choices(answer, given ?? []);
  if (answer.by === "scale") return scale(answer, x);
  if (answer.by === "order") return orders(answer, given);
  return element("div", {}, drawingOver(answer, given), element("p", { className: "soft",
    textContent: given ? "Blocks: what happens. Dashed outlines: your guess." : "Blocks: what happens." }));
}

function choices({ options }, picked) {
  return element("ul", { className: "compared" }, ...options.map(({ text, right }, i) =>
    element("li", { className: right ? "true" : "" }, element("span", {}, ...inline(text)),
      ...(picked.includes(i) ? [tag("your guess")] : []), ...(right ? [tag("what happens")] : []))));
}

/** A number line from low to high: the guess above it, the truth below. */
function scale({ low, high, unit, truth }, x) {
  const line = element("div", { className: "axis" });
  line.setAttribute("role", "img");
  const told = [...(x === undefined ? [] : [["guess", x, "your guess"]]), ["truth", truth, "truth"]];
  line.setAttribute("aria-label", `A line from ${shown(low)} to ${quantity(high, unit)}: ${
    told.map(([, value, words]) => `${words} ${quantity(value, unit)}`).join(", ")}`);
  for (const [kind, value, words] of told) {
    const part = ((value - low) / (high - low)) * 100;
    const mark = element("span", { className: `point ${kind}` });
    const label = element("span", { className: `label ${kind}`, textContent: `${words} ${quantity(value, unit)}` });
    mark.style.left = label.style.left = `${part}%`;
    label.style.transform = `translateX(-${part}%)`; // at either end the label stays inside
    line.append(mark, label);
  }
  return element("div", { className: "scale" }, line, element("div", { className: "line soft" },
    element("span", { textContent: shown(low) }), element("span", { textContent: quantity(high, unit) })));
}

function orders({ items }, order) {
  const list = (title, texts) => element("div", {}, element("p", { className: "title", textContent: title }),
    element("ol", {}, ...texts.map((text) => element("li", {}, ...inline(text)))));
  return element("div", { className: "beside" },
    ...(order ? [list("Your order", order.map((i) => items[i]))] : []), list("What happens", items));
}
