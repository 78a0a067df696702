//! What `Graph::parse` refuses, and in which words: every problem at once, each with its place.

use abide_core::{Graph, limits};
use serde_json::{Value, json};

/// Compares the problems of a definition, one per line, with the words expected.
macro_rules! check {
    ($definition:expr, @$expected:literal) => {
        insta::assert_snapshot!(problems(&$definition), @$expected)
    };
}

/// The problems of a definition, without the line and column that the JSON reader adds.
fn problems(definition: &Value) -> String {
    problems_of_text(&definition.to_string())
        .iter()
        .map(|problem| problem.split(" at line ").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

fn problems_of_text(definition: &str) -> Vec<String> {
    let refused = Graph::parse(definition.as_bytes()).expect_err("the definition is refused");
    refused.iter().map(ToString::to_string).collect()
}

/// A workflow of the no-ops `a` and `b`, with some keys changed; `null` takes a key away.
fn definition(changes: Value) -> Value {
    let sound = json!({
        "id": "sound", "name": "Sound", "version": "1", "nodes": [node("a"), node("b")], "edges": [],
        "triggers": [], "variables": [], "metadata": {}, "settings": {},
    });
    changed(sound, changes)
}

fn node(id: &str) -> Value {
    json!({
        "id": id, "typeId": "core.noop", "name": id, "position": {"x": 0, "y": 0}, "config": {}, "inputs": {},
    })
}

fn edge(id: &str, from: &str, to: &str) -> Value {
    json!({"id": id, "sourceNodeId": from, "targetNodeId": to})
}

fn changed(mut object: Value, changes: Value) -> Value {
    let object_keys = object.as_object_mut().expect("an object is changed");
    let Value::Object(changes) = changes else {
        panic!("changes are an object");
    };
    for (key, value) in changes {
        match value {
            Value::Null => drop(object_keys.remove(&key)),
            value => drop(object_keys.insert(key, value)),
        }
    }
    object
}

/// The sound definition with one node changed.
fn with_node(changes: Value) -> Value {
    definition(json!({"nodes": [changed(node("a"), changes), node("b")]}))
}

fn with_edges(edges: impl IntoIterator<Item = Value>) -> Value {
    definition(json!({"edges": edges.into_iter().collect::<Vec<_>>()}))
}

fn with_variables(variables: Value) -> Value {
    let mut sound = definition(json!({}));
    sound["variables"] = variables;
    sound
}

fn parsed(definition: &Value) -> Graph {
    Graph::parse(definition.to_string().as_bytes()).expect("the definition is accepted")
}

mod shape {
    use super::*;

    #[test]
    fn the_sound_definition_is_accepted() {
        let graph = parsed(&definition(json!({})));
        assert_eq!((&*graph.workflow_id, graph.len()), ("sound", 2));
        assert_eq!((graph.node("b"), graph.node("c")), (Some(1), None));
    }

    #[test]
    fn every_key_of_the_schema_may_stand_there() {
        parsed(&definition(json!({
            "description": "d", "type": "t", "isActive": true, "status": "s", "tenantId": "t", "scopeId": "s",
            "slug": "s", "groups": [], "channels": {}, "defaults": {}, "createdAt": 1, "updatedAt": 2,
            "triggers": [{"id": "manual"}],
        })));
        parsed(&with_node(json!({
            "credentialsRef": null, "outputRole": "o", "disabled": false, "notes": "n", "groupId": "g",
            "agent": {}, "envelopeContract": {}, "artifactType": "a", "cardType": "c",
            "outputSensitivity": null, "settings": {"timeout": 5, "abide": {"durable": true}},
        })));
    }

    #[test]
    fn unknown_keys_are_refused_at_every_level() {
        check!(
            definition(json!({"colour": "red"})),
            @"colour: unknown field `colour`, expected one of `id`, `name`, `version`, `nodes`, `edges`, `triggers`, `variables`, `metadata`, `settings`, `description`, `type`, `isActive`, `status`, `tenantId`, `scopeId`, `slug`, `groups`, `channels`, `configurableSchema`, `defaults`, `createdAt`, `updatedAt`"
        );
        check!(
            with_node(json!({"colour": "red"})),
            @"nodes[0].colour: unknown field `colour`, expected one of `id`, `typeId`, `name`, `position`, `config`, `inputs`, `credentialsRef`, `settings`, `outputRole`, `disabled`, `notes`, `groupId`, `agent`, `envelopeContract`, `artifactType`, `cardType`, `outputSensitivity`"
        );
        check!(
            with_node(json!({"settings": {"abide": {"colour": "red"}}})),
            @"nodes[0].settings.abide.colour: unknown field `colour`, expected `durable`"
        );
        check!(
            with_node(json!({"inputs": {"x": {"type": "static", "value": 1, "colour": "red"}}})),
            @"nodes[0].inputs.x.colour: unknown field `colour`, expected one of `type`, `value`, `expression`, `nodeId`, `outputKey`, `variableName`, `optional`"
        );
        check!(
            with_edges([changed(edge("e", "a", "b"), json!({"colour": "red"}))]),
            @"edges[0].colour: unknown field `colour`, expected one of `id`, `sourceNodeId`, `targetNodeId`, `sourceOutput`, `targetInput`, `label`, `triggerRule`, `condition`"
        );
        check!(
            with_variables(json!([{"name": "v", "type": "string", "colour": "red"}])),
            @"variables[0].colour: unknown field `colour`, expected one of `name`, `type`, `required`, `defaultValue`, `sensitive`, `description`, `format`"
        );
    }

    #[test]
    fn missing_keys_are_named() {
        check!(definition(json!({"version": null})), @".: missing field `version`");
        check!(with_node(json!({"typeId": null})), @"nodes[0]: missing field `typeId`");
        check!(
            with_edges([json!({"id": "e", "sourceNodeId": "a"})]),
            @"edges[0]: missing field `targetNodeId`"
        );
    }

    #[test]
    fn wrong_types_are_refused_with_their_path() {
        check!(definition(json!({"nodes": {}})), @"nodes: invalid type: map, expected a sequence");
        check!(definition(json!({"name": 5})), @"name: invalid type: integer `5`, expected a string");
        check!(
            definition(json!({"nodes": [node("a"), changed(node("b"), json!({"config": []}))]})),
            @"nodes[1].config: invalid type: sequence, expected a map"
        );
        check!(
            with_node(json!({"settings": {"abide": {"durable": "yes"}}})),
            @r#"nodes[0].settings.abide.durable: invalid type: string "yes", expected a boolean"#
        );
        check!(
            with_edges([changed(edge("e", "a", "b"), json!({"sourceNodeId": 1}))]),
            @"edges[0].sourceNodeId: invalid type: integer `1`, expected a string"
        );
        check!(
            with_variables(json!([{"name": "v", "type": "string", "required": "no"}])),
            @r#"variables[0].required: invalid type: string "no", expected a boolean"#
        );
        check!(json!("a"), @r#".: invalid type: string "a", expected an object"#);
    }

    #[test]
    fn an_unknown_source_of_an_input_is_refused() {
        check!(
            with_node(json!({"inputs": {"x": {"type": "magic"}}})),
            @"nodes['a'].inputs.x.type: use static, expression, connection or variable"
        );
        check!(with_node(json!({"inputs": {"x": {"value": 1}}})), @"nodes[0].inputs.x: missing field `type`");
    }

    #[test]
    fn each_type_of_input_has_keys_of_its_own() {
        check!(
            with_node(json!({"inputs": {"x": {"type": "static"}}})),
            @"nodes['a'].inputs.x: type static needs 'value'"
        );
        check!(
            with_node(json!({"inputs": {"x": {"type": "variable", "variableName": "v", "value": null}}})),
            @"nodes['a'].inputs.x: 'value' does not belong to type variable"
        );
        check!(
            with_node(json!({"inputs": {"x": {"type": "connection", "nodeId": "a"}}})),
            @"nodes['a'].inputs.x: type connection needs 'outputKey'"
        );
        check!(
            with_node(json!({"inputs": {"x": {"type": "static", "value": 1, "optional": true}}})),
            @"nodes['a'].inputs.x: 'optional' does not belong to type static"
        );
        parsed(&with_node(json!({"inputs": {"x": {"type": "static", "value": null}}})));
    }

    #[test]
    fn an_array_does_not_pass_for_an_object() {
        check!(with_edges([json!(["e", "a", "b"])]), @"edges[0]: invalid type: sequence, expected an object");
        check!(with_variables(json!([["v", "string"]])), @"variables[0]: invalid type: sequence, expected an object");
        check!(
            with_node(json!({"inputs": {"x": ["static", 1]}})),
            @"nodes[0].inputs.x: invalid type: sequence, expected an object"
        );
        check!(
            with_node(json!({"settings": {"abide": [true]}})),
            @"nodes[0].settings.abide: invalid type: sequence, expected an object"
        );
    }

    #[test]
    fn text_that_is_no_json_is_refused_with_line_and_column() {
        insta::assert_snapshot!(
            problems_of_text("").join("\n"),
            @".: EOF while parsing a value at line 1 column 0"
        );
        insta::assert_snapshot!(
            problems_of_text("{\n  \"id\": sound\n}").join("\n"),
            @"id: expected value at line 2 column 9"
        );
    }

    #[test]
    fn nothing_may_follow_the_definition() {
        let text = format!("{} trailing", definition(json!({})));
        let problems = problems_of_text(&text);
        assert_eq!(problems.len(), 1);
        assert!(problems[0].starts_with("definition: trailing characters"), "{problems:?}");
        let doubled = definition(json!({})).to_string().repeat(2);
        assert_eq!(problems_of_text(&doubled).len(), 1);
    }
}

mod names {
    use super::*;

    #[test]
    fn a_workflow_id_is_short_and_plain() {
        let refusal = problems(&definition(json!({"id": "Upper"})));
        insta::assert_snapshot!(
            refusal,
            @"id: use lower-case letters, digits, '-' and '_', starting with a letter, at most 128"
        );
        for bad in ["", "1st", "-a", "a b", "ä", &"a".repeat(129)] {
            assert_eq!(problems(&definition(json!({"id": bad}))), refusal, "{bad}");
        }
        for good in ["a", "a-b_c-1", &"a".repeat(128)] {
            parsed(&definition(json!({"id": good})));
        }
    }

    #[test]
    fn a_node_id_is_neither_empty_nor_long() {
        let longest = "ü".repeat(limits::NODE_ID_CHARS_MAX);
        parsed(&with_node(json!({"id": longest})));
        check!(
            with_node(json!({"id": "a\u{0}b"})),
            @"nodes[0].id: a node id has 1 to 256 characters, and no control characters"
        );
        check!(with_node(json!({"id": ""})), @"nodes[0].id: a node id has 1 to 256 characters, and no control characters");
        check!(
            with_node(json!({"id": format!("{longest}ü")})),
            @"nodes[0].id: a node id has 1 to 256 characters, and no control characters"
        );
    }

    #[test]
    fn a_kind_is_a_dotted_name() {
        let refusal = problems(&with_node(json!({"typeId": "core noop"})));
        insta::assert_snapshot!(
            refusal,
            @"nodes['a'].typeId: a kind looks like core.noop: letters, digits, '.', '_' and '-'"
        );
        for bad in ["", "Core.noop", "9.noop", "core/noop", &"a".repeat(257)] {
            assert_eq!(problems(&with_node(json!({"typeId": bad}))), refusal, "{bad}");
        }
        parsed(&with_node(json!({"typeId": "a.B_c-1"})));
    }

    #[test]
    fn a_node_id_is_used_once() {
        check!(
            definition(json!({"nodes": [node("a"), node("b"), node("a")]})),
            @"nodes[2].id: 'a' is used twice; rename one"
        );
    }

    #[test]
    fn an_edge_id_is_used_once() {
        check!(
            with_edges([edge("e", "a", "b"), edge("e", "a", "b")]),
            @"edges[1].id: 'e' is used twice; rename one"
        );
    }

    #[test]
    fn a_variable_is_declared_once() {
        check!(
            with_variables(json!([{"name": "v", "type": "string"}, {"name": "v", "type": "number"}])),
            @"variables[1].name: 'v' is declared twice"
        );
    }
}

mod edges {
    use super::*;

    #[test]
    fn both_ends_must_exist() {
        check!(with_edges([edge("e", "a", "nobody")]), @"edges[0].targetNodeId: there is no node 'nobody'");
        check!(with_edges([edge("e", "nobody", "b")]), @"edges[0].sourceNodeId: there is no node 'nobody'");
        check!(with_edges([edge("e", "nobody", "noone")]), @r"
        edges[0].sourceNodeId: there is no node 'nobody'
        edges[0].targetNodeId: there is no node 'noone'
        ");
    }

    #[test]
    fn a_connection_must_come_from_a_node_that_exists() {
        let port = json!({"type": "connection", "nodeId": "nobody", "outputKey": "k"});
        check!(with_node(json!({"inputs": {"x": port}})), @"nodes['a'].inputs.x: there is no node 'nobody'");
    }

    #[test]
    fn a_cycle_is_named_in_its_order() {
        let nodes: Vec<Value> = ["before", "a", "b", "c", "after"].map(node).into();
        let edges = [
            edge("1", "before", "a"),
            edge("2", "a", "b"),
            edge("3", "b", "c"),
            edge("4", "c", "a"),
            edge("5", "c", "after"),
        ];
        check!(
            definition(json!({"nodes": nodes, "edges": edges})),
            @"edges: b → c → a → b is a cycle; remove one of its edges"
        );
    }

    #[test]
    fn a_node_cannot_wait_for_itself() {
        check!(with_edges([edge("e", "a", "a")]), @"edges: a → a is a cycle; remove one of its edges");
    }
}

mod unsupported {
    use super::*;

    #[test]
    fn expressions() {
        check!(
            with_node(json!({"inputs": {"x": {"type": "expression", "expression": "1 + 1"}}})),
            @"nodes['a'].inputs.x: expressions are not supported by this version yet ('1 + 1')"
        );
    }

    #[test]
    fn conditions() {
        check!(
            with_edges([changed(edge("e", "a", "b"), json!({"condition": "x > 1"}))]),
            @"edges[0].condition: conditions are not supported by this version yet"
        );
        check!(
            with_edges([changed(edge("e", "a", "b"), json!({"condition": {"cel": "x"}}))]),
            @"edges[0].condition: conditions are not supported by this version yet"
        );
    }

    #[test]
    fn other_trigger_rules() {
        check!(
            with_edges([changed(edge("e", "a", "b"), json!({"triggerRule": "any_success"}))]),
            @"edges[0].triggerRule: only all_success is supported by this version yet"
        );
        let usual = changed(edge("e", "a", "b"), json!({"triggerRule": "all_success"}));
        parsed(&with_edges([usual]));
    }

    #[test]
    fn channels() {
        check!(
            definition(json!({"channels": {"log": {"reducer": "append"}}})),
            @"channels: channels are not supported by this version yet"
        );
    }

    #[test]
    fn configurable_runs() {
        check!(
            definition(json!({"configurableSchema": {"type": "object"}})),
            @"configurableSchema: configurable runs are not supported by this version yet"
        );
    }

    #[test]
    fn sensitive_variables() {
        check!(
            with_variables(json!([{"name": "v", "type": "string", "sensitive": true}])),
            @"variables[0].sensitive: sensitive variables are not supported by this version yet"
        );
    }

    #[test]
    fn credentials_and_sensitive_outputs() {
        check!(
            with_node(json!({"credentialsRef": "vault", "outputSensitivity": {"token": true}})),
            @r"
        nodes['a'].credentialsRef: it is not supported by this version yet; remove it
        nodes['a'].outputSensitivity: it is not supported by this version yet; remove it
        "
        );
    }

    #[test]
    fn disabled_nodes() {
        check!(
            with_node(json!({"disabled": true})),
            @"nodes['a'].disabled: disabled nodes are not supported by this version yet; remove it"
        );
    }
}

mod variables {
    use super::*;

    #[test]
    fn a_variable_is_of_a_known_type() {
        check!(
            with_variables(json!([{"name": "v", "type": "date"}])),
            @"variables[0].type: use one of string, number, boolean, object, array"
        );
        for kind in ["string", "number", "boolean", "object", "array"] {
            parsed(&with_variables(json!([{"name": "v", "type": kind}])));
        }
    }

    #[test]
    fn a_default_is_of_the_declared_type() {
        check!(
            with_variables(json!([{"name": "v", "type": "number", "defaultValue": "5"}])),
            @"variables[0].defaultValue: it must be of type number"
        );
        parsed(&with_variables(json!([{"name": "v", "type": "number", "defaultValue": 5}])));
    }
}

mod together {
    use super::*;

    #[test]
    fn a_workflow_needs_a_node() {
        check!(definition(json!({"nodes": []})), @"nodes: a workflow needs at least one node");
    }

    #[test]
    fn all_problems_are_told_at_once() {
        let port = json!({"type": "expression", "expression": "x"});
        let disabled = changed(node("c"), json!({"disabled": true, "inputs": {"x": port}}));
        check!(definition(json!({
            "id": "Bad Id",
            "channels": {"log": {}},
            "nodes": [node("a"), node("a"), disabled],
            "edges": [edge("e", "a", "nobody"), edge("e", "a", "c")],
            "variables": [{"name": "v", "type": "date", "sensitive": true}],
        })), @r"
        id: use lower-case letters, digits, '-' and '_', starting with a letter, at most 128
        channels: channels are not supported by this version yet
        nodes[1].id: 'a' is used twice; rename one
        variables[0].type: use one of string, number, boolean, object, array
        variables[0].sensitive: sensitive variables are not supported by this version yet
        nodes['c'].disabled: disabled nodes are not supported by this version yet; remove it
        nodes['c'].inputs.x: expressions are not supported by this version yet ('x')
        edges[0].targetNodeId: there is no node 'nobody'
        edges[1].id: 'e' is used twice; rename one
        ");
    }

    #[test]
    fn cycles_are_looked_for_once_the_rest_is_right() {
        check!(
            with_edges([edge("e", "a", "a"), edge("f", "a", "nobody")]),
            @"edges[1].targetNodeId: there is no node 'nobody'"
        );
    }
}

mod size {
    use super::*;

    fn nodes(count: usize) -> Vec<Value> {
        (0..count).map(|n| node(&format!("n{n}"))).collect()
    }

    fn hop(from: usize, to: usize) -> Value {
        edge(&format!("e{from}"), &format!("n{from}"), &format!("n{to}"))
    }

    #[test]
    fn deep_nesting_is_carried_and_never_overflows() {
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        let place = |parts: Value| definition(parts).to_string().replace(r#""DEEP""#, &deep);
        for carried in [
            place(json!({"metadata": {"x": "DEEP"}})),
            place(json!({"settings": {"x": "DEEP"}})),
            place(json!({"triggers": ["DEEP"]})),
            place(json!({"nodes": [
                changed(node("a"), json!({"inputs": {"x": {"type": "static", "value": "DEEP"}}})),
            ]})),
            place(json!({"nodes": [changed(node("a"), json!({"config": {"x": "DEEP"}}))]})),
            place(json!({"nodes": [changed(node("a"), json!({"position": "DEEP"}))]})),
            place(json!({"nodes": [changed(node("a"), json!({"settings": {"other": "DEEP"}}))]})),
            place(json!({"variables": [{"name": "v", "type": "array", "defaultValue": "DEEP"}]})),
        ] {
            let graph = Graph::parse(carried.as_bytes()).expect("values that are only carried may be deep");
            assert!(!graph.is_empty());
        }
    }

    #[test]
    fn nesting_in_the_place_of_a_plain_value_is_refused() {
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        for key in ["id", "nodes", "edges", "metadata", "isActive"] {
            let text = definition(json!({key: "DEEP"})).to_string().replace(r#""DEEP""#, &deep);
            assert!(Graph::parse(text.as_bytes()).is_err(), "{key}");
        }
        assert!(Graph::parse(deep.as_bytes()).is_err());
        let unclosed = "[".repeat(1_000_000);
        assert!(Graph::parse(unclosed.as_bytes()).is_err());
    }

    #[test]
    fn a_chain_of_the_most_nodes_is_accepted() {
        let count = limits::NODES_MAX;
        let edges: Vec<Value> = (1..count).map(|n| hop(n - 1, n)).collect();
        let graph = parsed(&definition(json!({"nodes": nodes(count), "edges": edges})));
        assert_eq!(graph.len(), count);
    }

    #[test]
    fn the_longest_cycle_is_found() {
        let count = limits::NODES_MAX;
        let edges: Vec<Value> = (0..count).map(|n| hop(n, (n + 1) % count)).collect();
        let problems = problems(&definition(json!({"nodes": nodes(count), "edges": edges})));
        assert!(problems.contains("… (19981 more) is a cycle"), "{problems}");
        assert_eq!(problems.matches(" → ").count(), 20, "only so many names are told");
    }

    #[test]
    fn more_nodes_than_the_limit_are_refused() {
        check!(definition(json!({"nodes": nodes(limits::NODES_MAX + 1)})), @"nodes: at most 20000 nodes");
    }

    #[test]
    fn edges_have_a_limit_too() {
        let edges =
            |count: usize| -> Vec<Value> { (0..count).map(|n| edge(&format!("e{n}"), "a", "b")).collect() };
        parsed(&with_edges(edges(limits::EDGES_MAX)));
        check!(with_edges(edges(limits::EDGES_MAX + 1)), @"edges: at most 100000 edges");
    }

    #[test]
    fn many_variables_cost_no_more_each_than_few() {
        let variables: Vec<Value> =
            (0..100_000).map(|n| json!({"name": format!("v{n}"), "type": "string"})).collect();
        parsed(&with_variables(variables.into()));
    }

    #[test]
    fn a_definition_of_too_many_bytes_is_not_even_read() {
        let most = limits::DEFINITION_BYTES_MAX;
        let text = definition(json!({})).to_string();
        let padded = |bytes: usize| format!("{text}{}", " ".repeat(bytes - text.len()));
        assert!(Graph::parse(padded(most).as_bytes()).is_ok());
        insta::assert_snapshot!(
            problems_of_text(&padded(most + 1)).join("\n"),
            @"definition: it has 16777217 bytes; 16777216 are allowed"
        );
    }
}

#[test]
fn the_hash_is_of_the_bytes_as_written() {
    let text = definition(json!({})).to_string();
    let spaced = format!(" {text}");
    let hash = |text: &str| Graph::parse(text.as_bytes()).expect("it is sound").hash;
    assert_eq!(hash(&text), abide_core::sha256(text.as_bytes()));
    assert_ne!(hash(&text), hash(&spaced), "the same meaning in other bytes is another definition");
}
