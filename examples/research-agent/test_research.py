"""The example against a real server."""

from pathlib import Path

import pytest
from abide.testing import TestServer

import research


@pytest.fixture(autouse=True)
def used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the tools write down that they were used."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "used.txt"


def test_the_questions_are_open_together_and_answered_in_any_order(abide_server: TestServer, used: Path) -> None:
    with abide_server.worker(research.app):
        run = abide_server.client.runs.start("research", {"question": "Is it so?"})
        questions = {one.title: one for one in abide_server.asked(run.id, 2)}
        assert sorted(questions) == ["Use the expert?", "Use the web?"]
        abide_server.client.inbox.reject(questions["Use the expert?"])
        abide_server.client.inbox.accept(questions["Use the web?"])
        assert abide_server.result(run.id) == {"answer": "Is it so?: 2 sources agree.", "refused": ["expert"]}
    assert sorted(used.read_text().split()) == ["library", "web"]


def test_no_tool_is_used_twice_however_often_the_worker_is_another(abide_server: TestServer, used: Path) -> None:
    with abide_server.worker(research.app) as worker:
        run = abide_server.client.runs.start("research", {"question": "Is it so?"})
        abide_server.asked(run.id, 2)
        worker.until_idle()
    for answered in (1, 2):
        abide_server.accept(run.id)
        with abide_server.worker(research.app) as worker:
            if answered == 1:
                abide_server.asked(run.id, 1)
                worker.until_idle()
            else:
                assert abide_server.result(run.id)["refused"] == []
    assert sorted(used.read_text().split()) == ["expert", "library", "web"]
