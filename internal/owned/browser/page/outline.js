// Outline: the page as lines `role "name" [ref=e12]`, made from the flat tree.
// What has no role of its own is left out and its children stand in its place;
// the text around them becomes the line of the element that holds it.

const cursorOf = (el) => getComputedStyle(el).cursor;

// Line is one line while it is made: text joins the line before it where that is
// the element holding it.
class Outline {
  constructor(interactive) {
    this.interactive = interactive;
    this.lines = []; // {depth, role, name, states, el, ref}
    this.text = "";
    this.textOf = null;
    this.nested = 0;
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

// deepest bounds the nesting: a page can nest deeper than the stack.
const deepest = 1000;

function walk(out, parent, depth, holder, pointer) {
  if (out.nested >= deepest) return;
  out.nested++;
  for (const n of children(parent)) {
    const type = nodeType(n);
    if (type === 3) {
      if (out.text.length < maxText * 8) {
        out.text += charData(n).slice(0, maxText * 8);
        out.textOf = parent;
      }
    } else if (type === 1) element(out, n, depth, holder, pointer);
  }
  out.nested--;
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
  const labelled = tag === "label" && visible && !role ? labelControl(el) : null;
  if (labelled) return label1(out, el, labelled, depth, holder);
  const style = boxed && visible && role === "" ? cursorOf(el) : "";
  if (role === "" && visible) {
    if (isEditable(el) && !parentEditable(el)) role = "textbox";
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

// label1 leaves out a label's text, which is its control's name. Of a control
// that is hidden, as behind a drawn checkbox, the label is what can be clicked.
function label1(out, el, control, depth, holder) {
  out.flush(depth, holder);
  if (shown(control)) return hiddenWalk(out, el, depth, holder);
  const tag = localName(control), role = roleOf(control, tag);
  if (role) out.push(out.interactive ? 0 : depth, role, clean(contentOf(el, maxName * 2, false, control), maxName), states(control, tag, role), el, true);
}

const parentEditable = (el) => { const p = parentNode(el); return isElement(p) && isEditable(p); };
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
  } else if (!(role === "textbox" && isEditable(el))) {
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
      return isEditable(el) ? contentOf(el, maxName * 2, false) : aria("valuetext") ?? aria("valuenow") ?? "";
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
