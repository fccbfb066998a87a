// 'instant' overrides a page's smooth scrolling, which would still be on its way.
lib.scroll = (dx, dy) => {
  window.scrollBy({ left: dx, top: dy, behavior: 'instant' });
};
