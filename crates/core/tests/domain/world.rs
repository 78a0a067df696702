//! Several runs that talk to each other, in memory: journals, rows, timers, messages and a clock.
//!
//! Whoever tells a story names its runs; whatever they tell each other is delivered by [`World::settle`]. A world with dice
//! delivers it in any order, and some of it again. What holds for every command is checked as it happens, and what holds
//! of all runs together whenever nothing is left to be told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use abide_core::{
    Answerer, Artifacts, BondCommand, Cancellation, Cascade, Command, DependsOn, Effect, Failure, Governance,
    GovernanceSet, Graph, GroupCommand, GroupSpec, Hand, HandAsk, HandOp, InterruptId, Json, Key, Lifecycle,
    MemberAdded, MemberRow, Millis, NewChild, Notice, Order, Record, Rejection, Resolve, Role, Run, RunId,
    Salt, Spawn, Start, Status, Step, Tidings, TimerId, Watch,
};
use serde_json::{Value, json};

use crate::seeded::Dice;
use crate::story::forks::Origin;
use crate::story::{BEGIN, payload_text, run_id, type_name};

const TENANT: abide_core::TenantId = abide_core::TenantId(1);

const SALT: Salt = [7; 16];

/// Who does what is done by hand, if nobody else is named.
pub(crate) const ANN: &str = "ann";

/// More moves than any world needs to come to rest.
const MOVES_MAX: usize = 20_000;

/// Longer journals are not forked after each of their events.
const FORKED_EVENTS_MAX: usize = 40;

/// One run, with everything that a shell keeps beside it.
pub(crate) struct Being {
    run: Run,
    /// Folded from the journal alone, to compare.
    twin: Run,
    journal: Vec<Record>,
    timers: BTreeMap<TimerId, Millis>,
    heard: BTreeMap<RunId, u64>,
    watchers: BTreeSet<RunId>,
    dependencies: BTreeSet<RunId>,
    members: BTreeMap<RunId, MemberRow>,
    /// Its children, and whether each goes with it.
    children: BTreeMap<RunId, bool>,
    open: BTreeSet<InterruptId>,
}

#[derive(Clone, Debug)]
enum Message {
    Notice(Notice),
    Spawn(Box<Spawn>),
    Cascade(Cascade),
    Watch(Watch),
    Tidings(Tidings),
    Order(Order),
}

/// A message, by what names it in an outbox.
#[derive(Clone, Debug)]
struct Letter {
    sender: RunId,
    sequence: u64,
    receiver: RunId,
    message: Message,
}

impl Letter {
    fn is_named(&self, other: &Self) -> bool {
        (self.sender, self.sequence, self.receiver) == (other.sender, other.sequence, other.receiver)
    }

    /// Whether what it says carries its sender's sequence, so that it may overtake others.
    fn may_overtake(&self) -> bool {
        matches!(
            self.message,
            Message::Notice(_) | Message::Watch(_) | Message::Tidings(_) | Message::Order(_)
        )
    }
}

pub(crate) struct World {
    pub(crate) now: Millis,
    beings: BTreeMap<RunId, Being>,
    names: BTreeMap<String, RunId>,
    workflows: BTreeMap<String, Arc<Graph>>,
    outbox: Vec<Letter>,
    delivered: Vec<Letter>,
    begun: u8,
    dice: Option<Dice>,
    /// What was said of dependencies, groups and their deadlines, to compare.
    waits: BTreeMap<RunId, BTreeSet<RunId>>,
    belongs: BTreeMap<RunId, BTreeSet<RunId>>,
    deadlines: BTreeMap<RunId, Millis>,
}

/// A workflow whose only node is done by hand.
pub(crate) fn by_hand() -> Arc<Graph> {
    let definition = json!({
        "id": "hand", "name": "By hand", "version": "1", "triggers": [], "variables": [], "metadata": {},
        "settings": {}, "edges": [],
        "nodes": [{ "id": "self", "typeId": "core.byHand", "name": "Self", "position": {"x": 0, "y": 0},
                    "config": {}, "inputs": {} }],
    });
    Arc::new(Graph::admit(definition.to_string().as_bytes()).expect("the definition is sound"))
}

/// A question to which any text is an answer.
pub(crate) fn question() -> Json {
    Json::of(&json!({
        "kind": "clarification", "data": { "questions": [{ "id": "answer", "question": "Well?" }] },
    }))
}

/// A question that is given up after an hour.
pub(crate) fn fleeting_question() -> Json {
    Json::of(&json!({
        "kind": "clarification", "timeoutMs": 3_600_000,
        "data": { "questions": [{ "id": "answer", "question": "Well?" }] },
    }))
}

pub(crate) fn until(deadline: Millis) -> Governance {
    Governance { deadline: Some(deadline), ..Governance::default() }
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            now: BEGIN,
            beings: BTreeMap::new(),
            names: BTreeMap::new(),
            workflows: BTreeMap::from([("hand".to_owned(), by_hand())]),
            outbox: Vec::new(),
            delivered: Vec::new(),
            begun: 0,
            dice: None,
            waits: BTreeMap::new(),
            belongs: BTreeMap::new(),
            deadlines: BTreeMap::new(),
        }
    }

    /// A world in which messages take their time.
    pub(crate) fn shuffled(seed: u64) -> Self {
        Self { dice: Some(Dice::of(seed)), ..Self::new() }
    }

    fn new_key(&mut self, name: &str) -> Key {
        self.begun += 1;
        let id = run_id(self.begun);
        assert!(self.names.insert(name.to_owned(), id).is_none(), "{name} is there already");
        id.of(TENANT)
    }

    pub(crate) fn id(&self, name: &str) -> RunId {
        *self.names.get(name).unwrap_or_else(|| panic!("nobody is called {name}"))
    }

    pub(crate) fn name_of(&self, id: RunId) -> &str {
        self.names.iter().find(|(_, known)| **known == id).map_or("somebody", |(name, _)| name)
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.names.keys().cloned().collect()
    }

    #[track_caller]
    fn being(&self, name: &str) -> &Being {
        self.beings.get(&self.id(name)).unwrap_or_else(|| panic!("{name} has not started"))
    }

    #[track_caller]
    pub(crate) fn run(&self, name: &str) -> &Run {
        &self.being(name).run
    }

    /// The timers that are armed, by their names, so long after the beginning.
    pub(crate) fn timers(&self, name: &str) -> BTreeMap<String, Millis> {
        let timers = self.being(name).timers.iter();
        timers.map(|(timer, due)| (timer.to_string(), due - BEGIN)).collect()
    }

    pub(crate) fn journal(&self, name: &str) -> &[Record] {
        &self.being(name).journal
    }

    /// All events of a run, each by its type.
    pub(crate) fn history(&self, name: &str) -> Vec<&'static str> {
        self.being(name).journal.iter().map(type_name).collect()
    }

    /// The payloads of all events of a type.
    pub(crate) fn payloads(&self, name: &str, kind: &str) -> Vec<Value> {
        let journal = self.being(name).journal.iter().filter(|record| type_name(record) == kind);
        journal
            .map(|record| serde_json::from_str(&payload_text(record)).expect("payloads are JSON"))
            .collect()
    }

    pub(crate) fn member(&self, group: &str, member: &str) -> Option<&MemberRow> {
        self.being(group).members.get(&self.id(member))
    }

    #[track_caller]
    pub(crate) fn stands(&mut self, name: &str, status: Status) -> &mut Self {
        assert_eq!(self.run(name).status(), status, "of {name}: {:?}", self.history(name));
        self
    }

    /// Why a run is blocked, if it is.
    pub(crate) fn blocked_for(&self, name: &str) -> Option<&'static str> {
        self.run(name).blocked_reason().map(abide_core::event::BlockedReason::name)
    }
}

/// What may happen.
impl World {
    pub(crate) fn publish(&mut self, graph: Graph) -> Arc<Graph> {
        let graph = Arc::new(graph);
        self.workflows.insert(graph.workflow_id.to_string(), graph.clone());
        graph
    }

    /// A run that is done by hand.
    pub(crate) fn begin(&mut self, name: &str) -> &mut Self {
        self.begin_after(name, &[])
    }

    pub(crate) fn begin_after(&mut self, name: &str, others: &[&str]) -> &mut Self {
        self.begin_with(name, by_hand(), others, |start| start)
    }

    pub(crate) fn draft_after(&mut self, name: &str, others: &[&str]) -> &mut Self {
        self.begin_with(name, by_hand(), others, |start| Start { draft: true, ..start })
    }

    #[track_caller]
    pub(crate) fn begin_with(
        &mut self,
        name: &str,
        graph: Arc<Graph>,
        others: &[&str],
        more: impl FnOnce(Start) -> Start,
    ) -> &mut Self {
        let depends_on: Vec<DependsOn> = others.iter().map(|other| self.upstream(other)).collect();
        let key = self.new_key(name);
        self.waits.insert(key.id, depends_on.iter().map(|on| on.run).collect());
        let start = Start { depends_on, ..Start::of(key, SALT, graph) };
        self.start(more(start)).expect("the start is accepted");
        self
    }

    /// Begins one that may be refused.
    pub(crate) fn try_begin(
        &mut self,
        name: &str,
        graph: Arc<Graph>,
        more: impl FnOnce(Start) -> Start,
    ) -> Result<(), Rejection> {
        let key = self.new_key(name);
        self.start(more(Start::of(key, SALT, graph))).map(drop)
    }

    fn upstream(&self, name: &str) -> DependsOn {
        DependsOn { run: self.id(name), name: None, status: Some(self.run(name).status()) }
    }

    pub(crate) fn group(&mut self, name: &str, governance: Governance) -> &mut Self {
        let key = self.new_key(name);
        self.deadlines.extend(governance.deadline.map(|deadline| (key.id, deadline)));
        let spec = GroupSpec { name: name.to_owned(), governance, ..GroupSpec::default() };
        self.start(Start::group(key, SALT, spec)).expect("the group is accepted");
        self
    }

    pub(crate) fn try_add(&mut self, group: &str, member: &str) -> Result<(), Rejection> {
        let run = self.run(member);
        let added = MemberAdded {
            run: run.key().id,
            role: Role::Member,
            priority: 0,
            status: run.status(),
            sequence: run.head().next - 1,
            by: None,
        };
        let known = self.member(group, member).cloned();
        self.ask(group, Command::Group(Box::new(GroupCommand::Add { member: added, known })))?;
        let (group, member) = (self.id(group), self.id(member));
        self.belongs.entry(group).or_default().insert(member);
        Ok(())
    }

    #[track_caller]
    pub(crate) fn add(&mut self, group: &str, members: &[&str]) -> &mut Self {
        for member in members {
            self.try_add(group, member).expect("the member is accepted");
        }
        self
    }

    pub(crate) fn try_remove(&mut self, group: &str, member: &str) -> Result<(), Rejection> {
        let known = self.member(group, member).cloned();
        let run = self.id(member);
        self.ask(group, Command::Group(Box::new(GroupCommand::Remove { run, known, by: None })))?;
        let group = self.id(group);
        self.belongs.entry(group).or_default().remove(&run);
        Ok(())
    }

    pub(crate) fn try_govern(&mut self, group: &str, governance: Governance) -> Result<(), Rejection> {
        let deadline = governance.deadline;
        self.ask(
            group,
            Command::Group(Box::new(GroupCommand::Govern {
                set: GovernanceSet { governance, by: None },
                version: None,
            })),
        )?;
        let group = self.id(group);
        match deadline {
            Some(deadline) => drop(self.deadlines.insert(group, deadline)),
            None => drop(self.deadlines.remove(&group)),
        }
        Ok(())
    }

    #[track_caller]
    pub(crate) fn govern(&mut self, group: &str, governance: Governance) -> &mut Self {
        self.try_govern(group, governance).expect("it is accepted");
        self
    }

    pub(crate) fn close(&mut self, group: &str) -> Result<(), Rejection> {
        self.ask(group, Command::Group(Box::new(GroupCommand::Close)))
    }

    pub(crate) fn try_depend(&mut self, name: &str, on: &str) -> Result<(), Rejection> {
        let on = self.upstream(on);
        let (run, upstream) = (self.id(name), on.run);
        self.ask(name, Command::Bond(Box::new(BondCommand::Depend { on, by: None, driver: None })))?;
        self.waits.entry(run).or_default().insert(upstream);
        Ok(())
    }

    #[track_caller]
    pub(crate) fn depend(&mut self, name: &str, on: &str) -> &mut Self {
        self.try_depend(name, on).expect("the dependency is accepted");
        self
    }

    pub(crate) fn independ(&mut self, name: &str, on: &str) -> Result<(), Rejection> {
        let (run, on) = (self.id(name), self.id(on));
        self.ask(name, Command::Bond(Box::new(BondCommand::Independ { run: on, by: None, driver: None })))?;
        self.waits.entry(run).or_default().remove(&on);
        Ok(())
    }

    pub(crate) fn activate(&mut self, name: &str) -> Result<(), Rejection> {
        self.ask(name, Command::Bond(Box::new(BondCommand::Activate { by: None })))
    }

    /// Somebody has a run that is done by hand start another one below it.
    pub(crate) fn adopt(&mut self, parent: &str, name: &str, others: &[&str]) -> Result<(), Rejection> {
        let adoption = self.adoption(name, others);
        self.ask(parent, adoption)
    }

    /// What has a run that is done by hand start another one below it.
    pub(crate) fn adoption(&mut self, name: &str, others: &[&str]) -> Command {
        let depends_on: Vec<DependsOn> = others.iter().map(|other| self.upstream(other)).collect();
        let key = self.new_key(name);
        self.waits.insert(key.id, depends_on.iter().map(|on| on.run).collect());
        let child = NewChild {
            child: key.id,
            workflow_id: "hand".to_owned(),
            inputs: abide_core::JsonMap::new(),
            sensitive: Vec::new(),
            depends_on,
            draft: false,
            by: None,
        };
        Command::Adopt(Box::new(child))
    }

    pub(crate) fn by(&mut self, name: &str, agent: &str, op: HandOp) -> Result<(), Rejection> {
        self.ask(
            name,
            Command::Hand(Box::new(Hand { node: None, agent: agent.to_owned(), principal: None, op })),
        )
    }

    #[track_caller]
    pub(crate) fn does(&mut self, name: &str, op: HandOp) -> &mut Self {
        self.by(name, ANN, op).unwrap_or_else(|refused| panic!("{ANN} is refused {name}: {refused}"));
        self
    }

    #[track_caller]
    pub(crate) fn claim(&mut self, name: &str) -> &mut Self {
        self.does(name, HandOp::Claim);
        assert_eq!(self.holder(name).as_deref(), Some(ANN), "{ANN} did not get {name}");
        self
    }

    /// Who has a run that is done by hand.
    pub(crate) fn holder(&self, name: &str) -> Option<String> {
        let run = self.run(name);
        let ix = run.hand_node(None).expect("it is done by hand");
        run.claim(ix).and_then(|claim| claim.agent.clone())
    }

    /// Who gets it once they may, in their order.
    pub(crate) fn waiting(&self, name: &str) -> Vec<String> {
        let run = self.run(name);
        let ix = run.hand_node(None).expect("it is done by hand");
        run.claim(ix).map(|claim| claim.waiting.clone()).unwrap_or_default()
    }

    #[track_caller]
    pub(crate) fn asks(&mut self, name: &str) -> &mut Self {
        self.asks_for(name, question(), None)
    }

    #[track_caller]
    pub(crate) fn asks_for(&mut self, name: &str, payload: Json, ladder: Option<Value>) -> &mut Self {
        let ladder = ladder.map(|ladder| Json::of(&ladder));
        self.does(name, HandOp::Ask(Box::new(HandAsk { payload, ladder, respondents: None })))
    }

    /// Somebody has a run and asks: it waits for people.
    #[track_caller]
    pub(crate) fn suspend(&mut self, name: &str) -> &mut Self {
        self.claim(name).asks(name)
    }

    #[track_caller]
    pub(crate) fn complete(&mut self, name: &str) -> &mut Self {
        self.does(name, HandOp::Complete { outputs: None })
    }

    #[track_caller]
    pub(crate) fn complete_with(&mut self, name: &str, outputs: &Value) -> &mut Self {
        self.does(name, HandOp::Complete { outputs: Some(Json::of(outputs)) })
    }

    #[track_caller]
    pub(crate) fn fail(&mut self, name: &str) -> &mut Self {
        self.does(name, HandOp::Fail(Failure::new("no_paper", "the printer has no paper")))
    }

    pub(crate) fn try_answer(&mut self, name: &str) -> Result<(), Rejection> {
        let open = self.run(name).interrupts().find(|open| open.requested.topic.is_none());
        let id = open.expect("it asks").requested.interrupt_id;
        self.try_answer_to(name, id)
    }

    pub(crate) fn try_answer_to(&mut self, name: &str, id: InterruptId) -> Result<(), Rejection> {
        let value = Json::of(&json!({ "answers": { "answer": "well" } }));
        self.ask(name, Command::Resolve(Resolve { id, value, by: Answerer::of("alice") }))
    }

    #[track_caller]
    pub(crate) fn answer(&mut self, name: &str) -> &mut Self {
        self.try_answer(name).unwrap_or_else(|refused| panic!("the answer to {name} is refused: {refused}"));
        self
    }

    #[track_caller]
    pub(crate) fn cancel(&mut self, name: &str) -> &mut Self {
        self.ask(name, Command::Cancel(Cancellation::default())).expect("it is cancelled");
        self
    }

    /// Has a run decide. A refused command leaves no trace; an accepted one folds to the same run and effects.
    #[track_caller]
    pub(crate) fn ask(&mut self, name: &str, command: Command) -> Result<(), Rejection> {
        let id = self.id(name);
        self.decide(id, command)
    }

    #[track_caller]
    pub(crate) fn accept(&mut self, name: &str, command: Command) -> &mut Self {
        self.ask(name, command).unwrap_or_else(|refused| panic!("{name} refuses: {refused}"));
        self
    }

    fn decide(&mut self, id: RunId, command: Command) -> Result<(), Rejection> {
        let now = self.now;
        let being = self.beings.get_mut(&id).expect("it has started");
        let before = being.run.snapshot();
        match being.run.decide(command, now) {
            Ok(step) => {
                self.take_in(id, step);
                Ok(())
            }
            Err(refused) => {
                assert!(being.run.snapshot() == before, "a refused command left a trace: {refused}");
                Err(refused)
            }
        }
    }

    fn start(&mut self, start: Start) -> Result<(), Rejection> {
        let (key, salt, graph) = (start.key, start.salt, start.graph.clone());
        let (run, step) = Run::start(start, self.now)?;
        let being = Being {
            twin: Run::empty(key, salt, graph),
            run,
            journal: Vec::new(),
            timers: BTreeMap::new(),
            heard: BTreeMap::new(),
            watchers: BTreeSet::new(),
            dependencies: BTreeSet::new(),
            members: BTreeMap::new(),
            children: BTreeMap::new(),
            open: BTreeSet::new(),
        };
        assert!(self.beings.insert(key.id, being).is_none(), "a run is started twice");
        self.take_in(key.id, step);
        Ok(())
    }

    fn take_in(&mut self, id: RunId, step: Step) {
        let being = self.beings.get_mut(&id).expect("it decided");
        let mut implied = Vec::new();
        for record in &step.records {
            implied.extend(being.twin.apply(record).expect("a decided record folds"));
        }
        assert_eq!(implied, step.effects, "folding the records implies the same effects");
        let (run, twin) = (&being.run, &being.twin);
        let snapshot = run.snapshot();
        assert!(twin.snapshot() == snapshot, "folding gives another run");
        assert_eq!(twin.summary(), run.summary());
        let woken = Run::from_snapshot(run.key(), SALT, run.graph().clone(), &snapshot);
        let woken = woken.expect("this version reads what it wrote");
        assert_eq!(format!("{woken:?}"), format!("{run:?}"), "nothing is left out of a snapshot");
        assert!(run.is_at_rest(), "a decision leaves nothing undone: {:?}", run.why());
        being.journal.extend(step.records);
        let base = step.base.next;
        for effect in step.effects {
            self.obey(id, base, effect);
        }
    }
}

/// What a shell does.
impl World {
    fn obey(&mut self, id: RunId, base: u64, effect: Effect) {
        let being = self.beings.get_mut(&id).expect("it decided");
        match effect {
            Effect::ArmTimer { timer, due } => {
                assert_eq!(being.timers.insert(timer, due), None, "a timer is armed twice");
            }
            Effect::DropTimer { timer, due } => {
                assert_eq!(being.timers.remove(&timer), Some(due), "a timer is dropped that is not there");
            }
            Effect::Hear { from, sequence } => {
                let before = being.heard.insert(from, sequence);
                assert!(before.is_none_or(|before| before < sequence), "something is heard twice");
            }
            Effect::OpenInterrupt(open) => assert!(being.open.insert(open.id), "it is opened twice"),
            Effect::CloseInterrupt(closed) => assert!(being.open.remove(&closed.id), "it was not open"),
            Effect::MoveDeadline { id, .. } => assert!(being.open.contains(&id), "what is closed is moved"),
            Effect::Notify(notify) => assert!(being.open.contains(&notify.id), "what is closed is told"),
            Effect::DependOn(run) => assert!(being.dependencies.insert(run), "it waits for it already"),
            Effect::Independ(run) => assert!(being.dependencies.remove(&run), "it did not wait for it"),
            Effect::Assign(_) | Effect::Unassign(_) => {}
            Effect::Watch(run) => drop(being.watchers.insert(run)),
            Effect::Unwatch(run) => drop(being.watchers.remove(&run)),
            Effect::Enlist(row) => assert!(being.members.insert(row.run, row).is_none(), "it is a member"),
            Effect::Dismiss { run, was, cost_micros } => {
                let row = being.members.remove(&run).expect("it is a member");
                assert_eq!((row.status, row.cost_micros), (was, cost_micros));
            }
            Effect::NoteMember(told) => {
                let row = being.members.get_mut(&told.run).expect("it is a member");
                assert_eq!((row.status, row.cost_micros), (told.was, told.cost_was));
                assert!(row.heard < told.sequence, "a member is heard twice");
                row.note(&told);
            }
            Effect::Send { to, notice } => self.file(id, notice.sequence, to, Message::Notice(notice)),
            Effect::Bid { to, watch } => self.file(id, watch.sequence, to, Message::Watch(watch)),
            Effect::Tell { to, tidings } => self.file(id, tidings.sequence, to, Message::Tidings(tidings)),
            Effect::Order { to, order, sequence } => self.file(id, sequence, to, Message::Order(order)),
            Effect::BidAll(watch) => {
                for run in being.members.keys().copied().collect::<Vec<_>>() {
                    self.file(id, watch.sequence, run, Message::Watch(watch.clone()));
                }
            }
            Effect::Announce(tidings) => {
                for watcher in being.watchers.iter().copied().collect::<Vec<_>>() {
                    let told = Message::Tidings(tidings.clone());
                    let letter =
                        Letter { sender: id, sequence: tidings.sequence, receiver: watcher, message: told };
                    // As a store has it: what goes there already under that name is not overwritten.
                    if !self.outbox.iter().any(|other| other.is_named(&letter)) {
                        self.outbox.push(letter);
                    }
                }
            }
            Effect::Spawn(spawn) => {
                being.children.insert(spawn.child, spawn.cascade);
                self.waits.insert(spawn.child, spawn.depends_on.iter().map(|on| on.run).collect());
                let name = format!("{}/{}", self.name_of(id), spawn.parent.node);
                if !self.names.values().any(|known| *known == spawn.child) {
                    self.names.insert(name, spawn.child);
                }
                self.file(id, base, spawn.child, Message::Spawn(Box::new(spawn)));
            }
            Effect::Disown(child) => {
                being.children.remove(&child).expect("a child is struck off that was asked for");
            }
            Effect::Cascade(cascade) => {
                let along = being.children.iter().filter(|(_, along)| **along).map(|(child, _)| *child);
                for child in along.collect::<Vec<_>>() {
                    let ended = |being: &Being| being.run.lifecycle().is_terminal();
                    if !self.beings.get(&child).is_some_and(ended) {
                        self.file(id, cascade.sequence, child, Message::Cascade(cascade.clone()));
                    }
                }
            }
            Effect::Dispatch { .. } | Effect::FinishTask(_) => {}
            other => panic!("nobody does this here: {other:?}"),
        }
    }

    fn file(&mut self, sender: RunId, sequence: u64, receiver: RunId, message: Message) {
        let letter = Letter { sender, sequence, receiver, message };
        let taken = self.outbox.iter().find(|other| other.is_named(&letter));
        assert!(taken.is_none(), "two messages have one name: {taken:?} and {letter:?}");
        self.outbox.push(letter);
    }

    /// Delivers a message. `false` if it can't be delivered yet.
    fn deliver(&mut self, letter: &Letter) -> bool {
        let (sender, receiver) = (letter.sender, letter.receiver);
        let command = match letter.message.clone() {
            Message::Spawn(spawn) => {
                self.start_child(sender, *spawn);
                return true;
            }
            Message::Watch(watch) => return self.deliver_watch(sender, receiver, watch),
            Message::Tidings(tidings) => return self.hear(receiver, tidings),
            Message::Notice(notice) => {
                let heard = self.beings.get(&receiver).and_then(|being| being.heard.get(&sender).copied());
                Command::Hear { notice, heard }
            }
            Message::Cascade(cascade) => Command::Cancel(Cancellation {
                reason: Some(cascade.reason),
                parent_run_id: Some(cascade.from),
                ..Cancellation::default()
            }),
            Message::Order(order) => {
                Command::Bond(Box::new(BondCommand::Order { from: sender, order, sequence: letter.sequence }))
            }
        };
        if self.beings.contains_key(&receiver) {
            moot(&self.decide(receiver, command));
        }
        true
    }

    fn deliver_watch(&mut self, sender: RunId, receiver: RunId, watch: Watch) -> bool {
        let watching = watch.watching;
        let tidings = match self.beings.get(&receiver) {
            None if self.beings.values().any(|being| being.children.contains_key(&receiver)) => return false,
            None => Tidings::of_nobody(receiver),
            Some(being) if being.run.lifecycle().is_terminal() => being.run.tidings(),
            Some(being) => {
                let heard = being.heard.get(&sender).copied();
                moot(&self.decide(receiver, Command::Bond(Box::new(BondCommand::Watch { watch, heard }))));
                return true;
            }
        };
        if watching { self.hear(sender, tidings) } else { true }
    }

    fn hear(&mut self, receiver: RunId, tidings: Tidings) -> bool {
        let Some(being) = self.beings.get(&receiver) else { return true };
        let known = being.members.get(&tidings.from).cloned();
        let heard = BondCommand::Hear { tidings, known };
        moot(&self.decide(receiver, Command::Bond(Box::new(heard))));
        true
    }

    fn start_child(&mut self, parent: RunId, spawn: Spawn) {
        let gone = matches!(self.beings[&parent].run.lifecycle(), Lifecycle::Failed | Lifecycle::Cancelled);
        if self.beings.contains_key(&spawn.child) {
            return;
        }
        if spawn.cascade && gone {
            // It never comes to be, so nobody has to wait for that.
            self.beings.get_mut(&parent).expect("it is there").children.remove(&spawn.child);
            return;
        }
        let graph = match &spawn.definition {
            Some(definition) => Arc::new(Graph::read(definition.text().as_bytes()).expect("it can be read")),
            None => self.workflows[&spawn.workflow_id].clone(),
        };
        let start = Start {
            inputs: spawn.inputs,
            parent: Some(spawn.parent),
            sensitive: spawn.sensitive,
            unset: spawn.unset,
            by: spawn.by,
            depends_on: spawn.depends_on,
            draft: spawn.draft,
            ..Start::of(spawn.child.of(TENANT), SALT, graph)
        };
        self.start(start).expect("the child can be started");
    }

    /// One thing happens. `false` if nothing is left to happen now.
    fn step(&mut self) -> bool {
        let due: Vec<(RunId, TimerId)> = self
            .beings
            .iter()
            .flat_map(|(id, being)| being.timers.iter().map(move |(timer, due)| (*due, *id, timer)))
            .filter(|(due, ..)| *due <= self.now)
            .map(|(_, id, timer)| (id, timer.clone()))
            .collect();
        let late = self.dice.as_mut().is_some_and(|dice| dice.roll(3) == 0);
        if let Some((id, timer)) = due.first().filter(|_| !late || self.outbox.is_empty()).cloned() {
            let command = match timer {
                TimerId::Resume => Command::ResumeDue { artifacts: Artifacts::READABLE },
                timer => Command::Fire(timer),
            };
            self.decide(id, command).expect("a timer that is due fires");
            return true;
        }
        self.repeat();
        self.post()
    }

    /// Delivers one message.
    fn post(&mut self) -> bool {
        let mut tried = BTreeSet::new();
        while tried.len() < self.outbox.len() {
            let at = match &mut self.dice {
                Some(dice) => dice.roll(self.outbox.len() as u64) as usize,
                None => (0..self.outbox.len()).find(|at| !tried.contains(at)).expect("not all were tried"),
            };
            tried.insert(at);
            let letter = self.outbox[at].clone();
            let before = &self.outbox[..at];
            let first = |other: &Letter| (other.sender, other.receiver) != (letter.sender, letter.receiver);
            let overtakes = !before.iter().all(first);
            let began = |other: &Letter| first(other) || other.may_overtake();
            if overtakes && !(letter.may_overtake() && before.iter().all(began)) {
                continue;
            }
            self.outbox.remove(at);
            if self.deliver(&letter) {
                self.delivered.push(letter);
                return true;
            }
            self.outbox.insert(at, letter);
        }
        false
    }

    /// A message comes twice, which changes nothing.
    fn repeat(&mut self) {
        let delivered = self.delivered.clone();
        let Some(dice) = &mut self.dice else { return };
        let (again, letter) = (dice.roll(4) == 0, dice.pick(&delivered));
        let Some(letter) = letter.filter(|_| again) else { return };
        let events = |world: &Self| world.beings.values().map(|being| being.journal.len()).sum::<usize>();
        let before = events(self);
        self.deliver(&letter);
        // A run that has ended answers whoever asks, and they may have begun to wait for it anew since they did.
        let watch = matches!(letter.message, Message::Watch(_));
        if watch && self.lifecycle(letter.receiver).is_none_or(Lifecycle::is_terminal) {
            return;
        }
        assert_eq!(events(self), before, "a message that came twice was taken twice: {letter:?}");
    }

    /// Everything that is to be told is, and nobody looks at the timers.
    pub(crate) fn deliver_all(&mut self) {
        while self.post() {}
    }

    /// So much may happen, and no more.
    pub(crate) fn a_while(&mut self, moves: usize) {
        for _ in 0..moves {
            self.step();
        }
    }

    /// Everything happens that is due, until nothing is left to be told.
    #[track_caller]
    pub(crate) fn settle(&mut self) -> &mut Self {
        for _ in 0..MOVES_MAX {
            if !self.step() {
                assert!(self.outbox.is_empty(), "it can't be delivered: {:?}", self.outbox);
                self.check();
                return self;
            }
        }
        panic!("the world does not come to rest");
    }

    /// Time passes, and everything happens in its time.
    #[track_caller]
    pub(crate) fn later(&mut self, ms: Millis) -> &mut Self {
        let end = self.now + ms;
        loop {
            self.settle();
            let next = self.beings.values().flat_map(|being| being.timers.values()).min().copied();
            match next.filter(|due| *due <= end) {
                Some(due) => self.now = due,
                None => break,
            }
        }
        self.now = end;
        self.settle()
    }

    /// Time passes, and nobody looks at the timers.
    pub(crate) fn stall(&mut self, ms: Millis) -> &mut Self {
        self.now += ms;
        self
    }
}

/// Whatever was heard before, and whatever comes too late, needs no hearing.
fn moot(told: &Result<(), Rejection>) {
    let moot = matches!(told, Err(Rejection::Ended(_) | Rejection::Cancelling | Rejection::HeardBefore));
    assert!(told.is_ok() || moot, "a message can't be delivered: {told:?}");
}

/// What holds of all runs together when nothing is left to be told.
impl World {
    #[track_caller]
    fn check(&self) {
        for (id, being) in &self.beings {
            let run = &being.run;
            if run.lifecycle().is_terminal() {
                assert!(
                    being.timers.is_empty() && being.open.is_empty(),
                    "{} leaves something",
                    self.name_of(*id)
                );
                continue;
            }
            if run.group().is_some() {
                self.check_group(*id, being);
                continue;
            }
            self.check_waits(*id, being);
            self.check_deadline(*id, being);
            self.check_phases(being);
        }
    }

    fn lifecycle(&self, id: RunId) -> Option<Lifecycle> {
        self.beings.get(&id).map(|being| being.run.lifecycle())
    }

    #[track_caller]
    fn check_waits(&self, id: RunId, being: &Being) {
        let (run, name) = (&being.run, self.name_of(id));
        let upstreams: BTreeSet<RunId> = run.upstreams().keys().copied().collect();
        assert_eq!(Some(&upstreams), self.waits.get(&id), "{name} waits for others than it was told");
        let unheard: BTreeSet<RunId> = run.unmet().map(|(on, _)| on).collect();
        assert_eq!(unheard, being.dependencies, "{name} has rows of others than it still waits for");
        let unmet: Vec<RunId> =
            upstreams.into_iter().filter(|on| self.lifecycle(*on) != Some(Lifecycle::Completed)).collect();
        if run.is_draft() || run.is_ending() || run.lifecycle() != Lifecycle::Running {
            return;
        }
        let kept = run.kept_by().next().is_some();
        assert_eq!(run.blocked_since().is_some(), !unmet.is_empty() || kept, "of {name}: {:?}", run.why());
        let ended =
            |on: &RunId| matches!(self.lifecycle(*on), None | Some(Lifecycle::Failed | Lifecycle::Cancelled));
        let asks = |on: &RunId| self.beings[on].run.is_suspended();
        let reason = match unmet.as_slice() {
            [] => kept.then_some("coordinator_blocked"),
            unmet if unmet.iter().any(ended) => Some("on_dependency_failed"),
            unmet if unmet.iter().any(asks) => Some("dependency_suspended"),
            _ => Some("dependency_incomplete"),
        };
        assert_eq!(self.blocked_for(name), reason, "of {name}");
        let alive = unmet.iter().filter(|on| !ended(on));
        for on in alive {
            assert!(self.beings[on].watchers.contains(&id), "{name} does not hear of {}", self.name_of(*on));
        }
    }

    #[track_caller]
    fn check_deadline(&self, id: RunId, being: &Being) {
        let alive = |group: &RunId| self.lifecycle(*group) == Some(Lifecycle::Running);
        let groups = self.belongs.iter().filter(|(group, members)| members.contains(&id) && alive(group));
        let groups: Vec<RunId> = groups.map(|(group, _)| *group).collect();
        let deadline = groups.iter().filter_map(|group| self.deadlines.get(group)).min().copied();
        let known = being.run.group_deadline().map(|(deadline, _)| deadline);
        assert_eq!(known, deadline, "of {}", self.name_of(id));
        let overdue = being.run.is_suspended() && deadline.is_some_and(|deadline| deadline <= self.now);
        assert!(!overdue || being.run.is_ending(), "nobody is waited for after the deadline");
        for watcher in &being.watchers {
            let waits = self.waits.get(watcher).is_some_and(|on| on.contains(&id));
            let gone = self.lifecycle(*watcher).is_none_or(Lifecycle::is_terminal);
            assert!(waits || gone || groups.contains(watcher), "{} watches in vain", self.name_of(*watcher));
        }
    }

    #[track_caller]
    fn check_group(&self, id: RunId, being: &Being) {
        let group = being.run.group().expect("it is a group");
        let name = self.name_of(id);
        let empty = BTreeSet::new();
        let members = self.belongs.get(&id).unwrap_or(&empty);
        assert_eq!(being.members.keys().copied().collect::<BTreeSet<_>>(), *members);
        let mut by_status: BTreeMap<String, u64> = BTreeMap::new();
        for member in members {
            let (row, run) = (&being.members[member], &self.beings[member].run);
            assert_eq!(row.status, run.status(), "of {} in {name}", self.name_of(*member));
            assert_eq!(row.suspended, run.suspension(), "of {} in {name}", self.name_of(*member));
            *by_status.entry(run.status().intent_name().to_owned()).or_default() += 1;
        }
        assert_eq!((group.total, &group.by_status), (members.len() as u64, &by_status), "of {name}");
        // It takes over nothing of what becomes of its members.
        assert_eq!(being.run.status(), Status::Running, "of {name}");
    }

    #[track_caller]
    fn check_phases(&self, being: &Being) {
        for phase in being.run.phases() {
            let child = phase.child.and_then(|child| self.beings.get(&child));
            let Some(child) = child.filter(|child| !child.run.lifecycle().is_terminal()) else { continue };
            assert_eq!(phase.suspended, child.run.suspension(), "of phase {}", phase.phase);
            let asked = phase.suspended.map(|_| abide_core::INTENT_SUSPENDED);
            assert_eq!(phase.blocked_reason, asked, "of phase {}", phase.phase);
            assert_eq!(phase.suspended_intent_id.is_some(), asked.is_some());
        }
    }

    /// Whatever happened can be forked anywhere: a replay comes out as it was, and a branch is a run like any other.
    #[track_caller]
    pub(crate) fn fork_all(&self) {
        for being in self.beings.values().filter(|being| being.run.group().is_none()) {
            let (run, journal) = (&being.run, being.journal.as_slice());
            let origin = Origin { key: run.key(), salt: SALT, graph: run.graph(), journal };
            origin.replay_from(0);
            if journal.len() <= FORKED_EVENTS_MAX {
                (0..=journal.len() as u64).for_each(|sequence| drop(origin.branch_from(sequence)));
            }
        }
    }
}
