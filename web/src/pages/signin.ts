// Sign-in: one button. It leads to the provider with a full load, and back to
// where the person wanted to be.

import type { Why } from "../portal/account.js";
import { text } from "../text/text.js";
import { h } from "../ui/dom.js";
import { icon, mark } from "../ui/icons.js";

/** @param why what ended the session that was here, undefined for none */
export function signIn(why: Why | undefined): HTMLElement {
  const next = location.pathname + location.search;
  return h("main", { id: "main", class: "signin", tabindex: "-1" },
    h("div", { class: "signin-card" },
      h("div", { class: "brand-big" }, mark(44), h("h1", { tabindex: "-1" }, text("app.name"))),
      h("p", { class: "lead" }, text("signin.lead")),
      why === "expired" && h("p", { class: "notice", role: "status", "data-state": "expired" }, icon("clock", 16), text("signin.expired")),
      why === "signed-out" && h("p", { class: "notice", role: "status" }, icon("check", 16), text("signin.out")),
      h("a", { class: "button primary big", href: "/auth/login?next=" + encodeURIComponent(next), "data-load": true }, icon("key", 18), text("signin.go")),
      h("p", { class: "hint" }, text("signin.hint"))));
}
