//! The OpenAPI document, made from the table of operations.
//!
//! It is complete enough to generate a client from, and to check every answer against: all statuses are there, and what
//! an answer does not describe does not stand in it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use abide_core::ErrorCode;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::Schema;
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::operation::{Access, Answer, Operation};
use crate::schemas::Schemas;
use crate::{conditional, shape};

/// What any operation may say no with.
const COMMON: [&str; 3] = ["internal_error", "unavailable", "store_unavailable"];
/// What an operation that takes parameters beside its path may say no with.
const WITH_PARAMETERS: &str = "validation_error";
/// What an operation with a body may say no with.
const WITH_BODY: [&str; 3] = ["validation_error", "payload_too_large", "request_timeout"];
/// What an operation for holders of a key may say no with.
const WITH_KEY: [&str; 6] =
    ["unauthenticated", "key_expired", "key_revoked", "token_expired", "forbidden", "rate_limited"];

/// The document of one server, as it is sent.
pub(crate) struct Document {
    text: String,
    tag: String,
    /// Method and path of every operation.
    served: BTreeSet<(String, &'static str)>,
}

impl Document {
    /// The document of these operations.
    pub(crate) fn of(operations: &[Operation]) -> Self {
        let text = build(operations).to_string();
        let tag = format!("\"{}\"", &abide_core::hex(&abide_core::sha256(text.as_bytes()))[..32]);
        let ours = operations.iter().filter(|operation| !operation.is_openintent);
        let served = ours.map(|operation| (operation.method.to_string(), operation.path)).collect();
        Self { text, tag, served }
    }

    /// Whether there is such an operation.
    pub(crate) fn serves(&self, method: &Method, path: &str) -> bool {
        self.served.iter().any(|(known, at)| known == method.as_str() && *at == path)
    }

    /// Whether anything under `/v1` begins with this segment.
    pub(crate) fn has_root(&self, segment: &str) -> bool {
        let root = |path: &'static str| path.strip_prefix("/v1/")?.split(['/', ':']).next();
        self.served.iter().any(|(_, path)| root(path) == Some(segment))
    }
}

/// The document, for whoever asks.
pub(crate) async fn show(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let document = app.openapi();
    let mut response = if conditional::has_already(&headers, &document.tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(header::CONTENT_TYPE, "application/json")], document.text.clone()).into_response()
    };
    if let Ok(tag) = HeaderValue::from_str(&document.tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

fn build(operations: &[Operation]) -> Value {
    let mut schemas = Schemas::new();
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for operation in operations.iter().filter(|operation| !operation.is_openintent) {
        let method = operation.method.as_str().to_ascii_lowercase();
        paths.entry(operation.path).or_default().insert(method, described(operation, &mut schemas));
    }
    let bearer = json!({
        "type": "http", "scheme": "bearer",
        "description": "An API key. Beside it stands the scope that the key needs.",
    });
    let header = json!({
        "type": "apiKey", "in": "header", "name": "X-API-Key",
        "description": "The same API key, where a client sends no other header.",
    });
    json!({
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "Abide",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A durable runtime for agent workflows that wait for people. An OpenWOP v1 host.",
            "license": { "name": "Apache 2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": { "schemas": schemas.into_components(), "securitySchemes": { "key": bearer, "header": header } },
    })
}

fn described(operation: &Operation, schemas: &mut Schemas) -> Value {
    let mut described = json!({
        "operationId": operation.id,
        "summary": operation.summary,
        "parameters": parameters(operation, schemas),
        "responses": responses(operation, schemas),
        "security": security(operation.access),
    });
    if !operation.takes.is_empty() {
        let mut content = Map::new();
        let mut required = operation.body_required;
        for takes in &operation.takes {
            let schema = takes.schema.map(|make| schemas.taken(make));
            // No body stands for an empty object, which is all that some operations need.
            required &= schema.as_ref().is_none_or(|schema| !schemas.takes_nothing(schema));
            content.insert(takes.content_type.to_owned(), media(schema));
        }
        described["requestBody"] = json!({ "required": required, "content": content });
    }
    described
}

fn security(access: Access) -> Value {
    match access {
        Access::Public | Access::Token => json!([]),
        Access::AnyKey => json!([{ "key": [] }, { "header": [] }]),
        Access::Scope(scope) => json!([{ "key": [scope.name()] }, { "header": [scope.name()] }]),
    }
}

fn parameters(operation: &Operation, schemas: &mut Schemas) -> Vec<Value> {
    let in_path = operation.path.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| {
        json!({ "name": name, "in": "path", "required": true, "schema": shape::path_parameter(name) })
    });
    let mut parameters: Vec<Value> = in_path.collect();
    if let Some(query) = operation.query {
        parameters.extend(query_parameters(&schemas.taken(query)));
    }
    let mut headers = operation.headers.clone();
    if operation.idempotent {
        headers.push((
            "Idempotency-Key",
            "Repeating the request with the same key gives the first answer again.",
        ));
    }
    headers.push(("traceparent", "The trace that the request belongs to, as W3C Trace Context has it."));
    parameters.extend(headers.iter().map(|(name, meaning)| {
        json!({ "name": name, "in": "header", "description": meaning, "schema": shape::header(name) })
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
        let mut schema = schema.clone();
        let meaning = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        let mut parameter = json!({
            "name": name, "in": "query", "required": required.contains(name.as_str()), "schema": schema,
        });
        if let Some(meaning) = meaning {
            parameter["description"] = meaning;
        }
        parameter
    };
    properties.iter().map(parameter).collect()
}

fn responses(operation: &Operation, schemas: &mut Schemas) -> Value {
    let mut responses = Map::new();
    for answer in &operation.answers {
        let status = answer.status.to_string();
        let known = responses.remove(&status);
        responses.insert(status, answered(answer, known, schemas));
    }
    for (status, codes) in refusals(operation) {
        responses.insert(status.to_string(), refused(status, &codes));
    }
    Value::Object(responses)
}

/// The codes with which an operation may say no, by their status.
fn refusals(operation: &Operation) -> BTreeMap<u16, BTreeSet<&'static str>> {
    let mut codes: Vec<&'static str> = COMMON.to_vec();
    codes.extend(&operation.refusals);
    if operation.query.is_some() || operation.idempotent {
        codes.push(WITH_PARAMETERS);
    }
    if !operation.takes.is_empty() {
        codes.extend(WITH_BODY);
    }
    match operation.access {
        Access::Public | Access::Token => {}
        Access::AnyKey | Access::Scope(_) => codes.extend(WITH_KEY),
    }
    let mut by_status: BTreeMap<u16, BTreeSet<&'static str>> = BTreeMap::new();
    for code in codes {
        let status = ErrorCode::find(code).map_or(500, |entry| entry.status);
        by_status.entry(status).or_default().insert(code);
    }
    for (status, code) in &operation.odd_refusals {
        by_status.entry(*status).or_default().insert(code);
    }
    by_status
}

/// One way of saying yes; a status may come with several types of content.
fn answered(answer: &Answer, known: Option<Value>, schemas: &mut Schemas) -> Value {
    let mut response = known.unwrap_or_else(|| json!({ "description": answer.what }));
    if let Some((content_type, schema)) = answer.content {
        let media = media(schema.map(|make| schemas.given(make)));
        response["content"][content_type] = media;
    }
    response
}

fn refused(status: u16, codes: &BTreeSet<&'static str>) -> Value {
    let meanings: Vec<String> = codes
        .iter()
        .filter_map(|code| ErrorCode::find(code))
        .map(|entry| format!("`{}`: {}", entry.code, entry.meaning))
        .collect();
    let schema = json!({
        "$ref": "#/components/schemas/Error",
        "properties": { "error": { "enum": codes } },
    });
    let mut response = json!({
        "description": meanings.join(" "),
        "content": { "application/json": { "schema": schema } },
    });
    if matches!(status, 429 | 503) {
        response["headers"]["Retry-After"] = json!({
            "description": "Seconds to wait before trying again.", "required": true,
            "schema": { "type": "string", "pattern": "^[0-9]+$" },
        });
    }
    response
}

fn media(schema: Option<Schema>) -> Value {
    schema.map_or_else(|| json!({}), |schema| json!({ "schema": schema }))
}
