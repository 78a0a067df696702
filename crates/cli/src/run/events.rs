//! `abide run events`, and waiting for what comes.

use std::time::Duration;

use serde_json::Value;

use super::snapshot;
use crate::args::ClientArgs;
use crate::client::Client;
use crate::draw::words::legible;
use crate::follow::Follower;
use crate::output::{self, cell};

pub(super) async fn events(
    client: &Client,
    args: &ClientArgs,
    run: &str,
    follow: bool,
    after: Option<u64>,
) -> anyhow::Result<()> {
    // What is there now, and no more, unless all is asked for.
    let end = if follow { Some(u64::MAX) } else { snapshot(client, run).await?["sequence"].as_u64() };
    let mut last = after;
    let mut events = Follower::new(client, run, after);
    while last < end {
        let Some(event) = events.next().await? else { break };
        last = event["sequence"].as_u64();
        if args.json {
            output::json(&event.to_string())?;
        } else {
            output::line(&event_line(&event))?;
        }
    }
    Ok(())
}

fn event_line(event: &Value) -> String {
    let node = cell(&event["nodeId"]);
    let (sequence, at, kind) = (cell(&event["sequence"]), cell(&event["timestamp"]), cell(&event["type"]));
    let payload = legible(&event["payload"].to_string());
    format!("{sequence:>5}  {at}  {kind:<20}  {node:<16}  {payload}")
}

/// Waits until a run has ended.
pub(super) async fn wait_for_end(client: &Client, run: &str) -> anyhow::Result<()> {
    let mut events = Follower::new(client, run, None);
    while events.next().await?.is_some() {}
    Ok(())
}

/// Waits until something happens to a run after this event, or for so long.
pub(super) async fn wait_for_news(
    client: &Client,
    run: &str,
    after: Option<u64>,
    patience: Duration,
) -> anyhow::Result<()> {
    let mut events = Follower::new(client, run, after);
    // If nothing happens in time, that is as good.
    tokio::time::timeout(patience, events.next()).await.map_or(Ok(()), |told| told.map(|_| ()))
}
