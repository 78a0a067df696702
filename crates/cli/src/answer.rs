//! `abide answer`: shows what a run asks, takes an answer, checks it, and sends it exactly once.

pub(crate) mod decision;
mod many;
pub(crate) mod place;
mod question;
mod typed;

use std::io::IsTerminal;

use abide_core::InterruptKind;
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
    if args.many.all {
        return many::answer(&client, &args).await;
    }
    let place = Place::find(&client, args.target.as_deref(), args.node.as_deref()).await?;
    let (place, question) = place.look(&client, is_given(&args.given)).await?;
    if let Some(reply) = &args.given.reply {
        return send_reply(&client, &args, &place, reply).await;
    }
    let value = match (given(&args, question.as_ref())?, &question) {
        (Some(value), _) => value,
        (None, Some(question)) => asked(&args, question, &client)?,
        (None, None) => return Err(place.asks_nothing().into()),
    };
    if let Some(question) = question.as_ref().filter(|_| !decision::asks_back(&value)) {
        question.check(&value).map_err(|problems| refused(&problems))?;
    }
    let answer = send(&client, &place, question.as_ref(), &value).await?;
    if args.client.json {
        return output::json(&answer.to_string());
    }
    output::line(&decision::recorded(&answer, &value))
}

/// Tells those who decide what they wanted to know.
async fn send_reply(
    client: &Client,
    args: &AnswerArgs,
    place: &Place,
    reply: &[String],
) -> anyhow::Result<()> {
    let [ask, text] = reply else {
        return Err(Failure::new(Exit::Refused, "--reply takes ASK and TEXT").into());
    };
    let key = format!("reply-{}", uuid::Uuid::new_v4().simple());
    let answer = client
        .post_surely(&place.ask_path(ask), &json!({ "answer": text }), &[("Idempotency-Key", &key)])
        .await?;
    if !answer.status().is_success() {
        return Err(told(answer, place, None));
    }
    let answer = answer.json()?;
    if args.client.json {
        return output::json(&answer.to_string());
    }
    let (node, run, status) = (cell(&answer["nodeId"]), cell(&answer["runId"]), cell(&answer["status"]));
    output::line(&format!("{} at {node} of {run} is answered; the run is {status}", cell(&answer["askId"])))
}

/// What stands in the flags, if they hold an answer.
fn given(args: &AnswerArgs, question: Option<&Question>) -> anyhow::Result<Option<Value>> {
    let GivenArgs { answers, value, .. } = &args.given;
    if let Some(value) = value {
        return Ok(Some(value.clone()));
    }
    if let Some(decision) = decision::given(args)? {
        check_form(question, InterruptKind::Approval, "this flag decides an approval")?;
        return Ok(Some(explained(decision, args)));
    }
    if answers.is_empty() {
        return Ok(None);
    }
    check_form(question, InterruptKind::Clarification, "--answer is for a clarification")?;
    let mut read = Map::new();
    for (id, text) in answers {
        let schema = question.and_then(|question| question.schema_of(id));
        let choices = question.map(|question| question.choices_of(id)).unwrap_or_default();
        let value = typed::choose(text, &choices, schema.as_ref()).map_err(|problems| {
            refused(&problems.iter().map(|problem| format!("{id}: {problem}")).collect::<Vec<_>>())
        })?;
        read.insert(id.clone(), value);
    }
    Ok(Some(json!({ "answers": read })))
}

fn is_given(given: &GivenArgs) -> bool {
    let decides = given.accept || given.reject || given.refine.is_some() || given.edit.is_some();
    let asks = given.ask.is_some() || given.reply.is_some();
    decides || asks || !given.answers.is_empty() || given.value.is_some()
}

/// Whether a flag makes sense for what is asked, as far as that is known.
fn check_form(question: Option<&Question>, wanted: InterruptKind, use_of_flag: &str) -> anyhow::Result<()> {
    let Some(question) = question.filter(|question| question.kind != wanted) else { return Ok(()) };
    let message = format!("{use_of_flag}, and this is of the kind {}: {}", question.kind, question.flags());
    Err(Failure::new(Exit::Refused, message).into())
}

/// A decision with what the flags say about it.
fn explained(mut decision: Value, args: &AnswerArgs) -> Value {
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
    let value = typed::ask(question)?;
    Ok(if question.kind == InterruptKind::Approval { explained(value, args) } else { value })
}

fn refused(problems: &[String]) -> Failure {
    let told: Vec<String> = problems.iter().map(|problem| format!("\n  {}", legible(problem))).collect();
    Failure::new(Exit::Refused, format!("that is no answer to it, and nothing was sent:{}", told.concat()))
}

/// Sends an answer under a key of its own: sent twice, it counts once.
async fn send(
    client: &Client,
    place: &Place,
    question: Option<&Question>,
    value: &Value,
) -> anyhow::Result<Value> {
    let key = format!("answer-{}", uuid::Uuid::new_v4().simple());
    let body = json!({ "resumeValue": value });
    let answer = client.post_surely(&place.path(), &body, &[("Idempotency-Key", &key)]).await?;
    if answer.status().is_success() { answer.json() } else { Err(told(answer, place, question)) }
}

/// The server's words, with what else helps.
fn told(answer: Answer, place: &Place, question: Option<&Question>) -> anyhow::Error {
    let problems = answer.problems();
    let more: String = problems.iter().map(|(place, message)| format!("\n  {place}: {message}")).collect();
    let look = match answer.status().as_u16() {
        403 => question.and_then(Question::deciders).map_or(String::new(), |who| format!("\n  {who}")),
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
