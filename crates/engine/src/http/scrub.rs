//! Takes the values of secrets out of what comes back.
//!
//! Servers echo what they were sent, and rarely as they were sent it. So a secret is searched for as it
//! is, percent-encoded and escaped in JSON, with each character encoded or not, as the server likes.

use crate::limits::HTTP_SECRET_CHARS_MIN;

const INSTEAD: &[u8] = b"[secret]";

/// The secrets of one request. It is never printed.
pub(super) struct Scrub {
    spellings: Vec<Spelling>,
    /// The bytes that some spelling begins with: every other byte is passed over at once.
    begins: [bool; 256],
}

/// One way of writing a secret: for each of its characters, what may stand for it.
type Spelling = Vec<Vec<Written>>;

/// One way of writing a character.
struct Written {
    bytes: Vec<u8>,
    /// Hexadecimal digits are written in either case.
    any_case: bool,
}

/// What is found at some place of a text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Found {
    Nothing,
    /// The text ends within a secret.
    Begun,
    /// A secret of so many bytes.
    Secret(usize),
}

impl Scrub {
    pub(super) fn new(secrets: &[String]) -> Self {
        // Spaces around a secret get lost on the way.
        let worth = secrets.iter().map(|secret| secret.trim());
        let worth = worth.filter(|secret| secret.chars().count() >= HTTP_SECRET_CHARS_MIN);
        let spellings: Vec<Spelling> = worth.flat_map(spellings).collect();
        let mut begins = [false; 256];
        for written in spellings.iter().flat_map(|spelling| spelling.first()).flatten() {
            begins[usize::from(written.bytes[0])] = true;
        }
        Self { spellings, begins }
    }

    /// `text` without secrets.
    pub(super) fn text(&self, text: &str) -> String {
        let clean = self.bytes(text.as_bytes().to_vec(), false);
        String::from_utf8_lossy(&clean).into_owned()
    }

    /// `text` without secrets. If it was `cut` off, a secret that begins at its end is taken out as well.
    pub(super) fn bytes(&self, text: Vec<u8>, cut: bool) -> Vec<u8> {
        if self.spellings.is_empty() {
            return text;
        }
        let mut clean = Vec::with_capacity(text.len());
        let mut at = 0;
        while let Some(&byte) = text.get(at) {
            match self.found(&text[at..]) {
                Found::Secret(length) => {
                    clean.extend_from_slice(INSTEAD);
                    at += length;
                }
                Found::Begun if cut => break,
                Found::Begun | Found::Nothing => {
                    clean.push(byte);
                    at += 1;
                }
            }
        }
        clean
    }

    /// The longest secret that `text` begins with.
    fn found(&self, text: &[u8]) -> Found {
        if !self.begins[usize::from(text[0])] {
            return Found::Nothing;
        }
        self.spellings.iter().map(|spelling| look(text, spelling)).max().unwrap_or(Found::Nothing)
    }
}

fn spellings(secret: &str) -> [Spelling; 4] {
    // In the place of a host, letters become small.
    let host = secret.to_lowercase().chars().map(plain).collect();
    let [plain, percent, json] = [plain, percent, json].map(|way| secret.chars().map(way).collect());
    [plain, percent, json, host]
}

fn look(text: &[u8], spelling: &Spelling) -> Found {
    let mut at = 0;
    for ways in spelling {
        let rest = &text[at..];
        match ways.iter().map(|written| written.found(rest)).max() {
            Some(Found::Secret(length)) => at += length,
            found => return found.unwrap_or(Found::Nothing),
        }
    }
    Found::Secret(at)
}

impl Written {
    fn exact(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into(), any_case: false }
    }

    fn hex(text: String) -> Self {
        Self { bytes: text.into_bytes(), any_case: true }
    }

    fn found(&self, text: &[u8]) -> Found {
        let shared = self.bytes.len().min(text.len());
        let (mine, theirs) = (&self.bytes[..shared], &text[..shared]);
        let same = if self.any_case { mine.eq_ignore_ascii_case(theirs) } else { mine == theirs };
        match same {
            false => Found::Nothing,
            true if shared < self.bytes.len() => Found::Begun,
            true => Found::Secret(shared),
        }
    }
}

fn plain(c: char) -> Vec<Written> {
    vec![Written::exact(c.to_string())]
}

/// In URLs and forms.
fn percent(c: char) -> Vec<Written> {
    let encoded = c.to_string().bytes().map(|byte| format!("%{byte:02x}")).collect();
    let mut ways = vec![Written::hex(encoded)];
    match c {
        ' ' => ways.push(Written::exact("+")),
        '%' => {}
        _ => ways.push(Written::exact(c.to_string())),
    }
    ways
}

/// Inside JSON strings.
fn json(c: char) -> Vec<Written> {
    let units = c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect();
    let mut ways = vec![Written::hex(units)];
    match short_escape(c) {
        Some(letter) => ways.push(Written::exact([b'\\', letter])),
        None => ways.push(Written::exact(c.to_string())),
    }
    if c == '/' {
        ways.push(Written::exact("/"));
    }
    ways
}

fn short_escape(c: char) -> Option<u8> {
    Some(match c {
        '"' | '\\' | '/' => c as u8,
        '\n' => b'n',
        '\r' => b'r',
        '\t' => b't',
        '\u{8}' => b'b',
        '\u{c}' => b'f',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scrub(secrets: &[&str], text: &str) -> String {
        let secrets: Vec<String> = secrets.iter().map(ToString::to_string).collect();
        Scrub::new(&secrets).text(text)
    }

    #[test]
    fn a_secret_is_found_however_it_is_written() {
        let secret = "a/b +\"é\\%😀z";
        let spellings = [
            secret,
            r#"a/b +\"é\\%😀z"#,
            r#"a\/b +\"\u00e9\\%\ud83d\ude00z"#,
            r"a\u002Fb\u0020+\u0022\u00E9\u005c\u0025\uD83D\uDE00z",
            "a%2Fb%20%2B%22%C3%A9%5C%25%F0%9F%98%80z",
            "a/b++%22%c3%a9%5c%25%f0%9f%98%80z",
            "%61%2f%62%20%2b%22%c3%a9%5c%25%f0%9f%98%80%7a",
        ];
        for spelling in spellings {
            assert_eq!(scrub(&[secret], &format!("<{spelling}>")), "<[secret]>", "{spelling}");
        }
    }

    #[test]
    fn only_secrets_are_taken_out() {
        assert_eq!(scrub(&["hunter22"], "hunter2, hunter222, HUNTER22"), "hunter2, [secret]2, HUNTER22");
        assert_eq!(scrub(&[], "hunter2"), "hunter2");
        assert_eq!(scrub(&["abc"], "abc"), "abc", "three characters stand in any text");
        assert_eq!(scrub(&["abcd", "abcdef"], "abcdef abcd"), "[secret] [secret]", "the longest counts");
        assert_eq!(scrub(&["hunter22\n"], "hunter22"), "[secret]", "the line break got lost");
        assert_eq!(scrub(&["Hunter22"], "Hunter22 hunter22"), "[secret] [secret]", "hosts are in lower case");
        assert_eq!(scrub(&["aaab"], "aaaab"), "a[secret]");
    }

    #[test]
    fn a_secret_cut_off_at_the_end_is_taken_out_too() {
        let scrub = Scrub::new(&["hunter/22".to_owned()]);
        for cut in ["key=h", "key=hunter", "key=hunter%", "key=hunter%2", "key=hunter\\u00", "key=hunter/2"] {
            assert_eq!(scrub.bytes(cut.as_bytes().to_vec(), true), b"key=", "{cut}");
            assert_eq!(scrub.bytes(cut.as_bytes().to_vec(), false), cut.as_bytes(), "{cut}");
        }
    }
}
