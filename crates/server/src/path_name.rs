//! A name in a path, whatever it is made of.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;

use crate::error::{ApiError, Result};

/// The only parameter of a path. What is not even text is a name that nothing has.
pub(crate) struct PathName(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for PathName {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        Ok(Self(path.map_or_else(|_| String::new(), |Path(name)| name)))
    }
}
