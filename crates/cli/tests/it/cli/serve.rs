//! `abide serve` and `abide dev`: settings, and starts that are refused.

use super::*;

/// Runs a server that can't come up, and tells what it said, with the site's directory as SITE.
fn refused(site: &Site, command: &mut Command) -> String {
    let output = run(command);
    assert_eq!(code(&output), 1, "{output:?}");
    stderr(&output).replace(site.path("").to_str().unwrap(), "SITE/")
}

/// `abide serve` on an address that is taken: it reads its settings, says where it would listen, and ends.
fn doomed(site: &Site, taken: &std::net::TcpListener) -> Command {
    let mut command = abide();
    command
        .args(["serve", "--log", "error", "--listen"])
        .arg(taken.local_addr().unwrap().to_string())
        .current_dir(site.path(""));
    command
}

fn taken() -> std::net::TcpListener {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap()
}

#[tokio::test]
async fn a_server_runs_from_its_configuration_file_alone() {
    let site = site();
    let key = site.new_key("default");
    let config = format!(
        "listen = '127.0.0.1:0'\ndata = '{0}/data'\nworkflows = '{0}/workflows'\nkeyring = '{0}/data.keyring'\nlog = 'info'\n",
        site.path("").display()
    );
    std::fs::write(site.path("abide.toml"), config).unwrap();
    let mut command = abide();
    command.arg("serve").arg("--config").arg(site.path("abide.toml"));
    let server = Server::launch(command, &site.path("said"), &key);
    let run = server.start_run("quick", json!({})).await;
    assert_eq!(server.events(&run).await.len(), 4);
    assert!(server.stop().success());
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let site = site();
    let taken = taken();
    std::fs::write(site.path("abide.toml"), "data = 'of-the-file'\n").unwrap();
    let made = |name: &str| site.path(name).join("abide.db").exists();
    let with_file = || {
        let mut command = doomed(&site, &taken);
        command.args(["--config", "abide.toml"]);
        command
    };
    refused(&site, &mut doomed(&site, &taken));
    assert!(made("abide-data"), "the default");
    refused(&site, &mut with_file());
    assert!(made("of-the-file") && !made("of-the-environment"));
    refused(&site, with_file().env("ABIDE_DATA", "of-the-environment"));
    assert!(made("of-the-environment") && !made("of-the-flag"));
    refused(&site, with_file().env("ABIDE_DATA", "unused").args(["--data", "of-the-flag"]));
    assert!(made("of-the-flag") && !made("unused"));
    for data in ["abide-data", "of-the-file", "of-the-environment", "of-the-flag"] {
        assert!(site.path(&format!("{data}.keyring")).exists(), "{data} has its keyring beside it");
    }
}

#[test]
fn the_address_comes_from_the_same_three_places() {
    let site = site();
    let [file, environment, flag] = [taken(), taken(), taken()];
    let address = |listener: &std::net::TcpListener| listener.local_addr().unwrap().to_string();
    std::fs::write(site.path("abide.toml"), format!("listen = '{}'", address(&file))).unwrap();
    let command = || {
        let mut command = abide();
        command.args(["serve", "--log", "error", "--config", "abide.toml"]).current_dir(site.path(""));
        command
    };
    assert!(refused(&site, &mut command()).contains(&address(&file)));
    let said = refused(&site, command().env("ABIDE_LISTEN", address(&environment)));
    assert!(said.contains(&address(&environment)), "{said}");
    let said = refused(
        &site,
        command().env("ABIDE_LISTEN", address(&environment)).args(["--listen", &address(&flag)]),
    );
    assert!(said.contains(&address(&flag)), "{said}");
}

#[test]
fn a_bad_configuration_is_named_with_its_mistake() {
    let site = site();
    let serve = |text: Option<&str>| {
        let path = site.path("abide.toml");
        let _ = std::fs::remove_file(&path);
        text.iter().for_each(|text| std::fs::write(&path, text).unwrap());
        let mut command = abide();
        command.args(["serve", "--config", "abide.toml"]).current_dir(site.path(""));
        refused(&site, &mut command)
    };
    for (text, word) in [
        (None, "can't be read"),
        (Some("lisen = '127.0.0.1:1'"), "lisen"),
        (Some("listen = 'nowhere'"), "line 1, listen"),
        (Some("listen = 7171"), "listen"),
        (Some("data = "), "data"),
        (Some("log = 'warn'\nlog = 'info'"), "duplicate"),
    ] {
        let said = serve(text);
        assert!(said.contains("abide.toml") && said.contains(word), "{text:?}: {said}");
    }
    assert!(!site.path("abide-data").exists(), "nothing was made");
}

#[test]
fn a_bad_log_filter_is_named() {
    let site = site();
    let said = refused(&site, abide().args(["serve", "--log", "a=b=c"]).current_dir(site.path("")));
    assert!(said.contains("--log 'a=b=c'"), "{said}");
}

#[test]
fn every_problem_of_every_workflow_is_listed_and_nothing_starts() {
    let site = site();
    let one = workflow(
        "Bad Id",
        &[
            node("a", "core.noop", json!({}), json!({}), json!({})),
            node("a", "Core.Noop", json!({}), json!({}), json!({})),
            node(
                "c",
                "core.identity",
                json!({}),
                json!({ "x": { "type": "expression", "expression": "1+1" } }),
                json!({}),
            ),
        ],
        &[("a", "nowhere")],
        json!([{ "name": "v", "type": "text" }]),
    );
    std::fs::write(site.path("workflows/one.json"), one.to_string()).unwrap();
    let two = workflow(
        "two",
        &[
            node("x", "core.noop", json!({}), json!({}), json!({})),
            node("y", "core.noop", json!({}), json!({}), json!({})),
        ],
        &[("x", "y"), ("y", "x")],
        json!([]),
    );
    std::fs::write(site.path("workflows/two.json"), two.to_string()).unwrap();
    std::fs::write(site.path("workflows/three.json"), "{ not json").unwrap();
    std::fs::copy(site.path("workflows/quick.json"), site.path("workflows/quick2.json")).unwrap();
    std::fs::write(site.path("workflows/notes.txt"), "no workflow").unwrap();
    for verb in ["serve", "dev"] {
        let said = refused(
            &site,
            abide()
                .args([verb, "--log", "error", "--listen", "127.0.0.1:0", "--workflows"])
                .arg(site.path("workflows"))
                .arg("--data")
                .arg(site.data()),
        );
        insta::assert_snapshot!("bad_workflows", said);
    }
}

#[test]
fn a_workflow_folder_that_is_not_there_is_named() {
    let site = site();
    let said = refused(
        &site,
        abide()
            .args(["serve", "--log", "error", "--listen", "127.0.0.1:0", "--workflows"])
            .arg(site.path("nowhere"))
            .arg("--data")
            .arg(site.data()),
    );
    assert!(said.contains("SITE/nowhere can't be read"), "{said}");
}

#[test]
fn an_address_in_use_is_named_with_a_way_out() {
    let site = site();
    let taken = taken();
    let said = refused(&site, &mut doomed(&site, &taken));
    insta::assert_snapshot!(redacted(&said));
}

#[tokio::test]
async fn a_second_server_on_a_directory_is_refused_and_the_first_goes_on() {
    let site = site();
    let server = site.start(&[]);
    for verb in ["serve", "dev"] {
        let said = refused(
            &site,
            abide().args([verb, "--log", "error", "--listen", "127.0.0.1:0", "--data"]).arg(site.data()),
        );
        insta::assert_snapshot!("second_server", said);
    }
    server.start_run("quick", json!({})).await;
}

#[test]
fn a_server_that_nobody_can_reach_says_so() {
    let site = site();
    let server = site.serve("", &[]);
    assert!(server.stop().success());
    assert!(site.said().contains("there are no API keys"), "{}", site.said());
}

#[tokio::test]
async fn dev_tells_how_the_example_goes_and_goes_on() {
    let site = site();
    let server = site.start(&["--run", "quick"]);
    site.await_said("the server goes on");
    let (_, list) = server.get("/v1/runs").await;
    assert_eq!(list["runs"][0]["status"], "completed");
    assert_eq!(server.get("/healthz").await.0, 200);
}

#[tokio::test]
async fn dev_goes_on_when_the_example_fails_or_is_not_there() {
    for example in ["sad", "nowhere"] {
        let site = site();
        let server = site.start(&["--run", example]);
        site.await_said("the server goes on");
        assert!(site.said().contains("the example did not end well"), "{}", site.said());
        assert_eq!(server.get("/healthz").await.0, 200);
    }
}

#[test]
fn dev_has_the_same_key_at_every_start() {
    let site = site();
    let server = site.start(&[]);
    let key = server.key.clone();
    server.kill();
    assert_eq!(site.start(&[]).key, key);
}

#[tokio::test]
async fn a_signal_ends_a_server_in_order() {
    use rustix::process::Signal;
    for signal in [Signal::TERM, Signal::INT] {
        let site = site();
        let mut server = site.start(&[]);
        server.signal(signal);
        assert!(server.exit().await.success());
        let log = site.data().join("abide.db-wal").metadata();
        assert!(!log.is_ok_and(|log| log.len() > 0), "the log is folded into the file");
    }
}
