// One channel: this page's tools, for the agents that its person has let in for
// some minutes (spec/attended-control.md, sections 3 and 6).
//
//	opening     the socket is being opened and the catalog registered
//	ready       the authority has published it; calls may come
//	closed      over, for a reason that is told; nothing opens it again by itself
//
// The page only answers. A confirmation request executes nothing: it asks the person,
// and only a control.call that repeats the confirmed digest, tool, lease and arguments
// byte for byte runs, once. A call_id that has run, or was refused, never runs again.
//
// A cancel of what hasn't begun has no effect and says so. Of what has begun it stops
// the tool and waits: a result that comes wins, and without one nobody knows.

import { held, type Arguments } from "../adapter/arguments.js";
import { failed, type Outcome } from "./bound.js";
import { confirmationDigest, requestDigest, type Descriptor } from "./digests.js";
import { Pace } from "./pace.js";
import * as p from "./protocol.js";

/** A tool of this page, as the channel runs it. */
export interface Tool extends Descriptor {
  readonly title: string;
  /** @param ticket what the confirmation of this very call left for it */
  run(args: Arguments, stop: AbortSignal, ticket: unknown): Promise<Outcome>;
}

/** What a person is asked. */
export interface Question {
  readonly ask: p.Ask;
  readonly tool: Tool;
  readonly args: Arguments;
}

export type Decision =
  | { readonly kind: "confirmed"; readonly assertion?: string; readonly ticket?: unknown } // the assertion canonical
  | { readonly kind: "elsewhere" } // another page of the authority's tells it the answer
  | { readonly kind: "denied" | "expired" }
  | { readonly kind: "refused"; readonly code: string };

export interface Host {
  readonly route: string;
  readonly generation: number;
  readonly tools: readonly Tool[]; // sorted
  readonly catalog: string;
  readonly scope: string;
  /** The authority's clock, ms. */
  now(): number;
  ask(question: Question, stop: AbortSignal): Promise<Decision>;
  /** Something that is shown has changed. */
  told(): void;
}

export type CallState = "asked" | "confirmed" | "running" | "succeeded" | "failed" | "cancelled" | "denied" | "expired";

/** A call as the person may see it. */
export interface Shown {
  readonly call: string;
  readonly tool: string;
  readonly state: CallState;
  readonly at: number; // ms, this machine's clock
  readonly code?: string;
  readonly elsewhere?: boolean; // it is asked on the authority's own page
}

interface Entry {
  readonly call: string;
  readonly tool: string;
  readonly at: number;
  readonly stop: AbortController;
  readonly ask?: p.Ask;
  ticket?: unknown;
  elsewhere?: boolean;
  state: CallState;
  code?: string;
  cancelling?: boolean;
}

export interface Closed {
  readonly code: number;
  readonly reason: string;
}

const settles = 10_000; // ms for the socket and the receipt of the registration
const honest = 1500; // ms that a running tool has to answer a cancel; the authority waits 2 s
const mostAsked = 8;
// Codes that tell by themselves that nothing began.
const nothingBegan: readonly string[] = ["not_started", "unknown_tool", "arguments_invalid", "stale_generation", "busy"];
const kept = 50; // calls that are shown

export class Channel {
  state: "opening" | "ready" | "closed" = "opening";
  authority = "";
  closed: Closed | undefined;
  private readonly socket: WebSocket;
  private readonly pace: Pace;
  private readonly calls = new Map<string, Entry>();
  private readonly over = new AbortController();
  private readonly late: ReturnType<typeof setTimeout>;

  constructor(
    address: string,
    nonce: string,
    private readonly host: Host,
  ) {
    this.socket = new WebSocket(address);
    this.pace = new Pace((frame) => this.socket.send(frame));
    this.late = setTimeout(() => this.close(4408, "timeout"), settles);
    this.socket.addEventListener("open", () => {
      if (this.state !== "opening") return;
      this.send(p.openFrame(nonce, host.route, host.generation));
      this.send(p.registerFrame(host.route, host.generation, host.catalog, host.scope, host.tools));
    });
    this.socket.addEventListener("message", (event: MessageEvent<unknown>) => this.take(event.data));
    this.socket.addEventListener("close", (event) => this.end(event.code, event.reason));
  }

  /** The calls of this channel, the newest first. */
  shown(): readonly Shown[] {
    return [...this.calls.values()].reverse().slice(0, kept);
  }

  /** How many wait for the person. */
  asked(): number {
    return this.count("asked");
  }

  /** Ends it. Whatever runs is stopped, and nothing more is sent. */
  close(code = 1000, reason = "closed"): void {
    if (this.state === "closed") return;
    this.socket.close(code, reason);
    this.end(code, reason);
  }

  private end(code: number, reason: string): void {
    if (this.state === "closed") return;
    this.state = "closed";
    this.closed = { code, reason };
    clearTimeout(this.late);
    this.pace.stop();
    this.over.abort();
    for (const e of this.calls.values()) {
      if (e.state === "asked" || e.state === "confirmed") e.state = "cancelled";
      e.stop.abort();
    }
    this.host.told();
  }

  private send(frame: string): void {
    if (this.state !== "closed") this.pace.push(frame);
  }

  private take(data: unknown): void {
    if (this.state === "closed") return;
    let frame: p.Frame;
    try {
      if (typeof data !== "string") throw new p.Bad("invalid_request", "");
      frame = p.decode(data);
    } catch (error) {
      if (!(error instanceof p.Bad)) throw error;
      return this.close(4400, error.code);
    }
    switch (frame.type) {
      case "channel.ready":
        return this.ready(frame);
      case "control.cancel":
        return this.cancel(frame);
    }
    if (this.state !== "ready") return this.close(4400, "out_of_turn");
    if (frame.type === "control.call") this.called(frame);
    else void this.confirm(frame);
  }

  /** The receipt must be of exactly what this page registered. */
  private ready(f: p.Ready): void {
    const { host } = this;
    if (this.state !== "opening" || f.route !== host.route || f.generation !== host.generation || f.catalog !== host.catalog || f.scope !== host.scope) {
      return this.close(4400, "invalid_request");
    }
    clearTimeout(this.late);
    this.authority = f.authority;
    this.state = "ready";
    host.told();
  }

  private tool(id: string): Tool | undefined {
    return this.host.tools.find((t) => t.id === id);
  }

  private count(state: CallState): number {
    let n = 0;
    for (const e of this.calls.values()) if (e.state === state) n++;
    return n;
  }

  private become(e: Entry, state: CallState, code?: string): void {
    e.state = state;
    if (code !== undefined) e.code = code;
    this.host.told();
  }

  /** Asks the person. A delivery of the same again asks nothing. */
  private async confirm(f: p.Ask): Promise<void> {
    if (this.calls.has(f.call)) return;
    const busy = this.asked() >= mostAsked;
    const e: Entry = { call: f.call, tool: f.tool, at: Date.now(), stop: new AbortController(), ask: Object.freeze(f), state: "asked" };
    this.calls.set(f.call, e);
    const tool = this.tool(f.tool);
    if (busy) return this.withdraw(e, "busy");
    if (tool === undefined) return this.withdraw(e, "unknown_tool");
    if (tool.class === "read" || tool.schemas !== f.schemas) return this.withdraw(e, "stale_generation");
    this.host.told();
    if (f.confirmation !== (await digestsOf(f))) return this.withdraw(e, "request_conflict");
    // What is asked too late is closed; the authority ends the call by its own clock.
    const lapse = setTimeout(() => e.stop.abort(), Math.max(0, f.expires - this.host.now()));
    const decision = await this.host.ask({ ask: f, tool, args: held(f.tool, f.arguments) }, e.stop.signal).catch((): Decision => ({ kind: "refused", code: "not_started" }));
    clearTimeout(lapse);
    if (e.state !== "asked") return; // cancelled meanwhile, or the channel is over
    switch (decision.kind) {
      case "confirmed":
        e.ticket = decision.ticket;
        this.become(e, "confirmed");
        return this.send(p.confirmFrame(f.call, f.confirmation, decision.assertion));
      case "elsewhere": // a call that comes says that it was confirmed there
        e.elsewhere = true;
        setTimeout(() => e.state === "asked" && this.become(e, "expired"), Math.max(0, f.expires - this.host.now()));
        return this.host.told();
      case "expired": // the authority's own clock ends it
        return this.become(e, "expired");
      case "denied":
        this.become(e, "denied");
        return this.send(p.cancelledFrame(f.call, "none"));
      case "refused":
        return this.withdraw(e, decision.code);
    }
  }

  /** Ends a call that was never begun and that the person isn't, or can't be, asked about. */
  private withdraw(e: Entry, code: string): void {
    if (e.state !== "asked") return;
    e.stop.abort();
    this.become(e, "failed", code);
    this.send(p.failedFrame(e.call, nothingBegan.includes(code) ? code : "not_started"));
  }

  private called(f: p.Call): void {
    const before = this.calls.get(f.call);
    if (before !== undefined && before.state !== "asked" && before.state !== "confirmed") return; // a replay
    const e: Entry = before ?? { call: f.call, tool: f.tool, at: Date.now(), stop: new AbortController(), state: "asked" };
    this.calls.set(f.call, e);
    const tool = this.tool(f.tool);
    const wrong = tool === undefined ? "unknown_tool" : this.may(e, f, tool) ? undefined : "not_started";
    const left = f.deadline - this.host.now();
    if (tool === undefined || wrong !== undefined || left <= 0) {
      e.stop.abort();
      const code = wrong ?? "not_started";
      this.become(e, "failed", code);
      return this.send(p.failedFrame(f.call, code));
    }
    void this.run(e, tool, held(f.tool, f.arguments), left);
  }

  /** Whether this call is what it says it is authorized as. */
  private may(e: Entry, f: p.Call, tool: Tool): boolean {
    if (f.confirmation === undefined) return tool.class === "read" && e.ask === undefined;
    const { ask } = e;
    return tool.class !== "read" && (e.state === "confirmed" || (e.state === "asked" && e.elsewhere === true)) && ask !== undefined && ask.confirmation === f.confirmation &&
      ask.tool === f.tool && ask.lease === f.lease && ask.arguments === f.arguments;
  }

  private async run(e: Entry, tool: Tool, args: Arguments, left: number): Promise<void> {
    this.become(e, "running");
    const timer = setTimeout(() => e.stop.abort(), Math.min(left, 2 ** 31 - 1));
    const outcome = await tool.run(args, e.stop.signal, e.ticket).catch(() => failed("browser_execution_failed"));
    clearTimeout(timer);
    if (this.over.signal.aborted) return this.become(e, outcome.ok ? "succeeded" : "failed");
    if (outcome.ok) {
      this.become(e, "succeeded");
      return this.send(p.succeededFrame(e.call, outcome.value));
    }
    if (e.cancelling === true) {
      const told = e.state === "cancelled";
      this.become(e, "cancelled", outcome.code);
      // After its time nothing but a success would change what was answered.
      return told ? undefined : this.send(p.cancelledFrame(e.call, outcome.began ? "unknown" : "none"));
    }
    this.become(e, "failed", outcome.code);
    this.send(p.failedFrame(e.call, outcome.began || nothingBegan.includes(outcome.code) ? outcome.code : "not_started"));
  }

  private cancel(f: p.Cancel): void {
    const e = this.calls.get(f.call);
    if (e === undefined) {
      // It never came, and must not come any more.
      this.calls.set(f.call, { call: f.call, tool: "", at: Date.now(), stop: new AbortController(), state: "cancelled", code: f.reason });
      return this.send(p.cancelledFrame(f.call, "none"));
    }
    if (e.state === "asked" || e.state === "confirmed") {
      this.become(e, "cancelled", f.reason);
      e.stop.abort();
      return this.send(p.cancelledFrame(f.call, "none"));
    }
    if (e.state !== "running" || e.cancelling === true) return; // its end is told already
    e.cancelling = true;
    e.stop.abort();
    setTimeout(() => {
      if (e.state !== "running") return;
      this.become(e, "cancelled", f.reason);
      this.send(p.cancelledFrame(f.call, "unknown"));
    }, honest);
  }
}

/** The confirmation digest of what is shown. */
export async function digestsOf(f: p.Ask): Promise<string> {
  return confirmationDigest(f.policy, await requestDigest({
    binding: f.binding, lease: f.lease, request: f.request, tool: f.tool, schemas: f.schemas, arguments: f.arguments,
  }));
}
