"""The middleware that shakes hands at an agent's entry."""

from __future__ import annotations

from typing import Any, Optional

from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain_core.runnables import RunnableConfig
from langgraph.runtime import Runtime

from .native import initialize_native_browser, mounted_native_browser


class EngagementBrowserMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Finds the run's registration and makes the handshake before any model work.

    Without a mount and without a ``native_browser_session`` it changes nothing. What
    is wrong with a registration raises ``BrowserError`` and so ends the run: an agent
    mustn't go on without the browser it was approved with. It adds no tool and wraps
    none; scope and approval middleware stand as they did.
    """

    # The parameter's spelling is one that LangGraph recognises on every Python.
    def before_agent(
        self, state: AgentState[Any], runtime: Runtime[Any], config: Optional[RunnableConfig] = None  # noqa: UP045
    ) -> dict[str, Any] | None:
        """Initialize, blocking; the state isn't touched."""
        mounted_native_browser(config)
        return None

    async def abefore_agent(
        self, state: AgentState[Any], runtime: Runtime[Any], config: Optional[RunnableConfig] = None  # noqa: UP045
    ) -> dict[str, Any] | None:
        """Initialize; the state isn't touched."""
        await initialize_native_browser(config)
        return None
