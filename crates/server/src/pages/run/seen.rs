//! How a run stands, as plain data: two looks at the same run are equal as long as nothing has changed.

use abide_core::{Hold as CoreHold, InterruptId, Key, Millis, NodePhase, Reason, Run, RunId, Status, Why};
use abide_engine::{Error as EngineError, Hands};

use super::super::{source, words};
use super::notice::{self, Notice};
use crate::app::App;
use crate::error::{ApiError, Result};
use crate::limits;
use crate::openwop::mirror;
use crate::time::rfc3339;
use crate::workers_api::of_run;

/// Everything on the page of a run but what happened to it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) head: Head,
    pub(super) notices: Vec<Notice>,
    pub(super) questions: Vec<Question>,
    pub(super) nodes: Nodes,
}

/// How it stands as a whole.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Head {
    pub(super) workflow: String,
    pub(super) stands: Status,
    pub(super) started_at: Millis,
    pub(super) ended_at: Option<Millis>,
    /// What it waits for, or how it ended, in a sentence.
    pub(super) summary: String,
    /// How somebody holds it.
    pub(super) hold: Option<Hold>,
    pub(super) parent: Option<RunId>,
}

/// What keeps a run's nodes from starting until somebody releases it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) is_stopped: bool,
    /// Who and why, and since when.
    pub(super) text: String,
}

impl Hold {
    fn of(run: &Run) -> Option<Self> {
        let is_stopped = match run.hold() {
            CoreHold::Paused => false,
            CoreHold::Stopped => true,
            CoreHold::None | CoreHold::Pausing | CoreHold::Escalated => return None,
        };
        Some(Self { is_stopped, text: source::hold(run)? })
    }
}

impl Head {
    /// How it stands, in words.
    pub(super) fn status(&self) -> &'static str {
        match self.stands {
            Status::Pending => "not started",
            Status::Running => "running",
            Status::Paused => "paused",
            Status::Cancelling => "about to be cancelled",
            Status::Completed => "completed",
            Status::Failed => "failed",
            Status::Cancelled => "cancelled",
            Status::WaitingApproval => "waits for a decision",
            Status::WaitingInput => "waits for an answer",
            Status::WaitingExternal => "waits for something elsewhere",
            Status::Blocked => "waits for other runs",
            Status::Draft => "a draft",
        }
    }

    /// The class of the badge.
    pub(super) fn tone(&self) -> &'static str {
        match self.stands {
            Status::Completed => "good",
            Status::Failed | Status::Cancelled => "bad",
            Status::Running | Status::Pending => "plain",
            _ => "warn",
        }
    }

    pub(super) fn started(&self) -> (String, String) {
        (rfc3339(self.started_at), words::moment(self.started_at))
    }

    pub(super) fn ended(&self) -> Option<(String, String)> {
        let at = self.ended_at?;
        let took = words::span(at.saturating_sub(self.started_at));
        Some((rfc3339(at), format!("{} after {took}", words::moment(at))))
    }
}

/// A question of the run that nobody has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) id: InterruptId,
    pub(super) node: String,
    pub(super) kind: &'static str,
    /// What it asks, unless that is for some alone.
    pub(super) title: Option<String>,
}

/// The nodes, in the order of the definition: all of them, or first those that matter now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Nodes {
    pub(super) first: Vec<Node>,
    /// Those that have ended or have not begun, of a workflow with many.
    pub(super) others: Vec<Node>,
    /// How many are not shown at all.
    pub(super) left_out: usize,
}

/// Where a node stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) id: String,
    pub(super) kind: String,
    pub(super) phase: NodePhase,
    /// How many attempts have failed, and which execution it is, if either is worth telling.
    pub(super) attempts: u32,
    pub(super) execution: u32,
    pub(super) child: Option<RunId>,
    /// What it waits for, and what comes then.
    pub(super) waits: Vec<Wait>,
    pub(super) error: Option<String>,
}

/// One thing that a node waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) text: String,
    pub(super) until: Option<Millis>,
}

impl Wait {
    fn of(reason: &Reason) -> Self {
        Self { text: format!("{}; {}", reason.what, reason.next), until: reason.until }
    }

    pub(super) fn until(&self) -> Option<(String, String)> {
        self.until.map(|at| (rfc3339(at), words::moment_exact(at)))
    }
}

impl Node {
    pub(super) fn phase(&self) -> &'static str {
        match self.phase {
            NodePhase::Pending => "not started",
            known => known.name(),
        }
    }

    pub(super) fn tone(&self) -> &'static str {
        match self.phase {
            NodePhase::Completed => "good",
            NodePhase::Failed => "bad",
            NodePhase::Waiting | NodePhase::Suspended => "warn",
            NodePhase::Running => "busy",
            NodePhase::Pending | NodePhase::Cancelled | NodePhase::Skipped => "plain",
        }
    }

    fn matters_now(&self) -> bool {
        matches!(
            self.phase,
            NodePhase::Running | NodePhase::Waiting | NodePhase::Suspended | NodePhase::Failed
        )
    }
}

impl Nodes {
    fn of(run: &Run, why: &Why) -> Self {
        let all = run.nodes().iter().enumerate().map(|(ix, node)| {
            let (id, kind, _) = run.graph().describe(ix as u32);
            let own = |reason: &&Reason| reason.node.as_deref() == Some(id);
            let waits: Vec<_> = why.reasons.iter().filter(own).map(Wait::of).collect();
            let error = node.error.as_ref().filter(|_| waits.is_empty());
            Node {
                id: id.to_string(),
                kind: kind.to_string(),
                phase: node.phase,
                attempts: node.attempt,
                execution: node.execution,
                child: node.child,
                waits,
                error: error.map(|error| format!("{} [{}]", error.message, error.code)),
            }
        });
        if run.nodes().len() <= limits::RUN_NODES_PLAIN_MAX {
            return Self { first: all.collect(), ..Self::default() };
        }
        let (mut first, mut others): (Vec<_>, Vec<_>) = all.partition(Node::matters_now);
        let count = first.len() + others.len();
        first.truncate(limits::RUN_NODES_MAX);
        others.truncate(limits::RUN_NODES_MAX - first.len());
        let left_out = count - first.len() - others.len();
        Self { first, others, left_out }
    }
}

impl Seen {
    /// A run as it stands now.
    pub(super) async fn of(app: &App, key: Key) -> Result<Self> {
        let hands = app.engine().hands(key).await?;
        let look = |run: &Run| Self::look(&hands, run);
        match app.engine().read(key, look).await {
            Ok(mut seen) => {
                if let Some(shown) = mirror::of(app, key, seen.has_children()).await? {
                    seen.head.stands = shown;
                }
                Ok(seen)
            }
            Err(EngineError::Erased(_)) => Self::erased(app, key).await,
            Err(EngineError::RunNotFound(_)) => Err(super::nothing()),
            Err(other) => Err(other.into()),
        }
    }

    fn look(hands: &Hands, run: &Run) -> Self {
        let why = of_run::explain(hands, run, run.why());
        let head = Head {
            workflow: run.graph().workflow_id.to_string(),
            stands: run.status(),
            started_at: run.started_at(),
            ended_at: run.ended_at(),
            summary: sentence(&why.summary),
            hold: Hold::of(run),
            parent: run.parent().map(|parent| parent.run),
        };
        let asked = |open: &abide_core::Open| {
            let asked = source::asked(run.key(), run.interrupted_node(open), &open.requested, open.at);
            let title = (!asked.is_sensitive).then(|| asked.title());
            Question {
                id: open.requested.interrupt_id,
                node: asked.node,
                kind: words::kind(asked.kind),
                title,
            }
        };
        let questions = run.interrupts().take(limits::INBOX_PAGE_MAX).map(asked).collect();
        Self { head, notices: notice::of(run), questions, nodes: Nodes::of(run, &why) }
    }

    /// What is left of a run whose payloads are gone.
    async fn erased(app: &App, key: Key) -> Result<Self> {
        let listed = app.engine().head(key).await.map_err(ApiError::from)?;
        let head = Head {
            workflow: listed.summary.workflow_id.to_string(),
            stands: listed.summary.status,
            started_at: listed.summary.started_at,
            ended_at: Some(listed.at),
            summary: "What was recorded of it was erased.".to_owned(),
            hold: None,
            parent: None,
        };
        Ok(Self { head, notices: Vec::new(), questions: Vec::new(), nodes: Nodes::default() })
    }

    fn has_children(&self) -> bool {
        self.nodes.first.iter().any(|node| node.child.is_some())
    }

    /// Whether nothing more happens to it.
    pub(super) fn is_over(&self) -> bool {
        self.head.stands.is_terminal()
    }
}

/// What the core says without an end, as a sentence.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}
