"""Registrations: private, exact, waited for, and watched."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import kit
import pytest
from test_vectors import code_of

import chaperone_browser as cb
from chaperone_browser import mount, registration


@pytest.fixture(autouse=True)
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "WAIT_SECONDS", 3.0)


def test_the_fixed_places() -> None:
    import importlib

    fresh = importlib.util.find_spec("chaperone_browser.mount")
    assert fresh is not None and fresh.origin is not None
    text = Path(fresh.origin).read_text()
    assert 'BROWSER_RUNS = "/run/chaperone/browser-runs"' in text and 'BROWSER_JSON = "/run/chaperone/browser.json"' in text
    assert "environ" not in text


def test_without_a_mount_nothing_changes(runs: Path) -> None:
    runs.rmdir()
    config = {"configurable": {"run_id": "run_1", "desktop_engagement_id": kit.ENGAGEMENT}}
    for c in (config, {}, None):
        assert cb.mounted_native_browser(c) is None
        assert asyncio.run(cb.initialize_native_browser(c)) is None


def test_waits_for_its_registration(runs: Path) -> None:
    host = kit.StandIn(runs)
    found: list[object] = []
    waiting = threading.Thread(target=lambda: found.append(cb.mounted_native_browser(host.config)))
    waiting.start()
    time.sleep(0.3)
    assert not found
    with host.serving():
        waiting.join(kit.PATIENCE)
        assert isinstance(found[0], cb.Session)


def test_gives_up(runs: Path) -> None:
    begun = time.monotonic()
    assert code_of(lambda: cb.mounted_native_browser(kit.StandIn(runs).config)) == "UNAUTHORIZED_ADAPTER"
    assert 2.9 < time.monotonic() - begun < 15


def test_limit_is_thirty_seconds() -> None:
    import inspect

    assert "WAIT_SECONDS = 30.0" in inspect.getsource(registration)


def test_cancelled_wait_ends(runs: Path) -> None:
    async def leave() -> None:
        task = asyncio.ensure_future(cb.initialize_native_browser(kit.StandIn(runs).config))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    before = threading.active_count()
    asyncio.run(leave())
    time.sleep(0.3)
    assert threading.active_count() <= before


@pytest.mark.parametrize("missing", ["run_id", "desktop_engagement_id"])
def test_both_ids_are_needed(host: kit.StandIn, missing: str) -> None:
    config = {"configurable": {k: v for k, v in host.config["configurable"].items() if k != missing}, "run_id": host.run_id}
    assert code_of(lambda: cb.mounted_native_browser(config)) == "UNAUTHORIZED_ADAPTER"
    for wrong in ("another", "../" + host.run_id, "a/b", ".", "", 7, None, "a" * 129):
        config = {"configurable": {**host.config["configurable"], missing: wrong}}
        if missing == "run_id" and wrong == "another":
            continue  # it would be waited for
        assert code_of(lambda: cb.mounted_native_browser(config)) == "UNAUTHORIZED_ADAPTER"
    assert host.seen == []


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"expires_at_ms": 1}, "INCOMPATIBLE_RUNTIME"),
        ({"protocol": "owned-browser-v2"}, "INCOMPATIBLE_RUNTIME"),
        ({"engagement_id": "acme"}, "UNAUTHORIZED_ADAPTER"),
        ({"run_id": "run_2"}, "UNAUTHORIZED_ADAPTER"),
    ],
)
def test_registration_is_exact(host: kit.StandIn, change: dict[str, object], code: str) -> None:
    host.publish(**change)
    assert code_of(lambda: cb.mounted_native_browser(host.config)) == code
    assert host.seen == []


def link(path: Path) -> None:
    path.rename(f"{path}-real")
    path.symlink_to(f"{path}-real")


SPOILS: dict[str, Callable[[kit.StandIn], None]] = {
    "directory open to the group": lambda h: h.directory.chmod(0o750),
    "directory open to others": lambda h: h.directory.chmod(0o701),
    "folder open to the group": lambda h: h.folder.chmod(0o710),
    "descriptor readable by others": lambda h: h.file.chmod(0o604),
    "directory is a link": lambda h: link(h.directory),
    "folder is a link": lambda h: link(h.folder),
    "descriptor is a link": lambda h: link(h.file),
    "descriptor is a FIFO": lambda h: (h.file.unlink(), os.mkfifo(h.file, 0o600))[0],
    "descriptor is a folder": lambda h: (h.file.unlink(), h.file.mkdir(0o700))[0],
    "directory is a file": lambda h: (h.directory.rename(f"{h.directory}2"), h.directory.touch(0o600))[0],
}


@pytest.mark.parametrize("name", SPOILS)
def test_registration_is_private(host: kit.StandIn, name: str) -> None:
    SPOILS[name](host)
    assert code_of(lambda: cb.mounted_native_browser(host.config)) == "UNAUTHORIZED_ADAPTER"
    assert host.seen == []


@pytest.mark.parametrize("kind", ["none", "a file", "a link", "deaf"])
def test_socket(host: kit.StandIn, kind: str) -> None:
    path = host.folder / "browser.sock"
    if kind == "a link":
        link(path)
    else:
        path.unlink()
    if kind == "a file":
        path.touch(0o600)
    if kind == "deaf":
        os.chdir(host.folder)
        s = socket.socket(socket.AF_UNIX)
        s.bind("browser.sock")
        s.close()
        os.chdir("/")
    want = "BROWSER_DISCONNECTED" if kind in ("none", "deaf") else "UNAUTHORIZED_ADAPTER"
    assert code_of(lambda: cb.mounted_native_browser(host.config)) == want


def test_peer_must_be_the_owner(host: kit.StandIn) -> None:
    """Whoever listens must be who wrote the descriptor (as an ordinary user all of it is one's own)."""
    if os.geteuid() != 0:
        assert cb.mounted_native_browser(host.config) is not None
        return
    os.chown(host.file, 12345, 12345)
    assert code_of(lambda: cb.mounted_native_browser(host.config)) == "UNAUTHORIZED_ADAPTER"
    assert host.seen == []


def test_long_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / ("long" * 40) / "browser-runs"
    directory.mkdir(0o700, parents=True)
    monkeypatch.setattr(mount, "BROWSER_RUNS", str(directory))
    with kit.StandIn(directory).serving() as host:
        s = cb.mounted_native_browser(host.config)
        assert s is not None and s.act("list_tabs", {})


REVOCATIONS: dict[str, Callable[[kit.StandIn], None]] = {
    "removed": lambda h: h.file.unlink(),
    "replaced": lambda h: h.publish(bootstrap_token="a" * 64),
    "made public": lambda h: h.file.chmod(0o644),
    "made a link": lambda h: link(h.file),
}


@pytest.mark.parametrize("name", REVOCATIONS)
def test_revocation(host: kit.StandIn, name: str) -> None:
    s = cb.mounted_native_browser(host.config)
    assert s is not None
    REVOCATIONS[name](host)
    assert code_of(lambda: s.act("list_tabs", {})) == "UNAUTHORIZED_ADAPTER"
    assert code_of(lambda: cb.mounted_native_browser(host.config)) == "UNAUTHORIZED_ADAPTER"
    host.publish()  # a fresh one in its place doesn't bring the session back
    assert code_of(lambda: cb.mounted_native_browser(host.config)) == "UNAUTHORIZED_ADAPTER"
    assert (host.count("handshake"), host.count("action")) == (1, 0)


def test_one_registration_has_one_session(host: kit.StandIn) -> None:
    async def all_at_once() -> list[object]:
        return await asyncio.gather(*(cb.initialize_native_browser(host.config) for _ in range(16)))

    first, *others = asyncio.run(all_at_once())
    assert all(s is first for s in others)
    assert host.count("handshake") == 1


def test_failed_handshake_is_not_repeated(host: kit.StandIn) -> None:
    host.commit = "0" * 40
    for _ in range(2):
        assert code_of(lambda: cb.mounted_native_browser(host.config)) == "INCOMPATIBLE_RUNTIME"
    assert host.count("handshake") == 1


def test_outlives_its_bootstrap(host: kit.StandIn) -> None:
    host.expires = 3000
    host.publish()
    s = cb.mounted_native_browser(host.config)
    time.sleep(3.1)
    assert s is not None and cb.mounted_native_browser(host.config) is s and s.act("list_tabs", {})
    assert host.count("handshake") == 1


def test_sessions_are_isolated(runs: Path) -> None:
    with kit.StandIn(runs, session="6" * 64).serving() as a, kit.StandIn(runs, session="7" * 64).serving() as b:
        for host in (a, b, a):
            s = cb.mounted_native_browser(host.config)
            assert s is not None and s.act("list_tabs", {}) and s.run_id == host.run_id
        crossed = {"configurable": {**a.config["configurable"], "desktop_engagement_id": "other"}}
        assert code_of(lambda: cb.mounted_native_browser(crossed)) == "UNAUTHORIZED_ADAPTER"
        assert {h["Authorization"] for v, _, h in a.seen if v == "action"} == {"Bearer " + "6" * 64}
        assert {h["Authorization"] for v, _, h in b.seen if v == "action"} == {"Bearer " + "7" * 64}
        b.file.unlink()
        assert code_of(lambda: cb.mounted_native_browser(b.config)) == "UNAUTHORIZED_ADAPTER"
        s = cb.mounted_native_browser(a.config)
        assert s is not None and s.act("list_tabs", {})


def test_dead_sessions_let_their_folders_go(runs: Path) -> None:
    def held() -> int:
        return sum(os.path.exists(f"/proc/self/fd/{fd}") and "browser-runs" in os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd"))

    before = held()
    for _ in range(20):
        with kit.StandIn(runs).serving() as host:
            cb.mounted_native_browser(host.config)
            host.file.unlink()
    assert held() - before < 5


def test_static_form(tmp_path: Path, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One mounted descriptor; both ids must be its own."""
    with kit.StandIn(runs).serving() as host:
        monkeypatch.setattr(mount, "BROWSER_RUNS", str(tmp_path / "none"))
        monkeypatch.setattr(mount, "BROWSER_JSON", str(host.file))
        other = {"configurable": {"run_id": "other", "desktop_engagement_id": kit.ENGAGEMENT}}
        assert code_of(lambda: cb.mounted_native_browser(other)) == "UNAUTHORIZED_ADAPTER"
        s = cb.mounted_native_browser(host.config)
        assert s is not None and s.act("list_tabs", {})
        assert cb.mounted_native_browser(host.config) is s
        host.file.unlink()
        assert code_of(lambda: s.act("list_tabs", {})) == "UNAUTHORIZED_ADAPTER"


def test_context(host: kit.StandIn) -> None:
    """native_browser_session reaches tasks and threads, one run, and no longer than its block."""
    with cb.native_browser_session(str(host.file)) as s:
        assert asyncio.run(cb.initialize_native_browser({})) is s
        assert asyncio.run(cb.initialize_native_browser(host.config)) is s
        other = {"configurable": {"run_id": "other", "desktop_engagement_id": kit.ENGAGEMENT}}
        assert code_of(lambda: cb.mounted_native_browser(other)) == "UNAUTHORIZED_ADAPTER"
    assert code_of(lambda: s.act("list_tabs", {})) == "BROWSER_DISCONNECTED"
    assert host.count("handshake") == 1


def test_context_of_a_descriptor(host: kit.StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cb.native, "BROWSER_JSON", str(host.file))
    d = cb.NativeBrowserDescriptor.decode(host.descriptor())
    with cb.native_browser_session(d) as s:
        assert s.act("list_tabs", {})
    assert code_of(lambda: cb.NativeBrowserDescriptor.decode({**host.descriptor(), "more": 1})) == "INCOMPATIBLE_RUNTIME"


def test_loopback(host: kit.StandIn, tmp_path: Path) -> None:
    """transport loopback, for direct runs in one network namespace: the endpoint is the host then."""
    import uuid

    run_id = str(uuid.uuid4())
    with kit.real_host(tmp_path, host.directory, run_id, "--transport", "loopback"):
        with cb.native_browser_session(str(host.directory / run_id / "browser.json")) as s:
            assert s.act("launch", {})["active"] == "main"
