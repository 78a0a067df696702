//! `abide run artifacts`: what a run made.

use serde_json::{Value, json};

use super::path;
use crate::args::ClientArgs;
use crate::client::{Client, encoded};
use crate::output::{self, cell};

/// Every artifact of a run, page by page.
pub(super) async fn list(client: &Client, args: &ClientArgs, run: &str) -> anyhow::Result<()> {
    let artifacts = super::every(client, run, "artifacts").await?;
    if args.json {
        return output::json(&json!({ "artifacts": artifacts }).to_string());
    }
    if artifacts.is_empty() {
        output::say("it has made none; nodes with an 'artifactType' in their definition do");
        return Ok(());
    }
    let row = |made: &Value| {
        ["artifactId", "artifactType", "nodeId", "createdAt"].map(|key| cell(&made[key])).to_vec()
    };
    output::line(&output::table(&["ARTIFACT", "TYPE", "NODE", "MADE"], artifacts.iter().map(row).collect()))
}

/// What one artifact holds; with --json, all that is known of it.
pub(super) async fn show(client: &Client, args: &ClientArgs, run: &str, id: &str) -> anyhow::Result<()> {
    let artifact = client.get(&path(run, &format!("/artifacts/{}", encoded(id)))).await?;
    let shown = if args.json { &artifact } else { &artifact["data"] };
    output::json(&shown.to_string())
}
