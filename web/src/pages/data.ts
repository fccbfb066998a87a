// What the owner API answers, as the pages use it.

import { call } from "../portal/account.js";
import type { Selected } from "../adapter/adapter.js";

export interface Collection {
  collection: string;
  title: string;
  source: "inbox" | "storage" | "external";
  functions: string[];
  item_count?: number;
}

export interface Item {
  item: string;
  title: string;
  version: string;
  size: number;
  media_type: string;
  modified_ms: number;
  metadata?: Record<string, unknown>;
}

export interface Content {
  item: string;
  version: string;
  media_type: string;
  size: number;
  encoding: "utf-8" | "base64";
  content: string;
  truncated: boolean;
  metadata: Record<string, unknown>;
}

export interface Connection {
  connection_id: string;
  transport: "bearer" | "browser";
  provenance: string;
  state: string;
  client?: { id: string; name: string; redirect_host?: string; verified: boolean };
  selection: Selected[];
  scopes: string[];
  generation: number;
  current: boolean;
  created_ms: number;
  expires_ms: number;
  revoked_ms?: number;
  used_ms?: number;
}

/** The functions that a selection can name, in the catalog's order. */
export const selectable = ["items_list", "item_read", "item_write", "item_delete"] as const;

/** All collections of the account; at most 1,000, which is over its bound. */
export async function allCollections(signal: AbortSignal): Promise<Collection[]> {
  const out: Collection[] = [];
  let cursor = "";
  do {
    const page = await call<{ collections: Collection[]; next_cursor?: string }>("GET", `/api/collections?limit=100${cursor && "&cursor=" + encodeURIComponent(cursor)}`, undefined, { signal });
    out.push(...page.collections);
    cursor = page.next_cursor ?? "";
  } while (cursor !== "" && out.length < 1000);
  return out;
}

export function collectionPath(collection: string): string {
  return "/collections/" + encodeURIComponent(collection);
}

export function itemPath(collection: string, item: string): string {
  return `${collectionPath(collection)}/item?id=${encodeURIComponent(item)}`;
}

/** The API's address of one item: its id may hold slashes, so it is a parameter. */
export function itemAPI(collection: string, more: Record<string, string | number>): string {
  const query = new URLSearchParams(Object.entries(more).map(([k, v]) => [k, String(v)]));
  return `/api/collections/${encodeURIComponent(collection)}/item?${query}`;
}

/**
 * One thing that the person means to do. Pressed again unchanged it is the same
 * request, which the server does once; changed, it is another.
 */
export class Intent {
  private id = crypto.randomUUID();
  private meant: string | undefined;

  of(meant: string): string {
    if (this.meant !== undefined && this.meant !== meant) this.id = crypto.randomUUID();
    this.meant = meant;
    return this.id;
  }
}
