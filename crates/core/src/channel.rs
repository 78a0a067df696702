//! A channel: state of a run that nodes write to, with a rule how a write joins what is there.
//!
//! This file reads and checks the declaration. What a write does is in `channel/reducer.rs`; where the state
//! is kept, and which events a write leaves, is not known here.

mod reducer;

use serde::Deserialize;

use crate::excerpt::excerpt;
use crate::limits::{CHANNEL_BYTES_MAX, CHANNEL_TTL_MS_MAX};
use crate::object::{Object, present};
use crate::{Json, JsonMap, Millis, Problem, Schema, SchemaError};

pub use reducer::Reducer;
use reducer::{State, without_times};

/// Why a write is refused: a stable code, and a sentence.
pub type WriteRefused = (&'static str, String);

/// What the channel would hold does not fit the schema that it declares.
const SCHEMA_VIOLATION: &str = "channel_schema_violation";
/// The written value is not one that the reducer can join to the state.
const WRITE_INVALID: &str = "channel_write_invalid";
/// The state would be larger than the channel may be.
const TOO_LARGE: &str = "channel_too_large";

/// A checked declaration of a channel.
#[derive(Clone, Debug)]
pub struct Channel {
    reducer: Reducer,
    schema: Option<Schema>,
    initial: Option<Json>,
    /// Entries of a list, bytes of any other state.
    size_max: Option<usize>,
    /// How long an entry lives, for reducers whose entries age.
    ttl_ms: Option<Millis>,
    access: Access,
    sensitive: bool,
}

/// A declaration as it is written.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Declaration {
    reducer: String,
    schema: Option<Json>,
    #[serde(default, deserialize_with = "present")]
    default: Option<Json>,
    max_size: Option<u64>,
    ttl_ms: Option<Millis>,
    #[serde(rename = "options")]
    _options: Option<JsonMap>,
    access: Option<Json>,
    schema_version: Option<i64>,
    #[serde(rename = "compatibleWith")]
    _compatible_with: Option<Vec<i64>>,
    #[serde(default)]
    sensitive: bool,
}

/// Who may use a channel.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Access {
    readers: Option<Vec<String>>,
    writers: Option<Vec<String>>,
}

impl Channel {
    /// Reads the object under `channels.<name>`; `place` is its path in the definition.
    ///
    /// What is wrong is added to `problems`. A channel is returned only if nothing is.
    pub fn parse(place: &str, declaration: &Json, problems: &mut Vec<Problem>) -> Option<Self> {
        let before = problems.len();
        let mut refuse = |key: &str, message: String| {
            let place = if key.is_empty() { place.to_owned() } else { format!("{place}.{key}") };
            problems.push(Problem { place, message });
        };
        let channel = Self::read(declaration, &mut refuse);
        channel.filter(|_| problems.len() == before)
    }

    /// A channel that a definition does not declare: anybody may write anything that the reducer takes.
    pub fn undeclared(reducer: &str, ttl_ms: Option<Millis>) -> Result<Self, String> {
        let ttl_ms = lifetime(ttl_ms)?;
        let reducer = Reducer::named(reducer)?;
        Ok(Self {
            reducer,
            schema: None,
            initial: None,
            size_max: None,
            ttl_ms: ttl_ms.filter(|_| reducer.ages()),
            access: Access::default(),
            sensitive: false,
        })
    }

    /// How a write joins what is there.
    pub fn reducer(&self) -> Reducer {
        self.reducer
    }

    /// Whether the state is masked wherever it leaves the server.
    pub fn sensitive(&self) -> bool {
        self.sensitive
    }

    /// The state before the first write, if one is declared.
    pub fn initial(&self) -> Option<&Json> {
        self.initial.as_ref()
    }

    /// Whether a node may read the channel.
    pub fn may_read(&self, node_id: &str, type_id: &str) -> bool {
        allows(self.access.readers.as_deref(), node_id, type_id)
    }

    /// Whether a node may write to the channel.
    pub fn may_write(&self, node_id: &str, type_id: &str) -> bool {
        allows(self.access.writers.as_deref(), node_id, type_id)
    }

    /// The state after a write that was accepted when it was made. Only the reducer has a say: a later judge of
    /// schemas and sizes must not undo what is recorded.
    pub(crate) fn fold(
        &self,
        current: Option<&Json>,
        write: &Json,
        at: Millis,
    ) -> Result<Json, WriteRefused> {
        let state =
            State { current: current.or(self.initial()), size_max: self.size_max, ttl_ms: self.ttl_ms, at };
        self.reducer.reduce(&state, write)
    }

    /// The state after a write at the time `at`. Without a `current` state the write joins the initial one.
    pub fn reduce(&self, current: Option<&Json>, write: &Json, at: Millis) -> Result<Json, WriteRefused> {
        let next = self.fold(current, write, at)?;
        self.fits(&next).map_err(|message| (TOO_LARGE, message))?;
        self.check_schema(&next).map_err(|message| (SCHEMA_VIOLATION, message))?;
        Ok(next)
    }

    /// The schema is for what the channel holds, without the times that aging entries carry.
    fn check_schema(&self, state: &Json) -> Result<(), String> {
        let Some(schema) = &self.schema else { return Ok(()) };
        let checked = match self.ttl_ms {
            Some(_) => schema.check(&without_times(state)),
            None => schema.check(state),
        };
        checked.map_err(|errors| sentence(&errors))
    }

    fn fits(&self, state: &Json) -> Result<(), String> {
        let bytes = state.text().len();
        let declared = self.size_max.filter(|_| !self.reducer.is_list()).unwrap_or(usize::MAX);
        match declared.min(CHANNEL_BYTES_MAX) {
            bytes_max if bytes > bytes_max => Err(format!(
                "the channel would hold {bytes} bytes, more than its {bytes_max}: write less to it"
            )),
            _ => Ok(()),
        }
    }

    fn read(declaration: &Json, refuse: &mut impl FnMut(&str, String)) -> Option<Self> {
        let mut reader = serde_json::Deserializer::from_str(declaration.text());
        let read: Result<Object<Declaration>, _> = serde_path_to_error::deserialize(&mut reader);
        let declared = match read {
            Ok(Object(declared)) => declared,
            Err(error) => {
                let path = error.path().to_string();
                refuse(if path == "." { "" } else { &path }, error.inner().to_string());
                return None;
            }
        };
        let mut noted = |key: &str, error: String| refuse(key, error);
        let reducer = Reducer::named(&declared.reducer).map_err(|error| noted("reducer", error)).ok();
        let ttl_ms = lifetime(declared.ttl_ms).map_err(|error| noted("ttlMs", error)).ok();
        let size_max = size(declared.max_size).map_err(|error| noted("maxSize", error)).ok();
        let access = Access::read(declared.access.as_ref()).map_err(|error| noted("access", error)).ok();
        let schema = compiled(declared.schema.as_ref()).map_err(|error| noted("schema", error)).ok();
        if declared.schema_version.is_some_and(|version| version < 1) {
            noted("schemaVersion", "it must be 1 or more".into());
        }
        let reducer = reducer?;
        let channel = Self {
            reducer,
            schema: schema?,
            initial: declared.default,
            size_max: size_max?,
            ttl_ms: ttl_ms?.filter(|_| reducer.ages()),
            access: access?,
            sensitive: declared.sensitive,
        };
        channel.check_initial().map_err(|error| noted("default", error)).ok()?;
        Some(channel)
    }

    /// The initial state has to be one that the reducer could have made of allowed writes.
    fn check_initial(&self) -> Result<(), String> {
        let Some(initial) = &self.initial else { return Ok(()) };
        let writes = self.reducer.writes_in(initial)?;
        if self.ttl_ms.is_some() && !writes.is_empty() {
            return Err("its entries have no time to age from: leave it empty or remove ttlMs".into());
        }
        if self.reducer.is_list() && self.size_max.is_some_and(|size_max| writes.len() > size_max) {
            return Err("it has more entries than maxSize: shorten it".into());
        }
        self.check_schema(initial)?;
        self.fits(initial)
    }
}

impl Access {
    fn read(access: Option<&Json>) -> Result<Self, String> {
        let Some(access) = access else { return Ok(Self::default()) };
        match access.text() {
            r#""public""# => Ok(Self::default()),
            r#""private""# => Ok(Self { readers: Some(Vec::new()), writers: Some(Vec::new()) }),
            _ => access.parse().map(|Object(access)| access).map_err(|error| {
                format!("write \"public\", \"private\", or an object of readers and writers ({error})")
            }),
        }
    }
}

/// Whether a list of ids and types names the node. No list names everybody.
fn allows(list: Option<&[String]>, node_id: &str, type_id: &str) -> bool {
    let matches = |entry: &String| {
        let family = entry.strip_suffix(".*").and_then(|family| type_id.strip_prefix(family));
        entry == "*"
            || entry == node_id
            || entry == type_id
            || family.is_some_and(|rest| rest.starts_with('.') && rest.len() > 1)
    };
    list.is_none_or(|list| list.iter().any(matches))
}

fn lifetime(ttl_ms: Option<Millis>) -> Result<Option<Millis>, String> {
    match ttl_ms {
        None | Some(0) => Ok(None),
        Some(ttl_ms) if (1..=CHANNEL_TTL_MS_MAX).contains(&ttl_ms) => Ok(Some(ttl_ms)),
        Some(ttl_ms) => {
            Err(format!("{ttl_ms} is out of range: give 1 to {CHANNEL_TTL_MS_MAX}, or 0 for no end"))
        }
    }
}

fn size(size_max: Option<u64>) -> Result<Option<usize>, String> {
    match size_max {
        Some(0) => Err("it must be 1 or more".into()),
        size_max => Ok(size_max.map(|size_max| usize::try_from(size_max).unwrap_or(usize::MAX))),
    }
}

fn compiled(schema: Option<&Json>) -> Result<Option<Schema>, String> {
    match schema {
        Some(schema) if schema.type_name() != "object" => {
            Err(format!("a schema is an object, not {}", excerpt(schema.text())))
        }
        schema => schema.map(Schema::compile).transpose(),
    }
}

/// The first error stands for all: a sentence is read, a list is not.
fn sentence(errors: &[SchemaError]) -> String {
    let first = errors.first().map(ToString::to_string).unwrap_or_default();
    format!("the value does not fit the channel's schema: {first}")
}
