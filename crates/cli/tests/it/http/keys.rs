//! API keys over HTTP: what is changed is in force with the answer, and nobody gives what they don't have.

use super::*;

const DAY_MS: i64 = 24 * HOUR_MS;

/// Makes a key with the server's own, and gives the whole answer.
async fn create(server: &Server, body: Value) -> Value {
    let (status, made) = server.post("/v1/keys", &body).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    made
}

/// Whether a key opens the server; if not, why.
async fn opens(server: &Server, key: &str) -> String {
    let (status, body) = server.ask_as(key, Method::GET, "/v1/runs", None).await;
    if status == StatusCode::OK { "yes".to_owned() } else { body["error"].as_str().unwrap().to_owned() }
}

fn text<'a>(made: &'a Value, name: &str) -> &'a str {
    made[name].as_str().unwrap_or_else(|| panic!("{made} has no {name}"))
}

#[tokio::test]
async fn a_key_is_made_listed_and_revoked_while_the_server_runs() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let body = json!({
        "label": "nightly export", "principal": "svc:export", "scopes": ["runs:read"], "roles": ["finance"],
        "expiresInMs": DAY_MS,
    });
    let made = create(&server, body).await;
    let (id, key) = (text(&made, "keyId"), text(&made, "key"));
    assert!(key.starts_with(&format!("abk_{id}_")));
    assert_eq!(opens(&server, key).await, "yes");

    let (_, page) = server.get("/v1/keys").await;
    assert_eq!(page["nextCursor"], Value::Null);
    let listed = page["keys"].as_array().unwrap().iter().find(|listed| listed["keyId"] == id).unwrap();
    assert_eq!(
        *listed,
        json!({
            "keyId": id, "tenant": "default", "principal": "svc:export", "label": "nightly export",
            "scopes": ["runs:read"], "roles": ["finance"], "actAs": false, "state": "active",
            "createdAt": made["createdAt"], "expiresAt": made["expiresAt"],
        })
    );
    assert_eq!(millis(&listed["expiresAt"]) - millis(&listed["createdAt"]), DAY_MS);
    let secret = key.rsplit('_').next().unwrap();
    assert!(!page.to_string().contains(secret) && !site.said().contains(secret));

    let path = format!("/v1/keys/{id}");
    for _ in 0..2 {
        let (status, body) = server.ask_as(&server.key, Method::DELETE, &path, None).await;
        assert_eq!((status, body), (StatusCode::NO_CONTENT, json!("")));
        assert_eq!(opens(&server, key).await, "key_revoked");
    }
    let key = key.to_owned();
    assert!(server.stop().success());
    let server = site.start(&["--test-clock"]);
    assert_eq!(opens(&server, &key).await, "key_revoked", "it is on disk");
}

#[tokio::test]
async fn a_key_made_here_survives_a_kill() {
    let site = site();
    let server = site.start(&[]);
    let made = create(&server, json!({})).await;
    let chosen = "chosen-by-somebody-1";
    create(&server, json!({ "secret": chosen })).await;
    server.kill();
    let server = site.start(&[]);
    assert_eq!(opens(&server, text(&made, "key")).await, "yes");
    assert_eq!(opens(&server, chosen).await, "yes");
}

#[tokio::test]
async fn what_is_not_said_is_what_the_maker_has() {
    let site = site();
    let maker = site.key("other").scopes("keys:manage,runs:read").principal("ops").make();
    let server = site.start(&[]);
    let (status, made) = server.ask_as(&maker, Method::POST, "/v1/keys", Some(&json!({}))).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    assert_eq!(made["scopes"], json!(["runs:read", "keys:manage"]));
    assert_eq!((&made["tenant"], &made["principal"]), (&json!("other"), &json!("ops")));
    assert!(made.get("expiresAt").is_none());
}

#[tokio::test]
async fn nobody_gives_what_they_do_not_have() {
    let site = site();
    assert!(site.start(&["--test-clock"]).stop().success());
    let maker = site.key("default").scopes("keys:manage,runs:read").expires_in("1d").make();
    let server = site.start(&["--test-clock"]);
    let strong = create(&server, json!({ "scopes": ["runs:cancel"] })).await;
    let speaker = create(&server, json!({ "scopes": ["runs:read"], "actAs": true })).await;
    let before = site.rows();
    let refused = async |path: &str, body: Value| {
        refusal(server.ask_as(&maker, Method::POST, path, Some(&body)).await, "forbidden")
    };
    let details = refused("/v1/keys", json!({ "scopes": ["runs:read", "runs:cancel"] })).await;
    assert_eq!(details, json!({ "scopeRequired": "runs:cancel" }));
    refused("/v1/keys", json!({ "actAs": true })).await;
    refused("/v1/keys", json!({ "tenant": "other" })).await;
    refused("/v1/keys", json!({ "expiresInMs": DAY_MS + 1 })).await;
    // The new secret would be theirs.
    refused(&format!("/v1/keys/{}:rotate", text(&strong, "keyId")), json!({})).await;
    refused(&format!("/v1/keys/{}:rotate", text(&speaker, "keyId")), json!({})).await;
    assert_eq!(site.rows(), before);
    let (_, made) = server.ask_as(&maker, Method::POST, "/v1/keys", Some(&json!({}))).await;
    let own = server.get("/v1/keys").await.1["keys"].as_array().unwrap().clone();
    let own = own.iter().find(|key| key["keyId"] == site.key_id(&maker).as_str()).unwrap().clone();
    assert_eq!(made["expiresAt"], own["expiresAt"], "nor does it outlive who made it");
}

#[tokio::test]
async fn both_secrets_work_during_the_overlap_and_then_the_new_one_alone() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let old = create(&server, json!({ "scopes": ["runs:read"], "roles": ["finance"], "label": "x" })).await;
    let path = format!("/v1/keys/{}:rotate", text(&old, "keyId"));
    let (status, new) = server.post(&path, &json!({ "overlapMs": HOUR_MS })).await;
    assert_eq!(status, StatusCode::CREATED, "{new}");
    for same in ["tenant", "principal", "scopes", "roles", "label", "actAs"] {
        assert_eq!(new[same], old[same], "{same}");
    }
    assert_eq!(new["replaces"]["keyId"], old["keyId"]);
    assert_eq!(millis(&new["replaces"]["expiresAt"]) - millis(&new["createdAt"]), HOUR_MS);
    for made in [&old, &new] {
        assert_eq!(opens(&server, text(made, "key")).await, "yes");
    }
    server.advance(HOUR_MS).await;
    assert_eq!(opens(&server, text(&old, "key")).await, "key_expired");
    assert_eq!(opens(&server, text(&new, "key")).await, "yes");
    refusal(server.post(&path, &json!({})).await, "key_not_active");

    let path = format!("/v1/keys/{}:rotate", text(&new, "keyId"));
    let (_, newest) = server.post(&path, &json!({ "overlapMs": 0, "secret": "chosen-this-time-x" })).await;
    assert_eq!(newest.get("key"), None, "whoever chose it knows it");
    assert_eq!(opens(&server, text(&new, "key")).await, "key_expired");
    assert_eq!(opens(&server, "chosen-this-time-x").await, "yes");
}

#[tokio::test]
async fn a_rotated_key_ends_when_the_old_one_would_have() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let old = create(&server, json!({ "expiresInMs": HOUR_MS })).await;
    let path = format!("/v1/keys/{}:rotate", text(&old, "keyId"));
    let (_, new) = server.post(&path, &json!({ "overlapMs": DAY_MS })).await;
    assert_eq!(new["expiresAt"], old["expiresAt"]);
    assert_eq!(new["replaces"]["expiresAt"], old["expiresAt"], "an overlap makes nothing live longer");
    let path = format!("/v1/keys/{}:rotate", text(&new, "keyId"));
    let (_, renewed) = server.post(&path, &json!({ "expiresInMs": DAY_MS })).await;
    assert_eq!(millis(&renewed["expiresAt"]) - millis(&renewed["createdAt"]), DAY_MS);
}

#[tokio::test]
async fn a_rotated_key_does_not_outlive_the_key_of_who_rotated_it() {
    let site = site();
    assert!(site.start(&["--test-clock"]).stop().success());
    let brief = site.key("default").scopes("keys:manage,runs:read").expires_in("1d").make();
    let server = site.start(&["--test-clock"]);
    let rotate = async |old: &Value, body: Value| {
        let path = format!("/v1/keys/{}:rotate", text(old, "keyId"));
        server.ask_as(&brief, Method::POST, &path, Some(&body)).await
    };
    let (endless, own) = (
        create(&server, json!({ "scopes": ["runs:read"] })).await,
        server.ask_as(&brief, Method::POST, "/v1/keys", Some(&json!({}))).await.1["expiresAt"].clone(),
    );
    assert!(endless.get("expiresAt").is_none() && own.is_string());
    let before = site.rows();
    refusal(rotate(&endless, json!({ "expiresInMs": DAY_MS + 1 })).await, "forbidden");
    assert_eq!(site.rows(), before);
    let (status, new) = rotate(&endless, json!({})).await;
    assert_eq!((status, &new["expiresAt"]), (StatusCode::CREATED, &own), "{new}");
    let (_, shorter) = rotate(&new, json!({ "expiresInMs": HOUR_MS })).await;
    assert_eq!(millis(&shorter["expiresAt"]) - millis(&shorter["createdAt"]), HOUR_MS);
    let (_, kept) = rotate(&shorter, json!({})).await;
    assert_eq!(kept["expiresAt"], shorter["expiresAt"], "an earlier end stays");
}

#[tokio::test]
async fn keys_that_ended_long_ago_are_forgotten() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let secret = "once-upon-a-time-there";
    let revoked = create(&server, json!({ "secret": secret })).await;
    let expired = create(&server, json!({ "expiresInMs": HOUR_MS })).await;
    let path = format!("/v1/keys/{}", text(&revoked, "keyId"));
    assert_eq!(server.ask_as(&server.key, Method::DELETE, &path, None).await.0, StatusCode::NO_CONTENT);
    server.advance(90 * DAY_MS - 1).await;
    refusal(server.post("/v1/keys", &json!({ "secret": secret })).await, "validation_error");
    let kept = create(&server, json!({})).await;
    assert_eq!(opens(&server, secret).await, "key_revoked");
    assert_eq!(opens(&server, text(&expired, "key")).await, "key_expired");
    server.advance(HOUR_MS + 1).await;
    create(&server, json!({ "label": "makes room" })).await;
    for key in [secret, text(&expired, "key")] {
        assert_eq!(opens(&server, key).await, "unauthenticated");
    }
    assert_eq!(opens(&server, text(&kept, "key")).await, "yes");
    let (_, page) = server.get("/v1/keys").await;
    assert_eq!(page["keys"].as_array().unwrap().len(), 3, "{page}");
    create(&server, json!({ "secret": secret })).await;
    assert!(server.stop().success());
    let server = site.start(&["--test-clock"]);
    assert_eq!(opens(&server, secret).await, "yes", "its text is free again, on disk too");
}

#[tokio::test]
async fn only_keys_in_force_count_against_the_limit() {
    let site = site();
    site.new_key("default");
    let copies = |name: &str, count: u32, revoked_at: &str| {
        let sql = format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) \
             INSERT INTO api_keys (id, tenant, principal, mac, created_at, revoked_at, roles, act_as, whole) \
             SELECT '{name}' || i, tenant, principal, mac, created_at, {revoked_at}, roles, act_as, whole \
             FROM n, (SELECT * FROM api_keys LIMIT 1) AS one"
        );
        assert_eq!(site.change(&sql), u64::from(count));
    };
    copies("over", 10_005, "created_at + i");
    let server = site.start(&[]);
    create(&server, json!({})).await;
    assert_eq!(site.rows()["api_keys"], 10_000 + 3, "of those that are over, the newest are remembered");
    assert!(server.stop().success());
    copies("good", 9_997, "NULL");
    let server = site.start(&[]);
    let refused = server.post("/v1/keys", &json!({})).await;
    assert!(text(&refused.1, "message").contains("10000 keys in force"), "{}", refused.1);
    refusal(refused, "too_many");
}

#[tokio::test]
async fn a_key_does_not_revoke_itself() {
    let site = site();
    let server = site.start(&[]);
    refusal(server.ask_as(&server.key, Method::DELETE, "/v1/keys/dev", None).await, "key_in_use");
    assert_eq!(opens(&server, &server.key).await, "yes");
}

#[tokio::test]
async fn a_secret_is_one_keys_alone() {
    let site = site();
    let stranger = site.new_key("other");
    let server = site.start(&[]);
    let secret = "the-very-same-secret";
    let made = create(&server, json!({ "secret": secret })).await;
    for key in [&server.key, &stranger] {
        let body = json!({ "secret": secret });
        let details =
            refusal(server.ask_as(key, Method::POST, "/v1/keys", Some(&body)).await, "validation_error");
        assert_eq!(details["field"], "secret");
    }
    let path = format!("/v1/keys/{}", text(&made, "keyId"));
    server.ask_as(&server.key, Method::DELETE, &path, None).await;
    refusal(server.post("/v1/keys", &json!({ "secret": secret })).await, "validation_error");
    assert_eq!(opens(&server, secret).await, "key_revoked", "what was revoked stays so");
}

#[tokio::test]
async fn what_is_wrong_with_a_new_key_is_told_by_its_field_and_without_its_secret() {
    let site = site();
    let server = site.start(&[]);
    let before = site.rows();
    let many: Vec<String> = (0..65).map(|n| format!("role-{n}")).collect();
    for (body, field) in [
        (json!({ "secret": "fifteen-chars-x" }), "secret"),
        (json!({ "secret": "x".repeat(257) }), "secret"),
        (json!({ "secret": "with a space in it, alas" }), "secret"),
        (json!({ "secret": "abk_looks_like_one_of_ours" }), "secret"),
        (json!({ "secret": "eyJhbGciOiJub25lIn0.e30.c2ln" }), "secret"),
        (json!({ "principal": "no slash/here" }), "principal"),
        (json!({ "principal": "" }), "principal"),
        (json!({ "scopes": ["runs:see"] }), "scopes"),
        (json!({ "roles": ["a b"] }), "roles"),
        (json!({ "roles": many }), "roles"),
        (json!({ "label": "two\nlines" }), "label"),
        (json!({ "expiresInMs": 0 }), "expiresInMs"),
        (json!({ "expiresInMs": i64::MAX }), "expiresInMs"),
    ] {
        let (status, answered) = server.post("/v1/keys", &body).await;
        let secret = body["secret"].as_str().unwrap_or("no secret").to_owned();
        assert!(!answered.to_string().contains(&secret), "{answered}");
        assert_eq!(refusal((status, answered), "validation_error")["field"], field, "{body}");
    }
    for body in [json!({ "secret": ["hidden-hidden-hidden"] }), json!({ "hidden-hidden": 1 })] {
        let (status, answered) = server.post("/v1/keys", &body).await;
        assert!(!answered.to_string().contains("hidden-hidden"), "{answered}");
        refusal((status, answered), "validation_error");
    }
    assert_eq!(site.rows(), before);
}

#[tokio::test]
async fn keys_are_each_tenants_own() {
    let site = site();
    let stranger = site.new_key("other");
    let server = site.start(&[]);
    let mine = create(&server, json!({})).await;
    let (_, theirs) = server.ask_as(&stranger, Method::GET, "/v1/keys", None).await;
    let ids: Vec<&Value> = theirs["keys"].as_array().unwrap().iter().map(|key| &key["keyId"]).collect();
    assert_eq!(ids, [site.key_id(&stranger).as_str()]);
    for (method, tail) in [(Method::DELETE, ""), (Method::POST, ":rotate")] {
        for id in [text(&mine, "keyId"), "dev", "nobody", "%FF", "%20"] {
            let path = format!("/v1/keys/{id}{tail}");
            refusal(server.ask_as(&stranger, method.clone(), &path, None).await, "key_not_found");
        }
    }
    assert_eq!(opens(&server, text(&mine, "key")).await, "yes");
}

#[tokio::test]
async fn a_list_comes_in_pages() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let mut made = vec!["dev".to_owned()];
    for _ in 0..4 {
        server.advance(1000).await;
        made.push(text(&create(&server, json!({})).await, "keyId").to_owned());
    }
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let (status, page) = server.get(&format!("/v1/keys?limit=2{cursor}")).await;
        assert_eq!(status, StatusCode::OK, "{page}");
        let keys = page["keys"].as_array().unwrap();
        assert!((1..=2).contains(&keys.len()), "{page}");
        seen.extend(keys.iter().map(|key| key["keyId"].as_str().unwrap().to_owned()));
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    seen.sort();
    made.sort();
    assert_eq!(seen, made);
    for query in ["limit=0", "limit=501", "limit=x", "cursor=nobody", "colour=red"] {
        refusal(server.get(&format!("/v1/keys?{query}")).await, "validation_error");
    }
}

#[tokio::test]
async fn changes_at_the_same_time_are_all_made() {
    let site = site();
    let server = site.start(&[]);
    let making = (0..20).map(|_| create(&server, json!({})));
    let made = futures_util::future::join_all(making).await;
    let opened =
        futures_util::future::join_all(made.iter().map(|made| opens(&server, text(made, "key")))).await;
    assert_eq!(opened, vec!["yes"; 20]);
    let paths: Vec<String> =
        made.iter().map(|made| format!("/v1/keys/{}:rotate", text(made, "keyId"))).collect();
    let rotating =
        paths.iter().flat_map(|path| [path, path]).map(async |path| server.post(path, &json!({})).await);
    let rotated = futures_util::future::join_all(rotating).await;
    assert!(rotated.iter().all(|(status, _)| *status == StatusCode::CREATED));
    let (_, page) = server.get("/v1/keys?limit=500").await;
    assert_eq!(page["keys"].as_array().unwrap().len(), 1 + 20 + 40);
}

/// Follows a run by a stream, up to its first event.
pub(super) async fn follow(server: &Server, key: &str, run: &str) -> reqwest::Response {
    let path = format!("/v1/runs/{run}/events");
    let request = server.request_as(key, Method::GET, &path).header("accept", "text/event-stream");
    let mut stream = request.send().await.unwrap();
    assert_eq!(stream.status(), StatusCode::OK);
    let mut heard = String::new();
    while !heard.contains("run.started") {
        heard += std::str::from_utf8(&stream.chunk().await.unwrap().unwrap()).unwrap();
    }
    stream
}

#[tokio::test]
async fn a_stream_tells_nothing_more_once_its_key_is_over() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    let (revoked, brief, kept) = (
        create(&server, json!({})).await,
        create(&server, json!({ "expiresInMs": HOUR_MS / 2 })).await,
        create(&server, json!({})).await,
    );
    let streams = [&revoked, &brief, &kept].map(|made| follow(&server, text(made, "key"), &run));
    let streams = futures_util::future::join_all(streams).await;
    let path = format!("/v1/keys/{}", text(&revoked, "keyId"));
    assert_eq!(server.ask_as(&server.key, Method::DELETE, &path, None).await.0, StatusCode::NO_CONTENT);
    server.advance(HOUR_MS).await;
    let rests = futures_util::future::join_all(streams.into_iter().map(reqwest::Response::text)).await;
    let ended: Vec<bool> =
        rests.iter().map(|rest| rest.as_ref().unwrap().contains("run.completed")).collect();
    assert_eq!(ended, [false, false, true]);
}
