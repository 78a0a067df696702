//! What a key may be good for. No scope implies another.

use std::fmt;

/// One thing that a key may allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Look at workflows.
    ManifestRead,
    /// Push workflows.
    WorkflowsWrite,
    /// Start runs.
    RunsCreate,
    /// Look at runs and their events.
    RunsRead,
    /// Cancel, pause and resume runs.
    RunsCancel,
    /// Erase what ended runs said.
    RunsErase,
    /// Remove runs that have ended.
    RunsPurge,
    /// Read what runs made.
    ArtifactsRead,
    /// Answer what runs ask.
    ApprovalsRespond,
    /// Register webhooks and look after them.
    WebhooksManage,
    /// Check the record.
    AuditRead,
    /// Set and remove secrets.
    SecretsManage,
    /// Make and revoke keys.
    KeysManage,
    /// Look at the directory of people.
    PeopleRead,
    /// Change the directory of people.
    PeopleManage,
    /// Read the server's metrics.
    MetricsRead,
    /// Do nodes' work.
    WorkPerform,
    /// Have interrupted runs go on.
    RunsResume,
    /// The same against the policy, and cut damaged journals.
    RunsForce,
}

impl Scope {
    /// Every scope, and its name on the wire.
    pub const ALL: [(Self, &'static str); 19] = [
        (Self::ManifestRead, "manifest:read"),
        (Self::WorkflowsWrite, "workflows:write"),
        (Self::RunsCreate, "runs:create"),
        (Self::RunsRead, "runs:read"),
        (Self::RunsCancel, "runs:cancel"),
        (Self::RunsErase, "runs:erase"),
        (Self::RunsPurge, "runs:purge"),
        (Self::ArtifactsRead, "artifacts:read"),
        (Self::ApprovalsRespond, "approvals:respond"),
        (Self::WebhooksManage, "webhooks:manage"),
        (Self::AuditRead, "audit:read"),
        (Self::SecretsManage, "secrets:manage"),
        (Self::KeysManage, "keys:manage"),
        (Self::PeopleRead, "people:read"),
        (Self::PeopleManage, "people:manage"),
        (Self::MetricsRead, "metrics:read"),
        (Self::WorkPerform, "work:perform"),
        (Self::RunsResume, "runs:resume"),
        (Self::RunsForce, "runs:force"),
    ];

    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// The scope with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(scope, _)| *scope)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of scopes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scopes(u32);

impl Scopes {
    /// Every scope there is.
    pub const ALL: Self = Self((1 << Scope::ALL.len()) - 1);

    /// Whether this one is among them.
    pub fn allow(self, scope: Scope) -> bool {
        self.0 & (1 << scope as u32) != 0
    }

    /// Whether all of these are among them.
    pub fn cover(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// They, in the order of the table.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().map(|(scope, _)| scope).filter(move |scope| self.allow(*scope))
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |set, scope| set | 1 << scope as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_scopes_and_no_name_stands_twice() {
        for (at, (scope, name)) in Scope::ALL.iter().enumerate() {
            assert_eq!(*scope as usize, at, "{name}");
            assert_eq!(Scope::by_name(name), Some(*scope), "{name}");
        }
    }

    #[test]
    fn a_set_has_what_was_put_in_and_nothing_else() {
        let set: Scopes = [Scope::RunsRead, Scope::AuditRead].into_iter().collect();
        assert!(set.allow(Scope::RunsRead) && !set.allow(Scope::RunsCreate));
        assert!(Scopes::ALL.cover(set) && !set.cover(Scopes::ALL));
        assert_eq!(set.iter().collect::<Vec<_>>(), [Scope::RunsRead, Scope::AuditRead]);
    }
}
