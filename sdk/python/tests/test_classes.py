"""Agents that are written as classes, in the words of RFC-0025 and RFC-0026."""

from __future__ import annotations

from typing import Any

from abide import (
    Agent,
    App,
    BaseAgent,
    Context,
    HumanRetryPolicy,
    InputTimeoutError,
    Intent,
    Suspension,
    on_input_requested,
)
from abide.testing import TestServer, eventually

SENT: list[tuple[str, str | None]] = []


async def send_notification(message: str, channel: str | None) -> None:
    SENT.append((message, channel))


@Agent("my-agent")
class MyAgent(BaseAgent):
    default_human_retry_policy = HumanRetryPolicy(
        max_attempts=2,
        interval_seconds=1800,
        final_fallback_policy="fail",
    )

    async def run(self, ctx: Context) -> dict[str, Any]:
        intent_id = ctx.run_id
        # Section 8 of RFC-0026.
        policy = HumanRetryPolicy(
            max_attempts=3,
            interval_seconds=3600,
            escalation_ladder=[
                {"attempt": 2, "channel_hint": "email"},
                {"attempt": 3, "channel_hint": "pagerduty", "notify_to": "supervisor@example.com"},
            ],
            final_fallback_policy="fail",
        )
        value = await self.request_input(
            intent_id,
            question="Should we proceed with the refund?",
            response_type="choice",
            choices=[{"value": "yes", "label": "Yes"}, {"value": "no", "label": "No"}],
            timeout_seconds=3600,
            retry_policy=policy,
        )
        try:
            await self.request_input(intent_id, "Are you sure?", "confirm")
        except InputTimeoutError:
            return {"value": value, "sure": "nobody said"}
        return {"value": value}

    # Section 4.5 of RFC-0026.
    @on_input_requested
    async def notify_operator(self, intent: Intent, suspension: Suspension) -> None:
        attempt = suspension.context.get("_attempt", 1)
        if attempt == 1:
            msg = f"Input needed: {suspension.question}"
        elif attempt < suspension.context.get("_max_attempts", 1):
            msg = f"Reminder ({attempt}): {suspension.question}"
        else:
            msg = f"URGENT — final reminder: {suspension.question}"
        await send_notification(msg, channel=suspension.channel_hint)


def test_the_examples_of_rfc_0026_run_as_written(server: TestServer) -> None:
    SENT.clear()
    with server.worker(App.of(MyAgent)):
        run = server.client.runs.start("my-agent")
        eventually(lambda: len(SENT) == 1 or None)
        server.advance(3600)
        eventually(lambda: len(SENT) == 2 or None)
        server.advance(3600)
        eventually(lambda: len(SENT) == 3 or None)
        assert SENT == [
            ("Input needed: Should we proceed with the refund?", None),
            ("Reminder (2): Should we proceed with the refund?", "email"),
            ("URGENT — final reminder: Should we proceed with the refund?", "pagerduty"),
        ]
        server.answer(run.id, "yes")
        eventually(lambda: len(SENT) == 4 or None)
        server.advance(1800)
        eventually(lambda: len(SENT) == 5 or None)
        assert SENT[4] == ("URGENT — final reminder: Are you sure?", None)
        server.advance(1800)
        assert server.result(run.id) == {"value": "yes", "sure": "nobody said"}


def test_the_policy_of_a_call_is_in_the_record_field_by_field_over_the_agents(server: TestServer) -> None:
    with server.worker(App.of(MyAgent)):
        run = server.client.runs.start("my-agent")
        server.asked(run.id)
        journal = server.client.events.journal(run.id)
    [requested] = [event for event in journal if event.type == "interrupt.requested"]
    ladder = requested.payload["ladder"]
    assert (ladder["max_attempts"], ladder["interval_seconds"]) == (3, 3600)
    assert [rung["channel_hint"] for rung in ladder["escalation_ladder"]] == ["email", "pagerduty"]


def test_two_classes_in_one_app_keep_their_own_policies(server: TestServer) -> None:
    class Patient(BaseAgent):
        default_human_retry_policy = HumanRetryPolicy(max_attempts=4, interval_seconds=60)

        async def run(self, ctx: Context) -> Any:
            return await ctx.request_input("Well?", "text")

    class Hasty(BaseAgent):
        default_human_retry_policy = HumanRetryPolicy(max_attempts=1, interval_seconds=5)

        async def run(self, ctx: Context) -> Any:
            return await ctx.request_input("Well?", "text", retry_policy={"interval_seconds": 7})

    app = App("two")
    app.add(Patient)
    app.add(Hasty())
    with server.worker(app):
        for name, attempts, interval in (("patient", 4, 60), ("hasty", 1, 7)):
            run = server.client.runs.start(name)
            server.asked(run.id)
            [asked] = [e for e in server.client.events.journal(run.id) if e.type == "interrupt.requested"]
            ladder = asked.payload["ladder"]
            assert (ladder["max_attempts"], ladder["interval_seconds"]) == (attempts, interval)
            server.answer(run.id, "fine")
            assert server.result(run.id) == {"result": "fine"}
