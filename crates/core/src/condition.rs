//! Conditions on edges: whether anything goes this way.

use regex::Regex;
use serde_json::Value;

use crate::definition::ConditionDefinition;
use crate::expression::{Expression, Fault, Fuel, Scope};
use crate::{Json, limits};

/// A checked condition.
#[derive(Debug)]
pub(crate) enum Condition {
    /// A CEL expression that must give true or false.
    Expression(Expression),
    /// A value looked up by its path, and a test on it.
    Test(Path, Test),
}

/// What is asked of the value at a path. A value that is not there is different from everything.
#[derive(Debug)]
pub(crate) enum Test {
    Equals(Value),
    NotEquals(Value),
    Contains(Value),
    Matches(Regex),
    Truthy,
    Falsy,
}

/// A dotted path such as `output.approved`. Its first step is a name in scope, else an output of the edge's source,
/// else a variable.
#[derive(Clone, Debug)]
pub(crate) struct Path(Vec<String>);

const KINDS: &str = "expression, equals, notEquals, contains, regex, truthy or falsy";

impl Condition {
    /// Checks a condition; the error says what to change.
    pub(crate) fn read(written: &ConditionDefinition) -> Result<Self, String> {
        let kind = written.kind.as_deref().ok_or_else(|| format!("'type' is missing; use {KINDS}"))?;
        if kind == "expression" {
            let source = written.expression.as_deref().ok_or("type expression needs 'expression'")?;
            return Expression::parse(source).map(Self::Expression);
        }
        let right = || {
            let right = written.right.as_ref().ok_or_else(|| format!("type {kind} needs 'right'"))?;
            right.parse::<Value>().map_err(|error| format!("'right' can't be read: {error}"))
        };
        let test = match kind {
            "equals" => Test::Equals(right()?),
            "notEquals" => Test::NotEquals(right()?),
            "contains" => Test::Contains(right()?),
            "regex" => Test::Matches(pattern(&right()?)?),
            "truthy" => Test::Truthy,
            "falsy" => Test::Falsy,
            other => return Err(format!("there is no type '{other}'; use {KINDS}")),
        };
        let left = written.left.as_deref().ok_or_else(|| format!("type {kind} needs 'left', a path"))?;
        Ok(Self::Test(Path::parse(left)?, test))
    }

    /// What its expression reads, if it is one.
    pub(crate) fn reads(&self) -> &[(String, Option<String>)] {
        match self {
            Self::Expression(expression) => expression.reads(),
            Self::Test(..) => &[],
        }
    }

    /// Whether it looks at what somebody decided at `source`, where its edge begins, and not only at other things.
    pub(crate) fn about_decision(&self, source: &str, scope: &dyn Scope) -> bool {
        let reads_it = |root: &str, field: Option<&str>| match root {
            // The artifact is what was decided about.
            "output" => !field.is_some_and(|field| field.starts_with("artifact")),
            "nodes" => field == Some(source),
            _ => false,
        };
        match self {
            Self::Expression(expression) => {
                expression.reads().iter().any(|(root, field)| reads_it(root, field.as_deref()))
            }
            Self::Test(Path(steps), _) if scope.knows(&steps[0]) => {
                reads_it(&steps[0], steps.get(1).map(String::as_str))
            }
            Self::Test(Path(steps), _) => {
                reads_it("output", Some(&steps[0])) && scope.get("output", Some(&steps[0])).is_some()
            }
        }
    }

    /// Whether it has this word in it, as what something is compared with.
    pub(crate) fn names(&self, word: &str) -> bool {
        let is = |value: &Value| value.as_str() == Some(word);
        match self {
            Self::Expression(expression) => {
                ['\'', '"'].iter().any(|quote| expression.source().contains(&format!("{quote}{word}{quote}")))
            }
            Self::Test(_, Test::Equals(right) | Test::Contains(right)) => is(right),
            Self::Test(_, Test::Matches(pattern)) => pattern.is_match(word),
            Self::Test(..) => false,
        }
    }

    /// Whether anything goes this way.
    pub(crate) fn holds(&self, scope: &dyn Scope, fuel: &mut Fuel) -> Result<bool, Fault> {
        match self {
            Self::Expression(expression) => expression.holds_within(scope, fuel),
            Self::Test(path, test) => Ok(test.holds(path.look_up(scope, fuel)?.as_ref())),
        }
    }
}

/// A pattern for the linear engine, of bounded size.
fn pattern(right: &Value) -> Result<Regex, String> {
    let text = right.as_str().ok_or("type regex needs a string in 'right'")?;
    regex::RegexBuilder::new(text)
        .size_limit(limits::REGEX_BYTES_MAX)
        .build()
        .map_err(|error| format!("'right' is no regular expression: {error}"))
}

impl Test {
    fn holds(&self, value: Option<&Value>) -> bool {
        match (self, value) {
            (Self::Equals(right), Some(value)) => same(value, right),
            (Self::NotEquals(right), Some(value)) => !same(value, right),
            (Self::Contains(right), Some(value)) => contains(value, right),
            (Self::Matches(pattern), Some(Value::String(text))) => pattern.is_match(text),
            (Self::Truthy, Some(value)) => is_truthy(value),
            (Self::Falsy, Some(value)) => !is_truthy(value),
            (Self::NotEquals(_) | Self::Falsy, None) => true,
            _ => false,
        }
    }
}

/// Equality of JSON values; numbers are compared by value, so 1 equals 1.0.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

fn contains(value: &Value, part: &Value) -> bool {
    match (value, part) {
        (Value::String(text), Value::String(part)) => text.contains(part.as_str()),
        (Value::Array(items), part) => items.iter().any(|item| same(item, part)),
        (Value::Object(map), Value::String(key)) => map.contains_key(key),
        _ => false,
    }
}

/// As OpenWOP has it: null, false, 0 and the empty text are not.
fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        Value::Number(number) => number.as_f64().is_some_and(|number| number != 0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(_) | Value::Object(_) => true,
    }
}

impl Path {
    fn parse(text: &str) -> Result<Self, String> {
        let steps: Vec<String> = text.split('.').map(str::to_owned).collect();
        let sound = text.len() <= limits::EXPRESSION_BYTES_MAX && steps.iter().all(|step| !step.is_empty());
        sound.then_some(Self(steps)).ok_or_else(|| "'left' is a path such as output.approved".to_owned())
    }

    fn look_up(&self, scope: &dyn Scope, fuel: &mut Fuel) -> Result<Option<Value>, Fault> {
        let (found, rest) = self.found(scope);
        let Some(found) = found else { return Ok(None) };
        fuel.scan(found.text().len()).map_err(|_| Fault::costly("a condition"))?;
        Ok(walk(&found, &self.0[self.0.len() - rest..]))
    }

    /// The value that the path begins with, and how many steps are left from there.
    fn found(&self, scope: &dyn Scope) -> (Option<Json>, usize) {
        let steps: Vec<&str> = self.0.iter().map(String::as_str).collect();
        if scope.knows(steps[0]) {
            return match steps.get(1) {
                Some(field) => (scope.get(steps[0], Some(field)), steps.len() - 2),
                None => (scope.get(steps[0], None), 0),
            };
        }
        let output = scope.get("output", Some(steps[0]));
        (output.or_else(|| scope.get("variables", Some(steps[0]))), steps.len() - 1)
    }
}

/// The value that lies so many steps within another.
fn walk(found: &Json, steps: &[String]) -> Option<Value> {
    let mut value = found.parse::<Value>().ok()?;
    for step in steps {
        value = match value {
            Value::Object(mut map) => map.remove(step)?,
            Value::Array(mut items) => {
                let ix: usize = step.parse().ok()?;
                if ix >= items.len() {
                    return None;
                }
                items.swap_remove(ix)
            }
            _ => return None,
        };
    }
    Some(value)
}
