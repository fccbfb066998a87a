"""The PyPI LangGraph API server, with a registrations directory mounted as a launcher does it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import kit

MOUNT = """set -e
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/chaperone/browser-runs
mount --bind "$1" /run/chaperone/browser-runs
mount -o remount,bind,ro /run/chaperone/browser-runs
shift
exec "$@"
"""


@dataclass
class Server:
    url: str
    registrations: Path
    folder: Path

    @property
    def log(self) -> Path:
        return self.folder / "server.log"


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """Start the server in a mount namespace of its own and end it by its pid."""
    registrations = folder / "browser-runs"
    registrations.mkdir(mode=0o700)
    graphs = {
        "chaperone-qualify": "chaperone_browser.qualify.graph:graph",
        "echo": "graphs:echo_graph",
        "early": "graphs:early_graph",
    }
    (folder / "langgraph.json").write_text(json.dumps({"dependencies": ["."], "graphs": graphs}))
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    sdk = Path(__file__).resolve().parents[1]
    env = {
        **os.environ, "PYTHONPATH": ":".join(
            [f"{sdk / 'src'}", f"{sdk / 'tests'}", *filter(None, [os.environ.get("PYTHONPATH")])]
        ), "PYTHONDONTWRITEBYTECODE": "1",
        "LANGGRAPH_CLI_NO_ANALYTICS": "1", "LANGSMITH_TRACING": "false", "NO_COLOR": "1",
    }  # fmt: skip
    unshare = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
    server = Server(f"http://127.0.0.1:{port}", registrations, folder)
    with server.log.open("wb") as log:
        process = subprocess.Popen(
            [*unshare, "sh", "-c", MOUNT, "sh", str(registrations), sys.executable, "-m", "langgraph_cli", "dev",
             "--no-browser", "--no-reload", "--host", "127.0.0.1", "--port", str(port), "--n-jobs-per-worker", "14"],
            cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        until = time.monotonic() + kit.PATIENCE
        while True:
            try:
                urllib.request.urlopen(f"{server.url}/ok", timeout=5).close()
                break
            except OSError:
                assert process.poll() is None and time.monotonic() < until, server.log.read_text()[-2000:]
                time.sleep(0.1)
        yield server
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
