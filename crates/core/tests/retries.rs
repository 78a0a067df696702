//! Attempts that fail: which are made again, when, and with what.

#[expect(dead_code, reason = "other files tell the rest of the vocabulary")]
#[path = "domain/story.rs"]
mod story;
#[expect(dead_code, reason = "other files tell the rest of the vocabulary")]
#[path = "domain/workflow.rs"]
mod workflow;

use abide_core::{Failure, Json, Millis, NodePhase, Performance, Piece, Reached, Rejection, Status, limits};
use serde_json::{Value, json};
use story::{BEGIN, Story, for_now};
use workflow::{Sketch, Workflow, expression, http, noop, task, transform, variable, workflow};

/// A request that is made again twice, 100 ms after each failure.
fn patient(method: &str) -> Sketch {
    http("call", method)
        .setting("retry", json!({"strategy": "fixed", "maxRetries": 2, "baseDelayMs": 100, "jitter": false}))
}

/// Nobody watches these runs: what is interrupted fails.
fn failing() -> Value {
    json!({"resume": {"maxAttempts": 0, "onRefusal": "fail"}})
}

fn calling(call: Sketch) -> Workflow {
    workflow([call, noop("next")]).flow("call > next").settings("abide", failing())
}

mod again {
    use super::*;

    #[test]
    fn a_failed_attempt_is_made_again_after_a_wait() {
        let story = Story::of(&calling(patient("GET")))
            .start()
            .expect_effects(["dispatch call/1"])
            .after(7)
            .report_trouble("call", "no answer", Reached::Maybe)
            .expect(["node.retried call"])
            .expect_effects(["finish call/1", "arm retry/1/call +107"])
            .node_is("call", NodePhase::Waiting)
            .stands(Status::Running);
        assert!(story.run().is_parked());
        assert_eq!(
            story.payload("node.retried"),
            format!(
                r#"{{"attempt":1,"error":{{"code":"node_execution_failed","message":"no answer"}},"until":{}}}"#,
                BEGIN + 107
            )
        );
        let story = story
            .fire_timer("retry/1/call")
            .refused(&Rejection::NotDue { due: BEGIN + 107 })
            .after(100)
            .fire_timer("retry/1/call")
            .expect(["node.due call", "node.started call"])
            .expect_effects(["drop retry/1/call +107", "dispatch call/1"]);
        assert_eq!(
            story.payload("node.started"),
            r#"{"typeId":"core.http.request","execution":1,"dispatched":true,"attempt":1}"#
        );
        let story = story.report_of("call", 1, Ok(Some(Json::of(&json!({"status": 200}))))).expect([
            "node.completed call",
            "node.started next",
            "node.completed next",
            "run.completed",
        ]);
        assert_eq!(story.node("call").error, None, "an error that was mended is forgotten");
        assert_eq!(story.node("call").started_at, Some(BEGIN), "the execution began with its first attempt");
    }

    #[test]
    fn after_the_last_attempt_the_node_fails() {
        Story::of(&calling(patient("GET")))
            .start()
            .report_trouble("call", "first", Reached::No)
            .after(100)
            .fire_timer("retry/1/call")
            .report_trouble("call", "second", Reached::No)
            .after(100)
            .fire_timer("retry/1/call")
            .report_trouble("call", "third", Reached::No)
            .expect(["node.interrupted call"])
            .given_up()
            .expect(["resume_decision", "node.failed call", "run.failed"])
            .failed_with("node_execution_failed", "third");
    }

    #[test]
    fn somebody_may_take_over_once_the_attempts_are_used_up() {
        let call = http("call", "GET").setting("retry", json!({"strategy": "none"}));
        let flow = workflow([call, noop("handler")]).under("any_failed", "call > handler");
        Story::of(&flow).start().report_trouble("call", "no answer", Reached::No).expect([
            "node.failed call",
            "node.started handler",
            "node.completed handler",
            "run.completed",
        ]);
    }

    #[test]
    fn without_a_policy_there_is_one_attempt() {
        Story::of(&calling(http("call", "GET")))
            .start()
            .report_trouble("call", "no answer", Reached::No)
            .expect(["node.interrupted call"])
            .given_up()
            .stands(Status::Failed);
    }

    #[test]
    fn the_definition_may_set_the_number_for_all_requests() {
        let flow = calling(http("call", "GET")).settings("maxRetries", json!(1));
        let story = Story::of(&flow).start().report_trouble("call", "no answer", Reached::No);
        let due = story.node("call").until.expect("it waits") - BEGIN;
        assert!((500..=1_000).contains(&due), "the usual wait, with jitter: {due}");
        story
            .after(due)
            .fire_timer("retry/1/call")
            .report_trouble("call", "again", Reached::No)
            .given_up()
            .failed_with("node_execution_failed", "again");
        let own = calling(patient("GET")).settings("maxRetries", json!(0));
        Story::of(&own)
            .start()
            .report_trouble("call", "no answer", Reached::No)
            .expect(["node.retried call"]);
    }

    #[test]
    fn only_requests_are_made_again() {
        let flow = workflow([task("work")]).settings("maxRetries", json!(3)).settings("abide", failing());
        Story::of(&flow)
            .start()
            .report_trouble("work", "no answer", Reached::No)
            .given_up()
            .failed_with("node_execution_failed", "no answer");
    }

    #[test]
    fn a_retry_is_no_node_execution() {
        Story::of(&workflow([patient("GET")]))
            .configurable(&json!({"recursionLimit": 1}))
            .start()
            .report_trouble("call", "no answer", Reached::No)
            .after(100)
            .fire_timer("retry/1/call")
            .expect(["node.due call", "node.started call"])
            .report("call")
            .stands(Status::Completed);
    }

    #[test]
    fn the_next_execution_in_a_loop_has_all_its_attempts() {
        let flow = workflow([patient("GET").looping(3)]).flow("call > call");
        let story = Story::of(&flow)
            .start()
            .report_trouble("call", "no answer", Reached::No)
            .after(100)
            .fire_timer("retry/1/call")
            .report("call")
            .expect(["node.completed call", "loop.restarted", "node.started call"])
            .report_trouble("call", "no answer", Reached::No)
            .expect_effects(["finish call/2", "arm retry/2/call +200"]);
        assert!(story.payload("node.retried").contains(r#""attempt":1"#));
    }
}

mod harm {
    use super::*;

    const NOT_AGAIN: &str = "no answer; it was not tried again, because it may have been carried out and the node \
                             is not marked idempotent";

    #[test]
    fn what_may_have_been_done_is_not_done_twice() {
        for method in ["POST", "PATCH"] {
            Story::of(&calling(patient(method)))
                .start()
                .report_trouble("call", "no answer", Reached::Maybe)
                .expect(["node.interrupted call"])
                .given_up()
                .failed_with("node_execution_failed", NOT_AGAIN);
        }
    }

    #[test]
    fn what_reached_nobody_may_be_done_again() {
        for method in ["POST", "PATCH", "GET", "PUT"] {
            Story::of(&calling(patient(method)))
                .start()
                .report_trouble("call", "refused", Reached::No)
                .expect(["node.retried call"]);
        }
    }

    #[test]
    fn methods_that_are_idempotent_may_be_repeated() {
        for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"] {
            Story::of(&calling(patient(method)))
                .start()
                .report_trouble("call", "no answer", Reached::Maybe)
                .expect(["node.retried call"]);
        }
    }

    #[test]
    fn the_node_knows_better_than_its_method() {
        Story::of(&calling(patient("POST").setting("idempotent", json!(true))))
            .start()
            .report_trouble("call", "no answer", Reached::Maybe)
            .expect(["node.retried call"]);
        Story::of(&calling(patient("PUT").setting("idempotent", json!(false))))
            .start()
            .report_trouble("call", "no answer", Reached::Maybe)
            .given_up()
            .failed_with("node_execution_failed", NOT_AGAIN);
    }

    #[test]
    fn what_another_attempt_would_not_mend_fails_at_once() {
        Story::of(&calling(patient("GET")))
            .start()
            .report_failure("call", "404")
            .expect(["node.failed call", "run.failed"])
            .failed_with("node_execution_failed", "404");
    }

    #[test]
    fn without_an_attempt_left_it_would_be_resumed_and_must_not_be() {
        let once = http("call", "POST").setting("retry", json!({"strategy": "fixed", "maxRetries": 0}));
        Story::of(&calling(once))
            .start()
            .report_trouble("call", "no answer", Reached::Maybe)
            .given_up()
            .failed_with("node_execution_failed", NOT_AGAIN);
    }
}

mod waits {
    use super::*;

    fn waits(policy: &Value) -> Vec<Millis> {
        let call = http("call", "GET").setting("retry", policy.clone());
        let mut story = Story::of(&calling(call)).start();
        let mut waits = Vec::new();
        loop {
            story = story.report_trouble("call", "no answer", Reached::No);
            if !story.run().interrupted_steps().is_empty() {
                return waits;
            }
            let until = story.node("call").until.expect("it waits");
            let wait = until - story.journal().last().expect("there are events").at;
            waits.push(wait);
            story = story.after(wait).fire_timer("retry/1/call");
        }
    }

    #[test]
    fn they_follow_the_policy() {
        let policy = |strategy: &str| json!({"strategy": strategy, "maxRetries": 4, "baseDelayMs": 10, "maxDelayMs": 35, "jitter": false});
        assert_eq!(waits(&policy("fixed")), [10, 10, 10, 10]);
        assert_eq!(waits(&policy("linear")), [10, 20, 30, 35]);
        assert_eq!(waits(&policy("exponential")), [10, 20, 35, 35]);
        assert_eq!(waits(&policy("none")), [] as [Millis; 0]);
    }

    #[test]
    fn jitter_is_drawn_from_the_run_and_is_the_same_in_every_replay() {
        let policy =
            json!({"strategy": "fixed", "maxRetries": 5, "baseDelayMs": 100_000, "maxDelayMs": 100_000});
        let (drawn, again) = (waits(&policy), waits(&policy));
        assert_eq!(drawn, again);
        assert!(drawn.iter().all(|wait| (50_000..=100_000).contains(wait)), "{drawn:?}");
        assert!(drawn.windows(2).any(|pair| pair[0] != pair[1]), "{drawn:?}");
    }

    fn told_to_wait(details: &Value) -> Millis {
        let mut failed = for_now("busy", Reached::Maybe);
        failed.failure = Failure { details: Some(Json::of(details)), ..failed.failure };
        let story = Story::of(&calling(patient("GET"))).start().report_product("call", 1, Err(failed));
        story.node("call").until.expect("it waits") - BEGIN
    }

    #[test]
    fn the_other_side_may_ask_for_more_time_but_not_for_less() {
        assert_eq!(told_to_wait(&json!({"retryAfterMs": 5_000})), 5_000);
        assert_eq!(told_to_wait(&json!({"retryAfterMs": 1})), 100);
        assert_eq!(told_to_wait(&json!({"retryAfterMs": -5})), 100);
    }

    #[test]
    fn it_can_not_put_the_run_to_sleep_for_years() {
        assert_eq!(told_to_wait(&json!({"retryAfterMs": i64::MAX})), limits::RETRY_DELAY_MS_MAX);
    }

    #[test]
    fn what_it_says_in_other_words_is_ignored() {
        for other in [json!({"retryAfterMs": "soon"}), json!({"retryAfterMs": 1e300}), json!([1]), json!({})]
        {
            assert_eq!(told_to_wait(&other), 100);
        }
    }
}

mod holding {
    use super::*;

    #[test]
    fn a_paused_run_lets_the_time_pass_and_starts_no_attempt() {
        Story::of(&calling(patient("GET")))
            .start()
            .report_trouble("call", "no answer", Reached::No)
            .pause()
            .expect_effects([])
            .after(100)
            .fire_timer("retry/1/call")
            .expect(["node.due call"])
            .expect_effects(["drop retry/1/call +100"])
            .node_is("call", NodePhase::Pending)
            .resume()
            .expect(["run.resumed", "node.started call"])
            .expect_effects(["dispatch call/1"])
            .report("call")
            .stands(Status::Completed);
    }

    #[test]
    fn a_run_that_is_paused_hears_of_a_failed_attempt() {
        Story::of(&calling(patient("GET")))
            .start()
            .pause()
            .report_trouble("call", "no answer", Reached::No)
            .expect(["node.retried call"])
            .stands(Status::Paused);
    }

    #[test]
    fn a_cancelled_run_does_not_wait_for_the_next_attempt() {
        Story::of(&calling(patient("GET")))
            .start()
            .report_trouble("call", "no answer", Reached::No)
            .cancel()
            .expect(["node.cancelled call", "run.cancelled"])
            .expect_effects(["drop retry/1/call +100"]);
    }

    #[test]
    fn a_cancelled_run_with_an_attempt_that_was_due_ends_at_once() {
        Story::of(&calling(patient("GET")))
            .start()
            .report_trouble("call", "no answer", Reached::No)
            .pause()
            .after(100)
            .fire_timer("retry/1/call")
            .cancel()
            .expect(["node.cancelled call", "run.cancelled"])
            .stands(Status::Cancelled);
    }

    #[test]
    fn nothing_is_tried_again_in_a_run_that_is_ending() {
        Story::of(&calling(patient("GET")))
            .start()
            .cancel()
            .report_trouble("call", "no answer", Reached::No)
            .expect(["node.failed call", "run.cancelled"]);
        Story::of(&workflow([patient("GET"), task("work")]))
            .start()
            .report_failure("work", "broken")
            .report_trouble("call", "no answer", Reached::No)
            .expect(["node.failed call", "run.failed"])
            .failed_with("node_execution_failed", "broken");
    }

    #[test]
    fn a_failing_run_takes_a_waiting_attempt_along() {
        Story::of(&workflow([patient("GET"), task("work")]))
            .start()
            .report_trouble("call", "no answer", Reached::No)
            .report_failure("work", "broken")
            .expect(["node.failed work", "node.cancelled call", "run.failed"])
            .expect_effects(["finish work/1", "drop retry/1/call +100"]);
    }

    #[test]
    fn while_an_attempt_waits_there_is_no_task() {
        let story = Story::of(&calling(patient("GET"))).start().report_trouble("call", "x", Reached::No);
        assert_eq!(story.run().tasks().count(), 0);
        story.report("call").refused(&Rejection::NoSuchTask);
    }
}

mod inputs {
    use super::*;

    fn url(story: &Story) -> String {
        let Performance::Http(request) = story.performance("call") else {
            panic!("the node sends a request");
        };
        let text = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Secret(name) | Piece::SecretInJson(name) => format!("<{name}>"),
        };
        request.url.iter().map(text).collect()
    }

    fn calling_about(port: workflow::Source) -> Workflow {
        let call = patient("GET")
            .input("item", port)
            .config("url", json!("https://service.example/{{ has(inputs.item) ? inputs.item : 'nothing' }}"));
        let change = transform("change").config("assign", json!({"item": "'changed'"}));
        workflow([call, task("wait"), change]).flow("wait > change")
    }

    #[test]
    fn every_attempt_gets_what_the_first_one_got() {
        let flow = calling_about(variable("item")).variable("item", "string").or(json!("lamp"));
        let story = Story::of(&flow).start();
        assert_eq!(url(&story), "https://service.example/lamp");
        let story = story
            .report_trouble("call", "no answer", Reached::No)
            .report("wait")
            .after(100)
            .fire_timer("retry/1/call");
        assert_eq!(story.variable("item"), Some(r#""changed""#));
        assert_eq!(url(&story), "https://service.example/lamp");
    }

    #[test]
    fn an_input_that_was_not_there_stays_away() {
        let story = Story::of(&calling_about(variable("item").optional())).start();
        assert_eq!(url(&story), "https://service.example/nothing");
        let story = story.report("wait");
        assert_eq!(story.variable("item"), Some(r#""changed""#));
        assert_eq!(
            url(&story),
            "https://service.example/nothing",
            "although the variable has a value by now"
        );
    }

    #[test]
    fn every_attempt_bears_the_same_name() {
        let name = |story: &Story| match story.performance("call") {
            Performance::Http(request) => request.idempotency_key,
            _ => panic!("the node sends a request"),
        };
        let story = Story::of(&workflow([patient("GET").looping(1)]).flow("call > call")).start();
        let first = name(&story);
        let story = story.report_trouble("call", "x", Reached::No).after(100).fire_timer("retry/1/call");
        assert_eq!(name(&story), first);
        let story = story.report("call");
        assert_ne!(name(&story), first, "another execution is another call");
    }

    #[test]
    fn a_request_is_described_with_the_names_of_its_secrets() {
        let call = http("call", "POST")
            .config("headers", json!({"X-Trace": "{{ run.id }}"}))
            .config("body", json!({"q": "{{ inputs.q }}", "token": "{{ secrets.TOKEN }}"}))
            .with("credentialsRef", json!("LOGIN"))
            .input("q", expression("1 + 1"));
        let story = Story::of(&workflow([call])).start();
        let Performance::Http(request) = story.performance("call") else {
            panic!("the node sends a request");
        };
        assert_eq!(request.method, "POST");
        let names: Vec<&str> = request.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["X-Trace", "Authorization"]);
        let login = [Piece::Text("Bearer ".to_owned()), Piece::Secret("LOGIN".to_owned())];
        assert_eq!(request.headers[1].1, login);
        let body = request.body.expect("it has a body");
        assert_eq!(body.content_type, "application/json");
        assert!(body.pieces.contains(&Piece::SecretInJson("TOKEN".to_owned())));
        assert_eq!((request.timeout_ms, request.redirects_max), (limits::HTTP_TIMEOUT_MS_DEFAULT, 5));
    }

    #[test]
    fn a_request_that_can_not_be_put_together_fails_its_node() {
        let call = patient("GET").config("url", json!("https://service.example/{{ inputs.nothing }}"));
        let story = Story::of(&calling(call)).start();
        assert!(matches!(story.performance("call"), Performance::Done(Err(_))));
        story.perform("call").node_is("call", NodePhase::Failed).stands(Status::Failed);
    }

    #[test]
    fn a_request_reads_nothing_that_may_change() {
        let call = http("call", "GET").config("url", json!("https://service.example/{{ variables.item }}"));
        assert_eq!(
            workflow([call]).problems(),
            "nodes['call'].config.url: there is no 'variables' here; the names are inputs, configurable, run"
        );
    }
}
