//! Whom a ladder, a gate or a channel means: people of the directory, their groups and roles, and addresses that are
//! allowed.

use std::collections::HashMap;
use std::sync::Arc;

use abide_core::event::InterruptRequested;
use abide_core::{Named, Respondent, TenantId};
use abide_notify::{Channels, Recipient};
use abide_store::{Person, Store};

use crate::{Error, limits};

/// Who is to be told at one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Audience {
    /// Names of the directory, `group:…`, `role:…`, or addresses. Nobody in particular if there are none.
    pub(super) names: Vec<String>,
    /// Whether the ladder names them.
    pub(super) by_ladder: bool,
}

/// Who is asked, if not everybody is.
pub(super) fn asked(requested: &InterruptRequested) -> Vec<String> {
    let mut names = requested.audience();
    for name in &requested.respondents {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

/// Who is told at an attempt over a channel.
pub(super) fn audience(notify_to: Option<&str>, asked: &[String], defaults: &[String]) -> Audience {
    let names = match notify_to {
        Some(name) => vec![name.to_owned()],
        None if !asked.is_empty() => asked.to_vec(),
        None => defaults.to_vec(),
    };
    Audience { names, by_ladder: notify_to.is_some() }
}

/// A sender or a person, with what the directory knows of them.
pub(crate) fn respondent<'a>(principal: &'a str, known: Option<&'a Person>) -> Respondent<'a> {
    let (groups, roles): (&[String], &[String]) =
        known.map_or((&[], &[]), |person| (&person.groups, &person.roles));
    Respondent { principal, groups, roles, shown_roles: &[] }
}

/// Who is meant by some names.
#[derive(Default)]
pub(super) struct Meant {
    pub(super) people: Vec<Person>,
    pub(super) addresses: Vec<String>,
    /// Names that stand for nobody who may be told, and why.
    pub(super) unknown: Vec<(String, String)>,
    /// How many people there are beyond those that are told at once.
    pub(super) beyond: usize,
}

impl Meant {
    pub(super) fn is_empty(&self) -> bool {
        self.people.is_empty() && self.addresses.is_empty()
    }

    fn add(&mut self, person: &Person) {
        if self.people.iter().any(|known| known.principal == person.principal) {
            return;
        }
        if self.people.len() + self.addresses.len() >= limits::NOTICE_RECIPIENTS_MAX {
            self.beyond += 1;
        } else {
            self.people.push(person.clone());
        }
    }
}

/// The people of a tenant, as far as they were asked for.
pub(super) struct Directory<'a> {
    store: &'a dyn Store,
    channels: &'a Channels,
    tenant: TenantId,
    known: HashMap<String, Arc<[Person]>>,
}

impl<'a> Directory<'a> {
    pub(super) fn new(store: &'a dyn Store, channels: &'a Channels, tenant: TenantId) -> Self {
        Self { store, channels, tenant, known: HashMap::new() }
    }

    /// Who is meant by these names.
    pub(super) async fn meant(&mut self, names: &[String]) -> Result<Meant, Error> {
        let mut meant = Meant::default();
        for name in names {
            let people = self.people(name).await?;
            people.iter().for_each(|person| meant.add(person));
            if !people.is_empty() {
                continue;
            }
            match Named::of(name) {
                Named::Principal(name) if self.channels.allowed(name) => {
                    meant.addresses.push(name.to_owned());
                }
                Named::Principal(_) => {
                    let reason =
                        "neither the directory nor notify.allow has it; add the person, or allow the address";
                    meant.unknown.push((name.clone(), reason.to_owned()));
                }
                _ => {
                    let reason = "nobody in the directory belongs to it; add somebody, or name another";
                    meant.unknown.push((name.clone(), reason.to_owned()));
                }
            }
        }
        Ok(meant)
    }

    async fn people(&mut self, name: &str) -> Result<Arc<[Person]>, Error> {
        if let Some(known) = self.known.get(name) {
            return Ok(known.clone());
        }
        let found: Arc<[Person]> = match Named::of(name) {
            Named::Principal(name) => {
                self.store.person(self.tenant, name.to_owned()).await?.into_iter().collect()
            }
            Named::Group(group) => self.all(|person| person.groups.iter().any(|own| own == group)).await?,
            Named::Role(role) => self.all(|person| person.roles.iter().any(|own| own == role)).await?,
        };
        self.known.insert(name.to_owned(), found.clone());
        Ok(found)
    }

    async fn all(&self, wanted: impl Fn(&Person) -> bool) -> Result<Arc<[Person]>, Error> {
        let (mut found, mut after) = (Vec::new(), String::new());
        loop {
            let page = self.store.people(self.tenant, after, limits::PEOPLE_PAGE_MAX).await?;
            let Some(last) = page.last() else { return Ok(found.into()) };
            after = last.principal.clone();
            found.extend(page.into_iter().filter(|person| wanted(person)));
        }
    }
}

/// Where a channel reaches a person.
pub(super) fn address<'a>(channels: &Channels, channel: &str, person: &'a Person) -> Option<&'a str> {
    let by_kind = || person.addresses.get(channels.kind(channel)?.name());
    person.addresses.get(channel).or_else(by_kind).map(String::as_str)
}

/// A person as a message has them.
pub(super) fn recipient(channels: &Channels, channel: &str, person: &Person) -> Recipient {
    Recipient {
        name: person.principal.clone(),
        address: address(channels, channel, person).map(str::to_owned),
        display_name: person.display_name.clone(),
    }
}

/// Somebody of whom nothing but the address is known.
pub(super) fn stranger(address: &str) -> Recipient {
    Recipient { name: address.to_owned(), address: Some(address.to_owned()), display_name: None }
}
