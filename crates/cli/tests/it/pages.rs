//! Pages as programs: their files are written, their commands are run, and what these print is what the page shows.
//!
//! | in a page | what becomes of it |
//! |---|---|
//! | `<!-- file: NAME -->` before a block | the block is written to NAME |
//! | `<!-- first: NAME -->` before a block | the same, before the server starts; a program in Python is started, on a port of its own |
//! | `<!-- part -->` before a block | the block is part of a definition; with the rest filled in it has to be valid |
//! | a block of `console` | each line behind `$ ` is run by bash; the lines below it are what it printed |
//! | `<!-- restart -->` before a block | the server is killed and started again, as the block says |
//! | `<!-- worker: MODULE:APP -->` before a block | `abide-worker` is started as the block says; `$WORKER` is its number |
//! | `$ later MS` | the test clock is moved; the page says how a reader does that |
//! | a picture `images/NAME.svg` | the commands made NAME.svg; it is kept beside the page |
//!
//! Commands run in one folder beside a copy of `examples/`, in order, and each begins when nothing more happens before
//! the clock is moved. The page of an example runs in a copy of its folder. Times and ids differ from one day to the next; in a page they are always the same.
//!
//! `ABIDE_REGENERATE=1 cargo test -p abide --test it pages` rewrites what the commands print, and the pictures.

mod cluster;
mod hands;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use jiff::Timestamp;
use regex::{Captures, Regex};
use serde_json::{Value, json};

use crate::support::{PATIENCE, Server, Site, python_home};
use crate::workers::sdk_home;
use hands::{Hands, demand_starts};

/// Rewrite the pages instead of checking them.
const REGENERATE: &str = "ABIDE_REGENERATE";

/// When every page begins.
const DAWN: &str = "2026-01-05T09:00:00.000Z";

/// As wide as the text of the pages.
const COLUMNS: &str = "120";

#[tokio::test(flavor = "multi_thread")]
async fn the_readme_shows_what_its_commands_print() {
    demand("README.md", &["--test-clock", "--workflows", "examples/workflows"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_about_workflows_shows_what_its_commands_print() {
    demand("docs/workflows.md", &["--test-clock", "--allow-net", "127.0.0.1:9"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_about_access_shows_what_its_commands_print() {
    demand("docs/access.md", &["--test-clock"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_about_clients_shows_what_its_commands_print() {
    demand("docs/clients.md", &["--test-clock", "--workflows", "examples/workflows"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_about_operations_shows_what_its_commands_print() {
    demand("docs/operations.md", &["--test-clock"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_about_ladders_shows_what_its_commands_print() {
    demand("docs/ladder.md", &["--test-clock", "--config", "abide.toml"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_about_resuming_shows_what_its_commands_print() {
    demand("docs/resume.md", &["--test-clock", "--allow-net", "127.0.0.1:9099"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_about_models_shows_what_its_commands_print() {
    demand("docs/models.md", &["--test-clock", "--config", "abide.toml"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_about_interrupts_shows_what_its_commands_print() {
    demand("docs/interrupts.md", &["--test-clock"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_about_holds_shows_what_its_commands_print() {
    demand("docs/holds.md", &["--test-clock"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_about_approvals_shows_what_its_commands_print() {
    demand("docs/approvals.md", &["--test-clock"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_about_conversations_shows_what_its_commands_print() {
    demand("docs/conversations.md", &["--test-clock"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_about_graphs_shows_what_its_commands_print() {
    demand("docs/graphs.md", &["--test-clock"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_about_openintent_shows_what_its_commands_print() {
    demand("docs/openintent.md", &["--test-clock"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_about_replays_shows_what_its_commands_print() {
    demand("docs/replay.md", &["--test-clock"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_about_workers_shows_what_its_commands_print() {
    demand("docs/workers.md", &["--test-clock"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_about_the_worker_protocol_shows_what_its_commands_print() {
    demand("docs/worker-protocol.md", &["--test-clock"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_the_refund_agent_shows_what_its_commands_print() {
    demand("examples/refund-approval/README.md", &["--test-clock"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_the_research_agent_shows_what_its_commands_print() {
    demand("examples/research-agent/README.md", &["--test-clock"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_the_langgraph_agent_shows_what_its_commands_print() {
    demand("examples/langgraph-agent/README.md", &["--test-clock"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_the_nightly_report_shows_what_its_commands_print() {
    demand("examples/nightly-report/README.md", &["--test-clock"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_the_triage_agent_shows_what_its_commands_print() {
    demand("examples/engagement/README.md", &["--test-clock"]).await;
}

/// Follows a page, and demands that it shows what came of that.
async fn demand(page: &str, flags: &[&str]) {
    let path = root().join(page);
    let written = std::fs::read_to_string(&path).unwrap();
    let reader = Reader::begin(&path, &written, flags).await;
    let (followed, pictures) = reader.follow(&written).await;
    let regenerate = std::env::var_os(REGENERATE).is_some_and(|value| value == "1");
    for (name, drawn) in pictures {
        let kept = path.with_file_name("images").join(&name);
        if regenerate {
            std::fs::create_dir_all(kept.parent().unwrap()).unwrap();
            std::fs::write(&kept, &drawn).unwrap();
        }
        let shown = std::fs::read_to_string(&kept).unwrap_or_default();
        assert!(shown == drawn, "{name} is not what {page} draws; run with {REGENERATE}=1");
    }
    if regenerate {
        std::fs::write(&path, &followed).unwrap();
    } else if let Some(line) = first_difference(&written, &followed) {
        panic!(
            "{page}:{line}: this is not what comes of it; run with {REGENERATE}=1. It reads:\n\n{followed}"
        );
    }
}

/// The number of the first line that differs.
fn first_difference(one: &str, other: &str) -> Option<usize> {
    let same = one.lines().zip(other.lines()).take_while(|(one, other)| one == other).count();
    (one != other).then_some(same + 1)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Somebody who follows a page, with a server and a folder.
struct Reader {
    site: Site,
    server: Server,
    /// What the server is started with.
    flags: Vec<String>,
    /// Who is on the other side: told by a channel, or asked by a request.
    other: Option<Child>,
    /// Where the other side listens.
    port: String,
    /// Who does the work of the page's agents.
    hands: Hands,
    told: Told,
}

impl Reader {
    async fn begin(path: &Path, page: &str, flags: &[&str]) -> Self {
        let site = Site::new();
        let examples = root().join("examples/workflows");
        copy(&examples, &site.path("folder/examples/workflows"));
        if path.parent().unwrap().parent().is_some_and(|folder| folder.ends_with("examples")) {
            copy(path.parent().unwrap(), &site.path("folder"));
        }
        let port = free_port();
        let other = set_up(page, &site.path("folder"), &port);
        let config = site.path("folder/abide.toml");
        let flags = flags.iter().map(|flag| match *flag {
            "examples/workflows" => examples.to_str().unwrap().to_owned(),
            "abide.toml" => config.to_str().unwrap().to_owned(),
            flag => flag.replace(OTHER, &port),
        });
        let flags: Vec<String> = flags.collect();
        let server = site.start(&words(&flags));
        // Commands for the machine of the server find its data where they look for it by themselves.
        for (there, here) in [("data", "abide-data"), ("data.keyring", "abide-data.keyring")] {
            std::os::unix::fs::symlink(site.path(there), site.path("folder").join(here)).unwrap();
        }
        let (_, clock) = server.get("/v1/dev/clock").await;
        let told = Told::since(clock["nowMs"].as_i64().unwrap());
        Self { site, server, flags, other, port, hands: Hands::default(), told }
    }

    /// The page as it should read, and the pictures that it shows.
    async fn follow(mut self, page: &str) -> (String, Vec<(String, String)>) {
        let mut followed = String::new();
        let mut lines = page.lines();
        while let Some(line) = lines.next() {
            followed += &format!("{line}\n");
            if line == "```console" {
                let commands = lines.by_ref().take_while(|line| *line != "```");
                for command in commands.filter_map(|line| line.strip_prefix("$ ")) {
                    followed += &format!("$ {command}\n{}", self.run(command).await);
                }
                followed += "```\n";
            } else if let Some(comment) =
                line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"))
            {
                let head = lines.next().filter(|line| line.starts_with("```")).unwrap();
                let block = lines.by_ref().take_while(|line| *line != "```");
                let text = block.map(|line| format!("{line}\n")).collect::<String>();
                if comment.starts_with("first: ") {
                    followed += &format!("{head}\n{text}```\n");
                    continue;
                }
                if comment == "restart" {
                    assert!(
                        text.contains("-9") && text.contains("abide dev"),
                        "this restarts nothing: {text}"
                    );
                    self.restart().await;
                    followed += &format!("{head}\n{text}```\n");
                    continue;
                }
                if let Some(app) = comment.strip_prefix("worker: ") {
                    demand_starts(app, &text);
                    self.hire(app).await;
                    followed += &format!("{head}\n{text}```\n");
                    continue;
                }
                match comment.strip_prefix("file: ") {
                    Some(name) => std::fs::write(self.folder().join(name), &text).unwrap(),
                    None if comment == "part" => demand_valid(&text),
                    None => panic!("a page has no use for <!-- {comment} -->"),
                }
                followed += &format!("{head}\n{text}```\n");
            }
        }
        let pictures = self.pictures(page);
        (followed, pictures)
    }

    /// Kills the server, and starts another in its place.
    async fn restart(&mut self) {
        self.settle().await;
        self.server.die();
        self.server = self.site.start(&words(&self.flags));
    }

    fn folder(&self) -> PathBuf {
        self.site.path("folder")
    }

    /// Every picture that the page shows, as its commands drew it.
    fn pictures(&self, page: &str) -> Vec<(String, String)> {
        let shown = page.split("](images/").skip(1).filter_map(|rest| rest.split(')').next());
        // Photographs of pages are made by the tests of the browser.
        shown
            .filter(|name| name.ends_with(".svg"))
            .map(|name| {
                let drawn = std::fs::read_to_string(self.folder().join(name));
                (name.to_owned(), drawn.unwrap_or_else(|_| panic!("no command of the page makes {name}")))
            })
            .collect()
    }

    /// What a command prints.
    async fn run(&mut self, command: &str) -> String {
        self.settle().await;
        if let Some(ms) = command.strip_prefix("later ") {
            self.server.advance(ms.parse().unwrap()).await;
            return String::new();
        }
        // What a command sets is there for the next one.
        let kept = self.site.path("variables");
        let script = format!(
            "[ -e '{kept}' ] && . '{kept}'\nexport ABIDE_URL='{url}' ABIDE_API_KEY='{key}'\nset -a\n{{ {command}\n}} 2>&1\nexport -p > '{kept}'",
            kept = kept.display(),
            url = self.server.url,
            key = self.server.key,
        );
        let output = self.reader_runs("bash").args(["-c", &script]).output().unwrap();
        if command.contains("kill ") {
            self.hands.await_end();
        }
        let printed = String::from_utf8(output.stdout).unwrap();
        // Where the folder is differs each time, and the data lies in it as far as the reader knows.
        let data = self.site.data().display().to_string();
        let folder = format!("{}/", self.folder().display());
        let printed = printed.replace(&data, "abide-data").replace(&folder, "");
        self.told.again(&printed.replace(&address(&self.port), &address(OTHER)))
    }

    /// A command as a reader would run it.
    fn reader_runs(&self, program: &str) -> Command {
        let binaries = Path::new(env!("CARGO_BIN_EXE_abide")).parent().unwrap().to_owned();
        let python = if self.hands.were_there() { sdk_home().join("bin") } else { python_home().join("bin") };
        let usual = std::env::var_os("PATH").unwrap();
        let path = [binaries, python].into_iter().chain(std::env::split_paths(&usual));
        let mut command = Command::new(program);
        command
            .current_dir(self.folder())
            .env_clear()
            .env("PATH", std::env::join_paths(path).unwrap())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("COLUMNS", COLUMNS)
            .env("ABIDE_URL", &self.server.url)
            .env("ABIDE_API_KEY", &self.server.key)
            .stdin(Stdio::null());
        command
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(other) = &mut self.other {
            let _ = other.kill();
            let _ = other.wait();
        }
    }
}

fn words(flags: &[String]) -> Vec<&str> {
    flags.iter().map(String::as_str).collect()
}

/// Copies the files of a folder.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    let entries = std::fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path());
    for file in entries.filter(|path| path.is_file()) {
        std::fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
    }
}

/// Where the pages say that the other side listens.
const OTHER: &str = "9099";

fn address(port: &str) -> String {
    format!("127.0.0.1:{port}")
}

fn free_port() -> String {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

/// Writes what has to be there before the server starts, and starts the other side if there is a program for it.
fn set_up(page: &str, folder: &Path, port: &str) -> Option<Child> {
    let mut other = None;
    for part in page.split("<!-- first: ").skip(1) {
        let (name, rest) = part.split_once(" -->\n").unwrap();
        let text = rest.split_once('\n').unwrap().1.split("\n```").next().unwrap();
        std::fs::write(folder.join(name), format!("{}\n", text.replace(OTHER, port))).unwrap();
        if name.ends_with(".py") {
            let python = python_home().join("bin/python");
            other = Some(Command::new(python).args([name, port]).current_dir(folder).spawn().unwrap());
            let began = std::time::Instant::now();
            while std::net::TcpStream::connect(address(port)).is_err() {
                assert!(began.elapsed() < PATIENCE, "{name} does not listen");
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        }
    }
    other
}

/// Demands that part of a definition is valid once everything that it leaves out is there.
fn demand_valid(part: &str) {
    let mut definition: Value = serde_saphyr::from_str(part).unwrap();
    let list = |definition: &Value, key: &str| definition[key].as_array().cloned().unwrap_or_default();
    let (mut nodes, mut edges) = (list(&definition, "nodes"), list(&definition, "edges"));
    for (at, edge) in edges.iter_mut().enumerate() {
        fill(edge, &json!({ "id": format!("edge-{at}") }));
        for end in ["sourceNodeId", "targetNodeId"] {
            if !nodes.iter().any(|node| node["id"] == edge[end]) {
                nodes.push(json!({ "id": edge[end], "typeId": "core.noop" }));
            }
        }
    }
    if nodes.is_empty() {
        nodes.push(json!({ "id": "node", "typeId": "core.noop" }));
    }
    let usual = json!({ "name": "n", "position": {}, "config": {}, "inputs": {} });
    nodes.iter_mut().for_each(|node| fill(node, &usual));
    (definition["nodes"], definition["edges"]) = (nodes.into(), edges.into());
    let empty = json!({ "triggers": [], "variables": [], "metadata": {}, "settings": {} });
    fill(&mut definition, &json!({ "id": "part", "name": "Part", "version": "1" }));
    fill(&mut definition, &empty);
    if let Err(problems) = abide_core::Graph::admit(definition.to_string().as_bytes()) {
        panic!("{part}\nis part of no valid definition: {problems:?}");
    }
}

/// Adds what is not there.
fn fill(object: &mut Value, with: &Value) {
    let object = object.as_object_mut().unwrap();
    for (key, value) in with.as_object().unwrap() {
        object.entry(key.clone()).or_insert_with(|| value.clone());
    }
}

/// How a run is called in a page, by when the page first names it.
fn told_run(at: usize) -> String {
    format!("run-019b8d36-7c80-7000-8000-{:012}", at + 1)
}

/// What differs from one day to the next, and how it is told instead.
struct Told {
    began_ms: i64,
    runs: Vec<String>,
    keys: Vec<String>,
    run: Regex,
    task: Regex,
    worker: Regex,
    pages: Regex,
    size: Regex,
    version: Regex,
    interrupt: Regex,
    coordinator: Regex,
    key: Regex,
    time: Regex,
    minute: Regex,
    cut: Regex,
}

impl Told {
    fn since(began_ms: i64) -> Self {
        let run = Regex::new("run-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").unwrap();
        // Where in the journal it was asked for stays; the rest is drawn anew for each run.
        let interrupt = Regex::new("int-([0-9a-f]{12})[0-9a-f]{24}").unwrap();
        let coordinator = Regex::new("coord-[0-9a-f]{32}").unwrap();
        let time = Regex::new(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d\d\dZ").unwrap();
        let cut = Regex::new("(20[0-9]{2}-|run-[0-9a-f]{2})[-0-9a-fT:.]*…").unwrap();
        // A key's id stands alone or behind `abk_`; what ends a run's id stands behind a dash.
        let key = Regex::new(r#"(^|[\s"_])([0-9a-f]{12})\b"#).unwrap();
        let minute = Regex::new(r"20\d\d-\d\d-\d\d \d\d:\d\d UTC").unwrap();
        // A task's name begins with its run's id.
        let task = Regex::new(r"\b([0-9a-f]{32})([0-9a-f]{8,})\b").unwrap();
        let worker = Regex::new(r"host=[^ ,)]+, pid=\d+").unwrap();
        // How large a file is changes with every table, and who wrote it with every release.
        let pages = Regex::new(r"copied \d+ of \d+ pages").unwrap();
        let size = Regex::new(r"\b\d+ bytes").unwrap();
        let version = Regex::new(r"written by abide [0-9.]+").unwrap();
        Self {
            began_ms,
            runs: Vec::new(),
            keys: Vec::new(),
            run,
            task,
            worker,
            pages,
            size,
            version,
            interrupt,
            coordinator,
            key,
            time,
            minute,
            cut,
        }
    }

    /// The text as it would have been on the day of the pages.
    fn again(&mut self, text: &str) -> String {
        assert!(!self.cut.is_match(text), "an id or a time is cut short, so it can't be told again: {text}");
        let mut runs = std::mem::take(&mut self.runs);
        let named = self.run.replace_all(text, |found: &Captures<'_>| {
            let at = runs.iter().position(|run| *run == found[0]).unwrap_or_else(|| {
                runs.push(found[0].to_owned());
                runs.len() - 1
            });
            told_run(at)
        });
        self.runs = runs;
        let plain = |run: &str| run.trim_start_matches("run-").replace('-', "");
        let named = self.task.replace_all(&named, |found: &Captures<'_>| {
            let at = self.runs.iter().position(|run| plain(run) == found[1]);
            let run = at.map_or(found[1].to_owned(), |at| plain(&told_run(at)));
            format!("{run}{}", &found[2])
        });
        let named = self.pages.replace_all(&named, "copied 196 of 196 pages");
        let named = self.size.replace_all(&named, "802816 bytes");
        let named = self.version.replace_all(&named, "written by abide 0.12.0");
        let named = self.worker.replace_all(&named, "host=laptop, pid=4711");
        let named = self.interrupt.replace_all(&named, format!("int-${{1}}{}", "7f".repeat(12)));
        let named = self.coordinator.replace_all(&named, format!("coord-{}", "7f".repeat(16)));
        let mut keys = std::mem::take(&mut self.keys);
        let named = self.key.replace_all(&named, |found: &Captures<'_>| {
            let at = keys.iter().position(|key| *key == found[2]).unwrap_or_else(|| {
                keys.push(found[2].to_owned());
                keys.len() - 1
            });
            format!("{}{:012x}", &found[1], 0x4e1d_0c00_a100_u64 + at as u64 + 1)
        });
        self.keys = keys;
        let dawn: Timestamp = DAWN.parse().unwrap();
        let told = self.time.replace_all(&named, |found: &Captures<'_>| {
            let at: Timestamp = found[0].parse().unwrap();
            let moved = at.as_millisecond() - self.began_ms + dawn.as_millisecond();
            Timestamp::from_millisecond(moved).unwrap().strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
        });
        // Messages to people have no seconds, so the minute may have begun before or after the page did.
        let began = dawn.as_millisecond() - self.began_ms;
        let told = self.minute.replace_all(&told, |found: &Captures<'_>| {
            let at: Timestamp = found[0].replace(' ', "T").replace("TUTC", ":00Z").parse().unwrap();
            let moved = Timestamp::from_millisecond(at.as_millisecond() + began + 59_999).unwrap();
            moved.strftime("%Y-%m-%d %H:%M UTC").to_string()
        });
        told.into_owned()
    }
}
