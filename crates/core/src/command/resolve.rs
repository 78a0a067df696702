//! Resolve: somebody answers. Exactly one answer is taken, or as many votes as it takes; a refused one changes nothing.

use crate::command::{Draft, resume};
use crate::interrupt::{
    Action, Answerer, Checked, InterruptKind, Open, Quorum, Refused, Respondent, check_answer,
    read_asked_back,
};
use crate::{InterruptId, Json, Rejection, Run, Schema, SchemaError};

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

/// An answer to what somebody wants to know before they decide.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// Which interrupt.
    pub id: InterruptId,
    /// Which question back.
    pub ask: u32,
    /// The answer.
    pub answer: Json,
    /// Who gives it.
    pub by: String,
}

pub(super) fn decide(run: &mut Run, draft: &mut Draft, resolve: &Resolve) -> Result<(), Rejection> {
    let open = run.check_open_interrupt(resolve.id)?;
    // Whoever is late is late, even if the timer has not been heard yet, and whatever they say.
    run.check_in_time(open, draft.now)?;
    let asked = &open.requested;
    if asked.kind == InterruptKind::Approval
        && let Some(asked_back) = read_asked_back(&asked.data, &resolve.value, &resolve.by)
    {
        return run.ask_back(draft, resolve.id, asked_back.map_err(rejected)?);
    }
    let checked = check(open, resolve, draft.now)?;
    run.check_answer_fits(resolve.id, &checked.value, resolve.by.remarks.as_ref())?;
    // What else the run itself asks is about something else than whether it is resumed. What follows from the answer at a
    // checkpoint is settled behind every command.
    let own = open.node.is_none() && asked.checkpoint.is_none() && asked.topic.is_none();
    let quorum = Quorum::of(asked);
    let checked = match quorum {
        Some(quorum) => run.vote(draft, resolve.id, &quorum, checked)?,
        None => Some(checked),
    };
    let Some(checked) = checked else { return Ok(()) };
    let decided = checked.decision.as_ref().map(|decision| {
        let accepted = matches!(decision.action, Action::Accept | Action::EditAccept);
        (accepted, decision.feedback.clone().or_else(|| decision.reason.clone()))
    });
    let by = checked.by.clone();
    run.resolve(draft, resolve.id, checked);
    run.note_remarks(draft, resolve.id, resolve.by.remarks.as_ref());
    if let Some((accepted, reason)) = decided.filter(|_| own) {
        resume::answered(run, draft, accepted, by, reason);
    }
    run.advance(draft);
    Ok(())
}

/// Holds the answer against the question, and notes what entitles whoever gives it.
fn check(open: &Open, resolve: &Resolve, now: crate::Millis) -> Result<Checked, Rejection> {
    let (asked, by) = (&open.requested, &resolve.by);
    let schema = asked.resume_schema.as_ref();
    let mut checked =
        check_answer(asked.kind, &asked.data, schema, &resolve.value, by, now).map_err(rejected)?;
    let schema = asked.rules.as_ref().and_then(|rules| rules.artifact_schema.as_ref());
    let edited = checked.decision.as_ref().and_then(|decision| decision.edited_artifact_data.as_ref());
    if let (Some(schema), Some(edited)) = (schema, edited) {
        check_artifact(schema, edited)?;
    }
    let who = Respondent { principal: &checked.by, groups: &by.groups, roles: &by.roles, shown_roles: &[] };
    checked.qualified_by = asked.qualifies(&who);
    Ok(checked)
}

/// An edited artifact has to look like one. What is wrong is told by where it stands in the answer.
fn check_artifact(schema: &Json, edited: &Json) -> Result<(), Rejection> {
    let at = |path: &str| format!("/editedArtifactData{path}");
    let schema = Schema::compile(schema)
        .map_err(|message| Rejection::BadAnswer(vec![SchemaError { path: at(""), message }]))?;
    schema.check(edited).map_err(|errors| {
        let placed = |error: SchemaError| SchemaError { path: at(&error.path), ..error };
        Rejection::BadAnswer(errors.into_iter().map(placed).collect())
    })
}

fn rejected(refused: Refused) -> Rejection {
    match refused {
        Refused::Invalid(errors) => Rejection::BadAnswer(errors),
        Refused::Mismatch(errors) => Rejection::Mismatch(errors),
    }
}

/// Tells those who decide what they wanted to know.
pub(super) fn reply(run: &mut Run, draft: &mut Draft, reply: Reply) -> Result<(), Rejection> {
    let open = run.check_open_interrupt(reply.id)?;
    run.check_in_time(open, draft.now)?;
    run.reply(draft, reply.id, reply.ask, reply.answer, reply.by)
}
