"""The one error of this package, and the codes it carries.

A code says what was refused; page text, arguments, results and credentials never
travel in an error. No error chains another: a chained one would keep frames, and
with them credentials, alive in whatever reports it.
"""

from __future__ import annotations

UNAUTHORIZED_ADAPTER = "UNAUTHORIZED_ADAPTER"
"""401, 403, 409; a registration that is foreign, replaced, removed or too late."""
INCOMPATIBLE_RUNTIME = "INCOMPATIBLE_RUNTIME"
"""426; another identity, commit or set of capabilities; a handshake that isn't one."""
BROWSER_PROTOCOL_ERROR = "BROWSER_PROTOCOL_ERROR"
"""An envelope that isn't exactly what the protocol says."""
BROWSER_DISCONNECTED = "BROWSER_DISCONNECTED"
"""The connection was lost, or there is nobody at its other end."""
BROWSER_TIMEOUT = "BROWSER_TIMEOUT"
"""504, or no answer two seconds after the deadline."""
BROWSER_SCOPE_DENIED = "BROWSER_SCOPE_DENIED"
"""A main-frame navigation that the scope denies."""
BROWSER_ACTION_FAILED = "BROWSER_ACTION_FAILED"
"""Every other failure of an action."""


class BrowserError(Exception):
    """A refusal or a failure, as one of this module's codes.

    ``code`` is the stable word; the text says in this package's own words what
    happened, and repeats nothing that was received.
    """

    def __init__(self, code: str, why: str) -> None:
        super().__init__(f"{why}: {code}")
        self.code = code

    def __reduce__(self) -> tuple[type[BrowserError], tuple[str, str]]:
        return BrowserError, (self.code, str(self).removesuffix(f": {self.code}"))
