//! Every bound of messages and channels, each with its reason.

use abide_core::Millis;

/// Channels of one server. Each keeps a client of its own.
pub const CHANNELS_MAX: usize = 64;

/// Characters of a channel's name: it stands in keys of deliveries, and in principals.
pub const CHANNEL_NAME_CHARS_MAX: usize = 64;

/// Patterns that are removed from what leaves. Every text of a message is searched for each.
pub const PATTERNS_MAX: usize = 64;

/// Characters of such a pattern.
pub const PATTERN_CHARS_MAX: usize = 1_000;

/// Bytes of a pattern made ready. A counted repetition can be short to write and large to hold.
pub const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Addresses, or forms of addresses, that may be told beside people of the directory.
pub const ALLOWED_MAX: usize = 256;

/// Characters of an address: what SMTP takes.
pub const ADDRESS_CHARS_MAX: usize = 254;

/// Recipients that a channel has by itself.
pub const DEFAULT_RECIPIENTS_MAX: usize = 50;

/// Characters of a secret that signs, at least: as many as webhooks for events have. A short one could be guessed.
pub const SIGNING_SECRET_CHARS_MIN: usize = 16;

/// Bytes of a file that holds a secret. A longer one is another file.
pub const SECRET_FILE_BYTES_MAX: u64 = 64 << 10;

/// Bytes of a file with certificates.
pub const CERTIFICATES_BYTES_MAX: u64 = 1 << 20;

/// Messages to one recipient in [`PER_RECIPIENT_MS`] unless the settings say otherwise: what a person can still read.
pub const PER_RECIPIENT_COUNT: u32 = 20;

/// The span that [`PER_RECIPIENT_COUNT`] is counted in.
pub const PER_RECIPIENT_MS: Millis = 3_600_000;

/// Messages to one recipient in a span. More is no limit.
pub const PER_RECIPIENT_COUNT_MAX: u32 = 1_000_000;

/// How long an attempt to send may take unless the channel says otherwise. Vendors answer within a second or two.
pub const TIMEOUT_MS: u64 = 10_000;

/// The least that a channel may give an attempt: a handshake across the world takes most of a second.
pub const TIMEOUT_MS_MIN: u64 = 1_000;

/// The most that a channel may give an attempt, which has one of few places while it lasts.
pub const TIMEOUT_MS_MAX: u64 = 60_000;

/// How long a receiver may ask to be left alone. It may ask for longer, and is not heard.
pub const RETRY_AFTER_MS_MAX: Millis = 24 * 3_600_000;

/// Bytes that are read of an answer. A status is all that counts; the rest helps whoever reads why it was refused.
pub const ANSWER_BYTES_MAX: usize = 16 << 10;

/// How long an answer is read once its status is known.
pub const ANSWER_MS_MAX: u64 = 2_000;

/// Characters of an answer that are told.
pub const ANSWER_TOLD_CHARS_MAX: usize = 200;

/// Characters of a key that is sent as it is. Vendors take 255; a longer one is sent as its hash.
pub const KEY_CHARS_MAX: usize = 255;

/// Characters of a title. It is a subject, a heading and a line on a phone.
pub const TITLE_CHARS_MAX: usize = 200;

/// Characters of a question as it is told; the answer page has all of it.
pub const QUESTION_CHARS_MAX: usize = 10_000;

/// Bytes of context that are looked at. What is larger is left to the answer page as a whole: half of it may mislead.
pub const CONTEXT_BYTES_MAX: usize = 64 << 10;

/// Characters of context as people read it.
pub const CONTEXT_CHARS_MAX: usize = 10_000;

/// Choices that are told.
pub const CHOICES_MAX: usize = 50;

/// Characters of what a choice is called, and of what is said about it.
pub const CHOICE_CHARS_MAX: usize = 300;

/// People that one message names.
pub const MENTIONS_MAX: usize = 50;

/// Characters of somebody's name.
pub const NAME_CHARS_MAX: usize = 100;

/// Characters of the heading of a Slack message, by Slack's own limit.
pub const SLACK_HEADER_CHARS_MAX: usize = 150;

/// Characters of a text in a Slack message, by Slack's own limit.
pub const SLACK_TEXT_CHARS_MAX: usize = 3_000;

/// Characters of the address behind a button, by Slack's own limit.
pub const SLACK_URL_CHARS_MAX: usize = 3_000;

/// Characters of the words that stand for a Slack message where blocks can't be shown. Slack advises this and cuts at ten
/// times as many.
pub const SLACK_FALLBACK_CHARS_MAX: usize = 4_000;

/// Characters of what a PagerDuty incident is called, by PagerDuty's own limit.
pub const PAGERDUTY_SUMMARY_CHARS_MAX: usize = 1_024;
