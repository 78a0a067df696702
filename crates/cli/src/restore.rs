//! `abide restore`: a data directory from a backup, checked before it takes the place of anything.

use std::path::Path;

use abide_engine::{Clock, SystemClock};
use abide_server::Keyring;
use abide_store::{Held, Sqlite, SqliteOptions, Store};
use anyhow::Context;
use serde_json::json;

use crate::args::RestoreArgs;
use crate::backup::{check, described};
use crate::exit::{Exit, Failure};
use crate::output;
use crate::place::{Place, Told, USUAL_DATA};

/// What may stand in a directory that counts as empty: the lock, and what file systems put there by themselves.
const NOTHING: [&str; 2] = ["lock", "lost+found"];

pub(crate) async fn restore(args: RestoreArgs) -> anyhow::Result<()> {
    let told = Told { data: args.data, store: args.store.store };
    let data = Place::of(told, Told::default(), USUAL_DATA)?.dir(
        "restore it with PostgreSQL's own means, `pg_restore` of a dump, or a base backup and its WAL; docs/operations.md \
         says how. A backup of a data directory gets there by `abide restore` into a directory and `abide migrate`",
    )?;
    let facts = Sqlite::read_backup(&args.file).map_err(explained)?;
    check_room(&data, args.force)?;
    let held = Sqlite::hold(&data)?;
    let staging = held.staging();
    // What a restore left here that was cut off is of no use.
    let _ = std::fs::remove_dir_all(&staging);
    let keyring = args.keyring.unwrap_or_else(|| Keyring::default_path(&data));
    let made = make_ready(&args.file, &staging, &keyring, args.quick).await;
    let moment = abide_server::rfc3339(SystemClock.now()).replace([':', '.'], "-");
    let replaced = made.and_then(|()| Ok(held.replace(&staging, &format!("before-{moment}"))?));
    let _ = std::fs::remove_dir_all(&staging);
    let aside = replaced?;
    if let Some(aside) = &aside {
        output::say(&format!("what was there is kept as {}; remove it when all is well", aside.display()));
    }
    if !keyring.exists() {
        let keyring = keyring.display();
        output::say(&format!(
            "there is no keyring {keyring}: put the one that belongs to this data there before you start"
        ));
    }
    output::say(
        "what happened after the backup is forgotten: messages may go out again, and keys revoked since are in force",
    );
    if args.json {
        let told = json!({
            "data": data.display().to_string(),
            "runs": facts.as_ref().map(|facts| facts.runs),
            "events": facts.as_ref().map(|facts| facts.events),
            "version": facts.as_ref().map(|facts| &facts.version),
            "madeAt": facts.as_ref().map(|facts| abide_server::rfc3339(facts.made_at)),
            "keptAs": aside.map(|aside| aside.display().to_string()),
        });
        return output::line(&told.to_string());
    }
    let what = facts.as_ref().map_or("a copy of an older abide".to_owned(), described);
    output::line(&format!("{}: restored {what}", data.display()))
}

/// A file that can't be restored is no damage to anything that is here.
fn explained(error: abide_store::Error) -> anyhow::Error {
    match error {
        abide_store::Error::Damaged { file, reason, .. } => {
            let message = format!(
                "{}: {reason}. It can't be restored, and nothing was changed; take another backup, or fetch this one again",
                file.display()
            );
            Failure::new(Exit::Damaged, message).into()
        }
        abide_store::Error::Refused(message) => {
            let message =
                message.replace("choose another --data directory", "give a file that `abide backup` made");
            Failure::new(Exit::Refused, message).into()
        }
        other => other.into(),
    }
}

/// Refuses a directory that holds something, unless it is data that is to be replaced.
fn check_room(data: &Path, force: bool) -> anyhow::Result<()> {
    let entries = match std::fs::read_dir(data) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("{} can't be read", data.display())),
    };
    let names: Vec<String> = entries
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<std::io::Result<_>>()?;
    let first = names.iter().find(|name| !NOTHING.contains(&name.as_str()));
    match first {
        Some(name) if !force => {
            let message = format!(
                "{} is not empty: there is {name} in it; choose another --data, or add --force, which puts its data aside",
                data.display()
            );
            Err(Failure::new(Exit::Refused, message).into())
        }
        _ => Ok(()),
    }
}

/// Makes a data directory of a backup, brings it up to this version, and checks it.
async fn make_ready(file: &Path, staging: &Path, keyring: &Path, quick: bool) -> anyhow::Result<()> {
    std::fs::create_dir(staging).with_context(|| format!("{} can't be made", staging.display()))?;
    let copy = Held::file_in(staging);
    output::say(&format!("copying {} …", file.display()));
    std::fs::copy(file, &copy).with_context(|| format!("{} can't be copied", file.display()))?;
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o600))?;
    std::fs::File::open(&copy)?.sync_all()?;
    Sqlite::check_pages(&copy).map_err(explained)?;
    let store = Sqlite::open(&SqliteOptions::new(staging)).map_err(explained)?;
    store.close().await?;
    drop(store);
    check(&copy, keyring, quick).await.context("the backup is not as it should be; nothing was changed")
}
