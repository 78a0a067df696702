"""What an async function has in hand while it works: steps, waits, questions."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from datetime import timedelta
from typing import Any, TypeVar, overload

from .asks import Judgement, Ladder, Question, approval, judgement
from .engagement import EngagementDecision, EngagementSignals, decide
from .errors import ChildCancelledError, ChildFailedError, ExitError
from .execution import STEP
from .facts import Facts
from .history import Branch
from .pending import EXITS, Pending
from .policy import FallbackPolicy, HumanRetryPolicy, millis
from .steps import Step, check_function
from .suspension import Approval, Choice, ResponseType

T = TypeVar("T")


class Context(Facts):
    """The first parameter of an async function that does a node's work.

    Whatever is done through it is recorded. When the function has to wait for long it is left, and later runs again
    from the top; what is recorded is then not done again. So effects belong into steps, and what is outside of them is
    repeated.
    """

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
    ) -> Coroutine[Any, Any, T]: ...

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
    ) -> Coroutine[Any, Any, T]: ...

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
    ) -> Coroutine[Any, Any, Any]:
        """Does a piece of work once: `await ctx.step("charge", charge, order)`.

        Its outcome is recorded under the name, and every later run of the function gets it from there. The function may
        be async or not. `idempotent` says whether doing it twice is as good as once; without it the kind says. What is
        not idempotent is recorded as begun before it is done, and fails the node if a crash leaves its outcome unknown.

        An exception becomes a `StepError`. `retries` says how often it is tried again before that.
        """
        check_function(name, function)
        branch, key = self._key(name)
        recorded = self._execution.history.claim("step", key)
        may_repeat = self._execution.kind.idempotent if idempotent is None else idempotent
        step = Step(self._execution, branch, key, function, may_repeat, retries, retry_delay)
        work = self._step(step, recorded, functools.partial(function, *args, **kwargs))
        return Pending(self._execution, f"ctx.step({name!r}, ...)", work)

    def sleep(self, duration: float | timedelta, *, key: str | None = None) -> Coroutine[Any, Any, None]:
        """Waits for seconds, or years. The wait survives whatever happens to this process."""
        branch, key = self._key(key or "sleep")
        again = self._execution.history.claim("sleep", key) is not None
        return self._pending("sleep", self._sleep(branch, key, millis(duration), again))

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
    ) -> Coroutine[Any, Any, Any]:
        """Asks, and waits for the answer: minutes or months.

        `kind` is one of the server's (`approval`, `clarification`, `external-event` …), or a name of your own. An
        answer has to fit `schema`. `timeout` is a hard end; the others say how people are reminded.
        """
        branch, asked, again = self._asked(key)
        ladder = Ladder(timeout_seconds, fallback_policy, fallback_value, channel_hint, notify_to, retry_policy)
        question = self._interrupt_question(asked, kind, data, schema, timeout, respondents, ladder)
        return self._pending("interrupt", self._answer(branch, question, again))

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
    ) -> Coroutine[Any, Any, Approval]:
        """Asks somebody to decide. What comes back is true if it was accepted.

        `actions` are what they may do: `accept` and `reject` unless told, and `refine`, `edit-accept` and `ask`.
        `required_approvals` has several people accept; `rejection_policy` is `single-veto` unless told, or `majority`.
        """
        branch, asked, again = self._asked(key)
        ladder = Ladder(timeout_seconds, fallback_policy, fallback_value, channel_hint, notify_to, retry_policy)
        question = approval(
            self._execution,
            asked,
            title,
            description=description,
            data=data,
            approvers=approvers,
            artifact_type=artifact_type,
            actions=actions,
            required_approvals=required_approvals,
            rejection_policy=rejection_policy,
            timeout=timeout,
            ladder=ladder.to_dict(self._policy),
        )
        return self._pending("approve", self._decision(branch, question, again))

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
    ) -> Coroutine[Any, Any, Any]:
        """Asks a question (RFC-0025) and gives the answer's value.

        If nobody answers, people are told again as `retry_policy` says, field by field over the agent's and the
        server's. In the end the fallback's value is the answer, or `InputTimeoutError` is raised.
        """
        branch, asked, again = self._asked(key)
        ladder = Ladder(timeout_seconds, fallback_policy, fallback_value, channel_hint, notify_to, retry_policy)
        put = self._request_question(asked, question, response_type, choices, context, respondents, ladder)
        return self._pending("request_input", self._answer(branch, put, again))

    def conversation(
        self,
        title: str | None = None,
        *,
        id: str | None = None,
        initial_prompt: str | None = None,
        key: str | None = None,
    ) -> Coroutine[Any, Any, Conversation]:
        """Opens a conversation: `conversation = await ctx.conversation("Refund")`.

        Without `id` it gets one that nobody has; a given one is refused if another conversation of the tenant has it.
        """
        branch, asked, again = self._asked(key)
        told = {"title": title, "conversationId": id, "initialPrompt": initial_prompt}
        data = {name: value for name, value in told.items() if value is not None}
        question = self._interrupt_question(asked, "conversation.start", data, None, None, None, Ladder())
        return self._pending("conversation", self._open(branch, question, again))

    def decide(
        self,
        decision: Any,
        *,
        confidence: float | None = None,
        agent_id: str | None = None,
        respondents: Iterable[str] | None = None,
        key: str | None = None,
    ) -> Coroutine[Any, Any, Any]:
        """Decides, and gives what to go on with: the decision, or what somebody ratified in its place.

        Somebody is asked if `confidence` is below the run's threshold, 0.7 unless it says otherwise.
        """
        branch, asked, again = self._asked(key)
        made = judgement(asked, decision, confidence, agent_id, respondents)
        return self._pending("decide", self._judge(branch, made, again))

    def should_request_input(
        self,
        signals: EngagementSignals | None = None,
        *,
        confidence: float | None = None,
        risk: float | None = None,
        reversibility: float | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> Coroutine[Any, Any, EngagementDecision]:
        """Decides by the rules of RFC-0025 whether to ask, and records the decision."""
        branch, key = self._key("engagement")
        recorded = self._execution.history.claim("step", key)
        told = self._signals(signals, confidence, risk, reversibility, context)
        return self._pending("should_request_input", self._engage(branch, key, told, recorded))

    def run(
        self,
        workflow: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        outputs: Iterable[str] | None = None,
        key: str | None = None,
        cascade: bool = True,
    ) -> Coroutine[Any, Any, Any]:
        """Runs another workflow and waits for its end.

        With `outputs`, gives those of its variables; without, its `result`, which is what an agent returned. With
        `cascade`, it is cancelled with this run.
        """
        branch, key = self._key(key or workflow)
        again = self._execution.history.claim("child", key) is not None
        op: dict[str, Any] = {
            "op": "child",
            "key": key,
            "workflowId": workflow,
            "inputs": dict(inputs or {}),
            "outputs": ["result"] if outputs is None else list(outputs),
            "cascade": cascade,
        }
        return self._pending("run", self._run(branch, op, again, outputs is None))

    def version(self, change: str, version: int) -> Coroutine[Any, Any, int]:
        """The version of a change that this run goes by: the one that held when it first came here.

        A run that was past this point before there was a version gets 0, a new one gets `version`. So old runs finish
        as they began: `if await ctx.version("two-approvals", 1) >= 1: …`.
        """
        self._execution.check()
        # A change and a step may have one name.
        key = f"version:{change}"
        recorded = self._execution.history.claim("version", key)
        old = self._execution.history.was_past(self._branch())
        return self._pending("version", self._version(key, version, recorded, old))

    def _pending(self, name: str, work: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        return Pending(self._execution, f"ctx.{name}(...)", work)

    async def _sleep(self, branch: Branch, key: str, ms: int, again: bool) -> None:
        if not again:
            await self._execution.new(branch, "sleep", key)
        op = {"op": "sleep", "key": key, "ms": ms}
        await self._execution.until(op, pending="sleeping", what=lambda _: {"sleep": key})

    async def _engage(
        self, branch: Branch, key: str, signals: EngagementSignals, recorded: Mapping[str, Any] | None
    ) -> EngagementDecision:
        if recorded is not None:
            return EngagementDecision.from_dict(recorded["value"])
        execution = self._execution
        await execution.new(branch, "step", key)
        decision = decide(signals)
        execution.tell("decision", payload=decision.to_dict())
        await execution.call("step", key=key, value=decision.to_dict())
        await execution.app.tell("engagement_decision", self._intent, decision, execution.executor)
        return decision

    async def _run(self, branch: Branch, op: Mapping[str, Any], again: bool, alone: bool) -> Any:
        key = op["key"]
        if not again:
            await self._execution.new(branch, "child", key)
        ended = await self._execution.until(op, pending="running", what=lambda _: {"child": key})
        if ended["state"] == "completed":
            given: Mapping[str, Any] = ended.get("outputs") or {}
            return given.get("result") if alone else dict(given)
        failed = ChildCancelledError if ended["state"] == "cancelled" else ChildFailedError
        raise failed(str(ended.get("runId")), ended.get("error") or {})

    async def _version(self, key: str, version: int, recorded: Mapping[str, Any] | None, old: bool) -> int:
        if recorded is not None:
            return int(recorded["version"])
        versions = self._execution.versions
        if key not in versions:
            result = await self._execution.call("version", key=key, version=version, old=old)
            versions[key] = int(result["version"])
        return versions[key]

    async def _step(self, step: Step, recorded: Mapping[str, Any] | None, work: Callable[[], Any]) -> Any:
        if recorded is not None:
            return step.replay(recorded)
        with self._execution.doing(step.key):
            try:
                await self._execution.begin_step(step.branch, step.key, step.idempotent)
                encoded = await self._tried(step, work)
            except asyncio.CancelledError:
                step.given_up()
                raise
            return step.result(encoded, await self._execution.end_step(step.key, encoded))

    async def _tried(self, step: Step, work: Callable[[], Any]) -> bytes:
        while True:
            try:
                return step.encoded(await perform(self._execution.executor, step.key, work))
            except (Exception, *EXITS) as raised:
                error = raised if isinstance(raised, Exception) else ExitError(raised)
                pause = step.pause(error)
                if pause is None:
                    raise step.failed(error) from raised
            await asyncio.sleep(pause)

    async def _ask(self, branch: Branch, question: Question, again: bool) -> Mapping[str, Any]:
        execution = self._execution
        if not again and not question.asked.own:
            await execution.new(branch, "question", question.asked.key or f"number {question.asked.call}")
        answer = await execution.until(
            question.op(),
            pending="open",
            what=lambda result: {"interrupt": result["interruptId"]},
            asks=question.asks,
        )
        if answer["state"] == "failed":
            raise question.failure(answer)
        return answer

    async def _open(self, branch: Branch, question: Question, again: bool) -> Conversation:
        opened = await self._ask(branch, question, again)
        return Conversation(self, str(opened["value"]["conversationId"]))

    async def _judge(self, branch: Branch, made: Judgement, again: bool) -> Any:
        execution = self._execution
        if not again and not made.asked.own:
            await execution.new(branch, "question", made.asked.key or f"number {made.asked.call}")
        answer = await execution.until(
            made.op(),
            pending="open",
            what=lambda result: {"interrupt": result["interruptId"]},
            asks="interrupt",
        )
        if answer["state"] == "failed":
            raise made.failure(answer)
        return answer.get("value")

    async def _answer(self, branch: Branch, question: Question, again: bool) -> Any:
        return (await self._ask(branch, question, again)).get("value")

    async def _decision(self, branch: Branch, question: Question, again: bool) -> Approval:
        answer = await self._ask(branch, question, again)
        return Approval.of(answer.get("value"), answer.get("by"))


class Conversation:
    """A conversation that is open: `await conversation.exchange("Which order?")`."""

    def __init__(self, context: Context, id: str) -> None:
        self._context = context
        self.id = id
        """What it is known by: no other conversation of the tenant is."""

    def exchange(
        self,
        prompt: str,
        *,
        schema: Mapping[str, Any] | None = None,
        key: str | None = None,
        timeout: float | timedelta | None = None,
        respondents: Iterable[str] | None = None,
    ) -> Coroutine[Any, Any, Any]:
        """Says something, and waits for what is answered: minutes or months. An answer has to fit `schema`."""
        data: dict[str, Any] = {"conversationId": self.id, "prompt": prompt}
        if schema is not None:
            data["outcomeSchema"] = dict(schema)
        return self._context.interrupt("conversation.exchange", data, key=key, timeout=timeout, respondents=respondents)

    def close(self, reason: str | None = None, *, key: str | None = None) -> Coroutine[Any, Any, None]:
        """Ends it. Nobody can say anything in it from then on."""
        data = {"conversationId": self.id, **({} if reason is None else {"reason": reason})}
        return self._context.interrupt("conversation.close", data, key=key)


async def perform(executor: Any, key: str, work: Callable[[], Any]) -> Any:
    """Does a step's work: on the loop if it is async, else in a thread."""
    token = STEP.set(key)
    try:
        if inspect.iscoroutinefunction(work):
            return await work()
        here = contextvars.copy_context()
        result = await asyncio.get_running_loop().run_in_executor(executor, here.run, work)
        return await result if isinstance(result, Awaitable) else result
    finally:
        STEP.reset(token)
