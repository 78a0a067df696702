//! What others say has happened, and whoever waits for it.
//!
//! An event is kept first and then held against those that wait; an interrupt is open first and then held against what
//! is kept. Both are on disk before anybody looks, so one of them finds the other. Whom an event is given to is on disk
//! before the first of them gets it, so a process that dies in between gives it to nobody else.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use abide_core::{Answerer, Command, Json, JsonMap, Key, Millis, Rejection, Resolve, TenantId, sha256};
use abide_store::{EventRow, Lane, NewEvent, Put, Role, Target, Waiter};
use tokio::sync::Notify;

use crate::notices::respondent;
use crate::peers::ticks;
use crate::shell::{Basis, Shell};
use crate::timers::rest;
use crate::{Engine, Error, Window, limits};

/// What became of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Those that waited for it and have it.
    pub delivered: Vec<Target>,
    /// Nobody waited for it, and it is kept for whoever asks for it next.
    pub kept: bool,
    /// It was told before.
    pub duplicate: bool,
}

/// What is known of events without a look at the disk.
pub(crate) struct External {
    retention_ms: Millis,
    /// Types of which an interrupt was opened that may wait for an event that is kept.
    stale: Mutex<BTreeSet<Kind>>,
    wake: Notify,
    /// Events that are being given by this process: nobody has to finish that.
    in_hand: Mutex<BTreeMap<Kind, u32>>,
    /// There may be some that a dead process, or a failed attempt, was giving.
    left_over: AtomicBool,
}

/// A tenant's event type, or its event.
type Kind = (TenantId, String);

impl External {
    pub(crate) fn new(retention_ms: Millis) -> Self {
        let (stale, in_hand) = (Mutex::default(), Mutex::default());
        Self { retention_ms, stale, wake: Notify::new(), in_hand, left_over: AtomicBool::new(true) }
    }

    fn mark(&self, kind: Kind) {
        self.stale.lock().expect("no thread panics holding this").insert(kind);
        self.wake.notify_one();
    }

    fn take(&self) -> Option<Kind> {
        self.stale.lock().expect("no thread panics holding this").pop_first()
    }

    fn hold(&self, event: &EventRow) -> InHand<'_> {
        let kind = (event.tenant, event.id.clone());
        *self.in_hand.lock().expect("no thread panics holding this").entry(kind.clone()).or_default() += 1;
        InHand { external: self, kind }
    }

    fn is_in_hand(&self, event: &EventRow) -> bool {
        let kind = (event.tenant, event.id.clone());
        self.in_hand.lock().expect("no thread panics holding this").contains_key(&kind)
    }
}

/// An event that is being given.
struct InHand<'a> {
    external: &'a External,
    kind: Kind,
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        let mut in_hand = self.external.in_hand.lock().expect("no thread panics holding this");
        // Several may have it in hand, of whom one gives it: it is in hand until the last has let go.
        if let Some(hands) = in_hand.get_mut(&self.kind) {
            *hands -= 1;
            if *hands == 0 {
                in_hand.remove(&self.kind);
            }
        }
    }
}

impl Engine {
    /// How long an event is kept that nobody waits for.
    pub fn event_retention_ms(&self) -> Millis {
        self.shell.external.retention_ms
    }

    /// Takes in an event. When this returns, it is with everybody who waited for it, or kept; a repeat changes nothing.
    pub async fn receive_event(
        &self,
        tenant: TenantId,
        id: String,
        event_type: String,
        payload: Json,
        by: String,
    ) -> Result<Received, Error> {
        self.check_open()?;
        check_size("eventId", id.len(), limits::EVENT_NAME_BYTES_MAX)?;
        check_size("eventType", event_type.len(), limits::EVENT_NAME_BYTES_MAX)?;
        check_size("eventPayload", payload.text().len(), limits::EVENT_BYTES_MAX)?;
        let at = self.shell.clock.now();
        let digest = sha256(Json::of(&(&event_type, &payload)).text().as_bytes());
        let expires_at = at.saturating_add(self.shell.external.retention_ms);
        let new = NewEvent { tenant, id, event_type, digest, payload, sender: by, at, expires_at };
        // A caller that goes away does not keep it from those that wait for it.
        let shell = self.shell.clone();
        let receiving = self.shell.runtime.spawn(async move { shell.receive(new).await });
        receiving.await.map_err(|_| Error::Draining)?
    }
}

fn check_size(field: &str, bytes: usize, most: usize) -> Result<(), Error> {
    if bytes <= most {
        return Ok(());
    }
    let message =
        format!("'{field}' has {bytes} bytes, and may have {most}; send what it refers to elsewhere");
    Err(Rejection::Invalid { field: field.to_owned(), message }.into())
}

impl Shell {
    async fn receive(self: &Arc<Self>, new: NewEvent) -> Result<Received, Error> {
        let event = EventRow {
            tenant: new.tenant,
            id: new.id.clone(),
            event_type: new.event_type.clone(),
            digest: new.digest,
            payload: Some(new.payload.clone()),
            sender: new.sender.clone(),
            at: new.at,
            is_kept: true,
            targets: Vec::new(),
        };
        let (event, duplicate) = match self.store.external_events().put(new, limits::EVENTS_KEPT_MAX).await? {
            Put::New => (event, false),
            Put::Full => return Err(Error::EventsFull),
            Put::Known(known) if known.digest != event.digest => return Err(Error::EventConflict(event.id)),
            Put::Known(known) if known.is_kept => (known, true),
            Put::Known(known) => {
                return Ok(Received { delivered: known.targets, kept: false, duplicate: true });
            }
        };
        self.pass(Window::EffectReport);
        let (delivered, kept) = match self.deliver(&event, limits::EVENT_WAITERS_MAX).await {
            Given::To(targets) => (targets, false),
            Given::ToNobody => (Vec::new(), true),
            // It is on disk, and given as soon as that works.
            Given::NotYet(error) => {
                tracing::error!(%error, "an event could not be given to those that wait for it; trying again");
                self.external.left_over.store(true, Ordering::Relaxed);
                self.external.mark((event.tenant, event.event_type));
                (Vec::new(), true)
            }
        };
        Ok(Received { delivered, kept, duplicate })
    }

    /// An interrupt is open that waits for an event of this type: perhaps for one that is kept.
    pub(crate) fn look_for_event(&self, tenant: TenantId, event_type: &str) {
        if self.store.external_events().may_keep(tenant, event_type) {
            self.external.mark((tenant, event_type.to_owned()));
        }
    }

    /// Gives a kept event to those that wait for it, at most so many.
    async fn deliver(self: &Arc<Self>, event: &EventRow, most: usize) -> Given {
        match self.try_deliver(event, most).await {
            Ok(given) => given,
            Err(error) => Given::NotYet(error),
        }
    }

    async fn try_deliver(self: &Arc<Self>, event: &EventRow, most: usize) -> Result<Given, Error> {
        let (tenant, events) = (event.tenant, self.store.external_events());
        let payload = event.payload.clone().unwrap_or_else(|| Json::of(&()));
        let mut refused: Vec<Waiter> = Vec::new();
        for _ in 0..limits::DECIDE_ATTEMPTS_MAX {
            let sought = (event.event_type.clone(), payload.clone());
            let room = most.saturating_add(refused.len());
            let mut waiters = self.store.inbox().waiters(tenant, sought.0, sought.1, room).await?;
            waiters.retain(|waiter| !refused.contains(waiter));
            waiters.truncate(most);
            if waiters.is_empty() {
                return Ok(Given::ToNobody);
            }
            let targets: Vec<Target> = waiters.iter().map(target).collect();
            let _in_hand = self.external.hold(event);
            if !events.give(tenant, event.id.clone(), targets.clone()).await? {
                // Somebody else found it first.
                let given = events.get(tenant, event.id.clone()).await?;
                return Ok(given.map_or(Given::ToNobody, |event| Given::To(event.targets)));
            }
            self.pass(Window::EffectReport);
            let taken = self.hand_out(event, targets, false).await?;
            events.given(tenant, event.id.clone(), taken.clone()).await?;
            if !taken.is_empty() {
                return Ok(Given::To(taken));
            }
            refused.extend(waiters);
        }
        Ok(Given::ToNobody)
    }

    /// Resolves with an event what waits for it. The answer is who took it. After a crash, whoever is not open any more
    /// may have taken it: it is better given to nobody else than to two.
    async fn hand_out(
        self: &Arc<Self>,
        event: &EventRow,
        targets: Vec<Target>,
        again: bool,
    ) -> Result<Vec<Target>, Error> {
        let payload = event.payload.clone().unwrap_or_else(|| Json::of(&()));
        let value = Json::of(&JsonMap::from([("eventPayload".to_owned(), payload)]));
        let mut taken = Vec::new();
        for target in targets {
            let by = Answerer {
                principal: event.sender.clone(),
                may_act_for_others: false,
                ..Answerer::default()
            };
            let resolve = Resolve { id: target.interrupt_id, value: value.clone(), by };
            let key = target.run_id.of(event.tenant);
            if !self.may_tell(key, &target, &event.sender).await? {
                tracing::debug!(run = %target.run_id, "an event was not taken: its sender may not answer");
                continue;
            }
            let command = Command::Resolve(resolve);
            match self.decide(key, &command, Lane::Interactive, Basis::default(), |_| ()).await {
                Ok(()) => taken.push(target),
                Err(Error::Rejected(Rejection::AlreadyResolved)) if again => taken.push(target),
                Err(Error::Rejected(rejection)) => {
                    tracing::debug!(run = %target.run_id, %rejection, "an event was not taken");
                }
                Err(error) if error.is_lasting() => {
                    tracing::error!(run = %target.run_id, %error, "an event can't be given to a run that waits for it");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }

    /// Whether the sender of an event is among those who may answer what waits for it. Of roles, only those of the
    /// directory count: an event may be given long after its sender has gone.
    async fn may_tell(&self, key: Key, target: &Target, sender: &str) -> Result<bool, Error> {
        let id = target.interrupt_id;
        let respondents =
            self.read(key, |run| run.interrupt(id).map(|open| open.requested.respondents.clone()));
        let respondents = match respondents.await {
            Ok(respondents) => respondents.unwrap_or_default(),
            // What is wrong with the run is told when it decides.
            Err(error) if error.is_lasting() => return Ok(true),
            Err(error) => return Err(error),
        };
        if respondents.is_empty() {
            return Ok(true);
        }
        let known = self.store.person(key.tenant, sender.to_owned()).await?;
        Ok(respondent(sender, known.as_ref()).is_among(&respondents))
    }

    /// Goes on with what a dead process, or a failed attempt, was giving.
    async fn finish_giving(self: &Arc<Self>) -> Result<(), Error> {
        let events = self.store.external_events();
        let mut tried = HashSet::new();
        loop {
            let mut begun = events.being_given(limits::EVENTS_PAGE_MAX + tried.len()).await?;
            begun.retain(|event| {
                !self.external.is_in_hand(event) && !tried.contains(&(event.tenant, event.id.clone()))
            });
            if begun.is_empty() {
                return Ok(());
            }
            for event in begun {
                let _in_hand = self.external.hold(&event);
                tried.insert((event.tenant, event.id.clone()));
                // Another server may have found it too.
                if self.store.cluster().is_some() && !events.take_over(event.tenant, event.id.clone()).await?
                {
                    continue;
                }
                let taken = self.hand_out(&event, event.targets.clone(), true).await?;
                events.given(event.tenant, event.id, taken).await?;
            }
        }
    }

    /// What was left when somebody stopped: events that were being given, and those that nobody was found for before
    /// somebody asked for them.
    async fn go_on_giving(self: &Arc<Self>) -> Result<(), Error> {
        self.finish_giving().await?;
        for kind in self.store.external_events().awaited().await? {
            self.external.mark(kind);
        }
        Ok(())
    }

    /// Holds the kept events of a type against those that wait. Each is given to the one that waits longest.
    async fn give_kept(self: &Arc<Self>, tenant: TenantId, event_type: &str) -> Result<(), Error> {
        let events = self.store.external_events();
        let mut after = None;
        loop {
            let now = self.clock.now();
            let page =
                events.kept(tenant, event_type.to_owned(), now, after, limits::EVENTS_PAGE_MAX).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some((last.at, last.id.clone()));
            for event in &page {
                self.try_deliver(event, 1).await?;
            }
        }
    }
}

/// Who has an event.
enum Given {
    To(Vec<Target>),
    ToNobody,
    /// The store failed; what is on disk says where it stands.
    NotYet(Error),
}

fn target(waiter: &Waiter) -> Target {
    Target { run_id: waiter.run, node_id: waiter.node.clone(), interrupt_id: waiter.id }
}

/// Brings kept events and interrupts together for as long as the engine lives. At a start there may be some left over.
pub(crate) async fn run(shell: Arc<Shell>) {
    let has_peers = shell.store.cluster().is_some();
    let mut ticks = ticks(limits::ROLE_LOOK_MS);
    loop {
        match pass(&shell).await {
            Ok(()) => tokio::select! {
                () = shell.external.wake.notified() => {}
                // A server may be gone and have left some.
                _ = ticks.tick(), if has_peers => {
                    let looks = shell.holds(Role::ExternalEvents);
                    shell.external.left_over.fetch_or(looks, Ordering::Relaxed);
                }
            },
            Err(error) => {
                tracing::error!(%error, "events can't be given to those that wait for them; trying again");
                rest().await;
            }
        }
    }
}

async fn pass(shell: &Arc<Shell>) -> Result<(), Error> {
    if shell.external.left_over.swap(false, Ordering::Relaxed) {
        shell
            .go_on_giving()
            .await
            .inspect_err(|_| shell.external.left_over.store(true, Ordering::Relaxed))?;
    }
    while let Some((tenant, event_type)) = shell.external.take() {
        if let Err(error) = shell.give_kept(tenant, &event_type).await {
            shell.external.mark((tenant, event_type));
            return Err(error);
        }
    }
    Ok(())
}

/// Forgets events whose time is over, now and every so often, for as long as the engine lives.
pub(crate) async fn purge(shell: Arc<Shell>) {
    loop {
        let now = shell.clock.now();
        match purge_all(&shell, now).await {
            Ok(()) => {
                let due = now.saturating_add(limits::EVENT_PURGE_MS);
                while shell.clock.now() < due {
                    shell.clock.wait_until(due).await;
                }
            }
            Err(error) => {
                tracing::error!(%error, "old events can't be forgotten; trying again");
                rest().await;
            }
        }
    }
}

async fn purge_all(shell: &Arc<Shell>, now: Millis) -> Result<(), Error> {
    let most = limits::EVENTS_PURGED_MAX;
    while shell.store.external_events().purge(now, most).await? == most {}
    Ok(())
}
