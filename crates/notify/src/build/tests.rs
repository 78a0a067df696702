//! Settings that are right, and what is said of those that are not.

use super::*;
use crate::channels::Resolved;

/// Something that must never be repeated.
const MARKER: &str = "marker-that-is-secret";

fn read(text: &str) -> Result<Channels, String> {
    let config: ChannelsConfig = toml::from_str(text).map_err(|error| error.message().to_owned())?;
    Channels::from_config(config).map_err(|error| error.to_string())
}

fn channels(text: &str) -> Channels {
    read(text).unwrap()
}

const ALL: &str = r#"
    [notify]
    default = "slack"
    allow = ["*@example.com"]
    redact = ["\\b\\d{16}\\b"]
    per-recipient = "5/m"
    [channels.slack]
    type = "slack"
    url = "https://hooks.example.com/services/T/B/marker-that-is-secret"
    [channels.desk]
    type = "webhook"
    url = "http://127.0.0.1:9/desk"
    secret = "marker-that-is-secret"
    internal = true
    [channels.mail]
    type = "email"
    host = "smtp.example.com"
    username = "abide"
    password = "marker-that-is-secret"
    from = "Abide <abide@example.com>"
    to = ["oncall@elsewhere.org", "group:oncall"]
    link = "signed"
    content = "full"
    timeout = "30s"
    [channels.pager]
    type = "pagerduty"
    routing-key = "marker-that-is-secret"
    severity = "critical"
"#;

#[test]
fn channels_are_what_their_settings_say() {
    let channels = channels(ALL);
    assert_eq!(channels.names().collect::<Vec<_>>(), ["desk", "mail", "pager", "slack"]);
    assert_eq!(channels.default_channel(), Some("slack"));
    let is = |name: &str| {
        (
            channels.is_internal(name),
            channels.signs_links(name),
            channels.tells_all(name),
            channels.is_shared(name),
        )
    };
    assert_eq!(is("slack"), (false, false, false, true), "what is external gets little");
    assert_eq!(is("desk"), (true, true, true, true));
    assert_eq!(is("mail"), (false, true, true, false), "unless it is told otherwise");
    assert_eq!(channels.kind("pager"), Some(ChannelKind::PagerDuty));
    assert_eq!(channels.default_recipients("mail"), ["oncall@elsewhere.org", "group:oncall"]);
    assert_eq!(channels.per_recipient().to_string(), "5/m");
    assert!(channels.kind("none").is_none() && channels.default_recipients("none").is_empty());
}

#[test]
fn an_unknown_hint_falls_to_the_default_and_says_so() {
    let channels = channels(ALL);
    let resolved = |hint: Option<&str>| channels.resolve(hint).unwrap();
    assert_eq!(resolved(Some("mail")), Resolved { name: "mail".to_owned(), fell_back: None });
    assert_eq!(resolved(None), Resolved { name: "slack".to_owned(), fell_back: None });
    assert_eq!(resolved(Some("")), resolved(None));
    let fell_back = Some("carrier-pigeon".to_owned());
    assert_eq!(resolved(Some("carrier-pigeon")), Resolved { name: "slack".to_owned(), fell_back });
    assert_eq!(Channels::default().resolve(Some("mail")), None);
}

#[test]
fn only_addresses_of_the_allow_list_are_allowed() {
    let channels = channels(ALL);
    for address in ["supervisor@example.com", "Supervisor@EXAMPLE.com", "oncall@elsewhere.org"] {
        assert!(channels.allowed(address), "{address}");
    }
    for address in [
        "supervisor@evil.org",
        "supervisor@example.com.evil.org",
        "x@evil.org,supervisor@example.com",
        "x@evil.org\r\nBcc: supervisor@example.com",
        "x@evil.org@example.com",
        "",
    ] {
        assert!(!channels.allowed(address), "{address:?}");
    }
    assert!(!Channels::default().allowed("supervisor@example.com"), "nobody without a list");
}

#[test]
fn what_is_configured_shows_no_secret() {
    let config: ChannelsConfig = toml::from_str(ALL).unwrap();
    let shown = format!("{config:?} {:?}", channels(ALL));
    assert!(shown.contains("smtp.example.com") && !shown.contains(MARKER), "{shown}");
}

/// A channel with these lines, and what is said of it.
fn refused(lines: &str) -> String {
    let text = format!("[channels.one]\n{}", lines.replace("; ", "\n"));
    let refused = read(&text).map(|_| lines.to_owned()).expect_err("it is refused");
    assert!(!refused.contains(MARKER) && !refused.contains("hooks.example.com"), "{refused}");
    refused
}

#[test]
fn what_is_wrong_with_a_channel_names_the_key() {
    let email = r#"type = "email"; host = "smtp.example.com"; from = "a@example.com"; "#;
    for (lines, told) in [
        (r#"internal = true"#, "[channels.one] type: it is missing; write webhook"),
        (r#"type = "sms""#, "[channels.one] type: 'sms' is no type of channel"),
        (r#"type = "slack""#, "[channels.one] url: it is missing"),
        (r#"type = "slack"; url = "marker-that-is-secret""#, "[channels.one] url: it is not an address"),
        (r#"type = "slack"; url = "ftp://hooks.example.com/x""#, "[channels.one] url: it is not an address"),
        (r#"type = "slack"; url = "http://hooks.example.com/x""#, "[channels.one] url: it is not encrypted"),
        (
            r#"type = "slack"; url = "https://u:marker-that-is-secret@hooks.example.com""#,
            "url: it holds a user name",
        ),
        (
            r#"type = "slack"; url = "https://hooks.example.com"; url-env = "HOME""#,
            "url: it is given more than once",
        ),
        (
            r#"type = "slack"; url-env = "ABIDE_NO_SUCH_THING""#,
            "url-env: the environment variable ABIDE_NO_SUCH_THING",
        ),
        (r#"type = "slack"; url-file = "/no/such/file""#, "url-file: /no/such/file can't be read"),
        (
            r#"type = "slack"; secret = "marker-that-is-secret""#,
            "secret: a channel of type slack has no such setting",
        ),
        (r#"type = "webhook"; url = "https://hooks.example.com""#, "secret: it is missing"),
        (
            r#"type = "webhook"; url = "https://hooks.example.com"; secret = "short""#,
            "secret: it is too short",
        ),
        (r#"type = "webhook"; url = "https://hooks.example.com"; secret = """#, "secret: it is empty"),
        (r#"type = "pagerduty""#, "routing-key: it is missing"),
        (r#"type = "pagerduty"; routing-key = "x"; severity = "bad""#, "severity: 'bad' is not known"),
        (r#"type = "slack"; link = "open""#, "link: 'open' is not known; write sign-in or signed"),
        (r#"type = "slack"; content = "all""#, "content: 'all' is not known; write title or full"),
        (
            r#"type = "slack"; url = "https://hooks.example.com"; timeout = "1h""#,
            "timeout: '1h' is not a time",
        ),
        (r#"type = "slack"; to = [""]"#, "to: '' is nobody"),
        (r#"type = "slack"; password = 12345"#, "a secret has to be a text"),
        (r#"type = "slack"; colour = "red""#, "unknown field `colour`"),
        (r#"type = "email"; from = "a@example.com""#, "host: it is missing"),
        (r#"type = "email"; host = "smtp.example.com"; from = "nobody""#, "from: it is no sender"),
        (&format!(r#"{email}tls = "none""#), "tls: mail would not be encrypted"),
        (
            &format!(r#"{email}tls = "none"; internal = true; username = "u"; password = "p""#),
            "tls: the password would",
        ),
        (&format!(r#"{email}tls = "ssl""#), "tls: 'ssl' is not known"),
        (&format!(r#"{email}username = "u""#), "password: it is missing"),
        (&format!(r#"{email}password = "marker-that-is-secret""#), "username: it is missing"),
        (&format!(r#"{email}to = ["a@b@c"]"#), "to: 'a@b@c' is nobody"),
        (&format!(r#"{email}ca-file = "Cargo.toml""#), "ca-file: it holds no certificates"),
    ] {
        let refused = refused(lines);
        assert!(refused.contains(told), "{lines}\n{refused}");
        assert!(!refused.contains('\n'), "one sentence: {refused}");
    }
}

#[test]
fn what_is_wrong_with_all_channels_names_the_key() {
    let one = r#"[channels.one]
        type = "pagerduty"
        routing-key = "x"
    "#;
    let two = format!("{one}[channels.two]\ntype = \"pagerduty\"\nrouting-key = \"x\"");
    for (text, told) in [
        (two.clone(), "[notify] default: there are several channels"),
        (format!("[notify]\ndefault = \"none\"\n{one}"), "[notify] default: there is no channel 'none'"),
        ("[notify]\nallow = [\"*\"]".to_owned(), "[notify] allow: '*': it allows every address"),
        ("[notify]\nredact = [\"(\"]".to_owned(), "[notify] redact: '(' is not a pattern"),
        ("[notify]\nredact = [\"x*\"]".to_owned(), "[notify] redact: 'x*' is found in every text"),
        ("[notify]\nredact = [\"(\\\\w{999}){999}\"]".to_owned(), "[notify] redact: "),
        (
            "[notify]\nper-recipient = \"many\"".to_owned(),
            "[notify] per-recipient: 'many' is not such as 20/h",
        ),
        (one.replace("one", "\"One two\""), "the name of a channel has"),
    ] {
        let refused = read(&text).expect_err("it is refused");
        assert!(refused.contains(told), "{text}\n{refused}");
    }
    assert_eq!(channels(one).default_channel(), Some("one"), "there is no other");
}

#[test]
fn a_secret_may_stand_in_a_file_or_in_the_environment() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("secret");
    std::fs::write(&path, format!("{MARKER}\n")).unwrap();
    // Cargo sets this one for every test.
    let text = format!(
        "[channels.one]\ntype = \"webhook\"\nurl = \"https://x.org\"\nsecret-file = {path:?}\n\
         [channels.two]\ntype = \"webhook\"\nurl = \"https://x.org\"\nsecret-env = \"CARGO_MANIFEST_DIR\"\n\
         [notify]\ndefault = \"one\""
    );
    let channels = channels(&text);
    let secret = |name: &str| match &channels.channels[name].way {
        Way::Webhook { secret, .. } => secret.reveal().to_owned(),
        _ => unreachable!("it is a webhook"),
    };
    assert_eq!(secret("one"), MARKER, "without the end of its line");
    assert_eq!(secret("two"), env!("CARGO_MANIFEST_DIR"));
    std::fs::write(&path, "x".repeat(100_000)).unwrap();
    assert!(read(&text).unwrap_err().contains("secret-file: "), "another file than was meant");
}
