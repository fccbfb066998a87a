// One call of a tool, from the browser's callback to its answer.
//
// Order: private copy; is the period on; (a mutation: prepare, review, confirm);
// is the period still on; send; is the period still on; answer. Before the send
// a stop is "cancelled" and nothing happened. After it a lost answer is
// "unknown_outcome": it is never sent again, and never told as a failure.

import { answer as ask, call } from "../portal/account.js";
import { Refusal } from "../portal/request.js";
import { failure, success, type Answer } from "./answer.js";
import { body, capture, digestOf, type Arguments } from "./arguments.js";
import type { Period } from "./period.js";
import { review, type Prepared } from "./review.js";

export interface Descriptor {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly input_schema: object;
  readonly effect: "read" | "write" | "delete";
  readonly annotations: Readonly<Record<string, boolean>>;
}

/** Runs one call. It always resolves, to one bounded object. */
export async function dispatch(tool: Descriptor, period: Period, input: unknown, signal: AbortSignal | undefined): Promise<Answer> {
  try {
    period.check();
    const mine = capture(tool.name, input);
    const stop = AbortSignal.any(signal === undefined ? [period.signal] : [period.signal, signal]);
    const result = tool.effect === "read" ? await read(mine, period, stop) : await mutate(tool, mine, period, stop);
    period.check();
    return success(result);
  } catch (error) {
    return failure(stopped(error, period));
  }
}

/** A call that the period's end stopped before it was sent tells that reason. */
function stopped(error: unknown, period: Period): unknown {
  const cancelled = error instanceof Refusal && error.code === "cancelled";
  return cancelled && period.ended !== undefined ? new Refusal(period.ended, period.ended === "offline") : error;
}

function untouched(period: Period, stop: AbortSignal): void {
  period.check();
  if (stop.aborted) throw new Refusal("cancelled", true);
}

async function read(mine: Arguments, period: Period, stop: AbortSignal): Promise<Record<string, unknown>> {
  untouched(period, stop);
  return send(body(mine), stop);
}

async function mutate(tool: Descriptor, mine: Arguments, period: Period, stop: AbortSignal): Promise<Record<string, unknown>> {
  untouched(period, stop);
  const decision = await review(tool, mine, stop, () => prepare(mine, period, stop));
  await acknowledge(decision, period, stop);
  return carryOut(mine, decision, period, stop);
}

/** Tells the server that what it prepared was confirmed in this browser session. */
export async function acknowledge(decision: Prepared, period: Period, stop: AbortSignal): Promise<void> {
  untouched(period, stop);
  await call("POST", "/api/automation/confirm", { receipt_id: decision.receipt, digest: decision.digest }, { signal: stop });
}

/** Sends a mutation under the receipt that was acknowledged for it. */
export async function carryOut(mine: Arguments, decision: Prepared, period: Period, stop: AbortSignal): Promise<Record<string, unknown>> {
  untouched(period, stop);
  const result = await send(body(mine, { receipt_id: decision.receipt }), stop);
  // It has happened; but the person or the selection that it was for is gone, and
  // so is the one who may hear what came of it.
  if (period.ended !== undefined) throw new Refusal("unknown_outcome");
  return result;
}

/** A review repeats the arguments, escaped once more, and what they would replace. */
const mostReview = 8 << 20; // bytes

/** Asks the server what a mutation would do. It must have understood these very bytes. */
export async function prepare(mine: Arguments, period: Period, stop: AbortSignal): Promise<Prepared> {
  untouched(period, stop);
  const asked = performance.now();
  const { value, date } = await ask("POST", "/api/automation/prepare", undefined, { raw: body(mine), signal: stop, most: mostReview });
  const { receipt_id: receipt, digest, expires_at_ms: expires, review: shown } = value;
  if (typeof receipt !== "string" || typeof digest !== "string" || typeof expires !== "number" || digest !== (await digestOf(mine))) {
    throw new Refusal("cancelled");
  }
  const found = (typeof shown === "object" && shown !== null ? shown : {}) as Record<string, unknown>;
  if (found["arguments"] !== undefined && found["arguments"] !== mine.text) throw new Refusal("cancelled");
  // By the server's own two times, so that this machine's clock doesn't matter;
  // counted from before the question, so that the form closes first.
  const lives = Math.max(0, Math.min(expires - date, 120_000));
  return { receipt, digest, deadline: asked + lives, shown: found };
}

/** Sends what takes effect. From here on, no answer means that nobody knows. */
async function send(raw: string, stop: AbortSignal): Promise<Record<string, unknown>> {
  try {
    return await call<Record<string, unknown>>("POST", "/api/automation/execute", undefined, { raw, signal: stop });
  } catch (error) {
    // A receipt of ours can have been used by this very request alone, when the
    // browser's network sent it again over a connection that had died.
    const lost = error instanceof Refusal && ["cancelled", "offline", "unreachable", "bad_answer", "receipt_used"].includes(error.code);
    throw lost ? new Refusal("unknown_outcome") : error;
  }
}
