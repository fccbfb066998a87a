// What a review shows: the facts as the server knows them, what would change, and
// every argument exactly as it will be sent.

import { bytes, text, textOf } from "../text/text.js";
import { h, type Child } from "../ui/dom.js";
import { icon } from "../ui/icons.js";
import { foreign, marked } from "../ui/marked.js";
import type { Arguments } from "./arguments.js";
import { compare, type Line } from "./compare.js";
import type { Descriptor } from "./dispatch.js";

type Values = Readonly<Record<string, unknown>>;

/** What the server found, as far as it is of the form that it should be. */
export type Shown = Values;

interface Side {
  readonly size: number;
  readonly media_type: string;
  readonly lines?: readonly string[];
}

function word(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function code(value: string): HTMLElement {
  return h("code", { class: "code" }, marked(value, "exact"));
}

function list(rows: readonly (readonly [Child, Child])[]): HTMLElement {
  return h("dl", { class: "facts" }, rows.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))));
}

/** The collection, item, effect and version that the call is about. */
export function facts(tool: Descriptor, mine: Arguments, shown: Shown): HTMLElement {
  const title = word(shown["collection_title"]);
  const version = word(shown["current_version"]);
  const named = word(shown["item_title"]);
  const item = word(mine.values["item"]);
  return list([
    [text("review.collection"), [title !== "" && [foreign(title), " "], code(word(mine.values["collection"]))]],
    [text("review.item"), [named !== "" && named !== item && [foreign(named), " "], code(item)]],
    [text("review.effect"), textOf("effect", tool.effect, "effect.write")],
    [text("review.version"), version === "" ? text("review.version.none") : code(version)],
  ]);
}

/** What would change: sizes and kinds, metadata, and the text line by line. */
export function changes(shown: Shown): Node[] {
  const before = side(shown["before"]);
  const after = side(shown["after"]);
  const rows: [Child, Child][] = [];
  if (before !== undefined) rows.push([text("review.before"), size(before)]);
  if (after !== undefined) rows.push([text("review.after"), size(after)]);
  rows.push(...metadata(shown["metadata_before"], shown["metadata_after"]));
  const out: Node[] = [];
  if (shown["repeated"] === true) out.push(h("p", { class: "notice" }, icon("info", 16), text("review.repeated")));
  if (rows.length > 0) out.push(list(rows));
  if (before?.lines !== undefined && (after === undefined || after.lines !== undefined)) {
    out.push(h("h3", null, text("review.diff")), diff(compare(before.lines, after?.lines ?? [])));
  }
  return out;
}

function side(value: unknown): Side | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { size, media_type: kind, lines } = value as Values;
  if (typeof size !== "number") return undefined;
  const texts = Array.isArray(lines) && lines.every((l) => typeof l === "string") ? { lines: lines as string[] } : {};
  return { size, media_type: word(kind), ...texts };
}

function size(of: Side): Child {
  return [bytes(of.size), " ", code(of.media_type)];
}

/** Each member that is to be set, with what it is now. */
function metadata(before: unknown, after: unknown): [Child, Child][] {
  if (typeof after !== "object" || after === null) return [];
  const had = (typeof before === "object" && before !== null ? before : {}) as Values;
  return Object.entries(after).map(([name, value]) => [marked(name, "exact"), [code(name in had ? JSON.stringify(had[name]) : "—"), " → ", code(JSON.stringify(value))]]);
}

const shownLines = 400; // of a comparison; the arguments below are always whole

function diff(lines: readonly Line[]): HTMLElement {
  const rows = lines.slice(0, shownLines).map(({ kind, text: line }) =>
    h(kind === "added" ? "ins" : kind === "removed" ? "del" : "span", { class: kind },
      kind === "added" ? "+ " : kind === "removed" ? "− " : "  ", marked(line.replace(/\n$/, ""), "exact"), "\n"));
  return h("pre", { class: "content diff", tabindex: "0", role: "region", "aria-label": text("review.diff") }, rows,
    lines.length > shownLines && h("span", { class: "muted" }, text("review.diff.cut", { n: lines.length - shownLines })));
}

/** All arguments, each by its name and its whole value. */
export function argumentList(values: Values): HTMLElement {
  return h("dl", { class: "arguments" }, Object.entries(values).map(([name, value]) =>
    h("div", null, h("dt", null, marked(name, "exact")), h("dd", null, argument(name, value), typeof value === "string" && passes(value) && h("p", { class: "hint" }, text("review.value.text"))))));
}

/** Whether a text stands there like a number, a list or another value that isn't one. */
function passes(value: string): boolean {
  try {
    return typeof JSON.parse(value) !== "string";
  } catch {
    return false;
  }
}

function argument(name: string, value: unknown): HTMLElement {
  const exact = typeof value === "string" ? value : JSON.stringify(value);
  return h("pre", { class: "content", tabindex: "0", role: "region", "aria-label": text("review.value", { name }) },
    exact === "" ? h("span", { class: "muted" }, text("review.value.empty")) : marked(exact, "exact"));
}
