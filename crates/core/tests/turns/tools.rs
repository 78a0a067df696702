//! Tools: each call is a run of its own, is made once, and the model hears how it ended.

use abide_core::{Failure, Graph, Lifecycle, NodePhase, Notice, Run, Start, Status};
use serde_json::json;

use super::*;

fn look_up() -> Value {
    json!({
        "name": "look_up", "description": "Finds an order.", "kind": "shop.orders",
        "parameters": { "type": "object", "properties": { "id": { "type": "string" } }, "required": ["id"] },
    })
}

fn with_tools(tools: &Value) -> Story {
    of(&workflow([turn("ask").config("tools", tools.clone()).config("maxSteps", json!(3))])).start()
}

impl Story {
    /// The run of the tool that was called last ends.
    #[track_caller]
    fn tool_ends(self, lifecycle: Lifecycle, outputs: &Value) -> Self {
        let child = self.node("ask").child.expect("a tool was called");
        self.tool_run_ends(child, lifecycle, outputs, None)
    }

    #[track_caller]
    fn tool_run_ends(
        self,
        child: abide_core::RunId,
        lifecycle: Lifecycle,
        outputs: &Value,
        error: Option<Failure>,
    ) -> Self {
        let outputs = story::json(outputs).parse().expect("outputs are an object");
        let notice = Notice { node: "ask".to_owned(), outputs, error, ..story::notice(child, 5, lifecycle) };
        self.hear(notice, None)
    }
}

#[test]
fn a_tool_is_a_run_and_the_model_is_called_again_with_what_it_said() {
    let story = with_tools(&json!([look_up()])).answers(using(&[("c1", "look_up", json!({ "id": "7" }))]));
    let story = story
        .expect(["model.answered ask", "provider.usage ask", "node.spawned ask"])
        .node_is("ask", NodePhase::Waiting);
    assert!(story.is_parked());
    let spawn = story.spawn();
    assert_eq!((spawn.workflow_id.as_str(), spawn.inputs["id"].text()), ("tool-look_up", "\"7\""));
    let story =
        story.tool_ends(Lifecycle::Completed, &json!({ "result": { "outputs": { "state": "sent" } } }));
    let story = story.expect(["child.reported", "tool.answered ask", "node.due ask", "model.called ask"]);
    let told = serde_json::to_value(&story.model_call("ask").messages).unwrap();
    assert_eq!(told[1]["toolCalls"][0]["id"], "c1");
    assert_eq!(
        told[2],
        json!({ "role": "tool", "toolCallId": "c1", "name": "look_up", "content": r#"{"state":"sent"}"# })
    );
    story.answers(saying("It was sent.")).stands(Status::Completed);
}

#[test]
fn the_workflow_of_a_tool_is_sound_and_keeps_what_the_node_said() {
    let approved = json!({ "name": "pay", "kind": "core.identity", "approval": true,
        "parameters": { "type": "object", "properties": { "sum": { "type": "number" } } } });
    let story = with_tools(&json!([approved])).answers(using(&[("c1", "pay", json!({ "sum": 3 }))]));
    let spawn = story.spawn();
    let graph =
        Graph::admit(spawn.definition.expect("it is made here").text().as_bytes()).expect("it is sound");
    let start = Start {
        inputs: spawn.inputs,
        parent: Some(spawn.parent),
        ..Start::of(spawn.child.of(story::key().tenant), story::SALT, Arc::new(graph))
    };
    let (mut run, _) = Run::start(start, story::BEGIN).unwrap();
    assert_eq!(run.status(), Status::WaitingApproval, "somebody has to approve of it");
    let id = run.interrupt_of("approve").unwrap();
    let by = abide_core::Answerer::of("ann");
    let answer = abide_core::Resolve { id, value: story::json(&json!({ "action": "accept" })), by };
    let step = run.decide(Command::Resolve(answer), story::BEGIN).unwrap();
    let told = step.effects.iter().find_map(|effect| match effect {
        Effect::Send { notice, .. } if notice.lifecycle.is_terminal() => Some(notice.clone()),
        _ => None,
    });
    let story = story.hear(told.expect("the turn hears of the end"), None);
    let messages = serde_json::to_value(&story.model_call("ask").messages).unwrap();
    assert_eq!(messages[2]["content"], r#"{"sum":3}"#);
}

#[test]
fn a_tool_that_fails_or_is_forbidden_is_told_to_the_model() {
    let story = with_tools(&json!([look_up()])).answers(using(&[("c1", "look_up", json!({ "id": "7" }))]));
    let child = story.node("ask").child.unwrap();
    let error = Failure::new("approval_rejected", "ann said no");
    let story = story.tool_run_ends(child, Lifecycle::Failed, &json!({}), Some(error));
    let answered = &story.payloads("tool.answered")[0];
    assert_eq!(
        (&answered["content"], &answered["isError"]),
        (&json!("ann said no [approval_rejected]"), &json!(true))
    );
    assert!(story.calls_again());
}

#[test]
fn what_a_model_calls_wrongly_is_told_to_it_at_once() {
    let calls = [("c1", "lookup", json!({})), ("c2", "look_up", json!({})), ("c3", "look_up", json!("7"))];
    let story = with_tools(&json!([look_up()])).answers(using(&calls));
    let told: Vec<String> =
        story.payloads("tool.answered").iter().map(|a| a["content"].as_str().unwrap().to_owned()).collect();
    assert!(told[0].contains("there is no tool 'lookup'; the tools are look_up"), "{told:?}");
    assert!(told[1].contains("the arguments don't fit") && told[2].contains("no JSON object"), "{told:?}");
    assert!(story.calls_again(), "nothing is left to wait for");
}

#[test]
fn several_tools_run_at_once_and_the_model_waits_for_all() {
    let calls = [("c1", "look_up", json!({ "id": "7" })), ("c2", "look_up", json!({ "id": "8" }))];
    let story = with_tools(&json!([look_up()])).answers(using(&calls));
    let children: Vec<_> = story
        .step()
        .effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Spawn(spawn) => Some(spawn.child),
            _ => None,
        })
        .collect();
    let done = json!({ "result": { "outputs": "found" } });
    let story = story
        .tool_run_ends(children[1], Lifecycle::Completed, &done, None)
        .expect(["child.reported", "tool.answered ask"]);
    let story = story.tool_run_ends(children[0], Lifecycle::Completed, &done, None);
    assert!(story.calls_again());
    let story = story.tool_run_ends(children[1], Lifecycle::Completed, &done, None);
    assert_eq!(story.count("tool.answered"), 2, "a repeat changes nothing");
}

#[test]
fn attempts_are_counted_anew_for_each_step_of_a_turn() {
    let story =
        with_tools(&json!([look_up()])).fails(overloaded()).waits_out().fails(overloaded()).waits_out();
    let story = story.answers(using(&[("c1", "look_up", json!({ "id": "7" }))]));
    let story = story.tool_ends(Lifecycle::Completed, &json!({})).fails(overloaded());
    let told: Vec<_> =
        story.payloads("provider-retry").iter().map(|retry| retry["attempt"].clone()).collect();
    assert_eq!(told, [0, 1, 0]);
}

#[test]
fn a_model_that_never_stops_calling_tools_is_stopped() {
    let mut story = with_tools(&json!([look_up()]));
    for _ in 0..2 {
        story = story
            .answers(using(&[("c1", "look_up", json!({ "id": "7" }))]))
            .tool_ends(Lifecycle::Completed, &json!({}));
    }
    let story = story.answers(using(&[("c1", "look_up", json!({ "id": "7" }))])).stands(Status::Failed);
    assert_eq!(story.run().error().map(|error| error.code.as_str()), Some("turn_steps_exceeded"));
}

#[test]
fn a_run_that_is_cancelled_takes_its_tools_along() {
    let story =
        with_tools(&json!([look_up()])).answers(using(&[("c1", "look_up", json!({ "id": "7" }))])).cancel();
    assert!(story.step().effects.iter().any(|effect| matches!(effect, Effect::Cascade(_))));
    story.expect(["turn.sealed ask", "node.cancelled ask", "run.cancelled"]);
}

#[test]
fn a_tool_that_ends_in_a_paused_run_waits_with_it() {
    let story =
        with_tools(&json!([look_up()])).answers(using(&[("c1", "look_up", json!({ "id": "7" }))])).pause();
    let story = story.tool_ends(Lifecycle::Completed, &json!({}));
    assert!(!story.calls_again());
    assert!(story.resume().calls_again());
}

#[test]
fn a_tool_whose_workflow_is_not_there_is_told_to_the_model() {
    let tool = json!({ "name": "ship", "workflow": "shipping" });
    let story = with_tools(&json!([tool])).answers(using(&[("c1", "ship", json!({ "to": "Ada" }))]));
    assert_eq!((story.spawn().workflow_id.as_str(), story.spawn().definition), ("shipping", None));
    let child = story.node("ask").child.unwrap();
    let error = Failure::new("workflow_not_found", "there is none");
    let story = story.ask(Command::RefuseChild { child, node: "ask".to_owned(), error });
    assert_eq!(story.payloads("tool.answered")[0]["isError"], true);
    assert!(story.calls_again());
}

#[test]
fn a_run_does_not_age_while_a_tool_waits_for_people() {
    let aging =
        workflow([turn("ask").config("tools", json!([look_up()]))]).settings("timeout", json!(600_000));
    let story = of(&aging).start().answers(using(&[("c1", "look_up", json!({ "id": "7" }))]));
    let ages = |story: &Story| story.run().timers().keys().any(|timer| timer.to_string() == "run-timeout");
    assert!(ages(&story));
    let child = story.node("ask").child.unwrap();
    let still = Notice { node: "ask".to_owned(), still: true, ..story::notice(child, 3, Lifecycle::Running) };
    let story = story.hear(still, None);
    assert!(!ages(&story));
    let story = story.tool_ends(Lifecycle::Completed, &json!({}));
    assert!(ages(&story));
}

/// The runs that the last command started.
fn children(story: &Story) -> Vec<abide_core::RunId> {
    let spawned = story.step().effects.iter().filter_map(|effect| match effect {
        Effect::Spawn(spawn) => Some(spawn.child),
        _ => None,
    });
    spawned.collect()
}

#[test]
fn calls_are_told_apart_whatever_ids_a_provider_gives() {
    let fits = json!({ "id": "7" });
    let long = "x".repeat(1 << 20);
    let calls = [
        ("c", "look_up", fits.clone()),
        ("c", "nothing", json!({})),
        ("", "look_up", fits.clone()),
        (&long, "look_up", fits),
    ];
    let mut story = with_tools(&json!([look_up()])).answers(using(&calls));
    let started = children(&story);
    assert_eq!(started.len(), 3);
    for child in started.into_iter().rev() {
        assert!(!story.calls_again());
        story = story.tool_run_ends(child, Lifecycle::Completed, &json!({}), None);
    }
    assert!(story.calls_again(), "nothing hangs");
    let messages = serde_json::to_value(&story.model_call("ask").messages).unwrap();
    let asked: Vec<_> =
        messages[1]["toolCalls"].as_array().unwrap().iter().map(|call| call["id"].clone()).collect();
    assert_eq!(asked, ["c", "call_0_1", "call_0_2", "call_0_3"]);
    let story = story.answers(using(&[("c", "look_up", json!({ "id": "8" }))]));
    let again = story.payloads("model.answered")[1]["message"]["toolCalls"][0]["id"].clone();
    assert_eq!(again, "call_1_0", "an id of an earlier step is taken");
}

#[test]
fn a_run_that_is_held_calls_no_tools() {
    let answer = using(&[("c1", "look_up", json!({ "id": "7" })), ("c2", "nothing", json!({}))]);
    let held = [with_tools(&json!([look_up()])).pause(), with_tools(&json!([look_up()])).drain()];
    for story in held {
        let story = story.answers(answer.clone()).stands(Status::Paused);
        assert!(children(&story).is_empty() && story.is_parked(), "{:?}", story.history());
        let resumed = story.clone().resume();
        assert_eq!((children(&resumed).len(), resumed.count("tool.answered")), (1, 1));
        let resumed = resumed.tool_ends(Lifecycle::Completed, &json!({}));
        assert!(resumed.calls_again());
        let story = story.cancel().stands(Status::Cancelled);
        assert_eq!(story.count("node.spawned"), 0);
    }
}

#[test]
fn a_journal_that_lost_its_end_among_the_tools_does_not_rest_there() {
    let calls = [("c1", "look_up", json!({ "id": "7" })), ("c2", "look_up", json!({ "id": "8" }))];
    let story = with_tools(&json!([look_up()])).answers(using(&calls));
    let whole = story.journal();
    let rests = |records: &[abide_core::Record]| {
        let mut run = Run::empty(story::key(), story::SALT, story.run().graph().clone());
        records.iter().for_each(|record| drop(run.apply(record).unwrap()));
        run.is_at_rest()
    };
    assert!(rests(whole));
    for lost in 1..=3 {
        assert!(!rests(&whole[..whole.len() - lost]), "{lost} events short, nobody would go on");
    }
    let given_up = with_tools(&json!([look_up()])).fails(overloaded());
    let given_up = given_up.turn(TurnCommand::GiveUp { node: None, by: "ops".to_owned(), reason: None });
    let until_sealed = given_up.journal().iter().position(|record| story::type_name(record) == "turn.sealed");
    assert!(!rests(&given_up.journal()[..=until_sealed.unwrap()]));
}

#[test]
fn what_a_tool_does_not_heed_is_no_part_of_it() {
    let tools = json!([
        { "name": "refund", "workflow": "refunds", "approval": true, "config": { "a": 1 }, "settings": {} },
        { "name": "look", "kind": "core.noop", "result": "found" },
    ]);
    let problems = workflow([turn("ask").config("tools", tools)]).problems();
    for key in ["tools[0].approval", "tools[0].config", "tools[0].settings", "tools[1].result"] {
        assert!(problems.contains(&format!("{key}: only a tool that has a")), "{key}: {problems}");
    }
}

#[test]
fn what_a_model_says_that_is_never_shown_is_not_shown_by_its_tools() {
    let hides =
        turn("ask").config("tools", json!([look_up()])).with("outputSensitivity", json!({ "text": true }));
    let calls = [("c1", "look_up", json!({ "id": "7" })), ("c2", "look_up", json!({ "id": 7 }))];
    let story = of(&workflow([hides])).start().answers(using(&calls));
    assert_eq!(story.spawn().sensitive, ["id"]);
    assert_eq!(story.payloads("tool.answered")[0]["sensitive"], true);
}

#[test]
fn tools_are_read_whatever_stands_in_them_and_no_deeper_than_they_may_be() {
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let definition = |config: &str, approval: &str| {
        let tool =
            format!(r#"{{"name":"t","kind":"shop.orders","config":{{"x":{config}}},"approval":{approval}}}"#);
        let text = workflow([turn("ask").config("tools", json!("TOOLS"))]).text();
        text.replace("\"TOOLS\"", &format!("[{tool}]"))
    };
    let problems = |text: String| match Graph::admit(text.as_bytes()) {
        Ok(_) => String::new(),
        Err(problems) => problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
    };
    assert_eq!(problems(definition("1e999", "true")), "");
    assert_eq!(problems(definition(&deep(60), "true")), "");
    assert!(problems(definition(&deep(100_000), "true")).contains("nested deeper than 64 levels"));
    let unread = problems(definition("1", r#"{"artifactData": 1e999, "title": 7}"#));
    assert!(unread.contains("tools[0]"), "{unread}");
    let mut nested = json!({ "name": "t", "kind": "core.noop" });
    for _ in 0..20 {
        nested =
            json!({ "name": "t", "kind": "core.llm.turn", "config": { "prompt": "?", "tools": [nested] } });
    }
    workflow([turn("ask").config("tools", json!([nested]))]).graph();
}
