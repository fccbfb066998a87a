// What a tool answered, in the form in which it may leave the page: a value within
// the canonical subset and 1,500 bytes, or a code.

import { CanonError, canonicalize } from "../canon.js";
import { isWord, maxResult, size } from "./protocol.js";

export type Outcome =
  | { readonly ok: true; readonly value: string } // canonical text
  | { readonly ok: false; readonly code: string; readonly began: boolean };

export function failed(code: string, began = true): Outcome {
  return { ok: false, code: isWord(code) ? code : "browser_execution_failed", began };
}

/** The canonical text of a value, undefined where it is outside the subset. */
export function canonical(value: unknown): string | undefined {
  try {
    const text = JSON.stringify(value === undefined ? null : value);
    // Inside its frame it stands one level deeper.
    canonicalize(`[${text}]`);
    return canonicalize(text);
  } catch (error) {
    if (error instanceof CanonError || error instanceof TypeError) return undefined;
    throw error;
  }
}

export function bound(value: unknown): Outcome {
  const text = canonical(value);
  return text === undefined || size(text) > maxResult ? failed("result_invalid") : { ok: true, value: text };
}
