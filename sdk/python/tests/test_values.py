"""Values as they are kept, and made anew."""

from __future__ import annotations

import datetime
import decimal
import enum
import json
import typing
import uuid
from dataclasses import dataclass, field

import pytest

from abide import InvalidValueError
from abide.values import Raw, decode, encode, encode_bounded, encode_object


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Line:
    price: decimal.Decimal
    colour: Colour


@dataclass
class Order:
    id: uuid.UUID
    at: datetime.datetime
    lines: list[Line]
    note: str | None = None
    tags: set[str] = field(default_factory=set)


ORDER = Order(
    uuid.UUID("12345678-1234-5678-1234-567812345678"),
    datetime.datetime(2026, 11, 16, 9, tzinfo=datetime.UTC),
    [Line(decimal.Decimal("1.10"), Colour.RED)],
    tags={"b", "a"},
)


def test_a_dataclass_is_made_anew_from_what_was_kept() -> None:
    assert decode(Order, json.loads(encode(ORDER))) == ORDER
    assert decode(list[Order], json.loads(encode([ORDER]))) == [ORDER]
    assert decode(Order | None, None) is None


def test_what_is_not_annotated_is_plain_json() -> None:
    assert json.loads(encode({"pair": (1, 2)})) == {"pair": [1, 2]}
    assert decode(None, [1]) == [1]


@pytest.mark.parametrize(("wrong", "why"), [(object(), "not JSON"), (b"x", "base64"), (float("nan"), "JSON")])
def test_what_is_not_json_is_refused_with_the_reason(wrong: object, why: str) -> None:
    with pytest.raises(InvalidValueError, match=f"what step 'a' returned.*{why}"):
        encode(wrong, "what step 'a' returned")


def test_what_is_too_large_is_refused_before_it_is_sent() -> None:
    with pytest.raises(InvalidValueError, match="1,048,576 are allowed"):
        encode_bounded("x" * 1024 * 1024, "it")


def test_json_in_json_is_not_encoded_twice() -> None:
    assert json.loads(encode_object({"a": 1, "value": Raw(b'{"b":[2]}')})) == {"a": 1, "value": {"b": [2]}}


def test_an_annotation_that_says_little_or_the_wrong_thing_loses_nothing() -> None:
    assert decode(typing.List, [1, 2]) == [1, 2]  # noqa: UP006
    assert decode(typing.Tuple, [1, 2]) == (1, 2)  # noqa: UP006
    assert decode(tuple[int], [1, 2]) == (1, 2)
    assert decode(typing.Set, [1, 2]) == {1, 2}  # noqa: UP006
