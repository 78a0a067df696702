"""The client: start runs and wait for them, answer what they ask, follow what happens.

`Client` and `AsyncClient` are the same with and without `await`. Both read ABIDE_URL and ABIDE_API_KEY.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx2

from . import decisions, requests, turns
from .connection import Connection, is_passing, refusal
from .errors import AbideError, ApiError, UnreachableError
from .models import Diff, Event, Fork, InboxItem, Run, RunSummary
from .requests import Page, Request
from .turns import Chunk, Provider, Turn, Turns
from .values import encode

T = TypeVar("T")

TRIES = 5
"""How often a request is sent that may be repeated."""


def _options(request: Request[Any]) -> dict[str, Any]:
    headers = {} if request.idempotency_key is None else {"Idempotency-Key": request.idempotency_key}
    options: dict[str, Any] = {
        "params": dict(request.query or {}),
        "timeout": httpx2.Timeout(request.seconds, connect=10.0),
        "headers": headers,
    }
    if request.body is not None:
        options["content"] = encode(request.body, "the request")
        headers["Content-Type"] = "application/json"
    return options


def _pause(request: Request[Any], error: Exception, tries: int) -> float | None:
    """How long to wait before it is sent again; nothing, if it is not."""
    if tries >= TRIES or not request.may_repeat:
        return None
    if isinstance(error, ApiError):
        if not is_passing(error):
            return None
        return float(error.details.get("retryAfter") or 0.2 * 2**tries)
    return float(0.1 * 2**tries)


def _unreachable(url: str, error: Exception) -> UnreachableError:
    return UnreachableError(f"no server answers at {url}: {error or type(error).__name__}")


class Client:
    """A client for programs that are not async."""

    def __init__(self, url: str | None = None, api_key: str | None = None) -> None:
        self.connection = Connection.find(url, api_key)
        self._http = httpx2.Client(base_url=self.connection.url, headers=self.connection.headers)
        self.runs = Runs(self)
        self.inbox = Inbox(self)
        self.events = Events(self)
        self.workflows = Workflows(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def send(self, request: Request[T]) -> T:
        """Sends a request, again if that is safe and may help, and reads the answer."""
        tries = 0
        while True:
            tries += 1
            try:
                response = self._http.request(request.method, request.path, **_options(request))
                if response.status_code >= 400:
                    raise refusal(response)
                return request.read(response.json() if response.content else None)
            except (ApiError, httpx2.TransportError) as error:
                pause = _pause(request, error, tries)
                if pause is None:
                    if isinstance(error, ApiError):
                        raise
                    raise _unreachable(self.connection.url, error) from error
            time.sleep(pause)

    def providers(self) -> list[Provider]:
        """The providers of models that the server knows, and how they do."""
        return self.send(turns.providers())

    def pages(self, make: Callable[[int, str | None], Request[Page[T]]], limit: int | None) -> list[T]:
        """All of a list, or as much of it as is wanted, one page after the other."""
        found: list[T] = []
        cursor: str | None = None
        while limit is None or len(found) < limit:
            page = self.send(make(requests.page_size(limit, len(found)), cursor))
            found += page.items
            cursor = page.next
            if cursor is None:
                break
        return found


class Runs:
    """Runs."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def start(
        self,
        workflow: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        tags: Iterable[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        configurable: Mapping[str, Any] | None = None,
        callback_url: str | None = None,
        idempotency_key: str | None = None,
    ) -> Run:
        """Starts a run. With an `idempotency_key` of yours, asking twice gives the same run."""
        request = requests.start(workflow, inputs, tags, metadata, configurable, callback_url, idempotency_key)
        return self._client.send(request)

    def get(self, run_id: str) -> Run:
        """A run as it stands."""
        return self._client.send(requests.get(run_id))

    def list(
        self, *, status: str | None = None, workflow: str | None = None, limit: int | None = None
    ) -> list[RunSummary]:
        """The latest runs: 50, or as many as are wanted."""
        wanted = requests.RUNS if limit is None else limit
        return self._client.pages(lambda size, cursor: requests.runs(status, workflow, size, cursor), wanted)

    def hold(self, run_id: str, *, stop: bool = False, reason: str | None = None) -> Mapping[str, Any]:
        """Holds a run, whether it works or waits: answers are kept, and nothing starts until `release`.

        With `stop`, the times of its questions stand still as well: no reminders, no timeouts.
        """
        return self._client.send(requests.hold(run_id, stop, reason))

    def release(self, run_id: str, reason: str | None = None) -> str:
        """Lets a run go on that somebody holds, and gives its status."""
        return self._client.send(requests.release(run_id, reason))

    def cancel(self, run_id: str, reason: str | None = None) -> str:
        """Cancels a run, and gives its status."""
        return self._client.send(requests.cancel(run_id, reason))

    def replay(self, run_id: str, *, from_seq: int | None = None, idempotency_key: str | None = None) -> Fork:
        """Works a run out again from what was recorded of it. Nothing outside hears of that."""
        return self._client.send(requests.fork(run_id, "replay", from_seq, None, idempotency_key))

    def branch(
        self,
        run_id: str,
        from_seq: int,
        *,
        overlay: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Fork:
        """Makes a run that begins with the events before this one, and goes on by itself.

        `overlay` takes the place of the run's own `tags`, `metadata` and `configurable`.
        """
        return self._client.send(requests.fork(run_id, "branch", from_seq, overlay, idempotency_key))

    def diff(self, run_id: str, against: str) -> Diff:
        """How the events of two runs differ, whatever things are called and whenever they happened."""
        return self._client.send(requests.diff(run_id, against))

    def wait(self, run_id: str, timeout: float | None = None) -> Run:
        """Waits until a run has ended; `TimeoutError` if that takes too long."""
        for _ in self._client.events.follow(run_id, timeout=timeout):
            pass
        return self.get(run_id)

    def result(self, run_id: str, timeout: float | None = None) -> Any:
        """Waits for a run and gives what its agent returned; `RunFailedError` if it did not complete."""
        return self.wait(run_id, timeout).result

    def turns(self, run_id: str) -> Turns:
        """The turns of a run, and how they do."""
        return self._client.send(turns.turns(run_id))

    def retry_turn(self, run_id: str, node: str | None = None) -> Turn:
        """Has a turn that waits for its provider try at once: that of a node, or the only one that waits."""
        named = node or self.turns(run_id).waiting()
        return self._client.send(turns.retry(run_id, named))

    def give_up_turn(self, run_id: str, node: str | None = None, reason: str | None = None) -> Turn:
        """Gives a turn up that waits for its provider: that of a node, or the only one that waits."""
        named = node or self.turns(run_id).waiting()
        return self._client.send(turns.give_up(run_id, named, reason))


class Inbox:
    """What waits for an answer."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def list(
        self,
        *,
        run: str | None = None,
        workflow: str | None = None,
        kind: str | None = None,
        approver: str | None = None,
        limit: int | None = None,
    ) -> list[InboxItem]:
        """All that waits, or so much of it, oldest first."""
        return self._client.pages(
            lambda size, cursor: requests.inbox(run, workflow, kind, approver, size, cursor), limit
        )

    def wait(self, run_id: str, timeout: float | None = None) -> InboxItem:
        """Waits until a run asks, and gives its oldest question; `TimeoutError` if that takes too long.

        A run that ends without asking (any more) is an `AbideError`.
        """
        end, after, answered = None if timeout is None else time.monotonic() + timeout, None, False
        while True:
            seconds = _poll_seconds(end, f"{run_id} asks nothing")
            try:
                if found := self.list(run=run_id, limit=1):
                    return found[0]
                events, complete = self._client.send(requests.poll(run_id, after, seconds))
            except (UnreachableError, ApiError) as error:
                if not _is_outage(error, answered):
                    raise
                time.sleep(1.0)
                continue
            answered = True
            after = events[-1].sequence if events else after
            if complete and not events:
                raise AbideError(f"{run_id} has ended, and asks nothing")

    def answer(self, item: InboxItem, value: Any, *, idempotency_key: str | None = None) -> str:
        """Answers with a value, and gives the run's status then.

        A question of `request_input` may be answered with the value alone.
        """
        put = self._put(item, value)
        return self.resolve(item.run_id, item.node_id, put, item.interrupt_id, idempotency_key=idempotency_key)

    def accept(self, item: InboxItem, feedback: str | None = None) -> str:
        """Accepts an approval."""
        return self.answer(item, _decision("accept", feedback))

    def reject(self, item: InboxItem, feedback: str | None = None) -> str:
        """Rejects an approval."""
        return self.answer(item, _decision("reject", feedback))

    def answer_many(
        self,
        items: Iterable[InboxItem],
        value: Any,
        *,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> Sequence[Mapping[str, Any]]:
        """Gives one answer to many questions, at most a hundred, and tells what became of each, in their order.

        Each is taken or refused by itself: look at `ok`, `status` and `error`. With `dry_run`, nothing is answered and
        what would happen is told.
        """
        named = [(item.run_id, item.interrupt_id) for item in items]
        return self._client.send(requests.resolve_many(named, value, dry_run, idempotency_key))

    def vote(self, item: InboxItem, action: str, *, feedback: str | None = None, voter: str | None = None) -> str:
        """Votes where several people decide: in one's own name, or in another's if the key may."""
        return self.answer(item, decisions.decision(action, feedback, voter))

    def refine(
        self,
        item: InboxItem,
        text: str | None = None,
        *,
        tags: Iterable[str] = (),
        section: str | None = None,
        items: Iterable[str] = (),
    ) -> str:
        """Has what is decided about made better. A text or tags have to say how."""
        return self.answer(item, decisions.refinement(text, tags=tags, section=section, items=items))

    def edit_accept(self, item: InboxItem, data: Any) -> str:
        """Accepts an approval with changes."""
        return self.answer(item, decisions.edited(data))

    def ask(self, item: InboxItem, question: str) -> str:
        """Asks something before deciding. The approval stays open."""
        return self.answer(item, decisions.asked(question))

    def reply(self, item: InboxItem, ask_id: str, answer: Any) -> str:
        """Answers what somebody asked before deciding. Nothing is resumed by it."""
        return self._client.send(requests.reply(item.run_id, item.node_id, ask_id, answer))

    def resolve(
        self,
        run_id: str,
        node_id: str,
        value: Any,
        interrupt_id: str | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> str:
        """Answers what a node waits for, with the value as the API takes it."""
        return self._client.send(requests.resolve(run_id, node_id, interrupt_id, value, idempotency_key))

    def _put(self, item: InboxItem, value: Any) -> Any:
        if item.kind != "clarification" or _has_answers(value):
            return value
        return _answers(self._client.runs.get(item.run_id), item.interrupt_id, value)


class Events:
    """What happens in runs."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def follow(self, run_id: str, *, after: int | None = None, timeout: float | None = None) -> Iterator[Event]:
        """The events of a run until it ends: those that were, then those that come.

        A server that has answered once may be away for a while; it is waited for, up to the timeout.
        """
        end, answered = None if timeout is None else time.monotonic() + timeout, False
        while True:
            seconds = _poll_seconds(end, f"{run_id} has not ended")
            try:
                events, complete = self._client.send(requests.poll(run_id, after, seconds))
            except (UnreachableError, ApiError) as error:
                if not _is_outage(error, answered):
                    raise
                time.sleep(1.0)
                continue
            answered = True
            for event in events:
                after = event.sequence
                yield event
            if complete and not events:
                return

    def messages(self, run_id: str, *, after: int | None = None, timeout: float | None = None) -> Iterator[Chunk]:
        """What the models of a run say, as they say it, until the run ends."""
        for event in self.follow(run_id, after=after, timeout=timeout):
            if event.type == turns.CHUNK:
                yield Chunk.read(event)

    def journal(self, run_id: str) -> list[Event]:
        """What there is of a run's journal, in Abide's own words."""
        return self._client.send(requests.journal(run_id))

    def send(self, event_type: str, payload: Any, *, event_id: str | None = None) -> Mapping[str, Any]:
        """Tells what happened elsewhere to whoever waits for it. A repeat under the same id does nothing."""
        return self._client.send(requests.external_event(event_type, payload, event_id))


class Workflows:
    """Workflows."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def push(self, definition: Mapping[str, Any]) -> int:
        """Pushes a definition, and gives its version: a new one if it differs from the latest."""
        return self._client.send(requests.push(definition))

    def get(self, workflow_id: str, version: int | None = None) -> Mapping[str, Any]:
        """A definition."""
        return self._client.send(requests.workflow(workflow_id, version))

    def list(self) -> list[str]:
        """The ids of all workflows."""
        return self._client.send(requests.workflows())


class AsyncClient:
    """A client for async programs."""

    def __init__(self, url: str | None = None, api_key: str | None = None) -> None:
        self.connection = Connection.find(url, api_key)
        self._http = httpx2.AsyncClient(base_url=self.connection.url, headers=self.connection.headers)
        self.runs = AsyncRuns(self)
        self.inbox = AsyncInbox(self)
        self.events = AsyncEvents(self)
        self.workflows = AsyncWorkflows(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def send(self, request: Request[T]) -> T:
        """Sends a request, again if that is safe and may help, and reads the answer."""
        tries = 0
        while True:
            tries += 1
            try:
                response = await self._http.request(request.method, request.path, **_options(request))
                if response.status_code >= 400:
                    raise refusal(response)
                return request.read(response.json() if response.content else None)
            except (ApiError, httpx2.TransportError) as error:
                pause = _pause(request, error, tries)
                if pause is None:
                    if isinstance(error, ApiError):
                        raise
                    raise _unreachable(self.connection.url, error) from error
            await asyncio.sleep(pause)

    async def providers(self) -> list[Provider]:
        """The providers of models that the server knows, and how they do."""
        return await self.send(turns.providers())

    async def pages(self, make: Callable[[int, str | None], Request[Page[T]]], limit: int | None) -> list[T]:
        """All of a list, or as much of it as is wanted, one page after the other."""
        found: list[T] = []
        cursor: str | None = None
        while limit is None or len(found) < limit:
            page = await self.send(make(requests.page_size(limit, len(found)), cursor))
            found += page.items
            cursor = page.next
            if cursor is None:
                break
        return found


class AsyncRuns:
    """Runs."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def start(
        self,
        workflow: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        tags: Iterable[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        configurable: Mapping[str, Any] | None = None,
        callback_url: str | None = None,
        idempotency_key: str | None = None,
    ) -> Run:
        """Starts a run. With an `idempotency_key` of yours, asking twice gives the same run."""
        request = requests.start(workflow, inputs, tags, metadata, configurable, callback_url, idempotency_key)
        return await self._client.send(request)

    async def get(self, run_id: str) -> Run:
        """A run as it stands."""
        return await self._client.send(requests.get(run_id))

    async def list(
        self, *, status: str | None = None, workflow: str | None = None, limit: int | None = None
    ) -> list[RunSummary]:
        """The latest runs: 50, or as many as are wanted."""
        wanted = requests.RUNS if limit is None else limit
        return await self._client.pages(lambda size, cursor: requests.runs(status, workflow, size, cursor), wanted)

    async def hold(self, run_id: str, *, stop: bool = False, reason: str | None = None) -> Mapping[str, Any]:
        """Holds a run, whether it works or waits: answers are kept, and nothing starts until `release`.

        With `stop`, the times of its questions stand still as well: no reminders, no timeouts.
        """
        return await self._client.send(requests.hold(run_id, stop, reason))

    async def release(self, run_id: str, reason: str | None = None) -> str:
        """Lets a run go on that somebody holds, and gives its status."""
        return await self._client.send(requests.release(run_id, reason))

    async def cancel(self, run_id: str, reason: str | None = None) -> str:
        """Cancels a run, and gives its status."""
        return await self._client.send(requests.cancel(run_id, reason))

    async def replay(self, run_id: str, *, from_seq: int | None = None, idempotency_key: str | None = None) -> Fork:
        """Works a run out again from what was recorded of it. Nothing outside hears of that."""
        return await self._client.send(requests.fork(run_id, "replay", from_seq, None, idempotency_key))

    async def branch(
        self,
        run_id: str,
        from_seq: int,
        *,
        overlay: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Fork:
        """Makes a run that begins with the events before this one, and goes on by itself.

        `overlay` takes the place of the run's own `tags`, `metadata` and `configurable`.
        """
        return await self._client.send(requests.fork(run_id, "branch", from_seq, overlay, idempotency_key))

    async def diff(self, run_id: str, against: str) -> Diff:
        """How the events of two runs differ, whatever things are called and whenever they happened."""
        return await self._client.send(requests.diff(run_id, against))

    async def wait(self, run_id: str, timeout: float | None = None) -> Run:
        """Waits until a run has ended; `TimeoutError` if that takes too long."""
        async for _ in self._client.events.follow(run_id, timeout=timeout):
            pass
        return await self.get(run_id)

    async def result(self, run_id: str, timeout: float | None = None) -> Any:
        """Waits for a run and gives what its agent returned; `RunFailedError` if it did not complete."""
        return (await self.wait(run_id, timeout)).result

    async def turns(self, run_id: str) -> Turns:
        """The turns of a run, and how they do."""
        return await self._client.send(turns.turns(run_id))

    async def retry_turn(self, run_id: str, node: str | None = None) -> Turn:
        """Has a turn that waits for its provider try at once: that of a node, or the only one that waits."""
        named = node or (await self.turns(run_id)).waiting()
        return await self._client.send(turns.retry(run_id, named))

    async def give_up_turn(self, run_id: str, node: str | None = None, reason: str | None = None) -> Turn:
        """Gives a turn up that waits for its provider: that of a node, or the only one that waits."""
        named = node or (await self.turns(run_id)).waiting()
        return await self._client.send(turns.give_up(run_id, named, reason))


class AsyncInbox:
    """What waits for an answer."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def list(
        self,
        *,
        run: str | None = None,
        workflow: str | None = None,
        kind: str | None = None,
        approver: str | None = None,
        limit: int | None = None,
    ) -> list[InboxItem]:
        """All that waits, or so much of it, oldest first."""
        return await self._client.pages(
            lambda size, cursor: requests.inbox(run, workflow, kind, approver, size, cursor), limit
        )

    async def wait(self, run_id: str, timeout: float | None = None) -> InboxItem:
        """Waits until a run asks, and gives its oldest question; `TimeoutError` if that takes too long.

        A run that ends without asking (any more) is an `AbideError`.
        """
        end, after, answered = None if timeout is None else time.monotonic() + timeout, None, False
        while True:
            seconds = _poll_seconds(end, f"{run_id} asks nothing")
            try:
                if found := await self.list(run=run_id, limit=1):
                    return found[0]
                events, complete = await self._client.send(requests.poll(run_id, after, seconds))
            except (UnreachableError, ApiError) as error:
                if not _is_outage(error, answered):
                    raise
                await asyncio.sleep(1.0)
                continue
            answered = True
            after = events[-1].sequence if events else after
            if complete and not events:
                raise AbideError(f"{run_id} has ended, and asks nothing")

    async def answer(self, item: InboxItem, value: Any, *, idempotency_key: str | None = None) -> str:
        """Answers with a value, and gives the run's status then.

        A question of `request_input` may be answered with the value alone.
        """
        if item.kind == "clarification" and not _has_answers(value):
            value = _answers(await self._client.runs.get(item.run_id), item.interrupt_id, value)
        return await self.resolve(item.run_id, item.node_id, value, item.interrupt_id, idempotency_key=idempotency_key)

    async def accept(self, item: InboxItem, feedback: str | None = None) -> str:
        """Accepts an approval."""
        return await self.answer(item, _decision("accept", feedback))

    async def reject(self, item: InboxItem, feedback: str | None = None) -> str:
        """Rejects an approval."""
        return await self.answer(item, _decision("reject", feedback))

    async def answer_many(
        self,
        items: Iterable[InboxItem],
        value: Any,
        *,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> Sequence[Mapping[str, Any]]:
        """Gives one answer to many questions, at most a hundred, and tells what became of each, in their order.

        Each is taken or refused by itself: look at `ok`, `status` and `error`. With `dry_run`, nothing is answered and
        what would happen is told.
        """
        named = [(item.run_id, item.interrupt_id) for item in items]
        return await self._client.send(requests.resolve_many(named, value, dry_run, idempotency_key))

    async def vote(self, item: InboxItem, action: str, *, feedback: str | None = None, voter: str | None = None) -> str:
        """Votes where several people decide: in one's own name, or in another's if the key may."""
        return await self.answer(item, decisions.decision(action, feedback, voter))

    async def refine(
        self,
        item: InboxItem,
        text: str | None = None,
        *,
        tags: Iterable[str] = (),
        section: str | None = None,
        items: Iterable[str] = (),
    ) -> str:
        """Has what is decided about made better. A text or tags have to say how."""
        return await self.answer(item, decisions.refinement(text, tags=tags, section=section, items=items))

    async def edit_accept(self, item: InboxItem, data: Any) -> str:
        """Accepts an approval with changes."""
        return await self.answer(item, decisions.edited(data))

    async def ask(self, item: InboxItem, question: str) -> str:
        """Asks something before deciding. The approval stays open."""
        return await self.answer(item, decisions.asked(question))

    async def reply(self, item: InboxItem, ask_id: str, answer: Any) -> str:
        """Answers what somebody asked before deciding. Nothing is resumed by it."""
        return await self._client.send(requests.reply(item.run_id, item.node_id, ask_id, answer))

    async def resolve(
        self,
        run_id: str,
        node_id: str,
        value: Any,
        interrupt_id: str | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> str:
        """Answers what a node waits for, with the value as the API takes it."""
        return await self._client.send(requests.resolve(run_id, node_id, interrupt_id, value, idempotency_key))


class AsyncEvents:
    """What happens in runs."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def follow(
        self, run_id: str, *, after: int | None = None, timeout: float | None = None
    ) -> AsyncIterator[Event]:
        """The events of a run until it ends: those that were, then those that come.

        A server that has answered once may be away for a while; it is waited for, up to the timeout.
        """
        end, answered = None if timeout is None else time.monotonic() + timeout, False
        while True:
            seconds = _poll_seconds(end, f"{run_id} has not ended")
            try:
                events, complete = await self._client.send(requests.poll(run_id, after, seconds))
            except (UnreachableError, ApiError) as error:
                if not _is_outage(error, answered):
                    raise
                await asyncio.sleep(1.0)
                continue
            answered = True
            for event in events:
                after = event.sequence
                yield event
            if complete and not events:
                return

    async def messages(
        self, run_id: str, *, after: int | None = None, timeout: float | None = None
    ) -> AsyncIterator[Chunk]:
        """What the models of a run say, as they say it, until the run ends."""
        async for event in self.follow(run_id, after=after, timeout=timeout):
            if event.type == turns.CHUNK:
                yield Chunk.read(event)

    async def journal(self, run_id: str) -> list[Event]:
        """What there is of a run's journal, in Abide's own words."""
        return await self._client.send(requests.journal(run_id))

    async def send(self, event_type: str, payload: Any, *, event_id: str | None = None) -> Mapping[str, Any]:
        """Tells what happened elsewhere to whoever waits for it. A repeat under the same id does nothing."""
        return await self._client.send(requests.external_event(event_type, payload, event_id))


class AsyncWorkflows:
    """Workflows."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def push(self, definition: Mapping[str, Any]) -> int:
        """Pushes a definition, and gives its version: a new one if it differs from the latest."""
        return await self._client.send(requests.push(definition))

    async def get(self, workflow_id: str, version: int | None = None) -> Mapping[str, Any]:
        """A definition."""
        return await self._client.send(requests.workflow(workflow_id, version))

    async def list(self) -> list[str]:
        """The ids of all workflows."""
        return await self._client.send(requests.workflows())


def _poll_seconds(end: float | None, why: str) -> int:
    """How long the next poll may wait."""
    if end is None:
        return requests.POLL_SECONDS
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError(why)
    return max(1, min(requests.POLL_SECONDS, round(left)))


def _is_outage(error: Exception, answered: bool) -> bool:
    """Whether whoever follows a run waits until the server is back."""
    return answered and (isinstance(error, UnreachableError) or (isinstance(error, ApiError) and is_passing(error)))


def _decision(action: str, feedback: str | None) -> dict[str, Any]:
    return {"action": action} if feedback is None else {"action": action, "feedback": feedback}


def _has_answers(value: Any) -> bool:
    return isinstance(value, Mapping) and set(value) == {"answers"}


def _answers(run: Run, interrupt_id: str, value: Any) -> Any:
    """One value as the answer to the only question; anything else as it is."""
    for asked in run.interrupts:
        if asked.interrupt_id == interrupt_id and isinstance(asked.data, Mapping):
            questions = asked.data.get("questions") or []
            if len(questions) == 1:
                return {"answers": {questions[0]["id"]: value}}
    return value if not isinstance(value, Mapping) else {"answers": dict(value)}
