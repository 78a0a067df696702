//! What every command says of itself.

use super::*;

/// The commands below one, as its help lists them.
fn below(help: &str) -> Vec<String> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = listed.take_while(|line| !line.is_empty()).filter_map(|line| {
        let name = line.strip_prefix("  ")?.split(' ').next()?;
        (!name.is_empty() && name != "help").then(|| name.to_owned())
    });
    names.collect()
}

fn walk(path: &[String], met: &mut Vec<String>) {
    let output = run(abide().args(path).arg("--help").env("COLUMNS", "100"));
    assert_eq!(code(&output), 0, "{output:?}");
    let name = format!("help_{}", path.join("_"));
    insta::assert_snapshot!(name.trim_end_matches('_'), stdout(&output));
    met.push(path.join(" "));
    for command in below(stdout(&output)) {
        walk(&[path, &[command]].concat(), met);
    }
}

#[test]
fn every_command_has_its_help() {
    let mut met = Vec::new();
    walk(&[], &mut met);
    for command in [
        "dev",
        "serve",
        "workflow validate",
        "run start",
        "run why",
        "resume now",
        "bench resume",
        "inbox",
        "answer",
        "event send",
        "bench roundtrip",
        "secrets set",
        "webhook add",
        "keys revoke",
        "keys rotate",
        "keyring retire",
        "people import",
        "agent set",
        "verify",
        "compact",
        "completions",
    ] {
        assert!(met.iter().any(|known| known == command), "{command} in {met:?}");
    }
}

#[test]
fn without_a_command_the_help_is_shown_and_nothing_is_done() {
    let output = run(&mut abide());
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("Usage: abide"), "{output:?}");
}

#[test]
fn the_version_is_the_packages() {
    let output = run(abide().arg("--version"));
    assert_eq!(stdout(&output), format!("abide {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_help_shows_no_key_from_the_environment() {
    let output = run(abide().args(["run", "--help"]).env("ABIDE_API_KEY", "abk_secret_secret"));
    assert!(!stdout(&output).contains("abk_secret"), "{output:?}");
}

#[test]
fn there_are_completions_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = run(abide().args(["completions", shell]));
        assert_eq!(code(&output), 0, "{shell}");
        let script = stdout(&output);
        assert!(script.contains("abide") && script.contains("revoke"), "{shell}");
    }
    let output = run(abide().args(["completions", "tcsh"]));
    assert_eq!(code(&output), 2);
}

#[test]
fn the_completions_for_bash_are_valid() {
    let script = run(abide().args(["completions", "bash"])).stdout;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("abide.bash");
    std::fs::write(&path, script).unwrap();
    let checked = run(Command::new("bash").arg("-n").arg(&path));
    assert!(checked.status.success(), "{checked:?}");
}
