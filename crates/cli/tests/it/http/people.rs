//! The directory of people: entered, read, changed, forgotten, and each tenant's own.

use super::*;

fn ada() -> Value {
    json!({
        "displayName": "Ada Lovelace",
        "roles": ["finance", "approver"],
        "groups": ["eu"],
        "addresses": { "email": "ada@example.com", "slack": "U012" },
    })
}

async fn put(server: &Server, principal: &str, body: &Value) -> (StatusCode, Value) {
    server.ask_as(&server.key, Method::PUT, &format!("/v1/people/{principal}"), Some(body)).await
}

#[tokio::test]
async fn a_person_is_entered_shown_replaced_and_forgotten() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let (status, entered) = put(&server, "ada@example.com", &ada()).await;
    assert_eq!(status, StatusCode::OK, "{entered}");
    let mut expected = ada();
    expected["principal"] = json!("ada@example.com");
    expected["createdAt"] = entered["createdAt"].clone();
    expected["updatedAt"] = entered["createdAt"].clone();
    assert_eq!(entered, expected);
    assert_eq!(server.get("/v1/people/ada@example.com").await, (StatusCode::OK, entered.clone()));
    assert_eq!(server.get("/v1/people/ada%40example%2Ecom").await.1, entered, "however it is written");

    server.advance(1000).await;
    let (_, less) = put(&server, "ada@example.com", &json!({})).await;
    assert_eq!(less["createdAt"], entered["createdAt"]);
    assert_eq!(millis(&less["updatedAt"]) - millis(&less["createdAt"]), 1000);
    assert_eq!((&less["roles"], &less["addresses"], less.get("displayName")), (&json!([]), &json!({}), None));

    let gone = async || server.ask_as(&server.key, Method::DELETE, "/v1/people/ada@example.com", None).await;
    assert_eq!(gone().await, (StatusCode::NO_CONTENT, json!("")));
    refusal(gone().await, "person_not_found");
    refusal(server.get("/v1/people/ada@example.com").await, "person_not_found");
}

#[tokio::test]
async fn reading_and_changing_are_two_scopes() {
    let site = site();
    let reader = site.key("default").scopes("people:read").make();
    let writer = site.key("default").scopes("people:manage").make();
    let server = site.start(&[]);
    let body = ada();
    let ask = async |key: &str, method: Method, path: &str| {
        let body = (method == Method::PUT).then_some(&body);
        server.ask_as(key, method, path, body).await
    };
    assert_eq!(ask(&writer, Method::PUT, "/v1/people/ada").await.0, StatusCode::OK);
    for (key, method, path, scope) in [
        (&reader, Method::PUT, "/v1/people/ada", "people:manage"),
        (&reader, Method::DELETE, "/v1/people/ada", "people:manage"),
        (&writer, Method::GET, "/v1/people/ada", "people:read"),
        (&writer, Method::GET, "/v1/people", "people:read"),
    ] {
        let details = refusal(ask(key, method, path).await, "forbidden");
        assert_eq!(details["scopeRequired"], scope);
    }
    assert_eq!(ask(&reader, Method::GET, "/v1/people/ada").await.0, StatusCode::OK);
}

#[tokio::test]
async fn what_is_wrong_with_an_entry_is_told_by_its_field_and_without_addresses() {
    let site = site();
    let server = site.start(&["--log", "trace"]);
    let before = site.rows();
    let hidden = "very-private@example.com";
    let many: serde_json::Map<String, Value> = (0..65).map(|n| (format!("c{n}"), json!(hidden))).collect();
    for (principal, body, field) in [
        ("no%20space", ada(), "principal"),
        (".hidden", ada(), "principal"),
        ("a%2Fb", ada(), "principal"),
        (&"a".repeat(129), ada(), "principal"),
        ("ada", json!({ "displayName": "" }), "displayName"),
        ("ada", json!({ "displayName": "x".repeat(257) }), "displayName"),
        ("ada", json!({ "roles": ["a b"] }), "roles"),
        ("ada", json!({ "groups": [""] }), "groups"),
        ("ada", json!({ "addresses": { "e mail": hidden } }), "addresses"),
        ("ada", json!({ "addresses": { "email": format!("{hidden}\n") } }), "addresses"),
        ("ada", json!({ "addresses": many }), "addresses"),
    ] {
        let (status, answered) = put(&server, principal, &body).await;
        assert!(!answered.to_string().contains(hidden), "{answered}");
        assert_eq!(refusal((status, answered), "validation_error")["field"], field, "{principal} {body}");
    }
    for body in
        [json!({ "addresses": hidden }), json!({ "addresses": { "email": [hidden] } }), json!({ hidden: 1 })]
    {
        let (status, answered) = put(&server, "ada", &body).await;
        assert!(!answered.to_string().contains(hidden), "{answered}");
        refusal((status, answered), "validation_error");
    }
    assert_eq!(site.rows(), before);
    put(&server, "ada", &json!({ "displayName": "Hidden Name", "addresses": { "email": hidden } })).await;
    server.get("/v1/people").await;
    assert!(!site.said().contains(hidden) && !site.said().contains("Hidden Name"), "{}", site.said());
}

#[tokio::test]
async fn a_list_comes_in_pages_of_ones_own() {
    let site = site();
    let stranger = site.new_key("other");
    let server = site.start(&[]);
    assert_eq!(server.get("/v1/people").await.1, json!({ "people": [], "nextCursor": null }));
    for name in ["c", "a", "b"] {
        put(&server, name, &ada()).await;
    }
    let body = json!({ "displayName": "theirs" });
    server.ask_as(&stranger, Method::PUT, "/v1/people/aa", Some(&body)).await;
    let page = async |query: &str| -> (Vec<String>, Value) {
        let (status, page) = server.get(&format!("/v1/people?{query}")).await;
        assert_eq!(status, StatusCode::OK, "{page}");
        let people = page["people"].as_array().unwrap().iter();
        (
            people.map(|person| person["principal"].as_str().unwrap().to_owned()).collect(),
            page["nextCursor"].clone(),
        )
    };
    assert_eq!(page("limit=2").await, (vec!["a".to_owned(), "b".to_owned()], json!("b")));
    assert_eq!(page("limit=2&cursor=b").await, (vec!["c".to_owned()], Value::Null));
    assert_eq!(page("limit=3").await.1, Value::Null);
    refusal(server.get("/v1/people?limit=-1").await, "validation_error");
    let (_, theirs) = server.ask_as(&stranger, Method::GET, "/v1/people", None).await;
    assert_eq!(theirs["people"].as_array().unwrap().len(), 1);
    refusal(server.get("/v1/people/aa").await, "person_not_found");
}
