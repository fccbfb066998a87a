// Who is signed in in this tab, and the calls made as them.
//
// The second secret is read from storage once, when the session is loaded, and
// pinned: should another tab sign in as somebody else, this tab's calls carry the
// new cookie with the old secret and are refused, until the tab notices and starts
// anew. epoch counts every change; an answer to a question of an older epoch is
// dropped, so that no late result shows in another account.

import { Refusal, request, type Answer } from "./request.js";

export interface Session {
  person: { name: string };
  csrf: string;
  session: string;
  session_generation: number;
  acr: string;
  fresh_until_ms: number | null;
  idle_ends_ms: number;
  ends_ms: number;
  recovery: boolean;
  provider: { built_in: boolean; issuer: string };
  browser_surface: { allowed: boolean; reason?: string };
  agents: boolean;
}

export type Why = "signed-out" | "expired" | "switched";

interface Account {
  readonly key: string;
  session: Session;
  readonly idle: number; // ms of disuse that end it
}

const stored = "chaperone.key";

let account: Account | undefined;
let counted = 0;
let used = 0; // when the server last answered this session, ms
const leaving = new Set<(why: Why) => void>();

export function epoch(): number {
  return counted;
}

export function session(): Session | undefined {
  return account?.session;
}

/** The secret of storage, "" where there is none. */
export function storedKey(): string {
  try {
    return localStorage.getItem(stored) ?? "";
  } catch {
    return "";
  }
}

/** Tells whether storage still holds the secret that this tab works with. */
export function keyUnchanged(): boolean {
  return account === undefined || storedKey() === account.key;
}

/** Asks who is signed in. Answers false where nobody is; fails where nothing came back. */
export async function loadSession(): Promise<boolean> {
  const key = account?.key ?? storedKey();
  const asked = counted;
  try {
    const { value } = await request("GET", "/api/session", { key });
    if (asked !== counted) return account !== undefined;
    if (account === undefined) counted++;
    used = Date.now();
    account = { key, session: value as unknown as Session, idle: (value as unknown as Session).idle_ends_ms - used };
    return true;
  } catch (error) {
    if (error instanceof Refusal && error.code === "session_expired") return false;
    throw error;
  }
}

/** When the session ends as far as this tab knows: use in another tab may move it. */
export function endsAt(): number {
  return account === undefined ? 0 : Math.min(used + account.idle, account.session.ends_ms);
}

/** Registers what must happen when the account is left, whatever the reason. */
export function onLeave(listener: (why: Why) => void): void {
  leaving.add(listener);
}

/** Leaves the account in this tab. Every call under way loses its answer. */
export function leave(why: Why): void {
  if (account === undefined) return;
  account = undefined;
  counted++;
  if (why === "signed-out") localStorage.removeItem(stored);
  for (const listener of leaving) listener(why);
}

export interface CallOptions {
  signal?: AbortSignal | undefined;
  raw?: string; // JSON text to send as it is
  most?: number; // bytes of the answer, where they may be more than a tool's result
}

/** Calls the owner API as the person of this tab. Its error is a Refusal. */
export async function call<T>(method: string, path: string, body?: unknown, options: CallOptions = {}): Promise<T> {
  return (await answer(method, path, body, options)).value as T;
}

/** As call, with the server's clock beside the value. */
export async function answer(method: string, path: string, body?: unknown, options: CallOptions = {}): Promise<Answer> {
  const mine = account;
  const asked = counted;
  if (mine === undefined) throw new Refusal("session_expired");
  const text = options.raw ?? (body === undefined ? undefined : JSON.stringify(body));
  let got: Answer;
  try {
    got = await request(method, path, {
      key: mine.key, signal: options.signal, ...(method === "GET" ? {} : { csrf: mine.session.csrf }), ...(text === undefined ? {} : { body: text }),
      ...(options.most === undefined ? {} : { most: options.most }),
    });
  } catch (error) {
    if (asked === counted && error instanceof Refusal && error.code === "session_expired") leave("expired");
    throw lost(method, path, error) ? new Refusal("unknown_outcome") : error;
  }
  if (asked !== counted) throw new Refusal("session_expired");
  used = Date.now();
  return got;
}

/**
 * Tells whether a change was sent and nobody knows what became of it. The page's
 * tools tell for themselves which of their steps change anything.
 */
function lost(method: string, path: string, error: unknown): boolean {
  return error instanceof Refusal && error.code === "unreachable" && method !== "GET" && !path.startsWith("/api/automation/") && path !== "/api/step-up";
}

/** Opens a stream of the owner API as the person of this tab. It ends with the account. */
export async function stream(path: string, signal: AbortSignal): Promise<ReadableStream<Uint8Array<ArrayBuffer>>> {
  const mine = account;
  if (mine === undefined) throw new Refusal("session_expired");
  const gone = new AbortController();
  const stop = AbortSignal.any([signal, gone.signal]);
  const left = (): void => gone.abort();
  leaving.add(left);
  stop.addEventListener("abort", () => leaving.delete(left));
  let response: Response;
  try {
    response = await fetch(path, { headers: { "X-Session-Key": mine.key }, signal: stop, cache: "no-store", redirect: "error", credentials: "same-origin" });
  } catch {
    throw new Refusal(stop.aborted ? "cancelled" : "unreachable", true);
  }
  if (!response.ok || response.body === null) throw new Refusal(response.status === 401 ? "session_expired" : "not_found");
  return response.body;
}

/** Tells whether the last strong sign-in is young enough for what needs one. */
export function fresh(): boolean {
  const until = account?.session.fresh_until_ms;
  return typeof until === "number" && until > Date.now() + 2000;
}
