// Reads a live view: server-sent events over fetch, since the browser's own reader
// can't send the session's second secret.

import { stream } from "../portal/account.js";

export interface Frame {
  picture: Blob;
  url: string;
}

const most = 4 << 20; // characters of one event

/** Calls back with each picture, until the stream ends or the signal aborts. */
export async function watchLive(path: string, signal: AbortSignal, show: (frame: Frame) => void): Promise<void> {
  const reader = (await stream(path, signal)).pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done || signal.aborted) return;
    rest += value;
    for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
      const frame = read(rest.slice(0, end));
      if (frame !== undefined) show(frame);
      rest = rest.slice(end + 2);
    }
    if (rest.length > most) return void reader.cancel();
  }
}

/** Reads one event; anything but a frame is none. */
function read(event: string): Frame | undefined {
  const lines = event.split("\n");
  if (!lines.includes("event: frame")) return undefined;
  const data = lines.filter((l) => l.startsWith("data:")).map((l) => l.slice(5).trimStart()).join("\n");
  try {
    const { jpeg, url } = JSON.parse(data) as { jpeg?: unknown; url?: unknown };
    if (typeof jpeg !== "string" || typeof url !== "string") return undefined;
    return { picture: new Blob([Uint8Array.from(atob(jpeg), (c) => c.charCodeAt(0))], { type: "image/jpeg" }), url };
  } catch {
    return undefined;
  }
}
