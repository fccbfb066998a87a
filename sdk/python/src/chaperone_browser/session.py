"""One handshake, and the strictly ordered actions that follow it.

A session is open until something about it can't be trusted any more: a lost
connection, an answer that isn't exactly what the protocol says, credentials that
were refused, its expiry, a registration that changed or went. From then on it is
dead, every call raises the code of what ended it, and only a new registration
helps: nothing is ever sent twice. A failed action, a deadline that the host kept
and an acknowledged cancel leave it open.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import Mapping
from typing import Any, NoReturn

from . import protocol, strict
from .errors import (
    BROWSER_ACTION_FAILED,
    BROWSER_DISCONNECTED,
    BROWSER_PROTOCOL_ERROR,
    BROWSER_TIMEOUT,
    UNAUTHORIZED_ADAPTER,
    BrowserError,
)
from .registration import Registration
from .threads import in_thread, shielded
from .wire import ACTION, CANCEL, HANDSHAKE, Conflict, KeptDeadline, Request

HANDSHAKE_SECONDS = 10.0
CANCEL_SECONDS = 2.0
GRACE_SECONDS = 2.0
DEADLINE_SECONDS = protocol.MAX_DEADLINE_MS / 1000


class Session:
    """One authenticated session with a host. Any thread and any task may use it."""

    def __init__(self, registration: Registration) -> None:
        """Make the handshake, once: the attempt spends the token. Blocks up to 10 s."""
        d = registration.descriptor
        nonce = secrets.token_hex(32)
        until = time.monotonic() + HANDSHAKE_SECONDS
        body = strict.encode(d.identity.message(client_nonce=nonce))
        data = Request(registration.dial, d.authority, HANDSHAKE, d.bootstrap_token, body, until).post()
        opened = protocol.decode_handshake(data, d, nonce)
        self._reg, self._token, self.expires_at_ms = registration, opened.session_token, opened.expires_at_ms
        self._turn = threading.Condition()  # over the three below
        self._busy = False
        self._sequence = 0
        self._dead: BrowserError | None = None

    def __repr__(self) -> str:
        return f"<browser session of run {self.run_id}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a session isn't copied")

    @property
    def engagement_id(self) -> str:
        """The engagement of the registration."""
        return self._reg.descriptor.identity.engagement_id

    @property
    def run_id(self) -> str:
        """The run of the registration."""
        return self._reg.descriptor.identity.run_id

    @property
    def ended(self) -> BrowserError | None:
        """Why the session is over, None while it is open."""
        return self._dead

    def act(self, action: str, params: Mapping[str, Any], timeout: float = DEADLINE_SECONDS) -> dict[str, Any]:
        """Do one action and answer its result object. Blocks.

        ``timeout`` is in seconds, at most 30; time spent behind another action
        counts. The result has the action's own keys, or is ``{"error": CODE}`` of a
        failed action. Everything else raises ``BrowserError``.
        """
        flight = _Flight(self, action, params, timeout)
        try:
            return flight.run()
        except Exception:
            raise
        except BaseException:  # KeyboardInterrupt and its kin: the caller has gone
            flight.cancel()
            raise

    async def aact(self, action: str, params: Mapping[str, Any], timeout: float = DEADLINE_SECONDS) -> dict[str, Any]:
        """Do what ``act`` does, in a task.

        A cancelled task first asks the host to stop the action, shielded and for at
        most two seconds; then the cancellation goes on.
        """
        flight = _Flight(self, action, params, timeout)
        running = in_thread(flight.run)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await shielded(in_thread(flight.cancel))
            raise

    def check(self) -> None:
        """Raise what ended the session, also when its registration went just now."""
        ended: BrowserError | None = None
        if protocol.now_ms() >= self.expires_at_ms:
            ended = BrowserError(UNAUTHORIZED_ADAPTER, "the session has expired")
        else:
            try:
                self._reg.check_unchanged()
            except BrowserError as err:
                ended = err
        if ended is not None:
            self.end(ended)
        dead = self._dead
        if dead is not None:
            raise BrowserError(dead.code, "the session is over, only a new registration helps")

    def end(self, err: BrowserError) -> None:
        """Make the session dead; the first reason stays, without the frames it came by."""
        with self._turn:
            if self._dead is None:
                self._dead = BrowserError(err.code, str(err).removesuffix(f": {err.code}"))

    def close(self) -> None:
        """End the session on this side. The host ends with whoever started it."""
        self.end(BrowserError(BROWSER_DISCONNECTED, "the session was closed"))
        with self._turn:
            # The folder must not be closed under a connection that is being made.
            self._turn.wait_for(lambda: not self._busy, DEADLINE_SECONDS + GRACE_SECONDS)
            self._reg.close()

    def release(self) -> None:
        """Let a dead session's folder go, unless it is in use."""
        with self._turn:
            if self._dead is not None and not self._busy:
                self._reg.close()


class _Flight:
    """One action under way: one thread runs it, another may cancel it."""

    def __init__(self, session: Session, action: str, params: Mapping[str, Any], timeout: float) -> None:
        if action not in protocol.ACTIONS:
            # Not sent: the host's refusal would end the session.
            raise BrowserError(BROWSER_PROTOCOL_ERROR, "there is no such action")
        self._session, self._action, self._params = session, action, params
        seconds = min(max(timeout, 0.0), DEADLINE_SECONDS)
        self._until, self._deadline_ms = time.monotonic() + seconds, protocol.now_ms() + int(seconds * 1000)
        self._id, self._number = secrets.token_hex(16), 0
        self._request: Request | None = None  # once a sequence is drawn for it
        self._given_up = False
        self._failed: BrowserError | None = None
        self._over = threading.Event()

    def __repr__(self) -> str:
        return f"<action {self._action} of {self._session!r}>"

    def run(self) -> dict[str, Any]:
        """Wait for this action's turn, send it and judge the answer."""
        s = self._session
        try:
            with s._turn:
                free = s._turn.wait_for(lambda: self._given_up or not s._busy, max(self._until - time.monotonic(), 0))
                if self._given_up or not free:
                    raise BrowserError(BROWSER_TIMEOUT, "behind another action")
                s._busy = True
            try:
                return self._send()
            finally:
                with s._turn:
                    s._busy = False
                    s._turn.notify_all()
        finally:
            self._over.set()

    def _message(self) -> bytes:
        """Write the message with the next sequence; what can't be sent uses none."""
        s = self._session
        body = b""
        if isinstance(self._params, Mapping):
            try:
                body = strict.encode(
                    s._reg.descriptor.identity.message(
                        request_id=self._id, sequence=s._sequence + 1, deadline_ms=self._deadline_ms,
                        action=self._action, params=dict(self._params),
                    )  # fmt: skip
                )
            except strict.Fault:
                pass
        if not body:
            raise BrowserError(BROWSER_ACTION_FAILED, "the params can't be sent")
        return body

    def _send(self) -> dict[str, Any]:
        s, d = self._session, self._session._reg.descriptor
        body = self._message()
        s.check()
        with s._turn:
            if self._given_up:
                raise BrowserError(BROWSER_TIMEOUT, "given up before it was sent")
            s._sequence += 1
            self._number = s._sequence
            self._request = Request(s._reg.dial, d.authority, ACTION, s._token, body, self._until + GRACE_SECONDS)
        try:
            return protocol.decode_action(self._request.post(), d.identity, self._id, self._number)
        except BrowserError as err:
            self._failed = err
            # Whoever cancels judges how a cancelled action ends.
            if not isinstance(err, KeptDeadline) and not (self._given_up and isinstance(err, Conflict)):
                s.end(err)
            raise

    def cancel(self) -> None:
        """Stop the action whose caller has gone. Blocks at most two seconds.

        An action whose end nobody confirmed ends the session.
        """
        s, d = self._session, self._session._reg.descriptor
        until = time.monotonic() + CANCEL_SECONDS
        with s._turn:
            self._given_up = True
            s._turn.notify_all()
            request = self._request
        if request is None:
            return  # nothing was sent, and nothing will be
        body = strict.encode(d.identity.message(request_id=self._id, sequence=self._number))
        failed: BrowserError | None = None
        try:
            data = Request(s._reg.dial, d.authority, CANCEL, s._token, body, until).post()
            protocol.decode_cancel(data, d.identity, self._id, self._number)
        except BrowserError as err:
            failed = err
        if failed is None and not self._over.wait(max(until - time.monotonic(), 0)):
            failed = BrowserError(BROWSER_PROTOCOL_ERROR, "a cancelled action has no answer")
        if failed is not None:
            s.end(failed)
            request.abort()
