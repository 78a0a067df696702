//! A request as it goes out: secrets in their places, checked, and changed by redirects.

use std::collections::{BTreeMap, BTreeSet};

use abide_core::{
    HttpRequest, Piece, SECRET_IN_HOST, SecretForms, TaskFailure, Trace, ends_before_path, header_problem,
};
use reqwest::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LOCATION, CONTENT_TYPE, COOKIE, HeaderMap,
    HeaderName, HeaderValue,
};
use reqwest::{Method, Url};

use super::failure::{Place, redirect_refused, request_invalid, secret_missing};
use super::in_url::add_in_url;
use crate::limits::{
    HTTP_HEADERS_BYTES_MAX, HTTP_REQUEST_BYTES_MAX, HTTP_SECRETS_BYTES_MAX, HTTP_URL_BYTES_MAX,
};

const METHODS: [Method; 7] =
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS];

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A request with the values of its secrets. It is never printed.
pub(super) struct Outgoing {
    method: Method,
    url: Url,
    headers: Vec<Header>,
    body: Option<Text>,
    /// Whether values stand in it that are never shown.
    sensitive: bool,
}

struct Header {
    name: HeaderName,
    value: HeaderValue,
    /// Whether a secret stands in the value.
    secret: bool,
}

/// A text put together from its pieces.
struct Text {
    text: String,
    /// Whether a secret stands in it.
    secret: bool,
}

/// Looks secrets up and remembers which were used.
struct Secrets<'a> {
    lookup: &'a dyn Fn(&str) -> Option<String>,
    /// Values by name.
    used: BTreeMap<String, String>,
    /// Bytes that the request may still have.
    bytes_left: usize,
}

/// The request to send, and what to look for in the answer.
///
/// A failure is clean already: it was made before anything came back, and names no values.
pub(super) fn prepare(
    request: &HttpRequest,
    lookup: &dyn Fn(&str) -> Option<String>,
    trace: Option<&Trace>,
) -> Result<(Outgoing, SecretForms), TaskFailure> {
    let mut secrets = Secrets::new(lookup);
    let method = method(&request.method)?;
    check_authority(&request.url)?;
    let url = url(&secrets.put_together(&request.url)?.text)?;
    let mut headers = headers(request, &method, &mut secrets)?;
    headers.extend(trace_headers(&headers, trace));
    let body = request.body.as_ref().map(|body| secrets.put_together(&body.pieces)).transpose()?;
    let forms = secrets.forms(&request.url);
    Ok((Outgoing { method, url, headers, body, sensitive: request.sensitive }, forms))
}

impl<'a> Secrets<'a> {
    fn new(lookup: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self { lookup, used: BTreeMap::new(), bytes_left: HTTP_REQUEST_BYTES_MAX }
    }

    fn put_together(&mut self, pieces: &[Piece]) -> Result<Text, TaskFailure> {
        let mut whole = Text { text: String::new(), secret: false };
        for piece in pieces {
            let escaped_value;
            let text = match piece {
                Piece::Text(text) => text,
                Piece::Secret(name) => self.value(name)?,
                Piece::SecretInJson(name) => {
                    escaped_value = escaped(self.value(name)?);
                    &escaped_value
                }
            };
            let bytes = text.len();
            whole.text.push_str(text);
            whole.secret |= !matches!(piece, Piece::Text(_));
            self.bytes_left = self.bytes_left.checked_sub(bytes).ok_or_else(request_too_large)?;
        }
        Ok(whole)
    }

    fn value(&mut self, name: &str) -> Result<&str, TaskFailure> {
        if !self.used.contains_key(name) {
            let value = (self.lookup)(name).ok_or_else(|| secret_missing(name))?;
            let bytes: usize = self.used.values().map(String::len).sum();
            if bytes + value.len() > HTTP_SECRETS_BYTES_MAX {
                return Err(request_invalid(format!(
                    "the secrets of the request have more than {HTTP_SECRETS_BYTES_MAX} bytes: use fewer or shorter ones"
                )));
            }
            self.used.insert(name.to_owned(), value);
        }
        Ok(&self.used[name])
    }

    /// What the secrets that were used look like, those in the URL as it shows them.
    fn forms(&self, url: &[Piece]) -> SecretForms {
        let mut forms = SecretForms::default();
        self.used.values().for_each(|value| forms.add(value));
        let in_url = url.iter().filter_map(|piece| match piece {
            Piece::Secret(name) | Piece::SecretInJson(name) => Some(name),
            Piece::Text(_) => None,
        });
        for name in in_url.collect::<BTreeSet<_>>() {
            self.used.get(name).into_iter().for_each(|value| add_in_url(&mut forms, value));
        }
        forms
    }
}

fn request_too_large() -> TaskFailure {
    request_invalid(format!(
        "the request has more than {HTTP_REQUEST_BYTES_MAX} bytes: send less at once, or a reference to the data"
    ))
}

/// The text as it stands between the quotes of a JSON string.
fn escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn method(name: &str) -> Result<Method, TaskFailure> {
    METHODS.into_iter().find(|method| method.as_str() == name).ok_or_else(|| {
        request_invalid("the method is not one of GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
    })
}

fn url(text: &str) -> Result<Url, TaskFailure> {
    if text.len() > HTTP_URL_BYTES_MAX {
        return Err(request_invalid(url_too_long()));
    }
    let url = Url::parse(text).map_err(|error| request_invalid(format!("the URL is not valid: {error}")))?;
    match url_problem(&url) {
        Some(problem) => Err(request_invalid(problem)),
        None => Ok(url),
    }
}

/// Names of hosts are asked of other servers, and written where secrets are not.
fn check_authority(pieces: &[Piece]) -> Result<(), TaskFailure> {
    let texts = pieces.iter().map_while(|piece| match piece {
        Piece::Text(text) => Some(text.as_str()),
        _ => None,
    });
    let before: String = texts.collect();
    let has_secret = pieces.iter().any(|piece| !matches!(piece, Piece::Text(_)));
    match has_secret && ends_before_path(&before) {
        true => Err(request_invalid(SECRET_IN_HOST)),
        false => Ok(()),
    }
}

fn url_too_long() -> String {
    format!("the URL is longer than {HTTP_URL_BYTES_MAX} bytes: put the data into the body")
}

/// What keeps a URL from being requested.
fn url_problem(url: &Url) -> Option<String> {
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        Some("the URL does not begin with http:// or https:// and a host".to_owned())
    } else if !url.username().is_empty() || url.password().is_some() {
        Some("the URL holds a user name or a password: send an Authorization header instead".to_owned())
    } else if url.as_str().len() > HTTP_URL_BYTES_MAX {
        Some(url_too_long())
    } else {
        None
    }
}

fn headers(
    request: &HttpRequest,
    method: &Method,
    secrets: &mut Secrets<'_>,
) -> Result<Vec<Header>, TaskFailure> {
    let mut headers = Vec::new();
    for (name, pieces) in &request.headers {
        let value = secrets.put_together(pieces)?;
        headers.push(header(header_name(name)?, &value)?);
    }
    if let Some(body) = &request.body
        && !headers.iter().any(|header| header.name == CONTENT_TYPE)
    {
        headers.push(header(CONTENT_TYPE, &Text { text: body.content_type.clone(), secret: false })?);
    }
    if changes_something(method) {
        let key = Text { text: request.idempotency_key.clone(), secret: false };
        headers.push(header(IDEMPOTENCY_KEY, &key)?);
    }
    let bytes: usize = headers.iter().map(|header| header.name.as_str().len() + header.value.len()).sum();
    if bytes > HTTP_HEADERS_BYTES_MAX {
        let problem =
            format!("the headers have more than {HTTP_HEADERS_BYTES_MAX} bytes: put the data into the body");
        return Err(request_invalid(problem));
    }
    Ok(headers)
}

/// The place of a request in a trace. A node that names one itself knows better, and a state goes with its parent.
fn trace_headers(own: &[Header], trace: Option<&Trace>) -> Vec<Header> {
    let named = |name: &HeaderName| own.iter().any(|header| header.name == name);
    let Some(trace) = trace.filter(|_| !named(&TRACEPARENT) && !named(&TRACESTATE)) else {
        return Vec::new();
    };
    let texts = [(TRACEPARENT, Some(trace.parent())), (TRACESTATE, trace.state.clone())];
    let value = |text: String| HeaderValue::try_from(text).ok();
    let header = |(name, text): (HeaderName, Option<String>)| {
        Some(Header { name, value: text.and_then(value)?, secret: false })
    };
    texts.into_iter().filter_map(header).collect()
}

fn changes_something(method: &Method) -> bool {
    matches!(*method, Method::POST | Method::PUT | Method::PATCH | Method::DELETE)
}

fn header_name(text: &str) -> Result<HeaderName, TaskFailure> {
    let invalid = |problem: &str| request_invalid(format!("the header {text:?} can't be sent: {problem}"));
    if let Some(problem) = header_problem(text) {
        return Err(invalid(problem));
    }
    HeaderName::from_bytes(text.as_bytes()).map_err(|_| invalid("it is not a header's name"))
}

fn header(name: HeaderName, text: &Text) -> Result<Header, TaskFailure> {
    let mut value = HeaderValue::from_bytes(text.text.as_bytes()).map_err(|_| {
        request_invalid(format!(
            "the value of header '{name}' holds a line break or another control character"
        ))
    })?;
    value.set_sensitive(text.secret);
    Ok(Header { name, value, secret: text.secret })
}

impl Outgoing {
    /// The host as it stands in the URL, and the port.
    pub(super) fn target(&self) -> (&str, u16) {
        let host = self.url.host_str().unwrap_or_default();
        (host, self.url.port_or_known_default().unwrap_or_default())
    }

    /// Where the request goes.
    pub(super) fn place(&self) -> Place {
        let (host, port) = self.target();
        Place { service: format!("{host}:{port}"), tls: self.url.scheme() == "https" }
    }

    /// The request in the client's words.
    pub(super) fn to_request(&self) -> reqwest::Request {
        let mut request = reqwest::Request::new(self.method.clone(), self.url.clone());
        let mut headers = HeaderMap::new();
        for header in &self.headers {
            headers.append(header.name.clone(), header.value.clone());
        }
        *request.headers_mut() = headers;
        *request.body_mut() = self.body.as_ref().map(|body| body.text.clone().into());
        request
    }

    /// The request that follows this one when the server sends it to `location`.
    pub(super) fn redirected(mut self, status: u16, location: &str) -> Result<Self, TaskFailure> {
        let url = self.url.join(location).map_err(|error| {
            redirect_refused(format!("the server redirects to a URL that is not valid: {error}"))
        })?;
        if let Some(problem) = url_problem(&url) {
            return Err(redirect_refused(format!("the server redirects, and {problem}")));
        }
        if self.url.scheme() == "https" && url.scheme() == "http" {
            return Err(redirect_refused(
                "the server redirects from https to http, where anybody can read: request a URL that stays on https",
            ));
        }
        if becomes_get(status, &self.method) {
            self.become_get();
        }
        if url.origin() != self.url.origin() {
            self.leave_origin()?;
        }
        self.url = url;
        Ok(self)
    }

    fn become_get(&mut self) {
        const OF_THE_BODY: [HeaderName; 5] =
            [CONTENT_TYPE, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LOCATION, IDEMPOTENCY_KEY];
        self.method = Method::GET;
        self.body = None;
        self.headers.retain(|header| !OF_THE_BODY.contains(&header.name));
    }

    /// What was meant for one server is not for another.
    fn leave_origin(&mut self) -> Result<(), TaskFailure> {
        if self.sensitive {
            return Err(redirect_refused(
                "the server redirects sensitive values to another server: request the final URL",
            ));
        }
        const PERSONAL: [HeaderName; 3] = [AUTHORIZATION, COOKIE, IDEMPOTENCY_KEY];
        if self.body.as_ref().is_some_and(|body| body.secret) {
            return Err(redirect_refused(
                "the server redirects a body that holds a secret to another server: request the final URL",
            ));
        }
        self.headers.retain(|header| !header.secret && !PERSONAL.contains(&header.name));
        Ok(())
    }
}

/// Whether the redirect asks for the result to be fetched, or for the same request elsewhere.
fn becomes_get(status: u16, method: &Method) -> bool {
    match status {
        303 => *method != Method::HEAD,
        301 | 302 => *method == Method::POST,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use abide_core::HttpBody;

    use super::*;

    fn text(text: &str) -> Vec<Piece> {
        vec![Piece::Text(text.to_owned())]
    }

    /// A request with everything that a redirect may take away.
    fn outgoing(method: &str, url: &str) -> Outgoing {
        let request = HttpRequest {
            method: method.to_owned(),
            url: text(url),
            headers: vec![
                ("Authorization".to_owned(), text("Basic abc")),
                ("Cookie".to_owned(), text("a=b")),
                ("X-Token".to_owned(), vec![Piece::Text("t ".to_owned()), Piece::Secret("TOKEN".to_owned())]),
                ("X-Plain".to_owned(), text("yes")),
            ],
            body: Some(HttpBody { content_type: "text/plain".to_owned(), pieces: text("hello") }),
            timeout_ms: 1000,
            response_bytes_max: 1000,
            accept_statuses: Vec::new(),
            redirects_max: 5,
            idempotency_key: "key-1".to_owned(),
            sensitive: false,
        };
        prepare(&request, &|_| Some("hunter22".to_owned()), None).ok().unwrap().0
    }

    /// The request that follows, as method, URL, names of headers, and whether there is a body.
    fn after(method: &str, url: &str, status: u16, location: &str) -> Result<String, String> {
        let next = outgoing(method, url).redirected(status, location);
        let next = next.map_err(|failed| failed.failure.code)?;
        let names: Vec<&str> = next.headers.iter().map(|header| header.name.as_str()).collect();
        let body = if next.body.is_some() { "body" } else { "-" };
        Ok(format!("{} {} {} {body}", next.method, next.url, names.join(",")))
    }

    #[test]
    fn a_redirect_on_the_same_server_keeps_what_it_can() {
        let all = "authorization,cookie,x-token,x-plain,content-type,idempotency-key body";
        let fetched = "authorization,cookie,x-token,x-plain -";
        let cases = [
            ("POST", 307, format!("POST http://a.example/x {all}")),
            ("POST", 308, format!("POST http://a.example/x {all}")),
            ("POST", 301, format!("GET http://a.example/x {fetched}")),
            ("POST", 302, format!("GET http://a.example/x {fetched}")),
            ("POST", 303, format!("GET http://a.example/x {fetched}")),
            ("PUT", 302, format!("PUT http://a.example/x {all}")),
            ("DELETE", 303, format!("GET http://a.example/x {fetched}")),
        ];
        for (method, status, expected) in cases {
            assert_eq!(after(method, "http://a.example/y", status, "/x"), Ok(expected), "{method} {status}");
        }
    }

    #[test]
    fn another_server_gets_nothing_that_was_meant_for_the_first() {
        let expected = |url: &str| Ok(format!("POST {url} x-plain,content-type body"));
        for other in ["http://b.example/", "http://a.example:81/", "https://a.example/"] {
            assert_eq!(after("POST", "http://a.example/", 307, other), expected(other));
        }
    }

    #[test]
    fn redirects_that_give_something_away_are_refused() {
        let refused = Err("http_redirect_refused".to_owned());
        assert_eq!(after("GET", "https://a.example/", 302, "http://a.example/"), refused, "downgrade");
        assert_eq!(after("GET", "http://a.example/", 302, "http://u:p@b.example/"), refused, "password");
        assert_eq!(after("GET", "http://a.example/", 302, "file:///etc/passwd"), refused, "scheme");
        assert_eq!(after("GET", "http://a.example/", 302, "http://[::"), refused, "nonsense");
        let mut with_secret = outgoing("POST", "http://a.example/");
        with_secret.body = Some(Text { text: "hunter22".to_owned(), secret: true });
        let failed = with_secret.redirected(307, "http://b.example/").err().unwrap();
        assert_eq!(failed.failure.code, "http_redirect_refused");
    }

    #[test]
    fn a_secret_in_json_is_escaped() {
        let lookup = |_: &str| Some("a\"b\\c\n".to_owned());
        let mut secrets = Secrets::new(&lookup);
        let pieces = [
            Piece::Text("{\"k\":\"".to_owned()),
            Piece::SecretInJson("K".to_owned()),
            Piece::Text("\"}".to_owned()),
        ];
        let whole = secrets.put_together(&pieces).ok().unwrap();
        assert_eq!(whole.text, r#"{"k":"a\"b\\c\n"}"#);
        assert!(whole.secret);
    }

    /// A POST of a body, and how preparing it fails.
    fn refusal(pieces: Vec<Piece>, lookup: &dyn Fn(&str) -> Option<String>) -> Option<String> {
        let request = HttpRequest {
            method: "POST".to_owned(),
            url: text("http://a.example/"),
            headers: Vec::new(),
            body: Some(HttpBody { content_type: "text/plain".to_owned(), pieces }),
            timeout_ms: 1000,
            response_bytes_max: 1000,
            accept_statuses: Vec::new(),
            redirects_max: 5,
            idempotency_key: "key-1".to_owned(),
            sensitive: false,
        };
        let failed = prepare(&request, lookup, None).err()?;
        assert!(!failed.retryable);
        Some(format!("{}: {}", failed.failure.code, failed.failure.message))
    }

    #[test]
    fn a_request_and_its_secrets_have_bounds() {
        let room = HTTP_REQUEST_BYTES_MAX - "http://a.example/".len();
        assert_eq!(refusal(text(&"x".repeat(room)), &|_| None), None);
        let told = refusal(text(&"x".repeat(room + 1)), &|_| None).unwrap();
        assert!(told.starts_with("http_request_invalid: the request has more than 4194304 bytes"), "{told}");

        let secret = |ix: usize| Piece::Secret(format!("S{ix}"));
        let lookup = |_: &str| Some("x".repeat(8 * 1024));
        assert_eq!(refusal((0..8).map(secret).collect(), &lookup), None);
        assert_eq!(refusal(vec![secret(1); 256], &lookup), None, "one secret, however often");
        let told = refusal((0..9).map(secret).collect(), &lookup).unwrap();
        assert!(
            told.starts_with("http_request_invalid: the secrets of the request have more than 65536"),
            "{told}"
        );
        let told = refusal(vec![secret(1); 600], &lookup).unwrap();
        assert!(told.contains("the request has more than"), "{told}");
    }
}
