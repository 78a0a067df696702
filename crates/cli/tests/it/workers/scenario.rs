//! A scenario as it is written, and what can be known of it without playing it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::support::repository;

/// A scenario.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    /// What it shows, for its readers.
    #[serde(rename = "about")]
    _about: String,
    agent: Agent,
    program: Vec<Value>,
    pub(super) changed: Option<Vec<Value>>,
    /// The code from before the change is put back.
    #[serde(default)]
    pub(super) restored: bool,
    #[serde(default)]
    others: BTreeMap<String, Vec<Value>>,
    /// The answer to each question; none is given to those with null.
    pub(super) people: BTreeMap<String, Value>,
    pub(super) expect: Vec<Expected>,
    #[serde(skip)]
    pub(crate) path: PathBuf,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Agent {
    idempotent: bool,
    #[serde(default)]
    retry: Value,
}

/// How a run may end.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expected {
    pub(super) status: String,
    pub(super) output: Option<Map<String, Value>>,
    pub(super) error: Option<String>,
}

/// A step of a program.
pub(super) struct Step {
    /// What its effects are written under.
    pub(super) name: String,
    pub(super) idempotent: bool,
    /// It fails, so it is recorded only when the program gets over that.
    pub(super) fails: bool,
}

impl Scenario {
    pub(crate) fn read(name: &str) -> Self {
        let path = repository().join(format!("sdk/scenarios/{name}.json"));
        let text = std::fs::read_to_string(&path).unwrap();
        let read: Self = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        Self { path, ..read }
    }

    /// The names of all scenarios that there are.
    pub(super) fn names() -> Vec<String> {
        let folder = std::fs::read_dir(repository().join("sdk/scenarios")).unwrap();
        let paths = folder.map(|entry| entry.unwrap().path());
        let scenarios = paths.filter(|path| path.extension().is_some_and(|end| end == "json"));
        let mut names: Vec<String> =
            scenarios.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
        names.sort();
        names
    }

    /// How many attempts an agent has.
    pub(super) fn attempts(&self) -> usize {
        1 + self.agent.retry["maxRetries"].as_u64().map_or(0, |retries| usize::try_from(retries).unwrap())
    }

    /// Whether runs of it wait for a time at some place.
    pub(super) fn waits_for_time(&self) -> bool {
        let text = serde_json::to_string(&self.program).unwrap();
        text.contains("\"sleep\":") || self.people.values().any(Value::is_null)
    }

    /// The step that a point lies in, and the phase of it: `main/2.0/effect`.
    pub(super) fn step_around<'a>(&self, point: &'a str) -> Option<(Step, &'a str)> {
        let mut parts = point.split('/');
        let (program, place, phase) = (parts.next()?, parts.next()?, parts.next()?);
        ["begun", "effect"].contains(&phase).then(|| (self.step(self.op(program, place)), phase))
    }

    /// Every step of a program, and of what is inside its operations.
    pub(super) fn steps(&self, program: &str) -> Vec<Step> {
        let mut found = Vec::new();
        self.collect(self.programs(program), &mut found);
        found
    }

    fn collect(&self, ops: &[Value], found: &mut Vec<Step>) {
        for op in ops {
            if op["step"].is_string() {
                found.push(self.step(op));
            }
            let branches = op["parallel"].as_array().into_iter().flatten();
            let inside = ["try", "do", "else"].iter().map(|key| &op[*key]).chain(branches);
            inside.filter_map(Value::as_array).for_each(|ops| self.collect(ops, found));
        }
    }

    fn step(&self, op: &Value) -> Step {
        Step {
            name: op["as"].as_str().unwrap_or_else(|| panic!("a step is kept under a name: {op}")).to_owned(),
            idempotent: op["idempotent"].as_bool().unwrap_or(self.agent.idempotent),
            fails: op["fails"].is_object(),
        }
    }

    fn programs(&self, name: &str) -> &[Value] {
        if name == "main" { &self.program } else { &self.others[name] }
    }

    /// The operation at a place.
    fn op(&self, program: &str, place: &str) -> &Value {
        let mut list = self.programs(program);
        let mut op = &Value::Null;
        for part in place.split('.') {
            list = match part {
                "do" | "else" => op[part].as_array().unwrap(),
                number => {
                    let number: usize = number.parse().unwrap();
                    // In a branch, the first number is the branch's.
                    match op["parallel"].as_array().filter(|branches| std::ptr::eq(list, branches.as_slice()))
                    {
                        Some(branches) => branches[number].as_array().unwrap(),
                        None => {
                            op = &list[number];
                            ["parallel", "try"]
                                .iter()
                                .find_map(|key| op[*key].as_array())
                                .map_or(&[], Vec::as_slice)
                        }
                    }
                }
            };
        }
        op
    }
}
