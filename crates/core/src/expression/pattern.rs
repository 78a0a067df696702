//! Regular expressions with a price.
//!
//! The engine takes time in proportion to the text and to the compiled pattern, never more. The price of a
//! match is the product, so that a large pattern on a long text runs out of fuel.

use regex::{Regex, RegexBuilder};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Hir, HirKind};

use super::fuel::{Fuel, Halt};
use super::value::clip;
use crate::limits;

/// A compiled pattern and what one byte of text costs.
#[derive(Debug)]
pub(crate) struct Pattern {
    regex: Regex,
    price: u64,
}

/// Price of compiling, at the least and for each byte of the pattern: a class of a few bytes can stand for
/// a hundred thousand characters.
const COMPILE: u64 = 10_000;
const COMPILE_PER_BYTE: u64 = 3_000;
/// Price of a search on the shortest text.
const SEARCH: u64 = 8;
/// Brackets inside brackets that a pattern may have: its parser recurses over them.
const NESTING_MAX: u32 = 32;

impl Pattern {
    /// Compiles. The error says what is wrong with the pattern.
    pub(crate) fn parse(source: &str) -> Result<Self, String> {
        let refuse =
            |reason: &str| format!("the regular expression '{}' is not usable: {reason}", clip(source));
        if source.len() > limits::PATTERN_BYTES_MAX {
            let most = limits::PATTERN_BYTES_MAX;
            return Err(refuse(&format!("it has {} bytes; {most} are allowed", source.len())));
        }
        let tree = ParserBuilder::new().nest_limit(NESTING_MAX).build().parse(source);
        let price = tree.map_err(|error| refuse(&last_line(&error))).map(|tree| positions(&tree))?;
        let builder = RegexBuilder::new(source)
            .nest_limit(NESTING_MAX)
            .size_limit(limits::PATTERN_COMPILED_BYTES_MAX)
            .build();
        builder.map(|regex| Self { regex, price }).map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => {
                refuse("it is too large when compiled; use smaller counts, or [a-z0-9_] instead of \\w")
            }
            error => refuse(&last_line(&error)),
        })
    }

    /// Compiles a pattern that comes from data.
    pub(crate) fn compile(source: &str, fuel: &mut Fuel) -> Result<Self, Halt> {
        fuel.burn(COMPILE + COMPILE_PER_BYTE.saturating_mul(source.len() as u64))?;
        Self::parse(source).map_err(Halt::failed)
    }

    /// Whether the pattern is found anywhere in the text.
    pub(crate) fn is_match(&self, text: &str, fuel: &mut Fuel) -> Result<bool, Halt> {
        // A search also looks at the empty rest behind the text, and has to be set up.
        fuel.burn(SEARCH.saturating_add(self.price.saturating_mul(text.len() as u64 + 2)))?;
        Ok(self.regex.is_match(text))
    }
}

/// The engine draws the place over several lines; the last one says what is wrong.
fn last_line(error: &impl ToString) -> String {
    error.to_string().lines().last().unwrap_or_default().replace("error: ", "")
}

/// How many places of the pattern can be under way at one byte of the text: all of them, counts unrolled.
fn positions(tree: &Hir) -> u64 {
    match tree.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len() as u64,
        // A character of a class is matched byte by byte, and has four at the most.
        HirKind::Class(_) => 4,
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min).max(1);
            (positions(&repetition.sub) + 1).saturating_mul(u64::from(times))
        }
        HirKind::Capture(capture) => positions(&capture.sub) + 1,
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().map(positions).fold(1, u64::saturating_add)
        }
    }
}
