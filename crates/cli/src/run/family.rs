//! A run with the runs that it started, as a server tells them.

use std::collections::{HashMap, VecDeque};

use serde_json::Value;

use super::snapshot;
use crate::client::{Client, encoded};
use crate::workflow::Definition;

/// Children of children of children are shown, and no further.
const DEPTH_MAX: usize = 3;

/// Runs that are fetched below the first: each is a request.
pub(super) const DESCENDANTS_MAX: usize = 50;

/// Versions of a workflow that are looked through for the one that a run began with.
const VERSIONS_MAX: usize = 10;

/// A run and what it started. The first member is the run that was asked for.
pub(super) struct Family {
    pub(super) members: Vec<Member>,
}

/// One run.
pub(super) struct Member {
    /// As the server shows it.
    pub(super) snapshot: Value,
    /// Its definition, if the server still has it.
    pub(super) definition: Option<Value>,
    depth: usize,
}

/// A run that a node started, as its parent knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChildRef {
    pub(super) run: String,
    pub(super) node: String,
    pub(super) status: String,
}

impl Family {
    /// Fetches a run and its descendants. A descendant that can't be fetched is left out.
    pub(super) async fn fetch(
        client: &Client,
        run: &str,
        definitions: &mut Definitions,
    ) -> anyhow::Result<Self> {
        let mut family = Self { members: vec![Member::of(snapshot(client, run).await?, 0)] };
        let mut waiting: VecDeque<(String, usize)> = family.members[0].waiting();
        while let Some((run, depth)) = waiting.pop_front() {
            if family.members.len() > DESCENDANTS_MAX {
                break;
            }
            let known = family.find(&run).is_some();
            if let (false, Ok(snapshot)) = (known, snapshot(client, &run).await) {
                let member = Member::of(snapshot, depth);
                waiting.extend(member.waiting());
                family.members.push(member);
            }
        }
        for member in &mut family.members {
            member.definition = definitions.find(client, &member.snapshot).await;
        }
        Ok(family)
    }

    /// The member with this id.
    pub(super) fn find(&self, run: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.snapshot["runId"] == run)
    }
}

impl Member {
    pub(super) fn of(snapshot: Value, depth: usize) -> Self {
        Self { snapshot, definition: None, depth }
    }

    /// Its children that are to be fetched.
    fn waiting(&self) -> VecDeque<(String, usize)> {
        let depth = self.depth + 1;
        let children = self.children().into_iter().filter(|_| depth <= DEPTH_MAX);
        children.take(DESCENDANTS_MAX).map(|child| (child.run, depth)).collect()
    }

    /// The runs that its nodes started.
    pub(super) fn children(&self) -> Vec<ChildRef> {
        let listed = self.snapshot["childRuns"].as_array().map_or(&[][..], Vec::as_slice);
        let word = |child: &Value, key: &str| child[key].as_str().unwrap_or_default().to_owned();
        let listed = listed.iter().map(|child| ChildRef {
            run: word(child, "runId"),
            node: word(child, "nodeId"),
            status: word(child, "status"),
        });
        listed.filter(|child| !child.run.is_empty()).collect()
    }

    /// Whether nothing more will happen to it.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.snapshot["status"].as_str(), Some("completed" | "failed" | "cancelled"))
    }
}

/// Definitions that were met already, by workflow.
#[derive(Default)]
pub(crate) struct Definitions {
    known: HashMap<String, Vec<Value>>,
}

impl Definitions {
    /// The definition that a run began with: the newest whose nodes are those of the run.
    pub(crate) async fn find(&mut self, client: &Client, snapshot: &Value) -> Option<Value> {
        let workflow = snapshot["workflowId"].as_str()?;
        let known = self.known.get(workflow).map_or(&[][..], Vec::as_slice);
        if let Some(definition) = known.iter().find(|definition| fits(definition, snapshot)) {
            return Some(definition.clone());
        }
        let found = newest_fitting(client, workflow, snapshot).await?;
        self.known.entry(workflow.to_owned()).or_default().push(found.clone());
        Some(found)
    }
}

async fn newest_fitting(client: &Client, workflow: &str, snapshot: &Value) -> Option<Value> {
    let latest = Definition::fetch(client, workflow, None).await.ok()?;
    if fits(&latest.value, snapshot) {
        return Some(latest.value);
    }
    let listed = client.get(&format!("/v1/workflows/{}/versions", encoded(workflow))).await.ok()?;
    let versions = listed["versions"].as_array()?.iter().filter_map(|listed| listed["version"].as_u64());
    for version in versions.filter(|version| Some(*version) != latest.version).take(VERSIONS_MAX) {
        let older = Definition::fetch(client, workflow, Some(version)).await.ok()?;
        if fits(&older.value, snapshot) {
            return Some(older.value);
        }
    }
    None
}

/// Whether a run has the nodes of a definition, and no others.
fn fits(definition: &Value, snapshot: &Value) -> bool {
    let (Some(nodes), Some(states)) = (definition["nodes"].as_array(), snapshot["nodeStates"].as_object())
    else {
        return false;
    };
    let same = |node: &Value| {
        let state = node["id"].as_str().and_then(|id| states.get(id));
        state.is_some_and(|state| state["typeId"] == node["typeId"])
    };
    nodes.len() == states.len() && nodes.iter().all(same)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_definition_fits_the_runs_that_have_its_nodes() {
        let definition = json!({ "nodes": [{ "id": "a", "typeId": "k" }, { "id": "b", "typeId": "k" }] });
        let run = |states: Value| json!({ "nodeStates": states });
        assert!(fits(&definition, &run(json!({ "a": { "typeId": "k" }, "b": { "typeId": "k" } }))));
        for states in [
            json!({ "a": { "typeId": "k" } }),
            json!({ "a": { "typeId": "k" }, "b": { "typeId": "other" } }),
            json!({ "a": { "typeId": "k" }, "c": { "typeId": "k" } }),
            json!(null),
        ] {
            assert!(!fits(&definition, &run(states.clone())), "{states}");
        }
        assert!(!fits(&json!("none"), &run(json!({}))));
    }

    #[test]
    fn children_are_fetched_to_a_depth() {
        let snapshot = json!({ "childRuns": [{ "runId": "r1", "nodeId": "n", "status": "running" }, {}] });
        let child = ChildRef { run: "r1".into(), node: "n".into(), status: "running".into() };
        assert_eq!(Member::of(snapshot.clone(), 0).children(), [child]);
        assert_eq!(Member::of(snapshot.clone(), 2).waiting(), [("r1".to_owned(), 3)]);
        assert!(Member::of(snapshot, 3).waiting().is_empty());
    }
}
