//! Streams of events: what a subscriber gets, in every mode and from every place, and what it costs the others.

mod annotated;
mod connections;
mod crash;
mod idle;
mod json;
mod mocks;
mod modes;
mod native;
mod resume;
mod slow;
mod values;

use std::sync::{Arc, Mutex};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Contract, PATIENCE, Server, Site, chain, node, workflow};

/// An hour: how long `parked` waits.
const HOUR_MS: i64 = 3_600_000;

/// How many events a run of `varied` has.
const VARIED_EVENTS: u64 = 16;

/// One server-sent event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    pub(crate) id: Option<u64>,
    pub(crate) event: String,
    pub(crate) data: Value,
}

/// A subscriber: what it is told, frame by frame.
pub(crate) struct Stream {
    response: reqwest::Response,
    text: String,
    path: String,
    contract: Option<Arc<Contract>>,
}

impl Stream {
    /// Subscribes; the server has to agree.
    pub(crate) async fn open(server: &Server, path: &str, last: Option<&str>) -> Self {
        Self::try_open(server, path, last).await.unwrap()
    }

    async fn try_open(server: &Server, path: &str, last: Option<&str>) -> reqwest::Result<Self> {
        let mut request = server.request(Method::GET, path).header("accept", "text/event-stream");
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = request.send().await?;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Ok(Self { response, text: String::new(), path: path.to_owned(), contract: server.contract.clone() })
    }

    /// The next frame; `None` when the server has closed the stream in an orderly way.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        self.try_next().await.expect("the stream is not broken off")
    }

    pub(crate) async fn try_next(&mut self) -> reqwest::Result<Option<Frame>> {
        loop {
            if let Some((frame, rest)) = self.text.split_once("\n\n") {
                let (frame, rest) = (parse(frame), rest.to_owned());
                self.text = rest;
                let Some(frame) = frame else { continue };
                if let Some(contract) = &self.contract {
                    contract.check_frame(&self.path, &frame.event, &frame.data);
                }
                return Ok(Some(frame));
            }
            let chunk = tokio::time::timeout(PATIENCE, self.response.chunk()).await.expect("something comes");
            match chunk? {
                Some(bytes) => self.text.push_str(std::str::from_utf8(&bytes).unwrap()),
                None => {
                    assert_eq!(self.text, "", "it ends behind a frame");
                    return Ok(None);
                }
            }
        }
    }

    /// Everything up to the end.
    pub(crate) async fn rest(mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(frame) = self.next().await {
            frames.push(frame);
        }
        frames
    }
}

/// A frame from its lines; `None` if it is a comment.
fn parse(text: &str) -> Option<Frame> {
    if text.starts_with(':') {
        assert_eq!(text, ":keepalive");
        return None;
    }
    let (mut id, mut event, mut data) = (None, None, None);
    for line in text.lines() {
        let (field, value) = line.split_once(": ").unwrap_or_else(|| panic!("{line:?} is no field"));
        let twice = match field {
            // Streams of intents say behind a dot how many records were told of.
            "id" => id.replace(value.split('.').next().unwrap().parse().unwrap()).is_some(),
            "event" => event.replace(value.to_owned()).is_some(),
            "data" => data.replace(serde_json::from_str(value).unwrap()).is_some(),
            other => panic!("{other} is no field of ours"),
        };
        assert!(!twice, "{text}");
    }
    Some(Frame { id, event: event.unwrap(), data: data.unwrap() })
}

/// The frames of a stream that ends, checked to say the same in their lines as in their data.
async fn frames(server: &Server, run: &str, query: &str, last: Option<&str>) -> Vec<Frame> {
    let frames = Stream::open(server, &format!("/v1/runs/{run}/events?{query}"), last).await.rest().await;
    for frame in frames.iter().filter(|frame| frame.event != "batch") {
        assert_eq!(frame.data["type"], frame.event);
        assert_eq!(frame.data["sequence"].as_u64(), frame.id);
        assert_eq!(frame.data["runId"], run);
    }
    frames
}

/// The types and sequences of frames.
fn told(frames: &[Frame]) -> Vec<(&str, u64)> {
    frames.iter().map(|frame| (frame.event.as_str(), frame.id.unwrap())).collect()
}

/// A request that the server refuses: the status and the body.
async fn refused(server: &Server, path: &str, headers: &[(&str, &str)]) -> (StatusCode, Value) {
    let mut request = server.request(Method::GET, path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    crate::support::answer(request).await.unwrap()
}

/// A schema of the document that is served.
async fn schema(server: &Server, name: &str) -> jsonschema::Validator {
    let (_, document) = server.get("/v1/openapi.json").await;
    let mut schema = document["components"]["schemas"][name].clone();
    schema["components"] = document["components"].clone();
    jsonschema::draft202012::new(&schema).unwrap()
}

fn demand_valid(schema: &jsonschema::Validator, value: &Value) {
    let problems: Vec<String> = schema.iter_errors(value).map(|error| error.to_string()).collect();
    assert!(problems.is_empty(), "{problems:?} in {value}");
}

/// A door that stays where it is while the server behind it is another one.
pub(crate) struct Door {
    pub(crate) url: String,
    leads_to: Arc<Mutex<String>>,
}

impl Door {
    pub(crate) async fn open(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let door = Self { url, leads_to: Arc::default() };
        door.lead_to(server);
        let leads_to = door.leads_to.clone();
        tokio::spawn(async move {
            while let Ok((mut outside, _)) = listener.accept().await {
                let address = leads_to.lock().unwrap().clone();
                tokio::spawn(async move {
                    let mut inside = TcpStream::connect(address).await?;
                    tokio::io::copy_bidirectional(&mut outside, &mut inside).await
                });
            }
        });
        door
    }

    pub(crate) fn lead_to(&self, server: &Server) {
        *self.leads_to.lock().unwrap() = address(server);
    }
}

/// Where a server listens.
fn address(server: &Server) -> String {
    server.url.strip_prefix("http://").unwrap().to_owned()
}

/// A site with workflows of every kind of event that a run can have by itself.
fn site() -> Site {
    let site = Site::new();
    let plain = |id: &str, kind: &str, config: Value| node(id, kind, config, json!({}), json!({}));
    let waits = |ms: i64| plain("wait", "core.delay", json!({ "ms": ms }));
    site.workflow(&workflow("parked", &[waits(HOUR_MS)], &[], json!([])));
    site.workflow(&chain("noop", "core.noop", 1, &json!({})));
    site.workflow(&chain("durable", "core.noop", 100, &json!({ "abide": { "durable": true } })));
    site.workflow(&workflow(
        "varied",
        &[
            plain("made", "core.transform", json!({ "outputs": { "a": "1 + 1" }, "assign": { "b": "2" } })),
            plain("said", "core.channelWrite", json!({ "channelName": "c", "value": [1] })),
            plain("child", "core.subWorkflow", json!({ "workflowId": "noop" })),
            waits(1000),
            plain("fail", "core.fail", json!({ "message": "as told" })),
        ],
        &[("made", "said"), ("said", "child"), ("child", "wait"), ("wait", "fail")],
        json!([{ "name": "b", "type": "number" }]),
    ));
    site
}

/// Runs `varied` to its end and gives its id.
async fn varied(server: &Server) -> String {
    let run = server.start_run("varied", json!({})).await;
    server.settle().await;
    server.advance(1000).await;
    server.events(&run).await;
    run
}
