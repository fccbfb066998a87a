// Asks the person about one exact call (spec/attended-control.md, section 6): what the
// page itself knows comes first, then every argument as it would be sent, then the
// digests. What is confirmed is the private copy that the digests are over.
//
// A press is recorded as a visible click in this browser session, and a passkey as
// that; nothing here calls either a person's approval.

import { canonicalize } from "../canon.js";
import type { Arguments } from "../adapter/arguments.js";
import { Form, type Sheet } from "../adapter/form.js";
import { exactly } from "../adapter/review.js";
import { moment, text, textOf } from "../text/text.js";
import { h, type Child } from "../ui/dom.js";
import { icon } from "../ui/icons.js";
import { foreign, marked } from "../ui/marked.js";
import { inTurn } from "../ui/turn.js";
import { visible } from "./arm.js";
import { canonical } from "./bound.js";
import { digestsOf, type Decision, type Question, type Tool } from "./channel.js";
import type { Known } from "./record.js";
import { maxAssertion, size, type PublicKey } from "./protocol.js";

/** What a tool does beside the person's word. */
export interface More {
  /** Facts of this server's that are shown too; it fails with a Refusal's code. */
  readonly prepare?: (args: Arguments, stop: AbortSignal) => Promise<Ticket>;
}

export interface Ticket {
  readonly shown: Child;
  readonly deadline: number; // on performance.now's clock
  /** Done when the person has confirmed. */
  acknowledge(stop: AbortSignal): Promise<void>;
  /** Done when they haven't. */
  drop(): void;
}

/** A question as it is shown: what runs it may be another page. */
export interface Asked extends Omit<Question, "tool"> {
  readonly tool: Pick<Tool, "id" | "title" | "class">;
}

export interface Facts {
  readonly until?: number; // when the leave of this page ends, ms by the authority's clock
  readonly document: string; // its title, "" for one that isn't here
  readonly at?: string; // the origin of a page that isn't here
  readonly known: Known;
}

/**
 * Asks, when its turn has come and the document is on view. A failure of prepare or of
 * acknowledge refuses the call.
 */
export function prompt(q: Asked, more: More, tell: () => Promise<Facts>, clock: () => number, stop: AbortSignal): Promise<Decision> {
  return inTurn(async () => {
    await visible(stop);
    if (stop.aborted || q.ask.expires <= clock()) return { kind: "expired" };
    const [ticket, facts] = await Promise.all([more.prepare?.(q.args, stop), tell()]);
    const ends = (): number => Math.min(q.ask.expires - clock(), ticket === undefined ? Infinity : ticket.deadline - performance.now());
    let failed = false;
    for (;;) {
      const pressed = await show(sheet(q, ticket, facts, ends, failed), stop);
      if (pressed !== "accepted") {
        ticket?.drop();
        return { kind: pressed === "declined" ? "denied" : "expired" };
      }
      // Once more, over what was shown: the digest that leaves is of nothing else.
      if (canonicalize(JSON.stringify(q.args.values)) !== q.ask.arguments || (await digestsOf(q.ask)) !== q.ask.confirmation) {
        ticket?.drop();
        return { kind: "refused", code: "request_conflict" };
      }
      const assertion = q.ask.key === undefined ? undefined : await passkey(q.ask.key, stop);
      if (q.ask.key !== undefined && assertion === undefined) {
        failed = true; // it is asked again, until it is declined or its time is over
        continue;
      }
      await ticket?.acknowledge(stop);
      return { kind: "confirmed", ...(assertion === undefined ? {} : { assertion }), ticket };
    }
  });
}

async function show(of: Sheet, stop: AbortSignal): Promise<"accepted" | "declined" | "expired" | "cancelled"> {
  if (stop.aborted) return "cancelled";
  const form = new Form(of);
  const close = (): void => form.end("cancelled");
  stop.addEventListener("abort", close, { once: true });
  const pressed = await form.outcome;
  stop.removeEventListener("abort", close);
  return pressed;
}

function sheet(q: Asked, ticket: Ticket | undefined, facts: Facts, left: () => number, failed: boolean): Sheet {
  const { ask, tool } = q;
  const key = ask.key !== undefined;
  return {
    id: "confirm", danger: tool.class === "account-mutation",
    title: text("ask.title"), announce: text("ask.announce"), left,
    accept: text(key ? "ask.passkey" : "ask.confirm"), decline: text("ask.deny"), level: text(key ? "ask.level.passkey" : "ask.level.click"),
    body: [
      h("p", { class: "lead" }, text("ask.lead")),
      failed && h("p", { class: "notice warn", role: "alert" }, icon("warning", 16), text("ask.passkey.none")),
      h("dl", { class: "facts" },
        facts.at !== undefined && fact("ask.document", code(facts.at)),
        fact("ask.tool", [tool.title !== tool.id && [foreign(tool.title), " "], code(tool.id)]),
        fact("ask.class", textOf("class", tool.class, "class.account-mutation")),
        fact("ask.agent", agent(facts.known)),
        facts.at === undefined && fact("ask.document", [foreign(facts.document), " ", code(location.origin)]),
        fact("ask.lease", [code(ask.lease), " ", leaseWords(facts)]),
        fact("ask.call", code(ask.call)), fact("ask.request", code(ask.request))),
      ticket?.shown,
      exactly(q.args),
      h("h3", null, text("ask.exact")),
      h("dl", { class: "facts" }, fact("ask.digest", code(ask.confirmation)), fact("ask.schema", code(ask.schemas)), fact("ask.policy", code(ask.policy))),
    ],
  };
}

function leaseWords(facts: Facts): string {
  if (facts.known.leaseEnds !== undefined) return text("ask.lease.ends", { when: moment(facts.known.leaseEnds) });
  return facts.until === undefined ? text("ask.agent.none") : text("ask.lease.latest", { when: moment(facts.until) });
}

function agent(known: Known): Child {
  if (known.agent === undefined) return text("ask.agent.none");
  if (known.agent === "self") return text("ask.agent.self");
  return [known.agent.name !== undefined && [foreign(known.agent.name), " "], code(known.agent.agent_ref)];
}

function fact(name: "ask.agent" | "ask.tool" | "ask.class" | "ask.document" | "ask.lease" | "ask.call" | "ask.request" | "ask.digest" | "ask.schema" | "ask.policy", value: Child): HTMLElement {
  return h("div", null, h("dt", null, text(name)), h("dd", null, value));
}

function code(value: string): HTMLElement {
  return h("code", { class: "code" }, marked(value, "exact"));
}

/** Answers the assertion's canonical text, undefined where there is none. */
async function passkey(key: PublicKey, stop: AbortSignal): Promise<string | undefined> {
  try {
    const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON({
      challenge: key.challenge, rpId: key.rpID, userVerification: "required",
      allowCredentials: key.credentials.map((id) => ({ type: "public-key", id })),
    });
    const got = await navigator.credentials.get({ publicKey, signal: stop });
    if (!(got instanceof PublicKeyCredential)) return undefined;
    const out = canonical(got.toJSON());
    return out === undefined || size(out) > maxAssertion ? undefined : out;
  } catch (error) {
    if (error instanceof DOMException) return undefined; // declined, out of time, or none of these keys is here
    throw error;
  }
}
