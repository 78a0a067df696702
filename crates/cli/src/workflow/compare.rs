//! `abide workflow diff`: what changed between two versions, or between the server and a file.

use serde_json::{Value, json};

use super::Definition;
use crate::args::ClientArgs;
use crate::client::Client;
use crate::definition_diff::{Change, diff, render};
use crate::definition_file::{DefinitionFile, names_file};
use crate::draw::words::legible;
use crate::exit::{Exit, Failure};
use crate::output;

/// One side of a comparison, and what to call it.
struct Side {
    name: String,
    definition: Value,
}

pub(super) async fn compare(
    client: &Client,
    args: &ClientArgs,
    target: &str,
    from: Option<u64>,
    to: Option<u64>,
) -> anyhow::Result<()> {
    let sides = if names_file(target) {
        Some(with_file(client, target, from, to).await?)
    } else {
        between_versions(client, target, from, to).await?
    };
    let Some((old, new)) = sides else {
        let target = legible(target);
        output::say(&format!("{target} has no version before its first; compare a file with it instead"));
        return if args.json { output::json(&shown(None, None, &[])) } else { Ok(()) };
    };
    let changes = diff(&old.definition, &new.definition);
    if args.json {
        return output::json(&shown(Some(&old.name), Some(&new.name), &changes));
    }
    output::page(&page(&old, &new, &changes))
}

async fn with_file(
    client: &Client,
    path: &str,
    from: Option<u64>,
    to: Option<u64>,
) -> anyhow::Result<(Side, Side)> {
    if to.is_some() {
        let message = "a file is the new side already: leave --to out, or name the workflow by its id";
        return Err(Failure::new(Exit::Refused, message).into());
    }
    let file = DefinitionFile::read(path.as_ref())?;
    let old = fetch(client, &file.id()?, from).await?;
    Ok((old, Side { name: path.to_owned(), definition: file.value()? }))
}

/// The two versions, or nothing if there is none before the first.
async fn between_versions(
    client: &Client,
    workflow: &str,
    from: Option<u64>,
    to: Option<u64>,
) -> anyhow::Result<Option<(Side, Side)>> {
    let latest = Definition::fetch(client, workflow, to).await?;
    let before = latest.version.and_then(|version| version.checked_sub(1)).filter(|version| *version > 0);
    let Some(from) = from.or(before) else { return Ok(None) };
    let old = fetch(client, workflow, Some(from)).await?;
    Ok(Some((old, Side::of(workflow, latest))))
}

async fn fetch(client: &Client, workflow: &str, version: Option<u64>) -> anyhow::Result<Side> {
    Ok(Side::of(workflow, Definition::fetch(client, workflow, version).await?))
}

impl Side {
    fn of(workflow: &str, definition: Definition) -> Self {
        let version = definition.version.map_or(String::new(), |version| format!(" version {version}"));
        Self { name: format!("{workflow}{version}"), definition: definition.value }
    }
}

fn page(old: &Side, new: &Side, changes: &[Change]) -> String {
    format!("--- {}\n+++ {}\n{}", legible(&old.name), legible(&new.name), render(changes))
}

fn shown(old: Option<&str>, new: Option<&str>, changes: &[Change]) -> String {
    json!({ "from": old, "to": new, "changes": changes }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sides() -> (Side, Side) {
        let side = |name: &str, definition| Side { name: name.to_owned(), definition };
        let node = |kind: &str| json!({ "id": "a", "typeId": kind });
        let old = json!({ "id": "orders", "nodes": [node("core.noop")], "edges": [] });
        let new = json!({ "id": "orders", "nodes": [node("core.delay"), { "id": "b" }], "edges": [] });
        (side("orders version 2", old), side("\u{1b}orders.yaml", new))
    }

    #[test]
    fn a_comparison_names_both_sides() {
        let (old, new) = sides();
        let changes = diff(&old.definition, &new.definition);
        insta::assert_snapshot!(page(&old, &new, &changes), @r#"
        --- orders version 2
        +++ �orders.yaml
        ~ node "a"
            typeId: "core.noop" → "core.delay"
        + node "b"
        1 added, 0 removed, 1 changed
        "#);
    }

    #[test]
    fn a_comparison_as_json_has_every_change() {
        let (old, new) = sides();
        let changes = diff(&old.definition, &new.definition);
        let shown: Value = serde_json::from_str(&shown(Some("a"), Some("b"), &changes)).unwrap();
        let field = json!({ "path": "typeId", "old": "\"core.noop\"", "new": "\"core.delay\"" });
        let changed = json!({ "change": "changed", "what": "node \"a\"", "fields": [field] });
        let added = json!({ "change": "added", "what": "node \"b\"", "value": "" });
        assert_eq!(shown, json!({ "from": "a", "to": "b", "changes": [changed, added] }));
    }
}
