"""Plays a scenario of `sdk/scenarios` as a worker, until somebody ends it. The README there says what it must do.

python scenario_worker.py SCENARIO.json FOLDER [--capacity N] [--changed] [--sync]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import abide
from abide import App, Context, FinalError, RetryableError, SyncContext

Op = Mapping[str, Any]
Program = list[dict[str, Any]]

POLL_SECONDS = 0.002
"""How often it looks whether it may go on."""


class Folder:
    """The outside world: what was done, and where a run is to stop. It outlives every process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._passes: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()

    def effect(self, label: str, program: str, name: str) -> None:
        """Does what a step does."""
        self._append("effects", {"run": label, "program": program, "step": name})

    def reach(self, label: str, point: str, stop: Mapping[str, Any] | None) -> Path | None:
        """Passes a point. If the run is to stop here, gives the file that lets it go on."""
        with self._lock:
            self._passes[label, point] += 1
            number = self._passes[label, point]
        self._append("points", {"run": label, "point": point, "pass": number})
        if stop is None or stop["point"] != point or stop["pass"] != number:
            return None
        try:
            (self._path / "reached" / label).touch(exist_ok=False)
        except FileExistsError:
            # An earlier process stopped here, and was killed.
            return None
        return self._path / "go" / label

    def _append(self, name: str, told: Mapping[str, Any]) -> None:
        file = os.open(self._path / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(file, json.dumps(told).encode() + b"\n")
        finally:
            os.close(file)


class Player:
    """One run of a program."""

    def __init__(self, folder: Folder, name: str, inputs: Mapping[str, Any]) -> None:
        self.folder = folder
        self.name = name
        self.inputs = inputs
        self.values: dict[str, Any] = {}

    def reach(self, place: str, phase: str) -> Path | None:
        """Passes a point of the program."""
        point = f"{self.name}/{place}/{phase}" if place else f"{self.name}/{phase}"
        return self.folder.reach(self.inputs["label"], point, self.inputs.get("stop"))

    def keep(self, op: Op, value: Any) -> None:
        """Keeps what an operation gave."""
        if "as" in op:
            self.values[op["as"]] = value

    def work(self, op: Op) -> Any:
        """What a step does between its two points."""
        self.folder.effect(self.inputs["label"], self.name, op["as"])
        if "fails" in op:
            raise FinalError(op["fails"]["message"], code=op["fails"]["code"])
        return op["gives"]

    def fail(self, op: Op, attempt: int) -> None:
        """Fails, if it is this attempt's turn."""
        told = op["fail"]
        if attempt <= op.get("attempts", attempt):
            error = RetryableError if told["retryable"] else FinalError
            raise error(told["message"], code=told["code"])

    def child_inputs(self) -> dict[str, Any]:
        """What a child gets: its points and effects count as this run's."""
        return {"label": self.inputs["label"], "stop": self.inputs.get("stop")}


def asking(op: Op) -> dict[str, Any]:
    """The arguments of a question."""
    ladder = op.get("ladder", {})
    return {"response_type": op["type"], "choices": op.get("choices"), "key": op.get("key"), **ladder}


class AsyncPlayer(Player):
    """Plays a program in an async function."""

    def __init__(self, folder: Folder, name: str, inputs: Mapping[str, Any], ctx: Context) -> None:
        super().__init__(folder, name, inputs)
        self.ctx = ctx
        self.plays: dict[str, Callable[[Op, str], Awaitable[None]]] = {
            "step": self.step,
            "ask": self.ask,
            "approve": self.approve,
            "sleep": self.sleep,
            "child": self.child,
            "version": self.version,
            "decide": self.decide,
            "fail": self.raise_error,
            "try": self.attempt,
            "when": self.when,
            "parallel": self.parallel,
        }

    async def stop(self, place: str, phase: str) -> None:
        go = self.reach(place, phase)
        while go is not None and not go.exists():
            await asyncio.sleep(POLL_SECONDS)

    async def play(self, program: Program, place: str = "") -> None:
        for number, op in enumerate(program):
            here = f"{place}.{number}" if place else str(number)
            name = next(name for name in self.plays if name in op)
            await self.stop(here, "before")
            await self.plays[name](op, here)
            await self.stop(here, "after")

    async def step(self, op: Op, place: str) -> None:
        async def work() -> Any:
            await self.stop(place, "begun")
            try:
                return self.work(op)
            finally:
                await self.stop(place, "effect")

        self.keep(op, await self.ctx.step(op["step"], work, idempotent=op.get("idempotent")))

    async def ask(self, op: Op, place: str) -> None:
        self.keep(op, await self.ctx.request_input(op["ask"], **asking(op)))

    async def approve(self, op: Op, place: str) -> None:
        self.keep(op, (await self.ctx.approve(op["approve"], key=op.get("key"))).action)

    async def sleep(self, op: Op, place: str) -> None:
        await self.ctx.sleep(op["sleep"])

    async def child(self, op: Op, place: str) -> None:
        self.keep(op, await self.ctx.run(op["child"], self.child_inputs()))

    async def version(self, op: Op, place: str) -> None:
        self.keep(op, await self.ctx.version(op["version"], op["newest"]))

    async def decide(self, op: Op, place: str) -> None:
        self.keep(op, (await self.ctx.should_request_input(**op["decide"])).mode)

    async def raise_error(self, op: Op, place: str) -> None:
        self.fail(op, self.ctx.attempt)

    async def attempt(self, op: Op, place: str) -> None:
        try:
            await self.play(op["try"], place)
        except abide.AbideError as error:
            self.keep(op, error.code)

    async def when(self, op: Op, place: str) -> None:
        holds = self.values[op["when"]] == op["is"]
        await self.play(op["do"] if holds else op["else"], f"{place}.{'do' if holds else 'else'}")

    async def parallel(self, op: Op, place: str) -> None:
        async with asyncio.TaskGroup() as group:
            for number, branch in enumerate(op["parallel"]):
                group.create_task(self.play(branch, f"{place}.{number}"))


class SyncPlayer(Player):
    """Plays a program in a function that is not async, with threads for what is parallel."""

    def __init__(self, folder: Folder, name: str, inputs: Mapping[str, Any], ctx: SyncContext) -> None:
        super().__init__(folder, name, inputs)
        self.ctx = ctx
        self.plays: dict[str, Callable[[Op, str], None]] = {
            "step": self.step,
            "ask": lambda op, _: self.keep(op, self.ctx.request_input(op["ask"], **asking(op))),
            "approve": lambda op, _: self.keep(op, self.ctx.approve(op["approve"], key=op.get("key")).action),
            "sleep": lambda op, _: self.ctx.sleep(op["sleep"]),
            "child": lambda op, _: self.keep(op, self.ctx.run(op["child"], self.child_inputs())),
            "version": lambda op, _: self.keep(op, self.ctx.version(op["version"], op["newest"])),
            "decide": lambda op, _: self.keep(op, self.ctx.should_request_input(**op["decide"]).mode),
            "fail": lambda op, _: self.fail(op, self.ctx.attempt),
            "try": self.attempt,
            "when": self.when,
            "parallel": self.parallel,
        }

    def stop(self, place: str, phase: str) -> None:
        go = self.reach(place, phase)
        while go is not None and not go.exists():
            time.sleep(POLL_SECONDS)

    def play(self, program: Program, place: str = "") -> None:
        for number, op in enumerate(program):
            here = f"{place}.{number}" if place else str(number)
            name = next(name for name in self.plays if name in op)
            self.stop(here, "before")
            self.plays[name](op, here)
            self.stop(here, "after")

    def step(self, op: Op, place: str) -> None:
        def work() -> Any:
            self.stop(place, "begun")
            try:
                return self.work(op)
            finally:
                self.stop(place, "effect")

        self.keep(op, self.ctx.step(op["step"], work, idempotent=op.get("idempotent")))

    def attempt(self, op: Op, place: str) -> None:
        try:
            self.play(op["try"], place)
        except abide.AbideError as error:
            self.keep(op, error.code)

    def when(self, op: Op, place: str) -> None:
        holds = self.values[op["when"]] == op["is"]
        self.play(op["do"] if holds else op["else"], f"{place}.{'do' if holds else 'else'}")

    def parallel(self, op: Op, place: str) -> None:
        def branch(number: int, program: Program) -> Callable[[], None]:
            return lambda: self.play(program, f"{place}.{number}")

        self.ctx.gather(*(branch(number, program) for number, program in enumerate(op["parallel"])))


def app_of(scenario: Mapping[str, Any], folder: Folder, changed: bool, sync: bool) -> App:
    """An app that plays a scenario: its program is the agent `main`, the others are agents of their names."""
    app = App("scenario")
    programs = {"main": scenario["changed" if changed else "program"], **scenario.get("others", {})}
    told = scenario["agent"]
    for name, program in programs.items():
        agent = app.agent(name, idempotent=told["idempotent"], retry=told.get("retry"))

        def make(name: str = name, program: Program = program) -> Callable[..., Any]:
            async def play(ctx: Context, inputs: dict[str, Any]) -> dict[str, Any]:
                player = AsyncPlayer(folder, name, inputs, ctx)
                await player.play(program)
                await player.stop("", "end")
                return player.values

            def play_sync(ctx: SyncContext, inputs: dict[str, Any]) -> dict[str, Any]:
                player = SyncPlayer(folder, name, inputs, ctx)
                player.play(program)
                player.stop("", "end")
                return player.values

            return play_sync if sync else play

        agent(make())
    return app


def main() -> None:
    """Reads what to play, and plays it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--capacity", type=int, default=1)
    parser.add_argument("--changed", action="store_true", help="the code is the one after the change")
    parser.add_argument("--sync", action="store_true", help="play it in functions that are not async")
    given = parser.parse_args()
    scenario = json.loads(given.scenario.read_text())
    changed = given.changed and "changed" in scenario
    app = app_of(scenario, Folder(given.folder), changed, given.sync)
    app.run(capacity=given.capacity, in_place=0.05)


if __name__ == "__main__":
    main()
