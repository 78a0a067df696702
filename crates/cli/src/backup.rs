//! `abide backup`: one file of a data directory, as it was at one moment, while a server goes on with it.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;

use abide_engine::verify::verify as verify_store;
use abide_engine::{Clock, SystemClock};
use abide_server::{Keyring, RunSealer};
use abide_store::{BackupFacts, Sealing, Sqlite};
use anyhow::Context;
use serde_json::json;

use crate::args::BackupArgs;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::place::{Place, Told, USUAL_DATA};

pub(crate) async fn backup(args: BackupArgs) -> anyhow::Result<()> {
    let told = Told { data: args.data, store: args.store.store };
    let data = Place::of(told, Told::default(), USUAL_DATA)?.dir(
        "back it up with PostgreSQL's own means, `pg_dump` for a copy, or base backups and archived WAL to go back to any \
         moment; docs/operations.md says how. The keyring is not in it either",
    )?;
    if args.to.exists() && !args.force {
        return Err(exists(&args.to).into());
    }
    let folder = args.to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let part = tempfile::Builder::new()
        .prefix(".abide-backup-")
        .tempfile_in(folder)
        .with_context(|| format!("{} can't be written; choose another --to", folder.display()))?;
    let version = env!("CARGO_PKG_VERSION");
    let facts = Sqlite::back_up(&data, part.path(), (SystemClock.now(), version), progress())?;
    part.as_file().sync_all().context("the copy can't be brought to the disk")?;
    let keyring = args.keyring.unwrap_or_else(|| Keyring::default_path(&data));
    check(part.path(), &keyring, args.quick).await?;
    let bytes = part.as_file().metadata()?.len();
    let kept = if args.force { part.persist(&args.to) } else { part.persist_noclobber(&args.to) };
    kept.map_err(|failed| match failed.error.kind() {
        std::io::ErrorKind::AlreadyExists => exists(&args.to).into(),
        _ => anyhow::anyhow!("{} can't be written: {}", args.to.display(), failed.error),
    })?;
    std::fs::File::open(folder).and_then(|folder| folder.sync_all())?;
    let keyring = keyring.display();
    output::say(&format!("the keyring {keyring} is not in it; keep a copy of that elsewhere"));
    if args.json {
        return output::line(&shown(&facts, &args.to, bytes).to_string());
    }
    output::line(&format!("{}: {}, {bytes} bytes, checked", args.to.display(), described(&facts)))
}

/// What a backup holds, in words.
pub(crate) fn described(facts: &BackupFacts) -> String {
    let BackupFacts { runs, events, version, .. } = facts;
    format!("{runs} runs, {events} events, written by abide {version}")
}

fn shown(facts: &BackupFacts, file: &Path, bytes: u64) -> serde_json::Value {
    json!({
        "file": file.display().to_string(),
        "runs": facts.runs,
        "events": facts.events,
        "bytes": bytes,
        "version": facts.version,
        "madeAt": abide_server::rfc3339(facts.made_at),
    })
}

fn exists(file: &Path) -> Failure {
    let message = format!("{} is there already; choose another --to, or add --force", file.display());
    Failure::new(Exit::Refused, message)
}

/// Tells how far it is, in steps of a tenth, to whoever watches.
fn progress() -> impl FnMut(u64, u64) {
    let terminal = std::io::stderr().is_terminal();
    let mut told = 0;
    move |copied, of| {
        let tenths = (10 * copied).checked_div(of).unwrap_or(10);
        if tenths > told && (terminal || tenths == 10) {
            told = tenths;
            output::say(&format!("copied {copied} of {of} pages …"));
        }
    }
}

/// Checks every page of a copy, and that its journals say what is there; unless it is to be quick.
pub(crate) async fn check(file: &Path, keyring: &Path, quick: bool) -> anyhow::Result<()> {
    output::say("checking the copy …");
    Sqlite::check_pages(file)?;
    if quick {
        return Ok(());
    }
    let sealer = RunSealer::look(keyring).map_err(anyhow::Error::msg)?;
    let store = Sqlite::open_backup(file, Sealing::with(Arc::new(sealer)))?;
    let report = verify_store(&store, |_| {}).await?;
    if report.is_clean() || report.is_only_interrupted() {
        return Ok(());
    }
    if report.is_only_sealed() {
        let (runs, keyring) = (report.sealed_runs, keyring.display());
        output::say(&format!(
            "{runs} runs are sealed under keys that {keyring} does not have, and were not checked"
        ));
        return Ok(());
    }
    let message = format!(
        "{} of {} runs in the copy are bad, so it was not kept; `abide verify` tells which. A copy all the same: --quick",
        report.bad_runs, report.runs
    );
    Err(Failure::new(Exit::Damaged, message).into())
}
