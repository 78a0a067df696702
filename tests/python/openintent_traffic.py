"""Many at once, in any order, and things that nobody should send: OpenIntent's own client and bare HTTP against a
running server with a test clock.
"""

import concurrent.futures
import json
import threading
from collections.abc import Callable
from typing import Any

import httpx
from openintent import (
    ConflictError,
    EventType,
    IntentStatus,
    LeaseConflictError,
    NotFoundError,
    OpenIntentClient,
    OpenIntentError,
)
from openintent.models import EscalationStep, HumanRetryPolicy, SuspensionChoice, SuspensionRecord
from openintent_checks import NO_INTENT, Report, Wire, arguments, caught, client, eventually, record, refusal

URL, KEY = arguments()
SUSPENDED = IntentStatus.SUSPENDED_AWAITING_INPUT

# How many do the same at once.
CROWD = 16

ann = client("ann")
wire = Wire(URL, KEY, "ann")


def active(**more: Any) -> Any:
    intent = ann.create_intent("Traffic", **more)
    return ann.set_status(intent.id, intent.version, IntentStatus.ACTIVE)


def at_once(call: Callable[[int], Any], count: int = CROWD) -> list[Any]:
    """What becomes of calls that all begin at the same moment: what they give, or the error that they end with."""
    gate = threading.Barrier(count)

    def one(number: int) -> Any:
        gate.wait()
        try:
            return call(number)
        except OpenIntentError as error:
            return error

    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


def events(intent: str, kind: EventType) -> list[Any]:
    return [event for event in ann.get_events(intent, limit=1000) if event.event_type == kind]


def suspended(suspension: str = "s-1", **fields: Any) -> str:
    """An intent that waits for somebody, as the SDK's agents make it wait."""
    intent = active()
    now = ann.set_status(intent.id, intent.version, SUSPENDED)
    ann.update_state(intent.id, now.version, {"_suspension": record(suspension, **fields)})
    return str(intent.id)


def written(intent: str) -> dict[str, Any]:
    found = ann.get_intent(intent).state.to_dict()["_suspension"]
    assert isinstance(found, dict)
    return found


def patches_with_one_version(report: Report) -> None:
    with report.check(f"of {CROWD} patches with one version one is taken, and nothing of it is lost"):
        intent = active()
        told = at_once(
            lambda number: client(f"c{number}").update_state(intent.id, intent.version, {f"k{number}": number})
        )
        won = [(number, one) for number, one in enumerate(told) if not isinstance(one, OpenIntentError)]
        lost = [one for one in told if isinstance(one, OpenIntentError)]
        assert len(won) == 1, told
        assert len(lost) == CROWD - 1, told
        for error in lost:
            assert type(error) is ConflictError, repr(error)
            assert error.current_version == intent.version + 1, error.response
        number, first = won[0]
        now = ann.get_intent(intent.id)
        assert now == first, now
        assert now.state.to_dict() == {f"k{number}": number}, now
    with report.check("those who look again and try again all get through, one after the other"):
        intent = active()

        def until_taken(number: int) -> int:
            own = client(f"c{number}")
            while True:
                seen = own.get_intent(intent.id)
                try:
                    count = seen.state.get("count", 0)
                    changed = own.update_state(intent.id, seen.version, {f"k{number}": number, "count": count + 1})
                    return int(changed.version)
                except ConflictError:
                    continue

        versions = at_once(until_taken, 8)
        assert sorted(versions) == list(range(intent.version + 1, intent.version + 9)), versions
        state = ann.get_intent(intent.id).state.to_dict()
        assert state == {f"k{number}": number for number in range(8)} | {"count": 8}, state
        patched = events(intent.id, EventType.STATE_PATCHED)
        assert len(patched) == 8, patched


def nested(report: Report) -> None:
    with report.check("nested changes are made: set, append and remove, and only all of them"):
        intent = active(initial_state={"a": {"b": 1, "c": 2}, "l": [1]})
        path = f"/api/v1/intents/{intent.id}/state"
        patches = [
            {"op": "set", "path": "/a/b", "value": {"x": 1}},
            {"op": "append", "path": "l", "value": 2},
            {"op": "remove", "path": "a/c"},
        ]
        seen = {"If-Match": f'"{intent.version}"'}
        changed = wire.post(path, {"patches": patches}, headers=seen)
        assert changed["state"] == {"a": {"b": {"x": 1}}, "l": [1, 2]}, changed
        # The second half can't be done, so the first is not.
        now = {"If-Match": str(changed["version"])}
        half = [{"op": "set", "path": "z", "value": 1}, {"op": "append", "path": "a", "value": 1}]
        refused = wire.http.post(path, json={"patches": half}, headers=now)
        assert 400 <= refused.status_code < 500, refused.text
        assert isinstance(refused.json()["detail"], str | list | dict), refused.text
        assert wire.get(f"/api/v1/intents/{intent.id}")["state"] == changed["state"]
        merged = wire.post(path, {"state": {"z": [0]}}, headers=now)
        assert merged["state"] == changed["state"] | {"z": [0]}, merged


def one_answer(report: Report) -> None:
    with report.check(f"of {CROWD} answers one is taken, and it is the one that stands there"):
        intent = suspended()

        def answer(number: int) -> httpx.Response:
            body = {"suspension_id": "s-1", "value": "yes" if number % 2 else "no", "metadata": {"from": number}}
            with httpx.Client(base_url=URL, headers={"X-API-Key": KEY, "X-Agent-ID": f"c{number}"}, timeout=30) as own:
                return own.post(f"/api/v1/intents/{intent}/suspend/respond", json=body)

        told = at_once(answer)
        won = [one.json() for one in told if one.status_code == 200]
        assert len(won) == 1, [(one.status_code, one.text) for one in told]
        assert all(one.status_code == 409 and one.json()["detail"] for one in told if one.status_code != 200), told
        said = written(intent)
        assert (said["resolution"], said["response"]) == ("responded", won[0]["value"]), said
        assert said["responded_at"] == won[0]["responded_at"], (said, won)
        assert len(events(intent, EventType.INTENT_RESUMED)) == 1
        assert ann.get_intent(intent).status == IntentStatus.ACTIVE


SPEND = SuspensionRecord(
    id="s-2",
    question="Spend it?",
    choices=[SuspensionChoice("yes", "Yes", "Spend it."), SuspensionChoice("no", "No")],
    context={"amount": 5},
    channel_hint="somewhere",
    fallback_policy="use_default_and_continue",
    fallback_value="no",
    confidence_at_suspension=0.5,
    decision_record={"why": "unsure"},
    retry_policy=HumanRetryPolicy(
        max_attempts=3,
        interval_seconds=600,
        escalation_ladder=[EscalationStep(attempt=2, channel_hint="phone", notify_to="boss")],
        final_fallback_policy="use_default_and_continue",
    ),
)


def tell(intent: str) -> None:
    """The third of the SDK's calls: an event that the server has written by itself."""
    ann.log_event(
        intent,
        EventType.INTENT_SUSPENDED,
        {
            "suspension_id": SPEND.id,
            "question": SPEND.question,
            "response_type": SPEND.response_type,
            "choices": [choice.to_dict() for choice in SPEND.choices],
            "channel_hint": SPEND.channel_hint,
            "timeout_seconds": None,
            "fallback_policy": SPEND.fallback_policy,
            "confidence_at_suspension": 0.5,
            "retry_policy": SPEND.retry_policy.to_dict() if SPEND.retry_policy else None,
        },
    )


def three_calls(report: Report) -> None:
    """Status, record, event, the first two in either order."""
    ends: dict[str, float] = {}
    for order in ("status first", "record first"):
        with report.check(f"OI-023: the three calls of a suspension, {order}"):
            intent = active()
            begin = wire.now()
            now: Any = intent
            if order == "status first":
                now = ann.set_status(intent.id, now.version, SUSPENDED)
                now = ann.update_state(intent.id, now.version, {"_suspension": SPEND.to_dict()})
            else:
                now = ann.update_state(intent.id, now.version, {"_suspension": SPEND.to_dict()})
                assert now.status == IntentStatus.ACTIVE, "nobody waits before it is said so"
                now = ann.set_status(intent.id, now.version, SUSPENDED)
            assert (now.status, now.version) == (SUSPENDED, intent.version + 2), now
            tell(intent.id)
            assert ann.get_intent(intent.id).version == now.version, "an event is no new version"
            kept = SuspensionRecord.from_dict(written(intent.id))
            for field in ("question", "choices", "context", "channel_hint", "fallback_value", "decision_record"):
                assert getattr(kept, field) == getattr(SPEND, field), (field, kept)
            assert (kept.id, kept.confidence_at_suspension, kept.response_type) == ("s-2", 0.5, "choice"), kept
            assert kept.expires_at, kept
            assert kept.suspended_at, kept
            ends[order] = (kept.expires_at - kept.suspended_at).total_seconds()
            assert ends[order] == 1800, kept
            # Attempts 2 and 3, then what was to be done if nobody answers.
            seen = ann.get_intent(intent.id).version
            wire.advance(600)
            renotified = eventually("a reminder", lambda i=intent: events(i.id, EventType.INTENT_SUSPENSION_RENOTIFIED))
            assert [one.payload["attempt"] for one in renotified] == [2], renotified
            escalated = eventually("higher up", lambda i=intent: events(i.id, EventType.INTENT_SUSPENSION_ESCALATED))
            assert [(one.payload["attempt"], one.payload["escalated_to"]) for one in escalated] == [(2, "boss")]
            with_reminder = ann.update_state(intent.id, seen, {"note": 1})
            assert with_reminder.version == seen + 1, "OI-024: a reminder is no new version"
            # The agent tells of the same, as the SDK does.
            renotice = {"suspension_id": "s-2", "attempt": 2, "max_attempts": 3, "channel_hint": "phone"}
            escalation = {"suspension_id": "s-2", "attempt": 2, "escalated_to": "boss", "channel_hint": "phone"}
            ann.log_event(intent.id, EventType.INTENT_SUSPENSION_ESCALATED, escalation)
            ann.log_event(intent.id, EventType.INTENT_SUSPENSION_RENOTIFIED, renotice)
            for kind in (
                EventType.INTENT_SUSPENDED,
                EventType.INTENT_SUSPENSION_RENOTIFIED,
                EventType.INTENT_SUSPENSION_ESCALATED,
            ):
                assert len(events(intent.id, kind)) == 1, f"OI-021: {kind} is there once"
            payload = events(intent.id, EventType.INTENT_SUSPENDED)[0].payload
            fields = "suspension_id question response_type choices channel_hint timeout_seconds fallback_policy"
            wanted = {*fields.split(), "confidence_at_suspension", "retry_policy"}
            assert wanted <= set(payload), f"OI-020: {wanted - set(payload)} is missing"
            wire.advance(600)
            eventually(
                "the third attempt",
                lambda i=intent: len(events(i.id, EventType.INTENT_SUSPENSION_RENOTIFIED)) == 2,
            )
            assert ann.get_intent(intent.id).status == SUSPENDED
            assert (wire.now() - begin) / 1000 < 1800
            wire.advance(600)
            eventually("the end of it", lambda i=intent: ann.get_intent(i.id).status == IntentStatus.ACTIVE)
            over = written(intent.id)
            assert (over["resolution"], over.get("response")) in (("expired", None), ("expired", "no")), over
            assert len(events(intent.id, EventType.INTENT_SUSPENSION_EXPIRED)) == 1
            # It is over: its name answers nothing any more.
            wire.respond(intent.id, "s-2", "yes", 409)
    with report.check("OI-023: both orders end at the same moment"):
        assert ends["status first"] == ends["record first"], ends
    with report.check("OI-025: an old record does not hinder the next suspension, and its name answers nothing"):
        at = suspended("first")
        wire.respond(at, "first", "yes")
        seen = ann.set_status(at, ann.get_intent(at).version, SUSPENDED)
        wire.respond(at, "first", "yes", 409)
        assert ann.get_intent(at).status == SUSPENDED, (
            "an old name answers nothing, even before the new record is there"
        )
        ann.update_state(at, seen.version, {"_suspension": record("second")})
        refused = wire.respond(at, "first", "yes", 409)
        assert "mismatch" in json.dumps(refused["detail"]), refused
        assert wire.respond(at, "second", "no")["choice_label"] == "No"
        assert written(at)["response"] == "no"
    with report.check("OI-035: what was suspended by its status alone takes any name and any value"):
        bare = active()
        ann.set_status(bare.id, bare.version, SUSPENDED)
        wire.respond(bare.id, "whatever", {"any": 1})
        assert ann.get_intent(bare.id).status == IntentStatus.ACTIVE
    with report.check("OI-002: a draft may wait for people, too"):
        draft = ann.create_intent("Draft")
        assert ann.set_status(draft.id, 1, SUSPENDED).status == SUSPENDED
    with report.check("OI-017: nobody writes an answer past the server"):
        at = suspended("s-3")
        before = ann.get_intent(at)
        for key, value in (
            ("response", "yes"),
            ("resolution", "responded"),
            ("responded_by", "x"),
            ("responded_at", "y"),
        ):
            for patch in ({f"_suspension/{key}": value}, {"_suspension": record("s-3", **{key: value})}):
                wrong = caught(lambda patch=patch: ann.update_state(at, before.version, patch), OpenIntentError)
                assert wrong.status_code in (400, 403, 409, 422), wrong.response
        assert ann.get_intent(at) == before


def answers(report: Report) -> None:
    with report.check("OI-026, 027, 028, 036, 038: what an answer says, and what stands there then"):
        at = suspended("s-4")
        told = wire.respond(at, "s-4", "yes", metadata={"seen": True})
        assert (told["intent_id"], told["suspension_id"], told["resolution"], told["value"]) == (
            at,
            "s-4",
            "responded",
            "yes",
        )
        assert told["responded_by"], told
        assert told["responded_at"], told
        assert told["choice_label"] == "Yes", told
        assert told["choice_description"] == "We go on.", told
        said = SuspensionRecord.from_dict(written(at))
        assert (said.resolution, said.response) == ("responded", "yes"), said
        assert said.responded_at, said
        assert written(at)["responded_by"] == told["responded_by"]
        resumed = events(at, EventType.INTENT_RESUMED)
        assert len(resumed) == 1, resumed
        wanted = {key: told[key] for key in ("intent_id", "suspension_id", "value", "responded_by")}
        assert wanted.items() <= resumed[0].payload.items(), resumed
        assert resumed[0].payload["responded_at"], resumed
    with report.check("OI-031, 032, 033: what does not fit is refused, and it goes on waiting"):
        at = suspended("s-5")
        wrong = wire.respond(at, "s-6", "yes", 409)
        assert "mismatch" in json.dumps(wrong["detail"]), wrong
        path = f"/api/v1/intents/{at}/suspend/respond"
        assert "suspension_id" in json.dumps(wire.post(path, {"value": "yes"}, 422)["detail"])
        choice = wire.respond(at, "s-5", "maybe", 422)["detail"]
        assert choice["error"] == "invalid_choice", choice
        assert "maybe" in choice["message"], choice
        assert [one["value"] for one in choice["valid_choices"]] == ["yes", "no"], choice
        assert ann.get_intent(at).status == SUSPENDED
        assert "resolution" not in written(at)
    with report.check("OI-030: what does not wait takes no answer"):
        said = wire.respond(active().id, "s-1", "yes", 409)
        assert "status=active" in said["detail"], said
    with report.check("OI-029: no key, a wrong key, an intent that is not there"):
        at = suspended("s-7")
        body = {"suspension_id": "s-7", "value": "yes"}
        path = f"/api/v1/intents/{at}/suspend/respond"
        for headers in ({}, {"X-API-Key": "abk_nobody_0000"}, {"X-API-Key": ""}):
            got = httpx.post(URL + path, json=body, headers=headers)
            assert got.status_code == 401, got.text
            assert isinstance(got.json()["detail"], str), got.text
        assert wire.respond(NO_INTENT, "s-7", "yes", 404)["detail"] == "Intent not found"
        assert wire.respond("nonsense", "s-7", "yes", 404)["detail"] == "Intent not found"
        assert ann.get_intent(at).status == SUSPENDED
    with report.check("OI-009: what may be asked, and how it may be answered"):
        for kind, good, wrong in (
            ("confirm", "yes", "perhaps"),
            ("text", "as you like", ""),
            ("form", {"a": 1}, None),
        ):
            at = suspended(f"s-{kind}", response_type=kind, choices=[])
            if wrong is not None:
                wire.respond(at, f"s-{kind}", wrong, 422)
            told = wire.respond(at, f"s-{kind}", good)
            assert kind == "confirm" or "choice_label" not in told, told
            assert written(at)["response"] == good
    for name, wrong in (
        ("OI-008: a record without a question", {"question": None}),
        ("OI-008: a record without its name", {"id": None}),
        ("OI-008: a record without a fallback_policy", {"fallback_policy": None}),
        ("OI-009: another response_type", {"response_type": "date"}),
        ("OI-010: a choice without its label", {"choices": [{"value": "x"}]}),
        ("OI-010: another style", {"choices": [{"value": "x", "label": "X", "style": "loud"}]}),
        ("OI-011: no choices", {"choices": []}),
        ("OI-013: another fallback_policy", {"fallback_policy": "deny"}),
        ("OI-014: more than certain", {"confidence_at_suspension": 1.2}),
    ):
        with report.check(f"{name} is refused, and nothing is changed"):
            intent = active()
            waits = ann.set_status(intent.id, intent.version, SUSPENDED)
            error = refusal(
                lambda waits=waits, wrong=wrong: ann.update_state(
                    waits.id, waits.version, {"_suspension": record("s-8", **wrong)}
                ),
                OpenIntentError,
                422,
            )
            assert error.response["detail"], error.response
            assert ann.get_intent(intent.id) == waits


def ways_out(report: Report) -> None:
    with report.check("OI-005: who waits for people does not complete, and what is complete does not wait"):
        at = suspended("s-9")
        seen = ann.get_intent(at).version
        refusal(lambda: ann.set_status(at, seen, IntentStatus.COMPLETED), ConflictError, 409)
        done = active()
        done = ann.set_status(done.id, done.version, IntentStatus.COMPLETED)
        refusal(lambda: ann.set_status(done.id, done.version, SUSPENDED), ConflictError, 409)
        assert ann.get_intent(at).status == SUSPENDED
        assert ann.get_intent(done.id) == done
    with report.check("OI-004, 018: nobody answers in time, and nothing was to be done then"):
        at = suspended("s-10", timeout_seconds=600)
        kept = SuspensionRecord.from_dict(written(at))
        assert kept.expires_at, kept
        assert kept.suspended_at, kept
        assert (kept.expires_at - kept.suspended_at).total_seconds() == 600, kept
        wire.advance(599)
        assert ann.get_intent(at).status == SUSPENDED
        wire.advance(1)
        eventually("it is given up", lambda: ann.get_intent(at).status == IntentStatus.ABANDONED)
        assert written(at)["resolution"] == "expired"
    with report.check("OI-019: without an end it never ends"):
        at = suspended("s-11")
        assert "expires_at" not in written(at), written(at)
        wire.advance(365 * 24 * 3600)
        assert ann.get_intent(at).status == SUSPENDED
        wire.respond(at, "s-11", "no")
    with report.check("suspended, listed and taken back in one call each"):
        intent = active()
        path = f"/api/v1/intents/{intent.id}"
        asked = {key: value for key, value in record("s-12").items() if key != "id"}
        waits = wire.post(f"{path}/suspend", asked)
        assert waits["status"] == SUSPENDED.value, waits
        open_ = wire.get(f"{path}/suspensions")["suspensions"]
        assert [one["question"] for one in open_] == ["Go on?"], open_
        wire.post(f"{path}/suspend/cancel", {"suspension_id": "other"}, 409)
        wire.post(f"{path}/suspend/cancel", {"suspension_id": open_[0]["id"]})
        assert written(intent.id)["resolution"] == "cancelled"
        assert ann.get_intent(intent.id).status == IntentStatus.ACTIVE
        assert wire.get(f"{path}/suspensions")["suspensions"] == []


def run_of(intent: str) -> Any:
    """The same thing as a run, in OpenWOP's words."""
    return wire.get(f"/v1/runs/run-{intent}")


def inbox_of(intent: str) -> list[Any]:
    found = wire.get("/v1/interrupts")["interrupts"]
    return [one for one in found if one["runId"] == f"run-{intent}"]


def both_worlds(report: Report) -> None:
    with report.check("OI-022: a status alone asks something, and its record makes no second question of it"):
        intent = active()
        waits = ann.set_status(intent.id, intent.version, SUSPENDED)
        asked = inbox_of(intent.id)
        assert len(asked) == 1, asked
        wire.advance(59)
        ann.update_state(intent.id, waits.version, {"_suspension": record("s-20")})
        again = inbox_of(intent.id)
        assert [one["interruptId"] for one in again] == [asked[0]["interruptId"]], (asked, again)
        assert len(events(intent.id, EventType.INTENT_SUSPENDED)) == 1
        assert wire.respond(intent.id, "s-20", "yes")["choice_label"] == "Yes"
    with report.check("OI-187: where no record comes within 60 s, there is a question that takes a text"):
        intent = active()
        waits = ann.set_status(intent.id, intent.version, SUSPENDED)
        wire.advance(61)
        asked = eventually("a question", lambda: inbox_of(intent.id))
        assert len(asked) == 1, asked
        assert ann.get_intent(intent.id).version == waits.version
        wire.respond(intent.id, "any", "as you like")
        assert ann.get_intent(intent.id).status == IntentStatus.ACTIVE
    with report.check("OI-051: a suspension is a clarification to OpenWOP, and is answered there as well"):
        at = suspended("s-21")
        seen = run_of(at)
        assert seen["status"] == "waiting-input", seen
        assert seen["interrupt"]["kind"] == "clarification", seen["interrupt"]
        questions = seen["interrupt"]["data"]["questions"]
        assert [one["question"] for one in questions] == ["Go on?"], questions
        name = seen["interrupt"]["nodeId"]
        wire.post(f"/v1/runs/run-{at}/interrupts/{name}", {"resumeValue": {"answers": {questions[0]["id"]: "no"}}})
        said = written(at)
        assert (said["response"], said["resolution"]) == ("no", "responded"), said
        assert len(events(at, EventType.INTENT_RESUMED)) == 1
        assert ann.get_intent(at).status == IntentStatus.ACTIVE
    with report.check("OI-052: an approval of OpenWOP's is a choice here, and is answered here as well"):
        gate = {
            "id": "gate",
            "typeId": "core.approvalGate",
            "name": "gate",
            "position": {"x": 0, "y": 0},
            "config": {"title": "Release?"},
            "inputs": {},
            "settings": {},
        }
        definition = {"id": "review", "name": "review", "version": "1.0", "nodes": [gate], "edges": []}
        definition |= {"triggers": [], "variables": [], "metadata": {}, "settings": {}}
        put = wire.http.put("/v1/workflows/review", json=definition)
        assert put.is_success, put.text
        run = wire.post("/v1/runs", {"workflowId": "review", "inputs": {}}, 201)["runId"].removeprefix("run-")
        eventually("it asks", lambda: ann.get_intent(run).status == SUSPENDED)
        asked = SuspensionRecord.from_dict(written(run))
        assert asked.response_type == "choice", asked
        assert {"accept", "reject"} <= {choice.value for choice in asked.choices}, asked
        wire.respond(run, asked.id, "maybe", 422)
        wire.respond(run, asked.id, "accept")
        eventually("it completes", lambda: ann.get_intent(run).status == IntentStatus.COMPLETED)
        assert ann.get_events(run), "its events can be read as well"
    with report.check("OI-003: where something else is to be done first, an answer leaves it blocked"):
        before, after = active(), active()
        waits = ann.set_status(after.id, after.version, SUSPENDED)
        waits = ann.update_state(after.id, waits.version, {"_suspension": record("s-22")})
        ann.add_dependency(after.id, before.id, waits.version)
        assert ann.get_intent(after.id).status == SUSPENDED
        wire.respond(after.id, "s-22", "yes")
        assert ann.get_intent(after.id).status == IntentStatus.BLOCKED
        ann.set_status(before.id, before.version, IntentStatus.COMPLETED)
        eventually("it goes on", lambda: ann.get_intent(after.id).status == IntentStatus.ACTIVE)
    with report.check("OI-183: a record without a policy is told of once, and then what was to be done is done"):
        at = suspended("s-23", timeout_seconds=60, fallback_policy="use_default_and_continue", fallback_value="no")
        wire.advance(60)
        eventually("the end of it", lambda: written(at).get("resolution") == "expired")
        assert ann.get_intent(at).status == IntentStatus.ACTIVE
        assert events(at, EventType.INTENT_SUSPENSION_RENOTIFIED) == []
        assert len(events(at, EventType.INTENT_SUSPENSION_EXPIRED)) == 1
    with report.check("OI-030: a suspension that is held takes its answer all the same"):
        at = suspended("s-24")
        held = wire.http.post(f"/v1/runs/run-{at}:hold", json={"mode": "stop", "reason": "audit"})
        assert held.is_success, held.text
        assert wire.respond(at, "s-24", "yes")["resolution"] == "responded"
        assert written(at)["response"] == "yes"


def leases(report: Report) -> None:
    with report.check("OI-007: leases are renewed and given back while the intent waits for people"):
        intent = active()
        kept, given = (ann.acquire_lease(intent.id, scope, 600) for scope in ("kept", "given"))
        ann.set_status(intent.id, ann.get_intent(intent.id).version, SUSPENDED)
        longer = ann.renew_lease(intent.id, kept.id, 7200)
        assert longer.expires_at > kept.expires_at, longer
        ann.release_lease(intent.id, given.id)
        held = [lease.scope for lease in ann.get_leases(intent.id) if lease.status.value == "active"]
        assert held == ["kept"], held
        wire.advance(3600)
        refusal(lambda: client("bob").acquire_lease(intent.id, "kept"), LeaseConflictError, 409)
        assert ann.get_events(intent.id), "the events can still be read"
    with report.check(f"of {CROWD} who want a lease one gets it"):
        intent = active()
        told = at_once(lambda number: client(f"c{number}").acquire_lease(intent.id, "one", 600))
        won = [one for one in told if not isinstance(one, OpenIntentError)]
        assert len(won) == 1, told
        for error in told:
            if error is not won[0]:
                assert type(error) is LeaseConflictError, error
                assert error.existing_lease["id"] == won[0].id, error
        wire.advance(601)
        assert client("late").acquire_lease(intent.id, "one").agent_id == "late", "it is over by itself"


# What nobody should send.
NONSENSE: list[bytes] = [b"", b"hello", b"[]", b"[1]", b'"text"', b"5", b"null", b"{", b'{"a":', b"\xff\xfe", b"{}"]


def malformed(report: Report) -> None:
    at = suspended("s-13")
    paths = [
        ("POST", "/api/v1/intents"),
        ("POST", f"/api/v1/intents/{at}/suspend/respond"),
        ("POST", f"/api/v1/intents/{at}/suspend/cancel"),
        ("POST", f"/api/v1/intents/{at}/suspend"),
        ("POST", f"/api/v1/intents/{at}/status"),
        ("POST", f"/api/v1/intents/{at}/leases"),
        ("POST", f"/api/v1/intents/{at}/agents"),
        ("POST", f"/api/v1/intents/{at}/events"),
        ("POST", f"/api/v1/intents/{at}/approvals"),
        ("POST", f"/api/v1/intents/{at}/acl/entries"),
        ("POST", f"/api/v1/intents/{at}/decisions"),
        ("POST", f"/api/v1/intents/{at}/costs"),
        ("POST", f"/api/v1/intents/{at}/attachments"),
        ("POST", f"/api/v1/intents/{at}/channels"),
        ("POST", "/api/v1/portfolios"),
        ("POST", "/api/v1/tasks"),
        ("POST", "/api/v1/plans"),
        ("POST", "/api/v1/coordinators"),
        ("POST", "/api/v1/decisions"),
    ]
    before = ann.get_intent(at)
    for method, path in paths:
        with report.check(f"OI-034: {method} {path.replace(at, '…')} with a body that is none"):
            for body in NONSENSE:
                headers = {"If-Match": str(before.version), "Content-Type": "application/json"}
                got = wire.http.request(method, path, content=body, headers=headers)
                assert 400 <= got.status_code < 500, f"{body!r}: {got.status_code} {got.text}"
                assert got.status_code != 404, f"{body!r}: {got.status_code} {got.text}"
                said = got.json()
                assert isinstance(said, dict), f"{body!r}: {said}"
                assert said["detail"], f"{body!r}: {said}"
                assert said["message"], f"{body!r}: {said}"
    with report.check("nothing of all that did anything"):
        assert ann.get_intent(at) == before
    with report.check("the version has to be said, as a number or in quotes"):
        intent = active()
        path = f"/api/v1/intents/{intent.id}"
        for call in ("state", "status"):
            for headers in ({}, {"If-Match": "three"}, {"If-Match": "*"}):
                got = wire.http.post(f"{path}/{call}", json={"status": "completed", "patches": []}, headers=headers)
                assert got.status_code == 400, got.text
                assert got.json()["detail"].startswith("If-Match header required"), got.text
        got = wire.http.post(f"{path}/status", json={"status": "completed"}, headers={"If-Match": '"2"'})
        assert got.status_code == 200, (got.headers, got.text)
        assert got.headers["etag"] == '"3"', (got.headers, got.text)
    with report.check("a conflict about something else is never taken for one about a lease"):
        intent = active()
        body = {"patches": [{"op": "set", "path": "please", "value": "released"}]}
        got = wire.http.post(f"/api/v1/intents/{intent.id}/state", json=body, headers={"If-Match": "1"})
        assert got.status_code == 409, got.text
        assert "lease" not in got.text.lower(), got.text
        refusal(lambda: ann.update_state(intent.id, 1, {"please": "released"}), ConflictError, 409)


def strangers(report: Report) -> None:
    with report.check("401 and 404 come as the SDK reads them"):
        stranger = OpenIntentClient(URL, "abk_nobody_0000", "ann")
        at = active().id
        for call in (
            lambda: stranger.create_intent("x"),
            lambda: stranger.get_intent(at),
            lambda: stranger.list_intents(),
            lambda: stranger.get_events(at),
            lambda: stranger.acquire_lease(at, "x"),
        ):
            error = refusal(call, OpenIntentError, 401)
            assert isinstance(error.response["detail"], str), error.response
        for call in (lambda: ann.get_intent(NO_INTENT), lambda: ann.get_intent("x"), lambda: ann.get_acl(NO_INTENT)):
            assert refusal(call, NotFoundError, 404).response["detail"] == "Intent not found"
        got = httpx.get(f"{URL}/.well-known/openintent.json")
        assert got.status_code == 200, got.text
        assert isinstance(got.json(), dict), got.text
        assert httpx.get(f"{URL}/.well-known/openintent-compat.json").json()["rfcCompliance"]["RFC-0026"] == "full"


def connections(report: Report) -> None:
    """What is refused before its body is read does not take the next request along."""
    at = active().id
    nobody = {"X-API-Key": "abk_nobody_0000"}
    for name, path, headers, status in (
        ("with another key", "/api/v1/intents", nobody, 401),
        ("where nothing is", "/api/v1/nothing", {}, 404),
        ("because it is not offered", "/api/v1/memory", {}, 501),
        ("without a version", f"/api/v1/intents/{at}/state", {}, 400),
    ):
        own = httpx.Client(base_url=URL, headers={"X-API-Key": KEY, "X-Agent-ID": "ann"})
        with report.check(f"the connection lasts when something is refused early, {name}"), own:
            for _ in range(200):
                got = own.post(path, json={"title": "x", "patches": []}, headers=headers)
                assert got.status_code == status, got.text


def main() -> None:
    report = Report()
    for part in (
        patches_with_one_version,
        nested,
        one_answer,
        three_calls,
        answers,
        ways_out,
        both_worlds,
        leases,
        malformed,
        strangers,
        connections,
    ):
        part(report)
    report.end()


main()
