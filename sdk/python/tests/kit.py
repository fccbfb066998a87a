"""What the tests share: the spec's files, a stand-in host, and the real one."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import secrets
import socket
import socketserver
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
SPEC = ROOT / "spec"
CHAPERONE = ROOT / "bin" / "chaperone"
ENGAGEMENT = "acme-2026"
PATIENCE = 60.0  # seconds, for what takes one

CAPABILITIES = (
    "cancel click close console_logs eval_js goto launch list_tabs page_source pdf scope-enforced screenshot scroll "
    "switch_tab type"
).split()


def now_ms() -> int:
    return time.time_ns() // 1_000_000


# The spec's placeholders (spec/transcripts/README.md).


class Names(dict[str, str]):
    """What the placeholders of one conversation stand for."""

    _placeholder = re.compile(rb"\{\{[^{}]*\}\}")
    _pattern = re.compile(r"\{\{(hex(?:32|40|64) [a-z_0-9]+|within \d+|capabilities|string|integer|any)\}\}")

    at: int | None = None  # Unix milliseconds; None: now

    def expand(self, text: bytes, patterns: bool = False) -> bytes:
        def value(m: re.Match[bytes]) -> bytes:
            whole = m[0].decode()
            return m[0] if patterns and self._pattern.fullmatch(whole) else self._value(whole[2:-2])

        return self._placeholder.sub(value, text)

    def _value(self, name: str) -> bytes:
        word, _, rest = name.partition(" ")
        if name == "identity":
            return self.expand(
                b'"protocol":"owned-browser-v1","engagement_id":"{{engagement_id}}",'
                b'"run_id":"{{run_id}}","epoch":"{{epoch}}"'
            )
        if name.startswith(("now+", "now-")):
            return str((now_ms() if self.at is None else self.at) + int(name[3:])).encode()
        if word == "new":
            kind, into = rest.split(" ")
            self[into] = secrets.token_hex(int(kind[3:]) // 2)
            return self[into].encode()
        if word == "repeat":
            count, _, text = rest.partition(" ")
            return text.encode() * max(int(count), 0)
        if word == "bytes":
            return bytes.fromhex(rest)
        return self[name].encode()

    def match(self, want: bytes, got: bytes) -> str:
        """Compare an answer's body with what a transcript wants; answer what is wrong, or nothing."""
        return self._match("", json.loads(self.expand(want, patterns=True)), json.loads(got))

    def _match(self, at: str, want: Any, got: Any) -> str:
        if isinstance(want, dict):
            if not isinstance(got, dict) or want.keys() != got.keys():
                return f"{at}: other keys"
            return next((w for k in want if (w := self._match(f"{at}/{k}", want[k], got[k]))), "")
        if isinstance(want, list):
            if not isinstance(got, list) or len(want) != len(got):
                return f"{at}: another length"
            return next((w for i, v in enumerate(want) if (w := self._match(f"{at}/{i}", v, got[i]))), "")
        if isinstance(want, str) and (m := self._pattern.fullmatch(want)):
            return "" if self._fits(m[1], got) else f"{at}: isn't {want}"
        return "" if type(want) is type(got) and want == got else f"{at}: isn't {want!r}"

    def _fits(self, pattern: str, got: Any) -> bool:
        kind, _, rest = pattern.partition(" ")
        if kind in ("any", "string", "integer"):
            return kind == "any" or type(got) is {"string": str, "integer": int}[kind]
        if kind == "within":
            return type(got) is int and now_ms() < got <= now_ms() + int(rest)
        if kind == "capabilities":
            return sorted(got) == CAPABILITIES
        self[rest] = got
        return re.fullmatch(f"[0-9a-f]{{{kind[3:]}}}", got) is not None


def vectors(name: str) -> list[dict[str, Any]]:
    """Answer the vectors of a file that Go reads too."""
    found: list[dict[str, Any]] = json.loads((SPEC / "vectors" / f"{name}.json").read_text())["vectors"]
    assert found
    return found


# The foreign side.


Answer = Callable[["StandIn", str, bytes, BaseHTTPRequestHandler], bool]


@dataclasses.dataclass
class StandIn:
    """A host that has no browser: real HTTP on a real socket in a real registration.

    It answers as a test tells it to, and conforms without being told.
    """

    directory: Path
    run_id: str = dataclasses.field(default_factory=lambda: str(uuid.uuid4()))
    answer: Answer | None = None
    seen: list[tuple[str, bytes, dict[str, str]]] = dataclasses.field(default_factory=list)
    epoch: str = "e" * 64
    token: str = "b" * 64
    session: str = "5" * 64
    commit: str = "c" * 40
    expires: int = 30_000
    lives: int = 3_000_000

    @property
    def folder(self) -> Path:
        return self.directory / self.run_id

    @property
    def file(self) -> Path:
        return self.folder / "browser.json"

    @property
    def config(self) -> dict[str, Any]:
        return {"configurable": {"run_id": self.run_id, "desktop_engagement_id": ENGAGEMENT}}

    def identity(self) -> dict[str, Any]:
        return {"protocol": "owned-browser-v1", "engagement_id": ENGAGEMENT, "run_id": self.run_id, "epoch": self.epoch}

    def descriptor(self) -> dict[str, Any]:
        return {
            **self.identity(), "endpoint": "http://127.0.0.1:1", "transport": "unix", "bootstrap_token": self.token,
            "expires_at_ms": now_ms() + self.expires, "host_commit": self.commit,
        }  # fmt: skip

    def publish(self, **other: Any) -> None:
        self.write(json.dumps({**self.descriptor(), **other}).encode())

    def write(self, data: bytes) -> None:
        draft = self.folder / "new"
        draft.write_bytes(data)
        draft.chmod(0o600)
        draft.rename(self.file)

    def count(self, verb: str) -> int:
        return sum(v == verb for v, _, _ in self.seen)

    def good(self, verb: str, body: bytes) -> bytes:
        q = json.loads(body)
        echo = {k: q[k] for k in ("protocol", "engagement_id", "run_id", "epoch")}
        if verb == "handshake":
            return json.dumps({
                **echo, "client_nonce": q["client_nonce"], "session_token": self.session, "host_commit": self.commit,
                "expires_at_ms": now_ms() + self.lives, "capabilities": CAPABILITIES,
            }).encode()  # fmt: skip
        echo |= {"request_id": q["request_id"], "sequence": q["sequence"]}
        more = {"cancelled": True} if verb == "cancel" else {"result": {"tabs": [], "active": None}}
        return json.dumps(echo | more).encode()

    @contextlib.contextmanager
    def serving(self) -> Iterator[StandIn]:
        host = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = False

            def address_string(self) -> str:
                return "socket"

            def log_message(self, *_: object) -> None: ...

            def do_POST(self) -> None:
                verb = self.path.removeprefix("/v1/browser/")
                body = self.rfile.read(int(self.headers["Content-Length"]))
                host.seen.append((verb, body, dict(self.headers.items())))
                if host.answer is None or not host.answer(host, verb, body, self):
                    reply(self, 200, host.good(verb, body))

        class Server(socketserver.ThreadingUnixStreamServer):
            daemon_threads = True
            request_queue_size = 64

            def handle_error(self, request: Any, client_address: Any) -> None: ...  # clients may hang up

        self.folder.mkdir(mode=0o700)
        fd = os.open(self.folder, os.O_RDONLY)  # a test's folder may have a longer name than a socket can
        server = Server(f"/proc/self/fd/{fd}/browser.sock", Handler)
        os.close(fd)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        self.publish()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def reply(
    h: BaseHTTPRequestHandler, status: int, body: bytes, headers: dict[str, str] | None = None, content_type: str = "application/json"
) -> bool:
    h.send_response_only(status)
    if content_type:
        h.send_header("Content-Type", content_type)
    else:
        h.wfile.flush()
        h._headers_buffer.append(b"Content-Type: \r\n")  # type: ignore[attr-defined]
    for name, value in (headers or {}).items():
        h.send_header(name, value)
    if status != 204:
        h.send_header("Content-Length", str(len(body)))
    h.send_header("Connection", "close")
    h.end_headers()
    with contextlib.suppress(OSError):
        h.wfile.write(body)
    h.close_connection = True
    return True


def raw(h: BaseHTTPRequestHandler, text: bytes) -> bool:
    h.wfile.write(text)
    h.wfile.flush()
    h.connection.shutdown(socket.SHUT_RDWR)
    h.close_connection = True
    return True


def refused(h: BaseHTTPRequestHandler, status: int, code: str) -> bool:
    return reply(h, status, json.dumps({"error": code}).encode())


# The real side.


class Site:
    """A small site on loopback that a scope may allow."""

    def __enter__(self) -> Site:
        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None: ...

            def do_GET(self) -> None:
                body = (
                    "<!doctype html><title>page</title><button onclick=\"document.title='clicked'\">go</button>"
                    "<input id=q><p>" + self.path + "</p>"
                ).encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def scope(folder: Path, engagement: str = ENGAGEMENT) -> Path:
    """Write a scope that allows loopback."""
    file = folder / f"{engagement}.yaml"
    file.write_text(f"engagement: {engagement}\nallow:\n  - host: 127.0.0.1\n    ports: ['*']\n")
    return file


@contextlib.contextmanager
def real_host(folder: Path, directory: Path, run_id: str, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start ``chaperone host`` and end it; it is ready inside."""
    assert CHAPERONE.exists(), "build it: make build"
    process = subprocess.Popen(
        [CHAPERONE, "host", "--home", folder / "home", "--engagement", ENGAGEMENT, "--run-id", run_id,
         "--dir", directory, "--scope", scope(folder), *more],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    try:
        assert json.loads(process.stdout.readline())["ready"] is True
        yield process
    finally:
        process.stdin.close()
        process.wait(PATIENCE)
        process.stdout.close()
