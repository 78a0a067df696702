"""What can go wrong, as exceptions.

Those that user code may catch derive from `AbideError`. What unwinds a function on purpose (it is parked, or lost)
derives from `BaseException`, so that `except Exception` does not swallow it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

__all__ = [
    "AbideError",
    "ApiError",
    "ChildCancelledError",
    "ChildFailedError",
    "CodeChangedError",
    "ContextLostError",
    "ExitError",
    "FinalError",
    "InputCancelledError",
    "InputTimeoutError",
    "InterruptCancelledError",
    "InterruptTimeoutError",
    "InvalidValueError",
    "MissingInputError",
    "NotAwaitedError",
    "RetryableError",
    "RunFailedError",
    "StaleFenceError",
    "StepError",
    "UnreachableError",
    "WorkflowRefusedError",
    "WrongCallError",
]

Details = Mapping[str, Any]

_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}")


def snake_code(name: str) -> str:
    """The error code that a class name stands for: `CardDeclined` is `card_declined`."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    plain = re.sub(r"[^a-z0-9]+", "_", spaced.lower()).strip("_")[:64].rstrip("_")
    return plain if _CODE.fullmatch(plain) else "error"


def code_of(error: BaseException) -> str:
    """The code of an exception: its own `code` if that is one, else the name of its class."""
    own = getattr(error, "code", None)
    if isinstance(own, str) and _CODE.fullmatch(own):
        return own
    return snake_code(type(error).__name__)


class AbideError(Exception):
    """The base of everything that this package raises."""

    code: str = "abide_error"


class ApiError(AbideError):
    """The server refused a request. `code` is in its list of errors, and `message` says what to change."""

    def __init__(self, code: str, message: str, *, status: int = 0, details: Details | None = None) -> None:
        super().__init__(f"{message} [{code}]")
        self.code = code
        self.message = message
        self.status = status
        self.details: Details = details or {}


class UnreachableError(AbideError):
    """There was no answer from the server."""

    code = "unreachable"


class WorkflowRefusedError(AbideError):
    """The server refused the workflow of an agent: its `retry`, or something else that was declared, is wrong."""

    code = "workflow_refused"

    def __init__(self, workflow_id: str, error: ApiError) -> None:
        super().__init__(f"the workflow of agent '{workflow_id}' is refused: {error}")


class StaleFenceError(ApiError):
    """The task is not this worker's any more: it was handed to another. Nothing was changed."""

    code = "stale_fence"


class InvalidValueError(AbideError):
    """A value can't be kept: it is not JSON, or is too large."""

    code = "invalid_value"


class MissingInputError(AbideError):
    """A function has a parameter that the node has no input for."""

    code = "missing_input"


class WrongCallError(AbideError, TypeError):
    """A call of the context is written in a way that can't work."""

    code = "wrong_call"


class NotAwaitedError(WrongCallError):
    """A call of the context was used without `await`."""

    code = "not_awaited"

    def __init__(self, *calls: str) -> None:
        one, *others = calls
        more = f" (and {', '.join(others)})" if others else ""
        super().__init__(f"{one} was not awaited; write await {one}{more}")


class ExitError(AbideError):
    """Code that does a node's work wanted to end the process, which works for others too."""

    def __init__(self, error: BaseException) -> None:
        told = f"{type(error).__name__}({', '.join(map(repr, error.args))})"
        super().__init__(f"it wanted to end the worker: {told}; raise an exception, or return")
        self.code = snake_code(type(error).__name__)


class InterruptTimeoutError(AbideError):
    """Nobody answered in time."""

    code = "interrupt_timeout"

    def __init__(self, message: str, *, interrupt_id: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.interrupt_id = interrupt_id
        self.code = code or type(self).code


class InterruptCancelledError(AbideError):
    """What was asked was called off before anybody answered."""

    code = "interrupt_cancelled"

    def __init__(self, message: str, *, interrupt_id: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.interrupt_id = interrupt_id
        self.code = code or type(self).code


class InputTimeoutError(InterruptTimeoutError):
    """Nobody answered `request_input`, and its fallback policy is `fail`."""

    code = "input_timeout"


class InputCancelledError(InterruptCancelledError):
    """A `request_input` was called off before anybody answered."""


class StepError(AbideError):
    """A step failed.

    It is raised in the same way when the step fails and whenever the function runs again, so that code that handles it
    goes the same way each time: look at `code`, not at the class of the cause, which is there the first time only.
    """

    def __init__(
        self,
        step: str,
        code: str,
        message: str,
        *,
        details: Details | None = None,
        retryable: bool = True,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"step '{step}' failed: {message} [{code}]")
        self.step = step
        self.code = code
        self.message = message
        self.details: Details = details or {}
        self.retryable = retryable
        self.retry_after = retry_after


class CodeChangedError(AbideError):
    """The function does not do what it did when its steps were recorded."""

    code = "code_changed"


class ChildFailedError(AbideError):
    """A child run failed."""

    code = "child_failed"

    def __init__(self, run_id: str, error: Mapping[str, Any]) -> None:
        self.cause_code = str(error.get("code", "unknown"))
        self.message = str(error.get("message", "it failed"))
        super().__init__(f"child {run_id} failed: {self.message} [{self.cause_code}]")
        self.run_id = run_id
        self.details: Details = {"childRunId": run_id, "cause": dict(error)}


class ChildCancelledError(ChildFailedError):
    """A child run was cancelled."""

    code = "child_cancelled"


class RunFailedError(AbideError):
    """A run that somebody waited for failed or was cancelled."""

    def __init__(self, run_id: str, status: str, code: str, message: str, details: Details | None = None) -> None:
        super().__init__(f"{run_id} {status}: {message} [{code}]")
        self.run_id = run_id
        self.status = status
        self.code = code
        self.message = message
        self.details: Details = details or {}


class RetryableError(AbideError):
    """Raise it where another attempt may help.

    `effect` says whether what was tried may have been done all the same: `"none"` lets even a step be tried again that
    must not be done twice.
    """

    code = "retryable_error"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        details: Details | None = None,
        retry_after: float | None = None,
        effect: Literal["none", "possible"] = "none",
    ) -> None:
        super().__init__(message)
        self.code = code or type(self).code
        self.details: Details = details or {}
        self.retry_after = retry_after
        self.effect = effect


class ContextLostError(RetryableError):
    """Raise it where the function has lost what it works with: a sandbox, a session, a conversation.

    The run is interrupted by a `context_reset` and goes on as its resume policy says, with a worker that begins anew
    behind the steps that are done. Nobody knows what was under way, unless `effect="none"` says that nothing was.
    """

    code = "context_lost"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        details: Details | None = None,
        retry_after: float | None = None,
        effect: Literal["none", "possible"] = "possible",
    ) -> None:
        super().__init__(message, code=code, details=details, retry_after=retry_after, effect=effect)


class FinalError(AbideError):
    """Raise it where no other attempt can help: the node fails at once."""

    code = "final_error"

    def __init__(self, message: str, *, code: str | None = None, details: Details | None = None) -> None:
        super().__init__(message)
        self.code = code or type(self).code
        self.details: Details = details or {}
