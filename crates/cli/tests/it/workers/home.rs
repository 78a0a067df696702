//! A Python environment in which the SDK is installed as anybody would install it: from the wheel that it builds.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use aws_lc_rs::digest::{Context, SHA256};

use crate::support::{python_home, repository};

/// The environment: the SDK and everything that the tests' own has. It is made once for each state of the sources.
pub(crate) fn sdk_home() -> &'static Path {
    static HOME: OnceLock<PathBuf> = OnceLock::new();
    HOME.get_or_init(|| {
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("sdk-{}", fingerprint()));
        if !kept.join("complete").exists() {
            make(&kept);
        }
        kept
    })
}

/// The wheel of the SDK, built into a folder.
pub(crate) fn wheel(into: &Path) -> PathBuf {
    let mut build = python(&python_home());
    // The sources may be read-only, and others may build from them at the same time.
    let sources = into.join("sources");
    copy(&repository().join("sdk/python"), &sources);
    build.args(["-m", "build", "--wheel", "--no-isolation", "--outdir"]).arg(into).arg(&sources);
    run(build);
    let made = std::fs::read_dir(into).unwrap().map(|entry| entry.unwrap().path());
    made.into_iter().find(|path| path.extension().is_some_and(|end| end == "whl")).expect("a wheel was built")
}

/// An empty environment.
pub(crate) fn empty(at: &Path) {
    let mut venv = python(&python_home());
    venv.args(["-m", "venv", "--without-pip"]).arg(at);
    run(venv);
}

/// Installs something into an environment, with the tests' own pip and without the network.
pub(crate) fn install(home: &Path, what: &[&Path], flags: &[&str]) {
    let mut pip = python(&python_home());
    pip.args(["-m", "pip", "--disable-pip-version-check", "--python"]).arg(home.join("bin/python"));
    pip.args(["install", "--quiet", "--no-index"]).args(flags).args(what);
    run(pip);
}

/// The Python of an environment.
pub(crate) fn python(home: &Path) -> Command {
    let mut command = Command::new(home.join("bin/python"));
    command.stdin(Stdio::null()).env("PYTHONDONTWRITEBYTECODE", "1").env_remove("PYTHONPATH");
    command
}

/// Runs a command that has to succeed, and gives what it printed.
pub(crate) fn run(mut command: Command) -> String {
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{err}", output.status);
    out.into_owned()
}

fn make(kept: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let wheel = wheel(folder.path());
    empty(kept);
    install(kept, &[&wheel], &["--no-deps"]);
    // What the SDK and the examples need is in the tests' own environment.
    let packages = site_packages(&python_home());
    std::fs::write(site_packages(kept).join("tests.pth"), format!("{}\n", packages.display())).unwrap();
    std::fs::write(kept.join("complete"), "").unwrap();
}

/// Where an environment keeps its packages.
fn site_packages(home: &Path) -> PathBuf {
    let versions = std::fs::read_dir(home.join("lib")).unwrap().map(|entry| entry.unwrap().path());
    versions.map(|version| version.join("site-packages")).find(|path| path.is_dir()).unwrap()
}

/// What the environment depends on.
fn fingerprint() -> String {
    let mut digest = Context::new(&SHA256);
    digest.update(python_home().as_os_str().as_encoded_bytes());
    digest.update(&std::fs::read(repository().join("tests/python/requirements.txt")).unwrap());
    for path in files(&repository().join("sdk/python")) {
        digest.update(path.as_os_str().as_encoded_bytes());
        digest.update(&std::fs::read(&path).unwrap());
    }
    digest.finish().as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The files of a folder and its folders, in order, without what tools leave behind.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    let ours = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        !name.starts_with('.') && !["__pycache__", "dist", "build"].contains(&name)
    };
    let below = |path: PathBuf| if path.is_dir() { files(&path) } else { vec![path] };
    entries.into_iter().filter(ours).flat_map(below).collect()
}

fn copy(from: &Path, to: &Path) {
    for path in files(from) {
        let copy = to.join(path.strip_prefix(from).unwrap());
        std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
        std::fs::copy(&path, copy).unwrap();
    }
}
