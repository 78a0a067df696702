"""The programs in the page about workers, and the examples, are typed throughout."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "workers.md"
EXAMPLES = ROOT / "examples"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What all of them import is read once."""
    return tmp_path_factory.mktemp("cache")


def check(folder: Path, cache: Path) -> None:
    pytest.importorskip("mypy")
    if (folder / "durable_graph.py").exists():
        pytest.importorskip("langgraph")
    files = sorted(path.name for path in folder.glob("*.py"))
    assert files
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(cache), *files]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("page", [PAGE] if PAGE.exists() else [])
def test_the_programs_of_the_page_are_typed(page: Path, tmp_path: Path, cache: Path) -> None:
    written = re.findall(r"<!-- file: (\S+\.py) -->\n```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert len(written) >= 6
    for name, program in written:
        # The one that is changed later is written twice.
        (tmp_path / (name if not (tmp_path / name).exists() else f"changed_{name}")).write_text(program)
    [test] = re.findall(r"```python\n(from abide\.testing.*?)```", page.read_text(), re.DOTALL)
    (tmp_path / "test_refund.py").write_text(test)
    check(tmp_path, cache)


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*/test_*.py")), ids=lambda path: str(path.parent.name))
def test_an_example_is_typed(example: Path, tmp_path: Path, cache: Path) -> None:
    for program in example.parent.glob("*.py"):
        shutil.copy(program, tmp_path)
    check(tmp_path, cache)
