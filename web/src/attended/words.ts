// What arming and its end are called, on both kinds of page.

import { clock, count, text, textOf, type Key } from "../text/text.js";
import type { State } from "./arm.js";
import type { Closed } from "./channel.js";

const states: Readonly<Record<State["is"], Key>> = {
  unknown: "arm.unknown", unavailable: "arm.unavailable", off: "arm.off", elsewhere: "arm.elsewhere", arming: "arm.arming", on: "arm.on", failed: "arm.failed",
};

export function stateWords(s: State): string {
  return text(states[s.is]);
}

/** Why a channel ended. */
export function closedWords(c: Closed): string {
  return textOf("closed", c.code === 1000 || c.code === 4403 ? c.reason : String(c.code), "closed.other");
}

/** How long it still is. */
export function leftWords(expires: number, now: number): string {
  return text("arm.left", { time: clock(Math.max(0, Math.ceil((expires - now) / 1000))) });
}

export function waitingWords(n: number): string {
  return n === 0 ? "" : count("arm.waiting", n);
}

export function callWords(state: string): string {
  return textOf("call", state, "call.other");
}
