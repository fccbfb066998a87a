"""One run's private folder, checked and held open.

Others could have put there whatever isn't private: symbolic links, files that are
open to group or others and files of another user are refused. The folder is held by
a descriptor, so that a path that changes meanwhile can't lead elsewhere; that also
keeps a socket's path short of the 107 bytes it may have.
"""

from __future__ import annotations

import errno
import hashlib
import os
import socket
import stat
import time
from collections.abc import Callable
from typing import NoReturn

from .errors import UNAUTHORIZED_ADAPTER, BrowserError
from .protocol import NativeBrowserDescriptor
from .strict import identifier
from .wire import Peer, check_peer

DESCRIPTOR, SOCKET = "browser.json", "browser.sock"
WAIT_SECONDS = 30.0
_POLL_SECONDS = 0.05
_MAX_DESCRIPTOR = 64 << 10


def refuse(why: str) -> NoReturn:
    """Refuse a registration."""
    raise BrowserError(UNAUTHORIZED_ADAPTER, why)


def open_private(name: str, at: int | None, directory: bool) -> int:
    """Open a directory or a regular file that is this user's alone (any user's, for root).

    What doesn't exist is a ``FileNotFoundError``; the rest is ``UNAUTHORIZED_ADAPTER``.
    """
    # O_NONBLOCK: a FIFO in the file's place must not hold us up.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | (os.O_DIRECTORY if directory else 0)
    failed: int | None = 0
    try:
        fd = os.open(name, flags, dir_fd=at)
    except OSError as err:
        failed = err.errno
    if failed == errno.ENOENT:
        raise FileNotFoundError(errno.ENOENT, "no such registration")
    if failed != 0:
        refuse("a registration can't be opened, or is a symbolic link")
    st = os.fstat(fd)
    kind, me, why = stat.S_IFMT(st.st_mode), os.geteuid(), ""
    if kind != (stat.S_IFDIR if directory else stat.S_IFREG):
        why = "a registration isn't of the right kind"
    elif st.st_mode & 0o077:
        why = "a registration is open to others: chmod go-rwx it"
    elif me != 0 and st.st_uid != me:
        why = "a registration belongs to another user"
    if why:
        os.close(fd)
        refuse(why)
    return fd


class Registration:
    """A descriptor, the folder it lies in, and who wrote it."""

    def __init__(self, folder: int, name: str) -> None:
        """Take the folder's file descriptor over and read the descriptor in it."""
        self._folder, self._name = folder, name
        self._closed = False
        try:
            data, self.owner = self._read()
            self._sum = hashlib.sha256(data).digest()
            self.descriptor = NativeBrowserDescriptor.decode(data)
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"<registration of run {self.descriptor.identity.run_id}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a registration isn't copied")

    def _read(self) -> tuple[bytes, int]:
        fd = open_private(self._name, self._folder, directory=False)
        with os.fdopen(fd, "rb") as file:
            st = os.fstat(fd)
            if st.st_nlink == 0:  # removed, though a mount still holds it
                raise FileNotFoundError(errno.ENOENT, "no such registration")
            return file.read(_MAX_DESCRIPTOR), st.st_uid

    def check_unchanged(self) -> None:
        """Refuse a registration that was revoked or replaced."""
        why = "the registration is gone"
        try:
            if not self._closed:
                data, owner = self._read()
                same = hashlib.sha256(data).digest() == self._sum and owner == self.owner
                why = "" if same else "the registration was replaced"
        except (OSError, BrowserError):
            pass
        if why:
            refuse(why)

    def dial(self, timeout: float) -> socket.socket:
        """Connect to the host that made this registration."""
        if self.descriptor.transport == "loopback":
            port = int(self.descriptor.authority.rpartition(":")[2])
            return socket.create_connection(("127.0.0.1", port), timeout)
        if not stat.S_ISSOCK(os.stat(SOCKET, dir_fd=self._folder, follow_symlinks=False).st_mode):
            raise Peer
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(timeout)
            sock.connect(f"/proc/self/fd/{self._folder}/{SOCKET}")
            check_peer(sock, self.owner)
        except BaseException:
            sock.close()
            raise
        return sock

    def close(self) -> None:
        """Let the folder go."""
        if not self._closed:
            self._closed = True
            os.close(self._folder)


def open_static(path: str) -> Registration:
    """Open the static form: one descriptor file, with its socket beside it.

    Whose the folder is counts for nothing here: the file itself is private.
    """
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    return Registration(folder, os.path.basename(path))


def wait_registration(
    directory: str, engagement_id: str, run_id: str, given_up: Callable[[], bool] = lambda: False
) -> Registration:
    """Wait at most 30 s for the registration of exactly this run of this engagement.

    Blocks. A directory that doesn't exist is a ``FileNotFoundError``; a registration
    of others, one that isn't private, and none in time are ``UNAUTHORIZED_ADAPTER``.
    """
    if not identifier(run_id) or not identifier(engagement_id):
        refuse("run and engagement ids are 1 to 128 letters, digits, - or _")
    until = time.monotonic() + WAIT_SECONDS
    root = open_private(directory, None, directory=True)
    try:
        while True:
            reg = None
            try:
                reg = Registration(open_private(run_id, root, directory=True), DESCRIPTOR)
            except FileNotFoundError:
                pass
            if reg is not None:
                return bound(reg, engagement_id, run_id)
            if given_up():
                refuse("nobody waits for the registration any more")
            if time.monotonic() >= until:
                refuse(f"no registration of run {run_id} within {WAIT_SECONDS:.0f} s: start its host")
            time.sleep(_POLL_SECONDS)
    finally:
        os.close(root)


def bound(reg: Registration, engagement_id: str, run_id: str) -> Registration:
    """Answer the registration if it is of exactly these ids, and else refuse and close it."""
    identity = reg.descriptor.identity
    if identity.engagement_id != engagement_id or identity.run_id != run_id:
        reg.close()
        refuse("the registration is of another run or engagement")
    return reg
