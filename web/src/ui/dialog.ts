// Modal dialogs on the browser's own <dialog>: what is behind is inert, Escape
// closes, Tab stays inside, and focus goes back to where it came from.

import { text } from "../text/text.js";
import { h, uid, type Child } from "./dom.js";
import { icon } from "./icons.js";

export interface Dialog {
  readonly element: HTMLDialogElement;
  readonly closed: Promise<void>;
  close(): void;
}

const reachable = 'a[href], button:not([disabled]), input:not([disabled]), select:not([disabled]), textarea:not([disabled]), [tabindex="0"]';

/** Opens a dialog over the page. */
export function openDialog(title: string, body: readonly Child[], classes = ""): Dialog {
  const titleID = uid("title");
  const heading = h("h2", { id: titleID, tabindex: "-1" }, title);
  const element = h("dialog", { class: "dialog " + classes, role: "dialog", "aria-modal": "true", "aria-labelledby": titleID },
    h("div", { class: "dialog-head" }, heading,
      h("button", { type: "button", class: "bare", "aria-label": text("dialog.close"), on: { click: () => element.close() } }, icon("close"))),
    h("div", { class: "dialog-body" }, body), h("div", { class: "visually-hidden", role: "status", "aria-live": "polite" }));
  const before = document.activeElement;
  const closed = new Promise<void>((resolve) => {
    element.addEventListener("close", () => {
      element.remove();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
      resolve();
    });
  });
  element.addEventListener("keydown", (event) => keepFocus(element, event));
  document.body.append(element);
  element.showModal();
  (element.querySelector<HTMLElement>("[autofocus]") ?? heading).focus();
  return { element, closed, close: () => element.close() };
}

/** Turns Tab around at both ends. */
function keepFocus(element: HTMLElement, event: KeyboardEvent): void {
  if (event.key !== "Tab") return;
  const all = [...element.querySelectorAll<HTMLElement>(reachable)].filter((e) => e.checkVisibility());
  const first = all[0];
  const last = all[all.length - 1];
  if (first === undefined || last === undefined) return;
  const at = document.activeElement;
  if (event.shiftKey && (at === first || !all.includes(at as HTMLElement))) {
    event.preventDefault();
    last.focus();
  } else if (!event.shiftKey && at === last) {
    event.preventDefault();
    first.focus();
  }
}

/** Asks before something that can't be undone. */
export async function confirm(title: string, body: Child, action: string, tone: "danger" | "primary" = "danger"): Promise<boolean> {
  let yes = false;
  const dialog: Dialog = openDialog(title, [
    h("div", { class: "prose" }, body),
    h("div", { class: "actions" },
      h("button", { type: "button", autofocus: true, on: { click: () => dialog.close() } }, text("dialog.cancel")),
      h("button", { type: "button", class: tone, on: { click: () => { yes = true; dialog.close(); } } }, action)),
  ], "small");
  await dialog.closed;
  return yes;
}
