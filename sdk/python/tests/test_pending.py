"""A forgotten `await` is noticed: it never approves anything, and no function ends with one."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from abide import App, BaseAgent, Context, NotAwaitedError, Run, SyncContext
from abide.testing import TestServer

Body = Callable[[Context], Coroutine[Any, Any, Any]]


async def taken_for_its_answer(ctx: Context) -> Any:
    if ctx.approve("Pay?"):
        return "paid"
    return "refused"


async def negated_and_swallowed(ctx: Context) -> Any:
    try:
        return "refused" if not ctx.approve("Pay?") else "paid"
    except TypeError:
        return "swallowed"


async def left_alone(ctx: Context) -> Any:
    ctx.sleep(3600)  # type: ignore[unused-coroutine]
    return "early"


async def returned(ctx: Context) -> Any:
    return ctx.step("pay", lambda: 1)


async def compared(ctx: Context) -> Any:
    return ctx.version("two-approvals", 1) >= 1  # type: ignore[operator]


async def looked_into(ctx: Context) -> Any:
    return ctx.approve("Pay?").feedback  # type: ignore[attr-defined]


async def waited_for_by_nobody(ctx: Context) -> Any:
    asyncio.wait_for(ctx.request_input("Why?", "text"), 5)  # type: ignore[unused-coroutine]


@pytest.mark.filterwarnings("ignore:coroutine 'wait_for':RuntimeWarning")
@pytest.mark.parametrize(
    ("body", "call"),
    [
        (taken_for_its_answer, "ctx.approve(...)"),
        (negated_and_swallowed, "ctx.approve(...)"),
        (left_alone, "ctx.sleep(...)"),
        (returned, "ctx.step('pay', ...)"),
        (compared, "ctx.version(...)"),
        (looked_into, "ctx.approve(...)"),
        (waited_for_by_nobody, "ctx.request_input(...)"),
    ],
)
def test_what_is_not_awaited_fails_the_node_for_good(shared_server: TestServer, body: Body, call: str) -> None:
    name = body.__name__.replace("_", "-")
    app = App(name)
    app.agent(name, idempotent=True, retry={"strategy": "fixed", "maxRetries": 3, "baseDelayMs": 1})(body)
    with shared_server.worker(app):
        run = shared_server.wait(shared_server.client.runs.start(name).id)
    assert (run.status, run.error_code) == ("failed", "not_awaited")
    assert run.error is not None
    assert f"{call} was not awaited; write await {call}" in run.error["message"]
    # No other attempt is made.
    assert [one.type for one in shared_server.client.events.journal(run.id)].count("node.failed") == 1
    assert run.nodes[name].attempt in (None, 1)


def test_an_agent_that_is_a_class_is_told_as_well(shared_server: TestServer) -> None:
    class Careless(BaseAgent):
        async def run(self, ctx: Context) -> str:
            return "yes" if self.request_input(question="Really?", response_type="confirm") else "no"

    with shared_server.worker(App.of(Careless)):
        run: Run = shared_server.wait(shared_server.client.runs.start("careless").id)
    assert run.error_code == "not_awaited"


def test_what_is_awaited_later_or_by_others_is_fine(shared_server: TestServer) -> None:
    app = App("patient")

    @app.agent("patient", idempotent=True)
    async def patient(ctx: Context) -> dict[str, Any]:
        later = ctx.step("later", lambda: 1)
        assert asyncio.iscoroutine(later)
        assert isinstance(later, Coroutine)
        assert "ctx.step('later', ...)" in repr(later)
        task = asyncio.create_task(ctx.step("task", lambda: 2))
        assert getattr(task.get_coro(), "__qualname__", "") == "ctx.step('task', ...)"
        future = asyncio.ensure_future(ctx.step("future", lambda: 3))
        async with asyncio.TaskGroup() as group:
            grouped = group.create_task(ctx.step("group", lambda: 4))
        gathered = await asyncio.gather(ctx.step("gather", lambda: 5), ctx.step("gather", lambda: 6))
        soon = await asyncio.wait_for(ctx.step("soon", lambda: 7), 300)
        completed = [await one for one in asyncio.as_completed([ctx.step("completed", lambda: 8)])]
        shielded = await asyncio.shield(ctx.step("shield", lambda: 9))
        ctx.step("never mind", lambda: 10).close()
        asyncio.create_task(ctx.sleep(3600))  # noqa: RUF006
        # It is left here, with what is awaited only later, and comes by a second time.
        asked = await ctx.approve("Go on?")
        got = [await later, await task, await future, grouped.result(), *gathered, soon, *completed, shielded]
        return {"got": got, "asked": bool(asked)}

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with shared_server.worker(app) as worker:
            run = shared_server.client.runs.start("patient")
            shared_server.asked(run.id)
            worker.until_idle()
            shared_server.accept(run.id)
            assert shared_server.result(run.id) == {"got": [1, 2, 3, 4, 5, 6, 7, 8, 9], "asked": True}
        gc.collect()


def test_an_error_of_the_function_is_not_blamed_on_what_it_did_not_come_to(shared_server: TestServer) -> None:
    app = App("unlucky")

    @app.agent("unlucky", idempotent=True)
    async def unlucky(ctx: Context) -> None:
        later = ctx.sleep(60)
        raise RuntimeError("before it came to that")
        await later

    with shared_server.worker(app):
        run = shared_server.wait(shared_server.client.runs.start("unlucky").id)
    assert run.error_code == "runtime_error"
    assert NotAwaitedError("a", "b").args == ("a was not awaited; write await a (and b)",)


@pytest.mark.parametrize("is_async", [True, False])
def test_a_step_is_given_a_function_and_not_what_it_gave(shared_server: TestServer, is_async: bool) -> None:
    app, name = App("hasty"), f"hasty-{is_async}".lower()

    def double(number: int) -> int:
        return 2 * number

    async def load(number: int) -> int:
        return number

    async def hasty(ctx: Context) -> Any:
        return await ctx.step("a", load(2))  # type: ignore[call-overload]

    def hasty_too(ctx: SyncContext) -> Any:
        return ctx.step("a", double(2))  # type: ignore[call-overload]

    app.agent(name)(hasty if is_async else hasty_too)
    with warnings.catch_warnings(), shared_server.worker(app):
        warnings.simplefilter("error")
        run = shared_server.wait(shared_server.client.runs.start(name).id)
    assert run.error_code == "wrong_call"
    assert run.error is not None
    called = "load" if is_async else "f"
    assert f"give the function and its arguments: ctx.step('a', {called}, 2)" in run.error["message"]
