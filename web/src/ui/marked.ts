// Shows foreign text so that a person sees what it holds: a character that can't
// be seen, or that reorders others, becomes a marked box with its code point.

import { h, type Child } from "./dom.js";

// The same characters as internal/portal/tool's Plain: control, format, private,
// half pairs, variation selectors, tags, fillers, line separators, noncharacters.
const hidden = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Variation_Selector}\p{Noncharacter_Code_Point}\u2028\u2029\u034f\u115f\u1160\u3164\uffa0\u{e0000}-\u{e0fff}]/u;
// Blanks that pass for a space, told apart where every character counts.
const blanks = /[\u00a0\u1680\u2000-\u200a\u202f\u205f\u2800\u3000]/u;

export type Mode =
  | "line" // one line: line ends are marked too
  | "text" // line ends and tabs are kept
  | "exact"; // as text, and odd blanks are marked

/** Splits text into its plain runs and marked boxes. */
export function marked(text: string, mode: Mode = "line"): Node {
  const out = document.createDocumentFragment();
  let run = "";
  const flush = (): void => {
    if (run !== "") out.append(run);
    run = "";
  };
  for (const c of mode === "line" ? text : text.replaceAll("\r\n", "\n")) {
    if (mode !== "line" && (c === "\n" || c === "\t")) run += c;
    else if (hidden.test(c) || (mode === "exact" && blanks.test(c))) {
      flush();
      out.append(box(c));
    } else run += c;
  }
  flush();
  return out;
}

/** Tells how many characters of text would be marked. */
export function countHidden(text: string): number {
  let n = 0;
  for (const c of text) if (hidden.test(c) && c !== "\n" && c !== "\t" && c !== "\r") n++;
  return n;
}

/** The plain form for titles and attributes, where no element can stand. */
export function plain(text: string): string {
  let out = "";
  for (const c of text) out += hidden.test(c) ? codePoint(c) : c;
  return out;
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
