//! `abide keyring`: rotate, list, retire.

use super::*;

fn keyring(site: &Site, args: &[&str]) -> Output {
    run(abide().arg("keyring").args(args).arg("--data").arg(site.data()))
}

/// What a command printed, without the folder of this very test.
fn told_at(site: &Site, output: &Output) -> String {
    told(output).replace(site.path("").to_str().unwrap(), "DIR/")
}

#[test]
fn secrets_are_rotated_listed_and_retired() {
    let site = site();
    let key = site.new_key("default");
    insta::assert_snapshot!("keyring_rotated", told_at(&site, &keyring(&site, &["rotate"])));
    insta::assert_snapshot!("keyring_rotated_json", told_at(&site, &keyring(&site, &["rotate", "--json"])));
    let table = keyring(&site, &["list"]);
    insta::assert_snapshot!("keyring_list", told(&table));
    let json = keyring(&site, &["list", "--json"]);
    insta::assert_snapshot!("keyring_list_json", told(&json));
    let stored = std::fs::read_to_string(site.path("data.keyring")).unwrap();
    let stored: serde_json::Value = serde_json::from_str(&stored).unwrap();
    for secret in stored["keys"].as_array().unwrap() {
        let secret = secret["secret"].as_str().unwrap();
        assert!(!stdout(&table).contains(secret) && !stdout(&json).contains(secret), "a secret is told");
    }
    insta::assert_snapshot!("keyring_retired", told(&keyring(&site, &["retire", "2"])));
    insta::assert_snapshot!("keyring_newest", told(&keyring(&site, &["retire", "3"])));
    insta::assert_snapshot!("keyring_unknown", told(&keyring(&site, &["retire", "2"])));
    let needed = told(&keyring(&site, &["retire", "1"]));
    insta::assert_snapshot!("keyring_needed", needed.replace(&site.key_id(&key), "KEY"));
    insta::assert_snapshot!("keyring_forced", told(&keyring(&site, &["retire", "1", "--force"])));
    assert_eq!(stdout(&keyring(&site, &["list"])).lines().count(), 2, "one is left");
}

#[test]
fn nothing_is_made_where_there_is_no_keyring() {
    let site = site();
    for args in [&["rotate"][..], &["list"], &["retire", "1"]] {
        let output = keyring(&site, args);
        assert_eq!(code(&output), 4, "{output:?}");
        assert!(stderr(&output).contains("--keyring"), "{output:?}");
    }
    assert!(!site.path("data.keyring").exists() && !site.data().exists());
}
