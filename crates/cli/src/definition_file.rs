//! Workflow definitions in files: JSON, or YAML that is turned into JSON.

use std::path::Path;

use abide_core::{Problem, json_from_yaml};
use anyhow::Context;

/// Whether a file's name says that it holds a definition.
pub(crate) fn is_one(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json") || is_yaml(path)
}

fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
}

/// The definition in a file, as JSON. The inner error is what is wrong with its YAML.
pub(crate) fn read(path: &Path) -> anyhow::Result<Result<Vec<u8>, Vec<Problem>>> {
    let source = std::fs::read(path).with_context(|| format!("{} can't be read", path.display()))?;
    Ok(json_of(path, source))
}

fn json_of(path: &Path, source: Vec<u8>) -> Result<Vec<u8>, Vec<Problem>> {
    let looks_like_json = source.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    let json = path.extension().is_some_and(|extension| extension == "json");
    if json || looks_like_json && !is_yaml(path) {
        return Ok(source);
    }
    let text = String::from_utf8(source).map_err(|_| {
        vec![Problem { place: "definition".to_owned(), message: "it is not text in UTF-8".to_owned() }]
    })?;
    json_from_yaml(&text).map_err(|problem| vec![problem])
}
