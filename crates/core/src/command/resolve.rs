//! Resolve: somebody answers. Exactly one answer is taken; a refused one changes nothing.

use crate::command::{Draft, resume};
use crate::interrupt::{Action, Answerer, Refused, check_answer};
use crate::{InterruptId, Json, Rejection, Run};

/// An answer to an open interrupt.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolve {
    /// Which interrupt.
    pub id: InterruptId,
    /// The answer as it was given.
    pub value: Json,
    /// Who gives it.
    pub by: Answerer,
}

pub(super) fn decide(run: &mut Run, draft: &mut Draft, resolve: &Resolve) -> Result<(), Rejection> {
    let open = run.check_open_interrupt(resolve.id)?;
    // Whoever is late is late, even if the timer has not been heard yet, and whatever they say.
    if open.deadline().is_some_and(|deadline| deadline <= draft.now) {
        return Err(Rejection::AlreadyResolved);
    }
    let asked = &open.requested;
    let checked = check_answer(
        asked.kind,
        &asked.data,
        asked.resume_schema.as_ref(),
        &resolve.value,
        &resolve.by,
        draft.now,
    );
    let checked = checked.map_err(|refused| match refused {
        Refused::Invalid(errors) => Rejection::BadAnswer(errors),
        Refused::Mismatch(errors) => Rejection::Mismatch(errors),
    })?;
    let own = open.node.is_none();
    let decided = checked.decision.as_ref().map(|decision| {
        let accepted = matches!(decision.action, Action::Accept | Action::EditAccept);
        (accepted, decision.feedback.clone().or_else(|| decision.reason.clone()))
    });
    let by = checked.by.clone();
    run.resolve(draft, resolve.id, checked);
    if let Some((accepted, reason)) = decided.filter(|_| own) {
        resume::answered(run, draft, accepted, by, reason);
    }
    run.advance(draft);
    Ok(())
}
