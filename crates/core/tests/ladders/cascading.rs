//! Three levels: the question over its agent over the operator, field by field.

use abide_core::{LadderCall, Level, cascade};

use super::*;

/// A question of [`AGENT`], with what it says itself, under what the agent and the operator say.
fn asked_under(platform: Option<&Value>, agent: Option<&Value>, call: Option<&Value>) -> Story {
    let gate = question("gate").setting("agent", json!(AGENT));
    let gate = match call {
        Some(call) => gate.setting("ladder", call.clone()),
        None => gate,
    };
    Story::of(&gated(gate)).under(said(platform, agent)).start()
}

/// The same, as the question keeps it.
fn ladder(platform: Option<&Value>, agent: Option<&Value>, call: Option<&Value>) -> Value {
    asked_under(platform, agent, call).ladder()
}

fn retry(policy: &Value) -> Value {
    json!({ "retry_policy": policy })
}

/// Some fields of an object.
fn fields<const N: usize>(object: &Value, keys: [&str; N]) -> [Value; N] {
    keys.map(|key| object[key].clone())
}

const TIMES: [&str; 2] = ["max_attempts", "interval_seconds"];

#[test]
fn the_question_overrides_its_agent_and_the_agent_the_operator() {
    let (platform, agent) = (
        json!({ "max_attempts": 3, "interval_seconds": 3600, "final_fallback_policy": "fail" }),
        json!({ "max_attempts": 2, "interval_seconds": 1800 }),
    );
    let call = retry(&json!({ "max_attempts": 1, "interval_seconds": 300 }));
    for (levels, times, level) in [
        ((Some(&platform), Some(&agent), Some(&call)), [1, 300], "call"),
        ((Some(&platform), Some(&agent), None), [2, 1800], "agent"),
        ((Some(&platform), None, None), [3, 3600], "platform"),
        ((None, Some(&agent), Some(&call)), [1, 300], "call"),
        ((Some(&platform), None, Some(&call)), [1, 300], "call"),
    ] {
        let kept = ladder(levels.0, levels.1, levels.2);
        assert_eq!(fields(&kept, TIMES), times.map(|number| json!(number)), "{level}");
        assert_eq!(fields(&kept["levels"], TIMES), [level, level].map(|level| json!(level)));
    }
}

#[test]
fn each_field_is_inherited_by_itself() {
    let platform = json!({
        "max_attempts": 5, "interval_seconds": 3600, "strategy": "fixed", "final_fallback_policy": "fail",
        "escalation_ladder": [{ "attempt": 2, "channel_hint": "email" }],
    });
    let agent = json!({ "interval_seconds": 1800 });
    let call = retry(&json!({ "max_attempts": 2 }));
    let kept = ladder(Some(&platform), Some(&agent), Some(&call));
    assert_eq!(fields(&kept, TIMES), [json!(2), json!(1800)]);
    assert_eq!(kept["escalation_ladder"][0]["channel_hint"], "email");
    let expected = json!({
        "max_attempts": "call", "interval_seconds": "agent", "strategy": "platform",
        "escalation_ladder": "platform", "final_fallback_policy": "platform",
    });
    assert_eq!(kept["levels"], expected);
}

#[test]
fn what_nobody_says_is_a_default_and_told_to_be_one() {
    let told = Surroundings { notifies: true, ..Surroundings::default() };
    let kept = Story::of(&gated(question("gate"))).under(told).start().ladder();
    assert_eq!(kept["max_attempts"], 1);
    assert_eq!((kept.get("interval_seconds"), kept.get("escalation_ladder")), (None, None));
    assert_eq!((&kept["strategy"], &kept["final_fallback_policy"]), (&json!("fixed"), &json!("fail")));
    let levels = kept["levels"].as_object().expect("levels are an object");
    assert!(levels.len() == 5 && levels.values().all(|level| level == "default"), "{levels:?}");
}

#[test]
fn a_question_has_no_ladder_if_nobody_says_anything_and_nobody_is_told() {
    let story = Story::of(&gated(question("gate"))).start();
    assert_eq!((story.ladder(), story.notified(), story.armed()), (Value::Null, vec![], None));
    let other = said(None, Some(&json!({ "max_attempts": 2, "interval_seconds": 60 })));
    let story = Story::of(&gated(question("gate").setting("agent", json!("another")))).under(other).start();
    assert_eq!(story.ladder(), Value::Null, "it is another agent's");
}

#[test]
fn what_is_given_counts_although_it_equals_a_default() {
    let platform = json!({ "max_attempts": 5, "interval_seconds": 60, "final_fallback_policy": "fail",
        "escalation_ladder": [{ "attempt": 2, "channel_hint": "email" }] });
    let call = retry(&json!({ "max_attempts": 1, "strategy": "fixed", "escalation_ladder": [] }));
    let kept = ladder(Some(&platform), None, Some(&call));
    assert_eq!((&kept["max_attempts"], kept.get("escalation_ladder")), (&json!(1), None));
    let given = fields(&kept["levels"], ["max_attempts", "strategy", "escalation_ladder"]);
    assert_eq!(given, ["call", "call", "call"].map(|level| json!(level)));
    let null = retry(&json!({ "max_attempts": null }));
    assert_eq!(ladder(Some(&platform), None, Some(&null))["max_attempts"], 5, "null is not given");
}

#[test]
fn a_list_of_rungs_replaces_the_inherited_one_whole() {
    let agent = json!({ "max_attempts": 3, "interval_seconds": 60, "escalation_ladder": [
        { "attempt": 2, "channel_hint": "email" },
        { "attempt": 3, "channel_hint": "pager" },
    ]});
    let call = retry(&json!({ "escalation_ladder": [{ "attempt": 3, "channel_hint": "phone" }] }));
    let story = asked_under(None, Some(&agent), Some(&call));
    let id = story.asked();
    let story = story.at(secs(60)).climb(id).expect(["interrupt.renotified gate"]);
    let story =
        story.at(secs(120)).climb(id).expect(["interrupt.renotified gate", "interrupt.escalated gate"]);
    assert_eq!(story.all("interrupt.escalated")[0]["channelHint"], "phone");
}

#[test]
fn an_inherited_rung_beyond_the_last_attempt_is_inert() {
    let platform = json!({ "max_attempts": 3, "interval_seconds": 60, "escalation_ladder": [
        { "attempt": 2, "channel_hint": "email" },
        { "attempt": 3, "channel_hint": "pager", "notify_to": "boss" },
    ]});
    let call = retry(&json!({ "max_attempts": 2 }));
    let story = asked_under(Some(&platform), None, Some(&call));
    let id = story.asked();
    let story = story.at(secs(60)).climb(id).at(secs(120)).climb(id);
    assert_eq!(story.count("interrupt.escalated"), 1);
    assert_eq!(story.all("interrupt.expired")[0]["attempts"], 2);
}

#[test]
fn an_inherited_interval_is_clamped_to_the_window_of_the_question() {
    let platform = json!({ "max_attempts": 3, "interval_seconds": 3600 });
    let call = json!({ "timeout_seconds": 600 });
    let story = asked_under(Some(&platform), None, Some(&call));
    let kept = story.ladder();
    assert_eq!((fields(&kept, TIMES), &kept["timeout_seconds"]), ([json!(3), json!(600)], &json!(600)));
    assert_eq!(kept["levels"]["interval_seconds"], "platform");
    assert_eq!(story.armed(), Some(secs(600)));
    let wide = json!({ "timeout_seconds": 7200 });
    assert_eq!(ladder(Some(&platform), None, Some(&wide))["interval_seconds"], 3600, "it is never longer");
}

#[test]
fn without_an_interval_the_window_is_the_interval() {
    let call = json!({ "timeout_seconds": 600, "retry_policy": { "max_attempts": 2 } });
    let story = asked_under(None, None, Some(&call));
    let kept = story.ladder();
    assert_eq!(
        (&kept["interval_seconds"], &kept["levels"]["interval_seconds"]),
        (&json!(600), &json!("call"))
    );
    let id = story.asked();
    let story = story.at(secs(600)).climb(id).expect(["interrupt.renotified gate"]);
    assert_eq!(story.armed(), Some(secs(1200)));
}

#[test]
fn several_attempts_without_any_time_between_them_are_refused() {
    let call = retry(&json!({ "max_attempts": 3 }));
    let story = asked_under(None, None, Some(&call));
    let error = story.run().error().expect("it failed");
    assert_eq!((error.code.as_str(), story.count("interrupt.requested")), ("invalid_ladder", 0));
    assert!(error.message.contains("interval_seconds") && error.message.contains("timeout_seconds"));
    // A time may come from anywhere, so the definition itself is sound.
    let platform = json!({ "interval_seconds": 60 });
    assert_eq!(ladder(Some(&platform), None, Some(&call))["max_attempts"], 3);
    // Attempts that somebody else asks for are no fault of the question: it is asked once.
    let timeless = json!({ "max_attempts": 3 });
    let kept = ladder(Some(&timeless), None, None);
    assert_eq!((&kept["max_attempts"], &kept["levels"]["max_attempts"]), (&json!(1), &json!("default")));
}

#[test]
fn a_fallback_alone_is_a_policy_of_one_attempt() {
    let told = |ladder: Value| {
        let story = Story::of(&asking(ladder)).start();
        let id = story.asked();
        let story = story.at(secs(600)).climb(id);
        let rest = story.journal()[1..].iter();
        let line = |record: &Record| (record.at, type_name(record), payload_text(record));
        rest.map(line).collect::<Vec<_>>()
    };
    for fallback in ["fail", "complete_with_fallback", "use_default_and_continue"] {
        let mut alias = json!({ "timeout_seconds": 600, "fallback_policy": fallback });
        let mut whole = json!({
            "timeout_seconds": 600,
            "retry_policy": { "max_attempts": 1, "final_fallback_policy": fallback },
        });
        if fallback != "fail" {
            (alias["fallback_value"], whole["fallback_value"]) = (json!("yes"), json!("yes"));
        }
        let journal = told(alias);
        assert!(journal.iter().any(|(_, name, _)| *name == "interrupt.expired"));
        assert_eq!(journal, told(whole), "{fallback}");
    }
}

#[test]
fn a_fallback_beside_a_policy_of_any_level_does_not_make_it_one_attempt() {
    let three = json!({ "max_attempts": 3, "interval_seconds": 60, "final_fallback_policy": "fail" });
    let call = json!({ "fallback_policy": "complete_with_fallback", "fallback_value": "deny" });
    for (platform, agent) in [(Some(&three), None), (None, Some(&three))] {
        let kept = ladder(platform, agent, Some(&call));
        assert_eq!(fields(&kept, TIMES), [json!(3), json!(60)]);
        assert_eq!(kept["final_fallback_policy"], "complete_with_fallback", "it is still what happens");
        assert_eq!(kept["levels"]["final_fallback_policy"], "call");
    }
}

#[test]
fn the_fallback_within_a_policy_comes_before_the_one_beside_it() {
    let kept = |inner: Option<&str>, outer: Option<&str>, platform: Option<&str>| {
        let mut call = json!({ "fallback_value": "deny", "retry_policy": { "interval_seconds": 60 } });
        if let Some(inner) = inner {
            call["retry_policy"]["final_fallback_policy"] = json!(inner);
        }
        if let Some(outer) = outer {
            call["fallback_policy"] = json!(outer);
        }
        let platform = platform.map(|policy| json!({ "final_fallback_policy": policy }));
        let kept = ladder(platform.as_ref(), None, Some(&call));
        fields(&kept, ["final_fallback_policy"])[0].as_str().map(str::to_owned).expect("it has one")
    };
    let (fail, complete, default) = ("fail", "complete_with_fallback", "use_default_and_continue");
    assert_eq!(kept(Some(fail), Some(complete), Some(default)), fail);
    assert_eq!(kept(None, Some(complete), Some(fail)), complete, "what is absent inherits from beside it");
    assert_eq!(kept(None, None, Some(default)), default);
    assert_eq!(kept(None, None, None), fail);
}

#[test]
fn an_inherited_fallback_that_needs_a_value_is_passed_over_without_one() {
    let agent = json!({ "max_attempts": 2, "interval_seconds": 60, "final_fallback_policy": "complete_with_fallback" });
    let kept = ladder(None, Some(&agent), None);
    assert_eq!((&kept["final_fallback_policy"], kept.get("fallback_value")), (&json!("fail"), None));
    assert_eq!(kept["levels"]["final_fallback_policy"], "default");
    let kept = ladder(None, Some(&agent), Some(&json!({ "fallback_value": "deny" })));
    assert_eq!(kept["levels"]["final_fallback_policy"], "agent");
    assert_eq!(kept["fallback_value"], json!({ "answers": { "answer": "deny" } }), "as the node gets it");
}

#[test]
fn a_value_that_is_not_going_to_be_used_is_not_kept() {
    let kept = ladder(None, None, Some(&json!({ "fallback_value": "deny", "timeout_seconds": 5 })));
    assert_eq!((kept["final_fallback_policy"].as_str(), kept.get("fallback_value")), (Some("fail"), None));
}

#[test]
fn what_happens_elsewhere_has_a_ladder_only_if_the_question_says_so() {
    let event = of_kind("gate", "core.interrupt")
        .config("kind", json!("external-event"))
        .config("data", json!({ "eventType": "paid", "correlation": {} }));
    let mut defaults = said(Some(&example()), None);
    defaults.notifies = true;
    let story = Story::of(&gated(event.clone())).under(defaults.clone()).start();
    assert_eq!((story.ladder(), story.notified()), (Value::Null, vec![]));
    let story = Story::of(&gated(event.setting("ladder", json!({})))).under(defaults).start();
    assert_eq!((&story.ladder()["max_attempts"], story.notified()), (&json!(3), vec![1]));
}

#[test]
fn what_changes_after_a_question_was_asked_does_not_change_its_ladder() {
    let flow = workflow([question("first"), question("second")]).flow("first > second");
    let story = Story::of(&flow).under(said(Some(&example()), None)).start();
    let before = story.ladder();
    let mut run = story.run().clone();
    let other = said(Some(&json!({ "max_attempts": 9, "interval_seconds": 1 })), None);
    let fire = abide_core::Command::Fire(TimerId::Attempt(story.asked()));
    let step = run.decide_under(fire, story::BEGIN + secs(3600), &other.clone().into());
    let again = parsed(&payload_text(&step.expect("it is due").records[0]));
    assert_eq!(fields(&again, ["maxAttempts"]), fields(&before, ["max_attempts"]));
    // The next question is asked under what is said by then.
    let by = abide_core::Answerer::of("alice");
    let value = Json::of(&well());
    let answer = abide_core::Command::Resolve(abide_core::Resolve { id: story.asked(), value, by });
    run.decide_under(answer, story::BEGIN + secs(3601), &other.into()).expect("it is open");
    let open = run.interrupts().next().expect("the second asks");
    assert_eq!(open.requested.ladder.as_ref().expect("it has one").max_attempts, 9);
}

#[test]
fn the_pure_function_says_the_same_without_a_run() {
    let call = LadderCall { timeout_seconds: Some(600), ..LadderCall::default() };
    let platform = policy(&example());
    let kept = cascade(Some(&platform), None, Some(&call), None).expect("it fits");
    assert_eq!((kept.max_attempts, kept.interval_seconds), (3, Some(600)));
    assert_eq!((kept.due(0, 1), kept.due(0, 3), kept.due(0, 4)), (Some(0), Some(secs(1200)), None));
    assert_eq!(kept.expires_at(7), Some(7 + secs(1800)));
    assert_eq!((kept.levels.interval_seconds, kept.levels.max_attempts), (Level::Platform, Level::Platform));
    let nothing = cascade(None, None, None, Some(5)).expect("nothing contradicts nothing");
    assert_eq!((nothing.max_attempts, nothing.expires_at(0), nothing.next(0, 1)), (1, None, None));
    // No instant is beyond what a clock can show.
    let longest = json!({ "max_attempts": 100, "interval_seconds": 31_536_000 });
    let longest = cascade(Some(&policy(&longest)), None, None, None).expect("it fits");
    assert_eq!(longest.expires_at(Millis::MAX - 1), Some(Millis::MAX));
    assert_eq!(longest.due(0, 0), None, "attempts are counted from one");
}
