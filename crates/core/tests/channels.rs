//! What a channel may be, and what writes make of its state.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use abide_core::{Channel, Json, Millis, Reducer, limits};
use serde_json::{Value, json};

fn channel(declaration: &Value) -> Channel {
    let mut problems = Vec::new();
    let channel = Channel::parse("channels.c", &Json::of(declaration), &mut problems);
    channel.unwrap_or_else(|| panic!("{problems:?}"))
}

fn problems_of(declaration: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    let channel = Channel::parse("channels.c", &Json::of(declaration), &mut problems);
    assert_eq!(channel.is_none(), !problems.is_empty(), "a channel comes without problems only");
    problems.iter().map(ToString::to_string).collect()
}

/// The state after writes at given times.
fn after(channel: &Channel, writes: &[(Millis, Value)]) -> Value {
    let mut state = None;
    for (at, write) in writes {
        state = Some(channel.reduce(state.as_ref(), &Json::of(write), *at).unwrap());
    }
    state.unwrap().parse().unwrap()
}

/// The state after writes at one time.
fn joined(declaration: &Value, writes: &[Value]) -> Value {
    let writes: Vec<_> = writes.iter().map(|write| (0, write.clone())).collect();
    after(&channel(declaration), &writes)
}

/// Why a write is refused, as `code: sentence`.
fn refused(declaration: &Value, current: Option<Value>, write: &Value) -> String {
    let current = current.map(|current| Json::of(&current));
    match channel(declaration).reduce(current.as_ref(), &Json::of(write), 0) {
        Ok(state) => format!("accepted as {state:?}"),
        Err((code, sentence)) => format!("{code}: {sentence}"),
    }
}

#[test]
fn each_reducer_joins_in_its_own_way() {
    let one_two = [json!(1), json!("two")];
    assert_eq!(joined(&json!({"reducer": "replace"}), &one_two), json!("two"));
    assert_eq!(joined(&json!({"reducer": "append"}), &one_two), json!([1, "two"]));
    let objects = [json!({"a": 1, "b": {"x": 1}}), json!({"b": {"y": 2}, "c": null})];
    assert_eq!(joined(&json!({"reducer": "merge"}), &objects), json!({"a": 1, "b": {"y": 2}, "c": null}));
    assert_eq!(joined(&json!({"reducer": "feedback"}), &objects), json!(objects));
    assert_eq!(joined(&json!({"reducer": "counter"}), &[json!(2), json!(-5)]), json!(-3));
}

#[test]
fn a_vote_replaces_the_former_one_of_its_user() {
    let vote = |user: &str, choice: i32| json!({"choice": choice, "userId": user});
    let state = joined(&json!({"reducer": "votes"}), &[vote("ann", 1), vote("b\"ob", 2), vote("ann", 3)]);
    assert_eq!(state, json!([vote("b\"ob", 2), vote("ann", 3)]));
}

#[test]
fn a_message_that_comes_twice_is_kept_once() {
    let message = |id: &str, text: &str| json!({"messageId": id, "text": text});
    let writes = [message("1", "hello"), message("2", "there"), message("1", "again")];
    assert_eq!(joined(&json!({"reducer": "message", "ttlMs": 5}), &writes), json!(writes[..2]));
}

#[test]
fn writes_that_a_reducer_cannot_join_are_refused() {
    for (reducer, write, sentence) in [
        (
            "merge",
            json!([1]),
            "a write to a channel that merges is an object, not of type array: write an object",
        ),
        ("counter", json!("1"), "a counter takes numbers, not \"1\": write a number"),
        ("feedback", json!("good"), "an entry of feedback is an object, not of type string: write an object"),
        ("votes", json!(["ann"]), "a vote is an object, not of type array: write an object"),
        ("votes", json!({"userId": 1}), "a vote needs a text as userId, once: add it"),
        ("message", json!({"text": "hi"}), "a message needs a text as messageId, once: add it"),
    ] {
        let declaration = json!({"reducer": reducer});
        assert_eq!(refused(&declaration, None, &write), format!("channel_write_invalid: {sentence}"));
    }
}

#[test]
fn a_state_of_another_reducer_is_not_written_over() {
    let counter = json!({"reducer": "counter"});
    assert_eq!(
        refused(&counter, Some(json!([1])), &json!(1)),
        "channel_write_invalid: the channel holds [1], not a number: let all its writers use one reducer and one ttlMs"
    );
    for reducer in ["append", "votes", "feedback", "message"] {
        let write = json!({"userId": "u", "messageId": "m"});
        let message = refused(&json!({"reducer": reducer}), Some(json!({"a": 1})), &write);
        assert!(message.contains("not a list made by this reducer"), "{message}");
    }
    assert!(refused(&json!({"reducer": "merge"}), Some(json!(1)), &json!({})).contains("not an object"));
    let aging = json!({"reducer": "append", "ttlMs": 10});
    assert!(refused(&aging, Some(json!([1])), &json!(1)).contains("one ttlMs"));
}

#[test]
fn counters_stay_exact_and_do_not_wrap() {
    let counter = json!({"reducer": "counter"});
    assert_eq!(joined(&counter, &[json!(i64::MAX - 1), json!(1)]), json!(i64::MAX));
    assert_eq!(joined(&counter, &[json!(i64::MIN), json!(i64::MAX)]), json!(-1));
    assert_eq!(joined(&counter, &[json!(1), json!(0.5)]), json!(1.5));
    for (count, step) in [
        (json!(i64::MAX), json!(1)),
        (json!(i64::MIN), json!(-1)),
        (json!(0), json!(u64::MAX)),
        (json!(f64::MAX), json!(f64::MAX)),
    ] {
        let message = refused(&counter, Some(count), &step);
        assert!(
            message.ends_with("add up to more than a counter holds: write a smaller number"),
            "{message}"
        );
    }
}

#[test]
fn the_oldest_entries_give_way() {
    let two = json!({"reducer": "append", "maxSize": 2});
    assert_eq!(joined(&two, &[json!(1), json!(2), json!(3)]), json!([2, 3]));
    let vote = |user: &str| json!({"userId": user});
    let votes = [vote("a"), vote("b"), vote("a"), vote("c")];
    assert_eq!(joined(&json!({"reducer": "votes", "maxSize": 2}), &votes), json!([vote("a"), vote("c")]));
}

#[test]
fn a_single_value_has_to_fit_its_size() {
    let small = json!({"reducer": "replace", "maxSize": 5});
    assert_eq!(joined(&small, &[json!("abc")]), json!("abc"));
    assert_eq!(
        refused(&small, None, &json!("abcd")),
        "channel_too_large: the channel would hold 6 bytes, more than its 5: write less to it"
    );
    let object = json!({"reducer": "merge", "maxSize": 9});
    assert!(refused(&object, Some(json!({"a": 1})), &json!({"b": 2})).starts_with("channel_too_large"));
}

#[test]
fn no_state_grows_beyond_the_limit() {
    let half = json!("x".repeat(limits::CHANNEL_BYTES_MAX / 2));
    assert!(
        refused(&json!({"reducer": "append"}), Some(json!([half])), &half).starts_with("channel_too_large")
    );
    let whole = json!("x".repeat(limits::CHANNEL_BYTES_MAX));
    for reducer in ["replace", "append"] {
        assert!(refused(&json!({"reducer": reducer}), None, &whole).starts_with("channel_too_large"));
    }
}

#[test]
fn entries_end_with_their_time() {
    let aging = channel(&json!({"reducer": "append", "ttlMs": 100}));
    let entry = |value: i32, at: Millis| json!({"value": value, "_ts": at});
    let state = after(&aging, &[(0, json!(1)), (100, json!(2)), (101, json!(3))]);
    assert_eq!(state, json!([entry(2, 100), entry(3, 101)]));
    let votes = channel(&json!({"reducer": "votes", "ttlMs": 100}));
    let vote = |user: &str| json!({"userId": user});
    let state = after(&votes, &[(0, vote("a")), (50, vote("b")), (60, vote("b")), (120, vote("c"))]);
    assert_eq!(state, json!([{"value": vote("b"), "_ts": 60}, {"value": vote("c"), "_ts": 120}]));
    let latest = channel(&json!({"reducer": "replace", "ttlMs": 100}));
    assert_eq!(after(&latest, &[(0, json!(1))]), json!(1));
    assert_eq!(after(&aging, &[(Millis::MIN, json!(1))]), json!([entry(1, Millis::MIN)]));
}

#[test]
fn a_schema_is_for_what_the_channel_holds() {
    let texts = json!({"reducer": "append", "schema": {"type": "array", "items": {"type": "string"}}});
    assert_eq!(joined(&texts, &[json!("a"), json!("b")]), json!(["a", "b"]));
    assert_eq!(
        refused(&texts, None, &json!(1)),
        "channel_schema_violation: the value does not fit the channel's schema: /0: 1 is not of type \"string\""
    );
    let aging = json!({"reducer": "append", "ttlMs": 5, "schema": {"items": {"type": "string"}}});
    assert_eq!(joined(&aging, &[json!("a")]), json!([{"value": "a", "_ts": 0}]), "times are not its matter");
}

#[test]
fn the_first_write_joins_the_default() {
    assert_eq!(joined(&json!({"reducer": "counter", "default": 10}), &[json!(1)]), json!(11));
    assert_eq!(joined(&json!({"reducer": "append", "default": [0]}), &[json!(1)]), json!([0, 1]));
    let nothing = channel(&json!({"reducer": "replace", "default": null}));
    assert_eq!(nothing.initial().map(Json::text), Some("null"));
    assert_eq!(channel(&json!({"reducer": "replace"})).initial(), None);
}

#[test]
fn access_names_nodes_types_and_families() {
    let open = channel(&json!({"reducer": "replace"}));
    assert!(open.may_read("a", "core.noop") && open.may_write("a", "core.noop"));
    let private = channel(&json!({"reducer": "replace", "access": "private"}));
    assert!(!private.may_write("a", "core.noop") && !private.may_read("a", "core.noop"), "it is nobody's");
    let listed =
        channel(&json!({"reducer": "replace", "access": {"writers": ["a", "core.delay", "vendor.x.*"]}}));
    assert!(listed.may_read("z", "core.noop"));
    for (node, kind, may) in [
        ("a", "core.noop", true),
        ("b", "core.delay", true),
        ("b", "core.delays", false),
        ("b", "vendor.x.tool", true),
        ("b", "vendor.x.tool.more", true),
        ("b", "vendor.xy.tool", false),
        ("b", "vendor.x", false),
        ("vendor.x.node", "core.noop", false),
        ("A", "core.noop", false),
    ] {
        assert_eq!(listed.may_write(node, kind), may, "{node} of {kind}");
    }
    let nobody = channel(&json!({"reducer": "replace", "access": {"readers": [], "writers": ["*"]}}));
    assert!(!nobody.may_read("a", "core.noop") && nobody.may_write("a", "core.noop"));
}

#[test]
fn a_full_declaration_is_read() {
    let full = channel(&json!({
        "reducer": "votes", "schema": {"type": "array"}, "default": [], "maxSize": 10, "ttlMs": 31_536_000_000_i64,
        "options": {"any": 1}, "access": "public", "schemaVersion": 2, "compatibleWith": [1], "sensitive": true,
    }));
    assert_eq!((full.reducer(), full.sensitive()), (Reducer::Votes, true));
    assert_eq!(problems_of(&json!({"reducer": "append", "ttlMs": 0})), [""; 0]);
}

#[test]
fn problems_have_their_place() {
    for (declaration, problem) in [
        (json!({"reducer": "append", "maxSize": 0}), "channels.c.maxSize: it must be 1 or more"),
        (
            json!({"reducer": "append", "ttlMs": -1}),
            "channels.c.ttlMs: -1 is out of range: give 1 to 31536000000, or 0 for no end",
        ),
        (json!({"reducer": "append", "schemaVersion": 0}), "channels.c.schemaVersion: it must be 1 or more"),
        (json!({"reducer": "append", "schema": true}), "channels.c.schema: a schema is an object, not true"),
        (
            json!({"reducer": "append", "schema": {"$ref": "#"}}),
            "channels.c.schema: the $ref # leads back to itself: recursion is not read",
        ),
        (
            json!({"reducer": "vendor.acme.max"}),
            "channels.c.reducer: this server has no reducer vendor.acme.max: use one of replace, append, merge, \
             counter, votes, feedback, message",
        ),
        (
            json!({"reducer": "counter", "default": "0"}),
            "channels.c.default: the reducer counter starts from a value of type number",
        ),
        (
            json!({"reducer": "append", "default": [1, 2], "maxSize": 1}),
            "channels.c.default: it has more entries than maxSize: shorten it",
        ),
        (
            json!({"reducer": "votes", "default": [{}]}),
            "channels.c.default: a vote needs a text as userId, once: add it",
        ),
        (
            json!({"reducer": "append", "default": [1], "ttlMs": 5}),
            "channels.c.default: its entries have no time to age from: leave it empty or remove ttlMs",
        ),
        (
            json!({"reducer": "append", "default": [1], "schema": {"items": {"type": "string"}}}),
            "channels.c.default: the value does not fit the channel's schema: /0: 1 is not of type \"string\"",
        ),
    ] {
        assert_eq!(problems_of(&declaration), [problem]);
    }
}

#[test]
fn the_declaration_is_closed() {
    for (declaration, place) in [
        (json!({"reducer": "append", "extra": 1}), "channels.c.extra: unknown field"),
        (json!({}), "channels.c: missing field `reducer`"),
        (json!(["append"]), "channels.c: invalid type: sequence"),
        (json!({"reducer": "append", "maxSize": -1}), "channels.c.maxSize: invalid value"),
        (json!({"reducer": "append", "sensitive": "yes"}), "channels.c.sensitive: invalid type"),
        (
            json!({"reducer": "append", "access": "secret"}),
            "channels.c.access: write \"public\", \"private\"",
        ),
        (
            json!({"reducer": "append", "access": {"owners": []}}),
            "channels.c.access: write \"public\", \"private\"",
        ),
    ] {
        let problems = problems_of(&declaration);
        assert!(problems.len() == 1 && problems[0].starts_with(place), "{problems:?}");
    }
}

#[test]
fn all_problems_are_told_at_once() {
    let broken =
        json!({"reducer": "sum", "maxSize": 0, "ttlMs": -1, "access": 1, "schema": [], "schemaVersion": 0});
    assert_eq!(problems_of(&broken).len(), 6);
}

#[test]
fn an_undeclared_channel_is_made_by_its_writer() {
    let aging = Channel::undeclared("append", Some(100)).unwrap();
    assert_eq!(after(&aging, &[(7, json!(1))]), json!([{"value": 1, "_ts": 7}]));
    let counter = Channel::undeclared("counter", Some(0)).unwrap();
    assert_eq!(after(&counter, &[(0, json!(1)), (0, json!(1))]), json!(2));
    assert!(counter.may_write("any", "core.noop") && !counter.sensitive());
    assert!(Channel::undeclared("sum", None).unwrap_err().starts_with("this server has no reducer sum"));
    assert!(Channel::undeclared("append", Some(-1)).unwrap_err().starts_with("-1 is out of range"));
}

/// A list is carried as text: ten thousand entries are joined without a value being built for any of them.
#[test]
fn long_lists_keep_their_text() {
    let list: Vec<Value> = (0..10_000).map(|id| json!({"userId": format!("u{id}")})).collect();
    let current = Json::of(&list);
    for reducer in ["append", "votes", "message"] {
        let channel = channel(&json!({"reducer": reducer}));
        let write = Json::of(&json!({"userId": "u5", "messageId": "m"}));
        let state: Vec<Value> = channel.reduce(Some(&current), &write, 0).unwrap().parse().unwrap();
        assert_eq!(state.len(), if reducer == "votes" { 10_000 } else { 10_001 });
    }
}
