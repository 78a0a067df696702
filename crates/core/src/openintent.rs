//! Workflows as OpenIntent writes them (RFC-0024), translated into definitions of ours.
//!
//! Only what is read is translated: the bytes that a run is pinned to stay those that somebody wrote.
//!
//! | key | what becomes of it |
//! |---|---|
//! | `openintent` | has to be `"1.0"` |
//! | `info.name`, `info.version`, `info.description` | the definition's name and id, its version, its description |
//! | `workflow.*` | a node of kind `core.phase` each |
//! | `title`, `assign`, `depends_on`, `inputs`, `outputs`, `initial_state` | the phase's own; `depends_on` may name a title that one phase has |
//! | `description`, `constraints`, `attachments`, `cost_tracking` | kept with the phase for whoever does it: they change nothing |
//! | `skip_when`, `retry`, `leasing` | refused: a phase would be done otherwise than it says |
//! | `permissions` | refused unless it is `open`: what is closed would be open |
//! | `types` | written out where they are named; a name that nothing has is `any`; of a field only that it is there is looked at |
//! | `agents`, `llm` | nothing: they are about agents that Abide does not start |
//! | `governance.timeout_hours` | the run's timeout, which does not count the time that people take |
//! | `governance.access_review` | nothing: nobody can ask for access here |
//! | `governance.require_approval`, `max_cost_usd`, `escalation` | refused, unless they ask for nothing |
//! | `identity`, `verification` | refused, unless they ask for nothing: nobody's signature is checked |

mod names;
mod types;

use serde_json::json;

use crate::definition::Problem;
use crate::excerpt::excerpt;
use crate::fields::{Entries, Fields, Findings, ROOT};
use crate::{Json, JsonMap, limits};
use names::Names;
use types::Types;

/// The version of the format that is read.
const VERSION: &str = "1.0";

/// What tells such a workflow from a definition of ours.
const MARK: &str = "openintent";

/// The nodes of a definition of ours, as its problems are placed.
const NODES: &str = "nodes['";

/// Whether a definition is written so.
pub(crate) fn is_written_so(json: &Json) -> bool {
    json.type_name() == "object"
        && json.parse::<Entries>().is_ok_and(|Entries(entries)| entries.iter().any(|(key, _)| key == MARK))
}

/// The definition of ours that it stands for. What is wrong with it is told by where it is written.
pub(crate) fn translate(json: &Json, findings: &mut Findings) -> Option<Json> {
    let mut fields = Fields::of(json, ROOT, findings)?;
    let version = fields.text(MARK);
    if version.is_some_and(|version| version != VERSION) {
        fields.findings().objection(MARK, format!("version \"{VERSION}\" is read here; write that"));
    }
    let info = fields.required("info");
    let types = fields.optional_map("types").unwrap_or_default();
    let workflow = fields.required("workflow");
    let governance = fields.optional("governance");
    for key in ["agents", "llm"] {
        fields.optional_map(key);
    }
    for key in ["identity", "verification"] {
        refuse(&mut fields, key, "nobody's signature is checked here yet; remove it");
    }
    fields.finish();
    let types = Types::read(types, findings);
    let info = Info::read(&info?, findings)?;
    let nodes = phases(&workflow?, types, findings)?;
    let timeout_ms = governance.and_then(|json| governed(&json, findings));
    let settings: JsonMap = timeout_ms.map(|ms| ("timeout".to_owned(), Json::of(&ms))).into_iter().collect();
    let none: [Json; 0] = [];
    let mut whole = JsonMap::from([
        ("id".to_owned(), Json::of(&info.id)),
        ("name".to_owned(), Json::of(&info.name)),
        ("version".to_owned(), Json::of(&info.version)),
        ("nodes".to_owned(), Json::of(&nodes)),
        ("metadata".to_owned(), Json::of(&JsonMap::new())),
        ("settings".to_owned(), Json::of(&settings)),
    ]);
    for key in ["edges", "triggers", "variables"] {
        whole.insert(key.to_owned(), Json::of(&none));
    }
    whole.extend(info.description.map(|text| ("description".to_owned(), Json::of(&text))));
    Some(Json::of(&whole))
}

/// Places what was found in the translation where it was written.
pub(crate) fn place_back(findings: &mut Findings) {
    let Findings { problems, objections, .. } = findings;
    for Problem { place, .. } in problems.iter_mut().chain(objections) {
        if place == "nodes" {
            *place = "workflow".to_owned();
        }
        let Some((phase, rest)) = place.strip_prefix(NODES).and_then(|rest| rest.split_once("']")) else {
            continue;
        };
        let rest = rest.strip_prefix(".config").unwrap_or(rest);
        let rest =
            rest.replacen(".dependsOn", ".depends_on", 1).replacen(".initialState", ".initial_state", 1);
        *place = format!("workflow.{phase}{rest}");
    }
}

/// What has to come out of an intent whose state says so, with its types written out.
pub(crate) fn typed_outputs(types: JsonMap, outputs: &JsonMap, findings: &mut Findings) -> JsonMap {
    let mut types = Types::read(types, findings);
    types.outputs(&Json::of(outputs), "_io_outputs", findings).unwrap_or_default()
}

/// Refuses a key that would change what happens, unless it asks for nothing.
fn refuse(fields: &mut Fields<'_>, key: &'static str, message: &str) {
    let given = fields.optional(key);
    if given.is_some_and(|given| !matches!(given.text(), "false" | "{}" | "[]")) {
        let place = fields.place(key);
        fields.findings().objection(place, format!("'{key}' can't be kept to: {message}"));
    }
}

/// What a workflow is called.
struct Info {
    id: String,
    name: String,
    version: String,
    description: Option<String>,
}

impl Info {
    fn read(json: &Json, findings: &mut Findings) -> Option<Self> {
        let mut fields = Fields::of(json, "info", findings)?;
        let name = fields.text("name");
        // Who writes YAML writes 1.0 and means the text.
        let version = fields.optional("version");
        let version = version.map_or_else(|| "1".to_owned(), |it| it.parse().unwrap_or(it.text().to_owned()));
        let description = fields.optional_text("description");
        fields.finish();
        let name = name?;
        let Some(id) = slug(&name) else {
            findings.problem("info.name", "the workflow's id is made of it, so it needs a letter or a digit");
            return None;
        };
        Some(Self { id, name, version, description })
    }
}

/// A name as an id: what is no letter or digit of ASCII becomes a dash.
fn slug(name: &str) -> Option<String> {
    let parts = name.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|part| !part.is_empty());
    let joined = parts.collect::<Vec<_>>().join("-").to_ascii_lowercase();
    let begins = joined.starts_with(|c: char| c.is_ascii_lowercase());
    let id = if begins { joined.clone() } else { format!("w-{joined}") };
    (!joined.is_empty()).then(|| id.chars().take(limits::WORKFLOW_ID_CHARS_MAX).collect())
}

/// How long a run may take.
fn governed(json: &Json, findings: &mut Findings) -> Option<i64> {
    let mut fields = Fields::of(json, "governance", findings)?;
    let hours = fields.optional("timeout_hours");
    fields.optional("access_review");
    refuse(&mut fields, "require_approval", "let the agent of a phase ask, or use a core.approvalGate");
    refuse(&mut fields, "max_cost_usd", "nothing stops at a cost here; give a portfolio a budget");
    refuse(&mut fields, "escalation", "say in a phase's question who is told when nobody answers");
    let place = fields.place("timeout_hours");
    fields.finish();
    let hours = hours?;
    let ms = hours.parse::<f64>().ok().map(|hours| hours * 3_600_000.0);
    let ms = ms.filter(|ms| *ms >= 1.0 && *ms <= limits::RUN_TIMEOUT_MS_MAX as f64);
    if ms.is_none() {
        let most = limits::RUN_TIMEOUT_MS_MAX / 3_600_000;
        findings.objection(place, format!("a number of hours is expected, at most {most}"));
    }
    ms.map(|ms| ms as i64)
}

fn phases(json: &Json, mut types: Types, findings: &mut Findings) -> Option<Vec<Json>> {
    let entries = entries(json, findings)?;
    let mut names = Names::of(&entries);
    let phase = |(at, (name, json)): (usize, &(String, Json))| {
        let config = phase_config(name, json, &mut names, &mut types, findings)?;
        let title = config.get("title").cloned().unwrap_or_else(|| Json::of(name));
        let node = json!({
            "id": name, "typeId": "core.phase", "position": { "x": at * 200, "y": 0 }, "inputs": {},
        });
        let mut node: JsonMap = Json::of(&node).parse().ok()?;
        node.extend([("name".to_owned(), title), ("config".to_owned(), Json::of(&config))]);
        Some(Json::of(&node))
    };
    let nodes = entries.iter().enumerate().filter_map(phase).collect();
    types.check_size(findings);
    names.check_size(findings);
    Some(nodes)
}

/// The phases by their names. One whose name is too long is left out: the name is repeated wherever it is meant.
fn entries(json: &Json, findings: &mut Findings) -> Option<Vec<(String, Json)>> {
    if json.type_name() != "object" {
        findings.problem("workflow", "an object is expected here: each phase by its name");
        return None;
    }
    let Entries(mut entries) = json.parse().ok()?;
    if entries.len() > limits::NODES_MAX {
        findings.problem("workflow", format!("at most {} phases", limits::NODES_MAX));
        return None;
    }
    entries.retain(|(name, _)| is_short(name, findings));
    for (name, _) in entries.iter().filter(|(name, _)| name.contains('.') || name.starts_with('$')) {
        let message = "inputs are written phase.key, so a phase's name has no dot and begins with no $";
        findings.objection(format!("workflow.{name}"), message);
    }
    Some(entries)
}

fn is_short(name: &str, findings: &mut Findings) -> bool {
    let short = name.chars().count() <= limits::NODE_ID_CHARS_MAX;
    if !short {
        let most = limits::NODE_ID_CHARS_MAX;
        let message =
            format!("the name of a phase has at most {most} characters; shorten '{}'", excerpt(name));
        findings.problem("workflow", message);
    }
    short
}

fn phase_config(
    name: &str,
    json: &Json,
    names: &mut Names,
    types: &mut Types,
    findings: &mut Findings,
) -> Option<JsonMap> {
    let place = format!("workflow.{name}");
    let mut fields = Fields::of(json, place, findings)?;
    let (title, assign) = (fields.optional_text("title"), fields.text("assign"));
    let depends_on = fields.optional_list("depends_on");
    let place = fields.place("depends_on");
    let depends_on = depends_on.map(|list| names.dependencies(list, &place, fields.findings()));
    let mut config = JsonMap::new();
    for (key, ours) in [("inputs", "inputs"), ("initial_state", "initialState")] {
        let given = fields.optional_map(key);
        config.extend(given.map(|given| (ours.to_owned(), Json::of(&given))));
    }
    let outputs = fields.optional("outputs");
    let place = fields.place("outputs");
    let outputs = outputs.and_then(|outputs| types.outputs(&outputs, &place, fields.findings()));
    let mut about = JsonMap::new();
    for key in ["description", "constraints", "attachments", "cost_tracking"] {
        about.extend(fields.optional(key).map(|value| (key.to_owned(), value)));
    }
    refuse(&mut fields, "skip_when", "every phase is done; remove it, or use a workflow with a core.branch");
    refuse(&mut fields, "retry", "a phase that fails is not given to anybody else; remove it");
    refuse(&mut fields, "leasing", "whoever claims a phase has all of it until they give it back; remove it");
    let permissions = fields.optional("permissions");
    if permissions.is_some_and(|given| !is_open(&given)) {
        let place = fields.place("permissions");
        let message = "'permissions' can't be kept to: whoever may use the run may use the phase; write open, or remove it";
        fields.findings().objection(place, message);
    }
    fields.finish();
    config.extend(title.map(|title| ("title".to_owned(), Json::of(&title))));
    config.extend(assign.map(|assign| ("assign".to_owned(), Json::of(&assign))));
    config.extend(outputs.map(|outputs| ("outputs".to_owned(), Json::of(&outputs))));
    config.extend(depends_on.map(|list| ("dependsOn".to_owned(), Json::of(&list))));
    if !about.is_empty() {
        config.insert("about".to_owned(), Json::of(&about));
    }
    Some(config)
}

/// Whether nobody is kept from anything.
fn is_open(permissions: &Json) -> bool {
    let entries = permissions.parse::<Entries>().map(|Entries(entries)| entries);
    let policy = match entries.as_deref() {
        Ok([(key, policy)]) if key == "policy" => policy,
        _ => permissions,
    };
    policy.text() == "\"open\""
}
