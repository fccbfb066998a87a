// Shows foreign text so that a person sees what it holds: a character that can't
// be seen, or that reorders others, becomes a marked box with its code point.

import { h, type Child } from "./dom.js";

// The same characters as internal/portal/tool's Plain: control, format, private,
// half pairs, variation selectors, tags, fillers, line separators, noncharacters.
const hidden = "\\p{Cc}\\p{Cf}\\p{Co}\\p{Cs}\\p{Variation_Selector}\\p{Noncharacter_Code_Point}\\u2028\\u2029\\u034f\\u115f\\u1160\\u3164\\uffa0\\u{e0000}-\\u{e0fff}";
// Blanks that pass for a space, told apart where every character counts.
const blanks = "\\u00a0\\u1680\\u2000-\\u200a\\u202f\\u205f\\u2800\\u3000";

export type Mode =
  | "line" // one line: line ends are marked too
  | "text" // line ends and tabs are kept
  | "exact"; // as text, and odd blanks are marked

const patterns: Readonly<Record<Mode, RegExp>> = {
  line: new RegExp(`[${hidden}]`, "gu"),
  text: new RegExp(`(?![\\n\\t])[${hidden}]`, "gu"),
  exact: new RegExp(`(?![\\n\\t])[${hidden}${blanks}]`, "gu"),
};

/** Splits text into its plain runs and marked boxes. */
export function marked(text: string, mode: Mode = "line"): Node {
  const out = document.createDocumentFragment();
  // What is sent is shown exactly; elsewhere the two characters of a line end are one.
  const whole = mode === "text" ? text.replaceAll("\r\n", "\n") : text;
  let from = 0;
  for (const found of whole.matchAll(patterns[mode])) {
    if (found.index > from) out.append(whole.slice(from, found.index));
    out.append(box(found[0]));
    from = found.index + found[0].length;
  }
  if (from < whole.length) out.append(whole.slice(from));
  return out;
}

/** Tells how many characters of text would be marked. */
export function countHidden(text: string, mode: Mode = "text"): number {
  let n = 0;
  for (const _ of (mode === "text" ? text.replaceAll("\r\n", "\n") : text).matchAll(patterns[mode])) n++;
  return n;
}

/** The plain form for titles and attributes, where no element can stand. */
export function plain(text: string): string {
  return text.replace(patterns.line, codePoint);
}

function codePoint(c: string): string {
  return "⟦U+" + (c.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0") + "⟧";
}

function box(c: string): HTMLElement {
  return h("span", { class: "hidden-mark" }, codePoint(c));
}

/** Foreign text on one line, its direction kept to itself. */
export function foreign(text: string, ...more: Child[]): HTMLElement {
  return h("bdi", { class: "foreign" }, marked(text), ...more);
}
