//! What an event is in plain words, for people who look at a run.
//!
//! Values are not told, only what happened: who wants them reads the journal.

use serde_json::Value;

use super::super::words;

/// A stretch of what a model says.
pub(super) const CHUNK: &str = "ai.message.chunk";

/// What happened.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) text: String,
    pub(super) tone: Tone,
}

/// How loudly it is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Good,
    Warn,
    Bad,
}

impl Tone {
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Good => "good",
            Self::Warn => "warn",
            Self::Bad => "bad",
        }
    }
}

/// What nobody who looks at a run needs to hear of.
const HIDDEN: [&str; 7] = [
    "run.yielded",
    "step.begun",
    "step.recorded",
    "sleep.ended",
    "version.recorded",
    "node.suspended",
    "clarification.requested",
];

/// Whether all is said with the event's name, so that its payload need not be read: these may be large.
pub(super) fn is_plain(kind: &str) -> bool {
    ["node.started", "node.completed", "node.cancelled"].contains(&kind) || HIDDEN.contains(&kind)
}

/// An event in words that follow its node's name; nothing if nobody needs to hear of it.
pub(super) fn words(kind: &str, payload: &Value) -> Option<Told> {
    if HIDDEN.contains(&kind) {
        return None;
    }
    let name = || Some(Told { text: kind.replace(['.', '_', '-'], " "), tone: Tone::Plain });
    let told = run(kind, payload).or_else(|| asked(kind, payload));
    // What was erased has no payload, only a name.
    if payload.is_null() {
        return told.or_else(name);
    }
    match kind {
        "node.due" | "model.called" | "node.noted" => quiet(kind, payload),
        _ => told.or_else(|| turn(kind, payload)).or_else(|| node(kind, payload)).or_else(name),
    }
}

/// What only tells something at times.
fn quiet(kind: &str, payload: &Value) -> Option<Told> {
    let text = match kind {
        "node.due" => format!("{} has it tried again now", payload["by"].as_str()?),
        "model.called" => {
            let retry = payload["attempt"].as_u64().filter(|attempt| *attempt > 0)?;
            format!("calls the model again, retry {retry}")
        }
        _ => return noted(payload),
    };
    Some(Told { text, tone: Tone::Plain })
}

/// What happens to nodes on their way.
fn node(kind: &str, payload: &Value) -> Option<Told> {
    let text = |name: &str| payload[name].as_str().unwrap_or_default();
    let (tone, text) = match kind {
        "node.skipped" => (Tone::Plain, "skipped".to_owned()),
        "node.spawned" => (Tone::Plain, format!("starts the workflow {} as a child", text("workflowId"))),
        "node.parked" => (Tone::Plain, "waits".to_owned()),
        "node.resumed" => (Tone::Plain, "goes on".to_owned()),
        "child.reported" => (Tone::Plain, format!("the child of {} is {}", text("node"), text("lifecycle"))),
        "variable.changed" => (Tone::Plain, format!("the variable {} has a new value", text("name"))),
        "channel.written" => (Tone::Plain, format!("wrote to the channel {}", text("channel"))),
        "artifact.created" => (Tone::Plain, format!("made the artifact {}", text("artifactId"))),
        "loop.restarted" => {
            (Tone::Plain, format!("the loop at {} starts over ({})", text("node"), payload["iteration"]))
        }
        "sleep.started" => (Tone::Plain, format!("its worker sleeps until {}", moment(payload))),
        "task.lost" => (Tone::Warn, format!("its worker is gone ({}); it is offered again", text("reason"))),
        "node.retried" => {
            let again = format!("attempt {} failed, the next is at {}", payload["attempt"], moment(payload));
            (Tone::Warn, with_error(&again, payload))
        }
        "node.interrupted" => (Tone::Warn, with_error("interrupted", payload)),
        "cap.breached" => (Tone::Bad, format!("a limit was reached: {}", text("kind"))),
        "child.refused" => {
            (Tone::Bad, with_error(&format!("the child of {} could not be started", text("node")), payload))
        }
        _ => return None,
    };
    Some(Told { text, tone })
}

/// Beginnings and ends.
fn run(kind: &str, payload: &Value) -> Option<Told> {
    let by = |name: &str| payload[name].as_str().map(|who| format!(" by {who}")).unwrap_or_default();
    let why = payload["reason"].as_str().map(|why| format!(": {why}")).unwrap_or_default();
    let (tone, text) = match kind {
        "run.started" => (Tone::Plain, format!("the run was started{}", by("by"))),
        "run.completed" => (Tone::Good, "the run completed".to_owned()),
        "run.failed" => (Tone::Bad, with_error("the run failed", payload)),
        "run.cancelling" => (Tone::Warn, format!("the run is being cancelled{}{why}", by("cancelledBy"))),
        "run.cancelled" => (Tone::Bad, format!("the run was cancelled{}{why}", by("cancelledBy"))),
        "run.pausing" => (Tone::Warn, format!("the run is about to be paused{}{why}", by("by"))),
        "run.paused" => (Tone::Warn, format!("the run was paused{}{why}", by("by"))),
        "run.resumed" => (Tone::Plain, format!("the run goes on{}{why}", by("by"))),
        "run.held" => {
            let done = if payload["mode"] == "stop" { "stopped" } else { "paused" };
            (Tone::Warn, format!("the run was {done}{}{why}", by("by")))
        }
        "run.released" => (Tone::Plain, format!("the run was released{}{why}", by("by"))),
        "resume.requested" => (Tone::Plain, format!("asked to go on{}{why}", by("by"))),
        "resume.escalated" => (Tone::Warn, "held until a person decides how the run goes on".to_owned()),
        "resume.switched" => {
            let stands = if payload["auto"] == true { "resumes" } else { "does not resume" };
            (Tone::Plain, format!("the run {stands} by itself from now on{}{why}", by("by")))
        }
        "resume_decision" => {
            let verdict = if payload["eligible"] == true { "may go on" } else { "may not go on yet" };
            let code = payload["reason_code"].as_str().unwrap_or_default();
            (Tone::Plain, format!("after an interruption the run {verdict} [{code}]"))
        }
        "node.started" => (Tone::Plain, "started".to_owned()),
        "node.completed" => (Tone::Good, "completed".to_owned()),
        "node.cancelled" => (Tone::Plain, "cancelled".to_owned()),
        "node.failed" => (Tone::Bad, with_error("failed", payload)),
        _ => return None,
    };
    Some(Told { text, tone })
}

/// Questions to people.
fn asked(kind: &str, payload: &Value) -> Option<Told> {
    let (tone, text) = match kind {
        "interrupt.requested" => (Tone::Warn, "asks people, and waits".to_owned()),
        "interrupt.renotified" => (Tone::Plain, "people are told again".to_owned()),
        "interrupt.escalated" => (Tone::Warn, "nobody has answered, so others are told".to_owned()),
        "interrupt.expired" => (Tone::Warn, "nobody answered in time".to_owned()),
        "notice.refused" => (Tone::Warn, "somebody may not be told of the question".to_owned()),
        "approval.received" => {
            let (action, by) = (payload["action"].as_str(), payload["decidedBy"].as_str());
            let did = match action {
                Some("accept") => "accepted",
                Some("reject") => "rejected",
                _ => "decided",
            };
            (Tone::Plain, format!("{} {did}", by.unwrap_or("somebody")))
        }
        "clarification.resolved" => (Tone::Plain, "its questions are answered".to_owned()),
        "interrupt.resolved" => {
            let by = payload["resolvedBy"].as_str().map(|by| format!(" by {by}")).unwrap_or_default();
            (Tone::Plain, format!("its question is closed{by}"))
        }
        _ => return None,
    };
    Some(Told { text, tone })
}

/// Turns of models.
fn turn(kind: &str, payload: &Value) -> Option<Told> {
    let text = |name: &str| payload[name].as_str().unwrap_or_default();
    let (tone, text) = match kind {
        "turn.began" => {
            let model = payload["model"].as_str().map(|model| format!(" ({model})")).unwrap_or_default();
            (Tone::Plain, format!("asks {}{model}", text("provider")))
        }
        "model.answered" => (Tone::Plain, "has the model's answer".to_owned()),
        "provider.usage" => {
            let (used, made) = (&payload["inputTokens"], &payload["outputTokens"]);
            (Tone::Plain, format!("{used} tokens went in, {made} came out"))
        }
        "provider-retry" => {
            let code = payload["code"].as_str().map(|code| format!(" [{code}]")).unwrap_or_default();
            let wait = words::left(payload["delayMs"].as_i64().unwrap_or(0));
            let retry = payload["attempt"].as_u64().unwrap_or(0).saturating_add(1);
            let failed = format!("its provider can't answer: {}{code}", text("message"));
            (Tone::Warn, format!("{failed}; retry {retry} follows after {wait}"))
        }
        "provider.postponed" => (Tone::Warn, format!("held back while {} fails", text("provider"))),
        "tool.answered" if payload["isError"] == true => {
            (Tone::Warn, format!("the tool {} failed", text("name")))
        }
        "tool.answered" => (Tone::Plain, format!("the tool {} answered", text("name"))),
        "turn.sealed" if payload["status"] == "completed" => (Tone::Good, "the turn is complete".to_owned()),
        "turn.sealed" => (Tone::Bad, with_error(&format!("the turn is {}", text("status")), payload)),
        _ => return None,
    };
    Some(Told { text, tone })
}

/// What a worker says: its last line, or how far it is.
fn noted(payload: &Value) -> Option<Told> {
    let line = payload["lines"].as_array().and_then(|lines| lines.last());
    let said = line.and_then(|line| line["message"].as_str());
    let said = said.or_else(|| payload["progress"]["message"].as_str());
    let done = || payload["progress"]["done"].as_f64().map(|done| format!("{done} done"));
    let text = said.map(str::to_owned).or_else(done)?;
    Some(Told { text: format!("its worker: {text}"), tone: Tone::Plain })
}

fn with_error(what: &str, payload: &Value) -> String {
    let error = &payload["error"];
    match (error["message"].as_str(), error["code"].as_str()) {
        (Some(message), Some(code)) => format!("{what}: {message} [{code}]"),
        (Some(message), None) => format!("{what}: {message}"),
        _ => what.to_owned(),
    }
}

fn moment(payload: &Value) -> String {
    payload["until"].as_i64().map(words::moment_exact).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use abide_core::event_types;
    use serde_json::json;

    use super::*;

    fn told(kind: &str, payload: &Value) -> String {
        words(kind, payload).unwrap().text
    }

    #[test]
    fn every_event_has_words_or_is_left_out_whatever_it_says() {
        for kind in event_types() {
            for payload in [json!(null), json!({}), json!({ "error": 7, "until": "x", "lines": {} })] {
                let told = words(kind.name, &payload).map(|told| told.text);
                let is_whole =
                    |text: &String| !payload.is_null() || !text.contains("  ") && !text.ends_with(' ');
                assert!(told.is_none_or(|text| !text.is_empty() && is_whole(&text)), "{}", kind.name);
            }
        }
        assert_eq!(told("something.new_here", &json!({})), "something new here");
    }

    #[test]
    fn failures_are_told_with_their_code() {
        let error = json!({ "error": { "code": "http_error", "message": "it said no" } });
        assert_eq!(told("node.failed", &error), "failed: it said no [http_error]");
        assert_eq!(told("run.failed", &json!({})), "the run failed");
        let retry =
            json!({ "attempt": 1, "delayMs": 90_000, "message": "HTTP 429: slow down", "code": "429" });
        assert_eq!(
            told("provider-retry", &retry),
            "its provider can't answer: HTTP 429: slow down [429]; retry 2 follows after 1 min 30 s"
        );
    }
}
