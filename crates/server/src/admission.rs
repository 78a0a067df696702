//! How much is taken on at once. What is beyond that is told to come again, before anything of it is read.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use axum::response::Response;
use futures_util::StreamExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{ApiError, Result};
use crate::limits::{BODIES_BYTES_MAX, REQUESTS_MAX, WAITING_MAX};

/// Bodies are counted in so many bytes.
const UNIT: usize = 1024;

/// How many requests a server takes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Requests being answered at once.
    pub requests: usize,
    /// Polls and streams open at once.
    pub waiting: usize,
    /// Bytes of request bodies held at once.
    pub body_bytes: usize,
}

impl Default for Capacity {
    fn default() -> Self {
        Self { requests: REQUESTS_MAX, waiting: WAITING_MAX, body_bytes: BODIES_BYTES_MAX }
    }
}

/// The places that there are.
pub(crate) struct Admission {
    requests: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
    capacity: Capacity,
}

/// A place, held for as long as this lives.
pub(crate) struct Place(#[expect(dead_code, reason = "held, never looked at")] OwnedSemaphorePermit);

/// All that a request takes up. Work that outlasts its connection takes this along, so that whoever hangs up does not
/// make room for more than there is.
#[derive(Clone)]
pub(crate) struct Held {
    place: Arc<Place>,
    /// Held, never looked at.
    _room: Option<Arc<Place>>,
}

impl Held {
    pub(crate) fn new(place: Place, room: Option<Place>) -> Self {
        Self { place: Arc::new(place), _room: room.map(Arc::new) }
    }

    /// The place alone: the body was read.
    pub(crate) fn without_room(self) -> Arc<Place> {
        self.place
    }
}

impl Admission {
    pub(crate) fn new(capacity: Capacity) -> Self {
        let places = |count: usize| Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS)));
        Self {
            requests: places(capacity.requests),
            waiting: places(capacity.waiting),
            bodies: places(capacity.body_bytes / UNIT),
            capacity,
        }
    }

    /// How many polls and streams are open.
    pub(crate) fn waiting(&self) -> usize {
        self.capacity.waiting.saturating_sub(self.waiting.available_permits())
    }

    /// A place for a request; those that wait for something to happen have places of their own.
    pub(crate) fn enter(&self, waits: bool) -> Result<Place> {
        let places = if waits { &self.waiting } else { &self.requests };
        places.clone().try_acquire_owned().map(Place).map_err(|_| busy())
    }

    /// Room for a request's body, as long as it says it is or as long as it may be.
    pub(crate) fn make_room(&self, headers: &HeaderMap, bytes_max: usize) -> Result<Option<Place>> {
        let told = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        let bytes: usize = match told {
            Some(bytes) => bytes,
            None if headers.contains_key(header::TRANSFER_ENCODING) => bytes_max,
            None => 0,
        };
        let units = u32::try_from(bytes.min(bytes_max).div_ceil(UNIT)).unwrap_or(u32::MAX);
        if units == 0 {
            return Ok(None);
        }
        self.bodies.clone().try_acquire_many_owned(units).map(|place| Some(Place(place))).map_err(|_| busy())
    }
}

fn busy() -> ApiError {
    ApiError::new("unavailable", "the server has as much to do as it takes on at once; try again in a moment")
}

/// Holds the place until a stream has ended; any other answer is whole by now. A stream ends before the first thing that
/// its reader may not hear any more.
pub(crate) fn hold(
    place: Arc<Place>,
    response: Response,
    may_hear: impl Fn() -> bool + Send + Sync + 'static,
) -> Response {
    let kind = response.headers().get(header::CONTENT_TYPE);
    if !kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream")) {
        return response;
    }
    response.map(|body| {
        Body::from_stream(body.into_data_stream().take_while(move |_| {
            let _held = &place;
            std::future::ready(may_hear())
        }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: header::HeaderName, value: &str) -> HeaderMap {
        [(name, value.parse().unwrap())].into_iter().collect()
    }

    #[test]
    fn a_place_is_free_again_when_it_is_left() {
        let admission = Admission::new(Capacity { requests: 1, waiting: 1, body_bytes: 0 });
        let place = admission.enter(false).unwrap();
        assert!(admission.enter(false).is_err());
        let waiting = admission.enter(true).expect("waiting is counted apart");
        assert!(admission.enter(true).is_err());
        drop((place, waiting));
        assert!(admission.enter(false).is_ok() && admission.enter(true).is_ok());
    }

    #[test]
    fn a_body_takes_the_room_it_says_or_may_need() {
        let admission = Admission::new(Capacity { requests: 1, waiting: 1, body_bytes: 10 * UNIT });
        let room = |name, value: &str| admission.make_room(&headers(name, value), 8 * UNIT);
        assert!(room(header::CONTENT_LENGTH, "0").unwrap().is_none());
        assert!(admission.make_room(&HeaderMap::new(), UNIT).unwrap().is_none(), "it has no body");
        let large = room(header::CONTENT_LENGTH, "999999999").unwrap();
        assert!(large.is_some(), "more than may be is refused elsewhere");
        assert!(room(header::CONTENT_LENGTH, "3000").is_err());
        let small = room(header::CONTENT_LENGTH, "2048").unwrap();
        assert!(small.is_some());
        drop(large);
        let chunked = room(header::TRANSFER_ENCODING, "chunked").unwrap();
        assert!(chunked.is_some());
        assert!(room(header::CONTENT_LENGTH, "1").is_err());
    }

    #[tokio::test]
    async fn a_stream_holds_its_place_to_its_end() {
        let admission = Admission::new(Capacity { requests: 1, waiting: 1, body_bytes: 0 });
        let stream = |kind: &str| {
            let frames = futures_util::stream::iter([Ok::<_, std::io::Error>("data: x\n\n")]);
            Response::builder().header(header::CONTENT_TYPE, kind).body(Body::from_stream(frames)).unwrap()
        };
        let held = hold(Arc::new(admission.enter(true).unwrap()), stream("text/event-stream"), || true);
        assert!(admission.enter(true).is_err());
        let bytes = axum::body::to_bytes(held.into_body(), 100).await.unwrap();
        assert_eq!(&bytes[..], b"data: x\n\n");
        let cut = hold(Arc::new(admission.enter(true).unwrap()), stream("text/event-stream"), || false);
        assert!(axum::body::to_bytes(cut.into_body(), 100).await.unwrap().is_empty());
        let _other = hold(Arc::new(admission.enter(true).unwrap()), stream("application/json"), || true);
        assert!(admission.enter(true).is_ok());
    }

    #[test]
    fn work_that_goes_on_keeps_its_place_and_its_room() {
        let admission = Admission::new(Capacity { requests: 1, waiting: 1, body_bytes: UNIT });
        let body = headers(header::CONTENT_LENGTH, "1000");
        let room = admission.make_room(&body, UNIT).unwrap();
        let held = Held::new(admission.enter(false).unwrap(), room);
        let work = held.clone();
        drop(held.without_room());
        assert!(admission.enter(false).is_err() && admission.make_room(&body, UNIT).is_err());
        drop(work);
        assert!(admission.enter(false).is_ok() && admission.make_room(&body, UNIT).is_ok());
    }
}
