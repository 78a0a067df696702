"""Conversations and decisions of agents, against a real server."""

from __future__ import annotations

import math
from typing import Any

import pytest

from abide import ApiError, App, Context, SyncContext
from abide.testing import TestServer, eventually


def open_at(server: TestServer, run_id: str) -> Any:
    """The open interrupt of a run, once there is one."""
    return eventually(lambda: server.client.runs.get(run_id).raw.get("interrupt"))


def said(server: TestServer, run_id: str, kind: str) -> list[dict[str, Any]]:
    return [dict(event.payload) for event in server.client.events.journal(run_id) if event.type == kind]


def test_an_agent_holds_a_conversation_turn_by_turn(server: TestServer) -> None:
    app, entered = App("support"), list[int]()

    @app.agent("talk")
    async def talk(ctx: Context) -> dict[str, Any]:
        entered.append(1)
        conversation = await ctx.conversation("Refund", initial_prompt="Hello")
        order = await conversation.exchange("Which order?", schema={"type": "integer"})
        why = await conversation.exchange("Why?")
        await conversation.close("solved")
        return {"id": conversation.id, "order": order, "why": why}

    with server.worker(app):
        run = server.client.runs.start("talk")
        first = open_at(server, run.id)
        assert (first["kind"], first["data"]["prompt"], first["data"]["turnIndex"]) == (
            "conversation.exchange",
            "Which order?",
            0,
        )
        server.client.inbox.resolve(run.id, first["nodeId"], 7)
        second = eventually(lambda: (now := open_at(server, run.id)) and now["data"]["prompt"] == "Why?" and now)
        server.client.inbox.resolve(run.id, second["nodeId"], "broken")
        result = server.client.runs.wait(run.id).result
    assert (result["order"], result["why"]) == (7, "broken")
    assert [turn["turnIndex"] for turn in said(server, run.id, "conversation.exchanged")] == [0, 1]
    assert len(said(server, run.id, "conversation.opened")) == 1
    assert said(server, run.id, "conversation.closed")[0]["conversationId"] == result["id"]


def test_a_taken_id_is_refused_and_a_function_that_is_not_async_talks_too(server: TestServer) -> None:
    app = App("desk")

    @app.agent("desk")
    def desk(ctx: SyncContext, id: str) -> str:
        try:
            conversation = ctx.conversation(id=id)
        except ApiError as error:
            return error.code
        conversation.close()
        return conversation.id

    with server.worker(app):
        first = server.client.runs.start("desk", {"id": "ticket-7"})
        assert server.client.runs.wait(first.id).result == {"result": "ticket-7"}
        second = server.client.runs.start("desk", {"id": "ticket-7"})
        assert server.client.runs.wait(second.id).result == {"result": "conversation_id_taken"}


@pytest.mark.parametrize("confidence", [0.7, None, math.nan, math.inf])
def test_a_decision_goes_on_unless_its_agent_is_not_sure(server: TestServer, confidence: float | None) -> None:
    app = App("judge")

    @app.agent("judge")
    async def judge(ctx: Context) -> Any:
        return await ctx.decide({"pay": True}, confidence=confidence)

    with server.worker(app):
        run = server.client.runs.start("judge")
        assert server.client.runs.wait(run.id).result == {"pay": True}
    assert len(said(server, run.id, "agent.decided")) == 1


def test_what_somebody_ratified_is_what_the_agent_goes_on_with(server: TestServer) -> None:
    app, decided = App("judge"), list[int]()

    @app.agent("judge")
    async def judge(ctx: Context) -> Any:
        decided.append(1)
        return await ctx.decide({"pay": True}, confidence=0.5)

    with server.worker(app):
        run = server.client.runs.start("judge")
        asked = open_at(server, run.id)
        assert (asked["kind"], asked["data"]["observed"], asked["data"]["agentId"]) == ("low-confidence", 0.5, "judge")
        server.client.inbox.resolve(run.id, asked["nodeId"], {"pay": False})
        assert server.client.runs.wait(run.id).result == {"pay": False}
    assert len(said(server, run.id, "agent.decided")) == 1
