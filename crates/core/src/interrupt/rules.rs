//! What the settings of a gate say beside what is asked: who may not decide, whose accepts it takes, and what an edited
//! artifact looks like. They are recorded with the question, so that a later definition changes nothing of it.

use serde::{Deserialize, Serialize};

use super::respondent::Named;
use crate::definition::names;
use crate::fields::{Fields, Findings};
use crate::{Json, Schema, limits};

/// The rules of an approval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApprovalRules {
    /// Whoever started the run may not decide.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_starter: bool,
    /// Whoever asks may not decide.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_asker: bool,
    /// Groups of which somebody has to accept, each somebody else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub across_groups: Vec<String>,
    /// What an edited artifact has to look like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_schema: Option<Json>,
}

impl ApprovalRules {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Reads `settings.abide.approval`.
    pub(crate) fn read(json: &Json, place: &str, findings: &mut Findings) -> Self {
        let Some(mut fields) = Fields::of(json, place, findings) else { return Self::default() };
        let not_starter = fields.optional_flag("notStarter").unwrap_or(false);
        let not_asker = fields.optional_flag("notAsker").unwrap_or(false);
        let across_groups =
            names(&mut fields, "acrossGroups", limits::PRINCIPAL_CHARS_MAX, limits::ACROSS_GROUPS_MAX);
        for (at, group) in across_groups.iter().enumerate() {
            let prefixed = !matches!(Named::of(group), Named::Principal(_));
            if prefixed || group.trim() != group {
                let place = fields.place(&format!("acrossGroups[{at}]"));
                let message = format!(
                    "'{group}' is no group's name: give it without a prefix and without spaces around it"
                );
                fields.findings().objection(place, message);
            }
        }
        let twice = across_groups.iter().enumerate().any(|(at, name)| across_groups[..at].contains(name));
        if twice {
            let place = fields.place("acrossGroups");
            fields.findings().objection(place, "a group stands there twice; remove one");
        }
        fields.finish();
        Self { not_starter, not_asker, across_groups, artifact_schema: None }
    }

    /// Reads `settings.abide.artifactSchema`.
    pub(crate) fn read_schema(json: Json, place: &str, findings: &mut Findings) -> Option<Json> {
        let found = match Schema::compile(&json) {
            _ if json.type_name() != "object" => "a JSON Schema is expected, which is an object".to_owned(),
            Err(message) => message,
            Ok(_) => return Some(json),
        };
        findings.objection(place, found);
        None
    }

    /// Why somebody may not decide, whoever else may. A branch has several starters.
    pub fn bars(&self, who: &str, starters: &[String], askers: &[String]) -> Option<&'static str> {
        if self.not_starter && starters.iter().any(|starter| starter == who) {
            return Some("whoever started the run may not decide here; let somebody else do it");
        }
        if self.not_asker && askers.iter().any(|asker| asker == who) {
            return Some("whoever asks may not decide here; let somebody else do it");
        }
        None
    }
}
