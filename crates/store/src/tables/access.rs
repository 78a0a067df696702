//! API keys and people.

use std::sync::Arc;

use crate::db::{self, Connection, Fault, Optional, Row};
use abide_core::{Millis, TenantId};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Database;
use super::admin::{self, setting};
use crate::access::Access;
use crate::store::Answer;
use crate::{ApiKey, KeyChange, Person, Roll};

const VERSION: &str = "keys_version";
pub(crate) const KEYRING: &str = "keyring_mark";

impl<E: Database> Access for E {
    fn version(&self) -> Answer<'_, u64> {
        self.read(version)
    }

    fn roll(&self) -> Answer<'_, Roll> {
        // The version comes first: what is read after it is no older, whatever comes in between.
        self.read(|connection| {
            let version = version(connection)?;
            Ok(Roll { version, keys: api_keys(connection)?, tenants: admin::tenants(connection)? })
        })
    }

    fn change_keys(&self, change: KeyChange) -> Answer<'_, Option<u64>> {
        self.write(move |transaction| change_keys(transaction, &change))
    }

    fn keyring_mark(&self) -> Answer<'_, Option<i64>> {
        self.read(|connection| setting(connection, KEYRING))
    }

    fn set_keyring_mark(&self, was: Option<i64>, mark: i64) -> Answer<'_, bool> {
        self.write(move |transaction| set_keyring_mark(transaction, was, mark))
    }
}

fn version(connection: Connection<'_>) -> db::Result<u64> {
    Ok(setting(connection, VERSION)?.map_or(0, |version| version as u64))
}

/// Tells whoever shares the keys that they are not what they were.
pub(crate) fn note_change(transaction: Connection<'_>) -> db::Result<()> {
    admin::count_up(transaction, VERSION)
}

/// Whoever comes second waits for the first at the row of the version, and finds another one there.
fn change_keys(transaction: Connection<'_>, change: &KeyChange) -> db::Result<Option<u64>> {
    let begin = "INSERT INTO settings (name, value) VALUES ($1, 0) ON CONFLICT (name) DO NOTHING";
    transaction.execute(begin, [VERSION])?;
    let raise = "UPDATE settings SET value = value + 1 WHERE name = $1 AND value = $2 RETURNING value";
    let raised: Option<u64> =
        transaction.query_row(raise, (VERSION, change.since), |row| row.get(0)).optional()?;
    if raised.is_some() {
        forget(transaction, &change.forget)?;
        put(transaction, &change.put)?;
    }
    Ok(raised)
}

fn set_keyring_mark(transaction: Connection<'_>, was: Option<i64>, mark: i64) -> db::Result<bool> {
    let changed = match was {
        None => {
            let sql = "INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
            transaction.execute(sql, (KEYRING, mark))?
        }
        Some(was) => {
            let sql = "UPDATE settings SET value = $1 WHERE name = $2 AND value = $3";
            transaction.execute(sql, (mark, KEYRING, was))?
        }
    };
    Ok(changed > 0)
}

pub(crate) fn put_api_keys(transaction: Connection<'_>, keys: &[ApiKey]) -> db::Result<()> {
    note_change(transaction)?;
    put(transaction, keys)
}

fn put(transaction: Connection<'_>, keys: &[ApiKey]) -> db::Result<()> {
    let mut statement = transaction.prepare_cached(
        "INSERT INTO api_keys (id, tenant, principal, mac, created_at, revoked_at, label, scopes, roles, act_as, \
         expires_at, whole) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT (id) DO UPDATE SET \
         tenant = excluded.tenant, principal = excluded.principal, mac = excluded.mac, \
         created_at = excluded.created_at, revoked_at = excluded.revoked_at, label = excluded.label, \
         scopes = excluded.scopes, roles = excluded.roles, act_as = excluded.act_as, \
         expires_at = excluded.expires_at, whole = excluded.whole",
    )?;
    for key in keys {
        statement.execute((
            &key.id,
            key.tenant.0,
            &key.principal,
            &key.mac[..],
            key.created_at,
            key.revoked_at,
            &key.label,
            key.scopes.as_ref().map(json),
            json(&key.roles),
            key.act_as,
            key.expires_at,
            key.whole,
        ))?;
    }
    Ok(())
}

pub(crate) fn api_keys(connection: Connection<'_>) -> db::Result<Vec<ApiKey>> {
    let mut statement = connection.prepare_cached(
        "SELECT id, tenant, principal, mac, created_at, revoked_at, label, scopes, roles, act_as, expires_at, whole \
         FROM api_keys ORDER BY created_at, id",
    )?;
    statement
        .query_map((), |row| {
            Ok(ApiKey {
                id: row.get(0)?,
                tenant: TenantId(row.get(1)?),
                principal: row.get(2)?,
                mac: Arc::from(row.get::<Vec<u8>>(3)?),
                created_at: row.get(4)?,
                revoked_at: row.get(5)?,
                label: row.get(6)?,
                scopes: row.get::<Option<String>>(7)?.map(|text| read(7, &text)).transpose()?,
                roles: column(row, 8)?,
                act_as: row.get(9)?,
                expires_at: row.get(10)?,
                whole: row.get(11)?,
            })
        })?
        .collect()
}

pub(crate) fn revoke_api_key(transaction: Connection<'_>, id: &str, at: Millis) -> db::Result<bool> {
    note_change(transaction)?;
    let sql = "UPDATE api_keys SET revoked_at = coalesce(revoked_at, $1) WHERE id = $2";
    Ok(transaction.execute(sql, (at, id))? > 0)
}

pub(crate) fn forget_api_keys(transaction: Connection<'_>, ids: &[String]) -> db::Result<()> {
    note_change(transaction)?;
    forget(transaction, ids)
}

fn forget(transaction: Connection<'_>, ids: &[String]) -> db::Result<()> {
    let mut statement = transaction.prepare_cached("DELETE FROM api_keys WHERE id = $1")?;
    ids.iter().try_for_each(|id| statement.execute([id]).map(drop))
}

/// Sets a person's entry. One that was there keeps the time at which it was made.
pub(crate) fn put_person(transaction: Connection<'_>, person: &Person) -> db::Result<()> {
    transaction.execute(
        "INSERT INTO people (tenant, principal, display_name, roles, groups, addresses, created_at, updated_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (tenant, principal) DO UPDATE \
         SET display_name = excluded.display_name, roles = excluded.roles, groups = excluded.groups, \
         addresses = excluded.addresses, updated_at = excluded.updated_at",
        (
            person.tenant.0,
            &person.principal,
            &person.display_name,
            json(&person.roles),
            json(&person.groups),
            json(&person.addresses),
            person.created_at,
            person.updated_at,
        ),
    )?;
    Ok(())
}

const PERSON: &str =
    "SELECT tenant, principal, display_name, roles, groups, addresses, created_at, updated_at FROM people ";

pub(crate) fn get_person(
    connection: Connection<'_>,
    tenant: TenantId,
    principal: &str,
) -> db::Result<Option<Person>> {
    let sql = format!("{PERSON} WHERE tenant = $1 AND principal = $2");
    connection.prepare_cached(&sql)?.query_row((tenant.0, principal), person).optional()
}

pub(crate) fn list_people(
    connection: Connection<'_>,
    tenant: TenantId,
    after: &str,
    limit: usize,
) -> db::Result<Vec<Person>> {
    let sql = format!("{PERSON} WHERE tenant = $1 AND principal > $2 ORDER BY principal LIMIT $3");
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    connection.prepare_cached(&sql)?.query_map((tenant.0, after, limit), person)?.collect()
}

pub(crate) fn delete_person(
    transaction: Connection<'_>,
    tenant: TenantId,
    principal: &str,
) -> db::Result<bool> {
    let sql = "DELETE FROM people WHERE tenant = $1 AND principal = $2";
    Ok(transaction.execute(sql, (tenant.0, principal))? > 0)
}

fn person(row: &Row<'_>) -> db::Result<Person> {
    Ok(Person {
        tenant: TenantId(row.get(0)?),
        principal: row.get(1)?,
        display_name: row.get(2)?,
        roles: column(row, 3)?,
        groups: column(row, 4)?,
        addresses: column(row, 5)?,
        created_at: row.get(6)?,
        updated_at: row.get(7)?,
    })
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("lists and maps of text serialise")
}

fn column<T: DeserializeOwned>(row: &Row<'_>, at: usize) -> db::Result<T> {
    read(at, &row.get::<String>(at)?)
}

fn read<T: DeserializeOwned>(at: usize, text: &str) -> db::Result<T> {
    // The reader's own words may repeat what stands there.
    let unreadable = |_| Fault::Unreadable { column: at, reason: "it is not the JSON it was".to_owned() };
    serde_json::from_str(text).map_err(unreadable)
}
