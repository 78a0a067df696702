//! Output that nobody reads: `abide run list | head` is not an error.

use std::process::Stdio;

use super::*;

/// A pipe whose reader is gone.
fn broken() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

fn client(server: &Server, args: &[&str]) -> Command {
    let mut command = abide();
    command.args(args).env("ABIDE_URL", &server.url).env("ABIDE_API_KEY", &server.key);
    command
}

#[test]
fn a_closed_standard_output_is_quiet() {
    let site = site();
    let server = site.start(&[]);
    let started = server.cli(&["run", "start", "quick"]);
    let id = stdout(&started).trim();
    for args in [
        &["run", "list"][..],
        &["run", "list", "--json"],
        &["run", "show", id],
        &["run", "events", id],
        &["run", "start", "quick"],
        &["run", "why", id],
        &["workflow", "list"],
        &["workflow", "show", "quick"],
        &["workflow", "graph", "quick", "--run", id],
        &["workflow", "new", "orders"],
        &["completions", "bash"],
        &["--help"],
    ] {
        let output = run(client(&server, args).stdout(broken()).stderr(Stdio::piped()));
        assert_eq!((code(&output), stderr(&output)), (0, ""), "{args:?}");
    }
}

#[test]
fn verify_and_keys_are_quiet_as_well() {
    let site = site();
    site.new_key("default");
    for args in [&["verify"][..], &["verify", "--json"], &["keys", "list"]] {
        let output = run(abide().args(args).arg("--data").arg(site.data()).stdout(broken()));
        assert_eq!((code(&output), stderr(&output)), (0, ""), "{args:?}");
    }
}

#[test]
fn a_closed_standard_error_stops_nothing() {
    let site = site();
    let server = site.start(&[]);
    for (args, expected) in [
        (&["run", "list"][..], 0),
        (&["run", "start", "quick", "--wait"], 0),
        (&["run", "start", "sad", "--wait"], 1),
        (&["run", "show", "nonsense"], 4),
    ] {
        let output = run(client(&server, args).stderr(broken()));
        assert_eq!(code(&output), expected, "{args:?}");
    }
}

#[test]
fn a_server_whose_standard_error_is_closed_goes_on() {
    let site = site();
    // It can't say which port it got, so it gets an address that no other test uses.
    let address = "127.77.0.1:17171";
    let mut server = abide()
        .args(["dev", "--listen", address, "--data"])
        .arg(site.data())
        .stdout(Stdio::null())
        .stderr(broken())
        .spawn()
        .unwrap();
    let began = std::time::Instant::now();
    while std::net::TcpStream::connect(address).is_err() {
        assert!(server.try_wait().unwrap().is_none(), "the server ended");
        assert!(began.elapsed() < PATIENCE, "the server did not come up");
        std::thread::yield_now();
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&server), rustix::process::Signal::TERM)
        .unwrap();
    assert!(server.wait().unwrap().success());
}
