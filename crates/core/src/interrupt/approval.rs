//! Approvals: what is shown of an artifact, and what may be decided about it.

use super::answer::{Action, Answer, Answerer, Decision, Refused, recorded, refused};
use super::form::{Faults, known_word, optional_text, text, texts};
use super::legacy::Legacy;
use super::payload::Unbuilt;
use crate::fields::{Entries, Fields, Findings, ROOT};
use crate::limits::{
    APPROVALS_MAX, APPROVERS_MAX, ASK_NAME_CHARS_MAX, ASK_TEXT_CHARS_MAX, ASK_TITLE_CHARS_MAX,
    FEEDBACK_CHARS_MAX, FEEDBACK_ITEMS_MAX, PRINCIPAL_CHARS_MAX, REASON_CHARS_MAX,
};
use crate::moment::moment;
use crate::{Json, JsonMap, Millis};

/// What a gate may offer. `ask` is no decision: it leaves the gate open.
const OFFERS: [&str; 5] = ["accept", "reject", "refine", "edit-accept", "ask"];

/// The other name of `edit-accept` in what a gate offers.
const EDIT: &str = "edit";

/// What this release does.
const BUILT: [&str; 2] = ["accept", "reject"];

/// Checks the data of an approval, and gives it back with one name for each action.
pub(super) fn read_data(data: &Json, mut fields: Fields<'_>) -> Option<Json> {
    text(&mut fields, "artifactId", 0..=ASK_NAME_CHARS_MAX);
    text(&mut fields, "artifactType", 0..=ASK_NAME_CHARS_MAX);
    text(&mut fields, "title", 0..=ASK_TITLE_CHARS_MAX);
    optional_text(&mut fields, "description", 0..=ASK_TEXT_CHARS_MAX);
    optional_text(&mut fields, "profile", 0..=ASK_NAME_CHARS_MAX);
    fields.any("artifactData");
    let actions = fields.required("actions");
    let place = fields.place("actions");
    let actions = actions.and_then(|actions| read_actions(&actions, &place, fields.findings()));
    fields.optional_whole("requiredApprovals", 1..=APPROVALS_MAX);
    if let Some(policy) = fields.optional_text("rejectionPolicy") {
        let place = fields.place("rejectionPolicy");
        known_word(&policy, &["single-veto", "majority"], place, fields.findings());
    }
    fields.optional_flag("overrideBypassesQuorum");
    for key in ["approversList", "approverGroupRefs", "approverRoleRefs"] {
        texts(&mut fields, key, APPROVERS_MAX, PRINCIPAL_CHARS_MAX);
    }
    let audience = fields.optional("audience");
    let place = fields.place("audience");
    if let Some(audience) = audience {
        read_audience(&audience, place, fields.findings());
    }
    fields.finish();
    with_actions(data, &actions?)
}

fn read_audience(audience: &Json, place: String, findings: &mut Findings) {
    let Some(mut fields) = Fields::of(audience, place, findings) else { return };
    for key in ["subjects", "groups", "roles"] {
        texts(&mut fields, key, APPROVERS_MAX, PRINCIPAL_CHARS_MAX);
    }
    fields.finish();
}

fn read_actions(actions: &Json, place: &str, findings: &mut Findings) -> Option<Vec<String>> {
    let Ok(actions) = actions.parse::<Vec<String>>() else {
        findings.problem(place, format!("a list is expected, out of {}", OFFERS.join(", ")));
        return None;
    };
    if actions.is_empty() {
        findings.problem(place, format!("at least one is expected, out of {}", OFFERS.join(", ")));
        return None;
    }
    let mut read: Vec<String> = Vec::new();
    for (ix, action) in actions.into_iter().enumerate() {
        let action = if action == EDIT { "edit-accept".to_owned() } else { action };
        let place = format!("{place}[{ix}]");
        known_word(&action, &OFFERS, place.clone(), findings);
        if read.contains(&action) {
            findings.problem(place, "it stands there twice; remove one");
        }
        // There are so few that a longer list repeats itself.
        if ix > OFFERS.len() {
            break;
        }
        read.push(action);
    }
    Some(read)
}

/// The data with these actions; as it was written, if they are the same.
fn with_actions(data: &Json, actions: &[String]) -> Option<Json> {
    let mut entries: JsonMap = data.parse::<Entries>().ok()?.0.into_iter().collect();
    let given: Vec<String> = entries.get("actions")?.parse().ok()?;
    if given == actions {
        return Some(data.clone());
    }
    entries.insert("actions".to_owned(), Json::of(actions));
    Some(Json::of(&entries))
}

/// The first thing in the data that this release does not do.
pub(super) fn unbuilt(data: &Json) -> Option<Unbuilt> {
    let data: JsonMap = data.parse().unwrap_or_default();
    let given = |key: &str| data.get(key).filter(|value| value.type_name() != "null");
    if given("requiredApprovals").is_some_and(|count| count.parse::<i64>().is_ok_and(|count| count > 1)) {
        return Some(Unbuilt {
            what: "data.requiredApprovals",
            capability: "openwop-interrupt-quorum",
            message: "more than one approval is not built yet; ask for 1, or use several gates".to_owned(),
        });
    }
    let actions: Vec<String> = given("actions").and_then(|actions| actions.parse().ok()).unwrap_or_default();
    if let Some(action) = actions.iter().find(|action| !BUILT.contains(&action.as_str())) {
        return Some(Unbuilt {
            what: "data.actions",
            capability: "interrupt.approvalActions",
            message: format!("'{action}' is not built yet; offer {}", BUILT.join(" and ")),
        });
    }
    let routing = [
        ("approverGroupRefs", "data.approverGroupRefs"),
        ("approverRoleRefs", "data.approverRoleRefs"),
        ("audience", "data.audience"),
    ];
    let (key, what) = routing.into_iter().find(|(key, _)| given(key).is_some())?;
    let message = format!("'{key}' is not built yet; name the principals in 'approversList'");
    Some(Unbuilt { what, capability: "interrupt.approverRouting", message })
}

/// What a gate offers that is a decision.
fn offered(data: &Json) -> Option<Vec<Action>> {
    let actions: Vec<String> = data.parse::<JsonMap>().ok()?.get("actions")?.parse().ok()?;
    let known = |action: &String| Action::ALL.into_iter().find(|known| known.name() == action);
    Some(actions.iter().filter_map(known).collect())
}

/// What was sent, read key by key.
#[derive(Debug, Default)]
struct Sent {
    action: Option<String>,
    decision: Option<String>,
    feedback: Option<String>,
    reason: Option<String>,
    refine_feedback: Option<Json>,
    edited_artifact_data: Option<Json>,
    /// In whose name.
    named: Option<String>,
}

/// Holds a decision against what the gate offers.
pub(super) fn check(data: &Json, value: &Json, by: &Answerer, now: Millis) -> Result<Answer, Refused> {
    let offered = offered(data).ok_or_else(|| refused("", "what this gate offers can't be read"))?;
    let mut faults = Faults::default();
    let mut findings = Findings::about("");
    let sent = read_sent(value, &mut findings);
    let legacy = match &sent {
        // Whoever knows actions means what is said with one.
        Some(Sent { action: None, decision: Some(word), .. }) => Legacy::read(word, &mut findings),
        _ => None,
    };
    faults.add_findings("", findings);
    if let Some(refine_feedback) = sent.as_ref().and_then(|sent| sent.refine_feedback.as_ref()) {
        check_refine_feedback(refine_feedback, &mut faults);
    }
    faults.none().map_err(Refused::Invalid)?;
    let sent = sent.unwrap_or_default();
    let (action, sent) = match legacy {
        Some(legacy) => modern(legacy, sent, &offered),
        None => (named_action(sent.action.as_deref(), &offered)?, sent),
    };
    let path = if legacy.is_some() { "/decision" } else { "/action" };
    if action != Action::Timeout && !offered.contains(&action) {
        return Err(not_offered(path, action.name(), &offered));
    }
    check_parts(action, &sent)?;
    let submitted = submitted(value, action, legacy, &sent);
    let decision = decision(action, sent, by, now);
    let mut answer = Answer::of(decision.value());
    if legacy.is_some() {
        answer.moved = vec![
            ("/action".to_owned(), "/decision".to_owned()),
            ("/refineFeedback/text".to_owned(), "/feedback".to_owned()),
        ];
    }
    answer.submitted = Some(submitted);
    answer.by =
        Some(if action == Action::Timeout { recorded(&by.principal) } else { decision.decided_by.clone() });
    answer.decision = Some(decision);
    Ok(answer)
}

fn read_sent(value: &Json, findings: &mut Findings) -> Option<Sent> {
    let mut fields = Fields::of(value, ROOT, findings)?;
    let principal = 1..=PRINCIPAL_CHARS_MAX;
    let decided_by = optional_text(&mut fields, "decidedBy", principal.clone());
    let voter = optional_text(&mut fields, "voter", principal);
    if decided_by.is_some() && voter.is_some() && decided_by != voter {
        fields.findings().problem("voter", "'voter' and 'decidedBy' name different people; give one");
    }
    let sent = Sent {
        action: fields.optional_text("action"),
        decision: fields.optional_text("decision"),
        feedback: optional_text(&mut fields, "feedback", 0..=FEEDBACK_CHARS_MAX),
        reason: optional_text(&mut fields, "reason", 0..=REASON_CHARS_MAX),
        refine_feedback: fields.optional("refineFeedback"),
        edited_artifact_data: fields.any("editedArtifactData"),
        named: decided_by.or(voter),
    };
    // It must be a time, but ours is recorded: the order of decisions can't rest on clocks of clients.
    if fields.optional_text("decidedAt").is_some_and(|time| moment(&time).is_none()) {
        fields
            .findings()
            .problem("decidedAt", "a time as in 2026-05-01T10:00:00Z is expected; it may be left out");
    }
    fields.finish();
    Some(sent)
}

fn check_refine_feedback(json: &Json, faults: &mut Faults) {
    let mut findings = Findings::about("");
    if let Some(mut fields) = Fields::of(json, ROOT, &mut findings) {
        let scope = fields.text("scope");
        let section = optional_text(&mut fields, "sectionPath", 1..=ASK_TEXT_CHARS_MAX);
        let items = texts(&mut fields, "itemIds", FEEDBACK_ITEMS_MAX, ASK_NAME_CHARS_MAX);
        texts(&mut fields, "tags", FEEDBACK_ITEMS_MAX, ASK_NAME_CHARS_MAX);
        optional_text(&mut fields, "text", 0..=FEEDBACK_CHARS_MAX);
        fields.finish();
        match scope.as_deref() {
            Some("section") if section.is_none() => {
                findings.problem("sectionPath", "the scope 'section' needs a path into the artifact; add it");
            }
            Some("items") if items.is_none_or(|items| items.is_empty()) => {
                findings.problem("itemIds", "the scope 'items' needs at least one id of an item; add it");
            }
            Some(scope) => {
                known_word(scope, &["whole", "section", "items"], "scope".to_owned(), &mut findings);
            }
            None => {}
        }
    }
    faults.add_findings("/refineFeedback", findings);
}

/// A decision of old in today's words.
fn modern(legacy: Legacy, mut sent: Sent, offered: &[Action]) -> (Action, Sent) {
    let said = sent.feedback.clone().filter(|feedback| !feedback.trim().is_empty());
    let structured = sent.refine_feedback.take();
    let action = legacy.action(said.is_some() || structured.is_some(), offered.contains(&Action::Refine));
    sent.reason = legacy.reason(sent.reason);
    sent.feedback = said;
    if action == Action::Refine {
        let said = sent.feedback.take().unwrap_or_default();
        let whole =
            || JsonMap::from([("scope".to_owned(), Json::of("whole")), ("text".to_owned(), Json::of(&said))]);
        sent.refine_feedback = structured.or_else(|| Some(Json::of(&whole())));
    } else if sent.feedback.is_none() {
        // The gate can't refine, but what was said is not lost.
        let text = structured.and_then(|json| json.parse::<JsonMap>().ok()?.get("text")?.parse().ok());
        sent.feedback = text;
    }
    (action, sent)
}

fn named_action(name: Option<&str>, offered: &[Action]) -> Result<Action, Refused> {
    let listed = offered.iter().map(|action| action.name()).collect::<Vec<_>>().join(", ");
    let name = name.ok_or_else(|| refused("", &format!("'action' is missing; give one of {listed}")))?;
    let known = offered.iter().find(|action| action.name() == name);
    known.copied().ok_or_else(|| not_offered("/action", name, offered))
}

fn not_offered(path: &str, name: &str, offered: &[Action]) -> Refused {
    let listed = offered.iter().map(|action| action.name()).collect::<Vec<_>>().join(", ");
    let name = crate::excerpt::excerpt(name);
    refused(path, &format!("'{name}' is not offered here; give one of {listed}"))
}

/// Each action has what belongs to it, and nothing of another.
fn check_parts(action: Action, sent: &Sent) -> Result<(), Refused> {
    let parts = [
        ("refineFeedback", Action::Refine, sent.refine_feedback.is_some()),
        ("editedArtifactData", Action::EditAccept, sent.edited_artifact_data.is_some()),
    ];
    for (key, owner, given) in parts {
        if owner == action && !given {
            return Err(refused("", &format!("'{key}' is missing; '{}' needs it", action.name())));
        }
        if owner != action && given {
            let message = format!("'{key}' belongs to '{}', not to '{}'", owner.name(), action.name());
            return Err(refused(&format!("/{key}"), &message));
        }
    }
    Ok(())
}

/// What the schema of the question is about: what was sent, in today's words, without what the host adds.
fn submitted(value: &Json, action: Action, legacy: Option<Legacy>, sent: &Sent) -> Json {
    let mut entries: JsonMap = value.parse().unwrap_or_default();
    entries.remove("decision");
    if legacy.is_some() {
        let mut put = |key: &str, json: Option<Json>| match json {
            Some(json) => entries.insert(key.to_owned(), json),
            None => entries.remove(key),
        };
        put("action", Some(Json::of(action.name())));
        put("feedback", sent.feedback.as_ref().map(Json::of));
        put("reason", sent.reason.as_ref().map(Json::of));
        put("refineFeedback", sent.refine_feedback.clone());
    }
    Json::of(&entries)
}

/// Who is recorded when nobody decided in time.
const NOBODY: &str = "system:timeout";

fn decision(action: Action, sent: Sent, by: &Answerer, now: Millis) -> Decision {
    let named = sent.named.filter(|_| by.may_act_for_others);
    let decided_by = match action {
        Action::Timeout => NOBODY.to_owned(),
        _ => named.unwrap_or_else(|| recorded(&by.principal)),
    };
    // What is to be made better is said once, in its structured form.
    let feedback = sent.feedback.filter(|_| action != Action::Refine);
    Decision {
        action,
        feedback,
        reason: sent.reason,
        refine_feedback: sent.refine_feedback,
        edited_artifact_data: sent.edited_artifact_data,
        decided_by,
        decided_at: now,
    }
}
