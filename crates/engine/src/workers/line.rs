//! A worker listens: it polls, or holds a stream open.

use std::sync::Arc;

use abide_core::TenantId;
use abide_store::SessionId;
use tokio::sync::watch;

use super::session::Letter;
use crate::shell::Shell;
use crate::{Engine, Error};

/// An open line to a worker. One that is dropped broke off: the worker is not there any more.
pub struct Post {
    shell: Arc<Shell>,
    tenant: TenantId,
    session: SessionId,
    news: watch::Receiver<()>,
    answered: bool,
}

impl Engine {
    /// Opens a line to a worker, which has the letters up to a number.
    pub fn listen_to(&self, tenant: TenantId, session: SessionId, after: u64) -> Result<Post, Error> {
        self.check_open()?;
        let now = self.shell.clock.now();
        let news = self.shell.workers.with(|desk| {
            let news = desk.open_line((tenant, session), now);
            desk.acknowledge((tenant, session), after);
            news
        });
        let news = news.ok_or(Error::WorkerUnknown(session))?;
        Ok(Post { shell: self.shell.clone(), tenant, session, news, answered: false })
    }
}

impl Post {
    /// The letters behind a number, at most so many.
    pub fn letters(&mut self, after: u64, most: usize) -> Result<Vec<(u64, Letter)>, Error> {
        self.news.mark_unchanged();
        let letters = self.shell.workers.with(|desk| desk.letters((self.tenant, self.session), after, most));
        letters.ok_or(Error::WorkerUnknown(self.session))
    }

    /// Waits until there may be more.
    pub async fn news(&mut self) {
        // If the session is gone, the next look says so.
        let _ = self.news.changed().await;
    }

    /// The worker gets its answer.
    pub fn answer(mut self) {
        self.answered = true;
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        let (now, answered) = (self.shell.clock.now(), self.answered);
        let seat = (self.tenant, self.session);
        let chores = self.shell.workers.with(|desk| desk.close_line(seat, now, answered));
        self.shell.see_to(chores);
    }
}
