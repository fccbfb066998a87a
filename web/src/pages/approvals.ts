// Approvals: attended control. Arming this tab and what happens in it, what agents
// have and did, and the switch that stops everything.

import { call } from "../portal/account.js";
import { arm } from "../attended/portal.js";
import { armPanel } from "../attended/panel.js";
import { readWaiting, type Waiting } from "../attended/waiting.js";
import { readControl, type Agent, type Control } from "../attended/record.js";
import { callWords } from "../attended/words.js";
import type { Place } from "../portal/router.js";
import { withStepUp } from "../portal/stepup.js";
import { ago, moment, number, text, textOf } from "../text/text.js";
import { confirm } from "../ui/dialog.js";
import { fill, h, type Child } from "../ui/dom.js";
import { icon } from "../ui/icons.js";
import { foreign, marked, plain } from "../ui/marked.js";
import { badge, button, empty, heading, load, section, table, toastProblem } from "../ui/parts.js";
import { toast } from "../ui/toast.js";

export function approvals(place: Place): void {
  const stops = h("div");
  const waiting = h("div");
  const record = h("div");
  const showStops = (): void => void load(stops, place.signal, () => call<Stops>("GET", "/api/kill", undefined, { signal: place.signal }), (got) => killPanel(got, () => {
    showStops();
    showRecord();
  }));
  const showRecord = (): void => void load(record, place.signal, () => readControl(place.signal), history);
  place.root.append(heading(text("approvals.title"), null, text("approvals.lead")), ...armPanel(place, arm()), waiting, section(text("kill.title"), stops), record);
  showStops();
  showRecord();
  watchWaiting(waiting, place.signal);
  let due: ReturnType<typeof setTimeout> | undefined;
  arm().watch(() => {
    clearTimeout(due); // many changes at once are one look
    due = setTimeout(showRecord, 700);
  }, place.signal);
  place.signal.addEventListener("abort", () => clearTimeout(due));
}

const looks = 3000; // ms between two looks at what waits
const patience = 100; // looks without a touch: a page that nobody uses mustn't keep its session

/** What pages that aren't ours ask, for as long as this page is on view. */
function watchWaiting(at: HTMLElement, signal: AbortSignal): void {
  let told = "";
  let left = patience;
  const look = async (): Promise<void> => {
    if (document.visibilityState !== "visible" || left-- <= 0) return;
    try {
      const all = await readWaiting(signal);
      const now = JSON.stringify(all.map((w) => w.call_id));
      if (signal.aborted || now === told) return; // what has the focus isn't drawn again
      told = now;
      fill(at, waitingPanel(all));
    } catch {
      // the record beside it tells what is wrong
    }
  };
  void look();
  const again = setInterval(() => void look(), looks);
  const touched = (): void => {
    left = patience;
  };
  for (const touch of ["pointerdown", "keydown", "focus"]) addEventListener(touch, touched, { signal });
  signal.addEventListener("abort", () => clearInterval(again));
}

function waitingPanel(all: readonly Waiting[]): Child {
  return all.length > 0 && section(text("confirm.waiting"), h("ul", { class: "rows" }, all.map((w) => h("li", { class: "row", "data-waiting": w.call_id },
    h("div", { class: "grow" }, h("p", { class: "row-title" }, h("code", { class: "words" }, marked(w.tool_id)), " · ", agentOf(w.agent)),
      h("p", { class: "sub" }, foreign(text("confirm.waiting.until", { site: w.origin, when: moment(w.expires_at_ms) })))),
    h("a", { class: "button primary", href: `/confirm/${encodeURIComponent(w.call_id)}`, "aria-label": text("confirm.waiting.describe", { tool: plain(w.tool_id), site: plain(w.origin) }) }, text("confirm.waiting.go"))))));
}

interface Stop {
  kill_id: string;
  scope: string;
  ref?: string;
  set_ms: number;
  mine: boolean;
  may_lift: boolean;
  in_flight: string[];
  unknown: string[];
}

interface Stops {
  kills: Stop[];
  in_flight: string[];
  unknown: string[];
}

function killPanel(got: Stops, changed: () => void): Child {
  const all = got.kills.some((k) => k.mine && k.scope === "principal");
  return [
    got.kills.length === 0 ? h("p", null, text("kill.none")) :
      h("ul", { class: "rows" }, got.kills.map((k) => h("li", { class: "row", "data-kill": k.scope },
        h("div", { class: "grow" }, h("p", { class: "row-title" }, icon("stop", 16), " ", scopeWords(k)),
          h("p", { class: "sub" }, text("kill.since", { when: ago(k.set_ms) }), k.ref !== undefined && [" · ", h("code", { class: "code short" }, marked(k.ref))], open(k))),
        k.may_lift && button(text("kill.lift"), () => lift(k, changed), { describe: text("kill.lift.describe", { scope: scopeWords(k) }) })))),
    open(got) && h("p", { class: "hint" }, open(got)),
    !all && h("div", { class: "actions" }, button(text("kill.go"), () => stop(changed), { icon: "stop", class: "danger" })),
  ];
}

function scopeWords(k: Stop): string {
  return k.mine && k.scope === "principal" ? text("kill.mine") : textOf("kill.scope", k.scope, "kill.scope.other");
}

/** What a stop found and isn't over yet. */
function open(k: { in_flight: string[]; unknown: string[] }): Child {
  const words = [k.in_flight.length > 0 && text("kill.open", { n: k.in_flight.length }), k.unknown.length > 0 && text("kill.unknown", { n: k.unknown.length })].filter((w) => w !== false);
  return words.length > 0 && " · " + words.join(" · ");
}

async function stop(changed: () => void): Promise<void> {
  if (!(await confirm(text("kill.go"), text("kill.why"), text("kill.go")))) return;
  try {
    await call("POST", "/api/kill", { scope: "principal" });
    toast(text("kill.done"));
    changed();
  } catch (error) {
    toastProblem(error);
  }
}

async function lift(k: Stop, changed: () => void): Promise<void> {
  try {
    const done = await withStepUp(async () => {
      await call("DELETE", `/api/kill/${encodeURIComponent(k.kill_id)}`);
      return true;
    });
    if (done === undefined) return;
    toast(text("kill.lifted"));
    changed();
  } catch (error) {
    toastProblem(error);
  }
}

function agentOf(agent: Agent | undefined): Child {
  if (agent === undefined) return text("control.self");
  return agent.name === undefined ? h("code", { class: "code short" }, marked(agent.agent_ref)) : foreign(agent.name);
}

function history(got: Control): Child {
  if (!got.available) return null;
  const { attention: a } = got;
  return [
    section(text("control.leases"), got.leases.length === 0 ? empty("key", text("control.leases.empty"), text("control.leases.empty.next")) :
      table(text("control.leases"), [text("control.agent"), text("control.tools"), text("control.until"), text("control.lease")], got.leases.map((l) => [
        agentOf(l.agent), l.tool_ids.map((t) => [badge(h("code", null, marked(t))), " "]), h("time", { datetime: new Date(l.expires_at_ms).toISOString() }, moment(l.expires_at_ms)), h("code", { class: "code short" }, marked(l.lease_id)),
      ]))),
    section(text("control.calls"),
      a.asked > 0 && h("p", { class: "hint" }, text("control.attention", { asked: a.asked, budget: a.budget }), a.dwell_ms > 0 && [" ", text("control.dwell", { seconds: number(Math.max(1, Math.ceil(a.dwell_ms / 1000))) })]),
      got.calls.length === 0 ? empty("clock", text("control.calls.empty"), text("control.calls.empty.next")) :
        table(text("control.calls"), [text("control.tool"), text("control.agent"), text("control.state"), text("control.effect"), text("control.level"), text("calls.at")], got.calls.map((c) => [
          h("code", { class: "words" }, marked(c.tool_id)), agentOf(c.agent), [callWords(c.state), c.error_code !== undefined && c.error_code !== "" && [" ", h("code", { class: "code" }, marked(c.error_code))]],
          textOf("controlled", c.effect, "controlled.unknown"), textOf("level", c.confirmation_level ?? "", "level.none"),
          h("time", { datetime: new Date(c.admitted_ms).toISOString() }, moment(c.admitted_ms)),
        ]))),
  ];
}
