//! How a run is shown that waits for a child which waits for an answer: as waiting, like the child. Nothing of it is kept.

use abide_core::{Key, NodePhase, Run, RunId, Status};
use abide_engine::Error as EngineError;

use crate::app::App;
use crate::error::Result;
use crate::limits;

/// What a run waits for through its children: the most urgent. `None` if it waits for no answer through them, or if what
/// it waits for itself is as urgent.
///
/// `may_have_children` spares the look at a run that is known to have none.
pub(crate) async fn of(app: &App, key: Key, may_have_children: bool) -> Result<Option<Status>> {
    if !may_have_children {
        return Ok(None);
    }
    let own = match app.engine().read(key, |run| (run.status(), awaited(run))).await {
        Err(EngineError::Erased(_)) => return Ok(None),
        seen => seen?,
    };
    let (status, mut below) = own;
    if status != Status::Running && !status.is_waiting() {
        return Ok(None);
    }
    let mut most: Option<Status> = None;
    let mut looks = limits::MIRRORED_RUNS_MAX;
    while let Some(child) = below.pop() {
        if looks == 0 || most == Some(Status::WaitingApproval) {
            break;
        }
        looks -= 1;
        let child = app.engine().read(child.of(key.tenant), |run| (run.status(), awaited(run))).await;
        // One that was asked for and has not started yet waits for nobody.
        let Ok((stands, next)) = child else { continue };
        if stands.is_waiting() {
            most = Some(most.map_or(stands, |most| more_urgent(most, stands)));
        }
        if stands.is_waiting() || stands == Status::Running {
            below.extend(next);
        }
    }
    Ok(most.filter(|most| status == Status::Running || more_urgent(*most, status) != status))
}

/// The children that a run's nodes wait for.
fn awaited(run: &Run) -> Vec<RunId> {
    let waiting = |node: &&abide_core::Node| node.phase == NodePhase::Waiting && node.until.is_none();
    run.nodes().iter().filter(waiting).filter_map(|node| node.child).collect()
}

/// A decision goes before an answer, and that before what happens elsewhere.
fn more_urgent(one: Status, other: Status) -> Status {
    let rank = |status: Status| match status {
        Status::WaitingApproval => 0,
        Status::WaitingInput => 1,
        _ => 2,
    };
    if rank(other) < rank(one) { other } else { one }
}
