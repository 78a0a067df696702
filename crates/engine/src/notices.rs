//! Tells people that an interrupt waits for them, for as long as the engine lives.
//!
//! Attempts lie on disk, written with their events. Each is turned into messages, one for each recipient and channel,
//! and from then on the messages are tried until they are sent, given up, or of no use any more. What a message says is
//! read when it is sent, and the link that answers is made then and kept nowhere. When an interrupt is closed, those
//! who were told of it hear what became of it.
//!
//! Nothing is polled: it looks when a commit says that there is something new, when something comes due, and when
//! something of its own ends. Tenants and channels take turns, and a channel that hangs keeps only its own waiting.

mod directory;
mod expand;
mod lines;
mod send;
mod settle;
mod words;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use abide_core::{Millis, TenantId};
use abide_notify::{Channels, Failure, Message, Receipt};
use abide_store::{Hint, HowEnded, NoticeDelivery, NoticeEnd, NoticeId, NoticeLine, Role};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;

pub(crate) use self::directory::respondent;
use self::lines::Lines;
use self::settle::Ends;
use crate::peers::ticks;
use crate::shell::Shell;
use crate::timers::rest;
use crate::{Engine, Error, limits};

/// What those that tell share.
pub(crate) struct Notices {
    pub(crate) channels: Arc<Channels>,
    news: Mutex<News>,
    wake: Notify,
    places: Semaphore,
    ends: Ends,
}

/// What happened since somebody looked.
#[derive(Default)]
struct News {
    /// There are attempts that nobody was told of.
    untold: bool,
    /// Tenants that have something else to send.
    tenants: HashSet<TenantId>,
}

impl Notices {
    pub(crate) fn new(channels: Arc<Channels>) -> Self {
        Self {
            channels,
            news: Mutex::default(),
            wake: Notify::new(),
            places: Semaphore::new(limits::NOTICES_IN_FLIGHT_MAX),
            ends: Ends::default(),
        }
    }

    /// An attempt was made.
    pub(crate) fn wake_for_attempt(&self) {
        self.tell(|news| news.untold = true);
    }

    /// Something of a tenant is to be sent: a follow-up, or a message once more.
    pub(crate) fn wake_for(&self, tenant: TenantId) {
        self.tell(|news| {
            news.tenants.insert(tenant);
        });
    }

    fn tell(&self, change: impl FnOnce(&mut News)) {
        change(&mut self.news.lock().expect("no thread panics holding this"));
        self.wake.notify_one();
    }

    fn take_news(&self) -> News {
        std::mem::take(&mut *self.news.lock().expect("no thread panics holding this"))
    }

    /// Waits until every try that began is written down, and lets none begin.
    pub(crate) async fn retire(&self) {
        let all = u32::try_from(limits::NOTICES_IN_FLIGHT_MAX).unwrap_or(u32::MAX);
        if let Ok(places) = self.places.acquire_many(all).await {
            places.forget();
        }
    }
}

/// Tells for as long as the engine lives. At a start there may be something left over.
pub(crate) async fn run(shell: Arc<Shell>) {
    let mut desk = Desk { shell, lines: Lines::default(), sending: JoinSet::new(), untold: true, turn: None };
    desk.mark(None).await;
    let has_peers = desk.shell.store.cluster().is_some();
    let mut ticks = ticks(limits::ROLE_LOOK_MS);
    loop {
        while let Some(ended) = desk.sending.try_join_next() {
            ended.iter().for_each(|place| desk.lines.end(place));
        }
        if desk.untold {
            desk.expand().await;
        }
        desk.look_at_stale().await;
        let clock = desk.shell.clock.clone();
        if desk.untold {
            // However many attempts there are, what comes due meanwhile has its turn.
            desk.lines.mark_due(clock.now());
            desk.hear().await;
            continue;
        }
        let (look_at, has_sent) = (desk.lines.look_at(), !desk.sending.is_empty());
        tokio::select! {
            () = desk.shell.notices.wake.notified() => {}
            // What another server has written may not have been told.
            _ = ticks.tick(), if has_peers => {
                desk.untold = true;
                desk.mark(None).await;
            }
            Some(ended) = desk.sending.join_next(), if has_sent => {
                ended.iter().for_each(|place| desk.lines.end(place));
            }
            () = clock.wait_until(look_at.unwrap_or_default()), if look_at.is_some() => {
                desk.lines.mark_due(clock.now());
            }
        }
        desk.hear().await;
    }
}

/// A message under way.
struct Place {
    line: NoticeLine,
    id: NoticeId,
    recipient: String,
}

struct Desk {
    shell: Arc<Shell>,
    lines: Lines,
    sending: JoinSet<Place>,
    /// There may be attempts that nobody was told of.
    untold: bool,
    /// The tenant that had its turn last.
    turn: Option<TenantId>,
}

impl Desk {
    async fn hear(&mut self) {
        let news = self.shell.notices.take_news();
        self.untold |= news.untold;
        for tenant in news.tenants {
            self.mark(Some(tenant)).await;
        }
    }

    /// Has the lines of a tenant, or all, looked at.
    async fn mark(&mut self, tenant: Option<TenantId>) {
        loop {
            match self.shell.store.notices().lines(tenant).await {
                Ok(lines) => return lines.into_iter().for_each(|line| self.lines.mark(line)),
                Err(abide_store::Error::Closed) => return,
                Err(error) => {
                    tracing::error!(%error, "what is to be sent can't be read; trying again");
                    rest().await;
                }
            }
        }
    }

    /// Turns a page of attempts into messages.
    async fn expand(&mut self) {
        let (of_tenant, limit) = (limits::NOTICES_OF_TENANT_PAGE_MAX, limits::NOTICES_PAGE_MAX);
        let page = match self.shell.store.notices().untold(self.turn, of_tenant, limit).await {
            Ok(page) => page,
            Err(error) => return self.fail("attempts can't be read", &error.into()).await,
        };
        let Some(last) = page.last() else {
            self.untold = false;
            return;
        };
        self.turn = Some(last.key.tenant);
        if !self.shell.holds(Role::Notices) {
            return;
        }
        match self.shell.expand(page).await {
            Ok(lines) => lines.into_iter().for_each(|line| self.lines.mark(line)),
            Err(error) => self.fail("attempts can't be turned into messages", &error).await,
        }
    }

    async fn fail(&mut self, what: &str, error: &Error) {
        self.untold = !matches!(error, Error::Store(abide_store::Error::Closed));
        tracing::error!(%error, "{what}; trying again");
        rest().await;
    }

    /// Looks at the lines that may have something to send, each in its turn, as long as there is room.
    async fn look_at_stale(&mut self) {
        while let Some(line) = self.lines.next() {
            if let Err(error) = self.look(&line).await {
                tracing::error!(%error, "messages can't be read; trying again");
                let later = self.shell.clock.now().saturating_add(limits::STORE_REST_MS as Millis);
                self.lines.look_later(&line, later);
            }
            self.lines.forget_idle(&line);
        }
    }

    async fn look(&mut self, line: &NoticeLine) -> Result<(), Error> {
        let now = self.shell.clock.now();
        let reach = self.lines.under_way(line) + limits::NOTICES_LOOK_MAX;
        let (due, next) = self.shell.store.notices().due(line.clone(), now, reach).await?;
        self.lines.set_look_at(line, next);
        let mut allowed = Allowed { now, line, left: HashMap::new() };
        let mut put_off = Vec::new();
        for row in due {
            if self.lines.is_under_way(line, row.id) {
                continue;
            }
            // Whom a channel tells by itself is nobody who could be flooded.
            if row.follow.is_none()
                && !row.recipient.is_empty()
                && let Some((due, reason)) = allowed.put_off(&self.shell, &self.lines, &row).await?
            {
                let how = HowEnded::PutOff { due, reason };
                put_off.push(NoticeEnd { tenant: row.tenant, id: row.id, how });
                continue;
            }
            if self.lines.room(line) == 0 {
                break;
            }
            self.begin(line, row);
        }
        if !put_off.is_empty() {
            self.shell.counters.put_off(put_off.len());
            self.shell.store.notices().settle(put_off, None).await?;
            self.lines.mark(line.clone());
        }
        Ok(())
    }

    fn begin(&mut self, line: &NoticeLine, row: NoticeDelivery) {
        let place = Place { line: line.clone(), id: row.id, recipient: row.recipient.clone() };
        self.lines.begin(&place);
        // It ends what it has begun when the engine is shutting down.
        let sent = self.shell.runtime.spawn(send::carry(self.shell.clone(), row));
        self.sending.spawn(async move {
            let _ = sent.await;
            place
        });
    }
}

/// What recipients may still get, as far as a look had to know.
struct Allowed<'a> {
    now: Millis,
    line: &'a NoticeLine,
    left: HashMap<String, Left>,
}

struct Left {
    /// How many may be sent now.
    messages: u32,
    /// When one more may be, if none may now.
    until: Millis,
    /// How many were put off.
    put_off: u32,
}

impl Allowed<'_> {
    /// Until when a message has to wait, and why, if it may not be sent now.
    async fn put_off(
        &mut self,
        shell: &Shell,
        lines: &Lines,
        row: &NoticeDelivery,
    ) -> Result<Option<(Millis, String)>, Error> {
        let allowance = shell.notices.channels.per_recipient();
        if !self.left.contains_key(&row.recipient) {
            let since = self.now.saturating_sub(allowance.span_ms);
            let line = self.line.clone();
            let (sent, first) = shell.store.notices().sent_since(line, row.recipient.clone(), since).await?;
            let taken = u64::from(lines.under_way_to(self.line, &row.recipient)).saturating_add(sent);
            let messages = u64::from(allowance.count).saturating_sub(taken);
            // If they are all under way, what becomes of them is known in a moment.
            let until = match first {
                Some(first) if sent >= u64::from(allowance.count) => first.saturating_add(allowance.span_ms),
                _ => self.now.saturating_add(limits::STORE_REST_MS as Millis),
            };
            let messages = u32::try_from(messages).unwrap_or(u32::MAX);
            self.left.insert(row.recipient.clone(), Left { messages, until, put_off: 0 });
        }
        let left = self.left.get_mut(&row.recipient).expect("it was put there");
        if left.messages > 0 {
            left.messages -= 1;
            return Ok(None);
        }
        // So many at once as may be sent at once, so that the others are not looked at again and again.
        let spans = (left.put_off / allowance.count).min(limits::NOTICE_SPANS_MAX);
        left.put_off += 1;
        let due = left.until.saturating_add(allowance.span_ms.saturating_mul(Millis::from(spans)));
        Ok(Some((due, format!("its recipient gets {allowance} at the most; it waits for its turn"))))
    }
}

/// What servers call.
impl Engine {
    /// Who was told of what, and who is to be.
    pub fn notices(&self) -> &dyn abide_store::Notices {
        self.shell.store.notices()
    }

    /// The ways to reach people.
    pub fn channels(&self) -> &Channels {
        &self.shell.notices.channels
    }

    /// Has a message that was given up sent once more. `false` if it was not given up, or nothing waits any more.
    pub async fn resend_notice(&self, tenant: TenantId, id: NoticeId) -> Result<bool, Error> {
        self.check_open()?;
        let now = self.shell.clock.now();
        let resent = self.shell.store.notices().resend(tenant, id, now).await?;
        self.shell.notices.wake_for(tenant);
        self.shell.tell_peers(Hint::Notices(tenant));
        Ok(resent)
    }

    /// Sends a message that says nothing but that the channel works, once.
    pub async fn test_channel(
        &self,
        tenant: TenantId,
        channel: &str,
        to: Option<&str>,
    ) -> Result<Result<Receipt, Failure>, Error> {
        self.check_open()?;
        let recipient = match self.shell.test_recipient(tenant, channel, to).await? {
            Ok(recipient) => recipient,
            Err(reason) => return Ok(Err(Failure { again: false, reason, retry_after: None })),
        };
        let key = format!("test/{}", uuid::Uuid::new_v4());
        let message = Message::test(key, self.shell.clock.now(), recipient);
        Ok(self.channels().send(channel, &message).await)
    }
}
