//! The terms of a compiled expression.

use std::sync::Arc;

use super::function::Function;
use super::operator::Operator;
use super::pattern::Pattern;
use super::value::Value;

/// A root, and its field if only that is read.
pub(super) type Read = (String, Option<String>);

/// One term. Evaluating any of them burns at least one unit of fuel.
#[derive(Debug)]
pub(super) enum Term {
    Literal(Value),
    /// What a slot of the program reads.
    Read(usize),
    /// Whether there is anything to read in a slot.
    HasRead(usize),
    /// A variable of a loop.
    Local(usize),
    Select(Box<Term>, Arc<str>),
    Has(Box<Term>, Arc<str>),
    Index(Box<Term>, Box<Term>),
    List(Vec<Term>),
    Map(Vec<(Term, Term)>),
    Not(Box<Term>),
    Negate(Box<Term>),
    And(Box<Term>, Box<Term>),
    Or(Box<Term>, Box<Term>),
    Conditional(Box<Term>, Box<Term>, Box<Term>),
    Binary(Operator, Box<Term>, Box<Term>),
    Call(Function, Vec<Term>),
    /// `matches` with a pattern that is known.
    Matches(Box<Term>, Box<Pattern>),
    /// True unless its term is false; a failure counts as true. Only loops have it.
    NotFalse(Box<Term>),
    /// The accumulator with one more element. Only loops have it.
    Append {
        accumulator: usize,
        element: Box<Term>,
    },
    Loop(Box<Loop>),
}

/// What the macros become.
#[derive(Debug)]
pub(super) struct Loop {
    pub(super) range: Term,
    /// The local that holds the element; the accumulator is the next one.
    pub(super) element: usize,
    pub(super) start: Term,
    /// The loop goes on while this holds; `None` for ever.
    pub(super) condition: Option<Term>,
    pub(super) step: Term,
    pub(super) result: Term,
}
