"""An app: the functions that do nodes' work under one agent's name, and the hooks of that agent."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from .engagement import EngagementDecision
from .errors import AbideError, MissingInputError
from .policy import HumanRetryPolicy, RetryPolicy, millis
from .suspension import Intent, Suspension
from .values import decode, hints

if TYPE_CHECKING:
    from .agent import BaseAgent
    from .session import Worker

F = TypeVar("F", bound=Callable[..., Any])

HOOKS = ("input_requested", "input_received", "suspension_expired", "question_asked")
"""The hooks that are durable tasks; `engagement_decision` is called in place."""

_ID = re.compile(r"[a-z][a-z0-9_-]{0,127}")


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of node that an app does the work of."""

    kind: str
    function: Callable[..., Any]
    idempotent: bool = False
    reversible: bool | None = None
    """Nothing is sent unless it is said: a kind may be neither, and nobody knows then."""
    timeout: float | timedelta | None = None
    human_retry_policy: HumanRetryPolicy | None = None
    """The policy of a class that shares its app with others; an app's own is known to the server."""
    agent: str | None = None
    """The id of the agent's workflow, if the kind is an agent."""
    retry: RetryPolicy | Mapping[str, Any] | None = None
    parameters: tuple[inspect.Parameter, ...] = ()
    annotations: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_async(self) -> bool:
        """Whether the function is async."""
        return inspect.iscoroutinefunction(inspect.unwrap(self.function))

    def registration(self) -> dict[str, Any]:
        """The kind as a worker registers it."""
        told: dict[str, Any] = {"kind": self.kind, "idempotent": self.idempotent}
        if self.reversible is not None:
            told["reversible"] = self.reversible
        if self.timeout is not None:
            told["timeoutMs"] = millis(self.timeout)
        return told

    @property
    def takes_all(self) -> inspect.Parameter | None:
        """The one parameter that all inputs are given as: `inputs`, or a dataclass."""
        if len(self.parameters) != 1:
            return None
        only = self.parameters[0]
        if only.kind in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL):
            return None
        annotation = self.annotations.get(only.name)
        is_record = isinstance(annotation, type) and dataclasses.is_dataclass(annotation)
        return only if only.name == "inputs" or is_record else None

    def arguments(self, inputs: Mapping[str, Any], run_inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call, beside the context."""
        if self.agent is not None and (self.takes_all or self._takes_rest):
            # An agent's own workflow names no inputs when the function takes all.
            inputs = {**run_inputs, **inputs}
        whole = self.takes_all
        if whole is not None:
            return {whole.name: self._made(whole.name, dict(inputs))}
        named = [one for one in self.parameters if one.kind is not inspect.Parameter.VAR_KEYWORD]
        missing = [one.name for one in named if one.default is one.empty and one.name not in inputs]
        if missing:
            names = ", ".join(f"'{name}'" for name in missing)
            raise MissingInputError(f"{self.kind} takes {names}, and the node has no such input; add it")
        taken = inputs if self._takes_rest else {one.name for one in named}
        return {name: self._made(name, inputs[name]) for name in inputs if name in taken}

    @property
    def _takes_rest(self) -> bool:
        return any(one.kind is inspect.Parameter.VAR_KEYWORD for one in self.parameters)

    def _made(self, name: str, value: Any) -> Any:
        try:
            return decode(self.annotations.get(name), value)
        except (TypeError, ValueError) as error:
            whole = self.takes_all is not None
            wrong = "its inputs are" if whole else f"input '{name}' is"
            raise MissingInputError(f"{wrong} not what {self.kind} takes: {error}") from error


def _check_name(name: Any, decorator: str, example: str) -> None:
    """Objects to a decorator that is used without its parentheses."""
    if not isinstance(name, str):
        called = getattr(name, "__name__", example).replace("_", "-") if decorator == "agent" else example
        raise TypeError(f'@app.{decorator} takes a name: write @app.{decorator}("{called}")')


def outputs_of(value: Any) -> Any:
    """What a function returned, as the outputs of its node."""
    if value is None:
        return {}
    if isinstance(value, Mapping) or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
        return value
    return {"result": value}


class App:
    """Functions that do nodes' work, under the name of one agent.

    ```python
    app = App("refunds", default_human_retry_policy=HumanRetryPolicy(max_attempts=3, interval_seconds=3600))

    @app.agent("refund")
    async def refund(ctx: Context, order: str, amount: float) -> dict: ...
    ```
    """

    def __init__(
        self,
        name: str,
        *,
        default_human_retry_policy: HumanRetryPolicy | None = None,
        code_version: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        if not name:
            raise ValueError("an app needs a name: that of the agent that it works as")
        self.name = name
        self.default_human_retry_policy = default_human_retry_policy
        self.code_version = code_version
        self.labels = dict(labels or {})
        self._kinds: dict[str, Kind] = {}
        self._hooks: dict[str, list[Callable[..., Any]]] = {}

    @classmethod
    def of(cls, agent: BaseAgent | type[BaseAgent]) -> App:
        """An app that is one agent, written as a class."""
        made = agent() if isinstance(agent, type) else agent
        app = cls(made.agent_id, default_human_retry_policy=made.default_human_retry_policy)
        app._add(made, None)
        return app

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """The kinds that it does the work of, by their names."""
        return self._kinds

    @property
    def hooks(self) -> tuple[str, ...]:
        """The durable hooks that it has."""
        return tuple(hook for hook in HOOKS if hook in self._hooks)

    def agent(
        self,
        name: str,
        *,
        idempotent: bool = False,
        reversible: bool | None = None,
        timeout: float | timedelta | None = None,
        retry: RetryPolicy | Mapping[str, Any] | None = None,
    ) -> Callable[[F], F]:
        """Makes a function an agent: the kind `agent.NAME`, and a workflow NAME that runs it.

        The worker pushes that workflow when it starts. A run of it takes the function's parameters as inputs, and what
        the function returns is its variable `result`.
        """
        _check_name(name, "agent", "refund")
        if not _ID.fullmatch(name):
            raise ValueError(f"'{name}' is no name for an agent; use lower-case letters, digits, - and _")

        def decorate(function: F) -> F:
            self._register(f"agent.{name}", function, idempotent, reversible, timeout, agent=name, retry=retry)
            return function

        return decorate

    def node(
        self,
        kind: str,
        *,
        idempotent: bool = False,
        reversible: bool | None = None,
        timeout: float | timedelta | None = None,
    ) -> Callable[[F], F]:
        """Makes a function do the work of nodes of a kind, in whatever workflow they stand.

        `idempotent`: doing it twice is as good as once. `reversible`: whether it can be undone; if it can't, and may
        have been done, a person decides how it goes on. `timeout`: how long one attempt may take, in seconds; waiting
        for people does not count.
        """
        _check_name(kind, "node", "acme.charge")
        if kind.startswith("core."):
            raise ValueError(f"'{kind}' is the server's own; choose another prefix, as in acme.charge")

        def decorate(function: F) -> F:
            self._register(kind, function, idempotent, reversible, timeout)
            return function

        return decorate

    def add(self, agent: BaseAgent | type[BaseAgent]) -> None:
        """Adds an agent that is written as a class. It works under this app's name."""
        made = agent() if isinstance(agent, type) else agent
        self._add(made, made.default_human_retry_policy)

    def on_input_requested(self, function: F) -> F:
        """Has a function called whenever people are to be told of a question: at once, and at each reminder."""
        return self._hook("input_requested", function)

    def on_input_received(self, function: F) -> F:
        """Has a function called when a question is answered."""
        return self._hook("input_received", function)

    def on_suspension_expired(self, function: F) -> F:
        """Has a function called when a question ends without an answer."""
        return self._hook("suspension_expired", function)

    def on_question(self, function: F) -> F:
        """Has a function called when somebody who is to decide wants to know something first: `told.asked` says what.

        What it returns is their answer; with `None`, a person answers.
        """
        return self._hook("question_asked", function)

    def on_engagement_decision(self, function: F) -> F:
        """Has a function called, in place, when `should_request_input` has decided."""
        return self._hook("engagement_decision", function)

    def worker(self, **options: Any) -> Worker:
        """A worker that does this app's work. It takes what `Worker` does."""
        from .session import Worker

        return Worker(self, **options)

    def run(self, **options: Any) -> None:
        """Works until it is told to stop: what `abide-worker` does, from within a program."""
        from .session import run

        run(self.worker(**options))

    async def tell(
        self, hook: str, intent: Intent, told: Suspension | EngagementDecision, executor: Executor | None = None
    ) -> Any:
        """Calls the functions of a hook, one after the other: on the loop if they are async, else in a thread.

        Gives the first thing that one of them returns.
        """
        answer = None
        for function in self._hooks.get(hook, ()):
            said = await _call(function, intent, told, executor)
            answer = said if answer is None else answer
        return answer

    def workflows(self) -> Iterable[Mapping[str, Any]]:
        """The workflows of its agents."""
        from .workflow import of_agent

        return [of_agent(kind, self.name) for kind in self._kinds.values() if kind.agent is not None]

    def _hook(self, hook: str, function: F) -> F:
        self._hooks.setdefault(hook, []).append(function)
        return function

    def _add(self, agent: BaseAgent, policy: HumanRetryPolicy | None) -> None:
        function = agent.work()
        self._register(
            f"agent.{agent.agent_id}",
            function,
            agent.idempotent,
            agent.reversible,
            agent.timeout,
            agent=agent.agent_id,
            retry=agent.retry,
            policy=policy,
        )
        for hook, method in agent.hooks():
            self._hook(hook, method)

    def _register(
        self,
        kind: str,
        function: Callable[..., Any],
        idempotent: bool,
        reversible: bool | None,
        timeout: float | timedelta | None,
        *,
        agent: str | None = None,
        retry: RetryPolicy | Mapping[str, Any] | None = None,
        policy: HumanRetryPolicy | None = None,
    ) -> None:
        if kind in self._kinds:
            raise AbideError(f"there is a function for '{kind}' already; give one of the two another name")
        parameters = list(inspect.signature(function).parameters.values())
        if not parameters or parameters[0].kind is inspect.Parameter.VAR_KEYWORD:
            raise TypeError(f"the function for '{kind}' takes no context; add it as the first parameter: ctx")
        if any(one.kind is inspect.Parameter.POSITIONAL_ONLY for one in parameters[1:]):
            raise TypeError(f"the function for '{kind}' has parameters without names; inputs are passed by name")
        self._kinds[kind] = Kind(
            kind,
            function,
            idempotent,
            reversible,
            timeout,
            policy,
            agent,
            retry,
            tuple(one for one in parameters[1:] if one.kind is not inspect.Parameter.VAR_POSITIONAL),
            hints(function),
        )


async def _call(function: Callable[..., Any], intent: Intent, told: Any, executor: Executor | None) -> Any:
    """Calls a hook with the intent and what it is told, or with the latter alone if it takes no more."""
    takes = [
        one
        for one in inspect.signature(function).parameters.values()
        if one.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        and one.default is one.empty
    ]
    arguments = (told,) if len(takes) == 1 else (intent, told)
    call = functools.partial(function, *arguments)
    if inspect.iscoroutinefunction(function):
        return await call()
    result = await asyncio.get_running_loop().run_in_executor(executor, call)
    return await result if isinstance(result, Awaitable) else result
