// The tools that a page which isn't ours has registered with its browser, as tools of
// a channel. Their names and schemas are the page's own words, and so is what they
// answer: every one changes an account unless the operator's file says that it reads.
//
// A tool that can't be told exactly (its schema holds a float, its name isn't an id or
// is another's but for its case, it is too large, its schema hides text) is left out, and the panel says which.

import { failed, bound, canonical, type Outcome } from "./bound.js";
import type { Tool } from "./channel.js";
import { fold, schemaDigest } from "./digests.js";
import { isID, maxTools, size } from "./protocol.js";

interface Listed {
  readonly name: string;
  readonly title?: string;
  readonly inputSchema?: unknown;
  readonly window: unknown;
}

interface Context extends EventTarget {
  getTools(): Promise<Listed[]>;
  executeTool(tool: Listed, input: object, options: { signal: AbortSignal }): Promise<string>;
}

const maxSchema = 16_384; // canonical bytes
const maxCatalog = 56_000; // of what is left of a frame
const anything = "{}"; // the browser knows no output schema

/** The browser's own registry, undefined where it has none that can be asked. */
export function context(): Context | undefined {
  const it = (document as { modelContext?: unknown }).modelContext;
  const has = (name: string): boolean => typeof (it as Record<string, unknown>)[name] === "function";
  return typeof it === "object" && it !== null && has("getTools") && has("executeTool") ? (it as Context) : undefined;
}

async function own(from: Context): Promise<Listed[]> {
  return (await from.getTools()).filter((t) => t.window === window); // never a frame's
}

/** Waits until the page has registered its tools, as far as anybody can tell. */
export async function settled(from: Context): Promise<void> {
  if (document.readyState !== "complete") await new Promise((done) => addEventListener("load", done, { once: true }));
  const end = performance.now() + 8000;
  for (let last = ""; performance.now() < end; ) {
    const now = (await own(from)).map((t) => t.name).join(" ");
    if (now !== "" && now === last) return;
    last = now;
    await new Promise((done) => setTimeout(done, 400));
  }
}

export interface Offered {
  readonly tools: readonly Tool[];
  readonly dropped: readonly string[]; // names
}

/** @param reads the tools that only read, by the operator's word */
export async function foreignTools(from: Context, reads: readonly unknown[]): Promise<Offered> {
  const tools: Tool[] = [];
  const dropped: string[] = [];
  const all = await own(from);
  const alike = (name: string): boolean => all.some((t) => t.name !== name && fold(t.name) === fold(name));
  let whole = 0;
  for (const listed of all) {
    const input = schemaOf(listed);
    whole += size(input ?? "") + 600;
    if (input === undefined || size(input) > maxSchema || !isID(listed.name) || hides(input) || alike(listed.name) || tools.length >= maxTools || whole > maxCatalog) {
      dropped.push(listed.name);
      continue;
    }
    const schemas = await schemaDigest(input, anything);
    tools.push({
      id: listed.name, title: listed.title || listed.name, version: "1", input, output: anything, schemas, roles: [], source: "webmcp",
      class: reads.includes(listed.name) ? "read" : "account-mutation",
      run: (args, stop) => run(from, listed.name, schemas, args.values, stop),
    });
  }
  return { tools, dropped };
}

// The server's rule (controlv1, section 2), at its widest: a catalog with such a schema
// is refused whole, so a tool that it might be refused for isn't offered.
const deceives = /[\u061c\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]/u;
const tags = /[\u{e0000}-\u{e0fff}]/u;

function hides(schema: string): boolean {
  const names = (v: unknown, shown: boolean): boolean => {
    if (typeof v === "string") return tags.test(v) || (shown && deceives.test(v));
    if (typeof v !== "object" || v === null) return false;
    if (Array.isArray(v)) return v.some((x) => names(x, shown));
    return Object.entries(v).some(([k, x]) => names(k, true) || names(x, shown || k === "title" || k === "enum" || k === "const"));
  };
  return names(JSON.parse(schema), false);
}

function schemaOf(of: Listed): string | undefined {
  const text = canonical(of.inputSchema ?? { type: "object" });
  return text?.startsWith("{") === true ? text : undefined;
}

/** A handle is a name and a window: what stands under the name now must be what was armed. */
async function run(from: Context, name: string, schemas: string, values: Readonly<Record<string, unknown>>, stop: AbortSignal): Promise<Outcome> {
  const now = (await own(from)).find((t) => t.name === name);
  const input = now === undefined ? undefined : schemaOf(now);
  if (now === undefined || input === undefined || (await schemaDigest(input, anything)) !== schemas) return failed("stale_generation", false);
  if (stop.aborted) return failed("not_started", false);
  try {
    return read(await from.executeTool(now, values, { signal: stop }));
  } catch {
    return failed("browser_execution_failed"); // it goes on where it was stopped, and nobody hears its end
  }
}

/** The browser makes text of whatever a tool answers; this is its meaning again. */
function read(text: unknown): Outcome {
  if (typeof text !== "string" || text === "undefined") return bound(null);
  let value: unknown = text;
  try {
    value = JSON.parse(text);
  } catch {
    // it was text to begin with
  }
  if (typeof value === "object" && value !== null && (value as { isError?: unknown }).isError === true) {
    const { code } = value as { code?: unknown };
    return failed(typeof code === "string" ? code : "browser_execution_failed");
  }
  return bound(value);
}
