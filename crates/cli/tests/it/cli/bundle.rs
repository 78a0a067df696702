//! `abide run bundle`: what it writes, where, and what it says.

use super::*;

/// Runs the command in a folder of the site.
fn bundled(server: &Server, site: &Site, args: &[&str]) -> Output {
    let mut command = abide();
    command.args(["run", "bundle"]).args(args).current_dir(site.path(""));
    run(command.env("ABIDE_URL", &server.url).env("ABIDE_API_KEY", &server.key).stdin(Stdio::null()))
}

/// What lies in the folder, beside what every site has.
fn files(site: &Site) -> Vec<String> {
    let known = ["data", "data.keyring", "workflows", "server.log", "said"];
    let entries = std::fs::read_dir(site.path("")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| !known.contains(&name.as_str())).collect();
    names.sort();
    names
}

fn json_of(bytes: &[u8]) -> serde_json::Value {
    serde_json::from_slice(bytes)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(bytes)))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_is_written_once_and_what_was_left_out_is_told() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("hello", json!({ "name": "abk_live_0123456789abcdef" })).await;
    server.settle().await;
    let file = format!("{run}.bundle.json");
    let before = files(&site);
    let output = bundled(&server, &site, &[&run]);
    assert_eq!(code(&output), 0, "{output:?}");
    let text = std::fs::read(site.path(&file)).unwrap();
    assert_eq!(stdout(&output), format!("{file} ({} bytes)\n", text.len()));
    assert_eq!(json_of(&text)["run"]["runId"], run.as_str());
    assert!(!String::from_utf8_lossy(&text).contains("0123456789abcdef"));
    assert!(stderr(&output).contains("- what looks like a key or a password in "), "{output:?}");
    assert!(stderr(&output).ends_with("Look through it before you hand it on.\n"), "{output:?}");

    let again = bundled(&server, &site, &[&run]);
    assert_eq!((code(&again), stdout(&again)), (1, ""), "{again:?}");
    assert!(stderr(&again).contains("is there already; choose another --output"), "{again:?}");
    assert_eq!(std::fs::read(site.path(&file)).unwrap(), text, "nothing was overwritten");
    let mut after = before;
    after.push(file);
    after.sort();
    assert_eq!(files(&site), after, "nothing else was left behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_goes_to_another_file_or_to_standard_output() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("hello", json!({})).await;
    let output = bundled(&server, &site, &[&run, "-o", "-"]);
    assert_eq!((code(&output), stderr(&output)), (0, ""), "{output:?}");
    assert_eq!(json_of(&output.stdout)["bundleVersion"], "1");
    let output = bundled(&server, &site, &[&run, "--output", "mine.json", "--answers", "--json"]);
    assert_eq!(code(&output), 0, "{output:?}");
    let told = json_of(&output.stdout);
    assert_eq!((&told["file"], &told["leftOut"]["count"]), (&json!("mine.json"), &json!(0)));
    assert_eq!(told["bytes"], std::fs::metadata(site.path("mine.json")).unwrap().len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_that_can_not_be_had_or_kept_leaves_no_file() {
    let site = site();
    let reader = site.key("default").scopes("runs:read").make();
    let mut server = site.start(&["--test-clock"]);
    let run = server.start_run("hello", json!({})).await;
    let before = files(&site);
    let unknown = "run-019b8d36-7c80-7000-8000-000000000001";
    assert_eq!(code(&bundled(&server, &site, &[unknown])), 4);
    let nowhere = bundled(&server, &site, &[&run, "-o", "no/such/folder/file.json"]);
    assert_eq!((code(&nowhere), stdout(&nowhere)), (1, ""), "{nowhere:?}");
    assert!(stderr(&nowhere).contains("can't be written"), "{nowhere:?}");
    server.key = reader;
    let refused = bundled(&server, &site, &[&run]);
    assert_eq!(code(&refused), 1, "{refused:?}");
    assert!(stderr(&refused).contains("audit:read"), "{refused:?}");
    assert_eq!(files(&site), before);
}
