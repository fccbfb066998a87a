// Settings: passkeys (with which the built-in provider signs people in, and another
// one's only confirm what agents ask), recovery codes, the sessions that are signed
// in, language, theme and keyboard shortcuts.

import { call, leave, session } from "../portal/account.js";
import { Refusal } from "../portal/request.js";
import type { Place } from "../portal/router.js";
import { withStepUp } from "../portal/stepup.js";
import { tell } from "../portal/tabs.js";
import { ago, count, language, languages, moment, setLanguage, text, textOf, type Language } from "../text/text.js";
import { setShortcuts, shortcutsOn } from "../portal/keys.js";
import { setTheme, theme, themes, type Theme } from "../portal/theming.js";
import { confirm, openDialog } from "../ui/dialog.js";
import { fill, h, type Child } from "../ui/dom.js";
import { foreign, plain } from "../ui/marked.js";
import { badge, busy, button, empty, field, heading, load, problem, section, toastProblem } from "../ui/parts.js";
import { toast } from "../ui/toast.js";
import { showOnce } from "./connections.js";

export function settings(place: Place): void {
  const own = session();
  place.root.append(heading(text("settings.title"), null, own && [text("settings.signed"), " ", foreign(own.person.name)]),
    own?.provider.built_in === true ? passkeySection(place, signing, [button(text("recovery.new"), () => newCodes(), { icon: "refresh" })])
      : passkeySection(place, confirming, null, [" ", text("passkeys.elsewhere"), " ", h("code", null, own?.provider.issuer ?? ""), "."]),
    sessionSection(place), appearance());
}

interface Passkey {
  id: string;
  name: string;
  created_ms: number;
  used_ms?: number;
  synced?: boolean;
}

/** What is said of passkeys: what they are for depends on who signs people in. */
type Words = Readonly<Record<"lead" | "next" | "why", Parameters<typeof text>[0]>>;
const signing: Words = { lead: "passkeys.lead", next: "passkeys.empty.next", why: "passkeys.remove.why" };
const confirming: Words = { lead: "passkeys.confirm.lead", next: "passkeys.confirm.empty.next", why: "passkeys.confirm.remove.why" };

function passkeySection(place: Place, words: Words, more: Child, where: Child = null): HTMLElement {
  const list = h("div");
  const show = (): void => void load(list, place.signal, () => call<{ passkeys: Passkey[]; codes_left?: number }>("GET", "/api/passkeys", undefined, { signal: place.signal }), (got) => [passkeyList(got.passkeys, words, show), got.codes_left !== undefined && h("p", { class: "hint" }, count("recovery.left", got.codes_left))]);
  show();
  return section(text("passkeys.title"), h("p", { class: "hint" }, text(words.lead), where), list,
    h("div", { class: "actions" }, button(text("passkeys.add"), () => addPasskey(show), { icon: "key" }), more));
}

function passkeyList(all: readonly Passkey[], words: Words, changed: () => void): Child {
  if (all.length === 0) return empty("key", text("passkeys.empty"), text(words.next));
  return h("ul", { class: "rows" }, all.map((p) => h("li", { class: "row" },
    h("div", { class: "grow" }, h("p", { class: "row-title" }, foreign(p.name), p.synced === true && [" ", badge(text("passkeys.synced"))]), h("p", { class: "sub" }, text("apps.created", { when: moment(p.created_ms) }), p.used_ms ? [" · ", text("apps.used", { when: ago(p.used_ms) })] : null)),
    all.length > 1 && button(text("passkeys.remove"), () => removePasskey(p, words, changed), { icon: "trash", class: "danger", describe: text("passkeys.remove.describe", { name: plain(p.name) }) }))));
}

async function removePasskey(p: Passkey, words: Words, changed: () => void): Promise<void> {
  if (!(await confirm(text("passkeys.remove.title"), [h("p", null, foreign(p.name)), h("p", null, text(words.why))], text("passkeys.remove")))) return;
  try {
    const done = await withStepUp(() => call("DELETE", `/api/passkeys/${encodeURIComponent(p.id)}`));
    if (done === undefined) return;
    toast(text("passkeys.removed"));
    changed();
  } catch (error) {
    toastProblem(error);
  }
}

async function addPasskey(changed: () => void): Promise<void> {
  const name = h("input", { type: "text", required: true, maxlength: 100, autocomplete: "off", autofocus: true });
  const wrong = h("div");
  const send: HTMLButtonElement = h("button", { type: "submit", class: "primary" }, text("passkeys.add"));
  const act = async (): Promise<void> => {
    try {
      const done = await withStepUp(() => enrol(name.value.trim()));
      if (done === undefined) return;
      dialog.close();
      toast(text("passkeys.added"));
      changed();
    } catch (error) {
      fill(wrong, problem(error));
    }
  };
  const form = h("form", { on: { submit: (event) => { event.preventDefault(); void busy(send, act); } } },
    field(text("passkeys.name"), name, text("passkeys.name.hint")), wrong,
    h("div", { class: "actions" }, h("button", { type: "button", on: { click: () => dialog.close() } }, text("dialog.cancel")), send));
  const dialog = openDialog(text("passkeys.add"), [form], "small");
  await dialog.closed;
}

async function enrol(name: string): Promise<true> {
  const { options } = await call<{ options: { publicKey?: PublicKeyCredentialCreationOptionsJSON } & PublicKeyCredentialCreationOptionsJSON }>("POST", "/api/passkeys/begin", {});
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options.publicKey ?? options);
  const made = await navigator.credentials.create({ publicKey }).catch(refused);
  await call("POST", "/api/passkeys/finish", { name, response: (made as PublicKeyCredential).toJSON() as unknown });
  return true;
}

/** What the browser says when there will be no passkey, as a code of ours. */
function refused(error: unknown): never {
  if (!(error instanceof DOMException)) throw error;
  throw new Refusal(error.name === "InvalidStateError" ? "passkey_known" : "passkey_declined", true);
}

async function newCodes(): Promise<void> {
  if (!(await confirm(text("recovery.new"), text("recovery.why"), text("recovery.go"), "primary"))) return;
  try {
    const made = await withStepUp(() => call<{ codes: string[] }>("POST", "/api/recovery-codes", {}));
    if (made !== undefined) await showOnce(made.codes.join("\n"), text("recovery.once"), text("recovery.once.what"));
  } catch (error) {
    toastProblem(error);
  }
}

interface Row {
  session: string;
  current: boolean;
  created_ms: number;
  used_ms: number;
  ends_ms: number;
  agent: string;
  acr: string;
}

function sessionSection(place: Place): HTMLElement {
  const list = h("div");
  const show = (): void => void load(list, place.signal, () => call<{ sessions: Row[] }>("GET", "/api/sessions", undefined, { signal: place.signal }), (got) => sessionList(got.sessions, show));
  show();
  return section(text("sessions.title"), list);
}

function sessionList(all: readonly Row[], changed: () => void): Child {
  const others = all.filter((s) => !s.current).length;
  return [
    h("ul", { class: "rows" }, all.map((s) => h("li", { class: "row" },
      h("div", { class: "grow" }, h("p", { class: "row-title" }, h("span", { title: plain(s.agent) }, foreign(device(s.agent))), " ", s.current && badge(text("sessions.current"), "good")),
        h("p", { class: "sub" }, text("sessions.since", { when: moment(s.created_ms) }), " · ", text("apps.used", { when: ago(s.used_ms) }), " · ", textOf("acr", s.acr.replace(/^urn:chaperone:/, ""), "acr.other"))),
      s.current ? button(text("signout"), () => signOut(), { icon: "signout" }) : button(text("sessions.end"), () => end(s, changed), { icon: "close", class: "danger" })))),
    others > 0 && h("div", { class: "actions" }, button(text("sessions.others"), () => endOthers(changed), { class: "danger" })),
  ];
}

// What browsers call themselves, the more particular first: each also names the others.
const browsers: [RegExp, string][] = [[/\bEdgA?\/(\d+)/, "Edge"], [/\bOPR\/(\d+)/, "Opera"], [/\bFirefox\/(\d+)/, "Firefox"], [/Chrome\/(\d+)/, "Chrome"], [/\bVersion\/(\d+).*Safari/, "Safari"]];
const systems: [RegExp, string][] = [[/Android/, "Android"], [/iPhone|iPad/, "iOS"], [/Windows/, "Windows"], [/Mac OS X/, "macOS"], [/CrOS/, "ChromeOS"], [/Linux/, "Linux"]];

/** A session's browser in few words; what isn't known stays as it was sent. */
function device(agent: string): string {
  const system = systems.find(([pattern]) => pattern.test(agent))?.[1];
  for (const [pattern, name] of browsers) {
    const version = pattern.exec(agent)?.[1];
    if (version !== undefined && system !== undefined) return text("sessions.device", { browser: `${name} ${version}`, system });
  }
  return agent === "" ? "—" : agent;
}

async function end(s: Row, changed: () => void): Promise<void> {
  if (!(await confirm(text("sessions.end.title"), [h("p", null, foreign(device(s.agent))), h("p", null, text("sessions.end.why"))], text("sessions.end")))) return;
  try {
    await call("DELETE", `/api/sessions/${encodeURIComponent(s.session)}`);
    toast(text("sessions.ended"));
    changed();
  } catch (error) {
    toastProblem(error);
  }
}

async function endOthers(changed: () => void): Promise<void> {
  if (!(await confirm(text("sessions.others"), text("sessions.end.why"), text("sessions.others")))) return;
  try {
    await call("POST", "/api/sessions/end-others", {});
    toast(text("sessions.ended"));
    changed();
  } catch (error) {
    toastProblem(error);
  }
}

/** Signs out: here at once, in the other tabs within a second, at the provider after that. */
export async function signOut(): Promise<void> {
  let redirect = "/";
  try {
    ({ redirect } = await call<{ redirect: string }>("POST", "/auth/logout", {}));
  } catch (error) {
    toastProblem(error);
    return;
  }
  tell("signed-out");
  leave("signed-out");
  const url = new URL(redirect === "" ? "/" : redirect, location.origin);
  location.replace(url.protocol === "https:" || url.protocol === "http:" ? url : "/");
}

function appearance(): HTMLElement {
  const names: Readonly<Record<Language, string>> = { en: "English", es: "Español" };
  const lang = h("select", { id: "language", on: { change: () => setLanguage(lang.value as Language) } }, languages.map((l) => h("option", { value: l, lang: l, selected: l === language() }, names[l])));
  const look = h("select", { on: { change: () => setTheme(look.value as Theme) } }, themes.map((t) => h("option", { value: t, selected: t === theme() }, text(`theme.${t}`))));
  const keys = h("input", { type: "checkbox", checked: shortcutsOn(), on: { change: () => setShortcuts(keys.checked) } });
  return section(text("settings.appearance"), h("div", { class: "fields" }, field(text("settings.language"), lang), field(text("settings.theme"), look)),
    h("label", { class: "check" }, keys, h("span", null, text("settings.keys"))));
}
