//! Tokens that let whoever holds one look at an interrupt, or answer it.
//!
//! A token is `base64url(payload) "." base64url(MAC)`, both without padding, so it stands in a path as it is. The payload
//! is JSON, and the MAC is HMAC-SHA256 over exactly those bytes. Its key is derived from a secret of the keyring for one
//! tenant; `kid` names both. This is the only scheme there is: a text that says otherwise is no token.

use std::borrow::Cow;
use std::sync::Arc;

use abide_core::{InterruptId, Millis, RunId, TenantId};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::error::ApiError;
use crate::keyring::Keyring;
use crate::limits::{INTERRUPT_TOKEN_CHARS_MAX, NOTICE_TOKEN_MS, READ_TOKEN_MS};
use crate::time::rfc3339;

const PURPOSE: &str = "interrupt-token";

/// What a token says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Whose run it is.
    pub tenant: TenantId,
    /// The run.
    pub run: RunId,
    /// The node that waits.
    pub node: String,
    /// What it waits for.
    pub interrupt: InterruptId,
    /// From then on it opens nothing.
    pub expires_at: Millis,
    /// What it is good for.
    pub intent: Intent,
    /// Who it was given to: the principal that an answer is put down to.
    pub sub: String,
}

/// What a token is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Intent {
    /// To look at the interrupt, and to answer it.
    Resolve,
    /// To look at it.
    Inspect,
}

/// Why a token opens nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is none of ours: changed, cut, made up, or signed with a secret that was retired.
    Unknown,
    /// It is genuine, and its time is over.
    Expired(Box<Token>),
}

impl From<Refused> for ApiError {
    fn from(refused: Refused) -> Self {
        match refused {
            // One sentence for everything, so that nobody learns how far a forged one came.
            Refused::Unknown => Self::new(
                "interrupt_not_found",
                "there is no interrupt behind this link; use it exactly as it was sent, or ask for a new one",
            ),
            Refused::Expired(token) => Self::new(
                "interrupt_expired",
                format!(
                    "the link worked until {}; read the run again or ask for a new one",
                    rfc3339(token.expires_at)
                ),
            ),
        }
    }
}

/// The payload on the wire. All of it has to be there, and nothing else.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Payload<'a> {
    run_id: Cow<'a, str>,
    node_id: Cow<'a, str>,
    interrupt_id: InterruptId,
    expires_at: Cow<'a, str>,
    intent: Intent,
    kid: Cow<'a, str>,
    sub: Cow<'a, str>,
}

/// What is read of a payload before anybody vouches for it.
#[derive(Deserialize)]
struct Hint<'a> {
    #[serde(borrow)]
    kid: Cow<'a, str>,
}

/// Makes tokens.
#[derive(Clone)]
pub struct Minter {
    keyring: Arc<Keyring>,
}

impl Minter {
    /// One that signs with the newest secret of this keyring.
    pub fn new(keyring: Arc<Keyring>) -> Self {
        Self { keyring }
    }

    /// The text of a token.
    pub fn mint(&self, token: &Token) -> String {
        let (secret_id, secret) = self.keyring.newest_secret(PURPOSE, &scope(token.tenant));
        let payload = Payload {
            run_id: token.run.to_string().into(),
            node_id: (&token.node).into(),
            interrupt_id: token.interrupt,
            expires_at: rfc3339(token.expires_at).into(),
            intent: token.intent,
            kid: kid(token.tenant, secret_id).into(),
            sub: (&token.sub).into(),
        };
        let payload = serde_json::to_vec(&payload).expect("a payload is plain data, which serialises");
        let mac = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &secret), &payload);
        format!("{}.{}", URL_SAFE_NO_PAD.encode(&payload), URL_SAFE_NO_PAD.encode(mac))
    }
}

/// Reads tokens, and trusts those that were signed with a secret of its keyring.
#[derive(Clone)]
pub struct Verifier {
    keyring: Arc<Keyring>,
}

impl Verifier {
    /// One that trusts every secret of this keyring.
    pub fn new(keyring: Arc<Keyring>) -> Self {
        Self { keyring }
    }

    /// What a text says, if it is a token of ours whose time is not over at `now`, the time of the command.
    pub fn verify(&self, text: &str, now: Millis) -> Result<Token, Refused> {
        let token = self.read(text).ok_or(Refused::Unknown)?;
        if token.is_expired(now) { Err(Refused::Expired(Box::new(token))) } else { Ok(token) }
    }

    /// What a text says, if it is a token of ours, expired or not.
    pub fn read(&self, text: &str) -> Option<Token> {
        if text.len() > INTERRUPT_TOKEN_CHARS_MAX {
            return None;
        }
        let (payload, mac) = text.split_once('.')?;
        let payload = URL_SAFE_NO_PAD.decode(payload).ok()?;
        let mac = URL_SAFE_NO_PAD.decode(mac).ok()?;
        let (tenant, secret_id) = read_kid(&serde_json::from_slice::<Hint<'_>>(&payload).ok()?.kid)?;
        let secret = self.keyring.secret(secret_id, PURPOSE, &scope(tenant))?;
        // In constant time, whatever was sent.
        hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, &secret), &payload, &mac).ok()?;
        read_payload(&payload, tenant)
    }
}

impl Token {
    /// Whether its time is over. At `expires_at` it is.
    pub fn is_expired(&self, now: Millis) -> bool {
        self.expires_at <= now
    }
}

/// What an interrupt says about the tokens that answer it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetime {
    /// When the interrupt ends by its `timeoutMs`. No token outlives that.
    pub deadline: Option<Millis>,
    /// When the last of its reminders has been given up, if it sends any.
    pub last_deadline: Option<Millis>,
    /// For how long a token lives, if the interrupt was asked with a time of its own.
    pub configured: Option<Millis>,
}

impl Lifetime {
    /// When a token expires that is given out at `now` by a read of the API.
    pub fn of_read(&self, now: Millis) -> Millis {
        self.cut(now.saturating_add(self.configured.unwrap_or(READ_TOKEN_MS)))
    }

    /// When a token expires that is sent at `now` in a notification: it has to work as long as somebody is reminded.
    pub fn of_notice(&self, now: Millis) -> Millis {
        let last = self.last_deadline.or(self.deadline);
        let usual = || last.unwrap_or_else(|| now.saturating_add(NOTICE_TOKEN_MS));
        self.cut(self.configured.map_or_else(usual, |ms| now.saturating_add(ms)))
    }

    fn cut(&self, expires_at: Millis) -> Millis {
        self.deadline.map_or(expires_at, |deadline| expires_at.min(deadline))
    }
}

/// `<tenant>.<secret>`, each by its number.
fn kid(tenant: TenantId, secret: u32) -> String {
    format!("{}.{secret}", tenant.0)
}

fn read_kid(text: &str) -> Option<(TenantId, u32)> {
    let (tenant, secret) = text.split_once('.')?;
    let (tenant, secret) = (TenantId(tenant.parse().ok()?), secret.parse().ok()?);
    (kid(tenant, secret) == text).then_some((tenant, secret))
}

/// Each tenant has a secret of its own, so that a token of one is worth nothing to another.
fn scope(tenant: TenantId) -> [u8; 4] {
    tenant.0.to_be_bytes()
}

/// A payload that was signed. What this server would not have written itself is refused all the same.
fn read_payload(bytes: &[u8], tenant: TenantId) -> Option<Token> {
    let payload: Payload<'_> = serde_json::from_slice(bytes).ok()?;
    let run: RunId = payload.run_id.parse().ok().filter(|run: &RunId| run.to_string() == payload.run_id)?;
    let expires_at: jiff::Timestamp = payload.expires_at.parse().ok()?;
    let expires_at = expires_at.as_millisecond();
    (rfc3339(expires_at) == payload.expires_at).then(|| Token {
        tenant,
        run,
        node: payload.node_id.into_owned(),
        interrupt: payload.interrupt_id,
        expires_at,
        intent: payload.intent,
        sub: payload.sub.into_owned(),
    })
}

#[cfg(test)]
mod tests;
