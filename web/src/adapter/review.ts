// The review of one write or delete before it is sent. It shows the private copy
// and never reads anything back: what stands in the document afterwards, changed
// or not, decides nothing. One review at a time; others wait their turn, and a
// server's receipt is asked for only when the turn has come.

import { call } from "../portal/account.js";
import { Refusal } from "../portal/request.js";
import { count, text } from "../text/text.js";
import { h, type Child } from "../ui/dom.js";
import { icon } from "../ui/icons.js";
import { inTurn } from "../ui/turn.js";
import type { Arguments } from "./arguments.js";
import type { Descriptor } from "./dispatch.js";
import { composedIn, Form, marksIn, type Sheet } from "./form.js";
import { argumentList, changes, facts } from "./shown.js";

/** What the server prepared. deadline is on performance.now's clock. */
export interface Prepared {
  readonly receipt: string;
  readonly digest: string;
  readonly deadline: number;
  readonly shown: Readonly<Record<string, unknown>>;
}

const most = 8; // reviews that wait at once

interface Waiting {
  readonly tool: string;
  readonly request: unknown;
  readonly text: string;
  readonly replaced: AbortController;
}

const waiting = new Set<Waiting>();

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
  const turn = inTurn(async () => {
    if (signal.aborted) throw new Refusal("cancelled", true);
    const prepared = await prepare();
    return ask(tool, mine, prepared, signal);
  }).finally(() => waiting.delete(entry));
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
export function drop(receipt: string): void {
  call("POST", "/api/automation/decline", { receipt_id: receipt }).catch(() => undefined);
}

async function ask(tool: Descriptor, mine: Arguments, prepared: Prepared, signal: AbortSignal): Promise<Prepared> {
  if (signal.aborted) throw new Refusal("cancelled", true);
  const form = new Form(sheet(tool, mine, prepared));
  const close = (): void => form.end("cancelled");
  signal.addEventListener("abort", close, { once: true });
  const outcome = await form.outcome;
  signal.removeEventListener("abort", close);
  if (outcome !== "accepted") {
    drop(prepared.receipt);
    throw new Refusal(outcome === "declined" ? "review_declined" : outcome === "expired" ? "receipt_expired" : "cancelled", outcome === "cancelled");
  }
  return prepared;
}

/** What the person sees, and may press. */
function sheet(tool: Descriptor, mine: Arguments, prepared: Prepared): Sheet {
  const danger = tool.effect === "delete";
  return {
    id: "review", danger, title: text(danger ? "review.title.delete" : "review.title.write"),
    body: [
      h("p", { class: "lead" }, text("review.lead", { tool: tool.title, name: tool.name })),
      facts(tool, mine, prepared.shown),
      changes(prepared.shown),
      exactly(mine),
    ],
    level: text("review.level"), accept: text(danger ? "review.delete" : "review.write"), decline: text("review.decline"),
    announce: text(danger ? "review.announce.delete" : "review.announce.write"), left: () => prepared.deadline - performance.now(),
  };
}

/** All arguments, under their heading. */
export function exactly(mine: Arguments): Child {
  const marks = marksIn(mine.values);
  const composed = composedIn(mine.values);
  return [
    h("h3", null, text("review.arguments")),
    marks > 0 && h("p", { class: "notice warn" }, icon("warning", 16), count("review.marks", marks)),
    composed > 0 && h("p", { class: "notice warn" }, icon("warning", 16), count("review.composed", composed)),
    argumentList(mine.values),
  ];
}
