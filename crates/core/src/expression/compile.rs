//! From the parser's tree to a program: names resolved, functions looked up, patterns compiled.
//!
//! Whatever can be wrong with an expression whatever the data is refused here, with the place.

use std::fmt;

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedEntryExpr, IdedExpr, LiteralValue, SelectExpr,
    SourceInfo, operators,
};
use cel::parser::{ParseErrors, Parser};

use super::function::{self, Function};
use super::operator::Operator;
use super::pattern::Pattern;
use super::scan;
use super::term::{Loop, Read, Term};
use super::value::{Value, clip};
use crate::limits;

/// A compiled expression.
pub(super) struct Program {
    pub(super) source: String,
    pub(super) term: Term,
    /// What it reads, in the order of the slots that [`Term::Read`] names.
    pub(super) slots: Vec<Read>,
    /// The same, sorted.
    pub(super) reads: Vec<Read>,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

/// Parses and compiles.
pub(super) fn compile(source: &str) -> Result<Program, String> {
    scan::check(source)?;
    let parser = Parser::new()
        .max_recursion_depth(limits::EXPRESSION_NESTING_MAX as u16)
        // The first error is the one that is shown, so there is nothing to recover for.
        .error_recovery_limit(0);
    let (tree, places) = parser.parse_with_source_info(source).map_err(|errors| first_error(&errors))?;
    let mut compiler = Compiler { source, places, slots: Vec::new(), loops: Vec::new(), terms: 0, depth: 0 };
    let term = compiler.term(&tree)?;
    let mut reads = compiler.slots.clone();
    reads.sort();
    Ok(Program { source: source.to_owned(), term, slots: compiler.slots, reads })
}

/// The parser's first error, without the long list of what it would have liked instead.
fn first_error(errors: &ParseErrors) -> String {
    let is_cause = |message: &str| !message.contains("error recovery attempt");
    let cause = errors.errors.iter().find(|error| is_cause(&error.msg));
    let message = match cause {
        Some(error) => error.msg.trim_start_matches("Syntax error: ").split(" expecting ").next(),
        None => Some("something is missing or too much here; check operators, brackets and quotes"),
    };
    let message = message.unwrap_or_default().replace("'<EOF>'", "the end");
    match cause.or(errors.errors.first()).map_or((0, 0), |error| error.pos) {
        (1, column) => format!("{message} (column {column})"),
        (line, column) if line > 1 => format!("{message} (line {line}, column {column})"),
        _ => "it can't be parsed; check operators, brackets and quotes".to_owned(),
    }
}

struct Compiler<'s> {
    source: &'s str,
    places: SourceInfo,
    slots: Vec<Read>,
    /// The variables of the loops around, outermost first: the element's and the accumulator's name.
    loops: Vec<(String, String)>,
    terms: usize,
    depth: usize,
}

type Compiled = Result<Term, String>;

impl Compiler<'_> {
    fn term(&mut self, tree: &IdedExpr) -> Compiled {
        self.terms += 1;
        if self.terms > limits::EXPRESSION_NODES_MAX {
            return self.refuse(
                tree.id,
                format!("it has more than {} terms; split it", limits::EXPRESSION_NODES_MAX),
            );
        }
        if self.depth >= limits::EXPRESSION_DEPTH_MAX {
            let most = limits::EXPRESSION_DEPTH_MAX;
            return self.refuse(tree.id, format!("it is more than {most} steps deep; split it"));
        }
        self.depth += 1;
        let term = self.kind(tree);
        self.depth -= 1;
        term
    }

    fn kind(&mut self, tree: &IdedExpr) -> Compiled {
        match &tree.expr {
            Expr::Literal(literal) => self.literal(tree.id, literal),
            Expr::Ident(name) => self.name(tree.id, name),
            Expr::Select(select) => self.select(tree.id, select),
            Expr::Call(call) => self.call(tree.id, call),
            Expr::List(list) => Ok(Term::List(self.terms(&list.elements)?)),
            Expr::Map(map) => {
                map.entries.iter().map(|entry| self.entry(entry)).collect::<Result<_, _>>().map(Term::Map)
            }
            Expr::Comprehension(comprehension) => self.comprehension(tree.id, comprehension),
            Expr::Struct(message) => self.refuse(
                tree.id,
                format!(
                    "{} {{...}} makes a message, which expressions don't have; write a map",
                    clip(&message.type_name)
                ),
            ),
            Expr::Unspecified => self.refuse(tree.id, "it can't be parsed; check brackets and quotes"),
        }
    }

    fn terms(&mut self, trees: &[IdedExpr]) -> Result<Vec<Term>, String> {
        trees.iter().map(|tree| self.term(tree)).collect()
    }

    fn boxed(&mut self, tree: &IdedExpr) -> Result<Box<Term>, String> {
        self.term(tree).map(Box::new)
    }

    fn entry(&mut self, entry: &IdedEntryExpr) -> Result<(Term, Term), String> {
        match &entry.expr {
            EntryExpr::MapEntry(entry) => Ok((self.term(&entry.key)?, self.term(&entry.value)?)),
            EntryExpr::StructField(_) => {
                Err(self.at(entry.id, "a map has keys, not fields; write them in quotes"))
            }
        }
    }

    fn literal(&self, id: u64, literal: &LiteralValue) -> Compiled {
        let value = match literal {
            LiteralValue::Null => Value::Null,
            LiteralValue::Boolean(value) => Value::Bool(*value.inner()),
            LiteralValue::Int(value) => Value::Int(*value.inner()),
            LiteralValue::UInt(value) => Value::Uint(*value.inner()),
            LiteralValue::Double(value) => Value::Double(*value.inner()),
            LiteralValue::String(value) => Value::text(value.inner()),
            LiteralValue::Bytes(_) => {
                return self.refuse(id, "expressions have no bytes; write a string without b");
            }
        };
        Ok(Term::Literal(value))
    }

    fn name(&mut self, id: u64, name: &str) -> Compiled {
        match self.local(name) {
            Some(local) => Ok(Term::Local(local)),
            None => self.read(id, name, None).map(Term::Read),
        }
    }

    /// The place of a loop's variable: two for each loop, the element before the accumulator.
    fn local(&self, name: &str) -> Option<usize> {
        self.loops.iter().enumerate().rev().find_map(|(level, (element, accumulator))| {
            let offset = [element, accumulator].iter().position(|variable| *variable == name)?;
            Some(2 * level + offset)
        })
    }

    fn read(&mut self, id: u64, root: &str, field: Option<&str>) -> Result<usize, String> {
        if root == "secrets" {
            return Err(self.at(id, "secrets can only be named in a template, as exactly {{ secrets.NAME }}"));
        }
        if root.starts_with('.') {
            return Err(
                self.at(id, format!("write '{}' without the dot in front", root.trim_start_matches('.')))
            );
        }
        let read = (root.to_owned(), field.map(str::to_owned));
        let known = self.slots.iter().position(|slot| *slot == read);
        Ok(known.unwrap_or_else(|| {
            self.slots.push(read);
            self.slots.len() - 1
        }))
    }

    /// The root that `tree` is, unless it is a loop's variable.
    fn root<'t>(&self, tree: &'t IdedExpr) -> Option<&'t str> {
        match &tree.expr {
            Expr::Ident(name) if self.local(name).is_none() => Some(name),
            _ => None,
        }
    }

    fn select(&mut self, id: u64, select: &SelectExpr) -> Compiled {
        let field = select.field.as_str();
        match (self.root(&select.operand), select.test) {
            (Some(root), false) => self.read(id, root, Some(field)).map(Term::Read),
            (Some(root), true) => self.read(id, root, Some(field)).map(Term::HasRead),
            (None, false) => Ok(Term::Select(self.boxed(&select.operand)?, field.into())),
            (None, true) => Ok(Term::Has(self.boxed(&select.operand)?, field.into())),
        }
    }

    fn index(&mut self, id: u64, of: &IdedExpr, index: &IdedExpr) -> Compiled {
        // `nodes["a-b"]` reads one field, as `nodes.ab` does.
        if let (Some(root), Expr::Literal(LiteralValue::String(field))) = (self.root(of), &index.expr) {
            return self.read(id, root, Some(field.inner())).map(Term::Read);
        }
        Ok(Term::Index(self.boxed(of)?, self.boxed(index)?))
    }

    fn call(&mut self, id: u64, call: &CallExpr) -> Compiled {
        match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::LOGICAL_AND, [one, two]) => Ok(Term::And(self.boxed(one)?, self.boxed(two)?)),
            (operators::LOGICAL_OR, [one, two]) => Ok(Term::Or(self.boxed(one)?, self.boxed(two)?)),
            (operators::LOGICAL_NOT, [one]) => Ok(Term::Not(self.boxed(one)?)),
            (operators::NEGATE, [one]) => Ok(Term::Negate(self.boxed(one)?)),
            (operators::NOT_STRICTLY_FALSE, [one]) => Ok(Term::NotFalse(self.boxed(one)?)),
            (operators::INDEX, [of, index]) => self.index(id, of, index),
            (operators::CONDITIONAL, [condition, yes, no]) => {
                Ok(Term::Conditional(self.boxed(condition)?, self.boxed(yes)?, self.boxed(no)?))
            }
            (operators::ADD, [one, two]) if self.is_append(one, two) => self.append(two),
            (name, [one, two]) if Operator::find(name).is_some() => {
                let operator = Operator::find(name).expect("it was just found");
                Ok(Term::Binary(operator, self.boxed(one)?, self.boxed(two)?))
            }
            (name, _) => self.function(id, name, call),
        }
    }

    fn function(&mut self, id: u64, name: &str, call: &CallExpr) -> Compiled {
        let found = function::find(name.trim_start_matches('.'), call.target.is_some(), call.args.len());
        let function = found.map_err(|message| self.at(id, message))?;
        let arguments: Vec<&IdedExpr> = call.target.as_deref().into_iter().chain(&call.args).collect();
        if let (Function::Matches, [text, pattern]) = (function, arguments.as_slice()) {
            return self.matches(text, pattern);
        }
        let arguments =
            arguments.into_iter().map(|argument| self.term(argument)).collect::<Result<_, _>>()?;
        Ok(Term::Call(function, arguments))
    }

    /// A pattern that is written out is compiled once, and refused now if it is wrong.
    fn matches(&mut self, text: &IdedExpr, pattern: &IdedExpr) -> Compiled {
        if let Expr::Literal(LiteralValue::String(source)) = &pattern.expr {
            let compiled = Pattern::parse(source.inner()).map_err(|message| self.at(pattern.id, message))?;
            return Ok(Term::Matches(self.boxed(text)?, Box::new(compiled)));
        }
        Ok(Term::Call(Function::Matches, vec![self.term(text)?, self.term(pattern)?]))
    }

    /// Whether this is the step of `map` or `filter`: the accumulator of the innermost loop plus one element.
    fn is_append(&self, one: &IdedExpr, two: &IdedExpr) -> bool {
        let accumulator = self.loops.last().map(|(_, accumulator)| accumulator);
        let is_accumulator = matches!(&one.expr, Expr::Ident(name) if Some(name) == accumulator);
        is_accumulator && matches!(&two.expr, Expr::List(list) if list.elements.len() == 1)
    }

    /// Appends in place: adding two lists would copy the accumulator for every element.
    fn append(&mut self, list: &IdedExpr) -> Compiled {
        let Expr::List(list) = &list.expr else { unreachable!("is_append has looked") };
        let element = self.boxed(&list.elements[0])?;
        Ok(Term::Append { accumulator: 2 * self.loops.len() - 1, element })
    }

    fn comprehension(&mut self, id: u64, tree: &ComprehensionExpr) -> Compiled {
        if self.loops.len() >= limits::EXPRESSION_LOOPS_MAX {
            let most = limits::EXPRESSION_LOOPS_MAX;
            return self
                .refuse(id, format!("macros loop inside one another more than {most} deep; split it"));
        }
        if tree.iter_var2.is_some() || tree.iter_var.starts_with('.') || tree.iter_var == "secrets" {
            return self.refuse(id, "the macro needs one plain name for its variable, such as x");
        }
        let range = self.term(&tree.iter_range)?;
        let start = self.term(&tree.accu_init)?;
        let element = 2 * self.loops.len();
        self.loops.push((tree.iter_var.clone(), tree.accu_var.clone()));
        let condition = self.term(&tree.loop_cond)?;
        let step = self.term(&tree.loop_step)?;
        let result = self.term(&tree.result)?;
        self.loops.pop();
        let condition = (!matches!(condition, Term::Literal(Value::Bool(true)))).then_some(condition);
        Ok(Term::Loop(Box::new(Loop { range, element, start, condition, step, result })))
    }

    fn refuse(&self, id: u64, message: impl Into<String>) -> Compiled {
        Err(self.at(id, message))
    }

    /// The message with the place of a term.
    fn at(&self, id: u64, message: impl Into<String>) -> String {
        let start = self.places.offset_for(id).map_or(0, |(start, _)| start as usize);
        format!("{} ({})", message.into(), scan::place(self.source, start))
    }
}
