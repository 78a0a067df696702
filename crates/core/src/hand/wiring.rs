//! What goes into a node that is done by hand, and what has to come out.
//!
//! An input is wired to what a run that is waited for has produced (`phase.key`), to what the workflow was triggered with
//! (`$trigger.key`) or to what the run began with (`$initial_state.key`).

use std::collections::{BTreeMap, BTreeSet};

use crate::condition::same;
use crate::event::BlockedReason;
use crate::excerpt::excerpt;
use crate::fields::{Entries, Fields};
use crate::{Json, JsonMap, Millis, NodeIx, Rejection, Run, RunId, limits};

/// Where `$trigger.key` is found.
pub(crate) const TRIGGER: &str = "trigger";

/// Where `$initial_state.key` is found.
pub(crate) const INITIAL_STATE: &str = "initial_state";

/// `core.byHand`.
#[derive(Clone, Debug, Default)]
pub(crate) struct HandWork {
    /// The agent that it is meant for, if it is meant for one.
    pub(crate) assign: Option<String>,
    /// Where each input comes from.
    pub(crate) inputs: BTreeMap<String, Source>,
    /// What has to come out.
    pub(crate) outputs: BTreeMap<String, Want>,
}

/// Where an input comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// A run that is waited for, by the name it has here, and what it has produced.
    Phase { name: String, key: String },
    /// What the workflow was triggered with.
    Trigger(String),
    /// What the run began with.
    InitialState(String),
}

/// What an output has to be.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Want {
    pub(crate) shape: Shape,
    pub(crate) required: bool,
}

/// The shape of an output.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    Any,
    Text,
    Number,
    Boolean,
    Object,
    Array,
    /// One of these values.
    OneOf(Vec<Json>),
    /// An object with these keys.
    Keys(BTreeSet<String>),
}

/// Why somebody can't have a node yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unclaimed {
    /// A run that an input comes from waits for people.
    UpstreamSuspended {
        /// The node, as a task.
        task_id: String,
        /// What the run is called that the input comes from.
        phase_name: String,
        /// Which run that is.
        suspended_intent_id: RunId,
        /// When that is over at the latest, if there is an end.
        expected_resume_at: Option<Millis>,
    },
    /// Inputs come from nowhere: each with where it should come from.
    Unresolvable(Vec<String>),
    /// The inputs have more bytes than a node may be given.
    TooLarge,
    /// The run waits for others.
    Blocked(BlockedReason),
    /// The run is a draft.
    Draft,
    /// Somebody holds the run.
    Held,
    /// What comes before the node is not done.
    NotReached,
}

/// An output is not what it has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeMismatch {
    /// Which.
    pub output: String,
    /// What it has to be.
    pub expected: String,
    /// What it is.
    pub found: String,
}

impl Source {
    /// Reads where an input comes from.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let key = |rest: &str| (!rest.is_empty()).then(|| rest.to_owned());
        let found = if let Some(rest) = text.strip_prefix("$trigger.") {
            key(rest).map(Self::Trigger)
        } else if let Some(rest) = text.strip_prefix("$initial_state.") {
            key(rest).map(Self::InitialState)
        } else {
            let parts = text.split_once('.').filter(|(name, rest)| !name.is_empty() && !rest.is_empty());
            parts
                .filter(|(name, _)| !name.starts_with('$'))
                .map(|(name, key)| Self::Phase { name: name.to_owned(), key: key.to_owned() })
        };
        found.ok_or_else(|| {
            format!(
                "'{}' says not where it comes from; use phase.key, $trigger.key or $initial_state.key",
                excerpt(text)
            )
        })
    }

    /// The run that it comes from, by the name that this has here.
    pub(crate) fn phase(&self) -> Option<&str> {
        if let Self::Phase { name, .. } = self { Some(name) } else { None }
    }

    fn told(&self) -> String {
        match self {
            Self::Phase { name, key } => format!("{name}.{key}"),
            Self::Trigger(key) => format!("$trigger.{key}"),
            Self::InitialState(key) => format!("$initial_state.{key}"),
        }
    }
}

/// What may stand where a type is expected.
const TYPE_EXPECTED: &str = "a type is a word, {\"enum\": […]} or {\"keys\": […]}";

/// The keys of an object that says what an output has to be. What is described changes nothing.
const WANT_KEYS: &[&str] = &["type", "enum", "keys", "required", "description"];

/// Reads an object of which every key is known and stands once. A misspelt key would otherwise ask for nothing, and
/// nobody would notice before the outputs come.
fn closed(json: &Json, known: &[&str]) -> Result<JsonMap, String> {
    let Entries(entries) = json.parse().map_err(|_| TYPE_EXPECTED.to_owned())?;
    let mut map = JsonMap::new();
    for (key, value) in entries {
        let shown = excerpt(&key);
        if !known.contains(&key.as_str()) {
            return Err(format!("there is no '{shown}' here; the keys are {}", known.join(", ")));
        }
        if map.insert(key, value).is_some() {
            return Err(format!("'{shown}' stands there twice; remove one"));
        }
    }
    Ok(map)
}

impl Shape {
    /// Reads a shape: a word, a list of values, or the keys of an object.
    fn read(json: &Json) -> Result<Self, String> {
        if let Ok(word) = json.parse::<String>() {
            return Self::of_word(&word);
        }
        let mut shape = closed(json, &["enum", "keys"])?;
        match (shape.remove("enum"), shape.remove("keys")) {
            (Some(values), None) => Self::Any.narrowed(&values),
            (None, Some(keys)) => Self::of_keys(&keys),
            _ => Err(TYPE_EXPECTED.to_owned()),
        }
    }

    fn of_word(word: &str) -> Result<Self, String> {
        Ok(match word {
            "any" => Self::Any,
            "string" => Self::Text,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            "object" => Self::Object,
            "array" => Self::Array,
            other => {
                return Err(format!(
                    "'{}' is no type; use string, number, boolean, object, array or any",
                    excerpt(other)
                ));
            }
        })
    }

    fn of_keys(keys: &Json) -> Result<Self, String> {
        keys.parse().map(Self::Keys).map_err(|_| "'keys' is a list of texts".to_owned())
    }

    /// One of these values, each of which has this shape.
    fn narrowed(&self, values: &Json) -> Result<Self, String> {
        let values: Vec<Json> = values.parse().map_err(|_| "'enum' is a list of values".to_owned())?;
        if values.is_empty() {
            return Err("'enum' lists no value, so nothing would do; list some, or remove it".to_owned());
        }
        match values.iter().find(|value| !self.fits(value)) {
            Some(odd) => Err(format!(
                "{} stands in 'enum', but the type is {}; change one of them",
                excerpt(odd.text()),
                excerpt(self.told())
            )),
            None => Ok(Self::OneOf(values)),
        }
    }

    fn fits(&self, value: &Json) -> bool {
        match self {
            Self::Any => true,
            Self::Text => value.type_name() == "string",
            Self::Number => value.type_name() == "number",
            Self::Boolean => value.type_name() == "boolean",
            Self::Object => value.type_name() == "object",
            Self::Array => value.type_name() == "array",
            Self::OneOf(values) => {
                let values = values.iter().filter_map(|one| one.parse().ok());
                value.parse().is_ok_and(|value| values.into_iter().any(|one| same(&one, &value)))
            }
            Self::Keys(keys) => {
                let found = value.parse::<JsonMap>();
                found.is_ok_and(|found| keys.iter().all(|key| found.contains_key(key)))
            }
        }
    }

    fn told(&self) -> String {
        match self {
            Self::Any => "anything".to_owned(),
            Self::Text => "string".to_owned(),
            Self::Number => "number".to_owned(),
            Self::Boolean => "boolean".to_owned(),
            Self::Object => "object".to_owned(),
            Self::Array => "array".to_owned(),
            Self::OneOf(values) => {
                let values: Vec<&str> = values.iter().map(Json::text).collect();
                format!("one of {}", values.join(", "))
            }
            Self::Keys(keys) => {
                let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
                format!("an object with {}", keys.join(", "))
            }
        }
    }
}

impl HandWork {
    /// Reads the node's config.
    pub(crate) fn read(fields: &mut Fields<'_>) -> Self {
        Self::read_with_config(fields).0
    }

    /// Reads the node's config, and gives it back as it is written.
    pub(crate) fn read_with_config(fields: &mut Fields<'_>) -> (Self, JsonMap) {
        let assign = fields.optional_text("assign");
        let mut work = Self { assign: assign.clone(), ..Self::default() };
        let (inputs, outputs) = (fields.optional_map("inputs"), fields.optional_map("outputs"));
        let written = [
            ("assign", assign.map(|assign| Json::of(&assign))),
            ("inputs", inputs.as_ref().map(Json::of)),
            ("outputs", outputs.as_ref().map(Json::of)),
        ];
        let written = written.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        let written = written.collect();
        for (name, ports) in [("inputs", &inputs), ("outputs", &outputs)] {
            let (count, most) = (ports.as_ref().map_or(0, JsonMap::len), limits::HAND_PORTS_MAX);
            if count > most {
                let message = format!("there are {count} of them, and {most} are allowed");
                let place = fields.place(name);
                fields.findings().objection(place, message);
            }
        }
        let place = fields.place("inputs");
        for (name, from) in inputs.unwrap_or_default() {
            let text = from.parse::<String>().map_err(|_| "a text is expected".to_owned());
            match text.and_then(|text| Source::read(&text)) {
                Ok(source) => drop(work.inputs.insert(name, source)),
                Err(message) => fields.findings().objection(format!("{place}.{}", excerpt(&name)), message),
            }
        }
        let place = fields.place("outputs");
        for (name, want) in outputs.unwrap_or_default() {
            match Want::read(&want) {
                Ok(want) => drop(work.outputs.insert(name, want)),
                Err(message) => fields.findings().objection(format!("{place}.{}", excerpt(&name)), message),
            }
        }
        (work, written)
    }

    /// Refuses outputs that are missing, or are not what they have to be.
    pub(crate) fn check_outputs(&self, outputs: Option<&Json>) -> Result<(), Rejection> {
        if outputs.is_some_and(|outputs| outputs.type_name() != "object") {
            return Err(Rejection::invalid("outputs", "'outputs' must be an object"));
        }
        let given: JsonMap = outputs.and_then(|outputs| outputs.parse().ok()).unwrap_or_default();
        let missing: Vec<String> = self
            .outputs
            .iter()
            .filter(|(name, want)| want.required && !given.contains_key(*name))
            .map(|(name, _)| name.clone())
            .collect();
        let wrong = self.outputs.iter().filter_map(|(name, want)| {
            let value = given.get(name).filter(|value| !want.shape.fits(value))?;
            let (expected, found) = (want.shape.told(), value.type_name().to_owned());
            Some(TypeMismatch { output: name.clone(), expected, found })
        });
        let type_errors: Vec<TypeMismatch> = wrong.collect();
        if missing.is_empty() && type_errors.is_empty() {
            return Ok(());
        }
        Err(Rejection::Outputs { missing, type_errors })
    }
}

/// What somebody wrote elsewhere about inputs and outputs. What can't be read asks for what is nowhere.
pub(crate) fn wiring_of(assign: Option<String>, inputs: JsonMap, outputs: JsonMap) -> HandWork {
    let source = |json: Json| {
        let text = json.parse::<String>().unwrap_or_default();
        Source::read(&text).unwrap_or(Source::InitialState(text))
    };
    let any = || Want { shape: Shape::Any, required: true };
    HandWork {
        assign,
        inputs: inputs.into_iter().map(|(name, json)| (name, source(json))).collect(),
        outputs: outputs
            .into_iter()
            .map(|(name, json)| (name, Want::read(&json).unwrap_or_else(|_| any())))
            .collect(),
    }
}

impl Want {
    /// Reads a type, or an object that has one of `type` and `keys`, or `enum`, or both, and may have `required`.
    fn read(json: &Json) -> Result<Self, String> {
        if json.type_name() != "object" {
            return Ok(Self { shape: Shape::read(json)?, required: true });
        }
        let mut given = closed(json, WANT_KEYS)?;
        let required = given.remove("required").map_or(Ok(true), |required| required.parse());
        let required = required.map_err(|_| "'required' is true or false".to_owned())?;
        let values = given.remove("enum");
        let shape = match (given.remove("type"), given.remove("keys")) {
            (Some(_), Some(_)) => return Err("'keys' says the type already; remove 'type'".to_owned()),
            (Some(kind), None) => Shape::read(&kind)?,
            (None, Some(keys)) => Shape::of_keys(&keys)?,
            (None, None) if values.is_some() => Shape::Any,
            (None, None) => return Err(TYPE_EXPECTED.to_owned()),
        };
        let shape = values.map_or(Ok(shape.clone()), |values| shape.narrowed(&values))?;
        Ok(Self { shape, required })
    }
}

/// What a run began with, as objects.
struct Given {
    trigger: Option<JsonMap>,
    initial_state: Option<JsonMap>,
}

impl Run {
    /// What goes into a node, and whether any of it is never shown; or why it can't be said yet. Whether somebody before
    /// it is suspended is looked at first.
    pub(crate) fn wire(&self, ix: NodeIx) -> Result<(JsonMap, bool), Unclaimed> {
        let Some(work) = self.hand_work(ix) else { return Ok((JsonMap::new(), false)) };
        self.check_suspended(ix, &work)?;
        let (mut inputs, mut sensitive, mut missing) = (JsonMap::new(), false, Vec::new());
        let object = |variable: &str| self.variables().get(variable)?.parse::<JsonMap>().ok();
        // Whoever drives an intent writes all of that into its state.
        let own = || self.is_intent().then(|| self.intent_state());
        let given = Given {
            trigger: object(TRIGGER).or_else(own),
            initial_state: object(INITIAL_STATE).or_else(own),
        };
        // Many inputs may come from one large value.
        let mut bytes = 0;
        for (name, source) in &work.inputs {
            match self.wired(source, &given) {
                Some((value, hidden)) => {
                    sensitive |= hidden;
                    bytes += name.len() + value.text().len();
                    if bytes > limits::NODE_INPUT_BYTES_MAX {
                        return Err(Unclaimed::TooLarge);
                    }
                    inputs.insert(name.clone(), value.clone());
                }
                None => missing.push(source.told()),
            }
        }
        if missing.is_empty() { Ok((inputs, sensitive)) } else { Err(Unclaimed::Unresolvable(missing)) }
    }

    /// An input that comes from what is waited for under this name, if there is one.
    pub(crate) fn input_wired_to(&self, name: &str) -> Option<String> {
        self.wired_to(name).into_iter().next().map(|(input, _)| input)
    }

    /// The inputs that come from what is waited for under this name, each with what it is called there.
    pub(crate) fn wired_to(&self, name: &str) -> Vec<(String, String)> {
        let works = (0..self.graph.len() as NodeIx).filter_map(|ix| self.hand_work(ix));
        let wired = works.flat_map(|work| work.inputs).filter_map(|(input, source)| match source {
            Source::Phase { name: of, key } if of == name => Some((input, key)),
            _ => None,
        });
        wired.collect()
    }

    fn check_suspended(&self, ix: NodeIx, work: &HandWork) -> Result<(), Unclaimed> {
        for source in work.inputs.values() {
            let Source::Phase { name, .. } = source else { continue };
            let mut upstreams = self.upstreams().iter();
            let found = upstreams
                .find(|(_, upstream)| upstream.name.as_deref() == Some(name) && upstream.is_suspended());
            if let Some((run, upstream)) = found {
                return Err(Unclaimed::UpstreamSuspended {
                    task_id: self.task_name(ix),
                    phase_name: name.clone(),
                    suspended_intent_id: *run,
                    expected_resume_at: upstream.suspended.and_then(|suspended| suspended.expires_at),
                });
            }
        }
        Ok(())
    }

    /// What a node is called as a task: the parent's node, if the run stands for one.
    fn task_name(&self, ix: NodeIx) -> String {
        let parent = self.parent().map(|parent| parent.node.clone());
        parent.unwrap_or_else(|| self.graph.at(ix).id.to_string())
    }

    /// What an input is, and whether it is never shown.
    fn wired<'a>(&'a self, source: &Source, given: &'a Given) -> Option<(&'a Json, bool)> {
        match source {
            Source::Trigger(key) => Some((given.trigger.as_ref()?.get(key)?, self.hides_variable(TRIGGER))),
            Source::InitialState(key) => {
                Some((given.initial_state.as_ref()?.get(key)?, self.hides_variable(INITIAL_STATE)))
            }
            Source::Phase { name, key } => {
                let mut upstreams = self.upstreams().values();
                let named = upstreams.find(|upstream| upstream.name.as_deref() == Some(name))?;
                let value = named.outputs.get(key).filter(|_| named.is_completed())?;
                Some((value, named.sensitive))
            }
        }
    }
}
