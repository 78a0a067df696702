//! The OpenAPI document, made from the table of operations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use abide_core::ErrorCode;
use axum::http::header;
use axum::response::IntoResponse;
use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::operation::{Access, Answer, Operation};
use crate::routes;

/// What any operation may say no with; those with a key add the second list.
const COMMON: [&str; 4] = ["validation_error", "payload_too_large", "internal_error", "unavailable"];
const WITH_KEY: [&str; 2] = ["unauthenticated", "forbidden"];

static DOCUMENT: LazyLock<(Value, String)> = LazyLock::new(|| {
    let document = build(&routes::documented());
    let text = document.to_string();
    (document, text)
});

/// The OpenAPI 3.1 document of this version.
pub fn document() -> &'static Value {
    &DOCUMENT.0
}

/// The document, for whoever asks.
pub(crate) async fn show() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT.1.as_str())
}

fn build(operations: &[Operation]) -> Value {
    let mut schemas = generator();
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for operation in operations {
        let method = operation.method.as_str().to_ascii_lowercase();
        paths.entry(operation.path).or_default().insert(method, described(operation, &mut schemas));
    }
    let mut components = schemas.take_definitions(true);
    components.insert("Error".to_owned(), error_envelope());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Abide",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A durable runtime for agent workflows that wait for people. An OpenWOP v1 host.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": { "key": { "type": "http", "scheme": "bearer", "description": "An API key." } },
        },
    })
}

fn generator() -> SchemaGenerator {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    settings.with_transform(Close).into_generator()
}

/// Closes every object whose properties are known: what is not described is not sent.
#[derive(Clone)]
struct Close;

impl Transform for Close {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        if let Some(object) = schema.as_object_mut() {
            if object.contains_key("properties") && !object.contains_key("additionalProperties") {
                object.insert("additionalProperties".to_owned(), Value::Bool(false));
            }
        }
    }
}

fn error_envelope() -> Value {
    json!({
        "type": "object",
        "description": "What every refusal looks like.",
        "properties": {
            "error": { "type": "string", "description": "A stable code." },
            "message": { "type": "string", "description": "What to change, in words." },
            "details": { "type": "object" },
        },
        "required": ["error", "message"],
        "additionalProperties": false,
    })
}

fn described(operation: &Operation, schemas: &mut SchemaGenerator) -> Value {
    let mut described = json!({
        "operationId": operation.id,
        "summary": operation.summary,
        "parameters": parameters(operation, schemas),
        "responses": responses(operation, schemas),
        "security": security(operation.access),
    });
    if !operation.takes.is_empty() {
        let content: Map<String, Value> = operation
            .takes
            .iter()
            .map(|takes| (takes.content_type.to_owned(), media(takes.schema.map(|make| make(schemas)))))
            .collect();
        described["requestBody"] = json!({ "required": true, "content": content });
    }
    described
}

fn security(access: Access) -> Value {
    match access {
        Access::Public => json!([]),
        Access::AnyKey => json!([{ "key": [] }]),
        Access::Scope(scope) => json!([{ "key": [scope.name()] }]),
    }
}

fn parameters(operation: &Operation, schemas: &mut SchemaGenerator) -> Vec<Value> {
    let in_path = operation.path.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(
        |(name, _)| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }),
    );
    let mut parameters: Vec<Value> = in_path.collect();
    if let Some(query) = operation.query {
        parameters.extend(query_parameters(&query(schemas)));
    }
    let mut headers = operation.headers.clone();
    if operation.idempotent {
        headers.push((
            "Idempotency-Key",
            "Repeating the request with the same key gives the first answer again.",
        ));
    }
    parameters.extend(headers.iter().map(|(name, meaning)| {
        json!({ "name": name, "in": "header", "description": meaning, "schema": { "type": "string" } })
    }));
    parameters
}

/// The properties of a query's schema, one parameter each.
fn query_parameters(schema: &Schema) -> Vec<Value> {
    let required: BTreeSet<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let properties = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let parameter = |(name, schema): (&String, &Value)| {
        let is_required = required.contains(name.as_str());
        json!({ "name": name, "in": "query", "required": is_required, "schema": schema })
    };
    properties.iter().map(parameter).collect()
}

fn responses(operation: &Operation, schemas: &mut SchemaGenerator) -> Value {
    let mut responses = Map::new();
    for answer in &operation.answers {
        responses.insert(answer.status.to_string(), answered(answer, schemas));
    }
    let with_key = if operation.access == Access::Public { &[][..] } else { &WITH_KEY[..] };
    let mut by_status: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    for code in COMMON.iter().chain(with_key).chain(&operation.refusals) {
        let status = ErrorCode::find(code).map_or(500, |entry| entry.status);
        by_status.entry(status).or_default().push(code);
    }
    for (status, codes) in by_status {
        responses.insert(status.to_string(), refused(&codes));
    }
    Value::Object(responses)
}

fn answered(answer: &Answer, schemas: &mut SchemaGenerator) -> Value {
    let mut response = json!({ "description": answer.what });
    if let Some((content_type, schema)) = answer.content {
        response["content"] = json!({ content_type: media(schema.map(|make| make(schemas))) });
    }
    response
}

fn refused(codes: &[&str]) -> Value {
    let meanings: Vec<String> = codes
        .iter()
        .filter_map(|code| ErrorCode::find(code))
        .map(|entry| format!("`{}`: {}", entry.code, entry.meaning))
        .collect();
    json!({
        "description": meanings.join(" "),
        "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } },
    })
}

fn media(schema: Option<Schema>) -> Value {
    schema.map_or_else(|| json!({}), |schema| json!({ "schema": schema }))
}
