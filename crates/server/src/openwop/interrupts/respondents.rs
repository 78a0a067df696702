//! Who may answer, where a node says so: principals, groups and roles.
//!
//! Groups are those of the directory. Roles are those of the directory, and those that whoever answers has shown.

use abide_core::TenantId;
use abide_store::Person;

use crate::app::App;
use crate::error::{ApiError, Result};

const GROUP: &str = "group:";
const ROLE: &str = "role:";

/// Somebody who wants to answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Respondent<'a> {
    /// Whose data they reach.
    pub(crate) tenant: TenantId,
    /// Who.
    pub(crate) principal: &'a str,
    /// The roles that they have shown.
    pub(crate) roles: &'a [String],
}

/// Refuses an answer from somebody who is not among those that are named.
pub(crate) async fn check(app: &App, named: &[String], who: Respondent<'_>) -> Result<()> {
    if may_respond(app, named, who).await? {
        return Ok(());
    }
    let message =
        "only those whom the node names may answer; its 'respondents' has principals, groups and roles";
    Err(ApiError::new("forbidden", message).with("principal", who.principal))
}

/// Whether somebody is among those that are named. Nobody named means everybody.
pub(crate) async fn may_respond(app: &App, named: &[String], who: Respondent<'_>) -> Result<bool> {
    if named.is_empty() || is_among(named, who, None) {
        return Ok(true);
    }
    if !named.iter().any(|name| name.starts_with(GROUP) || name.starts_with(ROLE)) {
        return Ok(false);
    }
    let person = app.engine().store().person(who.tenant, who.principal.to_owned()).await?;
    Ok(is_among(named, who, person.as_ref()))
}

fn is_among(named: &[String], who: Respondent<'_>, known: Option<&Person>) -> bool {
    let has = |list: &[String], wanted: &str| list.iter().any(|one| one == wanted);
    named.iter().any(|name| match (name.strip_prefix(GROUP), name.strip_prefix(ROLE)) {
        (Some(group), _) => known.is_some_and(|known| has(&known.groups, group)),
        (None, Some(role)) => has(who.roles, role) || known.is_some_and(|known| has(&known.roles, role)),
        // Nobody gets to be a group or a role by being called like one.
        (None, None) => name == who.principal,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn a_name_is_a_principal_a_group_or_a_role() {
        let ada = Person {
            tenant: TenantId(1),
            principal: "ada".to_owned(),
            display_name: None,
            roles: texts(&["manager"]),
            groups: texts(&["finance"]),
            addresses: std::collections::BTreeMap::new(),
            created_at: 0,
            updated_at: 0,
        };
        let shown = texts(&["auditor"]);
        let who = Respondent { tenant: TenantId(1), principal: "ada", roles: &shown };
        for (named, in_directory, expected) in [
            (["ada"], false, true),
            (["bob"], true, false),
            (["group:finance"], true, true),
            (["group:finance"], false, false),
            (["group:manager"], true, false),
            (["group:auditor"], true, false),
            (["role:manager"], true, true),
            (["role:manager"], false, false),
            (["role:auditor"], false, true),
            (["role:finance"], true, false),
            (["finance"], true, false),
        ] {
            let known = in_directory.then_some(&ada);
            assert_eq!(is_among(&texts(&named), who, known), expected, "{named:?} {in_directory}");
        }
        for name in ["group:finance", "role:manager"] {
            let posing = Respondent { principal: name, roles: &[], ..who };
            assert!(!is_among(&texts(&[name]), posing, None), "{name}");
        }
    }
}
