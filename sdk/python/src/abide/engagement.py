"""Whether to ask somebody, or to act (RFC-0025). Pure: the context records what is decided here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

EngagementMode = Literal["autonomous", "request_input", "require_input", "defer"]


@dataclass(frozen=True)
class EngagementSignals:
    """What a decision rests on. Each number lies between 0 and 1."""

    confidence: float = 1.0
    risk: float = 0.0
    reversibility: float = 1.0
    context: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("confidence", "risk", "reversibility"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise ValueError(f"{name} is {value!r}; it has to lie between 0 and 1")

    def to_dict(self) -> dict[str, Any]:
        """The signals as they are recorded."""
        return {
            "confidence": self.confidence,
            "risk": self.risk,
            "reversibility": self.reversibility,
            "context": dict(self.context),
        }


@dataclass(frozen=True)
class EngagementDecision:
    """What was decided, and why.

    | mode | meaning |
    |---|---|
    | `autonomous` | act |
    | `request_input` | ask; going on without an answer is bearable |
    | `require_input` | ask, and do not go on without an answer |
    | `defer` | do not act, and do not ask either: leave it to whoever is in charge |
    """

    mode: EngagementMode
    should_ask: bool
    rationale: str
    signals: EngagementSignals

    def to_dict(self) -> dict[str, Any]:
        """The decision as it is recorded."""
        return {
            "mode": self.mode,
            "should_ask": self.should_ask,
            "rationale": self.rationale,
            "signals": self.signals.to_dict(),
        }

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> EngagementDecision:
        """Reads what `to_dict` gives."""
        return cls(given["mode"], given["should_ask"], given["rationale"], EngagementSignals(**given["signals"]))


def decide(signals: EngagementSignals) -> EngagementDecision:
    """Decides by the rules of RFC-0025, the first that fits."""
    sure, risk, undo = signals.confidence, signals.risk, signals.reversibility
    if sure >= 0.85 and risk <= 0.2 and undo >= 0.5:
        return EngagementDecision(
            "autonomous", False, f"sure enough ({sure:.2f}), at little risk ({risk:.2f}), and it can be undone", signals
        )
    if risk >= 0.8 or undo <= 0.1:
        why = f"the risk ({risk:.2f}) is too high" if risk >= 0.8 else f"it can hardly be undone ({undo:.2f})"
        return EngagementDecision("defer", False, f"{why} to act or to ask", signals)
    if sure < 0.5 or risk > 0.5:
        why = f"not sure enough ({sure:.2f})" if sure < 0.5 else f"the risk ({risk:.2f}) is high"
        return EngagementDecision("require_input", True, f"{why}: it needs an answer", signals)
    return EngagementDecision(
        "request_input", True, f"fairly sure ({sure:.2f}) at some risk ({risk:.2f}): an answer would help", signals
    )
