//! Texts of others, made fit to be shown: without characters that break lines or deceive the eye, and not too long.

use abide_core::{Millis, rfc3339};

/// On one line. Control characters become spaces, so nothing in it can begin a header, a line or a block of its own.
pub(crate) fn one_line(text: &str, chars_max: usize) -> String {
    let spaced: String = text.chars().map(|char| if breaks(char) { ' ' } else { char }).collect();
    clip(&spaced.split_whitespace().collect::<Vec<_>>().join(" "), chars_max)
}

/// On as many lines as it has, without other control characters.
pub(crate) fn lines(text: &str, chars_max: usize) -> String {
    let text = text.replace("\r\n", "\n");
    let kept: String = text.chars().filter(|char| matches!(char, '\n' | '\t') || !breaks(*char)).collect();
    clip(kept.trim(), chars_max)
}

/// What people see of it: without what is taken out before it is shown, and without characters that have no width.
pub(crate) fn seen(text: &str) -> String {
    let has_no_width =
        |char| matches!(char, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{180e}');
    text.chars()
        .filter(|char| matches!(char, '\n' | '\r' | '\t') || !(breaks(*char) || has_no_width(*char)))
        .collect()
}

/// Its beginning, with a sign that there was more.
pub(crate) fn clip(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        None => text.to_owned(),
        Some(_) => text.chars().take(chars_max.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// To the minute, as people write it.
pub(crate) fn moment(at: Millis) -> String {
    let text = rfc3339(at);
    format!("{} {} UTC", &text[..10], &text[11..16])
}

/// Whether a character ends a line, or turns the direction of writing around to make a text look like another.
fn breaks(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_breaks_out_of_a_line() {
        let text = "Pay\r\nBcc: x@example.com\0\u{2028}now\u{202e}gpj.exe\u{1b}[2J";
        assert_eq!(one_line(text, 100), "Pay Bcc: x@example.com now gpj.exe [2J");
        assert_eq!(lines("a\r\nb\u{7}\rc\n", 100), "a\nbc");
    }

    #[test]
    fn what_is_cut_says_so_and_keeps_to_the_limit() {
        assert_eq!(clip("größer", 6), "größer");
        assert_eq!(clip("größer", 5), "größ…");
        assert_eq!(clip("größer", 0), "…");
    }

    #[test]
    fn a_moment_is_told_to_the_minute() {
        assert_eq!(moment(1_774_346_399_999), "2026-03-24 09:59 UTC");
    }
}
