//! Rates: whatever the times are at which somebody asks, no window of time lets through more than it should.

use abide_core::{Bucket, Millis, Rate};
use proptest::prelude::*;

fn rate(text: &str) -> Rate {
    text.parse().expect("the tests write rates")
}

/// A rate, its tokens in a second, and its burst.
fn rates() -> impl Strategy<Value = (Rate, f64, u32)> {
    (1..2000_u32, prop::bool::ANY, 1..500_u32).prop_map(|(count, minute, burst)| {
        let (unit, seconds) = if minute { ("m", 60.0) } else { ("s", 1.0) };
        (rate(&format!("{count}/{unit}:{burst}")), f64::from(count) / seconds, burst)
    })
}

#[test]
fn a_rate_is_written_as_so_many_in_a_second_or_a_minute() {
    for (written, told) in [
        ("50/s", "50/s:50"),
        ("600/m", "600/m:10"),
        ("1/m", "1/m:1"),
        ("50/s:7", "50/s:7"),
        ("1000000/s:1", "1000000/s:1"),
    ] {
        assert_eq!(rate(written).to_string(), told);
        assert_eq!(rate(told), rate(written));
    }
}

#[test]
fn what_is_no_rate_is_refused_with_an_example() {
    for text in [
        "",
        "50",
        "/s",
        "50/",
        "50/h",
        "0/s",
        "-1/s",
        "+1/s",
        "1000001/s",
        "5/s:0",
        "5/s:",
        "5/s:1000001",
        "5 /s",
        "٥/s",
        "5/s:1:1",
    ] {
        let told = text.parse::<Rate>().unwrap_err();
        assert!(told.contains("50/s or 600/m"), "{text}: {told}");
    }
}

#[test]
fn a_burst_comes_at_once_and_the_rest_at_its_pace() {
    let (rate, mut bucket) = (rate("10/s:3"), Bucket::default());
    for _ in 0..3 {
        assert_eq!(bucket.take(rate, 5000), Ok(()));
    }
    assert_eq!(bucket.take(rate, 5000), Err(100));
    assert_eq!(bucket.take(rate, 5099), Err(1));
    assert_eq!(bucket.take(rate, 5100), Ok(()));
    assert_eq!(bucket.take(rate, 5100), Err(100));
    assert!(!bucket.is_full(5399) && bucket.is_full(5400));
}

#[test]
fn a_token_that_is_given_back_can_be_taken_again() {
    let (rate, mut bucket) = (rate("1/m:1"), Bucket::default());
    assert_eq!(bucket.take(rate, 0), Ok(()));
    assert_eq!(bucket.take(rate, 0), Err(60_000));
    bucket.give_back(rate);
    assert_eq!(bucket.take(rate, 0), Ok(()));
}

#[test]
fn a_clock_that_is_put_back_costs_no_more_than_an_empty_bucket() {
    let (rate, mut bucket) = (rate("1/s:5"), Bucket::default());
    assert_eq!(bucket.take(rate, 1_000_000_000), Ok(()));
    assert_eq!(bucket.take(rate, 1000), Err(1000));
    assert_eq!(bucket.take(rate, 2000), Ok(()), "the wait is kept to on the clock as it is now");
    assert_eq!(bucket.take(rate, 2000), Err(1000));
    assert_eq!(bucket.take(rate, Millis::MIN), Err(1000));
    assert_eq!(bucket.take(rate, Millis::MAX), Ok(()));
}

proptest! {
    /// In any window, no more than the burst and what the window itself brings.
    #[test]
    fn no_window_lets_through_more_than_its_share(
        (rate, per_second, burst) in rates(),
        gaps in prop::collection::vec(0..3000_i64, 1..400),
    ) {
        let (mut bucket, mut now, mut taken) = (Bucket::default(), 1_700_000_000_000_i64, Vec::new());
        for gap in gaps {
            now += gap;
            if bucket.take(rate, now).is_ok() {
                taken.push(now);
            }
        }
        for (first, begin) in taken.iter().enumerate() {
            for (last, end) in taken.iter().enumerate().skip(first) {
                let seconds = (end - begin) as f64 / 1000.0;
                // Intervals are whole microseconds, which may bring a thousandth more.
                let share = f64::from(burst) + per_second * seconds * 1.002 + 1e-6;
                prop_assert!((last - first + 1) as f64 <= share, "{rate}: {} in {seconds} s", last - first + 1);
            }
        }
    }

    /// Whoever waits as long as told gets a token, and nobody is told to wait longer than needed.
    #[test]
    fn the_wait_is_as_long_as_it_has_to_be(
        (rate, _, _) in rates(),
        gaps in prop::collection::vec(0..50_i64, 1..200),
    ) {
        let (mut bucket, mut now) = (Bucket::default(), 1_700_000_000_000_i64);
        for gap in gaps {
            now += gap;
            let before = bucket;
            if let Err(wait) = bucket.take(rate, now) {
                prop_assert!(wait >= 1);
                prop_assert_eq!(bucket, before, "a refusal takes nothing");
                prop_assert!(before.clone().take(rate, now + wait - 1).is_err());
                prop_assert_eq!(before.clone().take(rate, now + wait), Ok(()));
            }
        }
    }

    /// One who asks no more often than the rate is never refused.
    #[test]
    fn one_who_keeps_to_the_pace_is_never_refused((rate, per_second, _) in rates(), count in 1..300_usize) {
        let (mut bucket, mut now) = (Bucket::default(), 0);
        for _ in 0..count {
            prop_assert_eq!(bucket.take(rate, now), Ok(()));
            now += (1000.0 / per_second).ceil() as i64;
        }
    }

    /// No times, however wrong, make it panic or wait longer than an empty bucket takes for one token.
    #[test]
    fn wrong_clocks_do_no_harm(times in prop::collection::vec(any::<i64>(), 1..50)) {
        let (rate, mut bucket) = (rate("1/m:3"), Bucket::default());
        for now in times {
            if let Err(wait) = bucket.take(rate, now) {
                prop_assert!((1..=60_000).contains(&wait), "{wait}");
            }
        }
    }
}
