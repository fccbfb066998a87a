// The digests of webmcp.control.v1 (spec/attended-control.md, section 1), over text
// that is canonical already: the page's half of what internal/attended/controlv1
// computes, held to the same vectors.

import { compose, digest, word } from "../canon.js";

/** A tool as it travels, its two schemas and its roles in canonical form. */
export interface Descriptor {
  readonly id: string;
  readonly version: string;
  readonly input: string;
  readonly output: string;
  readonly schemas: string; // the digest of both
  readonly class: Class;
  readonly roles: readonly string[];
  readonly source: string;
}

export type Class = "read" | "local-ui-mutation" | "account-mutation";

export function confirmationOf(c: Class): string {
  return c === "read" ? "none" : "exact-request";
}

export function schemaDigest(input: string, output: string): Promise<string> {
  return digest(compose({ input_schema: input, output_schema: output }));
}

/** Tools in the order in which this page registers them: by id, in UTF-16. */
export function sorted<T extends { readonly id: string }>(tools: readonly T[]): T[] {
  return [...tools].sort((a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0));
}

function bare(t: Descriptor): Record<string, string> {
  return {
    tool_id: word(t.id), version: word(t.version), schema_digest: word(t.schemas), mutation_class: word(t.class),
    confirmation_policy: word(confirmationOf(t.class)), required_roles: "[" + t.roles.map(word).join(",") + "]", source_ref: word(t.source),
  };
}

/** A descriptor's canonical text, as catalog.register sends it. */
export function describe(t: Descriptor): string {
  return compose({ ...bare(t), input_schema: t.input, output_schema: t.output });
}

/** Over the descriptors without their schemas, in their order. */
export function catalogDigest(tools: readonly Descriptor[]): Promise<string> {
  return digest("[" + tools.map((t) => compose(bare(t))).join(",") + "]");
}

export function scopeDigest(tools: readonly Descriptor[]): Promise<string> {
  const ids = "[" + tools.map((t) => word(t.id)).join(",") + "]";
  const each = compose(Object.fromEntries(tools.map((t) => [t.id, word(t.schemas)])));
  return digest(compose({ tool_ids: ids, schema_digests: each }));
}

export interface Request {
  readonly binding: string;
  readonly lease: string;
  readonly request: string;
  readonly tool: string;
  readonly schemas: string;
  readonly arguments: string; // canonical text
}

export function requestDigest(r: Request): Promise<string> {
  return digest(compose({
    binding_digest: word(r.binding), lease_id: word(r.lease), request_id: word(r.request), tool_id: word(r.tool),
    schema_digest: word(r.schemas), arguments: r.arguments,
  }));
}

export function confirmationDigest(policy: string, request: string): Promise<string> {
  return digest(compose({ policy_reference: word(policy), request_digest: word(request) }));
}

/** Of a result's canonical text; of none, of null. */
export function resultDigest(value = "null"): Promise<string> {
  return digest(value);
}

/** The form in which two ids of one catalog may not be alike. */
export function fold(id: string): string {
  return id.toLowerCase().replaceAll("_", "-");
}
