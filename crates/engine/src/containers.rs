//! Runs that wait for others, and groups of runs: what is asked of them, and the messages between them.

use abide_core::{
    BondCommand, Command, DependsOn, Driver, Governance, GovernanceSet, GroupCommand, GroupSpec, JsonMap,
    Key, MemberAdded, MemberRow, Millis, Order, Rejection, Role, Run, RunId, STATE, Salt, Start, Status,
    TenantId, Tidings, TimerId, Watch,
};
use abide_store::{Containers, Hint, Lane, Listed, MessageRef, NewRecord, Recorded};
use futures_util::future::BoxFuture;

use crate::clock::new_id;
use crate::outbox::Delivered;
use crate::shell::{Basis, Shell};
use crate::{Engine, Error, Reply, limits};

/// A run that is to belong to a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMember {
    /// Which run.
    pub run: RunId,
    /// What it is to the group.
    pub role: Role,
    /// The higher, the more it matters.
    pub priority: i32,
}

impl Engine {
    /// What is read of runs that wait for others, and of groups.
    pub fn containers(&self) -> &dyn Containers {
        self.shell.store.containers()
    }

    /// What is kept beside runs and groups and decides nothing.
    pub fn records(&self) -> &dyn abide_store::Records {
        self.shell.store.records()
    }

    /// Keeps a record beside a run or a group, and tells whoever listens to that.
    pub async fn keep(&self, record: NewRecord) -> Result<Recorded, Error> {
        self.check_open()?;
        let key = record.key;
        let kept = self.records().add(record).await?;
        if matches!(kept, Recorded::Done { .. }) {
            self.shell.watchers.tell_of_record(key);
            self.shell.tell_peers(Hint::Record(key));
        }
        Ok(kept)
    }

    /// Makes a group and answers as `reply` says.
    pub async fn make_group(
        &self,
        tenant: TenantId,
        spec: GroupSpec,
        by: Option<String>,
        reply: Reply,
    ) -> Result<Vec<u8>, Error> {
        self.check_open()?;
        let key = RunId(new_id(&*self.shell.store, &*self.shell.clock)).of(tenant);
        let salt: Salt = *uuid::Uuid::new_v4().as_bytes();
        let start = Start { by, ..Start::group(key, salt, spec) };
        let basis = Basis { reply: Some(reply.clone()), ..Basis::default() };
        self.shell.start(start, basis, |run| reply.body(run)).await
    }

    /// Has a run belong to a group.
    pub async fn add_member(
        &self,
        group: Key,
        new: NewMember,
        by: Option<String>,
        reply: Reply,
    ) -> Result<Vec<u8>, Error> {
        let member = self.known(new.run.of(group.tenant)).await?;
        if member.group {
            return Err(invalid("runId", "a group can't belong to a group"));
        }
        self.check_followed(new.run.of(group.tenant), &member).await?;
        if member.summary.status.is_terminal() && member.erased {
            return Err(Error::Erased(new.run));
        }
        let added = MemberAdded {
            run: new.run,
            role: new.role,
            priority: new.priority,
            status: member.summary.status,
            sequence: member.next.saturating_sub(1),
            by,
        };
        let most = limits::GROUPS_OF_RUN_MAX;
        if self.containers().groups_of(new.run.of(group.tenant), most).await?.len() >= most {
            return Err(invalid("runId", &format!("the run belongs to {most} groups, and to more it can't")));
        }
        let command = |known| GroupCommand::Add { member: added.clone(), known };
        self.about_member(group, new.run, command, reply).await
    }

    /// Has a run not belong to a group any more.
    pub async fn remove_member(
        &self,
        group: Key,
        run: RunId,
        by: Option<String>,
        reply: Reply,
    ) -> Result<Vec<u8>, Error> {
        let command = |known| GroupCommand::Remove { run, known, by: by.clone() };
        self.about_member(group, run, command, reply).await
    }

    /// Has other things hold for the members of a group: in place of what holds in this version, if one is given.
    pub async fn govern(
        &self,
        group: Key,
        (governance, version): (Governance, Option<u64>),
        by: Option<String>,
        reply: Reply,
    ) -> Result<Vec<u8>, Error> {
        let command = GroupCommand::Govern { set: GovernanceSet { governance, by }, version };
        self.ask_for(group, &Command::Group(Box::new(command)), reply).await
    }

    /// Closes a group: it is done with.
    pub async fn close_group(&self, group: Key, reply: Reply) -> Result<Vec<u8>, Error> {
        self.ask_for(group, &Command::Group(Box::new(GroupCommand::Close)), reply).await
    }

    /// Asks a group about a member, with what is known of it. Whatever changed meanwhile is looked at again.
    async fn about_member(
        &self,
        group: Key,
        run: RunId,
        command: impl Fn(Option<MemberRow>) -> GroupCommand,
        reply: Reply,
    ) -> Result<Vec<u8>, Error> {
        let _alone = self.shell.members.alone_about(run).await;
        for _ in 0..limits::DECIDE_ATTEMPTS_MAX {
            let known = self.containers().member(group, run).await?;
            let command = Command::Group(Box::new(command(known)));
            match self.ask_for(group, &command, reply.clone()).await {
                // What is known may be behind what the group has decided already.
                Err(Error::Store(abide_store::Error::Raced) | Error::Rejected(Rejection::HeardBefore)) => {}
                other => return other,
            }
        }
        Err(Error::Contended)
    }

    /// Has a run that is there wait for another one, too. Edges that close a circle are refused, whoever adds them where.
    pub async fn add_dependency(
        &self,
        key: Key,
        on: RunId,
        by: Option<String>,
        driver: Option<Driver>,
        reply: Reply,
    ) -> Result<Vec<u8>, Error> {
        self.check_open()?;
        self.known(key).await?;
        let _alone = self.shell.circles.alone(key.tenant).await;
        for _ in 0..limits::DECIDE_ATTEMPTS_MAX {
            let circle = self.containers().circle_version(key.tenant).await?;
            let dependency = self.upstream(key.tenant, on).await?;
            if on != key.id && self.containers().waits_for(on.of(key.tenant), key.id).await? {
                return Err(Error::Circle { run: key.id, on });
            }
            let command = BondCommand::Depend { on: dependency, by: by.clone(), driver: driver.clone() };
            let basis = Basis { reply: Some(reply.clone()), circle: Some(circle), ..Basis::default() };
            let command = Command::Bond(Box::new(command));
            let decided = self.shell.decide(key, &command, Lane::Interactive, basis, |run| reply.body(run));
            match decided.await {
                Err(Error::Store(abide_store::Error::Raced)) => {}
                other => return other,
            }
        }
        Err(Error::Contended)
    }

    /// Has a run not wait for another one any more.
    pub async fn remove_dependency(
        &self,
        key: Key,
        on: RunId,
        by: Option<String>,
        driver: Option<Driver>,
        reply: Reply,
    ) -> Result<Vec<u8>, Error> {
        let command = BondCommand::Independ { run: on, by, driver };
        self.ask_for(key, &Command::Bond(Box::new(command)), reply).await
    }

    /// The runs that a new run is to wait for, as they stand.
    pub(crate) async fn upstreams(&self, tenant: TenantId, runs: &[RunId]) -> Result<Vec<DependsOn>, Error> {
        if runs.len() > abide_core::limits::DEPENDENCIES_MAX {
            let most = abide_core::limits::DEPENDENCIES_MAX;
            return Err(invalid("dependsOn", &format!("a run waits for at most {most} others")));
        }
        let mut upstreams = Vec::with_capacity(runs.len());
        for run in runs {
            upstreams.push(self.upstream(tenant, *run).await?);
        }
        Ok(upstreams)
    }

    /// The same with the names that the state of an intent gives them by their titles: what an intent takes in comes from
    /// whoever has such a name.
    pub(crate) async fn named(
        &self,
        tenant: TenantId,
        mut upstreams: Vec<DependsOn>,
        inputs: &JsonMap,
    ) -> Result<Vec<DependsOn>, Error> {
        let state = inputs.get(STATE).and_then(|state| state.parse().ok()).unwrap_or_default();
        let names = Run::upstream_names(&state);
        if names.is_empty() {
            return Ok(upstreams);
        }
        for upstream in &mut upstreams {
            let title = self.shell.read(upstream.run.of(tenant), Run::intent_title).await?;
            upstream.name = names.get(&title).cloned();
        }
        Ok(upstreams)
    }

    async fn upstream(&self, tenant: TenantId, run: RunId) -> Result<DependsOn, Error> {
        let listed = self.shell.store.head(run.of(tenant)).await?;
        let listed = listed.filter(|listed| !listed.group).ok_or(Error::DependencyNotFound(run))?;
        self.check_followed(run.of(tenant), &listed).await?;
        Ok(DependsOn { run, name: None, status: Some(listed.summary.status) })
    }

    /// Refuses a replay: it tells nobody how it stands.
    async fn check_followed(&self, key: Key, listed: &Listed) -> Result<(), Error> {
        let replay = !listed.erased && self.shell.read(key, Run::is_replay).await?;
        if replay { Err(Error::Rejected(Rejection::Replay)) } else { Ok(()) }
    }

    async fn known(&self, key: Key) -> Result<Listed, Error> {
        self.shell.store.head(key).await?.ok_or(Error::RunNotFound(key.id))
    }
}

fn invalid(field: &str, message: &str) -> Error {
    Error::Rejected(Rejection::Invalid { field: field.to_owned(), message: message.to_owned() })
}

/// Somebody wants to hear how a run stands. One that has ended says so at once, and one that is not there never will be.
pub(crate) async fn watch(shell: &std::sync::Arc<Shell>, at: MessageRef, watch: Watch) -> Delivered {
    let receiver = at.receiver.of(at.sender.tenant);
    let Ok(heard) = shell.store.heard(receiver, at.sender.id).await else { return Delivered::Not };
    let watching = watch.watching;
    let command = Command::Bond(Box::new(BondCommand::Watch { watch, heard }));
    let basis = Basis { consumed: vec![at], ..Basis::default() };
    let tidings = match shell.decide(receiver, &command, Lane::Background, basis, |_| ()).await {
        Ok(()) => return Delivered::Recorded,
        Err(Error::Rejected(Rejection::HeardBefore) | Error::Store(abide_store::Error::Delivered)) => {
            return Delivered::Moot;
        }
        // Nobody has to be told any more that nobody wants to hear.
        Err(
            Error::RunNotFound(_)
            | Error::Rejected(Rejection::Ended(_) | Rejection::Replay)
            | Error::Erased(_),
        ) if !watching => {
            return Delivered::Moot;
        }
        Err(Error::RunNotFound(_)) => match is_to_come(shell, at.sender, receiver).await {
            Ok(false) => Tidings::of_nobody(at.receiver),
            _ => return Delivered::Not,
        },
        Err(Error::Rejected(Rejection::Ended(_) | Rejection::Replay) | Error::Erased(_)) => {
            match last_word(shell, receiver).await {
                Ok(tidings) => tidings,
                Err(_) => return Delivered::Not,
            }
        }
        Err(error) => {
            tracing::warn!(run = %receiver.id, %error, "a message could not be delivered yet");
            return Delivered::Not;
        }
    };
    hear(shell, at.sender, at, tidings).await
}

/// Whether a run that is not there will be: whoever speaks of it has asked for it, or was asked for by the same run. The
/// message that starts it may come later than one to it from somebody else.
async fn is_to_come(shell: &Shell, speaker: Key, run: Key) -> Result<bool, Error> {
    let parent = absent_or(shell.read(speaker, |run| run.parent().map(|parent| parent.run)).await, None)?;
    for asker in parent.into_iter().chain([speaker.id]) {
        let asker = asker.of(run.tenant);
        let Some(goes_along) = shell.store.containers().asked_for(asker, run.id).await? else { continue };
        let listed = shell.store.head(asker).await?;
        let taken = listed.is_none_or(|listed| crate::outbox::takes_along(listed.summary.status));
        if !(goes_along && taken) {
            return Ok(true);
        }
    }
    // It may have begun and ended while this was looked at.
    Ok(shell.store.head(run).await?.is_some())
}

/// What was read of a run, or what stands for it if there is nothing to be read any more.
fn absent_or<T>(read: Result<T, Error>, otherwise: T) -> Result<T, Error> {
    match read {
        Err(Error::RunNotFound(_) | Error::Erased(_)) => Ok(otherwise),
        other => other,
    }
}

/// A run that coordinates another holds it back, or does not any more. One that has not started yet is told when it has.
pub(crate) async fn obey(shell: &std::sync::Arc<Shell>, at: MessageRef, order: Order) -> Delivered {
    let receiver = at.receiver.of(at.sender.tenant);
    match shell.store.head(receiver).await {
        Ok(Some(_)) => {}
        Ok(None) if matches!(is_to_come(shell, at.sender, receiver).await, Ok(false)) => {
            return Delivered::Moot;
        }
        _ => return Delivered::Not,
    }
    let command = BondCommand::Order { from: at.sender.id, order, sequence: at.sequence };
    crate::outbox::tell(shell, receiver, Command::Bond(Box::new(command)), at).await
}

/// How a run stands that has ended.
async fn last_word(shell: &Shell, key: Key) -> Result<Tidings, Error> {
    match shell.read(key, Run::tidings).await {
        Err(Error::Erased(_)) => {
            let listed = shell.store.head(key).await?;
            Ok(listed.map_or_else(
                || Tidings::of_nobody(key.id),
                |listed| Tidings::of_columns(key.id, listed.next.saturating_sub(1), listed.summary.status),
            ))
        }
        other => other,
    }
}

/// A run tells somebody who watches it how it stands.
pub(crate) async fn hear(
    shell: &std::sync::Arc<Shell>,
    receiver: Key,
    at: MessageRef,
    tidings: Tidings,
) -> Delivered {
    for _ in 0..limits::DECIDE_ATTEMPTS_MAX {
        let Ok(known) = shell.store.containers().member(receiver, tidings.from).await else {
            return Delivered::Not;
        };
        let news =
            known.as_ref().is_some_and(|known| known.heard < tidings.sequence && !known.status.is_terminal());
        let command = Command::Bond(Box::new(BondCommand::Hear { tidings: tidings.clone(), known }));
        match crate::outbox::tell(shell, receiver, command, at).await {
            Delivered::Raced => {}
            // The group has decided something about the member that was not on disk yet when this was read, or is over.
            Delivered::Moot if news && is_open(shell, receiver).await => {}
            delivered => return delivered,
        }
    }
    Delivered::Not
}

/// Whether a run has not ended, as far as can be said.
async fn is_open(shell: &Shell, key: Key) -> bool {
    match shell.store.head(key).await {
        Ok(listed) => listed.is_some_and(|listed| !listed.summary.status.is_terminal()),
        Err(_) => true,
    }
}

/// Lets those take turns who have runs of one tenant wait for others, or say something about one member: of several at
/// once, the store would take one and send the others back to look again. Servers that share a store meet there all the same.
#[derive(Default)]
pub(crate) struct Circles([tokio::sync::Mutex<()>; 16]);

impl Circles {
    /// Waits for a turn, which lasts until this is dropped.
    pub(crate) async fn alone(&self, tenant: TenantId) -> tokio::sync::MutexGuard<'_, ()> {
        let at = usize::try_from(tenant.0).unwrap_or_default() % self.0.len();
        self.0[at].lock().await
    }

    /// The same of one run as a member of whatever group.
    async fn alone_about(&self, run: RunId) -> tokio::sync::MutexGuard<'_, ()> {
        let at = usize::from(run.as_bytes()[15]) % self.0.len();
        self.0[at].lock().await
    }
}

impl Shell {
    /// What a group said before its deadline holds, however late it is heard. So before a run goes by deadlines that have
    /// passed it hears what those groups have to say, if they say otherwise by now.
    pub(crate) fn hear_groups<'a>(
        self: &'a std::sync::Arc<Self>,
        run: Key,
        passed: Vec<(RunId, Millis)>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            for (group, deadline) in passed {
                let group = group.of(run.tenant);
                if !self.still_says(group, run.id, deadline).await? {
                    let words = self.store.containers().words(group, run.id).await?;
                    crate::outbox::deliver_now(self, words).await?;
                }
            }
            Ok(())
        })
    }

    /// Whether a run is a member of a group with this deadline.
    async fn still_says(&self, group: Key, run: RunId, deadline: Millis) -> Result<bool, Error> {
        let says = |group: &Run| {
            let governance = group.group().map(|group| &group.spec.governance);
            !group.lifecycle().is_terminal() && governance.and_then(|it| it.deadline) == Some(deadline)
        };
        let says = absent_or(self.read(group, says).await, false)?;
        Ok(says && self.store.containers().member(group, run).await?.is_some())
    }

    /// Somebody answered after the deadline of a group. Whatever that means for the run happens now, however late its timer
    /// is.
    pub(crate) async fn abandon_late(self: &std::sync::Arc<Self>, key: Key) {
        let fired = Command::Fire(TimerId::Deadline);
        let decided = self.decide(key, &fired, Lane::Interactive, Basis::default(), Run::status);
        let decided: Result<Status, Error> = Box::pin(decided).await;
        match decided {
            Ok(_) | Err(Error::Rejected(_)) => {}
            Err(error) => {
                tracing::warn!(run = %key.id, %error, "a run past its deadline was not abandoned yet");
            }
        }
    }
}
