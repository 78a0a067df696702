//! `abide resume`: whether an interrupted run goes on by itself, and letting it.

mod told;

use serde_json::{Map, Value, json};

use crate::args::{ClientArgs, ResumeArgs, ResumeNowArgs, ResumeVerb};
use crate::client::{Answer, Client, encoded};
use crate::exit::{Exit, Failure};
use crate::output::{self, cell};

pub(crate) use told::UNKNOWN;

pub(crate) async fn dispatch(args: ResumeArgs) -> anyhow::Result<()> {
    let client = Client::new(&args.client)?;
    let args = (&client, &args.client, args.verb);
    match args {
        (client, args, ResumeVerb::Status { run }) => status(client, args, &run).await,
        (client, args, ResumeVerb::Now(what)) => now(client, args, &what).await,
        (client, args, ResumeVerb::Disable { run, reason }) => {
            switch(client, args, &run, "disable", reason.as_deref()).await
        }
        (client, args, ResumeVerb::Enable { run, reason }) => {
            switch(client, args, &run, "enable", reason.as_deref()).await
        }
    }
}

async fn status(client: &Client, args: &ClientArgs, run: &str) -> anyhow::Result<()> {
    let view = client.get(&path(run)).await?;
    if args.json {
        return output::json(&view.to_string());
    }
    output::page(&told::status(&view, client.now()))
}

async fn now(client: &Client, args: &ClientArgs, what: &ResumeNowArgs) -> anyhow::Result<()> {
    let answer = client.post_answered(&path(&what.run), &asked(what)).await?;
    if let Some(decision) = refused(&answer) {
        return Err(refusal(client, args, what, &answer, &decision).await);
    }
    let view = answer.json()?;
    if args.json {
        return output::json(&view.to_string());
    }
    output::page(&told::resumed(&view))
}

async fn switch(
    client: &Client,
    args: &ClientArgs,
    run: &str,
    action: &str,
    reason: Option<&str>,
) -> anyhow::Result<()> {
    let mut body = json!({ "action": action });
    if let Some(reason) = reason {
        body["reason"] = reason.into();
    }
    let view = client.post(&path(run), &body).await?;
    if args.json {
        return output::json(&view.to_string());
    }
    let run = cell(&view["runId"]);
    output::line(&if action == "enable" {
        format!("{run} goes on by itself after an interruption, as its policy says")
    } else {
        format!("{run} waits for somebody after an interruption: `abide resume now {run}`")
    })
}

/// What to ask of the server. Only what was said is sent.
fn asked(what: &ResumeNowArgs) -> Value {
    let mut body = Map::from_iter([("action".to_owned(), Value::from("now"))]);
    let mut say = |key: &str, value: Option<Value>| body.extend(value.map(|value| (key.to_owned(), value)));
    say("reason", what.reason.as_deref().map(Value::from));
    say("force", what.force.then(|| Value::from(true)));
    say("approveSteps", (!what.approve.is_empty()).then(|| Value::from(what.approve.clone())));
    let done: Map<String, Value> = what.done.iter().cloned().collect();
    say("done", (!done.is_empty()).then(|| Value::from(done)));
    say("interruptionClass", what.interruption_class.as_deref().map(Value::from));
    say("truncate", what.truncate.then(|| Value::from(true)));
    body.into()
}

/// The decision of a refusal, if it is one of the policy and not of the server's gate.
fn refused(answer: &Answer) -> Option<Value> {
    let mut body: Value = serde_json::from_str(answer.text()).ok()?;
    let decision = body["details"]["decision"].take();
    (!answer.status().is_success() && decision.is_object()).then_some(decision)
}

/// What to say of a refusal: the code, what it means for this run, and which command helps.
async fn refusal(
    client: &Client,
    args: &ClientArgs,
    what: &ResumeNowArgs,
    answer: &Answer,
    decision: &Value,
) -> anyhow::Error {
    if args.json
        && let Err(error) = output::json(answer.text())
    {
        return error;
    }
    // What the run looks like is only for better advice.
    let view = client.get(&path(&what.run)).await.unwrap_or_default();
    Failure::new(Exit::Refused, told::refused(&view, decision, &what.run)).into()
}

fn path(run: &str) -> String {
    format!("/v1/runs/{}/resume", encoded(run))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_said_is_asked() {
        let plain = ResumeNowArgs {
            run: "run-1".to_owned(),
            approve: Vec::new(),
            done: Vec::new(),
            force: false,
            reason: None,
            interruption_class: None,
            truncate: false,
        };
        assert_eq!(asked(&plain), json!({ "action": "now" }));
        let whole = ResumeNowArgs {
            approve: vec!["charge".to_owned()],
            done: vec![("book".to_owned(), json!({ "entry": 7 }))],
            force: true,
            reason: Some("looked at the bank".to_owned()),
            interruption_class: Some("timeout".to_owned()),
            truncate: true,
            ..plain
        };
        let body = json!({
            "action": "now", "force": true, "reason": "looked at the bank", "approveSteps": ["charge"],
            "done": { "book": { "entry": 7 } }, "interruptionClass": "timeout", "truncate": true,
        });
        assert_eq!(asked(&whole), body);
    }
}
