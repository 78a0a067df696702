//! What is left to be done of all that a history brought about: what has ended since needs nothing any more.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Effect, InterruptId, OpenInterrupt, Run, TaskId};

/// The effects that are still due once all of them have come, given how the run stands then.
pub(super) fn net(run: &Run, effects: Vec<Effect>) -> Vec<Effect> {
    let tasks: BTreeSet<TaskId> = run.tasks().collect();
    let offers: BTreeSet<TaskId> = run.offers().map(|offer| offer.task).collect();
    let (mut dispatched, mut offered, mut waits) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let (mut notices, mut hooks) = (BTreeMap::<InterruptId, Effect>::new(), BTreeMap::new());
    let (mut left, mut called_off) = (Vec::new(), Vec::new());
    for effect in effects {
        match effect {
            Effect::Dispatch { ref task, .. } => drop(dispatched.insert(task.clone(), effect)),
            Effect::Offer(ref offer) => drop(offered.insert(offer.task.clone(), effect)),
            Effect::CallOff(ref task) if offers.contains(task) => called_off.push(effect),
            Effect::AwaitProvider(ref wait) => drop(waits.insert(wait.task.clone(), effect)),
            Effect::LeaveProvider(task) => drop(waits.remove(&task)),
            Effect::OpenInterrupt(ref open) if run.interrupt(open.id).is_some() => left.push(effect),
            Effect::MoveDeadline { id, deadline } => amend(&mut left, id, |open| open.deadline = deadline),
            Effect::NoteHeadway { id, headway } => amend(&mut left, id, |open| open.headway = headway),
            Effect::Notify(ref notify) if run.interrupt(notify.id).is_some() => {
                notices.insert(notify.id, effect);
            }
            Effect::Hook(ref hook) if run.interrupt(hook.id).is_some() => drop(hooks.insert(hook.id, effect)),
            Effect::Spawn(_) | Effect::Hear { .. } | Effect::TakeName(_) => left.push(effect),
            // What is armed is told from the run, and what is over has nobody to hear of it.
            _ => {}
        }
    }
    let armed = run.timers().iter().map(|(timer, due)| Effect::ArmTimer { timer: timer.clone(), due: *due });
    let dispatched =
        dispatched.into_iter().filter(|(task, _)| tasks.contains(task)).map(|(_, effect)| effect);
    let offered = offered.into_iter().filter(|(task, _)| offers.contains(task)).map(|(_, effect)| effect);
    left.extend(armed.chain(dispatched).chain(offered));
    left.extend(waits.into_values().chain(notices.into_values()).chain(hooks.into_values()));
    left.extend(called_off);
    left
}

/// What is still asked stands in the list as it came to stand there.
fn amend(left: &mut [Effect], id: InterruptId, change: impl Fn(&mut OpenInterrupt)) {
    for effect in left {
        if let Effect::OpenInterrupt(open) = effect
            && open.id == id
        {
            change(open);
        }
    }
}
