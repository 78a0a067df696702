//! `abide agent`: what agents say by default about questions that nobody answers, on a server.

use std::path::Path;

use serde_json::{Value, json};

use crate::args::{AgentArgs, AgentVerb};
use crate::client::{Client, encoded};
use crate::draw::words::legible;
use crate::exit::{Exit, Failure};
use crate::output::{self, cell};

/// Bytes of a file with a policy: one with the longest ladder is much smaller.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

pub(crate) async fn dispatch(args: AgentArgs) -> anyhow::Result<()> {
    let (client, json) = (Client::new(&args.client)?, args.client.json);
    match args.verb {
        AgentVerb::List => list(&client, json).await,
        AgentVerb::Show { name } => show(&client.get(&path(&name)).await?, json),
        AgentVerb::Set { name, policy } => {
            let policy = policy.as_deref().map(read).transpose()?;
            let agent = client.put(&path(&name), &json!({ "default_human_retry_policy": policy })).await?;
            if json { output::json(&agent.to_string()) } else { tell(&name, "set") }
        }
        AgentVerb::Rm { name } => {
            client.delete(&path(&name)).await?;
            if json {
                return output::json(&json!({ "name": name, "removed": true }).to_string());
            }
            tell(&name, "removed")
        }
    }
}

fn tell(name: &str, what: &str) -> anyhow::Result<()> {
    output::line(&format!("{} is {what}", legible(name)))
}

fn path(name: &str) -> String {
    format!("/v1/agent-records/{}", encoded(name))
}

async fn list(client: &Client, json: bool) -> anyhow::Result<()> {
    let answer = client.pages("/v1/agent-records", "agents").await?;
    if json {
        return output::json(&answer.to_string());
    }
    let agents = answer["agents"].as_array().map_or(&[][..], Vec::as_slice);
    if agents.is_empty() {
        output::say("no agent has a record yet; make one with `abide agent set NAME --policy FILE`");
        return Ok(());
    }
    let row = |agent: &Value| {
        let policy = &agent["default_human_retry_policy"];
        let rungs = policy["escalation_ladder"].as_array().map(|rungs| rungs.len().to_string());
        vec![
            cell(&agent["name"]),
            cell(&policy["max_attempts"]),
            cell(&policy["interval_seconds"]),
            rungs.unwrap_or_default(),
            cell(&policy["final_fallback_policy"]),
        ]
    };
    output::line(&output::table(
        &["AGENT", "ATTEMPTS", "INTERVAL S", "RUNGS", "FALLBACK"],
        agents.iter().map(row).collect(),
    ))
}

fn show(agent: &Value, json: bool) -> anyhow::Result<()> {
    if json {
        return output::json(&agent.to_string());
    }
    let policy = &agent["default_human_retry_policy"];
    let mut rows = vec![vec!["agent".to_owned(), cell(&agent["name"])]];
    if policy.is_null() {
        rows.push(vec!["policy".to_owned(), "as the server says".to_owned()]);
    }
    for key in ["max_attempts", "interval_seconds", "strategy", "final_fallback_policy"] {
        if !policy[key].is_null() {
            rows.push(vec![key.to_owned(), cell(&policy[key])]);
        }
    }
    for rung in policy["escalation_ladder"].as_array().map_or(&[][..], Vec::as_slice) {
        let whom = match &rung["notify_to"] {
            Value::Null => String::new(),
            whom => format!(" to {}", cell(whom)),
        };
        rows.push(vec![
            format!("attempt {}", cell(&rung["attempt"])),
            format!("{}{whom}", cell(&rung["channel_hint"])),
        ]);
    }
    rows.push(vec!["changed".to_owned(), cell(&agent["updatedAt"])]);
    output::line(&output::table(&["AGENT", ""], rows))
}

/// A policy: itself, or the file that it stands in.
fn read(given: &str) -> anyhow::Result<Value> {
    if given.trim_start().starts_with('{') {
        let told = |error| Failure::new(Exit::Refused, format!("--policy is not JSON: {error}"));
        return Ok(serde_json::from_str(given).map_err(told)?);
    }
    let file = Path::new(given);
    let told = |what: String| Failure::new(Exit::Refused, format!("{}: {what}", file.display()));
    let size = std::fs::metadata(file).map_err(|error| told(error.to_string()))?.len();
    if size > FILE_BYTES_MAX {
        return Err(told(format!("it has more than {FILE_BYTES_MAX} bytes; no policy is so large")).into());
    }
    let text = std::fs::read_to_string(file).map_err(|error| told(error.to_string()))?;
    let json = abide_core::json_from_yaml(&text).map_err(|problem| told(problem.to_string()))?;
    Ok(serde_json::from_slice(&json).map_err(|error| told(error.to_string()))?)
}
