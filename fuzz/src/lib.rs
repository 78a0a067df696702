//! What the fuzz targets do with the bytes they are given.
//!
//! The same functions are called by `crates/core/tests/corpus.rs` with every file of the corpus, so that what was
//! found once is looked at by each build of the stable compiler.

use std::sync::{Arc, LazyLock};

use abide_core::{
    Answerer, Ask, Command, Expression, Failure, Graph, InterruptKind, InterruptionClass, Json, JsonMap,
    Performance, Product, Reached, Refused, Report, Run, RunId, Scope, Start, TaskFailure, TaskId, TenantId,
    TimerId, check_answer, correlates, json_from_yaml, limits, scheduled_time,
};
use serde_json::{Value, json};

/// A definition, as JSON and as YAML: it is read or refused, and what is refused is told in bounds.
pub fn definition(bytes: &[u8]) {
    let admitted = Graph::admit(bytes);
    let read = Graph::read(bytes);
    match &admitted {
        Ok(graph) => assert_eq!(read.map(|read| read.hash).ok(), Some(graph.hash), "admitted, but not read"),
        Err(problems) => assert!((1..=limits::PROBLEMS_MAX + 1).contains(&problems.len())),
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(json) = json_from_yaml(text) {
        assert!(serde_json::from_slice::<Value>(&json).is_ok(), "what was read as YAML is no JSON");
        drop(Graph::admit(&json));
    }
}

/// An expression on the first line, and the values it reads, an object, on the lines behind.
pub fn expression(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (source, values) = text.split_once('\n').unwrap_or((text, "{}"));
    let Ok(expression) = Expression::parse(source) else { return };
    let values = Values(serde_json::from_str(values).unwrap_or_default());
    let result = expression.evaluate(&values);
    assert_eq!(result, expression.evaluate(&values), "an expression gives one value");
    if let Ok(json) = result {
        assert!(json.parse::<Value>().is_ok(), "the value can't be read back: {json:?}");
    }
    drop(expression.holds(&values));
}

struct Values(JsonMap);

impl Scope for Values {
    fn get(&self, root: &str, field: Option<&str>) -> Option<Json> {
        let whole = self.0.get(root)?;
        match field {
            None => Some(whole.clone()),
            Some(field) => whole.parse::<JsonMap>().ok()?.remove(field),
        }
    }

    fn knows(&self, root: &str) -> bool {
        self.0.contains_key(root)
    }
}

/// A question on the first line, and an answer to it on the lines behind: each is read or refused, and what is refused
/// is told in bounds. An answer that fits gives the node a value that it can read.
pub fn answer(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (question, answer) = text.split_once('\n').unwrap_or((text, "null"));
    let Ok(answer) = serde_json::from_str::<Json>(answer) else { return };
    if let Ok(question) = serde_json::from_str::<Json>(question) {
        drop(Ask::read_alias(&question));
        match Ask::read(&question) {
            Ok(ask) => {
                assert!(ask.title().chars().count() <= limits::INBOX_TITLE_CHARS_MAX);
                assert!(ask.same_question(ask.kind, ask.resume_schema.as_ref()), "a question is itself");
                assert_eq!(Ask::read_alias(&question).ok().as_ref(), Some(&ask), "`suspend` reads the same");
                drop((scheduled_time(&ask.data), correlates(&ask.data, &answer)));
                answered(ask.kind, &ask.data, ask.resume_schema.as_ref(), &answer);
            }
            Err(problems) => assert!((1..=limits::PROBLEMS_MAX + 1).contains(&problems.len())),
        }
        // What is kept is trusted, but a reader of it never breaks.
        for kind in InterruptKind::ALL {
            answered(kind, &question, None, &answer);
        }
    }
}

fn answered(kind: InterruptKind, data: &Json, schema: Option<&Json>, answer: &Json) {
    let by = Answerer { may_act_for_others: true, ..Answerer::of("somebody") };
    match check_answer(kind, data, schema, answer, &by, 1) {
        Ok(checked) => {
            assert!(checked.value.parse::<Value>().is_ok(), "the node can't read {:?}", checked.value);
            assert!(!checked.by.is_empty(), "nobody is recorded");
            assert_eq!(checked.decision.is_some(), kind == InterruptKind::Approval);
            assert_eq!(checked.answers.is_some(), kind == InterruptKind::Clarification);
        }
        Err(Refused::Invalid(errors) | Refused::Mismatch(errors)) => {
            assert!((1..=limits::SCHEMA_ERRORS_MAX).contains(&errors.len()));
            assert!(errors.iter().all(|error| error.path.len() + error.message.len() < 1_000));
        }
    }
}

/// What every run of `ports` follows.
static GRAPH: LazyLock<Arc<Graph>> = LazyLock::new(|| {
    Arc::new(Graph::admit(workflow().to_string().as_bytes()).expect("the definition is sound"))
});

/// The inputs of a run, an object: whatever they are, the run ends, and its journal folds to the same run.
pub fn ports(bytes: &[u8]) {
    let Ok(inputs) = serde_json::from_slice::<JsonMap>(bytes) else { return };
    let graph = GRAPH.clone();
    let key = RunId::from_bytes([1; 16]).of(TenantId(1));
    let start = Start { inputs, ..Start::of(key, [7; 16], graph.clone()) };
    let mut twin = Run::empty(key, [7; 16], graph);
    let Ok((mut run, step)) = Run::start(start, 1) else { return };
    let mut records = step.records;
    while let Some(command) = next(&run) {
        let step = run.decide(command, i64::MAX / 2).expect("what a run waits for is accepted");
        records.extend(step.records);
        assert!(records.len() < 1_000, "the run does not end");
    }
    assert!(run.lifecycle().is_terminal(), "the run hangs");
    for record in &records {
        twin.apply(record).expect("a decided record folds");
    }
    assert!(twin.snapshot() == run.snapshot(), "folding gives another run");
}

/// What a run waits for.
fn next(run: &Run) -> Option<Command> {
    if let Some(task) = run.tasks().next() {
        let outcome = outcome(run, &task);
        return Some(Command::Report(Report { task, outcome }));
    }
    run.timers().keys().next().cloned().map(|timer: TimerId| Command::Fire(timer))
}

fn outcome(run: &Run, task: &TaskId) -> Result<Product, TaskFailure> {
    let failed = |failure| TaskFailure {
        failure,
        retryable: false,
        reached: Reached::Maybe,
        class: InterruptionClass::ToolFailure,
    };
    match run.perform_task(task).expect("the task is under way") {
        Performance::Done(done) => done.map_err(failed),
        Performance::Http(request) => Err(failed(Failure::new("http_status", format!("{request:?}")))),
        Performance::Model(_) => panic!("there is no provider, so no model is called"),
    }
}

/// Nodes of every kind, each of which takes in the inputs `a`, `b` and `c` in its own way. None of them keeps the
/// others from running.
fn workflow() -> Value {
    let mut nodes = Vec::new();
    let mut add = |id: &str, kind: &str, config: Value, durable: bool| {
        let port = |name: &str| json!({"type": "variable", "variableName": name, "optional": true});
        let inputs = match kind {
            "core.delay" => json!({"delayMs": port("a")}),
            "core.channelWrite" => json!({"value": port("b")}),
            _ => {
                json!({"a": port("a"), "b": port("b"), "c": {"type": "expression", "expression": "variables"}})
            }
        };
        nodes.push(json!({"id": id, "typeId": kind, "name": id, "position": {}, "config": config,
            "inputs": inputs, "settings": {"abide": {"durable": durable}}}));
    };
    add("begin", "core.noop", json!({}), false);
    add("same", "core.identity", json!({}), true);
    add("wait", "core.delay", json!({}), false);
    for (ix, source) in EXPRESSIONS.iter().enumerate() {
        add(
            &format!("t{ix}"),
            "core.transform",
            json!({"expression": source, "assign": {"a": source}}),
            ix % 2 == 0,
        );
    }
    add("way", "core.branch", json!({"cases": [{"name": "one", "when": "inputs.a == inputs.b"}]}), false);
    let request = json!({"url": "https://service.example/{{ inputs.a }}", "headers": {"X-B": "{{ inputs.b }}"},
        "body": {"c": "{{ inputs.c }}"}, "method": "POST"});
    add("call", "core.http.request", request, false);
    for reducer in ["replace", "append", "merge", "counter", "votes", "feedback", "message"] {
        add(reducer, "core.channelWrite", json!({"channelName": reducer, "reducer": reducer}), false);
    }
    add("end", "core.noop", json!({}), false);
    let ids: Vec<String> = nodes.iter().filter_map(|node| node["id"].as_str().map(str::to_owned)).collect();
    json!({"id": "ports", "name": "Ports", "version": "1", "nodes": nodes, "edges": edges(&ids), "triggers": [],
        "variables": [], "metadata": {}, "settings": {}})
}

const EXPRESSIONS: &[&str] = &[
    "inputs.a + inputs.b",
    "inputs.a < inputs.b",
    "inputs.a[inputs.b]",
    "inputs.a.map(x, [x, inputs.b])",
    "string(inputs.a) + string(inputs.b)",
    "int(inputs.a) / int(inputs.b)",
    "inputs.a.matches(string(inputs.b))",
    "[inputs, inputs.a, inputs.b]",
];

fn edges(ids: &[String]) -> Vec<Value> {
    let tests = [
        json!({"type": "equals", "left": "variables.a", "right": 1}),
        json!({"type": "notEquals", "left": "variables.a.0.x", "right": {"b": [1.0]}}),
        json!({"type": "contains", "left": "output.b", "right": "x"}),
        json!({"type": "regex", "left": "a", "right": "^(a|b)*$"}),
        json!({"type": "truthy", "left": "variables.b"}),
        json!({"type": "falsy", "left": "variables.c.d"}),
        json!({"type": "expression", "expression": "status == \"failed\" || output != variables"}),
    ];
    let between = ids.iter().filter(|id| *id != "begin" && *id != "end").enumerate();
    between
        .flat_map(|(ix, id)| {
            let from = json!({"id": format!("from{ix}"), "sourceNodeId": "begin", "targetNodeId": id});
            let to = json!({"id": format!("to{ix}"), "sourceNodeId": id, "targetNodeId": "end",
                "triggerRule": "all_complete"});
            let tested = json!({"id": format!("if{ix}"), "sourceNodeId": id, "targetNodeId": "end",
                "triggerRule": "all_complete", "condition": tests[ix % tests.len()]});
            [from, to, tested]
        })
        .collect()
}
