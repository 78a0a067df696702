//! What the config of a turn says, and how each of its tools becomes a run of its own.

use serde_json::{Value, json};

use crate::fields::Fields;
use crate::graph::Graph;
use crate::schema::Schema;
use crate::template::{JsonTemplate, Template};
use crate::{Json, JsonMap, ToolSpec, limits};

/// What an expression reads.
type Reads = Vec<(String, Option<String>)>;

/// The variable in which a tool's run leaves what the tool said.
pub(crate) const TOOL_RESULT: &str = "result";

/// `core.llm.turn`, `core.llm.chat` and `core.ai.callPrompt`.
#[derive(Debug, Default)]
pub(crate) struct TurnWork {
    /// The provider; the only one if there is but one.
    pub(crate) provider: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) system: Option<Template>,
    pub(crate) prompt: Option<Template>,
    /// What stands between the two.
    pub(crate) messages: Option<JsonTemplate>,
    /// A prompt that runs may replace, by its name.
    pub(crate) prompt_id: Option<String>,
    /// The node whose last turn is gone on with.
    pub(crate) continues: Option<String>,
    pub(crate) max_tokens: Option<u64>,
    pub(crate) temperature: Option<Json>,
    pub(crate) params: JsonMap,
    /// How often the model is called at most.
    pub(crate) steps_max: u32,
    pub(crate) tools: Vec<Tool>,
}

/// What a model may call.
#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) spec: ToolSpec,
    /// What its arguments are held against.
    pub(crate) schema: Schema,
    /// The workflow that its runs follow.
    pub(crate) workflow_id: String,
    /// That workflow's definition, if it is made of the tool's own config.
    pub(crate) definition: Option<Json>,
    /// The variable of its runs that holds what it said.
    pub(crate) result: String,
}

impl TurnWork {
    /// Reads the config of a turn; one of a chat has neither tools nor steps.
    pub(crate) fn read(fields: &mut Fields<'_>, has_tools: bool) -> Option<Self> {
        let provider = fields.optional_text("provider");
        let model = fields.optional_text("model");
        let system = template(fields, "system");
        let prompt = template(fields, "prompt");
        let messages = messages(fields);
        let continues = fields.optional_text("continues");
        let max_tokens = fields.optional_whole("maxTokens", 1..=limits::TOKENS_MAX);
        let temperature = temperature(fields);
        let params = params(fields);
        let (mut steps_max, mut tools) = (1, Vec::new());
        if has_tools {
            let steps = fields.optional_whole("maxSteps", 1..=i64::from(limits::TURN_STEPS_MAX));
            steps_max = steps.and_then(|most| u32::try_from(most).ok()).unwrap_or(limits::TURN_STEPS_USUAL);
            tools = read_tools(fields);
        }
        Some(Self {
            provider,
            model,
            system,
            prompt,
            messages,
            prompt_id: None,
            continues,
            max_tokens: max_tokens.map(i64::unsigned_abs),
            temperature,
            params,
            steps_max,
            tools,
        })
    }

    /// Reads the config of a prompt of OpenWOP's: whatever else it says is left alone.
    pub(crate) fn read_prompt(fields: &mut Fields<'_>) -> Option<Self> {
        let prompt_id = fields.optional_text("promptId");
        fields.any("expectsStreaming");
        Some(Self { prompt_id, ..Self::read(fields, false)? })
    }

    /// Every expression in the config, with its place below the config.
    pub(crate) fn expressions(&self) -> Vec<(String, Reads)> {
        let texts = [("system", &self.system), ("prompt", &self.prompt)];
        let mut all: Vec<_> = texts
            .into_iter()
            .filter_map(|(key, text)| Some((key.to_owned(), text.as_ref()?.reads())))
            .collect();
        all.extend(self.messages.as_ref().map(|list| ("messages".to_owned(), list.reads())));
        all
    }

    /// The tool of this name.
    pub(crate) fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.spec.name == name)
    }
}

const NO_SECRETS: &str = "what a model is told can't hold a secret; remove it";

fn template(fields: &mut Fields<'_>, key: &'static str) -> Option<Template> {
    let text = fields.optional_text(key)?;
    let place = fields.place(key);
    match Template::parse(&text) {
        Ok(template) if template.secrets().next().is_some() => {
            fields.findings().objection(place, NO_SECRETS);
            None
        }
        Ok(template) => Some(template),
        Err(message) => {
            fields.findings().objection(place, message);
            None
        }
    }
}

fn messages(fields: &mut Fields<'_>) -> Option<JsonTemplate> {
    let list = fields.optional("messages")?;
    let place = fields.place("messages");
    match JsonTemplate::parse(&list) {
        Ok(template) if template.secrets().next().is_none() => Some(template),
        Ok(_) => {
            fields.findings().objection(place, NO_SECRETS);
            None
        }
        Err(message) => {
            fields.findings().objection(place, message);
            None
        }
    }
}

fn temperature(fields: &mut Fields<'_>) -> Option<Json> {
    let given = fields.optional("temperature")?;
    if given.parse::<f64>().is_ok_and(|number| (0.0..=2.0).contains(&number)) {
        return Some(given);
    }
    let place = fields.place("temperature");
    fields.findings().objection(place, "a number from 0 to 2 is expected");
    None
}

/// What is sent along as it is; not what is said elsewhere.
fn params(fields: &mut Fields<'_>) -> JsonMap {
    let given = fields.optional_map("params").unwrap_or_default();
    let place = fields.place("params");
    for key in ["model", "messages", "system", "stream", "tools", "max_tokens", "temperature"] {
        if given.contains_key(key) {
            let message = format!("'{key}' is not said here; remove it");
            fields.findings().objection(format!("{place}.{key}"), message);
        }
    }
    given
}

fn read_tools(fields: &mut Fields<'_>) -> Vec<Tool> {
    let list = fields.optional_list("tools").unwrap_or_default();
    let place = fields.place("tools");
    if list.len() > limits::TOOLS_MAX {
        let message = format!("there are {} tools; {} are allowed", list.len(), limits::TOOLS_MAX);
        fields.findings().objection(place.clone(), message);
    }
    let mut tools: Vec<Tool> = Vec::new();
    for (at, json) in list.iter().take(limits::TOOLS_MAX).enumerate() {
        let place = format!("{place}[{at}]");
        // A tool may be a turn that has tools, and so on.
        if json.depth() > limits::TOOL_DEPTH_MAX {
            let message =
                format!("it is nested deeper than {} levels: make it flatter", limits::TOOL_DEPTH_MAX);
            fields.findings().objection(place, message);
            continue;
        }
        let Some(tool) = Tool::read(json, &place, fields) else { continue };
        if tools.iter().any(|other| other.spec.name == tool.spec.name) {
            let message = format!("there are two tools '{}'; rename one", tool.spec.name);
            fields.findings().objection(format!("{place}.name"), message);
        }
        tools.push(tool);
    }
    tools
}

impl Tool {
    fn read(json: &Json, place: &str, outer: &mut Fields<'_>) -> Option<Self> {
        let mut fields = Fields::of(json, place, outer.findings())?;
        let name = fields.text("name");
        let description = fields.optional_text("description");
        let parameters = fields.optional("parameters");
        let kind = fields.optional_text("kind");
        let workflow = fields.optional_text("workflow");
        let config = fields.optional_map("config").unwrap_or_default();
        let settings = fields.optional_map("settings");
        let approval = fields.optional("approval");
        let result = fields.optional_text("result");
        let place = place.to_owned();
        let idle = [
            ("config", workflow.is_some() && !config.is_empty()),
            ("settings", workflow.is_some() && settings.is_some()),
            ("approval", workflow.is_some() && approval.is_some()),
            ("result", kind.is_some() && result.is_some()),
        ];
        for (key, _) in idle.into_iter().filter(|(_, idle)| *idle) {
            // Whoever wants a tool approved must not find out later that it was not.
            let other = if key == "result" { "workflow" } else { "kind" };
            let message = format!("only a tool that has a '{other}' has this; remove it");
            fields.findings().objection(format!("{place}.{key}"), message);
        }
        let is_name = |name: &String| {
            (1..=64).contains(&name.len())
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
        };
        let name = name?;
        if !is_name(&name) {
            let message = "a tool's name has 1 to 64 letters, digits, '_' and '-'";
            fields.findings().objection(format!("{place}.name"), message);
            return None;
        }
        let parameters =
            parameters.unwrap_or_else(|| Json::of(&json!({ "type": "object", "properties": {} })));
        let schema = match Schema::compile(&parameters) {
            Ok(schema) => schema,
            Err(error) => {
                fields.findings().objection(format!("{place}.parameters"), error.to_string());
                return None;
            }
        };
        let spec = ToolSpec { name: name.clone(), description, parameters };
        let made = match (kind, workflow) {
            (Some(kind), None) => {
                let made = Made { name: &name, kind: &kind, config, settings, approval };
                let definition = made.definition(&spec.parameters, &place, &mut fields)?;
                (workflow_id(&name), Some(definition), TOOL_RESULT.to_owned())
            }
            (None, Some(workflow)) => {
                (workflow, None, result.clone().unwrap_or_else(|| TOOL_RESULT.to_owned()))
            }
            _ => {
                fields.findings().objection(place, "say either the 'kind' or the 'workflow' of the tool");
                return None;
            }
        };
        fields.finish();
        let (workflow_id, definition, result) = made;
        Some(Self { spec, schema, workflow_id, definition, result })
    }
}

/// The workflow that a tool's own config becomes, by its id.
fn workflow_id(tool: &str) -> String {
    format!("tool-{}", tool.to_ascii_lowercase())
}

/// A node of a tool's workflow. What its config holds is carried as it is.
fn node(id: &str, kind: &str, y: u32, config: Json, inputs: Json) -> JsonMap {
    let entries = [
        ("id", Json::of(id)),
        ("typeId", Json::of(kind)),
        ("name", Json::of(id)),
        ("position", Json::of(&json!({ "x": 0, "y": y }))),
        ("config", config),
        ("inputs", inputs),
    ];
    entries.map(|(key, value)| (key.to_owned(), value)).into()
}

fn nothing() -> Json {
    Json::of(&JsonMap::new())
}

/// A tool that is a kind of node, on its way to a workflow of its own.
struct Made<'a> {
    name: &'a str,
    kind: &'a str,
    config: JsonMap,
    settings: Option<JsonMap>,
    approval: Option<Json>,
}

impl Made<'_> {
    /// The workflow: somebody approves if that is wanted, the node does its work, and what it said is kept.
    fn definition(&self, parameters: &Json, place: &str, fields: &mut Fields<'_>) -> Option<Json> {
        let kinds = self.parameters(parameters, place, fields)?;
        let port = |name: &str| json!({ "type": "variable", "variableName": name, "optional": true });
        let ports: serde_json::Map<String, Value> =
            kinds.iter().map(|(name, _)| (name.clone(), port(name))).collect();
        let ports = Json::of(&ports);
        let mut tool = node("tool", self.kind, 100, Json::of(&self.config), ports.clone());
        tool.extend(self.settings.as_ref().map(|settings| ("settings".to_owned(), Json::of(settings))));
        let keep = json!({ "assign": { (TOOL_RESULT): "{\"outputs\": nodes.tool.outputs}" } });
        let mut nodes = vec![tool, node("keep", "core.transform", 200, Json::of(&keep), nothing())];
        let mut edges = vec![json!({ "id": "done", "sourceNodeId": "tool", "targetNodeId": "keep" })];
        if let Some(config) = self.approval(place, fields) {
            nodes.insert(0, node("approve", "core.approvalGate", 0, config, ports));
            edges.push(json!({ "id": "approved", "sourceNodeId": "approve", "targetNodeId": "tool" }));
        }
        let mut variables: Vec<Value> =
            kinds.iter().map(|(name, kind)| json!({ "name": name, "type": kind })).collect();
        variables.push(json!({ "name": TOOL_RESULT, "type": "object" }));
        let whole = json!({
            "id": workflow_id(self.name), "name": format!("Tool {}", self.name), "version": "1",
            "edges": edges, "triggers": [], "variables": variables, "metadata": {},
            // The turn hears of a failure, and the model decides what to do about it.
            "settings": { "abide": { "resume": { "onRefusal": "fail" } } },
        });
        let mut definition: JsonMap = Json::of(&whole).parse().ok()?;
        definition.insert("nodes".to_owned(), Json::of(&nodes));
        let definition = Json::of(&definition);
        for problem in Graph::admit(definition.text().as_bytes()).err().unwrap_or_default() {
            fields.findings().objection(place, format!("as a node: {}: {}", problem.place, problem.message));
        }
        Some(definition)
    }

    /// The tool's parameters, each with the kind of its variable.
    fn parameters(
        &self,
        schema: &Json,
        place: &str,
        fields: &mut Fields<'_>,
    ) -> Option<Vec<(String, &'static str)>> {
        let schema: Value = schema.parse().ok()?;
        let none = serde_json::Map::new();
        let properties = schema["properties"].as_object().unwrap_or(&none);
        let mut kinds = Vec::with_capacity(properties.len());
        for (name, property) in properties {
            let kind = match property["type"].as_str() {
                Some("string") => "string",
                Some("number" | "integer") => "number",
                Some("boolean") => "boolean",
                Some("object") => "object",
                Some("array") => "array",
                _ => {
                    let place = format!("{place}.parameters.properties.{name}");
                    let message = "say its 'type': string, number, integer, boolean, object or array";
                    fields.findings().objection(place, message);
                    return None;
                }
            };
            if name == TOOL_RESULT {
                let place = format!("{place}.parameters.properties.{name}");
                fields.findings().objection(place, "this name is taken for what the tool says; use another");
                return None;
            }
            kinds.push((name.clone(), kind));
        }
        Some(kinds)
    }

    /// What is asked before the tool is used, if anything.
    fn approval(&self, place: &str, fields: &mut Fields<'_>) -> Option<Json> {
        let given = self.approval.as_ref()?;
        let usual = Json::of(&format!("May the model use {}?", self.name));
        match (given.text(), given.parse::<JsonMap>()) {
            ("false", _) => None,
            ("true", _) => Some(Json::of(&JsonMap::from([("title".to_owned(), usual)]))),
            (_, Ok(mut config)) => {
                config.entry("title".to_owned()).or_insert(usual);
                Some(Json::of(&config))
            }
            _ => {
                let message = "write true, or an object with what core.approvalGate takes";
                fields.findings().objection(format!("{place}.approval"), message);
                None
            }
        }
    }
}
