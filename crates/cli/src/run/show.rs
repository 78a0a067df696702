//! `abide run show`: a run and its children as a tree, once or until the end.

use std::io::Write;
use std::time::Duration;

use tokio::task::JoinSet;

use super::family::{Definitions, Family};
use super::{annotations, events, snapshot, tree};
use crate::args::ClientArgs;
use crate::client::Client;
use crate::output;
use crate::terminal::{self, Look};

/// How long a picture stands if nothing happens; then it is drawn again, with the durations of that moment.
const WATCH_PATIENCE: Duration = Duration::from_secs(10);

pub(super) async fn show(client: &Client, args: &ClientArgs, run: &str, watch: bool) -> anyhow::Result<()> {
    if watch && terminal::is_terminal() && !args.json {
        return watch_run(client, run).await;
    }
    if watch {
        events::wait_for_end(client, run).await?;
    }
    print(client, args, run).await.map(|_| ())
}

/// Prints a run as it stands, and gives its status.
pub(super) async fn print(client: &Client, args: &ClientArgs, run: &str) -> anyhow::Result<String> {
    let status;
    if args.json {
        let snapshot = snapshot(client, run).await?;
        status = snapshot["status"].as_str().unwrap_or_default().to_owned();
        output::json(&snapshot.to_string())?;
    } else {
        let family = Family::fetch(client, run, &mut Definitions::default()).await?;
        status = family.members[0].snapshot["status"].as_str().unwrap_or_default().to_owned();
        output::page(&tree::render(&family, client.now(), Look::of_stdout()))?;
        annotations::mention(client, run).await;
    }
    Ok(status)
}

/// Draws a run over and over in the same place, until it has ended.
async fn watch_run(client: &Client, run: &str) -> anyhow::Result<()> {
    let (mut definitions, mut drawn) = (Definitions::default(), 0);
    loop {
        let family = Family::fetch(client, run, &mut definitions).await?;
        let page = tree::render(&family, client.now(), Look::of_stdout());
        let ended = family.members[0].has_ended();
        let frame = if ended { page } else { cut(&page, terminal::rows()) };
        redraw(&frame, drawn)?;
        if ended {
            return Ok(());
        }
        drawn = frame.lines().count();
        await_news(client, &family).await?;
    }
}

/// Waits until something happens to one of the runs that have not ended.
async fn await_news(client: &Client, family: &Family) -> anyhow::Result<()> {
    let mut waits = JoinSet::new();
    for member in family.members.iter().filter(|member| !member.has_ended()) {
        let (client, after) = (client.clone(), member.snapshot["sequence"].as_u64());
        let run = member.snapshot["runId"].as_str().unwrap_or_default().to_owned();
        waits.spawn(async move { events::wait_for_news(&client, &run, after, WATCH_PATIENCE).await });
    }
    waits.join_next().await.unwrap_or(Ok(Ok(())))?
}

/// Writes a page where the one before it, of so many lines, begins.
fn redraw(page: &str, lines_before: usize) -> anyhow::Result<()> {
    let up = if lines_before > 0 { format!("\x1b[{lines_before}A\r\x1b[J") } else { String::new() };
    let mut out = std::io::stdout().lock();
    write!(out, "{up}{page}")?;
    out.flush()?;
    Ok(())
}

/// The part of a page that can be drawn again in its place: what has left the screen can't.
fn cut(page: &str, rows: usize) -> String {
    let lines: Vec<&str> = page.lines().collect();
    // The cursor stands below the last line.
    if lines.len() < rows {
        return page.to_owned();
    }
    let kept = rows.saturating_sub(2);
    let more = lines.len() - kept;
    lines[..kept].iter().map(|line| format!("{line}\n")).collect::<String>()
        + &format!("… {more} more lines\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_cut_to_the_screen() {
        let page = "1\n2\n3\n4\n";
        assert_eq!(cut(page, 5), page);
        assert_eq!(cut(page, 4), "1\n2\n… 2 more lines\n");
        assert_eq!(cut(page, 1), "… 4 more lines\n");
    }
}
