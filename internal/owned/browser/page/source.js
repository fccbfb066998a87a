// A part of the document's text, cut at code points; nothing of one that was
// wanted whole and is larger. Offsets and sizes count UTF-8 bytes of the whole.
lib.source = (from, limit, whole) => {
  let text = document.documentElement?.outerHTML ?? '';
  if (document.doctype) text = new XMLSerializer().serializeToString(document.doctype) + '\n' + text;
  const all = new TextEncoder().encode(text);
  if (whole && all.length > limit) return { html: '', bytes: all.length, offset: 0, next: 1, url: location.href };
  const inside = (i) => i < all.length && (all[i] & 0xc0) === 0x80;
  let start = Math.min(from, all.length);
  while (inside(start)) start--;
  let end = Math.min(start + limit, all.length);
  while (end > start && inside(end)) end--;
  if (end === start && start < all.length) do end++; while (inside(end)); // always go on
  const html = new TextDecoder('utf-8', { ignoreBOM: true }).decode(all.subarray(start, end));
  return { html, bytes: all.length, offset: start, next: end < all.length ? end : 0, url: location.href };
};
