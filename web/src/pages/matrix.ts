// Exact collections by exact functions: what a person picks for the browser
// surface, an app or a token. Nothing is picked for them, and there is no "all":
// a collection that is made later is in nobody's selection.

import type { Selected } from "../adapter/adapter.js";
import { text, textOf } from "../text/text.js";
import { h, type Child } from "../ui/dom.js";
import { foreign } from "../ui/marked.js";
import { table } from "../ui/parts.js";
import { type Collection, selectable } from "./data.js";

export class Matrix {
  readonly element: HTMLElement;
  private readonly boxes: { collection: string; name: string; box: HTMLInputElement }[] = [];

  constructor(collections: readonly Collection[], chosen: readonly Selected[], private readonly changed: () => void = () => undefined) {
    const has = new Set(chosen.flatMap((s) => s.functions.map((f) => s.collection + " " + f)));
    const head = [text("matrix.collection"), ...selectable.map((f) => textOf("function", f, "function.other"))];
    const rows = collections.map((c) => [this.name(c), ...selectable.map((f) => this.cell(c, f, has.has(c.collection + " " + f)))]);
    this.element = h("div", { class: "matrix" }, table(text("matrix.caption"), head, rows));
  }

  private name(c: Collection): Child {
    return [foreign(c.title), h("span", { class: "sub" }, h("code", null, c.collection), " · ", textOf("source", c.source, "source.external"))];
  }

  private cell(c: Collection, name: string, on: boolean): Child {
    const words = textOf("function", name, "function.other");
    if (!c.functions.includes(name)) return h("span", { class: "muted" }, h("span", { "aria-hidden": "true" }, "—"), h("span", { class: "visually-hidden" }, text("matrix.unavailable")));
    const box = h("input", { type: "checkbox", checked: on, "aria-label": text("matrix.box", { function: words, collection: c.title }), on: { change: this.changed } });
    this.boxes.push({ collection: c.collection, name, box });
    return h("label", { class: "box" }, box);
  }

  /** What is ticked now, in the order of the table. */
  selection(): Selected[] {
    const out = new Map<string, string[]>();
    for (const { collection, name, box } of this.boxes) {
      if (box.checked) out.set(collection, [...(out.get(collection) ?? []), name]);
    }
    return [...out].map(([collection, functions]) => ({ collection, functions }));
  }

  lock(locked: boolean): void {
    for (const { box } of this.boxes) box.disabled = locked;
  }
}

/** A selection in words: each collection with its functions. */
export function selectionList(selection: readonly Selected[]): HTMLElement {
  return h("ul", { class: "selection" }, selection.map((s) => h("li", null, h("code", null, s.collection), " ",
    s.functions.map((f) => h("span", { class: "badge plain" }, textOf("function", f, "function.other"))))));
}
