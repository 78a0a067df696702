//! Many approvals decided at once: first what will happen to each, then what came of it.
//!
//! The page that lists names every interrupt in its form, so what is confirmed is what was shown.

use std::sync::Arc;

use abide_core::Json;
use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use serde_json::json;

use super::form::{Fields, OwnForm};
use super::gate::Visitor;
use super::html::{self, Frame};
use super::refusal::Result;
use super::{HOME, words};
use crate::app::App;
use crate::error::ApiError;
use crate::limits;
use crate::openwop::interrupts::{Named, Outcome, Plan, carry_out, foresee_all};

/// The field of each interrupt that was chosen: its run and its id.
const PICK: &str = "pick";

#[derive(Template)]
#[template(path = "answers.html")]
struct Shown {
    frame: Frame,
    is_accept: bool,
    feedback: Option<String>,
    /// This has happened, and not only would.
    is_done: bool,
    outcomes: Vec<Outcome>,
}

/// Shows what a decision would do to those that were chosen, or makes it.
pub(super) async fn give(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    OwnForm(fields): OwnForm,
) -> Result<Response> {
    let named = picked(&fields)?;
    if named.is_empty() {
        return Ok(Redirect::to(HOME).into_response());
    }
    let is_accept = fields.get("action") == Some("accept");
    let feedback = fields.said("feedback").map(|text| text.replace("\r\n", "\n"));
    let is_done = fields.get("confirmed").is_some();
    let plan = Plan::of(&visitor.principal, decision(is_accept, feedback.as_deref()), named);
    let outcomes = match is_done {
        true => carry_out(&app, plan, None).await.0,
        false => foresee_all(&app, plan).await,
    };
    let title = if is_done { "What came of it" } else { "What will happen" };
    let frame = visitor.frame(&app, title);
    Ok(html::page(StatusCode::OK, &Shown { frame, is_accept, feedback, is_done, outcomes }))
}

fn picked(fields: &Fields) -> Result<Vec<Named>> {
    let name = |text: &str| {
        let (run_id, interrupt_id) = text.split_once(' ')?;
        Some(Named { run_id: run_id.to_owned(), interrupt_id: interrupt_id.to_owned() })
    };
    let named: Vec<Named> = fields.all(PICK).filter_map(name).take(limits::BULK_RESOLVE_MAX + 1).collect();
    if named.len() > limits::BULK_RESOLVE_MAX {
        let message = format!("Choose {} at most.", limits::BULK_RESOLVE_MAX);
        return Err(ApiError::new("validation_error", message).into());
    }
    Ok(named)
}

fn decision(is_accept: bool, feedback: Option<&str>) -> Json {
    let action = if is_accept { "accept" } else { "reject" };
    match feedback {
        Some(feedback) => Json::of(&json!({ "action": action, "feedback": feedback })),
        None => Json::of(&json!({ "action": action })),
    }
}

impl Shown {
    /// Those that take the answer, if it is still to be given.
    fn takers(&self) -> usize {
        self.outcomes.iter().filter(|outcome| outcome.ok).count()
    }

    fn title<'a>(&self, outcome: &'a Outcome) -> &'a str {
        outcome.title.as_deref().unwrap_or(&outcome.interrupt_id)
    }

    /// What happens to one, in words.
    fn told(&self, outcome: &Outcome) -> String {
        let stands = outcome.status.as_deref().map_or("", words::status);
        match (&outcome.error, self.is_done) {
            (Some(refused), true) => format!("Not taken: {}", refused.message),
            (Some(refused), false) => format!("Would not be taken: {}", refused.message),
            (None, true) => format!("Taken; the run {stands}."),
            (None, false) => format!("Would be taken; then the run {stands}."),
        }
    }
}
