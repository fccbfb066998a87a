"""One run of an agent API with its browser around it.

The order: directory judged, run created (the server makes its id), pending to
running, host entered, registration checked, joined, true status read, host left,
folder gone. Whatever fails after the run was created also cancels it, shielded from
the caller's own cancellation. Each turn is a run and a registration of its own.
"""

from __future__ import annotations

import asyncio
import copy
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from .errors import (
    BROWSER_DISCONNECTED,
    BROWSER_PROTOCOL_ERROR,
    BROWSER_TIMEOUT,
    INCOMPATIBLE_RUNTIME,
    UNAUTHORIZED_ADAPTER,
    BrowserError,
)
from .host import NativeHost
from .protocol import NativeBrowserDescriptor
from .registration import DESCRIPTOR, SOCKET, Registration, bound, open_private
from .strict import identifier
from .threads import shielded

CANCEL_SECONDS = 10.0
PATIENCE_SECONDS = 60.0
_POLL_SECONDS = 0.25
_SWEEP_SECONDS = 5.0

_FINAL = ("success", "error", "timeout", "interrupted")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_T = TypeVar("_T")


@dataclass(frozen=True)
class NativeRun:
    """What is known of a run when it is over.

    ``status`` is the server's own word, read after the run's end: ``success``,
    ``error``, ``timeout`` or ``interrupted``. ``values`` are the thread's values then,
    None where the server doesn't tell them.
    """

    run_id: str
    thread_id: str
    status: str
    values: Any


async def run_with_native_browser(
    client: Any,
    *,
    thread_id: str,
    assistant_id: str,
    engagement_id: str,
    registrations: str | os.PathLike[str],
    host: NativeHost,
    input: Any,
    config: Mapping[str, Any] | None = None,
    wait: float = 60.0,
) -> NativeRun:
    """Run one turn of an agent with its own browser beside it, and answer how it ended.

    ``client`` is a ``langgraph_sdk`` client. ``registrations`` is the private
    directory (mode 0700) that the server has mounted at
    ``/run/chaperone/browser-runs``. ``host(engagement_id, run_id, directory)`` is
    entered when the run is active; see ``native_host``. ``input`` and ``config`` reach
    the graph as they are, but for ``configurable.desktop_engagement_id``, set on every
    turn, and ``configurable.run_id``, which is the server's alone. ``wait`` is how many
    seconds the run may be pending.

    A run that ended in another status than success is answered, not raised. Raises
    ``BrowserError`` where the browser or its registration failed, whatever the client
    raises where the API failed, and ``CancelledError`` where the caller is cancelled;
    in each case the run is cancelled at the API first.
    """
    if not identifier(engagement_id):
        raise ValueError("engagement_id must match ^[A-Za-z0-9_-]{1,128}$")
    turn = _Turn(client, thread_id, _judged(registrations))
    creating = asyncio.ensure_future(
        client.runs.create(
            thread_id, assistant_id, input=input, config=_config(config, engagement_id), multitask_strategy="reject"
        )
    )
    try:
        # Shielded: a run that is made while its caller is cancelled must be cancelled too.
        turn.take(await asyncio.shield(creating), engagement_id)
        await turn.active(wait)
        await turn.attended(host, engagement_id)
        status = await turn.status()
    except BaseException:
        if turn.run_id == "":
            turn.run_id = await shielded(asyncio.ensure_future(_created(creating)))
        await shielded(asyncio.ensure_future(turn.cancel()))
        raise
    return NativeRun(turn.run_id, thread_id, status, await turn.values())


async def _created(creating: asyncio.Future[Any]) -> str:
    """Answer the id of a run whose caller left while it was being made, "" without one."""
    try:
        run_id = (await asyncio.wait_for(creating, CANCEL_SECONDS))["run_id"]
    except Exception:
        return ""
    return run_id if isinstance(run_id, str) and _UUID.fullmatch(run_id) else ""


def _judged(registrations: str | os.PathLike[str]) -> Path:
    """Refuse a directory that no host could use, before a run is made for it."""
    path = Path(os.path.abspath(registrations))
    fd = open_private(str(path), None, directory=True)
    mode = stat.S_IMODE(os.fstat(fd).st_mode)
    os.close(fd)
    if mode != 0o700:
        raise BrowserError(UNAUTHORIZED_ADAPTER, f"the registrations directory has mode {mode:04o}: chmod 700 it")
    return path


def _config(config: Mapping[str, Any] | None, engagement_id: str) -> dict[str, Any]:
    """Answer the caller's configuration with the engagement in it, and no run id."""
    whole = copy.deepcopy(dict(config or {}))
    configurable = dict(whole.get("configurable") or {})
    configurable.pop("run_id", None)
    whole["configurable"] = {**configurable, "desktop_engagement_id": engagement_id}
    return whole


class _Turn:
    """One run at the API."""

    def __init__(self, client: Any, thread_id: str, directory: Path) -> None:
        self._client, self._thread, self._dir = client, thread_id, directory
        self.run_id = ""

    def take(self, run: Any, engagement_id: str) -> None:
        """Take the server's id, and look at what it stamped into the configuration."""
        run_id = run.get("run_id") if isinstance(run, dict) else None
        if not isinstance(run_id, str) or _UUID.fullmatch(run_id) is None:
            raise BrowserError(BROWSER_PROTOCOL_ERROR, "the API made a run without a UUID")
        self.run_id = run_id
        shown = ((run.get("kwargs") or {}).get("config") or {}).get("configurable")
        if isinstance(shown, dict) and (
            shown.get("run_id", run_id) != run_id or shown.get("desktop_engagement_id") != engagement_id
        ):
            raise BrowserError(INCOMPATIBLE_RUNTIME, "the API stamped the run with another run or engagement")

    async def status(self) -> str:
        """Read the run's status; a server that is away gets a minute."""
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return str((await self._client.runs.get(self._thread, self.run_id))["status"])
            except Exception:
                if time.monotonic() >= until:
                    raise
            await asyncio.sleep(1)

    async def active(self, wait: float) -> None:
        """Wait until the run is running."""
        until = time.monotonic() + wait
        while (status := await self.status()) == "pending":
            if time.monotonic() >= until:
                raise BrowserError(BROWSER_TIMEOUT, f"the run was still pending after {wait:g} s")
            await asyncio.sleep(_POLL_SECONDS)
        if status in _FINAL:
            raise _early(status)

    async def attended(self, host: NativeHost, engagement_id: str) -> None:
        """Keep a host beside the run until it is over, and leave nothing of it."""
        folder = self._dir / self.run_id
        context = host(engagement_id, self.run_id, folder)
        try:
            descriptor = await self._unless_over(asyncio.ensure_future(context.__aenter__()))
            try:
                if descriptor is not None:
                    _publish(folder, descriptor)
                self._check(engagement_id)
                await self._join(getattr(context, "ended", None))
            except BaseException:
                # The run first: its agent mustn't go on without its browser.
                await shielded(asyncio.ensure_future(self.cancel()))
                raise
            finally:
                if descriptor is not None:
                    _unlink(folder / DESCRIPTOR)
                await shielded(asyncio.ensure_future(_awaited(context.__aexit__(None, None, None))))
        finally:
            await shielded(asyncio.ensure_future(_swept(folder)))

    async def _unless_over(self, entering: asyncio.Future[_T]) -> _T:
        """Wait for a host to start, unless its run ends before."""
        try:
            while True:
                done, _ = await asyncio.wait({entering}, timeout=1)
                if done:
                    return entering.result()
                if (status := await self.status()) in _FINAL:
                    raise _early(status)
        except BaseException:
            if not entering.done():
                entering.cancel()
                await shielded(asyncio.ensure_future(_settled(entering)))
            raise

    def _check(self, engagement_id: str) -> None:
        """Check that what the agent will find is the registration of exactly this run."""
        root = open_private(str(self._dir), None, directory=True)
        reg = None
        try:
            reg = Registration(open_private(self.run_id, root, directory=True), DESCRIPTOR)
        except FileNotFoundError:
            pass
        finally:
            os.close(root)
        if reg is None:
            raise BrowserError(INCOMPATIBLE_RUNTIME, "the host published no registration")
        transport = bound(reg, engagement_id, self.run_id).descriptor.transport
        reg.close()
        if transport != "unix":
            raise BrowserError(INCOMPATIBLE_RUNTIME, "the host's registration isn't for a Unix socket")

    async def _join(self, ended: Callable[[], Awaitable[None]] | None) -> None:
        """Wait for the run's end. A join alone doesn't tell it: the status does."""
        gone = asyncio.ensure_future(_awaited(ended())) if ended is not None else None
        try:
            while True:
                joining = asyncio.ensure_future(self._client.runs.join(self._thread, self.run_id))
                try:
                    await asyncio.wait({joining, gone} if gone else {joining}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    joining.cancel()
                    await shielded(asyncio.ensure_future(_settled(joining)))
                if (await self.status()) in _FINAL:
                    return
                if gone is not None and gone.done():
                    raise BrowserError(BROWSER_DISCONNECTED, "the browser's host ended while the run went on")
                await asyncio.sleep(_POLL_SECONDS)
        finally:
            if gone is not None:
                gone.cancel()
                await shielded(asyncio.ensure_future(_settled(gone)))

    async def cancel(self) -> None:
        """End the run at the API and wait, for ten seconds at most, until it says so."""
        until = time.monotonic() + CANCEL_SECONDS
        while self.run_id and (left := until - time.monotonic()) > 0:
            try:
                if await asyncio.wait_for(self._cancelled(), left):
                    return
            except Exception:
                pass  # asked again: a server that was away has forgotten it
            await asyncio.sleep(_POLL_SECONDS)

    async def _cancelled(self) -> bool:
        if (await self._client.runs.get(self._thread, self.run_id))["status"] in _FINAL:
            return True
        await self._client.runs.cancel(self._thread, self.run_id)
        return False

    async def values(self) -> Any:
        """Read the thread's values; the status is what counts, so a failure is None."""
        try:
            return (await self._client.threads.get_state(self._thread))["values"]
        except Exception:
            return None


def _early(status: str) -> BrowserError:
    return BrowserError(
        BROWSER_DISCONNECTED,
        f"the run ended ({status}) before its browser was ready: "
        "its graph must wait for it when it begins (initialize_native_browser)",
    )


async def _awaited(work: Awaitable[_T]) -> _T:
    return await work


async def _settled(future: asyncio.Future[Any]) -> None:
    """Wait for a future, whatever comes of it."""
    await asyncio.wait({future})
    if not future.cancelled():
        future.exception()


async def _swept(folder: Path) -> None:
    """Wait until the run's folder is gone, and remove what dead hosts left."""
    until = time.monotonic() + _SWEEP_SECONDS
    while os.path.lexists(folder) and time.monotonic() < until:
        await asyncio.sleep(0.02)
    for name in (DESCRIPTOR, SOCKET):
        _unlink(folder / name)
    shutil.rmtree(folder, ignore_errors=True)


def _unlink(path: Path) -> None:
    try:
        path.unlink()
    except OSError:
        pass


def _publish(folder: Path, descriptor: NativeBrowserDescriptor | Mapping[str, Any]) -> None:
    """Publish a descriptor that a host answered: whole, private, and at once."""
    if not isinstance(descriptor, NativeBrowserDescriptor):
        descriptor = NativeBrowserDescriptor.decode(descriptor)
    folder.mkdir(mode=0o700, exist_ok=True)
    draft = folder / f".{secrets.token_hex(8)}"
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(descriptor.encode())
            file.flush()
            os.fsync(file.fileno())
        os.rename(draft, folder / DESCRIPTOR)
    except BaseException:
        _unlink(draft)
        raise
