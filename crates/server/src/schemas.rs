//! The schemas of everything that goes in and out, from the types that are read and written.

use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value};

use crate::error::{BadPart, ShownProblem};
use crate::operation::SchemaOf;
use crate::shape;

/// Schemas that are made one by one, and the named ones that they refer to.
///
/// What is read and what is written are made apart: a field may be left out of one and not of the other.
pub(crate) struct Schemas {
    taken: SchemaGenerator,
    given: SchemaGenerator,
}

impl Schemas {
    /// None yet, but for the envelope of errors, which every operation has.
    pub(crate) fn new() -> Self {
        let settings = |settings: SchemaSettings| {
            settings.with(|settings| {
                settings.definitions_path = "/components/schemas".into();
                settings.meta_schema = None;
            })
        };
        let taken = settings(SchemaSettings::draft2020_12()).with_transform(Plain).into_generator();
        let given = settings(SchemaSettings::draft2020_12().for_serialize());
        let mut given = given.with_transform(Close).into_generator();
        given.subschema_for::<ErrorEnvelope>();
        Self { taken, given }
    }

    /// The schema of something that is read.
    pub(crate) fn taken(&mut self, make: SchemaOf) -> Schema {
        let mut schema = make(&mut self.taken);
        Plain.transform(&mut schema);
        schema
    }

    /// Whether a named schema of something that is read demands no property at all.
    pub(crate) fn takes_nothing(&self, schema: &Schema) -> bool {
        let name = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next());
        let named = name.and_then(|name| self.taken.definitions().get(name));
        named.is_some_and(|named| named.get("properties").is_some() && named.get("required").is_none())
    }

    /// The schema of something that is written: closed.
    pub(crate) fn given(&mut self, make: SchemaOf) -> Schema {
        let mut schema = make(&mut self.given);
        Close.transform(&mut schema);
        schema
    }

    /// The named schemas.
    pub(crate) fn into_components(mut self) -> Map<String, Value> {
        let mut all = self.given.take_definitions(true);
        for (name, schema) in self.taken.take_definitions(true) {
            let other = all.insert(name.clone(), schema.clone());
            assert!(other.is_none_or(|other| other == schema), "two types go by the name {name}");
        }
        all
    }
}

/// Closes every object whose properties are known, and takes null out of what is left out instead.
#[derive(Clone)]
struct Close;

impl Transform for Close {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let Some(object) = schema.as_object_mut() else { return };
        let required = object.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        let Some(properties) = object.get_mut("properties").and_then(Value::as_object_mut) else { return };
        for (name, property) in properties {
            if !required.iter().any(|known| known == name) {
                take_null_out(property);
            }
        }
        object.entry("additionalProperties").or_insert(Value::Bool(false));
    }
}

/// Takes out defaults that say nothing: what is left out is left out.
#[derive(Clone)]
struct Plain;

impl Transform for Plain {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        if schema.get("default").is_some_and(Value::is_null) {
            schema.remove("default");
        }
    }
}

/// What may be left out is never null.
fn take_null_out(property: &mut Value) {
    let Some(property) = property.as_object_mut() else { return };
    if let Some(Value::Array(types)) = property.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = &types[..] {
            property["type"] = only.clone();
        }
    }
    if let Some(Value::Array(any)) = property.get_mut("anyOf") {
        any.retain(|one| one.get("type").is_none_or(|kind| kind != "null"));
    }
}

/// What every refusal looks like.
#[derive(JsonSchema)]
#[schemars(rename = "Error", deny_unknown_fields)]
#[expect(dead_code, reason = "refusals are written field by field, because their details differ")]
struct ErrorEnvelope {
    /// A stable code.
    error: String,
    /// What happened and what to change, in words.
    message: String,
    /// What a program may need to know beside the code.
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<ErrorDetails>,
}

macro_rules! details {
    ($($(#[$about:meta])* $name:ident: $shape:ty;)*) => {
        /// What a refusal says beside its code and its message. Which of these there are depends on the code.
        struct ErrorDetails;

        impl JsonSchema for ErrorDetails {
            fn schema_name() -> Cow<'static, str> {
                "ErrorDetails".into()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                #[derive(JsonSchema)]
                #[serde(rename_all = "camelCase")]
                #[expect(dead_code, reason = "details are written one by one")]
                struct Fields {
                    $($(#[$about])* #[serde(skip_serializing_if = "Option::is_none")] $name: Option<$shape>,)*
                }
                Fields::json_schema(generator)
            }
        }
    };
}

details! {
    /// The field, parameter or header that is wrong.
    field: String;
    /// Everything that is wrong with a definition, or with an answer.
    problems: Vec<AnyProblem>;
    /// The workflow that was asked for.
    workflow_id: String;
    /// How large a body may be.
    max_bytes: u64;
    /// Where the log tells more.
    correlation_id: String;
    /// The scope that the key lacks.
    scope_required: String;
    /// In how many milliseconds to try again.
    retry_after_ms: u64;
    /// Whose rate is used up: `key` or `tenant`.
    scope: String;
    /// That rate: `50/s:100` is fifty in a second, a hundred at once.
    limit: String;
    /// The capability that a node kind needs.
    required_capability: String;
    /// The node kind that needs it.
    offending_type_id: String;
    /// The node of that kind.
    node_id: String;
    /// The stream modes that there are, or the versions of the worker protocol.
    supported: Vec<String>;
    /// The mock providers that there are.
    supported_providers: Vec<String>;
    /// The family of operations that is not offered.
    capability: String;
    /// How the run stands that was to be changed.
    run_status: shape::RunStatus;
    /// Since when it is paused.
    paused_at: shape::Moment;
    /// How it is held: `pause`, `stop` or `resume_escalated`.
    hold: String;
    /// The run that is under way already.
    active_run_id: shape::RunName;
    /// Where it is: always `cloud`, which is the protocol's word for a server.
    active_host: String;
    /// Seconds after which to ask again.
    retry_after: u64;
    /// How many runs one request may name.
    max_run_ids: u64;
    /// How many interrupts one request may name.
    max_interrupts: u64;
    /// How many webhooks a tenant may have.
    max_webhooks: u64;
    /// How many events the run has that was to be forked.
    events: u64;
    /// The interrupts of a node, one of which has to be named.
    interrupt_ids: Vec<shape::InterruptName>;
    /// What may be decided at a gate.
    actions: Vec<String>;
    /// The decision against resuming a run, as it was recorded.
    decision: crate::resume_api::Decision;
    /// Who would have decided, and may not.
    principal: String;
    /// The nodes whose turns wait for their provider.
    waiting: Vec<String>;
    /// The run that is meant.
    run_id: shape::RunName;
    /// The run that it was to wait for.
    depends_on: shape::RunName;
    /// Who has the node, or coordinates the run.
    agent: String;
    /// Why nobody can have a node yet.
    reason: String;
    /// How many have not completed.
    unfinished: u64;
    /// The version that whoever asks has seen.
    expected_version: u64;
    /// The version that it has.
    found_version: u64;
    /// What went wrong, in OpenIntent's word for it.
    error: String;
    /// The inputs that come from nowhere.
    unresolvable: Vec<String>;
    /// The outputs that are missing.
    missing: Vec<String>;
    /// The outputs that are not what they have to be.
    #[serde(rename = "type_errors")]
    type_errors: Vec<WrongOutput>;
    /// The node, as a task.
    #[serde(rename = "task_id")]
    task_id: String;
    /// The phase that waits for people.
    #[serde(rename = "phase_name")]
    phase_name: String;
    /// The run that does it.
    #[serde(rename = "suspended_intent_id")]
    suspended_intent_id: shape::RunName;
    /// When that is over at the latest; null if there is no end.
    #[serde(rename = "expected_resume_at")]
    expected_resume_at: shape::MomentOrNull;
}

/// An output that is not what it has to be.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it is written field by field")]
struct WrongOutput {
    output: String,
    /// What it has to be.
    expected: String,
    /// What it is.
    found: String,
}

/// Something that is wrong.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "the two are written apart")]
enum AnyProblem {
    /// With a definition.
    Definition(ShownProblem),
    /// With an answer.
    Answer(BadPart<'static>),
}
