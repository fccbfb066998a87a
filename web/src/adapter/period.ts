// One enabled period of the browser surface in this document. Everything that a
// tool's callback does happens under the period it was registered in; once that
// has ended, for whatever reason, a callback that somebody kept does nothing, a
// call under way is stopped, and an answer that still comes is dropped.

import { Refusal } from "../portal/request.js";

export class Period {
  private readonly ending = new AbortController();
  private why: string | undefined;

  /** Aborts when the period ends. */
  get signal(): AbortSignal {
    return this.ending.signal;
  }

  /** Ends it, once; the first reason stays: disabled, session_expired, offline, grant_revoked. */
  end(why: string): void {
    if (this.why !== undefined) return;
    this.why = why;
    this.ending.abort();
  }

  /** Throws the reason where the period has ended. */
  check(): void {
    if (this.why !== undefined) throw new Refusal(this.why, this.why === "offline");
  }

  get ended(): string | undefined {
    return this.why;
  }
}
