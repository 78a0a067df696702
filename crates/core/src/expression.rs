//! Expressions: CEL over the values of a run, with a bound on what an evaluation may cost.
//!
//! The text is parsed by the `cel` crate; its interpreter is not used, since it does not count its steps.
//! An expression is refused when it is parsed if it is wrong whatever the data is (unknown functions, bad
//! patterns, too deep); it fails when it is evaluated if it does not fit the data.
//!
//! Where this differs from the language definition: whole JSON numbers that fit 64 bits are `int`, others
//! `double`, and an `int` next to a `double` is taken as one in arithmetic too. There are no bytes, types,
//! timestamps and durations.
//!
//! | file | what it is |
//! |---|---|
//! | `scan.rs` | one look at the words, before the parser recurses over them |
//! | `compile.rs`, `term.rs` | the parser's tree as a program |
//! | `evaluate.rs` | running it |
//! | `operator.rs`, `function.rs`, `call.rs`, `pattern.rs` | what it can do |
//! | `value.rs` | what it computes with |
//! | `fuel.rs` | what it may spend |

mod call;
mod compile;
mod evaluate;
mod fuel;
mod function;
mod operator;
mod pattern;
mod scan;
mod term;
mod value;

use std::fmt;
use std::sync::Arc;

use compile::Program;
pub use fuel::Fuel;
use fuel::Halt;
pub(crate) use scan::end_in_template;
use value::Value;

use crate::{Failure, Json, limits};

/// A parsed expression, cheap to clone. Equality is equality of the text.
#[derive(Clone, Debug)]
pub struct Expression(Arc<Program>);

/// Where names come from. A value is parsed only if an expression reads it.
pub trait Scope {
    /// The value of `root.field`, or of the whole `root` when `field` is `None`. `None` if there is none.
    fn get(&self, root: &str, field: Option<&str>) -> Option<Json>;
    /// Whether the root exists at all in this place. An expression that names another was refused earlier.
    fn knows(&self, root: &str) -> bool;
}

/// Why an evaluation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Stable, for programs: `expression_failed` or `expression_too_costly`.
    pub code: &'static str,
    /// For people: what happened and what to change.
    pub message: String,
}

/// What an evaluation gave, in the form a template needs it in.
pub(crate) enum Rendered {
    /// A string, without quotes.
    Text(Arc<str>),
    /// Any other value.
    Json(Json),
}

impl Expression {
    /// Compiles. The error says what is wrong and where, for people.
    pub fn parse(source: &str) -> Result<Self, String> {
        compile::compile(source).map(|program| Self(Arc::new(program)))
    }

    /// The text it was parsed from.
    pub fn source(&self) -> &str {
        &self.0.source
    }

    /// What it reads: a root and its field where the first step is a field that is written out (`a.b` or
    /// `a["b"]`), the root alone where it is used as a whole or with a computed key. Sorted, without repeats.
    pub fn reads(&self) -> &[(String, Option<String>)] {
        &self.0.reads
    }

    /// Evaluates with a full tank.
    pub fn evaluate(&self, scope: &dyn Scope) -> Result<Json, Fault> {
        self.evaluate_within(scope, &mut Fuel::full())
    }

    /// Evaluates with what is left in the tank.
    pub fn evaluate_within(&self, scope: &dyn Scope, fuel: &mut Fuel) -> Result<Json, Fault> {
        let written = evaluate::evaluate(&self.0, scope, fuel).and_then(|value| value::write(&value, fuel));
        written.map_err(|halt| self.fault(halt))
    }

    /// Evaluates what must give a boolean; anything else is a fault.
    pub fn holds(&self, scope: &dyn Scope) -> Result<bool, Fault> {
        self.holds_within(scope, &mut Fuel::full())
    }

    /// Evaluates what must give a boolean, with what is left in the tank.
    pub fn holds_within(&self, scope: &dyn Scope, fuel: &mut Fuel) -> Result<bool, Fault> {
        match evaluate::evaluate(&self.0, scope, fuel) {
            Ok(Value::Bool(truth)) => Ok(truth),
            Ok(other) => {
                let message = format!("a condition has to give a bool, this one gives {}", other.kind());
                Err(self.fault(Halt::failed(message)))
            }
            Err(halt) => Err(self.fault(halt)),
        }
    }

    /// Evaluates for a template: strings are told from other values.
    pub(crate) fn render(&self, scope: &dyn Scope, fuel: &mut Fuel) -> Result<Rendered, Fault> {
        let rendered = evaluate::evaluate(&self.0, scope, fuel).and_then(|value| match value {
            Value::Text(text) => fuel.build(text.len()).map(|()| Rendered::Text(text)),
            other => value::write(&other, fuel).map(Rendered::Json),
        });
        rendered.map_err(|halt| self.fault(halt))
    }

    fn fault(&self, halt: Halt) -> Fault {
        let source = value::clip(self.source());
        match halt {
            Halt::Failed(message) => {
                Fault { code: "expression_failed", message: format!("in `{source}`: {message}") }
            }
            Halt::Costly => Fault::costly(&format!("`{source}`")),
        }
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.source() == other.source()
    }
}

impl Eq for Expression {}

impl Fault {
    /// The failure of a node or a run, with where it happened.
    pub(crate) fn at(self, place: &str) -> Failure {
        Failure::new(self.code, format!("{place}: {}", self.message))
    }

    pub(crate) fn costly(what: &str) -> Self {
        let most = limits::EXPRESSION_FUEL_MAX;
        let message =
            format!("{what} takes more than {most} steps on this data; let it look at less, or split it");
        Self { code: "expression_too_costly", message }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::new(fault.code, fault.message)
    }
}
