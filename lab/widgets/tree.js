// Draws a tree that grows downwards, and somebody's way through it: lists within lists.

import { element } from "./dom.js";
import { frameAt } from "./frames.js";

const WORDS = { hit: "found", miss: "computed", tail: "computed", evicted: "given up" };

/** Nodes with a depth, each after the one it follows, as { node, below }. */
export function nested(nodes) {
  const top = [], open = [top];
  for (const node of nodes) {
    const [depth] = node, one = { node, below: [] };
    open.length = depth + 1;
    open[depth].push(one);
    open[depth + 1] = one.below;
  }
  return top;
}

/** A stage like that of `lanes`, for a tree. */
export function tree(scene, colour) {
  const node = element("div", { className: "tree" });

  function list(branches) {
    return element("ul", {}, ...branches.map(({ node: [, role, label, text, note], below }) => {
      const words = [element("span", { className: "name", textContent: label }), element("span", { textContent: text }),
        ...[WORDS[role], note].filter(Boolean).map((said) => element("span", { className: "soft", textContent: said }))];
      return element("li", {}, element("p", { className: role }, ...words), ...(below.length ? [list(below)] : []));
    }));
  }
  return {
    node,
    fit() { node.setAttribute("aria-label", scene.title); },
    show(moment) {
      const { nodes, walker } = frameAt(scene, moment) ?? scene.frames[0];
      node.className = `tree ${colour(walker)}`;
      node.replaceChildren(nodes.length ? list(nested(nodes)) : element("p", { textContent: "Nothing is known." }));
      return 0;
    },
    replace(other) { scene = other; },
  };
}
