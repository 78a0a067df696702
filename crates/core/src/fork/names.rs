//! Names of one journal, and what they are in another.
//!
//! An interrupt, an artifact, a run, a task, a plan and a conversation whose id its run made have names that nobody makes
//! up: they can be told from any other text, wherever in a payload they stand.

use std::collections::HashMap;

use crate::event::ArtifactCreated;
use crate::planning::{ID_DIGITS, PlanId, TaskId};
use crate::{InterruptId, RunId};

/// What begins such a name, and how long it is.
const FORMS: [(&str, usize); 6] = [
    ("int-", 4 + 2 * InterruptId::BYTES),
    ("art-", 4 + 2 * ArtifactCreated::ID_BYTES),
    ("run-", 4 + 36),
    ("conv-", 5 + 32),
    (TaskId::PREFIX, TaskId::PREFIX.len() + ID_DIGITS),
    (PlanId::PREFIX, PlanId::PREFIX.len() + ID_DIGITS),
];

/// Names of one journal, and what they are in another.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names(HashMap<String, String>);

impl Names {
    /// From now on this is called that.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "most names are made for this, or are as small as a reference"
    )]
    pub(crate) fn add(&mut self, from: impl ToString, to: impl ToString) {
        self.0.insert(from.to_string(), to.to_string());
    }

    /// A run, as it is called in the other journal.
    pub(crate) fn run(&self, id: RunId) -> Option<RunId> {
        self.0.get(&id.to_string())?.parse().ok()
    }

    /// A text in the names of the other journal.
    pub(crate) fn rename(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(dash) = rest.find('-') {
            let named = FORMS.iter().find_map(|(prefix, length)| {
                let at = (dash + 1).checked_sub(prefix.len())?;
                let name = rest.get(at..at + length).filter(|name| name.starts_with(prefix))?;
                Some((at, self.0.get(name)?, at + length))
            });
            let next = match named {
                Some((at, name, end)) => {
                    out.push_str(&rest[..at]);
                    out.push_str(name);
                    end
                }
                None => {
                    out.push_str(&rest[..=dash]);
                    dash + 1
                }
            };
            rest = &rest[next..];
        }
        out.push_str(rest);
        out
    }
}
