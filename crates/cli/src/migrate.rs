//! `abide migrate`: a data directory into an empty PostgreSQL database.

use crate::args::MigrateArgs;

pub(crate) async fn migrate(_args: MigrateArgs) -> anyhow::Result<()> {
    anyhow::bail!("not yet")
}
