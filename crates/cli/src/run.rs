//! `abide run`: start, list, show, explain, follow, annotate, bundle, cancel, fork, compare, erase, purge.

mod annotations;
mod artifacts;
mod bundle;
mod control;
mod events;
mod family;
mod forks;
mod purge;
mod show;
mod tree;
mod why;

use std::io::IsTerminal;

use serde_json::{Map, Value, json};

use crate::args::{ClientArgs, RunArgs, RunVerb, StartArgs, json_or_text};
use crate::client::{Client, encoded};
use crate::draw::words::legible;
use crate::exit::{Exit, Failure};
use crate::output::{self, cell};
use crate::{terminal, workflow};

pub(crate) use family::Definitions;

pub(crate) async fn dispatch(args: RunArgs) -> anyhow::Result<()> {
    let client = Client::new(&args.client)?;
    let args = (&client, &args.client, args.verb);
    match args {
        (client, args, RunVerb::Start(what)) => start(client, args, what).await,
        (client, args, RunVerb::List { status, workflow, limit }) => {
            list(client, args, status.as_deref(), workflow.as_deref(), limit).await
        }
        (client, args, RunVerb::Show { run, watch }) => show::show(client, args, &run, watch).await,
        (client, args, RunVerb::Why { run }) => why::why(client, args, &run).await,
        (client, args, RunVerb::Events { run, follow, after }) => {
            events::events(client, args, &run, follow, after).await
        }
        (client, args, RunVerb::Annotate(said)) => annotations::annotate(client, args, &said).await,
        (client, args, RunVerb::Annotations { run }) => annotations::list(client, args, &run).await,
        (client, args, RunVerb::Artifacts { run, artifact }) => match artifact {
            Some(artifact) => artifacts::show(client, args, &run, &artifact).await,
            None => artifacts::list(client, args, &run).await,
        },
        (client, args, RunVerb::Bundle(asked)) => bundle::bundle(client, args, &asked).await,
        (client, args, RunVerb::Cancel { runs, reason }) => {
            control::cancel(client, args, &runs, reason.as_deref()).await
        }
        (client, args, RunVerb::Fork(asked)) => forks::fork(client, args, &asked).await,
        (client, args, RunVerb::Diff(asked)) => forks::diff(client, args, &asked).await,
        (client, args, RunVerb::Pause { run, now, reason }) => {
            control::pause(client, args, &run, now, reason.as_deref()).await
        }
        (client, args, RunVerb::Resume { run, reason }) => {
            control::resume(client, args, &run, reason.as_deref()).await
        }
        (client, args, RunVerb::Hold { run, stop, reason }) => {
            control::hold(client, args, &run, stop, reason.as_deref()).await
        }
        (client, args, RunVerb::Release { run, reason }) => {
            control::release(client, args, &run, reason.as_deref()).await
        }
        (client, args, RunVerb::Erase { run, reason, yes }) => {
            erase(client, args, &run, reason.as_deref(), yes).await
        }
        (client, args, RunVerb::Purge(asked)) => purge::purge(client, args, &asked).await,
    }
}

async fn start(client: &Client, args: &ClientArgs, what: StartArgs) -> anyhow::Result<()> {
    let workflow = match &what.file {
        Some(file) => pushed(client, file).await?,
        None => what.workflow.clone().unwrap_or_default(),
    };
    let headers =
        [("Idempotency-Key", what.idempotency_key.as_deref()), ("X-Dedup", what.dedup.then_some("enforce"))];
    let headers: Vec<_> = headers.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let texts = if what.inputs.iter().any(|(_, value)| is_json(value)) {
        text_variables(client, &workflow).await
    } else {
        Vec::new()
    };
    let under = what.under.as_deref().map(|parent| path(parent, "/children"));
    let place = under.as_deref().unwrap_or("/v1/runs");
    let answer = client.post_with(place, &body(&workflow, &what, &texts), &headers).await?;
    let run = answer["runId"].as_str().unwrap_or_default().to_owned();
    if !what.wait {
        return if args.json { output::json(&answer.to_string()) } else { output::line(&legible(&run)) };
    }
    output::say(&format!("{} started; waiting for its end (Ctrl-C leaves it running)", legible(&run)));
    events::wait_for_end(client, &run).await?;
    let status = show::print(client, args, &run).await?;
    if status == "completed" {
        return Ok(());
    }
    Err(Failure::new(Exit::Refused, format!("the run ended as {}", legible(&status))).into())
}

/// Pushes a definition and gives its workflow's id.
async fn pushed(client: &Client, file: &std::path::Path) -> anyhow::Result<String> {
    let answer = workflow::push_file(client, file).await?;
    if answer["created"] == true {
        output::say(&format!("pushed version {}", cell(&answer["version"])));
    }
    Ok(answer["workflowId"].as_str().unwrap_or_default().to_owned())
}

/// Whether a value is something else than the text it is written as.
fn is_json(value: &str) -> bool {
    !json_or_text(value).is_string()
}

/// The variables that a workflow declares as text: `2.0` and `true` are meant as written there. What can't be looked up
/// is left to the server to judge.
async fn text_variables(client: &Client, workflow: &str) -> Vec<String> {
    let Ok(definition) = client.get(&format!("/v1/workflows/{}", encoded(workflow))).await else {
        return Vec::new();
    };
    let variables = definition["variables"].as_array().into_iter().flatten();
    let texts = variables.filter(|variable| variable["type"] == "string");
    texts.filter_map(|variable| variable["name"].as_str().map(ToOwned::to_owned)).collect()
}

fn body(workflow: &str, what: &StartArgs, texts: &[String]) -> Value {
    let read = |(name, value): &(String, String)| {
        let text = texts.contains(name) && is_json(value);
        (name.clone(), if text { Value::from(value.as_str()) } else { json_or_text(value) })
    };
    let inputs: Map<String, Value> = what.inputs.iter().map(read).collect();
    let mut body = json!({ "workflowId": workflow, "inputs": inputs });
    if !what.tags.is_empty() {
        body["tags"] = what.tags.clone().into();
    }
    if !what.config.is_empty() {
        body["configurable"] = what.config.iter().cloned().collect::<Map<String, Value>>().into();
    }
    if !what.after.is_empty() {
        body["dependsOn"] = what.after.clone().into();
    }
    if what.draft {
        body["draft"] = true.into();
    }
    if let Some(scope) = &what.scope {
        body["scopeId"] = scope.as_str().into();
    }
    body
}

async fn list(
    client: &Client,
    args: &ClientArgs,
    status: Option<&str>,
    workflow: Option<&str>,
    limit: usize,
) -> anyhow::Result<()> {
    let filter = |name: &str, value: Option<&str>| {
        value.map_or(String::new(), |value| format!("&{name}={}", encoded(value)))
    };
    let filters = filter("status", status) + &filter("workflowId", workflow);
    let answer = client.get(&format!("/v1/runs?limit={limit}{filters}")).await?;
    if args.json {
        return output::json(&answer.to_string());
    }
    let runs = answer["runs"].as_array().map_or(&[][..], Vec::as_slice);
    if runs.is_empty() {
        let told = if filters.is_empty() {
            "no runs yet; start one with `abide run start WORKFLOW`"
        } else {
            "no such runs; `abide run list` shows all"
        };
        output::say(told);
        return Ok(());
    }
    let row = |run: &Value| {
        ["runId", "workflowId", "status", "startedAt", "updatedAt"].map(|name| cell(&run[name])).to_vec()
    };
    output::line(&output::table(
        &["RUN", "WORKFLOW", "STATUS", "STARTED", "UPDATED"],
        runs.iter().map(row).collect(),
    ))?;
    if !answer["nextCursor"].is_null() {
        output::say(&format!("there are more; ask for them with --limit (shown: {limit})"));
    }
    Ok(())
}

/// A run as it stands.
async fn snapshot(client: &Client, run: &str) -> anyhow::Result<Value> {
    client.get(&path(run, "")).await
}

async fn erase(
    client: &Client,
    args: &ClientArgs,
    run: &str,
    reason: Option<&str>,
    yes: bool,
) -> anyhow::Result<()> {
    if !yes && !confirm_erasure(run)? {
        return Err(Failure::new(Exit::Refused, "nothing was erased").into());
    }
    let answer = client.post(&path(run, "/erase"), &json!({ "reason": reason })).await?;
    if args.json {
        return output::json(&answer.to_string());
    }
    let (run, events) = (cell(&answer["runId"]), cell(&answer["events"]));
    if answer["events"] == 0 {
        return output::line(&format!("{run} was erased already"));
    }
    output::line(&format!("{run} is erased ({events} events)"))
}

fn confirm_erasure(run: &str) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        let message = "erasing can't be undone, and there is no terminal to ask on: add --yes";
        return Err(Failure::new(Exit::Refused, message).into());
    }
    terminal::confirm(&format!("Erase all that {} read and wrote? This can't be undone.", legible(run)))
}

/// Every entry of a list that belongs to a run, page by page.
async fn every(client: &Client, run: &str, what: &str) -> anyhow::Result<Vec<Value>> {
    let (mut entries, mut cursor) = (Vec::new(), String::new());
    loop {
        let mut page = client.get(&path(run, &format!("/{what}?limit=500{cursor}"))).await?;
        if let Value::Array(found) = page[what].take() {
            entries.extend(found);
        }
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={}", encoded(next)),
            None => return Ok(entries),
        }
    }
}

/// A path of a run.
fn path(run: &str, rest: &str) -> String {
    format!("/v1/runs/{}{rest}", encoded(run))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_sent_only_if_there_are_any() {
        let mut what = StartArgs {
            inputs: vec![("name".to_owned(), "Ada".to_owned()), ("code".to_owned(), "2.0".to_owned())],
            tags: vec!["t".to_owned()],
            ..StartArgs::default()
        };
        let plain = json!({ "workflowId": "w", "inputs": { "name": "Ada", "code": 2.0 }, "tags": ["t"] });
        assert_eq!(body("w", &what, &[]), plain);
        let texts = ["code".to_owned()];
        assert_eq!(body("w", &what, &texts)["inputs"]["code"], "2.0", "it is meant as it is written");
        what.config = vec![("runTimeoutMs".to_owned(), json!(5))];
        assert_eq!(body("w", &what, &[])["configurable"], json!({ "runTimeoutMs": 5 }));
    }
}
