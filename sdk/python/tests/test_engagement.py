"""When to ask: the rules of RFC-0025, in their order."""

from __future__ import annotations

import pytest

from abide import EngagementDecision, EngagementSignals
from abide.engagement import decide


@pytest.mark.parametrize(
    ("confidence", "risk", "reversibility", "mode", "asks"),
    [
        (0.85, 0.2, 0.5, "autonomous", False),
        (0.84, 0.2, 0.5, "request_input", True),
        (0.9, 0.21, 1.0, "request_input", True),
        (0.9, 0.1, 0.49, "request_input", True),
        (0.9, 0.8, 1.0, "defer", False),
        (0.3, 0.3, 0.1, "defer", False),
        (0.49, 0.3, 1.0, "require_input", True),
        (0.9, 0.51, 1.0, "require_input", True),
        (0.5, 0.5, 0.11, "request_input", True),
        (1.0, 0.0, 1.0, "autonomous", False),
    ],
)
def test_the_first_rule_that_fits_decides(
    confidence: float, risk: float, reversibility: float, mode: str, asks: bool
) -> None:
    decision = decide(EngagementSignals(confidence, risk, reversibility))
    assert (decision.mode, decision.should_ask) == (mode, asks)
    assert decision.rationale


def test_a_decision_is_read_back_from_what_it_is_recorded_as() -> None:
    decision = decide(EngagementSignals(0.6, 0.3, 0.9, {"order": 7}))
    assert EngagementDecision.from_dict(decision.to_dict()) == decision


def test_signals_lie_between_nothing_and_one() -> None:
    with pytest.raises(ValueError, match=r"risk is 1\.2"):
        EngagementSignals(risk=1.2)
