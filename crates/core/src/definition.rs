//! A workflow definition as it is written: OpenWOP's closed schema.
//!
//! This file only knows the shape. Whether the parts fit together, and what this build can run, is checked
//! in `graph/`.

use crate::fields::{Fields, Findings, ROOT};
use crate::interrupt::ApprovalRules;
use crate::retry::RetryPolicy;
use crate::{Json, JsonMap, LadderCall, ResumeSettings, Retention, limits};

/// One thing wrong with a definition: where, and what to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// A path into the definition.
    pub place: String,
    /// What is wrong and how to mend it.
    pub message: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// A workflow definition. Unknown keys are refused at every level that is ours to read.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) nodes: Vec<NodeDefinition>,
    pub(crate) edges: Vec<EdgeDefinition>,
    pub(crate) variables: Vec<VariableDefinition>,
    pub(crate) channels: JsonMap,
    pub(crate) configurable_schema: Option<Json>,
    pub(crate) settings: Settings,
    pub(crate) status: Option<String>,
    /// New runs may be started: neither `isActive` nor `status` says otherwise.
    pub(crate) active: bool,
}

/// What the definition says about its runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) timeout_ms: Option<i64>,
    pub(crate) max_retries: Option<u32>,
    pub(crate) loopbacks_max: Option<u32>,
    /// For how long its runs are kept when they have ended.
    pub(crate) retention: Retention,
    /// How its runs are resumed when they are interrupted.
    pub(crate) resume: ResumeSettings,
}

/// A node as it is written.
#[derive(Clone, Debug)]
pub(crate) struct NodeDefinition {
    /// Where it stands, by its number.
    pub(crate) at: String,
    /// Where it stands, by its id if that can be shown.
    pub(crate) place: String,
    pub(crate) id: String,
    pub(crate) type_id: String,
    pub(crate) config: JsonMap,
    pub(crate) inputs: Vec<(String, PortDefinition)>,
    pub(crate) credentials_ref: Option<String>,
    pub(crate) abide: AbideSettings,
    pub(crate) disabled: bool,
    pub(crate) output_sensitivity: Vec<(String, bool)>,
    pub(crate) artifact_type: Option<String>,
    /// The agent that it is pinned to, as the definition describes it.
    pub(crate) pinned: Option<Json>,
    /// What it is called.
    pub(crate) name: Option<String>,
    /// Its settings as they are written.
    pub(crate) settings: Option<Json>,
}

/// What Abide itself reads from a node's settings.
#[derive(Clone, Debug, Default)]
pub(crate) struct AbideSettings {
    /// The node's start is on disk before it runs, and its end before anything after it starts.
    pub(crate) durable: bool,
    /// Whether doing it twice is as good as once. Left out, the kind decides.
    pub(crate) idempotent: Option<bool>,
    /// Whether what it does can be undone, if the definition says so.
    pub(crate) reversible: Option<bool>,
    /// How failed attempts are made again.
    pub(crate) retry: Option<RetryPolicy>,
    /// The node closes a loop, which may go back so many times.
    pub(crate) loop_max: Option<u32>,
    /// What people answer is never shown.
    pub(crate) sensitive: bool,
    /// How long the tokens of the node's interrupts are good for.
    pub(crate) token_ms: Option<i64>,
    /// How a question of the node goes on that nobody answers.
    pub(crate) ladder: Option<LadderCall>,
    /// The agent that asks.
    pub(crate) agent: Option<String>,
    /// Who may answer.
    pub(crate) respondents: Vec<String>,
    /// Who may not decide, whose accepts it takes, and what an edited artifact looks like.
    pub(crate) approval: ApprovalRules,
    /// How long a worker may take from one hand-out to its end.
    pub(crate) timeout_ms: Option<i64>,
}

/// Where a node's input comes from: `kind` says which of the other keys belong to it.
#[derive(Clone, Debug)]
pub(crate) struct PortDefinition {
    pub(crate) kind: String,
    pub(crate) value: Option<Json>,
    pub(crate) expression: Option<String>,
    pub(crate) node_id: Option<String>,
    pub(crate) output_key: Option<String>,
    pub(crate) variable_name: Option<String>,
    pub(crate) optional: Option<bool>,
}

/// An edge as it is written.
#[derive(Clone, Debug)]
pub(crate) struct EdgeDefinition {
    pub(crate) place: String,
    pub(crate) id: String,
    pub(crate) source: String,
    pub(crate) target: String,
    pub(crate) source_output: Option<String>,
    pub(crate) target_input: Option<String>,
    pub(crate) trigger_rule: Option<String>,
    pub(crate) condition: Option<ConditionDefinition>,
}

/// A condition as it is written.
#[derive(Clone, Debug)]
pub(crate) struct ConditionDefinition {
    pub(crate) kind: Option<String>,
    pub(crate) left: Option<String>,
    pub(crate) right: Option<Json>,
    pub(crate) expression: Option<String>,
}

/// A variable as it is declared.
#[derive(Clone, Debug)]
pub(crate) struct VariableDefinition {
    pub(crate) place: String,
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) required: bool,
    pub(crate) default_value: Option<Json>,
    pub(crate) sensitive: bool,
}

const TRIGGER_KINDS: &[&str] = &[
    "manual",
    "schedule",
    "webhook",
    "event",
    "artifact",
    "canvas",
    "envelope",
    "command",
    "chat-message",
    "channel-write",
];

impl Definition {
    /// Reads a definition. What is missing or misshapen is noted, and the rest is read all the same.
    pub(crate) fn read(json: &Json, findings: &mut Findings) -> Option<Self> {
        let mut fields = Fields::of(json, ROOT, findings)?;
        let (id, name, version) = (fields.text("id"), fields.text("name"), fields.text("version"));
        let nodes = fields.list("nodes");
        let edges = fields.list("edges");
        let triggers = fields.list("triggers");
        let variables = fields.list("variables");
        fields.map("metadata");
        let settings = Settings::read(&mut fields);
        let channels = fields.optional_map("channels").unwrap_or_default();
        let configurable_schema = fields.optional("configurableSchema");
        let active = fields.optional_flag("isActive") != Some(false);
        let status = fields.optional_text("status");
        for key in ["description", "type", "tenantId", "scopeId", "slug"] {
            fields.optional_text(key);
        }
        for key in ["groups", "defaults", "acceptsInheritedArtifacts", "createdAt", "updatedAt"] {
            fields.optional(key);
        }
        fields.finish();
        let numbered = |list: &[Json], name: &str| -> Vec<(String, Json)> {
            list.iter().enumerate().map(|(ix, json)| (format!("{name}[{ix}]"), json.clone())).collect()
        };
        let nodes = numbered(&nodes, "nodes")
            .iter()
            .filter_map(|(place, json)| NodeDefinition::read(json, place, findings))
            .collect();
        let edges = numbered(&edges, "edges")
            .iter()
            .filter_map(|(place, json)| EdgeDefinition::read(json, place, findings))
            .collect();
        let variables = numbered(&variables, "variables")
            .iter()
            .filter_map(|(place, json)| VariableDefinition::read(json, place, findings))
            .collect();
        numbered(&triggers, "triggers").iter().for_each(|(place, json)| check_trigger(json, place, findings));
        let active = active && matches!(status.as_deref(), None | Some("active"));
        let (id, name, version) = (id?, name?, version?);
        Some(Self {
            id,
            name,
            version,
            nodes,
            edges,
            variables,
            channels,
            configurable_schema,
            settings,
            status,
            active,
        })
    }
}

impl Settings {
    fn read(fields: &mut Fields<'_>) -> Self {
        let json = Json::of(&fields.map("settings"));
        let place = fields.place("settings");
        // OpenWOP leaves the settings open, so unknown keys are none of our business.
        let Some(mut settings) = Fields::of(&json, place, fields.findings()) else {
            return Self::default();
        };
        let small = |number: Option<i64>| number.and_then(|number| u32::try_from(number).ok());
        let (resume, retention) = own_settings(&mut settings);
        Self {
            timeout_ms: settings.optional_whole("timeout", 0..=i64::MAX).filter(|&ms| ms > 0),
            max_retries: small(settings.optional_whole("maxRetries", 0..=100)),
            loopbacks_max: small(settings.optional_whole("maxLoopbackIterations", 1..=i64::from(u32::MAX))),
            resume,
            retention,
        }
    }
}

/// A node's place shows its id up to this length: a message must not repeat megabytes.
const SHOWN_ID_BYTES_MAX: usize = 64;

impl NodeDefinition {
    fn read(json: &Json, place: &str, findings: &mut Findings) -> Option<Self> {
        let mut fields = Fields::of(json, place, findings)?;
        let (at, mut named) = (place.to_owned(), place.to_owned());
        let id = fields.text("id");
        if let Some(id) = id.as_deref().filter(|id| !id.is_empty() && id.len() <= SHOWN_ID_BYTES_MAX) {
            named = format!("nodes['{id}']");
            fields.rename(named.clone());
        }
        let type_id = fields.text("typeId");
        let name = fields.text("name");
        fields.required("position");
        let config = fields.map("config");
        let inputs = fields.map("inputs");
        let credentials_ref = fields.optional_text("credentialsRef");
        let settings = fields.optional("settings");
        let disabled = fields.optional_flag("disabled").unwrap_or(false);
        let sensitivity = fields.optional_map("outputSensitivity").unwrap_or_default();
        for key in ["outputRole", "notes", "groupId", "envelopeContract"] {
            fields.optional(key);
        }
        let pinned = fields.optional("agent").filter(|agent| agent.type_name() == "object");
        let artifact_type = read_artifact_type(&mut fields);
        fields.optional("cardType");
        let place = fields.place("inputs");
        let inputs = inputs
            .iter()
            .filter_map(|(name, json)| {
                let port = PortDefinition::read(json, &format!("{place}.{name}"), fields.findings())?;
                Some((name.clone(), port))
            })
            .collect();
        let place = fields.place("settings");
        let abide = settings.as_ref().map(|json| AbideSettings::read(json, &place, fields.findings()));
        let place = fields.place("outputSensitivity");
        let output_sensitivity = read_flags(&sensitivity, &place, fields.findings());
        fields.finish();
        Some(Self {
            at,
            place: named,
            id: id?,
            // A node whose kind can't be read is there all the same: edges to it are no mistake.
            type_id: type_id.unwrap_or_else(|| "core.noop".to_owned()),
            config,
            inputs,
            credentials_ref,
            abide: abide.unwrap_or_default(),
            disabled,
            output_sensitivity,
            artifact_type,
            pinned,
            name,
            settings,
        })
    }
}

/// What a node's outputs are called. The first releases took anything here and made nothing of it.
fn read_artifact_type(fields: &mut Fields<'_>) -> Option<String> {
    let given = fields.optional("artifactType")?;
    let chars = 1..=limits::ARTIFACT_TYPE_CHARS_MAX;
    let text = given.parse::<String>().ok().filter(|text| chars.contains(&text.chars().count()));
    if text.is_none() {
        let place = fields.place("artifactType");
        fields.findings().objection(place, format!("a text of 1 to {} characters is expected", chars.end()));
    }
    text
}

fn read_flags(map: &JsonMap, place: &str, findings: &mut Findings) -> Vec<(String, bool)> {
    let mut flags = Vec::new();
    for (name, value) in map {
        match value.parse() {
            Ok(flag) => flags.push((name.clone(), flag)),
            Err(_) => findings.problem(format!("{place}.{name}"), "true or false is expected"),
        }
    }
    flags
}

/// What Abide itself reads from the settings of a definition. A rule that is broken here keeps a definition from being
/// admitted, and no run that is pinned to it.
fn own_settings(settings: &mut Fields<'_>) -> (ResumeSettings, Retention) {
    let Some(json) = settings.optional("abide") else { return Default::default() };
    let place = settings.place("abide");
    let mut own = Findings::default();
    let read = Fields::of(&json, place, &mut own).map(|mut fields| {
        let resume = fields.optional("resume");
        let place = fields.place("resume");
        let resume = resume.map(|json| ResumeSettings::read(&json, &place, fields.findings()));
        let retention = fields.optional("retention");
        let place = fields.place("retention");
        let retention = retention.and_then(|json| Retention::read(&json, &place, fields.findings()));
        fields.finish();
        (resume.unwrap_or_default(), retention.unwrap_or_default())
    });
    own.all().into_iter().for_each(|found| settings.findings().objection(found.place, found.message));
    read.unwrap_or_default()
}

impl AbideSettings {
    /// Whether something of it is of use to a node that asks alone.
    pub(crate) fn is_about_asking(&self) -> bool {
        let asks = self.ladder.is_some() || self.agent.is_some() || !self.respondents.is_empty();
        self.sensitive || self.token_ms.is_some() || asks || !self.approval.is_empty()
    }

    fn read(json: &Json, place: &str, findings: &mut Findings) -> Self {
        let Some(mut open) = Fields::of(json, place, findings) else {
            return Self::default();
        };
        let Some(json) = open.optional("abide") else {
            return Self::default();
        };
        let place = open.place("abide");
        let Some(mut fields) = Fields::of(&json, place, findings) else {
            return Self::default();
        };
        let durable = fields.optional_flag("durable").unwrap_or(false);
        let idempotent = fields.optional_flag("idempotent");
        let reversible = fields.optional_flag("reversible");
        let retry = fields.optional("retry");
        let looping = fields.optional("loop");
        let sensitive = fields.optional_flag("sensitive").unwrap_or(false);
        let token_ms = fields.optional_whole("tokenMs", 1..=limits::TOKEN_MS_MAX);
        let timeout_ms = fields.optional_whole("timeoutMs", 1..=limits::RUN_TIMEOUT_MS_MAX);
        let ladder = fields.optional("ladder");
        let below = fields.place("ladder");
        let ladder = ladder.and_then(|json| LadderCall::read(&json, &below, fields.findings()));
        let agent = names(&mut fields, "agent", limits::AGENT_NAME_CHARS_MAX, 1).pop();
        let respondents =
            names(&mut fields, "respondents", limits::PRINCIPAL_CHARS_MAX, limits::RESPONDENTS_MAX);
        let approval = approval_rules(&mut fields);
        let place = fields.place("retry");
        let retry = retry.and_then(|json| RetryPolicy::read(&json, &place, fields.findings()));
        let place = fields.place("loop");
        let loop_max = looping.and_then(|json| {
            let mut looping = Fields::of(&json, place, fields.findings())?;
            let most = looping.optional_whole("maxIterations", 1..=1_000_000);
            looping.finish();
            Some(most.and_then(|most| u32::try_from(most).ok()).unwrap_or(DEFAULT_LOOP_MAX))
        });
        fields.finish();
        Self {
            durable,
            idempotent,
            reversible,
            retry,
            loop_max,
            sensitive,
            token_ms,
            ladder,
            agent,
            respondents,
            approval,
            timeout_ms,
        }
    }
}

/// What a node's settings say about its approvals.
fn approval_rules(fields: &mut Fields<'_>) -> ApprovalRules {
    let given = fields.optional("approval");
    let place = fields.place("approval");
    let rules = given.map(|json| ApprovalRules::read(&json, &place, fields.findings())).unwrap_or_default();
    let schema = fields.optional("artifactSchema");
    let place = fields.place("artifactSchema");
    let artifact_schema = schema.and_then(|json| ApprovalRules::read_schema(json, &place, fields.findings()));
    ApprovalRules { artifact_schema, ..rules }
}

/// One name, or a list of them. What is wrong with them keeps a definition from being admitted.
pub(crate) fn names(fields: &mut Fields<'_>, key: &'static str, chars: usize, most: usize) -> Vec<String> {
    let Some(given) = fields.optional(key) else { return Vec::new() };
    let list: Option<Vec<String>> =
        if most == 1 { given.parse().ok().map(|name| vec![name]) } else { given.parse().ok() };
    let is_name = |name: &String| {
        !name.is_empty() && name.chars().count() <= chars && !name.chars().any(char::is_control)
    };
    let found = list.filter(|list| (1..=most).contains(&list.len()) && list.iter().all(is_name));
    if found.is_none() {
        let what = if most == 1 { "a name".to_owned() } else { format!("a list of 1 to {most} names") };
        let place = fields.place(key);
        fields.findings().objection(place, format!("{what} is expected, each of up to {chars} characters"));
    }
    found.unwrap_or_default()
}

/// OpenWOP's own default for `settings.maxLoopbackIterations`.
pub(crate) const DEFAULT_LOOP_MAX: u32 = 5;

impl PortDefinition {
    fn read(json: &Json, place: &str, findings: &mut Findings) -> Option<Self> {
        let mut fields = Fields::of(json, place, findings)?;
        let kind = fields.text("type");
        let port = Self {
            kind: kind.clone().unwrap_or_default(),
            value: fields.any("value"),
            expression: fields.optional_text("expression"),
            node_id: fields.optional_text("nodeId"),
            output_key: fields.optional_text("outputKey"),
            variable_name: fields.optional_text("variableName"),
            optional: fields.optional_flag("optional"),
        };
        fields.finish();
        kind.map(|_| port)
    }
}

impl EdgeDefinition {
    fn read(json: &Json, place: &str, findings: &mut Findings) -> Option<Self> {
        let mut fields = Fields::of(json, place, findings)?;
        let (id, source, target) =
            (fields.text("id"), fields.text("sourceNodeId"), fields.text("targetNodeId"));
        let source_output = fields.optional_text("sourceOutput");
        let target_input = fields.optional_text("targetInput");
        fields.optional_text("label");
        let trigger_rule = fields.optional_text("triggerRule");
        let condition = fields.optional("condition");
        let below = fields.place("condition");
        let condition =
            condition.and_then(|json| ConditionDefinition::read(&json, &below, fields.findings()));
        fields.finish();
        Some(Self {
            place: place.to_owned(),
            id: id?,
            source: source?,
            target: target?,
            source_output,
            target_input,
            trigger_rule,
            condition,
        })
    }
}

impl ConditionDefinition {
    fn read(json: &Json, place: &str, findings: &mut Findings) -> Option<Self> {
        let mut fields = Fields::of(json, place, findings)?;
        let condition = Self {
            kind: fields.optional_text("type"),
            left: fields.optional_text("left"),
            right: fields.any("right"),
            expression: fields.optional_text("expression"),
        };
        fields.finish();
        Some(condition)
    }
}

impl VariableDefinition {
    fn read(json: &Json, place: &str, findings: &mut Findings) -> Option<Self> {
        let mut fields = Fields::of(json, place, findings)?;
        let (name, kind) = (fields.text("name"), fields.text("type"));
        let required = fields.optional_flag("required").unwrap_or(false);
        let default_value = fields.optional("defaultValue");
        let sensitive = fields.optional_flag("sensitive").unwrap_or(false);
        fields.optional_text("description");
        fields.optional_text("format");
        fields.finish();
        let place = place.to_owned();
        Some(Self { place, name: name?, kind: kind?, required, default_value, sensitive })
    }
}

/// Only manual triggers do anything yet, and one that would never fire must not be taken in as if it did.
fn check_trigger(json: &Json, place: &str, findings: &mut Findings) {
    // What stands here was not looked at by the first release, so all of it is an objection at most.
    let mut shape = Findings::default();
    if let Some(mut fields) = Fields::of(json, place, &mut shape) {
        fields.text("id");
        let kind = fields.text("type");
        let enabled = fields.optional_flag("enabled").unwrap_or(true);
        for key in ["name", "description", "config", "nodeId", "eventType"] {
            fields.optional(key);
        }
        let place = fields.place("type");
        match kind.as_deref() {
            Some(kind) if !TRIGGER_KINDS.contains(&kind) => {
                fields.findings().objection(place, format!("use one of {}", TRIGGER_KINDS.join(", ")));
            }
            Some(kind) if kind != "manual" && enabled => {
                let message =
                    format!("'{kind}' triggers don't fire in this version yet; add \"enabled\": false");
                fields.findings().objection(place, message);
            }
            _ => {}
        }
        fields.finish();
    }
    shape.all().into_iter().for_each(|Problem { place, message }| findings.objection(place, message));
}
