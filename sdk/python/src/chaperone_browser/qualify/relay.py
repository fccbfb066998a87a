"""A host with its socket relayed, so that the session's credential is known to a search.

The real host publishes in a directory of its own; what the agent finds is the same
descriptor beside a socket of ours, which passes bytes on and reads the one token in
them. Nothing is changed on the way.
"""

from __future__ import annotations

import asyncio
import os
import re
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import TracebackType
from typing import Any

from ..host import NativeHost
from ..protocol import NativeBrowserDescriptor

_TOKEN = re.compile(rb'"session_token":"([0-9a-f]{64})"')


class Relayed(AbstractAsyncContextManager[Any]):
    """One relayed host; ``tokens`` are the credentials that passed."""

    def __init__(self, host: NativeHost, behind: Path, tokens: set[str], ids: tuple[str, str], directory: Path) -> None:
        self._engagement, self._run = ids
        self._real = behind / self._run
        self._context = host(self._engagement, self._run, self._real)
        self._tokens, self._directory = tokens, directory
        self._server: asyncio.AbstractServer | None = None

    async def __aenter__(self) -> NativeBrowserDescriptor:
        """Start the host and the relay; the lifecycle publishes what this answers."""
        await self._context.__aenter__()
        try:
            descriptor = NativeBrowserDescriptor.decode((self._real / "browser.json").read_bytes())
            self._tokens.add(descriptor.bootstrap_token.reveal())
            self._directory.mkdir(mode=0o700)
            fd = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
            try:
                self._server = await asyncio.start_unix_server(self._pass, f"/proc/self/fd/{fd}/browser.sock")
            finally:
                os.close(fd)
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return descriptor

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        fd = os.open(self._real, os.O_RDONLY | os.O_DIRECTORY)
        try:
            there, back = await asyncio.open_unix_connection(f"/proc/self/fd/{fd}/browser.sock")
        finally:
            os.close(fd)
        await asyncio.gather(self._pump(reader, back, False), self._pump(there, writer, True))

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, look: bool) -> None:
        seen = b""
        try:
            while data := await source.read(1 << 16):
                if look:
                    seen = (seen + data)[-(1 << 17) :]
                    self._tokens.update(t.decode() for t in _TOKEN.findall(seen))
                sink.write(data)
                await sink.drain()
            if look:
                sink.close()
            else:
                sink.write_eof()
        except OSError:
            sink.close()

    async def __aexit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End both."""
        if self._server is not None:
            self._server.close()
        for name in ("browser.sock", "browser.json"):
            (self._directory / name).unlink(missing_ok=True)
        if self._directory.exists():
            self._directory.rmdir()
        await self._context.__aexit__(None, None, None)
