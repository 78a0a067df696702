//! One interrupt: what is asked, a form to answer it, and what came of that.

use std::sync::Arc;

use abide_core::{InterruptKind, Json};
use askama::Template;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use serde::Serialize;
use serde_json::Value;

use super::form::{Fields, OwnForm};
use super::gate::Visitor;
use super::html::{self, Frame};
use super::questions::{self, Asks, Field, Question};
use super::refusal::Result;
use super::view::{Asked, Closing, Excerpt, Fact};
use super::{source, words};
use crate::app::App;
use crate::error::ApiError;
use crate::limits;

/// The field of JSON that is written by hand.
const JSON: &str = "json";

/// How an interrupt is answered.
enum Answering {
    /// A decision; these are its actions.
    Decide(Vec<String>),
    Questions(Vec<Question>),
    /// What the event said.
    Event,
    /// Anything.
    Json,
}

impl Answering {
    fn of(asked: &Asked) -> Self {
        match asked.kind {
            InterruptKind::Approval => {
                let actions = asked.seen["actions"].as_array().map(Vec::as_slice).unwrap_or_default();
                Self::Decide(actions.iter().filter_map(Value::as_str).map(str::to_owned).collect())
            }
            InterruptKind::Clarification => match questions::of(&asked.seen) {
                questions if questions.len() <= limits::FORM_QUESTIONS_MAX => Self::Questions(questions),
                _ => Self::Json,
            },
            InterruptKind::ExternalEvent => Self::Event,
            _ => Self::Json,
        }
    }

    /// What a form says, as an answer; or what is wrong with it, by field.
    fn read(&self, fields: &Fields) -> std::result::Result<Json, Vec<(String, String)>> {
        match self {
            Self::Decide(_) => {
                let feedback = fields.said("feedback").map(|text| text.replace("\r\n", "\n"));
                Ok(Json::of(&Decision { action: fields.get("action").unwrap_or_default(), feedback }))
            }
            Self::Questions(questions) => answers(questions, fields),
            Self::Event => json_field(fields).map(|event_payload| Json::of(&Event { event_payload })),
            Self::Json => json_field(fields),
        }
    }
}

/// The answer to an approval.
#[derive(Serialize)]
struct Decision<'a> {
    action: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    feedback: Option<String>,
}

/// The answer to an external event.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    event_payload: Json,
}

/// The answer to a clarification.
#[derive(Serialize)]
struct Answers<'a> {
    answers: Vec<Answer<'a>>,
}

#[derive(Serialize)]
struct Answer<'a> {
    id: &'a str,
    answer: Json,
}

fn json_field(fields: &Fields) -> std::result::Result<Json, Vec<(String, String)>> {
    let read = questions::json(fields.get(JSON).unwrap_or_default());
    read.map_err(|problem| vec![(JSON.to_owned(), problem)])
}

fn answers(questions: &[Question], fields: &Fields) -> std::result::Result<Json, Vec<(String, String)>> {
    let (mut answers, mut problems) = (Vec::new(), Vec::new());
    for question in questions {
        match question.answer(fields) {
            Ok(answer) => answers.push(Answer { id: &question.id, answer }),
            Err(problem) => problems.push((question.name.clone(), problem)),
        }
    }
    if problems.is_empty() { Ok(Json::of(&Answers { answers })) } else { Err(problems) }
}

/// The page of an interrupt that is open.
#[derive(Template)]
#[template(path = "answer.html")]
struct Open<'a> {
    frame: Frame,
    asked: &'a Asked,
    facts: Vec<Fact>,
    answering: Answering,
    /// Whether somebody else has to decide.
    is_for_others: bool,
    /// What was written, if it comes back.
    fields: Option<&'a Fields>,
    /// What is wrong with it as a whole.
    refused: Vec<String>,
    /// What is wrong with which field.
    problems: Vec<(String, String)>,
}

/// The page of one that is not.
#[derive(Template)]
#[template(path = "closed.html")]
struct Closed<'a> {
    frame: Frame,
    closing: &'a Closing,
    facts: Vec<Fact>,
    /// What to say first, if somebody tried to answer it.
    late: bool,
}

/// The path of the page.
type Which = Path<(String, String)>;

/// What is asked, or what was answered.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    Path((run, id)): Which,
) -> Result<Response> {
    let asked = source::find(&app, &visitor.principal, &run, &id).await?;
    Ok(match &asked.closing {
        Some(closing) => closed(&app, &visitor, StatusCode::OK, (&asked, closing)),
        None => html::page(StatusCode::OK, &Open::of(&app, &visitor, &asked)),
    })
}

/// Takes an answer. What came of it is on the page that follows.
pub(super) async fn give(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    Path((run, id)): Which,
    OwnForm(fields): OwnForm,
) -> Result<Response> {
    let asked = source::find(&app, &visitor.principal, &run, &id).await?;
    let mut page = Open { fields: Some(&fields), ..Open::of(&app, &visitor, &asked) };
    let value = match page.answering.read(&fields) {
        Ok(value) => value,
        Err(problems) => {
            page.problems = problems;
            return Ok(html::page(StatusCode::BAD_REQUEST, &page));
        }
    };
    let Err(refused) = source::resolve(&app, &visitor.principal, &asked, value).await else {
        return Ok(Redirect::to(&asked.link()).into_response());
    };
    let status = refused.status();
    let now_is = source::find(&app, &visitor.principal, &run, &id).await?;
    if let Some(closing) = &now_is.closing {
        return Ok(closed(&app, &visitor, status, (&now_is, closing)));
    }
    if status.is_server_error() {
        return Err(refused.into());
    }
    (page.problems, page.refused) = reasons(refused);
    Ok(html::page(status, &page))
}

/// Why an answer was not taken: what is wrong with which field, and the rest.
fn reasons(refused: ApiError) -> (Vec<(String, String)>, Vec<String>) {
    let listed = refused.detail("problems").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let (mut fields, mut others) = (Vec::new(), Vec::new());
    for problem in listed {
        let text = |name: &str| problem[name].as_str().unwrap_or_default();
        match (field_at(text("path")), text("path")) {
            (Some(field), _) => fields.push((field, text("message").to_owned())),
            (None, "") => others.push(text("message").to_owned()),
            (None, path) => others.push(format!("{path}: {}", text("message"))),
        }
    }
    if fields.is_empty() && others.is_empty() {
        others.push(refused.into_words().1);
    }
    (fields, others)
}

/// The field whose answer stands at this place: answers are sent in the order of the questions.
fn field_at(path: &str) -> Option<String> {
    let index = path.strip_prefix("/answers/")?.split('/').next()?;
    index.parse::<usize>().ok().map(questions::field_name)
}

fn closed(
    app: &App,
    visitor: &Visitor,
    status: StatusCode,
    (asked, closing): (&Asked, &Closing),
) -> Response {
    let (frame, facts) = (visitor.frame(app, asked.title()), asked.facts(app.engine().clock().now()));
    html::page(status, &Closed { frame, closing, facts, late: !status.is_success() })
}

impl<'a> Open<'a> {
    fn of(app: &App, visitor: &Visitor, asked: &'a Asked) -> Self {
        let approvers = asked.approvers();
        let is_for_others = !approvers.is_empty() && !approvers.contains(&visitor.principal.name.as_str());
        Self {
            frame: visitor.frame(app, asked.title()),
            asked,
            facts: asked.facts(app.engine().clock().now()),
            answering: Answering::of(asked),
            is_for_others,
            fields: None,
            refused: Vec::new(),
            problems: Vec::new(),
        }
    }

    fn feedback(&self) -> String {
        self.field("feedback")
    }

    fn field(&self, name: &str) -> String {
        self.fields.and_then(|fields| fields.get(name)).unwrap_or_default().to_owned()
    }

    fn json_problem(&self) -> Option<&str> {
        self.problem(JSON)
    }

    fn problem(&self, name: &str) -> Option<&str> {
        self.problems.iter().find(|(field, _)| field == name).map(|(_, problem)| problem.as_str())
    }

    /// The questions, each with its field.
    fn form(&self) -> Vec<Field<'_>> {
        let Answering::Questions(questions) = &self.answering else { return Vec::new() };
        questions.iter().map(|question| question.field(self.fields, self.problem(&question.name))).collect()
    }

    /// What the field for JSON shows: what was written, or what an event has to have.
    fn json(&self) -> String {
        match (self.fields, &self.answering) {
            (Some(_), _) => self.field(JSON),
            (None, Answering::Event) => {
                self.asked.part("correlation").map_or_else(String::new, |part| Excerpt::of(&part).text)
            }
            (None, _) => String::new(),
        }
    }

    /// What the interrupt is about, as JSON or text.
    fn subject(&self) -> Option<Excerpt> {
        if self.is_hidden() {
            return None;
        }
        let subject = match self.asked.kind {
            InterruptKind::Approval => self.asked.part("artifactData"),
            InterruptKind::Clarification => None,
            InterruptKind::ExternalEvent => self.asked.part("correlation"),
            InterruptKind::Custom => self.asked.part("payload"),
            _ => Some(self.asked.data.clone()),
        };
        subject.as_ref().map(Excerpt::of)
    }

    /// Whether what is asked is for others alone.
    fn is_hidden(&self) -> bool {
        self.asked.is_sensitive && self.is_for_others
    }

    fn is_event(&self) -> bool {
        matches!(self.answering, Answering::Event)
    }

    /// What its artifact is called, if it is about one.
    fn artifact(&self) -> Option<(&str, &str)> {
        let id = self.asked.text("artifactId")?;
        Some((self.asked.text("artifactType").unwrap_or("Artifact"), id))
    }

    fn description(&self) -> Option<&str> {
        self.asked.text("description").filter(|_| !self.is_hidden())
    }

    fn context(&self) -> Option<&str> {
        self.asked.text("contextType")
    }

    fn schema(&self) -> Option<Excerpt> {
        self.asked.resume_schema.as_ref().map(Excerpt::of)
    }
}

impl Closed<'_> {
    /// How it ended, in a few words.
    fn outcome(&self) -> &'static str {
        let seen =
            self.closing.value.as_ref().and_then(|value| value.parse::<Value>().ok()).unwrap_or_default();
        match (self.closing.outcome.as_str(), seen["action"].as_str()) {
            (_, Some("accept")) => "Accepted",
            ("rejected", Some("timeout") | None) if self.closing.reason.as_deref() == Some("timeout") => {
                "Timed out"
            }
            ("rejected", _) => "Rejected",
            ("timeout", _) => "Timed out",
            ("cancelled", _) => "Cancelled",
            _ => "Answered",
        }
    }

    fn at(&self) -> Option<String> {
        self.closing.at.map(words::moment)
    }

    fn value(&self) -> Option<Excerpt> {
        self.closing.value.as_ref().map(Excerpt::of)
    }
}
