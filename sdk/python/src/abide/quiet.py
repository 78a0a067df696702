"""Whether an asyncio task does nothing but wait for other tasks.

A function may be left when all that it does is wait. What the SDK itself waits for it knows; what stands between
(`gather`, task groups, locks, queues) is found out here. Anything else, such as a request to somewhere, counts as work.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import pathlib
import re
import sys
import sysconfig
from collections.abc import Callable, Collection, Iterator, Sequence
from types import CodeType, FrameType
from typing import Any

from .errors import AbideError

_GATHERING = getattr(asyncio.tasks, "_GatheringFuture", ())


def _codes() -> frozenset[CodeType]:
    joins: list[Any] = [
        asyncio.TaskGroup.__aexit__,
        getattr(asyncio.TaskGroup, "_aexit", None),
        getattr(asyncio.tasks, "_wait", None),
        getattr(getattr(asyncio.tasks, "_AsCompletedIterator", None), "_wait_for_one", None),
        asyncio.Event.wait,
        asyncio.Lock.acquire,
        asyncio.Semaphore.acquire,
        asyncio.Condition.wait,
        asyncio.Queue.get,
        asyncio.Queue.put,
        asyncio.Queue.join,
        getattr(asyncio.Barrier, "wait", None),
    ]
    return frozenset(join.__code__ for join in joins if join is not None)


_JOINS = _codes()


def is_joining(task: asyncio.Task[Any], others: Collection[asyncio.Task[Any]]) -> bool:
    """Whether a task waits for others of these, or for a signal that only they can give."""
    waits_for = getattr(task, "_fut_waiter", None)
    if waits_for is None or waits_for.done():
        return False
    if isinstance(waits_for, asyncio.Task):
        return waits_for in others
    if isinstance(waits_for, _GATHERING):
        return all(child.done() or child in others for child in getattr(waits_for, "_children", ()))
    if (shielded := _shielded(waits_for)) is not None:
        return shielded in others
    inner: Any = task.get_coro()
    while asyncio.iscoroutine(getattr(inner, "cr_await", None)):
        inner = inner.cr_await
    code = getattr(inner, "cr_code", None)
    return code in _JOINS or (code is not None and code is _anyio_group())


def _shielded(outer: Any) -> asyncio.Task[Any] | None:
    """The task behind what `asyncio.shield` gave."""
    for callback, *_ in getattr(outer, "_callbacks", None) or ():
        if getattr(callback, "__qualname__", "") == "shield.<locals>._outer_done_callback":
            for cell in callback.__closure__ or ():
                if isinstance(cell.cell_contents, asyncio.Task):
                    return cell.cell_contents
    return None


def _anyio_group() -> CodeType | None:
    """The code that waits for the tasks of a task group of anyio, if that is there."""
    backend = sys.modules.get("anyio._backends._asyncio")
    code = getattr(getattr(getattr(backend, "TaskGroup", None), "__aexit__", None), "__code__", None)
    return code if isinstance(code, CodeType) else None


def has_timeout(loop: asyncio.AbstractEventLoop, tasks: Collection[asyncio.Task[Any]]) -> bool:
    """Whether a timeout of asyncio runs over one of these tasks. It would never come to an end if they were left."""
    # One whose time has come lies among what is ready until it is its turn.
    for handle in (*getattr(loop, "_scheduled", ()), *getattr(loop, "_ready", ())):
        timeout = getattr(getattr(handle, "_callback", None), "__self__", None)
        if isinstance(timeout, asyncio.Timeout) and not handle.cancelled():
            task = getattr(timeout, "_task", None)
            if task is not None and task in tasks and not task.done():
                return True
    return False


_HERE = str(pathlib.Path(__file__).parent)
_ASYNCIO = str(pathlib.Path(asyncio.__file__).parent)
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def library_name(coro: Any) -> str:
    """The name of a coroutine that belongs to a library; nothing, if it is the user's; `abide`, if it is ours."""
    code = getattr(coro, "cr_code", None)
    file = code.co_filename if code is not None else ""
    if file.startswith(_HERE):
        return "abide"
    if code is None or file.startswith(_LIBRARIES):
        return re.sub(r"\W", "_", getattr(coro, "__name__", type(coro).__name__))
    return ""


def _beginning() -> frozenset[CodeType]:
    begins: list[Any] = [
        asyncio.as_completed,
        getattr(getattr(asyncio.tasks, "_AsCompletedIterator", None), "__init__", None),
    ]
    return frozenset(begin.__code__ for begin in begins if hasattr(begin, "__code__"))


_UNORDERED = _beginning()


def is_awaited_in_place() -> bool:
    """Whether a task is made by `wait_for`, which only some versions of Python do: it is no branch in any of them."""
    return any(frame.f_code is asyncio.wait_for.__code__ for frame in _makers())


def _makers() -> Iterator[FrameType]:
    """What of this package and of asyncio makes a task, up to the code of others that had it made."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith((_HERE, _ASYNCIO)):
        yield frame
        frame = frame.f_back


def given_together(coro: Any) -> Sequence[Any]:
    """The coroutines that `as_completed` was given, if it begins this one: it begins them in no order that holds."""
    for frame in _makers():
        if frame.f_code in _UNORDERED:
            given = frame.f_locals.get("fs", frame.f_locals.get("aws"))
            if isinstance(given, list | tuple):
                return [one for one in given if asyncio.iscoroutine(one)]
            raise AbideError(
                "as_completed has to be given a list: in which order it begins the coroutines of anything else "
                "can't be told, and what they record is known by that"
            )
    return ()


Begun = Callable[[asyncio.Task[Any]], None]


@contextlib.contextmanager
def watched(
    loop: asyncio.AbstractEventLoop,
    begin: Callable[[Any, contextvars.Context | None], tuple[Any, contextvars.Context | None, Begun | None]],
) -> Iterator[None]:
    """Has `begin` asked about every task that is made on a loop: what it does, where, and who is to know of it."""
    before = loop.get_task_factory()

    def make(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> Any:
        coro, context, begun = begin(coro, options.get("context"))
        if context is not None:
            options["context"] = context
        task = asyncio.Task(coro, loop=loop, **options) if before is None else before(loop, coro, **options)
        if begun is not None and isinstance(task, asyncio.Task):
            begun(task)
        return task

    loop.set_task_factory(make)
    try:
        yield
    finally:
        loop.set_task_factory(before)
