// What the server's own record tells of agents' calls: the person's alone.

import { call } from "../portal/account.js";

export interface Agent {
  agent_ref: string;
  name?: string;
}

export interface Control {
  available: boolean;
  documents: { document_ref: string; arm_expires_ms: number; tools: { tool_id: string }[] }[];
  leases: { lease_id: string; document_ref: string; tool_ids: string[]; agent?: Agent; issued_ms: number; expires_at_ms: number }[];
  calls: {
    call_id: string; lease_id: string; tool_id: string; agent?: Agent; state: string; effect: string; error_code?: string;
    confirmation_level?: string; admitted_ms: number;
  }[];
  attention: { asked: number; budget: number; window_ms: number; confirmed: number; denied: number; lapsed: number; dwell_ms: number };
}

export function readControl(signal: AbortSignal): Promise<Control> {
  return call<Control>("GET", "/api/control", undefined, { signal });
}

/** Who asked for a call and when its lease ends, where the server tells it in time. */
export interface Known {
  readonly agent?: Agent | "self";
  readonly leaseEnds?: number;
}

const patience = 2000; // ms

export async function known(id: string, lease: string, stop: AbortSignal): Promise<Known> {
  try {
    const got = await readControl(AbortSignal.any([stop, AbortSignal.timeout(patience)]));
    const mine = got.calls.find((c) => c.call_id === id);
    const of = got.leases.find((l) => l.lease_id === lease);
    return {
      ...(mine === undefined ? {} : { agent: mine.agent ?? "self" }),
      ...(of === undefined ? {} : { leaseEnds: of.expires_at_ms }),
    };
  } catch {
    return {}; // the dialog says that it isn't told
  }
}
