"""The client, sync and async, against a real server."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from abide import AbideError, ApiError, App, AsyncClient, Client, Context, RunFailedError, UnreachableError
from abide.testing import TestServer


def definition(workflow_id: str, *nodes: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": workflow_id,
        "name": workflow_id,
        "version": "1",
        "nodes": [
            {"id": f"n{number}", "name": "n", "position": {"x": 0, "y": 0}, "config": {}, "inputs": {}, **node}
            for number, node in enumerate(nodes)
        ],
        "edges": [],
        "triggers": [],
        "variables": [],
        "metadata": {},
        "settings": {},
    }


GATE = {"typeId": "core.approvalGate", "config": {"title": "Well?", "actions": ["accept", "reject"]}}
ASK = {"typeId": "core.clarificationGate", "config": {"questions": [{"id": "size", "question": "Which size?"}]}}


def test_runs_are_started_once_followed_and_waited_for(shared_server: TestServer) -> None:
    client = shared_server.client
    assert client.workflows.push(definition("client-noop", {"typeId": "core.noop"})) == 1
    assert client.workflows.push(definition("client-noop", {"typeId": "core.noop"})) == 1
    assert "client-noop" in client.workflows.list()
    assert client.workflows.get("client-noop")["id"] == "client-noop"
    run = client.runs.start("client-noop", {"x": 1}, tags=["t"], idempotency_key="one")
    assert client.runs.start("client-noop", {"x": 1}, tags=["t"], idempotency_key="one").id == run.id
    assert client.runs.wait(run.id).status == "completed"
    assert client.runs.result(run.id) == {"x": 1}
    types = [event.type for event in client.events.follow(run.id)]
    assert (types[0], types[-1]) == ("run.started", "run.completed")
    assert [(one.id, one.ended) for one in client.runs.list(workflow="client-noop")] == [(run.id, True)]


def test_runs_are_replayed_branched_and_compared(shared_server: TestServer) -> None:
    client = shared_server.client
    client.workflows.push(definition("client-forked", GATE))
    run = client.runs.start("client-forked")
    (asked,) = shared_server.asked(run.id, 1)
    client.inbox.accept(asked)
    again = client.runs.replay(run.id)
    assert (again.source, again.mode, again.status, again.diverged) == (run.id, "replay", "completed", 0)
    assert again.executed > 0
    assert client.runs.diff(run.id, again.id).equal
    answered = next(one.sequence for one in client.events.journal(run.id) if one.type == "approval.received")
    other = client.runs.branch(run.id, answered, overlay={"tags": ["other"]}, idempotency_key="branch-once")
    assert client.runs.branch(run.id, answered, overlay={"tags": ["other"]}, idempotency_key="branch-once") == other
    (asked,) = shared_server.asked(other.id, 1)
    client.inbox.reject(asked)
    found = client.runs.diff(run.id, other.id)
    assert not found.equal
    assert found.different == len(found.differences)


def test_what_waits_is_listed_and_answered(shared_server: TestServer) -> None:
    client = shared_server.client
    client.workflows.push(definition("client-gates", GATE, ASK))
    run = client.runs.start("client-gates")
    items = {item.kind: item for item in shared_server.asked(run.id, 2)}
    with pytest.raises(ApiError) as refused:
        client.inbox.answer(items["approval"], {"action": "perhaps"})
    assert refused.value.code == "validation_error"
    client.inbox.accept(items["approval"], "go ahead")
    client.inbox.answer(items["clarification"], "M")
    ended = client.runs.wait(run.id)
    assert ended.nodes["n0"].outputs["feedback"] == "go ahead"
    assert ended.nodes["n1"].outputs["answers"] == {"size": "M"}
    with pytest.raises(ApiError) as closed:
        client.inbox.accept(items["approval"])
    assert closed.value.status == 409


def test_a_run_that_is_cancelled_has_no_result(shared_server: TestServer) -> None:
    client = shared_server.client
    client.workflows.push(definition("client-cancel", GATE))
    run = client.runs.start("client-cancel")
    with pytest.raises(TimeoutError):
        client.runs.wait(run.id, timeout=0.01)
    assert client.runs.cancel(run.id, "no longer wanted") == "cancelled"
    with pytest.raises(RunFailedError) as failed:
        client.runs.result(run.id)
    assert failed.value.status == "cancelled"


def test_a_held_run_keeps_its_answers_and_many_are_answered_at_once(shared_server: TestServer) -> None:
    client = shared_server.client
    client.workflows.push(definition("client-hold", GATE))
    runs = [client.runs.start("client-hold").id for _ in range(2)]
    held = client.runs.hold(runs[0], stop=True, reason="audit")
    assert (held["mode"], held["reason"]) == ("stop", "audit")
    items = [item for run in runs for item in client.inbox.list(run=run)]
    decision = {"action": "accept"}
    listed = client.inbox.answer_many(items, decision, dry_run=True)
    assert [(one["ok"], one["status"]) for one in listed] == [(True, "paused"), (True, "completed")]
    assert client.inbox.answer_many(items, decision) == [{**one} for one in listed]
    refused = client.inbox.answer_many(items, decision)
    assert [one["error"]["code"] for one in refused] == ["interrupt_already_resolved"] * 2
    assert client.runs.release(runs[0]) == "completed"


def test_the_async_client_does_the_same(shared_server: TestServer) -> None:
    async def test() -> None:
        async with AsyncClient(shared_server.url, shared_server.api_key) as client:
            await client.workflows.push(definition("client-async", GATE, ASK))
            run = await client.runs.start("client-async", idempotency_key="two")
            items = {item.kind: item for item in await client.inbox.list(run=run.id)}
            await client.inbox.answer(items["clarification"], {"answers": {"size": "L"}})
            await client.inbox.reject(items["approval"], "no")
            ended = await client.runs.wait(run.id)
            assert ended.status == "failed"
            assert [event.type async for event in client.events.follow(run.id)][-1] == "run.failed"
            assert (await client.events.journal(run.id))[0].type == "run.started"
            assert (await client.runs.get(run.id)).nodes["n1"].outputs["answers"] == {"size": "L"}
            with pytest.raises(RunFailedError):
                await client.runs.result(run.id)
            told = await client.events.send("nothing.happened", {}, event_id="evt-client")
            assert told["kept"] is True

    asyncio.run(test())


def test_refusals_say_what_to_change(shared_server: TestServer) -> None:
    with pytest.raises(ApiError) as unknown:
        shared_server.client.runs.get("run-00000000-0000-7000-8000-000000000000")
    assert (unknown.value.code, unknown.value.status) == ("run_not_found", 404)
    with Client(shared_server.url, "abk_wrong") as stranger, pytest.raises(ApiError) as refused:
        stranger.runs.list()
    assert refused.value.status == 401


def test_a_server_that_is_not_there_is_told_by_its_address() -> None:
    with Client("http://127.0.0.1:9") as client, pytest.raises(UnreachableError, match=r"http://127\.0\.0\.1:9"):
        client.runs.list()


def test_the_environment_says_where_the_server_is(shared_server: TestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in shared_server.environment.items():
        monkeypatch.setenv(name, value)
    with Client() as client:
        assert client.connection.url == shared_server.url
        client.runs.list()


def test_who_waits_for_a_run_waits_for_the_server_too(monkeypatch: pytest.MonkeyPatch) -> None:
    polls: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        if not request.url.path.endswith("/events/poll"):
            return httpx2.Response(200, json={"runId": "r", "status": "completed", "variables": {"result": 1}})
        polls.append("one")
        if 1 < len(polls) < 10:
            raise httpx2.ConnectError("it restarts", request=request)
        return httpx2.Response(200, json={"events": [], "isComplete": len(polls) >= 10})

    monkeypatch.setattr("abide.client.time.sleep", lambda seconds: None)
    client = Client("http://here")
    client._http = httpx2.Client(base_url="http://here", transport=httpx2.MockTransport(answer))
    assert client.runs.result("r") == 1
    assert len(polls) == 10


def test_lists_have_all_of_their_pages(shared_server: TestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    client = shared_server.client
    client.workflows.push(definition("client-pages", GATE))
    runs = [client.runs.start("client-pages").id for _ in range(5)]
    for run in runs:
        shared_server.asked(run)
    monkeypatch.setattr("abide.requests.PAGE", 2)
    assert [item.run_id for item in client.inbox.list() if item.run_id in runs] == runs
    assert len(client.inbox.list(limit=3)) == 3
    assert {run.id for run in client.runs.list(limit=5)} == set(runs)

    async def test() -> None:
        async with AsyncClient(shared_server.url, shared_server.api_key) as too:
            assert [item.run_id for item in await too.inbox.list() if item.run_id in runs] == runs
            assert len(await too.runs.list(limit=3)) == 3

    asyncio.run(test())
    for run in runs:
        client.runs.cancel(run)


def test_who_waits_for_a_question_gets_it_or_is_told_why_not(shared_server: TestServer) -> None:
    app = App("askers")

    @app.agent("asks-twice")
    async def asks(ctx: Context) -> list[Any]:
        return [bool(await ctx.approve("First?")), await ctx.request_input("Second?", "text")]

    @app.agent("asks-nothing")
    async def asks_nothing(ctx: Context) -> None:
        await ctx.sleep(60)

    async def answer(run_id: str) -> Any:
        async with AsyncClient(shared_server.url, shared_server.api_key) as client:
            await client.inbox.answer(await client.inbox.wait(run_id), "yes")
            result = await client.runs.result(run_id)
            with pytest.raises(AbideError, match="has ended, and asks nothing"):
                await client.inbox.wait(run_id)
            return result

    client = shared_server.client
    with shared_server.worker(app):
        run = client.runs.start("asks-twice")
        first = client.inbox.wait(run.id, timeout=300)
        assert first.title == "First?"
        client.inbox.accept(first)
        assert asyncio.run(answer(run.id)) == {"result": [True, "yes"]}
        sleeper = client.runs.start("asks-nothing")
        with pytest.raises(TimeoutError, match="asks nothing"):
            client.inbox.wait(sleeper.id, timeout=0.01)
        client.runs.cancel(sleeper.id)
