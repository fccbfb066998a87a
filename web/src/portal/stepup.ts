// Step-up: the strong sign-in that some acts need to be younger than five minutes.
// It is a full load and back; what the person had chosen meanwhile is kept for
// this tab, and pressed again by the person, never by the page.

import { call, fresh } from "./account.js";
import { Refusal } from "./request.js";
import { text } from "../text/text.js";
import { confirm } from "../ui/dialog.js";

const prefix = "chaperone.draft.";

/** Keeps what a form holds over the step-up. It must hold no secret. */
export function keepDraft(name: string, value: unknown): void {
  sessionStorage.setItem(prefix + name, JSON.stringify(value));
}

/** Answers what was kept, once. */
export function takeDraft<T>(name: string): T | undefined {
  const kept = sessionStorage.getItem(prefix + name);
  sessionStorage.removeItem(prefix + name);
  try {
    return kept === null ? undefined : (JSON.parse(kept) as T);
  } catch {
    return undefined;
  }
}

/**
 * Does what needs a fresh sign-in, or offers one. Answers undefined where the
 * person went to sign in instead, or didn't want to.
 */
export async function withStepUp<T>(act: () => Promise<T>, keep: () => void = () => undefined): Promise<T | undefined> {
  if (fresh()) {
    try {
      return await act();
    } catch (error) {
      if (!(error instanceof Refusal && error.code === "step_up_required")) throw error;
    }
  }
  if (!(await confirm(text("stepup.title"), text("stepup.why"), text("stepup.go"), "primary"))) return undefined;
  keep();
  const { authorization_url: address } = await call<{ authorization_url: string }>("POST", "/api/step-up", { next: location.pathname + location.search });
  const url = new URL(address, location.origin);
  if (url.protocol !== "https:" && url.protocol !== "http:") throw new Refusal("bad_answer");
  location.assign(url);
  return undefined;
}
