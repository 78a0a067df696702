//! `abide run why`: what a run waits for, in sentences.

use std::collections::VecDeque;

use jiff::Timestamp;
use serde_json::Value;

use super::path;
use crate::args::ClientArgs;
use crate::client::Client;
use crate::output::{self, cell};
use crate::when;

pub(super) async fn why(client: &Client, args: &ClientArgs, run: &str) -> anyhow::Result<()> {
    let mut answer = client.get(&path(run, "/why")).await?;
    let chain = chain(client, &answer).await?;
    if args.json {
        if !chain.is_empty() {
            answer["chain"] = chain.into();
        }
        return output::json(&answer.to_string());
    }
    let now = client.now();
    let behind: Vec<String> = chain.iter().map(|why| format!("\n{}", told(why, now))).collect();
    output::page(&format!("{}{}", told(&answer, now), behind.concat()))
}

/// Runs that are told of at the most, of all that stand behind one that waits.
const CHAIN_MAX: usize = 20;

/// Why those runs stand where they stand that this one waits for, and those that they wait for, each once.
async fn chain(client: &Client, first: &Value) -> anyhow::Result<Vec<Value>> {
    let mut known: Vec<String> = first["runId"].as_str().map(ToOwned::to_owned).into_iter().collect();
    let (mut next, mut found) = (behind(first), Vec::new());
    while let Some(run) = next.pop_front() {
        if known.contains(&run) || found.len() >= CHAIN_MAX {
            continue;
        }
        let why = client.get(&path(&run, "/why")).await;
        known.push(run);
        // One that is gone meanwhile explains nothing.
        let Ok(why) = why else { continue };
        next.extend(behind(&why));
        found.push(why);
    }
    Ok(found)
}

/// The runs that a run waits for because it depends on them.
fn behind(why: &Value) -> VecDeque<String> {
    let reasons = why["reasons"].as_array().into_iter().flatten();
    let waits = reasons.filter(|reason| reason["kind"] == "dependency");
    waits.filter_map(|reason| reason["childRunId"].as_str().map(ToOwned::to_owned)).collect()
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
    // The node of a group is nothing that anybody does.
    let told = node.is_empty() || what.contains(&node) || reason["kind"] == "group";
    let node = if told { String::new() } else { format!("{node}: ") };
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
