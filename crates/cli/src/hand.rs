//! `abide hand`: nodes that somebody outside does.

use serde_json::{Map, Value, json};

use crate::args::{HandArgs, HandAskArgs, HandVerb, WhichArgs, json_or_text};
use crate::client::{Client, encoded};
use crate::draw::words::legible;
use crate::exit::{Exit, Failure};
use crate::output::{self, cell};

pub(crate) async fn dispatch(args: HandArgs) -> anyhow::Result<()> {
    let (client, json) = (Client::new(&args.client)?, args.client.json);
    let (which, op) = match args.verb {
        HandVerb::Claim(which) => (which, json!({ "kind": "claim" })),
        HandVerb::Release(which) => (which, json!({ "kind": "release" })),
        HandVerb::Ask(asked) => {
            let op = question(&asked)?;
            (asked.which, op)
        }
        HandVerb::Complete { which, outputs } => {
            let outputs: Map<String, Value> =
                outputs.into_iter().map(|(name, value)| (name, json_or_text(&value))).collect();
            (which, json!({ "kind": "complete", "outputs": outputs }))
        }
        HandVerb::Fail { which, message } => (which, json!({ "kind": "fail", "message": message })),
    };
    let node = client.post(&path(&which), &body(&which, &op)).await?;
    if json {
        return output::json(&node.to_string());
    }
    output::line(&told(&node))
}

fn path(which: &WhichArgs) -> String {
    format!("/v1/runs/{}/hand", encoded(&which.run))
}

fn body(which: &WhichArgs, op: &Value) -> Value {
    let mut body = json!({ "agent": which.agent, "op": op });
    if let Some(node) = &which.node {
        body["nodeId"] = node.as_str().into();
    }
    body
}

fn question(asked: &HandAskArgs) -> anyhow::Result<Value> {
    let mut question = json!({ "id": "answer", "question": asked.question });
    if !asked.choices.is_empty() {
        question["schema"] = json!({ "enum": asked.choices });
    }
    let payload = json!({ "kind": "clarification", "data": { "questions": [question] } });
    let mut op = json!({ "kind": "ask", "payload": payload });
    if !asked.respondents.is_empty() {
        op["respondents"] = json!(asked.respondents);
    }
    let mut ladder = json!({});
    if let Some(attempts) = asked.attempts {
        ladder["max_attempts"] = attempts.into();
    }
    if let Some(interval) = asked.interval {
        ladder["interval_seconds"] = (interval / 1000).into();
    }
    let mut rungs = Vec::new();
    for (attempt, channel) in &asked.rungs {
        let attempt: u32 = attempt.parse().map_err(|_| {
            Failure::new(Exit::Usage, format!("--rung {attempt}={channel}: the attempt is a number"))
        })?;
        rungs.push(json!({ "attempt": attempt, "channel_hint": channel }));
    }
    if !rungs.is_empty() {
        ladder["escalation_ladder"] = rungs.into();
    }
    if ladder.as_object().is_some_and(|ladder| !ladder.is_empty()) {
        op["ladder"] = json!({ "retry_policy": ladder });
    }
    Ok(op)
}

fn told(node: &Value) -> String {
    let (run, id, status) = (cell(&node["runId"]), cell(&node["nodeId"]), cell(&node["status"]));
    let settled = matches!(node["status"].as_str(), Some("completed" | "failed" | "cancelled"));
    let whose = match node["agent"].as_str().filter(|_| !settled) {
        Some(_) => format!(", in the hands of {}", cell(&node["agent"])),
        None => String::new(),
    };
    let over = match node["runStatus"].as_str() {
        Some("completed" | "failed" | "cancelled") => {
            format!(", and its run is {}", cell(&node["runStatus"]))
        }
        _ => String::new(),
    };
    let asks = match node["interruptId"].as_str() {
        Some(_) => format!("; it waits for the answer to {}", cell(&node["interruptId"])),
        None => String::new(),
    };
    format!("{run}: node '{id}' is {status}{whose}{over}{asks}{}", inputs(node))
}

/// What goes in, for whoever has the node: a line each.
fn inputs(node: &Value) -> String {
    let inputs = node["inputs"].as_object().filter(|_| node["status"] == "running");
    let line =
        |(name, value): (&String, &Value)| format!("\n  {} = {}", legible(name), legible(&value.to_string()));
    inputs.into_iter().flatten().map(line).collect()
}
