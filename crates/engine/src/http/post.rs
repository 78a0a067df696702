//! One event to one webhook: a POST whose answer is a status and nothing else.
//!
//! A webhook is reached by https, or by http where the operator allowed the address by name. Redirects are not
//! followed: whoever may redirect could send events anywhere.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::Resolve;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Response, Url};
use tokio::time::{Instant, timeout, timeout_at};

use super::connect::{HOP, Hop};
use super::failure::{self, Place};
use super::{HttpExecutor, literal};
use crate::limits;

/// A request to a webhook.
pub(crate) struct Post<'a> {
    pub(crate) url: &'a str,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

impl HttpExecutor {
    /// Sends a request once. The answer is the status of its answer, or why there is none.
    pub(crate) async fn post(&self, post: Post<'_>) -> Result<u16, String> {
        let url = parse(post.url)?;
        let hop = self.hop(&url)?;
        let mut request = reqwest::Request::new(Method::POST, url.clone());
        *request.headers_mut() = headers(post.headers)?;
        *request.body_mut() = Some(post.body.into());
        let deadline = Instant::now() + Duration::from_millis(limits::WEBHOOK_TIMEOUT_MS);
        let sending = HOP.scope(hop.clone(), self.client.execute(request));
        match timeout_at(deadline, sending).await {
            Err(_) => Err(format!("the receiver did not answer within {} ms", limits::WEBHOOK_TIMEOUT_MS)),
            Ok(Err(_)) if hop.was_refused() => Err(refused(&url)),
            Ok(Err(_)) if hop.is_unknown() => Err(unknown(&url)),
            Ok(Err(error)) => Err(failure::unanswered(error, &place(&url)).failure.message),
            Ok(Ok(response)) => {
                let status = response.status().as_u16();
                let _ = timeout_at(deadline, drain(response)).await;
                Ok(status)
            }
        }
    }

    /// Why a URL is none that events can be sent to. A host that can't be looked up now may be there later, but what is
    /// not encrypted is taken only once its addresses are seen to be allowed.
    pub(crate) async fn check_url(&self, text: &str) -> Result<(), String> {
        let url = parse(text)?;
        let hop = self.hop(&url)?;
        let plain = url.scheme() == "http";
        let Some(name) = url.domain() else { return Ok(()) };
        if plain && self.policy.allow.is_empty() {
            return Err(refused(&url));
        }
        let Ok(name) = name.parse() else { return Err("its host is not a name".to_owned()) };
        let looking_up = HOP.scope(hop.clone(), self.resolver.resolve(name));
        match timeout(Duration::from_millis(limits::WEBHOOK_LOOKUP_MS), looking_up).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) if hop.was_refused() => Err(refused(&url)),
            _ if plain => Err(format!(
                "it is not encrypted, and '{}' can't be looked up to see whether it is allowed; use https, or try again",
                target(&url).0
            )),
            _ => Ok(()),
        }
    }

    /// Where a request to a webhook may go.
    fn hop(&self, url: &Url) -> Result<Arc<Hop>, String> {
        let (host, port) = target(url);
        let plain = url.scheme() == "http";
        let permits = |address: IpAddr| {
            let named = !plain || self.policy.names(host, port, address);
            named && self.policy.permits(host, port, address)
        };
        if literal(host).is_some_and(|address| !permits(address)) {
            return Err(refused(url));
        }
        Ok(if plain { Hop::to_named(host, port) } else { Hop::new(host, port, Arc::default()) })
    }
}

fn parse(text: &str) -> Result<Url, String> {
    if text.len() > limits::HTTP_URL_BYTES_MAX {
        return Err(format!("it is longer than {} bytes", limits::HTTP_URL_BYTES_MAX));
    }
    let url = Url::parse(text).map_err(|error| format!("it is not valid: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
        return Err("it does not begin with https:// and a host".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it holds a user name or a password; deliveries are signed instead".to_owned());
    }
    if url.fragment().is_some() {
        return Err("it has a fragment, which no server would see; leave out what follows the '#'".to_owned());
    }
    Ok(url)
}

fn target(url: &Url) -> (&str, u16) {
    (url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or_default())
}

fn place(url: &Url) -> Place {
    let (host, port) = target(url);
    Place { service: format!("{host}:{port}"), tls: url.scheme() == "https" }
}

fn refused(url: &Url) -> String {
    let (host, _) = target(url);
    match url.scheme() {
        "http" => format!(
            "it is not encrypted; use https, or have the operator allow '{host}' with --allow-net for tests"
        ),
        _ => format!(
            "'{host}' is not an address of the public internet; the operator can allow it with --allow-net"
        ),
    }
}

fn unknown(url: &Url) -> String {
    format!("no address is known for host {}: check its name", target(url).0)
}

fn headers(pairs: Vec<(&'static str, String)>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let value = HeaderValue::from_str(&value).map_err(|_| format!("the header {name} can't be sent"))?;
        headers.append(HeaderName::from_static(name), value);
    }
    Ok(headers)
}

/// Reads some of an answer, so that a receiver that is still writing is not cut off.
async fn drain(mut response: Response) {
    let mut left = limits::WEBHOOK_ANSWER_BYTES_MAX;
    while let Ok(Some(chunk)) = response.chunk().await {
        let Some(rest) = left.checked_sub(chunk.len()) else { return };
        left = rest;
    }
}
