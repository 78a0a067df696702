//! Where pages get what they show, and where answers go.

use abide_core::{Hold, InterruptId, InterruptKind, Key, Millis, Rejection, Run, event};
use abide_engine::Error as EngineError;
use abide_store::{InboxQuery, InterruptRow};

use super::standing;
use super::view::{Asked, Closing, InboxPage, InboxRow};
use super::words;
use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::limits;
use crate::openwop::interrupts::replies::{Telling, tell};
use crate::openwop::interrupts::story::Story;
use crate::openwop::interrupts::{self, Given};

/// Which part of the list is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Filter {
    pub(super) kind: Option<InterruptKind>,
    pub(super) title: Option<String>,
    pub(super) cursor: Option<String>,
}

/// What waits in a tenant, oldest first.
pub(super) async fn inbox(app: &App, who: &Principal, filter: &Filter) -> Result<InboxPage> {
    let wrong = |_| ApiError::invalid("cursor", "This page of the inbox is no more. Begin with the first.");
    let query = InboxQuery {
        kind: filter.kind,
        title: filter.title.clone(),
        after: filter.cursor.as_deref().map(str::parse).transpose().map_err(wrong)?,
        ..InboxQuery::of(who.tenant, limits::INBOX_PAGE_MAX)
    };
    let inbox = app.engine().store().inbox();
    let page = inbox.list(query).await?;
    let by_kind = inbox.counts(who.tenant).await?;
    Ok(InboxPage {
        rows: page.rows.into_iter().map(row).collect(),
        next: page.next.map(|next| next.to_string()),
        total: by_kind.iter().map(|(_, open)| open).sum(),
        by_kind,
    })
}

fn row(row: InterruptRow) -> InboxRow {
    let open = row.open;
    InboxRow {
        run: row.run.to_string(),
        id: open.id.to_string(),
        workflow: row.workflow.to_string(),
        node: open.node.to_string(),
        kind: open.kind,
        title: open.title,
        requested_at: open.requested_at,
        deadline: open.deadline,
        headway: open.headway,
    }
}

/// An interrupt of a run, open or not.
pub(super) async fn find(app: &App, key: Key, id: InterruptId) -> Result<Asked> {
    let seen = app.engine().read(key, |run| open(run, id)).await.map_err(|error| match error {
        EngineError::RunNotFound(_) => nothing(),
        EngineError::Erased(_) => {
            ApiError::new("run_erased", "This is closed, and what was recorded of it was erased.")
        }
        other => other.into(),
    })?;
    match seen {
        Ok(asked) => Ok(asked),
        Err((_, Rejection::NoSuchInterrupt)) => Err(nothing()),
        Err((workflow, _)) => Ok(Asked { workflow, ..past(app, key, id).await? }),
    }
}

pub(super) fn nothing() -> ApiError {
    ApiError::new("interrupt_not_found", "There is no such question. Check the link that you followed.")
}

/// An open interrupt; or the workflow, and why it is not open.
fn open(run: &Run, id: InterruptId) -> std::result::Result<Asked, (String, Rejection)> {
    let workflow = run.graph().workflow_id.to_string();
    match run.check_open_interrupt(id) {
        Ok(open) => {
            let node = run.interrupted_node(open);
            let deadline = open.deadline();
            let (tally, exchanges) = (standing::Tally::of(open), standing::Asked::all(open));
            let hold = hold(run);
            Ok(Asked {
                workflow,
                deadline,
                tally,
                exchanges,
                hold,
                ..asked(run.key(), node, &open.requested, open.at)
            })
        }
        Err(rejection) => Err((workflow, rejection)),
    }
}

/// Who holds a run, since when and why; `None` if nobody does.
pub(super) fn hold(run: &Run) -> Option<String> {
    let done = match run.hold() {
        Hold::Paused => "Paused",
        Hold::Stopped => "Stopped",
        Hold::None | Hold::Pausing | Hold::Escalated => return None,
    };
    let holder = run.holder();
    let by = holder.and_then(|holder| holder.by.as_ref()).map_or(String::new(), |by| format!(" by {by}"));
    let why = holder.and_then(|holder| holder.reason.as_ref());
    let why = why.map_or(String::new(), |why| format!(": {why}"));
    let since = words::moment(run.paused_at().unwrap_or(run.head().at));
    Some(format!("{done}{by}, {since}{why}"))
}

/// What was asked. Its workflow is not known here.
pub(super) fn asked(key: Key, node: &str, requested: &event::InterruptRequested, at: Millis) -> Asked {
    Asked {
        run: key.id.to_string(),
        id: requested.interrupt_id.to_string(),
        workflow: String::new(),
        node: node.to_owned(),
        kind: requested.kind,
        data: requested.data.clone(),
        seen: requested.data.parse().unwrap_or_default(),
        is_sensitive: requested.sensitive,
        hides_said: requested.sensitive || requested.sensitive_answer,
        resume_schema: requested.resume_schema.clone(),
        approvers: requested.approvers(),
        respondents: requested.respondents.clone(),
        tally: None,
        exchanges: Vec::new(),
        requested_at: at,
        deadline: requested.timeout_ms.map(|ms| at.saturating_add(ms)),
        hold: None,
        closing: None,
    }
}

/// An interrupt that is closed, from the journal: a run itself does not keep who closed what.
async fn past(app: &App, key: Key, id: InterruptId) -> Result<Asked> {
    let story = Story::read(app, key, id).await?.ok_or_else(nothing)?;
    let unknown = Closing { outcome: "resolved".to_owned(), reason: None, by: None, at: None, value: None };
    let closing = story.closing().map_or(unknown, |(step, closed)| Closing {
        outcome: closed.outcome.name().to_owned(),
        reason: closed.reason.clone(),
        by: Some(closed.resolved_by.clone()),
        at: Some(step.at),
        value: closed.resume_value.clone().filter(|_| !closed.sensitive),
    });
    Ok(Asked { closing: Some(closing), ..asked(key, &story.node, &story.requested, story.at) })
}

/// Answers an interrupt, as every way of answering does.
pub(super) async fn resolve(app: &App, given: Given) -> Result<()> {
    interrupts::resolve(app, given, None).await.map(|_| ())
}

/// Tells those who decide what they wanted to know.
pub(super) async fn reply(app: &App, telling: Telling) -> Result<()> {
    tell(app, telling, None).await.map(|_| ())
}
