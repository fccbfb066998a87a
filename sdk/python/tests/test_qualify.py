"""The whole qualification, as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys

import kit
import server

from chaperone_browser.qualify.scenarios import SCENARIOS


def test_qualification(api: server.Server) -> None:
    sdk = kit.ROOT / "sdk" / "python"
    done = subprocess.run(
        [sys.executable, "-m", "chaperone_browser.qualify", "--api", api.url, "--registrations", api.registrations,
         "--binary", kit.CHAPERONE, "--search", api.folder, "--json"],
        cwd=sdk / "src", capture_output=True, text=True, timeout=400,
    )  # fmt: skip
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert {r["scenario"] for r in rows} == set(SCENARIOS), done.stderr
    assert [r for r in rows if r["status"] != "passed"] == []
    assert done.returncode == 0 and all(set(r) == {"scenario", "status", "seconds", "detail"} for r in rows)
    assert not list(api.registrations.iterdir())


def test_wrong_arguments() -> None:
    done = subprocess.run([sys.executable, "-m", "chaperone_browser.qualify", "--api"], cwd=kit.ROOT / "sdk/python/src", capture_output=True, text=True)
    assert done.returncode == 2 and "--api" in done.stderr
