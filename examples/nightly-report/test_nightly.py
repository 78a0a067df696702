"""The example against a real server."""

from abide.testing import TestServer, eventually

import nightly


def test_the_report_comes_after_the_night_and_a_failed_region_is_counted_again(abide_server: TestServer) -> None:
    with abide_server.worker(nightly.app) as worker:
        client = abide_server.client
        run = client.runs.start("nightly", {"hours": 8})
        eventually(lambda: "sleep.started" in {event.type for event in client.events.journal(run.id)} or None)
        worker.until_idle()
        assert client.runs.list(workflow="region") == []
        abide_server.advance(8 * 3600)
        eventually(lambda: len(client.runs.list(status="completed", workflow="region")) == 2 or None)
        [south] = client.runs.list(status="running", workflow="region")
        eventually(lambda: "node.retried" in {event.type for event in client.events.journal(south.id)} or None)
        assert not client.runs.get(run.id).ended
        abide_server.advance(60)
        orders = {"north": 12, "south": 7, "west": 23}
        assert abide_server.result(run.id) == {"orders": orders, "total": 42}
