//! The page of a run again, part by part, whenever something changes.
//!
//! A part goes out when it differs from what went out before. The first look sends everything, so whoever connects again
//! is up to date at once, whatever happened to them or to the server meanwhile.

use std::io;
use std::sync::Arc;

use abide_core::{Key, Millis, RunId};
use abide_engine::Subscription;
use askama::Template;
use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::sync::watch;
use tokio::time::sleep;

use super::super::gate::Visitor;
use super::May;
use super::log::{Line, Log};
use super::seen::{Nodes, Seen};
use crate::app::App;
use crate::error::{ApiError, Result};
use crate::limits;

/// One reader of one run.
pub(super) struct Live {
    app: Arc<App>,
    key: Key,
    may: May,
    /// The token of the reader's forms.
    token: String,
    news: Subscription,
    stopping: watch::Receiver<bool>,
    log: Log,
    /// What the reader has.
    shown: Option<Seen>,
    is_over: bool,
}

#[derive(Template)]
#[template(path = "run_head.html")]
struct HeadPart<'a> {
    seen: &'a Seen,
    run: RunId,
}

#[derive(Template)]
#[template(path = "run_notices.html")]
struct NoticesPart<'a> {
    seen: &'a Seen,
    run: RunId,
    may: May,
    token: &'a str,
    now: Millis,
}

#[derive(Template)]
#[template(path = "run_nodes.html")]
struct NodesPart<'a> {
    nodes: &'a Nodes,
}

#[derive(Template)]
#[template(path = "run_lines.html")]
struct LinesPart<'a> {
    lines: &'a [Line],
}

impl Live {
    pub(super) async fn begin(app: Arc<App>, key: Key, (may, visitor): (May, &Visitor)) -> Result<Self> {
        // Before anything is read: what is committed after that is told.
        let news = app.engine().subscribe(key);
        let log = Log::open(&app, key).await?;
        let (token, stopping) = (visitor.session.form_token(app.keys().keyring()), app.stopping());
        Ok(Self { app, key, may, token, news, stopping, log, shown: None, is_over: false })
    }

    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        if self.is_over || self.shown.is_some() && !self.wait().await {
            return None;
        }
        // What was wrong stands in the log.
        Some(self.look().await.map_err(|_| io::Error::other("the run can't be read")))
    }

    /// Waits for news, for as long as a reader may hear nothing; `false` if nothing more is to be sent. What changes in
    /// quick succession is sent as one.
    async fn wait(&mut self) -> bool {
        let is_news = tokio::select! {
            () = self.news.changed() => true,
            () = sleep(limits::KEEPALIVE) => false,
            _ = self.stopping.wait_for(|stopping| *stopping) => return false,
        };
        if is_news {
            sleep(limits::RUN_PACE).await;
        }
        true
    }

    /// What is new, and the server's time.
    async fn look(&mut self) -> Result<Bytes> {
        let seen = Seen::of(&self.app, self.key).await?;
        self.log.read_on(&self.app).await?;
        let (now, run) = (self.app.engine().clock().now(), self.key.id);
        let mut out = String::new();
        message(&mut out, "now", &now.to_string());
        let had = self.shown.as_ref();
        if had.is_none_or(|had| had.head != seen.head) {
            part(&mut out, "head", &HeadPart { seen: &seen, run })?;
        }
        let is_told = |had: &Seen| {
            had.notices == seen.notices && had.questions == seen.questions && had.head.hold == seen.head.hold
        };
        if !had.is_some_and(is_told) {
            let (may, token) = (self.may, self.token.as_str());
            part(&mut out, "notices", &NoticesPart { seen: &seen, run, may, token, now })?;
        }
        if had.is_none_or(|had| had.nodes != seen.nodes) {
            part(&mut out, "nodes", &NodesPart { nodes: &seen.nodes })?;
        }
        let fresh = self.log.fresh();
        if !fresh.is_empty() {
            part(&mut out, "lines", &LinesPart { lines: &fresh })?;
        }
        if seen.is_over() {
            message(&mut out, "end", "");
            self.is_over = true;
        }
        self.shown = Some(seen);
        Ok(out.into())
    }
}

fn part(out: &mut String, name: &str, template: &impl Template) -> Result<()> {
    let html = template.render().map_err(|error| ApiError::internal(&error))?;
    message(out, name, &html);
    Ok(())
}

/// A server-sent event. Each line of its data stands on its own line, whichever way lines end in there.
fn message(out: &mut String, name: &str, data: &str) {
    *out += &format!("event: {name}\n");
    for line in data.split(['\n', '\r']) {
        *out += &format!("data: {line}\n");
    }
    out.push('\n');
}

impl IntoResponse for Live {
    fn into_response(self) -> Response {
        let body = Body::from_stream(stream::unfold(self, |mut live| async move {
            let chunk = live.next().await?;
            Some((chunk, live))
        }));
        let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
        (headers, body).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_never_ends_before_its_end_whatever_stands_in_it() {
        let mut out = String::new();
        message(&mut out, "lines", "a\n\nevent: end\r\rdata: b");
        assert_eq!(out, "event: lines\ndata: a\ndata: \ndata: event: end\ndata: \ndata: data: b\n\n");
    }
}
