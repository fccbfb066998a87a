// The dialog in which a press decides: what it shows stands in it, and nothing is
// ever read back from the document. Its button takes a press only once the form has
// been on view, and only one of this browser's own input (guard.ts).

import { clock, text } from "../text/text.js";
import { openDialog, type Dialog } from "../ui/dialog.js";
import { h, type Child } from "../ui/dom.js";
import { countHidden } from "../ui/marked.js";
import { announce } from "../ui/toast.js";
import { guardSubmit } from "./guard.js";

const inert = 500; // ms that the form has been on view before it takes a press

export interface Sheet {
  readonly id: string; // its buttons are ID-accept and ID-decline
  readonly title: string;
  readonly body: readonly Child[];
  readonly level: string; // what a press is recorded as
  readonly accept: string;
  readonly decline: string;
  readonly danger: boolean;
  readonly announce: string;
  /** ms until it closes by itself */
  left(): number;
}

export type Pressed = "accepted" | "declined" | "expired" | "cancelled";

/** The dialog. Its one result is decided once. */
export class Form {
  readonly outcome: Promise<Pressed>;
  private decide: (outcome: Pressed) => void = () => undefined;
  private readonly dialog: Dialog;
  private readonly accept: HTMLButtonElement;
  private readonly left: HTMLElement;
  private readonly timer: ReturnType<typeof setInterval>;
  private seen = 0; // ms on view, without a break

  constructor(private readonly sheet: Sheet) {
    this.outcome = new Promise((resolve) => {
      this.decide = resolve;
    });
    this.accept = h("button", { type: "submit", class: sheet.danger ? "danger" : "primary", "aria-disabled": "true", id: sheet.id + "-accept" }, sheet.accept);
    this.left = h("span", { class: "countdown" });
    const form = h("form", { class: "review", novalidate: true }, sheet.body, this.foot());
    guardSubmit(form, this.accept, () => this.end("accepted"));
    this.dialog = openDialog(sheet.title, [form], "wide");
    void this.dialog.closed.then(() => this.end("declined"));
    this.timer = setInterval(() => this.tick(), 100);
    this.tick();
    announce(sheet.announce);
  }

  private foot(): Node {
    return h("div", { class: "review-foot" },
      h("p", { class: "hint" }, this.sheet.level, " ", this.left),
      h("div", { class: "actions" },
        h("button", { type: "button", id: this.sheet.id + "-decline", on: { click: () => this.end("declined") } }, this.sheet.decline),
        this.accept));
  }

  /** Counts down, and lets the button come alive once the form has been on view. */
  private tick(): void {
    const left = Math.ceil(this.sheet.left() / 1000);
    if (left <= 0) return this.end("expired");
    this.seen = document.visibilityState === "visible" ? this.seen + 100 : 0;
    if (this.seen > inert) this.accept.removeAttribute("aria-disabled");
    else this.accept.setAttribute("aria-disabled", "true");
    const words = text("review.left", { time: clock(left) });
    if (this.left.textContent === words) return;
    this.left.textContent = words;
    if (left === 30 || left === 10) announce(words);
  }

  end(outcome: Pressed): void {
    clearInterval(this.timer);
    this.decide(outcome);
    if (this.dialog.element.open) this.dialog.close();
  }
}

/** How many characters of the arguments are shown as marked boxes. */
export function marksIn(value: unknown): number {
  if (typeof value === "string") return countHidden(value, "exact");
  if (typeof value !== "object" || value === null) return 0;
  return Object.entries(value).reduce((n, [k, v]) => n + countHidden(k, "exact") + marksIn(v), 0);
}

/** Tells how many texts aren't what another program would make of the same letters. */
export function composedIn(value: unknown): number {
  if (typeof value === "string") return value === value.normalize("NFC") ? 0 : 1;
  if (typeof value !== "object" || value === null) return 0;
  return Object.entries(value).reduce((n, [k, v]) => n + composedIn(k) + composedIn(v), 0);
}
