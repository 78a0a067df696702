//! What each kind of node does, read from its config.

use std::collections::BTreeMap;

use crate::doubt::Confidence;
use crate::expression::Expression;
use crate::fields::{Fields, Findings};
use crate::graph::{Gate, Kind, TurnWork};
use crate::hand::HandWork;
use crate::http::{SECRET_IN_HOST, ends_before_path, header_problem};
use crate::phase::PhaseWork;
use crate::template::{JsonTemplate, Template};
use crate::{Json, JsonMap, limits};

/// What an expression reads.
type Reads = Vec<(String, Option<String>)>;

/// What a node does, with everything its config says.
#[derive(Debug)]
pub(crate) enum Work {
    Noop,
    Identity(Identity),
    Delay,
    Fail {
        code: Option<String>,
        message: Option<String>,
    },
    ChannelWrite(ChannelWrite),
    SubWorkflow(SubWorkflow),
    Http(Box<Http>),
    Transform(Transform),
    Branch(Branch),
    Supervisor(Supervisor),
    Dispatch(Dispatch),
    MockAgent(MockAgent),
    Gate(Box<Gate>),
    Turn(Box<TurnWork>),
    ByHand(Box<HandWork>),
    Phase(Box<PhaseWork>),
    /// Nothing here provides it.
    Unknown,
    /// Its config makes no sense. Only a definition of an older version can hold one: a new one is refused.
    Unfit(String),
}

/// `core.identity`: gives its inputs back.
#[derive(Debug, Default)]
pub(crate) struct Identity {
    /// A mock of the public fixtures: writes one message twice to each message channel.
    pub(crate) repeats_message: bool,
}

/// `core.channelWrite`.
#[derive(Debug)]
pub(crate) struct ChannelWrite {
    pub(crate) channel: String,
    /// How to fold into a channel that the definition does not declare.
    pub(crate) reducer: Option<String>,
    pub(crate) ttl_ms: Option<i64>,
    /// What is written, unless `inputs.value` is given.
    pub(crate) value: Option<Json>,
}

/// `core.subWorkflow`.
#[derive(Debug)]
pub(crate) struct SubWorkflow {
    pub(crate) workflow_id: String,
    pub(crate) wait: bool,
    /// The node completes although the child did not.
    pub(crate) absorb: bool,
    pub(crate) cascade: bool,
    pub(crate) mapping: Mapping,
}

/// What goes into a child and what comes back.
#[derive(Debug, Default)]
pub(crate) struct Mapping {
    /// The child's variables, by the parent's.
    pub(crate) inputs: BTreeMap<String, String>,
    /// The parent's variables, by the child's.
    pub(crate) outputs: BTreeMap<String, String>,
}

/// `core.http.request`.
#[derive(Debug)]
pub(crate) struct Http {
    pub(crate) method: String,
    pub(crate) url: Template,
    pub(crate) headers: Vec<(String, Template)>,
    pub(crate) body: Option<HttpBody>,
    pub(crate) timeout_ms: i64,
    pub(crate) response_bytes_max: usize,
    pub(crate) accept_statuses: Vec<u16>,
    pub(crate) redirects_max: u8,
}

/// What is sent.
#[derive(Debug)]
pub(crate) enum HttpBody {
    /// A string: sent as text.
    Text(Template),
    /// Anything else: sent as JSON.
    Json(JsonTemplate),
}

/// `core.transform`.
#[derive(Debug)]
pub(crate) struct Transform {
    pub(crate) outputs: Vec<(String, Expression)>,
    pub(crate) assign: Vec<(String, Expression)>,
}

/// `core.branch`.
#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) cases: Vec<(String, Expression)>,
    pub(crate) default: Option<String>,
}

/// `core.orchestrator.supervisor`, as far as the public fixtures play it.
#[derive(Debug)]
pub(crate) struct Supervisor {
    pub(crate) plan: Vec<JsonMap>,
    /// How sure the mock is of what it planned, if it says so.
    pub(crate) confidence: Option<Confidence>,
}

/// `core.conformance.mock-agent`: an agent of the public fixtures.
#[derive(Debug)]
pub(crate) struct MockAgent {
    pub(crate) agent: Option<String>,
    pub(crate) decision: Option<Json>,
    pub(crate) confidence: Confidence,
}

/// `core.dispatch`.
#[derive(Debug)]
pub(crate) struct Dispatch {
    pub(crate) mapping: Mapping,
    /// Several workers at once are refused rather than run one after the other.
    pub(crate) one_only: bool,
    pub(crate) iterations_max: Option<u32>,
}

impl Work {
    /// Reads the config of a node of this kind. What is wrong with it is an objection, and the work unfit: older
    /// versions took in any config of kinds they did not know.
    pub(crate) fn read(kind: Kind, config: &JsonMap, place: &str, findings: &mut Findings) -> Self {
        let mut own = Findings::default();
        let json = Json::of(config);
        let Some(mut fields) = Fields::of(&json, format!("{place}.config"), &mut own) else {
            return Self::Unknown;
        };
        let work = match kind {
            Kind::Noop => Some(Self::Noop),
            Kind::Identity => {
                let repeats_message =
                    config.get("emitDuplicateMessageId").is_some_and(|on| on.text() == "true");
                Some(Self::Identity(Identity { repeats_message }))
            }
            Kind::Delay => Some(Self::Delay),
            Kind::Fail => Some(read_fail(config)),
            Kind::ChannelWrite => ChannelWrite::read(&mut fields).map(Self::ChannelWrite),
            Kind::SubWorkflow => SubWorkflow::read(&mut fields).map(Self::SubWorkflow),
            Kind::Http => Http::read(&mut fields).map(|http| Self::Http(Box::new(http))),
            Kind::Transform => Transform::read(&mut fields).map(Self::Transform),
            Kind::Branch => Branch::read(&mut fields).map(Self::Branch),
            Kind::Supervisor => Supervisor::read(&mut fields).map(Self::Supervisor),
            Kind::Dispatch => Dispatch::read(&mut fields).map(Self::Dispatch),
            Kind::MockAgent => MockAgent::read(&mut fields).map(Self::MockAgent),
            Kind::ApprovalGate
            | Kind::ClarificationGate
            | Kind::Interrupt
            | Kind::ApprovalRequest
            | Kind::FormRequest
            | Kind::AskUser
            | Kind::ConversationGate => {
                let form = kind.form().expect("these are the gates");
                Gate::read(form, config, &mut fields).map(|gate| Self::Gate(Box::new(gate)))
            }
            Kind::Turn => TurnWork::read(&mut fields, true).map(Self::turn),
            Kind::Chat => TurnWork::read(&mut fields, false).map(Self::turn),
            Kind::Prompt => TurnWork::read_prompt(&mut fields).map(Self::turn),
            Kind::ByHand => Some(Self::ByHand(Box::new(HandWork::read(&mut fields)))),
            Kind::Phase => Some(Self::Phase(Box::new(PhaseWork::read(&mut fields)))),
            Kind::Unknown => Some(Self::Unknown),
        };
        if work.is_some() && kind.has_closed_config() {
            fields.finish();
        }
        let wrong = own.all();
        let reason = wrong.first().map(ToString::to_string);
        wrong.into_iter().for_each(|problem| findings.objection(problem.place, problem.message));
        match (work, reason) {
            (Some(work), None) => work,
            (_, reason) => Self::Unfit(reason.unwrap_or_default()),
        }
    }

    fn turn(work: TurnWork) -> Self {
        Self::Turn(Box::new(work))
    }

    /// Every expression in the config, with its place below the config.
    pub(crate) fn expressions(&self) -> Vec<(String, Reads)> {
        let of = |name: &str, list: &[(String, Expression)]| -> Vec<_> {
            list.iter().map(|(key, e)| (format!("{name}.{key}"), e.reads().to_vec())).collect()
        };
        match self {
            Self::Transform(transform) => {
                let mut all = of("outputs", &transform.outputs);
                all.extend(of("assign", &transform.assign));
                all
            }
            Self::Branch(branch) => of("cases", &branch.cases),
            Self::Gate(gate) => vec![(String::new(), gate.template.reads())],
            Self::Turn(work) => work.expressions(),
            Self::Http(http) => {
                let mut all = vec![("url".to_owned(), http.url.reads())];
                all.extend(
                    http.headers.iter().map(|(name, value)| (format!("headers.{name}"), value.reads())),
                );
                match &http.body {
                    Some(HttpBody::Text(text)) => all.push(("body".to_owned(), text.reads())),
                    Some(HttpBody::Json(json)) => all.push(("body".to_owned(), json.reads())),
                    None => {}
                }
                all
            }
            _ => Vec::new(),
        }
    }
}

/// A code of our own shape is taken over; anything else stays what it was in the first release: unread.
fn read_fail(config: &JsonMap) -> Work {
    let text = |key: &str| config.get(key).and_then(|value| value.parse::<String>().ok());
    let is_code = |code: &String| {
        (1..=64).contains(&code.len())
            && code.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    Work::Fail { code: text("code").filter(is_code), message: text("message") }
}

impl ChannelWrite {
    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let channel = fields.text("channelName");
        let reducer = fields.optional_text("reducer");
        let ttl_ms = fields.optional_whole("ttlMs", 0..=limits::CHANNEL_TTL_MS_MAX).filter(|&ms| ms > 0);
        let value = fields.any("value");
        Some(Self { channel: channel?, reducer, ttl_ms, value })
    }
}

impl SubWorkflow {
    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let workflow_id = fields.text("workflowId");
        let wait = fields.optional_flag("waitForCompletion").unwrap_or(true);
        let on_failure = fields.optional_text("onChildFailure");
        let cascade = fields.optional_flag("propagateCancellation").unwrap_or(true);
        let mapping = Mapping::read(fields);
        let place = fields.place("onChildFailure");
        let absorb = match on_failure.as_deref() {
            None | Some("fail-parent") => false,
            Some("absorb") => true,
            Some(_) => {
                fields.findings().objection(place, "use fail-parent or absorb");
                false
            }
        };
        if !wait && !mapping.outputs.is_empty() {
            let place = fields.place("outputMapping");
            fields
                .findings()
                .objection(place, "a child that is not waited for gives nothing back; remove it");
        }
        Some(Self { workflow_id: workflow_id?, wait, absorb, cascade, mapping })
    }
}

impl Mapping {
    fn read(fields: &mut Fields<'_>) -> Self {
        Self { inputs: texts(fields, "inputMapping"), outputs: texts(fields, "outputMapping") }
    }
}

fn texts(fields: &mut Fields<'_>, key: &'static str) -> BTreeMap<String, String> {
    let map = fields.optional_map(key).unwrap_or_default();
    let place = fields.place(key);
    let mut read = BTreeMap::new();
    for (name, value) in map {
        match value.parse::<String>() {
            Ok(text) => drop(read.insert(name, text)),
            Err(_) => {
                fields.findings().objection(format!("{place}.{name}"), "the name of a variable is expected");
            }
        }
    }
    read
}

const METHODS: &[&str] = &["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

impl Http {
    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let method = fields.optional_text("method").unwrap_or_else(|| "GET".to_owned()).to_ascii_uppercase();
        if !METHODS.contains(&method.as_str()) {
            let place = fields.place("method");
            fields.findings().objection(place, format!("use one of {}", METHODS.join(", ")));
        }
        let url = Self::url(fields);
        let headers = Self::headers(fields);
        let body = Self::body(fields);
        let timeout_ms = fields.optional_whole("timeoutMs", 1..=limits::HTTP_TIMEOUT_MS_MAX);
        let bytes = fields.optional_whole("maxResponseBytes", 1..=limits::HTTP_RESPONSE_BYTES_MAX as i64);
        let redirects = fields.optional_whole("maxRedirects", 0..=10);
        let accept_statuses = Self::statuses(fields);
        Some(Self {
            method,
            url: url?,
            headers,
            body,
            timeout_ms: timeout_ms.unwrap_or(limits::HTTP_TIMEOUT_MS_DEFAULT),
            response_bytes_max: bytes.map_or(limits::HTTP_RESPONSE_BYTES_MAX, |bytes| bytes as usize),
            accept_statuses,
            redirects_max: redirects.map_or(5, |most| most as u8),
        })
    }

    fn url(fields: &mut Fields<'_>) -> Option<Template> {
        let text = fields.text("url")?;
        let place = fields.place("url");
        let url = parsed(Template::parse(&text), &place, fields.findings())?;
        if url.before_secret().is_some_and(|before| ends_before_path(&before)) {
            fields.findings().objection(place, SECRET_IN_HOST);
        }
        Some(url)
    }

    fn headers(fields: &mut Fields<'_>) -> Vec<(String, Template)> {
        let map = fields.optional_map("headers").unwrap_or_default();
        let place = fields.place("headers");
        let mut headers = Vec::new();
        for (name, value) in map {
            let place = format!("{place}.{name}");
            if let Some(problem) = header_problem(&name) {
                fields.findings().objection(place.clone(), problem);
            }
            match value.parse::<String>() {
                Ok(text) => {
                    let template = parsed(Template::parse(&text), &place, fields.findings());
                    headers.extend(template.map(|template| (name, template)));
                }
                Err(_) => fields.findings().objection(place, "a string is expected"),
            }
        }
        headers
    }

    fn body(fields: &mut Fields<'_>) -> Option<HttpBody> {
        let json = fields.optional("body")?;
        let place = fields.place("body");
        let findings = fields.findings();
        match json.parse::<String>() {
            Ok(text) => parsed(Template::parse(&text), &place, findings).map(HttpBody::Text),
            Err(_) => parsed(JsonTemplate::parse(&json), &place, findings).map(HttpBody::Json),
        }
    }

    fn statuses(fields: &mut Fields<'_>) -> Vec<u16> {
        let list = fields.optional_list("acceptStatuses").unwrap_or_default();
        let place = fields.place("acceptStatuses");
        let known = |json: &Json| json.parse::<u16>().ok().filter(|status| (100..=599).contains(status));
        let statuses: Vec<u16> = list.iter().filter_map(known).collect();
        if statuses.len() < list.len() {
            fields.findings().objection(place, "HTTP statuses from 100 to 599 are expected");
        }
        statuses
    }
}

fn parsed<T>(result: Result<T, String>, place: &str, findings: &mut Findings) -> Option<T> {
    result.map_err(|message| findings.objection(place, message)).ok()
}

fn expressions(fields: &mut Fields<'_>, key: &'static str) -> Vec<(String, Expression)> {
    let map = fields.optional_map(key).unwrap_or_default();
    let place = fields.place(key);
    let mut read = Vec::new();
    for (name, value) in map {
        let place = format!("{place}.{name}");
        match value.parse::<String>() {
            Ok(text) => {
                let expression = parsed(Expression::parse(&text), &place, fields.findings());
                read.extend(expression.map(|expression| (name, expression)));
            }
            Err(_) => fields.findings().objection(place, "an expression is a string"),
        }
    }
    read
}

impl Transform {
    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let single = fields.optional_text("expression");
        let place = fields.place("expression");
        let single = single.and_then(|text| parsed(Expression::parse(&text), &place, fields.findings()));
        let mut outputs = expressions(fields, "outputs");
        let assign = expressions(fields, "assign");
        if let Some(expression) = single {
            outputs.push(("output".to_owned(), expression));
        }
        if outputs.is_empty() && assign.is_empty() {
            let place = fields.place("expression");
            fields
                .findings()
                .objection(place, "give an expression, outputs or assign; there is nothing to do");
        }
        Some(Self { outputs, assign })
    }
}

impl Branch {
    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let list = fields.list("cases");
        let default = fields.optional_text("default");
        let place = fields.place("cases");
        let mut cases = Vec::new();
        for (ix, json) in list.iter().enumerate() {
            let place = format!("{place}[{ix}]");
            let Some(mut case) = Fields::of(json, place, fields.findings()) else { continue };
            let (name, when) = (case.text("name"), case.text("when"));
            let place = case.place("when");
            let when = when.and_then(|text| parsed(Expression::parse(&text), &place, case.findings()));
            case.finish();
            cases.extend(name.zip(when));
        }
        Some(Self { cases, default })
    }

    /// Whether it can choose this name.
    pub(crate) fn offers(&self, name: &str) -> bool {
        self.default.as_deref() == Some(name) || self.cases.iter().any(|(case, _)| case == name)
    }
}

impl Supervisor {
    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let decisions = fields.optional_list("mockDecisions");
        let plan = fields.optional_list("mockDispatchPlan").or(decisions).unwrap_or_default();
        let pending = fields.any("mockPendingDecision");
        let told = fields.any("mockConfidence");
        let plan = pending.into_iter().chain(plan).filter_map(|json| json.parse().ok()).collect();
        let confidence = told.map(|told| read_confidence("mockConfidence", Some(&told), fields));
        Some(Self { plan, confidence })
    }
}

impl MockAgent {
    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let agent = fields.optional_text("agentId");
        let decided = fields.optional_map("mockDecision");
        let short = fields.any("mockConfidence");
        for key in ["mockReasoning", "mockToolCalls", "mockHandoff"] {
            fields.any(key);
        }
        let synthetic = || short.as_ref().map(|_| Json::of(&serde_json::json!({ "kind": "mock" })));
        let told = decided.as_ref().map_or(short.as_ref(), |decided| decided.get("confidence"));
        let decision = match &decided {
            Some(decided) => decided.get("decision").cloned(),
            None => synthetic(),
        };
        let confidence = read_confidence("mockDecision.confidence", told, fields);
        Some(Self { agent, decision, confidence })
    }
}

fn read_confidence(key: &'static str, told: Option<&Json>, fields: &mut Fields<'_>) -> Confidence {
    Confidence::read(told).unwrap_or_else(|message| {
        let place = fields.place(key);
        fields.findings().objection(place, message);
        Confidence::Untold
    })
}

impl Dispatch {
    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        fields.optional_text("askUserRouting");
        let model = fields.optional_text("workerDispatchModel");
        let fan_out = fields.optional_text("fanOutPolicy");
        let most = fields.optional_whole("iterationCap", 1..=i64::from(u32::MAX));
        let mapping = Mapping::read(fields);
        for (key, given, known) in [
            ("workerDispatchModel", &model, &["child-run"][..]),
            ("fanOutPolicy", &fan_out, &["sequential", "reject"][..]),
        ] {
            if given.as_deref().is_some_and(|given| !known.contains(&given)) {
                let place = fields.place(key);
                fields.findings().objection(place, format!("use {}", known.join(" or ")));
            }
        }
        let iterations_max = most.and_then(|most| u32::try_from(most).ok());
        Some(Self { mapping, one_only: fan_out.as_deref() == Some("reject"), iterations_max })
    }
}
