//! What runs made: their nodes' outputs, under names of their own.
//!
//! The content stands in the journal once, in the completion of the node that made it, and is read from there.

use abide_core::event::ArtifactCreated;
use abide_core::{Event, EventType, Json, Key, Mask, Millis, NodeEvent, Record};

use crate::{Engine, Error, limits};

/// Something that a run made.
#[derive(Clone, Debug, PartialEq)]
pub struct Artifact {
    /// What it is called, what it is, and which node made it.
    pub created: ArtifactCreated,
    /// When it was made.
    pub at: Millis,
    /// Where its event stands in the journal.
    pub sequence: u64,
}

/// What an artifact holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Content {
    /// The outputs of its node.
    pub outputs: Json,
    /// Which of them are never shown.
    pub masked: Mask,
}

impl Engine {
    /// A run's artifacts from an event on, oldest first, at most `limit`.
    pub async fn artifacts(&self, key: Key, from: u64, limit: usize) -> Result<Vec<Artifact>, Error> {
        if self.head(key).await?.erased {
            return Err(Error::Erased(key.id));
        }
        let created = EventType::by_name("artifact.created").expect("it stands in the table of events");
        let records = self.store().events_of_type(key, created.code, from, limit).await?;
        records.iter().map(|record| artifact(key, record)).collect()
    }

    /// A run's events of one type from an event on, oldest first, at most `limit`.
    pub async fn events_of_type(
        &self,
        key: Key,
        kind: EventType,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Record>, Error> {
        if self.head(key).await?.erased {
            return Err(Error::Erased(key.id));
        }
        Ok(self.store().events_of_type(key, kind.code, from, limit).await?)
    }

    /// One artifact of a run with what it holds, if there is one of this name.
    pub async fn artifact(&self, key: Key, id: &str) -> Result<Option<(Artifact, Content)>, Error> {
        let mut from = 0;
        loop {
            let page = self.artifacts(key, from, limits::ARTIFACTS_PAGE_MAX).await?;
            let Some(last) = page.last() else { return Ok(None) };
            from = last.sequence + 1;
            if let Some(found) = page.into_iter().find(|artifact| artifact.created.artifact_id == id) {
                let content = self.content(key, &found).await?;
                return Ok(Some((found, content)));
            }
        }
    }

    /// The completion that the artifact's event follows.
    async fn content(&self, key: Key, artifact: &Artifact) -> Result<Content, Error> {
        let before = artifact.sequence.saturating_sub(1);
        let records = self.events(key, before, 1).await?;
        let completed = records.first().ok_or_else(|| misplaced(key, artifact.sequence))?;
        match event(key, completed)? {
            Event::Node { event: NodeEvent::Completed(done), .. } => {
                let outputs = done.outputs.ok_or_else(|| misplaced(key, artifact.sequence))?;
                Ok(Content { outputs, masked: done.masked })
            }
            _ => Err(misplaced(key, artifact.sequence)),
        }
    }
}

fn artifact(key: Key, record: &Record) -> Result<Artifact, Error> {
    match event(key, record)? {
        Event::Node { event: NodeEvent::ArtifactCreated(created), .. } => {
            Ok(Artifact { created, at: record.at, sequence: record.sequence })
        }
        _ => Err(misplaced(key, record.sequence)),
    }
}

fn event(key: Key, record: &Record) -> Result<Event, Error> {
    let damaged = |reason| damaged(key, record.sequence, reason);
    // An erasure may have come between two reads.
    match &record.payload {
        abide_core::Payload::Erased(_) => Err(Error::Erased(key.id)),
        abide_core::Payload::Present(_) => record.event().map_err(damaged),
    }
}

fn misplaced(key: Key, sequence: u64) -> Error {
    damaged(key, sequence, "an artifact does not follow the completion of the node that made it".to_owned())
}

fn damaged(key: Key, sequence: u64, reason: String) -> Error {
    Error::Damaged { run: key.id, corrupt: abide_core::Corrupt { sequence, reason } }
}
