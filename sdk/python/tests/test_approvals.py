"""Approvals in full: what a client says, what a worker asks, and who answers a question back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from abide import App, Context, Suspension
from abide.decisions import asked, refinement
from abide.testing import TestServer

ACTIONS = ["accept", "reject", "refine", "edit-accept", "ask"]


def letter(workflow_id: str, draft: Mapping[str, Any], **config: Any) -> dict[str, Any]:
    place = {"x": 0, "y": 0}
    artifact = {"artifact": {"type": "connection", "nodeId": "draft", "outputKey": "letter"}}
    gate = {"title": "Send it?", "actions": ACTIONS, **config}
    return {
        "id": workflow_id,
        "name": workflow_id,
        "version": "1",
        "nodes": [
            {"id": "draft", "name": "Draft", "position": place, "config": {}, "inputs": {}, **draft},
            {
                "id": "gate",
                "typeId": "core.approvalGate",
                "name": "Gate",
                "position": place,
                "config": gate,
                "inputs": artifact,
                "settings": {"abide": {"agent": "scribe"}},
            },
        ],
        "edges": [{"id": "e", "sourceNodeId": "draft", "targetNodeId": "gate"}],
        "triggers": [],
        "variables": [],
        "metadata": {},
        "settings": {},
    }


def test_a_refinement_that_says_nothing_is_not_sent() -> None:
    for text, tags in ((None, ()), (" ", ()), ("", [])):
        with pytest.raises(ValueError, match="say what to make better"):
            refinement(text, tags=tags)
    assert refinement(None, tags=["tone"])["refineFeedback"] == {"scope": "whole", "tags": ["tone"]}
    with pytest.raises(ValueError, match="not both"):
        refinement("t", section="/a", items=["1"])
    with pytest.raises(ValueError, match="what you want to know"):
        asked(" ")


def test_a_worker_makes_it_better_and_says_why(server: TestServer) -> None:
    app = App("scribe")

    @app.node("scribe.letter", idempotent=True)
    async def write(ctx: Context) -> dict[str, Any]:
        wish = ctx.refinement
        if wish is None:
            return {"letter": "Pay up."}
        return {"letter": f"{wish.text} ({', '.join(wish.tags)}), not: {wish.previous}"}

    @app.on_question
    def explain(told: Suspension) -> str | None:
        assert told.asked is not None
        return None if told.asked["question"] == "?" else f"about: {told.asked['question']}"

    client = server.client
    client.workflows.push(letter("sdk-letter", {"typeId": "scribe.letter"}))
    with server.worker(app):
        run = client.runs.start("sdk-letter")
        item = client.inbox.wait(run.id)
        assert client.inbox.ask(item, "Why?") == "waiting-approval"

        def answered() -> list[Any]:
            found = client.runs.get(run.id).raw["interrupt"]["exchanges"]
            return [one.get("answer") for one in found]

        _await(lambda: answered() == ["about: Why?"])
        assert client.inbox.ask(item, "?") == "waiting-approval"
        assert client.inbox.reply(item, "ask-2", "nobody knows") == "waiting-approval"
        assert client.inbox.refine(item, "kinder", tags=["tone"]) in ("waiting-approval", "running")
        item = client.inbox.wait(run.id)
        shown = client.runs.get(run.id).raw["interrupt"]["data"]["artifactData"]
        assert shown == "kinder (tone), not: Pay up."
        assert client.inbox.edit_accept(item, "Dear Ada") == "completed"


def test_several_people_decide_what_a_function_asks(server: TestServer) -> None:
    app = App("voted")

    @app.agent("voted", idempotent=True)
    async def voted(ctx: Context) -> dict[str, Any]:
        decision = await ctx.approve("Go?", required_approvals=2, actions=["accept", "reject", "ask"])
        return {"by": [vote["by"] for vote in decision.value["quorum"]["votes"]]}

    client = server.client
    with server.worker(app):
        run = client.runs.start("voted")
        item = client.inbox.wait(run.id)
        assert client.inbox.vote(item, "accept", voter="ann") == "waiting-approval"
        client.inbox.vote(item, "accept", voter="bob")
        assert client.runs.result(run.id)["by"] == ["ann", "bob"]


def _await(holds: Any, seconds: float = 20.0) -> None:
    async def look() -> None:
        while not holds():
            await asyncio.sleep(0.05)

    asyncio.run(asyncio.wait_for(look(), seconds))
