// The private copy of a call's arguments. What the browser hands over may be
// changed by whoever holds it too; from here on only this copy counts: the text
// that is sent, digested and shown is one and the same immutable string.

import { CanonError, canonicalize, digest } from "../canon.js";
import { Refusal } from "../portal/request.js";

/** Room for 1 MiB of content in base64 and what stands around it, in characters. */
const maxText = 1_700_000;

export interface Arguments {
  readonly tool: string;
  readonly text: string; // canonical JSON of the arguments
  readonly values: Readonly<Record<string, unknown>>; // frozen through and through
}

/** Takes the copy, at once. Its error is a Refusal: invalid_input or too_large. */
export function capture(tool: string, input: unknown): Arguments {
  const text = canonical(input === undefined ? {} : input);
  const values: unknown = freeze(JSON.parse(text));
  if (typeof values !== "object" || values === null || Array.isArray(values)) {
    throw new Refusal("invalid_input", false, { path: "", rule: "type" });
  }
  return Object.freeze({ tool, text, values: values as Record<string, unknown> });
}

/** Holds arguments that came as canonical text of an object. */
export function held(tool: string, text: string): Arguments {
  return Object.freeze({ tool, text, values: freeze(JSON.parse(text)) as Record<string, unknown> });
}

function canonical(input: unknown): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(structuredClone(input));
    if (text !== undefined && text.length <= maxText) return canonicalize(text);
  } catch (error) {
    const rule = error instanceof CanonError ? "json" : "type";
    throw new Refusal("invalid_input", false, { path: "", rule });
  }
  if (text === undefined) throw new Refusal("invalid_input", false, { path: "", rule: "type" });
  throw new Refusal("too_large", false, { limit: 1_048_576 });
}

function freeze<T>(value: T): T {
  if (typeof value === "object" && value !== null) {
    for (const inner of Object.values(value)) freeze(inner);
    Object.freeze(value);
  }
  return value;
}

/** The request's body, byte for byte what the digest is over. */
export function body(of: Arguments, more: Readonly<Record<string, string>> = {}): string {
  const rest = Object.entries(more).map(([k, v]) => `,${JSON.stringify(k)}:${JSON.stringify(v)}`).join("");
  return `{"tool":${JSON.stringify(of.tool)},"arguments":${of.text}${rest}}`;
}

/** The digest that a prepare receipt binds: over the canonical {arguments, tool}. */
export function digestOf(of: Arguments): Promise<string> {
  return digest(`{"arguments":${of.text},"tool":${JSON.stringify(of.tool)}}`);
}
