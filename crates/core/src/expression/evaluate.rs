//! Evaluating the terms of an expression.

use std::sync::Arc;

use super::compile::Program;
use super::fuel::{Fuel, Halt};
use super::function::Function;
use super::operator::{self, no_such_key};
use super::term::{Loop, Term};
use super::value::{self, Map, Value};
use super::{Scope, call};
use crate::{Json, limits};

/// A value, or why there is none. Inside a loop a failure can be carried on and absorbed later.
type Outcome = Result<Value, Halt>;

/// Price of a failure that is carried on instead of ending the evaluation: its message was written for nothing.
const ABSORBED: u64 = 16;

/// Price of a call beyond that of its arguments.
const CALL: u64 = 3;

/// One evaluation under way.
pub(super) struct Evaluation<'a> {
    program: &'a Program,
    scope: &'a dyn Scope,
    fuel: &'a mut Fuel,
    slots: Vec<Slot>,
    locals: [Outcome; 2 * limits::EXPRESSION_LOOPS_MAX],
}

/// What is known of something that the program reads. JSON is parsed once, however often a loop reads it.
#[derive(Clone)]
enum Slot {
    Unknown,
    Absent,
    Json(Json),
    Value(Value),
}

/// Evaluates the whole program.
pub(super) fn evaluate(program: &Program, scope: &dyn Scope, fuel: &mut Fuel) -> Outcome {
    let slots = vec![Slot::Unknown; program.slots.len()];
    let locals = std::array::from_fn(|_| Ok(Value::Null));
    Evaluation { program, scope, fuel, slots, locals }.term(&program.term)
}

impl Evaluation<'_> {
    fn term(&mut self, term: &Term) -> Outcome {
        self.fuel.burn(1)?;
        match term {
            Term::Literal(value) => Ok(value.clone()),
            Term::Read(slot) => self.read(*slot),
            Term::HasRead(slot) => self.has_read(*slot),
            Term::Local(local) => self.locals[*local].clone(),
            Term::Select(of, field) => self.select(of, field),
            Term::Has(of, field) => self.has(of, field),
            Term::Index(of, index) => self.index(of, index),
            Term::List(terms) => self.list(terms),
            Term::Map(entries) => self.map(entries),
            Term::Not(term) => self.truth(term).map(|truth| Value::Bool(!truth)),
            Term::Negate(term) => operator::negate(&self.term(term)?),
            Term::And(one, two) => self.logic(one, two, false),
            Term::Or(one, two) => self.logic(one, two, true),
            Term::Conditional(condition, yes, no) => self.conditional(condition, yes, no),
            Term::Binary(operator, one, two) => self.binary(*operator, one, two),
            Term::Call(function, arguments) => self.call(*function, arguments),
            Term::Matches(text, pattern) => {
                let text = self.term(text)?;
                pattern.is_match(call::text(&text, "matches")?, self.fuel).map(Value::Bool)
            }
            Term::NotFalse(term) => self.not_false(term),
            Term::Append { accumulator, element } => self.append(*accumulator, element),
            Term::Loop(it) => self.run(it),
        }
    }

    fn read(&mut self, slot: usize) -> Outcome {
        self.fetch(slot)?;
        let (root, field) = &self.program.slots[slot];
        let value = match &self.slots[slot] {
            Slot::Value(value) => return Ok(value.clone()),
            Slot::Json(json) => value::read(json, &path(root, field.as_deref()), self.fuel)?,
            Slot::Unknown | Slot::Absent => return Err(absent(root, field.as_deref())),
        };
        self.slots[slot] = Slot::Value(value.clone());
        Ok(value)
    }

    fn has_read(&mut self, slot: usize) -> Outcome {
        self.fetch(slot)?;
        Ok(Value::Bool(!matches!(self.slots[slot], Slot::Absent)))
    }

    /// Asks the scope, once for each slot.
    fn fetch(&mut self, slot: usize) -> Result<(), Halt> {
        if matches!(self.slots[slot], Slot::Unknown) {
            let (root, field) = &self.program.slots[slot];
            self.check_root(root)?;
            self.slots[slot] = self.scope.get(root, field.as_deref()).map_or(Slot::Absent, Slot::Json);
        }
        Ok(())
    }

    fn check_root(&self, root: &str) -> Result<(), Halt> {
        if self.scope.knows(root) {
            return Ok(());
        }
        Err(Halt::failed(format!(
            "there is no '{root}' here; check the name against the ones this place has"
        )))
    }

    fn select(&mut self, of: &Term, field: &Arc<str>) -> Outcome {
        match self.term(of)? {
            Value::Map(map) => {
                self.fuel.scan(field.len())?;
                let found = map.get(&value::Key::Text(Arc::clone(field)));
                found.cloned().ok_or_else(|| no_such_key(field))
            }
            other => Err(not_a_map(&other, field)),
        }
    }

    fn has(&mut self, of: &Term, field: &Arc<str>) -> Outcome {
        match self.term(of)? {
            Value::Map(map) => {
                self.fuel.scan(field.len())?;
                Ok(Value::Bool(map.contains_key(&value::Key::Text(Arc::clone(field)))))
            }
            other => Err(not_a_map(&other, field)),
        }
    }

    fn index(&mut self, of: &Term, index: &Term) -> Outcome {
        let of = self.term(of)?;
        let index = self.term(index)?;
        operator::index(&of, &index, self.fuel)
    }

    fn list(&mut self, terms: &[Term]) -> Outcome {
        self.fuel.elements(terms.len())?;
        terms.iter().map(|term| self.term(term)).collect::<Result<_, _>>().map(Value::list)
    }

    fn map(&mut self, entries: &[(Term, Term)]) -> Outcome {
        // An entry has a place in the tree besides its key and its value.
        self.fuel.elements(3 * entries.len())?;
        let mut map = Map::new();
        for (key, value) in entries {
            let key = self.term(key)?;
            let value = self.term(value)?;
            let unusable =
                || Halt::failed(format!("a key is a string, a whole number or a bool, not {}", key.kind()));
            let key = key.key().ok_or_else(unusable)?;
            if map.insert(key.clone(), value).is_some() {
                let key = value::clip(&key.to_string());
                return Err(Halt::failed(format!("the key '{key}' stands twice in one map; remove one")));
            }
        }
        Ok(Value::Map(Arc::new(map)))
    }

    fn truth(&mut self, term: &Term) -> Result<bool, Halt> {
        as_truth(self.term(term)?)
    }

    /// `&&` (decided by false) and `||` (decided by true).
    ///
    /// The deciding value wins over a failure on the other side, whichever side that is.
    fn logic(&mut self, one: &Term, two: &Term, decisive: bool) -> Outcome {
        let one = self.side(one)?;
        if matches!(one, Ok(truth) if truth == decisive) {
            return Ok(Value::Bool(decisive));
        }
        let two = self.side(two)?;
        if matches!(two, Ok(truth) if truth == decisive) {
            return Ok(Value::Bool(decisive));
        }
        one.and(two).map(Value::Bool)
    }

    /// One side of `&&` or `||`: a truth or a failure, and an end at once if the fuel is gone.
    fn side(&mut self, term: &Term) -> Result<Result<bool, Halt>, Halt> {
        let outcome = self.truth(term);
        self.carry(&outcome)?;
        Ok(outcome)
    }

    fn carry<T>(&mut self, outcome: &Result<T, Halt>) -> Result<(), Halt> {
        match outcome {
            Ok(_) => Ok(()),
            Err(Halt::Failed(_)) => self.fuel.burn(ABSORBED),
            Err(Halt::Costly) => Err(Halt::Costly),
        }
    }

    fn conditional(&mut self, condition: &Term, yes: &Term, no: &Term) -> Outcome {
        let branch = if self.truth(condition)? { yes } else { no };
        self.term(branch)
    }

    fn binary(&mut self, operator: operator::Operator, one: &Term, two: &Term) -> Outcome {
        let one = self.term(one)?;
        let two = self.term(two)?;
        operator.apply(&one, &two, self.fuel)
    }

    fn call(&mut self, function: Function, arguments: &[Term]) -> Outcome {
        self.fuel.burn(CALL)?;
        let arguments: Vec<Value> = arguments.iter().map(|term| self.term(term)).collect::<Result<_, _>>()?;
        call::call(function, &arguments, self.fuel)
    }

    fn not_false(&mut self, term: &Term) -> Outcome {
        let outcome = self.term(term);
        self.carry(&outcome)?;
        Ok(Value::Bool(!matches!(outcome, Ok(Value::Bool(false)))))
    }

    fn append(&mut self, accumulator: usize, element: &Term) -> Outcome {
        let element = self.term(element)?;
        self.fuel.elements(1)?;
        let taken = std::mem::replace(&mut self.locals[accumulator], Ok(Value::Null))?;
        let Value::List(mut list) = taken else {
            return Err(Halt::failed("the loop collects into something that is no list"));
        };
        // Nothing else holds the accumulator, so this does not copy.
        Arc::make_mut(&mut list).push(element);
        Ok(Value::List(list))
    }

    fn run(&mut self, it: &Loop) -> Outcome {
        let range = self.term(&it.range)?;
        self.locals[it.element + 1] = self.term(&it.start);
        match &range {
            Value::List(items) => self.repeat(it, items.iter().cloned())?,
            Value::Map(map) => self.repeat(it, map.keys().map(value::Key::value))?,
            other => {
                return Err(Halt::failed(format!(
                    "a macro loops over a list or a map, not over {}",
                    other.kind()
                )));
            }
        }
        self.locals[it.element] = Ok(Value::Null);
        let result = self.term(&it.result);
        self.locals[it.element + 1] = Ok(Value::Null);
        result
    }

    fn repeat(&mut self, it: &Loop, elements: impl Iterator<Item = Value>) -> Result<(), Halt> {
        for element in elements {
            self.fuel.burn(1)?;
            match &it.condition {
                Some(condition) if !self.truth(condition)? => return Ok(()),
                // Without a condition nothing absorbs a failure: it is the result.
                None if self.locals[it.element + 1].is_err() => return Ok(()),
                _ => {}
            }
            self.locals[it.element] = Ok(element);
            let next = self.term(&it.step);
            self.carry(&next)?;
            self.locals[it.element + 1] = next;
        }
        Ok(())
    }
}

fn as_truth(value: Value) -> Result<bool, Halt> {
    match value {
        Value::Bool(truth) => Ok(truth),
        other => Err(Halt::failed(format!(
            "a condition is a bool, not {}; compare it with something",
            other.kind()
        ))),
    }
}

fn not_a_map(value: &Value, field: &str) -> Halt {
    let field = value::clip(field);
    Halt::failed(format!("there is no key '{field}' in {}: only a map has keys", value.kind()))
}

fn absent(root: &str, field: Option<&str>) -> Halt {
    let name = path(root, field);
    match field {
        Some(_) if name.ends_with(']') => Halt::failed(format!("there is no `{name}`; check the name")),
        Some(_) => Halt::failed(format!("there is no `{name}`; ask with has({name}) before reading it")),
        None => Halt::failed(format!("`{name}` has no value here")),
    }
}

/// How a read is written in an expression.
fn path(root: &str, field: Option<&str>) -> String {
    let plain = |field: &str| {
        let starts = !field.starts_with(|c: char| c.is_ascii_digit()) && !field.is_empty();
        starts && field.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    match field {
        None => root.to_owned(),
        Some(field) if plain(field) => format!("{root}.{field}"),
        Some(field) => format!("{root}[\"{}\"]", value::clip(field)),
    }
}
