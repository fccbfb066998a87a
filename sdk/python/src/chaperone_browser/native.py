"""A run's browser: found, bound to the run's own ids, and used.

``initialize_native_browser`` belongs at a graph's entry, before model work: the
credential that it trades for a session lives for 60 seconds.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .errors import UNAUTHORIZED_ADAPTER, BrowserError
from .mount import BROWSER_JSON, ids_of, mount
from .protocol import NativeBrowserDescriptor
from .registration import SOCKET, Registration, open_static
from .session import Session
from .threads import in_thread
_current: contextvars.ContextVar[Session | None] = contextvars.ContextVar("chaperone_browser_session", default=None)


@contextmanager
def native_browser_session(descriptor: NativeBrowserDescriptor | str) -> Iterator[Session]:
    """Use one registration for everything that runs inside the ``with`` block.

    ``descriptor`` is the path of a descriptor's file, or a decoded descriptor, whose
    socket is then ``/run/chaperone/browser.sock`` (transport unix) or its endpoint
    (loopback). The handshake is made on entry and blocks for at most 10 s; the
    context reaches the tasks and threads that tools run in, and no model argument.
    """
    reg = _Given(descriptor) if isinstance(descriptor, NativeBrowserDescriptor) else open_static(descriptor)
    try:
        session = Session(reg)
    except BaseException:
        reg.close()
        raise
    token = _current.set(session)
    try:
        yield session
    finally:
        _current.reset(token)
        session.close()


class _Given(Registration):
    """A descriptor that its caller holds in memory; there is no file to be revoked."""

    def __init__(self, descriptor: NativeBrowserDescriptor) -> None:
        self.descriptor = NativeBrowserDescriptor.decode(descriptor.encode())  # it may have expired
        folder = os.path.dirname(BROWSER_JSON) if descriptor.transport == "unix" else "/"
        self._closed = True
        try:
            self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self._closed = False
            self.owner = os.geteuid()
            if descriptor.transport == "unix":
                self.owner = os.stat(SOCKET, dir_fd=self._folder, follow_symlinks=False).st_uid
        except OSError:
            self.close()
            raise BrowserError(UNAUTHORIZED_ADAPTER, "there is no socket mounted for the descriptor") from None
        if os.geteuid() not in (0, self.owner):
            self.close()
            raise BrowserError(UNAUTHORIZED_ADAPTER, "the mounted socket belongs to another user")

    def check_unchanged(self) -> None:
        """Refuse a session that was closed."""
        if self._closed:
            raise BrowserError(UNAUTHORIZED_ADAPTER, "the registration is gone")


def _context_session(engagement_id: Any, run_id: Any) -> Session | None:
    """Answer the context's session, which no other run may use."""
    session = _current.get()
    if session is None:
        return None
    if engagement_id not in (None, session.engagement_id) or run_id not in (None, session.run_id):
        raise BrowserError(UNAUTHORIZED_ADAPTER, "the context's session is of another run or engagement")
    session.check()
    return session


def mounted_native_browser(config: Mapping[str, Any] | None, *, _given_up: Callable[[], bool] = lambda: False) -> Session | None:
    """Answer the browser session of exactly this run, blocking.

    ``config`` is the run's own configuration: both ``configurable.run_id`` (stamped
    by the server) and ``configurable.desktop_engagement_id`` must equal the
    registration's. Waits at most 30 s for the registration and makes the handshake;
    a session that there is already is answered as it is, with its sequence.

    None where nothing is mounted and no ``native_browser_session`` is around: then
    nothing is changed. Everything else that is wrong raises ``BrowserError``.
    """
    engagement_id, run_id = ids_of(config)
    session = _context_session(engagement_id, run_id)
    if session is not None:
        return session
    return mount.session(
        engagement_id if isinstance(engagement_id, str) else "", run_id if isinstance(run_id, str) else "", _given_up
    )


async def initialize_native_browser(config: Mapping[str, Any] | None) -> Session | None:
    """Find the run's registration and shake hands, at the entry of a graph.

    Takes and answers what ``mounted_native_browser`` does, without blocking the loop.
    A cancelled task stops waiting; a handshake that has begun is finished, since it
    is made once.
    """
    given_up = False
    waiting = in_thread(lambda: mounted_native_browser(config, _given_up=lambda: given_up))
    try:
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        given_up = True
        raise


async def act(config: Mapping[str, Any] | None, action: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Do one action of the run's browser; every refusal becomes ``{"error": CODE}``."""
    code = ""
    try:
        session = await initialize_native_browser(config)
        if session is not None:
            return await session.aact(action, params)
        code = UNAUTHORIZED_ADAPTER
    except BrowserError as err:
        code = err.code
    return {"error": code}


def act_blocking(config: Mapping[str, Any] | None, action: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Do what ``act`` does, blocking."""
    code = ""
    try:
        session = mounted_native_browser(config)
        if session is not None:
            return session.act(action, params)
        code = UNAUTHORIZED_ADAPTER
    except BrowserError as err:
        code = err.code
    return {"error": code}
