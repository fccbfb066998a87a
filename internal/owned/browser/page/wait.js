// Waits of wait_for: each looks again at a frame, a text only after the page
// has changed.

async function waitState(selector, state, ms) {
  const mine = begin(), start = performance.now(), end = start + ms;
  for (;;) {
    const el = find(selector);
    if (el instanceof Absent && el.why === "selector") return { why: "selector" };
    const there = !(el instanceof Absent);
    if (!there && el.why === "stale" && (state === "visible" || state === "attached")) return { why: "stale" };
    const seen = there && shown(el) && boundingBox(el).width > 0 && boundingBox(el).height > 0;
    if (state === "visible" ? seen : state === "hidden" ? !seen : state === "attached" ? there : !there) return { done: true, blind };
    const why = there ? "" : el.why;
    if (giveWay({ why, blind }, start)) return { why, blind };
    if (performance.now() >= end) return { blind, why: there ? (seen ? "visible" : "hidden") : "absent" };
    await frame();
    if (!going(mine)) return { why: "stopped" };
  }
}

// holdsText looks for a text that is shown: first among all text, which costs no
// layout, then as it is laid out.
function holdsText(wanted) {
  for (const root of roots(document)) {
    const top = nodeType(root) === 9 ? documentBody(root) : root;
    if (!top || !squeezed(textContent(top)).includes(wanted)) continue;
    // A shadow root has no text as laid out: what it shows is put together.
    let shownText = "";
    if (nodeType(root) === 9) shownText = top.innerText ?? "";
    else if (shown(host(root)))
      for (let n = firstChild(root); n; n = nextSibling(n)) shownText += nodeType(n) === 3 ? charData(n) : isElement(n) ? " " + (n.innerText ?? "") + " " : "";
    if (squeezed(shownText).includes(wanted)) return true;
  }
  return false;
}

async function waitText(text, ms) {
  const mine = begin(), end = performance.now() + ms, wanted = squeezed(text);
  let changed = true, seen = 0;
  const watch = new MutationObserver(() => { changed = true; });
  watch.observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
  try {
    for (;;) {
      const now = performance.now();
      // Frames, shadow roots and style sheets change unseen by the observer.
      if (changed || now - seen > 100) {
        changed = false;
        seen = now;
        if (holdsText(wanted)) return { done: true };
      }
      if (now >= end) return { why: "absent" };
      await frame();
      if (!going(mine)) return { why: "stopped" };
    }
  } finally {
    watch.disconnect();
  }
}

Object.assign(lib, { waitState, waitText });
