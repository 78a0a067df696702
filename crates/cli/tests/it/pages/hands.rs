//! The workers of a page: processes that do the work of its agents, started where the page starts them.

use std::io::Write;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::Reader;
use crate::support::PATIENCE;
use crate::workers::sdk_home;

/// The workers that a page has started.
#[derive(Default)]
pub(super) struct Hands(Vec<Child>);

impl Hands {
    /// Whether the page has started any.
    pub(super) fn were_there(&self) -> bool {
        !self.0.is_empty()
    }

    /// The numbers of those that live.
    fn living(&mut self) -> Vec<String> {
        let living = self.0.iter_mut().filter_map(|worker| match worker.try_wait().unwrap() {
            None => Some(worker.id().to_string()),
            Some(_) => None,
        });
        living.collect()
    }

    /// Waits until the last one has ended, which was told to.
    pub(super) fn await_end(&mut self) {
        self.0.last_mut().expect("a page ends only workers that it has started").wait().unwrap();
    }
}

impl Drop for Hands {
    fn drop(&mut self) {
        for worker in &mut self.0 {
            let _ = worker.kill();
            let _ = worker.wait();
        }
    }
}

impl Reader {
    /// Starts a worker, and waits until it says that it works.
    pub(super) async fn hire(&mut self, app: &str) {
        let log = self.site.path(&format!("worker-{}", self.hands.0.len()));
        let said = std::fs::File::create(&log).unwrap();
        let mut command = self.reader_runs(sdk_home().join("bin/abide-worker").to_str().unwrap());
        // What its functions print is nobody's business but the reader's.
        let worker = command.arg(app).stdout(Stdio::null()).stderr(said).spawn().unwrap();
        let mut variables =
            std::fs::File::options().create(true).append(true).open(self.site.path("variables")).unwrap();
        writeln!(variables, "export WORKER={}", worker.id()).unwrap();
        self.hands.0.push(worker);
        let began = Instant::now();
        loop {
            let text = std::fs::read_to_string(&log).unwrap();
            if text.contains("works for") {
                return;
            }
            let ended = self.hands.0.last_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none() && began.elapsed() < PATIENCE, "{app} does not start: {text}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until nothing more happens before the clock is moved or somebody does something.
    pub(super) async fn settle(&mut self) {
        self.server.settle_with(&self.hands.living()).await;
        self.site.settle_messages(&self.server).await;
        if self.hands.were_there() {
            self.settle_calls().await;
        }
    }

    /// Waits until every agent that is to be called by now has been called.
    async fn settle_calls(&self) {
        let began = Instant::now();
        let database = self.site.database();
        while database.query_row("SELECT count(*) FROM hooks", [], |row| row.get::<_, i64>(0)).unwrap() > 0 {
            assert!(began.elapsed() < PATIENCE, "an agent is not called");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// A page says in words what is done for it, so that its readers do the same.
pub(super) fn demand_starts(app: &str, block: &str) {
    assert!(block.contains(&format!("abide-worker {app}")), "this does not start {app}: {block}");
}
