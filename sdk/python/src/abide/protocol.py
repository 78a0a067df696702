"""The worker protocol, version 1: messages to a worker, and the worker's ops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PROTOCOL = 1
OPS_MAX = 256
"""How many ops one request may carry."""
REQUEST_BYTES_MAX = 8 * 1024 * 1024 - 64 * 1024
"""How large a request may be; a little is left for what stands around the ops."""
MESSAGES_MAX = 256
"""How many messages a poll asks for at the most."""

Op = dict[str, Any]
Result = Mapping[str, Any]


@dataclass(frozen=True)
class RunFacts:
    """What is known of the run that a task belongs to."""

    workflow_id: str
    inputs: Mapping[str, Any]
    tags: tuple[str, ...]
    metadata: Mapping[str, Any]


@dataclass(frozen=True)
class Task:
    """A task, as it is handed out."""

    task: str
    fence: int
    run_id: str
    node_id: str
    kind: str
    execution: int
    attempt: int
    inputs: Mapping[str, Any]
    config: Mapping[str, Any]
    run: RunFacts
    timeout_ms: int | None
    history: tuple[Mapping[str, Any], ...]
    more_history: str | None

    @property
    def where(self) -> str:
        """Which task it is, for people."""
        return f"run {self.run_id}, node {self.node_id}"

    @property
    def owner(self) -> str:
        """What the keys of its questions begin with that no other task of the run may have."""
        return f"{self.node_id}:{self.execution}"

    @classmethod
    def read(cls, message: Mapping[str, Any]) -> Task:
        """Reads a `task` message."""
        run, history = message.get("run") or {}, message.get("history") or {}
        return cls(
            task=message["task"],
            fence=message["fence"],
            run_id=message["runId"],
            node_id=message["nodeId"],
            kind=message["kind"],
            execution=message.get("execution", 1),
            attempt=message.get("attempt", 1),
            inputs=message.get("inputs") or {},
            config=message.get("config") or {},
            run=RunFacts(
                workflow_id=run.get("workflowId", ""),
                inputs=run.get("inputs") or {},
                tags=tuple(run.get("tags") or ()),
                metadata=run.get("metadata") or {},
            ),
            timeout_ms=message.get("timeoutMs"),
            history=tuple(history.get("items") or ()),
            more_history=history.get("next"),
        )


@dataclass(frozen=True)
class Hook:
    """A hook that is to be called."""

    id: str
    hook: str
    run_id: str
    node_id: str
    agent: str
    suspension: Mapping[str, Any]

    @classmethod
    def read(cls, message: Mapping[str, Any]) -> Hook:
        """Reads a `hook` message."""
        return cls(
            id=message["id"],
            hook=message["hook"],
            run_id=message["runId"],
            node_id=message["nodeId"],
            agent=message.get("agent") or "",
            suspension=message.get("suspension") or {},
        )


@dataclass(frozen=True)
class Registration:
    """Who a worker is, and what it does."""

    session: str
    agent: str
    kinds: tuple[Mapping[str, Any], ...]
    capacity: int
    sdk: str
    labels: Mapping[str, str] = field(default_factory=dict)
    human_retry_policy: Mapping[str, Any] | None = None
    hooks: tuple[str, ...] = ()
    code_version: str | None = None

    def body(self, holding: list[tuple[str, int]]) -> dict[str, Any]:
        """The request, with the tasks that the worker believes to hold."""
        body: dict[str, Any] = {
            "protocol": PROTOCOL,
            "session": self.session,
            "agent": self.agent,
            "kinds": [dict(kind) for kind in self.kinds],
            "capacity": self.capacity,
            "labels": dict(self.labels),
            "hooks": list(self.hooks),
            "sdk": self.sdk,
            "holding": [{"task": task, "fence": fence} for task, fence in holding],
        }
        if self.human_retry_policy is not None:
            body["humanRetryPolicy"] = dict(self.human_retry_policy)
        if self.code_version is not None:
            body["codeVersion"] = self.code_version
        return body


@dataclass(frozen=True)
class Registered:
    """What the server says to a registration."""

    lease_ms: int
    heartbeat_ms: int
    lost: tuple[str, ...]

    @classmethod
    def read(cls, answer: Mapping[str, Any]) -> Registered:
        """Reads the answer."""
        return cls(answer["leaseMs"], answer["heartbeatMs"], tuple(answer.get("lost") or ()))
