//! What expressions mean, what they refuse, and that no expression costs more than its fuel.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::cell::Cell;

use abide_core::{Expression, Failure, Fault, Fuel, Json, JsonMap, Scope, limits};
use proptest::prelude::*;

/// Roots with their fields, and how often they were asked.
struct Data {
    roots: Vec<(&'static str, JsonMap)>,
    asked: Cell<usize>,
}

impl Scope for Data {
    fn get(&self, root: &str, field: Option<&str>) -> Option<Json> {
        self.asked.set(self.asked.get() + 1);
        let (_, fields) = self.roots.iter().find(|(name, _)| *name == root)?;
        match field {
            Some(field) => fields.get(field).cloned(),
            None => Some(Json::of(fields)),
        }
    }

    fn knows(&self, root: &str) -> bool {
        self.roots.iter().any(|(name, _)| *name == root)
    }
}

fn data(variables: &str) -> Data {
    let variables = serde_json::from_str(variables).unwrap();
    let output = serde_json::from_str(r#"{"ok": true}"#).unwrap();
    Data { roots: vec![("variables", variables), ("output", output)], asked: Cell::new(0) }
}

/// One run's variables, for the tables below.
fn order() -> Data {
    data(
        r#"{
            "n": 7, "price": 9.5, "big": 12345678901234567890, "minus": -3, "name": "Ada", "nothing": null, "yes": true,
            "items": [{"sku": "a", "count": 2}, {"sku": "b", "count": 5}], "numbers": [3, 1, 2], "empty": [],
            "by-id": {"x-1": {"state": "done"}}, "text": "äöü and ☃"
        }"#,
    )
}

fn evaluate(source: &str, scope: &dyn Scope) -> Result<String, Fault> {
    let expression = Expression::parse(source).unwrap_or_else(|error| panic!("{source}: {error}"));
    expression.evaluate(scope).map(|json| json.text().to_owned())
}

fn gives(table: &[(&str, &str)]) {
    let order = order();
    for (source, expected) in table {
        let result = evaluate(source, &order).unwrap_or_else(|fault| panic!("{source}: {fault}"));
        assert_eq!(result, *expected, "{source}");
    }
}

/// Each expression parses, fails on the data, and says so with these words.
fn fails(table: &[(&str, &str)]) {
    let order = order();
    for (source, words) in table {
        let fault = evaluate(source, &order).expect_err(source);
        assert_eq!(fault.code, "expression_failed", "{source}");
        assert!(fault.message.contains(words), "{source}: {}", fault.message);
    }
}

/// Each expression is refused when it is parsed, with these words.
fn refused(table: &[(&str, &str)]) {
    for (source, words) in table {
        let error = Expression::parse(source).expect_err(source);
        assert!(error.contains(words), "{source}: {error}");
    }
}

#[test]
fn literals_are_values() {
    gives(&[
        ("1", "1"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("18446744073709551615u", "18446744073709551615"),
        ("0x1F", "31"),
        ("1.5", "1.5"),
        ("2.0", "2.0"),
        ("-0.0", "-0.0"),
        ("true", "true"),
        ("null", "null"),
        (r#""a\n\u00e4\"""#, r#""a\nä\"""#),
        (r"r'\d'", r#""\\d""#),
        ("[1, 'a', [null]]", r#"[1,"a",[null]]"#),
        ("{'b': 1, 'a': {'c': []}}", r#"{"a":{"c":[]},"b":1}"#),
        ("{2: 'x', true: 'y', 10u: 'z'}", r#"{"10":"z","2":"x","true":"y"}"#),
    ]);
}

#[test]
fn numbers_of_all_types_compare_by_their_value() {
    gives(&[
        ("1 == 1.0", "true"),
        ("1u == 1", "true"),
        ("2 < 2.5", "true"),
        ("-1 < 1u", "true"),
        ("9223372036854775807 == 9223372036854775808.0", "false"),
        ("9223372036854775807 < 9223372036854775808.0", "true"),
        ("-1.5 < -1", "true"),
        ("-2 < -1.5", "true"),
        ("9007199254740993 > 9007199254740992.0", "true"),
        ("0.0/0.0 == 0.0/0.0", "false"),
        ("0.0/0.0 < 1.0", "false"),
        ("1 < 1.0/0.0", "true"),
        ("1 > -1.0/0.0", "true"),
        ("[1, 2.0] == [1.0, 2]", "true"),
        ("{'a': 1} == {'a': 1.0}", "true"),
        ("{1: 'a'}[1u]", r#""a""#),
        ("{1: 'a'}[1.0]", r#""a""#),
        ("'1' == 1", "false"),
        ("null == false", "false"),
        ("null == null", "true"),
        ("variables.nothing != null", "false"),
        ("'a' < 'b'", "true"),
        ("false < true", "true"),
        ("variables.big == 12345678901234567890.0", "true"),
    ]);
    fails(&[("1 < 'a'", "have no order"), ("[1] < [2]", "have no order"), ("null < null", "have no order")]);
}

#[test]
fn arithmetic_is_exact_or_fails() {
    gives(&[
        ("7 / 2", "3"),
        ("-7 / 2", "-3"),
        ("-7 % 3", "-1"),
        ("7.0 / 2.0", "3.5"),
        ("1 + 2 * 3 - 4", "3"),
        ("variables.price * 2", "19.0"),
        ("variables.n * 0.5", "3.5"),
        ("2u * 3u", "6"),
        ("-variables.n", "-7"),
        ("---1", "-1"),
        ("'a' + 'b'", r#""ab""#),
        ("[1] + [2, 3]", "[1,2,3]"),
        ("0.1 + 0.2", "0.30000000000000004"),
    ]);
    fails(&[
        ("9223372036854775807 + 1", "outside the range of int"),
        ("-9223372036854775808 - 1", "outside the range of int"),
        ("9223372036854775807 * 2", "outside the range of int"),
        ("-9223372036854775808 / -1", "outside the range of int"),
        ("-9223372036854775808 % -1", "outside the range of int"),
        ("-(-9223372036854775808)", "outside the range of int"),
        ("1u - 2u", "outside the range of uint"),
        ("1 / 0", "is zero"),
        ("1 % 0", "is zero"),
        ("1u / 0u", "is zero"),
        ("1.5 % 2.0", "whole numbers"),
        ("1.0 / 0.0", "JSON can't express"),
        ("[0.0 / 0.0]", "JSON can't express"),
        ("1 + 'a'", "int + string has no meaning"),
        ("1 + 1u", "int + uint has no meaning"),
        ("-'a'", "needs an int or a double"),
    ]);
}

#[test]
fn logic_absorbs_failures_on_either_side() {
    gives(&[
        ("false && 1/0 == 1", "false"),
        ("1/0 == 1 && false", "false"),
        ("true || variables.missing", "true"),
        ("variables.missing || true", "true"),
        ("'text' || true", "true"),
        ("true ? 1 : 1/0", "1"),
        ("false ? 1/0 : 2", "2"),
        ("!variables.yes", "false"),
        ("[1, 0].exists(x, 1 / x == 1)", "true"),
        ("[0, 1].exists(x, 1 / x == 1)", "true"),
        ("[0, 2].all(x, 1 / x == 1)", "false"),
    ]);
    fails(&[
        ("true && 1/0 == 1", "is zero"),
        ("1/0 == 1 || false", "is zero"),
        ("true && 'text'", "a condition is a bool, not string"),
        ("1 ? 2 : 3", "a condition is a bool, not int"),
        ("!1", "a condition is a bool"),
        ("[0, 1].all(x, 1 / x == 1)", "is zero"),
        ("[0, 1].map(x, 1 / x)", "is zero"),
        ("[1].filter(x, x)", "a condition is a bool"),
    ]);
}

#[test]
fn fields_and_elements_are_selected() {
    gives(&[
        ("variables.items[1].sku", r#""b""#),
        ("variables.items[0]['count']", "2"),
        (r#"variables["by-id"]["x-1"].state"#, r#""done""#),
        ("variables['n']", "7"),
        ("output.ok", "true"),
        ("{'a': {'b': 3}}.a.b", "3"),
        ("2 in variables.numbers", "true"),
        ("2.0 in variables.numbers", "true"),
        ("'n' in variables", "true"),
        ("'zzz' in variables", "false"),
        ("null in variables", "false"),
        ("has(variables.n)", "true"),
        ("has(variables.zzz)", "false"),
        ("has(variables.nothing)", "true"),
        ("has(variables.items[0].sku)", "true"),
        ("has(variables.items[0].zzz)", "false"),
    ]);
    fails(&[
        ("variables.zzz", "there is no `variables.zzz`; ask with has(variables.zzz)"),
        ("variables['z-z']", "there is no `variables[\"z-z\"]`"),
        ("variables.items[0].zzz", "there is no key 'zzz'"),
        ("variables.name.first", "there is no key 'first' in string"),
        ("has(variables.zzz.b)", "there is no `variables.zzz`"),
        ("variables.items[2]", "there is no element 2 in a list of 2"),
        ("variables.items[-1]", "there is no element -1"),
        ("variables.items['a']", "an index of a list is a whole number"),
        ("variables[variables.name]", "there is no key 'Ada'"),
        ("variables.n[0]", "int has no elements"),
        ("'a' in 'abc'", "text.contains"),
        ("1 in 2", "in looks into lists and maps"),
        ("nodes.a", "there is no 'nodes' here"),
        ("{'a': 1, 'a': 2}", "the key 'a' stands twice"),
        ("{null: 1}", "a key is a string"),
        ("{1: 'a', '1': 'b'}", "both written '1'"),
    ]);
}

#[test]
fn macros_loop_over_lists_and_keys() {
    gives(&[
        ("variables.items.all(i, i.count > 1)", "true"),
        ("variables.items.exists(i, i.count == 5)", "true"),
        ("variables.numbers.exists_one(n, n > 2)", "true"),
        ("variables.numbers.exists_one(n, n > 1)", "false"),
        ("variables.items.map(i, i.sku)", r#"["a","b"]"#),
        ("variables.items.map(i, i.count > 2, i.sku)", r#"["b"]"#),
        ("variables.numbers.filter(n, n != 1)", "[3,2]"),
        ("variables.empty.all(x, x.nonsense)", "true"),
        ("variables.empty.exists(x, true)", "false"),
        ("{'b': 1, 'a': 2}.map(k, k)", r#"["a","b"]"#),
        ("[[1, 2], [3]].map(row, row.map(x, x * size(row)))", "[[2,4],[3]]"),
        ("[1, 2].map(x, [10].map(x, x))", "[[10],[10]]"),
        ("[1, 2].map(x, x + 1).filter(x, x > 2)", "[3]"),
        ("[1].map(variables, variables)", "[1]"),
        ("[3, 4].map(x, [1, 2].exists(y, x == y + 2))", "[true,true]"),
        ("[1, 2].all(a, [1].all(b, [1].all(c, [1].all(d, a + b + c + d > 0))))", "true"),
    ]);
    fails(&[("1.map(x, x)", "a macro loops over a list or a map")]);
}

#[test]
fn functions_do_what_they_say() {
    gives(&[
        ("size('äöü')", "3"),
        ("variables.items.size()", "2"),
        ("size({'a': 1})", "1"),
        ("variables.text.contains('☃')", "true"),
        ("'abc'.startsWith('ab') && 'abc'.endsWith('bc')", "true"),
        ("'foobar'.matches('o+b')", "true"),
        ("matches('foobar', '^o')", "false"),
        ("'foobar'.matches('o' + '+b')", "true"),
        ("int(3.9) + int('-4') + int(2u)", "1"),
        ("double('1e3')", "1000.0"),
        ("double(7)", "7.0"),
        ("uint(7)", "7"),
        ("string(1.0) + string(2) + string(true) + string(1e300)", r#""12true1e300""#),
        ("bool('true') && !bool('F')", "true"),
        ("min(variables.numbers)", "1"),
        ("max(3, 2.5, 1u)", "3"),
        ("max('a', 'b')", r#""b""#),
        ("' Ada '.trim().lowerAscii() + 'ß'.upperAscii()", r#""adaß""#),
        ("'a,b,c'.split(',')", r#"["a","b","c"]"#),
        ("'a,b,c'.split(',', 2)", r#"["a","b,c"]"#),
        ("'a,b,c'.split(',', 0)", "[]"),
        ("'a,b,c'.split(',', -1)", r#"["a","b","c"]"#),
        ("'äbc'.split('')", r#"["ä","b","c"]"#),
        ("'äbc'.split('', 2)", r#"["ä","bc"]"#),
        ("['a', 'b'].join('-') + ['c'].join()", r#""a-bc""#),
        ("'aaa'.replace('a', 'bb')", r#""bbbbbb""#),
        ("'aaa'.replace('a', 'b', 1)", r#""baa""#),
        ("'äöüx'.substring(1, 3)", r#""öü""#),
        ("'äöü'.substring(3)", r#""""#),
        ("'äöü'.charAt(1)", r#""ö""#),
        ("'äöü'.charAt(3)", r#""""#),
        ("'äöüö'.indexOf('ö')", "1"),
        ("'äöüö'.indexOf('ö', 2)", "3"),
        ("'abc'.indexOf('x')", "-1"),
    ]);
    fails(&[
        ("size(1)", "size needs a string"),
        ("variables.n.contains('a')", "contains needs a string, not int"),
        ("int('4x')", "can't read '4x'"),
        ("int(1e30)", "outside its range"),
        ("int(0.0/0.0)", "outside its range"),
        ("uint(-1)", "outside its range"),
        ("int(true)", "takes no bool"),
        ("string([])", "string() takes no list"),
        ("bool('maybe')", "can't read 'maybe'"),
        ("min([])", "empty list"),
        ("min(1, 'a')", "have no order"),
        ("max([null])", "have no order"),
        ("'abc'.substring(2, 1)", "substring can't start at 2"),
        ("'abc'.substring(4)", "no position 4 in 3"),
        ("'abc'.charAt(-1)", "no position -1"),
        ("[1].join()", "join needs a string, not int"),
        ("'a'.matches('(' + 'a')", "is not usable"),
    ]);
}

#[test]
fn what_is_always_wrong_is_refused_before_it_runs() {
    refused(&[
        ("", "column"),
        ("1 +", "column 4"),
        ("1 + + 2", "column 5"),
        ("(1", "column 3"),
        ("'abc", "column 1"),
        ("a b", "column 3"),
        ("true &&\n  frobnicate(1)", "there is no function frobnicate(); known are all, bool, charAt"),
        ("true &&\n  frobnicate(1)", "(line 2, column 13)"),
        ("size()", "size is called as size(...) with 1 argument or value.size(...) with no argument"),
        ("contains('a', 'b')", "value.contains(...)"),
        ("'a'.replace('b')", "2 to 3 arguments"),
        ("[1].all(x)", "list.all(x, condition)"),
        ("[1].map(1, 2)", "simple name"),
        ("has(a)", "has()"),
        ("timestamp('2024-01-01T00:00:00Z')", "no clock in expressions"),
        ("duration('1s')", "no clock in expressions"),
        ("now()", "no clock in expressions"),
        ("type(1)", "can't ask for types"),
        ("b'abc'", "no bytes"),
        ("a.?b", "unsupported syntax"),
        ("[?a]", "unsupported syntax"),
        ("Message{a: 1}", "write a map"),
        (".variables", "without the dot"),
        ("secrets.KEY", "{{ secrets.NAME }}"),
        ("[1].map(secrets, 2)", "plain name"),
        ("'a'.matches('(')", "the regular expression '(' is not usable: unclosed group"),
        ("'a'.matches('a{1000}{1000}{1000}')", "too large when compiled"),
        ("'a'.matches('(?=a)')", "look-around"),
        ("9223372036854775808", "invalid int literal"),
        ("1e999", "invalid double literal"),
        ("[1].all(a, [1].all(b, [1].all(c, [1].all(d, [1].all(e, true)))))", "more than 4 deep"),
    ]);
}

#[test]
fn a_condition_gives_a_bool() {
    let order = order();
    let holds = |source: &str| Expression::parse(source).unwrap().holds(&order);
    assert_eq!(holds("variables.n > 5"), Ok(true));
    assert_eq!(holds("variables.n < 5"), Ok(false));
    let fault = holds("variables.n").unwrap_err();
    assert_eq!(fault.message, "in `variables.n`: a condition has to give a bool, this one gives int");
    let failure = Failure::from(fault);
    assert_eq!(failure.code, "expression_failed");
}

#[test]
fn an_expression_tells_what_it_reads() {
    let reads = |source: &str| -> Vec<String> {
        let expression = Expression::parse(source).unwrap();
        let name = |(root, field): &(String, Option<String>)| match field {
            Some(field) => format!("{root}.{field}"),
            None => root.clone(),
        };
        expression.reads().iter().map(name).collect()
    };
    assert_eq!(reads("nodes.b.outputs.x + nodes['a-1'].outputs + nodes.b.status"), ["nodes.a-1", "nodes.b"]);
    assert_eq!(reads("variables[variables.key]"), ["variables", "variables.key"]);
    assert_eq!(
        reads("has(variables.a) ? size(variables) : output[0]"),
        ["output", "variables", "variables.a"]
    );
    assert_eq!(reads("variables.list.map(x, x.name + y.name)"), ["variables.list", "y.name"]);
    assert_eq!(reads("x.map(x, x).all(z, z == x)"), ["x"]);
    assert_eq!(reads("1 + 2"), Vec::<String>::new());
}

#[test]
fn the_scope_is_asked_once_for_what_is_read_and_never_for_the_rest() {
    let order = order();
    assert_eq!(evaluate("variables.numbers.map(n, n + variables.n)", &order).unwrap(), "[10,8,9]");
    assert_eq!(order.asked.get(), 2);
    assert_eq!(evaluate("variables.numbers.all(n, has(variables.zzz)) || true", &order).unwrap(), "true");
    assert_eq!(order.asked.get(), 4);
    assert_eq!(evaluate("true || variables.n == 1", &order).unwrap(), "true");
    assert_eq!(order.asked.get(), 4);
}

#[test]
fn values_that_cannot_be_read_are_faults() {
    let nested = format!("{{\"deep\": {}{}, \"huge\": 1e999}}", "[".repeat(200), "]".repeat(200));
    let data = data(&nested);
    let fault = evaluate("variables.deep", &data).unwrap_err();
    assert!(fault.message.contains("the value of `variables.deep` can't be read"), "{fault}");
    let fault = evaluate("variables.huge", &data).unwrap_err();
    assert!(fault.message.contains("can't be read"), "{fault}");
}

#[test]
fn a_result_can_always_be_read_back() {
    let levels = |count: usize| data(&format!("{{\"deep\": {}{}}}", "[".repeat(count), "]".repeat(count)));
    assert!(evaluate("variables.deep", &levels(limits::EXPRESSION_RESULT_DEPTH_MAX)).is_ok());
    let fault = evaluate("[variables.deep]", &levels(limits::EXPRESSION_RESULT_DEPTH_MAX)).unwrap_err();
    assert!(fault.message.contains("100 levels deep"), "{fault}");
}

#[test]
fn what_is_nested_too_deeply_is_refused_without_being_parsed() {
    let closed =
        |open: &str, close: &str, times: usize| format!("{}1{}", open.repeat(times), close.repeat(times));
    for source in [
        "(".repeat(4096),
        "[".repeat(4096),
        "{1:".repeat(1000),
        "!".repeat(4096),
        "-".repeat(4096),
        "a?b:".repeat(1000),
        "a ? ".repeat(1000),
        "a.".repeat(2000),
        "1+".repeat(2000),
        "a[0]".repeat(1000),
        "f(".repeat(2000),
        "size(".repeat(800),
        format!("{}\"a\"", "\"a\" == ".repeat(400)),
        closed("(", ")", 32),
        closed("1 + (", ")", 32),
        format!("[{}1]", "1, ".repeat(1200)),
        "1".repeat(4097),
    ] {
        assert!(Expression::parse(&source).is_err(), "{source}");
    }
    for source in [
        closed("(", ")", 31),
        closed("[", "]", 31),
        closed("{1:", "}", 31),
        format!("{}1", "a ? b : ".repeat(31)),
        format!("{}1", "1 + ".repeat(98)),
        format!("{}a", "a.".repeat(98)),
        format!("{}a", "a && ".repeat(400)),
        format!("{}true", "!".repeat(99)),
        format!("[{}1]", "a ? b : c, ".repeat(150)),
        format!("'{}'", "(".repeat(4000)),
    ] {
        Expression::parse(&source).unwrap_or_else(|error| panic!("{source}: {error}"));
    }
}

#[test]
fn the_deepest_expression_that_parses_evaluates() {
    let order = order();
    let sum = format!("{}1", "1 + ".repeat(90));
    assert_eq!(evaluate(&sum, &order).unwrap(), "91");
    let sum = format!("{}1{}", "1 + (".repeat(31), ")".repeat(31));
    assert_eq!(evaluate(&sum, &order).unwrap(), "32");
}

/// A hundred thousand numbers, some strings of many sizes, and a pattern from data.
fn flood() -> Data {
    let mut variables = JsonMap::new();
    variables.insert("list".into(), Json::of(&vec![1; 100_000]));
    variables.insert("words".into(), Json::of(&vec!["word"; 10_000]));
    variables.insert("text".into(), Json::of(&"a".repeat(200_000)));
    variables.insert("huge".into(), Json::of(&"a".repeat(20_000_000)));
    variables.insert("flat".into(), Json::of(&vec![0; 4_000_000]));
    variables.insert("pattern".into(), Json::of("(a+)+$"));
    Data { roots: vec![("variables", variables)], asked: Cell::new(0) }
}

#[test]
fn hostile_expressions_run_out_of_fuel() {
    let flood = flood();
    let doubling = format!("variables.text{}", ".replace('a', 'aa')".repeat(20));
    let joined = format!("variables.words{}", ".map(w, variables.words.join())".repeat(2));
    for source in [
        "variables.list.all(a, variables.list.all(b, a == b))",
        "variables.list.all(a, variables.list.all(b, variables.list.all(c, variables.list.all(d, true))))",
        "variables.list.map(a, variables.list)",
        "variables.list.map(a, variables.list.map(b, [a, b]))",
        "variables.list.exists(a, a.missing)",
        "variables.list.exists(a, variables.missing == a)",
        "variables.list.all(a, variables.text.contains('b') == false)",
        "variables.list.all(a, variables.text == variables.text)",
        "variables.list.all(a, variables.text < variables.text + 'a')",
        "variables.list.all(a, size(variables.text) > 0)",
        "variables.list.all(a, 'a'.matches(variables.pattern))",
        "variables.list.all(a, variables.list == variables.list)",
        "variables.list.all(a, !(2 in variables.list))",
        "variables.list.all(a, max(variables.list) == 1)",
        "variables.list.all(a, variables.words.join(',').split(',').size() > 0)",
        "variables.text.matches('(a?){500}b')",
        "variables.text.matches('(a|aa|aaa|aaaa)*b')",
        "variables.text.split('').map(c, variables.text)",
        "variables.text.replace('', variables.text)",
        "variables.huge",
        "variables.flat",
        "[variables.text, variables.text, variables.text].map(t, t + t + t + t + t + t + t + t + t + t)",
        "false && variables.list.all(a, variables.list.all(b, true)) || variables.list.all(a, variables.list.all(b, true)) || true",
        &doubling,
        &joined,
    ] {
        let mut fuel = Fuel::full();
        let result = Expression::parse(source).unwrap().evaluate_within(&flood, &mut fuel);
        assert_eq!(result.expect_err(source).code, "expression_too_costly", "{source}");
        assert_eq!(fuel.left(), 0, "{source}");
    }
}

#[test]
fn honest_work_on_much_data_fits_into_the_fuel() {
    let flood = flood();
    for source in [
        "variables.list.all(a, a >= 0)",
        "variables.list.map(a, a + 1).size() == 100000",
        "variables.words.filter(w, w.startsWith('w') && w.size() == 4).size() == 10000",
        "variables.words.all(w, w.matches('^[a-z]+$'))",
        "variables.words.join(', ').size() == 59998",
        "variables.text.matches('(a+)+$')",
    ] {
        assert_eq!(Expression::parse(source).unwrap().holds(&flood), Ok(true), "{source}");
    }
}

#[test]
fn fuel_counts_work_not_time() {
    let spent = |source: &str| {
        let mut fuel = Fuel::full();
        Expression::parse(source).unwrap().evaluate_within(&order(), &mut fuel).unwrap();
        limits::EXPRESSION_FUEL_MAX - fuel.left()
    };
    assert_eq!(spent("1 + 1"), 4, "three terms and the result");
    assert_eq!(spent("1 + 1"), spent("2 + 2"));
    assert!(spent("[1, 2, 3].all(x, x > 0)") > spent("[1].all(x, x > 0)"));
    assert!(spent("[0, 2, 3].all(x, x > 0)") < spent("[1, 2, 3].all(x, x > 0)"), "false ends the loop");
}

#[test]
fn the_dearest_reading_is_of_the_whole_tank() {
    let mut fuel = Fuel::full();
    let expression = Expression::parse("variables.n").unwrap();
    while expression.evaluate_within(&order(), &mut fuel).is_ok() {}
    assert_eq!(fuel.left(), 0);
    let fault = expression.evaluate_within(&order(), &mut fuel).unwrap_err();
    assert_eq!(fault.code, "expression_too_costly");
    assert!(fault.message.contains("1500000 steps"), "{fault}");
}

/// Failing cases are printed in full and shrunk, so nothing is written to disk.
fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) }
}

/// JSON values, some of them hostile.
fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        (-3..4_i64).prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        "[a-c☃]{0,4}".prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
            prop::collection::btree_map("[a-c]", inner, 0..4)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Expressions that parse, of all kinds, mostly with the wrong types.
fn source() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("v.a".to_owned()),
        Just("v.b".to_owned()),
        Just("v".to_owned()),
        Just("has(v.c)".to_owned()),
        Just("x".to_owned()),
        Just("-9223372036854775808".to_owned()),
        Just("18446744073709551615u".to_owned()),
        Just("1e308".to_owned()),
        Just("null".to_owned()),
        any::<i64>().prop_map(|number| format!("({number})")),
        (0..4_i64).prop_map(|number| number.to_string()),
        any::<bool>().prop_map(|truth| truth.to_string()),
        "'[a-c☃+*]{0,4}'",
    ];
    leaf.prop_recursive(5, 40, 4, |inner| {
        let operator = prop::sample::select(vec![
            "+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "in", "&&", "||",
        ]);
        let method = prop::sample::select(vec![
            "contains",
            "startsWith",
            "endsWith",
            "matches",
            "split",
            "join",
            "substring",
            "charAt",
            "indexOf",
        ]);
        let function =
            prop::sample::select(vec!["size", "int", "uint", "double", "string", "bool", "min", "max"]);
        let unary = prop::sample::select(vec!["size", "trim", "lowerAscii", "upperAscii", "join"]);
        let looped = prop::sample::select(vec!["all", "exists", "exists_one", "map", "filter"]);
        let two = (inner.clone(), inner.clone());
        let three = (inner.clone(), inner.clone(), inner.clone());
        prop_oneof![
            (two.clone(), operator).prop_map(|((a, b), operator)| format!("({a} {operator} {b})")),
            (two.clone(), method).prop_map(|((a, b), method)| format!("({a}).{method}({b})")),
            (two.clone(), looped).prop_map(|((a, b), looped)| format!("({a}).{looped}(x, {b})")),
            (inner.clone(), function).prop_map(|(a, function)| format!("{function}({a})")),
            (inner.clone(), unary).prop_map(|(a, unary)| format!("({a}).{unary}()")),
            two.clone().prop_map(|(a, b)| format!("({a})[{b}]")),
            two.prop_map(|(a, b)| format!("{{{a}: {b}}}")),
            three.clone().prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            three.clone().prop_map(|(a, b, c)| format!("({a}).replace({b}, {c})")),
            three.prop_map(|(a, b, c)| format!("[{a}, {b}, {c}]")),
            inner.clone().prop_map(|a| format!("({a}).a")),
            inner.clone().prop_map(|a| format!("!({a})")),
            inner.prop_map(|a| format!("-({a})")),
        ]
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_text_is_parsed_or_refused(text in "\\PC{0,60}") {
        if let Err(message) = Expression::parse(&text) {
            prop_assert!(!message.is_empty());
        }
    }

    #[test]
    fn any_words_of_the_language_are_parsed_or_refused(words in prop::collection::vec(prop::sample::select(vec![
        "a", ".", ".?", "[", "]", "(", ")", "{", "}", ",", ":", "?", "!", "-", "+", "*", "&&", "||", "==", "<", "in",
        "1", "2u", "3.0", ".5", "0x", "1e", "'s'", "\"", "'", "'''", "r'", "b'x'", "`a`", "\\", "true", "null", "has",
        "all", "map(x,", ".map(", ".exists_one(x,", "x", "//", "\n", " ", "if", "@", "size(", "matches('(')", "ä",
    ]), 0..30)) {
        let text = words.concat();
        if let Err(message) = Expression::parse(&text) {
            prop_assert!(!message.is_empty());
        }
    }

    #[test]
    fn any_damaged_expression_is_parsed_or_refused(
        source in source(), at in any::<prop::sample::Index>(), length in 0..4_usize, instead in "[ -~]{0,2}",
    ) {
        let characters: Vec<char> = source.chars().collect();
        let start = at.index(characters.len());
        let end = (start + length).min(characters.len());
        let damaged: String =
            characters[..start].iter().copied().chain(instead.chars()).chain(characters[end..].iter().copied()).collect();
        if let Err(message) = Expression::parse(&damaged) {
            prop_assert!(message.ends_with(')') || message.contains("can't be parsed"), "{}: {}", damaged, message);
        }
    }

    #[test]
    fn any_expression_over_any_data_ends_within_its_fuel(
        source in source(), a in json(), b in json(),
    ) {
        let fields: JsonMap = [("a".to_owned(), Json::of(&a)), ("b".to_owned(), Json::of(&b))].into();
        let data = Data { roots: vec![("v", fields), ("x", JsonMap::new())], asked: Cell::new(0) };
        let Ok(expression) = Expression::parse(&source) else { return Ok(()) };
        let mut fuel = Fuel::full();
        match expression.evaluate_within(&data, &mut fuel) {
            Ok(json) => prop_assert!(json.parse::<serde_json::Value>().is_ok(), "{:?}", json),
            Err(fault) if fault.code == "expression_too_costly" => prop_assert_eq!(fuel.left(), 0),
            Err(fault) => prop_assert_eq!(fault.code, "expression_failed"),
        }
        prop_assert!(data.asked.get() <= expression.reads().len());
    }

    #[test]
    fn the_same_expression_gives_the_same_twice(source in source(), a in json()) {
        let fields: JsonMap = [("a".to_owned(), Json::of(&a))].into();
        let data = Data { roots: vec![("v", fields), ("x", JsonMap::new())], asked: Cell::new(0) };
        let Ok(expression) = Expression::parse(&source) else { return Ok(()) };
        let (mut one, mut two) = (Fuel::full(), Fuel::full());
        prop_assert_eq!(expression.evaluate_within(&data, &mut one), expression.evaluate_within(&data, &mut two));
        prop_assert_eq!(one.left(), two.left());
    }

    #[test]
    fn data_comes_back_with_its_value(a in json()) {
        let fields: JsonMap = [("a".to_owned(), Json::of(&a))].into();
        let data = Data { roots: vec![("v", fields)], asked: Cell::new(0) };
        let back = Expression::parse("v.a").unwrap().evaluate(&data).unwrap();
        prop_assert_eq!(Expression::parse("v.a == v.b").unwrap().holds(&Data {
            roots: vec![("v", [("a".to_owned(), Json::of(&a)), ("b".to_owned(), back)].into())],
            asked: Cell::new(0),
        }), Ok(true));
    }

    #[test]
    fn whole_numbers_and_doubles_are_ordered_as_if_they_were_exact(whole in any::<i64>(), double in any::<f64>()) {
        prop_assume!(double.is_finite());
        let fields: JsonMap = [("i".to_owned(), Json::of(&whole)), ("d".to_owned(), Json::of(&double))].into();
        let data = Data { roots: vec![("v", fields)], asked: Cell::new(0) };
        let holds = |source: &str| Expression::parse(source).unwrap().holds(&data).unwrap();
        let floor = double.floor() as i128;
        let less = i128::from(whole) < floor || (i128::from(whole) == floor && double.fract() != 0.0);
        prop_assert_eq!(holds("v.i < v.d"), less);
        prop_assert_eq!([holds("v.i < v.d"), holds("v.i == v.d"), holds("v.i > v.d")].iter().filter(|it| **it).count(), 1);
    }
}
