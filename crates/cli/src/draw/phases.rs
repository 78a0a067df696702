//! Workflows as OpenIntent writes them, as the nodes and edges that can be drawn.

use std::collections::HashMap;

use abide_core::Graph;
use serde_json::{Value, json};

/// A definition with nodes and edges, whichever way it is written. One of ours is as it was.
pub(crate) fn drawable(definition: Value) -> Value {
    let (Some(phases), true) = (definition["workflow"].as_object(), definition.get("openintent").is_some())
    else {
        return definition;
    };
    let title = |name: &str| phases[name]["title"].as_str().unwrap_or(name).to_owned();
    // A phase may be named by its title too, but a name is a name.
    let mut names: HashMap<String, &str> = phases.keys().map(|name| (title(name), name.as_str())).collect();
    names.extend(phases.keys().map(|name| (name.clone(), name.as_str())));
    let node = |name: &String| json!({ "id": name, "name": title(name), "typeId": "core.phase" });
    let mut edges = Vec::new();
    for (name, phase) in phases {
        let before = phase["depends_on"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let before = before.filter_map(|before| names.get(before));
        edges.extend(before.map(|before| json!({ "sourceNodeId": before, "targetNodeId": name })));
    }
    let graph = Graph::read(definition.to_string().as_bytes()).ok();
    let id = graph.map(|graph| graph.workflow_id.to_string());
    json!({ "id": id, "nodes": phases.keys().map(node).collect::<Vec<_>>(), "edges": edges })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Picture;

    #[test]
    fn phases_are_drawn_with_what_they_depend_on() {
        let definition = json!({
            "openintent": "1.0", "info": { "name": "Q3 Close" },
            "workflow": {
                "review": { "title": "Review It", "assign": "ada", "depends_on": ["fetch"] },
                "fetch": { "title": "Fetch", "assign": "bob" },
                "report": { "title": "Report", "assign": "eve", "depends_on": ["Review It"] },
            },
        });
        let drawn = drawable(definition);
        assert_eq!(drawn["id"], "q3-close");
        let picture = Picture::of(&drawn);
        let order: Vec<&str> =
            picture.order().into_iter().map(|place| picture.nodes[place].id.as_str()).collect();
        assert_eq!(order, ["fetch", "review", "report"]);
        let ours = json!({ "id": "a", "nodes": [{ "id": "n" }], "edges": [] });
        assert_eq!(drawable(ours.clone()), ours);
    }
}
