//! What waits for the writer: two lanes, people first.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};

use crate::Lane;

/// Jobs in one transaction at the most. Past a few hundred the fsync is shared so widely that a longer
/// transaction only adds latency.
pub(crate) const BATCH_JOBS_MAX: usize = 256;

/// Places in each batch that background work gets when it waits, however busy the other lane is; and no more than that
/// while somebody waits, who would wait for all of it.
const BACKGROUND_SHARE: usize = 32;

/// The lanes. The engine bounds how much it submits, so the queue needs no bound of its own.
pub(crate) struct Queue<J> {
    lanes: Mutex<Lanes<J>>,
    wake: Condvar,
}

struct Lanes<J> {
    interactive: VecDeque<J>,
    background: VecDeque<J>,
    closed: bool,
}

impl<J> Default for Queue<J> {
    fn default() -> Self {
        let (interactive, background) = (VecDeque::new(), VecDeque::new());
        Self { lanes: Mutex::new(Lanes { interactive, background, closed: false }), wake: Condvar::new() }
    }
}

impl<J> Queue<J> {
    /// Adds a job, or gives it back if the store is closed.
    pub(crate) fn push(&self, job: J, lane: Lane) -> Result<(), J> {
        let mut lanes = self.lanes.lock().expect("no thread panics holding this");
        if lanes.closed {
            return Err(job);
        }
        match lane {
            Lane::Interactive => lanes.interactive.push_back(job),
            Lane::Background => lanes.background.push_back(job),
        }
        drop(lanes);
        self.wake.notify_one();
        Ok(())
    }

    /// Waits for work and takes a batch of it. `None` once the queue is closed and empty.
    pub(crate) fn take(&self) -> Option<Vec<J>> {
        let mut lanes = self.lanes.lock().expect("no thread panics holding this");
        loop {
            let batch = lanes.take_batch();
            if !batch.is_empty() {
                return Some(batch);
            }
            if lanes.closed {
                return None;
            }
            lanes = self.wake.wait(lanes).expect("no thread panics holding this");
        }
    }

    /// Whether it takes in no more.
    pub(crate) fn is_closed(&self) -> bool {
        self.lanes.lock().expect("no thread panics holding this").closed
    }

    /// Takes in no more. What is queued will still be written.
    pub(crate) fn close(&self) {
        self.lanes.lock().expect("no thread panics holding this").closed = true;
        self.wake.notify_all();
    }
}

impl<J> Lanes<J> {
    fn take_batch(&mut self) -> Vec<J> {
        let reserved = self.background.len().min(BACKGROUND_SHARE);
        let people = self.interactive.len().min(BATCH_JOBS_MAX - reserved);
        let others = if people > 0 { reserved } else { self.background.len().min(BATCH_JOBS_MAX) };
        let mut batch: Vec<J> = self.interactive.drain(..people).collect();
        batch.extend(self.background.drain(..others));
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn background_work_yields_but_does_not_starve() {
        let queue = Queue::default();
        for _ in 0..1000 {
            assert!(queue.push((), Lane::Interactive).is_ok());
            assert!(queue.push((), Lane::Background).is_ok());
        }
        let mut lanes = queue.lanes.lock().unwrap();
        assert_eq!(lanes.take_batch().len(), BATCH_JOBS_MAX);
        assert_eq!(lanes.interactive.len(), 1000 - (BATCH_JOBS_MAX - BACKGROUND_SHARE));
        assert_eq!(lanes.background.len(), 1000 - BACKGROUND_SHARE);
    }

    #[test]
    fn a_closed_queue_gives_out_what_it_holds_and_takes_nothing_in() {
        let queue = Queue::default();
        assert!(queue.push((), Lane::Background).is_ok());
        queue.close();
        assert!(queue.push((), Lane::Interactive).is_err());
        assert_eq!(queue.take().map(|batch| batch.len()), Some(1));
        assert!(queue.take().is_none());
    }
}
