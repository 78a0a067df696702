//! Which line is looked at next: a tenant's messages over one channel. Lines take turns, and a line, a channel and all of
//! them together have so many messages under way and no more.

use std::collections::{HashMap, HashSet, VecDeque};

use abide_core::Millis;
use abide_store::{NoticeId, NoticeLine};

use super::Place;
use crate::limits;

#[derive(Default)]
struct Line {
    under_way: HashSet<NoticeId>,
    /// It has its turn coming.
    queued: bool,
    /// It had its turn when its channel had no room.
    starved: bool,
    /// When to look again in any case.
    look_at: Option<Millis>,
}

/// The lines that have something to send.
#[derive(Default)]
pub(super) struct Lines {
    lines: HashMap<NoticeLine, Line>,
    turns: VecDeque<NoticeLine>,
    of_channel: HashMap<String, usize>,
    of_recipient: HashMap<(NoticeLine, String), u32>,
    under_way: usize,
}

impl Lines {
    /// Something may have changed: the line is to be looked at when it has its turn.
    pub(super) fn mark(&mut self, key: NoticeLine) {
        let line = self.lines.entry(key.clone()).or_default();
        if !std::mem::replace(&mut line.queued, true) {
            self.turns.push_back(key);
        }
    }

    /// Whose turn it is. One whose channel has no room waits until it has.
    pub(super) fn next(&mut self) -> Option<NoticeLine> {
        while self.under_way < limits::NOTICES_IN_FLIGHT_MAX {
            let key = self.turns.pop_front()?;
            let has_room = self.room(&key) > 0;
            let line = self.lines.entry(key.clone()).or_default();
            line.queued = false;
            line.starved = !has_room;
            if has_room {
                return Some(key);
            }
        }
        None
    }

    /// How many more messages of a line may be under way.
    pub(super) fn room(&self, line: &NoticeLine) -> usize {
        let of_channel = self.of_channel.get(&line.channel).copied().unwrap_or_default();
        let rooms = [
            limits::NOTICES_OF_LINE_MAX.saturating_sub(self.under_way(line)),
            limits::NOTICES_OF_CHANNEL_MAX.saturating_sub(of_channel),
            limits::NOTICES_IN_FLIGHT_MAX.saturating_sub(self.under_way),
        ];
        rooms.into_iter().min().unwrap_or_default()
    }

    pub(super) fn under_way(&self, line: &NoticeLine) -> usize {
        self.lines.get(line).map_or(0, |line| line.under_way.len())
    }

    pub(super) fn is_under_way(&self, line: &NoticeLine, id: NoticeId) -> bool {
        self.lines.get(line).is_some_and(|line| line.under_way.contains(&id))
    }

    pub(super) fn under_way_to(&self, line: &NoticeLine, recipient: &str) -> u32 {
        self.of_recipient.get(&(line.clone(), recipient.to_owned())).copied().unwrap_or_default()
    }

    pub(super) fn begin(&mut self, place: &Place) {
        self.lines.entry(place.line.clone()).or_default().under_way.insert(place.id);
        *self.of_channel.entry(place.line.channel.clone()).or_default() += 1;
        *self.of_recipient.entry((place.line.clone(), place.recipient.clone())).or_default() += 1;
        self.under_way += 1;
    }

    /// A message is no longer under way. Its line may go on, and so may those that waited for room on its channel.
    pub(super) fn end(&mut self, place: &Place) {
        let Some(line) = self.lines.get_mut(&place.line) else { return };
        if !line.under_way.remove(&place.id) {
            return;
        }
        self.under_way -= 1;
        if let Some(count) = self.of_channel.get_mut(&place.line.channel) {
            *count -= 1;
        }
        self.of_channel.retain(|_, count| *count > 0);
        let to = (place.line.clone(), place.recipient.clone());
        if let Some(count) = self.of_recipient.get_mut(&to) {
            *count -= 1;
            if *count == 0 {
                self.of_recipient.remove(&to);
            }
        }
        self.mark(place.line.clone());
        let starved =
            self.lines.iter().filter(|(key, line)| line.starved && key.channel == place.line.channel);
        let starved: Vec<NoticeLine> = starved.map(|(key, _)| key.clone()).collect();
        starved.into_iter().for_each(|key| self.mark(key));
    }

    /// Says when to look at a line again.
    pub(super) fn set_look_at(&mut self, key: &NoticeLine, at: Option<Millis>) {
        self.lines.entry(key.clone()).or_default().look_at = at;
    }

    pub(super) fn look_later(&mut self, key: &NoticeLine, at: Millis) {
        let line = self.lines.entry(key.clone()).or_default();
        line.look_at = Some(line.look_at.map_or(at, |earlier| earlier.min(at)));
    }

    /// When the first one is to be looked at in any case.
    pub(super) fn look_at(&self) -> Option<Millis> {
        self.lines.values().filter_map(|line| line.look_at).min()
    }

    /// Forgets a line on which there is nothing.
    pub(super) fn forget_idle(&mut self, key: &NoticeLine) {
        let idle = |line: &Line| {
            line.under_way.is_empty() && !line.queued && !line.starved && line.look_at.is_none()
        };
        if self.lines.get(key).is_some_and(idle) {
            self.lines.remove(key);
        }
    }

    /// Marks those whose time has come.
    pub(super) fn mark_due(&mut self, now: Millis) {
        let due = self.lines.iter_mut().filter(|(_, line)| line.look_at.is_some_and(|at| at <= now));
        let due: Vec<NoticeLine> = due
            .map(|(key, line)| {
                line.look_at = None;
                key.clone()
            })
            .collect();
        due.into_iter().for_each(|key| self.mark(key));
    }
}

#[cfg(test)]
mod tests {
    use abide_core::{InterruptId, RunId, TenantId};

    use super::*;

    fn line(tenant: u32, channel: &str) -> NoticeLine {
        NoticeLine { tenant: TenantId(tenant), channel: channel.to_owned() }
    }

    fn place(line: &NoticeLine, n: u16) -> Place {
        let interrupt = InterruptId::from_bytes([1; InterruptId::BYTES]);
        let id = NoticeId { run: RunId::from_bytes([1; 16]), interrupt, attempt: 1, n };
        Place { line: line.clone(), id, recipient: "ada".to_owned() }
    }

    #[test]
    fn a_line_is_looked_at_once_however_often_it_is_marked() {
        let mut lines = Lines::default();
        let (one, two) = (line(1, "chat"), line(2, "chat"));
        for key in [&one, &two, &one] {
            lines.mark(key.clone());
        }
        assert_eq!([lines.next(), lines.next(), lines.next()], [Some(one), Some(two), None]);
    }

    #[test]
    fn a_channel_that_hangs_keeps_its_own_waiting_and_nobody_elses() {
        let mut lines = Lines::default();
        let hanging: Vec<NoticeLine> = (1..=9).map(|tenant| line(tenant, "hangs")).collect();
        let mut begun = Vec::new();
        for key in &hanging {
            for n in 0..u16::MAX {
                if lines.room(key) == 0 {
                    break;
                }
                lines.begin(&place(key, n));
                begun.push(place(key, n));
            }
        }
        assert_eq!(begun.len(), limits::NOTICES_OF_CHANNEL_MAX);
        assert!(lines.under_way(&hanging[0]) <= limits::NOTICES_OF_LINE_MAX, "no tenant has it all");
        lines.mark(hanging[8].clone());
        lines.mark(line(1, "mail"));
        assert_eq!(lines.next(), Some(line(1, "mail")));
        assert_eq!(lines.next(), None);
        lines.end(&begun[0]);
        assert_eq!([lines.next(), lines.next()], [Some(hanging[0].clone()), Some(hanging[8].clone())]);
    }

    #[test]
    fn what_is_under_way_to_a_recipient_is_counted() {
        let mut lines = Lines::default();
        let chat = line(1, "chat");
        for n in 0..2 {
            lines.begin(&place(&chat, n));
        }
        assert_eq!(lines.under_way_to(&chat, "ada"), 2);
        lines.end(&place(&chat, 0));
        lines.end(&place(&chat, 0));
        assert_eq!(lines.under_way_to(&chat, "ada"), 1, "an end counts once");
        assert_eq!((lines.under_way_to(&chat, "bob"), lines.under_way(&chat)), (0, 1));
    }

    #[test]
    fn a_time_that_has_come_is_waited_for_no_longer_and_an_idle_line_is_forgotten() {
        let mut lines = Lines::default();
        for (channel, at) in [("a", Some(10)), ("b", Some(20)), ("c", None)] {
            lines.set_look_at(&line(1, channel), at);
        }
        assert_eq!(lines.look_at(), Some(10));
        lines.mark_due(10);
        assert_eq!((lines.look_at(), lines.next(), lines.next()), (Some(20), Some(line(1, "a")), None));
        for channel in ["a", "b", "c"] {
            lines.forget_idle(&line(1, channel));
        }
        assert_eq!(lines.lines.keys().collect::<Vec<_>>(), [&line(1, "b")]);
    }
}
