//! Approvals: what is shown of an artifact, and what may be decided about it.

use std::collections::BTreeSet;

use super::answer::{Action, Answer, Answerer, Decision, Refused, recorded, refused};
use super::form::{Faults, known_word, optional_text, text, texts};
use super::legacy::Legacy;
use super::refine;
use super::respondent::Named;
use crate::fields::{Entries, Fields, Findings, ROOT};
use crate::limits::{
    APPROVALS_MAX, APPROVERS_MAX, ASK_NAME_CHARS_MAX, ASK_TEXT_CHARS_MAX, ASK_TITLE_CHARS_MAX,
    FEEDBACK_CHARS_MAX, PRINCIPAL_CHARS_MAX, REASON_CHARS_MAX,
};
use crate::moment::moment;
use crate::{Json, JsonMap, Millis};

/// What a gate may offer. `ask` is no decision: it leaves the gate open.
const OFFERS: [&str; 5] = ["accept", "reject", "refine", "edit-accept", "ask"];

/// The other name of `edit-accept` in what a gate offers.
const EDIT: &str = "edit";

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
    let required = fields.optional_whole("requiredApprovals", 1..=APPROVALS_MAX);
    if let Some(policy) = fields.optional_text("rejectionPolicy") {
        let place = fields.place("rejectionPolicy");
        known_word(&policy, &["single-veto", "majority"], place, fields.findings());
    }
    fields.optional_flag("overrideBypassesQuorum");
    let [listed, groups, roles] = ["approversList", "approverGroupRefs", "approverRoleRefs"]
        .map(|key| texts(&mut fields, key, APPROVERS_MAX, PRINCIPAL_CHARS_MAX).unwrap_or_default());
    if groups.is_empty() && roles.is_empty() {
        check_reach(required.unwrap_or(1), &listed, &mut fields);
    }
    let audience = fields.optional("audience");
    let place = fields.place("audience");
    if let Some(audience) = audience {
        read_audience(&audience, place, fields.findings());
    }
    fields.finish();
    with_actions(data, &actions?)
}

/// A quorum that those who are named can never be is a gate that never opens.
fn check_reach(required: i64, listed: &[String], fields: &mut Fields<'_>) {
    let plain = listed.iter().all(|name| matches!(Named::of(name), Named::Principal(_)));
    let people: BTreeSet<&String> = listed.iter().collect();
    if !listed.is_empty() && plain && required > people.len() as i64 {
        let message = format!(
            "{required} approvals are needed, but 'approversList' names {} who may give one; name more, or ask for fewer",
            people.len()
        );
        let place = fields.place("requiredApprovals");
        fields.findings().problem(place, message);
    }
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
        let artifact = data.parse::<JsonMap>().unwrap_or_default().remove("artifactData");
        refine::check(refine_feedback, artifact.as_ref(), &mut faults);
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
    let structured = value.parse::<JsonMap>().is_ok_and(|value| value.contains_key("refineFeedback"));
    let decision = decision(action, sent, by, now);
    let mut answer = Answer::of(decision.value());
    if legacy.is_some() {
        answer.moved.push(("/action".to_owned(), "/decision".to_owned()));
    }
    if legacy.is_some() && !structured {
        answer.moved.push(("/refineFeedback/text".to_owned(), "/feedback".to_owned()));
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
    let listed = listed(offered);
    let name = name.ok_or_else(|| refused("", &format!("'action' is missing; give one of {listed}")))?;
    let known = offered.iter().find(|action| action.name() == name);
    known.copied().ok_or_else(|| not_offered("/action", name, offered))
}

fn listed(offered: &[Action]) -> String {
    offered.iter().map(|action| action.name()).collect::<Vec<_>>().join(", ")
}

fn not_offered(path: &str, name: &str, offered: &[Action]) -> Refused {
    let listed = listed(offered);
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
    let cast_by =
        (action != Action::Timeout && decided_by != recorded(&by.principal)).then(|| recorded(&by.principal));
    // What is to be made better is said once, in its structured form.
    let feedback = sent.feedback.filter(|_| action != Action::Refine);
    Decision {
        action,
        feedback,
        reason: sent.reason,
        refine_feedback: sent.refine_feedback,
        edited_artifact_data: sent.edited_artifact_data,
        decided_by,
        cast_by,
        decided_at: now,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{Ask, Checked, InterruptKind, check_answer};
    use super::*;

    const NOW: Millis = 1_763_222_400_123;

    fn gate(actions: &[&str]) -> Value {
        json!({ "artifactId": "a1", "artifactType": "letter", "title": "A letter", "actions": actions })
    }

    fn gate_with(key: &str, value: Value) -> Value {
        let mut gate = gate(&["accept", "reject"]);
        gate[key] = value;
        gate
    }

    fn read(data: &Value) -> Result<Ask, String> {
        let ask = Ask::read(&Json::of(&json!({ "kind": "approval", "data": data })));
        ask.map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    }

    #[track_caller]
    fn told(data: &Value) -> String {
        read(data).expect_err("the gate is refused")
    }

    fn by(may_act_for_others: bool) -> Answerer {
        Answerer { principal: "key:7".to_owned(), may_act_for_others, ..Answerer::default() }
    }

    fn answer(actions: &[&str], schema: Option<&Value>, value: &Value) -> Result<Checked, Refused> {
        let schema = schema.map(|schema| Json::of(&schema));
        let data = Json::of(&gate(actions));
        check_answer(InterruptKind::Approval, &data, schema.as_ref(), &Json::of(value), &by(false), NOW)
    }

    #[track_caller]
    fn decided(actions: &[&str], value: &Value) -> Decision {
        let checked = answer(actions, None, value).expect("the answer fits");
        let decision = checked.decision.expect("it is a decision");
        assert_eq!(checked.value, decision.value());
        decision
    }

    /// The errors, as `path: message`.
    #[track_caller]
    fn errors(actions: &[&str], schema: Option<&Value>, value: &Value) -> Vec<String> {
        match answer(actions, schema, value) {
            Err(Refused::Invalid(errors)) => errors.iter().map(ToString::to_string).collect(),
            other => panic!("{value} gives {other:?}"),
        }
    }

    const BOTH: &[&str] = &["accept", "reject"];
    const ALL: &[&str] = &["accept", "reject", "refine", "edit-accept"];

    #[test]
    fn an_artifact_has_an_id_a_type_and_a_title() {
        for key in ["artifactId", "artifactType", "title", "actions"] {
            let mut gate = gate(BOTH);
            gate.as_object_mut().unwrap().remove(key);
            assert_eq!(told(&gate), format!("data: '{key}' is missing; add it"));
            assert!(told(&gate_with(key, json!(7))).starts_with(&format!("data.{key}: ")));
        }
    }

    #[test]
    fn a_description_may_be_there() {
        read(&gate(BOTH)).unwrap();
        let described = gate_with("description", json!("Please read."));
        assert_eq!(read(&described).unwrap().data, Json::of(&described));
        assert!(told(&gate_with("description", json!(1))).contains("data.description: a string is expected"));
    }

    #[test]
    fn an_artifact_is_any_json_and_stays_as_it_is() {
        let text = r#"{"artifactId":"a","artifactType":"t","title":"T","actions":["edit"],
            "artifactData":{"z":[1.50,{"b":null}],"a":1e2}}"#;
        let data: Json = serde_json::from_str(text).unwrap();
        let payload = JsonMap::from([("kind".to_owned(), Json::of("approval")), ("data".to_owned(), data)]);
        let kept: JsonMap = Ask::read(&Json::of(&payload)).unwrap().data.parse().unwrap();
        assert_eq!(kept["artifactData"].text(), r#"{"z":[1.50,{"b":null}],"a":1e2}"#);
        for any in [json!(null), json!([1]), json!("x"), json!(false)] {
            read(&gate_with("artifactData", any)).unwrap();
        }
    }

    #[test]
    fn a_gate_offers_actions_that_are_known() {
        for action in ["accept", "reject", "refine", "edit", "ask"] {
            read(&gate(&[action])).unwrap();
        }
        let told = told(&gate(&["accept", "approve"]));
        assert_eq!(
            told,
            "data.actions[1]: 'approve' is not known here; it is one of accept, reject, refine, edit-accept, ask"
        );
        read(&gate(&["timeout"])).unwrap_err();
    }

    #[test]
    fn edit_and_edit_accept_are_one_action() {
        for given in ["edit", "edit-accept"] {
            let kept: Value = read(&gate(&["accept", given])).unwrap().data.parse().unwrap();
            assert_eq!(kept["actions"], json!(["accept", "edit-accept"]));
        }
        assert!(told(&gate(&["edit", "edit-accept"])).contains("data.actions[1]: it stands there twice"));
    }

    #[test]
    fn a_gate_offers_something_and_nothing_twice() {
        assert!(told(&gate(&[])).contains("data.actions: at least one is expected"));
        assert!(told(&gate(&["accept", "accept"])).contains("data.actions[1]: it stands there twice"));
        assert!(told(&gate_with("actions", json!("accept"))).contains("data.actions: a list is expected"));
        assert!(told(&gate_with("actions", json!([1]))).contains("data.actions: a list is expected"));
    }

    #[test]
    fn a_gate_asks_for_one_approval_or_more() {
        for good in [json!(1), json!(3), json!(null)] {
            read(&gate_with("requiredApprovals", good)).unwrap();
        }
        for bad in [json!(0), json!(-1), json!(1.5), json!("2"), json!(1_000_000)] {
            assert!(
                told(&gate_with("requiredApprovals", bad))
                    .contains("data.requiredApprovals: a whole number from 1")
            );
        }
    }

    #[test]
    fn approvers_are_kept_as_they_are() {
        let listed = gate_with("approversList", json!(["alice@example.com", "ζ|x y"]));
        assert_eq!(read(&listed).unwrap().data, Json::of(&listed));
        read(&gate_with("approversList", json!([]))).unwrap();
        for bad in [json!("alice"), json!([1]), json!([""]), json!(vec!["a"; 1_001])] {
            assert!(told(&gate_with("approversList", bad)).starts_with("data.approversList: "));
        }
    }

    #[test]
    fn a_rejection_counts_by_one_of_two_policies() {
        for good in ["single-veto", "majority"] {
            read(&gate_with("rejectionPolicy", json!(good))).unwrap();
        }
        assert_eq!(
            told(&gate_with("rejectionPolicy", json!("first"))),
            "data.rejectionPolicy: 'first' is not known here; it is one of single-veto, majority"
        );
    }

    #[test]
    fn what_later_gates_have_is_read() {
        for (key, value) in [
            ("overrideBypassesQuorum", json!(true)),
            ("profile", json!("openwop-interrupt-auth-required")),
            ("approverGroupRefs", json!(["g"])),
            ("approverRoleRefs", json!(["r"])),
            ("audience", json!({ "subjects": ["s"], "groups": [], "roles": ["r"] })),
        ] {
            let gate = gate_with(key, value);
            assert_eq!(read(&gate).unwrap().data, Json::of(&gate));
        }
        assert!(
            told(&gate_with("audience", json!({ "group": [] })))
                .contains("data.audience.group: there is no 'group'")
        );
    }

    #[test]
    fn an_action_that_is_not_offered_is_refused() {
        for action in ["refine", "edit-accept", "ask", "timeout", "edit", "approve", "Accept", ""] {
            assert_eq!(
                errors(BOTH, None, &json!({ "action": action })),
                [format!("/action: '{action}' is not offered here; give one of accept, reject")]
            );
        }
        assert_eq!(errors(BOTH, None, &json!({})), ["'action' is missing; give one of accept, reject"]);
        assert_eq!(
            errors(BOTH, None, &json!({ "action": 1 })),
            ["/action: a string is expected, not a number"]
        );
        for odd in [json!("accept"), json!(null), json!(["accept"])] {
            assert!(errors(BOTH, None, &odd)[0].starts_with("an object is expected here"));
        }
    }

    #[test]
    fn a_decision_has_what_belongs_to_it_and_nothing_else() {
        let full = json!({ "action": "reject", "feedback": "F", "reason": "R", "decidedAt": "2026-05-01T10:00:00Z",
            "decidedBy": "alice", "voter": "alice" });
        assert_eq!(
            decided(BOTH, &full).value(),
            Json::of(
                &json!({ "action": "reject", "decidedAt": "2025-11-15T16:00:00.123Z", "decidedBy": "key:7",
                "feedback": "F", "reason": "R" })
            )
        );
        for (value, expected) in [
            (
                json!({ "action": "accept", "feedbak": "" }),
                "/feedbak: there is no 'feedbak' here; did you mean 'feedback'?",
            ),
            (json!({ "action": "accept", "a/b": "" }), "/a~1b: there is no 'a/b' here; the keys are"),
            (json!({ "action": "accept", "feedback": 1 }), "/feedback: a string is expected, not a number"),
            (json!({ "action": "accept", "decidedAt": "yesterday" }), "/decidedAt: a time as in"),
            (
                json!({ "action": "accept", "decidedBy": "" }),
                "/decidedBy: 'decidedBy' has 1 to 256 characters",
            ),
            (
                json!({ "action": "accept", "decidedBy": "a", "voter": "b" }),
                "/voter: 'voter' and 'decidedBy' name",
            ),
            (
                json!({ "action": "accept", "refineFeedback": { "scope": "whole" } }),
                "/refineFeedback: 'refineFeedback' belongs to 'refine', not to 'accept'",
            ),
            (
                json!({ "action": "accept", "editedArtifactData": null }),
                "/editedArtifactData: 'editedArtifactData' belongs",
            ),
        ] {
            let errors = errors(BOTH, None, &value);
            assert!(
                errors.len() == 1 && errors[0].starts_with(expected),
                "{expected:?} is not in {errors:?}"
            );
        }
        let twice: Json = serde_json::from_str(r#"{"action":"accept","action":"reject"}"#).unwrap();
        let refused =
            check_answer(InterruptKind::Approval, &Json::of(&gate(BOTH)), None, &twice, &by(false), NOW);
        assert!(matches!(refused, Err(Refused::Invalid(errors)) if errors[0].path == "/action"));
    }

    #[test]
    fn a_refinement_says_what_is_to_be_made_better() {
        for good in
            [json!({ "scope": "whole" }), json!({ "scope": "items", "itemIds": ["i"], "tags": ["t"] })]
        {
            let decision = decided(ALL, &json!({ "action": "refine", "refineFeedback": good }));
            assert_eq!((decision.action, decision.refine_feedback), (Action::Refine, Some(Json::of(&good))));
        }
        for (bad, path) in [
            (json!({}), "/refineFeedback: 'scope' is missing"),
            (json!({ "scope": "page" }), "/refineFeedback/scope: 'page' is not known here"),
            (json!({ "scope": "section" }), "/refineFeedback/sectionPath: the scope 'section' needs"),
            (json!({ "scope": "items" }), "/refineFeedback/itemIds: the scope 'items' needs"),
            (json!({ "scope": "items", "itemIds": [] }), "/refineFeedback/itemIds: the scope 'items' needs"),
            (json!({ "scope": "whole", "tags": [1] }), "/refineFeedback/tags: each entry is a string"),
            (json!({ "scope": "whole", "colour": 1 }), "/refineFeedback/colour: there is no 'colour'"),
            (json!("better"), "/refineFeedback: an object is expected here"),
        ] {
            let errors = errors(ALL, None, &json!({ "action": "refine", "refineFeedback": bad }));
            assert!(errors[0].starts_with(path), "{path:?} is not in {errors:?}");
        }
        assert_eq!(
            errors(ALL, None, &json!({ "action": "refine" })),
            ["'refineFeedback' is missing; 'refine' needs it"]
        );
    }

    #[test]
    fn an_edit_brings_the_artifact_along() {
        for artifact in [json!(null), json!({ "a": 1 })] {
            let decision = decided(ALL, &json!({ "action": "edit-accept", "editedArtifactData": artifact }));
            assert_eq!(decision.action, Action::EditAccept);
            assert_eq!(decision.edited_artifact_data, Some(Json::of(&artifact)));
        }
        assert_eq!(
            errors(ALL, None, &json!({ "action": "edit-accept" })),
            ["'editedArtifactData' is missing; 'edit-accept' needs it"]
        );
    }

    #[test]
    fn the_caller_is_recorded_unless_somebody_is_named() {
        let checked = answer(BOTH, None, &json!({ "action": "accept" })).unwrap();
        assert_eq!((checked.by.as_str(), checked.decision.unwrap().decided_by.as_str()), ("key:7", "key:7"));
    }

    #[test]
    fn another_name_is_recorded_only_if_the_caller_may_act_for_others() {
        for key in ["decidedBy", "voter"] {
            for (may, recorded) in [(true, "alice"), (false, "key:7")] {
                let value = Json::of(&json!({ "action": "accept", key: "alice" }));
                let data = Json::of(&gate(BOTH));
                let checked =
                    check_answer(InterruptKind::Approval, &data, None, &value, &by(may), NOW).unwrap();
                assert_eq!(checked.by, recorded);
                assert_eq!(checked.decision.unwrap().decided_by, recorded);
            }
        }
    }

    #[test]
    fn whoever_decides_is_recorded_byte_by_byte_and_never_as_nobody() {
        let data = Json::of(&gate(BOTH));
        for odd in ["ü@x|y:z/..", "👩‍👧\u{202e}", " ", "a\u{0}b"] {
            let value = Json::of(&json!({ "action": "accept", "decidedBy": odd }));
            let checked = check_answer(InterruptKind::Approval, &data, None, &value, &by(true), NOW).unwrap();
            assert_eq!(checked.decision.unwrap().decided_by, odd);
            let value: Value = checked.value.parse().unwrap();
            assert_eq!(value["decidedBy"], odd);
        }
        let nobody = Answerer { principal: String::new(), may_act_for_others: false, ..Answerer::default() };
        let value = Json::of(&json!({ "action": "accept" }));
        let checked = check_answer(InterruptKind::Approval, &data, None, &value, &nobody, NOW).unwrap();
        assert_eq!(checked.decision.unwrap().decided_by, "system:unnamed");
    }

    #[test]
    fn the_schema_is_about_what_was_sent_in_todays_words() {
        let schema = json!({ "properties": { "action": { "const": "accept" }, "feedback": { "minLength": 3 } },
            "additionalProperties": false });
        answer(BOTH, Some(&schema), &json!({ "action": "accept", "feedback": "yes" }))
            .expect("no stamp is added before");
        answer(BOTH, Some(&schema), &json!({ "decision": "approved" })).expect("it says accept");
        answer(BOTH, Some(&schema), &json!({ "action": "accept", "decision": "rejected" }))
            .expect("it is not used");
        let paths = |value: Value| match answer(ALL, Some(&schema), &value) {
            Err(Refused::Invalid(errors)) => errors.into_iter().map(|error| error.path).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        assert_eq!(paths(json!({ "action": "accept", "feedback": "no" })), ["/feedback"]);
        assert_eq!(paths(json!({ "decision": "rejected" })), ["/decision"]);
    }

    mod in_the_words_of_old {
        use super::*;

        #[test]
        fn approved_is_accept() {
            assert_eq!(decided(BOTH, &json!({ "decision": "approved" })).action, Action::Accept);
            assert_eq!(
                errors(&["reject"], None, &json!({ "decision": "approved" })),
                ["/decision: 'accept' is not offered here; give one of reject"]
            );
        }

        #[test]
        fn rejected_with_words_is_refine() {
            let decision = decided(ALL, &json!({ "decision": "rejected", "feedback": " Shorter " }));
            assert_eq!((decision.action, decision.feedback), (Action::Refine, None));
            let expected = json!({ "scope": "whole", "text": " Shorter " });
            assert_eq!(decision.refine_feedback, Some(Json::of(&expected)));
        }

        #[test]
        fn rejected_without_words_is_reject() {
            assert_eq!(decided(ALL, &json!({ "decision": "rejected" })).action, Action::Reject);
            assert_eq!(
                decided(BOTH, &json!({ "decision": "rejected", "feedback": null })).action,
                Action::Reject
            );
        }

        #[test]
        fn blank_words_are_none() {
            for blank in ["", "   ", "\n\t"] {
                let decision = decided(ALL, &json!({ "decision": "rejected", "feedback": blank }));
                assert_eq!((decision.action, decision.feedback), (Action::Reject, None));
            }
        }

        #[test]
        fn rejected_with_words_is_reject_where_nothing_is_refined() {
            let decision = decided(BOTH, &json!({ "decision": "rejected", "feedback": "No." }));
            assert_eq!((decision.action, decision.feedback.as_deref()), (Action::Reject, Some("No.")));
            assert_eq!(decision.refine_feedback, None);
        }

        #[test]
        fn timeout_is_a_rejection_by_nobody() {
            let decision = decided(BOTH, &json!({ "decision": "timeout" }));
            assert_eq!((decision.action, decision.decided_by.as_str()), (Action::Timeout, "system:timeout"));
            let checked = answer(BOTH, None, &json!({ "decision": "timeout" })).unwrap();
            assert_eq!(checked.by, "key:7", "who said so is known");
        }

        #[test]
        fn cancelled_is_reject_with_a_reason_that_says_so() {
            for (reason, expected) in
                [(json!(null), "cancelled"), (json!(" "), "cancelled"), (json!("R"), "cancelled: R")]
            {
                let decision = decided(BOTH, &json!({ "decision": "cancelled", "reason": reason }));
                assert_eq!((decision.action, decision.reason.as_deref()), (Action::Reject, Some(expected)));
            }
        }

        #[test]
        fn an_action_beside_it_is_what_counts() {
            for decision in ["approved", "rejected", "maybe"] {
                let value = json!({ "action": "reject", "decision": decision });
                assert_eq!(decided(BOTH, &value).action, Action::Reject);
            }
        }

        #[test]
        fn another_word_is_refused() {
            assert_eq!(
                errors(BOTH, None, &json!({ "decision": "maybe" })),
                ["/decision: 'maybe' is not known here; it is one of approved, rejected, timeout, cancelled"]
            );
            assert!(
                errors(BOTH, None, &json!({ "decision": 1 }))[0]
                    .starts_with("/decision: a string is expected")
            );
        }

        #[test]
        fn structured_words_win() {
            let structured = json!({ "scope": "items", "itemIds": ["i"], "text": "this" });
            for key in [("action", "refine"), ("decision", "rejected")] {
                let value = json!({ key.0: key.1, "feedback": "that", "refineFeedback": structured });
                let decision = decided(ALL, &value);
                assert_eq!((decision.action, decision.feedback), (Action::Refine, None));
                assert_eq!(decision.refine_feedback, Some(Json::of(&structured)));
            }
            let value = json!({ "decision": "rejected", "refineFeedback": structured });
            assert_eq!(decided(BOTH, &value).feedback.as_deref(), Some("this"), "what was said is not lost");
        }
    }
}
