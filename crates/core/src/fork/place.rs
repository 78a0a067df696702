//! Which events of two journals stand for the same thing: the same happened, to the same execution of the same node, as
//! often before.

use std::collections::HashMap;
use std::sync::Arc;

use crate::event::{Event, NodeEvent};

/// What an event stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) type_code: u16,
    pub(crate) node: Option<Arc<str>>,
    pub(crate) execution: u32,
    pub(crate) nth: u32,
}

/// Where a journal is, as far as places go.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    executions: HashMap<Arc<str>, u32>,
    counts: HashMap<(u16, Option<Arc<str>>, u32), u32>,
}

impl Places {
    /// The place of the next event.
    pub(crate) fn next(&mut self, event: &Event) -> Place {
        let (type_code, node) = (event.event_type().code, event.node().cloned());
        if let Event::Node { node, event: NodeEvent::Started(started) } = event {
            self.executions.insert(node.clone(), started.execution);
        }
        let execution = node.as_ref().and_then(|node| self.executions.get(node)).copied().unwrap_or(0);
        let count = self.counts.entry((type_code, node.clone(), execution)).or_default();
        *count += 1;
        Place { type_code, node, execution, nth: *count }
    }
}
