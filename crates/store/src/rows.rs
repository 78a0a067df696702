//! What is read back from a store.

use std::sync::Arc;

use abide_core::{
    Appointment, Cascade, Hash, Head, Json, Key, MemberRow, Millis, Notice, OpenInterrupt, Order,
    ProviderWait, Record, RunId, Salt, Spawn, Status, Summary, TaskId, TenantId, Tidings, TimerId, Watch,
};

/// An aggregate as it lies on disk.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Its columns.
    pub summary: Summary,
    /// The end of its journal, as its columns have it.
    pub head: Head,
    /// Its secret, unless it was erased.
    pub salt: Option<Salt>,
    /// The latest snapshot, and how many events it has folded.
    pub snapshot: Option<(u64, Vec<u8>)>,
    /// The events behind the snapshot, or all.
    pub tail: Vec<Record>,
}

/// A run in a list.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Which run.
    pub id: RunId,
    /// Its columns.
    pub summary: Summary,
    /// The sequence its next event gets.
    pub next: u64,
    /// The time of its last event.
    pub at: Millis,
    /// Whether what it said was erased, or begun to be.
    pub erased: bool,
    /// Whether another run started it.
    pub child: bool,
    /// Whether it is a group, and not a run.
    pub group: bool,
}

/// A timer on disk.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimerRow {
    /// When.
    pub due: Millis,
    /// Whose.
    pub key: Key,
    /// Which of its timers.
    pub timer: TimerId,
}

/// A task on disk, leased to the reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRow {
    /// Whose.
    pub key: Key,
    /// Which of its tasks.
    pub task: TaskId,
    /// The token that a report must carry.
    pub fence: u64,
    /// Whether an earlier start of a server had it, and may have begun it; `false` if nobody ever had it.
    pub retaken: bool,
}

/// A message on disk.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageRow {
    /// Where it stands.
    pub at: crate::MessageRef,
    /// What it says.
    pub message: Message,
}

/// What one run has to say to another.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// How the sender stands.
    Notice(Notice),
    /// The receiver shall start. It is not there before that.
    Spawn(Spawn),
    /// The receiver shall end, because its parent has.
    Cascade(Cascade),
    /// How the sender stands, for somebody who watches it.
    Tidings(Tidings),
    /// The sender wants to hear how the receiver stands.
    Watch(Watch),
    /// The sender holds the receiver back, or does not any more.
    Order(Order),
}

impl Message {
    pub(crate) const NOTICE: u8 = 1;
    pub(crate) const SPAWN: u8 = 2;
    pub(crate) const CASCADE: u8 = 3;
    pub(crate) const TIDINGS: u8 = 4;
    pub(crate) const WATCH: u8 = 5;
    pub(crate) const ORDER: u8 = 6;

    /// The version that every type of message is written in.
    pub(crate) const VERSION: u8 = 1;

    /// Reads a message from its columns.
    pub(crate) fn decode(kind: u8, version: u8, bytes: &[u8]) -> Result<Self, String> {
        if version != Self::VERSION {
            return Err(format!("a message of version {version} is not one of this abide's"));
        }
        let decoded = match kind {
            Self::NOTICE => serde_json::from_slice(bytes).map(Self::Notice),
            Self::SPAWN => serde_json::from_slice(bytes).map(Self::Spawn),
            Self::CASCADE => serde_json::from_slice(bytes).map(Self::Cascade),
            Self::TIDINGS => serde_json::from_slice(bytes).map(Self::Tidings),
            Self::WATCH => serde_json::from_slice(bytes).map(Self::Watch),
            Self::ORDER => serde_json::from_slice(bytes).map(Self::Order),
            _ => return Err(format!("a message of type {kind} is not one of this abide's")),
        };
        decoded.map_err(|error| error.to_string())
    }
}

/// A child of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildRow {
    /// Which run.
    pub child: RunId,
    /// The parent's node that it stands for.
    pub node: Arc<str>,
    /// Which execution of that node.
    pub execution: u32,
    /// Whether it is cancelled when its parent ends before it.
    pub cascade: bool,
    /// How it stands; `None` if it has not started yet.
    pub status: Option<Status>,
}

/// What lies beside a journal, all of which follows from it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Beside {
    /// Those of the expected timers that are there.
    pub timers: Vec<TimerRow>,
    /// Its tasks.
    pub tasks: Vec<TaskId>,
    /// How far it has heard others.
    pub heard: Vec<(RunId, u64)>,
    /// Its messages that are not delivered yet, and to whom they go.
    pub sent: Vec<(RunId, Message)>,
    /// Its children by id: which execution of a node each stands for, and whether it goes when its parent goes.
    pub children: Vec<(RunId, TaskId, bool)>,
    /// The expected claim, if it is there and this run's.
    pub claim: Option<Claim>,
    /// Its open interrupts, oldest first.
    pub interrupts: Vec<OpenInterrupt>,
    /// Its tasks for workers by node and execution: each with its fence.
    pub work: Vec<(TaskId, u64)>,
    /// Its turns that wait for their provider, by node and execution.
    pub waits: Vec<ProviderWait>,
    /// The names of its conversations, in their order.
    pub names: Vec<Hash>,
    /// The runs that it waits for, by id.
    pub dependencies: Vec<RunId>,
    /// Who wants to hear how it stands, by id.
    pub watchers: Vec<RunId>,
    /// Its members by id, if it is a group.
    pub members: Vec<MemberRow>,
    /// The agents that are to work on it, by name.
    pub assignments: Vec<Appointment>,
}

/// A workflow and a scope of it that one run has to itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim {
    /// Which workflow.
    pub workflow: Arc<str>,
    /// What the run says it is about; empty if it says nothing.
    pub scope: String,
}

/// What should lie beside a journal in tables that can't be asked by the run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expected {
    /// Its timers.
    pub timers: Vec<TimerRow>,
    /// What it has to itself.
    pub claim: Option<Claim>,
}

/// How many rows the derived tables have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Timers.
    pub timers: u64,
    /// Tasks.
    pub tasks: u64,
    /// Senders heard.
    pub heard: u64,
    /// Messages under way.
    pub outbox: u64,
    /// Events.
    pub events: u64,
    /// Children.
    pub children: u64,
    /// Claims, without those that a run left behind when it ended: they keep nobody from anything.
    pub claims: u64,
    /// Open interrupts.
    pub interrupts: u64,
    /// Tasks for workers.
    pub work: u64,
    /// Turns that wait for their provider.
    pub waits: u64,
    /// Names of conversations.
    pub names: u64,
    /// Runs that others wait for, for each that does.
    pub dependencies: u64,
    /// Those who want to hear how a run stands.
    pub watchers: u64,
    /// Members of groups.
    pub members: u64,
    /// Agents that are to work on runs, for each run.
    pub assignments: u64,
    /// Tenants and kinds of which there are not as many as is said.
    pub miscounted: u64,
}

/// A workflow that is to become the latest version of its id.
#[derive(Clone, Debug)]
pub struct NewWorkflow {
    /// Whose.
    pub tenant: TenantId,
    /// Which workflow.
    pub id: String,
    /// What its bytes say that it is called.
    pub name: String,
    /// The hash of its bytes.
    pub hash: Hash,
    /// Its bytes.
    pub source: Arc<[u8]>,
    /// When it is pushed.
    pub at: Millis,
    /// Who pushes it.
    pub by: Option<String>,
    /// For how long it says that its runs are kept, as JSON, if it does.
    pub retention: Option<String>,
}

/// One version of a workflow that somebody pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkflowVersion {
    /// Which workflow.
    pub id: String,
    /// Which version of it, from 1.
    pub version: u32,
    /// What it is called.
    pub name: String,
    /// The hash of its bytes.
    pub hash: Hash,
    /// When it was pushed.
    pub created_at: Millis,
    /// Who pushed it.
    pub created_by: Option<String>,
    /// Whether it was made by this very call.
    pub created: bool,
}

/// A secret of a tenant.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretRow {
    /// Whose.
    pub tenant: TenantId,
    /// What it is called by.
    pub name: String,
    /// The value under a key of the keyring; empty in a list. The store can't look inside.
    pub sealed: Arc<[u8]>,
    /// When there first was one of this name.
    pub created_at: Millis,
    /// When it was set last.
    pub updated_at: Millis,
    /// Who set it last.
    pub updated_by: Option<String>,
}

/// Logs show that there is a value, not what it is, be it sealed or not.
impl std::fmt::Debug for SecretRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretRow")
            .field("tenant", &self.tenant)
            .field("name", &self.name)
            .field("sealed", &format_args!("{} bytes", self.sealed.len()))
            .field("created_at", &self.created_at)
            .field("updated_at", &self.updated_at)
            .field("updated_by", &self.updated_by)
            .finish()
    }
}

/// What was answered to a request that may be repeated.
#[derive(Clone, PartialEq, Eq)]
pub struct Receipt {
    /// Whose request it was.
    pub tenant: TenantId,
    /// What was asked for: the operation, and the run that its path names.
    pub endpoint: String,
    /// A MAC of the key that the caller sent. The key itself is kept nowhere.
    pub key: [u8; 32],
    /// A MAC of the request.
    pub digest: [u8; 32],
    /// The HTTP status of the answer.
    pub status: u16,
    /// The answer, byte for byte. It tells ids, times and statuses, nothing that a run read or wrote.
    pub body: Vec<u8>,
    /// When it was given.
    pub at: Millis,
}

/// Logs show what was asked for, not by which key.
impl std::fmt::Debug for Receipt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receipt")
            .field("tenant", &self.tenant)
            .field("endpoint", &self.endpoint)
            .field("status", &self.status)
            .field("body", &format_args!("{} bytes", self.body.len()))
            .field("at", &self.at)
            .finish()
    }
}

/// Who has an aggregate erased, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Erasure {
    /// When.
    pub at: Millis,
    /// Who.
    pub by: Option<String>,
    /// Why.
    pub reason: Option<String>,
}

/// What became of an erasure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Erased {
    /// There is no such aggregate.
    NotFound,
    /// It is still under way. Cancel it first, or wait for its end.
    NotEnded,
    /// It was erased before; nothing was done and nothing noted.
    Already,
    /// What it said is gone.
    Done {
        /// How many events it had.
        events: u64,
    },
}

/// An annotation that is to be kept.
#[derive(Clone, Debug)]
pub struct NewAnnotation {
    /// Of which aggregate.
    pub key: Key,
    /// When it was made.
    pub at: Millis,
    /// Who made it.
    pub by: Option<String>,
    /// What it says.
    pub body: Json,
    /// How many annotations the aggregate may have, this one included.
    pub most: usize,
    /// What is answered to the request that makes it, if that may be repeated.
    pub receipt: Option<Receipt>,
}

impl NewAnnotation {
    /// What the receipts of a run's annotations are filed under. They repeat what was said, so they are erased with it.
    pub fn endpoint(run: RunId) -> String {
        format!("annotateRun {run}")
    }
}

/// What became of an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Annotated {
    /// There is no such aggregate.
    NotFound,
    /// What the aggregate said was erased, or is being erased.
    Erased,
    /// It has as many as it may.
    Full,
    /// There is a receipt under the same key: it was made before.
    Receipted,
    /// It is kept, at this place among the aggregate's notes.
    Done {
        /// The place.
        sequence: u64,
    },
}

/// A page of an aggregate's annotations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotations {
    /// Those on the page, oldest first.
    pub page: Vec<Note>,
    /// How many there are in all.
    pub total: u64,
}

/// Something that is said or was done about an aggregate, beside its journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Its place among the aggregate's notes, from 0.
    pub sequence: u64,
    /// When.
    pub at: Millis,
    /// What kind of note: `annotation`; `erased`, or `erasing` until that is done; or what a record is.
    pub kind: String,
    /// Who.
    pub by: Option<String>,
    /// What it says.
    pub body: Json,
}

impl Note {
    /// The note of an erasure that is done, and of one that is under way.
    pub(crate) const ERASED: &str = "erased";
    pub(crate) const ERASING: &str = "erasing";
    /// The note of somebody who had something to say.
    pub(crate) const ANNOTATION: &str = "annotation";

    /// Whether it is of an erasure that has begun and not ended.
    pub fn is_unfinished(&self) -> bool {
        self.kind == Self::ERASING
    }
}

/// A 32-byte column.
pub(crate) fn hash(bytes: &[u8]) -> Result<Hash, String> {
    bytes.try_into().map_err(|_| format!("a hash has 32 bytes, not {}", bytes.len()))
}
