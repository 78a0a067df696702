//! What waits for an answer: a list, with filters.

use std::sync::Arc;

use abide_core::{InterruptKind, Millis};
use askama::Template;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;

use super::form::Fields;
use super::gate::Visitor;
use super::html::{self, Frame};
use super::refusal::Result;
use super::source::{self, Filter};
use super::view::{InboxPage, InboxRow};
use super::{HOME, words};
use crate::app::App;
use crate::scope::Scope;
use crate::time::rfc3339;

#[derive(Template)]
#[template(path = "inbox.html")]
struct Shown {
    frame: Frame,
    filter: Filter,
    page: InboxPage,
    now: Millis,
    /// Whether the reader may look at runs.
    reads_runs: bool,
}

/// The list.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Result<Response> {
    let fields = Fields::read(query.unwrap_or_default().as_bytes())?;
    let text = |name: &str| fields.said(name).map(str::to_owned);
    let kind = fields.said("kind").and_then(InterruptKind::by_name);
    let filter = Filter { kind, title: text("title"), cursor: text("cursor") };
    let page = source::inbox(&app, &visitor.principal, &filter).await?;
    let now = app.engine().clock().now();
    let frame = visitor.frame(&app, "Inbox");
    let reads_runs = visitor.may(Scope::RunsRead);
    Ok(html::page(StatusCode::OK, &Shown { frame, filter, page, now, reads_runs }))
}

impl Shown {
    fn is_filtered(&self) -> bool {
        self.filter.kind.is_some() || self.filter.title.is_some()
    }

    /// Whether there is something to decide about together.
    fn offers_many(&self) -> bool {
        self.page.rows.iter().any(InboxRow::is_approval)
    }

    /// The kinds to choose from, and whether each is chosen.
    fn kinds(&self) -> Vec<(&'static str, &'static str, bool)> {
        let offered = [
            InterruptKind::Approval,
            InterruptKind::Clarification,
            InterruptKind::ExternalEvent,
            InterruptKind::Custom,
            InterruptKind::ConversationExchange,
            InterruptKind::LowConfidence,
        ];
        offered.map(|kind| (kind.name(), words::kind(kind), self.filter.kind == Some(kind))).into()
    }

    /// How many of each kind are open, in words.
    fn counts(&self) -> String {
        let count = |(kind, count): &(InterruptKind, u64)| format!("{}: {count}", words::kind(*kind));
        self.page.by_kind.iter().filter(|(_, count)| *count > 0).map(count).collect::<Vec<_>>().join(", ")
    }

    fn age(&self, row: &InboxRow) -> String {
        words::ago(row.requested_at, self.now)
    }

    fn deadline(&self, row: &InboxRow) -> Option<(String, String)> {
        row.deadline.map(|at| (rfc3339(at), words::due(at, self.now)))
    }

    /// The same list, one page on.
    fn next(&self) -> Option<String> {
        let kind = self.filter.kind.map(|kind| ("kind", kind.name()));
        let title = self.filter.title.as_deref().map(|title| ("title", title));
        let cursor = self.page.next.as_deref().map(|cursor| ("cursor", cursor))?;
        let query: Vec<_> = kind.into_iter().chain(title).chain([cursor]).collect();
        Some(html::link(HOME, &query))
    }
}
