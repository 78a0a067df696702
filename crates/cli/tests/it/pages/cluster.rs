//! The page about several servers as a program: its commands start, ask and kill servers on databases of their own.
//!
//! It is followed like the other pages, except that the servers are the page's own and live in real time. Addresses of
//! servers and databases differ each time and are put in and taken out again.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use abide_pgtest::Database;
use regex::Regex;

use super::{REGENERATE, first_difference, root, told_run};
use crate::support::{Site, python_home};

const PAGE: &str = "docs/cluster.md";

/// What the page calls its databases and its servers, and what they are this time.
struct Names(Vec<(String, String)>);

impl Names {
    fn put_in(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (told, real)| text.replace(told, real))
    }

    fn take_out(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (told, real)| text.replace(real, told))
    }
}

/// Somebody who follows the page in a folder.
struct Follower {
    folder: PathBuf,
    names: Names,
    run: Regex,
    runs: Vec<String>,
    _site: Site,
    _databases: [Database; 2],
}

impl Follower {
    fn begin() -> Self {
        let site = Site::new();
        let databases = [Database::new(), Database::new()];
        let shown = |url: String| url.replacen(":secret@", "@", 1);
        let names = [("abide", &databases[0]), ("moved", &databases[1])].map(|(name, database)| {
            (format!("postgres://abide:secret@127.0.0.1:5432/{name}"), database.url())
        });
        let without = names.clone().map(|(told, real)| (shown(told), shown(real)));
        let ports =
            [7171, 7172].map(|port| (format!("127.0.0.1:{port}"), super::address(&super::free_port())));
        let names = Names(names.into_iter().chain(without).chain(ports).collect());
        let folder = site.path("folder");
        std::fs::create_dir(&folder).unwrap();
        let run = Regex::new("run-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").unwrap();
        Self { folder, names, run, runs: Vec::new(), _site: site, _databases: databases }
    }

    /// What a command prints, as the page tells it.
    fn run(&mut self, command: &str) -> String {
        let script = format!(
            "[ -e ../variables ] && . ../variables\nset -a\n{{ {}\n}} 2>&1\nexport -p > ../variables",
            self.names.put_in(command)
        );
        let output = self.reader_runs().args(["-c", &script]).output().unwrap();
        let printed = self.names.take_out(&String::from_utf8(output.stdout).unwrap());
        let found: Vec<String> = self.run.find_iter(&printed).map(|run| run.as_str().to_owned()).collect();
        found.iter().fold(printed, |printed, run| printed.replace(run, &self.named(run)))
    }

    fn named(&mut self, run: &str) -> String {
        let at = self.runs.iter().position(|known| known == run).unwrap_or_else(|| {
            self.runs.push(run.to_owned());
            self.runs.len() - 1
        });
        told_run(at)
    }

    fn reader_runs(&self) -> Command {
        let binaries = Path::new(env!("CARGO_BIN_EXE_abide")).parent().unwrap().to_owned();
        let usual = std::env::var_os("PATH").unwrap();
        let path = [binaries, python_home().join("bin")].into_iter().chain(std::env::split_paths(&usual));
        let mut command = Command::new("bash");
        command
            .current_dir(&self.folder)
            .env_clear()
            .env("PATH", std::env::join_paths(path).unwrap())
            .env("COLUMNS", super::COLUMNS)
            .stdin(Stdio::null());
        command
    }
}

impl Drop for Follower {
    /// Whatever the page has started ends with it.
    fn drop(&mut self) {
        let kill = ". ../variables; kill -9 $ONE $TWO";
        let _ = self.reader_runs().args(["-c", kill]).stderr(Stdio::null()).status();
    }
}

#[test]
fn the_page_about_several_servers_shows_what_its_commands_print() {
    let path = root().join(PAGE);
    let written = std::fs::read_to_string(&path).unwrap();
    let mut follower = Follower::begin();
    let (mut followed, mut lines) = (String::new(), written.lines());
    while let Some(line) = lines.next() {
        followed += &format!("{line}\n");
        if let Some(name) = line.strip_prefix("<!-- file: ").and_then(|rest| rest.strip_suffix(" -->")) {
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            std::fs::write(follower.folder.join(name), block[1..].join("\n")).unwrap();
            followed += &format!("{}\n```\n", block.join("\n"));
        } else if line == "```console" {
            let commands = lines.by_ref().take_while(|line| *line != "```");
            for command in commands.filter_map(|line| line.strip_prefix("$ ")) {
                followed += &format!("$ {command}\n{}", follower.run(command));
            }
            followed += "```\n";
        }
    }
    if std::env::var_os(REGENERATE).is_some_and(|value| value == "1") {
        std::fs::write(&path, &followed).unwrap();
    } else if let Some(line) = first_difference(&written, &followed) {
        panic!(
            "{PAGE}:{line}: this is not what comes of it; run with {REGENERATE}=1. It reads:\n\n{followed}"
        );
    }
}
