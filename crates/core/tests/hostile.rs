//! Definitions that mean harm, or look as if they did: each is refused, with what was wrong with it.
//!
//! What bounds the cost is a limit, so the limit is what is looked for in the answer.

#[expect(dead_code, reason = "hostile definitions are mostly written by hand")]
#[path = "domain/workflow.rs"]
mod workflow;

use std::fmt::Write;

use abide_core::{Expression, Graph, Run, Schema, json_from_yaml, limits};
use serde_json::{Value, json};
use workflow::{branch, expression, fixed, noop, output, task, transform, workflow};

/// What is wrong with a definition.
#[track_caller]
fn told(source: &[u8]) -> String {
    let problems = Graph::admit(source).expect_err("the definition is refused");
    assert!(problems.len() <= limits::PROBLEMS_MAX + 1, "{} problems are told", problems.len());
    let told = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    let most = problems.len() * 20_000;
    assert!(told.len() <= most, "{} bytes are told of {} problems", told.len(), problems.len());
    told
}

#[track_caller]
fn refused(source: impl AsRef<[u8]>, part: &str) {
    let told = told(source.as_ref());
    assert!(told.contains(part), "{part:?} is not in {:?}", told.chars().take(2_000).collect::<String>());
}

fn node(id: &str) -> Value {
    json!({"id": id, "typeId": "core.noop", "name": id, "position": {"x": 0, "y": 0}, "config": {}, "inputs": {}})
}

fn edge(ix: usize, source: &str, target: &str) -> Value {
    json!({"id": format!("e{ix}"), "sourceNodeId": source, "targetNodeId": target})
}

fn definition(nodes: &[Value], edges: &[Value]) -> Value {
    json!({"id": "hostile", "name": "Hostile", "version": "1", "nodes": nodes, "edges": edges,
        "triggers": [], "variables": [], "metadata": {}, "settings": {}})
}

/// A definition of one node, with one more key that is already JSON.
fn with_raw(key: &str, raw: &str) -> String {
    let text = definition(&[node("a")], &[]).to_string();
    format!("{{\"{key}\":{raw},{}", &text[1..])
}

mod size {
    use super::*;

    #[test]
    fn more_nodes_than_allowed() {
        let nodes: Vec<Value> = (0..=limits::NODES_MAX).map(|ix| node(&format!("n{ix}"))).collect();
        refused(definition(&nodes, &[]).to_string(), "nodes: at most 20000 nodes");
    }

    #[test]
    fn more_edges_than_allowed() {
        let edges: Vec<Value> = (0..=limits::EDGES_MAX).map(|ix| edge(ix, "a", "b")).collect();
        refused(definition(&[node("a"), node("b")], &edges).to_string(), "edges: at most 100000 edges");
    }

    #[test]
    fn as_many_nodes_and_edges_as_allowed() {
        let nodes: Vec<Value> = (0..limits::NODES_MAX).map(|ix| node(&format!("n{ix}"))).collect();
        let name = |ix: usize| format!("n{}", ix % limits::NODES_MAX);
        let edges: Vec<Value> = (0..limits::EDGES_MAX)
            .map(|ix| {
                let source = ix % (limits::NODES_MAX - 10);
                edge(ix, &name(source), &name(source + 1 + ix / limits::NODES_MAX))
            })
            .collect();
        let graph = Graph::admit(definition(&nodes, &edges).to_string().as_bytes()).expect("it is allowed");
        assert_eq!(graph.len(), limits::NODES_MAX);
    }

    #[test]
    fn one_byte_more_than_allowed() {
        let mut text = definition(&[node("a")], &[]).to_string();
        let missing = limits::DEFINITION_BYTES_MAX - text.len();
        text.push_str(&" ".repeat(missing));
        assert!(Graph::admit(text.as_bytes()).is_ok(), "spaces count, and so many are allowed");
        text.push(' ');
        refused(&text, "it has 16777217 bytes; 16777216 are allowed");
        let yaml = json_from_yaml(&text).expect_err("the text is refused");
        assert!(yaml.to_string().contains("16777216"), "{yaml}");
    }

    #[test]
    fn a_hundred_thousand_problems() {
        let edges: Vec<Value> = (0..100_000).map(|ix| edge(ix, "nobody", "nowhere")).collect();
        let told = told(definition(&[node("a")], &edges).to_string().as_bytes());
        assert_eq!(told.lines().count(), limits::PROBLEMS_MAX + 1);
        assert!(told.ends_with("definition: there are more than 100 problems; mend these first"), "{told}");
    }

    #[test]
    fn a_hundred_thousand_unknown_keys() {
        let mut keys = String::new();
        (0..100_000).for_each(|ix| write!(keys, "\"typ{ix}\":1,").expect("a string takes all"));
        let text = definition(&[node("a")], &[]).to_string();
        let told = told(format!("{{{keys}{}", &text[1..]).as_bytes());
        assert_eq!(told.lines().count(), limits::PROBLEMS_MAX + 1);
    }

    #[test]
    fn problems_with_very_long_names() {
        let long = "x".repeat(500_000);
        let nodes: Vec<Value> = (0..10).map(|_| node(&long)).collect();
        let told = Graph::admit(definition(&nodes, &[]).to_string().as_bytes()).expect_err("it is refused");
        assert!(told[0].message.contains("1 to 256 characters"), "{:.200}", told[0].message);
    }
}

mod depth {
    use super::*;

    #[test]
    fn json_that_is_nested_too_deep() {
        refused("[".repeat(1_000_000), "it is not JSON: EOF");
        refused("[".repeat(1_000_000) + &"]".repeat(1_000_000), "an object is expected here, not an array");
        let deep = format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
        refused(&deep, "there is no 'a' here");
        for key in ["nodes", "edges", "variables", "settings", "channels"] {
            let text = definition(&[node("a")], &[]).to_string();
            let hostile = format!("{}, \"more\": 1, \"{key}2\": {deep}}}", &text[..text.len() - 1]);
            refused(hostile, "did you mean");
        }
        refused(with_raw("configurableSchema", &deep), "configurableSchema");
        refused(with_raw("channels", &deep), "channels.a");
    }

    #[test]
    fn what_is_only_carried_may_be_deep_but_is_never_looked_into() {
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        let flow = workflow([transform("a")
            .input("x", fixed(&json!("HERE")))
            .config("expression", json!("inputs.x"))]);
        let text = flow.text().replace("\"HERE\"", &deep);
        let graph = Graph::admit(text.as_bytes()).expect("what is carried is not looked into");
        let key = abide_core::RunId::from_bytes([1; 16]).of(abide_core::TenantId(1));
        let start = abide_core::Start::of(key, [7; 16], std::sync::Arc::new(graph));
        let (run, _) = Run::start(start, 1).expect("the start is accepted");
        assert_eq!(run.error().map(|error| error.code.as_str()), Some("expression_failed"));
        assert!(Run::is_intact(&run.snapshot()));
    }

    #[test]
    fn yaml_that_is_nested_too_deep() {
        let flow = format!("a: {}1{}", "[".repeat(10_000), "]".repeat(10_000));
        let lists = "- ".repeat(10_000);
        let mut steps = String::new();
        (0..2_000).for_each(|level| writeln!(steps, "{}a:", " ".repeat(level)).expect("a string takes all"));
        for text in [flow, lists, steps] {
            let problem = json_from_yaml(&text).expect_err("the text is refused").to_string();
            assert!(problem.contains("deeper than 64 levels"), "{problem}");
        }
    }

    #[test]
    fn a_billion_laughs() {
        let mut text = "a0: &a0 [lol, lol]\n".to_owned();
        for level in 1..30 {
            let before = format!("*a{}", level - 1);
            writeln!(text, "a{level}: &a{level} [{before}, {before}]").expect("a string takes all");
        }
        let problem = json_from_yaml(&text).expect_err("the text is refused").to_string();
        assert!(problem.contains("anchors and aliases are not read"), "{problem}");
        let merged = json_from_yaml("base: 1\nb:\n  <<: base\n").expect_err("merge keys are refused");
        assert!(merged.to_string().contains("merge keys are not read"), "{merged}");
    }

    #[test]
    fn loops_within_loops_beyond_the_depth() {
        // Each loop begins behind the head of the one around it, and all of them end at the last node.
        let count = 20;
        let nodes = (0..=count).map(|ix| noop(&format!("n{ix}")).looping(1));
        let mut flow = workflow(nodes.collect::<Vec<_>>());
        for ix in 0..count {
            flow = flow.flow(&format!("n{ix} > n{}", ix + 1));
        }
        for ix in 0..count {
            flow = flow.flow(&format!("n{count} > n{ix}"));
        }
        assert!(flow.problems().contains("more than 16 within each other"), "{}", flow.problems());
    }

    #[test]
    fn thousands_of_loops() {
        let loops = (0..1_001).map(|ix| noop(&format!("n{ix}")).looping(1));
        let mut flow = workflow(loops.collect::<Vec<_>>());
        for ix in 0..1_001 {
            flow = flow.flow(&format!("n{ix} > n{ix}"));
        }
        assert!(flow.problems().contains("more than 1000 loops"), "{}", flow.problems());
    }

    #[test]
    fn a_cycle_of_many_nodes_is_not_spelt_out() {
        let nodes: Vec<Value> = (0..limits::NODES_MAX).map(|ix| node(&format!("n{ix}"))).collect();
        let next = |ix: usize| format!("n{}", (ix + 1) % limits::NODES_MAX);
        let edges: Vec<Value> =
            (0..limits::NODES_MAX).map(|ix| edge(ix, &format!("n{ix}"), &next(ix))).collect();
        refused(definition(&nodes, &edges).to_string(), "… (19981 more)");
    }

    #[test]
    fn inputs_from_too_far_away() {
        // Every node reads the one that comes last before it on the longest way around.
        let count = 20_000;
        let mut nodes: Vec<Value> = (0..count).map(|ix| node(&format!("n{ix}"))).collect();
        for (ix, reader) in nodes.iter_mut().enumerate().skip(count / 2) {
            let from = format!("n{}", ix - count / 2);
            reader["inputs"]["x"] = json!({"type": "connection", "nodeId": from, "outputKey": "x"});
        }
        let edges: Vec<Value> =
            (1..count).map(|ix| edge(ix, &format!("n{}", ix - 1), &format!("n{ix}"))).collect();
        refused(definition(&nodes, &edges).to_string(), "too far away to check; split the workflow");
    }
}

mod numbers {
    use super::*;

    #[test]
    fn numbers_that_are_too_large_for_any_type() {
        let digits = format!("1{}", "0".repeat(100_000));
        for number in ["1e400", "-1e400", "1e99999999999999999999", &digits] {
            let limit = with_raw("x", "1").replace(
                "\"settings\":{}",
                &format!("\"settings\":{{\"maxRetries\":{number},\"timeout\":{number}}}"),
            );
            let told = told(limit.as_bytes());
            assert!(
                told.contains("settings.maxRetries: a whole number from 0 to 100 is expected")
                    || told.contains("number out of range"),
                "{told:.300}"
            );
        }
    }

    #[test]
    fn a_number_that_is_only_carried_is_never_looked_into() {
        let huge = "1e400";
        let mut port = node("a");
        port["inputs"]["x"] = json!({"type": "static", "value": "HERE"});
        let text = definition(&[port], &[]).to_string().replace("\"HERE\"", huge);
        assert!(Graph::admit(text.as_bytes()).is_ok());
    }

    #[test]
    fn yaml_numbers_that_are_too_large() {
        let digits = format!("a: 1{}", "0".repeat(400));
        for text in ["a: 1e400", "a: -1e400", &digits, "a: .inf", "a: 0xfffffffffffffffff"] {
            let problem = json_from_yaml(text).expect_err("the number is refused").to_string();
            assert!(problem.contains("too large") || problem.contains("JSON has no number"), "{problem}");
        }
    }
}

mod patterns {
    use super::*;

    const BOMB: &str = "(((((a{100}){100}){100}){100}){100})";

    #[test]
    fn in_conditions() {
        let flow = workflow([noop("a"), noop("b")]).flow("a > b");
        let flow = flow.edge("condition", json!({"type": "regex", "left": "output.x", "right": BOMB}));
        assert!(flow.problems().contains("is no regular expression"), "{}", flow.problems());
    }

    #[test]
    fn in_schemas() {
        let with_schema =
            with_raw("configurableSchema", &json!({"type": "string", "pattern": BOMB}).to_string());
        refused(with_schema, "configurableSchema");
        let doubling = json!({"$defs": (0..40).map(|ix| {
            let next = json!({"$ref": format!("#/$defs/d{}", ix + 1)});
            (format!("d{ix}"), json!({"allOf": [next, next]}))
        }).chain([("d40".to_owned(), json!(true))]).collect::<serde_json::Map<_, _>>(), "$ref": "#/$defs/d0"});
        let text = abide_core::Json::of(&doubling);
        let error = Schema::compile(&text).expect_err("what doubles forty times is refused");
        assert!(!error.is_empty());
    }

    #[test]
    fn in_expressions() {
        let pattern = format!("variables.x.matches(\"{BOMB}\")");
        let problem = Expression::parse(&pattern).expect_err("the pattern is refused");
        assert!(problem.contains("pattern") || problem.contains("regular"), "{problem}");
        let flow = workflow([branch("a", &[("one", &pattern)])]);
        assert!(flow.problems().contains("nodes['a'].config.cases[0].when"), "{}", flow.problems());
    }

    #[test]
    fn expressions_that_are_too_deep_too_long_or_too_nested() {
        let deep = format!("{}1{}", "(".repeat(5_000), ")".repeat(5_000));
        let minus = format!("{}1", "-".repeat(4_000));
        let long = format!("1{}", " + 1".repeat(5_000));
        let maps = "[1].map(a, ".repeat(20) + "1" + &")".repeat(20);
        for text in [deep, minus, long, maps] {
            let flow = workflow([transform("a").config("expression", json!(text))]);
            assert!(flow.problems().contains("nodes['a'].config.expression"), "{:.300}", flow.problems());
        }
    }

    #[test]
    fn a_template_with_too_many_expressions() {
        let text = "{{ inputs.x }}".repeat(limits::TEMPLATE_EXPRESSIONS_MAX + 1);
        let flow = workflow([workflow::http("a", "GET").config("url", json!(text))]);
        assert!(
            flow.problems().contains(&limits::TEMPLATE_EXPRESSIONS_MAX.to_string()),
            "{}",
            flow.problems()
        );
    }
}

mod names {
    use super::*;

    const TRICKS: [&str; 8] = ["../../etc", "a/b", "a\u{0}b", "a\nb", "\u{202e}cba", "", " ", "a\"'b"];

    #[test]
    fn a_workflow_is_named_plainly() {
        for id in TRICKS.into_iter().chain(["W", "ä", "-a", "1a"]) {
            let mut hostile = definition(&[node("a")], &[]);
            hostile["id"] = json!(id);
            refused(hostile.to_string(), "id: use lower-case letters");
        }
        let mut hostile = definition(&[node("a")], &[]);
        hostile["id"] = json!("a".repeat(129));
        refused(hostile.to_string(), "id: use lower-case letters");
    }

    #[test]
    fn a_node_has_no_control_characters_in_its_name() {
        for id in ["a\u{0}b", "a\nb", "\u{7f}", "", &"n".repeat(limits::NODE_ID_CHARS_MAX + 1)] {
            refused(definition(&[node(id)], &[]).to_string(), "a node id has 1 to 256 characters");
        }
    }

    #[test]
    fn a_nodes_name_is_only_a_name() {
        for id in ["../../etc", "a/b", "\u{202e}cba", " ", "a\"'b", "__proto__", "delay/1/x"] {
            let graph = Graph::admit(definition(&[node(id)], &[]).to_string().as_bytes());
            assert!(graph.is_ok_and(|graph| graph.node(id).is_some()), "{id:?} names a node");
            let timer = abide_core::TimerId::Delay { node: id.into(), execution: 3 };
            assert_eq!(timer.to_string().parse(), Ok(timer), "its timer survives its name");
        }
    }

    #[test]
    fn a_kind_is_named_plainly() {
        for kind in TRICKS {
            let mut hostile = node("a");
            hostile["typeId"] = json!(kind);
            refused(definition(&[hostile], &[]).to_string(), "a kind looks like core.noop");
        }
    }

    #[test]
    fn a_lone_surrogate_is_no_text() {
        for text in [r#""\ud800""#, r#""\udc00x""#, r#""\ud800\ud800""#] {
            let source = definition(&[node("a")], &[]).to_string().replace("\"Hostile\"", text);
            assert!(Graph::admit(source.as_bytes()).is_err(), "{text} is taken for a text");
            assert!(json_from_yaml(&format!("name: {text}")).is_err(), "{text} is taken for a text in YAML");
        }
    }
}

mod form {
    use super::*;

    #[test]
    fn nothing_that_only_looks_like_json() {
        let sound = definition(&[node("a")], &[]).to_string();
        refused(format!("\u{feff}{sound}"), "it is not JSON");
        refused(format!("{sound}x"), "it is not JSON: trailing characters");
        refused(format!("{sound}{sound}"), "it is not JSON: trailing characters");
        refused(format!("{sound}\0"), "it is not JSON");
        refused(&sound[..sound.len() - 1], "it is not JSON: EOF");
        refused("", "it is not JSON: EOF");
        refused(b"\xff\xfe{\x00}\x00", "it is not JSON");
        refused([b"{\"id\":\"".as_slice(), b"\xc3\x28", b"\"}"].concat(), "it is not JSON");
        for other in ["null", "1", "\"text\"", "[]", "true"] {
            refused(other, "definition: an object is expected here");
        }
    }

    #[test]
    fn a_key_that_stands_twice_is_named() {
        let sound = definition(&[node("a"), node("b")], &[edge(0, "a", "b")]).to_string();
        for (key, again) in [
            ("\"id\":\"hostile\"", "'id' stands there twice"),
            ("\"nodes\":", "'nodes' stands there twice"),
            ("\"typeId\":\"core.noop\"", "'typeId' stands there twice"),
            ("\"sourceNodeId\":\"a\"", "'sourceNodeId' stands there twice"),
            ("\"settings\":{}", "'settings' stands there twice"),
        ] {
            let twice = match key.ends_with(':') {
                true => sound.replacen(key, &format!("{key}[],{key}"), 1),
                false => sound.replacen(key, &format!("{key},{key}"), 1),
            };
            refused(twice, again);
        }
    }

    #[test]
    fn a_key_that_stands_twice_deeper_down_is_named() {
        let twice = [
            ("\"config\":{}", "\"config\":{\"ms\":1,\"ms\":2}"),
            ("\"inputs\":{}", "\"inputs\":{\"x\":{\"type\":\"static\",\"value\":1,\"value\":2}}"),
            (
                "\"inputs\":{}",
                "\"inputs\":{\"x\":{\"type\":\"static\",\"value\":1},\"x\":{\"type\":\"static\",\"value\":2}}",
            ),
            ("\"config\":{}", "\"settings\":{\"abide\":{\"durable\":true,\"durable\":false}},\"config\":{}"),
            (
                "\"config\":{}",
                "\"settings\":{\"abide\":{\"loop\":{\"maxIterations\":1,\"maxIterations\":2}}},\"config\":{}",
            ),
            ("\"config\":{}", "\"outputSensitivity\":{\"x\":true,\"x\":false},\"config\":{}"),
            ("\"settings\":{}", "\"settings\":{\"timeout\":1,\"timeout\":2}"),
            (
                "\"settings\":{}",
                "\"settings\":{},\"channels\":{\"c\":{\"reducer\":\"append\"},\"c\":{\"reducer\":\"append\"}}",
            ),
        ];
        for (plain, hostile) in twice {
            let sound = definition(&[node("a")], &[]).to_string();
            refused(sound.replacen(plain, hostile, 1), "stands there twice");
        }
    }

    #[test]
    fn a_key_that_stands_twice_in_a_channel_or_a_policy_is_refused() {
        let channel = "\"settings\":{},\"channels\":{\"c\":{\"reducer\":\"append\",\"reducer\":\"merge\"}}";
        let sound = definition(&[node("a")], &[]).to_string();
        refused(sound.replacen("\"settings\":{}", channel, 1), "channels.c");
        let policy = "\"settings\":{\"abide\":{\"retry\":{\"maxRetries\":1,\"maxRetries\":2}}},\"config\":{}";
        refused(sound.replacen("\"config\":{}", policy, 1), "retry");
    }

    #[test]
    fn yaml_keys_that_stand_twice_are_refused() {
        let problem = json_from_yaml("a: 1\nb: 2\na: 3\n").expect_err("the text is refused").to_string();
        assert!(problem.contains("stands twice"), "{problem}");
    }

    #[test]
    fn yaml_that_is_more_than_a_document() {
        for (text, part) in [
            ("a: 1\n---\na: 2\n", "second document"),
            ("%YAML 1.2\n---\na: 1\n", "directives are not read"),
            ("a: !!python/object:os.system x\n", "tag"),
            ("", "the document is empty"),
        ] {
            let problem = json_from_yaml(text).expect_err("the text is refused").to_string();
            assert!(problem.contains(part), "{part:?} is not in {problem:?}");
        }
    }

    #[test]
    fn ports_and_edges_to_nowhere_are_named_all_at_once() {
        let flow =
            workflow([task("a").input("x", output("ghost", "y")).input("z", expression("nodes.b.outputs"))])
                .flow("a > nobody");
        let told = flow.problems();
        for part in ["there is no node 'ghost'", "there is no node 'b'", "there is no node 'nobody'"] {
            assert!(told.contains(part), "{part:?} is not in {told:?}");
        }
        let sound = workflow([noop("a").input("x", fixed(&json!(1)))]);
        assert_eq!(sound.graph().len(), 1);
    }
}
