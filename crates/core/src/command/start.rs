//! Start: a run comes into being and goes as far as it can.

use std::sync::Arc;

use crate::command::{Draft, Step, bond};
use crate::doubt::check_threshold;
use crate::event::{Caps, DependsOn, GroupSpec, Parent, READING, RunEvent, Started};
use crate::journal::Salt;
use crate::{Graph, Json, JsonMap, Key, Millis, Rejection, Run, Surroundings, Trace, limits, ports};

/// What a new run is made of.
#[derive(Clone, Debug)]
pub struct Start {
    /// The run's key; its id is drawn by the shell.
    pub key: Key,
    /// The run's secret, drawn by the shell.
    pub salt: Salt,
    /// The definition it will follow for life.
    pub graph: Arc<Graph>,
    /// What the caller passes in.
    pub inputs: JsonMap,
    /// The caller's labels.
    pub tags: Vec<String>,
    /// The caller's own data, an object.
    pub metadata: Option<Json>,
    /// The run and node it stands for, if it is a child.
    pub parent: Option<Parent>,
    /// Who starts it.
    pub by: Option<String>,
    /// The caller's options, an object.
    pub configurable: Option<Json>,
    /// Inputs that are never shown, whatever the definition says.
    pub sensitive: Vec<String>,
    /// Variables that the parent passes on although it has no value for them.
    pub unset: Vec<String>,
    /// The trace that it belongs to.
    pub trace: Option<Trace>,
    /// What the caller says the run is about.
    pub scope: Option<String>,
    /// No other run that says so may be under way for the same workflow and scope.
    pub exclusive: bool,
    /// Who is told when the run waits for something from outside.
    pub callback_url: Option<String>,
    /// The runs that it waits for.
    pub depends_on: Vec<DependsOn>,
    /// It begins only when somebody activates it.
    pub draft: bool,
    /// What it is, if it is a group.
    pub group: Option<GroupSpec>,
    /// What the operator and the agents say about questions that nobody answers. It is no part of the run.
    pub defaults: Arc<Surroundings>,
}

impl Start {
    /// A run of a definition, and nothing more.
    pub fn of(key: Key, salt: Salt, graph: Arc<Graph>) -> Self {
        Self {
            key,
            salt,
            graph,
            inputs: JsonMap::new(),
            tags: Vec::new(),
            metadata: None,
            parent: None,
            by: None,
            configurable: None,
            sensitive: Vec::new(),
            unset: Vec::new(),
            trace: None,
            scope: None,
            exclusive: false,
            callback_url: None,
            depends_on: Vec::new(),
            draft: false,
            group: None,
            defaults: Arc::default(),
        }
    }
}

impl Run {
    /// Starts a run, or says what is wrong with the request.
    pub fn start(start: Start, now: Millis) -> Result<(Self, Step), Rejection> {
        check(&start)?;
        start.group.as_ref().map_or(Ok(()), |group| group.check(now))?;
        let caps = caps(&start)?;
        let declared = start.graph.variables.iter().filter(|variable| variable.sensitive);
        let sensitive = declared.map(|variable| variable.name.clone()).chain(start.sensitive).collect();
        let mut run = Self::empty(start.key, start.salt, start.graph.clone());
        let mut draft = Draft::new(run.head, now, start.defaults);
        let started = Started {
            workflow_id: start.graph.workflow_id.to_string(),
            definition: start.graph.hash_hex(),
            inputs: start.inputs,
            tags: start.tags,
            metadata: start.metadata,
            parent: start.parent,
            by: start.by,
            configurable: start.configurable,
            caps,
            sensitive,
            unset: start.unset,
            scope: start.scope,
            exclusive: start.exclusive,
            reading: READING,
            trace: start.trace,
            callback_url: start.callback_url,
            forked: None,
            depends_on: start.depends_on,
            draft: start.draft,
            group: start.group,
        };
        draft.emit_run(&mut run, RunEvent::Started(Box::new(started)), None);
        run.check_made()?;
        run.settle_blocked(&mut draft);
        run.advance(&mut draft);
        Ok((run, draft.step))
    }
}

pub(crate) fn check(start: &Start) -> Result<(), Rejection> {
    start.graph.check_startable()?;
    ports::check_inputs(&start.graph, &start.inputs, &start.unset)?;
    check_configurable(start)?;
    bond::check_dependencies(start)?;
    if start.tags.len() > limits::TAGS_MAX
        || start.tags.iter().any(|tag| tag.chars().count() > limits::TAG_CHARS_MAX)
    {
        let message =
            format!("'tags' takes at most {} tags of {} characters", limits::TAGS_MAX, limits::TAG_CHARS_MAX);
        return Err(Rejection::invalid("tags", message));
    }
    if start
        .scope
        .as_ref()
        .is_some_and(|scope| !(1..=limits::SCOPE_CHARS_MAX).contains(&scope.chars().count()))
    {
        let message = format!("'scopeId' is a string of 1 to {} characters", limits::SCOPE_CHARS_MAX);
        return Err(Rejection::invalid("scopeId", message));
    }
    if start.metadata.as_ref().is_some_and(|metadata| metadata.type_name() != "object") {
        return Err(Rejection::invalid("metadata", "'metadata' must be an object"));
    }
    Ok(())
}

fn check_configurable(start: &Start) -> Result<(), Rejection> {
    let empty = Json::of(&JsonMap::new());
    let given = start.configurable.as_ref();
    if given.is_some_and(|given| given.type_name() != "object") {
        return Err(Rejection::invalid("configurable", "'configurable' must be an object"));
    }
    if given.is_some_and(|given| given.text().len() > limits::CONFIGURABLE_BYTES_MAX) {
        let message = format!("'configurable' takes at most {} bytes", limits::CONFIGURABLE_BYTES_MAX);
        return Err(Rejection::invalid("configurable", message));
    }
    let Some(schema) = &start.graph.configurable_schema else { return Ok(()) };
    // A run without options is held to the schema too, so that `required` means something.
    let Err(wrong) = schema.check(given.unwrap_or(&empty)) else { return Ok(()) };
    let told: Vec<String> = wrong.iter().map(ToString::to_string).collect();
    let message =
        format!("'configurable' does not fit workflow '{}': {}", start.graph.workflow_id, told.join("; "));
    Err(Rejection::invalid("configurable", message))
}

/// What the run may do at most: what the caller asks for, what the definition says, whichever is less.
pub(crate) fn caps(start: &Start) -> Result<Caps, Rejection> {
    let given =
        start.configurable.as_ref().and_then(|given| given.parse::<JsonMap>().ok()).unwrap_or_default();
    let whole = |key: &str, most: i64| -> Result<Option<i64>, Rejection> {
        // OpenWOP's own client writes null for what it was not told.
        let Some(value) = given.get(key).filter(|value| value.type_name() != "null") else { return Ok(None) };
        let number = value.parse::<i64>().ok().filter(|number| (1..=most).contains(number));
        number.map(Some).ok_or_else(|| {
            let field = format!("configurable.{key}");
            let message = format!("'{field}' is a whole number from 1 to {most}");
            Rejection::invalid(field, message)
        })
    };
    check_threshold(&given)?;
    if start.graph.has_turns() {
        check_model_options(&given)?;
        whole("maxTokens", limits::TOKENS_MAX)?;
    }
    let executions = whole("recursionLimit", limits::NODE_EXECUTIONS_MAX as i64)?;
    let asked = whole("runTimeoutMs", limits::RUN_TIMEOUT_MS_MAX)?;
    let loopbacks = whole("maxLoopIterations", i64::from(limits::LOOPBACKS_MAX))?;
    let written = start.graph.settings.timeout_ms.map(|ms| ms.min(limits::RUN_TIMEOUT_MS_MAX));
    Ok(Caps {
        node_executions: executions.map(i64::unsigned_abs),
        duration_ms: asked.into_iter().chain(written).min(),
        loopbacks: loopbacks.and_then(|most| u32::try_from(most).ok()),
    })
}

/// What a run tells its models: a mistake would be passed over, or refused by the provider at every call.
fn check_model_options(given: &JsonMap) -> Result<(), Rejection> {
    let told = |key: &str| given.get(key).filter(|value| value.type_name() != "null");
    if told("model").is_some_and(|model| model.type_name() != "string") {
        let message = "'configurable.model' is the name of a model";
        return Err(Rejection::invalid("configurable.model", message));
    }
    let is_fit = |number: &Json| number.parse::<f64>().is_ok_and(|number| (0.0..=2.0).contains(&number));
    if told("temperature").is_some_and(|number| !is_fit(number)) {
        let message = "'configurable.temperature' is a number from 0 to 2";
        return Err(Rejection::invalid("configurable.temperature", message));
    }
    Ok(())
}
