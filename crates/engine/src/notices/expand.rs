//! Turning an attempt into messages: over which channel, to whom, and what is not sent and why.

use std::collections::HashMap;
use std::sync::Arc;

use abide_core::{Command, TenantId};
use abide_notify::{Channels, Resolved};
use abide_store::{Expanded, Lane, NewMessage, NoticeLine, NoticeRow, NoticeState};
use futures_util::{StreamExt, stream};

use super::directory::{self, Audience, Directory, Meant};
use crate::shell::{Basis, Shell};
use crate::{Error, limits};

/// What is to be known of an interrupt to tell whom an attempt is for.
struct Seen {
    /// The attempt that began last.
    latest: u32,
    hint: Option<String>,
    notify_to: Option<String>,
    asked: Vec<String>,
}

/// What becomes of an attempt.
#[derive(Default)]
struct Plan {
    messages: Vec<NewMessage>,
    /// Whom the ladder names and nobody may tell, and why.
    refused: Option<(String, String)>,
}

impl Plan {
    fn of(messages: Vec<NewMessage>) -> Self {
        Self { messages, refused: None }
    }
}

impl Shell {
    /// Turns attempts into messages. Gives the lines that have something to send now.
    pub(super) async fn expand(self: &Arc<Self>, page: Vec<NoticeRow>) -> Result<Vec<NoticeLine>, Error> {
        let channels = self.notices.channels.clone();
        let mut directories: HashMap<TenantId, Directory<'_>> = HashMap::new();
        let mut seen = stream::iter(page)
            .map(|notice| async move { (notice, self.see(notice).await) })
            .buffered(limits::NOTICE_READS_MAX);
        let mut expanded = Vec::new();
        while let Some((notice, seen)) = seen.next().await {
            let tenant = notice.key.tenant;
            let directory =
                directories.entry(tenant).or_insert_with(|| Directory::new(&*self.store, &channels, tenant));
            let plan = match seen {
                Ok(Some(seen)) => match plan(&channels, directory, &notice, &seen).await {
                    Ok(plan) => plan,
                    // Nobody else waits for what one tenant's directory can't tell.
                    Err(error) if error.is_lasting() => {
                        unreachable(&notice, "", &format!("the directory can't be read: {error}"))
                    }
                    Err(error) => return Err(error),
                },
                Ok(None) => Plan::default(),
                Err(error) if error.is_lasting() => {
                    unreachable(&notice, "", &format!("its run can't be read: {error}"))
                }
                Err(error) => return Err(error),
            };
            if let Some((notify_to, reason)) = &plan.refused {
                self.refuse(&notice, notify_to, reason).await?;
            }
            self.note(&notice, &plan);
            expanded.push(Expanded { notice, messages: plan.messages });
        }
        Ok(self.store.notices().expand(expanded).await?)
    }

    /// `None` if the interrupt is not open any more.
    async fn see(&self, notice: NoticeRow) -> Result<Option<Seen>, Error> {
        let seen = self.read(notice.key, |run| {
            let open = run.interrupt(notice.interrupt)?;
            let target = open.requested.ladder.as_ref().map(|ladder| ladder.target(notice.attempt));
            Some(Seen {
                latest: open.attempt,
                hint: target.and_then(|target| target.channel_hint).map(str::to_owned),
                notify_to: target.and_then(|target| target.notify_to).map(str::to_owned),
                asked: directory::asked(&open.requested),
            })
        });
        match seen.await {
            Err(Error::RunNotFound(_) | Error::Erased(_)) => Ok(None),
            other => other,
        }
    }

    /// Writes into the journal that somebody may not be told. That it stands there already is as good.
    async fn refuse(
        self: &Arc<Self>,
        notice: &NoticeRow,
        notify_to: &str,
        reason: &str,
    ) -> Result<(), Error> {
        let command = Command::RefuseNotice {
            id: notice.interrupt,
            attempt: notice.attempt,
            notify_to: notify_to.to_owned(),
            reason: reason.to_owned(),
        };
        match self.decide(notice.key, &command, Lane::Background, Basis::default(), |_| ()).await {
            Ok(()) | Err(Error::Rejected(_)) => Ok(()),
            Err(error) if error.is_lasting() => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn note(&self, notice: &NoticeRow, plan: &Plan) {
        for message in &plan.messages {
            let (refused, unreachable) =
                (message.state == NoticeState::Refused, message.state == NoticeState::Unreachable);
            self.counters.not_told(refused, unreachable);
            if refused || unreachable {
                let (run, interrupt, attempt) = (notice.key.id, notice.interrupt, notice.attempt);
                let reason = message.reason.as_deref().unwrap_or_default();
                tracing::warn!(%run, %interrupt, attempt, channel = message.channel, reason, "somebody is not told");
            }
        }
    }
}

async fn plan(
    channels: &Channels,
    directory: &mut Directory<'_>,
    notice: &NoticeRow,
    seen: &Seen,
) -> Result<Plan, Error> {
    let Some(Resolved { name: channel, fell_back }) = channels.resolve(seen.hint.as_deref()) else {
        let asked = seen.hint.as_deref().unwrap_or_default();
        return Ok(unreachable(notice, asked, "no channel is configured; add one under [channels]"));
    };
    let draft = draft(notice, &channel, fell_back);
    if notice.attempt < seen.latest {
        let reason = format!("attempt {} began before anybody was told", seen.latest);
        return Ok(Plan::of(vec![draft.unsent(NoticeState::Superseded, reason)]));
    }
    let defaults = channels.default_recipients(&channel);
    let audience = directory::audience(seen.notify_to.as_deref(), &seen.asked, defaults);
    let meant = directory.meant(&audience.names).await?;
    let mut messages = match channels.is_shared(&channel) {
        true => to_all(&draft, &audience, &meant).into_iter().collect(),
        false => to_each(channels, &draft, &meant),
    };
    messages.extend(not_told(&draft, &audience, &meant, channels.is_shared(&channel)));
    if messages.is_empty() {
        let reason = "nobody is named, and the channel has no recipients; set its `to`";
        return Ok(unreachable(notice, &channel, reason));
    }
    let refused = if audience.by_ladder { meant.unknown.into_iter().next() } else { None };
    Ok(Plan { messages, refused })
}

/// One message that names everybody. If the ladder names only somebody who may not be told, there is none.
fn to_all(draft: &NewMessage, audience: &Audience, meant: &Meant) -> Option<NewMessage> {
    if audience.by_ladder && meant.is_empty() {
        return None;
    }
    let names = audience.names.join(", ");
    let recipient = names.chars().take(limits::NOTICE_RECIPIENT_CHARS_MAX).collect();
    Some(NewMessage { recipient, ..draft.clone() })
}

/// Whom nothing is sent to, and why.
fn not_told(draft: &NewMessage, audience: &Audience, meant: &Meant, shared: bool) -> Vec<NewMessage> {
    let state = if audience.by_ladder { NoticeState::Refused } else { NoticeState::Unreachable };
    // A message to many names those who are asked whether the directory has them or not.
    let unknown = meant.unknown.iter().filter(|_| audience.by_ladder || !shared);
    let mut messages: Vec<NewMessage> = unknown
        .map(|(name, reason)| {
            NewMessage { recipient: name.clone(), ..draft.clone() }.unsent(state, reason.clone())
        })
        .collect();
    if meant.beyond > 0 {
        let (beyond, most) = (meant.beyond, limits::NOTICE_RECIPIENTS_MAX);
        let reason = format!("{beyond} more people are meant; {most} are told at once: name a smaller group");
        messages.push(draft.clone().unsent(NoticeState::Unreachable, reason));
    }
    messages
}

/// One message for each address, whoever shares it.
fn to_each(channels: &Channels, draft: &NewMessage, meant: &Meant) -> Vec<NewMessage> {
    let mut messages: Vec<NewMessage> = Vec::new();
    for person in &meant.people {
        let name = person.principal.clone();
        let to = |recipient: String| NewMessage { recipient, person: Some(name.clone()), ..draft.clone() };
        let address = directory::address(channels, &draft.channel, person);
        if address.is_some_and(|address| messages.iter().any(|message| message.recipient == *address)) {
            continue;
        }
        messages.push(match address {
            Some(address) => to(address.to_owned()),
            None => {
                let channel = &draft.channel;
                let reason = format!(
                    "the directory has no address of {name} for '{channel}'; add one under that name"
                );
                to(name.clone()).unsent(NoticeState::Unreachable, reason)
            }
        });
    }
    for address in &meant.addresses {
        if !messages.iter().any(|message| message.recipient == *address) {
            messages.push(NewMessage { recipient: address.clone(), ..draft.clone() });
        }
    }
    messages
}

fn draft(notice: &NoticeRow, channel: &str, hint: Option<String>) -> NewMessage {
    NewMessage {
        channel: channel.to_owned(),
        recipient: String::new(),
        person: None,
        hint,
        state: NoticeState::Waiting,
        reason: None,
        due: notice.at,
    }
}

fn unreachable(notice: &NoticeRow, channel: &str, reason: &str) -> Plan {
    Plan::of(vec![draft(notice, channel, None).unsent(NoticeState::Unreachable, reason.to_owned())])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use abide_core::{InterruptId, RunId};
    use abide_store::Person;

    use super::*;

    #[test]
    fn an_address_that_several_people_share_gets_one_message() {
        let tenant = TenantId(1);
        let person = |principal: &str, address: &str| Person {
            tenant,
            principal: principal.to_owned(),
            display_name: None,
            roles: vec![],
            groups: vec![],
            addresses: BTreeMap::from([("mail".to_owned(), address.to_owned())]),
            created_at: 0,
            updated_at: 0,
        };
        let people = vec![person("ada", "team@x"), person("bob", "bob@x"), person("eve", "team@x")];
        let meant = Meant { people, addresses: vec!["bob@x".to_owned()], ..Meant::default() };
        let interrupt = InterruptId::from_bytes([1; InterruptId::BYTES]);
        let notice = NoticeRow { key: RunId::from_bytes([1; 16]).of(tenant), interrupt, attempt: 1, at: 0 };
        let told = to_each(&Channels::default(), &draft(&notice, "mail", None), &meant);
        let told: Vec<_> = told.iter().map(|one| (one.person.as_deref(), &*one.recipient)).collect();
        assert_eq!(told, [(Some("ada"), "team@x"), (Some("bob"), "bob@x")], "each under a key of its own");
    }
}
