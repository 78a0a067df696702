//! People are asked to look at what is suspended.
//!
//! The question is one of the run itself, as those about resuming are. Nothing waits for its answer: it has no fallback,
//! it does not make the run wait for people, and it is closed when the suspension that it is about has ended.

use std::collections::BTreeMap;

use serde_json::json;

use crate::climb::LadderTerms;
use crate::command::Draft;
use crate::coordinator::Escalated;
use crate::coordinator::settle::Suspended;
use crate::event::{CoordinatorChange, EscalationRequired, Event, InterruptRequested, NodeEvent, Resolution};
use crate::graph::Form;
use crate::{Ask, InterruptId, InterruptKind, Json, Millis, Run, RunId, limits, rfc3339};

/// What the questions of coordinators are about.
pub(crate) const TOPIC: &str = "coordinator";

/// Who closes a question when its suspension has ended.
const BY_COORDINATION: &str = "system:coordination";

/// Why.
const SUSPENSION_ENDED: &str = "suspension-ended";

/// Why it is closed with a run that completes.
const RUN_COMPLETED: &str = "run-completed";

impl Run {
    /// Asks people to look at every suspension that they were not asked to look at.
    pub(super) fn escalate_suspensions(&mut self, draft: &mut Draft, id: &str) {
        for part in self.suspended_parts().into_iter().take(limits::COORDINATED_SUSPENDED_MAX) {
            let known = self.state.coordination.as_ref().and_then(|it| it.escalated.get(&part.run));
            let asks = self.state.open.len() < limits::INTERRUPTS_OPEN_MAX;
            // For what found no room people are asked as soon as there is some.
            let told = |known: &Escalated| known.since == part.suspension.since;
            if known.filter(|known| told(known)).is_some_and(|known| known.interrupt.is_some() || !asks) {
                continue;
            }
            // The question is the event after this one, and is named after its place.
            let interrupt_id = asks.then(|| InterruptId::of(&self.salt, self.head.next + 1));
            let required = EscalationRequired {
                suspended_intent_id: part.run,
                phase_name: part.phase.clone(),
                suspended_since: part.suspension.since,
                expires_at: part.suspension.expires_at,
                interrupt_id,
            };
            self.tell_lease(draft, id.to_owned(), CoordinatorChange::EscalationRequired(required));
            if let Some(interrupt_id) = interrupt_id {
                self.ask_about(draft, id, &part, interrupt_id);
            }
        }
    }

    fn ask_about(&mut self, draft: &mut Draft, id: &str, part: &Suspended, interrupt_id: InterruptId) {
        let ask = Ask {
            kind: InterruptKind::Clarification,
            key: None,
            resume_schema: None,
            timeout_ms: None,
            data: self.escalation_data(id, part),
        };
        let terms = LadderTerms { call: None, agent: None, form: Form::Interrupt };
        // A platform's ladder that does not fit must not keep the question from being asked.
        let ladder = self.ladder_of(&terms, &ask, &draft.defaults).ok().flatten();
        let requested = InterruptRequested {
            checkpoint: None,
            interrupt_id,
            kind: ask.kind,
            key: format!("{TOPIC}:{}", self.head.next),
            call: 1,
            keyless: true,
            data: ask.data,
            resume_schema: None,
            timeout_ms: None,
            ladder,
            respondents: Vec::new(),
            hooks: None,
            asked_by: Vec::new(),
            rules: None,
            topic: Some(TOPIC.to_owned()),
            sensitive: false,
            sensitive_answer: false,
        };
        let (node, cause) = (self.graph.own_node.clone(), draft.last_sequence());
        let event = NodeEvent::InterruptRequested(Box::new(requested));
        draft.emit(self, &Event::Node { node, event }, cause);
        self.escalate(draft, None, interrupt_id, 1);
    }

    fn escalation_data(&self, id: &str, part: &Suspended) -> Json {
        let lease = self.coordinator(id);
        let (run, since) = (part.run, rfc3339(part.suspension.since));
        let what = match &part.phase {
            Some(phase) => format!("phase '{phase}' ({run})"),
            None if run == self.key.id => "the run".to_owned(),
            None => format!("{run}"),
        };
        let question = format!(
            "Somebody is to look at this: {what} has waited for people since {since}. What is done about it?"
        );
        Json::of(&json!({
            "contextType": "coordinator.escalation_required",
            "questions": [{ "id": crate::interrupt::ANSWER, "question": question }],
            "context": {
                "coordinator": id,
                "agent": lease.map(|lease| lease.agent.as_str()),
                "supervisor": lease.and_then(|lease| lease.supervisor.as_deref()),
                "suspendedIntentId": run,
                "phaseName": part.phase,
                "suspendedSince": since,
                "expiresAt": part.suspension.expires_at.map(rfc3339),
            },
        }))
    }

    /// Closes the questions about suspensions that have ended.
    pub(super) fn end_escalations(&mut self, draft: &mut Draft) {
        if self.state.coordination.as_ref().is_none_or(|it| it.escalated.is_empty()) {
            return;
        }
        let suspended: BTreeMap<RunId, Millis> =
            self.suspended_parts().iter().map(|part| (part.run, part.suspension.since)).collect();
        let lasts = |run: RunId, since: Millis| suspended.get(&run) == Some(&since);
        let escalated = self.state.coordination.iter().flat_map(|it| &it.escalated);
        let ended = escalated.filter(|(run, escalated)| !lasts(**run, escalated.since));
        let ended = ended.filter_map(|(_, escalated)| escalated.interrupt);
        let ended: Vec<InterruptId> = ended.filter(|id| self.is_escalation(*id)).collect();
        for id in ended {
            self.close(draft, id, Resolution::Cancelled, SUSPENSION_ENDED, BY_COORDINATION);
        }
    }

    /// A run that completes leaves no question open to which nobody's answer matters.
    pub(crate) fn close_escalations(&mut self, draft: &mut Draft) {
        let open: Vec<InterruptId> =
            self.state.open.keys().copied().filter(|id| self.is_escalation(*id)).collect();
        for id in open {
            self.close(draft, id, Resolution::Cancelled, RUN_COMPLETED, BY_COORDINATION);
        }
    }
}
