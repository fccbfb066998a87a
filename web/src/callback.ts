// Ends a sign-in: keeps the session's second secret in this origin's storage,
// tells the other tabs, and goes on to where the person wanted to be. The page it
// runs on is served once, uncached, by the sign-in callback.

function content(name: string): string {
  return document.querySelector(`meta[name="${name}"]`)?.getAttribute("content") ?? "";
}

const key = content("session-key");
const next = content("next");
try {
  // A step-up keeps the key it has.
  if (/^[0-9a-f]{64}$/.test(key)) localStorage.setItem("chaperone.key", key);
} catch {
  // Storage is switched off: the portal will offer to sign in again, and say so.
}
const channel = new BroadcastChannel("chaperone");
channel.postMessage({ kind: "session" });
channel.close();
location.replace(/^\/(?![/\\])/.test(next) ? next : "/");

export {};
