//! Work on large definitions, away from the threads that serve everybody.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::{Error, limits};

/// Few threads at a time, so that those who check large definitions wait for each other and nobody waits for them.
pub(crate) struct Apart(Arc<Semaphore>);

impl Default for Apart {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(limits::APART_MAX)))
    }
}

impl Apart {
    /// Does work that grows with so many bytes. A little is done at once, where it is asked for.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        if bytes <= limits::AT_ONCE_BYTES_MAX {
            return Ok(work());
        }
        let permit = self.0.clone().acquire_owned().await.map_err(|_| Error::Draining)?;
        // The permit goes along: the work goes on when whoever asked for it has gone away.
        let working = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(permit);
            done
        });
        working.await.map_err(|_| Error::Draining)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    const LARGE: usize = limits::AT_ONCE_BYTES_MAX + 1;

    #[tokio::test]
    async fn a_little_is_done_at_once_and_a_lot_elsewhere() {
        let apart = Apart::default();
        let here = thread::current().id();
        let thread_of = |bytes| apart.run(bytes, || thread::current().id());
        assert_eq!(thread_of(limits::AT_ONCE_BYTES_MAX).await.unwrap(), here);
        assert_ne!(thread_of(LARGE).await.unwrap(), here);
    }

    /// One that was given up still takes its place until it is done.
    #[tokio::test]
    async fn no_more_than_a_few_are_at_work() {
        let apart = Arc::new(Apart::default());
        let mut finish = Vec::new();
        for _ in 0..limits::APART_MAX {
            let (told, began) = tokio::sync::oneshot::channel();
            let (go, gone) = mpsc::channel::<()>();
            let task = tokio::spawn({
                let apart = apart.clone();
                async move {
                    let work = move || {
                        told.send(()).unwrap();
                        gone.recv().unwrap();
                    };
                    apart.run(LARGE, work).await
                }
            });
            began.await.unwrap();
            task.abort();
            assert!(task.await.unwrap_err().is_cancelled());
            finish.push(go);
        }
        assert_eq!(apart.0.available_permits(), 0);
        assert_eq!(apart.run(1, || 1).await.unwrap(), 1);
        for go in finish {
            go.send(()).unwrap();
        }
        assert_eq!(apart.run(LARGE, || 2).await.unwrap(), 2);
    }
}
