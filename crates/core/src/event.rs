//! What can happen to a run, and how each event is encoded.
//!
//! An event type is declared once, in [`event_types`]: its number on disk, its name, its version, and
//! whether OpenWOP knows it. Payloads are JSON objects; users' values inside them are carried as they are.

mod approval;
mod bond;
mod child;
mod conversation;
mod coordinator;
mod doubt;
mod failure;
mod fork;
mod group;
mod hand;
mod intent;
mod interrupt;
mod node;
mod of_node;
mod phase;
mod planning;
mod resume;
mod run;
mod turn;
mod types;
mod work;

use std::sync::Arc;

use serde::de::DeserializeOwned;

pub use approval::{ApprovalAsked, ApprovalReplied, ApprovalVoted, NodeRefined};
pub use bond::{
    BlockedReason, DependencyAdded, DependencyRemoved, DependencyReported, DependsOn, RunActivated,
    RunBlocked, RunOrdered, RunUnblocked, RunWatched,
};
pub use child::ChildAdded;
pub use conversation::{ConversationClosed, ConversationExchanged, ConversationOpened};
pub use coordinator::{
    CoordinatorChange, CoordinatorChanged, CoordinatorPaused, CoordinatorRegistered, DependentsBlocked,
    DependentsUnblocked, EscalationRequired, FailedOver, PolicySet, Replaced,
};
pub use doubt::{AgentDecided, ConfidenceEscalated, Doubt};
pub use failure::Failure;
pub use fork::{DivergenceKind, ForkMode, Forked, ReplayDiverged};
pub use group::{
    BudgetExceeded, Governance, GovernanceSet, GroupSpec, MemberAdded, MemberRemoved, MemberReported, Role,
};
pub use hand::{ClaimDeferred, NodeClaimed, NodeReleased};
pub use intent::{IntentChanged, IntentEvent, IntentPatched, LeaseTaken, Patch, PatchOp};
pub use interrupt::{
    ApprovalReceived, CheckpointRef, ClarificationRequested, ClarificationResolved, HookKind, Hooks,
    InterruptEscalated, InterruptExpired, InterruptRenotified, InterruptRequested, InterruptResolved,
    NodeResumed, NodeSuspended, NoticeRefused, Resolution,
};
pub use node::{
    ArtifactCreated, ChannelWritten, Decided, Mask, NodeCancelled, NodeCompleted, NodeDue, NodeFailed,
    NodeRetried, NodeSkipped, NodeSpawned, NodeStarted,
};
pub use phase::{PhaseBlocked, PhaseUnblocked};
pub use planning::{PlanChange, PlanChanged, TaskChange, TaskChanged};
pub use resume::{NodeInterrupted, ResumeDecided, ResumeEscalated, ResumeRequested, ResumeSwitched};
pub use run::{
    Cancellation, CapBreached, Caps, ChildRefused, ChildReported, Completed, Failed, Held, HoldMode,
    LoopRestarted, LoopbackLimit, Parent, Paused, Released, Resumed, Started, VariableChanged, Yielded,
};
pub(crate) use run::{
    READING, READING_OF_ARTIFACTS, READING_OF_INTERRUPTS, READING_OF_REFINING, READING_OF_TURNS,
};
pub use turn::{
    ChunkEnd, ChunkKind, MessageChunk, ModelAnswered, ModelCalled, ProviderPostponed, ProviderRetry,
    ProviderUsage, ToolAnswered, TurnBegan, TurnEnd, TurnSealed,
};
pub(crate) use types::ORCHESTRATOR_DECIDED;
use types::*;
pub use types::{EventType, event_types};
pub use work::{
    EngagementDecided, LogLine, Loss, NodeNoted, NodeParked, Offered, Progress, SleepEnded, SleepStarted,
    StepBegun, StepRecorded, TaskLost, VersionRecorded, Wait,
};

/// One event, before it has a place in a journal.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Something happened to the run as a whole.
    Run(RunEvent),
    /// Something happened to one node.
    Node {
        /// The node's id in the definition.
        node: Arc<str>,
        /// What happened.
        event: NodeEvent,
    },
}

/// What can happen to a run as a whole. The lifecycle table says which states accept which.
#[derive(Clone, Debug, PartialEq)]
pub enum RunEvent {
    /// Accepted by a pending run; always the first event.
    Started(Box<Started>),
    /// Accepted by a running run; terminal.
    Completed(Completed),
    /// Accepted by a running run; terminal.
    Failed(Failed),
    /// Accepted by a running run with work in flight.
    Cancelling(Cancellation),
    /// Accepted by a running or cancelling run; terminal.
    Cancelled(Cancellation),
    /// Accepted by a running run that is not paused.
    Paused(Paused),
    /// Accepted by a paused run, and by one that is about to be.
    Resumed(Resumed),
    /// Accepted by a running run that is not held: a long stretch commits and goes on later.
    Yielded(Yielded),
    /// Accepted by a run that has not ended: a child told how it stands.
    ChildReported(ChildReported),
    /// Accepted by a running run: a limit was reached, and the run is going to fail.
    CapBreached(CapBreached),
    /// Accepted by a running run.
    VariableChanged(VariableChanged),
    /// Accepted by a running run: a loop went back as often as it may.
    LoopbackLimit(LoopbackLimit),
    /// Accepted by a running run: a loop starts over.
    LoopRestarted(LoopRestarted),
    /// Accepted by a run that has not ended: a child could not be started.
    ChildRefused(ChildRefused),
    /// Accepted by a running run with work in flight that is not held: it is paused when that has ended.
    Pausing(Paused),
    /// Accepted by a running run that is not paused: whether it is resumed, and why not.
    ResumeDecided(Box<ResumeDecided>),
    /// Accepted by a running run: an operator wants it to go on.
    ResumeRequested(Box<ResumeRequested>),
    /// Accepted by a running run that is not paused: it is held until a person decides.
    ResumeEscalated(ResumeEscalated),
    /// Accepted by a running run: whether it is resumed by itself.
    ResumeSwitched(ResumeSwitched),
    /// Accepted by a running run that is not held this way already, and that waits for no decision about a resume.
    Held(Held),
    /// Accepted by a run that people hold.
    Released(Released),
    /// Accepted by a run that has not ended: a replay came out otherwise than what it replays.
    ReplayDiverged(ReplayDiverged),
    /// Accepted by a running run that is a draft.
    Activated(RunActivated),
    /// Accepted by a running run: no node starts, because of others.
    Blocked(RunBlocked),
    /// Accepted by a running run: it waits for nobody any more.
    Unblocked(RunUnblocked),
    /// Accepted by a running run.
    DependencyAdded(DependencyAdded),
    /// Accepted by a running run.
    DependencyRemoved(DependencyRemoved),
    /// Accepted by a run that has not ended: a run that it waits for told how it stands.
    DependencyReported(Box<DependencyReported>),
    /// Accepted by a run that has not ended: somebody wants to hear how it stands, or does not any more.
    Watched(RunWatched),
    /// Accepted by a running group.
    MemberAdded(Box<MemberAdded>),
    /// Accepted by a running group.
    MemberRemoved(MemberRemoved),
    /// Accepted by a running group: a member told how it stands.
    MemberReported(Box<MemberReported>),
    /// Accepted by a running group.
    GovernanceSet(Box<GovernanceSet>),
    /// Accepted by a running group: its members have cost more than they may.
    BudgetExceeded(BudgetExceeded),
    /// Accepted by a running run, and by one that is being cancelled if it ends with it: of a task that was posted to it.
    Task(Box<TaskChanged>),
    /// Accepted by a running run, and by one that is being cancelled if it ends with it: of a plan that was posted to it.
    Plan(Box<PlanChanged>),
    /// Accepted by a run that has not ended: something happened to the lease of whoever coordinates it.
    Coordinator(Box<CoordinatorChanged>),
    /// Accepted by a running run: whoever coordinates another one holds it back, or does not any more.
    Ordered(RunOrdered),
    /// Accepted by a running run: it starts another one below a node that is done by hand.
    ChildAdded(Box<ChildAdded>),
    /// Accepted by a running run that somebody drives: its state is otherwise.
    IntentPatched(Box<IntentPatched>),
    /// Accepted by a running run: something happened to it as an intent, beside its state.
    Intent(Box<IntentEvent>),
}

/// What can happen to a node. The node table says which phases accept which.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeEvent {
    /// Accepted by a pending node.
    Started(NodeStarted),
    /// Accepted by a running or waiting node.
    Completed(NodeCompleted),
    /// Accepted by a running node.
    Failed(NodeFailed),
    /// Accepted by a pending or waiting node.
    Cancelled(NodeCancelled),
    /// Accepted by a pending node: nothing led to it.
    Skipped(NodeSkipped),
    /// Accepted by a running node that an executor has: the attempt failed, and another one follows.
    Retried(NodeRetried),
    /// Accepted by a node that waits for its next attempt.
    Due(NodeDue),
    /// Accepted by a running or waiting node.
    Spawned(NodeSpawned),
    /// Accepted by a running node.
    ChannelWritten(ChannelWritten),
    /// Accepted by a running node.
    Decided(Decided),
    /// Accepted by a completed node: what it produced has a name now.
    ArtifactCreated(ArtifactCreated),
    /// Accepted by a running node, and by one that asks for more than one thing.
    InterruptRequested(Box<InterruptRequested>),
    /// Accepted by a node that has just asked.
    ClarificationRequested(ClarificationRequested),
    /// Accepted by a node that has asked, or that joins what another one asked.
    Suspended(NodeSuspended),
    /// Accepted by a suspended node.
    ApprovalReceived(Box<ApprovalReceived>),
    /// Accepted by a suspended node.
    ClarificationResolved(ClarificationResolved),
    /// Accepted by a suspended node.
    InterruptResolved(Box<InterruptResolved>),
    /// Accepted by a suspended node whose interrupts are all closed.
    Resumed(NodeResumed),
    /// Accepted by a suspended node: people are told again.
    InterruptRenotified(InterruptRenotified),
    /// Accepted by a node that asks: others are told.
    InterruptEscalated(InterruptEscalated),
    /// Accepted by a suspended node: nobody has answered.
    InterruptExpired(InterruptExpired),
    /// Accepted by a suspended node: somebody may not be told.
    NoticeRefused(NoticeRefused),
    /// Accepted by a node that a worker has.
    StepBegun(StepBegun),
    /// Accepted by a node that a worker has.
    StepRecorded(StepRecorded),
    /// Accepted by a node that a worker has.
    SleepStarted(SleepStarted),
    /// Accepted by a node that a worker has or had.
    SleepEnded(SleepEnded),
    /// Accepted by a node that a worker has.
    VersionRecorded(VersionRecorded),
    /// Accepted by a node that a worker has: it gives it back and waits.
    Parked(NodeParked),
    /// Accepted by a node that a worker has: it is offered again.
    TaskLost(TaskLost),
    /// Accepted by a node that a worker has.
    Noted(NodeNoted),
    /// Accepted by a node that a worker has.
    EngagementDecided(EngagementDecided),
    /// Accepted by a running node that an executor or a worker has: its work failed in a way that may pass.
    Interrupted(Box<NodeInterrupted>),
    /// Accepted by a running node: a turn begins.
    TurnBegan(Box<TurnBegan>),
    /// Accepted by a node whose turn calls its model.
    ModelCalled(ModelCalled),
    /// Accepted by a node whose model is being called.
    MessageChunk(MessageChunk),
    /// Accepted by a node whose model is being called.
    ModelAnswered(Box<ModelAnswered>),
    /// Accepted by a node whose model has answered.
    ProviderUsage(Box<ProviderUsage>),
    /// Accepted by a node whose model is being called: it waits and is called again.
    ProviderRetry(Box<ProviderRetry>),
    /// Accepted by a node whose model is to be called: its provider is known to be away.
    ProviderPostponed(ProviderPostponed),
    /// Accepted by a node whose turn waits for tools.
    ToolAnswered(ToolAnswered),
    /// Accepted by a node whose turn is over.
    TurnSealed(Box<TurnSealed>),
    /// Accepted by a node that has just asked: a conversation begins.
    ConversationOpened(ConversationOpened),
    /// Accepted by any node: somebody took a turn in its conversation.
    ConversationExchanged(Box<ConversationExchanged>),
    /// Accepted by a node that has just asked: a conversation ends.
    ConversationClosed(ConversationClosed),
    /// Accepted by a running node: its agent has decided.
    AgentDecided(Box<AgentDecided>),
    /// Accepted by a running node: what it was to carry out is too unsure.
    ConfidenceEscalated(Box<ConfidenceEscalated>),
    /// Accepted by a suspended node: one of several people decided.
    ApprovalVoted(Box<ApprovalVoted>),
    /// Accepted by a suspended node: somebody wants to know something before they decide.
    ApprovalAsked(Box<ApprovalAsked>),
    /// Accepted by a suspended node: they were told.
    ApprovalReplied(Box<ApprovalReplied>),
    /// Accepted by a node whose outcome is to be made better.
    Refined(Box<NodeRefined>),
    /// Accepted by a waiting node that is done by hand: somebody has it.
    Claimed(Box<NodeClaimed>),
    /// Accepted by a node that somebody has.
    Released(NodeReleased),
    /// Accepted by a node that nobody has: somebody gets it later.
    ClaimDeferred(ClaimDeferred),
    /// Accepted by a waiting node: the run that does its phase waits for people.
    PhaseBlocked(PhaseBlocked),
    /// Accepted by a waiting node: the run that does its phase goes on.
    PhaseUnblocked(PhaseUnblocked),
    /// Accepted by a suspended node: what it asks is otherwise than before.
    InterruptAmended(Box<InterruptRequested>),
}

impl Event {
    /// The event's type.
    pub fn event_type(&self) -> EventType {
        match self {
            Self::Run(event) => event.event_type(),
            Self::Node { event, .. } => event.event_type(),
        }
    }

    /// The node it happened to.
    pub fn node(&self) -> Option<&Arc<str>> {
        match self {
            Self::Run(_) => None,
            Self::Node { node, .. } => Some(node),
        }
    }

    /// Whether its payload holds something that is never shown. Such a payload is sealed where it is kept.
    pub fn hides(&self) -> bool {
        match self {
            Self::Run(event) => event.hides(),
            Self::Node { event, .. } => event.hides(),
        }
    }

    /// The payload's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let encoded = match self {
            Self::Run(event) => event.encode(),
            Self::Node { event, .. } => event.encode(),
        };
        encoded.expect("event payloads are plain structs, which serialise")
    }

    /// Reads an event back. The reason for a refusal names the type and version.
    pub fn decode(code: u16, version: u16, node: Option<&Arc<str>>, payload: &[u8]) -> Result<Self, String> {
        let kind = EventType::by_code(code)
            .ok_or_else(|| format!("event type {code} is unknown to this version of abide; upgrade it"))?;
        if version == 0 || version > kind.version {
            return Err(format!(
                "{} has version {version}, and this version of abide reads up to {}; upgrade it",
                kind.name, kind.version
            ));
        }
        match (node, code) {
            (Some(node), FIRST_NODE_CODE..) => {
                NodeEvent::decode(kind, payload).map(|event| Self::Node { node: node.clone(), event })
            }
            (None, ..FIRST_NODE_CODE) => RunEvent::decode(kind, payload).map(Self::Run),
            (Some(_), _) => Err(format!("{} names a node, but it is about the run", kind.name)),
            (None, _) => Err(format!("{} names no node", kind.name)),
        }
    }
}

impl RunEvent {
    pub(crate) fn event_type(&self) -> EventType {
        match self {
            Self::Started(_) => RUN_STARTED,
            Self::Completed(_) => RUN_COMPLETED,
            Self::Failed(_) => RUN_FAILED,
            Self::Cancelling(_) => RUN_CANCELLING,
            Self::Cancelled(_) => RUN_CANCELLED,
            Self::Paused(_) => RUN_PAUSED,
            Self::Resumed(_) => RUN_RESUMED,
            Self::Yielded(_) => RUN_YIELDED,
            Self::ChildReported(_) => CHILD_REPORTED,
            Self::CapBreached(_) => CAP_BREACHED,
            Self::VariableChanged(_) => VARIABLE_CHANGED,
            Self::LoopbackLimit(_) => LOOPBACK_LIMIT,
            Self::LoopRestarted(_) => LOOP_RESTARTED,
            Self::ChildRefused(_) => CHILD_REFUSED,
            Self::Pausing(_) => RUN_PAUSING,
            Self::ResumeDecided(_) => RESUME_DECISION,
            Self::ResumeRequested(_) => RESUME_REQUESTED,
            Self::ResumeEscalated(_) => RESUME_ESCALATED,
            Self::ResumeSwitched(_) => RESUME_SWITCHED,
            Self::Held(_) => RUN_HELD,
            Self::Released(_) => RUN_RELEASED,
            Self::ReplayDiverged(_) => REPLAY_DIVERGED,
            Self::Activated(_) => RUN_ACTIVATED,
            Self::Blocked(_) => RUN_BLOCKED,
            Self::Unblocked(_) => RUN_UNBLOCKED,
            Self::DependencyAdded(_) => DEPENDENCY_ADDED,
            Self::DependencyRemoved(_) => DEPENDENCY_REMOVED,
            Self::DependencyReported(_) => DEPENDENCY_REPORTED,
            Self::Watched(_) => RUN_WATCHED,
            Self::MemberAdded(_) => MEMBER_ADDED,
            Self::MemberRemoved(_) => MEMBER_REMOVED,
            Self::MemberReported(reported) => reported.event_type(),
            Self::GovernanceSet(_) => GOVERNANCE_SET,
            Self::BudgetExceeded(_) => BUDGET_EXCEEDED,
            Self::Task(changed) => changed.change.event_type(),
            Self::Plan(changed) => changed.change.event_type(),
            Self::Coordinator(changed) => changed.event_type(),
            Self::Ordered(_) => RUN_ORDERED,
            Self::ChildAdded(_) => CHILD_ADDED,
            Self::IntentPatched(_) => INTENT_PATCHED,
            Self::Intent(event) => event.event_type(),
        }
    }

    /// Written out, so that whoever adds an event has to say what it hides.
    fn hides(&self) -> bool {
        match self {
            Self::Started(started) => started.sensitive.iter().any(|name| started.inputs.contains_key(name)),
            Self::VariableChanged(changed) => changed.sensitive,
            Self::ChildReported(report) => !report.sensitive.is_empty(),
            Self::ChildAdded(added) => !added.sensitive.is_empty(),
            Self::DependencyReported(told) => told.sensitive && !told.outputs.is_empty(),
            Self::Completed(_)
            | Self::Failed(_)
            | Self::Cancelling(_)
            | Self::Cancelled(_)
            | Self::Paused(_)
            | Self::Resumed(_)
            | Self::Yielded(_)
            | Self::CapBreached(_)
            | Self::LoopbackLimit(_)
            | Self::LoopRestarted(_)
            | Self::ChildRefused(_)
            | Self::Pausing(_)
            | Self::ResumeDecided(_)
            | Self::ResumeRequested(_)
            | Self::ResumeEscalated(_)
            | Self::ResumeSwitched(_)
            | Self::Held(_)
            | Self::Released(_)
            | Self::ReplayDiverged(_)
            | Self::Activated(_)
            | Self::Blocked(_)
            | Self::Unblocked(_)
            | Self::DependencyAdded(_)
            | Self::DependencyRemoved(_)
            | Self::Watched(_)
            | Self::MemberAdded(_)
            | Self::MemberRemoved(_)
            | Self::MemberReported(_)
            | Self::GovernanceSet(_)
            | Self::BudgetExceeded(_)
            | Self::Task(_)
            | Self::Plan(_)
            | Self::Coordinator(_)
            | Self::IntentPatched(_)
            | Self::Intent(_)
            | Self::Ordered(_) => false,
        }
    }

    fn encode(&self) -> serde_json::Result<Vec<u8>> {
        match self {
            Self::Started(payload) => serde_json::to_vec(payload),
            Self::Completed(payload) => serde_json::to_vec(payload),
            Self::Failed(payload) => serde_json::to_vec(payload),
            Self::Cancelling(payload) => serde_json::to_vec(payload),
            Self::Cancelled(payload) => serde_json::to_vec(payload),
            Self::Paused(payload) => serde_json::to_vec(payload),
            Self::Resumed(payload) => serde_json::to_vec(payload),
            Self::Yielded(payload) => serde_json::to_vec(payload),
            Self::ChildReported(payload) => serde_json::to_vec(payload),
            Self::CapBreached(payload) => serde_json::to_vec(payload),
            Self::VariableChanged(payload) => serde_json::to_vec(payload),
            Self::LoopbackLimit(payload) => serde_json::to_vec(payload),
            Self::LoopRestarted(payload) => serde_json::to_vec(payload),
            Self::ChildRefused(payload) => serde_json::to_vec(payload),
            Self::Pausing(payload) => serde_json::to_vec(payload),
            Self::ResumeDecided(payload) => serde_json::to_vec(payload),
            Self::ResumeRequested(payload) => serde_json::to_vec(payload),
            Self::ResumeEscalated(payload) => serde_json::to_vec(payload),
            Self::ResumeSwitched(payload) => serde_json::to_vec(payload),
            Self::Held(payload) => serde_json::to_vec(payload),
            Self::Released(payload) => serde_json::to_vec(payload),
            Self::ReplayDiverged(payload) => serde_json::to_vec(payload),
            Self::Activated(payload) => serde_json::to_vec(payload),
            Self::Blocked(payload) => serde_json::to_vec(payload),
            Self::Unblocked(payload) => serde_json::to_vec(payload),
            Self::DependencyAdded(payload) => serde_json::to_vec(payload),
            Self::DependencyRemoved(payload) => serde_json::to_vec(payload),
            Self::DependencyReported(payload) => serde_json::to_vec(payload),
            Self::Watched(payload) => serde_json::to_vec(payload),
            Self::MemberAdded(payload) => serde_json::to_vec(payload),
            Self::MemberRemoved(payload) => serde_json::to_vec(payload),
            Self::MemberReported(payload) => serde_json::to_vec(payload),
            Self::GovernanceSet(payload) => serde_json::to_vec(payload),
            Self::BudgetExceeded(payload) => serde_json::to_vec(payload),
            Self::Task(payload) => serde_json::to_vec(payload),
            Self::Plan(payload) => serde_json::to_vec(payload),
            Self::Coordinator(payload) => serde_json::to_vec(payload),
            Self::Ordered(payload) => serde_json::to_vec(payload),
            Self::ChildAdded(payload) => serde_json::to_vec(payload),
            Self::IntentPatched(payload) => serde_json::to_vec(payload),
            Self::Intent(event) => event.encode(),
        }
    }

    fn decode(kind: EventType, payload: &[u8]) -> Result<Self, String> {
        match kind {
            RUN_STARTED => read(kind, payload).map(Self::Started),
            RUN_COMPLETED => read(kind, payload).map(Self::Completed),
            RUN_FAILED => read(kind, payload).map(Self::Failed),
            RUN_CANCELLING => read(kind, payload).map(Self::Cancelling),
            RUN_CANCELLED => read(kind, payload).map(Self::Cancelled),
            RUN_PAUSED => read(kind, payload).map(Self::Paused),
            RUN_RESUMED => read(kind, payload).map(Self::Resumed),
            RUN_YIELDED => read(kind, payload).map(Self::Yielded),
            CHILD_REPORTED => read(kind, payload).map(Self::ChildReported),
            CAP_BREACHED => read(kind, payload).map(Self::CapBreached),
            VARIABLE_CHANGED => read(kind, payload).map(Self::VariableChanged),
            LOOPBACK_LIMIT => read(kind, payload).map(Self::LoopbackLimit),
            LOOP_RESTARTED => read(kind, payload).map(Self::LoopRestarted),
            CHILD_REFUSED => read(kind, payload).map(Self::ChildRefused),
            RUN_PAUSING => read(kind, payload).map(Self::Pausing),
            RESUME_DECISION => read(kind, payload).map(Self::ResumeDecided),
            RESUME_REQUESTED => read(kind, payload).map(Self::ResumeRequested),
            RESUME_ESCALATED => read(kind, payload).map(Self::ResumeEscalated),
            RESUME_SWITCHED => read(kind, payload).map(Self::ResumeSwitched),
            RUN_HELD => read(kind, payload).map(Self::Held),
            RUN_RELEASED => read(kind, payload).map(Self::Released),
            REPLAY_DIVERGED => read(kind, payload).map(Self::ReplayDiverged),
            RUN_ACTIVATED => read(kind, payload).map(Self::Activated),
            RUN_BLOCKED => read(kind, payload).map(Self::Blocked),
            RUN_UNBLOCKED => read(kind, payload).map(Self::Unblocked),
            DEPENDENCY_ADDED => read(kind, payload).map(Self::DependencyAdded),
            DEPENDENCY_REMOVED => read(kind, payload).map(Self::DependencyRemoved),
            DEPENDENCY_REPORTED => read(kind, payload).map(Self::DependencyReported),
            RUN_WATCHED => read(kind, payload).map(Self::Watched),
            MEMBER_ADDED => read(kind, payload).map(Self::MemberAdded),
            MEMBER_REMOVED => read(kind, payload).map(Self::MemberRemoved),
            MEMBER_REPORTED | MEMBER_SUSPENDED | MEMBER_RESUMED => {
                read(kind, payload).map(Self::MemberReported)
            }
            GOVERNANCE_SET => read(kind, payload).map(Self::GovernanceSet),
            BUDGET_EXCEEDED => read(kind, payload).map(Self::BudgetExceeded),
            RUN_ORDERED => read(kind, payload).map(Self::Ordered),
            CHILD_ADDED => read(kind, payload).map(Self::ChildAdded),
            INTENT_PATCHED => read(kind, payload).map(Self::IntentPatched),
            _ if IntentEvent::TYPES.contains(&kind) => {
                IntentEvent::decode(kind, payload).map(|event| Self::Intent(Box::new(event)))
            }
            _ if CoordinatorChanged::TYPES.contains(&kind) => {
                CoordinatorChanged::decode(kind, payload).map(Self::Coordinator)
            }
            kind => {
                let task =
                    || Some(TaskChanged::decode(kind, payload)?.map(|changed| Self::Task(Box::new(changed))));
                let plan =
                    || Some(PlanChanged::decode(kind, payload)?.map(|changed| Self::Plan(Box::new(changed))));
                task().or_else(plan).unwrap_or_else(|| Err(format!("{} is no event of a run", kind.name)))
            }
        }
    }
}

fn read<T: DeserializeOwned>(kind: EventType, payload: &[u8]) -> Result<T, String> {
    serde_json::from_slice(payload)
        .map_err(|error| format!("the payload of {} can't be read: {error}", kind.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_unique() {
        for (at, kind) in TYPES.iter().enumerate() {
            assert!(TYPES[..at].iter().all(|other| other.code != kind.code && other.name != kind.name));
        }
    }

    #[test]
    fn a_newer_version_is_refused_by_name() {
        let error = Event::decode(1, 9, None, b"{}").unwrap_err();
        assert!(error.contains("run.started has version 9"), "{error}");
        let error = Event::decode(999, 1, None, b"{}").unwrap_err();
        assert!(error.contains("999"), "{error}");
    }
}
