"""Agents against a real server: steps, waits, questions, children, versions, failures."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from abide import (
    App,
    ChildFailedError,
    Choice,
    Context,
    EngagementDecision,
    FinalError,
    HumanRetryPolicy,
    InputCancelledError,
    InputTimeoutError,
    Intent,
    InterruptTimeoutError,
    RetryableError,
    RetryPolicy,
    StepError,
    Suspension,
    SyncContext,
)
from abide.requests import Request
from abide.testing import RunningWorker, TestServer, eventually


def types(server: TestServer, run_id: str) -> Counter[str]:
    return Counter(event.type for event in server.client.events.journal(run_id))


def test_a_refund_waits_for_somebody_and_pays_once(server: TestServer) -> None:
    app, paid, entered = App("refunds"), list[str](), list[int]()

    def pay(order: str, amount: float) -> str:
        paid.append(order)
        return f"receipt-{order}-{amount}"

    @app.agent("refund")
    async def refund(ctx: Context, order: str, amount: float) -> dict[str, Any]:
        entered.append(1)
        checked = await ctx.step("check", lambda: {"order": order, "ok": True})
        decision = await ctx.approve(f"Refund {amount} EUR for {order}?", data=checked, approvers=["dev"])
        if not decision:
            return {"paid": False, "why": decision.feedback, "by": decision.by}
        return {"paid": True, "receipt": await ctx.step("pay", pay, order, amount)}

    with server.worker(app) as worker:
        run = server.client.runs.start("refund", {"order": "A-1", "amount": 20})
        [asked] = server.asked(run.id)
        assert (asked.title, asked.kind) == ("Refund 20.0 EUR for A-1?", "approval")
        worker.until_idle()
        assert paid == []
        server.accept(run.id)
        assert server.result(run.id) == {"paid": True, "receipt": "receipt-A-1-20.0"}
        rejected = server.client.runs.start("refund", {"order": "A-2", "amount": 5})
        server.reject(rejected.id, "It was worn.")
        assert server.result(rejected.id) == {"paid": False, "why": "It was worn.", "by": "dev"}
    assert paid == ["A-1"]
    assert len(entered) >= 3


def test_questions_in_parallel_are_each_answered_once(server: TestServer) -> None:
    app, done = App("research"), Counter[str]()

    @app.agent("research", idempotent=True)
    async def research(ctx: Context, topics: list[str]) -> dict[str, Any]:
        def count(what: str) -> str:
            done[what] += 1
            return what.upper()

        async def look(topic: str) -> str:
            await ctx.step("search", count, f"search {topic}")
            may = await ctx.request_input(f"May I read {topic}?", "confirm")
            return await ctx.step("read", count, f"read {topic} {may}")

        async with asyncio.TaskGroup() as group:
            looks = [group.create_task(look(topic)) for topic in topics]
        return {"found": [look.result() for look in looks]}

    with server.worker(app) as worker:
        run = server.client.runs.start("research", {"topics": ["news", "law", "press"]})
        items = {item.title: item for item in server.asked(run.id, 3)}
        worker.until_idle()
        server.client.inbox.answer(items["May I read law?"], "no")
        eventually(lambda: done["read law no"] or None)
        server.client.inbox.answer(items["May I read press?"], "yes")
        server.client.inbox.answer(items["May I read news?"], "yes")
        found = server.result(run.id)
    assert found == {"found": ["READ NEWS YES", "READ LAW NO", "READ PRESS YES"]}
    assert set(done.values()) == {1}
    assert len(done) == 6


def test_direct_gather_of_questions_and_steps(server: TestServer) -> None:
    app = App("both")

    @app.agent("both", idempotent=True)
    async def both(ctx: Context) -> dict[str, Any]:
        first, second, third = await asyncio.gather(
            ctx.request_input("Which?", choices=[Choice("a", "A", style="primary"), {"value": "b"}, "c"]),
            ctx.interrupt("colour", {"of": "door"}, schema={"enum": ["red", "blue"]}, key="door"),
            ctx.step("count", lambda: 3),
        )
        return {"told": [first, second, third]}

    with server.worker(app):
        run = server.client.runs.start("both")
        for item in server.asked(run.id, 2):
            server.client.inbox.answer(item, "b" if item.kind == "clarification" else "red")
        assert server.result(run.id) == {"told": ["b", "red", 3]}


def test_a_sleep_of_a_year_holds_no_slot(server: TestServer) -> None:
    app = App("sleepers")

    @app.agent("sleeper", idempotent=True)
    async def sleeper(ctx: Context) -> dict[str, Any]:
        await ctx.step("before", lambda: 1)
        await asyncio.gather(ctx.sleep(timedelta(days=365)), ctx.sleep(60))
        return {"after": await ctx.step("after", lambda: 2)}

    with server.worker(app) as worker:
        run = server.client.runs.start("sleeper")
        eventually(lambda: types(server, run.id)["node.parked"] or None)
        worker.until_idle()
        server.advance(61)
        eventually(lambda: types(server, run.id)["node.parked"] == 2 or None)
        server.advance(timedelta(days=365))
        assert server.result(run.id) == {"after": 2}


@dataclass
class Quote:
    item: str
    price: float


def test_what_a_step_returns_is_the_same_whenever_the_function_runs(server: TestServer) -> None:
    app, seen = App("quotes"), list[Any]()

    def quote(item: str) -> Quote:
        return Quote(item, 9.5)

    @app.agent("quote", idempotent=True)
    async def agent(ctx: Context) -> Quote:
        made = await ctx.step("quote", quote, "chair")
        pair = await ctx.step("pair", lambda: (1, 2))
        seen.append((made, pair))
        await ctx.request_input("Well?", "text")
        return made

    with server.worker(app) as worker:
        run = server.client.runs.start("quote")
        server.asked(run.id)
        worker.until_idle()
        server.answer(run.id, "fine")
        assert server.result(run.id) == {"item": "chair", "price": 9.5}
    assert seen == [(Quote("chair", 9.5), [1, 2])] * 2


def test_a_question_goes_on_as_the_call_the_agent_and_the_server_say(server: TestServer) -> None:
    app = App("asks", default_human_retry_policy=HumanRetryPolicy(max_attempts=2, interval_seconds=1800))

    @app.agent("ask", idempotent=True)
    async def ask(ctx: Context) -> dict[str, Any]:
        try:
            await ctx.request_input("One?", "text", retry_policy=HumanRetryPolicy(interval_seconds=600))
        except InputTimeoutError as error:
            told: Any = error.code
        answer = await ctx.request_input(
            "Two?", "confirm", fallback_policy="complete_with_fallback", fallback_value="no"
        )
        return {"told": [told, answer]}

    with server.worker(app) as worker:
        run = server.client.runs.start("ask")
        [asked] = server.asked(run.id)
        worker.until_idle()
        [requested] = [e for e in server.client.events.journal(run.id) if e.type == "interrupt.requested"]
        assert requested.payload["ladder"]["max_attempts"] == 2
        assert requested.payload["ladder"]["interval_seconds"] == 600
        server.advance(1200)
        eventually(lambda: [item for item in server.client.inbox.list(run=run.id) if item != asked] or None)
        worker.until_idle()
        server.advance(3600)
        assert server.result(run.id) == {"told": ["input_timeout", "no"]}


def test_hooks_are_called_at_each_attempt_with_its_number_and_channel(server: TestServer) -> None:
    app, told, ends = App("hooked"), list[tuple[Any, ...]](), list[Any]()

    @app.on_input_requested
    async def notify(intent: Intent, suspension: Suspension) -> None:
        context = suspension.context
        told.append((context["_attempt"], context["_max_attempts"], suspension.channel_hint, suspension.question))

    @app.on_suspension_expired
    def expired(suspension: Suspension) -> None:
        ends.append(("expired", suspension.id))

    @app.on_input_received
    def received(intent: Intent, suspension: Suspension) -> None:
        ends.append(("received", suspension.response, intent.node_id))

    policy = HumanRetryPolicy(
        max_attempts=3,
        interval_seconds=3600,
        escalation_ladder=[{"attempt": 2, "channel_hint": "email"}],
        final_fallback_policy="fail",
    )

    @app.agent("hooked", idempotent=True)
    async def hooked(ctx: Context) -> dict[str, Any]:
        try:
            await ctx.request_input("Proceed?", "confirm", retry_policy=policy, channel_hint="chat")
        except InputTimeoutError:
            return {"told": await ctx.request_input("Really?", "confirm")}
        return {}

    with server.worker(app):
        run = server.client.runs.start("hooked")
        eventually(lambda: len(told) == 1 or None)
        for attempt in (2, 3):
            server.advance(3600)
            eventually(functools.partial(lambda count: len(told) == count or None, attempt))
        assert [one[:3] for one in told] == [(1, 3, "chat"), (2, 3, "email"), (3, 3, "chat")]
        server.advance(3600)
        eventually(lambda: len(told) == 4 or None)
        server.answer(run.id, "yes")
        assert server.result(run.id) == {"told": "yes"}
        eventually(lambda: len(ends) == 2 or None)
    assert [one[0] for one in ends] == ["expired", "received"]
    assert ends[1] == ("received", "yes", "hooked")


def test_a_hook_that_fails_is_called_again(server: TestServer) -> None:
    app, calls = App("shaky"), list[int]()

    @app.on_input_requested
    def notify(suspension: Suspension) -> None:
        calls.append(suspension.attempt)
        if len(calls) == 1:
            raise ConnectionError("the chat is down")

    @app.agent("shaky", idempotent=True)
    async def shaky(ctx: Context) -> None:
        await ctx.request_input("Well?", "text")

    with server.worker(app):
        run = server.client.runs.start("shaky")
        eventually(lambda: calls or None)

        def again() -> bool | None:
            if len(calls) < 2:
                server.advance(60)
            return len(calls) >= 2 or None

        eventually(again)
        server.answer(run.id, "yes")
        server.wait(run.id)
    assert calls[:2] == [1, 1]


def test_whether_to_ask_is_decided_once_and_recorded(server: TestServer) -> None:
    app, heard = App("engaged"), list[EngagementDecision]()

    @app.on_engagement_decision
    def decided(intent: Intent, decision: EngagementDecision) -> None:
        heard.append(decision)

    @app.agent("engaged", idempotent=True)
    async def engaged(ctx: Context) -> dict[str, Any]:
        decision = await ctx.should_request_input(confidence=0.6, risk=0.3, reversibility=0.9, context={"order": 7})
        answer = await ctx.request_input("Well?", "text") if decision.should_ask else None
        return {"mode": decision.mode, "answer": answer}

    with server.worker(app) as worker:
        run = server.client.runs.start("engaged")
        server.asked(run.id)
        worker.until_idle()
        server.answer(run.id, "fine")
        assert server.result(run.id) == {"mode": "request_input", "answer": "fine"}
    [event] = [e for e in server.client.events.journal(run.id) if e.type == "engagement.decision"]
    assert heard[0].to_dict() == event.payload
    assert len(heard) == 1


def test_a_child_runs_another_agent_and_its_failure_can_be_caught(server: TestServer) -> None:
    app = App("families")

    @app.agent("clerk", idempotent=True)
    async def clerk(ctx: Context, item: str) -> dict[str, Any]:
        return {"item": item, "stock": await ctx.request_input(f"Is {item} in stock?", "confirm")}

    @app.agent("grouch")
    async def grouch(ctx: Context) -> None:
        raise FinalError("not today", code="not_today")

    @app.agent("boss", idempotent=True)
    async def boss(ctx: Context) -> dict[str, Any]:
        stock = await ctx.run("clerk", {"item": "chair"})
        try:
            await ctx.run("grouch")
        except ChildFailedError as error:
            return {"stock": stock, "trouble": error.cause_code}
        return {}

    with server.worker(app) as worker:
        run = server.client.runs.start("boss")
        [item] = eventually(lambda: server.client.inbox.list(workflow="clerk") or None)
        worker.until_idle()
        server.client.inbox.answer(item, "yes")
        assert server.result(run.id) == {"stock": {"item": "chair", "stock": "yes"}, "trouble": "not_today"}


def test_old_runs_finish_on_the_old_logic_and_new_ones_take_the_new(server: TestServer) -> None:
    before, after = App("priced"), App("priced")

    @before.agent("price", idempotent=True)
    async def old(ctx: Context) -> dict[str, Any]:
        tax = await ctx.step("tax", lambda: 19)
        await ctx.request_input("Buy?", "confirm")
        return {"tax": tax}

    @after.agent("price", idempotent=True)
    async def new(ctx: Context) -> dict[str, Any]:
        if await ctx.version("vat", 1) == 0:
            tax = await ctx.step("tax", lambda: 19)
        else:
            tax = await ctx.step("vat", lambda: 21)
        await ctx.request_input("Buy?", "confirm")
        return {"tax": tax}

    with server.worker(before):
        first = server.client.runs.start("price")
        server.asked(first.id)
    with server.worker(after):
        second = server.client.runs.start("price")
        for run, tax in ((first, 19), (second, 21)):
            server.answer(run.id, "yes")
            assert server.result(run.id) == {"tax": tax}


def test_code_that_changed_waits_for_code_that_fits_and_says_so(server: TestServer) -> None:
    before, after = App("changed"), App("changed")

    @before.agent("changed", idempotent=True)
    async def old(ctx: Context) -> None:
        await ctx.step("weigh", lambda: 2)
        await ctx.request_input("Send?", "confirm")

    @after.agent("changed", idempotent=True)
    async def new(ctx: Context) -> None:
        await ctx.step("measure", lambda: 30)
        await ctx.request_input("Send?", "confirm")

    with server.worker(before):
        run = server.client.runs.start("changed")
        server.asked(run.id)
    with server.worker(after):
        server.answer(run.id, "yes")

        def unfit() -> Any:
            parked = [e for e in server.client.events.journal(run.id) if e.type == "node.parked"]
            return parked[-1].payload.get("unfit")

        told = eventually(unfit)
    assert told["code"] == "code_changed"
    for part in (run.id, "changed", "'weigh'", "'measure'"):
        assert part in told["message"]
    assert not server.client.runs.get(run.id).ended
    with server.worker(before):
        server.advance(60)
        assert server.wait(run.id).status == "completed"


def test_branches_that_changed_places_pay_nothing_twice(server: TestServer) -> None:
    before, after, paid = App("places"), App("places"), list[str]()

    def pay(what: str) -> str:
        paid.append(what)
        return what

    async def part(ctx: Context, what: str) -> str:
        return await ctx.step("pay", pay, what)

    @before.agent("places")
    async def old(ctx: Context) -> dict[str, Any]:
        done = await asyncio.gather(part(ctx, "rent"))
        await ctx.request_input("Go on?", "confirm")
        return {"done": done}

    @after.agent("places")
    async def new(ctx: Context) -> dict[str, Any]:
        async def first() -> None:
            await ctx.step("audit", lambda: None)

        done = await asyncio.gather(first(), part(ctx, "rent"))
        await ctx.request_input("Go on?", "confirm")
        return {"done": done}

    with server.worker(before):
        run = server.client.runs.start("places")
        server.asked(run.id)
    with server.worker(after):
        server.answer(run.id, "yes")
        parked = eventually(lambda: [e for e in server.client.events.journal(run.id) if "unfit" in e.payload] or None)
    assert parked[0].payload["unfit"]["code"] == "code_changed"
    assert paid == ["rent"]


def test_a_failure_names_its_step_and_shows_the_users_own_frames(server: TestServer) -> None:
    class CardDeclined(Exception):
        pass

    app = App("failures")

    def charge(order: str) -> None:
        raise CardDeclined(f"no money for {order}")

    @app.agent("charge")
    async def agent(ctx: Context, order: str) -> None:
        await ctx.step("charge", charge, order)

    with server.worker(app):
        run = server.client.runs.start("charge", {"order": "A-1"})
        ended = server.wait(run.id)
    error = ended.nodes["charge"].error
    assert error is not None
    assert error["code"] == "card_declined"
    assert error["message"].startswith("no money for A-1; it was not tried again")
    assert error["details"]["step"] == "charge"
    assert "raise CardDeclined" in error["details"]["traceback"]
    assert "abide/context.py" not in error["details"]["traceback"]
    assert f"in run {run.id}, node charge, step 'charge'" in error["details"]["traceback"]


def test_a_failed_attempt_is_made_again_and_keeps_what_was_recorded(server: TestServer) -> None:
    app, done = App("retries"), Counter[str]()
    retry = RetryPolicy(max_retries=2, strategy="fixed", base_delay=60, jitter=False)

    @app.agent("retry", idempotent=True, retry=retry)
    async def agent(ctx: Context) -> dict[str, Any]:
        def count(name: str) -> str:
            done[name] += 1
            if name == "shaky" and done[name] < 2:
                raise RetryableError("busy")
            return name

        drawn = await ctx.step("draw", count, "draw")
        shaky = await ctx.step("shaky", count, "shaky")
        return {"told": [drawn, shaky, ctx.attempt]}

    with server.worker(app) as worker:
        run = server.client.runs.start("retry")
        eventually(lambda: types(server, run.id)["node.retried"] or None)
        worker.until_idle()
        server.advance(60)
        assert server.result(run.id) == {"told": ["draw", "shaky", 2]}
    assert done == {"draw": 1, "shaky": 2}


def test_functions_that_are_not_async_do_the_same(server: TestServer) -> None:
    app, done = App("threads"), Counter[str]()

    @app.agent("threads", idempotent=True)
    def agent(ctx: SyncContext, order: str, amount: int = 3) -> dict[str, Any]:
        def count(name: str) -> str:
            done[name] += 1
            return name

        first = ctx.step("first", count, "first")
        ctx.log("asking", level="info")
        ctx.progress(1, 2)
        answers = ctx.gather(
            lambda: ctx.request_input("One?", "text"),
            lambda: ctx.approve("Two?").accepted,
        )
        ctx.sleep(3600)
        try:
            ctx.step("bad", lambda: 1 / 0)
        except StepError as error:
            return {"told": [first, *answers, error.code, order, amount]}
        return {}

    with server.worker(app) as worker:
        run = server.client.runs.start("threads", {"order": "A-1"})
        items = {item.title: item for item in server.asked(run.id, 2)}
        worker.until_idle()
        server.client.inbox.answer(items["One?"], "1")
        server.client.inbox.accept(items["Two?"])
        eventually(lambda: types(server, run.id)["sleep.started"] or None)
        worker.until_idle()
        server.advance(3600)
        assert server.result(run.id) == {"told": ["first", "1", True, "zero_division_error", "A-1", 3]}
    assert done == {"first": 1}


def test_a_question_that_is_called_off_while_somebody_waits_in_place(server: TestServer) -> None:
    app, seen = App("cancels"), list[str]()

    @app.agent("cancel", idempotent=True)
    async def agent(ctx: Context) -> None:
        try:
            await ctx.request_input("Well?", "text")
        except InputCancelledError as error:
            seen.append(error.code)
            raise

    with server.worker(app, in_place=300) as worker:
        run = server.client.runs.start("cancel")
        server.asked(run.id)
        server.client.runs.cancel(run.id, "no longer wanted")
        assert server.wait(run.id).status == "cancelled"
        worker.until_idle()
    assert seen == ["interrupt_cancelled"]


def test_work_under_way_is_cancelled_with_its_run(server: TestServer) -> None:
    app, seen = App("stops"), list[str]()

    @app.agent("stop", idempotent=True)
    async def agent(ctx: Context) -> None:
        seen.append("began")
        try:
            await ctx.step("slow", asyncio.sleep, 300)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    with server.worker(app) as worker:
        run = server.client.runs.start("stop")
        eventually(lambda: seen or None)
        server.client.runs.cancel(run.id)
        assert server.wait(run.id).status == "cancelled"
        worker.until_idle()
    assert seen == ["began", "cancelled"]


def test_an_approval_that_nobody_makes_in_time_is_an_error(server: TestServer) -> None:
    app = App("late")

    @app.agent("late", idempotent=True)
    async def agent(ctx: Context) -> dict[str, Any]:
        try:
            await ctx.approve("Well?", timeout=timedelta(hours=1))
        except InterruptTimeoutError as error:
            return {"told": error.code}
        return {}

    with server.worker(app) as worker:
        run = server.client.runs.start("late")
        server.asked(run.id)
        worker.until_idle()
        server.advance(3600)
        assert server.result(run.id) == {"told": "approval_timeout"}


def test_an_event_from_elsewhere_is_waited_for(server: TestServer) -> None:
    app = App("events")

    @app.agent("paid", idempotent=True)
    async def agent(ctx: Context, order: int) -> dict[str, Any]:
        event = {"eventType": "payment.completed", "correlation": {"order": order}}
        return {"payment": await ctx.interrupt("external-event", event)}

    with server.worker(app) as worker:
        run = server.client.runs.start("paid", {"order": 7})
        server.asked(run.id)
        worker.until_idle()
        server.client.events.send("payment.completed", {"order": 7, "amount": 120}, event_id="evt-1")
        assert server.result(run.id)["payment"] == {"eventPayload": {"order": 7, "amount": 120}}


def test_many_runs_share_a_few_slots(server: TestServer) -> None:
    app = App("many")

    @app.agent("many", idempotent=True)
    async def agent(ctx: Context, n: int) -> dict[str, Any]:
        for step in range(5):
            await ctx.step(f"s{step}", lambda: n)
        return {"n": n}

    with server.worker(app, capacity=4) as worker:
        runs = [server.client.runs.start("many", {"n": n}) for n in range(40)]
        assert [server.result(run.id)["n"] for run in runs] == list(range(40))
        worker.until_idle()


@pytest.mark.parametrize("wrong", [{}, {"order": 3}])
def test_inputs_that_an_agent_does_not_take_are_refused_at_the_start(server: TestServer, wrong: dict[str, Any]) -> None:
    app = App("strict")

    @app.agent("strict")
    async def agent(ctx: Context, order: str) -> None: ...

    with server.worker(app), pytest.raises(Exception, match="order"):
        server.client.runs.start("strict", wrong)


def test_lines_and_progress_are_told_once(server: TestServer) -> None:
    app = App("talks")

    @app.agent("talk", idempotent=True)
    async def agent(ctx: Context) -> None:
        ctx.log("begun")
        ctx.progress(1, 3, "one of three")

        async def branch() -> None:
            await ctx.step("a", lambda: 1)
            await ctx.request_input("Well?", "text")

        await asyncio.gather(branch())
        ctx.log("answered", level="warn")

    with server.worker(app) as worker:
        run = server.client.runs.start("talk")
        server.asked(run.id)
        worker.until_idle()
        server.answer(run.id, "fine")
        server.wait(run.id)
    notes = [event.payload for event in server.client.events.journal(run.id) if event.type == "node.noted"]
    lines = [line["message"] for note in notes for line in note.get("lines", [])]
    assert lines == ["begun", "answered"]
    assert [note["progress"] for note in notes if note.get("progress")] == [
        {"done": 1.0, "total": 3.0, "message": "one of three"}
    ]


def test_a_worker_whose_key_may_only_work_drains_without_a_stir(server: TestServer) -> None:
    app, goes_on = App("scoped"), threading.Event()

    @app.agent("scoped", idempotent=True)
    def agent(ctx: SyncContext) -> None:
        ctx.step("slow", goes_on.wait)

    for definition in app.workflows():
        server.client.workflows.push(definition)
    new_key = {"principal": "worker", "scopes": ["work:perform"]}
    key = server.client.send(Request("POST", "/v1/keys", lambda told: str(told["key"]), new_key))
    running = RunningWorker(app.worker(url=server.url, api_key=key))
    running.start()
    first = server.client.runs.start("scoped")
    eventually(lambda: running.held or None)
    running.worker.drain()
    second = server.client.runs.start("scoped")
    # It is offered, given back, and offered again, since there is nobody else.
    eventually(lambda: running.worker._kept or None)
    goes_on.set()
    running.drain()
    assert server.wait(first.id).status == "completed"
    assert types(server, second.id)["task.lost"] <= 2
    with server.worker(app):
        assert server.wait(second.id).status == "completed"
