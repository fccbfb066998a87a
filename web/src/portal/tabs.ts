// Tells the other tabs of this browser what they must not miss, and hears it from
// them. Storage events are a second road for a changed session key.

export type Told = "session" | "signed-out" | "selection" | "armed" | "disarmed";

const channel = new BroadcastChannel("chaperone");

export function tell(what: Told): void {
  channel.postMessage({ kind: what });
}

export function hear(listener: (what: Told) => void): void {
  channel.addEventListener("message", (event: MessageEvent<unknown>) => {
    const kind = (event.data as { kind?: unknown } | null)?.kind;
    if (kind === "session" || kind === "signed-out" || kind === "selection" || kind === "armed" || kind === "disarmed") listener(kind);
  });
  window.addEventListener("storage", (event) => {
    if (event.key === "chaperone.key" || event.key === null) listener("session");
  });
}
