//! Decisions of agents: one that its agent is not sure enough of waits for somebody to ratify it.

use crate::command::Draft;
use crate::event::{AgentDecided, NodeEvent};
use crate::interrupt::Ask;
use crate::limits::{AGENT_NAME_CHARS_MAX, ASK_BYTES_MAX};
use crate::{InterruptKind, Json, JsonMap, NodeIx, Rejection, Run};

/// How sure an agent has to be if its run does not say otherwise (OpenWOP's threshold).
pub(crate) const THRESHOLD: f64 = 0.7;

/// The run's option that says otherwise.
const OPTION: &str = "escalationThreshold";

/// How sure an agent says that it is.
#[derive(Clone, Debug, PartialEq)]
pub enum Confidence {
    /// It does not say.
    Untold,
    /// So much, from 0 to 1.
    Told(f64),
    /// It says something that means nothing, which counts as nothing and is remembered.
    Faulty(String),
}

impl Confidence {
    /// Reads what an agent says. JSON has no word for what is no number, so it comes as text, or as a number that is too
    /// large for one.
    pub fn read(told: Option<&Json>) -> Result<Self, String> {
        let Some(told) = told.filter(|told| told.type_name() != "null") else { return Ok(Self::Untold) };
        if let Ok(text) = told.parse::<String>() {
            let odd = ["NaN", "Infinity", "-Infinity"].contains(&text.as_str());
            return if odd { Ok(Self::Faulty(text)) } else { Err(unfit()) };
        }
        match told.text().parse::<f64>() {
            Ok(number) if !number.is_finite() => Ok(Self::Faulty(told.text().to_owned())),
            Ok(number) if (0.0..=1.0).contains(&number) => Ok(Self::Told(number)),
            _ => Err(unfit()),
        }
    }

    /// Whether somebody has to ratify what was decided.
    fn is_below(&self, threshold: f64) -> bool {
        matches!(self, Self::Told(number) if *number < threshold)
    }
}

fn unfit() -> String {
    "'confidence' is a number from 0 to 1, or left out".to_owned()
}

/// A decision, and how sure its agent is.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The agent.
    pub agent: String,
    /// What it decided.
    pub decision: Json,
    /// How sure it is.
    pub confidence: Confidence,
}

impl Judgement {
    /// What is asked of whoever ratifies it, if anybody has to.
    pub(crate) fn ask(&self, key: Option<String>, threshold: f64) -> Ask {
        let observed = if let Confidence::Told(number) = self.confidence { number } else { threshold };
        let data = JsonMap::from([
            ("agentId".to_owned(), Json::of(&agent_id(&self.agent))),
            ("threshold".to_owned(), Json::of(&threshold)),
            ("observed".to_owned(), Json::of(&observed)),
            ("decision".to_owned(), self.decision.clone()),
        ]);
        let data = Json::of(&data);
        Ask { kind: InterruptKind::LowConfidence, key, resume_schema: None, timeout_ms: None, data }
    }

    /// Whether somebody has to ratify it.
    pub(crate) fn is_below(&self, threshold: f64) -> bool {
        self.confidence.is_below(threshold)
    }

    /// What is recorded of it.
    pub(crate) fn event(self, known: (String, u32, bool), escalated: bool, sensitive: bool) -> AgentDecided {
        let (key, call, keyless) = known;
        let (confidence, faulty) = match self.confidence {
            Confidence::Untold => (None, None),
            Confidence::Told(number) => (Some(number), None),
            Confidence::Faulty(text) => (None, Some(format!("the confidence is {text}, which says nothing"))),
        };
        let agent_id = agent_id(&self.agent);
        let decision = self.decision;
        AgentDecided { agent_id, decision, confidence, faulty, key, call, keyless, escalated, sensitive }
    }

    /// Whether it can be kept.
    pub(crate) fn check_size(&self) -> Result<(), String> {
        let bytes = self.decision.text().len();
        if bytes <= ASK_BYTES_MAX / 2 {
            return Ok(());
        }
        let most = ASK_BYTES_MAX / 2;
        Err(format!(
            "'decision' has {bytes} bytes, and {most} are allowed; keep it elsewhere and say where it is"
        ))
    }
}

/// An agent's name as OpenWOP takes it: it has at least three characters there.
fn agent_id(name: &str) -> String {
    let name = if name.chars().count() < 3 { format!("agent:{name}") } else { name.to_owned() };
    name.chars().take(AGENT_NAME_CHARS_MAX).collect()
}

/// Refuses a threshold that no confidence could be held against.
pub(crate) fn check_threshold(given: &JsonMap) -> Result<(), Rejection> {
    let Some(told) = given.get(OPTION).filter(|told| told.type_name() != "null") else { return Ok(()) };
    match told.text().parse::<f64>() {
        Ok(number) if (0.0..=1.0).contains(&number) => Ok(()),
        _ => {
            let message = format!("'configurable.{OPTION}' is a number from 0 to 1");
            Err(Rejection::invalid(format!("configurable.{OPTION}"), message))
        }
    }
}

impl Run {
    /// How sure its agents have to be.
    pub fn escalation_threshold(&self) -> f64 {
        let given = self.state.configurable.as_ref().and_then(|given| given.parse::<JsonMap>().ok());
        let told = given.and_then(|mut given| given.remove(OPTION)?.text().parse::<f64>().ok());
        told.filter(|number| (0.0..=1.0).contains(number)).unwrap_or(THRESHOLD)
    }

    /// Tells what an agent has decided.
    pub(crate) fn tell_decided(&mut self, draft: &mut Draft, ix: NodeIx, decided: AgentDecided) {
        let cause = draft.last_sequence();
        self.emit_node(draft, ix, NodeEvent::AgentDecided(Box::new(decided)), cause);
    }

    /// An agent has decided: what asks for the decision again gets it, unless somebody has to ratify it first.
    pub(crate) fn fold_agent_decided(&mut self, ix: NodeIx, decided: &AgentDecided) {
        if decided.escalated {
            return;
        }
        self.state.nodes[ix as usize].asked += 1;
        let answered = crate::interrupt::Answered::decided(ix, decided);
        self.state.answers.insert(decided.key.clone(), answered);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(told: &Value) -> Result<Confidence, String> {
        Confidence::read(Some(&Json::of(told)))
    }

    #[test]
    fn a_confidence_is_a_number_from_0_to_1_or_one_that_says_nothing() {
        assert_eq!(Confidence::read(None), Ok(Confidence::Untold));
        assert_eq!(read(&json!(null)), Ok(Confidence::Untold));
        assert_eq!(read(&json!(0.25)), Ok(Confidence::Told(0.25)));
        let huge: Json = serde_json::from_str("1e999").expect("it is JSON, though no number holds it");
        assert_eq!(Confidence::read(Some(&huge)), Ok(Confidence::Faulty("1e999".to_owned())));
        for odd in ["NaN", "Infinity", "-Infinity"] {
            assert_eq!(read(&json!(odd)), Ok(Confidence::Faulty(odd.to_owned())));
        }
        for bad in [json!(1.5), json!(-0.1), json!("high"), json!(true), json!([0.5])] {
            assert!(read(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_short_name_of_an_agent_is_made_longer() {
        assert_eq!(agent_id("ab"), "agent:ab");
        assert_eq!(agent_id("planner"), "planner");
        assert_eq!(agent_id(&"x".repeat(300)).len(), 256);
    }
}
