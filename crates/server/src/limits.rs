//! Every bound of the HTTP surface, each with its reason.

use std::time::Duration;

/// Bytes of a request body. Larger data belongs behind a reference, not in a journal.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of a workflow definition in a request. It is kept once, however many runs follow it, and a machine may write
/// a large one.
pub const DEFINITION_BYTES_MAX: usize = abide_core::limits::DEFINITION_BYTES_MAX;

/// Bytes of a secret's value: every key and certificate fits, and eight of them fit into one request.
pub const SECRET_BYTES_MAX: usize = 8 * 1024;

/// Characters of a secret's value, spaces around it left out. A shorter one stands in any answer by chance, so it could
/// not be taken out of answers.
pub const SECRET_CHARS_MIN: usize = abide_engine::limits::HTTP_SECRET_CHARS_MIN;

/// Children that are shown with a run; a run may have any number.
pub const CHILD_RUNS_MAX: usize = 100;

/// Levels of nesting in a request body. What is let in is shown inside other objects, and common JSON
/// readers stop at 128.
pub const BODY_DEPTH_MAX: usize = 100;

/// Events in one answer to a poll; a reader that is behind asks again at once.
pub const POLL_EVENTS_MAX: usize = 1000;

/// Seconds that a poll may wait (OpenWOP's own bounds).
pub const POLL_SECONDS_MAX: u64 = 60;
/// Seconds that a poll waits if it does not say.
pub const POLL_SECONDS_DEFAULT: u64 = 30;

/// Runs in one page of a list.
pub const LIST_RUNS_MAX: usize = 500;
/// Runs in a page that does not say.
pub const LIST_RUNS_DEFAULT: usize = 50;

/// How long a single step of the test clock may be: ten years.
pub const CLOCK_STEP_MS_MAX: i64 = 10 * 366 * 24 * 3_600_000;

/// Frames that a feed keeps for readers that are a little behind. One that is further behind reads the journal by
/// itself, so this only saves work.
pub const RING_FRAMES_MAX: usize = 256;
/// Bytes of those frames; the last one stays, however large. A stalled reader makes a feed keep this much.
pub const RING_BYTES_MAX: usize = 128 * 1024;

/// Frames that a feed keeps although every reader has them, for readers who come a little later.
pub const SPARE_FRAMES_MAX: usize = 64;
/// Bytes of those frames: a feed whose readers all wait costs about as much as a connection.
pub const SPARE_BYTES_MAX: usize = 8 * 1024;

/// Events that are read from the store at once for a stream: less than a ring, so that one read pushes nobody out.
pub const STREAM_EVENTS_MAX: usize = 64;

/// Frames that a reader takes at once.
pub const PORTION_FRAMES_MAX: usize = 16;
/// Bytes that a reader takes at once, or one frame: what a stalled connection holds beside the socket's buffers.
pub const PORTION_BYTES_MAX: usize = 32 * 1024;

/// Milliseconds for which a stream may collect events (OpenWOP's own bound).
pub const BUFFER_MS_MAX: u64 = 5000;
/// Events in one batch. A burst is sent in several.
pub const BATCH_FRAMES_MAX: usize = 256;
/// Bytes after which a batch is sent.
pub const BATCH_BYTES_MAX: usize = 64 * 1024;

/// How often a silent stream says that it lives. Proxies and clients give up after 30 s or more.
pub const KEEPALIVE: Duration = Duration::from_secs(15);

/// Announcements that a feed keeps for those who have not heard them. They are told once and never recorded, so a
/// reader that is further behind misses some.
pub const ANNOUNCEMENTS_MAX: usize = 16;

/// Connections at a time, if the limit on open files allows so many. An idle one costs some 12 KiB, so all together
/// cost less than 256 MiB.
pub const CONNECTIONS_MAX: usize = 16_384;
/// Files that are left to the store, to requests of nodes and to whoever is being refused.
pub const FILES_RESERVED: usize = 512;
/// Connections that are being told that there are too many. Beyond these, a connection is closed without a word.
pub const REFUSALS_MAX: usize = 64;
/// How long a connection that is refused may take to read why.
pub const REFUSAL_PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of a request that are read from a connection that is refused, so that the answer is not lost.
pub const REFUSAL_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a request's line and headers, and of an answer that waits for the socket. The largest tokens of identity
/// providers take some 12 KiB.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;
/// How long a connection may take to send a request's headers, or rest between two requests.
pub const HEAD_PATIENCE: Duration = Duration::from_secs(30);
/// How long a connection may be silent before the other side is asked whether it is still there, and how long between
/// the questions; after this many without an answer it is gone.
pub const TCP_KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
/// Between two of those questions.
pub const TCP_KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// So many of them.
pub const TCP_KEEPALIVE_PROBES: u32 = 4;
/// How long to wait before accepting again after the system had no room for a connection.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
