// Connect: an app asks to act for the account. The page shows who asks and where
// the answer goes; the person picks exact collections and functions, from nothing.

import { call } from "../portal/account.js";
import { Refusal } from "../portal/request.js";
import type { Selected } from "../adapter/adapter.js";
import type { Place } from "../portal/router.js";
import { keepDraft, takeDraft, withStepUp } from "../portal/stepup.js";
import { days as inDays, moment, text, textOf } from "../text/text.js";
import { fill, h, type Child } from "../ui/dom.js";
import { icon } from "../ui/icons.js";
import { foreign } from "../ui/marked.js";
import { badge, button, field, heading, load, problem, section } from "../ui/parts.js";
import type { Collection } from "./data.js";
import { Matrix } from "./matrix.js";

interface Asked {
  client: { id: string; name: string; redirect_host: string; verified: boolean };
  scopes: string[];
  engagements?: (string | { name: string })[];
  collections: Collection[];
  expires_ms: number;
}

interface Draft {
  selection: Selected[];
  scopes: string[];
  engagements: string[];
}

export function connect(place: Place): void {
  const id = place.params["id"] ?? "";
  void load(place.root, place.signal, () => call<Asked>("GET", `/api/oauth/requests/${encodeURIComponent(id)}`, undefined, { signal: place.signal }), (asked) => view(id, asked));
}

function view(id: string, asked: Asked): Child {
  const draft = takeDraft<Draft>("connect." + id);
  const wrong = h("div");
  const matrix = new Matrix(asked.collections, draft?.selection ?? []);
  const scopes = asked.scopes.map((s) => h("input", { type: "checkbox", value: s, checked: draft?.scopes.includes(s) }));
  const engagements = (asked.engagements ?? []).map((e) => (typeof e === "string" ? e : e.name));
  const picked = engagements.map((e) => h("input", { type: "checkbox", value: e, checked: draft?.engagements.includes(e) }));
  const days = h("select", null, [1, 7, 30].map((n) => h("option", { value: n, selected: n === 30 }, inDays(n))));
  const chosen = (): Draft => ({ selection: matrix.selection(), scopes: values(scopes), engagements: values(picked) });
  const allow = button(text("connect.allow"), () => approve(id, chosen(), Number(days.value), wrong), { class: "primary", icon: "check" });
  const deny = button(text("connect.deny"), () => settle(wrong, () => call("POST", `/api/oauth/requests/${encodeURIComponent(id)}/deny`, {})));
  return [
    heading(text("connect.title"), null, text("connect.lead")),
    h("section", { class: "card client" }, icon("apps", 24), h("div", { class: "grow" },
      h("p", { class: "row-title" }, foreign(asked.client.name || asked.client.id), " ", badge(text(asked.client.verified ? "connect.verified" : "connect.unverified"), asked.client.verified ? "good" : "warn")),
      h("p", null, text("connect.host"), " ", h("strong", null, h("code", null, foreign(asked.client.redirect_host)))),
      h("p", { class: "sub" }, h("code", null, foreign(asked.client.id))),
      h("p", { class: "sub" }, text("connect.until", { when: moment(asked.expires_ms) })))),
    draft !== undefined && h("p", { class: "notice" }, icon("info", 16), text("stepup.back")),
    section(text("tokens.scopes"), asked.scopes.map((s, i) => h("label", { class: "check" }, scopes[i] ?? null, h("span", null, h("code", null, foreign(s)), " ", textOf("scope", s, "scope.other"))))),
    section(text("connect.collections"), h("p", { class: "hint" }, text("connect.collections.hint")), matrix.element),
    engagements.length > 0 && section(text("connect.engagements"), engagements.map((e, i) => h("label", { class: "check" }, picked[i] ?? null, foreign(e)))),
    field(text("tokens.expires"), days), wrong,
    h("div", { class: "actions end" }, deny, allow),
  ];
}

function values(boxes: readonly HTMLInputElement[]): string[] {
  return boxes.filter((b) => b.checked).map((b) => b.value);
}

async function approve(id: string, chosen: Draft, days: number, wrong: HTMLElement): Promise<void> {
  const body = { selection: chosen.selection, scopes: chosen.scopes, days, ...(chosen.engagements.length > 0 ? { engagements: chosen.engagements } : {}) };
  await settle(wrong, () => withStepUp(() => call("POST", `/api/oauth/requests/${encodeURIComponent(id)}/approve`, body), () => keepDraft("connect." + id, chosen)));
}

/** Sends the answer on to the app, at the address that the server names. */
async function settle(wrong: HTMLElement, act: () => Promise<unknown>): Promise<void> {
  try {
    const done = (await act()) as { redirect?: unknown } | undefined;
    if (done === undefined) return;
    if (typeof done.redirect !== "string") throw new Refusal("bad_answer");
    location.assign(safe(done.redirect));
  } catch (error) {
    fill(wrong, problem(error));
  }
}

/** Any scheme that an app registered but those that run something here. */
function safe(address: string): string {
  const url = new URL(address, location.origin);
  if (["javascript:", "data:", "blob:", "vbscript:", "file:"].includes(url.protocol)) throw new Refusal("bad_answer");
  return url.href;
}
