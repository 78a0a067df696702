//! One try at a message: what it says, and how it ended.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use abide_core::event::{Event, InterruptRequested, NodeEvent, Resolution};
use abide_core::{Key, Millis, Open, TenantId, hex, retry_after, sha256};
use abide_notify::{About, ChannelKind, Failure, Message, Outcome, Purpose, Recipient};
use abide_store::{FollowUp, HowEnded, NoticeDelivery, NoticeState, Person, Role};
use futures_util::FutureExt;

use super::directory::{self, Directory};
use super::words::Words;
use crate::callbacks::{Asked, CHANNEL_SUBJECT};
use crate::shell::Shell;
use crate::timers::rest;
use crate::{Error, Window, limits};

/// Tries once, and writes down how that ended.
pub(super) async fn carry(shell: Arc<Shell>, row: NoticeDelivery) {
    // There are as many places as are under way at once, until the engine is shutting down.
    let Ok(_place) = shell.notices.places.try_acquire() else { return };
    if !shell.holds(Role::Notices) {
        return;
    }
    let attempt = async {
        match &row.follow {
            Some(follow) => shell.follow_up(&row, follow).await,
            None => shell.tell(&row).await,
        }
    };
    let how = match AssertUnwindSafe(attempt).catch_unwind().await {
        Ok(Ok(how)) => how,
        Ok(Err(error)) if error.is_lasting() => given_up(&row, format!("it can't be made ready: {error}")),
        Ok(Err(error)) => {
            tracing::error!(run = %row.id.run, %error, "a message can't be made ready; trying again");
            return rest().await;
        }
        Err(_) => {
            let reason = "this server failed at it; its log tells where, which is a bug to report";
            given_up(&row, reason.to_owned())
        }
    };
    shell.counters.told(&how);
    shell.settle_notice(&row, how).await;
}

fn given_up(row: &NoticeDelivery, reason: String) -> HowEnded {
    if row.follow.is_some() { HowEnded::Unfollowed { reason } } else { HowEnded::Dead { reason } }
}

/// Why a message is put off once.
const OVERTAKEN: &str = "a later attempt is due";

/// Why a reminder is put off until the run is released.
const STOPPED: &str = "the run is stopped";

/// What is to be known of an open interrupt to tell of it.
struct Seen {
    open: Open,
    node: String,
    workflow: String,
    token_ms: Option<Millis>,
}

impl Shell {
    async fn tell(&self, row: &NoticeDelivery) -> Result<HowEnded, Error> {
        let seen = self.read(row.key(), |run| {
            let open = run.interrupt(row.id.interrupt)?;
            let node = run.interrupted_node(open);
            Some(Seen {
                open: open.clone(),
                node: node.to_string(),
                workflow: run.graph().workflow_id.to_string(),
                token_ms: run.graph().token_ms(node),
            })
        });
        let seen = match seen.await {
            Ok(Some(seen)) => seen,
            Ok(None) | Err(Error::RunNotFound(_) | Error::Erased(_)) => return Ok(HowEnded::Withdrawn),
            Err(error) if error.is_lasting() => {
                return Ok(HowEnded::Dead { reason: format!("its run can't be read: {error}") });
            }
            Err(error) => return Err(error),
        };
        // A later attempt takes this one's place in a moment: it is due, or was just recorded. One that nothing took the
        // place of was sent again by somebody, who means it.
        let now = self.clock.now();
        // A question is told of when it is asked, but nobody is reminded of what stands still.
        if seen.open.stands_since.is_some() && row.id.attempt > 1 {
            let due = now.saturating_add(limits::STOPPED_REST_MS);
            return Ok(HowEnded::PutOff { due, reason: STOPPED.to_owned() });
        }
        let overtaken =
            seen.open.attempt > row.id.attempt || seen.open.next_attempt_at().is_some_and(|next| next <= now);
        if overtaken && row.reason.as_deref() != Some(OVERTAKEN) {
            let due = now.saturating_add(limits::STORE_REST_MS as Millis);
            return Ok(HowEnded::PutOff { due, reason: OVERTAKEN.to_owned() });
        }
        let message = self.question(row, &seen).await?;
        let sent = self.notices.channels.send(&row.channel, &message).await;
        self.pass(Window::EffectReport);
        let now = self.clock.now();
        Ok(match sent {
            Ok(_) => HowEnded::Sent { at: now },
            Err(failure) => match self.again_at(row, &failure, now) {
                Some(due) => HowEnded::Again { due, reason: failure.reason },
                None => HowEnded::Dead { reason: failure.reason },
            },
        })
    }

    /// When a failed try is made again, if it is.
    fn again_at(&self, row: &NoticeDelivery, failure: &Failure, now: Millis) -> Option<Millis> {
        let seed = [idempotency_key(row).as_bytes(), &row.tenant.0.to_be_bytes()].concat();
        let wait = retry_after(row.tries.saturating_add(1), &seed).filter(|_| failure.again);
        let given_up = wait.is_none();
        let (run, channel, reason) = (row.id.run, &row.channel, &failure.reason);
        tracing::warn!(%run, channel, reason, given_up, "a message was not taken");
        wait.map(|wait| now.saturating_add(wait.max(failure.retry_after.unwrap_or_default())))
    }

    async fn question(&self, row: &NoticeDelivery, seen: &Seen) -> Result<Message, Error> {
        let (open, asked) = (&seen.open, &seen.open.requested);
        let may_answer = directory::asked(asked);
        let (recipient, mentions) = self.recipients(row, asked, &may_answer).await?;
        let link = self.link(row, seen, &may_answer).await?;
        let words = Words::of(asked, &seen.node);
        let max_attempts = asked.ladder.as_ref().map_or(1, |ladder| ladder.max_attempts);
        Ok(Message {
            idempotency_key: idempotency_key(row),
            purpose: Purpose::Ask { attempt: row.id.attempt, max_attempts },
            at: self.clock.now(),
            about: Some(about(row, asked, Some(seen.node.clone()), Some(seen.workflow.clone()))),
            title: words.title,
            question: words.question,
            context: words.context,
            choices: words.choices,
            link,
            deadline: open.deadline(),
            next_attempt_at: open.next_attempt_at(),
            recipient,
            mentions,
        })
    }

    /// Who is told, and whom a message to many names.
    async fn recipients(
        &self,
        row: &NoticeDelivery,
        requested: &InterruptRequested,
        asked: &[String],
    ) -> Result<(Recipient, Vec<Recipient>), Error> {
        let channels = &*self.notices.channels;
        let mut directory = Directory::new(&*self.store, channels, row.tenant);
        if !channels.is_shared(&row.channel) {
            let Some(person) = &row.person else {
                return Ok((directory::stranger(&row.recipient), Vec::new()));
            };
            let known = directory.meant(std::slice::from_ref(person)).await?.people.pop();
            let display_name = known.and_then(|person| person.display_name);
            let (name, address) = (person.clone(), Some(row.recipient.clone()));
            return Ok((Recipient { name, address, display_name }, Vec::new()));
        }
        let ladder = requested.ladder.as_ref();
        let notify_to = ladder.and_then(|ladder| ladder.target(row.id.attempt).notify_to);
        let names = directory::audience(notify_to, asked, channels.default_recipients(&row.channel)).names;
        let meant = directory.meant(&names).await?;
        let people = meant.people.iter().map(|person| directory::recipient(channels, &row.channel, person));
        let strangers = meant.addresses.iter().map(|address| directory::stranger(address));
        let mut mentions: Vec<Recipient> = people.chain(strangers).collect();
        if notify_to.is_none() {
            // Those who are asked are named, known or not.
            let unknown = meant.unknown.into_iter();
            mentions.extend(unknown.map(|(name, _)| Recipient { name, ..Recipient::default() }));
        }
        let name = if row.recipient.is_empty() { row.channel.clone() } else { row.recipient.clone() };
        Ok((Recipient { name, ..Recipient::default() }, mentions))
    }

    /// Where it is answered. A link that answers by itself goes to a person who may, or to whomever a channel reaches if
    /// everybody may; anybody else signs in.
    async fn link(
        &self,
        row: &NoticeDelivery,
        seen: &Seen,
        asked: &[String],
    ) -> Result<Option<String>, Error> {
        let Some(minter) = self.callbacks.minter() else { return Ok(None) };
        let sign_in = || minter.sign_in(row.key(), row.id.interrupt);
        let channels = &*self.notices.channels;
        if !channels.signs_links(&row.channel) {
            return Ok(sign_in());
        }
        let subject = match &row.person {
            Some(person) => {
                let known = self.store.person(row.tenant, person.clone()).await?;
                let may = |person: &Person| {
                    let who = directory::respondent(&person.principal, Some(person));
                    seen.open.requested.may_be_answered_by(&who)
                };
                known.filter(may).map(|person| person.principal)
            }
            None => {
                let anybody = asked.is_empty() && !seen.open.requested.tells_people_apart();
                anybody.then(|| format!("{CHANNEL_SUBJECT}{}", row.channel))
            }
        };
        let Some(subject) = subject else { return Ok(sign_in()) };
        let asked = Asked {
            key: row.key(),
            node: &seen.node,
            id: row.id.interrupt,
            deadline: seen.open.deadline(),
            token_ms: seen.token_ms,
            tells_apart: false,
            at: self.clock.now(),
            subject: Some(&subject),
        };
        Ok(Some(minter.mint(&asked).url))
    }

    /// Tells what became of an interrupt.
    async fn follow_up(&self, row: &NoticeDelivery, follow: &FollowUp) -> Result<HowEnded, Error> {
        let channels = &*self.notices.channels;
        let resolves = channels.kind(&row.channel) == Some(ChannelKind::PagerDuty);
        // What may not have arrived is taken back where that does no harm, and not spoken of anywhere else.
        if row.state != NoticeState::Sent && !resolves {
            return Ok(HowEnded::Followed);
        }
        let Some((asked, node)) = self.requested(row.key(), row.id.interrupt.sequence()).await? else {
            return Ok(HowEnded::Followed);
        };
        let by = self.name_of(row.tenant, &follow.by).await?;
        let purpose = Purpose::FollowUp { outcome: outcome(follow.outcome), by, at: follow.at };
        let (recipient, mentions) = self.recipients(row, &asked, &directory::asked(&asked)).await?;
        let message = Message {
            idempotency_key: format!("{}/closed", idempotency_key(row)),
            purpose,
            at: self.clock.now(),
            title: Words::of(&asked, node.as_deref().unwrap_or_default()).title,
            about: Some(about(row, &asked, node, None)),
            question: None,
            context: None,
            choices: Vec::new(),
            link: self.callbacks.minter().and_then(|minter| minter.sign_in(row.key(), row.id.interrupt)),
            deadline: None,
            next_attempt_at: None,
            recipient,
            mentions,
        };
        let sent = channels.send(&row.channel, &message).await;
        self.pass(Window::EffectReport);
        let now = self.clock.now();
        Ok(match sent {
            Ok(_) => HowEnded::Followed,
            Err(failure) => match self.again_at(row, &failure, now) {
                Some(due) => HowEnded::FollowAgain { due, reason: failure.reason },
                None => HowEnded::Unfollowed {
                    reason: format!("nobody was told how it ended: {}", failure.reason),
                },
            },
        })
    }

    /// What somebody is called who closed a question; nothing for the server itself.
    async fn name_of(&self, tenant: TenantId, principal: &str) -> Result<Option<String>, Error> {
        if principal.starts_with("system:") {
            return Ok(None);
        }
        let known = self.store.person(tenant, principal.to_owned()).await?;
        let name = known.and_then(|person| person.display_name);
        Ok(Some(name.unwrap_or_else(|| principal.to_owned())))
    }

    /// What was asked, and by which node. `None` if nobody can read that any more.
    async fn requested(
        &self,
        key: Key,
        sequence: u64,
    ) -> Result<Option<(InterruptRequested, Option<String>)>, Error> {
        let records = match self.store.journal(key, sequence, 1).await {
            Ok(records) => records,
            Err(abide_store::Error::Damaged { .. } | abide_store::Error::Sealed(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let Some(record) = records.into_iter().next() else { return Ok(None) };
        let node = record.node.as_ref().map(ToString::to_string);
        match record.event() {
            Ok(Event::Node { event: NodeEvent::InterruptRequested(asked), .. }) => Ok(Some((*asked, node))),
            _ => Ok(None),
        }
    }

    /// Whom a test is sent to, or why nobody.
    pub(super) async fn test_recipient(
        &self,
        tenant: TenantId,
        channel: &str,
        to: Option<&str>,
    ) -> Result<Result<Recipient, String>, Error> {
        let channels = &*self.notices.channels;
        if channels.kind(channel).is_none() {
            return Ok(Err("there is no channel of that name; `GET /v1/channels` lists them".to_owned()));
        }
        let named = to.map(str::to_owned).or_else(|| channels.default_recipients(channel).first().cloned());
        let Some(name) = named else {
            if channels.is_shared(channel) {
                return Ok(Ok(Recipient { name: channel.to_owned(), ..Recipient::default() }));
            }
            return Ok(
                Err("nobody is named, and the channel has no recipients; say whom to tell".to_owned()),
            );
        };
        let meant = Directory::new(&*self.store, channels, tenant).meant(std::slice::from_ref(&name)).await?;
        if let Some((name, reason)) = meant.unknown.into_iter().next() {
            return Ok(Err(format!("'{name}' can't be told: {reason}")));
        }
        let person = meant.people.first().map(|person| directory::recipient(channels, channel, person));
        let recipient =
            person.or_else(|| meant.addresses.first().map(|address| directory::stranger(address)));
        Ok(match recipient {
            Some(recipient) if recipient.address.is_none() && !channels.is_shared(channel) => Err(format!(
                "the directory has no address of {name} for this channel; add one under its name"
            )),
            Some(recipient) => Ok(recipient),
            None => Err(format!("'{name}' stands for nobody")),
        })
    }
}

fn about(
    row: &NoticeDelivery,
    asked: &InterruptRequested,
    node: Option<String>,
    workflow: Option<String>,
) -> About {
    About { run: row.id.run, interrupt: row.id.interrupt, kind: asked.kind, node, workflow }
}

fn outcome(resolution: Resolution) -> Outcome {
    match resolution {
        Resolution::Resolved => Outcome::Resolved,
        Resolution::Rejected => Outcome::Rejected,
        Resolution::Timeout => Outcome::Timeout,
        Resolution::Expired => Outcome::Expired,
        Resolution::Cancelled => Outcome::Cancelled,
    }
}

/// The same for every try at one message, and for no other message.
fn idempotency_key(row: &NoticeDelivery) -> String {
    let id = &row.id;
    let key = format!("{}/{}/{}/{}", id.interrupt, id.attempt, row.channel, row.recipient);
    if key.len() <= limits::NOTICE_KEY_BYTES_MAX && key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return key;
    }
    format!("{}/{}/{}", id.interrupt, id.attempt, hex(&sha256(key.as_bytes())[..16]))
}
