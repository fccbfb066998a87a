// Item: its content as text with everything hidden made visible, or as a file to
// save. Nothing in it is ever a link, a picture, a page or an instruction here.

import { call } from "../portal/account.js";
import { Refusal } from "../portal/request.js";
import { go, type Place } from "../portal/router.js";
import { bytes, count, text } from "../text/text.js";
import { confirm, openDialog } from "../ui/dialog.js";
import { fill, h, uid, type Child } from "../ui/dom.js";
import { icon } from "../ui/icons.js";
import { countHidden, foreign, marked } from "../ui/marked.js";
import { badge, busy, button, field, heading, load, problem, section, toastProblem } from "../ui/parts.js";
import { toast } from "../ui/toast.js";
import { allCollections, collectionPath, type Collection, type Content, Intent, itemAPI, itemPath } from "./data.js";

const chunk = 65_536; // bytes that are read at once for a view
const bigChunk = 262_144; // and for a file

interface Loaded {
  it: Collection;
  content: Content;
}

export function item(place: Place): void {
  const id = place.params["collection"] ?? "";
  const name = place.query.get("id") ?? "";
  const show = (): void => void load(place.root, place.signal, async (): Promise<Loaded> => {
    const it = (await allCollections(place.signal)).find((c) => c.collection === id);
    if (it === undefined) throw new Refusal("unknown_collection");
    return { it, content: await read(it, name, 0, chunk, place.signal) };
  }, (loaded) => view(place, loaded, show));
  show();
}

function read(it: Collection, name: string, offset: number, most: number, signal?: AbortSignal): Promise<Content> {
  return call<Content>("GET", itemAPI(it.collection, { item: name, offset, max_bytes: most }), undefined, { signal });
}

function view(place: Place, { it, content }: Loaded, again: () => void): Child {
  place.title(content.item);
  const title = word(content.metadata["subject"]) ?? content.item;
  return [
    h("nav", { class: "crumbs", "aria-label": text("crumbs") }, h("a", { href: collectionPath(it.collection) }, icon("back", 16), foreign(it.title))),
    heading(foreign(title), actions(it, content, again), [h("code", null, marked(content.media_type)), " · ", bytes(content.size), " · ", text("item.version"), " ", h("code", null, marked(content.version))]),
    body(it, content, place.signal),
    Object.keys(content.metadata).length > 0 && section(text("item.metadata"), h("dl", { class: "facts" },
      Object.entries(content.metadata).map(([k, v]) => h("div", null, h("dt", null, marked(k)), h("dd", null, value(v)))))),
  ];
}

function word(v: unknown): string | undefined {
  return typeof v === "string" && v !== "" ? v : undefined;
}

function value(v: unknown): Child {
  if (typeof v === "boolean") return badge(text(v ? "item.yes" : "item.no"), v ? "good" : "plain");
  if (Array.isArray(v)) return v.map((one) => [badge(marked(String(one))), " "]);
  return h("code", { class: "code" }, marked(String(v), "exact"));
}

function actions(it: Collection, content: Content, again: () => void): Child {
  const may = (name: string): boolean => it.functions.includes(name);
  const out: Child[] = [];
  if (it.source === "inbox" && may("item_write")) {
    for (const name of ["seen", "flagged"] as const) out.push(toggle(it, content, name, again));
    if (typeof content.metadata["folder"] === "string") out.push(button(text("item.move"), () => move(it, content), { icon: "next" }));
  }
  if (it.source === "storage" && may("item_write") && content.encoding === "utf-8" && !content.truncated) out.push(button(text("item.edit"), () => edit(it, content, again), { icon: "edit" }));
  out.push(button(text("item.download"), () => download(it, content), { icon: "download" }));
  if (may("item_delete") && it.source === "storage") out.push(button(text("item.delete"), () => remove(it, content), { icon: "trash", class: "danger" }));
  return out;
}

function toggle(it: Collection, content: Content, name: "seen" | "flagged", again: () => void): Child {
  const on = content.metadata[name] === true;
  return button(text(on ? `item.clear.${name}` : `item.set.${name}`), () => setMark(it, content, name, !on, again), { icon: on ? "close" : "check" });
}

async function setMark(it: Collection, content: Content, name: "seen" | "flagged", on: boolean, again: () => void): Promise<void> {
  try {
    await put(it, content, { metadata: { [name]: on } });
    toast(text("item.marked"));
    again();
  } catch (error) {
    toastProblem(error);
  }
}

// Folders that a mailbox usually has; another can be typed, and one that isn't
// there is refused.
const folders = ["INBOX", "Archive", "Drafts", "Junk", "Sent", "Trash"];

async function move(it: Collection, content: Content): Promise<void> {
  const listID = uid("folders");
  const to = h("input", { type: "text", required: true, maxlength: 200, autocomplete: "off", list: listID, autofocus: true });
  const wrong = h("div");
  const send: HTMLButtonElement = h("button", { type: "submit", class: "primary" }, text("item.move"));
  const intent = new Intent();
  const act = async (): Promise<void> => {
    try {
      const moved = await put(it, content, { metadata: { folder: to.value } }, intent.of(to.value)) as { item?: unknown };
      dialog.close();
      toast(text("item.moved"));
      go(typeof moved.item === "string" ? itemPath(it.collection, moved.item) : collectionPath(it.collection), true);
    } catch (error) {
      fill(wrong, problem(error));
    }
  };
  const form = h("form", { on: { submit: (event) => { event.preventDefault(); void busy(send, act); } } },
    field(text("item.move.to"), to, [text("item.move.now"), " ", foreign(String(content.metadata["folder"]))]), h("datalist", { id: listID }, folders.map((f) => h("option", { value: f }))), wrong,
    h("div", { class: "actions" }, h("button", { type: "button", on: { click: () => dialog.close() } }, text("dialog.cancel")), send));
  const dialog = openDialog(text("item.move"), [form], "small");
  await dialog.closed;
}

function put(it: Collection, content: Content, more: Record<string, unknown>, request: string = crypto.randomUUID()): Promise<unknown> {
  return call("PUT", `/api/collections/${encodeURIComponent(it.collection)}/item`, { item: content.item, request_id: request, if_version: content.version, ...more });
}

function body(it: Collection, content: Content, signal: AbortSignal): Child {
  if (content.encoding === "base64") {
    return h("div", { class: "card binary" }, icon("file", 28), h("p", null, text("item.binary")), button(text("item.download"), () => download(it, content), { icon: "download", class: "primary" }));
  }
  const hidden = countHidden(content.content);
  const pre = h("pre", { class: "content item-content", tabindex: "0", role: "region", "aria-label": text("item.content") }, marked(content.content, "text"));
  return [
    hidden > 0 && h("p", { class: "notice warn" }, icon("warning", 16), count("item.hidden", hidden)),
    pre,
    content.truncated && rest(it, content, pre, signal),
  ];
}

/** The rest of a long text, a part at a time. */
function rest(it: Collection, content: Content, pre: HTMLElement, signal: AbortSignal): Child {
  let offset = new TextEncoder().encode(content.content).length;
  const more = button(text("item.more"), async () => {
    try {
      const next = await read(it, content.item, offset, chunk, signal);
      if (next.version !== content.version) throw new Refusal("version_conflict", false, { version: next.version });
      if (next.encoding !== "utf-8") return void more.remove();
      pre.append(marked(next.content, "text"));
      offset += new TextEncoder().encode(next.content).length;
      if (!next.truncated) more.remove();
    } catch (error) {
      toastProblem(error);
    }
  }, { class: "more" });
  return more;
}

/** Saves the whole item as a file, as bytes of no kind: the browser opens none of it. */
async function download(it: Collection, content: Content): Promise<void> {
  try {
    const parts: Uint8Array<ArrayBuffer>[] = [];
    for (let offset = 0, more = true; more; ) {
      const next = await read(it, content.item, offset, bigChunk);
      if (next.version !== content.version) throw new Refusal("version_conflict", false, { version: next.version });
      const data = next.encoding === "utf-8" ? new TextEncoder().encode(next.content) : unbase64(next.content);
      parts.push(data);
      offset += data.length;
      more = next.truncated && data.length > 0;
    }
    const address = URL.createObjectURL(new Blob(parts, { type: "application/octet-stream" }));
    h("a", { href: address, download: content.item.split("/").pop() ?? "item" }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
  } catch (error) {
    toastProblem(error);
  }
}

function unbase64(encoded: string): Uint8Array<ArrayBuffer> {
  const text = atob(encoded);
  const out = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) out[i] = text.charCodeAt(i);
  return out;
}

async function edit(it: Collection, content: Content, again: () => void): Promise<void> {
  const area = h("textarea", { rows: 16, spellcheck: "false", "aria-label": text("item.content"), autofocus: true });
  area.value = content.content;
  const wrong = h("div");
  const send: HTMLButtonElement = h("button", { type: "submit", class: "primary" }, text("collection.save"));
  const intent = new Intent();
  const act = async (): Promise<void> => {
    try {
      const kind = content.media_type === "" ? {} : { media_type: content.media_type };
      await put(it, content, { content: area.value, encoding: "utf-8", ...kind }, intent.of(area.value));
      dialog.close();
      toast(text("collection.saved"));
      again();
    } catch (error) {
      fill(wrong, problem(error));
    }
  };
  const form = h("form", { on: { submit: (event) => { event.preventDefault(); void busy(send, act); } } },
    area, h("p", { class: "hint" }, text("item.edit.hint")), wrong,
    h("div", { class: "actions" }, h("button", { type: "button", on: { click: () => dialog.close() } }, text("dialog.cancel")), send));
  const dialog = openDialog(text("item.edit"), [form], "wide");
  await dialog.closed;
}

async function remove(it: Collection, content: Content): Promise<void> {
  if (!(await confirm(text("item.delete.title"), [h("p", null, foreign(content.item)), h("p", null, text("item.delete.why"))], text("item.delete")))) return;
  try {
    await call("DELETE", `/api/collections/${encodeURIComponent(it.collection)}/item`, { item: content.item, request_id: crypto.randomUUID(), if_version: content.version });
    toast(text("item.deleted"));
    go(collectionPath(it.collection), true);
  } catch (error) {
    toastProblem(error);
  }
}

