//! What an event of a node is called, whether it hides anything, and how it is written and read.

use super::types::*;
use super::{EventType, Mask, NodeEvent, read};

impl NodeEvent {
    pub(crate) fn event_type(&self) -> EventType {
        match self {
            Self::Started(_) => NODE_STARTED,
            Self::Completed(_) => NODE_COMPLETED,
            Self::Failed(_) => NODE_FAILED,
            Self::Cancelled(_) => NODE_CANCELLED,
            Self::Skipped(_) => NODE_SKIPPED,
            Self::Retried(_) => NODE_RETRIED,
            Self::Due(_) => NODE_DUE,
            Self::Spawned(_) => NODE_SPAWNED,
            Self::ChannelWritten(_) => CHANNEL_WRITTEN,
            Self::Decided(_) => ORCHESTRATOR_DECIDED,
            Self::ArtifactCreated(_) => ARTIFACT_CREATED,
            Self::InterruptRequested(_) => INTERRUPT_REQUESTED,
            Self::ClarificationRequested(_) => CLARIFICATION_REQUESTED,
            Self::Suspended(_) => NODE_SUSPENDED,
            Self::ApprovalReceived(_) => APPROVAL_RECEIVED,
            Self::ClarificationResolved(_) => CLARIFICATION_RESOLVED,
            Self::InterruptResolved(_) => INTERRUPT_RESOLVED,
            Self::Resumed(_) => NODE_RESUMED,
            Self::InterruptRenotified(_) => INTERRUPT_RENOTIFIED,
            Self::InterruptEscalated(_) => INTERRUPT_ESCALATED,
            Self::InterruptExpired(_) => INTERRUPT_EXPIRED,
            Self::NoticeRefused(_) => NOTICE_REFUSED,
            Self::StepBegun(_) => STEP_BEGUN,
            Self::StepRecorded(_) => STEP_RECORDED,
            Self::SleepStarted(_) => SLEEP_STARTED,
            Self::SleepEnded(_) => SLEEP_ENDED,
            Self::VersionRecorded(_) => VERSION_RECORDED,
            Self::Parked(_) => NODE_PARKED,
            Self::TaskLost(_) => TASK_LOST,
            Self::Noted(_) => NODE_NOTED,
            Self::EngagementDecided(_) => ENGAGEMENT_DECISION,
            Self::Interrupted(_) => NODE_INTERRUPTED,
            Self::TurnBegan(_) => TURN_BEGAN,
            Self::ModelCalled(_) => MODEL_CALLED,
            Self::MessageChunk(_) => MESSAGE_CHUNK,
            Self::ModelAnswered(_) => MODEL_ANSWERED,
            Self::ProviderUsage(_) => PROVIDER_USAGE,
            Self::ProviderRetry(_) => PROVIDER_RETRY,
            Self::ProviderPostponed(_) => PROVIDER_POSTPONED,
            Self::ToolAnswered(_) => TOOL_ANSWERED,
            Self::TurnSealed(_) => TURN_SEALED,
            Self::ConversationOpened(_) => CONVERSATION_OPENED,
            Self::ConversationExchanged(_) => CONVERSATION_EXCHANGED,
            Self::ConversationClosed(_) => CONVERSATION_CLOSED,
            Self::AgentDecided(_) => AGENT_DECIDED,
            Self::ConfidenceEscalated(_) => CONFIDENCE_ESCALATED,
            Self::ApprovalVoted(_) => APPROVAL_VOTED,
            Self::ApprovalAsked(_) => APPROVAL_ASKED,
            Self::ApprovalReplied(_) => APPROVAL_REPLIED,
            Self::Refined(_) => NODE_REFINED,
            Self::Claimed(_) => NODE_CLAIMED,
            Self::Released(_) => NODE_RELEASED,
            Self::ClaimDeferred(_) => CLAIM_DEFERRED,
            Self::PhaseBlocked(_) => PHASE_BLOCKED,
            Self::PhaseUnblocked(_) => PHASE_UNBLOCKED,
            Self::InterruptAmended(_) => INTERRUPT_AMENDED,
        }
    }

    /// Whether it tells of what a worker did, or of what became of its task.
    pub(crate) fn is_of_work(&self) -> bool {
        matches!(
            self,
            Self::StepBegun(_)
                | Self::StepRecorded(_)
                | Self::SleepStarted(_)
                | Self::SleepEnded(_)
                | Self::VersionRecorded(_)
                | Self::Parked(_)
                | Self::TaskLost(_)
                | Self::Noted(_)
        )
    }

    /// Whether it tells of a turn.
    pub(crate) fn is_of_turn(&self) -> bool {
        (TURN_BEGAN.code..=TURN_SEALED.code).contains(&self.event_type().code)
    }

    /// Written out, so that whoever adds an event has to say what it hides. A failure hides nothing: its words are
    /// withheld before they are recorded, if they could repeat something sensitive.
    pub(super) fn hides(&self) -> bool {
        match self {
            Self::Started(started) => started.sensitive,
            Self::Completed(done) => done.masked != Mask::Nothing,
            Self::Spawned(spawned) => !spawned.sensitive.is_empty(),
            Self::ChannelWritten(written) => written.sensitive,
            Self::InterruptRequested(requested) | Self::InterruptAmended(requested) => requested.sensitive,
            Self::ClarificationRequested(asked) => asked.sensitive,
            Self::ApprovalReceived(received) => received.sensitive,
            Self::ClarificationResolved(resolved) => resolved.sensitive,
            Self::InterruptResolved(resolved) => resolved.sensitive,
            Self::StepRecorded(recorded) => recorded.sensitive,
            Self::Noted(noted) => noted.sensitive,
            Self::TurnBegan(began) => began.sensitive,
            Self::ModelAnswered(answered) => answered.sensitive,
            Self::ToolAnswered(answered) => answered.sensitive,
            Self::ConversationOpened(opened) => opened.sensitive,
            Self::ConversationExchanged(exchanged) => exchanged.sensitive,
            Self::ConversationClosed(closed) => closed.sensitive,
            Self::AgentDecided(decided) => decided.sensitive,
            Self::ApprovalVoted(voted) => voted.sensitive,
            Self::ApprovalAsked(asked) => asked.sensitive,
            Self::ApprovalReplied(replied) => replied.sensitive,
            Self::Refined(refined) => refined.sensitive,
            Self::Claimed(claimed) => claimed.sensitive,
            Self::Suspended(_)
            | Self::ConfidenceEscalated(_)
            | Self::InterruptRenotified(_)
            | Self::InterruptEscalated(_)
            | Self::InterruptExpired(_)
            | Self::NoticeRefused(_)
            | Self::StepBegun(_)
            | Self::SleepStarted(_)
            | Self::SleepEnded(_)
            | Self::VersionRecorded(_)
            | Self::Parked(_)
            | Self::TaskLost(_)
            | Self::EngagementDecided(_)
            | Self::Interrupted(_)
            | Self::ModelCalled(_)
            | Self::MessageChunk(_)
            | Self::ProviderUsage(_)
            | Self::ProviderRetry(_)
            | Self::ProviderPostponed(_)
            | Self::TurnSealed(_)
            | Self::Resumed(_)
            | Self::Failed(_)
            | Self::Cancelled(_)
            | Self::Skipped(_)
            | Self::Retried(_)
            | Self::Due(_)
            | Self::Decided(_)
            | Self::ArtifactCreated(_)
            | Self::Released(_)
            | Self::ClaimDeferred(_)
            | Self::PhaseBlocked(_)
            | Self::PhaseUnblocked(_) => false,
        }
    }

    pub(super) fn encode(&self) -> serde_json::Result<Vec<u8>> {
        match self {
            Self::Started(payload) => serde_json::to_vec(payload),
            Self::Completed(payload) => serde_json::to_vec(payload),
            Self::Failed(payload) => serde_json::to_vec(payload),
            Self::Cancelled(payload) => serde_json::to_vec(payload),
            Self::Skipped(payload) => serde_json::to_vec(payload),
            Self::Retried(payload) => serde_json::to_vec(payload),
            Self::Due(payload) => serde_json::to_vec(payload),
            Self::Spawned(payload) => serde_json::to_vec(payload),
            Self::ChannelWritten(payload) => serde_json::to_vec(payload),
            Self::Decided(payload) => serde_json::to_vec(payload),
            Self::ArtifactCreated(payload) => serde_json::to_vec(payload),
            Self::InterruptRequested(payload) => serde_json::to_vec(payload),
            Self::ClarificationRequested(payload) => serde_json::to_vec(payload),
            Self::Suspended(payload) => serde_json::to_vec(payload),
            Self::ApprovalReceived(payload) => serde_json::to_vec(payload),
            Self::ClarificationResolved(payload) => serde_json::to_vec(payload),
            Self::InterruptResolved(payload) => serde_json::to_vec(payload),
            Self::Resumed(payload) => serde_json::to_vec(payload),
            Self::InterruptRenotified(payload) => serde_json::to_vec(payload),
            Self::InterruptEscalated(payload) => serde_json::to_vec(payload),
            Self::InterruptExpired(payload) => serde_json::to_vec(payload),
            Self::NoticeRefused(payload) => serde_json::to_vec(payload),
            Self::StepBegun(payload) => serde_json::to_vec(payload),
            Self::StepRecorded(payload) => serde_json::to_vec(payload),
            Self::SleepStarted(payload) => serde_json::to_vec(payload),
            Self::SleepEnded(payload) => serde_json::to_vec(payload),
            Self::VersionRecorded(payload) => serde_json::to_vec(payload),
            Self::Parked(payload) => serde_json::to_vec(payload),
            Self::TaskLost(payload) => serde_json::to_vec(payload),
            Self::Noted(payload) => serde_json::to_vec(payload),
            Self::EngagementDecided(payload) => serde_json::to_vec(payload),
            Self::Interrupted(payload) => serde_json::to_vec(payload),
            Self::TurnBegan(payload) => serde_json::to_vec(payload),
            Self::ModelCalled(payload) => serde_json::to_vec(payload),
            Self::MessageChunk(payload) => serde_json::to_vec(payload),
            Self::ModelAnswered(payload) => serde_json::to_vec(payload),
            Self::ProviderUsage(payload) => serde_json::to_vec(payload),
            Self::ProviderRetry(payload) => serde_json::to_vec(payload),
            Self::ProviderPostponed(payload) => serde_json::to_vec(payload),
            Self::ToolAnswered(payload) => serde_json::to_vec(payload),
            Self::TurnSealed(payload) => serde_json::to_vec(payload),
            Self::ConversationOpened(payload) => serde_json::to_vec(payload),
            Self::ConversationExchanged(payload) => serde_json::to_vec(payload),
            Self::ConversationClosed(payload) => serde_json::to_vec(payload),
            Self::AgentDecided(payload) => serde_json::to_vec(payload),
            Self::ConfidenceEscalated(payload) => serde_json::to_vec(payload),
            Self::ApprovalVoted(payload) => serde_json::to_vec(payload),
            Self::ApprovalAsked(payload) => serde_json::to_vec(payload),
            Self::ApprovalReplied(payload) => serde_json::to_vec(payload),
            Self::Refined(payload) => serde_json::to_vec(payload),
            Self::Claimed(payload) => serde_json::to_vec(payload),
            Self::Released(payload) => serde_json::to_vec(payload),
            Self::ClaimDeferred(payload) => serde_json::to_vec(payload),
            Self::PhaseBlocked(payload) => serde_json::to_vec(payload),
            Self::PhaseUnblocked(payload) => serde_json::to_vec(payload),
            Self::InterruptAmended(payload) => serde_json::to_vec(payload),
        }
    }

    pub(super) fn decode(kind: EventType, payload: &[u8]) -> Result<Self, String> {
        match kind {
            NODE_STARTED => read(kind, payload).map(Self::Started),
            NODE_COMPLETED => read(kind, payload).map(Self::Completed),
            NODE_FAILED => read(kind, payload).map(Self::Failed),
            NODE_CANCELLED => read(kind, payload).map(Self::Cancelled),
            NODE_SKIPPED => read(kind, payload).map(Self::Skipped),
            NODE_RETRIED => read(kind, payload).map(Self::Retried),
            NODE_DUE => read(kind, payload).map(Self::Due),
            NODE_SPAWNED => read(kind, payload).map(Self::Spawned),
            CHANNEL_WRITTEN => read(kind, payload).map(Self::ChannelWritten),
            ORCHESTRATOR_DECIDED => read(kind, payload).map(Self::Decided),
            ARTIFACT_CREATED => read(kind, payload).map(Self::ArtifactCreated),
            INTERRUPT_REQUESTED => read(kind, payload).map(Self::InterruptRequested),
            CLARIFICATION_REQUESTED => read(kind, payload).map(Self::ClarificationRequested),
            NODE_SUSPENDED => read(kind, payload).map(Self::Suspended),
            APPROVAL_RECEIVED => read(kind, payload).map(Self::ApprovalReceived),
            CLARIFICATION_RESOLVED => read(kind, payload).map(Self::ClarificationResolved),
            INTERRUPT_RESOLVED => read(kind, payload).map(Self::InterruptResolved),
            NODE_RESUMED => read(kind, payload).map(Self::Resumed),
            INTERRUPT_RENOTIFIED => read(kind, payload).map(Self::InterruptRenotified),
            INTERRUPT_ESCALATED => read(kind, payload).map(Self::InterruptEscalated),
            INTERRUPT_EXPIRED => read(kind, payload).map(Self::InterruptExpired),
            NOTICE_REFUSED => read(kind, payload).map(Self::NoticeRefused),
            STEP_BEGUN => read(kind, payload).map(Self::StepBegun),
            STEP_RECORDED => read(kind, payload).map(Self::StepRecorded),
            SLEEP_STARTED => read(kind, payload).map(Self::SleepStarted),
            SLEEP_ENDED => read(kind, payload).map(Self::SleepEnded),
            VERSION_RECORDED => read(kind, payload).map(Self::VersionRecorded),
            NODE_PARKED => read(kind, payload).map(Self::Parked),
            TASK_LOST => read(kind, payload).map(Self::TaskLost),
            NODE_NOTED => read(kind, payload).map(Self::Noted),
            ENGAGEMENT_DECISION => read(kind, payload).map(Self::EngagementDecided),
            NODE_INTERRUPTED => read(kind, payload).map(Self::Interrupted),
            TURN_BEGAN => read(kind, payload).map(Self::TurnBegan),
            MODEL_CALLED => read(kind, payload).map(Self::ModelCalled),
            MESSAGE_CHUNK => read(kind, payload).map(Self::MessageChunk),
            MODEL_ANSWERED => read(kind, payload).map(Self::ModelAnswered),
            PROVIDER_USAGE => read(kind, payload).map(Self::ProviderUsage),
            PROVIDER_RETRY => read(kind, payload).map(Self::ProviderRetry),
            PROVIDER_POSTPONED => read(kind, payload).map(Self::ProviderPostponed),
            TOOL_ANSWERED => read(kind, payload).map(Self::ToolAnswered),
            TURN_SEALED => read(kind, payload).map(Self::TurnSealed),
            CONVERSATION_OPENED => read(kind, payload).map(Self::ConversationOpened),
            CONVERSATION_EXCHANGED => read(kind, payload).map(Self::ConversationExchanged),
            CONVERSATION_CLOSED => read(kind, payload).map(Self::ConversationClosed),
            AGENT_DECIDED => read(kind, payload).map(Self::AgentDecided),
            CONFIDENCE_ESCALATED => read(kind, payload).map(Self::ConfidenceEscalated),
            APPROVAL_VOTED => read(kind, payload).map(Self::ApprovalVoted),
            APPROVAL_ASKED => read(kind, payload).map(Self::ApprovalAsked),
            APPROVAL_REPLIED => read(kind, payload).map(Self::ApprovalReplied),
            NODE_REFINED => read(kind, payload).map(Self::Refined),
            NODE_CLAIMED => read(kind, payload).map(Self::Claimed),
            NODE_RELEASED => read(kind, payload).map(Self::Released),
            CLAIM_DEFERRED => read(kind, payload).map(Self::ClaimDeferred),
            PHASE_BLOCKED => read(kind, payload).map(Self::PhaseBlocked),
            PHASE_UNBLOCKED => read(kind, payload).map(Self::PhaseUnblocked),
            INTERRUPT_AMENDED => read(kind, payload).map(Self::InterruptAmended),
            _ => Err(format!("{} is no event of a node", kind.name)),
        }
    }
}
