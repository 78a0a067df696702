"""Code that blocks the event loop is named."""

from __future__ import annotations

import logging
import time

import pytest

from abide import App, Context, blocked
from abide.testing import PATIENCE_SECONDS, TestServer


@pytest.mark.parametrize("in_a_step", [True, False])
def test_who_blocks_the_loop_is_named(
    shared_server: TestServer, monkeypatch: pytest.MonkeyPatch, in_a_step: bool
) -> None:
    monkeypatch.setattr(blocked, "BLOCKED_SECONDS", 0.05)
    app, name, told = App("blockers"), f"blocks-{in_a_step}".lower(), list[str]()

    def hear(record: logging.LogRecord) -> bool:
        if name in record.getMessage() and "blocks the event loop" in record.getMessage():
            told.append(record.getMessage())
        return True

    log = logging.getLogger("abide.worker")
    monkeypatch.setattr(log, "filters", [hear])

    async def block() -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while not told and time.monotonic() < end:
            time.sleep(0.01)

    @app.agent(name, idempotent=True)
    async def blocks(ctx: Context) -> None:
        await (ctx.step("grind", block) if in_a_step else block())

    with shared_server.worker(app):
        run = shared_server.client.runs.start(name)
        shared_server.wait(run.id)
    step = ", step 'grind'" if in_a_step else ""
    assert f"run {run.id}, node {name}{step} blocks the event loop" in told[0]
    assert "(test_blocked.py, line " in told[0]
