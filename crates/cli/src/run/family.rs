//! A run with the runs that it started, as a server tells them.

use std::collections::{HashMap, VecDeque};

use serde_json::Value;

use super::snapshot;
use crate::client::{Client, encoded};
use crate::draw::drawable;

/// Children of children of children are shown, and no further.
const DEPTH_MAX: usize = 3;

/// Runs that are fetched below the first: each is a request.
pub(super) const DESCENDANTS_MAX: usize = 50;

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

/// Definitions that were met already, by their hashes.
#[derive(Default)]
pub(crate) struct Definitions {
    known: HashMap<String, Value>,
}

impl Definitions {
    /// The definition that a run is pinned to.
    pub(crate) async fn find(&mut self, client: &Client, snapshot: &Value) -> Option<Value> {
        let hash = snapshot["definitionHash"].as_str().unwrap_or_default();
        if let Some(known) = self.known.get(hash) {
            return Some(known.clone());
        }
        let run = snapshot["runId"].as_str()?;
        let found = client.get(&format!("/v1/runs/{}/definition", encoded(run))).await.ok()?;
        let found = drawable(found);
        if !hash.is_empty() {
            self.known.insert(hash.to_owned(), found.clone());
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn children_are_fetched_to_a_depth() {
        let snapshot = json!({ "childRuns": [{ "runId": "r1", "nodeId": "n", "status": "running" }, {}] });
        let child = ChildRef { run: "r1".into(), node: "n".into(), status: "running".into() };
        assert_eq!(Member::of(snapshot.clone(), 0).children(), [child]);
        assert_eq!(Member::of(snapshot.clone(), 2).waiting(), [("r1".to_owned(), 3)]);
        assert!(Member::of(snapshot, 3).waiting().is_empty());
    }
}
