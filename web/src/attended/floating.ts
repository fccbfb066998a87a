// The small panel on a page that isn't ours: arm, how it stands, what is called, and
// the way out. It lives in a shadow tree of its own, so that neither the page's styles
// nor its scripts' selectors meet it by chance. The page itself is trusted with its
// users' arms: nothing here can hold against its own scripts.

import { session } from "../portal/account.js";
import { codeOf, Refusal } from "../portal/request.js";
import { count, text } from "../text/text.js";
import { fill, h, type Child } from "../ui/dom.js";
import { icon, mark } from "../ui/icons.js";
import { foreign, marked, plain } from "../ui/marked.js";
import { explain } from "../ui/parts.js";
import type { Arm } from "./arm.js";
import type { Shown } from "./channel.js";
import { look } from "./look.js";
import { callWords, closedWords, leftWords, stateWords, waitingWords } from "./words.js";

export interface Around {
  /** Names of tools that can't be offered. */
  dropped(): readonly string[];
  /** Where its confirmations are asked, "" for nowhere. */
  authority(): string;
  /** Whether the browser has tools at all. */
  readonly supported: boolean;
}

export class Floating {
  private readonly body = h("div", { class: "body", id: "body", hidden: true });
  private readonly face = h("button", { type: "button", class: "face", "aria-expanded": "false", "aria-controls": "body", on: { click: () => this.toggle() } });
  private readonly said = h("p", { class: "hidden", role: "status" });
  private wrong: Child = null;
  private shown = "";

  constructor(
    private readonly arm: Arm,
    private readonly around: Around,
  ) {
    const host = document.createElement("div");
    host.dataset["chaperone"] = "attended";
    const root = host.attachShadow({ mode: "open" });
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(look);
    root.adoptedStyleSheets = [sheet];
    const box = h("section", { class: "box", "aria-label": text("page.title") }, this.body, this.face, this.said);
    box.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || this.body.hidden) return;
      this.toggle();
      this.face.focus();
    });
    root.append(box);
    document.body.append(host);
    arm.watch(() => this.show());
    setInterval(() => this.tick(), 1000);
    this.show();
  }

  /** Which language the panel speaks, beside the page's own. */
  language(tag: string): void {
    this.face.closest("section")?.setAttribute("lang", tag);
  }

  private toggle(): void {
    this.body.hidden = !this.body.hidden;
    this.face.setAttribute("aria-expanded", String(!this.body.hidden));
  }

  /** Shows how things stand. */
  show(): void {
    const words = this.state();
    fill(this.face, mark(22), h("span", { class: "words" }, words));
    this.face.setAttribute("aria-label", text("page.open", { state: words }));
    this.face.dataset["arm"] = this.arm.state.is;
    if (this.shown !== "" && this.shown !== words) this.said.textContent = words;
    this.shown = words;
    const at = (this.body.getRootNode() as ShadowRoot).activeElement;
    const inside = at !== null && this.body.contains(at);
    fill(this.body, h("h2", null, text("page.title")), this.detail(), this.wrong, this.acts(), this.calls());
    if (inside) (this.body.querySelector<HTMLElement>("button, a") ?? this.face).focus();
    this.tick();
  }

  private tick(): void {
    const { state } = this.arm;
    const left = this.body.querySelector(".left");
    if (left !== null && state.is === "on") left.textContent = leftWords(state.expires, this.arm.clock());
  }

  private state(): string {
    if (!this.around.supported) return text("state.unsupported");
    return session() === undefined ? text("signin.go") : stateWords(this.arm.state);
  }

  private detail(): Child {
    if (!this.around.supported) return h("p", null, text("state.unsupported"));
    if (session() === undefined) return h("p", null, text("page.signin"));
    const { state, tools } = this.arm;
    const names = h("p", null, tools.length === 0 ? text("page.none") : [count("page.tools", tools.length), ": ", tools.map((t, i) => [i > 0 && ", ", h("code", null, marked(t.id))])]);
    const dropped = this.around.dropped();
    const left = dropped.length > 0 && h("p", { class: "hint" }, count("page.dropped", dropped.length, { names: dropped.map(plain).join(", ") }));
    switch (state.is) {
      case "on":
        return [h("p", { class: "left" }), names, left, h("p", null, waitingWords(this.arm.waiting())), this.around.authority() === "" && h("p", { class: "hint" }, text("page.no_confirm"))];
      case "off":
        return [state.why !== undefined && h("p", null, closedWords(state.why)), names, left, h("p", { class: "hint" }, text("page.how"))];
      case "elsewhere":
        return h("p", null, text("arm.elsewhere.what"));
      case "failed":
      case "unavailable": {
        const { what, fix } = explain(new Refusal(state.code));
        return [h("p", { role: "alert" }, what, " ", fix, " ", h("code", null, marked(state.code)))];
      }
      default:
        return h("p", null, text("arm.unknown"));
    }
  }

  private acts(): Child {
    if (!this.around.supported) return null;
    if (session() === undefined) return h("div", { class: "acts" }, h("a", { class: "primary", href: "/auth/login?next=" + encodeURIComponent(location.pathname + location.search) }, icon("key", 16), text("signin.go")));
    const { state } = this.arm;
    const act = (words: string, kind: string, run: () => Promise<void>): HTMLElement =>
      h("div", { class: "acts" }, h("button", { type: "button", class: kind, on: { click: (event) => event.isTrusted && void this.run(run) } }, words));
    switch (state.is) {
      case "off":
      case "failed":
        return this.arm.tools.length > 0 && act(text(state.is === "off" ? "page.arm" : "arm.again"), "primary", () => this.arm.begin());
      case "on":
        return act(text("arm.disarm"), "danger", () => this.arm.disarm());
      case "elsewhere":
        return act(text("arm.end"), "danger", () => this.arm.disarm());
      case "unavailable":
        return act(text("problem.again"), "", () => this.arm.look());
      default:
        return null;
    }
  }

  private async run(act: () => Promise<void>): Promise<void> {
    this.wrong = null;
    try {
      await act();
    } catch (error) {
      if (codeOf(error) === "no_arm") return; // it was over already
      const { what, fix } = explain(error);
      this.wrong = h("p", { class: "wrong", role: "alert" }, what, " ", fix);
    }
    this.show();
  }

  private calls(): Child {
    const calls = this.arm.calls().slice(0, 8);
    return calls.length > 0 && h("ul", null, calls.map((c) => h("li", { "data-call": c.state }, foreign(c.tool), " ", h("span", { class: "hint" }, callWords(c.state), c.code !== undefined && [" ", marked(c.code)]), this.ask(c))));
  }

  /** The way to the authority's own page, for what waits there. */
  private ask(c: Shown): Child {
    const at = this.around.authority();
    if (c.state !== "asked" || c.elsewhere !== true || at === "") return null;
    const { host } = new URL(at);
    return h("button", {
      type: "button", class: "primary", "aria-label": text("page.confirm.describe", { tool: plain(c.tool), host }),
      on: { click: () => void open(`${at}/confirm/${encodeURIComponent(c.call)}`, "_blank", "noopener") },
    }, icon("external", 14), text("page.confirm", { host }));
  }
}
