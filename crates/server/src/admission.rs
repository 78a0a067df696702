//! How much is taken on at once. What is beyond that is told to come again.
//!
//! A request has a place, and its body has room as its bytes arrive: what is only announced takes nothing. A tenant has
//! half of either at the most, so that one that floods the server leaves the others the rest.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use abide_core::TenantId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{ApiError, Result};
use crate::limits::{BODIES_BYTES_MAX, REQUESTS_MAX};
use crate::listen;

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
        let waiting = waiting_of(listen::connections_max());
        Self { requests: REQUESTS_MAX, waiting, body_bytes: BODIES_BYTES_MAX }
    }
}

/// How many of so many connections may wait: some are left for those who want an answer at once.
fn waiting_of(connections: usize) -> usize {
    connections - REQUESTS_MAX.min(connections / 2)
}

/// The places that there are.
pub(crate) struct Admission {
    requests: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    shared: Arc<Shared>,
    capacity: Capacity,
}

/// What all tenants share, and who has how much of it.
struct Shared {
    bodies: Arc<Semaphore>,
    /// What one tenant may have.
    most: Taken,
    /// Only those who have anything, so there are never more than places.
    by_tenant: Mutex<HashMap<TenantId, Taken>>,
}

/// Places of requests, and units of room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Taken {
    places: usize,
    units: usize,
}

impl Shared {
    fn take(&self, tenant: TenantId, more: Taken) -> Result<()> {
        let mut by_tenant = lock(&self.by_tenant);
        let had = by_tenant.get(&tenant).copied().unwrap_or_default();
        let all = Taken { places: had.places + more.places, units: had.units + more.units };
        if all.places > self.most.places || all.units > self.most.units {
            return Err(ApiError::new(
                "unavailable",
                "this tenant has as much under way as one tenant may; try again in a moment",
            ));
        }
        by_tenant.insert(tenant, all);
        Ok(())
    }

    fn give_back(&self, tenant: TenantId, less: Taken) {
        let mut by_tenant = lock(&self.by_tenant);
        if let Some(taken) = by_tenant.get_mut(&tenant) {
            taken.places -= less.places;
            taken.units -= less.units;
            if *taken == Taken::default() {
                by_tenant.remove(&tenant);
            }
        }
    }
}

/// A place, held for as long as this lives.
pub(crate) struct Place {
    _permit: OwnedSemaphorePermit,
    waits: bool,
    shared: Arc<Shared>,
    /// Who is in it, if that counts.
    tenant: Option<TenantId>,
}

impl Place {
    const ONE: Taken = Taken { places: 1, units: 0 };

    /// Counts the place as a tenant's, unless it has too many. Those who wait cost little; they have the connections to
    /// share, and a single tenant may have thousands of subscribers.
    pub(crate) fn belong_to(&mut self, tenant: TenantId) -> Result<()> {
        if !self.waits {
            self.shared.take(tenant, Self::ONE)?;
            self.tenant = Some(tenant);
        }
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(tenant) = self.tenant {
            self.shared.give_back(tenant, Self::ONE);
        }
    }
}

/// Room for a request's body: as much as arrived of it, for as long as this lives.
pub(crate) struct Room {
    shared: Arc<Shared>,
    tenant: Option<TenantId>,
    arrived: Mutex<Arrived>,
}

#[derive(Default)]
struct Arrived {
    bytes: usize,
    units: usize,
    permit: Option<OwnedSemaphorePermit>,
}

impl Room {
    /// Takes room for bytes that arrived, beside those before.
    pub(crate) fn take(&self, bytes: usize) -> Result<()> {
        let mut arrived = lock(&self.arrived);
        let all = arrived.bytes + bytes;
        let units = all.div_ceil(UNIT) - arrived.units;
        if units > 0 {
            let more = self.take_units(units)?;
            match &mut arrived.permit {
                Some(permit) => permit.merge(more),
                none => *none = Some(more),
            }
            arrived.units += units;
        }
        arrived.bytes = all;
        Ok(())
    }

    fn take_units(&self, units: usize) -> Result<OwnedSemaphorePermit> {
        let more = Taken { places: 0, units };
        if let Some(tenant) = self.tenant {
            self.shared.take(tenant, more)?;
        }
        let count = u32::try_from(units).unwrap_or(u32::MAX);
        self.shared.bodies.clone().try_acquire_many_owned(count).map_err(|_| {
            if let Some(tenant) = self.tenant {
                self.shared.give_back(tenant, more);
            }
            busy()
        })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let units = lock(&self.arrived).units;
        if let Some(tenant) = self.tenant {
            self.shared.give_back(tenant, Taken { places: 0, units });
        }
    }
}

/// All that a request takes up. Work that outlasts its connection takes this along, so that whoever hangs up does not
/// make room for more than there is.
#[derive(Clone)]
pub(crate) struct Held {
    place: Arc<Place>,
    room: Arc<Room>,
}

impl Held {
    pub(crate) fn new(place: Place, room: Room) -> Self {
        Self { place: Arc::new(place), room: Arc::new(room) }
    }

    /// Where the body goes.
    pub(crate) fn room(&self) -> &Room {
        &self.room
    }

    /// The place alone: the body was read.
    pub(crate) fn without_room(self) -> Arc<Place> {
        self.place
    }
}

impl Admission {
    pub(crate) fn new(capacity: Capacity) -> Self {
        let places = |count: usize| Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS)));
        let units = capacity.body_bytes / UNIT;
        let most = Taken { places: capacity.requests.div_ceil(2), units: units.div_ceil(2) };
        let shared = Shared { bodies: places(units), most, by_tenant: Mutex::default() };
        Self {
            requests: places(capacity.requests),
            waiting: places(capacity.waiting),
            shared: Arc::new(shared),
            capacity,
        }
    }

    /// How many polls and streams are open.
    pub(crate) fn waiting(&self) -> usize {
        self.capacity.waiting.saturating_sub(self.waiting.available_permits())
    }

    /// Bytes of request bodies that are held, in whole units.
    pub(crate) fn body_bytes(&self) -> usize {
        let units = self.capacity.body_bytes / UNIT;
        units.saturating_sub(self.shared.bodies.available_permits()) * UNIT
    }

    /// A place for a request; those that wait for something to happen have places of their own.
    pub(crate) fn enter(&self, waits: bool) -> Result<Place> {
        let places = if waits { &self.waiting } else { &self.requests };
        let permit = places.clone().try_acquire_owned().map_err(|_| busy())?;
        Ok(Place { _permit: permit, waits, shared: self.shared.clone(), tenant: None })
    }

    /// Room for the body of a tenant's request. It takes nothing until something arrives.
    pub(crate) fn room(&self, tenant: Option<TenantId>) -> Room {
        Room { shared: self.shared.clone(), tenant, arrived: Mutex::default() }
    }
}

fn busy() -> ApiError {
    ApiError::new("unavailable", "the server has as much to do as it takes on at once; try again in a moment")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread panics holding this")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: TenantId = TenantId(1);
    const OTHER: TenantId = TenantId(2);

    fn admission(requests: usize, units: usize) -> Admission {
        Admission::new(Capacity { requests, waiting: 1, body_bytes: units * UNIT })
    }

    #[test]
    fn a_place_is_free_again_when_it_is_left() {
        let admission = admission(1, 0);
        let place = admission.enter(false).unwrap();
        assert!(admission.enter(false).is_err());
        let waiting = admission.enter(true).expect("waiting is counted apart");
        assert!(admission.enter(true).is_err());
        drop((place, waiting));
        assert!(admission.enter(false).is_ok() && admission.enter(true).is_ok());
    }

    #[test]
    fn a_body_takes_room_as_it_arrives_and_no_more() {
        let admission = admission(1, 10);
        let (first, second) = (admission.room(None), admission.room(None));
        for _ in 0..UNIT {
            first.take(8).unwrap();
        }
        assert_eq!(admission.body_bytes(), 8 * UNIT, "single bytes add up to whole units");
        assert!(second.take(2 * UNIT + 1).is_err());
        second.take(2 * UNIT).unwrap();
        assert!(first.take(1).is_err());
        drop(first);
        second.take(8 * UNIT).unwrap();
        drop(second);
        assert_eq!(admission.body_bytes(), 0);
    }

    #[test]
    fn a_tenant_has_half_and_leaves_the_rest_to_others() {
        let admission = admission(4, 8);
        let enter = |tenant| {
            let mut place = admission.enter(false)?;
            place.belong_to(tenant).map(|()| place)
        };
        let mine = (enter(ONE).unwrap(), enter(ONE).unwrap());
        assert!(enter(ONE).is_err());
        let others = (enter(OTHER).unwrap(), enter(OTHER).unwrap());
        let (first, second) = (admission.room(Some(ONE)), admission.room(Some(ONE)));
        first.take(3 * UNIT).unwrap();
        second.take(UNIT).unwrap();
        assert!(first.take(1).is_err() && second.take(1).is_err());
        let other = admission.room(Some(OTHER));
        other.take(4 * UNIT).unwrap();
        drop(mine);
        assert!(enter(ONE).is_ok());
        drop((others, first, second, other));
        assert!(lock(&admission.shared.by_tenant).is_empty(), "nothing is kept of who has nothing");
    }

    #[test]
    fn the_last_place_is_had_by_anybody_and_waiting_is_not_shared_out() {
        let admission = admission(1, 0);
        admission.enter(false).unwrap().belong_to(ONE).unwrap();
        admission.enter(true).unwrap().belong_to(ONE).unwrap();
    }

    #[test]
    fn room_that_was_not_there_is_not_counted_against_anybody() {
        let admission = admission(1, 4);
        let taken = admission.room(None);
        taken.take(4 * UNIT).unwrap();
        let mine = admission.room(Some(ONE));
        assert!(mine.take(1).is_err());
        drop(taken);
        mine.take(2 * UNIT).unwrap();
    }

    #[test]
    fn work_that_goes_on_keeps_its_place_and_its_room() {
        let admission = admission(1, 1);
        let held = Held::new(admission.enter(false).unwrap(), admission.room(None));
        held.room().take(1000).unwrap();
        let work = held.clone();
        drop(held.without_room());
        assert!(admission.enter(false).is_err() && admission.room(None).take(1).is_err());
        drop(work);
        assert!(admission.enter(false).is_ok() && admission.room(None).take(1).is_ok());
    }

    #[test]
    fn connections_are_left_for_those_who_do_not_wait() {
        assert_eq!(waiting_of(crate::limits::CONNECTIONS_MAX), crate::limits::WAITING_MAX);
        assert_eq!((waiting_of(512), waiting_of(3), waiting_of(1)), (256, 2, 1));
    }
}
