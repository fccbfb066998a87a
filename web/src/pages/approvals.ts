// Approvals: what waits for the person's word. Today that is the review of a tool
// of this tab, which opens by itself; nothing else can ask.

import type { Place } from "../portal/router.js";
import { text } from "../text/text.js";
import { h } from "../ui/dom.js";
import { empty, heading } from "../ui/parts.js";

export function approvals(place: Place): void {
  place.root.append(heading(text("approvals.title")), empty("approvals", text("approvals.none"), text("approvals.what"), h("a", { href: "/automation" }, text("automation.title"))));
}
