// Connected apps: what acts for the account over HTTP MCP, each with its exact
// selection; tokens for scripts; and this browser session's own surface, which is
// no app and is told apart.

import { call, session } from "../portal/account.js";
import type { Selected } from "../adapter/adapter.js";
import type { Place } from "../portal/router.js";
import { keepDraft, takeDraft, withStepUp } from "../portal/stepup.js";
import { tell } from "../portal/tabs.js";
import { ago, days as inDays, moment, text, textOf } from "../text/text.js";
import { confirm, openDialog } from "../ui/dialog.js";
import { fill, h, type Child } from "../ui/dom.js";
import { icon } from "../ui/icons.js";
import { foreign, plain } from "../ui/marked.js";
import { badge, busy, button, empty, field, heading, load, problem, section, toastProblem } from "../ui/parts.js";
import { toast } from "../ui/toast.js";
import { allCollections, type Connection } from "./data.js";
import { Matrix, selectionList } from "./matrix.js";

interface Token {
  id: string;
  name: string;
  connection_id: string;
  scopes: string[];
  ends_ms: number;
}

export function connections(place: Place): void {
  const apps = h("div");
  const tokens = h("div");
  const show = (): void => {
    void load(apps, place.signal, () => call<{ connections: Connection[] }>("GET", "/api/connections", undefined, { signal: place.signal }), (got) => list(got.connections, show));
    void load(tokens, place.signal, () => call<{ tokens: Token[] }>("GET", "/api/tokens", undefined, { signal: place.signal }), (got) => tokenList(got.tokens, show));
  };
  place.root.append(heading(text("apps.title"), null, text("apps.lead")),
    section(text("apps.connections"), apps),
    section(text("tokens.title"), h("p", { class: "hint" }, text("tokens.lead")), tokens,
      h("div", { class: "actions" }, button(text("tokens.create"), () => create(place, show), { icon: "key" }))),
    section(text("apps.how"), h("p", null, text("apps.how.what")), h("pre", { class: "content", tabindex: "0", role: "region", "aria-label": text("apps.how.address") }, location.origin + "/mcp")));
  show();
  if (takeDraft<boolean>("tokens") === true) void create(place, show);
}

function list(all: readonly Connection[], changed: () => void): Child {
  if (all.length === 0) return empty("apps", text("apps.empty"), text("apps.empty.next"));
  return h("ul", { class: "rows" }, all.map((c) => connection(c, changed)));
}

function connection(c: Connection, changed: () => void): HTMLElement {
  const own = c.transport === "browser";
  const expired = c.expires_ms > 0 && c.expires_ms < Date.now();
  const over = c.revoked_ms !== undefined || expired || (c.state !== "live" && c.state !== "");
  const host = c.client?.redirect_host;
  return h("li", { class: over ? "row over" : "row" },
    h("div", { class: "grow" },
      h("p", { class: "row-title" }, nameOf(c), " ", over ? badge(text(c.revoked_ms === undefined && expired ? "apps.expired" : "apps.revoked")) : badge(text("apps.active"), "good")),
      own ? h("p", { class: "sub" }, text(c.current ? "apps.session.what" : "apps.session.other")) : h("p", { class: "sub" }, h("code", null, foreign(c.client?.id ?? c.connection_id))),
      host ? h("p", { class: "sub" }, text("apps.host"), " ", h("code", null, foreign(host))) : null,
      h("p", { class: "sub" }, text("apps.created", { when: moment(c.created_ms) }), c.used_ms ? [" · ", text("apps.used", { when: ago(c.used_ms) })] : null,
        c.expires_ms > 0 ? [" · ", text("apps.expires", { when: moment(c.expires_ms) })] : null),
      c.scopes.length > 0 && h("p", null, c.scopes.map((s) => [badge(h("code", null, foreign(s))), " "])),
      selectionList(c.selection)),
    !over && button(text("apps.revoke"), () => revoke(c, changed), { class: "danger", icon: "close" }));
}

function nameOf(c: Connection): Child {
  if (c.transport === "browser") return text(c.current ? "apps.session" : "apps.session.elsewhere");
  return foreign(c.client?.name || c.client?.id || c.connection_id);
}

async function revoke(c: Connection, changed: () => void): Promise<void> {
  const own = c.transport === "browser";
  if (!(await confirm(text("apps.revoke.title"), [h("p", null, nameOf(c)), h("p", null, text("apps.revoke.why"))], text("apps.revoke")))) return;
  try {
    await call("DELETE", `/api/connections/${encodeURIComponent(c.connection_id)}`);
    toast(text("apps.revoke.done"));
    if (own) tell("selection");
    changed();
  } catch (error) {
    toastProblem(error);
  }
}

function tokenList(all: readonly Token[], changed: () => void): Child {
  if (all.length === 0) return empty("key", text("tokens.empty"), text("tokens.empty.next"));
  return h("ul", { class: "rows" }, all.map((t) => h("li", { class: "row" },
    h("div", { class: "grow" }, h("p", { class: "row-title" }, foreign(t.name), " ", t.scopes.map((s) => [badge(h("code", null, foreign(s))), " "])),
      h("p", { class: "sub" }, text("apps.expires", { when: moment(t.ends_ms) }))),
    button(text("tokens.revoke"), () => revokeToken(t, changed), { class: "danger", icon: "close", describe: text("tokens.revoke.describe", { name: plain(t.name) }) }))));
}

async function revokeToken(t: Token, changed: () => void): Promise<void> {
  if (!(await confirm(text("tokens.revoke.title"), [h("p", null, foreign(t.name)), h("p", null, text("tokens.revoke.why"))], text("tokens.revoke")))) return;
  try {
    await call("DELETE", `/api/tokens/${encodeURIComponent(t.id)}`);
    toast(text("tokens.revoked"));
    changed();
  } catch (error) {
    toastProblem(error);
  }
}

const scopes = ["collections", "owned"] as const;
const day = 86_400; // s

async function create(place: Place, changed: () => void): Promise<void> {
  const name = h("input", { type: "text", required: true, maxlength: 100, autocomplete: "off", autofocus: true });
  const days = h("select", null, [1, 7, 30, 90].map((n) => h("option", { value: n * day, selected: n === 7 }, inDays(n))));
  const boxes = scopes.map((s) => h("input", { type: "checkbox", value: s }));
  const place2 = h("div");
  const wrong = h("div");
  let matrix: Matrix | undefined;
  void load(place2, place.signal, () => allCollections(place.signal), (all) => (matrix = new Matrix(all, [])).element);
  const offered = h("div");
  let engagements: HTMLInputElement[] = [];
  if (session()?.agents === true) void load(offered, place.signal, () => call<{ engagements: { name: string; fault?: string }[] }>("GET", "/api/agents", undefined, { signal: place.signal }), (got) => {
    const names = got.engagements.filter((e) => !e.fault).map((e) => e.name);
    engagements = names.map((e) => h("input", { type: "checkbox", value: e }));
    return names.length > 0 && h("fieldset", null, h("legend", null, text("tokens.engagements")), names.map((e, i) => h("label", { class: "check" }, engagements[i] ?? null, foreign(e))));
  });
  const send: HTMLButtonElement = h("button", { type: "submit", class: "primary" }, text("tokens.create"));
  const act = async (): Promise<void> => {
    const ticked = (all: readonly HTMLInputElement[]): string[] => all.filter((b) => b.checked).map((b) => b.value);
    const granted = ticked(engagements);
    const asked = { name: name.value.trim(), scopes: ticked(boxes), ...(granted.length > 0 ? { engagements: granted } : {}), selection: matrix?.selection() ?? ([] as Selected[]), expires_in_s: Number(days.value) };
    try {
      const made = await withStepUp(() => call<{ token: string }>("POST", "/api/tokens", asked), () => keepDraft("tokens", true));
      if (made === undefined) return;
      dialog.close();
      changed();
      await showOnce(made.token);
    } catch (error) {
      fill(wrong, problem(error));
    }
  };
  const form = h("form", { on: { submit: (event) => { event.preventDefault(); void busy(send, act); } } },
    field(text("tokens.name"), name, text("tokens.name.hint")),
    h("fieldset", null, h("legend", null, text("tokens.scopes")), scopes.map((s, i) => h("label", { class: "check" }, boxes[i] ?? null, h("span", null, h("code", null, s), " ", textOf("scope", s, "scope.other"))))),
    h("fieldset", null, h("legend", null, text("tokens.selection")), place2), offered,
    field(text("tokens.expires"), days), wrong,
    h("div", { class: "actions" }, h("button", { type: "button", on: { click: () => dialog.close() } }, text("dialog.cancel")), send));
  const dialog = openDialog(text("tokens.create"), [form], "wide");
  await dialog.closed;
}

/** Shows a secret the one time it can be shown. */
export async function showOnce(secret: string, title = text("tokens.once"), hint = text("tokens.once.what")): Promise<void> {
  const field = h("pre", { class: "content secret", tabindex: "0", role: "region", "aria-label": title }, secret);
  const copy = button(text("tokens.copy"), async () => {
    await navigator.clipboard.writeText(secret);
    toast(text("tokens.copied"));
  });
  const dialog = openDialog(title, [h("p", { class: "notice warn" }, icon("warning", 16), hint), field,
    h("div", { class: "actions" }, copy, h("button", { type: "button", class: "primary", on: { click: () => dialog.close() } }, text("tokens.done")))], "small");
  await dialog.closed;
}
