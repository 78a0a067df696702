//! The kinds of events: their numbers on disk, their names, their versions.

/// One kind of event, as declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventType {
    /// Its number on disk. Never reused.
    pub code: u16,
    /// Its name in journals and on the wire.
    pub name: &'static str,
    /// The version this build writes. It reads all older ones: what a later one added may be missing from them.
    pub version: u16,
    /// Whether OpenWOP knows the name; others are ours alone.
    pub canonical: bool,
}

macro_rules! declare {
    ($($constant:ident = $code:literal $name:literal v $version:literal $canonical:literal;)*) => {
        $(pub(crate) const $constant: EventType =
            EventType { code: $code, name: $name, version: $version, canonical: $canonical };)*
        pub(super) const TYPES: &[EventType] = &[$($constant),*];
    };
}

declare! {
    RUN_STARTED = 1 "run.started" v 8 true;
    RUN_COMPLETED = 2 "run.completed" v 1 true;
    RUN_FAILED = 3 "run.failed" v 1 true;
    RUN_CANCELLING = 4 "run.cancelling" v 3 false;
    RUN_CANCELLED = 5 "run.cancelled" v 3 true;
    RUN_PAUSED = 6 "run.paused" v 1 true;
    RUN_RESUMED = 7 "run.resumed" v 2 true;
    RUN_YIELDED = 8 "run.yielded" v 1 false;
    CHILD_REPORTED = 9 "child.reported" v 4 false;
    CAP_BREACHED = 10 "cap.breached" v 1 true;
    VARIABLE_CHANGED = 11 "variable.changed" v 1 true;
    LOOPBACK_LIMIT = 12 "workflow.loopback-limit" v 1 true;
    LOOP_RESTARTED = 13 "loop.restarted" v 1 false;
    CHILD_REFUSED = 14 "child.refused" v 1 false;
    RUN_PAUSING = 15 "run.pausing" v 1 false;
    RESUME_DECISION = 16 "resume_decision" v 1 false;
    RESUME_REQUESTED = 17 "resume.requested" v 1 false;
    RESUME_ESCALATED = 18 "resume.escalated" v 1 false;
    RESUME_SWITCHED = 19 "resume.switched" v 1 false;
    REPLAY_DIVERGED = 20 "replay.diverged" v 1 true;
    RUN_HELD = 25 "run.held" v 1 false;
    RUN_RELEASED = 26 "run.released" v 1 false;
    RUN_ACTIVATED = 27 "run.activated" v 1 false;
    RUN_BLOCKED = 28 "run.blocked" v 1 false;
    RUN_UNBLOCKED = 29 "run.unblocked" v 1 false;
    DEPENDENCY_ADDED = 30 "dependency.added" v 1 false;
    DEPENDENCY_REMOVED = 31 "dependency.removed" v 1 false;
    DEPENDENCY_REPORTED = 32 "dependency.reported" v 1 false;
    RUN_WATCHED = 33 "run.watched" v 1 false;
    MEMBER_ADDED = 34 "portfolio.member_added" v 1 false;
    MEMBER_REMOVED = 35 "portfolio.member_removed" v 1 false;
    MEMBER_REPORTED = 36 "portfolio.member_reported" v 1 false;
    MEMBER_SUSPENDED = 37 "portfolio.member_suspended" v 1 false;
    MEMBER_RESUMED = 38 "portfolio.member_resumed" v 1 false;
    GOVERNANCE_SET = 39 "portfolio.governance_set" v 2 false;
    BUDGET_EXCEEDED = 40 "portfolio.budget_exceeded" v 1 false;
    COORDINATOR_REGISTERED = 80 "coordinator.registered" v 2 false;
    COORDINATOR_HEARTBEAT = 81 "coordinator.heartbeat" v 1 false;
    COORDINATOR_POLICY_SET = 82 "coordinator.policy_set" v 1 false;
    COORDINATOR_PAUSED = 83 "coordinator.paused" v 1 false;
    COORDINATOR_RESUMED = 84 "coordinator.resumed" v 1 false;
    COORDINATOR_UNRESPONSIVE = 85 "coordinator.unresponsive" v 1 false;
    COORDINATOR_FAILED_OVER = 86 "coordinator.failed_over" v 1 false;
    COORDINATOR_REPLACED = 87 "coordinator.replaced" v 1 false;
    COORDINATOR_COMPLETED = 88 "coordinator.completed" v 1 false;
    COORDINATOR_ESCALATION = 89 "coordinator.escalation_required" v 1 false;
    COORDINATOR_BLOCKED = 90 "coordinator.dependents_blocked" v 1 false;
    COORDINATOR_UNBLOCKED = 91 "coordinator.dependents_unblocked" v 1 false;
    RUN_ORDERED = 92 "run.ordered" v 1 false;
    CHILD_ADDED = 93 "child.added" v 1 false;
    INTENT_PATCHED = 41 "intent.patched" v 1 false;
    INTENT_ASSIGNED = 42 "intent.assigned" v 1 false;
    INTENT_UNASSIGNED = 43 "intent.unassigned" v 1 false;
    INTENT_LEASED = 44 "intent.leased" v 1 false;
    INTENT_LEASE_RENEWED = 45 "intent.lease_renewed" v 1 false;
    INTENT_LEASE_RELEASED = 46 "intent.lease_released" v 1 false;
    INTENT_POLICY_SET = 47 "intent.policy_set" v 1 false;
    INTENT_ACCESS_SET = 48 "intent.access_set" v 1 false;
    INTENT_SENT = 49 "intent.sent" v 1 false;
    NODE_STARTED = 100 "node.started" v 5 true;
    TASK_CREATED = 50 "task.created" v 1 false;
    TASK_READY = 51 "task.ready" v 1 false;
    TASK_CLAIMED = 52 "task.claimed" v 1 false;
    TASK_STARTED = 53 "task.started" v 1 false;
    TASK_PROGRESS = 54 "task.progress" v 1 false;
    TASK_COMPLETED = 55 "task.completed" v 1 false;
    TASK_FAILED = 56 "task.failed" v 1 false;
    TASK_RETRYING = 57 "task.retrying" v 1 false;
    TASK_BLOCKED = 58 "task.blocked" v 1 false;
    TASK_UNBLOCKED = 59 "task.unblocked" v 1 false;
    TASK_RELEASED = 60 "task.released" v 1 false;
    TASK_CANCELLED = 61 "task.cancelled" v 1 false;
    TASK_SKIPPED = 62 "task.skipped" v 1 false;
    PLAN_CREATED = 63 "plan.created" v 1 false;
    PLAN_ACTIVATED = 64 "plan.activated" v 1 false;
    PLAN_PAUSED = 65 "plan.paused" v 1 false;
    PLAN_RESUMED = 66 "plan.resumed" v 1 false;
    PLAN_COMPLETED = 67 "plan.completed" v 1 false;
    PLAN_FAILED = 68 "plan.failed" v 1 false;
    PLAN_CANCELLED = 69 "plan.cancelled" v 1 false;
    CHECKPOINT_REACHED = 70 "plan.checkpoint_reached" v 1 false;
    CHECKPOINT_APPROVED = 71 "plan.checkpoint_approved" v 1 false;
    CHECKPOINT_REJECTED = 72 "plan.checkpoint_rejected" v 1 false;
    NODE_COMPLETED = 101 "node.completed" v 3 true;
    NODE_FAILED = 102 "node.failed" v 2 true;
    NODE_CANCELLED = 103 "node.cancelled" v 1 true;
    NODE_SKIPPED = 104 "node.skipped" v 1 true;
    NODE_RETRIED = 105 "node.retried" v 2 true;
    NODE_DUE = 106 "node.due" v 2 false;
    NODE_SPAWNED = 107 "node.spawned" v 3 false;
    CHANNEL_WRITTEN = 108 "channel.written" v 1 true;
    ORCHESTRATOR_DECIDED = 109 "runOrchestrator.decided" v 1 true;
    ARTIFACT_CREATED = 110 "artifact.created" v 1 true;
    INTERRUPT_REQUESTED = 111 "interrupt.requested" v 5 true;
    CLARIFICATION_REQUESTED = 112 "clarification.requested" v 1 true;
    NODE_SUSPENDED = 113 "node.suspended" v 2 true;
    APPROVAL_RECEIVED = 114 "approval.received" v 2 true;
    CLARIFICATION_RESOLVED = 115 "clarification.resolved" v 1 true;
    INTERRUPT_RESOLVED = 116 "interrupt.resolved" v 1 true;
    NODE_RESUMED = 117 "node.resumed" v 2 true;
    INTERRUPT_RENOTIFIED = 118 "interrupt.renotified" v 1 false;
    INTERRUPT_ESCALATED = 119 "interrupt.escalated" v 1 false;
    INTERRUPT_EXPIRED = 120 "interrupt.expired" v 2 false;
    NOTICE_REFUSED = 121 "notice.refused" v 1 false;
    STEP_BEGUN = 122 "step.begun" v 1 false;
    STEP_RECORDED = 123 "step.recorded" v 1 false;
    SLEEP_STARTED = 124 "sleep.started" v 1 false;
    SLEEP_ENDED = 125 "sleep.ended" v 1 false;
    VERSION_RECORDED = 126 "version.recorded" v 1 false;
    NODE_PARKED = 127 "node.parked" v 1 false;
    TASK_LOST = 128 "task.lost" v 1 false;
    NODE_NOTED = 129 "node.noted" v 1 false;
    ENGAGEMENT_DECISION = 130 "engagement.decision" v 1 false;
    NODE_INTERRUPTED = 131 "node.interrupted" v 1 false;
    TURN_BEGAN = 132 "turn.began" v 1 false;
    MODEL_CALLED = 133 "model.called" v 1 false;
    MESSAGE_CHUNK = 134 "ai.message.chunk" v 1 true;
    MODEL_ANSWERED = 135 "model.answered" v 1 false;
    PROVIDER_USAGE = 136 "provider.usage" v 1 true;
    PROVIDER_RETRY = 137 "provider-retry" v 1 false;
    PROVIDER_POSTPONED = 138 "provider.postponed" v 1 false;
    TOOL_ANSWERED = 139 "tool.answered" v 1 false;
    TURN_SEALED = 140 "turn.sealed" v 1 false;
    APPROVAL_VOTED = 141 "approval.voted" v 1 false;
    APPROVAL_ASKED = 142 "approval.asked" v 1 false;
    APPROVAL_REPLIED = 143 "approval.replied" v 1 false;
    NODE_REFINED = 144 "node.refined" v 1 false;
    CONVERSATION_OPENED = 150 "conversation.opened" v 1 true;
    CONVERSATION_EXCHANGED = 151 "conversation.exchanged" v 1 true;
    CONVERSATION_CLOSED = 152 "conversation.closed" v 1 true;
    AGENT_DECIDED = 153 "agent.decided" v 1 true;
    CONFIDENCE_ESCALATED = 154 "core.workflowChain.confidence-escalated" v 1 true;
    NODE_CLAIMED = 155 "node.claimed" v 1 false;
    NODE_RELEASED = 156 "node.released" v 1 false;
    CLAIM_DEFERRED = 157 "claim.deferred" v 1 false;
    PHASE_BLOCKED = 158 "phase.blocked" v 1 false;
    PHASE_UNBLOCKED = 159 "phase.unblocked" v 1 false;
    INTERRUPT_AMENDED = 160 "interrupt.amended" v 1 false;
}

/// Types from this number on are about one node; those below are about the run.
pub(super) const FIRST_NODE_CODE: u16 = 100;

/// Every event type this build knows.
pub fn event_types() -> &'static [EventType] {
    TYPES
}

impl EventType {
    /// The type with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        TYPES.iter().copied().find(|kind| kind.name == name)
    }

    /// What it is called by OpenWOP, if that knows it. Whatever holds a run is a pause there.
    pub fn openwop_name(self) -> Option<&'static str> {
        match self {
            RESUME_ESCALATED | RUN_HELD => Some(RUN_PAUSED.name),
            RESUME_REQUESTED | RUN_RELEASED => Some(RUN_RESUMED.name),
            known if known.canonical => Some(known.name),
            _ => None,
        }
    }

    /// The type with this number on disk.
    pub fn by_code(code: u16) -> Option<Self> {
        TYPES.iter().copied().find(|kind| kind.code == code)
    }
}
