//! What happens in conversations and what agents decide, in OpenWOP's words.

use abide_core::NodeEvent;
use abide_core::event::{
    AgentDecided, ConfidenceEscalated, ConversationClosed, ConversationExchanged, ConversationOpened,
};

use super::{
    AgentHasDecided, ConfidenceWasEscalated, ConversationWasClosed, ConversationWasExchanged,
    ConversationWasOpened, Payload, Place,
};

/// What an event says about a conversation or a decision; `None` if it is about something else.
pub(super) fn of(event: NodeEvent, node_id: String, place: Place) -> Option<Payload> {
    Some(match event {
        NodeEvent::ConversationOpened(opened) => {
            Payload::ConversationWasOpened(self::opened(opened, node_id))
        }
        NodeEvent::ConversationExchanged(turn) => {
            Payload::ConversationWasExchanged(exchanged(*turn, node_id))
        }
        NodeEvent::ConversationClosed(closed) => {
            Payload::ConversationWasClosed(self::closed(closed, node_id))
        }
        NodeEvent::AgentDecided(decided) => {
            let AgentDecided { agent_id, decision, confidence, .. } = *decided;
            Payload::AgentHasDecided(AgentHasDecided { node_id, agent_id, decision, confidence })
        }
        NodeEvent::ConfidenceEscalated(unsure) => {
            Payload::ConfidenceWasEscalated(escalated(*unsure, node_id, place))
        }
        _ => return None,
    })
}

fn opened(opened: ConversationOpened, node_id: String) -> ConversationWasOpened {
    let ConversationOpened { conversation_id, interrupt_id, title, initial_prompt, .. } = opened;
    ConversationWasOpened { node_id, conversation_id, interrupt_id, title, initial_prompt }
}

fn exchanged(turn: ConversationExchanged, node_id: String) -> ConversationWasExchanged {
    ConversationWasExchanged {
        node_id,
        conversation_id: turn.conversation_id,
        turn_index: turn.turn_index,
        interrupt_id: turn.interrupt_id,
        prompt: turn.prompt,
        outcome: turn.outcome,
        exchanged_by: turn.exchanged_by,
    }
}

fn closed(closed: ConversationClosed, node_id: String) -> ConversationWasClosed {
    let ConversationClosed { conversation_id, interrupt_id, turns, reason, .. } = closed;
    ConversationWasClosed { node_id, conversation_id, turn_index: turns, interrupt_id, reason }
}

fn escalated(unsure: ConfidenceEscalated, node_id: String, place: Place) -> ConfidenceWasEscalated {
    ConfidenceWasEscalated {
        node_id,
        parent_run_id: place.run,
        confidence: unsure.confidence,
        floor: unsure.floor,
        escalation_kind: "clarify",
        worker_id: unsure.worker_id,
        original_decision: unsure.original_decision,
    }
}
