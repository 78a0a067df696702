//! `abide run purge`: removes runs that have ended, page by page.

use std::io::IsTerminal;

use serde_json::{Value, json};

use crate::args::{ClientArgs, PurgeArgs};
use crate::client::Client;
use crate::exit::{Exit, Failure};
use crate::{output, terminal};

const PATH: &str = "/v1/runs:purge";

/// How much went, or would.
#[derive(Default)]
struct Sum {
    runs: u64,
    events: u64,
    kept: u64,
    /// Only runs that ended before this were looked at: the server's own time.
    ended_before: String,
}

pub(super) async fn purge(client: &Client, args: &ClientArgs, asked: &PurgeArgs) -> anyhow::Result<()> {
    if !asked.dry_run && !asked.yes && !confirm(client, asked).await? {
        return Err(Failure::new(Exit::Refused, "nothing was removed").into());
    }
    let sum = each_page(client, asked, asked.dry_run).await?;
    if args.json {
        let told = json!({
            "runs": sum.runs,
            "events": sum.events,
            "kept": sum.kept,
            "endedBefore": sum.ended_before,
            "dryRun": asked.dry_run,
        });
        return output::json(&told.to_string());
    }
    if sum.kept > 0 {
        let kept = counted(sum.kept, "run");
        output::say(&format!("{kept} stayed: one that they started has not ended, or not so long ago"));
    }
    let what = format!("{} with {}", counted(sum.runs, "run"), counted(sum.events, "event"));
    output::line(&if asked.dry_run { format!("{what} would be removed") } else { format!("removed {what}") })
}

/// Asks for page after page, all about the same moment.
async fn each_page(client: &Client, asked: &PurgeArgs, dry_run: bool) -> anyhow::Result<Sum> {
    let mut body = json!({
        "olderThanMs": asked.older_than,
        "workflowId": asked.workflow,
        "dryRun": dry_run,
    });
    if !asked.status.is_empty() {
        body["statuses"] = asked.status.iter().map(|status| Value::from(status.trim())).collect();
    }
    let mut sum = Sum::default();
    loop {
        let page = client.post(PATH, &body).await?;
        let count = |name: &str| page[name].as_u64().unwrap_or_default();
        (sum.runs, sum.events) = (sum.runs + count("runs"), sum.events + count("events"));
        sum.kept += count("kept");
        sum.ended_before = page["endedBefore"].as_str().unwrap_or_default().to_owned();
        if page["nextCursor"].is_null() {
            return Ok(sum);
        }
        let done = if dry_run { "counted" } else { "removed" };
        output::say(&format!("{} {done} so far …", counted(sum.runs, "run")));
        body["cursor"] = page["nextCursor"].clone();
        body["endedBefore"] = page["endedBefore"].clone();
        body["olderThanMs"] = Value::Null;
    }
}

/// Tells what would go, and asks.
async fn confirm(client: &Client, asked: &PurgeArgs) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        let message = "removing can't be undone, and there is no terminal to ask on: look with --dry-run, then add --yes";
        return Err(Failure::new(Exit::Refused, message).into());
    }
    let sum = each_page(client, asked, true).await?;
    let what = format!("{} with {}", counted(sum.runs, "run"), counted(sum.events, "event"));
    terminal::confirm(&format!("Remove {what}? This can't be undone."))
}

fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
