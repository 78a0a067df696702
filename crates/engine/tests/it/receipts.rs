//! Requests that are repeated, and runs that have their scope to themselves.

use abide_core::{Command, Drain, Json, Run, Status};
use abide_engine::{Engine, Error, NewRun, Reply};
use abide_store::{Receipt, Store};

use crate::support::{Rig, START, TENANT, second_engine, within};
use crate::tapped::Fate;

const DAY: i64 = 24 * 3_600_000;

fn receipt(byte: u8) -> Receipt {
    Receipt {
        tenant: TENANT,
        endpoint: "createRun".to_owned(),
        key: [byte; 32],
        digest: [0; 32],
        status: 201,
        body: Vec::new(),
        at: 0,
    }
}

fn reply(byte: u8) -> Reply {
    Reply::new(Some(receipt(byte)), |run: &Run| format!("{} {:?}", run.key().id, run.status()).into_bytes())
}

async fn kept(rig: &Rig, byte: u8) -> Option<Receipt> {
    let Receipt { tenant, endpoint, key, .. } = receipt(byte);
    rig.store.receipt(tenant, endpoint, key).await.unwrap()
}

async fn count(engine: &Engine) -> usize {
    let query =
        abide_store::ListQuery { tenant: TENANT, status: None, workflow: None, before: None, limit: 100 };
    engine.list(query).await.unwrap().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_starts_under_one_key_exactly_one_happens() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let other = second_engine(&rig.store, &rig.clock);
    let mut starting = tokio::task::JoinSet::new();
    for ix in 0..16 {
        let engine = if ix % 2 == 0 { rig.engine.clone() } else { other.clone() };
        starting.spawn(async move { engine.start_for(NewRun::of(TENANT, "wait"), reply(1)).await });
    }
    let answers = within("16 answers", starting.join_all()).await;
    let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (1, 15));
    let receipted =
        |answer: &Result<_, _>| matches!(answer, Err(Error::Store(abide_store::Error::Receipted)));
    assert!(lost.iter().all(receipted));
    assert_eq!(count(&rig.engine).await, 1);
    let kept = kept(&rig, 1).await.unwrap();
    assert_eq!(won[0].as_ref().unwrap(), &kept.body, "what was answered is what is kept");
    assert_eq!(kept.at, START);
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_kept_as_it_was_answered_and_a_refused_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let key = rig.start_waiting(1000).await;
    let pause = Command::Pause { reason: None, by: None, drain: Drain::CurrentNode };
    let told = rig.engine.ask_for(key, &pause, reply(1)).await.unwrap();
    assert_eq!(kept(&rig, 1).await.unwrap().body, told);
    assert!(String::from_utf8(told).unwrap().ends_with("Paused"));
    assert!(matches!(rig.engine.ask_for(key, &pause, reply(2)).await, Err(Error::Rejected(_))));
    assert_eq!(kept(&rig, 2).await, None, "nothing was done");
    let resume = Command::Resume { reason: None, by: None };
    assert!(rig.engine.ask_for(key, &resume, reply(1)).await.is_err(), "the key has been used");
    assert_eq!(rig.status(key).await, Status::Paused, "so it was not resumed");
    rig.engine.resume(key, None).await.unwrap();
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_failed_leaves_no_receipt_and_the_key_is_free() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    rig.store.next(&[Fate::Fail]);
    assert!(rig.engine.start_for(NewRun::of(TENANT, "wait"), reply(1)).await.is_err());
    assert_eq!(kept(&rig, 1).await, None);
    rig.engine.start_for(NewRun::of(TENANT, "wait"), reply(1)).await.unwrap();
    assert_eq!(count(&rig.engine).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_goes_away_leaves_the_receipt_of_what_was_done() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    rig.store.next(&[Fate::Hold]);
    let engine = rig.engine.clone();
    let asking = tokio::spawn(async move { engine.start_for(NewRun::of(TENANT, "wait"), reply(1)).await });
    within("the commit", async {
        while rig.store.held() == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    asking.abort();
    assert!(asking.await.unwrap_err().is_cancelled());
    rig.store.release(Fate::Pass);
    within("the receipt", async {
        while kept(&rig, 1).await.is_none() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(count(&rig.engine).await, 1);
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_is_kept_for_a_day_and_then_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    rig.engine.start_for(NewRun::of(TENANT, "noop"), reply(1)).await.unwrap();
    rig.clock.advance(DAY / 2).await.unwrap();
    rig.engine.start_for(NewRun::of(TENANT, "noop"), reply(2)).await.unwrap();
    rig.clock.advance(DAY / 2).await.unwrap();
    assert!(kept(&rig, 1).await.is_some(), "not before a day has passed");
    rig.clock.advance(2 * 3_600_000).await.unwrap();
    within("the purge", async {
        while kept(&rig, 1).await.is_some() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(kept(&rig, 2).await.is_some(), "and nothing younger than that");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_starts_in_one_scope_exactly_one_happens() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let other = second_engine(&rig.store, &rig.clock);
    for round in 0..5 {
        let scope = Some(format!("order-{round}"));
        let new = || {
            let inputs = [("delayMs".to_owned(), Json::of(&1000))].into();
            NewRun { scope: scope.clone(), exclusive: true, inputs, ..NewRun::of(TENANT, "wait") }
        };
        let mut starting = tokio::task::JoinSet::new();
        for ix in 0..16 {
            let engine = if ix % 2 == 0 { rig.engine.clone() } else { other.clone() };
            let new = new();
            starting.spawn(async move { engine.start_run(new).await });
        }
        let answers = within("16 answers", starting.join_all()).await;
        let won: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().ok()).collect();
        assert_eq!(won.len(), 1);
        let holder = won[0].0;
        let lost = |answer: &&Result<_, _>| matches!(answer, Err(Error::Claimed(run)) if *run == holder);
        assert_eq!(answers.iter().filter(lost).count(), 15);
        rig.engine.start_run(NewRun { exclusive: false, ..new() }).await.unwrap();
        rig.engine.cancel(holder.of(TENANT), None, None).await.unwrap();
        rig.engine.start_run(new()).await.expect("the scope is free again");
    }
    rig.verify().await;
}
