"""`abide-worker`: what it says to whoever starts it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from abide import App, Context
from abide.cli import Refusal, find, main
from abide.requests import Request
from abide.testing import TestServer, eventually

APP = """
from abide import App, Context

app = App("clerks")

@app.agent("{name}")
async def work(ctx: Context) -> dict[str, str]:
    return {{"version": "{version}"}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("nowhere:app", "there is no module 'nowhere'"),
        ("clerks_a", "write module:name"),
        ("clerks_a:application", "has no 'application'; its apps are: app"),
        ("clerks_a:work", "is a function, not an App"),
        ("clerks_b:app", "module 'clerks_b' needs 'not_installed_here', which is not installed"),
        ("clerks_h:app", "has no 'app'; it has no app, but these agents can be named: Clerk"),
        ("clerks_c:app", "NameError: name 'undefined' is not defined"),
    ],
)
def test_an_app_that_can_not_be_found_is_explained(folder: Path, where: str, why: str) -> None:
    (folder / "clerks_a.py").write_text(APP.format(name="a", version="1"))
    (folder / "clerks_b.py").write_text("import not_installed_here")
    (folder / "clerks_c.py").write_text("undefined")
    (folder / "clerks_h.py").write_text("from abide import BaseAgent\nclass Clerk(BaseAgent): ...")
    with pytest.raises(Refusal) as refusal:
        find(where)
    assert why in str(refusal.value)
    assert refusal.value.code == 2


def test_a_server_that_is_not_there_is_explained(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "clerks_d.py").write_text(APP.format(name="d", version="1"))
    assert main(["clerks_d:app", "--url", "http://127.0.0.1:9"]) == 3
    said = capsys.readouterr().err
    assert "no server answers at http://127.0.0.1:9" in said
    assert "abide dev" in said


def test_a_key_that_is_refused_is_explained(
    folder: Path, capsys: pytest.CaptureFixture[str], shared_server: TestServer
) -> None:
    (folder / "clerks_e.py").write_text(APP.format(name="e", version="1"))
    assert main(["clerks_e:app", "--url", shared_server.url, "--api-key", "abk_wrong"]) == 1
    assert "The key is not one of this server's" in capsys.readouterr().err
    assert main(["clerks_e:app", "--url", shared_server.url]) == 1
    assert "There is no key: set ABIDE_API_KEY" in capsys.readouterr().err


def test_a_workflow_that_is_refused_ends_it(
    folder: Path, capsys: pytest.CaptureFixture[str], shared_server: TestServer
) -> None:
    program = APP.format(name="g", version="1").replace('"g"', '"g", retry={"maxRetrys": 3}')
    (folder / "clerks_g.py").write_text(program)
    assert main(["clerks_g:app", "--url", shared_server.url, "--api-key", shared_server.api_key]) == 2
    said = capsys.readouterr().err
    assert "error: the workflow of agent 'g' is refused" in said
    assert "maxRetrys" in said
    # It has left, and is not thought to be at work.
    workers = shared_server.client.send(Request("GET", "/v1/workers", lambda told: told["workers"]))
    assert "agent.g" not in [kind for worker in workers for kind in worker["kinds"]]


def test_a_workflow_that_changes_hands_is_told_of(shared_server: TestServer, caplog: pytest.LogCaptureFixture) -> None:
    def app_of(name: str) -> App:
        app = App(name)

        @app.agent("disputed")
        async def work(ctx: Context) -> None: ...

        return app

    with shared_server.worker(app_of("first")), shared_server.worker(app_of("first")):
        pass
    assert "was agent" not in caplog.text
    with shared_server.worker(app_of("second")):
        pass
    assert "workflow 'disputed' was agent 'first''s, and its new runs are agent 'second''s" in caplog.text


def test_it_says_where_it_is_connected_and_starts_again_when_a_file_changes(
    folder: Path, shared_server: TestServer
) -> None:
    program = folder / "clerks_f.py"
    program.write_text(APP.format(name="reloaded", version="1"))
    said = folder / "said"
    environment = {**os.environ, **shared_server.environment, "PYTHONDONTWRITEBYTECODE": "1"}
    with said.open("wb") as out:
        worker = subprocess.Popen(
            [sys.executable, "-m", "abide.worker", "clerks_f:app", "--reload"], env=environment, stderr=out
        )
    try:
        greeting = f"agent 'clerks' works for {shared_server.url}: agent.reloaded"
        eventually(lambda: greeting in said.read_text() or None)
        first = shared_server.client.runs.start("reloaded")
        assert shared_server.result(first.id) == {"version": "1"}
        program.write_text(APP.format(name="reloaded", version="2"))
        eventually(lambda: said.read_text().count(greeting) == 2 or None)
        assert "clerks_f.py changed; starting again" in said.read_text()
        second = shared_server.client.runs.start("reloaded")
        assert shared_server.result(second.id) == {"version": "2"}
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(300) == 0
    finally:
        worker.kill()
        worker.wait()
