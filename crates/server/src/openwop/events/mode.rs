//! Which of a run's events a subscriber asks for.

use abide_core::EventType;

use crate::error::{ApiError, Result};

/// The modes of OpenWOP.
pub(crate) const SUPPORTED: [&str; 4] = ["values", "updates", "messages", "debug"];

/// What a subscriber gets: the union of some modes. `values` stands alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Modes {
    values: bool,
    updates: bool,
    messages: bool,
    debug: bool,
}

impl Modes {
    /// The modes that a query names, `updates` if it names none.
    pub(crate) fn parse(text: Option<&str>) -> Result<Self> {
        let mut modes = Self::default();
        for name in text.unwrap_or("updates").split(',') {
            match name {
                "values" => modes.values = true,
                "updates" => modes.updates = true,
                "messages" => modes.messages = true,
                "debug" => modes.debug = true,
                other => return Err(unsupported(&format!("there is no stream mode '{other}'"))),
            }
        }
        if modes.values && (modes.updates || modes.messages || modes.debug) {
            return Err(unsupported("the stream mode 'values' can't be mixed with others"));
        }
        // All that is in `updates` is in `debug`, so these two share what is serialised.
        modes.updates &= !modes.debug;
        Ok(modes)
    }

    /// Whether whole states are asked for instead of events.
    pub(crate) fn wants_values(self) -> bool {
        self.values
    }

    /// Whether what is never recorded, but only told to whoever listens, is wanted.
    pub(crate) fn hears_announcements(self) -> bool {
        self.updates || self.debug
    }

    /// Whether an event of this type is shown, or in `values`: is followed by a state.
    pub(crate) fn shows(self, name: &str) -> bool {
        self.debug
            || self.updates && is_update(name)
            || self.messages && name == "ai.message.chunk"
            || self.values && (is_update(name) || name == "node.started")
    }
}

fn unsupported(what: &str) -> ApiError {
    let message = format!(
        "{what}; 'streamMode' is {}, or several of the last three with commas between",
        SUPPORTED.join(", ")
    );
    ApiError::new("unsupported_stream_mode", message).with("supported", SUPPORTED.to_vec())
}

/// Whether a type is a transition that `updates` shows. Types that Abide does not record yet are listed too, so that
/// they are shown from their first day.
fn is_update(name: &str) -> bool {
    let name = match EventType::by_name(name).map(EventType::openwop_name) {
        // What OpenWOP has no name for is in its log, which only `debug` shows.
        Some(None) => return false,
        Some(Some(known)) => known,
        None => name,
    };
    let (family, rest) = name.split_once('.').unwrap_or((name, ""));
    match family {
        "run" => {
            ["started", "completed", "failed", "cancelled", "paused", "resumed", "annotated"].contains(&rest)
        }
        "node" => ["completed", "failed", "skipped", "suspended", "dispatched"].contains(&rest),
        "approval" => ["requested", "received"].contains(&rest),
        "clarification" | "interrupt" | "eval" | "deployment" => true,
        "artifact" => rest == "created",
        "workspace" => rest == "updated",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use abide_core::event_types;

    use super::*;

    fn shown(modes: &str) -> Vec<&'static str> {
        let modes = Modes::parse(Some(modes)).unwrap();
        event_types().iter().map(|kind| kind.name).filter(|name| modes.shows(name)).collect()
    }

    #[test]
    fn each_mode_shows_its_types() {
        let updates = [
            "run.started",
            "run.completed",
            "run.failed",
            "run.cancelled",
            "run.paused",
            "run.resumed",
            "resume.requested",
            "resume.escalated",
            "run.held",
            "run.released",
            "node.completed",
            "node.failed",
            "node.skipped",
            "artifact.created",
            "interrupt.requested",
            "clarification.requested",
            "node.suspended",
            "approval.received",
            "clarification.resolved",
            "interrupt.resolved",
        ];
        let all: Vec<&str> = event_types().iter().map(|kind| kind.name).collect();
        assert_eq!(shown("updates"), updates);
        assert_eq!(shown("messages"), ["ai.message.chunk"]);
        let both: Vec<&str> = updates.iter().copied().chain(["ai.message.chunk"]).collect();
        assert_eq!(shown("updates,messages"), both);
        assert_eq!(shown("updates,updates"), updates);
        assert_eq!(shown("debug"), all);
        assert_eq!(shown("messages,debug,updates"), all);
        let mut values = shown("values");
        values.retain(|name| !updates.contains(name));
        assert_eq!(values, ["node.started"]);
    }

    #[test]
    fn what_is_no_mode_is_refused() {
        for text in
            ["", "all", "Updates", "updates,", ",", "updates, debug", "values,updates", "debug,values"]
        {
            assert!(Modes::parse(Some(text)).is_err(), "{text}");
        }
        assert_eq!(Modes::parse(None).unwrap(), Modes::parse(Some("updates")).unwrap());
        assert_eq!(Modes::parse(Some("debug")).unwrap(), Modes::parse(Some("debug,updates")).unwrap());
    }
}
