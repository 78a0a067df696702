//! Every bound of the shell, each with its reason.

/// Runs kept in memory. A run that does nothing leaves when room is needed; waking it is one read.
pub const HOT_RUNS_MAX: usize = 4096;

/// Commits under way at once. Beyond this, callers wait their turn before they take memory.
pub const COMMITS_IN_FLIGHT_MAX: usize = 4096;

/// Tasks executed in this process at once; the others wait on disk.
pub const TASKS_IN_FLIGHT_MAX: usize = 1024;

/// Tasks claimed in one transaction.
pub const CLAIM_TASKS_MAX: usize = 128;

/// How often a command is decided again because another server or a failed commit came first.
pub const DECIDE_ATTEMPTS_MAX: usize = 16;

/// Timers held in memory; the rest are read when their time comes near.
pub const NEAR_TIMERS_MAX: usize = 16_384;

/// How far ahead timers are read into memory.
pub const NEAR_TIMERS_MS: i64 = 60_000;

/// Timers fired at once. They share commits, and leave room for interactive work.
pub const FIRE_TIMERS_MAX: usize = 256;

/// Messages delivered at once.
pub const DELIVER_MAX: usize = 256;

/// How long a loop rests after the store failed, before it tries again.
pub const STORE_REST_MS: u64 = 1000;

/// The longest single sleep of the timer loop, so that a clock that jumps is noticed.
pub const CLOCK_CHECK_MS: i64 = 1000;

/// Workflow definitions kept in memory.
pub const GRAPHS_MAX: usize = 1024;
