"""The spec's conversations, played on the real host as Go plays them."""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import kit
import pytest

FILES = sorted((kit.SPEC / "transcripts").glob("*.txtar"))


def sections(text: str) -> list[tuple[str, str]]:
    """Read txtar: sections begin with a line "-- NAME --"; the comment is left out."""
    parts = re.split(r"(?m)^-- (.+) --\n", text)
    return list(zip(parts[1::2], parts[2::2]))


class Call(threading.Thread):
    """One request, in flight until it is asked for."""

    def __init__(self, path: str, method: str, target: str, headers: list[tuple[str, str]], body: bytes | None) -> None:
        super().__init__(daemon=True)
        self.path, self.method, self.target, self.headers, self.body = path, method, target, headers, body
        self.status, self.got, self.data = 0, {}, b""  # type: tuple[int, dict[str, str], bytes]
        self.start()

    def run(self) -> None:
        conn = http.client.HTTPConnection("127.0.0.1:1")
        conn.sock = socket.socket(socket.AF_UNIX)
        conn.sock.connect(self.path)
        conn.putrequest(self.method, self.target, skip_host=True, skip_accept_encoding=True)
        names = {k.lower() for k, _ in self.headers}
        if "host" not in names:
            conn.putheader("Host", "127.0.0.1:1")
        for name, value in self.headers:
            conn.putheader(name, value)
        if self.body is not None and "content-length" not in names:
            conn.putheader("Content-Length", str(len(self.body)))
        conn.putheader("Connection", "close")
        try:
            conn.endheaders(self.body)
        except OSError:
            pass  # an answer that came before the connection was cut counts
        response = conn.getresponse()
        self.status, self.data = response.status, response.read()
        self.got = dict(response.headers.items())


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_transcript(file: Path, tmp_path: Path, runs: Path) -> None:
    run_id = str(uuid.uuid4())
    with kit.real_host(tmp_path, runs, run_id):
        d: dict[str, Any] = json.loads((runs / run_id / "browser.json").read_bytes())
        names = kit.Names({k: str(v) for k, v in d.items()}, authority="127.0.0.1:1")
        short = tmp_path / "s"
        short.symlink_to(runs / run_id)
        play(file.read_text(), names, f"{short}/browser.sock")


def play(text: str, names: kit.Names, path: str) -> None:
    calls: dict[str, Call] = {}
    played = 0
    for name, section in sections(text):
        words = name.split()
        if words[0] == "pause":
            time.sleep(int(words[1]) / 1000)
            continue
        head, empty, body = ("\n" + section).partition("\n\n")
        headers = [tuple(line.split(": ", 1)) for line in head.strip("\n").split("\n") if line]
        whole = body.removesuffix("\n").encode() if empty else None
        if words[1] == ">":
            sent = [(k, names.expand(v.encode()).decode()) for k, v in headers]
            calls[words[0]] = Call(path, words[2], names.expand(words[3].encode()).decode(), sent, names.expand(whole) if whole is not None else None)
            continue
        call = calls[words[0]]
        call.join(kit.PATIENCE)
        played += 1
        assert str(call.status) in words[2].split("|"), name
        for k, v in headers:
            assert call.got.get(k) == names.expand(v.encode()).decode(), name
        if whole is not None:
            assert names.match(whole, call.data) == "", name
    assert played
