//! Nodes that are done by hand, over HTTP: somebody claims one, asks if they have to, and says what came of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use abide_core::{
    Claim, Command, Failure, Hand, HandAsk, HandOp, InterruptId, Json as RawJson, JsonMap, NodePhase, Run,
    RunId, Unclaimed,
};
use abide_engine::Reply;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::idempotency::{Repeatable, once};
use crate::openwop::control::encoded;
use crate::openwop::runs::RunPath;
use crate::{shape, time};

/// What somebody does about a node that is done by hand.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ByHand {
    /// The node; the run's only one of the kind if it is left out.
    node_id: Option<String>,
    /// Who: the agent that has it, or wants it.
    #[schemars(length(min = 1, max = 256))]
    agent: String,
    /// What.
    #[schemars(with = "Op")]
    op: RawJson,
}

/// What somebody does about a node that is done by hand.
///
/// Its kind stands beside its fields. What is carried as it is can't be looked at twice, so [`Op::parse`] takes the kind
/// out first.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
#[schemars(rename = "HandOp", tag = "kind")]
enum Op {
    /// To have it. Whoever is refused because of a run before it that waits for people gets it by itself later.
    Claim {},
    /// To give it back.
    Release {},
    /// To ask people, and wait for the answer.
    Ask {
        /// What is asked: an interrupt's payload.
        #[schemars(with = "shape::Object")]
        payload: RawJson,
        /// How it goes on if nobody answers: a ladder.
        #[schemars(with = "Option<shape::Object>")]
        ladder: Option<RawJson>,
        /// Who may answer: those whom the node names if this is left out, and everybody if nobody is named.
        respondents: Option<Vec<String>>,
    },
    /// To be through with it.
    Complete {
        /// What came of it.
        #[schemars(with = "Option<shape::Object>")]
        outputs: Option<RawJson>,
    },
    /// To give it up.
    Fail {
        /// Stable, for programs.
        code: Option<String>,
        /// For people: what happened.
        message: String,
    },
}

/// A node that is done by hand, as it stands.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "HandNode")]
pub(crate) struct NodeView {
    #[schemars(with = "shape::RunName")]
    run_id: RunId,
    node_id: String,
    /// How the run stands.
    run_status: &'static str,
    /// How the node stands.
    #[schemars(with = "shape::NodeStatus")]
    status: NodePhase,
    /// Who has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    /// Who gets it next.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    waiting: Vec<String>,
    /// What goes in, for whoever has it.
    #[schemars(with = "shape::Object")]
    inputs: JsonMap,
    /// What is asked at the moment.
    #[schemars(with = "Option<shape::InterruptName>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupt_id: Option<InterruptId>,
}

impl Op {
    fn parse(given: &RawJson) -> Result<Self> {
        let wrong = |why: &dyn std::fmt::Display| {
            ApiError::invalid("op", format!("'op' is not what this endpoint takes: {why}"))
        };
        let mut fields: JsonMap = given.parse().map_err(|error| wrong(&error))?;
        let kind = fields.remove("kind").and_then(|kind| kind.parse::<String>().ok());
        let kind = kind.ok_or_else(|| wrong(&"'kind' says what is done, and is missing"))?;
        RawJson::of(&BTreeMap::from([(kind, fields)])).parse().map_err(|error| wrong(&error))
    }

    fn read(self) -> Result<HandOp> {
        Ok(match self {
            Self::Claim {} => HandOp::Claim,
            Self::Release {} => HandOp::Release,
            Self::Ask { payload, ladder, respondents } => {
                HandOp::Ask(Box::new(HandAsk { payload, ladder, respondents }))
            }
            Self::Complete { outputs } => HandOp::Complete { outputs },
            Self::Fail { code, message } => {
                let code = code.unwrap_or_else(|| "node_execution_failed".to_owned());
                let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
                if !(1..=64).contains(&code.len()) || !code.bytes().all(plain) {
                    let told = "'code' has 1 to 64 lower-case letters, digits and underscores";
                    return Err(ApiError::invalid("op.code", told));
                }
                let shortened =
                    message.chars().take(abide_core::limits::REASON_CHARS_MAX).collect::<String>();
                HandOp::Fail(Failure::new(&code, shortened))
            }
        })
    }
}

/// What became of it, seen in the run that it was decided on.
fn outcome(
    run: &Run,
    named: Option<&str>,
    agent: &str,
    claims: bool,
) -> std::result::Result<Vec<u8>, Unclaimed> {
    let ix = match run.hand_node(named) {
        Ok(ix) => ix,
        Err(_) => return Ok(Vec::new()),
    };
    let claim = run.claim(ix).cloned().unwrap_or_default();
    if claims
        && claim.agent.as_deref() != Some(agent)
        && let Some(why) = run.unclaimed(ix)
    {
        return Err(why);
    }
    Ok(encoded(&view(run, ix, claim)))
}

fn view(run: &Run, ix: u32, claim: Claim) -> NodeView {
    let node = run.node(ix);
    let hidden = node.sensitive;
    NodeView {
        run_id: run.key().id,
        node_id: run.graph().describe(ix).0.to_string(),
        run_status: run.status().name(),
        status: node.phase,
        agent: claim.agent,
        waiting: claim.waiting,
        inputs: node.inputs.clone().filter(|_| !hidden).unwrap_or_default(),
        interrupt_id: run.asked_by_hand(ix),
    }
}

/// Does something about a node that is done by hand.
pub(crate) async fn act(
    State(app): State<Arc<App>>,
    principal: Principal,
    run: RunPath,
    Repeatable(body, ticket): Repeatable<ByHand>,
) -> Result<Response> {
    let key = run.of(&principal)?;
    let ByHand { node_id, agent, op } = body;
    let op = Op::parse(&op)?;
    let claims = matches!(op, Op::Claim {});
    let hand =
        Hand { node: node_id.clone(), agent: agent.clone(), principal: Some(principal.name), op: op.read()? };
    let command = Command::Hand(Box::new(hand));
    let work = {
        let app = app.clone();
        move |blank| async move {
            let refused = Arc::new(std::sync::Mutex::new(None));
            let noted = refused.clone();
            let answer = move |run: &Run| match outcome(run, node_id.as_deref(), &agent, claims) {
                Ok(body) => {
                    *noted.lock().expect("no thread panics holding this") = None;
                    body
                }
                Err(why) => {
                    *noted.lock().expect("no thread panics holding this") = Some(why);
                    Vec::new()
                }
            };
            let told = app.engine().ask_for(key, &command, Reply::new(blank, answer)).await?;
            let refused = refused.lock().expect("no thread panics holding this").take();
            match refused {
                Some(why) => Err(unclaimed(&why)),
                None => Ok(told),
            }
        }
    };
    let endpoint = format!("byHand {}", key.id);
    once(&app, key.tenant, endpoint, ticket, StatusCode::OK, work).await
}

/// Why somebody can't have a node yet.
pub(crate) fn unclaimed(why: &Unclaimed) -> ApiError {
    let message = abide_core::Rejection::Unclaimed(why.clone()).to_string();
    match why {
        Unclaimed::UpstreamSuspended { task_id, phase_name, suspended_intent_id, expected_resume_at } => {
            ApiError::new("upstream_intent_suspended", message)
                .with("error", "UpstreamIntentSuspendedError")
                .with("reason", "upstream_intent_suspended")
                .with("task_id", task_id.as_str())
                .with("phase_name", phase_name.as_str())
                .with("suspended_intent_id", suspended_intent_id.to_string())
                .with("expected_resume_at", expected_resume_at.map(time::rfc3339))
        }
        Unclaimed::Unresolvable(inputs) => ApiError::new("unresolvable_input", message)
            .with("error", "UnresolvableInputError")
            .with("unresolvable", inputs.clone()),
        Unclaimed::TooLarge => ApiError::invalid("inputs", message),
        Unclaimed::Blocked(reason) => ApiError::new("run_blocked", message).with("reason", reason.name()),
        Unclaimed::Draft => ApiError::new("run_blocked", message).with("reason", "draft"),
        Unclaimed::Held => ApiError::new("run_blocked", message).with("reason", "held"),
        Unclaimed::NotReached => ApiError::new("run_blocked", message).with("reason", "not_reached"),
    }
}
