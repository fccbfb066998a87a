"""A session: in order, bounded, ended by any doubt, and closed-mouthed."""

from __future__ import annotations

import asyncio
import json
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from typing import Any

import kit
import pytest
from test_vectors import code_of, opened

from chaperone_browser import BrowserError
from chaperone_browser import session as sessions


def test_order(host: kit.StandIn) -> None:
    s = opened(host)
    for _ in range(3):
        assert s.act("list_tabs", {}) == {"tabs": [], "active": None}
    assert [v for v, _, _ in host.seen] == ["handshake", "action", "action", "action"]
    bodies = [json.loads(b) for _, b, _ in host.seen]
    assert [q["sequence"] for q in bodies[1:]] == [1, 2, 3]
    assert len({q["request_id"] for q in bodies[1:]}) == 3
    assert all(kit.now_ms() < q["deadline_ms"] <= kit.now_ms() + 30_000 for q in bodies[1:])
    for i, (_, _, headers) in enumerate(host.seen):
        assert headers["Host"] == "127.0.0.1:1"
        assert headers["Authorization"] == "Bearer " + (host.session if i else host.token)
        assert headers["Content-Type"] == "application/json"
    s.close()
    assert code_of(lambda: s.act("list_tabs", {})) == "BROWSER_DISCONNECTED"


def test_concurrent_actions_go_one_after_another(host: kit.StandIn) -> None:
    running, most, last = 0, 0, 0

    def answer(s: kit.StandIn, verb: str, body: bytes, h: BaseHTTPRequestHandler) -> bool:
        nonlocal running, most, last
        running += 1
        most = max(most, running)
        sequence = json.loads(body)["sequence"]
        assert sequence > last
        last = sequence
        running -= 1
        return False

    s = opened(host)
    host.answer = answer
    with ThreadPoolExecutor(32) as pool:
        list(pool.map(lambda _: s.act("list_tabs", {}), range(32)))
    assert (most, last, s.ended) == (1, 32, None)
    s.close()


def test_cancel_stops_the_action_first(host: kit.StandIn) -> None:
    stopped = threading.Event()

    def answer(s: kit.StandIn, verb: str, body: bytes, h: BaseHTTPRequestHandler) -> bool:
        if verb == "action":
            stopped.wait(10)
            return kit.refused(h, 409, "UNAUTHORIZED_ADAPTER")
        stopped.set()
        return False

    async def leave() -> None:
        task = asyncio.ensure_future(s.aact("goto", {"url": "http://a/"}))
        while host.count("action") == 0:
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()  # twice: the request is shielded
        with pytest.raises(asyncio.CancelledError):
            await task
        assert host.count("cancel") == 1

    s = opened(host)
    host.answer = answer
    asyncio.run(leave())
    action, cancel = (json.loads(b) for v, b, _ in host.seen if v != "handshake")
    assert (action["request_id"], action["sequence"]) == (cancel["request_id"], cancel["sequence"])
    host.answer = None
    assert s.act("close", {}) and s.ended is None  # an acknowledged cancel ends nothing
    s.close()


def test_cancel_is_bounded(host: kit.StandIn) -> None:
    over = threading.Event()

    def answer(s: kit.StandIn, verb: str, body: bytes, h: BaseHTTPRequestHandler) -> bool:
        over.wait(20)
        return True

    async def leave() -> float:
        task = asyncio.ensure_future(s.aact("list_tabs", {}))
        while host.count("action") == 0:
            await asyncio.sleep(0.001)
        begun = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - begun

    s = opened(host)
    host.answer = answer
    took = asyncio.run(leave())
    over.set()
    assert 1.9 < took < 10
    assert s.ended is not None and s.ended.code == "BROWSER_TIMEOUT"
    s.close()


def test_waiting_caller_leaves_without_a_request(host: kit.StandIn) -> None:
    leave_now = threading.Event()

    def answer(s: kit.StandIn, verb: str, body: bytes, h: BaseHTTPRequestHandler) -> bool:
        leave_now.wait(20)
        return False

    async def queue() -> None:
        first = asyncio.ensure_future(s.aact("list_tabs", {}))
        while host.count("action") == 0:
            await asyncio.sleep(0.001)
        with pytest.raises(BrowserError) as late:
            await s.aact("close", {}, 0.05)
        assert late.value.code == "BROWSER_TIMEOUT"
        second = asyncio.ensure_future(s.aact("close", {}))
        await asyncio.sleep(0.05)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        leave_now.set()
        await first

    s = opened(host)
    host.answer = answer
    asyncio.run(queue())
    assert host.count("action") == 1 and host.count("cancel") == 0 and s.ended is None
    s.close()


def test_deadline(host: kit.StandIn) -> None:
    """Without any answer the client gives up 2 s after the deadline; a dripping one doesn't hold it."""
    over = threading.Event()

    def answer(s: kit.StandIn, verb: str, body: bytes, h: BaseHTTPRequestHandler) -> bool:
        h.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n")
        while not over.wait(0.2):
            try:
                h.wfile.write(b"x")
            except OSError:
                break
        h.close_connection = True
        return True

    s = opened(host)
    host.answer = answer
    begun = time.monotonic()
    assert code_of(lambda: s.act("list_tabs", {}, 0.5)) == "BROWSER_TIMEOUT"
    assert 2.4 < time.monotonic() - begun < 12
    over.set()
    assert host.count("cancel") == 0 and s.ended is not None
    s.close()


def test_kept_deadline_leaves_it_open(host: kit.StandIn) -> None:
    s = opened(host)
    host.answer = lambda s, verb, body, h: kit.refused(h, 504, "BROWSER_TIMEOUT")
    assert code_of(lambda: s.act("list_tabs", {})) == "BROWSER_TIMEOUT"
    host.answer = None
    assert s.act("list_tabs", {})
    s.close()


def test_expiry(host: kit.StandIn) -> None:
    host.lives = 1500
    s = opened(host)
    time.sleep(1.6)
    assert code_of(lambda: s.act("list_tabs", {})) == "UNAUTHORIZED_ADAPTER"
    assert host.count("action") == 0
    s.close()


CYCLE: dict[str, Any] = {}
CYCLE["self"] = CYCLE
DEEP: list[Any] = []
for _ in range(200_000):
    DEEP = [DEEP]


UNSENDABLE: dict[str, Any] = {
    "NaN": {"x": float("nan")}, "infinity": {"x": float("inf")}, "bytes": {"x": b"bytes"}, "inner name": {"x": {1: 2}},
    "name": {1: 2}, "surrogate": {"x": "\ud800"}, "cycle": CYCLE, "deep": {"x": DEEP}, "large": {"x": "x" * (8 << 20)},
    "list": [], "null": None, "text": "goto",
}  # fmt: skip


@pytest.mark.parametrize("name", UNSENDABLE)
def test_params_that_cannot_be_sent(host: kit.StandIn, name: str) -> None:
    s = opened(host)
    assert code_of(lambda: s.act("eval_js", UNSENDABLE[name])) == "BROWSER_ACTION_FAILED"
    assert code_of(lambda: s.act("no such action", {})) == "BROWSER_PROTOCOL_ERROR"
    assert host.count("action") == 0 and s.ended is None
    s.close()


def test_deep_results_end_nothing(host: kit.StandIn) -> None:
    """A page must not be able to end a session by what it says."""

    def answer(s: kit.StandIn, verb: str, body: bytes, h: BaseHTTPRequestHandler) -> bool:
        text = s.good(verb, body).decode()
        deep = '{"a":' * 50_000 + '"]}\\""' + "}" * 50_000
        return kit.reply(h, 200, text.replace('"active": null', '"active": ' + deep).encode())

    s = opened(host)
    host.answer = answer
    assert s.act("eval_js", {"expression": "x"}) == {"error": "BROWSER_ACTION_FAILED"}
    assert s.ended is None
    s.close()


def test_no_redirect_and_no_proxy(host: kit.StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    s = opened(host)
    assert s.act("list_tabs", {})
    s.close()


def test_nothing_shows_a_credential(host: kit.StandIn, caplog: pytest.LogCaptureFixture) -> None:
    """Reprs, errors with all that they chain and keep, pickles, logs."""
    s = opened(host)
    secret = "s3cret"

    def answer(h0: kit.StandIn, verb: str, body: bytes, h: BaseHTTPRequestHandler) -> bool:
        return kit.raw(h, f"HTTP/1.1 {secret} {h0.session}\r\n\r\n".encode())

    host.answer = answer
    with pytest.raises(BrowserError) as caught:
        s.act("eval_js", {"expression": secret})
    shown = repr(s) + repr(s._reg) + repr(s._reg.descriptor) + repr(s.ended) + repr(vars(s)) + caplog.text
    err: BaseException | None = caught.value
    while err is not None:
        shown += repr(err) + str(err)
        at = err.__traceback__
        while at is not None:
            if "chaperone_browser" in at.tb_frame.f_code.co_filename:
                shown += repr({k: v for k, v in at.tb_frame.f_locals.items() if k != "body"})
            at = at.tb_next
        assert err.__context__ is None and err.__cause__ is None
        err = err.__cause__ or err.__context__
    for hidden in (host.token, host.session):
        assert hidden not in shown
    assert secret not in str(caught.value)
    for thing in (s, s._reg, s._token, s._reg.descriptor):
        with pytest.raises(TypeError):
            pickle.dumps(thing)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.code, str(again)) == (caught.value.code, str(caught.value))
    s.close()


def test_interrupted_caller_cancels(host: kit.StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """KeyboardInterrupt in a blocking call is a cancellation too."""

    def interrupted(self: Any) -> bytes:
        monkeypatch.undo()
        raise KeyboardInterrupt

    s = opened(host)
    monkeypatch.setattr(sessions.Request, "post", interrupted)
    with pytest.raises(KeyboardInterrupt):
        s.act("list_tabs", {})
    assert host.count("cancel") == 1
    s.close()
