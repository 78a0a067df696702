//! Where a node of a run stands.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::children::ChildStands;
use crate::event::{Failure, Mask, NodeEvent, NodeRefined, TurnEnd};
use crate::hand::Claim;
use crate::rule::Tally;
use crate::turn::TurnState;
use crate::work::WorkState;
use crate::{InterruptId, Json, JsonMap, Millis, RunId};

/// Where one execution of a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodePhase {
    /// Not started; something before it is unfinished, or the run is held.
    Pending,
    /// Handed to an executor under a lease; the outcome is unknown until it reports.
    Running,
    /// Parked: on a durable timer, or until a child ends.
    Waiting,
    /// Stopped until somebody outside says how it goes on.
    Suspended,
    /// Done, with outputs.
    Completed,
    /// Done for, with an error.
    Failed,
    /// Ended with its run, before it was done.
    Cancelled,
    /// Nothing led to it.
    Skipped,
}

impl NodePhase {
    /// The phase after `event`, or `None` if the event is illegal here.
    pub fn after(self, event: &NodeEvent) -> Option<Self> {
        use NodePhase::*;
        match (self, event) {
            (Pending, NodeEvent::Started(started))
                if started.until.is_some() || started.for_child || started.by_hand =>
            {
                Some(Waiting)
            }
            (Pending, NodeEvent::Started(_)) => Some(Running),
            (Pending, NodeEvent::Skipped(_)) => Some(Skipped),
            (Running | Waiting, NodeEvent::Completed(_)) => Some(Completed),
            // A waiting node fails with the child that it waits for.
            (Running | Waiting, NodeEvent::Failed(_)) => Some(Failed),
            (Running, NodeEvent::Retried(_) | NodeEvent::Interrupted(_)) => Some(Waiting),
            (Waiting, NodeEvent::Due(_)) => Some(Pending),
            (Running, NodeEvent::TurnBegan(_) | NodeEvent::MessageChunk(_) | NodeEvent::ProviderUsage(_)) => {
                Some(Running)
            }
            (Pending | Running, NodeEvent::ModelCalled(_)) => Some(Running),
            (Running, NodeEvent::ModelAnswered(answered)) if answered.calls_tools() => Some(Waiting),
            (Running, NodeEvent::ModelAnswered(_)) => Some(Running),
            (Waiting, NodeEvent::ProviderUsage(_) | NodeEvent::ToolAnswered(_)) => Some(Waiting),
            (Running, NodeEvent::ProviderRetry(_) | NodeEvent::ProviderPostponed(_)) => Some(Waiting),
            // The call is given up with its run: its outcome is that there is none.
            (Running, NodeEvent::TurnSealed(sealed)) if sealed.status == TurnEnd::Aborted => Some(Waiting),
            (Pending | Running | Waiting, NodeEvent::TurnSealed(_)) => Some(self),
            (Running, NodeEvent::Spawned(spawned)) if spawned.waits => Some(Waiting),
            (Running | Waiting, NodeEvent::Spawned(_)) => Some(self),
            (
                Running,
                NodeEvent::ChannelWritten(_)
                | NodeEvent::Decided(_)
                | NodeEvent::AgentDecided(_)
                | NodeEvent::ConfidenceEscalated(_)
                | NodeEvent::StepBegun(_)
                | NodeEvent::StepRecorded(_)
                | NodeEvent::SleepStarted(_)
                | NodeEvent::VersionRecorded(_)
                | NodeEvent::TaskLost(_)
                | NodeEvent::Noted(_)
                | NodeEvent::EngagementDecided(_),
            ) => Some(Running),
            // An operator knows of a step that was cut off that it was done.
            (Waiting, NodeEvent::StepRecorded(_)) => Some(Waiting),
            (Running, NodeEvent::Parked(_) | NodeEvent::Released(_)) => Some(Waiting),
            (Waiting, NodeEvent::Claimed(_)) => Some(Running),
            (Pending | Waiting, NodeEvent::ClaimDeferred(_)) => Some(self),
            (Waiting, NodeEvent::PhaseBlocked(_) | NodeEvent::PhaseUnblocked(_))
            | (Suspended, NodeEvent::InterruptAmended(_)) => Some(self),
            (Pending | Running | Waiting | Suspended, NodeEvent::SleepEnded(_)) => Some(self),
            // What it produced gets its name after the completion that holds it, and that changes nothing.
            (Completed, NodeEvent::ArtifactCreated(_)) => Some(Completed),
            // A running node is never cancelled under its executor: its outcome is recorded first.
            (Pending | Waiting | Suspended, NodeEvent::Cancelled(_)) => Some(Cancelled),
            (
                Running | Suspended,
                NodeEvent::InterruptRequested(_) | NodeEvent::ClarificationRequested(_),
            ) => Some(self),
            // A node that asks for more than one thing may have stopped for another.
            (Running | Suspended, NodeEvent::ConversationOpened(_) | NodeEvent::ConversationClosed(_)) => {
                Some(self)
            }
            // A worker that asked may have the node still, or wait for its next attempt, when something becomes of it.
            (Running | Waiting | Suspended, NodeEvent::Suspended(_)) => Some(Suspended),
            (Waiting | Suspended, NodeEvent::Resumed(_)) => Some(Running),
            // Nor need the one that asked be the last that waits for the answer.
            (_, event) if tells_of_question(event) => Some(self),
            _ => None,
        }
    }

    /// Whether nothing more can happen to this execution, but that what it produced gets a name.
    pub fn is_settled(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled | Self::Skipped)
    }

    /// Every phase, for tables and tests.
    pub const ALL: [Self; 8] = [
        Self::Pending,
        Self::Running,
        Self::Waiting,
        Self::Suspended,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::Skipped,
    ];

    /// The name, as expressions and the API have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Suspended => "suspended",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Skipped => "skipped",
        }
    }
}

/// Whether an event tells what became of a question: wherever its node stands, it stays there.
fn tells_of_question(event: &NodeEvent) -> bool {
    matches!(
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
    )
}

/// A node's state within its run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Where the current execution stands.
    pub phase: NodePhase,
    /// Which execution this is: 0 before the first, then 1. A retry or a recovery keeps the number.
    pub execution: u32,
    /// How the edges that lead here turned out, by their rules.
    #[serde(default, skip_serializing_if = "is_untouched")]
    pub tally: Vec<Tally>,
    /// It stands in line, to start or to be skipped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub queued: bool,
    /// It stands in line to be skipped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub doomed: bool,
    /// How many attempts of this execution have failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempt: u32,
    /// The attempts of this execution before it was resumed: retries are counted anew since.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub counted_from: u32,
    /// How many of them did not fail, but were cut off: whoever goes on with them makes the same attempt.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut_off: u32,
    /// What an executor gets, recorded when the execution began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<JsonMap>,
    /// Something that is never shown went in.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
    /// Which of its outputs are never shown.
    #[serde(default, skip_serializing_if = "is_open")]
    pub masked: Mask,
    /// The child that it waits for, or started last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<RunId>,
    /// How many children this execution has started.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub children: u32,
    /// The execution was handed to an executor. A node whose inputs are missing fails before it is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dispatched: bool,
    /// When a waiting node goes on. Kept so that its timer can be named and dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Millis>,
    /// How often this execution has asked for something from outside.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub asked: u32,
    /// What it is stopped for.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub stopped_for: BTreeSet<InterruptId>,
    /// The interrupt that it was stopped for last, by any of its executions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_interrupt: Option<InterruptId>,
    /// What its next execution is to make better.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refinement: Option<Box<NodeRefined>>,
    /// How far workers have come with it, while they are at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) work: Option<Box<WorkState>>,
    /// The turn that it is at, or that it had last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) turn: Option<Box<TurnState>>,
    /// When the execution began and ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Millis>,
    /// When the execution ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Millis>,
    /// What it produced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Json>,
    /// Who produced it, where a gate wants to know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) made_by: Vec<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// Who has it, if it is done by hand, and who wants it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
    /// The children that it has to wait for before it is through, if it is done by hand.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unfinished: u32,
    /// How the child stands that it waits for, if that tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_stands: Option<ChildStands>,
}

impl Node {
    /// A node that nothing has led to yet.
    pub(crate) fn pending() -> Self {
        Self {
            phase: NodePhase::Pending,
            execution: 0,
            tally: Vec::new(),
            queued: false,
            doomed: false,
            attempt: 0,
            counted_from: 0,
            cut_off: 0,
            inputs: None,
            sensitive: false,
            masked: Mask::Nothing,
            child: None,
            children: 0,
            dispatched: false,
            until: None,
            asked: 0,
            stopped_for: BTreeSet::new(),
            last_interrupt: None,
            refinement: None,
            work: None,
            turn: None,
            started_at: None,
            ended_at: None,
            outputs: None,
            made_by: Vec::new(),
            error: None,
            claim: None,
            unfinished: 0,
            child_stands: None,
        }
    }

    /// Which attempt a worker makes, from 1.
    pub(crate) fn attempt_told(&self) -> u32 {
        (self.attempt + 1).saturating_sub(self.cut_off).max(1)
    }

    /// Whether anything of it is never shown.
    pub fn hides_something(&self) -> bool {
        self.sensitive || self.masked != Mask::Nothing
    }

    /// One of its outputs.
    pub(crate) fn output(&self, key: &str) -> Option<Json> {
        self.outputs.as_ref()?.parse::<JsonMap>().ok()?.remove(key)
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn is_untouched(tally: &[Tally]) -> bool {
    tally.iter().all(|tally| *tally == Tally::default())
}

fn is_open(mask: &Mask) -> bool {
    *mask == Mask::Nothing
}
