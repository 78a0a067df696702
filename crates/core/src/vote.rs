//! Votes: where one decision is not enough, each is recorded, and the one that is enough closes the question.

use crate::command::Draft;
use crate::event::{ApprovalVoted, NodeEvent};
use crate::fold::Folding;
use crate::interrupt::{Action, Checked, Decision, Quorum, Standing, Vote, closing};
use crate::{Effect, InterruptId, Rejection, Run, SchemaError, limits};

/// What a decision does.
impl Run {
    /// Records a vote. Gives the decision that closes the question, if it is enough now.
    pub(crate) fn vote(
        &mut self,
        draft: &mut Draft,
        id: InterruptId,
        quorum: &Quorum,
        checked: Checked,
    ) -> Result<Option<Checked>, Rejection> {
        let Some(decision) = checked.decision.clone() else { return Ok(Some(checked)) };
        let voted = self.voted(id, &checked, &decision);
        self.check_vote(id, &voted, draft.now)?;
        let node = self.state.open[&id].node;
        self.emit_of(draft, node, NodeEvent::ApprovalVoted(Box::new(voted)), None);
        let votes = &self.state.open[&id].votes;
        let accepted = match quorum.standing(votes) {
            Standing::Open => return Ok(None),
            standing => standing == Standing::Accepted,
        };
        let last = Decision { decided_by: checked.by.clone(), ..decision };
        let (decision, value) = closing(quorum, votes, accepted, &last);
        Ok(Some(Checked { value, decision: Some(decision), ..checked }))
    }

    fn voted(&self, id: InterruptId, checked: &Checked, decision: &Decision) -> ApprovalVoted {
        let open = &self.state.open[&id];
        ApprovalVoted {
            interrupt_id: id,
            // That nobody decided is said by somebody here.
            action: if decision.action == Action::Timeout { Action::Reject } else { decision.action },
            decided_by: checked.by.clone(),
            feedback: decision.feedback.clone(),
            reason: decision.reason.clone(),
            refine_feedback: decision.refine_feedback.clone(),
            cast_by: decision.cast_by.clone(),
            qualified_by: checked.qualified_by.clone(),
            replaces: open.votes.iter().any(|vote| vote.by == checked.by),
            sensitive: open.requested.sensitive_answer,
        }
    }

    fn check_vote(
        &self,
        id: InterruptId,
        voted: &ApprovalVoted,
        now: crate::Millis,
    ) -> Result<(), Rejection> {
        let wrong = |path: &str, message: String| {
            Err(Rejection::BadAnswer(vec![SchemaError { path: path.to_owned(), message }]))
        };
        if voted.action == Action::EditAccept {
            let message =
                "an edited artifact can't be voted on: several people decide here; accept, reject or refine";
            return wrong("/action", message.to_owned());
        }
        let open = &self.state.open[&id];
        if open.cast >= limits::VOTES_MAX {
            return wrong("", format!("{} votes were cast here, and no more are taken", open.cast));
        }
        let others = open.votes.iter().filter(|vote| vote.by != voted.decided_by);
        let bytes = others.map(Vote::bytes).sum::<usize>() + Vote::of(voted, now).bytes();
        if bytes > limits::VOTES_BYTES_MAX {
            let most = limits::VOTES_BYTES_MAX;
            return wrong("/feedback", format!("all votes together have more than {most} bytes; say less"));
        }
        Ok(())
    }
}

/// What an event changes.
impl Run {
    pub(crate) fn fold_voted(
        &mut self,
        voted: &ApprovalVoted,
        folding: &mut Folding<'_>,
    ) -> Result<(), String> {
        let open =
            self.state.open.get_mut(&voted.interrupt_id).ok_or("there is no vote on what is not open")?;
        let before = open.votes.len();
        open.votes.retain(|vote| vote.by != voted.decided_by);
        if voted.replaces != (open.votes.len() < before) {
            return Err("the vote takes the place of another, or of none, unlike it says".to_owned());
        }
        open.votes.push(Vote::of(voted, folding.at));
        open.cast += 1;
        folding.effects.push(Effect::NoteHeadway { id: voted.interrupt_id, headway: open.headway() });
        Ok(())
    }
}
