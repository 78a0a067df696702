//! Nodes that are done by hand: who has them, who may decide about what they made and asked, and what can't be asked.

use std::sync::Arc;

use abide_core::{
    Answerer, Command, Graph, Hand, HandAsk, HandOp, Json, Rejection, Resolve, Start, Status, Unclaimed,
    limits,
};
use serde_json::{Value, json};

use crate::phases::flow;
use crate::world::{ANN, World, question};

/// A letter that somebody writes and somebody else approves of, or has made better.
fn letter() -> World {
    let definition = json!({
        "id": "letter", "name": "Letter", "version": "1", "triggers": [], "variables": [], "metadata": {}, "settings": {},
        "nodes": [
            { "id": "write", "typeId": "core.byHand", "name": "Write", "position": {}, "config": {}, "inputs": {} },
            { "id": "gate", "typeId": "core.approvalGate", "name": "Gate", "position": {},
              "config": { "title": "Send it?", "actions": ["accept", "reject", "refine"] },
              "settings": { "abide": { "approval": { "notAsker": true } } },
              "inputs": { "artifact": { "type": "connection", "nodeId": "write", "outputKey": "text" } } },
        ],
        "edges": [{ "id": "e", "sourceNodeId": "write", "targetNodeId": "gate" }],
    });
    let graph = Graph::admit(definition.to_string().as_bytes()).expect("the definition is sound");
    let mut world = World::new();
    world.begin_with("letter", Arc::new(graph), &[], |start| start).settle();
    world
}

/// What an agent does under somebody's key.
fn hand(agent: &str, principal: &str, op: HandOp) -> Command {
    let principal = Some(principal.to_owned());
    Command::Hand(Box::new(Hand { node: None, agent: agent.to_owned(), principal, op }))
}

fn text(text: &str) -> HandOp {
    HandOp::Complete { outputs: Some(Json::of(&json!({ "text": text }))) }
}

fn decide(world: &mut World, by: &str, value: &Value) -> Result<(), Rejection> {
    let id = world.run("letter").interrupts().next().expect("something is asked").requested.interrupt_id;
    let resolve = Resolve { id, value: Json::of(value), by: Answerer::of(by) };
    world.ask("letter", Command::Resolve(resolve))
}

#[test]
fn what_is_made_again_may_be_had_by_anybody_again() {
    let mut world = letter();
    world.accept("letter", hand("ann", "ann", HandOp::Claim)).accept("letter", hand("ann", "ann", text("A")));
    let better = json!({ "action": "refine", "refineFeedback": { "scope": "whole", "text": "B" } });
    decide(&mut world, "zoe", &better).expect("it is made again");
    assert_eq!(world.run("letter").claim(0).and_then(|claim| claim.agent.clone()), None, "nobody has it");
    world.accept("letter", hand("bob", "bob", HandOp::Claim)).accept("letter", hand("bob", "bob", text("B")));
    decide(&mut world, "zoe", &json!({ "action": "accept" })).expect("it is sent");
    world.stands("letter", Status::Completed);
}

#[test]
fn whoever_makes_something_under_a_key_does_not_decide_about_it_by_that_key() {
    let mut world = letter();
    world.accept("letter", hand("writer", "bot", HandOp::Claim));
    world.accept("letter", hand("writer", "bot", text("A")));
    let open = world.run("letter").interrupts().next().expect("somebody has to approve of it");
    assert_eq!(open.requested.asked_by, ["writer", "bot"], "whom the rules of the gate bar");
}

#[test]
fn whoever_asks_is_told_by_name_and_by_key() {
    let mut world = World::new();
    let asked = HandAsk { payload: question(), ladder: None, respondents: None };
    world.begin("asks").accept("asks", hand("writer", "bot", HandOp::Claim));
    world.accept("asks", hand("writer", "bot", HandOp::Ask(Box::new(asked))));
    let open = world.run("asks").interrupts().next().expect("it is asked");
    assert_eq!(open.requested.asked_by, ["writer", "bot"]);
}

#[test]
fn those_whom_a_node_names_answer_unless_others_are_named() {
    let definition = json!({
        "id": "named", "name": "Named", "version": "1", "triggers": [], "variables": [], "metadata": {}, "settings": {},
        "nodes": [{ "id": "self", "typeId": "core.byHand", "name": "Self", "position": {}, "config": {}, "inputs": {},
                    "settings": { "abide": { "respondents": ["role:cfo"] } } }],
        "edges": [],
    });
    let graph = Arc::new(Graph::admit(definition.to_string().as_bytes()).expect("the definition is sound"));
    for (named, told) in [(None, vec!["role:cfo"]), (Some(vec!["zoe".to_owned()]), vec!["zoe"])] {
        let mut world = World::new();
        world.begin_with("asks", graph.clone(), &[], |start| Start { ..start }).claim("asks");
        let asked = HandAsk { payload: question(), ladder: None, respondents: named };
        world.does("asks", HandOp::Ask(Box::new(asked)));
        let open = world.run("asks").interrupts().next().expect("it is asked");
        assert_eq!(open.requested.respondents, told);
    }
}

#[test]
fn nothing_is_asked_by_hand_that_nobody_waits_for() {
    for kind in ["conversation.start", "conversation.close"] {
        let mut world = World::new();
        world.begin("asks").claim("asks");
        let payload = Json::of(&json!({ "kind": kind, "data": {} }));
        let asked = HandAsk { payload, ladder: None, respondents: None };
        let refused = world.by("asks", ANN, HandOp::Ask(Box::new(asked)));
        assert!(matches!(refused, Err(Rejection::Invalid { .. })), "{kind}: {refused:?}");
        world.complete("asks").stands("asks", Status::Completed);
    }
}

#[test]
fn what_an_input_comes_from_stays_what_is_waited_for() {
    let mut world = flow();
    let refused = world.independ("flow/wired", "flow/first");
    assert!(matches!(refused, Err(Rejection::Invalid { .. })), "{refused:?}");
    world.independ("flow/behind", "flow/first").expect("nothing of it comes from there");
}

/// A phase that takes so many times what the one before it produces, and one that takes nothing of it but `small`.
fn greedy(inputs: usize) -> Arc<Graph> {
    let wired: serde_json::Map<String, Value> =
        (0..inputs).map(|n| (format!("x{n}"), json!("first.large"))).collect();
    let definition = json!({
        "openintent": "1.0", "info": { "name": "flow" },
        "workflow": {
            "first": { "title": "First", "assign": "ann" },
            "greedy": { "title": "Greedy", "assign": "bob", "depends_on": ["first"], "inputs": wired },
            "modest": { "title": "Modest", "assign": "bob", "depends_on": ["first"], "inputs": { "small": "first.small" } },
        },
    });
    Arc::new(Graph::admit(definition.to_string().as_bytes()).expect("the definition is sound"))
}

#[test]
fn what_goes_into_a_node_has_an_end_and_whoever_was_refused_before_waits_on() {
    let mut world = World::new();
    world.begin_with("flow", greedy(100), &[], |start| start).settle();
    world.suspend("flow/first").settle();
    world.by("flow/greedy", "bob", HandOp::Claim).expect("that they are refused is recorded");
    let large = "x".repeat(limits::NODE_INPUT_BYTES_MAX / 50);
    world.answer("flow/first").complete_with("flow/first", &json!({ "large": large, "small": 1 })).settle();
    assert_eq!((world.holder("flow/greedy"), world.waiting("flow/greedy")), (None, vec!["bob".to_owned()]));
    let refused = world.by("flow/greedy", ANN, HandOp::Claim);
    assert_eq!(refused, Err(Rejection::Unclaimed(Unclaimed::TooLarge)));
    // Whoever takes nothing of it does not keep it either.
    let kept = |name: &str| world.run(name).upstreams().values().next().map(|on| on.outputs.len());
    assert_eq!((kept("flow/greedy"), kept("flow/modest")), (Some(1), Some(1)));
    assert!(world.run("flow/modest").snapshot().len() < large.len());
    world.claim("flow/modest").complete("flow/modest").settle();
}

#[test]
fn a_node_names_no_more_inputs_than_anybody_reads() {
    let inputs: serde_json::Map<String, Value> =
        (0..=limits::HAND_PORTS_MAX).map(|n| (format!("x{n}"), json!("$trigger.x"))).collect();
    for port in ["inputs", "outputs"] {
        let config = match port {
            "inputs" => json!({ "inputs": inputs }),
            _ => {
                json!({ "outputs": inputs.keys().map(|name| (name.clone(), json!("string"))).collect::<serde_json::Map<_, _>>() })
            }
        };
        let definition = json!({
            "id": "many", "name": "Many", "version": "1", "triggers": [], "variables": [], "metadata": {},
            "settings": {}, "edges": [],
            "nodes": [{ "id": "self", "typeId": "core.byHand", "name": "Self", "position": {}, "config": config, "inputs": {} }],
        });
        let problems = Graph::admit(definition.to_string().as_bytes()).expect_err("that is too many");
        let told = problems[0].to_string();
        assert!(told.contains(port) && told.contains("10000 are allowed"), "{told}");
    }
}

/// A node that is done by hand, and what follows it whether it is done or given up.
fn forgiving() -> Arc<Graph> {
    let definition = json!({
        "id": "forgiving", "name": "Forgiving", "version": "1", "triggers": [], "variables": [], "metadata": {}, "settings": {},
        "nodes": [
            { "id": "self", "typeId": "core.byHand", "name": "Self", "position": {}, "config": {}, "inputs": {} },
            { "id": "after", "typeId": "core.noop", "name": "After", "position": {}, "config": {}, "inputs": {} },
        ],
        "edges": [{ "id": "e", "sourceNodeId": "self", "targetNodeId": "after", "triggerRule": "all_complete" }],
    });
    Arc::new(Graph::admit(definition.to_string().as_bytes()).expect("the definition is sound"))
}

#[test]
fn a_run_does_not_complete_before_the_children_that_it_was_made_to_start() {
    let mut world = World::new();
    world.begin_with("parent", forgiving(), &[], |start| start).claim("parent");
    world.adopt("parent", "child", &[]).expect("it is done by hand");
    world.settle().fail("parent").settle().stands("parent", Status::Running);
    world.claim("child").complete("child").settle().stands("parent", Status::Completed);
}
