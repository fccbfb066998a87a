// The command palette: every page and every act that needs no choice, by its name.

import { call } from "./account.js";
import { destinations, openHelp } from "./keys.js";
import { collectionPath, type Collection } from "../pages/data.js";
import { signOut } from "../pages/settings.js";
import { go } from "./router.js";
import { count, text } from "../text/text.js";
import { setTheme } from "./theming.js";
import { openDialog } from "../ui/dialog.js";
import { fill, h, uid } from "../ui/dom.js";
import { foreign, plain } from "../ui/marked.js";
import { announce } from "../ui/toast.js";

interface Command {
  readonly words: string;
  readonly shown: Node | string;
  readonly hint: string;
  run(): void;
}

function commands(): Command[] {
  const act = (words: string, run: () => void): Command => ({ words, shown: words, hint: text("palette.act"), run });
  return [
    ...destinations.map((d) => ({ words: text(d.title), shown: text(d.title), hint: `g ${d.key}`, run: () => go(d.path) })),
    act(text("keys.title"), openHelp),
    act(text("palette.light"), () => setTheme("light")),
    act(text("palette.dark"), () => setTheme("dark")),
    act(text("palette.auto"), () => setTheme("auto")),
    act(text("signout"), () => void signOut()),
  ];
}

/** Opens the palette. Arrow keys choose, Enter runs, Escape closes. */
export function openPalette(): void {
  const listID = uid("palette");
  const input = h("input", {
    type: "text", role: "combobox", "aria-expanded": "true", "aria-controls": listID, "aria-autocomplete": "list", autocomplete: "off", spellcheck: "false",
    "aria-label": text("palette.label"), placeholder: text("palette.label"), autofocus: true,
  });
  const list = h("ul", { role: "listbox", id: listID, "aria-label": text("palette.title"), class: "palette-list" });
  const dialog = openDialog(text("palette.title"), [input, list], "palette");
  let all = commands();
  let found: Command[] = [];
  let at = 0;
  const run = (c: Command | undefined): void => {
    if (c === undefined) return;
    dialog.close();
    c.run();
  };
  const draw = (): void => {
    const wanted = fold(input.value);
    found = all.filter((c) => fold(c.words).includes(wanted));
    at = Math.min(at, Math.max(0, found.length - 1));
    fill(list, found.map((c, i) => h("li", { role: "option", id: `${listID}-${i}`, "aria-selected": i === at ? "true" : "false", on: { click: () => run(c) } },
      h("span", null, c.shown), h("span", { class: "muted" }, c.hint))));
    if (found.length === 0) fill(list, h("li", { role: "option", "aria-disabled": "true", "aria-selected": "false" }, text("palette.none")));
    input.setAttribute("aria-activedescendant", found.length === 0 ? "" : `${listID}-${at}`);
    list.children[at]?.scrollIntoView({ block: "nearest" });
  };
  input.addEventListener("input", () => {
    at = 0;
    draw();
    announce(count("palette.found", found.length));
  });
  input.addEventListener("keydown", (event) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step !== 0 && found.length > 0) {
      event.preventDefault();
      at = (at + step + found.length) % found.length;
      draw();
    } else if (event.key === "Enter") {
      event.preventDefault();
      run(found[at]);
    }
  });
  draw();
  void collectionCommands().then((more) => {
    all = [...all, ...more];
    if (dialog.element.open) draw();
  }, () => undefined); // the pages are there without them
}

async function collectionCommands(): Promise<Command[]> {
  const { collections } = await call<{ collections: Collection[] }>("GET", "/api/collections?limit=100");
  return collections.map((c) => ({ words: plain(c.title), shown: foreign(c.title), hint: text("palette.collection"), run: () => go(collectionPath(c.collection)) }));
}

/** Letters without case and marks, so that a search in Spanish needs no accents. */
function fold(words: string): string {
  return words.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase().trim();
}
