//! What is read of workflows made of phases, and what is refused: names and titles, what has to come out, and definitions
//! that would take hours or fill the memory.
//!
//! What bounds the cost is a limit, so the limit is what is looked for in the answer. The sizes are such that nobody would
//! wait for the answer if it were not kept.

#[expect(dead_code, reason = "bonds.rs tells the rest of the vocabulary")]
#[path = "domain/seeded.rs"]
mod seeded;
#[expect(dead_code, reason = "commands.rs and others tell the rest of the vocabulary")]
#[path = "domain/story.rs"]
mod story;
#[expect(dead_code, reason = "nodes.rs tells the rest of the vocabulary")]
#[path = "domain/workflow.rs"]
mod workflow;
#[expect(dead_code, reason = "bonds.rs and others tell the rest of the vocabulary")]
#[path = "domain/world.rs"]
mod world;

use std::fmt::Write;
use std::sync::Arc;

use abide_core::{Graph, HandOp, Json, Rejection, limits};
use serde_json::{Value, json};
use world::{ANN, World};

/// A workflow of the phases that are written there, in JSON that may say the same thing twice.
fn text(phases: &str) -> String {
    format!(r#"{{"openintent":"1.0","info":{{"name":"flow"}},"workflow":{{{phases}}}}}"#)
}

fn flow(phases: &Value) -> String {
    json!({ "openintent": "1.0", "info": { "name": "flow" }, "workflow": phases }).to_string()
}

/// A phase with one output, and types.
fn output(want: &str, types: &str) -> String {
    let phases = format!(r#""a":{{"title":"A","assign":"ann","outputs":{{"out":{want}}}}}"#);
    let text = text(&phases);
    format!(r#"{{"types":{types},{}"#, &text[1..])
}

#[track_caller]
fn problems(definition: &str) -> Vec<String> {
    assert!(definition.len() <= limits::DEFINITION_BYTES_MAX, "{} bytes are too many", definition.len());
    let problems = Graph::admit(definition.as_bytes()).expect_err("the definition is refused");
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let longest = problems.iter().map(String::len).max().unwrap_or_default();
    assert!(longest < 2_000, "a problem takes {longest} bytes");
    problems
}

/// The definition is refused for this alone.
#[track_caller]
fn refused(definition: &str, expected: &str) {
    assert_eq!(problems(definition), [expected]);
}

#[track_caller]
fn admitted(definition: &str) -> Graph {
    assert!(definition.len() <= limits::DEFINITION_BYTES_MAX, "{} bytes are too many", definition.len());
    Graph::admit(definition.as_bytes()).expect("the definition is sound")
}

/// Names in quotes, with commas between them.
fn list(names: impl IntoIterator<Item = String>) -> String {
    let mut list = String::new();
    for name in names {
        let comma = if list.is_empty() { "" } else { "," };
        write!(list, r#"{comma}"{name}""#).expect("a text takes more text");
    }
    list
}

fn phase(name: &str, depends_on: &str, inputs: &str) -> String {
    format!(r#""{name}":{{"assign":"","depends_on":[{depends_on}],"inputs":{{{inputs}}}}}"#)
}

mod names {
    use super::*;

    #[test]
    fn a_phase_may_be_named_by_its_title_unless_that_is_a_name() {
        let graph = admitted(&flow(&json!({
            "one": { "title": "First", "assign": "ann" },
            "two": { "title": "one", "assign": "ann", "depends_on": ["First"], "inputs": { "x": "one.x" } },
            // It comes after the phase of that name, and not after the one of that title.
            "six": { "title": "Six", "assign": "ann", "depends_on": ["one"], "inputs": { "x": "one.x" } },
        })));
        assert_eq!(graph.len(), 3);
    }

    #[test]
    fn a_title_that_several_phases_have_names_none_of_them() {
        let twice = flow(&json!({
            "a": { "title": "Review", "assign": "ann" },
            "b": { "title": "Review", "assign": "bob" },
            "c": { "title": "Report", "assign": "eve", "depends_on": ["a", "Review"] },
        }));
        refused(
            &twice,
            "workflow.c.depends_on[1]: several phases have the title 'Review'; name the one that is meant: a, b",
        );
        let unnamed =
            json!({ "a": { "title": "Same", "assign": "x" }, "b": { "title": "Same", "assign": "x" } });
        assert_eq!(admitted(&flow(&unnamed)).len(), 2, "nobody asks which of them is meant");
        let named = json!({
            "a": { "title": "b", "assign": "x" }, "b": { "title": "B", "assign": "x" },
            "c": { "title": "b", "assign": "x" }, "d": { "assign": "x", "depends_on": ["b"] },
        });
        assert_eq!(admitted(&flow(&named)).len(), 4, "a name is a name");
    }

    #[test]
    fn a_phase_is_waited_for_once_by_whatever_it_is_called() {
        let both = flow(&json!({
            "a": { "title": "A phase", "assign": "ann" },
            "b": { "title": "B", "assign": "ann", "depends_on": ["a", "A phase"] },
        }));
        refused(&both, "workflow.b.depends_on[1]: 'a' stands there twice; remove one");
    }

    #[test]
    fn a_long_name_is_written_out_nowhere() {
        let name = "n".repeat(500_000);
        let titles = list((0..250_000).map(|_| "t".to_owned()));
        let phases = format!(r#""{name}":{{"title":"t","assign":""}},{}"#, phase("b", &titles, ""));
        let told = problems(&text(&phases));
        let shown = "n".repeat(80);
        assert_eq!(
            told[0],
            format!("workflow: the name of a phase has at most 256 characters; shorten '{shown}…'")
        );
        assert!(told.contains(&"workflow.b.depends_on: a phase depends on at most 1000 others".to_owned()));
    }

    #[test]
    fn a_name_of_the_longest_kind_is_read() {
        let most = "ä".repeat(limits::NODE_ID_CHARS_MAX);
        assert_eq!(admitted(&text(&phase(&most, "", ""))).len(), 1);
    }

    #[test]
    fn short_titles_of_long_names_may_be_named_until_that_is_longer_than_any_definition() {
        let long = |ix: usize| format!("{ix}{}", "🌻".repeat(limits::NODE_ID_CHARS_MAX - 4));
        let titled = |ix: usize| format!(r#""{}":{{"title":"t{ix}","assign":""}}"#, long(ix));
        let titles = list((0..1_000).map(|ix| format!("t{ix}")));
        let of = |takers: usize| {
            let takers = (0..takers).map(|ix| phase(&format!("taker{ix}"), &titles, ""));
            text(&(0..1_000).map(titled).chain(takers).collect::<Vec<_>>().join(","))
        };
        assert_eq!(admitted(&of(2)).len(), 1_002);
        let told = problems(&of(20));
        let over = "workflow: written out where their titles are named, the names of the phases take more than \
                    16777216 bytes; shorten them";
        assert_eq!(told[0], over);
    }
}

mod sizes {
    use super::*;

    fn named(ix: usize) -> String {
        format!("{ix:x}")
    }

    #[test]
    fn a_phase_depends_on_so_many_others_and_no_more() {
        let of = |most: usize| {
            let others = (0..most).map(|ix| phase(&named(ix), "", ""));
            let last = phase("last", &list((0..most).map(named)), "");
            text(&others.chain([last]).collect::<Vec<_>>().join(","))
        };
        admitted(&of(limits::DEPENDENCIES_MAX));
        let expected = "workflow.last.depends_on: a phase depends on at most 1000 others";
        refused(&of(limits::DEPENDENCIES_MAX + 1), expected);
    }

    #[test]
    fn those_that_inputs_come_from_count_as_well() {
        let chain = |ix: usize| match ix {
            0 => phase("0", "", ""),
            ix => phase(&named(ix), &format!(r#""{}""#, named(ix - 1)), ""),
        };
        let of = |sources: usize| {
            let inputs: Vec<String> = (0..sources).map(|ix| format!(r#""{ix}":"{}.x""#, named(ix))).collect();
            let last = phase("last", &format!(r#""{}""#, named(sources - 1)), &inputs.join(","));
            text(&(0..sources).map(chain).chain([last]).collect::<Vec<_>>().join(","))
        };
        admitted(&of(limits::DEPENDENCIES_MAX));
        refused(
            &of(limits::DEPENDENCIES_MAX + 1),
            "workflow.last.inputs: with those that its inputs come from, a phase waits for at most 1000 others",
        );
    }

    #[test]
    fn a_million_names_are_not_held_against_each_other() {
        let names = list((0..1_500_000).map(named));
        let told = problems(&text(&phase("a", &names, "")));
        assert_eq!(told[0], "workflow.a.depends_on: a phase depends on at most 1000 others");
        assert_eq!(told.len(), limits::PROBLEMS_MAX + 1);
        let node = json!({ "id": "a", "typeId": "core.phase", "name": "a", "position": {}, "inputs": {} });
        let rest = r#""id":"a","name":"a","version":"1","edges":[],"triggers":[],"variables":[],"metadata":{},"settings":{}"#;
        let node = node.to_string();
        let ours = format!(r#"{{{rest},"nodes":[{{"config":{{"dependsOn":[{names}]}},{}]}}"#, &node[1..]);
        let told = problems(&ours);
        assert_eq!(told[0], "nodes['a'].config.dependsOn: a phase depends on at most 1000 others");
    }

    #[test]
    fn mistyped_names_are_compared_with_so_many_others_and_no_more() {
        let unknown = list((0..500).map(|ix| format!("{ix}wrong")));
        let phases: Vec<String> = (0..2_000).map(|ix| phase(&named(ix), &unknown, "")).collect();
        let told = problems(&text(&phases.join(",")));
        assert_eq!(told.len(), limits::PROBLEMS_MAX + 1);
        // Every comparison is with two thousand names.
        let of = |count: usize| {
            let phases = (0..count).map(|ix| format!("{}phase", named(ix))).map(|name| phase(&name, "", ""));
            let last = phase("last", &list((0..90).map(|ix| format!("{}phaze", named(ix)))), "");
            text(&phases.chain([last]).collect::<Vec<_>>().join(","))
        };
        let hinted = |told: &[String]| told.iter().filter(|told| told.contains("did you mean")).count();
        let told = problems(&of(1_999));
        assert_eq!((told.len(), hinted(&told)), (90, 90));
        let told = problems(&of(9_999));
        assert_eq!((told.len(), hinted(&told)), (90, limits::NAMES_COMPARED_MAX / 10_000));
    }

    #[test]
    fn what_comes_before_every_phase_is_found_at_once() {
        let of = |ix: usize| {
            let before = list((ix.saturating_sub(limits::DEPENDENCIES_MAX - 1)..ix).map(named));
            let far = ix.checked_sub(limits::DEPENDENCIES_MAX);
            let input = far.map(|far| format!(r#""x":"{}.x""#, named(far)));
            phase(&named(ix), &before, &input.unwrap_or_default())
        };
        let phases: Vec<String> = (0..2_000).map(of).collect();
        assert_eq!(admitted(&text(&phases.join(","))).len(), 2_000);
    }

    #[test]
    fn an_input_from_far_up_is_told_from_one_that_comes_from_beside() {
        // More of them than are looked for at once.
        let chain = |ix: usize| match ix {
            0 | 1 => phase(&named(ix), "", ""),
            ix => {
                let input = format!(r#""x":"{}.x""#, named(ix - 2));
                phase(&named(ix), &format!(r#""{}""#, named(ix - 1)), if ix == 2 { "" } else { &input })
            }
        };
        let phases: Vec<String> = (0..2_500).map(chain).collect();
        assert_eq!(admitted(&text(&phases.join(","))).len(), 2_500);
        // The first of all comes before none of them.
        let beside = |ix: usize| {
            let name = named(ix);
            phase(&format!("t{name}"), &format!(r#""{name}""#), r#""x":"0.x""#)
        };
        let all: Vec<String> = phases.into_iter().chain([beside(1), beside(2_400)]).collect();
        let message = "it comes from '0', which is not done before; add that to dependsOn";
        let expected = ["t1", "t960"].map(|name| format!("workflow.{name}.inputs.x: {message}"));
        assert_eq!(problems(&text(&all.join(","))), expected);
    }

    #[test]
    fn an_input_comes_neither_from_the_phase_itself_nor_from_behind_it() {
        let phases = [phase("a", "", r#""x":"a.x","y":"b.y""#), phase("b", r#""a""#, "")];
        let message =
            |name: &str| format!("it comes from '{name}', which is not done before; add that to dependsOn");
        let expected = [
            format!("workflow.a.inputs.x: {}", message("a")),
            format!("workflow.a.inputs.y: {}", message("b")),
        ];
        assert_eq!(problems(&text(&phases.join(","))), expected);
    }

    #[test]
    fn phases_that_wait_for_each_other_are_told_as_they_do() {
        let phases = [
            phase("a", r#""b""#, r#""x":"c.x""#),
            phase("b", r#""c""#, ""),
            phase("c", r#""a""#, ""),
            phase("d", r#""c""#, r#""x":"b.x""#),
        ];
        refused(
            &text(&phases.join(",")),
            "workflow: a → b → c → a wait for each other, so none would ever begin; remove one dependency",
        );
    }

    #[test]
    fn more_phases_than_nodes_are_refused_before_anything_is_made_of_them() {
        let phases: Vec<String> =
            (0..=limits::NODES_MAX).map(|ix| format!(r#""{ix}":{{"assign":""}}"#)).collect();
        refused(&text(&phases.join(",")), "workflow: at most 20000 phases");
    }
}

mod outputs {
    use super::*;

    /// What is wrong with an output that is written so, next to a type that is called `Level`.
    #[track_caller]
    fn wrong(want: &str, expected: &str) {
        let definition = output(want, r#"{"Level":{"enum":["low","high"]}}"#);
        refused(&definition, &format!("workflow.a.outputs.out: {expected}"));
    }

    /// What is wrong with a type that is declared so.
    #[track_caller]
    fn undeclared(types: &str, expected: &str) {
        refused(&output(r#""any""#, types), expected);
    }

    #[test]
    fn only_what_an_enum_lists_comes_out() {
        let definition = json!({
            "openintent": "1.0", "info": { "name": "flow" }, "types": { "Level": { "enum": ["low", "high"] } },
            "workflow": { "first": { "title": "First", "assign": "ann", "outputs": {
                "level": { "type": "string", "enum": ["low", "high"], "description": "How bad it is" },
                "narrow": { "type": "Level", "enum": ["low"], "required": false },
                "bare": { "enum": [1, "one"], "required": false },
            } } },
        });
        let mut world = World::new();
        let graph = Arc::new(admitted(&definition.to_string()));
        world.begin_with("flow", graph, &[], |start| start).settle();
        world.claim("flow/first").settle();
        let mut complete = |outputs: Value| {
            world.by("flow/first", ANN, HandOp::Complete { outputs: Some(Json::of(&outputs)) })
        };
        for (outputs, output) in [
            (json!({ "level": "middling" }), "level"),
            (json!({ "level": "low", "narrow": "high" }), "narrow"),
            (json!({ "level": "low", "bare": 2 }), "bare"),
        ] {
            let refused = complete(outputs);
            let Err(Rejection::Outputs { missing, type_errors }) = refused else {
                panic!("{output} is refused, not {refused:?}");
            };
            assert_eq!((missing, type_errors[0].output.as_str()), (Vec::new(), output));
        }
        complete(json!({ "level": "high", "narrow": "low", "bare": 1.0 })).expect("all of it is listed");
    }

    #[test]
    fn keys_that_nobody_knows_are_refused() {
        let keys = "the keys are type, enum, keys, required, description";
        wrong(r#"{"type":"string","requird":false}"#, &format!("there is no 'requird' here; {keys}"));
        wrong(r#"{"type":"Level","maximum":3}"#, &format!("there is no 'maximum' here; {keys}"));
        wrong(r#"{"enum":["a"],"items":"string"}"#, &format!("there is no 'items' here; {keys}"));
        wrong(r#"{"type":{"enum":["a"],"or":1}}"#, "there is no 'or' here; the keys are enum, keys");
        wrong(r#"{"type":"string","keys":["a"]}"#, "'keys' says the type already; remove 'type'");
        wrong(r#"{"required":false}"#, r#"a type is a word, {"enum": […]} or {"keys": […]}"#);
    }

    #[test]
    fn an_enum_that_nothing_fits_is_refused() {
        wrong(
            r#"{"type":"number","enum":[1,"two"]}"#,
            r#""two" stands in 'enum', but the type is number; change one of them"#,
        );
        wrong(
            r#"{"type":"Level","enum":["middling"]}"#,
            r#""middling" stands in 'enum', but the type is one of "low", "high"; change one of them"#,
        );
        wrong(r#"{"enum":[]}"#, "'enum' lists no value, so nothing would do; list some, or remove it");
        wrong(r#"{"enum":"low"}"#, "'enum' is a list of values");
        wrong(r#"{"type":"string","required":"no"}"#, "'required' is true or false");
    }

    #[test]
    fn what_stands_there_twice_is_refused() {
        wrong(r#"{"type":"string","type":"number"}"#, "'type' stands there twice; remove one");
        wrong(
            r#"{"type":"string","required":true,"required":false}"#,
            "'required' stands there twice; remove one",
        );
        let outputs = |outputs: &str| text(&format!(r#""a":{{"assign":"","outputs":{outputs}}}"#));
        let twice = "workflow.a.outputs: 'x' stands there twice; remove one";
        refused(&outputs(r#"{"x":"string","x":"number"}"#), twice);
        refused(&outputs(r#"["x","y","x"]"#), twice);
        undeclared(r#"{"T":{"x":"string","x":"number"}}"#, "types.T: 'x' stands there twice; remove one");
        undeclared(r#"{"T":{"enum":["a"],"enum":["b"]}}"#, "types.T: 'enum' stands there twice; remove one");
        undeclared(
            r#"{"T":{"x":{"required":true,"required":false}}}"#,
            "types.T.x: 'required' stands there twice; remove one",
        );
        undeclared(r#"{"T":{"x":"string"},"T":{"y":"string"}}"#, "types: 'T' stands there twice; remove one");
    }

    #[test]
    fn a_type_is_called_otherwise_than_what_needs_no_declaration() {
        for name in ["any", "string", "number", "boolean", "object", "array"] {
            undeclared(
                &format!(r#"{{"{name}":{{"x":"string"}}}}"#),
                &format!("types.{name}: '{name}' is a type already; call yours otherwise"),
            );
        }
    }

    #[test]
    fn a_type_that_would_not_be_kept_to_is_refused() {
        let field = |key: &str| {
            format!(
                "types.T.x: '{key}' can't be kept to: a field has 'type' and 'required', and only that it is there is \
                 looked at; remove it"
            )
        };
        undeclared(r#"{"T":{"x":{"type":"string","requird":false}}}"#, &field("requird"));
        undeclared(r#"{"T":{"x":{"type":"string","enum":["a"]}}}"#, &field("enum"));
        undeclared(r#"{"T":{"x":{"required":"no"}}}"#, "types.T.x: 'required' is true or false");
        undeclared(r#"{"T":{"x":7}}"#, "types.T.x: a field has a word for its type, or {type, required}");
        undeclared(
            r#"{"T":{"enum":["a"],"x":"string"}}"#,
            "types.T: a type with 'enum' is one of its values and nothing else; remove 'x'",
        );
        undeclared(r#"{"T":7}"#, "types.T: a type is {field: type} or {enum: [values]}");
    }

    #[test]
    fn what_is_described_changes_nothing() {
        let types = r#"{"Level":{"enum":["low"],"description":"How bad"},
            "Found":{"title":"string","note":{"type":"string","required":false,"description":"More"}}}"#;
        admitted(&output(r#"{"type":"Found","description":"All of it"}"#, types));
        admitted(&output(r#""Level""#, types));
    }

    #[test]
    fn a_type_that_nothing_has_is_any() {
        admitted(&output(r#"{"type":"Elsewhere","required":false}"#, "{}"));
    }
}

#[test]
fn permissions_are_open_if_they_say_so_once() {
    let of = |permissions: &str| text(&format!(r#""a":{{"assign":"","permissions":{permissions}}}"#));
    admitted(&of(r#"{"policy":"open"}"#));
    let told = problems(&of(r#"{"policy":"closed","policy":"open"}"#));
    assert!(told[0].starts_with("workflow.a.permissions: 'permissions' can't be kept to"), "{told:?}");
}

#[test]
fn a_yaml_workflow_is_written_out_in_full_and_says_nothing_twice() {
    let of = |phase: &str| {
        let head = "openintent: \"1.0\"\ninfo: {name: flow}\nworkflow:\n";
        abide_core::json_from_yaml(&format!("{head}  a: {phase}\n"))
    };
    assert!(of("{assign: ann, outputs: {x: string}}").is_ok());
    for (phase, message) in [
        ("&a {assign: ann}", "anchors and aliases are not read"),
        ("*a", "anchors and aliases are not read"),
        ("!phase {assign: ann}", "is not read: remove it"),
        ("{<<: {assign: ann}}", "merge keys are not read"),
        ("{assign: ann, outputs: {x: string, x: number}}", "the key x stands twice in one mapping"),
    ] {
        let told = of(phase).expect_err("the text is refused").to_string();
        assert!(told.contains(message), "{phase}: {told}");
    }
    let deep = format!("{}{}", "[".repeat(limits::YAML_DEPTH_MAX), "]".repeat(limits::YAML_DEPTH_MAX));
    let told = of(&deep).expect_err("the text is refused").to_string();
    assert!(told.contains("the nesting is deeper than 64 levels"), "{told}");
}
