// The portal. Starts the shell for whoever is signed in, and clears everything at
// once when they aren't any more, in this tab or another.

import { keyUnchanged, leave, loadSession, onLeave, session, storedKey, type Why } from "./portal/account.js";
import { live, start } from "./adapter/adapter.js";
import { listenKeys } from "./portal/keys.js";
import { arm, resumeArming, selectionChanged } from "./attended/portal.js";
import { agents, run } from "./pages/agents.js";
import { approvals } from "./pages/approvals.js";
import { audit } from "./pages/audit.js";
import { automation } from "./pages/automation.js";
import { collection } from "./pages/collection.js";
import { confirmCall } from "./pages/confirm.js";
import { connect } from "./pages/connect.js";
import { connections } from "./pages/connections.js";
import { home } from "./pages/home.js";
import { item } from "./pages/item.js";
import { lost } from "./pages/lost.js";
import { settings } from "./pages/settings.js";
import { signIn } from "./pages/signin.js";
import { listen, startRouter, type Route } from "./portal/router.js";
import { shell } from "./portal/shell.js";
import { hear, type Told } from "./portal/tabs.js";
import { language, onLanguage, text } from "./text/text.js";
import { warnOfEnd } from "./portal/ending.js";
import { problem } from "./ui/parts.js";
import { h } from "./ui/dom.js";
import { announce, toastArea } from "./ui/toast.js";

const routes: readonly Route[] = [
  { pattern: /^\/$/, title: "home.title", nav: "home", page: home },
  { pattern: /^\/collections\/(?<collection>[^/]+)$/, title: "collection.title", nav: "home", page: collection },
  { pattern: /^\/collections\/(?<collection>[^/]+)\/item$/, title: "item.title", nav: "home", page: item },
  { pattern: /^\/automation$/, title: "automation.title", nav: "automation", page: automation },
  { pattern: /^\/connections$/, title: "apps.title", nav: "connections", page: connections },
  { pattern: /^\/connect\/(?<id>[^/]+)$/, title: "connect.title", nav: "connections", page: connect },
  { pattern: /^\/agents$/, title: "agents.title", nav: "agents", page: agents },
  { pattern: /^\/agents\/(?<run>[^/]+)$/, title: "agents.title", nav: "agents", page: run },
  { pattern: /^\/approvals$/, title: "approvals.title", nav: "approvals", page: approvals },
  { pattern: /^\/confirm\/(?<call>[^/]+)$/, title: "confirm.title", nav: "approvals", page: confirmCall },
  { pattern: /^\/audit$/, title: "audit.title", nav: "audit", page: audit },
  { pattern: /^\/settings$/, title: "settings.title", nav: "settings", page: settings },
];

const app = h("div", { id: "app" });
const endedHow = "chaperone.ended"; // told once, after the load that a sign-out ends with
let ended: Why | undefined;

/** Shows what there is to show for whoever is signed in now. */
async function boot(): Promise<void> {
  try {
    if (storedKey() === "" || !(await loadSession())) return showSignIn();
  } catch (error) {
    return app.replaceChildren(h("main", { id: "main", class: "signin", tabindex: "-1" }, problem(error, () => void boot())));
  }
  showFrame();
  warnOfEnd();
  resumeArming();
  await start();
}

/** Draws the frame with the page of the address in it. */
function showFrame(): void {
  const frame = shell();
  app.replaceChildren(frame.element);
  startRouter(routes, lost, frame.main, (route, first) => {
    frame.current(route?.nav ?? "");
    if (first) return;
    announce(document.title);
    // The next page's heading may come with its answer; the place is there now.
    (frame.main.querySelector<HTMLElement>("h1") ?? frame.main).focus({ preventScroll: true });
  });
}

onLanguage(() => {
  if (session() === undefined) return;
  const at = document.activeElement?.id ?? "";
  showFrame();
  if (at !== "") document.getElementById(at)?.focus();
});

function showSignIn(): void {
  if (ended === undefined && sessionStorage.getItem(endedHow) !== null) ended = "signed-out";
  sessionStorage.removeItem(endedHow);
  document.title = text("app.name");
  app.replaceChildren(signIn(ended));
}

/** Whatever the reason: nothing of the account stays on the page. */
onLeave((why) => {
  ended = why;
  for (const dialog of document.querySelectorAll("dialog")) dialog.remove();
  sessionStorage.clear();
  app.replaceChildren();
  if (why === "signed-out") sessionStorage.setItem(endedHow, why);
  else showSignIn();
});

hear((told) => void heard(told));

let going = false; // this document is being left: nothing more is heard

async function heard(told: Told): Promise<void> {
  if (going) return;
  if (told === "selection") {
    if (session() === undefined) return;
    selectionChanged();
    return start();
  }
  if (told === "armed") return arm().elsewhere();
  if (told === "disarmed") return arm().free();
  if (session() === undefined) {
    // Nobody was signed in here; somebody is now.
    if (told === "session" && storedKey() !== "") load(location.href);
  } else if (told === "signed-out" || !keyUnchanged()) {
    leave("switched");
    load("/"); // another person's, perhaps: from nothing, at no place of the first one's
  } else if (await loadSession()) await start(); // a step-up elsewhere: a new CSRF token and generation
  else leave("expired");
}

function load(address: string): void {
  going = true;
  location.replace(address);
}

/** After a pause (offline, back from the browser's cache) everything is asked anew. */
async function resume(): Promise<void> {
  if (session() === undefined) return;
  if (!keyUnchanged()) return void heard("session");
  try {
    if (!(await loadSession())) return leave("expired");
  } catch {
    // start tells what is wrong
  }
  await start();
}

document.documentElement.lang = language();
document.body.append(app, ...toastArea());
if (document.documentElement.dataset["page"] === "lost") {
  app.append(h("main", { id: "main", class: "signin", tabindex: "-1" }));
  startRouter([], lost, app.firstElementChild as HTMLElement, () => undefined);
} else {
  live(resume);
  listen();
  listenKeys(() => session() !== undefined);
  void boot();
  void keepAssets();
}

/** The service worker keeps scripts and styles, by the build that they are of. */
async function keepAssets(): Promise<void> {
  const build = document.querySelector('meta[name="build"]')?.getAttribute("content") ?? "";
  if (!("serviceWorker" in navigator) || !/^[0-9a-f]{16}$/.test(build)) return;
  // The page's policy takes this one address only through this one policy.
  const types = (window as { trustedTypes?: { createPolicy(name: string, rules: { createScriptURL(s: string): string }): { createScriptURL(s: string): unknown } } }).trustedTypes;
  const policy = types?.createPolicy("chaperone", { createScriptURL: (s) => (/^\/sw\.js\?v=[0-9a-f]{16}$/.test(s) ? s : "") });
  const address = `/sw.js?v=${build}`;
  await navigator.serviceWorker.register((policy?.createScriptURL(address) ?? address) as string).catch(() => undefined);
}
