// Attended control of the portal: its account tools as they are selected, the tools of
// the page, and its dialogs.

import { call, session } from "../portal/account.js";
import type { Descriptor } from "../adapter/dispatch.js";
import { Period } from "../adapter/period.js";
import { codeOf } from "../portal/request.js";
import { text } from "../text/text.js";
import { toast } from "../ui/toast.js";
import { accountTool, type AccountTool } from "./account.js";
import { Arm } from "./arm.js";
import type { Decision, Question, Tool } from "./channel.js";
import { pageTools } from "./pagetools.js";
import { prompt, type Facts, type More } from "./prompt.js";
import { known } from "./record.js";

let period = new Period();
let made: Arm | undefined;

/** The one arm of this document. */
export function arm(): Arm {
  return (made ??= new Arm({ route: "portal", tools, ask, ended: () => period.end("grant_revoked") }));
}

async function tools(): Promise<Tool[]> {
  period.end("grant_revoked");
  const mine = (period = new Period());
  const page = await pageTools();
  // Where the browser surface may not be used, neither may its tools be here.
  if (session()?.browser_surface.allowed === false) return page;
  const { tools: all } = await call<{ tools: readonly Descriptor[] }>("GET", "/api/automation/descriptors", undefined, { signal: mine.signal });
  return [...page, ...(await Promise.all(all.map((t) => accountTool(t, mine))))];
}

async function ask(q: Question, stop: AbortSignal, clock: () => number): Promise<Decision> {
  const { state } = arm();
  const facts = async (): Promise<Facts> => ({
    until: state.is === "on" ? state.expires : q.ask.expires, document: document.title, known: await known(q.ask.call, q.ask.lease, stop),
  });
  try {
    return await prompt(q, q.tool as AccountTool | (Tool & More), facts, clock, stop);
  } catch (error) {
    // The server wouldn't have done it: nobody is asked for what can't be.
    const code = codeOf(error);
    if (!stop.aborted) toast(text("ask.refused", { tool: q.tool.id, code }), "note");
    return { kind: "refused", code };
  }
}

/** What the tools may use has changed: what was armed is no longer what there is. */
export function selectionChanged(): void {
  if (made === undefined) return;
  if (made.state.is === "on") void made.disarm("selection_changed").catch(() => undefined);
  else if (made.state.is !== "unknown") void made.look();
}

/** Goes on where this tab left for the sign-in that arms it. */
export function resumeArming(): void {
  if (Arm.returning()) void arm().look();
}
