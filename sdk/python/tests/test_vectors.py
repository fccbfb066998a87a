"""The spec's vectors, which Go is held to as well."""

from __future__ import annotations

import asyncio
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import kit
import pytest

from chaperone_browser import BrowserError, NativeBrowserDescriptor, Session
from chaperone_browser.registration import open_static


def named(v: dict[str, Any]) -> str:
    return f"{v['verb']}/{v['name']}" if "verb" in v else v["name"]


@pytest.mark.parametrize("v", kit.vectors("descriptors"), ids=named)
def test_descriptor(v: dict[str, Any]) -> None:
    names = kit.Names(
        engagement_id=kit.ENGAGEMENT, run_id="run_1", epoch="e" * 64, bootstrap_token="b" * 64, host_commit="c" * 40
    )
    names.at = kit.now_ms()
    text = names.expand(v["text"].encode())
    if v["accept"]:
        d = NativeBrowserDescriptor.decode(text, names.at)
        assert NativeBrowserDescriptor.decode(d.encode(), names.at) == d
        return
    with pytest.raises(BrowserError) as caught:
        NativeBrowserDescriptor.decode(text, names.at)
    assert caught.value.code == "INCOMPATIBLE_RUNTIME"
    if v["field"]:
        assert v["field"].split("_")[0] in str(caught.value) or "expire" in str(caught.value)


@pytest.mark.parametrize("v", kit.vectors("answers"), ids=named)
def test_answer(v: dict[str, Any], host: kit.StandIn) -> None:
    """Each answer over a real connection: its code, and whether the session survives it."""
    cancelled = threading.Event()

    def answer(s: kit.StandIn, verb: str, body: bytes, h: BaseHTTPRequestHandler) -> bool:
        if v["verb"] == "cancel" and verb == "action":
            cancelled.wait(10)
            return kit.refused(h, 409, "UNAUTHORIZED_ADAPTER")
        if verb != v["verb"]:
            return False
        if verb == "cancel":
            cancelled.set()
        text = names(s, body).expand(v["text"].encode())
        if v["status"] == 0:
            return kit.raw(h, text.replace(b"\n", b"\r\n") if b"\r" not in text else text)
        return kit.reply(h, v["status"], text, v.get("headers"), v.get("content_type", "application/json"))

    host.answer = answer
    if v["verb"] == "handshake":
        assert code_of(lambda: opened(host)) == v["code"]
        assert host.count("handshake") == 1
        return
    session = opened(host)
    if v["verb"] == "cancel":
        asyncio.run(cancel(session, host))
    else:
        assert code_of(lambda: session.act("list_tabs", {})) == v["code"]
    assert host.count(v["verb"]) == 1  # nothing is sent twice
    assert (session.ended.code if session.ended else "") == (v["code"] if v["fatal"] else "")
    host.answer = None
    sent = len(host.seen)
    assert code_of(lambda: session.act("list_tabs", {})) == (v["code"] if v["fatal"] else "")
    assert len(host.seen) == sent + (0 if v["fatal"] else 1)
    session.close()


def names(s: kit.StandIn, body: bytes) -> kit.Names:
    import json

    q = json.loads(body)
    return kit.Names(
        engagement_id=kit.ENGAGEMENT, run_id=s.run_id, epoch=s.epoch, bootstrap_token=s.token, host_commit=s.commit,
        session_token=s.session, nonce=q.get("client_nonce", ""), request_id=q.get("request_id", ""),
        sequence=str(q.get("sequence", "")),
    )  # fmt: skip


def opened(host: kit.StandIn) -> Session:
    reg = open_static(str(host.file))
    try:
        return Session(reg)
    except BaseException:
        reg.close()
        raise


def code_of(work: Any) -> str:
    try:
        result = work()
    except BrowserError as err:
        return err.code
    if isinstance(result, Session):
        result.close()
    return ""


async def cancel(session: Session, host: kit.StandIn) -> None:
    task = asyncio.ensure_future(session.aact("list_tabs", {}))
    while host.count("action") == 0:
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("file", sorted((kit.SPEC / "vectors").glob("actions.json")), ids=lambda f: f.stem)
def test_actions(file: Path, tmp_path: Path, runs: Path, site: kit.Site) -> None:
    """The thirteen actions on the real host: their params, and exactly their result's keys."""
    import uuid

    from chaperone_browser import ACTIONS, browser_action

    table = kit.vectors("actions")
    assert {v["action"] for v in table} == set(ACTIONS)
    run_id = str(uuid.uuid4())
    config = {"configurable": {"run_id": run_id, "desktop_engagement_id": kit.ENGAGEMENT}}
    with kit.real_host(tmp_path, runs, run_id):
        for v in table:
            params = {k: x.replace("{{site}}", site.url) if isinstance(x, str) else x for k, x in v["params"].items()}
            result = browser_action.invoke({"action": v["action"], "params": params}, config=config)
            assert sorted(result) == sorted(v["keys"]), v
            if "error" in v:
                assert result["error"] == v["error"], v
