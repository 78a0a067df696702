//! Streams of server-sent events: what happens to an intent or in a portfolio, and what an agent is to work on.
//!
//! Each event has an id, and whoever comes back with the last one gets what came after it. A stream never ends by itself: the
//! client would come back at once, and again.

use std::sync::Arc;
use std::time::Duration;

use abide_core::{Event, Hash, Key, Record, Run, TenantId};
use abide_engine::Subscription;
use abide_store::AssignmentRow;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tokio::sync::watch;

use super::asking::{Asking, Path};
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
    follow(&app, key, &headers).await
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
    follow(&app, key, &headers).await
}

async fn follow(app: &Arc<App>, key: Key, headers: &HeaderMap) -> Result<Response> {
    // Before the head is read: what is committed after it is told.
    let news = app.engine().subscribe(key);
    let head = app.engine().head(key).await?;
    // Whoever comes for the first time hears what happens from now on.
    let last = last_id(headers).and_then(|id| id.parse::<u64>().ok());
    let next = last.map_or(head.next, |last| last.saturating_add(1)).min(head.next);
    let known = Known::of(key.id);
    let mut journal =
        Journal { app: app.clone(), key, news, next, before: None, known, stopping: app.stopping() };
    // What is told of the members of a portfolio rests on nothing that was said before.
    if !head.group {
        journal.learn().await?;
    }
    Ok(streamed(Outlet::new(journal, None, Duration::ZERO).body()))
}

/// A run's journal in OpenIntent's words, from a place on.
struct Journal {
    app: Arc<App>,
    key: Key,
    news: Subscription,
    next: u64,
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

impl Source for Journal {
    async fn pull(&mut self) -> Result<Pulled> {
        let records = self.app.engine().events(self.key, self.next, PAGE).await?;
        let Some(last) = records.last() else { return Ok(Pulled::Nothing) };
        self.next = last.sequence + 1;
        let mut frames = Vec::new();
        for record in &records {
            let before = self.before;
            let Some(event) = self.hear(record) else { continue };
            let happened = told(&event, record.sequence, record.at, &self.known);
            let happened: Vec<_> = happened.into_iter().filter(|one| is_known(&one.event_type)).collect();
            let count = happened.len();
            for (part, one) in happened.iter().enumerate() {
                // Only the last of those that one event of ours makes has its id: what is cut off before comes again.
                let whole = part + 1 == count;
                let sequence = if whole { record.sequence } else { record.sequence.saturating_sub(1) };
                let document = shown(self.key.id, record, before.as_ref(), part, one).to_string();
                frames.push(Frame::named(&sequence.to_string(), &one.event_type, document.as_bytes()));
            }
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
    fn whoever_comes_with_another_id_or_has_seen_more_than_there_is_begins_anew() {
        assert_eq!(read_place("7", 7), Some(7));
        for other in ["8", "-1", "1767603600000_019b8d36-7c80-7000-8000-000000000001_7", "seven", ""] {
            assert_eq!(read_place(other, 7), None, "{other}");
        }
    }
}
