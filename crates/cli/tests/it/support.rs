//! Starting, asking, killing and stopping a real server.

mod ask;
mod contract;
mod ground;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

pub(crate) use ask::Ask;
pub(crate) use contract::Contract;
use ground::Ground;

/// How long a test waits for what must come. It is only there so that one that would wait for ever ends, so it is long
/// enough for a machine that is busy with other things.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// The binary under test.
pub(crate) fn abide() -> Command {
    without_settings(ground::command(env!("CARGO_BIN_EXE_abide")))
}

/// The binary under test, on whatever store it is told.
pub(crate) fn abide_itself() -> Command {
    without_settings(Command::new(env!("CARGO_BIN_EXE_abide")))
}

fn without_settings(mut command: Command) -> Command {
    for name in [
        "ABIDE_STORE",
        "ABIDE_NAME",
        "ABIDE_ADVERTISE",
        "ABIDE_URL",
        "ABIDE_API_KEY",
        "ABIDE_DATA",
        "ABIDE_LISTEN",
        "ABIDE_PUBLIC_URL",
        "ABIDE_LOG",
        "ABIDE_WORKFLOWS",
        "ABIDE_KEYRING",
        "ABIDE_CONFIG",
        "ABIDE_OPENINTENT",
        "ABIDE_ALLOW_NET",
        "ABIDE_EVENT_RETENTION",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "OTEL_EXPORTER_OTLP_HEADERS",
        "OTEL_EXPORTER_OTLP_PROTOCOL",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        "OTEL_SERVICE_NAME",
        "ABIDE_RATE_KEY",
        "ABIDE_RATE_TENANT",
        "ABIDE_MAX_REQUESTS",
        "ABIDE_MAX_WAITING",
        "ABIDE_MAX_BODY_MIB",
        "ABIDE_TLS_CERT",
        "ABIDE_TLS_KEY",
        "ABIDE_CA",
        "ABIDE_OIDC_ISSUER",
        "ABIDE_OIDC_AUDIENCE",
        "ABIDE_OIDC_JWKS",
        "COLUMNS",
        "NO_COLOR",
    ] {
        command.env_remove(name);
    }
    command
}

/// The root of this repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The tests' own Python environment, which has other people's clients.
pub(crate) fn python_home() -> PathBuf {
    let missing = "run ./test once: it makes the Python environment";
    let built = Path::new(env!("CARGO_BIN_EXE_abide"));
    let beside = || built.ancestors().map(|dir| dir.join("python")).find(|dir| dir.is_dir());
    let home: PathBuf = std::env::var_os("ABIDE_TEST_PYTHON").map(Into::into).or_else(beside).expect(missing);
    let wanted = std::fs::read(repository().join("tests/python/requirements.txt")).unwrap();
    let there = std::fs::read(home.join("requirements.txt")).unwrap_or_default();
    assert!(wanted == there, "{missing}; what it has is not what tests/python/requirements.txt lists");
    home
}

/// Where a test keeps its data: a directory for the server, its keyring beside it, and workflows.
pub(crate) struct Site {
    ground: Ground,
    dir: tempfile::TempDir,
}

impl Site {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("workflows")).unwrap();
        Self { ground: Ground::beside(&dir.path().join("data")), dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// Adds a workflow definition.
    pub(crate) fn workflow(&self, definition: &Value) -> &Self {
        let id = definition["id"].as_str().unwrap();
        std::fs::write(self.path(&format!("workflows/{id}.json")), definition.to_string()).unwrap();
        self
    }

    /// Starts `abide dev` on this site.
    pub(crate) fn start(&self, extra: &[&str]) -> Server {
        self.try_start(extra)
            .unwrap_or_else(|status| panic!("the server ended with {status}: {}", self.said()))
    }

    /// Starts `abide dev` on this site, or tells how it ended before it listened.
    pub(crate) fn try_start(&self, extra: &[&str]) -> Result<Server, ExitStatus> {
        Server::start(self, extra)
    }

    /// Starts `abide serve` on this site; requests carry this key.
    pub(crate) fn serve(&self, key: &str, extra: &[&str]) -> Server {
        Server::serve(self, key, extra)
    }

    /// Makes an API key of a tenant that may do everything. No server may be running.
    pub(crate) fn new_key(&self, tenant: &str) -> String {
        self.key(tenant).make()
    }

    /// An API key of a tenant, to be made with what it may do. No server may be running.
    pub(crate) fn key(&self, tenant: &str) -> NewKey<'_> {
        let flags = ["--tenant", tenant].map(str::to_owned).to_vec();
        NewKey { site: self, flags }
    }

    /// The id of a key that was made here: what its text says, or the only key whose text was chosen.
    pub(crate) fn key_id(&self, key: &str) -> String {
        if let Some((id, _)) = key.strip_prefix("abk_").and_then(|rest| rest.split_once('_')) {
            return id.to_owned();
        }
        self.ground.text("SELECT id FROM api_keys WHERE whole = 1")
    }

    /// The only number that a query gives, read past the server.
    pub(crate) fn count(&self, sql: &str) -> u64 {
        self.ground.count(sql)
    }

    /// Changes rows past the server, and tells how many.
    pub(crate) fn change(&self, sql: &str) -> u64 {
        self.ground.change(sql)
    }

    /// The file of the data directory, beside a server that may be running. A test that asks for it is about files, and
    /// is left out where there are none.
    pub(crate) fn database(&self) -> rusqlite::Connection {
        self.ground.file()
    }

    /// Waits until everybody who is to be told by now has been told.
    pub(crate) async fn settle_messages(&self, server: &Server) {
        let began = std::time::Instant::now();
        let (_, clock) = server.get("/v1/dev/clock").await;
        let now = clock["nowMs"].as_i64().unwrap();
        let pending = format!(
            "SELECT (SELECT count(*) FROM notices) + (SELECT count(*) FROM notice_deliveries WHERE due <= {now})"
        );
        while self.ground.count(&pending) > 0 {
            assert!(began.elapsed() < PATIENCE, "somebody is not told");
            tokio::task::yield_now().await;
        }
    }

    /// Waits until nothing more happens before the test clock is moved, and no run has anything to tell another.
    pub(crate) async fn settle(&self, server: &Server) {
        let began = std::time::Instant::now();
        let events = "SELECT coalesce(sum(next), 0) FROM aggregates";
        loop {
            let before = self.ground.count(events);
            server.settle().await;
            if self.ground.count("SELECT count(*) FROM outbox") == 0 && self.ground.count(events) == before {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "somebody is not told");
        }
    }

    /// How many rows each table has. What servers count for themselves (their starts, who is there) is left out.
    pub(crate) fn rows(&self) -> BTreeMap<String, u64> {
        self.ground.rows("true", false)
    }

    /// How many rows of a tenant each table has.
    pub(crate) fn rows_of(&self, tenant: &str) -> BTreeMap<String, u64> {
        self.ground.rows(&format!("tenant = (SELECT id FROM tenants WHERE name = '{tenant}')"), true)
    }

    /// Waits until the last server has said this.
    pub(crate) fn await_said(&self, text: &str) {
        let began = std::time::Instant::now();
        while !self.said().contains(text) {
            assert!(began.elapsed() < PATIENCE, "'{text}' is not in: {}", self.said());
            std::thread::yield_now();
        }
    }

    /// What the last server said: its welcome and its log.
    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(self.path("said")).unwrap_or_default()
    }
}

/// A key to be made: `site.key("default").scopes("runs:read").expires_in("1h").make()`.
pub(crate) struct NewKey<'a> {
    site: &'a Site,
    flags: Vec<String>,
}

impl NewKey<'_> {
    fn with(mut self, flag: &str, value: &str) -> Self {
        self.flags.extend([flag.to_owned(), value.to_owned()]);
        self
    }

    /// What it may do, separated by commas. Without this it may do everything.
    pub(crate) fn scopes(self, scopes: &str) -> Self {
        self.with("--scopes", scopes)
    }

    /// Who acts through it.
    pub(crate) fn principal(self, principal: &str) -> Self {
        self.with("--principal", principal)
    }

    /// The roles of whoever acts through it, separated by commas.
    pub(crate) fn roles(self, roles: &str) -> Self {
        self.with("--roles", roles)
    }

    /// When it ends: `1h`.
    pub(crate) fn expires_in(self, span: &str) -> Self {
        self.with("--expires-in", span)
    }

    /// The text of the key.
    pub(crate) fn secret(self, text: &str) -> Self {
        self.with("--secret", text)
    }

    /// It may speak for others.
    pub(crate) fn act_as(mut self) -> Self {
        self.flags.push("--act-as".to_owned());
        self
    }

    /// Makes it, and gives the text to send.
    pub(crate) fn make(self) -> String {
        let made = self.made();
        made["key"].as_str().map_or_else(|| self.chosen().to_owned(), str::to_owned)
    }

    /// Makes it, and gives what is told about it.
    pub(crate) fn made(&self) -> Value {
        let mut command = abide();
        command.args(["keys", "create", "--json", "--data"]).arg(self.site.data()).args(&self.flags);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn chosen(&self) -> &str {
        let at = self.flags.iter().position(|flag| flag == "--secret").unwrap();
        &self.flags[at + 1]
    }
}

/// A server process and how to talk to it.
pub(crate) struct Server {
    child: Child,
    http: reqwest::Client,
    /// What the server says about its own answers, unless it died before it said anything.
    pub(crate) contract: Option<Arc<Contract>>,
    pub(crate) url: String,
    pub(crate) key: String,
}

impl Server {
    fn start(site: &Site, extra: &[&str]) -> Result<Self, ExitStatus> {
        let log = std::fs::File::options().create(true).append(true).open(site.path("server.log")).unwrap();
        let said = site.path("said");
        let mut child = abide()
            .args(["dev", "--listen", "127.0.0.1:0", "--log", "warn", "--data"])
            .arg(site.data())
            .arg("--workflows")
            .arg(site.path("workflows"))
            .args(extra)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(std::fs::File::create(&said).unwrap())
            .spawn()
            .unwrap();
        let (url, key) = read_welcome(&mut child, &said)?;
        let mut server = Self { child, http: reqwest::Client::new(), contract: None, url, key };
        // From here on it ends with the test, whatever is found.
        server.contract = Contract::of(&server.url, extra.contains(&"--test-clock"));
        Ok(server)
    }

    fn serve(site: &Site, key: &str, extra: &[&str]) -> Self {
        let mut command = abide();
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(site.data())
            .arg("--workflows")
            .arg(site.path("workflows"))
            .args(extra);
        Self::launch(command, &site.path("said"), key)
    }

    /// Starts any `abide serve`, which has to log that it listens.
    pub(crate) fn launch(mut command: Command, said: &Path, key: &str) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(said).unwrap())
            .spawn()
            .unwrap();
        let url = await_word(&mut child, said, "url=\"", '"');
        let http = reqwest::Client::new();
        let mut server = Self { child, http, contract: None, url, key: key.to_owned() };
        server.contract = Contract::of(&server.url, false);
        server
    }

    /// Kills the process as `kill -9` does, and waits until it is gone.
    pub(crate) fn kill(mut self) {
        self.die();
    }

    /// The same, for one that another takes the place of.
    pub(crate) fn die(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The number of the process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks the process to stop as `kill` does, and waits.
    pub(crate) fn stop(mut self) -> ExitStatus {
        self.terminate();
        self.child.wait().unwrap()
    }

    /// Asks the process to stop as `kill` does.
    pub(crate) fn terminate(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    /// Sends the process a signal.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits until the process has ended by itself, and tells how.
    pub(crate) async fn exit(&mut self) -> ExitStatus {
        let began = std::time::Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "the server goes on");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Whether the process has ended by itself.
    pub(crate) fn has_died(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Any request with another key.
    pub(crate) fn request_as(&self, key: &str, method: Method, path: &str) -> Ask {
        self.anonymous(method, path).bearer_auth(key)
    }

    /// Any request without a key.
    pub(crate) fn anonymous(&self, method: Method, path: &str) -> Ask {
        Ask::new(self.http.request(method, format!("{}{path}", self.url)), self.contract.clone())
    }

    /// Any request with this server's key.
    pub(crate) fn request(&self, method: Method, path: &str) -> Ask {
        self.anonymous(method, path).bearer_auth(&self.key)
    }

    /// Waits until so many polls and streams are open.
    pub(crate) async fn await_waiting(&self, count: usize) {
        self.await_metric("abide_http_waiting", count).await;
    }

    /// Waits until a metric has this value.
    pub(crate) async fn await_metric(&self, name: &str, value: usize) {
        let line = format!("\n{name} {value}\n");
        let began = std::time::Instant::now();
        loop {
            let metrics = self.request(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
            if metrics.contains(&line) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{line} in {metrics}");
        }
    }

    pub(crate) async fn get(&self, path: &str) -> (StatusCode, Value) {
        answer(self.request(Method::GET, path)).await.unwrap()
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        answer(self.request(Method::POST, path).json(body)).await.unwrap()
    }

    /// Starts a run and gives its id.
    pub(crate) async fn start_run(&self, workflow: &str, inputs: Value) -> String {
        let (status, body) =
            self.post("/v1/runs", &json!({ "workflowId": workflow, "inputs": inputs })).await;
        assert_eq!(status, StatusCode::CREATED, "{body}");
        body["runId"].as_str().unwrap().to_owned()
    }

    /// Waits for the end of a run by long polls, and gives all its events.
    pub(crate) async fn events(&self, run: &str) -> Vec<Value> {
        tokio::time::timeout(PATIENCE, self.events_to_the_end(run)).await.expect("the run ends")
    }

    async fn events_to_the_end(&self, run: &str) -> Vec<Value> {
        let mut events: Vec<Value> = Vec::new();
        loop {
            let after = events.last().map_or(-1, |event| event["sequence"].as_i64().unwrap());
            let (status, page) =
                self.get(&format!("/v1/runs/{run}/events/poll?timeout=60&lastSequence={after}")).await;
            assert_eq!(status, StatusCode::OK, "{page}");
            events.extend(page["events"].as_array().unwrap().iter().cloned());
            if page["isComplete"] == true {
                return events;
            }
        }
    }

    /// Moves the test clock.
    pub(crate) async fn advance(&self, ms: i64) {
        let (status, body) = self.post("/v1/dev/clock", &json!({ "advanceMs": ms })).await;
        assert_eq!(status, StatusCode::OK, "{body}");
    }

    /// Waits until nothing more happens before the test clock is moved.
    pub(crate) async fn settle(&self) {
        self.settle_with(&[]).await;
    }

    /// The same beside workers, the processes of these numbers.
    pub(crate) async fn settle_with(&self, workers: &[String]) {
        let began = std::time::Instant::now();
        while let Some(restless) = self.restless(workers).await {
            assert!(began.elapsed() < PATIENCE, "the runs do not come to rest: {restless:#}");
            tokio::task::yield_now().await;
        }
    }

    /// Why a run is going to do something by itself, if one is.
    async fn restless(&self, workers: &[String]) -> Option<Value> {
        let (_, clock) = self.get("/v1/dev/clock").await;
        let (_, page) = self.get("/v1/runs?limit=500").await;
        let is_open =
            |run: &&Value| !["completed", "failed", "cancelled"].contains(&run["status"].as_str().unwrap());
        let open: Vec<&Value> =
            page["runs"].as_array().unwrap().iter().filter(is_open).map(|run| &run["runId"]).collect();
        let provided = if workers.is_empty() { Vec::new() } else { self.provided_by(workers).await };
        for run in &open {
            let run = run.as_str().unwrap();
            let (_, why) = self.get(&format!("/v1/runs/{run}/why")).await;
            let (_, shown) = self.get(&format!("/v1/runs/{run}")).await;
            let rests = |reason: &Value| match reason["kind"].as_str().unwrap() {
                // The times are all written alike, so the later one is the greater text.
                "delay" | "retry" | "timeout" | "ladder" | "provider" => {
                    reason["until"].as_str() > clock["now"].as_str()
                }
                // Nobody answers but the test, and what is interrupted without a time waits for somebody.
                "approval" | "input" | "event" | "interrupted" => {
                    reason["until"].is_null() || reason["until"].as_str() > clock["now"].as_str()
                }
                "child" => open.contains(&&reason["childRunId"]),
                // Whoever is waited for goes on, or has ended and was heard.
                "dependency" => {
                    open.contains(&&reason["childRunId"])
                        || reason["what"].as_str().unwrap().ends_with("(on_dependency_failed)")
                }
                // Somebody outside has to do something first.
                "hand" | "draft" | "coordinator" | "plan" | "task" | "replay" => true,
                "deadline" | "grace" => reason["until"].as_str() > clock["now"].as_str(),
                // Without a worker for it nothing happens.
                "worker" => {
                    let node = &shown["nodeStates"][reason["nodeId"].as_str().unwrap()];
                    node["status"] == "running" && !provided.contains(&node["typeId"])
                }
                kind => kind == "hold",
            };
            let reasons = why["reasons"].as_array().unwrap();
            if reasons.is_empty() || !reasons.iter().all(rests) {
                return Some(why);
            }
        }
        None
    }

    /// The kinds of nodes that these processes do.
    async fn provided_by(&self, workers: &[String]) -> Vec<Value> {
        let (_, told) = self.get("/v1/workers").await;
        let there = |worker: &&Value| workers.iter().any(|pid| worker["labels"]["pid"] == **pid);
        let mine = told["workers"].as_array().unwrap().iter().filter(there);
        mine.flat_map(|worker| worker["kinds"].as_array().unwrap().clone()).collect()
    }

    /// Asks with another key, and a body if there is one.
    pub(crate) async fn ask_as(
        &self,
        key: &str,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> (StatusCode, Value) {
        let request = self.request_as(key, method, path);
        answer(body.into_iter().fold(request, Ask::json)).await.unwrap()
    }

    /// Runs the client side of the binary against this server.
    pub(crate) fn cli(&self, args: &[&str]) -> std::process::Output {
        let mut command = abide();
        command.args(args).env("ABIDE_URL", &self.url).env("ABIDE_API_KEY", &self.key);
        command.stdin(Stdio::null()).output().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A test that fails must not leave its server behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a request; an error means that the connection failed, not that the server said no.
pub(crate) async fn answer(request: Ask) -> reqwest::Result<(StatusCode, Value)> {
    let response = request.send().await?;
    let status = response.status();
    let text = response.text().await?;
    Ok((status, serde_json::from_str(&text).unwrap_or(Value::String(text))))
}

/// Reads where the server listens and with which key from what it says, unless it ends first.
fn read_welcome(child: &mut Child, said: &Path) -> Result<(String, String), ExitStatus> {
    let began = std::time::Instant::now();
    loop {
        let text = std::fs::read_to_string(said).unwrap();
        let word = |prefix: &str| {
            let start = text.find(prefix)? + prefix.len();
            let rest = &text[start..];
            rest.find(char::is_whitespace).map(|end| rest[..end].to_owned())
        };
        if let (Some(url), Some(key), true) =
            (word("ABIDE_URL="), word("ABIDE_API_KEY="), text.contains("run list"))
        {
            return Ok((url, key));
        }
        if let Some(status) = child.try_wait().unwrap() {
            return Err(status);
        }
        assert!(began.elapsed() < PATIENCE, "the server did not come up: {text}");
        std::thread::yield_now();
    }
}

/// Waits until a server has said `prefix`, and gives what follows it up to `end`.
pub(crate) fn await_word(child: &mut Child, said: &Path, prefix: &str, end: char) -> String {
    let began = std::time::Instant::now();
    loop {
        let text = std::fs::read_to_string(said).unwrap();
        let word = text.split_once(prefix).and_then(|(_, rest)| rest.split_once(end));
        if let Some((word, _)) = word {
            return word.to_owned();
        }
        assert!(child.try_wait().unwrap().is_none(), "the server ended: {text}");
        assert!(began.elapsed() < PATIENCE, "the server did not come up: {text}");
        std::thread::yield_now();
    }
}

/// `abide verify` on a data directory: the number of runs, or a panic with its findings.
pub(crate) fn verify(data: &Path) -> u64 {
    let output = abide().args(["verify", "--json", "--data"]).arg(data).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    assert!(output.status.success(), "{report:#} {}", String::from_utf8_lossy(&output.stderr));
    report["runs"].as_u64().unwrap()
}

/// A node of a workflow definition.
#[expect(clippy::needless_pass_by_value, reason = "the values are written out where it is called")]
pub(crate) fn node(id: &str, kind: &str, config: Value, inputs: Value, settings: Value) -> Value {
    json!({
        "id": id, "typeId": kind, "name": id, "position": { "x": 0, "y": 0 },
        "config": config, "inputs": inputs, "settings": settings,
    })
}

/// A workflow definition; `edges` are pairs of node ids.
#[expect(clippy::needless_pass_by_value, reason = "the values are written out where it is called")]
pub(crate) fn workflow(id: &str, nodes: &[Value], edges: &[(&str, &str)], variables: Value) -> Value {
    let edge = |(from, to): &(&str, &str)| json!({ "id": format!("{from}-{to}"), "sourceNodeId": from, "targetNodeId": to });
    json!({
        "id": id, "name": id, "version": "1.0", "nodes": nodes, "edges": edges.iter().map(edge).collect::<Vec<_>>(),
        "triggers": [], "variables": variables, "metadata": {}, "settings": {},
    })
}

/// A chain of nodes of one kind.
pub(crate) fn chain(id: &str, kind: &str, length: usize, settings: &Value) -> Value {
    let ids: Vec<String> = (0..length).map(|ix| format!("n{ix}")).collect();
    let nodes: Vec<Value> =
        ids.iter().map(|id| node(id, kind, json!({}), json!({}), settings.clone())).collect();
    let edges: Vec<(&str, &str)> = ids.windows(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
    workflow(id, &nodes, &edges, json!([]))
}
