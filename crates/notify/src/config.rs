//! The settings of channels as they stand in a configuration file: `[notify]` and `[channels.NAME]`.
//!
//! They are only read here; `build.rs` says what is wrong with them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use crate::secret::Secret;

/// Everything about telling people.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ChannelsConfig {
    /// What holds for all channels.
    pub notify: NotifyConfig,
    /// The channels by name.
    pub channels: BTreeMap<String, ChannelConfig>,
}

/// `[notify]`: what holds for all channels.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct NotifyConfig {
    /// The channel for what names none, or one that there is not.
    pub default: Option<String>,
    /// Addresses that may be told beside people of the directory: `oncall@example.com`, `*@example.com`.
    pub allow: Vec<String>,
    /// Patterns of what is removed from everything that leaves.
    pub redact: Vec<String>,
    /// How many messages one recipient gets: `20/h`.
    pub per_recipient: Option<String>,
}

/// `[channels.NAME]`. A secret is given as itself, as the name of a file, or as the name of an environment variable.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ChannelConfig {
    /// `webhook`, `email`, `slack` or `pagerduty`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Whether it stays within the organisation.
    pub internal: Option<bool>,
    /// `signed`: its links let their holder answer without an account. `sign-in`: they don't.
    pub link: Option<String>,
    /// `title`, or `full`: the question and its context, too.
    pub content: Option<String>,
    /// Who is told if nobody is named.
    pub to: Vec<String>,
    /// How long an attempt to send may take: `10s`.
    pub timeout: Option<String>,
    /// A file with certificates that are trusted beside the system's, in PEM.
    pub ca_file: Option<PathBuf>,

    /// Where messages are sent to.
    pub url: Option<Secret>,
    /// A file with [`Self::url`].
    pub url_file: Option<PathBuf>,
    /// The environment variable with [`Self::url`].
    pub url_env: Option<String>,

    /// What messages to a webhook are signed with.
    pub secret: Option<Secret>,
    /// A file with [`Self::secret`].
    pub secret_file: Option<PathBuf>,
    /// The environment variable with [`Self::secret`].
    pub secret_env: Option<String>,

    /// The mail server.
    pub host: Option<String>,
    /// Its port.
    pub port: Option<u16>,
    /// `starttls`, `tls` or `none`.
    pub tls: Option<String>,
    /// Who signs in to the mail server.
    pub username: Option<String>,
    /// And with which password.
    pub password: Option<Secret>,
    /// A file with [`Self::password`].
    pub password_file: Option<PathBuf>,
    /// The environment variable with [`Self::password`].
    pub password_env: Option<String>,
    /// Who mail comes from: `Abide <abide@example.com>`.
    pub from: Option<String>,

    /// The integration key of a PagerDuty service.
    pub routing_key: Option<Secret>,
    /// A file with [`Self::routing_key`].
    pub routing_key_file: Option<PathBuf>,
    /// The environment variable with [`Self::routing_key`].
    pub routing_key_env: Option<String>,
    /// `critical`, `error`, `warning` or `info`.
    pub severity: Option<String>,
}
