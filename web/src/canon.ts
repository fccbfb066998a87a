// The page's canonical JSON: the twin of internal/canon, held to the same
// vectors (spec/vectors/canonical.json) and to the Go code by fuzzing.
//
// It works on the literal text. JSON.parse would have lost what must be refused
// by then (duplicate keys, -0, 1.0, 2^53 and beyond), and an object that is
// rebuilt puts integer-like keys first, whatever order they were given in.

export type CanonCode = "bad_document" | "too_deep";

/** What is outside the subset, and where: the text itself is never repeated. */
export class CanonError extends Error {
  constructor(
    readonly code: CanonCode,
    readonly at: number,
    why: string,
  ) {
    super(`not canonical JSON at ${at}: ${why}`);
  }
}

/** Arrays and objects around the innermost value; a scalar alone has depth 0. */
export const maxDepth = 64;

/** Answers the canonical form of JSON text, or throws a CanonError. */
export function canonicalize(text: string): string {
  const reader = new Reader(text);
  const out = reader.value(0);
  reader.end();
  return out;
}

/** Answers an object's members, each value in canonical form, or throws a CanonError. */
export function members(text: string): Map<string, string> {
  const reader = new Reader(text);
  const out = reader.membersAlone();
  reader.end();
  return new Map(out);
}

/** Answers an array's elements in canonical form, or throws a CanonError. */
export function elements(text: string): string[] {
  const reader = new Reader(text);
  const out = reader.elementsAlone();
  reader.end();
  return out;
}

/** Makes an object of members that are canonical already. It is the caller's to give each key once. */
export function compose(all: Readonly<Record<string, string>>): string {
  return write(Object.entries(all).sort(byKey));
}

/** The canonical form of a string of valid Unicode. */
export function word(s: string): string {
  return canonicalize(JSON.stringify(s));
}

/** Names canonical text by the SHA-256 of its UTF-8 bytes. */
export async function digest(canonical: string): Promise<string> {
  const sum = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(canonical));
  return "sha256:" + Array.from(new Uint8Array(sum), (b) => b.toString(16).padStart(2, "0")).join("");
}

// The number is anchored at the reader's place; what may not follow it is looked
// at afterwards.
const integer = /-?(?:0|[1-9][0-9]*)/y;
const plainRun = /[^"\\\u0000-\u001f\ud800-\udfff]+/y;
const escapes: Readonly<Record<string, string>> = {
  '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t",
};
const short: ReadonlyMap<string, string> = new Map([
  ['"', '\\"'], ["\\", "\\\\"], ["\b", "\\b"], ["\f", "\\f"], ["\n", "\\n"], ["\r", "\\r"], ["\t", "\\t"],
]);

type Member = [key: string, value: string];

/** Strings compare by UTF-16 code units, which is the order asked for. */
function byKey([a]: Member, [b]: Member): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function write(members: readonly Member[]): string {
  return "{" + members.map(([key, value]) => quote(key) + ":" + value).join(",") + "}";
}

class Reader {
  private at = 0;

  constructor(private readonly text: string) {}

  private bad(why: string): never {
    throw new CanonError("bad_document", this.at, why);
  }

  /** Skips white space and answers the character there, "" at the end. */
  private next(): string {
    for (;;) {
      const c = this.text.charAt(this.at);
      if (c !== " " && c !== "\t" && c !== "\n" && c !== "\r") return c;
      this.at++;
    }
  }

  end(): void {
    if (this.next() !== "") this.bad("data after the value");
  }

  /** Reads one value that stands inside depth arrays and objects. */
  value(depth: number): string {
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
    if (c === "-" || (c >= "0" && c <= "9")) return this.number();
    return this.bad("no value");
  }

  private literal(word: string): string {
    if (!this.text.startsWith(word, this.at)) this.bad("no value");
    this.at += word.length;
    return word;
  }

  private number(): string {
    integer.lastIndex = this.at;
    const word = integer.exec(this.text)?.[0] ?? this.bad("a sign without a number");
    const after = this.text.charAt(this.at + word.length);
    if (after >= "0" && after <= "9") this.bad("a leading zero");
    if (after === "." || after === "e" || after === "E") this.bad("a float");
    if (word === "-0") this.bad("a negative zero");
    // Number rounds beyond 2^53-1, but never back into the range.
    if (!Number.isSafeInteger(Number(word))) this.bad("an integer beyond 2^53-1");
    this.at += word.length;
    return word;
  }

  /** Reads an array and nothing else. */
  elementsAlone(): string[] {
    if (this.next() !== "[") this.bad("no array");
    return this.elements(1);
  }

  /** Reads an object and nothing else. */
  membersAlone(): Member[] {
    if (this.next() !== "{") this.bad("no object");
    return this.members(1);
  }

  private array(depth: number): string {
    return "[" + this.elements(depth).join(",") + "]";
  }

  private elements(depth: number): string[] {
    this.at++;
    const out: string[] = [];
    if (this.next() !== "]") {
      do out.push(this.value(depth));
      while (this.more("]"));
    }
    this.at++;
    return out;
  }

  /** Steps over a comma, or stays on the closing bracket. */
  private more(close: string): boolean {
    const c = this.next();
    if (c === ",") {
      this.at++;
      return true;
    }
    if (c !== close) this.bad("neither a comma nor the end of the array or object");
    return false;
  }

  private object(depth: number): string {
    return write(this.members(depth));
  }

  /** Reads members, in the order of their keys. */
  private members(depth: number): Member[] {
    this.at++;
    const members: Member[] = [];
    if (this.next() !== "}") {
      do members.push(this.member(depth));
      while (this.more("}"));
    }
    members.sort(byKey);
    for (const [i, [key]] of members.entries()) {
      if (i > 0 && members[i - 1]![0] === key) this.bad("a duplicate key in the object that ends here");
    }
    this.at++;
    return members;
  }

  private member(depth: number): Member {
    if (this.next() !== '"') this.bad("no key");
    const key = this.string();
    if (this.next() !== ":") this.bad("no : after a key");
    this.at++;
    return [key, this.value(depth)];
  }

  /** Reads a string and answers it unescaped. */
  private string(): string {
    this.at++;
    let out = "";
    for (;;) {
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
  private pair(c: string): string {
    if (c === "") this.bad("a string without an end");
    if (c < " ") this.bad("a raw control character");
    const both = this.text.slice(this.at, this.at + 2);
    if (!isPair(both)) this.bad("half of a surrogate pair");
    this.at += 2;
    return both;
  }

  /** Reads one escape sequence, a surrogate pair as one. */
  private escape(): string {
    const c = this.text.charAt(this.at + 1);
    const known = Object.hasOwn(escapes, c) ? escapes[c] : undefined;
    if (known !== undefined) {
      this.at += 2;
      return known;
    }
    const unit = this.unit(this.at);
    if (unit === "") this.bad("a bad escape");
    if (unit < "\ud800" || unit > "\udfff") {
      this.at += 6;
      return unit;
    }
    const both = unit + this.unit(this.at + 6);
    if (!isPair(both)) this.bad("half of a surrogate pair");
    this.at += 12;
    return both;
  }

  /** Reads \uXXXX at a place; "" is none. */
  private unit(at: number): string {
    const hex = this.text.slice(at + 2, at + 6);
    if (!this.text.startsWith("\\u", at) || !/^[0-9A-Fa-f]{4}$/.test(hex)) return "";
    return String.fromCharCode(parseInt(hex, 16));
  }
}

function isPair(s: string): boolean {
  return /^[\ud800-\udbff][\udc00-\udfff]$/.test(s);
}

/** Writes a string, escaping what JSON demands and nothing else. */
function quote(s: string): string {
  const body = s.replace(/["\\\u0000-\u001f]/g, (c) => short.get(c) ?? "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
  return '"' + body + '"';
}
