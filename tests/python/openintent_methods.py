"""Calls every public method of OpenIntent's own clients, the one that waits and the one that does not, against a
running server with a test clock.

The methods are found by introspection: one that has no entry below fails the run, so a newer SDK can't bring a method
that nobody looked at, and an entry without its method does as well. What the server offers is called with success, and
what comes back has to say what it should; then wrongly, and the exception has to be the right one. What it does not
offer has to be refused plainly.
"""

import asyncio
import inspect
import json
import re
import threading
import types
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import openintent
from openintent import (
    AsyncOpenIntentClient,
    ConflictError,
    EventType,
    IntentStatus,
    LeaseConflictError,
    NotFoundError,
    OpenIntentClient,
    OpenIntentError,
    ValidationError,
)
from openintent.models import (
    AccessPolicy,
    DecisionType,
    LeaseStatus,
    MembershipRole,
    Permission,
    PlanState,
    PortfolioStatus,
    RetryStrategy,
    TaskStatus,
)
from openintent_checks import NO_INTENT, Report, Wire, arguments, caught, eventually, record, refusal

URL, KEY = arguments()
NOWHERE = "no-such-thing"

rows: dict[str, Callable[["Trial"], None]] = {}
groups: list[tuple[tuple[str, ...], Callable[["Trial"], None]]] = []

# Methods that say nothing when they fail, or that nothing can be wrong with.
SILENT = {
    "close": "it asks nobody",
    "close_channel": "the SDK does not look at the answer",
    "list_coordinator_leases": "see there",
    "create_event_queue": "an error is an event",
    "subscribe_sse": "an error is an event",
    "subscribe_portfolio": "an error is an event",
    "subscribe_agent": "there is a stream for any name",
    "get_retry_policy": "the SDK makes None of 404",
    "get_server_config": "there is one for all",
    "list_portfolios": "see there",
    "list_escalations": "see there",
    "get_subscriptions": "see there",
}

# What has no zone and means UTC: the SDK can't compare anything else, and older Pythons can't read it.
NAIVE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?")

# In these stands what somebody else wrote.
FOREIGN = {"payload", "state", "metadata", "context", "input", "output", "constraints", "governance_policy", "options"}


def row(*names: str) -> Callable[[Callable[["Trial"], None]], Callable[["Trial"], None]]:
    """Notes how methods are tried."""

    def note(attempt: Callable[["Trial"], None]) -> Callable[["Trial"], None]:
        for name in names:
            assert name not in rows, f"{name} has two rows"
            rows[name] = attempt
        groups.append((names, attempt))
        return attempt

    return note


def check_moments(value: Any, at: str = "") -> None:
    """Every moment in an answer is one that the SDK can compare."""
    if isinstance(value, list):
        for item in value:
            check_moments(item, at)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in FOREIGN:
                continue
            if isinstance(item, str) and (key.endswith("_at") or (key.endswith("At") and key != "At")):
                assert NAIVE.fullmatch(item), f"{at}.{key} is {item!r}"
            check_moments(item, f"{at}.{key}")


class Caller:
    """A client of either kind, called as if it waited. It notes what worked and what was refused."""

    def __init__(self, trial: "Trial", agent: str, key: str = KEY, url: str = URL) -> None:
        kind = OpenIntentClient if trial.kind == "sync" else AsyncOpenIntentClient
        self.client: Any = kind(url, key, agent)
        self.agent = agent
        self.trial = trial
        if trial.kind == "sync":
            self.client._client.event_hooks = {"response": [self._look]}
        else:
            self.client._client.event_hooks = {"response": [self._look_later]}

    def _look(self, response: httpx.Response) -> None:
        response.read()
        self._check(response)

    async def _look_later(self, response: httpx.Response) -> None:
        await response.aread()
        self._check(response)

    def _check(self, response: httpx.Response) -> None:
        if response.content:
            check_moments(json.loads(response.content), str(response.url.path))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.client, name)

        def call(*given: Any, **named: Any) -> Any:
            try:
                got = method(*given, **named)
                if inspect.isawaitable(got):
                    got = self.trial.loop.run_until_complete(got)
            except Exception:
                self.trial.refused.add(name)
                raise
            self.trial.worked.add(name)
            if name in ("create_intent", "create_child_intent"):
                self.trial.made.append(got.id)
            return got

        return call


class Trial:
    """One kind of client, and what it has made so far."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.loop = asyncio.new_event_loop()
        self.worked: set[str] = set()
        self.refused: set[str] = set()
        self.made: list[str] = []
        self.c = Caller(self, f"ann-{kind}")
        self.other = Caller(self, f"bob-{kind}")
        self.stranger = Caller(self, "stranger", "abk_nobody_0000")
        self.wire = Wire(URL, KEY, f"ann-{kind}")
        self._busy: str | None = None

    @property
    def is_sync(self) -> bool:
        return self.kind == "sync"

    def intent(self, title: str = "Anything", **more: Any) -> Any:
        return self.c.create_intent(title, more.pop("description", "To be done."), **more)

    def active(self, **more: Any) -> Any:
        intent = self.intent(**more)
        return self.c.set_status(intent.id, intent.version, IntentStatus.ACTIVE)

    @property
    def busy(self) -> str:
        """An intent with which everything is done, so that everything is in its events."""
        if self._busy is None:
            self._busy = self.active(title="Busy").id
        return self._busy

    def unknown(self, call: Callable[[str], Any]) -> None:
        """Of an intent that is not there."""
        error = refusal(lambda: call(NO_INTENT), NotFoundError, 404)
        assert error.response["detail"] == "Intent not found", error.response


def bad(call: Callable[[], Any]) -> Any:
    """A value that is not what it has to be."""
    error = refusal(call, OpenIntentError, 422)
    detail = error.response["detail"]
    assert isinstance(detail, str | dict) or detail[0]["loc"][0] == "body", detail
    return error


def gone(call: Callable[[], Any]) -> None:
    refusal(call, NotFoundError, 404)


def stale(call: Callable[[], Any], version: int | None = None) -> None:
    """Somebody was faster."""
    error = refusal(call, ConflictError, 409)
    if version is not None:
        assert error.current_version == version, error.response


def named(value: str) -> Any:
    """What looks like a member of one of the SDK's enumerations and is none."""
    return types.SimpleNamespace(value=value)


def ids(found: Any) -> list[str]:
    return [one["id"] if isinstance(one, dict) else one.id for one in found]


def kinds(trial: Trial, intent: str) -> list[str]:
    """The types of an intent's events, newest first."""
    return [event.event_type.value for event in trial.c.get_events(intent, limit=1000)]


# Intents


@row("discover")
def _(t: Trial) -> None:
    told = t.c.discover()
    assert told["protocol"] == "OpenIntent Coordination Protocol", told
    assert {"intents", "leasing", "governance"} <= set(told["capabilities"]), told
    assert not {"federation", "tools"} & set(told["capabilities"]), "what is not built is not told of"
    nowhere = Caller(t, "ann", url=URL + "/nowhere")
    try:
        nowhere.discover()
    except NotFoundError:
        return
    raise AssertionError("there is something nowhere")


@row("create_intent", "get_intent")
def _(t: Trial) -> None:
    policy = {"completion_mode": "auto", "require_status_reason": True}
    made = t.c.create_intent(
        "Write it",
        "All of it.",
        constraints={"words": 5},
        initial_state={"done": 0, "deep": {"a": [1]}},
        governance_policy=policy,
    )
    assert (made.title, made.description, made.created_by) == ("Write it", "All of it.", t.c.agent), made
    assert (made.status, made.version, made.constraints) == (IntentStatus.DRAFT, 1, {"words": 5}), made
    assert made.state.to_dict() == {"done": 0, "deep": {"a": [1]}}, made.state
    assert made.governance_policy.require_status_reason, made
    assert made.created_at, made
    assert not made.created_at.tzinfo, made
    assert t.c.get_intent(made.id) == made
    assert kinds(t, made.id)[-1] == "intent_created"
    bad(lambda: t.c.create_intent("", "Nothing."))
    bad(lambda: t.c.create_intent("x", "y", governance_policy={"completion_mode": "never"}))
    refusal(lambda: t.stranger.create_intent("x", "y"), OpenIntentError, 401)
    t.unknown(t.c.get_intent)
    gone(lambda: t.c.get_intent(NOWHERE))
    if t.is_sync:
        child = t.c.create_intent("Part", parent_intent_id=made.id, depends_on=[t.intent().id])
        assert child.parent_intent_id == made.id, child
        assert len(child.depends_on) == 1, child
        assert t.c.get_intent(child.id).parent_intent_id == made.id
        gone(lambda: t.c.create_intent("x", parent_intent_id=NO_INTENT))
        lost = caught(lambda: t.c.create_intent("x", depends_on=[NO_INTENT]), OpenIntentError)
        assert lost.status_code in (400, 404, 422), lost.response
        assert lost.response["detail"], lost.response


@row("list_intents")
def _(t: Trial) -> None:
    first, second = t.intent(), t.active()
    newest = t.c.list_intents(limit=2)
    assert ids(newest) == [second.id, first.id], ids(newest)
    assert ids(t.c.list_intents(limit=1, offset=1)) == [first.id]
    active = t.c.list_intents(status=IntentStatus.ACTIVE)
    assert second.id in ids(active)
    assert first.id not in ids(active)
    assert {one.status for one in active} == {IntentStatus.ACTIVE}
    assert second == active[ids(active).index(second.id)], "in a list it looks as it does alone"
    bad(lambda: t.c.list_intents(status=named("bogus")))


@row("update_state")
def _(t: Trial) -> None:
    intent = t.intent(initial_state={"kept": 1, "deep": {"a": 1}})
    changed = t.c.update_state(intent.id, 1, {"progress": 0.5, "deep/b": [2]})
    assert (changed.version, changed.state.to_dict()) == (
        2,
        {"kept": 1, "deep": {"a": 1, "b": [2]}, "progress": 0.5},
    ), changed
    assert t.c.get_intent(intent.id) == changed
    assert kinds(t, intent.id)[0] == "state_patched"
    stale(lambda: t.c.update_state(intent.id, 1, {"progress": 1}), 2)
    t.unknown(lambda no: t.c.update_state(no, 1, {"a": 1}))
    assert t.c.get_intent(intent.id) == changed, "what was refused changed nothing"


@row("set_status")
def _(t: Trial) -> None:
    intent = t.intent()
    active = t.c.set_status(intent.id, 1, IntentStatus.ACTIVE, reason="now")
    assert (active.status, active.version) == (IntentStatus.ACTIVE, 2), active
    event = t.c.get_events(intent.id, EventType.STATUS_CHANGED)[0]
    assert (event.payload["status"], event.payload["reason"]) == ("active", "now"), event
    stale(lambda: t.c.set_status(intent.id, 1, IntentStatus.ABANDONED), 2)
    bad(lambda: t.c.set_status(intent.id, 2, named("bogus")))
    done = t.c.set_status(intent.id, 2, IntentStatus.COMPLETED)
    assert t.c.get_intent(intent.id) == done
    for back in (IntentStatus.ACTIVE, IntentStatus.SUSPENDED_AWAITING_INPUT):
        refusal(lambda back=back: t.c.set_status(intent.id, done.version, back), ConflictError, 409)
    t.unknown(lambda no: t.c.set_status(no, 1, IntentStatus.ACTIVE))


# Governance, approvals, escalations


@row("set_governance_policy", "get_governance_policy", "remove_governance_policy")
def _(t: Trial) -> None:
    intent = t.active()
    policy = {"completion_mode": "require_approval", "write_scope": "any"}
    governed = t.c.set_governance_policy(intent.id, intent.version, policy)
    assert governed.governance_policy.completion_mode == "require_approval", governed
    shown = t.c.get_governance_policy(intent.id)
    assert shown["intent_id"] == intent.id, shown
    assert shown["governance_policy"] == policy, shown
    effective = {"completion_mode": "require_approval", "write_scope": "any", "require_status_reason": False}
    assert effective.items() <= shown["effective_policy"].items(), shown
    error = refusal(lambda: t.c.set_status(intent.id, governed.version, IntentStatus.COMPLETED), OpenIntentError, 403)
    assert error.response["detail"]["error"] == "governance_violation", error.response
    stale(lambda: t.c.set_governance_policy(intent.id, 1, policy), governed.version)
    for wrong in ({"completion_mode": "never"}, {"write_scope": "some"}, {"quorum_threshold": 2}, {"max_cost": -1}):
        bad(lambda wrong=wrong: t.c.set_governance_policy(intent.id, governed.version, wrong))
    stale(lambda: t.c.remove_governance_policy(intent.id, 1), governed.version)
    free = t.c.remove_governance_policy(intent.id, governed.version)
    assert free.governance_policy is None, free
    assert t.c.get_governance_policy(intent.id)["governance_policy"] == {}, free
    assert t.c.set_status(intent.id, free.version, IntentStatus.COMPLETED).status == IntentStatus.COMPLETED
    assert {"governance.policy_set", "governance.policy_removed"} <= set(kinds(t, intent.id)), kinds(t, intent.id)
    t.unknown(t.c.get_governance_policy)
    t.unknown(lambda no: t.c.set_governance_policy(no, 1, policy))
    t.unknown(lambda no: t.c.remove_governance_policy(no, 1))


@row("request_approval", "get_approval_status", "approve_approval", "deny_approval")
def _(t: Trial) -> None:
    asked = t.c.request_approval(t.busy, "deploy", "it is time", {"to": "production"})
    assert (asked.intent_id, asked.action, asked.reason) == (t.busy, "deploy", "it is time"), asked
    assert (asked.requested_by, asked.context, asked.status) == (t.c.agent, {"to": "production"}, "pending"), asked
    assert t.c.get_approval_status(t.busy, asked.id) == asked
    assert t.c.approve_approval(t.busy, asked.id)["status"] == "approved"
    approved = t.c.get_approval_status(t.busy, asked.id)
    assert (approved.status, bool(approved.decided_by), bool(approved.decided_at)) == ("approved", True, True), approved
    stale(lambda: t.c.approve_approval(t.busy, asked.id))
    stale(lambda: t.c.deny_approval(t.busy, asked.id))
    second = t.c.request_approval(t.busy, "delete")
    assert t.c.deny_approval(t.busy, second.id)["status"] == "denied"
    assert t.c.get_approval_status(t.busy, second.id).status == "denied"
    for call in (t.c.get_approval_status, t.c.approve_approval, t.c.deny_approval):
        gone(lambda call=call: call(t.busy, NOWHERE))
        gone(lambda call=call: call(NO_INTENT, asked.id))
    t.unknown(lambda no: t.c.request_approval(no, "deploy"))


@row("escalate_to_human", "list_escalations", "resolve_escalation")
def _(t: Trial) -> None:
    made = t.c.escalate_to_human(t.busy, "nobody knows", "high", "critical", {"tried": 3})
    assert (made.intent_id, made.escalated_by, made.reason) == (t.busy, t.c.agent, "nobody knows"), made
    assert (made.priority, made.urgency, made.context) == ("high", "critical", {"tried": 3}), made
    assert made.status == "pending", made
    assert not made.resolved_at, made
    assert t.c.list_escalations(intent_id=t.busy) == [made]
    assert made in t.c.list_escalations(status="pending")
    assert made in t.c.list_escalations()
    resolved = t.c.resolve_escalation(made.id, "carry on", "but slowly")
    assert (resolved.id, resolved.status) == (made.id, "resolved"), resolved
    assert resolved.resolved_at, resolved
    assert "carry on" in resolved.resolution, resolved
    assert resolved.resolved_by, resolved
    assert t.c.list_escalations(intent_id=t.busy, status="pending") == []
    assert t.c.list_escalations(intent_id=t.busy, status="resolved") == [resolved]
    stale(lambda: t.c.resolve_escalation(made.id, "again"))
    gone(lambda: t.c.resolve_escalation(NOWHERE, "what?"))
    t.unknown(lambda no: t.c.escalate_to_human(no, "x"))
    gone(lambda: t.c.list_escalations(intent_id=NO_INTENT))


@row("request_arbitration")
def _(t: Trial) -> None:
    asked = t.c.request_arbitration(t.busy, "two of us want it", {"who": ["a", "b"]})
    assert (asked.intent_id, asked.requester_id, asked.status) == (t.busy, t.c.agent, "pending"), asked
    assert (asked.reason, asked.context) == ("two of us want it", {"who": ["a", "b"]}), asked
    assert "arbitration_requested" in kinds(t, t.busy)
    bad(lambda: t.c.request_arbitration(t.busy, None))
    t.unknown(lambda no: t.c.request_arbitration(no, "x"))


@row("record_decision", "get_decisions")
def _(t: Trial) -> None:
    made = t.c.record_decision(t.busy, "arbitration", "a gets it", "was first")
    assert (made.intent_id, made.decision_maker_id) == (t.busy, t.c.agent), made
    assert (made.decision_type, made.outcome, made.reasoning) == ("arbitration", "a gets it", "was first"), made
    assert t.c.get_decisions(t.busy) == [made]
    assert "decision_recorded" in kinds(t, t.busy)
    bad(lambda: t.c.record_decision(t.busy, None, "x", "y"))
    t.unknown(lambda no: t.c.record_decision(no, "x", "y", "z"))
    t.unknown(t.c.get_decisions)


# Events


@row("log_event", "get_events")
def _(t: Trial) -> None:
    intent = t.active().id
    before = datetime.now(UTC).replace(tzinfo=None)
    logged = t.c.log_event(intent, EventType.COMMENT, {"note": [1]}, trace_id="a" * 32, parent_event_id="cause-1")
    assert (logged.intent_id, logged.event_type, logged.actor) == (intent, EventType.COMMENT, t.c.agent), logged
    assert (logged.payload, logged.trace_id, logged.parent_event_id) == ({"note": [1]}, "a" * 32, "cause-1"), logged
    events = t.c.get_events(intent)
    # Newest first.
    assert (events[0].id, events[0].payload, events[0].trace_id) == (logged.id, logged.payload, "a" * 32), events[0]
    assert events[0].parent_event_id == "cause-1", events
    assert events[-1].event_type == EventType.INTENT_CREATED, events
    assert len({event.id for event in events}) == len(events), "each has an id of its own"
    assert ids(t.c.get_events(intent, EventType.COMMENT)) == [logged.id]
    assert ids(t.c.get_events(intent, limit=1)) == [logged.id]
    assert len(t.c.get_events(intent, since=before - timedelta(days=1))) == len(events)
    assert t.c.get_events(intent, since=before + timedelta(days=400)) == []
    # Others may say what they like; the list has only what the SDK can read.
    body = {"event_type": "note", "actor": "ann", "payload": {"a": 1}}
    assert t.wire.post(f"/api/v1/intents/{intent}/events", body)["event_type"] == "note"
    assert len(t.c.get_events(intent)) == len(events)
    t.unknown(lambda no: t.c.log_event(no, EventType.COMMENT))
    t.unknown(t.c.get_events)


@row(
    "log_tool_call_started",
    "log_tool_call_completed",
    "log_tool_call_failed",
    "log_llm_request_started",
    "log_llm_request_completed",
    "log_llm_request_failed",
    "start_stream",
    "log_stream_chunk",
    "complete_stream",
    "cancel_stream",
)
def _(t: Trial) -> None:
    calls: list[tuple[str, tuple[Any, ...], str, dict[str, Any]]] = [
        ("log_tool_call_started", ("grep", "t1", {"q": 1}), "tool_call_started", {"tool_name": "grep"}),
        ("log_tool_call_completed", ("grep", "t1", {"q": 1}, [2]), "tool_call_completed", {"result": [2]}),
        ("log_tool_call_failed", ("grep", "t2", {}, "no"), "tool_call_failed", {"error": "no"}),
        ("log_llm_request_started", ("r1", "acme", "m", 3), "llm_request_started", {"messages_count": 3}),
        (
            "log_llm_request_completed",
            ("r1", "acme", "m", 3, "hi"),
            "llm_request_completed",
            {"response_content": "hi"},
        ),
        ("log_llm_request_failed", ("r2", "acme", "m", 3, "no"), "llm_request_failed", {"error": "no"}),
        ("start_stream", ("s1", "acme", "m"), "stream_started", {"stream_id": "s1"}),
        ("log_stream_chunk", ("s1", 0, 4), "stream_chunk", {"token_count": 4}),
        ("complete_stream", ("s1", "acme", "m", 1, 4), "stream_completed", {"tokens_streamed": 4}),
        ("cancel_stream", ("s2", "acme", "m", "bored"), "stream_cancelled", {"cancel_reason": "bored"}),
    ]
    for name, given, kind, said in calls:
        logged = getattr(t.c, name)(t.busy, *given)
        assert logged.event_type.value == kind, logged
        assert said.items() <= logged.payload.items(), logged
        listed = t.c.get_events(t.busy, EventType(kind))
        assert (listed[0].id, listed[0].payload) == (logged.id, logged.payload), listed
        t.unknown(lambda no, name=name, given=given: getattr(t.c, name)(no, *given))


@row("verify_event_chain")
def _(t: Trial) -> None:
    told = t.c.verify_event_chain(t.busy)
    assert told.valid, told
    assert told.intent_id == t.busy, told
    assert told.breaks == [], told
    assert told.event_count > 0, told
    assert told.last_sequence >= told.first_sequence, told
    t.unknown(t.c.verify_event_chain)


# Leases


@row("acquire_lease", "get_leases", "renew_lease", "release_lease")
def _(t: Trial) -> None:
    intent = t.busy
    lease = t.c.acquire_lease(intent, "research", 600)
    assert (lease.intent_id, lease.agent_id, lease.scope) == (intent, t.c.agent, "research"), lease
    assert lease.status == LeaseStatus.ACTIVE, lease
    assert lease.expires_at - lease.created_at == timedelta(seconds=600), lease
    assert isinstance(lease.is_active, bool)
    for who in (t.other, t.c):
        error = refusal(lambda who=who: who.acquire_lease(intent, "research"), LeaseConflictError, 409)
        assert error.existing_lease["id"] == lease.id, error.response
        assert error.existing_lease["agent_id"] == t.c.agent, error.response
    assert lease in t.c.get_leases(intent)
    longer = t.c.renew_lease(intent, lease.id, 3600)
    assert longer.id == lease.id, longer
    assert longer.expires_at > lease.expires_at + timedelta(seconds=2000), longer
    assert t.c.get_leases(intent)[-1] == longer
    gone(lambda: t.other.renew_lease(intent, lease.id))
    gone(lambda: t.other.release_lease(intent, lease.id))
    assert t.c.release_lease(intent, lease.id) is None
    assert [one.status for one in t.c.get_leases(intent) if one.id == lease.id] in ([], [LeaseStatus.RELEASED])
    gone(lambda: t.c.renew_lease(intent, lease.id))
    gone(lambda: t.c.release_lease(intent, lease.id))
    again = t.other.acquire_lease(intent, "research")
    assert again.id != lease.id
    assert again.agent_id == t.other.agent
    t.other.release_lease(intent, again.id)
    assert {"lease_acquired", "lease_released"} <= set(kinds(t, intent)), "and the list can be read after a renewal"
    bad(lambda: t.c.acquire_lease(intent, "more", -1))
    bad(lambda: t.c.acquire_lease(intent, "", 300))
    t.unknown(lambda no: t.c.acquire_lease(no, "x"))
    t.unknown(t.c.get_leases)
    t.unknown(lambda no: t.c.renew_lease(no, lease.id))
    t.unknown(lambda no: t.c.release_lease(no, lease.id))


@row("lease")
def _(t: Trial) -> None:
    with t.c.lease(t.busy, "writing") as lease:
        assert lease.scope == "writing"
        refusal(lambda: t.other.acquire_lease(t.busy, "writing"), LeaseConflictError, 409)

    def enter(intent: str) -> None:
        with t.c.lease(intent, "writing"):
            pass

    taken = t.other.acquire_lease(t.busy, "writing")
    refusal(lambda: enter(t.busy), LeaseConflictError, 409)
    t.other.release_lease(t.busy, taken.id)
    t.unknown(enter)
    t.refused.add("lease")


# Agents and access


@row("assign_agent", "unassign_agent")
def _(t: Trial) -> None:
    own = t.c.assign_agent(t.busy)
    assert (own["intent_id"], own["agent_id"]) == (t.busy, t.c.agent), own
    t.c.assign_agent(t.busy, "carl")
    listed = t.wire.get(f"/api/v1/intents/{t.busy}/agents")
    assert [one["agent_id"] for one in listed] == sorted([t.c.agent, "carl"]), listed
    t.c.assign_agent(t.busy, "carl")
    assert len(t.wire.get(f"/api/v1/intents/{t.busy}/agents")) == 2, "nobody is assigned twice"
    assert t.c.unassign_agent(t.busy) is None
    assert t.c.unassign_agent(t.busy, "carl") is None
    assert t.wire.get(f"/api/v1/intents/{t.busy}/agents") == []
    gone(lambda: t.c.unassign_agent(t.busy, "carl"))
    assert {"agent_assigned", "agent_unassigned"} <= set(kinds(t, t.busy))
    t.unknown(lambda no: t.c.assign_agent(no, "carl"))
    t.unknown(lambda no: t.c.unassign_agent(no, "carl"))
    bad(lambda: t.c.assign_agent(t.busy, 5))


@row("get_acl", "set_acl", "grant_access", "revoke_access")
def _(t: Trial) -> None:
    intent = t.active().id
    assert t.c.get_acl(intent).default_policy == AccessPolicy.OPEN
    assert t.c.get_acl(intent).entries == []
    until = datetime(2099, 1, 1)
    granted = t.c.grant_access(intent, t.other.agent, permission=Permission.READ, reason="to see", expires_at=until)
    assert (granted.principal_id, granted.permission, granted.reason) == (t.other.agent, Permission.READ, "to see")
    assert granted.granted_by == t.c.agent, granted
    assert granted.expires_at == until, granted
    assert t.c.get_acl(intent).entries == [granted]
    entries = [{"principal_id": t.c.agent, "principal_type": "agent", "permission": "admin"}]
    closed = t.c.set_acl(intent, AccessPolicy.CLOSED, entries)
    assert closed.default_policy == AccessPolicy.CLOSED, closed
    assert closed.entries[0].permission == Permission.ADMIN, closed
    assert t.c.get_acl(intent) == closed
    error = refusal(lambda: t.other.get_intent(intent), OpenIntentError, 403)
    assert error.response["detail"]["error"] == "access_denied", error.response
    entry = t.c.grant_access(intent, t.other.agent)
    assert t.other.get_intent(intent).id == intent
    refusal(lambda: t.other.update_state(intent, 2, {"a": 1}), OpenIntentError, 403)
    assert t.c.revoke_access(intent, entry.id) is None
    refusal(lambda: t.other.get_intent(intent), OpenIntentError, 403)
    gone(lambda: t.c.revoke_access(intent, entry.id))
    assert {"access_granted", "access_revoked"} <= set(kinds(t, intent))
    bad(lambda: t.c.grant_access(intent, "x", permission=named("all")))
    bad(lambda: t.c.set_acl(intent, named("ajar")))
    t.unknown(t.c.get_acl)
    t.unknown(t.c.set_acl)
    t.unknown(lambda no: t.c.grant_access(no, "x"))
    t.unknown(lambda no: t.c.revoke_access(no, "x"))


@row("request_access", "list_access_requests", "approve_access_request", "deny_access_request")
def _(t: Trial) -> None:
    intent = t.active().id
    entries = [{"principal_id": t.c.agent, "principal_type": "agent", "permission": "admin"}]
    t.c.set_acl(intent, AccessPolicy.CLOSED, entries)
    asked = t.other.request_access(intent, t.other.agent, reason="to help", capabilities=["typing"])
    assert (asked.intent_id, asked.principal_id, asked.status.value) == (intent, t.other.agent, "pending"), asked
    assert (asked.requested_permission, asked.capabilities) == (Permission.WRITE, ["typing"]), asked
    assert t.c.list_access_requests(intent) == [asked]
    approved = t.c.approve_access_request(intent, asked.id, permission=Permission.READ, reason="only look")
    assert (approved.status.value, approved.decided_by) == ("approved", t.c.agent), approved
    assert approved.decided_at, approved
    assert t.other.get_intent(intent).id == intent, "it is let in"
    stale(lambda: t.c.approve_access_request(intent, asked.id))
    stale(lambda: t.c.deny_access_request(intent, asked.id))
    second = t.other.request_access(intent, t.other.agent, permission=Permission.ADMIN)
    denied = t.c.deny_access_request(intent, second.id, "no")
    assert (denied.status.value, denied.decision_reason) == ("denied", "no"), denied
    assert [one.status.value for one in t.c.list_access_requests(intent)] == ["approved", "denied"]
    wanted = {"access_requested", "access_request_approved", "access_request_denied"}
    assert wanted <= set(kinds(t, intent)), kinds(t, intent)
    gone(lambda: t.c.approve_access_request(intent, NOWHERE))
    gone(lambda: t.c.deny_access_request(intent, NOWHERE))
    bad(lambda: t.other.request_access(intent, t.other.agent, permission=named("all")))
    t.unknown(lambda no: t.c.request_access(no, "x"))
    t.unknown(t.c.list_access_requests)


# Graph: only the client that waits has it.


@row(
    "create_child_intent",
    "get_children",
    "get_descendants",
    "get_ancestors",
    "get_ready_intents",
    "get_blocked_intents",
    "get_intent_graph",
)
def _(t: Trial) -> None:
    top = t.active()
    first = t.c.create_child_intent(top.id, "First", "of two", {"a": 1}, {"b": 2})
    second = t.c.create_child_intent(top.id, "Second", depends_on=[first.id])
    below = t.c.create_child_intent(first.id, "Below")
    assert (first.title, first.parent_intent_id, first.state.to_dict()) == ("First", top.id, {"b": 2}), first
    assert (first.constraints, second.depends_on) == ({"a": 1}, [first.id]), second
    assert sorted(ids(t.c.get_children(top.id))) == sorted([first.id, second.id])
    assert sorted(ids(t.c.get_descendants(top.id))) == sorted([first.id, second.id, below.id])
    assert ids(t.c.get_ancestors(below.id)) == [first.id, top.id], "nearest first"
    assert t.c.get_ancestors(top.id) == []
    assert t.c.get_children(below.id) == []
    assert ids(t.c.get_ready_intents(top.id)) == [first.id]
    assert ids(t.c.get_blocked_intents(top.id)) == [second.id]
    graph = t.c.get_intent_graph(top.id)
    assert graph["root_id"] == top.id, graph
    assert sorted(ids(graph["nodes"])) == sorted([top.id, first.id, second.id, below.id]), graph
    edges = {(edge["type"], edge["from"], edge["to"]) for edge in graph["edges"]}
    assert ("parent", top.id, first.id) in edges or ("parent", first.id, top.id) in edges, edges
    assert {kind for kind, _, _ in edges} == {"parent", "dependency"}, edges
    assert graph["aggregate_status"]["total"] >= 3, graph
    for call in (
        t.c.get_children,
        t.c.get_descendants,
        t.c.get_ancestors,
        t.c.get_ready_intents,
        t.c.get_blocked_intents,
        t.c.get_intent_graph,
        lambda no: t.c.create_child_intent(no, "x"),
    ):
        t.unknown(call)
    bad(lambda: t.c.create_child_intent(top.id, ""))


@row("add_dependency", "get_dependencies", "get_dependents", "remove_dependency")
def _(t: Trial) -> None:
    before, after = t.active(), t.active()
    waits = t.c.add_dependency(after.id, before.id, after.version)
    assert waits.depends_on == [before.id], waits
    assert waits.version > after.version, waits
    assert waits.status == IntentStatus.BLOCKED, "it waits from now on"
    assert ids(t.c.get_dependencies(after.id)) == [before.id]
    assert t.c.get_dependencies(before.id) == []
    assert ids(eventually("dependents", lambda: t.c.get_dependents(before.id))) == [after.id]
    stale(lambda: t.c.add_dependency(after.id, t.intent().id, after.version), waits.version)
    refusal(lambda: t.c.add_dependency(after.id, before.id, waits.version), ValidationError, 400)
    now = t.c.get_intent(before.id)
    error = refusal(lambda: t.c.add_dependency(before.id, after.id, now.version), ValidationError, 400)
    assert "cycle" in error.response["detail"], error.response
    refusal(lambda: t.c.add_dependency(before.id, before.id, now.version), ValidationError, 400)
    gone(lambda: t.c.add_dependency(before.id, NO_INTENT, now.version))
    stale(lambda: t.c.remove_dependency(after.id, before.id, after.version), waits.version)
    free = t.c.remove_dependency(after.id, before.id, waits.version)
    assert free.depends_on == [], free
    eventually("it goes on", lambda: t.c.get_intent(after.id).status == IntentStatus.ACTIVE)
    assert t.c.get_dependencies(after.id) == []
    eventually("no dependents", lambda: t.c.get_dependents(before.id) == [])
    gone(lambda: t.c.remove_dependency(after.id, before.id, t.c.get_intent(after.id).version))
    assert {"dependency_added", "dependency_removed"} <= set(kinds(t, after.id)), kinds(t, after.id)
    t.unknown(t.c.get_dependencies)
    t.unknown(t.c.get_dependents)
    t.unknown(lambda no: t.c.add_dependency(no, before.id, 1))
    t.unknown(lambda no: t.c.remove_dependency(no, before.id, 1))


# Portfolios


@row(
    "create_portfolio",
    "get_portfolio",
    "list_portfolios",
    "update_portfolio_status",
    "add_intent_to_portfolio",
    "get_portfolio_intents",
    "get_intent_portfolios",
    "remove_intent_from_portfolio",
)
def _(t: Trial) -> None:
    governance = {"require_all_completed": True}
    made = t.c.create_portfolio("Q3", "All of it", governance, {"team": "a"})
    assert (made.name, made.description, made.created_by) == ("Q3", "All of it", t.c.agent), made
    assert (made.status, made.metadata) == (PortfolioStatus.ACTIVE, {"team": "a"}), made
    assert governance.items() <= made.governance_policy.items(), made
    assert made.created_at, made
    plain = t.c.create_portfolio("plain")
    assert not plain.description, plain
    assert t.c.get_portfolio(made.id).name == "Q3"
    assert {made.id, plain.id} <= set(ids(t.c.list_portfolios(created_by=t.c.agent)))
    assert {made.id, plain.id} <= set(ids(t.c.list_portfolios()))
    assert t.c.list_portfolios(created_by="nobody at all") == []
    done, open_ = t.active(), t.active()
    member = t.c.add_intent_to_portfolio(made.id, done.id, MembershipRole.PRIMARY, 7)
    assert (member.portfolio_id, member.intent_id, member.role) == (made.id, done.id, MembershipRole.PRIMARY), member
    assert member.priority == 7, member
    assert member.id, member
    t.c.add_intent_to_portfolio(made.id, open_.id)
    t.c.set_status(done.id, t.c.get_intent(done.id).version, IntentStatus.COMPLETED)

    def half() -> Any:
        intents, aggregate = t.c.get_portfolio_intents(made.id)
        return aggregate.by_status.get("completed") == 1 and (intents, aggregate)

    intents, aggregate = eventually("half of it is done", half)
    assert sorted(ids(intents)) == sorted([done.id, open_.id]), intents
    assert (aggregate.total, aggregate.completion_percentage) == (2, 50), aggregate
    seen = t.c.get_portfolio(made.id)
    assert seen.aggregate_status == aggregate, seen
    assert sorted(ids(seen.intents)) == sorted(ids(intents)), seen
    assert ids(t.c.get_intent_portfolios(done.id)) == [made.id]
    assert t.c.get_intent_portfolios(t.busy) == []
    assert t.c.remove_intent_from_portfolio(made.id, open_.id) is None
    assert ids(eventually("it is out", lambda: t.c.get_portfolio_intents(made.id)[0])) == [done.id]
    assert t.c.get_intent_portfolios(open_.id) == []
    gone(lambda: t.c.remove_intent_from_portfolio(made.id, open_.id))
    assert t.c.update_portfolio_status(made.id, PortfolioStatus.COMPLETED).status == PortfolioStatus.COMPLETED
    assert t.c.get_portfolio(made.id).status == PortfolioStatus.COMPLETED
    bad(lambda: t.c.update_portfolio_status(plain.id, named("failed")))
    bad(lambda: t.c.create_portfolio(""))
    bad(lambda: t.c.add_intent_to_portfolio(plain.id, open_.id, named("guest")))
    gone(lambda: t.c.get_portfolio(NO_INTENT))
    gone(lambda: t.c.update_portfolio_status(NO_INTENT, PortfolioStatus.ACTIVE))
    gone(lambda: t.c.add_intent_to_portfolio(NO_INTENT, open_.id))
    gone(lambda: t.c.add_intent_to_portfolio(plain.id, NO_INTENT))
    gone(lambda: t.c.get_portfolio_intents(NO_INTENT))
    gone(lambda: t.c.remove_intent_from_portfolio(NO_INTENT, open_.id))
    t.unknown(t.c.get_intent_portfolios)
    gone(lambda: t.c.get_portfolio(done.id))
    gone(lambda: t.c.get_intent(made.id))


# What is kept beside an intent


@row("add_attachment", "get_attachments", "delete_attachment")
def _(t: Trial) -> None:
    url = "https://files.example/a.pdf"
    if t.is_sync:
        made = t.c.add_attachment(t.busy, "a.pdf", "application/pdf", 12, url, {"pages": 3})
        assert made.metadata == {"pages": 3}, made
        bad(lambda: t.c.add_attachment(t.busy, None, "x", 1, url))
        t.unknown(lambda no: t.c.add_attachment(no, "a", "b", 1, url))
    else:
        made = t.c.add_attachment(t.busy, "a.pdf", "application/pdf", url, 12)
        bad(lambda: t.c.add_attachment(t.busy, None, "x", url))
        t.unknown(lambda no: t.c.add_attachment(no, "a", "b", url))
    assert (made.intent_id, made.filename, made.mime_type) == (t.busy, "a.pdf", "application/pdf"), made
    assert (made.size, made.storage_url, made.uploaded_by) == (12, url, t.c.agent), made
    assert t.c.get_attachments(t.busy) == [made]
    assert "attachment_added" in kinds(t, t.busy)
    assert t.c.delete_attachment(t.busy, made.id) is None
    assert t.c.get_attachments(t.busy) == []
    gone(lambda: t.c.delete_attachment(t.busy, made.id))
    t.unknown(t.c.get_attachments)


@row("record_cost", "get_costs")
def _(t: Trial) -> None:
    made = t.c.record_cost(t.busy, "tokens", 100, "tokens", "acme", {"model": "m"})
    assert (made.intent_id, made.agent_id, made.cost_type) == (t.busy, t.c.agent, "tokens"), made
    assert (made.amount, made.unit, made.provider, made.metadata) == (100, "tokens", "acme", {"model": "m"}), made
    second = t.c.record_cost(t.busy, "api_call", 5, "usd")
    costs, summary = t.c.get_costs(t.busy)
    assert costs == [made, second], costs
    assert (summary.total, summary.by_type) == (105, {"tokens": 100, "api_call": 5}), summary
    assert summary.by_agent == {t.c.agent: 105}, summary
    bad(lambda: t.c.record_cost(t.busy, "tokens", -1, "usd"))
    capped = t.active(governance_policy={"max_cost": 10})
    t.c.record_cost(capped.id, "tokens", 10, "usd")
    error = refusal(lambda: t.c.record_cost(capped.id, "tokens", 1, "usd"), OpenIntentError, 403)
    assert error.response["detail"]["error"] == "governance_violation", error.response
    t.unknown(lambda no: t.c.record_cost(no, "tokens", 1, "usd"))
    t.unknown(t.c.get_costs)


@row("set_retry_policy", "get_retry_policy")
def _(t: Trial) -> None:
    intent = t.active().id
    assert t.c.get_retry_policy(intent) is None
    made = t.c.set_retry_policy(intent, RetryStrategy.LINEAR, 5, 200, 9000, "carl")
    assert (made.intent_id, made.strategy, made.max_retries) == (intent, RetryStrategy.LINEAR, 5), made
    assert (made.base_delay_ms, made.max_delay_ms, made.fallback_agent_id) == (200, 9000, "carl"), made
    assert made.created_at
    assert t.c.get_retry_policy(intent) == made
    other = t.c.set_retry_policy(intent, RetryStrategy.NONE)
    assert t.c.get_retry_policy(intent) == other
    assert other.strategy == RetryStrategy.NONE
    bad(lambda: t.c.set_retry_policy(intent, named("sometimes")))
    t.unknown(lambda no: t.c.set_retry_policy(no, RetryStrategy.FIXED))
    assert t.c.get_retry_policy(NO_INTENT) is None


@row("record_failure", "get_failures")
def _(t: Trial) -> None:
    if t.is_sync:
        at = datetime(2099, 1, 1, 12)
        made = t.c.record_failure(t.busy, 2, "TIMEOUT", "too slow", at, {"a": 1})
        assert (made.attempt_number, made.retry_scheduled_at) == (2, at), made
        t.unknown(lambda no: t.c.record_failure(no, 1, "TIMEOUT"))
    else:
        made = t.c.record_failure(t.busy, "TIMEOUT", "too slow", True, {"a": 1})
        assert made.attempt_number >= 1, made
        t.unknown(lambda no: t.c.record_failure(no, "TIMEOUT", "x"))
    assert (made.intent_id, made.agent_id, made.metadata) == (t.busy, t.c.agent, {"a": 1}), made
    assert (made.error_code, made.error_message) == ("TIMEOUT", "too slow"), made
    assert t.c.get_failures(t.busy) == [made]
    assert "failure_recorded" in kinds(t, t.busy)
    t.unknown(t.c.get_failures)


@row("subscribe", "get_subscriptions", "unsubscribe")
def _(t: Trial) -> None:
    types_ = ["status_changed", "intent.suspended"]
    # Nobody listens there; what is sent is looked at elsewhere.
    hook = "http://127.0.0.1:9/openintent"
    if t.is_sync:
        until = datetime(2099, 1, 1)
        made = t.c.subscribe(intent_id=t.busy, event_types=types_, expires_at=until)
        assert made.expires_at == until, made
        whole = t.c.create_portfolio("watched").id
        of_all = t.c.subscribe(portfolio_id=whole)
        sent = t.c.subscribe(intent_id=t.busy, webhook_url=hook)
        told = refusal(lambda: t.c.subscribe(intent_id=t.busy, webhook_url="ftp://127.0.0.1/"), ValidationError, 400)
        t.unknown(lambda no: t.c.subscribe(intent_id=no))
    else:
        made = t.c.subscribe(None, types_, intent_id=t.busy, expires_in_hours=24 * 365 * 50)
        assert made.expires_at, made
        whole = t.c.create_portfolio("watched").id
        of_all = t.c.subscribe(None, portfolio_id=whole)
        sent = t.c.subscribe(hook, intent_id=t.busy)
        told = refusal(lambda: t.c.subscribe("ftp://127.0.0.1/", intent_id=t.busy), ValidationError, 400)
        t.unknown(lambda no: t.c.subscribe(hook, intent_id=no))
    assert "webhook_url" in str(told.response), told.response
    assert (sent.webhook_url, sent.intent_id, sent.active) == (hook, t.busy, True), sent
    assert (made.intent_id, made.subscriber_id, made.event_types) == (t.busy, t.c.agent, types_), made
    assert made.active, made
    assert of_all.portfolio_id == whole, of_all
    assert ids(t.c.get_subscriptions(intent_id=t.busy)) == [made.id, sent.id]
    # Whoever does not say of what hears of their own.
    assert sorted(ids(t.c.get_subscriptions())) == sorted([made.id, sent.id, of_all.id])
    assert ids(t.c.get_subscriptions(portfolio_id=whole)) == [of_all.id]
    for one in (made, of_all, sent):
        assert t.c.unsubscribe(one.id) is None
        gone(lambda one=one: t.c.unsubscribe(one.id))
    assert t.c.get_subscriptions(intent_id=t.busy) == []
    assert t.c.get_subscriptions() == []


# Streams: only the client that waits has them.


def first_of(stream: Any, kind: str) -> Any:
    """The first event of a kind in a stream that this gives up with it."""
    found: list[Any] = []

    def read() -> None:
        for event in stream:
            if event.type == kind:
                found.append(event)
                return

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread, found


def is_open(stream: Any) -> bool:
    return stream._response is not None


@row("subscribe_sse", "subscribe_portfolio", "subscribe_agent", "create_event_queue")
def _(t: Trial) -> None:
    intent = t.active()
    portfolio = t.c.create_portfolio("followed").id
    t.c.add_intent_to_portfolio(portfolio, intent.id)
    of_intent, of_portfolio = t.c.subscribe_sse(intent.id), t.c.subscribe_portfolio(portfolio)
    of_agent = t.c.subscribe_agent("dora")
    queue = t.c.create_event_queue(intent_id=intent.id)
    hears = [
        first_of(of_intent, "state_patched"),
        first_of(of_portfolio, "portfolio.member_suspended"),
        first_of(of_agent, "AGENT_ASSIGNED"),
    ]
    queue.start()
    for stream in (of_intent, of_portfolio, of_agent, queue._subscription._stream):
        eventually("it follows", lambda stream=stream: is_open(stream))
    t.c.assign_agent(intent.id, "dora")
    patched = t.c.update_state(intent.id, t.c.get_intent(intent.id).version, {"a": 1})
    t.c.log_event(intent.id, EventType.COMMENT, payload={"text": "so far"})
    t.c.set_status(intent.id, patched.version, IntentStatus.SUSPENDED_AWAITING_INPUT)
    for thread, found in hears:
        thread.join(30)
        assert found, "nothing comes"
        assert found[0].id, found
        assert isinstance(found[0].data, dict), found
    assert hears[2][1][0].data["intent_id"] == intent.id, hears[2]
    queued = [queue.get(timeout=10) for _ in range(4)]
    assert [event.type for event in queued if event][:1] == ["agent_assigned"], queued
    assert queued[1] is not None, queued
    assert queued[1].type == "state_patched", queued
    # What agents tell of themselves comes in its place among what happens.
    assert queued[2] is not None and queued[2].data["payload"] == {"text": "so far"}, queued
    assert [event.type for event in queued if event][2:] == ["comment", "status_changed"], queued
    # From where it was cut off, nothing is lost and nothing comes twice.
    for cut, following in ((0, 1), (1, 2), (2, 3)):
        again = t.c.subscribe_sse(intent.id)
        again._last_event_id = queued[cut].id
        first = next(iter(again))
        again.stop()
        assert (first.type, first.data) == (queued[following].type, queued[following].data), (cut, first)
    queue.stop()
    for stream in (of_intent, of_portfolio, of_agent):
        stream.stop()
    for lost in (t.c.subscribe_sse(NO_INTENT), t.c.subscribe_portfolio(NO_INTENT)):
        event = next(iter(lost))
        assert (event.type, event.data["status_code"]) == ("error", 404), event
        lost.stop()
    for more in ({"portfolio_id": portfolio}, {"agent_id": "dora"}, {}):
        with t.c.create_event_queue(**more) as other:
            eventually("it follows", lambda other=other: is_open(other._subscription._stream))
    at = intent.id
    with httpx.stream("GET", f"{URL}/api/v1/subscribe/intents/{at}", headers={"X-API-Key": KEY}) as old:
        assert old.status_code == 200, old
        assert old.headers["content-type"].startswith("text/event-stream"), old


# Tasks, plans, coordinators


@row("create_task", "get_task", "list_tasks", "update_task")
def _(t: Trial) -> None:
    intent = t.active().id
    made = t.c.create_task(intent, "read", description="all", priority="high", input={"n": 1}, metadata={"m": 1})
    assert (made.intent_id, made.name, made.description, made.priority) == (intent, "read", "all", "high"), made
    assert (made.input, made.metadata) == ({"n": 1}, {"m": 1}), made
    assert made.status in (TaskStatus.PENDING, TaskStatus.READY), made
    second = t.c.create_task(intent, "write", depends_on=[made.id])
    assert second.depends_on == [made.id], second
    assert second.status == TaskStatus.PENDING, second
    assert t.c.get_task(made.id).name == "read"
    assert ids(t.c.list_tasks(intent)) == [made.id, second.id], ids(t.c.list_tasks(intent))
    assert ids(t.c.list_tasks(intent, limit=1, offset=1)) == [second.id]
    claimed = t.c.update_task(made.id, t.c.get_task(made.id).version, "claimed", assigned_agent="carl")
    assert (claimed.status, claimed.assigned_agent) == (TaskStatus.CLAIMED, "carl"), claimed
    running = t.c.update_task(made.id, claimed.version, "running")
    assert running.status == TaskStatus.RUNNING, running
    assert running.started_at, running
    assert running.version > claimed.version, running
    stale(lambda: t.c.update_task(made.id, claimed.version, "completed"))
    assert ids(t.c.list_tasks(intent, status=TaskStatus.RUNNING)) == [made.id]
    done = t.c.update_task(made.id, running.version, "completed", output={"words": 5})
    assert (done.status, done.output) == (TaskStatus.COMPLETED, {"words": 5}), done
    assert done.completed_at, done
    assert t.c.get_task(made.id) == done
    eventually("the next is ready", lambda: t.c.get_task(second.id).status == TaskStatus.READY)
    told = kinds(t, intent)
    assert {"task.created", "task.claimed", "task.started", "task.completed", "task.ready"} <= set(told), told
    bad(lambda: t.c.update_task(second.id, t.c.get_task(second.id).version, "bogus"))
    bad(lambda: t.c.create_task(intent, ""))
    again = caught(lambda: t.c.update_task(made.id, done.version, "running"), OpenIntentError)
    assert again.status_code in (409, 422), again.response
    gone(lambda: t.c.get_task(NOWHERE))
    t.unknown(lambda no: t.c.create_task(no, "x"))
    t.unknown(t.c.list_tasks)
    caught(lambda: t.c.update_task(NOWHERE, 1, "running"), NotFoundError, ConflictError)


@row("create_plan", "get_plan", "list_plans", "update_plan")
def _(t: Trial) -> None:
    intent = t.active().id
    task = t.c.create_task(intent, "read").id
    checkpoints = [{"id": "look", "name": "Look", "after_task": task, "requires_approval": True}]
    made = t.c.create_plan(intent, [task], checkpoints=checkpoints, on_failure="notify", metadata={"m": 1})
    assert (made.intent_id, made.tasks, made.state, made.version) == (intent, [task], PlanState.DRAFT, 1), made
    assert (made.checkpoints[0].name, made.on_failure.value, made.metadata) == ("Look", "notify", {"m": 1}), made
    assert t.c.get_plan(made.id) == made
    assert t.c.list_plans(intent) == [made]
    active = t.c.update_plan(made.id, 1, state="active")
    assert active.state == PlanState.ACTIVE, active
    assert active.version > 1, active
    stale(lambda: t.c.update_plan(made.id, 1, state="paused"))
    assert t.c.get_plan(made.id).state == PlanState.ACTIVE
    assert {"plan.created", "plan.activated"} <= set(kinds(t, intent)), kinds(t, intent)
    bad(lambda: t.c.update_plan(made.id, active.version, state="bogus"))
    bad(lambda: t.c.create_plan(intent, on_failure="cry"))
    gone(lambda: t.c.get_plan(NOWHERE))
    t.unknown(t.c.create_plan)
    t.unknown(t.c.list_plans)
    caught(lambda: t.c.update_plan(NOWHERE, 1, state="active"), NotFoundError, ConflictError)


@row(
    "create_coordinator_lease",
    "get_coordinator_lease",
    "list_coordinator_leases",
    "coordinator_heartbeat",
    "create_decision_record",
    "list_decision_records",
)
def _(t: Trial) -> None:
    intent = t.active().id
    guardrails = {"max_tasks_per_plan": 4}
    made = t.c.create_coordinator_lease(
        t.c.agent, intent, supervisor_id="boss", guardrails=guardrails, suspension_policy="isolate", metadata={"m": 1}
    )
    assert (made.agent_id, made.intent_id, made.supervisor_id) == (t.c.agent, intent, "boss"), made
    assert made.status.value == "active", made
    assert made.guardrails.max_tasks_per_plan == 4, made
    assert made.granted_at, made
    assert t.c.get_coordinator_lease(made.id).id == made.id
    assert ids(t.c.list_coordinator_leases(intent)) == [made.id]
    assert t.c.list_coordinator_leases() == []
    beat = t.c.coordinator_heartbeat(made.id)
    assert beat["status"] == "ok", beat
    assert NAIVE.fullmatch(beat["next_heartbeat_at"]), beat
    assert t.c.get_coordinator_lease(made.id).last_heartbeat
    decided = t.c.create_decision_record(
        made.id, intent, DecisionType.TASK_ASSIGNED, "carl does it", "he can", confidence=0.5
    )
    said = {"coordinator_id": made.id, "intent_id": intent, "decision_type": "task_assigned", "rationale": "he can"}
    assert said.items() <= decided.items(), decided
    assert decided["summary"] == "carl does it", decided
    assert ids(t.c.list_decision_records(intent)) == [decided["id"]]
    assert t.c.list_decision_records(intent, limit=1) == [decided]
    assert "coordinator.decision" in kinds(t, intent), kinds(t, intent)
    gone(lambda: t.c.get_coordinator_lease(NOWHERE))
    gone(lambda: t.c.coordinator_heartbeat(NOWHERE))
    bad(lambda: t.c.create_coordinator_lease(t.c.agent, intent, suspension_policy="bogus"))
    t.unknown(lambda no: t.c.create_coordinator_lease("x", no))
    t.unknown(t.c.list_coordinator_leases)
    t.unknown(lambda no: t.c.create_decision_record(made.id, no, DecisionType.PLAN_CREATED, "x", "y"))
    t.unknown(t.c.list_decision_records)


# Channels


@row(
    "create_channel",
    "list_channels",
    "get_channel",
    "close_channel",
    "send_message",
    "reply_to",
    "list_messages",
    "get_message",
    "mark_read",
)
def _(t: Trial) -> None:
    intent = t.active().id
    members = [t.c.agent, t.other.agent]
    made = t.c.create_channel(intent, "talk", members, "explicit", options={"ttl_seconds": 60})
    assert (made["intent_id"], made["name"], made["status"]) == (intent, "talk", "open"), made
    assert (made["members"], made["member_policy"]) == (members, "explicit"), made
    assert made["id"] in ids(t.c.list_channels(intent))
    assert t.c.get_channel(made["id"])["name"] == "talk"
    sent = t.c.send_message(made["id"], t.c.agent, t.other.agent, "request", {"q": 1}, {"m": 1})
    assert (sent["sender"], sent["to"], sent["message_type"]) == (t.c.agent, t.other.agent, "request"), sent
    assert (sent["payload"], sent["metadata"], sent["channel_id"]) == ({"q": 1}, {"m": 1}, made["id"]), sent
    answer = t.other.reply_to(made["id"], sent["id"], t.other.agent, {"a": 2})
    assert (answer["message_type"], answer["correlation_id"], answer["to"]) == ("response", sent["id"], t.c.agent)
    assert ids(t.c.list_messages(made["id"])) == [sent["id"], answer["id"]]
    assert ids(t.c.list_messages(made["id"], to=t.other.agent)) == [sent["id"]]
    assert t.c.list_messages(made["id"], since="2099-01-01T00:00:00") == []
    assert t.c.get_message(made["id"], sent["id"])["payload"] == {"q": 1}
    read = t.other.mark_read(made["id"], sent["id"])
    assert read["status"] == "read", read
    assert read["read_at"], read
    assert t.c.get_message(made["id"], sent["id"])["status"] == "read"
    told = kinds(t, intent)
    assert "channel.created" in told, told
    gone(lambda: t.c.get_message(made["id"], NOWHERE))
    gone(lambda: t.c.mark_read(made["id"], NOWHERE))
    gone(lambda: t.c.reply_to(made["id"], NOWHERE, t.c.agent))
    for call in (t.c.get_channel, t.c.list_messages, lambda no: t.c.send_message(no, "x")):
        gone(lambda call=call: call(NOWHERE))
    bad(lambda: t.c.send_message(made["id"], t.c.agent, message_type="shout"))
    bad(lambda: t.c.create_channel(intent, "talk", member_policy="everybody"))
    outsider = Caller(t, "outsider")
    refusal(lambda: outsider.send_message(made["id"], "outsider"), OpenIntentError, 403)
    assert t.c.close_channel(made["id"]) is None
    caught(lambda: t.c.send_message(made["id"], t.c.agent), NotFoundError, ConflictError)
    t.unknown(lambda no: t.c.create_channel(no, "x"))
    t.unknown(t.c.list_channels)


@row("ask")
def _(t: Trial) -> None:
    channel = t.c.create_channel(t.active().id, "asking")["id"]
    wire = Wire(URL, KEY, t.other.agent)

    def answers() -> None:
        def asked() -> Any:
            return wire.get(f"/api/v1/channels/{channel}/messages", params={"to": t.other.agent})

        message = eventually("a question", asked)[0]
        path = f"/api/v1/channels/{channel}/messages/{message['id']}/reply"
        wire.post(path, {"sender": t.other.agent, "payload": {"n": message["payload"]["n"] + 1}}, 201)

    thread = threading.Thread(target=answers, daemon=True)
    thread.start()
    answer = t.c.ask(channel, t.c.agent, t.other.agent, {"n": 1})
    thread.join(10)
    assert answer["payload"] == {"n": 2}, answer
    assert answer["sender"] == t.other.agent, answer
    refusal(lambda: t.c.ask(channel, t.c.agent, "nobody", {}, timeout=1), TimeoutError)
    gone(lambda: t.c.ask(NOWHERE, t.c.agent, t.other.agent, {}))


# What stands by itself


@row("get_server_config")
def _(t: Trial) -> None:
    told = t.c.get_server_config()
    assert told["protocol_version"] == "0.1", told
    assert "default_retry_policy" in told["suspension"], told
    # It may name people.
    refusal(t.stranger.get_server_config, OpenIntentError, 401)


@row("close")
def _(t: Trial) -> None:
    closed = Caller(t, "carl")
    assert closed.close() is None
    refusal(lambda: closed.get_intent(NO_INTENT), RuntimeError)


# What is not offered. It is refused plainly: with the reason, and never as if it worked.

REFUSED: dict[str, Callable[[Any], Any]] = {
    # RFC-0018
    "register_identity": lambda c: c.register_identity("ann", "key"),
    "complete_identity_challenge": lambda c: c.complete_identity_challenge("ann", "x", "y"),
    "get_identity": lambda c: c.get_identity("ann"),
    "verify_signature": lambda c: c.verify_signature("ann", {}, "x"),
    "rotate_key": lambda c: c.rotate_key("ann", "new", "old", "x"),
    # RFC-0019: proofs over checkpoints; the chain itself is served.
    "list_checkpoints": lambda c: c.list_checkpoints(),
    "get_checkpoint": lambda c: c.get_checkpoint("x"),
    "get_merkle_proof": lambda c: c.get_merkle_proof("x", "y"),
    "verify_consistency": lambda c: c.verify_consistency("x", "y"),
    # RFC-0022 and 0023
    "federation_status": lambda c: c.federation_status(),
    "list_federated_agents": lambda c: c.list_federated_agents(),
    "federation_dispatch": lambda c: c.federation_dispatch(NO_INTENT, "https://other.example"),
    "federation_receive": lambda c: c.federation_receive("d", "https://other.example", NO_INTENT, "x"),
    "send_federation_callback": lambda c: c.send_federation_callback(
        URL + "/api/v1/federation/callback", "d", "state_delta"
    ),
    "federation_discover": lambda c: c.federation_discover(),
    # RFC-0014
    "create_vault": lambda c: c.create_vault("ann", "keys"),
    "get_vault": lambda c: c.get_vault("x"),
    "create_credential": lambda c: c.create_credential("x", "mail", "m"),
    "get_credential": lambda c: c.get_credential("x"),
    "create_tool_grant": lambda c: c.create_tool_grant("x", "ann", "boss"),
    "get_tool_grant": lambda c: c.get_tool_grant("x"),
    "list_agent_grants": lambda c: c.list_agent_grants("ann"),
    "revoke_grant": lambda c: c.revoke_grant("x"),
    "record_invocation": lambda c: c.record_invocation("x", "mail", "send", "ann"),
    "list_invocations": lambda c: c.list_invocations("x"),
    "invoke_tool": lambda c: c.invoke_tool("send", "ann"),
    # RFC-0015
    "create_memory": lambda c: c.create_memory("ann", "n", "k", {}),
    "get_memory": lambda c: c.get_memory("x"),
    "list_memory": lambda c: c.list_memory("ann"),
    "update_memory": lambda c: c.update_memory("x", 1, value={}),
    "delete_memory": lambda c: c.delete_memory("x"),
    # RFC-0016
    "register_agent": lambda c: c.register_agent("ann"),
    "get_agent_record": lambda c: c.get_agent_record("ann"),
    "list_agents": lambda c: c.list_agents(),
    "agent_heartbeat": lambda c: c.agent_heartbeat("ann"),
    "update_agent_status": lambda c: c.update_agent_status("ann", "active"),
    # RFC-0017
    "create_trigger": lambda c: c.create_trigger("x", "schedule"),
    "get_trigger": lambda c: c.get_trigger("x"),
    "list_triggers": lambda c: c.list_triggers(),
    "update_trigger": lambda c: c.update_trigger("x", 1, enabled=False),
    "fire_trigger": lambda c: c.fire_trigger("x"),
    "delete_trigger": lambda c: c.delete_trigger("x"),
}


def check_refusal(call: Callable[[], Any]) -> None:
    error = caught(call, OpenIntentError)
    body = error.response
    assert error.status_code >= 400, body
    assert isinstance(body, dict), body
    assert body["error"] in ("capability_not_provided", "not_found"), body
    assert len(str(body["message"])) > 10, body
    assert body["detail"], body


def public(client: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(client) if not name.startswith("_")}


def check_events(t: Trial) -> None:
    """After all of that, the events of every intent can still be read, and their chains hold."""
    t.c.assign_agent(t.busy)
    intent = t.c.get_intent(t.busy)
    # What else leaves events: people are asked, reminded, and answer.
    suspended = t.c.set_status(t.busy, intent.version, IntentStatus.SUSPENDED_AWAITING_INPUT)
    policy = {
        "max_attempts": 3,
        "interval_seconds": 60,
        "escalation_ladder": [{"attempt": 2, "channel_hint": "email", "notify_to": "boss"}],
    }
    t.c.update_state(t.busy, suspended.version, {"_suspension": record("s-1", retry_policy=policy)})
    t.wire.advance(60)
    eventually("a reminder", lambda: "intent.suspension_renotified" in kinds(t, t.busy))
    t.wire.respond(t.busy, "s-1", "yes")
    t.c.set_status(t.busy, t.c.get_intent(t.busy).version, IntentStatus.COMPLETED)
    told = set(kinds(t, t.busy))
    wanted = {"intent.suspended", "intent.suspension_renotified", "intent.suspension_escalated", "intent.resumed"}
    assert wanted | {"comment", "lease_acquired", "status_changed", "state_patched"} - {"comment"} <= told, told
    for made in t.made:
        events = t.c.get_events(made, limit=1000)
        assert all(event.intent_id == made and event.id and event.created_at for event in events), made
        assert t.c.verify_event_chain(made).valid, made


def main() -> None:
    report = Report()
    with report.check(f"the SDK is the one that was looked at: {openintent.__version__}"):
        assert openintent.__version__ == "0.17.0"
    sync, later = public(OpenIntentClient), public(AsyncOpenIntentClient)
    known = set(rows) | set(REFUSED)
    with report.check("every public method of both clients is known"):
        assert not (sync | later) - known, sorted((sync | later) - known)
    with report.check("everything that is known is a public method"):
        assert not known - (sync | later), sorted(known - (sync | later))
        assert not set(rows) & set(REFUSED), sorted(set(rows) & set(REFUSED))
    for kind, offered in (("sync", sync), ("async", later)):
        trial = Trial(kind)
        for names, attempt in groups:
            mine = [name for name in names if name in offered]
            if not mine:
                continue
            failure: list[BaseException] = []
            try:
                attempt(trial)
            except Exception as error:
                failure.append(error)
            for name in mine:
                with report.check(f"{kind} {name}"):
                    if failure:
                        assert name == mine[0], f"see {mine[0]}"
                        raise failure[0]
                    assert name in trial.worked, "it never worked"
                    assert name in trial.refused or name in SILENT, "it was never refused"
        for name, call in REFUSED.items():
            with report.check(f"{kind} {name} is refused plainly"):
                check_refusal(lambda call=call, trial=trial: call(trial.c))
        with report.check(f"{kind}: all events can be read after all of that (OI-054)"):
            check_events(trial)
    report.end()


main()
