"""Sends the ops of all tasks of a worker, many in one request.

A single op goes at once. While requests are under way, ops gather and share the next one. Ops of one task keep their
order: they are never in two requests at the same time. A request that fails is sent again until the server answers,
which is safe because every op is known by its key and fence.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx2

from .connection import may_pass, refused
from .errors import ApiError
from .protocol import OPS_MAX, REQUEST_BYTES_MAX, Op
from .values import encode_object

PIPELINED = 2
"""How many requests are under way at the same time."""

log = logging.getLogger("abide.worker")


@dataclass(eq=False)
class _Waiting:
    task: str
    body: bytes
    answer: asyncio.Future[Mapping[str, Any]]


Post = Callable[[list[bytes]], Awaitable[list[Mapping[str, Any]]]]


class Sender:
    """The queue of ops, and the requests that empty it."""

    def __init__(self, post: Post, register_again: Callable[[], Awaitable[None]], outage: Outage) -> None:
        self._post = post
        self._outage = outage
        self._register_again = register_again
        self._queue: deque[_Waiting] = deque()
        self._under_way: set[str] = set()
        self._requests: set[asyncio.Task[None]] = set()
        self._closed = False

    def send(self, op: Op) -> asyncio.Future[Mapping[str, Any]]:
        """Queues an op. Its result comes as the future's, or its refusal as the future's exception."""
        answer: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        # Nobody may be waiting for it any more when it comes.
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        if self._closed:
            answer.set_exception(refused("worker_stopped", "the worker has stopped", 503))
            return answer
        self._queue.append(_Waiting(str(op.get("task", "")), encode_object(op), answer))
        if len(self._requests) < PIPELINED:
            # Whatever else becomes ready in this turn of the loop shares the request.
            asyncio.get_running_loop().call_soon(self._next, context=contextvars.Context())
        return answer

    async def flush(self) -> None:
        """Waits until everything that was queued is answered."""
        while self._queue or self._requests:
            await asyncio.sleep(0.005)

    def close(self) -> None:
        """Drops what is queued, and sends nothing more."""
        self._closed = True
        for request in self._requests:
            request.cancel()
        while self._queue:
            self._queue.popleft().answer.cancel()

    def _next(self) -> None:
        while not self._closed and len(self._requests) < PIPELINED:
            batch = self._take()
            if not batch:
                return
            # A request is no part of the function that happens to be the first in it.
            request = asyncio.get_running_loop().create_task(self._deliver(batch), context=contextvars.Context())
            self._requests.add(request)
            request.add_done_callback(self._done, context=contextvars.Context())

    def _done(self, request: asyncio.Task[None]) -> None:
        self._requests.discard(request)
        if not request.cancelled() and (error := request.exception()) is not None:
            log.error("a request could not be carried out", exc_info=error)
        self._next()

    def _take(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        held: list[_Waiting] = []
        size = 0
        while self._queue and len(batch) < OPS_MAX:
            first = self._queue[0]
            if batch and size + len(first.body) > REQUEST_BYTES_MAX:
                break
            self._queue.popleft()
            if first.answer.cancelled():
                continue
            if first.task and first.task in self._under_way:
                held.append(first)
                continue
            batch.append(first)
            size += len(first.body) + 1
        self._queue.extendleft(reversed(held))
        self._under_way.update(waiting.task for waiting in batch if waiting.task)
        return batch

    async def _deliver(self, batch: list[_Waiting]) -> None:
        try:
            decided = list(zip(batch, await self._insist(batch), strict=True))
            # One before them was refused, and they were not looked at: they go first, before what came later.
            skipped = [waiting for waiting, result in decided if _is_skipped(result)]
            self._queue.extendleft(reversed(skipped))
            for waiting, result in decided:
                if not _is_skipped(result):
                    self._answer(waiting, result)
        finally:
            self._under_way.difference_update(waiting.task for waiting in batch)

    def _answer(self, waiting: _Waiting, result: Mapping[str, Any]) -> None:
        if waiting.answer.done():
            return
        if result.get("ok"):
            waiting.answer.set_result(result)
            return
        error = result.get("error") or {}
        code, message = str(error.get("code")), str(error.get("message"))
        waiting.answer.set_exception(refused(code, message, int(error.get("status") or 0), error.get("details")))

    async def _insist(self, batch: list[_Waiting]) -> list[Mapping[str, Any]]:
        """Sends a batch until the server has decided it."""
        patience = Patience(self._outage)
        while True:
            try:
                results = await self._post([waiting.body for waiting in batch])
                patience.recovered()
                return results
            except httpx2.TransportError as error:
                await patience.wait(f"{type(error).__name__}: {error}")
            except ApiError as error:
                if error.code == "worker_unknown":
                    await self._register_again()
                elif may_pass(error):
                    await patience.wait(str(error), error.details.get("retryAfter"))
                elif len(batch) > 1:
                    return await self._apart(batch)
                else:
                    return [{"ok": False, "error": _told(error)}]

    async def _apart(self, batch: list[_Waiting]) -> list[Mapping[str, Any]]:
        """One of them makes the server refuse them all, so each goes by itself."""
        results: list[Mapping[str, Any]] = []
        for waiting in batch:
            results.extend(await self._insist([waiting]))
        return results


def _is_skipped(result: Mapping[str, Any]) -> bool:
    return not result.get("ok") and (result.get("error") or {}).get("code") == "op_skipped"


def _told(error: ApiError) -> Mapping[str, Any]:
    return {"code": error.code, "message": error.message, "status": error.status, "details": error.details}


class Outage:
    """Whether the server answers, as a whole worker sees it: a line in the log when it stops, and when it begins."""

    def __init__(self) -> None:
        self._down = False

    def begins(self, why: str) -> None:
        """The server did not answer."""
        if not self._down:
            log.warning("the server does not answer (%s); trying again until it does", why)
        self._down = True

    def ends(self) -> None:
        """The server answered."""
        if self._down:
            log.info("the server answers again")
        self._down = False


class Patience:
    """Growing pauses between tries."""

    def __init__(self, outage: Outage) -> None:
        self._outage = outage
        self._tries = 0

    async def wait(self, why: str, at_least: float | None = None) -> None:
        """Waits before the next try."""
        self._outage.begins(why)
        pause = min(5.0, 0.05 * 2 ** min(self._tries, 10)) * random.uniform(0.5, 1.0)
        self._tries += 1
        await asyncio.sleep(max(pause, at_least or 0.0))

    def recovered(self) -> None:
        """The server answered."""
        if self._tries:
            self._outage.ends()
        self._tries = 0
