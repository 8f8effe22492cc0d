// The little markup of questions: `code`, *emphasis*, paragraphs. Text becomes text, never HTML.

import { element } from "./dom.js";

/** A line cut into { kind: "text" | "code" | "em", text }. */
export function spans(line) {
  const parts = line.split(/(`[^`]+`|\*[^*\s](?:[^*]*[^*\s])?\*)/);
  return parts.filter(Boolean).map((part) => {
    if (part.length > 2 && part.startsWith("`") && part.endsWith("`")) return { kind: "code", text: part.slice(1, -1) };
    if (part.length > 2 && part.startsWith("*") && part.endsWith("*")) return { kind: "em", text: part.slice(1, -1) };
    return { kind: "text", text: part };
  });
}

/** A line as nodes, to be put into an element. */
export const inline = (line) =>
  spans(line).map(({ kind, text }) => (kind === "text" ? text : element(kind, { textContent: text })));

/** A text as paragraphs, which a blank line divides. */
export const paragraphs = (text) =>
  text.trim().split(/\n\s*\n/).map((part) => element("p", {}, ...inline(part)));
