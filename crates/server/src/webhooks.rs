//! What signs events to webhooks, in OpenWOP's envelope.
//!
//! A webhook's secret is sealed with a key of the keyring before it reaches the store, and opened for each delivery.

use std::sync::Arc;

use abide_core::{EventId, Record, RunId, hex, sha256, signature_headers};
use abide_engine::{Enclosed, Envelope, Envelopes};
use abide_store::WebhookKey;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::keyring::{Keyring, random_hex};
use crate::{openintent, openwop};

pub(crate) const PURPOSE: &str = "webhooks";
const RECEIPTS: &str = "webhook-receipts";

/// Bytes of a secret that is made here.
const SECRET_BYTES: usize = 32;

/// Hex digits of a fingerprint: enough to tell secrets apart, too few to find one.
const FINGERPRINT_DIGITS: usize = 16;

/// Seals the secrets of webhooks, and signs with them.
pub struct Signer {
    keyring: Arc<Keyring>,
}

/// What a receiver gets. Nothing may stand in it but this.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    run_id: RunId,
    workspace_id: &'a str,
    event: Box<RawValue>,
}

impl Signer {
    /// A signer with keys of this keyring.
    pub fn new(keyring: Arc<Keyring>) -> Self {
        Self { keyring }
    }

    /// A fresh secret.
    pub(crate) fn new_secret() -> String {
        format!("whsec_{}", random_hex(SECRET_BYTES))
    }

    /// A secret as the store keeps it.
    pub(crate) fn sealed(&self, key: &WebhookKey, secret: &str) -> Arc<[u8]> {
        self.keyring.seal(PURPOSE, &context(key), secret.as_bytes()).into()
    }

    /// A secret as a receipt keeps it: whoever repeats the request gets it once more.
    pub(crate) fn sealed_for_receipt(&self, key: &WebhookKey, secret: &str) -> Vec<u8> {
        self.keyring.seal(RECEIPTS, &context(key), secret.as_bytes())
    }

    /// The secret that was sealed for a receipt, from its hex digits.
    pub(crate) fn open_for_receipt(&self, key: &WebhookKey, digits: &str) -> Option<String> {
        let pairs = digits.as_bytes().chunks(2);
        let sealed: Option<Vec<u8>> =
            pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect();
        String::from_utf8(self.keyring.open_sealed(RECEIPTS, &context(key), &sealed?)?).ok()
    }

    /// What tells one secret from another: the first digits of its SHA-256.
    pub(crate) fn fingerprint(secret: &str) -> String {
        let mut digits = hex(&sha256(secret.as_bytes()));
        digits.truncate(FINGERPRINT_DIGITS);
        digits
    }
}

impl Envelopes for Signer {
    fn remembers(&self, record: &Record) -> bool {
        openintent::sent::remembers(record)
    }

    fn seal(&self, enclosed: &Enclosed<'_>) -> Result<Vec<Envelope>, String> {
        let webhook = enclosed.webhook;
        let secret = self.keyring.open_sealed(PURPOSE, &context(&webhook.key), &webhook.sealed);
        let secret = secret.ok_or("its secret can't be opened with this keyring; register it again")?;
        if webhook.about.is_some() {
            return Ok(openintent::sent::envelopes(enclosed, &secret));
        }
        let (kind, event) = openwop::events::doc::openwop(enclosed.run, enclosed.record)?;
        let body = body(enclosed, event)?;
        let delivery = delivery_id(&webhook.key, enclosed.run, enclosed.record.sequence);
        let mut headers = vec![
            ("content-type", "application/json".to_owned()),
            ("user-agent", concat!("openwop-webhook-dispatcher/", env!("CARGO_PKG_VERSION")).to_owned()),
            ("x-openwop-webhook-id", webhook.key.id.to_string()),
            ("x-openwop-delivery-id", delivery),
            ("x-openwop-event-type", kind.to_owned()),
        ];
        headers.extend(signature_headers(&secret, enclosed.at, &body));
        Ok(vec![Envelope { headers, body }])
    }
}

fn body(enclosed: &Enclosed<'_>, event: Vec<u8>) -> Result<Vec<u8>, String> {
    let event = String::from_utf8(event).map_err(|error| error.to_string())?;
    let event = RawValue::from_string(event).map_err(|error| error.to_string())?;
    let body = Body { run_id: enclosed.run, workspace_id: enclosed.tenant, event };
    serde_json::to_vec(&body).map_err(|error| error.to_string())
}

/// The same for every attempt at the same event, so that a receiver can tell that it has it already.
pub(crate) fn delivery_id(key: &WebhookKey, run: RunId, sequence: u64) -> String {
    format!("{}.{}", key.id, EventId { run, sequence })
}

/// The event that a delivery to this webhook carries.
pub(crate) fn parse_delivery_id(key: &WebhookKey, text: &str) -> Option<(RunId, u64)> {
    let event: EventId = text.strip_prefix(&*key.id)?.strip_prefix('.')?.parse().ok()?;
    Some((event.run, event.sequence))
}

/// Sealed together with the secret, so that a row can't be passed off as another tenant's or another webhook's.
pub(crate) fn context(key: &WebhookKey) -> Vec<u8> {
    [&key.tenant.0.to_be_bytes()[..], key.id.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use abide_core::TenantId;

    use super::*;

    #[test]
    fn a_delivery_is_named_by_its_webhook_and_its_event() {
        let key = WebhookKey { tenant: TenantId(1), id: "wh-1".into() };
        let run = RunId::from_bytes([7; 16]);
        let id = delivery_id(&key, run, 42);
        assert_eq!(parse_delivery_id(&key, &id), Some((run, 42)));
        let other = WebhookKey { id: "wh-2".into(), ..key.clone() };
        assert_eq!(parse_delivery_id(&other, &id), None);
        assert_eq!(parse_delivery_id(&key, "wh-1.nonsense"), None);
    }
}
