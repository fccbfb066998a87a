// Audit: the newest records, and how the tamper-evident log stands.

import { call } from "../portal/account.js";
import type { Place } from "../portal/router.js";
import { ago, moment, number, text } from "../text/text.js";
import { h, type Child } from "../ui/dom.js";
import { marked } from "../ui/marked.js";
import { badge, button, empty, heading, load, table, toastProblem } from "../ui/parts.js";

interface Entry {
  id: string;
  at_ms: number;
  kind: string;
  actor?: string;
  subject?: string;
  code?: string;
  public?: Record<string, unknown>;
  values?: Record<string, string>;
}

interface Page {
  records: Entry[];
  next?: string;
  tree: { size: number; unsequenced: number; checkpoint_ms?: number; covered?: number };
}

export function audit(place: Place): void {
  const body = h("div");
  place.root.append(heading(text("audit.title"), null, text("audit.lead")), body);
  void load(body, place.signal, () => page("", place.signal), view);
}

function page(before: string, signal?: AbortSignal): Promise<Page> {
  return call<Page>("GET", `/api/audit?limit=50${before && "&before=" + encodeURIComponent(before)}`, undefined, { signal });
}

function view(got: Page): Child {
  const { tree } = got;
  const fact = (name: string, value: Child): Child => h("div", null, h("dt", null, name), h("dd", null, value));
  return [
    h("dl", { class: "facts tiles" },
      fact(text("audit.size"), number(tree.size)), fact(text("audit.unsequenced"), number(tree.unsequenced)),
      fact(text("audit.checkpoint"), tree.checkpoint_ms ? h("time", { datetime: new Date(tree.checkpoint_ms).toISOString(), title: moment(tree.checkpoint_ms) }, ago(tree.checkpoint_ms)) : text("audit.checkpoint.none")),
      tree.covered !== undefined && fact(text("audit.covered"), number(tree.covered))),
    h("p", { class: "hint" }, text("audit.verify"), " ", h("code", null, "chaperone audit verify")),
    records(got),
  ];
}

function records(got: Page): Child {
  if (got.records.length === 0) return empty("audit", text("audit.empty"), text("audit.empty.next"));
  const head = [text("audit.kind"), text("audit.subject"), text("audit.code"), text("audit.facts"), text("calls.at")];
  const shown = table(text("audit.title"), head, got.records.map(row));
  let next = got.next;
  if (next === undefined) return shown;
  const more = button(text("list.more"), async () => {
    try {
      const older = await page(next ?? "");
      shown.querySelector("tbody")?.append(...table("", head, older.records.map(row)).querySelectorAll("tbody tr"));
      next = older.next;
      if (next === undefined) more.remove();
    } catch (error) {
      toastProblem(error);
    }
  }, { class: "more" });
  return [shown, more];
}

function row(e: Entry): Child[] {
  return [
    h("code", { class: "words" }, e.kind.split(/(?<=[._])/).map((word) => [marked(word), h("wbr")])),
    e.subject ? h("code", { class: "code short" }, marked(e.subject)) : h("span", { class: "muted" }, "—"),
    e.code ? badge(h("code", null, marked(e.code))) : h("span", { class: "muted" }, "—"),
    h("span", { class: "sub" }, Object.entries({ ...e.public, ...e.values }).map(([k, v]) => [h("code", null, marked(`${k}=${typeof v === "string" ? v : JSON.stringify(v)}`)), " "])),
    h("time", { datetime: new Date(e.at_ms).toISOString() }, moment(e.at_ms)),
  ];
}
