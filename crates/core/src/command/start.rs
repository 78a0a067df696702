//! Start: a run comes into being and goes as far as it can.

use std::sync::Arc;

use crate::command::{Step, Turn};
use crate::event::{Parent, RunEvent, Started};
use crate::journal::Salt;
use crate::{Graph, Json, JsonMap, Key, Millis, Rejection, Run, limits, ports};

/// What a new run is made of.
#[derive(Clone, Debug)]
pub struct Start {
    /// The run's key; its id is drawn by the shell.
    pub key: Key,
    /// The run's secret, drawn by the shell.
    pub salt: Salt,
    /// The definition it will follow for life.
    pub graph: Arc<Graph>,
    /// What the caller passes in.
    pub inputs: JsonMap,
    /// The caller's labels.
    pub tags: Vec<String>,
    /// The caller's own data, an object.
    pub metadata: Option<Json>,
    /// The run and node it stands for, if it is a child.
    pub parent: Option<Parent>,
    /// Who starts it.
    pub by: Option<String>,
}

impl Run {
    /// Starts a run, or says what is wrong with the request.
    pub fn start(start: Start, now: Millis) -> Result<(Self, Step), Rejection> {
        check(&start)?;
        let mut run = Self::empty(start.key, start.salt, start.graph.clone());
        let mut turn = Turn::new(run.head, now);
        let started = Started {
            workflow_id: start.graph.workflow_id.to_string(),
            definition: start.graph.hash_hex(),
            inputs: start.inputs,
            tags: start.tags,
            metadata: start.metadata,
            parent: start.parent,
            by: start.by,
        };
        turn.emit_run(&mut run, RunEvent::Started(started), None);
        run.advance(&mut turn);
        Ok((run, turn.step))
    }
}

fn check(start: &Start) -> Result<(), Rejection> {
    start.graph.check_capabilities()?;
    ports::check_inputs(&start.graph, &start.inputs)?;
    if start.tags.len() > limits::TAGS_MAX
        || start.tags.iter().any(|tag| tag.chars().count() > limits::TAG_CHARS_MAX)
    {
        let message =
            format!("'tags' takes at most {} tags of {} characters", limits::TAGS_MAX, limits::TAG_CHARS_MAX);
        return Err(Rejection::invalid("tags", message));
    }
    if start.metadata.as_ref().is_some_and(|metadata| metadata.type_name() != "object") {
        return Err(Rejection::invalid("metadata", "'metadata' must be an object"));
    }
    Ok(())
}
