//! Several servers on one store: who is alive, who does what, and what they tell each other.
//!
//! Nothing here is needed for correctness. A commit that is stale fails whoever believed what; a role may be held by two
//! for a moment, and a hint may be lost. What must not happen twice has a condition in its own transaction.

use std::collections::BTreeSet;
use std::time::Instant;

use abide_core::{Key, Millis, TenantId};
use serde::{Deserialize, Serialize};
use tokio::sync::{broadcast, watch};

use crate::store::Answer;
use crate::{MessageRow, SessionId, TimerRow, WebhookKey};

/// For how long a server that says nothing counts as alive.
pub const SERVER_LEASE_MS: Millis = 10_000;

/// What one server at a time does for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Sends events to webhooks.
    Webhooks,
    /// Tells people that something waits for them.
    Notices,
    /// Calls those who gave an address back.
    Callbacks,
    /// Goes on giving events that a server left half given.
    ExternalEvents,
    /// Removes what need not be kept: runs, receipts, events.
    Retention,
    /// Wakes turns whose provider is back.
    Breakers,
    /// Takes tasks from workers whose server is gone.
    Workers,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 7] = [
        Self::Webhooks,
        Self::Notices,
        Self::Callbacks,
        Self::ExternalEvents,
        Self::Retention,
        Self::Breakers,
        Self::Workers,
    ];

    /// Its name, as it is kept and shown.
    pub fn name(self) -> &'static str {
        match self {
            Self::Webhooks => "webhooks",
            Self::Notices => "notices",
            Self::Callbacks => "callbacks",
            Self::ExternalEvents => "external-events",
            Self::Retention => "retention",
            Self::Breakers => "breakers",
            Self::Workers => "workers",
        }
    }

    /// The role of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

/// One server, as all others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerRow {
    /// The number of its start.
    pub boot: u64,
    /// What its operator calls it.
    pub name: String,
    /// Where other servers reach it.
    pub url: String,
    /// Which abide it is.
    pub version: String,
    /// When it started.
    pub started_at: Millis,
    /// When it was last heard.
    pub seen_at: Millis,
    /// Until when it counts as alive.
    pub until: Millis,
    /// How far its own clock is ahead of the store's.
    pub clock_ahead_ms: i64,
    /// How long the oldest thing that it should have done by now has waited: its lag.
    pub lag_ms: i64,
    /// What it does for all.
    pub roles: Vec<Role>,
    /// How many tasks it executes.
    pub tasks: u64,
    /// How many workers have their session there.
    pub sessions: u64,
}

/// How the servers stand, as this one heard last.
#[derive(Clone, Debug)]
pub struct View {
    /// Those that count as alive, by the numbers of their starts. This one is among them.
    pub servers: Vec<ServerRow>,
    /// What this one does for all.
    pub roles: BTreeSet<Role>,
    /// Until when that can be believed.
    pub until: Instant,
    /// Rises whenever this server's lease was over before it was renewed: others may have taken what it had.
    pub lapses: u64,
}

impl View {
    /// Whether this server does this for all, right now.
    pub fn holds(&self, role: Role) -> bool {
        self.roles.contains(&role) && self.is_current()
    }

    /// Whether the lease is known to be held.
    pub fn is_current(&self) -> bool {
        Instant::now() < self.until
    }

    /// Whether this start of a server counts as alive.
    pub fn is_alive(&self, boot: u64) -> bool {
        self.servers.iter().any(|server| server.boot == boot)
    }
}

/// What a server tells the others, so that they need not find out by looking. It may be lost: whoever listens also looks,
/// now and then.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Hint {
    /// A run has moved on.
    #[serde(rename = "r")]
    Run {
        /// Which one.
        key: Key,
        /// The sequence that its next event gets.
        next: u64,
        /// Whether that was its last.
        ended: bool,
    },
    /// A run's events were erased, cut or removed.
    #[serde(rename = "f")]
    Forget(Key),
    /// A timer is due soon.
    #[serde(rename = "t")]
    Timer(Millis),
    /// A message waits for its receiver.
    #[serde(rename = "o")]
    Outbox,
    /// Tasks wait that any server can execute.
    #[serde(rename = "x")]
    Tasks,
    /// A task waits for a worker of a kind.
    #[serde(rename = "w")]
    Work(TenantId, String),
    /// An agent is to be called.
    #[serde(rename = "h")]
    Hook(TenantId, String),
    /// A worker's session has another home now, or none.
    #[serde(rename = "s")]
    Session(TenantId, SessionId),
    /// Somebody is to be told that something waits.
    #[serde(rename = "n")]
    Notices(TenantId),
    /// Somebody is to be called back.
    #[serde(rename = "c")]
    Callbacks,
    /// Something is on its way to a webhook, or the webhook was changed.
    #[serde(rename = "k")]
    Webhook(WebhookKey),
    /// A breaker has changed.
    #[serde(rename = "b")]
    Breaker(TenantId, String),
    /// A turn waits for a breaker.
    #[serde(rename = "p")]
    Postponed(TenantId, String),
    /// A tenant's workers provide other kinds, or its agents have other policies.
    #[serde(rename = "g")]
    Surroundings(TenantId),
    /// API keys or tenants have changed.
    #[serde(rename = "a")]
    Keys,
    /// The test clock was moved.
    #[serde(rename = "l")]
    Clock,
    /// Somebody told something of an aggregate that is kept beside it.
    #[serde(rename = "d")]
    Record(Key),
    /// Hints may have been missed: look at everything.
    #[serde(rename = "e")]
    Everything,
}

/// A store that several servers share.
pub trait Cluster: Send + Sync {
    /// How the servers stand. It changes about once a second, and at once when it matters.
    fn view(&self) -> watch::Receiver<View>;

    /// Tells the others something. It never waits, and what it tells may be put together with more or be lost.
    fn tell(&self, hint: Hint);

    /// Hears what others tell, from now on. What this server tells is not among it. A listener that was too slow, and
    /// everyone after a lost connection, hears [`Hint::Everything`] or that it lags.
    fn hear(&self) -> broadcast::Receiver<Hint>;

    /// The store's time, however wrong this machine's clock is. It never goes back.
    fn now(&self) -> Millis;

    /// Sets what others see of this server: how far behind it is, and how much it has in hand.
    fn say(&self, load: Load);

    /// Every server that was heard lately, also those that are gone.
    fn servers(&self) -> Answer<'_, Vec<ServerRow>>;

    /// Gives up the lease and all roles, so that others need not wait for their end.
    fn leave(&self) -> Answer<'_, ()>;

    /// Takes up to `limit` timers due up to `until` that nobody has in hand, earliest first, for a few seconds. A timer
    /// leaves the table with the commit that it causes; one whose server dies is taken again.
    fn claim_timers(&self, until: Millis, limit: usize) -> Answer<'_, Vec<TimerRow>>;

    /// Takes up to `limit` messages that nobody has in hand, for a few seconds. Of those from one run to another only the
    /// first is given, so that they arrive in order whoever delivers them.
    fn claim_messages(&self, limit: usize) -> Answer<'_, Vec<MessageRow>>;

    /// Where runs stand: those of `keys` that there are, each with the sequence of its next event and whether it ended.
    fn heads(&self, keys: Vec<Key>) -> Answer<'_, Vec<(Key, u64, bool)>>;
}

/// How much a server has in hand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// How long the oldest thing that it should have done by now has waited.
    pub lag_ms: i64,
    /// How many tasks it executes.
    pub tasks: u64,
    /// How many workers have their session there.
    pub sessions: u64,
}
