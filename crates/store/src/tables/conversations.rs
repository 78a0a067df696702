//! Which run of a tenant has a conversation's id.

use abide_core::{Hash, Key};

use crate::db::{self, Connection};
use crate::sql::TAKE_NAME;

/// Those of the names that another run has.
pub(crate) fn taken(connection: Connection<'_>, key: Key, names: &[Hash]) -> db::Result<Vec<Hash>> {
    let mut statement = connection
        .prepare_cached("SELECT 1 FROM conversations WHERE tenant = $1 AND name = $2 AND run <> $3")?;
    let mut taken = Vec::new();
    for name in names {
        if statement.exists((key.tenant.0, name, key.id.as_bytes()))? {
            taken.push(*name);
        }
    }
    Ok(taken)
}

/// The names that a run has, in their order.
pub(crate) fn of_run(connection: Connection<'_>, key: Key) -> db::Result<Vec<Hash>> {
    connection
        .prepare_cached("SELECT name FROM conversations WHERE tenant = $1 AND run = $2 ORDER BY name")?
        .query_map((key.tenant.0, key.id.as_bytes()), |row| row.get(0))?
        .collect()
}

/// A run has these names and no others.
pub(crate) fn rebuild(transaction: Connection<'_>, key: Key, names: &[Hash]) -> db::Result<()> {
    forget(transaction, key)?;
    let mut take = transaction.prepare_cached(TAKE_NAME)?;
    for name in names {
        take.execute((key.tenant.0, name, key.id.as_bytes()))?;
    }
    Ok(())
}

/// A run that is removed gives its names back.
pub(crate) fn forget(transaction: Connection<'_>, key: Key) -> db::Result<()> {
    transaction
        .prepare_cached("DELETE FROM conversations WHERE tenant = $1 AND run = $2")?
        .execute((key.tenant.0, key.id.as_bytes()))
        .map(drop)
}
