//! `core.conversationGate`: opens a conversation, takes turns in it, closes it, or any of these.

use super::Bodied;
use crate::event::Failure;
use crate::interrupt::{NodeContext, Stop};
use crate::limits::CONVERSATION_TURNS_MAX;
use crate::perform::Product;
use crate::{Json, JsonMap};

/// What a gate may do, in words. The first is what it does if nothing is said.
pub(crate) const LIFECYCLES: [&str; 6] =
    ["open-exchange-close", "open", "exchange", "close", "open-exchange", "exchange-close"];

/// What is asked for a turn if nothing is said.
const PROMPT: &str = "Your turn";

/// What a mock says at each of its turns.
const MOCKED: &str = "mock answer";

/// What a gate is going to do.
struct Plan {
    opens: bool,
    turns: usize,
    closes: bool,
}

impl Plan {
    fn read(config: &JsonMap) -> Result<Self, String> {
        let lifecycle = match config.get("lifecycle") {
            None => LIFECYCLES[0].to_owned(),
            Some(told) => told.parse::<String>().unwrap_or_default(),
        };
        if !LIFECYCLES.contains(&lifecycle.as_str()) {
            return Err(format!("'lifecycle' is one of {}", LIFECYCLES.join(", ")));
        }
        let does = |what: &str| lifecycle.split('-').any(|word| word == what);
        let turns = if does("exchange") { turn_count(config)? } else { 0 };
        Ok(Self { opens: does("open"), turns, closes: does("close") })
    }
}

/// As many turns as are said, or as there are prompts, or one.
fn turn_count(config: &JsonMap) -> Result<usize, String> {
    let prompts = config.get("prompts").map(Json::parse::<Vec<String>>);
    let listed = match prompts {
        None => 1,
        Some(Ok(list)) if !list.is_empty() => list.len() as i64,
        Some(_) => return Err("'prompts' is a list of texts, one for each turn".to_owned()),
    };
    let told = config.get("turnCount").map(|told| told.parse::<i64>().unwrap_or(0));
    match told.unwrap_or(listed) {
        count @ 1..=CONVERSATION_TURNS_MAX => Ok(count as usize),
        _ => Err(format!("'turnCount' is a whole number from 1 to {CONVERSATION_TURNS_MAX}")),
    }
}

/// What is asked at a turn: its own prompt, or the one for all of them, or what the conversation began with.
fn prompt(config: &JsonMap, turn: usize) -> Json {
    let listed = config.get("prompts").and_then(|list| list.parse::<Vec<Json>>().ok());
    let own = listed.and_then(|list| list.into_iter().nth(turn));
    let other = ["prompt", "initialPrompt", "title"].into_iter().find_map(|key| config.get(key).cloned());
    own.or(other).unwrap_or_else(|| Json::of(PROMPT))
}

/// A payload of one of the three kinds.
fn payload(kind: &str, id: Option<&Json>, members: &[(&str, Option<Json>)], timeout: Option<&Json>) -> Json {
    let mut data = JsonMap::new();
    data.extend(id.map(|id| ("conversationId".to_owned(), id.clone())));
    for (key, value) in members {
        data.extend(value.clone().map(|value| ((*key).to_owned(), value)));
    }
    let mut asked = JsonMap::from([
        ("kind".to_owned(), Json::of(&format!("conversation.{kind}"))),
        ("data".to_owned(), Json::of(&data)),
    ]);
    asked.extend(timeout.map(|ms| ("timeoutMs".to_owned(), ms.clone())));
    Json::of(&asked)
}

fn start(config: &JsonMap, id: Option<&Json>) -> Json {
    let given = |key: &str| config.get(key).cloned();
    payload("start", id, &[("title", given("title")), ("initialPrompt", given("initialPrompt"))], None)
}

fn exchange(config: &JsonMap, id: &Json, turn: usize) -> Json {
    let members =
        [("prompt", Some(prompt(config, turn))), ("outcomeSchema", config.get("outcomeSchema").cloned())];
    payload("exchange", Some(id), &members, config.get("timeoutMs"))
}

fn close(config: &JsonMap, id: &Json) -> Json {
    payload("close", Some(id), &[("reason", config.get("reason").cloned())], None)
}

/// What is asked, as far as that can be told from the config alone.
pub(super) fn foreseen(config: &JsonMap) -> Vec<Json> {
    let Ok(plan) = Plan::read(config) else { return Vec::new() };
    let stands_in = Json::of("-");
    let id = config.get("conversationId");
    let mut asked = Vec::new();
    if plan.opens {
        asked.push(start(config, id));
    }
    asked.extend((0..plan.turns).map(|turn| exchange(config, id.unwrap_or(&stands_in), turn)));
    if plan.closes {
        asked.push(close(config, id.unwrap_or(&stands_in)));
    }
    asked
}

/// What is wrong with a config that can be read as it is.
pub(crate) fn objection(config: &JsonMap) -> Option<String> {
    Plan::read(config).err()
}

/// The body: it is executed from the top whenever a turn was taken.
pub(super) fn hold(
    config: &JsonMap,
    node: &str,
    mocks: bool,
    context: &mut NodeContext<'_>,
) -> Result<Bodied, Stop> {
    let invalid = |message: String| Stop::Failed(Failure::new("invalid_config", message));
    let plan = Plan::read(config).map_err(|message| invalid(format!("node '{node}': {message}")))?;
    let given = config.get("conversationId").filter(|id| id.type_name() != "null");
    let minted = plan.opens.then(|| Json::of(&context.next_conversation()));
    let Some(id) = given.cloned().or(minted) else {
        let message = format!("node '{node}' opens no conversation; say in which it is with conversationId");
        return Err(invalid(message));
    };
    if plan.opens {
        context.interrupt(&start(config, given))?;
    }
    let mocked = config.get("mockAutoResume").is_some_and(|on| on.text() == "true") && mocks;
    context.mocked = mocked.then(|| Json::of(MOCKED));
    let mut turns = Vec::with_capacity(plan.turns);
    for turn in 0..plan.turns {
        let outcome = context.interrupt(&exchange(config, &id, turn))?;
        turns.push(serde_json::json!({ "prompt": prompt(config, turn), "outcome": outcome }));
    }
    if plan.closes {
        context.interrupt(&close(config, &id))?;
    }
    let last = turns.last().map(|turn| turn["outcome"].clone());
    let mut outputs =
        JsonMap::from([("conversationId".to_owned(), id), ("turns".to_owned(), Json::of(&turns))]);
    outputs.extend(last.map(|outcome| ("outcome".to_owned(), Json::of(&outcome))));
    Ok(Bodied::Done(Product::of(Some(Json::of(&outputs)))))
}
