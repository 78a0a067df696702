//! A journal: events with their envelopes, each chained to the one before.
//!
//! The chain runs over the envelope and a salted hash of the payload. Erasing a payload (and the salt) leaves
//! the hash in its place, so the chain still verifies and the erased text can't be guessed at.

use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256, digest};
use serde::{Deserialize, Serialize};

use crate::{Event, EventType, Key, Millis};

/// A SHA-256 hash.
pub type Hash = [u8; 32];

/// A run's secret, drawn by the shell when the run is created. It stands in the journal beside event 0.
pub type Salt = [u8; 16];

/// The SHA-256 hash of some bytes.
pub fn sha256(bytes: &[u8]) -> Hash {
    to_hash(digest(&SHA256, bytes))
}

/// Bytes as lower-case hex, the form that hashes have in text.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An event with its place in a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its place, from 0.
    pub sequence: u64,
    /// When it was decided. Never before the event in front of it.
    pub at: Millis,
    /// The type's number.
    pub type_code: u16,
    /// The version of the type it was written in.
    pub version: u16,
    /// The node it happened to.
    pub node: Option<Arc<str>>,
    /// The sequence of the event that led to this one.
    pub cause: Option<u64>,
    /// What it says.
    pub payload: Payload,
    /// The hash that binds it to everything before.
    pub chain: Hash,
}

/// A record's payload, or what is left of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// The encoded event.
    Present(Arc<[u8]>),
    /// The payload was erased; its salted hash keeps the chain whole.
    Erased(Hash),
}

impl Payload {
    /// How many bytes it has; none once it was erased.
    pub fn len(&self) -> usize {
        match self {
            Self::Present(bytes) => bytes.len(),
            Self::Erased(_) => 0,
        }
    }

    /// Whether there is nothing (left) of it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The end of a journal, where the next record goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The next sequence.
    pub next: u64,
    /// The chain so far.
    pub chain: Hash,
    /// The time of the last event; no command is decided earlier.
    pub at: Millis,
}

impl Head {
    /// The head of an empty journal.
    pub fn new(key: Key) -> Self {
        let mut context = Context::new(&SHA256);
        context.update(b"abide journal 1");
        context.update(&key.tenant.0.to_be_bytes());
        context.update(key.id.as_bytes());
        Self { next: 0, chain: to_hash(context.finish()), at: 0 }
    }

    /// Gives an event its place and moves the head behind it.
    pub(crate) fn seal(&mut self, salt: &Salt, event: &Event, cause: Option<u64>, at: Millis) -> Record {
        let kind = event.event_type();
        let mut record = Record {
            sequence: self.next,
            at,
            type_code: kind.code,
            version: kind.version,
            node: event.node().cloned(),
            cause,
            payload: Payload::Present(event.encode().into()),
            chain: [0; 32],
        };
        record.chain = record.link(&self.chain, Some(salt)).expect("the payload and its salt are present");
        self.follow(&record);
        record
    }

    /// Checks that `record` is the next one and moves the head behind it.
    pub fn accept(&mut self, record: &Record, salt: Option<&Salt>) -> Result<(), String> {
        if record.sequence != self.next {
            return Err(format!("event {} is missing, {} stands in its place", self.next, record.sequence));
        }
        if record.at < self.at {
            return Err(format!("event {} is older than the one before it", record.sequence));
        }
        match record.link(&self.chain, salt) {
            Some(chain) if chain == record.chain => {
                self.follow(record);
                Ok(())
            }
            Some(_) => Err(format!("event {} does not fit the hash chain: it was changed", record.sequence)),
            None => Err(format!("event {} can't be checked: the journal's salt is gone", record.sequence)),
        }
    }

    fn follow(&mut self, record: &Record) {
        self.next = record.sequence + 1;
        self.chain = record.chain;
        self.at = record.at;
    }
}

impl Record {
    /// Reads the event. An erased payload has none.
    pub fn event(&self) -> Result<Event, String> {
        match &self.payload {
            Payload::Present(bytes) => Event::decode(self.type_code, self.version, self.node.as_ref(), bytes),
            Payload::Erased(_) => Err(format!("the payload of event {} was erased", self.sequence)),
        }
    }

    /// Whether a later version of abide wrote it, so that this one can't read it: no damage, but nothing to decide on.
    pub fn is_newer(&self) -> bool {
        EventType::by_code(self.type_code).is_none_or(|kind| self.version > kind.version)
    }

    /// Whether its payload holds something that is never shown, or may: one that can't be read counts as such.
    pub fn hides(&self) -> bool {
        matches!(self.payload, Payload::Present(_)) && self.event().map_or(true, |event| event.hides())
    }

    /// The salted hash of the payload: what remains of it after an erasure.
    pub fn digest(&self, salt: Option<&Salt>) -> Option<Hash> {
        match &self.payload {
            Payload::Erased(digest) => Some(*digest),
            Payload::Present(bytes) => {
                let mut context = Context::new(&SHA256);
                context.update(&self.own_salt(salt?));
                context.update(bytes);
                Some(to_hash(context.finish()))
            }
        }
    }

    /// The salt of this record alone. Were one payload erased and the run's salt with it, the salts of the other
    /// records could be kept, and nothing could be guessed about the erased one.
    fn own_salt(&self, salt: &Salt) -> Hash {
        let mut context = Context::new(&SHA256);
        context.update(salt);
        context.update(&self.sequence.to_be_bytes());
        to_hash(context.finish())
    }

    /// The link of the chain that it is, behind the one before it; none if its payload can't be hashed any more.
    pub fn link(&self, before: &Hash, salt: Option<&Salt>) -> Option<Hash> {
        let node = self.node.as_deref().unwrap_or_default();
        let mut context = Context::new(&SHA256);
        context.update(before);
        context.update(&self.sequence.to_be_bytes());
        context.update(&self.at.to_be_bytes());
        context.update(&self.type_code.to_be_bytes());
        context.update(&self.version.to_be_bytes());
        // Saturating, so that no cause on a damaged disk is taken for none.
        context.update(&self.cause.map_or(0, |cause| cause.saturating_add(1)).to_be_bytes());
        context.update(&(node.len() as u64).to_be_bytes());
        context.update(node.as_bytes());
        context.update(&self.digest(salt)?);
        Some(to_hash(context.finish()))
    }
}

fn to_hash(digest: aws_lc_rs::digest::Digest) -> Hash {
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}
