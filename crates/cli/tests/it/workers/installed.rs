//! The Python package as others get it: it builds, installs into an empty environment, and keeps what it promises. So do
//! the examples that are written with it.

use std::process::Command;

use super::home::{empty, install, python, run, sdk_home, wheel};
use crate::support::{python_home, repository};

#[test]
fn the_package_installs_into_an_empty_environment_and_starts() {
    let folder = tempfile::tempdir().unwrap();
    let (wheel, home) = (wheel(folder.path()), folder.path().join("home"));
    empty(&home);
    let wheels = python_home().join("wheels");
    install(&home, &[&wheel], &["--find-links", wheels.to_str().unwrap()]);
    let mut import = python(&home);
    import
        .args(["-c", "import abide, importlib.metadata as m; print(abide.__version__, m.version('abide'))"]);
    let told = run(import);
    let (own, installed) = told.trim().split_once(' ').unwrap();
    assert_eq!(own, installed);
    // What it names as its own, and no others, comes with it.
    let mut names = python(&home);
    names.args([
        "-c",
        "import abide; [getattr(abide, name) for name in abide.__all__]; print(len(abide.__all__) > 20)",
    ]);
    assert_eq!(run(names), "True\n");
    let mut help = Command::new(home.join("bin/abide-worker"));
    help.arg("--help");
    assert!(run(help).contains("module:name"));
}

#[test]
fn the_package_is_typed_throughout() {
    let mut mypy = python(&python_home());
    let cache = tempfile::tempdir().unwrap();
    mypy.args(["-m", "mypy", "--strict", "--cache-dir"]).arg(cache.path());
    mypy.current_dir(repository().join("sdk/python"));
    assert!(run(mypy).contains("no issues found"));
}

#[test]
fn the_package_is_written_in_the_usual_style() {
    let mut ruff = python(&python_home());
    ruff.args(["-m", "ruff", "check", "--no-cache", "."]).current_dir(repository().join("sdk/python"));
    run(ruff);
}

#[test]
fn the_tests_of_the_package_pass() {
    pytest("sdk/python");
}

#[test]
fn the_tests_of_the_refund_agent_pass() {
    pytest("examples/refund-approval");
}

#[test]
fn the_tests_of_the_research_agent_pass() {
    pytest("examples/research-agent");
}

#[test]
fn the_tests_of_the_langgraph_agent_pass() {
    pytest("examples/langgraph-agent");
}

#[test]
fn the_tests_of_the_nightly_report_pass() {
    pytest("examples/nightly-report");
}

#[test]
fn the_tests_of_the_triage_agent_pass() {
    pytest("examples/engagement");
}

#[test]
fn the_tests_of_the_support_desk_pass() {
    pytest("examples/outage");
}

/// Runs the tests in a folder with the package installed and this binary.
fn pytest(folder: &str) {
    let mut pytest = python(sdk_home());
    pytest.args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]).current_dir(repository().join(folder));
    pytest.env("ABIDE_BIN", env!("CARGO_BIN_EXE_abide"));
    for name in ["ABIDE_URL", "ABIDE_API_KEY"] {
        pytest.env_remove(name);
    }
    let said = run(pytest);
    assert!(said.contains(" passed") && !said.contains("skipped"), "{said}");
}
