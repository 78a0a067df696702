"""Code that wants to end the process fails its own node, and disturbs nobody else's."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest

from abide import App, Context, EngagementDecision, StepError, SyncContext
from abide.testing import TestServer


def parse() -> None:
    argparse.ArgumentParser(prog="tool").parse_args(["--unknown"])


async def interrupt() -> None:
    await asyncio.sleep(0)
    raise KeyboardInterrupt


async def begin_others() -> None:
    await asyncio.gather(interrupt(), asyncio.sleep(0))


async def in_a_thread(ctx: Context) -> Any:
    await ctx.step("tool", parse)


async def in_a_step(ctx: Context) -> Any:
    await ctx.step("tool", interrupt)


async def in_a_task_of_a_step(ctx: Context) -> Any:
    await ctx.step("tool", begin_others)


async def in_a_task(ctx: Context) -> Any:
    async with asyncio.TaskGroup() as group:
        group.create_task(ctx.sleep(60))
        group.create_task(interrupt())


async def in_the_function(ctx: Context) -> Any:
    sys.exit("no more")


def in_a_step_of_a_thread(ctx: SyncContext) -> Any:
    ctx.step("tool", parse)


def in_an_async_step_of_a_thread(ctx: SyncContext) -> Any:
    ctx.step("tool", begin_others)


def in_parallel_threads(ctx: SyncContext) -> Any:
    ctx.gather(lambda: sys.exit(4), lambda: ctx.step("fine", lambda: 1))


def in_a_hook(ctx: SyncContext) -> Any:
    ctx.should_request_input(confidence=0.1)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (in_a_thread, "system_exit"),
        (in_a_step, "keyboard_interrupt"),
        (in_a_task_of_a_step, "keyboard_interrupt"),
        (in_a_task, "keyboard_interrupt"),
        (in_the_function, "system_exit"),
        (in_a_step_of_a_thread, "system_exit"),
        (in_an_async_step_of_a_thread, "keyboard_interrupt"),
        (in_parallel_threads, "system_exit"),
        (in_a_hook, "system_exit"),
    ],
)
def test_who_wants_to_leave_fails(shared_server: TestServer, body: Callable[..., Any], code: str) -> None:
    name = body.__name__.replace("_", "-")
    app = App(name)
    # A hook is called once: whoever may be resumed goes on behind it.
    app.agent(name, idempotent=body is not in_a_hook)(body)

    @app.agent(f"beside-{name}")
    async def beside(ctx: Context) -> bool:
        return bool(await ctx.approve("Still there?"))

    @app.on_engagement_decision
    async def leave(decision: EngagementDecision) -> None:
        sys.exit(5)

    with shared_server.worker(app, in_place=300):
        other = shared_server.client.runs.start(f"beside-{name}")
        shared_server.asked(other.id)
        run = shared_server.wait(shared_server.client.runs.start(name).id)
        assert (run.status, run.error_code) == ("failed", code)
        assert run.error is not None
        assert "it wanted to end the worker: " in run.error["message"]
        # The other waited in the same process all the time.
        shared_server.accept(other.id)
        assert shared_server.result(other.id) == {"result": True}


def test_a_step_that_wants_to_leave_can_be_handled(shared_server: TestServer) -> None:
    app = App("handlers")

    @app.agent("handles-exits", idempotent=True)
    async def handles(ctx: Context) -> str:
        try:
            await ctx.step("tool", parse, retries=1, retry_delay=0.001)
        except StepError as error:
            return error.code
        return "?"

    with shared_server.worker(app):
        run = shared_server.client.runs.start("handles-exits")
        assert shared_server.result(run.id) == {"result": "system_exit"}
