//! The directory of people over HTTP: who they are, which roles and groups they have, and where channels reach them.
//!
//! Names and addresses are personal data: they go to those who may read them, and never into logs or errors.

use std::collections::BTreeMap;
use std::sync::Arc;

use abide_store::Person;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::auth::Principal;
use crate::body::JsonBody;
use crate::error::{ApiError, Result};
use crate::limits::{LABEL_CHARS_MAX, ROLE_CHARS_MAX, ROLES_MAX};
use crate::names::{self, NameProblem, problem};
use crate::page::PageQuery;
use crate::path_name::PathName;
use crate::time;

/// What is to be known about a person. It replaces what was known.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SetPerson {
    /// What they are called.
    display_name: Option<String>,
    /// The roles they have.
    #[serde(default)]
    roles: Vec<String>,
    /// The groups they belong to.
    #[serde(default)]
    groups: Vec<String>,
    /// An address for each channel: `email`, `slack`, `pagerduty` or what you call yours.
    #[serde(default)]
    addresses: BTreeMap<String, String>,
}

/// A person.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PersonView {
    /// Who, as keys and tokens name them.
    principal: String,
    /// What they are called.
    #[serde(skip_serializing_if = "Option::is_none")]
    display_name: Option<String>,
    /// The roles they have.
    roles: Vec<String>,
    /// The groups they belong to.
    groups: Vec<String>,
    /// An address for each channel.
    addresses: BTreeMap<String, String>,
    /// When they were first entered.
    created_at: String,
    /// When the entry was set last.
    updated_at: String,
}

/// A page of people.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PeoplePage {
    /// People, by principal.
    people: Vec<PersonView>,
    /// Where the next page begins; `null` on the last.
    next_cursor: Option<String>,
}

impl From<Person> for PersonView {
    fn from(person: Person) -> Self {
        Self {
            principal: person.principal,
            display_name: person.display_name,
            roles: person.roles,
            groups: person.groups,
            addresses: person.addresses,
            created_at: time::rfc3339(person.created_at),
            updated_at: time::rfc3339(person.updated_at),
        }
    }
}

/// The tenant's people by principal.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    principal: Principal,
    query: PageQuery,
) -> Result<Json<PeoplePage>> {
    let after = query.cursor.clone().unwrap_or_default();
    let found = app.engine().store().people(principal.tenant, after, query.limit() + 1).await?;
    let (people, next_cursor) = query.cut(found.into_iter(), |person| person.principal.clone());
    Ok(Json(PeoplePage { people: people.into_iter().map(PersonView::from).collect(), next_cursor }))
}

/// A person.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    principal: Principal,
    PathName(person): PathName,
) -> Result<Json<PersonView>> {
    let found = app.engine().store().person(principal.tenant, person).await?;
    found.map(|person| Json(person.into())).ok_or_else(no_such_person)
}

/// Enters a person, or replaces what was known.
pub(crate) async fn set(
    State(app): State<Arc<App>>,
    principal: Principal,
    PathName(person): PathName,
    body: Result<JsonBody<SetPerson>>,
) -> Result<Json<PersonView>> {
    names::check_principal(&person)?;
    // The reader's own words may repeat an address.
    let JsonBody(set) = body.map_err(|error| if error.is_invalid() { shape() } else { error })?;
    check(&set)?;
    let now = app.engine().clock().now();
    let SetPerson { display_name, roles, groups, addresses } = set;
    let tenant = principal.tenant;
    let person = Person {
        tenant,
        principal: person,
        display_name,
        roles,
        groups,
        addresses,
        created_at: now,
        updated_at: now,
    };
    let name = person.principal.clone();
    app.engine().store().put_person(person).await?;
    let kept = app.engine().store().person(tenant, name).await?;
    kept.map(|person| Json(person.into())).ok_or_else(no_such_person)
}

fn shape() -> ApiError {
    let message = r#"the body is {"displayName": "...", "roles": ["..."], "groups": ["..."], "addresses": {"email": "..."}}, any of it left out"#;
    ApiError::new("validation_error", message)
}

fn check(set: &SetPerson) -> std::result::Result<(), NameProblem> {
    set.display_name.as_deref().map_or(Ok(()), |name| names::check_label("displayName", name))?;
    names::check_roles("roles", &set.roles)?;
    names::check_roles("groups", &set.groups)?;
    if set.addresses.len() > ROLES_MAX {
        return Err(problem(
            "addresses",
            format!("there are more than {ROLES_MAX} addresses; leave some out"),
        ));
    }
    if !set.addresses.keys().all(|channel| names::is_identifier(channel, ROLE_CHARS_MAX)) {
        let message = format!(
            "a channel in 'addresses' has 1 to {ROLE_CHARS_MAX} letters from A to Z, digits or any of . _ @ : | + -"
        );
        return Err(problem("addresses", message));
    }
    if !set.addresses.values().all(|address| names::check_label("addresses", address).is_ok()) {
        let message = format!("an address has 1 to {LABEL_CHARS_MAX} characters on one line");
        return Err(problem("addresses", message));
    }
    Ok(())
}

/// Forgets a person.
pub(crate) async fn remove(
    State(app): State<Arc<App>>,
    principal: Principal,
    PathName(person): PathName,
) -> Result<StatusCode> {
    let gone = app.engine().store().delete_person(principal.tenant, person).await?;
    if gone { Ok(StatusCode::NO_CONTENT) } else { Err(no_such_person()) }
}

fn no_such_person() -> ApiError {
    ApiError::new("person_not_found", "there is nobody of this principal; list them to see who there is")
}
