// Elements in one call each: the words that every widget here is written in.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element with properties and children. */
export function element(name, properties = {}, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

/** An SVG element with attributes, and a text where it has one. */
export function shape(name, attributes = {}, text) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

/** A button: what it shows, what a screen reader calls it, and what it does. */
export function button(text, name, act) {
  const node = element("button", { type: "button", textContent: text, title: name, onclick: act });
  node.setAttribute("aria-label", name);
  return node;
}

/** The head of a column of a table, or an empty cell: what has no words heads nothing. */
export function columnHead(textContent) {
  return textContent ? element("th", { scope: "col", textContent }) : element("td");
}

/** While a box is wider than its window, Tab leads to it under a name and its arrows scroll it. */
export function reach(box, name) {
  const scrolls = box.scrollWidth > box.clientWidth && getComputedStyle(box).overflowX === "auto";
  const says = { tabindex: 0, role: "group", "aria-label": `${name} (scrolls sideways)` };
  box.classList.toggle("scrolls", scrolls);
  for (const [key, value] of Object.entries(says)) scrolls ? box.setAttribute(key, value) : box.removeAttribute(key);
}

/** Keeps the keys of controls inside `root` from a notebook, which has its own use for arrows. */
export function keepKeys(root) {
  root.addEventListener("keydown", (event) => {
    const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
    if (plain && event.target.matches("input, select, textarea, button, summary, .scrolls")) event.stopPropagation();
  });
}
