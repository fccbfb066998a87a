"""The agent's side of owned-browser-v1.

In a graph: ``initialize_native_browser(config)`` at entry (or
``EngagementBrowserMiddleware``), and ``browser_action`` among its tools. Around a run:
``run_with_native_browser`` with ``native_host``. For a run that is registered already:
``native_browser_session`` and ``mounted_native_browser``. Failures are ``BrowserError``
with a stable ``code``.

``browser_action`` and ``EngagementBrowserMiddleware`` need the extra ``langchain``;
everything else needs the standard library alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import BrowserError
from .host import NativeHost, native_host
from .native import initialize_native_browser, mounted_native_browser, native_browser_session
from .protocol import ACTIONS, NativeBrowserDescriptor
from .run import NativeRun, run_with_native_browser
from .session import Session

if TYPE_CHECKING:
    from .middleware import EngagementBrowserMiddleware
    from .tool import browser_action

__all__ = [
    "ACTIONS",
    "BrowserError",
    "EngagementBrowserMiddleware",
    "NativeBrowserDescriptor",
    "NativeHost",
    "NativeRun",
    "Session",
    "browser_action",
    "initialize_native_browser",
    "mounted_native_browser",
    "native_browser_session",
    "native_host",
    "run_with_native_browser",
]


def __getattr__(name: str) -> Any:
    """Load what needs LangChain when it is asked for."""
    if name == "browser_action":
        from .tool import browser_action

        return browser_action
    if name == "EngagementBrowserMiddleware":
        from .middleware import EngagementBrowserMiddleware

        return EngagementBrowserMiddleware
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
