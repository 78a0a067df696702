"""What a function gets when it runs again is what it got before, whatever it does at the same time."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest
from fake import Fake
from test_faults import app_of, ops, ops_count, play, until, working

from abide import App, Context, StepError, SyncContext, quiet
from abide.history import Branch, History
from abide.testing import TestServer, eventually


def test_as_completed_begins_branches_in_the_order_of_its_list() -> None:
    told: list[dict[str, str]] = []

    async def work(ctx: Context) -> None:
        async def search(name: str) -> tuple[str, str]:
            return name, await ctx.step("search", lambda: name, idempotent=True)

        # Where coroutines lie in memory, and so how a set of them is ordered, is not the same each time.
        spare = [search("") for _ in range(len(told) * 7)]
        for one in spare:
            one.close()
        searches = [search(f"name {n}") for n in range(12)]
        told.append(dict([await found for found in asyncio.as_completed(searches)]))
        await ctx.request_input("Well?", "text")

    async def test() -> None:
        fake = Fake("t.t")
        async with working(fake, app_of(work)) as worker:
            await until(lambda: fake.parks and not worker.held)
            fake.answer("1", "yes")
            await until(lambda: fake.ended)
        assert told == [{f"name {n}": f"name {n}" for n in range(12)}] * 2
        assert sorted(ops(fake, "step")) == sorted(f"search@{n}" for n in range(1, 13))

    play(test)


def test_wait_for_begins_no_branch_in_any_version_of_python() -> None:
    async def work(ctx: Context) -> None:
        async def pay() -> int:
            return await ctx.step("pay", lambda: 1)

        async def apart() -> int:
            return await asyncio.create_task(pay())

        await asyncio.wait_for(pay(), 300)
        await asyncio.wait_for(apart(), 300)
        await asyncio.gather(asyncio.wait_for(pay(), 300), asyncio.wait_for(pay(), 300))

    async def test() -> None:
        fake = Fake("t.t")
        async with working(fake, app_of(work)):
            await until(lambda: fake.ended)
        assert sorted(ops(fake, "step")) == ["pay", "pay@1", "pay@wait_for-1", "pay@wait_for-2"]

    play(test)


def test_as_completed_of_something_without_an_order_is_refused() -> None:
    async def work(ctx: Context) -> None:
        async def search(name: str) -> str:
            return await ctx.step("search", lambda: name, idempotent=True)

        searches = {search(name) for name in "abc"}
        try:
            for found in asyncio.as_completed(searches):
                await found
        finally:
            for one in searches:
                one.close()

    async def test() -> None:
        fake = Fake("t.t")
        async with working(fake, app_of(work)):
            await until(lambda: fake.ended)
        assert fake.ended is not None
        assert "as_completed has to be given a list" in fake.ended["error"]["message"]

    play(test)


def test_another_attempt_may_go_another_way(shared_server: TestServer) -> None:
    app, done = App("other-way"), list[str]()

    def shaky() -> str:
        done.append("shaky")
        if done.count("shaky") == 1:
            raise ConnectionError("not now")
        return "done"

    async def other_way(ctx: Context) -> dict[str, Any]:
        try:
            await ctx.step("shaky", shaky)
        except StepError:
            await ctx.step("tidy up", lambda: done.append("tidy up"))
            raise
        return {"answer": await ctx.request_input("Well?", "text"), "after": await ctx.step("more", lambda: 2)}

    retry = {"strategy": "fixed", "maxRetries": 1, "baseDelayMs": 0, "jitter": False}
    app.agent("other-way", idempotent=True, retry=retry)(other_way)
    with shared_server.worker(app) as worker:
        run = shared_server.client.runs.start("other-way")
        shared_server.asked(run.id)
        eventually(lambda: worker.held == 0 or None)
        shared_server.answer(run.id, "yes")
        assert shared_server.result(run.id) == {"answer": "yes", "after": 2}
    assert done == ["shaky", "tidy up", "shaky"]


def test_records_of_earlier_attempts_do_not_have_to_be_asked_for() -> None:
    items = [
        {"kind": "step", "key": "early", "value": 1, "attempt": 1},
        {"kind": "step", "key": "late", "value": 2, "attempt": 2},
    ]
    history = History("n:1", items, attempt=2)
    root = Branch()
    assert history.left(root) == 1
    assert history.claim("step", "late") is not None
    history.check_new(root, "step", "new", "here")
    assert history.was_past(root)
    assert history.claim("step", "early") is not None
    assert not history.was_past(root)


def test_a_function_is_not_left_while_a_thread_of_its_own_does_a_step() -> None:
    goes_on, done = Event(), list[int]()

    def pay() -> str:
        done.append(1)
        goes_on.wait(300)
        return "paid"

    def work(ctx: SyncContext) -> dict[str, Any]:
        with ThreadPoolExecutor(1) as pool:
            paid = pool.submit(lambda: ctx.step("pay", pay))
            eventually(lambda: done or None)
            return {"told": [ctx.request_input("Well?", "text"), paid.result()]}

    async def test() -> None:
        fake = Fake("t.t")
        async with working(fake, app_of(work), in_place=0.001) as worker:
            await until(lambda: ops_count(fake, "ask"))
            await asyncio.sleep(0.1)
            assert fake.parks == 0
            goes_on.set()
            await until(lambda: fake.parks and not worker.held)
            fake.answer("1", "yes")
            await until(lambda: fake.ended)
        assert fake.ended is not None
        assert (fake.ended.get("outputs"), done) == ({"told": ["yes", "paid"]}, [1])

    play(test)


def test_a_step_that_was_slower_than_those_after_it_is_no_change_of_the_code() -> None:
    async def work(ctx: Context) -> dict[str, Any]:
        slow = asyncio.create_task(ctx.step("slow", lambda: 3, idempotent=True))
        told = [await ctx.step("one", lambda: 0, idempotent=True), await ctx.request_input("Well?", "text")]
        told.append(await ctx.step("two", lambda: 0, idempotent=True))
        return {"told": [*told, await slow]}

    async def test() -> None:
        fake = Fake("t.t")
        fake.history += [{"kind": "step", "key": "one", "value": 1}, {"kind": "ask", "key": None, "call": 1}]
        fake.history += [{"kind": "step", "key": "two", "value": 2}]
        fake.answers["1"] = {"state": "answered", "interruptId": "int-1", "value": "yes", "by": "ada"}
        async with working(fake, app_of(work)):
            await until(lambda: fake.ended)
        assert fake.ended is not None
        assert fake.ended.get("outputs") == {"told": [1, "yes", 2, 3]}

    play(test)


def test_a_version_in_a_branch_knows_that_a_question_with_a_key_was_asked() -> None:
    async def work(ctx: Context) -> dict[str, Any]:
        async def ask(team: str) -> list[Any]:
            return [await ctx.version("more", 1), await ctx.request_input(f"{team}?", "text", key=team)]

        return {"told": list(await asyncio.gather(ask("law"), ask("news")))}

    async def test() -> None:
        fake = Fake("t.t")
        for team in ("law", "news"):
            fake.history.append({"kind": "ask", "key": team, "call": 1})
            fake.answers[team] = {"state": "answered", "interruptId": f"int-{team}", "value": team, "by": "ada"}
        async with working(fake, app_of(work)):
            await until(lambda: fake.ended)
        assert fake.ended is not None
        assert fake.ended.get("outputs") == {"told": [[0, "law"], [0, "news"]]}

    play(test)


def test_a_timeout_of_asyncio_around_a_question_comes_to_an_end() -> None:
    async def work(ctx: Context) -> dict[str, Any]:
        try:
            async with asyncio.timeout(0.3):
                await ctx.request_input("Well?", "text")
        except TimeoutError:
            return {"told": "nobody answered"}
        return {}

    async def test() -> None:
        fake = Fake("t.t")
        async with working(fake, app_of(work), in_place=0.001):
            await until(lambda: fake.ended or fake.parks)
        assert fake.ended is not None
        assert fake.ended["outputs"] == {"told": "nobody answered"}

    play(test)


def test_a_timeout_of_asyncio_runs_until_it_has_been_told() -> None:
    async def test() -> None:
        task = asyncio.current_task()
        assert task is not None
        runs = [False, True]
        try:
            async with asyncio.timeout(0):
                # Its time has come, and nobody has been told.
                runs[0] = quiet.has_timeout(asyncio.get_running_loop(), [task])
                await asyncio.sleep(60)
        except TimeoutError:
            runs[1] = quiet.has_timeout(asyncio.get_running_loop(), [task])
        assert runs == [True, False]

    play(test)


@pytest.mark.parametrize("how", ["shield", "anyio"])
def test_a_function_is_left_whatever_stands_between_it_and_its_questions(how: str) -> None:
    anyio = pytest.importorskip("anyio")

    async def work(ctx: Context) -> dict[str, Any]:
        if how == "shield":
            return {"told": await asyncio.shield(ctx.request_input("Well?", "text", key="q"))}
        told: list[Any] = []

        async def ask() -> None:
            told.append(await ctx.request_input("Well?", "text", key="q"))

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
        return {"told": told[0]}

    async def test() -> None:
        fake = Fake("t.t")
        async with working(fake, app_of(work), in_place=0.001) as worker:
            await until(lambda: fake.parks and not worker.held)
            fake.answer("q", "yes")
            await until(lambda: fake.ended)
        assert fake.ended is not None
        assert fake.ended.get("outputs") == {"told": "yes"}

    play(test)
