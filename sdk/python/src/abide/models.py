"""What the API tells, as dataclasses. Each keeps what it was read from in `raw`, so that nothing is out of reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import RunFailedError

ENDED = frozenset(("completed", "failed", "cancelled"))


@dataclass(frozen=True)
class NodeState:
    """A node of a run, as it stands."""

    id: str
    kind: str
    status: str
    outputs: Any = None
    error: Mapping[str, Any] | None = None
    attempt: int | None = None
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def read(cls, node_id: str, raw: Mapping[str, Any]) -> NodeState:
        """Reads a node of a snapshot."""
        return cls(
            node_id,
            raw.get("typeId", ""),
            raw["status"],
            raw.get("outputs"),
            raw.get("error"),
            raw.get("attempt"),
            raw,
        )


@dataclass(frozen=True)
class OpenInterrupt:
    """What a run waits for."""

    interrupt_id: str
    node_id: str
    kind: str
    key: str
    data: Any
    deadline: str | None = None
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> OpenInterrupt:
        """Reads an interrupt of a snapshot."""
        return cls(
            raw["interruptId"], raw["nodeId"], raw["kind"], raw["key"], raw.get("data"), raw.get("deadline"), raw
        )


@dataclass(frozen=True)
class Run:
    """A run, as it stands."""

    id: str
    status: str
    workflow_id: str = ""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, Any] = field(default_factory=dict)
    nodes: Mapping[str, NodeState] = field(default_factory=dict)
    interrupts: tuple[OpenInterrupt, ...] = ()
    error: Mapping[str, Any] | None = None
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def ended(self) -> bool:
        """Whether nothing more happens in it."""
        return self.status in ENDED

    @property
    def error_code(self) -> str | None:
        """Why it failed, if it did."""
        return None if self.error is None else str(self.error.get("code"))

    @property
    def result(self) -> Any:
        """What its agent returned, or its variables if it has no `result`. Raises if it did not complete."""
        if self.status != "completed":
            error = self.error or {}
            message = str(error.get("message") or ("it was " + self.status if self.ended else "it has not ended"))
            code = str(error.get("code") or self.status)
            raise RunFailedError(self.id, self.status, code, message, error.get("details"))
        return self.variables["result"] if "result" in self.variables else dict(self.variables)

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> Run:
        """Reads a snapshot."""
        return cls(
            id=raw["runId"],
            status=raw["status"],
            workflow_id=raw.get("workflowId", ""),
            inputs=raw.get("inputs") or {},
            variables=raw.get("variables") or {},
            nodes={name: NodeState.read(name, state) for name, state in (raw.get("nodeStates") or {}).items()},
            interrupts=tuple(OpenInterrupt.read(one) for one in raw.get("interrupts") or ()),
            error=raw.get("error"),
            raw=raw,
        )


@dataclass(frozen=True)
class RunSummary:
    """A run in a list."""

    id: str
    status: str
    workflow_id: str
    started_at: str
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def ended(self) -> bool:
        """Whether nothing more happens in it."""
        return self.status in ENDED

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> RunSummary:
        """Reads an entry of a list."""
        return cls(raw["runId"], raw["status"], raw["workflowId"], raw["startedAt"], raw)


@dataclass(frozen=True)
class Fork:
    """A run that begins with the events of another."""

    id: str
    source: str
    from_seq: int
    mode: str
    status: str
    diverged: int
    """How many differences a replay found."""
    executed: int
    """How many executions of nodes a replay worked out again."""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> Fork:
        """Reads the answer to a fork."""
        replay = raw.get("replay") or {}
        counts = (replay.get("diverged", 0), replay.get("executedLive", 0))
        return cls(raw["runId"], raw["sourceRunId"], raw["fromSeq"], raw["mode"], raw["status"], *counts, raw)


@dataclass(frozen=True)
class Diff:
    """How the events of two runs differ."""

    equal: bool
    same: int
    different: int
    differences: list[Mapping[str, Any]]
    """The first of them: `kind`, where in each run, and where in what the events say."""

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> Diff:
        """Reads a comparison."""
        return cls(raw["equal"], raw["same"], raw["different"], list(raw["differences"]))


@dataclass(frozen=True)
class InboxItem:
    """Something that waits for an answer."""

    interrupt_id: str
    run_id: str
    node_id: str
    workflow_id: str
    kind: str
    title: str
    deadline: str | None = None
    link: str | None = None
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> InboxItem:
        """Reads an entry of the inbox."""
        return cls(
            raw["interruptId"],
            raw["runId"],
            raw["nodeId"],
            raw["workflowId"],
            raw["kind"],
            raw["title"],
            raw.get("deadline"),
            raw.get("link"),
            raw,
        )


@dataclass(frozen=True)
class Event:
    """Something that happened in a run."""

    sequence: int
    type: str
    run_id: str
    node_id: str | None
    payload: Any
    timestamp: str
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> Event:
        """Reads an event."""
        return cls(
            raw["sequence"],
            raw["type"],
            raw["runId"],
            raw.get("nodeId"),
            raw.get("payload"),
            raw["timestamp"],
            raw,
        )
