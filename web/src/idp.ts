// The pages of the built-in provider: proving oneself with a passkey or a
// recovery code, and enrolling from a link. What they say comes from the server,
// in the page's language, as data on the body.

const body = document.body;

const words = JSON.parse(body.dataset["words"] || "{}") as Record<string, string>;

/** A word of the page's language. */
function text(name: string): string {
  return words[name] ?? "";
}

function element<T extends HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (!found) throw new Error(`no #${id}`);
  return found as T;
}

/** A refusal of the server, by its code. */
class Refused extends Error {
  constructor(readonly code: string) {
    super(code);
  }
}

async function call<T>(path: string, message: object): Promise<T> {
  let response: Response;
  try {
    response = await fetch(`/idp/api/${path}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(message),
      cache: "no-store",
      redirect: "error",
    });
  } catch {
    throw new Refused("offline");
  }
  let answer: unknown;
  try {
    answer = await response.json();
  } catch {
    throw new Refused("failed");
  }
  if (!response.ok) throw new Refused((answer as { code?: string }).code ?? "failed");
  return answer as T;
}

function bytes(value: string): Uint8Array<ArrayBuffer> {
  const raw = atob(value.replace(/-/g, "+").replace(/_/g, "/"));
  return Uint8Array.from(raw, (c) => c.charCodeAt(0));
}

function encoded(buffer: ArrayBuffer | null): string | undefined {
  if (!buffer) return undefined;
  let raw = "";
  for (const b of new Uint8Array(buffer)) raw += String.fromCharCode(b);
  return btoa(raw).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

/** A descriptor, or a whole set of options, as JSON carries it. */
interface Descriptor {
  id: string;
  type: "public-key";
  transports?: AuthenticatorTransport[];
}

const descriptor = (d: Descriptor): PublicKeyCredentialDescriptor => ({ ...d, id: bytes(d.id) });

/** Lets the authenticator make a passkey, and answers it as JSON carries it. */
async function create(options: { publicKey: any }): Promise<object> {
  const o = options.publicKey;
  const made = (await navigator.credentials.create({
    publicKey: {
      ...o,
      challenge: bytes(o.challenge),
      user: { ...o.user, id: bytes(o.user.id) },
      excludeCredentials: (o.excludeCredentials ?? []).map(descriptor),
    },
  })) as PublicKeyCredential | null;
  if (!made) throw new Refused("cancelled");
  const response = made.response as AuthenticatorAttestationResponse;
  return {
    id: made.id,
    rawId: encoded(made.rawId),
    type: made.type,
    response: {
      clientDataJSON: encoded(response.clientDataJSON),
      attestationObject: encoded(response.attestationObject),
      transports: response.getTransports?.() ?? [],
    },
    clientExtensionResults: {},
  };
}

/** Lets the authenticator sign, and answers that as JSON carries it. */
async function get(options: { publicKey: any }): Promise<object> {
  const o = options.publicKey;
  const made = (await navigator.credentials.get({
    publicKey: { ...o, challenge: bytes(o.challenge), allowCredentials: (o.allowCredentials ?? []).map(descriptor) },
  })) as PublicKeyCredential | null;
  if (!made) throw new Refused("cancelled");
  const response = made.response as AuthenticatorAssertionResponse;
  return {
    id: made.id,
    rawId: encoded(made.rawId),
    type: made.type,
    response: {
      clientDataJSON: encoded(response.clientDataJSON),
      authenticatorData: encoded(response.authenticatorData),
      signature: encoded(response.signature),
      userHandle: encoded(response.userHandle),
    },
    clientExtensionResults: {},
  };
}

/** Which words tell of an error; `credential` is what bad_credential means here. */
function say(error: unknown, credential: string): string {
  if (error instanceof DOMException) {
    if (error.name === "InvalidStateError") return text("known");
    if (error.name === "NotSupportedError" || error.name === "SecurityError") return text("unsupported");
    return text("cancelled");
  }
  const code = error instanceof Refused ? error.code : "failed";
  switch (code) {
    case "bad_credential":
      return text(credential);
    case "bad_document":
      return text("bad-document");
    case "bad_state":
    case "replayed":
    case "expired":
      return text("expired");
    case "disabled":
    case "offline":
    case "cancelled":
    case "unsupported":
      return text(code);
    default:
      return text("failed");
  }
}

/** Runs one act of the person: controls off, words on, errors told. */
async function act(controls: NodeListOf<HTMLElement>, credential: string, f: () => Promise<void>): Promise<void> {
  const error = element("error");
  const status = element("status");
  error.hidden = true;
  error.textContent = "";
  const all = [...controls].filter((c) => !(c as HTMLButtonElement).disabled) as HTMLButtonElement[];
  const focused = document.activeElement as HTMLElement | null;
  for (const control of all) control.disabled = true;
  try {
    if (!window.PublicKeyCredential) throw new Refused("unsupported");
    await f();
  } catch (problem) {
    status.textContent = "";
    error.textContent = say(problem, credential);
    error.hidden = false;
  } finally {
    for (const control of all) control.disabled = false;
  }
  if (!error.hidden) focused?.focus();
}

function login(): void {
  const request = body.dataset["request"] ?? "";
  const status = element("status");
  const controls = document.querySelectorAll<HTMLElement>("#step button, #step input");
  const on = (to: { redirect: string }): void => {
    status.textContent = text("done");
    location.replace(to.redirect);
  };
  const button = element<HTMLButtonElement>("passkey");
  button.addEventListener("click", () =>
    act(controls, "bad-passkey", async () => {
      const { options } = await call<{ options: { publicKey: unknown } }>("login/begin", { request });
      status.textContent = text("waiting");
      const response = await get(options);
      status.textContent = text("checking");
      on(await call("login/finish", { request, response }));
    }),
  );
  document.getElementById("recovery")?.addEventListener("submit", (event) => {
    event.preventDefault();
    void act(controls, "bad-code", async () => {
      status.textContent = text("checking");
      on(await call("login/recover", { request, code: element<HTMLInputElement>("code").value }));
    });
  });
  button.focus();
}

function enrol(): void {
  const secret = location.hash.slice(1);
  const form = element<HTMLFormElement>("enrol");
  const name = element<HTMLInputElement>("name");
  const controls = form.querySelectorAll<HTMLElement>("button, input");
  const error = element("error");
  const fail = (words: string): void => {
    error.textContent = words;
    error.hidden = false;
    form.hidden = true;
    element("lead").hidden = true;
  };
  if (!/^[0-9a-f]{64}$/.test(secret)) {
    fail(text("no-link"));
    return;
  }
  // The secret is kept in this variable alone: not in the address bar, not in the history.
  history.replaceState(null, "", location.pathname);
  call<{ name: string }>("enrol/open", { secret }).then(
    (link) => {
      if (name.value === "") name.value = link.name;
      name.focus();
    },
    (problem) => fail(say(problem, "bad-link")),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void act(controls, "bad-link", async () => {
      const status = element("status");
      const chosen = name.value.trim();
      const { options } = await call<{ options: { publicKey: unknown } }>("enrol/begin", { secret, name: chosen });
      status.textContent = text("waiting");
      const response = await create(options);
      status.textContent = text("checking");
      const { codes } = await call<{ codes: string[] }>("enrol/finish", { secret, name: chosen, response });
      status.textContent = "";
      form.hidden = true;
      showCodes(codes);
    });
  });
}

function showCodes(codes: string[]): void {
  const status = element("status");
  const title = element("title");
  title.textContent = text("codes-title");
  element("lead").textContent = text("codes-lead");
  for (const code of codes) {
    const item = document.createElement("li");
    item.textContent = code;
    element("list").append(item);
  }
  element("codes").hidden = false;
  title.focus();
  element("copy").addEventListener("click", () => {
    navigator.clipboard.writeText(codes.join("\n")).then(
      () => (status.textContent = text("copied")),
      () => (status.textContent = text("copy-refused")),
    );
  });
  const saved = element<HTMLInputElement>("saved");
  const go = element<HTMLAnchorElement>("go");
  saved.addEventListener("change", () => {
    go.setAttribute("aria-disabled", String(!saved.checked));
    if (saved.checked) status.textContent = "";
  });
  go.addEventListener("click", (event) => {
    if (saved.checked) return;
    event.preventDefault();
    status.textContent = text("acknowledge");
    saved.focus();
  });
}

if (body.dataset["page"] === "login") login();
if (body.dataset["page"] === "enrol") enrol();

export {};
