//! Who has the lease: registering, being there, handing over, and being missed.

use crate::command::Draft;
use crate::coordinator::{Coordinator, CoordinatorStatus, SuspensionPolicy};
use crate::event::{
    CoordinatorChange, CoordinatorChanged, CoordinatorPaused, CoordinatorRegistered, FailedOver, PolicySet,
    Replaced, RunEvent,
};
use crate::{Millis, Rejection, Run, hex, limits, sha256};

/// What may be asked about the leases of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum CoordinatorCommand {
    /// To coordinate the run. Its id is that of the lease which is held then.
    Register(Registration),
    /// To say that one is there.
    Heartbeat {
        /// Which lease.
        id: String,
    },
    /// To have something else done about what is suspended.
    SetPolicy {
        /// Which lease.
        id: String,
        /// What, by its name.
        suspension_policy: String,
    },
    /// To do nothing for now.
    Pause {
        /// Which lease.
        id: String,
        /// Why.
        reason: Option<String>,
    },
    /// To be there again.
    Resume {
        /// Which lease.
        id: String,
    },
    /// To be done.
    Complete {
        /// Which lease.
        id: String,
    },
    /// To take somebody's place.
    TakeOver {
        /// Which lease.
        id: String,
        /// Who does.
        agent: String,
    },
}

/// Somebody wants to coordinate a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Registration {
    /// Who.
    pub agent: String,
    /// Who is to look after it if they are not heard from.
    pub supervisor: Option<String>,
    /// What is done about what is suspended, by its name; nothing if it is missing.
    pub suspension_policy: Option<String>,
    /// How often they say that they are there.
    pub heartbeat_interval_ms: Option<Millis>,
    /// Until when at the latest.
    pub expires_at: Option<Millis>,
}

impl Run {
    pub(crate) fn decide_coordinator(
        &mut self,
        draft: &mut Draft,
        command: CoordinatorCommand,
    ) -> Result<(), Rejection> {
        self.check_running()?;
        match command {
            CoordinatorCommand::Register(asked) => self.register(draft, asked),
            CoordinatorCommand::Heartbeat { id } => {
                let lease = self.check_lease(&id, draft.now)?;
                match lease.status {
                    CoordinatorStatus::Unresponsive => {
                        self.tell_lease(draft, id, CoordinatorChange::Resumed {});
                    }
                    _ if is_noise(lease, draft.now) => {}
                    _ => self.tell_lease(draft, id, CoordinatorChange::Heartbeat {}),
                }
                Ok(())
            }
            CoordinatorCommand::SetPolicy { id, suspension_policy } => {
                let suspension_policy = read_policy(&suspension_policy)?;
                if self.check_lease(&id, draft.now)?.suspension_policy != suspension_policy {
                    let set = PolicySet { suspension_policy };
                    self.tell_lease(draft, id, CoordinatorChange::PolicySet(set));
                }
                Ok(())
            }
            CoordinatorCommand::Pause { id, reason } => {
                crate::command::check_reason(reason.as_ref())?;
                self.check_status(&id, draft.now, |status| status != CoordinatorStatus::Paused)?;
                self.tell_lease(draft, id, CoordinatorChange::Paused(CoordinatorPaused { reason }));
                Ok(())
            }
            CoordinatorCommand::Resume { id } => {
                self.check_status(&id, draft.now, |status| status != CoordinatorStatus::Active)?;
                self.tell_lease(draft, id, CoordinatorChange::Resumed {});
                Ok(())
            }
            CoordinatorCommand::Complete { id } => {
                self.check_lease(&id, draft.now)?;
                self.tell_lease(draft, id, CoordinatorChange::Completed {});
                Ok(())
            }
            CoordinatorCommand::TakeOver { id, agent } => self.take_over(draft, id, agent),
        }
    }

    fn register(&mut self, draft: &mut Draft, asked: Registration) -> Result<(), Rejection> {
        check_agent("agent", &asked.agent)?;
        asked.supervisor.as_ref().map_or(Ok(()), |supervisor| check_agent("supervisor", supervisor))?;
        let policy = asked.suspension_policy.as_deref().map(read_policy).transpose()?;
        let heartbeat_interval_ms =
            asked.heartbeat_interval_ms.unwrap_or(limits::HEARTBEAT_INTERVAL_MS_DEFAULT);
        let (least, most) = (limits::HEARTBEAT_INTERVAL_MS_MIN, limits::HEARTBEAT_INTERVAL_MS_MAX);
        if !(least..=most).contains(&heartbeat_interval_ms) {
            let message = format!("'heartbeatIntervalMs' is a whole number from {least} to {most}");
            return Err(Rejection::invalid("heartbeatIntervalMs", message));
        }
        if asked.expires_at.is_some_and(|end| end <= draft.now) {
            return Err(Rejection::invalid(
                "expiresAt",
                "'expiresAt' is a time to come; leave it out for none",
            ));
        }
        self.give_up_expired(draft);
        self.check_free(None)?;
        let registered = CoordinatorRegistered {
            agent: asked.agent,
            supervisor: asked.supervisor,
            suspension_policy: policy.unwrap_or_default(),
            heartbeat_interval_ms,
            expires_at: asked.expires_at,
        };
        let id = self.lease_id();
        self.tell_lease(draft, id, CoordinatorChange::Registered(registered));
        Ok(())
    }

    fn take_over(&mut self, draft: &mut Draft, id: String, agent: String) -> Result<(), Rejection> {
        check_agent("agent", &agent)?;
        let lease = self.coordinator(&id).ok_or(Rejection::NoCoordinator)?;
        if lease.status == CoordinatorStatus::Completed {
            return Err(wrong(lease.status));
        }
        if lease.status.holds() && lease.agent == agent {
            return Err(Rejection::invalid("agent", format!("'{agent}' has the lease already")));
        }
        if lease.has_expired(draft.now) {
            return Err(Rejection::invalid("coordinatorId", "the lease has expired; register anew"));
        }
        let was = lease.agent.clone();
        self.check_free(Some(&id))?;
        // Under a new name, so that nothing that they still say is taken for the word of whoever took their place.
        let lease = self.lease_id();
        self.tell_lease(draft, id, CoordinatorChange::Replaced(Replaced { agent, was, lease }));
        Ok(())
    }

    /// The time of a lease has come: whoever has it was not heard from, or it has ended.
    pub(crate) fn coordinator_due(&mut self, draft: &mut Draft, id: &str) -> Result<(), Rejection> {
        let lease = self.coordinator(id).ok_or(Rejection::NoSuchTimer)?;
        let expired = lease.has_expired(draft.now);
        let change = match lease.status {
            CoordinatorStatus::Active if !expired => CoordinatorChange::Unresponsive {},
            _ => CoordinatorChange::FailedOver(FailedOver {
                reason: if expired { "expired" } else { "heartbeat" }.to_owned(),
                supervisor: lease.supervisor.clone(),
            }),
        };
        self.tell_lease(draft, id.to_owned(), change);
        Ok(())
    }

    pub(super) fn tell_lease(&mut self, draft: &mut Draft, coordinator: String, change: CoordinatorChange) {
        let cause = draft.last_sequence();
        let event = RunEvent::Coordinator(Box::new(CoordinatorChanged { coordinator, change }));
        draft.emit_run(self, event, cause);
    }

    /// What the next lease is called: nobody can guess it, and the same journal gives the same.
    fn lease_id(&self) -> String {
        let mut seed = b"coordinator".to_vec();
        seed.extend(self.salt);
        seed.extend(self.head.next.to_be_bytes());
        format!("coord-{}", hex(&sha256(&seed)[..LEASE_ID_BYTES]))
    }

    /// A lease is over at its end, however late its timer is heard.
    fn check_lease(&self, id: &str, now: Millis) -> Result<&Coordinator, Rejection> {
        let lease = self.coordinator(id).ok_or(Rejection::NoCoordinator)?;
        if lease.status.holds() && lease.has_expired(now) {
            return Err(Rejection::invalid("coordinatorId", "the lease has expired; register anew"));
        }
        if lease.status.holds() { Ok(lease) } else { Err(wrong(lease.status)) }
    }

    /// Records that the lease which somebody has is over, if its end has come and its timer is late.
    fn give_up_expired(&mut self, draft: &mut Draft) {
        let held = self.held_lease().filter(|(_, lease)| lease.has_expired(draft.now));
        let Some((id, supervisor)) = held.map(|(id, lease)| (id.to_owned(), lease.supervisor.clone())) else {
            return;
        };
        let over = FailedOver { reason: "expired".to_owned(), supervisor };
        self.tell_lease(draft, id, CoordinatorChange::FailedOver(over));
    }

    fn check_status(
        &self,
        id: &str,
        now: Millis,
        fits: fn(CoordinatorStatus) -> bool,
    ) -> Result<(), Rejection> {
        let status = self.check_lease(id, now)?.status;
        if fits(status) { Ok(()) } else { Err(wrong(status)) }
    }

    /// Refuses a second lease while somebody has one.
    fn check_free(&self, but: Option<&str>) -> Result<(), Rejection> {
        match self.held_lease().filter(|(id, _)| Some(*id) != but) {
            Some((id, lease)) => {
                Err(Rejection::Coordinated { coordinator: id.to_owned(), agent: lease.agent.clone() })
            }
            None => Ok(()),
        }
    }
}

/// Bytes of the hash that a lease is named by.
const LEASE_ID_BYTES: usize = 16;

/// Whether a heartbeat comes so soon after the last that it need not be recorded: however often somebody says that they
/// are there, that is two events in an interval at most.
fn is_noise(lease: &Coordinator, now: Millis) -> bool {
    now.saturating_sub(lease.last_heartbeat) < lease.heartbeat_interval_ms / 2
}

fn read_policy(name: &str) -> Result<SuspensionPolicy, Rejection> {
    SuspensionPolicy::by_name(name).ok_or_else(|| {
        let known = SuspensionPolicy::ALL.map(SuspensionPolicy::name).join(", ");
        let message =
            format!("'suspensionPolicy' is one of {known}, not '{}'", crate::excerpt::excerpt(name));
        Rejection::invalid("suspensionPolicy", message)
    })
}

fn check_agent(field: &'static str, name: &str) -> Result<(), Rejection> {
    let most = limits::AGENT_NAME_CHARS_MAX;
    if (1..=most).contains(&name.chars().count()) && !name.chars().any(char::is_control) {
        return Ok(());
    }
    let message = format!("'{field}' has 1 to {most} characters, and no control characters");
    Err(Rejection::invalid(field, message))
}

fn wrong(status: CoordinatorStatus) -> Rejection {
    Rejection::invalid(
        "coordinatorId",
        format!("the coordinator is {}, so that can't be done", status.name()),
    )
}
