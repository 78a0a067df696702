//! What many tell one: a group hears its members, a run those that it waits for or that wait for it, in few commits.
//!
//! A commit takes the next message of each sender, so that each is heard in its order. What is refused there is delivered
//! by itself: only then is it known what that means.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use abide_core::{BondCommand, Command, Key, RunId};
use abide_store::{Known, Lane, Message, MessageRow};
use futures_util::future::join_all;

use super::{Delivered, Line, Lines, Told, deliver_all, deliver_one};
use crate::confirm::give_way;
use crate::hot::Cell;
use crate::shell::{Answered, Basis, Shell};
use crate::{Error, limits};

/// Whether a message only tells how somebody stands, or asks to be told: any number of those make sense in one commit.
pub(super) fn may_share(message: &Message) -> bool {
    matches!(message, Message::Notice(_) | Message::Tidings(_) | Message::Watch(_))
}

/// What is still to be said on one line.
struct Rest {
    line: Line,
    messages: VecDeque<MessageRow>,
    told: Told,
}

/// Delivers what some tell one, each line in its order.
pub(super) async fn deliver(shell: &Arc<Shell>, receiver: Key, lines: Lines) -> Vec<(Line, Told)> {
    if lines.len() == 1 {
        let mut told = Vec::with_capacity(1);
        for (line, messages) in lines {
            told.push((line, deliver_all(shell, messages).await));
        }
        return told;
    }
    let rest = |(line, messages): (Line, Vec<MessageRow>)| Rest {
        line,
        messages: messages.into(),
        told: Told::default(),
    };
    let mut lines: Vec<Rest> = lines.into_iter().map(rest).collect();
    loop {
        let open = lines.iter_mut().filter(|rest| !rest.told.stuck);
        let next = open.filter_map(|rest| rest.messages.pop_front().map(|row| (&mut rest.told, row)));
        let (mut told, rows): (Vec<&mut Told>, Vec<MessageRow>) =
            next.take(limits::HEARD_TOGETHER_MAX).unzip();
        if rows.is_empty() {
            return lines.into_iter().map(|rest| (rest.line, rest.told)).collect();
        }
        let all: Vec<_> = rows.iter().map(|row| row.at).collect();
        for ((told, at), delivered) in told.iter_mut().zip(all).zip(deliver_some(shell, receiver, rows).await)
        {
            told.note(at, &delivered);
        }
    }
}

/// Delivers one message of each of several senders: in one commit, as far as that goes.
async fn deliver_some(shell: &Arc<Shell>, receiver: Key, rows: Vec<MessageRow>) -> Vec<Delivered> {
    // Whatever went wrong, it is about one of them, and shows when they are apart.
    let heard = shell.hear_all(receiver, &rows).await.unwrap_or_default();
    let each = rows.into_iter().enumerate().map(|(ix, row)| {
        let heard = heard.get(ix).copied().unwrap_or(false);
        async move { if heard { Delivered::Recorded } else { deliver_one(shell, row).await } }
    });
    join_all(each).await
}

/// What a message asks of its receiver.
fn command(message: &Message, known: &Known) -> Option<Command> {
    let bond = |command| Some(Command::Bond(Box::new(command)));
    match message.clone() {
        Message::Notice(notice) => Some(Command::Hear { notice, heard: known.heard }),
        Message::Watch(watch) => bond(BondCommand::Watch { watch, heard: known.heard }),
        Message::Tidings(tidings) => bond(BondCommand::Hear { tidings, known: known.member.clone() }),
        Message::Spawn(_) | Message::Cascade(_) | Message::Order(_) => None,
    }
}

impl Shell {
    /// Has a run hear several messages, and returns once what came of it is durable: for each whether it stands in the
    /// journal now.
    async fn hear_all(self: &Arc<Self>, receiver: Key, rows: &[MessageRow]) -> Result<Vec<bool>, Error> {
        let senders: Vec<RunId> = rows.iter().map(|row| row.at.sender.id).collect();
        for tries in 0..limits::DECIDE_ATTEMPTS_MAX {
            if tries > 1 {
                give_way(&*self.store, tries).await;
            }
            let since = Instant::now();
            let known = self.store.containers().known_of(receiver, senders.clone()).await?;
            let permit = self.permit().await?;
            let cell = self.cell_with_surroundings(receiver).await?;
            match self.try_hear(&cell, rows, &known, permit) {
                Heard::Dead => self.hot.remove(&cell),
                Heard::Nothing { next, ended } => {
                    let confirmed = self.confirm(&cell, next, since).await?;
                    if ended || !confirmed {
                        self.hot.remove(&cell);
                    }
                    if confirmed {
                        return Ok(Vec::new());
                    }
                }
                Heard::Submitted(answered, heard) => match answered.await {
                    Ok(Ok(())) => return Ok(heard),
                    Ok(Err(abide_store::Error::Stale | abide_store::Error::Raced)) => {}
                    Ok(Err(error)) => return Err(error.into()),
                    Err(_) => return Err(abide_store::Error::Closed.into()),
                },
            }
        }
        Err(Error::Contended)
    }

    fn try_hear(
        self: &Arc<Self>,
        cell: &Arc<Cell>,
        rows: &[MessageRow],
        known: &BTreeMap<RunId, Known>,
        permit: tokio::sync::OwnedSemaphorePermit,
    ) -> Heard {
        let Some(mut ahead) = cell.lock() else { return Heard::Dead };
        let nothing = Known::default();
        let commands = rows.iter().map(|row| {
            let known = known.get(&row.at.sender.id).unwrap_or(&nothing);
            command(&row.message, known)
        });
        let commands = commands.flatten().collect();
        let around = self.surroundings.of(cell.key.tenant);
        let (step, decided) = ahead.run.decide_all(commands, self.clock.now(), &around);
        if step.records.is_empty() {
            return Heard::Nothing {
                next: ahead.run.head().next,
                ended: ahead.run.lifecycle().is_terminal(),
            };
        }
        let heard: Vec<bool> = decided.iter().map(Result::is_ok).collect();
        let consumed = rows.iter().zip(&heard).filter(|(_, heard)| **heard).map(|(row, _)| row.at).collect();
        let basis = Basis { consumed, ..Basis::default() };
        let commit = self.commit_of(&ahead, step, &basis);
        Heard::Submitted(self.submit(cell, ahead, commit, Lane::Background, permit), heard)
    }
}

/// What became of one try at several messages.
enum Heard {
    /// The cell was given up; fetch a new one.
    Dead,
    /// None of them is to be written down, on a state that is durable once the journal is at this sequence.
    Nothing { next: u64, ended: bool },
    /// What came of those of them is on its way to the disk.
    Submitted(Answered, Vec<bool>),
}
