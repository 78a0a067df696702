//! Makes channels of settings, and says what to change where that can't be done.
//!
//! Nothing that may be a secret is repeated: not the value of one, and no URL.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use lettre::message::Mailbox;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{Address, AsyncSmtpTransport, Tokio1Executor};
use regex::{Regex, RegexBuilder};
use reqwest::{Client, Url, redirect, retry};

use crate::address::{Form, is_one_word};
use crate::allowance::Allowance;
use crate::channels::{Channel, ChannelKind, Channels, Post, Way};
use crate::config::{ChannelConfig, ChannelsConfig, NotifyConfig};
use crate::limits;
use crate::redact::Redactor;
use crate::secret::Secret;
use crate::text::one_line;

/// What is wrong with the settings: the key, and what to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

/// Where events of PagerDuty are sent to.
const PAGERDUTY_URL: &str = "https://events.pagerduty.com/v2/enqueue";

const SEVERITIES: [&str; 4] = ["critical", "error", "warning", "info"];

/// Characters of a wrong value that are repeated.
const TOLD_CHARS_MAX: usize = 60;

/// Every setting that only some kinds of channels have, and which those are.
const OF_SOME: [(&str, &[ChannelKind]); 10] = [
    ("url", &[ChannelKind::Webhook, ChannelKind::Slack, ChannelKind::PagerDuty]),
    ("secret", &[ChannelKind::Webhook]),
    ("host", &[ChannelKind::Email]),
    ("port", &[ChannelKind::Email]),
    ("tls", &[ChannelKind::Email]),
    ("username", &[ChannelKind::Email]),
    ("password", &[ChannelKind::Email]),
    ("from", &[ChannelKind::Email]),
    ("routing-key", &[ChannelKind::PagerDuty]),
    ("severity", &[ChannelKind::PagerDuty]),
];

pub(crate) fn channels(config: ChannelsConfig) -> Result<Channels, ConfigError> {
    let NotifyConfig { default, allow, redact, per_recipient } = config.notify;
    at_most("[notify] allow", allow.len(), limits::ALLOWED_MAX)?;
    at_most("[notify] redact", redact.len(), limits::PATTERNS_MAX)?;
    at_most("[channels]", config.channels.len(), limits::CHANNELS_MAX)?;
    let allow: Result<Vec<Form>, ConfigError> = allow.iter().map(|text| form(text)).collect();
    let patterns: Result<Vec<Regex>, ConfigError> = redact.iter().map(|text| pattern(text)).collect();
    let per_recipient: Option<Allowance> = per_recipient
        .map(|text| text.parse().map_err(|why| wrong("[notify] per-recipient", why)))
        .transpose()?;
    let names: Vec<String> = config.channels.keys().cloned().collect();
    let built: Result<_, ConfigError> = config
        .channels
        .into_iter()
        .map(|(name, config)| Ok((name.clone(), Plan { name, config }.build()?)))
        .collect();
    Ok(Channels {
        channels: built?,
        default: default_channel(default, &names)?,
        allow: allow?,
        redactor: Redactor::new(patterns?),
        per_recipient: per_recipient.unwrap_or_default(),
    })
}

fn default_channel(told: Option<String>, names: &[String]) -> Result<Option<String>, ConfigError> {
    let key = "[notify] default";
    match (told, names) {
        (None, []) => Ok(None),
        (None, [only]) => Ok(Some(only.clone())),
        (None, _) => Err(wrong(key, "there are several channels; say which is for what names none")),
        (Some(name), names) if names.contains(&name) => Ok(Some(name)),
        (Some(name), _) => Err(wrong(
            key,
            format!("there is no channel '{}'; add [channels.{0}], or name another", told_of(&name)),
        )),
    }
}

fn form(text: &str) -> Result<Form, ConfigError> {
    Form::parse(text).map_err(|why| wrong("[notify] allow", format!("'{}': {why}", told_of(text))))
}

fn pattern(text: &str) -> Result<Regex, ConfigError> {
    let key = "[notify] redact";
    at_most(&format!("{key}: the characters of a pattern"), text.chars().count(), limits::PATTERN_CHARS_MAX)?;
    let built = RegexBuilder::new(text).size_limit(limits::PATTERN_BYTES_MAX).build();
    let regex = built.map_err(|error| {
        let why = error.to_string();
        let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        wrong(key, format!("'{}' is not a pattern that can be searched for: {why}", told_of(text)))
    })?;
    if regex.is_match("") {
        return Err(wrong(
            key,
            format!("'{}' is found in every text; make it say what to remove", told_of(text)),
        ));
    }
    Ok(regex)
}

/// A channel to be made.
struct Plan {
    name: String,
    config: ChannelConfig,
}

impl Plan {
    fn build(self) -> Result<Channel, ConfigError> {
        self.check_name()?;
        let kind = self.kind()?;
        self.check_settings(kind)?;
        let internal = self.config.internal.unwrap_or(false);
        let signs_links = self.one_of("link", self.config.link.as_deref(), ["sign-in", "signed"])?;
        let full = self.one_of("content", self.config.content.as_deref(), ["title", "full"])?;
        self.check_recipients(kind)?;
        let timeout = self.timeout()?;
        let way = match kind {
            ChannelKind::Webhook => Way::Webhook { post: self.post(None, timeout)?, secret: self.secret()? },
            ChannelKind::Slack => Way::Slack { post: self.post(None, timeout)? },
            ChannelKind::PagerDuty => Way::PagerDuty {
                post: self.post(Some(PAGERDUTY_URL), timeout)?,
                routing_key: self.routing_key()?,
                severity: self.severity()?,
            },
            ChannelKind::Email => self.email(timeout)?,
        };
        Ok(Channel {
            internal,
            signs_links: signs_links.map_or(internal, |ix| ix == 1),
            full: full.map_or(internal, |ix| ix == 1),
            to: self.config.to,
            timeout,
            way,
        })
    }

    fn wrong(&self, key: &str, why: impl Into<String>) -> ConfigError {
        wrong(&format!("[channels.{}] {key}", self.name), why)
    }

    fn check_name(&self) -> Result<(), ConfigError> {
        let part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
        if (1..=limits::CHANNEL_NAME_CHARS_MAX).contains(&self.name.len()) && self.name.bytes().all(part) {
            return Ok(());
        }
        let why = format!(
            "the name of a channel has 1 to {} small letters, digits, '-' and '_'; choose another",
            limits::CHANNEL_NAME_CHARS_MAX
        );
        Err(wrong(&format!("[channels.{}]", told_of(&self.name)), why))
    }

    fn kind(&self) -> Result<ChannelKind, ConfigError> {
        let names = "webhook, email, slack or pagerduty";
        let Some(told) = &self.config.kind else {
            return Err(self.wrong("type", format!("it is missing; write {names}")));
        };
        let found = ChannelKind::ALL.into_iter().find(|kind| kind.name() == told);
        found.ok_or_else(|| {
            self.wrong("type", format!("'{}' is no type of channel; write {names}", told_of(told)))
        })
    }

    /// Whether a setting is there, in whatever form.
    fn gives(&self, key: &str) -> bool {
        let config = &self.config;
        match key {
            "url" => config.url.is_some() || config.url_file.is_some() || config.url_env.is_some(),
            "secret" => {
                config.secret.is_some() || config.secret_file.is_some() || config.secret_env.is_some()
            }
            "password" => {
                config.password.is_some() || config.password_file.is_some() || config.password_env.is_some()
            }
            "routing-key" => {
                config.routing_key.is_some()
                    || config.routing_key_file.is_some()
                    || config.routing_key_env.is_some()
            }
            "host" => config.host.is_some(),
            "port" => config.port.is_some(),
            "tls" => config.tls.is_some(),
            "username" => config.username.is_some(),
            "from" => config.from.is_some(),
            _ => config.severity.is_some(),
        }
    }

    fn check_settings(&self, kind: ChannelKind) -> Result<(), ConfigError> {
        for (key, kinds) in OF_SOME {
            if self.gives(key) && !kinds.contains(&kind) {
                let why = format!("a channel of type {} has no such setting; take it out", kind.name());
                return Err(self.wrong(key, why));
            }
        }
        Ok(())
    }

    /// Which of two words a setting is.
    fn one_of(&self, key: &str, told: Option<&str>, words: [&str; 2]) -> Result<Option<usize>, ConfigError> {
        let Some(told) = told else { return Ok(None) };
        let found = words.iter().position(|word| *word == told);
        let why = || format!("'{}' is not known; write {} or {}", told_of(told), words[0], words[1]);
        found.map(Some).ok_or_else(|| self.wrong(key, why()))
    }

    fn check_recipients(&self, kind: ChannelKind) -> Result<(), ConfigError> {
        let to = &self.config.to;
        at_most(&format!("[channels.{}] to", self.name), to.len(), limits::DEFAULT_RECIPIENTS_MAX)?;
        for name in to {
            let is_address = name.contains('@') && kind == ChannelKind::Email;
            let fits = if is_address {
                is_one_word(name) && name.parse::<Address>().is_ok()
            } else {
                !name.is_empty()
            };
            if !fits || name.chars().count() > limits::ADDRESS_CHARS_MAX {
                let why = format!(
                    "'{}' is nobody; write a person, a group or a role of the directory, or an address such as \
                     alice@example.com",
                    told_of(name)
                );
                return Err(self.wrong("to", why));
            }
        }
        Ok(())
    }

    fn timeout(&self) -> Result<Duration, ConfigError> {
        let Some(told) = &self.config.timeout else { return Ok(Duration::from_millis(limits::TIMEOUT_MS)) };
        let span = limits::TIMEOUT_MS_MIN..=limits::TIMEOUT_MS_MAX;
        let seconds = told.strip_suffix('s').and_then(|digits| digits.parse::<u64>().ok());
        let ms = seconds.and_then(|seconds| seconds.checked_mul(1000)).filter(|ms| span.contains(ms));
        let ms = ms.ok_or_else(|| {
            let (least, most) = (limits::TIMEOUT_MS_MIN / 1000, limits::TIMEOUT_MS_MAX / 1000);
            self.wrong(
                "timeout",
                format!("'{}' is not a time from {least}s to {most}s; write such as 10s", told_of(told)),
            )
        })?;
        Ok(Duration::from_millis(ms))
    }

    fn secret(&self) -> Result<Secret, ConfigError> {
        let config = &self.config;
        let read =
            self.read("secret", &config.secret, config.secret_file.as_deref(), config.secret_env.as_deref())?;
        let secret = read.ok_or_else(|| {
            self.wrong("secret", "it is missing; give one, which receivers check signatures with")
        })?;
        if secret.reveal().len() < limits::SIGNING_SECRET_CHARS_MIN {
            let why =
                format!("it is too short; give {} characters or more", limits::SIGNING_SECRET_CHARS_MIN);
            return Err(self.wrong("secret", why));
        }
        Ok(secret)
    }

    fn routing_key(&self) -> Result<Secret, ConfigError> {
        let config = &self.config;
        let (file, env) = (config.routing_key_file.as_deref(), config.routing_key_env.as_deref());
        let read = self.read("routing-key", &config.routing_key, file, env)?;
        read.ok_or_else(|| self.wrong("routing-key", "it is missing; give the integration key of a service"))
    }

    fn severity(&self) -> Result<String, ConfigError> {
        let told = self.config.severity.as_deref().unwrap_or("error");
        if SEVERITIES.contains(&told) {
            return Ok(told.to_owned());
        }
        Err(self
            .wrong("severity", format!("'{}' is not known; write {}", told_of(told), SEVERITIES.join(", "))))
    }

    /// A secret, from the one place that is told.
    fn read(
        &self,
        key: &str,
        itself: &Option<Secret>,
        file: Option<&Path>,
        env: Option<&str>,
    ) -> Result<Option<Secret>, ConfigError> {
        let (secret, key) = match (itself, file, env) {
            (None, None, None) => return Ok(None),
            (Some(secret), None, None) => (secret.clone(), key.to_owned()),
            (None, Some(path), None) => (self.read_file(key, path)?, format!("{key}-file")),
            (None, None, Some(name)) => (self.read_env(key, name)?, format!("{key}-env")),
            _ => {
                return Err(self.wrong(
                    key,
                    format!("it is given more than once; keep one of {key}, {key}-file and {key}-env"),
                ));
            }
        };
        if secret.reveal().is_empty() {
            return Err(self.wrong(&key, "it is empty; put the value there"));
        }
        Ok(Some(secret))
    }

    fn read_file(&self, key: &str, path: &Path) -> Result<Secret, ConfigError> {
        let key = format!("{key}-file");
        let text = read_text(path, limits::SECRET_FILE_BYTES_MAX).map_err(|why| self.wrong(&key, why))?;
        Ok(Secret::new(text.trim_end_matches(['\r', '\n'])))
    }

    fn read_env(&self, key: &str, name: &str) -> Result<Secret, ConfigError> {
        let value = std::env::var(name).map_err(|_| {
            let why = format!("the environment variable {} is not set; set it", told_of(name));
            self.wrong(&format!("{key}-env"), why)
        })?;
        Ok(Secret::new(value))
    }

    fn post(&self, usual: Option<&str>, timeout: Duration) -> Result<Post, ConfigError> {
        let config = &self.config;
        let told = self.read("url", &config.url, config.url_file.as_deref(), config.url_env.as_deref())?;
        let Some(text) = told.as_ref().map(Secret::reveal).or(usual) else {
            return Err(self.wrong("url", "it is missing; give the address that messages are posted to"));
        };
        let url =
            Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let url =
            url.ok_or_else(|| self.wrong("url", "it is not an address such as https://example.com/hook"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(self.wrong("url", "it holds a user name or a password; take it out"));
        }
        if url.scheme() == "http" && !self.may_be_plain(url.host_str().unwrap_or_default()) {
            let why =
                "it is not encrypted; use https, or say internal = true if nothing leaves the organisation";
            return Err(self.wrong("url", why));
        }
        Ok(Post { client: self.client(timeout)?, url })
    }

    /// Whether what is sent to a host needs no encryption.
    fn may_be_plain(&self, host: &str) -> bool {
        self.config.internal == Some(true) || is_this_machine(host)
    }

    fn client(&self, timeout: Duration) -> Result<Client, ConfigError> {
        let mut builder = Client::builder()
            .user_agent(concat!("abide/", env!("CARGO_PKG_VERSION")))
            .no_proxy()
            .redirect(redirect::Policy::none())
            .referer(false)
            .retry(retry::never())
            .pool_max_idle_per_host(0)
            .connect_timeout(timeout);
        if let Some(pem) = self.certificates()? {
            let trusted = reqwest::Certificate::from_pem_bundle(&pem);
            builder = builder.tls_certs_merge(trusted.map_err(|_| self.no_certificates())?);
        }
        let unavailable =
            |_| self.wrong("url", "the HTTP client can't start; install the system's CA certificates");
        builder.build().map_err(unavailable)
    }

    fn certificates(&self) -> Result<Option<Vec<u8>>, ConfigError> {
        let Some(path) = &self.config.ca_file else { return Ok(None) };
        let text =
            read_text(path, limits::CERTIFICATES_BYTES_MAX).map_err(|why| self.wrong("ca-file", why))?;
        if !text.contains("-----BEGIN CERTIFICATE-----") {
            return Err(self.no_certificates());
        }
        Ok(Some(text.into_bytes()))
    }

    fn no_certificates(&self) -> ConfigError {
        self.wrong("ca-file", "it holds no certificates in PEM that can be read; export them again")
    }

    fn email(&self, timeout: Duration) -> Result<Way, ConfigError> {
        let host = self.config.host.as_deref().filter(|host| !host.is_empty() && is_one_word(host));
        let host = host.ok_or_else(|| {
            self.wrong("host", "it is missing; name the mail server, such as smtp.example.com")
        })?;
        let from = self.config.from.as_deref().unwrap_or_default();
        let from: Mailbox = from.parse().map_err(|_| {
            self.wrong("from", "it is no sender; write one such as Abide <abide@example.com>")
        })?;
        let (tls, usual_port) = self.tls(host)?;
        let port = self.config.port.unwrap_or(usual_port);
        let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(host)
            .port(port)
            .hello_name(ClientId::Domain(from.email.domain().to_owned()))
            .timeout(Some(timeout));
        if let Some(credentials) = self.credentials(host, &tls)? {
            builder = builder.credentials(credentials);
        }
        let transport = Box::new(builder.tls(tls).build());
        Ok(Way::Email { transport, server: format!("{host}:{port}"), from: Box::new(from) })
    }

    /// How mail is encrypted, and the port that is usual then.
    fn tls(&self, host: &str) -> Result<(Tls, u16), ConfigError> {
        match self.config.tls.as_deref().unwrap_or("starttls") {
            "starttls" => Ok((Tls::Required(self.tls_parameters(host)?), 587)),
            "tls" => Ok((Tls::Wrapper(self.tls_parameters(host)?), 465)),
            "none" if self.may_be_plain(host) => Ok((Tls::None, 25)),
            "none" => {
                let why = "mail would not be encrypted; use starttls, or say internal = true if nothing leaves the organisation";
                Err(self.wrong("tls", why))
            }
            other => {
                Err(self
                    .wrong("tls", format!("'{}' is not known; write starttls, tls or none", told_of(other))))
            }
        }
    }

    fn tls_parameters(&self, host: &str) -> Result<TlsParameters, ConfigError> {
        let mut builder = TlsParameters::builder(host.to_owned());
        if let Some(pem) = self.certificates()? {
            let trusted = Certificate::from_pem(&pem).map_err(|_| self.no_certificates())?;
            builder = builder.add_root_certificate(trusted);
        }
        let unavailable =
            |_| self.wrong("tls", "encryption can't start; install the system's CA certificates");
        builder.build().map_err(unavailable)
    }

    fn credentials(&self, host: &str, tls: &Tls) -> Result<Option<Credentials>, ConfigError> {
        let config = &self.config;
        let (file, env) = (config.password_file.as_deref(), config.password_env.as_deref());
        let password = self.read("password", &config.password, file, env)?;
        let (username, password) = match (config.username.clone(), password) {
            (None, None) => return Ok(None),
            (Some(username), Some(password)) => (username, password),
            (None, Some(_)) => {
                return Err(self.wrong("username", "it is missing, and there is a password; give both"));
            }
            (Some(_), None) => {
                return Err(self.wrong("password", "it is missing, and there is a user name; give both"));
            }
        };
        if matches!(tls, Tls::None) && !is_this_machine(host) {
            return Err(self.wrong("tls", "the password would be sent for all to read; use starttls or tls"));
        }
        Ok(Some(Credentials::new(username, password.reveal().to_owned())))
    }
}

fn wrong(key: &str, why: impl Into<String>) -> ConfigError {
    ConfigError(format!("{key}: {}", why.into()))
}

fn told_of(text: &str) -> String {
    one_line(text, TOLD_CHARS_MAX)
}

fn at_most(key: &str, count: usize, most: usize) -> Result<(), ConfigError> {
    if count <= most {
        Ok(())
    } else {
        Err(wrong(key, format!("there are {count}, and {most} at the most; leave some out")))
    }
}

/// Whether a host is the machine itself, so that nothing goes over a network.
fn is_this_machine(host: &str) -> bool {
    let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || literal.is_ok_and(|address| address.is_loopback())
}

fn read_text(path: &Path, bytes_max: u64) -> Result<String, String> {
    let told = |why: String| format!("{} can't be read: {why}; correct the path or the file", path.display());
    let mut text = String::new();
    let file = File::open(path).map_err(|error| told(error.to_string()))?;
    file.take(bytes_max + 1).read_to_string(&mut text).map_err(|error| told(error.to_string()))?;
    if text.len() as u64 > bytes_max {
        return Err(told(format!("it is longer than {bytes_max} bytes")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
