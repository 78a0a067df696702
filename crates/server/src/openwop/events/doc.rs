//! The closed envelope around what an event says, and its schema.

use std::borrow::Cow;

use abide_core::{Event, EventType, Json, Payload as Bytes, Record, RunId};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::value::RawValue;

use super::super::annotations::AnnotationDoc;
use super::super::mask;
use super::super::runs::Shown;
use super::super::snapshot::event_id;
use super::payload::{self, Payload, Place};
use crate::{shape, time};

/// The type of the states that the mode `values` makes.
pub(crate) const STATE: &str = "state.snapshot";

/// The type of what is said about a run.
pub(crate) const ANNOTATED: &str = "run.annotated";

/// OpenWOP's RunEventDoc. Nothing may stand in it but this.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Doc<'a, P: Serialize> {
    event_id: String,
    run_id: RunId,
    #[serde(rename = "type")]
    kind: &'a str,
    payload: P,
    timestamp: String,
    sequence: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_id: Option<&'a str>,
    schema_version: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    causation_id: Option<String>,
}

impl<'a, P: Serialize> Doc<'a, P> {
    fn new(run: RunId, record: &'a Record, kind: &'a str, payload: P) -> Self {
        Self {
            event_id: event_id(run, record.sequence),
            run_id: run,
            kind,
            payload,
            timestamp: time::rfc3339(record.at),
            sequence: record.sequence,
            node_id: record.node.as_deref(),
            schema_version: record.version,
            causation_id: record.cause.map(|cause| event_id(run, cause)),
        }
    }
}

/// The type of a record, as declared.
pub(crate) fn type_of(record: &Record) -> Result<EventType, String> {
    EventType::by_code(record.type_code).ok_or_else(|| format!("event type {} is unknown", record.type_code))
}

/// A record in OpenWOP's words: its type there, and the text of the document. What it has no name for is an entry of
/// the log. A payload that was erased is `null`.
pub(crate) fn openwop(run: RunId, record: &Record) -> Result<(&'static str, Vec<u8>), String> {
    let kind = type_of(record)?;
    let name = kind.openwop_name().unwrap_or("log.appended");
    let payload = match &record.payload {
        Bytes::Present(bytes) => Some(translated(run, kind, record, bytes)?),
        Bytes::Erased(_) => None,
    };
    Ok((name, text(&Doc::new(run, record, name, payload))?))
}

fn translated(run: RunId, kind: EventType, record: &Record, bytes: &[u8]) -> Result<Payload, String> {
    let masked = mask::payload(kind, bytes).map_err(|error| error.to_string())?;
    let event = Event::decode(record.type_code, record.version, record.node.as_ref(), &masked)?;
    if kind.openwop_name().is_none() {
        let recorded: Json = serde_json::from_slice(&masked).map_err(|error| error.to_string())?;
        return Ok(payload::log(&event, recorded));
    }
    payload::of(event, Place { run, at: record.at })
        .ok_or_else(|| format!("{} is declared as OpenWOP's, but has no payload there", kind.name))
}

/// A record as the journal has it: its own type, and the text of the document. Masked like everything else.
pub(crate) fn journal(run: RunId, record: &Record) -> Result<(&'static str, Vec<u8>), String> {
    let kind = type_of(record)?;
    let shown = match &record.payload {
        Bytes::Present(bytes) => recorded(kind, bytes).map_err(|error| error.to_string())?,
        Bytes::Erased(_) => Cow::Borrowed(RawValue::NULL),
    };
    Ok((kind.name, text(&Doc::new(run, record, kind.name, shown))?))
}

fn recorded(kind: EventType, bytes: &[u8]) -> serde_json::Result<Cow<'_, RawValue>> {
    match mask::payload(kind, bytes)? {
        Cow::Borrowed(bytes) => serde_json::from_slice(bytes).map(Cow::Borrowed),
        Cow::Owned(bytes) => serde_json::from_slice(&bytes).map(Cow::Owned),
    }
}

/// A run's state after a record, as an event.
pub(crate) fn state(run: RunId, record: &Record, state: Vec<u8>) -> Result<Vec<u8>, String> {
    let state = String::from_utf8(state).map_err(|error| error.to_string())?;
    let payload = RawValue::from_string(state).map_err(|error| error.to_string())?;
    let node_id = None;
    text(&Doc { node_id, causation_id: None, schema_version: 1, ..Doc::new(run, record, STATE, payload) })
}

/// What somebody said about a run, as an event that is told and never recorded. It stands behind the last event that
/// there was, and bears its own name.
pub(crate) fn annotated(
    run: RunId,
    id: &str,
    timestamp: &str,
    sequence: u64,
    annotation: &AnnotationDoc,
) -> Result<Vec<u8>, String> {
    text(&Doc {
        event_id: id.to_owned(),
        run_id: run,
        kind: ANNOTATED,
        payload: annotation,
        timestamp: timestamp.to_owned(),
        sequence,
        node_id: None,
        schema_version: 1,
        causation_id: None,
    })
}

fn text(doc: &impl Serialize) -> Result<Vec<u8>, String> {
    serde_json::to_vec(doc).map_err(|error| error.to_string())
}

/// An event as it stands in an answer: this type only carries its schema, since events are written as text.
pub(crate) struct RunEvent;

impl JsonSchema for RunEvent {
    fn schema_name() -> Cow<'static, str> {
        "RunEvent".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut variants: Vec<Schema> = Vec::new();
        for (name, schema) in payload::SCHEMAS {
            let payload = schema(generator);
            variants.push(envelope(name, &payload));
        }
        let state = generator.subschema_for::<Shown>();
        variants.push(envelope(STATE, &state));
        let annotation = generator.subschema_for::<AnnotationDoc>();
        variants.push(envelope(ANNOTATED, &annotation));
        json_schema!({
            "description": "One event of a run. The payload of an erased run's event is null.",
            "oneOf": variants,
        })
    }
}

fn envelope(name: &str, payload: &Schema) -> Schema {
    let run = shape::RunName::json_schema(&mut SchemaGenerator::default());
    json_schema!({
        "type": "object",
        "properties": {
            "eventId": { "type": "string" },
            "runId": run,
            "type": { "const": name },
            "payload": { "anyOf": [payload, { "type": "null" }] },
            "timestamp": { "type": "string", "format": "date-time" },
            "sequence": { "type": "integer", "minimum": 0 },
            "nodeId": { "type": "string" },
            "schemaVersion": { "type": "integer", "minimum": 1 },
            "causationId": { "type": "string" },
        },
        "required": ["eventId", "runId", "type", "payload", "timestamp", "sequence"],
        "additionalProperties": false,
    })
}

/// An event as the journal has it: this type only carries its schema.
pub(crate) struct JournalEvent;

impl JsonSchema for JournalEvent {
    fn schema_name() -> Cow<'static, str> {
        "JournalEvent".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = abide_core::event_types().iter().map(|kind| kind.name).collect();
        let payload = json_schema!({ "type": "object" });
        let mut schema = envelope("", &payload);
        schema.insert("description".to_owned(), "One record of a run's journal.".into());
        if let Some(kind) = schema.pointer_mut("/properties/type") {
            *kind = serde_json::json!({ "enum": names });
        }
        schema
    }
}
