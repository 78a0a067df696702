//! External events: what is waited for, and whether something that happened is it.

use serde_json::{Map, Value};

use super::answer::{Answer, Refused, refused};
use super::equal::{EXACT_MAX, equal};
use super::form::{Faults, pointer, text};
use crate::fields::Fields;
use crate::limits::ASK_NAME_CHARS_MAX;
use crate::moment::moment;
use crate::{Json, JsonMap, Millis};

/// What the type of an event begins with that is only a point in time.
const SCHEDULED: &str = "scheduled-time:";

/// Checks the data of an external event.
pub(super) fn read_data(mut fields: Fields<'_>) {
    let event_type = text(&mut fields, "eventType", 1..=ASK_NAME_CHARS_MAX);
    if let Some(Err(message)) = event_type.map(|event_type| scheduled(&event_type)) {
        let place = fields.place("eventType");
        fields.findings().problem(place, message);
    }
    let correlation = fields.map("correlation");
    for (key, value) in &correlation {
        if value.parse::<Value>().is_ok_and(|value| has_rounded_number(&value)) {
            let place = fields.place(&format!("correlation.{key}"));
            let message = "a number of this size is not kept exactly and would fit its neighbours; write it as a string";
            fields.findings().problem(place, message);
        }
    }
    fields.finish();
}

/// Whether there is a number that the reader had to round. The JSON reader has bounded the depth.
fn has_rounded_number(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_f64().is_some_and(|number| number.abs() >= EXACT_MAX),
        Value::Array(items) => items.iter().any(has_rounded_number),
        Value::Object(entries) => entries.values().any(has_rounded_number),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

/// When an external event happens by itself, if it is only a point in time.
pub fn scheduled_time(data: &Json) -> Result<Option<Millis>, String> {
    let data: JsonMap = data.parse().map_err(|error| format!("the data can't be read: {error}"))?;
    let event_type = data.get("eventType").and_then(|value| value.parse::<String>().ok());
    event_type.map_or(Ok(None), |event_type| scheduled(&event_type))
}

fn scheduled(event_type: &str) -> Result<Option<Millis>, String> {
    let Some(time) = event_type.strip_prefix(SCHEDULED) else { return Ok(None) };
    let wrong = || format!("after '{SCHEDULED}' a time is expected, as in {SCHEDULED}2026-05-01T10:00Z");
    moment(time).map(Some).ok_or_else(wrong)
}

/// Something that happened, read once and held against many that wait.
#[derive(Clone, Debug)]
pub struct Occurrence {
    /// The submitted value, where keys are looked for first.
    top: Map<String, Value>,
}

const EVENT_PAYLOAD: &str = "eventPayload";

impl Occurrence {
    /// What happened, from the payload of its event. One that can't be read fits nothing.
    pub fn of(event_payload: &Json) -> Option<Self> {
        let mut top = Map::new();
        top.insert(EVENT_PAYLOAD.to_owned(), event_payload.parse().ok()?);
        Some(Self { top })
    }

    /// Whether it is what an interrupt with this data waits for.
    pub fn fits(&self, data: &Json) -> bool {
        correlation(data).is_some_and(|correlation| self.differences(&correlation).next().is_none())
    }

    /// The keys that are not as they have to be.
    fn differences<'c>(&'c self, correlation: &'c Map<String, Value>) -> impl Iterator<Item = &'c str> {
        let inner = self.top.get(EVENT_PAYLOAD).and_then(Value::as_object);
        correlation
            .iter()
            .filter(move |(key, wanted)| {
                let places = [Some(&self.top), inner].into_iter().flatten();
                !places.filter_map(|place| place.get(*key)).any(|found| equal(wanted, found))
            })
            .map(|(key, _)| key.as_str())
    }
}

fn correlation(data: &Json) -> Option<Map<String, Value>> {
    data.parse::<JsonMap>().ok()?.get("correlation")?.parse().ok()
}

/// Whether an event with this payload is what an interrupt with this data waits for.
pub fn correlates(data: &Json, event_payload: &Json) -> bool {
    Occurrence::of(event_payload).is_some_and(|occurrence| occurrence.fits(data))
}

/// Holds an answer against what is waited for. The node receives the event's payload, whichever way it was sent.
pub(super) fn check(data: &Json, value: &Json) -> Result<Answer, Refused> {
    let (Ok(top), Ok(entries)) = (value.parse::<Map<String, Value>>(), value.parse::<JsonMap>()) else {
        let message = "an object is expected: {\"eventPayload\": …}, or the event itself";
        return Err(refused("", message));
    };
    let correlation =
        correlation(data).ok_or_else(|| refused("", "what this interrupt waits for can't be read"))?;
    let occurrence = Occurrence { top };
    let mut faults = Faults::default();
    for key in occurrence.differences(&correlation) {
        let inside = entries.contains_key(EVENT_PAYLOAD) && !entries.contains_key(key);
        let place = if inside { pointer(&[EVENT_PAYLOAD, key]) } else { pointer(&[key]) };
        faults.add(&place, &format!("'{key}' is not the one that is waited for; this is another event"));
    }
    faults.none().map_err(Refused::Mismatch)?;
    let payload = entries.get(EVENT_PAYLOAD).unwrap_or(value);
    let received = JsonMap::from([(EVENT_PAYLOAD.to_owned(), payload.clone())]);
    let mut answer = Answer::of(Json::of(&received));
    if !entries.contains_key(EVENT_PAYLOAD) {
        answer.moved.push((pointer(&[EVENT_PAYLOAD]), String::new()));
    }
    Ok(answer)
}
