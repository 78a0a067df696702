//! `abide migrate`: a data directory into an empty PostgreSQL database, all of it or nothing.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;

use abide_engine::verify::{Report, verify as verify_store};
use abide_server::{Keyring, RunSealer};
use abide_store::{ImportedTable, Postgres, Sealing, Sqlite, SqliteOptions, Store};
use serde_json::{Value, json};

use crate::args::MigrateArgs;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::place::{Address, Place};

pub(crate) async fn migrate(args: MigrateArgs) -> anyhow::Result<()> {
    let Place::Dir(from) = Place::parse(&args.from)? else {
        anyhow::bail!(
            "--from is a data directory: sqlite:DIR. Data is moved into a database, not out of one"
        );
    };
    let Place::Postgres(to) = Place::parse(&args.to)? else {
        anyhow::bail!("--to is a database: postgres://user:password@host/database");
    };
    let path = args.keyring.unwrap_or_else(|| Keyring::default_path(&from));
    let keyring = path.exists().then(|| Keyring::open(&path)).transpose().map_err(anyhow::Error::msg)?;
    // Opening to write would make a directory where there is none.
    drop(Sqlite::open_for_reading(&from, Sealing::in_clear())?);
    // As long as it is open, no server can start on it. It is brought up to this version first.
    let source = Sqlite::open(&SqliteOptions::new(&from))?;
    check_keyring(&source, keyring.is_some(), &path).await?;
    let tables = Postgres::import(to.url(), &source, keyring.map(|keyring| keyring.mark()), progress())?;
    source.close().await?;
    let report = check(&to, &path).await?;
    tell(&from, &to, &tables, &report, args.json)?;
    output::say(&format!(
        "next: give every server the keyring {} and --store, and start them; keep {} until all is well, and start no server \
         on it any more",
        path.display(),
        from.display()
    ));
    Ok(())
}

/// Keys that nobody can check would be of no use in the database either, and the first server there would make a new
/// keyring.
async fn check_keyring(source: &Sqlite, is_there: bool, path: &Path) -> anyhow::Result<()> {
    let needs_it = !is_there && source.api_keys().await?.iter().any(|key| key.revoked_at.is_none());
    anyhow::ensure!(
        !needs_it,
        "the keyring {} is missing, and without it no API key of this data can be checked; put it back, or name it with \
         --keyring",
        path.display()
    );
    Ok(())
}

/// Tells how far it is, to whoever watches.
fn progress() -> impl FnMut(&str, u64) + Send {
    let terminal = std::io::stderr().is_terminal();
    move |table, rows| {
        // Most tables are small, and of a large one every tenth page is enough.
        if terminal && rows > 0 && rows.is_multiple_of(10_000) {
            output::say(&format!("{table}: {rows} rows copied …"));
        }
    }
}

/// Folds every journal in the database, as `abide verify` does.
async fn check(to: &Address, keyring: &Path) -> anyhow::Result<Report> {
    output::say("copied; checking every journal in the database …");
    let sealer = RunSealer::look(keyring).map_err(anyhow::Error::msg)?;
    let store = Postgres::open_for_reading(to.url(), Sealing::with(Arc::new(sealer)))?;
    let report = verify_store(&store, |_| {}).await?;
    if report.is_clean() || report.is_only_interrupted() || report.is_only_sealed() {
        return Ok(report);
    }
    let message = format!(
        "{} of {} runs are bad in the database; `abide verify` on the directory and on the database tells which. If they are \
         good in the directory, go on with that, and drop the database",
        report.bad_runs, report.runs
    );
    Err(Failure::new(Exit::Damaged, message).into())
}

fn tell(
    from: &Path,
    to: &Address,
    tables: &[ImportedTable],
    report: &Report,
    json: bool,
) -> anyhow::Result<()> {
    let rows: u64 = tables.iter().map(|table| table.rows).sum();
    if json {
        let counts: serde_json::Map<String, Value> =
            tables.iter().map(|table| (table.name.clone(), table.rows.into())).collect();
        let told = json!({
            "from": from.display().to_string(), "to": to.to_string(), "tables": counts, "rows": rows,
            "runs": report.runs, "events": report.events, "sealedRuns": report.sealed_runs,
        });
        return output::line(&told.to_string());
    }
    let filled = tables.iter().filter(|table| table.rows > 0);
    let listed = filled.map(|table| vec![table.name.clone(), table.rows.to_string()]).collect();
    output::line(&output::table(&["TABLE", "ROWS"], listed))?;
    if report.sealed_runs > 0 {
        output::say(&format!(
            "{} runs are sealed under keys that are not at hand, and were copied but not checked",
            report.sealed_runs
        ));
    }
    output::line(&format!("{to}: {rows} rows, {} runs and {} events checked", report.runs, report.events))
}
