"""The package as it is installed."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import kit

SDK = kit.ROOT / "sdk" / "python"


def test_types() -> None:
    done = subprocess.run([sys.executable, "-m", "mypy", "--cache-dir", "/dev/null"], cwd=SDK, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_wheel(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path], cwd=SDK, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("chaperone_browser-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"chaperone_browser/py.typed", "chaperone_browser/qualify/__main__.py"} <= set(names)
    assert not [n for n in names if "test" in n]


def test_wire_needs_the_standard_library_alone() -> None:
    """Without LangChain and its kin all but the tool and the middleware are there."""
    code = """
import sys
for name in ("langchain", "langchain_core", "langgraph", "langgraph_sdk", "pydantic", "httpx"):
    sys.modules[name] = None
import chaperone_browser as cb
for name in cb.__all__:
    try:
        getattr(cb, name)
    except ImportError:
        print(name)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=SDK / "src", capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["EngagementBrowserMiddleware", "browser_action"]


def test_no_environment_and_no_proxy_is_read() -> None:
    for file in (SDK / "src" / "chaperone_browser").glob("*.py"):
        text = file.read_text()
        assert "environ" not in text and "getenv" not in text and "getproxies" not in text, file
