"""One turn at the real API server, with the real host: whole, broken off, and badly asked for."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import kit
import pytest
import server
from langgraph_sdk import get_client
from langgraph_sdk.errors import ConflictError

import chaperone_browser as cb
from chaperone_browser.qualify.scenarios import _hosts, act


def turn(api: server.Server, tmp_path: Path, thread: str, client: Any, **other: Any) -> Coroutine[Any, Any, cb.NativeRun]:
    asked: dict[str, Any] = {
        "thread_id": thread, "assistant_id": "echo", "engagement_id": kit.ENGAGEMENT, "registrations": api.registrations,
        "host": cb.native_host(scope=kit.scope(tmp_path), binary=kit.CHAPERONE, home=tmp_path / "home"), "input": {},
    } | other  # fmt: skip
    return cb.run_with_native_browser(client, **asked)


async def only(client: Any, thread: str) -> dict[str, Any]:
    (run,) = await client.runs.list(thread)
    return dict(run)


def nothing_left(api: server.Server, run_id: str) -> None:
    assert not os.path.lexists(api.registrations / run_id)
    until = time.monotonic() + kit.PATIENCE
    while _hosts(run_id):
        assert time.monotonic() < until, "a host is left"
        time.sleep(0.05)


def test_input_and_config_pass_unchanged(api: server.Server, tmp_path: Path) -> None:
    """But for the two keys: the engagement, set anew on every turn, and the run id, stamped by the server."""

    async def play() -> None:
        client = get_client(url=api.url)
        thread = (await client.threads.create())["thread_id"]
        payload = {"a": [1, "é", None, {"b": True}]}
        config = {"configurable": {"mine": "x", "run_id": "forged", "desktop_engagement_id": "forged"}, "tags": ["t"]}
        before = str(config)
        ids = []
        for _ in range(2):
            run = await turn(api, tmp_path, thread, client, input={"payload": payload}, config=config)
            assert (run.status, run.thread_id, run.values["payload"]) == ("success", thread, payload)
            told = run.values["told"]
            assert (told["mine"], told["run_id"], told["desktop_engagement_id"]) == ("x", run.run_id, kit.ENGAGEMENT)
            assert run.values["browser"] == f"<browser session of run {run.run_id}>"
            kwargs = (await client.runs.get(thread, run.run_id))["kwargs"]
            assert kwargs["config"]["tags"] == ["t"]
            ids.append(run.run_id)
            nothing_left(api, run.run_id)
        assert len(set(ids)) == 2 and str(config) == before

    asyncio.run(play())


@pytest.mark.parametrize("seconds", [0.0, 0.02, 0.1, 0.3, 0.6, 0.9, 1.2, 1.6, 2.5])
def test_cancelled_at_any_moment(api: server.Server, tmp_path: Path, seconds: float) -> None:
    """The run is cancelled at the API, and nothing is left."""

    async def play() -> None:
        client = get_client(url=api.url)
        thread = (await client.threads.create())["thread_id"]
        task = asyncio.ensure_future(turn(api, tmp_path, thread, client, input={"sleep": 60}))
        await asyncio.sleep(seconds)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for run in await client.runs.list(thread):
            assert run["status"] == "interrupted"
            nothing_left(api, run["run_id"])
        assert seconds == 0 or len(await client.runs.list(thread)) <= 1

    asyncio.run(play())


def test_host_that_dies(api: server.Server, tmp_path: Path) -> None:
    async def play() -> None:
        client = get_client(url=api.url)
        thread = (await client.threads.create())["thread_id"]
        task = asyncio.ensure_future(turn(api, tmp_path, thread, client, input={"sleep": 60}))
        while not (await client.runs.list(thread)):
            await asyncio.sleep(0.05)
        run_id = (await only(client, thread))["run_id"]
        while not (api.registrations / run_id / "browser.json").exists():
            await asyncio.sleep(0.05)
        await asyncio.sleep(2)  # past the handshake, into the run's sleep
        for pid in _hosts(run_id):
            if b"host\x00" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(int(pid), signal.SIGKILL)
        with pytest.raises(cb.BrowserError) as caught:
            await task
        assert caught.value.code == "BROWSER_DISCONNECTED"
        assert (await only(client, thread))["status"] == "interrupted"
        nothing_left(api, run_id)

    asyncio.run(play())


def test_run_that_is_over_early(api: server.Server, tmp_path: Path) -> None:
    async def play() -> None:
        client = get_client(url=api.url)
        thread = (await client.threads.create())["thread_id"]
        with pytest.raises(cb.BrowserError) as caught:
            await turn(api, tmp_path, thread, client, assistant_id="early")
        assert caught.value.code == "BROWSER_DISCONNECTED" and "initialize_native_browser" in str(caught.value)
        run = await only(client, thread)
        assert run["status"] == "success"
        nothing_left(api, run["run_id"])

    asyncio.run(play())


def test_failing_run_is_told(api: server.Server, tmp_path: Path) -> None:
    """A run that failed is no error of the lifecycle: its status is the server's own word."""

    async def play() -> None:
        client = get_client(url=api.url)
        thread = (await client.threads.create())["thread_id"]
        run = await turn(api, tmp_path, thread, client, input={"sleep": "no number"})
        assert run.status == "error"
        nothing_left(api, run.run_id)

    asyncio.run(play())


def test_second_caller_of_a_thread(api: server.Server, tmp_path: Path) -> None:
    async def play() -> None:
        client = get_client(url=api.url)
        thread = (await client.threads.create())["thread_id"]
        first = asyncio.ensure_future(turn(api, tmp_path, thread, client, input={"sleep": 4}))
        await asyncio.sleep(1)
        with pytest.raises(ConflictError):
            await turn(api, tmp_path, thread, client)
        assert (await first).status == "success"

    asyncio.run(play())


class Hasty:
    """The real client, whose join says at once that a run is over."""

    def __init__(self, client: Any) -> None:
        self.runs, self.threads = self, client.threads
        self._real = client.runs

    async def join(self, *_: Any) -> None: ...

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def test_join_alone_does_not_tell(api: server.Server, tmp_path: Path) -> None:
    async def play() -> None:
        client = get_client(url=api.url)
        thread = (await client.threads.create())["thread_id"]
        run = await turn(api, tmp_path, thread, Hasty(client), input={"sleep": 3})
        assert run.status == "success" and run.values["told"]["run_id"] == run.run_id

    asyncio.run(play())


@pytest.mark.parametrize("spoil", ["missing", "open", "link", "file", "engagement", "binary", "scope"])
def test_bad_asking(api: server.Server, tmp_path: Path, spoil: str) -> None:
    """What can be told before is told before: no run is made, or the one that was is cancelled."""
    directory = tmp_path / "runs"
    directory.mkdir(mode=0o700)
    other: dict[str, Any] = {"registrations": directory}
    if spoil == "missing":
        directory.rmdir()
    elif spoil == "open":
        directory.chmod(0o711)
    elif spoil == "link":
        directory.rename(tmp_path / "real")
        directory.symlink_to(tmp_path / "real")
    elif spoil == "file":
        directory.rmdir()
        directory.touch(0o700)
    elif spoil == "engagement":
        other["engagement_id"] = "not/one"
    elif spoil == "binary":
        with pytest.raises(FileNotFoundError):
            cb.native_host(scope="scope.yaml", binary=tmp_path / "none")
        return
    elif spoil == "scope":
        other["host"] = cb.native_host(scope=tmp_path / "none.yaml", binary=kit.CHAPERONE, home=tmp_path / "home")

    async def play() -> None:
        client = get_client(url=api.url)
        thread = (await client.threads.create())["thread_id"]
        with pytest.raises((cb.BrowserError, OSError, ValueError)):
            await turn(api, tmp_path, thread, client, **other)
        runs = await client.runs.list(thread)
        assert [r["status"] for r in runs] == (["interrupted"] if spoil == "scope" else [])

    asyncio.run(play())


def test_steps_of_a_real_page(api: server.Server, tmp_path: Path, site: kit.Site) -> None:
    async def play() -> None:
        client = get_client(url=api.url)
        thread = (await client.threads.create())["thread_id"]
        steps = [act("launch"), act("goto", url=site.url), act("click", selector="button"), act("eval_js", expression="document.title")]
        run = await turn(api, tmp_path, thread, client, assistant_id="chaperone-qualify", input={"steps": steps})
        assert run.values["results"][3] == {"result": "clicked"}

    asyncio.run(play())
