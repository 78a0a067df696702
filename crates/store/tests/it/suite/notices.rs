//! Who is told that an interrupt waits: there with the commit that begins an attempt, turned into messages once, and
//! turned into follow-ups with the commit that closes it.

use abide_core::event::Resolution;
use abide_core::{Effect, InterruptId, Key, Notify, RunId, TenantId};
use abide_store::{
    AgentRow, Commit, Erased, Erasure, Expanded, FollowUp, HowEnded, NewMessage, NoticeDelivery, NoticeEnd,
    NoticeId, NoticeLine, NoticeRow, NoticeState, NoticesQuery, Store,
};
use serde_json::json;

use crate::engine::{commit, engines};
use crate::live::{BEGIN, Live, TENANT, key, run_id, start};
use crate::workflow::asking;

/// A run that asks, and whose first attempt is to be told.
async fn ask(store: &dyn Store, at: Key) -> Live {
    ask_times(store, at, 1).await
}

/// A run that has asked so many times, which nobody was told of yet.
async fn ask_times(store: &dyn Store, at: Key, attempts: u32) -> Live {
    let (live, created) = Live::start_with(start(at, &asking()), BEGIN);
    commit(store, with_attempts(created, live.first_interrupt(), attempts)).await.unwrap();
    live
}

fn with_attempts(commit: Commit, id: InterruptId, attempts: u32) -> Commit {
    let mut effects = commit.effects;
    effects.retain(|effect| !matches!(effect, Effect::Notify(_)));
    effects.extend((1..=attempts).map(|attempt| Effect::Notify(Notify { id, attempt, at: BEGIN })));
    Commit { effects, ..commit }
}

/// The interrupt is answered, and everybody who may have been told hears of it.
async fn answer(store: &dyn Store, live: &mut Live) {
    let mut answered = live.resolve(&json!({"answers": {"why": "because"}}));
    for effect in &mut answered.effects {
        if let Effect::CloseInterrupt(closed) = effect {
            closed.told = true;
        }
    }
    commit(store, answered).await.unwrap();
}

fn row(live: &Live, id: InterruptId, attempt: u32) -> NoticeRow {
    NoticeRow { key: live.key(), interrupt: id, attempt, at: BEGIN }
}

fn to(recipient: &str) -> NewMessage {
    NewMessage {
        channel: "chat".to_owned(),
        recipient: recipient.to_owned(),
        person: None,
        hint: None,
        state: NoticeState::Waiting,
        reason: None,
        due: BEGIN,
    }
}

fn over(tenant: TenantId, channel: &str) -> NoticeLine {
    NoticeLine { tenant, channel: channel.to_owned() }
}

fn chat() -> NoticeLine {
    over(TENANT, "chat")
}

async fn expand(store: &dyn Store, notice: NoticeRow, messages: Vec<NewMessage>) -> Vec<NoticeLine> {
    store.notices().expand(vec![Expanded { notice, messages }]).await.unwrap()
}

async fn due(store: &dyn Store, now: i64) -> Vec<NoticeDelivery> {
    store.notices().due(chat(), now, 100).await.unwrap().0
}

async fn settle(store: &dyn Store, id: NoticeId, how: HowEnded) {
    store.notices().settle(vec![NoticeEnd { tenant: TENANT, id, how }], None).await.unwrap();
}

async fn get(store: &dyn Store, id: NoticeId) -> NoticeDelivery {
    store.notices().get(TENANT, id).await.unwrap().expect("it is there")
}

fn no(reason: &str) -> String {
    reason.to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_is_there_with_its_commit_and_is_turned_into_messages_once() {
    for engine in engines() {
        let store = engine.open();
        let live = ask(&*store, key(1)).await;
        let id = live.first_interrupt();
        let untold = store.notices().untold(None, 9, 9).await.unwrap();
        assert_eq!(untold, [row(&live, id, 1)]);

        let messages = vec![to("ada"), NewMessage { person: Some("bob".to_owned()), ..to("bob@x") }];
        assert_eq!(expand(&*store, untold[0], messages.clone()).await, [chat()]);
        assert_eq!(store.notices().untold(None, 9, 9).await.unwrap(), []);
        assert_eq!(expand(&*store, untold[0], messages).await, [], "it was told");
        let found = due(&*store, BEGIN).await;
        let seen: Vec<_> =
            found.iter().map(|one| (one.id.n, &*one.recipient, one.person.as_deref())).collect();
        assert_eq!(seen, [(0, "ada", None), (1, "bob@x", Some("bob"))]);
        assert_eq!(found[0].key(), key(1));
        assert_eq!(store.notices().lines(None).await.unwrap(), [chat()]);
        assert_eq!(store.notices().lines(Some(TenantId(2))).await.unwrap(), []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_commit_tells_nobody() {
    for engine in engines() {
        let store = engine.open();
        let mut live = ask(&*store, key(1)).await;
        let mut late = live.clone();
        answer(&*store, &mut live).await;
        let id = late.first_interrupt();
        let stale = with_attempts(late.cancel(), id, 2);
        assert!(commit(&*store, stale).await.is_err(), "somebody was faster");
        assert_eq!(store.notices().untold(None, 9, 9).await.unwrap(), [], "the answer took the first along");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_take_turns_and_none_takes_more_than_its_share() {
    for engine in engines() {
        let store = engine.open();
        for (tenant, runs) in [(1, 5), (2, 1), (7, 3)] {
            for n in 0..runs {
                ask(&*store, run_id(10 * tenant + n).of(TenantId(tenant))).await;
            }
        }
        let tenants = async |after: Option<u32>, of_tenant, limit| {
            let untold = store.notices().untold(after.map(TenantId), of_tenant, limit).await.unwrap();
            untold.iter().map(|row| row.key.tenant.0).collect::<Vec<_>>()
        };
        assert_eq!(tenants(None, 2, 9).await, [1, 1, 2, 7, 7]);
        assert_eq!(tenants(Some(1), 2, 9).await, [2, 7, 7, 1, 1]);
        assert_eq!(tenants(Some(2), 9, 4).await, [7, 7, 7, 1]);
        assert_eq!(tenants(Some(7), 1, 2).await, [1, 2]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_tried_until_it_is_sent_or_given_up_and_one_that_was_given_up_is_sent_again() {
    for engine in engines() {
        let store = engine.open();
        let live = ask(&*store, key(1)).await;
        let notice = row(&live, live.first_interrupt(), 1);
        expand(&*store, notice, vec![to("ada"), to("bob")]).await;
        let [ada, bob] =
            [0, 1].map(|n| NoticeId { run: run_id(1), interrupt: notice.interrupt, attempt: 1, n });

        settle(&*store, ada, HowEnded::Again { due: BEGIN + 5, reason: no("it hangs") }).await;
        settle(&*store, bob, HowEnded::PutOff { due: BEGIN + 7, reason: no("too many") }).await;
        assert_eq!(store.notices().due(chat(), BEGIN, 9).await.unwrap(), (vec![], Some(BEGIN + 5)));
        let (found, next) = store.notices().due(chat(), BEGIN + 5, 9).await.unwrap();
        assert_eq!((found.len(), found[0].tries, next), (1, 1, Some(BEGIN + 7)));
        assert_eq!(get(&*store, bob).await.tries, 0, "it was not tried");

        settle(&*store, ada, HowEnded::Sent { at: BEGIN + 6 }).await;
        let sent = get(&*store, ada).await;
        assert_eq!((sent.state, sent.tries, sent.due), (NoticeState::Sent, 2, None));
        assert_eq!((sent.sent_at, sent.reason), (Some(BEGIN + 6), None));
        assert!(!store.notices().resend(TENANT, ada, BEGIN).await.unwrap(), "it was sent");

        settle(&*store, bob, HowEnded::Dead { reason: no("gone") }).await;
        let dead = get(&*store, bob).await;
        assert_eq!((dead.state, dead.due, dead.reason.as_deref()), (NoticeState::Dead, None, Some("gone")));
        assert!(!store.notices().resend(TenantId(2), bob, BEGIN).await.unwrap(), "it is another's");
        assert!(store.notices().resend(TENANT, bob, BEGIN + 9).await.unwrap());
        let again = get(&*store, bob).await;
        assert_eq!((again.state, again.tries, again.due), (NoticeState::Waiting, 0, Some(BEGIN + 9)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_attempt_supersedes_what_waits_and_not_what_was_sent() {
    for engine in engines() {
        let store = engine.open();
        let live = ask_times(&*store, key(1), 2).await;
        let id = live.first_interrupt();
        expand(&*store, row(&live, id, 1), vec![to("ada"), to("bob"), to("eve")]).await;
        let first = |n| NoticeId { run: run_id(1), interrupt: id, attempt: 1, n };
        settle(&*store, first(0), HowEnded::Sent { at: BEGIN }).await;
        expand(&*store, row(&live, id, 2), vec![to("ada")]).await;
        // One of them was under way.
        settle(&*store, first(2), HowEnded::Sent { at: BEGIN }).await;
        settle(&*store, first(1), HowEnded::Again { due: BEGIN, reason: no("late") }).await;
        let states =
            [get(&*store, first(0)).await, get(&*store, first(1)).await, get(&*store, first(2)).await]
                .map(|one| one.state);
        assert_eq!(states, [NoticeState::Sent, NoticeState::Superseded, NoticeState::Sent]);
        let left = due(&*store, i64::MAX).await;
        assert_eq!(left.iter().map(|one| one.id.attempt).collect::<Vec<_>>(), [2]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_withdraws_what_waits_and_tells_each_recipient_once_what_became_of_it() {
    for engine in engines() {
        let store = engine.open();
        let mut live = ask_times(&*store, key(1), 3).await;
        let id = live.first_interrupt();
        let later = NewMessage { due: BEGIN + 1, ..to("eve") };
        expand(&*store, row(&live, id, 1), vec![to("ada"), to("bob"), later]).await;
        let at = |attempt, n| NoticeId { run: run_id(1), interrupt: id, attempt, n };
        for n in [0, 1] {
            settle(&*store, at(1, n), HowEnded::Sent { at: BEGIN }).await;
        }
        let later = NewMessage { due: BEGIN + 1, ..to("eve") };
        expand(&*store, row(&live, id, 2), vec![to("ada"), to("zoe"), later]).await;
        settle(&*store, at(2, 0), HowEnded::Sent { at: BEGIN }).await;

        answer(&*store, &mut live).await;
        assert_eq!(store.notices().untold(None, 9, 9).await.unwrap(), [], "nobody is told any more");
        let follow = due(&*store, BEGIN).await;
        let mut whom: Vec<_> = follow.iter().map(|one| (one.id.attempt, one.id.n, one.state)).collect();
        whom.sort_by_key(|one| (one.0, one.1));
        let (sent, withdrawn) = (NoticeState::Sent, NoticeState::Withdrawn);
        assert_eq!(whom, [(1, 1, sent), (2, 0, sent), (2, 1, withdrawn)], "ada hears of it once");
        let told = FollowUp { outcome: Resolution::Resolved, by: "ada".to_owned(), at: BEGIN };
        assert!(follow.iter().all(|one| one.follow.as_ref() == Some(&told)));
        assert_eq!(get(&*store, at(2, 2)).await.state, withdrawn);
        assert_eq!(get(&*store, at(2, 2)).await.follow, None, "it was never under way");

        // The try that was under way says that it arrived.
        settle(&*store, at(2, 1), HowEnded::Sent { at: BEGIN + 1 }).await;
        let arrived = get(&*store, at(2, 1)).await;
        assert_eq!((arrived.state, arrived.due, arrived.follow), (sent, Some(BEGIN), Some(told)));
        settle(&*store, at(1, 1), HowEnded::FollowAgain { due: BEGIN + 8, reason: no("busy") }).await;
        settle(&*store, at(2, 0), HowEnded::Followed).await;
        settle(&*store, at(2, 1), HowEnded::Unfollowed { reason: no("gone") }).await;
        assert_eq!(store.notices().due(chat(), BEGIN, 9).await.unwrap(), (vec![], Some(BEGIN + 8)));
        assert_eq!(get(&*store, at(2, 1)).await.reason.as_deref(), Some("gone"));
        settle(&*store, at(1, 1), HowEnded::Followed).await;
        assert_eq!(store.notices().lines(None).await.unwrap(), []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_was_under_way_when_a_later_attempt_began_is_followed_up() {
    for engine in engines() {
        let store = engine.open();
        let mut live = ask_times(&*store, key(1), 2).await;
        let id = live.first_interrupt();
        expand(&*store, row(&live, id, 1), vec![to("ada")]).await;
        expand(&*store, row(&live, id, 2), vec![to("zoe")]).await;
        answer(&*store, &mut live).await;
        // Its try ends only now.
        let first = NoticeId { run: run_id(1), interrupt: id, attempt: 1, n: 0 };
        settle(&*store, first, HowEnded::Sent { at: BEGIN }).await;
        let arrived = get(&*store, first).await;
        assert_eq!((arrived.state, arrived.due), (NoticeState::Sent, Some(BEGIN)));
        assert!(arrived.follow.is_some(), "ada was told, and hears that it is answered");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_have_arrived_of_a_message_that_was_given_up_is_followed_up_and_it_is_not_sent_again() {
    for engine in engines() {
        let store = engine.open();
        let mut live = ask(&*store, key(1)).await;
        let id = live.first_interrupt();
        expand(&*store, row(&live, id, 1), vec![to("ada")]).await;
        let message = NoticeId { run: run_id(1), interrupt: id, attempt: 1, n: 0 };
        settle(&*store, message, HowEnded::Dead { reason: no("no answer") }).await;
        answer(&*store, &mut live).await;
        let found = get(&*store, message).await;
        assert_eq!((found.state, found.due), (NoticeState::Dead, Some(BEGIN)));
        assert!(found.follow.is_some());
        assert!(!store.notices().resend(TENANT, message, BEGIN).await.unwrap(), "it is answered");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_counted_for_as_long_as_they_count() {
    for engine in engines() {
        let store = engine.open();
        let live = ask(&*store, key(1)).await;
        let id = live.first_interrupt();
        expand(&*store, row(&live, id, 1), vec![to("ada"), to("ada"), to("ada"), to("bob")]).await;
        for (n, at) in [(0, BEGIN), (1, BEGIN), (2, BEGIN + 100), (3, BEGIN)] {
            let id = NoticeId { run: run_id(1), interrupt: id, attempt: 1, n };
            let end = NoticeEnd { tenant: TENANT, id, how: HowEnded::Sent { at } };
            store.notices().settle(vec![end], Some(100)).await.unwrap();
            let sent = store.notices().sent_since(chat(), "ada".to_owned(), BEGIN - 1).await.unwrap();
            let expected = [(1, BEGIN), (2, BEGIN), (1, BEGIN + 100), (1, BEGIN + 100)][usize::from(n)];
            assert_eq!(sent, (expected.0, Some(expected.1)), "the old ones go when a new one is sent");
        }
        let none = store.notices().sent_since(chat(), "ada".to_owned(), BEGIN + 100).await.unwrap();
        assert_eq!(none, (0, None));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_listed_by_state_and_run_those_of_the_newest_run_first() {
    for engine in engines() {
        let store = engine.open();
        for n in [1, 2] {
            let live = ask(&*store, key(n)).await;
            let refused =
                NewMessage { state: NoticeState::Refused, reason: Some(no("not allowed")), ..to("x") };
            expand(&*store, row(&live, live.first_interrupt(), 1), vec![to("ada"), refused]).await;
        }
        ask(&*store, run_id(9).of(TenantId(2))).await;
        let all = async |state: Option<NoticeState>, run: Option<RunId>| {
            let mut found = Vec::new();
            let mut query =
                NoticesQuery { tenant: TENANT, state, run, interrupt: None, after: None, limit: 1 };
            loop {
                let page = store.notices().list(query.clone()).await.unwrap();
                found.extend(page.rows.iter().map(|row| (row.id.run, row.id.n)));
                match page.next {
                    Some(next) => query.after = Some(next),
                    None => return found,
                }
            }
        };
        let [one, two] = [run_id(1), run_id(2)];
        assert_eq!(all(None, None).await, [(two, 1), (two, 0), (one, 1), (one, 0)]);
        assert_eq!(all(Some(NoticeState::Refused), None).await, [(two, 1), (one, 1)]);
        assert_eq!(all(Some(NoticeState::Waiting), None).await, [(two, 0), (one, 0)]);
        assert_eq!(all(Some(NoticeState::Refused), Some(one)).await, [(one, 1)]);
        assert_eq!(all(Some(NoticeState::Sent), None).await, []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn erasing_a_run_takes_along_who_was_told_of_it() {
    for engine in engines() {
        let store = engine.open();
        for n in [1, 2] {
            let mut live = ask(&*store, key(n)).await;
            let id = live.first_interrupt();
            expand(&*store, row(&live, id, 1), vec![to("ada@example.com")]).await;
            let message = NoticeId { run: run_id(n), interrupt: id, attempt: 1, n: 0 };
            settle(&*store, message, HowEnded::Sent { at: BEGIN }).await;
            answer(&*store, &mut live).await;
        }
        let erasure = Erasure { at: BEGIN, by: Some("ada".to_owned()), reason: None };
        let erased = store.erase(key(1), erasure).await.unwrap();
        assert!(matches!(erased, Erased::Done { .. }), "{erased:?}");
        let left = due(&*store, i64::MAX).await;
        assert_eq!(left.iter().map(|one| one.id.run).collect::<Vec<_>>(), [run_id(2)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agents_record_is_set_read_listed_and_removed_for_its_tenant_alone() {
    for engine in engines() {
        let store = engine.open();
        let agent = |tenant, name: &str, policy: &str, updated_at| AgentRow {
            tenant: TenantId(tenant),
            name: name.to_owned(),
            policy: policy.to_owned(),
            updated_at,
        };
        for one in
            [agent(1, "b", "{}", 1), agent(1, "a", "{}", 2), agent(2, "a", "[2]", 3), agent(1, "b", "{1}", 4)]
        {
            store.agents().put(one).await.unwrap();
        }
        let agents = store.agents();
        assert_eq!(agents.get(TENANT, "b".to_owned()).await.unwrap(), Some(agent(1, "b", "{1}", 4)));
        let list = agents.list(TENANT, String::new(), 9).await.unwrap();
        assert_eq!(list, [agent(1, "a", "{}", 2), agent(1, "b", "{1}", 4)]);
        assert_eq!(agents.list(TENANT, "a".to_owned(), 9).await.unwrap(), list[1..]);
        assert_eq!(agents.list(TENANT, String::new(), 1).await.unwrap(), list[..1]);
        assert!(agents.delete(TENANT, "a".to_owned()).await.unwrap());
        assert!(!agents.delete(TENANT, "a".to_owned()).await.unwrap());
        assert!(agents.get(TenantId(2), "a".to_owned()).await.unwrap().is_some());
    }
}
