// Outline: the page as lines `role "name" [ref=e12]`, made from the flat tree.
// What has no role of its own is left out and its children stand in its place;
// the text around them becomes the line of the element that holds it.

const maxName = 120, maxText = 240;

const spoof = /[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e0fff}]/gu;
const control = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\ud800-\udfff]/gu;

// clean makes one line of a page's text: white space collapsed, direction
// controls and tag characters dropped, other controls written as \u{7}.
function clean(text, limit) {
  let s = text.length > limit * 8 ? text.slice(0, limit * 8) : text;
  const odd = /[^ -~]/.test(s);
  if (odd) s = s.replace(spoof, "");
  s = s.replace(/\s+/g, " ").trim();
  if (odd) s = s.replace(control, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
  if (s.length <= limit && s.length === text.length) return s;
  const points = s.length > limit ? [...s.slice(0, limit * 2)] : null;
  return points && points.length > limit ? points.slice(0, limit).join("") + "…" : s;
}

const quoted = (s) => `"${/["\\]/.test(s) ? s.replace(/["\\]/g, "\\$&") : s}"`;

const inputRoles = {
  button: "button", submit: "button", reset: "button", image: "button", file: "button", checkbox: "checkbox", radio: "radio",
  range: "slider", number: "spinbutton", search: "searchbox", color: "button", hidden: "",
};
const tagRoles = {
  button: "button", textarea: "textbox", summary: "button", option: "option", progress: "progressbar", meter: "meter",
  output: "status", h1: "heading", h2: "heading", h3: "heading", h4: "heading", h5: "heading", h6: "heading",
  ul: "list", ol: "list", menu: "list", li: "listitem", nav: "navigation", main: "main", aside: "complementary",
  article: "article", search: "search", dialog: "dialog", details: "group", fieldset: "group", table: "table", tr: "row",
  td: "cell", th: "columnheader", iframe: "iframe", frame: "iframe", figure: "figure", svg: "img", hr: "separator",
  video: "video", audio: "audio", canvas: "canvas", dt: "term", dd: "definition", blockquote: "blockquote",
};
const interactiveRoles = new Set([
  "button", "link", "checkbox", "radio", "textbox", "searchbox", "combobox", "listbox", "slider", "spinbutton", "switch", "tab",
  "menuitem", "menuitemcheckbox", "menuitemradio", "option", "treeitem", "clickable", "scrollbar", "gridcell",
]);
// Roles whose content is their name: their children are looked at only for
// what can be acted on.
const named = new Set([
  "button", "link", "heading", "tab", "menuitem", "menuitemcheckbox", "menuitemradio", "option", "switch", "checkbox", "radio",
  "tooltip", "treeitem", "clickable",
]);
const skipped = new Set(["script", "style", "noscript", "template", "head", "meta", "link", "title", "base", "param", "source", "track", "br", "wbr", "datalist"]);
const inline = new Set(["a", "abbr", "b", "bdi", "bdo", "cite", "code", "data", "dfn", "em", "font", "i", "kbd", "label", "mark", "q", "s", "samp", "slot", "small", "span", "strong", "sub", "sup", "time", "u", "var"]);

function roleOf(el, tag) {
  const asked = getAttribute(el, "role");
  if (asked) {
    const role = asked.trim().split(/\s+/)[0].toLowerCase();
    if (role === "none" || role === "presentation") return hasAttribute(el, "tabindex") ? native(el, tag) : "";
    if (/^[a-z]{2,24}$/.test(role) && role !== "generic") return role === "image" ? "img" : role === "text" ? "" : role;
  }
  return native(el, tag);
}

function native(el, tag) {
  switch (tag) {
    case "a": case "area": return hasAttribute(el, "href") ? "link" : "";
    case "input": return inputRoles[el.type] ?? (hasAttribute(el, "list") ? "combobox" : "textbox");
    case "select": return el.multiple || el.size > 1 ? "listbox" : "combobox";
    case "img": return getAttribute(el, "alt") === "" ? "" : "img";
    case "header": return closest(el, "article,aside,main,nav,section") ? "" : "banner";
    case "footer": return closest(el, "article,aside,main,nav,section") ? "" : "contentinfo";
    case "section": return hasAttribute(el, "aria-label") || hasAttribute(el, "aria-labelledby") ? "region" : "";
    case "form": return hasAttribute(el, "aria-label") || hasAttribute(el, "aria-labelledby") || hasAttribute(el, "name") ? "form" : "";
    case "th": return getAttribute(el, "scope") === "row" ? "rowheader" : "columnheader";
  }
  return tagRoles[tag] ?? "";
}

function* children(el) {
  const shadow = shadowRoot(el);
  if (!shadow && localName(el) === "slot") {
    const assigned = slotted(el);
    if (assigned.length) return yield* assigned;
  }
  for (let n = firstChild(shadow ?? el); n; n = nextSibling(n)) yield n;
}

function slotted(el) {
  try {
    return assignedNodes(el);
  } catch {
    return []; // an element named slot in another namespace
  }
}

// Names, by the essentials of the accessible name computation.
function nameOf(el, tag, role) {
  const by = getAttribute(el, "aria-labelledby");
  if (by) {
    const root = getRootNode(el);
    const parts = by.split(/\s+/).slice(0, 8).map((id) => id && byID[nodeType(root)]?.(root, id)).filter(Boolean);
    const joined = parts.map((p) => getAttribute(p, "aria-label") ?? contentOf(p, maxName * 2, true)).join(" ").trim();
    if (joined) return joined;
  }
  const given = getAttribute(el, "aria-label")?.trim();
  if (given) return given;
  const own = nativeName(el, tag);
  if (own) return own;
  if (named.has(role)) {
    const text = contentOf(el, maxName * 2, false);
    if (text) return text;
  }
  return getAttribute(el, "title")?.trim() || placeholder(el, tag);
}

const placeholder = (el, tag) => ((tag === "input" || tag === "textarea") && getAttribute(el, "placeholder")?.trim()) || getAttribute(el, "aria-placeholder") || "";

function nativeName(el, tag) {
  switch (tag) {
    case "input":
      switch (el.type) {
        case "submit": return el.value || "Submit";
        case "reset": return el.value || "Reset";
        case "button": return el.value;
        case "image": return getAttribute(el, "alt") || el.value || "Submit";
      }
    // fallthrough
    case "select": case "textarea": case "meter": case "progress": case "output":
      return [...(el.labels ?? [])].map((l) => contentOf(l, maxName * 2, false, el)).join(" ").trim();
    case "button": {
      const labels = el.labels;
      return labels?.length ? [...labels].map((l) => contentOf(l, maxName * 2, false, el)).join(" ").trim() : "";
    }
    case "img": case "area": return getAttribute(el, "alt")?.trim() ?? "";
    case "fieldset": return childText(el, "legend");
    case "table": return childText(el, "caption");
    case "figure": return childText(el, "figcaption");
    case "svg": return childText(el, "title");
    case "details": return "";
  }
  return "";
}

function childText(el, tag) {
  for (let n = firstChild(el); n; n = nextSibling(n)) if (isElement(n) && localName(n) === tag) return contentOf(n, maxName * 2, tag === "title");
  return "";
}

// contentOf is the text inside el as a name has it; hidden content counts only
// where it is referenced. except is the control that a label is read for.
function contentOf(el, limit, hidden, except) {
  let out = "";
  const add = (parent) => {
    for (const n of children(parent)) {
      if (out.length > limit) return;
      const type = nodeType(n);
      if (type === 3) { out += charData(n).slice(0, limit * 4); continue; }
      if (type !== 1 || n === except) continue;
      const tag = localName(n);
      if (skipped.has(tag)) { if (tag === "br") out += " "; continue; }
      if (!hidden && (getAttribute(n, "aria-hidden") === "true" || !(shown(n) || boxless(n)))) continue;
      const given = getAttribute(n, "aria-label") ?? (tag === "img" ? getAttribute(n, "alt") : tag === "svg" ? childText(n, "title") : null);
      const space = !inline.has(tag);
      if (space) out += " ";
      if (given) out += given;
      else if (tag === "input" || tag === "textarea") out += n.type === "password" ? "" : n.value;
      else if (tag === "select") out += n.selectedOptions[0]?.label ?? "";
      else add(n);
      if (space) out += " ";
    }
  };
  add(el);
  return out.replace(/\s+/g, " ").trim();
}

// boxless says that an element without a box of its own still shows children.
const boxless = (el) => localName(el) === "slot" || getComputedStyle(el).display === "contents";

const cursorOf = (el) => getComputedStyle(el).cursor;

// Line is one line while it is made: text joins the line before it where that is
// the element holding it.
class Outline {
  constructor(interactive) {
    this.interactive = interactive;
    this.lines = []; // {depth, role, name, states, el, ref}
    this.text = "";
    this.textOf = null;
  }
  push(depth, role, name, states, el, ref) {
    const line = { depth, role, name, states, el, ref };
    this.lines.push(line);
    return line;
  }
  // flush ends a run of text: it becomes the name of a holder that has neither
  // name nor children yet, else a line of its own.
  flush(depth, holder) {
    const raw = this.text;
    if (raw === "") return;
    this.text = "";
    const text = clean(raw, maxText);
    if (this.interactive || /^[\s.,;:|·•()[\]\-–—/]*$/.test(text)) return;
    if (holder && holder.name === "" && holder === this.lines[this.lines.length - 1] && !holder.ref) holder.name = text;
    else this.push(depth, "text", text, "", this.textOf, false);
  }
}

const holders = new Set(["listitem", "cell", "columnheader", "rowheader", "term", "definition", "status", "alert", "blockquote"]);

function walk(out, parent, depth, holder, pointer) {
  for (const n of children(parent)) {
    const type = nodeType(n);
    if (type === 3) {
      if (out.text.length < maxText * 8) {
        out.text += charData(n).slice(0, maxText * 8);
        out.textOf = parent;
      }
    } else if (type === 1) element(out, n, depth, holder, pointer);
  }
}

function element(out, el, depth, holder, pointer) {
  const tag = localName(el);
  if (skipped.has(tag)) {
    if (tag === "br") out.text += " ";
    return;
  }
  let boxed = true;
  if (!checkVisibility(el)) {
    if (!boxless(el)) return;
    boxed = false;
  }
  if (getAttribute(el, "aria-hidden") === "true" || hasAttribute(el, "inert")) return;
  const visible = !boxed || checkVisibility(el, { visibilityProperty: true });
  let role = visible ? roleOf(el, tag) : "";
  if (tag === "label" && visible && labelControl(el) && shown(labelControl(el)) && !role) return label1(out, el, depth, holder);
  const style = boxed && visible && role === "" ? cursorOf(el) : "";
  if (role === "" && visible) {
    if (el.isContentEditable && !parentEditable(el)) role = "textbox";
    else if (hasAttribute(el, "onclick") || (hasAttribute(el, "tabindex") && el.tabIndex >= 0) || (style === "pointer" && !pointer && tag !== "label" && tag !== "body" && tag !== "html")) role = "clickable";
  }
  if (role === "clickable" && holdsControl(el)) role = "";
  if (role === "") {
    const block = !inline.has(tag) && boxed;
    if (block) out.flush(depth, holder);
    if (visible) walk(out, el, depth, holder, pointer || style === "pointer");
    else hiddenWalk(out, el, depth, holder);
    if (block) out.flush(depth, holder);
    return;
  }
  out.flush(depth, holder);
  write(out, el, tag, role, depth, holder);
}

// hiddenWalk looks below an element with visibility:hidden, whose children may
// be visible: its own text isn't.
function hiddenWalk(out, el, depth, holder) {
  for (const n of children(el)) if (nodeType(n) === 1) element(out, n, depth, holder, false);
}

// label1 leaves out a label's text, which is its control's name.
function label1(out, el, depth, holder) {
  out.flush(depth, holder);
  hiddenWalk(out, el, depth, holder);
}

const parentEditable = (el) => { const p = parentNode(el); return isElement(p) && p.isContentEditable; };
const holdsControl = (el) => queryIn[1](el, "a[href],button,input,select,textarea,[role=button],[role=link],[onclick],[tabindex]").length > 0;

function write(out, el, tag, role, depth, holder) {
  const acts = interactiveRoles.has(role) || (tag === "summary");
  const name = clean(nameOf(el, tag, role), maxName);
  if (role === "img" && !name) return;
  if (role === "separator" && !acts) return;
  if (out.interactive && !acts) return inside(out, el, tag, role, 0, null);
  const line = out.push(out.interactive ? 0 : depth, role, name, states(el, tag, role), el, acts);
  inside(out, el, tag, role, out.interactive ? 0 : depth + 1, holders.has(role) && !name ? line : null);
  if (role === "row") mergeCells(out, line);
}

// inside writes what stands below a line.
function inside(out, el, tag, role, depth, holder) {
  if (tag === "iframe" || tag === "frame") {
    const doc = inner(el), body = doc && (documentBody(doc) ?? documentElement(doc));
    if (!doc) blind = true;
    if (body) walk(out, body, depth, null, false);
  } else if (tag === "select") {
    options(out, el, depth);
  } else if (tag === "textarea" || tag === "input" || tag === "svg" || tag === "video" || tag === "audio") {
    return;
  } else if (named.has(role)) {
    controls(out, el, depth);
  } else if (!(role === "textbox" && el.isContentEditable)) {
    walk(out, el, depth, holder, true);
  }
  out.flush(depth, holder);
}

// controls writes only what can be acted on below an element whose text is its
// name already.
function controls(out, el, depth) {
  let any = shadowRoot(el) !== null;
  for (let n = firstChild(el); n && !any; n = nextSibling(n)) any = nodeType(n) === 1;
  if (!any || !holdsControl(el) && !shadowRoot(el)) return;
  const nested = new Outline(true);
  walk(nested, el, 0, null, true);
  for (const line of nested.lines) out.lines.push({ ...line, depth });
}

const maxOptions = 12;

function options(out, select, depth) {
  if (out.interactive) return;
  const list = [...select.options];
  for (const o of list.slice(0, maxOptions)) out.push(depth, "option", clean(o.label, maxName), (o.selected ? " [selected]" : "") + (matches(o, ":disabled") ? " [disabled]" : ""), o, false);
  if (list.length > maxOptions) out.push(depth, "text", `${list.length - maxOptions} more options`, "", select, false);
}

// mergeCells makes one line of a row whose cells hold nothing but text.
function mergeCells(out, row) {
  const from = out.lines.indexOf(row, Math.max(0, out.lines.length - 200)) + 1;
  const cells = out.lines.slice(from);
  if (!from || row.name || cells.length === 0 || cells.some((c) => c.ref || c.states || c.depth !== row.depth + 1 || !/^(cell|columnheader|rowheader|gridcell)$/.test(c.role))) return;
  out.lines.length = from;
  row.name = cells.map((c) => c.name).join(" | ");
}

function states(el, tag, role) {
  let s = "";
  const aria = (name) => getAttribute(el, "aria-" + name);
  const isInput = tag === "input";
  if (role === "heading") s += ` [level=${/^h[1-6]$/.test(tag) ? tag[1] : Number(aria("level")) || 2}]`;
  if (isInput && (el.type === "checkbox" || el.type === "radio")) s += el.indeterminate ? " [mixed]" : el.checked ? " [checked]" : "";
  else if (aria("checked") === "true") s += " [checked]";
  else if (aria("checked") === "mixed") s += " [mixed]";
  if (aria("pressed") === "true") s += " [pressed]";
  if (aria("selected") === "true") s += " [selected]";
  if (aria("current") && aria("current") !== "false") s += " [current]";
  if (interactiveRoles.has(role) && disabled(el)) s += " [disabled]";
  const expanded = tag === "summary" ? String(parentNode(el)?.open === true) : aria("expanded");
  if (expanded === "true") s += " [expanded]";
  else if (expanded === "false") s += " [collapsed]";
  if ((isInput || tag === "textarea") && el.readOnly && /^(textbox|searchbox|spinbutton)$/.test(role)) s += " [readonly]";
  if ((isInput || tag === "textarea" || tag === "select") && el.required) s += " [required]";
  const value = valueOf(el, tag, role, aria);
  if (value) s += ` [value=${quoted(clean(value, maxName))}]`;
  return s;
}

// valueOf is what a control holds; never a password.
function valueOf(el, tag, role, aria) {
  switch (role) {
    case "textbox": case "searchbox": case "spinbutton": case "slider": case "combobox":
      if (tag === "input" && el.type === "password") return el.value && "(hidden)";
      if (tag === "input" || tag === "textarea") return el.value.slice(0, maxName * 8);
      if (tag === "select") return el.selectedOptions[0]?.label ?? "";
      return el.isContentEditable ? contentOf(el, maxName * 2, false) : aria("valuetext") ?? aria("valuenow") ?? "";
    case "progressbar": case "meter": return tag === "progress" || tag === "meter" ? String(el.value) : aria("valuenow") ?? "";
  }
  if (tag === "input" && el.type === "file") return el.files.length ? `${el.files.length} file(s)` : "";
  return tag === "input" && el.type === "color" ? el.value : "";
}

function utf8(s) {
  let n = s.length;
  for (let i = 0; i < s.length; i++) {
    const c = s.charCodeAt(i);
    if (c > 0x7f) n += c > 0x7ff && (c < 0xd800 || c > 0xdfff) ? 2 : 1;
  }
  return n;
}

// outline answers {text, next, more, after}: at most maxBytes of lines behind
// the reference `after`, how many lines are left, and the reference to go on
// from. next is the next id that no element has.
function outline(interactive, maxBytes, after, next) {
  nextID = Math.max(nextID, next);
  blind = false;
  const out = new Outline(interactive);
  const top = documentBody(document) ?? documentElement(document);
  if (top) {
    walk(out, top, 0, null, false);
    out.flush(0, null);
  }
  const lines = out.lines;
  let from = 0;
  if (after) {
    const el = nodeOf.get(Number(after.slice(1)))?.deref();
    from = lines.findLastIndex((l) => l.el === el && el !== undefined) + 1;
    if (from === 0) return { why: "stale", next: nextID, blind };
  }
  let bytes = 0, to = from;
  const texts = [];
  for (; to < lines.length; to++) {
    const text = lineText(lines[to]);
    bytes += utf8(text) + 1;
    if (bytes > maxBytes && to > from) break;
    texts.push(text);
  }
  if (to === lines.length) return { text: texts.join("\n"), next: nextID, more: 0, after: "", blind };
  // The cut stands behind the last line of its element: `after` finds it again.
  let cut = to;
  while (cut > from + 1 && lines[cut - 1].el === lines[cut].el) cut--;
  texts.length = cut - from;
  const last = lines[cut - 1];
  last.ref = true;
  texts[texts.length - 1] = lineText(last);
  return { text: texts.join("\n"), after: "e" + refOf(last.el), more: lines.length - cut, next: nextID, blind };
}

const indents = [];
for (let i = 0, s = ""; i < 40; i++, s += " ") indents.push(s);

function lineText(l) {
  return indents[Math.min(l.depth, 39)] + l.role + (l.name ? " " + quoted(l.name) : "") + (l.ref ? ` [ref=e${refOf(l.el)}]` : "") + l.states;
}

Object.assign(lib, { outline });
