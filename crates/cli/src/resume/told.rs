//! How a run stands between an interruption and going on, in sentences.
//!
//! It is read by somebody who has to decide something: how it stands first, then what happened, then which command helps.

use jiff::Timestamp;
use serde_json::Value;

use crate::draw::words::legible;
use crate::output::{self, cell};
use crate::when;

/// Decisions that are shown; the others are in the JSON.
const DECISIONS: usize = 5;

/// The whole of `abide resume status`.
pub(super) fn status(view: &Value, now: Timestamp) -> String {
    let mut parts = vec![stands(view)];
    parts.extend(list(view, "steps").iter().map(|step| self::step(step, now)));
    parts.extend(unreadable(view));
    // The checklist ends with the commands.
    parts.extend(checklist(view).or_else(|| next(view)));
    parts.extend(decisions(view, now));
    parts.join("\n\n")
}

/// What `abide resume now` says when it worked.
pub(super) fn resumed(view: &Value) -> String {
    let run = cell(&view["runId"]);
    match list(view, "decisions").first() {
        Some(last) => format!("{run} goes on: {}", attempt(last)),
        None => format!("{run} goes on"),
    }
}

/// What `abide resume now` says when it was refused.
pub(super) fn refused(view: &Value, decision: &Value, run: &str) -> String {
    let code = decision["reason_code"].as_str().unwrap_or_default();
    let told = format!("{} is not resumed: {} [{}]", legible(run), meaning(view, decision), legible(code));
    let mut lines = vec![told];
    lines.extend(list(view, "steps").iter().map(|step| {
        let unknown = if is_unknown(step) { format!("; {UNKNOWN}") } else { String::new() };
        format!("  {}: {}{unknown}", cell(&step["node"]), cell(&step["message"]))
    }));
    lines.extend(commands(view, code, run).into_iter().map(|line| format!("  next: {line}")));
    lines.join("\n")
}

/// Said of what nobody knows the outcome of, wherever it is shown.
pub(crate) const UNKNOWN: &str = "its effect may or may not have happened";

/// How it stands, in one sentence.
fn stands(view: &Value) -> String {
    let (run, decision) = (cell(&view["runId"]), &view["decision"]);
    let code = decision["reason_code"].as_str().unwrap_or_default();
    let state = cell(&view["status"]);
    if view["interrupted"] != true {
        let why = if decision.is_object() { format!(" [{}]", legible(code)) } else { String::new() };
        return format!("{run} is not interrupted: it is {state}{why}{}", switched_off(view));
    }
    if view["escalated"] == true {
        let why = meaning(view, decision);
        return format!("{run} is held and goes on only if somebody says so [{}]\n{why}", legible(code));
    }
    match code {
        "resume_blocked_cooldown" => format!(
            "{run} is interrupted; it goes on by itself in {} s: {} [{code}]",
            cell(&decision["cooldown_seconds_remaining"]),
            attempt(decision)
        ),
        "resume_allowed" if view["autoResume"] != false => {
            format!("{run} is interrupted; it goes on by itself at once: {} [{code}]", attempt(decision))
        }
        _ => format!("{run} is interrupted: {} [{}]", meaning(view, decision), legible(code)),
    }
}

fn switched_off(view: &Value) -> &'static str {
    if view["autoResume"] == false && view["status"] == "running" {
        "; after an interruption it waits for somebody"
    } else {
        ""
    }
}

fn attempt(decision: &Value) -> String {
    format!("attempt {}", counted(decision))
}

/// Which attempt, of how many; whoever forces one may be beyond that.
fn counted(decision: &Value) -> String {
    let (attempt, limit) = (cell(&decision["attempt"]), cell(&decision["max_attempts"]));
    let beyond = decision["attempt"].as_u64() > decision["max_attempts"].as_u64();
    if beyond { format!("{attempt}, beyond the limit of {limit}") } else { format!("{attempt} of {limit}") }
}

/// What a decision means for this run.
fn meaning(view: &Value, decision: &Value) -> String {
    match decision["reason_code"].as_str().unwrap_or_default() {
        "resume_allowed" if view["autoResume"] == false => {
            "automatic resume is switched off for it".to_owned()
        }
        "resume_allowed" => "nothing speaks against it".to_owned(),
        "resume_missing_checkpoint" => "there is no point in it to go on from".to_owned(),
        "resume_unknown_interruption_class" => {
            format!(
                "nothing is known about interruptions of class '{}'",
                cell(&decision["interruption_class"])
            )
        }
        "resume_non_idempotent_step" => {
            format!(
                "{} must not be done twice, and nobody has approved that it is done again",
                unsafe_steps(view)
            )
        }
        "resume_missing_runtime_artifacts" => {
            "something that it needs to go on can't be read or is not what was written".to_owned()
        }
        "resume_attempt_limit_reached" => {
            format!("it was resumed as often as it may be, {} times", cell(&decision["max_attempts"]))
        }
        "resume_blocked_cooldown" => {
            format!("it cools down for another {} s", cell(&decision["cooldown_seconds_remaining"]))
        }
        other => legible(other),
    }
}

/// The steps that somebody has to approve.
fn unapproved(view: &Value) -> Vec<String> {
    let steps = list(view, "steps").iter().filter(|step| !may_repeat(step));
    steps.map(|step| cell(&step["node"])).collect()
}

fn unsafe_steps(view: &Value) -> String {
    let steps = unapproved(view);
    if steps.is_empty() { "a step".to_owned() } else { steps.join(", ") }
}

fn is_unknown(step: &Value) -> bool {
    step["effect"] == "unknown"
}

/// Whether a step may be done again though nobody approves that.
fn may_repeat(step: &Value) -> bool {
    step["repeatable"] == true
}

/// One interrupted step: what happened to it, and what that means for doing it again.
fn step(step: &Value, now: Timestamp) -> String {
    let at = when::told(step["at"].as_str().unwrap_or_default(), now).unwrap_or_default();
    let mut lines = vec![
        format!("- {}: {}, {at}", cell(&step["node"]), cell(&step["class"])),
        format!("  {} [{}]", cell(&step["message"]), cell(&step["code"])),
    ];
    let begun: Vec<String> = list(step, "steps").iter().map(cell).collect();
    if !begun.is_empty() {
        lines.push(format!("  under way: {}", begun.join(", ")));
    }
    let effect = if is_unknown(step) { UNKNOWN } else { "it had no effect" };
    let again = match (may_repeat(step), step["irreversible"] == true) {
        (true, _) => "it is idempotent, so it may be done again",
        (false, true) => "it can't be undone, so somebody has to approve that it is done again",
        (false, false) if begun.is_empty() => {
            "it is not marked idempotent, so somebody has to approve that it is done again"
        }
        (false, false) => "it must not be done twice, so somebody has to approve that it is done again",
    };
    lines.push(format!("  {effect}; {again}"));
    lines.join("\n")
}

/// What can't be read of the run.
fn unreadable(view: &Value) -> Option<String> {
    let artifacts = view["artifacts"].as_object()?;
    let missing: Vec<String> =
        artifacts.iter().filter(|(_, there)| **there == false).map(|(name, _)| legible(name)).collect();
    let problems: String =
        list(view, "problems").iter().map(|problem| format!("\n  {}", cell(problem))).collect();
    (!missing.is_empty()).then(|| format!("can't be read: {}{problems}", missing.join(", ")))
}

fn checklist(view: &Value) -> Option<String> {
    if view["escalated"] != true {
        return None;
    }
    let lines = list(view, "checklist").iter().enumerate();
    let told: Vec<String> = lines.map(|(at, line)| format!("  {}. {}", at + 1, cell(line))).collect();
    (!told.is_empty()).then(|| format!("what to do:\n{}", told.join("\n")))
}

/// The commands that help, if the run needs any.
fn next(view: &Value) -> Option<String> {
    let code = view["decision"]["reason_code"].as_str()?;
    // A run that has ended and can be read needs nothing.
    if view["interrupted"] != true && code == "resume_missing_checkpoint" {
        return None;
    }
    let lines = commands(view, code, &cell(&view["runId"]));
    (!lines.is_empty()).then(|| {
        format!("next:\n{}", lines.iter().map(|line| format!("  {line}\n")).collect::<String>().trim_end())
    })
}

/// Which commands help, for each reason code.
fn commands(view: &Value, code: &str, run: &str) -> Vec<String> {
    let run = legible(run);
    let now = format!("abide resume now {run}");
    let forced = format!("{now} --force --reason TEXT");
    let mut lines = match code {
        "resume_allowed" if view["autoResume"] == false => vec![now, format!("abide resume enable {run}")],
        "resume_non_idempotent_step" => {
            let steps = unapproved(view);
            let steps = if steps.is_empty() { vec!["NODE".to_owned()] } else { steps };
            let flags = |flag: fn(&String) -> String| steps.iter().map(flag).collect::<String>();
            let again = flags(|node| format!(" --approve-step {node}"));
            let done = flags(|node| format!(" --done '{node}=JSON'"));
            vec![
                format!("{now}{again}   (it was not done, or may be done again)"),
                format!("{now}{done}   (it was done, and this came of it)"),
            ]
        }
        "resume_attempt_limit_reached" => vec![forced],
        "resume_blocked_cooldown" => vec![format!("{forced}   (or wait: it goes on by itself)")],
        "resume_unknown_interruption_class" => vec![format!("{forced} --interruption-class CLASS")],
        "resume_missing_runtime_artifacts" => {
            vec![
                "abide verify --data DIR".to_owned(),
                format!("{forced} --truncate   (loses what is cut off)"),
            ]
        }
        "resume_missing_checkpoint" => vec![format!("abide run show {run}   (how it ended)")],
        _ => Vec::new(),
    };
    if view["escalated"] == true {
        lines.push(format!("abide answer {run}   (accept resumes it, reject gives it up)"));
    }
    lines
}

/// The latest decisions, newest first.
fn decisions(view: &Value, now: Timestamp) -> Option<String> {
    let all = list(view, "decisions");
    let row = |decision: &Value| {
        vec![
            when::told(decision["at"].as_str().unwrap_or_default(), now).unwrap_or_default(),
            cell(&decision["reason_code"]),
            cell(&decision["interruption_class"]),
            counted(decision),
            cell(&decision["actor"]),
        ]
    };
    let rows: Vec<Vec<String>> = all.iter().take(DECISIONS).map(row).collect();
    (!rows.is_empty()).then(|| {
        let table = output::table(&["DECIDED", "DECISION", "CLASS", "ATTEMPT", "BY"], rows);
        let more = all.len().saturating_sub(DECISIONS);
        if more > 0 { format!("{table}\n… {more} more with --json") } else { table }
    })
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[][..], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn decision(code: &str, attempt: u64, remaining: u64) -> Value {
        json!({
            "event": "resume_decision", "run_id": "run-1", "interruption_class": "tool_failure",
            "eligible": code == "resume_allowed", "reason_code": code, "cooldown_seconds_remaining": remaining,
            "attempt": attempt, "max_attempts": 3, "at": "2026-01-01T11:59:30Z", "actor": "system",
        })
    }

    fn view(code: &str, attempt: u64, remaining: u64) -> Value {
        json!({
            "runId": "run-1", "status": "running", "interrupted": true, "escalated": false, "autoResume": true,
            "decision": decision(code, attempt, remaining),
            "resumePoint": { "sequence": 7, "status": "failed", "valid": true },
            "artifacts": { "plan": true, "state": true, "history": true },
            "steps": [{
                "node": "charge", "class": "tool_failure", "code": "http_status", "message": "the server\u{1b}[2J answered 503",
                "effect": "unknown", "steps": [], "idempotent": false, "irreversible": false,
                "repeatable": false, "at": "2026-01-01T11:59:00.000Z",
            }],
            "checklist": [], "decisions": [],
        })
    }

    fn page(view: &Value) -> String {
        status(view, "2026-01-01T12:00:00Z".parse().unwrap())
    }

    #[test]
    fn a_run_that_cools_down_says_when_it_goes_on() {
        let mut view = view("resume_blocked_cooldown", 2, 30);
        view["steps"][0]["idempotent"] = true.into();
        view["steps"][0]["repeatable"] = true.into();
        view["decisions"] =
            json!([decision("resume_blocked_cooldown", 2, 30), decision("resume_allowed", 1, 0)]);
        insta::assert_snapshot!(page(&view));
    }

    #[test]
    fn an_escalated_run_says_what_to_do_and_what_is_unknown() {
        let mut view = view("resume_non_idempotent_step", 1, 0);
        view["escalated"] = true.into();
        view["status"] = "paused".into();
        view["steps"][0]["steps"] = json!(["pay", "book"]);
        view["checklist"] = json!(["Find out whether 'charge' had its effect."]);
        view["decisions"] = (0..7).map(|_| decision("resume_non_idempotent_step", 1, 0)).collect();
        insta::assert_snapshot!(page(&view));
    }

    #[test]
    fn every_code_has_its_meaning_and_its_command() {
        let codes = [
            "resume_allowed",
            "resume_missing_checkpoint",
            "resume_unknown_interruption_class",
            "resume_non_idempotent_step",
            "resume_missing_runtime_artifacts",
            "resume_attempt_limit_reached",
            "resume_blocked_cooldown",
        ];
        let told = codes.map(|code| {
            let view = view(code, 2, 7);
            refused(&view, &view["decision"], "run-1")
        });
        insta::assert_snapshot!(told.join("\n\n"));
    }

    #[test]
    fn a_run_that_is_not_interrupted_says_so() {
        let view = json!({ "runId": "run-1", "status": "running", "interrupted": false, "escalated": false,
            "autoResume": false, "decision": null, "artifacts": { "plan": true, "state": true, "history": true },
            "steps": [], "checklist": [], "decisions": [] });
        let told = "run-1 is not interrupted: it is running; after an interruption it waits for somebody";
        assert_eq!(page(&view), told);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let mut view = view("resume_missing_runtime_artifacts", 1, 0);
        view["artifacts"] = json!({ "plan": true, "state": false, "history": false });
        view["problems"] = json!(["event 7 is not what was written"]);
        let told = "\n\ncan't be read: history, state\n  event 7 is not what was written\n\n";
        assert!(page(&view).contains(told), "{}", page(&view));
    }
}
