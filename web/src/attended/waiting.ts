// What waits for the person's word on this origin: calls of pages that aren't ours,
// which are confirmed nowhere else (spec/attended-control.md, section 4).
//
// Each is read as strictly as a frame is, and shown only where the digest over what
// is shown is the one that would be confirmed.

import { held } from "../adapter/arguments.js";
import { call } from "../portal/account.js";
import { Refusal } from "../portal/request.js";
import { digestsOf } from "./channel.js";
import type { Class } from "./digests.js";
import type { Asked } from "./prompt.js";
import { Bad, decode, protocol } from "./protocol.js";
import type { Agent } from "./record.js";

/** One of them, as the server's list has it. */
export interface Waiting {
  readonly call_id: string;
  readonly tool_id: string;
  readonly mutation_class: Class;
  readonly agent?: Agent;
  readonly origin: string;
  readonly expires_at_ms: number;
}

const asked = ["call_id", "lease_id", "request_id", "tool_id", "schema_digest", "binding_digest", "policy_reference", "arguments", "confirmation_digest", "level", "expires_at_ms", "public_key"];

/** What waits, the first to lapse first. What our own page is asked is answered in its own tab. */
export async function readWaiting(signal: AbortSignal): Promise<Waiting[]> {
  return (await all(signal)).filter((w) => w.origin !== location.origin);
}

async function all(signal: AbortSignal): Promise<Waiting[]> {
  const { confirmations } = await call<{ confirmations?: unknown }>("GET", "/api/confirmations", undefined, { signal });
  if (!Array.isArray(confirmations)) throw new Refusal("bad_answer");
  return confirmations as Waiting[];
}

/** The question of one call, undefined where it doesn't wait here; own where our own page asks it. */
export async function readQuestion(id: string, signal: AbortSignal): Promise<{ waiting: Waiting; question: Asked } | "own" | undefined> {
  const waiting = (await all(signal)).find((w) => w.call_id === id);
  if (waiting === undefined) return undefined;
  if (waiting.origin === location.origin) return "own";
  const question = read(waiting);
  if ((await digestsOf(question.ask)) !== question.ask.confirmation) throw new Refusal("request_conflict");
  return { waiting, question };
}

function read(w: Waiting): Asked {
  const classes: readonly string[] = ["local-ui-mutation", "account-mutation"] satisfies Class[];
  if (!classes.includes(w.mutation_class) || URL.parse(w.origin)?.origin !== w.origin) throw new Refusal("bad_answer");
  try {
    const fields = Object.fromEntries(Object.entries(w).filter(([name]) => asked.includes(name)));
    const ask = decode(JSON.stringify({ ...fields, protocol, type: "control.confirmation_request" }));
    if (ask.type !== "control.confirmation_request") throw new Refusal("bad_answer");
    return { ask, tool: { id: ask.tool, title: ask.tool, class: w.mutation_class }, args: held(ask.tool, ask.arguments) };
  } catch (error) {
    throw error instanceof Bad ? new Refusal("bad_answer") : error;
  }
}
