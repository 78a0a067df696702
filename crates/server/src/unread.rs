//! Requests that are answered before all of them was read.
//!
//! The connection can't be used for another one then. Whoever sent it has to hear that, or their next request goes into
//! nothing.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use hyper::body::{Frame, SizeHint};

/// Says so, if the connection ends with the answer.
pub(crate) async fn tell(request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let read = Arc::new(AtomicBool::new(false));
    let seen = read.clone();
    let request = request.map(|body| Body::new(Incoming { body, read: seen }));
    let mut response = next.run(request).await;
    if !read.load(Ordering::Relaxed) {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// A body that remembers whether all of it was read.
struct Incoming {
    body: Body,
    read: Arc<AtomicBool>,
}

impl HttpBody for Incoming {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if matches!(polled, Poll::Ready(None)) || self.body.is_end_stream() {
            self.read.store(true, Ordering::Relaxed);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::middleware::from_fn;
    use axum::routing::post;
    use tower_service::Service;

    use super::*;

    async fn closes(body: &'static str, reads: bool) -> bool {
        let handler = move |body: Body| async move {
            if reads {
                axum::body::to_bytes(body, 100).await.unwrap();
            }
        };
        let mut router: Router = Router::new().route("/", post(handler)).layer(from_fn(tell));
        let request = Request::post("/").body(Body::from(body)).unwrap();
        let response = router.call(request).await.unwrap();
        response.headers().get(header::CONNECTION).is_some_and(|value| value == "close")
    }

    #[tokio::test]
    async fn whoever_is_answered_before_all_was_read_hears_that_the_connection_ends() {
        assert!(closes("unread", false).await);
        assert!(!closes("read", true).await);
        assert!(!closes("", false).await);
    }
}
