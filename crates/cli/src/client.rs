//! Talking to a server.

use reqwest::{Method, StatusCode};
use serde_json::Value;

use crate::args::ClientArgs;
use crate::exit::{Exit, Failure};

/// A server and a key.
pub(crate) struct Client {
    http: reqwest::Client,
    url: String,
    key: String,
}

impl Client {
    pub(crate) fn new(args: &ClientArgs) -> anyhow::Result<Self> {
        let key = args.api_key.clone().ok_or_else(|| {
            Failure::new(
                Exit::Refused,
                "no API key: set ABIDE_API_KEY (`abide dev` prints one) or pass --api-key",
            )
        })?;
        Ok(Self { http: reqwest::Client::new(), url: args.url.trim_end_matches('/').to_owned(), key })
    }

    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.send(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.send(Method::POST, path, Some(body)).await
    }

    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let mut request = self.http.request(method, format!("{}{path}", self.url)).bearer_auth(&self.key);
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        let text = response.text().await.map_err(|error| self.unreachable(&error))?;
        let body = serde_json::from_str(&text);
        if status.is_success() {
            return body.map_err(|error| self.unreadable(status, &error).into());
        }
        Err(refused(status, &body.unwrap_or(Value::Null)).into())
    }

    fn unreadable(&self, status: StatusCode, error: &serde_json::Error) -> Failure {
        let message = format!(
            "{} answered {status}, but not in JSON that can be read: {error}; is the URL right?",
            self.url
        );
        Failure::new(Exit::Refused, message)
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        let mut cause: &dyn std::error::Error = error;
        while let Some(deeper) = cause.source() {
            cause = deeper;
        }
        let message =
            format!("no answer from {}: {cause}; is the server running? (ABIDE_URL, --url)", self.url);
        Failure::new(Exit::Unreachable, message)
    }
}

/// The server's own words, with its code and what to do about it.
fn refused(status: StatusCode, body: &Value) -> Failure {
    let exit = if status == StatusCode::NOT_FOUND { Exit::NotFound } else { Exit::Refused };
    let (code, message) = (body["error"].as_str(), body["message"].as_str());
    let (Some(code), Some(message)) = (code, message) else {
        return Failure::new(
            exit,
            format!("the server answered {status}, and not in Abide's words; is the URL right?"),
        );
    };
    let remedy = abide_core::ErrorCode::find(code).map_or("", |entry| entry.remedy);
    Failure::new(exit, format!("{message} [{code}]\n  {remedy}"))
}
