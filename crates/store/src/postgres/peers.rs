//! This server among the others: its lease, its roles, the store's time, and what servers tell each other.
//!
//! One task renews the lease about once a second and looks who else is there. One sends hints, many at once, on a connection
//! of its own, so that no commit waits for them. One listens; if that can't be had, as behind some poolers, everybody looks
//! by themselves a little later.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use abide_core::{Key, Millis, hex};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::sync::{Notify, broadcast, watch};
use tokio::task::JoinHandle;
use tokio_postgres::{AsyncMessage, Client, Row};

use super::clock::Clock;
use super::connect::Target;
use super::session::{Fault, words};
use super::{Postgres, PostgresOptions};
use crate::cluster::{Cluster, Hint, Load, Role, SERVER_LEASE_MS, ServerRow, View};
use crate::db::{self, Connection};
use crate::sql::ENDED;
use crate::store::Answer;
use crate::tables::Database;
use crate::tables::reader;
use crate::{Error, MessageRef, MessageRow, TimerRow, WebhookNews};

/// How often the lease is renewed.
const BEAT: Duration = Duration::from_millis(1_000);

/// How long one beat may take before it counts as lost.
const BEAT_PATIENCE: Duration = Duration::from_secs(3);

/// How long hints are gathered before they are sent.
const GATHER: Duration = Duration::from_millis(4);

/// Bytes of one message: PostgreSQL takes 8,000.
const MESSAGE_BYTES_MAX: usize = 7_500;

/// Hints that wait to be sent. Beyond them, everybody is told to look at everything.
const WAITING_MAX: usize = 10_000;

/// Hints that a listener may be behind.
const HEARD_MAX: usize = 4_096;

/// For how long what was claimed is left to its server.
const CLAIM_MS: i64 = 5_000;

/// Servers that were not heard for so long are forgotten.
const FORGET_MS: i64 = 24 * 3_600 * 1_000;

/// The channel on which servers tell each other something.
const CHANNEL: &str = "abide";

/// What this server knows of the others, and its tasks that keep it so.
pub(super) struct Peers {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

struct Shared {
    target: Arc<Target>,
    boot: u64,
    name: String,
    url: String,
    version: String,
    view: watch::Sender<View>,
    heard: broadcast::Sender<Hint>,
    waiting: Mutex<Waiting>,
    wake: Notify,
    clock: Clock,
    load: Mutex<Load>,
    handle: Handle,
}

/// Hints on their way out.
#[derive(Default)]
struct Waiting {
    runs: HashMap<Key, (u64, bool)>,
    others: Vec<Hint>,
}

/// What goes over the channel.
#[derive(Serialize, Deserialize)]
struct Letter {
    #[serde(rename = "b")]
    boot: u64,
    #[serde(rename = "h")]
    hints: Vec<Hint>,
}

impl Peers {
    /// Joins the servers of a database.
    pub(super) fn join(
        target: Arc<Target>,
        handle: &Handle,
        boot: u64,
        options: &PostgresOptions,
        news: Arc<WebhookNews>,
    ) -> Result<Self, Error> {
        let (heard, _) = broadcast::channel(HEARD_MAX);
        let nobody = View { servers: Vec::new(), roles: BTreeSet::new(), until: Instant::now(), lapses: 0 };
        let shared = Arc::new(Shared {
            target,
            boot,
            name: options.name.clone(),
            url: options.advertise.clone(),
            version: options.version.clone(),
            view: watch::channel(nobody).0,
            heard,
            waiting: Mutex::default(),
            wake: Notify::new(),
            clock: Clock::new(),
            load: Mutex::default(),
            handle: handle.clone(),
        });
        let first = shared.clone();
        let joined = std::thread::scope(|scope| {
            scope.spawn(|| first.handle.block_on(async { first.beat(&mut None).await })).join()
        });
        joined
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            .map_err(|error| Error::Unavailable(error.to_string()))?;
        let telling = shared.clone();
        news.pass_on(move |webhook| telling.tell(Hint::Webhook(webhook)));
        let tasks = vec![
            handle.spawn(keep_alive(shared.clone())),
            handle.spawn(send(shared.clone())),
            handle.spawn(listen(shared.clone(), news)),
        ];
        Ok(Self { shared, tasks })
    }

    pub(super) fn stop(&self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }

    /// Gives up the lease and all roles.
    pub(super) async fn leave(&self) {
        self.stop();
        let shared = self.shared.clone();
        let left = self.shared.handle.spawn(async move {
            let client = shared.connect().await?;
            let boot = shared.boot as i64;
            client.execute("DELETE FROM roles WHERE boot = $1", &[&boot]).await?;
            client.execute("DELETE FROM servers WHERE boot = $1", &[&boot]).await?;
            notify(&client, shared.boot, vec![Hint::Everything]).await
        });
        if let Ok(Err(error)) = left.await {
            tracing::warn!(%error, "the others could not be told that this server leaves; its lease will run out");
        }
    }
}

impl Shared {
    async fn connect(&self) -> Result<Client, Fault> {
        let (client, wire) = self.target.connect().await?;
        tokio::spawn(async move {
            // Whoever uses the client hears of the loss.
            let _ = wire.await;
        });
        Ok(client)
    }

    /// Renews the lease, takes roles that nobody has, samples the store's clock and looks who is there.
    async fn beat(&self, kept: &mut Option<Client>) -> Result<(), Fault> {
        let client = match kept.take().filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => self.connect().await?,
        };
        let begun = Instant::now();
        let load = *self.load.lock().expect("no thread panics holding this");
        let ahead = self.clock.ahead();
        let (boot, tasks, sessions) = (self.boot as i64, load.tasks as i64, load.sessions as i64);
        let row = client
            .query_one(
                RENEW,
                &[
                    &boot,
                    &self.name,
                    &self.url,
                    &self.version,
                    &SERVER_LEASE_MS,
                    &ahead,
                    &load.lag_ms,
                    &tasks,
                    &sessions,
                ],
            )
            .await?;
        let (now, before): (i64, Option<i64>) = (row.get(0), row.get(1));
        self.clock.set(now, begun, Instant::now());
        let held = client.query_one("SELECT count(*) FROM servers WHERE until > $1", &[&now]).await?;
        let alive = held.get::<_, i64>(0).max(1);
        let share = (Role::ALL.len() as i64 + alive - 1) / alive;
        let names: Vec<&str> = Role::ALL.iter().map(|role| role.name()).collect();
        client.execute(TAKE_ROLES, &[&names, &boot, &(now + SERVER_LEASE_MS), &now, &share]).await?;
        let rows = client.query(SERVERS, &[&now, &false]).await?;
        let lapsed = before.is_some_and(|until| until < now);
        if lapsed {
            tracing::warn!(
                "this server was away for longer than its lease; others may have taken what it had"
            );
        }
        self.show(rows.iter().map(server).collect(), begun, lapsed);
        *kept = Some(client);
        Ok(())
    }

    fn show(&self, servers: Vec<ServerRow>, begun: Instant, lapsed: bool) {
        let own = servers.iter().find(|server| server.boot == self.boot);
        let roles: BTreeSet<Role> = own.map(|own| own.roles.iter().copied().collect()).unwrap_or_default();
        let until = begun + Duration::from_millis(SERVER_LEASE_MS as u64);
        self.view.send_modify(|view| {
            let lapses = view.lapses + u64::from(lapsed);
            *view = View { servers, roles, until, lapses };
        });
    }

    fn tell(&self, hint: Hint) {
        let mut waiting = self.waiting.lock().expect("no thread panics holding this");
        match hint {
            Hint::Run { key, next, ended } => {
                let run = waiting.runs.entry(key).or_default();
                *run = (run.0.max(next), run.1 || ended);
            }
            other if waiting.others.contains(&other) => return,
            other => waiting.others.push(other),
        }
        if waiting.runs.len() + waiting.others.len() > WAITING_MAX {
            waiting.runs.clear();
            waiting.others = vec![Hint::Everything];
        }
        drop(waiting);
        self.wake.notify_one();
    }

    /// Takes what waits to be sent.
    fn gathered(&self) -> Vec<Hint> {
        let waiting = std::mem::take(&mut *self.waiting.lock().expect("no thread panics holding this"));
        let runs = waiting.runs.into_iter().map(|(key, (next, ended))| Hint::Run { key, next, ended });
        waiting.others.into_iter().chain(runs).collect()
    }

    fn hear(&self, letter: &str, news: &WebhookNews) {
        match serde_json::from_str::<Letter>(letter) {
            Ok(letter) if letter.boot == self.boot => {}
            Ok(letter) => letter.hints.into_iter().for_each(|hint| {
                if let Hint::Webhook(webhook) = &hint {
                    news.hear([webhook.clone()]);
                }
                let _ = self.heard.send(hint);
            }),
            // Another version may know more; what it tells is found by looking.
            Err(error) => {
                tracing::debug!(%error, "another server told something that can't be read");
                let _ = self.heard.send(Hint::Everything);
            }
        }
    }
}

/// Renews the lease for as long as the server runs.
async fn keep_alive(shared: Arc<Shared>) {
    let mut client = None;
    let mut silent = false;
    loop {
        tokio::time::sleep(BEAT).await;
        let beat = tokio::time::timeout(BEAT_PATIENCE, shared.beat(&mut client)).await;
        let failed = match beat {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("no answer within {} s", BEAT_PATIENCE.as_secs())),
        };
        match failed {
            None if silent => {
                silent = false;
                tracing::info!(store = shared.target.shown(), "the store is back");
                let _ = shared.heard.send(Hint::Everything);
            }
            None => {}
            Some(reason) => {
                client = None;
                if !silent {
                    tracing::warn!(
                        store = shared.target.shown(),
                        reason,
                        "the lease could not be renewed; trying on"
                    );
                }
                silent = true;
            }
        }
    }
}

/// Sends hints as they come, a few milliseconds' worth at once.
async fn send(shared: Arc<Shared>) {
    let mut client = None;
    loop {
        shared.wake.notified().await;
        tokio::time::sleep(GATHER).await;
        let hints = shared.gathered();
        if hints.is_empty() || shared.view.borrow().servers.len() < 2 {
            continue;
        }
        let kept = client.take().filter(|client: &Client| !client.is_closed());
        let connected = match kept {
            Some(client) => Ok(client),
            None => shared.connect().await,
        };
        let sent = match &connected {
            Ok(client) => notify(client, shared.boot, hints).await,
            Err(error) => Err(error.clone()),
        };
        match sent {
            Ok(()) => client = connected.ok(),
            Err(error) => tracing::debug!(%error, "hints were not sent; the others will look by themselves"),
        }
    }
}

async fn notify(client: &Client, boot: u64, hints: Vec<Hint>) -> Result<(), Fault> {
    for text in letters(boot, hints) {
        client.execute("SELECT pg_notify($1, $2)", &[&CHANNEL, &text]).await?;
    }
    Ok(())
}

/// As many letters as it takes, none of them too long.
fn letters(boot: u64, hints: Vec<Hint>) -> Vec<String> {
    let written = |hints: Vec<Hint>| {
        serde_json::to_string(&Letter { boot, hints }).expect("names and numbers serialise")
    };
    let (mut letters, mut page, mut bytes) = (Vec::new(), Vec::new(), 0);
    for hint in hints {
        let size = serde_json::to_string(&hint).map_or(0, |text| text.len() + 1);
        if bytes + size > MESSAGE_BYTES_MAX && !page.is_empty() {
            letters.push(written(std::mem::take(&mut page)));
            bytes = 0;
        }
        bytes += size;
        page.push(hint);
    }
    letters.push(written(page));
    letters
}

/// Listens for as long as the server runs.
async fn listen(shared: Arc<Shared>, news: Arc<WebhookNews>) {
    let mut rest = Duration::from_millis(50);
    loop {
        if let Err(error) = listen_once(&shared, &news, &mut rest).await {
            tracing::debug!(%error, "what others tell can't be heard; looking by ourselves meanwhile");
        }
        tokio::time::sleep(rest).await;
        rest = (rest * 2).min(Duration::from_secs(5));
    }
}

async fn listen_once(shared: &Shared, news: &WebhookNews, rest: &mut Duration) -> Result<(), Fault> {
    let (client, mut wire) = shared.target.connect().await?;
    let messages = futures_util::stream::poll_fn(move |context| wire.poll_message(context));
    tokio::pin!(messages);
    let listening = client.batch_execute("LISTEN abide");
    tokio::pin!(listening);
    let mut is_listening = false;
    loop {
        tokio::select! {
            listened = &mut listening, if !is_listening => {
                listened?;
                (is_listening, *rest) = (true, Duration::from_millis(50));
                // What was told before is lost.
                let _ = shared.heard.send(Hint::Everything);
            }
            message = messages.next() => match message {
                Some(Ok(AsyncMessage::Notification(letter))) => shared.hear(letter.payload(), news),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(Fault::Lost(words(&error))),
                None => return Err(Fault::Lost("the connection has ended".to_owned())),
            }
        }
    }
}

/// Writes this server's row, and tells the store's time and until when the lease was before.
const RENEW: &str = "WITH n AS (SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT) AS ms), \
    before AS (SELECT until FROM servers WHERE boot = $1) \
    INSERT INTO servers (boot, name, url, version, started_at, seen_at, until, clock_ahead_ms, lag_ms, tasks, sessions) \
    SELECT $1, $2, $3, $4, ms, ms, ms + $5, $6, $7, $8, $9 FROM n \
    ON CONFLICT (boot) DO UPDATE SET seen_at = excluded.seen_at, until = excluded.until, \
    clock_ahead_ms = excluded.clock_ahead_ms, lag_ms = excluded.lag_ms, tasks = excluded.tasks, \
    sessions = excluded.sessions RETURNING seen_at, (SELECT until FROM before)";

/// Keeps the roles that this server has, and takes some that nobody has, up to its share.
const TAKE_ROLES: &str = "WITH kept AS (UPDATE roles SET until = $3 WHERE boot = $2 RETURNING name), \
    free AS (SELECT r.name FROM unnest($1::text[]) AS r (name) LEFT JOIN roles h ON h.name = r.name \
    WHERE h.name IS NULL OR (h.until < $4 AND h.boot <> $2) ORDER BY random() \
    LIMIT greatest($5 - (SELECT count(*) FROM kept), 0)) \
    INSERT INTO roles (name, boot, until) SELECT name, $2, $3 FROM free \
    ON CONFLICT (name) DO UPDATE SET boot = excluded.boot, until = excluded.until WHERE roles.until < $4";

const SERVERS: &str = "SELECT s.boot, s.name, s.url, s.version, s.started_at, s.seen_at, s.until, s.clock_ahead_ms, \
    s.lag_ms, s.tasks, s.sessions, ARRAY(SELECT r.name FROM roles r WHERE r.boot = s.boot AND r.until > $1 ORDER BY r.name) \
    FROM servers s WHERE s.until > $1 OR $2 ORDER BY s.boot";

fn server(row: &Row) -> ServerRow {
    let roles: Vec<String> = row.get(11);
    ServerRow {
        boot: row.get::<_, i64>(0) as u64,
        name: row.get(1),
        url: row.get(2),
        version: row.get(3),
        started_at: row.get(4),
        seen_at: row.get(5),
        until: row.get(6),
        clock_ahead_ms: row.get(7),
        lag_ms: row.get(8),
        tasks: row.get::<_, i64>(9) as u64,
        sessions: row.get::<_, i64>(10) as u64,
        roles: roles.iter().filter_map(|name| Role::by_name(name)).collect(),
    }
}

/// Forgets servers that were not heard for long, and one that was where this one is now: it can't be there any more.
pub(super) fn replace(transaction: Connection<'_>, url: &str) -> db::Result<()> {
    let old = "DELETE FROM servers WHERE seen_at < CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT) - $1";
    transaction.execute(old, [FORGET_MS])?;
    if url.is_empty() {
        return Ok(());
    }
    let roles = "DELETE FROM roles WHERE boot IN (SELECT boot FROM servers WHERE url = $1)";
    transaction.execute(roles, [url])?;
    transaction.execute("DELETE FROM servers WHERE url = $1", [url]).map(drop)
}

impl Postgres {
    fn shared(&self) -> &Shared {
        &self.peers.as_ref().expect("a cluster is given out only by one of its servers").shared
    }
}

impl Cluster for Postgres {
    fn view(&self) -> watch::Receiver<View> {
        self.shared().view.subscribe()
    }

    fn tell(&self, hint: Hint) {
        self.shared().tell(hint);
    }

    fn hear(&self) -> broadcast::Receiver<Hint> {
        self.shared().heard.subscribe()
    }

    fn now(&self) -> Millis {
        self.shared().clock.now()
    }

    fn say(&self, load: Load) {
        *self.shared().load.lock().expect("no thread panics holding this") = load;
    }

    fn servers(&self) -> Answer<'_, Vec<ServerRow>> {
        let shared = self.peers.as_ref().map(|peers| peers.shared.clone());
        Box::pin(async move {
            let Some(shared) = shared else { return Ok(Vec::new()) };
            let handle = shared.handle.clone();
            let asked = handle.spawn(async move {
                let client = shared.connect().await?;
                let rows = client.query(SERVERS, &[&shared.clock.now(), &true]).await?;
                Ok::<_, Fault>(rows.iter().map(server).collect())
            });
            let answered = asked.await.map_err(|error| Error::Failed(error.to_string()))?;
            answered.map_err(|error| Error::Unavailable(error.to_string()))
        })
    }

    fn leave(&self) -> Answer<'_, ()> {
        Box::pin(async {
            if let Some(peers) = &self.peers {
                peers.leave().await;
            }
            Ok(())
        })
    }

    fn claim_timers(&self, until: Millis, limit: usize) -> Answer<'_, Vec<TimerRow>> {
        let now = self.now();
        self.write(move |transaction| {
            let mut statement = transaction.prepare_cached(
                "UPDATE timers SET held_until = $1 WHERE (due, tenant, id, timer) IN \
                 (SELECT due, tenant, id, timer FROM timers WHERE due <= $2 AND held_until < $3 \
                 ORDER BY due, tenant, id, timer LIMIT $4 FOR UPDATE SKIP LOCKED) RETURNING due, tenant, id, timer",
            )?;
            let rows = statement.query_map((now + CLAIM_MS, until, now, limit), reader::timer)?;
            let mut found = db::readable(rows, usize::MAX)?;
            found.sort_unstable();
            Ok(found)
        })
    }

    fn claim_messages(&self, limit: usize) -> Answer<'_, Vec<MessageRow>> {
        let (now, sealing) = (self.now(), self.sealing().clone());
        self.write(move |transaction| {
            let mut statement = transaction.prepare_cached(
                "UPDATE outbox SET held_until = $1 WHERE (tenant, sender, seq, receiver) IN \
                 (SELECT tenant, sender, seq, receiver FROM outbox o WHERE held_until < $2 AND NOT EXISTS \
                 (SELECT 1 FROM outbox b WHERE b.tenant = o.tenant AND b.sender = o.sender AND b.receiver = o.receiver \
                 AND b.seq < o.seq) ORDER BY tenant, sender, seq, receiver LIMIT $3 FOR UPDATE SKIP LOCKED) \
                 RETURNING tenant, sender, seq, receiver, type, version, message",
            )?;
            let rows = statement.query_map((now + CLAIM_MS, now, limit), |row| reader::sent(row, &sealing))?;
            let mut found = db::readable(rows, usize::MAX)?;
            let place = |at: &MessageRef| (at.sender, at.sequence, at.receiver);
            found.sort_unstable_by_key(|row| place(&row.at));
            Ok(found)
        })
    }

    fn heads(&self, keys: Vec<Key>) -> Answer<'_, Vec<(Key, u64, bool)>> {
        let names: Vec<String> =
            keys.iter().map(|key| format!("{}:{}", key.tenant.0, hex(key.id.as_bytes()))).collect();
        let names = names.join(",");
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(HEADS)?;
            let rows = statement.query_map([&names], |row| {
                let status = reader::status(3, row.get(3)?)?;
                Ok((reader::key(row, 0)?, row.get(2)?, ENDED.contains(&status)))
            })?;
            db::readable(rows, usize::MAX)
        })
    }
}

/// Where many runs stand, whose names are given as one text: it is asked once a second for all that are followed.
const HEADS: &str = "SELECT a.tenant, a.id, a.next, a.status FROM \
    (SELECT CAST(split_part(name, ':', 1) AS BIGINT) AS tenant, decode(split_part(name, ':', 2), 'hex') AS id \
    FROM unnest(string_to_array($1, ',')) AS name) n \
    JOIN aggregates a ON a.tenant = n.tenant AND a.id = n.id ORDER BY a.tenant, a.id";

#[cfg(test)]
mod tests {
    use abide_core::{RunId, TenantId};

    use super::*;

    #[test]
    fn hints_are_put_into_letters_that_are_not_too_long() {
        let run = |n: u128| Hint::Run {
            key: RunId::from_bytes(n.to_be_bytes()).of(TenantId(1)),
            next: 7,
            ended: false,
        };
        let hints: Vec<Hint> = (0..1000).map(run).collect();
        let letters = letters(3, hints.clone());
        assert!(letters.len() > 1);
        assert!(
            letters.iter().all(|letter| letter.len() < 8_000),
            "{:?}",
            letters.iter().map(String::len).max()
        );
        let read = letters.iter().flat_map(|letter| serde_json::from_str::<Letter>(letter).unwrap().hints);
        assert_eq!(read.collect::<Vec<_>>(), hints);
    }
}
