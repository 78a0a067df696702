//! How a question comes to those who may answer: into the inbox, and to whoever is to be told.

use crate::effect::{ClosedInterrupt, Effect, Notify, OpenInterrupt, TimerId};
use crate::event::{HookKind, InterruptRequested, Resolution};
use crate::fold::Folding;
use crate::interrupt::{Ask, Open};
use crate::{InterruptKind, JsonMap, Run, Sought};

impl Run {
    /// Has people told of a question, and remembers when it ends without them.
    pub(crate) fn await_answer(
        &mut self,
        open: &Open,
        occasion: Option<crate::Millis>,
        folding: &mut Folding<'_>,
    ) {
        let id = open.requested.interrupt_id;
        self.await_end(open, folding);
        if let Some(due) = occasion {
            self.arm(TimerId::Occasion(id), due, folding);
        }
        folding.effects.push(Effect::OpenInterrupt(Box::new(self.listed(open))));
        self.await_next(open, folding);
        if open.requested.ladder.is_some() {
            folding.effects.push(Effect::Notify(Notify { id, attempt: 1, at: folding.at }));
        }
        self.call_hook(open, HookKind::InputRequested, 1, folding);
    }

    /// What is asked is otherwise than before: whoever was told of it hears that it is withdrawn, and is told anew.
    pub(crate) fn fold_amended(
        &mut self,
        amended: &InterruptRequested,
        folding: &mut Folding<'_>,
    ) -> Result<(), String> {
        let id = amended.interrupt_id;
        let open = self.state.open.get_mut(&id).ok_or("what is amended is not open")?;
        let told = open.requested.ladder.is_some();
        let closed = ClosedInterrupt {
            id,
            kind: open.requested.kind,
            outcome: Resolution::Cancelled,
            by: amended.asked_by.first().cloned().unwrap_or_default(),
            at: folding.at,
            told,
        };
        let stands_since = open.stands_since.map(|_| folding.at);
        *open = Open {
            requested: amended.clone(),
            at: folding.at,
            attempt: 1,
            shifted_ms: 0,
            stands_since,
            ..open.clone()
        };
        let open = open.clone();
        folding.effects.push(Effect::CloseInterrupt(closed));
        for timer in [TimerId::Interrupt(id), TimerId::Attempt(id), TimerId::Grace(id)] {
            self.disarm(&timer, folding);
        }
        self.await_answer(&open, None, folding);
        self.fold_asked_intent(amended, folding);
        Ok(())
    }

    /// An interrupt as a list shows it. What is only for those who answer is not in it.
    fn listed(&self, open: &Open) -> OpenInterrupt {
        let asked = &open.requested;
        let node = self.interrupted_node(open);
        let ask = Ask {
            kind: asked.kind,
            key: None,
            resume_schema: None,
            timeout_ms: None,
            data: asked.data.clone(),
        };
        let data: JsonMap = asked.data.parse().unwrap_or_default();
        let text = |key: &str| data.get(key).and_then(|text| text.parse::<String>().ok());
        let is_event = asked.kind == InterruptKind::ExternalEvent;
        let is_custom = asked.kind == InterruptKind::Custom && !asked.sensitive;
        OpenInterrupt {
            id: asked.interrupt_id,
            node: node.clone(),
            kind: asked.kind,
            title: if asked.sensitive { node.to_string() } else { ask.title() },
            event_type: is_event.then(|| text("eventType")).flatten(),
            sought: is_event.then(|| Sought::of(&asked.data)).flatten(),
            custom_kind: is_custom.then(|| text("customKind")).flatten(),
            approvers: asked.approvers(),
            requested_at: open.at,
            deadline: open.deadline(),
            headway: open.headway(),
            callback_url: self.state.callback_url.clone(),
        }
    }
}
