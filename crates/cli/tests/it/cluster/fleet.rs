//! Servers that share a database, each with a clock of its own.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use abide_pgtest::{Cluster, Database};
use rustix::process::{Pid, Signal};
use serde_json::Value;

use super::work::{nap, race};
use crate::support::{PATIENCE, Site, abide_itself, await_word};

/// A place for a server: where it is, if it is anywhere.
struct Slot {
    name: String,
    skew: String,
    state: Mutex<State>,
}

impl Slot {
    /// What is known of it, also by a test that has failed and cleans up.
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[derive(Default)]
struct State {
    child: Option<std::process::Child>,
    url: String,
}

/// Servers on one database.
pub(super) struct Fleet {
    site: Site,
    database: Option<Database>,
    url: String,
    key: String,
    slots: Arc<Vec<Slot>>,
    pub(super) http: reqwest::Client,
}

impl Fleet {
    /// Starts a server for each clock, which is as libfaketime has it; an empty one is right.
    pub(super) async fn start(database: Database, standby: Option<&Cluster>, skews: &[&str]) -> Self {
        let site = Site::new();
        site.workflow(&race()).workflow(&nap());
        let primary = format!("127.0.0.1:{}", database.cluster().port());
        let url = match standby {
            None => database.url(),
            Some(standby) => {
                let hosts = format!("{primary},127.0.0.1:{}", standby.port());
                format!("{}?target_session_attrs=read-write", database.url().replace(&primary, &hosts))
            }
        };
        let keyring = site.path("keyring");
        let made = abide_itself()
            .args(["keys", "create", "--json", "--tenant", "default", "--principal", "drill", "--keyring"])
            .arg(&keyring)
            .env("ABIDE_STORE", &url)
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        let made: Value = serde_json::from_slice(&made.stdout).unwrap();
        let slot = |(n, skew): (usize, &&str)| Slot {
            name: format!("server-{n}"),
            skew: (*skew).to_owned(),
            state: Mutex::default(),
        };
        let slots: Arc<Vec<Slot>> = Arc::new(skews.iter().enumerate().map(slot).collect());
        // One that a standby takes over from can't be dropped in an orderly way.
        let database = if standby.is_some() {
            std::mem::forget(database);
            None
        } else {
            Some(database)
        };
        let http = reqwest::Client::builder().timeout(Duration::from_secs(4)).build().unwrap();
        let key = made["key"].as_str().unwrap().to_owned();
        let fleet = Self { site, database, url, key, slots, http };
        fleet.all_up().await;
        fleet
    }

    pub(super) fn size(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// Where a server is, or was.
    pub(super) fn url(&self, slot: usize) -> String {
        self.slots[slot].state().url.clone()
    }

    /// Where the servers are, for somebody who goes their own way.
    pub(super) fn addresses(&self) -> Arc<dyn Fn(usize) -> String + Send + Sync> {
        let slots = self.slots.clone();
        Arc::new(move |at| slots[at].state().url.clone())
    }

    fn said(&self, slot: &Slot) -> PathBuf {
        self.site.path(&format!("{}.log", slot.name))
    }

    /// Starts a server that is not there, and waits until it takes requests.
    pub(super) fn raise(&self, at: usize) {
        let slot = &self.slots[at];
        let mut state = slot.state();
        if state.child.is_some() {
            return;
        }
        let said = self.said(slot);
        let mut command: Command = abide_itself();
        command
            .args([
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--log",
                "warn,abide=info",
                "--name",
                &slot.name,
                "--keyring",
            ])
            .arg(self.site.path("keyring"))
            .args([
                "--public-url",
                "http://abide.example",
                "--rate-key",
                "100000/s",
                "--rate-tenant",
                "100000/s",
                "--workflows",
            ])
            .arg(self.site.path("workflows"))
            .env("ABIDE_STORE", &self.url)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&said).unwrap());
        if !slot.skew.is_empty() {
            command
                .env("LD_PRELOAD", faketime())
                .env("FAKETIME", &slot.skew)
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
            command.env("DONT_FAKE_MONOTONIC", "1");
        }
        let mut child = command.spawn().unwrap();
        state.url = await_word(&mut child, &said, "url=\"", '"');
        state.child = Some(child);
    }

    /// Ends a server as `kill -9` does.
    pub(super) fn kill(&self, at: usize) {
        let child = self.slots[at].state().child.take();
        if let Some(mut child) = child {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Ends a server in an orderly way.
    pub(super) fn stop(&self, at: usize) {
        self.signal(at, Signal::TERM);
        let child = self.slots[at].state().child.take();
        if let Some(mut child) = child {
            let ended = child.wait().unwrap();
            assert!(
                ended.success(),
                "{ended}: {}",
                std::fs::read_to_string(self.said(&self.slots[at])).unwrap()
            );
        }
    }

    pub(super) fn signal(&self, at: usize, signal: Signal) {
        let state = self.slots[at].state();
        if let Some(child) = &state.child {
            rustix::process::kill_process(Pid::from_child(child), signal).unwrap();
        }
    }

    /// Waits until every server takes requests.
    pub(super) async fn all_up(&self) {
        tokio::task::block_in_place(|| (0..self.size()).for_each(|at| self.raise(at)));
        let began = std::time::Instant::now();
        for at in 0..self.size() {
            loop {
                let ready = self.http.get(format!("{}/readyz", self.url(at))).send().await;
                if ready.is_ok_and(|ready| ready.status().is_success()) {
                    break;
                }
                assert!(began.elapsed() < PATIENCE, "{} never comes back", self.slots[at].name);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }

    /// Asks any server that answers.
    pub(super) async fn get(&self, path: &str) -> Value {
        let began = std::time::Instant::now();
        for at in (0..self.size()).cycle() {
            let asked = self.http.get(format!("{}{path}", self.url(at))).bearer_auth(&self.key).send().await;
            if let Ok(answer) = asked {
                let status = answer.status();
                assert!(!status.is_client_error(), "{path}: {status} {}", answer.text().await.unwrap());
                if status.is_success() {
                    return answer.json().await.unwrap();
                }
            }
            assert!(began.elapsed() < PATIENCE, "nobody answers {path}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        unreachable!("there are servers")
    }

    /// Checks every journal in the database.
    pub(super) fn verify(&self, runs: u64) {
        let mut command = abide_itself();
        command.args(["verify", "--json", "--keyring"]).arg(self.site.path("keyring"));
        let output = command.env("ABIDE_STORE", &self.url).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        assert!(output.status.success(), "{report:#} {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(report["runs"], runs, "{report:#}");
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        (0..self.size()).for_each(|at| self.signal(at, Signal::CONT));
        (0..self.size()).for_each(|at| self.kill(at));
        drop(self.database.take());
    }
}

/// libfaketime for programs with several threads.
fn faketime() -> PathBuf {
    let found = || {
        let folders = std::fs::read_dir("/usr/lib").ok()?;
        let there = |folder: std::fs::DirEntry| folder.path().join("faketime/libfaketime.so.1");
        folders.filter_map(Result::ok).map(there).find(|file| file.exists())
    };
    let named = std::env::var_os("ABIDE_TEST_FAKETIME").map(PathBuf::from);
    let file = named.or_else(found).expect("install faketime, or run ./test, which does");
    file.with_file_name("libfaketimeMT.so.1")
}
