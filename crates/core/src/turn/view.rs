//! A turn as it is shown.

use crate::event::TurnEnd;
use crate::turn::{Stage, TurnState, Usage};
use crate::{Failure, Millis, Node, NodeIx, NodePhase, Run};

/// A turn as it is shown: the last of its node.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnView {
    /// The turn.
    pub turn_id: String,
    /// The conversation that it belongs to.
    pub conversation_id: String,
    /// The node.
    pub node: String,
    /// Which execution of it.
    pub execution: u32,
    /// Where it stands.
    pub status: TurnStatus,
    /// The provider.
    pub provider: String,
    /// The model that was asked for, or that answered.
    pub model: Option<String>,
    /// How many answers the model has given.
    pub steps: u32,
    /// How many retries there were.
    pub retries: u32,
    /// What it used.
    pub usage: Usage,
    /// What it cost, in millionths of a dollar, as far as prices are known.
    pub cost_micros: Option<u64>,
    /// What it waits for, if it waits for its provider.
    pub wait: Option<WaitView>,
    /// Why it failed.
    pub error: Option<Failure>,
    /// When it began.
    pub started_at: Option<Millis>,
    /// When it ended.
    pub ended_at: Option<Millis>,
}

/// Where a turn stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnStatus {
    /// Its model is being called, or is about to be.
    Calling,
    /// It waits for its provider.
    Waiting,
    /// It waits for tools.
    Tools,
    /// Its step failed in a way that may pass; the run is interrupted, or it is tried again.
    Interrupted,
    /// The model has said its last.
    Completed,
    /// It can't go on.
    Failed,
    /// The run ended before it.
    Aborted,
}

impl TurnStatus {
    /// The name, as the API has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Calling => "calling",
            Self::Waiting => "waiting",
            Self::Tools => "tools",
            Self::Interrupted => "interrupted",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Aborted => "aborted",
        }
    }
}

/// A wait for a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitView {
    /// It waits for the breaker to close, and not for its own next try.
    pub postponed: bool,
    /// Which retry comes, from 0; that of the call that was postponed.
    pub attempt: u32,
    /// How long the wait is, if it was scheduled.
    pub delay_ms: Option<Millis>,
    /// Since when.
    pub since: Millis,
    /// When it tries again, or is given up.
    pub until: Millis,
    /// What the provider said last.
    pub message: Option<String>,
    /// The HTTP status of that.
    pub code: Option<String>,
}

impl Run {
    /// The last turn of each node that has had one, in the order of the definition.
    pub fn turns(&self) -> Vec<TurnView> {
        let nodes = self.nodes().iter().enumerate();
        nodes
            .filter_map(|(ix, node)| Some(self.turn_view(ix as NodeIx, node, node.turn.as_deref()?)))
            .collect()
    }

    /// The provider that a node's turn waits for, and how.
    pub fn awaited_provider(&self, ix: NodeIx) -> Option<(&str, WaitView)> {
        let node = self.node(ix);
        let turn = node.turn.as_deref()?;
        Some((&turn.began.provider, wait(node, turn)?))
    }

    /// What all calls of models have used, and what they cost.
    pub fn model_usage(&self) -> (Usage, Option<u64>) {
        (self.state.usage.usage, self.state.usage.cost_micros)
    }

    fn turn_view(&self, ix: NodeIx, node: &Node, turn: &TurnState) -> TurnView {
        TurnView {
            turn_id: turn.began.turn_id.clone(),
            conversation_id: turn.began.conversation_id.clone(),
            node: self.graph.at(ix).id.to_string(),
            execution: node.execution,
            status: status(node, turn),
            provider: turn.began.provider.clone(),
            model: turn.answered_by.clone().or_else(|| turn.began.model.clone()),
            steps: turn.step,
            retries: turn.retries,
            usage: turn.usage,
            cost_micros: turn.cost_micros,
            wait: wait(node, turn),
            error: match &turn.stage {
                Stage::Sealed { error, .. } => error.clone(),
                Stage::Broken => node.error.clone(),
                _ => None,
            },
            started_at: node.started_at,
            ended_at: node.ended_at.filter(|_| node.phase.is_settled()),
        }
    }
}

fn status(node: &Node, turn: &TurnState) -> TurnStatus {
    match (&turn.stage, node.phase) {
        (Stage::Sealed { end: TurnEnd::Completed, .. }, _) | (_, NodePhase::Completed) => {
            TurnStatus::Completed
        }
        (Stage::Sealed { end: TurnEnd::Failed, .. }, _) | (_, NodePhase::Failed) => TurnStatus::Failed,
        (Stage::Sealed { end: TurnEnd::Aborted, .. }, _) | (_, NodePhase::Cancelled) => TurnStatus::Aborted,
        (Stage::Due | Stage::Calling { .. }, _) => TurnStatus::Calling,
        (Stage::Retrying { .. } | Stage::Postponed, _) => TurnStatus::Waiting,
        (Stage::Tools(_), _) => TurnStatus::Tools,
        (Stage::Broken, _) => TurnStatus::Interrupted,
    }
}

fn wait(node: &Node, turn: &TurnState) -> Option<WaitView> {
    let (postponed, attempt, delay_ms, since) = match turn.stage {
        Stage::Retrying { delay_ms, since } => (false, turn.attempt.saturating_sub(1), Some(delay_ms), since),
        Stage::Postponed => (true, turn.attempt, None, turn.postponed_since?),
        _ => return None,
    };
    let withheld = turn.withheld.as_ref();
    Some(WaitView {
        postponed,
        attempt,
        delay_ms,
        since,
        until: node.until?,
        message: withheld.map(|error| error.message.clone()),
        code: withheld.and_then(|error| error.code.clone()),
    })
}
