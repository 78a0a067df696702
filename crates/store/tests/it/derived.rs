//! Journals are the truth: whatever else is stored follows from folding them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use abide_core::{
    Appointment, Effect, Event, Graph, GroupSpec, Hash, InterruptId, Key, MemberRow, OpenInterrupt,
    ProviderWait, Record, Run, RunEvent, RunId, Start, TaskId,
};
use abide_store::{Claim, Expected, ListQuery, Listed, Message, Store, TimerRow};

use crate::engine::{engines, submit};
use crate::live::TENANT;
use crate::society::Society;
use crate::world::World;

/// What the journals imply for the tables beside them.
#[derive(Debug, Default, PartialEq)]
struct Derived {
    timers: BTreeSet<TimerRow>,
    tasks: BTreeSet<(Key, Arc<str>, u32)>,
    /// By sender, receiver and text.
    messages: BTreeMap<(Key, RunId, String), Message>,
    children: BTreeSet<(Key, RunId, Arc<str>, u32, bool)>,
    heard: BTreeMap<(RunId, RunId), u64>,
    claims: BTreeSet<(Key, Claim)>,
    interrupts: BTreeMap<(Key, InterruptId), OpenInterrupt>,
    /// With the fence.
    work: BTreeMap<(Key, Arc<str>, u32), u64>,
    waits: BTreeMap<(Key, Arc<str>, u32), ProviderWait>,
    /// Of conversations.
    names: BTreeSet<(Key, Hash)>,
    /// Whom a run waits for.
    dependencies: BTreeSet<(Key, RunId)>,
    watchers: BTreeSet<(Key, RunId)>,
    members: BTreeMap<(Key, RunId), MemberRow>,
    /// Who is to work on a run, by what they are called.
    assignments: BTreeMap<(Key, String), Appointment>,
}

/// What was heard and stands in a journal: whose, from whom, and as of which of their events.
type Told = BTreeSet<(RunId, RunId, u64)>;

/// How runs stood in the middle of a commit, which they tell nobody: whose, and as of which of their events.
pub(crate) type Unsaid = BTreeSet<(RunId, u64)>;

fn told(key: RunId, record: &Record) -> Option<(RunId, RunId, u64)> {
    match record.event().unwrap() {
        Event::Run(RunEvent::DependencyReported(told)) => Some((key, told.run, told.sequence)),
        Event::Run(RunEvent::MemberReported(told)) => Some((key, told.run, told.sequence)),
        Event::Run(RunEvent::Watched(watched)) => Some((key, watched.by, watched.sequence)),
        _ => None,
    }
}

impl Derived {
    fn take(&mut self, key: Key, effect: Effect) {
        let task = |task: TaskId| (key, task.node, task.execution);
        let (new, message) = match effect {
            Effect::ArmTimer { timer, due } => (self.timers.insert(TimerRow { due, key, timer }), None),
            Effect::DropTimer { timer, due } => (self.timers.remove(&TimerRow { due, key, timer }), None),
            Effect::Dispatch { task: id, .. } => (self.tasks.insert(task(id)), None),
            Effect::FinishTask(id) => (self.tasks.remove(&task(id)), None),
            Effect::Hear { from, sequence } => {
                let before = self.heard.insert((key.id, from), sequence);
                (before.is_none_or(|before| before < sequence), None)
            }
            Effect::Send { to, notice } => (true, Some((to, Message::Notice(notice)))),
            Effect::Spawn(spawn) => {
                let (node, execution) = (spawn.parent.node.as_str().into(), spawn.parent.execution);
                let child = (key, spawn.child, node, execution.unwrap_or(0), spawn.cascade);
                (self.children.insert(child), Some((spawn.child, Message::Spawn(spawn))))
            }
            Effect::Disown(child) => {
                let known = self.children.len();
                self.children.retain(|(parent, other, ..)| (*parent, *other) != (key, child));
                (self.children.len() < known, None)
            }
            // Who gets it depends on who had ended by then, which no single journal tells. None of these runs has
            // children, so nobody does.
            Effect::Cascade(_) => (true, None),
            Effect::OpenInterrupt(open) => {
                let listed = OpenInterrupt { callback_url: None, ..*open };
                (self.interrupts.insert((key, listed.id), listed).is_none(), None)
            }
            Effect::CloseInterrupt(closed) => (self.interrupts.remove(&(key, closed.id)).is_some(), None),
            Effect::MoveDeadline { id, deadline } => {
                let open = self.interrupts.get_mut(&(key, id));
                (open.map(|open| open.deadline = deadline).is_some(), None)
            }
            Effect::NoteHeadway { id, headway } => {
                let open = self.interrupts.get_mut(&(key, id));
                (open.map(|open| open.headway = headway).is_some(), None)
            }
            Effect::Offer(offer) => {
                self.work.insert(task(offer.task), offer.fence);
                (true, None)
            }
            Effect::OfferAgain(_) => (true, None),
            Effect::Withdraw(id) => (self.work.remove(&task(id)).is_some(), None),
            Effect::CallOff(id) => (self.work.contains_key(&task(id)), None),
            Effect::AwaitProvider(wait) => {
                self.waits.insert(task(wait.task.clone()), wait);
                (true, None)
            }
            Effect::LeaveProvider(id) => (self.waits.remove(&task(id)).is_some(), None),
            Effect::TakeName(name) => (self.names.insert((key, name)), None),
            Effect::DependOn(run) => (self.dependencies.insert((key, run)), None),
            Effect::Independ(run) => (self.dependencies.remove(&(key, run)), None),
            // Whoever watches may say so again.
            Effect::Watch(run) => {
                self.watchers.insert((key, run));
                (true, None)
            }
            Effect::Unwatch(run) => {
                self.watchers.remove(&(key, run));
                (true, None)
            }
            Effect::Enlist(row) => (self.members.insert((key, row.run), row).is_none(), None),
            Effect::Dismiss { run, .. } => (self.members.remove(&(key, run)).is_some(), None),
            Effect::NoteMember(told) => {
                let row = self.members.get_mut(&(key, told.run));
                (row.map(|row| row.note(&told)).is_some(), None)
            }
            Effect::Bid { to, watch } => (true, Some((to, Message::Watch(watch)))),
            Effect::Order { to, order, .. } => (true, Some((to, Message::Order(order)))),
            Effect::Tell { to, tidings } => (true, Some((to, Message::Tidings(tidings)))),
            Effect::BidAll(watch) => {
                let members: Vec<RunId> = of(key, self.members.keys());
                members.into_iter().for_each(|run| self.send(key, run, Message::Watch(watch.clone())));
                (true, None)
            }
            Effect::Announce(tidings) => {
                let watchers: Vec<RunId> = of(key, self.watchers.iter());
                watchers.into_iter().for_each(|run| self.send(key, run, Message::Tidings(tidings.clone())));
                (true, None)
            }
            // Whoever is to work on it already may be told so again.
            Effect::Assign(assigned) => {
                self.assignments.insert((key, assigned.agent.clone()), assigned);
                (true, None)
            }
            Effect::Unassign(agent) => (self.assignments.remove(&(key, agent)).is_some(), None),
            // What becomes of it depends on who is told.
            Effect::Notify(_) | Effect::Wake(_) | Effect::Hook(_) | Effect::Abort(_) => (true, None),
        };
        assert!(new, "an effect repeats itself");
        if let Some((to, message)) = message {
            self.send(key, to, message);
        }
    }

    fn send(&mut self, from: Key, to: RunId, message: Message) {
        self.messages.insert((from, to, format!("{message:?}")), message);
    }

    /// What is said to all who watch goes to nobody who has ended. Who had by then does not stand in the journals.
    fn without_words_to_the_dead(mut self, runs: &BTreeMap<RunId, Run>) -> Self {
        self.messages.retain(|(_, receiver, _), message| {
            let ended = runs.get(receiver).is_some_and(|run| run.lifecycle().is_terminal());
            !(ended && matches!(message, Message::Tidings(_) | Message::Watch(_)))
        });
        self
    }

    /// A message that was heard has been consumed by the same commit, and one that starts a run by its first.
    fn settle(mut self, runs: &BTreeMap<RunId, Run>, told: &Told, unsaid: &Unsaid) -> Self {
        let heard = &self.heard;
        self.messages.retain(|(sender, receiver, _), message| {
            let is_new =
                |sequence: u64| heard.get(&(*receiver, sender.id)).is_none_or(|heard| *heard < sequence);
            match message {
                Message::Notice(notice) => is_new(notice.sequence),
                Message::Watch(watch) => !told.contains(&(*receiver, sender.id, watch.sequence)),
                Message::Tidings(tidings) => {
                    !told.contains(&(*receiver, sender.id, tidings.sequence))
                        && !unsaid.contains(&(sender.id, tidings.sequence))
                }
                Message::Spawn(spawn) => !runs.contains_key(&spawn.child),
                Message::Cascade(_) | Message::Order(_) => true,
            }
        });
        self
    }
}

/// What belongs to one run, or to one group.
fn of<'a>(key: Key, rows: impl Iterator<Item = &'a (Key, RunId)>) -> Vec<RunId> {
    rows.filter(|(owner, _)| *owner == key).map(|(_, run)| *run).collect()
}

/// Every run and every group, with the definition that it follows.
async fn everybody(store: &dyn Store, graph: &Arc<Graph>) -> Vec<(Listed, Arc<Graph>)> {
    let query = ListQuery { tenant: TENANT, status: None, workflow: None, before: None, limit: usize::MAX };
    let runs = store.list(query).await.unwrap().into_iter().map(|listed| (listed, graph.clone()));
    let groups = store.containers().groups(TENANT, None, usize::MAX).await.unwrap();
    let of_groups = |listed: Listed| {
        let start = Start::group(listed.id.of(TENANT), [0; 16], GroupSpec::default());
        (listed, start.graph)
    };
    runs.chain(groups.into_iter().map(of_groups)).collect()
}

/// Folds every journal and demands that nothing is missing, half there, or at odds with the fold.
/// Gives the runs by id.
pub(crate) async fn fold_everything(store: &dyn Store, graph: &Arc<Graph>) -> BTreeMap<RunId, Run> {
    fold_everything_said(store, graph, &Unsaid::new()).await
}

/// The same where runs watch each other.
async fn fold_everything_said(
    store: &dyn Store,
    graph: &Arc<Graph>,
    unsaid: &Unsaid,
) -> BTreeMap<RunId, Run> {
    let (mut runs, mut reported) = (BTreeMap::new(), Told::new());
    let mut expected = Derived::default();
    for (listed, graph) in everybody(store, graph).await {
        let key = listed.id.of(TENANT);
        let loaded = store.load(key).await.unwrap().unwrap();
        let salt = loaded.salt.unwrap();
        let mut run = Run::empty(key, salt, graph.clone());
        for record in store.journal(key, 0, usize::MAX).await.unwrap() {
            reported.extend(told(key.id, &record));
            let effects = run.apply(&record).unwrap();
            effects.into_iter().for_each(|effect| expected.take(key, effect));
        }
        assert_eq!((loaded.head.next, loaded.head.at), (run.head().next, run.head().at), "{key:?}");
        assert_eq!(loaded.summary, run.summary());
        assert_eq!(
            (listed.next, listed.at, listed.summary),
            (loaded.head.next, loaded.head.at, loaded.summary)
        );
        let mut woken = match &loaded.snapshot {
            Some((_, bytes)) => Run::from_snapshot(key, salt, graph.clone(), bytes).unwrap(),
            None => Run::empty(key, salt, graph.clone()),
        };
        for record in &loaded.tail {
            woken.apply(record).unwrap();
        }
        assert_eq!(woken.snapshot(), run.snapshot(), "waking it gives another run");
        expected.claims.extend(claim(&run).map(|claim| (key, claim)));
        runs.insert(listed.id, run);
    }
    let found = found(store, &runs).await.without_words_to_the_dead(&runs);
    assert_eq!(found, expected.settle(&runs, &reported, unsaid).without_words_to_the_dead(&runs));
    runs
}

/// What a run has to itself while it is under way.
fn claim(run: &Run) -> Option<Claim> {
    let scope = run.scope().unwrap_or_default().to_owned();
    let claim = Claim { workflow: run.summary().workflow_id, scope };
    (run.is_exclusive() && !run.status().is_terminal()).then_some(claim)
}

async fn found(store: &dyn Store, runs: &BTreeMap<RunId, Run>) -> Derived {
    let mut found = Derived::default();
    found.timers.extend(store.timers(None, i64::MAX, usize::MAX >> 1).await.unwrap());
    for row in store.outbox(None, usize::MAX >> 1).await.unwrap() {
        found.send(row.at.sender, row.at.receiver, row.message);
    }
    for (id, run) in runs {
        let key = id.of(TENANT);
        let expected = Expected { timers: Vec::new(), claim: claim(run) };
        let beside = store.beside(key, expected).await.unwrap();
        found.claims.extend(beside.claim.map(|claim| (key, claim)));
        found.interrupts.extend(beside.interrupts.into_iter().map(|open| ((key, open.id), open)));
        found.names.extend(beside.names.into_iter().map(|name| (key, name)));
        found.dependencies.extend(beside.dependencies.into_iter().map(|run| (key, run)));
        found.watchers.extend(beside.watchers.into_iter().map(|run| (key, run)));
        found.members.extend(beside.members.into_iter().map(|row| ((key, row.run), row)));
        let assigned = beside.assignments.into_iter();
        found.assignments.extend(assigned.map(|assigned| ((key, assigned.agent.clone()), assigned)));
        let tasks = beside.tasks.into_iter();
        found.tasks.extend(tasks.map(|task| (key, task.node, task.execution)));
        let work = beside.work.into_iter();
        found.work.extend(work.map(|(task, fence)| ((key, task.node, task.execution), fence)));
        let waits = beside.waits.into_iter();
        found.waits.extend(waits.map(|wait| ((key, wait.task.node.clone(), wait.task.execution), wait)));
        let heard = beside.heard.into_iter();
        found.heard.extend(heard.map(|(sender, sequence)| ((*id, sender), sequence)));
        let children = beside.children.into_iter();
        found
            .children
            .extend(children.map(|(child, task, cascade)| (key, child, task.node, task.execution, cascade)));
    }
    let totals = store.totals().await.unwrap();
    let seen = [found.timers.len(), found.tasks.len(), found.messages.len(), found.heard.len()];
    let there = [totals.timers, totals.tasks, totals.outbox, totals.heard];
    assert_eq!(seen.map(|count| count as u64), there, "rows without a run");
    assert_eq!(found.children.len() as u64, totals.children, "a child without a parent");
    assert_eq!(found.claims.len() as u64, totals.claims, "a claim without a run that needs it");
    assert_eq!(found.interrupts.len() as u64, totals.interrupts, "an interrupt without a run");
    assert_eq!(found.names.len() as u64, totals.names, "a conversation without a run");
    assert_eq!(found.work.len() as u64, totals.work, "a worker's task without a run");
    assert_eq!(found.waits.len() as u64, totals.waits, "a turn that waits without a run");
    let bonds =
        [found.dependencies.len(), found.watchers.len(), found.members.len(), found.assignments.len()];
    let there = [totals.dependencies, totals.watchers, totals.members, totals.assignments];
    assert_eq!(bonds.map(|count| count as u64), there, "bonds without a run");
    assert_eq!(totals.miscounted, 0, "interrupts are counted wrong");
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_beside_the_journals_follows_from_them() {
    for engine in engines() {
        let mut world = World::new(1);
        for _ in 0..4 {
            let store = engine.open();
            let tasks = store.claim_tasks(store.boot(), 1000).await.unwrap();
            world.claimed(store.boot(), tasks);
            let pending: Vec<_> = (0..150).map(|_| submit(&*store, world.next_commit())).collect();
            for answer in pending {
                answer.answer().await.unwrap();
            }
        }
        let runs = fold_everything(&*engine.open(), &world.graph).await;
        assert!(runs.len() > 50, "only {} runs came about", runs.len());
        let kinds: BTreeSet<&str> = runs.values().map(|run| run.status().name()).collect();
        assert!(kinds.len() >= 3, "the lives are dull: {kinds:?}");
        let dump = engine.dump();
        for table in ["timers", "outbox", "heard", "blobs", "claims", "interrupts"] {
            assert!(!dump[table].is_empty(), "the lives leave nothing in {table}");
        }
    }
}

/// The same of runs that wait for each other, and of groups.
#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_whom_and_who_belongs_where_follows_from_the_journals() {
    for engine in engines() {
        let mut society = Society::new(7);
        for _ in 0..20 {
            let store = engine.open();
            let pending: Vec<_> = (0..40).map(|_| submit(&*store, society.next_commit())).collect();
            for answer in pending {
                answer.answer().await.unwrap();
            }
            society.post();
        }
        let runs = fold_everything_said(&*engine.open(), &society.graph, &society.unsaid).await;
        let groups = runs.values().filter(|run| run.group().is_some()).count();
        assert!(groups > 2 && runs.len() > 40, "only {} runs and {groups} groups came about", runs.len());
        let kinds: BTreeSet<&str> = runs.values().map(|run| run.status().name()).collect();
        assert!(kinds.len() >= 5, "the lives are dull: {kinds:?}");
        let dump = engine.dump();
        for table in ["dependencies", "watchers", "members", "outbox", "heard"] {
            assert!(!dump[table].is_empty(), "the lives leave nothing in {table}");
        }
    }
}
