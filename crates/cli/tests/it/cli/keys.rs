//! `abide keys`: make, list, revoke.

use super::*;

fn keys(site: &Site, args: &[&str]) -> Output {
    run(abide().arg("keys").args(args).arg("--data").arg(site.data()))
}

/// A key's id and secret.
fn parts(key: &str) -> (&str, &str) {
    key.strip_prefix("abk_").unwrap().split_once('_').unwrap()
}

#[test]
fn a_new_key_is_printed_alone_and_the_talk_goes_elsewhere() {
    let site = site();
    let output = keys(&site, &["create"]);
    assert_eq!(code(&output), 0);
    let (id, secret) = parts(stdout(&output).trim_end());
    assert_eq!((id.len(), secret.len()), (12, 64));
    assert_eq!(stderr(&output), "this key is shown once; keep it safe:\n");
}

#[tokio::test]
async fn a_key_opens_the_server_until_it_is_revoked() {
    let site = site();
    let (kept, revoked) = (site.new_key("default"), site.new_key("default"));
    let server = site.serve(&revoked, &[]);
    assert_eq!(server.get("/v1/runs").await.0, 200);
    assert!(server.stop().success());
    let output = keys(&site, &["revoke", parts(&revoked).0]);
    assert_eq!(stdout(&output), format!("{} is revoked\n", parts(&revoked).0));
    let server = site.serve(&revoked, &[]);
    assert_eq!(server.get("/v1/runs").await.0, 401);
    let (status, _) =
        crate::support::answer(server.request_as(&kept, reqwest::Method::GET, "/v1/runs")).await.unwrap();
    assert_eq!(status, 200);
}

#[test]
fn revoking_twice_changes_nothing() {
    let site = site();
    let key = site.new_key("default");
    assert_eq!(code(&keys(&site, &["revoke", parts(&key).0])), 0);
    let before = keys(&site, &["list", "--json"]).stdout;
    assert_eq!(code(&keys(&site, &["revoke", parts(&key).0])), 0);
    assert_eq!(keys(&site, &["list", "--json"]).stdout, before, "the time of the first stays");
}

#[test]
fn a_list_shows_ids_and_never_secrets() {
    let site = site();
    let made = [site.new_key("default"), site.new_key("other")];
    assert_eq!(code(&keys(&site, &["revoke", parts(&made[1]).0])), 0);
    let hidden = |text: &str| {
        let mut text = text.to_owned();
        for (ix, key) in made.iter().enumerate() {
            assert!(!text.contains(parts(key).1), "{text}");
            text = text.replace(parts(key).0, &format!("{:012}", ix + 1));
        }
        text
    };
    let table = keys(&site, &["list"]);
    insta::assert_snapshot!("keys_list", hidden(&told(&table)));
    insta::assert_snapshot!("keys_list_json", hidden(&told(&keys(&site, &["list", "--json"]))));
    let macs: Vec<Vec<u8>> = site
        .database()
        .prepare("SELECT mac FROM api_keys")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    for mac in macs {
        let hex: String = mac.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(!stdout(&table).contains(&hex[8..]), "nor what it is checked by");
        assert!(made.iter().all(|key| !hex.contains(parts(key).1)), "the store never has the secret");
    }
}

#[test]
fn the_secret_is_nowhere_in_the_data_directory() {
    let site = site();
    let key = site.new_key("default");
    let secret = parts(&key).1.as_bytes();
    for entry in std::fs::read_dir(site.data()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(secret.len()).any(|window| window == secret));
    }
}

#[test]
fn the_keyring_lies_beside_the_data_and_is_nobody_elses() {
    use std::os::unix::fs::PermissionsExt;
    let site = site();
    site.new_key("default");
    let keyring = site.path("data.keyring");
    assert_eq!(std::fs::metadata(&keyring).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::set_permissions(&keyring, std::fs::Permissions::from_mode(0o644)).unwrap();
    let output = keys(&site, &["create"]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("chmod 600"), "{output:?}");
}

#[tokio::test]
async fn a_key_of_another_keyring_opens_nothing() {
    let (site, other) = (site(), Site::new());
    let key = site.new_key("default");
    other.new_key("default");
    std::fs::copy(other.path("data.keyring"), site.path("data.keyring")).unwrap();
    let server = site.serve(&key, &[]);
    assert_eq!(server.get("/v1/runs").await.0, 401);
}

#[tokio::test]
async fn a_lost_keyring_is_not_replaced_behind_the_back_of_its_keys() {
    let site = site();
    let lost = site.new_key("default");
    std::fs::remove_file(site.path("data.keyring")).unwrap();
    let output = keys(&site, &["create"]);
    assert_eq!(code(&output), 1, "{output:?}");
    assert!(stderr(&output).contains("put it back, or name it with --keyring"), "{output:?}");
    assert!(!site.path("data.keyring").exists());
    assert_eq!(code(&keys(&site, &["revoke", parts(&lost).0])), 0);
    assert_eq!(code(&keys(&site, &["create"])), 0, "nothing depends on it any more");
}

#[tokio::test]
async fn a_directory_in_use_is_refused_with_a_way_out_but_can_be_listed() {
    let site = site();
    let key = site.new_key("default");
    let server = site.serve(&key, &[]);
    for args in [&["create"][..], &["revoke", parts(&key).0]] {
        let output = keys(&site, args);
        assert_eq!(code(&output), 1, "{output:?}");
        let said = stderr(&output);
        assert!(said.contains("another abide is using") && said.contains("stop it first"), "{said}");
    }
    assert_eq!(code(&keys(&site, &["list"])), 0);
    assert_eq!(server.get("/v1/runs").await.0, 200, "the key is as it was");
}

#[test]
fn a_key_that_is_not_there_exits_with_4() {
    let site = site();
    site.new_key("default");
    let output = keys(&site, &["revoke", "nobody"]);
    insta::assert_snapshot!(told(&output));
}

#[test]
fn a_directory_that_is_not_there_is_not_made_by_looking() {
    let site = site();
    for args in [&["list"][..], &["revoke", "x"]] {
        let output = keys(&site, args);
        assert_eq!(code(&output), 1, "{output:?}");
        assert!(stderr(&output).contains("holds no Abide data"), "{output:?}");
        assert!(!site.data().exists());
    }
}
