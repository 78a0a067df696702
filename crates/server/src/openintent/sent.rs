//! What happens to an intent or in a portfolio, as it is sent to a URL.

use abide_core::{Record, signature_headers};
use abide_engine::{Enclosed, Envelope};
use serde_json::{Value, json};

use super::events::{Known, is_known, matters, shown, told};
use crate::webhooks::delivery_id;

/// Whether an event has to be known to tell of later ones.
pub(crate) fn remembers(record: &Record) -> bool {
    record.event().is_ok_and(|event| matters(&event))
}

/// The requests that tell of an event, each of one thing that happened. Only what is asked for is told; without a wish it
/// is what the client knows.
pub(crate) fn envelopes(enclosed: &Enclosed<'_>, secret: &[u8]) -> Vec<Envelope> {
    let (record, webhook) = (enclosed.record, enclosed.webhook);
    // What was erased says nothing any more.
    let Ok(event) = record.event() else { return Vec::new() };
    let mut known = Known::of(enclosed.run);
    for earlier in &enclosed.earlier.records {
        if let Ok(event) = earlier.event() {
            known.hear(earlier.sequence, &event);
        }
    }
    known.hear(record.sequence, &event);
    let wished = |event_type: &str| match &webhook.types[..] {
        [] => is_known(event_type),
        types => types.iter().any(|one| one == event_type || one == "*" && is_known(event_type)),
    };
    let happened = told(&event, record.sequence, record.at, &known);
    let happened = happened.iter().filter(|one| wished(&one.event_type)).enumerate();
    happened
        .map(|(part, one)| {
            let document = shown(enclosed.run, record, enclosed.earlier.chain.as_ref(), part, one);
            envelope(enclosed, secret, part, &one.event_type, &document)
        })
        .collect()
}

fn envelope(
    enclosed: &Enclosed<'_>,
    secret: &[u8],
    part: usize,
    event_type: &str,
    document: &Value,
) -> Envelope {
    let webhook = enclosed.webhook;
    let body = json!({ "subscription_id": &*webhook.key.id, "event": document }).to_string().into_bytes();
    let delivery = delivery_id(&webhook.key, enclosed.run, enclosed.record.sequence);
    let mut headers = vec![
        ("content-type", "application/json".to_owned()),
        ("user-agent", concat!("abide/", env!("CARGO_PKG_VERSION")).to_owned()),
        ("x-openintent-subscription-id", webhook.key.id.to_string()),
        ("x-openintent-event-type", event_type.to_owned()),
        // The same for every attempt, so that a receiver can tell that it has it already.
        ("x-openintent-delivery-id", if part == 0 { delivery } else { format!("{delivery}-{part}") }),
    ];
    headers.extend(signature_headers(secret, enclosed.at, &body));
    Envelope { headers, body }
}
