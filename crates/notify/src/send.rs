//! One attempt to send a message, and how it ended. Whether there is another is for others to decide.

mod http;
mod smtp;

use abide_core::Millis;
use reqwest::Url;
use tokio::time::Instant;

use crate::channels::{Channel, Channels, Way};
use crate::compose::{email, pagerduty, slack, webhook};
use crate::limits::ANSWER_TOLD_CHARS_MAX;
use crate::message::Message;
use crate::redact::{Redacted, View};
use crate::secret::Secret;
use crate::text::one_line;

/// Characters of a secret that is looked for in answers.
const SECRET_CHARS_MIN: usize = 6;

/// A message was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// What the receiver said, in short: a status, or the answer of a mail server.
    pub answer: String,
}

/// A message was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Whether another attempt may do better.
    pub again: bool,
    /// Why, and what to change. It holds nothing secret.
    pub reason: String,
    /// How long the receiver asked to be left alone.
    pub retry_after: Option<Millis>,
}

impl Failure {
    fn lasting(reason: impl Into<String>) -> Self {
        Self { again: false, reason: reason.into(), retry_after: None }
    }

    fn passing(reason: impl Into<String>) -> Self {
        Self { again: true, ..Self::lasting(reason) }
    }
}

impl Channels {
    /// Sends a message once. What must not leave on this channel is taken out here, whoever wrote it in.
    pub async fn send(&self, channel: &str, message: &Message) -> Result<Receipt, Failure> {
        let Some(channel) = self.channels.get(channel) else {
            let reason =
                format!("there is no channel '{}'; configure it, or name another", one_line(channel, 64));
            return Err(Failure::lasting(reason));
        };
        let view = View { external: !channel.internal, full: channel.full };
        let redacted = self.redactor.redact(message, view);
        let sent = channel.send(&redacted, Instant::now() + channel.timeout).await;
        let told = |text: String| {
            one_line(&self.redactor.told(&channel.without_secrets(text)), 4 * ANSWER_TOLD_CHARS_MAX)
        };
        match sent {
            Ok(receipt) => Ok(Receipt { answer: told(receipt.answer) }),
            Err(failure) => Err(Failure { reason: told(failure.reason), ..failure }),
        }
    }
}

impl Channel {
    async fn send(&self, message: &Redacted, deadline: Instant) -> Result<Receipt, Failure> {
        let (post, requests) = match &self.way {
            Way::Webhook { post, secret } => (post, vec![webhook::request(message, secret)]),
            Way::Slack { post } => (post, vec![slack::request(message)]),
            Way::PagerDuty { post, routing_key, severity } => {
                (post, pagerduty::requests(message, routing_key, severity))
            }
            Way::Email { transport, server, from } => {
                let mail = email::mail(message, from).map_err(Failure::lasting)?;
                return smtp::send(transport, server, mail, deadline).await;
            }
        };
        let mut receipt = Receipt { answer: String::new() };
        for request in requests {
            receipt = http::post(post, request, message.at, deadline).await?;
        }
        Ok(receipt)
    }

    /// A receiver may repeat what it was sent, or where.
    fn without_secrets(&self, text: String) -> String {
        let (url, key) = match &self.way {
            Way::Webhook { post, secret } => (Some(&post.url), Some(secret)),
            Way::Slack { post } => (Some(&post.url), None),
            Way::PagerDuty { post, routing_key, .. } => (Some(&post.url), Some(routing_key)),
            Way::Email { .. } => (None, None),
        };
        // What is shorter is no secret, and may well stand in any sentence.
        let long = |text: &&str| text.len() >= SECRET_CHARS_MIN;
        let path = url.map(Url::path).filter(long);
        let query = url.and_then(Url::query).filter(long);
        let hidden = [path, query, key.map(Secret::reveal).filter(long)];
        hidden.into_iter().flatten().fold(text, |text, secret| text.replace(secret, "[secret]"))
    }
}
