"""``browser_action`` as a LangChain tool."""

from __future__ import annotations

from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import StructuredTool
from pydantic import BaseModel, ConfigDict, Field

from .native import act, act_blocking
from .protocol import ACTIONS

_DESCRIPTION = """Act in this run's own contained browser. One action a call:
launch {}; goto {url}; click {selector}; type {selector, text}; scroll {dx, dy};
screenshot {full_page}; eval_js {expression}; console_logs {clear}; page_source {};
pdf {}; list_tabs {}; switch_tab {tab_id}; close {}. goto, click and type also take
timeout_ms, type takes delay_ms. Answers the action's result object, or
{"error": CODE}: BROWSER_SCOPE_DENIED where the engagement's scope forbids the
address, BROWSER_ACTION_FAILED where the action failed, BROWSER_TIMEOUT where it took
too long; after any other code the browser is gone for this run."""


class _Arguments(BaseModel):
    """What a model sees and may say: nothing else is read."""

    model_config = ConfigDict(extra="ignore")

    action: str = Field(description="One of " + ", ".join(ACTIONS) + ".")
    params: dict[str, Any] = Field(default_factory=dict, description="The action's own parameters.")


async def _browser_action(action: str, params: dict[str, Any], config: RunnableConfig) -> dict[str, Any]:
    return await act(config, action, params)


def _browser_action_blocking(action: str, params: dict[str, Any], config: RunnableConfig) -> dict[str, Any]:
    return act_blocking(config, action, params)


# The annotation is a string here, and LangChain finds the injected parameter by its type.
for _f in (_browser_action, _browser_action_blocking):
    _f.__annotations__["config"] = RunnableConfig

browser_action: StructuredTool = StructuredTool.from_function(
    func=_browser_action_blocking,
    coroutine=_browser_action,
    name="browser_action",
    description=_DESCRIPTION,
    args_schema=_Arguments,
)
"""One action of the run's browser.

Arguments: ``action`` (one of the thirteen names), ``params`` (the action's own JSON
object). The run's configuration is injected by LangChain and isn't in the schema that
a model sees. Answers the action's result object, or ``{"error": CODE}``. A cancelled
task stays cancelled, after the host was asked for at most two seconds to stop.
"""
