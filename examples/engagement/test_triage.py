"""The example against a real server."""

from pathlib import Path

import pytest
from abide import RunFailedError
from abide.testing import TestServer

import triage


@pytest.fixture(autouse=True)
def tickets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where sorted tickets are written down."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "sorted.txt"


def test_who_is_sure_asks_nobody(abide_server: TestServer, tickets: Path) -> None:
    with abide_server.worker(triage.app):
        run = abide_server.client.runs.start("triage", {"text": "The page is slow"})
        assert abide_server.result(run.id) == {"mode": "autonomous", "queue": "support"}
    assert tickets.read_text() == "support: The page is slow\n"


def test_who_is_fairly_sure_asks_and_goes_on_without_an_answer(abide_server: TestServer) -> None:
    with abide_server.worker(triage.app) as worker:
        run = abide_server.client.runs.start("triage", {"text": "Please change my address"})
        abide_server.asked(run.id)
        worker.until_idle()
        abide_server.advance(3600)
        assert abide_server.result(run.id) == {"mode": "request_input", "queue": "accounts"}


def test_who_is_not_sure_needs_an_answer(abide_server: TestServer, tickets: Path) -> None:
    with abide_server.worker(triage.app) as worker:
        answered, ignored = (
            abide_server.client.runs.start("triage", {"text": "I was charged twice"}) for _ in range(2)
        )
        abide_server.answer(answered.id, "billing")
        assert abide_server.result(answered.id) == {"mode": "require_input", "queue": "billing"}
        abide_server.asked(ignored.id)
        worker.until_idle()
        abide_server.advance(3600)
        with pytest.raises(RunFailedError, match="input_timeout"):
            abide_server.result(ignored.id)
    assert tickets.read_text() == "billing: I was charged twice\n"


def test_what_is_too_risky_is_left_to_others(abide_server: TestServer, tickets: Path) -> None:
    with abide_server.worker(triage.app):
        run = abide_server.client.runs.start("triage", {"text": "Delete everything you have of me"})
        assert abide_server.result(run.id) == {"mode": "defer", "queue": None}
    assert not tickets.exists()


def test_every_decision_is_in_the_journal(abide_server: TestServer) -> None:
    with abide_server.worker(triage.app):
        run = abide_server.client.runs.start("triage", {"text": "The page is slow"})
        abide_server.wait(run.id)
        journal = abide_server.client.events.journal(run.id)
    [decision] = [event.payload for event in journal if event.type == "engagement.decision"]
    assert (decision["mode"], decision["should_ask"]) == ("autonomous", False)
    assert decision["signals"]["context"] == {"ticket": "The page is slow"}
