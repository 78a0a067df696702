//! New definitions and old ones: what is admitted, what can still be read, and what hostile sizes cost.

#[expect(dead_code, reason = "other files tell the rest of the vocabulary")]
#[path = "domain/story.rs"]
mod story;
#[expect(dead_code, reason = "other files tell the rest of the vocabulary")]
#[path = "domain/workflow.rs"]
mod workflow;

use abide_core::{Graph, NodePhase, Status, limits};
use serde_json::{Value, json};
use story::Story;
use workflow::{
    Sketch, Workflow, channel_write, child, http, identity, noop, of_kind, output, task, workflow,
};

fn problems_of(text: &str) -> Vec<String> {
    let refused = Graph::admit(text.as_bytes()).expect_err("the definition is refused");
    refused.iter().map(ToString::to_string).collect()
}

mod every_problem_at_once {
    use super::*;

    #[test]
    fn configs_of_all_kinds_are_looked_at() {
        let nodes = [
            channel_write("write", "log").config("value", json!(1)).config("reducer", json!("sum")),
            child("call", "other")
                .config("onChildFailure", json!("ignore"))
                .config("inputMapping", json!({"a": 1})),
            http("ask", "FETCH")
                .config("headers", json!({"A": 1, "B": "{{ 1 +"}))
                .config("timeoutMs", json!(0))
                .config("acceptStatuses", json!([200, 999]))
                .config("maxRedirects", json!(11)),
            of_kind("choose", "core.branch").config("cases", json!([{"name": "a"}, 5])),
            of_kind("compute", "core.transform").config("outputs", json!({"x": "1 +"})),
            of_kind("work", "core.dispatch").config("fanOutPolicy", json!("parallel")),
            noop("limit")
                .setting("loop", json!({"maxIterations": 0}))
                .setting("retry", json!({"strategy": "often"})),
        ];
        let told = workflow(nodes).problems();
        for place in [
            "nodes['write'].config.reducer: this server has no reducer sum",
            "nodes['call'].config.onChildFailure: use fail-parent or absorb",
            "nodes['call'].config.inputMapping.a: the name of a variable is expected",
            "nodes['ask'].config.method: use one of GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS",
            "nodes['ask'].config.headers.A: a string is expected",
            "nodes['ask'].config.headers.B: ",
            "nodes['ask'].config.timeoutMs: a whole number from 1 to 600000 is expected",
            "nodes['ask'].config.acceptStatuses: HTTP statuses from 100 to 599 are expected",
            "nodes['ask'].config.maxRedirects: a whole number from 0 to 10 is expected",
            "nodes['choose'].config.cases[0]: 'when' is missing; add it",
            "nodes['choose'].config.cases[1]: an object is expected here, not a number",
            "nodes['compute'].config.outputs.x: ",
            "nodes['work'].config.fanOutPolicy: use sequential or reject",
            "nodes['limit'].settings.abide.loop.maxIterations: a whole number from 1 to 1000000 is expected",
            "nodes['limit'].settings.abide.retry.strategy: use none, fixed, linear or exponential",
        ] {
            assert!(told.lines().any(|line| line.starts_with(place)), "{place}\nis not among\n{told}");
        }
    }

    #[test]
    fn of_very_many_problems_the_first_hundred_are_told() {
        let bad = |count: usize| {
            let nodes = (0..count).map(|n| of_kind(&format!("n{n}"), "no kind"));
            problems_of(&workflow(nodes).text())
        };
        assert_eq!(bad(limits::PROBLEMS_MAX).len(), limits::PROBLEMS_MAX, "all of a hundred are told");
        let many = bad(limits::PROBLEMS_MAX + 1);
        assert_eq!(many.len(), limits::PROBLEMS_MAX + 1);
        assert_eq!(many.last().unwrap(), "definition: there are more than 100 problems; mend these first");
        assert_eq!(bad(5_000).len(), many.len());
    }
}

mod old_definitions {
    use super::*;

    /// Refused today, but taken in by a version with fewer rules.
    fn outdated() -> Vec<(Workflow, &'static str)> {
        let early = identity("echo").input("x", output("later", "x").optional());
        vec![
            (workflow([noop("a")]).with("status", json!("retired")), "status"),
            (workflow([noop("a")]).with("triggers", json!([7, {"id": "t", "type": "moon"}])), "triggers"),
            (workflow([early, noop("later")]), "does not come before"),
            (workflow([noop("a").with("credentialsRef", json!("vault"))]), "credentials"),
            (workflow([noop("a")]).settings("timeout", json!("soon")), "settings.timeout"),
            (workflow([noop("a")]).settings("maxRetries", json!(5_000)), "settings.maxRetries"),
        ]
    }

    #[test]
    fn what_later_rules_object_to_is_not_admitted_but_still_read_and_run() {
        for (flow, objection) in outdated() {
            assert!(flow.problems().contains(objection), "{}", flow.problems());
            let story = Story::following(flow.old_graph());
            if objection == "status" {
                story.refused();
            } else {
                story.start().stands(Status::Completed);
            }
        }
    }

    #[test]
    fn a_node_whose_config_makes_no_sense_fails_when_its_turn_comes() {
        for (flow, reason) in [
            (
                workflow([of_kind("node", "core.transform")]),
                "nodes['node'].config.expression: give an expression",
            ),
            (
                workflow([of_kind("node", "core.http.request")]),
                "nodes['node'].config: 'url' is missing; add it",
            ),
            (
                workflow([of_kind("node", "core.subWorkflow")]),
                "nodes['node'].config: 'workflowId' is missing",
            ),
            (
                workflow([of_kind("node", "core.branch").durable()]),
                "nodes['node'].config: 'cases' is missing",
            ),
        ] {
            assert!(flow.problems().contains(reason), "{}", flow.problems());
            let story = Story::following(flow.old_graph()).start().node_is("node", NodePhase::Failed);
            let error = story.run().error().expect("the run failed");
            assert_eq!(error.code, "invalid_config");
            assert!(error.message.starts_with(reason), "{error:?}");
        }
    }

    #[test]
    fn what_can_not_be_read_is_refused_either_way() {
        for bad in [
            workflow([noop("a"), noop("a")]),
            workflow([noop("a")]).flow("a > nobody"),
            workflow([noop("a")]).flow("a > a"),
            workflow([noop("a").with("colour", json!("red"))]),
        ] {
            assert!(Graph::admit(bad.text().as_bytes()).is_err());
            let read = Graph::read(bad.text().as_bytes()).map(|graph| graph.len());
            assert_eq!(read.map_err(|problems| problems.len()), Err(1));
        }
    }
}

/// Each of these is small enough to be sent, and has to be judged in moments.
mod hostile_sizes {
    use super::*;

    fn with_nodes(nodes: Vec<Sketch>) -> Workflow {
        workflow(nodes)
    }

    #[test]
    fn a_long_id_is_not_repeated_in_every_message() {
        let id = "x".repeat(1_000_000);
        let bad =
            (0..100).fold(noop(&id), |node, n| node.input(&format!("p{n}"), workflow::expression("nowhere")));
        let told = problems_of(&with_nodes(vec![bad]).text());
        assert!(told.iter().map(String::len).sum::<usize>() < 100_000);
        assert!(told[0].starts_with("nodes[0].id: a node id has 1 to 256 characters"), "{}", &told[0][..80]);
        assert!(told[1].starts_with("nodes[0].inputs.p"), "{}", told[1]);
    }

    #[test]
    fn a_million_unknown_keys_are_refused_without_a_look_at_each() {
        let keys: serde_json::Map<String, Value> =
            (0..500_000).map(|n| (format!("k{n}"), json!(1))).collect();
        let text = workflow([noop("a")]).with("extra", Value::Object(keys)).text();
        let inlined = text.replacen(r#""extra":{"#, "", 1).replacen("},\"id\"", ",\"id\"", 1);
        let told = problems_of(&inlined);
        assert_eq!(told.len(), limits::PROBLEMS_MAX + 1);
        assert!(told[0].contains("there is no 'k"), "{}", told[0]);
    }

    #[test]
    fn more_loops_than_are_looked_at_are_refused() {
        let loops = |count: usize| {
            let nodes = (0..count).map(|n| noop(&format!("n{n}")).looping(1)).collect();
            (0..count).fold(with_nodes(nodes), |flow, n| flow.flow(&format!("n{n} > n{n}")))
        };
        assert_eq!(loops(1_000).graph().len(), 1_000);
        let told = loops(1_001).problems();
        assert!(
            told.starts_with("edges: there are more than 1000 loops, or more than 16 within each other, at ")
        );
    }

    #[test]
    fn loops_lie_in_each_other_sixteen_deep() {
        let nest = |depth: usize| {
            let nodes = (0..depth).map(|n| noop(&format!("n{n}")).looping(1)).collect();
            let ids: Vec<String> = (0..depth).map(|n| format!("n{n}")).collect();
            let chain = with_nodes(nodes).flow(&ids.join(" > "));
            // Every node leads back to itself and to all before it, so each is the head of a loop of its own.
            (0..depth).fold(chain, |flow, n| flow.flow(&format!("n{} > n{n}", depth - 1)))
        };
        assert_eq!(nest(16).graph().len(), 16);
        assert!(nest(17).problems().contains("more than 16 within each other"));
    }

    #[test]
    fn many_ways_into_many_loops_are_judged_in_moments() {
        let count = 1_000;
        let nodes = (0..count).map(|n| noop(&format!("n{n}")).looping(1)).collect();
        let mut flow = with_nodes(nodes);
        for n in 0..count {
            flow = flow.flow(&format!("n{n} > n{n}"));
            for far in 1..90 {
                if n + far < count {
                    flow = flow.flow(&format!("n{n} > n{}", n + far));
                }
            }
        }
        assert_eq!(flow.graph().len(), count);
    }

    #[test]
    fn inputs_from_far_away_are_checked_up_to_a_limit() {
        let count = 6_000;
        let chain: Vec<String> = (0..count).map(|n| format!("n{n}")).collect();
        let nodes: Vec<Sketch> = (0..count)
            .map(|n| match n < count / 2 {
                true => noop(&chain[n]),
                // Each takes its input from the node as far before it as there are nodes between.
                false => noop(&chain[n]).input("x", output(&chain[count - 1 - n], "x").optional()),
            })
            .collect();
        let text = with_nodes(nodes).flow(&chain.join(" > "));
        assert_eq!(text.graph().len(), count, "nine million steps are looked at");
    }

    #[test]
    fn a_run_of_the_widest_definition_fits_into_stretches() {
        let count = 3_000;
        let nodes = (0..count).map(|n| noop(&format!("n{n}"))).chain([task("end")]).collect();
        let wide = (0..count).fold(with_nodes(nodes), |flow, n| flow.flow(&format!("n{n} > end")));
        let mut story = Story::of(&wide).start();
        while story.node("end").phase == NodePhase::Pending {
            story = story.fire_timer("stretch");
        }
        story.report("end").stands(Status::Completed);
    }
}
