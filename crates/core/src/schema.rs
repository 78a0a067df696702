//! JSON Schema 2020-12, the part of it whose cost can be told before it is used.
//!
//! A schema comes from a user. It is measured before it is compiled (`Survey`): every reference has to stay
//! inside of the schema and must not lead back to where it stands, so the schema could be written out without
//! references, and its size then bounds the time of a check. Nothing is ever fetched. `format` is an
//! annotation, as the standard has it by default; patterns are matched by an engine of linear time.

use std::collections::BTreeMap;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value};

use crate::Json;
use crate::excerpt::{excerpt, excerpt_of};
use crate::limits::{
    SCHEMA_BYTES_MAX, SCHEMA_CHECK_COST_MAX, SCHEMA_DEPTH_MAX, SCHEMA_ERRORS_MAX, SCHEMA_PATTERN_BYTES_MAX,
    SCHEMA_REPORT_COST_MAX, SCHEMA_SIZE_MAX,
};

/// Bytes of one message; the value in it is an excerpt already.
const MESSAGE_BYTES_MAX: usize = 240;

/// The dialect that is read, with and without the empty fragment that some tools add.
const DIALECTS: [&str; 2] =
    ["https://json-schema.org/draft/2020-12/schema", "https://json-schema.org/draft/2020-12/schema#"];

/// A compiled JSON Schema.
#[derive(Clone, Debug)]
pub struct Schema {
    validator: Validator,
    /// Values in the schema with its references written out.
    size: usize,
    /// Whether a value may be held against alternatives (`anyOf`, `oneOf`), each with errors of its own.
    alternatives: bool,
}

/// One thing wrong with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaError {
    /// A JSON pointer into the value; empty for the value as a whole.
    pub path: String,
    /// What is wrong there.
    pub message: String,
}

impl std::fmt::Display for SchemaError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

impl Schema {
    /// Compiles a schema, or says what in it has to change.
    pub fn compile(schema: &Json) -> Result<Self, String> {
        if schema.text().len() > SCHEMA_BYTES_MAX {
            return Err(format!("the schema is longer than {SCHEMA_BYTES_MAX} bytes: make it shorter"));
        }
        let schema: Value = schema.parse().map_err(|error| format!("the schema can't be read: {error}"))?;
        let mut survey = Survey { root: &schema, measured: BTreeMap::new(), alternatives: false };
        let extent = survey.schema(&schema, 0, "")?;
        let patterns = PatternOptions::regex()
            .size_limit(SCHEMA_PATTERN_BYTES_MAX)
            .dfa_size_limit(SCHEMA_PATTERN_BYTES_MAX);
        let validator = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .offline()
            .should_validate_formats(false)
            .with_pattern_options(patterns)
            .build(&schema)
            .map_err(|error| format!("the schema is not valid: {}", described(&error)))?;
        Ok(Self { validator, size: extent.size, alternatives: survey.alternatives })
    }

    /// Holds a value against the schema. The errors are in the order of their places, the first ones only.
    pub fn check(&self, value: &Json) -> Result<(), Vec<SchemaError>> {
        let cost = self.size.saturating_mul(value.text().len());
        if cost > SCHEMA_CHECK_COST_MAX {
            return Err(whole("the value is too large for a schema of this size: shorten one of them"));
        }
        let value: Value = value.parse().map_err(|error| whole(&format!("it can't be read: {error}")))?;
        if self.validator.is_valid(&value) {
            return Ok(());
        }
        Err(match cost {
            ..=SCHEMA_REPORT_COST_MAX => self.all_errors(&value),
            _ if self.alternatives => whole("it does not fit the schema, and is too large to say where"),
            _ => self.validator.validate(&value).err().iter().map(SchemaError::of).collect(),
        })
    }

    /// Values in the schema with its references written out: what compiling and checking cost goes with it.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    fn all_errors(&self, value: &Value) -> Vec<SchemaError> {
        let mut errors: Vec<ValidationError<'_>> = self.validator.iter_errors(value).collect();
        let places = |error: &ValidationError<'_>| {
            (error.instance_path().as_str().to_owned(), error.schema_path().as_str().to_owned())
        };
        errors.sort_by_cached_key(places);
        errors.iter().take(SCHEMA_ERRORS_MAX).map(SchemaError::of).collect()
    }
}

impl SchemaError {
    fn of(error: &ValidationError<'_>) -> Self {
        Self { path: excerpt_of(error.instance_path().as_str(), MESSAGE_BYTES_MAX), message: message(error) }
    }
}

/// An error of the value as a whole.
fn whole(message: &str) -> Vec<SchemaError> {
    vec![SchemaError { path: String::new(), message: message.to_owned() }]
}

fn message(error: &ValidationError<'_>) -> String {
    excerpt_of(error.masked_with(excerpt(error.instance())), MESSAGE_BYTES_MAX)
}

/// An error of a schema, with its place.
fn described(error: &ValidationError<'_>) -> String {
    let message = match error.kind() {
        ValidationErrorKind::Format { .. } | ValidationErrorKind::Pattern { .. } => format!(
            "{} is not a pattern that is read here: no look-around, no back-reference, no large repetition",
            excerpt(error.instance())
        ),
        _ => message(error),
    };
    match error.instance_path().as_str() {
        "" => message,
        path => format!("at {}, {message}", excerpt(path)),
    }
}

/// A walk over a schema that follows its references, each target once.
struct Survey<'s> {
    root: &'s Value,
    /// What is known of each schema, by its address; `None` while the walk is inside of it.
    measured: BTreeMap<*const Value, Option<Extent>>,
    alternatives: bool,
}

/// How large a schema is with its references written out.
#[derive(Clone, Copy, Default)]
struct Extent {
    size: usize,
    depth: usize,
}

impl Extent {
    const LEAF: Self = Self { size: 1, depth: 0 };

    fn and(self, other: Self) -> Self {
        Self { size: self.size.saturating_add(other.size), depth: self.depth.max(other.depth) }
    }

    /// The same, unless it is more than is read below `depth` schemas.
    fn within(self, depth: usize) -> Result<Self, String> {
        if self.size > SCHEMA_SIZE_MAX {
            return Err(format!(
                "the schema has more than {SCHEMA_SIZE_MAX} values with its $refs written out: simplify it"
            ));
        }
        if depth + self.depth > SCHEMA_DEPTH_MAX {
            return Err(format!(
                "the schema is nested deeper than {SCHEMA_DEPTH_MAX} levels, its $refs followed: make it flatter"
            ));
        }
        Ok(self)
    }
}

/// A pattern is matched against every character, which costs more than one comparison.
const PATTERN_SIZE: usize = 50;

impl<'s> Survey<'s> {
    /// Measures what stands where a schema may stand. `depth` counts the schemas around it.
    fn schema(&mut self, schema: &'s Value, depth: usize, place: &str) -> Result<Extent, String> {
        let Value::Object(keywords) = schema else { return Ok(data(schema)) };
        let address: *const Value = schema;
        let extent = match self.measured.get(&address) {
            Some(Some(extent)) => *extent,
            Some(None) => {
                return Err(format!("the $ref {place} leads back to itself: recursion is not read"));
            }
            None => {
                Extent::LEAF.within(depth)?;
                self.measured.insert(address, None);
                let mut extent = self.keywords(keywords, depth)?;
                extent.depth += 1;
                self.measured.insert(address, Some(extent));
                extent
            }
        };
        extent.within(depth)
    }

    fn keywords(&mut self, keywords: &'s Map<String, Value>, depth: usize) -> Result<Extent, String> {
        keywords.iter().try_fold(Extent::LEAF, |sum, (keyword, value)| {
            sum.and(self.keyword(keyword, value, depth)?).within(depth)
        })
    }

    fn keyword(&mut self, keyword: &str, value: &'s Value, depth: usize) -> Result<Extent, String> {
        match (keyword, value) {
            ("$ref", Value::String(reference)) => self.reference(reference, depth),
            ("$dynamicRef" | "$recursiveRef" | "$dynamicAnchor" | "$recursiveAnchor", _) => {
                Err(format!("{keyword} is not read: use $ref with a place in this schema (#/$defs/…)"))
            }
            ("$id", _) if depth > 0 => {
                Err("an $id inside of the schema changes what $ref means: remove it".to_owned())
            }
            ("$schema", dialect) => dialect_is_read(dialect),
            ("enum" | "const" | "default" | "examples", _) => Ok(data(value)),
            ("pattern", _) => Ok(Extent { size: PATTERN_SIZE, depth: 0 }),
            ("patternProperties", Value::Object(schemas)) => {
                let patterns = Extent { size: schemas.len().saturating_mul(PATTERN_SIZE), depth: 0 };
                Ok(self.named(schemas, depth)?.and(patterns))
            }
            ("properties" | "$defs" | "definitions" | "dependentSchemas", Value::Object(schemas)) => {
                self.named(schemas, depth)
            }
            (_, Value::Array(schemas)) => {
                self.alternatives |= matches!(keyword, "anyOf" | "oneOf");
                self.each(schemas.iter(), depth)
            }
            _ => self.schema(value, depth + 1, ""),
        }
    }

    /// The keys are names of the user's, not keywords.
    fn named(&mut self, schemas: &'s Map<String, Value>, depth: usize) -> Result<Extent, String> {
        self.each(schemas.values(), depth)
    }

    fn each(&mut self, mut schemas: impl Iterator<Item = &'s Value>, depth: usize) -> Result<Extent, String> {
        schemas
            .try_fold(Extent::LEAF, |sum, schema| sum.and(self.schema(schema, depth + 1, "")?).within(depth))
    }

    fn reference(&mut self, reference: &str, depth: usize) -> Result<Extent, String> {
        let shown = excerpt(reference);
        let Some(pointer) = reference.strip_prefix('#').filter(|it| it.is_empty() || it.starts_with('/'))
        else {
            return Err(format!(
                "the $ref {shown} leads out of the schema: copy its target to $defs and write #/$defs/…"
            ));
        };
        if pointer.contains('%') {
            return Err(format!("the $ref {shown} has an escaped character: give its target a plain name"));
        }
        let Some(target) = self.root.pointer(pointer) else {
            return Err(format!("the $ref {shown} names nothing in the schema: correct it"));
        };
        self.schema(target, depth + 1, &shown)
    }
}

fn dialect_is_read(dialect: &Value) -> Result<Extent, String> {
    match dialect.as_str() {
        Some(dialect) if DIALECTS.contains(&dialect) => Ok(Extent::LEAF),
        _ => Err(format!("the dialect {} is not read: write {} or nothing", excerpt(dialect), DIALECTS[0])),
    }
}

/// The size of a value that is compared, not followed. The JSON reader has bounded its depth.
fn data(value: &Value) -> Extent {
    let size = match value {
        Value::Array(items) => items.iter().map(|item| data(item).size).sum(),
        Value::Object(entries) => entries.values().map(|entry| data(entry).size).sum(),
        _ => 0,
    };
    Extent { size: size + 1, depth: 0 }
}
