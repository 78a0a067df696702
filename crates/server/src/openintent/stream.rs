//! Streams of server-sent events: what happens to an intent or in a portfolio, and what an agent is to work on.
//!
//! Each event has an id, and whoever comes back with the last one gets what came after it. A stream never ends by itself: the
//! client would come back at once, and again.

use std::sync::Arc;
use std::time::Duration;

use abide_core::{Event, Hash, Key, Permission, Record, Run, TenantId};
use abide_engine::Subscription;
use abide_store::AssignmentRow;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tokio::sync::watch;

use super::asking::{Asking, Path};
use super::events::posted::{Posted, of_note};
use super::events::{Known, is_known, shown, told};
use super::intents::seen;
use super::words;
use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::stream::{Frame, Outlet, Pulled, Source};

/// Events or assignments that are read at a time.
const PAGE: usize = 100;

/// How long an assignment that another server took may go unheard.
const PEERS: Duration = Duration::from_secs(1);

const LAST_EVENT_ID: &str = "last-event-id";

fn last_id(headers: &HeaderMap) -> Option<&str> {
    headers.get(LAST_EVENT_ID)?.to_str().ok().map(str::trim).filter(|id| !id.is_empty())
}

fn streamed(body: Body) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (headers, body).into_response()
}

/// Follows an intent.
pub(crate) async fn follow_intent(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response> {
    let key = words::intent_key(&id, &principal)?;
    seen(&app, key, &actor.agent, |_| ()).await?;
    follow(&app, key, Some(actor.agent), &headers).await
}

/// Follows a portfolio: what becomes of its members, and of itself.
pub(crate) async fn follow_portfolio(
    State(app): State<Arc<App>>,
    principal: Principal,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response> {
    let key = words::portfolio_key(&id, &principal)?;
    if !app.engine().read(key, |run: &Run| run.group().is_some()).await? {
        return Err(ApiError::new("group_not_found", "there is no such portfolio"));
    }
    follow(&app, key, None, &headers).await
}

async fn follow(app: &Arc<App>, key: Key, agent: Option<String>, headers: &HeaderMap) -> Result<Response> {
    // Before the head is read: what is committed after it is told.
    let news = app.engine().subscribe(key);
    let head = app.engine().head(key).await?;
    let noted = app.engine().records().next(key).await?;
    // Whoever comes for the first time hears what happens from now on.
    let last = last_id(headers).and_then(read_heard);
    let (next, noted) = last.map_or((head.next, noted), |(next, heard)| {
        (next.min(head.next), heard.map_or(noted, |heard| heard.min(noted)))
    });
    let known = Known::of(key.id);
    let mut journal = Journal {
        app: app.clone(),
        key,
        agent,
        news,
        next,
        noted,
        before: None,
        known,
        stopping: app.stopping(),
    };
    // What is told of the members of a portfolio rests on nothing that was said before.
    if !head.group {
        journal.learn().await?;
    }
    Ok(streamed(Outlet::new(journal, None, Duration::ZERO).body()))
}

/// What somebody has heard: the last event of the journal, and how many notes beside it.
fn heard(next: u64, noted: u64) -> String {
    format!("{}.{noted}", next.saturating_sub(1))
}

/// The first event that was not heard, and the first note.
fn read_heard(text: &str) -> Option<(u64, Option<u64>)> {
    let (last, noted) = text.split_once('.').map_or((text, None), |(last, noted)| (last, Some(noted)));
    let noted = noted.map(str::parse).transpose().ok()?;
    Some((last.parse::<u64>().ok()?.saturating_add(1), noted))
}

/// A run's journal in OpenIntent's words, from a place on, and between its events what clients told themselves.
struct Journal {
    app: Arc<App>,
    key: Key,
    /// Who listens, where not everybody may.
    agent: Option<String>,
    news: Subscription,
    next: u64,
    /// The first note that was not read yet.
    noted: u64,
    /// The chain at the event before that.
    before: Option<Hash>,
    known: Known,
    stopping: watch::Receiver<bool>,
}

impl Journal {
    /// Hears what was said before.
    async fn learn(&mut self) -> Result<()> {
        let mut from = 0;
        while from < self.next {
            let records = self.app.engine().events(self.key, from, PAGE).await?;
            let Some(last) = records.last() else { break };
            from = last.sequence + 1;
            let end = self.next;
            for record in records.iter().filter(|record| record.sequence < end) {
                self.hear(record);
            }
        }
        Ok(())
    }

    fn hear(&mut self, record: &Record) -> Option<Event> {
        self.before = Some(record.chain);
        // What was erased says nothing any more.
        let event = record.event().ok()?;
        self.known.hear(record.sequence, &event);
        Some(event)
    }
}

/// A note, and what it tells.
struct Noted {
    sequence: u64,
    posted: Vec<Posted>,
}

impl Journal {
    /// Whether whoever listens may still look. Whoever may not is told nothing: their client would come back at once, and
    /// again, if the stream ended.
    async fn is_let_in(&self) -> Result<bool> {
        let Some(agent) = &self.agent else { return Ok(true) };
        let now = self.app.engine().clock().now();
        Ok(self.app.engine().read(self.key, |run| run.permits(agent, Permission::Read, now)).await?)
    }

    /// The frames of an event.
    fn tell(&mut self, record: &Record, frames: &mut Vec<Frame>) {
        let before = self.before;
        self.next = record.sequence + 1;
        let Some(event) = self.hear(record) else { return };
        let happened = told(&event, record.sequence, record.at, &self.known);
        let happened: Vec<_> = happened.into_iter().filter(|one| is_known(&one.event_type)).collect();
        let count = happened.len();
        for (part, one) in happened.iter().enumerate() {
            // Only the last of those that one event of ours makes has its id: what is cut off before comes again.
            let whole = part + 1 == count;
            let id = heard(if whole { self.next } else { record.sequence }, self.noted);
            let document = shown(self.key.id, record, before.as_ref(), part, one).to_string();
            frames.push(Frame::named(&id, &one.event_type, document.as_bytes()));
        }
    }

    /// The frames of a note. Each has the id of all of it: what it tells was told when it was made.
    fn tell_of(&mut self, noted: &Noted, frames: &mut Vec<Frame>) {
        self.noted = noted.sequence + 1;
        let id = heard(self.next, self.noted);
        for one in noted.posted.iter().filter(|one| is_known(&one.told.event_type)) {
            frames.push(Frame::named(&id, &one.told.event_type, one.shown.to_string().as_bytes()));
        }
    }
}

impl Source for Journal {
    async fn pull(&mut self) -> Result<Pulled> {
        let notes = self.app.engine().records().from(self.key, self.noted, PAGE).await?;
        let records = self.app.engine().events(self.key, self.next, PAGE).await?;
        if notes.is_empty() && records.is_empty() || !self.is_let_in().await? {
            return Ok(Pulled::Nothing);
        }
        let all_read = records.len() < PAGE;
        let noted =
            notes.iter().map(|note| Noted { sequence: note.sequence, posted: of_note(self.key, note) });
        let noted: Vec<Noted> = noted.collect();
        let mut notes = noted.iter().peekable();
        let mut frames = Vec::new();
        for record in &records {
            let is_earlier = |noted: &&Noted| noted.posted.iter().all(|one| one.journal <= record.sequence);
            while let Some(noted) = notes.next_if(is_earlier) {
                self.tell_of(noted, &mut frames);
            }
            self.tell(record, &mut frames);
        }
        // The others lie behind events that are read next.
        for noted in notes.filter(|_| all_read) {
            self.tell_of(noted, &mut frames);
        }
        Ok(Pulled::Frames(frames))
    }

    fn announcements(&mut self) -> Vec<Bytes> {
        Vec::new()
    }

    async fn news(&mut self) -> bool {
        tokio::select! {
            () = self.news.changed() => true,
            _ = self.stopping.wait_for(|stopping| *stopping) => false,
        }
    }
}

/// Tells an agent what it is to work on: what it was assigned to and is not done first, then whatever comes.
pub(crate) async fn follow_agent(
    State(app): State<Arc<App>>,
    principal: Principal,
    Path(agent): Path<String>,
    headers: HeaderMap,
) -> Result<Response> {
    let last = app.engine().containers().last_assignment(principal.tenant).await?;
    let after = last_id(&headers).and_then(|id| read_place(id, last));
    let assigned = app.engine().assignments();
    let source = Assignments {
        tenant: principal.tenant,
        agent,
        after,
        assigned,
        stopping: app.stopping(),
        app: app.clone(),
    };
    Ok(streamed(Outlet::new(source, None, Duration::ZERO).body()))
}

/// Where somebody was in what an agent is to work on. Whoever says something else begins anew, and so does whoever has seen
/// more than there is: the data are older than what they have seen.
fn read_place(id: &str, last: u64) -> Option<u64> {
    id.parse().ok().filter(|place| *place <= last)
}

struct Assignments {
    app: Arc<App>,
    tenant: TenantId,
    agent: String,
    /// The last place that was told of.
    after: Option<u64>,
    assigned: watch::Receiver<u64>,
    stopping: watch::Receiver<bool>,
}

impl Source for Assignments {
    async fn pull(&mut self) -> Result<Pulled> {
        self.assigned.mark_unchanged();
        let containers = self.app.engine().containers();
        let found = containers.assignments(self.tenant, self.agent.clone(), self.after, PAGE).await?;
        let Some(last) = found.last() else { return Ok(Pulled::Nothing) };
        self.after = Some(last.place);
        let frame = |row: &AssignmentRow| {
            let told = json!({ "intent_id": words::id(row.run), "agent_id": self.agent });
            Frame::named(&row.place.to_string(), "AGENT_ASSIGNED", told.to_string().as_bytes())
        };
        Ok(Pulled::Frames(found.iter().map(frame).collect()))
    }

    fn announcements(&mut self) -> Vec<Bytes> {
        Vec::new()
    }

    async fn news(&mut self) -> bool {
        let alone = self.app.cluster().is_none();
        let peers =
            async { if alone { std::future::pending().await } else { tokio::time::sleep(PEERS).await } };
        tokio::select! {
            changed = self.assigned.changed() => changed.is_ok(),
            () = peers => true,
            _ = self.stopping.wait_for(|stopping| *stopping) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_heard_survives_a_round_trip() {
        assert_eq!(read_heard(&heard(7, 3)), Some((7, Some(3))));
        assert_eq!(read_heard("6"), Some((7, None)), "whoever says nothing of notes hears the next ones");
        assert_eq!(read_heard(&u64::MAX.to_string()), Some((u64::MAX, None)));
        for odd in ["", "x", "6.", "6.x", "-1.0", "6.7.8"] {
            assert_eq!(read_heard(odd), None, "{odd}");
        }
    }

    #[test]
    fn whoever_comes_with_another_id_or_has_seen_more_than_there_is_begins_anew() {
        assert_eq!(read_place("7", 7), Some(7));
        for other in ["8", "-1", "1767603600000_019b8d36-7c80-7000-8000-000000000001_7", "seven", ""] {
            assert_eq!(read_place(other, 7), None, "{other}");
        }
    }
}
