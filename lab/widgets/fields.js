// Where an answer is given, one field a kind. Each is { node, read, write, lock } and, where single
// places can be right or wrong, `mark(verdict)`; `read` gives what judge.js takes.

import { button, columnHead, element } from "./dom.js";
import { drawingField } from "./drawing.js";
import { placeOf, parseNumber, shown } from "./judge.js";
import { inline } from "./markup.js";

/** The field for an exercise; `submit` is called on Enter in a text. */
export function fieldFor({ kind, answer }, submit) {
  const by = kind === "predict" ? answer.by : kind;
  if (by === "number") return numberField(answer, submit);
  if (by === "choice") return choiceField(answer);
  if (by === "order") return orderField(answer);
  if (by === "table") return tableField(answer, submit);
  if (by === "line") return lineField(answer);
  if (by === "scale") return scaleField(answer, submit);
  return drawingField(answer);
}

/** A sign behind what was answered, with its word for a screen reader. */
function signOf(right) {
  const sign = element("span", { className: right ? "sign right" : "sign wrong", textContent: right ? "✓" : "✗" });
  sign.setAttribute("role", "img");
  sign.setAttribute("aria-label", right ? "right" : "not right");
  return sign;
}

/** A line of text that takes Enter for Check. */
function textInput(name, submit) {
  const input = element("input", { type: "text", autocomplete: "off", spellcheck: false });
  if (name) input.setAttribute("aria-label", name);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.isComposing) submit();
  });
  return input;
}

function numberField({ units, unit }, submit) {
  const input = textInput("", submit);
  const menu = element("select", {}, ...units.map(({ name }) => element("option", { value: name, textContent: name })));
  menu.setAttribute("aria-label", "Unit");
  menu.value = unit;
  const label = element("label", {}, "Your answer ", input);
  if (units.length === 1) label.append(` ${unit}`);
  return {
    node: element("div", { className: "field number" }, label, ...(units.length > 1 ? [menu] : [])),
    read: () => ({ text: input.value, unit: menu.value }),
    write(given) { input.value = given?.text ?? ""; menu.value = given?.unit ?? unit; },
    lock(is) { input.disabled = menu.disabled = is; },
  };
}

/** Rows with a radio button or a checkbox each, in a fieldset. */
function picks(type, legend, texts, className) {
  const name = `tif-${Math.random()}`; // one group of radio buttons, also where an exercise is shown twice
  const inputs = texts.map((_, i) => element("input", { type, name, value: i }));
  const rows = texts.map((text, i) => element("label", {}, inputs[i], element("span", {}, ...inline(text))));
  const node = element("fieldset", { className: `field picks ${className}` }, element("legend", { textContent: legend }), ...rows);
  node.addEventListener("change", () => rows.forEach((row) => row.querySelector(".sign")?.remove()));
  return {
    node, rows,
    read: () => inputs.flatMap((input, i) => (input.checked ? [i] : [])),
    write: (picked) => inputs.forEach((input, i) => {
      input.checked = picked.includes(i);
      rows[i].querySelector(".sign")?.remove();
    }),
    lock(is) { node.disabled = is; },
  };
}

function choiceField({ options, several }) {
  const picking = picks(several ? "checkbox" : "radio", several ? "Choose all that are right" : "Choose one",
    options.map(({ text }) => text), "choice");
  return {
    ...picking,
    write: (given) => picking.write(given ?? []),
    mark: () => picking.read().forEach((i) => {
      picking.rows[i].querySelector(".sign")?.remove();
      picking.rows[i].append(signOf(options[i].right));
    }),
  };
}

function lineField({ lines }) {
  const picking = picks("radio", "Choose the line that is wrong", lines, "lines");
  picking.rows.forEach((row, i) => row.querySelector("input").after(element("span", { className: "count", textContent: i + 1 })));
  return {
    ...picking,
    read: () => picking.read()[0] ?? null,
    write: (given) => picking.write(given === undefined ? [] : [given]),
  };
}

/** Items to be put in order: by dragging, or with two buttons each. */
function orderField({ items, shown: first }) {
  const list = element("ol", { className: "order" });
  const told = element("p", { className: "unseen" });
  told.setAttribute("role", "status");
  const rows = items.map((text, i) => {
    const up = button("↑", `Move up: ${text}`, () => move(i, -1, up));
    const down = button("↓", `Move down: ${text}`, () => move(i, 1, down));
    const grip = element("span", { className: "grip", textContent: "⠿" });
    grip.setAttribute("aria-hidden", "true");
    const row = element("li", {}, grip, element("span", { className: "text" }, ...inline(text)), up, down);
    row.addEventListener("pointerdown", (event) => drag(event, row, grip));
    return row;
  });
  const order = () => [...list.children].map((row) => rows.indexOf(row));
  const node = element("fieldset", { className: "field" }, element("legend", { textContent: "Put these in order, first at the top" }), list, told);

  function settle() {
    for (const [place, row] of [...list.children].entries()) {
      const [up, down] = row.querySelectorAll("button");
      up.setAttribute("aria-disabled", place === 0);
      down.setAttribute("aria-disabled", place === rows.length - 1);
    }
  }
  function move(i, by, pressed) {
    const now = order(), place = now.indexOf(i) + by;
    if (place < 0 || place >= now.length) return;
    list.insertBefore(rows[i], by < 0 ? list.children[place] : list.children[place].nextSibling);
    settle();
    pressed.focus();
    told.textContent = `${items[i]} is now number ${place + 1} of ${items.length}.`;
  }
  function drag(down, row, grip) {
    if (node.disabled || down.button || down.target.closest("button")) return;
    if (down.pointerType !== "mouse" && down.target !== grip) return; // elsewhere a finger scrolls the page
    down.preventDefault();
    list.setPointerCapture(down.pointerId);
    row.classList.add("dragged");
    list.onpointermove = ({ clientY }) => {
      const others = [...list.children].filter((other) => other !== row);
      const next = others.find((other) => {
        const { top, height } = other.getBoundingClientRect();
        return clientY < top + height / 2;
      }) ?? null;
      if (row.nextSibling !== next) list.insertBefore(row, next);
    };
    list.onpointerup = list.onpointercancel = () => {
      list.onpointermove = list.onpointerup = list.onpointercancel = null;
      row.classList.remove("dragged");
      settle();
    };
  }
  const write = (given) => { list.replaceChildren(...(given ?? first).map((i) => rows[i])); settle(); };
  write();
  return { node, read: order, write, lock(is) { node.disabled = is; } };
}

function tableField(answer, submit) {
  const inputs = answer.rows.map((row, r) => row.map((cell, c) =>
    (typeof cell === "string" ? null : textInput(placeOf(answer, r, c), submit))));
  const boxes = answer.rows.map((row, r) => row.map((cell, c) => {
    if (inputs[r][c]) return element("td", {}, inputs[r][c]);
    return element(c ? "td" : "th", c ? {} : { scope: "row" }, ...inline(cell));
  }));
  const heads = answer.columns.map(columnHead);
  const table = element("table", {}, element("thead", {}, element("tr", {}, ...heads)),
    element("tbody", {}, ...boxes.map((cells) => element("tr", {}, ...cells))));
  const each = (act) => inputs.forEach((row, r) => row.forEach((input, c) => input && act(input, r, c)));
  const clear = (input, r, c) => {
    input.removeAttribute("aria-invalid");
    boxes[r][c].querySelector(".sign")?.remove();
  };
  each((input, r, c) => input.addEventListener("input", () => clear(input, r, c)));
  return {
    node: element("div", { className: "field filled" }, table),
    read: () => inputs.map((row) => row.map((input) => input?.value ?? null)),
    write: (given) => each((input, r, c) => { input.value = given?.[r]?.[c] ?? ""; clear(input, r, c); }),
    lock: (is) => each((input) => { input.disabled = is; }),
    mark: ({ cells }) => each((input, r, c) => {
      clear(input, r, c);
      if (!cells) return;
      input.setAttribute("aria-invalid", !cells[r][c].right);
      boxes[r][c].append(signOf(cells[r][c].right));
    }),
  };
}

/** A number on a scale: a slider, and the same number as a text. */
function scaleField({ low, high, step, unit }, submit) {
  const slider = element("input", { type: "range", min: low, max: high, step, value: (low + high) / 2 });
  slider.setAttribute("aria-label", "Your guess on the scale");
  const input = textInput("", submit);
  const say = () => slider.setAttribute("aria-valuetext", input.value ? `${input.value} ${unit}` : "nothing chosen yet");
  slider.addEventListener("input", () => { input.value = shown(Number(slider.value)); say(); });
  input.addEventListener("input", () => {
    const { value, percent } = parseNumber(input.value);
    if (value !== null) slider.value = percent && unit === "%" ? value * 100 : value;
    say();
  });
  say();
  return {
    node: element("div", { className: "field scale" },
      element("div", { className: "line" }, element("span", { textContent: shown(low) }), slider, element("span", { textContent: shown(high) })),
      element("label", {}, "Your guess ", input, ` ${unit}`)),
    read: () => ({ text: input.value, unit }),
    write(given) {
      input.value = given?.text ?? "";
      slider.value = parseNumber(input.value).value ?? (low + high) / 2;
      say();
    },
    lock(is) { slider.disabled = input.disabled = is; },
  };
}
