// Names: what an element is called and what it is, by the essentials of the
// accessible name computation, in one line that can't mislead.

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
