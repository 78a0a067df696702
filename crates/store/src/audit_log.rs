//! What was decided and done about runs and can stand in none of their journals.
//!
//! A journal ends with its run, and one that does not verify must not be touched. So refusals to resume such a run, the
//! cutting of a damaged journal and the purging of a run are recorded here. There is one chain for each tenant: it does
//! not break when a run is purged, and stays sound when a run is damaged.

use abide_core::{Hash, Json, Key, Millis, RunId, TenantId, sha256};

use crate::store::Answer;

/// What is to be recorded about a run.
#[derive(Clone, Debug, PartialEq)]
pub struct NewAudit {
    /// Which run. It need not be there (any more).
    pub key: Key,
    /// When.
    pub at: Millis,
    /// What kind of record.
    pub kind: String,
    /// Who, why and what. Nothing of what the run read or wrote: it outlives an erasure.
    pub body: Json,
}

/// A record of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditRecord {
    /// Its place in the tenant's log, from 0.
    pub sequence: u64,
    /// When.
    pub at: Millis,
    /// Which run it is about.
    pub run: RunId,
    /// What kind of record.
    pub kind: String,
    /// What it says, byte for byte: JSON.
    pub body: Vec<u8>,
    /// The hash that binds it to everything before.
    pub chain: Hash,
}

/// The end of a tenant's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditHead {
    /// Whose.
    pub tenant: TenantId,
    /// The place of the next record.
    pub next: u64,
    /// The chain so far.
    pub chain: Hash,
}

/// Where records about runs are kept, apart from their journals.
pub trait AuditLog {
    /// Durably adds a record, behind all others of its tenant. Gives its place.
    fn append(&self, new: NewAudit) -> Answer<'_, u64>;

    /// The records about a run, newest first, at most `limit`. One that can't be read is left out and logged.
    fn about(&self, key: Key, limit: usize) -> Answer<'_, Vec<AuditRecord>>;

    /// The records of a tenant from a place on, in order, at most `limit`. One that can't be read is given as the
    /// reason why, with its place.
    fn page(&self, tenant: TenantId, from: u64, limit: usize) -> Answer<'_, Vec<AuditRow>>;

    /// The ends of all logs, as they are kept, and the beginning of those whose end is not kept.
    fn heads(&self) -> Answer<'_, Vec<AuditHead>>;
}

/// A record as it lies on disk, or its place and why it can't be read.
pub type AuditRow = Result<AuditRecord, (u64, String)>;

impl AuditRecord {
    /// What it says, if that is JSON still.
    pub fn body(&self) -> Option<Json> {
        serde_json::from_slice(&self.body).ok()
    }
}

impl AuditHead {
    /// The end of an empty log.
    pub fn new(tenant: TenantId) -> Self {
        let text = [b"abide audit 1".as_slice(), &tenant.0.to_be_bytes()].concat();
        Self { tenant, next: 0, chain: sha256(&text) }
    }

    /// Gives a record its place and moves the end behind it.
    pub(crate) fn seal(&mut self, new: &NewAudit) -> AuditRecord {
        let mut record = AuditRecord {
            sequence: self.next,
            at: new.at,
            run: new.key.id,
            kind: new.kind.clone(),
            body: new.body.text().as_bytes().to_vec(),
            chain: [0; 32],
        };
        record.chain = self.link(&record);
        (self.next, self.chain) = (self.next + 1, record.chain);
        record
    }

    /// Checks that a record is the next one and moves the end behind it. The reason names the record that is wrong.
    pub fn accept(&mut self, record: &AuditRecord) -> Result<(), String> {
        if record.sequence != self.next {
            return Err(format!("audit record {} is missing", self.next));
        }
        if self.link(record) != record.chain {
            return Err(format!(
                "audit record {} ({} about {}) does not fit the hash chain: it was changed or moved",
                record.sequence, record.kind, record.run
            ));
        }
        (self.next, self.chain) = (self.next + 1, record.chain);
        Ok(())
    }

    fn link(&self, record: &AuditRecord) -> Hash {
        let mut text = self.chain.to_vec();
        text.extend(record.sequence.to_be_bytes());
        text.extend(record.at.to_be_bytes());
        text.extend(record.run.as_bytes());
        text.extend((record.kind.len() as u64).to_be_bytes());
        text.extend(record.kind.as_bytes());
        text.extend(&record.body);
        sha256(&text)
    }
}
