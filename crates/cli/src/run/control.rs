//! `abide run cancel`, `pause`, `resume`, `hold` and `release`.

use serde_json::{Value, json};

use super::path;
use crate::args::ClientArgs;
use crate::client::Client;
use crate::exit::{Exit, Failure};
use crate::output::{self, cell};

/// Cancels one run, or many in one request.
pub(super) async fn cancel(
    client: &Client,
    args: &ClientArgs,
    runs: &[String],
    reason: Option<&str>,
) -> anyhow::Result<()> {
    let [run] = runs else { return cancel_many(client, args, runs, reason).await };
    let answer = client.post(&path(run, "/cancel"), &json!({ "reason": reason })).await?;
    if args.json {
        return output::json(&answer.to_string());
    }
    output::line(&format!("{} is {}", cell(&answer["runId"]), cell(&answer["status"])))
}

async fn cancel_many(
    client: &Client,
    args: &ClientArgs,
    runs: &[String],
    reason: Option<&str>,
) -> anyhow::Result<()> {
    let body = json!({ "runIds": runs, "reason": reason });
    let answer = client.post("/v1/runs:bulk-cancel", &body).await?;
    let results = answer["results"].as_array().map_or(&[][..], Vec::as_slice);
    if args.json {
        output::json(&answer.to_string())?;
    } else {
        for result in results {
            output::line(&told(result))?;
        }
    }
    match results.iter().filter(|result| result["ok"] != true).count() {
        0 => Ok(()),
        failed => {
            let message = format!("{failed} of {} runs were not cancelled", results.len());
            Err(Failure::new(Exit::Refused, message).into())
        }
    }
}

fn told(result: &Value) -> String {
    let run = cell(&result["runId"]);
    if result["ok"] == true {
        return format!("{run} is {}", cell(&result["status"]));
    }
    format!(
        "{run} is not cancelled: {} [{}]",
        cell(&result["error"]["message"]),
        cell(&result["error"]["code"])
    )
}

/// Pauses a run.
pub(super) async fn pause(
    client: &Client,
    args: &ClientArgs,
    run: &str,
    now: bool,
    reason: Option<&str>,
) -> anyhow::Result<()> {
    let policy = if now { "immediate" } else { "drain-current-node" };
    let body = json!({ "reason": reason, "drainPolicy": policy });
    let answer = client.post(&path(run, ":pause"), &body).await?;
    if args.json {
        return output::json(&answer.to_string());
    }
    let run = cell(&answer["runId"]);
    if answer["draining"] == true {
        return output::line(&format!("{run} is paused as soon as its nodes under way have ended"));
    }
    output::line(&format!("{run} is paused"))
}

/// Lets a run go on.
pub(super) async fn resume(
    client: &Client,
    args: &ClientArgs,
    run: &str,
    reason: Option<&str>,
) -> anyhow::Result<()> {
    let answer = client.post(&path(run, ":resume"), &json!({ "reason": reason })).await?;
    if args.json {
        return output::json(&answer.to_string());
    }
    output::line(&format!("{} goes on", cell(&answer["runId"])))
}

/// Holds a run, whether or not it waits for people.
pub(super) async fn hold(
    client: &Client,
    args: &ClientArgs,
    run: &str,
    stop: bool,
    reason: Option<&str>,
) -> anyhow::Result<()> {
    let mode = if stop { "stop" } else { "pause" };
    let answer = client.post(&path(run, ":hold"), &json!({ "mode": mode, "reason": reason })).await?;
    if args.json {
        return output::json(&answer.to_string());
    }
    let done = if stop { "stopped" } else { "paused" };
    output::line(&format!("{} is {done}", cell(&answer["runId"])))
}

/// Lets a run go on that somebody holds.
pub(super) async fn release(
    client: &Client,
    args: &ClientArgs,
    run: &str,
    reason: Option<&str>,
) -> anyhow::Result<()> {
    let answer = client.post(&path(run, ":release"), &json!({ "reason": reason })).await?;
    if args.json {
        return output::json(&answer.to_string());
    }
    output::line(&format!("{} goes on; it is {}", cell(&answer["runId"]), cell(&answer["status"])))
}
