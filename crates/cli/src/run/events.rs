//! `abide run events`, and waiting for what comes.

use serde_json::Value;

use super::{path, snapshot};
use crate::args::ClientArgs;
use crate::client::Client;
use crate::draw::words::legible;
use crate::output::{self, cell};

/// How long one request waits for news; the server's own limit.
const POLL_SECONDS: u32 = 60;

pub(super) async fn events(
    client: &Client,
    args: &ClientArgs,
    run: &str,
    follow: bool,
    after: Option<u64>,
) -> anyhow::Result<()> {
    let print = |event: &Value| {
        if args.json { output::json(&event.to_string()) } else { output::line(&event_line(event)) }
    };
    if follow {
        return follow_events(client, run, after, &print).await;
    }
    // What is there now, and no more: a wait is only met if the last events are of kinds that OpenWOP has no name for.
    let end = snapshot(client, run).await?["sequence"].as_u64();
    let mut after = after;
    while after < end {
        let (last, complete) = poll(client, run, after, 1, &print).await?;
        if complete || last == after {
            break;
        }
        after = last;
    }
    Ok(())
}

fn event_line(event: &Value) -> String {
    let node = cell(&event["nodeId"]);
    let (sequence, at, kind) = (cell(&event["sequence"]), cell(&event["timestamp"]), cell(&event["type"]));
    let payload = legible(&event["payload"].to_string());
    format!("{sequence:>5}  {at}  {kind:<16}  {node:<16}  {payload}")
}

/// Waits until a run has ended.
pub(super) async fn wait_for_end(client: &Client, run: &str) -> anyhow::Result<()> {
    follow_events(client, run, None, &|_| Ok(())).await
}

async fn follow_events(
    client: &Client,
    run: &str,
    mut after: Option<u64>,
    print: &impl Fn(&Value) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    loop {
        let (last, complete) = poll(client, run, after, POLL_SECONDS, print).await?;
        after = last;
        if complete {
            return Ok(());
        }
    }
}

/// Waits for news of a run: the last sequence that is known then, and whether nothing comes after it.
pub(super) async fn poll(
    client: &Client,
    run: &str,
    after: Option<u64>,
    seconds: u32,
    print: &impl Fn(&Value) -> anyhow::Result<()>,
) -> anyhow::Result<(Option<u64>, bool)> {
    let from = after.map_or(String::new(), |after| format!("&lastSequence={after}"));
    let page = client.get(&path(run, &format!("/events/poll?timeout={seconds}{from}"))).await?;
    let events = page["events"].as_array().map_or(&[][..], Vec::as_slice);
    for event in events {
        print(event)?;
    }
    let last = events.last().and_then(|event| event["sequence"].as_u64()).or(after);
    Ok((last, page["isComplete"] == true))
}
