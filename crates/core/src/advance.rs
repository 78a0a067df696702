//! How a run goes on by itself: it starts what is ready, and ends when nothing is left.
//!
//! A stretch of pure nodes runs inside one decision and so costs one commit.

use crate::command::Turn;
use crate::event::{
    Cancellation, Completed, Event, Failed, Failure, NodeCancelled, NodeCompleted, NodeEvent, NodeFailed,
    NodeStarted, RunEvent, Yielded,
};
use crate::run::Ending;
use crate::{Hold, Json, JsonMap, Kind, Millis, NodeIx, NodePhase, Run, TaskId, limits, ports};

/// How a node goes on once it has started.
enum Course {
    /// It is done within the decision.
    Done(Result<Option<Json>, Failure>),
    /// It waits for a time.
    Wait(Millis),
    /// It is handed to an executor.
    Dispatch,
}

impl Run {
    /// Starts every ready node that may start, and ends the run if that is due.
    pub(crate) fn advance(&mut self, turn: &mut Turn) {
        let mut budget = limits::STRETCH_NODES_MAX;
        while self.state.ending.is_none() && self.state.hold == Hold::None {
            let Some(&(ix, cause)) = self.state.ready.front() else {
                break;
            };
            if budget == 0 || turn.bytes > limits::STRETCH_BYTES_MAX {
                return turn.emit_run(self, RunEvent::Yielded(Yielded {}), None);
            }
            budget -= 1;
            self.execute(turn, ix, cause);
        }
        let ending = self.state.ending.clone();
        self.conclude(turn, ending);
    }

    fn execute(&mut self, turn: &mut Turn, ix: NodeIx, cause: u64) {
        let course = self.course(ix, turn.now);
        let node = self.graph.at(ix);
        let (id, type_id) = (node.id.clone(), node.type_id.clone());
        let until = match course {
            Course::Wait(until) => Some(until),
            _ => None,
        };
        let dispatched = matches!(course, Course::Dispatch);
        let started = NodeStarted { type_id, execution: self.node(ix).execution + 1, until, dispatched };
        turn.emit(self, &Event::Node { node: id.clone(), event: NodeEvent::Started(started) }, Some(cause));
        let event = match course {
            Course::Done(Ok(outputs)) => NodeEvent::Completed(NodeCompleted { outputs }),
            Course::Done(Err(error)) => NodeEvent::Failed(NodeFailed { error }),
            Course::Wait(_) | Course::Dispatch => return,
        };
        let cause = turn.last_sequence();
        turn.emit(self, &Event::Node { node: id, event }, cause);
    }

    fn course(&self, ix: NodeIx, now: Millis) -> Course {
        let node = self.graph.at(ix);
        let inputs = match ports::resolve(self, node) {
            Ok(inputs) => inputs,
            Err(failure) => return Course::Done(Err(failure)),
        };
        match node.kind {
            Kind::Delay => match ports::delay_ms(node, &inputs) {
                Ok(ms) => Course::Wait(now.saturating_add(ms)),
                Err(failure) => Course::Done(Err(failure)),
            },
            Kind::Unknown => Course::Done(Err(unknown_kind(&node.id, &node.type_id))),
            _ if self.is_dispatched(ix) => Course::Dispatch,
            _ => Course::Done(self.perform(ix, &inputs)),
        }
    }

    /// What a pure node makes of its inputs.
    fn perform(&self, ix: NodeIx, inputs: &JsonMap) -> Result<Option<Json>, Failure> {
        let node = self.graph.at(ix);
        match node.kind {
            Kind::Identity => Ok(Some(Json::of(inputs))),
            Kind::Fail => {
                let message = node.config.get("message").and_then(|value| value.parse::<String>().ok());
                let message = message.unwrap_or_else(|| format!("node '{}' is of kind core.fail", node.id));
                Err(Failure::new("node_execution_failed", message))
            }
            _ => Ok(None),
        }
    }

    /// Executes a dispatched task: its inputs are resolved from the run, as they were when it started.
    ///
    /// Pure, so an executor that died may run it again.
    pub fn perform_task(&self, task: &TaskId) -> Option<Result<Option<Json>, Failure>> {
        let ix = self.graph.node(&task.node)?;
        let node = self.node(ix);
        if node.phase != NodePhase::Running || node.execution != task.execution {
            return None;
        }
        Some(ports::resolve(self, self.graph.at(ix)).and_then(|inputs| self.perform(ix, &inputs)))
    }

    /// Ends the run if nothing is left to do, or if it must end and no outcome is unknown.
    pub(crate) fn conclude(&mut self, turn: &mut Turn, ending: Option<Ending>) {
        if ending.is_some() {
            self.cancel_waiting(turn);
        }
        if self.state.in_flight > 0 {
            return;
        }
        let terminal = match ending {
            Some(Ending::Failed { node, error }) => {
                RunEvent::Failed(Failed { error, failed_node_id: Some(node) })
            }
            Some(Ending::Cancelled { reason, by }) => {
                RunEvent::Cancelled(Cancellation { reason, cancelled_by: by })
            }
            None if self.state.unsettled == 0 => {
                RunEvent::Completed(Completed { duration_ms: turn.now - self.state.started_at })
            }
            None => return,
        };
        let cause = turn.last_sequence();
        turn.emit_run(self, terminal, cause);
    }

    /// A run that ends takes its waiting nodes along; nodes that never started are left as they are.
    fn cancel_waiting(&mut self, turn: &mut Turn) {
        let waiting =
            self.state.nodes.iter().enumerate().filter(|(_, node)| node.phase == NodePhase::Waiting);
        let ids: Vec<_> = waiting.map(|(ix, _)| self.graph.nodes[ix].id.clone()).collect();
        for node in ids {
            turn.emit(self, &Event::Node { node, event: NodeEvent::Cancelled(NodeCancelled {}) }, None);
        }
    }
}

fn unknown_kind(node: &str, type_id: &str) -> Failure {
    let message =
        format!("node '{node}' is of kind {type_id}, which nothing here provides; check the spelling");
    Failure::new("capability_not_provided", message)
}
