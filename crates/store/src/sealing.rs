//! What is never shown, sealed where it is kept: payloads, snapshots and messages that hold something sensitive.
//!
//! Everything else is kept as it is, as JSON, which begins with a brace. What is sealed begins with a byte that no JSON
//! begins with, so that older data and newer data lie side by side and each says for itself what it is. The chain of a
//! journal runs over what was sealed, not over the sealed bytes: a journal verifies the same under whichever key.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use abide_core::{Key, RunId, TenantId, sha256};

use crate::Error;

/// Keeps the keys under which runs are sealed.
pub trait Sealer: Send + Sync + 'static {
    /// Encrypts something of a run. The answer begins with the number of the key, four bytes, the highest first.
    /// The reason for a refusal says what to do.
    fn seal(&self, owner: Key, place: &[u8], plain: &[u8]) -> Result<Vec<u8>, String>;

    /// Decrypts what [`seal`](Self::seal) made for the same run and place. The reason for a refusal names the key and
    /// where it was looked for.
    fn open(&self, owner: Key, place: &[u8], sealed: &[u8]) -> Result<Vec<u8>, String>;

    /// Whether the key of something that can't be opened is on its way: another server may have it already.
    fn may_come(&self, sealed: &[u8]) -> bool {
        let _ = sealed;
        false
    }
}

/// What sealed bytes begin with.
pub(crate) const SEALED: u8 = 1;

/// How a store keeps what is never shown.
#[derive(Clone, Default)]
pub struct Sealing(Option<Arc<dyn Sealer>>);

impl Sealing {
    /// As it is: for tests, for benches, and for commands that write no runs. What somebody else sealed can't be read
    /// then.
    pub fn in_clear() -> Self {
        Self(None)
    }

    /// Sealed.
    pub fn with(sealer: Arc<dyn Sealer>) -> Self {
        Self(Some(sealer))
    }

    /// The bytes to be kept.
    pub(crate) fn seal<'a>(
        &self,
        owner: Key,
        place: &Place,
        plain: impl Into<Cow<'a, [u8]>>,
    ) -> Result<Cow<'a, [u8]>, Error> {
        let plain = plain.into();
        let Some(sealer) = &self.0 else { return Ok(plain) };
        let sealed = sealer.seal(owner, &place.bytes(), &plain);
        let sealed = sealed.map_err(|reason| Error::Sealed(format!("{place} can't be sealed: {reason}")))?;
        Ok([&[SEALED], &*sealed].concat().into())
    }

    /// What was to be kept, given what is.
    pub(crate) fn open(&self, owner: Key, place: &Place, kept: Vec<u8>) -> Result<Vec<u8>, Unopened> {
        let Some((&SEALED, sealed)) = kept.split_first() else { return Ok(kept) };
        let told = |reason: &str| format!("{place} can't be read: {reason}");
        let Some(sealer) = &self.0 else {
            let reason = told("it is sealed, and no keyring was given; name it with --keyring");
            return Err(Unopened { reason, for_now: false });
        };
        let opened = sealer.open(owner, &place.bytes(), sealed);
        opened.map_err(|reason| Unopened { reason: told(&reason), for_now: sealer.may_come(sealed) })
    }
}

/// What somebody sealed and this store can't open.
#[derive(Debug)]
pub(crate) struct Unopened {
    pub(crate) reason: String,
    /// Whether it may be opened a little later.
    pub(crate) for_now: bool,
}

impl std::error::Error for Unopened {}

impl fmt::Display for Unopened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// Where a run's bytes stand. They are sealed together with it, so that they can't be passed off as others.
pub(crate) enum Place {
    /// The payload of the event at this sequence.
    Event(u64),
    /// The snapshot that has folded so many events.
    Snapshot(u64),
    /// The message of this type that the run sent at this sequence, and to whom.
    Message { sequence: u64, receiver: RunId, kind: u8 },
    /// The payload of an event that others told of. Nobody knows yet whether it answers something sensitive.
    Outside,
}

/// Who owns what others told of: there is no run yet, so each event has a key of its own.
pub(crate) fn owner_of_outside(tenant: TenantId, id: &str) -> Key {
    let [owner, _] = *sha256(id.as_bytes()).as_chunks::<16>().0 else { unreachable!("a hash has 32 bytes") };
    RunId::from_bytes(owner).of(tenant)
}

impl Place {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Outside => b"outside".to_vec(),
            Self::Event(sequence) => [b"event".as_slice(), &sequence.to_be_bytes()].concat(),
            Self::Snapshot(folded) => [b"snapshot".as_slice(), &folded.to_be_bytes()].concat(),
            Self::Message { sequence, receiver, kind } => {
                [b"message".as_slice(), &[*kind], &sequence.to_be_bytes(), receiver.as_bytes()].concat()
            }
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outside => f.write_str("the payload of an external event"),
            Self::Event(sequence) => write!(f, "event {sequence}"),
            Self::Snapshot(folded) => write!(f, "the snapshot of {folded} events"),
            Self::Message { sequence, receiver, .. } => write!(f, "message {sequence} to {receiver}"),
        }
    }
}
