//! Random runs: a random definition, random commands at random times, and all that came of them.
//!
//! A plan is what proptest draws and shrinks. Played, it gives a tale: every command with the run before
//! and after it. The shell around the run is the simplest there can be; it keeps what the effects tell it to
//! keep, and nothing else.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use abide_core::{
    Cancellation, Command, Drain, Effect, Failure, Graph, Hold, InterruptionClass, Json, JsonMap, Key,
    Lifecycle, Millis, Notice, Performance, Product, Reached, Record, Rejection, Report, Run, RunId, Salt,
    Start, Step, TaskFailure, TaskId, TenantId, TimerId,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::json;

use crate::workflow::{
    Sketch, Workflow, delay, fail, fixed, identity, noop, of_kind, output, variable, workflow,
};

pub(crate) const SALT: Salt = [9; 16];

/// Clocks start well above zero, so that they can be set back.
const BEGIN: Millis = 1_000_000;

/// More nodes than one decision starts, for the runs that shall yield.
const CROWD: usize = abide_core::limits::STRETCH_NODES_MAX + 20;

pub(crate) fn key() -> Key {
    RunId::from_bytes([1; 16]).of(TenantId(3))
}

/// What proptest draws.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    nodes: Vec<PlannedNode>,
    edges: Vec<(Index, Index)>,
    crowded: bool,
    is_child: bool,
    moves: Vec<Move>,
}

#[derive(Clone, Debug)]
struct PlannedNode {
    kind: PlannedKind,
    durable: bool,
    port: Option<PlannedPort>,
}

#[derive(Clone, Debug)]
enum PlannedKind {
    Noop,
    Identity,
    Delay(Millis),
    Fail,
    Unknown,
}

#[derive(Clone, Debug)]
enum PlannedPort {
    Static(i8),
    Variable { is_set: bool, optional: bool },
    Connection { from: Index, optional: bool },
}

/// One thing that happens to the run.
#[derive(Clone, Debug)]
enum Move {
    Cancel,
    Pause(bool),
    Resume,
    /// A timer that is armed, so long after its time, or before.
    Fire(Index, Millis),
    /// A timer that may or may not exist.
    FireAny(Index, u32),
    /// A task that is in flight, if there is one.
    Report(Index, Outcome),
    /// A task that may or may not exist.
    ReportAny(Index, u32),
    Hear {
        child: u8,
        sequence: u64,
    },
    /// The clock is moved, forward or back.
    Wait(Millis),
}

#[derive(Clone, Debug)]
enum Outcome {
    AsPerformed,
    Good(i8),
    Bad,
}

pub(crate) fn plans() -> impl Strategy<Value = Plan> {
    (
        vec(nodes(), 1..12),
        vec(any::<(Index, Index)>(), 0..16),
        prop::bool::weighted(0.04),
        any::<bool>(),
        vec(moves(), 0..40),
    )
        .prop_map(|(nodes, edges, crowded, is_child, moves)| Plan {
            nodes,
            edges,
            crowded,
            is_child,
            moves,
        })
}

/// Failing nodes are rare: a dozen nodes should often reach their end.
fn nodes() -> impl Strategy<Value = PlannedNode> {
    let kind = prop_oneof![
        20 => Just(PlannedKind::Noop),
        20 => Just(PlannedKind::Identity),
        20 => (0..5_000i64).prop_map(PlannedKind::Delay),
        1 => Just(PlannedKind::Fail),
        1 => Just(PlannedKind::Unknown),
    ];
    let port = prop_oneof![
        9 => any::<i8>().prop_map(PlannedPort::Static),
        9 => any::<bool>().prop_map(|optional| PlannedPort::Variable { is_set: true, optional }),
        9 => Just(PlannedPort::Variable { is_set: false, optional: true }),
        9 => any::<Index>().prop_map(|from| PlannedPort::Connection { from, optional: true }),
        1 => any::<Index>().prop_map(|from| PlannedPort::Connection { from, optional: false }),
        1 => Just(PlannedPort::Variable { is_set: false, optional: false }),
    ];
    (kind, any::<bool>(), proptest::option::of(port)).prop_map(|(kind, durable, port)| PlannedNode {
        kind,
        durable,
        port,
    })
}

fn moves() -> impl Strategy<Value = Move> {
    let outcome = prop_oneof![
        9 => Just(Outcome::AsPerformed),
        5 => any::<i8>().prop_map(Outcome::Good),
        1 => Just(Outcome::Bad),
    ];
    prop_oneof![
        1 => Just(Move::Cancel),
        3 => any::<bool>().prop_map(Move::Pause),
        4 => Just(Move::Resume),
        16 => (any::<Index>(), -1_000..4_000i64).prop_map(|(which, late)| Move::Fire(which, late)),
        3 => (any::<Index>(), 0..3u32).prop_map(|(node, execution)| Move::FireAny(node, execution)),
        16 => (any::<Index>(), outcome).prop_map(|(which, outcome)| Move::Report(which, outcome)),
        3 => (any::<Index>(), 0..3u32).prop_map(|(node, execution)| Move::ReportAny(node, execution)),
        4 => (0..2u8, 0..4u64).prop_map(|(child, sequence)| Move::Hear { child, sequence }),
        6 => (-3_000..6_000i64).prop_map(Move::Wait),
    ]
}

/// Every command with what came of it, in order. The first turn is the start.
pub(crate) struct Tale {
    pub(crate) graph: Arc<Graph>,
    /// The edges of the definition, by node ids.
    edges: Vec<(String, String)>,
    pub(crate) turns: Vec<Turn>,
}

/// One command, and the run on both sides of it.
pub(crate) struct Turn {
    /// `None` is the start.
    pub(crate) command: Option<Command>,
    pub(crate) now: Millis,
    pub(crate) outcome: Result<Step, Rejection>,
    pub(crate) before: Run,
    pub(crate) after: Run,
    /// What a shell that obeyed every effect so far has.
    pub(crate) kept: Kept,
}

/// What the effects say there is: the rows of a store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    pub(crate) timers: BTreeMap<TimerId, Millis>,
    pub(crate) tasks: HashSet<TaskId>,
    heard: BTreeMap<RunId, u64>,
    /// An effect that took away what was not there, or brought what was.
    pub(crate) misfits: Vec<Effect>,
    pub(crate) sent: Vec<Notice>,
}

impl Kept {
    fn obey(&mut self, effect: &Effect) {
        let fits = match effect {
            Effect::ArmTimer { timer, due } => self.timers.insert(timer.clone(), *due).is_none(),
            Effect::DropTimer { timer, due } => self.timers.remove(timer) == Some(*due),
            Effect::Dispatch { task, .. } => self.tasks.insert(task.clone()),
            Effect::FinishTask(task) => self.tasks.remove(task),
            Effect::Send { notice, .. } => {
                self.sent.push(notice.clone());
                true
            }
            Effect::Hear { from, sequence } => {
                self.heard.insert(*from, *sequence).is_none_or(|before| before < *sequence)
            }
            // No plan has children yet, so nothing asks for one or ends with one.
            Effect::Spawn(_) | Effect::Disown(_) | Effect::Cascade(_) => false,
            // Nor has one nodes for workers.
            Effect::Offer(_)
            | Effect::OfferAgain(_)
            | Effect::Withdraw(_)
            | Effect::CallOff(_)
            | Effect::Wake(_)
            | Effect::Abort(_)
            | Effect::AwaitProvider(_)
            | Effect::LeaveProvider(_)
            | Effect::Hook(_) => false,
            // Nor has one anything to do with other runs.
            Effect::DependOn(_)
            | Effect::Independ(_)
            | Effect::Bid { .. }
            | Effect::Order { .. }
            | Effect::BidAll(_)
            | Effect::Assign(_)
            | Effect::Unassign(_)
            | Effect::Watch(_)
            | Effect::Unwatch(_)
            | Effect::Tell { .. }
            | Effect::Announce(_)
            | Effect::Enlist(_)
            | Effect::Dismiss { .. }
            | Effect::NoteMember(_) => false,
            // Nor has one nodes that ask, or talk.
            Effect::TakeName(_) => false,
            Effect::OpenInterrupt(_)
            | Effect::CloseInterrupt(_)
            | Effect::MoveDeadline { .. }
            | Effect::NoteHeadway { .. }
            | Effect::Notify(_) => false,
        };
        if !fits {
            self.misfits.push(effect.clone());
        }
    }
}

impl Tale {
    pub(crate) fn journal(&self) -> Vec<Record> {
        self.steps().flat_map(|step| step.records.clone()).collect()
    }

    pub(crate) fn steps(&self) -> impl Iterator<Item = &Step> {
        self.turns.iter().filter_map(|turn| turn.outcome.as_ref().ok())
    }

    pub(crate) fn last(&self) -> &Run {
        &self.turns.last().expect("a tale has a start").after
    }

    /// The nodes that lead to a node.
    pub(crate) fn before(&self, node: &str) -> impl Iterator<Item = &str> {
        let leading = self.edges.iter().filter(move |(_, to)| to == node);
        leading.map(|(from, _)| from.as_str())
    }

    pub(crate) fn empty_run(&self) -> Run {
        Run::empty(key(), SALT, self.graph.clone())
    }
}

impl Plan {
    /// Plays the moves, and no more.
    pub(crate) fn play(&self) -> Tale {
        self.teller().tale
    }

    /// Plays the moves, and then obliges the run until there is nothing left to do but to resume it.
    pub(crate) fn play_out(&self) -> Tale {
        let mut teller = self.teller();
        teller.oblige();
        teller.tale
    }

    /// Plays the moves and obliges the run to its end, lifting a pause if need be.
    pub(crate) fn play_to_the_end(&self) -> Tale {
        let mut teller = self.teller();
        teller.oblige();
        if teller.run.hold() == Hold::Paused {
            teller.ask(Command::Resume { reason: None, by: None });
            teller.oblige();
        }
        teller.tale
    }

    fn teller(&self) -> Teller {
        let mut teller = Teller::begin(self);
        for mv in &self.moves {
            teller.make(mv);
        }
        teller
    }

    fn edges(&self) -> Vec<(String, String)> {
        let count = self.nodes.len();
        let forward = self.edges.iter().filter_map(|(one, other)| {
            let (one, other) = (one.index(count), other.index(count));
            (one != other).then(|| (name(one.min(other)), name(one.max(other))))
        });
        forward.collect()
    }

    fn workflow(&self) -> Workflow {
        let count = self.nodes.len();
        let planned = (0..count).map(|ix| self.nodes[ix].sketch(ix, count));
        let crowd = (0..if self.crowded { CROWD } else { 0 }).map(|n| noop(&format!("crowd{n}")));
        let workflow = workflow(planned.chain(crowd)).variable("set", "number").or(json!(5));
        self.edges().iter().fold(workflow, |workflow, (from, to)| workflow.flow(&format!("{from} > {to}")))
    }
}

fn name(ix: usize) -> String {
    format!("n{ix}")
}

impl PlannedNode {
    fn sketch(&self, ix: usize, count: usize) -> Sketch {
        let id = name(ix);
        let bare = match self.kind {
            PlannedKind::Noop => noop(&id),
            PlannedKind::Identity => identity(&id),
            PlannedKind::Delay(ms) => delay(&id, ms),
            PlannedKind::Fail => fail(&id),
            PlannedKind::Unknown => of_kind(&id, "acme.unknown"),
        };
        let bare = if self.durable { bare.durable() } else { bare };
        match &self.port {
            None => bare,
            Some(port) => bare.input("x", port.source(count)),
        }
    }
}

impl PlannedPort {
    fn source(&self, count: usize) -> crate::workflow::Source {
        let (source, optional) = match self {
            Self::Static(value) => (fixed(&json!(value)), false),
            Self::Variable { is_set: true, optional } => (variable("set"), *optional),
            Self::Variable { is_set: false, optional } => (variable("unset"), *optional),
            Self::Connection { from, optional } => (output(&name(from.index(count)), "x"), *optional),
        };
        if optional { source.optional() } else { source }
    }
}

/// The shell that plays a plan.
struct Teller {
    run: Run,
    now: Millis,
    kept: Kept,
    tale: Tale,
}

impl Teller {
    fn begin(plan: &Plan) -> Self {
        // A plan takes inputs from any node, which is no longer admitted: what is read has to fold all the same.
        let graph = plan.workflow().old_graph();
        let parent = plan.is_child.then(|| abide_core::Parent::of(RunId::from_bytes([8; 16]), "child"));
        let start = Start {
            key: key(),
            salt: SALT,
            graph: graph.clone(),
            inputs: JsonMap::new(),
            tags: Vec::new(),
            metadata: None,
            parent,
            by: None,
            configurable: None,
            sensitive: Vec::new(),
            unset: Vec::new(),
            scope: None,
            exclusive: false,
            callback_url: None,
            depends_on: Vec::new(),
            draft: false,
            group: None,
            defaults: Arc::default(),
            trace: None,
        };
        let before = Run::empty(key(), SALT, graph.clone());
        let (run, step) = Run::start(start, BEGIN).expect("the plan's start is sound");
        let mut teller = Self {
            run,
            now: BEGIN,
            kept: Kept::default(),
            tale: Tale { graph, edges: plan.edges(), turns: Vec::new() },
        };
        teller.note(None, Ok(step), before);
        teller
    }

    fn ask(&mut self, command: Command) {
        let before = self.run.clone();
        let outcome = self.run.decide(command.clone(), self.now);
        self.note(Some(command), outcome, before);
    }

    fn note(&mut self, command: Option<Command>, outcome: Result<Step, Rejection>, before: Run) {
        for effect in outcome.iter().flat_map(|step| &step.effects) {
            self.kept.obey(effect);
        }
        self.tale.turns.push(Turn {
            command,
            now: self.now,
            outcome,
            before,
            after: self.run.clone(),
            kept: self.kept.clone(),
        });
    }

    fn make(&mut self, mv: &Move) {
        match *mv {
            Move::Cancel => self.ask(Command::Cancel(Cancellation {
                reason: Some("enough".to_owned()),
                cancelled_by: None,
                parent_run_id: None,
                abandonment_reason: None,
            })),
            Move::Pause(waits) => {
                let drain = if waits { Drain::CurrentNode } else { Drain::Immediate };
                self.ask(Command::Pause { reason: None, by: None, drain });
            }
            Move::Resume => self.ask(Command::Resume { reason: None, by: None }),
            Move::Fire(which, late) => self.fire(which, late),
            Move::FireAny(node, execution) => {
                let node = self.any_node(node);
                self.ask(Command::Fire(TimerId::Delay { node, execution }));
            }
            Move::Report(which, ref outcome) => self.report(which, outcome),
            Move::ReportAny(node, execution) => {
                let node = self.any_node(node);
                self.report_outcome(TaskId { node, execution }, Ok(Product::default()));
            }
            Move::Hear { child, sequence } => self.hear(RunId::from_bytes([0x40 + child; 16]), sequence),
            Move::Wait(ms) => self.now += ms,
        }
    }

    fn any_node(&self, which: Index) -> Arc<str> {
        let ix = which.index(self.run.graph().len());
        self.run.graph().describe(ix as u32).0.clone()
    }

    fn fire(&mut self, which: Index, late: Millis) {
        let armed: Vec<(TimerId, Millis)> = self.run.timers().clone().into_iter().collect();
        if armed.is_empty() {
            return self.ask(Command::Fire(TimerId::Stretch));
        }
        let (timer, due) = which.get(&armed).clone();
        self.now = due + late;
        self.ask(Command::Fire(timer));
    }

    fn report(&mut self, which: Index, outcome: &Outcome) {
        let tasks: Vec<TaskId> = self.run.tasks().collect();
        if tasks.is_empty() {
            return;
        }
        let task = which.get(&tasks).clone();
        let outcome = match outcome {
            Outcome::AsPerformed => performed(&self.run, &task),
            Outcome::Good(value) => Ok(Product::of(Some(Json::of(&json!({"x": value}))))),
            Outcome::Bad => Err(for_good(Failure::new("node_execution_failed", "bad luck"))),
        };
        self.report_outcome(task, outcome);
    }

    fn report_outcome(&mut self, task: TaskId, outcome: Result<Product, TaskFailure>) {
        self.ask(Command::Report(Report { task, outcome }));
    }

    fn hear(&mut self, from: RunId, sequence: u64) {
        let heard = self.kept.heard.get(&from).copied();
        let notice = Notice {
            from,
            sequence,
            node: "child".to_owned(),
            lifecycle: Lifecycle::Running,
            execution: 0,
            outputs: JsonMap::new(),
            sensitive: Vec::new(),
            error: None,
            still: false,
            status: None,
            suspended: None,
            claimed: false,
        };
        self.ask(Command::Hear { notice, heard });
    }

    /// Fires every timer at its time and reports every task, as a shell does when nobody interferes.
    ///
    /// What the shell keeps from the effects is all it goes by: a forgotten timer would hang the run.
    fn oblige(&mut self) {
        let most = 4 * self.run.graph().len() + 4;
        for _ in 0..most {
            let next_timer = self.kept.timers.iter().min_by_key(|(_, due)| **due);
            let next_task = self.kept.tasks.iter().min_by(|a, b| a.node.cmp(&b.node));
            if let Some(task) = next_task.cloned() {
                let outcome = performed(&self.run, &task);
                self.report_outcome(task, outcome);
            } else if let Some((timer, due)) = next_timer {
                let (timer, due) = (timer.clone(), *due);
                self.now = self.now.max(due);
                self.ask(Command::Fire(timer));
            } else {
                return;
            }
        }
        panic!("the run asks for more than {most} timers and tasks");
    }
}

fn performed(run: &Run, task: &TaskId) -> Result<Product, TaskFailure> {
    match run.perform_task(task).expect("the task is under way") {
        Performance::Done(outcome) => outcome.map_err(for_good),
        Performance::Model(_) => panic!("there is no provider, so no model is called"),
        Performance::Http(_) => unreachable!("no plan sends requests"),
    }
}

fn for_good(failure: Failure) -> TaskFailure {
    TaskFailure { failure, retryable: false, reached: Reached::Maybe, class: InterruptionClass::ToolFailure }
}
