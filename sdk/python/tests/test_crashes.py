"""Workers and servers that die. The effects of steps are counted in a file, which outlives them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from abide import App, Client, Context, ContextLostError
from abide.testing import TestServer, eventually

PROGRAM = """
import asyncio, os, pathlib
from abide import App, Context

app = App("crashes")
here = pathlib.Path(__file__).parent


def note(line: str) -> str:
    with open(here / "effects", "a") as effects:
        effects.write(line + "\\n")
    return line


async def wait_for(name: str) -> None:
    (here / f"at-{name}").touch()
    while not (here / f"go-{name}").exists():
        await asyncio.sleep(0.005)


@app.agent("job", idempotent=True)
async def job(ctx: Context) -> dict[str, str]:
    first = await ctx.step("first", note, "first")
    await wait_for("between")
    answer = await ctx.request_input("Go on?", "confirm")
    last = await ctx.step("last", note, "last")
    return {"first": first, "answer": answer, "last": last}


@app.agent("once")
async def once(ctx: Context) -> None:
    async def charge() -> None:
        note("charge")
        await wait_for("charge")

    await ctx.step("charge", charge)
"""


class Process:
    """A worker in a process of its own."""

    def __init__(self, server: TestServer, folder: Path) -> None:
        self.folder = folder
        (folder / "crashing.py").write_text(PROGRAM)
        environment = {**os.environ, **server.environment}
        command = [sys.executable, "-m", "abide.worker", "crashing:app", "--in-place", "0.05"]
        self.said = folder / "said"
        with self.said.open("ab") as out:
            self.process = subprocess.Popen(command, cwd=folder, env=environment, stderr=out)

    def reached(self, name: str) -> None:
        eventually(lambda: (self.folder / f"at-{name}").exists() or None)

    def lets_go(self, name: str) -> None:
        (self.folder / f"go-{name}").touch()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def effects(self) -> list[str]:
        path = self.folder / "effects"
        return path.read_text().split() if path.exists() else []


@contextlib.contextmanager
def process(server: TestServer, folder: Path) -> Iterator[Process]:
    made = Process(server, folder)
    try:
        yield made
    finally:
        made.kill()


def test_a_killed_workers_task_goes_on_elsewhere_and_repeats_no_recorded_step(
    server: TestServer, tmp_path: Path
) -> None:
    with process(server, tmp_path) as first:
        eventually(lambda: "job" in server.client.workflows.list() or None)
        run = server.client.runs.start("job")
        first.reached("between")
        first.kill()
    with process(server, tmp_path) as second:
        second.lets_go("between")
        eventually(lambda: later(server).inbox.list(run=run.id) or None)
        server.answer(run.id, "yes")
        assert server.result(run.id) == {"first": "first", "answer": "yes", "last": "last"}
        assert second.effects == ["first", "last"]


def later(server: TestServer) -> Client:
    """Lets a lease run out: it is counted by the server's clock, which stands still."""
    server.advance(10)
    return server.client


def test_a_step_that_must_not_be_done_twice_is_not(server: TestServer, tmp_path: Path) -> None:
    with process(server, tmp_path) as first:
        eventually(lambda: "once" in server.client.workflows.list() or None)
        run = server.client.runs.start("once")
        first.reached("charge")
        first.kill()
    with process(server, tmp_path) as second:
        second.lets_go("charge")
        eventually(lambda: later(server).runs.get(run.id).ended or None)
        ended = server.client.runs.get(run.id)
        assert ended.error is not None
        assert ended.error["code"] == "outcome_unknown"
        assert second.effects == ["charge"]


def test_a_worker_outlives_its_server(server: TestServer, tmp_path: Path) -> None:
    with process(server, tmp_path) as worker:
        eventually(lambda: "job" in server.client.workflows.list() or None)
        run = server.client.runs.start("job")
        worker.reached("between")
        server.kill()
        worker.lets_go("between")
        server.start()
        server.answer(run.id, "yes")
        assert server.result(run.id) == {"first": "first", "answer": "yes", "last": "last"}
        assert worker.effects == ["first", "last"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_a_second_one_stops(server: TestServer, tmp_path: Path, number: signal.Signals) -> None:
    with process(server, tmp_path) as worker:
        eventually(lambda: "once" in server.client.workflows.list() or None)
        run = server.client.runs.start("once")
        worker.reached("charge")
        worker.process.send_signal(number)
        eventually(lambda: "leaving once" in worker.said.read_text() or None)
        assert worker.process.poll() is None
        worker.lets_go("charge")
        assert worker.process.wait(300) == 0
        assert server.wait(run.id).status == "completed"
    (tmp_path / "go-between").unlink(missing_ok=True)
    (tmp_path / "at-between").unlink(missing_ok=True)
    with process(server, tmp_path) as worker:
        server.client.runs.start("job")
        worker.reached("between")
        worker.process.send_signal(number)
        eventually(lambda: worker.said.read_text().count("leaving once") == 2 or None)
        worker.process.send_signal(number)
        assert worker.process.wait(300) == 1


def test_an_interrupted_run_waits_for_a_person_if_there_is_one() -> None:
    app = App("unlucky")
    tried: list[str] = []

    @app.agent("unlucky")
    async def unlucky(ctx: Context) -> str:
        tried.append("again")
        if len(tried) == 1:
            raise ContextLostError("the sandbox is gone")
        return "done"

    with TestServer(attended=True) as server, server.worker(app):
        run = server.client.runs.start("unlucky")
        (question,) = server.asked(run.id)
        assert question.node_id == "abide:resume"
        assert server.client.runs.get(run.id).status == "paused"
        server.accept(run.id)
        assert (server.result(run.id), len(tried)) == ({"result": "done"}, 2)

    tried.clear()
    with TestServer() as server, server.worker(app):
        ended = server.wait(server.client.runs.start("unlucky").id)
        assert (ended.status, ended.error_code, len(tried)) == ("failed", "context_lost", 1)
