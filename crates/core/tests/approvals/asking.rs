//! Questions back: they close nothing, and neither do their answers.

use abide_core::{Command, Json, Rejection, Reply, Status, exchanges_variable, limits};
use serde_json::{Value, json};

use super::story::Story;
use super::workflow::{noop, workflow};
use super::*;

fn open() -> Story {
    Story::of(&workflow([draft(), gate_on_draft(), noop("send")]).flow("draft > gate > send")).start()
}

fn ask(story: Story, who: &str, question: &str) -> Story {
    says(story, who, &json!({ "action": "ask", "question": question }))
}

fn reply(story: Story, number: u32, answer: &Value) -> Story {
    let id = story.run().interrupt_of("gate").unwrap();
    let reply = Reply { id, ask: number, answer: Json::of(answer), by: "author".to_owned() };
    story.ask(Command::Reply(Box::new(reply)))
}

fn exchanges(story: &Story) -> Value {
    serde_json::from_str(story.variable(&exchanges_variable("gate")).expect("it is set")).unwrap()
}

#[test]
fn a_question_back_leaves_everything_as_it_was() {
    let story = open();
    let before = story.run().interrupt_of("gate").unwrap();
    let story = ask(story, "ann", "Why 7?").expect(["approval.asked gate", "variable.changed"]);
    let story = story.stands(Status::WaitingApproval);
    assert_eq!(story.run().interrupt_of("gate"), Ok(before));
}

#[test]
fn what_is_asked_and_answered_accumulates_in_order() {
    let story = ask(ask(open(), "ann", "Why?").after(5), "bob", "When?");
    let story = reply(story, 2, &json!("Now.")).expect(["approval.replied gate", "variable.changed"]);
    let told = exchanges(&story);
    assert_eq!(
        (&told[0]["id"], &told[0]["question"], &told[0]["askedBy"]),
        (&json!("ask-1"), &json!("Why?"), &json!("ann"))
    );
    assert_eq!((&told[1]["answer"], &told[1]["answeredBy"]), (&json!("Now."), &json!("author")));
    assert!(told[0].get("answer").is_none());
    let story = reply(story, 1, &json!({ "because": [1] }));
    assert_eq!(exchanges(&story)[0]["answer"], json!({ "because": [1] }));
    assert_eq!(story.node("gate").execution, 1, "nothing was resumed");
}

#[test]
fn only_a_decision_closes_it_however_often_somebody_asks() {
    let story = ask(ask(ask(open(), "ann", "1?"), "ann", "2?"), "ann", "3?").stands(Status::WaitingApproval);
    let story = says(story, "ann", &act("accept")).stands(Status::Completed);
    assert_eq!(exchanges(&story).as_array().unwrap().len(), 3, "they stay");
}

#[test]
fn an_answer_is_given_once_and_to_what_was_asked() {
    let story = reply(ask(open(), "ann", "Why?"), 1, &json!("So."));
    let story = reply(story, 1, &json!("Other.")).refused(&Rejection::AskAnswered);
    let story = reply(story, 2, &json!("?")).refused(&Rejection::NoSuchAsk);
    let id = story.run().interrupt_of("gate").unwrap();
    let story = says(story, "ann", &act("accept"));
    let late = Reply { id, ask: 1, answer: Json::of(&1), by: "x".to_owned() };
    story.ask(Command::Reply(Box::new(late))).refused(&Rejection::AlreadyResolved);
}

#[test]
fn a_question_back_is_closed_in_form_and_bounded() {
    let told = |value: Value| wrong(&says(open(), "ann", &value));
    assert_eq!(told(json!({ "action": "ask" })), ["'question' is missing; add it"]);
    assert!(told(json!({ "action": "ask", "question": " " }))[0].starts_with("/question: "));
    assert!(told(json!({ "action": "ask", "question": "q", "feedback": "f" }))[0].starts_with("/feedback: "));
    let mut story = open();
    for _ in 0..limits::ASKS_MAX {
        story = ask(story, "ann", "?");
    }
    assert!(wrong(&ask(story, "ann", "?"))[0].contains("no more are taken"));
    let long = "x".repeat(limits::ASKS_BYTES_MAX / 5);
    let mut story = open();
    for _ in 0..4 {
        story = ask(story, "ann", &long);
    }
    assert!(wrong(&ask(story, "ann", &long))[0].contains("say less"));
}

#[test]
fn the_agent_of_a_gate_is_called_for_what_is_asked() {
    let gate = gate_on_draft().setting("agent", json!("scribe"));
    let story = Story::of(&workflow([draft(), gate]).flow("draft > gate")).start();
    let story = ask(ask(story, "ann", "Why?"), "ann", "When?");
    let effects = format!("{:?}", story.step().effects);
    assert!(effects.contains("QuestionAsked") && effects.contains("attempt: 2"), "{effects}");
}

#[test]
fn a_quorum_may_be_asked_back_and_a_refined_one_counts_on() {
    let gate = gate_on_draft().config("requiredApprovals", json!(2));
    let story = Story::of(&workflow([draft(), gate]).flow("draft > gate")).start();
    says(ask(story, "ann", "Why?"), "ann", &act("accept")).stands(Status::WaitingApproval);
    let story = ask(open(), "ann", "first?");
    let refine = json!({ "action": "refine", "refineFeedback": { "scope": "whole", "text": "t" } });
    let story = ask(says(story, "ann", &refine), "ann", "second?");
    assert_eq!(exchanges(&story)[1]["id"], "ask-2", "a name is used once in a run");
    let open = story.run().interrupts().next().unwrap();
    assert_eq!(open.exchanges.len(), 1, "what is shown is of this question");
}
