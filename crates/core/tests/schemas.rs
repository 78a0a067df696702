//! What a JSON Schema may be here, and what it says about a value.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use abide_core::{Json, Schema, limits};
use serde_json::{Value, json};

fn schema(schema: &Value) -> Schema {
    Schema::compile(&Json::of(schema)).unwrap()
}

/// Why a schema is refused.
fn refused(schema: &Value) -> String {
    Schema::compile(&Json::of(schema)).err().unwrap_or_else(|| "accepted".to_owned())
}

/// The errors of a value, as `path: message`.
fn errors(schema: &Schema, value: &Value) -> Vec<String> {
    let errors = schema.check(&Json::of(value)).err().unwrap_or_default();
    errors.iter().map(ToString::to_string).collect()
}

/// A schema whose definitions each name the next one `width` times.
fn chain(links: usize, width: usize) -> Value {
    let mut definitions = serde_json::Map::new();
    for link in 0..links {
        let next = json!({"$ref": format!("#/$defs/d{}", link + 1)});
        definitions.insert(format!("d{link}"), json!({"allOf": vec![next; width]}));
    }
    definitions.insert(format!("d{links}"), json!({"type": "integer"}));
    json!({"$ref": "#/$defs/d0", "$defs": definitions})
}

#[test]
fn a_value_that_fits_passes_and_others_are_told_where_and_why() {
    let order = schema(&json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "required": ["id"],
        "properties": {
            "id": {"type": "string", "pattern": "^o-[0-9]+$"},
            "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
        },
        "additionalProperties": false,
        "$defs": {"line": {"type": "object", "properties": {"count": {"type": "integer", "minimum": 1}}}},
    }));
    assert_eq!(errors(&order, &json!({"id": "o-1", "lines": [{"count": 2}]})), [""; 0]);
    assert_eq!(
        errors(&order, &json!({"id": "1", "lines": [{"count": 0}, {"count": "x"}]})),
        [
            r#"/id: "1" does not match "^o-[0-9]+$""#,
            "/lines/0/count: 0 is less than the minimum of 1",
            r#"/lines/1/count: "x" is not of type "integer""#,
        ]
    );
    assert_eq!(
        errors(&order, &json!({"extra": 1})),
        ["Additional properties are not allowed ('extra' was unexpected)", r#""id" is a required property"#,]
    );
}

#[test]
fn a_format_is_a_note_and_nothing_more() {
    assert_eq!(errors(&schema(&json!({"format": "email"})), &json!("nobody")), [""; 0]);
}

#[test]
fn boolean_schemas_are_read() {
    assert_eq!(errors(&schema(&json!(true)), &json!(1)), [""; 0]);
    assert_eq!(errors(&schema(&json!(false)), &json!(1)).len(), 1);
}

#[test]
fn a_report_has_twenty_short_errors_at_the_most() {
    let texts = schema(&json!({"items": {"type": "string"}}));
    let found = errors(&texts, &json!(vec![0; 500]));
    assert_eq!(found.len(), 20);
    assert!(found[0].starts_with("/0: 0 is not of type"), "{}", found[0]);
    let long = errors(&schema(&json!({"type": "integer"})), &json!("x".repeat(10_000)));
    assert!(long[0].len() < 120 && long[0].ends_with(r#"… is not of type "integer""#), "{}", long[0]);
    let names = schema(&json!({"additionalProperties": false}));
    let value: Value =
        (0..1_000).map(|key| (format!("key{key}"), json!(1))).collect::<serde_json::Map<_, _>>().into();
    assert!(errors(&names, &value)[0].len() < 250);
}

#[test]
fn properties_may_be_named_like_keywords() {
    let named = schema(&json!({"properties": {"$ref": {"type": "string"}, "$id": {"type": "string"}}}));
    assert_eq!(errors(&named, &json!({"$ref": 1})).len(), 1);
    assert_eq!(errors(&schema(&json!({"const": {"$ref": "http://example.com"}})), &json!(1)).len(), 1);
}

#[test]
fn references_stay_inside_of_the_schema() {
    for reference in ["http://example.com/a.json", "file:///etc/passwd", "other.json", "#anchor", "//x", ""] {
        let message = refused(&json!({"properties": {"a": {"$ref": reference}}}));
        assert!(
            message.contains("leads out of the schema: copy its target to $defs"),
            "{reference}: {message}"
        );
    }
    assert_eq!(
        refused(&json!({"$ref": "#/$defs/x"})),
        "the $ref #/$defs/x names nothing in the schema: correct it"
    );
    assert!(refused(&json!({"$ref": "#/$defs/a%20b", "$defs": {"a b": {}}})).contains("plain name"));
    assert!(refused(&json!({"items": {"$id": "http://example.com/", "$ref": "#/x"}})).contains("remove it"));
    for keyword in ["$dynamicRef", "$recursiveRef", "$dynamicAnchor"] {
        assert!(refused(&json!({"items": {keyword: "#x"}})).starts_with(&format!("{keyword} is not read")));
    }
}

#[test]
fn recursion_is_refused() {
    let tree = json!({"$defs": {"node": {"properties": {"child": {"$ref": "#/$defs/node"}}}}, "$ref": "#/$defs/node"});
    let ring = json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}});
    for recursive in [json!({"$ref": "#"}), json!({"items": {"$ref": "#"}}), tree, ring] {
        assert!(refused(&recursive).ends_with("leads back to itself: recursion is not read"), "{recursive}");
    }
}

#[test]
fn references_that_multiply_are_refused_before_they_do() {
    assert_eq!(errors(&schema(&chain(5, 2)), &json!("x")).len(), 20);
    assert_eq!(
        refused(&chain(20, 2)),
        "the schema has more than 10000 values with its $refs written out: simplify it"
    );
    assert!(refused(&chain(4, 100)).contains("10000 values"));
}

#[test]
fn nesting_is_bounded_with_references_followed() {
    let nested = |depth: usize| (0..depth).fold(json!({}), |inner, _| json!({"not": inner}));
    assert_eq!(refused(&nested(60)), "accepted");
    assert!(refused(&nested(70)).contains("nested deeper than 64 levels"));
    assert!(refused(&chain(400, 1)).contains("nested deeper than 64 levels"));
    let text = format!("{}{{}}{}", r#"{"not":"#.repeat(2_000), "}".repeat(2_000));
    let deep: Result<Json, _> = serde_json::from_str(&text);
    let message = deep.map(|deep| Schema::compile(&deep).unwrap_err());
    assert!(message.is_err() || message.is_ok_and(|message| message.contains("recursion limit")));
}

#[test]
fn depth_counts_through_a_definition_that_was_measured_before() {
    let deep = (0..40).fold(json!({}), |inner, _| json!({"not": inner}));
    let user = (0..40).fold(json!({"$ref": "#/$defs/deep"}), |inner, _| json!({"not": inner}));
    assert!(
        refused(&json!({"$defs": {"deep": deep}, "items": user})).contains("nested deeper than 64 levels")
    );
}

#[test]
fn patterns_are_matched_in_linear_time_or_refused() {
    let bomb = schema(&json!({"pattern": "^(a+)+$"}));
    assert_eq!(errors(&bomb, &json!(format!("{}!", "a".repeat(100_000)))).len(), 1);
    for pattern in ["(((a{1,100}){1,100}){1,100})", r"(\w{1,1000}){1,1000}", "(?=a)b", r"(a)\1", "["] {
        for schema in [json!({"pattern": pattern}), json!({"patternProperties": {pattern: true}})] {
            assert!(refused(&schema).contains("is not a pattern that is read here"), "{}", refused(&schema));
        }
    }
}

#[test]
fn schemas_too_large_to_keep_are_refused() {
    let options: Vec<usize> = (0..9_000).collect();
    assert_eq!(refused(&json!({"enum": options})), "accepted");
    let options: Vec<usize> = (0..10_001).collect();
    assert!(refused(&json!({"enum": options})).contains("more than 10000 values"));
    let long = "x".repeat(limits::SCHEMA_BYTES_MAX);
    assert_eq!(refused(&json!({"title": long})), "the schema is longer than 65536 bytes: make it shorter");
}

#[test]
fn numbers_beyond_all_bounds_are_refused() {
    let endless: Json = serde_json::from_str(r#"{"minItems": 1e400}"#).unwrap();
    assert!(Schema::compile(&endless).unwrap_err().contains("number out of range"));
    assert!(refused(&json!({"minItems": -1})).starts_with("the schema is not valid: at /minItems"));
    assert_eq!(errors(&schema(&json!({"minItems": 1e300})), &json!([])).len(), 1);
}

#[test]
fn other_dialects_and_shapes_are_refused() {
    for dialect in ["http://json-schema.org/draft-07/schema#", "https://example.com/own", ""] {
        assert!(refused(&json!({"$schema": dialect})).contains("is not read: write https://json-schema.org"));
    }
    for shape in
        [json!(1), json!("x"), json!([]), json!(null), json!({"type": "text"}), json!({"required": 1})]
    {
        assert!(refused(&shape).starts_with("the schema is not valid"), "{shape}: {}", refused(&shape));
    }
}

#[test]
fn a_check_that_would_take_too_long_is_not_begun() {
    let wide = schema(&json!({"items": {"allOf": vec![json!({"minimum": 0}); 4_000]}}));
    assert_eq!(errors(&wide, &json!(vec![1; 1_000])), [""; 0]);
    assert_eq!(
        errors(&wide, &json!(vec![1; 500_000])),
        ["the value is too large for a schema of this size: shorten one of them"]
    );
}

#[test]
fn a_large_value_is_not_copied_into_the_errors_of_each_alternative() {
    let alternatives = schema(&json!({"anyOf": vec![json!({"type": "string"}); 500]}));
    let large = json!(vec!["x".repeat(100); 5_000]);
    assert_eq!(errors(&alternatives, &large), ["it does not fit the schema, and is too large to say where"]);
    assert_eq!(
        errors(&alternatives, &json!(1)),
        ["1 is not valid under any of the schemas listed in the 'anyOf' keyword"]
    );
    let together = schema(&json!({"allOf": vec![json!({"type": "array"}); 500], "maxItems": 10}));
    let found = errors(&together, &large);
    assert!(found.len() == 1 && found[0].ends_with("has more than 10 items"), "{found:?}");
}
