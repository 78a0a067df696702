//! Interrupted runs: how they stand, and what operators ask for them.
//!
//! The core decides. Here it is found out first what can be read of the run, and what can't stand in a journal goes to
//! the log: a decision about a run that has ended, or whose journal does not verify. Nothing is ever added to a chain
//! that is broken.

use std::sync::Arc;

use abide_core::event::ResumeDecided;
use abide_core::{
    Artifacts, Command, Hold, Json, Key, Millis, ReasonCode, Rejection, ResumeNow, ResumeStatus, Status,
};
use abide_store::{Lane, NewAudit};

use crate::shell::{Basis, Shell};
use crate::{Engine, Error, Soundness, limits};

/// How a run stands with resuming it.
#[derive(Clone, Debug)]
pub struct Resumption {
    /// The run's status, unless its columns can't be read.
    pub status: Option<Status>,
    /// What can be read of it.
    pub soundness: Soundness,
    /// What the run itself says, unless it can't be read.
    pub standing: Option<ResumeStatus>,
    /// What an automatic decision would say now. There is none about a run that was not interrupted and can be read.
    pub decision: Option<ResumeDecided>,
    /// What was decided, newest first.
    pub decisions: Vec<ResumeDecided>,
}

impl Soundness {
    /// What can be read, as a decision sees it.
    pub fn artifacts(&self) -> Artifacts {
        Artifacts { plan: self.plan.is_ok(), state: self.state.is_ok(), history: self.history.is_ok() }
    }

    /// Why a run is not resumed that can't be read: without a single good event there is no place to resume from.
    fn refusal(&self) -> ReasonCode {
        if self.good.next == 0 { ReasonCode::MissingCheckpoint } else { ReasonCode::MissingArtifacts }
    }
}

impl Engine {
    /// How a run stands with resuming it, also one that can't be read.
    pub async fn resumption(&self, key: Key) -> Result<Resumption, Error> {
        self.shell.resumption(key).await
    }

    /// Has an interrupted run go on, if it may: `artifacts` is found out here. Gives the refusal, if it may not, which is
    /// recorded by then.
    pub async fn resume_now(&self, key: Key, asked: ResumeNow) -> Result<Option<ResumeDecided>, Error> {
        self.check_open()?;
        self.shell.resume_now(key, asked).await
    }

    /// Says whether a run is resumed by itself when it is interrupted.
    pub async fn switch_resume(
        &self,
        key: Key,
        auto: bool,
        by: String,
        reason: Option<String>,
    ) -> Result<(), Error> {
        self.check_open()?;
        if self.shell.soundness(key).await?.history.is_err() {
            let why = "its journal does not verify".to_owned();
            return Err(Error::Unrecordable { run: key.id, reason: why });
        }
        let command = Command::SwitchResume { auto, by, reason };
        self.shell.decide(key, &command, Lane::Interactive, Basis::default(), |_| ()).await
    }
}

impl Shell {
    async fn resumption(&self, key: Key) -> Result<Resumption, Error> {
        let examined = self.examine(key).await?;
        let (soundness, now) = (examined.soundness, self.clock.now());
        let around = self.surroundings.of(key.tenant);
        let artifacts = soundness.artifacts();
        let seen = self.read(key, |run| (run.status(), run.resume_status(artifacts, now, &around))).await;
        let (status, standing) = match seen {
            Ok((status, standing)) => (Some(status), Some(standing)),
            Err(Error::RunNotFound(run)) => return Err(Error::RunNotFound(run)),
            Err(error) if error.is_lasting() => {
                (examined.outline.summary.as_ref().ok().map(|summary| summary.status), None)
            }
            Err(error) => return Err(error),
        };
        let code = match status {
            Some(ended) if ended.is_terminal() && soundness.history.is_ok() => ReasonCode::MissingCheckpoint,
            _ => soundness.refusal(),
        };
        let unread = || ResumeDecided::refusal(key.id, code, "system", now);
        let decision = match &standing {
            Some(standing) => standing.decision.clone().or_else(|| (!soundness.is_sound()).then(unread)),
            None => Some(unread()),
        };
        let decisions = self.decisions(key, examined.decisions).await?;
        Ok(Resumption { status, soundness, standing, decision, decisions })
    }

    /// What was decided about a run, in its journal and beside, newest first.
    async fn decisions(
        &self,
        key: Key,
        in_journal: impl IntoIterator<Item = (Millis, ResumeDecided)>,
    ) -> Result<Vec<ResumeDecided>, Error> {
        let records = self.store.audit_log().about(key, limits::RESUME_DECISIONS_SHOWN_MAX).await?;
        let beside = records.into_iter().filter(|record| record.kind == ResumeDecided::EVENT);
        let beside = beside.filter_map(|record| Some((record.at, record.body()?.parse().ok()?)));
        let mut in_journal: Vec<(Millis, ResumeDecided)> = in_journal.into_iter().collect();
        in_journal.reverse();
        // What stands beside was decided when nothing could be added to the journal any more.
        let mut all: Vec<(Millis, ResumeDecided)> = beside.chain(in_journal).collect();
        all.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        all.truncate(limits::RESUME_DECISIONS_SHOWN_MAX);
        Ok(all.into_iter().map(|(_, decided)| decided).collect())
    }

    async fn resume_now(
        self: &Arc<Self>,
        key: Key,
        asked: ResumeNow,
    ) -> Result<Option<ResumeDecided>, Error> {
        let soundness = self.soundness(key).await?;
        let (by, now) = (asked.by.clone(), self.clock.now());
        if soundness.history.is_err() {
            let refused = ResumeDecided::refusal(key.id, soundness.refusal(), &by, now);
            return self.refuse_beside(key, refused, &soundness).await.map(Some);
        }
        let command = Command::ResumeNow(Box::new(ResumeNow { artifacts: soundness.artifacts(), ..asked }));
        let see = |run: &abide_core::Run| run.resume_decision().cloned();
        match self.decide(key, &command, Lane::Interactive, Basis::default(), see).await {
            Ok(decided) => {
                decided.iter().for_each(|decided| self.tell_decision(key, decided));
                Ok(decided.filter(|decided| !decided.eligible))
            }
            Err(Error::Rejected(Rejection::Ended(_)) | Error::Erased(_)) => {
                let told = self.resumption(key).await?.decision;
                let unread = || ResumeDecided::refusal(key.id, ReasonCode::MissingCheckpoint, &by, now);
                let refused = ResumeDecided { actor: by.clone(), ..told.unwrap_or_else(unread) };
                self.refuse_beside(key, refused, &soundness).await.map(Some)
            }
            Err(error @ Error::RunNotFound(_)) => Err(error),
            Err(error) if error.is_lasting() => {
                let refused = ResumeDecided::refusal(key.id, soundness.refusal(), &by, now);
                self.refuse_beside(key, refused, &soundness).await.map(Some)
            }
            Err(error) => Err(error),
        }
    }

    /// Records a refusal that can't stand in the journal.
    async fn refuse_beside(
        &self,
        key: Key,
        refused: ResumeDecided,
        soundness: &Soundness,
    ) -> Result<ResumeDecided, Error> {
        let kind = ResumeDecided::EVENT.to_owned();
        let new = NewAudit { key, at: self.clock.now(), kind, body: Json::of(&refused) };
        self.store.audit_log().append(new).await?;
        self.tell_decision(key, &refused);
        for problem in soundness.problems() {
            tracing::error!(run = %key.id, problem, "a run is not resumed because something of it can't be read");
        }
        Ok(refused)
    }

    fn tell_decision(&self, key: Key, decided: &ResumeDecided) {
        self.counters.decided(decided.reason_code);
        let (code, actor, class) = (decided.reason_code.name(), &decided.actor, &decided.interruption_class);
        let (attempt, most) = (decided.attempt, decided.max_attempts);
        tracing::info!(run = %key.id, code, class, actor, attempt, most, "a resume decision");
    }

    /// Looks whether an interrupted run may be resumed, because its time has come. `false` if that can't even be
    /// decided, because the run can't be read: it is recorded, and nothing more comes of it by itself.
    pub(crate) async fn resume_due(self: &Arc<Self>, key: Key) -> Result<bool, Error> {
        let soundness = match self.soundness(key).await {
            Err(error @ Error::Store(_)) if error.is_lasting() => {
                tracing::error!(run = %key.id, %error, "an interrupted run can't be read; run `abide verify`");
                return Ok(false);
            }
            found => found?,
        };
        if soundness.history.is_err() {
            self.refuse_once(key, &soundness).await?;
            return Ok(false);
        }
        let command = Command::ResumeDue { artifacts: soundness.artifacts() };
        let see = |run: &abide_core::Run| (run.resume_decision().cloned(), run.hold() == Hold::Escalated);
        match self.decide(key, &command, Lane::Background, Basis::default(), see).await {
            Ok((decided, escalated)) => {
                decided.iter().for_each(|decided| self.tell_decision(key, decided));
                if escalated {
                    self.counters.escalated();
                    let run = key.id;
                    tracing::warn!(%run, "an interrupted run waits for a person; see `abide resume status {run}`");
                }
                Ok(true)
            }
            Err(error @ (Error::RunNotFound(_) | Error::Erased(_))) => Err(error),
            Err(error) if error.is_lasting() => {
                self.refuse_once(key, &soundness).await?;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Records that a run is not resumed because it can't be read, unless that was the last thing that was recorded.
    async fn refuse_once(&self, key: Key, soundness: &Soundness) -> Result<(), Error> {
        let refused = ResumeDecided::refusal(key.id, soundness.refusal(), "system", self.clock.now());
        let last = self.store.audit_log().about(key, 1).await?.into_iter().next();
        let last: Option<ResumeDecided> = last.and_then(|record| record.body()?.parse().ok());
        let said =
            last.is_some_and(|last| last.actor == refused.actor && last.reason_code == refused.reason_code);
        if !said {
            self.refuse_beside(key, refused, soundness).await?;
        }
        Ok(())
    }
}
