//! The names of a workflow's phases, written out where one is named by its title.

use std::collections::{BTreeMap, BTreeSet};

use crate::excerpt::excerpt;
use crate::fields::Findings;
use crate::{Json, limits};

/// Phases of one title that are told; whoever reads that looks for the others.
const SHOWN: usize = 5;

/// What the phases are called.
pub(super) struct Names {
    names: BTreeSet<String>,
    /// Every name that a title may stand for, in the order of the definition.
    titled: BTreeMap<String, Vec<Json>>,
    /// How many bytes names may still take up in place of titles, or nothing if that is over: a short title that is
    /// named everywhere may stand for a long name.
    bytes_left: Option<usize>,
}

impl Names {
    pub(super) fn of(phases: &[(String, Json)]) -> Self {
        let names = phases.iter().map(|(name, _)| name.clone()).collect();
        let mut titled: BTreeMap<String, Vec<Json>> = BTreeMap::new();
        for (name, phase) in phases {
            if let Some(title) = title(phase) {
                titled.entry(title).or_default().push(Json::of(name));
            }
        }
        Self { names, titled, bytes_left: Some(limits::DEFINITION_BYTES_MAX) }
    }

    /// What a phase depends on, by names. A list that is too long is refused before anything is made of it.
    pub(super) fn dependencies(
        &mut self,
        mut list: Vec<Json>,
        place: &str,
        findings: &mut Findings,
    ) -> Vec<Json> {
        if list.len() > limits::DEPENDENCIES_MAX {
            let message = format!("a phase depends on at most {} others", limits::DEPENDENCIES_MAX);
            findings.objection(place, message);
            list.truncate(limits::DEPENDENCIES_MAX);
        }
        let named = |(at, on)| self.name(on, || format!("{place}[{at}]"), findings);
        list.into_iter().enumerate().map(named).collect()
    }

    /// The name that is meant. A name is a name, though another phase may have it for its title; and what is neither is
    /// told when the phases are looked at together.
    fn name(&mut self, on: Json, place: impl Fn() -> String, findings: &mut Findings) -> Json {
        let Ok(title) = on.parse::<String>() else { return on };
        let meant = self.titled.get(&title).filter(|_| !self.names.contains(&title));
        let Some((last, others)) = meant.and_then(|meant| meant.split_last()) else { return on };
        if !others.is_empty() {
            let message = format!(
                "several phases have the title '{}'; name the one that is meant: {}",
                excerpt(&title),
                shown(others, last)
            );
            findings.objection(place(), message);
        }
        let name = last.clone();
        self.bytes_left = self.bytes_left.and_then(|left| left.checked_sub(name.text().len()));
        if self.bytes_left.is_some() { name } else { on }
    }

    /// Refuses names that are too long for as often as their titles are named.
    pub(super) fn check_size(&self, findings: &mut Findings) {
        if self.bytes_left.is_none() {
            let most = limits::DEFINITION_BYTES_MAX;
            let message = format!(
                "written out where their titles are named, the names of the phases take more than {most} bytes; \
                 shorten them"
            );
            findings.objection("workflow", message);
        }
    }
}

fn title(phase: &Json) -> Option<String> {
    phase.parse::<crate::JsonMap>().ok()?.get("title")?.parse().ok()
}

fn shown(others: &[Json], last: &Json) -> String {
    let names = others.iter().chain([last]).take(SHOWN);
    let mut names: Vec<String> = names.map(|name| excerpt(name.text().trim_matches('"'))).collect();
    if others.len() >= SHOWN {
        names.push("…".to_owned());
    }
    names.join(", ")
}
