//! Starter definitions for `abide workflow new`: small, complete, and in YAML with comments that teach.
//!
//! Each template is kept in both forms, because comments can't be made from JSON; a test holds them equal.

/// Where the workflow's id and name go.
const ID: &str = "@ID@";
const NAME: &str = "@NAME@";

/// Ids are also names of files and parts of addresses, so they stay short.
const ID_CHARS_MAX: usize = 128;

struct Template {
    name: &'static str,
    json: &'static str,
    yaml: &'static str,
}

macro_rules! template {
    ($name:literal) => {
        Template {
            name: $name,
            json: include_str!(concat!("scaffold/", $name, ".json")),
            yaml: include_str!(concat!("scaffold/", $name, ".yaml")),
        }
    };
}

const TEMPLATES: [Template; 4] =
    [template!("hello"), template!("branch"), template!("retry"), template!("parent")];

/// The names of the templates.
pub(crate) fn template_names() -> impl Iterator<Item = &'static str> {
    TEMPLATES.iter().map(|template| template.name)
}

/// A definition with the given id after a template, as YAML or JSON.
pub(crate) fn scaffold(id: &str, template: &str, yaml: bool) -> Result<String, String> {
    if !is_workflow_id(id) {
        return Err(format!(
            "{id:?} can't be the id of a workflow: begin with a lower-case letter and go on with lower-case \
             letters, digits, - and _, at most {ID_CHARS_MAX} characters"
        ));
    }
    let Some(found) = TEMPLATES.iter().find(|known| known.name == template) else {
        let known: Vec<&str> = template_names().collect();
        return Err(format!("there is no template {template:?}: choose one of {}", known.join(", ")));
    };
    let text = if yaml { found.yaml } else { found.json };
    Ok(text.replace(ID, id).replace(NAME, &name_from(id)))
}

fn is_workflow_id(id: &str) -> bool {
    let rest = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    id.starts_with(|c: char| c.is_ascii_lowercase()) && id.chars().all(rest) && id.len() <= ID_CHARS_MAX
}

/// `order-intake` is called `Order intake`.
fn name_from(id: &str) -> String {
    let words = id.replace(['-', '_'], " ");
    let mut letters = words.trim().chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::draw::Picture;

    const WORKFLOW_KEYS: [&str; 9] =
        ["id", "name", "version", "nodes", "edges", "triggers", "variables", "metadata", "settings"];
    const NODE_KEYS: [&str; 6] = ["id", "typeId", "name", "position", "config", "inputs"];
    const EDGE_KEYS: [&str; 3] = ["id", "sourceNodeId", "targetNodeId"];

    fn json(template: &str) -> Value {
        serde_json::from_str(&scaffold("order-intake", template, false).unwrap()).unwrap()
    }

    fn demand_keys(value: &Value, keys: &[&str]) {
        for key in keys {
            assert!(value.get(key).is_some(), "{key} is missing in {value}");
        }
    }

    #[test]
    fn every_template_has_the_required_keys() {
        for template in template_names() {
            let definition = json(template);
            demand_keys(&definition, &WORKFLOW_KEYS);
            assert_eq!(
                (&definition["id"], &definition["name"]),
                (&"order-intake".into(), &"Order intake".into())
            );
            definition["nodes"].as_array().unwrap().iter().for_each(|node| demand_keys(node, &NODE_KEYS));
            definition["edges"].as_array().unwrap().iter().for_each(|edge| demand_keys(edge, &EDGE_KEYS));
        }
    }

    #[test]
    fn every_template_is_admitted() {
        for template in template_names() {
            let graph =
                abide_core::Graph::admit(scaffold("order-intake", template, false).unwrap().as_bytes());
            let graph = graph.unwrap_or_else(|problems| panic!("{template}: {problems:?}"));
            assert_eq!(&*graph.workflow_id, "order-intake");
            let yaml =
                abide_core::json_from_yaml(&scaffold("order-intake", template, true).unwrap()).unwrap();
            assert_eq!(abide_core::Graph::admit(&yaml).unwrap().len(), graph.len());
        }
    }

    #[test]
    fn yaml_and_json_say_the_same() {
        for template in template_names() {
            let yaml: Value =
                serde_saphyr::from_str(&scaffold("order-intake", template, true).unwrap()).unwrap();
            assert_eq!(yaml, json(template), "{template}");
        }
    }

    #[test]
    fn words_that_yaml_takes_for_values_stay_ids() {
        for id in ["null", "yes", "true", "e1", "n-"] {
            let yaml: Value = serde_saphyr::from_str(&scaffold(id, "hello", true).unwrap()).unwrap();
            assert_eq!(yaml["id"], id);
        }
    }

    #[test]
    fn every_edge_and_input_leads_to_something_that_exists() {
        for template in template_names() {
            let definition = json(template);
            let edges = definition["edges"].as_array().unwrap().len();
            assert_eq!(Picture::of(&definition).edges.len(), edges, "{template}");
            let variables: Vec<&Value> = definition["variables"]
                .as_array()
                .unwrap()
                .iter()
                .map(|variable| &variable["name"])
                .collect();
            let nodes = definition["nodes"].as_array().unwrap().iter();
            for port in nodes.flat_map(|node| node["inputs"].as_object().unwrap().values()) {
                assert!(variables.contains(&&port["variableName"]), "{template}: {port}");
            }
        }
    }

    #[test]
    fn the_branch_names_its_cases_on_its_edges() {
        let definition = json("branch");
        let cases = definition["nodes"][0]["config"]["cases"].as_array().unwrap();
        for (case, edge) in cases.iter().zip(definition["edges"].as_array().unwrap()) {
            assert_eq!(case["name"], edge["sourceOutput"]);
        }
    }

    #[test]
    fn a_bad_id_or_template_is_refused_with_what_to_change() {
        for id in ["", "Orders", "1st", "a b", "a\"", "a\n", "é", &"x".repeat(129)] {
            assert!(
                scaffold(id, "hello", false).unwrap_err().contains("begin with a lower-case letter"),
                "{id}"
            );
        }
        let refused = scaffold("orders", "helo", true).unwrap_err();
        assert_eq!(refused, "there is no template \"helo\": choose one of hello, branch, retry, parent");
    }
}
