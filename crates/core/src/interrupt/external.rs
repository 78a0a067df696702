//! External events: what is waited for, and whether something that happened is it.

use serde_json::{Map, Value};

use super::answer::{Answer, Refused, refused};
use super::equal::{EXACT_MAX, equal};
use super::form::{Faults, pointer, text};
use crate::fields::Fields;
use crate::limits::{ASK_NAME_CHARS_MAX, CORRELATION_BYTES_MAX};
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
    let bytes: usize = correlation.iter().map(|(key, value)| key.len() + value.text().len()).sum();
    if bytes > CORRELATION_BYTES_MAX {
        let place = fields.place("correlation");
        let message = format!("at most {CORRELATION_BYTES_MAX} bytes are compared; leave out what is no key");
        fields.findings().problem(place, message);
    }
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::{Answerer, Ask, InterruptKind, check_answer};
    use super::*;
    use crate::{Problem, SchemaError};

    fn ask(data: &Value) -> Result<Ask, Vec<Problem>> {
        Ask::read(&Json::of(&json!({ "kind": "external-event", "data": data })))
    }

    #[track_caller]
    fn told(data: &Value) -> String {
        ask(data).unwrap_err()[0].to_string()
    }

    fn answer(correlation: &Value, schema: Option<&Value>, value: &Value) -> Result<Json, Refused> {
        let data = Json::of(&json!({ "eventType": "paid", "correlation": correlation }));
        let by = Answerer::of("bank");
        let schema = schema.map(|schema| Json::of(&schema));
        let kind = InterruptKind::ExternalEvent;
        check_answer(kind, &data, schema.as_ref(), &Json::of(value), &by, 0).map(|checked| checked.value)
    }

    fn errors(refused: Refused) -> (&'static str, Vec<SchemaError>) {
        match refused {
            Refused::Invalid(errors) => ("invalid", errors),
            Refused::Mismatch(errors) => ("mismatch", errors),
        }
    }

    #[test]
    fn an_event_has_a_type_that_is_kept_as_it_is() {
        let data = json!({ "eventType": " Stripe.checkout/ü ", "correlation": {} });
        assert_eq!(ask(&data).unwrap().data, Json::of(&data));
        assert_eq!(told(&json!({ "correlation": {} })), "data: 'eventType' is missing; add it");
        assert!(told(&json!({ "eventType": 1, "correlation": {} })).contains("a string is expected"));
    }

    #[test]
    fn an_event_has_a_correlation_that_is_kept_as_it_is() {
        let data = json!({ "eventType": "paid", "correlation": { "order": { "id": [1, { "x": null }] } } });
        assert_eq!(ask(&data).unwrap().data, Json::of(&data));
        assert_eq!(told(&json!({ "eventType": "paid" })), "data: 'correlation' is missing; add it");
        assert!(told(&json!({ "eventType": "paid", "correlation": [] })).contains("an object is expected"));
        let large = "x".repeat(CORRELATION_BYTES_MAX);
        assert!(
            told(&json!({ "eventType": "paid", "correlation": { "a": large } }))
                .contains("at most 16384 bytes")
        );
    }

    #[test]
    fn a_number_that_would_fit_its_neighbours_is_no_correlation() {
        let data: Json =
            serde_json::from_str(r#"{"eventType":"paid","correlation":{"id":[18446744073709551617]}}"#)
                .unwrap();
        let payload =
            JsonMap::from([("kind".to_owned(), Json::of("external-event")), ("data".to_owned(), data)]);
        let problems = Ask::read(&Json::of(&payload)).unwrap_err();
        assert!(
            problems[0].to_string().starts_with("data.correlation.id: a number of this size"),
            "{problems:?}"
        );
    }

    #[test]
    fn a_scheduled_time_is_read_or_refused() {
        let time = |event_type: &str| {
            scheduled_time(&Json::of(&json!({ "eventType": event_type, "correlation": {} })))
        };
        assert_eq!(time("scheduled-time:2026-05-01T10:00Z"), Ok(Some(1_777_629_600_000)));
        assert_eq!(time("scheduled-time:2026-05-01T12:00:00.25+02:00"), Ok(Some(1_777_629_600_250)));
        assert_eq!(time("stripe.paid"), Ok(None));
        for bad in ["scheduled-time:", "scheduled-time:tomorrow", "scheduled-time:2026-05-01T10:00"] {
            time(bad).unwrap_err();
            let told = told(&json!({ "eventType": bad, "correlation": {} }));
            assert!(told.starts_with("data.eventType: after 'scheduled-time:' a time is expected"), "{told}");
        }
    }

    #[test]
    fn the_payload_of_an_event_reaches_the_node_as_it_is() {
        for payload in [json!(null), json!(1), json!([]), json!({ "deep": [{ "x": 1.50 }] })] {
            let value = json!({ "eventPayload": payload });
            assert_eq!(answer(&json!({}), None, &value), Ok(Json::of(&value)));
        }
        let flat = json!({ "orderId": 7, "total": 12 });
        let received = answer(&json!({ "orderId": 7 }), None, &flat).unwrap();
        assert_eq!(received, Json::of(&json!({ "eventPayload": flat })));
        for odd in [json!(null), json!([7]), json!("paid")] {
            let (what, errors) = errors(answer(&json!({}), None, &odd).unwrap_err());
            assert_eq!((what, errors[0].path.as_str()), ("invalid", ""));
        }
    }

    #[test]
    fn an_event_fits_when_every_key_of_the_correlation_does() {
        let correlation = json!({ "orderId": "o-1", "status": { "code": 1 } });
        for fits in [
            json!({ "eventPayload": { "orderId": "o-1", "status": { "code": 1 } } }),
            json!({ "eventPayload": { "orderId": "o-1", "status": { "code": 1.0 }, "more": true } }),
            json!({ "orderId": "o-1", "status": { "code": 1 }, "more": true }),
            json!({ "orderId": "o-1", "eventPayload": { "status": { "code": 1 } } }),
        ] {
            answer(&correlation, None, &fits).expect("it fits");
        }
        for differs in [
            json!({ "eventPayload": { "orderId": "o-2", "status": { "code": 1 } } }),
            json!({ "eventPayload": { "orderId": "o-1" } }),
            json!({ "eventPayload": { "orderId": "o-1", "status": { "code": 1, "more": 1 } } }),
            json!({ "eventPayload": { "order": { "orderId": "o-1", "status": { "code": 1 } } } }),
            json!({ "eventPayload": "o-1" }),
            json!({}),
        ] {
            answer(&correlation, None, &differs).expect_err("it is another event");
        }
    }

    #[test]
    fn another_event_is_a_mismatch_that_says_where() {
        let correlation = json!({ "orderId": 7, "a/b": 1 });
        for (value, paths) in [
            (json!({ "eventPayload": { "orderId": 8, "a/b": 1 } }), vec!["/eventPayload/orderId"]),
            (json!({ "orderId": 8, "eventPayload": {} }), vec!["/eventPayload/a~1b", "/orderId"]),
            (json!({ "orderId": 7 }), vec!["/a~1b"]),
        ] {
            let (what, errors) = errors(answer(&correlation, None, &value).unwrap_err());
            assert_eq!(what, "mismatch");
            assert_eq!(errors.iter().map(|error| error.path.as_str()).collect::<Vec<_>>(), paths);
        }
    }

    #[test]
    fn the_schema_is_about_what_the_node_receives() {
        let total = json!({ "properties": { "total": { "type": "number" } }, "required": ["total"] });
        let schema = json!({ "properties": { "eventPayload": total }, "required": ["eventPayload"] });
        for good in [json!({ "total": 1 }), json!({ "eventPayload": { "total": 1 } })] {
            answer(&json!({}), Some(&schema), &good).expect("it fits");
        }
        for (bad, path) in [
            (json!({ "total": "1" }), "/total"),
            (json!({ "eventPayload": { "total": "1" } }), "/eventPayload/total"),
        ] {
            let (what, errors) = errors(answer(&json!({}), Some(&schema), &bad).unwrap_err());
            assert_eq!((what, errors[0].path.as_str()), ("invalid", path));
        }
    }

    fn flat_object() -> impl Strategy<Value = Map<String, Value>> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (0..4_i64).prop_map(Value::from),
            "[ab]{0,2}".prop_map(Value::from),
        ];
        let value = leaf.prop_recursive(3, 8, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[ab]", inner, 0..3).prop_map(|map| json!(map)),
            ]
        });
        prop::collection::btree_map("[abcd]", value, 0..4).prop_map(|map| map.into_iter().collect())
    }

    proptest! {
        #[test]
        fn an_event_fits_exactly_the_parts_of_itself(event in flat_object(), other in flat_object(), keep: [bool; 4]) {
            let data = |correlation: &Map<String, Value>| {
                Json::of(&json!({ "eventType": "e", "correlation": correlation }))
            };
            let payload = Json::of(&event);
            let kept = event.clone().into_iter().zip(keep).filter(|(_, keep)| *keep).map(|(entry, _)| entry);
            prop_assert!(correlates(&data(&kept.collect()), &payload), "a part of it fits");
            let part = other.iter().all(|(key, wanted)| event.get(key).is_some_and(|found| equal(wanted, found)));
            prop_assert_eq!(correlates(&data(&other), &payload), part);
            let nested = answer(&json!(other), None, &json!({ "eventPayload": event }));
            prop_assert_eq!(nested.is_ok(), part, "an answer fits as its event does");
            let flat = answer(&json!(other), None, &json!(event));
            prop_assert_eq!(flat.is_ok(), part, "whichever way it is sent");
        }
    }
}
