//! Signing in and out, and what a session is worth.

use reqwest::header::{CONTENT_TYPE, ORIGIN, SET_COOKIE};
use reqwest::{Method, StatusCode};

use super::*;

#[tokio::test]
async fn a_link_leads_to_its_page_by_way_of_signing_in() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let mut person = Person::at(&server);
    assert_eq!(person.get("/").await.leads_to(), "/inbox");
    let link = "/inbox/run-1/int-2?from=mail";
    let page = person.get(link).await;
    let sign_in = page.leads_to().to_owned();
    assert_eq!(sign_in, "/sign-in?next=%2Finbox%2Frun-1%2Fint-2%3Ffrom%3Dmail");
    assert!(person.get(&sign_in).await.says(&format!("name=\"next\" value=\"{link}\"")));
    let page = person.sign_in(&server.key, link).await;
    assert_eq!(page.leads_to(), link);
    let cookie = page.headers[SET_COOKIE].to_str().unwrap();
    assert!(cookie.ends_with("; Path=/; Max-Age=28800; HttpOnly; SameSite=Lax"), "{cookie}");
    assert!(!cookie.contains(&server.key) && !page.html.contains(&server.key));
    for elsewhere in ["https://evil.example", "//evil.example", "/inbox\\evil", "/v1/runs"] {
        assert_eq!(person.sign_in(&server.key, elsewhere).await.leads_to(), "/inbox", "{elsewhere}");
    }
    assert_eq!(person.get("/inbox").await.status, StatusCode::OK);
}

#[tokio::test]
async fn only_a_key_that_holds_and_may_answer_signs_in() {
    let site = Site::new();
    let reader = site.key("default").scopes("runs:read").make();
    let brief = site.key("default").expires_in("1h").make();
    let server = site.start(&["--test-clock"]);
    let mut person = Person::at(&server);
    for (key, status, words) in [
        ("", StatusCode::UNAUTHORIZED, "no such key"),
        ("abk_dev_0000", StatusCode::UNAUTHORIZED, "no such key"),
        ("<script>alert(1)</script>", StatusCode::UNAUTHORIZED, "no such key"),
        (&reader, StatusCode::FORBIDDEN, "does not have the scope &#39;approvals:respond&#39;"),
    ] {
        let page = person.sign_in(key, "/inbox/run-1/int-2").await;
        assert_eq!(page.status, status, "{key}");
        assert!(page.says(words) && page.says("value=\"/inbox/run-1/int-2\""), "{}", page.html);
        assert!(person.cookie.is_none() && (key.is_empty() || !page.says(key)), "{}", page.html);
    }
    server.advance(2 * 3_600_000).await;
    let page = person.sign_in(&brief, "").await;
    assert!(page.status == StatusCode::UNAUTHORIZED && page.says("time of this key is over"), "{page:?}");
}

#[tokio::test]
async fn a_session_ends_with_its_key_and_after_a_working_day() {
    let site = Site::new();
    let [revoked, brief, lasting] =
        [site.key("default"), site.key("default").expires_in("1h"), site.key("default")]
            .map(|key| key.scopes("approvals:respond").make());
    let server = site.start(&["--test-clock"]);
    let is_in = async |person: &Person<'_>| match person.get("/inbox").await {
        page if page.status == StatusCode::OK => true,
        page => page.leads_to() != "/sign-in",
    };
    let people = [
        Person::with_key(&server, &revoked).await,
        Person::with_key(&server, &brief).await,
        Person::with_key(&server, &lasting).await,
    ];
    for person in &people {
        assert!(is_in(person).await);
    }
    let path = format!("/v1/keys/{}", site.key_id(&revoked));
    let (status, body) = server.ask_as(&server.key, Method::DELETE, &path, None).await;
    assert!(status.is_success(), "{body}");
    assert!(!is_in(&people[0]).await, "its key was revoked");
    server.advance(3_600_000).await;
    assert!(!is_in(&people[1]).await, "its key has expired");
    server.advance(7 * 3_600_000 - 1).await;
    assert!(is_in(&people[2]).await);
    server.advance(1).await;
    assert!(!is_in(&people[2]).await, "eight hours are over");
    let mut forged = Person::with_key(&server, &lasting).await;
    forged.cookie = forged.cookie.map(|cookie| cookie.replace(&site.key_id(&lasting), "dev"));
    assert!(!is_in(&forged).await, "a cookie can't be changed to another key");
}

#[tokio::test]
async fn signing_out_makes_the_browser_forget() {
    let site = Site::new();
    let server = site.start(&[]);
    let person = Person::with_key(&server, &server.key).await;
    let page = person.post("/sign-out", &[("form-token", "x")]).await;
    assert_eq!(page.status, StatusCode::FORBIDDEN, "somebody else's page can't sign people out");
    let token = person.get("/inbox").await.token().to_owned();
    let page = person.post("/sign-out", &[("form-token", &token)]).await;
    assert_eq!(page.leads_to(), "/sign-in");
    assert!(page.headers[SET_COOKIE].to_str().unwrap().starts_with("abide-session=; Path=/; Max-Age=0;"));
    let nobody = Person::at(&server);
    assert_eq!(nobody.post("/sign-out", &[]).await.leads_to(), "/sign-in");
}

#[tokio::test]
async fn over_tls_the_cookie_never_leaves_it() {
    let site = Site::new();
    let server = site.start(&["--public-url", "https://abide.example.com/"]);
    let mut person = Person::at(&server);
    let sign_in = |origin: &'static str| {
        person.send(person.form("/sign-in", &[("key", &server.key)]).header(ORIGIN, origin))
    };
    assert_eq!(sign_in("https://evil.example").await.status, StatusCode::FORBIDDEN);
    let page = sign_in("https://abide.example.com").await;
    let cookie = page.headers[SET_COOKIE].to_str().unwrap().to_owned();
    assert!(cookie.starts_with("__Host-abide-session=") && cookie.ends_with("; Secure"), "{cookie}");
    let value = cookie.split(';').next().unwrap();
    person.cookie = Some(value.replace("__Host-", ""));
    assert_eq!(person.get("/inbox").await.leads_to(), "/sign-in", "the name without its promise is nothing");
    person.cookie = Some(value.to_owned());
    assert_eq!(person.get("/inbox").await.status, StatusCode::OK);
    for wrong in ["abide.example.com", "ftp://abide.example.com", "https://a.example/path"] {
        assert!(site.try_start(&["--public-url", wrong]).is_err());
        assert!(site.said().contains("--public-url"), "{}", site.said());
    }
}

#[tokio::test]
async fn a_form_counts_only_from_a_page_of_ours() {
    let site = Site::new();
    let server = site.start(&[]);
    let person = Person::at(&server);
    let form = || person.form("/sign-in", &[("key", &server.key)]);
    let ours = server.url.as_str();
    let refused = [
        form(),
        form().header(ORIGIN, "https://evil.example"),
        form().header(ORIGIN, "null"),
        form().header(ORIGIN, ours).header("sec-fetch-site", "cross-site"),
        form().header("sec-fetch-site", "same-site"),
    ];
    for request in refused {
        let page = person.send(request).await;
        assert_eq!(page.status, StatusCode::FORBIDDEN, "{page:?}");
        assert!(!page.headers.contains_key(SET_COOKIE) && page.says("was not sent from a page"), "{page:?}");
    }
    let json =
        person.request(Method::POST, "/sign-in").header(ORIGIN, ours).json(&json!({ "key": server.key }));
    assert_eq!(person.send(json).await.status, StatusCode::BAD_REQUEST);
    for request in [form().header(ORIGIN, ours), form().header("sec-fetch-site", "same-origin")] {
        assert_eq!(person.send(request).await.leads_to(), "/inbox");
    }
}

#[tokio::test]
async fn every_page_is_html_under_the_strict_policy_and_never_kept() {
    let site = Site::new();
    let server = site.start(&[]);
    let (nobody, person) = (Person::at(&server), Person::with_key(&server, &server.key).await);
    let pages = [
        (nobody.get("/sign-in").await, 200),
        (nobody.post("/sign-in", &[("key", "x")]).await, 401),
        (nobody.get("/inbox").await, 303),
        (person.get("/inbox").await, 200),
        (person.get("/inbox/run-1/int-2").await, 404),
        (person.post("/inbox/run-1/int-2", &[]).await, 403),
        (person.get("/inbox?cursor=nonsense").await, 400),
    ];
    let script = regex::Regex::new("<script|<style|style=|\\son[a-z]+=|javascript:").unwrap();
    for (page, status) in pages {
        assert_eq!(page.status.as_u16(), status, "{page:?}");
        let header = |name: &str| page.headers[name].to_str().unwrap().to_owned();
        let policy = "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
        assert_eq!(header("content-security-policy"), policy);
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert_eq!(header("referrer-policy"), "same-origin");
        assert_eq!(header("cache-control"), "no-store");
        if status != 303 {
            assert_eq!(header(CONTENT_TYPE.as_str()), "text/html; charset=utf-8");
            assert!(!script.is_match(&page.html), "{}", page.html);
        }
    }
    let style = nobody.get("/style.css").await;
    assert_eq!(style.headers[CONTENT_TYPE], "text/css; charset=utf-8");
    assert!(!style.says("url(") && !style.says("@import"), "nothing is loaded from elsewhere");
}

#[tokio::test]
async fn pages_are_bounded_as_every_request_is() {
    let site = Site::new();
    let key = site.key("default").scopes("approvals:respond").make();
    let server = site.start(&["--rate-key", "1/m:2", "--test-clock"]);
    let person = Person::with_key(&server, &key).await;
    assert_eq!(person.get("/inbox").await.status, StatusCode::OK);
    let page = person.get("/inbox").await;
    assert_eq!(page.status, StatusCode::TOO_MANY_REQUESTS);
    assert!(page.says("Too many requests") && page.headers.contains_key("retry-after"), "{page:?}");
    let large = "x".repeat(1024 * 1024);
    let page = person.post("/sign-in", &[("key", &large)]).await;
    assert_eq!(page.status, StatusCode::PAYLOAD_TOO_LARGE);
}
