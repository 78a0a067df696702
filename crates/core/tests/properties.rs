//! What holds for every run, whatever is asked of it and whenever.

#[path = "domain/tale.rs"]
mod tale;
#[expect(dead_code, reason = "plans use a part of the vocabulary")]
#[path = "domain/workflow.rs"]
mod workflow;

use std::collections::{HashMap, HashSet};

use abide_core::{
    Cancellation, Command, Drain, Event, Failure, Head, Hold, JsonMap, Lifecycle, NodeEvent, NodePhase,
    Notice, Payload, Product, Record, Rejection, Report, Run, RunEvent, RunId, Status, TaskId, TimerId,
    limits,
};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestCaseResult;
use tale::{SALT, Tale, Turn, key, plans};

/// Failing cases are printed in full and shrunk, so nothing is written to disk.
fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn folding_the_journal_gives_the_live_run_and_its_effects(plan in plans()) {
        let tale = plan.play_out();
        let mut folded = tale.empty_run();
        for turn in &tale.turns {
            if let Ok(step) = &turn.outcome {
                let mut effects = Vec::new();
                for record in &step.records {
                    let implied = folded.apply(record);
                    effects.extend(implied.map_err(|corrupt| TestCaseError::fail(corrupt.to_string()))?);
                }
                prop_assert_eq!(&effects, &step.effects);
            }
            same(&folded, &turn.after)?;
        }
    }

    #[test]
    fn a_rejected_command_changes_nothing(plan in plans()) {
        for turn in plan.play_to_the_end().turns.iter().filter(|turn| turn.outcome.is_err()) {
            same(&turn.before, &turn.after)?;
        }
    }

    #[test]
    fn an_accepted_command_leaves_a_record_at_its_own_time(plan in plans()) {
        for turn in &plan.play_to_the_end().turns {
            let Ok(step) = &turn.outcome else { continue };
            prop_assert!(!step.records.is_empty(), "{:?} was accepted without a trace", turn.command);
            let now = turn.now.max(turn.before.head().at);
            prop_assert!(step.records.iter().all(|record| record.at == now), "one decision, one time");
        }
    }

    #[test]
    fn a_journal_is_dense_and_its_time_never_goes_back(plan in plans()) {
        let journal = plan.play_to_the_end().journal();
        for (sequence, record) in (0..).zip(&journal) {
            prop_assert_eq!(record.sequence, sequence);
            prop_assert!(record.cause.is_none_or(|cause| cause < sequence), "an effect before its cause");
        }
        prop_assert!(journal.is_sorted_by_key(|record| record.at));
    }

    #[test]
    fn the_one_terminal_event_is_the_last(plan in plans()) {
        let tale = plan.play_to_the_end();
        let journal = tale.journal();
        let ends = (0..journal.len()).filter(|&at| is_terminal(&journal[at]));
        prop_assert_eq!(ends.collect::<Vec<_>>(), [journal.len() - 1]);
        let run = tale.last();
        prop_assert!(run.lifecycle().is_terminal());
        prop_assert_eq!(run.ended_at(), journal.last().map(|record| record.at));
        for command in every_command() {
            let mut asked = run.clone();
            let outcome = asked.decide(command, i64::MAX);
            prop_assert_eq!(outcome, Err(Rejection::Ended(run.lifecycle())));
            same(&asked, run)?;
        }
    }

    #[test]
    fn a_run_whose_timers_fire_and_whose_tasks_report_ends_unless_it_is_paused(plan in plans()) {
        let obliged = plan.play_out();
        let run = obliged.last();
        prop_assert!(run.lifecycle().is_terminal() || run.hold() == Hold::Paused, "the run hangs");
        prop_assert!(plan.play_to_the_end().last().lifecycle().is_terminal(), "the run hangs once resumed");
    }

    #[test]
    fn the_end_says_what_happened(plan in plans()) {
        let tale = plan.play_to_the_end();
        let run = tale.last();
        let cancelled = tale.turns.iter().any(|turn| {
            turn.outcome.is_ok() && matches!(turn.command, Some(Command::Cancel(_)))
        });
        let failure = first_failure(&tale);
        match run.lifecycle() {
            Lifecycle::Completed => {
                prop_assert!(run.nodes().iter().all(|node| node.phase == NodePhase::Completed));
                prop_assert!(!cancelled && failure.is_none());
            }
            Lifecycle::Failed => prop_assert_eq!(run.error(), failure.as_ref()),
            _ => prop_assert!(cancelled),
        }
        let ended_so = run.lifecycle() == Lifecycle::Cancelled;
        prop_assert_eq!(cancelled, ended_so, "an accepted cancellation is final");
    }

    #[test]
    fn a_node_starts_once_and_after_all_that_lead_to_it(plan in plans()) {
        let tale = plan.play_to_the_end();
        let mut started = HashSet::new();
        let mut completed = HashMap::new();
        for record in tale.journal() {
            let Some(node) = record.node.clone() else { continue };
            match record.event().map_err(TestCaseError::fail)? {
                Event::Node { event: NodeEvent::Started(_), .. } => {
                    prop_assert!(started.insert(node.clone()), "{node} started twice");
                    let before: Vec<&str> = tale.before(&node).collect();
                    prop_assert!(before.iter().all(|from| completed.contains_key(*from)), "{node} started early");
                    let last = before.iter().filter_map(|from| completed.get(*from)).max();
                    prop_assert_eq!(record.cause, Some(last.copied().unwrap_or(0)), "what made it ready");
                }
                Event::Node { event: NodeEvent::Completed(_), .. } => {
                    completed.insert(node.to_string(), record.sequence);
                }
                _ => {}
            }
        }
    }

    #[test]
    fn nothing_starts_while_the_run_is_held_or_ending(plan in plans()) {
        for turn in &plan.play_to_the_end().turns {
            let Ok(step) = &turn.outcome else { continue };
            let starts = step.records.iter().filter(|record| is_start(record)).count();
            prop_assert!(starts <= limits::STRETCH_NODES_MAX);
            let lifted = matches!(turn.command, Some(Command::Resume { .. }));
            let held = turn.before.hold() != Hold::None && !lifted;
            let failing = turn.before.nodes().iter().any(|node| node.phase == NodePhase::Failed);
            if held || failing || turn.before.lifecycle() == Lifecycle::Cancelling {
                prop_assert_eq!(starts, 0);
            }
        }
    }

    #[test]
    fn a_pause_that_waits_takes_effect_when_the_last_outcome_is_known(plan in plans()) {
        for turn in &plan.play_to_the_end().turns {
            let run = &turn.after;
            if run.hold() == Hold::Pausing {
                prop_assert!(run.tasks().next().is_some(), "it waits for nothing");
                prop_assert_eq!(run.status(), Status::Running, "nobody sees a pause that is not there yet");
            }
            let asked = matches!(turn.command, Some(Command::Pause { .. }));
            if turn.before.hold() == Hold::Pausing && run.hold() == Hold::Paused && !asked {
                prop_assert!(run.tasks().next().is_none(), "it did not wait");
            }
            prop_assert!(run.hold() == Hold::None || !run.lifecycle().is_terminal(), "an ended run is held");
            prop_assert_eq!(run.paused_at().is_some(), run.hold() != Hold::None);
        }
    }

    #[test]
    fn effects_add_up_to_the_timers_and_tasks_of_the_run(plan in plans()) {
        let tale = plan.play_to_the_end();
        for turn in &tale.turns {
            prop_assert_eq!(&turn.kept.timers, turn.after.timers());
            prop_assert_eq!(&turn.kept.tasks, &turn.after.tasks().collect::<HashSet<_>>());
            prop_assert_eq!(&turn.kept.misfits, &[]);
            let waits = turn.kept.tasks.is_empty() && !turn.after.lifecycle().is_terminal();
            prop_assert_eq!(turn.after.is_parked(), waits);
        }
        let kept = &tale.turns.last().expect("a tale has a start").kept;
        prop_assert!(kept.timers.is_empty() && kept.tasks.is_empty(), "an ended run leaves something behind");
        let told = kept.sent.iter().map(|notice| (notice.sequence, notice.lifecycle));
        let run = tale.last();
        let news = run.parent().map(|_| (run.head().next - 1, run.lifecycle()));
        prop_assert!(told.eq(news), "the parent hears of the end, once: {:?}", kept.sent);
    }

    #[test]
    fn a_run_goes_on_from_a_snapshot_as_if_it_had_never_left(plan in plans(), at in any::<Index>()) {
        let tale = plan.play_to_the_end();
        let from = at.index(tale.turns.len());
        let here = &tale.turns[from].after;
        let woken = Run::from_snapshot(key(), SALT, tale.graph.clone(), &here.snapshot());
        let mut woken = woken.expect("this version reads what it wrote");
        same(&woken, here)?;
        prop_assert_eq!(format!("{woken:?}"), format!("{here:?}"), "nothing is left out of a snapshot");
        for turn in &tale.turns[from + 1..] {
            let command = turn.command.clone().expect("only the first turn is the start");
            prop_assert_eq!(&woken.decide(command, turn.now), &turn.outcome);
            same(&woken, &turn.after)?;
        }
    }

    #[test]
    fn a_timer_is_never_early_and_never_twice(plan in plans()) {
        let mut fired = HashSet::new();
        for turn in &plan.play_to_the_end().turns {
            for (timer, &due) in turn.after.timers() {
                fires_once_when_due(&turn.after, timer, due)?;
            }
            if let (Some(Command::Fire(timer)), true) = (&turn.command, turn.outcome.is_ok()) {
                prop_assert!(was_due(turn, timer), "{timer} fired early");
                let again = *timer != TimerId::Stretch && !fired.insert(timer.clone());
                prop_assert!(!again, "{timer} fired twice");
            }
        }
    }

    #[test]
    fn any_damage_to_a_record_is_found_there(plan in plans(), place in any::<Index>(), bit in 0..8u32) {
        let tale = plan.play_to_the_end();
        let mut sound = tale.empty_run();
        // A crowd's journal holds hundreds of records alike; the first ones say as much.
        for record in tale.journal().iter().take(60) {
            for damaged in damages(record, place, bit) {
                let found = sound.clone().apply(&damaged);
                prop_assert!(found.is_err_and(|corrupt| corrupt.sequence == damaged.sequence), "{damaged:?}");
            }
            prop_assert!(sound.apply(record).is_ok(), "and the record itself is sound");
        }
    }

    #[test]
    fn a_journal_belongs_to_one_run_and_one_secret(plan in plans(), bit in 0..128u32) {
        let tale = plan.play();
        let first = &tale.journal()[0];
        let mut id = *key().id.as_bytes();
        id[bit as usize / 8] ^= 1 << (bit % 8);
        let other_run = RunId::from_bytes(id).of(key().tenant);
        let other_tenant = key().id.of(abide_core::TenantId(key().tenant.0 ^ (1 << (bit % 32))));
        let mut other_salt = SALT;
        other_salt[bit as usize / 8] ^= 1 << (bit % 8);
        for (key, salt) in [(other_run, SALT), (other_tenant, SALT), (key(), other_salt)] {
            prop_assert!(Run::empty(key, salt, tale.graph.clone()).apply(first).is_err());
        }
    }

    #[test]
    fn a_journal_without_one_of_its_records_does_not_verify(plan in plans(), gap in any::<Index>()) {
        let mut journal = plan.play_to_the_end().journal();
        let gap = gap.index(journal.len() - 1);
        journal.remove(gap);
        prop_assert_eq!(verify(&journal, |_| Some(&SALT)), Err(gap));
        for (sequence, record) in (0..).zip(&mut journal) {
            record.sequence = sequence;
        }
        prop_assert_eq!(verify(&journal, |_| Some(&SALT)), Err(gap), "nor when the rest is renumbered");
    }

    #[test]
    fn an_erased_payload_leaves_the_chain_verifiable(plan in plans(), erase in any::<u64>()) {
        let tale = plan.play_to_the_end();
        let mut journal = tale.journal();
        let is_erased = |record: &Record| erase >> (record.sequence % 64) & 1 == 1;
        for record in journal.iter_mut().filter(|record| is_erased(record)) {
            erase_payload(record);
        }
        prop_assert_eq!(verify(&journal, |record| (!is_erased(record)).then_some(&SALT)), Ok(()));
        let secret_needed = journal.iter().position(|record| !is_erased(record));
        prop_assert_eq!(verify(&journal, |_| None), secret_needed.map_or(Ok(()), Err));
        let mut folded = tale.empty_run();
        let unfolded = journal.iter().position(|record| folded.apply(record).is_err());
        prop_assert_eq!(unfolded, journal.iter().position(is_erased), "what is erased no longer folds");
    }

    #[test]
    fn what_is_left_of_an_erased_payload_is_protected_too(
        plan in plans(),
        place in any::<Index>(),
        bit in 0..8u32,
    ) {
        let mut journal = plan.play_to_the_end().journal();
        journal.iter_mut().for_each(erase_payload);
        prop_assert_eq!(verify(&journal, |_| None), Ok(()));
        let at = place.index(journal.len());
        let Payload::Erased(digest) = &mut journal[at].payload else { unreachable!("all are erased") };
        digest[place.index(32)] ^= 1 << bit;
        prop_assert_eq!(verify(&journal, |_| None), Err(at));
    }

    #[test]
    fn events_survive_a_round_trip_through_their_bytes(plan in plans()) {
        for record in plan.play_to_the_end().journal() {
            let event = record.event().map_err(TestCaseError::fail)?;
            prop_assert_eq!(&Payload::Present(event.encode().into()), &record.payload);
            prop_assert_eq!(event.event_type().code, record.type_code);
            prop_assert_eq!(event.node(), record.node.as_ref());
        }
    }
}

/// Two runs that can't be told apart by what they keep or by what they do next.
fn same(one: &Run, other: &Run) -> TestCaseResult {
    prop_assert_eq!(one.head(), other.head());
    prop_assert!(one.snapshot() == other.snapshot(), "{one:#?}\nis not\n{other:#?}");
    Ok(())
}

fn is_terminal(record: &Record) -> bool {
    use RunEvent::{Cancelled, Completed, Failed};
    matches!(record.event(), Ok(Event::Run(Completed(_) | Failed(_) | Cancelled(_))))
}

fn is_start(record: &Record) -> bool {
    let started = |event| matches!(event, NodeEvent::Started(_));
    matches!(record.event(), Ok(Event::Node { event, .. }) if started(event.clone()))
}

fn first_failure(tale: &Tale) -> Option<Failure> {
    tale.journal().iter().find_map(|record| match record.event() {
        Ok(Event::Node { event: NodeEvent::Failed(failed), .. }) => Some(failed.error),
        _ => None,
    })
}

fn every_command() -> Vec<Command> {
    let (reason, by) = (None, None);
    let node: std::sync::Arc<str> = "n0".into();
    let task = TaskId { node: node.clone(), execution: 1 };
    let from = RunId::from_bytes([2; 16]);
    let notice = Notice {
        from,
        sequence: u64::MAX,
        node: "n0".to_owned(),
        lifecycle: Lifecycle::Running,
        execution: 0,
        outputs: JsonMap::new(),
        sensitive: Vec::new(),
        error: None,
        still: false,
        status: None,
        suspended: None,
        claimed: false,
    };
    let error = Failure::new("workflow_not_found", "there is no such workflow");
    vec![
        Command::Cancel(Cancellation {
            reason: None,
            cancelled_by: None,
            parent_run_id: None,
            abandonment_reason: None,
        }),
        Command::Pause { reason, by: by.clone(), drain: Drain::CurrentNode },
        Command::Resume { reason: None, by },
        Command::Fire(TimerId::Stretch),
        Command::Fire(TimerId::Delay { node, execution: 1 }),
        Command::Fire(TimerId::RunTimeout),
        Command::Report(Report { task, outcome: Ok(Product::default()) }),
        Command::Hear { notice, heard: None },
        Command::RefuseChild { child: from, node: "n0".to_owned(), error },
    ]
}

fn was_due(turn: &Turn, timer: &TimerId) -> bool {
    let now = turn.now.max(turn.before.head().at);
    turn.before.timers().get(timer).is_some_and(|due| *due <= now)
}

fn fires_once_when_due(run: &Run, timer: &TimerId, due: i64) -> TestCaseResult {
    let mut trial = run.clone();
    if due > run.head().at {
        prop_assert_eq!(trial.decide(Command::Fire(timer.clone()), due - 1), Err(Rejection::NotDue { due }));
        same(&trial, run)?;
    }
    prop_assert!(trial.decide(Command::Fire(timer.clone()), due).is_ok());
    if *timer != TimerId::Stretch {
        prop_assert!(trial.decide(Command::Fire(timer.clone()), i64::MAX).is_err(), "{timer} fires twice");
    }
    Ok(())
}

/// The record with one bit flipped, once for each of its parts.
fn damages(record: &Record, place: Index, bit: u32) -> Vec<Record> {
    let mut damaged: Vec<Record> = Vec::new();
    let mut damage = |change: &dyn Fn(&mut Record)| {
        let mut copy = record.clone();
        change(&mut copy);
        damaged.push(copy);
    };
    let wide = place.index(7) as u32 * 8 + bit;
    damage(&|record| record.sequence ^= 1 << wide);
    damage(&|record| record.at ^= 1 << wide);
    damage(&|record| record.type_code ^= 1 << (wide % 16));
    damage(&|record| record.version ^= 1 << (wide % 16));
    damage(&|record| record.cause = Some(record.cause.unwrap_or(0) ^ (1 << wide)));
    damage(&|record| record.cause = record.cause.map_or(Some(u64::MAX), |_| None));
    damage(&|record| record.chain[place.index(32)] ^= 1 << bit);
    damage(&|record| record.payload = flipped(&record.payload, place, bit));
    damage(&|record| record.node = renamed(record.node.as_deref(), place));
    damaged
}

fn flipped(payload: &Payload, place: Index, bit: u32) -> Payload {
    let Payload::Present(bytes) = payload else { unreachable!("nothing is erased here") };
    let mut bytes = bytes.to_vec();
    let at = place.index(bytes.len());
    bytes[at] ^= 1 << bit;
    Payload::Present(bytes.into())
}

/// Another node's name: one letter differs, or there is a name where none was.
fn renamed(node: Option<&str>, place: Index) -> Option<std::sync::Arc<str>> {
    let Some(node) = node else {
        return Some("n0".into());
    };
    let mut letters = node.as_bytes().to_vec();
    let at = place.index(letters.len());
    letters[at] ^= 1;
    Some(String::from_utf8(letters).expect("the names are ASCII").into())
}

fn erase_payload(record: &mut Record) {
    let digest = record.digest(Some(&SALT)).expect("the salt is there");
    record.payload = Payload::Erased(digest);
}

/// Checks the chain alone, with the secret where there is one; the error is the first record that fails.
fn verify<'a>(
    journal: &[Record],
    salt: impl Fn(&Record) -> Option<&'a abide_core::Salt>,
) -> Result<(), usize> {
    let mut head = Head::new(key());
    for (at, record) in journal.iter().enumerate() {
        head.accept(record, salt(record)).map_err(|_| at)?;
    }
    Ok(())
}
