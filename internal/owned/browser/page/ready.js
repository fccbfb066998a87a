// Readiness: is an element attached, visible, enabled and hit by a mouse at its
// centre. One look costs one layout; waiting looks again at each frame.

const labelsOf = (el) => {
  switch (localName(el)) {
    case "button": case "input": case "select": case "textarea": case "meter": case "output": case "progress":
      return el.labels ?? [];
  }
  return [];
};

const labelControl = (el) => (localName(el) === "label" && namespace(el) === "http://www.w3.org/1999/xhtml" ? controlOf(el) : null);

const shown = (el) => checkVisibility(el, { visibilityProperty: true });

// optionSelect is the closed select that an option belongs to: such an option
// has no box to click.
function optionSelect(el) {
  if (localName(el) !== "option" || shown(el) && boundingBox(el).width > 0) return null;
  const select = closest(el, "select");
  return select && !select.multiple && select.size <= 1 ? select : null;
}

// standIn is what a mouse clicks instead of a control without a box of its own,
// as behind a drawn checkbox: its first label that is shown.
function standIn(el) {
  for (const label of labelsOf(el)) {
    const box = boundingBox(label);
    if (shown(label) && box.width > 0 && box.height > 0) return label;
  }
  return null;
}

function disabled(el) {
  const control = labelControl(el) ?? closest(el, "button,input,select,textarea,option") ?? el;
  if (matches(control, ":disabled")) return true;
  return closest(el, '[aria-disabled="true"]') !== null;
}

// hit is the element that receives a mouse event at a point of a document.
function hit(doc, x, y) {
  let el = pointIn[9](doc, x, y);
  for (let depth = 0; el && depth < 64; depth++) {
    const shadow = shadowRoot(el);
    const deeper = shadow && pointIn[11](shadow, x, y);
    if (!deeper || deeper === el) break;
    el = deeper;
  }
  return el;
}

// outward maps a point of el's document to this world's own document and tests
// each frame on the way: {x, y} where the mouse would reach el there, {cover}
// where something else is hit, {outside} where the point isn't in view.
function outward(el, x, y) {
  let doc = ownerDocument(el);
  let target = el;
  for (;;) {
    const view = defaultView(doc);
    if (!view || x < 0 || y < 0 || x >= view.innerWidth || y >= view.innerHeight) return { outside: true };
    const over = hit(doc, x, y);
    if (!over || !receives(target, over)) return { cover: over };
    if (doc === document) return { x, y };
    target = owners.get(doc);
    if (!target) return { outside: true };
    [x, y] = lift(target, x, y);
    doc = ownerDocument(target);
  }
}

// lift maps a point of a frame's viewport into the document that holds the
// frame, whose box a transform may have scaled.
function lift(frame, x, y) {
  const box = boundingBox(frame);
  const style = getComputedStyle(frame);
  const sx = box.width / (offsetWidth(frame) || 1), sy = box.height / (offsetHeight(frame) || 1);
  return [
    box.x + (x + clientLeft(frame) + parseFloat(style.paddingLeft)) * sx,
    box.y + (y + clientTop(frame) + parseFloat(style.paddingTop)) * sy,
  ];
}

// through is outward for a point of a frame that this world can't look into. It
// scrolls the point into view, which the frame's own document can't.
function through(frame, x, y) {
  let at = outward(frame, ...lift(frame, x, y));
  if (at.outside) {
    scrollIntoView(frame, { block: "center", inline: "center", behavior: "instant" });
    const [px, py] = lift(frame, x, y), view = defaultView(ownerDocument(frame));
    if (px < 0 || py < 0 || px >= view.innerWidth || py >= view.innerHeight)
      view.scrollBy({ left: px - view.innerWidth / 2, top: py - view.innerHeight / 2, behavior: "instant" });
    at = outward(frame, ...lift(frame, x, y));
  }
  return at.x !== undefined ? at : at.outside ? { why: "outside" } : { why: "covered", by: brief(at.cover) };
}

// island says whether the parent's world can't look into this document, and
// whose origin it has.
function island() {
  let apart = true;
  try {
    apart = !window.frameElement;
  } catch {} // a parent of another origin
  return { apart, origin: self.origin };
}

// receives says whether a click on over is a click on el. A label counts as its
// control, both ways.
function receives(el, over) {
  if (within(over, el)) return true;
  for (const label of labelsOf(el)) if (within(over, label) && !diverts(over, label)) return true;
  const control = labelControl(el);
  return control !== null && within(over, control);
}

// diverts says whether something in a label keeps the click for itself, such as
// the link to the terms that one agrees to.
function diverts(over, label) {
  const own = closest(over, "a[href],button,input,select,textarea,summary,iframe");
  return own !== null && own !== label && within(own, label);
}

// aim is where the mouse would click el now, or what stands in the way; shape is
// what is seen of it. It tries the centre of the whole box, then of each line's
// box (a link that wraps has a centre outside itself), then a label's beginning.
function aim(el, shape) {
  const box = boundingBox(shape);
  let first = outward(el, box.x + box.width / 2, box.y + box.height / 2);
  if (first.x !== undefined) return first;
  const lines = clientRects(shape);
  for (let i = 0; i < lines.length && lines.length > 1 && i < 8; i++) {
    const at = outward(el, lines[i].x + lines[i].width / 2, lines[i].y + lines[i].height / 2);
    if (at.x !== undefined) return at;
  }
  if (shape !== el) {
    const at = outward(el, box.x + Math.min(4, box.width / 2), box.y + box.height / 2);
    if (at.x !== undefined) return at;
  }
  return first;
}

// reach scrolls el until the mouse reaches it: first not at all, then to the
// middle, then to either end (a sticky header covers only one of them).
function reach(el, shape, aligned) {
  let at = aim(el, shape);
  if (at.x !== undefined) return at;
  if (!at.outside && aligned.has(el)) return at;
  aligned.add(el);
  for (const block of ["center", "end", "start", "center"]) {
    scrollIntoView(shape, { block, inline: "center", behavior: "instant" });
    at = aim(el, shape);
    if (at.x !== undefined) return at;
  }
  return at;
}

// brief names an element without any of its text: tag#id.class.
function brief(el) {
  if (!el) return "nothing";
  const word = (s) => s.replace(/[^A-Za-z0-9_-]/g, "?").slice(0, 24);
  let name = word(localName(el));
  const id = getAttribute(el, "id"), kind = getAttribute(el, "class");
  if (id) name += "#" + word(id);
  for (const c of (kind ?? "").split(/\s+/).filter(Boolean).slice(0, 2)) name += "." + word(c);
  return name;
}

const boxOf = (el) => { const b = boundingBox(el); return [b.x, b.y, b.width, b.height]; };
const sameBox = (a, b) => a !== null && b !== null && a.every((n, i) => Math.abs(n - b[i]) < 0.5);

// look judges el once: {why} names what is missing.
function look(el) {
  const select = optionSelect(el);
  let seen = select ?? el, box = boxOf(seen);
  const boxless = () => !shown(seen) || box[2] <= 0 || box[3] <= 0;
  if (boxless() && !select && standIn(el)) box = boxOf((seen = standIn(el)));
  if (boxless()) return { why: "hidden", box };
  if (disabled(el) || select && disabled(select)) return { why: "disabled", box };
  return { why: "", box, select, seen };
}

// coverPatience is how long the same element may stand still in front.
const coverPatience = 3000;

// Target is the element of the action under way: what `aimed` looks at again.
let target = null; // {el, box, cover, coverBox, since, aligned}

// ready waits until an element can be clicked: {x, y} for the mouse, {option}
// for an option of a closed select, else {why, by}. steady asks for the same
// box over two frames before that; without it the caller compares by itself.
async function ready(selector, ms, fresh, steady) {
  const mine = begin(), start = performance.now(), end = start + ms;
  mouseSeen = true;
  if (fresh || !target) target = { el: null, box: null, cover: null, coverBox: null, since: 0, aligned: new WeakSet() };
  for (let before = null; ; ) {
    const now = once(selector, before, steady);
    if (!now.why || now.final) return now;
    if (performance.now() >= end || giveWay(now, start)) return now;
    before = now.box ?? null;
    await frame();
    if (!going(mine)) return { why: "stopped" };
  }
}

function once(selector, before, steady) {
  const el = find(selector);
  if (el instanceof Absent) return { why: el.why, blind, final: el.why !== "absent" };
  const state = look(el);
  target.el = el;
  target.box = state.box;
  if (state.why) return state;
  if (state.select) return { option: true };
  if (steady && !sameBox(before, state.box)) return { why: "moving", box: state.box };
  const at = reach(el, state.seen, target.aligned);
  target.box = boxOf(state.seen); // scrolling moved it
  if (at.x !== undefined) {
    target.cover = null;
    if (window !== top) expectMouse(defaultView(ownerDocument(el)));
    return { x: at.x, y: at.y };
  }
  return covered(at, target.box);
}

// covered judges what stands in front; standing still for coverPatience is final.
function covered(at, box) {
  if (at.outside) return { why: "outside", box };
  const coverBox = at.cover ? boxOf(at.cover) : null;
  if (target.since === 0 || target.cover !== at.cover || (at.cover && !sameBox(target.coverBox, coverBox))) {
    target.cover = at.cover;
    target.coverBox = coverBox;
    target.since = performance.now();
  }
  return { why: "covered", by: brief(at.cover), box, final: performance.now() - target.since >= coverPatience };
}

// Of a frame in another process the browser may still hold an old position, and
// send the mouse elsewhere. There the moved mouse must have been seen first.
const listening = new WeakSet();
let mouseSeen = true;

function expectMouse(view) {
  mouseSeen = false;
  if (listening.has(view)) return;
  listening.add(view);
  view.addEventListener("mousemove", (e) => { mouseSeen ||= e.isTrusted; }, { capture: true, passive: true });
}

// aimed looks again after the mouse has moved, one frame later: true where the
// same element is ready at the same place and the point still hits it.
function aimed(selector, x, y) {
  const el = find(selector);
  if (el instanceof Absent || el !== target?.el || !mouseSeen) return false;
  const state = look(el);
  if (state.why || !sameBox(target.box, state.box)) return false;
  const at = aim(el, state.seen);
  const same = at.x !== undefined && Math.abs(at.x - x) < 1 && Math.abs(at.y - y) < 1;
  if (same) watchChanges();
  return same;
}

// changes sees what a click changes at once.
let changes = null;

function watchChanges() {
  changes?.disconnect();
  changes = new MutationObserver(() => { changes.seen = true; });
  changes.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
}

// after ends when the handlers of the input have had their turn. A click that
// changed the page at once has been answered. One that changed nothing may have
// left its work to a timer, so that timer's turn is waited for: the engine paints
// first, which is why this isn't done for every click.
function after() {
  const answered = changes !== null && (changes.seen || changes.takeRecords().length > 0);
  changes?.disconnect();
  changes = null;
  return answered || new Promise((done) => setTimeout(done, 0));
}

// giveWay ends a wait for an element that may stand in a frame this world can't
// look into: the caller looks there and comes back.
const giveWay = (now, start) => now.why === "absent" && now.blind && performance.now() - start > 100;

// has says whether a selector finds anything in this world's documents now.
function has(selector) {
  const el = find(selector);
  return { why: el instanceof Absent ? el.why : "", blind };
}

Object.assign(lib, { ready, aimed, after, through, island, has });
