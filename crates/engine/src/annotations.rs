//! What people say about runs: kept beside their journals, and never part of them.
//!
//! Nothing here takes a run's lock, makes an event or wakes anybody: an annotation can't change what it is about.

use abide_core::{Annotation, EventId, Json, Key, Millis, Rejection, Target, limits};
use abide_store::{Annotated as Kept, NewAnnotation, Note, Receipt};

use crate::clock::new_id;
use crate::{Engine, Error};

/// An annotation with who made it, and when.
#[derive(Clone, Debug, PartialEq)]
pub struct Annotated {
    /// Its place among the run's notes, once it has one.
    pub sequence: Option<u64>,
    /// What it says, and about what.
    pub annotation: Annotation,
    /// When it was made.
    pub at: Millis,
    /// Who made it.
    pub by: Option<String>,
}

impl Engine {
    /// Keeps an annotation of a run, durably, whether the run has ended or not. What looks like a secret in it is
    /// taken out first. The answer is what `answer` makes of it; it is kept with it under `receipt`, if the request
    /// may be repeated.
    pub async fn annotate(
        &self,
        key: Key,
        said: Annotation,
        by: Option<String>,
        receipt: Option<Receipt>,
        answer: impl FnOnce(Annotated) -> Vec<u8>,
    ) -> Result<Vec<u8>, Error> {
        self.check_open()?;
        self.check_target(key, &said.target).await?;
        let annotation = Annotation {
            id: format!("ann-{}", new_id(&*self.shell.store, &*self.shell.clock).simple()),
            ..said
        }
        .admit()?;
        let (at, body) = (self.clock().now(), Json::of(&annotation));
        let answer = answer(Annotated { sequence: None, annotation, at, by: by.clone() });
        let receipt = receipt.map(|blank| Receipt { body: answer.clone(), at, ..blank });
        let new = NewAnnotation { key, at, by, body, most: limits::ANNOTATIONS_MAX, receipt };
        match self.store().annotate(new).await? {
            Kept::NotFound => Err(Error::RunNotFound(key.id)),
            Kept::Erased => Err(Error::Erased(key.id)),
            Kept::Full => Err(Error::AnnotationsFull(key.id)),
            Kept::Receipted => Err(abide_store::Error::Receipted.into()),
            Kept::Done { .. } => Ok(answer),
        }
    }

    /// A run's annotations behind a place, oldest first, at most `limit`, and how many there are in all.
    pub async fn annotations(
        &self,
        key: Key,
        after: Option<u64>,
        limit: usize,
    ) -> Result<(Vec<Annotated>, u64), Error> {
        self.head(key).await?;
        let found = self.store().annotations(key, after, limit).await?;
        let read = found.page.into_iter().map(|note| read(key, note)).collect::<Result<_, _>>()?;
        Ok((read, found.total))
    }

    /// What an annotation is about has to be there.
    async fn check_target(&self, key: Key, target: &Target) -> Result<(), Error> {
        let head = self.head(key).await?;
        if let Some(id) = &target.event_id {
            let known = |event: &EventId| event.run == key.id && event.sequence < head.next;
            if !id.parse::<EventId>().is_ok_and(|event| known(&event)) {
                let message =
                    format!("{} has no event with this id; look it up with the run's events", key.id);
                return Err(invalid("target.eventId", message));
            }
        }
        if let Some(id) = &target.node_id {
            let graph = self.shell.graphs.pinned(&**self.store(), key, head.summary.definition).await?;
            if graph.node(id).is_none() {
                let message = format!("the definition of {} has no node with this id; check it", key.id);
                return Err(invalid("target.nodeId", message));
            }
        }
        Ok(())
    }
}

fn invalid(field: &str, message: String) -> Error {
    Rejection::Invalid { field: field.to_owned(), message }.into()
}

fn read(key: Key, note: Note) -> Result<Annotated, Error> {
    let unreadable = |error| {
        let reason = format!("note {} of {} can't be read: {error}", note.sequence, key.id);
        abide_store::Error::Failed(reason)
    };
    let annotation = note.body.parse().map_err(unreadable)?;
    Ok(Annotated { sequence: Some(note.sequence), annotation, at: note.at, by: note.by })
}
