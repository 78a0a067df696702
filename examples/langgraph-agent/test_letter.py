"""The example against a real server."""

from pathlib import Path

import pytest
from abide.testing import TestServer

import mailer


@pytest.fixture(autouse=True)
def sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where letters are written down that were sent."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "sent.txt"


def answer(server: TestServer, run: str, answers: dict[str, str]) -> None:
    """Answers the open questions that there are answers for."""
    for question in server.asked(run):
        if question.title in answers:
            server.client.inbox.answer(question, answers[question.title])


ANSWERS = {"Is the tone right?": "yes", "Which facts are missing?": "The day."}


def test_the_interrupts_of_a_graph_become_questions(abide_server: TestServer, sent: Path) -> None:
    with abide_server.worker(mailer.app):
        run = abide_server.client.runs.start("letter", {"customer": "Ada"})
        assert {one.title for one in abide_server.asked(run.id, 2)} == set(ANSWERS)
        answer(abide_server, run.id, ANSWERS)
        assert abide_server.result(run.id) == {"sent": True, "remarks": ["facts: The day.", "tone: yes"]}
    assert len(sent.read_text().splitlines()) == 1


def test_a_graph_goes_on_in_another_worker(abide_server: TestServer, sent: Path) -> None:
    with abide_server.worker(mailer.app) as worker:
        run = abide_server.client.runs.start("letter", {"customer": "Ada"})
        abide_server.asked(run.id, 2)
        worker.until_idle()
    answer(abide_server, run.id, {"Which facts are missing?": "None."})
    with abide_server.worker(mailer.app) as worker:
        abide_server.asked(run.id, 1)
        worker.until_idle()
    answer(abide_server, run.id, {"Is the tone right?": "yes"})
    with abide_server.worker(mailer.app):
        assert abide_server.result(run.id) == {"sent": True, "remarks": ["facts: None.", "tone: yes"]}
    assert len(sent.read_text().splitlines()) == 1


def test_an_answer_decides_how_the_graph_goes_on(abide_server: TestServer, sent: Path) -> None:
    with abide_server.worker(mailer.app):
        run = abide_server.client.runs.start("letter", {"customer": "Ada"})
        abide_server.asked(run.id, 2)
        answer(abide_server, run.id, {**ANSWERS, "Is the tone right?": "no"})
        assert abide_server.result(run.id)["sent"] is False
    assert not sent.exists()
