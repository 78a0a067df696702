//! Conditions of plans: whether a task is to be done. They read the run as ports see it, and its tasks.

use std::collections::BTreeMap;

use super::post::Named;
use super::{ConditionSpec, Plan, Planning, Task, TaskId};
use crate::excerpt::excerpt;
use crate::expression::{Expression, Fuel, Scope};
use crate::scope::RunScope;
use crate::{Json, JsonMap, Rejection, Run, limits};

/// What tasks are called in a condition.
const TASKS: &str = "tasks";

/// Why the rest is not evaluated. Whoever resumes the plan has it evaluated with a full tank.
const SPENT: &str = "its conditions take more steps together than one decision may; resume the plan, and the rest is evaluated";

/// What a condition reads. Tasks are looked up once, and what that costs is paid for before.
struct PlanScope<'a> {
    run: &'a RunScope<'a>,
    tasks: BTreeMap<Option<&'a str>, Option<Json>>,
}

impl<'a> PlanScope<'a> {
    /// `None` if the fuel is gone.
    fn of(
        run: &'a RunScope<'a>,
        (planning, plan): (&Planning, &Plan),
        expression: &'a Expression,
        fuel: &mut Fuel,
    ) -> Option<Self> {
        let mut tasks = BTreeMap::new();
        for (_, field) in expression.reads().iter().filter(|(root, _)| root == TASKS) {
            fuel.elements(planning.tasks.len()).ok()?;
            let field = field.as_deref();
            let seen = field.map_or_else(|| Seen::All, |field| Seen::One(find(planning, plan, field)));
            fuel.build(seen.bytes(planning)).ok()?;
            tasks.insert(field, seen.view(planning));
        }
        Some(Self { run, tasks })
    }
}

impl Scope for PlanScope<'_> {
    fn get(&self, root: &str, field: Option<&str>) -> Option<Json> {
        if root == TASKS { self.tasks.get(&field)?.clone() } else { self.run.get(root, field) }
    }

    fn knows(&self, root: &str) -> bool {
        root == TASKS || self.run.knows(root)
    }
}

/// What is read of the tasks.
enum Seen<'a> {
    All,
    One(Option<&'a Task>),
}

impl Seen<'_> {
    fn bytes(&self, planning: &Planning) -> usize {
        match self {
            Self::All => planning.tasks.values().map(Task::told_bytes).sum(),
            Self::One(task) => task.map_or(0, Task::told_bytes),
        }
    }

    fn view(&self, planning: &Planning) -> Option<Json> {
        let all = || planning.tasks.values().map(|task| (task.id.to_string(), view(task)));
        match self {
            Self::All => Some(Json::of(&all().collect::<JsonMap>())),
            Self::One(task) => task.map(view),
        }
    }
}

/// A task by its id, or by its name: that of the plan before others, and none if several are called so.
fn find<'a>(planning: &'a Planning, plan: &Plan, text: &str) -> Option<&'a Task> {
    if let Some(found) = text.parse().ok().and_then(|id: TaskId| planning.tasks.get(&id)) {
        return Some(found);
    }
    let named = |task: &&Task| task.spec.name == text;
    let mut own = plan.tasks.iter().filter_map(|id| planning.tasks.get(id)).filter(named);
    if let Some(found) = own.next() {
        return Some(found).filter(|_| own.next().is_none());
    }
    let mut all = planning.tasks.values().filter(named);
    all.next().filter(|_| all.next().is_none())
}

fn view(task: &Task) -> Json {
    let mut view = JsonMap::from([("status".to_owned(), Json::of(task.status.name()))]);
    view.insert("output".to_owned(), task.output.clone().unwrap_or_else(|| Json::of(&())));
    view.insert("error".to_owned(), Json::of(&task.error));
    Json::of(&view)
}

/// Why it can't be told whether a task is to be done.
pub(super) struct Unmet {
    pub(super) reason: String,
    /// Nothing is wrong with the condition: the others have used up what all of them may cost.
    pub(super) spent: bool,
}

impl Unmet {
    fn of(reason: String) -> Self {
        Self { reason, spent: false }
    }

    /// The fuel is gone. A condition that had all of it is too costly by itself.
    fn costly(alone: bool, place: &str) -> Self {
        match alone {
            true => Self::of(format!("{place} takes more steps than one decision may; let it look at less")),
            false => Self { reason: SPENT.to_owned(), spent: true },
        }
    }
}

impl Run {
    /// Whether a task is to be done. The fuel is that of all conditions that are evaluated within one decision.
    pub(super) fn meets(
        &self,
        plan: &Plan,
        condition: &ConditionSpec,
        fuel: &mut Fuel,
    ) -> Result<bool, Unmet> {
        let alone = fuel.left() == limits::NODE_FUEL_MAX;
        let expression = Expression::parse(&condition.when).map_err(Unmet::of)?;
        let run = RunScope::port(self);
        let place = format!("the plan's condition for {}", condition.task);
        let of = (&self.state.planning, plan);
        let scope = PlanScope::of(&run, of, &expression, fuel);
        let scope = scope.ok_or_else(|| Unmet::costly(alone, &place))?;
        expression.holds_within(&scope, fuel).map_err(|fault| match fuel.left() {
            0 => Unmet::costly(alone, &place),
            _ => Unmet::of(run.told(fault, expression.reads(), false, &place).message),
        })
    }

    /// Refuses a condition that reads what will never be there: it would only be found out when the plan stops at it.
    pub(super) fn check_condition(&self, when: &str, named: &Named) -> Result<(), Rejection> {
        let wrong = |message| Rejection::invalid("conditions.when", message);
        let expression = Expression::parse(when).map_err(wrong)?;
        let scope = RunScope::port(self);
        for (root, field) in expression.reads() {
            match field {
                Some(field) if root == TASKS => self.check_task_read(field, named).map_err(wrong)?,
                _ if root == TASKS || scope.knows(root) => {}
                _ => {
                    let roots = "tasks, variables, channels, nodes, configurable and run";
                    return Err(wrong(format!(
                        "there is no '{}' here; a condition reads {roots}",
                        excerpt(root)
                    )));
                }
            }
        }
        Ok(())
    }

    fn check_task_read(&self, text: &str, named: &Named) -> Result<(), String> {
        let tasks = &self.state.planning.tasks;
        let others = || tasks.values().filter(|task| task.spec.name == text).count();
        let known = text.parse().is_ok_and(|id: TaskId| named.has(id) || tasks.contains_key(&id));
        let found = match named.called(text) {
            0 => others(),
            own => own,
        };
        match found {
            _ if known => Ok(()),
            1 => Ok(()),
            0 => Err(format!("a condition reads '{}', and no task is called so", excerpt(text))),
            _ => Err(format!("several tasks are called '{}'; read one by its id", excerpt(text))),
        }
    }
}
