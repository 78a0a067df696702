//! `abide workflow validate`: what is wrong with definitions, without a server.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::definition_file::DefinitionFile;
use crate::exit::{Exit, Failure};
use crate::output;

/// What was found out about one file.
struct Verdict {
    file: DefinitionFile,
    outcome: Result<abide_core::Graph, Vec<abide_core::Problem>>,
}

pub(super) fn validate(paths: &[PathBuf], as_json: bool) -> anyhow::Result<()> {
    let judge = |path: &PathBuf| {
        let file = DefinitionFile::read(path)?;
        Ok(Verdict { outcome: file.admit(), file })
    };
    let verdicts = paths.iter().map(judge).collect::<anyhow::Result<Vec<_>>>()?;
    if as_json {
        let files: Vec<Value> = verdicts.iter().map(Verdict::shown).collect();
        output::json(&json!({ "files": files }).to_string())?;
    } else {
        verdicts.iter().flat_map(Verdict::lines).try_for_each(|line| output::line(&line))?;
    }
    let problems: usize = verdicts.iter().map(|verdict| verdict.problems().len()).sum();
    let wrong = verdicts.iter().filter(|verdict| verdict.outcome.is_err()).count();
    if wrong == 0 {
        return Ok(());
    }
    let message = format!("{} in {wrong} of {}", counted(problems, "problem"), counted(paths.len(), "file"));
    Err(Failure::new(Exit::Refused, message).into())
}

impl Verdict {
    fn problems(&self) -> &[abide_core::Problem] {
        self.outcome.as_ref().err().map_or(&[], Vec::as_slice)
    }

    fn lines(&self) -> Vec<String> {
        match &self.outcome {
            Ok(graph) => {
                let nodes = counted(graph.len(), "node");
                vec![self.file.told("ok", &format!("{}, {nodes}", graph.workflow_id))]
            }
            Err(problems) => {
                problems.iter().map(|problem| self.file.told(&problem.place, &problem.message)).collect()
            }
        }
    }

    fn shown(&self) -> Value {
        let problem =
            |problem: &abide_core::Problem| json!({ "place": problem.place, "message": problem.message });
        json!({
            "file": self.file.path.display().to_string(),
            "valid": self.outcome.is_ok(),
            "workflowId": self.outcome.as_ref().ok().map(|graph| graph.workflow_id.to_string()),
            "problems": self.problems().iter().map(problem).collect::<Vec<_>>(),
        })
    }
}

fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
