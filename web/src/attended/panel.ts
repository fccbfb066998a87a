// The place in the portal where this tab is armed: how it stands, until when, which
// tools, which calls, and the way out.

import type { Place } from "../portal/router.js";
import { codeOf, Refusal } from "../portal/request.js";
import { moment, text } from "../text/text.js";
import { fill, h, type Child } from "../ui/dom.js";
import { icon, type IconName } from "../ui/icons.js";
import { foreign, marked } from "../ui/marked.js";
import { badge, button, empty, explain, section, table, toastProblem } from "../ui/parts.js";
import { announce, toast } from "../ui/toast.js";
import type { Arm, State } from "./arm.js";
import type { CallState } from "./channel.js";
import { callWords, closedWords, leftWords, stateWords, waitingWords } from "./words.js";

type Tone = "plain" | "good" | "warn" | "bad" | "accent";

const looks: Readonly<Record<State["is"], [IconName, Tone]>> = {
  unknown: ["refresh", "plain"], unavailable: ["info", "plain"], off: ["power", "plain"], elsewhere: ["info", "warn"],
  arming: ["refresh", "accent"], on: ["check", "good"], failed: ["warning", "bad"],
};

/** This tab's part of Approvals. */
export function armPanel(place: Place, arm: Arm): HTMLElement[] {
  const card = h("div");
  const tools = h("div");
  const calls = h("div");
  let shown = "";
  let listed: Arm["tools"] | undefined;
  const show = (): void => {
    const { state } = arm;
    const now = state.is + (state.is === "off" ? String(state.why?.reason) : "");
    if (now !== shown) {
      if (shown !== "") announce(stateWords(state));
      shown = now;
      const at = card.contains(document.activeElement);
      fill(card, stateCard(arm));
      if (at) card.querySelector<HTMLElement>("button")?.focus();
    }
    if (listed !== arm.tools) fill(tools, toolList((listed = arm.tools)));
    fill(calls, callTable(arm));
    tick();
  };
  // The countdown alone changes each second, not what stands around it.
  const tick = (): void => {
    const { state } = arm;
    const left = card.querySelector(".countdown");
    if (left !== null && state.is === "on") left.textContent = [leftWords(state.expires, arm.clock()), waitingWords(arm.waiting())].filter((w) => w !== "").join(" · ");
  };
  const timer = setInterval(tick, 1000);
  place.signal.addEventListener("abort", () => clearInterval(timer));
  arm.watch(show, place.signal);
  show();
  void arm.look();
  return [card, section(text("arm.tools"), tools), section(text("arm.calls"), calls)];
}

function stateCard(arm: Arm): HTMLElement {
  const { state } = arm;
  const [name, tone] = looks[state.is];
  return h("section", { class: `card state ${tone}`, "data-arm": state.is, "aria-label": text("arm.tab") },
    icon(name, 22), h("div", { class: "grow" }, h("p", { class: "state-title" }, stateWords(state)), detail(state)), acts(arm));
}

function detail(state: State): Child {
  switch (state.is) {
    case "unavailable":
      return [h("p", null, text("arm.unavailable.what"), " ", code(state.code))];
    case "off":
      return [h("p", null, state.why !== undefined && [closedWords(state.why), " "], text("arm.off.what")), h("p", { class: "hint" }, text("arm.how"))];
    case "elsewhere":
      return h("p", null, text("arm.elsewhere.what"));
    case "arming":
      return h("p", null, text("arm.arming.what"));
    case "on":
      return [h("p", null, text("arm.on.what", { when: moment(state.expires) })), h("p", { class: "countdown" })];
    case "failed": {
      const { what, fix } = explain(new Refusal(state.code));
      return h("p", null, what, " ", fix, " ", code(state.code));
    }
    default:
      return null;
  }
}

function code(value: string): HTMLElement {
  return h("code", { class: "code" }, marked(value));
}

function acts(arm: Arm): Child {
  switch (arm.state.is) {
    case "off":
      return button(text("arm.go"), () => arm.begin().catch(toastProblem), { class: "primary" });
    case "failed":
      return button(text("arm.again"), () => arm.begin().catch(toastProblem), { class: "primary" });
    case "on":
      return button(text("arm.disarm"), () => disarm(arm), { icon: "power", class: "danger" });
    case "elsewhere":
      return button(text("arm.end"), () => disarm(arm), { icon: "power", class: "danger" });
    case "unavailable":
      return button(text("problem.again"), () => arm.look(), { icon: "refresh" });
    default:
      return null;
  }
}

/** Off here at once, whatever the server answers. */
export async function disarm(arm: Arm): Promise<void> {
  try {
    await arm.disarm();
    toast(text("arm.disarmed"));
  } catch (error) {
    if (codeOf(error) === "no_arm") return; // it was over already
    toastProblem(error);
  }
}

function toolList(all: Arm["tools"]): Child {
  const group = (asks: boolean): Child => {
    const of = all.filter((t) => (t.class !== "read") === asks);
    return of.length > 0 && h("li", { class: "row" }, h("div", { class: "grow" },
      h("p", null, of.map((t) => [badge(h("code", null, marked(t.id)), asks ? "warn" : "good"), " "])),
      h("p", { class: "sub" }, text(asks ? "arm.tools.ask" : "arm.tools.read"))));
  };
  return [
    h("ul", { class: "rows" }, group(false), group(true)),
    all.every((t) => t.source !== "chaperone:portal") && h("p", { class: "hint" }, text("arm.tools.more"), " ", h("a", { href: "/automation" }, text("automation.title"))),
  ];
}

const tones: Readonly<Record<CallState, Tone>> = {
  asked: "accent", confirmed: "accent", running: "accent", succeeded: "good", failed: "bad", cancelled: "warn", denied: "warn", expired: "warn",
};

function callTable(arm: Arm): Child {
  const calls = arm.calls();
  if (calls.length === 0) return empty("clock", text("arm.calls.empty"), text("arm.calls.empty.next"));
  return table(text("arm.calls"), [text("control.tool"), text("control.state"), text("calls.at")], calls.map((c) => [
    c.tool === "" ? h("span", { class: "muted" }, "—") : foreign(c.tool),
    [badge(callWords(c.state), tones[c.state]), c.code !== undefined && [" ", code(c.code)]],
    h("time", { datetime: new Date(c.at).toISOString() }, moment(c.at)),
  ]));
}
