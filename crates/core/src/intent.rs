//! Intents: runs that somebody outside drives by hand as a whole, in OpenIntent's words.
//!
//! An intent is a run with one node, `self`, that is done by hand. What it is about are its inputs; what it has come to is
//! its variable `state`, which whoever drives it patches. It is suspended by what that node asks, and by nothing else: the
//! record of a suspension stands in the state at `_suspension`, and beside it what became of it, which only the run itself
//! writes. Runs of phases are driven in the same way. Of a run whose nodes do their own work only what is shown is an
//! intent's.
//!
//! | noun | file | what it is |
//! |---|---|---|
//! | [`Intent`] | here | what a run keeps because it is driven so |
//! | [`IntentCommand`] | `command.rs` | what may be asked |
//! | [`Patch`](crate::event::Patch) | `patch.rs` | a change of the state |
//! | where it is sent | `status.rs` | from where to where, as one table |
//! | `Record` | `record.rs` | what a suspension is about, as it is written |
//! | suspension | `suspension.rs` | how a record becomes a question, and an answer |
//! | [`Lease`] | `lease.rs` | a part of it that somebody has to themselves |
//! | [`Policy`] | `policy.rs` | what has to be kept to by those who work on it |
//! | [`Access`] | `access.rs` | who may see it and work on it |
//! | [`Request`] | `request.rs` | an approval or a look that people are asked for beside it |
//! | [`Suspended`] | `view.rs` | how what is asked looks in OpenIntent's words |

mod access;
mod command;
mod fold;
mod lease;
mod patch;
mod policy;
mod record;
mod request;
mod status;
mod suspension;
mod view;
mod wiring;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use access::{Access, AccessEntry, Permission};
pub use command::{Actor, Driver, IntentCommand, IntentSent, LeaseAct};
pub use lease::Lease;
pub use policy::{CompletionMode, Policy, WriteScope};
pub(crate) use request::is_request;
pub use request::{Request, RequestKind, RequestStatus};
pub use suspension::TAKEN_BACK;
pub use view::{Suspended, SuspendedAs};

use crate::{Graph, Hold, InterruptId, Json, JsonMap, Millis, NodeIx, Run, SELF_NODE};

/// The id of the definition that intents follow.
pub const INTENT_WORKFLOW: &str = "abide-intent";

/// The variable that holds the state.
pub const STATE: &str = "state";

/// Where in the state a suspension's record stands.
pub const SUSPENSION: &str = "_suspension";

/// The definition that intents follow.
const DEFINITION: &str = concat!(
    r#"{"id":"abide-intent","name":"Intent","version":"1","triggers":[],"metadata":{},"settings":{},"variables":["#,
    r#"{"name":"title","type":"string","required":true},{"name":"description","type":"string"},"#,
    r#"{"name":"created_by","type":"string"},{"name":"constraints","type":"object"},"#,
    r#"{"name":"governance_policy","type":"object"},{"name":"state","type":"object"}],"#,
    r#""nodes":[{"id":"self","typeId":"core.byHand","name":"Intent","position":{"x":0,"y":0},"config":{},"inputs":{}}],"#,
    r#""edges":[]}"#
);

/// The definition that intents follow.
pub fn intent_graph() -> Graph {
    Graph::read(DEFINITION.as_bytes()).expect("the definition is written above")
}

/// What a run keeps because somebody outside drives it as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Intent {
    /// Rises with every change of its state, of where it stands, and of what it depends on. Reminders change nothing.
    pub version: u64,
    /// When it rose last.
    #[serde(default)]
    pub updated_at: Millis,
    /// The agents that are to work on it, each with its part and since when.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub agents: BTreeMap<String, Assigned>,
    /// Parts of it that somebody has or had to themselves.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub leases: BTreeMap<String, Lease>,
    /// What has to be kept to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Box<Policy>>,
    /// Who said so; nothing if it was made with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_by: Option<String>,
    /// Who may see it and work on it, if somebody says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Box<Access>>,
    /// What it is or was suspended for last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) asked: Option<AskedLast>,
    /// What people are or were asked beside it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<InterruptId, Request>,
}

/// An agent that is to work on an intent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Assigned {
    /// As what.
    pub role: String,
    /// Since when.
    pub at: Millis,
    /// Which event says so.
    pub sequence: u64,
}

/// What an intent is or was suspended for last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AskedLast {
    /// What the record calls it; nothing if there is none yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    /// The question; nothing if it was not asked yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) interrupt: Option<InterruptId>,
    /// Nobody has answered in time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) expired: bool,
    /// It is over, whatever became of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) closed: bool,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) closed_at: Option<Millis>,
}

impl Intent {
    /// What is suspended for at the moment, if nothing says what it is about.
    pub(crate) fn provisional(&self) -> Option<InterruptId> {
        let asked = self.asked.as_ref().filter(|asked| !asked.closed && asked.id.is_none());
        asked.and_then(|asked| asked.interrupt)
    }

    /// The record that waits for the intent to be suspended, by what it is called.
    pub(crate) fn pending_record(&self) -> Option<&str> {
        let asked = self.asked.as_ref().filter(|asked| !asked.closed && asked.interrupt.is_none());
        asked.and_then(|asked| asked.id.as_deref())
    }
}

/// What may be read.
impl Run {
    /// What it keeps because somebody outside drives it as a whole; nothing if nobody does, or ever did anything.
    pub fn intent(&self) -> Option<&Intent> {
        self.state.intent.as_deref()
    }

    /// The node of a run that somebody outside drives as a whole.
    pub fn driven_node(&self) -> Option<NodeIx> {
        let ix = self.graph.node(SELF_NODE).filter(|&ix| self.is_by_hand(ix));
        ix.filter(|_| self.state.group.is_none() && self.graph.len() == 1)
    }

    /// Whether it was made as an intent, and follows no workflow of anybody's.
    pub fn is_intent(&self) -> bool {
        *self.graph.workflow_id == *INTENT_WORKFLOW
    }

    /// Its version for those who drive it. A run that nobody has touched so has the first.
    pub fn intent_version(&self) -> u64 {
        self.intent().map_or(1, |intent| intent.version)
    }

    /// What it has come to: what those who drive it made of it, or else what its nodes did.
    pub fn intent_state(&self) -> JsonMap {
        let variables = self.variables();
        if self.driven_node().is_none() {
            return variables.clone();
        }
        let object = |name: &str| variables.get(name).and_then(|value| value.parse::<JsonMap>().ok());
        object(STATE).or_else(|| object(crate::hand::INITIAL_STATE)).unwrap_or_default()
    }

    /// One of the texts that an intent was made with.
    pub fn intent_text(&self, name: &str) -> Option<String> {
        self.inputs().get(name).and_then(|text| text.parse().ok())
    }

    /// Whether people hold it, which no dependency will ever end.
    pub(crate) fn is_held_by_people(&self) -> bool {
        matches!(self.state.hold, Hold::Pausing | Hold::Paused | Hold::Stopped)
    }

    /// When the last question that it was suspended for was closed, if it is this one.
    pub fn closed_at(&self, id: InterruptId) -> Option<Millis> {
        self.intent()?.asked.as_ref().filter(|asked| asked.interrupt == Some(id))?.closed_at
    }

    /// What the record of a suspension in the state calls it, if there is one.
    pub(crate) fn record_id(&self) -> Option<String> {
        self.state_value(SUSPENSION)?.parse::<JsonMap>().ok()?.get("id")?.parse().ok()
    }

    /// A value of the state.
    pub(crate) fn state_value(&self, key: &str) -> Option<Json> {
        self.intent_state().remove(key)
    }
}
