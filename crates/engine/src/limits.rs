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

/// How long a server gets out of the way of another that wants the same run, before it tries again. A commit takes a few
/// milliseconds, so after this long everybody else has had a turn.
pub const GIVE_WAY_MS_MAX: u64 = 100;

/// Timers held in memory; the rest are read when their time comes near.
pub const NEAR_TIMERS_MAX: usize = 16_384;

/// How far ahead timers are read into memory.
pub const NEAR_TIMERS_MS: i64 = 60_000;

/// Turns that are woken at once when a provider is back, at first: enough to see whether it bears more than one call.
pub const WOKEN_CALLS_MIN: usize = 4;

/// Turns that are woken at once at the most, however well the calls go: others have to get their turn too, and a provider
/// that was away has its own limits.
pub const WOKEN_CALLS_MAX: usize = 256;

/// How long a turn that was woken is waited for before it is taken to be gone, and another may go in its place.
pub const WOKEN_TURN_MS: i64 = 60_000;

/// Turns remembered for one provider that can't be woken, though the store has them waiting.
pub const ASIDE_TURNS_MAX: usize = 1024;

/// Interrupted runs looked at at once. Each is read from its first event to its last before it goes on, so after a kill
/// that interrupted thousands of runs this is what keeps the disk free for people; other timers don't wait for them.
pub const RESUMES_AT_ONCE_MAX: usize = 4;

/// Decisions about resuming a run that are shown, the newest.
pub const RESUME_DECISIONS_SHOWN_MAX: usize = 50;

/// Timers fired at once. They share commits, and whoever comes meanwhile waits for one such commit at the most: more of
/// them would fire little faster.
pub const FIRE_TIMERS_MAX: usize = 64;

/// Messages of several senders that one receiver hears in one commit. Each brings an event or two; the commit is one among
/// many in its transaction, and all of these are heard again if it is stale.
pub const HEARD_TOGETHER_MAX: usize = 64;

/// Messages delivered at once.
pub const DELIVER_MAX: usize = 256;

/// How long a loop rests after the store failed, before it tries again.
pub const STORE_REST_MS: u64 = 1000;

/// How long a reminder waits before it is looked at again, if its run is stopped.
pub const STOPPED_REST_MS: i64 = 30_000;

/// The longest single sleep of the timer loop, so that a clock that jumps is noticed.
pub const CLOCK_CHECK_MS: i64 = 1000;

/// Workflow definitions kept in memory.
pub const GRAPHS_MAX: usize = 1024;

/// Bytes of the definitions kept in memory, as text. Built, one takes about 26 times as much (88 MiB for 3.4 MB with
/// ten thousand nodes), so all of them together take less than a gigabyte. Those from a folder are the operator's own
/// choice and don't count, nor does what a run under way holds.
pub const GRAPHS_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Large definitions that are read or checked at once. Each takes a core for up to seconds, and memory; the others
/// wait, and leave the cores and the threads for blocking work to everybody else.
pub const APART_MAX: usize = 2;

/// Bytes of a definition that is read where it is asked for. It takes about a millisecond, and almost all are smaller.
pub const AT_ONCE_BYTES_MAX: usize = 16 * 1024;

/// Bytes of a URL that is requested. Servers and proxies take no longer ones.
pub const HTTP_URL_BYTES_MAX: usize = 8 * 1024;

/// Bytes of all headers of a request together, and of an answer. Servers take about as much; the answer's
/// are stored in the journal.
pub const HTTP_HEADERS_BYTES_MAX: usize = 64 * 1024;

/// Bytes of an answer's body, whatever the node asks for: it is held in memory and stored in the journal.
pub const HTTP_RESPONSE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Nesting of a JSON answer. Deeper ones are carried as text, because whoever looks inside recurses.
pub const HTTP_JSON_DEPTH_MAX: usize = 100;

/// Bytes of a refusing answer's body that are read, so that its excerpt can be searched for secrets.
pub const HTTP_REFUSAL_READ_BYTES_MAX: usize = 8 * 1024;

/// Bytes of a refusing answer's body that are told with the failure: enough for a reason, and kept for good.
pub const HTTP_REFUSAL_TOLD_BYTES_MAX: usize = 2 * 1024;

/// How long a refusing answer's body is waited for. The status is known by then; the body is a courtesy.
pub const HTTP_REFUSAL_READ_MS: u64 = 2000;

/// How long an attempt may take, whatever the node asks for: it holds a place among the tasks in flight.
pub const HTTP_TIMEOUT_MS_MAX: i64 = 3_600_000;

/// How long one connection may take to come about, so that a host's second address gets its turn.
pub const HTTP_CONNECT_MS_MAX: u64 = 10_000;

/// Redirects followed, whatever the node asks for. Browsers stop at about this many.
pub const HTTP_REDIRECTS_MAX: u8 = 20;

/// Addresses of one host that are tried. A name with more is a mistake or an attack.
pub const HTTP_ADDRESSES_MAX: usize = 32;

/// The longest `Retry-After` that is passed on: a server that asks for more is asked sooner.
pub const HTTP_RETRY_AFTER_MS_MAX: u64 = 3_600_000;

/// Bytes of all secrets of a request together. They are searched for in everything that comes back, and the search
/// holds some fifty times as much in memory.
pub const HTTP_SECRETS_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a request: its URL, its headers and its body. It is held in memory until it is sent, and many are sent at
/// once.
pub const HTTP_REQUEST_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Bytes that are searched for secrets at once, without getting out of the way of other tasks: about a millisecond.
pub const HTTP_SEARCH_BYTES_MAX: usize = 32 * 1024;

/// Names that are looked up at once. A lookup holds a thread of the pool that also reads the store, and can't be broken
/// off; slow names must leave most of that pool's threads to others.
pub const HTTP_LOOKUPS_MAX: usize = 32;

/// Artifacts that are read at once while one is looked for by its name.
pub const ARTIFACTS_PAGE_MAX: usize = 1_000;

/// Events that are read at once to fold a run as it stood once.
pub const PAST_EVENTS_MAX: usize = 256;

/// How long one attempt at a delivery to a webhook may take (OpenWOP's own bound).
pub const WEBHOOK_TIMEOUT_MS: u64 = 5000;

/// How long the host of a webhook is looked up when it is registered. One that takes longer is judged when it is sent
/// to.
pub const WEBHOOK_LOOKUP_MS: u64 = 2000;

/// Bytes of a receiver's answer that are read, so that it can end as it likes; they are dropped.
pub const WEBHOOK_ANSWER_BYTES_MAX: usize = 4096;

/// Deliveries under way to one webhook at once, each of another run. A slow receiver holds no more places than these.
pub const WEBHOOK_IN_FLIGHT_MAX: usize = 8;

/// Events of one run that are sent to a webhook before other runs have their turn. More would keep them waiting for
/// longer; with fewer, a larger part of the time goes into finding out what is next.
pub const WEBHOOK_TURN_MAX: usize = 16;

/// Events that are read at a time to know what was before another one.
pub const WEBHOOK_PAGE: usize = 256;

/// Deliveries under way in all: each holds an event in memory.
pub const WEBHOOKS_IN_FLIGHT_MAX: usize = 256;

/// How long a receipt is kept at least. OpenWOP asks for a day: whoever repeats a request later must look first.
pub const RECEIPT_KEPT_MS: i64 = 24 * 3_600_000;

/// How often old receipts are forgotten: often enough that the table stays near a day's worth.
pub const RECEIPT_PURGE_MS: i64 = 3_600_000;

/// Receipts forgotten in one transaction, so that those who wait for the writer get their turn.
pub const RECEIPTS_PURGED_MAX: usize = 1000;

/// Bytes of the id and of the type of an event from elsewhere: names, not contents.
pub const EVENT_NAME_BYTES_MAX: usize = 512;

/// Bytes of what an event from elsewhere says. It is copied into the journal of everybody who waits for it.
pub const EVENT_BYTES_MAX: usize = 256 * 1024;

/// Events of one tenant that are kept because nobody has asked for them yet. They are held against whoever asks, one after
/// the other; and a sender whose events nobody ever asks for must not fill the disk.
pub const EVENTS_KEPT_MAX: usize = 10_000;

/// Interrupts that one event resolves. Whom it is given to is written down in one row, and each is a commit.
pub const EVENT_WAITERS_MAX: usize = 1_000;

/// How long an event from elsewhere is kept, unless the operator says otherwise: whoever asks for it is at most a day late.
pub const EVENT_KEPT_MS: i64 = 24 * 3_600_000;

/// How often events are forgotten whose time is over.
pub const EVENT_PURGE_MS: i64 = 600_000;

/// Events forgotten in one transaction, so that those who wait for the writer get their turn.
pub const EVENTS_PURGED_MAX: usize = 1000;

/// Events read at once.
pub const EVENTS_PAGE_MAX: usize = 64;

/// Messages to people under way at once: each holds what is asked in memory.
pub const NOTICES_IN_FLIGHT_MAX: usize = 256;

/// Messages over one channel under way at once, so that many channels have to hang before another one waits.
pub const NOTICES_OF_CHANNEL_MAX: usize = 16;

/// Messages of one tenant over one channel under way at once, so that another tenant's find a place on it.
pub const NOTICES_OF_LINE_MAX: usize = 8;

/// Messages looked at at once beside those under way. Those whose recipients got enough for now are put off in passing.
pub const NOTICES_LOOK_MAX: usize = 256;

/// Attempts turned into messages in one transaction, so that those who wait for the writer get their turn.
pub const NOTICES_PAGE_MAX: usize = 128;

/// Attempts of one tenant in such a transaction, so that those of a tenant with many don't hide another's.
pub const NOTICES_OF_TENANT_PAGE_MAX: usize = 64;

/// Runs read at once to turn attempts into messages.
pub const NOTICE_READS_MAX: usize = 4;

/// People and addresses that one attempt is told to. A larger group is nobody in particular.
pub const NOTICE_RECIPIENTS_MAX: usize = 50;

/// People read from the directory at once.
pub const PEOPLE_PAGE_MAX: usize = 500;

/// Characters of the names that a message to many stands under.
pub const NOTICE_RECIPIENT_CHARS_MAX: usize = 200;

/// Bytes of the key that is the same for every try at one message. It goes into a header.
pub const NOTICE_KEY_BYTES_MAX: usize = 200;

/// Spans of a recipient's limit that a message is put off by at once. It may be its turn sooner if others are withdrawn.
pub const NOTICE_SPANS_MAX: u32 = 24;

/// Callbacks under way at once: each holds what is asked in memory.
pub const CALLBACKS_IN_FLIGHT_MAX: usize = 64;

/// Callbacks of one tenant under way at once, so that one slow receiver does not hold up everybody else's.
pub const CALLBACKS_OF_TENANT_MAX: usize = 16;

/// Callbacks looked at at once, so that those of a tenant with many don't hide another's.
pub const CALLBACKS_PAGE_MAX: usize = 1024;

/// How long a silent worker keeps its tasks. Longer, and work waits for those that died; shorter, and a worker that stops
/// for a moment loses what it does.
pub const LEASE_MS: i64 = 30_000;

/// How often a worker should be heard of: three times in a lease, so that one lost request costs nothing.
pub const HEARTBEAT_MS: i64 = 10_000;

/// How long a poll waits for news at the most, whatever the worker asks for: it has to be heard of again within its lease.
pub const WORKER_POLL_MS: u64 = 20_000;

/// On a clock that is moved by hand, how long a worker counts as there after it was last heard of: it is between two
/// requests. More than any worker takes for that.
pub const CONTACT_GAP_MS: i64 = 5_000;

/// How long a worker has to stop a task that was called off. Its run can't end before.
pub const CANCEL_GRACE_MS: i64 = 30_000;

/// Workers of one tenant. Each has a mailbox in memory, and every one of them is looked at when there is a list of them.
pub const SESSIONS_OF_TENANT_MAX: usize = 1_000;

/// Tasks that one worker takes at once. Its mailbox holds a few letters for each.
pub const CAPACITY_MAX: usize = 1_000;

/// Kinds that one worker provides. All of them are looked at when it has room for a task.
pub const KINDS_OF_SESSION_MAX: usize = 100;

/// Kinds of one tenant. They are in memory, and copied when one changes.
pub const KINDS_OF_TENANT_MAX: usize = 1_000;

/// Tasks claimed for one worker in one transaction, so that others get their turn.
pub const CLAIM_WORK_MAX: usize = 64;

/// Letters that are given at once: each task among them is read and made ready.
pub const LETTERS_MAX: usize = 256;

/// Operations of a worker in one request.
pub const OPS_MAX: usize = 256;

/// Things that a worker did before, told at once; the rest is asked for.
pub const HISTORY_ITEMS_MAX: usize = 256;

/// Bytes of them, about.
pub const HISTORY_BYTES_MAX: usize = 1024 * 1024;

/// Calls of an agent that one of its workers has at once.
pub const HOOKS_OF_SESSION_MAX: usize = 16;

/// Calls of an agent that are read at once, beside those that are under way.
pub const HOOKS_PAGE_MAX: usize = 64;

/// How often a call of an agent is tried before it is given up: for about ten minutes.
pub const HOOK_TRIES_MAX: u32 = 8;

/// How long the second try at a call waits; each further one waits twice as long.
pub const HOOK_WAIT_MS: i64 = 5_000;

/// How often it is looked for runs that were kept long enough: days are what is counted.
pub const RETENTION_SWEEP_MS: i64 = 3_600_000;

/// Runs with their families that are looked at, and taken out of all lists, in one go. The rows that they leave behind go
/// in pages of their own.
pub const PURGE_PAGE_MAX: usize = 100;

/// Runs that one request to remove runs looks at, so that it is answered within seconds; the answer says where to go on.
pub const PURGE_LOOK_MAX: usize = 1000;

/// How often it is looked at what other servers may have done without a hint of it. What a lost hint would have told of
/// waits so long at the most; one look is a few statements, however many runs there are.
pub const PEERS_LOOK_MS: u64 = 1000;

/// How often a server looks whether another has moved the test clock, should it not have heard so.
pub const CLOCK_LOOK_MS: u64 = 100;

/// How often a server that does something for all looks whether there is something to do that it was not told of. Unlike
/// the other looks, this one reads what waits, and not only whether something does.
pub const ROLE_LOOK_MS: u64 = 2000;

/// Runs whose ends are looked at in one query.
pub const HEADS_PAGE_MAX: usize = 1000;

/// How far ahead timers are taken that nobody sees to: they are in memory before they are due.
pub const CLAIM_TIMERS_AHEAD_MS: i64 = 2000;

/// Timers taken at once that nobody sees to. They are fired within the few seconds for which they are taken.
pub const CLAIM_TIMERS_MAX: usize = 512;

/// For how long the timers of a run are left alone that could not be read, if another server may mend it.
pub const ASIDE_MS: u64 = 60_000;

/// Messages held in memory between their commit and their delivery. Those beyond that are found on disk.
pub const OWN_MESSAGES_MAX: usize = 16_384;

/// For how long a server relies on what it knows of a tenant's agents and kinds, if others share its store and it was told
/// nothing else. A kind that it does not know is looked for at once.
pub const SURROUNDINGS_SURE_MS: u64 = 5_000;

/// Agents of one tenant whose policies are read: more than a tenant may have.
pub const AGENTS_READ_MAX: usize = 10_000;

/// Commits that wait for their spans to be told. A busy second makes fewer; what finds no room is counted and gone.
pub const TOLD_WAITING_MAX: usize = 8192;

/// Bytes of the events in them. They are held until they were looked at, whatever is in them.
pub const TOLD_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Spans of runs that have begun and are kept in memory until they end: about half a kilobyte each. Those of a run that
/// finds no room are read from its journal again.
pub const SPANS_OPEN_MAX: usize = 16_384;

/// Runs whose open spans are kept in memory.
pub const TIMELINES_MAX: usize = 4096;

/// Events that are read at once when the spans of a run are read from its journal.
pub const TOLD_PAGE_MAX: usize = 1000;

/// How long a shutdown waits until what is durable was told.
pub const TOLD_DRAIN_MS: u64 = 1000;

/// Groups that one run belongs to. Each may give it a deadline, which lies in its snapshot.
pub const GROUPS_OF_RUN_MAX: usize = 100;
