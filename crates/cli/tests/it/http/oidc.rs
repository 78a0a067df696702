//! Tokens of an identity provider: a real key set on loopback, keys made by the test, and every way to be no token.

use std::io::{Read, Write};
use std::sync::{Arc, LazyLock, Mutex};

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use reqwest::header::WWW_AUTHENTICATE;

use super::keys::follow;
use super::outgoing::Peer;
use super::*;

const ISSUER: &str = "https://id.example/";

/// A key of the provider.
#[derive(Clone)]
struct SigningKey {
    kid: String,
    algorithm: Algorithm,
    key: EncodingKey,
}

impl SigningKey {
    fn ed(kid: &str) -> Self {
        let pkcs8 = Ed25519KeyPair::generate().unwrap().to_pkcs8v1().unwrap();
        Self {
            kid: kid.to_owned(),
            algorithm: Algorithm::EdDSA,
            key: EncodingKey::from_ed_der(pkcs8.as_ref()),
        }
    }

    fn ec(kid: &str) -> Self {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        let pkcs8 = pair.to_pkcs8v1().unwrap();
        Self {
            kid: kid.to_owned(),
            algorithm: Algorithm::ES256,
            key: EncodingKey::from_ec_der(pkcs8.as_ref()),
        }
    }

    fn rsa(kid: &str) -> Self {
        // One is enough for all tests: making it takes a while.
        static DER: LazyLock<Vec<u8>> = LazyLock::new(|| {
            let pair = aws_lc_rs::rsa::KeyPair::generate(KeySize::Rsa2048).unwrap();
            let pkcs8: aws_lc_rs::encoding::Pkcs8V1Der<'_> = pair.as_der().unwrap();
            pkcs1_of(pkcs8.as_ref())
        });
        Self { kid: kid.to_owned(), algorithm: Algorithm::RS256, key: EncodingKey::from_rsa_der(&DER) }
    }

    fn jwk(&self) -> Value {
        let mut jwk =
            serde_json::to_value(Jwk::from_encoding_key(&self.key, self.algorithm).unwrap()).unwrap();
        jwk["kid"] = json!(self.kid);
        jwk["use"] = json!("sig");
        jwk
    }

    fn sign(&self, claims: &Value) -> String {
        let header = Header { kid: Some(self.kid.clone()), ..Header::new(self.algorithm) };
        encode(&header, claims, &self.key).unwrap()
    }
}

/// The inner key of a PKCS #8 document: its last element, an octet string that runs to the end.
fn pkcs1_of(pkcs8: &[u8]) -> Vec<u8> {
    let at =
        pkcs8.windows(6).position(|bytes| bytes[0] == 0x04 && bytes[1] == 0x82 && bytes[4] == 0x30).unwrap();
    pkcs8[at + 4..].to_vec()
}

/// A provider that publishes keys, can replace them, and can be away.
struct Provider {
    peer: Peer,
    published: Arc<Mutex<Option<Value>>>,
}

impl Provider {
    async fn publishing(keys: &[&SigningKey]) -> Self {
        let published = Arc::new(Mutex::new(Some(key_set(keys))));
        let shown = published.clone();
        let peer = Peer::start(move |_, _| {
            let shown = shown.lock().unwrap();
            shown.as_ref().map_or_else(|| (500, "away".to_owned()), |keys| (200, keys.to_string()))
        });
        Self { peer: peer.await, published }
    }

    fn publish(&self, keys: &[&SigningKey]) {
        *self.published.lock().unwrap() = Some(key_set(keys));
    }

    fn leave(&self) {
        *self.published.lock().unwrap() = None;
    }

    fn asked(&self) -> usize {
        self.peer.heard().len()
    }

    /// A server on a test clock that trusts this provider.
    fn server(&self, site: &Site, extra: &[&str]) -> Server {
        trusting(site, &self.peer.url, extra)
    }
}

/// A server on a test clock that trusts the provider at a URL.
fn trusting(site: &Site, url: &str, extra: &[&str]) -> Server {
    let jwks = format!("{url}/jwks");
    let flags = ["--oidc-issuer", ISSUER, "--oidc-audience", "abide", "--oidc-jwks", &jwks];
    let near = ["--test-clock", "--allow-net", "127.0.0.1/32"];
    site.start(&[&near[..], &flags, extra].concat())
}

/// A provider that answers the first so many requests, and never another.
fn sluggish(keys: Value, answers: usize) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            if number < answers {
                let _ = stream.read(&mut [0; 4096]).unwrap();
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
                let body = keys.to_string();
                write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
            } else {
                open.push(stream);
            }
        }
    });
    url
}

fn key_set(keys: &[&SigningKey]) -> Value {
    json!({ "keys": keys.iter().map(|key| key.jwk()).collect::<Vec<_>>() })
}

/// The time on the server's clock, in seconds.
async fn now(server: &Server) -> i64 {
    let (_, clock) = server.get("/v1/dev/clock").await;
    clock["nowMs"].as_i64().unwrap() / 1000
}

/// What a good token says.
async fn claims(server: &Server) -> Value {
    let now = now(server).await;
    json!({
        "iss": ISSUER, "aud": "abide", "sub": "auth0|ada", "iat": now, "nbf": now, "exp": now + 600,
        "scope": "openid runs:read runs:create profile",
    })
}

fn with(claims: &Value, name: &str, value: Value) -> Value {
    let mut claims = claims.clone();
    claims[name] = value;
    claims
}

async fn ask(server: &Server, token: &str) -> (StatusCode, Value) {
    server.ask_as(token, Method::GET, "/v1/runs", None).await
}

#[tokio::test]
async fn a_token_opens_what_its_scopes_say_and_its_holder_is_on_record() {
    let site = site();
    for signer in [SigningKey::ed("1"), SigningKey::ec("1"), SigningKey::rsa("1")] {
        let provider = Provider::publishing(&[&signer]).await;
        let site_of_its_own = self::site();
        let server = provider.server(&site_of_its_own, &[]);
        let token = signer.sign(&claims(&server).await);
        assert_eq!(ask(&server, &token).await.0, StatusCode::OK, "{:?}", signer.algorithm);
        let body = json!({ "workflowId": "noop" });
        let (status, started) = server.ask_as(&token, Method::POST, "/v1/runs", Some(&body)).await;
        assert_eq!(status, StatusCode::CREATED, "{started}");
        let run = started["runId"].as_str().unwrap();
        assert_eq!(server.events(run).await[0]["payload"]["by"], "auth0|ada");
        let details = refusal(server.ask_as(&token, Method::GET, "/v1/keys", None).await, "forbidden");
        assert_eq!(details["scopeRequired"], "keys:manage");
        assert_eq!(provider.asked(), 1, "the keys are fetched once");
    }
    drop(site);
}

#[tokio::test]
async fn times_are_those_of_the_servers_clock_with_a_minute_to_spare() {
    let site = site();
    let signer = SigningKey::ed("1");
    let provider = Provider::publishing(&[&signer]).await;
    let server = provider.server(&site, &[]);
    let (good, now) = (claims(&server).await, now(&server).await);
    for (name, value, code) in [
        ("exp", json!(now - 59), None),
        ("exp", json!(now - 61), Some("token_expired")),
        ("exp", json!("soon"), Some("unauthenticated")),
        ("exp", Value::Null, Some("unauthenticated")),
        ("nbf", json!(now + 59), None),
        ("nbf", json!(now + 61), Some("unauthenticated")),
        ("nbf", Value::Null, None),
    ] {
        let answered = ask(&server, &signer.sign(&with(&good, name, value.clone()))).await;
        match code {
            None => assert_eq!(answered.0, StatusCode::OK, "{name} {value}"),
            Some(code) => drop(refusal(answered, code)),
        }
    }
    let token = signer.sign(&good);
    assert_eq!(ask(&server, &token).await.0, StatusCode::OK);
    server.advance(10 * HOUR_MS).await;
    let response = server.request_as(&token, Method::GET, "/v1/runs").send().await.unwrap();
    assert_eq!(response.headers()[WWW_AUTHENTICATE], "Bearer");
    let status = response.status();
    refusal((status, response.json().await.unwrap()), "token_expired");
}

#[tokio::test]
async fn a_token_of_somebody_else_or_for_somebody_else_is_refused() {
    let site = site();
    let signer = SigningKey::ed("1");
    let provider = Provider::publishing(&[&signer]).await;
    let server = provider.server(&site, &[]);
    let good = claims(&server).await;
    for (name, value) in [
        ("iss", json!("https://evil.example/")),
        ("iss", json!("https://id.example")),
        ("iss", json!([ISSUER])),
        ("iss", Value::Null),
        ("aud", json!("other")),
        ("aud", json!(["other"])),
        ("aud", json!({ "abide": true })),
        ("aud", Value::Null),
        ("sub", Value::Null),
        ("sub", json!(7)),
        ("sub", json!("with a space")),
        ("sub", json!("a".repeat(129))),
    ] {
        refusal(ask(&server, &signer.sign(&with(&good, name, value))).await, "unauthenticated");
    }
    let shared = with(&good, "aud", json!(["other", "abide"]));
    assert_eq!(ask(&server, &signer.sign(&shared)).await.0, StatusCode::OK);
}

#[tokio::test]
async fn what_only_looks_like_a_token_is_none() {
    let site = site();
    let (signer, stranger) = (SigningKey::rsa("1"), SigningKey::ed("1"));
    let provider = Provider::publishing(&[&signer]).await;
    let server = provider.server(&site, &["--log", "trace"]);
    let good = claims(&server).await;
    let token = signer.sign(&good);
    let part = |value: Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let parts: Vec<&str> = token.split('.').collect();
    let other = part(with(&good, "sub", json!("mallory")));
    // The public key as a shared secret: what a checker that trusts the header would be fooled by.
    let public = signer.jwk()["n"].as_str().unwrap().to_owned();
    let confused = |secret: &[u8]| {
        let header = Header { kid: Some("1".to_owned()), ..Header::new(Algorithm::HS256) };
        encode(&header, &good, &EncodingKey::from_secret(secret)).unwrap()
    };
    let critical = part(json!({ "alg": "RS256", "kid": "1", "crit": ["b64"], "b64": false }));
    let none = part(json!({ "alg": "none", "kid": "1" }));
    let mut flipped = parts[2].to_owned();
    let first = if flipped.starts_with('A') { "B" } else { "A" };
    flipped.replace_range(..1, first);
    for (what, text) in [
        ("another payload", format!("{}.{other}.{}", parts[0], parts[2])),
        ("another signature", format!("{}.{}.{flipped}", parts[0], parts[1])),
        ("no signature", format!("{}.{}.", parts[0], parts[1])),
        ("alg none", format!("{none}.{}.", parts[1])),
        ("alg none with a signature", format!("{none}.{}.{}", parts[1], parts[2])),
        ("the modulus as a secret", confused(public.as_bytes())),
        ("the key's bytes as a secret", confused(&BASE64_URL_SAFE_NO_PAD.decode(&public).unwrap())),
        ("another kind of key under the same id", stranger.sign(&good)),
        ("a critical extension", format!("{critical}.{}.{}", parts[1], parts[2])),
        ("a header that is none", format!("eyJ9.{}.{}", parts[1], parts[2])),
        ("a payload that is none", format!("{}.eyJ9.{}", parts[0], parts[2])),
        ("four parts", format!("{token}.x")),
        ("a monstrous one", format!("{}.{}.{}", parts[0], "a".repeat(9_000), parts[2])),
    ] {
        let (status, body) = ask(&server, &text).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{what}: {body}");
        assert!(!body.to_string().contains(parts[1]), "{what}: it is not repeated");
        refusal((status, body), "unauthenticated");
    }
    assert_eq!(ask(&server, &token).await.0, StatusCode::OK);
    assert!(parts.iter().all(|part| !site.said().contains(part)), "nor logged");
}

#[tokio::test]
async fn an_unknown_key_is_looked_for_at_the_provider_but_not_at_every_request() {
    let site = site();
    let (old, new) = (SigningKey::ed("old"), SigningKey::ec("new"));
    let provider = Provider::publishing(&[&old]).await;
    let server = provider.server(&site, &[]);
    assert_eq!(provider.asked(), 0, "not before somebody comes");
    let good = claims(&server).await;
    assert_eq!(ask(&server, &old.sign(&good)).await.0, StatusCode::OK);
    provider.publish(&[&new]);
    for _ in 0..5 {
        refusal(ask(&server, &new.sign(&good)).await, "unauthenticated");
    }
    assert_eq!(provider.asked(), 1, "the provider was asked a moment ago");
    server.advance(30_000).await;
    assert_eq!(ask(&server, &new.sign(&good)).await.0, StatusCode::OK);
    assert_eq!(provider.asked(), 2);
    refusal(ask(&server, &old.sign(&good)).await, "unauthenticated");
    assert_eq!(provider.asked(), 2, "what is not published any more is not looked for again at once");
}

#[tokio::test]
async fn a_key_that_was_withdrawn_goes_even_if_nobody_brings_a_new_one() {
    let site = site();
    let (bad, good) = (SigningKey::ed("bad"), SigningKey::ed("good"));
    let provider = Provider::publishing(&[&bad, &good]).await;
    let server = provider.server(&site, &[]);
    let long = with(&claims(&server).await, "exp", json!(now(&server).await + 100_000));
    assert_eq!(ask(&server, &bad.sign(&long)).await.0, StatusCode::OK);
    provider.publish(&[&good]);
    server.advance(15 * 60_000).await;
    // What is known is used while the provider is asked behind it.
    let mut answered = ask(&server, &bad.sign(&long)).await;
    assert_eq!(answered.0, StatusCode::OK);
    while answered.0 == StatusCode::OK {
        answered = ask(&server, &bad.sign(&long)).await;
    }
    refusal(answered, "unauthenticated");
    assert_eq!(ask(&server, &good.sign(&long)).await.0, StatusCode::OK);
    assert_eq!(provider.asked(), 2);
}

#[tokio::test]
async fn a_provider_that_does_not_answer_holds_up_neither_keys_nor_known_tokens() {
    let site = site();
    let (known, stranger) = (SigningKey::ed("known"), SigningKey::ed("unknown"));
    let server = trusting(&site, &sluggish(key_set(&[&known]), 1), &["--max-requests", "100"]);
    let long = with(&claims(&server).await, "exp", json!(now(&server).await + 100_000));
    assert_eq!(ask(&server, &known.sign(&long)).await.0, StatusCode::OK);
    server.advance(HOUR_MS).await;
    assert_eq!(
        ask(&server, &known.sign(&long)).await.0,
        StatusCode::OK,
        "it is old, and good while nobody knows better"
    );

    let waiters = abide_server::limits::JWKS_WAITERS_MAX;
    let token = stranger.sign(&long);
    let mut asking: FuturesUnordered<_> = (0..waiters + 30).map(|_| ask(&server, &token)).collect();
    for _ in 0..30 {
        let refused = asking.next().await.unwrap();
        assert!(refused.1["message"].as_str().unwrap().contains("enough others wait"), "{}", refused.1);
        refusal(refused, "unavailable");
    }
    assert_eq!(ask(&server, &server.key).await.0, StatusCode::OK);
    assert_eq!(ask(&server, &known.sign(&long)).await.0, StatusCode::OK);
}

#[tokio::test]
async fn nothing_that_a_token_begins_outlives_it() {
    let site = site();
    let signer = SigningKey::ed("1");
    let provider = Provider::publishing(&[&signer]).await;
    let server = provider.server(&site, &[]);
    let (good, now) = (claims(&server).await, now(&server).await);
    let token = signer.sign(&with(&good, "scope", json!("keys:manage runs:read")));
    let make =
        async |token: &str, body: Value| server.ask_as(token, Method::POST, "/v1/keys", Some(&body)).await;
    let (status, made) = make(&token, json!({})).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    assert_eq!(millis(&made["expiresAt"]), (now + 600) * 1000);
    refusal(make(&token, json!({ "expiresInMs": HOUR_MS })).await, "forbidden");
    let late = with(&with(&good, "scope", json!("keys:manage")), "exp", json!(now - 30));
    refusal(make(&signer.sign(&late), json!({})).await, "forbidden");

    let run = server.start_run("parked", json!({})).await;
    let long = signer.sign(&with(&good, "exp", json!(now + 100_000)));
    let streams = [&token, &long].map(|token| follow(&server, token, &run));
    let streams = futures_util::future::join_all(streams).await;
    server.advance(HOUR_MS).await;
    let rests = futures_util::future::join_all(streams.into_iter().map(reqwest::Response::text)).await;
    let told: Vec<bool> = rests.iter().map(|rest| rest.as_ref().unwrap().contains("run.completed")).collect();
    assert_eq!(told, [false, true]);
}

#[tokio::test]
async fn known_keys_outlive_an_absent_provider_and_without_any_it_is_told_to_come_again() {
    let site = site();
    let signer = SigningKey::ed("1");
    let provider = Provider::publishing(&[&signer]).await;
    provider.leave();
    let server = provider.server(&site, &[]);
    let long = with(&claims(&server).await, "exp", json!(now(&server).await + 100_000));
    let token = signer.sign(&long);
    refusal(ask(&server, &token).await, "unavailable");
    assert_eq!(ask(&server, &server.key).await.0, StatusCode::OK, "keys open as ever");
    provider.publish(&[&signer]);
    refusal(ask(&server, &token).await, "unavailable");
    server.advance(30_000).await;
    assert_eq!(ask(&server, &token).await.0, StatusCode::OK);
    provider.leave();
    server.advance(HOUR_MS).await;
    assert_eq!(ask(&server, &token).await.0, StatusCode::OK, "those known are kept");
    refusal(ask(&server, &SigningKey::ed("2").sign(&long)).await, "unauthenticated");
}

#[tokio::test]
async fn many_at_once_fetch_the_keys_once() {
    let site = site();
    let signer = SigningKey::ed("1");
    let provider = Provider::publishing(&[&signer]).await;
    let server = provider.server(&site, &[]);
    let token = signer.sign(&claims(&server).await);
    let asked = futures_util::future::join_all((0..20).map(|_| ask(&server, &token))).await;
    assert!(asked.iter().all(|(status, _)| *status == StatusCode::OK));
    assert_eq!(provider.asked(), 1);
}

#[tokio::test]
async fn roles_bring_scopes_and_a_claim_names_the_tenant() {
    let site = site();
    let other = site.new_key("acme");
    let signer = SigningKey::ed("1");
    let provider = Provider::publishing(&[&signer]).await;
    let flags = [
        "--oidc-principal",
        "email",
        "--oidc-roles",
        "realm_access.roles",
        "--oidc-tenant-claim",
        "org",
        "--oidc-grant",
        "starter=runs:create",
        "--oidc-grant",
        "reader=runs:read,people:read",
    ];
    let server = provider.server(&site, &flags);
    let mut person = claims(&server).await;
    person["scope"] = Value::Null;
    person["email"] = json!("ada@acme.example");
    person["org"] = json!("acme");
    let roles = |roles: Value| with(&person, "realm_access", json!({ "roles": roles }));
    refusal(ask(&server, &signer.sign(&roles(json!([])))).await, "forbidden");
    refusal(ask(&server, &signer.sign(&roles(json!(["starter", "boss"])))).await, "forbidden");
    let token = signer.sign(&roles(json!(["starter", "reader"])));
    let body = json!({ "workflowId": "parked" });
    assert_eq!(server.ask_as(&token, Method::POST, "/v1/runs", Some(&body)).await.0, StatusCode::CREATED);
    assert_eq!(server.ask_as(&token, Method::GET, "/v1/people", None).await.0, StatusCode::OK);
    let (_, theirs) = ask(&server, &other).await;
    assert_eq!(theirs["runs"].as_array().unwrap().len(), 1, "the run is acme's");
    assert_eq!(server.get("/v1/runs").await.1["runs"], json!([]));
    for org in [json!("nowhere"), Value::Null, json!("")] {
        let lost = with(&roles(json!(["reader"])), "org", org);
        refusal(ask(&server, &signer.sign(&lost)).await, "forbidden");
    }
}

#[tokio::test]
async fn keys_in_a_file_need_no_provider() {
    let site = site();
    let signer = SigningKey::ec("1");
    let file = site.path("jwks.json");
    std::fs::write(&file, key_set(&[&signer]).to_string()).unwrap();
    let file = file.to_str().unwrap();
    let flags = ["--test-clock", "--oidc-issuer", ISSUER, "--oidc-audience", "abide", "--oidc-jwks", file];
    let server = site.start(&flags);
    let good = claims(&server).await;
    assert_eq!(ask(&server, &signer.sign(&good)).await.0, StatusCode::OK);
    refusal(ask(&server, &SigningKey::ec("2").sign(&good)).await, "unauthenticated");
}

#[tokio::test]
async fn without_a_provider_a_token_is_an_unknown_key() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let token = SigningKey::ed("1").sign(&claims(&server).await);
    refusal(ask(&server, &token).await, "unauthenticated");
}

#[tokio::test]
async fn a_provider_on_a_private_address_needs_leave() {
    let site = site();
    let signer = SigningKey::ed("1");
    let provider = Provider::publishing(&[&signer]).await;
    let jwks = format!("{}/jwks", provider.peer.url);
    let flags = ["--test-clock", "--oidc-issuer", ISSUER, "--oidc-audience", "abide", "--oidc-jwks", &jwks];
    let server = site.start(&flags);
    refusal(ask(&server, &signer.sign(&claims(&server).await)).await, "unavailable");
    assert_eq!(provider.asked(), 0);
}
