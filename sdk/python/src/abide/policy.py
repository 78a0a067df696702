"""How a question goes on that nobody answers (RFC-0026), and how failed attempts of a node are made again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

FallbackPolicy = Literal["fail", "complete_with_fallback", "use_default_and_continue"]


@dataclass(frozen=True)
class EscalationStep:
    """Who is told at one attempt, and how, in place of the usual."""

    attempt: int
    channel_hint: str
    notify_to: str | None = None

    @classmethod
    def read(cls, given: EscalationStep | Mapping[str, Any]) -> EscalationStep:
        """Takes a step, or a plain dictionary of one."""
        if isinstance(given, EscalationStep):
            return given
        unknown = set(given) - {"attempt", "channel_hint", "notify_to"}
        if unknown:
            raise TypeError(f"an escalation step has attempt, channel_hint and notify_to, not {sorted(unknown)}")
        missing = {"attempt", "channel_hint"} - set(given)
        if missing:
            raise TypeError(f"an escalation step needs {' and '.join(sorted(missing))}")
        # The reference SDK writes nobody as an empty text.
        return cls(int(given["attempt"]), str(given["channel_hint"]), given.get("notify_to") or None)

    def to_dict(self) -> dict[str, Any]:
        """The step as it is sent."""
        return {"attempt": self.attempt, "channel_hint": self.channel_hint, "notify_to": self.notify_to}


@dataclass(frozen=True, init=False)
class HumanRetryPolicy:
    """How often people are told, who else, and what happens in the end.

    What is left out is not given: it comes from the agent's policy, and what that leaves out from the server's. A value
    that is given counts as given even if it is the default.
    """

    max_attempts: int | None
    interval_seconds: int | None
    strategy: str | None
    escalation_ladder: tuple[EscalationStep, ...] | None
    final_fallback_policy: FallbackPolicy | None

    def __init__(
        self,
        max_attempts: int | None = None,
        interval_seconds: int | None = None,
        strategy: str | None = None,
        escalation_ladder: Iterable[EscalationStep | Mapping[str, Any]] | None = None,
        final_fallback_policy: FallbackPolicy | None = None,
    ) -> None:
        ladder = None if escalation_ladder is None else tuple(EscalationStep.read(step) for step in escalation_ladder)
        for name, value in (
            ("max_attempts", max_attempts),
            ("interval_seconds", interval_seconds),
            ("strategy", strategy),
            ("escalation_ladder", ladder),
            ("final_fallback_policy", final_fallback_policy),
        ):
            object.__setattr__(self, name, value)

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> HumanRetryPolicy:
        """Reads what `to_dict` gives."""
        return cls(**given)

    def to_dict(self) -> dict[str, Any]:
        """What was given, and nothing else."""
        given: dict[str, Any] = {
            "max_attempts": self.max_attempts,
            "interval_seconds": self.interval_seconds,
            "strategy": self.strategy,
            "final_fallback_policy": self.final_fallback_policy,
        }
        if self.escalation_ladder is not None:
            given["escalation_ladder"] = [step.to_dict() for step in self.escalation_ladder]
        return {name: value for name, value in given.items() if value is not None}

    def over(self, below: HumanRetryPolicy | None) -> HumanRetryPolicy:
        """This policy, with what it does not say taken from another."""
        if below is None:
            return self
        return HumanRetryPolicy.from_dict({**below.to_dict(), **self.to_dict()})


@dataclass(frozen=True)
class RetryPolicy:
    """How failed attempts of a node are made again. What is left out is the server's default."""

    max_retries: int = 3
    strategy: Literal["none", "fixed", "linear", "exponential"] = "exponential"
    base_delay: float | timedelta | None = None
    max_delay: float | timedelta | None = None
    jitter: bool | None = None
    fallback_agent: str | None = None
    """The agent that takes over when there are no retries left, with as many of its own."""

    def to_dict(self) -> dict[str, Any]:
        """The policy as it stands in the settings of a node."""
        given: dict[str, Any] = {
            "strategy": self.strategy,
            "maxRetries": self.max_retries,
            "baseDelayMs": None if self.base_delay is None else millis(self.base_delay),
            "maxDelayMs": None if self.max_delay is None else millis(self.max_delay),
            "jitter": self.jitter,
            "fallbackAgent": self.fallback_agent,
        }
        return {name: value for name, value in given.items() if value is not None}


def millis(duration: float | timedelta) -> int:
    """A duration in whole milliseconds; numbers are seconds."""
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else float(duration)
    if not 0 <= seconds < 1e12:
        raise ValueError(f"{duration!r} is not a duration; give seconds or a timedelta that is not negative")
    return round(seconds * 1000)
