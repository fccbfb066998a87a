"""owned-browser-v1: descriptors, answers, and what each fault is called.

The normative text is spec/owned-browser.md of the project, section 2. Times are
Unix milliseconds. Everything that comes in is decoded here, once, into values that
can't hold what is invalid.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from . import strict
from .errors import BROWSER_ACTION_FAILED, BROWSER_PROTOCOL_ERROR, INCOMPATIBLE_RUNTIME, BrowserError
from .strict import Fault, hexadecimal, identifier, integer

PROTOCOL = "owned-browser-v1"
ACTIONS = (
    "launch", "goto", "click", "type", "scroll", "screenshot", "eval_js",
    "console_logs", "page_source", "pdf", "list_tabs", "switch_tab", "close",
)  # fmt: skip
CAPABILITIES = frozenset(ACTIONS) | {"cancel", "scope-enforced"}
UNIX_ENDPOINT = "http://127.0.0.1:1"
MAX_BOOTSTRAP_MS = 60_000
MAX_SESSION_MS = 3_600_000
MAX_DEADLINE_MS = 30_000
MAX_SEQUENCE = 2**53 - 1


def now_ms() -> int:
    """Answer the present Unix time in milliseconds."""
    return time.time_ns() // 1_000_000


class Secret:
    """A credential that shows itself in no repr, log or traceback.

    It can't be pickled or copied into a checkpoint either.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Answer the credential, for the one header it belongs in."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(…)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and secrets.compare_digest(self._value, other._value)

    def __hash__(self) -> int:
        return id(self)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a credential isn't copied")


@dataclass(frozen=True)
class Identity:
    """The binding that every message carries."""

    engagement_id: str
    run_id: str
    epoch: str
    protocol: str = PROTOCOL

    def message(self, **more: Any) -> dict[str, Any]:
        """Answer a message of this binding."""
        return {
            "protocol": self.protocol, "engagement_id": self.engagement_id,
            "run_id": self.run_id, "epoch": self.epoch, **more,
        }  # fmt: skip


def _endpoint(value: Any) -> bool:
    port = re.fullmatch(r"http://127\.0\.0\.1:([1-9][0-9]{0,4})", value) if isinstance(value, str) else None
    return port is not None and int(port[1]) <= 65535


_BINDING: dict[str, strict.Check] = {
    "protocol": strict.text, "engagement_id": identifier, "run_id": identifier, "epoch": hexadecimal(64),
}  # fmt: skip
_DESCRIPTOR: dict[str, strict.Check] = {
    **_BINDING,
    "endpoint": _endpoint,
    "transport": lambda v: v in ("unix", "loopback"),
    "bootstrap_token": hexadecimal(64),
    "expires_at_ms": integer(0, 2**63 - 1),
    "host_commit": hexadecimal(40),
}


def _capabilities(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == len(CAPABILITIES)
        and all(isinstance(v, str) for v in value)
        and frozenset(value) == CAPABILITIES
    )


_HANDSHAKE: dict[str, strict.Check] = {
    **_BINDING,
    "client_nonce": hexadecimal(64),
    "session_token": hexadecimal(64),
    "expires_at_ms": integer(0, 2**62),
    "host_commit": hexadecimal(40),
    "capabilities": _capabilities,
}
_PAIR: dict[str, strict.Check] = {**_BINDING, "request_id": hexadecimal(32), "sequence": integer(1, MAX_SEQUENCE)}
_ACTION: dict[str, strict.Check] = {**_PAIR, "result": lambda v: isinstance(v, (dict, strict.TooDeep))}
_CANCEL: dict[str, strict.Check] = {**_PAIR, "cancelled": lambda v: v is True}
_ERROR: dict[str, strict.Check] = {
    "error": lambda v: isinstance(v, str) and re.fullmatch(r"[A-Z_]{1,64}", v) is not None
}


@dataclass(frozen=True)
class NativeBrowserDescriptor:
    """The registration of one run: where its host listens, and the one-use credential.

    ``expires_at_ms`` is in Unix milliseconds, at most 60 s ahead; ``endpoint`` is
    exactly ``http://127.0.0.1:PORT``; ``host_commit`` is the host build's revision,
    40 lower-case hex. Keep it out of logs: its repr leaves the credential out.
    """

    identity: Identity
    endpoint: str
    transport: str
    bootstrap_token: Secret
    expires_at_ms: int
    host_commit: str

    @classmethod
    def decode(cls, data: bytes | Mapping[str, Any], at_ms: int | None = None) -> NativeBrowserDescriptor:
        """Decode a descriptor's file, or a mapping of exactly its names.

        Whatever isn't a descriptor that is valid at ``at_ms`` (Unix milliseconds, else
        now) raises ``INCOMPATIBLE_RUNTIME``.
        """
        why = ""
        try:
            d = strict.decode(data if isinstance(data, bytes) else strict.encode(data), _DESCRIPTOR)
            why = _descriptor_fault(d, now_ms() if at_ms is None else at_ms)
        except Fault as fault:
            why = str(fault)
        if why:
            raise BrowserError(INCOMPATIBLE_RUNTIME, f"the descriptor {why}")
        return cls(
            Identity(d["engagement_id"], d["run_id"], d["epoch"]), d["endpoint"], d["transport"],
            Secret(d["bootstrap_token"]), d["expires_at_ms"], d["host_commit"],
        )  # fmt: skip

    def encode(self) -> bytes:
        """Encode the descriptor for its private file."""
        return strict.encode(
            self.identity.message(
                endpoint=self.endpoint, transport=self.transport, bootstrap_token=self.bootstrap_token.reveal(),
                expires_at_ms=self.expires_at_ms, host_commit=self.host_commit,
            )  # fmt: skip
        )

    @property
    def authority(self) -> str:
        """The HTTP authority, which the Host header repeats."""
        return self.endpoint.removeprefix("http://")


def _descriptor_fault(d: Mapping[str, Any], now: int) -> str:
    if d["protocol"] != PROTOCOL:
        return "is of another protocol"
    if d["transport"] == "unix" and d["endpoint"] != UNIX_ENDPOINT:
        return f"must have the endpoint {UNIX_ENDPOINT} with transport unix"
    if d["expires_at_ms"] <= now:
        return "has expired: start the run again for a fresh registration"
    if d["expires_at_ms"] > now + MAX_BOOTSTRAP_MS:
        return "expires more than 60 s from now"
    return ""


@dataclass(frozen=True)
class Handshake:
    """An opened session: its credential, and when it ends (Unix ms)."""

    session_token: Secret
    expires_at_ms: int


def decode_handshake(body: bytes, d: NativeBrowserDescriptor, nonce: str) -> Handshake:
    """Decode the answer to a handshake; every fault is ``INCOMPATIBLE_RUNTIME``."""
    why = ""
    try:
        r = strict.decode(body, _HANDSHAKE)
        why = _handshake_fault(r, d, nonce)
    except Fault as fault:
        why = str(fault)
    if why:
        raise BrowserError(INCOMPATIBLE_RUNTIME, f"the answer to the handshake {why}")
    return Handshake(Secret(r["session_token"]), r["expires_at_ms"])


def _handshake_fault(r: Mapping[str, Any], d: NativeBrowserDescriptor, nonce: str) -> str:
    now = now_ms()
    if not _bound(r, d.identity):
        return "is another run's"
    if not secrets.compare_digest(r["client_nonce"], nonce):
        return "repeats another nonce"
    if r["host_commit"] != d.host_commit:
        return "is of another build than the descriptor"
    if Secret(r["session_token"]) == d.bootstrap_token:
        return "hands the bootstrap token back"
    if not now < r["expires_at_ms"] <= now + MAX_SESSION_MS:
        return "expires outside the next hour"
    return ""


def _bound(r: Mapping[str, Any], identity: Identity) -> bool:
    return Identity(r["engagement_id"], r["run_id"], r["epoch"], r["protocol"]) == identity


def _answer(body: bytes, checks: Mapping[str, strict.Check], identity: Identity, request_id: str, sequence: int) -> dict[str, Any]:
    why = ""
    try:
        r = strict.decode(body, checks)
    except Fault as fault:
        why = str(fault)
    if why:
        raise BrowserError(BROWSER_PROTOCOL_ERROR, f"the answer {why}")
    if not _bound(r, identity):
        raise BrowserError(INCOMPATIBLE_RUNTIME, "the answer is another run's")
    if r["request_id"] != request_id or r["sequence"] != sequence:
        raise BrowserError(BROWSER_PROTOCOL_ERROR, "the answer is to another request")
    return r


def decode_action(body: bytes, identity: Identity, request_id: str, sequence: int) -> dict[str, Any]:
    """Decode the answer to an action and answer its result object.

    A result that is nested deeper than Python can hold becomes a failed action: a
    page mustn't be able to end a session by what it says.
    """
    result = _answer(body, _ACTION, identity, request_id, sequence)["result"]
    return {"error": BROWSER_ACTION_FAILED} if isinstance(result, strict.TooDeep) else result


def decode_cancel(body: bytes, identity: Identity, request_id: str, sequence: int) -> None:
    """Decode the answer to a cancel; anything but ``cancelled: true`` is refused."""
    _answer(body, _CANCEL, identity, request_id, sequence)


def decode_error(body: bytes) -> str:
    """Answer the code of an error body, "" where it isn't exactly ``{"error": CODE}``."""
    try:
        code = strict.decode(body, _ERROR)["error"]
    except Fault:
        return ""
    return str(code)
