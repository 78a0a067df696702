//! What is left out when the tests run on PostgreSQL is a list with reasons, and not a silence.

use std::process::Command;

const LIST: &str = include_str!("left_out_on_postgres.txt");

#[test]
fn whatever_is_left_out_on_postgresql_is_there_and_says_why() {
    let output = Command::new(std::env::current_exe().unwrap()).arg("--list").output().unwrap();
    let listed = String::from_utf8(output.stdout).unwrap();
    let tests: Vec<&str> = listed.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    assert!(tests.len() > 100, "{listed}");
    let entries = LIST.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    for entry in entries {
        let (name, why) = entry.split_once(": ").unwrap_or_else(|| panic!("{entry} has no reason"));
        assert!(!why.trim().is_empty(), "{entry}");
        assert!(tests.iter().any(|test| test.starts_with(name)), "there is no test {name} to leave out");
    }
}
