//! Who wants to hear of a run's new events.
//!
//! A subscriber is told that there is something new and reads it from the store: a slow one holds nothing up.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use abide_core::Key;
use tokio::sync::watch;

#[derive(Default)]
pub(crate) struct Watchers {
    by_run: Mutex<HashMap<Key, watch::Sender<News>>>,
}

/// How far a run is known to be on disk.
#[derive(Clone, Copy, Default)]
struct News {
    next: u64,
    ended: bool,
    /// How often somebody told something that is kept beside the run.
    told: u64,
}

/// One subscriber's view of a run.
pub struct Subscription {
    key: Key,
    /// Taken away when the subscriber goes, before it is counted who is left.
    news: Option<watch::Receiver<News>>,
    watchers: Arc<Watchers>,
}

impl Watchers {
    pub(crate) fn subscribe(self: &Arc<Self>, key: Key) -> Subscription {
        let mut by_run = self.by_run.lock().expect("no thread panics holding this");
        let news = by_run.entry(key).or_default().subscribe();
        Subscription { key, news: Some(news), watchers: self.clone() }
    }

    /// The runs that somebody listens to.
    pub(crate) fn runs(&self) -> BTreeSet<Key> {
        self.by_run.lock().expect("no thread panics holding this").keys().copied().collect()
    }

    /// Tells whoever listens that events up to `next` are durable, and whether the last of them is the end.
    pub(crate) fn tell(&self, key: Key, next: u64, ended: bool) {
        if let Some(sender) = self.by_run.lock().expect("no thread panics holding this").get(&key) {
            sender.send_if_modified(|news| {
                let is_new = next > news.next || ended && !news.ended;
                *news = News { next: next.max(news.next), ended: ended || news.ended, ..*news };
                is_new
            });
        }
    }

    /// Tells whoever listens that there is something new beside the run.
    pub(crate) fn tell_of_record(&self, key: Key) {
        if let Some(sender) = self.by_run.lock().expect("no thread panics holding this").get(&key) {
            sender.send_modify(|news| news.told += 1);
        }
    }
}

impl Subscription {
    /// Waits until something was committed, or is kept beside it, after the last call, or since the subscription began.
    pub async fn changed(&mut self) {
        // The sender stays in the table for as long as this receiver lives.
        if let Some(news) = &mut self.news {
            let _ = news.changed().await;
        }
    }

    /// How many events are known to be on disk, as far as it was told since somebody began to listen; 0 before that.
    pub fn known(&self) -> u64 {
        self.news.as_ref().map_or(0, |news| news.borrow().next)
    }

    /// Waits until a commit after the subscription began has ended the run.
    pub async fn ended(&mut self) {
        if let Some(news) = &mut self.news {
            let _ = news.wait_for(|news| news.ended).await;
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut by_run = self.watchers.by_run.lock().expect("no thread panics holding this");
        self.news = None;
        if by_run.get(&self.key).is_some_and(|sender| sender.receiver_count() == 0) {
            by_run.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use abide_core::{RunId, TenantId};

    use super::*;

    #[test]
    fn subscribers_that_leave_together_leave_nothing_behind() {
        let watchers: Arc<Watchers> = Arc::default();
        let key = RunId::from_bytes([7; 16]).of(TenantId(1));
        for _ in 0..2000 {
            let both = [watchers.subscribe(key), watchers.subscribe(key)];
            std::thread::scope(|scope| both.into_iter().for_each(|one| drop(scope.spawn(move || drop(one)))));
        }
        assert!(watchers.by_run.lock().unwrap().is_empty());
    }
}
