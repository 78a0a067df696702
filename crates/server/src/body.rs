//! Request bodies: bounded, closed, and refused with the place of the mistake.

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use serde::de::DeserializeOwned;

use crate::error::{ApiError, Result};
use crate::limits;

/// A JSON body. An empty one stands for `{}`.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self> {
        let bytes = read(request.into_body()).await?;
        let bytes: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
        parse(bytes).map(Self)
    }
}

async fn read(body: Body) -> Result<Vec<u8>> {
    let too_large = || {
        let message = format!(
            "the body is larger than {} bytes; send less",
            limits::BODY_BYTES_MAX
        );
        ApiError::new("payload_too_large", message).with("maxBytes", limits::BODY_BYTES_MAX)
    };
    match axum::body::to_bytes(body, limits::BODY_BYTES_MAX).await {
        Ok(bytes) => Ok(bytes.into()),
        Err(error) if is_length_limit(&error) => Err(too_large()),
        Err(error) => Err(ApiError::new(
            "validation_error",
            format!("the body could not be read: {error}"),
        )),
    }
}

fn is_length_limit(error: &axum::Error) -> bool {
    error.to_string().contains("length limit")
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let parsed = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let place = error.path().to_string();
        let message = format!("the body is not what this endpoint takes: {}", error.inner());
        if place == "." {
            ApiError::new("validation_error", message)
        } else {
            ApiError::invalid(&place, message)
        }
    })?;
    let trailing = |error| {
        ApiError::new(
            "validation_error",
            format!("the body goes on after its end: {error}"),
        )
    };
    reader.end().map_err(trailing)?;
    Ok(parsed)
}
