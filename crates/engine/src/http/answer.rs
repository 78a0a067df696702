//! What came back, as the node's output: status, headers and body, without secrets.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use abide_core::{Json, Scrub, TaskFailure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Response;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER, SET_COOKIE};
use serde::Serialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use tokio::time::{Instant, timeout_at};

use super::apart;
use super::failure::{self, Refusal};
use crate::limits;

#[derive(Serialize)]
struct Answer {
    status: u16,
    headers: BTreeMap<String, String>,
    body: Json,
}

/// How reading a body ended.
enum End {
    Whole,
    TooMuch,
    Late,
    Broken(reqwest::Error),
}

/// Reads a welcome answer.
pub(super) async fn accepted(
    mut response: Response,
    bytes_max: usize,
    deadline: Instant,
    scrub: &Arc<Scrub>,
) -> Result<Json, TaskFailure> {
    let status = response.status().as_u16();
    let headers = told_headers(response.headers(), scrub)?;
    let is_json = is_json(response.headers());
    if response.content_length().is_some_and(|length| length > bytes_max as u64) {
        return Err(failure::response_too_large(bytes_max));
    }
    let mut bytes = Vec::new();
    let end = read(&mut response, bytes_max, deadline, &mut bytes).await;
    let length = bytes.len();
    match end {
        End::Whole => {
            let scrub = scrub.clone();
            let tell = move || Json::of(&Answer { status, headers, body: told_body(bytes, is_json, &scrub) });
            apart(length, tell).await
        }
        End::TooMuch => Err(failure::response_too_large(bytes_max)),
        End::Late => Err(failure::timed_out()),
        End::Broken(error) => Err(failure::broken_off(error)),
    }
}

/// Reads the beginning of an unwelcome answer. The status decides, so a body that breaks off is no matter.
pub(super) async fn refused(mut response: Response, deadline: Instant, scrub: &Scrub) -> TaskFailure {
    let patience = Instant::now() + std::time::Duration::from_millis(limits::HTTP_REFUSAL_READ_MS);
    let mut bytes = Vec::new();
    let end =
        read(&mut response, limits::HTTP_REFUSAL_READ_BYTES_MAX, deadline.min(patience), &mut bytes).await;
    let clean = scrub.bytes(bytes, !matches!(end, End::Whole));
    let refusal = Refusal {
        status: response.status().as_u16(),
        body: beginning(&String::from_utf8_lossy(&clean)),
        retry_after_ms: retry_after_ms(response.headers()),
    };
    refusal.into_failure()
}

async fn read(response: &mut Response, bytes_max: usize, until: Instant, bytes: &mut Vec<u8>) -> End {
    timeout_at(until, read_chunks(response, bytes_max, bytes)).await.unwrap_or(End::Late)
}

async fn read_chunks(response: &mut Response, bytes_max: usize, bytes: &mut Vec<u8>) -> End {
    loop {
        match response.chunk().await {
            Ok(None) => return End::Whole,
            Err(error) => return End::Broken(error),
            Ok(Some(chunk)) => {
                let room = bytes_max - bytes.len();
                bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
                if chunk.len() > room {
                    return End::TooMuch;
                }
            }
        }
    }
}

/// Headers by name, repeated ones joined. Cookies are left out: they are credentials of the server's making.
fn told_headers(headers: &HeaderMap, scrub: &Scrub) -> Result<BTreeMap<String, String>, TaskFailure> {
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if bytes > limits::HTTP_HEADERS_BYTES_MAX {
        return Err(failure::response_too_large(limits::HTTP_HEADERS_BYTES_MAX));
    }
    let names = headers.keys().filter(|name| **name != SET_COOKIE);
    Ok(names.map(|name| (scrub.text(name.as_str()), scrub.text(&joined(headers, name.as_str())))).collect())
}

fn joined(headers: &HeaderMap, name: &str) -> String {
    let values = headers.get_all(name).iter();
    values.map(|value| String::from_utf8_lossy(value.as_bytes())).collect::<Vec<_>>().join(", ")
}

fn is_json(headers: &HeaderMap) -> bool {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    media_type == "application/json" || media_type.ends_with("+json")
}

/// JSON as it came, other text as a string, anything else as `{"base64": …}`.
///
/// If a secret stood where JSON has no strings, what is left is no longer JSON and is carried as text.
fn told_body(bytes: Vec<u8>, is_json: bool, scrub: &Scrub) -> Json {
    match String::from_utf8(scrub.bytes(bytes, false)) {
        Ok(text) => as_json(&text).filter(|_| is_json).unwrap_or_else(|| Json::of(&text)),
        Err(binary) => {
            let encoded = STANDARD.encode(binary.as_bytes());
            Json::of(&BTreeMap::from([("base64", encoded)]))
        }
    }
}

fn as_json(text: &str) -> Option<Json> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = serde_json::Deserializer::from_str(text);
    Skim { depth_left: limits::HTTP_JSON_DEPTH_MAX }.deserialize(&mut reader).ok()?;
    reader.end().ok()?;
    serde_json::from_str(text).ok()
}

/// Seconds only: a date would need the other side's clock to agree with ours.
fn retry_after_ms(headers: &HeaderMap) -> Option<u64> {
    let seconds: u64 = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(seconds.saturating_mul(1000).min(limits::HTTP_RETRY_AFTER_MS_MAX))
}

fn beginning(text: &str) -> String {
    text[..text.floor_char_boundary(limits::HTTP_REFUSAL_TOLD_BYTES_MAX)].to_owned()
}

/// Reads JSON through and keeps nothing: every string and number is one that can be read again later,
/// and nothing is nested deeper than whoever reads it can go.
#[derive(Clone, Copy)]
struct Skim {
    depth_left: usize,
}

impl Skim {
    fn inside<E: Error>(self) -> Result<Self, E> {
        let depth_left = self.depth_left.checked_sub(1).ok_or_else(|| E::custom("nested too deeply"))?;
        Ok(Self { depth_left })
    }
}

impl<'de> DeserializeSeed<'de> for Skim {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Skim {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let inside = self.inside()?;
        while items.next_element_seed(inside)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let inside = self.inside()?;
        while entries.next_entry_seed(inside, inside)?.is_some() {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use abide_core::SecretForms;

    use super::*;

    fn told(body: &str, is_json: bool, secrets: &[&str]) -> String {
        let mut forms = SecretForms::default();
        secrets.iter().for_each(|secret| forms.add(secret));
        told_body(body.as_bytes().to_vec(), is_json, &Scrub::new(&forms)).text().to_owned()
    }

    #[test]
    fn json_is_carried_as_it_came() {
        let body = r#"{ "b":1.50, "a":[12345678901234567890123, "\u0041"], "b":null }"#;
        assert_eq!(told(body, true, &[]), body);
        assert_eq!(told("\u{feff}[1]", true, &[]), "[1]");
    }

    #[test]
    fn what_nobody_could_read_again_is_text() {
        for body in ["{", "", "1e999", r#""\ud800""#, r#"{"\ud800":1}"#, "[1] 2"] {
            assert_eq!(told(body, true, &[]), Json::of(body).text(), "{body}");
        }
        assert_eq!(told("[1]", false, &[]), r#""[1]""#, "the server does not call it JSON");
    }

    #[test]
    fn deep_json_is_text() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(told(&nested(100), true, &[]), nested(100));
        assert_eq!(told(&nested(101), true, &[]), Json::of(&nested(101)).text());
        assert_eq!(told(&nested(100_000), true, &[]), Json::of(&nested(100_000)).text());
    }

    #[test]
    fn a_secret_in_the_place_of_a_number_makes_text_of_json() {
        assert_eq!(told(r#"{"pin":"123456"}"#, true, &["123456"]), r#"{"pin":"[secret]"}"#);
        assert_eq!(told(r#"{"pin":123456}"#, true, &["123456"]), r#""{\"pin\":[secret]}""#);
    }
}
