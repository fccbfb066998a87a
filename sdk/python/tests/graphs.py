"""Graphs that the tests' server serves beside the qualification's."""

from __future__ import annotations

import asyncio
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from chaperone_browser import initialize_native_browser


class State(TypedDict, total=False):
    payload: Any
    sleep: float
    told: Any
    browser: str


async def echo(state: State, config: RunnableConfig) -> State:
    """Tell what came in, with the browser initialized as a custom graph does it."""
    browser = await initialize_native_browser(config)
    await asyncio.sleep(state.get("sleep", 0))
    told = {k: v for k, v in config["configurable"].items() if isinstance(v, (str, int, dict, list)) and not k.startswith("__")}
    return {"told": told, "browser": repr(browser)}


async def early(state: State) -> State:
    """Be over before there is a browser."""
    return {}


def build(node: Any) -> Any:
    if "config" in node.__annotations__:
        node.__annotations__["config"] = RunnableConfig
    builder = StateGraph(State)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    return builder.compile()


echo_graph = build(echo)
early_graph = build(early)
