"""What a function that is not async has in hand: the same as `Context`, without `await`."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from datetime import timedelta
from typing import Any, TypeVar, overload

from .context import Context, Conversation
from .engagement import EngagementDecision, EngagementSignals
from .errors import AbideError, ExitError
from .execution import BRANCH, STEP, Execution, Unwind
from .facts import Facts
from .pending import EXITS, Contained
from .policy import FallbackPolicy, HumanRetryPolicy
from .steps import Step, check_function
from .suspension import Approval, Choice, ResponseType

T = TypeVar("T")


class SyncContext(Facts):
    """The first parameter of a function that is not async; each one runs in a thread of its own.

    Its methods are those of `Context`, and wait instead of being awaited.
    """

    def __init__(self, execution: Execution) -> None:
        super().__init__(execution)
        self._context = Context(execution)

    @overload
    def step(
        self,
        name: str,
        function: Callable[..., Coroutine[Any, Any, T]],
        /,
        *args: Any,
        idempotent: bool | None = None,
        retries: int = 0,
        retry_delay: float = 0.5,
        **kwargs: Any,
    ) -> T: ...

    @overload
    def step(
        self,
        name: str,
        function: Callable[..., T],
        /,
        *args: Any,
        idempotent: bool | None = None,
        retries: int = 0,
        retry_delay: float = 0.5,
        **kwargs: Any,
    ) -> T: ...

    def step(
        self,
        name: str,
        function: Callable[..., Any],
        /,
        *args: Any,
        idempotent: bool | None = None,
        retries: int = 0,
        retry_delay: float = 0.5,
        **kwargs: Any,
    ) -> Any:
        """Does a piece of work once: `ctx.step("charge", charge, order)`."""
        check_function(name, function)
        branch, key = self._key(name)
        recorded = self._execution.history.claim("step", key)
        may_repeat = self._execution.kind.idempotent if idempotent is None else idempotent
        step = Step(self._execution, branch, key, function, may_repeat, retries, retry_delay)
        if recorded is not None:
            return step.replay(recorded)
        with self._execution.doing(key):
            self._wait(self._execution.begin_step(branch, key, may_repeat))
            encoded = self._tried(step, functools.partial(function, *args, **kwargs))
            return step.result(encoded, self._wait(self._execution.end_step(key, encoded)))

    def sleep(self, duration: float | timedelta, *, key: str | None = None) -> None:
        """Waits for seconds, or years."""
        self._wait(self._context.sleep(duration, key=key))

    def interrupt(
        self,
        kind: str,
        data: Any = None,
        *,
        key: str | None = None,
        schema: Mapping[str, Any] | None = None,
        timeout: float | timedelta | None = None,
        respondents: Iterable[str] | None = None,
        retry_policy: HumanRetryPolicy | Mapping[str, Any] | None = None,
        timeout_seconds: int | None = None,
        fallback_policy: FallbackPolicy | None = None,
        fallback_value: Any = None,
        channel_hint: str | None = None,
        notify_to: str | None = None,
    ) -> Any:
        """Asks, and waits for the answer: minutes or months."""
        return self._wait(
            self._context.interrupt(
                kind,
                data,
                key=key,
                schema=schema,
                timeout=timeout,
                respondents=respondents,
                retry_policy=retry_policy,
                timeout_seconds=timeout_seconds,
                fallback_policy=fallback_policy,
                fallback_value=fallback_value,
                channel_hint=channel_hint,
                notify_to=notify_to,
            )
        )

    def approve(
        self,
        title: str,
        *,
        description: str | None = None,
        data: Any = None,
        approvers: Iterable[str] | None = None,
        artifact_type: str = "decision",
        actions: Iterable[str] | None = None,
        required_approvals: int | None = None,
        rejection_policy: str | None = None,
        key: str | None = None,
        timeout: float | timedelta | None = None,
        retry_policy: HumanRetryPolicy | Mapping[str, Any] | None = None,
        timeout_seconds: int | None = None,
        fallback_policy: FallbackPolicy | None = None,
        fallback_value: Any = None,
        channel_hint: str | None = None,
        notify_to: str | None = None,
    ) -> Approval:
        """Asks somebody to accept or reject."""
        return self._wait(
            self._context.approve(
                title,
                description=description,
                data=data,
                approvers=approvers,
                artifact_type=artifact_type,
                actions=actions,
                required_approvals=required_approvals,
                rejection_policy=rejection_policy,
                key=key,
                timeout=timeout,
                retry_policy=retry_policy,
                timeout_seconds=timeout_seconds,
                fallback_policy=fallback_policy,
                fallback_value=fallback_value,
                channel_hint=channel_hint,
                notify_to=notify_to,
            )
        )

    def request_input(
        self,
        question: str,
        response_type: ResponseType = "choice",
        choices: Iterable[Choice | Mapping[str, Any] | str] | None = None,
        context: Mapping[str, Any] | None = None,
        *,
        retry_policy: HumanRetryPolicy | Mapping[str, Any] | None = None,
        timeout_seconds: int | None = None,
        fallback_policy: FallbackPolicy | None = None,
        fallback_value: Any = None,
        channel_hint: str | None = None,
        notify_to: str | None = None,
        respondents: Iterable[str] | None = None,
        key: str | None = None,
    ) -> Any:
        """Asks a question (RFC-0025) and gives the answer's value."""
        return self._wait(
            self._context.request_input(
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
                respondents=respondents,
                key=key,
            )
        )

    def conversation(
        self,
        title: str | None = None,
        *,
        id: str | None = None,
        initial_prompt: str | None = None,
        key: str | None = None,
    ) -> SyncConversation:
        """Opens a conversation."""
        opened = self._wait(self._context.conversation(title, id=id, initial_prompt=initial_prompt, key=key))
        return SyncConversation(self, opened)

    def decide(
        self,
        decision: Any,
        *,
        confidence: float | None = None,
        agent_id: str | None = None,
        respondents: Iterable[str] | None = None,
        key: str | None = None,
    ) -> Any:
        """Decides, and gives what to go on with: the decision, or what somebody ratified in its place."""
        return self._wait(
            self._context.decide(decision, confidence=confidence, agent_id=agent_id, respondents=respondents, key=key)
        )

    def should_request_input(
        self,
        signals: EngagementSignals | None = None,
        *,
        confidence: float | None = None,
        risk: float | None = None,
        reversibility: float | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> EngagementDecision:
        """Decides by the rules of RFC-0025 whether to ask, and records the decision."""
        told = self._signals(signals, confidence, risk, reversibility, context)
        return self._wait(self._context.should_request_input(told))

    def run(
        self,
        workflow: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        outputs: Iterable[str] | None = None,
        key: str | None = None,
        cascade: bool = True,
    ) -> Any:
        """Runs another workflow and waits for its end."""
        return self._wait(self._context.run(workflow, inputs, outputs=outputs, key=key, cascade=cascade))

    def version(self, change: str, version: int) -> int:
        """The version of a change that this run goes by."""
        return self._wait(self._context.version(change, version))

    def gather(self, *functions: Callable[[], Any]) -> list[Any]:
        """Does several things at the same time, each in a thread, and gives what each returned.

        It is for what waits: `ctx.gather(lambda: ctx.approve("a"), lambda: ctx.approve("b"))`. The first that fails, by
        their order, is raised once all have ended.
        """
        self._execution.check()
        branch = self._branch()
        results: list[Any] = [None] * len(functions)
        errors: list[BaseException | None] = [None] * len(functions)

        def work(index: int, function: Callable[[], Any]) -> None:
            try:
                results[index] = function()
            except BaseException as error:
                errors[index] = error
            finally:
                self._count(-1)

        threads = []
        for index, function in enumerate(functions):
            here = contextvars.copy_context()
            here.run(BRANCH.set, (self._execution, branch.child()))
            threads.append(threading.Thread(target=here.run, args=(work, index, function), daemon=True))
            self._count(+1)
        for thread in threads:
            thread.start()
        self._count(-1)
        for thread in threads:
            thread.join()
        self._count(+1)
        raised = [error for error in errors if error is not None]
        for error in sorted(raised, key=lambda error: not isinstance(error, Unwind)):
            raise error
        return results

    def _count(self, more: int) -> None:
        with self._execution.threads_lock:
            self._execution.threads += more

    def _tried(self, step: Step, work: Callable[[], Any]) -> bytes:
        while True:
            try:
                return step.encoded(self._perform(step.key, work))
            except (Exception, *EXITS) as raised:
                error = raised if isinstance(raised, Exception) else ExitError(raised)
                pause = step.pause(error)
                if pause is None:
                    raise step.failed(error) from raised
            time.sleep(pause)

    def _perform(self, key: str, work: Callable[[], Any]) -> Any:
        token = STEP.set(key)
        try:
            if inspect.iscoroutinefunction(work):
                return self._wait(_in_step(key, work()))
            result = work()
            return self._wait(_in_step(key, result)) if isinstance(result, Awaitable) else result
        finally:
            STEP.reset(token)

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Has the worker's loop do something, and waits for it."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            work.close()
            raise AbideError("this context is for functions that are not async; make the function `async def`")
        # The loop's tasks for a thread are no branches of the function.
        plain = contextvars.Context()
        return plain.run(asyncio.run_coroutine_threadsafe, Contained(work), self._execution.loop).result()


async def _in_step(key: str, work: Awaitable[T]) -> T:
    STEP.set(key)
    return await work


class SyncConversation:
    """A conversation that is open, for a function that is not async."""

    def __init__(self, context: SyncContext, conversation: Conversation) -> None:
        self._context = context
        self._conversation = conversation

    @property
    def id(self) -> str:
        """What it is known by."""
        return self._conversation.id

    def exchange(
        self,
        prompt: str,
        *,
        schema: Mapping[str, Any] | None = None,
        key: str | None = None,
        timeout: float | timedelta | None = None,
        respondents: Iterable[str] | None = None,
    ) -> Any:
        """Says something, and waits for what is answered."""
        asked = self._conversation.exchange(prompt, schema=schema, key=key, timeout=timeout, respondents=respondents)
        return self._context._wait(asked)

    def close(self, reason: str | None = None, *, key: str | None = None) -> None:
        """Ends it."""
        self._context._wait(self._conversation.close(reason, key=key))
