//! `abide backup` and `abide restore`: a copy of a live directory, and what comes of it elsewhere.

use std::path::Path;

use serde_json::Value;

use super::*;

fn backup(site: &Site, to: &Path, more: &[&str]) -> Output {
    run(abide().arg("backup").arg("--data").arg(site.data()).arg("--to").arg(to).args(more))
}

fn restore(file: &Path, data: &Path, more: &[&str]) -> Output {
    run(abide().arg("restore").arg(file).arg("--data").arg(data).args(more))
}

/// A site that has the workflows of another and its keyring, but none of its data yet.
fn elsewhere(from: &Site) -> Site {
    let site = site();
    std::fs::copy(from.path("data.keyring"), site.path("data.keyring")).unwrap();
    site
}

/// Starts runs until told to stop, and tells which were acknowledged so far.
async fn load(server: &Server, acknowledged: &std::sync::Mutex<Vec<String>>) {
    loop {
        let workflow = if acknowledged.lock().unwrap().len().is_multiple_of(3) { "hello" } else { "quick" };
        let run = server.start_run(workflow, json!({})).await;
        acknowledged.lock().unwrap().push(run);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_made_under_load_has_all_that_was_acknowledged_and_goes_on_elsewhere() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let acknowledged = std::sync::Mutex::new(Vec::new());
    let file = site.path("backup.db");
    let before = {
        let loads = futures_util::future::join_all((0..4).map(|_| load(&server, &acknowledged)));
        let copied = async {
            while acknowledged.lock().unwrap().len() < 200 {
                tokio::task::yield_now().await;
            }
            let before = acknowledged.lock().unwrap().clone();
            let (data, to) = (site.data(), file.clone());
            let command =
                move || run(abide().args(["backup", "--json", "--data"]).arg(data).arg("--to").arg(to));
            let made = tokio::task::spawn_blocking(command).await.unwrap();
            assert_eq!(code(&made), 0, "{made:?}");
            (before, made)
        };
        tokio::select! {
            _ = loads => unreachable!("it never ends"),
            copied = copied => copied,
        }
    };
    let (before, made) = before;
    assert!(acknowledged.lock().unwrap().len() > before.len(), "others went on meanwhile");
    server.kill();
    let told: Value = serde_json::from_str(stdout(&made)).unwrap();
    assert_eq!(told["bytes"], std::fs::metadata(&file).unwrap().len());
    assert_eq!(told["version"], env!("CARGO_PKG_VERSION"));
    assert!(stderr(&made).contains("data.keyring is not in it"), "{made:?}");
    let there = elsewhere(&site);
    let restored = restore(&file, &there.data(), &["--json"]);
    assert_eq!(code(&restored), 0, "{restored:?}");
    let runs = crate::support::verify(&there.data());
    assert_eq!((told["runs"].as_u64(), runs >= before.len() as u64), (Some(runs), true));
    let server = there.start(&["--test-clock"]);
    for run in &before {
        let (status, shown) = server.get(&format!("/v1/runs/{run}")).await;
        assert_eq!(status, 200, "{run}: {shown}");
    }
    // What was parked goes on, and a timer that was overdue fires once.
    server.advance(3_600_000).await;
    let parked = before.first().unwrap();
    let events = server.events(parked).await;
    let fired = events.iter().filter(|event| event["type"] == "node.completed").count();
    assert_eq!(fired, 2, "{events:?}");
    assert!(server.stop().success());
    assert_eq!(crate::support::verify(&there.data()), runs);
}

#[tokio::test]
async fn a_file_that_is_there_is_replaced_only_if_somebody_says_so() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    server.start_run("quick", json!({})).await;
    let file = site.path("backup.db");
    std::fs::write(&file, "precious").unwrap();
    let refused = backup(&site, &file, &[]);
    assert_eq!((code(&refused), stdout(&refused)), (1, ""), "{refused:?}");
    assert!(stderr(&refused).contains("add --force"), "{refused:?}");
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
    let made = backup(&site, &file, &["--force", "--quick"]);
    assert_eq!(code(&made), 0, "{made:?}");
    let bytes = std::fs::metadata(&file).unwrap().len();
    let version = env!("CARGO_PKG_VERSION");
    let told =
        format!("{}: 1 runs, 4 events, written by abide {version}, {bytes} bytes, checked\n", file.display());
    assert_eq!(stdout(&made), told);
    let left: Vec<_> =
        std::fs::read_dir(site.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with(".abide-backup")), "{left:?}");
    let nowhere =
        run(abide().args(["backup", "--data"]).arg(site.path("none")).arg("--to").arg(site.path("b")));
    assert_eq!(code(&nowhere), 1, "{nowhere:?}");
    assert!(stderr(&nowhere).contains("holds no Abide data"), "{nowhere:?}");
}

#[tokio::test]
async fn what_a_killed_server_left_in_its_log_is_copied_and_stays_as_it_is() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let kept = server.start_run("quick", json!({})).await;
    server.kill();
    let content = || {
        let read = |name: &str| std::fs::read(site.data().join(name)).unwrap();
        (read("abide.db"), read("abide.db-wal"))
    };
    let before = content();
    assert!(!before.1.is_empty(), "the run is in the log alone");
    let file = site.path("backup.db");
    assert_eq!(code(&backup(&site, &file, &[])), 0);
    assert!(content() == before, "nothing was changed where it was copied from");
    let there = elsewhere(&site);
    assert_eq!(code(&restore(&file, &there.data(), &[])), 0);
    let server = there.start(&["--test-clock"]);
    assert_eq!(server.get(&format!("/v1/runs/{kept}")).await.0, 200);
}

#[tokio::test]
async fn what_holds_data_is_put_aside_and_only_if_somebody_says_so() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let kept = server.start_run("quick", json!({})).await;
    let file = site.path("backup.db");
    assert_eq!(code(&backup(&site, &file, &[])), 0);
    let later = server.start_run("quick", json!({})).await;
    let busy = restore(&file, &site.data(), &["--force"]);
    assert_eq!(code(&busy), 1, "{busy:?}");
    assert!(stderr(&busy).contains("another abide is using"), "{busy:?}");
    server.kill();
    let refused = restore(&file, &site.data(), &[]);
    assert_eq!(code(&refused), 1, "{refused:?}");
    assert!(stderr(&refused).contains("is not empty: there is") && stderr(&refused).contains("--force"));
    let restored = restore(&file, &site.data(), &["--force", "--json"]);
    assert_eq!(code(&restored), 0, "{restored:?}");
    let told: Value = serde_json::from_str(stdout(&restored)).unwrap();
    let aside = rusqlite::Connection::open(told["keptAs"].as_str().unwrap()).unwrap();
    let count: u64 = aside.query_row("SELECT count(*) FROM aggregates", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 2, "what was there is whole, with what its log had");
    let server = site.start(&["--test-clock"]);
    assert_eq!(server.get(&format!("/v1/runs/{kept}")).await.0, 200);
    assert_eq!(server.get(&format!("/v1/runs/{later}")).await.0, 404);
    assert!(server.stop().success());
    assert_eq!(crate::support::verify(&site.data()), 1);
}

#[tokio::test]
async fn a_file_that_is_no_good_backup_is_refused_and_nothing_is_made() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    for _ in 0..20 {
        server.start_run("quick", json!({ "text": "much ".repeat(2_000) })).await;
    }
    let good = site.path("good.db");
    assert_eq!(code(&backup(&site, &good, &[])), 0);
    server.kill();
    let bytes = std::fs::read(&good).unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(site.path(name), bytes).unwrap();
    write("short.db", &bytes[..bytes.len() / 2]);
    write("text.db", b"this is no database, but it is longer than a header");
    write("empty.db", b"");
    let mut torn = bytes.clone();
    let middle = torn.len() / 2 / 4096 * 4096;
    torn[middle..middle + 4096].fill(0xa5);
    write("torn.db", &torn);
    write("newer.db", &bytes);
    rusqlite::Connection::open(site.path("newer.db"))
        .unwrap()
        .pragma_update(None, "user_version", 99)
        .unwrap();
    let foreign = rusqlite::Connection::open(site.path("foreign.db")).unwrap();
    foreign.execute_batch("CREATE TABLE t (a)").unwrap();
    drop(foreign);
    let data = site.path("fresh");
    for (name, exit, word) in [
        ("short.db", 5, "it was cut short"),
        ("text.db", 5, "it is not a SQLite database"),
        ("empty.db", 1, "is empty; a backup is made with `abide backup`"),
        ("torn.db", 5, "nothing was changed"),
        ("newer.db", 1, "upgrade this abide"),
        ("foreign.db", 1, "not one of Abide's; give a file that `abide backup` made"),
        ("nowhere.db", 1, "check the name of the backup"),
    ] {
        let refused = restore(&site.path(name), &data, &[]);
        assert_eq!((code(&refused), stdout(&refused)), (exit, ""), "{name}: {refused:?}");
        assert!(stderr(&refused).contains(word), "{name}: {refused:?}");
        let left =
            data.read_dir().map_or(Vec::new(), |dir| dir.map(|entry| entry.unwrap().file_name()).collect());
        assert!(left.iter().all(|name| name == "lock"), "{name}: {left:?}");
    }
    assert_eq!(code(&restore(&good, &data, &[])), 0);
}

#[tokio::test]
async fn a_copy_of_an_older_release_is_brought_up_to_date() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    server.start_run("quick", json!({})).await;
    assert!(server.stop().success());
    let there = elsewhere(&site);
    let file = site.path("golden.db");
    let golden = crate::support::repository().join("crates/cli/tests/golden/0.6.sql");
    let database = rusqlite::Connection::open(&file).unwrap();
    database.execute_batch(&std::fs::read_to_string(golden).unwrap()).unwrap();
    drop(database);
    let older = backup_of(&file, &site);
    assert!(stderr(&older).contains("was written by an older abide"), "{older:?}");
    let restored = restore(&file, &there.data(), &["--quick"]);
    assert_eq!(code(&restored), 0, "{restored:?}");
    assert!(stdout(&restored).ends_with("restored a copy of an older abide\n"), "{restored:?}");
}

/// A backup of a directory that holds this file alone.
fn backup_of(file: &Path, site: &Site) -> Output {
    let dir = site.path("older");
    std::fs::create_dir(&dir).unwrap();
    std::fs::copy(file, dir.join("abide.db")).unwrap();
    run(abide().arg("backup").arg("--data").arg(&dir).arg("--to").arg(site.path("older.db")))
}
