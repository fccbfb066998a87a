"""Where a launcher mounts registrations, and the one session of each.

Only two places are ever looked at: ``/run/chaperone/browser-runs``, a directory with
one folder a run, and ``/run/chaperone/browser.json`` with ``browser.sock`` beside it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from .errors import BrowserError
from .registration import Registration, bound, open_static, refuse, wait_registration
from .session import Session

BROWSER_RUNS = "/run/chaperone/browser-runs"
BROWSER_JSON = "/run/chaperone/browser.json"

_KEEP_SECONDS = 7200.0  # longer than any session lives


class _Seat:
    """The place of one run's session. Who holds its lock may wait and shake hands."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.used = time.monotonic()
        self.session: Session | None = None
        self.failed = ""  # the code of a handshake that failed: it is never made twice


class Mount:
    """The sessions of one process: one for each registration, which keeps its sequence.

    A session that is over stays over, also when the run's registration was replaced:
    each turn of an agent is a run of its own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seats: dict[tuple[str, str], _Seat] = {}

    def session(self, engagement_id: str, run_id: str, given_up: Callable[[], bool]) -> Session | None:
        """Answer the session of exactly this run, made where there is none yet.

        Blocks for the registration (at most 30 s) and the handshake. None without a
        mount.
        """
        runs = os.path.lexists(BROWSER_RUNS)
        seat = self._seat((engagement_id, run_id), make=runs or os.path.lexists(BROWSER_JSON))
        if seat is None:
            return None
        with seat.lock:
            if seat.failed:
                raise BrowserError(seat.failed, "the handshake of this run failed, and is made once")
            if seat.session is None:
                reg = _find(runs, engagement_id, run_id, given_up)
                try:
                    seat.session = Session(reg)
                except BrowserError as err:
                    reg.close()
                    seat.failed = err.code
                    raise
            seat.session.check()
            return seat.session

    def _seat(self, ids: tuple[str, str], make: bool) -> _Seat | None:
        """Answer the run's seat. A mount that went leaves the seats that there are."""
        with self._lock:
            seat = self._seats.get(ids)
            if seat is None and make:
                self._sweep()
                seat = self._seats[ids] = _Seat()
            if seat is not None:
                seat.used = time.monotonic()
            return seat

    def _sweep(self) -> None:
        """Let go what sessions that are over hold; forget them when no run can be theirs."""
        for ids, seat in list(self._seats.items()):
            if not seat.lock.acquire(blocking=False):
                continue
            try:
                if seat.session is not None:
                    try:
                        seat.session.check()
                        continue
                    except BrowserError:
                        seat.session.release()
                if time.monotonic() - seat.used > _KEEP_SECONDS:
                    del self._seats[ids]
            finally:
                seat.lock.release()


def _find(runs: bool, engagement_id: str, run_id: str, given_up: Callable[[], bool]) -> Registration:
    reg = None
    try:
        if runs:
            return wait_registration(BROWSER_RUNS, engagement_id, run_id, given_up)
        reg = open_static(BROWSER_JSON)
    except OSError:
        pass
    if reg is None:
        refuse("the mounted registration can't be opened")
    return bound(reg, engagement_id, run_id)


def ids_of(config: Mapping[str, Any] | None) -> tuple[Any, Any]:
    """Answer the two keys that bind a run: desktop_engagement_id and run_id of ``configurable``.

    ``run_id`` is the server's own stamp; no other id stands in for it.
    """
    configurable = (config or {}).get("configurable") or {}
    return configurable.get("desktop_engagement_id"), configurable.get("run_id")


mount = Mount()
"""The sessions of this process."""
