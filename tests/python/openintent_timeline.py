"""The timeline of RFC-0026, section 9, row by row: three phases of a compliance workflow as OpenIntent's SDK makes
intents of them, a question in the middle that nobody answers at first, and a portfolio and a plan that look on.

Against a running server with a test clock. With `channels` as a third argument it has two channels, `chat` for
everybody and `email`, and what went over them is looked at as well.
"""

import sys
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from openintent import EventType, IntentStatus, OpenIntentError
from openintent.models import (
    EscalationStep,
    HumanRetryPolicy,
    MembershipRole,
    PortfolioStatus,
    SuspensionChoice,
    SuspensionRecord,
    TaskStatus,
)
from openintent.workflow import (
    UnresolvableInputError,
    UpstreamIntentSuspendedError,
    WorkflowError,
    WorkflowSpec,
)
from openintent_checks import Report, Wire, arguments, client, eventually, refusal

URL, KEY = arguments()
HAS_CHANNELS = sys.argv[3:] == ["channels"]
HOUR = 3600

COMPLIANCE = """
openintent: "1.0"
info: {name: "Compliance"}
types: {Level: {enum: [low, high]}}
workflow:
  fetch_data: {title: "Fetch Data", assign: fetcher, outputs: {rows: array}}
  compliance_review:
    title: "Compliance Review"
    assign: reviewer
    depends_on: [fetch_data]
    inputs: {rows: fetch_data.rows}
    outputs: {approved: boolean, level: Level, note: {type: string, required: false}}
  generate_report:
    title: "Generate Report"
    assign: reporter
    depends_on: [compliance_review]
    inputs: {ok: compliance_review.approved}
    outputs: {url: string}
"""

# What the review asks, as the SDK's agents write it.
POLICY = HumanRetryPolicy(
    max_attempts=3,
    interval_seconds=HOUR,
    escalation_ladder=[EscalationStep(attempt=2, channel_hint="email", notify_to="compliance-lead")],
    final_fallback_policy="fail",
)


class Story:
    """The intents of the three phases, and those who look on."""

    def __init__(self) -> None:
        self.spec = WorkflowSpec.from_string(COMPLIANCE)
        self.wire = Wire(URL, KEY, "operator")
        self.agents = {name: client(name) for name in ("operator", "fetcher", "reviewer", "reporter")}
        self.operator = self.agents["operator"]
        self.portfolio = ""
        self.intents: dict[str, str] = {}
        self.tasks: dict[str, str] = {}
        self.plan = ""
        self.began = 0
        self.suspension = "suspension-of-the-review"
        self.streams: dict[str, list[Any]] = {"portfolio": [], "reporter": [], "review": []}

    def follow(self, name: str, stream: Any) -> None:
        """Notes what comes over a stream of the SDK."""

        def read() -> None:
            for event in stream:
                self.streams[name].append(event)

        threading.Thread(target=read, daemon=True).start()
        eventually(f"{name} is followed", lambda: stream._response)

    def over(self, name: str, kind: str) -> list[Any]:
        return [event for event in self.streams[name] if event.type == kind]

    def status(self, phase: str) -> str:
        return str(self.operator.get_intent(self.intents[phase]).status.value)

    def statuses(self) -> list[str]:
        return [self.status(phase) for phase in self.intents]

    def task(self, phase: str) -> Any:
        return self.operator.get_task(self.tasks[phase])

    def raw(self, path: str) -> Any:
        return self.wire.get(f"/api/v1/{path}")

    def events(self, phase: str) -> list[Any]:
        """The events of a phase, oldest first."""
        return self.operator.get_events(self.intents[phase], limit=1000)[::-1]

    def kinds(self, phase: str) -> list[str]:
        return [event.event_type.value for event in self.events(phase)]

    def advance_to(self, second: int) -> None:
        self.wire.advance((self.began + second * 1000 - self.wire.now()) / 1000)

    def complete(self, agent: str, phase: str, outputs: dict[str, Any]) -> Any:
        own, intent = self.agents[agent], self.intents[phase]
        now = own.update_state(intent, own.get_intent(intent).version, outputs)
        return own.set_status(intent, now.version, IntentStatus.COMPLETED)

    def notices(self) -> list[tuple[str, int]]:
        found = self.wire.get("/v1/notices?limit=500")["notices"]
        return sorted((one.get("channel", ""), one["attempt"]) for one in found if one["state"] == "sent")


def eventually_is(what: str, look: Callable[[], Any], expected: Any) -> None:
    """What is seen becomes this."""
    last: list[Any] = [None]

    def is_so() -> bool:
        last[0] = look()
        return bool(last[0] == expected)

    try:
        eventually(what, is_so)
    except AssertionError:
        raise AssertionError(f"{what}: {last[0]!r}, not {expected!r}") from None


def begin(story: Story, report: Report) -> None:
    operator, wire = story.operator, story.wire
    with report.check("before: the SDK makes a portfolio and three intents of the workflow"):
        made = story.spec.to_portfolio_spec()
        deadline = (datetime(1970, 1, 1) + timedelta(milliseconds=wire.now(), hours=12)).isoformat()
        portfolio = operator.create_portfolio(made.name, made.description, {"deadline": deadline}, made.metadata)
        story.portfolio = portfolio.id
        by_title: dict[str, str] = {}
        for phase, spec in zip(story.spec.phases, made.intents, strict=True):
            before = [by_title[title] for title in spec.depends_on or []]
            intent = operator.create_intent(
                spec.title, spec.description, initial_state=spec.initial_state, depends_on=before
            )
            by_title[spec.title] = story.intents[phase.name] = intent.id
            assert (intent.status, intent.depends_on) == (IntentStatus.DRAFT, before), intent
            role = MembershipRole.PRIMARY if not before else MembershipRole.MEMBER
            assert operator.add_intent_to_portfolio(story.portfolio, intent.id, role).role == role
            operator.assign_agent(intent.id, spec.assign)
        story.follow("portfolio", operator.subscribe_portfolio(story.portfolio))
        story.follow("reporter", story.agents["reporter"].subscribe_agent())
        story.follow("review", operator.subscribe_sse(story.intents["compliance_review"]))
        for intent in story.intents.values():
            operator.set_status(intent, 1, IntentStatus.ACTIVE)
        assert story.statuses() == ["active", "blocked", "blocked"], story.statuses()
    with report.check("before: each phase has its task, and a plan has them all"):
        for phase, intent in story.intents.items():
            story.tasks[phase] = operator.create_task(intent, phase).id
        review = story.intents["compliance_review"]
        story.plan = operator.create_plan(review, [story.tasks["compliance_review"]]).id
        assert operator.get_plan(story.plan).tasks == [story.tasks["compliance_review"]]
        assert (
            operator.update_plan(story.plan, operator.get_plan(story.plan).version, state="active").state.value
            == "active"
        )
    with report.check("Phase 1: fetch_data completes OK, and the review may begin"):
        fetch, fetcher = story.intents["fetch_data"], story.agents["fetcher"]
        with fetcher.lease(fetch, "fetch_data"):
            missing = refusal(
                lambda: fetcher.set_status(fetch, fetcher.get_intent(fetch).version, IntentStatus.COMPLETED),
                OpenIntentError,
                422,
            )
            detail = missing.response["detail"]
            assert (detail["error"], detail["missing"]) == ("MissingOutputError", ["rows"]), detail
            assert story.complete("fetcher", "fetch_data", {"rows": [1, 2]}).status == IntentStatus.COMPLETED
        eventually_is("the review is active", lambda: story.statuses(), ["completed", "active", "blocked"])
    with report.check("Phase 2: the reviewer has the review, and its task runs"):
        reviewer, review = story.agents["reviewer"], story.intents["compliance_review"]
        assert reviewer.acquire_lease(review, "compliance_review", 8 * HOUR).agent_id == "reviewer"
        task = story.task("compliance_review")
        claimed = reviewer.update_task(task.id, task.version, "claimed", assigned_agent="reviewer")
        assert reviewer.update_task(task.id, claimed.version, "running").status == TaskStatus.RUNNING


def suspend(story: Story, report: Report) -> None:
    """T+0."""
    reviewer, review = story.agents["reviewer"], story.intents["compliance_review"]
    story.began = story.wire.now()
    with report.check("T+0: the agent calls request_input() with a policy of three attempts, an hour apart"):
        # What the SDK sends then: the status, the record, the event.
        record = SuspensionRecord(
            id=story.suspension,
            question="Sign off?",
            choices=[SuspensionChoice("approve", "Approve"), SuspensionChoice("reject", "Reject", style="danger")],
            context={"rows": 2},
            channel_hint="chat",
            fallback_policy="fail",
            retry_policy=POLICY,
            confidence_at_suspension=0.4,
        )
        now = reviewer.set_status(review, reviewer.get_intent(review).version, IntentStatus.SUSPENDED_AWAITING_INPUT)
        now = reviewer.update_state(review, now.version, {"_suspension": record.to_dict()})
        payload = {key: value for key, value in record.to_dict().items() if key not in ("id", "context")}
        reviewer.log_event(review, EventType.INTENT_SUSPENDED, payload | {"suspension_id": record.id})
    with report.check("T+0: Intent 2 is suspended_awaiting_input"):
        assert story.status("compliance_review") == "suspended_awaiting_input"
        kept = SuspensionRecord.from_dict(story.operator.get_intent(review).state.to_dict()["_suspension"])
        assert kept.expires_at, kept
        assert kept.suspended_at, kept
        assert kept.expires_at - kept.suspended_at == timedelta(hours=3), kept
    with report.check("T+0: Task 2 is blocked, because the intent is suspended"):
        eventually_is("the task", lambda: story.task("compliance_review").status, TaskStatus.BLOCKED)
        task = story.raw(f"tasks/{story.tasks['compliance_review']}")
        assert (task["blocked_reason"], task["suspended_intent_id"]) == ("intent_suspended", review), task
        progress = story.raw(f"plans/{story.plan}")["progress"]
        assert [one["task_id"] for one in progress["suspended_tasks"]] == [task["id"]], progress
        assert progress["suspended_tasks"][0]["intent_id"] == review, progress
        assert progress["suspended_tasks"][0]["expires_at"]
        assert progress["suspended_tasks"][0]["suspended_since"]
    with report.check("T+0: Intent 3 is blocked: an upstream that is suspended does not satisfy the gate"):
        assert story.statuses() == ["completed", "suspended_awaiting_input", "blocked"], story.statuses()
        eventually_is(
            "why",
            lambda: story.raw(f"intents/{story.intents['generate_report']}").get("blocked_reason"),
            "dependency_suspended",
        )
    with report.check("T+0: intent.suspended is there once, and reached those who follow the intent"):
        suspended = [
            event for event in story.events("compliance_review") if event.event_type.value == "intent.suspended"
        ]
        assert len(suspended) == 1, suspended
        assert suspended[0].payload["suspension_id"] == story.suspension, suspended
        eventually("the stream", lambda: story.over("review", "intent.suspended"))
    with report.check("T+0: Portfolio: has_suspended_members true, suspended_member_count 1"):
        eventually_is("members", lambda: story.raw(f"portfolios/{story.portfolio}")["suspended_member_count"], 1)
        portfolio = story.raw(f"portfolios/{story.portfolio}")
        assert portfolio["has_suspended_members"] is True, portfolio
        assert portfolio["status"] == "active", portfolio
        eventually("the stream", lambda: story.over("portfolio", "portfolio.member_suspended"))
        seen = story.operator.get_portfolio(story.portfolio)
        assert seen.status == PortfolioStatus.ACTIVE, seen
        assert seen.aggregate_status, seen
        by_status = {"completed": 1, "suspended_awaiting_input": 1, "blocked": 1}
        assert (seen.aggregate_status.total, seen.aggregate_status.by_status) == (3, by_status), seen.aggregate_status
    with report.check("T+0: who wants to claim Phase 3 is told that its upstream is suspended"):
        report_, reporter = story.intents["generate_report"], story.agents["reporter"]
        refused = refusal(lambda: reporter.acquire_lease(report_, "generate_report"), OpenIntentError, 422)
        detail = refused.response["detail"]
        assert detail["error"] == "UpstreamIntentSuspendedError", refused.response
        assert detail["reason"] == "upstream_intent_suspended", detail
        assert detail["suspended_intent_id"] == review, detail
        assert detail["phase_name"], detail
        assert detail["task_id"], detail
        assert detail["expected_resume_at"], detail
        assert reporter.get_leases(report_) == []
        # The SDK says the same of what it sees here.
        stands = {"compliance_review": {"status": story.status("compliance_review"), "intent_id": review}}
        told = refusal(
            lambda: story.spec.validate_claim_inputs(
                "generate_report", {}, upstream_intents_status=stands, task_id=story.tasks["generate_report"]
            ),
            UpstreamIntentSuspendedError,
        )
        assert told.suspended_intent_id == review
        assert issubclass(UpstreamIntentSuspendedError, WorkflowError), "OI-184"
        assert not issubclass(UpstreamIntentSuspendedError, UnresolvableInputError), "OI-184"
    if HAS_CHANNELS:
        with report.check("T+0: a message went out to the chat"):
            eventually_is("messages", story.notices, [("chat", 1)])


def remind(story: Story, report: Report) -> None:
    """T+3600."""
    review = story.intents["compliance_review"]
    version = story.operator.get_intent(review).version
    with report.check("before T+3600 nothing happens"):
        story.advance_to(HOUR - 1)
        assert "intent.suspension_renotified" not in story.kinds("compliance_review")
    with report.check("T+3600: no response: intent.suspension_renotified (attempt=2)"):
        story.advance_to(HOUR)
        eventually("it", lambda: "intent.suspension_renotified" in story.kinds("compliance_review"))
        told = {event.event_type.value: event for event in story.events("compliance_review")}
        payload = told["intent.suspension_renotified"].payload
        assert (payload["suspension_id"], payload["attempt"], payload["max_attempts"]) == (story.suspension, 2, 3), (
            payload
        )
        assert (payload["channel_hint"], payload["notify_to"]) == ("email", "compliance-lead"), payload
        at = datetime.fromisoformat(payload["next_attempt_at"].removesuffix("Z"))
        suspended = told["intent.suspended"].created_at
        assert at.replace(tzinfo=None) - suspended == timedelta(hours=2), payload
        assert told["intent.suspension_renotified"].created_at - suspended == timedelta(hours=1), told
    with report.check("T+3600: intent.suspension_escalated (attempt=2)"):
        told = {event.event_type.value: event for event in story.events("compliance_review")}
        payload = told["intent.suspension_escalated"].payload
        assert (payload["suspension_id"], payload["attempt"]) == (story.suspension, 2), payload
        assert (payload["escalated_to"], payload["channel_hint"]) == ("compliance-lead", "email"), payload
        eventually("the stream", lambda: story.over("review", "intent.suspension_escalated"))
        kinds = story.kinds("compliance_review")
        assert kinds.index("intent.suspension_renotified") < kinds.index("intent.suspension_escalated"), kinds
    with report.check(
        "T+3600: what the agent tells of the same is not there twice, and no version is new (OI-021, OI-024)"
    ):
        reviewer = story.agents["reviewer"]
        same = {"suspension_id": story.suspension, "attempt": 2}
        reviewer.log_event(review, EventType.INTENT_SUSPENSION_ESCALATED, same | {"channel_hint": "email"})
        reviewer.log_event(review, EventType.INTENT_SUSPENSION_RENOTIFIED, same | {"max_attempts": 3})
        kinds = story.kinds("compliance_review")
        assert kinds.count("intent.suspension_renotified") == kinds.count("intent.suspension_escalated") == 1, kinds
        assert story.operator.get_intent(review).version == version
    if HAS_CHANNELS:
        with report.check("T+3600: an email went out"):
            eventually_is("messages", story.notices, [("chat", 1), ("email", 2)])


def answer(story: Story, report: Report) -> None:
    """T+5400."""
    operator, review = story.operator, story.intents["compliance_review"]
    with report.check("T+5400: the operator responds, and Intent 2 is active"):
        story.advance_to(HOUR * 3 // 2)
        told = story.wire.respond(review, story.suspension, "approve")
        assert (told["resolution"], told["value"], told["choice_label"]) == ("responded", "approve", "Approve"), told
        assert story.status("compliance_review") == "active"
        kept = operator.get_intent(review).state.to_dict()["_suspension"]
        assert (kept["response"], kept["resolution"]) == ("approve", "responded"), kept
        assert story.kinds("compliance_review").count("intent.resumed") == 1
        story.wire.respond(review, story.suspension, "approve", 409)
    with report.check("T+5400: Task 2 runs again, and Intent 3 waits for it still"):
        eventually_is("the task", lambda: story.task("compliance_review").status, TaskStatus.RUNNING)
        task = story.raw(f"tasks/{story.tasks['compliance_review']}")
        assert (task["blocked_reason"], task["suspended_intent_id"]) == (None, None), task
        assert story.raw(f"plans/{story.plan}")["progress"]["suspended_tasks"] == []
        assert story.status("generate_report") == "blocked"
    with report.check("T+5400: nobody in the portfolio is suspended any more"):
        eventually_is("members", lambda: story.raw(f"portfolios/{story.portfolio}")["suspended_member_count"], 0)
        assert story.raw(f"portfolios/{story.portfolio}")["has_suspended_members"] is False
        eventually("the stream", lambda: story.over("portfolio", "portfolio.member_resumed"))
    with report.check("T+5400: Intent 2 and Task 2 complete"):
        reviewer = story.agents["reviewer"]
        task = story.task("compliance_review")
        output = {"approved": True, "level": "low"}
        done = reviewer.update_task(task.id, task.version, "completed", output=output)
        assert (done.status, done.output) == (TaskStatus.COMPLETED, output), done
        wrong = refusal(
            lambda: story.complete("reviewer", "compliance_review", output | {"level": "middling"}),
            OpenIntentError,
            422,
        )
        assert wrong.response["detail"]["error"] == "OutputTypeMismatchError", wrong.response
        assert story.complete("reviewer", "compliance_review", output).status == IntentStatus.COMPLETED
    with report.check("T+5400: Intent 3 is active, and who was refused is called back"):
        eventually_is("the report", story.statuses, ["completed", "completed", "active"])
        assigned = eventually("called back", lambda: story.over("reporter", "AGENT_ASSIGNED")[1:])
        assert assigned[0].data["intent_id"] == story.intents["generate_report"], assigned
    with report.check("T+5400: Task 3 claims its inputs: validate_claim_inputs() succeeds, and so does the lease"):
        outputs = {"compliance_review": operator.get_intent(review).state.to_dict()}
        stands = {"compliance_review": {"status": story.status("compliance_review"), "intent_id": review}}
        story.spec.validate_claim_inputs("generate_report", outputs, upstream_intents_status=stands)
        reporter, intent = story.agents["reporter"], story.intents["generate_report"]
        assert reporter.acquire_lease(intent, "generate_report").agent_id == "reporter"
        task = story.task("generate_report")
        running = reporter.update_task(task.id, task.version, "running")
        assert running.status == TaskStatus.RUNNING, running


def end(story: Story, report: Report) -> None:
    """T+5500."""
    with report.check("T+5500: Phase 3 completes. Workflow done."):
        story.advance_to(5500)
        url = {"url": "https://reports.example/q3"}
        task = story.task("generate_report")
        story.agents["reporter"].update_task(task.id, task.version, "completed", output=url)
        assert story.complete("reporter", "generate_report", url).status == IntentStatus.COMPLETED
        assert story.statuses() == ["completed"] * 3, story.statuses()

        def aggregate() -> Any:
            seen = story.operator.get_portfolio(story.portfolio).aggregate_status
            return seen and (seen.by_status, seen.completion_percentage)

        eventually_is("the portfolio", aggregate, ({"completed": 3}, 100))
        assert story.raw(f"portfolios/{story.portfolio}")["aggregate_status"]["status"] == "completed"
    with report.check("the events of the review say what happened, each at its time"):
        told = [(event.event_type.value, event.created_at) for event in story.events("compliance_review")]
        began = dict(told)["intent.suspended"]
        wanted = [
            ("intent.suspended", 0),
            ("intent.suspension_renotified", HOUR),
            ("intent.suspension_escalated", HOUR),
            ("intent.resumed", HOUR * 3 // 2),
        ]
        seconds = [(kind, (at - began).total_seconds()) for kind, at in told if kind in dict(wanted)]
        assert seconds == wanted, seconds
        for phase in story.intents:
            assert story.operator.verify_event_chain(story.intents[phase]).valid
    with report.check("what did not happen: the deadline is not exceeded, and nobody is told a third time"):
        story.wire.advance(24 * HOUR)
        assert story.statuses() == ["completed"] * 3
        assert story.operator.get_portfolio(story.portfolio).status == PortfolioStatus.ACTIVE
        kinds = story.kinds("compliance_review")
        assert kinds.count("intent.suspension_renotified") == 1, kinds
        assert "intent.suspension_expired" not in kinds, kinds
        seen = ("portfolio.member_suspended", "portfolio.member_resumed")
        portfolio = [event.type for event in story.streams["portfolio"] if event.type in seen]
        assert portfolio == list(seen), portfolio
        if HAS_CHANNELS:
            assert story.notices() == [("chat", 1), ("email", 2)], story.notices()


def overtaken(report: Report) -> None:
    """What §2.5 says: a deadline does not wait for people."""
    wire, ann = Wire(URL, KEY, "ann"), client("ann")
    with report.check("a portfolio's deadline ends an intent that is suspended, past its fallback"):
        deadline = (datetime(1970, 1, 1) + timedelta(milliseconds=wire.now(), hours=1)).isoformat()
        portfolio = ann.create_portfolio("Late", governance_policy={"deadline": deadline}).id
        intent = ann.create_intent("Late").id
        ann.add_intent_to_portfolio(portfolio, intent)
        ann.set_status(intent, 1, IntentStatus.ACTIVE)
        asked = {"question": "Go on?", "response_type": "text", "fallback_policy": "use_default_and_continue"}
        wire.post(f"/api/v1/intents/{intent}/suspend", asked | {"fallback_value": "x", "timeout_seconds": 2 * HOUR})
        wire.advance(HOUR)
        eventually_is("it is over", lambda: ann.get_intent(intent).status, IntentStatus.ABANDONED)
        assert wire.get(f"/api/v1/intents/{intent}")["abandonment_reason"] == "portfolio_deadline_exceeded"
        expired = ann.get_events(intent, EventType.INTENT_SUSPENSION_EXPIRED)
        assert [event.payload["reason"] for event in expired] == ["portfolio_deadline"], expired


def main() -> None:
    report, story = Report(), Story()
    for part in (begin, suspend, remind, answer, end):
        part(story, report)
    overtaken(report)
    report.end()


main()
