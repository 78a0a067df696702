//! Several servers on one database.

use std::sync::Arc;
use std::time::Duration;

use abide_core::{Appointment, Effect, Health, TenantId};
use abide_pgtest::{Cluster as Postgresql, Database, Options, Tls};
use abide_store::{
    Added, Commit, Hint, Load, Postgres, PostgresOptions, Receipt, Role, Store, View, WebhookKey, WebhookRow,
};
use tokio::sync::{broadcast, watch};

use crate::engine::{commit, sealing, submit, word, words};
use crate::live::{BEGIN, Live, TENANT, key};
use crate::suite::external::{event, target};
use crate::workflow::{HOUR, ordering, waiting, waiting_briefly, working};

/// How long a test waits for something that should have happened long ago before it calls it a failure.
const PATIENCE: Duration = Duration::from_secs(300);

fn open(database: &Database, name: &str) -> Postgres {
    let options = PostgresOptions {
        name: name.to_owned(),
        advertise: format!("http://{name}.example"),
        sealing: sealing(),
        ..PostgresOptions::new(database.url())
    };
    Postgres::open(&options).unwrap()
}

async fn until(store: &Postgres, what: impl FnMut(&View) -> bool) -> View {
    let mut view: watch::Receiver<View> = store.cluster().unwrap().view();
    let seen = tokio::time::timeout(PATIENCE, view.wait_for(what)).await;
    seen.expect("it comes about").unwrap().clone()
}

async fn heard(hints: &mut broadcast::Receiver<Hint>, wanted: &Hint) {
    let hear = async {
        loop {
            match hints.recv().await {
                Ok(hint) if hint == *wanted => return,
                Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    tokio::time::timeout(PATIENCE, hear).await.expect("the hint is heard");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_the_answers_that_race_on_different_servers_one_wins() {
    let database = Database::new();
    let servers: Vec<Postgres> = ["one", "two", "three"].iter().map(|name| open(&database, name)).collect();
    for n in 1..=20 {
        let (live, created) = Live::start(key(n), &waiting());
        commit(&servers[0], created).await.unwrap();
        let pending = (0..9_usize).map(|ix| submit(&servers[ix % 3], live.clone().pause())).collect();
        let answers = words(pending).await;
        assert_eq!(answers.iter().filter(|word| **word == "ok").count(), 1, "{answers:?}");
        assert_eq!(answers.iter().filter(|word| **word == "stale").count(), 8, "{answers:?}");
        assert_eq!(servers[1].tip(key(n)).await.unwrap().unwrap().next, live.run.head().next + 1);
    }
}

/// A batch of one server in which some commits are stale: those drop out, and all others are written, in one transaction.
#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_stale_drops_out_of_a_batch() {
    let database = Database::new();
    let (one, two) = (open(&database, "one"), open(&database, "two"));
    let mut lives = Vec::new();
    for n in 1..=60 {
        let (live, created) = Live::start(key(n), &waiting());
        commit(&one, created).await.unwrap();
        lives.push(live);
    }
    for live in lives.iter().step_by(3) {
        commit(&two, live.clone().pause()).await.unwrap();
    }
    let before = one.counts();
    let pending = lives.iter().map(|live| submit(&one, live.clone().pause())).collect();
    let answers = words(pending).await;
    for (at, answer) in answers.iter().enumerate() {
        assert_eq!(*answer, if at % 3 == 0 { "stale" } else { "ok" });
    }
    let after = one.counts();
    assert_eq!(after.commits - before.commits, 40);
    assert!(after.transactions - before.transactions < 40, "they share transactions");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_idempotency_key_raced_across_servers_gives_one_run() {
    let database = Database::new();
    let servers = [open(&database, "one"), open(&database, "two")];
    for n in 0..20_u8 {
        let receipt = Receipt {
            tenant: TENANT,
            endpoint: "start".to_owned(),
            key: [n; 32],
            digest: [1; 32],
            status: 201,
            body: b"{}".as_slice().into(),
            at: BEGIN,
        };
        let start = |run: u32| {
            let (_, created) = Live::start(key(run), &waiting());
            Commit { receipt: Some(receipt.clone()), ..created }
        };
        let run = u32::from(n) * 10 + 1;
        let pending = (0..6).map(|ix| submit(&servers[ix as usize % 2], start(run + ix))).collect();
        let answers = words(pending).await;
        assert_eq!(answers.iter().filter(|word| **word == "ok").count(), 1, "{answers:?}");
        assert_eq!(answers.iter().filter(|word| **word == "receipted").count(), 5, "{answers:?}");
    }
    assert_eq!(servers[0].scan(None, 1000).await.unwrap().len(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_know_of_each_other_and_share_the_roles() {
    let database = Database::new();
    let one = open(&database, "one");
    let alone = until(&one, |view| view.roles.len() == Role::ALL.len()).await;
    assert_eq!((alone.servers.len(), alone.servers[0].name.as_str()), (1, "one"));
    let two = open(&database, "two");
    let seen = until(&one, |view| view.servers.len() == 2).await;
    assert!(seen.is_alive(one.boot()) && seen.is_alive(two.boot()) && !seen.is_alive(two.boot() + 1));
    assert!(until(&two, View::is_current).await.roles.is_empty(), "nobody is made to give up a role");
    one.cluster().unwrap().say(Load { lag_ms: 7, tasks: 8, sessions: 9 });
    let shown = until(&two, |view| view.servers[0].tasks == 8).await.servers[0].clone();
    assert_eq!((shown.url.as_str(), shown.lag_ms, shown.sessions), ("http://one.example", 7, 9));
    // One that leaves is gone at once, and the other takes over.
    one.close().await.unwrap();
    let left = until(&two, |view| view.roles.len() == Role::ALL.len()).await;
    assert_eq!(left.servers.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_server_tells_the_others_hear_and_it_does_not() {
    let database = Database::new();
    let (one, two) = (open(&database, "one"), open(&database, "two"));
    let (mut own, mut other) = (one.cluster().unwrap().hear(), two.cluster().unwrap().hear());
    until(&one, |view| view.servers.len() == 2).await;
    heard(&mut other, &Hint::Everything).await;
    let hint = Hint::Run { key: key(3), next: 9, ended: true };
    one.cluster().unwrap().tell(hint.clone());
    one.cluster().unwrap().tell(Hint::Outbox);
    heard(&mut other, &Hint::Outbox).await;
    one.cluster().unwrap().tell(hint.clone());
    heard(&mut other, &hint).await;
    two.cluster().unwrap().tell(Hint::Keys);
    let mut told = Vec::new();
    while told.last() != Some(&Hint::Keys) {
        told.push(tokio::time::timeout(PATIENCE, own.recv()).await.unwrap().unwrap());
    }
    assert!(!told.contains(&hint), "{told:?}");
}

/// A commit whose writing begins once the webhook's registration was answered elsewhere makes a delivery.
#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_was_added_at_one_server_hears_of_the_next_commit_at_another() {
    let database = Database::new();
    let (one, two) = (open(&database, "one"), open(&database, "two"));
    let (_, created) = Live::start(key(1), &waiting());
    commit(&two, created).await.unwrap();
    for n in 2..12 {
        let id = WebhookKey { tenant: TENANT, id: format!("hook-{n}").into() };
        let row = WebhookRow {
            key: id.clone(),
            url: "https://a.example/hook".to_owned(),
            types: vec!["run.started".to_owned()],
            tags: Vec::new(),
            sealed: [7].as_slice().into(),
            fingerprint: String::new(),
            created_at: BEGIN,
            created_by: None,
            health: Health::default(),
            about: None,
        };
        assert_eq!(one.webhooks().put(row, 100, None).await.unwrap(), Added::Done);
        let (_, created) = Live::start(key(n), &waiting());
        commit(&two, created).await.unwrap();
        let due = two.webhooks().due(id, BEGIN, 10).await.unwrap().unwrap();
        assert_eq!(due.waiting.len(), 1, "of run {n}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_is_left_to_the_server_that_armed_it_and_then_claimed_by_one() {
    let database = Database::new();
    let (one, two) = (open(&database, "one"), open(&database, "two"));
    let now = one.cluster().unwrap().now();
    let (live, created) = Live::start_with(crate::live::start(key(1), &waiting()), now - HOUR);
    let (timer, due) = live.run.timers().iter().next().map(|(timer, due)| (timer.clone(), *due)).unwrap();
    assert!(due <= now);
    commit(&one, Commit { boot: one.boot(), held: true, ..created }).await.unwrap();
    // It was due long ago, so whoever armed it had its time.
    let (mine, theirs) = tokio::join!(
        one.cluster().unwrap().claim_timers(now, 10),
        two.cluster().unwrap().claim_timers(now, 10)
    );
    let claimed = [mine.unwrap(), theirs.unwrap()].concat();
    assert_eq!(claimed.len(), 1, "{claimed:?}");
    assert_eq!((claimed[0].key, &claimed[0].timer), (key(1), &timer));
    assert!(one.cluster().unwrap().claim_timers(now, 10).await.unwrap().is_empty());
    // Another that is due soon is its own until then, and a moment longer.
    let (_, created) = Live::start_with(crate::live::start(key(2), &waiting_briefly()), now);
    commit(&one, Commit { boot: one.boot(), held: true, ..created }).await.unwrap();
    assert!(two.cluster().unwrap().claim_timers(now + HOUR, 10).await.unwrap().is_empty());
}

/// Tasks of a server that lives are its own. Once its lease is over they go to another, and what it decides then under its
/// old token is refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_its_servers_for_as_long_as_that_lives() {
    let database = Database::new();
    let (one, two) = (open(&database, "one"), open(&database, "two"));
    let (live, created) = Live::start(key(1), &working());
    commit(&one, Commit { boot: one.boot(), ..created }).await.unwrap();
    let (_, unheld) = Live::start(key(2), &working());
    commit(&one, unheld).await.unwrap();
    let claimed = two.claim_tasks(two.boot(), 10).await.unwrap();
    assert_eq!(claimed.iter().map(|row| (row.key, row.retaken)).collect::<Vec<_>>(), [(key(2), false)]);
    let held = |live: &Live, lease| {
        let task = live.first_task();
        let mut live = live.clone();
        Commit { holds: Some((task, live.fence(lease))), ..live.pause() }
    };
    assert_eq!(word(&commit(&two, held(&live, 2)).await), "fenced");
    one.cluster().unwrap().leave().await.unwrap();
    let claimed = two.claim_tasks(two.boot(), 10).await.unwrap();
    assert_eq!(claimed.iter().map(|row| (row.key, row.retaken)).collect::<Vec<_>>(), [(key(1), true)]);
    assert_eq!(word(&commit(&one, held(&live, 1)).await), "fenced");
    assert_eq!(one.tip(key(1)).await.unwrap(), Some(live.run.head()));
    assert_eq!(word(&commit(&two, held(&live, 2)).await), "ok");
}

/// An event that a server gives is given on by another only once the first is gone, which then can't say any more how it
/// ended.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_given_by_whoever_has_taken_it_over() {
    let database = Database::new();
    let (one, two) = (open(&database, "one"), open(&database, "two"));
    let (live, created) = Live::start(key(1), &ordering(7));
    commit(&one, created).await.unwrap();
    let (mine, theirs) = (one.external_events(), two.external_events());
    mine.put(event("a", BEGIN), 9).await.unwrap();
    let to = vec![target(&live)];
    assert!(mine.give(TENANT, "a".to_owned(), to.clone()).await.unwrap());
    assert_eq!(
        (mine.being_given(9).await.unwrap().len(), theirs.being_given(9).await.unwrap().len()),
        (1, 0)
    );
    assert!(!theirs.take_over(TENANT, "a".to_owned()).await.unwrap());
    one.cluster().unwrap().leave().await.unwrap();
    assert_eq!(theirs.being_given(9).await.unwrap()[0].targets, to);
    assert!(theirs.take_over(TENANT, "a".to_owned()).await.unwrap());
    mine.given(TENANT, "a".to_owned(), vec![]).await.unwrap();
    assert!(
        !theirs.get(TENANT, "a".to_owned()).await.unwrap().unwrap().is_kept,
        "it is not the first one's any more"
    );
    theirs.given(TENANT, "a".to_owned(), to.clone()).await.unwrap();
    assert_eq!(mine.get(TENANT, "a".to_owned()).await.unwrap().unwrap().targets, to);
}

/// Of two messages from one run to another only the first is given, whoever asks.
#[tokio::test(flavor = "multi_thread")]
async fn messages_are_claimed_by_one_and_in_order() {
    let database = Database::new();
    let (one, two) = (open(&database, "one"), open(&database, "two"));
    let (mut parent, created) = Live::start(key(1), &waiting());
    commit(&one, created).await.unwrap();
    for n in 2..8 {
        let (_, child) = Live::start_child(key(n), &crate::workflow::instant(), parent.key().id);
        commit(&one, child).await.unwrap();
    }
    let (mine, theirs) =
        tokio::join!(one.cluster().unwrap().claim_messages(3), two.cluster().unwrap().claim_messages(3));
    let mut claimed: Vec<_> =
        [mine.unwrap(), theirs.unwrap()].concat().iter().map(|row| row.at.sender.id).collect();
    claimed.sort_unstable();
    claimed.dedup();
    assert_eq!(claimed.len(), 6, "each of the six is given once");
    assert!(two.cluster().unwrap().claim_messages(10).await.unwrap().is_empty());
    let heads = two.cluster().unwrap().heads(vec![key(1), key(2), key(99)]).await.unwrap();
    assert_eq!(heads.len(), 2);
    assert_eq!((heads[0].2, heads[1].2), (false, true));
    commit(&one, parent.pause()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_start_at_once_on_an_empty_database_make_its_tables_once() {
    let database = Arc::new(Database::new());
    let opened: Vec<_> = (0..5)
        .map(|n| {
            let database = database.clone();
            std::thread::spawn(move || open(&database, &format!("server-{n}")))
        })
        .collect();
    let servers: Vec<Postgres> = opened.into_iter().map(|thread| thread.join().unwrap()).collect();
    let mut boots: Vec<u64> = servers.iter().map(Store::boot).collect();
    boots.sort_unstable();
    boots.dedup();
    assert_eq!(boots.len(), 5, "each start has a number of its own");
    assert_eq!(database.sql("SELECT count(*) FROM migrations").trim(), "4");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_another_or_a_newer_abide_is_refused_untouched() {
    let database = Database::new();
    let refused = Postgres::open_for_reading(&database.url(), sealing()).err().unwrap().to_string();
    assert!(refused.contains("holds no Abide data"), "{refused}");
    drop(open(&database, "one"));
    database.sql("INSERT INTO migrations (version, sha256) VALUES (999, 'later')");
    let refused = Postgres::open(&PostgresOptions::new(database.url())).err().unwrap().to_string();
    assert!(refused.contains("newer abide") && refused.contains("Nothing was changed"), "{refused}");
    assert!(!refused.contains("secret"), "{refused}");
    database.sql("DELETE FROM migrations WHERE version = 999; UPDATE migrations SET sha256 = 'other'");
    let refused = Postgres::open(&PostgresOptions::new(database.url())).err().unwrap().to_string();
    assert!(refused.contains("is not the one of this abide"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_verified_against_the_roots_that_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    let made =
        rcgen::generate_simple_self_signed(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    std::fs::write(file("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(file("key.pem"), made.signing_key.serialize_pem()).unwrap();
    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(file("other.pem"), other.cert.pem()).unwrap();
    let tls = Some(Tls { certificate: file("cert.pem"), key: file("key.pem") });
    let cluster = Postgresql::start(Options { tls, ..Options::default() });
    let database = cluster.database();
    let url =
        |roots: &str| format!("{}?sslmode=verify-full&sslrootcert={}", database.url(), file(roots).display());
    let store = Postgres::open(&PostgresOptions::new(url("cert.pem"))).unwrap();
    let (_, created) = Live::start(key(1), &working());
    commit(&store, created).await.unwrap();
    let refused = Postgres::open(&PostgresOptions::new(url("other.pem")));
    assert_eq!(word(&refused.map(drop)), "unavailable");
    let refused = Postgres::open(&PostgresOptions::new(database.url()));
    assert_eq!(word(&refused.map(drop)), "unavailable", "a server that wants TLS is not spoken to without");
}

/// One commit arms the same timer twice, which no table takes. It is refused, and the others of its batch are not.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_cant_be_kept_fails_alone() {
    let database = Database::new();
    let store = open(&database, "one");
    let mut pending = Vec::new();
    for n in 1..=30 {
        let (_, mut created) = Live::start(key(n), &waiting());
        if n % 10 == 0 {
            let armed = created.effects.iter().find(|effect| matches!(effect, Effect::ArmTimer { .. }));
            created.effects.extend(armed.cloned());
        }
        pending.push(submit(&store, created));
    }
    for (at, answer) in words(pending).await.iter().enumerate() {
        assert_eq!(*answer, if (at + 1) % 10 == 0 { "failed" } else { "ok" }, "commit {at}");
    }
}

/// Resolving is decided by the core; the store only has to let one through. Here the whole command races.
#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_has_one_winner_whichever_servers_decide() {
    let database = Database::new();
    let servers = [open(&database, "one"), open(&database, "two"), open(&database, "three")];
    for n in 1..=15 {
        let (live, created) = Live::start(key(n), &ordering(n));
        commit(&servers[0], created).await.unwrap();
        let answer = |who: usize| {
            let value = serde_json::json!({ "eventPayload": { "order": n, "by": who } });
            submit(&servers[who % 3], live.clone().resolve(&value))
        };
        let answers = words((0..6).map(answer).collect()).await;
        assert_eq!(answers.iter().filter(|word| **word == "ok").count(), 1, "{answers:?}");
        assert_eq!(answers.iter().filter(|word| **word == "stale").count(), 5, "{answers:?}");
    }
}

/// Somebody listens for an agent while several servers assign it, on several tenants at once: each is told of once, in order.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_listens_for_an_agent_misses_nothing_that_any_server_says() {
    const RUNS: u32 = 120;
    let database = Database::new();
    let servers: Vec<Arc<Postgres>> =
        ["one", "two", "three"].iter().map(|name| Arc::new(open(&database, name))).collect();
    let listens = {
        let server = servers[0].clone();
        async move {
            let (mut told, mut after) = (Vec::new(), None);
            while told.len() < RUNS as usize {
                let rows = server.containers().assignments(TENANT, "x".to_owned(), after, 7).await.unwrap();
                after = rows.last().map_or(after, |row| Some(row.place));
                told.extend(rows.into_iter().map(|row| row.run));
            }
            told
        }
    };
    let listener = tokio::spawn(tokio::time::timeout(PATIENCE, listens));
    let assigned = |n: u32, tenant| {
        let (_, mut created) = Live::start(key(n).id.of(tenant), &waiting());
        let appointed = Appointment { agent: "x".to_owned(), sequence: 0, at: BEGIN - i64::from(n) };
        created.effects.push(Effect::Assign(appointed));
        created
    };
    let mut pending = Vec::new();
    for n in 0..RUNS {
        let server = &servers[n as usize % 3];
        pending.push(submit(&**server, assigned(n + 1, TENANT)));
        pending.push(submit(&**server, assigned(n + 1, TenantId(2 + n % 2))));
    }
    assert!(words(pending).await.iter().all(|word| *word == "ok"));
    let mut told = listener.await.unwrap().expect("it hears of all of them");
    told.sort();
    told.dedup();
    assert_eq!(told.len(), RUNS as usize);
}
