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
    output::page(&told(&answer, client.now()))
}

/// The summary, then each reason with its times below it.
fn told(answer: &Value, now: Timestamp) -> String {
    let reasons = answer["reasons"].as_array().map_or(&[][..], Vec::as_slice);
    let lines: Vec<String> = reasons.iter().map(|reason| format!("\n- {}", lines(reason, now))).collect();
    format!("{}: {}\n{}", cell(&answer["runId"]), cell(&answer["summary"]), lines.concat())
}

fn lines(reason: &Value, now: Timestamp) -> String {
    let time = |key: &str| {
        let text = cell(&reason[key]);
        when::told(&text, now).or(Some(text).filter(|text| !text.is_empty()))
    };
    let since = time("since").map(|since| format!("  since  {since}\n")).unwrap_or_default();
    let until = time("until").map(|until| format!("at {until}"));
    let (node, what, next) = (cell(&reason["nodeId"]), cell(&reason["what"]), cell(&reason["next"]));
    let node = if node.is_empty() || what.contains(&node) { String::new() } else { format!("{node}: ") };
    let next: Vec<String> = Some(next).filter(|next| !next.is_empty()).into_iter().chain(until).collect();
    let next = if next.is_empty() { String::new() } else { format!("  next   {}\n", next.join(", ")) };
    format!("{node}{what}\n{since}{next}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn page(answer: &Value) -> String {
        told(answer, "2026-01-01T12:00:00Z".parse().unwrap())
    }

    #[test]
    fn each_reason_has_its_times_below_it() {
        let answer = json!({
            "runId": "run-1", "status": "running", "finished": false,
            "summary": "it is running and waits for a delay; 1 node has not started",
            "reasons": [
                { "nodeId": "wait", "kind": "timer", "what": "node 'wait' waits for a time", "next": "the node completes",
                  "since": "2026-01-01T11:57:00.000Z", "until": "2026-01-01T14:05:00.000Z" },
                { "nodeId": "call\u{1b}[2J", "kind": "running", "what": "the request is under way",
                  "since": "2026-01-01T11:59:59.500Z", "next": "its answer is recorded" },
                { "kind": "paused", "what": "somebody paused the run" },
                { "nodeId": "late", "kind": "timer", "what": "odd", "next": "", "until": "soon" },
            ],
        });
        insta::assert_snapshot!(page(&answer), @"
        run-1: it is running and waits for a delay; 1 node has not started

        - node 'wait' waits for a time
          since  2026-01-01T11:57:00.000Z (3 min 0 s ago)
          next   the node completes, at 2026-01-01T14:05:00.000Z (in 2 h 5 min)

        - call�[2J: the request is under way
          since  2026-01-01T11:59:59.500Z (500 ms ago)
          next   its answer is recorded

        - somebody paused the run

        - late: odd
          next   at soon
        ");
    }

    #[test]
    fn a_run_that_has_ended_has_a_summary_alone() {
        let answer = json!({ "runId": "run-1", "finished": true, "summary": "it completed", "reasons": [] });
        assert_eq!(page(&answer), "run-1: it completed\n");
    }
}
