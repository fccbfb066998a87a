// src/canon.ts
var CanonError = class extends Error {
  constructor(code, at, why) {
    super(`not canonical JSON at ${at}: ${why}`);
    this.code = code;
    this.at = at;
  }
  code;
  at;
};
var maxDepth = 64;
function canonicalize(text) {
  const reader = new Reader(text);
  const out = reader.value(0);
  reader.end();
  return out;
}
async function digest(canonical) {
  const sum = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(canonical));
  return "sha256:" + Array.from(new Uint8Array(sum), (b) => b.toString(16).padStart(2, "0")).join("");
}
var integer = /-?(?:0|[1-9][0-9]*)/y;
var plainRun = /[^"\\\u0000-\u001f\ud800-\udfff]+/y;
var escapes = {
  '"': '"',
  "\\": "\\",
  "/": "/",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "	"
};
var short = /* @__PURE__ */ new Map([
  ['"', '\\"'],
  ["\\", "\\\\"],
  ["\b", "\\b"],
  ["\f", "\\f"],
  ["\n", "\\n"],
  ["\r", "\\r"],
  ["	", "\\t"]
]);
var Reader = class {
  constructor(text) {
    this.text = text;
  }
  text;
  at = 0;
  bad(why) {
    throw new CanonError("bad_document", this.at, why);
  }
  /** Skips white space and answers the character there, "" at the end. */
  next() {
    for (; ; ) {
      const c = this.text.charAt(this.at);
      if (c !== " " && c !== "	" && c !== "\n" && c !== "\r") return c;
      this.at++;
    }
  }
  end() {
    if (this.next() !== "") this.bad("data after the value");
  }
  /** Reads one value that stands inside depth arrays and objects. */
  value(depth) {
    const c = this.next();
    switch (c) {
      case '"':
        return quote(this.string());
      case "{":
      case "[":
        if (depth === maxDepth) throw new CanonError("too_deep", this.at, "nested over 64 deep");
        return c === "{" ? this.object(depth + 1) : this.array(depth + 1);
      case "t":
        return this.literal("true");
      case "f":
        return this.literal("false");
      case "n":
        return this.literal("null");
    }
    if (c === "-" || c >= "0" && c <= "9") return this.number();
    return this.bad("no value");
  }
  literal(word) {
    if (!this.text.startsWith(word, this.at)) this.bad("no value");
    this.at += word.length;
    return word;
  }
  number() {
    integer.lastIndex = this.at;
    const word = integer.exec(this.text)?.[0] ?? this.bad("a sign without a number");
    const after = this.text.charAt(this.at + word.length);
    if (after >= "0" && after <= "9") this.bad("a leading zero");
    if (after === "." || after === "e" || after === "E") this.bad("a float");
    if (word === "-0") this.bad("a negative zero");
    if (!Number.isSafeInteger(Number(word))) this.bad("an integer beyond 2^53-1");
    this.at += word.length;
    return word;
  }
  array(depth) {
    this.at++;
    const out = [];
    if (this.next() !== "]") {
      do
        out.push(this.value(depth));
      while (this.more("]"));
    }
    this.at++;
    return "[" + out.join(",") + "]";
  }
  /** Steps over a comma, or stays on the closing bracket. */
  more(close) {
    const c = this.next();
    if (c === ",") {
      this.at++;
      return true;
    }
    if (c !== close) this.bad("neither a comma nor the end of the array or object");
    return false;
  }
  object(depth) {
    this.at++;
    const members = [];
    if (this.next() !== "}") {
      do
        members.push(this.member(depth));
      while (this.more("}"));
    }
    members.sort(([a], [b]) => a < b ? -1 : a > b ? 1 : 0);
    for (const [i, [key]] of members.entries()) {
      if (i > 0 && members[i - 1][0] === key) this.bad("a duplicate key in the object that ends here");
    }
    this.at++;
    return "{" + members.map(([key, value]) => quote(key) + ":" + value).join(",") + "}";
  }
  member(depth) {
    if (this.next() !== '"') this.bad("no key");
    const key = this.string();
    if (this.next() !== ":") this.bad("no : after a key");
    this.at++;
    return [key, this.value(depth)];
  }
  /** Reads a string and answers it unescaped. */
  string() {
    this.at++;
    let out = "";
    for (; ; ) {
      plainRun.lastIndex = this.at;
      const run = plainRun.exec(this.text)?.[0] ?? "";
      out += run;
      this.at += run.length;
      const c = this.text.charAt(this.at);
      if (c === '"') {
        this.at++;
        return out;
      }
      out += c === "\\" ? this.escape() : this.pair(c);
    }
  }
  /** Reads a raw surrogate pair: all that's left of what a string may hold. */
  pair(c) {
    if (c === "") this.bad("a string without an end");
    if (c < " ") this.bad("a raw control character");
    const both = this.text.slice(this.at, this.at + 2);
    if (!isPair(both)) this.bad("half of a surrogate pair");
    this.at += 2;
    return both;
  }
  /** Reads one escape sequence, a surrogate pair as one. */
  escape() {
    const c = this.text.charAt(this.at + 1);
    const known = Object.hasOwn(escapes, c) ? escapes[c] : void 0;
    if (known !== void 0) {
      this.at += 2;
      return known;
    }
    const unit = this.unit(this.at);
    if (unit === "") this.bad("a bad escape");
    if (unit < "\uD800" || unit > "\uDFFF") {
      this.at += 6;
      return unit;
    }
    const both = unit + this.unit(this.at + 6);
    if (!isPair(both)) this.bad("half of a surrogate pair");
    this.at += 12;
    return both;
  }
  /** Reads \uXXXX at a place; "" is none. */
  unit(at) {
    const hex = this.text.slice(at + 2, at + 6);
    if (!this.text.startsWith("\\u", at) || !/^[0-9A-Fa-f]{4}$/.test(hex)) return "";
    return String.fromCharCode(parseInt(hex, 16));
  }
};
function isPair(s) {
  return /^[\ud800-\udbff][\udc00-\udfff]$/.test(s);
}
function quote(s) {
  const body = s.replace(/["\\\u0000-\u001f]/g, (c) => short.get(c) ?? "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
  return '"' + body + '"';
}
export {
  CanonError,
  canonicalize,
  digest,
  maxDepth
};
