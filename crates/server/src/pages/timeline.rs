//! What was done to reach people, and what comes next, as lines to read.

use abide_core::{InterruptId, Key, Millis};

use super::words;
use crate::app::App;
use crate::error::Result;
use crate::openwop::interrupts::story::{self, Story};
use crate::openwop::interrupts::timeline::{self, Kind, Moment};
use crate::time::rfc3339;

/// A line of what was done.
pub(super) struct Line {
    /// When, for machines and for people.
    pub(super) time: String,
    pub(super) when: String,
    pub(super) text: String,
    /// Whether it is still to come.
    pub(super) is_planned: bool,
}

/// What was done about an interrupt that has a ladder, and what comes. One without is asked once, and that is all.
pub(super) async fn of(app: &App, key: Key, id: InterruptId) -> Result<Vec<Line>> {
    // What was asked a moment ago may not be on disk yet.
    let Some(story) = Story::read(app, key, id).await? else { return Ok(Vec::new()) };
    let Some(ladder) = &story.requested.ladder else { return Ok(Vec::new()) };
    let deliveries = story::deliveries(app, key, id).await?;
    let (now, most) = (app.engine().clock().now(), ladder.max_attempts);
    let mut lines = Vec::new();
    for mut moment in timeline::of(&story, &deliveries) {
        moment.to = match moment.to {
            Some(to) => Some(name_of(app, key, to).await?),
            None => None,
        };
        lines.push(line(&moment, most, now));
    }
    Ok(lines)
}

/// What somebody is called. Whoever reads this need not know where others are reached.
async fn name_of(app: &App, key: Key, to: String) -> Result<String> {
    if !to.contains(['@', '+', '/']) {
        return Ok(to);
    }
    let known = app.engine().store().person(key.tenant, to).await?;
    let name =
        known.map(|person| person.display_name.unwrap_or_else(|| "somebody in the directory".to_owned()));
    Ok(name.unwrap_or_else(|| "an address".to_owned()))
}

fn line(moment: &Moment, most: u32, now: Millis) -> Line {
    let is_planned = moment.is_planned();
    let when = if is_planned { words::due(moment.at, now) } else { words::ago(moment.at, now) };
    let when = format!("{} ({when})", words::moment(moment.at));
    Line { time: rfc3339(moment.at), when, text: text(moment, most), is_planned }
}

fn text(moment: &Moment, most: u32) -> String {
    let by = moment.channel.as_deref().map(|channel| format!(" by {channel}")).unwrap_or_default();
    let to = moment.to.as_deref().map(|to| format!(" to {to}")).unwrap_or_default();
    let attempt = moment.attempt.unwrap_or(1);
    let who = moment.by.as_deref().unwrap_or_default();
    match (moment.what, moment.state) {
        (Kind::Asked, _) => "Asked".to_owned(),
        (Kind::Attempt, "superseded") => format!("Reminder {attempt} of {most} was overdue and not sent"),
        (Kind::Attempt, "planned") => format!("Reminder {attempt} of {most}{by}{to}"),
        (Kind::Attempt, _) if attempt == 1 => format!("People are told, 1 of {most}{by}{to}"),
        (Kind::Attempt, _) => format!("People are told again, {attempt} of {most}{by}{to}"),
        (Kind::Escalation, _) => format!("Escalated{by}{to}"),
        (Kind::Message, state) => format!("Message{by}{to}: {state}"),
        (Kind::Refusal, _) => format!("Not told, because they may not be{to}"),
        (Kind::Expiry, "planned") => "Gives up if nobody has answered".to_owned(),
        (Kind::Expiry, _) => "Nobody answered".to_owned(),
        (Kind::Timeout, "planned") => "Times out if nobody has answered".to_owned(),
        (Kind::Timeout, _) => "Timed out".to_owned(),
        (Kind::Answer, _) => format!("Answered by {who}"),
        (Kind::Cancellation, _) => "Cancelled".to_owned(),
    }
}
