// Attended control for a page that isn't ours: one script tag lets its person offer
// the tools that the page has registered with the browser (WebMCP) to their agents.
//
//	<script src="/attended.js" type="module"></script>
//
// The page's site routes /attended.js, /ws/browser-control,
// /api/browser-control/*, /api/session and /auth/* through its own origin, which the
// server's configuration lists. It is trusted with its users' arms: whatever runs in
// the page could do what this script does.
//
// What changes something is never confirmed here, but on the authority's own origin,
// in a tab of its own. Where the server doesn't say where, such calls are refused.

import { hear } from "./portal/tabs.js";
import { keyUnchanged, leave, loadSession, session, storedKey } from "./portal/account.js";
import { language } from "./text/text.js";
import { Arm } from "./attended/arm.js";
import type { Decision, Tool } from "./attended/channel.js";
import { Floating } from "./attended/floating.js";
import { context, foreignTools, settled } from "./attended/foreign.js";

const registry = context();
let dropped: readonly string[] = [];
let authority = "";

const arm = new Arm({ route: "page", tools, ask, ended: () => undefined });

async function tools(minted: Readonly<Record<string, unknown>>): Promise<readonly Tool[]> {
  authority = origin(minted["authority"]);
  const { reads } = minted;
  const found = registry === undefined ? { tools: [], dropped: [] } : await foreignTools(registry, Array.isArray(reads) ? reads : []);
  dropped = found.dropped;
  return found.tools;
}

/** An origin that a person may be led to, "" for none. */
function origin(value: unknown): string {
  const url = typeof value === "string" ? URL.parse(value) : null;
  return url !== null && (url.protocol === "https:" || url.protocol === "http:") ? url.origin : "";
}

function ask(): Promise<Decision> {
  return Promise.resolve(authority === "" ? { kind: "refused", code: "confirmation_unavailable" } : { kind: "elsewhere" });
}

async function start(): Promise<void> {
  const panel = new Floating(arm, { dropped: () => dropped, authority: () => authority, supported: registry !== undefined });
  panel.language(language());
  if (registry === undefined || storedKey() === "" || !(await loadSession())) return panel.show();
  panel.show();
  await settled(registry);
  await arm.look();
  // Tools that come or go while nothing is armed are shown as they are.
  let due: ReturnType<typeof setTimeout> | undefined;
  registry.addEventListener("toolchange", () => {
    clearTimeout(due);
    due = setTimeout(() => void arm.look(), 500);
  });
}

hear((told) => {
  if (told === "armed") arm.elsewhere();
  else if (told === "disarmed") arm.free();
  else if (session() !== undefined && (told === "signed-out" || !keyUnchanged())) {
    leave("switched");
    location.reload();
  } else if (told === "session") {
    if (session() !== undefined) void loadSession(); // a fresh sign-in elsewhere: another CSRF token
    else if (storedKey() !== "") location.reload();
  }
});

void start();
