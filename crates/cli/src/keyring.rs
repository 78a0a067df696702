//! `abide keyring`: the secrets that sign and encrypt, rotated, listed and retired.

use std::path::{Path, PathBuf};

use abide_server::keyring::Listed;
use abide_server::{Kept, Keyring, KeyringFile, Resealed};
use abide_store::{ApiKey, Sealing};
use serde_json::{Value, json};

use crate::args::{KeyringArgs, KeyringVerb};
use crate::exit::{Exit, Failure};
use crate::output;
use crate::place::{Beside, Place, Told, USUAL_DATA, move_mark};

/// Keys that are named when a secret can't be retired. Whoever has more sees them with `abide keys list`.
const KEYS_NAMED_MAX: usize = 10;

pub(crate) async fn dispatch(args: KeyringArgs) -> anyhow::Result<()> {
    let told = Told { data: args.data, store: args.store.store };
    let place = Place::of(told, Told::default(), USUAL_DATA)?;
    let path = place.keyring(args.keyring)?;
    if !path.exists() {
        return Err(no_keyring(&path));
    }
    match args.verb {
        KeyringVerb::Rotate => rotate(&path, &place, args.json),
        KeyringVerb::List => list(&path, args.json),
        KeyringVerb::Retire { kid, force } => {
            Retirement { place, keyring: path, kid, force, json: args.json }.carry_out().await
        }
    }
}

fn rotate(path: &Path, place: &Place, json: bool) -> anyhow::Result<()> {
    let made = KeyringFile::open(path).and_then(|mut file| file.rotate()).map_err(anyhow::Error::msg)?;
    if matches!(place, Place::Postgres(_)) {
        output::say(
            "copy the file to every other server now: in a minute the new secret signs, and a server without it refuses what \
             was signed with it until it has the file",
        );
    }
    output::say(&format!(
        "what was made with older secrets still works, and a running server takes the new one up by itself; keep a copy \
         of {} where you keep the old one",
        path.display()
    ));
    output::line(&if json {
        view(&made).to_string()
    } else {
        format!("secret {} signs and encrypts from now on", made.kid)
    })
}

fn list(path: &Path, json: bool) -> anyhow::Result<()> {
    let listed = Keyring::open(path).map_err(anyhow::Error::msg)?.list();
    if json {
        let secrets: Vec<Value> = listed.iter().map(view).collect();
        return output::line(&json!({ "secrets": secrets }).to_string());
    }
    let row = |key: &Listed| {
        vec![key.kid.to_string(), key.made_at.clone().unwrap_or_default(), does(key).to_owned()]
    };
    output::line(&output::table(&["SECRET", "MADE", "DOES"], listed.iter().map(row).collect()))
}

fn does(key: &Listed) -> &'static str {
    if key.is_newest { "signs and encrypts" } else { "verifies and decrypts" }
}

fn view(key: &Listed) -> Value {
    json!({ "kid": key.kid, "madeAt": key.made_at, "newest": key.is_newest })
}

/// A secret that is to go.
struct Retirement {
    place: Place,
    keyring: PathBuf,
    kid: u32,
    force: bool,
    json: bool,
}

impl Retirement {
    async fn carry_out(self) -> anyhow::Result<()> {
        // Opening to write would make a directory where there is none.
        drop(self.place.open_for_reading(Sealing::in_clear())?);
        // No server may seal anything under the old secret behind our back. A directory is ours when it is open.
        let beside = self.place.open_beside().await?;
        beside.check_unused(&self.place)?;
        let Beside { store, now, .. } = beside;
        let mut file = KeyringFile::open(&self.keyring).map_err(anyhow::Error::msg)?;
        file.check_retire(self.kid).map_err(|kept| self.kept(kept))?;
        let is_oldest = file.list().first().is_some_and(|oldest| oldest.kid == self.kid);
        let keys = abide_server::keys_under(&*store, self.kid, now).await?;
        if !keys.is_empty() && !self.force {
            return Err(self.needed_by(&keys));
        }
        // A run's journal is never written anew, so what it sealed stays under its secret until it is erased.
        if store.sealed_kids().await?.contains(&self.kid) {
            anyhow::bail!(
                "runs hold sensitive values that only secret {} opens, so it has to stay; erase those runs first with \
                 `abide run erase`",
                self.kid
            );
        }
        // What is sealed anew is on disk before the secret is gone; if this stops in between, it can be repeated.
        let resealed = abide_server::reseal(&*store, &file.keyring(), self.kid).await?;
        move_mark(&*store, &file, self.kid).await?;
        file.retire(self.kid).map_err(anyhow::Error::msg)?;
        self.tell(&keys, resealed, is_oldest)
    }

    fn kept(&self, kept: Kept) -> anyhow::Error {
        let kid = self.kid;
        match kept {
            Kept::Unknown => {
                let message = format!("the keyring has no secret {kid}; `abide keyring list` shows them");
                Failure::new(Exit::NotFound, message).into()
            }
            Kept::Newest => anyhow::anyhow!(
                "secret {kid} is the one that signs; run `abide keyring rotate` first, and retire it then"
            ),
        }
    }

    fn needed_by(&self, keys: &[ApiKey]) -> anyhow::Error {
        let named: Vec<&str> = keys.iter().take(KEYS_NAMED_MAX).map(|key| key.id.as_str()).collect();
        let more = match keys.len().saturating_sub(KEYS_NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        anyhow::anyhow!(
            "API keys in force are checked with secret {}: {}{more}; rotate each with `abide keys rotate` and wait until \
             the old one has expired, revoke them, or add --force to let them stop working",
            self.kid,
            named.join(", ")
        )
    }

    fn tell(&self, stopped: &[ApiKey], resealed: Resealed, is_oldest: bool) -> anyhow::Result<()> {
        if self.json {
            let ids: Vec<&str> = stopped.iter().map(|key| key.id.as_str()).collect();
            let told = json!({
                "kid": self.kid, "retired": true, "keysStopped": ids,
                "resealed": { "secrets": resealed.secrets, "webhooks": resealed.webhooks },
            });
            return output::line(&told.to_string());
        }
        output::say(&format!(
            "sealed anew: {} secrets of users, {} of webhooks",
            resealed.secrets, resealed.webhooks
        ));
        output::say("links that were signed with it open nothing any more; runs and inboxes give new ones");
        if !stopped.is_empty() {
            output::say(&format!("API keys that have stopped working: {}; make new ones", stopped.len()));
        }
        if is_oldest {
            output::say(
                "requests that were sent with an Idempotency-Key until now count as new if they are repeated",
            );
        }
        output::say(
            "backups of the data from before need the keyring from before: keep them together, or neither",
        );
        output::line(&format!("secret {} is retired", self.kid))
    }
}

fn no_keyring(path: &Path) -> anyhow::Error {
    let message = format!(
        "there is no keyring {}; name one with --keyring, or its data directory with --data (the first `abide keys \
         create` or server makes one)",
        path.display()
    );
    Failure::new(Exit::NotFound, message).into()
}
