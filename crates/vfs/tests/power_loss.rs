//! What survives a power cut under SQLite, setting by setting, and what the shim counts.
//!
//! The tests that lose commits are as important as those that keep them: they show that the shim would
//! notice a store that runs with the wrong settings.
#![expect(clippy::unwrap_used, reason = "the helpers are part of the tests, which clippy can't tell")]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;

use abide_vfs::{Error, Keep, Shim};
use rusqlite::{Connection, OpenFlags, ffi};
use tempfile::TempDir;

/// A directory with one database, on a machine that can lose its power.
struct Machine {
    dir: TempDir,
    shim: Shim,
}

/// What `PRAGMA` calls a connection is opened with.
#[derive(Clone, Copy)]
struct Settings {
    journal_mode: &'static str,
    synchronous: &'static str,
    /// Pages in the WAL after which a commit checkpoints; 0 is never.
    wal_autocheckpoint: u32,
}

const FULL: Settings = Settings { journal_mode: "WAL", synchronous: "FULL", wal_autocheckpoint: 0 };
const NORMAL: Settings = Settings { synchronous: "NORMAL", ..FULL };
const OFF: Settings = Settings { synchronous: "OFF", ..FULL };

impl Machine {
    /// A machine with an empty table, everything so far synced. `name` is the VFS's and must be unique.
    fn boot(name: &str) -> Self {
        Self::with(Shim::power_loss(name).unwrap())
    }

    fn with(shim: Shim) -> Self {
        let machine = Self { dir: tempfile::tempdir().unwrap(), shim };
        machine.open(FULL).execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, body BLOB)").unwrap();
        machine
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("db")
    }

    fn file(&self, suffix: &str) -> PathBuf {
        self.dir.path().join(format!("db{suffix}"))
    }

    fn try_open(&self) -> rusqlite::Result<Connection> {
        Connection::open_with_flags_and_vfs(self.path(), OpenFlags::default(), self.shim.name())
    }

    fn open(&self, settings: Settings) -> Connection {
        let db = self.try_open().unwrap();
        db.pragma_update(None, "journal_mode", settings.journal_mode).unwrap();
        db.pragma_update(None, "synchronous", settings.synchronous).unwrap();
        db.pragma_update(None, "wal_autocheckpoint", settings.wal_autocheckpoint).unwrap();
        db
    }

    /// The ids found after a restart, through SQLite's own VFS. The database must be sound.
    fn survivors(&self) -> BTreeSet<i64> {
        let db = Connection::open(self.path()).unwrap();
        let verdict: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(verdict, "ok");
        ids(&db)
    }
}

fn insert(db: &Connection, id: i64) -> rusqlite::Result<()> {
    // Larger than a page, so that one commit is several frames that can go missing independently.
    db.execute("INSERT INTO t VALUES (?1, randomblob(6000))", [id]).map(drop)
}

fn checkpoint(db: &Connection, mode: &str) {
    db.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(())).unwrap();
}

fn ids(db: &Connection) -> BTreeSet<i64> {
    let mut query = db.prepare("SELECT id FROM t").unwrap();
    query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// Ways to cut the power: one that drops all that was not synced, and 50 that drop some of it.
fn cuts() -> impl Iterator<Item = Keep> {
    std::iter::once(Keep::Nothing).chain((0..50).map(Keep::Random))
}

/// Commits ten rows, leaves a transaction open that has already spilled into the files, and cuts the power.
fn survivors_of_ten(name: &str, settings: Settings, keep: Keep) -> BTreeSet<i64> {
    let machine = Machine::boot(name);
    let db = machine.open(settings);
    for id in 0..10 {
        insert(&db, id).unwrap();
    }
    db.execute_batch("PRAGMA cache_size = 2; BEGIN; UPDATE t SET body = randomblob(6000)").unwrap();
    insert(&db, 99).unwrap();
    machine.shim.lose_power(keep).unwrap();
    drop(db);
    machine.survivors()
}

fn ten() -> BTreeSet<i64> {
    (0..10).collect()
}

#[test]
fn full_keeps_every_commit_and_nothing_else() {
    for keep in cuts() {
        assert_eq!(survivors_of_ten(&format!("full {keep:?}"), FULL, keep), ten(), "{keep:?}");
    }
}

#[test]
fn a_rollback_journal_keeps_every_commit_too() {
    let journal = Settings { journal_mode: "DELETE", ..FULL };
    for keep in cuts() {
        assert_eq!(survivors_of_ten(&format!("journal {keep:?}"), journal, keep), ten(), "{keep:?}");
    }
}

#[test]
fn normal_loses_commits_but_stays_sound() {
    assert!(survivors_of_ten("normal", NORMAL, Keep::Nothing).is_empty());
    for keep in cuts() {
        let left = survivors_of_ten(&format!("normal {keep:?}"), NORMAL, keep);
        assert!(left.len() < 10, "{keep:?} lost nothing");
        assert_eq!(left, (0..left.len() as i64).collect(), "a WAL loses its end, never its middle");
    }
}

#[test]
fn off_loses_commits() {
    assert!(survivors_of_ten("off", OFF, Keep::Nothing).is_empty());
}

#[test]
fn a_database_that_was_never_synced_is_gone() {
    let shim = Shim::power_loss("never synced").unwrap();
    let machine = Machine { dir: tempfile::tempdir().unwrap(), shim };
    let db = machine.try_open().unwrap();
    db.execute_batch("PRAGMA synchronous = OFF; PRAGMA journal_mode = WAL; CREATE TABLE t (id)").unwrap();
    assert!(machine.path().exists() && machine.file("-wal").exists() && machine.file("-shm").exists());
    shim.lose_power(Keep::Nothing).unwrap();
    drop(db);
    assert_eq!(machine.dir.path().read_dir().unwrap().count(), 0);
}

#[test]
fn changes_outlive_the_connection_that_made_them() {
    let machine = Machine::boot("closed before the cut");
    let db = machine.open(FULL);
    insert(&db, 1).unwrap();
    db.pragma_update(None, "synchronous", "OFF").unwrap();
    insert(&db, 2).unwrap();
    // Closing checkpoints into the database without a sync, and deletes the WAL that held the first commit.
    drop(db);
    machine.shim.lose_power(Keep::Nothing).unwrap();
    assert!(machine.survivors().is_empty());
}

#[test]
fn a_file_never_grows_behind_the_shim() {
    let machine = Machine::boot("growth");
    let synced = std::fs::read(machine.path()).unwrap();
    let db = machine.open(OFF);
    grow_in_chunks(&db, 1 << 20);
    insert(&db, 1).unwrap();
    checkpoint(&db, "PASSIVE");
    assert!(std::fs::read(machine.path()).unwrap().len() > synced.len());
    machine.shim.lose_power(Keep::Nothing).unwrap();
    assert!(std::fs::read(machine.path()).unwrap() == synced);
}

/// Asks for a file that grows ahead of its content, which the unix VFS does without a write.
#[expect(unsafe_code, reason = "rusqlite has no safe call for it")]
fn grow_in_chunks(db: &Connection, mut bytes: i32) {
    let (chunk_size, bytes) = (ffi::SQLITE_FCNTL_CHUNK_SIZE, (&raw mut bytes).cast());
    // SAFETY: the connection is open, and a chunk size is an int.
    unsafe { ffi::sqlite3_file_control(db.handle(), c"main".as_ptr(), chunk_size, bytes) };
}

#[test]
fn a_checkpoint_in_the_middle_loses_nothing() {
    for mode in ["PASSIVE", "RESTART", "TRUNCATE"] {
        for keep in cuts() {
            let machine = Machine::boot(&format!("checkpoint {mode} {keep:?}"));
            let db = machine.open(FULL);
            for id in 0..10 {
                insert(&db, id).unwrap();
                if id == 4 {
                    checkpoint(&db, mode);
                }
            }
            machine.shim.lose_power(keep).unwrap();
            drop(db);
            assert_eq!(machine.survivors(), ten(), "{mode} {keep:?}");
        }
    }
}

#[test]
fn a_cut_at_any_moment_keeps_what_was_acknowledged() {
    for keep in cuts() {
        let machine = Machine::boot(&format!("any moment {keep:?}"));
        // Nearly every commit checkpoints, so that cuts fall into checkpoints too.
        let db = machine.open(Settings { wal_autocheckpoint: 4, ..FULL });
        let (acknowledge, acknowledged) = mpsc::channel();
        let writer = thread::spawn(move || {
            let outcome: rusqlite::Result<()> = (0..100_000).try_for_each(|id| {
                insert(&db, id)?;
                acknowledge.send(id).expect("the receiver waits for this thread to end");
                Ok(())
            });
            assert!(outcome.is_err(), "the writer never noticed the cut");
        });
        let mut safe: BTreeSet<i64> = acknowledged.iter().take(20).collect();
        machine.shim.lose_power(keep).unwrap();
        writer.join().unwrap();
        safe.extend(acknowledged);
        let survivors = machine.survivors();
        // The commit during which the power went may have been made without being acknowledged.
        assert!(survivors.is_superset(&safe) && survivors.len() <= safe.len() + 1, "{keep:?}");
    }
}

#[test]
fn a_dead_machine_changes_nothing() {
    let machine = Machine::boot("dead");
    let db = machine.open(FULL);
    insert(&db, 1).unwrap();
    machine.shim.lose_power(Keep::Nothing).unwrap();
    let files = || ["", "-wal"].map(|suffix| std::fs::read(machine.file(suffix)).unwrap());
    let left_by_the_cut = files();
    let counted = machine.shim.counts();

    assert!(insert(&db, 2).is_err());
    assert!(machine.try_open().and_then(|db| insert(&db, 3)).is_err());
    machine.shim.lose_power(Keep::Random(1)).unwrap();
    // A close with power would checkpoint and delete the WAL.
    drop(db);

    assert_eq!(files(), left_by_the_cut);
    assert_eq!(machine.shim.counts(), counted);
    assert!(!machine.file("-shm").exists());
    assert_eq!(machine.survivors(), [1].into());
}

#[test]
fn a_dead_connection_deletes_nothing_when_it_closes() {
    let machine = Machine::boot("deletes nothing");
    let db = machine.open(FULL);
    insert(&db, 1).unwrap();
    // With nothing left to checkpoint, a close meets no error on its way to the deletions.
    checkpoint(&db, "TRUNCATE");
    machine.shim.lose_power(Keep::Nothing).unwrap();
    std::fs::write(machine.file("-shm"), "a successor's").unwrap();
    drop(db);
    assert!(machine.file("-shm").exists() && machine.file("-wal").exists());
}

#[test]
fn a_machine_reboots_on_a_new_shim_and_can_lose_power_again() {
    let mut machine = Machine::boot("reboot 0");
    for boot in 1..5 {
        let db = machine.open(FULL);
        insert(&db, boot).unwrap();
        machine.shim.lose_power(Keep::Random(boot as u64)).unwrap();
        drop(db);
        machine.shim = Shim::power_loss(&format!("reboot {boot}")).unwrap();
    }
    assert_eq!(machine.survivors(), (1..5).collect());
}

#[test]
fn a_reader_in_another_thread_sees_commits_as_they_are_made() {
    for shim in [Shim::counting("reader, counting").unwrap(), Shim::power_loss("reader, power").unwrap()] {
        let machine = Machine::with(shim);
        let (writer, reader) = (machine.open(FULL), machine.open(FULL));
        let (commit, committed) = mpsc::channel();
        let reading = thread::spawn(move || {
            for id in committed {
                assert!(ids(&reader).contains(&id));
            }
        });
        for id in 0..50 {
            insert(&writer, id).unwrap();
            commit.send(id).unwrap();
        }
        drop(commit);
        reading.join().unwrap();
        drop(writer);
        assert_eq!(machine.survivors().len(), 50);
    }
}

#[test]
fn a_commit_in_full_is_one_sync() {
    let machine = Machine::with(Shim::counting("counts, full").unwrap());
    let db = machine.open(FULL);
    let start = machine.shim.counts();
    insert(&db, 0).unwrap();
    let first = machine.shim.counts() - start;
    // The first commit to an empty WAL writes its header, and syncs that before any frame.
    assert_eq!((first.wal.syncs, first.syncs()), (2, 2));

    let start = machine.shim.counts();
    for id in 1..=100 {
        insert(&db, id).unwrap();
    }
    let next = machine.shim.counts() - start;
    assert_eq!((next.wal.syncs, next.syncs()), (100, 100));
    // A frame is two writes, of a 24-byte header and of a page.
    assert_eq!(next.wal.bytes_written, next.wal.writes / 2 * (24 + 4096));
    assert_eq!(next.main.writes, 0);
}

#[test]
fn a_checkpoint_syncs_the_wal_and_then_the_database() {
    let machine = Machine::with(Shim::counting("counts, checkpoint").unwrap());
    let db = machine.open(NORMAL);
    insert(&db, 0).unwrap();
    let start = machine.shim.counts();
    checkpoint(&db, "PASSIVE");
    let spent = machine.shim.counts() - start;
    assert_eq!((spent.wal.syncs, spent.main.syncs), (1, 1));
    assert_eq!(spent.main.bytes_written, spent.main.writes * 4096);
}

#[test]
fn normal_and_off_commit_without_a_sync() {
    for settings in [NORMAL, OFF] {
        let machine = Machine::with(Shim::counting(&format!("counts, {}", settings.synchronous)).unwrap());
        let db = machine.open(settings);
        insert(&db, 0).unwrap();
        let start = machine.shim.counts();
        insert(&db, 1).unwrap();
        assert_eq!((machine.shim.counts() - start).syncs(), 0);
    }
}

#[test]
fn a_counting_shim_cannot_lose_power() {
    let shim = Shim::counting("only counts").unwrap();
    assert!(matches!(shim.lose_power(Keep::Nothing), Err(Error::OnlyCounts)));
}

#[test]
fn a_name_is_used_once() {
    Shim::counting("once").unwrap();
    assert!(matches!(Shim::power_loss("once"), Err(Error::NameTaken(_))));
    assert!(matches!(Shim::counting("unix"), Err(Error::NameTaken(_))));
    assert!(matches!(Shim::counting("a\0b"), Err(Error::BadName(_))));
}

#[test]
fn temporary_files_and_memory_maps_do_no_harm() {
    let machine = Machine::boot("temporary");
    let db = machine.open(FULL);
    db.execute_batch(
        "PRAGMA mmap_size = 1000000; PRAGMA temp_store = FILE; PRAGMA cache_size = 2;
         CREATE TEMP TABLE spilled (body BLOB);
         WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 500)
             INSERT INTO spilled SELECT randomblob(2000) FROM n;
         VACUUM;",
    )
    .unwrap();
    insert(&db, 1).unwrap();
    machine.shim.lose_power(Keep::Random(3)).unwrap();
    assert!(db.execute("INSERT INTO spilled SELECT randomblob(99999) FROM spilled", []).is_err());
    drop(db);
    assert_eq!(machine.survivors(), [1].into());
}
