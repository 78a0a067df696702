//! A request of a test: as reqwest has it, but every answer is held against the contract of the server.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::CONTENT_TYPE;
use serde::Serialize;

use super::contract::{Answered, Contract};

/// A request to a server, not sent yet.
pub(crate) struct Ask {
    request: reqwest::RequestBuilder,
    contract: Option<Arc<Contract>>,
}

impl Ask {
    pub(crate) fn new(request: reqwest::RequestBuilder, contract: Option<Arc<Contract>>) -> Self {
        Self { request, contract }
    }

    fn with(self, change: impl FnOnce(reqwest::RequestBuilder) -> reqwest::RequestBuilder) -> Self {
        Self { request: change(self.request), ..self }
    }

    pub(crate) fn bearer_auth(self, key: impl std::fmt::Display) -> Self {
        self.with(|request| request.bearer_auth(key))
    }

    pub(crate) fn header<N, V>(self, name: N, value: V) -> Self
    where
        http::HeaderName: TryFrom<N, Error: Into<http::Error>>,
        http::HeaderValue: TryFrom<V, Error: Into<http::Error>>,
    {
        self.with(|request| request.header(name, value))
    }

    pub(crate) fn json(self, body: &(impl Serialize + ?Sized)) -> Self {
        self.with(|request| request.json(body))
    }

    pub(crate) fn body(self, body: impl Into<reqwest::Body>) -> Self {
        self.with(|request| request.body(body))
    }

    pub(crate) fn timeout(self, patience: Duration) -> Self {
        self.with(|request| request.timeout(patience))
    }

    /// Sends it. An error means that the connection failed, not that the server said no.
    pub(crate) async fn send(self) -> reqwest::Result<reqwest::Response> {
        let (client, request) = self.request.build_split();
        let request = request?;
        let (method, path) = (request.method().clone(), request.url().path().to_owned());
        let response = client.execute(request).await?;
        let Some(contract) = self.contract else { return Ok(response) };
        let (status, headers) = (response.status(), response.headers().clone());
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let check = |body| {
            contract.check(&Answered { method: &method, path: &path, status, headers: &headers, body });
        };
        if kind.starts_with("text/event-stream") {
            check(None);
            return Ok(response);
        }
        let body = response.bytes().await?;
        check(Some(&body));
        let mut answer = http::Response::new(body);
        *answer.status_mut() = status;
        *answer.headers_mut() = headers.clone();
        Ok(answer.into())
    }
}
