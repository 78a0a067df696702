//! Who is woken, when, and how many at once.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_turns_that_wait_probe_with_one_call() {
    let World { site, .. } = &World::with(Provider::slow()).await;
    site.open_breaker().await;
    site.postpone_many(1000).await;
    quiet(site).await;
    assert_eq!((site.provider.calls(), site.waiting().await), (0, 1000), "nobody is woken before its time");
    site.cooldown().await;
    until("there is a probe", async || site.provider.calls() == 1).await;
    quiet(site).await;
    assert_eq!((site.provider.calls(), site.waiting().await), (1, 999));
    assert!(site.runs.lock().unwrap()[&key(0)].status() == Status::Paused, "the oldest is the probe");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_that_fails_leaves_all_waiting_for_twice_as_long() {
    let World { site, .. } = &World::new().await;
    site.provider.is_away.store(true, Ordering::SeqCst);
    site.open_breaker().await;
    site.postpone_many(20).await;
    for (probes, cooldown) in [60, 120, 240, 300, 300].into_iter().enumerate() {
        site.cooldown().await;
        until("the probe has failed", async || {
            matches!(site.state().await, BreakerState::Open { cooldown_ms, opened_at, .. }
                if cooldown_ms == cooldown * SECOND && opened_at == site.clock.now())
        })
        .await;
        quiet(site).await;
        assert_eq!(site.provider.calls(), probes + 1);
    }
    assert_eq!(site.waiting().await, 15, "each probe's turn goes on by its own schedule");
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_provider_is_back_all_are_woken_a_few_more_at_a_time() {
    let World { site, .. } = &World::with(Provider::slow()).await;
    site.open_breaker().await;
    site.postpone_many(60).await;
    site.cooldown().await;
    let provider = &site.provider;
    until("there is a probe", async || provider.calls() == 1).await;
    provider.end(1);
    // The probe was one; then come four, and each that ends makes room for two: its own place, and one more.
    let mut calls = 1 + limits::WOKEN_CALLS_MIN;
    for ended in 0..20 {
        until("as many call as may", async || provider.calls() == calls).await;
        quiet(site).await;
        assert_eq!(provider.calls(), calls, "after {ended} that succeeded");
        provider.end(1);
        calls += 2;
    }
    provider.end(1000);
    until("all have called", async || provider.calls() == 60).await;
    assert_eq!(site.waiting().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn never_more_are_woken_at_once_than_a_provider_is_trusted_with() {
    let World { site, .. } = &World::with(Provider::slow()).await;
    site.open_breaker().await;
    site.postpone_many(1500).await;
    site.cooldown().await;
    let provider = &site.provider;
    until("there is a probe", async || provider.calls() == 1).await;
    while provider.calls() < 1500 {
        provider.end(provider.under_way.load(Ordering::SeqCst));
        tokio::task::yield_now().await;
    }
    provider.end(limits::WOKEN_CALLS_MAX);
    until("all have ended", async || provider.under_way.load(Ordering::SeqCst) == 0).await;
    let most = provider.most.load(Ordering::SeqCst);
    assert!(most <= limits::WOKEN_CALLS_MAX, "{most} called at once");
    assert_eq!((provider.calls(), site.waiting().await), (1500, 0), "each once");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_woken_any_more_when_it_opens_again() {
    let World { site, .. } = &World::with(Provider::slow()).await;
    site.open_breaker().await;
    site.postpone_many(100).await;
    site.cooldown().await;
    let provider = &site.provider;
    until("there is a probe", async || provider.calls() == 1).await;
    provider.end(1);
    until("some were woken", async || provider.calls() == 1 + limits::WOKEN_CALLS_MIN).await;
    provider.is_away.store(true, Ordering::SeqCst);
    provider.end(1000);
    until("it is open again", async || matches!(site.state().await, BreakerState::Open { .. })).await;
    until("those on their way wait again", async || site.waiting().await == 100 - provider.calls()).await;
    quiet(site).await;
    // Ten that fail open it; a few more may have been on their way.
    let calls = provider.calls();
    assert!(calls <= 1 + 10 + limits::WOKEN_CALLS_MIN, "{calls}");
    assert_eq!(site.waiting().await, 100 - calls);
    let BreakerState::Open { cooldown_ms, .. } = site.state().await else { panic!("it is open") };
    assert_eq!(cooldown_ms, 30 * SECOND);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restart_the_same_wait_goes_on_and_ends_at_its_time() {
    let world = World::with(Provider::slow()).await;
    world.site.open_breaker().await;
    world.site.postpone_many(30).await;
    world.site.clock.advance(29 * SECOND).await.unwrap();
    let World { site, dir, waking } = world.restart().await;
    quiet(&site).await;
    assert_eq!(site.provider.calls(), 0);
    assert!(site.is_refused().await);
    site.clock.advance(SECOND).await.unwrap();
    until("there is a probe", async || site.provider.calls() == 1).await;
    quiet(&site).await;
    assert_eq!((site.provider.calls(), site.waiting().await), (1, 29));
    site.provider.end(1000);
    until("all have called", async || site.provider.calls() == 30).await;
    drop((dir, waking));
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restart_those_are_woken_that_a_closed_breaker_has_left_waiting() {
    let world = World::with(Provider::slow()).await;
    world.site.open_breaker().await;
    world.site.postpone_many(30).await;
    world.site.cooldown().await;
    let provider = world.site.provider.clone();
    until("there is a probe", async || provider.calls() == 1).await;
    provider.end(1);
    until("some were woken", async || provider.calls() == 1 + limits::WOKEN_CALLS_MIN).await;
    let World { site, dir, waking } = world.restart().await;
    provider.end(1000);
    until("nobody waits", async || site.waiting().await == 0).await;
    assert_eq!(site.state().await, BreakerState::Closed);
    drop((dir, waking));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_is_postponed_just_after_the_breaker_closed_is_woken() {
    let World { site, .. } = &World::new().await;
    site.open_breaker().await;
    site.cooldown().await;
    let probe = site.call_of().await;
    assert!(site.is_refused().await, "and so the turn is about to be postponed");
    probe.report(Outcome::Success).await;
    site.postpone(1, START).await;
    until("it has called", async || site.provider.calls() == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_does_not_wait_any_more_leaves_its_place_to_the_next() {
    let World { site, .. } = &World::new().await;
    site.open_breaker().await;
    site.postpone_many(3).await;
    // The oldest two have gone on by themselves, but for their rows.
    for n in [0, 1] {
        let mut runs = site.runs.lock().unwrap();
        let run = runs.get_mut(&key(n)).unwrap();
        run.decide(Command::Pause { reason: None, by: None, drain: Drain::Immediate }, START).unwrap();
    }
    site.cooldown().await;
    until("the third has probed", async || site.provider.calls() == 1).await;
    until("it is closed", async || site.state().await == BreakerState::Closed).await;
    quiet(site).await;
    assert_eq!((site.provider.calls(), site.waiting().await), (1, 2), "and nobody tries the others for ever");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_read_or_written_while_nobody_waits() {
    let World { site, .. } = &World::new().await;
    site.open_breaker().await;
    site.cooldown().await;
    quiet(site).await;
    let before = site.kept().await;
    site.clock.advance(3600 * SECOND).await.unwrap();
    quiet(site).await;
    assert_eq!(site.kept().await, before);
    assert!(site.breakers.waited_for().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn how_providers_do_is_told_with_those_that_wait_for_them() {
    let World { site, .. } = &World::new().await;
    site.call_of().await.report(Outcome::Success).await;
    site.call_of().await.report(Outcome::Failure).await;
    let [health] = &site.breakers.health(TENANT).await.unwrap()[..] else { panic!("there is one provider") };
    assert_eq!((&*health.provider, health.state), (PROVIDER, BreakerState::Closed));
    assert_eq!((health.failures, health.calls, health.postponed), (1, 2, 0));
    site.open_breaker_from(1).await;
    site.postpone_many(2).await;
    let [health] = &site.breakers.health(TENANT).await.unwrap()[..] else { panic!("there is one provider") };
    assert!(matches!(health.state, BreakerState::Open { .. }) && health.postponed == 2, "{health:?}");
}
