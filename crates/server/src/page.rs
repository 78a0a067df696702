//! Lists in pages.

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::error::{ApiError, Result};
use crate::limits::{LIST_PAGE_DEFAULT, LIST_PAGE_MAX};

/// Which page of a list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PageQuery {
    /// How many there may be in it.
    #[serde(default, deserialize_with = "limit")]
    #[schemars(with = "u16", range(min = 1, max = LIST_PAGE_MAX))]
    pub(crate) limit: Option<usize>,
    /// The `nextCursor` of the page before.
    pub(crate) cursor: Option<String>,
}

/// How many there may be in a page, as a query says.
pub(crate) fn limit<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> std::result::Result<Option<usize>, D::Error> {
    let text = String::deserialize(from)?;
    let known = text.parse().ok().filter(|limit| (1..=LIST_PAGE_MAX).contains(limit));
    let told = || serde::de::Error::custom(format_args!("'limit' is a number from 1 to {LIST_PAGE_MAX}"));
    known.map(Some).ok_or_else(told)
}

impl PageQuery {
    /// How many there may be in it.
    pub(crate) fn limit(&self) -> usize {
        self.limit.unwrap_or(LIST_PAGE_DEFAULT)
    }

    /// The page that `rest` begins with, and the cursor of the next one.
    pub(crate) fn cut<T>(
        &self,
        rest: impl Iterator<Item = T>,
        cursor: impl Fn(&T) -> String,
    ) -> (Vec<T>, Option<String>) {
        let mut page: Vec<T> = rest.take(self.limit() + 1).collect();
        let more = page.len() > self.limit();
        page.truncate(self.limit());
        let next = page.last().filter(|_| more).map(cursor);
        (page, next)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PageQuery {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let query = Query::<Self>::from_request_parts(parts, state).await;
        let told = |error: axum::extract::rejection::QueryRejection| error.body_text();
        query.map(|Query(query)| query).map_err(|error| ApiError::new("validation_error", told(error)))
    }
}

/// A cursor that no page gave.
pub(crate) fn wrong_cursor() -> ApiError {
    ApiError::invalid("cursor", "'cursor' is the nextCursor of the page before")
}
