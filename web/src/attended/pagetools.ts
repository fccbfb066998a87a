// Tools of the page itself: where the person is, what they have marked, and going to
// another page of this portal. None leaves the shell, and none tells what a secret
// that is shown once says.

import { go, leadsTo } from "../portal/router.js";
import { text } from "../text/text.js";
import { bound, canonical, failed, type Outcome } from "./bound.js";
import type { Tool } from "./channel.js";
import { schemaDigest, type Class } from "./digests.js";
import { size } from "./protocol.js";

interface Made {
  readonly id: string;
  readonly title: string;
  readonly class: Class;
  readonly input: object;
  readonly output: object;
  run(values: Readonly<Record<string, unknown>>): Outcome;
}

const anyText = { type: "string" };
const nothing = { type: "object", properties: {}, additionalProperties: false };

function closed(properties: Record<string, object>): object {
  return { type: "object", properties, required: Object.keys(properties), additionalProperties: false };
}

export function pageTools(): Promise<Tool[]> {
  const all: Made[] = [
    {
      id: "get-page-context", title: text("tool.context"), class: "read", input: nothing,
      output: closed({ path: anyText, title: anyText, language: anyText, visible: { type: "boolean" } }),
      run: () => bound({ path: location.pathname, title: cut(document.title, 300), language: document.documentElement.lang, visible: document.visibilityState === "visible" }),
    },
    {
      id: "get-selection", title: text("tool.selection"), class: "read", input: nothing,
      output: closed({ text: anyText, truncated: { type: "boolean" } }),
      run: () => selection(),
    },
    {
      id: "navigate", title: text("tool.navigate"), class: "local-ui-mutation",
      input: closed({ path: { type: "string", minLength: 1, maxLength: 1024, pattern: "^/" } }),
      output: closed({ path: anyText }),
      run: (values) => navigate(values["path"]),
    },
  ];
  return Promise.all(all.map(async ({ input, output, run, ...head }) => {
    const texts = { input: canonical(input) ?? "", output: canonical(output) ?? "" };
    return {
      ...head, ...texts, version: "1", schemas: await schemaDigest(texts.input, texts.output), roles: [], source: "chaperone:page",
      run: (args) => Promise.resolve(run(args.values)),
    } satisfies Tool;
  }));
}

/** The most of a text that stays within so many bytes of JSON. */
function cut(whole: string, most: number): string {
  let out = whole.toWellFormed();
  while (size(JSON.stringify(out)) > most) out = out.slice(0, Math.floor(out.length * 0.9)).toWellFormed();
  return out;
}

function selection(): Outcome {
  const marked = getSelection();
  const range = marked !== null && marked.rangeCount > 0 ? marked.getRangeAt(0) : undefined;
  const secret = [...document.querySelectorAll(".secret")].some((e) => range?.intersectsNode(e) === true);
  const whole = secret || marked === null ? "" : marked.toString();
  const most = cut(whole, 1300);
  return bound({ text: most, truncated: most !== whole });
}

function navigate(path: unknown): Outcome {
  if (typeof path !== "string" || !leadsTo(path)) return failed("arguments_invalid", false);
  go(path);
  return bound({ path: location.pathname });
}
