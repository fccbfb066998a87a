// Runs the page's encoder for twin_test.go. Standard input and output hold one
// line for each document: its bytes in hex, and "ok HEX" or "no CODE" back. The
// module comes as the first argument, since this folder knows no paths outside.
import { createInterface } from "node:readline";

// A page has it; Debian 12's Node 18 keeps it in a module.
globalThis.crypto ??= (await import("node:crypto")).webcrypto;

const { canonicalize, digest, CanonError } = await import(process.argv[2]);
// A page gets text from bytes this way; a byte order mark is left in to be refused.
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

async function answer(line) {
  let text;
  try {
    text = decoder.decode(Buffer.from(line, "hex"));
  } catch {
    return "no bad_document";
  }
  try {
    const canonical = canonicalize(text);
    return "ok " + Buffer.from(canonical, "utf8").toString("hex") + " " + (await digest(canonical));
  } catch (e) {
    if (!(e instanceof CanonError)) throw e;
    return "no " + e.code;
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write((await answer(line)) + "\n");
}
