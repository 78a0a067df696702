"""Apps: how inputs become arguments, and what the workflow of an agent looks like."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from typing import Any

import pytest

from abide import Agent, App, BaseAgent, Context, HumanRetryPolicy, MissingInputError, RetryPolicy, SyncContext


@dataclass
class Order:
    id: str
    amount: float


@dataclass
class Delivery:
    order: Order
    day: datetime.date
    fast: bool = False


def app_with(**options: Any) -> App:
    return App("shop", **options)


def test_inputs_are_passed_by_name_and_the_rest_is_left_out() -> None:
    app = app_with()

    @app.node("shop.pack")
    async def pack(ctx: Context, order: str, fast: bool = False) -> None: ...

    kind = app.kinds["shop.pack"]
    assert kind.arguments({"order": "A-1", "other": 1}, {}) == {"order": "A-1"}
    with pytest.raises(MissingInputError, match=r"shop\.pack takes 'order'"):
        kind.arguments({}, {})


def test_one_parameter_may_take_all_inputs() -> None:
    app = app_with()

    @app.node("shop.all")
    def whole(ctx: SyncContext, inputs: dict[str, Any]) -> None: ...

    @app.node("shop.record")
    def record(ctx: SyncContext, order: Order) -> None: ...

    @app.node("shop.rest")
    def rest(ctx: SyncContext, id: str, **others: Any) -> None: ...

    given = {"id": "A-1", "amount": 3}
    assert app.kinds["shop.all"].arguments(given, {}) == {"inputs": given}
    assert app.kinds["shop.record"].arguments(given, {}) == {"order": Order("A-1", 3.0)}
    assert app.kinds["shop.rest"].arguments(given, {}) == given


def test_a_record_that_does_not_fit_is_told_by_its_field() -> None:
    app = app_with()

    @app.node("shop.deliver")
    def deliver(ctx: SyncContext, delivery: Delivery) -> None: ...

    kind = app.kinds["shop.deliver"]
    order = {"id": "A-1", "amount": 3}
    for inputs, why in (
        ({"order": order}, "its inputs are not what shop.deliver takes: Delivery needs the field 'day'"),
        ({"order": order, "day": "soon"}, "field 'day' of Delivery: Invalid isoformat string: 'soon'"),
        ({"order": {"id": "A-1"}, "day": "2026-01-05"}, "field 'order' of Delivery: Order needs the field 'amount'"),
    ):
        with pytest.raises(MissingInputError, match=re.escape(why)):
            kind.arguments(inputs, {})


def test_the_workflow_of_an_agent_takes_its_parameters_and_gives_its_result() -> None:
    app = app_with()

    @app.agent("refund", retry=RetryPolicy(max_retries=1, strategy="fixed"))
    async def refund(ctx: Context, order: str, amount: float = 5, note: str | None = None) -> dict[str, Any]:
        """Pays back."""
        return {}

    [definition] = app.workflows()
    assert definition["id"] == "refund"
    assert definition["description"] == "Pays back."
    node, result = definition["nodes"]
    assert node["typeId"] == "agent.refund"
    assert node["inputs"] == {
        "order": {"type": "variable", "variableName": "order"},
        "amount": {"type": "variable", "variableName": "amount", "optional": True},
        "note": {"type": "variable", "variableName": "note", "optional": True},
    }
    assert node["settings"] == {"abide": {"agent": "shop", "retry": {"strategy": "fixed", "maxRetries": 1}}}
    assert definition["variables"] == [
        {"name": "order", "type": "string", "required": True},
        {"name": "amount", "type": "number"},
    ]
    assert result["config"] == {"assign": {"result": 'nodes["refund"].outputs'}}


def test_names_that_can_not_be_are_refused_where_they_stand() -> None:
    app = app_with()
    with pytest.raises(ValueError, match="lower-case"):
        app.agent("Refund")
    with pytest.raises(ValueError, match="server's own"):
        app.node("core.noop")
    with pytest.raises(TypeError, match=re.escape('write @app.agent("pay-back")')):

        @app.agent  # type: ignore[arg-type]
        def pay_back(ctx: SyncContext) -> None: ...

    with pytest.raises(TypeError, match=re.escape('write @app.node("acme.charge")')):
        app.node(print)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes no context"):

        @app.node("shop.none")
        def nothing() -> None: ...


def test_a_kind_has_one_function() -> None:
    app = app_with()

    @app.node("shop.one")
    def first(ctx: SyncContext) -> None: ...

    with pytest.raises(Exception, match="already"):

        @app.node("shop.one")
        def second(ctx: SyncContext) -> None: ...


def test_only_what_is_said_about_undoing_is_registered() -> None:
    app = app_with()

    @app.node("shop.look")
    def look(ctx: SyncContext) -> None: ...

    @app.node("shop.book", reversible=True)
    def book(ctx: SyncContext) -> None: ...

    @app.node("shop.ship", reversible=False)
    def ship(ctx: SyncContext) -> None: ...

    told = {name: kind.registration() for name, kind in app.kinds.items()}
    assert "reversible" not in told["shop.look"]
    assert (told["shop.book"]["reversible"], told["shop.ship"]["reversible"]) == (True, False)


def test_a_class_is_an_agent_with_its_own_default_on_the_class_or_on_an_instance() -> None:
    class Clerk(BaseAgent):
        default_human_retry_policy = HumanRetryPolicy(max_attempts=2)

        async def run(self, ctx: Context) -> None: ...

    assert App.of(Clerk).default_human_retry_policy == HumanRetryPolicy(max_attempts=2)
    assert App.of(Clerk).name == "clerk"
    strict = Clerk()
    strict.default_human_retry_policy = HumanRetryPolicy(max_attempts=9)
    assert App.of(strict).default_human_retry_policy == HumanRetryPolicy(max_attempts=9)
    assert list(App.of(strict).kinds) == ["agent.clerk"]


def test_a_plain_class_becomes_an_agent_by_its_decorator() -> None:
    @Agent("my-agent")
    class MyAgent:
        default_human_retry_policy = HumanRetryPolicy(
            max_attempts=2,
            interval_seconds=1800,
            final_fallback_policy="complete_with_fallback",
        )

        async def run(self, ctx: Context) -> None: ...

    app = App.of(MyAgent)  # type: ignore[arg-type]
    assert app.name == "my-agent"
    assert app.default_human_retry_policy == MyAgent.default_human_retry_policy
