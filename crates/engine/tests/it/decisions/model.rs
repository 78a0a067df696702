//! What must come of decisions about a letter: a few rules, without journals, keys or timers.

use std::collections::BTreeSet;

use abide_core::event::HoldMode;
use abide_core::{Lifecycle, Millis};

use super::What;

/// How often it may be made better.
pub(crate) const REFINEMENTS_MAX: u32 = 2;

/// What the gate says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) required: u32,
    pub(crate) majority: bool,
    pub(crate) timeout_ms: Option<Millis>,
}

/// A question that is open.
#[derive(Clone, Debug, Default)]
struct Question {
    /// When its time began, later by as long as it stood still.
    since: Millis,
    /// Since when its time stands still.
    stands: Option<Millis>,
    /// The votes that count, the latest last, and whether they are for it.
    votes: Vec<(String, bool)>,
    /// What was asked back: its number, and whether it was answered.
    asks: Vec<(u32, bool)>,
}

pub(crate) struct Model {
    terms: Terms,
    open: Option<Question>,
    /// What was decided, which nothing has followed from because the run is held.
    decided: Option<What>,
    hold: Option<HoldMode>,
    end: Option<Lifecycle>,
    text: String,
    sent: Option<String>,
    refinements: u32,
    /// Everything that has to be on the record.
    votes: Vec<(String, String)>,
    asked: u32,
    replied: u32,
    questions: u32,
    received: Vec<&'static str>,
}

impl Model {
    pub(crate) fn new(terms: Terms, now: Millis) -> Self {
        let mut model = Self {
            terms,
            open: None,
            decided: None,
            hold: None,
            end: None,
            text: "A".to_owned(),
            sent: None,
            refinements: 0,
            votes: Vec::new(),
            asked: 0,
            replied: 0,
            questions: 0,
            received: Vec::new(),
        };
        model.question(now);
        model
    }

    fn question(&mut self, now: Millis) {
        self.questions += 1;
        self.open = Some(Question { since: now, ..Question::default() });
    }

    /// Whether one more who has not voted yet would be heard.
    pub(crate) fn would_take(&self, now: Millis, what: What) -> bool {
        let fits = match what {
            What::Nonsense => false,
            What::Edit => self.terms.required == 1,
            _ => true,
        };
        fits && self.open.is_some() && self.deadline().is_none_or(|end| end > now)
    }

    pub(crate) fn decide(&mut self, who: &str, what: What, now: Millis) -> bool {
        if !self.would_take(now, what) {
            return false;
        }
        match what {
            What::Ask => {
                self.asked += 1;
                let ask = (self.asked, false);
                self.open.as_mut().expect("it is open").asks.push(ask);
            }
            _ if self.terms.required == 1 => self.close(what, now),
            _ => self.vote(who, what, now),
        }
        true
    }

    fn vote(&mut self, who: &str, what: What, now: Millis) {
        let name = match what {
            What::Accept => "accept",
            What::Refine => "refine",
            _ => "reject",
        };
        self.votes.push((who.to_owned(), name.to_owned()));
        let votes = &mut self.open.as_mut().expect("it is open").votes;
        votes.retain(|(by, _)| by != who);
        votes.push((who.to_owned(), what == What::Accept));
        let accepts = votes.iter().filter(|(_, accepts)| *accepts).count() as u32;
        let against = votes.len() as u32 - accepts;
        let vetoes = if self.terms.majority { self.terms.required / 2 + 1 } else { 1 };
        if against >= vetoes {
            self.close(What::Reject, now);
        } else if accepts >= self.terms.required {
            self.close(What::Accept, now);
        }
    }

    fn close(&mut self, what: What, now: Millis) {
        self.received.push(match what {
            What::Accept => "accept",
            What::Refine => "refine",
            What::Edit => "edit-accept",
            _ => "reject",
        });
        self.follow(what, now);
    }

    /// What a decision leads to, unless the run is held.
    fn follow(&mut self, what: What, now: Millis) {
        self.open = None;
        if self.hold.is_some() {
            self.decided = Some(what);
            return;
        }
        match what {
            What::Accept => self.send(self.text.clone()),
            What::Edit => self.send("edited".to_owned()),
            What::Refine if self.refinements < REFINEMENTS_MAX => {
                self.refinements += 1;
                self.text.push('B');
                self.question(now);
            }
            _ => self.end = Some(Lifecycle::Failed),
        }
    }

    fn send(&mut self, text: String) {
        self.sent = Some(text);
        self.end = Some(Lifecycle::Completed);
    }

    pub(crate) fn reply(&mut self, ask: u32) -> bool {
        let asks = self.open.iter_mut().flat_map(|open| &mut open.asks);
        let known = asks.into_iter().find(|(number, answered)| *number == ask && !answered);
        let Some((_, answered)) = known else { return false };
        *answered = true;
        self.replied += 1;
        true
    }

    pub(crate) fn hold(&mut self, mode: HoldMode, now: Millis) -> bool {
        if self.end.is_some() || self.hold == Some(mode) {
            return false;
        }
        self.hold = Some(mode);
        self.stand(mode == HoldMode::Stop, now);
        true
    }

    pub(crate) fn release(&mut self, now: Millis) -> bool {
        if self.end.is_some() || self.hold.take().is_none() {
            return false;
        }
        self.stand(false, now);
        if let Some(what) = self.decided.take() {
            self.follow(what, now);
        }
        true
    }

    fn stand(&mut self, still: bool, now: Millis) {
        let Some(open) = &mut self.open else { return };
        match (still, open.stands) {
            (true, None) => open.stands = Some(now),
            (false, Some(stood)) => {
                open.since += now - stood;
                open.stands = None;
            }
            _ => {}
        }
    }

    fn deadline(&self) -> Option<Millis> {
        let open = self.open.as_ref().filter(|open| open.stands.is_none())?;
        Some(open.since + self.terms.timeout_ms?)
    }

    /// Time has passed. The answer is whether the question has run out.
    pub(crate) fn pass(&mut self, now: Millis) -> bool {
        let out = self.deadline().is_some_and(|end| end <= now);
        if out {
            self.received.push("timeout");
            self.follow(What::Reject, now);
        }
        out
    }

    pub(crate) fn cancel(&mut self) -> bool {
        if self.end.is_some() {
            return false;
        }
        self.end = Some(Lifecycle::Cancelled);
        self.open = None;
        true
    }

    /// Everything that happened lies so much later.
    pub(crate) fn move_times(&mut self, ms: Millis) {
        if let Some(open) = &mut self.open {
            open.since += ms;
            open.stands = open.stands.map(|since| since + ms);
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    pub(crate) fn held(&self) -> Option<HoldMode> {
        self.hold.filter(|_| self.end.is_none())
    }

    pub(crate) fn end(&self) -> Option<Lifecycle> {
        self.end
    }

    pub(crate) fn sent(&self) -> Option<&str> {
        self.sent.as_deref()
    }

    /// Who has voted, whether each question back was answered, and when it runs out.
    pub(crate) fn stands(&self) -> (Vec<String>, Vec<bool>, Option<Millis>) {
        let open = self.open.as_ref().expect("it is open");
        let names: Vec<String> = open.votes.iter().map(|(by, _)| by.clone()).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        (names, open.asks.iter().map(|(_, answered)| *answered).collect(), self.deadline())
    }

    pub(crate) fn votes(&self) -> &[(String, String)] {
        &self.votes
    }

    /// How much was asked back, and how much of that answered.
    pub(crate) fn exchanges(&self) -> (u32, u32) {
        (self.asked, self.replied)
    }

    pub(crate) fn questions(&self) -> u32 {
        self.questions
    }

    pub(crate) fn received(&self) -> &[&'static str] {
        &self.received
    }
}
