"""The examples of docs/runs.md, as they stand there."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any

import kit
import pytest
import server
from langchain_core.messages import AIMessage, ToolMessage
from test_tool import TABS, Model, told

PAGE = (kit.ROOT / "docs" / "runs.md").read_text()
BLOCKS = re.findall(r"(?s)```python\n(.*?)```", PAGE)


def example(name: str, **names: Any) -> dict[str, Any]:
    """Run the one example that speaks of name, and answer what it defined."""
    (block,) = (b for b in BLOCKS if name in b)
    exec(compile(block, "docs/runs.md", "exec"), names)
    return names


@pytest.fixture
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with acme.yaml in it, chaperone on PATH, and a home of its own."""
    kit.scope(tmp_path).rename(tmp_path / "acme.yaml")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{kit.CHAPERONE.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_every_example_is_run() -> None:
    assert len(BLOCKS) == 4


def test_agent(host: kit.StandIn) -> None:
    model = Model(messages=iter([AIMessage("", tool_calls=[{"name": "browser_action", "args": TABS, "id": "1"}]), AIMessage("done")]))
    agent = example("EngagementBrowserMiddleware", model=model)["agent"]
    assert told(asyncio.run(agent.ainvoke({"messages": [("user", "go")]}, host.config))) == [{"tabs": [], "active": None}]


def test_entry(host: kit.StandIn) -> None:
    entry = example("import initialize_native_browser")["entry"]
    assert asyncio.run(entry({}, host.config)) == {}
    assert host.count("handshake") == 1


def test_turn(api: server.Server, at_home: Path) -> None:
    """With the tests' own server and graph in place of the page's."""
    block = example("run_with_native_browser")
    given: dict[str, Any] = {}
    real, get_client = block["run_with_native_browser"], block["get_client"]

    async def run(client: Any, **asked: Any) -> Any:
        given.update(asked)
        return await real(client, **{**asked, "assistant_id": "echo", "input": {"payload": 1}})

    block.update(run_with_native_browser=run, get_client=lambda url: get_client(url=api.url))
    result = asyncio.run(block["turn"](api.registrations, "go"))
    assert (result.status, result.values["payload"]) == ("success", 1)
    assert given["engagement_id"] == kit.ENGAGEMENT == result.values["told"]["desktop_engagement_id"]


def test_mcp_in_graphs(at_home: Path, site: kit.Site) -> None:
    """LangChain's MCP adapter drives chaperone mcp: several calls of one agent, one browser."""
    calls = [
        ("browser_goto", {"url": site.url}),
        ("browser_click", {"selector": "button"}),
        ("browser_eval_js", {"expression": "document.title"}),
        ("browser_goto", {"url": "http://scope-denies.example/"}),
    ]
    says = [AIMessage("", tool_calls=[{"name": n, "args": a, "id": str(i)}]) for i, (n, a) in enumerate(calls)]
    model = Model(messages=iter([*says, AIMessage("done")]))
    state = asyncio.run(example("MultiServerMCPClient")["browse"](model, "go"))
    answers = [json.dumps(m.content) for m in state["messages"] if isinstance(m, ToolMessage)]
    assert "200" in answers[0] and "clicked" in answers[2] and "scope_denied" in answers[3]
