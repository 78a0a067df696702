//! `abide keys`: API keys of a data directory that no server uses, of a database, or of a running server.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use abide_core::{Millis, TenantId};
use abide_engine::{Clock, SystemClock};
use abide_server::limits::{KEY_LIFE_MS_MAX, SECRET_KEY_CHARS_MAX};
use abide_server::{ApiSecret, Grant, KeyPage, KeyState, KeyView, Keyring, MadeKey, successor};
use abide_store::{ApiKey, KeyChange, Roll, Sealing, Store};
use anyhow::Context;
use serde_json::{Value, json};

use crate::args::{ClientArgs, CreateKeyArgs, KeysArgs, KeysPlace, KeysVerb, RotateKeyArgs};
use crate::client::{Client, encoded};
use crate::exit::{Exit, Failure};
use crate::output::{self, cell};
use crate::place::{Beside, Place, Told, USUAL_DATA};

pub(crate) async fn dispatch(args: KeysArgs) -> anyhow::Result<()> {
    let json = args.place.json;
    match (Where::of(args.place)?, args.verb) {
        (place, KeysVerb::Create(new)) => tell_made(&place.create(new).await?, json),
        (place, KeysVerb::List) => tell_list(&place.list().await?, json),
        (place, KeysVerb::Rotate(rotate)) => tell_made(&place.rotate(rotate).await?, json),
        (place, KeysVerb::Revoke { id }) => {
            place.revoke(&id).await?;
            output::line(&if json {
                json!({ "keyId": id, "revoked": true }).to_string()
            } else {
                format!("{id} is revoked")
            })
        }
    }
}

/// Where the keys are.
enum Where {
    Data { place: Place, keyring: Option<PathBuf> },
    Server(Client),
}

impl Where {
    /// Flags win over the environment, and there a server over a data directory.
    fn of(place: KeysPlace) -> anyhow::Result<Self> {
        let environment = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let no_flag = place.data.is_none() && place.store.is_none();
        let url = place.url.or_else(|| no_flag.then(|| environment("ABIDE_URL")).flatten());
        if let Some(url) = url {
            let client = ClientArgs { url, api_key: place.api_key, ca: place.ca, json: place.json };
            return Ok(Self::Server(Client::new(&client)?));
        }
        if no_flag && environment("ABIDE_DATA").or(environment("ABIDE_STORE")).is_none() {
            tell_usual_data()?;
        }
        let told = Told { data: place.data, store: place.store };
        let found = Place::of(told, Told::default(), USUAL_DATA)?;
        Ok(Self::Data { place: found, keyring: place.keyring })
    }

    /// Makes a key, and tells it as a server does.
    async fn create(self, new: CreateKeyArgs) -> anyhow::Result<Value> {
        let chosen = new.secret.as_deref().map(read_secret).transpose()?;
        match self {
            Self::Server(client) => {
                let scopes = new.scopes.map(|all| all.iter().map(|scope| scope.name()).collect::<Vec<_>>());
                let body = json!({
                    "tenant": new.tenant,
                    "principal": new.principal,
                    "label": new.label,
                    "scopes": scopes,
                    "roles": new.roles,
                    "actAs": new.act_as,
                    "expiresInMs": new.expires_in,
                    "secret": chosen,
                });
                client.post("/v1/keys", &body).await
            }
            Self::Data { place, keyring } => Desk::open(&place, keyring).await?.create(new, chosen).await,
        }
    }

    async fn list(self) -> anyhow::Result<Value> {
        match self {
            Self::Server(client) => client.pages("/v1/keys", "keys").await,
            Self::Data { place, .. } => {
                let store = place.open_for_reading(Sealing::in_clear())?;
                let (now, tenants) = (now(&*store).await?, store.tenants().await?);
                let keys = store.api_keys().await?;
                let view = |key: &ApiKey| KeyView::of(key, tenant_name(&tenants, key.tenant), now);
                Ok(serde_json::to_value(KeyPage::whole(keys.iter().map(view).collect()))?)
            }
        }
    }

    async fn rotate(self, rotate: RotateKeyArgs) -> anyhow::Result<Value> {
        let chosen = rotate.secret.as_deref().map(read_secret).transpose()?;
        match self {
            Self::Server(client) => {
                let path = format!("/v1/keys/{}:rotate", encoded(&rotate.id));
                let body = json!({ "overlapMs": rotate.overlap, "expiresInMs": rotate.expires_in, "secret": chosen });
                client.post(&path, &body).await
            }
            Self::Data { place, keyring } => {
                // Opening to write would make a directory where there is none.
                drop(place.open_for_reading(Sealing::in_clear())?);
                Desk::open(&place, keyring).await?.rotate(rotate, chosen).await
            }
        }
    }

    async fn revoke(self, id: &str) -> anyhow::Result<()> {
        match self {
            Self::Server(client) => client.delete(&format!("/v1/keys/{}", encoded(id))).await.map(drop),
            Self::Data { place, .. } => {
                drop(place.open_for_reading(Sealing::in_clear())?);
                let Beside { store, now, .. } = place.open_beside().await?;
                if store.revoke_api_key(id.to_owned(), now).await? { Ok(()) } else { Err(no_such_key(id)) }
            }
        }
    }
}

/// Where the data is if nobody says. It is told, because somebody may have meant a server.
fn tell_usual_data() -> anyhow::Result<()> {
    let place = std::path::absolute(USUAL_DATA).context("the current directory can't be read")?;
    let beside = "--data or ABIDE_DATA names another, --url or ABIDE_URL a server";
    output::say(&format!("using the data directory {} ({beside})", place.display()));
    Ok(())
}

/// Data that is open for a change of keys.
struct Desk {
    store: Arc<dyn Store>,
    keyring: Keyring,
    now: Millis,
    /// The keys as they were read. What is decided on them is made only if they still are.
    roll: Roll,
}

impl Desk {
    async fn open(place: &Place, keyring: Option<PathBuf>) -> anyhow::Result<Self> {
        let path = place.keyring(keyring)?;
        let Beside { store, now, .. } = place.open_beside().await?;
        let keyring = place.open_keyring(&path, &*store).await?;
        let roll = store.access().roll().await?;
        Ok(Self { store, keyring, now, roll })
    }

    async fn put(&self, keys: Vec<ApiKey>) -> anyhow::Result<()> {
        let change = KeyChange { since: self.roll.version, put: keys, forget: Vec::new() };
        let made = self.store.access().change_keys(change).await?;
        made.map(drop)
            .context("somebody else has changed keys at the same moment, and nothing was done; try again")
    }

    async fn create(mut self, new: CreateKeyArgs, chosen: Option<String>) -> anyhow::Result<Value> {
        let secret = self.secret(chosen.as_deref())?;
        let mut grant = Grant {
            tenant: TenantId(0),
            principal: new.principal.unwrap_or_else(|| "operator".to_owned()),
            label: new.label,
            scopes: new.scopes.map(|scopes| scopes.into_iter().collect()),
            roles: new.roles,
            act_as: new.act_as,
            expires_at: self.ends(new.expires_in)?,
        };
        // What is wrong is found before a tenant is made.
        grant.clone().row(&secret, &self.keyring, self.now)?;
        grant.tenant = make_tenant(&*self.store, new.tenant.as_deref().unwrap_or("default")).await?;
        let row = grant.row(&secret, &self.keyring, self.now)?;
        self.roll = self.store.access().roll().await?;
        self.secret(chosen.as_deref())?;
        self.put(vec![row.clone()]).await?;
        self.made(&secret, chosen.is_some(), &row, None).await
    }

    async fn rotate(self, rotate: RotateKeyArgs, chosen: Option<String>) -> anyhow::Result<Value> {
        let found = self.roll.keys.iter().find(|key| key.id == rotate.id);
        let mut old = found.cloned().ok_or_else(|| no_such_key(&rotate.id))?;
        if KeyState::of(&old, self.now) != KeyState::Active {
            anyhow::bail!("the key has expired or was revoked, so it has nothing to pass on; make a new one");
        }
        let secret = self.secret(chosen.as_deref())?;
        let mut new = successor(&old, &secret, &self.keyring, self.now);
        new.expires_at = self.ends(rotate.expires_in)?.or(new.expires_at);
        let end = self.ends(Some(rotate.overlap))?;
        old.expires_at = old.expires_at.min(end).or(end);
        self.put(vec![old.clone(), new.clone()]).await?;
        self.made(&secret, chosen.is_some(), &new, Some(&old)).await
    }

    fn secret(&self, chosen: Option<&str>) -> anyhow::Result<ApiSecret> {
        let Some(text) = chosen else { return Ok(ApiSecret::generate()) };
        let secret = ApiSecret::chosen(text)?;
        if self.roll.keys.iter().any(|key| secret.is_of(key, &self.keyring)) {
            anyhow::bail!("this secret can't be used; choose another");
        }
        Ok(secret)
    }

    fn ends(&self, in_ms: Option<i64>) -> anyhow::Result<Option<Millis>> {
        if in_ms.is_some_and(|ms| ms > KEY_LIFE_MS_MAX) {
            anyhow::bail!("the end of a key lies ten years ahead at most; choose an earlier one");
        }
        Ok(in_ms.map(|ms| self.now.saturating_add(ms)))
    }

    async fn made(
        &self,
        secret: &ApiSecret,
        is_chosen: bool,
        row: &ApiKey,
        old: Option<&ApiKey>,
    ) -> anyhow::Result<Value> {
        let tenants = self.store.tenants().await?;
        let view = |key: &ApiKey| KeyView::of(key, tenant_name(&tenants, key.tenant), self.now);
        let text = (!is_chosen).then(|| secret.text().to_owned());
        Ok(serde_json::to_value(MadeKey::of(text, view(row), old.map(view)))?)
    }
}

/// The time of a data directory: its test clock's, if it runs on one.
pub(crate) async fn now(store: &dyn Store) -> anyhow::Result<Millis> {
    Ok(store.test_clock().await?.unwrap_or_else(|| SystemClock.now()))
}

fn tenant_name(tenants: &[(TenantId, String)], tenant: TenantId) -> &str {
    tenants.iter().find(|(id, _)| *id == tenant).map_or("", |(_, name)| name)
}

/// The secret as it was given, or from standard input, where no list of processes shows it.
fn read_secret(given: &str) -> anyhow::Result<String> {
    if given != "-" {
        return Ok(given.to_owned());
    }
    let mut text = String::new();
    // A line break may be two bytes, and one more shows that it is too long.
    let bytes_max = SECRET_KEY_CHARS_MAX as u64 + 3;
    std::io::stdin()
        .lock()
        .take(bytes_max)
        .read_to_string(&mut text)
        .context("standard input can't be read")?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

fn no_such_key(id: &str) -> anyhow::Error {
    Failure::new(Exit::NotFound, format!("there is no key '{id}'; `abide keys list` shows them")).into()
}

/// The tenant with this name, made if need be.
pub(crate) async fn make_tenant(store: &dyn Store, name: &str) -> anyhow::Result<TenantId> {
    let tenant = store.tenant(name.to_owned(), true).await?;
    tenant.ok_or_else(|| anyhow::anyhow!("the tenant '{name}' could not be made"))
}

/// A new key alone on standard output, so that a script can keep it; what else there is to say goes beside.
fn tell_made(made: &Value, json: bool) -> anyhow::Result<()> {
    if json {
        return output::line(&made.to_string());
    }
    if let Some(end) = made["replaces"]["expiresAt"].as_str() {
        output::say(&format!("the old secret works until {end}"));
    }
    match made["key"].as_str() {
        Some(key) => {
            output::say("this key is shown once; keep it safe:");
            output::line(key)
        }
        None => output::line(&format!("{} is made", cell(&made["keyId"]))),
    }
}

fn tell_list(page: &Value, json: bool) -> anyhow::Result<()> {
    if json {
        return output::line(&page.to_string());
    }
    let keys = page["keys"].as_array().map_or(&[][..], Vec::as_slice);
    let row = |key: &Value| {
        vec![
            cell(&key["keyId"]),
            cell(&key["tenant"]),
            cell(&key["principal"]),
            scopes_told(&key["scopes"]),
            state_told(key),
            cell(&key["createdAt"]),
            cell(&key["label"]),
        ]
    };
    let header = ["KEY", "TENANT", "PRINCIPAL", "SCOPES", "STATE", "MADE", "LABEL"];
    output::line(&output::table(&header, keys.iter().map(row).collect()))
}

fn scopes_told(scopes: &Value) -> String {
    let names: Vec<String> = scopes.as_array().map_or(&[][..], Vec::as_slice).iter().map(cell).collect();
    match names.len() {
        all if all == abide_server::Scope::ALL.len() => "all".to_owned(),
        0 => "none".to_owned(),
        _ => names.join(","),
    }
}

fn state_told(key: &Value) -> String {
    let (state, end) = (cell(&key["state"]), cell(&key["expiresAt"]));
    match state.as_str() {
        "active" if !end.is_empty() => format!("expires {end}"),
        "revoked" => format!("revoked {}", cell(&key["revokedAt"])),
        _ => state,
    }
}
