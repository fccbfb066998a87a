"""``chaperone host``, started and ended as an async context manager."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import TracebackType
from typing import Any

from .errors import INCOMPATIBLE_RUNTIME, BrowserError
from .threads import shielded

NativeHost = Callable[[str, str, Path], AbstractAsyncContextManager[Any]]
"""``host(engagement_id, run_id, private_run_directory)``: a context that has a host in it.

On entry the host is ready. It either publishes ``browser.json`` in that directory by
itself and answers no descriptor (as ``native_host`` does), or answers the
``NativeBrowserDescriptor`` that the lifecycle is to publish. On exit nothing is left
of it. An attribute ``ended``, where there is one, is a coroutine function that returns
when the host has ended by itself.
"""

_START_SECONDS = 60.0
_END_SECONDS = 20.0


def native_host(
    *, scope: str | os.PathLike[str], binary: str | os.PathLike[str] | None = None, home: str | os.PathLike[str] | None = None
) -> NativeHost:
    """Make hosts that are ``chaperone host`` processes under one approved scope file.

    ``scope`` is the path of the engagement's scope file. ``binary`` is the path of the
    program, else ``chaperone`` on PATH; ``home`` is its ``--home``, else what it takes by
    itself. A program that isn't there is a ``FileNotFoundError`` here and now.
    """
    program = shutil.which(os.fspath(binary) if binary is not None else "chaperone")
    if program is None:
        raise FileNotFoundError(f"{binary or 'chaperone'} isn't there or on PATH: build it, or name it with binary=")
    more = ["--home", os.path.abspath(home)] if home is not None else []

    def host(engagement_id: str, run_id: str, directory: Path) -> AbstractAsyncContextManager[Any]:
        return HostProcess(
            [
                os.path.abspath(program), "host", *more, "--engagement", engagement_id, "--run-id", run_id,
                "--dir", os.path.abspath(directory.parent), "--scope", os.path.abspath(scope),
            ]  # fmt: skip
        )

    return host


class HostProcess(AbstractAsyncContextManager[None]):
    """One ``chaperone host``: ready on entry, gone on exit.

    It holds the other end of the host's standard input: the host also ends, with its
    browser and registration, when this process dies in whatever way.
    """

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._last = b""

    def __repr__(self) -> str:
        return "<chaperone host>"

    async def __aenter__(self) -> None:
        """Start it and wait at most 60 s for its ready line."""
        # A session of its own: Ctrl-C is for the caller, who cancels the run first.
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        self._reading = asyncio.ensure_future(self._read())
        try:
            await asyncio.wait_for(self._ready(), _START_SECONDS)
        except asyncio.TimeoutError:
            await self._ended_whatever_comes()
            raise BrowserError(INCOMPATIBLE_RUNTIME, f"the host wasn't ready within {_START_SECONDS:.0f} s") from None
        except BaseException:
            await self._ended_whatever_comes()
            raise

    async def _ready(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        line = await self._process.stdout.readline()
        ready: Any = None
        try:
            ready = json.loads(line)
        except ValueError:
            pass
        if isinstance(ready, dict) and ready.get("ready") is True:
            return
        await self._end()
        raise BrowserError(INCOMPATIBLE_RUNTIME, f"the host didn't start: {self._said()}")

    async def _read(self) -> None:
        """Keep the last of what the host says: its own words hold no credential."""
        assert self._process is not None and self._process.stderr is not None
        while chunk := await self._process.stderr.read(4096):
            self._last = (self._last + chunk)[-4096:]

    def _said(self) -> str:
        lines = self._last.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    async def ended(self) -> None:
        """Return when the host has ended by itself."""
        assert self._process is not None
        await self._process.wait()

    async def __aexit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it and wait until it is gone."""
        await self._ended_whatever_comes()

    async def _ended_whatever_comes(self) -> None:
        """End it, however often the caller is cancelled."""
        await shielded(asyncio.ensure_future(self._end()))

    async def _end(self) -> None:
        """End the process by its standard input, then by SIGTERM, then by SIGKILL."""
        p = self._process
        assert p is not None and p.stdin is not None
        p.stdin.close()
        for sign in (signal.SIGTERM, signal.SIGKILL, None):
            try:
                await asyncio.wait_for(p.wait(), _END_SECONDS)
                break
            except asyncio.TimeoutError:
                if sign is not None and p.returncode is None:
                    p.send_signal(sign)
        if self._reading is not None:
            await self._reading
