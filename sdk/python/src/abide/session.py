"""A worker: registers an app with a server, takes tasks and hooks, and does them until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import os
import signal
import socket
import sys
import threading
import time
import uuid
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2

from . import quiet
from ._version import __version__
from .app import App
from .blocked import Watch
from .connection import Connection, may_pass
from .errors import ApiError, StaleFenceError, UnreachableError, WorkflowRefusedError, code_of
from .execution import BRANCH, STEP, Execution
from .link import Heartbeat, Link
from .pending import Contained
from .performer import give_up, perform
from .protocol import MESSAGES_MAX, Hook, Registered, Registration, Task
from .report import printable
from .sender import Outage, Patience, Sender
from .suspension import Intent, Suspension
from .workflow import agents_of

log = logging.getLogger("abide.worker")

CAPACITY = 64
IN_PLACE_SECONDS = 1.0
CROWDED_SECONDS = 0.05
EMPTY_SECONDS = 0.1
POLL_MS_MAX = 30_000

INVALID = frozenset((400, 413, 422))
"""The statuses of answers to definitions that are wrong; others are about the key, or pass."""


class Worker:
    """Does the work of an app.

    `capacity` is how many tasks it holds at the same time. `in_place` is how long a function that waits is kept before
    it is left, in seconds.
    """

    def __init__(
        self,
        app: App,
        *,
        url: str | None = None,
        api_key: str | None = None,
        capacity: int = CAPACITY,
        in_place: float = IN_PLACE_SECONDS,
        labels: Mapping[str, str] | None = None,
        session: str | None = None,
        push: bool = True,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        if capacity < 1:
            raise ValueError("a worker needs a capacity of 1 at least")
        self.app = app
        self.connection = Connection.find(url, api_key)
        self.capacity = capacity
        self.session = session or str(uuid.uuid4())
        self.ready = threading.Event()
        """Set once it is registered."""
        self.greeting = False
        """Whether it says on standard error where it is connected and what it does."""
        self._in_place = in_place
        self._labels = {"host": socket.gethostname(), "pid": str(os.getpid()), **app.labels, **(labels or {})}
        self._push = push
        self._transport = transport
        self._held: dict[tuple[str, int], Execution] = {}
        self._hooks: set[str] = set()
        self._given_back: set[str] = set()
        self._kept: list[Task] = []
        self._background: set[asyncio.Task[Any]] = set()
        self._draining = False
        self._stopping = False
        self._closing = False
        self._has_joined = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main: asyncio.Task[None] | None = None

    @property
    def held(self) -> int:
        """How many tasks it holds."""
        return len(self._held)

    @property
    def stopped(self) -> bool:
        """Whether it left with work under way."""
        return self._stopping

    def drain(self) -> None:
        """Takes no more, finishes or parks what it has, and leaves. It may be called from any thread."""
        self._on_loop(self._begin_drain)

    def stop(self) -> None:
        """Leaves at once; what it has is handed to others. It may be called from any thread."""
        self._on_loop(self._begin_stop)

    def _on_loop(self, what: Any) -> None:
        if self._loop is not None and not self._loop.is_closed():
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(what)

    async def run(self) -> None:
        """Works until it is drained or stopped. Raises if the server can't be reached or refuses it at the start."""
        self._loop = asyncio.get_running_loop()
        self._main = asyncio.current_task()
        self._link = Link(self.connection, self.session, self._transport)
        self._outage = Outage()
        self._sender = Sender(self._link.ops, self._register_again, self._outage)
        self._registering = asyncio.Lock()
        self._changed = asyncio.Event()
        self._polled = 0
        executor = ThreadPoolExecutor(self.capacity + 32, thread_name_prefix="abide")
        self._executor = executor
        try:
            with quiet.watched(self._loop, _branched):
                await self._start()
                await self._work()
        except asyncio.CancelledError:
            if not self._stopping:
                raise
        finally:
            await self._close()
            executor.shutdown(wait=False, cancel_futures=True)

    async def _start(self) -> None:
        self._registration = Registration(
            session=self.session,
            agent=self.app.name,
            kinds=tuple(kind.registration() for kind in self.app.kinds.values()),
            capacity=self.capacity,
            sdk=f"abide-python/{__version__}",
            labels=self._labels,
            human_retry_policy=_policy(self.app),
            hooks=self.app.hooks,
            code_version=self.app.code_version,
        )
        try:
            self._registered = await self._link.register(self._registration, [])
            self._has_joined = True
        except httpx2.TransportError as error:
            raise UnreachableError(f"no server answers at {self.connection.url}: {error}") from error
        if self._push:
            await self._push_workflows()
        if self.greeting:
            self._greet()
        self.ready.set()

    def _greet(self) -> None:
        kinds = ", ".join(self.app.kinds)
        told = f"agent '{self.app.name}' works for {self.connection.url}: {kinds} (up to {self.capacity} at a time)"
        print(told, file=sys.stderr, flush=True)

    async def _push_workflows(self) -> None:
        for definition in self.app.workflows():
            try:
                pushed = await self._link.push(definition["id"], definition)
            except ApiError as error:
                if error.status in INVALID:
                    raise WorkflowRefusedError(definition["id"], error) from error
                log.warning("workflow '%s' is not pushed: %s", definition["id"], error)
            else:
                if pushed.get("created"):
                    log.info("workflow '%s' version %s pushed", definition["id"], pushed.get("version"))
                    await self._look_whose(definition, int(pushed.get("version") or 1) - 1)

    async def _look_whose(self, definition: Mapping[str, Any], before: int) -> None:
        """Warns if a workflow that was replaced had its work done by another agent."""
        if before < 1:
            return
        try:
            replaced = await self._link.workflow(definition["id"], before)
        except (ApiError, httpx2.TransportError):
            # Who may push need not be allowed to read.
            return
        others = sorted({*agents_of(replaced, definition["nodes"][0]["typeId"])} - {self.app.name})
        if others:
            log.warning(
                "workflow '%s' was agent '%s''s, and its new runs are agent '%s''s from now on; if these are two apps, "
                "give one of their agents another name",
                definition["id"],
                others[0],
                self.app.name,
            )

    async def _work(self) -> None:
        """Polls until there is nothing left to do."""
        beating = threading.Event()
        watch = Watch(asyncio.get_running_loop(), self._held.values)
        beats = threading.Thread(target=self._beat, args=(beating, watch), daemon=True, name="abide-heartbeat")
        beats.start()
        polling = asyncio.ensure_future(self._poll())
        try:
            while not (self._draining and not self._held and not self._hooks):
                change = asyncio.ensure_future(self._changed.wait())
                await asyncio.wait({polling, change}, return_when=asyncio.FIRST_COMPLETED)
                change.cancel()
                self._changed.clear()
                if polling.done():
                    polling.result()
            # Who does not listen is not told of more.
            polling.cancel()
            for task in self._kept:
                self._sender.send({"op": "release", "task": task.task, "fence": task.fence})
            await self._sender.flush()
        finally:
            beating.set()
            polling.cancel()
            await asyncio.wait({polling})

    def _beat(self, done: threading.Event, watch: Watch) -> None:
        """Sends a heartbeat whenever nothing else was sent for a while, even if the loop is blocked."""
        heartbeat = Heartbeat(self.connection, self.session)
        while True:
            period = self._registered.heartbeat_ms / 1000
            silent = time.monotonic() - self._link.last_sent
            if done.wait(max(0.05, min(period - silent, watch.pause))):
                break
            watch.look()
            if time.monotonic() - self._link.last_sent >= period:
                heartbeat.beat()
                self._link.last_sent = time.monotonic()
        heartbeat.close()

    async def _poll(self) -> None:
        patience = Patience(self._outage)
        while True:
            try:
                # A poll is as good as a heartbeat, so it lasts no longer than the pause between two.
                wait_ms = min(POLL_MS_MAX, self._registered.heartbeat_ms)
                began = time.monotonic()
                messages, self._polled = await self._link.poll(self._polled, MESSAGES_MAX, wait_ms)
                patience.recovered()
                if not messages and time.monotonic() - began < EMPTY_SECONDS:
                    # A server that is about to stop sends its workers away at once.
                    await asyncio.sleep(EMPTY_SECONDS)
            except httpx2.TransportError as error:
                await patience.wait(f"{type(error).__name__}: {error}")
                continue
            except ApiError as error:
                await self._poll_refused(error, patience)
                continue
            for message in messages:
                self._receive(message)

    async def _poll_refused(self, error: ApiError, patience: Patience) -> None:
        if error.code == "worker_unknown":
            await self._register_again()
        elif may_pass(error):
            await patience.wait(str(error), error.details.get("retryAfter"))
        else:
            raise error

    async def _register_again(self) -> None:
        """The server does not know this session (any more): says again who it is, and what it holds."""
        if self._registering.locked():
            async with self._registering:
                return
        async with self._registering:
            patience = Patience(self._outage)
            while True:
                try:
                    self._reattached(await self._link.register(self._registration, self._holding()))
                    patience.recovered()
                    return
                except httpx2.TransportError as error:
                    await patience.wait(f"{type(error).__name__}: {error}")
                except ApiError as error:
                    await patience.wait(str(error), error.details.get("retryAfter"))

    def _holding(self) -> list[tuple[str, int]]:
        """The tasks that it works on; those that are only being left are not its own any more."""
        return [key for key, execution in self._held.items() if execution.state == "running"]

    def _reattached(self, registered: Registered) -> None:
        log.info("registered again at %s, holding %s", self.connection.url, len(self._held))
        self._registered = registered
        self._polled = 0
        for (task, _), execution in list(self._held.items()):
            if task in registered.lost:
                execution.lose()
            else:
                # What came while nobody could tell is found by asking again.
                execution.wake()
        if self._draining:
            self._spawn(self._ask_for_no_more())

    def _receive(self, message: Mapping[str, Any]) -> None:
        kind = message.get("type")
        held = self._held.get((str(message.get("task")), int(message.get("fence") or 0)))
        if kind == "task":
            self._take(Task.read(message))
        elif kind == "hook":
            self._hook(Hook.read(message))
        elif kind == "wake" and held is not None:
            held.wake()
        elif kind == "cancel" and held is not None:
            held.cancel(str(message.get("reason") or "the run is ending"))
        elif kind == "drain":
            log.info("asked to drain")
            self._begin_drain()

    def _take(self, task: Task) -> None:
        if (task.task, task.fence) in self._held:
            return
        kind = self.app.kinds.get(task.kind)
        if kind is None or self._draining:
            self._give_back(task)
            return
        for (name, fence), older in self._held.items():
            if name == task.task and fence < task.fence:
                older.lose()
        assert self._loop is not None, "tasks come while it runs"
        execution = Execution(
            task,
            kind,
            self.app,
            self._sender,
            in_place=self._in_place_now,
            loop=self._loop,
            executor=self._executor,
        )
        self._held[(task.task, task.fence)] = execution
        self._spawn(self._do(execution))

    def _give_back(self, task: Task) -> None:
        """Has another worker do a task. One that comes back, since there is no other, is kept until this one leaves."""
        if task.task in self._given_back:
            self._kept.append(task)
            return
        self._given_back.add(task.task)
        self._sender.send({"op": "release", "task": task.task, "fence": task.fence})

    def _in_place_now(self) -> float:
        """How long a function that waits is kept: hardly at all if it is in the way."""
        if self._draining:
            return 0.0
        return min(self._in_place, CROWDED_SECONDS) if self.held >= self.capacity else self._in_place

    async def _do(self, execution: Execution) -> None:
        task = execution.task
        try:
            if await self._recall(execution):
                await perform(execution)
        except Exception as error:
            log.exception("%s: the worker made a mistake", task.where)
            await give_up(execution, f"the worker made a mistake: {error!r}")
        finally:
            self._held.pop((task.task, task.fence), None)
            self._changed.set()

    async def _recall(self, execution: Execution) -> bool:
        """Reads all of a task's history; false, if the task is not ours any more."""
        items, after, patience = list(execution.task.history), execution.task.more_history, Patience(self._outage)
        while after is not None:
            try:
                more, after = await self._link.history(execution.task.task, after)
                items.extend(more)
            except httpx2.TransportError as error:
                await patience.wait(f"{type(error).__name__}: {error}")
            except ApiError as error:
                if error.code == "worker_unknown":
                    await self._register_again()
                elif may_pass(error):
                    await patience.wait(str(error), error.details.get("retryAfter"))
                else:
                    if not isinstance(error, StaleFenceError):
                        await give_up(execution, f"its history can't be read: {error}")
                    return False
        execution.history.extend(items)
        return True

    def _hook(self, hook: Hook) -> None:
        if hook.id not in self._hooks:
            self._hooks.add(hook.id)
            self._spawn(self._call_hook(hook))

    async def _call_hook(self, hook: Hook) -> None:
        where = f"run {hook.run_id}, node {hook.node_id}"
        done: dict[str, Any] = {"op": "hookDone", "id": hook.id}
        try:
            intent = Intent(hook.run_id, hook.node_id, hook.agent)
            said = await self.app.tell(hook.hook, intent, Suspension.from_dict(hook.suspension), self._executor)
            if hook.hook == "question_asked" and said is not None:
                done["answer"] = said
        except BaseException as error:
            if self._closing:
                raise
            # Whatever it was, the server has to know, and the others go on.
            error.add_note(f"in {where}, hook on_{hook.hook}")
            log.error("%s: hook on_%s failed: %s", where, hook.hook, error, exc_info=error)
            done["error"] = printable(f"{code_of(error)}: {error}")[:1000]
        try:
            await self._sender.send(done)
        except ApiError as error:
            log.warning("%s: hook on_%s is done, but can't be told so: %s", where, hook.hook, error)
        finally:
            self._hooks.discard(hook.id)
            self._changed.set()

    def _spawn(self, work: Any) -> None:
        assert self._loop is not None, "nothing is begun before it runs"
        task = self._loop.create_task(work, context=contextvars.Context())
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _begin_drain(self) -> None:
        if self._draining:
            return
        self._draining = True
        if self._held:
            log.info("draining: %s tasks are finished or parked first", len(self._held))
        if self.ready.is_set():
            self._spawn(self._ask_for_no_more())
            self._changed.set()

    async def _ask_for_no_more(self) -> None:
        with contextlib.suppress(ApiError, httpx2.TransportError):
            await self._link.drain()

    def _begin_stop(self) -> None:
        self._draining = self._stopping = True
        if self._main is not None:
            self._main.cancel()

    async def _close(self) -> None:
        """Leaves, and ends whatever is under way."""
        self._closing = True
        for execution in self._held.values():
            execution.state = "lost"
        for task in list(self._background):
            task.cancel()
        self._sender.close()
        if self._has_joined:
            with contextlib.suppress(ApiError, httpx2.TransportError, asyncio.CancelledError):
                await self._link.leave()
        await self._link.close()


def _policy(app: App) -> Mapping[str, Any] | None:
    policy = app.default_human_retry_policy
    return None if policy is None else policy.to_dict()


def _branched(
    coro: Any, given: contextvars.Context | None
) -> tuple[Any, contextvars.Context | None, quiet.Begun | None]:
    """Gives an asyncio task that a function begins a branch of its own, and has its execution know of it."""
    here = BRANCH.get() if given is None else given.get(BRANCH)
    step = STEP.get() if given is None else given.get(STEP)
    if here is None and step is None:
        return coro, given, None
    contained = Contained(coro) if isinstance(coro, Coroutine) else coro
    if here is None or step is not None:
        return contained, given, None
    execution, branch = here
    context = contextvars.copy_context() if given is None else given
    name = quiet.library_name(coro)
    if name != "abide" and not quiet.is_awaited_in_place():
        # What the context itself gave was called in the branch that it was given in.
        if id(coro) not in branch.promised and (together := quiet.given_together(coro)):
            branch.promise((one for one in together if quiet.library_name(one) != "abide"), quiet.library_name)
        context.run(BRANCH.set, (execution, branch.child_of(coro, name)))

    def begun(task: asyncio.Task[Any]) -> None:
        execution.tasks.add(task)
        task.add_done_callback(execution.forget)

    return contained, context, begun


def run(worker: Worker) -> None:
    """Works until a signal: the first drains, the second stops."""
    asyncio.run(_run(worker))
    if worker.stopped:
        # Threads that still work would keep the process.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


async def _run(worker: Worker) -> None:
    loop = asyncio.get_running_loop()
    told = 0

    def signalled(name: str) -> None:
        nonlocal told
        told += 1
        if told == 1:
            log.info("%s: leaving once what runs is finished or parked; again to leave at once", name)
            worker.drain()
        else:
            worker.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError, ValueError):
            loop.add_signal_handler(number, signalled, number.name)
    await worker.run()
