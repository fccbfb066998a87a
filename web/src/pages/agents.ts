// Agents: owned browsers. What the operator offers, what is running, and one run
// with its live view, what it did, what its scope decided, and the switch to end it.

import { call } from "../portal/account.js";
import { codeOf } from "../portal/request.js";
import { go, type Place } from "../portal/router.js";
import { ago, moment, number, text, textOf } from "../text/text.js";
import { confirm } from "../ui/dialog.js";
import { fill, h, type Child } from "../ui/dom.js";
import { icon } from "../ui/icons.js";
import { foreign, marked } from "../ui/marked.js";
import { badge, button, empty, heading, load, problem, section, table, toastProblem } from "../ui/parts.js";
import { toast } from "../ui/toast.js";
import { watchLive, type Frame } from "./live.js";

interface Engagement {
  name: string;
  digest?: string;
  fault?: string;
}

interface Run {
  run_id: string;
  engagement: string;
  state: string;
  scope_digest?: string;
  started_ms: number;
}

interface Agents {
  available?: boolean;
  engagements: Engagement[];
  runs: Run[];
}

export function agents(place: Place): void {
  const body = h("div");
  place.root.append(heading(text("agents.title"), null, text("agents.lead")), body);
  const show = (): void => void load(body, place.signal, () => call<Agents>("GET", "/api/agents", undefined, { signal: place.signal }), (got) => overview(got, show));
  show();
}

function overview(got: Agents, changed: () => void): Child {
  if (got.available === false) return empty("agents", text("agents.unavailable"), text("agents.unavailable.next"));
  return [
    section(text("agents.runs"), got.runs.length === 0 ? empty("agents", text("agents.runs.empty"), text("agents.runs.empty.next")) :
      table(text("agents.runs"), [text("agents.engagement"), text("agents.state"), text("agents.started"), ""], got.runs.map((r) => [
        h("a", { href: runPath(r.run_id) }, foreign(r.engagement)), stateBadge(r.state), h("time", { datetime: new Date(r.started_ms).toISOString(), title: moment(r.started_ms) }, ago(r.started_ms)),
        button(text("agents.kill"), () => kill(r, changed), { icon: "stop", class: "danger", describe: text("agents.kill.describe", { name: r.engagement }) }),
      ]))),
    section(text("agents.engagements"), got.engagements.length === 0 ? empty("file", text("agents.engagements.empty"), text("agents.engagements.empty.next")) :
      h("ul", { class: "rows" }, got.engagements.map((e) => h("li", { class: "row" }, h("div", { class: "grow" }, h("p", { class: "row-title" }, foreign(e.name)),
        e.fault ? h("p", { class: "sub" }, badge(h("code", null, marked(e.fault)), "bad"), " ", text("agents.fault")) : h("p", { class: "sub" }, h("code", { class: "code" }, e.digest ?? ""))),
        !e.fault && button(text("agents.start"), () => begin(e), { icon: "play", class: "primary", describe: text("agents.start.describe", { name: e.name }) }))))),
  ];
}

function runPath(run: string): string {
  return "/agents/" + encodeURIComponent(run);
}

function stateBadge(state: string): HTMLElement {
  const tone = state === "running" || state === "ready" ? "good" : state === "paused" || state === "starting" ? "warn" : "plain";
  return badge(textOf("run", state, "run.other"), tone);
}

async function begin(e: Engagement): Promise<void> {
  try {
    const made = await call<Run>("POST", "/api/agents", { engagement: e.name });
    go(runPath(made.run_id));
  } catch (error) {
    toastProblem(error);
  }
}

async function kill(r: Run, changed: () => void): Promise<void> {
  if (!(await confirm(text("agents.kill.title"), [h("p", null, foreign(r.engagement)), h("p", null, text("agents.kill.why"))], text("agents.kill")))) return;
  try {
    await call("DELETE", `/api/agents/${encodeURIComponent(r.run_id)}`);
    toast(text("agents.killed"));
    changed();
  } catch (error) {
    toastProblem(error);
  }
}

interface Deed {
  sequence: number;
  action: string;
  outcome: string;
  begun_ms: number;
}

interface Decision {
  host: string;
  port: number;
  scheme: string;
  allowed: boolean;
  code: string;
  rule: string;
  count: number;
}

interface Detail extends Run {
  actions: Deed[];
  decisions: Decision[];
}

/** One run. */
export function run(place: Place): void {
  const id = place.params["run"] ?? "";
  const show = (): void => void load(place.root, place.signal, () => call<Detail>("GET", `/api/agents/${encodeURIComponent(id)}`, undefined, { signal: place.signal }), (got) => one(place, got, show));
  show();
}

function one(place: Place, r: Detail, again: () => void): Child {
  place.title(r.engagement);
  const steer = (verb: "pause" | "resume"): Promise<void> => call("POST", `/api/agents/${encodeURIComponent(r.run_id)}/${verb}`, {}).then(again, toastProblem);
  const paused = r.state === "paused";
  return [
    h("nav", { class: "crumbs", "aria-label": text("crumbs") }, h("a", { href: "/agents" }, icon("back", 16), text("agents.title"))),
    heading([foreign(r.engagement), " ", stateBadge(r.state)], [
      button(text("agents.refresh"), again, { icon: "refresh" }),
      button(text(paused ? "agents.resume" : "agents.pause"), () => steer(paused ? "resume" : "pause"), { icon: paused ? "play" : "pause" }),
      button(text("agents.kill"), () => kill(r, () => go("/agents")), { icon: "stop", class: "danger" }),
    ], [text("agents.started"), " ", moment(r.started_ms), " · ", h("code", null, r.run_id)]),
    liveView(place, r),
    section(text("agents.decisions"), r.decisions.length === 0 ? empty("check", text("agents.decisions.empty"), text("agents.decisions.empty.next")) :
      table(text("agents.decisions"), [text("agents.host"), text("agents.verdict"), text("agents.rule"), text("agents.count")], r.decisions.map((d) => [
        h("code", null, marked(`${d.scheme}://${d.host}:${d.port}`)), badge(d.allowed ? text("agents.allowed") : [text("agents.denied"), " ", h("code", null, marked(d.code))], d.allowed ? "good" : "bad"),
        h("code", null, marked(d.rule)), number(d.count)]))),
    section(text("agents.actions"), r.actions.length === 0 ? empty("clock", text("agents.actions.empty"), text("agents.actions.empty.next")) :
      table(text("agents.actions"), [text("agents.sequence"), text("agents.action"), text("agents.outcome"), text("calls.at")], r.actions.slice().reverse().map((d) => [
        number(d.sequence), h("code", null, marked(d.action)), textOf("outcome", d.outcome, "outcome.other"), moment(d.begun_ms)]))),
  ];
}

/** What the browser shows now. The picture is data of another page: only a picture. */
function liveView(place: Place, r: Run): HTMLElement {
  const picture = h("img", { alt: text("live.alt"), class: "live-picture", width: 1280, height: 720 });
  const address = h("code", { class: "code" }, "");
  const place2 = h("div", { class: "live" }, h("p", { class: "muted" }, text("live.wait")));
  let shown = "";
  const frame = (f: Frame): void => {
    const next = URL.createObjectURL(f.picture);
    picture.src = next;
    fill(address, marked(f.url));
    if (shown === "") fill(place2, picture);
    else URL.revokeObjectURL(shown);
    shown = next;
  };
  const over = (error?: unknown): void => {
    if (place.signal.aborted) return;
    if (error !== undefined && codeOf(error) !== "cancelled") fill(place2, problem(error));
    else fill(place2, h("p", { class: "muted" }, text("live.over")));
  };
  place.signal.addEventListener("abort", () => URL.revokeObjectURL(shown));
  void watchLive(`/api/agents/${encodeURIComponent(r.run_id)}/live`, place.signal, frame).then(() => over(), over);
  return section(text("live.title"), h("p", { class: "sub" }, address), place2);
}
