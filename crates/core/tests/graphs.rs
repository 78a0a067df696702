//! Random graphs with rules, conditions, disabled nodes and loops, held against a second opinion.
//!
//! Every story folds its journal a second time and reads its snapshot back, so each of these runs is also a test
//! of both.

#[expect(dead_code, reason = "other files tell the rest of the vocabulary")]
#[path = "domain/story.rs"]
mod story;
#[expect(dead_code, reason = "other files tell the rest of the vocabulary")]
#[path = "domain/workflow.rs"]
mod workflow;

use abide_core::{Failure, Graph, NodePhase, Outcome, Rule, Status, Tally, Verdict};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::json;
use story::Story;
use workflow::{Sketch, Workflow, fail, noop, task, workflow};

/// How a node ends if it runs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ends {
    Well,
    Badly,
    /// Reported later, well or badly.
    Later(bool),
    /// It is disabled, so it never runs.
    Never,
}

#[derive(Clone, Debug)]
struct Way {
    from: usize,
    to: usize,
    rule: Rule,
    condition: Option<&'static str>,
}

#[derive(Clone, Debug)]
struct Plan {
    nodes: Vec<Ends>,
    ways: Vec<Way>,
    /// In which order tasks are reported.
    order: Vec<Index>,
    /// Before how many reports the run is paused and resumed.
    pauses: Vec<bool>,
}

fn ends() -> impl Strategy<Value = Ends> {
    prop_oneof![
        4 => Just(Ends::Well),
        2 => Just(Ends::Badly),
        4 => any::<bool>().prop_map(Ends::Later),
        1 => Just(Ends::Never),
    ]
}

fn ways(back: bool) -> impl Strategy<Value = (Index, Index, Rule, Option<&'static str>, bool)> {
    let rules: Vec<Rule> = Rule::ALL.iter().map(|(rule, _)| *rule).collect();
    let conditions = [
        None,
        None,
        None,
        Some("true"),
        Some("false"),
        Some("status == 'failed'"),
        Some("status == 'completed'"),
    ];
    let direction = if back { prop::bool::weighted(0.15).boxed() } else { Just(false).boxed() };
    (
        any::<Index>(),
        any::<Index>(),
        prop::sample::select(rules),
        prop::sample::select(conditions.to_vec()),
        direction,
    )
}

fn plans(back: bool) -> impl Strategy<Value = Plan> {
    (vec(ends(), 1..9), vec(ways(back), 0..16), vec(any::<Index>(), 40), vec(any::<bool>(), 40)).prop_map(
        |(nodes, drawn, order, pauses)| {
            let count = nodes.len();
            let mut ways = Vec::new();
            for (one, other, rule, condition, back) in drawn {
                let (one, other) = (one.index(count), other.index(count));
                let (from, to) =
                    if back { (one.max(other), one.min(other)) } else { (one.min(other), one.max(other)) };
                if from != to || back {
                    ways.push(Way { from, to, rule, condition });
                }
            }
            Plan { nodes, ways, order, pauses }
        },
    )
}

fn name(ix: usize) -> String {
    format!("n{ix}")
}

impl Plan {
    fn workflow(&self) -> Workflow {
        let sketch = |(ix, ends): (usize, &Ends)| -> Sketch {
            let id = name(ix);
            let bare = match ends {
                Ends::Well => noop(&id),
                Ends::Badly => fail(&id).config("message", json!(id)),
                Ends::Later(_) => task(&id),
                Ends::Never => noop(&id).disabled(),
            };
            bare.looping(2)
        };
        let nodes = self.nodes.iter().enumerate().map(sketch);
        self.ways.iter().fold(workflow(nodes), |flow, way| {
            let known = Rule::ALL.iter().find(|(rule, _)| *rule == way.rule);
            let flow = flow
                .under(known.map_or("", |(_, name)| name), &format!("{} > {}", name(way.from), name(way.to)));
            way.condition.into_iter().fold(flow, Workflow::when)
        })
    }

    /// Plays the run to its end: tasks are reported in some order, and the run is paused now and then.
    fn play(&self, flow: &Workflow) -> Story {
        let mut story = Story::of(flow).start();
        for turn in 0.. {
            let tasks: Vec<_> = story.run().tasks().collect();
            if tasks.is_empty() {
                break;
            }
            assert!(turn < 1_000, "the run never ends");
            let paused = self.pauses[turn % self.pauses.len()] && story.run().status() == Status::Running;
            let story_now = if paused { story.pause() } else { story };
            let task = self.order[turn % self.order.len()].get(&tasks).clone();
            let ix: usize = task.node[1..].parse().expect("nodes are numbered");
            let outcome = match self.nodes[ix] {
                Ends::Later(false) => Err(Failure::new("node_execution_failed", task.node.to_string())),
                _ => Ok(None),
            };
            story = story_now.report_of(&task.node, task.execution, outcome);
            if story.run().status() == Status::Paused {
                story = story.resume();
            }
        }
        story
    }
}

/// What a node comes to, worked out from the definition alone.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Opinion {
    Completed,
    Failed,
    Skipped,
}

/// The second opinion, for graphs without loops: what becomes of every node if nothing stops the run, and the nodes
/// whose failure nobody takes over.
fn opinions(plan: &Plan) -> (Vec<Opinion>, Vec<usize>) {
    let mut opinions: Vec<Opinion> = Vec::new();
    for (ix, ends) in plan.nodes.iter().enumerate() {
        let runs = Rule::ALL.iter().all(|(rule, _)| {
            let mut tally = Tally::default();
            let ways = plan.ways.iter().filter(|way| way.to == ix && way.rule == *rule);
            let total = ways.map(|way| tally.add(outcome(way, opinions[way.from]))).count();
            total == 0 || rule.verdict(total as u32, tally) == Verdict::Run
        });
        opinions.push(match ends {
            Ends::Never => Opinion::Skipped,
            _ if !runs => Opinion::Skipped,
            Ends::Badly | Ends::Later(false) => Opinion::Failed,
            Ends::Well | Ends::Later(true) => Opinion::Completed,
        });
    }
    let failed = (0..opinions.len()).filter(|&ix| opinions[ix] == Opinion::Failed);
    let alone = failed.filter(|&ix| {
        let mut ways = plan.ways.iter().filter(|way| way.from == ix);
        !ways.any(|way| {
            let goes = outcome(way, Opinion::Failed) == Outcome::Failed;
            goes && way.rule.takes_failures() && opinions[way.to] != Opinion::Skipped
        })
    });
    let alone = alone.collect();
    (opinions, alone)
}

fn outcome(way: &Way, source: Opinion) -> Outcome {
    let holds = match way.condition {
        Some("false") => false,
        Some("status == 'failed'") => source == Opinion::Failed,
        Some("status == 'completed'") => source == Opinion::Completed,
        _ => true,
    };
    match source {
        Opinion::Completed if holds => Outcome::Success,
        Opinion::Failed if holds => Outcome::Failed,
        _ => Outcome::Skipped,
    }
}

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_graph_without_loops_does_what_its_rules_say(plan in plans(false)) {
        let story = plan.play(&plan.workflow());
        let (opinions, alone) = opinions(&plan);
        if alone.is_empty() {
            prop_assert_eq!(story.run().status(), Status::Completed);
            for (ix, opinion) in opinions.iter().enumerate() {
                let expected = match opinion {
                    Opinion::Completed => NodePhase::Completed,
                    Opinion::Failed => NodePhase::Failed,
                    Opinion::Skipped => NodePhase::Skipped,
                };
                prop_assert_eq!(story.node(&name(ix)).phase, expected, "node n{}", ix);
            }
        } else {
            prop_assert_eq!(story.run().status(), Status::Failed);
            let error = story.run().error().expect("a failed run has an error");
            prop_assert!(alone.iter().any(|&ix| name(ix) == error.message), "{:?} of {:?}", error, alone);
        }
    }

    #[test]
    fn a_graph_with_loops_ends_and_leaves_nothing_behind(plan in plans(true)) {
        let flow = plan.workflow();
        // A graph that is entered in the middle of a loop is refused; there is nothing to play.
        prop_assume!(Graph::admit(flow.text().as_bytes()).is_ok());
        let story = plan.play(&flow);
        let status = story.run().status();
        prop_assert!(status.is_terminal(), "{:?} although nothing is in flight", status);
        prop_assert!(story.run().timers().is_empty());
        if status == Status::Completed {
            let settled = |phase: NodePhase| phase.is_settled() && phase != NodePhase::Cancelled;
            prop_assert!(story.run().nodes().iter().all(|node| settled(node.phase)));
        }
        for (ix, ends) in plan.nodes.iter().enumerate() {
            let most = 3_u32.pow(4);
            prop_assert!(story.node(&name(ix)).execution <= most * 3, "{:?}", ends);
        }
    }
}
