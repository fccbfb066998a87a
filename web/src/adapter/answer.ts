// What a tool's callback answers: always one bounded object. The browser makes
// success of "", text of undefined and a dead page of a Symbol, and loses every
// thrown error's reason, so nothing else ever leaves the adapter.

import { Refusal } from "../portal/request.js";

/** The largest structured result, in characters of JSON. */
const maxResult = 524_288;

export type Answer = Readonly<Record<string, unknown>>;

/** A result of an operation, and nothing but that: it alone may say ok. */
export function success(result: Readonly<Record<string, unknown>>): Answer {
  const { isError: _, ok: __, ...rest } = result;
  const answer = { ok: true, ...rest };
  if (JSON.stringify(answer).length > maxResult) return failure(new Refusal("too_large", false, { limit: maxResult }));
  return answer;
}

/** A refusal by its code. Foreign text never gets here: details are the server's, bounded. */
export function failure(error: unknown): Answer {
  const refusal = error instanceof Refusal ? error : new Refusal("cancelled", true);
  const details = small(refusal.details);
  return { isError: true, code: refusal.code, retryable: refusal.retryable, ...(details === undefined ? {} : { details }) };
}

function small(details: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> | undefined {
  if (Object.keys(details).length === 0 || JSON.stringify(details).length > 4096) return undefined;
  return details;
}
