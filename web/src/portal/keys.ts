// Keyboard shortcuts: g and a letter goes somewhere, ? tells them, / searches,
// Ctrl or Cmd with K opens the palette. Those of one letter can be switched off,
// and none works where a person types.

import { go } from "./router.js";
import { text, type Key } from "../text/text.js";
import { openDialog } from "../ui/dialog.js";
import { h } from "../ui/dom.js";
import { openPalette } from "./palette.js";

export interface Destination {
  readonly key: string; // after g
  readonly title: Key;
  readonly path: string;
}

export const destinations: readonly Destination[] = [
  { key: "c", title: "home.title", path: "/" },
  { key: "h", title: "automation.title", path: "/automation" },
  { key: "p", title: "apps.title", path: "/connections" },
  { key: "a", title: "agents.title", path: "/agents" },
  { key: "v", title: "approvals.title", path: "/approvals" },
  { key: "l", title: "audit.title", path: "/audit" },
  { key: "s", title: "settings.title", path: "/settings" },
];

const stored = "chaperone.shortcuts";
const pause = 1500; // ms between g and its letter

let began = 0;

export function shortcutsOn(): boolean {
  return localStorage.getItem(stored) !== "off";
}

export function setShortcuts(on: boolean): void {
  if (on) localStorage.removeItem(stored);
  else localStorage.setItem(stored, "off");
}

/** Listens, as long as somebody is signed in. */
export function listenKeys(signedIn: () => boolean): void {
  document.addEventListener("keydown", (event) => {
    if (!signedIn() || event.defaultPrevented || event.isComposing) return;
    if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
      if (document.querySelector("dialog[open]") !== null) return;
      event.preventDefault();
      openPalette();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target) || !shortcutsOn() || document.querySelector("dialog[open]") !== null) return;
    letter(event);
  });
}

function letter(event: KeyboardEvent): void {
  const to = destinations.find((d) => d.key === event.key);
  if (began > 0 && performance.now() - began < pause && to !== undefined) {
    event.preventDefault();
    began = 0;
    return go(to.path);
  }
  began = event.key === "g" ? performance.now() : 0;
  if (event.key === "?") {
    event.preventDefault();
    openHelp();
  } else if (event.key === "/") {
    const search = document.querySelector<HTMLInputElement>('input[type="search"]');
    if (search === null) return;
    event.preventDefault();
    search.focus();
  }
}

function typing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || target.matches("input:not([type=checkbox]):not([type=radio]), textarea, select"));
}

export function openHelp(): void {
  const line = (keys: readonly string[], words: string): HTMLElement => h("div", null, h("dt", null, keys.map((k, i) => [i > 0 && " ", h("kbd", null, k)])), h("dd", null, words));
  const command = /Mac|iP/.test(navigator.platform) ? "⌘" : "Ctrl";
  openDialog(text("keys.title"), [h("dl", { class: "keys" },
    line([command, "K"], text("keys.palette")), line(["/"], text("keys.search")), line(["?"], text("keys.help")), line(["Esc"], text("keys.close")),
    destinations.map((d) => line(["g", d.key], text(d.title)))), h("p", { class: "hint" }, text("keys.off"))], "small");
}
