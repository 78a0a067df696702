//! A family of runs, played in memory as a shell would: journals, timers, tasks, messages and a clock.
//!
//! Who is quicker, what comes twice and who interferes is drawn from a tape. What holds for every single command is
//! checked here, as it happens.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use abide_core::{
    Answerer, Artifacts, Cancellation, Cascade, Command, Drain, Effect, Failure, Graph, Hold, InterruptId,
    InterruptionClass, Json, Key, Lifecycle, Millis, Notice, Performance, Product, RESUME_NODE, Reached,
    Record, Rejection, Report, Resolve, Run, RunId, Salt, Spawn, Start, TaskFailure, TaskId, TenantId,
    TimerId, sha256,
};
use serde_json::json;

use crate::dice::{Dice, Tape};
use crate::plan::Plan;

const BEGIN: Millis = 1_700_000_000_000;
const TENANT: TenantId = TenantId(1);

/// The words of an attempt that may have been acted on.
pub(crate) const REACHED: &str = "the service was reached";

/// More commands than any drawn family needs.
const STEPS_MAX: usize = 60_000;

/// A family that grows beyond this is told that there are no more workflows.
const RUNS_MAX: usize = 120;

/// One run, with everything that a shell keeps beside it.
pub(crate) struct Member {
    pub(crate) run: Run,
    /// Folded from the journal alone, to compare.
    twin: Run,
    pub(crate) salt: Salt,
    /// Which of the plan's definitions it follows.
    pub(crate) draft: usize,
    /// Its place in the family: the nodes and executions that led to it.
    pub(crate) path: String,
    pub(crate) journal: Vec<Record>,
    pub(crate) effects: Vec<Effect>,
    snapshot: Vec<u8>,
    timers: BTreeMap<TimerId, Millis>,
    tasks: Vec<TaskId>,
    heard: HashMap<RunId, u64>,
    open: BTreeSet<InterruptId>,
    pub(crate) children: Vec<Spawn>,
    /// A cascade reached it before its end.
    pub(crate) condemned: bool,
}

#[derive(Clone, Debug)]
enum Message {
    Notice(Notice),
    Spawn(Box<Spawn>),
    Cascade(Cascade),
}

/// Who tells whom: messages on one line keep their order.
type Line = (usize, RunId);

/// One thing that may happen next.
enum Move {
    Report(usize, TaskId),
    Deliver(Line),
    Fire(usize, TimerId),
}

pub(crate) struct Family<'p> {
    plan: &'p Plan,
    dice: Dice,
    seed: u8,
    pub(crate) members: Vec<Member>,
    index: HashMap<RunId, usize>,
    outbox: BTreeMap<usize, (Line, Message)>,
    delivered: Vec<(Line, Message)>,
    reported: Vec<(usize, Report)>,
    filed: usize,
    now: Millis,
    steps: usize,
    /// Some workflow was withheld because the family had grown too large.
    pub(crate) stunted: bool,
    /// How often something out of the ordinary was tried, by its name.
    pub(crate) tried: BTreeMap<&'static str, usize>,
}

impl<'p> Family<'p> {
    /// Plays a plan to its end. `seed` fixes ids and salts.
    pub(crate) fn play(plan: &'p Plan, tape: &Tape, seed: u8) -> Self {
        let mut family = Self {
            plan,
            dice: Dice::new(tape),
            seed,
            members: Vec::new(),
            index: HashMap::new(),
            outbox: BTreeMap::new(),
            delivered: Vec::new(),
            reported: Vec::new(),
            filed: 0,
            now: BEGIN,
            steps: 0,
            stunted: false,
            tried: BTreeMap::new(),
        };
        let graph = plan.drafts[0].graph.clone();
        let key = RunId::from_bytes([seed; 16]).of(TENANT);
        let start = Start {
            inputs: plan.inputs.clone(),
            configurable: plan.configurable.clone(),
            ..Start::of(key, [seed; 16], graph)
        };
        family.start(start, 0, String::new()).expect("the plan's own start is sound");
        while family.step() {
            family.steps += 1;
            assert!(family.steps < STEPS_MAX, "the family does not come to an end");
        }
        family
    }

    fn start(&mut self, start: Start, draft: usize, path: String) -> Result<(), Rejection> {
        let (key, salt, graph) = (start.key, start.salt, start.graph.clone());
        let (run, step) = Run::start(start, self.now)?;
        let twin = Run::empty(key, salt, graph);
        let at = self.members.len();
        assert!(self.index.insert(key.id, at).is_none(), "a run is started twice");
        self.members.push(Member {
            snapshot: run.snapshot(),
            run,
            twin,
            salt,
            draft,
            path,
            journal: Vec::new(),
            effects: Vec::new(),
            timers: BTreeMap::new(),
            tasks: Vec::new(),
            heard: HashMap::new(),
            open: BTreeSet::new(),
            children: Vec::new(),
            condemned: false,
        });
        self.take_in(at, step.records, step.effects);
        Ok(())
    }

    /// Has a run decide. A refused command leaves no trace; an accepted one folds to the same run and effects.
    fn ask(&mut self, at: usize, command: Command) -> Result<(), Rejection> {
        let member = &mut self.members[at];
        let outcome = member.run.decide(command, self.now);
        let after = member.run.snapshot();
        match outcome {
            Ok(step) => {
                member.snapshot = after;
                self.take_in(at, step.records, step.effects);
                Ok(())
            }
            Err(refused) => {
                assert!(after == member.snapshot, "a refused command left a trace: {refused}");
                Err(refused)
            }
        }
    }

    fn take_in(&mut self, at: usize, records: Vec<Record>, effects: Vec<Effect>) {
        let member = &mut self.members[at];
        let mut implied = Vec::new();
        for record in &records {
            implied.extend(member.twin.apply(record).expect("a decided record folds"));
        }
        assert_eq!(implied, effects, "folding the records implies the same effects");
        assert!(member.twin.snapshot() == member.snapshot, "folding gives another run");
        match member.run.hold() {
            Hold::None => assert_eq!(member.run.paused_at(), None),
            Hold::Pausing => assert!(member.run.tasks().next().is_some(), "a pause waits for nothing"),
            Hold::Paused | Hold::Stopped => assert!(member.run.paused_at().is_some()),
            Hold::Escalated => {
                let waits = member.run.interrupts().next().is_some()
                    || member.run.timers().contains_key(&TimerId::Resume)
                    || member.run.is_ending();
                assert!(
                    waits && member.run.paused_at().is_some(),
                    "a run is held for people and asks nobody"
                );
            }
        }
        assert!(member.run.hold() == Hold::None || !member.lifecycle().is_terminal(), "an ended run is held");
        member.journal.extend(records);
        member.effects.extend(effects.iter().cloned());
        for effect in effects {
            self.obey(at, effect);
        }
    }

    fn obey(&mut self, at: usize, effect: Effect) {
        let member = &mut self.members[at];
        match effect {
            Effect::ArmTimer { timer, due } => {
                assert_eq!(member.timers.insert(timer, due), None, "a timer is armed twice");
            }
            Effect::DropTimer { timer, due } => {
                assert_eq!(member.timers.remove(&timer), Some(due), "a timer is dropped that is not there");
            }
            Effect::Dispatch { task, .. } => {
                assert!(!member.tasks.contains(&task), "a task is dispatched twice");
                member.tasks.push(task);
            }
            Effect::FinishTask(task) => {
                let found = member.tasks.iter().position(|known| *known == task);
                member.tasks.remove(found.expect("a task ends that was dispatched"));
            }
            Effect::Send { to, notice } => self.file((at, to), Message::Notice(notice)),
            Effect::Spawn(spawn) => {
                member.children.push(spawn.clone());
                self.file((at, spawn.child), Message::Spawn(Box::new(spawn)));
            }
            Effect::Disown(child) => {
                // It keeps its name in the story, but nothing is ever asked of it again.
                let known = member.children.iter_mut().find(|spawn| spawn.child == child);
                known.expect("a child is struck off that was asked for").cascade = false;
            }
            Effect::Cascade(cascade) => {
                let along = member.children.iter().filter(|spawn| spawn.cascade).map(|spawn| spawn.child);
                for child in along.collect::<Vec<_>>() {
                    self.file((at, child), Message::Cascade(cascade.clone()));
                }
            }
            Effect::OpenInterrupt(open) => {
                assert!(member.open.insert(open.id), "an interrupt is opened twice");
            }
            Effect::MoveDeadline { id, .. } => assert!(member.open.contains(&id), "what is closed is moved"),
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
            | Effect::NoteMember(_) => panic!("nobody waits for another run here, and there are no groups"),
            Effect::NoteHeadway { .. } => panic!("nobody votes here"),
            Effect::Notify(_) => panic!("nobody is told of anything here"),
            Effect::TakeName(_) => panic!("nobody converses here"),
            Effect::Offer(_)
            | Effect::OfferAgain(_)
            | Effect::Withdraw(_)
            | Effect::CallOff(_)
            | Effect::Wake(_)
            | Effect::Abort(_)
            | Effect::AwaitProvider(_)
            | Effect::LeaveProvider(_)
            | Effect::Hook(_) => {
                panic!("no worker is here")
            }
            Effect::CloseInterrupt(closed) => {
                assert!(member.open.remove(&closed.id), "an interrupt is closed that is not open");
            }
            Effect::Hear { from, sequence } => {
                let before = member.heard.insert(from, sequence);
                assert!(before.is_none_or(|before| before < sequence), "something is heard twice");
            }
        }
    }

    fn file(&mut self, line: Line, message: Message) {
        self.outbox.insert(self.filed, (line, message));
        self.filed += 1;
    }
}

/// What happens next.
impl Family<'_> {
    /// One thing happens. `false` if nothing is left to happen.
    fn step(&mut self) -> bool {
        if !self.dice.is_spent() && self.dice.chance(22) {
            self.interfere();
        }
        let moves = self.moves();
        if !moves.is_empty() {
            let chosen = self.dice.below(moves.len());
            let chosen = moves.into_iter().nth(chosen).expect("a choice is one of the moves");
            self.make(chosen);
            return true;
        }
        let next = self.members.iter().flat_map(|member| member.timers.values()).min();
        if let Some(&due) = next {
            let late = if self.dice.chance(20) { self.dice.below(50) as Millis } else { 0 };
            assert!(due > self.now, "a timer that is due was passed over");
            self.now = due + late;
            return true;
        }
        // Nothing happens any more: whoever is paused for good is let go on.
        let held = self.members.iter().position(|member| member.run.hold() == Hold::Paused);
        if let Some(at) = held {
            self.ask(at, Command::Resume { reason: None, by: None }).expect("a paused run can be resumed");
            return true;
        }
        self.decide_an_escalation()
    }

    /// Somebody accepts that a run which was held for people goes on. `false` if none is.
    fn decide_an_escalation(&mut self) -> bool {
        let held = self.members.iter().position(|member| member.run.hold() == Hold::Escalated);
        let Some(at) = held else { return false };
        let run = &self.members[at].run;
        let id = run.interrupt_of(RESUME_NODE).expect("a run that is held for people asks them");
        let action = if !self.plan.calm && self.dice.chance(30) { "reject" } else { "accept" };
        let value = Json::of(&json!({ "action": action }));
        let by = Answerer::of("ops");
        self.ask(at, Command::Resolve(Resolve { id, value, by })).expect("the answer is taken");
        true
    }

    fn moves(&self) -> Vec<Move> {
        let mut moves = Vec::new();
        for (at, member) in self.members.iter().enumerate() {
            moves.extend(member.tasks.iter().map(|task| Move::Report(at, task.clone())));
            let due = member.timers.iter().filter(|(_, due)| **due <= self.now);
            moves.extend(due.map(|(timer, _)| Move::Fire(at, timer.clone())));
        }
        let mut lines: VecDeque<Line> = VecDeque::new();
        for (line, _) in self.outbox.values() {
            if !lines.contains(line) {
                lines.push_back(*line);
            }
        }
        moves.extend(lines.into_iter().map(Move::Deliver));
        moves
    }

    fn make(&mut self, chosen: Move) {
        match chosen {
            Move::Report(at, task) => {
                let report = Report { outcome: self.perform(at, &task), task };
                self.reported.push((at, report.clone()));
                self.ask(at, Command::Report(report)).expect("an outcome that is waited for is taken");
            }
            Move::Fire(at, timer) => {
                let command = match timer {
                    TimerId::Resume => Command::ResumeDue { artifacts: Artifacts::READABLE },
                    timer => Command::Fire(timer),
                };
                self.ask(at, command).expect("a timer that is due fires");
            }
            Move::Deliver(line) => {
                let found = self.outbox.iter().find(|(_, (other, _))| *other == line).map(|(at, _)| *at);
                let (line, message) = found.and_then(|at| self.outbox.remove(&at)).expect("it was filed");
                if self.deliver(line, message.clone()) {
                    self.delivered.push((line, message));
                }
            }
        }
    }

    /// What an executor reports. What other systems answer is fixed by the plan, not by who is quicker.
    fn perform(&self, at: usize, task: &TaskId) -> Result<Product, TaskFailure> {
        let member = &self.members[at];
        let request = match member.run.perform_task(task).expect("the task is under way") {
            Performance::Done(outcome) => return outcome.map_err(for_good),
            Performance::Http(request) => request,
            Performance::Model(_) => panic!("no node of these graphs asks a model"),
        };
        let ix = member.run.graph().node(&task.node).expect("the node is in the graph");
        let attempt = member.run.node(ix).attempt;
        let seed = format!("{} {} {task:?} {attempt}", self.plan.answers, member.path);
        let drawn = sha256(seed.as_bytes())[0];
        // An answer may repeat the request, as a clumsy service does.
        let url = format!("{:?} {:?}", request.url, request.headers);
        let failure = Failure::new("http_status", format!("the service did not like {url}"));
        match drawn % 16 {
            0..=10 => Ok(Product::of(Some(Json::of(&json!({"status": 200, "x": drawn % 5, "y": url}))))),
            11 => Err(TaskFailure {
                failure,
                retryable: false,
                reached: Reached::Maybe,
                class: InterruptionClass::ToolFailure,
            }),
            12 | 13 => Err(TaskFailure {
                failure,
                retryable: true,
                reached: Reached::No,
                class: InterruptionClass::ToolFailure,
            }),
            14 => {
                let failure = Failure::new("http_status", format!("{REACHED}, but it did not like {url}"));
                Err(TaskFailure {
                    failure,
                    retryable: true,
                    reached: Reached::Maybe,
                    class: InterruptionClass::ToolFailure,
                })
            }
            _ => {
                let details = Some(Json::of(&json!({"retryAfterMs": 250})));
                let failure = Failure { details, ..failure };
                Err(TaskFailure {
                    failure,
                    retryable: true,
                    reached: Reached::No,
                    class: InterruptionClass::ToolFailure,
                })
            }
        }
    }

    /// Delivers a message as the outbox does. Whether it may come twice.
    fn deliver(&mut self, line: Line, message: Message) -> bool {
        let (sender, receiver) = line;
        let told = match message {
            Message::Spawn(spawn) => return self.start_child(sender, *spawn),
            Message::Notice(notice) => {
                let Some(&at) = self.index.get(&receiver) else { return true };
                let from = self.members[sender].run.key().id;
                let heard = self.members[at].heard.get(&from).copied();
                self.ask(at, Command::Hear { notice, heard })
            }
            Message::Cascade(cascade) => {
                let Some(&at) = self.index.get(&receiver) else { return true };
                let member = &mut self.members[at];
                member.condemned |= !member.run.lifecycle().is_terminal();
                let (reason, parent_run_id) = (Some(cascade.reason), Some(cascade.from));
                self.ask(
                    at,
                    Command::Cancel(Cancellation {
                        reason,
                        cancelled_by: None,
                        parent_run_id,
                        abandonment_reason: None,
                    }),
                )
            }
        };
        let moot = matches!(told, Err(Rejection::Ended(_) | Rejection::Cancelling | Rejection::HeardBefore));
        assert!(told.is_ok() || moot, "a message can't be delivered: {told:?}");
        true
    }

    fn start_child(&mut self, parent: usize, spawn: Spawn) -> bool {
        let member = &self.members[parent];
        // A parent that failed or was cancelled starts no more children that would go with it.
        let gone = matches!(member.run.lifecycle(), Lifecycle::Failed | Lifecycle::Cancelled);
        if spawn.cascade && gone || self.index.contains_key(&spawn.child) {
            return true;
        }
        let (child, node, workflow) = (spawn.child, spawn.parent.node.clone(), spawn.workflow_id.clone());
        let path = format!("{}/{node}.{}", member.path, spawn.parent.execution.unwrap_or(0));
        let full = self.members.len() >= RUNS_MAX;
        self.stunted |= full;
        let error = match self.plan.named(&workflow).filter(|_| !full) {
            None => Failure::new("workflow_not_found", "there is no such workflow"),
            Some(draft) => {
                let graph: Arc<Graph> = self.plan.drafts[draft].graph.clone();
                let start = Start {
                    inputs: spawn.inputs,
                    parent: Some(spawn.parent),
                    sensitive: spawn.sensitive,
                    unset: spawn.unset,
                    ..Start::of(child.of(TENANT), [self.seed ^ 1; 16], graph)
                };
                match self.start(start, draft, path) {
                    Ok(()) => return true,
                    Err(refused) => Failure::new("child_refused", refused.to_string()),
                }
            }
        };
        let told = self.ask(parent, Command::RefuseChild { child, node, error });
        assert!(matches!(told, Ok(()) | Err(Rejection::Ended(_))), "a refusal is not taken: {told:?}");
        false
    }
}

/// What nobody asked for: operators, repeats, impatience.
impl Family<'_> {
    fn interfere(&mut self) {
        // The youngest runs are the likeliest to be open.
        let open = |member: &Member| !member.lifecycle().is_terminal();
        let young = self.members.iter().rposition(open).filter(|_| self.dice.chance(60));
        let at = young.unwrap_or_else(|| self.dice.below(self.members.len()));
        let calm = self.plan.calm;
        match self.dice.below(14) {
            0 | 1 => self.repeat_message(),
            2 => self.repeat_report(),
            3 => self.fire_early(),
            4 => self.fire_again(at),
            5 => self.now += self.dice.below(60) as Millis,
            6 | 7 if !calm => {
                let (name, drain) =
                    *self.dice.pick(&[("pause", Drain::Immediate), ("drain", Drain::CurrentNode)]);
                self.try_out(name, at, Command::Pause { reason: None, by: None, drain });
            }
            8 | 9 if !calm => {
                let held = self.members.iter().position(|member| member.run.hold() != Hold::None);
                self.try_out("resume", held.unwrap_or(at), Command::Resume { reason: None, by: None });
            }
            10..=12 if !calm => self.try_out("cancel", at, Command::Cancel(Cancellation::default())),
            _ => self.mistake(at),
        }
    }

    fn try_out(&mut self, name: &'static str, at: usize, command: Command) {
        let taken = self.ask(at, command).is_ok();
        *self.tried.entry(name).or_default() += usize::from(taken);
    }

    /// A message comes twice. The receiver's commit would have taken it away, so nothing may come of it.
    fn repeat_message(&mut self) {
        if self.delivered.is_empty() {
            return;
        }
        let (line, message) = self.dice.pick(&self.delivered).clone();
        let before: usize = self.members.iter().map(|member| member.journal.len()).sum();
        self.deliver(line, message);
        let after: usize = self.members.iter().map(|member| member.journal.len()).sum();
        assert_eq!(before, after, "a message that came twice was taken twice");
        *self.tried.entry("message again").or_default() += 1;
    }

    fn repeat_report(&mut self) {
        if self.reported.is_empty() {
            return;
        }
        let (at, report) = self.dice.pick(&self.reported).clone();
        // A retried execution has one task after the other under the same name, and a shell tells them by fences.
        if !self.members[at].tasks.contains(&report.task) {
            let told = self.ask(at, Command::Report(report));
            assert!(matches!(told, Err(Rejection::NoSuchTask | Rejection::Ended(_))), "{told:?}");
            *self.tried.entry("report again").or_default() += 1;
        }
    }

    fn fire_early(&mut self) {
        let timers = self.members.iter().enumerate().flat_map(|(at, member)| {
            let now = self.now.max(member.run.head().at);
            let early = member.timers.iter().filter(move |(_, due)| **due > now);
            early.map(move |(timer, due)| (at, timer.clone(), *due))
        });
        let timers: Vec<(usize, TimerId, Millis)> = timers.collect();
        if !timers.is_empty() {
            let (at, timer, due) = self.dice.pick(&timers).clone();
            let told = self.ask(at, Command::Fire(timer));
            assert_eq!(told, Err(Rejection::NotDue { due }));
            *self.tried.entry("fire early").or_default() += 1;
        }
    }

    fn fire_again(&mut self, at: usize) {
        let gone = self.members[at].effects.iter().rev().find_map(|effect| match effect {
            Effect::DropTimer { timer, .. } if !self.members[at].timers.contains_key(timer) => Some(timer),
            _ => None,
        });
        if let Some(timer) = gone.cloned() {
            let told = self.ask(at, Command::Fire(timer));
            assert!(matches!(told, Err(Rejection::NoSuchTimer | Rejection::Ended(_))), "{told:?}");
            *self.tried.entry("fire again").or_default() += 1;
        }
    }

    /// Commands that make no sense.
    fn mistake(&mut self, at: usize) {
        let task = TaskId { node: "n0".into(), execution: 999 };
        let outcome = Ok(Product::default());
        assert!(self.ask(at, Command::Report(Report { task, outcome })).is_err());
        let timer = TimerId::Delay { node: "elsewhere".into(), execution: 1 };
        assert!(self.ask(at, Command::Fire(timer)).is_err());
        *self.tried.entry("mistake").or_default() += 1;
    }
}

impl Member {
    pub(crate) fn key(&self) -> Key {
        self.run.key()
    }

    pub(crate) fn lifecycle(&self) -> Lifecycle {
        self.run.lifecycle()
    }

    /// Whether nothing is left of it that a shell would have to do.
    pub(crate) fn is_tidy(&self) -> bool {
        self.timers.is_empty() && self.tasks.is_empty() && self.run.timers().is_empty()
    }
}

fn for_good(failure: Failure) -> TaskFailure {
    TaskFailure { failure, retryable: false, reached: Reached::Maybe, class: InterruptionClass::ToolFailure }
}
