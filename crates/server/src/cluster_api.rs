//! The servers on a store over HTTP: who is there, how they do, and what each does for all.

use std::sync::Arc;

use abide_core::Millis;
use abide_store::{Role, ServerRow};
use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::error::Result;
use crate::{shape, time};

/// How the servers on a store stand.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Cluster")]
pub(crate) struct ClusterView {
    /// Whether this server has its store to itself, as with SQLite. The lists are empty then.
    alone: bool,
    /// Those that were heard within the last day, in the order of their starts.
    servers: Vec<ServerView>,
    /// What one server at a time does for all.
    roles: Vec<RoleView>,
}

/// One server.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ClusterServer")]
pub(crate) struct ServerView {
    /// What its operator calls it.
    name: String,
    /// Where the other servers reach it.
    url: String,
    /// Which abide it is.
    version: String,
    /// The number of its start.
    boot: u64,
    /// Whether it is the one that answers.
    this: bool,
    /// Whether the others count on it. If not, they have taken over its work.
    alive: bool,
    /// When it started.
    #[schemars(with = "shape::Moment")]
    started_at: String,
    /// When it was last heard.
    #[schemars(with = "shape::Moment")]
    seen_at: String,
    /// How far its own clock is ahead of the store's. Nothing hangs on it: the store's clock counts everywhere.
    clock_ahead_ms: i64,
    /// How long the oldest thing that it should have done by now has waited.
    lag_ms: i64,
    /// How many tasks it executes.
    tasks: u64,
    /// How many workers have their session there.
    sessions: u64,
    /// What it does for all.
    roles: Vec<&'static str>,
}

/// Something that one server at a time does for all.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ClusterRole")]
pub(crate) struct RoleView {
    /// What it is called.
    role: &'static str,
    /// The name of the server that does it; nobody, for the moment between one and the next.
    server: Option<String>,
}

/// How the servers stand.
pub(crate) async fn show(State(app): State<Arc<App>>) -> Result<Json<ClusterView>> {
    let Some(cluster) = app.cluster() else {
        return Ok(Json(ClusterView { alone: true, servers: Vec::new(), roles: Vec::new() }));
    };
    let (servers, now) = (cluster.servers().await?, cluster.now());
    Ok(Json(view(&servers, app.engine().store().boot(), now)))
}

fn view(servers: &[ServerRow], own: u64, now: Millis) -> ClusterView {
    let holder =
        |role: Role| servers.iter().find(|server| server.until > now && server.roles.contains(&role));
    let of_role =
        |role: Role| RoleView { role: role.name(), server: holder(role).map(|server| server.name.clone()) };
    let shown = |server: &ServerRow| ServerView {
        name: server.name.clone(),
        url: server.url.clone(),
        version: server.version.clone(),
        boot: server.boot,
        this: server.boot == own,
        alive: server.until > now,
        started_at: time::rfc3339(server.started_at),
        seen_at: time::rfc3339(server.seen_at),
        clock_ahead_ms: server.clock_ahead_ms,
        lag_ms: server.lag_ms,
        tasks: server.tasks,
        sessions: server.sessions,
        roles: server.roles.iter().map(|role| role.name()).collect(),
    };
    ClusterView {
        alone: false,
        servers: servers.iter().map(shown).collect(),
        roles: Role::ALL.into_iter().map(of_role).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(boot: u64, until: Millis, roles: &[Role]) -> ServerRow {
        ServerRow {
            boot,
            name: format!("s{boot}"),
            url: String::new(),
            version: String::new(),
            started_at: 0,
            seen_at: 0,
            until,
            clock_ahead_ms: 0,
            lag_ms: 0,
            roles: roles.to_vec(),
            tasks: 0,
            sessions: 0,
        }
    }

    #[test]
    fn a_role_is_told_of_those_who_live_and_nobody_has_what_a_dead_one_had() {
        let servers = [server(1, 9, &[Role::Webhooks]), server(2, 11, &[Role::Notices])];
        let view = view(&servers, 2, 10);
        let holder = |name: &str| view.roles.iter().find(|role| role.role == name).unwrap().server.clone();
        assert_eq!((holder("webhooks"), holder("notices")), (None, Some("s2".to_owned())));
        let told: Vec<_> = view.servers.iter().map(|server| (server.alive, server.this)).collect();
        assert_eq!((told, view.alone), (vec![(false, false), (true, true)], false));
        assert_eq!(view.roles.len(), Role::ALL.len());
    }
}
