//! Mail goes to each person for themselves: to members of groups, at the addresses that the directory has.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use super::*;
use crate::support::{python_home, repository};

/// A real mail server, which prints what it takes.
struct MailServer {
    child: Child,
    lines: mpsc::Receiver<String>,
    port: String,
}

impl MailServer {
    fn start() -> Self {
        let mut child = Command::new(python_home().join("bin/python"))
            .arg(repository().join("tests/python/smtp_receiver.py"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || said.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let port = lines.recv_timeout(PATIENCE).unwrap();
        Self { child, lines, port }
    }

    /// Mails that it took, by whom they are for.
    fn mails(&self, count: usize) -> std::collections::BTreeMap<String, Value> {
        let mail =
            |_| -> Value { serde_json::from_str(&self.lines.recv_timeout(PATIENCE).unwrap()).unwrap() };
        (0..count).map(mail).map(|mail| (mail["to"][0].as_str().unwrap().to_owned(), mail)).collect()
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_member_of_a_group_gets_mail_with_a_link_of_their_own_and_hears_of_the_answer() {
    let mails = MailServer::start();
    let settings = format!(
        "[channels.mail]\ntype = 'email'\nhost = '127.0.0.1'\nport = {}\ntls = 'none'\nfrom = 'abide@example.com'\n\
         link = 'signed'\n",
        mails.port
    );
    let site = site_with(&settings);
    site.workflow(&asking("grouped", json!({ "notify_to": "group:finance" })));
    let server = start(&site, &[]);
    for (name, body) in [
        ("ada", json!({ "groups": ["finance"], "addresses": { "email": "ada@example.com" } })),
        (
            "bob",
            json!({ "groups": ["finance"], "addresses": { "mail": "bob@example.com", "email": "not@example.com" } }),
        ),
        ("cy", json!({ "groups": ["finance"] })),
        ("dan", json!({ "groups": ["legal"], "addresses": { "email": "dan@example.com" } })),
    ] {
        let (status, set) =
            server.ask_as(&server.key, Method::PUT, &format!("/v1/people/{name}"), Some(&body)).await;
        assert_eq!(status, StatusCode::OK, "{set}");
    }
    let run = server.start_run("grouped", json!({})).await;
    let notices = until_states(&server, &["sent", "sent", "unreachable"]).await;
    let told: Vec<Value> = notices.iter().map(|one| json!([one["person"], one["recipient"]])).collect();
    assert_eq!(
        told,
        [json!(["ada", "ada@example.com"]), json!(["bob", "bob@example.com"]), json!(["cy", "cy"])]
    );
    let asked = mails.mails(2);
    let links: Vec<String> = asked
        .values()
        .map(|mail| {
            let text = mail["parts"]["text/plain"].as_str().unwrap();
            let link = text.split_whitespace().find(|word| word.contains("/answer/")).expect("a link");
            link.to_owned()
        })
        .collect();
    assert_ne!(links[0], links[1], "an answer is put down to whoever's link it came by");
    resolve(&server, &run).await;
    let told = mails.mails(2);
    assert_eq!(told.keys().collect::<Vec<_>>(), ["ada@example.com", "bob@example.com"]);
    until_states(&server, &["sent", "sent", "unreachable"]).await;
}
