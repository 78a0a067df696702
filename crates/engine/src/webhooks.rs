//! Sends events to webhooks, for as long as the engine lives.
//!
//! Deliveries lie on disk, made with the events that they carry. This looks at those of a webhook when the store tells
//! of new ones, when some come due, and when one of its own ends; it polls nothing. Of a run, one event at a time is
//! under way to a webhook, and the next one leaves when that is written down. Runs go side by side, a few for each
//! webhook, so that a slow receiver keeps only its own waiting. A run keeps its place for a few events only.

mod lines;

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};

use abide_core::{Event, Gate, Hash, Millis, Payload, Permission, Record, RunEvent, RunId};
use abide_store::{Attempted, Due, Outcome, Role, Waiting, WebhookKey, WebhookRow};
use futures_util::FutureExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use self::lines::{Line, Lines};
use crate::http::Post;
use crate::peers::ticks;
use crate::shell::Shell;
use crate::timers::rest;
use crate::{Error, Window, limits};

/// Puts an event into the words that a webhook's receiver expects, and signs it.
pub trait Envelopes: Send + Sync + 'static {
    /// The requests that carry an event, or why there can't be any. There are none if there is nothing to say of it.
    fn seal(&self, enclosed: &Enclosed<'_>) -> Result<Vec<Envelope>, String>;

    /// Whether an event has to be known to put later ones of its run into words.
    fn remembers(&self, record: &Record) -> bool;
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
    /// What was before it, if the webhook is about this run alone.
    pub earlier: &'a Earlier,
    /// When it is sent.
    pub at: Millis,
}

/// What was before an event of a run.
#[derive(Default)]
pub struct Earlier {
    /// Those events that have to be known, in their order.
    pub records: Vec<Record>,
    /// The chain at the event right before it.
    pub chain: Option<Hash>,
    /// How many events these are made of.
    read: u64,
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

/// A run's events to one webhook are no longer under way.
struct Ended {
    webhook: WebhookKey,
    run: RunId,
    how: End,
    /// Free again once this is heard. So those that are not heard yet are no more than there are places, and whoever
    /// hears of an end finds a place.
    place: OwnedSemaphorePermit,
}

enum End {
    /// Nothing follows at once.
    Over,
    /// More follows when others had their turn.
    Rested,
    /// It did not come to its end.
    Broken,
}

/// Sends for as long as the engine lives. At a start there may be something left over.
pub(crate) async fn run(shell: Arc<Shell>) {
    if shell.webhooks.envelopes.is_none() {
        return;
    }
    let news = shell.store.webhooks().news();
    let mut dispatcher = Dispatcher::new(shell);
    dispatcher.begin().await;
    let has_peers = dispatcher.shell.store.cluster().is_some();
    let mut ticks = ticks(limits::ROLE_LOOK_MS);
    loop {
        dispatcher.look_at_stale().await;
        let clock = dispatcher.shell.clock.clone();
        let look_at = dispatcher.lines.look_at();
        tokio::select! {
            fresh = news.next() => fresh.into_iter().for_each(|key| dispatcher.lines.mark(key)),
            Some(ended) = dispatcher.ended.recv() => dispatcher.note_end(ended),
            // What another server has put on its way may not have been told.
            _ = ticks.tick(), if has_peers => dispatcher.begin().await,
            () = clock.wait_until(look_at.unwrap_or_default()), if look_at.is_some() => {
                dispatcher.lines.mark_due(clock.now());
            }
        }
    }
}

struct Dispatcher {
    shell: Arc<Shell>,
    lines: Lines,
    ended: mpsc::Receiver<Ended>,
    end: mpsc::Sender<Ended>,
}

impl Dispatcher {
    fn new(shell: Arc<Shell>) -> Self {
        let (end, ended) = mpsc::channel(limits::WEBHOOKS_IN_FLIGHT_MAX);
        Self { shell, lines: Lines::default(), ended, end }
    }

    async fn begin(&mut self) {
        loop {
            match self.shell.store.webhooks().busy().await {
                Ok(busy) => return busy.into_iter().for_each(|key| self.lines.mark(key)),
                Err(error) => {
                    tracing::error!(%error, "the webhooks can't be read; trying again");
                    rest().await;
                }
            }
        }
    }

    fn note_end(&mut self, ended: Ended) {
        let Ended { webhook, run, how, place } = ended;
        drop(place);
        let Some(line) = self.lines.get_mut(&webhook) else { return };
        line.under_way.remove(&run);
        match how {
            End::Over => {}
            End::Rested => line.rest(run),
            // It would break again at once.
            End::Broken => {
                let later = self.shell.clock.now().saturating_add(limits::STORE_REST_MS as Millis);
                line.look_at = Some(line.look_at.map_or(later, |at| at.min(later)));
                return;
            }
        }
        self.lines.mark(webhook);
    }

    /// Looks at the webhooks that may have something to send, each in its turn, as long as there is room.
    async fn look_at_stale(&mut self) {
        while self.shell.webhooks.places.available_permits() > 0 {
            let Some(key) = self.lines.next() else { return };
            self.look(key).await;
        }
    }

    async fn look(&mut self, key: WebhookKey) {
        let Some(line) = self.lines.get_mut(&key) else { return };
        let now = self.shell.clock.now();
        let found = self.shell.store.webhooks().due(key.clone(), now, line.reach()).await;
        let all_sent = match found {
            Ok(Some(due)) => send_due(&self.shell, line, due, now, &self.end),
            Ok(None) => {
                line.look_at = None;
                true
            }
            Err(error) => {
                tracing::error!(webhook = %key.id, %error, "deliveries can't be read; trying again");
                line.look_at = Some(now.saturating_add(limits::STORE_REST_MS as Millis));
                true
            }
        };
        if all_sent {
            self.lines.forget_idle(&key);
        } else {
            self.lines.mark(key);
        }
    }
}

/// Begins what is due and may be sent. `false` if there were not enough places in all.
fn send_due(
    shell: &Arc<Shell>,
    line: &mut Line,
    mut due: Due,
    now: Millis,
    end: &mpsc::Sender<Ended>,
) -> bool {
    let under_way = line.under_way.len();
    let (room, look_at) = match due.webhook.health.gate(now) {
        Gate::Closed => (limits::WEBHOOK_IN_FLIGHT_MAX.saturating_sub(under_way), due.next),
        Gate::HalfOpen => (usize::from(under_way == 0), due.next),
        // Whatever waits, waits until then.
        Gate::Open { until } => (0, (due.next.is_some() || !due.waiting.is_empty()).then_some(until)),
        Gate::Failed => (0, None),
    };
    line.look_at = look_at;
    line.rank(&mut due.waiting);
    let (webhook, tenant): (Arc<WebhookRow>, Arc<str>) = (Arc::new(due.webhook), due.tenant.into());
    for delivery in due.waiting {
        if line.under_way.len() >= under_way + room {
            return true;
        }
        if line.under_way.contains(&delivery.run) {
            continue;
        }
        let Ok(place) = shell.webhooks.places.clone().try_acquire_owned() else { return false };
        line.leave(delivery.run);
        let ended = Ended { webhook: webhook.key.clone(), run: delivery.run, how: End::Broken, place };
        let trip = Trip { ended: Some(ended), end: end.clone() };
        let courier = Courier {
            shell: shell.clone(),
            webhook: webhook.clone(),
            tenant: tenant.clone(),
            earlier: tokio::sync::Mutex::default(),
        };
        shell.runtime.spawn(courier.carry(delivery, now, trip));
    }
    true
}

/// Tells that a courier's way has ended, however it did.
struct Trip {
    ended: Option<Ended>,
    end: mpsc::Sender<Ended>,
}

impl Trip {
    fn end(mut self, how: End) {
        self.ended = self.ended.take().map(|ended| Ended { how, ..ended });
    }
}

impl Drop for Trip {
    fn drop(&mut self) {
        if let Some(ended) = self.ended.take() {
            // There is room for as many as there are places. Nobody hears it when the engine is shutting down.
            let _ = self.end.try_send(ended);
        }
    }
}

/// Takes the events of one run to one webhook, one after the other, until one does not arrive or its turn is over.
struct Courier {
    shell: Arc<Shell>,
    webhook: Arc<WebhookRow>,
    tenant: Arc<str>,
    /// What was before the last event that it put into words.
    earlier: tokio::sync::Mutex<Earlier>,
}

impl Courier {
    async fn carry(self, first: Waiting, begun: Millis, trip: Trip) {
        // One tries for all the others. When it arrived, they are as welcome as what follows it.
        let most = match self.webhook.health.gate(begun) {
            Gate::HalfOpen => 1,
            _ => limits::WEBHOOK_TURN_MAX,
        };
        let mut next = Some(first);
        for _ in 0..most {
            let Some(delivery) = next.take() else { break };
            next = self.deliver(delivery).await;
        }
        trip.end(if next.is_some() { End::Rested } else { End::Over });
    }

    /// Tries once, and writes down how that ended. The answer is what follows at once.
    async fn deliver(&self, delivery: Waiting) -> Option<Waiting> {
        if !self.shell.holds(Role::Webhooks) {
            return None;
        }
        let attempt = AssertUnwindSafe(self.attempt(&delivery)).catch_unwind().await;
        let outcome = attempt.unwrap_or_else(|_| {
            let error = "this server failed at it; its log tells where, which is a bug to report".to_owned();
            Some(Outcome::Unsendable { error })
        })?;
        let goes_on = matches!(outcome, Outcome::Arrived | Outcome::Passed);
        let at = self.shell.clock.now();
        let attempt = Attempted { webhook: self.webhook.key.clone(), delivery, at, outcome };
        let following = self.settle(attempt).await?;
        following.filter(|_| goes_on && !self.shell.is_draining())
    }

    /// Tries once. `None` if the store failed, so that there is nothing to say.
    async fn attempt(&self, delivery: &Waiting) -> Option<Outcome> {
        match self.prepare(delivery).await {
            Ok(Ok(envelopes)) => Some(self.send_all(envelopes).await),
            Ok(Err(outcome)) => Some(outcome),
            Err(error) => {
                tracing::error!(run = %delivery.run, webhook = %self.webhook.key.id, %error, "a delivery can't be read; trying again");
                rest().await;
                None
            }
        }
    }

    /// Reads the event and puts it into its envelopes, or says why it is not sent.
    async fn prepare(&self, delivery: &Waiting) -> Result<Result<Vec<Envelope>, Outcome>, Error> {
        let Some(record) = self.read(delivery.run, delivery.sequence).await? else {
            return Ok(Err(unreadable("the event")));
        };
        match self.wants(delivery, &record).await? {
            None => return Ok(Err(unreadable("the first event of its run"))),
            Some(false) => return Ok(Err(Outcome::Unwanted)),
            Some(true) => {}
        }
        if !self.is_let_in(delivery).await? {
            return Ok(Err(Outcome::Passed));
        }
        let Some(envelopes) = &self.shell.webhooks.envelopes else { return Err(Error::Draining) };
        let mut earlier = self.earlier.lock().await;
        if self.webhook.about.is_some() {
            self.look_back(&mut earlier, delivery, envelopes.as_ref()).await?;
        }
        let enclosed = Enclosed {
            webhook: &self.webhook,
            tenant: &self.tenant,
            run: delivery.run,
            record: &record,
            earlier: &earlier,
            at: self.shell.clock.now(),
        };
        Ok(envelopes.seal(&enclosed).map_err(|error| Outcome::Failed { status: None, error }))
    }

    /// Whether whoever subscribed may still look. Of what can't be read, now or later, nobody is told; that the store is
    /// away for a while is no reason to keep anything from them.
    async fn is_let_in(&self, delivery: &Waiting) -> Result<bool, Error> {
        let Some(about) = self.webhook.about.as_ref().filter(|about| !about.group) else { return Ok(true) };
        let (key, now) = (delivery.run.of(self.webhook.key.tenant), self.shell.clock.now());
        let permits = self.shell.read(key, |run| run.permits(&about.subscriber, Permission::Read, now));
        match permits.await {
            Err(
                Error::RunNotFound(_)
                | Error::Store(abide_store::Error::Damaged { .. } | abide_store::Error::Sealed(_)),
            ) => Ok(false),
            permits => permits,
        }
    }

    /// Reads what was before an event, as far as it is not known yet.
    async fn look_back(
        &self,
        earlier: &mut Earlier,
        delivery: &Waiting,
        envelopes: &dyn Envelopes,
    ) -> Result<(), Error> {
        let key = delivery.run.of(self.webhook.key.tenant);
        if earlier.read > delivery.sequence {
            // One that is sent once more lies before what was sent last.
            *earlier = Earlier::default();
        }
        while earlier.read < delivery.sequence {
            let most = usize::try_from(delivery.sequence - earlier.read).unwrap_or(usize::MAX);
            let page = self.shell.store.journal(key, earlier.read, most.min(limits::WEBHOOK_PAGE)).await;
            let page = match page {
                Ok(page) => page,
                // What can't be read any more is not told of either.
                Err(abide_store::Error::Damaged { .. } | abide_store::Error::Sealed(_)) => break,
                Err(error) => return Err(error.into()),
            };
            let Some(last) = page.last() else { break };
            (earlier.read, earlier.chain) = (last.sequence + 1, Some(last.chain));
            earlier.records.extend(page.into_iter().filter(|record| envelopes.remembers(record)));
        }
        Ok(())
    }

    /// An event of a run. `None` if it can't be read, now or later.
    async fn read(&self, run: RunId, sequence: u64) -> Result<Option<Record>, Error> {
        match self.shell.store.journal(run.of(self.webhook.key.tenant), sequence, 1).await {
            Ok(records) => Ok(records.into_iter().next().filter(|record| record.sequence == sequence)),
            Err(abide_store::Error::Damaged { .. } | abide_store::Error::Sealed(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the run carries every tag that the webhook asks for. `None` if its first event, which has them, can't be
    /// read.
    async fn wants(&self, delivery: &Waiting, record: &Record) -> Result<Option<bool>, Error> {
        if let Some(until) = self.webhook.about.as_ref().and_then(|about| about.until)
            && until <= record.at
        {
            return Ok(Some(false));
        }
        if self.webhook.tags.is_empty() {
            return Ok(Some(true));
        }
        let first = match record.sequence {
            0 => Some(record.clone()),
            _ => self.read(delivery.run, 0).await?,
        };
        let tags = first.as_ref().and_then(tags_of);
        Ok(tags.map(|tags| self.webhook.tags.iter().all(|tag| tags.contains(tag))))
    }

    /// Sends what is to be said of one event, one request after the other. If one does not arrive, all are sent again.
    async fn send_all(&self, envelopes: Vec<Envelope>) -> Outcome {
        let mut outcome = Outcome::Passed;
        for envelope in envelopes {
            outcome = self.send(envelope).await;
            if outcome != Outcome::Arrived {
                break;
            }
        }
        outcome
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

fn unreadable(what: &str) -> Outcome {
    Outcome::Unsendable { error: format!("{what} can't be read; run `abide verify`") }
}

/// The tags of the run that a first event began. Of one that was erased nobody knows any.
fn tags_of(first: &Record) -> Option<Vec<String>> {
    let Payload::Present(_) = &first.payload else { return Some(Vec::new()) };
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
