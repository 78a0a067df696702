//! Points in time as they are written: RFC 3339.

use crate::Millis;

const DAY_MS: i64 = 24 * 3_600_000;

/// The last moment that RFC 3339 can write.
const LAST: Millis = 253_402_300_799_999;

/// The first moment that RFC 3339 can write.
const FIRST: Millis = -62_167_219_200_000;

/// In UTC, with milliseconds.
pub fn rfc3339(at: Millis) -> String {
    let at = at.clamp(FIRST, LAST);
    let (day, rest) = (at.div_euclid(DAY_MS), at.rem_euclid(DAY_MS));
    let (year, month, date) = civil(day);
    let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
    let (second, milli) = (rest / 1_000 % 60, rest % 1_000);
    format!("{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// The same without its zone, for those whose clocks know none.
pub fn naive(at: Millis) -> String {
    let mut text = rfc3339(at);
    text.pop();
    text
}

/// A moment as RFC 3339 writes it; the seconds may be left out. What is finer than a millisecond is dropped.
pub(crate) fn moment(text: &str) -> Option<Millis> {
    let mut text = Scan(text);
    let year = text.digits(4)?;
    text.one_of("-")?;
    let month = text.digits(2).filter(|month| (1..=12).contains(month))?;
    text.one_of("-")?;
    let date = text.digits(2).filter(|date| (1..=days_in(year, month)).contains(date))?;
    text.one_of("Tt")?;
    let (hour, minute) = text.hour_and_minute()?;
    let millis = if text.one_of(":").is_some() { text.second()? } else { 0 };
    let offset = text.offset()?;
    if !text.0.is_empty() {
        return None;
    }
    Some(day_of(year, month, date) * DAY_MS + (hour * 60 + minute - offset) * 60_000 + millis)
}

/// What is left of a text.
struct Scan<'t>(&'t str);

impl Scan<'_> {
    fn one_of(&mut self, set: &str) -> Option<char> {
        let first = self.0.chars().next().filter(|first| set.contains(*first))?;
        self.0 = &self.0[first.len_utf8()..];
        Some(first)
    }

    fn digits(&mut self, count: usize) -> Option<i64> {
        let (digits, rest) = self.0.split_at_checked(count)?;
        let number = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())??;
        self.0 = rest;
        Some(number)
    }

    fn hour_and_minute(&mut self) -> Option<(i64, i64)> {
        let hour = self.digits(2).filter(|hour| *hour < 24)?;
        self.one_of(":")?;
        Some((hour, self.digits(2).filter(|minute| *minute < 60)?))
    }

    /// The milliseconds of the second and its fraction. A leap second is the first one of the next minute.
    fn second(&mut self) -> Option<i64> {
        let second = self.digits(2).filter(|second| *second <= 60)?;
        if self.one_of(".").is_none() {
            return Some(second * 1_000);
        }
        let digits = self.0.bytes().take_while(u8::is_ascii_digit).count();
        let (fraction, rest) = self.0.split_at(digits);
        self.0 = rest;
        let millis =
            fraction.bytes().chain(*b"00").take(3).fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
        (digits > 0).then_some(second * 1_000 + millis)
    }

    /// Minutes east of UTC.
    fn offset(&mut self) -> Option<i64> {
        let sign = match self.one_of("Zz+-")? {
            '+' => 1,
            '-' => -1,
            _ => return Some(0),
        };
        let (hours, minutes) = self.hour_and_minute()?;
        Some(sign * (hours * 60 + minutes))
    }
}

fn days_in(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days of 400 years, after which the calendar repeats.
const ERA_DAYS: i64 = 146_097;

/// Days from the first of March in the year 0 to the first of January 1970.
const EPOCH: i64 = 719_468;

/// The day of a date, counted from 1970. Years begin in March here, so that the leap day is their last.
fn day_of(year: i64, month: i64, date: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
    let days = year * 365 + year / 4 - year / 100 + (153 * month + 2) / 5 + date - 1;
    era * ERA_DAYS + days - EPOCH
}

/// The date of a day that is counted from 1970.
fn civil(day: i64) -> (i64, i64, i64) {
    let day = day + EPOCH;
    let (era, day) = (day.div_euclid(ERA_DAYS), day.rem_euclid(ERA_DAYS));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (year * 365 + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let year = era * 400 + year;
    if month < 10 { (year, month + 3, date) } else { (year + 1, month - 9, date) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_moment_is_written_with_its_milliseconds() {
        for (at, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_763_222_400_123, "2025-11-15T16:00:00.123Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (i64::MAX, "9999-12-31T23:59:59.999Z"),
            (i64::MIN, "0000-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(at), text);
        }
    }

    #[test]
    fn a_moment_is_read_in_each_form_that_is_in_use() {
        let noon = moment("2026-05-01T10:00:00.000Z").unwrap();
        for same in [
            "2026-05-01T10:00Z",
            "2026-05-01T10:00:00Z",
            "2026-05-01t10:00:00z",
            "2026-05-01T10:00:00.0009Z",
            "2026-05-01T12:00+02:00",
            "2026-05-01T04:30:00-05:30",
        ] {
            assert_eq!(moment(same), Some(noon), "{same}");
        }
        assert_eq!(moment("2026-05-01T10:00:00.5Z"), Some(noon + 500));
        assert_eq!(moment("2026-05-01T10:00:60Z"), Some(noon + 60_000));
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for text in [
            "",
            "2026",
            "2026-05-01",
            "2026-05-01T10Z",
            "2026-05-01T10:00",
            "2026-05-01T10:00:00",
            "2026-05-01 10:00Z",
            "2026-05-01T24:00Z",
            "2026-05-01T10:60Z",
            "2026-05-01T10:00:61Z",
            "2026-05-01T10:00:00.Z",
            "2026-05-01T10:00+2",
            "2026-05-01T10:00+24:00",
            "2026-05-01T10:00ZZ",
            "2026-02-29T10:00Z",
            "2026-13-01T10:00Z",
            "2026-00-01T10:00Z",
            "2026-04-31T10:00Z",
            "+026-04-30T10:00Z",
            "２026-04-30T10:00Z",
            "tomorrow",
        ] {
            assert_eq!(moment(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(at in FIRST..=LAST) {
            prop_assert_eq!(moment(&rfc3339(at)), Some(at));
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in "\\PC{0,40}|[0-9TZ:.+-]{0,40}") {
            let _ = moment(&text);
        }
    }
}
