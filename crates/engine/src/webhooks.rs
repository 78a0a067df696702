//! Sends events to webhooks, for as long as the engine lives.
//!
//! Deliveries lie on disk, made with the events that they carry. This looks at those of a webhook when the store tells
//! of new ones, when some come due, and when one of its own ends; it polls nothing. Of a run, one event at a time is
//! under way to a webhook, and the next one leaves when that is written down. Runs go side by side, a few for each
//! webhook, so that a slow receiver keeps only its own waiting.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

use abide_core::{Event, Gate, Millis, Payload, Record, RunEvent, RunId};
use abide_store::{Attempted, Due, Outcome, Waiting, WebhookKey, WebhookRow};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::http::Post;
use crate::shell::Shell;
use crate::timers::rest;
use crate::{Error, Window, limits};

/// Puts an event into the words that a webhook's receiver expects, and signs it.
pub trait Envelopes: Send + Sync + 'static {
    /// The request that carries an event, or why there can't be one.
    fn seal(&self, enclosed: &Enclosed<'_>) -> Result<Envelope, String>;
}

/// What goes into an envelope.
pub struct Enclosed<'a> {
    /// To whom.
    pub webhook: &'a WebhookRow,
    /// The name of the tenant.
    pub tenant: &'a str,
    /// Whose event.
    pub run: RunId,
    /// The event.
    pub record: &'a Record,
    /// When it is sent.
    pub at: Millis,
}

/// A request to a webhook, without its address.
pub struct Envelope {
    /// Headers; their names are in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// What the deliveries under way share.
pub(crate) struct Webhooks {
    envelopes: Option<Arc<dyn Envelopes>>,
    places: Arc<Semaphore>,
    /// Ends of attempts that are to be written down. Whoever has its turn writes all that wait, in one transaction.
    ends: Mutex<Vec<(Attempted, oneshot::Sender<Option<Waiting>>)>>,
    turn: tokio::sync::Mutex<()>,
}

impl Webhooks {
    pub(crate) fn new(envelopes: Option<Arc<dyn Envelopes>>) -> Self {
        let places = Arc::new(Semaphore::new(limits::WEBHOOKS_IN_FLIGHT_MAX));
        Self { envelopes, places, ends: Mutex::default(), turn: tokio::sync::Mutex::default() }
    }

    /// Waits until every attempt that began here is written down, and lets none begin.
    pub(crate) async fn retire(&self) {
        let all = u32::try_from(limits::WEBHOOKS_IN_FLIGHT_MAX).unwrap_or(u32::MAX);
        if let Ok(places) = self.places.acquire_many(all).await {
            places.forget();
        }
    }
}

/// A webhook that something is on its way to.
#[derive(Default)]
struct Line {
    /// The runs whose events are under way.
    under_way: HashSet<RunId>,
    /// Something may have changed since the last look.
    stale: bool,
    /// When to look again in any case.
    look_at: Option<Millis>,
}

impl Line {
    fn is_idle(&self) -> bool {
        self.under_way.is_empty() && !self.stale && self.look_at.is_none()
    }
}

/// A run's events to one webhook are no longer under way.
type Ended = (WebhookKey, RunId);

/// Sends for as long as the engine lives. At a start there may be something left over.
pub(crate) async fn run(shell: Arc<Shell>) {
    if shell.webhooks.envelopes.is_none() {
        return;
    }
    let news = shell.store.webhooks().news();
    let mut dispatcher = Dispatcher::new(shell);
    dispatcher.begin().await;
    loop {
        dispatcher.look_at_stale().await;
        let clock = dispatcher.shell.clock.clone();
        let look_at = dispatcher.lines.values().filter_map(|line| line.look_at).min();
        tokio::select! {
            fresh = news.next() => fresh.into_iter().for_each(|key| dispatcher.mark(key)),
            Some(ended) = dispatcher.ended.recv() => dispatcher.note_end(&ended),
            () = clock.wait_until(look_at.unwrap_or_default()), if look_at.is_some() => {
                dispatcher.mark_due(clock.now());
            }
        }
    }
}

struct Dispatcher {
    shell: Arc<Shell>,
    lines: BTreeMap<WebhookKey, Line>,
    /// The webhook that was looked at last. The next one is first when there is room again.
    last: Option<WebhookKey>,
    ended: mpsc::Receiver<Ended>,
    end: mpsc::Sender<Ended>,
}

impl Dispatcher {
    fn new(shell: Arc<Shell>) -> Self {
        let (end, ended) = mpsc::channel(limits::WEBHOOKS_IN_FLIGHT_MAX);
        Self { shell, lines: BTreeMap::new(), last: None, ended, end }
    }

    async fn begin(&mut self) {
        loop {
            match self.shell.store.webhooks().busy().await {
                Ok(busy) => return busy.into_iter().for_each(|key| self.mark(key)),
                Err(error) => {
                    tracing::error!(%error, "the webhooks can't be read; trying again");
                    rest().await;
                }
            }
        }
    }

    fn mark(&mut self, key: WebhookKey) {
        self.lines.entry(key).or_default().stale = true;
    }

    fn mark_due(&mut self, now: Millis) {
        for line in self.lines.values_mut().filter(|line| line.look_at.is_some_and(|at| at <= now)) {
            line.stale = true;
        }
    }

    fn note_end(&mut self, (key, run): &Ended) {
        if let Some(line) = self.lines.get_mut(key) {
            line.under_way.remove(run);
            line.stale = true;
        }
    }

    /// Looks at every webhook that may have something to send, as long as there is room; those behind the last one come
    /// first, so that each gets its turn.
    async fn look_at_stale(&mut self) {
        let stale: Vec<WebhookKey> =
            self.lines.iter().filter(|(_, line)| line.stale).map(|(key, _)| key.clone()).collect();
        let (before, behind): (Vec<_>, Vec<_>) =
            stale.into_iter().partition(|key| self.last.as_ref().is_some_and(|last| key <= last));
        for key in behind.into_iter().chain(before) {
            if self.shell.webhooks.places.available_permits() == 0 {
                return;
            }
            self.last = Some(key.clone());
            self.look(key).await;
        }
    }

    async fn look(&mut self, key: WebhookKey) {
        let Some(line) = self.lines.get_mut(&key) else { return };
        let now = self.shell.clock.now();
        // Those under way are due as well, and are found before the others.
        let limit = line.under_way.len() + limits::WEBHOOK_IN_FLIGHT_MAX;
        line.stale = false;
        match self.shell.store.webhooks().due(key.clone(), now, limit).await {
            Ok(Some(due)) => send_due(&self.shell, line, due, now, &self.end),
            Ok(None) => line.look_at = None,
            Err(error) => {
                tracing::error!(webhook = %key.id, %error, "deliveries can't be read; trying again");
                line.look_at = Some(now.saturating_add(limits::STORE_REST_MS as Millis));
            }
        }
        if line.is_idle() {
            self.lines.remove(&key);
        }
    }
}

/// Begins what is due and may be sent.
fn send_due(shell: &Arc<Shell>, line: &mut Line, due: Due, now: Millis, end: &mpsc::Sender<Ended>) {
    let under_way = line.under_way.len();
    let (room, look_at) = match due.webhook.health.gate(now) {
        Gate::Closed => (limits::WEBHOOK_IN_FLIGHT_MAX.saturating_sub(under_way), due.next),
        Gate::HalfOpen => (usize::from(under_way == 0), due.next),
        // Whatever waits, waits until then.
        Gate::Open { until } => (0, (due.next.is_some() || !due.waiting.is_empty()).then_some(until)),
        Gate::Failed => (0, None),
    };
    line.look_at = look_at;
    let (webhook, tenant): (Arc<WebhookRow>, Arc<str>) = (Arc::new(due.webhook), due.tenant.into());
    for delivery in due.waiting {
        if line.under_way.len() >= under_way + room {
            return;
        }
        if line.under_way.contains(&delivery.run) {
            continue;
        }
        let Ok(place) = shell.webhooks.places.clone().try_acquire_owned() else {
            line.stale = true;
            return;
        };
        line.under_way.insert(delivery.run);
        let courier =
            Courier { shell: shell.clone(), webhook: webhook.clone(), tenant: tenant.clone(), place };
        shell.runtime.spawn(courier.carry(delivery, end.clone()));
    }
}

/// Takes the events of one run to one webhook, one after the other, until one does not arrive.
struct Courier {
    shell: Arc<Shell>,
    webhook: Arc<WebhookRow>,
    tenant: Arc<str>,
    place: OwnedSemaphorePermit,
}

impl Courier {
    async fn carry(self, first: Waiting, end: mpsc::Sender<Ended>) {
        let ended = (self.webhook.key.clone(), first.run);
        let mut next = Some(first);
        while let Some(delivery) = next.take() {
            let Some(outcome) = self.attempt(&delivery).await else { break };
            let arrived = outcome == Outcome::Arrived;
            let attempt = Attempted {
                webhook: self.webhook.key.clone(),
                delivery,
                at: self.shell.clock.now(),
                outcome,
            };
            let Some(following) = self.settle(attempt).await else { break };
            next = following.filter(|_| arrived && !self.shell.is_draining());
        }
        drop(self.place);
        // Nobody hears it when the engine is shutting down.
        let _ = end.send(ended).await;
    }

    /// Tries once. `None` if the store failed, so that there is nothing to say.
    async fn attempt(&self, delivery: &Waiting) -> Option<Outcome> {
        match self.prepare(delivery).await {
            Ok(Ok(envelope)) => Some(self.send(envelope).await),
            Ok(Err(outcome)) => Some(outcome),
            Err(error) => {
                tracing::error!(run = %delivery.run, webhook = %self.webhook.key.id, %error, "a delivery can't be read; trying again");
                rest().await;
                None
            }
        }
    }

    /// Reads the event and puts it into its envelope, or says why it is not sent.
    async fn prepare(&self, delivery: &Waiting) -> Result<Result<Envelope, Outcome>, Error> {
        let key = delivery.run.of(self.webhook.key.tenant);
        let record = match self.shell.store.journal(key, delivery.sequence, 1).await {
            Ok(records) => records.into_iter().next().filter(|record| record.sequence == delivery.sequence),
            Err(abide_store::Error::Damaged { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let Some(record) = record else {
            let error = "the event can't be read; run `abide verify`".to_owned();
            return Ok(Err(Outcome::Unsendable { error }));
        };
        if !self.wants(delivery, &record).await? {
            return Ok(Err(Outcome::Unwanted));
        }
        let enclosed = Enclosed {
            webhook: &self.webhook,
            tenant: &self.tenant,
            run: delivery.run,
            record: &record,
            at: self.shell.clock.now(),
        };
        let Some(envelopes) = &self.shell.webhooks.envelopes else { return Err(Error::Draining) };
        Ok(envelopes.seal(&enclosed).map_err(|error| Outcome::Failed { status: None, error }))
    }

    /// Whether the run carries every tag that the webhook asks for. Of one that was erased nobody knows.
    async fn wants(&self, delivery: &Waiting, record: &Record) -> Result<bool, Error> {
        if self.webhook.tags.is_empty() {
            return Ok(true);
        }
        let first = match record.sequence {
            0 => Some(record.clone()),
            _ => {
                let key = delivery.run.of(self.webhook.key.tenant);
                self.shell.store.journal(key, 0, 1).await?.into_iter().next()
            }
        };
        let tags = first.as_ref().and_then(tags_of).unwrap_or_default();
        Ok(self.webhook.tags.iter().all(|tag| tags.contains(tag)))
    }

    async fn send(&self, envelope: Envelope) -> Outcome {
        let http = match &self.shell.http {
            Ok(http) => http,
            Err(reason) => {
                let error = format!("this server can't send requests: {reason}");
                return Outcome::Failed { status: None, error };
            }
        };
        let post = Post { url: &self.webhook.url, headers: envelope.headers, body: envelope.body };
        let answered = http.post(post).await;
        self.shell.pass(Window::EffectReport);
        match answered {
            Ok(200..=299) => Outcome::Arrived,
            Ok(410) => Outcome::Gone { status: 410 },
            Ok(status @ 300..=399) => {
                let error =
                    "the receiver redirects, which is not followed: register the final URL".to_owned();
                Outcome::Failed { status: Some(status), error }
            }
            Ok(status) => {
                let error = format!("the receiver answered with status {status}, which is no success");
                Outcome::Failed { status: Some(status), error }
            }
            Err(error) => Outcome::Failed { status: None, error },
        }
    }

    /// Writes down how an attempt ended, until that is on disk. The answer is what follows it in its run.
    async fn settle(&self, attempt: Attempted) -> Option<Option<Waiting>> {
        loop {
            match self.shell.settle(attempt.clone()).await {
                Ok(following) => return Some(following),
                Err(Error::Store(abide_store::Error::Closed)) => return None,
                // It was written together with others, and that failed.
                Err(Error::Contended) => rest().await,
                Err(error) => {
                    tracing::error!(webhook = %self.webhook.key.id, %error, "the end of a delivery can't be written; trying again");
                    rest().await;
                }
            }
        }
    }
}

/// The tags of the run that a first event began.
fn tags_of(first: &Record) -> Option<Vec<String>> {
    let Payload::Present(_) = &first.payload else { return None };
    match first.event().ok()? {
        Event::Run(RunEvent::Started(started)) => Some(started.tags),
        _ => None,
    }
}

impl Shell {
    /// Writes down how an attempt ended, together with all that wait for the same.
    async fn settle(&self, attempt: Attempted) -> Result<Option<Waiting>, Error> {
        let (answer, answered) = oneshot::channel();
        self.webhooks.ends.lock().expect("no thread panics holding this").push((attempt, answer));
        let turn = self.webhooks.turn.lock().await;
        let batch = std::mem::take(&mut *self.webhooks.ends.lock().expect("no thread panics holding this"));
        // Whoever had its turn before may have taken this one along.
        if !batch.is_empty() {
            let (attempts, answers): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
            let settled = self.settle_all(attempts).await?;
            for (answer, following) in answers.into_iter().zip(settled) {
                // Those that could not be written are told by the sender's end, and ask again.
                let _ = following.map(|following| answer.send(following));
            }
        }
        drop(turn);
        answered.await.map_err(|_| Error::Contended)
    }

    /// Writes down many at once; if that fails, each alone, so that one that can't be written holds up no other.
    async fn settle_all(&self, attempts: Vec<Attempted>) -> Result<Vec<Option<Option<Waiting>>>, Error> {
        let failed = match self.store.webhooks().settle(attempts.clone()).await {
            Ok(settled) => return Ok(settled.into_iter().map(Some).collect()),
            Err(error) => error,
        };
        if attempts.len() == 1 {
            return Err(failed.into());
        }
        let mut settled = Vec::with_capacity(attempts.len());
        for attempt in attempts {
            let alone = self.store.webhooks().settle(vec![attempt]).await;
            settled.push(alone.ok().and_then(|mut alone| alone.pop()));
        }
        Ok(settled)
    }
}
