// Fields: putting a text into whatever takes one, and reading back what became
// of it.

const lineTypes = new Set(["text", "search", "url", "tel", "email", "password", "number"]);
const valueTypes = new Set(["date", "time", "datetime-local", "month", "week", "color", "range"]);

// fieldKind sorts an element: "line" and "area" take keyboard text, "rich" is
// editable content, "value" is set, "select" chosen, "file" uploaded, "" none.
function fieldKind(el) {
  switch (localName(el)) {
    case "textarea": return "area";
    case "select": return "select";
    case "input":
      if (lineTypes.has(el.type)) return "line";
      return valueTypes.has(el.type) ? "value" : el.type === "file" ? "file" : "";
  }
  return isEditable(el) ? "rich" : "";
}

const fire = (el, type) => el.dispatchEvent(new Event(type, { bubbles: true, composed: type === "input" }));
const deepActive = (doc) => {
  let el = activeIn[9](doc);
  for (let shadow; el && (shadow = shadowRoot(el)); ) {
    const deeper = activeIn[11](shadow);
    if (!deeper) break;
    el = deeper;
  }
  return el;
};

// Field is the one being typed into: `typed` reads it back.
let field = null; // {el, kind, before}

// settle waits until a selector's element is there and judge has no objection;
// the objection "readonly" is final after coverPatience, as a cover is.
async function settle(selector, ms, judge) {
  const mine = begin(), start = performance.now(), end = start + ms;
  for (let since = 0; ; ) {
    const el = find(selector);
    const gone = el instanceof Absent;
    const why = gone ? el.why : judge(el);
    if (!why) return { el };
    const now = performance.now();
    since = why === "readonly" ? since || now : 0;
    const final = (gone && why !== "absent") || why === "kind" || (since > 0 && now - since >= coverPatience);
    if (final || now >= end || giveWay({ why, blind }, start)) return { why, blind, final };
    await frame();
    if (!going(mine)) return { why: "stopped" };
  }
}

const fieldOf = (el) => {
  const control = labelControl(el);
  return control && fieldKind(control) ? control : el;
};

function objection(el) {
  const kind = fieldKind(el);
  if (!kind) return "kind";
  if (!shown(el)) return "hidden";
  if (disabled(el)) return "disabled";
  if ((kind === "line" || kind === "area" || kind === "value") && el.readOnly) return "readonly";
  if (kind !== "file" && getAttribute(el, "aria-readonly") === "true") return "readonly";
  return "";
}

// type readies a field for text. {insert} asks for the text as keyboard input
// and `typed` after it; {done} says that a value or an option was set and has
// been read back; {why} says what was wrong. first is the text's first line.
async function type(selector, text, first, ms) {
  const found = await settle(selector, ms, (el) => objection(fieldOf(el)));
  if (found.why) return found;
  const el = fieldOf(found.el), kind = fieldKind(el);
  touch();
  switch (kind) {
    case "file": return { why: "file" };
    case "select": return choose(el, [text]);
    case "value": return setValue(el, text);
  }
  el.scrollIntoView({ block: "nearest", inline: "nearest", behavior: "instant" });
  const editing = kind === "rich" ? editingHost(el) : el;
  editing.focus({ preventScroll: true });
  if (deepActive(ownerDocument(el)) !== editing) return { why: "focus" };
  field = { el, kind, before: held(el, kind) };
  if (kind === "rich") selectContent(el);
  else el.select();
  if ((kind === "line" ? first : text) === "" && field.before !== "") ownerDocument(el).execCommand("delete");
  return { insert: true, line: kind === "line" };
}

function editingHost(el) {
  let top = el;
  for (let p = parentNode(el); isElement(p) && isEditable(p); p = parentNode(p)) top = p;
  return top;
}

function selectContent(el) {
  const doc = ownerDocument(el), range = doc.createRange(), root = getRootNode(el);
  range.selectNodeContents(el);
  const selection = (root.getSelection ?? doc.getSelection).call(root.getSelection ? root : doc);
  selection.removeAllRanges();
  selection.addRange(range);
}

const held = (el, kind) => (kind === "rich" ? el.innerText : el.value);

// Comparisons are made without what a browser itself changes: the kinds of
// space and line end. `letters` is what a mask leaves alone.
const plain = (s) => s.replace(/\u00a0/g, " ").replace(/\r\n?/g, "\n");
const squeezed = (s) => plain(s).replace(/\s+/g, " ").trim();
const letters = (s) => s.replace(/[^\p{L}\p{N}]/gu, "").toLowerCase();

// typed reads the field back and fires change where its value did. {ok} with
// `reformatted` where only punctuation, space or case differ from the text.
function typed(text) {
  const { el, kind, before } = field;
  if (!live(el)) return { why: "replaced" };
  const now = held(el, kind);
  if (kind !== "rich" && now !== before) fire(el, "change");
  const is = (f) => f(now) === f(text);
  if (is(plain) || (kind === "rich" && is(squeezed))) return { ok: true };
  if (kind === "line" && (el.type === "email" || el.type === "url") && is(squeezed)) return { ok: true };
  if (kind === "line" && el.type === "number") return now !== "" && Number(now) === Number(text) ? { ok: true } : { why: "refused" };
  if (letters(text) !== "" && is(letters)) return { ok: true, reformatted: true };
  if (now === before || now === "") return { why: "refused" };
  if (kind !== "rich" && el.maxLength >= 0 && now.length === el.maxLength && plain(text).startsWith(now)) return { why: "maxlength", limit: el.maxLength };
  return { why: "altered" };
}

// refocused says whether the field can take the next line of a text.
function refocused() {
  return field !== null && live(field.el) && deepActive(ownerDocument(field.el)) === field.el;
}

// setValue sets a control that has a value and no text, and reads it back: a
// value that the control doesn't take leaves it empty, or clamped.
function setValue(el, text) {
  const before = el.value;
  el.focus({ preventScroll: true });
  el.value = text.trim();
  const now = el.value;
  if (!sameValue(el.type, now, text.trim())) {
    el.value = before;
    return { why: "value", type: el.type };
  }
  if (now !== before) {
    fire(el, "input");
    fire(el, "change");
  }
  return sameValue(el.type, el.value, text.trim()) ? { done: true } : { why: "altered" };
}

function sameValue(kind, now, asked) {
  switch (kind) {
    case "range": return asked !== "" && Number(now) === Number(asked);
    case "color": return now.toLowerCase() === asked.toLowerCase();
  }
  const short = (s) => s.replace(" ", "T").replace(/(T?\d\d:\d\d):00(\.0+)?$/, "$1");
  return short(now) === short(asked);
}

const label = (option) => squeezed(option.label);

// choose selects exactly the options that are named by value, else by label.
function choose(select, names) {
  if (!select.multiple && names.length !== 1) return { why: "single" };
  const options = [...select.options];
  const wanted = new Set();
  for (const name of names) {
    const option = options.find((o) => o.value === name) ?? options.find((o) => label(o) === squeezed(name));
    if (!option) return { why: "option" };
    if (matches(option, ":disabled")) return { why: "disabled_option" };
    wanted.add(option);
  }
  return pick(select, options, (o) => wanted.has(o));
}

function pick(select, options, wanted) {
  select.focus({ preventScroll: true });
  let changed = false;
  for (const o of options)
    if (o.selected !== wanted(o)) {
      o.selected = wanted(o);
      changed = true;
    }
  if (changed) {
    fire(select, "input");
    fire(select, "change");
  }
  return options.every((o) => o.selected === wanted(o)) ? { done: true } : { why: "altered" };
}

// pickOption chooses the option that `ready` found in a closed select.
function pickOption(selector) {
  const option = find(selector);
  if (option instanceof Absent) return { why: option.why };
  const select = optionSelect(option);
  if (!select || option !== target?.el) return { why: "replaced" };
  return pick(select, [...select.options], (o) => o === option);
}

// selectOptions waits for a select and chooses in it.
async function selectOptions(selector, names, ms) {
  const found = await settle(selector, ms, (el) => (fieldKind(fieldOf(el)) === "select" ? objection(fieldOf(el)) : "kind"));
  if (found.why) return found;
  touch();
  return choose(fieldOf(found.el), names);
}

// focusOn waits for an element and gives it the keyboard.
async function focusOn(selector, ms) {
  const found = await settle(selector, ms, (el) => (!shown(el) ? "hidden" : disabled(el) ? "disabled" : ""));
  if (found.why) return found;
  const el = labelControl(found.el) ?? found.el;
  el.focus();
  const active = deepActive(ownerDocument(el));
  return active === el || (active && within(el, active)) ? { done: true } : { why: "focus" };
}

// fileInput waits for a file input, which may well be hidden behind its label.
async function fileInput(selector, ms, count) {
  const found = await settle(selector, ms, (el) => {
    const input = labelControl(el) ?? el;
    if (localName(input) !== "input" || input.type !== "file") return "kind";
    return disabled(input) ? "disabled" : "";
  });
  if (found.why) return found;
  const input = labelControl(found.el) ?? found.el;
  if (count > 1 && !input.multiple) return { why: "single" };
  field = { el: input, kind: "file", before: "" };
  return { done: true };
}

const uploadTarget = () => field.el;
const uploaded = () => [...field.el.files].map((f) => f.name);

Object.assign(lib, { type, typed, refocused, pickOption, selectOptions, focusOn, fileInput, uploadTarget, uploaded });
