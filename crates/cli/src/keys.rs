//! `abide keys`: API keys of a data directory.

use std::path::Path;

use abide_core::{Millis, TenantId};
use abide_engine::{Clock, SystemClock};
use abide_server::{ApiSecret, Keyring};
use abide_store::{ApiKey, Sqlite, SqliteOptions, Store};
use serde_json::{Value, json};

use crate::args::{DataArgs, KeysArgs, KeysVerb};
use crate::exit::{Exit, Failure};
use crate::output;

pub(crate) async fn dispatch(args: KeysArgs) -> anyhow::Result<()> {
    match args.verb {
        KeysVerb::Create { tenant, principal } => create(&args.data, &tenant, &principal).await,
        KeysVerb::List { json } => list(&args.data, json).await,
        KeysVerb::Revoke { id } => revoke(&args.data, &id).await,
    }
}

async fn create(data: &DataArgs, tenant: &str, principal: &str) -> anyhow::Result<()> {
    let path = data.keyring.clone().unwrap_or_else(|| Keyring::default_path(&data.data));
    let store = Sqlite::open(&SqliteOptions::new(&data.data))?;
    let keyring = open_keyring(&path, &store).await?;
    let tenant = make_tenant(&store, tenant).await?;
    let secret = ApiSecret::generate();
    store.put_api_key(secret.row(&keyring, tenant, principal, SystemClock.now())).await?;
    output::say("this key is shown once; keep it safe:");
    output::line(&secret.text())
}

/// The keyring of a store. A new one is made only where nothing depends on an old one.
pub(crate) async fn open_keyring(path: &Path, store: &dyn Store) -> anyhow::Result<Keyring> {
    if !path.exists() && store.api_keys().await?.iter().any(|key| key.revoked_at.is_none()) {
        anyhow::bail!(
            "the keyring {} is missing, and without it no API key of this data can be checked; \
             put it back, or name it with --keyring (if it is lost: revoke every key, then make new ones)",
            path.display()
        );
    }
    Keyring::open_or_create(path).map_err(anyhow::Error::msg)
}

/// The tenant with this name, made if need be.
pub(crate) async fn make_tenant(store: &dyn Store, name: &str) -> anyhow::Result<TenantId> {
    let tenant = store.tenant(name.to_owned(), true).await?;
    tenant.ok_or_else(|| anyhow::anyhow!("the tenant '{name}' could not be made"))
}

async fn list(data: &DataArgs, json: bool) -> anyhow::Result<()> {
    let keys = Sqlite::open_for_reading(&data.data)?.api_keys().await?;
    if json {
        return output::line(&Value::from_iter(keys.iter().map(shown)).to_string());
    }
    let at = |at: Option<Millis>| at.map_or(String::new(), abide_server::rfc3339);
    let row = |key: &ApiKey| {
        vec![
            key.id.clone(),
            key.tenant.0.to_string(),
            key.principal.clone(),
            at(Some(key.created_at)),
            at(key.revoked_at),
        ]
    };
    output::line(&output::table(
        &["KEY", "TENANT", "PRINCIPAL", "MADE", "REVOKED"],
        keys.iter().map(row).collect(),
    ))
}

fn shown(key: &ApiKey) -> Value {
    json!({
        "id": key.id,
        "tenant": key.tenant.0,
        "principal": key.principal,
        "createdAt": abide_server::rfc3339(key.created_at),
        "revokedAt": key.revoked_at.map(abide_server::rfc3339),
    })
}

async fn revoke(data: &DataArgs, id: &str) -> anyhow::Result<()> {
    // Opening to write would make a directory where there is none.
    drop(Sqlite::open_for_reading(&data.data)?);
    let store = Sqlite::open(&SqliteOptions::new(&data.data))?;
    if store.revoke_api_key(id.to_owned(), SystemClock.now()).await? {
        return output::line(&format!("{id} is revoked"));
    }
    Err(Failure::new(Exit::NotFound, format!("there is no key '{id}'; `abide keys list` shows them")).into())
}
