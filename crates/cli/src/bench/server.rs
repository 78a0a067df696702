//! A server in a process of its own, with scratch data: started, asked, killed, started again.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use abide_core::TenantId;
use abide_server::{ApiSecret, Grant, Keyring};
use abide_store::{Sqlite, SqliteOptions, Store};
use anyhow::Context;
use serde_json::Value;

use crate::args::ClientArgs;
use crate::client::Client;

/// The configuration of a server, beside its data, if it has one.
pub(super) const CONFIG: &str = "abide.toml";

/// A server of ours in a process of its own.
pub(super) struct Server {
    child: Child,
    pub(super) address: SocketAddr,
    pub(super) client: Arc<Client>,
    /// From the start of the process to its first answer.
    pub(super) up_after: Duration,
}

/// A data directory with workflows in a folder beside it, and a key, which is the answer.
pub(super) async fn prepare(dir: &Path, workflows: &[Value]) -> anyhow::Result<String> {
    std::fs::create_dir_all(dir.join("workflows"))?;
    for (ix, workflow) in workflows.iter().enumerate() {
        std::fs::write(dir.join(format!("workflows/{ix}.json")), workflow.to_string())?;
    }
    let store = Sqlite::open(&SqliteOptions::new(dir.join("data")))?;
    let keyring = Keyring::open_or_create(&dir.join("data.keyring")).map_err(anyhow::Error::msg)?;
    let secret = ApiSecret::generate();
    let grant = Grant::everything(TenantId(1), "bench");
    store.put_api_keys(vec![grant.row(&secret, &keyring, 0)?]).await?;
    Ok(secret.text().to_owned())
}

impl Server {
    pub(super) async fn start(dir: &Path, key: &str) -> anyhow::Result<Self> {
        let place = |command: &mut Command| {
            command.arg("--data").arg(dir.join("data"));
        };
        Self::launch(dir, key, place).await
    }

    /// One of several on a database.
    pub(super) async fn start_on(dir: &Path, store: &str, name: &str, key: &str) -> anyhow::Result<Self> {
        let place = |command: &mut Command| {
            command.env("ABIDE_STORE", store).args(["--name", name, "--public-url", "http://127.0.0.1"]);
            command.arg("--keyring").arg(dir.join("keyring"));
        };
        Self::launch(dir, key, place).await
    }

    async fn launch(dir: &Path, key: &str, place: impl FnOnce(&mut Command)) -> anyhow::Result<Self> {
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let began = Instant::now();
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["serve", "--log", "error", "--listen", &format!("127.0.0.1:{port}"), "--workflows"])
            .arg(dir.join("workflows"))
            .stdin(Stdio::null());
        place(&mut command);
        if dir.join(CONFIG).exists() {
            command.arg("--config").arg(dir.join(CONFIG));
        }
        let child = command.spawn()?;
        let args = ClientArgs {
            url: format!("http://127.0.0.1:{port}"),
            api_key: Some(key.to_owned()),
            ca: None,
            json: true,
        };
        let client = Arc::new(Client::new(&args)?);
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut server = Self { child, address, client, up_after: Duration::ZERO };
        while server.client.get("/v1/runs?limit=1").await.is_err() {
            anyhow::ensure!(server.child.try_wait()?.is_none(), "the server ended");
            anyhow::ensure!(began.elapsed() < Duration::from_secs(60), "the server did not come up");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        server.up_after = began.elapsed();
        Ok(server)
    }

    /// Resident memory in MiB, as the kernel counts it.
    pub(super) fn resident(&self) -> anyhow::Result<f64> {
        let status =
            std::fs::read_to_string(PathBuf::from("/proc").join(self.child.id().to_string()).join("status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kib: f64 = line.trim().trim_end_matches(" kB").trim().parse()?;
        Ok(kib / 1024.0)
    }

    /// What the process has used of the CPUs.
    pub(super) fn cpu(&self) -> anyhow::Result<Duration> {
        let stat =
            std::fs::read_to_string(PathBuf::from("/proc").join(self.child.id().to_string()).join("stat"))?;
        // The name of the program stands in parentheses and may have spaces; the times are the 12th and 13th behind it.
        let behind = stat.rsplit_once(')').context("no name in stat")?.1;
        let ticks =
            behind.split_whitespace().skip(11).take(2).map(str::parse::<u64>).sum::<Result<u64, _>>()?;
        Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
    }

    pub(super) fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    pub(super) fn stop(mut self) -> anyhow::Result<()> {
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.child),
            rustix::process::Signal::TERM,
        )?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Ended already, or left behind by an error: either way it must not outlive the bench.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Bytes of the data directory.
pub(super) fn disk(dir: &Path) -> anyhow::Result<u64> {
    let entries = std::fs::read_dir(dir.join("data"))?;
    entries.map(|entry| Ok(entry?.metadata()?.len())).sum()
}
