"""A worker goes on when what answers is not the server, and when functions and hooks behave badly."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from fake import Fake
from test_faults import app_of, ops, ops_count, play, until, working

from abide import Context, SyncContext
from abide.connection import Connection


def html() -> httpx2.Response:
    return httpx2.Response(200, text="<html>We'll be back soon</html>")


def missing() -> httpx2.Response:
    return httpx2.Response(404, text="404 page not found")


def forbidden() -> httpx2.Response:
    return httpx2.Response(403, json={"error": "forbidden", "message": "not with this key"})


def moved() -> httpx2.Response:
    return httpx2.Response(302, headers={"Location": "http://elsewhere"})


@pytest.mark.parametrize("where", ["/ops", ":poll"])
@pytest.mark.parametrize("strange", [html, missing, forbidden, moved])
def test_what_is_not_the_servers_answer_is_waited_out(where: str, strange: Callable[[], httpx2.Response]) -> None:
    done: list[int] = []

    async def work(ctx: Context) -> None:
        await ctx.step("pay", lambda: done.append(1))

    async def test() -> None:
        fake, times = Fake("t.t"), list[int]()

        def interfere(path: str, body: Any) -> httpx2.Response | None:
            if not path.endswith(where) or len(times) >= 3:
                return None
            times.append(1)
            return strange()

        fake.interfere = interfere
        async with working(fake, app_of(work)):
            await until(lambda: fake.ended)
        assert fake.ended is not None
        assert (fake.ended["op"], done) == ("complete", [1])

    play(test)


def test_a_proxy_that_lets_nothing_large_through_fails_what_is_large() -> None:
    async def work(ctx: Context) -> None:
        await ctx.step("large", lambda: "x" * 1000, idempotent=True)

    async def test() -> None:
        fake = Fake("t.t")

        def proxy(path: str, body: Any) -> httpx2.Response | None:
            large = path.endswith("/ops") and any(op.get("value") == "x" * 1000 for op in body["ops"])
            return httpx2.Response(413, text="<html>too large</html>") if large else None

        fake.interfere = proxy
        async with working(fake, app_of(work)):
            await until(lambda: fake.ended)
        assert fake.ended is not None
        assert fake.ended["error"]["code"] == "http_413"

    play(test)


def test_an_op_that_was_skipped_goes_before_those_that_came_later() -> None:
    async def work(ctx: Context) -> None:
        ctx.log("refused")
        await asyncio.gather(*(ctx.step(f"s{n}", lambda: 1, idempotent=True) for n in range(3)))

    async def test() -> None:
        fake, seen = Fake("t.t"), list[str]()

        def skip(path: str, body: Any) -> httpx2.Response | None:
            if not path.endswith("/ops") or not body["ops"]:
                return None
            seen.extend(op.get("key", op["op"]) for op in body["ops"])
            if body["ops"][0]["op"] != "note":
                return None
            refused = {"ok": False, "error": {"code": "value_too_large", "message": "no", "status": 413}}
            skipped = {"ok": False, "error": {"code": "op_skipped", "message": "no", "status": 409}}
            return httpx2.Response(200, json={"results": [refused, *[skipped] * (len(body["ops"]) - 1)]})

        fake.interfere = skip
        async with working(fake, app_of(work)):
            await until(lambda: fake.ended)
        assert ops(fake, "step") == ["s0", "s1", "s2"]
        assert seen[-1] == "complete"

    play(test)


@pytest.mark.parametrize("is_async", [True, False])
def test_a_function_can_not_end_the_worker(is_async: bool) -> None:
    async def leaves(ctx: Context) -> None:
        sys.exit(3)

    def leaves_too(ctx: SyncContext) -> None:
        sys.exit(3)

    async def test() -> None:
        fake = Fake("t.t")
        async with working(fake, app_of(leaves if is_async else leaves_too)):
            await until(lambda: fake.ended)
        assert fake.ended is not None
        assert "it wanted to end the worker: SystemExit(3)" in fake.ended["error"]["message"]

    play(test)


@pytest.mark.parametrize("error", [asyncio.CancelledError("gone"), SystemExit(3), ValueError("no file \udc80")])
def test_a_hook_that_ends_badly_is_told_of(error: BaseException) -> None:
    async def work(ctx: Context) -> None: ...

    app = app_of(work)

    @app.on_input_requested
    async def tell(suspension: Any) -> None:
        raise error

    async def test() -> None:
        fake = Fake("t.t")
        async with working(fake, app):
            suspension = {"id": "i", "question": "Well?", "response_type": "text"}
            fake.say(
                type="hook",
                id="h",
                hook="input_requested",
                runId="r",
                nodeId="n",
                agent="tests",
                suspension=suspension,
            )
            await until(lambda: ops_count(fake, "hookDone"))
        assert [bool(op["error"]) for op in fake.ops if op["op"] == "hookDone"] == [True]

    play(test)


def test_a_task_that_is_handed_out_again_is_not_done_twice_at_the_same_time() -> None:
    seen: list[str] = []

    async def work(ctx: Context) -> None:
        seen.append("begins")
        try:
            await asyncio.sleep(0 if len(seen) > 1 else 300)
        except asyncio.CancelledError:
            seen.append("is lost")
            raise

    async def test() -> None:
        fake = Fake("t.t")
        async with working(fake, app_of(work)) as worker:
            await until(lambda: seen)
            fake.fence = 2
            fake.offer()
            await until(lambda: fake.ended and not worker.held)
        assert seen == ["begins", "is lost", "begins"] or seen == ["begins", "begins", "is lost"]
        assert fake.ended is not None
        assert (fake.ended["op"], fake.ended["fence"]) == ("complete", 2)

    play(test)


def test_a_key_is_not_shown() -> None:
    assert "secret" not in repr(Connection.find("http://here", "secret"))
