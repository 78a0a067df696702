//! What templates render to, and what they refuse.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use abide_core::{Fault, Json, JsonMap, JsonTemplate, Piece, Scope, Template, limits};
use proptest::prelude::*;

/// One root, `inputs`.
struct Inputs(JsonMap);

impl Scope for Inputs {
    fn get(&self, root: &str, field: Option<&str>) -> Option<Json> {
        match field {
            Some(field) if root == "inputs" => self.0.get(field).cloned(),
            _ => Some(Json::of(&self.0)),
        }
    }

    fn knows(&self, root: &str) -> bool {
        root == "inputs"
    }
}

fn inputs() -> Inputs {
    let text = r#"{"name": "Ada \"the\" first", "n": 3, "list": [1, "a"], "map": {"b": 1, "a": null}, "none": null}"#;
    Inputs(serde_json::from_str(text).unwrap())
}

fn render(text: &str) -> Result<Vec<Piece>, Fault> {
    Template::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).render(&inputs())
}

fn text(text: &str) -> Piece {
    Piece::Text(text.to_owned())
}

fn secret(name: &str) -> Piece {
    Piece::Secret(name.to_owned())
}

fn hidden(name: &str) -> Piece {
    Piece::SecretInJson(name.to_owned())
}

fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap()
}

fn render_json(template: &str) -> Vec<Piece> {
    let parsed = JsonTemplate::parse(&json(template)).unwrap_or_else(|error| panic!("{template}: {error}"));
    parsed.render(&inputs()).unwrap()
}

#[test]
fn text_is_filled_in() {
    for (template, expected) in [
        ("plain { text } with }} braces", "plain { text } with }} braces"),
        ("Dear {{ inputs.name }}!", "Dear Ada \"the\" first!"),
        ("{{inputs.n}}{{ inputs.n + 1 }}", "34"),
        ("n={{ inputs.list }} {{ inputs.map }} {{ inputs.none }}", r#"n=[1,"a"] {"a":null,"b":1} null"#),
        (r#"a literal {{ "{{" }} and {{ '}}' }}"#, "a literal {{ and }}"),
        (r#"{{ {"a": {"b": 1}} }}"#, r#"{"a":{"b":1}}"#),
        (r#"{{ {"a": {"b": 1}}.a.b }}"#, "1"),
        (r#"{{{"a": 1}}}"#, r#"{"a":1}"#),
        (r"{{ r'\}}' }}", r"\}}"),
        ("{{ '''a}}'b''' }}", "a}}'b"),
        ("☃{{ '☃' }}☃", "☃☃☃"),
    ] {
        assert_eq!(render(template).unwrap(), [text(expected)], "{template}");
    }
    assert_eq!(render("").unwrap(), []);
    assert_eq!(render("{{ '' }}").unwrap(), []);
}

#[test]
fn secrets_are_named_and_never_read() {
    let template =
        Template::parse("Bearer {{ secrets.API-key.v2 }} for {{ inputs.n }}{{secrets.b}}").unwrap();
    assert_eq!(template.secrets().collect::<Vec<_>>(), ["API-key.v2", "b"]);
    assert_eq!(template.reads(), [("inputs".to_owned(), Some("n".to_owned()))]);
    assert!(!template.is_plain());
    let pieces = template.render(&inputs()).unwrap();
    assert_eq!(pieces, [text("Bearer "), secret("API-key.v2"), text(" for 3"), secret("b")]);
}

#[test]
fn a_template_without_braces_is_plain() {
    assert!(Template::parse("just text").unwrap().is_plain());
    assert!(!Template::parse("{{ 1 }}").unwrap().is_plain());
    assert!(!Template::parse("{{ secrets.A }}").unwrap().is_plain());
    assert!(JsonTemplate::parse(&json(r#"{"a": [1, "b"]}"#)).unwrap().is_plain());
}

#[test]
fn wrong_templates_are_refused() {
    let long = format!("{{{{ secrets.{} }}}}", "a".repeat(limits::SECRET_NAME_CHARS_MAX + 1));
    let many = "{{1}}".repeat(limits::TEMPLATE_EXPRESSIONS_MAX + 1);
    let large = "a".repeat(limits::TEMPLATE_BYTES_MAX + 1);
    for (template, words) in [
        ("a {{ b", "the {{ at character 3 has no }}"),
        ("☃ {{ 'a }}", "the {{ at character 3 has no }}"),
        ("{{ }}", "it is empty"),
        ("x {{ 1 + }}", "in the {{ }} at character 3: "),
        ("{{ nope(1) }}", "there is no function nope()"),
        ("{{ secrets }}", "{{ secrets.NAME }}"),
        ("{{ secrets['A'] }}", "{{ secrets.NAME }}"),
        ("{{ secrets.A + 'x' }}", "{{ secrets.NAME }}"),
        ("{{ 'x' + secrets.A }}", "{{ secrets.NAME }}"),
        ("{{ size(secrets) }}", "{{ secrets.NAME }}"),
        ("{{ has(secrets.A) }}", "{{ secrets.NAME }}"),
        ("{{ secrets. }}", "{{ secrets.NAME }}"),
        (&long, "1 to 64 letters"),
        (&many, "more than 256 expressions"),
        (&large, "are allowed"),
    ] {
        let error = Template::parse(template).expect_err(template);
        assert!(error.contains(words), "{template}: {error}");
    }
}

#[test]
fn a_string_that_is_one_expression_becomes_its_value() {
    let rendered = render_json(
        r#"{"z": "{{ inputs.list }}", "a": "{{ inputs.name }}", "n": "n: {{ inputs.n }}", "k": [1.50, true, null, "{{ inputs.n > 2 }}"],
            "{{ key }}": "q: {{ inputs.name }} {{ inputs.map }}"}"#,
    );
    let expected = concat!(
        r#"{"a":"Ada \"the\" first","k":[1.50,true,null,true],"n":"n: 3","z":[1,"a"],"#,
        r#""{{ key }}":"q: Ada \"the\" first {\"a\":null,\"b\":1}"}"#,
    );
    assert_eq!(rendered, [text(expected)]);
    assert_eq!(render_json(r#"" {{ inputs.n }}""#), [text(r#"" 3""#)], "with a space it is text");
    assert_eq!(render_json(r#""{{ inputs.n }}""#), [text("3")]);
    assert_eq!(render_json("12345678901234567890123"), [text("12345678901234567890123")]);
}

#[test]
fn secrets_in_json_stand_inside_quotes() {
    let template =
        r#"{"key": "{{ secrets.A }}", "header": "Bearer {{ secrets.B }} \"x\"", "n": "{{ inputs.n }}"}"#;
    let parsed = JsonTemplate::parse(&json(template)).unwrap();
    assert_eq!(parsed.secrets().collect::<Vec<_>>(), ["B", "A"], "in the order of the keys");
    assert_eq!(parsed.reads(), [("inputs".to_owned(), Some("n".to_owned()))]);
    let pieces = parsed.render(&inputs()).unwrap();
    let start = text(r#"{"header":"Bearer "#);
    assert_eq!(pieces, [start, hidden("B"), text(r#" \"x\"","key":""#), hidden("A"), text(r#"","n":3}"#)]);
    assert_eq!(parsed.render_value(&inputs()), Ok(None));
}

#[test]
fn a_wrong_json_template_names_the_string() {
    let error = JsonTemplate::parse(&json(r#"{"a": [1, {"b": "{{ 1 + }}"}]}"#)).unwrap_err();
    assert!(error.starts_with("at a.1.b: in the {{ }} at character 1: "), "{error}");
    let nested = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
    let error = JsonTemplate::parse(&serde_json::from_str(&nested).unwrap()).unwrap_err();
    assert!(error.contains("100 levels deep"), "{error}");
}

#[test]
fn all_expressions_of_a_template_share_one_tank() {
    let data = Inputs([("list".to_owned(), Json::of(&vec![1; 50_000]))].into());
    let once = "{{ inputs.list.all(x, x > 0) }}";
    assert!(Template::parse(once).unwrap().render(&data).is_ok());
    let fault = Template::parse(&once.repeat(20)).unwrap().render(&data).unwrap_err();
    assert_eq!(fault.code, "expression_too_costly");
    let many = JsonTemplate::parse(&Json::of(&vec![once; 20])).unwrap();
    assert_eq!(many.render(&data).unwrap_err().code, "expression_too_costly");
}

#[test]
fn a_failing_expression_fails_the_template() {
    let fault = render("a {{ inputs.zzz }}").unwrap_err();
    assert_eq!(fault.code, "expression_failed");
    assert!(fault.message.contains("there is no `inputs.zzz`"), "{fault}");
}

/// Failing cases are printed in full and shrunk, so nothing is written to disk.
fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) }
}

fn any_template() -> impl Strategy<Value = String> {
    let words = vec![
        "{{",
        "}}",
        "{",
        "}",
        "\"",
        "'",
        "'''",
        "r'",
        "\\",
        "//",
        "\n",
        " ",
        "inputs.name",
        "secrets.A",
        "1",
        "+",
        "☃",
        "{{ inputs.name }}",
        "{{ secrets.A }}",
        "text",
    ];
    prop::collection::vec(prop::sample::select(words), 0..16).prop_map(|words| words.concat())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_text_is_a_template_or_refused(text in "\\PC{0,40}") {
        if let Ok(template) = Template::parse(&text) {
            prop_assert_eq!(template.is_plain(), !text.contains("{{"));
        }
    }

    #[test]
    fn any_template_renders_or_fails(template in any_template()) {
        if let Ok(template) = Template::parse(&template) {
            match template.render(&inputs()) {
                Ok(pieces) => prop_assert!(!pieces.contains(&text(""))),
                Err(fault) => prop_assert_eq!(fault.code, "expression_failed"),
            }
        }
    }

    #[test]
    fn a_rendered_json_template_is_json(templates in prop::collection::vec(any_template(), 0..4)) {
        let rendered = JsonTemplate::parse(&Json::of(&templates)).map(|template| template.render(&inputs()));
        if let Ok(Ok(pieces)) = rendered {
            let filled: String = pieces.iter().map(|piece| match piece {
                Piece::Text(text) => text.as_str(),
                Piece::Secret(_) | Piece::SecretInJson(_) => "hush",
            }).collect();
            prop_assert!(serde_json::from_str::<Vec<serde_json::Value>>(&filled).is_ok(), "{}", filled);
        }
    }
}
