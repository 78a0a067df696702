//! Ladders and everything else that happens to a run: crashes, cancellations, pauses, neighbours.

use abide_core::event::Resolution;
use abide_core::{ClosedInterrupt, Command, Drain, InterruptId, NodePhase, Rejection, Status, Waiting};
use story::{BEGIN, hours};

use super::*;

fn minutes(attempts: u32) -> Value {
    json!({ "retry_policy": { "max_attempts": attempts, "interval_seconds": 60 } })
}

fn closed(story: &Story) -> Vec<ClosedInterrupt> {
    let closed = |effect: Effect| match effect {
        Effect::CloseInterrupt(closed) => Some(closed),
        _ => None,
    };
    refold(story).1.into_iter().filter_map(closed).collect()
}

mod surviving {
    use super::*;

    /// Everything that happens to the example until nobody has answered, one command after the other.
    fn told() -> Story {
        let story = Story::of(&asking(json!({ "retry_policy": example() }))).start();
        let id = story.asked();
        story.at(hours(1)).climb(id).at(hours(2)).climb(id).at(hours(3)).climb(id)
    }

    #[test]
    fn a_ladder_goes_on_from_a_snapshot_of_any_moment_as_if_nothing_had_been() {
        let whole = told();
        for cut in 0..=whole.journal().len() {
            let mut run = Run::empty(key(), SALT, whole.run().graph().clone());
            let mut twin = run.clone();
            for (at, record) in whole.journal().iter().enumerate() {
                if at == cut {
                    let bytes = run.snapshot();
                    let woken = Run::from_snapshot(key(), SALT, whole.run().graph().clone(), &bytes);
                    run = woken.expect("it is ours");
                }
                assert_eq!(run.apply(record), twin.apply(record), "at event {at}, cut at {cut}");
            }
            assert_eq!(run.snapshot(), whole.run().snapshot());
        }
    }

    #[test]
    fn a_server_that_dies_between_any_two_attempts_makes_each_of_them_once() {
        let whole = told();
        let id = whole.all("interrupt.renotified")[0]["interruptId"].as_str().unwrap().to_owned();
        let timer: TimerId = format!("attempt/{id}").parse().expect("it is a timer");
        let mut run = Run::empty(key(), SALT, whole.run().graph().clone());
        let mut journal: Vec<Record> = whole.journal().to_vec();
        journal
            .truncate(journal.iter().position(|record| type_name(record) == "node.suspended").unwrap() + 1);
        for hour in 1..=3 {
            // The process dies, and another one reads the journal.
            run = Run::empty(key(), SALT, run.graph().clone());
            journal.iter().for_each(|record| drop(run.apply(record).expect("it folds")));
            let fire = Command::Fire(timer.clone());
            let step = run.decide(fire.clone(), BEGIN + hours(hour)).expect("it is due");
            journal.extend(step.records);
            // It dies again before it has heard that the timer was handled.
            let mut again = Run::empty(key(), SALT, run.graph().clone());
            journal.iter().for_each(|record| drop(again.apply(record).expect("it folds")));
            again.decide(fire, BEGIN + hours(hour)).expect_err("it was heard");
        }
        assert_eq!(journal, whole.journal(), "the very same journal, ids and hashes included");
    }

    #[test]
    fn a_reader_that_only_folds_tells_what_was_told_and_decides_nothing() {
        let whole = told();
        let (run, effects) = refold(&whole);
        assert_eq!(run.snapshot(), whole.run().snapshot());
        let told = effects.iter().filter(|effect| matches!(effect, Effect::Notify(_))).count();
        assert_eq!(told, 3);
        // A part of the journal gives the run as it was then, with the same timer to wait for.
        let mut part = Run::empty(key(), SALT, run.graph().clone());
        for record in whole.journal().iter().take_while(|record| record.at < BEGIN + hours(2)) {
            part.apply(record).expect("it folds");
        }
        let open = part.interrupts().next().expect("it was open then");
        assert_eq!((open.attempt, open.next_attempt_at()), (2, Some(BEGIN + hours(2))));
    }

    #[test]
    fn a_journal_that_skips_an_attempt_does_not_fold() {
        let story = Story::of(&asking(minutes(4))).start();
        let mut run = story.run().clone();
        let id = story.asked();
        let late = run.decide(Command::Fire(TimerId::Attempt(id)), BEGIN + secs(130)).expect("two are due");
        assert_eq!(late.records.len(), 2);
        let mut other = story.run().clone();
        other.apply(&late.records[1]).expect_err("the chain is broken, and an attempt missing");
    }
}

mod ending {
    use super::*;

    #[test]
    fn a_cancelled_run_reminds_nobody_and_says_that_people_were_told() {
        let story = Story::of(&asking(json!({ "retry_policy": example() }))).start();
        let id = story.asked();
        let story = story.at(hours(1)).climb(id).cancel();
        let story = story.expect(["interrupt.resolved gate", "node.cancelled gate", "run.cancelled"]);
        let expected = ClosedInterrupt {
            id,
            kind: abide_core::InterruptKind::Clarification,
            outcome: Resolution::Cancelled,
            by: "system:run".to_owned(),
            at: BEGIN + hours(1),
            told: true,
        };
        assert_eq!(closed(&story), [expected]);
        assert!(story.run().timers().is_empty());
        let story = story.at(hours(9)).climb(id);
        drop(story.refused(&Rejection::Ended(abide_core::Lifecycle::Cancelled)));
    }

    #[test]
    fn the_call_of_a_cancelled_question_fails_as_cancelled() {
        let gate = custom("gate", "k").setting("ladder", minutes(3));
        let story = Story::of(&gated(gate)).start();
        let id = story.asked();
        let story = story.cancel();
        assert_eq!(story.all("interrupt.resolved")[0]["outcome"], "cancelled");
        let payload = json!({ "kind": "custom", "key": "k", "data": { "customKind": "any", "payload": {} } });
        let stop = story.run().context("gate").expect("it asks").interrupt(&Json::of(&payload));
        let Err(abide_core::Stop::Failed(failure)) = stop else { panic!("it does not wait") };
        assert_eq!(failure.code, "interrupt_cancelled");
        story.answer_to(id, &json!(1), "late").refused(&Rejection::InterruptCancelled);
    }

    #[test]
    fn nobody_is_reminded_while_a_cancelled_run_waits_for_work_under_way() {
        let flow = workflow([question("gate").setting("ladder", minutes(3)), workflow::task("work")]);
        let story = Story::of(&flow).start();
        let id = story.asked();
        let story = story.cancel();
        assert_eq!(story.run().lifecycle(), abide_core::Lifecycle::Cancelling);
        assert_eq!((closed(&story).len(), story.armed()), (1, None));
        let story = story.at(secs(60)).climb(id).refused(&Rejection::NoSuchTimer);
        let story = story.report("work").stands(Status::Cancelled);
        assert_eq!(story.notified(), [1]);
    }

    #[test]
    fn a_run_that_fails_elsewhere_reminds_nobody() {
        let flow = workflow([
            question("gate").setting("ladder", minutes(3)),
            workflow::delay("sleep", secs(30)),
            workflow::fail("boom"),
        ])
        .flow("sleep > boom");
        let story = Story::of(&flow).start();
        let id = story.asked();
        let story = story.at(secs(30)).fire("sleep").stands(Status::Failed);
        let closed = closed(&story);
        assert_eq!((closed.len(), closed[0].told, closed[0].outcome), (1, true, Resolution::Cancelled));
        let story = story.at(secs(60)).climb(id);
        drop(story.refused(&Rejection::Ended(abide_core::Lifecycle::Failed)));
    }

    #[test]
    fn a_question_without_a_ladder_is_closed_without_a_word() {
        let story = Story::of(&gated(question("gate"))).start().answer("gate", &well());
        assert_eq!(closed(&story).iter().map(|closed| closed.told).collect::<Vec<_>>(), [false]);
        let story = Story::of(&asking(json!({ "channel_hint": "slack" }))).start().answer("gate", &well());
        let closed = closed(&story);
        assert_eq!(
            (closed[0].told, closed[0].by.as_str(), closed[0].outcome),
            (true, "alice", Resolution::Resolved)
        );
    }
}

mod beside {
    use super::*;

    #[test]
    fn a_run_with_an_open_question_is_not_paused_and_its_ladder_goes_on() {
        let flow = workflow([question("gate").setting("ladder", minutes(2)), workflow::task("work")]);
        let story = Story::of(&flow).start();
        let id = story.asked();
        for drain in [Drain::Immediate, Drain::CurrentNode] {
            let pause = Command::Pause { reason: None, by: None, drain };
            let story = story.clone().ask(pause).refused(&Rejection::Waiting(Waiting::Input));
            let story = story.at(secs(60)).climb(id);
            assert_eq!(story.notified(), [1, 2]);
        }
        let story = story.at(secs(60)).climb(id).at(secs(61)).report("work");
        let story = story.node_is("work", NodePhase::Completed).at(secs(120)).climb(id);
        assert_eq!(story.run().error().expect("it failed").code, "input_timeout");
    }

    #[test]
    fn two_nodes_that_ask_the_same_share_one_ladder() {
        let flow = workflow([
            custom("one", "k").setting("ladder", minutes(2)),
            custom("two", "k").setting("ladder", json!({ "timeout_seconds": 5, "fallback_policy": "fail" })),
        ]);
        let story = Story::of(&flow).start();
        let id = story.asked();
        assert_eq!((story.count("interrupt.requested"), story.notified()), (1, vec![1]));
        assert_eq!(story.armed(), Some(secs(60)), "whoever asked first says how it goes on");
        let story = story.at(secs(60)).climb(id).expect(["interrupt.renotified one"]);
        let story = story.at(secs(70)).answer_to(id, &json!("both"), "alice").stands(Status::Completed);
        assert_eq!((story.count("interrupt.renotified"), story.run().timers().len()), (1, 0));
    }

    #[test]
    fn the_expiry_of_a_shared_question_reaches_everybody_who_asked_then_or_later() {
        let fallback = json!({ "timeout_seconds": 60, "fallback_policy": "complete_with_fallback", "fallback_value": 7 });
        let flow = workflow([
            custom("one", "k").setting("ladder", fallback),
            custom("two", "k"),
            custom("three", "k"),
        ])
        .flow("one > three");
        let story = Story::of(&flow).start();
        let id = story.asked();
        let mut story = story.at(secs(60)).climb(id).stands(Status::Completed);
        for node in ["one", "two", "three"] {
            story = story.outputs(node, Some(r#"{"resumeValue":7}"#));
        }
        assert_eq!((story.count("interrupt.requested"), story.count("interrupt.expired")), (1, 1));
        let flow = workflow([custom("one", "k").setting("ladder", minutes(1)), custom("two", "k")])
            .under("any_failed", "one > two");
        let story = Story::of(&flow).start();
        let id = story.asked();
        let story = story.at(secs(60)).climb(id);
        let codes = ["one", "two"].map(|node| story.node(node).error.clone().expect("it failed").code);
        assert_eq!(codes, ["input_timeout", "input_timeout"]);
    }

    #[test]
    fn each_question_of_a_node_has_a_ladder_by_itself() {
        let both = json!([
            { "kind": "custom", "data": { "customKind": "a" } },
            { "kind": "custom", "data": { "customKind": "b" } },
        ]);
        let gate = of_kind("gate", "core.interrupt").config("interrupts", both).setting(
            "ladder",
            json!({
                "retry_policy": { "max_attempts": 2, "interval_seconds": 60 },
                "fallback_policy": "complete_with_fallback", "fallback_value": "fallen back",
            }),
        );
        let story = Story::of(&gated(gate)).start();
        let open = story.open_at("gate");
        assert_eq!((open.len(), story.notified()), (2, vec![1, 1]));
        let story = story.at(secs(30)).answer_to(open[0], &json!("said"), "alice");
        let story = story.at(secs(60)).climb(open[0]).refused(&Rejection::NoSuchTimer);
        let story = story.climb(open[1]).at(secs(120)).climb(open[1]).stands(Status::Completed);
        story.outputs("gate", Some(r#"{"resumeValues":["said","fallen back"]}"#));
    }

    #[test]
    fn a_question_that_is_asked_again_in_a_loop_has_a_ladder_and_an_id_of_its_own() {
        let reject = json!({ "action": "reject" });
        let gate = approval("gate").setting("ladder", minutes(2));
        let flow = workflow([workflow::identity("draft"), gate, noop("done")])
            .flow("draft > gate")
            .flow("gate > draft")
            .when("output.action == 'reject'")
            .flow("gate > done")
            .when("output.action == 'accept'");
        let story = Story::of(&flow).start();
        let first = story.asked();
        let story = story.at(secs(60)).climb(first).at(secs(90)).answer_to(first, &reject, "alice");
        let second = story.asked();
        assert_ne!(first, second);
        assert_eq!((story.armed(), story.notified()), (Some(secs(150)), vec![1, 2, 1]));
        let story = story.at(secs(120)).climb(first).refused(&Rejection::NoSuchTimer);
        let story = story.answer_to(first, &accept(), "bob").refused(&Rejection::AlreadyResolved);
        story.answer_to(second, &accept(), "bob").stands(Status::Completed);
    }

    #[test]
    fn an_id_can_not_be_told_from_another_of_its_run() {
        let both = workflow([question("one"), question("two")]);
        let ids = |salt: u8| {
            let start = abide_core::Start::of(key(), [salt; 16], both.graph());
            let (run, _) = Run::start(start, BEGIN).expect("it starts");
            run.interrupts().map(|open| open.requested.interrupt_id).collect::<Vec<InterruptId>>()
        };
        let (one, other) = (ids(1), ids(2));
        assert_eq!((one.len(), ids(1)), (2, one.clone()));
        assert!(one.iter().all(|id| !other.contains(id)), "they rest on a secret of the run");
        let text = |id: &InterruptId| id.to_string().trim_start_matches("int-").to_owned();
        let (first, second) = (text(&one[0]), text(&one[1]));
        let alike = first.chars().rev().zip(second.chars().rev()).take_while(|(a, b)| a == b).count();
        assert!(alike < 4, "{first} and {second} are no neighbours");
    }
}

mod bounds {
    use super::*;

    #[test]
    fn what_a_ladder_keeps_counts_for_what_a_run_may_keep() {
        // One value in the definition would be in the snapshot of the run as often as it asks.
        let kib = |count: usize| "x".repeat(count * 1024);
        let ask = json!({ "kind": "custom", "data": { "customKind": "any" } });
        let asking = |asks: usize, ladder: &Value| {
            let gate = of_kind("gate", "core.interrupt").config("interrupts", json!(vec![ask.clone(); asks]));
            Story::of(&gated(gate.setting("ladder", ladder.clone()))).start()
        };
        let value = json!({ "fallback_policy": "complete_with_fallback", "fallback_value": kib(900) });
        assert_eq!(asking(9, &value).run().interrupts().count(), 9);
        let story = asking(10, &value);
        assert_eq!(story.run().error().expect("it failed").code, "interrupt_limit");
        assert_eq!(story.count("interrupt.requested"), 0);
        let rung =
            |attempt: u32| json!({ "attempt": attempt, "channel_hint": "x", "notify_to": "y".repeat(256) });
        let rungs: Vec<Value> = (1..=100).map(rung).collect();
        let rungs = json!({ "timeout_seconds": 9, "retry_policy": { "escalation_ladder": rungs } });
        assert_eq!(asking(300, &rungs).run().interrupts().count(), 300);
        assert_eq!(asking(400, &rungs).run().error().expect("it failed").code, "interrupt_limit");
    }
}

mod refusing {
    use super::*;

    fn refuse(id: InterruptId, attempt: u32, who: &str) -> Command {
        let reason = "not on the list".to_owned();
        Command::RefuseNotice { id, attempt, notify_to: who.to_owned(), reason }
    }

    #[test]
    fn a_recipient_who_may_not_be_told_is_recorded_once_for_each_attempt() {
        let story = Story::of(&asking(minutes(3))).start();
        let id = story.asked();
        let story = story.ask(refuse(id, 1, "mallory")).expect(["notice.refused gate"]).expect_effects([]);
        let expected = json!({
            "interruptId": id.to_string(), "attempt": 1, "notifyTo": "mallory", "reason": "not on the list",
        });
        assert_eq!(story.all("notice.refused"), [expected]);
        let story = story.ask(refuse(id, 1, "mallory")).refused(&Rejection::AlreadyResolved);
        let story = story.ask(refuse(id, 1, "eve")).refused(&Rejection::AlreadyResolved);
        let story = story.ask(refuse(id, 2, "eve")).refused(&Rejection::AlreadyResolved);
        let story = story.at(secs(60)).climb(id).ask(refuse(id, 2, "eve")).expect(["notice.refused gate"]);
        let story = story.ask(refuse(id, 1, "eve")).refused(&Rejection::AlreadyResolved);
        assert_eq!(story.armed(), Some(secs(120)), "the ladder goes on");
    }

    #[test]
    fn only_attempts_that_were_made_are_refused() {
        let story = Story::of(&asking(minutes(3))).start();
        let id = story.asked();
        for attempt in [0, 2, u32::MAX] {
            drop(story.clone().ask(refuse(id, attempt, "eve")).refused(&Rejection::AlreadyResolved));
        }
        let story = story.answer("gate", &well()).ask(refuse(id, 1, "eve"));
        assert_eq!(story.refused(&Rejection::AlreadyResolved).count("notice.refused"), 0);
        let silent = Story::of(&gated(question("gate"))).start();
        let id = silent.asked();
        silent.ask(refuse(id, 1, "eve")).refused(&Rejection::AlreadyResolved);
    }

    #[test]
    fn what_is_recorded_of_a_refusal_is_not_longer_than_a_reason() {
        let story = Story::of(&asking(minutes(3))).start();
        let (id, long) = (story.asked(), "ü".repeat(100_000));
        let refuse = Command::RefuseNotice { id, attempt: 1, notify_to: long.clone(), reason: long };
        let told = &story.ask(refuse).all("notice.refused")[0];
        for key in ["notifyTo", "reason"] {
            let text = told[key].as_str().expect("it is a text");
            assert_eq!(text.chars().count(), abide_core::limits::REASON_CHARS_MAX);
        }
    }
}

mod telling {
    use super::*;

    #[test]
    fn why_a_run_waits_says_which_attempt_it_is_and_when_all_are_over() {
        let story = Story::of(&asking(json!({ "retry_policy": example() }))).start();
        let id = story.asked();
        for attempt in 1..=3 {
            let why = story.clone().at(hours(attempt - 1));
            let why = if attempt > 1 { why.climb(id).run().why() } else { why.run().why() };
            let [waits, climbs] = why.reasons.as_slice() else { panic!("{:?}", why.reasons) };
            assert_eq!((waits.kind, waits.until), ("input", Some(BEGIN + hours(3))));
            let what = format!("nobody has answered {id}, after attempt {attempt} of 3");
            assert_eq!((climbs.kind, climbs.what.as_str()), ("ladder", what.as_str()));
            let next =
                if attempt < 3 { "people are told again" } else { "the node fails with input_timeout" };
            assert_eq!((climbs.until, climbs.next.as_str()), (Some(BEGIN + hours(attempt)), next));
        }
        let once = Story::of(&asking(json!({ "timeout_seconds": 60 }))).start();
        let reasons = once.run().why().reasons;
        assert!(reasons.iter().all(|reason| reason.until == Some(BEGIN + secs(60))), "{reasons:?}");
    }

    #[test]
    fn human_time_is_not_machine_time_with_a_ladder_either() {
        let flow = gated(question("gate").setting("ladder", minutes(3))).settings("timeout", json!(1_500));
        let story = Story::of(&flow).start();
        let id = story.asked();
        let story = story.at(secs(60)).climb(id);
        assert!(!story.run().timers().contains_key(&TimerId::RunTimeout));
        story.at(secs(179)).answer_to(id, &well(), "alice").stands(Status::Completed);
    }
}
