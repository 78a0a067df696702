//! `abide answer`: shows what a run asks, takes an answer, checks it, and sends it exactly once.

mod place;
mod question;
mod typed;

use std::io::IsTerminal;

use serde_json::{Map, Value, json};

use crate::args::{AnswerArgs, GivenArgs};
use crate::client::{Answer, Client, encoded};
use crate::draw::words::legible;
use crate::exit::{Exit, Failure};
use crate::output::{self, cell};

use place::Place;
use question::Question;

pub(crate) async fn answer(args: AnswerArgs) -> anyhow::Result<()> {
    let client = Client::new(&args.client)?;
    let place = Place::find(&client, args.target.as_deref(), args.node.as_deref()).await?;
    let (place, question) = place.look(&client, is_given(&args.given)).await?;
    let value = match (given(&args, question.as_ref())?, &question) {
        (Some(value), _) => value,
        (None, Some(question)) => asked(&args, question, &client)?,
        (None, None) => return Err(place.asks_nothing().into()),
    };
    if let Some(question) = &question {
        question.check(&value).map_err(|problems| refused(&problems))?;
    }
    let answer = send(&client, &place, &value).await?;
    if args.client.json {
        return output::json(&answer.to_string());
    }
    output::line(&recorded(&answer, &value))
}

/// What stands in the flags, if they hold an answer.
fn given(args: &AnswerArgs, question: Option<&Question>) -> anyhow::Result<Option<Value>> {
    let GivenArgs { accept, reject, answers, value } = &args.given;
    if let Some(value) = value {
        return Ok(Some(value.clone()));
    }
    if *accept || *reject {
        check_form(question, "approval", "--accept and --reject")?;
        return Ok(Some(decision(if *accept { "accept" } else { "reject" }, args)));
    }
    if answers.is_empty() {
        return Ok(None);
    }
    check_form(question, "clarification", "--answer")?;
    let mut read = Map::new();
    for (id, text) in answers {
        let schema = question.and_then(|question| question.schema_of(id));
        let value = typed::read(text, schema.as_ref()).map_err(|problems| {
            refused(&problems.iter().map(|problem| format!("{id}: {problem}")).collect::<Vec<_>>())
        })?;
        read.insert(id.clone(), value);
    }
    Ok(Some(json!({ "answers": read })))
}

fn is_given(given: &GivenArgs) -> bool {
    given.accept || given.reject || !given.answers.is_empty() || given.value.is_some()
}

/// Whether a flag makes sense for what is asked, as far as that is known.
fn check_form(question: Option<&Question>, wanted: &str, flags: &str) -> anyhow::Result<()> {
    let Some(question) = question.filter(|question| question.kind.name() != wanted) else { return Ok(()) };
    let message = format!(
        "{flags} answer an {wanted}, and this is of the kind {}: {}",
        question.kind,
        question.flags()
    );
    Err(Failure::new(Exit::Refused, message.replace("an clarification", "a clarification")).into())
}

fn decision(action: &str, args: &AnswerArgs) -> Value {
    let mut decision = json!({ "action": action });
    for (key, value) in [("feedback", &args.feedback), ("decidedBy", &args.decided_by)] {
        if let Some(value) = value {
            decision[key] = json!(value);
        }
    }
    decision
}

/// What somebody on the terminal says.
fn asked(args: &AnswerArgs, question: &Question, client: &Client) -> anyhow::Result<Value> {
    output::say(&question.shown(client.now()));
    if !std::io::stdin().is_terminal() {
        let message = format!("there is no terminal to ask on: {}", question.flags());
        return Err(Failure::new(Exit::Refused, message).into());
    }
    let mut value = typed::ask(question)?;
    if value["action"].is_string() {
        let mut more = decision("", args);
        more.as_object_mut().into_iter().for_each(|more| {
            more.remove("action");
        });
        if let (Some(value), Value::Object(more)) = (value.as_object_mut(), more) {
            value.extend(more);
        }
    }
    Ok(value)
}

fn refused(problems: &[String]) -> Failure {
    let told: Vec<String> = problems.iter().map(|problem| format!("\n  {}", legible(problem))).collect();
    Failure::new(Exit::Refused, format!("that is no answer to it, and nothing was sent:{}", told.concat()))
}

/// Sends an answer under a key of its own: sent twice, it counts once.
async fn send(client: &Client, place: &Place, value: &Value) -> anyhow::Result<Value> {
    let key = format!("answer-{}", uuid::Uuid::new_v4().simple());
    let body = json!({ "resumeValue": value });
    let answer = client.post_surely(&place.path(), &body, &[("Idempotency-Key", &key)]).await?;
    if answer.status().is_success() { answer.json() } else { Err(told(answer, place)) }
}

/// The server's words, with what else helps.
fn told(answer: Answer, place: &Place) -> anyhow::Error {
    let problems = answer.problems();
    let more: String = problems.iter().map(|(place, message)| format!("\n  {place}: {message}")).collect();
    let look = match answer.status().as_u16() {
        403 => "\n  `abide inbox` shows who may answer what".to_owned(),
        404 | 409 | 410 | 422 => {
            format!("\n  `abide run show {}` tells how the run stands", encoded(&place.run))
        }
        _ => String::new(),
    };
    match answer.json() {
        Ok(_) => anyhow::anyhow!("the server contradicts itself"),
        Err(error) => match error.downcast::<Failure>() {
            Ok(failure) => failure.with(&(more + &look)).into(),
            Err(error) => error,
        },
    }
}

fn recorded(answer: &Value, value: &Value) -> String {
    let done = match value["action"].as_str() {
        Some("accept") => "accepted",
        Some("reject") => "rejected",
        _ => "answered",
    };
    let (node, run) = (cell(&answer["nodeId"]), cell(&answer["runId"]));
    format!("{node} of {run} is {done}; the run is {}", cell(&answer["status"]))
}
