// Arming this page, and the channel that follows (spec/attended-control.md,
// section 4). Both of our pages, the portal and a page with attended.js, do it alike.
//
//	unknown      nothing has been asked yet
//	unavailable  this server has no attended control, or not now
//	off          not armed; why tells what ended it, where something did
//	elsewhere    another tab of this session is armed
//	arming       back from the fresh sign-in: finalize, then the channel
//	on           the channel is open, until it ends or the time is over
//	failed       it couldn't be armed
//
// Arming leaves the document for the sign-in and comes back: what was so before counts
// for nothing, and only the tab that left goes on. One document is armed once; to arm
// again is a fresh sign-in.

import { answer, call, onLeave, session } from "../portal/account.js";
import { codeOf, Refusal } from "../portal/request.js";
import { tell } from "../portal/tabs.js";
import { Channel, type Closed, type Decision, type Question, type Shown, type Tool } from "./channel.js";
import { catalogDigest, fold, scopeDigest, sorted } from "./digests.js";
import { maxTools } from "./protocol.js";

export type State =
  | { readonly is: "unknown" | "arming" }
  | { readonly is: "unavailable" | "failed"; readonly code: string }
  | { readonly is: "off"; readonly why?: Closed }
  | { readonly is: "elsewhere"; readonly expires: number }
  | { readonly is: "on"; readonly expires: number };

/** What a page brings: its route, its tools, and how it asks its person. */
export interface Page {
  readonly route: string;
  /** @param minted what the document route answered */
  tools(minted: Readonly<Record<string, unknown>>): Promise<readonly Tool[]>;
  ask(question: Question, stop: AbortSignal, clock: () => number): Promise<Decision>;
  /** The channel is over, or was never opened. */
  ended(): void;
}

const base = "/api/browser-control/";
const arms = base + "attended-arm";
const left = "chaperone.arming"; // this tab went to sign in for it
const counted = "chaperone.generation";

export class Arm {
  private now: State = { is: "unknown" };
  private channel: Channel | undefined;
  private ahead = 0; // ms that the server's clock is ahead of this one
  private looking: Promise<void> | undefined;
  private spent = false; // this document was armed
  private minted: Readonly<Record<string, unknown>> | undefined; // once a load
  private generation: number | undefined;
  private offered: readonly Tool[] = [];
  private readonly watchers = new Set<() => void>();

  constructor(private readonly page: Page) {
    onLeave(() => this.close("signed_out"));
    addEventListener("pagehide", () => this.close("page_left"));
    addEventListener("offline", () => this.close("offline"));
  }

  get state(): State {
    return this.now;
  }

  /** The tools that were armed, or that would be. */
  get tools(): readonly Tool[] {
    return this.offered;
  }

  calls(): readonly Shown[] {
    return this.channel?.shown() ?? [];
  }

  waiting(): number {
    return this.channel?.asked() ?? 0;
  }

  /** The server's clock, as far as it is known. */
  clock(): number {
    return Date.now() + this.ahead;
  }

  watch(listener: () => void, signal?: AbortSignal): void {
    this.watchers.add(listener);
    signal?.addEventListener("abort", () => this.watchers.delete(listener));
  }

  private told(): void {
    for (const w of [...this.watchers]) w();
  }

  private become(next: State): void {
    this.now = next;
    this.told();
  }

  /** Whether this tab comes back from the sign-in that arms it. */
  static returning(): boolean {
    return sessionStorage.getItem(left) !== null;
  }

  /** Asks how things stand, and goes on where this tab left for the sign-in. One look at a time: each has tools of its own. */
  look(): Promise<void> {
    if (this.now.is === "arming" || this.now.is === "on") return Promise.resolve();
    return (this.looking ??= this.stand().finally(() => {
      this.looking = undefined;
    }));
  }

  private async stand(): Promise<void> {
    const mine = Arm.returning();
    try {
      this.minted ??= await this.mint();
      this.offered = sorted(await this.page.tools(this.minted));
      const got = await this.ask("GET", arms);
      const expires = got["expires_at_ms"];
      const until = typeof expires === "number" ? expires : 0;
      if (got["status"] === "recent-auth" && mine && !this.spent) return await this.finalize();
      sessionStorage.removeItem(left);
      if (got["status"] === "armed" || got["status"] === "recent-auth") return this.become({ is: "elsewhere", expires: until });
      if (mine) return this.become({ is: "failed", code: "no_arm" });
      this.become(this.now.is === "off" ? this.now : { is: "off" });
    } catch (error) {
      sessionStorage.removeItem(left);
      this.fail(error);
    }
  }

  private fail(error: unknown): void {
    const code = codeOf(error);
    if (!(error instanceof Refusal)) console.error(error);
    const none = ["bad_answer", "not_found", "prerequisite_missing", "browser_channel_unavailable", "unavailable"].includes(code);
    this.become({ is: none ? "unavailable" : "failed", code });
  }

  /** Tells the server of this load of the page; what it mints stays there. */
  private mint(): Promise<Record<string, unknown>> {
    return this.ask("POST", base + "document", { csrf: session()?.csrf ?? "", route_id: this.page.route });
  }

  private async ask(method: string, path: string, body?: unknown): Promise<Record<string, unknown>> {
    const sent = Date.now();
    const { value, date } = await answer(method, path, body);
    // The header tells whole seconds. A difference that small is none.
    const ahead = date + 500 - (sent + Date.now()) / 2;
    this.ahead = Math.abs(ahead) < 2000 ? 0 : ahead;
    return value;
  }

  /** Leaves for the sign-in that arms. */
  async begin(): Promise<void> {
    const { authorization_url: address } = await call<{ authorization_url?: unknown }>("POST", arms, { route_id: this.page.route, next: location.pathname + location.search });
    const url = typeof address === "string" ? URL.parse(address, location.origin) : null;
    if (url === null || (url.protocol !== "https:" && url.protocol !== "http:")) throw new Refusal("bad_answer");
    sessionStorage.setItem(left, String(Date.now()));
    location.assign(url);
  }

  private async finalize(): Promise<void> {
    this.become({ is: "arming" });
    this.spent = true;
    await visible();
    const tools = chosen(this.offered);
    if (tools.length === 0) throw new Refusal("no_tools");
    const [catalog, scope] = await Promise.all([catalogDigest(tools), scopeDigest(tools)]);
    const generation = this.generate();
    const got = await this.ask("POST", arms + "/finalize", {
      route_id: this.page.route, registration_generation: generation, catalog_digest: catalog, tools: tools.map((t) => ({ tool_id: t.id, schema_digest: t.schemas })),
    });
    sessionStorage.removeItem(left);
    const { open_nonce: nonce, expires_at_ms: expires } = got;
    const same = got["route_id"] === this.page.route && got["registration_generation"] === generation && got["catalog_digest"] === catalog && got["tool_scope_digest"] === scope;
    if (!same || typeof nonce !== "string" || !/^[0-9a-f]{64}$/.test(nonce) || typeof expires !== "number") {
      await this.revoke();
      throw new Refusal("bad_answer");
    }
    this.offered = tools;
    tell("armed");
    this.open(nonce, expires, { generation, tools, catalog, scope });
  }

  private open(nonce: string, expires: number, of: { generation: number; tools: readonly Tool[]; catalog: string; scope: string }): void {
    const address = new URL("/ws/browser-control", location.origin);
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    const clock = (): number => this.clock();
    this.channel = new Channel(address.href, nonce, {
      route: this.page.route, ...of, now: clock,
      ask: (question, stop) => this.page.ask(question, stop, clock),
      told: () => this.heard(expires),
    });
  }

  /** The channel has something to tell. */
  private heard(expires: number): void {
    const { channel } = this;
    if (channel === undefined) return;
    if (channel.state === "closed") {
      if (this.now.is !== "on" && this.now.is !== "arming") return this.told();
      this.page.ended();
      tell("disarmed");
      return this.become({ is: "off", ...(channel.closed === undefined ? {} : { why: channel.closed }) });
    }
    if (channel.state === "ready" && this.now.is !== "on") return this.become({ is: "on", expires });
    this.told();
  }

  /** Ends the channel of this tab, without a word to the server. */
  close(reason: string): void {
    this.channel?.close(1000, reason);
  }

  /** Takes the leave back, here at once and on the server. */
  async disarm(reason = "disarmed"): Promise<void> {
    this.close(reason);
    await this.revoke();
    tell("disarmed");
    if (this.now.is === "elsewhere") this.become({ is: "off" });
  }

  /** What was armed in another tab is over, once the server has seen to it. */
  free(): void {
    setTimeout(() => {
      if (this.now.is === "elsewhere") void this.look();
    }, 1000);
  }

  private async revoke(): Promise<void> {
    await call("DELETE", arms);
  }

  /** Another tab was armed: of two the newest wins. */
  elsewhere(): void {
    if (this.now.is === "unknown" || this.now.is === "arming") return;
    this.close("newer_tab");
    void this.look();
  }

  /** A number that only grows, one for each load that is armed. */
  private generate(): number {
    if (this.generation === undefined) {
      const before = Number(localStorage.getItem(counted));
      this.generation = Math.max(Date.now(), Number.isSafeInteger(before) ? before + 1 : 0);
      localStorage.setItem(counted, String(this.generation));
    }
    return this.generation;
  }
}

/** As many as a catalog holds, none whose id is another's but for its case. */
function chosen(tools: readonly Tool[]): Tool[] {
  const seen = new Set<string>();
  return sorted(tools).filter((t) => {
    if (seen.has(fold(t.id)) || seen.size >= maxTools) return false;
    seen.add(fold(t.id));
    return true;
  });
}

/** Waits until the document is on view. */
export function visible(stop?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const look = (): void => {
      if (document.visibilityState !== "visible" && stop?.aborted !== true) return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    stop?.addEventListener("abort", look);
    look();
  });
}
