"""The example against a real server."""

from pathlib import Path

import pytest
from abide.testing import TestServer

import refund


@pytest.fixture(autouse=True)
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ledger of the test's own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "ledger.txt"


def test_a_small_refund_is_paid_at_once(abide_server: TestServer, ledger: Path) -> None:
    with abide_server.worker(refund.app):
        run = abide_server.client.runs.start("refund", {"order": "A-1", "amount": 20})
        assert abide_server.result(run.id) == {"paid": 18.0, "reply": "Done: receipt for A-1."}
    assert ledger.read_text() == "A-1 18.0\n"


def test_a_large_one_is_paid_when_somebody_agrees(abide_server: TestServer, ledger: Path) -> None:
    with abide_server.worker(refund.app) as worker:
        run = abide_server.client.runs.start("refund", {"order": "A-2", "amount": 500})
        [question] = abide_server.asked(run.id)
        assert question.title == "Pay back 450.0 for A-2?"
        worker.until_idle()
        assert not ledger.exists()
        abide_server.accept(run.id)
        assert abide_server.result(run.id)["paid"] == 450.0
    assert ledger.read_text() == "A-2 450.0\n"


def test_nothing_is_paid_when_somebody_objects(abide_server: TestServer, ledger: Path) -> None:
    with abide_server.worker(refund.app):
        run = abide_server.client.runs.start("refund", {"order": "A-3", "amount": 500})
        abide_server.reject(run.id, "It was worn.")
        assert abide_server.result(run.id) == {"paid": 0, "reply": "We can not pay it back. It was worn."}
    assert not ledger.exists()


def test_the_answer_may_come_when_no_worker_is_there(abide_server: TestServer, ledger: Path) -> None:
    with abide_server.worker(refund.app) as worker:
        run = abide_server.client.runs.start("refund", {"order": "A-4", "amount": 500})
        abide_server.asked(run.id)
        worker.until_idle()
    abide_server.accept(run.id)
    with abide_server.worker(refund.app):
        assert abide_server.result(run.id)["paid"] == 450.0
    assert ledger.read_text() == "A-4 450.0\n"
