"""What is asked of people, as agents and their hooks see it (RFC-0025)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

ResponseType = Literal["choice", "confirm", "text", "form"]


@dataclass(frozen=True)
class Choice:
    """One of the answers that may be chosen."""

    value: str
    label: str | None = None
    description: str | None = None
    style: Literal["primary", "danger", "default"] | None = None
    metadata: Mapping[str, Any] | None = None

    @classmethod
    def read(cls, given: Choice | Mapping[str, Any] | str) -> Choice:
        """Takes a choice, a dictionary of one, or its value alone."""
        if isinstance(given, Choice):
            return given
        if isinstance(given, str):
            return cls(given)
        if isinstance(given, Mapping):
            return cls(**given)
        raise TypeError(f"{given!r} is no choice; give a Choice, a dictionary with a value, or a text")

    def to_dict(self) -> dict[str, Any]:
        """The choice as it is sent."""
        given: dict[str, Any] = {
            "value": self.value,
            "label": self.label or self.value,
            "description": self.description,
            "style": self.style,
            "metadata": None if self.metadata is None else dict(self.metadata),
        }
        return {name: value for name, value in given.items() if value is not None}


def question_data(
    question: str,
    response_type: ResponseType,
    choices: Iterable[Choice | Mapping[str, Any] | str] | None,
    context: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """A question as the data of an interrupt: one question, whose id is `answer`."""
    asked: dict[str, Any] = {"id": "answer", "question": question, "responseType": response_type}
    if choices is not None:
        asked["choices"] = [Choice.read(choice).to_dict() for choice in choices]
    if response_type == "choice" and not asked.get("choices"):
        raise ValueError("response_type 'choice' needs choices; add some, or ask for 'text'")
    data: dict[str, Any] = {"questions": [asked]}
    if context:
        data["context"] = dict(context)
    return data


@dataclass(frozen=True)
class Intent:
    """Whose question a hook is about: a run, and the node in it."""

    id: str
    node_id: str
    agent: str

    @property
    def run_id(self) -> str:
        """The run."""
        return self.id


@dataclass(frozen=True)
class Suspension:
    """A question, as a hook is told of it.

    At each attempt `context["_attempt"]` counts from 1, `context["_max_attempts"]` says how many there will be, and
    `channel_hint` is that attempt's.
    """

    id: str
    question: str
    response_type: str = "form"
    choices: tuple[Choice, ...] = ()
    context: Mapping[str, Any] = field(default_factory=dict)
    channel_hint: str | None = None
    kind: str | None = None
    data: Any = None
    response: Any = None
    responded_by: str | None = None
    resolution: str | None = None
    fallback_policy: str | None = None
    asked: Mapping[str, Any] | None = None
    """What those who decide want to know, with `id`, `question` and `askedBy`: of `on_question` alone."""

    @property
    def attempt(self) -> int:
        """Which attempt this is, counted from 1."""
        return int(self.context.get("_attempt", 1))

    @property
    def max_attempts(self) -> int:
        """How many there will be."""
        return int(self.context.get("_max_attempts", 1))

    @property
    def notify_to(self) -> str | None:
        """Who is to be told at this attempt, if that is said."""
        return self.context.get("_notify_to")

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Suspension:
        """Reads a suspension as the server tells it."""
        known = {name: given[name] for name in cls.__dataclass_fields__ if given.get(name) is not None}
        known["choices"] = tuple(_told(choice) for choice in given.get("choices") or ())
        known["context"] = given.get("context") or {}
        return cls(**known)


def _told(choice: Mapping[str, Any]) -> Choice:
    """A choice as the server tells it. Those of an approval or an enumeration may be any value."""
    label = choice.get("label")
    return Choice(
        value=str(choice["value"]),
        label=None if label is None else str(label),
        description=choice.get("description"),
        style=choice.get("style"),
        metadata=choice.get("metadata"),
    )


@dataclass(frozen=True)
class Approval:
    """What somebody decided."""

    action: str
    by: str | None = None
    feedback: str | None = None
    reason: str | None = None
    decided_at: str | None = None
    value: Mapping[str, Any] = field(default_factory=dict)

    @property
    def refine_feedback(self) -> Mapping[str, Any] | None:
        """What to make better, if that is what was decided."""
        return self.value.get("refineFeedback")

    @property
    def edited(self) -> Any:
        """What was accepted in place of what was shown, if it was changed."""
        return self.value.get("editedArtifactData")

    @property
    def accepted(self) -> bool:
        """Whether it was accepted."""
        return self.action in ("accept", "edit-accept")

    def __bool__(self) -> bool:
        return self.accepted

    @classmethod
    def of(cls, value: Any, by: str | None) -> Approval:
        """Reads a decision as a node receives it."""
        told: Mapping[str, Any] = value if isinstance(value, Mapping) else {"action": str(value)}
        return cls(
            action=str(told.get("action", "")),
            by=told.get("decidedBy") or by,
            feedback=told.get("feedback"),
            reason=told.get("reason"),
            decided_at=told.get("decidedAt"),
            value=told,
        )
