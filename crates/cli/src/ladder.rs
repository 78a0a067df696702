//! `abide ladder explain`: what was sent to whom about a question, what comes next, and when.
//!
//! It is read by somebody who was woken: what matters stands first, and times are told from now.

use jiff::Timestamp;
use serde_json::Value;

use crate::answer::place::Place;
use crate::args::{LadderArgs, LadderVerb};
use crate::client::{Client, encoded};
use crate::exit::Failure;
use crate::output::{self, cell};
use crate::when;

pub(crate) async fn dispatch(args: LadderArgs) -> anyhow::Result<()> {
    let client = Client::new(&args.client)?;
    let LadderVerb::Explain { target, node } = &args.verb;
    let closed = "one that is closed is found with its run: abide ladder explain RUN INTERRUPT";
    let hint = |error: anyhow::Error| match error.downcast::<Failure>() {
        Ok(failure) => failure.with(&format!("\n  {closed}")).into(),
        Err(error) => error,
    };
    let place = Place::find(&client, Some(target), node.as_deref()).await.map_err(hint)?;
    let id = place.interrupt_id(&client).await.map_err(hint)?;
    let path = format!("/v1/runs/{}/interrupts/{}/ladder", encoded(&place.run), encoded(&id));
    let ladder = client.get(&path).await?;
    if args.client.json {
        return output::json(&ladder.to_string());
    }
    output::page(&explained(&ladder, client.now()))
}

/// The whole story, for a terminal.
fn explained(ladder: &Value, now: Timestamp) -> String {
    let asked = &ladder["suspension"];
    let question = asked["question"].as_str().unwrap_or_default().lines().next().unwrap_or_default();
    let mut lines = vec![
        cell(&Value::from(question)),
        format!(
            "  {} of {}, node {}",
            cell(&ladder["interruptId"]),
            cell(&ladder["runId"]),
            cell(&ladder["nodeId"])
        ),
        format!("  {}", stands(ladder, now)),
    ];
    lines.extend(policy(asked).map(|policy| format!("  {policy}")));
    let moments = ladder["timeline"].as_array().map(Vec::as_slice).unwrap_or_default();
    lines.extend(nobody_told(moments).then(|| "  nobody was told: the messages below say why".to_owned()));
    lines.push(String::new());
    let most = asked["retry_policy"]["max_attempts"].as_u64().unwrap_or(1);
    let rows = moments.iter().map(|moment| row(moment, most, asked, now)).collect();
    lines.push(output::table(&["WHEN", "WHAT", "CHANNEL", "TO", "STATE"], rows));
    lines.join("\n")
}

/// How it stands, in one line: who answered, or what comes next.
fn stands(ladder: &Value, now: Timestamp) -> String {
    let moments = ladder["timeline"].as_array().map(Vec::as_slice).unwrap_or_default();
    let asked = &ladder["suspension"];
    if ladder["state"] != "open" {
        let last = moments.iter().rev().find(|moment| !moment["by"].is_null());
        let at = last.and_then(|moment| when::told(moment["at"].as_str()?, now)).unwrap_or_default();
        let by = last.map(|moment| cell(&moment["by"])).unwrap_or_default();
        return format!("{} by {by}, {at}", cell(&ladder["state"]));
    }
    let most = asked["retry_policy"]["max_attempts"].as_u64().unwrap_or(1);
    match moments.iter().find(|moment| moment["state"] == "planned") {
        Some(next) => {
            let at = when::told(next["at"].as_str().unwrap_or_default(), now).unwrap_or_default();
            format!("open; next: {}, {at}", what(next, most, asked))
        }
        None => "open; nothing more is done, it waits for an answer".to_owned(),
    }
}

/// Whether there were messages, and none of them was sent.
fn nobody_told(moments: &[Value]) -> bool {
    let mut messages = moments.iter().filter(|moment| moment["what"] == "message").peekable();
    messages.peek().is_some() && messages.all(|moment| moment["state"] != "sent")
}

/// The policy that holds, in one line.
fn policy(asked: &Value) -> Option<String> {
    let policy = asked["retry_policy"].as_object()?;
    let attempts = policy.get("max_attempts")?.as_u64()?;
    let told = if attempts == 1 { "one attempt".to_owned() } else { format!("{attempts} attempts") };
    let seconds = policy.get("interval_seconds").and_then(Value::as_i64);
    let spans = seconds.map(|seconds| when::duration(seconds.saturating_mul(1000)));
    Some(match (spans, attempts) {
        (None, _) => format!("{told}, then it waits"),
        (Some(span), 1) => format!("{told}; after {span} {}", fallback(asked)),
        (Some(span), _) => format!("{told}, one every {span}; then {}", fallback(asked)),
    })
}

/// What takes the answer's place in the end.
fn fallback(asked: &Value) -> String {
    match asked["fallback_policy"].as_str() {
        Some("fail") | None => "it fails".to_owned(),
        Some(_) => format!("it goes on with {}", cell(&asked["fallback_value"])),
    }
}

fn row(moment: &Value, most: u64, asked: &Value, now: Timestamp) -> Vec<String> {
    let at = when::told(moment["at"].as_str().unwrap_or_default(), now).unwrap_or_default();
    let to = if moment["by"].is_null() { &moment["to"] } else { &moment["by"] };
    let state = match (cell(&moment["state"]), cell(&moment["reason"])) {
        (state, reason) if reason.is_empty() => state,
        (state, reason) => format!("{state}: {reason}"),
    };
    vec![at, what(moment, most, asked), cell(&moment["channel"]), cell(to), state]
}

fn what(moment: &Value, most: u64, asked: &Value) -> String {
    let attempt = cell(&moment["attempt"]);
    match (moment["what"].as_str().unwrap_or_default(), moment["state"] == "planned") {
        ("asked", _) => "asked".to_owned(),
        ("attempt", _) => format!("attempt {attempt} of {most}"),
        ("message", _) => format!("  message of attempt {attempt}"),
        ("escalation", _) => "  escalated".to_owned(),
        ("refusal", _) => "  may not be told".to_owned(),
        ("expiry", true) => format!("given up: {}", fallback(asked)),
        ("expiry", false) => format!("nobody answered: {}", fallback(asked)),
        ("timeout", _) => "timed out".to_owned(),
        ("answer", _) => "answered".to_owned(),
        ("cancellation", _) => "cancelled".to_owned(),
        (other, _) => cell(&Value::from(other)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whoever_was_woken_reads_what_comes_next_first() {
        let ladder = json!({
            "interruptId": "int-1", "runId": "run-1", "nodeId": "review", "state": "open",
            "suspension": {
                "question": "Proceed?\u{1b}[2J\nIt is late.", "fallback_policy": "complete_with_fallback",
                "fallback_value": "stop", "retry_policy": { "max_attempts": 3, "interval_seconds": 3600 },
            },
            "timeline": [
                { "at": "2026-01-01T09:00:00.000Z", "what": "asked", "state": "done" },
                { "at": "2026-01-01T09:00:00.000Z", "what": "attempt", "attempt": 1, "state": "done" },
                { "at": "2026-01-01T09:00:01.000Z", "what": "message", "attempt": 1, "channel": "desk",
                  "to": "ada", "state": "dead", "reason": "the receiver answered 500" },
                { "at": "2026-01-01T10:00:00.000Z", "what": "attempt", "attempt": 2, "channel": "pager",
                  "to": "group:oncall", "state": "planned" },
                { "at": "2026-01-01T11:00:00.000Z", "what": "attempt", "attempt": 3, "state": "planned" },
                { "at": "2026-01-01T12:00:00.000Z", "what": "expiry", "state": "planned" },
            ],
        });
        insta::assert_snapshot!(explained(&ladder, "2026-01-01T09:30:00Z".parse().unwrap()));
    }

    #[test]
    fn what_is_over_tells_who_ended_it() {
        let ladder = json!({
            "interruptId": "int-1", "runId": "run-1", "nodeId": "gate", "state": "answered",
            "suspension": { "question": "Release?", "retry_policy": null },
            "timeline": [
                { "at": "2026-01-01T09:00:00.000Z", "what": "asked", "state": "done" },
                { "at": "2026-01-01T09:20:00.000Z", "what": "answer", "by": "ada", "state": "done" },
            ],
        });
        insta::assert_snapshot!(explained(&ladder, "2026-01-01T09:30:00Z".parse().unwrap()));
    }
}
