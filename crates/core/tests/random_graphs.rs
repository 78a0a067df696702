//! What holds for every workflow: random definitions, played as families of runs, and judged by their journals.
//!
//! `ABIDE_PROPERTY_CASES` raises the number of cases.

#[path = "family/dice.rs"]
mod dice;
#[path = "family/expressions.rs"]
mod expressions;
#[path = "family/judge.rs"]
mod judge;
#[path = "family/plan.rs"]
mod plan;
#[path = "family/play.rs"]
mod play;

use std::collections::{BTreeMap, BTreeSet};

use abide_core::{Event, EventType, Lifecycle, NodeEvent, Record, Run, RunEvent, event_types};
use dice::Tape;
use plan::{MARKER, Plan};
use play::{Family, Member};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

#[expect(clippy::disallowed_methods, reason = "how long a test runs is up to whoever runs it")]
fn config() -> ProptestConfig {
    let asked = std::env::var("ABIDE_PROPERTY_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig {
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..ProptestConfig::with_cases(asked.unwrap_or(150))
    }
}

fn tapes(most: usize) -> impl Strategy<Value = Tape> {
    prop::collection::vec(any::<u16>(), 0..most).prop_map(Tape)
}

fn plans() -> impl Strategy<Value = Plan> {
    tapes(2_000).prop_map(|tape| Plan::draw(&tape, false))
}

/// Plans in which nothing depends on who is quicker.
fn calm_plans() -> impl Strategy<Value = Plan> {
    tapes(2_000).prop_map(|tape| Plan::draw(&tape, true))
}

/// What a family does, and what is done to it.
fn moves() -> impl Strategy<Value = Tape> {
    tapes(300)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_family_comes_to_an_end_that_its_journals_explain(
        plan in plans(),
        moves in moves(),
        at in any::<Index>(),
    ) {
        let family = Family::play(&plan, &moves, 1);
        for member in &family.members {
            prop_assert!(member.lifecycle().is_terminal(), "{} hangs", member.path);
            prop_assert!(member.is_tidy(), "{} leaves something behind", member.path);
            judge::judge(&plan.drafts[member.draft], &member.journal, member.run.caps().node_executions);
            limits_are_told_before_they_end_a_run(member)?;
            folds_again(member, at.index(member.journal.len()))?;
            shows_nothing_sensitive(&plan, member)?;
        }
        children_go_with_their_parents(&family)?;
    }

    #[test]
    fn the_same_seed_tells_the_same_story(plan in plans(), moves in moves()) {
        let once = Family::play(&plan, &moves, 1);
        let again = Family::play(&plan, &moves, 1);
        prop_assert_eq!(once.members.len(), again.members.len());
        for (one, other) in once.members.iter().zip(&again.members) {
            prop_assert_eq!(&one.journal, &other.journal);
        }
        // Jitter is drawn from the salt, so other salts may move a retry before or behind something else.
        let jitter = plan.drafts.iter().any(|draft| draft.definition.to_string().contains("\"jitter\":true"))
            || plan.drafts.iter().any(|draft| draft.definition["settings"]["maxRetries"].is_number());
        // So are the names of questions.
        let asks = once.members.iter().any(|member| member.journal.iter().any(|record| name(record) == "interrupt.requested"));
        if !jitter && !asks {
            let elsewhere = Family::play(&plan, &moves, 3);
            prop_assert_eq!(told(&once), told(&elsewhere));
        }
    }

    #[test]
    fn who_is_quicker_does_not_matter_where_nothing_depends_on_it(
        plan in calm_plans(),
        moves in moves(),
        others in moves(),
    ) {
        let (one, other) = (Family::play(&plan, &moves, 1), Family::play(&plan, &others, 1));
        if !one.stunted && !other.stunted {
            prop_assert_eq!(outcomes(&one), outcomes(&other));
        }
    }
}

fn name(record: &Record) -> &'static str {
    EventType::by_code(record.type_code).expect("the type is declared").name
}

fn shows_nothing_sensitive(plan: &Plan, member: &Member) -> Result<(), TestCaseError> {
    for record in &member.journal {
        let event = record.event().map_err(TestCaseError::fail)?;
        let shown = judge::outward(&plan.drafts[member.draft], &event);
        prop_assert!(!shown.contains(MARKER), "{} shows {shown}", name(record));
    }
    Ok(())
}

fn limits_are_told_before_they_end_a_run(member: &Member) -> Result<(), TestCaseError> {
    const CODES: [&str; 3] = ["recursion_limit_exceeded", "run_timeout", "loop_limit_exceeded"];
    let breached = member.journal.iter().filter(|record| name(record) == "cap.breached").count();
    let last = member.journal.last().expect("a journal has a start").event();
    if let Ok(Event::Run(RunEvent::Failed(failed))) = last {
        let limit = CODES.contains(&failed.error.code.as_str());
        prop_assert_eq!(breached, usize::from(limit), "{:?}", failed);
    } else {
        prop_assert!(breached == 0 || member.lifecycle() == Lifecycle::Cancelled);
    }
    Ok(())
}

fn children_go_with_their_parents(family: &Family<'_>) -> Result<(), TestCaseError> {
    let mut asked = BTreeSet::new();
    for parent in &family.members {
        for spawn in &parent.children {
            prop_assert!(asked.insert(spawn.child), "two children have one id");
        }
    }
    for member in &family.members {
        if member.condemned {
            prop_assert_eq!(member.lifecycle(), Lifecycle::Cancelled, "{} outlived its parent", member.path);
        }
        if let Some(parent) = member.run.parent() {
            prop_assert!(asked.contains(&member.key().id), "nobody asked for {}", member.path);
            prop_assert_eq!(parent.root, Some(family.members[0].key().id));
        }
    }
    Ok(())
}

/// Folds a journal from its start, and from a snapshot taken on the way.
fn folds_again(member: &Member, at: usize) -> Result<(), TestCaseError> {
    let graph = member.run.graph().clone();
    let mut folded = Run::empty(member.key(), member.salt, graph.clone());
    let mut effects = Vec::new();
    let mut woken: Option<Run> = None;
    for (sequence, record) in member.journal.iter().enumerate() {
        let corrupt = |corrupt: abide_core::Corrupt| TestCaseError::fail(corrupt.to_string());
        let implied = folded.apply(record).map_err(corrupt)?;
        if let Some(woken) = &mut woken {
            prop_assert_eq!(&woken.apply(record).map_err(corrupt)?, &implied);
        }
        effects.extend(implied);
        if sequence == at {
            let bytes = folded.snapshot();
            woken = Run::from_snapshot(member.key(), member.salt, graph.clone(), &bytes);
            prop_assert!(woken.as_ref().is_some_and(|woken| woken.snapshot() == bytes));
        }
    }
    prop_assert_eq!(&effects, &member.effects);
    prop_assert!(folded.snapshot() == member.run.snapshot());
    prop_assert!(woken.is_some_and(|woken| woken.snapshot() == folded.snapshot()));
    Ok(())
}

/// Every event of a family, with the runs called by their places instead of their ids. An artifact's id holds a hash
/// of its run's, so artifacts are told by the order in which they were made.
fn told(family: &Family<'_>) -> Vec<String> {
    let (mut lines, mut made) = (Vec::new(), Vec::new());
    for member in &family.members {
        for record in &member.journal {
            let payload = String::from_utf8(record.event().expect("it can be read").encode());
            let line =
                format!("{} {} {:?} {}", member.path, name(record), record.node, payload.expect("JSON"));
            let line = match record.event() {
                Ok(Event::Node { event: NodeEvent::ArtifactCreated(created), .. }) => {
                    let id = created.artifact_id;
                    let place = made.iter().position(|other| *other == id).unwrap_or_else(|| {
                        made.push(id.clone());
                        made.len() - 1
                    });
                    line.replace(&id, &format!("artifact {place}"))
                }
                _ => line,
            };
            lines.push(placed(family, line));
        }
    }
    lines
}

/// A text in which runs are called by their places.
fn placed(family: &Family<'_>, mut text: String) -> String {
    for parent in &family.members {
        for spawn in &parent.children {
            let place = format!("{}/{}", parent.path, spawn.parent.node);
            text = text.replace(&spawn.child.to_string(), &place);
        }
    }
    text.replace(&family.members[0].key().id.to_string(), "root")
}

/// How the runs ended whose end no failure brought forward, by their places.
fn outcomes(family: &Family<'_>) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for member in &family.members {
        let above = |other: &Member| member.path.starts_with(&format!("{}/", other.path));
        let ended_early = |other: &Member| above(other) && other.lifecycle() != Lifecycle::Completed;
        let hurried = family.members.iter().any(ended_early);
        if hurried {
            continue;
        }
        let mut line = format!("{:?}", member.lifecycle());
        if member.lifecycle() == Lifecycle::Completed {
            let nodes: Vec<_> = member
                .run
                .nodes()
                .iter()
                .map(|node| (node.phase, node.execution, &node.outputs, node.error.as_ref().map(|e| &e.code)))
                .collect();
            let (variables, channels) = (member.run.variables(), member.run.channels());
            line = format!("{line} {variables:?} {channels:?} {nodes:?}");
        }
        found.insert(member.path.clone(), placed(family, line));
    }
    found
}

/// What these graphs never do: nodes that ask are played in `random_interrupts.rs`, their ladders in `random_ladders.rs`,
/// workers in `tasks.rs`, turns in `turns/random.rs`, runs that wait for runs and groups of them in `bonds/random.rs`,
/// plans in `planning/`.
const BEYOND: &[&str] = &[
    "intent.patched",
    "intent.assigned",
    "intent.unassigned",
    "intent.leased",
    "intent.lease_renewed",
    "intent.lease_released",
    "intent.policy_set",
    "intent.access_set",
    "intent.sent",
    "interrupt.amended",
    "replay.diverged",
    "run.held",
    "run.released",
    "conversation.opened",
    "conversation.exchanged",
    "conversation.closed",
    "agent.decided",
    "core.workflowChain.confidence-escalated",
    "runOrchestrator.decided",
    "resume.switched",
    "clarification.requested",
    "node.suspended",
    "clarification.resolved",
    "node.resumed",
    "interrupt.renotified",
    "interrupt.escalated",
    "interrupt.expired",
    "notice.refused",
    "step.begun",
    "step.recorded",
    "sleep.started",
    "sleep.ended",
    "version.recorded",
    "node.parked",
    "task.lost",
    "node.noted",
    "engagement.decision",
    "turn.began",
    "model.called",
    "ai.message.chunk",
    "model.answered",
    "provider.usage",
    "provider-retry",
    "provider.postponed",
    "tool.answered",
    "turn.sealed",
    "approval.voted",
    "approval.asked",
    "approval.replied",
    "node.refined",
    "run.activated",
    "run.blocked",
    "run.unblocked",
    "dependency.added",
    "dependency.removed",
    "dependency.reported",
    "run.watched",
    "portfolio.member_added",
    "portfolio.member_removed",
    "portfolio.member_reported",
    "portfolio.member_suspended",
    "portfolio.member_resumed",
    "portfolio.governance_set",
    "portfolio.budget_exceeded",
    "coordinator.registered",
    "coordinator.heartbeat",
    "coordinator.policy_set",
    "coordinator.paused",
    "coordinator.resumed",
    "coordinator.unresponsive",
    "coordinator.failed_over",
    "coordinator.replaced",
    "coordinator.completed",
    "coordinator.escalation_required",
    "coordinator.dependents_blocked",
    "coordinator.dependents_unblocked",
    "run.ordered",
    "child.added",
    "node.claimed",
    "node.released",
    "claim.deferred",
    "phase.blocked",
    "phase.unblocked",
    "task.created",
    "task.ready",
    "task.claimed",
    "task.started",
    "task.progress",
    "task.completed",
    "task.failed",
    "task.retrying",
    "task.blocked",
    "task.unblocked",
    "task.released",
    "task.cancelled",
    "task.skipped",
    "plan.created",
    "plan.activated",
    "plan.paused",
    "plan.resumed",
    "plan.completed",
    "plan.failed",
    "plan.cancelled",
    "plan.checkpoint_reached",
    "plan.checkpoint_approved",
    "plan.checkpoint_rejected",
];

/// Whether the cases reach what they are meant to reach.
#[test]
fn the_cases_cover_the_ground() {
    let mut runner = TestRunner::deterministic();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..400 {
        let (plan, moves) = (plans(), moves()).new_tree(&mut runner).expect("a tape is drawn").current();
        let family = Family::play(&plan, &moves, 1);
        let mut see = |what: String| *seen.entry(what).or_default() += 1;
        family.tried.iter().filter(|(_, times)| **times > 0).for_each(|(what, _)| see((*what).to_owned()));
        for member in &family.members {
            see(format!("{:?}", member.lifecycle()));
            member.journal.iter().for_each(|record| see(name(record).to_owned()));
            let draft = &plan.drafts[member.draft];
            draft.edges.iter().for_each(|edge| see(edge.rule.to_owned()));
            draft.nodes.iter().for_each(|node| see(node.kind.to_owned()));
            if let Some(error) = member.run.error() {
                see(error.code.clone());
            }
        }
    }
    let expected = event_types().iter().map(|kind| kind.name).filter(|name| !BEYOND.contains(name));
    let others = [
        "pause",
        "resume",
        "cancel",
        "message again",
        "report again",
        "fire early",
        "fire again",
        "mistake",
        "planned",
        "recursion_limit_exceeded",
        "run_timeout",
        "loop_limit_exceeded",
        "expression_failed",
        "child_failed",
        "input_missing",
        "capability_not_provided",
        "http_status",
        "Completed",
        "Failed",
        "Cancelled",
    ];
    let missing: Vec<&str> =
        expected.chain(plan::RULES).chain(others).filter(|what| !seen.contains_key(*what)).collect();
    assert!(missing.is_empty(), "never reached: {missing:?}; reached: {seen:#?}");
}
