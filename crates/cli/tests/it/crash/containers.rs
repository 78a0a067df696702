//! The timeline of the compliance workflow: three phases, a question in the middle that nobody answers at first, and a
//! group that looks on. Every row of it is told, asked for and checked; and the same with the server killed after every
//! row, before anything that follows from it was told to anybody.

use serde_json::{Value, json};

use crate::receiver::{Post, Receiver};
use crate::support::{PATIENCE, Server, Site, verify};

/// An hour.
const HOUR: i64 = 3_600_000;

/// As OpenIntent writes it.
const COMPLIANCE: &str = r#"openintent: "1.0"
info: { name: "Compliance" }
types: { Level: { enum: [low, high] } }
workflow:
  fetch_data:
    title: "Fetch Data"
    assign: fetcher
    outputs: { rows: array }
  compliance_review:
    title: "Compliance Review"
    assign: reviewer
    depends_on: [fetch_data]
    inputs: { rows: fetch_data.rows }
    outputs: { approved: boolean, level: Level, note: { type: string, required: false } }
  generate_report:
    title: "Generate Report"
    assign: reporter
    depends_on: [compliance_review]
    inputs: { ok: compliance_review.approved }
    outputs: { url: string }
"#;

/// What is done, one after the other, and at which second.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Row {
    /// The workflow begins, its phases make a group, and the first of them is done.
    Begun,
    /// T+0: whoever reviews asks people.
    Asked,
    /// T+3600: nobody has answered, so people are told again.
    Reminded,
    /// T+5400: somebody answers.
    Answered,
    /// T+5400: the review is done.
    Reviewed,
    /// T+5400: somebody claims the report.
    Claimed,
    /// T+5500: the report is done, and the workflow with it.
    Reported,
}

const ROWS: [Row; 7] =
    [Row::Begun, Row::Asked, Row::Reminded, Row::Answered, Row::Reviewed, Row::Claimed, Row::Reported];

/// The workflow, its phases, the group, and those who are told.
struct Story {
    site: Site,
    server: Server,
    chat: Receiver,
    email: Receiver,
    flow: String,
    group: String,
    /// The runs of the three phases, in their order.
    phases: [String; 3],
    interrupt: String,
}

impl Story {
    async fn new() -> Self {
        let (chat, email) = (Receiver::start().await, Receiver::start().await);
        let site = Site::new();
        let channel = |name: &str, url: &str| {
            let secret = "s".repeat(32);
            format!("[channels.{name}]\ntype = \"webhook\"\nurl = \"{url}\"\nsecret = \"{secret}\"\n")
        };
        let channels = channel("chat", &chat.url) + &channel("email", &email.url);
        std::fs::write(site.path("abide.toml"), format!("[notify]\ndefault = \"chat\"\n{channels}")).unwrap();
        std::fs::write(site.path("compliance.yaml"), COMPLIANCE).unwrap();
        let server = start(&site);
        let pushed = server.cli(&["workflow", "push", site.path("compliance.yaml").to_str().unwrap()]);
        assert!(pushed.status.success(), "{pushed:?}");
        let (flow, group, interrupt) = Default::default();
        Self { site, server, chat, email, flow, group, phases: Default::default(), interrupt }
    }

    fn kill_and_start(&mut self) {
        self.server.die();
        self.server = start(&self.site);
    }

    /// Waits until nobody has anything to tell anybody, people included.
    async fn settle(&self) {
        self.site.settle(&self.server).await;
        self.site.settle_messages(&self.server).await;
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let (status, body) = self.server.post(path, &body).await;
        assert!(status.is_success(), "{path}: {status} {body}");
        body
    }

    async fn get(&self, path: &str) -> Value {
        let (status, body) = self.server.get(path).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    async fn by_hand(&self, phase: usize, agent: &str, op: Value) -> Value {
        let path = format!("/v1/runs/{}/hand", self.phases[phase]);
        self.post(&path, json!({ "agent": agent, "op": op })).await
    }

    /// What a run has to do with others.
    async fn graph(&self, run: &str) -> Value {
        self.get(&format!("/v1/runs/{run}/graph")).await
    }

    async fn act(&mut self, row: Row) {
        match row {
            Row::Begun => self.begin().await,
            Row::Asked => self.ask().await,
            Row::Reminded => self.server.advance(HOUR).await,
            Row::Answered => {
                self.server.advance(HOUR / 2).await;
                let path = format!("/v1/runs/{}/interrupts/self", self.phases[1]);
                self.post(&path, json!({ "resumeValue": { "answers": { "answer": "yes" } } })).await;
            }
            Row::Reviewed => {
                let outputs = json!({ "approved": true, "level": "low" });
                self.by_hand(1, "reviewer", json!({ "kind": "complete", "outputs": outputs })).await;
            }
            Row::Claimed => {
                let claimed = self.by_hand(2, "reporter", json!({ "kind": "claim" })).await;
                assert_eq!(claimed["inputs"], json!({ "ok": true }), "what the review produced");
            }
            Row::Reported => {
                self.server.advance(100_000).await;
                let outputs = json!({ "url": "https://reports.example/q3" });
                self.by_hand(2, "reporter", json!({ "kind": "complete", "outputs": outputs })).await;
            }
        }
    }

    async fn begin(&mut self) {
        self.flow = self.server.start_run("compliance", json!({})).await;
        self.settle().await;
        let phases = self.graph(&self.flow).await["phases"].clone();
        let run = |at: usize| phases[at]["runId"].as_str().unwrap_or_else(|| panic!("{phases}")).to_owned();
        self.phases = [run(0), run(1), run(2)];
        let clock = self.get("/v1/dev/clock").await["nowMs"].as_i64().unwrap();
        let deadline = jiff::Timestamp::from_millisecond(clock + 12 * HOUR).unwrap().to_string();
        let governance = json!({ "deadline": deadline });
        let made =
            self.post("/v1/groups", json!({ "name": "Q3 compliance", "governance": governance })).await;
        self.group = made["groupId"].as_str().unwrap().to_owned();
        let members = format!("/v1/groups/{}/members", self.group);
        for phase in &self.phases {
            self.post(&members, json!({ "runId": phase })).await;
        }
        self.by_hand(0, "fetcher", json!({ "kind": "claim" })).await;
        self.by_hand(0, "fetcher", json!({ "kind": "complete", "outputs": { "rows": [1, 2] } })).await;
        self.settle().await;
        let claimed = self.by_hand(1, "reviewer", json!({ "kind": "claim" })).await;
        assert_eq!(claimed["inputs"], json!({ "rows": [1, 2] }));
    }

    async fn ask(&mut self) {
        let question =
            json!({ "id": "answer", "question": "Sign off?", "schema": { "enum": ["yes", "no"] } });
        let policy = json!({
            "max_attempts": 3, "interval_seconds": 3600, "final_fallback_policy": "fail",
            "escalation_ladder": [{ "attempt": 2, "channel_hint": "email" }],
        });
        let asked = json!({
            "kind": "ask", "ladder": { "retry_policy": policy },
            "payload": { "kind": "clarification", "data": { "questions": [question] } },
        });
        let asked = self.by_hand(1, "reviewer", asked).await;
        self.interrupt = asked["interruptId"].as_str().unwrap_or_else(|| panic!("{asked}")).to_owned();
    }
}

fn start(site: &Site) -> Server {
    let config = site.path("abide.toml");
    site.start(&["--test-clock", "--config", config.to_str().unwrap()])
}

/// What is to be seen in all four containers.
#[derive(Debug, PartialEq)]
struct Sight {
    /// How each phase stands as a task, and the status of its run, in Abide's words.
    phases: [(&'static str, &'static str); 3],
    /// Why the last run does not start.
    blocked: Option<&'static str>,
    /// Whether the review waits for people.
    suspended: bool,
    /// Whether the workflow, and with it the group's members, are through.
    completed: bool,
}

impl Sight {
    fn after(row: Row) -> Self {
        const DONE: (&str, &str) = ("completed", "completed");
        const HELD: (&str, &str) = ("running", "running");
        const KEPT: (&str, &str) = ("pending", "blocked");
        const ASKS: (&str, &str) = ("blocked", "waiting-input");
        let (phases, blocked) = match row {
            Row::Begun | Row::Answered => ([DONE, HELD, KEPT], Some("dependency_incomplete")),
            Row::Asked | Row::Reminded => ([DONE, ASKS, KEPT], Some("dependency_suspended")),
            Row::Reviewed => ([DONE, DONE, ("ready", "running")], None),
            Row::Claimed => ([DONE, DONE, HELD], None),
            Row::Reported => ([DONE, DONE, DONE], None),
        };
        let suspended = matches!(row, Row::Asked | Row::Reminded);
        Self { phases, blocked, suspended, completed: row == Row::Reported }
    }
}

/// Everything that can be seen at a row, in all containers, by what they tell of each other.
async fn check(story: &Story, row: Row) {
    let sight = Sight::after(row);
    let flow = story.graph(&story.flow).await;
    let since = check_tasks(story, &flow, &sight, row);
    check_runs(story, &sight, row).await;
    check_report(story, &sight, row).await;
    check_group(story, &sight, row).await;
    check_whole(&flow, &sight, row);
    let (chat, email) = match row {
        Row::Begun => (0, 0),
        Row::Asked => (1, 0),
        Row::Reminded => (1, 1),
        // Each of those who were told of the question is told that it is answered.
        _ => (2, 2),
    };
    await_messages(&story.chat, chat).await;
    await_messages(&story.email, email).await;
    if sight.suspended {
        let until = since + 3 * HOUR;
        assert_eq!(moment(&flow["suspended_phases"][0]["expires_at"]), until, "the whole of the ladder");
    }
}

fn moment(text: &Value) -> i64 {
    let read: jiff::Timestamp = text.as_str().unwrap_or_else(|| panic!("{text}")).parse().unwrap();
    read.as_millisecond()
}

/// The workflow's view of its phases. Tells since when the review waits.
fn check_tasks(story: &Story, flow: &Value, sight: &Sight, row: Row) -> i64 {
    let phases = flow["phases"].as_array().unwrap();
    let names: Vec<&str> = phases.iter().map(|phase| phase["status"].as_str().unwrap()).collect();
    let expected: Vec<&str> = sight.phases.iter().map(|(task, _)| *task).collect();
    assert_eq!(names, expected, "{row:?}: {flow}");
    let review = &phases[1];
    let (reason, run) = (&review["blockedReason"], &review["suspendedIntentId"]);
    let listed = &flow["suspended_phases"];
    if !sight.suspended {
        assert_eq!((reason, run, listed), (&Value::Null, &Value::Null, &json!([])), "{row:?}");
        return 0;
    }
    assert_eq!((reason, run), (&json!("intent_suspended"), &json!(story.phases[1])), "{row:?}");
    assert_eq!(listed.as_array().unwrap().len(), 1, "{row:?}: {flow}");
    let listed = &listed[0];
    assert_eq!((&listed["phase_name"], &listed["intent_id"]), (&json!("compliance_review"), run), "{row:?}");
    moment(&listed["suspended_since"])
}

/// Each phase's run by itself.
async fn check_runs(story: &Story, sight: &Sight, row: Row) {
    for (run, (_, status)) in story.phases.iter().zip(sight.phases) {
        let graph = story.graph(run).await;
        assert_eq!(graph["status"], status, "{row:?}: {graph}");
    }
    let review = story.get(&format!("/v1/runs/{}", story.phases[1])).await;
    assert_eq!(review["interrupt"].is_object(), sight.suspended, "{row:?}: {review}");
}

/// The run of the report, which waits for that of the review.
async fn check_report(story: &Story, sight: &Sight, row: Row) {
    let report = story.graph(&story.phases[2]).await;
    assert_eq!(report["blocked"]["reason"].as_str(), sight.blocked, "{row:?}: {report}");
    let upstream = &report["dependsOn"][0];
    assert_eq!(upstream["runId"], story.phases[1], "{report}");
    assert_eq!(upstream["suspendedSince"].is_string(), sight.suspended, "{row:?}: {report}");
    if sight.blocked.is_some() {
        assert_eq!(report["blocked"]["by"], json!([story.phases[1]]), "{row:?}");
    }
    // Nobody claims it while the review waits, and nobody is refused.
    let asked = journal(story, &story.phases[2]).await;
    assert!(asked.iter().all(|(kind, _)| kind != "claim.deferred"), "{row:?}: {asked:?}");
}

/// The group: what somebody made of it, and what its members come to.
async fn check_group(story: &Story, sight: &Sight, row: Row) {
    let group = story.get(&format!("/v1/groups/{}", story.group)).await;
    let aggregate = if sight.completed { "completed" } else { "in_progress" };
    assert_eq!(group["status"], "active", "{row:?}: {group}");
    assert_eq!(group["aggregateStatus"]["status"], aggregate, "{row:?}: {group}");
    assert_eq!(group["aggregateStatus"]["total"], 3, "{row:?}");
    assert_eq!(group["hasSuspendedMembers"], sight.suspended, "{row:?}: {group}");
    assert_eq!(group["suspendedMemberCount"], u64::from(sight.suspended), "{row:?}");
    let told = journal(story, &story.group).await;
    let member = |kind: &str| {
        let of = told.iter().filter(|(known, _)| known == kind);
        of.map(|(_, payload)| payload["run"].clone()).collect::<Vec<_>>()
    };
    let review = json!(story.phases[1]);
    let suspended = if row == Row::Begun { Vec::new() } else { vec![review.clone()] };
    assert_eq!(member("portfolio.member_suspended"), suspended, "{row:?}: {told:?}");
    let has_resumed = !matches!(row, Row::Begun | Row::Asked | Row::Reminded);
    let resumed = if has_resumed { vec![review] } else { Vec::new() };
    assert_eq!(member("portfolio.member_resumed"), resumed, "{row:?}: {told:?}");
}

/// The workflow as a whole, which never takes over what becomes of a phase.
fn check_whole(flow: &Value, sight: &Sight, row: Row) {
    assert_eq!(flow["status"], if sight.completed { "completed" } else { "running" }, "{row:?}: {flow}");
    let children = &flow["aggregateStatus"];
    assert_eq!(children["total"], 3, "{row:?}: {flow}");
    let count = |status: &str| children["by_status"][status].as_u64().unwrap_or(0);
    assert_eq!(count("suspended_awaiting_input"), u64::from(sight.suspended), "{row:?}: {flow}");
    assert_eq!(count("blocked"), u64::from(sight.blocked.is_some()), "{row:?}: {flow}");
    let all: u64 = children["by_status"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
    assert_eq!(all, 3, "{row:?}: {flow}");
}

/// What a journal says so far.
async fn journal(story: &Story, run: &str) -> Vec<(String, Value)> {
    let request = story.server.request(reqwest::Method::GET, &format!("/v1/runs/{run}/journal"));
    let (status, page) = crate::support::answer(request.header("accept", "application/json")).await.unwrap();
    assert_eq!(status, 200, "{page}");
    let events = page["events"].as_array().unwrap().iter();
    events.map(|event| (event["type"].as_str().unwrap().to_owned(), event["payload"].clone())).collect()
}

/// What a channel was told, each message once: one whose sender died is sent again, under its key.
fn messages(receiver: &Receiver) -> Vec<Value> {
    let mut told: Vec<Value> = receiver.heard().iter().map(Post::json).collect();
    told.dedup_by_key(|message| message["id"].clone());
    told
}

async fn await_messages(receiver: &Receiver, count: usize) {
    let began = std::time::Instant::now();
    while messages(receiver).len() < count {
        assert!(began.elapsed() < PATIENCE, "it was told {:?}", messages(receiver));
        tokio::task::yield_now().await;
    }
    assert_eq!(messages(receiver).len(), count, "{:?}", messages(receiver));
}

/// What the journal says of the question, with the second at which it was said.
async fn check_question(story: &Story) {
    let (run, interrupt) = (&story.phases[1], &story.interrupt);
    let ladder = story.get(&format!("/v1/runs/{run}/interrupts/{interrupt}/ladder")).await;
    let events = ladder["events"].as_array().unwrap();
    let asked = moment(&events[0]["at"]);
    let told: Vec<(i64, &str, &Value)> = events
        .iter()
        .map(|event| {
            let second = (moment(&event["at"]) - asked) / 1000;
            (second, event["type"].as_str().unwrap(), &event["payload"])
        })
        .collect();
    let names: Vec<(i64, &str)> = told.iter().map(|(at, name, _)| (*at, *name)).collect();
    let expected = [
        (0, "intent.suspended"),
        (3600, "intent.suspension_renotified"),
        (3600, "intent.suspension_escalated"),
        (5400, "intent.resumed"),
    ];
    assert_eq!(names, expected, "{ladder}");
    let renotified = told[1].2;
    assert_eq!((&renotified["attempt"], &renotified["channel_hint"]), (&json!(2), &json!("email")));
    assert_eq!(told[2].2["attempt"], 2);
}

/// Goes through the timeline. After those rows that `kills` names the server is killed as soon as it has answered.
async fn tell(kills: impl Fn(Row) -> bool) {
    let mut story = Story::new().await;
    for row in ROWS {
        story.act(row).await;
        if kills(row) {
            story.kill_and_start();
        }
        story.settle().await;
        check(&story, row).await;
    }
    check_what_did_not_happen(&story).await;
    check_question(&story).await;
    story.server.stop();
    assert_eq!(verify(&story.site.data()), 5, "the workflow, its three phases and the group");
}

/// Long after all of it, past the deadline of the group, nobody was abandoned and nobody was told a third time.
async fn check_what_did_not_happen(story: &Story) {
    story.server.advance(24 * HOUR).await;
    story.settle().await;
    check(story, Row::Reported).await;
    let asks = [&story.chat, &story.email].map(|receiver| messages(receiver).len() - 1);
    assert_eq!(asks, [1, 1], "beside the word that it is answered, each channel was told once");
    for run in story.phases.iter().chain([&story.flow]) {
        let kinds = journal(story, run).await;
        let never = ["run.cancelled", "interrupt.expired", "run.failed", "claim.deferred"];
        assert!(kinds.iter().all(|(kind, _)| !never.contains(&kind.as_str())), "{kinds:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_compliance_workflow_goes_through_its_timeline_row_by_row() {
    tell(|_| false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_compliance_workflow_comes_out_the_same_with_the_server_killed_after_every_row() {
    tell(|_| true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_compliance_workflow_comes_out_the_same_wherever_the_server_is_killed_once() {
    for only in ROWS {
        tell(move |row| row == only).await;
    }
}
