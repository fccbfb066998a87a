// The review of one write or delete before it is sent. It shows the private copy
// and never reads anything back: what stands in the document afterwards, changed
// or not, decides nothing. One review at a time; others wait their turn, and a
// server's receipt is asked for only when the turn has come.

import { call } from "../portal/account.js";
import { Refusal } from "../portal/request.js";
import { count, text } from "../text/text.js";
import { openDialog, type Dialog } from "../ui/dialog.js";
import { h } from "../ui/dom.js";
import { icon } from "../ui/icons.js";
import { countHidden } from "../ui/marked.js";
import { announce } from "../ui/toast.js";
import type { Arguments } from "./arguments.js";
import type { Descriptor } from "./dispatch.js";
import { guardSubmit } from "./guard.js";
import { argumentList, changes, facts } from "./shown.js";

/** What the server prepared. deadline is on performance.now's clock. */
export interface Prepared {
  readonly receipt: string;
  readonly digest: string;
  readonly deadline: number;
  readonly shown: Readonly<Record<string, unknown>>;
}

const most = 8; // reviews that wait at once
const inert = 500; // ms that the form has been on view before it takes a press

interface Waiting {
  readonly tool: string;
  readonly request: unknown;
  readonly text: string;
  readonly replaced: AbortController;
}

const waiting = new Set<Waiting>();
let last: Promise<unknown> = Promise.resolve();

/**
 * Asks the person. It fails with a Refusal: review_declined, receipt_expired,
 * cancelled (by the signal, or because the same request came again with other
 * arguments), busy, or what prepare was refused with.
 */
export function review(tool: Descriptor, mine: Arguments, stop: AbortSignal, prepare: () => Promise<Prepared>): Promise<Prepared> {
  const entry: Waiting = { tool: tool.name, request: mine.values["request_id"], text: mine.text, replaced: new AbortController() };
  replace(entry);
  if (waiting.size >= most) return Promise.reject(new Refusal("busy", true));
  waiting.add(entry);
  const signal = AbortSignal.any([stop, entry.replaced.signal]);
  const turn = last.then(async () => {
    if (signal.aborted) throw new Refusal("cancelled", true);
    const prepared = await prepare();
    return ask(tool, mine, prepared, signal);
  }).finally(() => waiting.delete(entry));
  last = turn.catch(() => undefined);
  return Promise.race([turn, aborted(signal)]);
}

/** The same request with other arguments: what was shown is no longer what is asked. */
function replace(entry: Waiting): void {
  for (const other of waiting) {
    if (other.tool === entry.tool && other.request === entry.request && other.text !== entry.text) other.replaced.abort();
  }
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const no = (): void => reject(new Refusal("cancelled", true));
    if (signal.aborted) no();
    else signal.addEventListener("abort", no, { once: true });
  });
}

/** Tells the server that nobody will use this receipt. It expires by itself as well, so nobody waits for that. */
function drop(receipt: string): void {
  call("POST", "/api/automation/decline", { receipt_id: receipt }).catch(() => undefined);
}

async function ask(tool: Descriptor, mine: Arguments, prepared: Prepared, signal: AbortSignal): Promise<Prepared> {
  if (signal.aborted) throw new Refusal("cancelled", true);
  const form = new Form(tool, mine, prepared);
  const close = (): void => form.end("cancelled");
  signal.addEventListener("abort", close, { once: true });
  const outcome = await form.outcome;
  signal.removeEventListener("abort", close);
  if (outcome !== "accepted") {
    drop(prepared.receipt);
    throw new Refusal(outcome, outcome === "cancelled");
  }
  return prepared;
}

type Outcome = "accepted" | "review_declined" | "receipt_expired" | "cancelled";

/** The dialog. Its one result is decided once. */
class Form {
  readonly outcome: Promise<Outcome>;
  private decide: (outcome: Outcome) => void = () => undefined;
  private readonly dialog: Dialog;
  private readonly accept: HTMLButtonElement;
  private readonly left: HTMLElement;
  private readonly timer: ReturnType<typeof setInterval>;
  private seen = 0; // ms on view

  constructor(tool: Descriptor, mine: Arguments, private readonly prepared: Prepared) {
    this.outcome = new Promise((resolve) => {
      this.decide = resolve;
    });
    const danger = tool.effect === "delete";
    this.accept = h("button", { type: "submit", class: danger ? "danger" : "primary", "aria-disabled": "true", id: "review-accept" },
      text(danger ? "review.delete" : "review.write"));
    this.left = h("span", { class: "countdown" });
    const form = h("form", { class: "review", novalidate: true }, this.body(tool, mine), this.foot());
    guardSubmit(form, this.accept, () => this.end("accepted"));
    this.dialog = openDialog(text(danger ? "review.title.delete" : "review.title.write"), [form], "wide");
    void this.dialog.closed.then(() => this.end("review_declined"));
    this.timer = setInterval(() => this.tick(), 100);
    this.tick();
    announce(text(danger ? "review.announce.delete" : "review.announce.write"));
  }

  private body(tool: Descriptor, mine: Arguments): Node[] {
    const marks = marksIn(mine.values);
    return [
      h("p", { class: "lead" }, text("review.lead", { tool: tool.title, name: tool.name })),
      facts(tool, mine, this.prepared.shown),
      ...changes(this.prepared.shown),
      h("h3", null, text("review.arguments")),
      ...(marks > 0 ? [h("p", { class: "notice warn" }, icon("warning", 16), count("review.marks", marks))] : []),
      argumentList(mine.values),
    ];
  }

  private foot(): Node {
    return h("div", { class: "review-foot" },
      h("p", { class: "hint" }, text("review.level"), " ", this.left),
      h("div", { class: "actions" },
        h("button", { type: "button", id: "review-decline", on: { click: () => this.end("review_declined") } }, text("review.decline")),
        this.accept));
  }

  /** Counts down, and lets the button come alive once the form has been on view. */
  private tick(): void {
    const left = Math.ceil((this.prepared.deadline - performance.now()) / 1000);
    if (left <= 0) return this.end("receipt_expired");
    if (document.visibilityState === "visible") this.seen += 100;
    if (this.seen > inert) this.accept.removeAttribute("aria-disabled");
    const words = text("review.left", { time: `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}` });
    if (this.left.textContent === words) return;
    this.left.textContent = words;
    if (left === 30 || left === 10) announce(words);
  }

  end(outcome: Outcome): void {
    clearInterval(this.timer);
    this.decide(outcome);
    if (this.dialog.element.open) this.dialog.close();
  }
}

/** How many characters of the arguments are shown as marked boxes. */
function marksIn(value: unknown): number {
  if (typeof value === "string") return countHidden(value, "exact");
  if (typeof value !== "object" || value === null) return 0;
  return Object.entries(value).reduce((n, [k, v]) => n + countHidden(k, "exact") + marksIn(v), 0);
}
