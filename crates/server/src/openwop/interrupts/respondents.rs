//! Who may answer: the core's rules, with what the directory knows of whoever wants to. This is decided before the run
//! hears of the answer, so that a refusal leaves no trace in it.

use abide_core::event::InterruptRequested;
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

/// What is known of somebody who may answer, at the time they do.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Their groups, if they matter.
    pub(crate) groups: Vec<String>,
    /// Their roles, those included that they have shown.
    pub(crate) roles: Vec<String>,
}

/// Refuses an answer from somebody who may not give it: who is not among those that the question names, or whom its
/// rules bar. Gives what the directory knows of them, if that matters.
pub(crate) async fn check(
    app: &App,
    asked: &InterruptRequested,
    starters: &[String],
    who: Answering<'_>,
) -> Result<Known> {
    let forbidden = |message: &str| Err(ApiError::new("forbidden", message).with("principal", who.principal));
    let known = if asked.needs_directory() { known(app, who).await? } else { shown(who) };
    let person =
        Respondent { principal: who.principal, groups: &known.groups, roles: &known.roles, shown_roles: &[] };
    if !person.is_among(&asked.approvers()) {
        return forbidden(
            "only those whom the gate names may decide; see its 'approversList', 'approverGroupRefs' and \
             'approverRoleRefs'",
        );
    }
    if !person.is_among(&asked.respondents) {
        return forbidden(
            "only those whom the node names may answer; its 'respondents' has principals, groups and roles",
        );
    }
    check_barred(asked, starters, who.principal)?;
    Ok(known)
}

/// Refuses somebody whom the rules of a question bar, whoever else may answer.
pub(crate) fn check_barred(asked: &InterruptRequested, starters: &[String], who: &str) -> Result<()> {
    let barred = asked.rules.as_ref().and_then(|rules| rules.bars(who, starters, &asked.asked_by));
    match barred {
        Some(message) => Err(ApiError::new("forbidden", message).with("principal", who)),
        None => Ok(()),
    }
}

fn shown(who: Answering<'_>) -> Known {
    Known { groups: Vec::new(), roles: who.roles.to_vec() }
}

async fn known(app: &App, who: Answering<'_>) -> Result<Known> {
    let mut known = shown(who);
    if let Some(person) = app.engine().store().person(who.tenant, who.principal.to_owned()).await? {
        known.groups = person.groups;
        known.roles.extend(person.roles);
    }
    Ok(known)
}

/// The names that mean somebody in a list of those who may answer.
pub(crate) async fn names_of(app: &App, who: Answering<'_>) -> Result<Vec<String>> {
    let Known { groups, roles } = known(app, who).await?;
    let groups = groups.into_iter().map(|group| format!("group:{group}"));
    let roles = roles.into_iter().map(|role| format!("role:{role}"));
    Ok([who.principal.to_owned()].into_iter().chain(groups).chain(roles).collect())
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
    let known = known(app, who).await?;
    Ok(Respondent { groups: &known.groups, roles: &known.roles, ..shown }.is_among(named))
}
