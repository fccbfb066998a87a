"""Blocking work for an event loop.

Every piece runs in a thread of its own, never in a shared pool: ten agents that wait
must not keep an eleventh from cancelling.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def in_thread(work: Callable[[], T]) -> asyncio.Future[T]:
    """Run blocking work in a thread, in the caller's context; the future is the running loop's."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    future.add_done_callback(_seen)
    context = contextvars.copy_context()

    def settle(result: T | None, err: BaseException | None) -> None:
        if future.done():
            return
        if err is None:
            future.set_result(result)  # type: ignore[arg-type]
        else:
            future.set_exception(err)

    def run() -> None:
        result: T | None = None
        failed: BaseException | None = None
        try:
            result = context.run(work)
        except BaseException as err:  # handed on as it is
            failed = err
        try:
            loop.call_soon_threadsafe(settle, result, failed)
        except RuntimeError:
            pass  # the loop was closed under its tasks: nobody is left to be told

    threading.Thread(target=run, name="chaperone-browser", daemon=True).start()
    return future


def _seen(future: asyncio.Future[T]) -> None:
    """Look at a failure: its waiter may have been cancelled."""
    if not future.cancelled():
        future.exception()


async def shielded(future: asyncio.Future[T]) -> T:
    """Await bounded work to its end, however often the caller is cancelled meanwhile."""
    while not future.done():
        try:
            await asyncio.shield(future)
        except asyncio.CancelledError:
            continue
        except Exception:
            break
    return future.result()
