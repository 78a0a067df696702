//! A workflow definition in a file: JSON or YAML.

use std::io::Read;
use std::path::{Path, PathBuf};

use abide_core::limits::DEFINITION_BYTES_MAX;
use abide_core::{Graph, Problem, json_from_yaml};
use anyhow::Context;
use serde_json::Value;

use crate::draw::words::legible;
use crate::exit::{Exit, Failure};

/// A file that is meant to be a definition.
pub(crate) struct DefinitionFile {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// What stands in it.
    pub(crate) text: String,
    is_yaml: bool,
}

impl DefinitionFile {
    /// Reads a file. What stands in it may still be anything.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let unreadable = || format!("{} can't be read", path.display());
        let file = std::fs::File::open(path).with_context(unreadable)?;
        let mut bytes = Vec::new();
        file.take(DEFINITION_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).with_context(unreadable)?;
        if bytes.len() > DEFINITION_BYTES_MAX {
            anyhow::bail!("{} is longer than {DEFINITION_BYTES_MAX} bytes: split it", path.display());
        }
        let text = String::from_utf8(bytes)
            .map_err(|_| anyhow::anyhow!("{} is not text in UTF-8: save it as such", path.display()))?;
        let is_yaml = is_yaml(path, &text);
        Ok(Self { path: path.to_owned(), text, is_yaml })
    }

    /// What to call its content when it is sent.
    pub(crate) fn content_type(&self) -> &'static str {
        if self.is_yaml { "application/yaml" } else { "application/json" }
    }

    /// The graph it defines, or everything that is wrong with it.
    pub(crate) fn admit(&self) -> Result<Graph, Vec<Problem>> {
        Graph::admit(&self.json().map_err(|problem| vec![problem])?)
    }

    /// The definition as JSON, valid or not.
    pub(crate) fn value(&self) -> anyhow::Result<Value> {
        let json = self.json().map_err(|problem| self.refused(&problem))?;
        serde_json::from_slice(&json).map_err(|error| {
            let message = format!("this is not JSON: {error}; correct it there");
            self.refused(&Problem { place: "definition".into(), message }).into()
        })
    }

    /// The id of the workflow it defines. As OpenIntent writes workflows, it is made of their names.
    pub(crate) fn id(&self) -> anyhow::Result<String> {
        let value = self.value()?;
        if value.get("openintent").is_some() {
            let graph = self.admit().map_err(|problems| self.invalid(&problems))?;
            return Ok(graph.workflow_id.to_string());
        }
        let id = value["id"].as_str().filter(|id| !id.is_empty()).map(str::to_owned);
        id.ok_or_else(|| {
            let message = "'id' is missing; add it".into();
            self.refused(&Problem { place: "definition".into(), message }).into()
        })
    }

    /// A problem as one line.
    pub(crate) fn told(&self, place: &str, message: &str) -> String {
        legible(&format!("{}: {place}: {message}", self.path.display()))
    }

    fn json(&self) -> Result<Vec<u8>, Problem> {
        if self.is_yaml { json_from_yaml(&self.text) } else { Ok(self.text.clone().into_bytes()) }
    }

    fn invalid(&self, problems: &[Problem]) -> Failure {
        let told = problems.iter().map(|problem| self.told(&problem.place, &problem.message));
        Failure::new(
            Exit::Refused,
            format!("the definition is not valid:\n{}", told.collect::<Vec<_>>().join("\n")),
        )
    }

    fn refused(&self, problem: &Problem) -> Failure {
        Failure::new(Exit::Refused, self.told(&problem.place, &problem.message))
    }
}

/// The name of a file tells, and where it does not, the text: JSON definitions begin with a brace.
fn is_yaml(path: &Path, text: &str) -> bool {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("json") => false,
        Some("yaml" | "yml") => true,
        _ => !text.trim_start().starts_with('{'),
    }
}

/// Whether a file's name says that it holds a definition.
pub(crate) fn is_one(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json" || extension == "yaml" || extension == "yml")
}

/// Whether what a user typed names a file rather than a workflow: it looks like one, or there is one.
pub(crate) fn names_file(target: &str) -> bool {
    let path = Path::new(target);
    is_one(path) || target.contains('/') || path.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, text: &str) -> DefinitionFile {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        DefinitionFile::read(&path).unwrap()
    }

    #[test]
    fn yaml_is_told_from_json_by_name_and_else_by_content() {
        for (name, text, kind) in [
            ("a.json", "id: a", "application/json"),
            ("a.yaml", "{\"id\": \"a\"}", "application/yaml"),
            ("a.yml", "id: a", "application/yaml"),
            ("a.txt", " \n {\"id\": \"a\"}", "application/json"),
            ("a", "id: a", "application/yaml"),
        ] {
            assert_eq!(file(name, text).content_type(), kind, "{name}");
        }
        assert_eq!(file("a.yaml", "id: orders").id().unwrap(), "orders");
    }

    #[test]
    fn a_workflow_of_openintent_is_called_after_its_name() {
        let text =
            "openintent: \"1.0\"\ninfo: { name: \"Q3 Close\" }\nworkflow:\n  review: { assign: ada }\n";
        assert_eq!(file("a.yaml", text).id().unwrap(), "q3-close");
        let wrong = file("a.yaml", &text.replace("assign", "asign")).id().unwrap_err().to_string();
        assert!(wrong.contains("a.yaml: workflow.review"), "{wrong}");
    }

    #[test]
    fn what_is_no_definition_is_told_with_its_place() {
        let told = |name, text| file(name, text).id().unwrap_err().to_string();
        assert!(told("a.json", "{}").ends_with("a.json: definition: 'id' is missing; add it"));
        assert!(told("a.json", "{").contains("a.json: definition: this is not JSON: "));
        assert!(told("a.yaml", "a: [").contains("a.yaml: line "));
        assert!(told("a.yaml", "").contains("the document is empty"));
    }

    #[test]
    fn a_file_that_can_not_be_one_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        let told = |path: &Path| format!("{:#}", DefinitionFile::read(path).err().unwrap());
        assert!(told(&path).contains("a.json can't be read: "));
        std::fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(told(&path).contains("not text in UTF-8"));
        std::fs::File::create(&path).unwrap().set_len(DEFINITION_BYTES_MAX as u64 + 1).unwrap();
        assert!(told(&path).contains("is longer than"));
    }

    #[test]
    fn ids_and_files_are_told_apart() {
        for target in ["a.json", "b.yml", "x/y", "./orders"] {
            assert!(names_file(target), "{target}");
        }
        assert!(!names_file("orders") && !names_file("orders.v2"));
    }
}
