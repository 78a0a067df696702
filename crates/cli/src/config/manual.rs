//! `packaging/abide.toml` is the manual of every key: here it is held against what is read.
//!
//! Which keys there are is not written down a second time. A table that is given a key it does not know answers with
//! those that it knows, so a key that is added to the reader and not to the manual is found by itself.

use std::collections::BTreeSet;

use super::FileConfig;

const MANUAL: &str = include_str!("../../../../packaging/abide.toml");

/// A key that no table has.
const PROBE: &str = "no-such-key";

/// Tables of tables, whose names are the operator's own, and a name that the manual has.
const NAMED: [(&str, &str); 3] = [
    ("channels", "channels.mail"),
    ("providers", "providers.claude"),
    ("providers.claude.prices", "providers.claude.prices.claude-sonnet-4-5"),
];

/// The manual with every setting switched on.
fn switched_on() -> String {
    let setting = |line: &str| match line.strip_prefix('#') {
        Some(rest) if !rest.starts_with(' ') => rest.to_owned(),
        _ => line.to_owned(),
    };
    MANUAL.lines().map(|line| setting(line) + "\n").collect()
}

/// What is wrong with a file that has this key in this table; `None` if nothing is.
fn wrong(table: &str, key: &str) -> Option<String> {
    let header = if table.is_empty() { String::new() } else { format!("[{table}]\n") };
    match toml::from_str::<FileConfig>(&format!("{header}{key} = 1\n")) {
        Err(error) => Some(error.message().to_owned()),
        Ok(file) => file.suspension.policy("abide.toml".as_ref()).err().map(|error| error.to_string()),
    }
}

/// The keys that a table knows; `None` if it is none, or takes any key.
fn known(table: &str) -> Option<Vec<String>> {
    let said = wrong(table, PROBE)?;
    if let Some((_, listed)) = said.split_once("expected one of ").or_else(|| said.split_once("expected ")) {
        let of_probe = said.contains(&format!("unknown field `{PROBE}`"));
        return of_probe.then(|| listed.split('`').skip(1).step_by(2).map(str::to_owned).collect());
    }
    let (_, listed) = said.split_once("the keys are ")?;
    Some(listed.split(", ").map(str::to_owned).collect())
}

/// Every key that is read, with the tables that it stands in: `limits.rate-key`.
fn every_key(table: &str, found: &mut BTreeSet<String>) {
    for key in known(table).unwrap_or_default() {
        let path = if table.is_empty() { key } else { format!("{table}.{key}") };
        let inner =
            NAMED.iter().find(|(table, _)| *table == path).map_or(path, |(_, named)| named.to_string());
        match known(&inner) {
            Some(_) => every_key(&inner, found),
            None => drop(found.insert(inner)),
        }
    }
}

/// Every key that the manual has, and whether a sentence stands before it.
fn written() -> Vec<(String, bool)> {
    let (mut table, mut explained, mut keys) = (String::new(), false, Vec::new());
    for line in MANUAL.lines() {
        let setting = line.strip_prefix('#').filter(|rest| !rest.starts_with(' ') && !rest.is_empty());
        if let Some(header) = setting.and_then(|setting| setting.strip_prefix('[')?.strip_suffix(']')) {
            keys.push((header.to_owned(), explained));
            table = format!("{header}.");
        } else if let Some((key, _)) = setting.and_then(|setting| setting.split_once(" = ")) {
            keys.push((format!("{table}{key}"), explained));
        }
        explained = line.starts_with("# ") && line.ends_with('.');
    }
    keys
}

#[test]
fn every_key_that_is_read_stands_in_the_manual() {
    let mut read = BTreeSet::new();
    every_key("", &mut read);
    for key in [
        "listen",
        "limits.rate-key",
        "suspension.default_retry_policy.max_attempts",
        "channels.mail.host",
        "providers.claude.base-url",
        "providers.claude.headers",
        "providers.claude.breaker.cooldown",
        "providers.claude.prices.claude-sonnet-4-5.input",
    ] {
        assert!(read.contains(key), "the reader was not found out about: {read:?}");
    }
    let written: BTreeSet<String> = written().into_iter().map(|(key, _)| key).collect();
    let missing: Vec<_> = read.iter().filter(|key| !written.contains(*key)).collect();
    assert!(
        missing.is_empty(),
        "packaging/abide.toml lacks {missing:?}; add each with a sentence and its default"
    );
}

#[test]
fn every_setting_of_the_manual_can_be_read_and_is_explained() {
    let read = toml::from_str::<FileConfig>(&switched_on());
    let file = read.unwrap_or_else(|error| panic!("packaging/abide.toml, with all switched on: {error}"));
    let policy = file.suspension.policy("abide.toml".as_ref()).unwrap().unwrap();
    assert_eq!(policy.max_attempts, Some(3));
    assert_eq!(file.channels["mail"].kind.as_deref(), Some("email"));
    let providers = abide_model::Providers::from_config(file.providers).unwrap();
    let claude = providers.get("claude").expect("the manual has it");
    // What the manual shows as defaults is what holds without them.
    let bare = toml::from_str("[claude]\nkind = 'anthropic'").unwrap();
    let bare = abide_model::Providers::from_config(bare).unwrap();
    let bare = bare.get("claude").expect("it was told");
    assert_eq!(
        (claude.endpoint.url.clone(), claude.endpoint.timeouts),
        (bare.endpoint.url.clone(), bare.endpoint.timeouts)
    );
    assert_eq!((&claude.terms.retry, claude.breaker), (&bare.terms.retry, bare.breaker));
    assert_eq!(claude.terms.retry_after_cap_ms, bare.terms.retry_after_cap_ms);
    for (key, explained) in written() {
        assert!(
            explained || key == "oidc.grants.approver",
            "{key} needs a line before it that says what it does"
        );
    }
}

#[test]
fn the_manual_as_it_is_sets_nothing() {
    let empty: toml::Table = toml::from_str(MANUAL).unwrap();
    assert!(empty.is_empty(), "{empty:?}");
}
