"""What is sent to ask somebody something. Shared by both contexts; nothing here waits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from .errors import (
    InputCancelledError,
    InputTimeoutError,
    InterruptCancelledError,
    InterruptTimeoutError,
)
from .execution import Execution, ask_fields
from .history import Asked
from .policy import FallbackPolicy, HumanRetryPolicy, millis
from .suspension import Choice, ResponseType, question_data

KINDS = frozenset(
    (
        "approval",
        "clarification",
        "external-event",
        "custom",
        "low-confidence",
        "conversation.start",
        "conversation.exchange",
        "conversation.close",
    )
)

Asks = Literal["input", "interrupt"]


@dataclass(frozen=True)
class Ladder:
    """What a call says about how its question goes on."""

    timeout_seconds: int | None = None
    fallback_policy: FallbackPolicy | None = None
    fallback_value: Any = None
    channel_hint: str | None = None
    notify_to: str | None = None
    retry_policy: HumanRetryPolicy | Mapping[str, Any] | None = None

    def to_dict(self, below: HumanRetryPolicy | None) -> dict[str, Any] | None:
        """What is given, over the policy of a class that shares its app with others; nothing, if nothing is."""
        policy = self.retry_policy
        if isinstance(policy, Mapping):
            policy = HumanRetryPolicy.from_dict(policy)
        policy = policy.over(below) if policy is not None else below
        given: dict[str, Any] = {
            "timeout_seconds": self.timeout_seconds,
            "fallback_policy": self.fallback_policy,
            "fallback_value": self.fallback_value,
            "channel_hint": self.channel_hint,
            "notify_to": self.notify_to,
            "retry_policy": None if policy is None else policy.to_dict(),
        }
        return {name: value for name, value in given.items() if value is not None} or None


@dataclass(frozen=True)
class Question:
    """A question on its way."""

    asked: Asked
    payload: Mapping[str, Any]
    ladder: Mapping[str, Any] | None
    respondents: tuple[str, ...] | None
    single: bool

    @property
    def asks(self) -> Asks:
        """By which name it was asked."""
        return "input" if self.single else "interrupt"

    def op(self) -> dict[str, Any]:
        """The op that asks it."""
        return {
            "op": "ask",
            **ask_fields(self.asked),
            "payload": dict(self.payload),
            "ladder": self.ladder,
            "respondents": None if self.respondents is None else list(self.respondents),
            "single": self.single,
        }

    def failure(self, result: Mapping[str, Any]) -> Exception:
        """Why there will be no answer."""
        error, interrupt_id = result.get("error") or {}, result.get("interruptId")
        code, message = str(error.get("code")), str(error.get("message"))
        if code == "interrupt_cancelled":
            cancelled = InputCancelledError if self.single else InterruptCancelledError
            return cancelled(message, interrupt_id=interrupt_id)
        is_input = self.single or code == "input_timeout"
        timeout = InputTimeoutError if is_input else InterruptTimeoutError
        return timeout(message, interrupt_id=interrupt_id, code=code)


def interrupt(
    asked: Asked,
    kind: str,
    data: Any,
    *,
    schema: Mapping[str, Any] | None,
    timeout: float | timedelta | None,
    ladder: Mapping[str, Any] | None,
    respondents: Iterable[str] | None,
) -> Question:
    """An interrupt of any kind; a kind that the server does not know is a custom one of that name."""
    if kind not in KINDS:
        kind, data = "custom", {"customKind": kind, "payload": data}
    payload: dict[str, Any] = {"kind": kind, "data": data if data is not None else {}}
    if schema is not None:
        payload["resumeSchema"] = dict(schema)
    if timeout is not None:
        payload["timeoutMs"] = millis(timeout)
    return Question(asked, payload, ladder, None if respondents is None else tuple(respondents), False)


def approval(
    execution: Execution,
    asked: Asked,
    title: str,
    *,
    description: str | None,
    data: Any,
    approvers: Iterable[str] | None,
    artifact_type: str,
    timeout: float | timedelta | None,
    ladder: Mapping[str, Any] | None,
    actions: Iterable[str] | None = None,
    required_approvals: int | None = None,
    rejection_policy: str | None = None,
) -> Question:
    """A decision about something."""
    task = execution.task
    told: dict[str, Any] = {
        "title": title,
        "artifactId": f"{task.run_id}:{task.node_id}:{asked.key or asked.call}",
        "artifactType": artifact_type,
        "actions": ["accept", "reject"] if actions is None else list(actions),
    }
    if required_approvals is not None:
        told["requiredApprovals"] = required_approvals
    if rejection_policy is not None:
        told["rejectionPolicy"] = rejection_policy
    if data is not None:
        told["artifactData"] = data
    if description is not None:
        told["description"] = description
    people = None if approvers is None else list(approvers)
    if people is not None and not any(name.startswith(("group:", "role:")) for name in people):
        told["approversList"], people = people, None
    return interrupt(asked, "approval", told, schema=None, timeout=timeout, ladder=ladder, respondents=people)


@dataclass(frozen=True)
class Judgement:
    """A decision on its way."""

    asked: Asked
    decision: Any
    confidence: float | str | None
    agent_id: str | None
    respondents: tuple[str, ...] | None

    def op(self) -> dict[str, Any]:
        """The op that tells of it."""
        told: dict[str, Any] = {"op": "decide", **ask_fields(self.asked), "decision": self.decision}
        given = {"confidence": self.confidence, "agentId": self.agent_id}
        told.update({name: value for name, value in given.items() if value is not None})
        if self.respondents is not None:
            told["respondents"] = list(self.respondents)
        return told

    def failure(self, result: Mapping[str, Any]) -> Exception:
        """Why nobody will ratify it."""
        return Question(self.asked, {}, None, None, False).failure(result)


def judgement(
    asked: Asked,
    decision: Any,
    confidence: float | None,
    agent_id: str | None,
    respondents: Iterable[str] | None,
) -> Judgement:
    """A decision, and how sure its agent is. JSON has no word for what is no number, so that is told as text."""
    told: float | str | None = confidence
    if confidence is not None and not math.isfinite(confidence):
        told = "NaN" if math.isnan(confidence) else "Infinity" if confidence > 0 else "-Infinity"
    return Judgement(asked, decision, told, agent_id, None if respondents is None else tuple(respondents))


def request(
    asked: Asked,
    question: str,
    response_type: ResponseType,
    choices: Iterable[Choice | Mapping[str, Any] | str] | None,
    context: Mapping[str, Any] | None,
    ladder: Mapping[str, Any] | None,
    respondents: Iterable[str] | None,
) -> Question:
    """A question of RFC-0025: its answer is the value alone."""
    payload = {"kind": "clarification", "data": question_data(question, response_type, choices, context)}
    return Question(asked, payload, ladder, None if respondents is None else tuple(respondents), True)
