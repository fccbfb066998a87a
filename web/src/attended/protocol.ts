// The frames of webmcp.control.v1 as a page sees them (spec/attended-control.md,
// section 3): what it gets, decoded strictly on the literal text, and what it sends.
//
// A member that isn't named, is missing, stands twice, has another case or is null
// where it should be absent is refused, and with it the frame. canon.ts reads the
// text, so a number that JSON.parse would round is refused too.

import { CanonError, canonicalize, compose, elements, members, word } from "../canon.js";
import { describe, type Descriptor } from "./digests.js";

export const protocol = "webmcp.control.v1";
export const maxFrame = 65_536; // bytes, as sent and in canonical form
export const maxArguments = 49_152; // canonical bytes
export const maxResult = 1500; // canonical bytes
export const maxTools = 64;
export const maxAssertion = 16_384; // canonical bytes

/** What a frame was refused for. */
export class Bad extends Error {
  constructor(
    readonly code: "invalid_request" | "too_large",
    readonly field: string,
  ) {
    super(`${code} ${field}`);
  }
}

export interface Ready {
  readonly type: "channel.ready";
  readonly authority: string;
  readonly route: string;
  readonly generation: number;
  readonly catalog: string;
  readonly scope: string;
}

export interface PublicKey {
  readonly challenge: string;
  readonly rpID: string;
  readonly credentials: readonly string[];
}

export interface Ask {
  readonly type: "control.confirmation_request";
  readonly call: string;
  readonly lease: string;
  readonly request: string;
  readonly tool: string;
  readonly schemas: string;
  readonly binding: string;
  readonly policy: string;
  readonly arguments: string; // canonical text of an object
  readonly confirmation: string;
  readonly expires: number;
  readonly key?: PublicKey; // for the level passkey alone
}

export interface Call {
  readonly type: "control.call";
  readonly call: string;
  readonly lease: string;
  readonly tool: string;
  readonly arguments: string;
  readonly deadline: number;
  readonly confirmation?: string; // of a confirmed mutation alone
}

export interface Cancel {
  readonly type: "control.cancel";
  readonly call: string;
  readonly reason: string;
}

export type Frame = Ready | Ask | Call | Cancel;

const idPattern = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/;
const digestPattern = /^sha256:[0-9a-f]{64}$/;
const wordPattern = /^[a-z][a-z0-9_-]{0,63}$/;
const base64Pattern = /^[A-Za-z0-9_-]{1,1024}$/;
const hostPattern = /^[a-z0-9.-]{1,253}$/;

export function isID(s: string): boolean {
  return idPattern.test(s);
}

export function isWord(s: string): boolean {
  return wordPattern.test(s);
}

/** How many bytes text is in UTF-8. */
export function size(text: string): number {
  return text.length > maxFrame ? text.length : new TextEncoder().encode(text).length;
}

/** The members of one object, taken one by one; what is left at the end is unknown. */
class Members {
  private readonly all: Map<string, string>;

  constructor(
    text: string,
    private readonly under = "",
  ) {
    try {
      this.all = members(text);
    } catch (error) {
      if (error instanceof CanonError) throw new Bad("invalid_request", under);
      throw error;
    }
  }

  raw(name: string): string {
    const value = this.all.get(name);
    if (value === undefined) throw this.bad(name);
    this.all.delete(name);
    return value;
  }

  has(name: string): boolean {
    return this.all.has(name);
  }

  bad(name: string): Bad {
    return new Bad("invalid_request", this.under === "" ? name : `${this.under}.${name}`);
  }

  text(name: string, pattern: RegExp): string {
    const value: unknown = JSON.parse(this.raw(name));
    if (typeof value !== "string" || !pattern.test(value)) throw this.bad(name);
    return value;
  }

  /** An integer of 1 to 2^53-1. */
  count(name: string): number {
    const value: unknown = JSON.parse(this.raw(name));
    if (typeof value !== "number" || value < 1) throw this.bad(name);
    return value;
  }

  object(name: string, most: number): string {
    const value = this.raw(name);
    if (!value.startsWith("{")) throw this.bad(name);
    if (size(value) > most) throw new Bad("too_large", name);
    return value;
  }

  end(): void {
    if (this.all.size > 0) throw new Bad("invalid_request", this.under);
  }
}

/** Reads one frame. It throws a Bad for anything that isn't one. */
export function decode(text: string): Frame {
  if (size(text) > maxFrame) throw new Bad("too_large", "");
  const m = new Members(text);
  if (m.text("protocol", /^/) !== protocol) throw m.bad("protocol");
  const type = m.text("type", /^/);
  const frame = type === "channel.ready" ? ready(m) : type === "control.confirmation_request" ? ask(m) : type === "control.call" ? call(m) : type === "control.cancel" ? cancel(m) : undefined;
  if (frame === undefined) throw m.bad("type");
  m.end();
  if (size(canonicalize(text)) > maxFrame) throw new Bad("too_large", "");
  return frame;
}

function ready(m: Members): Ready {
  return {
    type: "channel.ready", authority: m.text("authority", idPattern), route: m.text("route_id", idPattern), generation: m.count("registration_generation"),
    catalog: m.text("catalog_digest", digestPattern), scope: m.text("tool_scope_digest", digestPattern),
  };
}

function ask(m: Members): Ask {
  const level = m.text("level", /^(visible_click|passkey)$/);
  if (m.has("public_key") !== (level === "passkey")) throw m.bad("public_key");
  return {
    type: "control.confirmation_request", call: m.text("call_id", idPattern), lease: m.text("lease_id", idPattern), request: m.text("request_id", idPattern),
    tool: m.text("tool_id", idPattern), schemas: m.text("schema_digest", digestPattern), binding: m.text("binding_digest", digestPattern),
    policy: m.text("policy_reference", idPattern), arguments: m.object("arguments", maxArguments), confirmation: m.text("confirmation_digest", digestPattern),
    expires: m.count("expires_at_ms"), ...(level === "passkey" ? { key: publicKey(m.raw("public_key")) } : {}),
  };
}

function publicKey(text: string): PublicKey {
  const m = new Members(text, "public_key");
  const all = new Bad("invalid_request", "public_key.allow_credentials");
  let list: string[];
  try {
    list = elements(m.raw("allow_credentials"));
  } catch (error) {
    throw error instanceof CanonError ? all : error;
  }
  const credentials = list.map((e): unknown => JSON.parse(e));
  if (list.length < 1 || list.length > 64 || !credentials.every((c): c is string => typeof c === "string" && isBase64(c))) throw all;
  const challenge = m.text("challenge", base64Pattern);
  if (!isBase64(challenge)) throw m.bad("challenge");
  const rpID = m.text("rp_id", hostPattern);
  m.text("user_verification", /^required$/);
  m.end();
  return { challenge, rpID, credentials };
}

function isBase64(s: string): boolean {
  return base64Pattern.test(s) && s.length % 4 !== 1;
}

function call(m: Members): Call {
  const authorization = m.text("authorization", /^(read|confirmed_mutation)$/);
  if (m.has("confirmation_digest") !== (authorization === "confirmed_mutation")) throw m.bad("confirmation_digest");
  return {
    type: "control.call", call: m.text("call_id", idPattern), lease: m.text("lease_id", idPattern), tool: m.text("tool_id", idPattern),
    arguments: m.object("arguments", maxArguments), deadline: m.count("deadline_ms"),
    ...(authorization === "read" ? {} : { confirmation: m.text("confirmation_digest", digestPattern) }),
  };
}

function cancel(m: Members): Cancel {
  return { type: "control.cancel", call: m.text("call_id", idPattern), reason: m.text("reason", wordPattern) };
}

// --- what the page sends, each in canonical form

function seal(type: string, fields: Readonly<Record<string, string>>): string {
  const text = compose({ ...fields, protocol: word(protocol), type: word(type) });
  if (size(text) > maxFrame) throw new Bad("too_large", "");
  return text;
}

export type Effect = "none" | "browser_reported_committed" | "unknown";

export function openFrame(nonce: string, route: string, generation: number): string {
  return seal("channel.open", {
    open_nonce: word(nonce), route_id: word(route), registration_generation: String(generation),
    attended: "true", secure_context: "true", permissions_policy: "true", document_visible: "true",
  });
}

export function registerFrame(route: string, generation: number, catalog: string, scope: string, tools: readonly Descriptor[]): string {
  return seal("catalog.register", {
    authority: word("browser-local"), route_id: word(route), registration_generation: String(generation),
    catalog_digest: word(catalog), tool_scope_digest: word(scope), tools: "[" + tools.map(describe).join(",") + "]",
  });
}

/** @param assertion canonical text of the credential, for the level passkey alone */
export function confirmFrame(call: string, confirmation: string, assertion?: string): string {
  return seal("control.confirm", { call_id: word(call), confirmation_digest: word(confirmation), ...(assertion === undefined ? {} : { assertion }) });
}

/** @param value canonical text of at most 1,500 bytes */
export function succeededFrame(call: string, value: string): string {
  if (size(value) > maxResult) throw new Bad("too_large", "result");
  return seal("control.result", { call_id: word(call), status: word("succeeded"), result: value });
}

export function failedFrame(call: string, code: string): string {
  return seal("control.result", { call_id: word(call), status: word("failed"), error_code: word(isWord(code) ? code : "browser_execution_failed") });
}

export function cancelledFrame(call: string, effect: Effect): string {
  return seal("control.cancelled", { call_id: word(call), effect: word(effect) });
}
