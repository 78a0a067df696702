//! What nodes do that ask: the bodies of the gates.
//!
//! A body is a function of what went in and of the answers so far. It is executed from the top whenever the node goes
//! on, and asks the same again: what is answered already returns at once.

use crate::event::{ArtifactCreated, Failure};
use crate::graph::{Form, Gate, Work};
use crate::interrupt::{ANSWER, Ask, NodeContext, Stop, Unbuilt};
use crate::perform::Product;
use crate::ports::Inputs;
use crate::scope::RunScope;
use crate::{Json, JsonMap, NodeIx, Run};

/// How a body ended.
pub(crate) enum Bodied {
    /// The node is done.
    Done(Product),
    /// Somebody decided against what the node asked for.
    Declined { outputs: Json, failure: Failure },
}

/// What the gates are given beside their own settings: a port of the same name takes the place of a setting.
impl Run {
    pub(crate) fn body(
        &self,
        ix: NodeIx,
        inputs: &Inputs,
        context: &mut NodeContext<'_>,
    ) -> Result<Bodied, Stop> {
        let node = self.graph.at(ix);
        let Work::Gate(gate) = &node.work else {
            return Err(Stop::Failed(Failure::new(
                "invalid_config",
                format!("node '{}' asks nothing", node.id),
            )));
        };
        let scope = RunScope::node(self, &inputs.values);
        let place = format!("the config of node '{}'", node.id);
        let told = |fault| Stop::Failed(scope.told(fault, &gate.template.reads(), inputs.sensitive, &place));
        let config = gate.template.render_value(&scope).map_err(told)?;
        let mut config: JsonMap = config.and_then(|config| config.parse().ok()).unwrap_or_default();
        let mut carried = inputs.values.clone();
        for key in gate.form.keys() {
            if let Some(value) = carried.remove(*key) {
                config.insert((*key).to_owned(), value);
            }
        }
        let artifact = ArtifactCreated::of(self.key.id, &node.id, self.node(ix).execution, &node.type_id);
        let defaults = Defaults { title: &node.id, artifact_id: &artifact.artifact_id, carried };
        match gate.form {
            Form::Approval => approve(&payload(gate.form, config, defaults), context),
            Form::Clarification => clarify(&payload(gate.form, config, defaults), context),
            Form::Interrupt => interrupt(&config, context),
            Form::ApprovalRequest => request_approval(&payload(gate.form, config, defaults), context),
            Form::Fields => request_form(&payload(gate.form, config, defaults), context),
            Form::AskUser => ask_user(&payload(gate.form, config, defaults), context),
        }
    }
}

/// What stands for what neither the config nor a port gives.
struct Defaults<'a> {
    title: &'a str,
    artifact_id: &'a str,
    /// Everything that went in under no name of the gate's own.
    carried: JsonMap,
}

impl Gate {
    /// What is asked, as far as that can be told before the node has its inputs.
    pub(crate) fn foreseen(&self) -> Vec<Json> {
        let Some(config) = self.plain.clone() else { return Vec::new() };
        let defaults = Defaults { title: "-", artifact_id: "-", carried: JsonMap::new() };
        match self.form {
            Form::Interrupt => match config.get("interrupts").and_then(|list| list.parse::<Vec<Json>>().ok())
            {
                Some(list) => list,
                None => vec![Json::of(&config)],
            },
            form => vec![payload(form, config, defaults)],
        }
    }

    /// What it needs that a later release builds.
    pub(crate) fn unbuilt(&self) -> Option<Unbuilt> {
        let asks = self.foreseen();
        asks.iter().filter_map(|payload| self.read_payload(payload).ok()).find_map(|ask| ask.unbuilt())
    }

    /// Reads a payload by the names that this gate uses.
    pub(crate) fn read_payload(&self, payload: &Json) -> Result<Ask, Vec<crate::Problem>> {
        if self.form.uses_alias() { Ask::read_alias(payload) } else { Ask::read(payload) }
    }
}

/// The payload that a gate asks with.
fn payload(form: Form, mut config: JsonMap, defaults: Defaults<'_>) -> Json {
    let mut asked = JsonMap::new();
    let (kind, key, schema) = if form.uses_alias() {
        ("reason", "resumeKey", "answerSchema")
    } else {
        ("kind", "key", "resumeSchema")
    };
    let about = match form {
        Form::Approval | Form::ApprovalRequest => "approval",
        _ => "clarification",
    };
    asked.insert(kind.to_owned(), Json::of(about));
    asked.extend(config.remove("key").map(|value| (key.to_owned(), value)));
    asked.extend(config.remove("resumeSchema").map(|value| (schema.to_owned(), value)));
    let seconds = ["timeoutSec", "deadlineSeconds"].into_iter().find_map(|key| config.remove(key));
    let timeout = config.remove("timeoutMs").or_else(|| seconds.as_ref().map(milliseconds));
    asked.extend(timeout.map(|value| ("timeoutMs".to_owned(), value)));
    let data = match form {
        Form::Fields => form_questions(&mut config),
        Form::AskUser => one_question(&mut config),
        Form::Clarification | Form::Interrupt => config,
        Form::Approval | Form::ApprovalRequest => approval_data(config, defaults),
    };
    asked.insert("data".to_owned(), Json::of(&data));
    Json::of(&asked)
}

/// Seconds as milliseconds. What is no number stays what it is, and is refused as such.
fn milliseconds(seconds: &Json) -> Json {
    match seconds.parse::<i64>() {
        Ok(seconds) => Json::of(&seconds.saturating_mul(1000)),
        Err(_) => seconds.clone(),
    }
}

fn approval_data(mut data: JsonMap, defaults: Defaults<'_>) -> JsonMap {
    for (from, to) in [("approvers", "approversList"), ("quorum", "requiredApprovals")] {
        if let Some(value) = data.remove(from) {
            data.insert(to.to_owned(), value);
        }
    }
    let mut default = |key: &str, value: Json| {
        data.entry(key.to_owned()).or_insert(value);
    };
    default("title", Json::of(defaults.title));
    default("artifactId", Json::of(defaults.artifact_id));
    default("artifactType", Json::of("artifact"));
    default("actions", Json::of(&["accept", "reject"]));
    let mut carried = defaults.carried;
    match (carried.remove("artifact"), carried.is_empty()) {
        (Some(artifact), _) => default("artifactData", artifact),
        (None, false) => default("artifactData", Json::of(&carried)),
        (None, true) => {}
    }
    data
}

fn form_questions(config: &mut JsonMap) -> JsonMap {
    let schema: JsonMap =
        config.remove("formSchema").and_then(|schema| schema.parse().ok()).unwrap_or_default();
    let nested = schema.get("properties").and_then(|fields| fields.parse::<JsonMap>().ok());
    let questions: Vec<Json> = nested
        .unwrap_or(schema)
        .into_iter()
        .map(|(id, schema)| {
            let told: JsonMap = schema.parse().unwrap_or_default();
            let question = ["title", "description"].into_iter().find_map(|key| told.get(key).cloned());
            Json::of(&JsonMap::from([
                ("question".to_owned(), question.unwrap_or_else(|| Json::of(&id))),
                ("id".to_owned(), Json::of(&id)),
                ("schema".to_owned(), schema),
            ]))
        })
        .collect();
    clarification(Json::of(&questions), config)
}

fn one_question(config: &mut JsonMap) -> JsonMap {
    let mut question = JsonMap::from([("id".to_owned(), Json::of(ANSWER))]);
    question.extend(config.remove("question").map(|text| ("question".to_owned(), text)));
    for key in ["schema", "responseType", "choices"] {
        question.extend(config.remove_entry(key));
    }
    clarification(Json::of(&[question]), config)
}

fn clarification(questions: Json, config: &mut JsonMap) -> JsonMap {
    let mut data = JsonMap::from([("questions".to_owned(), questions)]);
    data.extend(["contextType", "context"].into_iter().filter_map(|key| config.remove_entry(key)));
    data
}

/// What a node receives for a fallback value: a gate with one question takes the answer to it alone.
pub(crate) fn resume_value(form: Form, fallback: &Json) -> Json {
    match form {
        Form::AskUser => {
            let answers = JsonMap::from([(ANSWER.to_owned(), fallback.clone())]);
            Json::of(&JsonMap::from([("answers".to_owned(), Json::of(&answers))]))
        }
        _ => fallback.clone(),
    }
}

/// How a worker's fallback value becomes an answer.
pub(crate) fn payload_form(single: bool) -> Form {
    if single { Form::AskUser } else { Form::Interrupt }
}

fn approve(payload: &Json, context: &mut NodeContext<'_>) -> Result<Bodied, Stop> {
    let value = context.interrupt(payload)?;
    let answer: JsonMap = value.parse().unwrap_or_default();
    let data = part(payload, "data");
    let mut outputs = answer.clone();
    for key in ["artifactId", "artifactType", "artifactData"] {
        outputs.extend(data.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    if let Some(edited) = outputs.remove("editedArtifactData") {
        outputs.insert("artifactData".to_owned(), edited);
    }
    Ok(decided(&answer, &outputs))
}

/// Goes on if what was asked for was accepted, in whatever form.
fn decided(answer: &JsonMap, outputs: &JsonMap) -> Bodied {
    routed(Json::of(outputs), declined(&Json::of(answer)))
}

fn routed(outputs: Json, against: Option<Failure>) -> Bodied {
    match against {
        Some(failure) => Bodied::Declined { outputs, failure },
        None => Bodied::Done(Product::of(Some(outputs))),
    }
}

fn is_approval(payload: &Json) -> bool {
    let kind = payload.parse::<JsonMap>().ok().and_then(|mut payload| payload.remove("kind"));
    kind.is_some_and(|kind| kind.parse::<String>().is_ok_and(|kind| kind == "approval"))
}

/// What there is to say of a decision that is no acceptance, in whatever form.
fn declined(value: &Json) -> Option<Failure> {
    let answer: JsonMap = value.parse().unwrap_or_default();
    let text = |key: &str| answer.get(key).and_then(|value| value.parse::<String>().ok());
    if matches!(text("action").as_deref(), Some("accept" | "edit-accept")) {
        return None;
    }
    let by = text("decidedBy").unwrap_or_default();
    let why =
        ["feedback", "reason"].into_iter().find_map(text).map_or(String::new(), |why| format!(": {why}"));
    let failure = Failure::new("approval_rejected", format!("{by} decided against it{why}"));
    Some(Failure { details: Some(value.clone()), ..failure })
}

fn clarify(payload: &Json, context: &mut NodeContext<'_>) -> Result<Bodied, Stop> {
    let answer = context.interrupt(payload)?;
    Ok(Bodied::Done(Product::of(Some(answer))))
}

fn interrupt(config: &JsonMap, context: &mut NodeContext<'_>) -> Result<Bodied, Stop> {
    let outputs = match config.get("interrupts") {
        Some(list) => {
            // A gate that can't tell what to ask must not let anything through.
            let payloads: Vec<Json> = list.parse().map_err(|_| no_list(list))?;
            let values = context.all(&payloads)?;
            let asked = payloads.iter().map(is_approval).zip(&values);
            let against = asked.filter(|(approval, _)| *approval).find_map(|(_, value)| declined(value));
            let outputs = Json::of(&JsonMap::from([("resumeValues".to_owned(), Json::of(&values))]));
            return Ok(routed(outputs, against));
        }
        None => {
            let payload = Json::of(config);
            let value = context.interrupt(&payload)?;
            if is_approval(&payload) {
                let against = declined(&value);
                let outputs = Json::of(&JsonMap::from([("resumeValue".to_owned(), value)]));
                return Ok(routed(outputs, against));
            }
            let event = value.parse::<JsonMap>().ok().and_then(|mut value| value.remove("eventPayload"));
            let mut outputs = JsonMap::from([("resumeValue".to_owned(), value)]);
            outputs.extend(event.map(|event| ("eventPayload".to_owned(), event)));
            outputs
        }
    };
    Ok(Bodied::Done(Product::of(Some(Json::of(&outputs)))))
}

fn no_list(given: &Json) -> Stop {
    let found = crate::fields::article(given.type_name());
    let message = format!("interrupts: a list of payloads is expected, not {found}");
    Stop::Failed(Failure::new("invalid_interrupt", message))
}

fn request_approval(payload: &Json, context: &mut NodeContext<'_>) -> Result<Bodied, Stop> {
    let answer: JsonMap = context.suspend(payload)?.parse().unwrap_or_default();
    let accepted = answer.get("action").is_some_and(|action| action.text() == "\"accept\"");
    let decision = if accepted { "approved" } else { "rejected" };
    let mut outputs = JsonMap::from([("decision".to_owned(), Json::of(decision))]);
    for (from, to) in [("feedback", "comment"), ("decidedBy", "decidedBy"), ("decidedAt", "decidedAt")] {
        outputs.extend(answer.get(from).map(|value| (to.to_owned(), value.clone())));
    }
    Ok(decided(&answer, &outputs))
}

fn request_form(payload: &Json, context: &mut NodeContext<'_>) -> Result<Bodied, Stop> {
    let values = Json::of(&part(&context.suspend(payload)?, "answers"));
    let outputs = JsonMap::from([("values".to_owned(), values)]);
    Ok(Bodied::Done(Product::of(Some(Json::of(&outputs)))))
}

fn ask_user(payload: &Json, context: &mut NodeContext<'_>) -> Result<Bodied, Stop> {
    let mut answers = part(&context.suspend(payload)?, "answers");
    let outputs: JsonMap = answers.remove_entry(ANSWER).into_iter().collect();
    Ok(Bodied::Done(Product::of(Some(Json::of(&outputs)))))
}

/// One member of an object that is an object too.
fn part(json: &Json, key: &str) -> JsonMap {
    let mut map: JsonMap = json.parse().unwrap_or_default();
    map.remove(key).and_then(|part| part.parse().ok()).unwrap_or_default()
}
