// The service worker keeps the portal's own scripts, styles and pictures, and
// nothing else: their names carry their content's hash, so a kept one is never
// old. What a person's account answers, the pages themselves, sign-in and MCP
// pass by untouched.

interface Waiting extends Event {
  waitUntil(work: Promise<unknown>): void;
}
interface Fetching extends Waiting {
  readonly request: Request;
  respondWith(answer: Promise<Response>): void;
}
interface Worker {
  skipWaiting(): Promise<void>;
  readonly clients: { claim(): Promise<void> };
  addEventListener(kind: "install" | "activate", listener: (event: Waiting) => void): void;
  addEventListener(kind: "fetch", listener: (event: Fetching) => void): void;
}

const worker = self as unknown as Worker;
const build = new URL(location.href).searchParams.get("v") ?? "";
const name = "chaperone-assets-" + build;
const asset = /^\/assets\/[a-z]+\.[0-9a-f]{16}\.(?:js|css|svg)$/;

worker.addEventListener("install", (event) => event.waitUntil(worker.skipWaiting()));

worker.addEventListener("activate", (event) => event.waitUntil(tidy()));

async function tidy(): Promise<void> {
  for (const key of await caches.keys()) if (key !== name) await caches.delete(key);
  await worker.clients.claim();
}

worker.addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  if (event.request.method !== "GET" || url.origin !== location.origin || url.search !== "" || !asset.test(url.pathname)) return;
  event.respondWith(kept(event.request));
});

async function kept(request: Request): Promise<Response> {
  const cache = await caches.open(name);
  const found = await cache.match(request);
  if (found !== undefined) return found;
  const answer = await fetch(request);
  if (answer.ok && answer.type === "basic") await cache.put(request, answer.clone());
  return answer;
}

export {};
