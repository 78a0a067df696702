//! Conversations: opened and closed without waiting for anybody, one turn after the other in between, under an id that
//! nobody else has.

#[expect(dead_code, reason = "commands.rs and others tell the rest of the vocabulary")]
#[path = "domain/story.rs"]
mod story;
#[expect(dead_code, reason = "nodes.rs tells the rest of the vocabulary")]
#[path = "domain/workflow.rs"]
mod workflow;

use std::sync::Arc;

use abide_core::{
    Command, Effect, Json, NodePhase, Offers, Provided, Rejection, Status, Surroundings, TaskId, Work,
    WorkAsk, WorkOp, WorkOutcome, conversation_name, is_minted_conversation,
};
use serde_json::{Value, json};
use story::Story;
use workflow::{Sketch, Workflow, noop, of_kind, output, workflow};

fn gate(id: &str, lifecycle: &str) -> Sketch {
    of_kind(id, "core.conversationGate").config("lifecycle", json!(lifecycle))
}

/// A node that asks by the plain primitive.
fn plain(id: &str, kind: &str, data: Value) -> Sketch {
    of_kind(id, "core.interrupt").config("kind", json!(kind)).config("data", data)
}

fn said(story: &Story, event: &str) -> Value {
    serde_json::from_str(&story.payload(event)).expect("payloads are JSON")
}

fn count(story: &Story, event: &str) -> usize {
    story.history().iter().filter(|line| line.split(' ').next() == Some(event)).count()
}

fn id_of(story: &Story) -> String {
    said(story, "conversation.opened")["conversationId"].as_str().expect("an id").to_owned()
}

#[track_caller]
fn failed(story: &Story, code: &str) {
    assert_eq!(story.run().error().map(|error| error.code.as_str()), Some(code), "{:?}", story.history());
}

mod opening {
    use super::*;

    #[test]
    fn it_is_opened_at_once_and_the_run_goes_on_without_an_answer() {
        let flow = workflow([gate("open", "open").config("title", json!("Refund")), noop("next")])
            .flow("open > next");
        let story = Story::of(&flow).start().stands(Status::Completed);
        let events: Vec<String> =
            story.history().into_iter().filter(|line| line.ends_with(" open")).collect();
        // All in the commit that started the run.
        assert_eq!(story.journal().len(), story.step().records.len());
        let expected = [
            "node.started open",
            "interrupt.requested open",
            "interrupt.resolved open",
            "conversation.opened open",
            "node.completed open",
        ];
        assert_eq!(events, expected);
        assert_eq!(count(&story, "conversation.opened"), 1);
        assert_eq!(said(&story, "interrupt.resolved")["resumeValue"], Value::Null);
    }

    #[test]
    fn the_run_makes_an_id_that_nobody_can_foresee_and_tells_it() {
        let story = Story::of(&workflow([gate("open", "open")])).start();
        let id = id_of(&story);
        assert!(is_minted_conversation(&id), "{id}");
        let outputs: Value = story.node("open").outputs.as_ref().expect("outputs").parse().unwrap();
        assert_eq!(outputs["conversationId"], id.as_str());
        assert_eq!(said(&story, "interrupt.requested")["data"]["conversationId"], id.as_str());
    }

    #[test]
    fn a_chosen_id_is_kept_and_what_goes_with_it_is_told() {
        let data = json!({ "conversationId": "ticket-7", "title": "Refund", "initialPrompt": "Hello" });
        let story = Story::of(&workflow([plain("open", "conversation.start", data)])).start();
        let told = said(&story, "conversation.opened");
        assert_eq!((&told["conversationId"], &told["title"]), (&json!("ticket-7"), &json!("Refund")));
        assert_eq!(told["initialPrompt"], "Hello");
        let name = Effect::TakeName(conversation_name("ticket-7"));
        assert!(story.step().effects.contains(&name), "it has the id to itself from this commit on");
    }

    #[test]
    fn an_id_that_another_run_has_is_refused_and_nothing_is_opened() {
        let taken = Arc::new([conversation_name("ticket-7")].into());
        let start = gate("open", "open").config("conversationId", json!("ticket-7"));
        let story =
            Story::of(&workflow([start])).under(Surroundings { taken, ..Surroundings::default() }).start();
        failed(&story, "conversation_id_taken");
        assert_eq!(count(&story, "interrupt.requested") + count(&story, "conversation.opened"), 0);
        assert!(!story.step().effects.iter().any(|effect| matches!(effect, Effect::TakeName(_))));
    }

    #[test]
    fn a_run_can_not_open_the_same_conversation_twice_even_after_its_end() {
        for first in ["open", "open-exchange-close"] {
            let open = |id: &str, lifecycle: &str| {
                gate(id, lifecycle).config("conversationId", json!("c1")).config("prompt", json!("Well?"))
            };
            let flow = workflow([open("one", first), open("two", "open")]).flow("one > two");
            let mut story = Story::of(&flow).start();
            if first != "open" {
                story = story.answer("one", &json!("well"));
            }
            failed(&story, "conversation_id_taken");
            assert_eq!(count(&story, "conversation.opened"), 1);
        }
    }

    #[test]
    fn where_there_are_no_conversations_none_is_opened() {
        let none = Offers { mocks: false, conversations: false };
        let kinds = [
            gate("g", "open"),
            gate("g", "exchange").config("conversationId", json!("c")),
            plain("g", "conversation.start", json!({})),
            plain("g", "conversation.close", json!({ "conversationId": "c" })),
        ];
        for node in kinds {
            let flow = workflow([node]);
            let graph = Arc::new(abide_core::Graph::admit(flow.text().as_bytes()).unwrap().offered(none));
            let refused = Story::following(graph.clone()).refused();
            let Rejection::CapabilityRequired { capability, .. } = &refused else { panic!("{refused:?}") };
            assert_eq!(*capability, "conversationPrimitive");
            assert!(refused.to_string().contains("clarification"), "{refused}");
            assert_eq!(graph.check_conversations(none).unwrap_err(), refused, "it can't be pushed either");
            assert!(graph.check_conversations(Offers::default()).is_ok());
        }
        assert!(
            !none.capability("conversationPrimitive")
                && Offers::default().capability("conversationPrimitive")
        );
        // What can't be foreseen is refused when it comes.
        let hidden = of_kind("g", "core.interrupt")
            .config("kind", json!("{{ 'conversation' + '.start' }}"))
            .config("data", json!({}));
        let around = Surroundings { no_conversations: true, ..Surroundings::default() };
        failed(&Story::of(&workflow([hidden])).under(around).start(), "capability_required");
    }
}

mod exchanging {
    use super::*;

    fn three() -> Workflow {
        workflow([gate("talk", "open-exchange-close").config("prompts", json!(["One?", "Two?", "Three?"]))])
    }

    #[test]
    fn turns_are_counted_from_0_and_each_answer_is_told() {
        let mut story = Story::of(&three()).start();
        let id = id_of(&story);
        for (turn, prompt) in ["One?", "Two?", "Three?"].into_iter().enumerate() {
            story = story.stands(Status::WaitingApproval).node_is("talk", NodePhase::Suspended);
            let asked = said(&story, "interrupt.requested");
            assert_eq!(
                (&asked["data"]["turnIndex"], &asked["data"]["prompt"]),
                (&json!(turn), &json!(prompt))
            );
            story = story.answer("talk", &json!(format!("answer {turn}")));
            let told = said(&story, "conversation.exchanged");
            assert_eq!((&told["conversationId"], &told["turnIndex"]), (&json!(id), &json!(turn)));
            assert_eq!(
                (&told["prompt"], &told["outcome"]),
                (&json!(prompt), &json!(format!("answer {turn}")))
            );
        }
        let story = story.stands(Status::Completed);
        assert_eq!(count(&story, "conversation.exchanged"), 3);
        let outputs: Value = story.node("talk").outputs.as_ref().expect("outputs").parse().unwrap();
        assert_eq!(
            (&outputs["outcome"], outputs["turns"].as_array().unwrap().len()),
            (&json!("answer 2"), 3)
        );
    }

    #[test]
    fn an_answer_that_does_not_fit_leaves_the_turn_open() {
        let schema = json!({ "type": "object", "required": ["ok"] });
        let talk = gate("talk", "open-exchange-close").config("outcomeSchema", schema);
        let story = Story::of(&workflow([talk])).start();
        let open = story.open_at("talk");
        let story = story.answer("talk", &json!("no"));
        assert!(matches!(story.last_rejection(), Rejection::BadAnswer(_)));
        assert_eq!(story.open_at("talk"), open);
        story.answer("talk", &json!({ "ok": true })).stands(Status::Completed);
    }

    #[test]
    fn a_conversation_goes_through_several_nodes() {
        let id = || output("open", "conversationId");
        let flow = workflow([
            gate("open", "open"),
            gate("first", "exchange").config("prompt", json!("One?")).input("conversationId", id()),
            gate("second", "exchange-close").config("prompt", json!("Two?")).input("conversationId", id()),
        ])
        .flow("open > first > second");
        let story = Story::of(&flow).start().answer("first", &json!(1)).answer("second", &json!(2));
        let story = story.stands(Status::Completed);
        assert_eq!(said(&story, "conversation.exchanged")["turnIndex"], 1);
        assert_eq!(said(&story, "conversation.closed")["turns"], 2);
    }

    #[test]
    fn a_turn_needs_an_open_conversation_of_this_run_and_a_prompt() {
        let turn =
            |id: &str| plain("turn", "conversation.exchange", json!({ "conversationId": id, "prompt": "?" }));
        failed(&Story::of(&workflow([turn("never")])).start(), "conversation_not_found");
        let flow = workflow([
            gate("open", "open").config("conversationId", json!("c")),
            gate("close", "close").config("conversationId", json!("c")),
            turn("c"),
        ])
        .flow("open > close > turn");
        failed(&Story::of(&flow).start(), "conversation_closed");
        for data in [json!({ "prompt": "?" }), json!({ "conversationId": "c" })] {
            let problems = workflow([plain("turn", "conversation.exchange", data)]).problems();
            assert!(problems.contains("is missing"), "{problems}");
        }
    }

    #[test]
    fn a_turn_that_is_counted_by_hand_is_counted_forwards() {
        let turn = |id: &str, index: u32| {
            let data = json!({ "conversationId": "c", "prompt": "?", "turnIndex": index });
            plain(id, "conversation.exchange", data)
        };
        let open = gate("open", "open").config("conversationId", json!("c"));
        let flow = workflow([open.clone(), turn("a", 4), turn("b", 5)]).flow("open > a > b");
        let story = Story::of(&flow).start().answer("a", &json!(1)).answer("b", &json!(1));
        assert_eq!(said(&story.stands(Status::Completed), "conversation.exchanged")["turnIndex"], 5);
        let flow = workflow([open, turn("a", 4), turn("b", 4)]).flow("open > a > b");
        failed(&Story::of(&flow).start().answer("a", &json!(1)), "invalid_interrupt");
    }
}

mod closing {
    use super::*;

    #[test]
    fn it_is_closed_at_once_and_no_turn_follows() {
        let talk = gate("talk", "open-exchange-close").config("reason", json!("solved"));
        let story =
            Story::of(&workflow([talk])).start().answer("talk", &json!("bye")).stands(Status::Completed);
        let told = said(&story, "conversation.closed");
        assert_eq!((&told["conversationId"], &told["reason"]), (&json!(id_of(&story)), &json!("solved")));
        let history = story.history();
        let place = |event: &str| history.iter().rposition(|line| line.starts_with(event)).unwrap();
        assert!(place("conversation.exchanged") < place("conversation.closed"), "{history:?}");
        let last: Vec<&str> = history[place("conversation.closed") - 2..]
            .iter()
            .map(|line| line.split(' ').next().unwrap())
            .collect();
        assert_eq!(
            last,
            [
                "interrupt.requested",
                "interrupt.resolved",
                "conversation.closed",
                "node.completed",
                "run.completed"
            ]
        );
        assert_eq!(count(&story, "conversation.closed"), 1);
        assert_eq!(story.run().conversations().next().map(|(_, found)| found.closed), Some(true));
    }

    #[test]
    fn it_is_not_closed_while_somebody_is_asked_for_a_turn() {
        let id = || json!("c");
        let flow = workflow([
            gate("open", "open").config("conversationId", id()),
            gate("turn", "exchange").config("conversationId", id()),
            gate("close", "close").config("conversationId", id()),
        ])
        .flow("open > turn")
        .flow("open > close");
        failed(&Story::of(&flow).start(), "conversation_busy");
    }

    #[test]
    fn opening_and_closing_at_once_has_no_order_and_is_refused() {
        let list = json!([
            { "kind": "conversation.start", "data": { "conversationId": "c" } },
            { "kind": "conversation.start", "data": { "conversationId": "c" } },
        ]);
        let story =
            Story::of(&workflow([of_kind("all", "core.interrupt").config("interrupts", list)])).start();
        failed(&story, "conversation_busy");
        let list = json!([
            { "kind": "conversation.start", "data": { "conversationId": "c" } },
            { "kind": "custom", "data": { "customKind": "colour" } },
        ]);
        let story =
            Story::of(&workflow([of_kind("all", "core.interrupt").config("interrupts", list)])).start();
        let story = story.node_is("all", NodePhase::Suspended).answer("all", &json!("red"));
        story.stands(Status::Completed);
    }

    #[test]
    fn a_gate_says_what_it_does_in_one_of_six_words() {
        let wrong = |key: &str, value: Value| {
            workflow([gate("g", "open-exchange-close").config(key, value)]).problems()
        };
        assert!(wrong("lifecycle", json!("closing")).contains("open-exchange-close, open, exchange, close"));
        assert!(wrong("turnCount", json!(0)).contains("from 1 to 200"));
        assert!(wrong("prompts", json!([])).contains("'prompts' is a list"));
        let story = Story::of(&workflow([gate("g", "exchange")])).start();
        failed(&story, "invalid_config");
    }

    #[test]
    fn a_mock_answers_where_the_public_fixtures_are_played_and_nowhere_else() {
        let talk = gate("talk", "open-exchange-close")
            .config("mockAutoResume", json!(true))
            .config("turnCount", json!(3));
        let flow = workflow([talk]);
        assert!(Story::of(&flow).refused().to_string().contains("--conformance"));
        let story = Story::of(&flow.with_mocks()).start().stands(Status::Completed);
        assert_eq!(count(&story, "conversation.exchanged"), 3);
        assert_eq!(count(&story, "clarification.requested"), 0);
    }
}

mod working {
    use super::*;

    const KIND: &str = "acme.talk";

    fn begun() -> Story {
        let kinds = Arc::new([(KIND.to_owned(), Provided::default())].into());
        let around = Surroundings { kinds, ..Surroundings::default() };
        Story::of(&workflow([of_kind("job", KIND)])).under(around).start()
    }

    fn ask(call: u32, kind: &str, data: &Value) -> WorkOp {
        WorkOp::Ask(Box::new(WorkAsk {
            agent: "scribe".to_owned(),
            principal: None,
            key: None,
            call,
            payload: Json::of(&json!({ "kind": kind, "data": data })),
            ladder: None,
            respondents: None,
            single: false,
            hooks: Vec::new(),
        }))
    }

    fn does(story: Story, op: WorkOp) -> Story {
        let fence = story.run().offers().next().expect("it is offered").fence;
        let task = TaskId { node: "job".into(), execution: 1 };
        story.ask(Command::Work(Box::new(Work { task, fence, op })))
    }

    fn told(story: &Story, op: &WorkOp) -> Value {
        let task = TaskId { node: "job".into(), execution: 1 };
        match story.run().work_outcome(&task, op) {
            Some(WorkOutcome::Ask(state)) => match *state {
                abide_core::AskState::Answered { value, .. } => value.parse().expect("it is JSON"),
                other => json!(format!("{other:?}")),
            },
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_worker_opens_a_conversation_takes_turns_and_closes_it() {
        let open = ask(1, "conversation.start", &json!({ "title": "T" }));
        let story = does(begun(), open.clone());
        let id = told(&story, &open)["conversationId"].as_str().expect("it is told the id").to_owned();
        assert!(is_minted_conversation(&id));
        let turn = ask(2, "conversation.exchange", &json!({ "conversationId": id, "prompt": "And?" }));
        let story = does(story, turn.clone()).answer("job", &json!("well"));
        assert_eq!(told(&story, &turn), json!("well"));
        let close = ask(3, "conversation.close", &json!({ "conversationId": id }));
        let story = does(story, close.clone());
        assert_eq!(told(&story, &close), Value::Null);
        // Whoever does it again from the top records nothing new.
        let records = story.journal().len();
        let story = [open, turn, close].into_iter().fold(story, does);
        assert_eq!(story.journal().len(), records);
        let late = ask(4, "conversation.exchange", &json!({ "conversationId": id, "prompt": "?" }));
        let story = does(story, late);
        assert!(
            matches!(story.last_rejection(), Rejection::Work(failure) if failure.code == "conversation_closed")
        );
    }
}

mod kinds {
    use super::*;

    /// Every kind, with data that it takes, asked by the plain primitive alone: nothing here uses its second name.
    #[test]
    fn the_primitive_serves_every_kind_without_its_second_name() {
        let open = gate("open", "open").config("conversationId", json!("c"));
        let letter = json!({ "artifactId": "a", "artifactType": "t", "title": "T", "actions": ["accept"] });
        let (accept, questions) = (json!({ "action": "accept" }), json!([{ "id": "q", "question": "Q?" }]));
        let cases = [
            ("approval", letter, Some(accept)),
            ("clarification", json!({ "questions": questions }), Some(json!({ "answers": { "q": 1 } }))),
            (
                "external-event",
                json!({ "eventType": "e", "correlation": { "k": 1 } }),
                Some(json!({ "k": 1 })),
            ),
            ("custom", json!({ "customKind": "nobody knows it", "payload": [1] }), Some(json!("any"))),
            ("conversation.start", json!({ "conversationId": "d" }), None),
            ("conversation.exchange", json!({ "conversationId": "c", "prompt": "?" }), Some(json!("any"))),
            ("conversation.close", json!({ "conversationId": "c" }), None),
            (
                "low-confidence",
                json!({ "agentId": "abc", "threshold": 0.7, "observed": 0.1 }),
                Some(json!([2])),
            ),
        ];
        assert_eq!(cases.len(), abide_core::InterruptKind::ALL.len());
        for (kind, data, answer) in cases {
            let flow = workflow([open.clone(), plain("ask", kind, data)]).flow("open > ask");
            let mut story = Story::of(&flow).start();
            assert_eq!(said(&story, "interrupt.requested")["kind"], kind);
            if let Some(answer) = answer {
                story = story.answer("ask", &answer);
            }
            let story = story.stands(Status::Completed);
            let asked: Vec<Value> = story
                .journal()
                .iter()
                .filter(|record| story::type_name(record) == "interrupt.requested")
                .map(|record| serde_json::from_str(&story::payload_text(record)).unwrap())
                .collect();
            assert!(asked.iter().all(|asked: &Value| asked.get("reason").is_none()));
        }
    }
}
