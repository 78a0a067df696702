//! A look at the words of an expression before it is parsed.
//!
//! The parser recurses over brackets, conditionals and chains of operators, and its time grows with them.
//! What is nested too deeply is refused here, where the look takes one pass and no recursion. The same pass
//! finds where an expression ends inside a template.

use crate::limits;

/// What matters about a word here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Open(u8),
    Close(u8),
    /// A binary or unary operator that nests what stands on its left.
    Operator,
    /// `.`, which nests what it selects from.
    Link,
    /// `?`, whose branches nest to the right.
    Question,
    /// What begins a term that nests nothing before it, yet stands in the same conditional: `:` `&&` `||`.
    Fresh,
    /// What ends a conditional too.
    Comma,
    /// Names, numbers, strings.
    Term,
}

/// The words of an expression with their byte offsets. Spaces and comments are skipped.
struct Words<'a> {
    text: &'a str,
    at: usize,
}

impl Iterator for Words<'_> {
    type Item = (usize, Word);

    fn next(&mut self) -> Option<Self::Item> {
        self.skip_blanks();
        let start = self.at;
        let rest = &self.text[start..];
        let first = *rest.as_bytes().first()?;
        let (length, word) = match first {
            b'(' | b'[' | b'{' => (1, Word::Open(first)),
            b')' | b']' | b'}' => (1, Word::Close(first)),
            b'.' => (1, Word::Link),
            b'?' => (1, Word::Question),
            b',' => (1, Word::Comma),
            b':' => (1, Word::Fresh),
            b'&' | b'|' => (rest.len() - rest.trim_start_matches(['&', '|']).len(), Word::Fresh),
            b'"' | b'\'' => (string_length(rest, false), Word::Term),
            _ if is_name(first) => name_or_string(rest),
            b'=' | b'!' | b'<' | b'>' if rest[1..].starts_with('=') => (2, Word::Operator),
            _ if first.is_ascii() => (1, Word::Operator),
            _ => (rest.chars().next().map_or(1, char::len_utf8), Word::Term),
        };
        self.at += length;
        Some((start, word))
    }
}

impl Words<'_> {
    fn skip_blanks(&mut self) {
        loop {
            let rest = &self.text[self.at..];
            let trimmed = rest.trim_start_matches([' ', '\t', '\r', '\n', '\u{c}']);
            self.at += rest.len() - trimmed.len();
            if !trimmed.starts_with("//") {
                return;
            }
            self.at += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// A name, or a string with a prefix (`r"..."`).
fn name_or_string(rest: &str) -> (usize, Word) {
    let length = rest.bytes().take_while(|byte| is_name(*byte)).count();
    let (name, tail) = rest.split_at(length);
    let is_prefix = matches!(name, "r" | "R" | "b" | "B" | "br" | "bR" | "Br" | "BR");
    if is_prefix && tail.starts_with(['"', '\'']) {
        let raw = name.ends_with(['r', 'R']);
        return (length + string_length(tail, raw), Word::Term);
    }
    if name == "in" {
        return (length, Word::Operator);
    }
    (length, Word::Term)
}

/// The length of the string literal that `rest` opens with, quotes included; all of it if it does not end.
fn string_length(rest: &str, raw: bool) -> usize {
    let quote = &rest[..1];
    let triple = &quote.repeat(3);
    let quotes = if rest.starts_with(triple) { triple } else { quote };
    let mut at = quotes.len();
    while let Some(tail) = rest.get(at..).filter(|tail| !tail.is_empty()) {
        if tail.starts_with(quotes) {
            return at + quotes.len();
        }
        let escaped = if raw || !tail.starts_with('\\') { 0 } else { 1 };
        at += escaped + tail[escaped..].chars().next().map_or(0, char::len_utf8);
    }
    rest.len()
}

/// How deep the expression may be at one bracket.
#[derive(Default)]
struct Level {
    operators: usize,
    links: usize,
    questions: usize,
}

impl Level {
    fn take(&mut self, word: Word) {
        match word {
            Word::Operator => *self = Self { operators: self.operators + 1, links: 0, ..*self },
            Word::Link | Word::Open(_) => self.links += 1,
            Word::Question => *self = Self { questions: self.questions + 1, ..Self::default() },
            Word::Fresh => *self = Self { questions: self.questions, ..Self::default() },
            Word::Comma => *self = Self::default(),
            Word::Close(_) | Word::Term => {}
        }
    }
}

/// Refuses what is too long, too deep or has too many words for the parser.
pub(super) fn check(text: &str) -> Result<(), String> {
    if text.len() > limits::EXPRESSION_BYTES_MAX {
        return Err(format!(
            "it has {} bytes; {} are allowed. Split it",
            text.len(),
            limits::EXPRESSION_BYTES_MAX
        ));
    }
    let mut levels = vec![Level::default()];
    for (count, (at, word)) in (Words { text, at: 0 }).enumerate() {
        if count >= 2 * limits::EXPRESSION_NODES_MAX {
            return Err(format!("it has more than {} words; split it", 2 * limits::EXPRESSION_NODES_MAX));
        }
        enter(&mut levels, word);
        check_depth(&levels).map_err(|message| format!("{message} ({})", place(text, at)))?;
    }
    Ok(())
}

fn enter(levels: &mut Vec<Level>, word: Word) {
    if matches!(word, Word::Close(_)) && levels.len() > 1 {
        levels.pop();
    }
    levels.last_mut().expect("the outermost level stays").take(word);
    if matches!(word, Word::Open(_)) {
        levels.push(Level::default());
    }
}

fn check_depth(levels: &[Level]) -> Result<(), String> {
    let nesting: usize = levels.iter().map(|level| 1 + level.questions).sum();
    if nesting > limits::EXPRESSION_NESTING_MAX {
        let most = limits::EXPRESSION_NESTING_MAX;
        return Err(format!("brackets and conditionals nest more than {most} deep; split the expression"));
    }
    let chain: usize = levels.iter().map(|level| level.operators + level.links).sum();
    if chain > limits::EXPRESSION_DEPTH_MAX {
        let most = limits::EXPRESSION_DEPTH_MAX;
        return Err(format!("more than {most} operators follow one another; split the expression"));
    }
    Ok(())
}

/// The line and column of a byte offset, counted from 1, in words.
pub(super) fn place(text: &str, at: usize) -> String {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    match line {
        1 => format!("column {column}"),
        _ => format!("line {line}, column {column}"),
    }
}

/// Where the expression ends that stands at the start of `text` and is followed by `}}`; `None` if it is not.
pub(crate) fn end_in_template(text: &str) -> Option<usize> {
    let mut braces = 0_usize;
    for (at, word) in (Words { text, at: 0 }) {
        match word {
            Word::Open(b'{') => braces += 1,
            Word::Close(b'}') if braces > 0 => braces -= 1,
            Word::Close(b'}') if text[at..].starts_with("}}") => return Some(at),
            _ => {}
        }
    }
    None
}
