//! The state machines, walked over the full product of states and events.
//!
//! The same tables are the page `docs/state-tables.md`. `ABIDE_REGENERATE=1 cargo test -p abide-core --test
//! tables` writes the page anew; the snapshots change only by hand, so that no change passes unseen.

use std::path::PathBuf;

use abide_core::event::{PlanChanged, TaskChanged};
use abide_core::planning::{PlanState, TaskStatus};
use abide_core::{Event, EventType, Hold, Lifecycle, NodeEvent, NodePhase, RunEvent, Status, event_types};
use serde::Serialize;

const INTRO: &str = "\
# State tables

Where a run, its hold and its nodes may go. A row is an event, a column the state it meets, a cell the state
after it; a dot means that the event is illegal there and a journal that holds it does not fold. A run event
has to be legal for the lifecycle and for the hold, and one of a task or a plan for that as well; a node event
happens only in a run that is running or cancelling.

The core's own functions wrote this page, and a test compares the two. To write it anew:

    ABIDE_REGENERATE=1 cargo test -p abide-core --test tables
";

/// Numbers from here on are of events that happen to a node.
const FIRST_NODE_CODE: u16 = 100;

/// An event as it stands in the first column, with one example of it.
struct Sample<E> {
    title: String,
    event: E,
}

/// What each type says in these tables. `node.started` has three rows, since what it waits for decides what
/// follows.
const PAYLOADS: &[(&str, &str, &str)] = &[
    ("run.started", "", r#"{"workflowId":"w","definition":"00"}"#),
    ("intent.patched", "", r#"{"patches":[{"op":"set","path":"n","value":1}]}"#),
    ("intent.assigned", "", r#"{"agent":"ada","role":"worker"}"#),
    ("intent.unassigned", "", r#"{"agent":"ada"}"#),
    ("intent.leased", "", r#"{"lease":{"id":"lease-0","scope":"all","agent":"ada","expiresAt":1}}"#),
    ("intent.lease_renewed", "", r#"{"id":"lease-0","expiresAt":2}"#),
    ("intent.lease_released", "", r#"{"id":"lease-0"}"#),
    ("intent.policy_set", "", "{}"),
    ("intent.access_set", "", r#"{"access":{"closed":true,"entries":[]}}"#),
    ("intent.sent", "", r#"{"to":"active"}"#),
    (
        "interrupt.amended",
        "",
        r#"{"interruptId":"int-000000000001000000000000000000000000","kind":"custom","key":"k","call":1,"data":{}}"#,
    ),
    ("run.completed", "", r#"{"durationMs":1}"#),
    ("run.failed", "", r#"{"error":{"code":"c","message":"m"}}"#),
    ("run.cancelling", "", "{}"),
    ("run.cancelled", "", "{}"),
    ("run.paused", "", "{}"),
    ("run.resumed", "", "{}"),
    ("run.yielded", "", "{}"),
    (
        "child.reported",
        "",
        r#"{"child":"run-00000000-0000-0000-0000-000000000000","node":"n","sequence":1,"lifecycle":"completed"}"#,
    ),
    ("cap.breached", "", r#"{"kind":"run-duration","limit":1,"observed":2}"#),
    ("variable.changed", "", r#"{"name":"v","next":1}"#),
    ("workflow.loopback-limit", "", r#"{"nodeId":"n","iterations":5}"#),
    ("loop.restarted", "", r#"{"node":"n","iteration":1}"#),
    (
        "child.refused",
        "",
        r#"{"child":"run-00000000-0000-0000-0000-000000000000","node":"n","error":{"code":"c","message":"m"}}"#,
    ),
    ("run.pausing", "", "{}"),
    (
        "resume_decision",
        " that allows it",
        r#"{"event":"resume_decision","run_id":"run-00000000-0000-0000-0000-000000000000","interruption_class":"timeout","eligible":true,"reason_code":"resume_allowed","cooldown_seconds_remaining":0,"attempt":1,"max_attempts":3,"at":"2026-01-05T09:00:00.000Z","actor":"system"}"#,
    ),
    (
        "resume_decision",
        " against it",
        r#"{"event":"resume_decision","run_id":"run-00000000-0000-0000-0000-000000000000","interruption_class":"timeout","eligible":false,"reason_code":"resume_blocked_cooldown","cooldown_seconds_remaining":0,"attempt":1,"max_attempts":3,"at":"2026-01-05T09:00:00.000Z","actor":"system"}"#,
    ),
    ("resume.requested", "", r#"{"by":"ops"}"#),
    ("resume.escalated", "", r#"{"interruptionClass":"timeout"}"#),
    ("resume.switched", "", r#"{"auto":false,"by":"ops"}"#),
    ("run.held", " with `pause`", r#"{"mode":"pause"}"#),
    ("run.held", " with `stop`", r#"{"mode":"stop"}"#),
    ("run.released", "", "{}"),
    (
        "replay.diverged",
        "",
        r#"{"sourceRunId":"run-00000000-0000-0000-0000-000000000000","atSequence":3,"divergenceKind":"output"}"#,
    ),
    ("run.activated", "", "{}"),
    (
        "run.blocked",
        "",
        r#"{"reason":"dependency_incomplete","by":["run-00000000-0000-0000-0000-000000000000"]}"#,
    ),
    ("run.unblocked", "", "{}"),
    ("dependency.added", "", r#"{"dependency":{"run":"run-00000000-0000-0000-0000-000000000000"}}"#),
    ("dependency.removed", "", r#"{"run":"run-00000000-0000-0000-0000-000000000000"}"#),
    (
        "dependency.reported",
        "",
        r#"{"run":"run-00000000-0000-0000-0000-000000000000","sequence":1,"status":"completed"}"#,
    ),
    ("run.watched", "", r#"{"by":"run-00000000-0000-0000-0000-000000000000","sequence":1,"watching":true}"#),
    ("run.ordered", "", r#"{"by":"run-00000000-0000-0000-0000-000000000000","sequence":1,"order":"hold"}"#),
    (
        "child.added",
        "",
        r#"{"child":"run-00000000-0000-0000-0000-000000000000","node":"n","workflowId":"w"}"#,
    ),
    (
        "portfolio.member_added",
        "",
        r#"{"run":"run-00000000-0000-0000-0000-000000000000","role":"member","status":"running","sequence":1}"#,
    ),
    ("portfolio.member_removed", "", r#"{"run":"run-00000000-0000-0000-0000-000000000000","was":"running"}"#),
    (
        "portfolio.member_reported",
        "",
        r#"{"run":"run-00000000-0000-0000-0000-000000000000","sequence":1,"was":"running","status":"completed"}"#,
    ),
    (
        "portfolio.member_suspended",
        "",
        r#"{"run":"run-00000000-0000-0000-0000-000000000000","sequence":1,"was":"running","status":"waiting-input"}"#,
    ),
    (
        "portfolio.member_resumed",
        "",
        r#"{"run":"run-00000000-0000-0000-0000-000000000000","sequence":1,"was":"waiting-input","status":"running"}"#,
    ),
    ("portfolio.governance_set", "", r#"{"governance":{}}"#),
    ("portfolio.budget_exceeded", "", r#"{"limitCents":1,"costMicros":20000}"#),
    (
        "coordinator.registered",
        "",
        r#"{"coordinator":"coord-0","change":{"registered":{"agent":"a","suspensionPolicy":"isolate","heartbeatIntervalMs":60000}}}"#,
    ),
    ("coordinator.heartbeat", "", r#"{"coordinator":"coord-0","change":{"heartbeat":{}}}"#),
    (
        "coordinator.policy_set",
        "",
        r#"{"coordinator":"coord-0","change":{"policy_set":{"suspensionPolicy":"escalate"}}}"#,
    ),
    ("coordinator.paused", "", r#"{"coordinator":"coord-0","change":{"paused":{}}}"#),
    ("coordinator.resumed", "", r#"{"coordinator":"coord-0","change":{"resumed":{}}}"#),
    ("coordinator.unresponsive", "", r#"{"coordinator":"coord-0","change":{"unresponsive":{}}}"#),
    (
        "coordinator.failed_over",
        "",
        r#"{"coordinator":"coord-0","change":{"failed_over":{"reason":"heartbeat"}}}"#,
    ),
    (
        "coordinator.replaced",
        "",
        r#"{"coordinator":"coord-0","change":{"replaced":{"agent":"b","was":"a","lease":"coord-1"}}}"#,
    ),
    ("coordinator.completed", "", r#"{"coordinator":"coord-0","change":{"completed":{}}}"#),
    (
        "coordinator.escalation_required",
        "",
        r#"{"coordinator":"coord-0","change":{"escalation_required":{"suspendedIntentId":"run-00000000-0000-0000-0000-000000000000","suspendedSince":1}}}"#,
    ),
    (
        "coordinator.dependents_blocked",
        "",
        r#"{"coordinator":"coord-0","change":{"dependents_blocked":{"phaseName":"n","suspendedIntentId":"run-00000000-0000-0000-0000-000000000000","phases":[]}}}"#,
    ),
    (
        "coordinator.dependents_unblocked",
        "",
        r#"{"coordinator":"coord-0","change":{"dependents_unblocked":{"phaseName":"n","phases":[]}}}"#,
    ),
    ("node.claimed", "", r#"{"agent":"a"}"#),
    ("node.released", "", r#"{"agent":"a"}"#),
    ("claim.deferred", "", r#"{"agent":"a"}"#),
    (
        "phase.blocked",
        "",
        r#"{"suspendedIntentId":"run-00000000-0000-0000-0000-000000000000","blockedReason":"intent_suspended"}"#,
    ),
    ("phase.unblocked", "", "{}"),
    (
        "task.created",
        "",
        r#"{"taskId":"task-000000000000000000000000000000000000","created":{"name":"t","maxAttempts":3}}"#,
    ),
    ("task.ready", "", r#"{"taskId":"task-000000000000000000000000000000000000"}"#),
    ("task.claimed", "", r#"{"taskId":"task-000000000000000000000000000000000000","agent":"a"}"#),
    ("task.started", "", r#"{"taskId":"task-000000000000000000000000000000000000"}"#),
    ("task.progress", "", r#"{"taskId":"task-000000000000000000000000000000000000","progress":1}"#),
    ("task.completed", "", r#"{"taskId":"task-000000000000000000000000000000000000","output":1}"#),
    (
        "task.failed",
        "",
        r#"{"taskId":"task-000000000000000000000000000000000000","error":{"code":"c","message":"m"}}"#,
    ),
    (
        "task.failed",
        " with its run",
        r#"{"taskId":"task-000000000000000000000000000000000000","error":{"code":"c","message":"m"},"withRun":"failed"}"#,
    ),
    ("task.retrying", "", r#"{"taskId":"task-000000000000000000000000000000000000","attempt":2}"#),
    ("task.blocked", "", r#"{"taskId":"task-000000000000000000000000000000000000","reason":"r"}"#),
    (
        "task.blocked",
        " by a question",
        r#"{"taskId":"task-000000000000000000000000000000000000","reason":"intent_suspended","interruptId":"int-000000000001000000000000000000000000"}"#,
    ),
    (
        "task.blocked",
        " by its child",
        r#"{"taskId":"task-000000000000000000000000000000000000","reason":"intent_suspended","suspendedIntentId":"run-00000000-0000-0000-0000-000000000000"}"#,
    ),
    ("task.unblocked", "", r#"{"taskId":"task-000000000000000000000000000000000000"}"#),
    ("task.released", "", r#"{"taskId":"task-000000000000000000000000000000000000"}"#),
    ("task.cancelled", "", r#"{"taskId":"task-000000000000000000000000000000000000"}"#),
    (
        "task.cancelled",
        " with its run",
        r#"{"taskId":"task-000000000000000000000000000000000000","withRun":"cancelled"}"#,
    ),
    ("task.skipped", "", r#"{"taskId":"task-000000000000000000000000000000000000"}"#),
    ("plan.created", "", r#"{"planId":"plan-000000000000000000000000000000000000","created":{}}"#),
    ("plan.activated", "", r#"{"planId":"plan-000000000000000000000000000000000000"}"#),
    ("plan.paused", "", r#"{"planId":"plan-000000000000000000000000000000000000"}"#),
    ("plan.resumed", "", r#"{"planId":"plan-000000000000000000000000000000000000"}"#),
    ("plan.completed", "", r#"{"planId":"plan-000000000000000000000000000000000000"}"#),
    ("plan.failed", "", r#"{"planId":"plan-000000000000000000000000000000000000"}"#),
    (
        "plan.failed",
        " with its run",
        r#"{"planId":"plan-000000000000000000000000000000000000","withRun":"failed"}"#,
    ),
    ("plan.cancelled", "", r#"{"planId":"plan-000000000000000000000000000000000000"}"#),
    (
        "plan.cancelled",
        " with its run",
        r#"{"planId":"plan-000000000000000000000000000000000000","withRun":"cancelled"}"#,
    ),
    (
        "plan.checkpoint_reached",
        "",
        r#"{"planId":"plan-000000000000000000000000000000000000","checkpoint":"c"}"#,
    ),
    (
        "plan.checkpoint_approved",
        "",
        r#"{"planId":"plan-000000000000000000000000000000000000","checkpoint":"c"}"#,
    ),
    (
        "plan.checkpoint_rejected",
        "",
        r#"{"planId":"plan-000000000000000000000000000000000000","checkpoint":"c"}"#,
    ),
    ("node.started", "", r#"{"typeId":"core.noop","execution":1}"#),
    ("node.started", " with `until`", r#"{"typeId":"core.delay","execution":1,"until":5}"#),
    ("node.started", " with `forChild`", r#"{"typeId":"core.subWorkflow","execution":1,"forChild":true}"#),
    ("node.completed", "", "{}"),
    ("node.failed", "", r#"{"error":{"code":"c","message":"m"}}"#),
    ("node.cancelled", "", "{}"),
    ("node.skipped", "", r#"{"reason":"trigger-rule"}"#),
    ("node.retried", "", r#"{"attempt":1,"error":{"code":"c","message":"m"},"until":5}"#),
    ("node.due", "", "{}"),
    (
        "node.spawned",
        "",
        r#"{"child":"run-00000000-0000-0000-0000-000000000000","workflowId":"w","cascade":true}"#,
    ),
    (
        "node.spawned",
        " with `waits`",
        r#"{"child":"run-00000000-0000-0000-0000-000000000000","workflowId":"w","cascade":true,"waits":true}"#,
    ),
    ("channel.written", "", r#"{"channel":"c","value":1,"reducer":"replace"}"#),
    ("runOrchestrator.decided", "", r#"{"kind":"terminate"}"#),
    ("artifact.created", "", r#"{"artifactId":"art-0","artifactType":"report","nodeId":"n"}"#),
    (
        "interrupt.requested",
        "",
        r#"{"interruptId":"int-000000000001000000000000000000000000","kind":"custom","key":"k","call":1,"data":{}}"#,
    ),
    (
        "clarification.requested",
        "",
        r#"{"interruptId":"int-000000000001000000000000000000000000","questions":[]}"#,
    ),
    (
        "node.suspended",
        "",
        r#"{"interruptId":"int-000000000001000000000000000000000000","kind":"custom","key":"k"}"#,
    ),
    (
        "approval.received",
        "",
        r#"{"interruptId":"int-000000000001000000000000000000000000","action":"accept","decidedBy":"a"}"#,
    ),
    (
        "clarification.resolved",
        "",
        r#"{"interruptId":"int-000000000001000000000000000000000000","answers":{},"answeredBy":"a"}"#,
    ),
    (
        "interrupt.resolved",
        "",
        r#"{"interruptId":"int-000000000001000000000000000000000000","kind":"custom","outcome":"resolved","resolvedBy":"a"}"#,
    ),
    ("node.resumed", "", r#"{"interruptId":"int-000000000001000000000000000000000000"}"#),
    (
        "interrupt.renotified",
        "",
        r#"{"interruptId":"int-000000000001000000000000000000000000","attempt":2,"maxAttempts":2,"channelHint":null,"notifyTo":null,"nextAttemptAt":null}"#,
    ),
    (
        "interrupt.escalated",
        "",
        r#"{"interruptId":"int-000000000001000000000000000000000000","attempt":2,"escalatedTo":null,"channelHint":"c"}"#,
    ),
    (
        "interrupt.expired",
        "",
        r#"{"interruptId":"int-000000000001000000000000000000000000","attempts":2,"fallbackPolicy":"fail"}"#,
    ),
    (
        "notice.refused",
        "",
        r#"{"interruptId":"int-000000000001000000000000000000000000","attempt":1,"notifyTo":"a","reason":"r"}"#,
    ),
    ("step.begun", "", r#"{"key":"k"}"#),
    ("step.recorded", "", r#"{"key":"k","value":1}"#),
    ("sleep.started", "", r#"{"key":"k","until":5}"#),
    ("sleep.ended", "", r#"{"key":"k"}"#),
    ("version.recorded", "", r#"{"key":"k","version":1}"#),
    ("node.parked", "", r#"{"waits":[{"sleep":"k"}]}"#),
    ("task.lost", "", r#"{"reason":"silent"}"#),
    ("node.noted", "", r#"{"progress":{"done":1.0}}"#),
    ("engagement.decision", "", r#"{"mode":"autonomous","should_ask":false}"#),
    ("node.interrupted", "", r#"{"class":"timeout","error":{"code":"c","message":"m"},"attempt":1}"#),
    ("turn.began", "", r#"{"conversationId":"c","turnId":"t","provider":"p","messages":[]}"#),
    ("model.called", "", r#"{"step":0,"attempt":0}"#),
    ("ai.message.chunk", "", r#"{"step":0,"call":1,"chunk":"a"}"#),
    ("model.answered", "", r#"{"step":0,"message":{"role":"assistant","content":"a"}}"#),
    (
        "model.answered",
        " that calls tools",
        r#"{"step":0,"message":{"role":"assistant","toolCalls":[{"id":"c","name":"t","arguments":{}}]}}"#,
    ),
    ("provider.usage", "", r#"{"provider":"p","step":0,"inputTokens":1,"outputTokens":1}"#),
    (
        "provider-retry",
        "",
        r#"{"type":"provider-retry","conversationId":"c","turnId":"t","attempt":0,"delayMs":1,"message":"m"}"#,
    ),
    ("provider.postponed", "", r#"{"provider":"p","since":1}"#),
    ("tool.answered", "", r#"{"toolCallId":"c","name":"t","content":"a"}"#),
    (
        "turn.sealed",
        "",
        r#"{"conversationId":"c","turnId":"t","status":"completed","steps":1,"usage":{"inputTokens":1,"outputTokens":1}}"#,
    ),
    (
        "turn.sealed",
        " that was aborted",
        r#"{"conversationId":"c","turnId":"t","status":"aborted","steps":1,"usage":{"inputTokens":1,"outputTokens":1}}"#,
    ),
    (
        "approval.voted",
        "",
        r#"{"interruptId":"int-000000000001000000000000000000000000","action":"accept","decidedBy":"a"}"#,
    ),
    (
        "approval.asked",
        "",
        r#"{"interruptId":"int-000000000001000000000000000000000000","ask":1,"question":"q","askedBy":"a"}"#,
    ),
    (
        "approval.replied",
        "",
        r#"{"interruptId":"int-000000000001000000000000000000000000","ask":1,"answer":"w","answeredBy":"a"}"#,
    ),
    ("node.refined", "", r#"{"gate":"g","refineFeedback":{"scope":"whole"},"decidedBy":"a"}"#),
    (
        "conversation.opened",
        "",
        r#"{"conversationId":"c","interruptId":"int-000000000001000000000000000000000000"}"#,
    ),
    (
        "conversation.exchanged",
        "",
        r#"{"conversationId":"c","turnIndex":0,"interruptId":"int-000000000001000000000000000000000000","prompt":"?","outcome":1,"exchangedBy":"ada"}"#,
    ),
    (
        "conversation.closed",
        "",
        r#"{"conversationId":"c","interruptId":"int-000000000001000000000000000000000000","turns":0}"#,
    ),
    ("agent.decided", "", r#"{"agentId":"ada","decision":1,"key":"k","call":1}"#),
    (
        "core.workflowChain.confidence-escalated",
        "",
        r#"{"confidence":0.3,"floor":0.5,"originalDecision":{"kind":"terminate"}}"#,
    ),
];

fn samples() -> Vec<Sample<Event>> {
    let of = |kind: &EventType| {
        let found: Vec<_> = PAYLOADS.iter().filter(|(name, ..)| *name == kind.name).collect();
        assert!(!found.is_empty(), "{} has no example in PAYLOADS", kind.name);
        let kind = *kind;
        found.into_iter().map(move |(name, variant, payload)| Sample {
            title: format!("`{name}`{variant}"),
            event: decode(kind, payload),
        })
    };
    event_types().iter().flat_map(of).collect()
}

fn decode(kind: EventType, payload: &str) -> Event {
    let node = (kind.code >= FIRST_NODE_CODE).then(|| "n".into());
    Event::decode(kind.code, kind.version, node.as_ref(), payload.as_bytes())
        .expect("the example is readable")
}

fn run_samples() -> Vec<Sample<RunEvent>> {
    let pick = |Sample { title, event }| match event {
        Event::Run(event) => Some(Sample { title, event }),
        Event::Node { .. } => None,
    };
    samples().into_iter().filter_map(pick).collect()
}

fn node_samples() -> Vec<Sample<NodeEvent>> {
    let pick = |Sample { title, event }| match event {
        Event::Node { event, .. } => Some(Sample { title, event }),
        Event::Run(_) => None,
    };
    samples().into_iter().filter_map(pick).collect()
}

fn task_samples() -> Vec<Sample<TaskChanged>> {
    let pick = |Sample { title, event }| match event {
        RunEvent::Task(event) => Some(Sample { title, event: *event }),
        _ => None,
    };
    run_samples().into_iter().filter_map(pick).collect()
}

fn plan_samples() -> Vec<Sample<PlanChanged>> {
    let pick = |Sample { title, event }| match event {
        RunEvent::Plan(event) => Some(Sample { title, event: *event }),
        _ => None,
    };
    run_samples().into_iter().filter_map(pick).collect()
}

/// A table over every pair of a state and an event.
fn table<S, E>(states: &[S], samples: &[Sample<E>], after: impl Fn(S, &E) -> Option<S>) -> String
where
    S: Copy + Serialize,
{
    let heads: Vec<String> = states.iter().map(name).collect();
    let mut lines =
        vec![format!("| event | {} |", heads.join(" | ")), format!("|---|{}", "---|".repeat(states.len()))];
    for Sample { title, event } in samples {
        let cell = |&state: &S| after(state, event).as_ref().map_or_else(|| "·".to_owned(), name);
        let cells: Vec<String> = states.iter().map(cell).collect();
        lines.push(format!("| {title} | {} |", cells.join(" | ")));
    }
    lines.join("\n")
}

/// A state's name, as it is written in snapshots and messages.
fn name<S: Serialize>(state: &S) -> String {
    let written = serde_json::to_value(state).expect("a state is a plain name");
    written.as_str().expect("a state is a plain name").to_owned()
}

fn lifecycle_table() -> String {
    table(&Lifecycle::ALL, &run_samples(), Lifecycle::after)
}

fn hold_table() -> String {
    table(&Hold::ALL, &run_samples(), Hold::after)
}

fn node_table() -> String {
    table(&NodePhase::ALL, &node_samples(), NodePhase::after)
}

fn task_table() -> String {
    table(&TaskStatus::ALL, &task_samples(), TaskStatus::after)
}

fn plan_table() -> String {
    table(&PlanState::ALL, &plan_samples(), |state, changed| state.after(changed.change))
}

/// How a run is shown by each protocol. A hold comes before what is waited for, and an end or a cancellation before both.
fn status_table() -> String {
    let mut lines = vec!["| status | OpenWOP | OpenIntent |".to_owned(), "|---|---|---|".to_owned()];
    for (status, _, name) in Status::ALL {
        lines.push(format!("| {status:?} | {name} | {} |", status.intent_name()));
    }
    lines.join("\n")
}

fn page() -> String {
    let sections = [
        ("A run's lifecycle", lifecycle_table()),
        ("A run's hold", hold_table()),
        ("A node's phase", node_table()),
        ("A task that was posted to a run", task_table()),
        ("A plan that was posted to a run", plan_table()),
        ("A run's status, as the protocols show it", status_table()),
    ];
    let sections = sections.map(|(title, table)| format!("\n## {title}\n\n{table}\n"));
    format!("{INTRO}{}", sections.concat())
}

#[test]
fn lifecycle_by_run_event() {
    insta::assert_snapshot!(lifecycle_table());
}

#[test]
fn hold_by_run_event() {
    insta::assert_snapshot!(hold_table());
}

#[test]
fn node_phase_by_node_event() {
    insta::assert_snapshot!(node_table());
}

#[test]
fn task_status_by_task_event() {
    insta::assert_snapshot!(task_table());
}

#[test]
fn plan_state_by_plan_event() {
    insta::assert_snapshot!(plan_table());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the core reads no files, but the page is one")]
fn the_page_shows_the_tables() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/state-tables.md");
    if std::env::var_os("ABIDE_REGENERATE").is_some_and(|value| value == "1") {
        std::fs::write(&path, page()).expect("the page can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page(),
        "docs/state-tables.md is not what the core does.\nWrite it anew with: \
         ABIDE_REGENERATE=1 cargo test -p abide-core --test tables\n\nIt should read:\n\n{}",
        page()
    );
}

#[test]
fn nothing_happens_to_a_run_that_has_ended() {
    let ended = || Lifecycle::ALL.into_iter().filter(|state| state.is_terminal());
    assert_eq!(ended().count(), 3);
    for Sample { title, event } in run_samples() {
        for state in ended() {
            assert_eq!(state.after(&event), None, "{title} in {state:?}");
        }
    }
}

#[test]
fn only_the_name_of_what_it_made_and_what_others_wait_for_comes_to_a_node_that_is_settled() {
    let named = |phase, event: &NodeEvent| {
        let becomes_of_what_it_asked = matches!(
            event,
            NodeEvent::ApprovalReceived(_)
                | NodeEvent::ClarificationResolved(_)
                | NodeEvent::InterruptResolved(_)
                | NodeEvent::ConversationExchanged(_)
                | NodeEvent::InterruptEscalated(_)
                | NodeEvent::InterruptRenotified(_)
                | NodeEvent::InterruptExpired(_)
                | NodeEvent::NoticeRefused(_)
                | NodeEvent::ApprovalVoted(_)
                | NodeEvent::ApprovalAsked(_)
                | NodeEvent::ApprovalReplied(_)
                | NodeEvent::Refined(_)
        );
        becomes_of_what_it_asked
            || phase == NodePhase::Completed && matches!(event, NodeEvent::ArtifactCreated(_))
    };
    let settled = || NodePhase::ALL.into_iter().filter(|phase| phase.is_settled());
    assert_eq!(settled().count(), 4);
    for Sample { title, event } in node_samples() {
        for phase in settled() {
            let expected = named(phase, &event).then_some(phase);
            assert_eq!(phase.after(&event), expected, "{title} in {phase:?}");
        }
    }
}

#[test]
fn every_state_is_reached_from_the_first() {
    fn reached<S: Copy + PartialEq, E>(
        from: S,
        samples: &[Sample<E>],
        after: fn(S, &E) -> Option<S>,
    ) -> usize {
        let mut known = vec![from];
        let mut next = 0;
        while let Some(&state) = known.get(next) {
            next += 1;
            for state in samples.iter().filter_map(|sample| after(state, &sample.event)) {
                if !known.contains(&state) {
                    known.push(state);
                }
            }
        }
        known.len()
    }
    let runs = run_samples();
    assert_eq!(reached(Lifecycle::Pending, &runs, Lifecycle::after), Lifecycle::ALL.len());
    assert_eq!(reached(Hold::None, &runs, Hold::after), Hold::ALL.len());
    let tasks = task_samples();
    assert_eq!(reached(TaskStatus::Pending, &tasks, TaskStatus::after), TaskStatus::ALL.len());
    let plans = plan_samples();
    let after = |state: PlanState, changed: &PlanChanged| state.after(changed.change);
    assert_eq!(reached(PlanState::Draft, &plans, after), PlanState::ALL.len());
    let nodes = node_samples();
    assert_eq!(reached(NodePhase::Pending, &nodes, NodePhase::after), NodePhase::ALL.len());
}
