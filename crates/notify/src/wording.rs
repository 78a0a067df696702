//! The words of a message that are the same on every channel.

use crate::limits::{NAME_CHARS_MAX, TITLE_CHARS_MAX};
use crate::message::{Message, Outcome, Purpose};
use crate::text::{moment, one_line};

/// What it is about, on one line.
pub(crate) fn headline(message: &Message) -> String {
    let title = one_line(&message.title, TITLE_CHARS_MAX);
    match &message.purpose {
        Purpose::Ask { attempt: 0 | 1, .. } => format!("Your answer is needed: {title}"),
        Purpose::Ask { attempt, max_attempts } if attempt < max_attempts => {
            format!("Reminder {attempt} of {max_attempts}: {title}")
        }
        Purpose::Ask { attempt, max_attempts } => {
            format!("Final reminder ({attempt} of {max_attempts}): {title}")
        }
        Purpose::FollowUp { outcome, .. } => format!("{}: {title}", closed(*outcome)),
        Purpose::Test => format!("Test: {title}"),
    }
}

fn closed(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Resolved => "Answered",
        Outcome::Rejected => "Decided against",
        Outcome::Timeout | Outcome::Expired => "Not answered in time",
        Outcome::Cancelled => "No longer needed",
    }
}

/// What there is to do about it.
pub(crate) fn lead(message: &Message) -> String {
    match &message.purpose {
        Purpose::Ask { attempt: 0 | 1, .. } => "A run waits for your answer and goes on with it.".to_owned(),
        Purpose::Ask { attempt, max_attempts } if attempt < max_attempts => {
            "A run still waits for an answer.".to_owned()
        }
        Purpose::Ask { .. } => {
            "A run still waits for an answer, and nobody will be reminded of it again.".to_owned()
        }
        Purpose::FollowUp { outcome, by, at } => {
            let by = by.as_deref().map(|by| format!(" by {}", one_line(by, NAME_CHARS_MAX)));
            let (by, at) = (by.unwrap_or_default(), moment(*at));
            let told = match outcome {
                Outcome::Resolved => format!("It was answered{by} at {at}."),
                Outcome::Rejected => format!("It was decided against{by} at {at}."),
                Outcome::Timeout | Outcome::Expired => {
                    format!("Nobody answered in time; it was closed at {at}.")
                }
                Outcome::Cancelled => format!("It was withdrawn{by} at {at}."),
            };
            format!("{told} There is nothing left to do.")
        }
        Purpose::Test => "Somebody tried out this channel. There is nothing to do.".to_owned(),
    }
}

/// What happens when.
pub(crate) fn times(message: &Message) -> Vec<String> {
    if !matches!(message.purpose, Purpose::Ask { .. }) {
        return Vec::new();
    }
    let deadline = message.deadline.map(|at| format!("An answer counts until {}.", moment(at)));
    let next = message.next_attempt_at.map(|at| format!("The next reminder comes at {}.", moment(at)));
    deadline.into_iter().chain(next).collect()
}

/// What the link is called.
pub(crate) fn link_label(message: &Message) -> &'static str {
    match message.purpose {
        Purpose::Ask { .. } => "Answer",
        Purpose::FollowUp { .. } | Purpose::Test => "Have a look",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Recipient;

    fn message(purpose: Purpose) -> Message {
        let test = Message::test("k".to_owned(), 0, Recipient::default());
        Message { purpose, title: "Pay the\ninvoice?".to_owned(), ..test }
    }

    fn ask(attempt: u32, max_attempts: u32) -> Message {
        message(Purpose::Ask { attempt, max_attempts })
    }

    #[test]
    fn each_attempt_says_which_it_is() {
        assert_eq!(headline(&ask(1, 1)), "Your answer is needed: Pay the invoice?");
        assert_eq!(headline(&ask(1, 3)), "Your answer is needed: Pay the invoice?");
        assert_eq!(headline(&ask(2, 3)), "Reminder 2 of 3: Pay the invoice?");
        assert_eq!(headline(&ask(3, 3)), "Final reminder (3 of 3): Pay the invoice?");
        assert!(lead(&ask(3, 3)).contains("nobody will be reminded"));
    }

    #[test]
    fn a_follow_up_says_who_and_when() {
        let follow_up = |outcome, by: Option<&str>| {
            message(Purpose::FollowUp { outcome, by: by.map(str::to_owned), at: 1_774_346_400_000 })
        };
        let answered = follow_up(Outcome::Resolved, Some("Alice\nLidell"));
        assert_eq!(headline(&answered), "Answered: Pay the invoice?");
        assert_eq!(
            lead(&answered),
            "It was answered by Alice Lidell at 2026-03-24 10:00 UTC. There is nothing left to do."
        );
        assert!(lead(&follow_up(Outcome::Expired, None)).starts_with("Nobody answered in time"));
        assert!(lead(&follow_up(Outcome::Rejected, Some("bob"))).contains("against by bob at"));
        assert!(lead(&follow_up(Outcome::Cancelled, None)).contains("withdrawn at"));
    }

    #[test]
    fn only_who_is_asked_hears_of_times() {
        let with = |message| Message { deadline: Some(0), next_attempt_at: Some(60_000), ..message };
        let told = [
            "An answer counts until 1970-01-01 00:00 UTC.",
            "The next reminder comes at 1970-01-01 00:01 UTC.",
        ];
        assert_eq!(times(&with(ask(1, 2))), told);
        assert!(times(&with(message(Purpose::Test))).is_empty());
    }
}
