//! What clients told of themselves, as events: those that they posted, and what is kept beside the intent.

use std::borrow::Cow;

use abide_core::{Key, Millis};
use abide_store::Note;
use serde_json::{Value, json};

use super::Told;
use crate::app::App;
use crate::error::Result;
use crate::openintent::records::access_requests::ACCESS_REQUEST;
use crate::openintent::records::attachments::ATTACHMENT;
use crate::openintent::records::channels::CHANNEL;
use crate::openintent::records::decisions::{ARBITRATION, DECISION, OF_COORDINATOR};
use crate::openintent::records::failures::FAILURE;
use crate::openintent::records::{Kept, newest};
use crate::openintent::words;

/// The kind of events that somebody posted.
pub(super) const EVENT: &str = "event";

/// What is kept beside an intent, and what is told of it: what it is called, what its record is called there, and which of
/// its fields are told.
const KINDS: [(&str, &str, &str, &[&str]); 7] = [
    (DECISION, "decision_recorded", "decision_id", &["decision_type", "outcome", "reasoning"]),
    (ARBITRATION, "arbitration_requested", "arbitration_id", &["reason", "context"]),
    (OF_COORDINATOR, "coordinator.decision", "decision_id", &["coordinator_id", "decision_type", "summary"]),
    (ATTACHMENT, "attachment_added", "attachment_id", &["filename", "mime_type", "size"]),
    (
        FAILURE,
        "failure_recorded",
        "failure_id",
        &["agent_id", "attempt_number", "error_code", "error_message"],
    ),
    (ACCESS_REQUEST, "access_requested", "request_id", &["principal_id", "requested_permission", "reason"]),
    (CHANNEL, "channel.created", "channel_id", &["name", "member_policy"]),
];

/// An event of a record: when it happened, and how it is shown.
pub(crate) struct Posted {
    pub(super) at: Millis,
    /// How many events the journal had then.
    pub(crate) journal: u64,
    pub(super) sequence: u64,
    pub(crate) told: Told,
    pub(crate) shown: Value,
}

/// Somebody's own event.
pub(super) fn own(kept: &Kept) -> Posted {
    let told = Told {
        event_type: Cow::Owned(kept.text("event_type").unwrap_or_default().to_owned()),
        actor: kept.text("actor").unwrap_or(&kept.by).to_owned(),
        payload: kept.body["payload"].clone(),
    };
    posted(kept, kept.at, told, &kept.id())
}

fn posted(kept: &Kept, at: Millis, told: Told, id: &str) -> Posted {
    let shown = json!({
        "id": id,
        "intent_id": kept.intent(),
        "event_type": told.event_type,
        "actor": told.actor,
        "payload": told.payload,
        "created_at": words::moment(at),
        "sequence": null,
        "event_hash": null,
        "previous_event_hash": null,
        "trace_id": kept.body["trace_id"],
        "parent_event_id": kept.body["parent_event_id"],
    });
    Posted { at, journal: kept.journal(), sequence: kept.sequence, told, shown }
}

/// What is told of a record: that it was made, and what became of it.
fn of_record(kept: &Kept, (_, event_type, id, fields): (&str, &'static str, &str, &[&str])) -> Vec<Posted> {
    let mut payload = json!({ id: kept.id() });
    for field in fields {
        payload[*field] = kept.body[*field].clone();
    }
    let told = Told::by(Some(&kept.by), event_type, payload.clone());
    let made = posted(kept, kept.at, told, &kept.id());
    let end = |event_type, at: Option<Millis>, by: &str| {
        let told = Told::by(Some(by), event_type, payload.clone());
        at.map(|at| posted(kept, at, told, &format!("{}-1", kept.id())))
    };
    let decided_by = kept.text("decided_by").unwrap_or(&kept.by);
    let ended = match (event_type, kept.text("status")) {
        ("access_requested", Some("approved")) => {
            end("access_request_approved", kept.body["decided_at"].as_i64(), decided_by)
        }
        ("access_requested", Some("denied")) => {
            end("access_request_denied", kept.body["decided_at"].as_i64(), decided_by)
        }
        ("channel.created", Some("closed")) => {
            end("channel.closed", kept.body["closed_at"].as_i64(), &kept.by)
        }
        _ => None,
    };
    std::iter::once(made).chain(ended).collect()
}

/// What a note beside an intent tells, if it tells anything.
pub(crate) fn of_note(key: Key, note: &Note) -> Vec<Posted> {
    if note.kind == EVENT {
        return vec![own(&Kept::read(key, note))];
    }
    let kind = KINDS.into_iter().find(|(kind, ..)| *kind == note.kind);
    kind.map_or_else(Vec::new, |kind| of_record(&Kept::read(key, note), kind))
}

/// What clients told of an intent, the newest of each kind: at least as many as are asked for, if there are so many.
pub(super) async fn of_intent(app: &App, key: Key, wanted: usize) -> Result<Vec<Posted>> {
    let mut all: Vec<Posted> = newest(app, key, EVENT, wanted).await?.iter().map(own).collect();
    for kind in KINDS {
        let kept = newest(app, key, kind.0, wanted).await?;
        all.extend(kept.iter().flat_map(|kept| of_record(kept, kind)));
    }
    Ok(all)
}
