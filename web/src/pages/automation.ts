// Automation hub: whether this browser's own agents may use the account's tools in
// this tab, on which exact collections and functions, and what came of it.

import { call, session } from "../portal/account.js";
import { availability, type Availability, type Failed, type Selected, type Selection, start, stop, watch, watchCalls } from "../adapter/adapter.js";
import { selectionChanged } from "../attended/portal.js";
import type { Place } from "../portal/router.js";
import { keepDraft, takeDraft, withStepUp } from "../portal/stepup.js";
import { tell } from "../portal/tabs.js";
import { moment, text, textOf, type Key } from "../text/text.js";
import { fill, h, type Child } from "../ui/dom.js";
import { icon, type IconName } from "../ui/icons.js";
import { foreign, marked } from "../ui/marked.js";
import { badge, button, empty, explain, heading, load, section, table, toastProblem } from "../ui/parts.js";
import { announce, toast } from "../ui/toast.js";
import { Refusal } from "../portal/request.js";
import { allCollections, type Collection } from "./data.js";
import { Matrix } from "./matrix.js";

export function automation(place: Place): void {
  const state = h("div");
  const surface = h("div");
  const calls = h("div");
  const showState = (): void => fill(state, availabilityCard(availability()));
  watch(() => {
    showState();
    announce(stateWords(availability()));
  }, place.signal);
  showState();
  const showSurface = (): void => void load(surface, place.signal, async () => ({
    collections: await allCollections(place.signal),
    selection: await call<Selection>("GET", "/api/automation/selection", undefined, { signal: place.signal }),
  }), (got) => editor(got.collections, got.selection, showSurface));
  place.root.append(heading(text("automation.title"), null, text("automation.lead")), state,
    section(text("automation.selection"), surface),
    section(text("automation.calls"), calls),
    h("p", { class: "hint" }, text("automation.scope")));
  showSurface();
  const showCalls = (): void => void load(calls, place.signal, () => call<{ calls: Call[] }>("GET", "/api/automation/calls", undefined, { signal: place.signal }), recent);
  showCalls();
  let due: ReturnType<typeof setTimeout> | undefined;
  watchCalls(() => {
    clearTimeout(due); // many calls at once are one look
    due = setTimeout(showCalls, 400);
  }, place.signal);
}

const looks: Readonly<Record<Availability["state"], [IconName, "plain" | "good" | "warn" | "bad" | "accent"]>> = {
  unsupported: ["info", "plain"], disabled: ["power", "plain"], registering: ["refresh", "accent"], registered: ["check", "good"],
  partial: ["warning", "warn"], offline: ["offline", "warn"], expired: ["clock", "warn"], failed: ["warning", "bad"],
};

function stateWords(a: Availability): string {
  return text(`state.${a.state}` as Key);
}

/** How things stand in this tab. */
function availabilityCard(a: Availability): HTMLElement {
  const [name, tone] = looks[a.state];
  return h("section", { class: `card state ${tone}`, "data-state": a.state, "aria-label": text("automation.state") },
    icon(name, 22), h("div", { class: "grow" }, h("p", { class: "state-title" }, stateWords(a)), detail(a)),
    (a.state === "failed" || a.state === "partial") && button(text("problem.again"), () => start(), { icon: "refresh" }));
}

function detail(a: Availability): Child {
  switch (a.state) {
    case "registering":
      return h("p", null, a.of === 0 ? text("state.registering.read") : text("state.registering.what", { m: a.of }));
    case "registered":
      return [h("p", null, text("state.registered.what", { n: a.names.length, m: a.of })),
        h("p", null, a.names.map((n) => [badge(h("code", null, n), "good"), " "])), a.kind === "legacy" && h("p", { class: "hint" }, text("state.legacy"))];
    case "partial":
      return [h("p", null, text("state.partial.what")), h("ul", null, a.failed.map((f) => h("li", null, h("code", null, f.name), ": ", why(f))))];
    case "failed":
      return h("p", null, explain(new Refusal(a.code)).what, " ", h("code", { class: "code" }, a.code));
    case "unsupported":
      return [h("p", null, text("state.unsupported.what")), h("p", { class: "hint" }, text("state.unsupported.how"), " ", h("code", { class: "code" }, "chromium --enable-features=WebMCP ", location.origin))];
    default:
      return h("p", null, text(`state.${a.state}.what` as Key));
  }
}

function why(f: Failed): string {
  return text(`partial.${f.why}` as Key);
}

/** The selection, and the switch. */
function editor(collections: readonly Collection[], now: Selection, changed: () => void): Child {
  const allowed = session()?.browser_surface;
  if (allowed !== undefined && !allowed.allowed) return empty("power", text("automation.denied"), textOf("denied", allowed.reason ?? "", "denied.review"));
  if (collections.length === 0) return empty("collections", text("home.empty.title"), text("home.empty.next"), h("a", { href: "/" }, text("home.title")));
  const draft = takeDraft<Selected[]>("automation");
  const matrix: Matrix = new Matrix(collections, draft ?? now.selection, () => ready());
  const save = button(text(now.enabled ? "automation.change" : "automation.enable"), () => enable(matrix.selection(), now, changed), { class: "primary" });
  const none = h("p", { class: "hint", role: "status" });
  const ready = (): void => {
    const some = matrix.selection().length > 0;
    save.toggleAttribute("disabled", !some);
    none.textContent = some ? text("automation.pick.ok") : text("automation.pick");
  };
  ready();
  return [
    h("p", null, badge(text(now.enabled ? "automation.on" : "automation.off"), now.enabled ? "good" : "plain"), " ", text(now.enabled ? "automation.on.what" : "automation.off.what")),
    draft !== undefined && h("p", { class: "notice" }, icon("info", 16), text("stepup.back")),
    matrix.element, none,
    h("div", { class: "actions" }, save, now.enabled && button(text("automation.disable"), () => disable(now, changed), { icon: "power" })),
  ];
}

async function enable(selection: Selected[], now: Selection, changed: () => void): Promise<void> {
  try {
    const done = await withStepUp(() => call<Selection>("PUT", "/api/automation/selection", { selection, generation: now.generation }), () => keepDraft("automation", selection));
    if (done === undefined) return;
    toast(text("automation.saved"));
    tell("selection");
    selectionChanged();
    changed();
    await start();
  } catch (error) {
    toastProblem(error);
    if (error instanceof Refusal && error.code === "conflict") changed();
  }
}

async function disable(now: Selection, changed: () => void): Promise<void> {
  // Off here at once, whatever the server answers.
  stop("disabled");
  selectionChanged();
  try {
    await call("DELETE", "/api/automation/selection", { generation: now.generation });
    toast(text("automation.disabled"));
    tell("selection");
  } catch (error) {
    toastProblem(error);
  }
  changed();
  await start();
}

interface Call {
  at_ms: number;
  tool: string;
  collection?: string; // a list of collections has none
  effect: "read" | "write" | "delete";
  code?: string | null;
  transport: string;
  receipt?: string;
}

function recent({ calls }: { calls: readonly Call[] }): Child {
  if (calls.length === 0) return empty("clock", text("calls.empty"), text("calls.empty.next"));
  return table(text("automation.calls"), [text("calls.tool"), text("calls.collection"), text("calls.effect"), text("calls.outcome"), text("calls.transport"), text("calls.at")], calls.map((c) => [
    h("code", null, marked(c.tool)), c.collection ? foreign(c.collection) : h("span", { class: "muted" }, "—"), textOf("effect", c.effect, "effect.read"),
    c.code ? badge(h("code", null, marked(c.code)), c.code === "unknown_outcome" ? "warn" : "bad") : badge(text("calls.ok"), "good"),
    textOf("transport", c.transport, "transport.bearer"), h("time", { datetime: new Date(c.at_ms).toISOString() }, moment(c.at_ms)),
  ]));
}

