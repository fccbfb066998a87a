// The frame around every page: the bar with the palette and the account, the
// navigation, the place where pages are shown.

import { session } from "./account.js";
import { arm } from "../attended/portal.js";
import { openHelp } from "./keys.js";
import { openPalette } from "./palette.js";
import { signOut } from "../pages/settings.js";
import { text, type Key } from "../text/text.js";
import { h } from "../ui/dom.js";
import { icon, mark, type IconName } from "../ui/icons.js";
import { foreign } from "../ui/marked.js";
import { button } from "../ui/parts.js";

interface Entry {
  readonly id: string;
  readonly path: string;
  readonly title: Key;
  readonly icon: IconName;
}

const entries: readonly Entry[] = [
  { id: "home", path: "/", title: "home.title", icon: "collections" },
  { id: "automation", path: "/automation", title: "automation.title", icon: "automation" },
  { id: "connections", path: "/connections", title: "apps.title", icon: "apps" },
  { id: "agents", path: "/agents", title: "agents.title", icon: "agents" },
  { id: "approvals", path: "/approvals", title: "approvals.title", icon: "approvals" },
  { id: "audit", path: "/audit", title: "audit.title", icon: "audit" },
  { id: "settings", path: "/settings", title: "settings.title", icon: "settings" },
];

export interface Shell {
  readonly element: HTMLElement;
  readonly main: HTMLElement;
  current(nav: string): void;
}

let before = new AbortController(); // of the frame that was shown before

/** Tells on every page that this tab is armed, and leads to where it is disarmed. */
function chip(): HTMLElement {
  before.abort();
  before = new AbortController();
  const it = h("a", { class: "button armed", href: "/approvals" }, icon("approvals", 16), h("span", null, text("arm.chip")));
  const show = (): void => {
    it.hidden = arm().state.is !== "on";
  };
  arm().watch(show, before.signal);
  show();
  return it;
}

export function shell(): Shell {
  const main = h("main", { id: "main", tabindex: "-1" });
  const links = entries.filter((e) => e.id !== "agents" || session()?.agents === true).map((e) => h("a", { href: e.path, "data-nav": e.id }, icon(e.icon, 18), h("span", null, text(e.title))));
  const nav = h("nav", { class: "nav", id: "nav", "aria-label": text("shell.nav") }, links.map((l) => l),
    h("div", { class: "nav-foot" }, button(text("keys.title"), openHelp, { class: "link" })));
  const toggle: HTMLButtonElement = h("button", { type: "button", class: "bare menu-button", "aria-expanded": "false", "aria-controls": "nav", "aria-label": text("shell.menu"), on: { click: () => menu(toggle, nav, toggle.getAttribute("aria-expanded") !== "true") } }, icon("menu", 20));
  nav.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || toggle.getAttribute("aria-expanded") !== "true") return;
    menu(toggle, nav, false);
    toggle.focus();
  });
  const command = /Mac|iP/.test(navigator.platform) ? "⌘K" : "Ctrl K";
  const element = h("div", { class: "shell" },
    h("a", { class: "skip", href: "#main", on: { click: (event) => { event.preventDefault(); main.focus(); } } }, text("shell.skip")),
    h("header", { class: "bar" }, toggle,
      h("a", { class: "brand", href: "/" }, mark(24), h("span", null, text("app.name"))),
      h("button", { type: "button", class: "palette-button", on: { click: openPalette } }, icon("search", 16), h("span", { class: "visually-hidden" }, text("palette.title")), h("span", { class: "palette-words" }, text("palette.label")), h("kbd", null, command)),
      chip(),
      h("div", { class: "who" }, h("span", { class: "who-name" }, foreign(session()?.person.name ?? "")), button("", () => signOut(), { icon: "signout", class: "bare", describe: text("signout") }))),
    nav, main);
  return {
    element, main,
    current: (id) => {
      for (const link of links) {
        if (link.dataset["nav"] === id) link.setAttribute("aria-current", "page");
        else link.removeAttribute("aria-current");
      }
      menu(toggle, nav, false);
    },
  };
}

function menu(toggle: HTMLElement, nav: HTMLElement, open: boolean): void {
  toggle.setAttribute("aria-expanded", String(open));
  nav.classList.toggle("open", open);
}
