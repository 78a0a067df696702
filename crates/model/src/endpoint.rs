//! Where a provider is, which protocol it speaks, and how long it is waited for.

use std::time::Duration;

use reqwest::Url;
use reqwest::header::HeaderMap;

/// The protocols that providers speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Messages, as Anthropic has them.
    Anthropic,
    /// Chat completions, as OpenAI and many others have them.
    OpenAi,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Anthropic, Self::OpenAi];

    /// What it is called in `abide.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
        }
    }

    /// Where its usual provider is.
    pub fn usual_base(self) -> &'static str {
        match self {
            Self::Anthropic => "https://api.anthropic.com",
            Self::OpenAi => "https://api.openai.com/v1",
        }
    }

    /// What is put behind a provider's address.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Anthropic => "/v1/messages",
            Self::OpenAi => "/chat/completions",
        }
    }
}

/// How long a provider is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection.
    pub connect: Duration,
    /// From the request to the first byte of the answer.
    pub first_byte: Duration,
    /// From one byte of the answer to the next.
    pub idle: Duration,
    /// For the whole call.
    pub whole: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        Self {
            connect: Duration::from_secs(10),
            first_byte: minutes(5),
            idle: minutes(2),
            whole: minutes(30),
        }
    }
}

/// Where the calls of one provider go. The operator names the address, so no policy is asked whether it may be reached.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// The protocol it speaks.
    pub protocol: Protocol,
    /// Where requests are posted to.
    pub url: Url,
    /// Headers that the operator adds. Their values are marked as sensitive, so that nothing prints them.
    pub headers: HeaderMap,
    /// How long it is waited for.
    pub timeouts: Timeouts,
    /// The model, if the node does not say.
    pub model: Option<String>,
}

impl Endpoint {
    /// The provider at an address such as `https://api.example.com/v1`, with what is usual otherwise; `None` if it is
    /// not the address of a server.
    pub fn at(protocol: Protocol, base: &str) -> Option<Self> {
        let base = base.trim_end_matches('/');
        let url = Url::parse(&format!("{base}{}", protocol.path())).ok()?;
        let is_server = matches!(url.scheme(), "http" | "https") && url.has_host();
        let is_plain = url.query().is_none() && url.fragment().is_none();
        let is_anonymous = url.username().is_empty() && url.password().is_none();
        (is_server && is_plain && is_anonymous).then(|| Self {
            protocol,
            url,
            headers: HeaderMap::new(),
            timeouts: Timeouts::default(),
            model: None,
        })
    }

    /// Host and port, as errors tell them.
    pub(crate) fn service(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        let port = self.url.port_or_known_default().unwrap_or_default();
        format!("{host}:{port}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_put_behind_the_address() {
        let at = |protocol: Protocol, base| Endpoint::at(protocol, base).map(|at| at.url.to_string());
        for (protocol, base, url) in [
            (Protocol::Anthropic, Protocol::Anthropic.usual_base(), "https://api.anthropic.com/v1/messages"),
            (Protocol::OpenAi, Protocol::OpenAi.usual_base(), "https://api.openai.com/v1/chat/completions"),
            (Protocol::OpenAi, "http://127.0.0.1:11434/v1/", "http://127.0.0.1:11434/v1/chat/completions"),
        ] {
            assert_eq!(at(protocol, base).as_deref(), Some(url));
        }
        for base in
            ["", "api.example.com", "ftp://a.example", "https://a:b@c.example", "https://a.example?b=c"]
        {
            assert_eq!(at(Protocol::OpenAi, base), None, "{base}");
        }
    }
}
