//! Where spans are sent, and how, as an operator says it.

use std::str::FromStr;

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

/// Where a collector takes traces, below the address that it is known by.
const TRACES: &str = "/v1/traces";

/// Where spans are sent, and how.
#[derive(Clone, Debug)]
pub struct OtlpSettings {
    /// The collector.
    pub endpoint: OtlpEndpoint,
    /// Headers that it asks for: `name=value,name=value`, with what has a meaning there written as in a URL. This is how
    /// OpenTelemetry has them in `OTEL_EXPORTER_OTLP_HEADERS`.
    pub headers: Option<String>,
    /// What the server is called there.
    pub service_name: String,
    /// How spans are written.
    pub protocol: OtlpProtocol,
}

/// The address of a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OtlpEndpoint {
    /// Where it takes everything; traces go to `/v1/traces` there.
    Base(String),
    /// Where it takes traces.
    Traces(String),
}

/// How spans are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OtlpProtocol {
    /// `http/json`
    #[default]
    Json,
    /// `http/protobuf`
    Protobuf,
}

impl OtlpProtocol {
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/x-protobuf",
        }
    }
}

impl FromStr for OtlpProtocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "http/json" => Ok(Self::Json),
            "http/protobuf" => Ok(Self::Protobuf),
            "grpc" => Err(
                "spans are sent over HTTP and not by gRPC; say http/json or http/protobuf, with the port \
                           where the collector takes OTLP over HTTP, which usually is 4318"
                    .to_owned(),
            ),
            _ => Err(format!("'{text}' is none of http/json and http/protobuf")),
        }
    }
}

impl OtlpEndpoint {
    /// Where traces are sent to. The text is not repeated in a message: it may hold a password.
    pub fn url(&self) -> Result<Url, String> {
        let text = match self {
            Self::Traces(url) => url.clone(),
            Self::Base(base) => {
                let base = base.trim_end_matches('/');
                if base.ends_with(TRACES) { base.to_owned() } else { format!("{base}{TRACES}") }
            }
        };
        let url = Url::parse(&text).map_err(|error| format!("it is not a URL: {error}"))?;
        match url.scheme() {
            "http" | "https" => Ok(url),
            _ => Err("it begins with http:// or https://, as in http://localhost:4318".to_owned()),
        }
    }
}

impl OtlpSettings {
    /// Values are never repeated in a message: they may be keys.
    pub(super) fn header_map(&self) -> Result<HeaderMap, String> {
        let text = self.headers.as_deref().unwrap_or_default();
        let mut headers = HeaderMap::new();
        for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
            let (name, value) = pair
                .split_once('=')
                .ok_or("OTEL_EXPORTER_OTLP_HEADERS: the headers are written name=value,name=value")?;
            let name = HeaderName::try_from(name.trim())
                .map_err(|_| "OTEL_EXPORTER_OTLP_HEADERS: a header's name can't be sent")?;
            let mut value = HeaderValue::try_from(unescaped(value.trim())).map_err(|_| {
                format!("OTEL_EXPORTER_OTLP_HEADERS: the value of header {name} can't be sent")
            })?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(headers)
    }
}

/// A text whose commas and spaces are written as in a URL. What only looks like that stays as it is.
fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        let escaped = (*first == b'%').then(|| behind.first_chunk::<2>()).flatten();
        let decoded = escaped
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok())
            .filter(|_| escaped.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)));
        bytes.push(decoded.unwrap_or(*first));
        rest = if decoded.is_some() { &behind[2..] } else { behind };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_known_by_its_address() {
        let base = |text: &str| OtlpEndpoint::Base(text.to_owned()).url();
        for (endpoint, url) in [
            ("http://localhost:4318", "http://localhost:4318/v1/traces"),
            ("http://localhost:4318/", "http://localhost:4318/v1/traces"),
            ("https://c.example/otlp", "https://c.example/otlp/v1/traces"),
            ("https://c.example/v1/traces", "https://c.example/v1/traces"),
        ] {
            assert_eq!(base(endpoint).unwrap().as_str(), url);
        }
        assert!(base("localhost:4318").is_err() && base("ftp://c.example").is_err());
        let own = OtlpEndpoint::Traces("https://c.example/intake".to_owned());
        assert_eq!(own.url().unwrap().as_str(), "https://c.example/intake");
    }

    fn headers(text: &str) -> Result<HeaderMap, String> {
        let settings = OtlpSettings {
            endpoint: OtlpEndpoint::Base(String::new()),
            headers: Some(text.to_owned()),
            service_name: "abide".to_owned(),
            protocol: OtlpProtocol::Json,
        };
        settings.header_map()
    }

    #[test]
    fn headers_are_read_and_never_repeated() {
        let read =
            headers("x-key=s3cret=, x-team = blue,authorization=Basic%20YTpi%2C,x-odd=100%+%zz%2").unwrap();
        for (name, value) in [
            ("x-key", "s3cret="),
            ("x-team", "blue"),
            ("authorization", "Basic YTpi,"),
            ("x-odd", "100%+%zz%2"),
        ] {
            assert_eq!(read[name].to_str().unwrap(), value);
        }
        for wrong in ["s3cret", "a b=s3cret", "a=s3cret\u{1}x", "a=s3cret%0ax"] {
            let problem = headers(wrong).unwrap_err();
            assert!(
                !problem.contains("s3cret") && problem.contains("OTEL_EXPORTER_OTLP_HEADERS"),
                "{problem}"
            );
        }
    }

    #[test]
    fn grpc_is_refused_with_what_to_say_instead() {
        assert_eq!("http/protobuf".parse(), Ok(OtlpProtocol::Protobuf));
        let problem = "grpc".parse::<OtlpProtocol>().unwrap_err();
        assert!(problem.contains("http/json") && problem.contains("4318"), "{problem}");
    }
}
