//! Talking to a server.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::Value;

use crate::args::{ClientArgs, ReadyArgs};
use crate::draw::words::legible;
use crate::exit::{Exit, Failure};
use crate::output;

/// The server's time in milliseconds, as every answer carries it.
const NOW: &str = "abide-now";

/// How long after a connection was lost it is tried again: a server that restarts is back by then.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// A server and a key.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    url: String,
    key: String,
    /// The server's time at its last answer; 0 before there was one that says.
    now_ms: Arc<AtomicI64>,
}

/// What a server answered, whether it said yes or no.
pub(crate) struct Answer {
    /// The server, for messages.
    url: String,
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

impl Client {
    pub(crate) fn new(args: &ClientArgs) -> anyhow::Result<Self> {
        let key = args.api_key.clone().ok_or_else(|| {
            Failure::new(
                Exit::Refused,
                "no API key: set ABIDE_API_KEY (`abide dev` prints one) or pass --api-key",
            )
        })?;
        check_header(&key)?;
        check_url(&args.url)?;
        let url = args.url.trim_end_matches('/').to_owned();
        let http = match &args.ca {
            Some(file) => trusting(file)?,
            None => reqwest::Client::new(),
        };
        Ok(Self { http, url, key, now_ms: Arc::default() })
    }

    /// Whether a server should get traffic, which anybody may ask.
    pub(crate) async fn ready(args: ReadyArgs) -> anyhow::Result<()> {
        let key = Some("none".to_owned());
        let client = Self::new(&ClientArgs { url: args.url, api_key: key, ca: args.ca, json: false })?;
        let answer = client.send(client.http.get(format!("{}/readyz", client.url))).await?;
        answer.accepted()?;
        output::line(&format!("{} is ready", client.url))
    }

    /// What time it is for the server, so that its times are told from its own clock; ours if it does not say.
    pub(crate) fn now(&self) -> Timestamp {
        match self.now_ms.load(Ordering::Relaxed) {
            0 => Timestamp::now(),
            ms => Timestamp::from_millisecond(ms).unwrap_or_else(|_| Timestamp::now()),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.fetch(path).await?.json()
    }

    /// Every page of a list, as one: `{<list>: [...]}`.
    pub(crate) async fn pages(&self, path: &str, list: &str) -> anyhow::Result<Value> {
        let mut all = Vec::new();
        let mut cursor = String::new();
        loop {
            let mut page = self.get(&format!("{path}?limit=500{cursor}")).await?;
            all.extend(page[list].as_array_mut().map(std::mem::take).unwrap_or_default());
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={}", encoded(next)),
                None => return Ok(serde_json::json!({ list: all })),
            }
        }
    }

    /// What is at a path, as it is written there.
    pub(crate) async fn fetch(&self, path: &str) -> anyhow::Result<Answer> {
        self.send(self.request(Method::GET, path)).await?.accepted()
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.send(self.request(Method::POST, path).json(body)).await?.json()
    }

    /// Posts. A refusal is an answer like any other here: its details are the caller's to tell.
    pub(crate) async fn post_answered(&self, path: &str, body: &Value) -> anyhow::Result<Answer> {
        self.send(self.request(Method::POST, path).json(body)).await
    }

    /// Posts with headers.
    pub(crate) async fn post_with(
        &self,
        path: &str,
        body: &Value,
        headers: &[(&str, &str)],
    ) -> anyhow::Result<Value> {
        self.send(self.posting(path, body, headers)?).await?.json()
    }

    /// Posts what counts once however often it is sent: if the connection is lost, it is sent once more. A refusal is an
    /// answer like any other here.
    pub(crate) async fn post_surely(
        &self,
        path: &str,
        body: &Value,
        headers: &[(&str, &str)],
    ) -> anyhow::Result<Answer> {
        let lost = match self.send(self.posting(path, body, headers)?).await {
            Ok(answer) => return Ok(answer),
            Err(lost) => lost,
        };
        output::say(&format!("{lost:#}\nsending it once more; it counts once"));
        tokio::time::sleep(AGAIN_AFTER).await;
        self.send(self.posting(path, body, headers)?).await
    }

    fn posting(&self, path: &str, body: &Value, headers: &[(&str, &str)]) -> anyhow::Result<RequestBuilder> {
        let mut request = self.request(Method::POST, path).json(body);
        for (name, value) in headers {
            let value = HeaderValue::from_str(value).map_err(|_| {
                Failure::new(Exit::Refused, format!("'{name}' takes visible ASCII characters alone"))
            })?;
            request = request.header(*name, value);
        }
        Ok(request)
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.send(self.request(Method::PUT, path).json(body)).await?.json()
    }

    /// Puts a text as it is. A refusal is an answer like any other here: its details are the caller's to tell.
    pub(crate) async fn put_text(&self, path: &str, text: String, kind: &str) -> anyhow::Result<Answer> {
        self.send(self.request(Method::PUT, path).header(CONTENT_TYPE, kind).body(text)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> anyhow::Result<Value> {
        self.send(self.request(Method::DELETE, path)).await?.json()
    }

    /// Opens a stream of events behind the last one that is known. The body is the caller's to read.
    pub(crate) async fn stream(&self, path: &str, last: Option<u64>) -> anyhow::Result<Response> {
        let mut request = self.request(Method::GET, path).header(ACCEPT, "text/event-stream");
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        Ok(request.send().await.map_err(|error| self.unreachable(&error))?)
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url)).bearer_auth(&self.key)
    }

    async fn send(&self, request: RequestBuilder) -> anyhow::Result<Answer> {
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        self.read(response).await
    }

    /// Reads the whole of an answer.
    pub(crate) async fn read(&self, response: Response) -> anyhow::Result<Answer> {
        let (status, headers) = (response.status(), response.headers().clone());
        let now = headers.get(NOW).and_then(|now| now.to_str().ok()?.parse().ok());
        self.now_ms.store(now.unwrap_or(0), Ordering::Relaxed);
        let text = response.text().await.map_err(|error| self.unreachable(&error))?;
        Ok(Answer { url: self.url.clone(), status, headers, text })
    }

    /// What to say of a connection that failed.
    pub(crate) fn unreachable(&self, error: &reqwest::Error) -> Failure {
        let mut cause: &dyn std::error::Error = error;
        while let Some(deeper) = cause.source() {
            cause = deeper;
        }
        let message =
            format!("no answer from {}: {cause}; is the server running? (ABIDE_URL, --url)", self.url);
        Failure::new(Exit::Unreachable, message)
    }
}

impl Answer {
    /// The body as it was sent.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// How the server answered.
    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// A header, if it is there and is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The answer, unless it says no.
    pub(crate) fn accepted(self) -> anyhow::Result<Self> {
        if self.status.is_success() { Ok(self) } else { Err(self.refusal().into()) }
    }

    /// The body of an answer that says yes; `null` where there is none to read.
    pub(crate) fn json(self) -> anyhow::Result<Value> {
        let answer = self.accepted()?;
        if answer.text.is_empty() && answer.status == StatusCode::NO_CONTENT {
            return Ok(Value::Null);
        }
        Ok(serde_json::from_str(&answer.text).map_err(|error| answer.unreadable(&error))?)
    }

    /// What the server found wrong with what it was sent, each with its place; empty if it does not say.
    pub(crate) fn problems(&self) -> Vec<(String, String)> {
        let body: Value = serde_json::from_str(&self.text).unwrap_or_default();
        let problems = body["details"]["problems"].as_array().map_or(&[][..], Vec::as_slice);
        let word = |problem: &Value, key: &str| legible(problem[key].as_str().unwrap_or_default());
        let place = |problem: &Value| match problem["place"].as_str() {
            Some(_) => word(problem, "place"),
            // Of an answer to an interrupt, the places are pointers into what was sent.
            None => word(problem, "path"),
        };
        problems.iter().map(|problem| (place(problem), word(problem, "message"))).collect()
    }

    fn unreadable(&self, error: &serde_json::Error) -> Failure {
        let (url, status) = (&self.url, self.status);
        let message =
            format!("{url} answered {status}, but not in JSON that can be read: {error}; is the URL right?");
        Failure::new(Exit::Refused, message)
    }

    /// The server's own words, with its code and what to do about it.
    fn refusal(&self) -> Failure {
        let exit = if self.status == StatusCode::NOT_FOUND { Exit::NotFound } else { Exit::Refused };
        let body: Value = serde_json::from_str(&self.text).unwrap_or_default();
        let (Some(code), Some(message)) = (body["error"].as_str(), body["message"].as_str()) else {
            let status = self.status;
            let message =
                format!("the server answered {status}, and not in Abide's words; is the URL right?");
            return Failure::new(exit, message);
        };
        let remedy = abide_core::ErrorCode::find(code).map_or("", |entry| entry.remedy);
        Failure::new(exit, format!("{} [{}]\n  {remedy}", legible(message), legible(code)))
    }
}

/// A client that takes certificates which those in a file vouch for.
fn trusting(file: &Path) -> Result<reqwest::Client, Failure> {
    let wrong =
        |what: String| Failure::new(Exit::Usage, format!("--ca {}: {what} (ABIDE_CA)", file.display()));
    let text = std::fs::read(file).map_err(|error| wrong(format!("it can't be read: {error}")))?;
    let roots = reqwest::Certificate::from_pem_bundle(&text).unwrap_or_default();
    if roots.is_empty() {
        return Err(wrong("it holds no certificate; give a file in PEM form".to_owned()));
    }
    let built = reqwest::Client::builder().tls_certs_merge(roots).build();
    built.map_err(|error| wrong(format!("it can't be used: {error}")))
}

/// A key is not shown, whatever is wrong with it.
fn check_header(key: &str) -> Result<(), Failure> {
    if !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(());
    }
    let message = "the API key is empty or holds something other than visible ASCII characters, so it is none; check \
                   ABIDE_API_KEY or --api-key";
    Err(Failure::new(Exit::Usage, message))
}

fn check_url(text: &str) -> Result<(), Failure> {
    let is_web = |url: reqwest::Url| matches!(url.scheme(), "http" | "https");
    if reqwest::Url::parse(text).is_ok_and(is_web) {
        return Ok(());
    }
    let message = format!(
        "'{}' is no URL of a server; write http://host:port or https://host (ABIDE_URL, --url)",
        legible(text)
    );
    Err(Failure::new(Exit::Usage, message))
}

/// Text as one piece of a path or a query: whatever it holds, it can't become another request.
pub(crate) fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(status: u16, text: impl Into<String>) -> Answer {
        let (url, headers) = ("http://server".to_owned(), HeaderMap::new());
        Answer { url, status: StatusCode::from_u16(status).unwrap(), headers, text: text.into() }
    }

    fn refusal(status: u16, text: impl Into<String>) -> String {
        answer(status, text).json().unwrap_err().to_string()
    }

    #[test]
    fn what_a_user_types_stays_one_piece_of_the_path() {
        assert_eq!(encoded("run-01a1_x"), "run-01a1_x");
        assert_eq!(encoded("../runs?limit=1#x"), "%2E%2E%2Fruns%3Flimit%3D1%23x");
        assert_eq!(encoded("é"), "%C3%A9");
    }

    #[test]
    fn an_answer_without_a_body_is_one() {
        assert_eq!(answer(204, "").json().unwrap(), Value::Null);
        assert_eq!(answer(200, "[1]").json().unwrap(), json!([1]));
        assert!(refusal(200, "").contains("is the URL right?"));
    }

    #[test]
    fn a_refusal_is_told_without_commands_to_the_terminal() {
        let body = json!({ "error": "run_not_found", "message": "no \u{1b}[2Jrun\nhere" }).to_string();
        let told = refusal(404, body);
        assert!(told.starts_with("no \u{fffd}[2Jrun here [run_not_found]\n  Check the id"), "{told:?}");
        assert!(refusal(500, "<html>").contains("not in Abide's words"));
    }

    #[test]
    fn problems_are_found_in_the_details() {
        let problem = json!({ "place": "nodes[0].id", "message": "is missing\u{7}" });
        let body =
            json!({ "error": "validation_error", "message": "m", "details": { "problems": [problem] } });
        let found = answer(400, body.to_string()).problems();
        assert_eq!(found, [("nodes[0].id".to_owned(), "is missing\u{fffd}".to_owned())]);
        let body = json!({ "details": { "problems": [{ "path": "/answers/q", "message": "m" }] } });
        let found = answer(400, body.to_string()).problems();
        assert_eq!(found, [("/answers/q".to_owned(), "m".to_owned())]);
        assert!(answer(400, "<html>").problems().is_empty());
    }
}
