"""Policies: what is given is sent, and nothing else."""

from __future__ import annotations

from datetime import timedelta

import pytest

from abide import EscalationStep, HumanRetryPolicy, RetryPolicy


def test_the_example_of_rfc_0026_section_8_is_taken_as_written() -> None:
    policy = HumanRetryPolicy(
        max_attempts=3,
        interval_seconds=3600,
        escalation_ladder=[
            {"attempt": 2, "channel_hint": "email"},
            {"attempt": 3, "channel_hint": "pagerduty", "notify_to": "supervisor@example.com"},
        ],
        final_fallback_policy="fail",
    )
    assert policy.to_dict() == {
        "max_attempts": 3,
        "interval_seconds": 3600,
        "escalation_ladder": [
            {"attempt": 2, "channel_hint": "email", "notify_to": None},
            {"attempt": 3, "channel_hint": "pagerduty", "notify_to": "supervisor@example.com"},
        ],
        "final_fallback_policy": "fail",
    }


def test_what_is_not_given_is_not_sent_and_what_is_given_is_even_if_it_is_a_default() -> None:
    assert HumanRetryPolicy().to_dict() == {}
    assert HumanRetryPolicy(max_attempts=1, strategy="fixed").to_dict() == {"max_attempts": 1, "strategy": "fixed"}
    assert HumanRetryPolicy(escalation_ladder=[]).to_dict() == {"escalation_ladder": []}


def test_a_policy_over_another_takes_what_it_does_not_say_field_by_field() -> None:
    agent = HumanRetryPolicy(max_attempts=2, interval_seconds=1800, final_fallback_policy="complete_with_fallback")
    call = HumanRetryPolicy(max_attempts=1)
    assert call.over(agent) == HumanRetryPolicy(1, 1800, final_fallback_policy="complete_with_fallback")
    assert call.over(None) is call


def test_steps_of_a_ladder_may_be_dictionaries_or_not() -> None:
    step = EscalationStep(2, "email")
    assert HumanRetryPolicy(escalation_ladder=[step, {"attempt": 3, "channel_hint": "sms", "notify_to": ""}]).to_dict()[
        "escalation_ladder"
    ] == [
        {"attempt": 2, "channel_hint": "email", "notify_to": None},
        {"attempt": 3, "channel_hint": "sms", "notify_to": None},
    ]


@pytest.mark.parametrize("wrong", [{"attempt": 2}, {"attempt": 2, "channel_hint": "email", "after": 3}])
def test_a_step_that_is_none_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(TypeError, match="escalation step"):
        HumanRetryPolicy(escalation_ladder=[wrong])


def test_a_policy_is_read_back_from_what_it_is_sent_as() -> None:
    policy = HumanRetryPolicy(3, 60, escalation_ladder=[EscalationStep(2, "email", "ada")])
    assert HumanRetryPolicy.from_dict(policy.to_dict()) == policy


def test_retries_of_a_node_are_told_in_milliseconds() -> None:
    policy = RetryPolicy(max_retries=2, strategy="fixed", base_delay=timedelta(minutes=1), jitter=False)
    assert policy.to_dict() == {"strategy": "fixed", "maxRetries": 2, "baseDelayMs": 60_000, "jitter": False}
