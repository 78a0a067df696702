"""An agent of OpenIntent's own SDK from end to end against a running server: it hears over its stream that it was
assigned, asks people, reminds them while nobody answers, gets the answer, and is done.

The SDK's timers are those of this machine, so its intervals are seconds; the server's test clock is moved along with
them. Two of the SDK's own mistakes are gone around here: `request_input` and `complete_intent` call `set_status` with
version and status swapped, which `Shim` puts right; and the loop that follows the stream never comes back, so the agent
runs in a thread that ends with the program.
"""

import asyncio
import contextlib
import logging
import threading
import time
from typing import Any

from openintent import AsyncOpenIntentClient, EventType, IntentStatus
from openintent.agents import BaseAgent, on_assignment, on_input_received, on_input_requested, on_suspension_expired
from openintent.exceptions import InputCancelledError, InputTimeoutError
from openintent.models import EscalationStep, HumanRetryPolicy, SuspensionChoice
from openintent_checks import Report, Wire, arguments, caught, client, eventually

URL, KEY = arguments()

# Longer than any of this takes, and shorter than anybody waits.
END = 35.0


class Shim(AsyncOpenIntentClient):
    """The SDK's client, for those parts of the SDK that give it version and status the wrong way round."""

    async def set_status(self, intent_id: str, version: Any, status: Any, reason: str | None = None) -> Any:
        if isinstance(version, IntentStatus):
            version, status = status, version
        return await super().set_status(intent_id, version, status, reason)


class Reviewer(BaseAgent):
    """Asks people, waits for what they say, and does that."""

    _agent_id = "reviewer"

    def __init__(self) -> None:
        super().__init__(URL, KEY)
        self._async_client = Shim(URL, KEY, self._agent_id)
        self.log_of_hooks: list[tuple[str, str, Any]] = []
        self.ended: dict[str, Any] = {}

    @on_input_requested
    async def asked(self, intent: Any, suspension: Any) -> None:
        attempt = suspension.context.get("_attempt", 1)
        self.log_of_hooks.append((intent.id, "asked", (attempt, suspension.channel_hint, intent.status.value)))

    @on_input_received
    async def answered(self, intent: Any, response: Any) -> None:
        self.log_of_hooks.append((intent.id, "answered", (response.value, response.responded_by)))

    @on_suspension_expired
    async def expired(self, intent: Any, suspension: Any) -> None:
        self.log_of_hooks.append((intent.id, "expired", suspension.id))

    def heard(self, intent: str) -> list[tuple[str, Any]]:
        return [(kind, said) for of, kind, said in self.log_of_hooks if of == intent]

    async def ask(self, intent: Any, **more: Any) -> Any:
        choices = [SuspensionChoice("approve", "Approve"), SuspensionChoice("deny", "Deny", style="danger")]
        settings: dict[str, Any] = {"choices": choices, "context": {"risk": "high"}, "channel_hint": "chat"} | more
        return await self.request_input(intent.id, "Sign it off?", **settings)

    @on_assignment
    async def review(self, intent: Any) -> None:
        # Each beside the others: the loop goes on while somebody waits.
        story = {"Reminded": self.reminded, "Expires": self.expires, "Cancelled": self.cancelled}[intent.title]
        try:
            self.ended[intent.id] = await story(intent)
        except Exception as error:
            self.ended[intent.id] = error
            raise

    async def reminded(self, intent: Any) -> Any:
        policy = HumanRetryPolicy(
            max_attempts=4,
            interval_seconds=3,
            escalation_ladder=[EscalationStep(attempt=2, channel_hint="phone", notify_to="boss")],
        )
        # What it was given is there: the SDK asks for events, access and what it waits for.
        assert intent.ctx.events, intent.ctx
        assert intent.ctx.acl is not None, intent.ctx
        answer = await self.ask(intent, retry_policy=policy, confidence=0.4)
        await self.complete_intent(intent.id, {"signed": answer})
        return answer

    async def expires(self, intent: Any) -> Any:
        return await self.ask(
            intent, timeout_seconds=600, fallback_policy="use_default_and_continue", fallback_value="deny"
        )

    async def cancelled(self, intent: Any) -> Any:
        return await self.ask(intent)


def run(report: Report) -> None:
    ann, wire = client("ann"), Wire(URL, KEY, "ann")
    agent = Reviewer()
    threading.Thread(target=agent.run, daemon=True).start()
    began = time.monotonic()

    def left() -> float:
        return max(0.1, END - (time.monotonic() - began))

    def given(title: str) -> str:
        intent = ann.create_intent(title, "By somebody.")
        ann.set_status(intent.id, intent.version, IntentStatus.ACTIVE)
        ann.assign_agent(intent.id, "reviewer")
        return str(intent.id)

    def events(intent: str, kind: EventType) -> list[Any]:
        return [event for event in ann.get_events(intent, limit=1000) if event.event_type == kind]

    def hook(intent: str, count: int) -> list[tuple[str, Any]] | None:
        heard = agent.heard(intent)
        return heard if len(heard) >= count else None

    def record_of(intent: str) -> dict[str, Any]:
        return dict(ann.get_intent(intent).state.to_dict().get("_suspension", {}))

    first = ""
    with report.check("assigned over the stream, it asks: the intent waits, and the hook was called"):
        first = given("Reminded")
        heard = eventually("the first hook", lambda: hook(first, 1), left())
        assert heard == [("asked", (1, "chat", "suspended_awaiting_input"))], heard
        waits = ann.get_intent(first)
        said = record_of(first)
        assert waits.status == IntentStatus.SUSPENDED_AWAITING_INPUT, waits
        assert said["question"] == "Sign it off?", waits
        assert said["confidence_at_suspension"] == 0.4, said
        assert said["context"]["risk"] == "high", said
        assert len(events(first, EventType.INTENT_SUSPENDED)) == 1, "it and the server told of it: it is there once"
        inbox = wire.get("/v1/interrupts")
        assert any(first in str(row) for row in inbox["interrupts"]), "one inbox shows it"
    with report.check("nobody answers: it reminds them, the hook is called again, and what both tell of is there once"):
        wire.advance(3)
        heard = eventually("the second hook", lambda: hook(first, 2), left())
        assert heard[1][1][:2] == (2, "phone"), heard
        eventually("a reminder", lambda: events(first, EventType.INTENT_SUSPENSION_RENOTIFIED), left())
        renotified = events(first, EventType.INTENT_SUSPENSION_RENOTIFIED)
        escalated = events(first, EventType.INTENT_SUSPENSION_ESCALATED)
        assert [one.payload["attempt"] for one in renotified] == [2], renotified
        assert [(one.payload["attempt"], one.payload["escalated_to"]) for one in escalated] == [(2, "boss")], escalated
    with report.check("somebody answers: it hears it, writes what it made of it, and is done"):
        answered = wire.respond(first, record_of(first)["id"], "approve", responded_by="olga")
        assert (answered["resolution"], answered["choice_label"]) == ("responded", "Approve"), answered
        # The agent hears it when it looks the next time.
        eventually("its end", lambda: agent.ended.get(first), left())
        assert agent.ended[first] == "approve", agent.ended
        assert agent.heard(first)[-1] == ("answered", ("approve", answered["responded_by"])), agent.heard(first)
        done = ann.get_intent(first)
        assert done.status == IntentStatus.COMPLETED, done
        assert done.state.get("signed") == "approve", done
        assert record_of(first)["response"] == "approve"
        assert len(events(first, EventType.INTENT_RESUMED)) == 1
    with report.check(
        "over the same stream, again: nobody answers in time, and it goes on with what was to be done then"
    ):
        second = given("Expires")
        eventually("it asks", lambda: hook(second, 1), left())
        wire.advance(600)
        eventually("the end of the time", lambda: record_of(second).get("resolution") == "expired", left())
        eventually("its end", lambda: second in agent.ended, left())
        assert agent.ended[second] == "deny", agent.ended
        assert [kind for kind, _ in agent.heard(second)] == ["asked", "expired"], agent.heard(second)
        assert ann.get_intent(second).status == IntentStatus.ACTIVE
    with report.check("and what it asks may be taken back"):
        third = given("Cancelled")
        eventually("it asks", lambda: hook(third, 1), left())
        wire.post(f"/api/v1/intents/{third}/suspend/cancel", {"suspension_id": record_of(third)["id"]})
        eventually("its end", lambda: third in agent.ended, left())
        assert type(agent.ended[third]) is InputCancelledError, agent.ended
        assert ann.get_intent(third).status == IntentStatus.ACTIVE
    with report.check("an agent that asks by itself, without a stream, is told that the time is over"):
        intent = ann.create_intent("Alone")
        active = ann.set_status(intent.id, intent.version, IntentStatus.ACTIVE)
        alone = Reviewer()

        async def until_over() -> Any:
            asked = asyncio.ensure_future(alone.ask(active, timeout_seconds=60, fallback_policy="fail"))
            while not alone.heard(active.id):
                await asyncio.sleep(0.05)
            wire.advance(60)
            return await asked

        over = caught(lambda: asyncio.run(asyncio.wait_for(until_over(), left())), InputTimeoutError)
        assert over.fallback_policy == "fail", over
        assert ann.get_intent(intent.id).status == IntentStatus.ABANDONED
    with report.check("and one that only decides whether to ask has its decision in the events"):
        intent = ann.create_intent("Decided")
        decision = asyncio.run(Reviewer().should_request_input(intent.id, confidence=0.9, risk=0.1, reversibility=0.9))
        assert decision.mode == "autonomous", decision
        assert not decision.should_ask, decision
        told = events(intent.id, EventType.ENGAGEMENT_DECISION)
        assert len(told) == 1, told
        assert told[0].payload["mode"] == "autonomous", told
    with report.check(f"all of it took less than {END} s"):
        assert time.monotonic() - began < END


def main() -> None:
    logging.getLogger("openintent").setLevel(logging.CRITICAL)
    report = Report()
    with contextlib.suppress(KeyboardInterrupt):
        run(report)
    report.end()


main()
