"""Calls the function of a task, and tells the server how it ended."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import logging
from collections.abc import Awaitable, Mapping
from typing import Any

from .app import outputs_of
from .context import Context
from .errors import AbideError, ExitError, NotAwaitedError
from .execution import BRANCH, Execution, Unwind
from .pending import EXITS
from .report import Report, leaf, report
from .sync_context import SyncContext
from .values import Raw, encode_bounded

log = logging.getLogger("abide.worker")


async def perform(execution: Execution) -> None:
    """Does a task. It returns when the function has ended, and the server knows."""
    value: Any = None
    error: BaseException | None = None
    try:
        value = await _call(execution)
    except BaseException as raised:
        error = raised
    finally:
        await _end_leftovers(execution)
    error = _forgotten(execution, error)
    if execution.state != "running" or isinstance(leaf(error) if error else None, Unwind):
        if execution.state == "running":
            log.error("%s: the function was left without a reason", execution.task.where)
        return
    try:
        await _tell(execution, value, error)
    except Unwind:
        pass
    except AbideError as refused:
        await give_up(execution, f"how it ended can't be told: {refused}")


async def give_up(execution: Execution, why: str) -> None:
    """Fails a task in the plainest words, so that it does not stay with a worker that does nothing for it any more."""
    log.error("%s: %s", execution.task.where, why)
    plain = why.encode("utf-8", "replace").decode()[:1000]
    told = Report("worker_error", plain, {}, "internal", True, execution.effect())
    try:
        await execution.call("fail", **told.op())
    except Unwind:
        pass
    except (AbideError, asyncio.CancelledError) as refused:
        log.critical("%s: the server does not take its end: %s", execution.task.where, refused)


async def _call(execution: Execution) -> Any:
    """Runs the function in a context of its own, and waits for it."""
    context = contextvars.copy_context()
    context.run(BRANCH.set, None)
    main = execution.loop.create_task(_body(execution), context=context)
    execution.main = main
    if execution.cancelled is not None:
        main.cancel()
    return await main


async def _body(execution: Execution) -> Any:
    task, kind = execution.task, execution.kind
    arguments = kind.arguments(task.inputs, task.run.inputs)
    this = asyncio.current_task()
    if this is not None:
        execution.tasks.add(this)
        this.add_done_callback(execution.tasks.discard)
    BRANCH.set((execution, execution.root))
    try:
        return await _called(execution, arguments)
    except EXITS as error:
        raise ExitError(error) from error


async def _called(execution: Execution, arguments: Mapping[str, Any]) -> Any:
    kind = execution.kind
    if kind.is_async:
        return await kind.function(Context(execution), **arguments)
    execution.threads = 1
    call = functools.partial(kind.function, SyncContext(execution), **arguments)
    here = contextvars.copy_context()
    value = await execution.loop.run_in_executor(execution.executor, _in_thread, here, call)
    return await value if isinstance(value, Awaitable) else value


def _in_thread(context: contextvars.Context, call: functools.partial[Any]) -> Any:
    try:
        return context.run(call)
    except StopIteration as error:
        # A future can't carry it.
        raise RuntimeError("the function raised StopIteration") from error


async def _end_leftovers(execution: Execution) -> None:
    """Cancels what the function began and did not wait for."""
    left = [task for task in execution.tasks if not task.done()]
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=5)
    for task in left:
        if task.done() and not task.cancelled():
            task.exception()


def _forgotten(execution: Execution, error: BaseException | None) -> BaseException | None:
    """What went wrong, seen in the light of the calls that the function did not await."""
    if not execution.kind.is_async:
        # Threads await nothing, and may not have come to it when their task is lost.
        return error
    left = list(execution.not_awaited.values())
    for pending in left:
        pending.close()
    # A call that was used as if it were its result is the likely cause of these.
    if left and (error is None or type(leaf(error)) in (TypeError, AttributeError)):
        forgotten = NotAwaitedError(*(pending.call for pending in left))
        forgotten.__cause__ = error
        return forgotten
    return error


async def _tell(execution: Execution, value: Any, error: BaseException | None) -> None:
    where = execution.task.where
    if execution.cancelled is not None:
        told = Report("cancelled", execution.cancelled, {}, "cancelled", False, execution.effect())
        log.info("%s: cancelled: %s", where, execution.cancelled)
        await execution.call("fail", **told.op())
        return
    error = execution.broken or error
    if error is None:
        error = await _complete(execution, value)
    if error is not None:
        await _fail(execution, error)


async def _complete(execution: Execution, value: Any) -> BaseException | None:
    """Tells what the function gave; what is wrong with that is an error of the function."""
    try:
        execution.history.check_end(execution.task.where)
        outputs = encode_bounded(outputs_of(value), "what the function returned")
        await execution.call("complete", outputs=Raw(outputs))
    except AbideError as refused:
        return refused
    return None


async def _fail(execution: Execution, error: BaseException) -> None:
    where = execution.where(getattr(leaf(error), "step", None))
    note = f"in {where}"
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)
    told = report(error, execution.effect())
    log.error("%s failed: %s [%s]", where, told.message, told.code, exc_info=error)
    answer = await execution.call("fail", **told.op())
    if answer.get("retryAt"):
        log.info("%s: it is tried again at %s", execution.task.where, answer["retryAt"])
