//! Random societies of runs, held against a small model of how containers see a suspension, on both stores.
//!
//! Several servers take what agents, people and operators do, some of it at the same moment; time passes, servers die, and
//! others take their place. Whatever the moves: what is taken and what is refused is what the model says, and whenever
//! nothing is left to be told, every run, task, parent and group stands as the five rules want it. The seed tells the
//! whole story.

mod model;

use std::collections::BTreeMap;

use abide_core::planning::{NewTask, PlanCommand, TaskAct};
use abide_core::{
    Answerer, BlockedReason, Command, Governance, GroupSpec, Hand, HandAsk, HandOp, Json, JsonMap, Key,
    Millis, Rejection, Role, Run, RunId,
};
use abide_engine::{AskedChild, Engine, Error, NewMember, NewRun, Reply, verify};
use futures_util::future::join_all;
use serde_json::json;

use crate::dice::Dice;
use crate::house::House;
use crate::support::TENANT;
use model::{Circle, CircleSight, Model, Question, Sight};

/// Sequences on each store in an ordinary run of the tests; `ABIDE_SOCIETIES` asks for more.
const ON_SQLITE: u64 = 25;
const ON_POSTGRES: u64 = 6;

/// Servers on one PostgreSQL. A file has one.
const SERVERS: usize = 3;
const GROUPS: usize = 2;
const RUNS_MAX: usize = 9;
const MOVES: u64 = 60;
const MINUTE: Millis = 60_000;

/// Longer than any machine takes to tell everybody everything.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(90);

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum Move {
    Begin {
        after: Option<usize>,
        draft: bool,
    },
    Adopt(usize),
    Act {
        run: usize,
        agent: u64,
        act: Act,
    },
    /// Several people answer at once; the first one wins.
    Answer {
        run: usize,
        people: u64,
    },
    Cancel(usize),
    Depend {
        run: usize,
        on: usize,
    },
    /// Each of two runs is to wait for the other, at two servers at the same moment.
    Cross {
        one: usize,
        other: usize,
    },
    Independ {
        run: usize,
        on: usize,
    },
    Activate(usize),
    Task {
        run: usize,
        agent: u64,
    },
    Add {
        group: usize,
        run: usize,
    },
    Remove {
        group: usize,
        run: usize,
    },
    Govern {
        group: usize,
        deadline: Option<Millis>,
    },
    Pass(Millis),
    Crash(usize),
}

/// What an agent does with a run.
#[derive(Clone, Copy, Debug)]
enum Act {
    Claim,
    Release,
    Ask(Question),
    Complete,
    Fail,
}

fn next(dice: &mut Dice, model: &Model, now: Millis) -> Move {
    let runs = model.runs.len();
    let (run, on) = (dice.roll(runs as u64) as usize, dice.roll(runs as u64) as usize);
    let agent = model.runs[run].holder.filter(|_| dice.roll(4) > 0).unwrap_or(dice.roll(2));
    let group = dice.roll(GROUPS as u64) as usize;
    let act = |act| Move::Act { run, agent, act };
    match dice.roll(48) {
        0..=3 if runs < RUNS_MAX => {
            Move::Begin { after: dice.roll(2).eq(&0).then_some(on), draft: dice.roll(5) == 0 }
        }
        4 if runs < RUNS_MAX => Move::Adopt(run),
        5..=11 => act(Act::Claim),
        12..=17 => act(Act::Ask(Question::ALL[dice.roll(3) as usize])),
        18..=22 => Move::Answer { run, people: 1 + dice.roll(3) },
        23..=26 => act(Act::Complete),
        27 => act(Act::Fail),
        28 => act(Act::Release),
        29 => Move::Cancel(run),
        30..=31 => Move::Depend { run, on },
        32 => Move::Cross { one: run, other: on },
        33 => Move::Independ { run, on },
        34 => Move::Activate(run),
        35..=36 => Move::Task { run, agent: dice.roll(2) },
        37..=39 => Move::Add { group, run },
        40 => Move::Remove { group, run },
        41 => {
            let deadline = (dice.roll(4) > 0).then(|| now + (10 + dice.roll(80) as Millis) * MINUTE);
            Move::Govern { group, deadline }
        }
        42..=43 => Move::Crash(dice.roll(SERVERS as u64) as usize),
        _ => Move::Pass((1 + dice.roll(45) as Millis) * MINUTE),
    }
}

/// The servers, the runs and the model.
struct Society {
    house: House,
    dice: Dice,
    model: Model,
    runs: Vec<Key>,
    groups: Vec<Key>,
}

impl Society {
    async fn begin(house: House, seed: u64) -> Self {
        let by_hand = json!({
            "id": "hand", "name": "By hand", "version": "1", "triggers": [], "variables": [], "metadata": {},
            "settings": {}, "edges": [],
            "nodes": [{ "id": "self", "typeId": "core.byHand", "name": "Self", "position": {}, "config": {}, "inputs": {} }],
        });
        house.engine().push_workflow(TENANT, by_hand.to_string().as_bytes(), None).await.unwrap();
        let mut groups = Vec::with_capacity(GROUPS);
        for at in 0..GROUPS {
            let spec = GroupSpec { name: format!("group {at}"), ..GroupSpec::default() };
            groups.push(id(house.engine().make_group(TENANT, spec, None, named()).await.unwrap()));
        }
        let model = Model { runs: Vec::new(), groups: vec![Circle::default(); GROUPS] };
        let mut society = Self { house, dice: Dice::of(seed), model, runs: Vec::new(), groups };
        for _ in 0..3 {
            society.start(None, false).await;
        }
        society
    }

    /// Some server.
    fn any(&mut self) -> usize {
        self.dice.roll(self.house.servers() as u64) as usize
    }

    async fn start(&mut self, after: Option<usize>, draft: bool) {
        let depends_on = after.iter().map(|on| self.runs[*on].id).collect();
        let new = NewRun { depends_on, draft, ..NewRun::of(TENANT, "hand") };
        let at = self.any();
        self.runs.push(self.house.engine_at(at).start_run(new).await.unwrap().0.of(TENANT));
        self.model.begin(after.as_slice(), draft);
    }

    async fn play(&mut self, step: Move) {
        let at = self.any();
        let now = self.house.now();
        let engine = self.house.engine_at(at);
        let (runs, groups) = (&self.runs, &self.groups);
        match step {
            Move::Begin { after, draft } => self.start(after, draft).await,
            Move::Adopt(parent) => self.adopt(at, parent).await,
            Move::Act { run, agent, act } => {
                let done = taken(&engine.ask_for(runs[run], &hand(agent, act), silent()).await);
                let model = &mut self.model;
                let expected = match act {
                    Act::Claim => model.claim(run, agent),
                    Act::Release => model.release(run, agent),
                    Act::Ask(question) => model.ask(run, agent, question, now),
                    Act::Complete => model.complete(run, agent),
                    Act::Fail => model.fail(run, agent),
                };
                assert_eq!(done, expected);
            }
            Move::Answer { run, people } => self.answer(run, people).await,
            Move::Cancel(run) => {
                let done = taken(&engine.cancel(runs[run], None, None).await);
                assert_eq!(done, self.model.cancel(run));
            }
            Move::Depend { run, on } => {
                let done = taken(&engine.add_dependency(runs[run], runs[on].id, None, None, silent()).await);
                assert_eq!(done, self.model.depend(run, on));
            }
            Move::Cross { one, other } => self.cross(at, one, other).await,
            Move::Independ { run, on } => {
                let done =
                    taken(&engine.remove_dependency(runs[run], runs[on].id, None, None, silent()).await);
                assert_eq!(done, self.model.independ(run, on));
            }
            Move::Activate(run) => {
                let activate = abide_core::BondCommand::Activate { by: None };
                let done =
                    taken(&engine.ask_for(runs[run], &Command::Bond(Box::new(activate)), silent()).await);
                assert_eq!(done, self.model.activate(run));
            }
            Move::Task { run, agent } => {
                if self.model.take_task(run, agent) {
                    work_on(engine, self.runs[run], agent).await;
                }
            }
            Move::Add { group, run } => {
                let new = NewMember { run: runs[run].id, role: Role::Member, priority: 0 };
                let done = taken(&engine.add_member(groups[group], new, None, silent()).await);
                assert_eq!(done, self.model.add(group, run));
            }
            Move::Remove { group, run } => {
                let done = taken(&engine.remove_member(groups[group], runs[run].id, None, silent()).await);
                assert_eq!(done, self.model.remove(group, run));
            }
            Move::Govern { group, deadline } => {
                let governance = Governance { deadline, ..Governance::default() };
                assert!(taken(&engine.govern(groups[group], (governance, None), None, silent()).await));
                self.model.groups[group].deadline = deadline;
            }
            Move::Pass(ms) => {
                self.house.advance(ms).await;
            }
            Move::Crash(server) => self.house.crash(server % self.house.servers()).await,
        }
        self.model.settle(self.house.now());
    }

    async fn adopt(&mut self, at: usize, parent: usize) {
        let asked = AskedChild {
            workflow_id: "hand".to_owned(),
            inputs: JsonMap::new(),
            depends_on: Vec::new(),
            draft: false,
            by: None,
            actor: None,
        };
        let engine = self.house.engine_at(at);
        let told = |run: &Run| run.key().id.to_string().into_bytes();
        let child = engine.add_child(self.runs[parent], asked, None, told).await;
        let born = child.as_ref().ok().cloned().map(id);
        assert_eq!(taken(&child), self.model.adopt(parent));
        self.runs.extend(born);
    }

    /// One of all who answer wins, if anything is asked.
    async fn answer(&mut self, run: usize, people: u64) {
        let key = self.runs[run];
        let open = |run: &Run| run.interrupts().next().map(|open| open.requested.interrupt_id);
        let asked = self.house.engine().read(key, open).await.unwrap();
        assert_eq!(asked.is_some(), self.model.is_asked(run), "what is asked of {run}");
        let Some(asked) = asked else { return };
        let answers = (0..people).map(|person| {
            let engine = self.house.engine_at(person as usize % self.house.servers());
            let value = Json::of(&json!({ "answers": { "answer": "so" } }));
            engine.resolve(key, asked, value, Answerer::of(&format!("person {person}")), silent())
        });
        let won = join_all(answers).await.into_iter().filter(taken).count();
        assert_eq!((won, self.model.answer(run)), (1, true), "one wins");
    }

    /// What would close a circle is refused, wherever and whenever somebody says so.
    async fn cross(&mut self, at: usize, one: usize, other: usize) {
        let (first, second) =
            (self.house.engine_at(at), self.house.engine_at((at + 1) % self.house.servers()));
        let (a, b) = (self.runs[one], self.runs[other]);
        let (there, back) = tokio::join!(
            first.add_dependency(a, b.id, None, None, silent()),
            second.add_dependency(b, a.id, None, None, silent()),
        );
        let (there, back) = (taken(&there), taken(&back));
        let before = self.model.clone();
        let orders = [(one, other, there, back), (other, one, back, there)];
        let fits = orders.iter().find(|(first, second, taken_first, taken_second)| {
            self.model = before.clone();
            let expected = (self.model.depend(*first, *second), self.model.depend(*second, *first));
            expected == (*taken_first, *taken_second)
        });
        assert!(fits.is_some(), "one after the other, in either order: {there} {back}");
    }

    /// Waits until everybody stands as the model says.
    async fn settle(&self) {
        let settled = async {
            while !self.differences().await.is_empty() || self.outbox().await > 0 {
                tokio::task::yield_now().await;
            }
        };
        if tokio::time::timeout(PATIENCE, settled).await.is_err() {
            panic!(
                "this does not come to rest, with {} messages: {:#?}",
                self.outbox().await,
                self.differences().await
            );
        }
    }

    async fn outbox(&self) -> u64 {
        self.house.store().totals().await.unwrap().outbox
    }

    /// Where the servers and the model do not agree. Each run is asked of some server.
    async fn differences(&self) -> Vec<String> {
        let mut differences = Vec::new();
        for (at, key) in self.runs.iter().enumerate() {
            let engine = self.house.engine_at(at % self.house.servers());
            let mut seen = engine.read(*key, sight).await.unwrap();
            let counted = engine.containers().child_counts(*key).await.unwrap();
            let named = |(status, count): (Option<abide_core::Status>, u64)| {
                (status.map_or("none", |s| s.name()), count)
            };
            seen.children = counted.into_iter().map(named).collect();
            let expected = self.model.sight(at);
            if seen != expected {
                differences.push(format!("run {at} is {seen:?} and not {expected:?}"));
            }
        }
        for (at, key) in self.groups.iter().enumerate() {
            let engine = self.house.engine_at((at + 1) % self.house.servers());
            let seen = engine.read(*key, circle).await.unwrap();
            let expected = self.model.circle(at);
            if seen != expected {
                differences.push(format!("group {at} is {seen:?} and not {expected:?}"));
            }
        }
        differences
    }

    /// What can be done is, and what is left waits for what will never complete.
    async fn finish(mut self) {
        for _ in 0..2 * self.runs.len() {
            for run in 0..self.runs.len() {
                self.play(Move::Activate(run)).await;
                self.play(Move::Answer { run, people: 2 }).await;
                let agent = self.model.runs[run].holder.unwrap_or(0);
                self.play(Move::Act { run, agent, act: Act::Claim }).await;
                self.play(Move::Act { run, agent, act: Act::Complete }).await;
                self.settle().await;
            }
        }
        let report = verify::verify(&**self.house.store(), |_| ()).await.unwrap();
        assert!(report.is_clean(), "{:?}", report.findings);
        for (at, key) in self.runs.iter().enumerate() {
            let events = self.house.engine().events(*key, 0, usize::MAX).await.unwrap();
            let ends = events.iter().filter(|event| is_end(event)).count();
            assert_eq!(ends, usize::from(!self.model.is_open(at)), "run {at} ends once, if it does");
        }
    }
}

fn is_end(record: &abide_core::Record) -> bool {
    let name = abide_core::EventType::by_code(record.type_code).unwrap().name;
    ["run.completed", "run.failed", "run.cancelled"].contains(&name)
}

fn sight(run: &Run) -> Sight {
    let live = !run.lifecycle().is_terminal();
    let node = run.graph().node("self").unwrap();
    let holder = run.claim(node).and_then(|claim| claim.agent.as_deref());
    let task = run.tasks_posted().next();
    Sight {
        status: run.status().name(),
        abandonment: run
            .abandonment_reason()
            .and_then(|reason| known(reason, &["portfolio_deadline_exceeded"])),
        blocked: run.blocked_reason().filter(|_| live && !run.is_draft()).map(BlockedReason::name),
        suspended_until: run.suspension().map(|suspension| suspension.expires_at),
        holder: holder.filter(|_| live).and_then(|agent| agent.strip_prefix("agent ")?.parse().ok()),
        deadline: run.group_deadline().filter(|_| live).map(|(deadline, _)| deadline),
        task: task.map(|task| {
            let reason = task.blocked_reason().and_then(|reason| known(reason, &["intent_suspended"]));
            (task.status.name(), reason, task.suspended_intent() == Some(run.key().id))
        }),
        children: BTreeMap::new(),
    }
}

fn known(word: &str, words: &[&'static str]) -> Option<&'static str> {
    words.iter().copied().find(|known| *known == word)
}

fn circle(run: &Run) -> CircleSight {
    let group = run.group().unwrap();
    CircleSight {
        status: run.status().name(),
        aggregate: group.aggregate().name(),
        suspended: group.suspended(),
        by_status: group.by_status.clone(),
    }
}

fn hand(agent: u64, act: Act) -> Command {
    let question = json!({
        "kind": "clarification", "data": { "questions": [{ "id": "answer", "question": "Well?" }] },
    });
    let op = match act {
        Act::Claim => HandOp::Claim,
        Act::Release => HandOp::Release,
        Act::Complete => HandOp::Complete { outputs: None },
        Act::Fail => HandOp::Fail(abide_core::Failure::new("no_paper", "the printer has no paper")),
        Act::Ask(asked) => {
            let mut payload = question;
            if asked == Question::Fleeting {
                payload["timeoutMs"] = json!(60 * MINUTE);
            }
            let ladder = (asked == Question::Lenient).then(|| {
                Json::of(&json!({
                    "retry_policy": {
                        "max_attempts": 2, "interval_seconds": 1200, "final_fallback_policy": "use_default_and_continue",
                    },
                    "fallback_value": { "answers": { "answer": "nothing" } },
                }))
            });
            HandOp::Ask(Box::new(HandAsk { payload: Json::of(&payload), ladder, respondents: None }))
        }
    };
    Command::Hand(Box::new(Hand { node: None, agent: format!("agent {agent}"), principal: None, op }))
}

/// Posts a task, which an agent takes and begins.
async fn work_on(engine: &Engine, run: Key, agent: u64) {
    let plan = |command| Command::Plan(Box::new(command));
    let task = NewTask { name: "write".to_owned(), ..NewTask::default() };
    let create = plan(PlanCommand::CreateTask { task: Box::new(task), by: None });
    engine.ask_for(run, &create, silent()).await.unwrap();
    let id = engine.read(run, |run| run.tasks_posted().next().map(|task| task.id)).await.unwrap().unwrap();
    for act in [TaskAct::Claim { agent: format!("agent {agent}") }, TaskAct::Start] {
        let command = plan(PlanCommand::Task { id, version: None, agent: None, act, by: None });
        engine.ask_for(run, &command, silent()).await.unwrap();
    }
}

fn silent() -> Reply {
    Reply::new(None, |_: &Run| Vec::new())
}

fn named() -> Reply {
    Reply::new(None, |run: &Run| run.key().id.to_string().into_bytes())
}

fn id(named: Vec<u8>) -> Key {
    String::from_utf8(named).unwrap().parse::<RunId>().unwrap().of(TENANT)
}

/// Whether it was taken. It is refused for a reason or not at all.
fn taken<T>(answer: &Result<T, Error>) -> bool {
    match answer {
        Ok(_) => true,
        Err(Error::Rejected(Rejection::HeardBefore)) => panic!("what somebody asks is no message"),
        Err(Error::Rejected(_) | Error::Circle { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

#[expect(clippy::print_stderr, reason = "a failure is told with what led to it")]
async fn play(house: House, seed: u64) {
    let mut society = Society::begin(house, seed).await;
    society.settle().await;
    for _ in 0..MOVES {
        let step = next(&mut society.dice, &society.model, society.house.now());
        eprintln!("seed {seed}: {step:?}");
        society.play(step).await;
        society.settle().await;
    }
    society.finish().await;
}

fn sequences(usual: u64) -> u64 {
    std::env::var("ABIDE_SOCIETIES").ok().and_then(|count| count.parse().ok()).unwrap_or(usual)
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_see_their_runs_as_the_model_says_on_sqlite() {
    for seed in 1..=sequences(ON_SQLITE) {
        play(House::on_sqlite(1).await, seed).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_see_their_runs_as_the_model_says_on_postgres() {
    for seed in 1_000..1_000 + sequences(ON_POSTGRES) {
        play(House::on_postgres(SERVERS).await, seed).await;
    }
}
