//! `abide workflow graph`: a definition as a drawing, bare or with the states of a run.

use serde_json::{Value, json};

use super::named;
use crate::args::ClientArgs;
use crate::client::{Client, encoded};
use crate::definition_file::names_file;
use crate::draw::words::legible;
use crate::draw::{Mark, Picture, drawable};
use crate::exit::{Exit, Failure};
use crate::output;
use crate::run::Definitions;
use crate::terminal::Look;

pub(super) async fn graph(
    args: &ClientArgs,
    target: &str,
    svg: bool,
    run: Option<&str>,
) -> anyhow::Result<()> {
    let mut definition = drawable(named(args, target).await?);
    let mut states = None;
    if let Some(run) = run {
        let client = Client::new(args)?;
        let snapshot = client.get(&format!("/v1/runs/{}", encoded(run))).await?;
        demand_same_workflow(&definition, &snapshot)?;
        if !names_file(target) {
            // The run may have begun with another version than the latest.
            definition = Definitions::default().find(&client, &snapshot).await.unwrap_or(definition);
        }
        states = Some(snapshot);
    }
    let picture = marked(Picture::of(&definition), states.as_ref());
    if args.json {
        return output::json(&shown(&picture).to_string());
    }
    output::page(&if svg { picture.to_svg() } else { picture.to_text(Look::of_stdout().columns) })
}

/// A run of another workflow would only mislead.
fn demand_same_workflow(definition: &Value, snapshot: &Value) -> anyhow::Result<()> {
    let (drawn, ran) = (&definition["id"], &snapshot["workflowId"]);
    if drawn == ran {
        return Ok(());
    }
    let message = format!("the run is one of {ran}, not of {drawn}: draw that one");
    Err(Failure::new(Exit::Refused, legible(&message)).into())
}

/// The picture with the states of a run, if there is one.
fn marked(picture: Picture, snapshot: Option<&Value>) -> Picture {
    let state = |id: &str| snapshot.map(|snapshot| snapshot["nodeStates"][id]["status"].as_str());
    picture.marked(|id| state(id).map(|status| status.map_or(Mark::Pending, Mark::of_status)))
}

/// The picture as JSON: edges name nodes by their ids.
fn shown(picture: &Picture) -> Value {
    let nodes = picture.nodes.iter().map(|node| {
        json!({ "id": node.id, "label": node.label, "typeId": node.kind, "state": node.mark.map(Mark::word) })
    });
    let id = |place: usize| &picture.nodes[place].id;
    let edges = picture.edges.iter().map(
        |edge| json!({ "from": id(edge.from), "to": id(edge.to), "label": edge.label, "back": edge.back }),
    );
    json!({ "nodes": nodes.collect::<Vec<_>>(), "edges": edges.collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition() -> Value {
        json!({
            "id": "orders",
            "nodes": [{ "id": "a", "typeId": "core.noop" }, { "id": "b", "typeId": "core.delay", "name": "B" }],
            "edges": [{ "sourceNodeId": "a", "targetNodeId": "b", "label": "then" }],
        })
    }

    #[test]
    fn a_run_marks_the_nodes_of_its_own_workflow() {
        let snapshot = json!({ "workflowId": "orders", "nodeStates": { "a": { "status": "completed" } } });
        demand_same_workflow(&definition(), &snapshot).unwrap();
        let picture = marked(Picture::of(&definition()), Some(&snapshot));
        let marks: Vec<_> = picture.nodes.iter().map(|node| node.mark).collect();
        assert_eq!(marks, [Some(Mark::Done), Some(Mark::Pending)]);
        let refused = demand_same_workflow(&definition(), &json!({ "workflowId": "hello" })).unwrap_err();
        assert_eq!(refused.to_string(), "the run is one of \"hello\", not of \"orders\": draw that one");
    }

    #[test]
    fn the_picture_as_json_names_nodes_by_id() {
        let nodes = json!([
            { "id": "a", "label": "a", "typeId": "core.noop", "state": null },
            { "id": "b", "label": "B", "typeId": "core.delay", "state": null },
        ]);
        let edges = json!([{ "from": "a", "to": "b", "label": "then", "back": false }]);
        assert_eq!(shown(&Picture::of(&definition())), json!({ "nodes": nodes, "edges": edges }));
    }
}
