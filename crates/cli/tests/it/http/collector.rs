//! A collector of traces on loopback: it takes OTLP over HTTP in both forms, decodes it, and keeps it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// A span as the collector was told of it.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) service: String,
    pub(super) name: String,
    pub(super) trace: String,
    pub(super) id: String,
    pub(super) parent: Option<String>,
    pub(super) kind: u64,
    /// When it began and ended, in milliseconds since 1970.
    pub(super) began: i64,
    pub(super) ended: i64,
    pub(super) failed: bool,
    /// Numbers are written as text.
    pub(super) attributes: BTreeMap<String, String>,
    /// Traces and spans.
    pub(super) links: Vec<(String, String)>,
}

impl Told {
    pub(super) fn said(&self, name: &str) -> &str {
        self.attributes.get(name).unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }

    pub(super) fn is_below(&self, parent: &Self) -> bool {
        self.parent.as_ref() == Some(&parent.id) && self.trace == parent.trace
    }
}

/// What the collector has heard: heads, and the bytes behind them.
type Heard = Arc<Mutex<Vec<(String, Vec<u8>, u16)>>>;

pub(super) struct Collector {
    pub(super) url: String,
    heard: Heard,
}

impl Collector {
    /// One that takes everything.
    pub(super) async fn start() -> Self {
        Self::answering(|_| 200).await
    }

    /// One that answers each request with a status, by its number from 0.
    pub(super) async fn answering(status: impl Fn(usize) -> u16 + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let heard = Heard::default();
        let kept = heard.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let Some((head, body)) = hear(&mut stream).await else { continue };
                let status = {
                    let mut kept = kept.lock().unwrap();
                    let status = status(kept.len());
                    kept.push((head, body, status));
                    status
                };
                let text = format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
                let _ = stream.write_all(text.as_bytes()).await;
            }
        });
        Self { url, heard }
    }

    /// Everything that was sent, taken or not.
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.heard
            .lock()
            .unwrap()
            .iter()
            .flat_map(|(head, body, _)| [head.as_bytes(), body].concat())
            .collect()
    }

    /// What came before the bodies.
    pub(super) fn heads(&self) -> Vec<String> {
        self.heard.lock().unwrap().iter().map(|(head, ..)| head.clone()).collect()
    }

    /// The spans that were taken.
    pub(super) fn spans(&self) -> Vec<Told> {
        let heard = self.heard.lock().unwrap();
        let taken = heard.iter().filter(|(_, _, status)| *status == 200);
        taken.flat_map(|(head, body, _)| decode(head, body)).collect()
    }

    /// The only span of this name in a trace.
    pub(super) fn span(&self, trace: &str, name: &str) -> Told {
        let all = self.spans();
        let found: Vec<&Told> = all.iter().filter(|span| span.trace == trace && span.name == name).collect();
        let names: Vec<_> = all.iter().map(|span| (&span.trace, &span.name)).collect();
        assert_eq!(found.len(), 1, "{name} in {names:?}");
        found[0].clone()
    }

    /// Waits until a span of this name has come.
    pub(super) async fn await_span(&self, name: &str) {
        let came = async {
            while !self.spans().iter().any(|span| span.name == name) {
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(PATIENCE, came).await.unwrap_or_else(|_| panic!("{name} does not come"));
    }
}

/// Reads one request with its body.
async fn hear(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
            let length = head.to_lowercase().lines().find_map(|line| {
                line.strip_prefix("content-length:").map(|length| length.trim().parse::<usize>().unwrap())
            });
            let body = &bytes[end + 4..];
            if body.len() >= length.unwrap_or(0) {
                return Some((head, body.to_vec()));
            }
        }
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return None;
        }
    }
}

fn decode(head: &str, body: &[u8]) -> Vec<Told> {
    match outgoing::header_of(head, "content-type").unwrap() {
        "application/json" => from_json(&serde_json::from_slice(body).unwrap()),
        "application/x-protobuf" => from_protobuf(body),
        other => panic!("{other} is none of OTLP's forms"),
    }
}

fn from_json(body: &Value) -> Vec<Told> {
    let resource = &body["resourceSpans"][0];
    let service = json_attributes(&resource["resource"]["attributes"])["service.name"].clone();
    let spans = resource["scopeSpans"][0]["spans"].as_array().unwrap();
    spans.iter().map(|span| one_from_json(span, &service)).collect()
}

fn one_from_json(span: &Value, service: &str) -> Told {
    let text = |key: &str| span[key].as_str().map(str::to_owned);
    let ms = |key: &str| text(key).unwrap().parse::<i64>().unwrap() / 1_000_000;
    let links = span["links"].as_array().cloned().unwrap_or_default();
    let link = |link: &Value| {
        (link["traceId"].as_str().unwrap().to_owned(), link["spanId"].as_str().unwrap().to_owned())
    };
    Told {
        service: service.to_owned(),
        name: text("name").unwrap(),
        trace: text("traceId").unwrap(),
        id: text("spanId").unwrap(),
        parent: text("parentSpanId"),
        kind: span["kind"].as_u64().unwrap(),
        began: ms("startTimeUnixNano"),
        ended: ms("endTimeUnixNano"),
        failed: span["status"]["code"] == 2,
        attributes: json_attributes(&span["attributes"]),
        links: links.iter().map(link).collect(),
    }
}

fn json_attributes(pairs: &Value) -> BTreeMap<String, String> {
    let pair = |pair: &Value| {
        let value = &pair["value"];
        let text = value["stringValue"].as_str().or_else(|| value["intValue"].as_str());
        (pair["key"].as_str().unwrap().to_owned(), text.unwrap_or_else(|| panic!("{pair}")).to_owned())
    };
    pairs.as_array().unwrap().iter().map(pair).collect()
}

/// A message of Protocol Buffers: its fields in order, by their numbers.
struct Message<'a>(Vec<(u64, Field<'a>)>);

enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Message<'a> {
    fn read(mut bytes: &'a [u8]) -> Self {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let tag = varint(&mut bytes);
            let field = match tag & 7 {
                0 => Field::Number(varint(&mut bytes)),
                1 => Field::Number(u64::from_le_bytes(cut(&mut bytes, 8).try_into().unwrap())),
                2 => {
                    let length = varint(&mut bytes);
                    Field::Bytes(cut(&mut bytes, length.try_into().unwrap()))
                }
                other => panic!("wire type {other}"),
            };
            fields.push((tag >> 3, field));
        }
        Self(fields)
    }

    fn all(&self, number: u64) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().filter_map(move |(field, value)| match value {
            Field::Bytes(bytes) if *field == number => Some(*bytes),
            _ => None,
        })
    }

    fn messages(&self, number: u64) -> Vec<Self> {
        self.all(number).map(Message::read).collect()
    }

    fn text(&self, number: u64) -> Option<String> {
        self.all(number).next().map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
    }

    fn hex(&self, number: u64) -> Option<String> {
        self.all(number).next().map(abide_core::hex)
    }

    fn number(&self, number: u64) -> Option<u64> {
        self.0.iter().find_map(|(field, value)| match value {
            Field::Number(found) if *field == number => Some(*found),
            _ => None,
        })
    }

    fn attributes(&self, number: u64) -> BTreeMap<String, String> {
        let pair = |pair: &Self| {
            let any = &pair.messages(2)[0];
            (pair.text(1).unwrap(), any.text(1).unwrap_or_else(|| any.number(3).unwrap().to_string()))
        };
        self.messages(number).iter().map(pair).collect()
    }
}

fn cut<'a>(bytes: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (head, rest) = bytes.split_at(length);
    *bytes = rest;
    head
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = cut(bytes, 1)[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    number
}

/// By the numbers of `ExportTraceServiceRequest` and what is in it.
fn from_protobuf(body: &[u8]) -> Vec<Told> {
    let request = Message::read(body);
    let of_resource = &request.messages(1)[0];
    let service = of_resource.messages(1)[0].attributes(1)["service.name"].clone();
    let one = |span: &Message<'_>| {
        let ms = |number: u64| i64::try_from(span.number(number).unwrap() / 1_000_000).unwrap();
        Told {
            service: service.clone(),
            name: span.text(5).unwrap(),
            trace: span.hex(1).unwrap(),
            id: span.hex(2).unwrap(),
            parent: span.hex(4),
            kind: span.number(6).unwrap(),
            began: ms(7),
            ended: ms(8),
            failed: span.messages(15).first().and_then(|status| status.number(3)) == Some(2),
            attributes: span.attributes(9),
            links: span
                .messages(13)
                .iter()
                .map(|link| (link.hex(1).unwrap(), link.hex(2).unwrap()))
                .collect(),
        }
    };
    of_resource.messages(2)[0].messages(2).iter().map(one).collect()
}
