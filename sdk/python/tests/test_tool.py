"""browser_action and the middleware in LangChain's own machinery."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import kit
import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, wrap_tool_call
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool

import chaperone_browser as cb
from chaperone_browser import BrowserError, EngagementBrowserMiddleware, browser_action


class Model(GenericFakeChatModel):
    """Says what it is told to."""

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self


def agent(*calls: dict[str, Any], tools: Any = None, middleware: Any = ()) -> Any:
    """An agent whose model makes these calls, one after another, and is done."""
    says = [AIMessage("", tool_calls=[{"name": "browser_action", "args": c, "id": str(i)}]) for i, c in enumerate(calls)]
    model = Model(messages=iter([*says, AIMessage("done")]))
    return create_agent(model, tools or [browser_action], middleware=[EngagementBrowserMiddleware(), *middleware])


ASK = {"messages": [("user", "go")]}
TABS = {"action": "list_tabs", "params": {}}


def told(state: Any) -> list[Any]:
    return [json.loads(m.content) for m in state["messages"] if isinstance(m, ToolMessage)]


def test_a_model_sees_two_arguments() -> None:
    f = convert_to_openai_tool(browser_action)["function"]
    assert f["name"] == "browser_action"
    assert set(f["parameters"]["properties"]) == {"action", "params"}
    shown = json.dumps(f)
    assert not any(word in shown for word in ("config", "run_id", "engagement_id", "token", "descriptor"))
    assert all(name in shown for name in cb.ACTIONS)


def test_agent(host: kit.StandIn) -> None:
    assert told(agent(TABS, TABS).invoke(ASK, host.config)) == [{"tabs": [], "active": None}] * 2
    assert [v for v, _, _ in host.seen] == ["handshake", "action", "action"]


def test_agent_in_an_event_loop(host: kit.StandIn) -> None:
    state = asyncio.run(agent(TABS, {"action": "goto"}).ainvoke(ASK, host.config))
    assert len(told(state)) == 2
    assert [v for v, _, _ in host.seen] == ["handshake", "action", "action"]


def test_entry_comes_before_the_model(host: kit.StandIn) -> None:
    host.commit = "0" * 40  # so that the handshake fails
    asked: list[Any] = []

    class Watch(AgentMiddleware[Any, Any, Any]):
        def before_model(self, state: Any, runtime: Any) -> None:
            asked.append(state)

    with pytest.raises(BrowserError) as caught:
        agent(TABS, middleware=[Watch()]).invoke(ASK, host.config)
    assert caught.value.code == "INCOMPATIBLE_RUNTIME" and not asked and host.count("action") == 0


def test_a_model_cannot_choose_its_run(host: kit.StandIn) -> None:
    other = {"configurable": {"run_id": "another", "desktop_engagement_id": "another"}}
    call = {**TABS, "config": other, "run_id": "another", "token": "x"}
    assert told(agent(call).invoke(ASK, host.config)) == [{"tabs": [], "active": None}]
    body = json.loads(host.seen[-1][1])
    assert body["run_id"] == host.run_id and body["params"] == {}


@pytest.mark.parametrize("loop", [False, True])
def test_refusing_middleware_stops_before_any_request(host: kit.StandIn, loop: bool) -> None:
    """Scope and approval middleware wraps browser_action as it wraps any tool."""

    class Refuse(AgentMiddleware[Any, Any, Any]):
        def wrap_tool_call(self, request: Any, handler: Any) -> ToolMessage:
            return ToolMessage('{"error":"REFUSED"}', tool_call_id=request.tool_call["id"])

        async def awrap_tool_call(self, request: Any, handler: Any) -> ToolMessage:
            return self.wrap_tool_call(request, handler)

    a = agent(TABS, middleware=[Refuse()])
    state = asyncio.run(a.ainvoke(ASK, host.config)) if loop else a.invoke(ASK, host.config)
    assert told(state) == [{"error": "REFUSED"}]
    assert [v for v, _, _ in host.seen] == ["handshake"]


def test_approval_interrupts_before_any_request(host: kit.StandIn) -> None:
    from langchain.agents.middleware import HumanInTheLoopMiddleware
    from langgraph.checkpoint.memory import InMemorySaver

    model = Model(messages=iter([AIMessage("", tool_calls=[{"name": "browser_action", "args": TABS, "id": "1"}])]))
    a = create_agent(
        model, [browser_action], checkpointer=InMemorySaver(),
        middleware=[EngagementBrowserMiddleware(), HumanInTheLoopMiddleware(interrupt_on={"browser_action": True})],
    )  # fmt: skip
    config = {"configurable": {**host.config["configurable"], "thread_id": "t"}}
    state = a.invoke(ASK, config)
    assert state["__interrupt__"]
    assert host.count("action") == 0
    for s in a.get_state_history(config):  # and no checkpoint holds a credential
        assert host.token not in repr(s) and host.session not in repr(s)


def test_without_a_mount_nothing_changes(runs: Path) -> None:
    """The user's own browser tool, of whatever name, stays as it was."""
    runs.rmdir()

    @tool("browser_action")
    def own(action: str, params: dict[str, Any]) -> dict[str, Any]:
        """The user's own."""
        return {"own": action}

    config = {"configurable": {"run_id": "run_1", "desktop_engagement_id": kit.ENGAGEMENT}}
    for c in (config, {}):
        assert told(agent(TABS, tools=[own]).invoke(ASK, c)) == [{"own": "list_tabs"}]
        assert told(asyncio.run(agent(TABS, tools=[own]).ainvoke(ASK, c))) == [{"own": "list_tabs"}]
        assert browser_action.invoke(TABS, c) == {"error": "UNAUTHORIZED_ADAPTER"}


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (401, "UNAUTHORIZED_ADAPTER", "UNAUTHORIZED_ADAPTER"),
        (403, "UNAUTHORIZED_ADAPTER", "UNAUTHORIZED_ADAPTER"),
        (409, "UNAUTHORIZED_ADAPTER", "UNAUTHORIZED_ADAPTER"),
        (426, "INCOMPATIBLE_RUNTIME", "INCOMPATIBLE_RUNTIME"),
        (400, "BROWSER_PROTOCOL_ERROR", "BROWSER_PROTOCOL_ERROR"),
        (504, "BROWSER_TIMEOUT", "BROWSER_TIMEOUT"),
        (0, "", "BROWSER_DISCONNECTED"),
    ],
)
def test_errors_are_results(host: kit.StandIn, status: int, body: str, code: str) -> None:
    """Each code is a result that a model reads; all but a kept deadline end the session."""
    assert cb.mounted_native_browser(host.config) is not None
    host.answer = lambda s, verb, _, h: kit.refused(h, status, body) if status else kit.raw(h, b"")
    assert asyncio.run(browser_action.ainvoke(TABS, host.config)) == {"error": code}
    host.answer = None
    kept = status == 504
    assert browser_action.invoke(TABS, host.config) == ({"tabs": [], "active": None} if kept else {"error": code})
    assert host.count("action") == (2 if kept else 1)


def test_unknown_action_is_not_sent(host: kit.StandIn) -> None:
    for call in ({"action": "download", "params": {}}, {"action": "", "params": {}}):
        assert browser_action.invoke(call, host.config) == {"error": "BROWSER_PROTOCOL_ERROR"}
    assert host.count("action") == 0
    assert browser_action.invoke(TABS, host.config) == {"tabs": [], "active": None}


def test_cancellation_is_no_result(host: kit.StandIn) -> None:
    async def leave() -> None:
        task = asyncio.ensure_future(browser_action.ainvoke(TABS, host.config))
        while host.count("action") == 0:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    import threading

    stopped = threading.Event()

    def answer(s: kit.StandIn, verb: str, body: bytes, h: Any) -> bool:
        if verb == "action":
            stopped.wait(10)
            return kit.refused(h, 409, "UNAUTHORIZED_ADAPTER")
        if verb == "cancel":
            stopped.set()
        return False

    assert cb.mounted_native_browser(host.config) is not None
    host.answer = answer
    asyncio.run(leave())
    assert host.count("cancel") == 1


def test_wrap_tool_call_decorator_sees_the_arguments(host: kit.StandIn) -> None:
    seen: list[Any] = []

    @wrap_tool_call
    def watch(request: Any, handler: Any) -> Any:
        seen.append(request.tool_call["args"])
        return handler(request)

    agent(TABS, middleware=[watch]).invoke(ASK, host.config)
    assert seen == [TABS]
