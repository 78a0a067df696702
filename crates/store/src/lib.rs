//! Where runs live: journals, snapshots, timers, tasks and messages on disk.
//!
//! [`Store`] is the contract, in few verbs; each says what durability its caller may rely on. [`Sqlite`] is
//! the embedded engine. The SQL and the mapping of rows are shared text in `sql.rs` and `rows.rs`, so that
//! another engine needs only a thin dialect.

mod access;
mod answers;
mod audit_log;
mod cluster;
mod commit;
mod containers;
mod db;
mod error;
mod external;
mod inbox;
mod notices;
mod postgres;
mod providers;
mod queue;
mod records;
mod retention;
mod rows;
mod sealing;
mod sessions;
mod sql;
mod sqlite;
mod store;
mod tables;
mod truncation;
mod webhooks;
mod work;

pub use access::{Access, ApiKey, KeyChange, Person, Roll};
pub use audit_log::{AuditHead, AuditLog, AuditRecord, AuditRow, NewAudit};
pub use cluster::{Cluster, Hint, Load, Role, SERVER_LEASE_MS, ServerRow, View};
pub use commit::{Commit, Done, Lane, MessageRef, TaskHolder};
pub use containers::{AssignmentRow, Containers, Known};
pub use error::Error;
pub use external::{CallbackRow, Callbacks, EventRow, ExternalEvents, NewEvent, Put, Target};
pub use inbox::{
    EVENT_KEYS_MAX, INBOX_LOOK_MAX, Inbox, InboxCursor, InboxPage, InboxQuery, InterruptRow, Standing, Waiter,
};
pub use notices::{
    AgentRow, Agents, Expanded, FollowUp, HowEnded, NOTICES_LOOK_MAX, NewMessage, NoticeDelivery, NoticeEnd,
    NoticeId, NoticeLine, NoticeRow, NoticeState, Notices, NoticesPage, NoticesQuery,
};
pub use postgres::{ImportedTable, Postgres, PostgresOptions};
pub use providers::{BreakerRow, Providers, WaitCounts, WaitRow};
pub use records::{NewRecord, Recorded, Records, SUBSCRIPTION};
pub use retention::{EndedQuery, EndedRun, FamilySize, Purge, PurgeRow, PurgedPage, Retention};
pub use rows::{
    Annotated, Annotations, Beside, ChildRow, Claim, Erased, Erasure, Expected, Listed, Loaded, Message,
    MessageRow, NewAnnotation, NewWorkflow, Note, Receipt, SecretRow, TaskRow, TimerRow, Totals,
    WorkflowVersion,
};
pub use sealing::{Sealer, Sealing};
pub use sessions::{Adopted, Came, SessionRow, SessionState, Sessions};
pub use sql::{Statement, Value, plan};
pub use sqlite::{BackupFacts, Held, Sqlite, SqliteOptions, Stage, StageHook, Synchronous};
pub use store::{Answer, Counts, ListQuery, Store};
pub use truncation::{Outline, Truncated, Truncation};
pub use webhooks::{
    About, Added, Attempted, DEAD_LETTERS_MAX, DeliveryQuery, DeliveryRow, Due, LAST_ERROR_BYTES_MAX,
    Outcome, Shown, Waiting, WebhookKey, WebhookNews, WebhookRow, Webhooks,
};
pub use work::{HookClaim, HookId, HookRow, KindRow, SessionId, Work, WorkClaim, WorkRow};
