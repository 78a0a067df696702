//! What nodes do that ask: the bodies of the gates.
//!
//! A body is a function of what went in and of the answers so far. It is executed from the top whenever the node goes
//! on, and asks the same again: what is answered already returns at once.

mod judge;
mod talk;

use crate::event::{ArtifactCreated, Failure};
use crate::graph::{Form, Gate, Work};
use crate::interrupt::{ANSWER, Ask, NodeContext, Stop};
use crate::perform::Product;
use crate::ports::Inputs;
use crate::scope::RunScope;
use crate::{Json, JsonMap, NodeIx, Run};
use judge::mock_agent;
pub(crate) use talk::objection as talk_objection;

/// How a body ended.
pub(crate) enum Bodied {
    /// The node is done.
    Done(Product),
    /// Somebody decided against what the node asked for.
    Declined(Box<Declined>),
    /// What a dispatch was given may be carried out.
    Ratified,
}

/// A decision against what a node asked for.
pub(crate) struct Declined {
    pub(crate) outputs: Json,
    /// What becomes of the node if nothing leads on from there.
    pub(crate) failure: Failure,
    /// What is to be made better, if that is what was decided.
    pub(crate) refinement: Option<Refinement>,
}

/// What is to be made better, and of what.
pub(crate) struct Refinement {
    pub(crate) feedback: Json,
    pub(crate) artifact: Option<Json>,
    pub(crate) by: String,
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
        let gate = match &node.work {
            Work::Gate(gate) => gate,
            Work::Supervisor(work) => return self.supervise(ix, work, context),
            Work::MockAgent(work) => return mock_agent(&node.id, node.decider(), work, context),
            Work::Dispatch(_) => return self.confirm_dispatch(ix, context),
            _ => {
                let message = format!("node '{}' asks nothing", node.id);
                return Err(Stop::Failed(Failure::new("invalid_config", message)));
            }
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
            Form::Conversation => talk::hold(&config, &node.id, self.graph.plays_mocks(), context),
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
            Form::Conversation => talk::foreseen(&config),
            form => vec![payload(form, config, defaults)],
        }
    }

    /// Whether it takes part in conversations, as far as that can be told before the node has its inputs.
    pub(crate) fn converses(&self) -> bool {
        let asks = self.foreseen();
        let asks = asks.iter().filter_map(|payload| self.read_payload(payload).ok());
        self.form == Form::Conversation || asks.into_iter().any(|ask| ask.kind.is_of_conversation())
    }

    /// Whether it asks for a mock of the public fixtures.
    pub(crate) fn wants_mock(&self) -> bool {
        let asked = self.plain.as_ref().and_then(|config| config.get("mockAutoResume"));
        self.form == Form::Conversation && asked.is_some_and(|asked| asked.text() != "false")
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
        Form::Clarification | Form::Interrupt | Form::Conversation => config,
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
    Ok(routed(Json::of(&outputs), declined(payload, &Json::of(&answer))))
}

/// Goes on if what was asked for was accepted, in whatever form.
fn routed(outputs: Json, against: Option<Against>) -> Bodied {
    match against {
        Some((failure, refinement)) => Bodied::Declined(Box::new(Declined { outputs, failure, refinement })),
        None => Bodied::Done(Product::of(Some(outputs))),
    }
}

/// What there is to say of a decision that is no acceptance, and what is to be made better.
type Against = (Failure, Option<Refinement>);

fn is_approval(payload: &Json) -> bool {
    let kind = payload.parse::<JsonMap>().ok().and_then(|mut payload| payload.remove("kind"));
    kind.is_some_and(|kind| kind.parse::<String>().is_ok_and(|kind| kind == "approval"))
}

/// What there is to say of a decision that is no acceptance, in whatever form.
fn declined(payload: &Json, value: &Json) -> Option<Against> {
    let answer: JsonMap = value.parse().unwrap_or_default();
    let text = |key: &str| answer.get(key).and_then(|value| value.parse::<String>().ok());
    let action = text("action");
    if matches!(action.as_deref(), Some("accept" | "edit-accept")) {
        return None;
    }
    let by = text("decidedBy").unwrap_or_default();
    let why =
        ["feedback", "reason"].into_iter().find_map(text).map_or(String::new(), |why| format!(": {why}"));
    let failure = Failure::new("approval_rejected", format!("{by} decided against it{why}"));
    let feedback = answer.get("refineFeedback").filter(|_| action.as_deref() == Some("refine"));
    let refinement = feedback.map(|feedback| Refinement {
        feedback: feedback.clone(),
        artifact: part(payload, "data").remove("artifactData"),
        by,
    });
    Some((Failure { details: Some(value.clone()), ..failure }, refinement))
}

fn clarify(payload: &Json, context: &mut NodeContext<'_>) -> Result<Bodied, Stop> {
    let answer = context.interrupt(payload)?;
    Ok(Bodied::Done(Product::of(Some(answer))))
}

fn interrupt(config: &JsonMap, context: &mut NodeContext<'_>) -> Result<Bodied, Stop> {
    if let Some(list) = config.get("interrupts") {
        // A gate that can't tell what to ask must not let anything through.
        let payloads: Vec<Json> = list.parse().map_err(|_| no_list(list))?;
        let values = context.all(&payloads)?;
        let asked = payloads.iter().zip(&values).filter(|(payload, _)| is_approval(payload));
        let mut against: Vec<Against> =
            asked.filter_map(|(payload, value)| declined(payload, value)).collect();
        // What nobody wants at all need not be made better.
        against.sort_by_key(|(_, refinement)| refinement.is_some());
        let outputs = Json::of(&JsonMap::from([("resumeValues".to_owned(), Json::of(&values))]));
        return Ok(routed(outputs, against.into_iter().next()));
    }
    let payload = Json::of(config);
    let value = context.interrupt(&payload)?;
    let told: JsonMap = value.parse().unwrap_or_default();
    let against = is_approval(&payload).then(|| declined(&payload, &value)).flatten();
    let mut outputs = JsonMap::from([("resumeValue".to_owned(), value)]);
    let named = if is_approval(&payload) {
        ("editedArtifactData", "artifactData")
    } else {
        ("eventPayload", "eventPayload")
    };
    outputs.extend(told.get(named.0).map(|value| (named.1.to_owned(), value.clone())));
    Ok(routed(Json::of(&outputs), against))
}

fn no_list(given: &Json) -> Stop {
    let found = crate::fields::article(given.type_name());
    let message = format!("interrupts: a list of payloads is expected, not {found}");
    Stop::Failed(Failure::new("invalid_interrupt", message))
}

fn request_approval(payload: &Json, context: &mut NodeContext<'_>) -> Result<Bodied, Stop> {
    let value = context.suspend(payload)?;
    let answer: JsonMap = value.parse().unwrap_or_default();
    let action = answer.get("action").and_then(|action| action.parse::<String>().ok());
    let decision = match action.as_deref() {
        Some("accept" | "edit-accept") => "approved",
        Some("refine") => "refine",
        _ => "rejected",
    };
    let mut outputs = JsonMap::from([("decision".to_owned(), Json::of(decision))]);
    for (from, to) in [
        ("feedback", "comment"),
        ("decidedBy", "decidedBy"),
        ("decidedAt", "decidedAt"),
        ("refineFeedback", "refineFeedback"),
        ("editedArtifactData", "artifactData"),
    ] {
        outputs.extend(answer.get(from).map(|value| (to.to_owned(), value.clone())));
    }
    Ok(routed(Json::of(&outputs), declined(payload, &value)))
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
