"""The site that qualification visits: pages, cookies, and a barrier for runs at once."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import parse_qs, urlsplit

_PAGE = b"<!doctype html><title>qualify</title><p>qualify"


class Site:
    """Pages on loopback: ``/set?id=N`` sets a cookie, ``/meet?id=N`` answers when all are there."""

    def __init__(self, together: int) -> None:
        """Serve until the context ends; ``together`` runs meet."""
        self._meeting = threading.Barrier(together)
        self.visited: set[str] = set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        meeting, visited = self._meeting, self.visited

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

            def do_GET(self) -> None:
                """Answer a page."""
                visited.add(self.path)
                url = urlsplit(self.path)
                body, status = _PAGE, 200
                if url.path == "/meet":
                    try:
                        meeting.wait(60)
                        body = b"met"
                    except threading.BrokenBarrierError:
                        body, status = b"alone", 503
                self.send_response(status)
                self.send_header("Content-Type", "text/html")
                if url.path == "/set":
                    self.send_header("Set-Cookie", "who=" + parse_qs(url.query).get("id", [""])[0])
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        return Handler

    def __enter__(self) -> Site:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None) -> None:
        self._meeting.abort()
        self._server.shutdown()
        self._server.server_close()
