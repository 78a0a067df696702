//! A letter with everything it tells, read when it is given: what is not so any more is not told.

use std::sync::Arc;

use abide_core::event::{HookKind, InterruptRequested, InterruptResolved};
use abide_core::{
    Event, EventType, Exchange, JsonMap, Key, Lifecycle, Millis, NodeEvent, Recalled, Record, Run, TenantId,
    ask_id,
};
use abide_store::{HookId, HookRow, SessionId};

use super::session::{Holding, Letter, Place};
use crate::{Engine, Error, limits};

/// What a worker is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// It gets a task.
    Task(Box<TaskMessage>),
    /// Something has come that it may wait for with a task.
    Wake(Holding),
    /// It is to stop doing a task.
    Cancel {
        /// Which.
        holding: Holding,
        /// Why its run ends.
        reason: &'static str,
    },
    /// Its agent is called.
    Hook(Box<HookMessage>),
    /// It gets no more.
    Drain,
}

/// A task, and what a worker has to know to do it.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskMessage {
    /// Which, and under which fence.
    pub holding: Holding,
    /// The node's kind.
    pub kind: Arc<str>,
    /// Which attempt it is, from 1.
    pub attempt: u32,
    /// What goes in.
    pub inputs: JsonMap,
    /// What the definition says of the node.
    pub config: JsonMap,
    /// How long the worker may take.
    pub timeout_ms: Option<Millis>,
    /// The run's workflow.
    pub workflow_id: Arc<str>,
    /// What went into the run.
    pub run_inputs: JsonMap,
    /// The labels of whoever started the run.
    pub tags: Vec<String>,
    /// The data of whoever started the run.
    pub metadata: Option<abide_core::Json>,
    /// What was recorded of it so far.
    pub history: History,
}

/// Things that a worker did before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// In order.
    pub items: Vec<Recalled>,
    /// Where to go on, if there may be more.
    pub next: Option<u64>,
}

/// A call of an agent about a question of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct HookMessage {
    /// Which call.
    pub id: HookId,
    /// The agent.
    pub agent: String,
    /// The node that asked.
    pub node: Arc<str>,
    /// What was asked.
    pub requested: Box<InterruptRequested>,
    /// How it ended, if it has.
    pub resolved: Option<Box<InterruptResolved>>,
    /// What those who decide want to know, if that is what it is called for.
    pub asked: Option<Box<Exchange>>,
}

impl Engine {
    /// What a letter tells now. `None` if it tells nothing any more: whoever got it need not hear of it.
    pub async fn message(
        &self,
        tenant: TenantId,
        session: SessionId,
        letter: &Letter,
    ) -> Result<Option<Message>, Error> {
        match letter {
            Letter::Task(holding) => {
                let told = self.task_message(tenant, holding).await;
                let is_over = match &told {
                    Ok(told) => told.is_none(),
                    Err(error) => error.is_lasting(),
                };
                if is_over {
                    let spot = (tenant, holding.place.clone());
                    self.shell.workers.with(|desk| desk.drop_stale(&spot, holding.fence));
                    return Ok(None);
                }
                Ok(told?.map(|told| Message::Task(Box::new(told))))
            }
            Letter::Wake(holding) => Ok(Some(Message::Wake(holding.clone()))),
            Letter::Cancel(holding) => {
                let cancelled = |run: &Run| run.lifecycle() == Lifecycle::Cancelling;
                // One run that can't be read must not keep a worker from hearing of others.
                let cancelled = match self.shell.read(holding.place.run.of(tenant), cancelled).await {
                    Err(error) if !error.is_lasting() => return Err(error),
                    read => read.unwrap_or(false),
                };
                let reason = if cancelled { "run_cancelled" } else { "run_failed" };
                Ok(Some(Message::Cancel { holding: holding.clone(), reason }))
            }
            Letter::Hook(row) => {
                let told = match self.hook_message(row).await {
                    Err(error) if error.is_lasting() => None,
                    told => told?,
                };
                if told.is_none() {
                    // There is nothing to call about, so the call is over.
                    let call = self.shell.workers.with(|desk| desk.call_of((tenant, session), row.id));
                    if let Some((agent, tries)) = call {
                        self.shell.settle_call(agent, row.id, None, tries).await?;
                    }
                }
                Ok(told.map(|told| Message::Hook(Box::new(told))))
            }
            Letter::Drain => Ok(Some(Message::Drain)),
        }
    }

    async fn task_message(&self, tenant: TenantId, holding: &Holding) -> Result<Option<TaskMessage>, Error> {
        let (key, task) = (holding.place.run.of(tenant), &holding.place.task);
        let seen = self.shell.read(key, |run| {
            let brief = run.brief(task, holding.fence)?;
            let about = (run.summary().workflow_id, run.inputs().clone(), run.tags().to_vec());
            Some((brief, about, run.metadata().cloned()))
        });
        let Some((brief, (workflow_id, run_inputs, tags), metadata)) = seen.await? else { return Ok(None) };
        let history = if brief.has_history {
            self.recall(key, &holding.place, brief.began).await?
        } else {
            History::default()
        };
        Ok(Some(TaskMessage {
            holding: holding.clone(),
            kind: brief.kind,
            attempt: brief.attempt,
            inputs: brief.inputs,
            config: brief.config,
            timeout_ms: brief.timeout_ms,
            workflow_id,
            run_inputs,
            tags,
            metadata,
            history,
        }))
    }

    /// What a worker did before with a task that it has, from an event on.
    pub async fn history(
        &self,
        tenant: TenantId,
        session: SessionId,
        place: &Place,
        from: u64,
    ) -> Result<History, Error> {
        let fence = self.shell.workers.with(|desk| desk.fence((tenant, session), place));
        let fence = fence.ok_or(abide_core::Rejection::StaleFence)?;
        let key = place.run.of(tenant);
        let began =
            self.shell.read(key, |run| run.brief(&place.task, fence).map(|brief| brief.began)).await?;
        let began = began.ok_or(abide_core::Rejection::StaleFence)?;
        self.recall(key, place, from.max(began)).await
    }

    async fn recall(&self, key: Key, place: &Place, mut from: u64) -> Result<History, Error> {
        let mut history = History::default();
        let mut bytes = 0;
        loop {
            let page = self.shell.store.journal(key, from, limits::PAST_EVENTS_MAX).await?;
            let is_last = page.len() < limits::PAST_EVENTS_MAX;
            let recalled = |run: &Run| -> Vec<(u64, usize, Recalled)> {
                let item = |record: &Record| {
                    let recalled = run.recall(&place.task, record)?;
                    Some((record.sequence, record.payload.len(), recalled))
                };
                page.iter().filter_map(item).collect()
            };
            for (sequence, size, item) in self.shell.read(key, recalled).await? {
                history.items.push(item);
                bytes += size;
                if history.items.len() >= limits::HISTORY_ITEMS_MAX || bytes >= limits::HISTORY_BYTES_MAX {
                    history.next = Some(sequence + 1);
                    return Ok(history);
                }
            }
            if is_last {
                return Ok(history);
            }
            from = page.last().map_or(from, |record| record.sequence + 1);
        }
    }

    /// What an agent is called about. Of a question that can't be read, or is not open any more, nothing.
    async fn hook_message(&self, row: &HookRow) -> Result<Option<HookMessage>, Error> {
        let (key, asked) = (row.key(), row.id.interrupt);
        let found = self.shell.store.journal(key, asked.sequence(), 1).await?;
        let Some((node, NodeEvent::InterruptRequested(requested))) = found.first().and_then(node_event)
        else {
            return Ok(None);
        };
        let mut resolved = None;
        let code = EventType::by_name("interrupt.resolved").map_or(0, |kind| kind.code);
        let mut from = asked.sequence();
        while resolved.is_none() {
            let page = self.shell.store.events_of_type(key, code, from, limits::EVENTS_PAGE_MAX).await?;
            let Some(last) = page.last() else { break };
            from = last.sequence + 1;
            resolved = page.iter().find_map(|record| match node_event(record) {
                Some((_, NodeEvent::InterruptResolved(resolved))) => {
                    Some(resolved).filter(|resolved| resolved.interrupt_id == asked)
                }
                _ => None,
            });
        }
        // Nobody has to be asked for what is closed.
        if resolved.is_some() && row.id.hook == HookKind::InputRequested {
            return Ok(None);
        }
        let asked = self.asked_back(row).await?;
        // Nor has anybody to tell what was told already.
        if asked.is_none() && row.id.hook == HookKind::QuestionAsked {
            return Ok(None);
        }
        let (id, agent) = (row.id, row.agent.clone());
        Ok(Some(HookMessage { id, agent, node, requested, resolved, asked }))
    }

    /// What those who decide want to know, unless they were told.
    async fn asked_back(&self, row: &HookRow) -> Result<Option<Box<Exchange>>, Error> {
        if row.id.hook != HookKind::QuestionAsked {
            return Ok(None);
        }
        let (id, name) = (row.id.interrupt, ask_id(row.id.attempt));
        let see = |run: &Run| {
            let asked = run.interrupt(id)?.exchanges.iter().find(|exchange| exchange.id == name)?;
            asked.answer.is_none().then(|| Box::new(asked.clone()))
        };
        match self.shell.read(row.key(), see).await {
            Err(Error::RunNotFound(_) | Error::Erased(_)) => Ok(None),
            other => other,
        }
    }
}

fn node_event(record: &Record) -> Option<(Arc<str>, NodeEvent)> {
    match record.event() {
        Ok(Event::Node { node, event }) => Some((node, event)),
        _ => None,
    }
}
