"""The README's five minutes, and its test, as they are written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from abide.testing import TestServer, eventually

README = Path(__file__).parent.parent / "README.md"


def block(begins: str) -> str:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    [found] = [text for text in blocks if text.startswith(begins)]
    return str(found)


def test_the_first_five_minutes(server: TestServer, tmp_path: Path) -> None:
    (tmp_path / "refunds.py").write_text(block("from typing import Any"))
    environment = {**os.environ, **server.environment}
    worker = subprocess.Popen(
        [sys.executable, "-m", "abide.worker", "refunds:app"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE
    )
    try:
        eventually(lambda: "refund" in server.client.workflows.list() or None)
        run = server.client.runs.start("refund", {"order": "A-1", "amount": 120})
        server.accept(run.id)
        server.answer(run.id, "half")
        assert server.result(run.id) == {"paid": True, "receipt": "receipt-A-1"}
        worker.terminate()
        said, _ = worker.communicate(timeout=300)
        assert said.decode() == "paying 60.0 for A-1\n"
    finally:
        worker.kill()
        worker.wait()


def test_the_client_answers_both_questions(server: TestServer, tmp_path: Path) -> None:
    write_examples(tmp_path)
    environment = {**os.environ, **server.environment}
    worker = subprocess.Popen([sys.executable, "-m", "abide.worker", "refunds:app"], cwd=tmp_path, env=environment)
    try:
        eventually(lambda: "refund" in server.client.workflows.list() or None)
        asked = subprocess.run(
            [sys.executable, "asks.py"], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert asked.stdout == "{'paid': True, 'receipt': 'receipt-A-1'}\n", asked.stderr
    finally:
        worker.kill()
        worker.wait()


def write_examples(folder: Path) -> None:
    (folder / "refunds.py").write_text(block("from typing import Any"))
    (folder / "test_refunds.py").write_text(block("from abide.testing"))
    (folder / "asks.py").write_text(block("from abide import Client"))


def run(folder: Path, *command: str) -> None:
    ran = subprocess.run([sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_test_passes(tmp_path: Path) -> None:
    write_examples(tmp_path)
    run(tmp_path, "pytest", "-q", ".")


def test_the_examples_and_the_package_are_typed(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    write_examples(tmp_path)
    cache = f"--cache-dir={tmp_path / 'cache'}"
    run(tmp_path, "mypy", "--strict", cache, "refunds.py", "test_refunds.py", "asks.py")
    run(README.parent, "mypy", cache)
