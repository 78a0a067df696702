"""Values as they are kept: JSON, and what Python writes as JSON without a loss that would surprise.

What a step returns is passed through JSON even the first time, so that the function sees the same when it runs again.
Dataclasses (and enumerations, times and decimals in them) are made anew from what was kept where an annotation asks for
them.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import inspect
import json
import pathlib
import types
import typing
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from .errors import InvalidValueError

VALUE_BYTES_MAX = 1024 * 1024
"""How large a value may be; the server takes no larger one."""


def encode(value: Any, what: str = "the value") -> bytes:
    """A value as JSON. `what` names it in an error."""
    try:
        text = json.dumps(value, default=_plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode()
    except (TypeError, ValueError, RecursionError, UnicodeEncodeError) as error:
        raise InvalidValueError(f"{what} can't be kept as JSON: {error}") from None


def encode_bounded(value: Any, what: str) -> bytes:
    """A value as JSON that is not too large to be kept."""
    encoded = encode(value, what)
    if len(encoded) > VALUE_BYTES_MAX:
        raise InvalidValueError(
            f"{what} has {len(encoded):,} bytes as JSON, and {VALUE_BYTES_MAX:,} are allowed: "
            "keep large things elsewhere, and a reference to them here"
        )
    return encoded


class Raw:
    """A value that is JSON already."""

    def __init__(self, encoded: bytes) -> None:
        self.encoded = encoded


def encode_object(fields: Mapping[str, Any]) -> bytes:
    """An object some of whose values may be JSON already."""
    raw = [(name, value.encoded) for name, value in fields.items() if isinstance(value, Raw)]
    if not raw:
        return encode(fields)
    head = encode({name: value for name, value in fields.items() if not isinstance(value, Raw)})
    tail = b"".join(b"," + encode(name) + b":" + encoded for name, encoded in raw)
    return head[:-1] + tail + b"}"


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, uuid.UUID | decimal.Decimal | pathlib.PurePath):
        return str(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, Mapping):
        return dict(value)
    for method in ("model_dump", "to_dict"):
        made = getattr(value, method, None)
        if callable(made) and not isinstance(value, type):
            return made(mode="json") if method == "model_dump" else made()
    if isinstance(value, bytes | bytearray):
        raise TypeError("bytes are not JSON; encode them, as base64 for one")
    raise TypeError(f"a {type(value).__qualname__} is not JSON; give plain values or a dataclass")


def result_type(function: Callable[..., Any]) -> Any:
    """What a function says that it returns; nothing, if it does not say or that can't be found out."""
    said = getattr(function, "__annotations__", None)
    return hints(function).get("return") if said and "return" in said else None


def hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function, as far as they can be found out."""
    try:
        return typing.get_type_hints(inspect.unwrap(function))
    except Exception:
        # An annotation that names something which is not imported is no reason to refuse the function.
        return {}


def decode(annotation: Any, value: Any) -> Any:
    """Makes a kept value into what an annotation asks for, where that is more than JSON."""
    if value is None or annotation is None or annotation is Any:
        return value
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return decode(arguments[0], value)
    if origin in (typing.Union, types.UnionType):
        some = [argument for argument in arguments if argument is not type(None)]
        return decode(some[0], value) if len(some) == 1 else value
    if origin in (list, set, frozenset) and isinstance(value, list):
        made = [decode(arguments[0], item) for item in value] if arguments else value
        return made if origin is list else origin(made)
    if origin is tuple and isinstance(value, list):
        return _tuple(arguments, value)
    if origin is dict and isinstance(value, dict) and len(arguments) == 2:
        return {key: decode(arguments[1], item) for key, item in value.items()}
    return _instance(annotation, value) if isinstance(annotation, type) else value


def _tuple(arguments: tuple[Any, ...], value: list[Any]) -> tuple[Any, ...]:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(decode(arguments[0], item) for item in value)
    if len(arguments) != len(value):
        # The annotation is wrong, or says nothing of what is in it; nothing is lost for that.
        return tuple(value)
    return tuple(decode(argument, item) for argument, item in zip(arguments, value, strict=True))


def _instance(kind: type, value: Any) -> Any:
    if dataclasses.is_dataclass(kind) and isinstance(value, dict):
        return _dataclass(kind, value)
    if issubclass(kind, enum.Enum):
        return kind(value)
    if issubclass(kind, datetime.datetime | datetime.date | datetime.time) and isinstance(value, str):
        return kind.fromisoformat(value)
    if issubclass(kind, datetime.timedelta) and isinstance(value, int | float):
        return kind(seconds=value)
    if issubclass(kind, uuid.UUID | decimal.Decimal | pathlib.PurePath) and isinstance(value, str):
        return kind(value)
    if kind in (tuple, set, frozenset) and isinstance(value, list):
        return kind(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    validate = getattr(kind, "model_validate", None)
    return validate(value) if callable(validate) else value


def _dataclass(kind: type, value: dict[str, Any]) -> Any:
    known, given = hints(kind), dict[str, Any]()
    for field in dataclasses.fields(kind):
        if field.init and field.name in value:
            given[field.name] = _field(kind, field.name, known.get(field.name), value[field.name])
        elif field.init and field.default is field.default_factory is dataclasses.MISSING:
            raise TypeError(f"{kind.__name__} needs the field '{field.name}', which is missing")
    return kind(**given)


def _field(kind: type, name: str, annotation: Any, value: Any) -> Any:
    try:
        return decode(annotation, value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"field '{name}' of {kind.__name__}: {error}") from error
