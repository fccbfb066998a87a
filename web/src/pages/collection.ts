// Collection: its items, found by words or by the start of their id, page by page;
// and new items, written here or taken from a file.

import { call } from "../portal/account.js";
import { Refusal } from "../portal/request.js";
import { go, type Place } from "../portal/router.js";
import { ago, bytes, moment, text, textOf } from "../text/text.js";
import { openDialog } from "../ui/dialog.js";
import { fill, h, type Child } from "../ui/dom.js";
import { icon } from "../ui/icons.js";
import { foreign, marked } from "../ui/marked.js";
import { badge, busy, button, empty, field, heading, load, problem, table, toastProblem } from "../ui/parts.js";
import { toast } from "../ui/toast.js";
import { allCollections, collectionPath, type Collection, Intent, type Item, itemPath } from "./data.js";

interface Found {
  items: Item[];
  next_cursor?: string;
}

export function collection(place: Place): void {
  const id = place.params["collection"] ?? "";
  void load(place.root, place.signal, async () => {
    const all = await allCollections(place.signal);
    const it = all.find((c) => c.collection === id);
    if (it === undefined) throw new Refusal("unknown_collection");
    return it;
  }, (it) => view(place, it));
}

function view(place: Place, it: Collection): Child {
  place.title(it.title);
  const list = h("div");
  const words = place.query.get("q") ?? "";
  const writes = it.source === "storage" && it.functions.includes("item_write");
  const input = h("input", { type: "search", name: "q", value: words, maxlength: 256, autocomplete: "off", placeholder: text("collection.search"), "aria-label": text("collection.search") });
  const search = h("form", { class: "search", role: "search", on: { submit: (event) => { event.preventDefault(); find(it, input.value); } } },
    icon("search", 16), input, h("button", { type: "submit" }, text("collection.find")));
  void load(list, place.signal, () => page(place, it, words, ""), (found) => items(place, it, words, found));
  return [
    h("nav", { class: "crumbs", "aria-label": text("crumbs") }, h("a", { href: "/" }, icon("back", 16), text("home.title"))),
    heading(foreign(it.title), writes && [
      button(text("collection.upload"), () => upload(it), { icon: "upload" }),
      button(text("collection.new"), () => writeNew(it), { icon: "plus", class: "primary" }),
    ], [textOf("source", it.source, "source.external"), " · ", h("code", null, it.collection)]),
    search, list,
  ];
}

function find(it: Collection, words: string): void {
  const query = words.trim() === "" ? "" : "?q=" + encodeURIComponent(words.trim());
  go(collectionPath(it.collection) + query);
}

function page(place: Place, it: Collection, words: string, cursor: string): Promise<Found> {
  const query = new URLSearchParams({ limit: "50" });
  if (words !== "") query.set("query", words);
  if (cursor !== "") query.set("cursor", cursor);
  return call<Found>("GET", `/api/collections/${encodeURIComponent(it.collection)}/items?${query}`, undefined, { signal: place.signal });
}

function items(place: Place, it: Collection, words: string, found: Found): Child {
  if (found.items.length === 0) return nothing(it, words);
  const head = [text("collection.item"), text("collection.kind"), text("collection.size"), text("collection.modified")];
  const shown = table(text("collection.caption"), head, found.items.map((i) => row(it, i)));
  let cursor = found.next_cursor;
  if (cursor === undefined) return shown;
  const more = button(text("list.more"), async () => {
    try {
      const next = await page(place, it, words, cursor ?? "");
      const added = table("", head, next.items.map((i) => row(it, i))).querySelectorAll("tbody tr");
      shown.querySelector("tbody")?.append(...added);
      cursor = next.next_cursor;
      if (cursor === undefined) more.remove();
    } catch (error) {
      toastProblem(error);
    }
  }, { class: "more" });
  return [shown, more];
}

function row(it: Collection, i: Item): Child[] {
  const title = i.title === "" ? i.item : i.title;
  const unseen = it.source === "inbox" && i.metadata?.["seen"] === false;
  return [
    [h("a", { class: unseen ? "strong" : undefined, href: itemPath(it.collection, i.item) }, foreign(title)), unseen && [" ", badge(text("item.unseen"), "accent")],
      title !== i.item && it.source !== "inbox" && h("span", { class: "sub" }, foreign(i.item))],
    h("code", null, marked(i.media_type)),
    bytes(i.size),
    h("time", { datetime: new Date(i.modified_ms).toISOString(), title: moment(i.modified_ms) }, ago(i.modified_ms)),
  ];
}

function nothing(it: Collection, words: string): Child {
  if (words !== "") return empty("search", text("collection.none.title"), text("collection.none.next"), h("a", { href: collectionPath(it.collection) }, text("collection.all")));
  if (it.source === "inbox") return empty("inbox", text("collection.empty.inbox"), text("collection.empty.inbox.next"));
  if (it.source === "storage") return empty("file", text("collection.empty.storage"), text("collection.empty.storage.next"));
  return empty("external", text("collection.empty.external"), text("collection.empty.external.next"));
}

/** A new item from text. */
async function writeNew(it: Collection): Promise<void> {
  const name = h("input", { type: "text", required: true, maxlength: 512, autocomplete: "off", autofocus: true });
  const content = h("textarea", { rows: 10, spellcheck: "false" });
  const wrong = h("div");
  const send: HTMLButtonElement = h("button", { type: "submit", class: "primary" }, text("collection.save"));
  const form = h("form", { on: { submit: (event) => { event.preventDefault(); void busy(send, act); } } },
    field(text("collection.name"), name, text("collection.name.hint")), field(text("collection.content"), content), wrong,
    h("div", { class: "actions" }, h("button", { type: "button", on: { click: () => dialog.close() } }, text("dialog.cancel")), send));
  const dialog = openDialog(text("collection.new"), [form], "wide");
  const intent = new Intent();
  const act = async (): Promise<void> => {
    try {
      await put(it, { item: name.value, request_id: intent.of(name.value + "\n" + content.value), content: content.value, encoding: "utf-8", media_type: "text/plain", if_absent: true });
      dialog.close();
      toast(text("collection.saved"));
      go(itemPath(it.collection, name.value));
    } catch (error) {
      fill(wrong, problem(error));
    }
  };
  await dialog.closed;
}

function put(it: Collection, body: Record<string, unknown>): Promise<unknown> {
  return call("PUT", `/api/collections/${encodeURIComponent(it.collection)}/item`, body);
}

const mostBytes = 1 << 20; // item_write's bound

/** A new item from a file. It never replaces one: a name that is taken is told. */
async function upload(it: Collection): Promise<void> {
  const input = h("input", { type: "file", class: "visually-hidden", "aria-label": text("collection.upload") });
  const file = await new Promise<File | undefined>((resolve) => {
    input.addEventListener("change", () => resolve(input.files?.[0]));
    input.addEventListener("cancel", () => resolve(undefined));
    input.click();
  });
  if (file === undefined) return;
  try {
    if (file.size > mostBytes) throw new Refusal("too_large", false, { limit: mostBytes });
    const kind = /^[a-z0-9][a-z0-9!#$&^_.+-]*\/[a-z0-9][a-z0-9!#$&^_.+-]*$/.test(file.type) ? file.type : "application/octet-stream";
    await put(it, { item: file.name, request_id: crypto.randomUUID(), content: base64(await file.arrayBuffer()), encoding: "base64", media_type: kind, if_absent: true });
    toast(text("collection.uploaded"));
    go(itemPath(it.collection, file.name));
  } catch (error) {
    toastProblem(error);
  }
}

function base64(data: ArrayBuffer): string {
  let text = "";
  const all = new Uint8Array(data);
  for (let at = 0; at < all.length; at += 0x8000) text += String.fromCharCode(...all.subarray(at, at + 0x8000));
  return btoa(text);
}
