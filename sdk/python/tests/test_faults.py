"""What a worker does when the network and the server misbehave, and when the function is unusual."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import pytest
from fake import Fake

from abide import App, Context, FinalError, StepError, SyncContext, Worker

PATIENCE = 300.0


def play(test: Callable[[], Any]) -> None:
    asyncio.run(asyncio.wait_for(test(), PATIENCE))


@contextlib.asynccontextmanager
async def working(fake: Fake, app: App, **options: Any) -> AsyncIterator[Worker]:
    worker = fake.worker(app, **options)
    running = asyncio.create_task(worker.run())
    fake.offer()
    yield worker
    worker.drain()
    await running


async def until(look: Callable[[], Any]) -> None:
    while not look():
        await asyncio.sleep(0.001)


def ops(fake: Fake, name: str) -> list[str]:
    return [op["key"] for op in fake.ops if op["op"] == name]


def app_of(function: Callable[..., Any], **options: Any) -> App:
    app = App("tests")
    app.node("t.t", **options)(function)
    return app


def test_a_lost_answer_is_asked_for_again_and_the_step_is_done_once() -> None:
    done: list[int] = []

    def pay() -> str:
        done.append(1)
        return "receipt"

    async def work(ctx: Context) -> dict[str, Any]:
        return {"paid": await ctx.step("pay", pay)}

    async def test() -> None:
        fake, lost = Fake("t.t"), set[str]()

        def lose(path: str, body: Any) -> bool:
            names = {op["op"] for op in body["ops"]} if path.endswith("/ops") else set()
            new = bool(names & {"begin", "step"} - lost)
            lost.update(names)
            return new

        fake.lose_answer = lose
        async with working(fake, app_of(work)):
            await until(lambda: fake.ended)
        assert fake.ended is not None
        assert fake.ended["outputs"] == {"paid": "receipt"}
        assert (ops(fake, "begin"), done) == (["pay", "pay"], [1])

    play(test)


def test_a_server_that_forgot_the_worker_is_told_again_what_it_holds() -> None:
    async def work(ctx: Context) -> None:
        await ctx.step("a", lambda: 1, idempotent=True)
        fake.sessions.clear()
        await ctx.step("b", lambda: 2, idempotent=True)

    fake = Fake("t.t")

    async def test() -> None:
        async with working(fake, app_of(work)):
            await until(lambda: fake.ended)
        registered = [body for path, body in fake.requests if path == "/v1/workers"]
        assert registered[-1]["holding"] == [{"task": "t", "fence": 1}]
        assert registered[-1]["session"] == registered[0]["session"]
        assert fake.ended is not None
        assert fake.ended["op"] == "complete"

    play(test)


def test_a_busy_server_is_asked_again() -> None:
    async def work(ctx: Context) -> None:
        await ctx.step("a", lambda: 1, idempotent=True)

    async def test() -> None:
        fake, refusals = Fake("t.t"), [503, 500, 429]

        def busy(path: str, body: Any) -> httpx2.Response | None:
            if path.endswith("/ops") and refusals:
                return httpx2.Response(refusals.pop(), json={"error": "overloaded", "message": "later"})
            return None

        fake.interfere = busy
        async with working(fake, app_of(work)):
            await until(lambda: fake.ended)
        assert (refusals, ops(fake, "step")) == ([], ["a"])

    play(test)


def test_a_task_that_is_somebody_elses_is_left_without_another_word() -> None:
    after: list[str] = []

    async def work(ctx: Context) -> None:
        try:
            await ctx.step("a", lambda: 1, idempotent=True)
            after.append("went on")
        except Exception:
            after.append("was told")

    async def test() -> None:
        fake = Fake("t.t")
        async with working(fake, app_of(work)) as worker:
            await until(lambda: worker.held)
            fake.fence = 7
            await until(lambda: not worker.held)
        assert (after, fake.ended) == ([], None)

    play(test)


def test_ops_of_many_tasks_share_requests() -> None:
    async def work(ctx: Context) -> None:
        await asyncio.gather(*(ctx.step(f"s{n}", lambda: 1, idempotent=True) for n in range(100)))

    async def test() -> None:
        fake = Fake("t.t")
        async with working(fake, app_of(work)):
            await until(lambda: fake.ended)
        requests = [body["ops"] for path, body in fake.requests if path.endswith("/ops") and body["ops"]]
        assert sum(len(request) for request in requests) == 101
        assert len(requests) <= 50

    play(test)


def test_one_op_that_makes_a_request_too_large_does_not_fail_the_others() -> None:
    async def work(ctx: Context) -> dict[str, Any]:
        told = await asyncio.gather(
            ctx.step("small", lambda: 1, idempotent=True),
            ctx.step("large", lambda: "x" * 1000, idempotent=True),
            return_exceptions=True,
        )
        return {"told": [one if isinstance(one, int) else type(one).__name__ for one in told]}

    async def test() -> None:
        fake = Fake("t.t")

        def refuse(path: str, body: Any) -> httpx2.Response | None:
            if path.endswith("/ops") and any(op.get("value") == "x" * 1000 for op in body["ops"]):
                return httpx2.Response(413, json={"error": "value_too_large", "message": "too large"})
            return None

        fake.interfere = refuse
        async with working(fake, app_of(work)):
            await until(lambda: fake.ended)
        assert fake.ended is not None
        assert fake.ended["outputs"] == {"told": [1, "ApiError"]}

    play(test)


def test_which_branch_is_faster_does_not_matter_when_the_function_runs_again() -> None:
    asked: list[str] = []

    async def work(ctx: Context) -> dict[str, Any]:
        async def branch(name: str, slow: int) -> list[Any]:
            for _ in range(slow if not asked else 5 - slow):
                await asyncio.sleep(0.001)
            found = await ctx.step("search", lambda: name, idempotent=True)
            answer = await ctx.request_input(f"May I read {name}?", "text")
            return [found, answer]

        return {"told": list(await asyncio.gather(branch("news", 5), branch("law", 0)))}

    async def test() -> None:
        fake = Fake("t.t")
        async with working(fake, app_of(work)) as worker:
            await until(lambda: fake.parks and not worker.held)
            asked.append("once")
            fake.answer("work:1@1:1", "news may be read")
            await until(lambda: fake.parks == 2 and not worker.held)
            fake.answer("work:1@2:1", "law may be read")
            await until(lambda: fake.ended)
        assert fake.ended is not None
        assert fake.ended["outputs"] == {"told": [["news", "news may be read"], ["law", "law may be read"]]}

    play(test)


def test_work_outside_of_steps_keeps_a_function_from_being_left() -> None:
    let_go = asyncio.Event()

    async def work(ctx: Context) -> None:
        async def busy() -> None:
            while not let_go.is_set():
                await asyncio.sleep(0.001)

        await asyncio.gather(busy(), ctx.request_input("Well?", "text"))

    async def test() -> None:
        fake = Fake("t.t")
        async with working(fake, app_of(work), in_place=0.001) as worker:
            await until(lambda: ops_count(fake, "ask"))
            for _ in range(50):
                await asyncio.sleep(0.001)
            assert fake.parks == 0
            let_go.set()
            await until(lambda: fake.parks and not worker.held)

    play(test)


def ops_count(fake: Fake, name: str) -> int:
    return sum(op["op"] == name for op in fake.ops)


def test_a_function_that_swallows_everything_is_left_all_the_same() -> None:
    async def work(ctx: Context) -> dict[str, Any]:
        told = await asyncio.gather(
            ctx.request_input("One?", "text"), ctx.request_input("Two?", "text"), return_exceptions=True
        )
        return {"told": [str(one) for one in told]}

    async def test() -> None:
        fake = Fake("t.t")
        async with working(fake, app_of(work)) as worker:
            await until(lambda: fake.parks and not worker.held)
            assert fake.ended is None
            fake.answer("1", "a")
            await until(lambda: fake.parks == 2 and not worker.held)
            fake.answer("2", "b")
            await until(lambda: fake.ended)
        assert fake.ended is not None
        assert fake.ended["outputs"] == {"told": ["a", "b"]}

    play(test)


def test_an_answer_that_comes_at_once_is_taken_in_place() -> None:
    entered: list[int] = []

    async def work(ctx: Context) -> dict[str, Any]:
        entered.append(1)
        return {"told": await ctx.request_input("Well?", "text")}

    async def test() -> None:
        fake = Fake("t.t")
        async with working(fake, app_of(work), in_place=PATIENCE):
            await until(lambda: ops_count(fake, "ask"))
            fake.answer("1", "yes")
            await until(lambda: fake.ended)
        assert fake.ended is not None
        assert (fake.ended["outputs"], entered, fake.parks) == ({"told": "yes"}, [1], 0)

    play(test)


def test_a_step_fails_in_the_same_way_whenever_the_function_runs() -> None:
    done: list[int] = []

    class CardDeclined(Exception):
        pass

    def charge() -> None:
        done.append(1)
        raise CardDeclined("no money")

    async def work(ctx: Context) -> dict[str, Any]:
        try:
            await ctx.step("charge", charge)
        except StepError as error:
            told = (error.code, error.message, error.step)
        return {"told": [*told, await ctx.request_input("Well?", "text")]}

    async def test() -> None:
        fake = Fake("t.t")
        async with working(fake, app_of(work)) as worker:
            await until(lambda: fake.parks and not worker.held)
            fake.answer("1", "yes")
            await until(lambda: fake.ended)
        assert fake.ended is not None
        assert fake.ended["outputs"] == {"told": ["card_declined", "no money", "charge", "yes"]}
        assert done == [1]

    play(test)


@pytest.mark.parametrize(("idempotent", "effect"), [(True, "none"), (False, "possible")])
def test_a_failure_says_whether_something_may_have_been_done(idempotent: bool, effect: str) -> None:
    def fail() -> None:
        raise RuntimeError("broken")

    async def work(ctx: Context) -> None:
        await ctx.step("a", fail, idempotent=idempotent)

    async def test() -> None:
        fake = Fake("t.t")
        async with working(fake, app_of(work)):
            await until(lambda: fake.ended)
        assert fake.ended is not None
        assert (fake.ended["op"], fake.ended["class"], fake.ended["effect"]) == ("fail", "tool", effect)
        assert fake.ended["error"]["code"] == "runtime_error"
        assert "run run-1, node work, step 'a'" in fake.ended["error"]["details"]["traceback"]

    play(test)


def test_a_step_is_tried_again_where_that_does_no_harm() -> None:
    tries: list[str] = []

    def shaky(name: str) -> str:
        tries.append(name)
        if len(tries) < 3:
            raise ConnectionError("try again")
        return name

    def final() -> None:
        tries.append("final")
        raise FinalError("never")

    def once() -> None:
        tries.append("once")
        raise ConnectionError("who knows")

    async def work(ctx: Context) -> None:
        await ctx.step("shaky", shaky, "s", idempotent=True, retries=5, retry_delay=0)
        with contextlib.suppress(StepError):
            await ctx.step("final", final, idempotent=True, retries=5, retry_delay=0)
        with contextlib.suppress(StepError):
            await ctx.step("once", once, idempotent=False, retries=5, retry_delay=0)

    async def test() -> None:
        fake = Fake("t.t")
        async with working(fake, app_of(work)):
            await until(lambda: fake.ended)
        assert tries == ["s", "s", "s", "final", "once"]

    play(test)


def test_a_step_that_the_function_gave_up_is_given_up_again() -> None:
    began: list[int] = []

    async def forever() -> None:
        began.append(1)
        await asyncio.Event().wait()

    async def work(ctx: Context) -> dict[str, Any]:
        try:
            async with asyncio.timeout(0.001):
                await ctx.step("slow", forever, idempotent=True)
        except TimeoutError:
            return {"told": await ctx.request_input("It takes long. Well?", "text")}
        return {}

    async def test() -> None:
        fake = Fake("t.t")
        async with working(fake, app_of(work)) as worker:
            await until(lambda: fake.parks and not worker.held)
            fake.answer("1", "never mind")
            await until(lambda: fake.ended)
        assert fake.ended is not None
        assert (fake.ended["outputs"], began) == ({"told": "never mind"}, [1])

    play(test)


def test_code_that_catches_its_own_change_can_not_go_on() -> None:
    async def work(ctx: Context) -> dict[str, Any]:
        with contextlib.suppress(Exception):
            await ctx.step("new", lambda: 1, idempotent=True)
        return {"wrong": True}

    async def test() -> None:
        fake = Fake("t.t")
        fake.history.append({"kind": "step", "key": "old", "value": 1})
        async with working(fake, app_of(work)):
            await until(lambda: fake.ended)
        assert fake.ended is not None
        assert (fake.ended["op"], fake.ended["class"], fake.ended["effect"]) == ("fail", "code_changed", "none")
        assert "'new'" in fake.ended["error"]["message"]
        assert "'old'" in fake.ended["error"]["message"]
        assert "run run-1, node work" in fake.ended["error"]["message"]

    play(test)


def test_a_context_is_not_for_use_inside_a_step() -> None:
    async def work(ctx: Context) -> None:
        async def inner() -> None:
            await ctx.sleep(1)

        await ctx.step("outer", inner)

    async def test() -> None:
        fake = Fake("t.t")
        async with working(fake, app_of(work)):
            await until(lambda: fake.ended)
        assert fake.ended is not None
        assert "step 'outer' uses the context" in fake.ended["error"]["message"]

    play(test)


def test_a_cancelled_question_is_told_to_whoever_asked() -> None:
    seen: list[str] = []

    async def work(ctx: Context) -> None:
        try:
            await ctx.request_input("Well?", "text")
        except Exception as error:
            seen.append(type(error).__name__)
            raise

    async def test() -> None:
        fake = Fake("t.t")
        async with working(fake, app_of(work), in_place=PATIENCE):
            await until(lambda: ops_count(fake, "ask"))
            await asyncio.sleep(0)
            fake.say(type="cancel", task="t", fence=1, reason="no longer wanted")
            await until(lambda: fake.ended)
        assert fake.ended is not None
        assert seen == ["InputCancelledError"]
        assert (fake.ended["class"], fake.ended["error"]["message"]) == ("cancelled", "no longer wanted")

    play(test)


def test_work_that_is_cancelled_sees_it_where_it_waits() -> None:
    seen: list[str] = []

    async def work(ctx: Context) -> None:
        try:
            await ctx.step("slow", asyncio.sleep, PATIENCE)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def test() -> None:
        fake = Fake("t.t")
        async with working(fake, app_of(work)):
            await until(lambda: ops(fake, "begin"))
            fake.say(type="cancel", task="t", fence=1, reason="no longer wanted")
            await until(lambda: fake.ended)
        assert fake.ended is not None
        assert (seen, fake.ended["class"], fake.ended["effect"]) == (["cancelled"], "cancelled", "possible")

    play(test)


def test_functions_that_are_not_async_wait_in_threads_and_in_parallel() -> None:
    def work(ctx: SyncContext, n: int) -> dict[str, Any]:
        doubled = ctx.step("double", lambda: n * 2)

        async def later() -> int:
            return doubled + 1

        more = ctx.step("more", later)
        answers = ctx.gather(
            lambda: ctx.request_input("One?", "text"),
            lambda: ctx.step("t", lambda: "t") + ctx.request_input("Two?", "text"),
        )
        return {"told": [doubled, more, *answers]}

    async def test() -> None:
        fake = Fake("t.t", {"n": 4})
        async with working(fake, app_of(work, idempotent=True)) as worker:
            await until(lambda: fake.parks and not worker.held)
            fake.answer("work:1@2:1", "b")
            await until(lambda: fake.parks == 2 and not worker.held)
            fake.answer("work:1@1:1", "a")
            await until(lambda: fake.ended)
        assert fake.ended is not None
        assert fake.ended["outputs"] == {"told": [8, 9, "a", "tb"]}

    play(test)


def test_a_worker_that_drains_finishes_a_step_and_parks_what_waits() -> None:
    goes_on = asyncio.Event()

    async def work(ctx: Context) -> None:
        await ctx.step("slow", goes_on.wait, idempotent=True)
        await ctx.request_input("Well?", "text")

    async def test() -> None:
        fake = Fake("t.t")
        worker = fake.worker(app_of(work), in_place=PATIENCE)
        running = asyncio.create_task(worker.run())
        fake.offer()
        await until(lambda: worker.held)
        worker.drain()
        await until(lambda: any(path.endswith(":drain") for path, _ in fake.requests))
        goes_on.set()
        await running
        assert (ops(fake, "step"), fake.parks) == (["slow"], 1)
        assert fake.requests[-1][0].count("/") == 3

    play(test)


def test_a_draining_worker_gives_back_what_it_has_not_begun() -> None:
    async def work(ctx: Context) -> None: ...

    async def test() -> None:
        fake = Fake("t.t")

        def late(path: str, body: Any) -> None:
            if path.endswith(":drain"):
                fake.offer()

        fake.interfere = late
        worker = fake.worker(app_of(work))
        worker._hooks.add("keeps it from leaving")
        running = asyncio.create_task(worker.run())
        await until(worker.ready.is_set)
        worker.drain()
        await until(lambda: ops_count(fake, "release"))
        worker._hooks.clear()
        worker._changed.set()
        await running
        assert fake.ended is None

    play(test)


def test_a_key_of_a_question_is_used_once() -> None:
    fixed: list[int] = []

    async def work(ctx: Context) -> None:
        while not await ctx.approve("Is it right now?", key="right"):
            await ctx.step("fix", lambda: fixed.append(1), idempotent=True)

    async def test() -> None:
        fake = Fake("t.t")
        fake.answers["right"] = {"state": "answered", "interruptId": "i", "value": {"action": "reject"}, "by": "ada"}
        async with working(fake, app_of(work)):
            await until(lambda: fake.ended)
        assert fake.ended is not None
        assert "the key 'right' was asked already" in fake.ended["error"]["message"]
        assert fixed == [1]

    play(test)


def test_lines_of_a_log_are_cut_to_what_the_server_takes() -> None:
    async def work(ctx: Context) -> None:
        ctx.log("€" * 5000)
        ctx.log("no file \udc80")

    async def test() -> None:
        fake = Fake("t.t")
        async with working(fake, app_of(work)):
            await until(lambda: fake.ended)
        lines = [op["lines"][0]["message"] for op in fake.ops if op["op"] == "note"]
        assert 7990 < len(lines[0].encode()) <= 8192
        assert lines[1] == "no file \\udc80"

    play(test)
