"""The scenarios, each a coroutine that returns what it saw or raises ``Failed``."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import BrowserError
from ..host import NativeHost, native_host
from ..run import NativeRun, run_with_native_browser
from .relay import Relayed
from .site import Site

TOGETHER = 10
LATE_SECONDS = 65
ENGAGEMENT = "chaperone-qualify"


class Failed(Exception):
    """A scenario that didn't go as it must."""


def must(condition: bool, why: str) -> None:
    """Fail the scenario unless the condition holds."""
    if not condition:
        raise Failed(why)


@dataclass
class Bench:
    """What scenarios run against."""

    client: Any
    assistant: str
    registrations: Path
    binary: str
    folder: Path  # for this qualification's own files
    site: Site
    search: list[Path]  # logs and state that the canary search looks through

    def host(self, scope: Path | None = None) -> NativeHost:
        """Answer the real host under the qualification's scope."""
        if scope is None:
            scope = self.folder / "scope.yaml"
            scope.write_text(f"engagement: {ENGAGEMENT}\nallow:\n  - host: 127.0.0.1\n    ports: ['*']\n")
        return native_host(scope=scope, binary=self.binary, home=self.folder / "home")

    async def thread(self) -> str:
        """Make a thread."""
        return str((await self.client.threads.create())["thread_id"])

    async def run(self, steps: list[dict[str, Any]], *, host: NativeHost | None = None, thread: str = "", **more: Any) -> NativeRun:
        """Run the graph once through the lifecycle that ships."""
        return await run_with_native_browser(
            self.client, thread_id=thread or await self.thread(), assistant_id=self.assistant, engagement_id=ENGAGEMENT,
            registrations=self.registrations, host=host or self.host(), input={"steps": steps, **more},
        )  # fmt: skip

    async def only(self, thread: str) -> dict[str, Any]:
        """Answer the one run of a thread, as the API tells it."""
        runs = await self.client.runs.list(thread)
        must(len(runs) == 1, f"the thread has {len(runs)} runs")
        return dict(runs[0])

    async def visit(self, path: str, running: asyncio.Future[Any]) -> None:
        """Wait until a run has come to a page of the site, and a second more."""
        while path not in self.site.visited:
            must(not running.done(), "the run ended before it reached its page")
            await asyncio.sleep(0.05)
        await asyncio.sleep(1)

    def gone(self, run_id: str) -> None:
        """Check that nothing of a run is left in the registrations directory."""
        must(not os.path.lexists(self.registrations / run_id), "its registration is still there")


def act(action: str, **params: Any) -> dict[str, Any]:
    """Write a step."""
    return {"action": action, "params": params}


def results(run: NativeRun) -> list[Any]:
    """Answer the results of a run that succeeded."""
    must(run.status == "success", f"the run ended as {run.status}: {run.values}")
    return list(run.values["results"])


async def normal(b: Bench) -> str:
    """A run opens a page, reads it and is refused what its scope doesn't allow; two turns on one thread."""
    thread = await b.thread()
    ids = set()
    for _ in range(2):
        run = await b.run(
            [act("launch"), act("goto", url=b.site.url), act("eval_js", expression="document.title"),
             act("goto", url="http://scope-denies.example/")],
            thread=thread,
        )  # fmt: skip
        r = results(run)
        must(r[1].get("status") == 200 and r[2] == {"result": "qualify"}, f"the page wasn't reached: {r[1:3]}")
        must(r[3] == {"error": "BROWSER_SCOPE_DENIED"}, f"the scope didn't hold: {r[3]}")
        b.gone(run.run_id)
        ids.add(run.run_id)
    must(len(ids) == 2, "two turns had one run id")
    return "two turns of one thread, each with a run id of the server's and a browser of its own"


async def after_65_seconds(b: Bench) -> str:
    """The session outlives the 60 seconds of its bootstrap."""
    r = results(await b.run([act("launch"), {"sleep": LATE_SECONDS}, act("goto", url=b.site.url), act("close")]))
    must(r[2].get("status") == 200 and r[3] == {"closed": True}, f"the session didn't last: {r[2:]}")
    return f"actions {LATE_SECONDS} s after the handshake"


async def expired_registration(b: Bench) -> str:
    """A registration that nobody used within 60 s is gone, and the run with it."""
    thread, code = await b.thread(), ""
    try:
        await b.run([act("launch")], thread=thread, late=LATE_SECONDS)
    except BrowserError as err:
        code = err.code
    run = await b.only(thread)
    must(code == "BROWSER_DISCONNECTED", f"the caller was told {code or 'nothing'}")
    must(run["status"] == "interrupted", f"the run is {run['status']}")
    b.gone(run["run_id"])
    return "the host ended with its unused bootstrap; the API run was cancelled"


async def startup_failure(b: Bench) -> str:
    """A host that can't start cancels the run."""
    thread, code = await b.thread(), ""
    wrong = b.folder / "wrong.yaml"
    wrong.write_text("engagement: another\nallow: []\n")
    try:
        await b.run([act("launch")], thread=thread, host=b.host(wrong))
    except BrowserError as err:
        code = err.code
    run = await b.only(thread)
    must(code == "INCOMPATIBLE_RUNTIME", f"the caller was told {code or 'nothing'}")
    must(run["status"] == "interrupted", f"the run is {run['status']}")
    b.gone(run["run_id"])
    return "the API run was cancelled"


class _Watched(AbstractAsyncContextManager[Any]):
    """The real host, which tells when it is ready and where."""

    def __init__(self, context: AbstractAsyncContextManager[Any], ready: asyncio.Future[Path], directory: Path) -> None:
        self._context, self._ready, self._directory = context, ready, directory

    async def __aenter__(self) -> Any:
        """Enter, and tell."""
        answer = await self._context.__aenter__()
        self._ready.set_result(self._directory)
        return answer

    async def __aexit__(self, *reason: Any) -> None:
        """Leave."""
        await self._context.__aexit__(*reason)


def watched(b: Bench) -> tuple[NativeHost, asyncio.Future[Path]]:
    """Answer a host and the future of its directory."""
    ready: asyncio.Future[Path] = asyncio.get_running_loop().create_future()
    host = b.host()
    return (lambda engagement, run, directory: _Watched(host(engagement, run, directory), ready, directory)), ready


async def caller_cancellation(b: Bench) -> str:
    """A caller who leaves in the middle of an action leaves nothing running."""
    thread = await b.thread()
    host, ready = watched(b)
    forever = act("eval_js", expression="new Promise(() => {})")
    running = asyncio.ensure_future(b.run([act("launch"), act("goto", url=f"{b.site.url}/left"), forever, forever], host=host, thread=thread))
    await b.visit("/left", running)  # and into the action
    directory = ready.result()
    must(not running.done(), "the run ended by itself")
    running.cancel()
    try:
        await running
        raise Failed("the caller's cancellation was swallowed")
    except asyncio.CancelledError:
        pass
    run = await b.only(thread)
    must(run["status"] == "interrupted", f"the run is {run['status']}")
    b.gone(run["run_id"])
    must(not _hosts(directory.name), "its host is still there")
    return "API run interrupted, host and registration gone"


def _hosts(run_id: str) -> list[str]:
    """Answer the ids of processes that were started for a run."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if run_id.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
        except OSError:
            pass
    return found


async def _meddled(b: Bench, page: str, meddle: Callable[[Path], None]) -> None:
    host, ready = watched(b)
    running = asyncio.ensure_future(
        b.run([act("launch"), act("goto", url=b.site.url + page), {"sleep": 6}, act("eval_js", expression="1"), act("launch")], host=host)
    )
    await b.visit(page, running)  # and into the sleep
    meddle(ready.result() / "browser.json")
    r = results(await running)
    must(r[1].get("status") == 200, f"it had no browser to begin with: {r[1]}")
    must(r[3] == r[4] == {"error": "UNAUTHORIZED_ADAPTER"}, f"the session went on: {r[3:]}")


async def replaced_registration(b: Bench) -> str:
    """Another descriptor in a run's place fails closed."""

    def replace(file: Path) -> None:
        d = json.loads(file.read_bytes())
        draft = file.with_name("draft")
        draft.touch(mode=0o600)
        draft.write_text(json.dumps({**d, "bootstrap_token": "0" * 64}))
        draft.rename(file)

    await _meddled(b, "/replaced", replace)
    return "the session ended with UNAUTHORIZED_ADAPTER, and nothing was tried anew"


async def removed_registration(b: Bench) -> str:
    """A registration that was revoked ends the session that was made with it."""
    await _meddled(b, "/removed", lambda file: file.unlink())
    return "the session ended with UNAUTHORIZED_ADAPTER"


async def ten_at_once(b: Bench) -> str:
    """Ten runs at once in one server never share a session, a cookie or a page."""

    async def one(n: int) -> None:
        r = results(
            await b.run([
                act("launch"), act("goto", url=f"{b.site.url}/set?id=run-{n}"),
                act("goto", url=f"{b.site.url}/meet?id={n}", timeout_ms=29_000),
                act("eval_js", expression="document.body.textContent"),
                act("eval_js", expression="document.cookie"),
                act("eval_js", expression="location.search"),
            ])
        )  # fmt: skip
        must(r[3] == {"result": "met"}, f"run {n} didn't meet the others: {r[2:4]}")
        must(r[4] == {"result": f"who=run-{n}"} and r[5] == {"result": f"?id={n}"}, f"run {n} saw another's: {r[4:]}")

    await asyncio.gather(*(one(n) for n in range(TOGETHER)))
    return f"{TOGETHER} runs met in the middle, each with its own cookie and page"


async def credentials(b: Bench) -> str:
    """No credential is found in what the server keeps, tells, logs, or has in its environment."""
    tokens: set[str] = set()
    planted = os.urandom(32).hex()
    thread = await b.thread()
    with tempfile.TemporaryDirectory(dir=b.folder) as name:
        behind = Path(name)
        real, ready = b.host(), asyncio.get_running_loop().create_future()

        def host(engagement: str, run: str, directory: Path) -> AbstractAsyncContextManager[Any]:
            return _Watched(Relayed(real, behind, tokens, (engagement, run), directory), ready, directory)

        running = asyncio.ensure_future(
            b.run([act("launch"), act("goto", url=f"{b.site.url}/?{planted}"), {"sleep": 6}, act("list_tabs")], host=host, thread=thread)
        )
        await b.visit(f"/?{planted}", running)
        directory = ready.result()
        looked = {f"process {pid} {what}": data for pid, what, data in _processes()}
        run = await running
    must(len(tokens) == 2, f"the search knows {len(tokens)} credentials, not 2")
    r = results(run)
    must(r[1].get("status") == 200 and r[3].get("active") == "main", f"the relayed run failed: {r[1:]}")
    c = b.client
    for what, told in (
        ("thread values and state", c.threads.get_state(thread)), ("checkpoints", c.threads.get_history(thread, limit=100)),
        ("thread", c.threads.get(thread)), ("run and its configuration", c.runs.get(thread, run.run_id)),
        ("join", c.runs.join(thread, run.run_id)), ("assistants", c.assistants.search()),
    ):  # fmt: skip
        looked[what] = json.dumps(await told).encode()
    for root in b.search:
        for path in [root, *root.rglob("*")] if root.is_dir() else [root]:
            if path.is_file():
                looked[f"file {path}"] = path.read_bytes()
    must(planted.encode() in looked["checkpoints"] and planted.encode() in looked["thread values and state"], "the search finds nothing at all")
    found = sorted({where for where, data in looked.items() for t in tokens if t.encode() in data or bytes.fromhex(t) in data})
    must(not found, f"found in {', '.join(found)}")
    b.gone(directory.name)
    files = sum(w.startswith("file") for w in looked)
    return f"2 credentials, {len(looked)} places, {files} of them files: nowhere; what was planted was found"


def _processes() -> list[tuple[str, str, bytes]]:
    """Read every process's environment and command line that may be read."""
    out = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for what in ("environ", "cmdline"):
            try:
                out.append((pid, what, Path(f"/proc/{pid}/{what}").read_bytes()))
            except OSError:
                pass
    return out


Scenario = Callable[[Bench], Awaitable[str]]

SCENARIOS: dict[str, Scenario] = {
    f.__name__: f
    for f in (
        normal, after_65_seconds, expired_registration, startup_failure, caller_cancellation,
        replaced_registration, removed_registration, ten_at_once, credentials,
    )
}  # fmt: skip

LONG = ("after_65_seconds", "expired_registration")
"""Scenarios that mostly wait: they run beside all others."""
