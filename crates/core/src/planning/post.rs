//! What somebody posts, checked and in the form in which it is recorded. Nothing is recorded before all of it is right.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    CheckpointSpec, ConditionSpec, NewCheckpoint, NewCondition, NewPlan, NewTask, OnComplete, OnFailure,
    OnTimeout, PlanId, PlanSpec, PlanTask, Priority, Task, TaskId, TaskSpec, TaskStatus,
};
use crate::excerpt::excerpt;
use crate::{Json, Rejection, Run, limits};

/// Tasks that are to be posted, each behind those that it depends on, and the plan that takes them in.
pub(crate) struct Posting {
    pub(crate) tasks: Vec<TaskSpec>,
    pub(crate) plan: PlanSpec,
}

/// The tasks that a plan may speak of, by their ids and by their names.
#[derive(Default)]
pub(super) struct Named {
    ids: BTreeSet<TaskId>,
    names: BTreeMap<String, Vec<TaskId>>,
}

impl Named {
    fn add(&mut self, id: TaskId, name: &str) {
        self.ids.insert(id);
        self.names.entry(name.to_owned()).or_default().push(id);
    }

    /// Whether this is one of them.
    pub(super) fn has(&self, id: TaskId) -> bool {
        self.ids.contains(&id)
    }

    /// How many of them are called so.
    pub(super) fn called(&self, name: &str) -> usize {
        self.names.get(name).map_or(0, Vec::len)
    }

    fn find(&self, text: &str, field: &str) -> Result<TaskId, Rejection> {
        if let Some(id) = text.parse().ok().filter(|id| self.ids.contains(id)) {
            return Ok(id);
        }
        match self.names.get(text).map(Vec::as_slice) {
            Some([id]) => Ok(*id),
            Some(_) => {
                refuse(field, format!("several tasks of the plan are called '{}'; use the id", excerpt(text)))
            }
            None => refuse(
                field,
                format!("'{}' is no task of the plan; use the id or the name of one", excerpt(text)),
            ),
        }
    }
}

fn refuse<T>(field: &str, message: impl Into<String>) -> Result<T, Rejection> {
    Err(Rejection::invalid(field, message))
}

/// A word of a list, or what stands for it if nothing was said.
fn word<T: Copy + Default>(given: Option<&str>, field: &str, known: &[(&str, T)]) -> Result<T, Rejection> {
    let Some(given) = given else { return Ok(T::default()) };
    if let Some((_, found)) = known.iter().find(|(name, _)| *name == given) {
        return Ok(*found);
    }
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    refuse(field, format!("'{field}' can't be '{}'; use {}", excerpt(given), names.join(", ")))
}

/// Refuses a text that is empty or too long.
pub(crate) fn check_text(field: &str, text: &str, chars_max: usize) -> Result<(), Rejection> {
    if text.trim().is_empty() || text.chars().count() > chars_max {
        return refuse(field, format!("'{field}' is a text of 1 to {chars_max} characters"));
    }
    Ok(())
}

/// Refuses a value that is too large or too deep to be kept.
pub(crate) fn check_json(field: &str, json: Option<&Json>) -> Result<(), Rejection> {
    let Some(json) = json else { return Ok(()) };
    if json.text().len() > limits::TASK_JSON_BYTES_MAX || json.depth() > limits::ASK_DEPTH_MAX {
        let (bytes, depth) = (limits::TASK_JSON_BYTES_MAX, limits::ASK_DEPTH_MAX);
        let message =
            format!("'{field}' takes at most {bytes} bytes and {depth} levels; keep more elsewhere");
        return refuse(field, message);
    }
    Ok(())
}

fn check_object(field: &str, json: Option<&Json>) -> Result<(), Rejection> {
    if json.is_some_and(|json| json.type_name() != "object") {
        return refuse(field, format!("'{field}' must be an object"));
    }
    check_json(field, json)
}

/// What is right or wrong with one task, whatever it depends on.
fn check_task(task: &NewTask) -> Result<(), Rejection> {
    check_text("name", &task.name, limits::TASK_NAME_CHARS_MAX)?;
    if let Some(description) = &task.description
        && description.chars().count() > limits::ASK_TEXT_CHARS_MAX
    {
        return refuse(
            "description",
            format!("'description' takes at most {} characters", limits::ASK_TEXT_CHARS_MAX),
        );
    }
    if let Some(agent) = &task.agent {
        check_text("agent", agent, limits::AGENT_NAME_CHARS_MAX)?;
    }
    if task.max_attempts.is_some_and(|most| !(1..=limits::TASK_ATTEMPTS_MAX).contains(&most)) {
        return refuse(
            "maxAttempts",
            format!("'maxAttempts' is a whole number from 1 to {}", limits::TASK_ATTEMPTS_MAX),
        );
    }
    if task.depends_on.len() > limits::TASK_DEPENDENCIES_MAX {
        return refuse(
            "dependsOn",
            format!("'dependsOn' takes at most {} tasks", limits::TASK_DEPENDENCIES_MAX),
        );
    }
    check_json("input", task.input.as_ref())?;
    check_object("metadata", task.metadata.as_ref())
}

fn priority(task: &NewTask) -> Result<Priority, Rejection> {
    let known = Priority::ALL.map(|priority| (priority.name(), priority));
    word(task.priority.as_deref(), "priority", &known)
}

fn spec(
    task: &NewTask,
    depends_on: Vec<TaskId>,
    plan: Option<PlanId>,
    parent_task: Option<TaskId>,
) -> Result<TaskSpec, Rejection> {
    Ok(TaskSpec {
        name: task.name.clone(),
        description: task.description.clone(),
        input: task.input.clone(),
        depends_on,
        plan,
        parent_task,
        priority: priority(task)?,
        agent: task.agent.clone(),
        max_attempts: task.max_attempts.unwrap_or(limits::TASK_ATTEMPTS_USUAL),
        run: task.run,
        metadata: task.metadata.clone(),
    })
}

/// What is checked before a decision.
impl Run {
    /// A task that is there, by the text of its id.
    fn named_task(&self, text: &str, field: &str) -> Result<TaskId, Rejection> {
        let found = text.parse().ok().filter(|id| self.state.planning.tasks.contains_key(id));
        found.map_or_else(
            || {
                refuse(
                    field,
                    format!("the run has no task '{}'; use the id of one that was posted", excerpt(text)),
                )
            },
            Ok,
        )
    }

    /// One task that is posted by itself, or to a plan that is there.
    pub(crate) fn check_posted(&self, task: &NewTask) -> Result<TaskSpec, Rejection> {
        check_task(task)?;
        self.check_room(1)?;
        self.check_children([task])?;
        let mut depends_on = BTreeSet::new();
        for other in &task.depends_on {
            depends_on.insert(self.named_task(other, "dependsOn")?);
        }
        let parent =
            task.parent_task.as_deref().map(|parent| self.named_task(parent, "parentTaskId")).transpose()?;
        let plan = task.plan.as_deref().map(|plan| self.open_plan(plan)).transpose()?;
        let spec = spec(task, depends_on.into_iter().collect(), plan, parent)?;
        self.check_bytes(spec.bytes())?;
        Ok(spec)
    }

    fn open_plan(&self, text: &str) -> Result<PlanId, Rejection> {
        let planning = &self.state.planning;
        let found = text.parse().ok().and_then(|id| planning.plans.get(&id));
        let plan = found.ok_or_else(|| Rejection::UnknownPlan(excerpt(text)))?;
        if plan.state.is_finished() {
            return Err(Rejection::IllegalTransition(format!(
                "the plan is {}, so no task can be posted to it; post another plan",
                plan.state.name()
            )));
        }
        Ok(plan.id)
    }

    /// Refuses tasks that stand for runs that tell nothing here, or for which others stand. Of one run that stands for nothing
    /// nobody would ever hear, and one that stands for two tasks would be done twice.
    fn check_children<'a>(&self, new: impl IntoIterator<Item = &'a NewTask>) -> Result<(), Rejection> {
        let mut stood_for = self.state.planning.stood_for();
        for run in new.into_iter().filter_map(|task| task.run) {
            if !self.knows_child(run) {
                let message = format!(
                    "{run} is no run that this one was made to start, or that does a phase of it; start it below this one"
                );
                return refuse("run", message);
            }
            if !stood_for.insert(run) {
                return refuse(
                    "run",
                    format!("another task stands for {run} already; finish that one first"),
                );
            }
        }
        Ok(())
    }

    fn check_room(&self, more: usize) -> Result<(), Rejection> {
        if self.state.planning.tasks.len() + more > limits::TASKS_POSTED_MAX {
            return refuse(
                "tasks",
                format!("a run takes at most {} tasks; start another run", limits::TASKS_POSTED_MAX),
            );
        }
        Ok(())
    }

    /// Refuses what would make the run's tasks and plans too large to be kept together.
    pub(crate) fn check_bytes(&self, more: usize) -> Result<(), Rejection> {
        if self.state.planning.bytes.saturating_add(more) > limits::PLANNING_BYTES_MAX {
            let message = format!(
                "the tasks and plans of a run take at most {} bytes together; keep large values elsewhere",
                limits::PLANNING_BYTES_MAX
            );
            return refuse("tasks", message);
        }
        Ok(())
    }

    /// A plan with all its tasks.
    pub(crate) fn check_plan_posted(&self, plan: &NewPlan) -> Result<Posting, Rejection> {
        let new: Vec<&NewTask> = plan
            .tasks
            .iter()
            .filter_map(|task| match task {
                PlanTask::New(task) => Some(&**task),
                PlanTask::Posted(_) => None,
            })
            .collect();
        if self.state.planning.plans.len() >= limits::PLANS_POSTED_MAX {
            return refuse(
                "plans",
                format!("a run takes at most {} plans; start another run", limits::PLANS_POSTED_MAX),
            );
        }
        self.check_room(new.len())?;
        new.iter().try_for_each(|task| check_task(task))?;
        self.check_children(new.iter().copied())?;
        if let Some(name) = &plan.name {
            check_text("name", name, limits::TASK_NAME_CHARS_MAX)?;
        }
        check_object("metadata", plan.metadata.as_ref())?;
        let order = order(&new)?;
        let (tasks, ids, named) = self.place(plan, &new, &order)?;
        let spec = PlanSpec {
            name: plan.name.clone(),
            checkpoints: checkpoints(&plan.checkpoints, &named)?,
            conditions: self.conditions(&plan.conditions, &named)?,
            on_failure: word(plan.on_failure.as_deref(), "on_failure", &ON_FAILURE)?,
            on_complete: word(plan.on_complete.as_deref(), "on_complete", &[("notify", OnComplete::Notify)])?,
            metadata: plan.metadata.clone(),
            tasks: ids,
        };
        self.check_bytes(spec.bytes() + tasks.iter().map(TaskSpec::bytes).sum::<usize>())?;
        Ok(Posting { tasks, plan: spec })
    }

    /// Gives each new task the id that it gets when it is recorded, and looks up those that are there.
    fn place(
        &self,
        plan: &NewPlan,
        new: &[&NewTask],
        order: &[usize],
    ) -> Result<(Vec<TaskSpec>, Vec<TaskId>, Named), Rejection> {
        let mut own = vec![None; new.len()];
        for (at, &which) in order.iter().enumerate() {
            own[which] = Some(TaskId::of(&self.salt, self.head.next + at as u64));
        }
        let (mut ids, mut named, mut next) = (Vec::new(), Named::default(), own.iter().flatten().zip(new));
        for task in &plan.tasks {
            let (id, name) = match task {
                PlanTask::Posted(id) => {
                    let task = self.takable(id)?;
                    (task.id, task.spec.name.as_str())
                }
                PlanTask::New(_) => {
                    let (id, task) = next.next().expect("there is an id for each new task");
                    (*id, task.name.as_str())
                }
            };
            if named.ids.contains(&id) {
                return refuse("tasks", format!("task '{id}' is in the plan twice; leave one out"));
            }
            named.add(id, name);
            ids.push(id);
        }
        let mut tasks = Vec::new();
        for &which in order {
            let mut depends_on = BTreeSet::new();
            for other in &new[which].depends_on {
                let there = self.named_task(other, "dependsOn").ok();
                depends_on.insert(match there {
                    Some(id) => id,
                    None => named.find(other, "dependsOn")?,
                });
            }
            let parent = new[which].parent_task.as_deref();
            let parent = parent.map(|parent| self.named_task(parent, "parentTaskId")).transpose()?;
            if new[which].plan.is_some() {
                return refuse("plan", "a task that is posted with a plan is of that plan; leave 'plan' out");
            }
            tasks.push(spec(new[which], depends_on.into_iter().collect(), None, parent)?);
        }
        Ok((tasks, ids, named))
    }

    /// A task that a plan may take in.
    fn takable(&self, text: &str) -> Result<&Task, Rejection> {
        let task = &self.state.planning.tasks[&self.named_task(text, "tasks")?];
        if let Some(plan) = task.plan {
            return refuse("tasks", format!("task '{}' is of {plan} already; leave it out", task.id));
        }
        if !matches!(task.status, TaskStatus::Pending | TaskStatus::Ready) {
            return refuse(
                "tasks",
                format!(
                    "task '{}' is {}; a plan takes in only what has not begun",
                    task.id,
                    task.status.name()
                ),
            );
        }
        Ok(task)
    }
}

const ON_FAILURE: [(&str, OnFailure); 4] = [
    ("pause_and_escalate", OnFailure::PauseAndEscalate),
    ("notify", OnFailure::Notify),
    ("fail", OnFailure::Fail),
    ("retry", OnFailure::Retry),
];

/// New tasks in an order in which each comes behind those that it depends on. Tasks that are there already can't depend on
/// new ones, so only the new ones can wait for each other.
fn order(new: &[&NewTask]) -> Result<Vec<usize>, Rejection> {
    let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, task) in new.iter().enumerate() {
        by_name.insert(&task.name, at);
    }
    let needs = |at: usize| new[at].depends_on.iter().filter_map(|name| by_name.get(name.as_str()).copied());
    let mut waits: Vec<usize> = (0..new.len()).map(|at| needs(at).count()).collect();
    let mut followers = vec![Vec::new(); new.len()];
    for (at, task) in new.iter().enumerate() {
        if needs(at).any(|other| other == at) {
            return refuse(
                "dependsOn",
                format!("task '{}' depends on itself; leave that out", excerpt(&task.name)),
            );
        }
        needs(at).for_each(|other| followers[other].push(at));
    }
    let mut free: BTreeSet<usize> = (0..new.len()).filter(|&at| waits[at] == 0).collect();
    let mut order = Vec::new();
    while let Some(at) = free.pop_first() {
        order.push(at);
        for &follower in &followers[at] {
            waits[follower] -= 1;
            if waits[follower] == 0 {
                free.insert(follower);
            }
        }
    }
    if order.len() < new.len() {
        let stuck = (0..new.len()).filter(|&at| waits[at] > 0).take(3);
        let names: Vec<String> = stuck.map(|at| format!("'{}'", excerpt(&new[at].name))).collect();
        let message = format!(
            "the tasks wait for each other in a circle, {} among them; take one dependency out",
            names.join(", ")
        );
        return refuse("dependsOn", message);
    }
    Ok(order)
}

fn checkpoints(new: &[NewCheckpoint], named: &Named) -> Result<Vec<CheckpointSpec>, Rejection> {
    if new.len() > limits::CHECKPOINTS_MAX {
        return refuse(
            "checkpoints",
            format!("a plan takes at most {} checkpoints", limits::CHECKPOINTS_MAX),
        );
    }
    let mut known = BTreeSet::new();
    let mut specs = Vec::new();
    for checkpoint in new {
        let spec = check_checkpoint(checkpoint, named)?;
        if !known.insert(spec.id.clone()) {
            return refuse(
                "checkpoints",
                format!("two checkpoints have the id '{}'; give each its own", excerpt(&spec.id)),
            );
        }
        specs.push(spec);
    }
    Ok(specs)
}

fn check_checkpoint(new: &NewCheckpoint, named: &Named) -> Result<CheckpointSpec, Rejection> {
    let id = new.id.as_deref().unwrap_or(&new.name);
    check_text("checkpoints.id", id, limits::ASK_NAME_CHARS_MAX)?;
    check_text("checkpoints.name", &new.name, limits::ASK_NAME_CHARS_MAX)?;
    if new.approvers.len() > limits::RESPONDENTS_MAX {
        return refuse(
            "checkpoints.approvers",
            format!("a checkpoint takes at most {} approvers; use a group", limits::RESPONDENTS_MAX),
        );
    }
    new.approvers
        .iter()
        .try_for_each(|who| check_text("checkpoints.approvers", who, limits::PRINCIPAL_CHARS_MAX))?;
    let timed = |ms: &i64| (1..=limits::INTERRUPT_TIMEOUT_MS_MAX).contains(ms);
    if new.timeout_ms.as_ref().is_some_and(|ms| !timed(ms)) {
        return refuse(
            "checkpoints.timeout",
            format!(
                "the timeout of a checkpoint is at least a millisecond and at most {} ms",
                limits::INTERRUPT_TIMEOUT_MS_MAX
            ),
        );
    }
    let on_timeout = new.on_timeout.as_deref();
    if on_timeout == Some("auto_approve") {
        let message =
            "nobody's silence is an approval: use 'escalate', which has people told again, or 'fail'";
        return refuse("checkpoints.on_timeout", message);
    }
    let known = [("escalate", OnTimeout::Escalate), ("fail", OnTimeout::Fail)];
    Ok(CheckpointSpec {
        id: id.to_owned(),
        name: new.name.clone(),
        after: named.find(&new.after, "checkpoints.after")?,
        requires_approval: new.requires_approval,
        approvers: new.approvers.clone(),
        timeout_ms: new.timeout_ms,
        on_timeout: word(on_timeout, "checkpoints.on_timeout", &known)?,
    })
}

/// What is checked of conditions.
impl Run {
    fn conditions(&self, new: &[NewCondition], named: &Named) -> Result<Vec<ConditionSpec>, Rejection> {
        if new.len() > limits::PLAN_CONDITIONS_MAX {
            return refuse(
                "conditions",
                format!("a plan takes at most {} conditions", limits::PLAN_CONDITIONS_MAX),
            );
        }
        let mut known = BTreeSet::new();
        let mut specs = Vec::new();
        for condition in new {
            let task = named.find(&condition.task, "conditions.task")?;
            if !known.insert(task) {
                return refuse(
                    "conditions",
                    format!("task '{}' has two conditions; join them with '&&'", excerpt(&condition.task)),
                );
            }
            if condition.otherwise.as_deref().is_some_and(|otherwise| otherwise != "skip") {
                return refuse("conditions.otherwise", "'otherwise' can only be 'skip'");
            }
            self.check_condition(&condition.when, named)?;
            specs.push(ConditionSpec { task, when: condition.when.clone() });
        }
        Ok(specs)
    }
}
