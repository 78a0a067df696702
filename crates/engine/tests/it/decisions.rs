//! Random decisions about one letter, held against a small model, on both stores.
//!
//! People accept, reject, edit, have it made better, ask first, vote and change their votes; operators hold, release and
//! cancel; time passes, servers die, and the run is forked. Whatever the moves: what is taken and what is refused is what
//! the model says, every question ends once, no vote and no question back is lost, nothing is asked twice, a replay comes
//! out the same, and a branch goes on where its source stood. The seed tells the whole story.

mod model;

use std::sync::Arc;

use abide_core::event::{Event, Held, HoldMode, NodeEvent, Released, RunEvent};
use abide_core::{
    Answerer, Command, ForkMode, Hold, InterruptId, Json, Key, Lifecycle, Millis, Rejection, Run,
};
use abide_engine::{Error, ForkCounts, NewFork, NewRun, Reply, verify};
use abide_store::InboxQuery;
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::dice::Dice;
use crate::house::House;
use crate::support::{TENANT, within};
use model::{Model, Terms};

/// Sequences on each store in an ordinary run of the tests; `ABIDE_DECISIONS` asks for more.
const ON_SQLITE: u64 = 40;
const ON_POSTGRES: u64 = 10;

/// Moves of one sequence, at the most.
const MOVES_MAX: u64 = 24;

const GATE: &str = "gate";
const SECOND: Millis = 1_000;

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum Move {
    Decide {
        who: u64,
        what: What,
    },
    /// Fresh people accept, all at once.
    Race(u64),
    Reply(u32),
    Hold(HoldMode),
    Release,
    Pass(Millis),
    Cancel,
    Crash,
    Replay(u64),
    /// A branch off some event, which is looked at and given up.
    Branch(u64),
    /// A branch off the last event. Everything goes on there, and the source is given up.
    Continue,
}

/// What somebody says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Accept,
    Reject,
    Refine,
    Edit,
    Ask,
    Nonsense,
}

/// What the gate asks for.
fn terms(dice: &mut Dice) -> Terms {
    let required = [1, 1, 2, 3][dice.roll(4) as usize];
    let timeout_ms = (dice.roll(2) == 0).then(|| (20 + dice.roll(60) as Millis) * SECOND);
    Terms { required, majority: dice.roll(2) == 0, timeout_ms }
}

fn next(dice: &mut Dice) -> Move {
    use What::{Accept, Ask, Edit, Nonsense, Refine, Reject};
    let mode = [HoldMode::Pause, HoldMode::Stop][dice.roll(2) as usize];
    match dice.roll(40) {
        0..=13 => {
            let what = [Accept, Accept, Reject, Refine, Refine, Edit, Ask, Ask, Nonsense];
            Move::Decide { who: dice.roll(4), what: what[dice.roll(9) as usize] }
        }
        14..=15 => Move::Race(2 + dice.roll(4)),
        16..=19 => Move::Reply(1 + dice.roll(3) as u32),
        20..=23 => Move::Hold(mode),
        24..=27 => Move::Release,
        28..=31 => Move::Pass(dice.roll(15) as Millis * SECOND),
        32 => Move::Cancel,
        33..=34 => Move::Crash,
        35..=36 => Move::Replay(dice.roll(u64::MAX)),
        37 => Move::Branch(dice.roll(u64::MAX)),
        _ => Move::Continue,
    }
}

/// A letter that is written, decided about and sent.
fn letter(terms: Terms) -> Value {
    let mut config = json!({
        "title": "Send it?", "actions": ["accept", "reject", "refine", "edit-accept", "ask"],
        "requiredApprovals": terms.required,
        "rejectionPolicy": if terms.majority { "majority" } else { "single-veto" },
    });
    if let Some(ms) = terms.timeout_ms {
        config["timeoutMs"] = json!(ms);
    }
    if terms.required > 1 {
        config["actions"] = json!(["accept", "reject", "refine", "ask"]);
    }
    let from = |node: &str, key: &str| json!({ "type": "connection", "nodeId": node, "outputKey": key });
    let node = |id: &str, kind: &str, config: Value, inputs: Value| json!({ "id": id, "typeId": kind, "name": id, "position": {}, "config": config, "inputs": inputs });
    let text = "has(inputs.refineFeedback) ? inputs.previousArtifact + inputs.refineFeedback.text : 'A'";
    json!({
        "id": "letter", "name": "Letter", "version": "1", "triggers": [], "variables": [], "metadata": {},
        "settings": { "maxLoopbackIterations": model::REFINEMENTS_MAX },
        "nodes": [
            node("draft", "core.transform", json!({ "outputs": { "text": text } }), json!({})),
            node(GATE, "core.approvalGate", config, json!({ "artifact": from("draft", "text") })),
            node("send", "core.transform", json!({ "outputs": { "sent": "inputs.text" } }),
                 json!({ "text": from(GATE, "artifactData") })),
        ],
        "edges": [
            { "id": "a", "sourceNodeId": "draft", "targetNodeId": GATE },
            { "id": "b", "sourceNodeId": GATE, "targetNodeId": "send" },
        ],
    })
}

fn said(what: What) -> Value {
    match what {
        What::Accept => json!({ "action": "accept" }),
        What::Reject => json!({ "action": "reject", "feedback": "no" }),
        What::Refine => json!({ "action": "refine", "refineFeedback": { "scope": "whole", "text": "B" } }),
        What::Edit => json!({ "action": "edit-accept", "editedArtifactData": "edited" }),
        What::Ask => json!({ "action": "ask", "question": "Why?" }),
        What::Nonsense => json!({ "action": "shrug" }),
    }
}

/// The run, the servers and the model.
struct World {
    house: House,
    run: Key,
    model: Model,
    /// How many people have raced so far.
    racers: u64,
}

impl World {
    async fn begin(house: House, terms: Terms) -> Self {
        let pushed = house.engine().push_workflow(TENANT, letter(terms).to_string().as_bytes(), None).await;
        let new = NewRun::of(TENANT, &pushed.unwrap().id);
        let run = house.engine().start_run(new).await.unwrap().0.of(TENANT);
        let model = Model::new(terms, house.now());
        Self { house, run, model, racers: 0 }
    }

    async fn read<T>(&self, see: impl Fn(&Run) -> T) -> T {
        self.house.engine().read(self.run, see).await.unwrap()
    }

    async fn open(&self) -> Option<InterruptId> {
        self.read(open_in).await
    }

    async fn ask(&self, command: Command) -> bool {
        let reply = Reply::new(None, |_: &Run| Vec::new());
        taken(self.house.engine().ask_for(self.run, &command, reply).await)
    }

    /// Somebody decides; if nothing is open, about what was asked last.
    async fn decide(&self, id: InterruptId, who: String, what: What) -> bool {
        let (value, reply) = (Json::of(&said(what)), Reply::new(None, |_: &Run| Vec::new()));
        taken(self.house.engine().resolve(self.run, id, value, Answerer::of(&who), reply).await)
    }

    async fn play(&mut self, step: Move) {
        let now = self.house.now();
        match step {
            Move::Decide { who, what } => {
                let Some(id) = self.latest().await else { return };
                let who = format!("person {who}");
                let done = self.decide(id, who.clone(), what).await;
                assert_eq!(done, self.model.decide(&who, what, now), "{what:?} by {who}");
            }
            Move::Race(count) => self.race(count).await,
            Move::Reply(ask) => {
                let Some(id) = self.latest().await else { return };
                let told = abide_core::Reply { id, ask, answer: Json::of("So."), by: "clerk".to_owned() };
                let reply = Reply::new(None, |_: &Run| Vec::new());
                let done = taken(self.house.engine().reply(self.run, told, reply).await);
                assert_eq!(done, self.model.reply(ask), "a reply to ask-{ask}");
            }
            Move::Hold(mode) => {
                let done = self.ask(Command::Hold(Held { mode, reason: None, by: None })).await;
                assert_eq!(done, self.model.hold(mode, now));
            }
            Move::Release => {
                let done = self.ask(Command::Release(Released::default())).await;
                assert_eq!(done, self.model.release(now));
            }
            Move::Pass(ms) => self.pass(ms).await,
            Move::Cancel => {
                let done = self.house.engine().cancel(self.run, None, None).await;
                assert_eq!(taken(done), self.model.cancel());
            }
            Move::Crash => self.house.crash(0).await,
            Move::Replay(at) => self.replay(at).await,
            Move::Branch(at) => self.branch(at).await,
            Move::Continue => self.move_on(now).await,
        }
        self.check().await;
    }

    /// What is open, or else what was asked last: whoever answers that is too late.
    async fn latest(&self) -> Option<InterruptId> {
        let events = self.events(self.run).await;
        events.iter().rev().find_map(|event| match event {
            Event::Node { event: NodeEvent::InterruptRequested(asked), .. } => Some(asked.interrupt_id),
            _ => None,
        })
    }

    async fn race(&mut self, count: u64) {
        let Some(id) = self.latest().await else { return };
        let first = self.racers;
        self.racers += count;
        let racers =
            (first..self.racers).map(|racer| self.decide(id, format!("racer {racer}"), What::Accept));
        let won: Vec<bool> = join_all(racers).await;
        let now = self.house.now();
        // Which of them came first is theirs; how many were taken is not.
        let expected = (0..count).filter(|_| self.model.would_take(now, What::Accept)).count();
        assert!(expected == 0 || won.iter().any(|won| *won), "somebody is taken");
        for (racer, won) in (first..self.racers).zip(&won) {
            if *won {
                let done = self.model.decide(&format!("racer {racer}"), What::Accept, now);
                assert!(done, "more are taken than are needed");
            }
        }
        let refused = won.iter().any(|won| !won);
        assert!(!refused || !self.model.would_take(now, What::Accept), "somebody is refused without need");
    }

    /// Time passes, and whatever is due happens.
    async fn pass(&mut self, ms: Millis) {
        let now = self.house.advance(ms).await;
        if self.model.pass(now) {
            let mut news = self.house.engine().subscribe(self.run);
            while self.open().await.is_some() {
                within("a question to run out", news.changed()).await;
            }
        }
    }

    async fn fork(&self, mode: ForkMode, from_seq: u64) -> (Key, ForkCounts) {
        let asked = NewFork {
            source: self.run,
            mode,
            from_seq,
            overlay: abide_core::fork::Overlay::default(),
            by: None,
            trace: None,
        };
        let counted = Arc::new(std::sync::Mutex::new(None));
        let told = counted.clone();
        let answer = move |run: &Run, counts: ForkCounts| {
            *told.lock().unwrap() = Some((run.key(), counts));
            Vec::new()
        };
        self.house.engine().fork_for(asked, None, answer).await.unwrap();
        counted.lock().unwrap().expect("it was answered")
    }

    /// A replay comes out the same, from wherever it begins, and nobody is asked by it.
    async fn replay(&self, at: u64) {
        let length = self.events(self.run).await.len() as u64;
        let (replay, counts) = self.fork(ForkMode::Replay, at % (length + 1)).await;
        assert_eq!(counts.diverged, 0, "a replay differs");
        let diff = self.house.engine().diff(self.run, replay).await.unwrap();
        assert_eq!(diff.differences, [], "a replay differs");
        let there = self.house.engine().read(replay, Run::lifecycle).await.unwrap();
        assert_eq!(there, self.read(Run::lifecycle).await);
        if let Some(id) = self.house.engine().read(replay, open_in).await.unwrap() {
            let (value, reply) = (Json::of(&said(What::Accept)), Reply::new(None, |_: &Run| Vec::new()));
            let by = Answerer::of("ann");
            let refused = self.house.engine().resolve(replay, id, value, by, reply).await.unwrap_err();
            assert!(matches!(refused, Error::Rejected(Rejection::Replay)), "{refused}");
        }
        assert_eq!(self.in_inbox(replay).await, 0, "nobody is asked by a replay");
    }

    async fn in_inbox(&self, run: Key) -> usize {
        let query = InboxQuery { run: Some(run.id), ..InboxQuery::of(TENANT, 9) };
        self.house.store().inbox().list(query).await.unwrap().rows.len()
    }

    async fn branch(&self, at: u64) {
        let before = self.events(self.run).await;
        let (branch, _) = self.fork(ForkMode::Branch, at % (before.len() as u64 + 1)).await;
        assert_eq!(self.events(self.run).await, before, "a branch changes its source");
        let asks = self.house.engine().read(branch, open_in).await.unwrap();
        if let (Some(there), Some(here)) = (asks, self.open().await) {
            assert_ne!(there, here, "a branch asks under an id of its own");
        }
        let _ = self.house.engine().cancel(branch, None, None).await;
    }

    /// Everything goes on in a branch off the last event.
    async fn move_on(&mut self, now: Millis) {
        let length = self.events(self.run).await.len() as u64;
        let stood_since = self.read(|run| run.head().at).await;
        let (branch, counts) = self.fork(ForkMode::Branch, length).await;
        assert_eq!(counts.copied, length);
        let _ = self.house.engine().cancel(self.run, None, None).await;
        self.run = branch;
        self.model.move_times(now - stood_since);
    }

    async fn events(&self, run: Key) -> Vec<Event> {
        let records = self.house.engine().events(run, 0, usize::MAX).await.unwrap();
        records.iter().map(|record| record.event().unwrap()).collect()
    }

    /// What holds at any time.
    async fn check(&self) {
        let hold = match self.model.held() {
            None => Hold::None,
            Some(HoldMode::Pause) => Hold::Paused,
            Some(HoldMode::Stop) => Hold::Stopped,
        };
        let lifecycle = self.model.end().unwrap_or(Lifecycle::Running);
        assert_eq!(self.read(|run| (run.lifecycle(), run.hold())).await, (lifecycle, hold));
        let open = self.open().await;
        assert_eq!(open.is_some(), self.model.is_open(), "it is open until it is closed, once");
        assert_eq!(self.in_inbox(self.run).await, usize::from(open.is_some()));
        let Some(id) = open else { return };
        let stands = self.read(|run| {
            let open = run.interrupt(id).expect("it is open");
            let votes = open.votes().iter().map(|vote| vote.by.clone()).collect::<Vec<_>>();
            let asks = open.exchanges.iter().map(|asked| asked.answer.is_some()).collect::<Vec<_>>();
            (votes, asks, open.deadline())
        });
        assert_eq!(stands.await, self.model.stands(), "the votes, the questions back and the deadline");
    }

    /// Everything comes to its end.
    async fn finish(mut self) {
        if self.model.held().is_some() {
            self.play(Move::Release).await;
        }
        while self.model.is_open() {
            self.play(Move::Race(1)).await;
        }
        assert!(self.read(Run::lifecycle).await.is_terminal());
        let events = self.events(self.run).await;
        self.check_journal(&events);
        if let Some(sent) = self.model.sent() {
            let found = self.read(|run| run.node(run.graph().node("send").unwrap()).outputs.clone()).await;
            assert_eq!(found.unwrap().parse::<Value>().unwrap(), json!({ "sent": sent }));
        }
        let (replay, counts) = self.fork(ForkMode::Replay, 0).await;
        let kept = self.read(|run| run.forked().map_or(0, |forked| forked.history)).await;
        assert!(kept > 0 || counts.executed >= 2, "a draft and a gate at the least are worked out again");
        assert_eq!((counts.copied, counts.diverged), (kept, 0), "what a branch has kept is taken over");
        assert_eq!(self.house.engine().diff(self.run, replay).await.unwrap().differences, []);
        let report = verify::verify(&**self.house.store(), |_| ()).await.unwrap();
        assert!(report.is_clean(), "{:?}", report.findings);
    }

    /// The journal says all that the model took, and nothing twice.
    fn check_journal(&self, events: &[Event]) {
        let of_gate = |event: &Event| match event {
            Event::Node { event, .. } => Some(event.clone()),
            Event::Run(_) => None,
        };
        let told: Vec<NodeEvent> = events.iter().filter_map(of_gate).collect();
        let mut votes: Vec<(String, String)> = Vec::new();
        let (mut asked, mut replied, mut requested, mut received) = (0, 0, 0, Vec::new());
        for event in &told {
            match event {
                NodeEvent::ApprovalVoted(vote) => {
                    votes.push((vote.decided_by.clone(), vote.action.name().to_owned()));
                }
                NodeEvent::ApprovalAsked(_) => asked += 1,
                NodeEvent::ApprovalReplied(_) => replied += 1,
                NodeEvent::InterruptRequested(_) => requested += 1,
                NodeEvent::ApprovalReceived(told) => received.push(told.action.name()),
                _ => {}
            }
        }
        let mut expected = self.model.votes().to_vec();
        expected.sort();
        votes.sort();
        assert_eq!(votes, expected, "every vote is on the record, once");
        assert_eq!((asked, replied), self.model.exchanges());
        assert_eq!(requested, self.model.questions(), "nothing is asked twice");
        assert_eq!(received, self.model.received(), "each question has one end");
        let ends = events.iter().filter(|event| is_end(event)).count();
        assert!(ends == 1 && events.last().is_some_and(is_end), "one end, and it is the last");
    }
}

/// The question that is open: the gate has one at the most.
fn open_in(run: &Run) -> Option<InterruptId> {
    let mut open = run.interrupts().map(|open| open.requested.interrupt_id);
    let first = open.next();
    assert_eq!(open.next(), None, "two questions are open");
    first
}

fn is_end(event: &Event) -> bool {
    matches!(event, Event::Run(RunEvent::Completed(_) | RunEvent::Failed(_) | RunEvent::Cancelled(_)))
}

/// Whether it was taken. It is refused by the core or not at all.
fn taken<T>(answer: Result<T, Error>) -> bool {
    match answer {
        Ok(_) => true,
        Err(Error::Rejected(_)) => false,
        Err(error) => panic!("{error}"),
    }
}

#[expect(clippy::print_stderr, reason = "a failure is told with what led to it")]
async fn play(house: House, seed: u64) {
    let mut dice = Dice::of(seed);
    let mut world = World::begin(house, terms(&mut dice)).await;
    world.check().await;
    for _ in 0..4 + dice.roll(MOVES_MAX - 4) {
        let step = next(&mut dice);
        eprintln!("seed {seed}: {step:?}");
        world.play(step).await;
    }
    world.finish().await;
}

fn sequences(usual: u64) -> u64 {
    std::env::var("ABIDE_DECISIONS").ok().and_then(|count| count.parse().ok()).unwrap_or(usual)
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_people_decide_is_what_the_model_says_on_sqlite() {
    for seed in 1..=sequences(ON_SQLITE) {
        play(House::on_sqlite(1).await, seed).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_people_decide_is_what_the_model_says_on_postgres() {
    for seed in 1_000..1_000 + sequences(ON_POSTGRES) {
        play(House::on_postgres(1).await, seed).await;
    }
}
