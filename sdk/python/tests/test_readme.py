"""The README's five minutes, and its test, as they are written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

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


def test_the_test_passes_and_the_example_is_typed(tmp_path: Path) -> None:
    (tmp_path / "refunds.py").write_text(block("from typing import Any"))
    (tmp_path / "test_refunds.py").write_text(block("from abide.testing"))
    ran = subprocess.run([sys.executable, "-m", "pytest", "-q", "."], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
