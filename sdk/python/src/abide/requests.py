"""The requests of the client, as values: built here once, sent by the sync and the async client alike."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from .models import Diff, Event, Fork, InboxItem, Run, RunSummary

T = TypeVar("T")

PAGE = 500
"""How many entries of a list one answer has at the most."""

RUNS = 50
"""How many runs are listed if nobody says how many."""

POLL_SECONDS = 25
"""How long one poll for events waits."""


@dataclass(frozen=True)
class Request(Generic[T]):
    """A request, and how its answer is read."""

    method: str
    path: str
    read: Callable[[Any], T]
    body: Any = None
    query: Mapping[str, Any] | None = None
    idempotency_key: str | None = None
    seconds: float = 30.0

    @property
    def may_repeat(self) -> bool:
        """Whether sending it twice is as good as once."""
        return self.method != "POST" or self.idempotency_key is not None


def path(*parts: str) -> str:
    """A path of the API."""
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Those that are said."""
    return {name: value for name, value in fields.items() if value is not None}


def start(
    workflow: str,
    inputs: Mapping[str, Any] | None,
    tags: Iterable[str] | None,
    metadata: Mapping[str, Any] | None,
    configurable: Mapping[str, Any] | None,
    callback_url: str | None,
    idempotency_key: str | None,
) -> Request[Run]:
    """Starts a run."""
    body = given(
        {
            "workflowId": workflow,
            "inputs": dict(inputs or {}),
            "tags": None if tags is None else list(tags),
            "metadata": metadata,
            "configurable": configurable,
            "callbackUrl": callback_url,
        }
    )
    started = Run.read
    return Request("POST", "/v1/runs", started, body, idempotency_key=idempotency_key or str(uuid.uuid4()))


def get(run_id: str) -> Request[Run]:
    """A run as it stands."""
    return Request("GET", path("runs", run_id), Run.read)


@dataclass(frozen=True)
class Page(Generic[T]):
    """A part of a list, and where it goes on."""

    items: list[T]
    next: str | None


def page_size(limit: int | None, have: int) -> int:
    """How many the next page should have."""
    return PAGE if limit is None else min(PAGE, limit - have)


def runs(status: str | None, workflow: str | None, limit: int, cursor: str | None) -> Request[Page[RunSummary]]:
    """The latest runs."""
    query = given({"status": status, "workflowId": workflow, "limit": limit, "cursor": cursor})

    def read(told: Any) -> Page[RunSummary]:
        return Page([RunSummary.read(one) for one in told["runs"]], told.get("nextCursor"))

    return Request("GET", "/v1/runs", read, query=query)


def cancel(run_id: str, reason: str | None) -> Request[str]:
    """Cancels a run, and gives its status."""
    body = given({"reason": reason})
    key = str(uuid.uuid4())
    return Request("POST", path("runs", run_id, "cancel"), lambda told: str(told["status"]), body, idempotency_key=key)


def hold(run_id: str, stop: bool, reason: str | None) -> Request[Mapping[str, Any]]:
    """Holds a run, and gives how: `mode`, `since`, `by` and `reason`."""
    body = {"mode": "stop" if stop else "pause", **given({"reason": reason})}
    key = str(uuid.uuid4())
    return Request("POST", path("runs", run_id) + ":hold", lambda told: dict(told["hold"]), body, idempotency_key=key)


def release(run_id: str, reason: str | None) -> Request[str]:
    """Lets a held run go on, and gives its status."""
    body = given({"reason": reason})
    key = str(uuid.uuid4())
    where = path("runs", run_id) + ":release"
    return Request("POST", where, lambda told: str(told["status"]), body, idempotency_key=key)


def fork(
    run_id: str,
    mode: str,
    from_seq: int | None,
    overlay: Mapping[str, Any] | None,
    idempotency_key: str | None,
) -> Request[Fork]:
    """Makes a run that begins with the events of another."""
    body = given({"mode": mode, "fromSeq": from_seq, "runOptionsOverlay": overlay})
    key = idempotency_key or str(uuid.uuid4())
    return Request("POST", path("runs", run_id) + ":fork", Fork.read, body, idempotency_key=key)


def diff(run_id: str, against: str) -> Request[Diff]:
    """How the events of two runs differ."""
    query = {"against": against, "limit": PAGE}
    return Request("GET", path("runs", run_id) + ":diff", Diff.read, query=query)


def poll(run_id: str, after: int | None, seconds: int = POLL_SECONDS) -> Request[tuple[list[Event], bool]]:
    """Events after one, and whether there are no more to come."""
    query = given({"lastSequence": after, "timeout": seconds})

    def read(told: Any) -> tuple[list[Event], bool]:
        return [Event.read(one) for one in told["events"]], bool(told["isComplete"])

    return Request("GET", path("runs", run_id, "events") + "/poll", read, query=query, seconds=seconds + 30)


def journal(run_id: str) -> Request[list[Event]]:
    """The journal of a run, in Abide's own words."""
    return Request("GET", path("runs", run_id, "journal"), lambda told: [Event.read(one) for one in told["events"]])


def inbox(
    run: str | None, workflow: str | None, kind: str | None, approver: str | None, limit: int, cursor: str | None
) -> Request[Page[InboxItem]]:
    """What waits for an answer, oldest first."""
    wanted = {"run": run, "workflowId": workflow, "kind": kind, "approver": approver}
    query = given({**wanted, "limit": limit, "cursor": cursor})

    def read(told: Any) -> Page[InboxItem]:
        return Page([InboxItem.read(one) for one in told["interrupts"]], told.get("nextCursor"))

    return Request("GET", "/v1/interrupts", read, query=query)


def resolve(run_id: str, node_id: str, interrupt_id: str | None, value: Any, key: str | None) -> Request[str]:
    """Answers, and gives the status of the run."""
    return Request(
        "POST",
        path("runs", run_id, "interrupts", node_id),
        lambda told: str(told["status"]),
        {"resumeValue": value},
        query=given({"interruptId": interrupt_id}),
        idempotency_key=key or str(uuid.uuid4()),
    )


def resolve_many(
    named: Sequence[tuple[str, str]], value: Any, dry_run: bool, key: str | None
) -> Request[list[Mapping[str, Any]]]:
    """Answers many alike, or lists what that would do; gives what becomes of each, in their order."""
    interrupts = [{"runId": run, "interruptId": interrupt} for run, interrupt in named]
    return Request(
        "POST",
        "/v1/interrupts:bulk-resolve",
        lambda told: [dict(one) for one in told["results"]],
        {"resumeValue": value, "interrupts": interrupts, "dryRun": dry_run},
        idempotency_key=key or str(uuid.uuid4()),
    )


def reply(run_id: str, node_id: str, ask_id: str, answer: Any) -> Request[str]:
    """Answers what somebody asked before deciding, and gives the status of the run."""
    return Request(
        "POST",
        path("runs", run_id, "interrupts", node_id, "asks", ask_id),
        lambda told: str(told["status"]),
        {"answer": answer},
        idempotency_key=str(uuid.uuid4()),
    )


def external_event(event_type: str, payload: Any, event_id: str | None) -> Request[Mapping[str, Any]]:
    """Tells what happened elsewhere."""
    told_by = event_id or str(uuid.uuid4())
    body = {"eventId": told_by, "eventType": event_type, "eventPayload": payload}
    # Events are known by their ids, so a repeat is no second one.
    return Request("POST", "/v1/external-events", lambda told: dict(told), body, idempotency_key=told_by)


def push(definition: Mapping[str, Any]) -> Request[int]:
    """Pushes a workflow, and gives its version."""
    return Request("PUT", path("workflows", str(definition["id"])), lambda told: int(told["version"]), definition)


def workflow(workflow_id: str, version: int | None) -> Request[Mapping[str, Any]]:
    """A workflow's definition."""
    return Request("GET", path("workflows", workflow_id), lambda told: dict(told), query=given({"version": version}))


def workflows() -> Request[list[str]]:
    """The ids of all workflows."""
    return Request("GET", "/v1/workflows", lambda told: [str(one["workflowId"]) for one in told["workflows"]])
