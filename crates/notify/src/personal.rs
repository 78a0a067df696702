//! Finds what looks like somebody's personal data: addresses, numbers of cards, accounts and telephones.
//!
//! Nothing is known here of anybody: a text is judged by its shape and, where there is one, its checksum.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::redact::INSTEAD;

static MAIL: LazyLock<Regex> =
    LazyLock::new(|| compiled(r"(?i)[\p{L}\p{N}._%+'-]+@[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)+"));
static CARD: LazyLock<Regex> = LazyLock::new(|| compiled(r"\b[0-9](?:[ -]?[0-9]){11,18}\b"));
static ACCOUNT: LazyLock<Regex> =
    LazyLock::new(|| compiled(r"(?i)\b[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b"));
static PHONE: LazyLock<Regex> = LazyLock::new(|| compiled(r"\+[0-9](?:[ ()/.-]{0,2}[0-9]){7,14}\b"));

fn compiled(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the patterns of this file are valid, which its tests show")
}

/// A text without what looks like personal data.
pub(crate) fn mask_personal(text: &str) -> Cow<'_, str> {
    let text = MAIL.replace_all(text, INSTEAD);
    let text =
        then(text, |text| ACCOUNT.replace_all(text, |found: &Captures<'_>| unless(&found[0], is_account)));
    let text = then(text, |text| CARD.replace_all(text, |found: &Captures<'_>| unless(&found[0], is_card)));
    then(text, |text| PHONE.replace_all(text, INSTEAD))
}

fn then<'t>(text: Cow<'t, str>, change: impl for<'a> Fn(&'a str) -> Cow<'a, str>) -> Cow<'t, str> {
    match change(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(changed) => Cow::Owned(changed),
    }
}

/// What was found, if it is not what it looks like.
fn unless(found: &str, is: fn(&str) -> bool) -> String {
    if is(found) { INSTEAD.to_owned() } else { found.to_owned() }
}

/// Whether the last digit of a card's number is right (ISO/IEC 7812).
fn is_card(found: &str) -> bool {
    let digits = found.chars().rev().filter_map(|char| char.to_digit(10));
    let sum: u32 = digits
        .enumerate()
        .map(|(ix, digit)| match (ix % 2, digit * 2) {
            (0, _) => digit,
            (_, doubled) => doubled % 10 + doubled / 10,
        })
        .sum();
    sum.is_multiple_of(10)
}

/// Whether the check digits of an account's number are right (ISO 13616).
fn is_account(found: &str) -> bool {
    let plain: String = found.chars().filter(|char| *char != ' ').collect();
    let (head, tail) = plain.split_at(4);
    let values = tail.chars().chain(head.chars()).filter_map(|char| char.to_digit(36));
    let rest = values.fold(0, |rest, value| (rest * if value < 10 { 10 } else { 100 } + value) % 97);
    rest == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_personal_is_removed() {
        for (text, expected) in [
            ("write to Jörg.Müller+x@mail.example.com.", "write to [removed]."),
            ("card 4111 1111 1111 1111, please", "card [removed], please"),
            ("card 4111111111111111", "card [removed]"),
            ("pay DE89 3704 0044 0532 0130 00 now", "pay [removed] now"),
            ("pay gb82west12345698765432", "pay [removed]"),
            ("call +49 (30) 1234-5678 today", "call [removed] today"),
        ] {
            assert_eq!(mask_personal(text), expected);
        }
    }

    #[test]
    fn ordinary_words_and_numbers_stay() {
        for text in [
            "order 4111111111111112 of 2026-03-24, 10:00",
            "pay DE88 3704 0044 0532 0130 00",
            "ask @alice, or a@b, about 1 + 2 = 3 and +5 %",
            "run-01a1e10b-110b-737b-ade8-1a967fa3b7ff",
        ] {
            assert_eq!(mask_personal(text), text);
        }
    }
}
