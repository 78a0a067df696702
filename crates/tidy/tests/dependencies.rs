//! Who may depend on whom. Dev-dependencies are free; everything else is held to the picture in
//! `ARCHITECTURE.md`.

use std::process::Command;

use abide_tidy::{demand_none, tree::Tree};
use serde_json::Value;

/// Crates that the core must not reach, not even through another crate, and why.
///
/// The clock and the file system come with `std`: `crates/core/clippy.toml` bans those.
const NOT_IN_CORE: &[(&str, &[&str])] = &[
    (
        "the core is not asynchronous: it returns effects and the engine awaits them",
        &["tokio", "async-std", "smol", "futures-executor", "futures-util", "async-trait"],
    ),
    (
        "the core opens no sockets and makes no requests",
        &["mio", "socket2", "hyper", "hyper-util", "reqwest", "ureq", "axum", "tower", "rustls"],
    ),
    (
        "the core does not know where events are kept: that is the store",
        &["rusqlite", "libsqlite3-sys", "tokio-postgres", "postgres-protocol", "sqlx-core"],
    ),
    (
        "the core draws no random numbers: ids and salts are given to it. getrandom also comes in with \
         the v1, v4, v6 and v7 features of uuid, which belong to the shell",
        &["rand", "rand_core", "fastrand", "getrandom"],
    ),
    (
        "the core writes no logs: what matters is an event",
        &["tracing", "tracing-subscriber", "log", "env_logger"],
    ),
    ("the core makes no system calls", &["rustix", "nix", "tempfile", "signal-hook-registry", "num_cpus"]),
    ("the core starts no threads", &["rayon", "rayon-core", "crossbeam-channel", "threadpool"]),
];

/// Each crate of the workspace and the others that it may use, dev-dependencies aside.
const ARROWS: &[(&str, &[&str])] = &[
    ("abide-core", &[]),
    ("abide-store", &["abide-core"]),
    ("abide-notify", &["abide-core"]),
    ("abide-model", &["abide-core"]),
    ("abide-engine", &["abide-core", "abide-store", "abide-notify", "abide-model"]),
    ("abide-server", &["abide-core", "abide-store", "abide-notify", "abide-engine"]),
    // The benchmark counts the syncs of a real disk, so the binary holds the shim as well.
    (
        "abide",
        &[
            "abide-core",
            "abide-store",
            "abide-notify",
            "abide-model",
            "abide-engine",
            "abide-server",
            "abide-vfs",
        ],
    ),
    ("abide-vfs", &[]),
    ("abide-pgtest", &[]),
    ("abide-tidy", &[]),
];

#[test]
fn pure_crates_stay_pure() {
    let closure = normal_dependencies_of("abide-core");
    assert!(closure.iter().any(|name| name == "serde"), "cargo tree was misread: {closure:?}");
    let offenders: Vec<String> = NOT_IN_CORE
        .iter()
        .flat_map(|(why, names)| names.iter().map(move |name| (name, why)))
        .filter(|(name, _)| closure.iter().any(|found| found == *name))
        .map(|(name, why)| format!("{name}: {why}"))
        .collect();
    demand_none(
        &offenders,
        "crates that the core must not depend on",
        "`cargo tree -p abide-core -e normal -i <name>` shows the way in. Move the code that needs it into \
         the engine, and hand its result to the core.",
    );
}

#[test]
fn dependencies_between_crates_point_one_way() {
    let mut offenders = Vec::new();
    for (name, uses) in workspace_dependencies() {
        match ARROWS.iter().find(|(known, _)| *known == name) {
            None => offenders.push(format!("{name} is new: give it a row in ARROWS")),
            Some((_, allowed)) => {
                let wrong = uses.iter().filter(|used| !allowed.contains(&used.as_str()));
                offenders.extend(wrong.map(|used| format!("{name} uses {used}")));
            }
        }
    }
    demand_none(
        &offenders,
        "dependencies against the arrows",
        "The order is cli, server, engine, store, core: each may use those to its right. Move what both \
         sides need to the right, or make it a dev-dependency if only tests need it.",
    );
}

/// The arrows themselves must not form a circle: each row uses only rows above it, leaves excepted.
#[test]
fn the_arrows_form_no_circle() {
    for (row, (name, uses)) in ARROWS.iter().enumerate() {
        for used in *uses {
            let (other, (_, uses_of_used)) = ARROWS
                .iter()
                .enumerate()
                .find(|(_, (known, _))| known == used)
                .expect("every crate in the table has a row");
            assert!(other < row || uses_of_used.is_empty(), "{name} uses {used}, which is not below it");
        }
    }
}

/// The names of all crates that `package` is built from, itself included.
///
/// This asks `cargo tree` for the package alone. The graph of `cargo metadata` joins the features that
/// the whole workspace asks for: a uuid feature of the server would show up below the core.
fn normal_dependencies_of(package: &str) -> Vec<String> {
    // The JSON Schema validator keeps keywords in tables of `ahash`, which draws the seed of its hashes at random. No
    // answer depends on it, so what `ahash` alone brings in does not count.
    let listing = cargo(&[
        "tree",
        "--package",
        package,
        "--edges",
        "normal",
        "--prune",
        "ahash",
        "--prefix",
        "none",
        "--format",
        "{p}",
    ]);
    listing.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// Each crate of the workspace with those of its dependencies that are also in the workspace.
fn workspace_dependencies() -> Vec<(String, Vec<String>)> {
    let metadata: Value = serde_json::from_str(&cargo(&["metadata", "--format-version", "1", "--no-deps"]))
        .expect("cargo metadata prints JSON");
    let packages = metadata["packages"].as_array().expect("metadata lists packages");
    packages.iter().map(|package| (text(&package["name"]), local_dependencies(package))).collect()
}

/// The dependencies given by path, dev-dependencies left out.
fn local_dependencies(package: &Value) -> Vec<String> {
    let dependencies = package["dependencies"].as_array().expect("a package lists its dependencies");
    dependencies
        .iter()
        .filter(|dependency| dependency["path"].is_string() && dependency["kind"] != "dev")
        .map(|dependency| text(&dependency["name"]))
        .collect()
}

fn text(value: &Value) -> String {
    value.as_str().expect("names are strings").to_owned()
}

/// Runs cargo without network and without touching the lock file, and returns what it printed.
fn cargo(arguments: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(arguments)
        .args(["--offline", "--locked"])
        .current_dir(Tree::open().root())
        .output()
        .expect("cargo can be started");
    assert!(
        output.status.success(),
        "cargo {} failed (does `cargo fetch --locked` help?):\n{}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr),
    );
    String::from_utf8(output.stdout).expect("cargo prints UTF-8")
}
