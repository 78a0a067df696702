//! What ought to be true of runs that wait for each other, start each other and belong to groups: the five rules, in small.
//!
//! Nobody here is told anything. Whatever follows from how others stand is worked out from how they stand.

use std::collections::{BTreeMap, BTreeSet};

use abide_core::Millis;

const MINUTE: Millis = 60_000;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Completed,
    Failed,
    Cancelled,
    /// By the deadline of a group.
    Abandoned,
}

/// What becomes of a question that nobody answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// It is open for ever.
    Lasting,
    /// Something stands for the answer, after two attempts.
    Lenient,
    /// Its run fails.
    Fleeting,
}

impl Question {
    pub(super) const ALL: [Self; 3] = [Self::Lasting, Self::Lenient, Self::Fleeting];

    fn lasts(self) -> Option<Millis> {
        match self {
            Self::Lasting => None,
            Self::Lenient => Some(40 * MINUTE),
            Self::Fleeting => Some(60 * MINUTE),
        }
    }
}

/// A run, which is done by hand.
#[derive(Clone, Debug, Default)]
pub(super) struct One {
    draft: bool,
    after: BTreeSet<usize>,
    parent: Option<usize>,
    pub(super) holder: Option<u64>,
    asked: Option<(Question, Millis)>,
    /// Who works on its task, if it has one.
    pub(super) task: Option<u64>,
    pub(super) end: Option<End>,
}

/// A group.
#[derive(Clone, Debug, Default)]
pub(super) struct Circle {
    pub(super) members: BTreeSet<usize>,
    pub(super) deadline: Option<Millis>,
}

/// How a run is seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sight {
    pub(super) status: &'static str,
    pub(super) abandonment: Option<&'static str>,
    pub(super) blocked: Option<&'static str>,
    pub(super) suspended_until: Option<Option<Millis>>,
    pub(super) holder: Option<u64>,
    pub(super) deadline: Option<Millis>,
    pub(super) task: Option<TaskSight>,
    /// How many of its children stand how.
    pub(super) children: BTreeMap<&'static str, u64>,
}

/// How a task is seen: where it stands, why it is blocked, and whether it names the run that waits for people.
pub(super) type TaskSight = (&'static str, Option<&'static str>, bool);

/// How a group is seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CircleSight {
    /// It never takes over anything from its members.
    pub(super) status: &'static str,
    pub(super) aggregate: &'static str,
    pub(super) suspended: u64,
    pub(super) by_status: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    pub(super) runs: Vec<One>,
    pub(super) groups: Vec<Circle>,
}

/// What was asked for was taken, or was refused: then nothing has changed.
impl Model {
    pub(super) fn begin(&mut self, after: &[usize], draft: bool) {
        self.runs.push(One { draft, after: after.iter().copied().collect(), ..One::default() });
    }

    pub(super) fn adopt(&mut self, parent: usize) -> bool {
        let taken = self.is_open(parent);
        if taken {
            self.runs.push(One { parent: Some(parent), ..One::default() });
        }
        taken
    }

    pub(super) fn claim(&mut self, at: usize, agent: u64) -> bool {
        let run = &self.runs[at];
        let free = run.holder.is_none() && !run.draft && !self.is_blocked(at);
        let taken = run.end.is_none() && (run.holder == Some(agent) || free);
        if taken {
            self.runs[at].holder = Some(agent);
        }
        taken
    }

    pub(super) fn release(&mut self, at: usize, agent: u64) -> bool {
        let taken = self.works(at, agent);
        if taken {
            self.runs[at].holder = None;
        }
        taken
    }

    pub(super) fn ask(&mut self, at: usize, agent: u64, question: Question, now: Millis) -> bool {
        let taken = self.works(at, agent);
        if taken {
            self.runs[at].asked = Some((question, now));
        }
        taken
    }

    pub(super) fn answer(&mut self, at: usize) -> bool {
        self.runs[at].end.is_none() && self.runs[at].asked.take().is_some()
    }

    pub(super) fn complete(&mut self, at: usize, agent: u64) -> bool {
        let all = self.children(at).all(|child| child.end == Some(End::Completed));
        let taken = self.works(at, agent) && !self.is_blocked(at) && all;
        if taken {
            self.end(at, End::Completed);
        }
        taken
    }

    pub(super) fn fail(&mut self, at: usize, agent: u64) -> bool {
        let taken = self.works(at, agent);
        if taken {
            self.end(at, End::Failed);
        }
        taken
    }

    pub(super) fn cancel(&mut self, at: usize) -> bool {
        let taken = self.is_open(at);
        if taken {
            self.end(at, End::Cancelled);
        }
        taken
    }

    pub(super) fn depend(&mut self, at: usize, on: usize) -> bool {
        self.is_open(at) && !self.waits_for(on, at) && self.runs[at].after.insert(on)
    }

    pub(super) fn independ(&mut self, at: usize, on: usize) -> bool {
        self.is_open(at) && self.runs[at].after.remove(&on)
    }

    pub(super) fn activate(&mut self, at: usize) -> bool {
        self.is_open(at) && std::mem::take(&mut self.runs[at].draft)
    }

    /// Somebody works on a task of the run from now on.
    pub(super) fn take_task(&mut self, at: usize, agent: u64) -> bool {
        let run = &self.runs[at];
        let begins = run.end.is_none() && !run.draft && !self.is_blocked(at);
        let taken = begins && run.task.is_none() && run.asked.is_none();
        if taken {
            self.runs[at].task = Some(agent);
        }
        taken
    }

    pub(super) fn add(&mut self, group: usize, run: usize) -> bool {
        self.groups[group].members.insert(run)
    }

    pub(super) fn remove(&mut self, group: usize, run: usize) -> bool {
        self.groups[group].members.remove(&run)
    }

    /// Whatever is due by now happens. A deadline goes before every end of a question, and means those too who ask later.
    pub(super) fn settle(&mut self, now: Millis) {
        for at in 0..self.runs.len() {
            let Some((question, since)) = self.runs[at].asked.filter(|_| self.is_open(at)) else { continue };
            let ended = question.lasts().is_some_and(|lasts| since + lasts <= now);
            match question {
                _ if self.deadline(at).is_some_and(|deadline| deadline <= now) => {
                    self.end(at, End::Abandoned);
                }
                Question::Fleeting if ended => self.end(at, End::Failed),
                Question::Lenient if ended => self.runs[at].asked = None,
                _ => {}
            }
        }
    }
}

impl Model {
    pub(super) fn is_open(&self, at: usize) -> bool {
        self.runs[at].end.is_none()
    }

    pub(super) fn is_asked(&self, at: usize) -> bool {
        self.is_open(at) && self.runs[at].asked.is_some()
    }

    /// Whether an agent has the run and does not wait for an answer.
    fn works(&self, at: usize, agent: u64) -> bool {
        let run = &self.runs[at];
        run.end.is_none() && run.holder == Some(agent) && run.asked.is_none()
    }

    fn is_blocked(&self, at: usize) -> bool {
        self.unmet(at).next().is_some()
    }

    fn unmet(&self, at: usize) -> impl Iterator<Item = usize> {
        let met = |on: &usize| self.runs[*on].end == Some(End::Completed);
        self.runs[at].after.iter().copied().filter(move |on| !met(on))
    }

    fn children(&self, at: usize) -> impl Iterator<Item = &One> {
        self.runs.iter().filter(move |run| run.parent == Some(at))
    }

    /// Whether a run waits for another one, or would: whoever starts another waits for it.
    pub(super) fn waits_for(&self, at: usize, other: usize) -> bool {
        let started = |to: &usize| self.runs[*to].parent == Some(at);
        at == other
            || self.runs[at].after.iter().any(|on| self.waits_for(*on, other))
            || (0..self.runs.len()).filter(started).any(|child| self.waits_for(child, other))
    }

    fn end(&mut self, at: usize, end: End) {
        self.runs[at].end = Some(end);
        let takes_along = end != End::Completed;
        for child in 0..self.runs.len() {
            if takes_along && self.runs[child].parent == Some(at) && self.is_open(child) {
                self.end(child, End::Cancelled);
            }
        }
    }

    fn deadline(&self, at: usize) -> Option<Millis> {
        let groups = self.groups.iter().filter(|group| group.members.contains(&at));
        groups.filter_map(|group| group.deadline).min()
    }

    fn status(&self, at: usize) -> &'static str {
        let run = &self.runs[at];
        match run.end {
            Some(End::Completed) => "completed",
            Some(End::Failed) => "failed",
            Some(End::Cancelled | End::Abandoned) => "cancelled",
            None if run.asked.is_some() => "waiting-input",
            None if run.draft => "draft",
            None if self.is_blocked(at) => "blocked",
            None => "running",
        }
    }

    /// Why nothing of it starts.
    fn blocked(&self, at: usize) -> Option<&'static str> {
        let unmet: Vec<usize> = self.unmet(at).collect();
        let first = unmet.first()?;
        debug_assert_ne!(*first, at);
        if unmet.iter().any(|on| !self.is_open(*on)) {
            return Some("on_dependency_failed");
        }
        let suspended = unmet.iter().any(|on| self.is_asked(*on));
        Some(if suspended { "dependency_suspended" } else { "dependency_incomplete" })
    }

    fn task(&self, at: usize) -> Option<TaskSight> {
        let run = &self.runs[at];
        let agent = run.task?;
        Some(match run.end {
            Some(End::Failed) => ("failed", None, false),
            Some(_) => ("cancelled", None, false),
            None if run.asked.is_some() && run.holder == Some(agent) => {
                ("blocked", Some("intent_suspended"), true)
            }
            None => ("running", None, false),
        })
    }

    pub(super) fn sight(&self, at: usize) -> Sight {
        let run = &self.runs[at];
        let live = run.end.is_none();
        let mut children = BTreeMap::new();
        for (child, _) in self.runs.iter().enumerate().filter(|(_, run)| run.parent == Some(at)) {
            *children.entry(self.status(child)).or_default() += 1;
        }
        Sight {
            status: self.status(at),
            abandonment: (run.end == Some(End::Abandoned)).then_some("portfolio_deadline_exceeded"),
            blocked: self.blocked(at).filter(|_| live && !run.draft),
            suspended_until: run
                .asked
                .filter(|_| live)
                .map(|(asked, since)| asked.lasts().map(|ms| since + ms)),
            holder: run.holder.filter(|_| live),
            deadline: self.deadline(at).filter(|_| live),
            task: self.task(at),
            children,
        }
    }

    pub(super) fn circle(&self, at: usize) -> CircleSight {
        let members = &self.groups[at].members;
        let mut by_status = BTreeMap::new();
        for member in members {
            let name = match self.status(*member) {
                "running" => "active",
                "waiting-input" => "suspended_awaiting_input",
                "failed" | "cancelled" => "abandoned",
                other => other,
            };
            *by_status.entry(name.to_owned()).or_default() += 1;
        }
        let count = |name: &str| by_status.get(name).copied().unwrap_or(0);
        let aggregate = match members.len() as u64 {
            _ if count("abandoned") > 0 => "failed",
            total if total > 0 && count("completed") == total => "completed",
            _ => "in_progress",
        };
        CircleSight { status: "running", aggregate, suspended: count("suspended_awaiting_input"), by_status }
    }
}
