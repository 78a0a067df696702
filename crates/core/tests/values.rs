//! Values: where they come from, where they go, and how those that are never shown stay out of sight.

#[expect(dead_code, reason = "other files tell the rest of the vocabulary")]
#[path = "domain/story.rs"]
mod story;
#[expect(dead_code, reason = "other files tell the rest of the vocabulary")]
#[path = "domain/workflow.rs"]
mod workflow;

use abide_core::{Json, Lifecycle, Mask, NodePhase, Notice, Rejection, Status, limits};
use serde_json::{Value, json};
use story::{Story, json as as_json};
use workflow::{
    Sketch, Workflow, branch, channel_write, child, delay, expression, fail, fixed, http, identity, noop,
    output, task, transform, variable, workflow,
};

mod ports {
    use super::*;

    #[test]
    fn a_port_may_compute_its_value() {
        let first = identity("first").input("x", fixed(&json!(20)));
        let echo = identity("echo")
            .input("sum", expression("nodes.first.outputs.x + variables.more"))
            .input("status", expression("nodes.first.status"))
            .input("run", expression("run.workflowId"));
        let flow = workflow([first, echo]).variable("more", "number").or(json!(2)).flow("first > echo");
        Story::of(&flow).start().outputs("echo", Some(r#"{"run":"story","status":"completed","sum":22}"#));
    }

    #[test]
    fn a_port_that_can_not_be_computed_fails_its_node() {
        let echo = identity("echo").input("x", expression("variables.absent + 1"));
        Story::of(&workflow([echo])).start().failed_with(
            "expression_failed",
            "input 'x' of node 'echo': in `variables.absent + 1`: there is no `variables.absent`; ask with \
             has(variables.absent) before reading it",
        );
    }

    #[test]
    fn a_value_is_only_taken_from_a_node_that_comes_before() {
        let echo = || {
            identity("echo").input("x", output("other", "x")).input("y", expression("nodes.other.outputs.y"))
        };
        let set = transform("set").config("outputs", json!({"z": "nodes.other.status"}));
        assert_eq!(
            workflow([echo(), noop("other"), set]).problems(),
            "nodes['echo'].inputs.x: 'other' does not come before 'echo'; add an edge from it\n\
             nodes['echo'].inputs.y: 'other' does not come before 'echo'; add an edge from it\n\
             nodes['set'].config.outputs.z: 'other' does not come before 'set'; add an edge from it"
        );
        let after = workflow([echo(), noop("other")]).flow("echo > other");
        assert!(after.problems().contains("'other' does not come before 'echo'"));
        let far = workflow([echo(), noop("other"), noop("between")]).flow("other > between > echo");
        assert_eq!(far.graph().len(), 3);
    }

    #[test]
    fn an_edge_may_carry_a_value() {
        let first = identity("first").input("x", fixed(&json!(1))).input("output", fixed(&json!("whole")));
        let flow = workflow([first, identity("echo")])
            .flow("first > echo")
            .edge("sourceOutput", json!("x"))
            .edge("targetInput", json!("taken"))
            .flow("first > echo")
            .edge("targetInput", json!("usual"));
        Story::of(&flow).start().outputs("echo", Some(r#"{"taken":1,"usual":"whole"}"#));
    }

    #[test]
    fn what_an_edge_carries_may_be_missing() {
        let flow = workflow([noop("first"), identity("echo")])
            .flow("first > echo")
            .edge("sourceOutput", json!("absent"))
            .edge("targetInput", json!("x"));
        Story::of(&flow).start().outputs("echo", Some("{}"));
    }

    #[test]
    fn an_input_has_one_source() {
        let echo = identity("echo").input("x", fixed(&json!(1)));
        let flow = workflow([noop("first"), echo]).flow("first > echo").edge("targetInput", json!("x"));
        assert_eq!(
            flow.problems(),
            "edges[0].targetInput: node 'echo' has an input 'x' already; remove one of them"
        );
    }
}

mod transforms {
    use super::*;

    #[test]
    fn one_expression_is_the_output_named_output() {
        let double =
            transform("double").config("expression", json!("inputs.x * 2")).input("x", fixed(&json!(4)));
        let echo = identity("echo");
        let flow = workflow([double, echo]).flow("double > echo").edge("targetInput", json!("x"));
        Story::of(&flow)
            .start()
            .outputs("double", Some(r#"{"output":8}"#))
            .outputs("echo", Some(r#"{"x":8}"#));
    }

    #[test]
    fn several_outputs_and_variables_see_the_state_before_the_node() {
        let swap = transform("swap")
            .config("assign", json!({"a": "variables.b", "b": "variables.a"}))
            .config("outputs", json!({"was": "[variables.a, variables.b]"}));
        let flow = workflow([swap]).variable("a", "number").or(json!(1)).variable("b", "number").or(json!(2));
        let story = Story::of(&flow).start().outputs("swap", Some(r#"{"was":[1,2]}"#)).expect([
            "run.started",
            "node.started swap",
            "variable.changed",
            "variable.changed",
            "node.completed swap",
            "run.completed",
        ]);
        assert_eq!((story.variable("a"), story.variable("b")), (Some("2"), Some("1")));
        assert_eq!(story.payload("variable.changed"), r#"{"name":"b","next":1}"#);
    }

    #[test]
    fn a_value_that_a_variable_has_already_changes_nothing() {
        let same = transform("same").config("assign", json!({"a": "1", "fresh": "2"}));
        let flow = workflow([same]).variable("a", "number").or(json!(1));
        let story = Story::of(&flow).start();
        assert_eq!(story.history().iter().filter(|line| *line == "variable.changed").count(), 1);
        assert_eq!(story.variable("fresh"), Some("2"), "an undeclared variable may be of any type");
    }

    #[test]
    fn a_declared_variable_keeps_its_type_and_a_failure_changes_nothing() {
        let set = transform("set").config("assign", json!({"a": "5", "b": "'text'"}));
        let flow = workflow([set]).variable("a", "number").variable("b", "number");
        let story = Story::of(&flow)
            .start()
            .expect(["run.started", "node.started set", "node.failed set", "run.failed"])
            .failed_with("variable_type", "variable 'b' is declared as number, but it would get string");
        assert_eq!(story.variable("a"), None);
    }

    #[test]
    fn variables_have_a_size_together() {
        let grow =
            transform("grow").config("assign", json!({"a": "inputs.x", "b": "inputs.x", "c": "inputs.x"}));
        let large = json!("x".repeat(limits::VARIABLES_BYTES_MAX / 3));
        let flow = workflow([task("fetch"), grow.input("x", output("fetch", "x"))]).flow("fetch > grow");
        let story = Story::of(&flow).start().report_of("fetch", 1, Ok(Some(as_json(&json!({"x": large})))));
        let error = story.run().error().expect("the run failed");
        assert_eq!(error.code, "variables_too_large");
        assert!(error.message.starts_with("'a', 'b', 'c' would bring the run's variables to "), "{error:?}");
        assert!(error.message.ends_with(" bytes; 4194304 are allowed"), "{error:?}");
        assert!(story.run().variables().is_empty());
    }

    #[test]
    fn a_durable_transform_changes_variables_when_it_is_reported() {
        let set = transform("set").durable().config("assign", json!({"a": "inputs.x + 1"}));
        let flow = workflow([set.input("x", fixed(&json!(1)))]).variable("a", "number");
        let story = Story::of(&flow)
            .start()
            .expect(["run.started", "node.started set"])
            .perform("set")
            .expect(["variable.changed", "node.completed set", "run.completed"]);
        assert_eq!(story.variable("a"), Some("2"));
    }

    #[test]
    fn what_a_transform_can_not_do_is_refused() {
        assert_eq!(
            workflow([transform("idle")]).problems(),
            "nodes['idle'].config.expression: give an expression, outputs or assign; there is nothing to do"
        );
        let wrong = transform("wrong")
            .config("assign", json!({"log": "1", "x": 5}))
            .config("outputs", json!({"y": "secrets.KEY", "z": "output.x"}))
            .config("colour", json!("red"));
        let told = workflow([wrong]).channel("log", json!({"reducer": "append"})).problems();
        for expected in [
            "nodes['wrong'].config.assign.x: an expression is a string",
            "nodes['wrong'].config.colour: there is no 'colour' here; the keys are expression, outputs, assign",
        ] {
            assert!(told.contains(expected), "{told}");
        }
        let channel = transform("set").config("assign", json!({"log": "1"}));
        assert_eq!(
            workflow([channel]).channel("log", json!({"reducer": "append"})).problems(),
            "nodes['set'].config.assign.log: 'log' is a channel; write to it with core.channelWrite"
        );
    }
}

mod channels {
    use super::*;

    /// Writes these values one after the other to a channel with this declaration.
    fn written(declaration: Value, values: &[Value]) -> Story {
        let ids: Vec<String> = (0..values.len()).map(|n| format!("w{n}")).collect();
        let nodes =
            ids.iter().zip(values).map(|(id, value)| channel_write(id, "log").config("value", value.clone()));
        Story::of(&workflow(nodes).flow(&ids.join(" > ")).channel("log", declaration)).start()
    }

    #[test]
    fn each_reducer_joins_writes_in_its_own_way() {
        for (reducer, values, state) in [
            ("replace", vec![json!(1), json!("two")], r#""two""#),
            ("append", vec![json!(1), json!("two")], r#"[1,"two"]"#),
            ("merge", vec![json!({"a": 1, "b": 1}), json!({"b": 2})], r#"{"a":1,"b":2}"#),
            ("counter", vec![json!(1), json!(41)], "42"),
            (
                "votes",
                vec![json!({"userId": "a", "v": 1}), json!({"userId": "b"}), json!({"userId": "a", "v": 2})],
                r#"[{"userId":"b"},{"userId":"a","v":2}]"#,
            ),
            ("feedback", vec![json!({"n": 1}), json!({"n": 1})], r#"[{"n":1},{"n":1}]"#),
            (
                "message",
                vec![json!({"messageId": "1", "t": "x"}), json!({"messageId": "1", "t": "y"})],
                r#"[{"messageId":"1","t":"x"}]"#,
            ),
        ] {
            let story = written(json!({ "reducer": reducer }), &values).stands(Status::Completed);
            assert_eq!(story.channel("log"), Some(state), "{reducer}");
        }
    }

    #[test]
    fn the_event_holds_what_was_written_and_not_the_state() {
        let story = written(json!({"reducer": "append"}), &[json!(1), json!(2)]);
        assert_eq!(
            story.payload("channel.written"),
            r#"{"channel":"log","value":2,"reducer":"append"}"#,
            "the declaration says how it is folded in"
        );
        assert_eq!(story.channel("log"), Some("[1,2]"));
    }

    #[test]
    fn a_channel_starts_from_its_default() {
        let story = written(json!({"reducer": "counter", "default": 10}), &[json!(1)]);
        assert_eq!(story.channel("log"), Some("11"));
        let unused = workflow([noop("only")]).channel("log", json!({"reducer": "append", "default": []}));
        assert_eq!(Story::of(&unused).start().channel("log"), Some("[]"));
    }

    #[test]
    fn entries_age_with_the_clock_of_the_run() {
        let write = |id: &str| channel_write(id, "log").config("value", json!(id));
        let flow = workflow([write("a"), delay("wait", 100), write("b"), delay("more", 1), write("c")])
            .flow("a > wait > b > more > c")
            .channel("log", json!({"reducer": "append", "ttlMs": 100}));
        let story = Story::of(&flow).start().after(100).fire("wait");
        let kept = |story: &Story| story.channel("log").map(str::to_owned).unwrap_or_default();
        assert!(kept(&story).contains(r#""a""#) && kept(&story).contains(r#""b""#), "{}", kept(&story));
        let story = story.after(1).fire("more").stands(Status::Completed);
        assert!(!kept(&story).contains(r#""a""#) && kept(&story).contains(r#""c""#), "{}", kept(&story));
    }

    #[test]
    fn a_write_that_does_not_fit_fails_its_node() {
        written(json!({"reducer": "counter"}), &[json!("one")]).failed_with(
            "channel_write_invalid",
            "channel 'log' does not take the value: a counter takes numbers, not \"one\": write a number",
        );
        let schemed = json!({"reducer": "append", "schema": {"items": {"type": "string"}}});
        written(schemed, &[json!(1)]).failed_with(
            "channel_schema_violation",
            "channel 'log' does not take the value: the value does not fit the channel's schema: /0: 1 is not of \
             type \"string\"",
        );
        let small = json!({"reducer": "replace", "maxSize": 4});
        written(small, &[json!("12345")]).failed_with(
            "channel_too_large",
            "channel 'log' does not take the value: the channel would hold 7 bytes, more than its 4: write less to it",
        );
    }

    #[test]
    fn an_undeclared_channel_takes_the_reducer_of_the_node() {
        let write = |id: &str| channel_write(id, "free").config("reducer", json!("append"));
        let flow = workflow([
            write("a").input("value", fixed(&json!(1))),
            write("b").input("value", fixed(&json!(2))).config("value", json!("never")),
        ])
        .flow("a > b");
        let story = Story::of(&flow).start();
        assert_eq!(story.channel("free"), Some("[1,2]"), "an input goes before the config");
        assert_eq!(story.payload("channel.written"), r#"{"channel":"free","value":2,"reducer":"append"}"#);
    }

    #[test]
    fn nothing_to_write_is_refused_or_fails() {
        assert_eq!(
            workflow([channel_write("w", "log")]).problems(),
            "nodes['w'].config: what is written is missing; give config.value or an input named value"
        );
        let maybe = channel_write("w", "log").input("value", variable("absent").optional());
        Story::of(&workflow([maybe]))
            .start()
            .failed_with("input_missing", "node 'w' has nothing to write; give config.value or inputs.value");
    }

    #[test]
    fn expressions_read_channels_that_let_them() {
        let echo = identity("echo").input("seen", expression("channels.log[0]"));
        let flow = workflow([channel_write("w", "log").config("value", json!("x")), echo]).flow("w > echo");
        Story::of(&flow.clone().channel("log", json!({"reducer": "append"})))
            .start()
            .outputs("echo", Some(r#"{"seen":"x"}"#));
        let access =
            |access: Value| flow.clone().channel("log", json!({"reducer": "append", "access": access}));
        assert_eq!(
            access(json!({"readers": ["other"]})).problems(),
            "nodes['echo'].inputs.seen: channel 'log' does not let this node read; see its access"
        );
        assert_eq!(
            access(json!({"writers": ["core.noop"]})).problems(),
            "nodes['w'].config.channelName: channel 'log' does not let this node write; see its access"
        );
        assert_eq!(
            access(json!("private")).problems(),
            "nodes['w'].config.channelName: channel 'log' does not let this node write; see its access\n\
             nodes['echo'].inputs.seen: channel 'log' does not let this node read; see its access"
        );
        Story::of(&access(json!({"readers": ["core.identity"], "writers": ["w"]})))
            .start()
            .stands(Status::Completed);
    }

    #[test]
    fn a_channel_is_named_in_full() {
        let echo = identity("echo").input("all", expression("channels")).input("one", expression("nodes"));
        assert_eq!(
            workflow([echo]).problems(),
            "nodes['echo'].inputs.all: name the channel: channels.NAME\n\
             nodes['echo'].inputs.one: name the node: nodes.ID or nodes[\"ID\"]"
        );
    }

    #[test]
    fn a_channel_is_no_input() {
        let flow = workflow([noop("only")]).channel("log", json!({"reducer": "append"}));
        assert_eq!(
            Story::of(&flow).input("log", &json!([])).refused(),
            Rejection::Invalid {
                field: "inputs.log".to_owned(),
                message: "'log' is a channel of workflow 'story', not an input; leave it out".to_owned(),
            }
        );
    }
}

mod sensitive {
    use super::*;

    const PIN: &str = "4711-secret";

    fn secretive(nodes: impl IntoIterator<Item = Sketch>) -> Workflow {
        workflow(nodes).variable("pin", "string").sensitive().variable("name", "string").or(json!("Ann"))
    }

    fn start(flow: &Workflow) -> Story {
        Story::of(flow).input("pin", &json!(PIN)).start()
    }

    /// No failure tells the value, in no event.
    #[track_caller]
    fn withheld(story: &Story) {
        let told = story.journal().iter().filter(|record| {
            let name = story::type_name(record);
            name.ends_with(".failed") || name == "node.retried"
        });
        let told: Vec<String> = told.map(story::payload_text).collect();
        assert!(!told.is_empty(), "something failed");
        assert!(told.iter().all(|text| !text.contains(PIN)), "{told:?}");
    }

    #[test]
    fn declared_variables_are_named_in_the_first_event() {
        let story = start(&secretive([noop("only")]));
        assert!(story.payload("run.started").contains(r#""sensitive":["pin"]"#));
        assert!(story.run().hides_variable("pin") && !story.run().hides_variable("name"));
    }

    #[test]
    fn a_request_knows_that_it_carries_sensitive_values() {
        let sensitive = |node: Sketch| match start(&secretive([node])).performance("call") {
            abide_core::Performance::Http(request) => request.sensitive,
            other => panic!("{other:?} is no request"),
        };
        let post = || http("call", "POST").config("body", json!("{{ inputs.x }}"));
        assert!(!sensitive(post().input("x", variable("name"))));
        assert!(sensitive(post().input("x", variable("pin"))));
        assert!(sensitive(post().input("x", expression("variables.pin + '!'"))));
    }

    #[test]
    fn what_goes_through_a_port_taints_the_outputs() {
        for port in [variable("pin"), expression("variables.pin"), expression("size(variables)")] {
            let story = start(&secretive([identity("echo").input("x", port), identity("other")]));
            assert_eq!(story.node("echo").masked, Mask::All);
            assert_eq!(story.node("other").masked, Mask::Nothing);
            assert!(story.payload_at("node.started", "echo").contains(r#""sensitive":true"#));
            assert!(story.payload_at("node.completed", "echo").contains(r#""masked":"all""#));
        }
        let open = start(&secretive([identity("echo").input("x", variable("name"))]));
        assert_eq!(open.node("echo").masked, Mask::Nothing);
    }

    #[test]
    fn the_taint_goes_along_connections_and_expressions() {
        let first = identity("first").input("x", variable("pin"));
        let by_port = identity("port").input("y", output("first", "x"));
        let by_name = identity("name").input("y", expression("nodes.first.outputs.x"));
        let by_edge = identity("edge");
        let flow = secretive([first, by_port, by_name, by_edge])
            .flow("first > port")
            .flow("first > name")
            .flow("first > edge")
            .edge("sourceOutput", json!("x"))
            .edge("targetInput", json!("y"));
        let story = start(&flow);
        for id in ["port", "name", "edge"] {
            assert_eq!(story.node(id).masked, Mask::All, "{id}");
        }
    }

    #[test]
    fn a_transform_taints_what_it_computes_and_assigns() {
        let set = transform("set")
            .config("assign", json!({"copy": "variables.pin + '!'"}))
            .config("outputs", json!({"n": "size(variables.pin)"}));
        let story = start(&secretive([set]));
        assert_eq!(story.node("set").masked, Mask::All);
        assert!(story.run().hides_variable("copy"));
        assert_eq!(
            story.payload("variable.changed"),
            format!(r#"{{"name":"copy","next":"{PIN}!","sensitive":true}}"#)
        );
    }

    #[test]
    fn a_variable_that_was_tainted_once_stays_so() {
        let taint = transform("taint").config("assign", json!({"copy": "variables.pin"}));
        let wash = transform("wash").config("assign", json!({"copy": "'clean'"}));
        let story = start(&secretive([taint, wash]).flow("taint > wash"));
        assert!(story.run().hides_variable("copy"));
        assert_eq!(story.payload("variable.changed"), r#"{"name":"copy","next":"clean","sensitive":true}"#);
    }

    #[test]
    fn the_choice_of_a_branch_says_something_about_what_it_read() {
        let story = start(&secretive([branch("choose", &[("short", "size(variables.pin) < 20")])]));
        assert_eq!(story.node("choose").masked, Mask::All);
        let story = start(&secretive([branch("choose", &[("open", "variables.name == 'Ann'")])]));
        assert_eq!(story.node("choose").masked, Mask::Nothing);
    }

    #[test]
    fn channels_carry_the_taint_on() {
        let flow = secretive([
            channel_write("write", "log").config("reducer", json!("append")).input("value", variable("pin")),
            identity("read").input("x", expression("channels.log")),
        ])
        .flow("write > read");
        let story = start(&flow);
        assert!(story.run().hides_channel("log"));
        assert!(story.payload("channel.written").ends_with(r#""sensitive":true}"#));
        assert_eq!(story.node("read").masked, Mask::All);
    }

    #[test]
    fn a_channel_may_be_declared_sensitive() {
        let flow = workflow([
            channel_write("write", "log").config("value", json!("open")),
            identity("read").input("x", expression("channels.log")),
        ])
        .flow("write > read")
        .channel("log", json!({"reducer": "append", "sensitive": true}));
        let story = Story::of(&flow).start();
        assert!(story.run().hides_channel("log"));
        assert_eq!(story.node("read").masked, Mask::All);
    }

    #[test]
    fn children_inherit_what_is_sensitive_and_tell_it_back() {
        let call = child("call", "other")
            .config("inputMapping", json!({"code": "pin", "who": "name"}))
            .config("outputMapping", json!({"result": "answer"}));
        let story = start(&secretive([call]));
        let spawn = story.spawn();
        assert_eq!(spawn.sensitive, ["code"]);
        let other = workflow([transform("work").config("assign", json!({"answer": "variables.code + '?'"}))]);
        let below = Story::of(&other).spawned(&spawn).start();
        assert!(below.run().hides_variable("code") && below.run().hides_variable("answer"));
        assert!(!below.run().hides_variable("who"));
        let told = below.told();
        assert_eq!(told.sensitive, ["answer"]);
        let story = story.hear(told, None).stands(Status::Completed);
        assert!(story.run().hides_variable("result"));
    }

    #[test]
    fn ports_of_a_child_that_hide_something_hide_all_of_them() {
        let call = child("call", "other").input("a", variable("pin")).input("b", variable("name"));
        assert_eq!(start(&secretive([call])).spawn().sensitive, ["a", "b"]);
    }

    #[test]
    fn a_childs_failure_was_withheld_before_it_was_told() {
        let call = child("call", "other").config("inputMapping", json!({"code": "pin"}));
        let story = start(&secretive([call]));
        let other = workflow([identity("work").input("n", expression("int(variables.code)"))]);
        let told: Notice = Story::of(&other).spawned(&story.spawn()).start().told();
        assert_eq!(told.lifecycle, Lifecycle::Failed);
        withheld(&story.hear(told, None));
    }

    #[test]
    fn a_node_may_say_which_of_its_outputs_are_shown() {
        let echo = |sensitivity: Value| {
            let echo = identity("echo").input("x", variable("pin")).input("y", variable("name"));
            start(&secretive([echo.with("outputSensitivity", sensitivity)])).node("echo").masked.clone()
        };
        let keys = |keys: &[&str]| Mask::Keys(keys.iter().map(|key| (*key).to_owned()).collect());
        assert_eq!(echo(json!({"y": false})), keys(&["x"]));
        assert_eq!(echo(json!({"x": false, "y": false})), Mask::Nothing);
        assert_eq!(echo(json!({"x": true})), keys(&["x", "y"]));
        let open =
            identity("echo").input("y", variable("name")).with("outputSensitivity", json!({"y": true}));
        assert_eq!(start(&secretive([open])).node("echo").masked, keys(&["y"]));
    }

    #[test]
    fn only_the_masked_keys_taint_what_takes_them() {
        let first = identity("first")
            .input("x", variable("pin"))
            .input("y", variable("name"))
            .with("outputSensitivity", json!({"y": false}));
        let flow = secretive([
            first,
            identity("hidden").input("v", output("first", "x")),
            identity("shown").input("v", output("first", "y")),
        ])
        .flow("first > hidden")
        .flow("first > shown");
        let story = start(&flow);
        assert_eq!(story.node("hidden").masked, Mask::All);
        assert_eq!(story.node("shown").masked, Mask::Nothing);
    }

    #[test]
    fn the_failure_of_a_tainted_node_is_withheld() {
        let gate = workflow::of_kind("gate", "core.delay").input("delayMs", variable("pin"));
        let story = start(&secretive([gate]));
        withheld(&story);
        story.failed_with(
            "invalid_delay",
            "node 'gate' failed; why is withheld, because something sensitive went into it",
        );
    }

    #[test]
    fn what_an_executor_reports_of_a_tainted_node_is_withheld() {
        let call = http("call", "GET")
            .input("pin", variable("pin"))
            .setting("retry", json!({"strategy": "fixed", "maxRetries": 1, "jitter": false}));
        let story = start(&secretive([call]));
        let leak = format!("could not reach https://service.example/{PIN}");
        let story =
            story.report_trouble("call", &leak, abide_core::Reached::No).expect(["node.retried call"]);
        let story = story.after(1_000).fire_timer("retry/1/call").report_failure("call", &leak);
        withheld(&story);
        let story = start(&secretive([http("call", "GET").input("pin", variable("pin"))]));
        let story = story.report_of("call", 1, Ok(Some(Json::of(&json!({"body": PIN})))));
        assert_eq!(story.node("call").masked, Mask::All);
    }

    #[test]
    fn expressions_that_fail_on_a_hidden_value_do_not_repeat_it() {
        let port = identity("bad").input("n", expression("int(variables.pin)"));
        let computed = transform("bad").config("expression", json!("int(variables.pin)"));
        let key = transform("bad").config("expression", json!("{'a': 1}[variables.pin]"));
        let case = branch("bad", &[("yes", "int(variables.pin) > 1")]);
        let through =
            transform("bad").config("expression", json!("int(inputs.x)")).input("x", variable("pin"));
        for bad in [port, computed, key, case, through] {
            let story = start(&secretive([bad])).node_is("bad", NodePhase::Failed);
            withheld(&story);
            assert_eq!(story.run().error().map(|error| error.code.as_str()), Some("expression_failed"));
        }
        let open = transform("bad").config("expression", json!("int(variables.name)"));
        let story = start(&secretive([open]));
        assert!(story.payload("run.failed").contains("can't read 'Ann'"), "what is shown anyway is told");
    }

    #[test]
    fn conditions_that_fail_on_a_hidden_value_do_not_repeat_it() {
        let of_variable = secretive([noop("a"), noop("b")]).flow("a > b").when("int(variables.pin) > 1");
        withheld(&start(&of_variable));
        let of_output = secretive([identity("a").input("x", variable("pin")), noop("b")])
            .flow("a > b")
            .when("int(output.x) > 1");
        let story = start(&of_output);
        withheld(&story);
        story.failed_with(
            "expression_failed",
            "the condition of edge 'e0' can't be evaluated; why is withheld, because it reads something sensitive",
        );
    }

    #[test]
    fn a_write_to_a_channel_that_holds_something_hidden_does_not_tell_what_it_holds() {
        let flow = secretive([
            channel_write("hide", "log").input("value", variable("pin")),
            channel_write("count", "log").config("reducer", json!("counter")).config("value", json!(1)),
        ])
        .flow("hide > count");
        let story = start(&flow).node_is("count", NodePhase::Failed);
        withheld(&story);
        story.failed_with(
            "channel_write_invalid",
            "channel 'log' does not take the value: why is withheld, because it is sensitive",
        );
    }

    #[test]
    fn a_failing_node_tells_its_own_words_if_nothing_hidden_went_in() {
        let boom = fail("boom").config("message", json!("no luck"));
        start(&secretive([boom])).failed_with("node_execution_failed", "no luck");
        let tainted = fail("boom").config("message", json!("no luck")).input("x", variable("pin"));
        withheld(&start(&secretive([tainted])));
    }

    #[test]
    fn a_durable_node_keeps_the_taint_until_it_is_reported() {
        let story =
            start(&secretive([identity("echo").durable().input("x", variable("pin"))])).perform("echo");
        assert_eq!(story.node("echo").masked, Mask::All);
    }
}
