// Where a number comes from: given, derived, measured or cited.

import { element } from "./dom.js";

/**
 * The tag of a figure. A published page that brings the tag's definition along gets a link to it,
 * which opens in place there; elsewhere the word stands alone.
 */
export function tagOf(name) {
  const word = element("span", { className: "tag", textContent: name });
  const { content_root: root } = document.documentElement.dataset;
  if (root === undefined || !document.getElementById(`definition-term-${name}`)) return word;
  const href = new URL(`book/tags.html#term-${name}`, new URL(root, document.baseURI)).href;
  const link = element("a", { href }, word);
  link.setAttribute("aria-describedby", `definition-term-${name}`);
  return link;
}
