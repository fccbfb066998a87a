// Parts that every page is made of.

import { has, text, textOf, type Key } from "../text/text.js";
import { codeOf, Refusal } from "../portal/request.js";
import { fill, h, uid, type Child } from "./dom.js";
import { icon, type IconName } from "./icons.js";
import { toast } from "./toast.js";

/** A page's heading, with what can be done on the page beside it. */
export function heading(title: Child, actions: Child = null, below: Child = null): HTMLElement {
  return h("div", { class: "page-head" },
    h("div", null, h("h1", { tabindex: "-1" }, title), below && h("p", { class: "lead" }, below)),
    actions && h("div", { class: "actions" }, actions));
}

/** A part of a page under a heading of its own. */
export function section(title: string, ...children: Child[]): HTMLElement {
  const id = uid("section");
  return h("section", { class: "card", "aria-labelledby": id }, h("h2", { id }, title), children);
}

/** What stands where there is nothing yet: why, and what to do next. */
export function empty(name: IconName, title: string, next: Child, action: Child = null): HTMLElement {
  return h("div", { class: "empty" }, icon(name, 32), h("p", { class: "empty-title" }, title), h("p", null, next), action);
}

export function badge(words: Child, tone: "plain" | "good" | "warn" | "bad" | "accent" = "plain"): HTMLElement {
  return h("span", { class: "badge " + tone }, words);
}

export function button(label: string, act: () => unknown, options: { icon?: IconName; class?: string; describe?: string } = {}): HTMLButtonElement {
  const made: HTMLButtonElement = h("button", {
    type: "button", class: options.class, "aria-label": options.describe,
    on: { click: () => void busy(made, act) },
  }, options.icon && icon(options.icon, 16), label);
  return made;
}

/** Runs what a button does; the button takes no second press until it is done. */
export async function busy(it: HTMLButtonElement, act: () => unknown): Promise<void> {
  if (it.getAttribute("aria-busy") === "true") return;
  it.setAttribute("aria-busy", "true");
  try {
    await act();
  } finally {
    it.removeAttribute("aria-busy");
  }
}

/** A labelled field. */
export function field(label: Child, input: HTMLElement, hint: Child = null): HTMLElement {
  if (input.id === "") input.id = uid("field");
  const hintID = hint ? uid("hint") : undefined;
  if (hintID !== undefined) input.setAttribute("aria-describedby", hintID);
  return h("div", { class: "field" }, h("label", { for: input.id }, label), input, hint && h("p", { class: "hint", id: hintID }, hint));
}

/** A table that turns into a list of cards where the page is narrow. */
export function table(caption: string, head: readonly string[], rows: readonly (readonly Child[])[]): HTMLElement {
  return h("div", { class: "table-wrap" }, h("table", null,
    h("caption", { class: "visually-hidden" }, caption),
    h("thead", null, h("tr", null, head.map((t) => h("th", { scope: "col" }, t || h("span", { class: "visually-hidden" }, text("table.actions")))))),
    h("tbody", null, rows.map((row) => h("tr", null, row.map((cell, i) =>
      h(i === 0 ? "th" : "td", { scope: i === 0 ? "row" : undefined, "data-label": head[i] || undefined }, h("div", { class: "cell" }, cell))))))));
}

/** What went wrong, by its code, and what mends it. */
export function problem(error: unknown, again?: () => void): HTMLElement {
  const { what, fix } = explain(error);
  return h("div", { class: "problem", role: "alert" }, icon("warning", 22),
    h("div", null, h("p", { class: "problem-what" }, what), h("p", null, fix, " ", h("code", { class: "code" }, codeOf(error)))),
    again && h("button", { type: "button", on: { click: again } }, icon("refresh", 16), text("problem.again")));
}

/** The two sentences for an error's code: what happened, and what helps. */
export function explain(error: unknown): { what: string; fix: string } {
  const code = codeOf(error);
  const details = error instanceof Refusal ? error.details : {};
  const values: Record<string, string | number> = {};
  for (const [k, v] of Object.entries(details)) if (typeof v === "string" || typeof v === "number") values[k] = v;
  // A detail that a text names and the answer lacks mustn't show as {name}.
  const clean = (s: string): string => s.replace(/\{[a-z_]+\}/g, "…");
  return {
    what: clean(textOf("error", code, "error.other", values)),
    fix: clean(has(`fix.${code}`) ? text(`fix.${code}` as Key, values) : text("fix.other")),
  };
}

/**
 * Loads what a place shows. A skeleton appears after 300 ms, never before: a
 * quick answer doesn't flicker; and only where there is nothing yet: what is there
 * stays until the new comes, so that nothing moves under a pointer meanwhile. What
 * comes too late for the page is dropped.
 */
export async function load<T>(place: HTMLElement, signal: AbortSignal, get: () => Promise<T>, show: (value: T) => Child): Promise<void> {
  const late = setTimeout(() => place.hasChildNodes() || fill(place, skeleton()), 300);
  place.setAttribute("aria-busy", "true");
  try {
    const value = await get();
    if (!signal.aborted) fill(place, show(value));
  } catch (error) {
    if (signal.aborted) return;
    if (!(error instanceof Refusal)) console.error(error);
    fill(place, problem(error, () => void load(place, signal, get, show)));
  } finally {
    clearTimeout(late);
    place.removeAttribute("aria-busy");
  }
}

function skeleton(): HTMLElement {
  return h("div", { class: "skeleton" }, h("span", { class: "visually-hidden" }, text("load.busy")),
    [90, 70, 80, 60].map((w) => h("div", { class: `bone w${w}` })));
}

/** Tells what went wrong where there is no place of its own for it. */
export function toastProblem(error: unknown): void {
  const { what, fix } = explain(error);
  toast(`${what} ${fix}`, "bad");
}
