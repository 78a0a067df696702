//! `abide run why`: what a run waits for, in sentences.

use jiff::Timestamp;
use serde_json::Value;

use super::path;
use crate::args::ClientArgs;
use crate::client::Client;
use crate::output::{self, cell};
use crate::when;

pub(super) async fn why(client: &Client, args: &ClientArgs, run: &str) -> anyhow::Result<()> {
    let answer = client.get(&path(run, "/why")).await?;
    if args.json {
        return output::json(&answer.to_string());
    }
    output::page(&told(&answer, Timestamp::now()))
}

/// The summary, then each reason on a line.
fn told(answer: &Value, now: Timestamp) -> String {
    let reasons = answer["reasons"].as_array().map_or(&[][..], Vec::as_slice);
    let lines: Vec<String> = reasons.iter().map(|reason| format!("- {}\n", line(reason, now))).collect();
    let gap = if lines.is_empty() { "" } else { "\n" };
    format!("{}\n{gap}{}", cell(&answer["summary"]), lines.concat())
}

fn line(reason: &Value, now: Timestamp) -> String {
    let time = |key: &str| {
        let text = cell(&reason[key]);
        when::told(&text, now).or(Some(text).filter(|text| !text.is_empty()))
    };
    let node = reason["nodeId"].as_str().map(|_| format!("{}: ", cell(&reason["nodeId"]))).unwrap_or_default();
    let since = time("since").map(|since| format!(", since {since}")).unwrap_or_default();
    let until = time("until").map(|until| format!(", at {until}")).unwrap_or_default();
    let (what, next) = (sentence(&reason["what"]), sentence(&reason["next"]));
    let next = if next.is_empty() && until.is_empty() { String::new() } else { format!("; next: {next}{until}") };
    format!("{node}{what}{since}{next}")
}

/// The words without the full stop: they go on in the same line.
fn sentence(words: &Value) -> String {
    cell(words).trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn page(answer: &Value) -> String {
        told(answer, "2026-01-01T12:00:00Z".parse().unwrap())
    }

    #[test]
    fn each_reason_is_a_line_with_its_times() {
        let answer = json!({
            "runId": "run-1", "status": "running", "finished": false,
            "summary": "The run waits for 2 nodes.",
            "reasons": [
                { "nodeId": "wait", "kind": "timer", "what": "Waits for its delay.", "next": "it completes",
                  "since": "2026-01-01T11:57:00.000Z", "until": "2026-01-01T14:05:00.000Z" },
                { "nodeId": "call\u{1b}[2J", "kind": "running", "what": "the request is under way",
                  "since": "2026-01-01T11:59:59.500Z", "next": "its answer is recorded" },
                { "kind": "paused", "what": "somebody paused the run" },
                { "nodeId": "late", "kind": "timer", "what": "odd", "next": "", "until": "soon" },
            ],
        });
        insta::assert_snapshot!(page(&answer), @"
        The run waits for 2 nodes.

        - wait: Waits for its delay, since 2026-01-01T11:57:00.000Z (3 min 0 s ago); next: it completes, at 2026-01-01T14:05:00.000Z (in 2 h 5 min)
        - call�[2J: the request is under way, since 2026-01-01T11:59:59.500Z (500 ms ago); next: its answer is recorded
        - somebody paused the run
        - late: odd; next: , at soon
        ");
    }

    #[test]
    fn a_run_that_has_ended_has_a_summary_alone() {
        let answer = json!({ "finished": true, "summary": "The run completed.", "reasons": [] });
        assert_eq!(page(&answer), "The run completed.\n");
    }
}
