//! The inbox: one row for each open interrupt, there with the commit that asks and gone with the one that answers.

use abide_core::{InterruptKind, Json, Key, Start, Status, TenantId};
use abide_store::{Commit, INBOX_LOOK_MAX, InboxPage, InboxQuery, InterruptRow, ListQuery, Standing, Store};
use serde_json::json;

use crate::engine::{commit, engines, submit};
use crate::live::{BEGIN, Live, TENANT, key, run_id, start};
use crate::workflow::{HOUR, asking, deciding, ordering, ordering_twice};

fn all(limit: usize) -> InboxQuery {
    InboxQuery::of(TENANT, limit)
}

async fn page(store: &dyn Store, query: InboxQuery) -> InboxPage {
    store.inbox().list(query).await.unwrap()
}

/// The runs of everything that is found, page by page.
async fn runs(store: &dyn Store, query: InboxQuery) -> Vec<Key> {
    let (mut found, mut after) = (Vec::new(), query.after);
    loop {
        let page = page(store, InboxQuery { after, ..query.clone() }).await;
        found.extend(page.rows.iter().map(|row| row.run.of(query.tenant)));
        match page.next {
            None => return found,
            Some(next) => after = Some(next),
        }
    }
}

async fn begin(store: &dyn Store, start: Start, now: i64) -> Live {
    let (live, created) = Live::start_with(start, now);
    commit(store, created).await.unwrap();
    live
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_is_in_the_inbox_from_the_commit_that_asks_to_the_one_that_answers() {
    for engine in engines() {
        let store = engine.open();
        let mut live = begin(&*store, start(key(1), &deciding("Pay 7 €?", &["ada", "bob"])), BEGIN).await;
        let id = live.first_interrupt();
        let row: InterruptRow = store.inbox().get(key(1), id).await.unwrap().unwrap();
        assert_eq!((row.run, &*row.workflow), (run_id(1), "decisions"));
        let open = &row.open;
        assert_eq!((open.id, &*open.node, open.kind), (id, "decide", InterruptKind::Approval));
        assert_eq!((open.title.as_str(), open.approvers.join(" ")), ("Pay 7 €?", "ada bob".to_owned()));
        assert_eq!((open.requested_at, open.deadline), (BEGIN, Some(BEGIN + 2 * HOUR)));
        assert_eq!(page(&*store, all(10)).await, InboxPage { rows: vec![row], next: None });
        assert_eq!(store.inbox().counts(TENANT).await.unwrap(), [(InterruptKind::Approval, 1)]);

        commit(&*store, live.resolve(&json!({"action": "accept"}))).await.unwrap();
        assert_eq!(store.inbox().get(key(1), id).await.unwrap(), None);
        assert_eq!(page(&*store, all(10)).await, InboxPage { rows: vec![], next: None });
        assert_eq!(store.inbox().counts(TENANT).await.unwrap(), []);
        assert_eq!(store.totals().await.unwrap().miscounted, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_commit_leaves_the_inbox_as_it_was() {
    for engine in engines() {
        let store = engine.open();
        let live = begin(&*store, start(key(1), &asking()), BEGIN).await;
        let before = engine.dump();
        let mut late = live.clone();
        let mut answered = live;
        let answer = json!({"answers": {"why": "because"}});
        commit(&*store, answered.resolve(&answer)).await.unwrap();
        let after = engine.dump();
        assert_ne!(before["interrupts"], after["interrupts"]);
        assert!(commit(&*store, late.cancel()).await.is_err(), "somebody was faster");
        assert_eq!(engine.dump()["interrupt_counts"], after["interrupt_counts"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_comes_first_and_a_cursor_stays_in_its_place_while_others_come_and_go() {
    for engine in engines() {
        let store = engine.open();
        let mut lives = Vec::new();
        for n in 0..10 {
            // A higher number is a newer run, but these asked the other way round, two at a time.
            let at = BEGIN - i64::from(n / 2) * 1000;
            lives.push(begin(&*store, start(key(n), &asking()), at).await);
        }
        let expected: Vec<Key> = [8, 9, 6, 7, 4, 5, 2, 3, 0, 1].map(key).to_vec();
        for limit in [1, 3, 10, 100] {
            assert_eq!(runs(&*store, all(limit)).await, expected, "{limit} a page");
        }
        let first = page(&*store, all(4)).await;
        let next = first.next.expect("there are more");
        assert_eq!(next.to_string().parse(), Ok(next));
        commit(&*store, lives[7].resolve(&json!({"answers": {"why": "x"}}))).await.unwrap();
        begin(&*store, start(key(20), &asking()), BEGIN - 9000).await;
        let rest = runs(&*store, InboxQuery { after: Some(next), ..all(3) }).await;
        assert_eq!(rest, expected[4..], "the one behind the cursor is gone, and an older one came");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inbox_is_filtered_by_everything_that_is_shown() {
    for engine in engines() {
        let store = engine.open();
        begin(&*store, start(key(1), &deciding("Ship the Öl", &["ada"])), BEGIN).await;
        begin(&*store, start(key(2), &deciding("Hire Bob", &[])), BEGIN + 1).await;
        begin(&*store, start(key(3), &asking()), BEGIN + 2).await;
        begin(&*store, start(key(4), &ordering_twice(1, 2)), BEGIN + 3).await;
        begin(&*store, start(run_id(5).of(TenantId(2)), &asking()), BEGIN).await;
        let kind = |kind| InboxQuery { kind: Some(kind), ..all(2) };
        let approver = |name: &str| InboxQuery { approver: Some(vec![name.to_owned()]), ..all(2) };
        let title = |part: &str| InboxQuery { title: Some(part.to_owned()), ..all(2) };
        let workflow = |id: &str| InboxQuery { workflow: Some(id.to_owned()), ..all(2) };
        for (query, expected) in [
            (all(2), vec![1, 2, 3, 4, 4]),
            (kind(InterruptKind::Approval), vec![1, 2]),
            (kind(InterruptKind::ExternalEvent), vec![4, 4]),
            (kind(InterruptKind::Custom), vec![]),
            (InboxQuery { run: Some(run_id(4)), ..all(1) }, vec![4, 4]),
            (InboxQuery { run: Some(run_id(5)), ..all(1) }, vec![]),
            (approver("ada"), vec![1, 2, 3, 4, 4]),
            (approver("eve"), vec![2, 3, 4, 4]),
            (title("öl"), vec![1]),
            (title("hire b"), vec![2]),
            (workflow("decisions"), vec![1, 2]),
            (workflow("decision"), vec![]),
            (InboxQuery { until: Some(BEGIN + 1), ..all(2) }, vec![1, 2]),
            (InboxQuery { until: Some(BEGIN + 1), ..kind(InterruptKind::Approval) }, vec![1, 2]),
            (InboxQuery { until: Some(BEGIN), run: Some(run_id(2)), ..all(2) }, vec![]),
        ] {
            let expected: Vec<Key> = expected.into_iter().map(key).collect();
            assert_eq!(runs(&*store, query.clone()).await, expected, "{query:?}");
        }
        let foreign = InboxQuery::of(TenantId(2), 9);
        assert_eq!(runs(&*store, foreign).await, [run_id(5).of(TenantId(2))]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_looks_at_so_many_rows_and_says_where_to_go_on() {
    for engine in engines() {
        let store = engine.open();
        let count = u32::try_from(INBOX_LOOK_MAX).unwrap() + 10;
        let graph = asking();
        let pending: Vec<_> = (0..count).map(|n| submit(&*store, Live::start(key(n), &graph).1)).collect();
        for answer in pending {
            answer.answer().await.unwrap();
        }
        begin(&*store, start(key(count), &deciding("Rare", &[])), BEGIN).await;
        let rare = InboxQuery { title: Some("rare".to_owned()), ..all(5) };
        let first = page(&*store, rare.clone()).await;
        assert!(first.rows.is_empty() && first.next.is_some());
        let second = page(&*store, InboxQuery { after: first.next, ..rare.clone() }).await;
        assert_eq!((second.rows.len(), second.next), (1, None));
        assert_eq!(runs(&*store, rare).await, [key(count)]);
        let kinds = store.inbox().counts(TENANT).await.unwrap();
        assert_eq!(kinds, [(InterruptKind::Approval, 1), (InterruptKind::Clarification, u64::from(count))]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_known_how_many_wait_and_since_when() {
    for engine in engines() {
        let store = engine.open();
        begin(&*store, start(key(1), &asking()), BEGIN + 5).await;
        begin(&*store, start(key(2), &asking()), BEGIN).await;
        let other = TenantId(2);
        let mut gone = begin(&*store, start(run_id(3).of(other), &ordering(1)), BEGIN).await;
        let mut standing = store.inbox().standing().await.unwrap();
        standing.sort_by_key(|standing| standing.tenant);
        let (kind, oldest) = (InterruptKind::Clarification, Some(BEGIN));
        let first = Standing { tenant: TENANT, kind, open: 2, oldest };
        let second = Standing { tenant: other, kind: InterruptKind::ExternalEvent, open: 1, oldest };
        assert_eq!(standing, [first.clone(), second]);
        commit(&*store, gone.cancel()).await.unwrap();
        assert_eq!(store.inbox().standing().await.unwrap(), [first]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_finds_those_that_wait_for_it_among_all_others() {
    for engine in engines() {
        let store = engine.open();
        for n in 0..50 {
            begin(&*store, start(key(n), &ordering(n)), BEGIN).await;
        }
        begin(&*store, start(key(50), &ordering_twice(7, 8)), BEGIN).await;
        begin(&*store, start(run_id(51).of(TenantId(2)), &ordering(7)), BEGIN).await;
        let find = async |event_type: &str, payload: serde_json::Value, limit| {
            let waiters = store.inbox().waiters(TENANT, event_type.to_owned(), Json::of(&payload), limit);
            waiters.await.unwrap().into_iter().map(|waiter| (waiter.run, waiter.node)).collect::<Vec<_>>()
        };
        let seven = [(run_id(7), "paid".to_owned()), (run_id(50), "one".to_owned())];
        assert_eq!(find("order.paid", json!({"order": 7.0, "by": "card"}), 9).await, seven);
        assert_eq!(find("order.paid", json!({"order": 7}), 1).await, seven[..1]);
        for (event_type, payload) in [
            ("order.paid", json!({"order": 99})),
            ("order.paid", json!({"order": "7"})),
            ("order.paid", json!({"by": "card"})),
            ("order.paid", json!(7)),
            ("order.lost", json!({"order": 7})),
        ] {
            assert_eq!(find(event_type, payload.clone(), 9).await, [], "{event_type} {payload}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_listed_by_what_they_wait_for() {
    for engine in engines() {
        let store = engine.open();
        begin(&*store, start(key(1), &deciding("Well?", &[])), BEGIN).await;
        begin(&*store, start(key(2), &asking()), BEGIN).await;
        begin(&*store, start(key(3), &ordering(1)), BEGIN).await;
        for (status, n) in
            [(Status::WaitingApproval, 1), (Status::WaitingInput, 2), (Status::WaitingExternal, 3)]
        {
            let query =
                ListQuery { tenant: TENANT, status: Some(status), workflow: None, before: None, limit: 9 };
            let listed = store.list(query).await.unwrap();
            assert_eq!(listed.iter().map(|run| run.id).collect::<Vec<_>>(), [run_id(n)], "{status:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_to_be_told_is_written_with_what_is_asked() {
    for engine in engines() {
        let store = engine.open();
        let url = "https://example.com/asked".to_owned();
        let told = Start { callback_url: Some(url.clone()), ..start(key(1), &asking()) };
        let (live, created) = Live::start_with(told, BEGIN);
        commit(&*store, Commit { ..created }).await.unwrap();
        begin(&*store, start(key(2), &asking()), BEGIN).await;
        let (due, next) = store.callbacks().due(BEGIN - 1, 9).await.unwrap();
        assert_eq!((due, next), (vec![], Some(BEGIN)));
        let (due, next) = store.callbacks().due(BEGIN, 9).await.unwrap();
        let found: Vec<_> = due.iter().map(|row| (row.key, row.id, row.url.clone(), row.attempts)).collect();
        assert_eq!(found, [(key(1), live.first_interrupt(), url, 0)]);
        assert_eq!(next, None);
        assert!(!format!("{due:?}").contains("example.com"));
        let (run, id) = (due[0].key, due[0].id);
        store.callbacks().settle(run, id, Some(BEGIN + 9)).await.unwrap();
        assert_eq!(store.callbacks().due(BEGIN, 9).await.unwrap(), (vec![], Some(BEGIN + 9)));
        assert_eq!(store.callbacks().due(BEGIN + 9, 9).await.unwrap().0[0].attempts, 1);
        store.callbacks().settle(run, id, None).await.unwrap();
        assert_eq!(store.callbacks().due(BEGIN + 9, 9).await.unwrap(), (vec![], None));
    }
}
