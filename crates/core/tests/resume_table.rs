//! Whether an interrupted run may be resumed, over the full product of what that depends on.
//!
//! The same table is the page `docs/resume-table.md`. `ABIDE_REGENERATE=1 cargo test -p abide-core --test resume_table`
//! writes it anew.

use std::collections::BTreeSet;
use std::path::PathBuf;

use abide_core::{
    Artifacts, InterruptionClass, Millis, PointStatus, ReasonCode, ResumeFacts, ResumePolicy, ResumeSettings,
    evaluate_resume,
};
use proptest::prelude::*;

const INTRO: &str = "\
# When a run is resumed: the whole table

Every combination of what a decision about an interrupted run depends on, and the reason code that comes of it.
[resume.md](resume.md) says what the codes mean and what to do about each. The first condition that fails decides, from left to right: the
resume point, the class, the step, what can be read, the attempts, the cool-down.

The core's own function wrote this page, and a test compares the two. To write it anew:

    ABIDE_REGENERATE=1 cargo test -p abide-core --test resume_table

";

const NOW: Millis = 1_700_000_000_000;

/// Every value that a condition can have, with its words.
const POINTS: [(Option<PointStatus>, &str); 4] = [
    (None, "none, or its chain does not hold"),
    (Some(PointStatus::Other), "of a run that has ended"),
    (Some(PointStatus::InProgress), "`in_progress`"),
    (Some(PointStatus::Failed), "`failed`"),
];
const STEPS: [(bool, &str); 3] = [(true, "idempotent"), (true, "approved"), (false, "neither")];
const ARTIFACTS: [(Artifacts, &str); 4] = [
    (Artifacts::READABLE, "all"),
    (Artifacts { plan: false, ..Artifacts::READABLE }, "not the definition"),
    (Artifacts { state: false, ..Artifacts::READABLE }, "not the state"),
    (Artifacts { history: false, ..Artifacts::READABLE }, "not the journal"),
];

fn classes() -> Vec<(Option<InterruptionClass>, String)> {
    let known = InterruptionClass::ALL.map(|class| (Some(class), format!("`{}`", class.name())));
    known.into_iter().chain([(None, "any other".to_owned())]).collect()
}

fn facts() -> ResumeFacts {
    ResumeFacts {
        point: Some(PointStatus::InProgress),
        class: Some(InterruptionClass::Timeout),
        safe: true,
        artifacts: Artifacts::READABLE,
        attempts: 0,
        last_attempt: None,
        force: false,
    }
}

fn code(facts: &ResumeFacts) -> ReasonCode {
    evaluate_resume(facts, &ResumePolicy::default(), NOW).code
}

/// A moment within the cool-down of every class, and one after all of them.
const WITHIN: Option<Millis> = Some(NOW - 9_000);
const OVER: Option<Millis> = Some(NOW - 120_000);

fn table() -> String {
    let mut lines = vec![
        "| resume point | class | step | can be read | attempts left, cool-down over | attempts left, within it | none left, over | none left, within it |".to_owned(),
        "|---|---|---|---|---|---|---|---|".to_owned(),
    ];
    for (point, point_words) in POINTS {
        for (class, class_words) in classes() {
            for (safe, step_words) in STEPS {
                for (artifacts, read_words) in ARTIFACTS {
                    let cell = |(attempts, last_attempt)| {
                        let facts = ResumeFacts {
                            point,
                            class,
                            safe,
                            artifacts,
                            attempts,
                            last_attempt,
                            force: false,
                        };
                        format!("`{}`", code(&facts).name())
                    };
                    let cells = [(2, OVER), (2, WITHIN), (3, OVER), (3, WITHIN)].map(cell);
                    lines.push(format!(
                        "| {point_words} | {class_words} | {step_words} | {read_words} | {} |",
                        cells.join(" | ")
                    ));
                }
            }
        }
    }
    lines.join("\n")
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the core reads no files, but the page is one")]
fn the_page_shows_the_whole_product() {
    let page = format!("{INTRO}{}\n", table());
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/resume-table.md");
    if std::env::var_os("ABIDE_REGENERATE").is_some_and(|value| value == "1") {
        std::fs::write(&path, &page).expect("the page can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/resume-table.md is not what the core does; write it anew with: ABIDE_REGENERATE=1 cargo test -p abide-core \
         --test resume_table"
    );
    assert_eq!(table().lines().count(), 2 + 4 * 5 * 3 * 4);
    let codes: BTreeSet<&str> = ReasonCode::ALL.map(ReasonCode::name).into();
    assert_eq!(codes.len(), 7);
    assert!(codes.iter().all(|code| table().contains(code)), "a code is never given");
}

type Spoil = fn(&mut ResumeFacts);

/// A way to make each condition fail, in the order in which they are looked at.
fn failures() -> [(ReasonCode, Spoil); 6] {
    [
        (ReasonCode::MissingCheckpoint, |facts| facts.point = None),
        (ReasonCode::UnknownClass, |facts| facts.class = None),
        (ReasonCode::NonIdempotentStep, |facts| facts.safe = false),
        (ReasonCode::MissingArtifacts, |facts| facts.artifacts.history = false),
        (ReasonCode::AttemptLimit, |facts| facts.attempts = 3),
        (ReasonCode::Cooldown, |facts| facts.last_attempt = WITHIN),
    ]
}

#[test]
fn of_two_failing_conditions_the_first_says_why() {
    for (at, (first, fail_first)) in failures().into_iter().enumerate() {
        for (_, fail_second) in failures().into_iter().skip(at) {
            let mut facts = facts();
            fail_first(&mut facts);
            fail_second(&mut facts);
            assert_eq!(code(&facts), first);
        }
    }
}

#[test]
fn a_point_that_is_in_progress_or_failed_is_enough_and_any_other_is_none() {
    let at = |point| code(&ResumeFacts { point, ..facts() });
    assert_eq!(at(Some(PointStatus::InProgress)), ReasonCode::Allowed);
    assert_eq!(at(Some(PointStatus::Failed)), ReasonCode::Allowed);
    assert_eq!(at(Some(PointStatus::Other)), ReasonCode::MissingCheckpoint);
    assert_eq!(at(None), ReasonCode::MissingCheckpoint);
}

#[test]
fn each_class_has_its_cool_down_and_the_first_resume_has_none() {
    let windows = [
        (InterruptionClass::ToolFailure, 30),
        (InterruptionClass::Timeout, 120),
        (InterruptionClass::ContextReset, 10),
        (InterruptionClass::ProcessCrash, 60),
    ];
    for (class, seconds) in windows {
        let after = |ms: Millis| {
            let facts = ResumeFacts { class: Some(class), last_attempt: Some(NOW - ms), ..facts() };
            let verdict = evaluate_resume(&facts, &ResumePolicy::default(), NOW);
            (verdict.code, verdict.remaining_seconds())
        };
        assert_eq!(after((seconds - 1) * 1000), (ReasonCode::Cooldown, 1), "{class:?}");
        assert_eq!(after(seconds * 1000), (ReasonCode::Allowed, 0), "{class:?}");
        let first = ResumeFacts { class: Some(class), ..facts() };
        assert_eq!(code(&first), ReasonCode::Allowed);
    }
}

#[test]
fn what_is_left_of_a_cool_down_is_told_in_whole_seconds_and_never_as_none() {
    let left = |ms: Millis| {
        let facts = ResumeFacts { last_attempt: Some(NOW - 120_000 + ms), ..facts() };
        evaluate_resume(&facts, &ResumePolicy::default(), NOW).remaining_seconds()
    };
    assert_eq!([left(87_000), left(86_001), left(400), left(1), left(0)], [87, 87, 1, 1, 0]);
}

#[test]
fn the_count_decides_at_the_limit_and_not_before() {
    let after = |attempts| code(&ResumeFacts { attempts, ..facts() });
    assert_eq!(
        [2, 3, 4].map(after),
        [ReasonCode::Allowed, ReasonCode::AttemptLimit, ReasonCode::AttemptLimit]
    );
    let once = ResumePolicy { max_attempts: 1, ..ResumePolicy::default() };
    let facts = |attempts| ResumeFacts { attempts, ..facts() };
    assert_eq!(evaluate_resume(&facts(0), &once, NOW).code, ReasonCode::Allowed);
    assert_eq!(evaluate_resume(&facts(1), &once, NOW).code, ReasonCode::AttemptLimit);
}

#[test]
fn force_overrides_the_limit_and_the_cool_down_and_nothing_else() {
    for (why, fail) in failures() {
        let mut facts = ResumeFacts { force: true, ..facts() };
        fail(&mut facts);
        let overridden = matches!(why, ReasonCode::AttemptLimit | ReasonCode::Cooldown);
        assert_eq!(code(&facts), if overridden { ReasonCode::Allowed } else { why });
    }
}

#[test]
fn a_definition_goes_before_the_operator_and_both_before_the_defaults() {
    let own = ResumeSettings { max_attempts: Some(1), ..ResumeSettings::default() };
    let operator = ResumeSettings {
        max_attempts: Some(9),
        cooldown_seconds: [Some(5), None, None, None],
        auto: Some(false),
        ..ResumeSettings::default()
    };
    let policy = ResumePolicy::of([&own, &operator]);
    assert_eq!((policy.max_attempts, policy.auto), (1, false));
    assert_eq!(policy.cooldowns.of(InterruptionClass::ToolFailure), 5_000);
    assert_eq!(policy.cooldowns.of(InterruptionClass::Timeout), 120_000);
    assert_eq!(ResumePolicy::of([&ResumeSettings::default(); 2]), ResumePolicy::default());
    assert_eq!(ResumePolicy::default().max_attempts, 3);
}

fn any_facts() -> impl Strategy<Value = ResumeFacts> {
    let point = prop::sample::select(POINTS.map(|(point, _)| point).to_vec());
    let class = prop::sample::select(classes().into_iter().map(|(class, _)| class).collect::<Vec<_>>());
    let rest = (any::<[bool; 5]>(), any::<u32>(), prop::option::of(any::<i64>()));
    (point, class, rest).prop_map(
        |(point, class, ([safe, plan, state, history, force], attempts, last_attempt))| ResumeFacts {
            point,
            class,
            safe,
            artifacts: Artifacts { plan, state, history },
            attempts,
            last_attempt,
            force,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn equal_facts_give_equal_codes_and_no_facts_overflow(facts in any_facts(), now: i64) {
        let policy = ResumePolicy::default();
        let verdict = evaluate_resume(&facts, &policy, now);
        prop_assert_eq!(verdict, evaluate_resume(&facts.clone(), &policy, now));
        prop_assert_eq!(verdict.remaining_ms > 0, verdict.code == ReasonCode::Cooldown);
        prop_assert!(verdict.remaining_seconds() >= 0);
    }
}
