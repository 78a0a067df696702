//! What a server says about its own answers, held against every answer that a test gets.
//!
//! The OpenAPI document names the statuses, the types of content and the closed schemas of every operation. An answer
//! that it does not describe fails the test that saw it.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};

use jsonschema::Validator;
use reqwest::header::{ALLOW, CONTENT_TYPE, HeaderMap};
use reqwest::{Method, StatusCode};
use serde_json::{Map, Value, json};

/// The contracts that servers of this process told, by what they were told for.
static KNOWN: Mutex<Vec<(bool, Arc<Contract>)>> = Mutex::new(Vec::new());

/// One server's document, ready to check answers.
pub(crate) struct Contract {
    document: Value,
    /// The paths, those with the fewest parameters first.
    paths: Vec<String>,
    /// Compiled when they are first needed, by operation, status and content type.
    validators: Mutex<HashMap<String, Arc<Validator>>>,
}

/// An answer to be checked.
pub(crate) struct Answered<'a> {
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) status: StatusCode,
    pub(crate) headers: &'a HeaderMap,
    /// `None` for a stream, whose events are checked one by one.
    pub(crate) body: Option<&'a [u8]>,
}

impl Contract {
    /// The contract of the server at this address. Servers of one kind have one contract, which is asked for once.
    pub(crate) fn of(url: &str, has_test_clock: bool) -> Option<Arc<Self>> {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, contract)) = known.iter().find(|(kind, _)| *kind == has_test_clock) {
            return Some(contract.clone());
        }
        // A server that is to die at once may be gone already.
        let document = fetch(url).ok()?;
        let contract = Arc::new(Self::new(document));
        known.push((has_test_clock, contract.clone()));
        Some(contract)
    }

    fn new(document: Value) -> Self {
        let mut paths: Vec<String> = document["paths"].as_object().unwrap().keys().cloned().collect();
        paths.sort_by_key(|path| (path.matches('{').count(), std::cmp::Reverse(path.len())));
        Self { document, paths, validators: Mutex::default() }
    }

    /// The document itself.
    pub(crate) fn document(&self) -> &Value {
        &self.document
    }

    /// Panics if the document does not describe this answer.
    pub(crate) fn check(&self, answer: &Answered<'_>) {
        if let Err(problem) = self.problem(answer) {
            let body = answer.body.map(String::from_utf8_lossy).unwrap_or_default();
            let Answered { method, path, status, .. } = answer;
            panic!("{method} {path} answered {status}, which breaks the contract: {problem}\n{body}");
        }
    }

    fn problem(&self, answer: &Answered<'_>) -> Result<(), String> {
        // A head that is too large is refused before anything of it is understood.
        if answer.status == StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE {
            return if answer.body.is_some_and(<[u8]>::is_empty) {
                Ok(())
            } else {
                Err("it has a body".into())
            };
        }
        // The document is about Abide's own API. What OpenIntent wants stands in its own.
        if is_openintent(answer.path) {
            return Ok(());
        }
        let Some(path) = self.paths.iter().find(|template| fits(template, answer.path)) else {
            return self.envelope(answer, &["not_found", "capability_not_provided", "validation_error"]);
        };
        let method = if *answer.method == Method::HEAD { Method::GET } else { answer.method.clone() };
        let method = method.as_str().to_ascii_lowercase();
        let Some(operation) = self.document["paths"][path].get(&method) else {
            if !answer.headers.contains_key(ALLOW) {
                return Err("the allowed methods are not named".to_owned());
            }
            return self.envelope(answer, &["method_not_allowed"]);
        };
        let status = answer.status.as_u16().to_string();
        let response = operation["responses"].get(&status).ok_or("the status is not documented")?;
        for name in response["headers"].as_object().into_iter().flat_map(Map::keys) {
            if !answer.headers.contains_key(name.as_str()) {
                return Err(format!("the header {name} is missing"));
            }
        }
        self.content(answer, response, &format!("{method} {path} {status}"))
    }

    /// Panics if the document does not describe this event of a stream. A batch is checked event by event.
    pub(crate) fn check_frame(&self, path: &str, event: &str, data: &Value) {
        let path = path.split('?').next().unwrap();
        if is_openintent(path) {
            return;
        }
        let template = self.paths.iter().find(|template| fits(template, path)).unwrap();
        let kind = "text/event-stream";
        let schema = &self.document["paths"][template]["get"]["responses"]["200"]["content"][kind]["schema"];
        assert!(schema.is_object(), "{template} says nothing about its events");
        let each = if event == "batch" { data.as_array().unwrap() } else { std::slice::from_ref(data) };
        for one in each {
            let valid = self.valid(&format!("{template} {kind}"), schema, one.to_string().as_bytes());
            assert_eq!(valid, Ok(()), "{path} sent {event}: {one}");
        }
    }

    fn content(&self, answer: &Answered<'_>, response: &Value, place: &str) -> Result<(), String> {
        let kind = answer.headers.get(CONTENT_TYPE).map(|kind| kind.to_str().unwrap_or_default());
        let kind = kind.map(|kind| kind.split(';').next().unwrap_or_default().trim());
        let documented = response["content"].as_object();
        let (Some(kind), Some(documented)) = (kind, documented) else {
            let is_empty = answer.body.is_none_or(<[u8]>::is_empty);
            return match documented {
                None if is_empty => Ok(()),
                None => Err("the body should be empty".to_owned()),
                Some(_) => Err("the content has no type".to_owned()),
            };
        };
        let is_kind = |known: &&String| known.split(';').next().unwrap_or_default().trim() == kind;
        let media = documented.keys().find(is_kind).ok_or_else(|| format!("{kind} is not documented"))?;
        let media = &documented[media];
        let Some(body) = answer.body.filter(|_| *answer.method != Method::HEAD) else { return Ok(()) };
        match media.get("schema") {
            Some(schema) if kind.ends_with("json") => self.valid(&format!("{place} {kind}"), schema, body),
            _ => Ok(()),
        }
    }

    /// What no operation answers is refused all the same, in the envelope and with one of these codes.
    fn envelope(&self, answer: &Answered<'_>, codes: &[&str]) -> Result<(), String> {
        if *answer.method == Method::HEAD {
            return Ok(());
        }
        let schema =
            json!({ "$ref": "#/components/schemas/Error", "properties": { "error": { "enum": codes } } });
        self.valid(&format!("error {codes:?}"), &schema, answer.body.unwrap_or_default())
    }

    fn valid(&self, place: &str, schema: &Value, body: &[u8]) -> Result<(), String> {
        let body: Value = serde_json::from_slice(body).map_err(|error| format!("it is not JSON: {error}"))?;
        let validator = self.validator(place, schema);
        let errors: Vec<String> = validator
            .iter_errors(&body)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .take(5)
            .collect();
        if errors.is_empty() { Ok(()) } else { Err(errors.join("; ")) }
    }

    fn validator(&self, place: &str, schema: &Value) -> Arc<Validator> {
        let mut validators = self.validators.lock().unwrap_or_else(PoisonError::into_inner);
        let compiled = validators.entry(place.to_owned()).or_insert_with(|| {
            let mut whole = schema.clone();
            whole["components"] = self.document["components"].clone();
            Arc::new(jsonschema::options().should_validate_formats(true).build(&whole).unwrap())
        });
        compiled.clone()
    }
}

fn is_openintent(path: &str) -> bool {
    path.starts_with("/api/v1/") || path.starts_with("/.well-known/openintent")
}

/// Whether a path is one of those that a template stands for.
pub(crate) fn fits(template: &str, path: &str) -> bool {
    let (mut wanted, mut given) = (template.split('/'), path.split('/'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            (Some(wanted), Some(given)) if segment_fits(wanted, given) => {}
            _ => return false,
        }
    }
}

fn segment_fits(wanted: &str, given: &str) -> bool {
    match wanted.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
        None => wanted == given,
        // A run with a verb that nobody knows is not a run.
        Some(("runId", "")) => !given.is_empty() && !given.contains(':'),
        Some((_, "")) => !given.is_empty(),
        Some((_, verb)) => given.strip_suffix(verb).is_some_and(|thing| !thing.is_empty()),
    }
}

/// Asks for the document without a runtime, because servers are started outside of one too.
fn fetch(url: &str) -> std::io::Result<Value> {
    let address = url.strip_prefix("http://").unwrap_or(url);
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(super::PATIENCE))?;
    write!(stream, "GET /v1/openapi.json HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(std::io::ErrorKind::UnexpectedEof)?;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    Ok(serde_json::from_str(body)?)
}

#[test]
fn a_path_is_found_by_its_template() {
    let cases = [
        ("/v1/runs", "/v1/runs", true),
        ("/v1/runs", "/v1/runs/", false),
        ("/v1/runs/{runId}", "/v1/runs/run-1", true),
        ("/v1/runs/{runId}", "/v1/runs/", false),
        ("/v1/runs/{runId}", "/v1/runs/run-1:sing", false),
        ("/v1/runs/{runId}:pause", "/v1/runs/run-1:pause", true),
        ("/v1/runs/{runId}:pause", "/v1/runs/run-1", false),
        ("/v1/runs/{runId}/cancel", "/v1/runs/run-1/cancel", true),
        ("/v1/runs/{runId}/cancel", "/v1/runs/run-1/erase", false),
    ];
    for (template, path, expected) in cases {
        assert_eq!(fits(template, path), expected, "{template} {path}");
    }
}
