"""Turns of models: followed, retried and given up by the client, and with tools that are functions of a worker."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from scripted import Busy, Calls, Provider

from abide import AbideError, ApiError, App, AsyncClient, Chunk, Context, Turn
from abide.testing import TestServer, eventually


def definition(kind: str = "core.llm.chat", **config: Any) -> dict[str, Any]:
    node = {"id": "turn", "typeId": kind, "name": "Turn", "position": {"x": 0, "y": 0}, "inputs": {}}
    return {
        "id": "ask",
        "name": "Ask",
        "version": "1",
        "nodes": [{**node, "config": {"prompt": "What is the weather in Vienna?", **config}}],
        "edges": [],
        "triggers": [],
        "variables": [],
        "metadata": {},
        "settings": {},
    }


def waiting(server: TestServer, run_id: str) -> Turn:
    """The turn of a run, once it waits for its provider."""
    return eventually(lambda: next((turn for turn in server.client.runs.turns(run_id).turns if turn.wait), None))


def test_what_a_model_says_is_heard_and_paid_for() -> None:
    with Provider("It is\nsunny.") as provider, TestServer(config=provider.config) as server:
        server.client.workflows.push(definition())
        run = server.client.runs.start("ask")
        heard = list(server.client.events.messages(run.id, timeout=300))
        assert "".join(chunk.text for chunk in heard) == "It is\nsunny."
        assert [chunk.is_last for chunk in heard][-1:] == [True]
        assert sum(chunk.is_last for chunk in heard) == 1
        assert (heard[-1].finish_reason, heard[-1].kind, heard[-1].broken_off) == ("stop", "text", False)
        told = server.client.runs.turns(run.id)
        assert (told.conversation_id, told.cost_micros) == (run.id, 10 * 2 + 5 * 4)
        (turn,) = told.turns
        assert (turn.node_id, turn.status, turn.provider, turn.model) == ("turn", "completed", "main", "small")
        assert (turn.usage.input_tokens, turn.usage.output_tokens, turn.retries) == (10, 5, 0)
        (known,) = server.client.providers()
        assert (known.name, known.kind, known.breaker, known.waiting_retry) == ("main", "openai", "closed", 0)


def test_a_turn_that_waits_is_tried_again_when_somebody_says_so() -> None:
    with Provider(Busy(529, "come back later"), "Sunny.") as provider, TestServer(config=provider.config) as server:
        server.client.workflows.push(definition())
        run = server.client.runs.start("ask")
        turn = waiting(server, run.id)
        assert turn.wait is not None
        assert (turn.wait.kind, turn.wait.attempt, turn.wait.delay_ms, turn.wait.code) == ("retry", 0, 5000, "529")
        assert "come back later" in (turn.wait.message or "")
        assert server.client.providers()[0].waiting_retry == 1
        server.kill()
        server.start()
        assert waiting(server, run.id).wait == turn.wait
        assert server.client.runs.retry_turn(run.id).node_id == "turn"
        assert server.wait(run.id).nodes["turn"].outputs["text"] == "Sunny."
        with pytest.raises(AbideError, match=r"no turn of .* waits for its provider"):
            server.client.runs.retry_turn(run.id)
        with pytest.raises(ApiError) as late:
            server.client.runs.give_up_turn(run.id, "turn")
        assert late.value.code in ("turn_not_waiting", "run_terminal", "run_already_terminal")


def test_the_async_client_does_the_same() -> None:
    with Provider(Busy(), Busy(), "Sunny.") as provider, TestServer(config=provider.config) as server:
        server.client.workflows.push(definition())
        tried, given_up = (server.client.runs.start("ask").id for _ in range(2))
        for run in (tried, given_up):
            waiting(server, run)

        async def test() -> list[Chunk]:
            async with AsyncClient(server.url, server.api_key) as client:
                assert (await client.providers())[0].waiting_retry == 2
                await client.runs.give_up_turn(given_up, reason="nobody needs it")
                failed = await client.runs.wait(given_up)
                assert failed.error_code == "provider_given_up"
                assert (await client.runs.turns(given_up)).turns[0].status == "failed"
                assert (await client.runs.retry_turn(tried, "turn")).status in ("calling", "completed")
                return [chunk async for chunk in client.events.messages(tried, timeout=300)]

        assert "".join(chunk.text for chunk in asyncio.run(test())) == "Sunny."


def test_a_model_calls_a_function_of_a_worker() -> None:
    app = App("weather")

    @app.node("weather.look", idempotent=True)
    async def look(ctx: Context, city: str) -> dict[str, Any]:
        return {"city": city, "celsius": await ctx.step("measure", lambda: 21)}

    parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tool = {"name": "look", "description": "The weather in a city.", "kind": "weather.look", "parameters": parameters}
    script = (Calls("look", {"city": "Vienna"}), Busy(), "21 degrees.")
    with Provider(*script) as provider, TestServer(config=provider.config) as server, server.worker(app):
        server.client.workflows.push(definition("core.llm.turn", tools=[tool]))
        run = server.client.runs.start("ask")
        # The provider fails after the tool has answered; the tool is not called again.
        waiting(server, run.id)
        server.advance(5)
        ended = server.wait(run.id)
        assert ended.nodes["turn"].outputs["text"] == "21 degrees."
        assert server.client.runs.turns(run.id).turns[0].steps == 2
        first, *later = provider.asked
        assert first["tools"][0]["function"]["name"] == "look"
        assert len(later) == 2
        for asked in later:
            told = asked["messages"][-1]
            assert (told["role"], told["tool_call_id"]) == ("tool", "call-1")
            assert json.loads(told["content"]) == {"city": "Vienna", "celsius": 21}


def test_a_model_hears_what_went_wrong_in_a_function_of_a_worker() -> None:
    app = App("weather")

    @app.node("weather.look")
    async def look(ctx: Context, city: str) -> None:
        raise ValueError(f"no such city: {city}")

    tool = {"name": "look", "kind": "weather.look", "parameters": {"properties": {"city": {"type": "string"}}}}
    script = (Calls("look", {"city": "Atlantis"}), "I can't find it.")
    with Provider(*script) as provider, TestServer(config=provider.config) as server, server.worker(app):
        server.client.workflows.push(definition("core.llm.turn", tools=[tool]))
        run = server.client.runs.start("ask")
        assert server.wait(run.id).nodes["turn"].outputs["text"] == "I can't find it."
        assert "no such city: Atlantis" in provider.asked[1]["messages"][-1]["content"]
