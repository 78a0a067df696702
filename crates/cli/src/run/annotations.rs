//! `abide run annotate` and `abide run annotations`: what people say about a run.

use serde_json::{Value, json};

use super::path;
use crate::args::{AnnotateArgs, ClientArgs, SignalArgs, json_or_text};
use crate::client::{Client, encoded};
use crate::output::{self, cell};

pub(super) async fn annotate(client: &Client, args: &ClientArgs, said: &AnnotateArgs) -> anyhow::Result<()> {
    let answer = client.post(&path(&said.run, "/annotations"), &body(said)).await?;
    if args.json {
        return output::json(&answer.to_string());
    }
    output::line(&cell(&answer["annotationId"]))
}

fn body(said: &AnnotateArgs) -> Value {
    let mut body = json!({ "signal": signal(&said.signal) });
    let mut put = |name: &str, key: Option<&str>, value: &Option<String>| {
        if let Some(value) = value {
            match key {
                Some(key) => body[name][key] = json!(value),
                None => body[name] = json!(value),
            }
        }
    };
    put("note", None, &said.note);
    put("target", Some("nodeId"), &said.node);
    put("target", Some("eventId"), &said.event);
    body
}

/// Exactly one of them is given.
fn signal(given: &SignalArgs) -> Value {
    match (given.rating, &given.label, &given.correction) {
        (Some(rating), ..) => json!({ "kind": "rating", "rating": rating }),
        (_, Some(label), _) => json!({ "kind": "label", "label": label }),
        (.., Some(correction)) => json!({ "kind": "correction", "correction": json_or_text(correction) }),
        _ => json!({ "kind": "flag" }),
    }
}

/// Every annotation of a run, page by page.
pub(super) async fn list(client: &Client, args: &ClientArgs, run: &str) -> anyhow::Result<()> {
    let annotations = super::every(client, run, "annotations").await?;
    if args.json {
        return output::json(&json!({ "annotations": annotations }).to_string());
    }
    if annotations.is_empty() {
        output::say("nobody has said anything yet; be the first with `abide run annotate RUN --rating 4`");
        return Ok(());
    }
    let header = ["WHEN", "WHO", "KIND", "VALUE", "ABOUT", "NOTE"];
    output::line(&output::table(&header, annotations.iter().map(row).collect()))
}

fn row(annotation: &Value) -> Vec<String> {
    let (signal, target) = (&annotation["signal"], &annotation["target"]);
    let value = ["rating", "label", "correction"].iter().map(|key| &signal[*key]).find(|it| !it.is_null());
    let about = ["nodeId", "eventId"].iter().map(|key| cell(&target[*key])).find(|it| !it.is_empty());
    vec![
        cell(&annotation["createdAt"]),
        cell(&annotation["actor"]["principalRef"]),
        cell(&signal["kind"]),
        value.map(cell).unwrap_or_default(),
        about.unwrap_or_else(|| "the run".to_owned()),
        cell(&annotation["note"]),
    ]
}

/// Says that there is something to read, if there is. A server that can't tell has told everything else.
pub(super) async fn mention(client: &Client, run: &str) {
    let page = client.get(&path(run, "/annotations?limit=1")).await.unwrap_or_default();
    let count = page["total"].as_u64().unwrap_or(0);
    if count > 0 {
        let word = if count == 1 { "annotation" } else { "annotations" };
        output::say(&format!("{count} {word}; read them with `abide run annotations {}`", encoded(run)));
    }
}
