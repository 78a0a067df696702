//! Who may see an intent and work on it. Agents say themselves who they are, so this orders work, and keys keep strangers out.

use serde::{Deserialize, Serialize};

use crate::{Millis, Rejection, Run, limits};

/// What somebody may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Permission {
    /// See it.
    Read,
    /// Work on it.
    Write,
    /// Say who else may.
    Admin,
}

impl Permission {
    /// Every permission, from less to more.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Admin];

    /// Its name everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }

    /// The permission with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|permission| permission.name() == name)
    }
}

/// Somebody who may do something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AccessEntry {
    /// What the entry is known by.
    pub id: String,
    /// Who.
    pub principal: String,
    /// What they are: `agent`, `user` or whatever else somebody calls it.
    pub principal_type: String,
    /// What they may do, and everything below it.
    pub permission: Permission,
    /// Who said so.
    pub granted_by: String,
    /// When.
    pub granted_at: Millis,
    /// Until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Millis>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Who may see an intent and work on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Access {
    /// Nobody may but those who are named, and whoever made it.
    #[serde(default)]
    pub closed: bool,
    /// Those who are named.
    #[serde(default)]
    pub entries: Vec<AccessEntry>,
}

impl Access {
    /// Refuses what makes no sense or does not fit.
    pub(super) fn check(&self) -> Result<(), Rejection> {
        if self.entries.len() > limits::ACCESS_ENTRIES_MAX {
            let message = format!("an intent takes at most {} entries", limits::ACCESS_ENTRIES_MAX);
            return Err(Rejection::invalid("entries", message));
        }
        for (at, entry) in self.entries.iter().enumerate() {
            let fits = |text: &str| (1..=limits::AGENT_NAME_CHARS_MAX).contains(&text.chars().count());
            let reason = entry.reason.as_ref().map_or(0, |reason| reason.chars().count());
            if !fits(&entry.principal) || !fits(&entry.principal_type) {
                let message = format!(
                    "'principal_id' and 'principal_type' have 1 to {} characters",
                    limits::AGENT_NAME_CHARS_MAX
                );
                return Err(Rejection::invalid(format!("entries.{at}.principal_id"), message));
            }
            if reason > limits::REASON_CHARS_MAX {
                let message = format!("'reason' has at most {} characters", limits::REASON_CHARS_MAX);
                return Err(Rejection::invalid(format!("entries.{at}.reason"), message));
            }
        }
        Ok(())
    }

    /// Whether somebody has said of this one that they may administer it. Nobody says so of themselves.
    fn names_admin(&self, who: &str, now: Millis) -> bool {
        let lasts = |entry: &AccessEntry| entry.expires_at.is_none_or(|end| now < end);
        let named = |entry: &&AccessEntry| entry.principal == who && entry.granted_by != who;
        let mut entries = self.entries.iter().filter(named);
        entries.any(|entry| lasts(entry) && entry.permission == Permission::Admin)
    }

    fn grants(&self, who: &str, permission: Permission, now: Millis) -> bool {
        let lasts = |entry: &AccessEntry| entry.expires_at.is_none_or(|end| now < end);
        let named = |entry: &&AccessEntry| entry.principal == who || entry.principal == "*";
        let mut entries = self.entries.iter().filter(named);
        entries.any(|entry| lasts(entry) && entry.permission >= permission)
    }
}

impl Run {
    /// Whether somebody may do this with it. Whoever made it may do everything, and so may everybody where nobody says
    /// otherwise.
    pub fn permits(&self, who: &str, permission: Permission, now: Millis) -> bool {
        let Some(access) = self.intent().and_then(|intent| intent.access.as_deref()) else { return true };
        // Who may is only for those to say who may do everything, also where everybody may work.
        let open = !access.closed && (permission < Permission::Admin || access.entries.is_empty());
        open || self.is_maker(who) || access.grants(who, permission, now)
    }

    /// Whether somebody made it.
    pub(super) fn is_maker(&self, who: &str) -> bool {
        self.intent_text("created_by").as_deref() == Some(who) || self.state.by.as_deref() == Some(who)
    }

    /// Whether somebody is named as one who may administer it.
    pub(super) fn names_admin(&self, who: &str, now: Millis) -> bool {
        let access = self.intent().and_then(|intent| intent.access.as_deref());
        access.is_some_and(|access| access.names_admin(who, now))
    }

    pub(super) fn check_permits(
        &self,
        who: &str,
        permission: Permission,
        now: Millis,
    ) -> Result<(), Rejection> {
        if self.permits(who, permission, now) {
            return Ok(());
        }
        Err(Rejection::NotPermitted { who: who.to_owned(), permission })
    }
}
