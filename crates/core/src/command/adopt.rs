//! Adopt: somebody has a run start another one below a node that is done by hand.
//!
//! The parent knows of the child before there is one, so it can't complete in between.

use crate::command::Draft;
use crate::effect::{Effect, Spawn};
use crate::event::{ChildAdded, DependsOn, Parent, RunEvent};
use crate::fold::Folding;
use crate::{JsonMap, Rejection, Run, RunId, limits};

/// A child that somebody has a run start.
#[derive(Clone, Debug, PartialEq)]
pub struct NewChild {
    /// The child's id.
    pub child: RunId,
    /// The workflow it runs. Whoever asks has made sure that it takes these inputs.
    pub workflow_id: String,
    /// What goes in.
    pub inputs: JsonMap,
    /// Which of the inputs are never shown.
    pub sensitive: Vec<String>,
    /// The runs that it waits for. Whoever asks has made sure that this closes no circle.
    pub depends_on: Vec<DependsOn>,
    /// It begins only when somebody says so.
    pub draft: bool,
    /// Who says so.
    pub by: Option<String>,
}

pub(super) fn decide(run: &mut Run, draft: &mut Draft, new: NewChild) -> Result<(), Rejection> {
    run.check_running()?;
    if run.state.ending.is_some() {
        return Err(Rejection::Ending);
    }
    if run.group().is_some() {
        return Err(Rejection::invalid("runId", "a group has members, and no children; add one instead"));
    }
    let ix = run.hand_node(None)?;
    if run.node(ix).phase.is_settled() {
        return Err(Rejection::NotClaimed);
    }
    run.check_depth(ix).map_err(|failure| Rejection::invalid("runId", failure.message))?;
    if run.node(ix).unfinished >= limits::CHILDREN_ADDED_MAX {
        let message = format!(
            "{} children of the run have not completed, and more are not taken",
            limits::CHILDREN_ADDED_MAX
        );
        return Err(Rejection::invalid("runId", message));
    }
    let NewChild { child, workflow_id, inputs, sensitive, depends_on, draft: is_draft, by } = new;
    let node = run.graph.at(ix).id.to_string();
    let added = ChildAdded { child, node, workflow_id, inputs, sensitive, depends_on, draft: is_draft, by };
    draft.emit_run(run, RunEvent::ChildAdded(Box::new(added)), None);
    Ok(())
}

impl Run {
    /// A fork has no part in the children of the run that it was forked off: they stay with that.
    pub(crate) fn fold_child_added(
        &mut self,
        added: &ChildAdded,
        folding: &mut Folding<'_>,
    ) -> Result<(), String> {
        if self.is_of_other(folding.sequence) {
            return Ok(());
        }
        let ix = self.graph.node(&added.node).ok_or("a child is below a node that is not there")?;
        self.state.nodes[ix as usize].unfinished += 1;
        self.state.planning.learn_child(added.child);
        self.state.cascades = true;
        let parent = Parent {
            run: self.key.id,
            node: added.node.clone(),
            execution: None,
            root: Some(self.root()),
            depth: Some(self.depth() + 1),
            harvest: Vec::new(),
            // Nothing waits for it before somebody says that the node is through.
            clocked: false,
            starters: self.starters(),
            mirrors: true,
        };
        folding.effects.push(Effect::Spawn(Spawn {
            child: added.child,
            workflow_id: added.workflow_id.clone(),
            definition: None,
            inputs: added.inputs.clone(),
            sensitive: added.sensitive.clone(),
            unset: Vec::new(),
            parent,
            cascade: true,
            trace: self.state.trace.clone(),
            by: added.by.clone(),
            depends_on: added.depends_on.clone(),
            draft: added.draft,
        }));
        Ok(())
    }
}
