"""Fixtures for pytest. They are there as soon as the package is installed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .testing import TestServer


@pytest.fixture
def abide_server() -> Iterator[TestServer]:
    """A real server with a clock that stands still, for one test."""
    with TestServer() as server:
        yield server
