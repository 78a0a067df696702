//! The `abide` command: server, client, verifier and benchmark in one binary.
//!
//! Results go to standard output, talk goes to standard error, and exit codes are stable (see `exit.rs`).

mod agent;
mod answer;
mod args;
mod backup;
mod bench;
mod client;
mod cluster;
mod compact;
mod config;
mod definition_diff;
mod definition_file;
mod draw;
mod event;
mod exit;
mod follow;
mod graph;
mod group;
mod hand;
mod inbox;
mod keyring;
mod keys;
mod ladder;
mod migrate;
mod notify;
mod output;
mod people;
mod place;
mod restore;
mod resume;
mod run;
mod scaffold;
mod secrets;
mod serve;
mod terminal;
mod turn;
mod verify;
mod webhook;
mod when;
mod worker;
mod workflow;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Verb};

fn main() -> ExitCode {
    let args = Args::parse();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return exit::report(&anyhow::anyhow!("the system refused to start threads: {error}")),
    };
    match runtime.block_on(dispatch(args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::report(&error),
    }
}

async fn dispatch(args: Args) -> anyhow::Result<()> {
    match args.verb {
        Verb::Dev(dev) => serve::dev(dev).await,
        Verb::Serve(serve) => serve::serve(serve).await,
        Verb::Ready(ready) => client::Client::ready(ready).await,
        Verb::Workflow(workflow) => workflow::dispatch(workflow).await,
        Verb::Run(run) => run::dispatch(run).await,
        Verb::Resume(resume) => resume::dispatch(resume).await,
        Verb::Graph(graph) => graph::dispatch(graph).await,
        Verb::Group(group) => group::dispatch(group).await,
        Verb::Hand(hand) => hand::dispatch(hand).await,
        Verb::Turn(turn) => turn::dispatch(turn).await,
        Verb::Provider(provider) => turn::dispatch_provider(provider).await,
        Verb::Inbox(inbox) => inbox::list(inbox).await,
        Verb::Answer(answer) => answer::answer(answer).await,
        Verb::Ladder(ladder) => ladder::dispatch(ladder).await,
        Verb::Event(event) => event::dispatch(event).await,
        Verb::Secrets(secrets) => secrets::dispatch(secrets).await,
        Verb::Webhook(webhook) => webhook::dispatch(webhook).await,
        Verb::Notify(notify) => notify::dispatch(notify).await,
        Verb::Keys(keys) => keys::dispatch(keys).await,
        Verb::Keyring(keyring) => keyring::dispatch(keyring).await,
        Verb::People(people) => people::dispatch(people).await,
        Verb::Agent(agent) => agent::dispatch(agent).await,
        Verb::Worker(worker) => worker::dispatch(worker).await,
        Verb::Kind(kind) => worker::dispatch_kind(kind).await,
        Verb::Cluster(cluster) => cluster::dispatch(cluster).await,
        Verb::Verify(verify) => verify::verify(verify).await,
        Verb::Backup(args) => backup::backup(args).await,
        Verb::Restore(args) => restore::restore(args).await,
        Verb::Migrate(args) => migrate::migrate(args).await,
        Verb::Compact(args) => compact::compact(args).await,
        Verb::Bench(bench) => bench::dispatch(bench).await,
        Verb::Completions { shell } => output::completions(shell),
    }
}
