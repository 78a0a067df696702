//! The channels of a server: which there are, what each is like, and who may be told on them.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use lettre::message::Mailbox;
use lettre::{AsyncSmtpTransport, Tokio1Executor};
use reqwest::{Client, Url};

use crate::address::{Form, is_one_word};
use crate::allowance::Allowance;
use crate::build::{self, ConfigError};
use crate::config::ChannelsConfig;
use crate::limits::ADDRESS_CHARS_MAX;
use crate::redact::Redactor;
use crate::secret::Secret;

/// The channels of a server.
#[derive(Default)]
pub struct Channels {
    pub(crate) channels: BTreeMap<String, Channel>,
    pub(crate) default: Option<String>,
    pub(crate) allow: Vec<Form>,
    pub(crate) redactor: Redactor,
    pub(crate) per_recipient: Allowance,
}

/// One way to reach people.
pub(crate) struct Channel {
    pub(crate) internal: bool,
    pub(crate) signs_links: bool,
    /// Whether question and context are told, too.
    pub(crate) full: bool,
    pub(crate) to: Vec<String>,
    pub(crate) timeout: Duration,
    pub(crate) way: Way,
}

/// How a channel reaches people.
pub(crate) enum Way {
    Webhook { post: Post, secret: Secret },
    Email { transport: Box<AsyncSmtpTransport<Tokio1Executor>>, server: String, from: Box<Mailbox> },
    Slack { post: Post },
    PagerDuty { post: Post, routing_key: Secret, severity: String },
}

/// Where something is posted to.
pub(crate) struct Post {
    pub(crate) client: Client,
    /// It may hold a secret in its path, so it is never told.
    pub(crate) url: Url,
}

/// What kind of channel one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelKind {
    /// A signed POST to somebody's server.
    Webhook,
    /// Mail over SMTP.
    Email,
    /// An incoming webhook of Slack.
    Slack,
    /// Events API v2 of PagerDuty.
    PagerDuty,
}

impl ChannelKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Webhook, Self::Email, Self::Slack, Self::PagerDuty];

    /// Its name in a configuration file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::Email => "email",
            Self::Slack => "slack",
            Self::PagerDuty => "pagerduty",
        }
    }
}

/// The channel that something is told on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Its name.
    pub name: String,
    /// What was asked for instead, if there is no such channel.
    pub fell_back: Option<String>,
}

impl Channels {
    /// The channels of a configuration. It reads the files and environment variables that hold secrets, once.
    pub fn from_config(config: ChannelsConfig) -> Result<Self, ConfigError> {
        build::channels(config)
    }

    /// Their names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.channels.keys().map(String::as_str)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.channels.is_empty()
    }

    /// The channel for what names none.
    pub fn default_channel(&self) -> Option<&str> {
        self.default.as_deref()
    }

    /// The channel that a hint leads to: the one of that name, or else the default. `None` if there are no channels.
    pub fn resolve(&self, hint: Option<&str>) -> Option<Resolved> {
        let hint = hint.filter(|hint| !hint.is_empty());
        match hint {
            Some(name) if self.channels.contains_key(name) => {
                Some(Resolved { name: name.to_owned(), fell_back: None })
            }
            _ => Some(Resolved { name: self.default.clone()?, fell_back: hint.map(str::to_owned) }),
        }
    }

    /// Whether an address that is nobody's in the directory may be told: the settings allow it, or a channel tells it
    /// anyway.
    pub fn allowed(&self, address: &str) -> bool {
        let sane = is_one_word(address) && address.chars().count() <= ADDRESS_CHARS_MAX;
        let own = || self.channels.values().flat_map(|channel| &channel.to).any(|own| own == address);
        sane && (self.allow.iter().any(|form| form.takes(address)) || own())
    }

    /// What kind of channel it is.
    pub fn kind(&self, name: &str) -> Option<ChannelKind> {
        Some(match self.channels.get(name)?.way {
            Way::Webhook { .. } => ChannelKind::Webhook,
            Way::Email { .. } => ChannelKind::Email,
            Way::Slack { .. } => ChannelKind::Slack,
            Way::PagerDuty { .. } => ChannelKind::PagerDuty,
        })
    }

    /// Whether it stays within the organisation.
    pub fn is_internal(&self, name: &str) -> bool {
        self.channels.get(name).is_some_and(|channel| channel.internal)
    }

    /// Whether its links let their holder answer without an account.
    pub fn signs_links(&self, name: &str) -> bool {
        self.channels.get(name).is_some_and(|channel| channel.signs_links)
    }

    /// Whether question and context are told on it, not only title and link.
    pub fn tells_all(&self, name: &str) -> bool {
        self.channels.get(name).is_some_and(|channel| channel.full)
    }

    /// Who is told on it if nobody is named: people, groups and roles of the directory, or addresses.
    pub fn default_recipients(&self, name: &str) -> &[String] {
        self.channels.get(name).map_or(&[], |channel| &channel.to)
    }

    /// Whether it gets one message that names everybody, rather than one for each.
    pub fn is_shared(&self, name: &str) -> bool {
        self.kind(name).is_some_and(|kind| kind != ChannelKind::Email)
    }

    /// How many messages one recipient gets.
    pub fn per_recipient(&self) -> Allowance {
        self.per_recipient
    }
}

/// What they are called, and nothing of what they hold.
impl fmt::Debug for Channels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channels")
            .field("names", &self.names().collect::<Vec<_>>())
            .field("default", &self.default)
            .finish_non_exhaustive()
    }
}
