//! Two servers on one database: keys, the keyring, readiness, and how data gets there.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Instant;

use abide_pgtest::{Cluster, Database, Options};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::{PATIENCE, Server, Site, abide, answer, node, workflow};

/// A database, and the keyring of its servers.
struct Shared {
    site: Site,
    database: Database,
}

impl Shared {
    fn new() -> Self {
        Self { site: Site::new(), database: Database::new() }
    }

    fn keyring(&self) -> PathBuf {
        self.site.path("shared.keyring")
    }

    /// A command for the database.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = abide();
        command.args(args).env("ABIDE_STORE", self.database.url()).env("ABIDE_KEYRING", self.keyring());
        command
    }

    fn key(&self, flags: &[&str]) -> String {
        let output = self.command(&["keys", "create"]).args(flags).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn server(&self, name: &str, key: &str) -> Server {
        let mut command = self.command(&["serve", "--listen", "127.0.0.1:0", "--name", name]);
        command.args(["--public-url", "http://127.0.0.1:7171"]);
        Server::launch(command, &self.site.path(&format!("said-{name}")), key)
    }
}

fn said(output: &Output) -> String {
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(!text.contains(":secret@"), "a password is told: {text}");
    text
}

/// A refusal, in words.
fn refused(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    said(&output)
}

async fn status_of(server: &Server, key: &str) -> StatusCode {
    answer(server.request_as(key, Method::GET, "/v1/runs")).await.unwrap().0
}

async fn make_key(server: &Server) -> (String, String) {
    let (status, made) = server.post("/v1/keys", &json!({})).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    (made["key"].as_str().unwrap().to_owned(), made["keyId"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_key_that_one_server_made_opens_at_the_other_at_once_and_one_that_it_revoked_stays_revoked() {
    let shared = Shared::new();
    let own = shared.key(&[]);
    let (one, two) = (shared.server("one", &own), shared.server("two", &own));
    for _ in 0..20 {
        let (key, id) = make_key(&one).await;
        assert_eq!(status_of(&two, &key).await, StatusCode::OK, "right after it was made elsewhere");
        let revoked = one.ask_as(&own, Method::DELETE, &format!("/v1/keys/{id}"), None).await;
        assert_eq!(revoked.0, StatusCode::NO_CONTENT);
        let rotated = two.post(&format!("/v1/keys/{id}:rotate"), &json!({})).await;
        assert_eq!(rotated.1["error"], "key_not_active", "nobody brings it back: {}", rotated.1);
        let began = Instant::now();
        while status_of(&two, &key).await != StatusCode::UNAUTHORIZED {
            assert!(began.elapsed() < PATIENCE, "it opens on and on");
        }
    }
    let made = shared.key(&["--tenant", "acme"]);
    let (status, _) = two.ask_as(&made, Method::GET, "/v1/keys", None).await;
    assert_eq!(status, StatusCode::OK, "also of a tenant that was made while the servers ran");
    assert_eq!(status_of(&two, "abk_nobody_0123456789abcdef").await, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn keys_that_are_made_at_both_servers_at_once_are_all_there() {
    let shared = Shared::new();
    let own = shared.key(&[]);
    let (one, two) = (shared.server("one", &own), shared.server("two", &own));
    let makers = (0..12).map(|n| make_key(if n % 2 == 0 { &one } else { &two }));
    let made = futures_util::future::join_all(makers).await;
    for server in [&one, &two] {
        let (_, page) = server.get("/v1/keys").await;
        let listed: Vec<&Value> = page["keys"].as_array().unwrap().iter().map(|key| &key["keyId"]).collect();
        assert!(made.iter().all(|(_, id)| listed.contains(&&json!(id))), "{page}");
    }
}

#[tokio::test]
async fn a_server_with_another_keyring_or_without_what_all_need_to_know_does_not_start() {
    let shared = Shared::new();
    let own = shared.key(&[]);
    let serve = ["serve", "--listen", "127.0.0.1:0", "--public-url", "http://127.0.0.1:7171"];
    let with = |keyring: &str| {
        let mut command = shared.command(&serve);
        command.env("ABIDE_KEYRING", shared.site.path(keyring));
        command
    };
    let told = refused(with("missing.keyring"));
    assert!(told.contains("is missing") && told.contains("copy the file from another server"), "{told}");
    let other = abide().args(["keys", "create", "--data"]).arg(shared.site.path("other")).output().unwrap();
    assert!(other.status.success(), "{other:?}");
    let told = refused(with("other.keyring"));
    assert!(told.contains("is not that of postgres://abide@127.0.0.1:"), "{told}");
    let mut nameless = shared.command(&serve);
    nameless.env_remove("ABIDE_KEYRING");
    assert!(refused(nameless).contains("name the keyring: --keyring"));
    assert!(refused(shared.command(&serve[..3])).contains("--public-url"));
    let everywhere = ["serve", "--listen", "0.0.0.0:0", "--public-url", "http://127.0.0.1:7171"];
    assert!(refused(shared.command(&everywhere)).contains("--advertise"));
    let running = shared.server("one", &own);
    let rotated = shared.command(&["keyring", "rotate"]).output().unwrap();
    assert!(rotated.status.success() && said(&rotated).contains("copy the file to every other server"));
    let told = refused(shared.command(&["keyring", "retire", "1", "--force"]));
    assert!(told.contains("is in use by one; stop every server"), "{told}");
    assert_eq!(status_of(&running, &own).await, StatusCode::OK);
}

#[tokio::test]
async fn what_postgresql_does_itself_is_refused_with_its_name() {
    let shared = Shared::new();
    let file = shared.site.path("copy.db");
    for (args, means) in [
        (vec!["backup", "--to", file.to_str().unwrap()], "pg_dump"),
        (vec!["restore", file.to_str().unwrap()], "pg_restore"),
        (vec!["compact"], "VACUUM"),
    ] {
        let told = refused(shared.command(&args));
        assert!(told.contains(means) && told.contains("postgres://abide@"), "{told}");
    }
    let both = refused({
        let mut command = shared.command(&["verify", "--data", "x", "--store", "sqlite:y"]);
        command.current_dir(shared.site.path("."));
        command
    });
    assert!(both.contains("both --data and --store"), "{both}");
}

/// Waits until a server says that it is ready, or that it is not.
async fn until_ready(server: &Server, ready: bool) -> Value {
    let began = Instant::now();
    loop {
        let (status, body) = answer(server.anonymous(Method::GET, "/readyz")).await.unwrap();
        if status.is_success() == ready {
            return body;
        }
        assert!(began.elapsed() < PATIENCE, "it never becomes so: {status} {body}");
    }
}

#[tokio::test]
async fn a_server_whose_database_is_gone_is_not_ready_lives_on_and_comes_back_by_itself() {
    let cluster = Cluster::start(Options::default());
    let shared = Shared { site: Site::new(), database: cluster.database() };
    let own = shared.key(&[]);
    let server = shared.server("one", &own);
    until_ready(&server, true).await;
    cluster.kill();
    let body = until_ready(&server, false).await;
    assert_eq!(body["error"], "store_unavailable", "{body}");
    let live = answer(server.anonymous(Method::GET, "/healthz")).await.unwrap();
    assert_eq!(live.0, StatusCode::OK, "to start it again would not help");
    let asked = server.request(Method::GET, "/v1/runs").send().await.unwrap();
    assert_eq!(asked.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(asked.headers().contains_key("retry-after"));
    cluster.restart();
    until_ready(&server, true).await;
    assert_eq!(status_of(&server, &own).await, StatusCode::OK);
    assert!(server.stop().success());
}

fn approval() -> Value {
    let gate = node("ask", "core.approvalGate", json!({ "title": "Go on?" }), json!({}), json!({}));
    let wait = node("wait", "core.delay", json!({ "ms": 3_600_000 }), json!({}), json!({}));
    workflow("ask-and-wait", &[gate, wait], &[], json!([]))
}

#[tokio::test]
async fn a_data_directory_moves_into_a_database_whole_and_its_runs_go_on_there() {
    let shared = Shared::new();
    let source = shared.site.path("source");
    let keys = abide().args(["keys", "create", "--data"]).arg(&source).output().unwrap();
    let key = String::from_utf8(keys.stdout).unwrap().trim().to_owned();
    let serve = || {
        let mut command = abide();
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(&source);
        Server::launch(command, &shared.site.path("said-source"), &key)
    };
    let server = serve();
    let pushed =
        server.request(Method::PUT, "/v1/workflows/ask-and-wait").json(&approval()).send().await.unwrap();
    assert_eq!(pushed.status(), StatusCode::CREATED);
    let run = server.start_run("ask-and-wait", json!({})).await;
    let more =
        futures_util::future::join_all((0..30).map(|_| server.start_run("ask-and-wait", json!({})))).await;
    let migrate = || {
        let mut command = shared.command(&["migrate", "--json", "--from"]);
        command
            .arg(format!("sqlite:{}", source.display()))
            .env("ABIDE_KEYRING", shared.site.path("source.keyring"));
        command
    };
    let told = refused(migrate());
    assert!(told.contains("another abide is using"), "{told}");
    assert!(server.stop().success());

    let output = migrate().output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told["runs"], &told["tables"]["timers"]), (&json!(31), &json!(31)), "{told}");
    let file = rusqlite::Connection::open(source.join("abide.db")).unwrap();
    for (table, rows) in told["tables"].as_object().unwrap().iter().filter(|(table, _)| *table != "settings")
    {
        let sql = format!("SELECT count(*) FROM {table}");
        let there: u64 = file.query_one(&sql, [], |row| row.get(0)).unwrap();
        assert_eq!((rows.as_u64(), shared.database.sql(&sql)), (Some(there), there.to_string()), "{table}");
    }
    let told = refused(migrate());
    assert!(told.contains("holds Abide data already"), "{told}");

    std::fs::copy(shared.site.path("source.keyring"), shared.keyring()).unwrap();
    let server = shared.server("one", &key);
    let (status, shown) = server.get(&format!("/v1/runs/{}", more[7])).await;
    assert_eq!(
        (status, &shown["nodeStates"]["wait"]["status"]),
        (StatusCode::OK, &json!("waiting")),
        "{shown}"
    );
    let output = server.cli(&["answer", &run, "--accept"]);
    assert!(output.status.success(), "{}", said(&output));
    server.start_run("ask-and-wait", json!({})).await;
    assert!(shared.key(&["--tenant", "later"]).starts_with("abk_"), "no id of a tenant is given twice");
    assert!(server.stop().success());
    let output = shared.command(&["verify"]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
}
