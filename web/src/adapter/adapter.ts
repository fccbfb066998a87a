// The browser surface in this document: what the browser can do, what the server
// says is selected, and the registration that follows from both.
//
// States (availability):
//
//	unsupported  the browser has no registry for tools; nothing is installed instead
//	disabled     it has one, and the person hasn't switched the surface on
//	registering  tools are being registered; some may be callable already
//	registered   n of m tools are registered, n by what is selected
//	partial      some tool couldn't be registered, so none is
//	offline      the browser says so; a fresh registration follows when it is over
//	expired      the session has ended
//	failed       the server didn't answer as it should
//
// One start follows another strictly: each ends the period before it, and a step
// that finds its own period over stops. No tool approves, arms or selects.

import { call, onLeave, session } from "../portal/account.js";
import { dispatch, type Descriptor } from "./dispatch.js";
import { findRegistry, type Registry } from "./context.js";
import { Period } from "./period.js";
import { codeOf, Refusal } from "../portal/request.js";

export interface Failed {
  readonly name: string;
  readonly why: "duplicate" | "refused" | "late" | "other";
}

export type Availability =
  | { readonly state: "unsupported" | "disabled" | "offline" | "expired" }
  | { readonly state: "registering"; readonly of: number }
  | { readonly state: "registered"; readonly names: readonly string[]; readonly of: number; readonly kind: string }
  | { readonly state: "partial"; readonly failed: readonly Failed[] }
  | { readonly state: "failed"; readonly code: string };

export interface Selected {
  readonly collection: string;
  readonly functions: readonly string[];
}

export interface Selection {
  readonly enabled: boolean;
  readonly generation: number;
  readonly selection: readonly Selected[];
}

const settles = 10_000; // ms that the browser has to register one tool

let now: Availability = { state: "disabled" };
let period: Period | undefined;
let undo: (() => void) | undefined;
const watchers = new Set<() => void>();

export function availability(): Availability {
  return now;
}

/** Calls back at each change of availability, until the signal aborts. */
export function watch(listener: () => void, signal: AbortSignal): void {
  watchers.add(listener);
  signal.addEventListener("abort", () => watchers.delete(listener));
}

const called = new Set<() => void>();

/** Calls back after each call of a tool of this tab, until the signal aborts. */
export function watchCalls(listener: () => void, signal: AbortSignal): void {
  called.add(listener);
  signal.addEventListener("abort", () => called.delete(listener));
}

function become(next: Availability): void {
  now = next;
  for (const w of watchers) w();
}

/** Ends what is registered. why is what a callback that somebody kept answers. */
export function stop(why: "disabled" | "session_expired" | "offline" | "grant_revoked"): void {
  period?.end(why);
  period = undefined;
  undo?.();
  undo = undefined;
}

/** Reads the selection and registers what it offers, under a new period. */
export async function start(): Promise<void> {
  stop("grant_revoked");
  const registry = findRegistry();
  if (registry === undefined) return become({ state: "unsupported" });
  if (session() === undefined) return become({ state: "expired" });
  if (!navigator.onLine) return become({ state: "offline" });
  const mine = (period = new Period());
  become({ state: "registering", of: 0 }); // how many isn't known yet
  try {
    const { enabled, generation } = await call<Selection>("GET", "/api/automation/selection", undefined, { signal: mine.signal });
    if (mine.ended !== undefined) return;
    if (!enabled) return become({ state: "disabled" });
    await register(registry, mine, generation);
  } catch (error) {
    if (mine.ended !== undefined) return;
    stop("disabled");
    const code = codeOf(error);
    become(code === "offline" ? { state: "offline" } : code === "session_expired" ? { state: "expired" } : { state: "failed", code });
  }
}

interface Descriptors {
  readonly generation: number;
  readonly of: number;
  readonly tools: readonly Descriptor[];
}

async function register(registry: Registry, mine: Period, generation: number): Promise<void> {
  const { tools, of, generation: theirs } = await call<Descriptors>("GET", "/api/automation/descriptors", undefined, { signal: mine.signal });
  if (mine.ended !== undefined) return;
  // The selection changed between the two questions: these tools are another's.
  if (theirs !== generation) throw new Refusal("conflict", true);
  become({ state: "registering", of });
  const set = new AbortController();
  const done: string[] = [];
  undo = () => {
    set.abort();
    for (const name of done.splice(0)) {
      try {
        registry.remove(name);
      } catch {
        // The browser has lost it by itself; the others still go.
      }
    }
  };
  const failed: Failed[] = [];
  // All are tried, so that a failure tells everything that stands in the way.
  for (const tool of tools) {
    try {
      await settled(registry.add(registration(tool, mine), set.signal), mine.signal);
      done.push(tool.name);
      if (mine.ended !== undefined) return registry.remove(tool.name); // stopped while it settled
    } catch (error) {
      if (mine.ended !== undefined) return;
      failed.push({ name: tool.name, why: reason(error) });
    }
  }
  if (mine.ended !== undefined) return;
  if (failed.length === 0) return become({ state: "registered", names: done.slice(), of, kind: registry.kind });
  stop("disabled");
  become({ state: "partial", failed });
}

function registration(tool: Descriptor, mine: Period) {
  return {
    name: tool.name, title: tool.title, description: tool.description, inputSchema: tool.input_schema, annotations: tool.annotations,
    execute: async (input: unknown, options?: { signal?: AbortSignal }) => {
      const answer = await dispatch(tool, mine, input, options?.signal);
      // The server says that the grant is gone: so is what stands for it here.
      if (mine.ended === undefined && (answer["code"] === "disabled" || answer["code"] === "grant_revoked")) void start();
      for (const listener of called) listener();
      return answer;
    },
  };
}

/** Waits for a registration, but neither for ever nor beyond the period. */
function settled(work: Promise<void>, ended: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new DOMException("", "TimeoutError")), settles);
    ended.addEventListener("abort", () => reject(new DOMException("", "AbortError")), { once: true });
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

function reason(error: unknown): Failed["why"] {
  if (!(error instanceof DOMException)) return "other";
  if (error.name === "InvalidStateError") return "duplicate";
  if (error.name === "NotAllowedError" || error.name === "SecurityError") return "refused";
  return error.name === "TimeoutError" ? "late" : "other";
}

/** Binds the surface to the life of this document. Once. */
export function live(resume: () => Promise<void>): void {
  onLeave(() => {
    stop("session_expired");
    become({ state: findRegistry() === undefined ? "unsupported" : "expired" });
  });
  addEventListener("pagehide", () => stop("grant_revoked"));
  addEventListener("pageshow", (event) => {
    if (event.persisted) void resume();
  });
  addEventListener("offline", () => {
    stop("offline");
    if (findRegistry() !== undefined) become({ state: "offline" });
  });
  addEventListener("online", () => void resume());
}

