//! What YAML becomes on its way to JSON, and what is refused.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use abide_core::{json_from_yaml, limits};
use proptest::prelude::*;

fn json(yaml: &str) -> String {
    String::from_utf8(json_from_yaml(yaml).unwrap()).unwrap()
}

/// The problem with a text, as `place: message`.
fn refused(yaml: &str) -> String {
    match json_from_yaml(yaml) {
        Ok(json) => format!("accepted as {}", String::from_utf8_lossy(&json)),
        Err(problem) => problem.to_string(),
    }
}

#[test]
fn a_definition_keeps_its_order_and_its_types() {
    let yaml = "
# A greeting.
name: greet
nodes:
  - id: hello
    disabled: false
    config: {delayMs: 1500, factor: 0.5, note: ~}
  - {id: 'bye', tags: [a, \"b\\n\", '1']}
description: |
  Two lines,
  one text.
folded: >-
  one
  line
empty:
";
    assert_eq!(
        json(yaml),
        concat!(
            r#"{"name":"greet","nodes":[{"id":"hello","disabled":false,"config":{"delayMs":1500,"factor":0.5,"note":null}},"#,
            r#"{"id":"bye","tags":["a","b\n","1"]}],"description":"Two lines,\none text.\n","folded":"one line","empty":null}"#
        )
    );
}

#[test]
fn json_is_yaml_too() {
    let text = r#"{"a":[1,-2,3.5,true,null,"x\u00e9\"",{}],"b":{"c":[]}}"#;
    assert_eq!(json(text), r#"{"a":[1,-2,3.5,true,null,"xé\"",{}],"b":{"c":[]}}"#);
}

#[test]
fn norway_stays_a_country() {
    for text in ["no", "No", "NO", "yes", "on", "off", "y", "n", "tRuE", "nUll"] {
        assert_eq!(json(&format!("country: {text}")), format!(r#"{{"country":"{text}"}}"#));
        assert_eq!(json(&format!("{text}: 1")), format!(r#"{{"{text}":1}}"#));
    }
}

#[test]
fn what_only_looks_like_a_number_is_a_text() {
    let texts = [
        "1_000",
        "12:30",
        "1.2.3",
        "2024-05-01",
        "0b11",
        "1e",
        "e5",
        ".",
        "+",
        "0x",
        "0xg",
        "0o8",
        "inf",
        "nan",
        "Infinity",
        "NaN",
        "-infinity",
        "1 2",
        "-0x1",
        "0x1_F",
        "1e5.5",
        "--1",
        "1.5e+-3",
    ];
    for text in texts {
        assert_eq!(json(&format!("[{text}, x]")), format!(r#"["{text}","x"]"#));
    }
}

#[test]
fn numbers_are_those_of_yaml_1_2() {
    for (yaml, expected) in [
        ("0", "0"),
        ("-0", "0"),
        ("+7", "7"),
        ("0o17", "15"),
        ("0x1F", "31"),
        (".5", "0.5"),
        ("1.", "1.0"),
        ("-1.5e3", "-1500.0"),
        ("1E2", "100.0"),
        ("9223372036854775807", "9223372036854775807"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("18446744073709551615", "18446744073709551615"),
        ("100000000000000000000", "1e+20"),
        ("-100000000000000000000", "-1e+20"),
    ] {
        assert_eq!(json(yaml), expected, "{yaml}");
    }
}

#[test]
fn quotes_make_a_text_of_anything() {
    assert_eq!(json(r#"['no', "1", '~', "<<", '012', ".nan"]"#), r#"["no","1","~","<<","012",".nan"]"#);
    assert_eq!(json(r#"{"1": a, '<<': b}"#), r#"{"1":"a","<<":"b"}"#);
}

#[test]
fn numbers_without_a_json_form_are_refused() {
    for text in [".inf", "-.INF", ".nan", "+.Inf"] {
        assert_eq!(
            refused(&format!("a: {text}")),
            format!("line 1, column 4: JSON has no number {text}: quote it if it is text")
        );
    }
    assert_eq!(refused("1e400"), "line 1, column 1: the number 1e400 is too large: quote it if it is text");
    assert!(refused(&"9".repeat(400)).ends_with("… is too large: quote it if it is text"));
    assert_eq!(
        refused("0xFFFFFFFFFFFFFFFFF"),
        "line 1, column 1: 0xFFFFFFFFFFFFFFFFF is too large: quote it"
    );
    assert_eq!(
        refused("zip: 01234"),
        "line 1, column 6: 01234 may be read as octal: quote it if it is text, or drop the leading zero"
    );
}

#[test]
fn places_are_lines_and_columns() {
    assert_eq!(
        refused("a: 1\nb:\n  c: &x 2\n"),
        "line 3, column 9: anchors and aliases are not read: write the value out at each place"
    );
    assert_eq!(refused("a: 1\nb: 2\n  a: 3\n").split(": ").next(), Some("line 3, column 4"));
}

#[test]
fn a_billion_laughs_end_at_the_first_anchor() {
    let mut yaml = String::from("a: &a [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
    for (name, last) in ('b'..='i').zip('a'..) {
        yaml += &format!("{name}: &{name} [{}]\n", vec![format!("*{last}"); 9].join(", "));
    }
    let message = "anchors and aliases are not read: write the value out at each place";
    assert_eq!(refused(&yaml), format!("line 1, column 7: {message}"));
    assert_eq!(refused("a: *nowhere"), format!("line 1, column 4: {message}"));
    assert_eq!(refused("&a [*a]"), format!("line 1, column 4: {message}"));
}

#[test]
fn nesting_ends_at_its_limit() {
    let flow = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let block = |depth: usize| format!("{}x", "- ".repeat(depth));
    let mapping =
        |depth: usize| (0..depth).map(|level| format!("{}a:\n", " ".repeat(level))).collect::<String>();
    for shape in [&flow as &dyn Fn(usize) -> String, &block, &mapping] {
        assert!(json_from_yaml(&shape(limits::YAML_DEPTH_MAX)).is_ok(), "{}", refused(&shape(64)));
        let message = refused(&shape(limits::YAML_DEPTH_MAX + 1));
        assert!(message.ends_with("the nesting is deeper than 64 levels: make it flatter"), "{message}");
    }
    let mixed = format!("{}{}", "- ".repeat(40), flow(40));
    assert!(refused(&mixed).ends_with("the nesting is deeper than 64 levels: make it flatter"));
    assert!(
        refused(&"[".repeat(1_000_000)).ends_with("the nesting is deeper than 64 levels: make it flatter")
    );
}

#[test]
fn keys_are_texts_and_stand_once() {
    assert_eq!(refused("a: 1\na: 2"), "line 2, column 1: the key a stands twice in one mapping: keep one");
    assert_eq!(
        refused("{a: 1, 'a': 2}"),
        "line 1, column 8: the key a stands twice in one mapping: keep one"
    );
    for key in ["1", "true", "~", "1.5", "0x1", "012", ".nan"] {
        assert_eq!(
            refused(&format!("{key}: x")),
            format!("line 1, column 1: the key {key} is not a text: quote it")
        );
    }
    assert!(refused("[a]: 1").contains("a key is a text, not a list or a mapping"));
    assert!(refused("value: {{ variables.x }}").contains("a value that begins with {{ needs quotes too"));
    assert_eq!(
        refused("a: {x: 1}\n<<: {y: 2}"),
        "line 2, column 1: merge keys are not read: write the keys out, or quote \"<<\" if it is a name"
    );
}

#[test]
fn tags_and_directives_are_refused() {
    for tag in ["!custom", "!!binary", "!!str", "!!python/object:os.system", "!<tag:example.com,2000:x>", "!"]
    {
        assert!(
            refused(&format!("a: {tag} x")).contains("remove it, and quote the value if it is text"),
            "{tag}"
        );
    }
    assert!(refused("a: !!set {x}").contains("is not read: remove it"));
    assert_eq!(
        refused("%YAML 1.1\n---\na: 1"),
        "line 1, column 1: directives are not read: remove the line that begins with %"
    );
}

#[test]
fn a_text_holds_one_document() {
    assert_eq!(json("---\na: 1\n...\n"), r#"{"a":1}"#);
    let message = "a second document begins here: keep one document in a text";
    assert_eq!(refused("a: 1\n---\nb: 2"), format!("line 2, column 1: {message}"));
    assert_eq!(refused("a: 1\n---\n"), format!("line 2, column 1: {message}"));
    for empty in ["", "\n\n", "# nothing\n"] {
        assert_eq!(refused(empty), "line 1, column 1: the document is empty: write a definition");
    }
}

#[test]
fn what_is_not_yaml_is_refused_where_it_breaks() {
    for broken in
        ["a: [1", "a: 'x", "a:\n\tb: 1", "a: b: c", "- a\nb", "}", "a: \"\\q\"", "%", "a: @x", "\u{0}"]
    {
        let message = refused(broken);
        assert!(message.starts_with("line ") && !message.contains("accepted"), "{broken:?}: {message}");
    }
}

#[test]
fn a_text_above_the_limit_is_not_looked_at() {
    let message = refused(&" ".repeat(limits::DEFINITION_BYTES_MAX + 1));
    assert_eq!(message, "the document: the text is longer than 16777216 bytes: split the definition");
}

/// Each of these made some reader take time that grows with the square of the text.
#[test]
fn long_texts_of_one_shape_are_read_in_one_pass() {
    let size = 200_000;
    for shape in [
        "- a\n", "? a\n", "a: ", "[a,", "\"", "'a'\n", "a\n", "# a\n", "{a: 1}, ", "- - a\n", ": ", "\n",
        "|\n", "!a ", "&a ",
    ] {
        let outcome = json_from_yaml(&shape.repeat(size / shape.len()));
        assert!(outcome.is_err() || outcome.is_ok_and(|json| json.len() <= 2 * size), "{shape:?}");
    }
    let keys: String = (0..20_000).map(|key| format!("k{key}: v\n")).collect();
    assert_eq!(json(&keys).matches("\":\"").count(), 20_000);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_accepted_is_json(text in r#"[\-a1:,\[\]{}'"|>&*!%#~<\n \t?.]{0,60}"#) {
        if let Ok(json) = json_from_yaml(&text) {
            prop_assert!(serde_json::from_slice::<serde_json::Value>(&json).is_ok(), "{text:?} gave {json:?}");
        }
    }

    /// Characters that YAML does not allow unescaped are refused, all others come back.
    #[test]
    fn any_text_in_quotes_comes_back(text in any::<String>()) {
        let quoted = serde_json::to_string(&text).unwrap();
        if let Ok(json) = json_from_yaml(&quoted) {
            prop_assert_eq!(serde_json::from_slice::<String>(&json).unwrap(), text);
        }
    }
}
