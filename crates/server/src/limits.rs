//! Every bound of the HTTP surface, each with its reason.

use std::time::Duration;

/// Bytes of a request body. Larger data belongs behind a reference, not in a journal.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;

/// Seconds in which a body has to come. A connection that says nothing holds a task and what was read so far.
pub const BODY_SECONDS_MAX: u64 = 60;

/// How long a body may pause between two pieces: what has arrived of it takes room that others could have.
pub const BODY_PAUSE_MAX: Duration = Duration::from_secs(10);

/// Bytes of what a worker sends at once: many operations, each of which may hold as much as one event.
pub const WORKER_OPS_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Bytes of what a worker is told at once, about. What does not fit is told next.
pub const WORKER_MESSAGES_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How long a worker may say that it waits. It hears earlier that there is nothing.
pub const WORKER_WAIT_MS_MAX: u64 = 30_000;

/// Labels of a worker: as many as a person reads.
pub const WORKER_LABELS_MAX: usize = 32;

/// Characters of a label, of a worker's versions and of a kind.
pub const WORKER_LABEL_CHARS_MAX: usize = 256;

/// Bytes of a body that is too large and is read all the same, to be thrown away. A client that is still sending would
/// not see the answer; one that has more to send is cut off.
pub const DISCARD_BYTES_MAX: u64 = 4 * DEFINITION_BYTES_MAX as u64;

/// Bytes of a workflow definition in a request. It is kept once, however many runs follow it, and a machine may write
/// a large one.
pub const DEFINITION_BYTES_MAX: usize = abide_core::limits::DEFINITION_BYTES_MAX;

/// Bytes of a secret's value: every key and certificate fits, and eight of them fit into one request.
pub const SECRET_BYTES_MAX: usize = 8 * 1024;

/// Characters of a secret's value, spaces around it left out. A shorter one stands in any answer by chance, so it could
/// not be taken out of answers.
pub const SECRET_CHARS_MIN: usize = abide_core::limits::SECRET_CHARS_MIN;

/// Children that are shown with a run; a run may have any number.
pub const CHILD_RUNS_MAX: usize = 100;

/// Runs below a run that are looked at to tell whether it waits for an answer. Beyond that it is shown as running.
pub const MIRRORED_RUNS_MAX: usize = 100;

/// Levels of nesting in a request body. What is let in is shown inside other objects, and common JSON
/// readers stop at 128.
pub const BODY_DEPTH_MAX: usize = 100;

/// Events in one answer to a poll; a reader that is behind asks again at once.
pub const POLL_EVENTS_MAX: usize = 1000;
/// Bytes of events after which an answer to a poll ends, so that large events make small pages.
pub const POLL_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Seconds that a poll may wait (OpenWOP's own bounds).
pub const POLL_SECONDS_MAX: u64 = 60;
/// Seconds that a poll waits if it does not say.
pub const POLL_SECONDS_DEFAULT: u64 = 30;

/// Records of one kind beside an intent. All of them are shown at once.
pub const RECORDS_MAX: usize = 10_000;
/// Bytes of a record: a few pages of text with what belongs to them.
pub const RECORD_BYTES_MAX: usize = 64 * 1024;
/// Times that a record is tried to be kept that others race for: each time one of them is through.
pub const RECORD_TRIES_MAX: usize = 100;
/// Messages in a channel that does not say how many it takes.
pub const CHANNEL_MESSAGES_DEFAULT: usize = 1000;

/// Events in one list.
pub const INTENT_EVENTS_MAX: usize = 1000;
/// Events in a list that does not say.
pub const INTENT_EVENTS_DEFAULT: usize = 100;

/// Runs in one page of a list.
pub const LIST_RUNS_MAX: usize = 500;
/// Runs in a page that does not say.
pub const LIST_RUNS_DEFAULT: usize = 50;

/// Open interrupts in one page of the inbox.
pub const LIST_INTERRUPTS_MAX: usize = 500;
/// Open interrupts in a page that does not say.
pub const LIST_INTERRUPTS_DEFAULT: usize = 50;

/// How long a single step of the test clock may be: ten years.
pub const CLOCK_STEP_MS_MAX: i64 = 10 * 366 * 24 * 3_600_000;

/// Webhooks of one tenant. Each is told of events on its own, so they multiply the work that events make.
pub const WEBHOOKS_MAX: usize = 100;

/// Webhooks of a tenant that are each about one intent or portfolio.
pub const SUBSCRIPTIONS_MAX: usize = 1000;

/// Event types that one webhook names; OpenWOP knows fewer.
pub const WEBHOOK_TYPES_MAX: usize = 200;

/// Tags that a run must carry to be told of; a run has no more.
pub const WEBHOOK_TAGS_MAX: usize = abide_core::limits::TAGS_MAX;

/// Characters of a tag, as a run has them.
pub const WEBHOOK_TAG_CHARS_MAX: usize = abide_core::limits::TAG_CHARS_MAX;

/// Characters of a secret that signs, if the caller brings one. A shorter one could be guessed from a delivery.
pub const WEBHOOK_SECRET_CHARS_MIN: usize = 16;
/// Bytes of such a secret.
pub const WEBHOOK_SECRET_BYTES_MAX: usize = 256;

/// Deliveries in one page of a list.
pub const LIST_DELIVERIES_MAX: usize = 200;

/// Annotations or artifacts in one page of a list.
pub const LIST_ENTRIES_MAX: usize = 500;
/// Portfolios that are looked at for one list: each is a read, and a list of somebody's own leaves most of them out.
pub const PORTFOLIOS_LOOKED_AT_MAX: usize = 5_000;
/// Pages of the inbox that are looked through for escalations: most of what stands there is asked by nodes.
pub const ESCALATION_PAGES_MAX: usize = 40;
/// Intents or events that are passed over in a list: they are read all the same.
pub const LIST_OFFSET_MAX: usize = 10_000;
/// Annotations or artifacts in a page that does not say.
pub const LIST_ENTRIES_DEFAULT: usize = 100;

/// Spans that wait for the collector. A busy second makes fewer; what finds no room is counted and gone.
/// About a kilobyte each.
pub const SPANS_WAITING_MAX: usize = 16_384;

/// Spans in one request to the collector: well below what collectors take.
pub const SPANS_SENT_MAX: usize = 512;

/// How long a few spans wait for more before they are sent.
pub const SPANS_LINGER_MS: u64 = 1000;

/// How long the collector may take for one request. What waits meanwhile is bounded.
pub const SPANS_SEND_MS_MAX: u64 = 10_000;

/// How often a batch is sent before it is given up: for about a quarter of a minute, so that a collector may restart.
pub const SPANS_TRIES_MAX: u32 = 5;

/// How long the second try waits; each further one waits twice as long.
pub const SPANS_RETRY_MS: u64 = 1000;

/// How long a collector may ask to be left alone. Spans find no room meanwhile.
pub const SPANS_RETRY_MS_MAX: u64 = 30_000;

/// Bytes of a collector's answer that are read.
pub const SPANS_ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Characters of an Idempotency-Key (OpenWOP's own bound).
pub const IDEMPOTENCY_KEY_CHARS_MAX: usize = 255;

/// How long a request waits for another one with the same key. What is done under a key takes one commit, so this is
/// for a disk that hangs; whoever waits longer than this should hear something.
pub const IDEMPOTENCY_WAIT: Duration = Duration::from_secs(10);

/// Seconds after which a request whose key is in use should be repeated.
pub const IDEMPOTENCY_RETRY_SECONDS: u64 = 1;

/// Seconds after which a start that was refused because of another run should be tried again. Nobody knows when that
/// run ends; this keeps impatient clients from asking all the time.
pub const DEDUP_RETRY_SECONDS: u64 = 5;

/// Runs that one request may cancel (OpenWOP's own bound).
pub const BULK_CANCEL_MAX: usize = 100;

/// Runs of one request that are cancelled at once: enough that they share commits, few enough that others get their
/// turn.
pub const BULK_CANCEL_AT_ONCE: usize = 32;

/// Interrupts that one request may answer alike: as many as runs that one may cancel.
pub const BULK_RESOLVE_MAX: usize = 100;

/// Interrupts of one request that are answered at once, as runs that are cancelled.
pub const BULK_RESOLVE_AT_ONCE: usize = 32;

/// Characters of the text of a key that somebody chose: fewer can be guessed, and headers of more are cut on the way.
pub const SECRET_KEY_CHARS_MIN: usize = 16;
/// See [`SECRET_KEY_CHARS_MIN`].
pub const SECRET_KEY_CHARS_MAX: usize = 256;

/// Characters of a principal: an address of any mail system, or an identity provider's subject, with room to spare.
pub const PRINCIPAL_CHARS_MAX: usize = 128;

/// Characters of the name of a role, a group or a channel.
pub const ROLE_CHARS_MAX: usize = 64;

/// Roles of a principal, groups of a person, and addresses of one. All of them are read with each request.
pub const ROLES_MAX: usize = 64;

/// Characters of a label, a display name or an address.
pub const LABEL_CHARS_MAX: usize = 256;

/// Keys of a tenant that are in force. All keys are held in memory, about a kilobyte each.
pub const KEYS_MAX: usize = 10_000;

/// How long a key that was revoked or has expired is remembered: whoever still uses it hears for so long that it is over,
/// and nobody else may choose its text.
pub const KEYS_KEPT_MS: i64 = 90 * 24 * 3_600_000;
/// How long the store may take to answer before a server counts as not ready. It answers in milliseconds.
pub(crate) const READY_PATIENCE: Duration = Duration::from_secs(2);

/// How often a change of keys is decided again because another server came first. Each time at least one was made.
pub(crate) const KEYS_CHANGE_ATTEMPTS_MAX: usize = 16;

/// How often a server looks whether others have changed API keys, in case it was not told: for so long at most, a key
/// that was revoked at one server opens at another.
pub(crate) const KEYS_LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long a server rests after it has looked for a key that it does not know. A flood of made-up keys costs the store
/// twenty short reads a second, and whoever sends one waits so long for the refusal.
pub(crate) const KEYS_LOOK_SPACING: Duration = Duration::from_millis(50);

/// Keys of a tenant that are over and remembered; the oldest go first. Otherwise making and revoking would fill the
/// memory.
pub const KEYS_ENDED_MAX: usize = 10_000;

/// How far in the future the end of a key may lie, and how long an old secret may overlap a new one: ten years.
pub const KEY_LIFE_MS_MAX: i64 = 10 * 366 * 24 * 3_600_000;

/// How long an old secret works beside the new one, unless told otherwise: a day to replace it everywhere.
pub const KEY_OVERLAP_MS_DEFAULT: i64 = 24 * 3_600_000;

/// Records of agents of a tenant. All are held in memory: some hundred bytes each as a rule, 40 KiB with the longest
/// ladder, and a change copies those of its tenant.
pub const AGENTS_MAX: usize = 1_000;

/// Keys, people or agents in one page of a list.
pub const LIST_PAGE_MAX: usize = 500;
/// Keys or people in a page that does not say.
pub const LIST_PAGE_DEFAULT: usize = 100;

/// Buckets of rates in memory, about a hundred bytes each. Those of who has been quiet are dropped first.
pub const BUCKETS_MAX: usize = 100_000;

/// Requests that are being answered at once. Each may hold a body and its parsed form; more only wait for each other.
/// So many connections, or half of them if there are few, are kept free of polls and streams.
pub const REQUESTS_MAX: usize = 1024;

/// Polls and streams that are open at once, if there may be as many connections as that: fewer than those, so that others
/// find one too. Where files are few, so are these.
pub const WAITING_MAX: usize = CONNECTIONS_MAX - REQUESTS_MAX;

/// Bytes of request bodies that are held at once, over all requests: several of the largest definitions. What has not
/// arrived takes none of it.
pub const BODIES_BYTES_MAX: usize = 128 * 1024 * 1024;
/// The least that an operator may allow: half of it is a tenant's, which has to hold the largest definition.
pub const BODIES_BYTES_MIN: usize = 2 * DEFINITION_BYTES_MAX;

/// Bytes of a token of the identity provider: half of a request's head.
pub const TOKEN_BYTES_MAX: usize = 8 * 1024;

/// How far the clocks of the identity provider and of this server may differ.
pub const TOKEN_LEEWAY_MS: i64 = 60_000;

/// How long the provider's keys are used before an unknown one makes them be fetched again.
pub const JWKS_REST_MS: i64 = 30_000;

/// How long the provider's keys are used at all before they are fetched again, so that one that was withdrawn goes.
pub const JWKS_AGE_MS_MAX: i64 = 15 * 60_000;

/// Requests that wait for the provider's keys. Nobody knows yet who sent them, so they get few of the places that there
/// are for all.
pub const JWKS_WAITERS_MAX: usize = REQUESTS_MAX / 16;

/// How long a fetch of the provider's keys may take: somebody waits for it.
pub const JWKS_TIMEOUT_MS: i64 = 10_000;

/// Bytes of the provider's keys: hundreds of them.
pub const JWKS_BYTES_MAX: usize = 512 * 1024;

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

/// Turns of all conversations of a run that are shown at once: the last ones.
pub const CONVERSATION_TURNS_MAX: usize = 1_000;

/// Payloads that a bundle names as faulty: one is enough to know where to look.
pub const BUNDLE_FAULTY_MAX: usize = 100;

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

/// Connections at a time, if the limit on open files allows so many. An idle one costs some 16 KiB, so all together
/// cost about 256 MiB.
pub const CONNECTIONS_MAX: usize = 16_384;
/// Files that are left to the store, to requests of nodes and to whoever is being refused.
pub const FILES_RESERVED: usize = 512;
/// Connections that the system keeps until they are accepted. One that comes on top is tried again a second later, by
/// its own system; more than this is cut down to what the system allows, which is 4,096 as a rule.
pub const BACKLOG_MAX: u32 = 4096;
/// Connections whose first request is not answered yet: enough to keep every core busy, few enough that a crowd that
/// comes at once needs no more memory than the same crowd one by one.
pub const NEWCOMERS_MAX: usize = 128;
/// How long a connection that asks for nothing counts as such, so that silent ones let more than a thousand others in
/// each second.
pub const NEWCOMER_PATIENCE: Duration = Duration::from_millis(100);
/// How long one that is being answered counts as such. A busy server takes a while for a whole crowd, and takes in more
/// of it only as it gets on; this is for an answer that hangs.
pub const NEWCOMER_ANSWER_MAX: Duration = Duration::from_secs(5);
/// Connections that are being told that there are too many. Beyond these, a connection is closed without a word.
pub const REFUSALS_MAX: usize = 64;
/// How long a connection that is refused may take to read why.
pub const REFUSAL_PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of a request that are read from a connection that is refused, so that the answer is not lost.
pub const REFUSAL_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a request's line and headers, and of an answer that waits for the socket. A token as
/// large as may be fits beside the other headers. Idle connections take 8 KiB whatever this is, and a
/// head that arrives in one piece may be nearly twice as large.
pub const HEAD_BYTES_MAX: usize = 2 * TOKEN_BYTES_MAX;
/// How long a connection may take to send a request's headers, or rest between two requests.
pub const HEAD_PATIENCE: Duration = Duration::from_secs(30);
/// How long a connection may take until it is encrypted: two round trips, over the worst of lines.
pub const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);
/// How long a connection may take nothing of what is written to it. Its answer is in memory meanwhile; a subscriber that
/// is cut off comes back and goes on where it was.
pub const WRITE_PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of an answer that are given to the HTTP library at once, which keeps them until they are written.
pub const PIECE_BYTES_MAX: usize = 32 * 1024;
/// How long a connection may be silent before the other side is asked whether it is still there, and how long between
/// the questions; after this many without an answer it is gone.
pub const TCP_KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
/// Between two of those questions.
pub const TCP_KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// So many of them.
pub const TCP_KEEPALIVE_PROBES: u32 = 4;
/// How long to wait before accepting again after the system had no room for a connection.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Characters of a token that answers an interrupt. The longest node id, all of it escaped, and the longest principal
/// fit; a longer text is refused unread.
pub const INTERRUPT_TOKEN_CHARS_MAX: usize = 4096;

/// How long a token lives that a read of the API gives out: long enough to decide, and the next read gives a new one.
pub const READ_TOKEN_MS: i64 = 30 * 60 * 1000;

/// How long a token in a notification lives if the interrupt has no deadline: nobody sends a second notification soon.
pub const NOTICE_TOKEN_MS: i64 = 7 * 24 * 3_600_000;

/// Secrets in a keyring. Each is tried for a key whose text somebody chose, and whoever rotates so often retires as well.
pub const KEYRING_SECRETS_MAX: usize = 32;

/// How long somebody who signed in at the inbox stays so: a working day.
pub const SESSION_MS_MAX: i64 = 8 * 3_600_000;

/// How long before its beginning a session holds: the clocks of two servers never say quite the same.
pub(crate) const SESSION_LEEWAY_MS: i64 = 60_000;

/// Fields of a form in a browser. The largest are those of a clarification: a field for each question, or one for each
/// of several choices.
pub const FORM_FIELDS_MAX: usize = 10_000;

/// Questions that are asked in a form. Who asks more is answered in JSON.
pub const FORM_QUESTIONS_MAX: usize = 200;

/// Open interrupts on one page of the inbox in a browser: as many as somebody scrolls through.
pub const INBOX_PAGE_MAX: usize = 25;

/// Bytes of JSON that the answer page shows of what is decided about: more than anybody reads there.
pub const SHOWN_BYTES_MAX: usize = 64 * 1024;

/// Nodes of a run that its page shows one below the other, however they stand. Of more, those under way come first.
pub const RUN_NODES_PLAIN_MAX: usize = 20;

/// Nodes of a run that its page shows at all: more than anybody scrolls through.
pub const RUN_NODES_MAX: usize = 300;

/// Lines of what happened on the page of a run.
pub const RUN_LINES_MAX: usize = 200;

/// Events that are read for those lines when a page is opened: several may make one line, and some make none.
pub const RUN_EVENTS_READ_MAX: u64 = 512;

/// Bytes of what a model says that one line shows: the end of it, which is what grows.
pub const RUN_SAID_BYTES_MAX: usize = 8 * 1024;

/// Models that may talk at once on the page of a run, each in a line of its own.
pub const RUN_TALKING_MAX: usize = 32;

/// How long changes of a run are collected before its page is told: shorter would flicker, longer would lag.
pub const RUN_PACE: Duration = Duration::from_millis(200);

/// Choices that are shown one below the other; more are in a list that opens.
pub const CHOICES_SHOWN_MAX: usize = 6;

/// Choices of a question that are offered at all. Longer lists are written by hand, as JSON.
pub const CHOICES_MAX: usize = 200;

/// Events that are looked through for how an interrupt was closed. Most are closed within a few.
pub const CLOSING_EVENTS_MAX: usize = 10_000;

/// Messages about one interrupt that its ladder shows. Nobody reads more, and their list has them all.
pub const LADDER_DELIVERIES_MAX: usize = 200;

/// Attempts to come that a ladder shows.
pub const LADDER_PLANNED_MAX: usize = 20;

/// Nodes whose steps one request may approve. A run has few that are interrupted at once.
pub const APPROVED_STEPS_MAX: usize = 1000;

/// Bytes of a debug bundle (OpenWOP's own bound): what a mail takes and an editor opens.
pub const BUNDLE_BYTES_MAX: usize = 8_000_000;
/// Debug bundles that are made at once. Each holds a few times its size while it is made; who comes later waits.
pub const BUNDLES_AT_ONCE: usize = 2;
/// Events of a journal's beginning that a bundle has: how the run came to be what it is.
pub const BUNDLE_HEAD_EVENTS: u64 = 200;
/// Events of a journal's end that a bundle has: what led to how it stands.
pub const BUNDLE_TAIL_EVENTS: u64 = 2000;
/// Bytes of the events of a bundle: what the other parts leave.
pub const BUNDLE_EVENTS_BYTES_MAX: usize = 2_300_000;
/// Bytes of one event in a bundle. The payload of a larger one is left out.
pub const BUNDLE_EVENT_BYTES_MAX: usize = 128 * 1024;
/// Bytes of one text in a bundle. A longer one is cut; nobody reads it to its end there.
pub const BUNDLE_TEXT_BYTES_MAX: usize = 32 * 1024;
/// Bytes of the run's snapshot in a bundle. If there are more, the largest values are left out.
pub const BUNDLE_RUN_BYTES_MAX: usize = 2_000_000;
/// Bytes of the definition in a bundle. A larger one is left out; its hash says which one it is.
pub const BUNDLE_DEFINITION_BYTES_MAX: usize = 1_500_000;
/// Bytes of each smaller part of a bundle. One that has more is left out.
pub const BUNDLE_PART_BYTES_MAX: usize = 250_000;
/// Entries of each list beside the events in a bundle.
pub const BUNDLE_ENTRIES_MAX: usize = 200;
/// Places that a bundle names where something was taken out; all of them are counted.
pub const BUNDLE_REDACTIONS_MAX: usize = 1000;
/// Characters of such a place. What it is cut to says which event or node it is in.
pub const BUNDLE_PATH_CHARS_MAX: usize = 256;
/// Bytes of secrets that are searched for in a bundle, those that the definition names first. The search holds some
/// fifty times as much in memory.
pub const BUNDLE_SECRETS_BYTES_MAX: usize = 256 * 1024;
/// Answers of people that are looked for in other places of a bundle.
pub const BUNDLE_ANSWERS_MAX: usize = 500;
