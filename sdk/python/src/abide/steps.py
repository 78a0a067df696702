"""How a step is done: tried, tried again, and what is told of it when it fails. Shared by both contexts."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from .errors import (
    ContextLostError,
    FinalError,
    InvalidValueError,
    RetryableError,
    StepError,
    WrongCallError,
    code_of,
)
from .execution import Execution
from .history import Branch
from .report import MESSAGE_CHARS_MAX, kept_details, printable
from .values import decode, encode_bounded, result_type

CANCELLED = "step_cancelled"
"""The code of a step that the function itself gave up waiting for, with a timeout for one."""

RETRY_SECONDS_MAX = 30.0

FINAL = (FinalError, InvalidValueError)
"""What no other attempt can help against."""

HOPELESS = (*FINAL, ContextLostError)
"""What no other try in the same place can help against."""


def check_function(name: str, function: Any) -> None:
    """Objects to what was called already where a function is to be given."""
    if callable(function):
        return
    if isinstance(function, Coroutine):
        function.close()
    called = getattr(function, "__name__", "f") if isinstance(function, Coroutine) else "f"
    raise WrongCallError(
        f"step '{name}' is given {type(function).__name__!r}, which is no function; "
        f"give the function and its arguments: ctx.step({name!r}, {called}, 2) and not ctx.step({name!r}, {called}(2))"
    )


@dataclass(eq=False)
class Step:
    """A step that is being done."""

    execution: Execution
    branch: Branch
    key: str
    function: Callable[..., Any]
    idempotent: bool
    retries: int
    retry_delay: float
    tried: int = 0

    def replay(self, recorded: Mapping[str, Any]) -> Any:
        """What a recorded step gave, or how it failed."""
        error = recorded.get("error")
        if error is None:
            return decode(result_type(self.function), recorded.get("value"))
        self.execution.failed_before(self.idempotent)
        if error.get("code") == CANCELLED:
            # The function saw its own timeout then, so it sees one now.
            raise TimeoutError(f"{self.execution.where(self.key)}: it was given up when the function ran before")
        details = error.get("details") or {}
        final = bool(details.get("final"))
        raise StepError(self.key, error["code"], error["message"], details=details, retryable=not final)

    def encoded(self, value: Any) -> bytes:
        """What it gave, as it is recorded."""
        return encode_bounded(value, f"what step '{self.key}' returned")

    def result(self, encoded: bytes, answer: Mapping[str, Any]) -> Any:
        """What the function gets: what is recorded."""
        if answer.get("repeated"):
            return self.replay(answer)
        return decode(result_type(self.function), json.loads(encoded))

    def pause(self, error: Exception) -> float | None:
        """How long to wait before it is tried again; nothing, if it is not."""
        self.tried += 1
        if self.tried > self.retries or isinstance(error, HOPELESS) or not self._is_harmless(error):
            return None
        wait: float | None = getattr(error, "retry_after", None)
        growing = self.retry_delay * 2 ** min(self.tried - 1, 16)
        return min(RETRY_SECONDS_MAX, growing if wait is None else wait)

    def failed(self, error: Exception) -> StepError:
        """What the function gets when it failed."""
        step_error = StepError(
            self.key,
            code_of(error),
            printable(str(error)[:MESSAGE_CHARS_MAX]) or type(error).__name__,
            details=_details(error),
            retryable=not isinstance(error, FINAL),
            retry_after=getattr(error, "retry_after", None),
        )
        step_error.add_note(f"in {self.execution.where(self.key)}")
        self.execution.fail_step(self.key, step_error, self._is_harmless(error))
        return step_error

    def given_up(self) -> None:
        """The function does not wait for it any more."""
        error = StepError(self.key, CANCELLED, "the function did not wait for it")
        self.execution.fail_step(self.key, error, self.idempotent)

    def _is_harmless(self, error: Exception) -> bool:
        return self.idempotent or (isinstance(error, RetryableError) and error.effect == "none")


def _details(error: Exception) -> dict[str, Any]:
    own = getattr(error, "details", None)
    told: dict[str, Any] = {"exception": type(error).__qualname__}
    if isinstance(own, Mapping):
        told.update(kept_details(own))
    if isinstance(error, FINAL):
        told["final"] = True
    return told
