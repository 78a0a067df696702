//! `abide cluster`: the servers on one database.

use serde_json::Value;

use crate::args::{ClusterArgs, ClusterVerb};
use crate::client::Client;
use crate::output::{self, cell};

pub(crate) async fn dispatch(args: ClusterArgs) -> anyhow::Result<()> {
    let (client, json) = (Client::new(&args.client)?, args.client.json);
    match args.verb {
        ClusterVerb::Status => {
            let answer = client.get("/v1/cluster").await?;
            if json { output::json(&answer.to_string()) } else { output::line(&told(&answer)) }
        }
    }
}

fn told(answer: &Value) -> String {
    if answer["alone"] == true {
        return "this server is alone: its data directory is its own. Several servers share a PostgreSQL database \
                (--store; `abide migrate` moves the data there)"
            .to_owned();
    }
    let list = |name: &str| answer[name].as_array().cloned().unwrap_or_default();
    let servers = output::table(
        &["SERVER", "URL", "VERSION", "STATE", "STARTED", "SEEN", "CLOCK", "LAG", "TASKS", "WORKERS"],
        list("servers").iter().map(server).collect(),
    );
    let role = |role: &Value| {
        let holder =
            if role["server"].is_null() { "nobody, for a moment".to_owned() } else { cell(&role["server"]) };
        vec![cell(&role["role"]), holder]
    };
    let roles = output::table(&["FOR ALL", "DONE BY"], list("roles").iter().map(role).collect());
    format!("{servers}\n\n{roles}")
}

fn server(server: &Value) -> Vec<String> {
    let state = match (&server["alive"], &server["this"]) {
        (Value::Bool(true), Value::Bool(true)) => "alive, answers this",
        (Value::Bool(true), _) => "alive",
        _ => "gone",
    };
    let ahead = server["clockAheadMs"].as_i64().unwrap_or_default();
    vec![
        cell(&server["name"]),
        cell(&server["url"]),
        cell(&server["version"]),
        state.to_owned(),
        cell(&server["startedAt"]),
        cell(&server["seenAt"]),
        format!("{}{} ms", if ahead < 0 { "" } else { "+" }, ahead),
        format!("{} ms", cell(&server["lagMs"])),
        cell(&server["tasks"]),
        cell(&server["sessions"]),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(name: &str, alive: bool, this: bool) -> Value {
        json!({
            "name": name, "url": format!("http://{name}:7171"), "version": "0.9.0", "boot": 1, "this": this, "alive": alive,
            "startedAt": "2026-01-01T00:00:00.000Z", "seenAt": "2026-01-01T00:00:09.000Z", "clockAheadMs": -3, "lagMs": 0,
            "tasks": 2, "sessions": 1, "roles": [],
        })
    }

    #[test]
    fn servers_and_what_they_do_stand_in_columns() {
        let roles = json!([{ "role": "webhooks", "server": "b" }, { "role": "notices", "server": null }]);
        let servers = json!([shown("a", false, false), shown("b", true, true)]);
        let text = told(&json!({ "alone": false, "servers": servers, "roles": roles }));
        let line = |of: &str| text.lines().find(|line| line.contains(of)).unwrap().to_owned();
        assert!(
            line("http://a:").contains("gone") && line("http://b:").contains("alive, answers this"),
            "{text}"
        );
        assert!(line("http://b:").contains("-3 ms"), "{text}");
        assert!(line("webhooks").ends_with('b') && line("notices").contains("nobody"), "{text}");
    }

    #[test]
    fn one_that_is_alone_says_so() {
        assert!(
            told(&json!({ "alone": true, "servers": [], "roles": [] })).starts_with("this server is alone")
        );
    }
}
