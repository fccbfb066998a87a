// Short messages that come and go, announced politely; and the one live region
// for what changes without a message of its own.

import { text } from "../text/text.js";
import { h } from "./dom.js";
import { icon, type IconName } from "./icons.js";

const shownFor = 7000; // ms; a message stays while the pointer or focus is on it

let area: HTMLElement | undefined;
let live: HTMLElement | undefined;

/** Makes the two regions. They must be in the page before their first message. */
export function toastArea(): HTMLElement[] {
  live = h("div", { class: "visually-hidden", role: "status", "aria-live": "polite" });
  area = h("div", { class: "toasts", popover: "manual", role: "log", "aria-live": "polite", "aria-label": text("toast.area") });
  return [live, area];
}

export type Tone = "good" | "bad" | "note";

const icons: Readonly<Record<Tone, IconName>> = { good: "check", bad: "warning", note: "info" };

/** Shows a message, with one thing to do about it where undo is given. */
export function toast(message: string, tone: Tone = "good", undo?: { label: string; act: () => void }): void {
  if (area === undefined) return;
  const close = (): void => {
    it.remove();
    if (area?.childElementCount === 0 && area.matches(":popover-open")) area.hidePopover();
  };
  const it = h("div", { class: `toast ${tone}` }, icon(icons[tone]), h("span", null, message),
    undo && h("button", { type: "button", class: "link", on: { click: () => { close(); undo.act(); } } }, undo.label),
    h("button", { type: "button", class: "bare", "aria-label": text("toast.close"), on: { click: close } }, icon("close", 16)));
  area.append(it);
  // Over an open dialog too, which came into the top layer before it.
  if (area.matches(":popover-open")) area.hidePopover();
  area.showPopover();
  if (openDialogs().length > 0) announce(message); // what is outside a modal dialog isn't read
  const later = (): void => {
    if (it.matches(":hover, :focus-within")) setTimeout(later, 1000);
    else close();
  };
  setTimeout(later, tone === "bad" ? 2 * shownFor : shownFor);
}

function openDialogs(): Element[] {
  return [...document.querySelectorAll("dialog[open] [role=status]")];
}

/** Tells a screen reader something that the page shows elsewhere. */
export function announce(message: string): void {
  const place = openDialogs().pop() ?? live;
  if (place !== undefined) place.textContent = message;
}
