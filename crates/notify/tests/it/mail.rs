//! Mail, over SMTP to a real mail server.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;

use abide_core::Json;
use abide_notify::{Message, Purpose, Recipient};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};

use crate::support::{LINK, PATIENCE, answered, ask, channels, python, repository};

/// A mail server of its own for each test.
struct Server {
    child: Child,
    lines: mpsc::Receiver<String>,
    port: u16,
}

impl Server {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(python())
            .arg(repository().join("tests/python/smtp_receiver.py"))
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the mail server starts");
        let lines = lines(child.stdout.take().unwrap());
        let port = lines.recv_timeout(PATIENCE).expect("it says its port").parse().unwrap();
        Self { child, lines, port }
    }

    /// The next mail that it took.
    fn next(&self) -> Value {
        serde_json::from_str(&self.lines.recv_timeout(PATIENCE).expect("mail arrives")).unwrap()
    }

    /// Settings of a channel that uses it.
    fn channel(&self, more: &str) -> String {
        let more =
            if more.contains("timeout") { more.to_owned() } else { format!("timeout = \"60s\"\n{more}") };
        format!(
            "[channels.mail]\ntype = \"email\"\nhost = \"127.0.0.1\"\nport = {}\nfrom = \"Abide <abide@example.com>\"\n{more}",
            self.port
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// What a program says, line by line.
fn lines(stdout: ChildStdout) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    receiver
}

/// A certificate for this machine, and the one that vouches for it, in files.
struct Certificates {
    dir: tempfile::TempDir,
}

impl Certificates {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let ours = CertificateParams::new(vec!["127.0.0.1".to_owned()])
            .unwrap()
            .signed_by(&key, &authority)
            .unwrap();
        std::fs::write(dir.path().join("authority.pem"), authority.pem()).unwrap();
        std::fs::write(dir.path().join("certificate.pem"), ours.pem()).unwrap();
        std::fs::write(dir.path().join("key.pem"), key.serialize_pem()).unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    /// A server that has them.
    fn server(&self, mode: &str, more: &[&str]) -> Server {
        let (certificate, key) = (self.path("certificate.pem"), self.path("key.pem"));
        Server::start(&[&["--mode", mode, "--certificate", &certificate, "--key", &key], more].concat())
    }
}

#[tokio::test]
async fn mail_says_the_same_as_text_and_as_html() {
    let server = Server::start(&[]);
    let channels = channels(&server.channel("tls = \"none\"\ncontent = \"full\""));
    let receipt = channels.send("mail", &ask()).await.unwrap();
    assert_eq!(receipt.answer, "250 2.0.0 taken as 4711");
    let mail = server.next();
    assert_eq!(mail["defects"], json!([]));
    assert_eq!((&mail["from"], &mail["to"]), (&json!("abide@example.com"), &json!(["alice@example.com"])));
    assert_eq!(mail["hello"], "example.com");
    assert_eq!(
        (&mail["type"], &mail["order"]),
        (&json!("multipart/alternative"), &json!(["text/plain", "text/html"]))
    );
    let header = |name: &str| mail["headers"][name].as_str().unwrap();
    assert_eq!(header("subject"), "Your answer is needed: Refund order 12?");
    assert_eq!(header("to"), "Alice Lidell <alice@example.com>");
    assert_eq!(header("date"), "Tue, 24 Mar 2026 10:00:00 +0000");
    assert_eq!(header("auto-submitted"), "auto-generated");
    for part in ["text/plain", "text/html"] {
        let text = mail["parts"][part].as_str().unwrap();
        for told in [
            "Refund order 12?",
            "came late.\nRefund it?",
            "Yes: pay it back",
            "number",
            LINK,
            "2026-03-24 13:00 UTC",
        ] {
            assert!(text.contains(told), "{part} without {told}: {text}");
        }
    }
    let html = mail["parts"]["text/html"].as_str().unwrap();
    assert!(html.contains(&format!("<a href=\"{LINK}\">Answer</a>")), "{html}");
}

#[tokio::test]
async fn reminders_and_the_answer_come_in_one_thread() {
    let server = Server::start(&[]);
    let channels = channels(&server.channel("tls = \"none\""));
    let reminder = Message {
        purpose: Purpose::Ask { attempt: 3, max_attempts: 3 },
        idempotency_key: "int-02/3/mail/alice".to_owned(),
        ..ask()
    };
    let mut mails = Vec::new();
    for message in [ask(), reminder, answered()] {
        channels.send("mail", &message).await.unwrap();
        mails.push(server.next());
    }
    let subjects: Vec<&Value> = mails.iter().map(|mail| &mail["headers"]["subject"]).collect();
    assert_eq!(
        subjects,
        [
            "Your answer is needed: Refund order 12?",
            "Final reminder (3 of 3): Refund order 12?",
            "Answered: Refund order 12?"
        ]
    );
    let thread = &mails[0]["headers"]["references"];
    assert!(thread.is_string());
    for mail in &mails[1..] {
        assert_eq!((&mail["headers"]["references"], &mail["headers"]["in-reply-to"]), (thread, thread));
        assert_ne!(mail["headers"]["message-id"], mails[0]["headers"]["message-id"]);
    }
    channels.send("mail", &ask()).await.unwrap();
    assert_eq!(
        server.next()["headers"]["message-id"],
        mails[0]["headers"]["message-id"],
        "sent twice, it is the same"
    );
}

#[tokio::test]
async fn nothing_in_a_message_becomes_a_header_or_html() {
    let evil = "Pay?\r\nBcc: evil@example.org\r\n\r\n<script>alert(1)</script>\" onload=\"x\u{0}\u{202e}";
    let recipient = Recipient {
        name: "alice".to_owned(),
        address: Some("alice@example.com".to_owned()),
        display_name: Some(evil.to_owned()),
    };
    let message = Message {
        title: evil.to_owned(),
        question: Some(evil.to_owned()),
        context: Some(Json::of(&json!({evil: [evil]}))),
        purpose: Purpose::FollowUp {
            outcome: abide_notify::Outcome::Resolved,
            by: Some(evil.to_owned()),
            at: 0,
        },
        idempotency_key: evil.to_owned(),
        link: Some(format!("{LINK}\"><script>")),
        recipient,
        ..ask()
    };
    let server = Server::start(&[]);
    channels(&server.channel("tls = \"none\"\ncontent = \"full\"")).send("mail", &message).await.unwrap();
    let mail = server.next();
    assert_eq!(mail["to"], json!(["alice@example.com"]));
    let names = [
        "From",
        "To",
        "Subject",
        "Date",
        "Message-ID",
        "References",
        "Auto-Submitted",
        "In-Reply-To",
        "MIME-Version",
        "Content-Type",
    ];
    let mut found: Vec<&str> =
        mail["names"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    found.sort_unstable();
    let mut expected = names.to_vec();
    expected.sort_unstable();
    assert_eq!(found, expected);
    assert_eq!(mail["order"], json!(["text/plain", "text/html"]));
    let html = mail["parts"]["text/html"].as_str().unwrap();
    assert!(!html.contains("<script") && !html.contains("\" onload"), "{html}");
    assert!(html.contains("&lt;script&gt;alert(1)"));
}

#[tokio::test]
async fn a_title_of_any_length_and_script_arrives() {
    let server = Server::start(&[]);
    let channels = channels(&server.channel("tls = \"none\""));
    let title = "Überweisung für 株式会社 freigeben? ".repeat(40);
    channels.send("mail", &Message { title: title.clone(), ..ask() }).await.unwrap();
    let mail = server.next();
    let subject = mail["headers"]["subject"].as_str().unwrap();
    let told = subject.strip_prefix("Your answer is needed: ").unwrap().strip_suffix('…').unwrap();
    assert!(title.starts_with(told) && told.chars().count() == 199, "{subject}");
    assert_eq!(mail["defects"], json!([]));
}

#[tokio::test]
async fn mail_goes_over_starttls_with_a_password() {
    let certificates = Certificates::new();
    let server = certificates.server("starttls", &["--user", "abide", "--password", "open sesame"]);
    let settings = |password: &str, ca: &str| {
        server.channel(&format!(
            "username = \"abide\"\npassword = \"{password}\"\nca-file = \"{}\"",
            certificates.path(ca)
        ))
    };
    channels(&settings("open sesame", "authority.pem")).send("mail", &ask()).await.unwrap();
    let mail = server.next();
    assert_eq!((&mail["encrypted"], &mail["user"]), (&json!(true), &json!("abide")));

    let failure =
        channels(&settings("wrong sesame", "authority.pem")).send("mail", &ask()).await.unwrap_err();
    assert!(!failure.again && failure.reason.contains("535"), "{}", failure.reason);
    assert!(!failure.reason.contains("sesame"), "{}", failure.reason);

    let stranger = Certificates::new();
    let settings = server.channel(&format!("ca-file = \"{}\"", stranger.path("authority.pem")));
    let failure = channels(&settings).send("mail", &ask()).await.unwrap_err();
    assert!(failure.again && failure.reason.contains("invalid peer certificate"), "{}", failure.reason);
}

#[tokio::test]
async fn mail_goes_over_tls_from_the_beginning() {
    let certificates = Certificates::new();
    let server = certificates.server("tls", &[]);
    let ca = certificates.path("authority.pem");
    channels(&server.channel(&format!("tls = \"tls\"\nca-file = \"{ca}\"")))
        .send("mail", &ask())
        .await
        .unwrap();
    assert_eq!(server.next()["encrypted"], json!(true));
}

#[tokio::test]
async fn a_server_without_encryption_gets_nothing_unless_it_was_allowed() {
    let server = Server::start(&[]);
    let failure = channels(&server.channel("")).send("mail", &ask()).await.unwrap_err();
    assert!(!failure.again && failure.reason.contains("check tls"), "{}", failure.reason);
    assert!(server.lines.try_recv().is_err());
}

#[tokio::test]
async fn a_mail_server_that_fails_is_tried_again_and_one_that_refuses_is_not() {
    let server = Server::start(&[]);
    let patient = channels(&server.channel("tls = \"none\"\ntimeout = \"60s\""));
    let hasty = channels(&server.channel("tls = \"none\"\ntimeout = \"1s\""));
    let to = |address: Option<&str>| Message {
        recipient: Recipient { address: address.map(str::to_owned), ..ask().recipient },
        ..ask()
    };
    for (address, again, told) in [
        (Some("later@example.com"), true, "450"),
        (Some("nobody@example.com"), false, "550"),
        (Some("silence@example.com"), true, "did not answer in time"),
        (None, false, "'Alice Lidell' has no e-mail address"),
    ] {
        let channels = if address == Some("silence@example.com") { &hasty } else { &patient };
        let failure = channels.send("mail", &to(address)).await.unwrap_err();
        assert_eq!(failure.again, again, "{address:?}: {}", failure.reason);
        assert!(failure.reason.contains(told), "{address:?}: {}", failure.reason);
    }
    drop(server);
    let failure = patient.send("mail", &ask()).await.unwrap_err();
    assert!(failure.again && failure.reason.contains("can't be reached"), "{}", failure.reason);
}
