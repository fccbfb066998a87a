"""A model-free graph that uses its browser as an agent would.

Served as ``{"graphs": {"chaperone-qualify": "chaperone_browser.qualify.graph:graph"}}``.
Its entry is the shipped middleware's own hook; its steps go through
``browser_action.ainvoke``. Input: ``steps``, a list of ``{"action", "params"}`` or
``{"sleep": SECONDS}``; ``late``, seconds before the entry. Output: ``results``, one
result object a step.
"""

from __future__ import annotations

import asyncio
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from ..middleware import EngagementBrowserMiddleware
from ..tool import browser_action


class State(TypedDict, total=False):
    """What goes in and comes out; no credential ever does."""

    steps: list[dict[str, Any]]
    late: float
    results: list[Any]


async def _late(state: State) -> State:
    await asyncio.sleep(state.get("late", 0))
    return {}


async def _steps(state: State, config: RunnableConfig) -> State:
    results: list[Any] = []
    for step in state.get("steps", []):
        if "sleep" in step:
            await asyncio.sleep(step["sleep"])
            results.append({"slept": step["sleep"]})
        else:
            results.append(await browser_action.ainvoke(step, config))
    return {"results": results}


_steps.__annotations__["config"] = RunnableConfig


def _build() -> Any:
    builder = StateGraph(State)
    builder.add_node("late", _late)
    builder.add_node("entry", EngagementBrowserMiddleware().abefore_agent)
    builder.add_node("steps", _steps)
    builder.add_edge(START, "late")
    builder.add_edge("late", "entry")
    builder.add_edge("entry", "steps")
    builder.add_edge("steps", END)
    return builder.compile()


graph = _build()
