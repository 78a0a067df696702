//! What workers do: tasks that wait for one or are in one's hands, the kinds that they provide, and the calls that their
//! agents asked for.
//!
//! A task's row comes and goes with its run's commits. Who has it is written here: with the commit that offers it if
//! somebody has room for it then, or by a claim later.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use abide_core::event::HookKind;
use abide_core::{InterruptId, Key, Millis, TaskId, TenantId, hex};

use serde::{Deserialize, Serialize};

use crate::store::Answer;

/// Where workers' tasks, kinds and hooks are found.
pub trait Work: Send + Sync {
    /// Durably gives a session tasks that nobody has, oldest first, and those that are called off to nobody.
    fn claim(&self, claim: WorkClaim) -> Answer<'_, Vec<WorkRow>>;

    /// Durably takes back tasks that a session never got to hear of. Those that it does not have under this fence any
    /// more are left alone, and all of them if another server than the one that is given is the session's home. Gives how
    /// many were taken back.
    fn unclaim(
        &self,
        session: SessionId,
        home: Option<u64>,
        tasks: Vec<(Key, TaskId, u64)>,
    ) -> Answer<'_, usize>;

    /// The tasks that somebody has and those that are called off, of all tenants: what a server that starts has to look
    /// after. One that can't be read is left out and logged.
    fn left_behind(&self) -> Answer<'_, Vec<WorkRow>>;

    /// The tasks of these runs, in somebody's hands or not.
    fn of_runs(&self, runs: Vec<Key>) -> Answer<'_, Vec<WorkRow>>;

    /// The tasks that are called off and that nobody has.
    fn called_off(&self) -> Answer<'_, Vec<WorkRow>>;

    /// The kinds that tasks wait for, by tenant and name, at most `limit`. It takes as long as there are kinds, however
    /// many tasks wait.
    fn kinds_waited_for(&self, limit: usize) -> Answer<'_, Vec<(TenantId, String)>>;

    /// How many tasks wait for a worker, by tenant and kind. It counts them.
    fn waiting(&self) -> Answer<'_, Vec<(TenantId, String, u64)>>;

    /// Durably sets what is known of kinds: all of them or none. An agent's kinds that were there are replaced.
    fn put_kinds(&self, kinds: Vec<KindRow>) -> Answer<'_, ()>;

    /// The kinds of a tenant by name, those behind `after`, at most `limit`.
    fn kinds(&self, tenant: TenantId, after: String, limit: usize) -> Answer<'_, Vec<KindRow>>;

    /// Durably forgets a kind. `false` if there is none.
    fn forget_kind(&self, tenant: TenantId, kind: String) -> Answer<'_, bool>;

    /// Calls of an agent for one of these, those that are due first, at most `limit`, due or not.
    fn hooks(
        &self,
        tenant: TenantId,
        agent: String,
        on: Vec<HookKind>,
        limit: usize,
    ) -> Answer<'_, Vec<HookRow>>;

    /// The same, and durably takes those that are due and that nobody has in hand, until then. The others say when they
    /// may be due.
    fn claim_hooks(&self, claim: HookClaim) -> Answer<'_, Vec<HookRow>>;

    /// Durably keeps calls in hand until then, as far as they are there; 0 gives them back.
    fn keep_hooks(&self, hooks: Vec<(TenantId, HookId)>, until: Millis) -> Answer<'_, ()>;

    /// Durably writes down that a call is over, or when it is tried again. `false` if it is not there any more.
    fn settle_hook(&self, tenant: TenantId, hook: HookId, again: Option<Millis>) -> Answer<'_, bool>;
}

/// A worker's process, as it calls itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SessionId([u8; 16]);

impl SessionId {
    /// The session with these bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = hex(&self.0);
        let part = |from: usize, to: usize| &digits[from..to];
        write!(f, "{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
    }
}

impl FromStr for SessionId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let dashes = [8, 13, 18, 23];
            let bytes = text.as_bytes();
            if bytes.len() != 36 || dashes.iter().any(|at| bytes[*at] != b'-') {
                return None;
            }
            let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
            Some(Self(unhex(&digits)?.try_into().ok()?))
        };
        read().ok_or_else(|| "it is no UUID, such as 0f8fad5b-d9cb-469f-a165-70867728950e".to_owned())
    }
}

/// The bytes that pairs of hexadecimal digits stand for.
pub(crate) fn unhex(digits: &[u8]) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let pair = |pair: &[u8]| u8::try_from(digit(*pair.first()?)? * 16 + digit(*pair.get(1)?)?).ok();
    digits.chunks(2).map(pair).collect()
}

/// What a session has room for.
#[derive(Clone, Debug)]
pub struct WorkClaim {
    /// Whose tasks.
    pub tenant: TenantId,
    /// Who gets them.
    pub session: SessionId,
    /// The agent that it works as: tasks for others are not for it.
    pub agent: String,
    /// The kinds that it provides.
    pub kinds: Vec<Arc<str>>,
    /// At most so many.
    pub limit: usize,
    /// When.
    pub now: Millis,
}

/// A task for workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkRow {
    /// Whose.
    pub key: Key,
    /// Which of its tasks.
    pub task: TaskId,
    /// The node's kind.
    pub kind: Arc<str>,
    /// The only agent whose workers may have it.
    pub agent: Option<String>,
    /// What a worker has to know to speak for it.
    pub fence: u64,
    /// Which attempt it is, from 1.
    pub attempt: u32,
    /// How long a worker may take.
    pub timeout_ms: Option<Millis>,
    /// Since when it waits, or has waited.
    pub queued_at: Millis,
    /// Who has it, and since when.
    pub held: Option<(SessionId, Millis)>,
    /// Whoever has it is to stop.
    pub called_off: bool,
}

/// A kind of node that workers provide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindRow {
    /// Whose.
    pub tenant: TenantId,
    /// Its name: the `typeId` of a node.
    pub kind: String,
    /// The agent that provided it last.
    pub agent: String,
    /// Doing it twice is as good as once.
    pub idempotent: bool,
    /// Whether it can be undone, if that was said.
    pub reversible: Option<bool>,
    /// How long a worker may take.
    pub timeout_ms: Option<Millis>,
    /// Which code did it last, in its own words.
    pub code_version: Option<String>,
    /// When.
    pub registered_at: Millis,
}

/// Which call of a tenant's agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HookId {
    /// The run that asks.
    pub run: abide_core::RunId,
    /// Which interrupt.
    pub interrupt: InterruptId,
    /// What for.
    pub hook: HookKind,
    /// At which attempt to reach people.
    pub attempt: u32,
}

const RUN_BYTES: usize = 16;
const HOOK_BYTES: usize = RUN_BYTES + InterruptId::BYTES + 1 + 4;

impl fmt::Display for HookId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attempt = self.attempt.to_be_bytes();
        f.write_str(&hex(&[
            &self.run.as_bytes()[..],
            self.interrupt.as_bytes(),
            &[hook_code(self.hook)],
            &attempt,
        ]
        .concat()))
    }
}

impl FromStr for HookId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let bytes = unhex(text.as_bytes()).filter(|bytes| text.len() == 2 * bytes.len())?;
            let bytes: [u8; HOOK_BYTES] = bytes.try_into().ok()?;
            let (run, rest) = bytes.split_at(RUN_BYTES);
            let (interrupt, rest) = rest.split_at(InterruptId::BYTES);
            Some(Self {
                run: abide_core::RunId::from_bytes(run.try_into().ok()?),
                interrupt: InterruptId::from_bytes(interrupt.try_into().ok()?),
                hook: hook_by_code(rest[0]).ok()?,
                attempt: u32::from_be_bytes(rest[1..].try_into().ok()?),
            })
        };
        read().ok_or_else(|| "it is no id of a hook; it stands in the message that told of it".to_owned())
    }
}

/// Its number on disk.
pub(crate) fn hook_code(hook: HookKind) -> u8 {
    let at = HookKind::ALL.iter().position(|known| *known == hook);
    u8::try_from(at.expect("all of them are listed")).expect("there are four")
}

pub(crate) fn hook_by_code(code: u8) -> Result<HookKind, String> {
    HookKind::ALL.get(usize::from(code)).copied().ok_or_else(|| format!("{code} is no hook"))
}

/// A call of an agent that no worker has taken yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookRow {
    /// Whose.
    pub tenant: TenantId,
    /// Which call.
    pub id: HookId,
    /// The agent.
    pub agent: String,
    /// When it happened.
    pub queued_at: Millis,
    /// When it is tried next.
    pub due: Millis,
    /// How often it was tried.
    pub tries: u32,
}

/// Which calls a server takes in hand.
#[derive(Clone, Debug)]
pub struct HookClaim {
    /// Whose.
    pub tenant: TenantId,
    /// Of which agent.
    pub agent: String,
    /// For one of these.
    pub on: Vec<HookKind>,
    /// At most so many, due or not.
    pub limit: usize,
    /// What time it is.
    pub now: Millis,
    /// Until when they are kept in hand.
    pub until: Millis,
}

impl HookRow {
    /// The run that asks.
    pub fn key(&self) -> Key {
        self.id.run.of(self.tenant)
    }
}

#[cfg(test)]
mod tests {
    use abide_core::RunId;

    use super::*;

    #[test]
    fn a_session_is_written_as_a_uuid_and_nothing_else_is_read_as_one() {
        let text = "0f8fad5b-d9cb-469f-a165-70867728950e";
        let session: SessionId = text.parse().unwrap();
        assert_eq!(session.to_string(), text);
        for wrong in
            ["", "0f8fad5bd9cb469fa16570867728950e", &text[1..], &text.replace('f', "g"), &"é".repeat(18)]
        {
            assert!(wrong.parse::<SessionId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_id_of_a_hook_survives_a_round_trip_through_text_and_nothing_else_is_one() {
        for hook in HookKind::ALL {
            let (run, interrupt) =
                (RunId::from_bytes([0xab; 16]), InterruptId::from_bytes([7; InterruptId::BYTES]));
            let id = HookId { run, interrupt, hook, attempt: 258 };
            let text = id.to_string();
            assert_eq!(text.parse(), Ok(id));
            for wrong in ["", "00", &text[1..], &text.replace('a', "g"), &"é".repeat(HOOK_BYTES)] {
                assert!(wrong.parse::<HookId>().is_err(), "{wrong}");
            }
        }
    }
}
