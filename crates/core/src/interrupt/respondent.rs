//! Who may answer, where a question says so: principals, groups and roles.

use super::{InterruptKind, Quorum};
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
        named.is_empty() || named.iter().any(|name| self.is(name))
    }

    /// Whether a name means them.
    fn is(&self, name: &str) -> bool {
        let has = |list: &[String], wanted: &str| list.iter().any(|own| own == wanted);
        match Named::of(name) {
            Named::Group(group) => has(self.groups, group),
            Named::Role(role) => has(self.roles, role) || has(self.shown_roles, role),
            Named::Principal(name) => name == self.principal,
        }
    }
}

impl InterruptRequested {
    /// Who may decide, if it asks for a decision: principals, `group:…` and `role:…`. Everybody if it names nobody.
    pub fn approvers(&self) -> Vec<String> {
        self.named(["approversList", "approverGroupRefs", "approverRoleRefs"], |data| Some(data.clone()))
    }

    /// Who is told of it, unless its ladder names somebody: its audience, or else those who may decide. Nobody in
    /// particular if it names nobody.
    pub fn audience(&self) -> Vec<String> {
        let given = self.named(["subjects", "groups", "roles"], |data| data.get("audience")?.parse().ok());
        if given.is_empty() { self.approvers() } else { given }
    }

    /// The names under three keys of an approval's data: of principals, of groups and of roles.
    fn named(&self, keys: [&str; 3], part: impl Fn(&JsonMap) -> Option<JsonMap>) -> Vec<String> {
        let data = || self.data.parse::<JsonMap>().ok();
        let data = Some(self.kind).filter(|kind| *kind == InterruptKind::Approval).and_then(|_| data());
        let data = data.and_then(|data| part(&data)).unwrap_or_default();
        let names = |key: &str| data.get(key).and_then(|list| list.parse::<Vec<String>>().ok());
        let listed = keys.into_iter().zip(["", "group:", "role:"]).flat_map(|(key, prefix)| {
            names(key).unwrap_or_default().into_iter().map(move |name| format!("{prefix}{name}"))
        });
        listed.collect()
    }

    /// Whether somebody may answer it.
    pub fn may_be_answered_by(&self, who: &Respondent<'_>) -> bool {
        who.is_among(&self.approvers()) && who.is_among(&self.respondents)
    }

    /// What entitles somebody to answer: of the names that the question and its rules give, those that mean them.
    pub fn qualifies(&self, who: &Respondent<'_>) -> Vec<String> {
        let across = self.rules.iter().flat_map(|rules| &rules.across_groups);
        let across = across.map(|group| format!("group:{group}"));
        let mut names: Vec<String> = Vec::new();
        for name in self.approvers().into_iter().chain(self.respondents.iter().cloned()).chain(across) {
            if who.is(&name) && !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Whether who somebody is to the directory matters for whether they may answer, or for what it counts.
    pub fn needs_directory(&self) -> bool {
        let named = |name: &String| !matches!(Named::of(name), Named::Principal(_));
        let across = self.rules.as_ref().is_some_and(|rules| !rules.across_groups.is_empty());
        across || self.approvers().iter().any(named) || self.respondents.iter().any(named)
    }

    /// Whether it matters who decides: several people have to, or some may not. What is sent to nobody in particular
    /// decides nothing then.
    pub fn tells_people_apart(&self) -> bool {
        let rules = self.rules.as_ref();
        rules.is_some_and(|rules| rules.not_starter || rules.not_asker) || Quorum::of(self).is_some()
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
