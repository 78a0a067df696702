"""What all tests share. Those with a server need the binary: ABIDE_BIN, or `abide` on the PATH."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from abide.testing import TestServer


@pytest.fixture(autouse=True)
def no_server_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test speaks to a server that it did not start."""
    for name in list(os.environ):
        if name.startswith("ABIDE_") and name != "ABIDE_BIN":
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def shared_server() -> Iterator[TestServer]:
    """A server for tests that have a workflow and an agent of their own and move no time."""
    with TestServer() as server:
        yield server


@pytest.fixture
def server(abide_server: TestServer) -> TestServer:
    """A server of the test's own."""
    return abide_server
