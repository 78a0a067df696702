"""What a failure is reported as."""

from __future__ import annotations

import pytest

from abide import (
    ApiError,
    CodeChangedError,
    ContextLostError,
    FinalError,
    InputTimeoutError,
    InvalidValueError,
    RetryableError,
    StepError,
)
from abide.errors import code_of, snake_code
from abide.report import report


class CardDeclined(Exception):
    pass


@pytest.mark.parametrize(
    ("name", "code"),
    [("CardDeclined", "card_declined"), ("HTTPError", "http_error"), ("X", "x"), ("_", "error"), ("ÄÖ", "error")],
)
def test_a_code_is_the_name_of_the_class_in_small_letters(name: str, code: str) -> None:
    assert snake_code(name) == code


def test_an_exception_may_bring_its_own_code() -> None:
    error = CardDeclined("no")
    assert code_of(error) == "card_declined"
    error.code = "do_not_honor"  # type: ignore[attr-defined]
    assert code_of(error) == "do_not_honor"
    error.code = "Not A Code"  # type: ignore[attr-defined]
    assert code_of(error) == "card_declined"


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        (ValueError("x"), "tool", True),
        (FinalError("x"), "tool", False),
        (RetryableError("x"), "tool", True),
        (ContextLostError("x"), "context", True),
        (InputTimeoutError("x"), "timeout", False),
        (InvalidValueError("x"), "validation", False),
        (CodeChangedError("x"), "code_changed", True),
        (TimeoutError("x"), "timeout", True),
        (ConnectionResetError("x"), "reset", True),
        (ApiError("x", "x", status=503), "tool", True),
        (ApiError("x", "x", status=400), "tool", False),
        (ExceptionGroup("one", [FinalError("x")]), "tool", False),
    ],
)
def test_the_class_says_whether_another_attempt_may_help(error: Exception, kind: str, retryable: bool) -> None:
    told = report(error, "none")
    assert (told.kind, told.retryable) == (kind, retryable)


def test_nobody_knows_what_was_under_way_when_the_context_was_lost() -> None:
    assert report(ContextLostError("the sandbox is gone"), "none").effect == "possible"
    assert report(ContextLostError("it was empty", effect="none"), "none").effect == "none"
    lost = ContextLostError("the sandbox is gone")
    step = StepError("search", code_of(lost), str(lost))
    step.__cause__ = lost
    told = report(step, "possible").op()
    assert (told["class"], told["retryable"], told["error"]["code"]) == ("context", True, "context_lost")


def test_a_step_is_reported_with_the_traceback_of_what_it_did() -> None:
    def charge() -> None:
        raise CardDeclined("card 4242 declined")

    try:
        try:
            charge()
        except CardDeclined as error:
            raise StepError("charge", code_of(error), str(error)) from error
    except StepError as error:
        told = report(error, "possible").op()
    assert told["error"]["code"] == "card_declined"
    assert told["error"]["message"] == "card 4242 declined"
    assert told["error"]["details"]["step"] == "charge"
    assert told["error"]["details"]["exception"].endswith("CardDeclined")
    assert 'raise CardDeclined("card 4242 declined")' in told["error"]["details"]["traceback"]
    assert (told["class"], told["effect"]) == ("tool", "possible")
