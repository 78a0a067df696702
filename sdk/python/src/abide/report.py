"""What a failure is reported as: code, class, whether to try again, and a traceback of the user's own code."""

from __future__ import annotations

import asyncio
import json
import pathlib
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .errors import (
    ApiError,
    ChildFailedError,
    CodeChangedError,
    ContextLostError,
    FinalError,
    InterruptCancelledError,
    InterruptTimeoutError,
    InvalidValueError,
    MissingInputError,
    RetryableError,
    StepError,
    WrongCallError,
    code_of,
)
from .values import encode

MESSAGE_CHARS_MAX = 4_000
TRACEBACK_CHARS_MAX = 16_000
DETAILS_BYTES_MAX = 64 * 1024

_HERE = str(pathlib.Path(__file__).parent)
_MACHINERY = (_HERE, str(pathlib.Path(asyncio.__file__).parent))


@dataclass(frozen=True)
class Report:
    """A failure as it is told to the server."""

    code: str
    message: str
    details: Mapping[str, Any]
    kind: str
    retryable: bool
    effect: Literal["none", "possible"]
    retry_after: float | None = None

    def op(self) -> dict[str, Any]:
        """The fields of the op `fail`."""
        fields: dict[str, Any] = {
            "error": {"code": self.code, "message": self.message, "details": dict(self.details)},
            "class": self.kind,
            "retryable": self.retryable,
            "effect": self.effect,
        }
        if self.retry_after is not None:
            fields["retryAfterMs"] = max(0, round(self.retry_after * 1000))
        return fields


def report(error: BaseException, effect: Literal["none", "possible"]) -> Report:
    """What an exception that left a function is reported as."""
    first = leaf(error)
    kind, retryable = _class(first)
    message = getattr(first, "message", None) or str(first) or type(first).__name__
    details: dict[str, Any] = {"exception": _name(_origin(first)), "traceback": trimmed(error)}
    own = getattr(first, "details", None)
    if isinstance(own, Mapping):
        details = {**kept_details(own), **details}
    if isinstance(first, StepError):
        details["step"] = first.step
    if isinstance(first, RetryableError) and first.effect == "possible":
        effect = "possible"
    return Report(
        code_of(first),
        printable(str(message)[:MESSAGE_CHARS_MAX]),
        details,
        kind,
        retryable,
        effect if kind != "code_changed" else "none",
        getattr(first, "retry_after", None),
    )


def printable(text: str) -> str:
    """A text that can be sent: names of files may have parts that are no text at all."""
    return text.encode("utf-8", "backslashreplace").decode()


def kept_details(own: Mapping[Any, Any]) -> dict[str, Any]:
    """Details of a user's error as JSON, or what can be said of them instead."""
    try:
        encoded = encode(dict(own))
        kept: dict[str, Any] = json.loads(encoded)
    except Exception:
        return {"details": printable(repr(own)[:1000])}
    return kept if len(encoded) <= DETAILS_BYTES_MAX else {"details": "too large"}


def leaf(error: BaseException) -> BaseException:
    """The first of a group of exceptions that is none itself."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        chosen = [one for one in error.exceptions if not isinstance(one, asyncio.CancelledError)]
        error = (chosen or list(error.exceptions))[0]
    return error


def _class(error: BaseException) -> tuple[str, bool]:
    """The class of a failure, and whether another attempt may help."""
    match error:
        case StepError():
            kind, _ = _class(error.__cause__) if error.__cause__ is not None else ("tool", True)
            return kind, error.retryable
        case FinalError():
            return "tool", False
        case ContextLostError():
            return "context", True
        case RetryableError():
            return "tool", True
        case CodeChangedError():
            return "code_changed", True
        case MissingInputError() | InvalidValueError() | WrongCallError():
            return "validation", False
        case InterruptTimeoutError():
            # What people decide, or do not, is final.
            return "timeout", False
        case InterruptCancelledError() | asyncio.CancelledError():
            return "cancelled", False
        case ChildFailedError():
            return "child", False
        case ApiError():
            return "tool", error.status >= 500 or error.status == 429
        case ConnectionResetError() | BrokenPipeError():
            return "reset", True
        case TimeoutError():
            return "timeout", True
    return "tool", True


def _origin(error: BaseException) -> BaseException:
    return error.__cause__ if isinstance(error, StepError) and error.__cause__ is not None else error


def _name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def trimmed(error: BaseException) -> str:
    """The traceback without the frames of this package and of asyncio."""
    told = traceback.TracebackException.from_exception(error)
    _trim(told, set())
    text = printable("".join(told.format()))
    return text if len(text) <= TRACEBACK_CHARS_MAX else "…" + text[-TRACEBACK_CHARS_MAX:]


def _trim(told: traceback.TracebackException, seen: set[int]) -> None:
    if id(told) in seen:
        return
    seen.add(id(told))
    kept = [frame for frame in told.stack if not frame.filename.startswith(_MACHINERY)]
    if kept:
        told.stack = traceback.StackSummary.from_list(kept)
    for other in (told.__cause__, told.__context__, *(told.exceptions or ())):
        if other is not None:
            _trim(other, seen)
