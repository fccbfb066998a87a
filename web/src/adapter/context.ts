// Finds what the browser itself offers to register tools with. Where it offers
// nothing there is nothing: no stand-in is ever installed, since it would promise
// what the browser doesn't do.

export interface Annotations {
  readonly readOnlyHint?: boolean;
  readonly consequentialHint?: boolean;
  readonly untrustedContentHint?: boolean;
}

export interface Registration {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly inputSchema: object;
  readonly annotations: Annotations;
  execute(input: unknown, options?: { signal?: AbortSignal }): Promise<object>;
}

/** The browser's own registry, current or older. */
export interface Registry {
  readonly kind: "native" | "legacy";
  /** Registers one tool; it fails with the browser's own error. */
  add(tool: Registration, signal: AbortSignal): Promise<void>;
  /** Removes one of our own tools, by name, where aborting the signal doesn't. */
  remove(name: string): void;
}

interface Native {
  registerTool(tool: Registration, options: { signal: AbortSignal }): Promise<void>;
}

interface Legacy {
  registerTool(tool: Registration): unknown;
  unregisterTool(name: string): unknown;
}

/** Answers the registry of this document, undefined where the browser has none. */
export function findRegistry(): Registry | undefined {
  const native = (document as { modelContext?: unknown }).modelContext;
  if (offers(native, "registerTool")) return current(native as Native);
  const legacy = (navigator as { modelContext?: unknown }).modelContext;
  if (offers(legacy, "registerTool") && offers(legacy, "unregisterTool")) return older(legacy as Legacy);
  return undefined;
}

function offers(it: unknown, name: string): boolean {
  return typeof it === "object" && it !== null && typeof (it as Record<string, unknown>)[name] === "function";
}

/** document.modelContext: a promise for each tool, one signal for all. exposedTo is never passed. */
function current(context: Native): Registry {
  return {
    kind: "native",
    add: async (tool, signal) => {
      await context.registerTool(tool, { signal });
    },
    remove: () => undefined, // the signal has removed it
  };
}

/** navigator.modelContext of older builds: no signal, and removal by name. */
function older(context: Legacy): Registry {
  return {
    kind: "legacy",
    add: async (tool, signal) => {
      signal.throwIfAborted();
      await context.registerTool(tool);
      if (signal.aborted) {
        context.unregisterTool(tool.name);
        signal.throwIfAborted();
      }
    },
    remove: (name) => {
      context.unregisterTool(name);
    },
  };
}
