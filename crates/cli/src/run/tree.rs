//! A run on a page: what it is, then its nodes in the order of the graph, and below a node the runs it started.

use std::collections::HashMap;

use abide_core::GROUP_WORKFLOW;
use jiff::Timestamp;
use serde_json::Value;

use super::family::{ChildRef, DESCENDANTS_MAX, Family, Member};
use crate::answer::decision::standing;
use crate::draw::words::{clip, legible, shorten, width};
use crate::draw::{Mark, Picture};
use crate::graph::blocked_told;
use crate::output::cell;
use crate::resume::UNKNOWN;
use crate::terminal::Look;
use crate::turn::waits_for;
use crate::when;

/// A detail that would have fewer columns is left out.
const DETAIL_COLUMNS_MIN: usize = 12;

/// How much deeper the nodes of a child stand.
const INDENT: &str = "    ";

/// The page for a run, every line within the columns of the look.
pub(super) fn render(family: &Family, now: Timestamp, look: Look) -> String {
    let mut page = Page { family, now, look, text: String::new() };
    let run = &family.members[0];
    page.header(&run.snapshot);
    page.text.push('\n');
    if run.snapshot["erased"] == true {
        page.push("what it read and wrote was erased");
    }
    // The node of a group is nothing that anybody does.
    if is_group(&run.snapshot) {
        page.push(&format!("it is a group: see `abide group show {}`", cell(&run.snapshot["runId"])));
    } else {
        page.nodes(run, "");
    }
    page.text
}

fn is_group(snapshot: &Value) -> bool {
    snapshot["workflowId"] == GROUP_WORKFLOW
}

/// How somebody holds the run.
fn held(hold: &Value) -> String {
    let mode = match hold["mode"].as_str() {
        Some("pause") => "paused",
        Some("stop") => "stopped",
        // What an interrupted run waits for is told with its nodes.
        _ => return String::new(),
    };
    let by = hold["by"].as_str().map_or(String::new(), |_| format!(" by {}", cell(&hold["by"])));
    let why = hold["reason"].as_str().map_or(String::new(), |_| format!(": {}", cell(&hold["reason"])));
    format!("{mode}{by} since {}{why}", cell(&hold["since"]))
}

/// A page that is being written.
struct Page<'a> {
    family: &'a Family,
    now: Timestamp,
    look: Look,
    text: String,
}

/// A node as a line.
struct Row {
    mark: Mark,
    id: String,
    kind: String,
    state: String,
    duration: String,
    detail: String,
    /// What has to be told in full, below the line.
    told: String,
}

impl Page<'_> {
    fn push(&mut self, line: &str) {
        self.text += line.trim_end();
        self.text.push('\n');
    }

    fn header(&mut self, snapshot: &Value) {
        let took = took(snapshot, "completedAt", self.now);
        let from = &snapshot["forkedFrom"];
        let forked = from.as_object().map(|_| {
            format!(
                "{} ({} from event {})",
                cell(&from["runId"]),
                cell(&from["mode"]),
                cell(&from["fromSeq"])
            )
        });
        let parent = snapshot["parentRunId"].as_str().map(|_| {
            format!("{} (node {})", cell(&snapshot["parentRunId"]), cell(&snapshot["parentNodeId"]))
        });
        let error = snapshot["error"].as_object().map(|_| failure(&snapshot["error"]));
        self.field("run", &cell(&snapshot["runId"]));
        self.field(
            "workflow",
            &format!("{} {}", cell(&snapshot["workflowId"]), cell(&snapshot["workflowVersion"])),
        );
        self.field("parent", &parent.unwrap_or_default());
        self.field("fork of", &forked.unwrap_or_default());
        self.field("status", &status_of(snapshot));
        self.field("hold", &held(&snapshot["hold"]));
        self.field("started", &cell(&snapshot["startedAt"]));
        self.field("ended", &cell(&snapshot["completedAt"]));
        self.field("duration", &took);
        self.field("error", &error.unwrap_or_default());
    }

    /// A line of the header, or as many as the value needs.
    fn field(&mut self, name: &str, value: &str) {
        let columns = self.look.columns.saturating_sub(10).max(20);
        for (at, line) in wrapped(value, columns).iter().enumerate() {
            self.push(&format!("{:<10}{line}", if at == 0 { name } else { "" }));
        }
    }

    fn nodes(&mut self, run: &Member, indent: &str) {
        let rows = rows(run, self.now, self.look.columns);
        let widest = |part: fn(&Row) -> &str| rows.iter().map(|row| width(part(row))).max().unwrap_or(0);
        let widths = [
            widest(|row| &row.id),
            widest(|row| &row.kind),
            widest(|row| &row.state),
            widest(|row| &row.duration),
        ];
        let mut children: HashMap<String, Vec<ChildRef>> = HashMap::new();
        for child in run.children() {
            children.entry(legible(&child.node)).or_default().push(child);
        }
        for row in &rows {
            let line = self.line(row, widths, indent);
            self.push(&line);
            let room = self.look.columns.saturating_sub(width(indent) + 4).max(20);
            for told in wrapped(&row.told, room) {
                self.push(&format!("{indent}    {told}"));
            }
            self.children(children.get(&row.id).map_or(&[], Vec::as_slice), indent);
        }
    }

    fn line(&self, row: &Row, widths: [usize; 4], indent: &str) -> String {
        let cells = [&row.id, &row.kind, &row.state, &row.duration];
        let [id, kind, state, duration] = std::array::from_fn(|at| padded(cells[at], widths[at]));
        let glyph = row.mark.glyph();
        let start = format!("{indent}{glyph} {id}  {kind}  {state}  {duration}");
        if width(start.trim_end()) > self.look.columns {
            return clip(&start, self.look.columns);
        }
        let room = self.look.columns.saturating_sub(width(&start) + 2);
        let detail = if room < DETAIL_COLUMNS_MIN { String::new() } else { clip(&row.detail, room) };
        let (glyph, state) = (self.painted(row.mark, &glyph.to_string()), self.painted(row.mark, &state));
        format!("{indent}{glyph} {id}  {kind}  {state}  {duration}  {detail}")
    }

    /// The runs that a node started, each with its nodes if it was fetched.
    fn children(&mut self, children: &[ChildRef], indent: &str) {
        for child in children.iter().take(DESCENDANTS_MAX) {
            let found = self.family.find(&child.run);
            let status = found.and_then(|run| run.snapshot["status"].as_str()).unwrap_or(&child.status);
            let workflow = found.map(|run| format!("  {}", cell(&run.snapshot["workflowId"])));
            let line = format!(
                "{indent}  ↳ {}{}  {}",
                legible(&child.run),
                workflow.unwrap_or_default(),
                legible(status)
            );
            self.push(&clip(&line, self.look.columns));
            if let Some(run) = found {
                self.nodes(run, &format!("{indent}{INDENT}"));
            }
        }
        if children.len() > DESCENDANTS_MAX {
            self.push(&format!("{indent}  … {} more runs", children.len() - DESCENDANTS_MAX));
        }
    }

    fn painted(&self, mark: Mark, text: &str) -> String {
        if !self.look.colours {
            return text.to_owned();
        }
        let code = match mark {
            Mark::Done => "32",
            Mark::Running => "36",
            Mark::Waiting => "33",
            Mark::Failed => "31",
            Mark::Skipped | Mark::Cancelled | Mark::Pending => "2",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// The nodes of a run as lines, in the order of its graph; without it, in the order in which they started.
fn rows(run: &Member, now: Timestamp, columns: usize) -> Vec<Row> {
    let Some(states) = run.snapshot["nodeStates"].as_object() else { return Vec::new() };
    let row = |id: &str, node: &Value| {
        let mut row = Row::of(id, &states[id], node, now, columns);
        let asked = [Some(row.detail).filter(|detail| !detail.is_empty()), asked(&run.snapshot, id)];
        row.detail = asked.into_iter().flatten().collect::<Vec<_>>().join(", ");
        row
    };
    if let Some(definition) = &run.definition {
        let picture = Picture::of(definition);
        let written = definition["nodes"].as_array().map_or(&[][..], Vec::as_slice);
        let order = picture.order().into_iter().map(|place| (&picture.nodes[place].id, &written[place]));
        return order.filter(|(id, _)| states.contains_key(*id)).map(|(id, node)| row(id, node)).collect();
    }
    let mut ids: Vec<&String> = states.keys().collect();
    // Those that did not start come last.
    ids.sort_by_key(|id| {
        let at = states[*id]["startedAt"].as_str();
        (at.is_none(), at)
    });
    ids.into_iter().map(|id| row(id, &Value::Null)).collect()
}

/// How the approval of a node stands, if it takes several people or something was asked back.
fn asked(snapshot: &Value, id: &str) -> Option<String> {
    let open = snapshot["interrupts"].as_array()?.iter().find(|open| open["nodeId"] == id)?;
    let asks = open["exchanges"].as_array().map_or(&[][..], Vec::as_slice);
    let waiting = asks.iter().filter(|ask| ask.get("answer").is_none()).count();
    let asks = (!asks.is_empty()).then(|| format!("{} asked back, {waiting} without a reply", asks.len()));
    let parts: Vec<String> = [standing(&open["quorum"]), asks].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

impl Row {
    /// A node with this id and state; `node` is what the definition says of it.
    fn of(id: &str, state: &Value, node: &Value, now: Timestamp, columns: usize) -> Self {
        Self {
            mark: Mark::of_status(state["status"].as_str().unwrap_or_default()),
            id: shorten(&legible(id), columns / 4),
            kind: shorten(&cell(&state["typeId"]), columns / 4),
            state: if state["interruption"].is_object() {
                "interrupted".to_owned()
            } else {
                cell(&state["status"])
            },
            duration: took(state, "endedAt", now),
            detail: detail(state, node, now),
            told: told(state, now),
        }
    }
}

/// What a turn waits for, with all that its provider said; nothing if it does not wait.
fn told(state: &Value, now: Timestamp) -> String {
    let wait = &state["providerWait"];
    if wait.is_object() { waits_for(&wait["provider"], wait, now) } else { String::new() }
}

/// How long a run or a node took, or takes already; nothing if that is not known.
fn took(of: &Value, end: &str, now: Timestamp) -> String {
    let under_way = !matches!(of["status"].as_str(), Some("completed" | "failed" | "cancelled" | "skipped"));
    let end = of[end].as_str();
    let known = Some(()).filter(|()| under_way || end.is_some());
    known
        .and_then(|()| when::elapsed(of["startedAt"].as_str(), end, now))
        .map(when::duration)
        .unwrap_or_default()
}

/// What is worth knowing about a node: which attempt it is, what it waits for, what went wrong, what it gave.
fn detail(state: &Value, node: &Value, now: Timestamp) -> String {
    let until = state["until"].as_str().map(|_| cell(&state["until"]));
    let until = until.map(|until| format!("until {}", when::told(&until, now).unwrap_or(until)));
    let error = state["error"].as_object().map(|_| failure(&state["error"]));
    let outputs = Some(&state["outputs"]).filter(|outputs| !is_empty(outputs)).map(cell);
    let which = interruption(state).or_else(|| attempt(state, node));
    let parts = [which, execution(state), until, error, outputs];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn is_empty(outputs: &Value) -> bool {
    outputs.is_null() || outputs.as_object().is_some_and(serde_json::Map::is_empty)
}

/// What interrupted it, and whether anybody knows what came of it.
fn interruption(state: &Value) -> Option<String> {
    let interruption = state["interruption"].as_object()?;
    let class = cell(interruption.get("class")?);
    let unknown = interruption.get("effect").is_some_and(|effect| effect == "unknown");
    Some(if unknown { format!("{UNKNOWN} ({class})") } else { class })
}

/// Which attempt it is, or will be, if not the first. The server tells how many have failed.
fn attempt(state: &Value, node: &Value) -> Option<String> {
    let failed = state["attempt"].as_u64().filter(|failed| *failed > 0)?;
    let settings = &node["settings"];
    let retries = settings["abide"]["retry"]["maxRetries"].as_u64().or(settings["maxRetries"].as_u64());
    // Whoever takes over begins to count anew.
    let of = retries.filter(|retries| failed <= *retries);
    let of = of.map_or(String::new(), |retries| format!(" of {}", retries.saturating_add(1)));
    Some(format!("attempt {}{of}", failed.saturating_add(1)))
}

/// How often a loop came by, if more than once.
fn execution(state: &Value) -> Option<String> {
    let execution = state["execution"].as_u64().filter(|execution| *execution > 1)?;
    Some(format!("execution {execution}"))
}

fn failure(error: &Value) -> String {
    format!("{} [{}]", cell(&error["message"]), cell(&error["code"]))
}

fn padded(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// The text in lines of so many columns, broken between words where it can be; no text has no lines.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(word) <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.extend(pieces(word, columns)),
        }
    }
    lines
}

/// A word in pieces that fit.
fn pieces(word: &str, columns: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for c in word.chars() {
        let piece = pieces.last_mut().expect("there is always a last piece");
        if width(piece) + width(c.encode_utf8(&mut [0; 4])) > columns {
            pieces.push(c.to_string());
        } else {
            piece.push(c);
        }
    }
    pieces
}

/// Where a run stands. To OpenWOP one that waits for others is pending, and no more is said.
fn status_of(snapshot: &Value) -> String {
    if let Some(reason) = snapshot["blocked"]["reason"].as_str() {
        return blocked_told(reason, &snapshot["blocked"]["by"]);
    }
    if snapshot["draft"] == true {
        return "draft".to_owned();
    }
    match snapshot["abandonmentReason"].as_str() {
        Some(reason) => format!("{} ({})", cell(&snapshot["status"]), legible(reason)),
        None => cell(&snapshot["status"]),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LOOK: Look = Look { columns: 100, colours: false };

    fn now() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().unwrap()
    }

    fn node(id: &str, kind: &str) -> Value {
        json!({ "id": id, "typeId": kind })
    }

    /// A chain that is written down from its end.
    fn definition(nodes: &[Value]) -> Value {
        let edge = |pair: &[Value]| json!({ "sourceNodeId": pair[1]["id"], "targetNodeId": pair[0]["id"] });
        json!({ "nodes": nodes, "edges": nodes.windows(2).map(edge).collect::<Vec<_>>() })
    }

    fn member(snapshot: Value, definition: Option<Value>) -> Member {
        let mut member = Member::of(snapshot, 0);
        member.definition = definition;
        member
    }

    fn page(members: Vec<Member>, look: Look) -> String {
        let page = render(&Family { members }, now(), look);
        if !look.colours {
            page.lines().for_each(|line| assert!(width(line) <= look.columns, "{line}"));
        }
        page
    }

    #[expect(clippy::needless_pass_by_value, reason = "the states are written out where it is called")]
    fn run(id: &str, status: &str, states: Value) -> Value {
        json!({
            "runId": id, "workflowId": "orders", "workflowVersion": "1.0", "status": status,
            "startedAt": "2026-01-01T11:58:55.000Z", "nodeStates": states,
        })
    }

    fn every_state() -> Member {
        let states = json!({
            "fetch": { "status": "completed", "typeId": "core.http.request", "attempt": 2,
                "startedAt": "2026-01-01T11:58:55.000Z", "endedAt": "2026-01-01T11:58:56.290Z",
                "outputs": { "status": 200, "body": "x".repeat(200) } },
            "again": { "status": "waiting", "typeId": "core.http.request", "attempt": 1, "execution": 4,
                "startedAt": "2026-01-01T11:59:00.000Z", "until": "2026-01-01T12:00:30.000Z",
                "error": { "code": "http_status", "message": "503" } },
            "work": { "status": "running", "typeId": "core.transform", "startedAt": "2026-01-01T11:59:59.988Z" },
            "bad": { "status": "failed", "typeId": "core.fail", "startedAt": "2026-01-01T11:59:00.000Z",
                "endedAt": "2026-01-01T11:59:00.000Z", "outputs": {},
                "error": { "code": "node_execution_failed", "message": "no\nluck \u{1b}[2J" } },
            "past": { "status": "skipped", "typeId": "core.noop" },
            "stopped": { "status": "cancelled", "typeId": "core.delay" },
            "next": { "status": "pending", "typeId": "core.noop" },
        });
        let fetch = json!({ "id": "fetch", "typeId": "core.http.request", "settings": { "maxRetries": 3 } });
        let nodes = ["next", "stopped", "past", "bad", "work", "again"].map(|id| node(id, ""));
        let mut snapshot = run("run-1", "failed", states);
        snapshot["completedAt"] = json!("2026-01-01T12:00:00.000Z");
        let message = format!("no luck with {}", "words ".repeat(30));
        snapshot["error"] = json!({ "code": "node_execution_failed", "message": message });
        member(snapshot, Some(definition(&[&nodes[..], &[fetch]].concat())))
    }

    #[test]
    fn every_state_has_its_sign_and_its_detail() {
        insta::assert_snapshot!(page(vec![every_state()], LOOK));
    }

    #[test]
    fn what_was_interrupted_says_whether_its_effect_is_known() {
        let state = |effect: &str| {
            json!({ "status": "waiting", "typeId": "core.http.request", "attempt": 1,
                "startedAt": "2026-01-01T11:59:00.000Z", "error": { "code": "http_status", "message": "503" },
                "interruption": { "class": "tool_failure", "effect": effect, "steps": [] } })
        };
        let states = json!({ "charge": state("unknown"), "look": state("none") });
        insta::assert_snapshot!(page(vec![member(run("run-1", "paused", states), None)], LOOK));
    }

    #[test]
    fn a_turn_that_waits_for_its_provider_says_so() {
        let states = json!({
            "ask": { "status": "waiting", "typeId": "core.llm.turn", "startedAt": "2026-01-01T11:58:55.000Z",
                "until": "2026-01-01T12:00:30.000Z",
                "providerWait": { "provider": "main", "kind": "retry", "attempt": 3, "delayMs": 30_000,
                    "since": "2026-01-01T12:00:00.000Z", "until": "2026-01-01T12:00:30.000Z",
                    "message": "HTTP 529: \u{1b}[2Joverloaded", "code": "529" } },
        });
        let page = page(vec![member(run("run-1", "running", states), None)], LOOK);
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        let told = "waits for provider 'main', retry 4 at 2026-01-01T12:00:30.000Z (in 30.0 s): HTTP 529: \u{fffd}[2Joverloaded";
        assert!(page.contains(told), "{page}");
    }

    #[test]
    fn colours_are_for_those_who_want_them() {
        insta::assert_snapshot!(page(vec![every_state()], Look { colours: true, ..LOOK }));
    }

    #[test]
    fn a_narrow_terminal_loses_details_first() {
        insta::assert_snapshot!(page(vec![every_state()], Look { columns: 50, ..LOOK }));
        page(vec![every_state()], Look { columns: 30, ..LOOK });
    }

    #[test]
    fn without_a_definition_nodes_stand_as_they_started() {
        let state = |at: Value| json!({ "status": "completed", "typeId": "core.noop", "startedAt": at, "endedAt": at });
        let states = json!({
            "a": state(json!(null)), "b": state(json!("2026-01-01T11:59:00.000Z")), "c": state(json!("2026-01-01T11:58:00.000Z")),
        });
        let page = page(vec![member(run("run-1", "running", states), None)], LOOK);
        insta::assert_snapshot!(page);
    }

    #[test]
    fn children_stand_below_the_nodes_that_started_them() {
        let state = |status: &str, kind: &str| json!({ "status": status, "typeId": kind });
        let mut parent = run(
            "run-1",
            "running",
            json!({
                "call": state("waiting", "core.subWorkflow"), "after": state("pending", "core.noop"),
            }),
        );
        let child = |id: &str, node: &str| json!({ "runId": id, "nodeId": node, "status": "running" });
        parent["childRuns"] = json!([child("run-2", "call"), child("run-9", "call")]);
        let mut second = run("run-2", "cancelling", json!({ "inner": state("running", "core.subWorkflow") }));
        second["childRuns"] = json!([child("run-3", "inner")]);
        let third = run("run-3", "running", json!({ "leaf": state("waiting", "core.delay") }));
        let nodes = [node("after", "core.noop"), node("call", "core.subWorkflow")];
        let members =
            vec![member(parent, Some(definition(&nodes))), member(second, None), member(third, None)];
        insta::assert_snapshot!(page(members, LOOK));
    }

    #[test]
    fn more_children_than_anybody_reads_are_counted() {
        let child =
            |at: usize| json!({ "runId": format!("run-c{at}"), "nodeId": "fan", "status": "running" });
        let mut parent =
            run("run-1", "running", json!({ "fan": { "status": "waiting", "typeId": "core.dispatch" } }));
        parent["childRuns"] = (0..60).map(child).collect();
        let page = page(vec![member(parent, None)], LOOK);
        assert_eq!(page.matches("↳").count(), DESCENDANTS_MAX);
        assert!(page.ends_with("  … 10 more runs\n"), "{page}");
    }

    #[test]
    fn an_erased_run_says_so() {
        let snapshot = json!({
            "runId": "run-1", "workflowId": "orders", "status": "completed", "erased": true,
            "startedAt": "2026-01-01T11:58:55.000Z", "parentRunId": "run-0", "parentNodeId": "call",
        });
        insta::assert_snapshot!(page(vec![member(snapshot, None)], LOOK));
    }

    #[test]
    fn long_texts_are_broken_between_words_and_long_words_within() {
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
        assert_eq!(wrapped("abcdefghij k", 4), ["abcd", "efgh", "ij k"]);
        assert_eq!(wrapped("", 4), Vec::<String>::new());
    }
}
