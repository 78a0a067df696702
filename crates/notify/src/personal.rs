//! Finds what looks like somebody's personal data: addresses, numbers of cards, accounts and telephones.
//!
//! Nothing is known here of anybody: a text is judged by its shape and, where there is one, its checksum.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::redact::INSTEAD;

static MAIL: LazyLock<Regex> =
    LazyLock::new(|| compiled(r"(?i)[\p{L}\p{N}._%+'-]+@[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)+"));
/// As many digits as stand together: which of them are a card's is for the checksum to say.
static DIGITS: LazyLock<Regex> =
    LazyLock::new(|| compiled(r"\b[0-9](?:[ \u{a0}\u{202f}\u{2011}-]?[0-9]){11,}\b"));
/// How the number of an account begins.
static ACCOUNT: LazyLock<Regex> = LazyLock::new(|| compiled(r"(?i)\b[A-Z]{2}[0-9]{2}"));
static PHONE: LazyLock<Regex> = LazyLock::new(|| compiled(r"\+[0-9](?:[ ()/.-]{0,2}[0-9]){7,14}\b"));

/// How many digits the number of a card has (ISO/IEC 7812).
const CARD_DIGITS_MIN: usize = 12;
const CARD_DIGITS_MAX: usize = 19;

/// How many characters the number of an account has (ISO 13616).
const ACCOUNT_CHARS_MIN: usize = 15;
const ACCOUNT_CHARS_MAX: usize = 34;

fn compiled(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the patterns of this file are valid, which its tests show")
}

/// A text without what looks like personal data.
pub(crate) fn mask_personal(text: &str) -> Cow<'_, str> {
    let text = MAIL.replace_all(text, INSTEAD);
    let text = then(text, without_accounts);
    let text = then(text, |text| DIGITS.replace_all(text, |found: &Captures<'_>| without_cards(&found[0])));
    then(text, |text| PHONE.replace_all(text, INSTEAD))
}

fn then<'t>(text: Cow<'t, str>, change: impl for<'a> Fn(&'a str) -> Cow<'a, str>) -> Cow<'t, str> {
    match change(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(changed) => Cow::Owned(changed),
    }
}

/// Digits in groups, without those groups that are the number of a card. Other numbers may stand right beside one: an
/// amount before it, a date or a code behind it.
fn without_cards(found: &str) -> String {
    let groups = groups(found);
    let (mut clean, mut kept, mut ix) = (String::new(), 0, 0);
    while ix < groups.len() {
        match card_at(found, &groups[ix..]) {
            Some(count) => {
                clean += &found[kept..groups[ix].start];
                clean += INSTEAD;
                ix += count;
                kept = groups[ix - 1].end;
            }
            None => ix += 1,
        }
    }
    clean + &found[kept..]
}

/// How many of these groups of digits are the number of a card together, from the first one on.
fn card_at(text: &str, groups: &[Range<usize>]) -> Option<usize> {
    let mut digits = 0;
    let sizes = groups.iter().map_while(|group| {
        digits += group.len();
        (digits <= CARD_DIGITS_MAX).then_some((digits, group.end))
    });
    let is_card = |digits, end| digits >= CARD_DIGITS_MIN && is_card(&text[groups[0].start..end]);
    sizes.enumerate().filter(|(_, (digits, end))| is_card(*digits, *end)).last().map(|(ix, _)| ix + 1)
}

/// Where the groups of digits in a text are.
fn groups(text: &str) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    for (at, _) in text.char_indices().filter(|(_, char)| char.is_ascii_digit()) {
        match groups.last_mut() {
            Some(last) if last.end == at => last.end += 1,
            _ => groups.push(at..at + 1),
        }
    }
    groups
}

/// A text without numbers of accounts. What stands behind one may look like more of it, so every word may be the last.
fn without_accounts(text: &str) -> Cow<'_, str> {
    let (mut clean, mut kept) = (String::new(), 0);
    for head in ACCOUNT.find_iter(text) {
        let ends =
            || account_ends(&text[head.start()..]).filter(|end| is_account(&text[head.start()..][..*end]));
        if let Some(end) = ends().last().filter(|_| head.start() >= kept) {
            clean += &text[kept..head.start()];
            clean += INSTEAD;
            kept = head.start() + end;
        }
    }
    if kept == 0 { Cow::Borrowed(text) } else { Cow::Owned(clean + &text[kept..]) }
}

/// Where the number of an account may end that begins here.
fn account_ends(text: &str) -> impl Iterator<Item = usize> {
    let (mut chars, mut gap) = (0, false);
    let steps = text.char_indices().map_while(move |(at, char)| {
        let is_part = char.is_ascii_alphanumeric();
        let is_gap = matches!(char, ' ' | '-' | '\u{a0}' | '\u{202f}') && !gap;
        (chars, gap) = (chars + usize::from(is_part), is_gap);
        (is_part && chars <= ACCOUNT_CHARS_MAX || is_gap).then_some((at + char.len_utf8(), chars, is_part))
    });
    let ends_word = |end: usize| !text[end..].starts_with(char::is_alphanumeric);
    steps
        .filter(move |(end, chars, is_part)| *is_part && *chars >= ACCOUNT_CHARS_MIN && ends_word(*end))
        .map(|(end, ..)| end)
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
    let plain: String = found.chars().filter(char::is_ascii_alphanumeric).collect();
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
    fn what_stands_beside_a_number_does_not_hide_it() {
        for (text, expected) in [
            ("refund 50 4111 1111 1111 1111", "refund 50 [removed]"),
            ("4111 1111 1111 1111 123", "[removed] 123"),
            ("4111-1111-1111-1111 12/27", "[removed] 12/27"),
            ("1234 4111 1111 1111 1111 5678", "1234 [removed] 5678"),
            ("4111111111111111 5500005555555559", "[removed] [removed]"),
            ("4111\u{a0}1111\u{a0}1111\u{a0}1111", "[removed]"),
            ("ES91 2100 0418 4502 0005 1332 now", "[removed] now"),
            ("ES91 2100 0418 4502 0005 1332 from Bob", "[removed] from Bob"),
            ("ES91-2100-0418-4502-0005-1332", "[removed]"),
            ("PO12 3456 7890 DE89 3704 0044 0532 0130 00", "PO12 3456 7890 [removed]"),
        ] {
            assert_eq!(mask_personal(text), expected);
        }
    }

    #[test]
    fn numbers_without_end_are_gone_through_once() {
        for part in ["1 ", "12", "AB12", "AB12 ", "+1", "a@", "a@a."] {
            let text = format!("{} end", part.repeat(1 << 18));
            assert!(mask_personal(&text).ends_with("end"), "{part}");
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
