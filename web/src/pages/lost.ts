// What is shown for an address that leads nowhere. It may have been loaded by
// itself, without the portal's policy, so its way out is a full load.

import type { Place } from "../portal/router.js";
import { text } from "../text/text.js";
import { h } from "../ui/dom.js";
import { empty, heading } from "../ui/parts.js";

export function lost(place: Place): void {
  place.root.append(heading(text("lost.title")), empty("search", text("lost.what"), text("lost.next"), h("a", { class: "button primary", href: "/", "data-load": true }, text("lost.home"))));
}
