// The five account tools over the channel. They go the portal's own way, with the
// person's own selection; what a channel carries is small, so a read asks for as many
// rows or bytes as fit, and the server's next_cursor or truncated tells of the rest.

import { acknowledge, carryOut, dispatch, prepare, type Descriptor as Account } from "../adapter/dispatch.js";
import { held, type Arguments } from "../adapter/arguments.js";
import type { Period } from "../adapter/period.js";
import { drop, type Prepared } from "../adapter/review.js";
import { changes, facts } from "../adapter/shown.js";
import { codeOf, Refusal } from "../portal/request.js";
import { bound, canonical, failed, type Outcome } from "./bound.js";
import type { Tool } from "./channel.js";
import { schemaDigest } from "./digests.js";
import type { More, Ticket } from "./prompt.js";
import { maxResult, size } from "./protocol.js";

export interface AccountTool extends Tool, More {}

interface Receipt extends Ticket {
  readonly prepared: Prepared;
}

/** Makes a tool of the channel of one of the portal's. */
export async function accountTool(of: Account & { readonly output_schema?: unknown }, period: Period): Promise<AccountTool> {
  const input = canonical(of.input_schema);
  const output = canonical(of.output_schema ?? { type: "object" });
  if (input === undefined || output === undefined) throw new Refusal("bad_answer");
  const head = { id: of.name, title: of.title, version: "1", input, output, schemas: await schemaDigest(input, output), roles: [], source: "chaperone:portal" };
  if (of.effect === "read") return { ...head, class: "read", run: (args, stop) => read(of, args, period, stop) };
  return {
    ...head, class: "account-mutation",
    run: (args, stop, ticket) => mutate(args, period, stop, ticket),
    prepare: (args, stop) => receipt(of, args, period, stop),
  };
}

/** What the server prepared for this very call, as the dialog shows it. */
async function receipt(of: Account, args: Arguments, period: Period, stop: AbortSignal): Promise<Receipt> {
  const mine = AbortSignal.any([stop, period.signal]);
  const prepared = await prepare(args, period, mine);
  return {
    prepared, deadline: prepared.deadline, shown: [facts(of, args, prepared.shown), changes(prepared.shown)],
    acknowledge: (signal) => acknowledge(prepared, period, AbortSignal.any([signal, period.signal])),
    drop: () => drop(prepared.receipt),
  };
}

async function mutate(args: Arguments, period: Period, stop: AbortSignal, ticket: unknown): Promise<Outcome> {
  const { prepared } = ticket as Receipt;
  const mine = AbortSignal.any([stop, period.signal]);
  try {
    return bound(answer(await carryOut(args, prepared, period, mine)));
  } catch (error) {
    const code = codeOf(error);
    // Only a stop before the request left is sure to have begun nothing.
    return failed(code, !(code === "cancelled" || code === period.ended));
  }
}

/** A result without what only stands around it. */
function answer(result: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const { ok: _, isError: __, ...rest } = result;
  return rest;
}

const asks = 5; // times that a read is asked for less

async function read(of: Account, args: Arguments, period: Period, stop: AbortSignal): Promise<Outcome> {
  let now = first(of, args);
  for (let n = 0; n < asks; n++) {
    const got = await dispatch(of, period, now.values, stop);
    if (got["isError"] === true) {
      const code = String(got["code"]);
      return failed(code, !(code === "cancelled" || code === period.ended));
    }
    const result = answer(got);
    const outcome = bound(result);
    if (outcome.ok) return outcome;
    const less = narrower(of, now, result);
    if (less === undefined) return onlyRow(result);
    now = less;
  }
  return failed("result_invalid");
}

const content = 1000; // bytes of an item's content that are asked for first

function first(of: Account, args: Arguments): Arguments {
  const asked = args.values["max_bytes"];
  return of.name === "item_read" && (typeof asked !== "number" || asked > content) ? having(args, "max_bytes", content) : args;
}

function having(args: Arguments, name: string, value: number): Arguments {
  return held(args.tool, canonical({ ...args.values, [name]: value }) ?? args.text);
}

/** The same read for as much as should fit; undefined where there is no less. */
function narrower(of: Account, args: Arguments, result: Readonly<Record<string, unknown>>): Arguments | undefined {
  const whole = size(canonical(result) ?? "");
  if (of.name === "item_read") {
    const text = result["content"];
    if (typeof text !== "string" || text === "") return undefined;
    const room = maxResult - (whole - size(canonical(text) ?? ""));
    const most = Math.min(Number(args.values["max_bytes"] ?? content) - 1, Math.floor(size(text) * Math.max(0, room - 2) / size(canonical(text) ?? "")));
    return most >= 1 ? having(args, "max_bytes", most) : undefined;
  }
  const rows = result["items"] ?? result["collections"];
  if (!Array.isArray(rows) || rows.length < 2) return undefined;
  let room = maxResult - 200; // for a cursor, and what stands around the rows
  let fit = 0;
  while (fit < rows.length - 1 && (room -= size(canonical(rows[fit]) ?? "") + 1) >= 0) fit++;
  return having(args, "limit", Math.max(1, fit));
}

/** One row that is too large by itself goes without the metadata that it needn't have. */
function onlyRow(result: Readonly<Record<string, unknown>>): Outcome {
  const rows: unknown = result["items"];
  if (!Array.isArray(rows) || rows.length !== 1) return failed("result_invalid");
  const { metadata: _, ...row } = rows[0] as Record<string, unknown>;
  return bound({ ...result, items: [row] });
}
