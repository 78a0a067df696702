"""One task being done: what its function has recorded, what it waits for, and how it ends.

Everything here happens on the worker's event loop. The contexts, which functions see, call it.

A function that waits stays in place for a moment. When nothing of it does anything but wait, it is *parked*: the
server is told what it waits for, and an exception that is no `Exception` unwinds it. Once something has come the task
is handed out again and the function runs from the top, with its steps answered from the history.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from . import quiet
from .errors import (
    AbideError,
    ApiError,
    CodeChangedError,
    InputCancelledError,
    InterruptCancelledError,
    StaleFenceError,
    StepError,
)
from .history import Asked, Branch, History
from .protocol import Op, Task
from .sender import Sender
from .values import Raw

if TYPE_CHECKING:
    from .app import App, Kind
    from .pending import Pending

log = logging.getLogger("abide.worker")

BRANCH: contextvars.ContextVar[tuple[Execution, Branch] | None] = contextvars.ContextVar("abide_branch", default=None)
"""Which part of which execution the code belongs to."""

STEP: contextvars.ContextVar[str | None] = contextvars.ContextVar("abide_step", default=None)
"""The key of the step that the code is in."""

UNWIND_SECONDS = 30.0
"""How long a function that is parked or cancelled may take to end by itself before it is cancelled."""


BUSY_SECONDS = 60.0
"""After how long it is said that a function which waits can't be left."""

REPLAY_SECONDS = 5.0
"""How long something new is held back while the rest of the function asks for nothing that is recorded."""


class Unwind(BaseException):
    """Leaves a function on purpose. It is no error, and not to be caught."""


class Parked(Unwind):
    """The function waits, and was left until something comes."""


class Lost(Unwind):
    """The task belongs to another worker now."""


class Ending(Exception):
    """The run is ending, so nothing new begins in it."""


@dataclass(eq=False)
class Wait:
    """Something that a function waits for."""

    what: Mapping[str, Any]
    """As `park` names it."""
    come: asyncio.Future[None]
    asks: Literal["input", "interrupt"] | None
    interrupt_id: str | None


class Execution:
    """A task that this worker holds."""

    def __init__(
        self,
        task: Task,
        kind: Kind,
        app: App,
        sender: Sender,
        *,
        in_place: Callable[[], float],
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
    ) -> None:
        self.task = task
        self.kind = kind
        self.app = app
        self.loop = loop
        self.history = History(task.owner, attempt=task.attempt)
        self.root = Branch()
        self.state: Literal["running", "parked", "lost"] = "running"
        self.cancelled: str | None = None
        self.broken: CodeChangedError | None = None
        self.tasks: set[asyncio.Task[Any]] = set()
        """The asyncio tasks that belong to the function."""
        self.threads = 0
        """The threads of a function that is not async, those that wait for other threads left out."""
        self.threads_lock = threading.Lock()
        self.executor = executor
        """Where what is not async runs."""
        self.versions: dict[str, int] = {}
        self.not_awaited: dict[int, Pending[Any]] = {}
        """The calls of the context that nobody has awaited so far."""
        self.main: asyncio.Task[Any] | None = None
        self._sender = sender
        self._in_place = in_place
        self._wakes = 0
        self._asking = 0
        self._waits: dict[Wait, asyncio.Task[Any] | None] = {}
        self._parker: asyncio.Task[None] | None = None
        self._parking: asyncio.Event | None = None
        self._begun: set[str] = set()
        self._doing: set[str] = set()
        self._held_back: set[asyncio.Task[Any] | None] = set()
        """The asyncio tasks that would do something new, and let those go first that do not."""
        self._harmful = False
        """Whether a step failed that another attempt must not simply do again."""

    # What the worker says.

    def wake(self) -> None:
        """Something that it waits for has come."""
        self._wakes += 1
        for wait in self._waits:
            if not wait.come.done():
                wait.come.set_result(None)

    def cancel(self, reason: str) -> None:
        """The run is ending. Who waits for people is told so; anybody else is cancelled."""
        if self.cancelled is not None or self.state != "running":
            return
        self.cancelled = reason
        asked = [wait for wait in self._waits if wait.asks and not wait.come.done()]
        for wait in asked:
            wait.come.set_exception(self._called_off(wait.asks, wait.interrupt_id))
        if asked or self._asking:
            # Who is just asking learns of it when the server answers.
            self.loop.call_later(UNWIND_SECONDS, self._cancel_main)
        else:
            self._cancel_main()

    def lose(self) -> None:
        """The task is somebody else's now."""
        if self.state != "running":
            return
        self.state = "lost"
        log.warning(
            "%s: the task is not this worker's any more (it was silent, took too long, or the run has ended); "
            "what is done here does not count",
            self.task.where,
        )
        self._unwind()

    def _unwind(self) -> None:
        for wait in self._waits:
            if not wait.come.done():
                wait.come.set_exception(self._unwinding())
        if self.state == "lost":
            self._cancel_main()
        else:
            self.loop.call_later(UNWIND_SECONDS, self._cancel_main)

    def _cancel_main(self) -> None:
        if self.main is not None and not self.main.done():
            self.main.cancel()
        for wait in self._waits:
            if not wait.come.done():
                wait.come.cancel()

    def _unwinding(self) -> Unwind:
        return Lost() if self.state == "lost" else Parked()

    def _called_off(self, asks: str | None, interrupt_id: str | None) -> InterruptCancelledError:
        kind = InputCancelledError if asks == "input" else InterruptCancelledError
        return kind(f"{self.task.where}: the run is cancelled: {self.cancelled}", interrupt_id=interrupt_id)

    def forget(self, task: asyncio.Task[Any]) -> None:
        """An asyncio task of the function has ended."""
        self.tasks.discard(task)
        if self.state != "running" and not task.cancelled():
            # Nobody has to have waited for what was left on purpose.
            task.exception()

    # What the function does.

    def check(self) -> None:
        """Objects to whatever a function does that should have ended."""
        if STEP.get() is not None:
            raise AbideError(
                f"{self.task.where}: step '{STEP.get()}' uses the context; a step is one piece of work, "
                "so do that outside of it"
            )
        if self.state != "running":
            raise self._unwinding()
        if self.broken is not None:
            raise self.broken

    async def call(self, op: str, **fields: Any) -> Mapping[str, Any]:
        """Sends an op of this task, and gives its result."""
        while self._parking is not None:
            await self._parking.wait()
        if self.state != "running":
            raise self._unwinding()
        try:
            return await self._send(op, **fields)
        except Ending as ending:
            # The message that says so is on its way.
            self.cancelled = self.cancelled or str(ending)
            raise asyncio.CancelledError(self.cancelled) from None

    async def _send(self, op: str, **fields: Any) -> Mapping[str, Any]:
        try:
            # It is sent and counts even if the function does not wait for it any more.
            return await asyncio.shield(self.post(op, **fields))
        except StaleFenceError:
            self.lose()
        except ApiError as error:
            if self.state == "running":
                raise self._objection(error) from None
        raise self._unwinding()

    def _objection(self, error: ApiError) -> Exception:
        """What a refusal means for the function."""
        if error.code == "run_ending":
            return Ending(error.message)
        if error.code == "code_changed":
            self.broken = CodeChangedError(f"{self.task.where}: {error.message}")
            return self.broken
        return error

    def post(self, op: str, **fields: Any) -> asyncio.Future[Mapping[str, Any]]:
        """Queues an op, and gives the future of its result."""
        sent: Op = {"op": op, "task": self.task.task, "fence": self.task.fence, **fields}
        return self._sender.send(sent)

    def tell(self, op: str, **fields: Any) -> None:
        """Sends an op, from any thread, whose result does not matter."""
        if self.state != "running":
            return
        try:
            here: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is self.loop:
            self.post(op, **fields)
        else:
            self.loop.call_soon_threadsafe(functools.partial(self.post, op, **fields))

    async def new(self, branch: Branch, what: str, key: str) -> None:
        """Makes sure that what is not recorded comes after all that is."""
        if self.history.is_replaying(branch):
            await self._let_others_ask(branch)
        try:
            self.history.check_new(branch, what, key, self.task.where)
        except CodeChangedError as error:
            self.broken = error
            raise

    async def _let_others_ask(self, branch: Branch) -> None:
        """What a branch does at the same time is to be asked for before anybody objects to something new in it."""
        await asyncio.sleep(0)
        this, left, since = asyncio.current_task(), -1, 0.0
        self._held_back.add(this)
        try:
            while self.history.is_replaying(branch) and self.broken is None and self._others_go_on():
                if self.history.left(branch) != left:
                    left, since = self.history.left(branch), self.loop.time()
                elif self.loop.time() - since > REPLAY_SECONDS:
                    return
                await asyncio.sleep(0.002)
        finally:
            self._held_back.discard(this)

    def _others_go_on(self) -> bool:
        """Whether something of the function may still ask for what is recorded."""
        if self.threads:
            return False
        still = {*self._waits.values(), *self._held_back}
        return any(
            not task.done() and task not in still and not quiet.is_joining(task, self.tasks) for task in self.tasks
        )

    @contextlib.contextmanager
    def doing(self, key: str) -> Iterator[None]:
        """While a step is done, whoever does it, the function is not left: what it gave would be lost."""
        self._doing.add(key)
        try:
            yield
        finally:
            self._doing.discard(key)

    @property
    def under_way(self) -> frozenset[str]:
        """The keys of the steps that are being done."""
        return frozenset(self._doing)

    async def begin_step(self, branch: Branch, key: str, idempotent: bool) -> None:
        """Makes ready for a step that is not recorded."""
        await self.new(branch, "step", key)
        if not idempotent and key not in self._begun:
            await self._await_namesakes(key)
            # It is on disk that it was begun before it is. If it was begun before, in an attempt that failed, the
            # server has decided that it may be done again: what must not be is never handed out.
            await self.call("begin", key=key)
            self._begun.add(key)

    async def _await_namesakes(self, key: str) -> None:
        """Lets other branches ask for recorded steps of the same name before one is done that must not be done twice.

        If nobody does, the branches have changed places: this step may be the recorded one under another key.
        """
        since = self.loop.time()
        while (namesake := self.history.namesake(key)) is not None and self.broken is None:
            if self.loop.time() - since > REPLAY_SECONDS:
                self.broken = CodeChangedError(
                    f"{self.task.where}: the function asks for step '{key}', which is not recorded, but '{namesake}' "
                    "is, and nobody asks for it; the code has other branches than before. Begin new branches behind "
                    "old ones, or let old runs go the old way with ctx.version"
                )
            await asyncio.sleep(0.002)
        if self.broken is not None:
            raise self.broken

    async def end_step(self, key: str, encoded: bytes) -> Mapping[str, Any]:
        """Records what a step gave, and gives what is recorded."""
        result = await self.call("step", key=key, value=Raw(encoded))
        self._begun.discard(key)
        return result

    def fail_step(self, key: str, error: StepError, harmless: bool) -> None:
        """Records that a step failed, so that it fails again when the function runs again.

        Another attempt of the node does it again, so it counts whether that would be harmless.
        """
        self._begun.discard(key)
        self._harmful |= not harmless
        told = {"code": error.code, "message": error.message, "details": dict(error.details)}
        self.tell("step", key=key, error=told)

    def failed_before(self, harmless: bool) -> None:
        """A step failed when the function ran before, in the same attempt."""
        self._harmful |= not harmless

    async def until(
        self,
        send: Mapping[str, Any],
        *,
        pending: str,
        what: Callable[[Mapping[str, Any]], Mapping[str, Any]],
        asks: Literal["input", "interrupt"] | None = None,
    ) -> Mapping[str, Any]:
        """Sends an op again whenever something has come, until it is not pending any more."""
        while True:
            if self.cancelled is not None:
                if asks:
                    raise self._called_off(asks, None)
                raise asyncio.CancelledError(self.cancelled)
            seen = self._wakes
            result = await self._ask(send, asks)
            if result["state"] != pending:
                return result
            if self._wakes == seen and self.cancelled is None:
                await self._wait(Wait(what(result), self.loop.create_future(), asks, result.get("interruptId")))

    async def _ask(self, send: Mapping[str, Any], asks: Literal["input", "interrupt"] | None) -> Mapping[str, Any]:
        self._asking += 1 if asks else 0
        try:
            return await self.call(**send)
        except asyncio.CancelledError as error:
            if asks and self.cancelled is not None and error.args:
                raise self._called_off(asks, None) from None
            raise
        finally:
            self._asking -= 1 if asks else 0

    async def _wait(self, wait: Wait) -> None:
        if self.state != "running":
            raise self._unwinding()
        self._waits[wait] = asyncio.current_task()
        if self._parker is None or self._parker.done():
            # It is no part of the function.
            self._parker = self.loop.create_task(self._park_when_idle(), context=contextvars.Context())
        try:
            await wait.come
        finally:
            del self._waits[wait]

    # How it is parked.

    async def _park_when_idle(self) -> None:
        since, told = self.loop.time(), False
        while self.state == "running":
            await asyncio.sleep(max(self._in_place(), 0.002))
            if not self._waits:
                return
            if self._is_idle() and self.cancelled is None:
                await self._park()
            elif not told and not self._doing and self.loop.time() - since > BUSY_SECONDS:
                told = True
                log.warning(
                    "%s: it waits, and can't be left because of something else that it does or a timeout of asyncio's "
                    "that runs: %s. It keeps its slot. Do the work in a step, or give the question its own timeout",
                    self.task.where,
                    self._in_the_way() or "a timeout",
                )

    def _in_the_way(self) -> str:
        """What keeps the function from being left, for people."""
        waiting = set(self._waits.values())
        busy = [
            getattr(task.get_coro(), "__qualname__", task.get_name())
            for task in self.tasks
            if not task.done() and task not in waiting and not quiet.is_joining(task, self.tasks)
        ]
        return ", ".join(sorted(busy)[:5])

    def _is_idle(self) -> bool:
        if self._doing or any(wait.come.done() for wait in self._waits):
            return False
        if self.threads:
            return len(self._waits) >= self.threads
        if quiet.has_timeout(self.loop, self.tasks):
            return False
        waiting = set(self._waits.values())
        return all(task in waiting or quiet.is_joining(task, self.tasks) for task in self.tasks if not task.done())

    async def _park(self) -> None:
        self._parking = asyncio.Event()
        try:
            waits = [dict(wait.what) for wait in self._waits]
            result = await self._send("park", waits=waits)
            if result["parked"]:
                self.state = "parked"
                self._unwind()
            else:
                self.wake()
        except Unwind:
            pass
        except Ending as ending:
            self.cancel(str(ending))
        except ApiError as error:
            log.error("%s: the task can't be parked: %s", self.task.where, error)
        finally:
            self._parking.set()
            self._parking = None

    # How it ends.

    def effect(self) -> Literal["none", "possible"]:
        """Whether something may have been done that must not be done twice."""
        return "possible" if self._harmful or self._begun else "none"

    def where(self, step: str | None = None) -> str:
        """Which task, attempt and step it is, for people."""
        attempt = f", attempt {self.task.attempt}" if self.task.attempt > 1 else ""
        return f"{self.task.where}{attempt}" + (f", step '{step}'" if step else "")


def ask_fields(asked: Asked) -> dict[str, Any]:
    """How a question is named in its op."""
    return {"key": asked.key, "call": asked.call}
