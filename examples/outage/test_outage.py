"""The example against a real server, with a provider that goes down at every point where it can."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from abide import Turn
from abide.testing import TestServer, eventually

import orders
from provider import Provider

LETTER = "My lamp A-17 arrived broken."


@pytest.fixture
def provider() -> Iterator[Provider]:
    """A provider on loopback."""
    provider = Provider()
    provider.start()
    yield provider
    provider.shutdown()
    provider.server_close()


@pytest.fixture
def server(provider: Provider, tmp_path: Path) -> Iterator[TestServer]:
    """A server that knows it, and the workflow."""
    (tmp_path / "support.yaml").write_text((Path(__file__).parent / "support.yaml").read_text())
    orders.PAID_BACK.clear()
    with TestServer(config=provider.config, workflows=tmp_path) as server, server.worker(orders.app):
        yield server


def turn(server: TestServer, run_id: str, status: str) -> Turn:
    """The turn, once it stands so."""
    return eventually(
        lambda: next((one for one in server.client.runs.turns(run_id).turns if one.status == status), None)
    )


def accept(server: TestServer) -> None:
    """Agrees to what the tool asks, in whichever run that is."""
    [item] = eventually(lambda: server.client.inbox.list() or None)
    server.client.inbox.accept(item)


def test_an_outage_at_every_point_costs_time_and_nothing_else(provider: Provider, server: TestServer) -> None:
    provider.down = True
    run = server.client.runs.start("support", {"letter": LETTER})
    waits = turn(server, run.id, "waiting")
    assert waits.wait is not None
    assert waits.wait.code == "529"
    server.kill()
    provider.down = False
    server.start()
    server.client.runs.retry_turn(run.id)
    turn(server, run.id, "tools")
    eventually(lambda: server.client.inbox.list() or None)
    provider.down = True
    server.kill()
    server.start()
    accept(server)
    waits = turn(server, run.id, "waiting")
    assert waits.steps == 2
    provider.down = False
    server.advance(5)
    ended = server.wait(run.id)
    assert ended.variables["answer"] == 'We have paid you back: {"receipt":"receipt-A-17"}'
    assert orders.PAID_BACK == [("A-17", 120)]
    assert provider.heard == ["user", "user", "tool", "tool", "tool"]


def test_nothing_is_paid_if_somebody_says_no(provider: Provider, server: TestServer) -> None:
    run = server.client.runs.start("support", {"letter": LETTER})
    [item] = eventually(lambda: server.client.inbox.list() or None)
    assert item.title == "Refund 120 EUR for A-17?"
    server.client.inbox.reject(item, "the lamp was worn")
    assert server.wait(run.id).variables["answer"] == "I am sorry, we can't pay you back."
    assert orders.PAID_BACK == []
