//! Runs that start runs: each child once, its end heard once, and nobody left behind when a parent ends.

use abide_core::{Event, Json, JsonMap, Key, RunEvent, Status};
use abide_engine::NewRun;
use serde_json::{Value, json};

use crate::support::{Rig, TENANT, within};

/// A definition of nodes in a chain, each given as (id, kind, config).
fn chain(id: &str, nodes: &[(&str, &str, Value)], variables: &Value) -> Vec<u8> {
    let written: Vec<Value> = nodes
        .iter()
        .map(|(id, kind, config)| {
            json!({ "id": id, "typeId": kind, "name": id, "position": {"x": 0, "y": 0}, "config": config, "inputs": {} })
        })
        .collect();
    let edges: Vec<Value> = nodes
        .windows(2)
        .map(|pair| json!({ "id": format!("{}-{}", pair[0].0, pair[1].0), "sourceNodeId": pair[0].0, "targetNodeId": pair[1].0 }))
        .collect();
    let definition = json!({
        "id": id, "name": id, "version": "1", "nodes": written, "edges": edges, "triggers": [],
        "variables": variables, "metadata": {}, "settings": {},
    });
    definition.to_string().into_bytes()
}

fn call(workflow: &str, more: &Value) -> Value {
    let mut config = json!({ "workflowId": workflow });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    config
}

async fn push(rig: &Rig, definition: &[u8]) {
    rig.engine.push_workflow(TENANT, definition, None).await.unwrap();
}

async fn child_of(rig: &Rig, parent: Key) -> Key {
    let children = rig.engine.children(parent, 10).await.unwrap();
    assert_eq!(children.len(), 1, "{children:?}");
    children[0].child.of(parent.tenant)
}

/// Waits until the child of a parent has started.
async fn started_child_of(rig: &Rig, parent: Key) -> Key {
    within("a child to start", async {
        loop {
            let children = rig.engine.children(parent, 10).await.unwrap();
            match children.first() {
                Some(row) if row.status.is_some() => return row.child.of(parent.tenant),
                _ => tokio::task::yield_now().await,
            }
        }
    })
    .await
}

async fn variable(rig: &Rig, key: Key, name: &str) -> Option<Json> {
    rig.engine.read(key, |run| run.variables().get(name).cloned()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_gets_its_inputs_and_gives_its_variables_back() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let double = json!({ "assign": { "twice": "variables.n * 2" } });
    push(&rig, &chain("double", &[("t", "core.transform", double)], &json!([]))).await;
    let mapped =
        call("double", &json!({ "inputMapping": { "n": "amount" }, "outputMapping": { "result": "twice" } }));
    let variables = json!([{ "name": "amount", "type": "number", "defaultValue": 21 }]);
    push(&rig, &chain("parent", &[("call", "core.subWorkflow", mapped)], &variables)).await;
    let parent = rig.start("parent").await;
    assert_eq!(rig.end_of(parent).await, Status::Completed);
    assert_eq!(variable(&rig, parent, "result").await, Some(Json::of(&42)));
    let child = child_of(&rig, parent).await;
    let told = rig
        .engine
        .read(child, |run| run.parent().map(|parent| (parent.run, parent.node.clone())))
        .await
        .unwrap();
    assert_eq!(told, Some((parent.id, "call".to_owned())));
    rig.outbox_is_empty().await;
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_parent_takes_its_child_and_grandchild_along() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    push(&rig, &chain("middle", &[("call", "core.subWorkflow", call("wait", &json!({})))], &json!([]))).await;
    push(&rig, &chain("top", &[("call", "core.subWorkflow", call("middle", &json!({})))], &json!([]))).await;
    let top = rig.start("top").await;
    let middle = started_child_of(&rig, top).await;
    let bottom = started_child_of(&rig, middle).await;
    rig.engine.cancel(top, Some("enough".to_owned()), None).await.unwrap();
    for key in [middle, bottom] {
        assert_eq!(rig.end_of(key).await, Status::Cancelled);
        let last = rig.engine.events(key, 0, usize::MAX).await.unwrap().pop().unwrap();
        let Ok(Event::Run(RunEvent::Cancelled(told))) = last.event() else { panic!("{last:?}") };
        assert_eq!(told.reason.as_deref(), Some("parent-cancelled"));
        assert!(told.parent_run_id.is_some(), "it says whose end it was");
    }
    rig.outbox_is_empty().await;
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_detached_child_outlives_its_parent() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let detached = call("wait", &json!({ "waitForCompletion": false, "propagateCancellation": false }));
    push(
        &rig,
        &chain(
            "loose",
            &[("call", "core.subWorkflow", detached), ("n", "core.delay", json!({"ms": 5}))],
            &json!([]),
        ),
    )
    .await;
    let parent = rig.start("loose").await;
    let child = started_child_of(&rig, parent).await;
    rig.engine.cancel(parent, None, None).await.unwrap();
    assert_eq!(rig.status(child).await, Status::Running);
    rig.clock.advance(1000).await.unwrap();
    assert_eq!(rig.end_of(child).await, Status::Completed);
    rig.outbox_is_empty().await;
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_can_not_be_started_fails_its_node_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let strict = json!([{ "name": "must", "type": "string", "required": true }]);
    push(&rig, &chain("strict", &[("n", "core.noop", json!({}))], &strict)).await;
    for (workflow, code, word) in [
        ("nowhere", "workflow_not_found", "'nowhere'"),
        ("strict", "child_refused", "'inputs.must' is required"),
    ] {
        push(&rig, &chain("asks", &[("call", "core.subWorkflow", call(workflow, &json!({})))], &json!([])))
            .await;
        let parent = rig.start("asks").await;
        assert_eq!(rig.end_of(parent).await, Status::Failed);
        let error = rig.engine.read(parent, |run| run.error().cloned()).await.unwrap().unwrap();
        assert_eq!(error.code, code);
        assert!(error.message.contains(word), "{}", error.message);
        assert!(rig.engine.children(parent, 10).await.unwrap().is_empty(), "there never was a child");
    }
    rig.outbox_is_empty().await;
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn children_go_on_in_the_next_process() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    push(&rig, &chain("parent", &[("call", "core.subWorkflow", call("wait", &json!({})))], &json!([]))).await;
    let parent = rig.start("parent").await;
    started_child_of(&rig, parent).await;
    rig.close().await;
    let rig = Rig::open(dir.path()).await;
    rig.clock.advance(1000).await.unwrap();
    assert_eq!(rig.end_of(parent).await, Status::Completed);
    rig.outbox_is_empty().await;
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_do_not_see_each_others_workflows() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let other = rig.engine.store().tenant("other".to_owned(), true).await.unwrap().unwrap();
    assert_ne!(other, TENANT);
    push(&rig, &chain("mine", &[("n", "core.noop", json!({}))], &json!([]))).await;
    assert!(rig.engine.start_run(NewRun::of(other, "mine")).await.is_err());
    let calls = chain("calls", &[("call", "core.subWorkflow", call("mine", &json!({})))], &json!([]));
    rig.engine.push_workflow(other, &calls, None).await.unwrap();
    let (run, _) = rig.engine.start_run(NewRun::of(other, "calls")).await.unwrap();
    assert_eq!(rig.end_of(run.of(other)).await, Status::Failed);
    rig.outbox_is_empty().await;
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pushed_version_is_for_new_runs_and_old_ones_keep_theirs() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let version = |result: &str| {
        let assign = json!({ "assign": { "result": format!("'{result}'") } });
        chain("flow", &[("w", "core.delay", json!({"ms": 10})), ("t", "core.transform", assign)], &json!([]))
    };
    push(&rig, &version("one")).await;
    let old = rig.start("flow").await;
    let again = rig.engine.push_workflow(TENANT, &version("one"), None).await.unwrap();
    assert_eq!((again.version, again.created), (1, false));
    let second = rig.engine.push_workflow(TENANT, &version("two"), None).await.unwrap();
    assert_eq!((second.version, second.created), (2, true));
    let new = rig.start("flow").await;
    rig.clock.advance(10).await.unwrap();
    rig.end_of(old).await;
    rig.end_of(new).await;
    assert_eq!(variable(&rig, old, "result").await, Some(Json::of("one")));
    assert_eq!(variable(&rig, new, "result").await, Some(Json::of("two")));
}

/// A workflow that calls itself until its input `depth` is used up.
fn dive() -> Vec<u8> {
    let node = |id: &str, kind: &str, config: Value| json!({ "id": id, "typeId": kind, "name": id, "position": {"x": 0, "y": 0}, "config": config, "inputs": {} });
    let again = call("dive", &json!({ "inputMapping": { "depth": "depth" } }));
    let definition = json!({
        "id": "dive", "name": "dive", "version": "1", "triggers": [], "metadata": {}, "settings": {},
        "variables": [{ "name": "depth", "type": "number", "defaultValue": 0 }],
        "nodes": [
            node("less", "core.transform", json!({ "assign": { "depth": "variables.depth - 1" } })),
            node("more", "core.branch", json!({ "cases": [{ "name": "down", "when": "variables.depth > 0" }], "default": "end" })),
            node("call", "core.subWorkflow", again),
        ],
        "edges": [
            { "id": "a", "sourceNodeId": "less", "targetNodeId": "more" },
            { "id": "b", "sourceNodeId": "more", "targetNodeId": "call", "sourceOutput": "down" },
        ],
    });
    definition.to_string().into_bytes()
}

async fn plunge(rig: &Rig, depth: i64) -> (Status, u64) {
    let before = rig.engine.store().counts().commits;
    let inputs = JsonMap::from([("depth".to_owned(), Json::of(&depth))]);
    let (run, _) = rig.engine.start_run(NewRun { inputs, ..NewRun::of(TENANT, "dive") }).await.unwrap();
    let status = rig.end_of(run.of(TENANT)).await;
    (status, rig.engine.store().counts().commits - before)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_of_children_costs_as_much_as_it_is_long() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    push(&rig, &dive()).await;
    // Each run is started by one commit; each but the first tells its parent, which is another.
    for depth in [10, 1_000] {
        let (status, commits) = plunge(&rig, depth).await;
        assert_eq!(status, Status::Completed);
        assert_eq!(commits, 2 * depth.unsigned_abs() - 1, "{depth} runs");
    }
    rig.outbox_is_empty().await;
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_that_calls_itself_without_end_is_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    push(&rig, &chain("abyss", &[("call", "core.subWorkflow", call("abyss", &json!({})))], &json!([]))).await;
    let run = rig.start("abyss").await;
    assert_eq!(rig.end_of(run).await, Status::Failed);
    let query = abide_store::ListQuery {
        tenant: TENANT,
        status: None,
        workflow: None,
        before: None,
        limit: usize::MAX >> 1,
    };
    let runs = rig.engine.list(query).await.unwrap();
    assert_eq!(runs.len() as u32, abide_core::limits::CHILD_DEPTH_MAX + 1);
    let error = rig.engine.read(run, |run| run.error().cloned()).await.unwrap().unwrap();
    assert!(
        error.details.unwrap().text().contains("child_depth_exceeded"),
        "the first cause is told to the top"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_is_not_waited_for_starts_although_its_parent_has_completed() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let loose = call("wait", &json!({ "waitForCompletion": false }));
    push(&rig, &chain("fire", &[("call", "core.subWorkflow", loose)], &json!([]))).await;
    let parent = rig.start("fire").await;
    assert_eq!(rig.end_of(parent).await, Status::Completed);
    let child = started_child_of(&rig, parent).await;
    rig.clock.advance(1000).await.unwrap();
    assert_eq!(rig.end_of(child).await, Status::Completed);
    rig.outbox_is_empty().await;
    rig.verify().await;
}
