//! The body of an answer: it holds the place of its request until it has gone out.
//!
//! What the HTTP library has taken is out of reach, so it is given a little at a time: a reader that stalls keeps its
//! place, and the library never has more than a piece of a large answer.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::header;
use axum::response::Response;
use hyper::body::{Frame, SizeHint};

use crate::admission::Place;
use crate::limits;

/// Holds the place until the answer has gone out. A stream of events ends before the first thing that its reader may not
/// hear any more; any other answer was allowed as a whole.
pub(crate) fn hold(
    place: Arc<Place>,
    response: Response,
    may_hear: impl Fn() -> bool + Send + Sync + 'static,
) -> Response {
    if response.body().is_end_stream() {
        return response;
    }
    let kind = response.headers().get(header::CONTENT_TYPE);
    let is_stream = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    let may_hear = is_stream.then_some(Box::new(may_hear) as Box<dyn Fn() -> bool + Send + Sync>);
    response.map(|body| Body::new(Outgoing { body, rest: Bytes::new(), place: Some(place), may_hear }))
}

struct Outgoing {
    body: Body,
    /// What the body gave and is not on its way yet.
    rest: Bytes,
    place: Option<Arc<Place>>,
    may_hear: Option<Box<dyn Fn() -> bool + Send + Sync>>,
}

impl Outgoing {
    /// The next piece of what there is. It is a copy if more is left, so that the last piece does not keep the whole.
    fn piece(&mut self, mut bytes: Bytes) -> Bytes {
        if bytes.len() <= limits::PIECE_BYTES_MAX {
            return bytes;
        }
        let piece = Bytes::copy_from_slice(&bytes.split_to(limits::PIECE_BYTES_MAX));
        let is_last = bytes.len() <= limits::PIECE_BYTES_MAX;
        self.rest = if is_last { Bytes::copy_from_slice(&bytes) } else { bytes };
        piece
    }

    fn end(&mut self) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        (self.body, self.place) = (Body::empty(), None);
        Poll::Ready(None)
    }
}

impl HttpBody for Outgoing {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let bytes = if self.rest.is_empty() {
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return self.end(),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(bytes) => bytes,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
            }
        } else {
            std::mem::take(&mut self.rest)
        };
        if self.may_hear.as_ref().is_some_and(|may_hear| !may_hear()) {
            return self.end();
        }
        let piece = self.piece(bytes);
        if self.is_end_stream() {
            self.place = None;
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + rest);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;

    use super::*;
    use crate::admission::{Admission, Capacity};

    fn admission() -> Admission {
        Admission::new(Capacity { requests: 1, waiting: 1, body_bytes: 0 })
    }

    fn answer(kind: &str, body: Body) -> Response {
        Response::builder().header(header::CONTENT_TYPE, kind).body(body).unwrap()
    }

    fn streamed(parts: &[&'static str]) -> Body {
        let parts: Vec<_> = parts.iter().map(|part| Ok::<_, std::io::Error>(*part)).collect();
        Body::from_stream(futures_util::stream::iter(parts))
    }

    #[tokio::test]
    async fn every_answer_holds_its_place_to_its_end() {
        let admission = admission();
        for kind in ["text/event-stream", "application/json"] {
            for body in [streamed(&["{", "}"]), Body::from(vec![b'x'; 100_000])] {
                let held = hold(Arc::new(admission.enter(true).unwrap()), answer(kind, body), || true);
                let mut body = held.into_body().into_data_stream();
                body.next().await.unwrap().unwrap();
                assert!(admission.enter(true).is_err(), "{kind}");
                while let Some(piece) = body.next().await {
                    piece.unwrap();
                }
                assert!(admission.enter(true).is_ok(), "{kind}: it is free before the body is dropped");
            }
        }
        let empty = hold(Arc::new(admission.enter(true).unwrap()), Response::new(Body::empty()), || true);
        assert!(admission.enter(true).is_ok());
        drop(empty);
    }

    #[tokio::test]
    async fn a_large_answer_goes_out_in_pieces_and_says_how_long_it_is() {
        let whole: Vec<u8> = (0..100_000u32).map(|ix| (ix % 251) as u8).collect();
        let place = Arc::new(admission().enter(false).unwrap());
        let held = hold(place, answer("application/json", Body::from(whole.clone())), || false);
        let mut body = held.into_body();
        let mut got = Vec::new();
        while !body.is_end_stream() {
            assert_eq!(body.size_hint().exact(), Some((whole.len() - got.len()) as u64));
            let frame = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
            let piece = frame.unwrap().unwrap().into_data().unwrap();
            assert!(!piece.is_empty() && piece.len() <= limits::PIECE_BYTES_MAX);
            got.extend(piece);
        }
        assert_eq!(got, whole);
    }

    #[tokio::test]
    async fn a_stream_ends_when_its_reader_may_hear_no_more() {
        let admission = admission();
        let place = Arc::new(admission.enter(true).unwrap());
        let cut = hold(place, answer("text/event-stream", streamed(&["data: x\n\n"])), || false);
        assert!(axum::body::to_bytes(cut.into_body(), 100).await.unwrap().is_empty());
        assert!(admission.enter(true).is_ok());
    }
}
