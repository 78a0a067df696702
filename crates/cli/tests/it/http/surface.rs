//! Every operation that the server says it has. They are taken from the OpenAPI document, so that a new one can't be
//! forgotten here.

use super::*;

/// One operation of the document.
pub(super) struct Operation {
    pub(super) id: String,
    pub(super) method: Method,
    /// With the names of parameters in braces.
    pub(super) path: String,
    /// `None` if it needs no key; else the scope that it needs, if it needs one.
    pub(super) access: Option<Option<String>>,
    pub(super) summary: String,
}

/// All of them.
pub(super) fn operations(server: &Server) -> Vec<Operation> {
    let document = server.contract.as_ref().unwrap().document();
    let mut all = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, described) in methods.as_object().unwrap() {
            let text = |name: &str| described[name].as_str().unwrap().to_owned();
            let key = described["security"].get(0).map(|known| &known["key"]);
            all.push(Operation {
                id: text("operationId"),
                method: method.to_uppercase().parse().unwrap(),
                path: path.clone(),
                access: key.map(|scopes| scopes.get(0).map(|scope| scope.as_str().unwrap().to_owned())),
                summary: text("summary"),
            });
        }
    }
    assert!(all.len() > 20, "the document has lost its operations");
    all
}

impl Operation {
    /// The path with these values in the place of its parameters.
    pub(super) fn path_with(&self, value: impl Fn(&str) -> String) -> String {
        let mut parts = self.path.split('{');
        let first = parts.next().unwrap().to_owned();
        parts.fold(first, |path, part| {
            let (name, rest) = part.split_once('}').unwrap();
            path + &value(name) + rest
        })
    }

    /// A request that asks for this operation, of this run if it is about runs.
    pub(super) fn asked_for(&self, server: &Server, run: &str) -> Ask {
        let path = self.path_with(|name| if name == "runId" { run.to_owned() } else { "noop".to_owned() });
        self.asked(server, &path)
    }

    /// A request that asks for this operation.
    pub(super) fn asked(&self, server: &Server, path: &str) -> Ask {
        let request = server.anonymous(self.method.clone(), path);
        match self.method {
            Method::POST | Method::PUT => request.json(&json!({})),
            _ => request,
        }
    }
}

#[tokio::test]
async fn every_operation_wants_the_scope_that_it_names() {
    let site = site();
    let all: Vec<&str> = abide_server::Scope::ALL.iter().map(|(_, name)| *name).collect();
    let keys: Vec<(&str, String)> = all
        .iter()
        .map(|&lacked| {
            let others: Vec<&str> = all.iter().copied().filter(|scope| *scope != lacked).collect();
            (lacked, site.key("default").scopes(&others.join(",")).make())
        })
        .collect();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    let before = site.rows();
    for operation in operations(&server) {
        let Some(Some(scope)) = &operation.access else { continue };
        let (_, key) = keys.iter().find(|(lacked, _)| lacked == scope).expect("the scope is known");
        let refused = answer(operation.asked_for(&server, &run).bearer_auth(key)).await.unwrap();
        let details = refusal(refused, "forbidden");
        assert_eq!(details, json!({ "scopeRequired": scope }), "{}", operation.id);
    }
    assert_eq!(site.rows(), before);
}

#[tokio::test]
async fn every_operation_but_the_public_ones_needs_a_key() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let public: Vec<String> = operations(&server)
        .into_iter()
        .filter(|operation| operation.access.is_none())
        .map(|operation| operation.path)
        .collect();
    let by_token = "/v1/interrupts/{token}";
    assert_eq!(
        public,
        ["/.well-known/openwop", "/healthz", "/readyz", by_token, by_token, "/v1/openapi.json"]
    );
}

#[tokio::test]
async fn a_server_without_a_test_clock_does_not_tell_of_one() {
    let site = site();
    let (plain, other) = (site.start(&[]), super::site());
    let with_clock = other.start(&["--test-clock"]);
    let ids = |server: &Server| -> Vec<String> {
        operations(server).into_iter().map(|operation| operation.id).collect()
    };
    let (plain, mut with_clock) = (ids(&plain), ids(&with_clock));
    with_clock.retain(|id| id != "showClock" && id != "advanceClock");
    assert_eq!(plain, with_clock);
}

#[tokio::test]
async fn what_another_tenant_has_looks_like_what_never_was() {
    let site = site();
    let stranger = site.new_key("strangers");
    let server = site.start(&["--test-clock"]);
    push(&server, &chain("mine", "core.noop", 1, &json!({}))).await;
    set_secret(&server, "mine", "a secret of some length").await;
    let person = json!({ "displayName": "Somebody" });
    let put = server.ask_as(&server.key, Method::PUT, "/v1/people/mine", Some(&person)).await;
    assert!(put.0.is_success(), "{put:?}");
    let run = server.start_run("parked", json!({})).await;
    let key = site.key_id(&server.key);
    let before = site.rows_of("default");
    let mine = |name: &str| match name {
        "runId" => run.clone(),
        "keyId" => key.clone(),
        _ => "mine".to_owned(),
    };
    let nowhere = |name: &str| match name {
        "runId" => "run-00000000-0000-7000-8000-000000000000".to_owned(),
        _ => "none".to_owned(),
    };
    for operation in operations(&server).into_iter().filter(|operation| operation.path.contains('{')) {
        let mut answers = Vec::new();
        for path in [operation.path_with(mine), operation.path_with(nowhere)] {
            let request = operation.asked(&server, &path).bearer_auth(&stranger);
            let (status, body) = answer(request).await.unwrap();
            let body = body.to_string().replace(&run, "<it>").replace(&nowhere("runId"), "<it>");
            let body = body.replace(&format!("'{key}'"), "<it>").replace(&format!("\"{key}\""), "<it>");
            answers.push((
                status,
                body.replace("'mine'", "<it>")
                    .replace("'none'", "<it>")
                    .replace("\"mine\"", "<it>")
                    .replace("\"none\"", "<it>"),
            ));
        }
        assert_eq!(answers[0], answers[1], "{}", operation.id);
    }
    assert_eq!(site.rows_of("default"), before, "a stranger has changed something");
    let (_, snapshot) = server.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(snapshot["status"], "running");
}

/// Where the list of operations stands in the page.
const BEGIN: &str = "<!-- operations -->\n";
const END: &str = "<!-- end of operations -->\n";

#[tokio::test]
async fn the_page_lists_every_operation() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let mut list = String::from("| | scope | |\n|---|---|---|\n");
    for operation in operations(&server) {
        let Operation { method, path, summary, access, .. } = operation;
        let scope = match access {
            None if path.contains("{token}") => "the token".to_owned(),
            None => "none needed".to_owned(),
            Some(None) => "any key".to_owned(),
            Some(Some(scope)) => format!("`{scope}`"),
        };
        list += &format!("| `{method} {path}` | {scope} | {summary} |\n");
    }
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openwop.md");
    let page = std::fs::read_to_string(&file).unwrap();
    let (head, rest) = page.split_once(BEGIN).expect("the page says where the list stands");
    let (_, tail) = rest.split_once(END).expect("the page says where the list ends");
    let expected = format!("{head}{BEGIN}{list}{END}{tail}");
    if std::env::var_os("ABIDE_REGENERATE").is_some() {
        std::fs::write(&file, &expected).unwrap();
        return;
    }
    assert!(
        page == expected,
        "docs/openwop.md differs from the table of operations; run with ABIDE_REGENERATE=1"
    );
}
