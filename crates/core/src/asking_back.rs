//! Questions back: those who decide want to know something first. Nothing is resumed by that, or by the answer.

use crate::command::Draft;
use crate::event::{ApprovalAsked, ApprovalReplied, HookKind, NodeEvent};
use crate::fold::Folding;
use crate::interrupt::{AskedBack, Exchange, ask_id, exchanges_variable};
use crate::{Effect, InterruptId, Json, Rejection, Run, SchemaError, limits};

/// What a decision does.
impl Run {
    /// Records what somebody wants to know.
    pub(crate) fn ask_back(
        &mut self,
        draft: &mut Draft,
        id: InterruptId,
        asked: AskedBack,
    ) -> Result<(), Rejection> {
        let open = &self.state.open[&id];
        let (node, sensitive) = (open.node, open.requested.sensitive || open.requested.sensitive_answer);
        if open.exchanges.len() >= limits::ASKS_MAX {
            let message =
                format!("{} questions were asked here, and no more are taken; decide", limits::ASKS_MAX);
            return Err(bad("/question", message));
        }
        let variable = exchanges_variable(self.interrupted_node(open));
        let mut exchanges = self.exchanges(&variable);
        let ask = exchanges.len() as u32 + 1;
        exchanges.push(Exchange::asked(ask, asked.question.clone(), asked.by.clone(), draft.now));
        self.check_exchanges(&variable, &exchanges, "/question")?;
        let AskedBack { question, by: asked_by } = asked;
        let event = ApprovalAsked { interrupt_id: id, ask, question, asked_by, sensitive };
        self.emit_of(draft, node, NodeEvent::ApprovalAsked(Box::new(event)), None);
        self.set(draft, &variable, &Json::of(&exchanges), sensitive);
        Ok(())
    }

    /// Records what somebody who wanted to know is told.
    pub(crate) fn reply(
        &mut self,
        draft: &mut Draft,
        id: InterruptId,
        ask: u32,
        answer: Json,
        by: String,
    ) -> Result<(), Rejection> {
        let open = self.check_open_interrupt(id)?;
        let (node, sensitive) = (open.node, open.requested.sensitive || open.requested.sensitive_answer);
        let known = open.exchanges.iter().find(|exchange| exchange.id == ask_id(ask));
        if known.ok_or(Rejection::NoSuchAsk)?.answer.is_some() {
            return Err(Rejection::AskAnswered);
        }
        crate::interrupt::readable(&answer, limits::REPLY_BYTES_MAX)
            .map_err(|message| bad("/answer", message))?;
        let variable = exchanges_variable(self.interrupted_node(open));
        let mut exchanges = self.exchanges(&variable);
        if let Some(exchange) = exchanges.iter_mut().find(|exchange| exchange.id == ask_id(ask)) {
            exchange.answer(answer.clone(), by.clone(), draft.now);
        }
        self.check_exchanges(&variable, &exchanges, "/answer")?;
        let event = ApprovalReplied { interrupt_id: id, ask, answer, answered_by: by, sensitive };
        self.emit_of(draft, node, NodeEvent::ApprovalReplied(Box::new(event)), None);
        self.set(draft, &variable, &Json::of(&exchanges), sensitive);
        Ok(())
    }

    /// What was asked at a node so far. A caller may have called something else so, which is no list of ours.
    fn exchanges(&self, variable: &str) -> Vec<Exchange> {
        self.variables().get(variable).and_then(|list| list.parse().ok()).unwrap_or_default()
    }

    fn check_exchanges(&self, variable: &str, exchanges: &[Exchange], path: &str) -> Result<(), Rejection> {
        let list = Json::of(&exchanges);
        if list.text().len() > limits::ASKS_BYTES_MAX {
            let most = limits::ASKS_BYTES_MAX;
            return Err(bad(
                path,
                format!("what is asked and answered here has more than {most} bytes; say less"),
            ));
        }
        let changed = std::collections::BTreeMap::from([(variable, &list)]);
        self.check_variables(&changed).map_err(|failure| bad(path, failure.message))
    }
}

fn bad(path: &str, message: String) -> Rejection {
    Rejection::BadAnswer(vec![SchemaError { path: path.to_owned(), message }])
}

/// What an event changes.
impl Run {
    pub(crate) fn fold_asked(
        &mut self,
        asked: &ApprovalAsked,
        folding: &mut Folding<'_>,
    ) -> Result<(), String> {
        let open =
            self.state.open.get_mut(&asked.interrupt_id).ok_or("nothing is asked about what is not open")?;
        let (question, by) = (asked.question.clone(), asked.asked_by.clone());
        open.exchanges.push(Exchange::asked(asked.ask, question, by, folding.at));
        let open = open.clone();
        folding.effects.push(Effect::NoteHeadway { id: asked.interrupt_id, headway: open.headway() });
        self.call_hook(&open, HookKind::QuestionAsked, asked.ask, folding);
        Ok(())
    }

    pub(crate) fn fold_replied(
        &mut self,
        replied: &ApprovalReplied,
        folding: &mut Folding<'_>,
    ) -> Result<(), String> {
        let open =
            self.state.open.get_mut(&replied.interrupt_id).ok_or("nothing is told about what is not open")?;
        let asked = open.exchanges.iter_mut().find(|exchange| exchange.id == ask_id(replied.ask));
        let asked = asked.filter(|exchange| exchange.answer.is_none()).ok_or("nobody asked that")?;
        asked.answer(replied.answer.clone(), replied.answered_by.clone(), folding.at);
        folding.effects.push(Effect::NoteHeadway { id: replied.interrupt_id, headway: open.headway() });
        Ok(())
    }
}
