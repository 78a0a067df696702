//! What is asked of a run about others, and what others tell it.

use std::collections::BTreeSet;

use crate::command::Draft;
use crate::effect::{MemberRow, Order};
use crate::event::{
    DependencyAdded, DependencyRemoved, DependsOn, RunActivated, RunEvent, RunOrdered, RunWatched,
};
use crate::{Driver, Rejection, Run, RunId, Start, Status, Tidings, Watch, limits};

/// What may be asked of a run about others.
#[derive(Clone, Debug, PartialEq)]
pub enum BondCommand {
    /// A draft begins in earnest.
    Activate {
        /// Who says so.
        by: Option<String>,
    },
    /// It waits for another run, too. Whoever asks has made sure that this closes no circle.
    Depend {
        /// Which.
        on: DependsOn,
        /// Who says so.
        by: Option<String>,
        /// What they have seen of it, if they drive it as a whole.
        driver: Option<Driver>,
    },
    /// It does not wait for another run any more.
    Independ {
        /// Which.
        run: RunId,
        /// Who says so.
        by: Option<String>,
        /// What they have seen of it, if they drive it as a whole.
        driver: Option<Driver>,
    },
    /// Somebody wants to hear how it stands, or does not any more.
    Watch {
        /// What they say.
        watch: Watch,
        /// The highest sequence heard from them before.
        heard: Option<u64>,
    },
    /// A run that it waits for, or a member of it, tells how it stands.
    Hear {
        /// What it says.
        tidings: Tidings,
        /// What is known of it, if it is a member.
        known: Option<MemberRow>,
    },
    /// Whoever coordinates another run has this one held back, or not any more.
    Order {
        /// The run that is coordinated.
        from: RunId,
        /// What is to be done.
        order: Order,
        /// The sequence of that run.
        sequence: u64,
    },
}

pub(super) fn decide(run: &mut Run, draft: &mut Draft, command: BondCommand) -> Result<(), Rejection> {
    match command {
        BondCommand::Activate { by } => activate(run, draft, by),
        BondCommand::Depend { on, by, driver } => {
            run.check_driver(draft, driver.as_ref())?;
            depend(run, draft, on, by)
        }
        BondCommand::Independ { run: on, by, driver } => {
            run.check_driver(draft, driver.as_ref())?;
            independ(run, draft, on, by)
        }
        BondCommand::Watch { watch, heard } => watched(run, draft, &watch, heard),
        BondCommand::Hear { tidings, known } => hear(run, draft, &tidings, known.as_ref()),
        BondCommand::Order { from, order, sequence } => ordered(run, draft, from, order, sequence),
    }
}

fn activate(run: &mut Run, draft: &mut Draft, by: Option<String>) -> Result<(), Rejection> {
    run.check_running()?;
    if !run.is_draft() {
        return Err(Rejection::NotDraft);
    }
    draft.emit_run(run, RunEvent::Activated(RunActivated { by }), None);
    run.settle_blocked(draft);
    run.advance(draft);
    Ok(())
}

fn depend(run: &mut Run, draft: &mut Draft, on: DependsOn, by: Option<String>) -> Result<(), Rejection> {
    run.check_running()?;
    check_dependency(run.key().id, on.run)?;
    if run.group().is_some() {
        return Err(Rejection::invalid("runId", "a group waits for nobody; name one of its members"));
    }
    if run.upstreams().contains_key(&on.run) {
        return Err(Rejection::invalid("dependsOn", format!("the run waits for {} already", on.run)));
    }
    if run.upstreams().len() >= limits::DEPENDENCIES_MAX {
        return Err(too_many());
    }
    draft.emit_run(run, RunEvent::DependencyAdded(DependencyAdded { dependency: on, by }), None);
    run.settle_blocked(draft);
    Ok(())
}

fn independ(run: &mut Run, draft: &mut Draft, on: RunId, by: Option<String>) -> Result<(), Rejection> {
    run.check_running()?;
    let upstream = run.upstreams().get(&on).ok_or(Rejection::NoDependency)?;
    if let Some(name) = &upstream.name
        && let Some(input) = run.input_wired_to(name)
    {
        let message =
            format!("its input '{input}' comes from '{name}', so it can't do without; cancel it instead");
        return Err(Rejection::invalid("upstreamId", message));
    }
    draft.emit_run(run, RunEvent::DependencyRemoved(DependencyRemoved { run: on, by }), None);
    run.settle_blocked(draft);
    run.set_free(draft);
    Ok(())
}

fn watched(run: &mut Run, draft: &mut Draft, watch: &Watch, heard: Option<u64>) -> Result<(), Rejection> {
    run.check_open()?;
    if heard.is_some_and(|heard| heard >= watch.sequence) {
        return Err(Rejection::HeardBefore);
    }
    let Watch { from, sequence, watching, at, deadline } = *watch;
    run.end_before_deadline(draft);
    // What is said after a deadline does not undo it, however late its timer is. What was said before it does, however
    // late it is heard.
    let overdue = run.is_overdue(at.unwrap_or(draft.now));
    draft.emit_run(run, RunEvent::Watched(RunWatched { by: from, sequence, watching, deadline }), None);
    if overdue {
        run.abandon(draft);
    // Nobody is waited for after the deadline, also if that has passed already.
    } else if !run.meet_deadline(draft) && draft.step.records.len() > 1 {
        run.advance(draft);
    }
    Ok(())
}

fn hear(
    run: &mut Run,
    draft: &mut Draft,
    tidings: &Tidings,
    known: Option<&MemberRow>,
) -> Result<(), Rejection> {
    run.check_open()?;
    if run.group().is_some() {
        return run.hear_member(draft, tidings, known);
    }
    let upstream = run.upstreams().get(&tidings.from).ok_or(Rejection::HeardBefore)?;
    // A run that has completed stays completed, whatever is told late: one that was removed since is not there any more,
    // and nobody who asks learns more than that.
    let undone = upstream.is_completed() && tidings.status != Status::Completed;
    if undone || upstream.sequence.is_some_and(|heard| heard >= tidings.sequence) {
        return Err(Rejection::HeardBefore);
    }
    run.note_upstream(draft, tidings);
    run.settle_blocked(draft);
    run.set_free(draft);
    Ok(())
}

/// An order that is older than the last one says nothing any more, so that order and repeats don't matter.
fn ordered(
    run: &mut Run,
    draft: &mut Draft,
    by: RunId,
    order: Order,
    sequence: u64,
) -> Result<(), Rejection> {
    run.check_running()?;
    if run.ordered_at(by).is_some_and(|heard| heard >= sequence) {
        return Err(Rejection::HeardBefore);
    }
    draft.emit_run(run, RunEvent::Ordered(RunOrdered { by, sequence, order }), None);
    run.set_free(draft);
    Ok(())
}

/// Refuses dependencies of a new run that make no sense.
pub(crate) fn check_dependencies(start: &Start) -> Result<(), Rejection> {
    let mut seen = BTreeSet::new();
    if start.depends_on.len() > limits::DEPENDENCIES_MAX {
        return Err(too_many());
    }
    for on in &start.depends_on {
        check_dependency(start.key.id, on.run)?;
        if !seen.insert(on.run) {
            return Err(Rejection::invalid(
                "dependsOn",
                format!("{} stands there twice; remove one", on.run),
            ));
        }
    }
    Ok(())
}

fn check_dependency(run: RunId, on: RunId) -> Result<(), Rejection> {
    if run == on {
        return Err(Rejection::invalid("dependsOn", "a run can't wait for itself"));
    }
    Ok(())
}

fn too_many() -> Rejection {
    let message = format!("a run waits for at most {} others", limits::DEPENDENCIES_MAX);
    Rejection::invalid("dependsOn", message)
}
