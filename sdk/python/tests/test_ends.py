"""However a function ends, the server hears of it: a task that nobody does any more must not stay with a worker."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from fake import Fake
from test_faults import app_of, ops_count, play, until, working

from abide import Context, FinalError, StepError


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (FinalError("no", details={"a": b"bytes"}), "no"),
        (FinalError("no", details={"a": float("nan")}), "no"),
        (FinalError("no", details={"a": "x" * (2 << 20)}), "no"),
        (FinalError("no file \udc80"), "no file \\udc80"),
    ],
)
def test_an_error_that_is_no_json_is_told_all_the_same(error: Exception, told: str) -> None:
    async def work(ctx: Context) -> None:
        raise error

    async def test() -> None:
        fake = Fake("t.t")
        async with working(fake, app_of(work)):
            await until(lambda: fake.ended)
        assert fake.ended is not None
        assert (fake.ended["error"]["code"], fake.ended["error"]["message"]) == ("final_error", told)
        assert len(str(fake.ended["error"]["details"])) < 100_000

    play(test)


def test_an_end_that_the_server_refuses_is_told_in_plainer_words() -> None:
    async def work(ctx: Context) -> None:
        raise FinalError("no", details={"why": "because"})

    async def test() -> None:
        fake = Fake("t.t")

        def refuse(path: str, body: Any) -> httpx2.Response | None:
            if path.endswith("/ops") and any(op.get("error", {}).get("details") for op in body["ops"]):
                return httpx2.Response(400, json={"error": "validation_error", "message": "I don't like it"})
            return None

        fake.interfere = refuse
        async with working(fake, app_of(work)):
            await until(lambda: fake.ended)
        assert fake.ended is not None
        assert (fake.ended["class"], fake.ended["error"]["code"]) == ("internal", "worker_error")

    play(test)


def test_a_final_error_of_a_step_is_final_when_the_function_runs_again() -> None:
    def never() -> None:
        raise FinalError("never")

    async def work(ctx: Context) -> None:
        try:
            await ctx.step("a", never, idempotent=True)
        except StepError:
            await ctx.request_input("Well?", "text")
            raise

    async def test() -> None:
        fake = Fake("t.t")
        async with working(fake, app_of(work)) as worker:
            await until(lambda: fake.parks and not worker.held)
            fake.answer("1", "go on")
            await until(lambda: fake.ended)
        assert fake.ended is not None
        assert (fake.ended["op"], fake.ended["retryable"]) == ("fail", False)
        assert ops_count(fake, "step") == 1

    play(test)
