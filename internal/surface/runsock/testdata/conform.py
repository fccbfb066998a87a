#!/usr/bin/env python3
"""A second client of owned-browser-v1, from the specification alone.

It shares no code with the host that it talks to and uses nothing but the
standard library. Each mode plays one kind of conversation with a freshly
registered run and exits 0 if every answer is the one that the specification
asks for; else it says what differs and exits 1.

    conform.py play REGISTRATION TRANSCRIPT
    conform.py race REGISTRATION COUNT
    conform.py actions REGISTRATION SITE
    conform.py hold REGISTRATION SITE

REGISTRATION is a run's folder: browser.json and, for transport unix,
browser.sock. It prints no credential.
"""

import base64
import json
import os
import re
import secrets
import socket
import sys
import threading
import time

ACTIONS = [
    "launch", "goto", "click", "type", "scroll", "screenshot", "eval_js",
    "console_logs", "page_source", "pdf", "list_tabs", "switch_tab", "close",
]
CAPABILITIES = sorted(ACTIONS + ["cancel", "scope-enforced"])


class Wrong(Exception):
    """An answer that the specification doesn't allow."""


def strict(text):
    """json.loads without duplicate keys, NaN or infinities."""
    def pairs(items):
        found = dict(items)
        if len(found) != len(items):
            raise Wrong("duplicate key in an answer")
        return found

    def constant(name):
        raise Wrong(f"{name} in an answer")

    return json.loads(text, object_pairs_hook=pairs, parse_constant=constant)


class Registration:
    def __init__(self, folder):
        self.folder = folder
        path = os.path.join(folder, "browser.json")
        for name, mode in ((folder, 0o700), (path, 0o600)):
            got = os.lstat(name).st_mode & 0o7777
            if got != mode:
                raise Wrong(f"{name} has mode {got:o}, not {mode:o}")
        with open(path, encoding="utf-8") as f:
            self.descriptor = strict(f.read())
        want = ["bootstrap_token", "endpoint", "engagement_id", "epoch", "expires_at_ms", "host_commit", "protocol", "run_id", "transport"]
        if sorted(self.descriptor) != want:
            raise Wrong(f"descriptor has the keys {sorted(self.descriptor)}")
        d = self.descriptor
        ahead = d["expires_at_ms"] - time.time() * 1000
        for ok, what in (
            (d["protocol"] == "owned-browser-v1", "protocol"),
            (re.fullmatch(r"[0-9a-f]{64}", d["epoch"]), "epoch"),
            (re.fullmatch(r"[0-9a-f]{64}", d["bootstrap_token"]), "bootstrap_token"),
            (re.fullmatch(r"[0-9a-f]{40}", d["host_commit"]), "host_commit"),
            (re.fullmatch(r"http://127\.0\.0\.1:[1-9][0-9]{0,4}", d["endpoint"]), "endpoint"),
            (d["transport"] in ("unix", "loopback"), "transport"),
            (d["transport"] == "loopback" or d["endpoint"] == "http://127.0.0.1:1", "endpoint over unix"),
            (isinstance(d["expires_at_ms"], int) and 0 < ahead <= 60_000, "expires_at_ms"),
        ):
            if not ok:
                raise Wrong(f"descriptor: {what}")
        self.authority = d["endpoint"].removeprefix("http://")
        self.identity = {k: d[k] for k in ("protocol", "engagement_id", "run_id", "epoch")}

    def connect(self):
        if self.descriptor["transport"] == "loopback":
            host, port = self.authority.split(":")
            return socket.create_connection((host, int(port)), timeout=60)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(60)
        # Through the folder's descriptor, so that no path is too long.
        folder = os.open(self.folder, os.O_PATH | os.O_DIRECTORY)
        try:
            sock.connect(f"/proc/self/fd/{folder}/browser.sock")
        finally:
            os.close(folder)
        return sock

    def exchange(self, method, path, headers, body):
        """Sends one request on a connection of its own; answers (status, headers, body)."""
        lines = [f"{method} {path} HTTP/1.1"]
        if not any(name.lower() == "host" for name, _ in headers):
            lines.append(f"Host: {self.authority}")
        lines += [f"{name}: {value}" for name, value in headers]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        lines.append("Connection: close")
        with self.connect() as sock:
            try:
                sock.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b""))
            except OSError:
                pass  # the answer may have come before the body's end
            return read_response(sock)

    def post(self, verb, token, message):
        return self.exchange("POST", f"/v1/browser/{verb}", [
            ("Content-Type", "application/json"), ("Authorization", f"Bearer {token}"),
        ], json.dumps(message).encode())

    def handshake(self):
        nonce = secrets.token_hex(32)
        status, _, body = self.post("handshake", self.descriptor["bootstrap_token"], {**self.identity, "client_nonce": nonce})
        if status != 200:
            return status, None
        got = strict(body)
        keys = ["capabilities", "client_nonce", "engagement_id", "epoch", "expires_at_ms", "host_commit", "protocol", "run_id", "session_token"]
        ahead = got["expires_at_ms"] - time.time() * 1000
        if sorted(got) != keys or got["client_nonce"] != nonce or sorted(got["capabilities"]) != CAPABILITIES \
                or {k: got[k] for k in self.identity} != self.identity or not 0 < ahead <= 3_600_000 \
                or got["host_commit"] != self.descriptor["host_commit"] or got["session_token"] == self.descriptor["bootstrap_token"]:
            raise Wrong("handshake's answer isn't what section 2 says")
        return status, Session(self, got["session_token"])


class Session:
    def __init__(self, registration, token):
        self.registration, self.token, self.sequence = registration, token, 0

    def message(self, action, params, wait=30.0):
        self.sequence += 1
        return {
            **self.registration.identity, "request_id": secrets.token_hex(16), "sequence": self.sequence,
            "deadline_ms": int((time.time() + wait) * 1000) - 5, "action": action, "params": params,
        }

    def act(self, action, params=None, wait=30.0):
        """Does one action and answers its result, checked as far as the envelope goes."""
        sent = self.message(action, params or {}, wait)
        status, headers, body = self.registration.post("action", self.token, sent)
        if status != 200:
            raise Wrong(f"{action}: status {status} {body[:200]!r}")
        got = strict(body)
        want = {**self.registration.identity, "request_id": sent["request_id"], "sequence": sent["sequence"]}
        if headers.get("content-type") != "application/json" or {k: got[k] for k in want} != want or sorted(got) != sorted([*want, "result"]):
            raise Wrong(f"{action}: envelope {sorted(got)}")
        return got["result"]


def read_response(sock):
    data = b""
    try:
        while chunk := sock.recv(1 << 16):
            data += chunk
    except ConnectionResetError:
        pass
    head, found, body = data.partition(b"\r\n\r\n")
    if not found:
        raise ConnectionError("no answer")
    lines = head.decode("latin-1").split("\r\n")
    status = int(lines[0].split(" ")[1])
    headers = {}
    for line in lines[1:]:
        name, _, value = line.partition(": ")
        headers[name.lower()] = value
    if "content-length" not in headers:
        raise Wrong("answer without Content-Length")
    if len(body) != int(headers["content-length"]):
        raise Wrong(f"answer is cut: {len(body)} of {headers['content-length']} bytes")
    return status, headers, body


# --- transcripts (spec/transcripts/README.md) ---

PLACEHOLDER = re.compile(rb"\{\{[^{}]*\}\}")
PATTERN = re.compile(r"\{\{(hex32|hex40|hex64|within|capabilities|string|integer|any)(?: ([a-z_0-9]+))?\}\}")


class Names(dict):
    """What the placeholders stand for."""

    def expand(self, text, patterns=False):
        return PLACEHOLDER.sub(lambda m: self.value(m.group().decode(), patterns), text)

    def value(self, text, patterns):
        if patterns and PATTERN.fullmatch(text):
            return text.encode()
        name = text[2:-2]
        word, _, rest = name.partition(" ")
        if name == "identity":
            keys = ("protocol", "engagement_id", "run_id", "epoch")
            return json.dumps({k: self[k] for k in keys})[1:-1].encode()
        if re.fullmatch(r"now[+-]\d+", name):
            return str(int(time.time() * 1000) + int(name[3:])).encode()
        if word == "new":
            kind, _, into = rest.partition(" ")
            self[into] = secrets.token_hex({"hex32": 16, "hex64": 32}[kind])
            return self[into].encode()
        if word == "repeat":
            count, _, what = rest.partition(" ")
            return what.encode() * int(count)
        if word == "bytes":
            return bytes.fromhex(rest)
        return str(self[name]).encode()

    def match(self, want, got, at="body"):
        found = PATTERN.fullmatch(want) if isinstance(want, str) else None
        if found:
            kind, arg = found.groups()
            whole = isinstance(got, int) and not isinstance(got, bool)
            ok = {
                "any": lambda: True,
                "string": lambda: isinstance(got, str),
                "integer": lambda: whole,
                "within": lambda: whole and 0 < got - time.time() * 1000 <= int(arg),
                "capabilities": lambda: isinstance(got, list) and sorted(got) == CAPABILITIES,
            }.get(kind, lambda: isinstance(got, str) and re.fullmatch(rf"[0-9a-f]{{{kind[3:]}}}", got))()
            if not ok:
                raise Wrong(f"{at} doesn't match {want}")
            if kind.startswith("hex"):
                self[arg] = got
        elif isinstance(want, dict):
            if not isinstance(got, dict) or sorted(want) != sorted(got):
                raise Wrong(f"{at}: keys {sorted(got) if isinstance(got, dict) else got}, want {sorted(want)}")
            for key in want:
                self.match(want[key], got[key], f"{at}.{key}")
        elif isinstance(want, list):
            if not isinstance(got, list) or len(want) != len(got):
                raise Wrong(f"{at}: {got!r}, want {want!r}")
            for i, item in enumerate(want):
                self.match(item, got[i], f"{at}[{i}]")
        elif type(want) is not type(got) or want != got:
            raise Wrong(f"{at}: {got!r}, want {want!r}")


def sections(data):
    """The sections of a txtar file: (name, headers, body or None)."""
    parts = re.split(rb"(?m)^-- (.+) --\n", data)
    for name, text in zip(parts[1::2], parts[2::2]):
        head, blank, body = (b"\n" + text).partition(b"\n\n")
        lines = [line.split(b": ", 1) for line in head.split(b"\n") if line]
        yield name.decode(), lines, body.removesuffix(b"\n") if blank else None


def play(registration, file):
    names = Names(registration.descriptor, authority=registration.authority)
    answers = {}

    def send(number, method, path, headers, body):
        try:
            answers[number] = registration.exchange(method, path, headers, body)
        except (OSError, Wrong) as err:
            answers[number] = err

    threads = {}
    with open(file, "rb") as f:
        data = f.read()
    for name, lines, body in sections(data):
        words = name.split()
        if words[0] == "pause":
            time.sleep(int(words[1]) / 1000)
            continue
        number = int(words[0])
        if words[1] == ">":
            headers = [(k.decode(), names.expand(v).decode()) for k, v in lines]
            content = None if body is None else names.expand(body)
            threads[number] = threading.Thread(target=send, args=(number, words[2], words[3], headers, content))
            threads[number].start()
            continue
        threads[number].join()
        if isinstance(answers[number], Exception):
            raise Wrong(f"request {number}: {answers[number]!r}")
        status, headers, got = answers[number]
        if str(status) not in words[2].split("|"):
            raise Wrong(f"request {number}: status {status}, want {words[2]}; {got[:200]!r}")
        for key, value in lines:
            if headers.get(key.decode().lower()) != value.decode():
                raise Wrong(f"request {number}: {key.decode()} is {headers.get(key.decode().lower())!r}, want {value.decode()!r}")
        if body is not None:
            names.match(json.loads(names.expand(body, patterns=True)), strict(got), f"request {number}")


# --- the other conversations ---


def race(registration, count):
    """That many handshakes at once: exactly one session, which works."""
    results, gate = [], threading.Barrier(count)

    def one():
        gate.wait()
        results.append(registration.handshake())

    threads = [threading.Thread(target=one) for _ in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    statuses = sorted(status for status, _ in results)
    if statuses.count(200) != 1 or not set(statuses) <= {200, 401, 409}:
        raise Wrong(f"{count} handshakes: {statuses}")
    session = next(s for _, s in results if s)
    if session.act("list_tabs") != {"tabs": [], "active": None}:
        raise Wrong("the one session doesn't work")
    status, _ = registration.handshake()
    if status not in (401, 409):
        raise Wrong(f"handshake after the race: {status}")


def begin(registration):
    status, session = registration.handshake()
    if session is None:
        raise Wrong(f"handshake: status {status}")
    return session


def check(what, got, want):
    """want maps each key to a value, or to a predicate."""
    if not isinstance(got, dict) or sorted(got) != sorted(want):
        raise Wrong(f"{what}: keys {sorted(got)}, want {sorted(want)}")
    for key, rule in want.items():
        if not (rule(got[key]) if callable(rule) else (type(rule) is type(got[key]) and rule == got[key])):
            raise Wrong(f"{what}: {key} is {str(got[key])[:200]!r}")


def shot(kind, magic):
    def whole(result):
        raw = base64.b64decode(result["base64"], validate=True)
        check(kind, result, {"format": kind, "bytes": len(raw), "base64": lambda _: raw.startswith(magic)})
    return whole


def actions(registration, site):
    """All thirteen actions once, with exactly their result's keys."""
    s = begin(registration)
    failed = {"error": "BROWSER_ACTION_FAILED"}
    check("list_tabs before launch", s.act("list_tabs"), {"tabs": [], "active": None})
    check("goto before launch", s.act("goto", {"url": site}), failed)
    check("launch", s.act("launch"), {"tabs": ["main"], "active": "main"})
    check("launch again", s.act("launch", {"headless": True}), {"tabs": ["main"], "active": "main"})
    check("goto", s.act("goto", {"url": site + "/form"}), {"url": site + "/form", "status": 200, "title": "A form"})
    check("goto 404", s.act("goto", {"url": site + "/missing"}), {"url": site + "/missing", "status": 404, "title": ""})
    check("goto out of scope", s.act("goto", {"url": "http://example.com/"}), {"error": "BROWSER_SCOPE_DENIED"})
    check("goto file", s.act("goto", {"url": "file:///etc/passwd"}), {"error": "BROWSER_SCOPE_DENIED"})
    check("goto blank", s.act("goto", {"url": "about:blank"}), {"url": "about:blank", "status": None, "title": ""})
    s.act("goto", {"url": site + "/form"})
    check("type", s.act("type", {"selector": "#name", "text": "Zoë 🙂"}), {"typed_into": "#name", "chars": 5})
    check("click", s.act("click", {"selector": "#go"}), {"clicked": "#go", "url": site + "/form"})
    check("click nothing", s.act("click", {"selector": "#none", "timeout_ms": 200}), failed)
    check("eval_js", s.act("eval_js", {"expression": "({name: document.title, n: [1, null, true]})"}),
          {"result": {"name": "hello Zoë 🙂", "n": [1, None, True]}})
    check("eval_js throws", s.act("eval_js", {"expression": "nowhere.to.be.found"}), failed)
    check("scroll", s.act("scroll", {"dx": 0, "dy": 120}), {"scrolled": {"dx": 0, "dy": 120}, "url": site + "/form"})
    check("console_logs", s.act("console_logs"), {"count": lambda n: n >= 1, "lines": lambda lines: "[log] clicked" in lines})
    source = s.act("page_source")
    check("page_source", source, {"url": site + "/form", "bytes": len(source["html"].encode()), "html": lambda h: "<h1>&lt;Form&gt;</h1>" in h})
    shot("png", b"\x89PNG\r\n\x1a\n")(s.act("screenshot", {"full_page": True}))
    shot("pdf", b"%PDF-")(s.act("pdf"))
    check("switch_tab", s.act("switch_tab", {"tab_id": "second"}), {"active": "second"})
    check("list_tabs", s.act("list_tabs"), {"tabs": ["main", "second"], "active": "second"})
    check("result too large", s.act("eval_js", {"expression": "'x'.repeat(9 << 20)"}), failed)
    check("cut by nothing", s.act("eval_js", {"expression": "'<&>'.repeat(1 << 20)"}), {"result": "<&>" * (1 << 20)})
    check("close", s.act("close"), {"closed": True})
    check("list_tabs after close", s.act("list_tabs"), {"tabs": [], "active": None})


def hold(registration, site):
    """Opens a session, tells so, and acts for ever: for tests that kill things."""
    s = begin(registration)
    s.act("launch")
    s.act("goto", {"url": site + "/form"})
    print("holding", flush=True)
    while True:
        if s.act("eval_js", {"expression": "new Promise(done => setTimeout(() => done(1), 300))"}) != {"result": 1}:
            return  # the browser is gone
        print("acted", flush=True)


MODES = {
    "play": play,
    "race": lambda registration, count: race(registration, int(count)),
    "actions": actions,
    "hold": hold,
}

if __name__ == "__main__":
    try:
        MODES[sys.argv[1]](Registration(sys.argv[2]), *sys.argv[3:])
    except Wrong as err:
        sys.exit(f"conform.py {sys.argv[1]}: {err}")
