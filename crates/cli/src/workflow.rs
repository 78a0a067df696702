//! `abide workflow`: write, check, push, list, show, compare and draw definitions.

mod compare;
mod graph;
mod push;
mod validate;

use anyhow::Context;
use serde_json::Value;

use crate::args::{ClientArgs, WorkflowArgs, WorkflowVerb};
use crate::client::{Answer, Client, encoded};
use crate::definition_file::{DefinitionFile, names_file};
use crate::exit::{Exit, Failure};
use crate::output::{self, cell};
use crate::scaffold;

pub(crate) use push::push_file;

/// The header in which the server tells which version it answers with.
const VERSION_HEADER: &str = "abide-workflow-version";

pub(crate) async fn dispatch(args: WorkflowArgs) -> anyhow::Result<()> {
    let client = || Client::new(&args.client);
    match args.verb {
        WorkflowVerb::New { id, template, yaml } => new(&id, &template, yaml),
        WorkflowVerb::Validate { files } => validate::validate(&files, args.client.json),
        WorkflowVerb::Push { files } => push::push(&client()?, &args.client, &files).await,
        WorkflowVerb::List { workflow: None } => list(&client()?, &args.client).await,
        WorkflowVerb::List { workflow: Some(id) } => versions(&client()?, &args.client, &id).await,
        WorkflowVerb::Show { workflow, version } => show(&client()?, &workflow, version).await,
        WorkflowVerb::Diff { target, from, to } => {
            compare::compare(&client()?, &args.client, &target, from, to).await
        }
        WorkflowVerb::Graph { target, svg, run } => {
            graph::graph(&args.client, &target, svg, run.as_deref()).await
        }
    }
}

fn new(id: &str, template: &str, yaml: bool) -> anyhow::Result<()> {
    let page =
        scaffold::scaffold(id, template, yaml).map_err(|message| Failure::new(Exit::Refused, message))?;
    output::page(&page)
}

async fn list(client: &Client, args: &ClientArgs) -> anyhow::Result<()> {
    let answer = client.get("/v1/workflows").await?;
    if args.json {
        return output::json(&answer.to_string());
    }
    let workflows = answer["workflows"].as_array().map_or(&[][..], Vec::as_slice);
    if workflows.is_empty() {
        output::say("no workflows yet; push one with `abide workflow push FILE`");
        return Ok(());
    }
    output::line(&output::table(
        &["WORKFLOW", "NAME", "VERSION", "PUSHED", "BY", "SOURCE"],
        workflows.iter().map(row).collect(),
    ))
}

async fn versions(client: &Client, args: &ClientArgs, workflow: &str) -> anyhow::Result<()> {
    let answer = client.get(&format!("/v1/workflows/{}/versions", encoded(workflow))).await?;
    if args.json {
        return output::json(&answer.to_string());
    }
    let versions = answer["versions"].as_array().map_or(&[][..], Vec::as_slice);
    if versions.is_empty() {
        output::say("it comes from a folder of the server and was never pushed, so it has no versions");
        return Ok(());
    }
    let keys = ["version", "createdAt", "createdBy", "hash"];
    let row = |version: &Value| keys.map(|key| cell(&version[key])).to_vec();
    output::line(&output::table(&["VERSION", "PUSHED", "BY", "HASH"], versions.iter().map(row).collect()))
}

fn row(workflow: &Value) -> Vec<String> {
    let keys = ["workflowId", "name", "version", "createdAt", "createdBy", "source"];
    keys.map(|key| cell(&workflow[key])).to_vec()
}

async fn show(client: &Client, workflow: &str, version: Option<u64>) -> anyhow::Result<()> {
    output::json(Definition::fetch(client, workflow, version).await?.answer.text())
}

/// A definition on the server.
pub(crate) struct Definition {
    answer: Answer,
    /// The definition, read.
    pub(crate) value: Value,
    /// Its version; `None` if it was never pushed but comes from a folder of the server.
    pub(crate) version: Option<u64>,
}

impl Definition {
    /// The latest version of a workflow, or the one that is asked for.
    pub(crate) async fn fetch(client: &Client, workflow: &str, version: Option<u64>) -> anyhow::Result<Self> {
        let query = version.map_or(String::new(), |version| format!("?version={version}"));
        let answer = client.fetch(&format!("/v1/workflows/{}{query}", encoded(workflow))).await?;
        let value = serde_json::from_str(answer.text())
            .context("the server answered with a definition that is not JSON; is the URL right?")?;
        let version = answer.header(VERSION_HEADER).and_then(|version| version.parse().ok());
        Ok(Self { answer, value, version })
    }
}

/// The definition that a user means: of a file, or the latest of a workflow.
async fn named(args: &ClientArgs, target: &str) -> anyhow::Result<Value> {
    if names_file(target) {
        return DefinitionFile::read(target.as_ref())?.value();
    }
    Ok(Definition::fetch(&Client::new(args)?, target, None).await?.value)
}
