// Scrolls what a wheel at the viewport's centre would: the innermost box there that
// can still move, else the document. 'instant' overrides a page's smooth scrolling,
// which would still be on its way. Its scroll events have been sent on return.
lib.scroll = async (dx, dy) => {
  while (!document.documentElement) await new Promise((done) => setTimeout(done, 5)); // it has just come
  const moved = (box) => {
    const { scrollLeft, scrollTop } = box;
    box.scrollBy({ left: dx, top: dy, behavior: 'instant' });
    return box.scrollLeft !== scrollLeft || box.scrollTop !== scrollTop;
  };
  const scrolls = (box) => /auto|scroll|overlay/.test(getComputedStyle(box).overflow);
  let at = document.elementFromPoint(innerWidth / 2, innerHeight / 2);
  while (at?.shadowRoot) {
    const inner = at.shadowRoot.elementFromPoint(innerWidth / 2, innerHeight / 2);
    if (!inner || inner === at) break;
    at = inner;
  }
  const root = document.scrollingElement ?? document.documentElement;
  for (; at && at !== root && at !== document.body; at = at.parentElement ?? at.getRootNode().host) {
    if (scrolls(at) && moved(at)) break;
  }
  if (!at || at === root || at === document.body) moved(root);
  return new Promise((done) => {
    requestAnimationFrame(() => done());
    setTimeout(done, 100); // a page that isn't painted gets no frame
  });
};
