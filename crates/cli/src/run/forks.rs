//! `abide run fork` and `abide run diff`: runs that begin with the events of others, and how two runs differ.

use serde_json::{Value, json};

use super::path;
use crate::args::{ClientArgs, DiffArgs, ForkArgs};
use crate::client::{Client, encoded};
use crate::output::{self, cell};

/// Makes a fork and prints its id.
pub(super) async fn fork(client: &Client, args: &ClientArgs, asked: &ForkArgs) -> anyhow::Result<()> {
    let key = asked.idempotency_key.as_deref().map(|key| ("Idempotency-Key", key));
    let headers: Vec<_> = key.into_iter().collect();
    let answer = client.post_with(&path(&asked.run, ":fork"), &body(asked), &headers).await?;
    if args.json {
        return output::json(&answer.to_string());
    }
    let replay = &answer["replay"];
    if replay.is_object() {
        let told = format!(
            "replayed: {} executions worked out again, {} events copied, {} differences; it is {}",
            cell(&replay["executedLive"]),
            cell(&replay["copied"]),
            cell(&replay["diverged"]),
            cell(&answer["status"])
        );
        output::say(&told);
    }
    output::line(&cell(&answer["runId"]))
}

fn body(asked: &ForkArgs) -> Value {
    let Some(from) = asked.branch else {
        return match asked.from {
            Some(from) => json!({ "mode": "replay", "fromSeq": from }),
            None => json!({ "mode": "replay" }),
        };
    };
    let mut overlay = serde_json::Map::new();
    if !asked.tags.is_empty() {
        overlay.insert("tags".to_owned(), json!(asked.tags));
    }
    if !asked.config.is_empty() {
        overlay.insert("configurable".to_owned(), asked.config.iter().cloned().collect());
    }
    json!({ "mode": "branch", "fromSeq": from, "runOptionsOverlay": overlay })
}

/// Prints how two runs differ.
pub(super) async fn diff(client: &Client, args: &ClientArgs, asked: &DiffArgs) -> anyhow::Result<()> {
    let base = format!("{}?against={}", path(&asked.run, ":diff"), encoded(&asked.against));
    let first = client.get(&base).await?;
    if args.json {
        return output::json(&first.to_string());
    }
    if first["equal"] == true {
        return output::line(&format!("no difference in {} events", cell(&first["same"])));
    }
    output::line(&format!(
        "{} events are the same, {} are not",
        cell(&first["same"]),
        cell(&first["different"])
    ))?;
    let rows = first["differences"].as_array().into_iter().flatten().map(row).collect();
    output::line(&output::table(&["", "RUN", "AGAINST", "EVENT", "NODE", "WHERE"], rows))?;
    if first["nextCursor"].is_string() {
        output::say("these are the first; `--json` shows how to ask for more");
    }
    Ok(())
}

fn row(found: &Value) -> Vec<String> {
    let (run, against) = (&found["run"], &found["against"]);
    let sign = match found["kind"].as_str() {
        Some("only-in-run") => "-",
        Some("only-in-against") => "+",
        _ => "≠",
    };
    let there = if run.is_object() { run } else { against };
    let paths = found["paths"].as_array().into_iter().flatten().map(cell).collect::<Vec<_>>();
    vec![
        sign.to_owned(),
        cell(&run["sequence"]),
        cell(&against["sequence"]),
        cell(&there["type"]),
        cell(&there["nodeId"]),
        paths.join(" "),
    ]
}
