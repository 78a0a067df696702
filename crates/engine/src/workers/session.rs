//! One worker's process as the server knows it, and what it is to be told.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use abide_core::event::HookKind;
use abide_core::{Key, Millis, RunId, TaskId, TenantId, hex};
use abide_store::{HookId, HookRow, KindRow, SessionId, SessionState};
use tokio::sync::watch;

use super::contact::Contact;

/// A task of a tenant's run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The run.
    pub run: RunId,
    /// Its task.
    pub task: TaskId,
}

impl Place {
    pub(crate) fn of(key: Key, task: &TaskId) -> (TenantId, Self) {
        (key.tenant, Self { run: key.id, task: task.clone() })
    }
}

/// What a worker calls it by: nothing that it should look into.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let execution = self.task.execution.to_be_bytes();
        f.write_str(&hex(&[&self.run.as_bytes()[..], &execution, self.task.node.as_bytes()].concat()))
    }
}

const RUN_BYTES: usize = 16;

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let digit = |digit: u8| char::from(digit).to_digit(16);
            let pair = |pair: &[u8]| u8::try_from(digit(*pair.first()?)? * 16 + digit(*pair.get(1)?)?).ok();
            let bytes: Vec<u8> = text.as_bytes().chunks(2).map(pair).collect::<Option<_>>()?;
            let (run, rest) = bytes.split_at_checked(RUN_BYTES)?;
            let (execution, node) = rest.split_at_checked(4)?;
            let run = RunId::from_bytes(run.try_into().ok()?);
            let execution = u32::from_be_bytes(execution.try_into().ok()?);
            let node = std::str::from_utf8(node).ok()?;
            Some(Self { run, task: TaskId { node: node.into(), execution } })
        };
        read().ok_or_else(|| {
            "it is no task of this server; it stands in the message that handed it out".to_owned()
        })
    }
}

/// A task in a worker's hands, and the fence that it speaks under.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holding {
    /// The task.
    pub place: Place,
    /// The fence.
    pub fence: u64,
}

/// What a worker is to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Letter {
    /// It gets a task.
    Task(Holding),
    /// Something has come that it may wait for with a task.
    Wake(Holding),
    /// It is to stop doing a task.
    Cancel(Holding),
    /// Its agent is called.
    Hook(Box<HookRow>),
    /// It gets no more.
    Drain,
}

/// A worker that comes, or comes back.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// Whose.
    pub tenant: TenantId,
    /// What it calls itself.
    pub id: SessionId,
    /// The agent that it works as.
    pub agent: String,
    /// What it does.
    pub kinds: Vec<KindRow>,
    /// How many tasks it takes at once.
    pub capacity: usize,
    /// What people know it by.
    pub labels: BTreeMap<String, String>,
    /// What its agent wants to be called for.
    pub hooks: Vec<HookKind>,
    /// Which code it runs.
    pub code_version: Option<String>,
    /// What speaks for it.
    pub sdk: Option<String>,
    /// What it says it has.
    pub holding: Vec<Holding>,
}

/// One worker's process.
pub(super) struct Session {
    pub(super) agent: String,
    pub(super) kinds: HashMap<Arc<str>, Provides>,
    pub(super) capacity: usize,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) hooks: Vec<HookKind>,
    pub(super) code_version: Option<String>,
    pub(super) sdk: Option<String>,
    pub(super) registered_at: Millis,
    /// The last look that had begun when it came.
    pub(super) look: u64,
    /// How it stood when that was last written down.
    pub(super) said: Option<SessionState>,
    pub(super) contact: Contact,
    /// The tasks it has.
    pub(super) held: HashSet<Place>,
    /// Tasks that are on their way to it.
    pub(super) reserved: usize,
    /// The calls that it has.
    pub(super) calls: HashSet<HookId>,
    /// It gets no more.
    pub(super) draining: bool,
    /// It stands in line for what waits.
    pub(super) in_line: bool,
    /// What it has not acknowledged, by number.
    mailbox: BTreeMap<u64, Letter>,
    news: watch::Sender<()>,
}

/// How a session stands with one of its kinds.
#[derive(Default)]
pub(super) struct Provides {
    /// It stands among those that have room for a task.
    pub(super) ready: bool,
    /// Of the tasks that found nobody, those up to here were looked for.
    pub(super) seen: u64,
}

impl Session {
    pub(super) fn new(new: &NewSession, now: Millis) -> Self {
        Self {
            agent: String::new(),
            kinds: HashMap::new(),
            capacity: 0,
            labels: BTreeMap::new(),
            hooks: Vec::new(),
            code_version: None,
            sdk: None,
            registered_at: now,
            look: 0,
            said: None,
            contact: Contact::new(now),
            held: HashSet::new(),
            reserved: 0,
            calls: HashSet::new(),
            draining: false,
            in_line: false,
            mailbox: BTreeMap::new(),
            news: watch::Sender::new(()),
        }
        .with(new, now)
    }

    /// The same worker, as it describes itself now.
    pub(super) fn with(mut self, new: &NewSession, now: Millis) -> Self {
        self.agent.clone_from(&new.agent);
        let known = std::mem::take(&mut self.kinds);
        let mut known: HashMap<_, _> = known.into_iter().collect();
        self.kinds = new
            .kinds
            .iter()
            .map(|kind| {
                let name: Arc<str> = kind.kind.as_str().into();
                let provides = known.remove(&name).unwrap_or_default();
                (name, provides)
            })
            .collect();
        self.capacity = new.capacity;
        self.labels.clone_from(&new.labels);
        self.hooks.clone_from(&new.hooks);
        self.code_version.clone_from(&new.code_version);
        self.sdk.clone_from(&new.sdk);
        self.contact.touch(now);
        self
    }

    /// How many more tasks it takes: none if it may be dead.
    pub(super) fn room(&self) -> usize {
        let used = self.held.len() + self.reserved;
        if self.draining || self.contact.is_gone() { 0 } else { self.capacity.saturating_sub(used) }
    }

    /// Puts a letter into its box.
    pub(super) fn tell(&mut self, n: u64, letter: Letter) {
        self.mailbox.insert(n, letter);
        self.news.send_replace(());
    }

    /// Takes a letter back.
    pub(super) fn untell(&mut self, n: Option<u64>) {
        if let Some(n) = n {
            self.mailbox.remove(&n);
        }
    }

    /// It has these letters.
    pub(super) fn acknowledge(&mut self, after: u64) {
        self.mailbox = self.mailbox.split_off(&after.saturating_add(1));
    }

    /// The letters behind a number.
    pub(super) fn letters(&self, after: u64, most: usize) -> Vec<(u64, Letter)> {
        let behind = self.mailbox.range(after.saturating_add(1)..);
        behind.take(most).map(|(n, letter)| (*n, letter.clone())).collect()
    }

    pub(super) fn has_letter(&self, n: Option<u64>) -> bool {
        n.is_some_and(|n| self.mailbox.contains_key(&n))
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<()> {
        self.news.subscribe()
    }

    /// How it stands.
    pub(super) fn state(&self) -> SessionState {
        SessionState {
            seen_at: self.contact.at(),
            listening: self.contact.is_listening(),
            gone: self.contact.is_gone(),
            draining: self.draining,
        }
    }

    /// What people know it by.
    pub(super) fn words(&self) -> String {
        let labels: Vec<String> = self.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if labels.is_empty() {
            format!("worker '{}'", self.agent)
        } else {
            format!("worker '{}' ({})", self.agent, labels.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_survives_a_round_trip_through_what_workers_call_it() {
        let task = TaskId { node: "Prüfung/ä".into(), execution: 7 };
        let place = Place { run: RunId::from_bytes([0xab; 16]), task };
        assert_eq!(place.to_string().parse(), Ok(place.clone()));
        for wrong in ["", "ab", "zz", &"ab".repeat(19), &"é".repeat(20), &format!("{place}ff")] {
            assert!(wrong.parse::<Place>().is_err(), "{wrong}");
        }
    }
}
