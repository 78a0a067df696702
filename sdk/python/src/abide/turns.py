"""Turns of models: what they are and how they do, what a model says, and what is asked of them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import AbideError
from .models import Event
from .requests import Request, given, path

CHUNK = "ai.message.chunk"
"""The event that carries a stretch of what a model says."""


@dataclass(frozen=True)
class Usage:
    """What calls of a model used, in tokens."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> Usage:
        """Reads what was used."""
        names = ("inputTokens", "outputTokens", "cachedTokens", "reasoningTokens")
        return cls(*(int(raw.get(name) or 0) for name in names))


@dataclass(frozen=True)
class TurnWait:
    """A wait for a provider: `retry` for the turn's own next try, `breaker` until the provider answers again."""

    kind: str
    attempt: int
    since: str
    until: str
    delay_ms: int | None = None
    message: str | None = None
    code: str | None = None

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> TurnWait:
        """Reads a wait."""
        return cls(
            raw["kind"],
            raw["attempt"],
            raw["since"],
            raw["until"],
            raw.get("delayMs"),
            raw.get("message"),
            raw.get("code"),
        )


@dataclass(frozen=True)
class Turn:
    """A turn: one execution of a node that asks a model."""

    id: str
    node_id: str
    status: str
    provider: str
    model: str | None = None
    steps: int = 0
    retries: int = 0
    usage: Usage = Usage()
    cost_micros: int | None = None
    wait: TurnWait | None = None
    error: Mapping[str, Any] | None = None
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> Turn:
        """Reads a turn."""
        wait = raw.get("wait")
        return cls(
            id=raw["turnId"],
            node_id=raw["nodeId"],
            status=raw["status"],
            provider=raw["provider"],
            model=raw.get("model"),
            steps=raw["steps"],
            retries=raw["retries"],
            usage=Usage.read(raw["usage"]),
            cost_micros=raw.get("costMicros"),
            wait=None if wait is None else TurnWait.read(wait),
            error=raw.get("error"),
            raw=raw,
        )


@dataclass(frozen=True)
class Turns:
    """The turns of a run: the last of each node that has had one, and what all of them used."""

    run_id: str
    conversation_id: str
    turns: tuple[Turn, ...]
    usage: Usage = Usage()
    cost_micros: int | None = None
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> Turns:
        """Reads the turns of a run."""
        return cls(
            raw["runId"],
            raw["conversationId"],
            tuple(Turn.read(one) for one in raw["turns"]),
            Usage.read(raw["usage"]),
            raw.get("costMicros"),
            raw,
        )

    def waiting(self, node: str | None = None) -> str:
        """The node that is named, or the only one whose turn waits for its provider."""
        if node is not None:
            return node
        found = [turn.node_id for turn in self.turns if turn.wait is not None]
        if len(found) == 1:
            return found[0]
        if not found:
            raise AbideError(f"no turn of {self.run_id} waits for its provider")
        raise AbideError(f"several turns of {self.run_id} wait for their providers: name one of {', '.join(found)}")


@dataclass(frozen=True)
class Provider:
    """A provider of models, and how it does: its breaker is `closed`, `open` or `half_open`."""

    name: str
    breaker: str
    kind: str | None = None
    model: str | None = None
    open_until: str | None = None
    waiting_retry: int = 0
    waiting_postponed: int = 0
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> Provider:
        """Reads a provider."""
        breaker, waiting = raw["breaker"], raw["waiting"]
        return cls(
            raw["name"],
            breaker["state"],
            raw.get("kind"),
            raw.get("model"),
            breaker.get("openUntil"),
            waiting["retry"],
            waiting["postponed"],
            raw,
        )


@dataclass(frozen=True)
class Chunk:
    """A stretch of what a model says.

    `call` counts the calls of a turn. A call that broke off ends with a chunk that is the last and `broken_off`: what
    it said is not the answer of the model, and another call may begin anew.
    """

    node_id: str
    text: str
    is_last: bool
    kind: str
    step: int
    call: int
    broken_off: bool = False
    finish_reason: str | None = None
    sequence: int = 0

    @classmethod
    def read(cls, event: Event) -> Chunk:
        """Reads the event that carries it."""
        payload, meta = event.payload, event.payload["meta"]
        return cls(
            payload["nodeId"],
            payload["chunk"],
            payload["isLast"],
            meta["kind"],
            meta["step"],
            meta["call"],
            bool(meta.get("brokenOff")),
            meta.get("finishReason"),
            event.sequence,
        )


def turns(run_id: str) -> Request[Turns]:
    """The turns of a run."""
    return Request("GET", path("runs", run_id, "turns"), Turns.read)


def retry(run_id: str, node: str) -> Request[Turn]:
    """Has a turn that waits for its provider try at once."""
    return Request("POST", _turn(run_id, node, "retry"), Turn.read, {}, idempotency_key=str(uuid.uuid4()))


def give_up(run_id: str, node: str, reason: str | None) -> Request[Turn]:
    """Gives a turn up that waits for its provider."""
    body = given({"reason": reason})
    return Request("POST", _turn(run_id, node, "give-up"), Turn.read, body, idempotency_key=str(uuid.uuid4()))


def providers() -> Request[list[Provider]]:
    """The providers of the server."""
    return Request("GET", "/v1/providers", lambda told: [Provider.read(one) for one in told["providers"]])


def _turn(run_id: str, node: str, verb: str) -> str:
    return path("runs", run_id, "turns", node) + ":" + verb
