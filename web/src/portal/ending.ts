// Warns before the session ends of disuse, so that what a person is in the middle
// of isn't lost: one press, or any other use, keeps it.

import { endsAt, loadSession, session } from "./account.js";
import { text } from "../text/text.js";
import { toast } from "../ui/toast.js";

const before = 120_000; // ms

let timer: ReturnType<typeof setTimeout> | undefined;

/** Watches over the session that is loaded. Calling it again starts over. */
export function warnOfEnd(): void {
  clearTimeout(timer);
  const own = session();
  if (own !== undefined) timer = setTimeout(() => near(own.session), Math.max(1000, endsAt() - Date.now() - before));
}

function near(id: string): void {
  const own = session();
  if (own === undefined || own.session !== id) return;
  if (endsAt() - Date.now() > before + 1000) return warnOfEnd(); // it was used since
  if (own.ends_ms <= endsAt()) return toast(text("ending.absolute"), "note");
  toast(text("ending.idle"), "note", { label: text("ending.stay"), act: () => void loadSession().then(warnOfEnd, () => undefined) });
}
