//! One run, told command by command: what is asked of it, and what must come of it.
//!
//! Every command is checked for what holds always: a refused one leaves the run as it was, and an accepted
//! one, folded from its records alone, gives the same run and the same effects.

use std::sync::Arc;

use abide_core::event::{Held, HoldMode, Released};
use abide_core::{
    Answerer, Artifacts, Cancellation, Cascade, Command, Drain, Effect, ErrorCode, EventType, Failure, Graph,
    InterruptId, InterruptionClass, Json, JsonMap, Key, Lifecycle, Millis, NodePhase, Notice, Parent,
    Payload, Performance, Product, Reached, Record, Rejection, Report, Resolve, Run, RunId, Salt, Spawn,
    Start, Status, Step, Surroundings, TaskFailure, TaskId, TenantId, TimerId,
};
use serde_json::Value;

use crate::workflow::Workflow;

#[path = "forks.rs"]
pub(crate) mod forks;

/// When every story begins.
pub(crate) const BEGIN: Millis = 1_700_000_000_000;

pub(crate) const SALT: Salt = [7; 16];

/// Longer stories are not forked after each of their words.
const FORKED_EVENTS_MAX: usize = 40;

pub(crate) fn hours(count: i64) -> Millis {
    count * 3_600_000
}

/// A run's id that is easy to tell from others.
pub(crate) fn run_id(byte: u8) -> RunId {
    RunId::from_bytes([byte; 16])
}

pub(crate) fn key() -> Key {
    run_id(1).of(TenantId(1))
}

pub(crate) fn json(value: &Value) -> Json {
    Json::of(value)
}

/// What the run `from` says at `sequence` to the node `node`.
pub(crate) fn notice(from: RunId, sequence: u64, lifecycle: Lifecycle) -> Notice {
    Notice {
        from,
        sequence,
        node: "child".to_owned(),
        lifecycle,
        execution: 0,
        outputs: JsonMap::new(),
        sensitive: Vec::new(),
        error: None,
        still: false,
        status: None,
        suspended: None,
        claimed: false,
    }
}

/// Somebody asks for an end.
pub(crate) fn cancellation(reason: Option<&str>, by: Option<&str>) -> Cancellation {
    Cancellation {
        reason: reason.map(str::to_owned),
        cancelled_by: by.map(str::to_owned),
        parent_run_id: None,
        abandonment_reason: None,
    }
}

/// A failure that no other attempt would mend.
pub(crate) fn for_good(failure: Failure) -> TaskFailure {
    TaskFailure { failure, retryable: false, reached: Reached::Maybe, class: InterruptionClass::ToolFailure }
}

/// A failure that another attempt might mend.
pub(crate) fn for_now(message: &str, reached: Reached) -> TaskFailure {
    let failure = Failure::new("node_execution_failed", message);
    TaskFailure { failure, retryable: true, reached, class: InterruptionClass::ToolFailure }
}

/// What a shell asks when a timer's time has come, if everything can be read.
pub(crate) fn fire(timer: TimerId) -> Command {
    match timer {
        TimerId::Resume => Command::ResumeDue { artifacts: Artifacts::READABLE },
        timer => Command::Fire(timer),
    }
}

/// A story before its first word.
#[derive(Clone, Debug)]
pub(crate) struct Opening(Start);

/// A run, its journal, and what came of the last command.
#[derive(Clone, Debug)]
pub(crate) struct Story {
    run: Run,
    /// Folded from the journal alone, to compare.
    twin: Run,
    now: Millis,
    journal: Vec<Record>,
    last: Result<Step, Rejection>,
    /// What is said elsewhere about questions that nobody answers.
    defaults: Arc<Surroundings>,
    /// An executor told something else than what it worked out, which a replay would find out.
    invented: bool,
}

impl Story {
    pub(crate) fn of(workflow: &Workflow) -> Opening {
        Self::following(workflow.graph())
    }

    pub(crate) fn following(graph: Arc<Graph>) -> Opening {
        Opening(Start {
            key: key(),
            salt: SALT,
            graph,
            inputs: JsonMap::new(),
            tags: Vec::new(),
            metadata: None,
            parent: None,
            by: None,
            configurable: None,
            sensitive: Vec::new(),
            unset: Vec::new(),
            trace: None,
            scope: None,
            exclusive: false,
            callback_url: None,
            depends_on: Vec::new(),
            draft: false,
            group: None,
            defaults: Arc::default(),
        })
    }
}

impl Opening {
    pub(crate) fn input(mut self, name: &str, value: &Value) -> Self {
        self.0.inputs.insert(name.to_owned(), json(value));
        self
    }

    pub(crate) fn tags(mut self, tags: impl IntoIterator<Item = String>) -> Self {
        self.0.tags = tags.into_iter().collect();
        self
    }

    pub(crate) fn alone_in(mut self, scope: &str) -> Self {
        (self.0.scope, self.0.exclusive) = (Some(scope.to_owned()), true);
        self
    }

    pub(crate) fn metadata(mut self, value: &Value) -> Self {
        self.0.metadata = Some(json(value));
        self
    }

    /// An option of the run.
    pub(crate) fn configurable(mut self, value: &Value) -> Self {
        self.0.configurable = Some(json(value));
        self
    }

    pub(crate) fn child_of(self, run: RunId, node: &str) -> Self {
        self.parent(Parent::of(run, node))
    }

    /// The trace of whoever starts the run.
    pub(crate) fn traced(mut self, parent: &str) -> Self {
        self.0.trace = abide_core::Trace::parse(parent, None);
        self
    }

    pub(crate) fn parent(mut self, parent: Parent) -> Self {
        self.0.parent = Some(parent);
        self
    }

    /// Everything that a parent fixed of its child.
    pub(crate) fn spawned(mut self, spawn: &Spawn) -> Self {
        self.0.key = spawn.child.of(TenantId(1));
        self.0.inputs = spawn.inputs.clone();
        self.0.sensitive = spawn.sensitive.clone();
        self.0.unset = spawn.unset.clone();
        self.0.by = spawn.by.clone();
        self.parent(spawn.parent.clone())
    }

    pub(crate) fn by(mut self, who: &str) -> Self {
        self.0.by = Some(who.to_owned());
        self
    }

    /// What the operator and the agents say about questions that nobody answers.
    pub(crate) fn under(mut self, defaults: Surroundings) -> Self {
        self.0.defaults = Arc::new(defaults);
        self
    }

    #[track_caller]
    pub(crate) fn start(self) -> Story {
        let twin = Run::empty(self.0.key, self.0.salt, self.0.graph.clone());
        let defaults = self.0.defaults.clone();
        let (run, step) = Run::start(self.0, BEGIN).expect("the start is accepted");
        let last = Ok(step.clone());
        let (now, journal, invented) = (BEGIN, Vec::new(), false);
        let mut story = Story { run, twin, now, journal, last, defaults, invented };
        story.take_in(&step);
        story
    }

    #[track_caller]
    pub(crate) fn refused(self) -> Rejection {
        Run::start(self.0, BEGIN).map(|(_, step)| lines(&step.records)).expect_err("the start is refused")
    }
}

/// What may happen next.
impl Story {
    /// Time passes; a negative time is a clock that was set back.
    pub(crate) fn after(mut self, ms: Millis) -> Self {
        self.now += ms;
        self
    }

    /// It is so long after the beginning.
    pub(crate) fn at(mut self, ms: Millis) -> Self {
        self.now = BEGIN + ms;
        self
    }

    /// The operator says something else from now on.
    pub(crate) fn amid(mut self, around: Surroundings) -> Self {
        self.defaults = Arc::new(around);
        self
    }

    #[track_caller]
    pub(crate) fn cancel(self) -> Self {
        self.ask(Command::Cancel(cancellation(None, None)))
    }

    #[track_caller]
    pub(crate) fn cancel_because(self, reason: &str, who: &str) -> Self {
        self.ask(Command::Cancel(cancellation(Some(reason), Some(who))))
    }

    #[track_caller]
    pub(crate) fn pause(self) -> Self {
        self.ask(Command::Pause { reason: None, by: None, drain: Drain::Immediate })
    }

    /// A pause that waits for work in flight.
    #[track_caller]
    pub(crate) fn drain(self) -> Self {
        self.ask(Command::Pause { reason: None, by: None, drain: Drain::CurrentNode })
    }

    #[track_caller]
    pub(crate) fn pause_because(self, reason: &str, who: &str) -> Self {
        let (reason, by) = (Some(reason.to_owned()), Some(who.to_owned()));
        self.ask(Command::Pause { reason, by, drain: Drain::Immediate })
    }

    #[track_caller]
    pub(crate) fn resume(self) -> Self {
        self.ask(Command::Resume { reason: None, by: None })
    }

    /// Somebody holds the run.
    #[track_caller]
    pub(crate) fn hold(self, mode: HoldMode) -> Self {
        self.ask(Command::Hold(Held { mode, reason: None, by: None }))
    }

    /// Somebody lets the run go on.
    #[track_caller]
    pub(crate) fn release(self) -> Self {
        self.ask(Command::Release(Released::default()))
    }

    /// The delay of a node ends.
    #[track_caller]
    pub(crate) fn fire(self, node: &str) -> Self {
        let timer = format!("delay/1/{node}");
        self.fire_timer(&timer)
    }

    #[track_caller]
    pub(crate) fn fire_timer(self, timer: &str) -> Self {
        let timer = timer.parse::<TimerId>().expect("a timer's name");
        self.ask(fire(timer))
    }

    /// The run was interrupted, and is not resumed: its policy lets it fail.
    #[track_caller]
    pub(crate) fn given_up(self) -> Self {
        assert!(!self.run.interrupted_steps().is_empty(), "nothing was interrupted: {:?}", self.last);
        self.fire_timer("resume")
    }

    /// A task ends well, with nothing to show for it.
    #[track_caller]
    pub(crate) fn report(self, node: &str) -> Self {
        self.report_of(node, 1, Ok(None))
    }

    #[track_caller]
    pub(crate) fn report_failure(self, node: &str, message: &str) -> Self {
        self.report_of(node, 1, Err(Failure::new("node_execution_failed", message)))
    }

    /// A task of some execution ends, for good.
    #[track_caller]
    pub(crate) fn report_of(
        self,
        node: &str,
        execution: u32,
        outcome: Result<Option<Json>, Failure>,
    ) -> Self {
        self.report_product(node, execution, outcome.map(Product::of).map_err(for_good))
    }

    #[track_caller]
    pub(crate) fn report_product(
        self,
        node: &str,
        execution: u32,
        outcome: Result<Product, TaskFailure>,
    ) -> Self {
        let task = TaskId { node: node.into(), execution };
        self.ask(Command::Report(Report { task, outcome }))
    }

    /// An attempt fails in a way that another one might mend.
    #[track_caller]
    pub(crate) fn report_trouble(self, node: &str, message: &str, reached: Reached) -> Self {
        let execution = self.node(node).execution;
        self.report_product(node, execution, Err(for_now(message, reached)))
    }

    /// A task is executed and reported, as an executor does it.
    #[track_caller]
    pub(crate) fn perform(self, node: &str) -> Self {
        let execution = self.node(node).execution;
        let Performance::Done(outcome) = self.performance(node) else {
            panic!("node {node} asks for more than to be reported");
        };
        self.report_product(node, execution, outcome.map_err(for_good))
    }

    /// What a task in flight asks of its executor.
    #[track_caller]
    pub(crate) fn performance(&self, node: &str) -> Performance {
        let task = TaskId { node: node.into(), execution: self.node(node).execution };
        self.run.perform_task(&task).expect("the task is under way")
    }

    /// The child that a node waits for ends.
    #[track_caller]
    pub(crate) fn child_ends(self, node: &str, lifecycle: Lifecycle, outputs: &Value) -> Self {
        let from = self.node(node).child.expect("the node has a child");
        let outputs = json(outputs).parse().expect("outputs are an object");
        let notice = Notice { node: node.to_owned(), outputs, ..notice(from, 5, lifecycle) };
        self.hear(notice, None)
    }

    /// The child that a node waits for can't be started.
    #[track_caller]
    pub(crate) fn child_refused(self, node: &str, error: Failure) -> Self {
        let child = self.node(node).child.expect("the node has a child");
        self.ask(Command::RefuseChild { child, node: node.to_owned(), error })
    }

    /// Somebody answers what this node asks.
    #[track_caller]
    pub(crate) fn answer(self, node: &str, value: &Value) -> Self {
        let id = self.run.interrupt_of(node).expect("the node asked");
        self.answer_to(id, value, "alice")
    }

    /// Somebody answers an interrupt.
    #[track_caller]
    pub(crate) fn answer_to(self, id: InterruptId, value: &Value, who: &str) -> Self {
        let by = Answerer { principal: who.to_owned(), may_act_for_others: false, ..Answerer::default() };
        self.ask(Command::Resolve(Resolve { id, value: json(value), by }))
    }

    /// The interrupts that a node is stopped for, oldest first.
    pub(crate) fn open_at(&self, node: &str) -> Vec<InterruptId> {
        self.node(node).stopped_for.iter().copied().collect()
    }

    #[track_caller]
    pub(crate) fn hear(self, notice: Notice, heard: Option<u64>) -> Self {
        self.ask(Command::Hear { notice, heard })
    }

    #[track_caller]
    pub(crate) fn ask(mut self, command: Command) -> Self {
        let before = self.run.snapshot();
        self.invented |= self.is_invented(&command);
        self.last = self.run.decide_under(command, self.now, &self.defaults);
        match self.last.clone() {
            Ok(step) => self.take_in(&step),
            Err(_) => assert_eq!(self.run.snapshot(), before, "a refused command left a trace"),
        }
        self
    }

    #[track_caller]
    fn take_in(&mut self, step: &Step) {
        let mut effects = Vec::new();
        for record in &step.records {
            effects.extend(self.twin.apply(record).expect("a decided record folds"));
        }
        assert_eq!(effects, step.effects, "folding the records implies the same effects");
        let snapshot = self.run.snapshot();
        assert_eq!(self.twin.snapshot(), snapshot, "folding gives the same run");
        let woken = Run::from_snapshot(self.run.key(), SALT, self.run.graph().clone(), &snapshot);
        let woken = woken.expect("this version reads what it wrote");
        assert_eq!(format!("{woken:?}"), format!("{:?}", self.run), "nothing is left out of a snapshot");
        let before = self.journal.len();
        self.journal.extend_from_slice(&step.records);
        self.fork_from(before);
    }

    fn is_invented(&self, command: &Command) -> bool {
        let Command::Report(Report { task, outcome: Ok(told) }) = command else { return false };
        matches!(self.run.perform_task(task), Some(Performance::Done(done)) if done.as_ref() != Ok(told))
    }

    /// Forks the run wherever something new happened.
    #[track_caller]
    fn fork_from(&self, before: usize) {
        // A definition that names its run is another one in a fork.
        let names_run = String::from_utf8_lossy(&self.run.graph().source).contains(&key().id.to_string());
        if self.invented || names_run || self.journal.len() > FORKED_EVENTS_MAX {
            return;
        }
        self.origin().replay_from(0);
        for sequence in before..=self.journal.len() {
            self.origin().replay_from(sequence as u64);
            self.origin().branch_from(sequence as u64);
        }
    }

    /// The run, to be forked.
    pub(crate) fn origin(&self) -> forks::Origin<'_> {
        forks::Origin { key: self.run.key(), salt: SALT, graph: self.run.graph(), journal: &self.journal }
    }
}

/// What must have come of the last command, and how the run must stand.
impl Story {
    /// The events it brought, each as `type` or `type node`.
    #[track_caller]
    pub(crate) fn expect<const N: usize>(self, events: [&str; N]) -> Self {
        assert_eq!(lines(&self.step().records), events);
        self
    }

    /// The effects it had.
    #[track_caller]
    pub(crate) fn expect_effects<const N: usize>(self, effects: [&str; N]) -> Self {
        let had: Vec<String> = self.step().effects.iter().map(describe).collect();
        assert_eq!(had, effects);
        self
    }

    #[track_caller]
    pub(crate) fn refused(self, rejection: &Rejection) -> Self {
        assert_eq!(self.last.as_ref(), Err(rejection));
        self
    }

    /// Why the last command was refused.
    #[track_caller]
    pub(crate) fn last_rejection(&self) -> &Rejection {
        self.last.as_ref().expect_err("the last command is refused")
    }

    #[track_caller]
    pub(crate) fn stands(self, status: Status) -> Self {
        assert_eq!(self.run.status(), status);
        self
    }

    #[track_caller]
    pub(crate) fn node_is(self, id: &str, phase: NodePhase) -> Self {
        assert_eq!(self.node(id).phase, phase, "of node {id}");
        self
    }

    #[track_caller]
    pub(crate) fn outputs(self, id: &str, outputs: Option<&str>) -> Self {
        assert_eq!(self.node(id).outputs.as_ref().map(Json::text), outputs);
        self
    }

    /// The run failed, with a code that users can look up.
    #[track_caller]
    pub(crate) fn failed_with(self, code: &str, message: &str) -> Self {
        let error = self.run.error().expect("the run failed");
        assert_eq!((error.code.as_str(), error.message.as_str()), (code, message));
        assert!(ErrorCode::find(code).is_some(), "{code} is not declared");
        self.stands(Status::Failed)
    }
}

/// What may be looked at.
impl Story {
    pub(crate) fn run(&self) -> &Run {
        &self.run
    }

    pub(crate) fn journal(&self) -> &[Record] {
        &self.journal
    }

    #[track_caller]
    pub(crate) fn step(&self) -> &Step {
        self.last.as_ref().expect("the last command is accepted")
    }

    #[track_caller]
    pub(crate) fn node(&self, id: &str) -> &abide_core::Node {
        let ix = self.run.graph().node(id).expect("the node exists");
        self.run.node(ix)
    }

    /// The last child that was asked for.
    #[track_caller]
    pub(crate) fn spawn(&self) -> Spawn {
        let spawned = self.step().effects.iter().rev().find_map(|effect| match effect {
            Effect::Spawn(spawn) => Some(spawn.clone()),
            _ => None,
        });
        spawned.expect("a child was asked for")
    }

    /// What the run told its parent last.
    #[track_caller]
    pub(crate) fn told(&self) -> Notice {
        let told = self.step().effects.iter().rev().find_map(|effect| match effect {
            Effect::Send { notice, .. } => Some(notice.clone()),
            _ => None,
        });
        told.expect("the parent was told")
    }

    /// All events so far, each as `type` or `type node`.
    pub(crate) fn history(&self) -> Vec<String> {
        lines(&self.journal)
    }

    /// The value of a variable, as text.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.run.variables().get(name).map(Json::text)
    }

    /// The value of a channel, as text.
    pub(crate) fn channel(&self, name: &str) -> Option<&str> {
        self.run.channels().get(name).map(Json::text)
    }

    /// The payload of the last event of a type at a node.
    #[track_caller]
    pub(crate) fn payload_at(&self, name: &str, node: &str) -> String {
        let at_node = |record: &&Record| type_name(record) == name && record.node.as_deref() == Some(node);
        payload_text(self.journal.iter().rev().find(at_node).expect("there is such an event"))
    }

    /// The payload of the last event of a type.
    #[track_caller]
    pub(crate) fn payload(&self, name: &str) -> String {
        let found = self.journal.iter().rfind(|record| type_name(record) == name);
        payload_text(found.expect("there is such an event"))
    }
}

pub(crate) fn type_name(record: &Record) -> &'static str {
    EventType::by_code(record.type_code).expect("the type is declared").name
}

pub(crate) fn payload_text(record: &Record) -> String {
    match &record.payload {
        Payload::Present(bytes) => String::from_utf8(bytes.to_vec()).expect("payloads are JSON"),
        Payload::Erased(_) => "(erased)".to_owned(),
    }
}

fn lines(records: &[Record]) -> Vec<String> {
    let line = |record: &Record| match &record.node {
        Some(node) => format!("{} {node}", type_name(record)),
        None => type_name(record).to_owned(),
    };
    records.iter().map(line).collect()
}

fn describe(effect: &Effect) -> String {
    let task = |TaskId { node, execution }: &TaskId| format!("{node}/{execution}");
    match effect {
        Effect::ArmTimer { timer, due } => format!("arm {timer} +{}", due - BEGIN),
        Effect::DropTimer { timer, due } => format!("drop {timer} +{}", due - BEGIN),
        Effect::Dispatch { task: id, .. } => format!("dispatch {}", task(id)),
        Effect::FinishTask(id) => format!("finish {}", task(id)),
        Effect::Offer(offer) => {
            let agent = offer.agent.as_ref().map_or(String::new(), |agent| format!(" to {agent}"));
            format!("offer {} attempt {}{agent}", task(&offer.task), offer.attempt)
        }
        Effect::OfferAgain(kind) => format!("offer {kind} again"),
        Effect::Withdraw(id) => format!("withdraw {}", task(id)),
        Effect::CallOff(id) => format!("call off {}", task(id)),
        Effect::Wake(id) => format!("wake {}", task(id)),
        Effect::Abort(id) => format!("abort {}", task(id)),
        Effect::AwaitProvider(wait) if wait.postponed => format!("postpone {}", task(&wait.task)),
        Effect::AwaitProvider(wait) => format!("await provider {}", task(&wait.task)),
        Effect::LeaveProvider(id) => format!("leave provider {}", task(id)),
        Effect::Hook(hook) => format!("hook {} {} {}", hook.agent, hook.kind.name(), hook.attempt),
        Effect::Send { to, notice } => {
            format!("tell {to} node {}: {:?} at {}", notice.node, notice.lifecycle, notice.sequence)
        }
        Effect::Hear { from, sequence } => format!("heard {from} at {sequence}"),
        Effect::Spawn(Spawn { workflow_id, parent, .. }) => {
            format!("spawn {workflow_id} for {}", parent.node)
        }
        Effect::Disown(child) => format!("disown {child}"),
        Effect::OpenInterrupt(open) => format!("open {} {}", open.kind, open.node),
        Effect::CloseInterrupt(closed) => format!("close {}", closed.kind),
        Effect::MoveDeadline { deadline, .. } => match deadline {
            Some(due) => format!("give up +{}", due - BEGIN),
            None => "give up at no known time".to_owned(),
        },
        Effect::NoteHeadway { .. } => "note headway".to_owned(),
        Effect::Notify(notify) => format!("notify attempt {}", notify.attempt),
        Effect::Cascade(Cascade { reason, .. }) => format!("cascade {reason}"),
        Effect::TakeName(_) => "take name".to_owned(),
        Effect::DependOn(run) => format!("depend on {run}"),
        Effect::Independ(run) => format!("do not depend on {run}"),
        Effect::Bid { to, watch } => format!("bid {to} to tell: {}", watch.watching),
        Effect::Order { to, order, .. } => format!("order {to}: {order:?}"),
        Effect::BidAll(watch) => format!("bid all to tell: {}", watch.watching),
        Effect::Assign(assigned) => format!("assign {}", assigned.agent),
        Effect::Unassign(agent) => format!("unassign {agent}"),
        Effect::Watch(run) => format!("watched by {run}"),
        Effect::Unwatch(run) => format!("not watched by {run}"),
        Effect::Tell { to, tidings } => format!("tell {to}: {}", tidings.status.name()),
        Effect::Announce(tidings) => format!("announce {}", tidings.status.name()),
        Effect::Enlist(row) => format!("enlist {}", row.run),
        Effect::Dismiss { run, .. } => format!("dismiss {run}"),
        Effect::NoteMember(told) => format!("note {} as {}", told.run, told.status.name()),
    }
}
