//! Pages of a list: how many at once, and where the next one begins.

use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::error::{ApiError, Result};
use crate::limits;

/// Which part of a list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Paging {
    /// How many at most; 100 unless told.
    #[schemars(with = "usize", range(min = 1, max = limits::LIST_ENTRIES_MAX))]
    #[serde(default)]
    limit: Option<String>,
    /// The `nextCursor` of the page before.
    #[schemars(with = "u64")]
    #[serde(default)]
    cursor: Option<String>,
}

/// Which part of a list, read.
pub(crate) struct Page {
    /// At most so many.
    pub(crate) limit: usize,
    /// The place of the last entry of the page before.
    pub(crate) after: Option<u64>,
}

impl Page {
    /// One more than fits tells whether there is another page: cuts the list, and gives the cursor of the next.
    pub(crate) fn cut<T>(&self, found: &mut Vec<T>, place: impl Fn(&T) -> u64) -> Option<String> {
        let more = found.len() > self.limit;
        found.truncate(self.limit);
        found.last().filter(|_| more).map(|last| place(last).to_string())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Page {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let query: std::result::Result<Query<Paging>, QueryRejection> =
            Query::from_request_parts(parts, state).await;
        let Query(query) = query.map_err(|error| ApiError::new("validation_error", error.body_text()))?;
        let limit = query.limit.as_deref().map_or(Ok(limits::LIST_ENTRIES_DEFAULT), |limit| {
            let known = limit.parse().ok().filter(|limit| (1..=limits::LIST_ENTRIES_MAX).contains(limit));
            known.ok_or_else(|| {
                let message = format!("'limit' is a number from 1 to {}", limits::LIST_ENTRIES_MAX);
                ApiError::invalid("limit", message)
            })
        })?;
        let after = query.cursor.as_deref().map(str::parse).transpose();
        let after = after
            .map_err(|_| ApiError::invalid("cursor", "'cursor' is the nextCursor of the page before"))?;
        Ok(Self { limit, after })
    }
}
