//! Shapes that stand in many bodies, for the schemas of the OpenAPI document.
//!
//! They say what a field looks like on the wire where its type in Rust doesn't: `#[schemars(with = "shape::Moment")]`.

use std::borrow::Cow;

use abide_core::{InterruptKind, NodePhase, Status, limits};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::limits::{IDEMPOTENCY_KEY_CHARS_MAX, INTERRUPT_TOKEN_CHARS_MAX, WORKER_LABEL_CHARS_MAX};

/// What an id in a path may look like to OpenWOP.
const PATH_ID_CHARS_MAX: usize = 128;

macro_rules! shapes {
    ($($(#[doc = $doc:literal])* $name:ident = $schema:tt;)*) => {$(
        $(#[doc = $doc])*
        pub(crate) struct $name;

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )*};
}

shapes! {
    /// A value of the user's own, whatever it is.
    Anything = {};
    /// An object of the user's own.
    Object = { "type": "object" };
    /// A moment in UTC.
    Moment = { "type": "string", "format": "date-time" };
    /// A moment in UTC, or null where there is none.
    MomentOrNull = { "oneOf": [{ "type": "string", "format": "date-time" }, { "type": "null" }] };
    /// A SHA-256 in hexadecimal.
    Sha256 = { "type": "string", "pattern": "^[0-9a-f]{64}$" };
    /// The id of a run as it is sent.
    RunName = { "type": "string", "pattern": "^run-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$" };
    /// The id of an interrupt as it is sent.
    InterruptName = { "type": "string", "pattern": "^int-[0-9a-f]{36}$" };
    /// True, and nothing else.
    True = { "const": true };
    /// False, and nothing else.
    False = { "const": false };
}

/// How a run stands.
pub(crate) struct RunStatus;

impl JsonSchema for RunStatus {
    fn schema_name() -> Cow<'static, str> {
        "RunStatus".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names = Status::ALL.iter().filter(|(status, ..)| status.openwop_name() == status.name());
        let names: Vec<&str> = names.map(|(_, _, name)| *name).collect();
        json_schema!({ "type": "string", "enum": names, "description": "How a run stands." })
    }
}

/// How runs stand that are asked for, in Abide's words too: `pending` runs are told apart by them.
pub(crate) struct StatusAsked;

impl JsonSchema for StatusAsked {
    fn schema_name() -> Cow<'static, str> {
        "RunStatusAsked".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = Status::ALL.iter().map(|(_, _, name)| *name).collect();
        let what = "How runs stand. Those that are blocked and drafts are pending, too.";
        json_schema!({ "type": "string", "enum": names, "description": what })
    }
}

/// What an interrupt is about.
pub(crate) struct InterruptKinds;

impl JsonSchema for InterruptKinds {
    fn schema_name() -> Cow<'static, str> {
        "InterruptKind".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names = InterruptKind::ALL.map(InterruptKind::name);
        json_schema!({ "type": "string", "enum": names, "description": "What an interrupt is about." })
    }
}

/// How a node stands.
pub(crate) struct NodeStatus;

impl JsonSchema for NodeStatus {
    fn schema_name() -> Cow<'static, str> {
        "NodeStatus".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "enum": NodePhase::ALL, "description": "How a node stands." })
    }
}

/// Why a run or a node failed.
#[derive(JsonSchema)]
#[schemars(rename = "Failure")]
#[expect(dead_code, reason = "it stands for the type of the core, which knows no schemas")]
pub(crate) struct FailureShape {
    /// Stable, for programs.
    code: String,
    /// For people: what happened and what to change.
    message: String,
    /// Anything more.
    #[schemars(with = "Object")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    details: Option<()>,
}

/// The schema of a parameter in a path.
pub(crate) fn path_parameter(name: &str) -> Value {
    match name {
        "runId" => json!({
            "type": "string", "minLength": 1, "maxLength": PATH_ID_CHARS_MAX,
            "examples": ["run-019a8a3e-0000-7000-8000-000000000000"],
        }),
        "workflowId" => json!({ "type": "string", "minLength": 1, "maxLength": PATH_ID_CHARS_MAX }),
        "agentName" => json!({ "type": "string", "minLength": 1, "maxLength": limits::AGENT_NAME_CHARS_MAX }),
        "session" => json!({ "type": "string", "format": "uuid" }),
        // A run, an execution and a node, in hexadecimal.
        "task" => json!({
            "type": "string", "minLength": 42, "maxLength": 2 * (20 + 4 * limits::NODE_ID_CHARS_MAX),
            "pattern": "^[0-9a-f]+$",
        }),
        "kind" => json!({ "type": "string", "minLength": 1, "maxLength": WORKER_LABEL_CHARS_MAX }),
        "token" => json!({
            "type": "string", "minLength": 1, "maxLength": INTERRUPT_TOKEN_CHARS_MAX,
            "pattern": "^[A-Za-z0-9_.-]+$",
        }),
        "name" => json!({
            "type": "string", "minLength": 1, "maxLength": limits::SECRET_NAME_CHARS_MAX,
            "pattern": "^[A-Za-z0-9_.-]+$",
        }),
        _ => json!({ "type": "string", "minLength": 1, "maxLength": PATH_ID_CHARS_MAX }),
    }
}

/// The schema of a request header.
pub(crate) fn header(name: &str) -> Value {
    match name {
        "Idempotency-Key" => {
            json!({ "type": "string", "pattern": "^[!-~]+$", "minLength": 1, "maxLength": IDEMPOTENCY_KEY_CHARS_MAX })
        }
        "X-Dedup" => json!({ "type": "string", "enum": ["enforce"] }),
        _ => json!({ "type": "string" }),
    }
}
