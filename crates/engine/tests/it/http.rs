//! Requests to real servers on loopback: what goes out, what comes back, and how each failure is told.

use abide_core::{HttpBody, HttpRequest, Piece, Reached, TaskFailure};
use abide_engine::{HttpExecutor, NetPolicy};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::peer::{Act, Peer, SHORT, answer, closed_port, silent_port};
use crate::support::within;

const TOKEN: &str = "hunter/22 \"x\"";

fn request(method: &str, url: &str) -> HttpRequest {
    HttpRequest {
        method: method.to_owned(),
        url: text(url),
        headers: Vec::new(),
        body: None,
        timeout_ms: 20_000,
        response_bytes_max: 64 * 1024,
        accept_statuses: Vec::new(),
        redirects_max: 5,
        idempotency_key: "call-1".to_owned(),
        sensitive: false,
    }
}

fn get(url: &str) -> HttpRequest {
    request("GET", url)
}

/// A request that is not worth waiting for.
fn hasty(url: &str) -> HttpRequest {
    HttpRequest { timeout_ms: i64::try_from(SHORT.as_millis()).unwrap(), ..get(url) }
}

fn with_header(mut request: HttpRequest, name: &str, value: Vec<Piece>) -> HttpRequest {
    request.headers.push((name.to_owned(), value));
    request
}

fn with_body(mut request: HttpRequest, content_type: &str, pieces: Vec<Piece>) -> HttpRequest {
    request.body = Some(HttpBody { content_type: content_type.to_owned(), pieces });
    request
}

fn text(text: &str) -> Vec<Piece> {
    vec![Piece::Text(text.to_owned())]
}

fn token() -> Vec<Piece> {
    vec![Piece::Secret("TOKEN".to_owned())]
}

async fn perform_under(policy: NetPolicy, request: &HttpRequest) -> Result<Value, TaskFailure> {
    let executor = HttpExecutor::new(policy).unwrap();
    let secrets = |name: &str| match name {
        "TOKEN" => Some(TOKEN.to_owned()),
        "HOST" => Some("Hunter2".to_owned()),
        "BROKEN" => Some("top\r\nX-Evil: 1".to_owned()),
        _ => None,
    };
    let output = within("an attempt to end", executor.perform(request, &secrets, None)).await?;
    Ok(output.parse().unwrap())
}

/// Performs a request where loopback may be reached.
async fn perform(request: &HttpRequest) -> Result<Value, TaskFailure> {
    perform_under(NetPolicy::parse(&["127.0.0.0/8"]).unwrap(), request).await
}

/// How a request failed: its code, whether it is retried, whether it may have reached anybody.
async fn failure(request: &HttpRequest) -> (String, bool, Reached) {
    told(perform(request).await)
}

fn told(ended: Result<Value, TaskFailure>) -> (String, bool, Reached) {
    let failed = ended.unwrap_err();
    (failed.failure.code, failed.retryable, failed.reached)
}

fn refused(code: &str) -> (String, bool, Reached) {
    (code.to_owned(), false, Reached::No)
}

/// The lines of a request's head that set `name`.
fn header_of(request: &str, name: &str) -> Vec<String> {
    let head = request.split("\r\n\r\n").next().unwrap();
    let lines = head.lines().skip(1).filter_map(|line| line.split_once(": "));
    lines.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned()).collect()
}

#[tokio::test]
async fn a_request_goes_out_as_the_node_wrote_it() {
    let peer = Peer::saying(answer(200, "", "")).await;
    let asked = with_header(request("POST", &peer.url("/a?b=c")), "X-One", text("1"));
    let asked = with_body(asked, "text/plain", text("hello"));
    perform(&asked).await.unwrap();

    let heard = peer.heard().remove(0);
    assert!(heard.starts_with("POST /a?b=c HTTP/1.1\r\n"), "{heard}");
    assert!(heard.ends_with("\r\n\r\nhello"), "{heard}");
    assert_eq!(header_of(&heard, "x-one"), ["1"]);
    assert_eq!(header_of(&heard, "content-type"), ["text/plain"]);
    assert_eq!(header_of(&heard, "idempotency-key"), ["call-1"], "the key is the run's to choose");
    assert_eq!(header_of(&heard, "user-agent"), [concat!("abide/", env!("CARGO_PKG_VERSION"))]);
    assert_eq!(header_of(&heard, "host"), [format!("127.0.0.1:{}", peer.port)]);
    assert_eq!(header_of(&heard, "accept-encoding"), [""; 0], "nothing here unpacks an answer");
}

#[tokio::test]
async fn the_idempotency_key_goes_with_every_change_and_no_reading() {
    let peer = Peer::saying("HTTP/1.1 204 X\r\n\r\n").await;
    for (method, keys) in
        [("GET", 0), ("HEAD", 0), ("OPTIONS", 0), ("POST", 1), ("PUT", 1), ("PATCH", 1), ("DELETE", 1)]
    {
        perform(&request(method, &peer.url("/"))).await.unwrap();
        let heard = peer.heard().pop().unwrap();
        assert!(heard.starts_with(method), "{heard}");
        assert_eq!(header_of(&heard, "idempotency-key").len(), keys, "{method}");
    }
}

#[tokio::test]
async fn an_answer_is_told_with_status_headers_and_body() {
    let headers =
        "Content-Type: application/json; charset=utf-8\r\nX-Two: a\r\nx-two: b\r\nSet-Cookie: s=1\r\n";
    let peer = Peer::saying(answer(201, headers, r#"{"a":[1,2.50]}"#)).await;
    let told = perform(&get(&peer.url("/"))).await.unwrap();
    assert_eq!(
        told,
        json!({
            "status": 201,
            "headers": { "content-type": "application/json; charset=utf-8", "x-two": "a, b", "content-length": "14" },
            "body": { "a": [1, 2.5] },
        })
    );
}

#[tokio::test]
async fn a_body_is_json_text_or_base64() {
    let cases: [(&str, &[u8], Value); 7] = [
        ("application/json", b"[1]", json!([1])),
        ("application/problem+json", b"{\"a\":1}", json!({ "a": 1 })),
        ("application/json", b"{oops", json!("{oops")),
        ("text/plain", b"[1]", json!("[1]")),
        ("text/plain", "gr\u{fc}n".as_bytes(), json!("grün")),
        ("application/json", b"", json!("")),
        ("image/png", &[0x89, 0x50, 0xff, 0x00], json!({ "base64": "iVD/AA==" })),
    ];
    for (content_type, body, expected) in cases {
        let mut whole = format!("HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\n\r\n").into_bytes();
        whole.extend_from_slice(body);
        let peer = Peer::saying(whole).await;
        let told = perform(&get(&peer.url("/"))).await.unwrap();
        assert_eq!(told["body"], expected, "{content_type}");
    }
}

#[tokio::test]
async fn statuses_fall_into_classes() {
    let status = |path: &str| path.split(['/', ' ']).nth(2).unwrap().parse::<u16>().unwrap();
    let peer = Peer::start(move |heard| Act::Say(answer(status(heard), "", "why"))).await;
    for status in [200, 202, 299, 300, 304, 302] {
        let told = perform(&get(&peer.url(&format!("/{status}")))).await.unwrap();
        assert_eq!(told["status"], status);
    }
    for status in [400, 401, 404, 409, 422, 501, 505, 599] {
        let ended = failure(&get(&peer.url(&format!("/{status}")))).await;
        assert_eq!(ended, ("http_status".to_owned(), false, Reached::Maybe), "{status}");
    }
    for status in [408, 425, 429, 500, 502, 503, 504] {
        let ended = failure(&get(&peer.url(&format!("/{status}")))).await;
        assert_eq!(ended, ("http_status".to_owned(), true, Reached::Maybe), "{status}");
    }
    let welcome = HttpRequest { accept_statuses: vec![404], ..get(&peer.url("/404")) };
    assert_eq!(perform(&welcome).await.unwrap()["body"], "why");
}

#[tokio::test]
async fn a_refusal_is_told_with_its_reason_and_when_to_come_back() {
    for (retry_after, expected) in
        [("7", json!(7000)), ("999999999999", json!(3_600_000)), ("soon", json!(null))]
    {
        let peer =
            Peer::saying(answer(429, &format!("retry-after: {retry_after}\r\n"), &"é".repeat(5000))).await;
        let details = perform(&get(&peer.url("/"))).await.unwrap_err().failure.details.unwrap();
        let details: Value = details.parse().unwrap();
        assert_eq!(details["status"], 429);
        assert_eq!(details["body"], "é".repeat(1024), "the first 2 KiB");
        assert_eq!(details["retryAfterMs"], expected, "{retry_after}");
    }
}

#[tokio::test]
async fn a_refusal_counts_even_if_its_body_never_comes() {
    let peer =
        Peer::start(|_| Act::SayAndHang(b"HTTP/1.1 400 X\r\ncontent-length: 9\r\n\r\nno".to_vec())).await;
    let failed = perform(&get(&peer.url("/"))).await.unwrap_err();
    assert_eq!((failed.failure.code.as_str(), failed.retryable), ("http_status", false));
    let details: Value = failed.failure.details.unwrap().parse().unwrap();
    assert_eq!(details["body"], "no");
}

#[tokio::test]
async fn a_large_answer_is_not_taken_in() {
    let too_large = ("http_response_too_large".to_owned(), false, Reached::Maybe);
    let endless = Peer::start(|_| Act::Endless).await;
    assert_eq!(failure(&get(&endless.url("/"))).await, too_large);

    let peer = Peer::saying(answer(200, "", "12345678")).await;
    let fits = HttpRequest { response_bytes_max: 8, ..get(&peer.url("/")) };
    assert_eq!(perform(&fits).await.unwrap()["body"], "12345678");
    assert_eq!(failure(&HttpRequest { response_bytes_max: 7, ..fits }).await, too_large);

    let wordy = Peer::saying(answer(200, &format!("x: {}\r\n", "y".repeat(70_000)), "")).await;
    assert_eq!(failure(&get(&wordy.url("/"))).await, too_large);
}

/// How a request fails that runs out of time once the server has heard it. It has more and more time until then: on a busy
/// machine it may all be gone before that.
async fn failure_once_heard(
    answering: impl Fn(&str) -> Act + Send + Sync + Clone + 'static,
) -> (String, bool, Reached) {
    for doublings in 0..10 {
        let peer = Peer::start(answering.clone()).await;
        let hasty = hasty(&peer.url("/"));
        let asked = HttpRequest { timeout_ms: hasty.timeout_ms << doublings, ..hasty };
        let failed = failure(&asked).await;
        if peer.heard().len() == 1 {
            return failed;
        }
    }
    panic!("the server heard nothing, or something twice");
}

#[tokio::test]
async fn a_server_that_does_not_answer_in_time_may_have_heard_the_request() {
    let late = ("http_timeout".to_owned(), true, Reached::Maybe);
    for said in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc"] {
        let hangs = |_: &str| Act::SayAndHang(said.as_bytes().to_vec());
        assert_eq!(failure_once_heard(hangs).await, late, "after {said:?}");
    }
}

#[tokio::test]
async fn a_server_that_never_finishes_connecting_has_heard_nothing() {
    // The connection is taken in, and the TLS handshake never answered.
    let url = format!("https://127.0.0.1:{}/", silent_port().await);
    assert_eq!(failure(&hasty(&url)).await, ("http_timeout".to_owned(), true, Reached::No));
}

#[tokio::test]
async fn a_server_that_is_not_there_has_heard_nothing() {
    let unreachable = ("http_unreachable".to_owned(), true, Reached::No);
    let closed = format!("http://127.0.0.1:{}/", closed_port().await);
    assert_eq!(failure(&get(&closed)).await, unreachable);
    // A label of 64 letters is one too long, so nobody needs to be asked.
    let nowhere = format!("http://{}.invalid/", "a".repeat(64));
    assert_eq!(failure(&get(&nowhere)).await, unreachable);
    let not_tls = Peer::saying("HTTP/1.1 400 Bad Request\r\n\r\n").await;
    let https = format!("https://127.0.0.1:{}/", not_tls.port);
    // What the server reads of the handshake is no request, so it hangs up or answers in plain text.
    assert_eq!(failure(&hasty(&https)).await.2, Reached::No);
    assert_eq!(not_tls.heard(), [""; 0]);
}

#[tokio::test]
async fn why_a_server_is_out_of_reach_is_told_in_short() {
    let message = async |url: &str| perform(&get(url)).await.unwrap_err().failure.message;
    let port = closed_port().await;
    let told = message(&format!("http://127.0.0.1:{port}/?k=v")).await;
    assert_eq!(
        told,
        format!("127.0.0.1:{port} refused the connection: check the port, and that the server runs")
    );
    let name = format!("{}.invalid", "a".repeat(64));
    let told = message(&format!("http://{name}/")).await;
    assert_eq!(told, format!("no address is known for host {name}: check its name"));
    let not_tls = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = not_tls.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = not_tls.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
    });
    let told = message(&format!("https://127.0.0.1:{port}/")).await;
    let begins = format!("the TLS handshake with 127.0.0.1:{port} failed: ");
    assert!(told.starts_with(&begins) && !told.contains("client error"), "{told}");
}

#[tokio::test]
async fn a_connection_that_breaks_may_have_carried_the_request() {
    let interrupted = ("http_interrupted".to_owned(), true, Reached::Maybe);
    for said in ["", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc", "nonsense\r\n\r\n"] {
        let peer = Peer::start(|_| Act::SayAndReset(said.as_bytes().to_vec())).await;
        assert_eq!(failure(&get(&peer.url("/"))).await, interrupted, "after {said:?}");
        assert_eq!(peer.heard().len(), 1, "nothing is sent twice");
    }
    let peer = Peer::saying("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc").await;
    assert_eq!(failure(&get(&peer.url("/"))).await, interrupted);
}

#[tokio::test]
async fn addresses_that_are_not_public_are_refused() {
    let peer = Peer::saying(answer(200, "", "")).await;
    let hosts = [
        "127.0.0.1",
        "localhost",
        "LOCALHOST",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "127.1",
        "127.0.0.1.",
        "%31%32%37.0.0.1",
        "\u{ff11}27.0.0.1",
        "0",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "169.254.169.254",
        "10.0.0.1",
        "[fd00:ec2::254]",
        "[fe80::1]",
    ];
    for host in hosts {
        let asked = get(&format!("http://{host}:{}/", peer.port));
        let ended = told(perform_under(NetPolicy::default(), &asked).await);
        assert_eq!(ended, refused("http_address_refused"), "{host}");
    }
    assert_eq!(peer.heard(), [""; 0]);
}

#[tokio::test]
async fn the_operator_opens_a_network_or_one_service() {
    let peer = Peer::saying(answer(200, "", "")).await;
    let by_name = get(&format!("http://localhost:{}/", peer.port));
    let service = format!("localhost:{}", peer.port);
    perform_under(NetPolicy::parse(&[&service]).unwrap(), &by_name).await.unwrap();
    perform_under(NetPolicy::parse(&["127.0.0.0/8"]).unwrap(), &by_name).await.unwrap();
    assert_eq!(peer.heard().len(), 2);

    let other_port = NetPolicy::parse(&["localhost:1"]).unwrap();
    assert_eq!(told(perform_under(other_port, &by_name).await), refused("http_address_refused"));
    let by_address = get(&peer.url("/"));
    let named_only = NetPolicy::parse(&[&service]).unwrap();
    assert_eq!(told(perform_under(named_only, &by_address).await), refused("http_address_refused"));
}

#[tokio::test]
async fn a_redirect_does_not_lead_where_the_request_may_not_go() {
    for target in [
        "http://169.254.169.254/latest",
        "http://[::1]/",
        "http://2886729729/",
        "http://0xa9fea9fe/",
        "//10.0.0.1/",
    ] {
        let peer = Peer::saying(answer(302, &format!("location: {target}\r\n"), "")).await;
        let ended = failure(&get(&peer.url("/"))).await;
        assert_eq!(ended, ("http_address_refused".to_owned(), false, Reached::Maybe), "{target}");
    }
    // 2130706433 is 127.0.0.1: only one service at that address is open.
    let inner = Peer::saying(answer(200, "", "inner")).await;
    let location = format!("location: http://2130706433:{}/\r\n", inner.port);
    let outer = Peer::saying(answer(302, &location, "")).await;
    let policy = NetPolicy::parse(&[format!("127.0.0.1:{}", outer.port)]).unwrap();
    let ended = told(perform_under(policy, &get(&outer.url("/"))).await);
    assert_eq!(ended, ("http_address_refused".to_owned(), false, Reached::Maybe));
    assert_eq!(inner.heard(), [""; 0]);
    // And a name is judged again as well.
    let location = format!("location: http://localhost:{}/\r\n", inner.port);
    let outer = Peer::saying(answer(302, &location, "")).await;
    let policy = NetPolicy::parse(&[format!("127.0.0.1:{}", outer.port)]).unwrap();
    assert_eq!(told(perform_under(policy, &get(&outer.url("/"))).await).0, "http_address_refused");
    assert_eq!(inner.heard(), [""; 0]);
}

#[tokio::test]
async fn another_server_is_not_told_what_was_meant_for_the_first() {
    let second = Peer::saying(answer(200, "", "here")).await;
    let location = format!("location: {}\r\n", second.url("/moved"));
    let first = Peer::saying(answer(307, &location, "")).await;
    let asked = with_header(request("POST", &first.url("/")), "Authorization", text("Basic abc"));
    let asked = with_header(with_header(asked, "Cookie", text("a=b")), "X-Token", token());
    let asked = with_body(with_header(asked, "X-Plain", text("yes")), "text/plain", text("hello"));
    assert_eq!(perform(&asked).await.unwrap()["body"], "here");

    let (before, after) = (first.heard().remove(0), second.heard().remove(0));
    assert_eq!(header_of(&before, "x-token"), [TOKEN]);
    assert!(after.starts_with("POST /moved ") && after.ends_with("\r\n\r\nhello"), "{after}");
    assert_eq!(header_of(&after, "x-plain"), ["yes"]);
    for name in ["authorization", "cookie", "x-token", "idempotency-key", "referer"] {
        assert_eq!(header_of(&after, name), [""; 0], "{name}");
    }
}

#[tokio::test]
async fn sensitive_values_stay_with_the_server_that_they_were_meant_for() {
    let second = Peer::saying(answer(200, "", "here")).await;
    let location = format!("location: {}\r\n", second.url("/moved"));
    let first = Peer::saying(answer(307, &location, "")).await;
    let asked = HttpRequest { sensitive: true, ..get(&first.url("/?name=x")) };
    assert_eq!(failure(&asked).await, ("http_redirect_refused".to_owned(), false, Reached::Maybe));
    assert_eq!(second.heard(), [""; 0]);
    let near = Peer::start(|heard| {
        let moved = heard.starts_with("GET /moved ");
        Act::Say(if moved { answer(200, "", "here") } else { answer(307, "location: /moved\r\n", "") })
    })
    .await;
    let asked = HttpRequest { sensitive: true, ..get(&near.url("/")) };
    assert_eq!(perform(&asked).await.unwrap()["body"], "here", "the same server may have them");
}

#[tokio::test]
async fn redirects_are_followed_as_far_as_the_node_says() {
    let peer = Peer::start(|heard| {
        let path = heard.split(' ').nth(1).unwrap();
        let left: usize = path.trim_start_matches('/').parse().unwrap();
        let location = format!("location: {}\r\n", left.saturating_sub(1));
        Act::Say(if left == 0 { answer(200, "", "end") } else { answer(301, &location, "") })
    })
    .await;
    assert_eq!(perform(&get(&peer.url("/5"))).await.unwrap()["body"], "end");
    let ended = failure(&get(&peer.url("/6"))).await;
    assert_eq!(ended, ("http_redirects_exceeded".to_owned(), false, Reached::Maybe));
    let not_followed = HttpRequest { accept_statuses: vec![301], redirects_max: 0, ..get(&peer.url("/1")) };
    assert_eq!(perform(&not_followed).await.unwrap()["headers"]["location"], "0");

    let posted = with_body(request("POST", &peer.url("/1")), "text/plain", text("hello"));
    perform(&posted).await.unwrap();
    let heard = peer.heard().pop().unwrap();
    assert!(heard.starts_with("GET /0 ") && !heard.contains("hello"), "{heard}");
}

#[tokio::test]
async fn redirects_share_one_deadline() {
    let peer = Peer::start(|_| Act::Say(answer(302, "location: /\r\n", ""))).await;
    let silent = format!("location: http://127.0.0.1:{}/\r\n", silent_port().await);
    let to_silence = move |_: &str| Act::Say(answer(302, &silent, ""));
    assert_eq!(failure_once_heard(to_silence).await, ("http_timeout".to_owned(), true, Reached::Maybe));
    let forever = HttpRequest { redirects_max: u8::MAX, ..get(&peer.url("/")) };
    assert_eq!(failure(&forever).await.0, "http_redirects_exceeded");
    assert_eq!(peer.heard().len(), 21, "the limit holds whatever the node says");
}

#[tokio::test]
async fn a_request_that_can_not_be_sent_is_refused_before_anything_happens() {
    let peer = Peer::saying(answer(200, "", "")).await;
    let url = peer.url("/");
    let invalid = [
        request("TRACE", &url),
        request("get", &url),
        request("CONNECT", &url),
        get(""),
        get("not a url"),
        get("ftp://127.0.0.1/"),
        get("file:///etc/passwd"),
        get("http://"),
        get(&format!("http://user@127.0.0.1:{}/", peer.port)),
        get(&format!("http://user:password@127.0.0.1:{}/", peer.port)),
        get(&format!("{url}?{}", "a".repeat(8192))),
        get(&format!("{url}?{}", "é".repeat(4000))),
        with_header(get(&url), "X-A", text("a\r\nX-Evil: 1")),
        with_header(get(&url), "X-A", text("a\nb")),
        with_header(get(&url), "X-A", text("a\0b")),
        with_header(get(&url), "X-A: 1\r\nX-Evil", text("a")),
        with_header(get(&url), "X A", text("a")),
        with_header(get(&url), "", text("a")),
        with_header(get(&url), "X-A", vec![Piece::Secret("BROKEN".to_owned())]),
        with_header(get(&url), "X-A", text(&"a".repeat(65_536))),
        with_body(request("POST", &url), "text/plain\r\nX-Evil: 1", text("")),
        HttpRequest { idempotency_key: "a\r\nb".to_owned(), ..request("POST", &url) },
    ];
    for asked in &invalid {
        assert_eq!(failure(asked).await, refused("http_request_invalid"), "{asked:?}");
    }
    for name in [
        "Host",
        "content-length",
        "Transfer-Encoding",
        "CONNECTION",
        "Upgrade",
        "TE",
        "Trailer",
        "Proxy-Anything",
        "Idempotency-Key",
    ] {
        let asked = with_header(get(&url), name, text("1"));
        assert_eq!(failure(&asked).await, refused("http_request_invalid"), "{name}");
    }
    let mut in_host = get("http://");
    in_host.url.extend([Piece::Secret("HOST".to_owned()), Piece::Text(".localhost/".to_owned())]);
    assert_eq!(failure(&in_host).await, refused("http_request_invalid"), "a secret in the host");
    let unknown = with_header(get(&url), "X-A", vec![Piece::Secret("UNKNOWN".to_owned())]);
    assert_eq!(failure(&unknown).await, refused("secret_missing"));
    assert_eq!(peer.heard(), [""; 0]);
}

#[tokio::test]
async fn an_answer_that_echoes_secrets_is_told_without_them() {
    let headers =
        format!("x-echo: {TOKEN}\r\nx-url: /?k=hunter%2F22%20%22x%22\r\ncontent-type: application/json\r\n");
    let body = r#"{"a":"hunter\/22 \"x\"","b":"hunter%2f22+%22x%22","c":"\u0068unter/22 \u0022x\u0022!"}"#;
    let peer = Peer::saying(answer(200, &headers, body)).await;
    let mut asked = with_header(request("POST", &peer.url("/?k=")), "X-Token", token());
    asked.url.extend(token());
    let in_json = vec![
        Piece::Text("{\"k\":\"".to_owned()),
        Piece::SecretInJson("TOKEN".to_owned()),
        Piece::Text("\"}".to_owned()),
    ];
    let asked = with_body(asked, "application/json", in_json);
    let told = perform(&asked).await.unwrap();
    assert_eq!(told["body"], json!({ "a": "[secret]", "b": "[secret]", "c": "[secret]!" }));
    assert_eq!(told["headers"]["x-echo"], "[secret]");
    assert_eq!(told["headers"]["x-url"], "/?k=[secret]");

    let heard = peer.heard().remove(0);
    assert!(heard.starts_with("POST /?k=hunter/22%20%22x%22 "), "{heard}");
    assert!(heard.ends_with(r#"{"k":"hunter/22 \"x\""}"#), "{heard}");
    assert_eq!(header_of(&heard, "x-token"), [TOKEN]);
}

#[tokio::test]
async fn a_large_secret_is_taken_out_of_a_large_answer() {
    let echo = Peer::start(|heard| {
        let body = heard.split("\r\n\r\n").nth(1).unwrap();
        Act::Say(answer(200, "", &format!("<{body}>{}<{}>", "aX".repeat(20_000), "a".repeat(40_000))))
    })
    .await;
    let secret = format!("{}b", "a".repeat(40_000));
    let asked = with_body(request("POST", &echo.url("/")), "text/plain", token());
    let asked = HttpRequest { response_bytes_max: 1024 * 1024, ..asked };
    let executor = HttpExecutor::new(NetPolicy::parse(&["127.0.0.0/8"]).unwrap()).unwrap();
    let told = within("an answer", executor.perform(&asked, &|_| Some(secret.clone()), None)).await.unwrap();
    let body = told.parse::<Value>().unwrap()["body"].as_str().unwrap().to_owned();
    assert_eq!(body, format!("<[secret]>{}<{}>", "aX".repeat(20_000), "a".repeat(40_000)));
}

#[tokio::test]
async fn failures_are_told_without_secrets() {
    let refusing = Peer::saying(answer(401, "", &format!("bad token {TOKEN}"))).await;
    let cut = format!("HTTP/1.1 401 X\r\ncontent-length: 99\r\n\r\nbad token {}", &TOKEN[..7]);
    let cutting = Peer::start(move |_| Act::SayAndReset(cut.clone().into_bytes())).await;
    let closed = format!("http://127.0.0.1:{}/", closed_port().await);
    let mut to_secret_host = get("http://");
    to_secret_host.url.push(Piece::Secret("TOKEN".to_owned()));
    let broken = with_header(get(&closed), "X-A", vec![Piece::Secret("BROKEN".to_owned())]);
    let mut to_host_in_secret = get("http://");
    to_host_in_secret.url.extend([Piece::Secret("HOST".to_owned()), Piece::Text(".localhost/".to_owned())]);
    let mut in_url = get(&format!("{closed}?k="));
    in_url.url.extend(token());
    let cases = [
        with_header(get(&refusing.url("/")), "X-Token", token()),
        with_header(get(&cutting.url("/")), "X-Token", token()),
        to_secret_host,
        to_host_in_secret,
        broken,
        in_url,
    ];
    for asked in &cases {
        let failed = perform(asked).await.unwrap_err();
        let told = format!("{failed:?}");
        assert!(!told.contains("hunter") && !told.contains("top"), "{told}");
    }
}

#[tokio::test]
async fn an_attempt_ends_when_it_is_dropped() {
    let peer = Peer::start(|_| Act::SayAndHang(Vec::new())).await;
    let executor = HttpExecutor::new(NetPolicy::parse(&["127.0.0.0/8"]).unwrap()).unwrap();
    let asked = get(&peer.url("/"));
    tokio::select! {
        _ = executor.perform(&asked, &|_| None, None) => panic!("nobody has answered"),
        () = peer.hears(1) => {}
    }
    within("the server to notice", peer.left.notified()).await;
    assert_eq!(peer.heard().len(), 1);
}

#[tokio::test]
async fn attempts_share_an_executor_and_nothing_else() {
    let peer = Peer::start(|heard| {
        let path = heard.split(' ').nth(1).unwrap();
        Act::Say(answer(200, "set-cookie: seen=1\r\n", path))
    })
    .await;
    let policy = NetPolicy::parse(&[format!("localhost:{}", peer.port)]).unwrap();
    let executor = std::sync::Arc::new(HttpExecutor::new(policy).unwrap());
    let attempts: Vec<_> = (0..20)
        .map(|n| {
            // Every other one asks for an address that is not open.
            let host = if n % 2 == 0 { "localhost" } else { "127.0.0.1" };
            let asked = get(&format!("http://{host}:{}/{n}", peer.port));
            let executor = executor.clone();
            tokio::spawn(async move { executor.perform(&asked, &|_| None, None).await })
        })
        .collect();
    for (n, attempt) in attempts.into_iter().enumerate() {
        match within("an attempt to end", attempt).await.unwrap() {
            Ok(output) => assert_eq!(output.parse::<Value>().unwrap()["body"], format!("/{n}")),
            Err(failed) => assert_eq!((n % 2, failed.failure.code.as_str()), (1, "http_address_refused")),
        }
    }
    assert_eq!(peer.heard().len(), 10);
    assert!(peer.heard().iter().all(|heard| header_of(heard, "cookie").is_empty()));
}
