//! `abide verify`: is everything on disk as the journals say?

use std::io::IsTerminal;
use std::sync::Arc;

use abide_engine::verify::{Finding, Report, verify as verify_store};
use abide_server::RunSealer;
use abide_store::Sealing;
use serde_json::{Value, json};

use crate::args::VerifyArgs;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::place::{Place, Told, USUAL_DATA};

pub(crate) async fn verify(args: VerifyArgs) -> anyhow::Result<()> {
    let told = Told { data: args.data, store: args.store.store };
    let place = Place::of(told, Told::default(), USUAL_DATA)?;
    let sealer = RunSealer::look(&place.keyring(args.keyring)?).map_err(anyhow::Error::msg)?;
    let store = place.open_for_reading(Sealing::with(Arc::new(sealer)))?;
    let terminal = std::io::stderr().is_terminal();
    let progress = |runs: u64| {
        if terminal && runs.is_multiple_of(10_000) {
            output::say(&format!("{runs} runs checked …"));
        }
    };
    let report = verify_store(&*store, progress).await?;
    if args.json {
        output::line(&shown(&report).to_string())?;
    } else {
        tell(&report)?;
    }
    if report.is_clean() {
        return Ok(());
    }
    let message = if report.is_only_interrupted() {
        "erasures were interrupted; erase those runs again with `abide run erase RUN`"
    } else if report.is_only_sealed() {
        "runs are sealed under keys that are not at hand; restore the keyring that belongs to this data"
    } else {
        "the data is not as the journals say; stop the server, keep a copy, restore the last backup"
    };
    Err(Failure::new(Exit::Damaged, message).into())
}

fn tell(report: &Report) -> anyhow::Result<()> {
    for finding in &report.findings {
        output::line(&described(finding))?;
    }
    let verdict = if report.is_clean() {
        "all as it should be".to_owned()
    } else {
        format!("{} runs are bad", report.bad_runs)
    };
    output::line(&format!("{} runs, {} events: {verdict}", report.runs, report.events))
}

fn described(finding: &Finding) -> String {
    let run =
        finding.run.map_or("the store".to_owned(), |key| format!("{} (tenant {})", key.id, key.tenant.0));
    let event = finding.sequence.map_or(String::new(), |sequence| format!(" event {sequence}"));
    format!("{run}{event}: {}", finding.what)
}

fn shown(report: &Report) -> Value {
    let finding = |finding: &Finding| {
        json!({
            "runId": finding.run.map(|key| key.id),
            "tenant": finding.run.map(|key| key.tenant.0),
            "sequence": finding.sequence,
            "what": finding.what,
        })
    };
    json!({
        "runs": report.runs,
        "events": report.events,
        "badRuns": report.bad_runs,
        "sealedRuns": report.sealed_runs,
        "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
    })
}
