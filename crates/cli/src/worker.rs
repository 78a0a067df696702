//! `abide worker` and `abide kind`: who does the work of nodes, and which kinds there are.

use serde_json::{Value, json};

use crate::args::{KindArgs, KindVerb, WorkerArgs, WorkerVerb};
use crate::client::{Client, encoded};
use crate::draw::words::legible;
use crate::output::{self, cell};

pub(crate) async fn dispatch(args: WorkerArgs) -> anyhow::Result<()> {
    let (client, json) = (Client::new(&args.client)?, args.client.json);
    match args.verb {
        WorkerVerb::List => workers(&client, json).await,
        WorkerVerb::Drain { session } => {
            client.post(&format!("/v1/workers/{}:drain", encoded(&session)), &json!({})).await?;
            if json {
                return output::json(&json!({ "session": session, "draining": true }).to_string());
            }
            output::line(&format!("{} gets no more tasks, and was told to end", legible(&session)))
        }
    }
}

async fn workers(client: &Client, json: bool) -> anyhow::Result<()> {
    let answer = client.get("/v1/workers").await?;
    if json {
        return output::json(&answer.to_string());
    }
    let workers = answer["workers"].as_array().map_or(&[][..], Vec::as_slice);
    if workers.is_empty() {
        output::say("no worker is there; start one, for example with `abide-worker module:app`");
        return Ok(());
    }
    let row = |worker: &Value| {
        let kinds = worker["kinds"].as_array().map_or(&[][..], Vec::as_slice);
        let labels = worker["labels"].as_object().into_iter().flatten();
        let labels: Vec<String> =
            labels.map(|(name, value)| format!("{}={}", legible(name), cell(value))).collect();
        let state = match (&worker["gone"], &worker["draining"], &worker["listening"]) {
            (Value::Bool(true), ..) => "gone",
            (_, Value::Bool(true), _) => "draining",
            (.., Value::Bool(true)) => "listening",
            _ => "busy",
        };
        vec![
            cell(&worker["session"]),
            cell(&worker["agent"]),
            kinds.iter().map(cell).collect::<Vec<_>>().join(" "),
            format!("{}/{}", cell(&worker["held"]), cell(&worker["capacity"])),
            labels.join(" "),
            cell(&worker["codeVersion"]),
            state.to_owned(),
            cell(&worker["seenAt"]),
        ]
    };
    output::line(&output::table(
        &["SESSION", "AGENT", "KINDS", "TASKS", "LABELS", "CODE", "STATE", "LAST SEEN"],
        workers.iter().map(row).collect(),
    ))
}

pub(crate) async fn dispatch_kind(args: KindArgs) -> anyhow::Result<()> {
    let (client, json) = (Client::new(&args.client)?, args.client.json);
    match args.verb {
        KindVerb::List => kinds(&client, json).await,
        KindVerb::Forget { kind } => {
            client.delete(&format!("/v1/kinds/{}", encoded(&kind))).await?;
            if json {
                return output::json(&json!({ "kind": kind, "forgotten": true }).to_string());
            }
            output::line(&format!("{} is forgotten", legible(&kind)))
        }
    }
}

async fn kinds(client: &Client, json: bool) -> anyhow::Result<()> {
    let answer = client.pages("/v1/kinds", "kinds").await?;
    if json {
        return output::json(&answer.to_string());
    }
    let kinds = answer["kinds"].as_array().map_or(&[][..], Vec::as_slice);
    if kinds.is_empty() {
        output::say("no worker has ever provided a kind of node");
        return Ok(());
    }
    let yes = |value: &Value| if *value == Value::Bool(true) { "yes" } else { "no" }.to_owned();
    let row = |kind: &Value| {
        vec![
            cell(&kind["kind"]),
            cell(&kind["agent"]),
            yes(&kind["idempotent"]),
            kind["reversible"].as_bool().map_or_else(String::new, |_| yes(&kind["reversible"])),
            cell(&kind["timeoutMs"]),
            cell(&kind["codeVersion"]),
            yes(&kind["provided"]),
        ]
    };
    output::line(&output::table(
        &["KIND", "AGENT", "IDEMPOTENT", "REVERSIBLE", "TIMEOUT MS", "CODE", "WORKER THERE"],
        kinds.iter().map(row).collect(),
    ))
}
