//! `abide workflow`: from a first definition to a run of its third version.

use std::path::PathBuf;

use super::*;

/// A directory with files of its own.
struct Desk(tempfile::TempDir);

impl Desk {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A definition made by `abide workflow new`.
    fn scaffold(&self, id: &str, args: &[&str]) -> PathBuf {
        let output = run(abide().args(["workflow", "new", id]).args(args));
        assert_eq!(code(&output), 0, "{output:?}");
        let kind = if args.contains(&"--yaml") { "yaml" } else { "json" };
        self.write(&format!("{id}.{kind}"), stdout(&output))
    }

    /// A command in this directory, so that files go by their names.
    fn cli(&self, args: &[&str]) -> Output {
        run(abide().current_dir(self.0.path()).args(args))
    }

    /// The same against a server.
    fn ask(&self, server: &Server, args: &[&str]) -> Output {
        let mut command = abide();
        command.current_dir(self.0.path()).env("ABIDE_URL", &server.url).env("ABIDE_API_KEY", &server.key);
        run(command.args(args))
    }
}

fn json_of(output: &Output) -> serde_json::Value {
    serde_json::from_str(stdout(output)).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// The id of the run that a command started.
fn id_of(output: &Output) -> String {
    assert_eq!(code(output), 0, "{output:?}");
    stdout(output).trim().to_owned()
}

#[test]
fn every_template_is_valid_in_both_forms() {
    let desk = Desk::new();
    for template in ["hello", "branch", "retry", "parent"] {
        for form in [&["--template", template][..], &["--template", template, "--yaml"]] {
            let path = desk.scaffold(&format!("{template}-x"), form);
            let output = desk.cli(&["workflow", "validate", path.to_str().unwrap()]);
            assert_eq!(code(&output), 0, "{output:?}");
        }
    }
    insta::assert_snapshot!("new_bad_id", told(&desk.cli(&["workflow", "new", "Orders"])));
}

#[test]
fn every_problem_is_a_line_with_its_file_and_place() {
    let desk = Desk::new();
    desk.scaffold("good", &["--yaml"]);
    desk.write("bad.json", "{\"id\": \"bad\", \"nodes\": [{\"id\": 7}]}");
    desk.write("worse.yaml", "id: [");
    desk.write("content", " {\"id\": 1}");
    let args = ["workflow", "validate", "good.yaml", "bad.json", "worse.yaml", "content"];
    insta::assert_snapshot!("validate", told(&desk.cli(&args)));
    let json = desk.cli(&[&args[..4], &["--json"]].concat());
    insta::assert_snapshot!("validate_json", told(&json));
    insta::assert_snapshot!("validate_missing", told(&desk.cli(&["workflow", "validate", "nowhere.json"])));
}

#[test]
fn a_push_makes_a_version_only_of_what_is_new() {
    let desk = Desk::new();
    let server = Site::new();
    let server = server.start(&["--test-clock"]);
    insta::assert_snapshot!("no_workflows", told(&desk.ask(&server, &["workflow", "list"])));
    desk.scaffold("hello", &["--yaml"]);
    insta::assert_snapshot!("push", told(&desk.ask(&server, &["workflow", "push", "hello.yaml"])));
    insta::assert_snapshot!("push_again", told(&desk.ask(&server, &["workflow", "push", "hello.yaml"])));
    let json = json_of(&desk.ask(&server, &["workflow", "push", "hello.yaml", "--json"]));
    assert_eq!((&json["version"], &json["created"]), (&json!(1), &json!(false)));
    insta::assert_snapshot!("workflows", told(&desk.ask(&server, &["workflow", "list"])));
    insta::assert_snapshot!("versions", told(&desk.ask(&server, &["workflow", "list", "hello"])));
    insta::assert_snapshot!("no_versions", told(&desk.ask(&server, &["workflow", "list", "nothing"])));
    assert_eq!(json_of(&desk.ask(&server, &["workflow", "list", "--json"]))["workflows"][0]["version"], 1);
}

#[test]
fn what_is_refused_does_not_keep_the_rest_from_being_pushed() {
    let desk = Desk::new();
    let site = Site::new();
    let server = site.start(&[]);
    desk.write("bad.json", "{\"id\": \"bad\", \"nodes\": [{\"id\": 7}]}");
    desk.write("none.json", "{}");
    desk.scaffold("hello", &[]);
    insta::assert_snapshot!("push_refused", told(&desk.ask(&server, &["workflow", "push", "bad.json"])));
    let output = desk.ask(&server, &["workflow", "push", "bad.json", "none.json", "hello.json"]);
    insta::assert_snapshot!("push_some", told(&output));
}

#[test]
fn versions_are_shown_and_told_apart() {
    let desk = Desk::new();
    let site = Site::new();
    let server = site.start(&[]);
    let path = desk.scaffold("hello", &[]);
    let first = std::fs::read_to_string(&path).unwrap();
    desk.ask(&server, &["workflow", "push", "hello.json"]);
    insta::assert_snapshot!("diff_first", told(&desk.ask(&server, &["workflow", "diff", "hello"])));
    let second = first.replace("\"name\": \"Hello\"", "\"name\": \"Good day\"");
    assert_ne!(first, second);
    desk.write("hello.json", &second);
    insta::assert_snapshot!("diff_file", told(&desk.ask(&server, &["workflow", "diff", "hello.json"])));
    desk.ask(&server, &["workflow", "push", "hello.json"]);
    insta::assert_snapshot!("diff_versions", told(&desk.ask(&server, &["workflow", "diff", "hello"])));
    let listed = desk.ask(&server, &["workflow", "list", "hello", "--json"]);
    let numbers = |list: &serde_json::Value| [list[0]["version"].clone(), list[1]["version"].clone()];
    assert_eq!(numbers(&json_of(&listed)["versions"]), [json!(2), json!(1)]);
    let args = ["workflow", "diff", "hello", "--from", "2", "--to", "1", "--json"];
    insta::assert_snapshot!("diff_json", told(&desk.ask(&server, &args)));
    let latest = desk.ask(&server, &["workflow", "show", "hello"]);
    assert_eq!(stdout(&latest).trim_end(), second.trim_end(), "to the letter");
    let before = desk.ask(&server, &["workflow", "show", "hello", "--version", "1"]);
    assert_eq!(stdout(&before).trim_end(), first.trim_end());
    let refused = desk.ask(&server, &["workflow", "diff", "hello.json", "--to", "1"]);
    assert_eq!(code(&refused), 1, "{refused:?}");
}

#[test]
fn a_graph_is_drawn_from_a_file_without_a_server() {
    let desk = Desk::new();
    desk.scaffold("choice", &["--template", "branch"]);
    insta::assert_snapshot!("graph", told(&desk.cli(&["workflow", "graph", "choice.json"])));
    let svg = desk.cli(&["workflow", "graph", "choice.json", "--svg"]);
    assert!(stdout(&svg).starts_with("<svg") && stdout(&svg).ends_with("</svg>\n"), "{svg:?}");
    let json = json_of(&desk.cli(&["workflow", "graph", "choice.json", "--json"]));
    assert_eq!(
        json["edges"][0],
        json!({ "from": "choose", "to": "review", "label": "large", "back": false })
    );
}

#[test]
fn a_graph_shows_how_far_a_run_has_come() {
    let desk = Desk::new();
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = id_of(&server.cli(&["run", "start", "hello"]));
    insta::assert_snapshot!("graph_run", told(&server.cli(&["workflow", "graph", "hello", "--run", &run])));
    desk.scaffold("other", &[]);
    let refused = desk.ask(&server, &["workflow", "graph", "other.json", "--run", &run]);
    assert_eq!(code(&refused), 1);
    assert!(stderr(&refused).contains("not of \"other\""), "{refused:?}");
}

#[test]
fn a_file_is_pushed_and_started_at_once() {
    let desk = Desk::new();
    let site = Site::new();
    let server = site.start(&[]);
    desk.scaffold("hello", &["--yaml"]);
    let args = [
        "run",
        "start",
        "-f",
        "hello.yaml",
        "--input",
        "name=Grace",
        "--config",
        "recursionLimit=100",
        "--wait",
    ];
    insta::assert_snapshot!("start_file", told(&desk.ask(&server, &args)));
    let again = desk.ask(&server, &[&args[..], &["--json"]].concat());
    assert!(!stderr(&again).contains("pushed version"), "{again:?}");
    let json = json_of(&again);
    assert_eq!(json["inputs"], json!({ "name": "Grace" }));
    assert_eq!(json["configurable"], json!({ "recursionLimit": 100 }));
}

#[test]
fn children_are_shown_below_their_node() {
    let desk = Desk::new();
    let site = site();
    let server = site.start(&["--test-clock"]);
    desk.scaffold("parent", &["--template", "parent"]);
    let run = id_of(&desk.ask(&server, &["run", "start", "-f", "parent.json"]));
    // The child is started once its parent is on disk; each look is one request.
    while !stdout(&server.cli(&["run", "show", &run])).contains("core.delay     waiting") {}
    insta::assert_snapshot!("show_children", told(&server.cli(&["run", "show", &run])));
    insta::assert_snapshot!("why_child", told(&server.cli(&["run", "why", &run])));
}
