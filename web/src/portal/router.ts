// One shell, and the History API within it: a page of the portal is never a load
// of its own, so the document (and what it has registered) lives through all of
// them. Full loads are for signing in and out alone.

import { plain } from "../ui/marked.js";
import { text, type Key } from "../text/text.js";

export interface Place {
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly root: HTMLElement; // emptied, the page's own
  readonly signal: AbortSignal; // aborted when the page is left
  title(words: string): void; // the document's title, for pages of one thing
}

export type Page = (place: Place) => void | Promise<void>;

export interface Route {
  readonly pattern: RegExp;
  readonly title: Key;
  readonly nav: string; // which entry of the navigation is current
  readonly page: Page;
}

let routes: readonly Route[] = [];
let lost: Page = () => undefined;
let main: HTMLElement | undefined;
let leaving = new AbortController();
let arrived: (route: Route | undefined, first: boolean) => void = () => undefined;
let first = true;

export function startRouter(all: readonly Route[], notFound: Page, root: HTMLElement, after: typeof arrived): void {
  routes = all;
  lost = notFound;
  main = root;
  arrived = after;
  first = true;
  render();
}

/** Goes to a page of the portal. */
export function go(path: string, replace = false): void {
  if (path === location.pathname + location.search && !replace) return render();
  if (replace) history.replaceState(null, "", path);
  else history.pushState(null, "", path);
  render();
  scrollTo(0, 0);
}

/** Whether a path is a page of this shell that a tool may go to: never one that asks for a consent or a word. */
export function leadsTo(path: string): boolean {
  if (!/^\/(?![/\\])/.test(path)) return false;
  const url = URL.parse(path, location.origin);
  return url !== null && url.origin === location.origin && url.hash === "" && routes.some((r) => r.pattern.test(url.pathname) && !/^\/(connect|confirm)\//.test(url.pathname));
}

/** Shows the page of the address again, as after a change of language. */
export function render(): void {
  if (main === undefined) return;
  leaving.abort();
  leaving = new AbortController();
  const path = location.pathname;
  for (const route of routes) {
    const found = route.pattern.exec(path);
    if (found === null) continue;
    return show(route, decoded(found.groups ?? {}));
  }
  show(undefined, {});
}

function show(route: Route | undefined, params: Record<string, string>): void {
  const root = main;
  if (root === undefined) return;
  const title = (words: string): void => {
    document.title = `${plain(words)} · ${text("app.name")}`;
  };
  title(text(route?.title ?? "lost.title"));
  root.replaceChildren();
  void (route?.page ?? lost)({ params, query: new URLSearchParams(location.search), root, signal: leaving.signal, title });
  arrived(route, first);
  first = false;
}

function decoded(groups: Record<string, string>): Record<string, string> {
  const out: Record<string, string> = {};
  for (const [name, value] of Object.entries(groups)) {
    try {
      out[name] = decodeURIComponent(value);
    } catch {
      out[name] = "";
    }
  }
  return out;
}

/** Takes clicks on the portal's own links, and the way back. */
export function listen(): void {
  addEventListener("popstate", render);
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element | null)?.closest?.("a[href]");
    const href = link?.getAttribute("href") ?? "";
    if (!/^\/(?![/\\])/.test(href) || link?.hasAttribute("download") || link?.hasAttribute("data-load")) return;
    event.preventDefault();
    go(href);
  });
}
