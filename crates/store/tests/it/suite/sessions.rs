//! Where workers' sessions have their homes, and that nothing is taken from one that has moved.

use abide_core::{Effect, TenantId};
use abide_store::{Commit, SessionRow, SessionState, Store, TaskHolder};

use super::work::{claim, nodes, offer, offering, session, task, with};
use crate::engine::{commit, engines, word};
use crate::live::{BEGIN, TENANT, key};

const MOST: usize = 10;

fn seen(seen_at: i64) -> SessionState {
    SessionState { seen_at, listening: true, gone: false, draining: false }
}

fn row(n: u8, home: u64) -> SessionRow {
    let (agent, about) = ("ada".to_owned(), r#"{"capacity":4}"#.to_owned());
    SessionRow {
        tenant: TENANT,
        id: session(n),
        home,
        agent,
        about,
        registered_at: BEGIN,
        state: seen(BEGIN),
    }
}

async fn comes(store: &dyn Store, n: u8, home: u64) -> abide_store::Came {
    store.sessions().put(row(n, home), MOST).await.unwrap().expect("there is room")
}

async fn home_of(store: &dyn Store, n: u8) -> Option<u64> {
    store.sessions().get(TENANT, session(n)).await.unwrap().map(|row| row.home)
}

#[tokio::test]
async fn a_session_that_moves_takes_what_it_has_along() {
    for engine in engines() {
        let store = engine.open();
        let came = comes(&*store, 1, 7).await;
        assert_eq!((came.before, came.tasks.len()), (None, 0));
        let offers = vec![offer("mine", "mail", BEGIN), offer("free", "mail", BEGIN)];
        offering(&*store, key(1), offers, vec![Some(session(1))]).await;
        offering(&*store, key(2), vec![offer("hers", "mail", BEGIN)], vec![Some(session(2))]).await;
        let came = comes(&*store, 1, 8).await;
        assert_eq!((came.before, nodes(&came.tasks)), (Some(7), vec!["mine"]));
        assert_eq!(home_of(&*store, 1).await, Some(8));
        let at = store.sessions().at(8).await.unwrap();
        assert_eq!((at.sessions, nodes(&at.tasks)), (vec![(TENANT, session(1))], vec!["mine"]));
        assert!(store.sessions().at(7).await.unwrap().sessions.is_empty());
        assert!(store.sessions().get(TenantId(2), session(1)).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn a_tenant_has_so_many_sessions_and_those_it_has_may_come_back() {
    for engine in engines() {
        let store = engine.open();
        comes(&*store, 1, 7).await;
        assert!(store.sessions().put(row(2, 7), 1).await.unwrap().is_none());
        assert!(store.sessions().put(row(1, 8), 1).await.unwrap().is_some());
        let other = SessionRow { tenant: TenantId(2), ..row(2, 7) };
        assert!(store.sessions().put(other, 1).await.unwrap().is_some(), "another tenant's do not count");
        let all = store.sessions().of_tenant(TENANT).await.unwrap();
        assert_eq!(all, [(SessionRow { home: 8, ..row(1, 8) }, 0)]);
        offering(&*store, key(1), vec![offer("one", "mail", BEGIN)], vec![Some(session(1))]).await;
        assert_eq!(store.sessions().of_tenant(TENANT).await.unwrap()[0].1, 1);
    }
}

#[tokio::test]
async fn only_its_home_ends_a_session_or_says_how_it_stands() {
    for engine in engines() {
        let store = engine.open();
        comes(&*store, 1, 7).await;
        let state = SessionState { seen_at: BEGIN + 5, listening: false, gone: true, draining: true };
        store.sessions().say(8, vec![(TENANT, session(1), state)]).await.unwrap();
        assert_eq!(store.sessions().of_tenant(TENANT).await.unwrap()[0].0.state, seen(BEGIN));
        store.sessions().say(7, vec![(TENANT, session(1), state)]).await.unwrap();
        assert_eq!(store.sessions().of_tenant(TENANT).await.unwrap()[0].0.state, state);
        // It is told once that it gets no more, and does not forget it on its way.
        assert!(comes(&*store, 1, 9).await.draining);
        assert!(!store.sessions().end(TENANT, session(1), 7).await.unwrap());
        assert!(store.sessions().end(TENANT, session(1), 9).await.unwrap());
        assert_eq!(home_of(&*store, 1).await, None);
    }
}

#[tokio::test]
async fn the_sessions_of_a_server_that_is_gone_find_another_home_and_no_others_do() {
    for engine in engines() {
        let store = engine.open();
        for (n, home) in [(1, 7), (2, 8), (3, 12)] {
            comes(&*store, n, home).await;
            let offers = vec![offer("one", "mail", BEGIN)];
            offering(&*store, key(n.into()), offers, vec![Some(session(n))]).await;
        }
        offering(&*store, key(9), vec![offer("lost", "mail", BEGIN)], vec![Some(session(9))]).await;
        assert_eq!(store.sessions().homes().await.unwrap(), [7, 8, 12]);
        let adopted = store.sessions().adopt(11, vec![7, 10]).await.unwrap();
        let mut sessions = adopted.sessions.clone();
        sessions.sort();
        // The one of a dead server, and the one that nobody knows.
        assert_eq!(sessions, [(TENANT, session(1)), (TENANT, session(9))]);
        let mut held: Vec<_> = adopted.tasks.iter().filter_map(|row| row.held).map(|held| held.0).collect();
        held.sort();
        assert_eq!(held, [session(1), session(9)]);
        assert_eq!(home_of(&*store, 2).await, Some(8));
        assert_eq!(home_of(&*store, 3).await, Some(12));
        assert!(store.sessions().adopt(11, vec![7]).await.unwrap().sessions.is_empty());
    }
}

#[tokio::test]
async fn a_commit_about_a_task_that_is_in_other_hands_is_refused_and_writes_nothing() {
    for engine in engines() {
        let store = engine.open();
        comes(&*store, 1, 7).await;
        let offers = vec![offer("one", "mail", BEGIN)];
        let live = offering(&*store, key(1), offers, vec![Some(session(1))]).await;
        let right = TaskHolder { task: task("one"), fence: 3, session: session(1), home: None };
        let wrong = [
            TaskHolder { session: session(2), ..right.clone() },
            TaskHolder { fence: 2, ..right.clone() },
            TaskHolder { task: task("two"), ..right.clone() },
            TaskHolder { home: Some(8), ..right.clone() },
        ];
        let takes_away = |holder: &TaskHolder| {
            let mut live = live.clone();
            let effects = vec![Effect::Withdraw(task("one"))];
            Commit { effects, holder: Some(holder.clone()), ..live.pause() }
        };
        let before = engine.dump();
        for holder in &wrong {
            assert_eq!(word(&commit(&*store, takes_away(holder)).await), "fenced", "{holder:?}");
        }
        assert_eq!(engine.dump(), before);
        let right = TaskHolder { home: Some(7), ..right };
        commit(&*store, takes_away(&right)).await.unwrap();
        assert!(store.work().of_runs(vec![key(1)]).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn nothing_is_taken_back_from_a_session_that_has_moved() {
    for engine in engines() {
        let store = engine.open();
        comes(&*store, 1, 7).await;
        offering(&*store, key(1), vec![offer("one", "mail", BEGIN)], vec![Some(session(1))]).await;
        comes(&*store, 1, 8).await;
        let back = |home| store.work().unclaim(session(1), Some(home), vec![(key(1), task("one"), 3)]);
        assert_eq!(back(7).await.unwrap(), 0);
        assert_eq!(back(8).await.unwrap(), 1);
    }
}

#[tokio::test]
async fn what_was_claimed_for_a_session_that_has_just_left_goes_back() {
    for engine in engines() {
        let store = engine.open();
        comes(&*store, 1, 7).await;
        offering(&*store, key(1), vec![offer("one", "mail", BEGIN)], vec![Some(session(1))]).await;
        assert!(store.sessions().end(TENANT, session(1), 7).await.unwrap());
        let back = store.work().unclaim(session(1), Some(7), vec![(key(1), task("one"), 3)]);
        assert_eq!(back.await.unwrap(), 1, "nobody else would ever take it back");
    }
}

#[tokio::test]
async fn what_waits_is_told_by_kind_and_what_was_called_off_apart() {
    for engine in engines() {
        let store = engine.open();
        let offers = vec![
            offer("a", "print", BEGIN),
            offer("b", "mail", BEGIN),
            offer("c", "mail", BEGIN),
            offer("d", "fax", BEGIN),
        ];
        let mut live = offering(&*store, key(1), offers, Vec::new()).await;
        let waited_for = |limit| store.work().kinds_waited_for(limit);
        let kinds = ["fax", "mail", "print"].map(|kind| (TENANT, kind.to_owned()));
        assert_eq!(waited_for(9).await.unwrap(), kinds);
        assert_eq!(waited_for(2).await.unwrap(), kinds[..2]);
        claim(&*store, session(1), "a", &["print"], 9).await;
        with(&*store, &mut live, Effect::CallOff(task("d"))).await;
        with(&*store, &mut live, Effect::CallOff(task("a"))).await;
        assert_eq!(waited_for(9).await.unwrap(), kinds[1..2]);
        assert_eq!(nodes(&store.work().called_off().await.unwrap()), ["d"], "somebody has the other");
        let rows = store.work().of_runs(vec![key(2), key(1)]).await.unwrap();
        assert_eq!(nodes(&rows), ["a", "b", "c", "d"]);
    }
}
