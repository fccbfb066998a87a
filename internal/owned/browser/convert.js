// Turns the value of eval_js into JSON text in the page, so that what is too
// large never crosses the pipe. Runs in the page's main world on a value that the
// page has made: it can only lie to itself.
function (limit) {
  let size = 0;
  const path = [];
  const out = (text) => {
    size += text.length;
    if (size > limit) throw 'too_large';
    return text;
  };
  const quote = (s) => {
    if (size + s.length > limit) throw 'too_large';
    return out(JSON.stringify(s.toWellFormed()));
  };
  const list = (values) => {
    const parts = [];
    for (const v of values) { parts.push(write(v)); out(','); }
    return '[' + parts.join(',') + ']';
  };
  const describe = (node) => {
    if (node.nodeType === 3) return '#text ' + node.data.slice(0, 80);
    if (node.nodeType !== 1) return node.nodeName;
    let s = '<' + node.localName;
    for (const name of ['id', 'class', 'name', 'type', 'href']) {
      const value = node.getAttribute(name);
      if (value !== null) s += ' ' + name + '="' + value.slice(0, 60) + '"';
    }
    return s + '>';
  };
  const object = (v) => {
    if (v instanceof Date) return isNaN(v) ? out('null') : quote(v.toISOString());
    if (v instanceof Number || v instanceof String || v instanceof Boolean) return write(v.valueOf());
    if (typeof Node === 'function' && v instanceof Node) return quote(describe(v));
    if (typeof Window === 'function' && v instanceof Window) return quote('[object Window]');
    if (v instanceof Error) return quote(String(v.name) + ': ' + String(v.message));
    if (v instanceof RegExp) return quote(String(v));
    if (v instanceof ArrayBuffer) return list(new Uint8Array(v));
    if (ArrayBuffer.isView(v)) return list(v instanceof DataView ? new Uint8Array(v.buffer, v.byteOffset, v.byteLength) : v);
    if (Array.isArray(v) || v instanceof Map || v instanceof Set) return list(v);
    if (typeof NodeList === 'function' && (v instanceof NodeList || v instanceof HTMLCollection)) return list(v);
    if (typeof v.toJSON === 'function') return write(v.toJSON());
    const parts = [];
    for (const key of Object.keys(v)) {
      out(':,');
      parts.push(quote(key) + ':' + write(v[key]));
    }
    return '{' + parts.join(',') + '}';
  };
  const write = (v) => {
    switch (typeof v) {
      case 'string': return quote(v);
      case 'boolean': return out(String(v));
      case 'number': return out(Number.isFinite(v) ? JSON.stringify(v) : 'null');
      case 'bigint': return quote(String(v));
      case 'object': break;
      default: return out('null');
    }
    if (v === null) return out('null');
    if (path.includes(v)) throw 'cycle';
    if (path.length >= 200) throw 'too_deep';
    path.push(v);
    try { return object(v); } finally { path.pop(); }
  };
  const settle = (v) => {
    try { return 'ok:' + write(v); } catch (e) {
      if (e === 'too_large' || e === 'cycle' || e === 'too_deep') return e;
      throw e;
    }
  };
  const value = typeof this === 'function' ? this() : this;
  const later = value !== null && typeof value === 'object' && typeof value.then === 'function';
  return later ? value.then((v) => settle(v)) : settle(value);
}
