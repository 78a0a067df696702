//! `--tls-cert` and `--tls-key`: connections are encrypted, clients check whom they talk to, and bad files stop the start.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use super::*;
use crate::support::abide;

/// An authority of one's own, for whoever makes certificates with it.
type Authority = CertifiedIssuer<'static, KeyPair>;

/// Makes an authority and writes its certificate to the site, as `authority.pem`.
fn authority(site: &Site) -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    std::fs::write(site.path("authority.pem"), authority.pem()).unwrap();
    authority
}

/// Writes a certificate for this machine and its key to the site. The answer is the certificate as it is sent.
fn certificate(site: &Site, authority: &Authority) -> Vec<u8> {
    let key = KeyPair::generate().unwrap();
    let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
    let ours = CertificateParams::new(names).unwrap().signed_by(&key, authority).unwrap();
    std::fs::write(site.path("cert.pem"), ours.pem()).unwrap();
    std::fs::write(site.path("key.pem"), key.serialize_pem()).unwrap();
    ours.der().to_vec()
}

fn flags(site: &Site) -> [String; 4] {
    let path = |name| site.path(name).to_str().unwrap().to_owned();
    ["--tls-cert".to_owned(), path("cert.pem"), "--tls-key".to_owned(), path("key.pem")]
}

fn serve(site: &Site) -> Server {
    let (key, flags) = (site.new_key("default"), flags(site));
    site.serve(&key, &flags.each_ref().map(String::as_str))
}

/// A client that trusts this authority, and nobody else who could have signed for this machine.
fn client(authority: &Authority) -> reqwest::Client {
    let root = reqwest::Certificate::from_pem(authority.pem().as_bytes()).unwrap();
    reqwest::Client::builder()
        .tls_certs_only([root])
        .pool_max_idle_per_host(0)
        .tls_info(true)
        .build()
        .unwrap()
}

#[tokio::test]
async fn whoever_trusts_the_authority_gets_through_and_nobody_else() {
    let site = site();
    let authority = authority(&site);
    certificate(&site, &authority);
    let server = serve(&site);
    assert!(server.url.starts_with("https://127.0.0.1:"), "{}", server.url);
    let url = format!("{}/v1/runs", server.url);
    let answer = client(&authority).get(&url).bearer_auth(&server.key).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert!(reqwest::get(&url).await.unwrap_err().is_connect(), "no authority that is known");
    let plain = reqwest::get(url.replace("https", "http")).await;
    assert!(plain.is_err(), "nothing is answered in the clear: {plain:?}");
    let ca = site.path("authority.pem");
    let listed = server.cli(&["run", "list", "--ca", ca.to_str().unwrap()]);
    assert!(listed.status.success(), "{listed:?}");
    let ready = server.cli(&["ready", "--ca", ca.to_str().unwrap()]);
    assert_eq!(String::from_utf8_lossy(&ready.stdout), format!("{} is ready\n", server.url), "{ready:?}");
    let keys = server.cli(&["keys", "list", "--url", &server.url, "--ca", ca.to_str().unwrap()]);
    assert!(keys.status.success(), "{keys:?}");
    let refused = server.cli(&["run", "list"]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    let wrong = server.cli(&["run", "list", "--ca", site.path("key.pem").to_str().unwrap()]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("holds no certificate"), "{wrong:?}");
    assert!(server.stop().success());
}

#[tokio::test]
async fn a_stream_goes_through_and_ends_with_its_run() {
    let site = site();
    let authority = authority(&site);
    certificate(&site, &authority);
    let server = serve(&site);
    let http = client(&authority);
    let body = json!({ "workflowId": "noop" });
    let started = http.post(format!("{}/v1/runs", server.url)).bearer_auth(&server.key).json(&body);
    let run: Value = started.send().await.unwrap().json().await.unwrap();
    let url = format!("{}/v1/runs/{}/events", server.url, run["runId"].as_str().unwrap());
    let stream = http.get(url).bearer_auth(&server.key).header("accept", "text/event-stream");
    let text = stream.send().await.unwrap().text().await.unwrap();
    assert!(text.contains("run.completed"), "{text}");
}

#[tokio::test]
async fn a_new_certificate_is_taken_up_without_a_restart_and_a_bad_one_is_not() {
    let site = site();
    let authority = authority(&site);
    let first = certificate(&site, &authority);
    let server = serve(&site);
    let http = client(&authority);
    let seen = async || {
        let answer = http.get(format!("{}/healthz", server.url)).send().await.unwrap();
        let info = answer.extensions().get::<reqwest::tls::TlsInfo>().unwrap();
        info.peer_certificate().unwrap().to_vec()
    };
    assert_eq!(seen().await, first);
    let second = certificate(&site, &authority);
    server.signal(rustix::process::Signal::HUP);
    site.await_said("read the certificate again");
    assert_eq!(seen().await, second);
    std::fs::write(site.path("key.pem"), KeyPair::generate().unwrap().serialize_pem()).unwrap();
    server.signal(rustix::process::Signal::HUP);
    site.await_said("stays in use");
    assert_eq!(seen().await, second);
    assert!(server.stop().success());
}

#[tokio::test]
async fn files_that_are_no_pair_stop_the_start_with_what_to_do() {
    let site = site();
    let authority = authority(&site);
    certificate(&site, &authority);
    let other = KeyPair::generate().unwrap().serialize_pem();
    std::fs::write(site.path("other.pem"), &other).unwrap();
    std::fs::write(site.path("empty.pem"), "").unwrap();
    for (cert, key, word) in [
        ("cert.pem", "other.pem", "does not belong to the first certificate in"),
        ("cert.pem", "cert.pem", "holds no private key; give a file in PEM form"),
        ("key.pem", "key.pem", "holds no certificate; give a file in PEM form"),
        ("empty.pem", "key.pem", "holds no certificate"),
        ("nowhere.pem", "key.pem", "can't be read"),
    ] {
        let mut command = abide();
        command.args(["serve", "--log", "error", "--listen", "127.0.0.1:0", "--data"]).arg(site.data());
        command.arg("--tls-cert").arg(site.path(cert)).arg("--tls-key").arg(site.path(key));
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(word) && !said.contains(other.lines().nth(1).unwrap()), "{said}");
    }
    for (flag, word) in [("--tls-cert", "give --tls-key too"), ("--tls-key", "give --tls-cert too")] {
        let mut command = abide();
        command
            .args(["serve", "--log", "error", "--data"])
            .arg(site.data())
            .arg(flag)
            .arg(site.path("cert.pem"));
        let said = String::from_utf8(command.output().unwrap().stderr).unwrap();
        assert!(said.contains(word), "{said}");
    }
}
