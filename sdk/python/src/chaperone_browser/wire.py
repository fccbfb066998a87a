"""One request on one connection, over a Unix socket or loopback.

A kept connection could be tried twice by whoever keeps it; here nothing is ever
sent twice, no redirect is followed, no proxy setting is read, and who listens must
be who wrote the registration (``SO_PEERCRED``).
"""

from __future__ import annotations

import http.client
import io
import socket
import struct
import time
from collections.abc import Callable

from .errors import (
    BROWSER_DISCONNECTED,
    BROWSER_PROTOCOL_ERROR,
    BROWSER_TIMEOUT,
    INCOMPATIBLE_RUNTIME,
    UNAUTHORIZED_ADAPTER,
    BrowserError,
)
from .protocol import Secret, decode_error
from .strict import MAX_MESSAGE

HANDSHAKE, ACTION, CANCEL = "handshake", "action", "cancel"


class KeptDeadline(BrowserError):
    """A well-formed 504: the host stopped the action at its deadline. The session lives."""


class Conflict(BrowserError):
    """A well-formed 409: replayed, stale, or how a cancelled action ends."""


class Peer(Exception):
    """What is at the other end isn't the host that made the registration."""


Dial = Callable[[float], socket.socket]


def check_peer(sock: socket.socket, owner: int) -> None:
    """Ask the kernel whose process listens at the other end of a Unix socket."""
    _, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    if uid != owner:
        raise Peer


class _Reader(io.RawIOBase):
    """Reads a socket until a moment that doesn't move."""

    def __init__(self, sock: socket.socket, until: float) -> None:
        self._sock, self._until = sock, until

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        self._sock.settimeout(max(self._until - time.monotonic(), 0.001))
        return self._sock.recv_into(buffer)


class _Timed:
    """The part of a socket that http.client needs, under one deadline for all of it."""

    def __init__(self, sock: socket.socket, until: float) -> None:
        self._sock, self._until = sock, until

    def sendall(self, data: bytes) -> None:
        self._sock.settimeout(max(self._until - time.monotonic(), 0.001))
        self._sock.sendall(data)

    def makefile(self, _mode: str = "rb") -> io.BufferedReader:
        return io.BufferedReader(_Reader(self._sock, self._until), 1 << 16)

    def close(self) -> None:
        """Leave it open: http.client lets go of it before the body is read."""


class Request:
    """One request that another thread may abort."""

    def __init__(self, dial: Dial, authority: str, verb: str, token: Secret, body: bytes, until: float) -> None:
        """Prepare a POST to ``verb``; ``until`` is a moment of ``time.monotonic``."""
        self._dial, self._authority, self._verb = dial, authority, verb
        self._token, self._body, self._until = token, body, until
        self._sock: socket.socket | None = None
        self._aborted = False

    def __repr__(self) -> str:
        return f"<request {self._verb}>"

    def abort(self) -> None:
        """Cut the connection; whoever waits for its answer learns that it is lost."""
        self._aborted = True
        sock = self._sock
        if sock is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def post(self) -> bytes:
        """Send the request and answer the body of its 200; else raise the mapped error."""
        failure: BrowserError | None = None
        try:
            status, headers, data = self._exchange()
        except Exception as err:  # mapped below, outside its own handler
            failure = self._lost(err)
        if failure is not None:
            raise failure
        plain = headers.get_all("Content-Type") == ["application/json"] and "Content-Encoding" not in headers
        if status != 200:
            raise _refused(self._verb, status, decode_error(data) if plain else "")
        if not plain or len(data) > MAX_MESSAGE:
            raise BrowserError(malformed(self._verb), f"{self._verb}: the answer is no message of the protocol")
        return data

    def _exchange(self) -> tuple[int, http.client.HTTPMessage, bytes]:
        self._sock = self._dial(max(self._until - time.monotonic(), 0.001))
        conn = http.client.HTTPConnection(self._authority)
        try:
            if self._aborted:
                raise ConnectionAbortedError
            conn.sock = _Timed(self._sock, self._until)
            conn.auto_open = 0
            conn.putrequest("POST", f"/v1/browser/{self._verb}", skip_host=True, skip_accept_encoding=True)
            for name, value in (
                ("Host", self._authority), ("Content-Type", "application/json"),
                ("Authorization", f"Bearer {self._token.reveal()}"),
                ("Content-Length", str(len(self._body))), ("Connection", "close"),
            ):  # fmt: skip
                conn.putheader(name, value)
            try:
                conn.endheaders(self._body)
            except (BrokenPipeError, ConnectionResetError):
                pass  # a host may refuse before it has read the body; its answer counts
            response = conn.getresponse()
            lengths = response.headers.get_all("Content-Length") or []
            if response.headers.defects or len(lengths) > 1 or not all(n.isascii() and n.isdigit() for n in lengths):
                raise http.client.HTTPException
            data = response.read(MAX_MESSAGE + 1)
            if len(data) <= MAX_MESSAGE and response.length:
                raise http.client.IncompleteRead(b"")
            return response.status, response.headers, data
        finally:
            self._sock.close()

    def _lost(self, err: Exception) -> BrowserError:
        """Map a transport's failure. Its own words may quote what was received."""
        if isinstance(err, TimeoutError) or time.monotonic() >= self._until:
            return BrowserError(BROWSER_TIMEOUT, f"{self._verb}: no answer in time")
        if isinstance(err, Peer):
            return BrowserError(UNAUTHORIZED_ADAPTER, f"{self._verb}: the socket isn't the registration owner's")
        if isinstance(err, (OSError, http.client.IncompleteRead)):
            return BrowserError(BROWSER_DISCONNECTED, f"{self._verb}: the connection was lost")
        return BrowserError(malformed(self._verb), f"{self._verb}: the answer isn't HTTP")


def malformed(verb: str) -> str:
    """Answer the code of an answer that isn't one: at the handshake it means another runtime."""
    return INCOMPATIBLE_RUNTIME if verb == HANDSHAKE else BROWSER_PROTOCOL_ERROR


def _refused(verb: str, status: int, code: str) -> BrowserError:
    """Map an HTTP status that isn't 200. The status decides; a wrong body makes it fatal."""
    why = f"{verb}: answered with {status}"
    if status in (401, 403):
        return BrowserError(UNAUTHORIZED_ADAPTER, why)
    if status == 409:
        return (Conflict if code == UNAUTHORIZED_ADAPTER else BrowserError)(UNAUTHORIZED_ADAPTER, why)
    if status == 426:
        return BrowserError(INCOMPATIBLE_RUNTIME, why)
    if status == 504:
        return (KeptDeadline if code == BROWSER_TIMEOUT else BrowserError)(BROWSER_TIMEOUT, why)
    return BrowserError(malformed(verb), why)
