"""Abide: durable agents that wait for people.

```python
from abide import App, Context

app = App("refunds")

@app.agent("refund")
async def refund(ctx: Context, order: str, amount: float) -> dict:
    if not await ctx.approve(f"Refund {amount} for {order}?"):
        return {"paid": False}
    receipt = await ctx.step("pay", pay, order, amount)
    return {"paid": True, "receipt": receipt}
```

`abide-worker module:app` does its work.
"""

from ._version import __version__
from .agent import (
    Agent,
    BaseAgent,
    current_context,
    on_engagement_decision,
    on_input_received,
    on_input_requested,
    on_question,
    on_suspension_expired,
)
from .app import App
from .client import AsyncClient, Client
from .context import Context, Conversation
from .engagement import EngagementDecision, EngagementSignals
from .errors import (
    AbideError,
    ApiError,
    ChildCancelledError,
    ChildFailedError,
    CodeChangedError,
    ContextLostError,
    FinalError,
    InputCancelledError,
    InputTimeoutError,
    InterruptCancelledError,
    InterruptTimeoutError,
    InvalidValueError,
    MissingInputError,
    NotAwaitedError,
    RetryableError,
    RunFailedError,
    StaleFenceError,
    StepError,
    UnreachableError,
)
from .models import Diff, Event, Fork, InboxItem, NodeState, OpenInterrupt, Run, RunSummary
from .policy import EscalationStep, HumanRetryPolicy, RetryPolicy
from .session import Worker
from .suspension import Approval, Choice, Intent, Suspension
from .sync_context import SyncContext, SyncConversation
from .turns import Chunk, Provider, Turn, Turns, TurnWait, Usage

__all__ = [
    "AbideError",
    "Agent",
    "ApiError",
    "App",
    "Approval",
    "AsyncClient",
    "BaseAgent",
    "ChildCancelledError",
    "ChildFailedError",
    "Choice",
    "Chunk",
    "Client",
    "CodeChangedError",
    "Context",
    "ContextLostError",
    "Conversation",
    "Diff",
    "EngagementDecision",
    "EngagementSignals",
    "EscalationStep",
    "Event",
    "FinalError",
    "Fork",
    "HumanRetryPolicy",
    "InboxItem",
    "InputCancelledError",
    "InputTimeoutError",
    "Intent",
    "InterruptCancelledError",
    "InterruptTimeoutError",
    "InvalidValueError",
    "MissingInputError",
    "NodeState",
    "NotAwaitedError",
    "OpenInterrupt",
    "Provider",
    "RetryPolicy",
    "RetryableError",
    "Run",
    "RunFailedError",
    "RunSummary",
    "StaleFenceError",
    "StepError",
    "Suspension",
    "SyncContext",
    "SyncConversation",
    "Turn",
    "TurnWait",
    "Turns",
    "UnreachableError",
    "Usage",
    "Worker",
    "__version__",
    "current_context",
    "on_engagement_decision",
    "on_input_received",
    "on_input_requested",
    "on_question",
    "on_suspension_expired",
]
