//! What `Graph::admit` refuses, and in which words: every problem at once, each with its place.

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
    let refused = Graph::admit(definition.as_bytes()).expect_err("the definition is refused");
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
    Graph::admit(definition.to_string().as_bytes()).expect("the definition is accepted")
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
            "description": "d", "type": "t", "isActive": true, "status": "draft", "tenantId": "t", "scopeId": "s",
            "slug": "s", "groups": [], "channels": {}, "defaults": {}, "createdAt": 1, "updatedAt": 2,
            "acceptsInheritedArtifacts": true, "triggers": [{"id": "manual", "type": "manual"}],
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
            @"colour: there is no 'colour' here; the keys are id, name, version, nodes, edges, triggers, variables, metadata, settings, channels, configurableSchema, isActive, status, description, type, tenantId, scopeId, slug, groups, defaults, acceptsInheritedArtifacts, createdAt, updatedAt"
        );
        check!(
            with_node(json!({"colour": "red"})),
            @"nodes['a'].colour: there is no 'colour' here; the keys are id, typeId, name, position, config, inputs, credentialsRef, settings, disabled, outputSensitivity, outputRole, notes, groupId, envelopeContract, agent, artifactType, cardType"
        );
        check!(
            with_node(json!({"settings": {"abide": {"colour": "red"}}})),
            @"nodes['a'].settings.abide.colour: there is no 'colour' here; the keys are durable, idempotent, reversible, retry, loop, sensitive, tokenMs, timeoutMs, ladder, agent, respondents, approval, artifactSchema"
        );
        check!(
            with_node(json!({"inputs": {"x": {"type": "static", "value": 1, "colour": "red"}}})),
            @"nodes['a'].inputs.x.colour: there is no 'colour' here; the keys are type, value, expression, nodeId, outputKey, variableName, optional"
        );
        check!(
            with_edges([changed(edge("e", "a", "b"), json!({"colour": "red"}))]),
            @"edges[0].colour: there is no 'colour' here; the keys are id, sourceNodeId, targetNodeId, sourceOutput, targetInput, label, triggerRule, condition"
        );
        check!(
            with_variables(json!([{"name": "v", "type": "string", "colour": "red"}])),
            @"variables[0].colour: there is no 'colour' here; the keys are name, type, required, defaultValue, sensitive, description, format"
        );
    }

    #[test]
    fn missing_keys_are_named() {
        check!(definition(json!({"version": null})), @"definition: 'version' is missing; add it");
        check!(with_node(json!({"typeId": null})), @"nodes['a']: 'typeId' is missing; add it");
        check!(
            with_edges([json!({"id": "e", "sourceNodeId": "a"})]),
            @"edges[0]: 'targetNodeId' is missing; add it"
        );
    }

    #[test]
    fn wrong_types_are_refused_with_their_path() {
        check!(definition(json!({"nodes": {}})), @"nodes: an array is expected, not an object");
        check!(definition(json!({"name": 5})), @"name: a string is expected, not a number");
        check!(
            definition(json!({"nodes": [node("a"), changed(node("b"), json!({"config": []}))]})),
            @"nodes['b'].config: an object is expected, not an array"
        );
        check!(
            with_node(json!({"settings": {"abide": {"durable": "yes"}}})),
            @"nodes['a'].settings.abide.durable: a boolean is expected, not a string"
        );
        check!(
            with_edges([changed(edge("e", "a", "b"), json!({"sourceNodeId": 1}))]),
            @"edges[0].sourceNodeId: a string is expected, not a number"
        );
        check!(
            with_variables(json!([{"name": "v", "type": "string", "required": "no"}])),
            @"variables[0].required: a boolean is expected, not a string"
        );
        check!(json!("a"), @"definition: an object is expected here, not a string");
    }

    #[test]
    fn an_unknown_source_of_an_input_is_refused() {
        check!(
            with_node(json!({"inputs": {"x": {"type": "magic"}}})),
            @"nodes['a'].inputs.x.type: use static, expression, connection or variable"
        );
        check!(with_node(json!({"inputs": {"x": {"value": 1}}})), @"nodes['a'].inputs.x: 'type' is missing; add it");
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
        check!(with_edges([json!(["e", "a", "b"])]), @"edges[0]: an object is expected here, not an array");
        check!(with_variables(json!([["v", "string"]])), @"variables[0]: an object is expected here, not an array");
        check!(
            with_node(json!({"inputs": {"x": ["static", 1]}})),
            @"nodes['a'].inputs.x: an object is expected here, not an array"
        );
        check!(
            with_node(json!({"settings": {"abide": [true]}})),
            @"nodes['a'].settings.abide: an object is expected here, not an array"
        );
    }

    #[test]
    fn text_that_is_no_json_is_refused_with_line_and_column() {
        insta::assert_snapshot!(
            problems_of_text("").join("\n"),
            @"definition: it is not JSON: EOF while parsing a value at line 1 column 0"
        );
        insta::assert_snapshot!(
            problems_of_text("{\n  \"id\": sound\n}").join("\n"),
            @"definition: it is not JSON: expected value at line 2 column 9"
        );
    }

    #[test]
    fn nothing_may_follow_the_definition() {
        let text = format!("{} trailing", definition(json!({})));
        let problems = problems_of_text(&text);
        assert_eq!(problems.len(), 1);
        assert!(
            problems[0].starts_with("definition: it is not JSON: trailing characters at line 1 column"),
            "{problems:?}"
        );
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
        let refusal = problems(&with_node(json!({"typeId": "something else"})));
        insta::assert_snapshot!(
            refusal,
            @"nodes['a'].typeId: a kind looks like core.noop: letters, digits, '.', '_' and '-'"
        );
        for bad in ["", "9.noop", &"a".repeat(257)] {
            assert_eq!(problems(&with_node(json!({"typeId": bad}))), refusal, "{bad}");
        }
        parsed(&with_node(json!({"typeId": "a.B_c-1"})));
    }

    #[test]
    fn a_slip_in_a_kind_is_recognised() {
        check!(
            with_node(json!({"typeId": "core.Delay"})),
            @"nodes['a'].typeId: there is no kind 'core.Delay'; did you mean core.delay?"
        );
        check!(
            with_node(json!({"typeId": "core.aprovalGate"})),
            @"nodes['a'].typeId: there is no kind 'core.aprovalGate'; did you mean core.approvalGate?"
        );
        parsed(&with_node(json!({"typeId": "core.approvalGate"})));
        parsed(&with_node(json!({"typeId": "vendor.acme.delay"})));
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
            @"edges: a → b → c → a is a cycle that nothing bounds; remove one of its edges, or declare the loop with settings.abide.loop on one of its nodes"
        );
    }

    #[test]
    fn a_node_cannot_wait_for_itself() {
        check!(with_edges([edge("e", "a", "a")]), @"edges: a → a is a cycle that nothing bounds; remove one of its edges, or declare the loop with settings.abide.loop on one of its nodes");
    }
}

mod ways {
    use super::*;

    fn edge_with(changes: Value) -> Value {
        with_edges([changed(edge("e", "a", "b"), changes)])
    }

    fn condition(condition: &Value) -> Value {
        edge_with(json!({ "condition": condition }))
    }

    #[test]
    fn a_trigger_rule_is_one_of_five() {
        check!(
            edge_with(json!({"triggerRule": "sometimes"})),
            @"edges[0].triggerRule: use one of all_success, any_success, all_complete, none_failed, any_failed"
        );
        for rule in ["all_success", "any_success", "all_complete", "none_failed", "any_failed"] {
            parsed(&edge_with(json!({ "triggerRule": rule })));
        }
    }

    #[test]
    fn a_condition_is_an_object_of_a_known_type() {
        check!(condition(&json!("x > 1")), @"edges[0].condition: an object is expected here, not a string");
        check!(
            condition(&json!({"cel": "x"})),
            @r"
        edges[0].condition.cel: there is no 'cel' here; the keys are type, left, right, expression
        edges[0].condition: 'type' is missing; use expression, equals, notEquals, contains, regex, truthy or falsy
        "
        );
        check!(
            condition(&json!({"type": "greater", "left": "x"})),
            @"edges[0].condition: there is no type 'greater'; use expression, equals, notEquals, contains, regex, truthy or falsy"
        );
    }

    #[test]
    fn each_type_of_condition_says_what_it_needs() {
        check!(condition(&json!({"type": "expression"})), @"edges[0].condition: type expression needs 'expression'");
        check!(condition(&json!({"type": "equals", "left": "x"})), @"edges[0].condition: type equals needs 'right'");
        check!(condition(&json!({"type": "truthy"})), @"edges[0].condition: type truthy needs 'left', a path");
        check!(
            condition(&json!({"type": "falsy", "left": "output..x"})),
            @"edges[0].condition: 'left' is a path such as output.approved"
        );
        check!(
            condition(&json!({"type": "regex", "left": "x", "right": 5})),
            @"edges[0].condition: type regex needs a string in 'right'"
        );
        let refusal = problems(&condition(&json!({"type": "regex", "left": "x", "right": "(a"})));
        assert!(refusal.starts_with("edges[0].condition: 'right' is no regular expression: "), "{refusal}");
        let huge = problems(&condition(&json!({"type": "regex", "left": "x", "right": "(a{1000}){1000}"})));
        assert!(huge.contains("exceeds size limit"), "{huge}");
    }

    #[test]
    fn an_expression_must_be_readable_and_name_what_there_is() {
        let refusal = problems(&condition(&json!({"type": "expression", "expression": "1 +"})));
        assert!(refusal.starts_with("edges[0].condition: "), "{refusal}");
        check!(
            condition(&json!({"type": "expression", "expression": "inputs.x > 1"})),
            @"edges[0].condition: there is no 'inputs' here; the names are output, status, error, variables, nodes, channels, configurable, run"
        );
        check!(
            condition(&json!({"type": "expression", "expression": "nodes.nobody.outputs.x > 1"})),
            @"edges[0].condition: there is no node 'nobody'"
        );
        check!(
            with_node(json!({"inputs": {"x": {"type": "expression", "expression": "output.x"}}})),
            @"nodes['a'].inputs.x: there is no 'output' here; the names are variables, nodes, channels, configurable, run"
        );
    }

    #[test]
    fn a_loop_has_one_entry() {
        let nodes = ["before", "a", "b"].map(node);
        let mut nodes = Vec::from(nodes);
        nodes[1] = changed(node("a"), json!({"settings": {"abide": {"loop": {}}}}));
        let edges =
            [edge("1", "before", "a"), edge("2", "before", "b"), edge("3", "a", "b"), edge("4", "b", "a")];
        check!(
            definition(json!({"nodes": nodes, "edges": edges})),
            @"edges: a loop is entered at 'a' and at 'b'; let it have one entry"
        );
    }
}

mod parts {
    use super::*;

    #[test]
    fn a_channel_is_declared_in_full() {
        check!(definition(json!({"channels": {"log": {}}})), @"channels.log: missing field `reducer`");
        check!(
            definition(json!({"channels": {"log": {"reducer": "sum"}}})),
            @"channels.log.reducer: this server has no reducer sum: use one of replace, append, merge, counter, votes, feedback, message"
        );
        check!(
            definition(json!({
                "channels": {"log": {"reducer": "append"}}, "variables": [{"name": "log", "type": "array"}],
            })),
            @"channels.log: 'log' is a variable too; rename one"
        );
    }

    #[test]
    fn a_schema_for_options_must_be_one() {
        check!(
            definition(json!({"configurableSchema": {"type": "objekt"}})),
            @r#"configurableSchema: the schema is not valid: at /type, "objekt" is not valid under any of the schemas listed in the 'anyOf' keyword"#
        );
        parsed(&definition(json!({"configurableSchema": {"type": "object"}})));
    }

    #[test]
    fn settings_that_would_do_nothing_are_refused() {
        check!(
            with_node(json!({
                "credentialsRef": "vault",
                "settings": {"abide": {"retry": {"strategy": "fixed"}}},
                "outputSensitivity": {"token": "yes"},
            })),
            @r"
        nodes['a'].outputSensitivity.token: true or false is expected
        nodes['a'].credentialsRef: only core.http.request takes credentials; remove it
        nodes['a'].settings.abide.retry: only core.http.request and what workers and models do is ever tried again; remove it
        "
        );
    }

    #[test]
    fn a_request_names_its_host_in_clear_and_sets_no_header_of_ours() {
        let request = |url: &str, headers: Value| {
            with_node(json!({"typeId": "core.http.request", "config": {"url": url, "headers": headers}}))
        };
        check!(
            request("https://{{ secrets.HOST }}/", json!({})),
            @"nodes['a'].config.url: a secret can't stand in the host: hosts are looked up and logged in clear; write the URL's beginning up to the path into the template, and use secrets after it, or in a header"
        );
        for url in
            ["{{ variables.base }}{{ secrets.S }}", "http://a.example:{{ secrets.S }}/", "{{ secrets.S }}"]
        {
            assert!(problems(&request(url, json!({}))).contains("a secret can't stand in the host"), "{url}");
        }
        for url in [
            "https://a.example/{{ secrets.S }}",
            "https://a.example?k={{ secrets.S }}",
            "{{ configurable.base }}/{{ secrets.S }}",
        ] {
            parsed(&request(url, json!({"X-A": "{{ secrets.S }}"})));
        }
        check!(
            request(
                "https://a.example/",
                json!({"Host": "b", "Idempotency-Key": "1", "Proxy-Auth": "x", "X-{{ inputs.a }}": "y"}),
            ),
            @r"
        nodes['a'].config.headers.Host: the client sets it; remove it
        nodes['a'].config.headers.Idempotency-Key: Abide sends its own; remove it
        nodes['a'].config.headers.Proxy-Auth: the client sets it; remove it
        nodes['a'].config.headers.X-{{ inputs.a }}: a header's name has letters, digits and '-' only; templates may stand in values
        "
        );
    }

    #[test]
    fn a_status_is_a_known_word_and_a_trigger_that_never_fires_says_so() {
        check!(definition(json!({"status": "retired"})), @"status: use active, inactive, draft or archived");
        check!(
            definition(json!({"triggers": [{"id": "t", "type": "schedule"}, {"id": "u", "type": "moon"}]})),
            @r#"
        triggers[0].type: 'schedule' triggers don't fire in this version yet; add "enabled": false
        triggers[1].type: use one of manual, schedule, webhook, event, artifact, canvas, envelope, command, chat-message, channel-write
        "#
        );
        parsed(&definition(json!({"triggers": [{"id": "t", "type": "schedule", "enabled": false}]})));
    }

    #[test]
    fn a_key_that_is_nearly_right_is_recognised() {
        check!(
            with_edges([changed(edge("e", "a", "b"), json!({"trigerRule": "all_success"}))]),
            @"edges[0].trigerRule: there is no 'trigerRule' here; did you mean 'triggerRule'?"
        );
    }

    #[test]
    fn a_key_stands_there_once() {
        let text = definition(json!({})).to_string().replacen(r#""id":"#, r#""id":"first","id":"#, 1);
        let told = problems_of_text(&text);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].ends_with("'id' stands there twice; remove one"), "{told:?}");
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
        let second = changed(node("c"), json!({"credentialsRef": "vault", "inputs": {"x": port}}));
        let nameless = changed(node("d"), json!({"typeId": null}));
        check!(definition(json!({
            "id": "Bad Id",
            "channels": {"log": {}},
            "nodes": ["none", nameless, node("a"), node("a"), second],
            "edges": [7, edge("e", "a", "nobody"), edge("e", "a", "d")],
            "variables": [[], {"name": "v", "type": "date", "sensitive": 1}],
        })), @r"
        nodes[0]: an object is expected here, not a string
        nodes['d']: 'typeId' is missing; add it
        edges[0]: an object is expected here, not a number
        variables[0]: an object is expected here, not an array
        variables[1].sensitive: a boolean is expected, not a number
        id: use lower-case letters, digits, '-' and '_', starting with a letter, at most 128
        nodes[3].id: 'a' is used twice; rename one
        variables[1].type: use one of string, number, boolean, object, array
        edges[1].targetNodeId: there is no node 'nobody'
        edges[2].id: 'e' is used twice; rename one
        channels.log: missing field `reducer`
        nodes['c'].credentialsRef: only core.http.request takes credentials; remove it
        nodes['c'].inputs.x: there is no 'x' here; the names are variables, nodes, channels, configurable, run
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
            place(json!({"triggers": [{"id": "t", "type": "manual", "config": "DEEP"}]})),
            place(json!({"nodes": [
                changed(node("a"), json!({"inputs": {"x": {"type": "static", "value": "DEEP"}}})),
            ]})),
            place(json!({"nodes": [changed(node("a"), json!({"config": {"x": "DEEP"}}))]})),
            place(json!({"nodes": [changed(node("a"), json!({"position": "DEEP"}))]})),
            place(json!({"nodes": [changed(node("a"), json!({"settings": {"other": "DEEP"}}))]})),
            place(json!({"variables": [{"name": "v", "type": "array", "defaultValue": "DEEP"}]})),
        ] {
            let graph = Graph::admit(carried.as_bytes()).expect("values that are only carried may be deep");
            assert!(!graph.is_empty());
        }
    }

    #[test]
    fn nesting_in_the_place_of_a_plain_value_is_refused() {
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        for key in ["id", "nodes", "edges", "metadata", "isActive"] {
            let text = definition(json!({key: "DEEP"})).to_string().replace(r#""DEEP""#, &deep);
            assert!(Graph::admit(text.as_bytes()).is_err(), "{key}");
        }
        assert!(Graph::admit(deep.as_bytes()).is_err());
        let unclosed = "[".repeat(1_000_000);
        assert!(Graph::admit(unclosed.as_bytes()).is_err());
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
        assert!(Graph::admit(padded(most).as_bytes()).is_ok());
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
    let hash = |text: &str| Graph::admit(text.as_bytes()).expect("it is sound").hash;
    assert_eq!(hash(&text), abide_core::sha256(text.as_bytes()));
    assert_ne!(hash(&text), hash(&spaced), "the same meaning in other bytes is another definition");
}
