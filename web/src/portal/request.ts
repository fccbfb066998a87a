// One request to the owner API and its bounded answer. It knows no session: the
// caller names the secrets to send.

/** A refusal of the server, or the lack of an answer, by its stable code. */
export class Refusal extends Error {
  constructor(
    readonly code: string,
    readonly retryable = false,
    readonly details: Readonly<Record<string, unknown>> = {},
  ) {
    super(code);
  }
}

/** The code of anything that was thrown. */
export function codeOf(error: unknown): string {
  return error instanceof Refusal ? error.code : "page_fault";
}

/** The largest answer that is read, in bytes: a tool's result and what stands around it. */
export const maxAnswer = 768 << 10;

export interface Asked {
  key: string; // X-Session-Key
  csrf?: string; // given for what changes something
  body?: string; // JSON text, sent byte for byte
  signal?: AbortSignal | undefined;
  most?: number; // bytes of the answer that are read, instead of maxAnswer
}

export interface Answer {
  value: Record<string, unknown>;
  date: number; // the server's clock, ms; whole seconds
}

/**
 * Sends one request. It fails with a Refusal alone: the server's own code;
 * "offline" or "unreachable" where nothing came back (whether the server acted is
 * then unknown); "cancelled" by the signal; "bad_answer" for what isn't the API's.
 */
export async function request(method: string, path: string, asked: Asked): Promise<Answer> {
  const headers: Record<string, string> = { "X-Session-Key": asked.key, Accept: "application/json" };
  if (asked.csrf !== undefined) headers["X-CSRF-Token"] = asked.csrf;
  if (asked.body !== undefined) headers["Content-Type"] = "application/json";
  let response: Response;
  let body: string;
  try {
    response = await fetch(path, {
      method, headers, body: asked.body ?? null, signal: asked.signal ?? null,
      credentials: "same-origin", cache: "no-store", redirect: "error", referrerPolicy: "no-referrer",
    });
    body = await limited(response, asked.most ?? maxAnswer);
  } catch (error) {
    if (error instanceof Refusal) throw error;
    if (asked.signal?.aborted === true) throw new Refusal("cancelled", true);
    throw new Refusal(navigator.onLine ? "unreachable" : "offline", true);
  }
  return judge(response, body);
}

async function limited(response: Response, most: number): Promise<string> {
  if (response.body === null) return "";
  const reader = response.body.getReader();
  const parts: Uint8Array<ArrayBuffer>[] = [];
  for (let size = 0; ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.byteLength;
    if (size > most) {
      await reader.cancel();
      throw new Refusal("bad_answer");
    }
    parts.push(value);
  }
  return new TextDecoder().decode(await new Blob(parts).arrayBuffer());
}

function judge(response: Response, body: string): Answer {
  const value = object(body);
  if (value["isError"] === true || !response.ok) throw refused(response.status, value);
  return { value, date: Date.parse(response.headers.get("Date") ?? "") || Date.now() };
}

function object(body: string): Record<string, unknown> {
  if (body === "") return {};
  try {
    const value: unknown = JSON.parse(body);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // falls through: it isn't the API's
  }
  return { isError: true, code: "bad_answer" };
}

/** Reads {isError, code, retryable, details}; what isn't of that form keeps only its status. */
function refused(status: number, value: Record<string, unknown>): Refusal {
  const { code, retryable, details } = value;
  if (typeof code !== "string" || !/^[A-Za-z][A-Za-z0-9_]{0,63}$/.test(code)) {
    return new Refusal(status === 401 ? "session_expired" : "bad_answer");
  }
  const told = typeof details === "object" && details !== null && !Array.isArray(details);
  return new Refusal(code, retryable === true, told ? (details as Record<string, unknown>) : {});
}
