//! What lies on disk, read with SQL alone, and whether it is what a run of its kind may have left there.

use std::collections::BTreeMap;
use std::path::Path;

use abide_core::{RunId, Status};
use rusqlite::{Connection, OpenFlags, Row};
use serde_json::Value;

use super::load::{Known, Memory, Moment, Start};
use super::workflows::{HOUR_MS, Kind};

/// One event.
pub(super) struct Entry {
    sequence: i64,
    at: i64,
    kind: String,
    node: Option<String>,
    payload: Value,
}

/// A run's columns and its journal.
#[derive(Default)]
pub(super) struct Journal {
    pub(super) status: String,
    /// Events that the columns count.
    pub(super) counted: i64,
    entries: Vec<Entry>,
}

/// A data directory.
pub(super) struct Disk {
    pub(super) runs: BTreeMap<String, Journal>,
    pub(super) timers: i64,
    pub(super) tasks: i64,
    /// Tasks that a server holds the lease on.
    pub(super) leased: i64,
    pub(super) outbox: i64,
    /// The runs that receipts of starts name.
    receipts: Vec<String>,
}

impl Disk {
    /// Reads everything, and changes nothing: not even the log is folded into the file.
    pub(super) fn read(data: &Path) -> Self {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(data.join("abide.db"), flags).unwrap();
        let count =
            |rows: &str| db.query_row(&format!("SELECT count(*) FROM {rows}"), [], |row| row.get(0)).unwrap();
        Self {
            runs: read_runs(&db).unwrap(),
            timers: count("timers"),
            tasks: count("tasks"),
            leased: count("tasks WHERE boot <> 0"),
            outbox: count("outbox"),
            receipts: read_receipts(&db).unwrap(),
        }
    }

    /// Whatever is wrong, one line each, for a load that is over and runs that may be under way.
    pub(super) fn findings(&self, memory: &Memory) -> Vec<String> {
        let mut findings = Vec::new();
        let mut tokens: BTreeMap<&str, &str> = BTreeMap::new();
        for (run, journal) in &self.runs {
            let mut check = Check { run, journal, findings: Vec::new() };
            let token = check.everything(memory);
            if let Some(other) = token.and_then(|token| tokens.insert(token, run)) {
                check.demand(false, || format!("{other} came of the same start"));
            }
            findings.append(&mut check.findings);
        }
        let keyed =
            tokens.iter().filter(|(token, _)| memory.starts.get(**token).is_some_and(|start| start.keyed));
        let mut keyed: Vec<&str> = keyed.map(|(_, run)| *run).collect();
        let mut receipts: Vec<&str> = self.receipts.iter().map(String::as_str).collect();
        keyed.sort_unstable();
        receipts.sort_unstable();
        if keyed != receipts {
            findings.push(format!(
                "the runs {keyed:?} were started with a key, but there are receipts of {receipts:?}"
            ));
        }
        for (run, known) in &memory.runs {
            let found = tokens.get(known.token.as_str());
            if found != Some(&run.as_str()) {
                findings
                    .push(format!("{run}: acknowledged for {}, but the store has {found:?}", known.token));
            }
        }
        findings
    }
}

fn read_receipts(db: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut bodies = db.prepare("SELECT body FROM receipts WHERE endpoint = 'createRun'")?;
    let run = |row: &Row<'_>| {
        let body: Value = serde_json::from_slice(&row.get::<_, Vec<u8>>(0)?).unwrap();
        Ok(body["runId"].as_str().unwrap().to_owned())
    };
    bodies.query_map([], run)?.collect()
}

fn read_runs(db: &Connection) -> rusqlite::Result<BTreeMap<String, Journal>> {
    let mut runs: BTreeMap<String, Journal> = BTreeMap::new();
    let mut heads = db.prepare("SELECT id, status, next FROM aggregates")?;
    let mut rows = heads.query([])?;
    while let Some(row) = rows.next()? {
        let journal = runs.entry(run_id(row)?).or_default();
        journal.status = Status::by_code(row.get(1)?).unwrap().name().to_owned();
        journal.counted = row.get(2)?;
    }
    let mut events = db.prepare(
        "SELECT e.id, e.seq, e.at, t.name, e.node, coalesce(e.payload, b.bytes) FROM events e \
         JOIN event_types t ON t.code = e.type \
         LEFT JOIN blobs b ON b.tenant = e.tenant AND b.hash = e.chain ORDER BY e.tenant, e.id, e.seq",
    )?;
    let mut rows = events.query([])?;
    while let Some(row) = rows.next()? {
        let payload: Vec<u8> = row.get(5)?;
        let entry = Entry {
            sequence: row.get(1)?,
            at: row.get(2)?,
            kind: row.get(3)?,
            node: row.get(4)?,
            payload: serde_json::from_slice(&payload).unwrap(),
        };
        runs.entry(run_id(row)?).or_default().entries.push(entry);
    }
    Ok(runs)
}

fn run_id(row: &Row<'_>) -> rusqlite::Result<String> {
    Ok(RunId::from_bytes(row.get(0)?).to_string())
}

impl Journal {
    /// The journal's end for people: a line for each event.
    pub(super) fn text(&self) -> String {
        let line = |entry: &Entry| {
            format!(
                "  {:3} {} {} {} {}\n",
                entry.sequence,
                entry.at,
                entry.kind,
                entry.node.as_deref().unwrap_or("-"),
                entry.payload
            )
        };
        let head = format!("{}, {} events counted\n", self.status, self.counted);
        let tail = &self.entries[self.entries.len().saturating_sub(50)..];
        head + &tail.iter().map(line).collect::<String>()
    }

    /// How long the journal really is.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

/// One run under scrutiny.
struct Check<'a> {
    run: &'a str,
    journal: &'a Journal,
    findings: Vec<String>,
}

/// What happened to one node.
#[derive(Default)]
struct NodeLife<'a> {
    started: Vec<&'a Entry>,
    settled: Vec<&'a Entry>,
}

impl<'a> Check<'a> {
    fn demand(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            let text = self.journal.text();
            self.findings.push(format!("{}: {}\n{text}", self.run, what()));
        }
    }

    /// Looks at all there is, and gives the token that the run was started with.
    fn everything(&mut self, memory: &Memory) -> Option<&'a str> {
        let journal = self.journal;
        let first = journal.entries.first();
        let token = first
            .filter(|entry| entry.kind == "run.started")
            .and_then(|entry| entry.payload["tags"][0].as_str());
        match token.and_then(|token| memory.starts.get(token)) {
            Some(start) => self.life(start, memory.runs.get(self.run)),
            None => self.demand(false, || "it does not begin with a start that was sent".into()),
        }
        token
    }

    fn life(&mut self, start: &Start, known: Option<&Known>) {
        self.demand(!start.refused, || "its start was refused, and yet it is there".into());
        self.shape();
        self.end(start.kind, known);
        let lives = self.lives();
        self.nodes(start, &lives);
        self.edges(start.kind, &lives);
        if let Some(known) = known {
            self.told(known);
        }
    }

    /// Dense from 0, in order of time, and nothing behind the one terminal event.
    fn shape(&mut self) {
        let entries = &self.journal.entries;
        let dense = entries.iter().zip(0..).all(|(entry, sequence)| entry.sequence == sequence);
        self.demand(dense, || "its sequences are not dense".into());
        let counted = self.journal.counted;
        self.demand(counted == entries.len() as i64, || format!("{counted} events are counted"));
        let ordered = entries.windows(2).all(|pair| pair[0].at <= pair[1].at);
        self.demand(ordered, || "time goes back".into());
        let firsts = entries.iter().filter(|entry| entry.kind == "run.started").count();
        self.demand(firsts == 1, || format!("it started {firsts} times"));
        let end = entries.iter().position(|entry| terminal(entry).is_some());
        self.demand(end.is_none_or(|end| end + 1 == entries.len()), || "it goes on behind its end".into());
        let ended = entries.last().and_then(terminal);
        let open = ["running", "cancelling"].contains(&self.journal.status.as_str());
        let agrees = ended.map_or(open, |ended| ended == self.journal.status);
        self.demand(agrees, || format!("the columns say {}, the journal {ended:?}", self.journal.status));
    }

    /// It ended as its kind does, or as somebody asked.
    fn end(&mut self, kind: Kind, known: Option<&Known>) {
        let Some(last) = self.journal.entries.last() else {
            return;
        };
        let Some(ended) = terminal(last) else {
            return;
        };
        if ended != "cancelled" {
            let own = kind.end();
            return self.demand(own == Some(ended), || format!("it should have ended {own:?}"));
        }
        let reason = last.payload["reason"].as_str().unwrap_or_default();
        let asked = reason == SWEEP || known.is_some_and(|known| known.reasons.iter().any(|it| it == reason));
        self.demand(asked, || format!("nobody asked to cancel it for '{reason}'"));
    }

    fn lives(&self) -> BTreeMap<&'a str, NodeLife<'a>> {
        let mut lives: BTreeMap<&str, NodeLife<'_>> = BTreeMap::new();
        for entry in &self.journal.entries {
            let Some(node) = entry.node.as_deref() else {
                continue;
            };
            let life = lives.entry(node).or_default();
            match entry.kind.as_str() {
                "node.started" => life.started.push(entry),
                _ => life.settled.push(entry),
            }
        }
        lives
    }

    /// Each node began once and ended once, with the right outputs, and no delay was cut short.
    fn nodes(&mut self, start: &Start, lives: &BTreeMap<&str, NodeLife<'_>>) {
        let ended = self.journal.entries.last().and_then(terminal).is_some();
        for (node, life) in lives {
            let [started] = life.started[..] else {
                let times = life.started.len();
                self.demand(false, || format!("{node} started {times} times"));
                continue;
            };
            let once = started.payload["execution"] == 1;
            self.demand(once, || format!("{node} was executed again"));
            let settled = life.settled.len();
            self.demand(settled <= 1, || format!("{node} ended {settled} times"));
            self.demand(!ended || settled == 1, || format!("{node} never ended"));
            if let Some(end) = life.settled.first() {
                self.demand(started.sequence < end.sequence, || format!("{node} ended before it started"));
                self.delay(start, node, started, end);
                self.outputs(node, started, end);
            }
        }
        self.nothing_starts_when_ending();
    }

    fn delay(&mut self, start: &Start, node: &str, started: &Entry, end: &Entry) {
        let Some(until) = started.payload["until"].as_i64() else {
            let waits = node.starts_with("wait");
            return self.demand(!waits, || format!("{node} did not wait"));
        };
        let ms = match node {
            "wait-hour" => HOUR_MS,
            "wait-b" => start.b,
            _ => start.a,
        };
        self.demand(until == started.at + ms as i64, || format!("{node} should have waited {ms} ms"));
        let early = end.kind == "node.completed" && end.at < until;
        self.demand(!early, || format!("{node} went on {} ms early", until - end.at));
    }

    fn outputs(&mut self, node: &str, started: &Entry, end: &Entry) {
        let identity = started.payload["typeId"] == "core.identity" && end.kind == "node.completed";
        let given = &end.payload["outputs"]["token"];
        let token = &self.journal.entries[0].payload["tags"][0];
        self.demand(!identity || given == token, || format!("{node} gave {given} for {token}"));
    }

    /// A failure or a cancellation ends what is under way, and begins nothing.
    fn nothing_starts_when_ending(&mut self) {
        let entries = &self.journal.entries;
        let ending = entries
            .iter()
            .position(|entry| ["run.cancelling", "node.failed", "node.cancelled"].contains(&&*entry.kind));
        let started = entries.iter().rposition(|entry| entry.kind == "node.started");
        if let (Some(ending), Some(started)) = (ending, started) {
            self.demand(started < ending, || "a node started while it was ending".into());
        }
    }

    /// A node begins only behind everything that leads to it, and a completed run has done it all.
    fn edges(&mut self, kind: Kind, lives: &BTreeMap<&str, NodeLife<'_>>) {
        let definition = kind.definition();
        let completed = |node: &str| {
            let settled = lives.get(node).and_then(|life| life.settled.first());
            settled.filter(|end| end.kind == "node.completed").map(|end| end.sequence)
        };
        for edge in definition["edges"].as_array().unwrap() {
            let (from, to) = (&edge["sourceNodeId"], &edge["targetNodeId"]);
            let (from, to) = (from.as_str().unwrap(), to.as_str().unwrap());
            let Some(begun) = lives.get(to).and_then(|life| life.started.first()) else {
                continue;
            };
            let before = completed(from).is_some_and(|end| end < begun.sequence);
            self.demand(before, || format!("{to} did not wait for {from}"));
        }
        if self.journal.status == "completed" {
            let nodes = definition["nodes"].as_array().unwrap();
            let all = nodes.iter().all(|node| completed(node["id"].as_str().unwrap()).is_some());
            self.demand(all, || "it completed without some of its nodes".into());
        }
    }

    /// Nothing that a client was told has become untrue.
    fn told(&mut self, known: &Known) {
        let last = self.journal.entries.len() as i64 - 1;
        self.demand(known.sequence <= last, || format!("event {} was shown", known.sequence));
        let happened: BTreeMap<Moment, i64> = self
            .journal
            .entries
            .iter()
            .map(|entry| (Moment::of(&entry.kind, entry.node.as_deref()), entry.at))
            .collect();
        for (moment, at) in &known.moments {
            let kept = happened.get(moment);
            self.demand(kept == Some(at), || format!("{moment:?} was shown at {at}"));
        }
        let ended = known.ended.as_deref();
        let status = &self.journal.status;
        self.demand(ended.is_none_or(|ended| ended == status), || {
            format!("it was said to have ended {ended:?}")
        });
        let stopping = ["cancelling", "cancelled"].contains(&status.as_str());
        self.demand(!known.cancelled || stopping, || "its cancellation was acknowledged".into());
    }
}

/// The reason with which the test itself cancels what would wait for an hour.
pub(super) const SWEEP: &str = "sweep";

/// The status that a terminal event brings.
fn terminal(entry: &Entry) -> Option<&'static str> {
    match entry.kind.as_str() {
        "run.completed" => Some("completed"),
        "run.failed" => Some("failed"),
        "run.cancelled" => Some("cancelled"),
        _ => None,
    }
}
