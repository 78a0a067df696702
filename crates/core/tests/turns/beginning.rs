//! What a model is told first, and what a definition may say of a turn.

use abide_core::{Message, Start, Status};

use serde_json::json;

use super::*;
use crate::workflow::{fixed, variable};

fn messages(story: &Story) -> Value {
    serde_json::to_value(story.model_call("ask").messages).expect("messages are JSON")
}

#[test]
fn a_prompt_may_take_from_the_run() {
    let asks = turn("ask")
        .config("system", json!("Be brief."))
        .config("prompt", json!("Greet {{ variables.name }}."));
    let story = of(&workflow([asks]).required("name", "string")).input("name", &json!("Ada")).start();
    let told = [
        json!({ "role": "system", "content": "Be brief." }),
        json!({ "role": "user", "content": "Greet Ada." }),
    ];
    assert_eq!(messages(&story), json!(told));
}

#[test]
fn messages_stand_between_system_and_prompt() {
    let asks = turn("ask").config(
        "messages",
        json!([{ "role": "user", "content": "Hi" }, { "role": "assistant", "content": "Yes?" }]),
    );
    let roles: Vec<_> = messages(&of(&workflow([asks])).start())
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["role"].clone())
        .collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
}

#[test]
fn the_run_may_choose_model_and_parameters() {
    let options = json!({ "model": "haiku", "temperature": 0.5, "maxTokens": 99 });
    let asks = turn("ask").config("model", json!("opus")).config("maxTokens", json!(10));
    let call = of(&workflow([asks])).configurable(&options).start().model_call("ask");
    assert_eq!((call.model.as_deref(), call.max_tokens), (Some("haiku"), Some(99)));
    assert_eq!(call.temperature.as_ref().map(Json::text), Some("0.5"));
}

#[test]
fn a_node_may_say_how_long_a_call_may_take() {
    let story = of(&workflow([turn("ask").setting("timeoutMs", json!(60_000))])).start();
    assert_eq!(story.model_call("ask").timeout_ms, Some(60_000));
    assert_eq!(calling().model_call("ask").timeout_ms, None);
}

#[test]
fn a_turn_keeps_to_the_model_that_its_provider_had_when_it_began() {
    let story = calling();
    assert_eq!(story.model_call("ask").model.as_deref(), Some("opus"));
    assert_eq!(story.run().turns()[0].model.as_deref(), Some("opus"));
}

#[test]
fn a_turn_goes_on_with_another_and_knows_how_that_ended() {
    let flow = workflow([
        turn("first"),
        turn("ask").config("continues", json!("first")).config("prompt", json!("And now?")),
    ]);
    let flow = flow.under("any_failed", "first > ask");
    let story = of(&flow).start();
    let call = story.call_ref("first");
    let error = emitted("HTTP 400: too long", Some("400"), Some(false));
    let story = story.turn(TurnCommand::Ended { call, outcome: Err(error), rest: vec![] });
    let told = messages(&story);
    assert_eq!(told[0]["content"], "Say hello.");
    assert_eq!(told[1]["content"], "[The previous turn failed: HTTP 400: too long]");
    assert_eq!(told[2]["content"], "And now?");
}

#[test]
fn a_provider_that_is_not_there_is_named() {
    let asks = turn("ask").config("provider", json!("gpt"));
    let message = "node 'ask' asks provider 'gpt', which this server does not have; it has claude";
    of(&workflow([asks])).start().failed_with("provider_unknown", message);
    let story = Story::of(&workflow([turn("ask")])).start();
    assert_eq!(story.run().error().map(|error| error.code.as_str()), Some("provider_unknown"));
}

#[test]
fn a_model_that_is_told_nothing_is_not_called() {
    let story = of(&workflow([of_kind("ask", "core.llm.chat")])).start().stands(Status::Failed);
    assert_eq!(story.run().error().map(|error| error.code.as_str()), Some("input_missing"));
}

#[test]
fn what_a_definition_says_wrong_is_found_when_it_is_admitted() {
    let wrong = turn("ask")
        .config("temperature", json!(3))
        .config("system", json!("{{ secrets.key }}"))
        .config("params", json!({ "stream": false }))
        .config("tools", json!([{ "name": "a b", "kind": "core.noop" }, { "name": "ok" }]))
        .config("maxStep", json!(3));
    let problems = workflow([wrong]).problems();
    for told in [
        "temperature: a number from 0 to 2",
        "system: what a model is told can't hold a secret",
        "params.stream: 'stream' is not said here",
        "tools[0].name: a tool's name",
        "tools[1]: say either the 'kind' or the 'workflow'",
        "maxStep",
    ] {
        assert!(problems.contains(told), "{told}: {problems}");
    }
}

#[test]
fn openwops_own_kind_has_prompts_that_runs_replace() {
    let asks = of_kind("ask", "core.ai.callPrompt")
        .config("promptId", json!("greeting"))
        .config("expectsStreaming", json!(true));
    let options = json!({ "promptOverrides": { "greeting": "Hello there" } });
    let story = of(&workflow([asks])).configurable(&options).start();
    assert_eq!(story.model_call("ask").messages, [Message::User { content: Json::of("Hello there") }]);
}

#[test]
fn a_run_of_an_older_release_knows_no_turns() {
    let mut start = Start::of(story::key(), story::SALT, workflow([turn("ask")]).graph());
    start.defaults = Arc::new(around());
    let (run, _) = abide_core::Run::start(start, story::BEGIN).expect("it starts");
    assert_eq!(run.status(), Status::Running, "a new one does");
}

#[test]
fn a_turn_that_goes_on_with_what_is_never_shown_shows_nothing_either() {
    let flow = workflow([
        turn("first").config("prompt", json!("Greet {{ variables.name }}.")),
        turn("ask").config("continues", json!("first")).config("prompt", json!("And now?")),
    ]);
    let flow = flow.flow("first > ask").required("name", "string").sensitive();
    let story = of(&flow).input("name", &json!("Ada")).start();
    let call = story.call_ref("first");
    let story = story.turn(TurnCommand::Ended { call, outcome: Ok(Box::new(saying("Hi"))), rest: vec![] });
    assert_eq!(story.payloads("turn.began")[1]["sensitive"], true);
    assert!(story.model_call("ask").sensitive);
}

#[test]
fn a_turn_that_goes_on_with_one_that_was_stopped_answers_its_calls() {
    let tools = json!([{ "name": "look", "kind": "core.noop" }]);
    let flow = workflow([
        turn("first").config("tools", tools).config("maxSteps", json!(1)),
        turn("ask").config("continues", json!("first")).config("prompt", json!("And now?")),
    ]);
    let story = of(&flow.under("any_failed", "first > ask")).start();
    let call = story.call_ref("first");
    let answer = using(&[("c1", "look", json!({}))]);
    let story = story.turn(TurnCommand::Ended { call, outcome: Ok(Box::new(answer)), rest: vec![] });
    let told = messages(&story);
    assert_eq!((&told[1]["toolCalls"][0]["id"], &told[2]["toolCallId"]), (&json!("c1"), &json!("c1")));
    assert_eq!((&told[2]["role"], &told[2]["isError"]), (&json!("tool"), &json!(true)));
}

#[test]
fn options_that_no_model_takes_are_refused_at_the_start() {
    for (key, wrong) in [
        ("model", json!(5)),
        ("maxTokens", json!(-1)),
        ("maxTokens", json!("many")),
        ("temperature", json!("hot")),
        ("temperature", json!(9)),
    ] {
        let refused = of(&workflow([turn("ask")])).configurable(&json!({ key: wrong })).refused();
        assert!(refused.to_string().contains(&format!("configurable.{key}")), "{refused}");
    }
    let none = json!({ "model": null, "maxTokens": null, "temperature": null });
    let call = of(&workflow([turn("ask")])).configurable(&none).start().model_call("ask");
    assert_eq!((call.model.as_deref(), call.max_tokens, call.temperature), (Some("opus"), None, None));
    of(&workflow([of_kind("a", "core.noop")])).configurable(&json!({ "model": 5 })).start();
}

#[test]
fn what_cannot_be_looked_into_is_said_all_the_same() {
    let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
    let said = Json::of(
        &serde_json::value::RawValue::from_string(format!(r#"[{{"role":"user","content":[1e999,{deep}]}}]"#))
            .unwrap(),
    );
    let asks = turn("ask").input("messages", variable("said"));
    let mut start = Start::of(story::key(), story::SALT, workflow([asks]).required("said", "array").graph());
    start.inputs.insert("said".to_owned(), said);
    start.defaults = Arc::new(around());
    let (mut run, step) = abide_core::Run::start(start, story::BEGIN).expect("it starts");
    let fence = step.records.last().expect("the model is called").sequence << 16;
    let call = CallRef { task: TaskId { node: "ask".into(), execution: 1 }, fence };
    let ended = TurnCommand::Ended { call, outcome: Ok(Box::new(saying("Hm."))), rest: vec![] };
    run.decide(Command::Turn(Box::new(ended)), story::BEGIN).expect("it is taken in");
    assert_eq!(run.status(), Status::Completed);
}

#[test]
fn an_input_that_is_null_is_not_said() {
    let asks = turn("ask").input("prompt", fixed(&Value::Null)).input("messages", fixed(&Value::Null));
    let told = messages(&of(&workflow([asks])).start());
    assert_eq!(told, json!([{ "role": "user", "content": "Say hello." }]));
}
