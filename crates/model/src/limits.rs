//! Every bound of this crate, with its reason.

/// Bytes of a request's body. Providers take about as much, and it is held in memory until it is answered.
pub const REQUEST_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Bytes of one event of an answer: of a line, and of the lines of one event together. Providers send a few words at a
/// time; a gateway may send an answer in one piece.
pub const EVENT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Bytes of all that a model says in one call: text, reasoning and the arguments of tools. It stands in the journal.
pub const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Bytes of an answer on the wire, with all that is around the words: thirty-two times what may be said.
pub const STREAM_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Tools that a model calls in one answer. Each becomes a run of its own.
pub const TOOL_CALLS_MAX: usize = 128;

/// Levels of lists and objects in the arguments of a tool. JSON is read back to 127 levels, and they will stand inside
/// of other values.
pub const JSON_DEPTH_MAX: usize = 100;

/// Stretches of reasoning in one answer. Models have a handful.
pub const REASONING_MAX: usize = 1024;

/// Bytes of an error's body that are read, so that secrets are found before it is cut.
pub const ERROR_READ_BYTES_MAX: usize = 64 * 1024;

/// How long an error's body is waited for. The status is known by then.
pub const ERROR_READ_MS: u64 = 5_000;

/// Bytes of an error's message. It stands in the journal once for each try.
pub const MESSAGE_BYTES_MAX: usize = 4 * 1024;

/// Bytes of what made no sense that are told with the error.
pub const NONSENSE_BYTES_MAX: usize = 256;

/// How long words are gathered into one chunk. Each chunk is a commit, and people read no faster.
pub const CHUNK_MS: u64 = 100;

/// Bytes at which a chunk is handed out before that.
pub const CHUNK_BYTES: usize = 2 * 1024;

/// Bytes of one chunk, however much came at once: it is one event of the journal.
pub const CHUNK_BYTES_MAX: usize = 64 * 1024;

/// Tokens that come out at most where a provider has to be told and nobody does.
pub const TOKENS_USUAL: u64 = 4096;

/// Connections to one provider that are kept open while nobody uses them.
pub const IDLE_CONNECTIONS_MAX: usize = 32;

/// How long. Most servers close them after a minute; a closed one costs a failed try.
pub const IDLE_CONNECTION_MS: u64 = 30_000;

/// Providers of one server. Each has a client of its own.
pub const PROVIDERS_MAX: usize = 64;

/// Characters of a provider's name. It is part of keys and labels.
pub const NAME_CHARS_MAX: usize = 64;

/// Headers that an operator adds to the requests of one provider.
pub const HEADERS_MAX: usize = 32;

/// Bytes of one of them. Servers take no longer ones.
pub const HEADER_BYTES_MAX: usize = 8 * 1024;

/// The longest time that an operator may allow a call: a day. It holds a place among the tasks in flight.
pub const TIMEOUT_MS_MAX: i64 = 24 * 3_600_000;

/// Steps of a schedule before its tail.
pub const SCHEDULE_STEPS_MAX: usize = 64;

/// The shortest wait of a schedule. Shorter ones are an attack on the provider, and none at all would never end.
pub const SCHEDULE_WAIT_MS_MIN: i64 = 100;

/// The longest one: a week.
pub const SCHEDULE_WAIT_MS_MAX: i64 = 7 * 24 * 3_600_000;

/// The longest time that a turn may wait in all: thirty days.
pub const SCHEDULE_BUDGET_MS_MAX: i64 = 30 * 24 * 3_600_000;

/// The longest window and cool-down of a breaker: a day.
pub const BREAKER_MS_MAX: i64 = 24 * 3_600_000;

/// The most calls that a breaker may wait to see before it judges.
pub const BREAKER_CALLS_MAX: u32 = 100_000;

/// Models of one provider that have prices.
pub const PRICES_MAX: usize = 1024;

/// The highest price, in millionths of a US dollar: a million dollars for a million tokens. What is more is a mistake in
/// the unit.
pub const PRICE_MICROS_MAX: u64 = 1_000_000_000_000;

/// How much longer than a call may last a probe may take: it also has to be admitted and recorded.
pub(crate) const PROBE_GRACE_MS: i64 = 60_000;
