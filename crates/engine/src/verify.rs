//! Folds every journal again and compares it with everything that was derived from it.
//!
//! Nothing is mended here. The first bad event of a run is named, and the run's other findings with it.

mod log;

use std::sync::Arc;

use abide_core::{
    Graph, Hash, Head, Key, Millis, Notice, Payload, Record, Run, RunId, Status, Summary, TenantId,
};
use abide_store::{Beside, Expected, Listed, Loaded, Message, Note, Store, Totals};

use crate::Error;
use crate::apart::Apart;
use crate::cache::Cache;
use crate::folded::{Folded, sorted, sorted_work};
use crate::graphs::read_pinned;

/// Findings kept in a report; the rest are only counted.
const FINDINGS_MAX: usize = 1000;

/// Events read at once, so that a long journal takes no more memory than a short one.
pub(crate) const PAGE_EVENTS: usize = 1024;

/// What is found about a run whose erasure did not come to its end. It is no damage.
pub const ERASURE_INTERRUPTED: &str = "its erasure was interrupted; erase it again";

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Runs looked at.
    pub runs: u64,
    /// Events folded.
    pub events: u64,
    /// Runs with at least one finding.
    pub bad_runs: u64,
    /// Runs that could not be checked, because what they keep secret is sealed under a key that is not at hand.
    pub sealed_runs: u64,
    /// How many things are wrong.
    pub found: u64,
    /// What is wrong, the first thousand.
    pub findings: Vec<Finding>,
}

/// One thing that is not as the journals say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which run, if it is one run's.
    pub run: Option<Key>,
    /// The first bad event, if it is an event.
    pub sequence: Option<u64>,
    /// What is wrong.
    pub what: String,
}

impl Report {
    /// Whether nothing is wrong but that erasures have to be done again.
    pub fn is_only_interrupted(&self) -> bool {
        self.found == self.findings.len() as u64
            && self.findings.iter().all(|finding| finding.what == ERASURE_INTERRUPTED)
    }

    /// Whether nothing is wrong but that a key is not at hand.
    pub fn is_only_sealed(&self) -> bool {
        self.found > 0 && self.found == self.sealed_runs
    }

    /// Whether everything is as it should be.
    pub fn is_clean(&self) -> bool {
        self.found == 0
    }
}

/// Verifies a whole store. `progress` hears the number of runs done.
pub async fn verify(store: &dyn Store, mut progress: impl FnMut(u64)) -> Result<Report, Error> {
    let mut verifier =
        Verifier { store, graphs: Cache::default(), report: Report::default(), seen: Totals::default() };
    let mut after = None;
    loop {
        let page = store.scan(after, 256).await?;
        let Some((last, _)) = page.last() else { break };
        after = Some(*last);
        for (key, listed) in page {
            verifier.run(key, listed).await?;
            progress(verifier.report.runs);
        }
    }
    verifier.totals().await?;
    verifier.audit_log().await?;
    Ok(verifier.report)
}

struct Verifier<'a> {
    store: &'a dyn Store,
    graphs: Cache<(TenantId, Hash), Arc<Graph>>,
    report: Report,
    /// Rows accounted for; more than these in a table belong to nobody.
    seen: Totals,
}

impl Verifier<'_> {
    async fn run(&mut self, key: Key, listed: Result<Listed, String>) -> Result<(), Error> {
        self.report.runs += 1;
        let before = self.report.found;
        match listed {
            Ok(listed) => self.look(key, &listed).await?,
            Err(reason) => self.find(Some(key), None, format!("its columns can't be read: {reason}")),
        }
        self.report.bad_runs += u64::from(self.report.found > before);
        Ok(())
    }

    /// Looks at one run. What can't be read of it is a finding; anything else that fails ends the check.
    async fn look(&mut self, key: Key, listed: &Listed) -> Result<(), Error> {
        let looked = match self.store.load(key).await {
            Ok(Some(loaded)) => self.journal(key, listed, loaded).await,
            Ok(None) => Ok(()),
            Err(error) => Err(error.into()),
        };
        match looked {
            Err(Error::Store(abide_store::Error::Damaged { reason, .. })) => {
                self.find(Some(key), None, reason);
                Ok(())
            }
            Err(Error::Store(abide_store::Error::Sealed(reason))) => {
                self.report.sealed_runs += 1;
                self.find(Some(key), None, reason);
                Ok(())
            }
            other => other,
        }
    }

    async fn journal(&mut self, key: Key, listed: &Listed, loaded: Loaded) -> Result<(), Error> {
        let Some(salt) = loaded.salt else {
            return self.erased(key, loaded.head).await;
        };
        let graph = match self.definition(key, listed.summary.definition).await {
            Ok(graph) => graph,
            Err(error @ Error::DefinitionLost { .. }) => {
                self.find(Some(key), None, error.to_string());
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let snapshot = loaded.snapshot;
        let mut folded = Folded::empty(key, salt, graph);
        loop {
            let from = folded.run.head().next;
            let page = self.store.journal(key, from, PAGE_EVENTS).await?;
            if page.is_empty() {
                break;
            }
            for record in &page {
                if let Err(corrupt) = folded.apply(record) {
                    self.find(Some(key), Some(corrupt.sequence), corrupt.reason);
                    return Ok(());
                }
                self.report.events += 1;
                let next = folded.run.head().next;
                if let Some((_, bytes)) = snapshot.as_ref().filter(|(at, _)| *at == next) {
                    self.snapshot(&folded, bytes);
                }
            }
        }
        if let Some((at, _)) = snapshot.filter(|(at, _)| *at > folded.run.head().next) {
            self.find(Some(key), None, format!("there is a snapshot of {at} events, which are not there"));
        }
        self.columns(key, listed, loaded.head, &folded.run);
        self.beside(key, &folded).await
    }

    /// The definition of a run, from its own tenant's blobs.
    async fn definition(&mut self, key: Key, hash: Hash) -> Result<Arc<Graph>, Error> {
        if let Some(graph) = self.graphs.get(&(key.tenant, hash)) {
            return Ok(graph.clone());
        }
        let graph = Arc::new(read_pinned(self.store, &Apart::default(), key, hash).await?);
        self.graphs.insert((key.tenant, hash), graph.clone(), graph.source.len());
        Ok(graph)
    }

    /// An erased journal can't be folded, but its chain still binds.
    async fn erased(&mut self, key: Key, counted: Head) -> Result<(), Error> {
        if self.store.notes(key).await?.iter().any(Note::is_unfinished) {
            self.find(Some(key), None, ERASURE_INTERRUPTED.to_owned());
            return Ok(());
        }
        let mut head = Head::new(key);
        loop {
            let page = self.store.journal(key, head.next, PAGE_EVENTS).await?;
            if page.is_empty() {
                break;
            }
            for record in &page {
                if let Err(reason) = check_erased(&mut head, record) {
                    self.find(Some(key), Some(record.sequence), reason);
                    return Ok(());
                }
                self.report.events += 1;
            }
        }
        if head != counted {
            let what = format!("the journal ends here, and not as its columns say ({} events)", counted.next);
            self.find(Some(key), Some(head.next), what);
        }
        let found = self.store.beside(key, Expected::default()).await?;
        self.count(&found);
        if !found.tasks.is_empty() {
            self.find(Some(key), None, format!("it was erased, but has tasks: {:?}", found.tasks));
        }
        if !found.waits.is_empty() {
            self.find(Some(key), None, format!("it was erased, but has {} waiting turns", found.waits.len()));
        }
        if !found.interrupts.is_empty() {
            let count = found.interrupts.len();
            self.find(Some(key), None, format!("it was erased, but has {count} open interrupts"));
        }
        Ok(())
    }

    fn snapshot(&mut self, folded: &Folded, bytes: &[u8]) {
        if !folded.has_snapshot(bytes) {
            let what = "the snapshot behind this event differs from the journal".to_owned();
            self.find(Some(folded.run.key()), Some(folded.run.head().next - 1), what);
        }
    }

    fn columns(&mut self, key: Key, listed: &Listed, counted: Head, run: &Run) {
        let head = run.head();
        if head != counted {
            let what = format!("the journal ends here, and not as its columns say ({} events)", counted.next);
            return self.find(Some(key), Some(head.next), what);
        }
        if run.summary() != listed.summary || head.at != listed.at {
            let (told, folded) = (described(&listed.summary, listed.at), described(&run.summary(), head.at));
            self.find(Some(key), None, format!("the columns say {told}; the journal says {folded}"));
        }
        if listed.child != run.parent().is_some() {
            let what = "the columns and the journal differ about whether another run started it";
            self.find(Some(key), None, what.to_owned());
        }
        if listed.group != run.group().is_some() {
            let what = "the columns and the journal differ about whether it is a group";
            self.find(Some(key), None, what.to_owned());
        }
    }

    async fn beside(&mut self, key: Key, folded: &Folded) -> Result<(), Error> {
        let expected = folded.beside();
        let asked = Expected { timers: expected.timers.clone(), claim: expected.claim.clone() };
        let mut found = self.store.beside(key, asked).await?;
        self.count(&found);
        // What messages say may be sensitive, and a finding is read by anybody.
        let sent = std::mem::take(&mut found.sent);
        let found = Beside { tasks: sorted(found.tasks), work: sorted_work(found.work), ..found };
        if found != expected {
            self.find(
                Some(key),
                None,
                format!("beside the journal lies {found:?}, but it should be {expected:?}"),
            );
        }
        self.orders(key, folded, &sent);
        self.orphans(key, folded, &sent).await?;
        self.messages(key, folded, &sent).await?;
        self.questions(key, folded, &sent).await
    }

    fn count(&mut self, found: &Beside) {
        self.seen.timers += found.timers.len() as u64;
        self.seen.tasks += found.tasks.len() as u64;
        self.seen.heard += found.heard.len() as u64;
        self.seen.outbox += found.sent.len() as u64;
        self.seen.children += found.children.len() as u64;
        self.seen.claims += u64::from(found.claim.is_some());
        self.seen.interrupts += found.interrupts.len() as u64;
        self.seen.work += found.work.len() as u64;
        self.seen.waits += found.waits.len() as u64;
        self.seen.names += found.names.len() as u64;
        self.seen.dependencies += found.dependencies.len() as u64;
        self.seen.watchers += found.watchers.len() as u64;
        self.seen.members += found.members.len() as u64;
        self.seen.assignments += found.assignments.len() as u64;
    }

    /// What is asked of children goes to those that the journal asked for, and a cascade comes from an end.
    fn orders(&mut self, key: Key, folded: &Folded, sent: &[(RunId, Message)]) {
        for (to, message) in sent {
            let sound = match message {
                Message::Notice(_) => true,
                Message::Tidings(tidings) => tidings.from == key.id,
                Message::Watch(watch) => watch.from == key.id,
                Message::Order(_) => folded.children.contains_key(to),
                Message::Spawn(spawn) => spawn.child == *to && folded.children.contains_key(to),
                Message::Cascade(_) => {
                    let goes_along = folded.children.get(to).is_some_and(|(_, cascade)| *cascade);
                    goes_along && folded.run.status().is_terminal()
                }
            };
            if !sound {
                self.find(Some(key), None, format!("the outbox holds an order to {to} that was never given"));
            }
        }
    }

    /// A child that was asked for exists, or is still to be started, or went with its parent before it began.
    async fn orphans(&mut self, key: Key, folded: &Folded, sent: &[(RunId, Message)]) -> Result<(), Error> {
        let took_along = matches!(folded.run.status(), Status::Failed | Status::Cancelled);
        let asked = |child: &RunId| {
            sent.iter().any(|(to, message)| to == child && matches!(message, Message::Spawn(_)))
        };
        for (child, (_, cascade)) in &folded.children {
            let excused = *cascade && took_along || asked(child);
            if !excused && self.store.head(child.of(key.tenant)).await?.is_none() {
                self.find(Some(key), None, format!("the message that starts {child} was lost"));
            }
        }
        Ok(())
    }

    /// A message lies in the outbox until its receiver has recorded it, or a later one, or can't any more.
    async fn messages(&mut self, key: Key, folded: &Folded, sent: &[(RunId, Message)]) -> Result<(), Error> {
        let notices = || {
            sent.iter().filter_map(|(to, message)| match message {
                Message::Notice(notice) => Some((to, notice)),
                Message::Spawn(_)
                | Message::Cascade(_)
                | Message::Tidings(_)
                | Message::Watch(_)
                | Message::Order(_) => None,
            })
        };
        let parent = folded.run.parent();
        let is_due = |to: &RunId, notice: &Notice| {
            notice.from == key.id
                && folded.told.get(&notice.sequence) == Some(&(notice.lifecycle, notice.still))
                && parent.is_some_and(|parent| {
                    (parent.run, &parent.node, parent.execution.unwrap_or(0))
                        == (*to, &notice.node, notice.execution)
                })
        };
        if let Some((to, _)) = notices().find(|(to, notice)| !is_due(to, notice)) {
            let what = format!("the outbox holds a message to {to} that was never sent so");
            self.find(Some(key), None, what);
        }
        let (Some(parent), Some((&last, _))) = (parent, folded.told.last_key_value()) else { return Ok(()) };
        if notices().any(|(_, notice)| notice.sequence == last) {
            return Ok(());
        }
        let receiver = parent.run.of(key.tenant);
        let alive =
            self.store.head(receiver).await?.is_some_and(|listed| !listed.summary.status.is_terminal());
        let heard = self.store.heard(receiver, key.id).await?.is_some_and(|heard| heard >= last);
        if alive && !heard {
            self.find(Some(key), None, format!("the message to {} was lost", receiver.id));
        }
        Ok(())
    }

    /// Whoever waits for a run has told it so, or is about to: nobody would ever answer otherwise.
    async fn questions(&mut self, key: Key, folded: &Folded, sent: &[(RunId, Message)]) -> Result<(), Error> {
        if folded.run.status().is_terminal() {
            return Ok(());
        }
        let unanswered = folded.run.upstreams().iter().filter(|(_, upstream)| upstream.sequence.is_none());
        for run in unanswered.map(|(run, _)| *run).filter(|run| folded.dependencies.contains(run)) {
            let asks = |(to, said): &(RunId, Message)| *to == run && matches!(said, Message::Watch(_));
            if sent.iter().any(asks) || self.store.heard(run.of(key.tenant), key.id).await?.is_some() {
                continue;
            }
            // One that has ended answers without having heard anything.
            let listed = self.store.head(run.of(key.tenant)).await?;
            if listed.is_some_and(|listed| !listed.summary.status.is_terminal()) {
                self.find(Some(key), None, format!("the message to {run} was lost, for which it waits"));
            }
        }
        Ok(())
    }

    /// What no run accounts for.
    async fn totals(&mut self) -> Result<(), Error> {
        if !self.report.is_clean() {
            return Ok(());
        }
        let found = self.store.totals().await?;
        let seen = Totals { events: self.report.events, ..self.seen };
        if found != seen {
            self.find(
                None,
                None,
                format!("rows belong to no run: {found:?} are there, {seen:?} are accounted for"),
            );
        }
        Ok(())
    }

    fn find(&mut self, run: Option<Key>, sequence: Option<u64>, what: String) {
        self.report.found += 1;
        if self.report.findings.len() < FINDINGS_MAX {
            self.report.findings.push(Finding { run, sequence, what });
        }
    }
}

pub(crate) fn check_erased(head: &mut Head, record: &Record) -> Result<(), String> {
    match record.payload {
        Payload::Erased(_) => head.accept(record, None),
        Payload::Present(_) => Err("the salt is gone, but the payload is not".to_owned()),
    }
}

fn described(summary: &Summary, at: Millis) -> String {
    let hash = abide_core::hex(&summary.definition[..6]);
    let (status, workflow, started) = (summary.status.name(), &summary.workflow_id, summary.started_at);
    format!("{status}, workflow {workflow} ({hash}…), started {started}, last event {at}")
}
