"""A test kit: a real server with a clock that stands still, and workers beside the test.

```python
from abide.testing import TestServer

def test_refund() -> None:
    with TestServer() as server, server.worker(app):
        run = server.client.runs.start("refund", {"order": "A-1", "amount": 20})
        server.accept(run.id)
        assert server.result(run.id) == {"paid": True}
```

The binary is the one that ABIDE_BIN names, else `abide` on the PATH.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from .app import App
from .client import Client
from .errors import AbideError
from .models import InboxItem, Run
from .policy import millis
from .requests import Request
from .session import Worker

T = TypeVar("T")

PATIENCE_SECONDS = 300.0
"""How long a test waits for what must come: long, so that a busy machine fails nothing."""


NOBODY_THERE = """
[resume]
on_refusal = "fail"

[resume.cooldown_seconds]
tool_failure = 0
timeout = 0
context_reset = 0
process_crash = 0
"""
"""In a test nobody looks after interrupted runs: what would wait for a person fails, and nothing cools down."""


class TestServer:
    """`abide dev --test-clock` in a folder of its own.

    A run that is interrupted is resumed without cool-downs, and fails where a person would be asked. With
    `attended=True` it cools down and asks, as on any server. `config` is more of what stands in an abide.toml, such as
    the providers of models.
    """

    __test__ = False

    def __init__(
        self,
        *,
        binary: str | None = None,
        workflows: str | Path | None = None,
        arguments: tuple[str, ...] = (),
        test_clock: bool = True,
        attended: bool = False,
        config: str | None = None,
    ) -> None:
        self._binary = binary or find_binary()
        self._folder = Path(tempfile.mkdtemp(prefix="abide-test-"))
        self._workflows = workflows
        self._arguments = arguments
        self._test_clock = test_clock
        self._attended = attended
        self._config = config
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0
        self.url = ""
        self.api_key = ""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._remove()

    @property
    def folder(self) -> Path:
        """Where its data are."""
        return self._folder

    @property
    def client(self) -> Client:
        """A client for it."""
        self._client = getattr(self, "_client", None) or Client(self.url, self.api_key)
        return self._client

    @property
    def environment(self) -> Mapping[str, str]:
        """What tells other programs where it is."""
        return {"ABIDE_URL": self.url, "ABIDE_API_KEY": self.api_key}

    def start(self) -> None:
        """Starts it, at the same address as before if it ran before, and waits until it listens."""
        command = [self._binary, "dev", "--listen", f"127.0.0.1:{self._port}", "--data", str(self._folder / "data")]
        if self._test_clock:
            command.append("--test-clock")
        if self._workflows is not None:
            command += ["--workflows", str(self._workflows)]
        settings = "\n".join(text for text in ("" if self._attended else NOBODY_THERE, self._config) if text)
        if settings and "--config" not in self._arguments:
            config = self._folder / "abide.toml"
            config.write_text(settings)
            command += ["--config", str(config)]
        said = self._folder / "said"
        with said.open("wb") as out:
            self._process = subprocess.Popen(
                [*command, *self._arguments],
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                cwd=self._folder,
                env={name: value for name, value in os.environ.items() if not name.startswith(("ABIDE_", "OTEL_"))},
            )
        self.url, self.api_key = self._await_welcome(self._process)
        self._port = int(self.url.rpartition(":")[2])

    def _await_welcome(self, process: subprocess.Popen[bytes]) -> tuple[str, str]:
        def welcome() -> tuple[str, str] | None:
            found = re.search(r"ABIDE_URL=(\S+) ABIDE_API_KEY=(\S+)", self.said)
            if found is None and process.poll() is not None:
                raise AbideError(f"the server ended with {process.returncode}:\n{self.said}")
            return None if found is None else (found.group(1), found.group(2))

        return eventually(welcome)

    @property
    def said(self) -> str:
        """What it has printed since it was started last."""
        with contextlib.suppress(FileNotFoundError):
            return (self._folder / "said").read_text(errors="replace")
        return ""

    def stop(self) -> None:
        """Ends it, as an operator would."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kills it."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _remove(self) -> None:
        client: Client | None = getattr(self, "_client", None)
        if client is not None:
            client.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def advance(self, duration: float | timedelta) -> None:
        """Moves the clock by seconds, or a timedelta. What falls due is done before it returns."""
        body = {"advanceMs": millis(duration)}
        self.client.send(Request("POST", "/v1/dev/clock", lambda told: told, body, seconds=PATIENCE_SECONDS))

    @contextlib.contextmanager
    def worker(self, app: App, **options: Any) -> Iterator[RunningWorker]:
        """A worker in a thread. It is drained at the end."""
        running = RunningWorker(app.worker(url=self.url, api_key=self.api_key, **{"in_place": 0.05, **options}))
        running.start()
        try:
            yield running
        finally:
            running.drain()

    def asked(self, run_id: str, count: int = 1) -> list[InboxItem]:
        """Waits until a run has so many open questions, and gives them, oldest first."""

        def open_questions() -> list[InboxItem] | None:
            found = self.client.inbox.list(run=run_id)
            if len(found) < count:
                run = self.client.runs.get(run_id)
                if run.ended:
                    raise AbideError(f"{run_id} asks {len(found)} questions, not {count}; it {run.status}: {run.error}")
                return None
            return found

        return eventually(open_questions)

    def answer(self, run_id: str, value: Any) -> None:
        """Waits until a run asks, and answers its oldest question."""
        self.client.inbox.answer(self.asked(run_id)[0], value)

    def accept(self, run_id: str, feedback: str | None = None) -> None:
        """Waits until a run asks, and accepts."""
        self.client.inbox.accept(self.asked(run_id)[0], feedback)

    def reject(self, run_id: str, feedback: str | None = None) -> None:
        """Waits until a run asks, and rejects."""
        self.client.inbox.reject(self.asked(run_id)[0], feedback)

    def wait(self, run_id: str) -> Run:
        """Waits until a run has ended."""
        return self.client.runs.wait(run_id, PATIENCE_SECONDS)

    def result(self, run_id: str) -> Any:
        """Waits for a run, and gives what its agent returned."""
        return self.wait(run_id).result


class RunningWorker:
    """A worker in a thread of this process."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="abide-test-worker", daemon=True)

    def start(self) -> None:
        """Starts it, and waits until it is registered."""
        self._thread.start()
        eventually(lambda: self.worker.ready.is_set() or not self._thread.is_alive() or None)
        if not self.worker.ready.is_set():
            raise AbideError("the worker did not start") from self._error

    def _run(self) -> None:
        try:
            asyncio.run(self.worker.run())
        except BaseException as error:
            self._error = error

    @property
    def held(self) -> int:
        """How many tasks it holds."""
        return self.worker.held

    def drain(self) -> None:
        """Has it finish or park what it does, and leave; it is stopped if that takes too long."""
        self.worker.drain()
        self._thread.join(30)
        if self._thread.is_alive():
            self.stop()
        if self._error is not None:
            raise AbideError("the worker failed") from self._error

    def stop(self) -> None:
        """Has it leave at once."""
        self.worker.stop()
        self._thread.join(30)

    def until_idle(self) -> None:
        """Waits until it holds nothing: all is done, or parked."""
        eventually(lambda: self.held == 0 or None)


def find_binary() -> str:
    """The `abide` that tests use."""
    named = os.environ.get("ABIDE_BIN")
    found = named or shutil.which("abide")
    if found is None or not os.path.exists(found):
        raise AbideError(f"there is no abide at '{named}'" if named else "set ABIDE_BIN, or put `abide` on the PATH")
    return found


def eventually(look: Callable[[], T | None], patience: float = PATIENCE_SECONDS) -> T:
    """Looks again and again until there is something."""
    end, pause = time.monotonic() + patience, 0.002
    while True:
        found = look()
        if found is not None:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"nothing came within {patience:.0f} s")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)
