//! A run's journal as it is, in Abide's own words: what OpenWOP has no name for is in it too.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::limits;
use crate::openwop::runs::RunPath;
use crate::stream::request::{self, Form, whole};
use crate::stream::{self, Ask, View};

pub(crate) use crate::openwop::events::doc::JournalEvent as Entry;

/// Where to begin, and how.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Follow {
    /// The last event that you have.
    #[schemars(with = "u64")]
    #[serde(default)]
    after: Option<String>,
    /// For how many milliseconds events may be collected and sent as one `batch`.
    #[schemars(with = "u64", range(max = limits::BUFFER_MS_MAX))]
    #[serde(default)]
    buffer_ms: Option<String>,
    /// The same as the header Last-Event-ID, which goes before it.
    #[schemars(with = "String")]
    #[serde(default)]
    last_event_id: Option<String>,
}

/// What a journal says so far.
#[derive(JsonSchema)]
#[schemars(rename = "JournalEvents")]
#[expect(dead_code, reason = "the events are written as text; this carries the schema alone")]
pub(crate) struct Page {
    events: Vec<Entry>,
}

/// Follows a run's journal until it ends, or shows what there is of it.
pub(crate) async fn follow(
    State(app): State<Arc<App>>,
    principal: Principal,
    run: RunPath,
    headers: HeaderMap,
    query: std::result::Result<Query<Follow>, axum::extract::rejection::QueryRejection>,
) -> Result<Response> {
    let Query(query) = query.map_err(|error| ApiError::new("validation_error", error.body_text()))?;
    let buffer = request::buffer(query.buffer_ms.as_deref())?;
    let after = query.after.as_deref().map(|text| whole("after", text, 0..=i64::MAX - 1)).transpose()?;
    let key = run.of(&principal)?;
    let from = request::from(key.id, &headers, query.last_event_id.as_deref())?;
    let from = from.or(after.map(|after| after.unsigned_abs() + 1));
    let form = Form::wanted(&headers);
    stream::answer(&app, Ask { key, view: View::Journal, form, from, buffer }).await
}
