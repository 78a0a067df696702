//! Tasks for workers: there with the commit that offers them, in one session's hands at a time, gone with the commit that
//! withdraws them; the kinds that workers provide; and the calls of their agents.

use std::sync::Arc;

use abide_core::event::HookKind;
use abide_core::{Effect, Hook, InterruptId, Key, Millis, Offer, TaskId, TenantId};
use abide_store::{
    Commit, Erased, Erasure, Expected, HookClaim, HookId, HookRow, KindRow, SessionId, Store, WorkClaim,
    WorkRow,
};
use serde_json::json;

use crate::engine::{commit, engines};
use crate::live::{BEGIN, Live, TENANT, key, start};
use crate::workflow::{asking, voyage};

pub(super) fn session(n: u8) -> SessionId {
    SessionId::from_bytes([n; 16])
}

pub(super) fn task(node: &str) -> TaskId {
    TaskId { node: node.into(), execution: 1 }
}

pub(super) fn offer(node: &str, kind: &str, at: Millis) -> Offer {
    Offer {
        task: task(node),
        fence: 3,
        kind: kind.into(),
        agent: None,
        attempt: 1,
        timeout_ms: Some(500),
        at,
        held: false,
    }
}

/// A run whose nodes are offered to workers. What the workflow itself does is of no concern here.
pub(super) async fn offering(
    store: &dyn Store,
    at: Key,
    offers: Vec<Offer>,
    sessions: Vec<Option<SessionId>>,
) -> Live {
    let (live, created) = Live::start_with(start(at, &voyage()), BEGIN);
    let mut effects = created.effects.clone();
    effects.extend(offers.into_iter().map(Effect::Offer));
    commit(store, Commit { effects, sessions, ..created }).await.unwrap();
    live
}

/// The run is paused, or goes on, with this beside.
pub(super) async fn with(store: &dyn Store, live: &mut Live, effect: Effect) {
    let paused = live.run.status() == abide_core::Status::Paused;
    let step = if paused { live.resume() } else { live.pause() };
    commit(store, Commit { effects: vec![effect], ..step }).await.unwrap();
}

pub(super) async fn claim(
    store: &dyn Store,
    who: SessionId,
    agent: &str,
    kinds: &[&str],
    limit: usize,
) -> Vec<WorkRow> {
    let kinds: Vec<Arc<str>> = kinds.iter().copied().map(Into::into).collect();
    let (agent, now) = (agent.to_owned(), BEGIN + 9);
    let claim = WorkClaim { tenant: TENANT, session: who, agent, kinds, limit, now };
    store.work().claim(claim).await.unwrap()
}

pub(super) fn nodes(rows: &[WorkRow]) -> Vec<&str> {
    rows.iter().map(|row| &*row.task.node).collect()
}

#[tokio::test]
async fn a_claim_takes_the_oldest_that_nobody_has_and_nobody_gets_it_twice() {
    for engine in engines() {
        let store = engine.open();
        let offers = vec![
            offer("young", "mail", BEGIN + 3),
            offer("old", "mail", BEGIN + 1),
            offer("other", "print", BEGIN + 2),
            offer("foreign", "fax", BEGIN),
        ];
        offering(&*store, key(1), offers, Vec::new()).await;
        assert_eq!(nodes(&claim(&*store, session(1), "a", &["mail", "print"], 2).await), ["old", "other"]);
        let rest = claim(&*store, session(2), "a", &["mail", "print"], 9).await;
        assert_eq!(nodes(&rest), ["young"]);
        assert_eq!((rest[0].fence, rest[0].timeout_ms), (3, Some(500)));
        assert_eq!(rest[0].held, Some((session(2), BEGIN + 9)));
        assert!(claim(&*store, session(1), "a", &["mail", "print"], 9).await.is_empty());
        assert_eq!(store.work().waiting().await.unwrap(), [(TENANT, "fax".to_owned(), 1)]);
    }
}

#[tokio::test]
async fn a_task_that_is_given_away_with_its_commit_is_not_to_be_claimed() {
    for engine in engines() {
        let store = engine.open();
        let offers = vec![offer("mine", "mail", BEGIN), offer("free", "mail", BEGIN)];
        offering(&*store, key(1), offers, vec![Some(session(1))]).await;
        assert_eq!(nodes(&claim(&*store, session(2), "a", &["mail"], 9).await), ["free"]);
        drop(store);
        let held = engine.open().work().left_behind().await.unwrap();
        let held: Vec<_> = held.iter().map(|row| (&*row.task.node, row.held)).collect();
        assert_eq!(held, [("free", Some((session(2), BEGIN + 9))), ("mine", Some((session(1), BEGIN)))]);
    }
}

#[tokio::test]
async fn a_task_for_one_agent_is_for_no_other() {
    for engine in engines() {
        let store = engine.open();
        let hers = Offer { agent: Some("ada".to_owned()), ..offer("hers", "mail", BEGIN) };
        offering(&*store, key(1), vec![hers], Vec::new()).await;
        assert!(claim(&*store, session(1), "bob", &["mail"], 9).await.is_empty());
        assert_eq!(nodes(&claim(&*store, session(1), "ada", &["mail"], 9).await), ["hers"]);
    }
}

#[tokio::test]
async fn another_tenant_claims_nothing_of_ours() {
    for engine in engines() {
        let store = engine.open();
        offering(&*store, key(1), vec![offer("mine", "mail", BEGIN)], Vec::new()).await;
        let claim = WorkClaim {
            tenant: TenantId(2),
            session: session(1),
            agent: "a".to_owned(),
            kinds: vec!["mail".into()],
            limit: 9,
            now: BEGIN,
        };
        assert!(store.work().claim(claim).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn what_a_session_never_heard_of_can_be_taken_back_and_nothing_else() {
    for engine in engines() {
        let store = engine.open();
        let offers = vec![offer("one", "mail", BEGIN)];
        offering(&*store, key(1), offers, vec![Some(session(1))]).await;
        let back = |who, fence| store.work().unclaim(who, None, vec![(key(1), task("one"), fence)]);
        assert_eq!(back(session(2), 3).await.unwrap(), 0, "another's");
        assert_eq!(back(session(1), 2).await.unwrap(), 0, "an earlier hand-out");
        assert_eq!(back(session(1), 3).await.unwrap(), 1);
        assert_eq!(nodes(&claim(&*store, session(2), "a", &["mail"], 9).await), ["one"]);
    }
}

#[tokio::test]
async fn a_task_goes_with_the_commit_that_withdraws_it_and_comes_again_with_a_later_one() {
    for engine in engines() {
        let store = engine.open();
        let offers = vec![offer("one", "mail", BEGIN)];
        let mut live = offering(&*store, key(1), offers, vec![Some(session(1))]).await;
        with(&*store, &mut live, Effect::Withdraw(task("one"))).await;
        assert!(store.work().left_behind().await.unwrap().is_empty());
        assert_eq!(store.totals().await.unwrap().work, 0);
        with(&*store, &mut live, Effect::Offer(Offer { fence: 4, ..offer("one", "mail", BEGIN) })).await;
        with(&*store, &mut live, Effect::Offer(Offer { fence: 5, ..offer("one", "mail", BEGIN) })).await;
        let beside = store.beside(key(1), Expected::default()).await.unwrap();
        assert_eq!(beside.work, [(task("one"), 5)], "offered anew without being withdrawn");
    }
}

#[tokio::test]
async fn what_is_called_off_is_given_to_nobody_and_found_at_a_start() {
    for engine in engines() {
        let store = engine.open();
        let mut live = offering(&*store, key(1), vec![offer("one", "mail", BEGIN)], Vec::new()).await;
        with(&*store, &mut live, Effect::CallOff(task("one"))).await;
        assert!(claim(&*store, session(1), "a", &["mail"], 9).await.is_empty());
        drop(store);
        let left = engine.open().work().left_behind().await.unwrap();
        assert_eq!((nodes(&left), left[0].held, left[0].called_off), (vec!["one"], None, true));
    }
}

fn kind(name: &str) -> KindRow {
    KindRow {
        tenant: TENANT,
        kind: name.to_owned(),
        agent: "ada".to_owned(),
        idempotent: true,
        reversible: None,
        timeout_ms: Some(7),
        code_version: Some("1.2".to_owned()),
        registered_at: BEGIN,
    }
}

#[tokio::test]
async fn kinds_are_kept_replaced_and_forgotten() {
    for engine in engines() {
        let store = engine.open();
        store.work().put_kinds(vec![kind("b"), kind("a")]).await.unwrap();
        let newer = KindRow { agent: "bob".to_owned(), idempotent: false, timeout_ms: None, ..kind("b") };
        store.work().put_kinds(vec![newer.clone()]).await.unwrap();
        drop(store);
        let store = engine.open();
        let list = |tenant, after: &str| store.work().kinds(tenant, after.to_owned(), 10);
        assert_eq!(list(TENANT, "").await.unwrap(), [kind("a"), newer.clone()]);
        assert_eq!(list(TENANT, "a").await.unwrap(), [newer]);
        assert!(list(TenantId(2), "").await.unwrap().is_empty());
        assert!(!store.work().forget_kind(TenantId(2), "a".to_owned()).await.unwrap());
        assert!(store.work().forget_kind(TENANT, "a".to_owned()).await.unwrap());
        assert!(!store.work().forget_kind(TENANT, "a".to_owned()).await.unwrap());
    }
}

/// A run that asks, and calls its agent so often.
async fn calling(store: &dyn Store, calls: &[(HookKind, u32)]) -> Live {
    let (live, created) = Live::start_with(start(key(1), &asking()), BEGIN);
    let id = live.first_interrupt();
    let mut effects = created.effects.clone();
    let call = |(kind, attempt): &(HookKind, u32)| {
        let (agent, at) = ("ada".to_owned(), BEGIN + i64::from(*attempt));
        Effect::Hook(Hook { agent, id, kind: *kind, attempt: *attempt, at })
    };
    effects.extend(calls.iter().map(call));
    commit(store, Commit { effects, ..created }).await.unwrap();
    live
}

async fn hooks(store: &dyn Store) -> Vec<HookRow> {
    store.work().hooks(TENANT, "ada".to_owned(), HookKind::ALL.to_vec(), 10).await.unwrap()
}

fn id(live: &Live, interrupt: InterruptId, hook: HookKind, attempt: u32) -> HookId {
    HookId { run: live.key().id, interrupt, hook, attempt }
}

#[tokio::test]
async fn a_call_waits_until_it_is_over_and_is_tried_again_when_it_is_due() {
    for engine in engines() {
        let store = engine.open();
        let live = calling(&*store, &[(HookKind::InputRequested, 1), (HookKind::InputRequested, 2)]).await;
        let asked = live.first_interrupt();
        let rows = hooks(&*store).await;
        let seen: Vec<_> = rows.iter().map(|row| (row.id.attempt, row.due, row.tries)).collect();
        assert_eq!(seen, [(1, BEGIN + 1, 0), (2, BEGIN + 2, 0)]);
        let of = |agent: &str, on| store.work().hooks(TENANT, agent.to_owned(), vec![on], 10);
        assert!(of("bob", HookKind::InputRequested).await.unwrap().is_empty());
        assert!(of("ada", HookKind::InputReceived).await.unwrap().is_empty());
        let first = id(&live, asked, HookKind::InputRequested, 1);
        assert!(store.work().settle_hook(TENANT, first, Some(BEGIN + 100)).await.unwrap());
        let rows = hooks(&*store).await;
        let seen: Vec<_> = rows.iter().map(|row| (row.id.attempt, row.due, row.tries)).collect();
        assert_eq!(seen, [(2, BEGIN + 2, 0), (1, BEGIN + 100, 1)]);
        assert!(store.work().settle_hook(TENANT, first, None).await.unwrap());
        assert!(!store.work().settle_hook(TENANT, first, None).await.unwrap());
        assert!(!store.work().settle_hook(TenantId(2), rows[0].id, None).await.unwrap());
        assert_eq!(hooks(&*store).await.len(), 1);
    }
}

#[tokio::test]
async fn a_call_that_one_server_has_in_hand_is_for_no_other_until_it_gives_it_back() {
    for engine in engines() {
        let store = engine.open();
        let live = calling(&*store, &[(HookKind::InputRequested, 1), (HookKind::InputRequested, 90)]).await;
        let take = |now: Millis| {
            let (tenant, agent, on) = (TENANT, "ada".to_owned(), HookKind::ALL.to_vec());
            let claim = HookClaim { tenant, agent, on, limit: 10, now, until: now + 30 };
            store.work().claim_hooks(claim)
        };
        let due = |rows: &[HookRow]| rows.iter().map(|row| (row.id.attempt, row.due)).collect::<Vec<_>>();
        let now = BEGIN + 10;
        assert_eq!(due(&take(now).await.unwrap()), [(1, BEGIN + 1), (90, BEGIN + 90)]);
        assert_eq!(due(&take(now + 1).await.unwrap()), [(1, now + 30), (90, BEGIN + 90)], "it is taken");
        let first = id(&live, live.first_interrupt(), HookKind::InputRequested, 1);
        store.work().keep_hooks(vec![(TENANT, first)], now + 50).await.unwrap();
        assert_eq!(due(&take(now + 31).await.unwrap())[0], (1, now + 50), "it is kept");
        assert_eq!(due(&take(now + 50).await.unwrap())[0], (1, now + 50), "whoever kept it is gone");
        store.work().keep_hooks(vec![(TENANT, first)], 0).await.unwrap();
        assert_eq!(due(&take(now + 51).await.unwrap())[0], (1, BEGIN + 1), "it was given back");
        assert!(store.work().settle_hook(TENANT, first, Some(BEGIN + 70)).await.unwrap());
        assert_eq!(due(&take(BEGIN + 71).await.unwrap())[0], (1, BEGIN + 70), "it is due for its next try");
    }
}

#[tokio::test]
async fn an_answer_takes_back_the_calls_to_ask_and_leaves_those_that_tell() {
    for engine in engines() {
        let store = engine.open();
        let mut live = calling(&*store, &[(HookKind::InputRequested, 1), (HookKind::InputReceived, 1)]).await;
        let answered = live.resolve(&json!({"answers": {"why": "because"}}));
        commit(&*store, answered).await.unwrap();
        let rows = hooks(&*store).await;
        assert_eq!(rows.iter().map(|row| row.id.hook).collect::<Vec<_>>(), [HookKind::InputReceived]);
    }
}

#[tokio::test]
async fn an_erased_run_calls_nobody() {
    for engine in engines() {
        let store = engine.open();
        let mut live = calling(&*store, &[(HookKind::SuspensionExpired, 1)]).await;
        commit(&*store, live.cancel()).await.unwrap();
        assert_eq!(hooks(&*store).await.len(), 1);
        let erasure = Erasure { at: BEGIN, by: None, reason: None };
        assert!(matches!(store.erase(key(1), erasure).await.unwrap(), Erased::Done { .. }));
        assert!(hooks(&*store).await.is_empty());
    }
}
