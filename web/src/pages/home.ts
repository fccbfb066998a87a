// Home: the account's collections, and how much of its room is used.

import { call, session } from "../portal/account.js";
import type { Place } from "../portal/router.js";
import { bytes, count, type Key, number, text, textOf } from "../text/text.js";
import { confirm, openDialog } from "../ui/dialog.js";
import { h, type Child } from "../ui/dom.js";
import type { IconName } from "../ui/icons.js";
import { icon } from "../ui/icons.js";
import { foreign } from "../ui/marked.js";
import { button, busy, empty, field, heading, load, problem, toastProblem } from "../ui/parts.js";
import { toast } from "../ui/toast.js";
import { allCollections, collectionPath, type Collection } from "./data.js";

interface Of {
  used: number;
  limit: number;
}

export function home(place: Place): void {
  const list = h("div");
  const use = h("div", { class: "usage" });
  const show = (): void => {
    void load(list, place.signal, () => allCollections(place.signal), (all) => collectionList(all, show));
    void load(use, place.signal, () => call<{ items: Of; bytes: Of }>("GET", "/api/usage", undefined, { signal: place.signal }), usage);
  };
  place.root.append(
    heading(text("home.title"), button(text("home.create"), () => create(show), { icon: "plus", class: "primary" }), text("home.lead")),
    list, use, next());
  show();
}

/** What can be done with them: the three ways in which something acts on the account. */
function next(): HTMLElement {
  const ways: [string, IconName, Key, Key][] = [
    ["/automation", "automation", "automation.title", "automation.lead"], ["/connections", "apps", "apps.title", "apps.lead"], ["/agents", "agents", "agents.title", "agents.lead"],
  ];
  return h("section", { class: "next", "aria-labelledby": "next" }, h("h2", { id: "next" }, text("home.next")),
    h("ul", { class: "cards" }, ways.filter(([path]) => path !== "/agents" || session()?.agents === true).map(([path, name, title, lead]) => h("li", { class: "card link-card" },
      h("span", { class: "tile" }, icon(name, 20)), h("div", { class: "grow" }, h("a", { class: "title-link", href: path }, text(title)), h("p", { class: "sub" }, text(lead)))))));
}

const sourceIcons: Readonly<Record<string, IconName>> = { inbox: "inbox", storage: "file", external: "external" };

function collectionList(all: readonly Collection[], changed: () => void): Child {
  if (all.length === 0) return empty("collections", text("home.empty.title"), text("home.empty.next"));
  return h("ul", { class: "cards" }, all.map((c) => h("li", { class: "card link-card" },
    h("span", { class: "tile" }, icon(sourceIcons[c.source] ?? "file", 20)),
    h("div", { class: "grow" },
      h("a", { class: "title-link", href: collectionPath(c.collection) }, foreign(c.title)),
      h("p", { class: "sub" }, textOf("source", c.source, "source.external"), c.item_count === undefined ? null : [" · ", count("items", c.item_count)])),
    c.source === "storage" && button("", () => drop(c, changed), { icon: "trash", class: "bare", describe: text("home.drop.describe", { title: c.title }) }))));
}

function usage({ items, bytes: room }: { items: Of; bytes: Of }): Child {
  return [gauge(text("usage.items"), items, number), gauge(text("usage.bytes"), room, bytes)];
}

function gauge(name: string, of: Of, show: (n: number) => string): HTMLElement {
  const words = text("usage.of", { used: show(of.used), limit: show(of.limit) });
  return h("div", { class: "gauge" }, h("span", null, name), h("span", { class: "muted" }, words),
    h("meter", { min: 0, max: of.limit, value: of.used, high: of.limit * 0.9, "aria-label": `${name}: ${words}` }));
}

async function create(changed: () => void): Promise<void> {
  const title = h("input", { type: "text", required: true, maxlength: 100, autocomplete: "off", autofocus: true });
  const wrong = h("div");
  const send: HTMLButtonElement = h("button", { type: "submit", class: "primary" }, text("home.create"));
  const form = h("form", { on: { submit: (event) => { event.preventDefault(); void busy(send, act); } } },
    field(text("home.create.name"), title, text("home.create.hint")), wrong,
    h("div", { class: "actions" }, h("button", { type: "button", on: { click: () => dialog.close() } }, text("dialog.cancel")), send));
  const dialog = openDialog(text("home.create"), [form], "small");
  const act = async (): Promise<void> => {
    try {
      await call("POST", "/api/collections", { title: title.value.trim() });
      dialog.close();
      toast(text("home.created"));
      changed();
    } catch (error) {
      wrong.replaceChildren(problem(error));
    }
  };
  await dialog.closed;
}

async function drop(c: Collection, changed: () => void): Promise<void> {
  if (!(await confirm(text("home.drop.title"), [h("p", null, foreign(c.title)), h("p", null, text("home.drop.why"))], text("home.drop.go")))) return;
  try {
    await call("DELETE", `/api/collections/${encodeURIComponent(c.collection)}`);
    toast(text("home.dropped"));
    changed();
  } catch (error) {
    toastProblem(error);
  }
}
