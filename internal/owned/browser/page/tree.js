// The tree: how the other files of this folder read a page that may lie to
// them. They run in an isolated world, so a page can't replace a prototype, but
// a form or a document still answers `form.parentNode` with an input of that
// name. Every property of a page's node is therefore read through the
// prototype's own getter or method, bound here once.

const uncurry = Function.prototype.call;
const getter = (proto, name) => uncurry.bind(Object.getOwnPropertyDescriptor(proto, name).get);
const method = (proto, name) => uncurry.bind(proto[name]);

const nodeType = getter(Node.prototype, "nodeType");
const parentNode = getter(Node.prototype, "parentNode");
const firstChild = getter(Node.prototype, "firstChild");
const nextSibling = getter(Node.prototype, "nextSibling");
const isConnected = getter(Node.prototype, "isConnected");
const ownerDocument = getter(Node.prototype, "ownerDocument");
const textContent = getter(Node.prototype, "textContent");
const getRootNode = method(Node.prototype, "getRootNode");
const contains = method(Node.prototype, "contains");
const charData = getter(CharacterData.prototype, "data");

const localName = getter(Element.prototype, "localName");
const namespace = getter(Element.prototype, "namespaceURI");
const shadowRoot = getter(Element.prototype, "shadowRoot");
const assignedSlot = getter(Element.prototype, "assignedSlot");
const textSlot = getter(Text.prototype, "assignedSlot");
const clientLeft = getter(Element.prototype, "clientLeft");
const clientTop = getter(Element.prototype, "clientTop");
const getAttribute = method(Element.prototype, "getAttribute");
const hasAttribute = method(Element.prototype, "hasAttribute");
const matches = method(Element.prototype, "matches");
const closest = method(Element.prototype, "closest");
const boundingBox = method(Element.prototype, "getBoundingClientRect");
const clientRects = method(Element.prototype, "getClientRects");
const checkVisibility = method(Element.prototype, "checkVisibility");
const scrollIntoView = method(Element.prototype, "scrollIntoView");
const queryIn = {
  1: method(Element.prototype, "querySelectorAll"),
  9: method(Document.prototype, "querySelectorAll"),
  11: method(DocumentFragment.prototype, "querySelectorAll"),
};
const firstIn = {
  9: method(Document.prototype, "querySelector"),
  11: method(DocumentFragment.prototype, "querySelector"),
};
const byID = {
  9: method(Document.prototype, "getElementById"),
  11: method(DocumentFragment.prototype, "getElementById"),
};
const pointIn = {
  9: method(Document.prototype, "elementFromPoint"),
  11: method(ShadowRoot.prototype, "elementFromPoint"),
};
const activeIn = {
  9: getter(Document.prototype, "activeElement"),
  11: getter(ShadowRoot.prototype, "activeElement"),
};
const host = getter(ShadowRoot.prototype, "host");
const assignedNodes = method(HTMLSlotElement.prototype, "assignedNodes");
const defaultView = getter(Document.prototype, "defaultView");
const documentElement = getter(Document.prototype, "documentElement");
const documentBody = getter(Document.prototype, "body");
const iframeDocument = getter(HTMLIFrameElement.prototype, "contentDocument");
const frameDocument = getter(HTMLFrameElement.prototype, "contentDocument");
const controlOf = getter(HTMLLabelElement.prototype, "control");
const contentEditable = getter(HTMLElement.prototype, "isContentEditable");
const offsetWidth = getter(HTMLElement.prototype, "offsetWidth");
const offsetHeight = getter(HTMLElement.prototype, "offsetHeight");

const isElement = (node) => node !== null && nodeType(node) === 1;
const isEditable = (el) => namespace(el) === "http://www.w3.org/1999/xhtml" && contentEditable(el);
const isFrame = (el) => localName(el) === "iframe" || localName(el) === "frame";

// owners remembers which frame element shows a document: a document of another
// origin doesn't tell its own.
const owners = new WeakMap();

// inner is the document that a frame element shows in this process, or null: a
// frame of another site runs elsewhere and has a world of its own.
function inner(frame) {
  let doc = null;
  try {
    doc = localName(frame) === "iframe" ? iframeDocument(frame) : frameDocument(frame);
  } catch {
    return null; // an element of that name in another namespace
  }
  if (doc) owners.set(doc, frame);
  return doc;
}

// up is the parent in the flat tree: the slot that shows a node, then its
// parent, then the host of its shadow root.
function up(node) {
  const type = nodeType(node);
  const slot = type === 1 ? assignedSlot(node) : type === 3 ? textSlot(node) : null;
  if (slot) return slot;
  const parent = parentNode(node);
  return parent && nodeType(parent) === 11 ? shadowHost(parent) : parent;
}

function shadowHost(root) {
  try {
    return host(root);
  } catch {
    return null; // a fragment that is no shadow root
  }
}

// within says whether node is el or inside it, shadow roots and slots included.
function within(node, el) {
  for (let n = node; n; n = up(n)) if (n === el) return true;
  return false;
}

// live says whether a node still stands in a document that is shown.
const live = (node) => isConnected(node) && defaultView(ownerDocument(node)) !== null;

// roots yields a document, then its open shadow roots in tree order, then the
// documents of its frames: the order in which a selector's first match is found.
function* roots(doc) {
  yield doc;
  const frames = [];
  yield* shadows(doc, frames);
  for (const frame of frames) {
    const child = inner(frame);
    if (child) yield* roots(child);
    else blind = true;
  }
}

// blind says that the last walk came to a frame it couldn't look into.
let blind = false;

function* shadows(root, frames) {
  for (const el of queryIn[nodeType(root)](root, "*")) {
    const shadow = shadowRoot(el);
    if (shadow) {
      yield shadow;
      yield* shadows(shadow, frames);
    } else if (isFrame(el)) {
      frames.push(el);
    }
  }
}

// References. An id is given once in a run (Go passes the next one) and lives as
// long as its node: the map holds no node alive.
const idOf = new WeakMap();
const nodeOf = new Map();
let nextID = 1;

function refOf(el) {
  let id = idOf.get(el);
  if (id === undefined) {
    id = nextID++;
    idOf.set(el, id);
    nodeOf.set(id, new WeakRef(el));
  }
  return id;
}

// Absent tells why a selector finds nothing.
class Absent {
  constructor(why) {
    this.why = why; // "absent", "stale" or "selector"
  }
}

// find is the first match of a selector, or of a reference "ref=e12".
function find(selector) {
  const ref = /^ref=e([0-9]{1,15})$/.exec(selector);
  if (ref) {
    const el = nodeOf.get(Number(ref[1]))?.deref();
    return el && live(el) ? el : new Absent("stale");
  }
  blind = false;
  try {
    let last;
    for (const root of roots(document)) {
      const el = firstIn[nodeType(root)](root, selector);
      if (el) return el;
      last = root;
    }
    return (last !== document && across(selector)) || new Absent("absent");
  } catch (e) {
    if (e instanceof DOMException && e.name === "SyntaxError") return new Absent("selector");
    throw e;
  }
}

// across matches a selector whose parts stand on both sides of shadow roots,
// such as "x-card button": each combinator may step from a root to its host.
function across(selector) {
  const parts = split(selector);
  if (!parts || parts.length < 2) return null;
  const last = parts[parts.length - 1].text;
  for (const root of roots(document))
    for (const el of queryIn[nodeType(root)](root, last)) if (upward(el, parts, parts.length - 1)) return el;
  return null;
}

function upward(el, parts, i) {
  if (i === 0) return true;
  for (let p = climb(el); p; p = climb(p)) {
    if (matches(p, parts[i - 1].text) && upward(p, parts, i - 1)) return true;
    if (parts[i].join === ">") return false;
  }
  return false;
}

function climb(el) {
  const parent = parentNode(el);
  if (!parent) return null;
  if (nodeType(parent) === 11) return shadowHost(parent);
  return nodeType(parent) === 1 ? parent : null;
}

// split cuts a selector at its descendant and child combinators, outside
// brackets, parentheses and quotes: [{join: "" | " " | ">", text}]. A list or a
// sibling combinator, which can't step over a root, gives null.
function split(selector) {
  const parts = [];
  let join = "", text = "", depth = 0, quote = "", space = false;
  for (let i = 0; i < selector.length; i++) {
    const c = selector[i];
    if (c === "\\") {
      if (space && text) { parts.push({ join, text }); join = " "; text = ""; }
      space = false;
      text += c + (selector[++i] ?? "");
      continue;
    }
    if (quote || depth) {
      text += c;
      if (quote) { if (c === quote) quote = ""; }
      else if (c === '"' || c === "'") quote = c;
      else if (c === "(" || c === "[") depth++;
      else if (c === ")" || c === "]") depth--;
      continue;
    }
    if (/\s/.test(c)) { space = true; continue; }
    if (c === "," || c === "+" || c === "~") return null;
    if (c === ">") {
      if (!text) return null;
      parts.push({ join, text });
      join = ">"; text = ""; space = false;
      continue;
    }
    if (space && text) { parts.push({ join, text }); join = " "; text = ""; }
    space = false;
    if (c === "(" || c === "[") depth++;
    else if (c === '"' || c === "'") quote = c;
    text += c;
  }
  if (!text) return null;
  parts.push({ join, text });
  return parts;
}

// frame resolves at the next animation frame; a page that is given none (a tab
// in the background) goes on after 100 ms all the same.
function frame() {
  return new Promise((done) => {
    const timer = setTimeout(done, 100);
    requestAnimationFrame(() => { clearTimeout(timer); done(); });
  });
}

// Work is one wait of an action. `stop` ends it from outside, so that nothing is
// done to the page after the action has been given up, and says whether the page
// had been touched by then.
let work = 0, touched = false;
const begin = () => { touched = false; return ++work; };
const going = (mine) => mine === work;
const touch = () => { touched = true; };
const stop = () => { work++; return touched; };

Object.assign(lib, { frame, stop });
