//! Policies as they are written: every value that makes no sense is refused, and its field named.

use super::*;

/// The places of what is wrong with a policy that stands by itself.
#[track_caller]
fn wrong(value: &Value) -> Vec<String> {
    let problems = HumanRetryPolicy::read(&Json::of(value)).expect_err("the policy is refused");
    problems.into_iter().map(|problem| problem.place).collect()
}

/// What is wrong with a ladder of a question, by the keys of the ladder.
#[track_caller]
fn refused(ladder: Value) -> BTreeMap<String, String> {
    let told = asking(ladder).problems();
    let below = "nodes['gate'].settings.abide.ladder";
    let strip = |(place, message): (String, String)| {
        let key = place.strip_prefix(below).unwrap_or_else(|| panic!("{place} is not in the ladder"));
        (key.trim_start_matches('.').to_owned(), message)
    };
    places(&told).into_iter().map(strip).collect()
}

#[track_caller]
fn rungs(entries: &Value) -> Vec<String> {
    wrong(&json!({ "max_attempts": 3, "escalation_ladder": entries }))
}

#[test]
fn a_policy_is_read_as_the_protocol_writes_it() {
    let read = policy(&example());
    assert_eq!((read.max_attempts, read.interval_seconds), (Some(3), Some(3600)));
    assert_eq!(read.strategy, Some(abide_core::Strategy::Fixed));
    assert_eq!(read.final_fallback_policy, Some(abide_core::FallbackPolicy::Fail));
    let rungs = read.escalation_ladder.clone().expect("it has one");
    assert_eq!(rungs.iter().map(|rung| rung.attempt).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(rungs[1].notify_to.as_deref(), Some("supervisor@example.com"));
    assert_eq!(serde_json::to_value(&read).expect("it is data"), example(), "and written as it was read");
}

#[test]
fn what_is_not_given_is_not_made_up() {
    for nothing in [
        json!({}),
        json!({ "max_attempts": null, "interval_seconds": null, "strategy": null, "escalation_ladder": null,
            "final_fallback_policy": null }),
    ] {
        assert_eq!(policy(&nothing), HumanRetryPolicy::default());
    }
    let one = policy(&json!({ "max_attempts": 1 }));
    assert_eq!((one.max_attempts, one.interval_seconds), (Some(1), None), "given as the default is given");
}

#[test]
fn attempts_are_counted_from_one() {
    for bad in [json!(0), json!(-1), json!(1.5), json!("3"), json!(true), json!([3]), json!(101)] {
        assert_eq!(wrong(&json!({ "max_attempts": bad })), ["max_attempts"], "{bad}");
    }
    for good in [1, 2, 100] {
        assert_eq!(policy(&json!({ "max_attempts": good })).max_attempts, Some(good));
    }
}

#[test]
fn an_interval_is_a_positive_number_of_seconds() {
    for bad in [json!(0), json!(-5), json!(0.5), json!("60"), json!(31_536_001), json!({})] {
        assert_eq!(wrong(&json!({ "interval_seconds": bad })), ["interval_seconds"], "{bad}");
    }
    assert_eq!(policy(&json!({ "interval_seconds": 31_536_000 })).interval_seconds, Some(31_536_000));
}

#[test]
fn the_only_strategy_is_fixed() {
    for bad in [json!("exponential"), json!("linear"), json!("Fixed"), json!(""), json!(1)] {
        assert_eq!(wrong(&json!({ "strategy": bad })), ["strategy"], "{bad}");
    }
    policy(&json!({ "strategy": "fixed" }));
    let story = Story::of(&asking(json!({ "timeout_seconds": 60 }))).start();
    assert_eq!(story.ladder()["strategy"], "fixed", "and it is the default");
}

#[test]
fn the_final_fallback_is_one_of_three() {
    for bad in [json!("deny"), json!("FAIL"), json!(""), json!(false)] {
        assert_eq!(wrong(&json!({ "final_fallback_policy": bad })), ["final_fallback_policy"], "{bad}");
        assert!(refused(json!({ "fallback_policy": bad })).contains_key("fallback_policy"), "{bad}");
    }
    for good in ["fail", "complete_with_fallback", "use_default_and_continue"] {
        let read = policy(&json!({ "final_fallback_policy": good }));
        assert_eq!(read.final_fallback_policy.map(abide_core::FallbackPolicy::name), Some(good));
    }
}

#[test]
fn a_rung_has_an_attempt_and_a_channel() {
    let first = |rest: &str| vec![format!("escalation_ladder.0{rest}")];
    for bad in [json!(0), json!(-1), json!("2"), json!(1.5), json!(null), json!(101)] {
        let told = rungs(&json!([{ "attempt": bad, "channel_hint": "email" }]));
        assert_eq!(told, first(".attempt"), "{bad}");
    }
    assert_eq!(rungs(&json!([{ "channel_hint": "email" }])), first(""));
    for bad in [json!(null), json!(""), json!("x".repeat(65)), json!("a\u{7}b")] {
        let told = rungs(&json!([{ "attempt": 2, "channel_hint": bad }]));
        assert!(told.iter().all(|place| place == "escalation_ladder.0.channel_hint"), "{told:?}");
        assert!(!told.is_empty(), "{bad}");
    }
    for bad in [json!(7), json!("x".repeat(257)), json!("a\nb")] {
        let told = rungs(&json!([{ "attempt": 2, "channel_hint": "email", "notify_to": bad }]));
        assert_eq!(told, first(".notify_to"), "{bad}");
    }
    assert_eq!(rungs(&json!([7])), first(""));
    assert_eq!(rungs(&json!({})), ["escalation_ladder"]);
    assert_eq!(rungs(&json!("none")), ["escalation_ladder"]);
    let many: Vec<Value> = (1..=101).map(|at| json!({ "attempt": at, "channel_hint": "x" })).collect();
    assert_eq!(wrong(&json!({ "escalation_ladder": many })), ["escalation_ladder"]);
}

#[test]
fn nobody_to_tell_is_null_however_it_is_written() {
    for nobody in [json!(null), json!("")] {
        let ladder = json!({ "retry_policy": {
            "max_attempts": 2, "interval_seconds": 60,
            "escalation_ladder": [{ "attempt": 2, "channel_hint": "email", "notify_to": nobody }],
        }});
        let story = Story::of(&asking(ladder)).start();
        assert_eq!(story.ladder()["escalation_ladder"][0]["notify_to"], Value::Null, "{nobody}");
        let id = story.asked();
        let story = story.at(secs(60)).climb(id);
        assert_eq!(story.all("interrupt.escalated")[0]["escalatedTo"], Value::Null);
    }
    let bare = policy(&json!({ "escalation_ladder": [{ "attempt": 2, "channel_hint": "email" }] }));
    assert_eq!(bare.escalation_ladder.expect("it has one")[0].notify_to, None);
}

#[test]
fn two_rungs_of_one_level_for_one_attempt_are_refused_by_name() {
    let twice = json!([
        { "attempt": 2, "channel_hint": "email" },
        { "attempt": 3, "channel_hint": "email" },
        { "attempt": 2, "channel_hint": "slack" },
    ]);
    assert_eq!(rungs(&twice), ["escalation_ladder.2.attempt"]);
    let told = refused(json!({ "retry_policy": { "interval_seconds": 60, "escalation_ladder": twice } }));
    assert!(told["retry_policy.escalation_ladder.2.attempt"].contains("attempt 2 already"), "{told:?}");
}

#[test]
fn a_rung_beyond_the_attempts_of_its_own_level_is_refused() {
    let beyond = json!([{ "attempt": 3, "channel_hint": "a" }, { "attempt": 4, "channel_hint": "b" }]);
    assert_eq!(rungs(&beyond), ["escalation_ladder.1.attempt"]);
    let ladder = json!({ "retry_policy": {
        "max_attempts": 3, "interval_seconds": 60, "escalation_ladder": beyond,
    }});
    let told = refused(ladder);
    assert_eq!(told.keys().collect::<Vec<_>>(), ["retry_policy.escalation_ladder.1.attempt"]);
    assert!(told.values().all(|message| message.contains("max_attempts is 3")), "{told:?}");
    policy(&json!({ "escalation_ladder": beyond })).escalation_ladder.expect("how many there are is open");
}

#[test]
fn an_interval_longer_than_the_window_beside_it_is_refused() {
    let told = refused(json!({ "timeout_seconds": 600, "retry_policy": { "interval_seconds": 700 } }));
    let message = &told["retry_policy.interval_seconds"];
    assert!(message.contains("700") && message.contains("600"), "{message}");
    let equal = json!({ "timeout_seconds": 600, "retry_policy": { "interval_seconds": 600 } });
    assert_eq!(Story::of(&asking(equal)).start().ladder()["interval_seconds"], 600);
}

#[test]
fn keys_that_nobody_knows_are_refused() {
    assert_eq!(wrong(&json!({ "intervall": 60 })), ["intervall"]);
    assert_eq!(wrong(&json!({ "fallback_value": 1 })), ["fallback_value"], "that is of the question");
    let rung = json!([{ "attempt": 2, "channel_hint": "email", "notify": "bob" }]);
    assert_eq!(rungs(&rung), ["escalation_ladder.0.notify"]);
    assert!(refused(json!({ "timeout": 60 })).contains_key("timeout"));
    let below = refused(json!({ "retry_policy": { "intervall": 60 } }));
    assert_eq!(below.keys().collect::<Vec<_>>(), ["retry_policy.intervall"]);
    let twice = serde_json::from_str::<Json>(r#"{"max_attempts":1,"max_attempts":2}"#).expect("it is JSON");
    let problems = HumanRetryPolicy::read(&twice).expect_err("which one is meant?");
    assert_eq!(problems[0].place, "max_attempts");
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let bad = json!({
        "max_attempts": 0, "interval_seconds": -1, "strategy": "linear", "final_fallback_policy": "x",
        "escalation_ladder": [{ "attempt": 2 }], "colour": "red",
    });
    let mut told = wrong(&bad);
    told.sort();
    let expected = [
        "colour",
        "escalation_ladder.0.channel_hint",
        "final_fallback_policy",
        "interval_seconds",
        "max_attempts",
        "strategy",
    ];
    assert_eq!(told, expected);
    for shape in [json!(null), json!([]), json!("fast"), json!(3)] {
        assert_eq!(wrong(&shape), ["retry_policy"], "{shape}");
    }
}

#[test]
fn a_question_says_what_makes_sense() {
    for (key, bad) in [
        ("timeout_seconds", json!(0)),
        ("timeout_seconds", json!(-1)),
        ("timeout_seconds", json!("60")),
        ("channel_hint", json!("x".repeat(65))),
        ("channel_hint", json!(["slack"])),
        ("notify_to", json!("x".repeat(257))),
        ("notify_to", json!(5)),
        ("retry_policy", json!([])),
        ("retry_policy", json!("fast")),
    ] {
        let told = refused(json!({ key: bad }));
        assert_eq!(told.keys().collect::<Vec<_>>(), [key], "{bad}");
    }
    for shape in [json!([]), json!("fast"), json!(3)] {
        assert_eq!(refused(shape).keys().collect::<Vec<_>>(), [""]);
    }
}

#[test]
fn a_fallback_that_needs_a_value_has_one() {
    for fallback in ["complete_with_fallback", "use_default_and_continue"] {
        for ladder in [
            json!({ "fallback_policy": fallback }),
            json!({ "retry_policy": { "final_fallback_policy": fallback } }),
            json!({ "fallback_policy": "fail", "retry_policy": { "final_fallback_policy": fallback } }),
            json!({ "fallback_policy": fallback, "fallback_value": null }),
        ] {
            let told = refused(ladder.clone());
            assert_eq!(told.keys().collect::<Vec<_>>(), ["fallback_value"], "{ladder}");
            assert!(told["fallback_value"].contains(fallback), "{told:?}");
        }
    }
    // The one inside counts, and needs none.
    asking(json!({
        "fallback_policy": "complete_with_fallback",
        "retry_policy": { "final_fallback_policy": "fail" },
    }))
    .graph();
}

#[test]
fn only_nodes_that_ask_have_ladders_agents_and_respondents() {
    for (key, value) in [
        ("ladder", json!({ "timeout_seconds": 60 })),
        ("agent", json!(AGENT)),
        ("respondents", json!(["alice"])),
    ] {
        let told = places(&workflow([noop("gate").setting(key, value.clone())]).problems());
        assert_eq!(told.keys().collect::<Vec<_>>(), ["nodes['gate'].settings.abide"], "{key}");
        gated(approval("gate").setting(key, value)).graph();
    }
}

#[test]
fn agents_and_respondents_are_names() {
    for (key, bad) in [
        ("agent", json!("")),
        ("agent", json!(7)),
        ("agent", json!("x".repeat(257))),
        ("agent", json!([AGENT])),
        ("respondents", json!("alice")),
        ("respondents", json!([])),
        ("respondents", json!([""])),
        ("respondents", json!(["alice", 7])),
        ("respondents", json!(vec!["alice"; 101])),
    ] {
        let told = places(&gated(approval("gate").setting(key, bad.clone())).problems());
        assert_eq!(
            told.keys().collect::<Vec<_>>(),
            [&format!("nodes['gate'].settings.abide.{key}")],
            "{bad}"
        );
    }
}

#[test]
fn a_bad_policy_on_disk_does_not_stop_a_run_that_follows_it() {
    // What is refused today may have been admitted by a rule less: it is read for what can be made of it.
    let ladder = json!({
        "timeout_seconds": 60,
        "fallback_policy": "use_default_and_continue",
        "retry_policy": { "max_attempts": 2, "interval_seconds": 90, "escalation_ladder": [{ "attempt": 3 }] },
    });
    let flow = asking(ladder);
    assert!(!flow.problems().is_empty());
    let story = Story::following(flow.old_graph()).start();
    let id = story.asked();
    assert_eq!(story.ladder()["interval_seconds"], 60);
    assert_eq!(story.ladder()["final_fallback_policy"], "fail", "there is no value");
    let story = story.at(secs(120)).climb(id);
    assert_eq!(story.run().error().expect("it failed").code, "input_timeout");
}
