//! Tells whoever started a run that something of it waits for an answer, for as long as the engine lives.
//!
//! Who is to be told lies on disk, written with the interrupt. What they are told is read when it is sent: one that was
//! answered meanwhile is not told of, and the token that answers it is made then and kept nowhere.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use abide_core::{InterruptId, InterruptKind, Json, Key, Millis, RunId, TenantId, retry_after, rfc3339};
use abide_store::{CallbackRow, Role};
use serde::Serialize;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;

use crate::http::Post;
use crate::peers::ticks;
use crate::shell::Shell;
use crate::timers::rest;
use crate::{Error, Window, limits};

/// Makes the token that answers an interrupt, at the moment it is sent.
pub trait Minter: Send + Sync + 'static {
    /// A token for whoever is told of an interrupt.
    fn mint(&self, asked: &Asked<'_>) -> Minted;

    /// Where whoever signs in answers an interrupt, if there is such a place.
    fn sign_in(&self, run: Key, id: InterruptId) -> Option<String> {
        let _ = (run, id);
        None
    }
}

/// An interrupt that somebody is told of.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The run that asked.
    pub key: Key,
    /// Its node.
    pub node: &'a str,
    /// Which interrupt.
    pub id: InterruptId,
    /// When it is given up.
    pub deadline: Option<Millis>,
    /// How long its tokens live, if it was asked with a time of its own.
    pub token_ms: Option<Millis>,
    /// It matters who decides it.
    pub tells_apart: bool,
    /// When it is told.
    pub at: Millis,
    /// Whom an answer is put down to; nobody in particular if it is missing.
    pub subject: Option<&'a str>,
}

/// Whom an answer is put down to that comes by a link which was sent to a channel: this, and the channel's name.
pub const CHANNEL_SUBJECT: &str = "channel:";

/// A token, and where it opens something.
pub struct Minted {
    /// The token.
    pub token: String,
    /// Where it is looked at and answered.
    pub url: String,
    /// From then on it opens nothing.
    pub expires_at: Millis,
}

/// What those that tell share.
pub(crate) struct Callbacks {
    minter: Option<Arc<dyn Minter>>,
    wake: Notify,
    places: Semaphore,
}

impl Callbacks {
    pub(crate) fn new(minter: Option<Arc<dyn Minter>>) -> Self {
        Self { minter, wake: Notify::new(), places: Semaphore::new(limits::CALLBACKS_IN_FLIGHT_MAX) }
    }

    pub(crate) fn minter(&self) -> Option<&Arc<dyn Minter>> {
        self.minter.as_ref()
    }

    /// Somebody is to be told of something new.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Waits until every attempt that began is written down, and lets none begin.
    pub(crate) async fn retire(&self) {
        let all = u32::try_from(limits::CALLBACKS_IN_FLIGHT_MAX).unwrap_or(u32::MAX);
        if let Ok(places) = self.places.acquire_many(all).await {
            places.forget();
        }
    }
}

/// Which callback.
type Place = (Key, InterruptId);

/// Tells for as long as the engine lives. At a start there may be something left over.
pub(crate) async fn run(shell: Arc<Shell>) {
    if shell.callbacks.minter.is_none() {
        return;
    }
    let mut desk = Desk::default();
    let has_peers = shell.store.cluster().is_some();
    let mut ticks = ticks(limits::ROLE_LOOK_MS);
    loop {
        let now = shell.clock.now();
        let next = match shell.store.callbacks().due(now, limits::CALLBACKS_PAGE_MAX).await {
            Ok((due, next)) => {
                desk.send(&shell, due);
                next
            }
            Err(error) => {
                tracing::error!(%error, "callbacks can't be read; trying again");
                rest().await;
                continue;
            }
        };
        let has_sent = !desk.under_way.is_empty();
        tokio::select! {
            Some(ended) = desk.sending.join_next(), if has_sent => desk.note_end(ended.ok()),
            () = shell.clock.wait_until(next.unwrap_or_default()), if next.is_some() => {}
            () = shell.callbacks.wake.notified() => {}
            // What another server has asked for may not have been told.
            _ = ticks.tick(), if has_peers => {}
        }
    }
}

/// What is under way.
#[derive(Default)]
struct Desk {
    sending: JoinSet<Place>,
    under_way: HashSet<Place>,
    of_tenant: HashMap<TenantId, usize>,
}

impl Desk {
    /// Begins what is due and has room.
    fn send(&mut self, shell: &Arc<Shell>, due: Vec<CallbackRow>) {
        for row in due {
            let place = (row.key, row.id);
            let tenants = self.of_tenant.entry(row.key.tenant).or_default();
            let full = self.under_way.len() >= limits::CALLBACKS_IN_FLIGHT_MAX;
            if full || *tenants >= limits::CALLBACKS_OF_TENANT_MAX || !self.under_way.insert(place) {
                continue;
            }
            *tenants += 1;
            // It ends what it has begun when the engine is shutting down.
            let sent = shell.runtime.spawn(carry(shell.clone(), row));
            self.sending.spawn(async move {
                let _ = sent.await;
                place
            });
        }
    }

    fn note_end(&mut self, ended: Option<Place>) {
        let Some(place) = ended else { return };
        self.under_way.remove(&place);
        if let Some(count) = self.of_tenant.get_mut(&place.0.tenant) {
            *count -= 1;
        }
        self.of_tenant.retain(|_, count| *count > 0);
    }
}

/// Tries once, and writes down how that ended.
async fn carry(shell: Arc<Shell>, row: CallbackRow) {
    // There are as many places as are under way at once, until the engine is shutting down.
    let Ok(_place) = shell.callbacks.places.try_acquire() else { return };
    if !shell.holds(Role::Callbacks) {
        return;
    }
    let told = match attempt(&shell, &row).await {
        Ok(told) => told,
        Err(error) => {
            tracing::error!(run = %row.key.id, interrupt = %row.id, %error, "a callback can't be read; trying again");
            return rest().await;
        }
    };
    let now = shell.clock.now();
    let again = match told {
        Told::Over => None,
        Told::Not(reason) => {
            let seed =
                [&row.key.tenant.0.to_be_bytes()[..], row.key.id.as_bytes(), row.id.as_bytes()].concat();
            let wait = retry_after(row.attempts.saturating_add(1), &seed);
            let given_up = wait.is_none();
            tracing::warn!(run = %row.key.id, interrupt = %row.id, reason, given_up, "a callback did not arrive");
            wait.map(|wait| now.saturating_add(wait))
        }
    };
    if let Err(error) = shell.store.callbacks().settle(row.key, row.id, again).await {
        tracing::error!(run = %row.key.id, %error, "the end of a callback can't be written; trying again");
        rest().await;
    }
}

/// How an attempt ended.
enum Told {
    /// There is nothing more to tell.
    Over,
    /// It is not known to have arrived.
    Not(String),
}

async fn attempt(shell: &Arc<Shell>, row: &CallbackRow) -> Result<Told, Error> {
    let Some(body) = body(shell, row).await? else { return Ok(Told::Over) };
    let http = match &shell.http {
        Ok(http) => http,
        Err(reason) => return Ok(Told::Not(format!("this server can't send requests: {reason}"))),
    };
    let headers = vec![("content-type", "application/json".to_owned())];
    let answered = http.post(Post { url: &row.url, headers, body }).await;
    shell.pass(Window::EffectReport);
    Ok(match answered {
        Ok(200..=299 | 410) => Told::Over,
        Ok(status) => Told::Not(format!("the receiver answered with status {status}, which is no success")),
        Err(reason) => Told::Not(reason),
    })
}

/// What is told; nothing if the interrupt is not open any more.
async fn body(shell: &Arc<Shell>, row: &CallbackRow) -> Result<Option<Vec<u8>>, Error> {
    let seen = shell.read(row.key, |run| {
        let open = run.interrupt(row.id)?;
        let node = run.interrupted_node(open).clone();
        Some((open.clone(), run.graph().token_ms(&node), node))
    });
    let (open, token_ms, node) = match seen.await {
        Ok(Some(found)) => found,
        Ok(None) => return Ok(None),
        Err(error) if error.is_lasting() => return Ok(None),
        Err(error) => return Err(error),
    };
    let Some(minter) = &shell.callbacks.minter else { return Err(Error::Draining) };
    let (at, deadline, tells_apart) =
        (shell.clock.now(), open.deadline(), open.requested.tells_people_apart());
    let minted = minter.mint(&Asked {
        key: row.key,
        node: &node,
        id: row.id,
        deadline,
        token_ms,
        tells_apart,
        at,
        subject: None,
    });
    let asked = &open.requested;
    let body = Body {
        run_id: row.key.id,
        node_id: &node,
        interrupt_id: row.id,
        kind: asked.kind,
        key: &asked.key,
        data: (!asked.sensitive).then_some(&asked.data),
        sensitive: asked.sensitive,
        requested_at: rfc3339(open.at),
        deadline: deadline.map(rfc3339),
        callback_url: minted.url,
        interrupt_token: minted.token,
        expires_at: rfc3339(minted.expires_at),
    };
    Ok(Some(serde_json::to_vec(&body).expect("what is told is plain data, which serialises")))
}

/// What is told. It has a token in it, so it is shown nowhere.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    run_id: RunId,
    node_id: &'a str,
    interrupt_id: InterruptId,
    kind: InterruptKind,
    key: &'a str,
    /// Left out if it is only for those who answer: whoever looks behind the URL sees it.
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a Json>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    sensitive: bool,
    requested_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<String>,
    callback_url: String,
    interrupt_token: String,
    expires_at: String,
}
