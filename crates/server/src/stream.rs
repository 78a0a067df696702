//! Streams of a run's events: server-sent, or one JSON document.
//!
//! | noun | file | what it does |
//! |---|---|---|
//! | `Frame` | `stream/frame.rs` | one event as text |
//! | `View`, `Renderer` | `stream/view.rs` | which events are shown, and as what |
//! | `Ring`, `Feed`, `Feeds` | `stream/ring.rs`, `stream/feed.rs` | frames shared by all who listen to one run in one view |
//! | `Outlet` | `stream/outlet.rs` | pace: batches, signs of life, the end |
//! | `Array` | `stream/array.rs` | what is there now, as a document |

mod array;
mod feed;
mod frame;
mod outlet;
pub(crate) mod request;
mod ring;
#[cfg(test)]
mod tests;
mod view;

use std::sync::Arc;
use std::time::Duration;

use abide_core::Key;
use abide_engine::Subscription;
use abide_store::Listed;
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use tokio::sync::watch;

use crate::app::App;
use crate::error::Result;
use array::Array;
use feed::Seat;
use request::Form;

pub(crate) use feed::{Feeds, Pulled};
pub(crate) use frame::Frame;
pub(crate) use outlet::{Outlet, Source};
pub(crate) use view::{Renderer, View};

/// What is asked for.
pub(crate) struct Ask {
    pub(crate) key: Key,
    pub(crate) view: View,
    pub(crate) form: Form,
    /// The first event that is not known yet, if some are.
    pub(crate) from: Option<u64>,
    /// For how long events are collected.
    pub(crate) buffer: Duration,
}

/// Answers with a run's events.
pub(crate) async fn answer(app: &Arc<App>, ask: Ask) -> Result<Response> {
    // Before the head is read: what is committed after it is told.
    let news = app.engine().subscribe(ask.key);
    let head = app.engine().head(ask.key).await?;
    let first = baseline(app, &ask, &head).await?;
    let (kind, body) = match ask.form {
        Form::Json => ("application/json", whole(app, &ask, &head, first).await?),
        Form::Events => ("text/event-stream", follow(app, &ask, &head, news, first)),
    };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((headers, body).into_response())
}

/// Where a reader of states goes on: the state as it was there, so that it never has to ask for it.
async fn baseline(app: &App, ask: &Ask, head: &Listed) -> Result<Option<Frame>> {
    let next = ask.from.unwrap_or(0).min(head.next);
    let ended = head.summary.status.is_terminal() && next == head.next;
    if !ask.view.wants_values() || next == 0 || ended {
        return Ok(None);
    }
    let last = app.engine().events(ask.key, next - 1, 1).await?;
    let renderer = Renderer::at(app.engine(), ask.key, ask.view, next).await?;
    last.first().map_or(Ok(None), |last| renderer.baseline(last))
}

async fn whole(app: &App, ask: &Ask, head: &Listed, first: Option<Frame>) -> Result<Body> {
    let from = ask.from.unwrap_or(0).min(head.next);
    Array::open(app.engine(), ask.key, ask.view, from..head.next, first).await
}

fn follow(app: &Arc<App>, ask: &Ask, head: &Listed, news: Subscription, first: Option<Frame>) -> Body {
    let from = ask.from.unwrap_or(0);
    let seat = app.feeds().join(ask.key, ask.view, from, head);
    let reader = Reader { seat, news, counted: head.next, stopping: app.stopping(), app: app.clone() };
    Outlet::new(reader, first, ask.buffer).body()
}

/// A subscriber's place at a feed, and what wakes it.
struct Reader {
    app: Arc<App>,
    seat: Seat,
    news: Subscription,
    /// How many events there were when it came.
    counted: u64,
    stopping: watch::Receiver<bool>,
}

impl Source for Reader {
    async fn pull(&mut self) -> Result<Pulled> {
        let known = self.news.known().max(self.counted);
        self.seat.pull(self.app.engine(), known).await
    }

    fn announcements(&mut self) -> Vec<Bytes> {
        self.seat.announcements()
    }

    async fn news(&mut self) -> bool {
        tokio::select! {
            () = self.news.changed() => true,
            () = self.seat.announced() => true,
            _ = self.stopping.wait_for(|stopping| *stopping) => false,
        }
    }
}
