//! What becomes of commits once they are written: whoever waits is answered, and they are counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use crate::store::Counts;
use crate::{Done, Error};

/// What the writer has written; read by benches and metrics.
#[derive(Default)]
pub(crate) struct Counters {
    commits: AtomicU64,
    transactions: AtomicU64,
    rows: AtomicU64,
    matched: AtomicU64,
}

impl Counters {
    pub(crate) fn add(&self, more: Counts) {
        self.commits.fetch_add(more.commits, Ordering::Relaxed);
        self.transactions.fetch_add(more.transactions, Ordering::Relaxed);
        self.rows.fetch_add(more.rows, Ordering::Relaxed);
        self.matched.fetch_add(more.matched, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            commits: read(&self.commits),
            transactions: read(&self.transactions),
            rows: read(&self.rows),
            matched: read(&self.matched),
        }
    }
}

/// Answers on their way to whoever waits for them.
pub(crate) type Answers = Vec<(Done, Result<(), Error>)>;

/// Gives answers until the writer is gone.
pub(crate) fn answer(answers: &mpsc::Receiver<Answers>) {
    for batch in answers {
        for (done, result) in batch {
            done(result);
        }
    }
}

/// A thread that a store can't be without. Should it panic, nothing would ever be answered again and nobody
/// would know: the process ends instead, and the next start goes on from the disk.
pub(crate) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::thread::JoinHandle<()> {
    let guarded = move || {
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err() {
            tracing::error!("a thread of the store panicked; ending the process");
            std::process::abort();
        }
    };
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(guarded)
        .expect("the system can start a thread at start-up")
}

/// Waits for a store's threads. One that drops the store itself, in an answer, can't wait for itself.
pub(crate) fn join(threads: Vec<std::thread::JoinHandle<()>>) {
    let this = std::thread::current().id();
    for thread in threads.into_iter().filter(|thread| thread.thread().id() != this) {
        if thread.join().is_err() {
            tracing::error!("a store thread panicked");
        }
    }
}
