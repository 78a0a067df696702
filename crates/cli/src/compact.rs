//! `abide compact`: writes a data directory anew, so that nothing is in the file but what can be read.

use std::path::Path;

use abide_store::{Sealing, Sqlite, SqliteOptions, Store};
use serde_json::json;

use crate::args::CompactArgs;
use crate::output;
use crate::place::{Place, Told, USUAL_DATA};

pub(crate) async fn compact(args: CompactArgs) -> anyhow::Result<()> {
    let told = Told { data: args.data, store: args.store.store };
    let data = Place::of(told, Told::default(), USUAL_DATA)?.dir(
        "PostgreSQL cleans up by itself, and `VACUUM FULL` at its own prompt writes a table anew; what was erased may be in \
         its WAL and in backups until those are gone",
    )?;
    // Nothing of any run is read, so the keyring can stay where it is. Opening to write would make a directory where there is none, and writes a little itself.
    let before = size(Sqlite::open_for_reading(&data, Sealing::in_clear())?.file());
    let store = Sqlite::open(&SqliteOptions::new(&data))?;
    output::say(&format!("writing {before} bytes anew …"));
    store.compact().await?;
    store.close().await?;
    let after = size(store.file());
    if args.json {
        return output::line(&json!({ "bytesBefore": before, "bytesAfter": after }).to_string());
    }
    output::line(&format!("{} had {before} bytes and has {after} now", data.display()))
}

/// The bytes of a database and its log.
fn size(file: &Path) -> u64 {
    let mut log = file.as_os_str().to_owned();
    log.push("-wal");
    [file, log.as_ref()].iter().filter_map(|path| std::fs::metadata(path).ok()).map(|file| file.len()).sum()
}
