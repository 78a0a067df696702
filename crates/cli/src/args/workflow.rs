//! `abide workflow`.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args as ClapArgs, Subcommand};

use super::ClientArgs;
use crate::scaffold;

#[derive(ClapArgs)]
pub(crate) struct WorkflowArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    #[command(subcommand)]
    pub(crate) verb: WorkflowVerb,
}

#[derive(Subcommand)]
pub(crate) enum WorkflowVerb {
    /// Print a small definition to begin with: abide workflow new orders --yaml > orders.yaml
    New {
        /// The id of the new workflow
        id: String,
        /// What it shows: one node after another, a choice, a request that is tried again, a child run
        #[arg(long, default_value = "hello", value_parser = PossibleValuesParser::new(scaffold::template_names()))]
        template: String,
        /// YAML with comments instead of JSON
        #[arg(long)]
        yaml: bool,
    },
    /// Check definitions without a server: abide workflow validate workflows/*.yaml
    #[command(
        after_help = "Every problem is a line FILE: place: message, and the exit code is 1 if there is any."
    )]
    Validate {
        /// Definitions in JSON or YAML
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Register definitions: abide workflow push orders.yaml
    #[command(
        after_help = "What differs from the latest version becomes a new one. Runs go on with the version that they \
                      began with."
    )]
    Push {
        /// Definitions in JSON or YAML
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// List the workflows that can be started, or the versions of one
    List {
        /// A workflow's id: list its versions, newest first
        workflow: Option<String>,
    },
    /// Print a definition as it was pushed: abide workflow show orders > orders.json
    Show {
        /// The workflow's id
        workflow: String,
        /// This version instead of the latest
        #[arg(long, value_name = "N")]
        version: Option<u64>,
    },
    /// Tell what changed: abide workflow diff orders.yaml
    #[command(
        after_help = "Of a workflow, the latest version is compared with the one before. A file is compared with the \
                      latest version.\n\nTwo versions:  abide workflow diff orders --from 1 --to 3"
    )]
    Diff {
        /// The workflow's id, or a file with a definition
        #[arg(value_name = "ID|FILE")]
        target: String,
        /// The old version
        #[arg(long, value_name = "N")]
        from: Option<u64>,
        /// The new version; a file is always the new one
        #[arg(long, value_name = "N")]
        to: Option<u64>,
    },
    /// Draw a workflow: abide workflow graph orders.yaml
    #[command(
        after_help = "How far a run has come:  abide workflow graph orders --run RUN\nAs a picture:            \
                      abide workflow graph orders --svg > orders.svg"
    )]
    Graph {
        /// The workflow's id, or a file with a definition
        #[arg(value_name = "ID|FILE")]
        target: String,
        /// SVG instead of text
        #[arg(long)]
        svg: bool,
        /// Mark each node with its state in this run
        #[arg(long, value_name = "RUN")]
        run: Option<String>,
    },
}
