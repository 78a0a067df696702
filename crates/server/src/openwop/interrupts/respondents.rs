//! Who may answer, where a node says so: the core's rule, with what the directory knows of whoever asks.

use abide_core::{Named, Respondent, TenantId};

use crate::app::App;
use crate::error::{ApiError, Result};

/// Somebody who wants to answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answering<'a> {
    /// Whose data they reach.
    pub(crate) tenant: TenantId,
    /// Who.
    pub(crate) principal: &'a str,
    /// The roles that they have shown.
    pub(crate) roles: &'a [String],
}

/// Refuses an answer from somebody who is not among those that are named.
pub(crate) async fn check(app: &App, named: &[String], who: Answering<'_>) -> Result<()> {
    if may_respond(app, named, who).await? {
        return Ok(());
    }
    let message =
        "only those whom the node names may answer; its 'respondents' has principals, groups and roles";
    Err(ApiError::new("forbidden", message).with("principal", who.principal))
}

/// Whether somebody is among those that are named. The directory is only asked if that can matter.
pub(crate) async fn may_respond(app: &App, named: &[String], who: Answering<'_>) -> Result<bool> {
    let shown = Respondent { principal: who.principal, shown_roles: who.roles, ..Respondent::default() };
    if shown.is_among(named) {
        return Ok(true);
    }
    if named.iter().all(|name| matches!(Named::of(name), Named::Principal(_))) {
        return Ok(false);
    }
    let known = app.engine().store().person(who.tenant, who.principal.to_owned()).await?;
    Ok(known.is_some_and(|known| {
        Respondent { groups: &known.groups, roles: &known.roles, ..shown }.is_among(named)
    }))
}
