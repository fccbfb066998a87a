// Confirm: one call of a page that isn't ours, decided on this origin, where that
// page's scripts can't reach. The dialog is the one that our own page asks by
// (attended/prompt.ts); then this page tells what became of the call.

import { call } from "../portal/account.js";
import { codeOf, Refusal } from "../portal/request.js";
import type { Decision } from "../attended/channel.js";
import { prompt, type Asked, type Facts } from "../attended/prompt.js";
import { known, readControl, type Control } from "../attended/record.js";
import { readQuestion, readWaiting, type Waiting } from "../attended/waiting.js";
import { callWords } from "../attended/words.js";
import type { Place } from "../portal/router.js";
import { moment, text, textOf } from "../text/text.js";
import { fill, h, type Child } from "../ui/dom.js";
import { foreign, marked } from "../ui/marked.js";
import { button, empty, heading, load, problem, section } from "../ui/parts.js";
import { announce } from "../ui/toast.js";

const looks = 1000; // ms between two looks at whether a call still waits, or how it ended

export function confirmCall(place: Place): void {
  const id = place.params["call"] ?? "";
  const root = h("div");
  place.root.append(heading(text("confirm.title"), null, text("confirm.lead")), root);
  begin(place, id, root);
}

type Found = { readonly waiting: Waiting; readonly question: Asked } | "own" | "over";

function begin(place: Place, id: string, root: HTMLElement): void {
  void load<Found>(root, place.signal, async () => (await readQuestion(id, place.signal)) ?? "over", (found) => {
    if (found === "own") return empty("info", text("confirm.own"), text("confirm.own.next"), toApprovals());
    const below = h("div");
    if (found === "over") {
      void tell(place, id, below);
      return below;
    }
    void ask(place, found.waiting, found.question, below).catch((error: unknown) => failed(place, id, below, error, () => begin(place, id, root)));
    return [about(found.waiting), below];
  });
}

function toApprovals(): HTMLElement {
  return h("a", { class: "button", href: "/approvals" }, text("approvals.title"));
}

/** Who asks for what, for as long as the dialog is over it and after. */
function about(w: Waiting): HTMLElement {
  return section(text("confirm.call"), h("dl", { class: "facts" },
    fact(text("confirm.site"), h("code", { class: "code" }, marked(w.origin))),
    fact(text("ask.agent"), w.agent === undefined ? text("ask.agent.self") : w.agent.name === undefined ? h("code", { class: "code" }, marked(w.agent.agent_ref)) : foreign(w.agent.name)),
    fact(text("ask.tool"), h("code", { class: "code" }, marked(w.tool_id))),
    fact(text("ask.class"), textOf("class", w.mutation_class, "class.account-mutation")),
    fact(text("confirm.expires"), h("time", { datetime: new Date(w.expires_at_ms).toISOString() }, moment(w.expires_at_ms)))));
}

function fact(name: string, value: Child): HTMLElement {
  return h("div", null, h("dt", null, name), h("dd", null, value));
}

async function ask(place: Place, waiting: Waiting, question: Asked, root: HTMLElement): Promise<void> {
  const gone = new AbortController(); // it doesn't wait any more: cancelled, over, or answered elsewhere
  const stop = AbortSignal.any([place.signal, gone.signal]);
  const look = setInterval(() => void readWaiting(stop).then((all) => {
    if (!all.some((w) => w.call_id === waiting.call_id)) gone.abort();
  }, () => undefined), looks);
  const facts = async (): Promise<Facts> => ({
    document: "", at: waiting.origin,
    known: { ...(await known(question.ask.call, question.ask.lease, stop)), agent: waiting.agent ?? "self" },
  });
  let decision: Decision;
  try {
    decision = await prompt(question, {}, facts, () => Date.now(), stop);
  } finally {
    clearInterval(look);
  }
  if (place.signal.aborted) return;
  await decide(question, decision);
  if (!place.signal.aborted) await tell(place, question.ask.call, root);
}

/** Takes the person's word to the server. What lapsed needs none. */
async function decide(q: Asked, d: Decision): Promise<void> {
  const path = `/api/confirmations/${encodeURIComponent(q.ask.call)}`;
  switch (d.kind) {
    case "confirmed": {
      const assertion = d.assertion === undefined ? "" : `,"assertion":${d.assertion}`;
      await call("POST", path, undefined, { raw: `{"confirmation_digest":${JSON.stringify(q.ask.confirmation)}${assertion}}` });
      return;
    }
    case "denied":
      await call("DELETE", path);
      return;
    case "refused":
      throw new Refusal(d.code);
    default:
  }
}

/** Tells what didn't work; a call that is over meanwhile is told as that. */
function failed(place: Place, id: string, root: HTMLElement, error: unknown, again: () => void): void {
  if (place.signal.aborted) return;
  if (codeOf(error) === "unknown_call") return void tell(place, id, root);
  if (!(error instanceof Refusal)) console.error(error);
  fill(root, problem(error, again));
}

const open = ["pending_confirmation", "dispatched", "unknown"]; // states that something still follows

/** Tells what the record says of a call, until that is its last word. */
async function tell(place: Place, id: string, root: HTMLElement): Promise<void> {
  for (let told = ""; ; ) {
    let control: Control;
    try {
      control = await readControl(place.signal);
    } catch (error) {
      if (!place.signal.aborted) fill(root, problem(error, () => void tell(place, id, root)));
      return;
    }
    if (place.signal.aborted) return;
    const it = control.calls.find((c) => c.call_id === id);
    if (it === undefined) return fill(root, empty("search", text("confirm.none"), text("confirm.none.next"), toApprovals()));
    if (it.state !== told) {
      fill(root, outcome(it));
      announce(callWords((told = it.state)));
    }
    if (!open.includes(it.state)) return;
    await new Promise((done) => setTimeout(done, looks));
    if (place.signal.aborted) return;
  }
}

function outcome(c: Control["calls"][number]): HTMLElement {
  const it = section(text("confirm.outcome"), h("dl", { class: "facts" },
    fact(text("ask.tool"), h("code", { class: "code" }, marked(c.tool_id))),
    fact(text("control.state"), [callWords(c.state), c.error_code !== undefined && c.error_code !== "" && [" ", h("code", { class: "code" }, marked(c.error_code))]]),
    fact(text("control.effect"), textOf("controlled", c.effect, "controlled.unknown")),
    fact(text("control.level"), textOf("level", c.confirmation_level ?? "", "level.none"))),
  h("p", { class: "hint" }, text(open.includes(c.state) ? "confirm.open" : "confirm.done")),
  h("div", { class: "actions" }, button(text("confirm.close"), () => window.close()), toApprovals()));
  it.dataset["call"] = c.state;
  return it;
}
