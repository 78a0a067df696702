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
    for args in [&["list"][..], &["revoke", "x"], &["rotate", "x"]] {
        let output = keys(&site, args);
        assert_eq!(code(&output), 1, "{output:?}");
        assert!(stderr(&output).contains("holds no Abide data"), "{output:?}");
        assert!(!site.data().exists());
    }
}

#[test]
fn a_directory_that_nobody_named_is_told() {
    let site = site();
    std::fs::create_dir_all(site.path("here")).unwrap();
    let here = |args: &[&str]| run(abide().arg("keys").args(args).current_dir(site.path("here")));
    let told = format!("using the data directory {}", site.path("here").join("abide-data").display());
    for args in [&["list"][..], &["revoke", "x"], &["rotate", "x"]] {
        let output = here(args);
        assert_eq!(code(&output), 1, "{output:?}");
        assert!(stderr(&output).starts_with(&told), "{output:?}");
        assert!(!site.path("here/abide-data").exists());
    }
    let output = here(&["create"]);
    assert!(code(&output) == 0 && stderr(&output).starts_with(&told), "{output:?}");
    assert!(stdout(&output).starts_with("abk_"), "{output:?}");
}

#[test]
fn a_list_tells_what_each_key_may_do_and_until_when() {
    let site = site();
    site.key("default").scopes("runs:create,runs:read").principal("svc:orders").expires_in("30d").made();
    site.key("acme").secret("a-secret-that-was-chosen").roles("finance").act_as().made();
    let listed = keys(&site, &["list", "--json"]);
    let page: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let [one, other] = page["keys"].as_array().unwrap().as_slice() else { panic!("{page}") };
    assert_eq!(one["scopes"], json!(["runs:create", "runs:read"]));
    assert_eq!((&one["tenant"], &one["principal"]), (&json!("default"), &json!("svc:orders")));
    assert_eq!(
        (&other["tenant"], &other["roles"], &other["actAs"]),
        (&json!("acme"), &json!(["finance"]), &json!(true))
    );
    let table = stdout(&keys(&site, &["list"])).to_owned();
    assert!(table.contains("runs:create,runs:read") && table.contains("expires 20"), "{table}");
    assert!(table.contains("all") && table.contains("active"), "{table}");
    assert!(!table.contains("a-secret-that"), "{table}");
}

#[test]
fn a_secret_can_come_from_standard_input_and_is_not_printed() {
    use std::io::Write;
    let site = site();
    let secret = "typed-into-a-pipe-1";
    let mut command = abide();
    command.args(["keys", "create", "--secret", "-", "--data"]).arg(site.data());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(format!("{secret}\n").as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    assert!(stdout(&output).ends_with(" is made\n") && !told(&output).contains(secret), "{output:?}");
    assert_eq!(stdout(&output).split(' ').next(), Some(site.key_id(secret).as_str()));
}

#[test]
fn what_is_wrong_with_a_key_is_told_before_anything_is_made() {
    let site = site();
    site.new_key("default");
    let before = site.rows();
    for (args, said) in [
        (&["create", "--tenant", "new", "--secret", "too-short"][..], "16 to 256"),
        (&["create", "--tenant", "new", "--secret", "has a space in it ..."], "no spaces"),
        (&["create", "--tenant", "new", "--secret", "abk_looks_like_one_of_ours"], "abk_"),
        (&["create", "--tenant", "new", "--principal", "a b"], "principal"),
        (&["create", "--tenant", "new", "--roles", "a b"], "roles"),
        (&["create", "--tenant", "new", "--expires-in", "999w", "--label", ""], "ten years"),
        (&["rotate", "nobody"], "there is no key 'nobody'"),
    ] {
        let output = keys(&site, args);
        assert_ne!(code(&output), 0, "{args:?}");
        assert!(stderr(&output).contains(said), "{args:?}: {output:?}");
        let secret = args.iter().skip_while(|arg| **arg != "--secret").nth(1);
        assert!(secret.is_none_or(|secret| !stderr(&output).contains(secret)), "{output:?}");
    }
    assert_eq!(site.rows(), before, "no tenant was made either");
    for args in [&["create", "--scopes", "runs:see"][..], &["create", "--expires-in", "soon"]] {
        assert_eq!(code(&keys(&site, args)), 2, "{args:?}");
    }
}

#[tokio::test]
async fn a_key_is_rotated_in_a_stopped_data_directory() {
    let site = site();
    assert!(site.start(&["--test-clock"]).stop().success());
    let old = site.key("default").scopes("runs:read").make();
    let output = keys(&site, &["rotate", parts(&old).0, "--overlap", "1h"]);
    assert_eq!(code(&output), 0, "{output:?}");
    let new = stdout(&output).trim_end().to_owned();
    assert!(stderr(&output).starts_with("the old secret works until 20"), "{output:?}");
    let server = site.start(&["--test-clock"]);
    let asks = async |key: &str| server.ask_as(key, reqwest::Method::GET, "/v1/runs", None).await.1;
    assert_eq!(asks(&old).await["runs"], json!([]));
    assert_eq!(asks(&new).await["runs"], json!([]));
    server.advance(3_600_000).await;
    assert_eq!(asks(&old).await["error"], "key_expired");
    assert_eq!(asks(&new).await["runs"], json!([]));
    assert!(server.stop().success());
    let again = keys(&site, &["rotate", parts(&old).0]);
    assert!(code(&again) == 1 && stderr(&again).contains("make a new one"), "{again:?}");
}

#[tokio::test]
async fn a_running_server_is_told_and_applies_it_at_once() {
    let site = site();
    let server = site.start(&[]);
    let made = server.cli(&["keys", "create", "--scopes", "runs:read", "--label", "for a while"]);
    assert_eq!(code(&made), 0, "{made:?}");
    let key = stdout(&made).trim_end().to_owned();
    let asks = async |key: &str| server.ask_as(key, reqwest::Method::GET, "/v1/runs", None).await.1;
    assert_eq!(asks(&key).await["runs"], json!([]));

    let listed = stdout(&server.cli(&["keys", "list"])).to_owned();
    assert!(listed.contains(parts(&key).0) && listed.contains("for a while"), "{listed}");
    let rotated = server.cli(&["keys", "rotate", parts(&key).0, "--overlap", "0s"]);
    let newer = stdout(&rotated).trim_end().to_owned();
    assert_eq!(asks(&key).await["error"], "key_expired");
    assert_eq!(asks(&newer).await["runs"], json!([]));
    let revoked = server.cli(&["keys", "revoke", parts(&newer).0]);
    assert_eq!(stdout(&revoked), format!("{} is revoked\n", parts(&newer).0));
    assert_eq!(asks(&newer).await["error"], "key_revoked");

    let absent = server.cli(&["keys", "revoke", "nobody"]);
    assert_eq!(code(&absent), 4, "{absent:?}");
    let other = server.cli(&["keys", "create", "--tenant", "other"]);
    assert!(code(&other) == 1 && stderr(&other).contains("own tenant only"), "{other:?}");
    let both = server.cli(&["keys", "list", "--data", "x", "--url", &server.url]);
    assert_eq!(code(&both), 2, "{both:?}");
}

#[test]
fn a_data_directory_that_is_named_wins_over_a_server_in_the_environment() {
    let site = site();
    site.new_key("default");
    let mut command = abide();
    command.args(["keys", "list", "--data"]).arg(site.data()).env("ABIDE_URL", "http://127.0.0.1:1");
    assert_eq!(code(&run(&mut command)), 0);
    let mut command = abide();
    command.args(["keys", "list"]).env("ABIDE_DATA", site.data());
    assert_eq!(code(&run(&mut command)), 0, "and the environment over the usual place");
}
