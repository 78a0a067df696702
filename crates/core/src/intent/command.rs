//! What may be asked of an intent. A refused command changes nothing, also where others would have been carried out with it.

use super::record::Record;
use super::{Access, AccessEntry, Intent, Permission, Policy, RequestKind, SUSPENSION, patch};
use crate::command::Draft;
use crate::event::{IntentChanged, IntentPatched, Patch, PatchOp, RunEvent};
use crate::{Json, JsonMap, Millis, NodeIx, Rejection, Run, Status, limits};

/// Who asks: the agent that it names, and whose key it came with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// The agent.
    pub agent: String,
    /// Whose key it came with, if that is somebody else.
    pub principal: Option<String>,
}

/// Somebody who changes what an intent has to do with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// Who.
    pub actor: Actor,
    /// The version that they have seen.
    pub expected: u64,
}

/// Where somebody sends an intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IntentSent {
    /// It is being worked on.
    Active,
    /// It is not to be worked on for now.
    Blocked,
    /// It waits for people.
    Suspended,
    /// It is done.
    Completed,
    /// It will not be done.
    Abandoned,
}

/// What somebody does about a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseAct {
    /// To have a part to oneself.
    Acquire {
        /// Which part.
        scope: String,
        /// For how long.
        seconds: u32,
    },
    /// To have it for so long from now.
    Renew {
        /// Which lease.
        id: String,
        /// For how long.
        seconds: u32,
    },
    /// To have it no more.
    Release {
        /// Which lease.
        id: String,
    },
}

/// What may be asked of an intent.
#[derive(Clone, Debug, PartialEq)]
pub enum IntentCommand {
    /// Change its state.
    Patch {
        /// The version that whoever asks has seen.
        expected: u64,
        /// How, one after the other; all of it or nothing.
        patches: Vec<Patch>,
        /// Who asks.
        actor: Actor,
    },
    /// Send it somewhere else.
    Send {
        /// The version that whoever asks has seen.
        expected: u64,
        /// Where.
        to: IntentSent,
        /// Why.
        reason: Option<String>,
        /// Who asks.
        actor: Actor,
    },
    /// Have people asked, in one go.
    Suspend {
        /// What: the record of a suspension.
        record: Json,
        /// Why it does not go on, if that is said.
        reason: Option<String>,
        /// Who asks.
        actor: Actor,
    },
    /// Take back what people are asked, and go on.
    CancelSuspension {
        /// Which.
        id: String,
        /// Who asks.
        actor: Actor,
    },
    /// Have an agent work on it.
    Assign {
        /// Who.
        agent: String,
        /// As what.
        role: String,
        /// Who asks.
        actor: Actor,
    },
    /// Have an agent not work on it any more.
    Unassign {
        /// Who.
        agent: String,
        /// Who asks.
        actor: Actor,
    },
    /// Do something about a lease.
    Lease {
        /// What.
        act: LeaseAct,
        /// Who asks.
        actor: Actor,
    },
    /// Say what has to be kept to; nothing, if nothing has to be.
    Govern {
        /// The version that whoever asks has seen.
        expected: u64,
        /// The policy as it is written.
        policy: Option<Json>,
        /// Who asks.
        actor: Actor,
    },
    /// Say who may see it and work on it.
    SetAccess {
        /// Who.
        access: Box<Access>,
        /// Who asks.
        actor: Actor,
    },
    /// Say of one more who may.
    Grant {
        /// Who, and what; who says so is filled in, and its id if it has none. Under an id that is there nothing is granted
        /// again.
        entry: Box<AccessEntry>,
        /// Who asks.
        actor: Actor,
    },
    /// Say of somebody that they may not.
    Revoke {
        /// Which entry.
        id: String,
        /// Who asks.
        actor: Actor,
    },
    /// Ask people for something beside it.
    Request {
        /// What for.
        kind: RequestKind,
        /// What, as it was written.
        asked: JsonMap,
        /// Who asks.
        actor: Actor,
    },
}

impl Actor {
    /// An agent under its own name.
    pub fn of(agent: &str) -> Self {
        Self { agent: agent.to_owned(), principal: None }
    }

    /// The names that people know.
    pub(super) fn names(&self) -> Vec<String> {
        let principal = self.principal.clone().filter(|principal| *principal != self.agent);
        [Some(self.agent.clone()), principal].into_iter().flatten().collect()
    }

    fn check(&self) -> Result<(), Rejection> {
        check_agent(&self.agent)
    }
}

fn check_agent(agent: &str) -> Result<(), Rejection> {
    let chars = agent.chars().count();
    if (1..=limits::AGENT_NAME_CHARS_MAX).contains(&chars) && !agent.chars().any(char::is_control) {
        return Ok(());
    }
    let most = limits::AGENT_NAME_CHARS_MAX;
    let message = format!("an agent's name has 1 to {most} characters, and no control characters");
    Err(Rejection::invalid("agent_id", message))
}

impl IntentCommand {
    fn actor(&self) -> &Actor {
        match self {
            Self::Patch { actor, .. }
            | Self::Send { actor, .. }
            | Self::Suspend { actor, .. }
            | Self::CancelSuspension { actor, .. }
            | Self::Assign { actor, .. }
            | Self::Unassign { actor, .. }
            | Self::Lease { actor, .. }
            | Self::Govern { actor, .. }
            | Self::SetAccess { actor, .. }
            | Self::Grant { actor, .. }
            | Self::Revoke { actor, .. }
            | Self::Request { actor, .. } => actor,
        }
    }

    /// What whoever asks has to be allowed for it.
    fn needs(&self) -> Permission {
        match self {
            Self::SetAccess { .. } | Self::Grant { .. } | Self::Revoke { .. } | Self::Govern { .. } => {
                Permission::Admin
            }
            _ => Permission::Write,
        }
    }
}

/// What a decision does.
impl Run {
    pub(crate) fn decide_intent(
        &mut self,
        draft: &mut Draft,
        command: IntentCommand,
    ) -> Result<(), Rejection> {
        if self.state.group.is_some() {
            return Err(Rejection::invalid("intent_id", "this is a portfolio; name one of its members"));
        }
        command.actor().check()?;
        self.check_permits(&command.actor().agent, command.needs(), draft.now)?;
        match command {
            IntentCommand::Patch { expected, patches, actor } => {
                self.check_version(expected)?;
                self.check_may_write(&actor.agent)?;
                self.patch_state(draft, patches, &actor)
            }
            IntentCommand::Send { expected, to, reason, actor } => {
                self.check_version(expected)?;
                self.send(draft, to, reason, &actor)
            }
            IntentCommand::Suspend { record, reason, actor } => {
                self.suspend_with(draft, &record, reason, &actor)
            }
            IntentCommand::CancelSuspension { id, actor } => self.cancel_suspension(draft, &id, &actor),
            IntentCommand::Assign { agent, role, actor } => self.assign(draft, agent, role, &actor),
            IntentCommand::Unassign { agent, actor } => self.unassign(draft, agent, &actor),
            IntentCommand::Lease { act, actor } => match act {
                LeaseAct::Acquire { scope, seconds } => {
                    check_seconds(seconds)?;
                    self.acquire_lease(draft, &actor, scope, seconds)
                }
                LeaseAct::Renew { id, seconds } => {
                    check_seconds(seconds)?;
                    self.renew_lease(draft, &actor, id, seconds)
                }
                LeaseAct::Release { id } => self.release_lease(draft, &actor, id),
            },
            IntentCommand::Govern { expected, policy, actor } => {
                self.check_running()?;
                self.check_version(expected)?;
                self.check_may_govern(&actor.agent, draft.now)?;
                let policy = policy.as_ref().map(Policy::read).transpose()?.map(Box::new);
                self.emit_intent(draft, IntentChanged::PolicySet(policy), &actor);
                Ok(())
            }
            IntentCommand::SetAccess { access, actor } => self.set_access(draft, *access, &actor),
            IntentCommand::Grant { entry, actor } => self.let_in(draft, *entry, &actor),
            IntentCommand::Revoke { id, actor } => self.shut_out(draft, id, &actor),
            IntentCommand::Request { kind, asked, actor } => {
                self.check_may_write(&actor.agent)?;
                self.ask_beside(draft, &actor, kind, &asked)
            }
        }
    }

    /// Lets somebody in, unless that is done already: whoever has an id for it may say it again.
    fn let_in(&mut self, draft: &mut Draft, mut entry: AccessEntry, actor: &Actor) -> Result<(), Rejection> {
        let mut access = self.access_now();
        if !entry.id.is_empty() {
            if access.entries.iter().any(|known| known.id == entry.id) {
                return Ok(());
            }
            (entry.granted_by, entry.granted_at) = (actor.agent.clone(), draft.now);
        }
        access.entries.push(entry);
        self.set_access(draft, access, actor)
    }

    fn shut_out(&mut self, draft: &mut Draft, id: String, actor: &Actor) -> Result<(), Rejection> {
        let mut access = self.access_now();
        let before = access.entries.len();
        access.entries.retain(|entry| entry.id != id);
        if access.entries.len() == before {
            return Err(Rejection::NoAccessEntry(id));
        }
        self.set_access(draft, access, actor)
    }

    /// Refuses somebody who may not change it, or has seen another version.
    pub(crate) fn check_driver(&self, draft: &Draft, driver: Option<&Driver>) -> Result<(), Rejection> {
        let Some(Driver { actor, expected }) = driver else { return Ok(()) };
        self.check_asking(actor, draft.now)?;
        self.check_version(*expected)
    }

    /// Refuses somebody who has no name, or may not work on it.
    pub(crate) fn check_asking(&self, actor: &Actor, now: Millis) -> Result<(), Rejection> {
        actor.check()?;
        self.check_works(&actor.agent, now)
    }

    /// Refuses agents that may not work on it.
    pub fn check_works(&self, agent: &str, now: Millis) -> Result<(), Rejection> {
        self.check_permits(agent, Permission::Write, now)?;
        self.check_may_write(agent)
    }

    /// Refuses whoever has seen another version.
    fn check_version(&self, expected: u64) -> Result<(), Rejection> {
        let found = self.intent_version();
        if expected == found { Ok(()) } else { Err(Rejection::VersionConflict { expected, found }) }
    }

    /// The node of a run that somebody drives, which has not ended.
    pub(super) fn check_driven(&self) -> Result<NodeIx, Rejection> {
        self.check_running()?;
        self.driven_node().ok_or(Rejection::NotDriven)
    }

    fn access_now(&self) -> Access {
        self.intent().and_then(|intent| intent.access.as_deref()).cloned().unwrap_or_default()
    }

    fn set_access(&mut self, draft: &mut Draft, mut access: Access, actor: &Actor) -> Result<(), Rejection> {
        self.check_running()?;
        access.check()?;
        for (at, entry) in access.entries.iter_mut().enumerate().filter(|(_, entry)| entry.id.is_empty()) {
            entry.id = format!("{}-{at}", crate::planning::minted("acl-", &self.salt, self.head.next));
            (entry.granted_by, entry.granted_at) = (actor.agent.clone(), draft.now);
        }
        self.emit_intent(draft, IntentChanged::AccessSet(Box::new(access)), actor);
        self.release_leases_of_outsiders(draft, actor);
        Ok(())
    }

    fn assign(
        &mut self,
        draft: &mut Draft,
        agent: String,
        role: String,
        actor: &Actor,
    ) -> Result<(), Rejection> {
        self.check_running()?;
        check_agent(&agent)?;
        check_agent(&role)?;
        self.check_allowed(&agent)?;
        let agents = self.intent().map(|intent| &intent.agents);
        // Whoever assigns somebody twice has what they want.
        if agents.is_some_and(|agents| agents.get(&agent).is_some_and(|assigned| assigned.role == role)) {
            return Ok(());
        }
        if agents.is_some_and(|agents| agents.len() >= limits::AGENTS_ASSIGNED_MAX) {
            let message = format!("at most {} agents are assigned to an intent", limits::AGENTS_ASSIGNED_MAX);
            return Err(Rejection::invalid("agent_id", message));
        }
        self.emit_intent(draft, IntentChanged::Assigned { agent, role }, actor);
        Ok(())
    }

    fn unassign(&mut self, draft: &mut Draft, agent: String, actor: &Actor) -> Result<(), Rejection> {
        self.check_running()?;
        // Whoever made it has others work on it, and nobody has to stay.
        if actor.agent != agent && !self.is_maker(&actor.agent) {
            self.check_may_write(&actor.agent)?;
        }
        let known = self.intent().is_some_and(|intent| intent.agents.contains_key(&agent));
        if !known {
            return Err(Rejection::NotAssigned(agent));
        }
        self.emit_intent(draft, IntentChanged::Unassigned { agent }, actor);
        Ok(())
    }

    fn patch_state(
        &mut self,
        draft: &mut Draft,
        patches: Vec<Patch>,
        actor: &Actor,
    ) -> Result<(), Rejection> {
        self.check_driven()?;
        if !(1..=limits::PATCHES_MAX).contains(&patches.len()) {
            let message = format!("'patches' is a list of 1 to {} changes", limits::PATCHES_MAX);
            return Err(Rejection::invalid("patches", message));
        }
        let before = self.intent_state();
        patches.iter().enumerate().try_for_each(|(at, change)| patch::check(change, at))?;
        let after = patch::apply(before.clone(), &patches)
            .map_err(|(at, message)| Rejection::invalid(format!("patches.{at}.path"), message))?;
        let bytes = patch::bytes_of(&after);
        // An answer may have made it larger than that: whoever makes it smaller does well.
        if bytes > limits::STATE_BYTES_MAX.max(patch::bytes_of(&before)) {
            let message =
                format!("the state would have {bytes} bytes, and {} are allowed", limits::STATE_BYTES_MAX);
            return Err(Rejection::invalid("patches", message));
        }
        let record = self.check_record(before.get(SUSPENSION), after.get(SUSPENSION))?;
        let patched = IntentPatched { patches, by: Some(actor.agent.clone()) };
        self.record_patched(draft, patched, record)
    }

    /// Records a change of the state, and has people asked what it says if they are asked already. What can't be asked is
    /// not recorded either.
    fn record_patched(
        &mut self,
        draft: &mut Draft,
        patched: IntentPatched,
        record: Option<Record>,
    ) -> Result<(), Rejection> {
        let open = self.intent().and_then(|intent| {
            let asked = intent.asked.as_ref().filter(|asked| !asked.closed)?;
            asked.interrupt.filter(|id| self.state.open.contains_key(id))
        });
        if let (Some(id), Some(record)) = (open, &record) {
            self.check_in_time(&self.state.open[&id], draft.now)?;
            self.foresee_amended(id, record, draft)?;
        }
        draft.emit_run(self, RunEvent::IntentPatched(Box::new(patched)), None);
        if let (Some(id), Some(record)) = (open, record) {
            self.amend_suspension(draft, id, &record)?;
        }
        Ok(())
    }

    /// Refuses a record that could not be asked in place of what is asked.
    fn foresee_amended(
        &self,
        id: crate::InterruptId,
        record: &Record,
        draft: &Draft,
    ) -> Result<(), Rejection> {
        let mut run = self.clone();
        let mut probe = Draft::new(run.head, draft.now, draft.defaults.clone());
        run.amend_suspension(&mut probe, id, record)
    }

    /// Has people asked what a record says, whatever stood there before, in one decision.
    fn suspend_with(
        &mut self,
        draft: &mut Draft,
        record: &Json,
        reason: Option<String>,
        actor: &Actor,
    ) -> Result<(), Rejection> {
        self.check_driven()?;
        self.check_may_write(&actor.agent)?;
        if let Some(open) = self.suspended_for() {
            return Err(Rejection::OtherSuspension {
                expected: self.suspension_id(open),
                found: String::new(),
            });
        }
        let mut probe = self.clone();
        let mut tried = Draft::new(self.head, draft.now, draft.defaults.clone());
        probe.put_and_suspend(&mut tried, record, reason.clone(), actor)?;
        self.put_and_suspend(draft, record, reason, actor)
    }

    fn put_and_suspend(
        &mut self,
        draft: &mut Draft,
        record: &Json,
        reason: Option<String>,
        actor: &Actor,
    ) -> Result<(), Rejection> {
        let patch = Patch { op: PatchOp::Set, path: SUSPENSION.to_owned(), value: Some(record.clone()) };
        self.patch_state(draft, vec![patch], actor)?;
        let pending = self.intent().and_then(Intent::pending_record).is_some();
        if !pending {
            let message = "the suspension of this id is over; give the next one an id of its own".to_owned();
            return Err(Rejection::invalid("_suspension.id", message));
        }
        self.send(draft, IntentSent::Suspended, reason, actor)
    }
}

fn check_seconds(seconds: u32) -> Result<(), Rejection> {
    if (1..=limits::LEASE_SECONDS_MAX).contains(&seconds) {
        return Ok(());
    }
    let message = format!("'duration_seconds' is a whole number from 1 to {}", limits::LEASE_SECONDS_MAX);
    Err(Rejection::invalid("duration_seconds", message))
}

impl IntentSent {
    /// Every place, for tables and tests.
    pub const ALL: [Self; 5] =
        [Self::Active, Self::Blocked, Self::Suspended, Self::Completed, Self::Abandoned];

    /// Its name in OpenIntent's words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => Status::Running.intent_name(),
            Self::Blocked => Status::Blocked.intent_name(),
            Self::Suspended => Status::WaitingInput.intent_name(),
            Self::Completed => Status::Completed.intent_name(),
            Self::Abandoned => Status::Cancelled.intent_name(),
        }
    }

    /// The place with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|sent| sent.name() == name)
    }
}
