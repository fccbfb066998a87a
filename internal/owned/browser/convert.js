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
    if (node.nodeType === 3 && typeof node.data === 'string') return '#text ' + node.data.slice(0, 80);
    if (node.nodeType !== 1 || typeof node.getAttribute !== 'function') return node.nodeName;
    let s = '<' + node.localName;
    for (const name of ['id', 'class', 'name', 'type', 'href']) {
      const value = node.getAttribute(name);
      if (value !== null) s += ' ' + name + '="' + value.slice(0, 60) + '"';
    }
    return s + '>';
  };
  // Tags, not instanceof: values of frames and popups have classes of their own.
  const tag = (v) => Object.prototype.toString.call(v).slice(8, -1);
  const object = (v) => {
    if (typeof v.nodeType === 'number' && typeof v.nodeName === 'string') return quote(describe(v));
    switch (tag(v)) {
      case 'Date': return isNaN(v) ? out('null') : quote(v.toISOString());
      case 'Number': case 'String': case 'Boolean': case 'BigInt': return write(v.valueOf());
      case 'Window': return quote('[object Window]');
      case 'Error': case 'DOMException': return quote(String(v.name) + ': ' + String(v.message));
      case 'RegExp': return quote(String(v));
      case 'ArrayBuffer': return list(new Uint8Array(v));
      case 'DataView': return list(new Uint8Array(v.buffer, v.byteOffset, v.byteLength));
      case 'Map': case 'Set': case 'NodeList': case 'HTMLCollection': return list(v);
    }
    if (ArrayBuffer.isView(v) || Array.isArray(v)) return list(v);
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
  // A thenable's own then may answer nothing: await it, never rely on its result.
  return later ? (async () => settle(await value))() : settle(value);
}
