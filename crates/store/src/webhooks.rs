//! Webhooks: who is told of events, and what is on its way to them.
//!
//! A delivery is made in the transaction of the event that it carries, so an event that is durable is sent whatever
//! dies. It is over only when its end is written, so it may be sent more than once.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock};

use abide_core::{Health, Key, Millis, RunId, TenantId};
use tokio::sync::Notify;

use serde::{Deserialize, Serialize};

use crate::Receipt;
use crate::store::Answer;

/// Dead letters kept of one webhook; beyond them the oldest are forgotten and counted. A person looks at them, and what
/// they tell of stands in the journals all the same.
pub const DEAD_LETTERS_MAX: usize = 1000;

/// Bytes of what is told of a failed attempt.
pub const LAST_ERROR_BYTES_MAX: usize = 500;

/// A webhook's place in the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct WebhookKey {
    /// Whose.
    pub tenant: TenantId,
    /// Which of theirs.
    pub id: Arc<str>,
}

/// Where webhooks and what is on its way to them live.
pub trait Webhooks: Send + Sync {
    /// Durably adds a webhook, and with it the receipt of the request that asked for it. Events that are committed after
    /// this is answered are delivered. A tenant has at most `most` webhooks that are about one aggregate, or that are not;
    /// those whose time is over make room.
    fn put(&self, webhook: WebhookRow, most: usize, receipt: Option<Receipt>) -> Answer<'_, Added>;

    /// Reads a webhook.
    fn get(&self, key: WebhookKey) -> Answer<'_, Option<Shown>>;

    /// A tenant's webhooks by id.
    fn list(&self, tenant: TenantId) -> Answer<'_, Vec<Shown>>;

    /// A tenant's webhooks that are about one aggregate, by id: about this one, or about any.
    fn subscriptions(&self, tenant: TenantId, run: Option<RunId>) -> Answer<'_, Vec<WebhookRow>>;

    /// Durably forgets a webhook and everything on its way to it. `false` if there is none.
    fn delete(&self, key: WebhookKey) -> Answer<'_, bool>;

    /// Durably closes the breaker of a webhook, and lets one that failed be tried again: what waited is due at `now`, and
    /// it hears of new events. `false` if there is none.
    fn enable(&self, key: WebhookKey, now: Millis) -> Answer<'_, bool>;

    /// Durably replaces the sealed secret of a webhook by the same one, sealed with another key. `false` if there is none.
    fn reseal(&self, key: WebhookKey, sealed: Arc<[u8]>) -> Answer<'_, bool>;

    /// Reads deliveries by run and sequence, those behind `after`.
    fn deliveries(&self, query: DeliveryQuery) -> Answer<'_, Vec<DeliveryRow>>;

    /// Durably makes dead letters due at `now`, as if they had never been tried: those that are named, or all. The answer
    /// is how many there were.
    fn resend(&self, key: WebhookKey, which: Option<Vec<(RunId, u64)>>, now: Millis) -> Answer<'_, u64>;

    /// The webhooks that something is on its way to.
    fn busy(&self) -> Answer<'_, Vec<WebhookKey>>;

    /// What is due for a webhook, earliest first: at most `limit` runs, and as many dead letters that are sent once more.
    /// `None` if there is no such webhook.
    fn due(&self, key: WebhookKey, now: Millis, limit: usize) -> Answer<'_, Option<Due>>;

    /// Durably records how attempts ended, in one transaction. For each, the answer is what follows it in its run at once.
    fn settle(&self, attempts: Vec<Attempted>) -> Answer<'_, Vec<Option<Waiting>>>;

    /// Tells which webhooks have something new to be sent, or were changed. One hears it.
    fn news(&self) -> Arc<WebhookNews>;
}

/// What became of a webhook that was to be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// It is there.
    Done,
    /// The tenant has as many as it may have; nothing was written.
    Full,
    /// There is a receipt under the same key; nothing was written.
    Receipted,
}

/// A webhook.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookRow {
    /// Whose, and its id.
    pub key: WebhookKey,
    /// Where events are sent.
    pub url: String,
    /// Names of event types; `*` stands for all that OpenWOP knows.
    pub types: Vec<String>,
    /// Only runs that carry all of these.
    pub tags: Vec<String>,
    /// The secret that signs, under a key of the keyring. The store can't look inside.
    pub sealed: Arc<[u8]>,
    /// Tells secrets apart, and nothing of them.
    pub fingerprint: String,
    /// When it was added.
    pub created_at: Millis,
    /// Who added it.
    pub created_by: Option<String>,
    /// How its receiver does.
    pub health: Health,
    /// The one aggregate that it is about, if it is.
    pub about: Option<About>,
}

/// The one aggregate that a webhook is about: it hears of everything that happens to that, whatever its types are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Which.
    pub run: RunId,
    /// Whether that is a group.
    pub group: bool,
    /// Who wants to hear.
    pub subscriber: String,
    /// Of what happens from then on it hears nothing.
    pub until: Option<Millis>,
}

/// Logs show that there is a secret, not what it is, be it sealed or not. A URL may hold one, too.
impl std::fmt::Debug for WebhookRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebhookRow")
            .field("key", &self.key)
            .field("types", &self.types)
            .field("tags", &self.tags)
            .field("health", &self.health)
            .field("about", &self.about)
            .finish_non_exhaustive()
    }
}

/// A webhook with what became of its deliveries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The webhook.
    pub webhook: WebhookRow,
    /// Deliveries that arrived.
    pub delivered: u64,
    /// Runs with events on their way, and dead letters that are sent once more.
    pub pending: u64,
    /// Dead letters.
    pub dead: u64,
    /// Dead letters that were forgotten for want of room.
    pub dropped: u64,
}

/// A delivery that waits for its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Which event: of this run,
    pub run: RunId,
    /// and with this sequence.
    pub sequence: u64,
    /// Whether it was given up before and is sent once more, apart from the run's other events.
    pub again: bool,
}

/// What is due for a webhook.
#[derive(Clone, Debug)]
pub struct Due {
    /// The webhook.
    pub webhook: WebhookRow,
    /// Its tenant's name.
    pub tenant: String,
    /// What is due.
    pub waiting: Vec<Waiting>,
    /// When something more is due.
    pub next: Option<Millis>,
}

/// How an attempt at a delivery ended.
#[derive(Clone, Debug)]
pub struct Attempted {
    /// To whom.
    pub webhook: WebhookKey,
    /// What.
    pub delivery: Waiting,
    /// When.
    pub at: Millis,
    /// How.
    pub outcome: Outcome,
}

/// How an attempt at a delivery ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver has it.
    Arrived,
    /// It is not known to have it.
    Failed {
        /// The status of its answer, if there was one.
        status: Option<u16>,
        /// What went wrong.
        error: String,
    },
    /// It said that it wants no more, now or ever.
    Gone {
        /// The status of its answer.
        status: u16,
    },
    /// Trying again would not help, and the receiver is not to blame.
    Unsendable {
        /// Why.
        error: String,
    },
    /// The webhook does not want to hear of this run.
    Unwanted,
    /// There is nothing to say to it of this event.
    Passed,
}

/// Which deliveries to read.
#[derive(Clone, Debug)]
pub struct DeliveryQuery {
    /// To whom.
    pub webhook: WebhookKey,
    /// Those that were given up, or those on their way.
    pub dead: bool,
    /// Only those behind this one.
    pub after: Option<(RunId, u64)>,
    /// At most so many.
    pub limit: usize,
}

/// A delivery as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryRow {
    /// Which event: of this run,
    pub run: RunId,
    /// and with this sequence.
    pub sequence: u64,
    /// The event's type.
    pub type_code: u16,
    /// When it is tried next; `None` if it was given up.
    pub due: Option<Millis>,
    /// Attempts so far.
    pub attempts: u32,
    /// When the last of them was.
    pub last_at: Option<Millis>,
    /// The status of its answer.
    pub last_status: Option<u16>,
    /// Why it failed.
    pub last_error: Option<String>,
}

/// Webhooks that have something new to be sent.
#[derive(Default)]
pub struct WebhookNews {
    fresh: Mutex<BTreeSet<WebhookKey>>,
    wake: Notify,
    /// Tells other servers, where there are any.
    elsewhere: OnceLock<Elsewhere>,
}

/// Tells other servers of a webhook.
type Elsewhere = Box<dyn Fn(WebhookKey) + Send + Sync>;

impl WebhookNews {
    /// Waits until there is something new, and takes it.
    pub async fn next(&self) -> BTreeSet<WebhookKey> {
        loop {
            let fresh = std::mem::take(&mut *self.fresh.lock().expect("no thread panics holding this"));
            if !fresh.is_empty() {
                return fresh;
            }
            self.wake.notified().await;
        }
    }

    /// Has what is told here also be told elsewhere.
    pub(crate) fn pass_on(&self, elsewhere: impl Fn(WebhookKey) + Send + Sync + 'static) {
        // It is set once, when the store is opened.
        let _ = self.elsewhere.set(Box::new(elsewhere));
    }

    /// Tells whoever sends, here and elsewhere.
    pub(crate) fn tell(&self, webhooks: impl IntoIterator<Item = WebhookKey>) {
        self.hear(webhooks.into_iter().inspect(|webhook| {
            self.elsewhere.get().into_iter().for_each(|tell| tell(webhook.clone()));
        }));
    }

    /// Takes in what was told, here or elsewhere.
    pub(crate) fn hear(&self, webhooks: impl IntoIterator<Item = WebhookKey>) {
        let mut fresh = self.fresh.lock().expect("no thread panics holding this");
        let before = fresh.len();
        fresh.extend(webhooks);
        if fresh.len() > before {
            self.wake.notify_one();
        }
    }
}

impl Waiting {
    /// What the waits between attempts are drawn from: each delivery has its own.
    pub(crate) fn seed(&self, webhook: &WebhookKey) -> Vec<u8> {
        let Key { tenant, id } = self.run.of(webhook.tenant);
        [&tenant.0.to_be_bytes()[..], webhook.id.as_bytes(), id.as_bytes(), &self.sequence.to_be_bytes()]
            .concat()
    }
}
