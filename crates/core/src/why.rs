//! Why a run is not finished: what it waits for, since when, and what happens next.

use crate::effect::TimerId;
use crate::graph::Work;
use crate::node::{Node, NodePhase};
use crate::turn::TurnState;
use crate::{Hold, InterruptId, Lifecycle, Millis, Next, NodeIx, Run, RunId, Upstream, Waiting, limits};

/// Why a run is not finished, or how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    /// The journal has ended.
    pub finished: bool,
    /// One sentence.
    pub summary: String,
    /// Everything that it waits for.
    pub reasons: Vec<Reason>,
}

/// One thing that a run waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// Stable, for programs: `executing`, `delay`, `retry`, `child`, `hold`, `pausing`, `cancelling`, `ending`,
    /// `stretch`, `timeout`, `approval`, `input`, `event`, `ladder`, `worker`, `interrupted`, `replay`, `dependency`,
    /// `draft`, `deadline`, `hand`, `group`, `coordinator`, `plan` or `task`.
    pub kind: &'static str,
    /// The node that waits.
    pub node: Option<String>,
    /// Since when.
    pub since: Option<Millis>,
    /// Until when, if a clock decides.
    pub until: Option<Millis>,
    /// What it is, in a sentence without an end.
    pub what: String,
    /// What happens next, in a sentence without an end.
    pub next: String,
    /// The run that is waited for.
    pub child: Option<RunId>,
}

impl Reason {
    pub(crate) fn of(kind: &'static str, what: String, next: &str) -> Self {
        Self { kind, node: None, since: None, until: None, what, next: next.to_owned(), child: None }
    }
}

impl Run {
    /// Why it is not finished.
    pub fn why(&self) -> Why {
        let finished = self.lifecycle().is_terminal();
        if finished {
            return Why { finished, summary: self.end_told(), reasons: Vec::new() };
        }
        let mut reasons = Vec::new();
        reasons.extend(self.replayed());
        reasons.extend(self.held());
        reasons.extend(self.kept_back());
        let nodes = self.nodes().iter().enumerate();
        reasons.extend(nodes.filter_map(|(ix, node)| self.node_waits(ix as NodeIx, node)));
        reasons.extend(self.worked());
        reasons.extend(self.asked());
        reasons.extend(self.clocks());
        reasons.extend(self.planning_waits());
        let pending = self.nodes().iter().filter(|node| node.phase == NodePhase::Pending).count();
        let summary = summary(self, &reasons, pending);
        Why { finished, summary, reasons }
    }

    /// A replay goes no further than what it replays.
    fn replayed(&self) -> Option<Reason> {
        let source = self.forked().filter(|_| self.is_replay())?.run;
        let what = format!("it replays {source}, which had not come further when it was forked");
        Some(Reason::of("replay", what, "nothing happens to it; it can be cancelled"))
    }

    fn end_told(&self) -> String {
        match (self.lifecycle(), self.error()) {
            (Lifecycle::Failed, Some(error)) => format!("it failed: {} [{}]", error.message, error.code),
            (Lifecycle::Cancelled, _) => "it was cancelled".to_owned(),
            _ => "it completed".to_owned(),
        }
    }

    fn held(&self) -> Option<Reason> {
        if self.lifecycle() == Lifecycle::Cancelling {
            let next = "it is cancelled once they are reported";
            let what = "it was asked to stop, and work is under way whose outcome is unknown";
            return Some(Reason::of("cancelling", what.to_owned(), next));
        }
        if self.state.ending.is_some() {
            let next = "it fails once they are reported";
            let what = "it is going to fail, and work is under way whose outcome is unknown";
            return Some(Reason::of("ending", what.to_owned(), next));
        }
        let since = self.paused_at();
        let (kind, what, next) = match self.hold() {
            Hold::None => return None,
            Hold::Pausing => (
                "pausing",
                "it was asked to pause, and work is under way whose outcome is unknown",
                "it is paused once they are reported",
            ),
            Hold::Paused => ("hold", "it is paused", "nothing starts until somebody resumes or releases it"),
            Hold::Stopped => (
                "hold",
                "it is stopped",
                "nothing starts, nobody is reminded and no question runs out until somebody releases it",
            ),
            Hold::Escalated => (
                "hold",
                "it was interrupted and may not be resumed by itself",
                "nothing starts until a person decides: see `abide resume status`",
            ),
        };
        let what = format!("{what}{}", self.holder_told());
        Some(Reason { since, ..Reason::of(kind, what, next) })
    }

    /// The runs that it waits for, and a draft for whoever activates it.
    fn kept_back(&self) -> Vec<Reason> {
        if self.is_draft() {
            let what = "it is a draft".to_owned();
            return vec![Reason::of("draft", what, "nothing starts until somebody activates it")];
        }
        let Some(since) = self.blocked_since() else { return Vec::new() };
        let ordered = self.kept_by().take(limits::BLOCKED_BY_MAX).map(|run| {
            let what = format!("whoever coordinates {run} holds it back (coordinator_blocked)");
            let next = "it goes on once what it comes after has been answered and has completed";
            Reason { since: Some(since), ..Reason::of("coordinator", what, next) }
        });
        let reason = |(run, upstream): (RunId, &Upstream)| {
            let (what, next) = match upstream {
                failed if failed.has_failed() => (
                    format!(
                        "it waits for {run}, which has ended and will never complete (on_dependency_failed)"
                    ),
                    "nothing starts until somebody takes that dependency away, or cancels the run",
                ),
                asked if asked.is_suspended() => (
                    format!("it waits for {run}, which waits for people (dependency_suspended)"),
                    if upstream.suspended.is_some_and(|suspended| suspended.expires_at.is_some()) {
                        "it goes on once that one has been answered and has completed; its question is given up"
                    } else {
                        "it goes on once that one has been answered and has completed"
                    },
                ),
                _ => (
                    format!("it waits for {run}, which has not completed (dependency_incomplete)"),
                    "it goes on once that one has completed",
                ),
            };
            let until = upstream.suspended.and_then(|suspended| suspended.expires_at);
            let reason = Reason::of("dependency", what, next);
            Reason { since: Some(since), until, child: Some(run), ..reason }
        };
        ordered.chain(self.unmet().map(reason).take(limits::BLOCKED_BY_MAX)).collect()
    }

    /// Who holds it and why, as far as that was said.
    fn holder_told(&self) -> String {
        let Some(holder) = self.holder() else { return String::new() };
        let by = holder.by.as_ref().map_or(String::new(), |by| format!(" by {by}"));
        let why = holder.reason.as_ref().map_or(String::new(), |why| format!(": {why}"));
        format!("{by}{why}")
    }

    /// A node whose work was interrupted.
    fn interruption(&self, ix: NodeIx) -> Option<Reason> {
        let found = self.state.resume.interrupted.get(&ix)?;
        let id = &self.graph.at(ix).id;
        let effect = match (found.unknown, found.steps.as_slice()) {
            (false, _) => String::new(),
            (true, []) => "; its effect may or may not have happened".to_owned(),
            (true, steps) => format!("; step '{}' may or may not have been done", steps.join("', '")),
        };
        let what = format!("node '{id}' was interrupted ({}): {}{effect}", found.class, found.error.message);
        let until = self.state.timers.get(&TimerId::Resume).copied();
        let next = match (until, self.hold()) {
            (Some(_), _) => "it is decided whether the run goes on by itself",
            (None, Hold::Escalated) => "it is done again, or fails, when a person decides",
            (None, _) => "it is looked at again when the pause is over",
        };
        let since = Some(found.at);
        Some(Reason { node: Some(id.to_string()), since, until, ..Reason::of("interrupted", what, next) })
    }

    /// A node whose turn waits for its provider.
    fn provider_away(&self, ix: NodeIx) -> Option<Reason> {
        let (provider, wait) = self.awaited_provider(ix)?;
        let id = &self.graph.at(ix).id;
        let said = wait.message.map_or_else(String::new, |message| format!(": {message}"));
        let (what, next) = if wait.postponed {
            let what = format!("the turn of node '{id}' waits until provider '{provider}' is back{said}");
            (what, "it goes on when the provider answers again, or is given up")
        } else {
            let what = format!(
                "the turn of node '{id}' waits for provider '{provider}', retry {}{said}",
                wait.attempt + 1
            );
            (what, "the provider is asked again")
        };
        let (node, since, until) = (Some(id.to_string()), Some(wait.since), Some(wait.until));
        Some(Reason { node, since, until, ..Reason::of("provider", what, next) })
    }

    fn node_waits(&self, ix: NodeIx, node: &Node) -> Option<Reason> {
        if let Some(reason) = self.interruption(ix).or_else(|| self.provider_away(ix)) {
            return Some(reason);
        }
        let (id, type_id, _) = self.graph().describe(ix);
        let reason = match (node.phase, node.until, node.child) {
            (NodePhase::Running, ..) if node.work.is_some() => {
                let attempt =
                    if node.attempt > 0 { format!(", attempt {}", node.attempt + 1) } else { String::new() };
                let what = format!("node '{id}' is for a worker that provides {type_id}{attempt}");
                Reason::of("worker", what, "the run goes on when a worker reports")
            }
            (NodePhase::Waiting, ..)
                if node.work.as_ref().is_some_and(|work| work.unfit_until().is_some()) =>
            {
                let why = node.error.as_ref().map_or("", |error| &error.message);
                let what = format!("node '{id}' waits for a worker whose code fits: {why}");
                let until = node.work.as_ref().and_then(|work| work.unfit_until());
                let reason = Reason::of("worker", what, "it is offered again");
                let node = Some(id.to_string());
                return Some(Reason { node, until, ..reason });
            }
            // It may wait for several, each of which is told.
            (NodePhase::Waiting, None, Some(_)) if node.work.is_some() || node.turn.is_some() => return None,
            (NodePhase::Running | NodePhase::Waiting, ..) if self.group().is_some() => {
                let what = "a group is there until somebody closes it".to_owned();
                Reason::of("group", what, "it is closed or abandoned by somebody")
            }
            (NodePhase::Waiting, ..) if self.is_by_hand(ix) => {
                let what = format!("node '{id}' is done by hand, and nobody has it");
                Reason::of("hand", what, "somebody claims it")
            }
            (NodePhase::Running, ..) if self.is_by_hand(ix) => {
                let agent = self.claim(ix).and_then(|claim| claim.agent.as_deref()).unwrap_or("somebody");
                let what = format!("node '{id}' is in the hands of '{agent}'");
                Reason::of("hand", what, "they say what came of it, or give it back")
            }
            (NodePhase::Running, ..) => {
                let attempt =
                    if node.attempt > 0 { format!(", attempt {}", node.attempt + 1) } else { String::new() };
                let what = format!("node '{id}' ({type_id}) is being executed{attempt}");
                Reason::of("executing", what, "the run goes on when the executor reports")
            }
            (NodePhase::Waiting, Some(_), _) if node.attempt > 0 => {
                let why = node.error.as_ref().map_or("it failed", |error| &error.message);
                let what = format!("attempt {} of node '{id}' failed: {why}", node.attempt);
                Reason::of("retry", what, "it is tried again")
            }
            (NodePhase::Waiting, Some(_), _) => {
                Reason::of("delay", format!("node '{id}' waits for a time"), "the node completes")
            }
            // What keeps its next worker from starting is told of the run.
            (NodePhase::Waiting, None, Some(_)) if self.is_worker_due(ix) => return None,
            (NodePhase::Waiting, None, Some(child)) => {
                let workflow = match &self.graph().at(ix).work {
                    Work::SubWorkflow(work) => format!(" of workflow '{}'", work.workflow_id),
                    _ => String::new(),
                };
                let what = format!("node '{id}' waits for {child}{workflow}");
                Reason {
                    child: Some(child),
                    ..Reason::of("child", what, "the run goes on when the child ends")
                }
            }
            _ => return None,
        };
        Some(Reason { node: Some(id.to_string()), since: node.started_at, until: node.until, ..reason })
    }

    /// The children that workers' nodes and turns wait for.
    fn worked(&self) -> impl Iterator<Item = Reason> + '_ {
        let nodes = self.nodes().iter().enumerate();
        nodes.flat_map(|(ix, node)| {
            let (id, ..) = self.graph().describe(ix as NodeIx);
            let tools = node.turn.as_deref().into_iter().flat_map(TurnState::awaited);
            node.awaited_children().chain(tools).map(move |child| Reason {
                node: Some(id.to_string()),
                since: node.started_at,
                child: Some(child),
                ..Reason::of(
                    "child",
                    format!("node '{id}' waits for {child}"),
                    "the run goes on when the child ends",
                )
            })
        })
    }

    /// What people, or things elsewhere, are waited for.
    fn asked(&self) -> impl Iterator<Item = Reason> + '_ {
        self.interrupts().map(|open| {
            let (node, asked) = (self.interrupted_node(open), &open.requested);
            let (kind, what, next) = match asked.kind.waiting() {
                Waiting::Approval => {
                    ("approval", "somebody's decision", "the run goes on when somebody decides")
                }
                Waiting::Input => ("input", "somebody's answer", "the run goes on when somebody answers"),
                Waiting::External => ("event", "something elsewhere", "the run goes on when that happens"),
            };
            let what = format!("node '{node}' waits for {what} ({})", asked.interrupt_id);
            let until = open.deadline();
            let waits =
                self.awaited_answers().any(|other| other.requested.interrupt_id == asked.interrupt_id);
            let next = if waits { next } else { "the run goes on whatever they say" };
            let next = if until.is_some() { format!("{next}, or gives up") } else { next.to_owned() };
            Reason {
                node: Some(node.to_string()),
                since: Some(open.at),
                until,
                ..Reason::of(kind, what, &next)
            }
        })
    }

    /// What comes next for a question that nobody answers.
    fn climbs(&self, id: InterruptId) -> Option<Reason> {
        let open = self.interrupt(id)?;
        let ladder = open.requested.ladder.as_ref()?;
        let (attempt, most) = (open.attempt, ladder.max_attempts);
        let what = format!("nobody has answered {id}, after attempt {attempt} of {most}");
        let next = match open.next()?.0 {
            Next::Attempt(_) => "people are told again",
            Next::Expiry if ladder.final_fallback_policy.needs_value() => {
                "the fallback is taken for the answer"
            }
            Next::Expiry => "the node fails with input_timeout",
        };
        let node = Some(self.interrupted_node(open).to_string());
        Some(Reason { node, since: Some(open.at), ..Reason::of("ladder", what, next) })
    }

    fn awaits_fitting_code(&self, node: &str) -> bool {
        let node = self.graph.node(node).map(|ix| self.node(ix));
        node.and_then(|node| node.work.as_ref()).is_some_and(|work| work.unfit_until().is_some())
    }

    /// Timers of the run itself, and of its ladders.
    fn clocks(&self) -> impl Iterator<Item = Reason> + '_ {
        self.timers().iter().filter_map(|(timer, &due)| {
            let reason = match timer {
                TimerId::RunTimeout => {
                    let what = "the run may not last longer than it was given".to_owned();
                    Reason::of("timeout", what, "the run fails with run_timeout")
                }
                TimerId::Attempt(id) => self.climbs(*id)?,
                TimerId::Grace(_) => Reason::of(
                    "grace",
                    "its agent has not said yet what it asks".to_owned(),
                    "people are told that nobody says what is asked",
                ),
                TimerId::Stretch => Reason::of(
                    "stretch",
                    "many nodes are run in turns".to_owned(),
                    "the next turn comes at once",
                ),
                TimerId::Deadline => {
                    let group =
                        self.group_deadline().map_or_else(String::new, |(_, group)| format!(" ({group})"));
                    let what = format!("a group that it belongs to has a deadline{group}");
                    let next = "if it waits for people then, it is abandoned (portfolio_deadline_exceeded)";
                    Reason::of("deadline", what, next)
                }
                TimerId::Sleep { node, .. } if self.awaits_fitting_code(node) => return None,
                TimerId::Sleep { node, .. } => {
                    let what = format!("the worker of node '{node}' sleeps");
                    let reason = Reason::of("delay", what, "the worker goes on");
                    Reason { node: Some(node.to_string()), ..reason }
                }
                TimerId::Delay { .. }
                | TimerId::Provider { .. }
                | TimerId::Resume
                | TimerId::Retry { .. }
                | TimerId::Interrupt(_)
                | TimerId::Coordinator(_)
                | TimerId::Occasion(_) => return None,
            };
            Some(Reason { until: Some(due), ..reason })
        })
    }
}

fn summary(run: &Run, reasons: &[Reason], pending: usize) -> String {
    let words = [
        ("executing", "a node that is being executed", "nodes that are being executed"),
        ("worker", "a worker", "workers"),
        ("delay", "a delay", "delays"),
        ("retry", "another attempt", "other attempts"),
        ("provider", "a model's provider", "models' providers"),
        ("interrupted", "a step that was interrupted", "steps that were interrupted"),
        ("approval", "a decision", "decisions"),
        ("input", "an answer", "answers"),
        ("event", "something elsewhere", "things elsewhere"),
        ("child", "a child run", "child runs"),
        ("hand", "somebody who does it", "people who do it"),
        ("dependency", "another run", "other runs"),
    ];
    let waits: Vec<String> = words
        .iter()
        .filter_map(|(kind, one, many)| match reasons.iter().filter(|reason| reason.kind == *kind).count() {
            0 => None,
            1 => Some((*one).to_owned()),
            count => Some(format!("{count} {many}")),
        })
        .collect();
    let head = match (run.lifecycle(), run.hold()) {
        (Lifecycle::Cancelling, _) => "it is being cancelled",
        _ if run.is_replay() => "it replays another run as far as that had come",
        (_, Hold::Paused) => "it is paused",
        (_, Hold::Stopped) => "it is stopped",
        (_, Hold::Escalated) => "it is held until a person decides how it goes on",
        (_, Hold::Pausing) => "it is about to be paused",
        _ if run.group().is_some() => "it is a group",
        _ if run.is_draft() => "it is a draft",
        _ if run.blocked_since().is_some() => "it is blocked",
        _ => "it is running",
    };
    let waits = if waits.is_empty() { String::new() } else { format!(" and waits for {}", waits.join(", ")) };
    let behind = match pending {
        0 => String::new(),
        1 => "; 1 node has not started".to_owned(),
        more => format!("; {more} nodes have not started"),
    };
    format!("{head}{waits}{behind}")
}
