//! Templates: text, or JSON, with expressions and the names of secrets in it.
//!
//! `{{ expression }}` stands for a value, `{{ secrets.NAME }}` for a secret. A template never sees a secret's
//! value: rendering gives pieces, and the shell puts the values in when it sends them. A literal `{{` is
//! written `{{ "{{" }}`.

use crate::expression::{Rendered, end_in_template};
use crate::{Expression, Fault, Fuel, Json, JsonMap, Scope, limits};

/// A text with expressions in it.
#[derive(Clone, Debug)]
pub struct Template(Vec<Part>);

/// A JSON value whose strings are templates; keys are not.
///
/// A string that is exactly one `{{ expression }}` becomes the expression's value, whatever its type.
#[derive(Clone, Debug)]
pub struct JsonTemplate(Vec<Part>);

/// A stretch of a rendered template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Text as it is.
    Text(String),
    /// The name of a secret whose value stands here.
    Secret(String),
    /// The name of a secret whose value stands here inside a JSON string: it has to be escaped for that,
    /// and the quotes are there already.
    SecretInJson(String),
}

/// A stretch of a parsed template.
#[derive(Clone, Debug)]
enum Part {
    Text(String),
    /// A value as text: strings without quotes, others as JSON.
    Plain(Expression),
    /// The same, escaped for the JSON string that it stands in.
    Quoted(Expression),
    /// A value as JSON.
    Value(Expression),
    Secret(String),
    SecretInJson(String),
}

impl Template {
    /// Parses. The error says which expression is wrong, and why.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut budget = Budget::new(text.len())?;
        parse_text(text, &mut budget).map(Self)
    }

    /// What its expressions read, sorted, without repeats. See [`Expression::reads`].
    pub fn reads(&self) -> Vec<(String, Option<String>)> {
        reads(&self.0)
    }

    /// The names of its secrets, in the order in which they stand there.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        secrets(&self.0)
    }

    /// What stands before its first secret, with an `x` for each expression. `None` if it has no secrets.
    pub(crate) fn before_secret(&self) -> Option<String> {
        let is_secret = |part: &Part| matches!(part, Part::Secret(_) | Part::SecretInJson(_));
        let end = self.0.iter().position(is_secret)?;
        let text = |part: &Part| if let Part::Text(text) = part { text.clone() } else { "x".to_owned() };
        Some(self.0[..end].iter().map(text).collect())
    }

    /// Whether it has neither expressions nor secrets, and is the same however often it is rendered.
    pub fn is_plain(&self) -> bool {
        is_plain(&self.0)
    }

    /// Evaluates all expressions, with one tank of fuel for all of them.
    pub fn render(&self, scope: &dyn Scope) -> Result<Vec<Piece>, Fault> {
        render(&self.0, scope, &mut Fuel::full())
    }
}

impl JsonTemplate {
    /// Parses. The error says which string and which expression is wrong, and why.
    pub fn parse(value: &Json) -> Result<Self, String> {
        let mut builder = Builder { parts: Vec::new(), budget: Budget::new(value.text().len())? };
        builder.value(value, 0)?;
        Ok(Self(builder.parts))
    }

    /// What its expressions read, sorted, without repeats. See [`Expression::reads`].
    pub fn reads(&self) -> Vec<(String, Option<String>)> {
        reads(&self.0)
    }

    /// The names of its secrets, in the order of the keys.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        secrets(&self.0)
    }

    /// Whether it has neither expressions nor secrets, and is the same however often it is rendered.
    pub fn is_plain(&self) -> bool {
        is_plain(&self.0)
    }

    /// Evaluates all expressions, with one tank of fuel for all of them, and gives the pieces of JSON text.
    pub fn render(&self, scope: &dyn Scope) -> Result<Vec<Piece>, Fault> {
        render(&self.0, scope, &mut Fuel::full())
    }

    /// Renders to a value. `None` if there is a secret in it, whose value is not known here.
    pub fn render_value(&self, scope: &dyn Scope) -> Result<Option<Json>, Fault> {
        if self.secrets().next().is_some() {
            return Ok(None);
        }
        let pieces = self.render(scope)?;
        let text: String =
            pieces.iter().map(|piece| if let Piece::Text(text) = piece { text } else { "" }).collect();
        Ok(Some(serde_json::from_str(&text).expect("the pieces of a JSON template are JSON")))
    }
}

/// How many expressions a template may still have.
struct Budget(usize);

impl Budget {
    fn new(bytes: usize) -> Result<Self, String> {
        if bytes > limits::TEMPLATE_BYTES_MAX {
            return Err(format!(
                "the template has {bytes} bytes; {} are allowed",
                limits::TEMPLATE_BYTES_MAX
            ));
        }
        Ok(Self(limits::TEMPLATE_EXPRESSIONS_MAX))
    }

    fn take(&mut self) -> Result<(), String> {
        let most = limits::TEMPLATE_EXPRESSIONS_MAX;
        let left = self.0.checked_sub(1);
        self.0 = left.ok_or_else(|| format!("the template has more than {most} expressions; split it"))?;
        Ok(())
    }
}

fn parse_text(text: &str, budget: &mut Budget) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(open) = rest.find("{{") {
        let inside = &rest[open + 2..];
        let number = 1 + text[..text.len() - rest.len() + open].chars().count();
        let end = end_in_template(inside)
            .ok_or_else(|| format!("the {{{{ at character {number} has no }}}}; close it, or write a literal one as {{{{ \"{{{{\" }}}}"))?;
        budget.take()?;
        if open > 0 {
            parts.push(Part::Text(rest[..open].to_owned()));
        }
        let part = parse_inside(inside[..end].trim());
        parts.push(part.map_err(|message| format!("in the {{{{ }}}} at character {number}: {message}"))?);
        rest = &inside[end + 2..];
    }
    if !rest.is_empty() {
        parts.push(Part::Text(rest.to_owned()));
    }
    Ok(parts)
}

fn parse_inside(source: &str) -> Result<Part, String> {
    if source.is_empty() {
        return Err("it is empty; write an expression between the braces".to_owned());
    }
    match source.strip_prefix("secrets.") {
        Some(name) if is_secret_name(name) => Ok(Part::Secret(name.to_owned())),
        Some(_) => Err(format!(
            "a secret is named as exactly {{{{ secrets.NAME }}}}, NAME being 1 to {} letters, digits, '_', '-' or '.'",
            limits::SECRET_NAME_CHARS_MAX
        )),
        None => Expression::parse(source).map(Part::Plain),
    }
}

fn is_secret_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (1..=limits::SECRET_NAME_CHARS_MAX).contains(&name.len()) && name.bytes().all(plain)
}

/// Flattens a JSON value into the parts of its text.
struct Builder {
    parts: Vec<Part>,
    budget: Budget,
}

impl Builder {
    fn value(&mut self, value: &Json, depth: usize) -> Result<(), String> {
        if depth > limits::EXPRESSION_RESULT_DEPTH_MAX {
            let most = limits::EXPRESSION_RESULT_DEPTH_MAX;
            return Err(format!("the template nests more than {most} levels deep; flatten it"));
        }
        let unreadable = |error: serde_json::Error| format!("the template is not JSON: {error}");
        match value.type_name() {
            "object" => self.object(value.parse().map_err(unreadable)?, depth),
            "array" => self.array(&value.parse::<Vec<Json>>().map_err(unreadable)?, depth),
            "string" => self.string(&value.parse::<String>().map_err(unreadable)?),
            _ => {
                self.text(value.text());
                Ok(())
            }
        }
    }

    fn object(&mut self, object: JsonMap, depth: usize) -> Result<(), String> {
        self.text("{");
        for (at, (key, value)) in object.into_iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            self.text(&format!("{comma}{}:", Json::of(&key).text()));
            self.value(&value, depth + 1).map_err(|message| below(&key, &message))?;
        }
        self.text("}");
        Ok(())
    }

    fn array(&mut self, items: &[Json], depth: usize) -> Result<(), String> {
        self.text("[");
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                self.text(",");
            }
            self.value(item, depth + 1).map_err(|message| below(&at.to_string(), &message))?;
        }
        self.text("]");
        Ok(())
    }

    fn string(&mut self, text: &str) -> Result<(), String> {
        let mut parts = parse_text(text, &mut self.budget)?;
        if let [Part::Plain(expression)] = parts.as_mut_slice() {
            self.parts.push(Part::Value(expression.clone()));
            return Ok(());
        }
        self.text("\"");
        for part in parts {
            match part {
                Part::Text(text) => self.text(&escape(&text)),
                Part::Plain(expression) => self.parts.push(Part::Quoted(expression)),
                Part::Secret(name) => self.parts.push(Part::SecretInJson(name)),
                part => self.parts.push(part),
            }
        }
        self.text("\"");
        Ok(())
    }

    /// Adds text to the last part if that is text too.
    fn text(&mut self, text: &str) {
        match self.parts.last_mut() {
            Some(Part::Text(last)) => last.push_str(text),
            _ => self.parts.push(Part::Text(text.to_owned())),
        }
    }
}

/// Puts the key in front of a message, or of the path that it has already.
fn below(key: &str, message: &str) -> String {
    let key: String = key.chars().take(80).collect();
    match message.strip_prefix("at ") {
        Some(path) => format!("at {key}.{path}"),
        None => format!("at {key}: {message}"),
    }
}

/// A text as it stands between the quotes of a JSON string.
fn escape(text: &str) -> String {
    let quoted = Json::of(text);
    let inside = &quoted.text()[1..quoted.text().len() - 1];
    inside.to_owned()
}

fn render(parts: &[Part], scope: &dyn Scope, fuel: &mut Fuel) -> Result<Vec<Piece>, Fault> {
    let mut pieces = Vec::new();
    for part in parts {
        let piece = match part {
            Part::Text(text) => {
                fuel.scan(text.len()).map_err(|_| Fault::costly("the template"))?;
                Piece::Text(text.clone())
            }
            Part::Plain(expression) => match expression.render(scope, fuel)? {
                Rendered::Text(text) => Piece::Text(text.as_ref().to_owned()),
                Rendered::Json(json) => Piece::Text(json.text().to_owned()),
            },
            Part::Quoted(expression) => match expression.render(scope, fuel)? {
                Rendered::Text(text) => Piece::Text(escape(&text)),
                Rendered::Json(json) => Piece::Text(escape(json.text())),
            },
            Part::Value(expression) => {
                Piece::Text(expression.evaluate_within(scope, fuel)?.text().to_owned())
            }
            Part::Secret(name) => Piece::Secret(name.clone()),
            Part::SecretInJson(name) => Piece::SecretInJson(name.clone()),
        };
        push(&mut pieces, piece);
    }
    Ok(pieces)
}

/// Text next to text is one piece.
fn push(pieces: &mut Vec<Piece>, piece: Piece) {
    match (pieces.last_mut(), piece) {
        (_, Piece::Text(text)) if text.is_empty() => {}
        (Some(Piece::Text(last)), Piece::Text(text)) => last.push_str(&text),
        (_, piece) => pieces.push(piece),
    }
}

fn reads(parts: &[Part]) -> Vec<(String, Option<String>)> {
    let expressions = parts.iter().filter_map(|part| match part {
        Part::Plain(expression) | Part::Quoted(expression) | Part::Value(expression) => Some(expression),
        _ => None,
    });
    let mut reads: Vec<_> = expressions.flat_map(Expression::reads).cloned().collect();
    reads.sort();
    reads.dedup();
    reads
}

fn secrets(parts: &[Part]) -> impl Iterator<Item = &str> {
    parts.iter().filter_map(|part| match part {
        Part::Secret(name) | Part::SecretInJson(name) => Some(name.as_str()),
        _ => None,
    })
}

fn is_plain(parts: &[Part]) -> bool {
    parts.iter().all(|part| matches!(part, Part::Text(_)))
}
