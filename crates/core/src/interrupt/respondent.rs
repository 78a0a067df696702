//! Who may answer, where a question says so: principals, groups and roles.

use super::InterruptKind;
use crate::JsonMap;
use crate::event::InterruptRequested;

/// What a name stands for that may answer, or is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named<'a> {
    /// Somebody.
    Principal(&'a str),
    /// Everybody of a group: `group:…`.
    Group(&'a str),
    /// Everybody with a role: `role:…`.
    Role(&'a str),
}

impl<'a> Named<'a> {
    /// What this name stands for.
    pub fn of(name: &'a str) -> Self {
        match name.split_once(':') {
            Some(("group", group)) => Self::Group(group),
            Some(("role", role)) => Self::Role(role),
            _ => Self::Principal(name),
        }
    }
}

/// Somebody who wants to answer, as far as they are known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Respondent<'a> {
    /// Who.
    pub principal: &'a str,
    /// The groups that the directory has them in.
    pub groups: &'a [String],
    /// The roles that the directory gives them.
    pub roles: &'a [String],
    /// The roles that they have shown.
    pub shown_roles: &'a [String],
}

impl Respondent<'_> {
    /// Whether they are among those who are named. Nobody named means everybody, and nobody gets to be a group or a role
    /// by being called like one.
    pub fn is_among(&self, named: &[String]) -> bool {
        let has = |list: &[String], wanted: &str| list.iter().any(|own| own == wanted);
        let is_meant = |name: &String| match Named::of(name) {
            Named::Group(group) => has(self.groups, group),
            Named::Role(role) => has(self.roles, role) || has(self.shown_roles, role),
            Named::Principal(name) => name == self.principal,
        };
        named.is_empty() || named.iter().any(is_meant)
    }
}

impl InterruptRequested {
    /// The principals who may decide, if it asks for a decision; everybody if it names none.
    pub fn approvers(&self) -> Vec<String> {
        let list = || self.data.parse::<JsonMap>().ok()?.get("approversList")?.parse().ok();
        Some(self.kind)
            .filter(|kind| *kind == InterruptKind::Approval)
            .and_then(|_| list())
            .unwrap_or_default()
    }

    /// Whether somebody may answer it.
    pub fn may_be_answered_by(&self, who: &Respondent<'_>) -> bool {
        let approvers = self.approvers();
        let decides = approvers.is_empty() || approvers.iter().any(|name| name == who.principal);
        decides && who.is_among(&self.respondents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn a_name_is_a_principal_a_group_or_a_role() {
        let (groups, roles, shown) = (texts(&["finance"]), texts(&["manager"]), texts(&["auditor"]));
        let known = Respondent { principal: "ada", groups: &groups, roles: &roles, shown_roles: &shown };
        let unknown = Respondent { groups: &[], roles: &[], ..known };
        for (named, if_known, if_unknown) in [
            ("ada", true, true),
            ("bob", false, false),
            ("group:finance", true, false),
            ("group:manager", false, false),
            ("group:auditor", false, false),
            ("role:manager", true, false),
            ("role:auditor", true, true),
            ("role:finance", false, false),
            ("finance", false, false),
        ] {
            let found = (known.is_among(&texts(&[named])), unknown.is_among(&texts(&[named])));
            assert_eq!(found, (if_known, if_unknown), "{named}");
        }
        assert!(unknown.is_among(&[]), "nobody is named, so everybody may");
        for name in ["group:finance", "role:manager"] {
            let posing = Respondent { principal: name, ..Respondent::default() };
            assert!(!posing.is_among(&texts(&[name])), "{name}");
        }
    }
}
