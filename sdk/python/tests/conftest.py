from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import hypothesis
import kit
import pytest
import server

from chaperone_browser import mount


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of registrations, mounted as far as this process is concerned."""
    directory = tmp_path / "browser-runs"
    directory.mkdir(mode=0o700)
    monkeypatch.setattr(mount, "BROWSER_RUNS", str(directory))
    monkeypatch.setattr(mount, "BROWSER_JSON", str(tmp_path / "browser.json"))
    return directory


@pytest.fixture
def host(runs: Path) -> Iterator[kit.StandIn]:
    with kit.StandIn(runs).serving() as standin:
        yield standin


@pytest.fixture
def site() -> Iterator[kit.Site]:
    with kit.Site() as s:
        yield s


@pytest.fixture(scope="session")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[server.Server]:
    with server.serving(tmp_path_factory.mktemp("api")) as s:
        yield s


hypothesis.settings.register_profile("here", database=None, deadline=None)  # nothing is left in the checkout
hypothesis.settings.load_profile("here")
