"""Agents that are written as classes, in the words of OpenIntent."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any, TypeVar, cast

from .context import Context
from .engagement import EngagementDecision, EngagementSignals
from .errors import AbideError, snake_code
from .execution import BRANCH
from .policy import FallbackPolicy, HumanRetryPolicy, RetryPolicy
from .suspension import Choice, ResponseType

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)

_MARK = "__abide_hook__"


def on_input_requested(method: F) -> F:
    """Marks a method that is called whenever people are to be told of a question, at each attempt."""
    return _marked(method, "input_requested")


def on_input_received(method: F) -> F:
    """Marks a method that is called when a question is answered."""
    return _marked(method, "input_received")


def on_suspension_expired(method: F) -> F:
    """Marks a method that is called when a question ends without an answer."""
    return _marked(method, "suspension_expired")


def on_question(method: F) -> F:
    """Marks a method that is called when somebody who is to decide wants to know something first.

    What it returns is their answer; with `None`, a person answers.
    """
    return _marked(method, "question_asked")


def on_engagement_decision(method: F) -> F:
    """Marks a method that is called, in place, when `should_request_input` has decided."""
    return _marked(method, "engagement_decision")


def _marked(method: F, hook: str) -> F:
    setattr(method, _MARK, hook)
    return method


def current_context() -> Context:
    """The context of the function that this code belongs to."""
    here = BRANCH.get()
    if here is None:
        raise AbideError("there is no task here; this is for code that does a node's work")
    return Context(here[0])


class BaseAgent:
    """An agent as a class: `run(self, ctx, …)` does the work, and marked methods are its hooks.

    `default_human_retry_policy`, on the class or on an instance, is the agent's level of the cascade.
    """

    agent_id: str = ""
    """Its name, and that of its workflow; without one, the name of the class."""
    default_human_retry_policy: HumanRetryPolicy | None = None
    idempotent: bool = False
    reversible: bool | None = None
    timeout: float | timedelta | None = None
    retry: RetryPolicy | Mapping[str, Any] | None = None

    def __new__(cls, *args: Any, **kwargs: Any) -> BaseAgent:
        """Gives an agent without a name that of its class."""
        made = super().__new__(cls)
        if not made.agent_id:
            made.agent_id = snake_code(cls.__name__).replace("_", "-")
        return made

    @property
    def context(self) -> Context:
        """The context of the task that this code works on."""
        return current_context()

    def request_input(
        self,
        intent_id: str | None = None,
        question: str = "",
        response_type: ResponseType = "choice",
        choices: Iterable[Choice | Mapping[str, Any] | str] | None = None,
        context: Mapping[str, Any] | None = None,
        *,
        channel_hint: str | None = None,
        timeout_seconds: int | None = None,
        fallback_policy: FallbackPolicy | None = None,
        fallback_value: Any = None,
        retry_policy: HumanRetryPolicy | Mapping[str, Any] | None = None,
        notify_to: str | None = None,
        key: str | None = None,
    ) -> Coroutine[Any, Any, Any]:
        """Asks a question, as `Context.request_input` does. The intent is the run that the agent works on."""
        ctx = self._of(intent_id)
        return ctx.request_input(
            question,
            response_type,
            choices,
            context,
            retry_policy=retry_policy,
            timeout_seconds=timeout_seconds,
            fallback_policy=fallback_policy,
            fallback_value=fallback_value,
            channel_hint=channel_hint,
            notify_to=notify_to,
            key=key,
        )

    def should_request_input(
        self,
        intent_id: str | None = None,
        signals: EngagementSignals | None = None,
        confidence: float | None = None,
        risk: float | None = None,
        reversibility: float | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> Coroutine[Any, Any, EngagementDecision]:
        """Decides whether to ask, as `Context.should_request_input` does."""
        return self._of(intent_id).should_request_input(
            signals, confidence=confidence, risk=risk, reversibility=reversibility, context=context
        )

    def work(self) -> Callable[..., Any]:
        """What does the work: the method `run`."""
        run = getattr(self, "run", None)
        if not callable(run):
            raise AbideError(f"{type(self).__name__} has no method `run(self, ctx, …)`; add it: it does the work")
        return cast(Callable[..., Any], run)

    def hooks(self) -> Iterator[tuple[str, Callable[..., Any]]]:
        """Its marked methods."""
        for name in dir(type(self)):
            hook = getattr(getattr(type(self), name), _MARK, None)
            if hook is not None:
                yield hook, getattr(self, name)

    def _of(self, intent_id: str | None) -> Context:
        ctx = current_context()
        if intent_id is not None and intent_id != ctx.run_id:
            raise AbideError(f"'{intent_id}' is not the run that this agent works on, which is {ctx.run_id}")
        return ctx


def Agent(agent_id: str) -> Callable[[C], C]:
    """Names an agent that is written as a class, and makes the class a `BaseAgent` if it is none."""

    def decorate(cls: C) -> C:
        if issubclass(cls, BaseAgent):
            cls.agent_id = agent_id
            return cls
        same = {"__doc__": cls.__doc__, "__module__": cls.__module__, "__qualname__": cls.__qualname__}
        return cast(C, type(cls.__name__, (cls, BaseAgent), {"agent_id": agent_id, **same}))

    return decorate
