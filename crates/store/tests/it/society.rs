//! Random lives of runs that wait for each other, and of groups that look at them. Messages come in any order, and some
//! never do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use abide_core::event::DependsOn;
use abide_core::{
    Answerer, BondCommand, Cancellation, Command, Effect, Failure, Governance, GovernanceSet, Graph,
    GroupCommand, GroupSpec, Hand, HandAsk, HandOp, Json, MemberAdded, MemberRow, Resolve, Role, RunId,
    Start,
};
use abide_store::{Commit, Message, MessageRef};
use serde_json::json;

use crate::derived::Unsaid;
use crate::live::{BEGIN, Live, TENANT, key, start};
use crate::workflow::by_hand;
use crate::world::Dice;

/// How many runs are under way at once, and how many groups.
const CROWD: usize = 7;
const GROUPS: usize = 2;

pub(crate) struct Society {
    dice: Dice,
    pub(crate) graph: Arc<Graph>,
    runs: Vec<Live>,
    groups: Vec<Live>,
    born: u32,
    mail: Vec<(MessageRef, Message)>,
    /// What was said in commits that nobody knows to be durable, so that nobody hears it.
    said: Vec<(MessageRef, Message)>,
    heard: BTreeMap<(RunId, RunId), u64>,
    watchers: BTreeMap<RunId, BTreeSet<RunId>>,
    members: BTreeMap<RunId, BTreeMap<RunId, MemberRow>>,
    pub(crate) unsaid: Unsaid,
}

impl Society {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            dice: Dice(seed),
            graph: by_hand(),
            runs: Vec::new(),
            groups: Vec::new(),
            born: 0,
            mail: Vec::new(),
            said: Vec::new(),
            heard: BTreeMap::new(),
            watchers: BTreeMap::new(),
            members: BTreeMap::new(),
            unsaid: Unsaid::new(),
        }
    }

    /// All that was decided is durable, and may be heard.
    pub(crate) fn post(&mut self) {
        self.mail.append(&mut self.said);
    }

    /// The next thing that happens to somebody. What a run would refuse does not happen.
    pub(crate) fn next_commit(&mut self) -> Commit {
        loop {
            if let Some(commit) = self.try_next() {
                self.follow(&commit);
                self.runs.retain(|live| !live.run.lifecycle().is_terminal());
                self.groups.retain(|live| !live.run.lifecycle().is_terminal());
                return commit;
            }
        }
    }

    fn try_next(&mut self) -> Option<Commit> {
        if self.groups.len() < GROUPS {
            return Some(self.found());
        }
        if self.runs.len() < CROWD {
            return Some(self.begin());
        }
        match self.dice.below(8) {
            0..=3 => self.deliver(),
            4 => self.govern(),
            _ => self.live_on(),
        }
    }

    /// A new run, which may wait for some that are there.
    fn begin(&mut self) -> Commit {
        self.born += 1;
        let mut depends_on: Vec<DependsOn> = Vec::new();
        for live in &self.runs {
            if self.dice.one_in(5) {
                depends_on
                    .push(DependsOn { status: Some(live.run.status()), ..DependsOn::on(live.key().id) });
            }
        }
        let draft = self.dice.one_in(9);
        let given = Start { depends_on, draft, ..start(key(self.born), &self.graph) };
        let (live, commit) = Live::start_with(given, BEGIN);
        self.runs.push(live);
        commit
    }

    fn found(&mut self) -> Commit {
        self.born += 1;
        let governance = Governance {
            deadline: self.dice.one_in(2).then_some(BEGIN + 9),
            allow_partial_completion: true,
            ..Governance::default()
        };
        let spec = GroupSpec { name: "Q3".to_owned(), governance, ..GroupSpec::default() };
        let given = Start::group(key(self.born), [7; 16], spec);
        let (live, commit) = Live::start_with(given, BEGIN);
        self.groups.push(live);
        commit
    }

    /// Somebody does something with a run: it may be refused.
    fn live_on(&mut self) -> Option<Commit> {
        let (at, whim) = (self.dice.below(self.runs.len()), self.dice.below(20));
        let (run, other) = (self.runs[at].run.clone(), self.dice.below(self.runs.len()));
        let hand =
            |op| Command::Hand(Box::new(Hand { node: None, agent: "ada".to_owned(), principal: None, op }));
        let bond = |command| Command::Bond(Box::new(command));
        let asked = run.interrupts().next().map(|open| open.requested.interrupt_id);
        let command = match whim {
            0..=5 => hand(HandOp::Claim),
            6..=7 => hand(HandOp::Ask(Box::new(question()))),
            8..=9 => hand(HandOp::Complete { outputs: None }),
            10 => hand(HandOp::Fail(Failure::new("no_paper", "the printer has no paper"))),
            11..=13 => {
                let value = Json::of(&json!({ "answers": { "why": "So." } }));
                Command::Resolve(Resolve { id: asked?, value, by: Answerer::of("bob") })
            }
            14..=15 => {
                let other = &self.runs[other];
                // The younger waits for the older, so that nobody waits for ever.
                let on = Some(other.key().id).filter(|id| *id < run.key().id)?;
                let status = Some(other.run.status());
                bond(BondCommand::Depend {
                    on: DependsOn { status, ..DependsOn::on(on) },
                    by: None,
                    driver: None,
                })
            }
            16..=17 => {
                let (on, _) = run.upstreams().first_key_value()?;
                bond(BondCommand::Independ { run: *on, by: None, driver: None })
            }
            18 => bond(BondCommand::Activate { by: None }),
            _ => Command::Cancel(Cancellation::default()),
        };
        decided(&mut self.runs[at], command)
    }

    /// Somebody does something with a group.
    fn govern(&mut self) -> Option<Commit> {
        let at = self.dice.below(self.groups.len());
        let run = &self.runs[self.dice.below(self.runs.len())];
        let known = self.members.get(&self.groups[at].key().id).and_then(|rows| rows.get(&run.key().id));
        let (known, run) = (known.cloned(), &run.run);
        let command = match self.dice.below(20) {
            0..=11 => {
                let (status, sequence) = (run.status(), run.head().next - 1);
                let run = run.key().id;
                let member = MemberAdded { run, role: Role::Member, priority: 1, status, sequence, by: None };
                GroupCommand::Add { member, known }
            }
            12..=14 => GroupCommand::Remove { run: run.key().id, known, by: None },
            15..=18 => {
                let deadline = self.dice.one_in(2).then_some(BEGIN + 5);
                let governance =
                    Governance { deadline, allow_partial_completion: true, ..Governance::default() };
                GroupCommand::Govern { set: GovernanceSet { governance, by: None }, version: None }
            }
            _ => GroupCommand::Close,
        };
        decided(&mut self.groups[at], Command::Group(Box::new(command)))
    }

    /// Brings any message to whom it is for. One that is not taken lies where it is for good.
    fn deliver(&mut self) -> Option<Commit> {
        let at = self.dice.below(self.mail.len().max(1));
        let (message, said) = (at < self.mail.len()).then(|| self.mail.swap_remove(at))?;
        let (receiver, sender) = (message.receiver, message.sender.id);
        let command = match said {
            Message::Watch(watch) => {
                let heard = self.heard.get(&(receiver, sender)).copied();
                BondCommand::Watch { watch, heard }
            }
            Message::Tidings(tidings) => {
                let known = self.members.get(&receiver).and_then(|rows| rows.get(&sender)).cloned();
                BondCommand::Hear { tidings, known }
            }
            other => panic!("nobody says {other:?}"),
        };
        let mut everybody = self.runs.iter_mut().chain(&mut self.groups);
        let live = everybody.find(|live| live.key().id == receiver)?;
        let commit = decided(live, Command::Bond(Box::new(command)))?;
        Some(Commit { consumed: vec![message], ..commit })
    }

    /// What a commit brings about for others.
    fn follow(&mut self, commit: &Commit) {
        let key = commit.key;
        let last = commit.effects.iter().rposition(|effect| matches!(effect, Effect::Announce(_)));
        for (ix, effect) in commit.effects.clone().into_iter().enumerate() {
            match effect {
                Effect::Watch(run) => drop(self.watchers.entry(key.id).or_default().insert(run)),
                Effect::Unwatch(run) => drop(self.watchers.entry(key.id).or_default().remove(&run)),
                Effect::Enlist(row) => drop(self.members.entry(key.id).or_default().insert(row.run, row)),
                Effect::Dismiss { run, .. } => drop(self.members.entry(key.id).or_default().remove(&run)),
                Effect::NoteMember(told) => {
                    let row = self.members.entry(key.id).or_default().get_mut(&told.run);
                    row.expect("it is a member").note(&told);
                }
                Effect::Hear { from, sequence } => drop(self.heard.insert((key.id, from), sequence)),
                Effect::Bid { to, watch } => self.send(commit, watch.sequence, to, Message::Watch(watch)),
                Effect::BidAll(watch) => {
                    let members: Vec<RunId> =
                        self.members.entry(key.id).or_default().keys().copied().collect();
                    for to in members {
                        self.send(commit, watch.sequence, to, Message::Watch(watch.clone()));
                    }
                }
                Effect::Tell { to, tidings } => {
                    self.send(commit, tidings.sequence, to, Message::Tidings(tidings));
                }
                Effect::Announce(tidings) if last != Some(ix) => {
                    self.unsaid.insert((key.id, tidings.sequence));
                }
                Effect::Announce(tidings) => {
                    let watchers = self.watchers.entry(key.id).or_default().clone();
                    for to in watchers {
                        self.send(commit, tidings.sequence, to, Message::Tidings(tidings.clone()));
                    }
                }
                _ => {}
            }
        }
    }

    fn send(&mut self, commit: &Commit, sequence: u64, receiver: RunId, message: Message) {
        assert_eq!(commit.key.tenant, TENANT);
        self.said.push((MessageRef { sender: commit.key, sequence, receiver }, message));
    }
}

fn question() -> HandAsk {
    let payload =
        json!({ "kind": "clarification", "data": { "questions": [{ "id": "why", "question": "Why?" }] } });
    HandAsk { payload: Json::of(&payload), ladder: None, respondents: None }
}

/// The commit of a command, unless it is refused or changes nothing.
fn decided(live: &mut Live, command: Command) -> Option<Commit> {
    let step = live.run.decide(command, BEGIN).ok().filter(|step| !step.records.is_empty())?;
    Some(Commit::of(&live.run, step))
}
