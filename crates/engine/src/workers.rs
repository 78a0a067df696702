//! Workers: processes outside that do nodes' work.
//!
//! A task for a worker is a row on disk, written with the event that offers it. If a worker that provides its kind has
//! room, the same commit says that it is that worker's, and it is told as soon as the commit is durable. Otherwise the
//! task waits on disk, and is claimed when somebody has room. Nothing is polled: whoever has room knows whether tasks
//! have found nobody since it last looked.
//!
//! | noun | file | what it does |
//! |---|---|---|
//! | `Desk` | `desk.rs` and `desk/` | who is there, who has what, what is due; in memory |
//! | `Session`, `Letter` | `session.rs` | one worker, and what it is to be told |
//! | `Contact` | `contact.rs` | when a worker was last heard of |
//! | `Post` | `line.rs` | a worker listens |
//! | `Message` | `message.rs` | a letter with everything it tells |
//! | `Did` | `ops.rs` | what workers do with their tasks |
//! | `Hands` | `hands.rs` | who has what, whichever server knows it |
//! | – | `peers.rs` | what other servers tell of workers, and what is looked at in case that they did not |
//! | chores | `chores.rs` | what has to be written and decided because of workers, and the loops |

mod chores;
mod contact;
mod desk;
mod hands;
mod line;
mod message;
mod ops;
mod peers;
mod session;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use abide_core::{Effect, Key, TenantId};
use abide_store::{Hint, KindRow, SessionId, Store};
use tokio::sync::{Notify, watch};

use crate::shell::Shell;
use crate::{Engine, Error, limits};
use desk::Desk;

pub(crate) use chores::{lose_all, run_calls, run_claims, run_leases};
pub(crate) use desk::Reservation;
pub use desk::{Holder, SessionView};
pub use hands::{Hands, Home};
pub use line::Post;
pub use message::{History, HookMessage, Message, TaskMessage};
pub use ops::{ChildEnd, Did, Op, OpFailure};
pub use session::{Holding, Letter, NewSession, Place};

/// What the parts of this share.
pub(crate) struct Workers {
    desk: Mutex<Desk>,
    /// What is known of kinds, as it lies on disk.
    kinds: tokio::sync::Mutex<HashMap<TenantId, BTreeMap<String, KindRow>>>,
    /// Whether it is known who had what before this start.
    settled: watch::Sender<bool>,
    claims: Notify,
    leases: Notify,
    calls: Notify,
    moved: Notify,
    /// The number of this start, if several servers share the store.
    home: Option<u64>,
    /// How often the lease of this server was over when what is here was last compared with the store.
    lapses: AtomicU64,
    /// How often that was done.
    looks: AtomicU64,
    known: hands::Known,
    /// Servers that were gone when that was last looked at.
    dead: Mutex<HashSet<u64>>,
}

impl Workers {
    pub(crate) fn new(store: &dyn Store, kinds: &[KindRow]) -> Self {
        let (boot, shared) = (store.boot(), store.cluster().is_some());
        let mut known: HashMap<TenantId, BTreeMap<String, KindRow>> = HashMap::new();
        for kind in kinds {
            known.entry(kind.tenant).or_default().insert(kind.kind.clone(), kind.clone());
        }
        Self {
            desk: Mutex::new(Desk::new(boot, shared)),
            kinds: tokio::sync::Mutex::new(known),
            settled: watch::Sender::new(false),
            claims: Notify::new(),
            leases: Notify::new(),
            calls: Notify::new(),
            moved: Notify::new(),
            home: shared.then_some(boot),
            lapses: AtomicU64::new(0),
            looks: AtomicU64::new(0),
            known: hands::Known::default(),
            dead: Mutex::default(),
        }
    }

    /// Changes what is known, and wakes whom that concerns.
    fn with<T>(&self, change: impl FnOnce(&mut Desk) -> T) -> T {
        let mut desk = self.desk.lock().expect("no thread panics holding this");
        let changed = change(&mut desk);
        let news = std::mem::take(&mut desk.news);
        drop(desk);
        for (concerned, notify) in [
            (news.claims, &self.claims),
            (news.leases, &self.leases),
            (news.calls, &self.calls),
            (news.moved, &self.moved),
        ] {
            if concerned {
                notify.notify_one();
            }
        }
        changed
    }

    /// Finds workers for the tasks that a commit offers.
    pub(crate) fn reserve(&self, key: Key, effects: &[Effect]) -> Reservation {
        if effects.iter().any(|effect| matches!(effect, Effect::Offer(_))) {
            self.with(|desk| desk.reserve(key, effects))
        } else {
            Reservation::default()
        }
    }

    /// The commit came to nothing.
    pub(crate) fn give_back(&self, reservation: &Reservation) {
        self.with(|desk| desk.give_back(reservation));
    }

    /// These servers are gone. Gives those that were when this was last said.
    fn seen_dead(&self, dead: HashSet<u64>) -> HashSet<u64> {
        std::mem::replace(&mut *self.dead.lock().expect("no thread panics holding this"), dead)
    }

    /// Waits until it is known who had what before this start.
    async fn settled(&self) {
        // The sender lives as long as `self`.
        let _ = self.settled.subscribe().wait_for(|settled| *settled).await;
    }
}

impl Shell {
    /// A commit is durable: workers hear of it.
    pub(crate) fn tell_workers(self: &Arc<Self>, key: Key, effects: &[Effect], reservation: &Reservation) {
        let concerns = |effect: &Effect| {
            matches!(
                effect,
                Effect::Offer(_)
                    | Effect::OfferAgain(_)
                    | Effect::Withdraw(_)
                    | Effect::CallOff(_)
                    | Effect::Wake(_)
                    | Effect::Hook(_)
            )
        };
        if effects.iter().any(concerns) {
            let now = self.clock.now();
            let chores = self.workers.with(|desk| desk.carry_out(key, effects, reservation, now));
            self.see_to(chores);
            if self.workers.home.is_some() {
                self.tell_peers_of_work(key, effects, reservation);
            }
        }
    }
}

impl Engine {
    /// Takes in a worker, or one that was here before, and what it says of its kinds, durably. Gives what it says it has
    /// and has not.
    pub async fn register_worker(&self, new: NewSession) -> Result<Vec<Place>, Error> {
        self.check_open()?;
        self.shell.workers.settled().await;
        self.keep_kinds(new.tenant, &new.kinds).await?;
        if let Some(home) = self.shell.workers.home {
            return self.shell.take_in_worker(new, home).await;
        }
        let now = self.shell.clock.now();
        let registered = self.shell.workers.with(|desk| desk.register(&new, now));
        let (lost, chores) = registered.map_err(|_| Error::WorkersFull)?;
        self.shell.see_to(chores);
        Ok(lost)
    }

    /// Writes down what is new about kinds. A caller that goes away does not keep what is on disk from holding.
    async fn keep_kinds(&self, tenant: TenantId, kinds: &[KindRow]) -> Result<(), Error> {
        let (shell, kinds) = (self.shell.clone(), kinds.to_vec());
        let keeping = self.shell.runtime.spawn(async move {
            let mut known = shell.workers.kinds.lock().await;
            let of_tenant = known.entry(tenant).or_default();
            if shell.workers.home.is_some() {
                *of_tenant = shell.kinds_on_disk(tenant).await?;
                // They may be news to this server alone.
                shell.surroundings.add_kinds(tenant, &kinds);
            }
            let is_new = |kind: &KindRow| {
                let before = of_tenant.get(&kind.kind);
                before.is_none_or(|before| {
                    KindRow { registered_at: kind.registered_at, ..before.clone() } != *kind
                })
            };
            let new: Vec<KindRow> = kinds.into_iter().filter(is_new).collect();
            if new.is_empty() {
                return Ok(());
            }
            let added = new.iter().filter(|kind| !of_tenant.contains_key(&kind.kind)).count();
            if of_tenant.len() + added > limits::KINDS_OF_TENANT_MAX {
                return Err(Error::KindsFull);
            }
            shell.store.work().put_kinds(new.clone()).await?;
            shell.surroundings.add_kinds(tenant, &new);
            of_tenant.extend(new.into_iter().map(|kind| (kind.kind.clone(), kind)));
            shell.tell_peers(Hint::Surroundings(tenant));
            Ok(())
        });
        keeping.await.map_err(|_| Error::Draining)?
    }

    /// Forgets a kind: a node of it fails from now on, until a worker provides it again. `false` if it is not known.
    pub async fn forget_kind(&self, tenant: TenantId, kind: String) -> Result<bool, Error> {
        self.check_open()?;
        let shell = self.shell.clone();
        let forgetting = self.shell.runtime.spawn(async move {
            let mut known = shell.workers.kinds.lock().await;
            let there = shell.store.work().forget_kind(tenant, kind.clone()).await?;
            shell.surroundings.forget_kind(tenant, &kind);
            if let Some(kinds) = known.get_mut(&tenant) {
                kinds.remove(&kind);
            }
            shell.tell_peers(Hint::Surroundings(tenant));
            Ok(there)
        });
        forgetting.await.map_err(|_| Error::Draining)?
    }

    /// Notes that a worker was heard of, and which letters it has.
    pub fn hear_worker(&self, tenant: TenantId, id: SessionId, after: Option<u64>) -> Result<(), Error> {
        let now = self.shell.clock.now();
        let known = self.shell.workers.with(|desk| {
            let known = desk.touch((tenant, id), now);
            if let Some(after) = after {
                desk.acknowledge((tenant, id), after);
            }
            known
        });
        if known { Ok(()) } else { Err(Error::WorkerUnknown(id)) }
    }

    /// A worker goes: what it has is lost at once.
    pub fn leave(&self, tenant: TenantId, id: SessionId) -> Result<(), Error> {
        self.check_open()?;
        let chores = self.shell.workers.with(|desk| desk.leave((tenant, id)));
        self.shell.see_to(chores.ok_or(Error::WorkerUnknown(id))?);
        Ok(())
    }

    /// A worker gets no more tasks, and is told to end when it has done those it has.
    pub fn drain_worker(&self, tenant: TenantId, id: SessionId) -> Result<(), Error> {
        let there = self.shell.workers.with(|desk| desk.drain((tenant, id)));
        if there { Ok(()) } else { Err(Error::WorkerUnknown(id)) }
    }

    /// Whether a worker has its session at this server.
    pub fn is_here(&self, tenant: TenantId, id: SessionId) -> bool {
        self.shell.workers.with(|desk| desk.is_here((tenant, id)))
    }

    /// How many workers are at this server, and how many tasks of each kind they have, all tenants together.
    pub fn worker_counts(&self) -> (usize, BTreeMap<Arc<str>, u64>) {
        self.shell.workers.with(|desk| desk.counts())
    }
}
