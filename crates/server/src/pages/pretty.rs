//! JSON laid out for people, with every key, text and number as it was written.
//!
//! Reading it into values and writing those would sort keys and round numbers, and somebody decides by what they see.

use crate::limits;

/// JSON text with a line for each part, as far as the bound; and whether that was all of it.
pub(super) fn pretty(text: &str) -> (String, bool) {
    let mut page = Page::default();
    let (mut quoted, mut escaped) = (false, false);
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        if page.text.len() + page.depth * 2 > limits::SHOWN_BYTES_MAX {
            return (page.text, false);
        }
        if quoted {
            page.text.push(char);
            quoted = escaped || char != '"';
            escaped = !escaped && char == '\\';
            continue;
        }
        match char {
            '{' | '[' => {
                page.text.push(char);
                while chars.next_if(char::is_ascii_whitespace).is_some() {}
                match chars.next_if(|next| matches!(next, '}' | ']')) {
                    Some(end) => page.text.push(end),
                    None => page.open(),
                }
            }
            '}' | ']' => page.close(char),
            ',' => page.part(),
            ':' => page.text.push_str(": "),
            char if char.is_ascii_whitespace() => {}
            char => {
                page.text.push(char);
                quoted = char == '"';
            }
        }
    }
    (page.text, true)
}

#[derive(Default)]
struct Page {
    text: String,
    depth: usize,
}

impl Page {
    fn line(&mut self) {
        self.text.push('\n');
        self.text.extend(std::iter::repeat_n("  ", self.depth));
    }

    fn open(&mut self) {
        self.depth += 1;
        self.line();
    }

    fn close(&mut self, end: char) {
        self.depth = self.depth.saturating_sub(1);
        self.line();
        self.text.push(end);
    }

    fn part(&mut self) {
        self.text.push(',');
        self.line();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_stands_as_it_was_written() {
        let cases = [
            ("{}", "{}"),
            ("[ ]", "[]"),
            ("1.50", "1.50"),
            ("\"a\"", "\"a\""),
            (
                r#"{"z":12345678901234567890.10,"a":[true,{"x":"{\\\"[,:"}, []]}"#,
                "{\n  \"z\": 12345678901234567890.10,\n  \"a\": [\n    true,\n    {\n      \"x\": \"{\\\\\\\"[,:\"\n    },\n    []\n  ]\n}",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(pretty(text), (expected.to_owned(), true));
        }
    }

    #[test]
    fn what_is_laid_out_is_the_same_json_and_bounded() {
        let value =
            serde_json::json!({ "a": ["\\", "\"", "\u{1}", { "b": {} }, []], "c": null, "d": -1.5e30 });
        let (text, whole) = pretty(&value.to_string());
        assert_eq!((serde_json::from_str::<serde_json::Value>(&text).unwrap(), whole), (value, true));
        for deep in ["[".repeat(100_000), format!("[{}1]", "1,".repeat(100_000))] {
            let (text, whole) = pretty(&deep);
            assert!(!whole && text.len() <= 2 * limits::SHOWN_BYTES_MAX, "{}", text.len());
        }
    }
}
