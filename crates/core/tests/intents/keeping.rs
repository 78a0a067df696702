//! Who works on an intent: leases, agents, policies, access, and what people are asked beside it.

use abide_core::planning::{NewTask, PlanCommand, TaskAct};
use abide_core::{
    Access, AccessEntry, Actor, Answerer, Command, CoordinatorCommand, IntentCommand, IntentSent, Json,
    LeaseAct, Permission, Registration, Rejection, RequestKind, RequestStatus, Resolve, Status,
};
use serde_json::json;

use super::*;

fn acquire(scope: &str, seconds: u32, agent: &str) -> IntentCommand {
    let act = LeaseAct::Acquire { scope: scope.to_owned(), seconds };
    IntentCommand::Lease { act, actor: Actor::of(agent) }
}

fn lease_of(world: &World, name: &str, agent: &str) -> String {
    let leases = &world.run(name).intent().expect("it is driven").leases;
    leases
        .iter()
        .find(|(_, lease)| lease.agent == agent)
        .map(|(id, _)| id.clone())
        .expect("they have a lease")
}

#[test]
fn a_part_of_an_intent_is_had_by_one_until_they_give_it_back_or_their_time_is_over() {
    let mut world = active("a");
    world.drive("a", acquire("all", 60, "ada")).expect("ada has it");
    assert_eq!(world.holder("a").as_deref(), Some("ada"));
    for agent in ["ada", "bob"] {
        assert!(
            matches!(world.drive("a", acquire("all", 60, agent)), Err(Rejection::Leased { .. })),
            "{agent}"
        );
    }
    world.drive("a", acquire("part", 60, "bob")).expect("another part is free");
    assert_eq!(world.holder("a").as_deref(), Some("ada"), "who came first has the node");
    world.later(60_000);
    world.drive("a", acquire("all", 60, "bob")).expect("her time is over");
    assert_eq!(world.holder("a").as_deref(), Some("bob"));
    let id = lease_of(&world, "a", "bob");
    let release = |id: &str, agent: &str| IntentCommand::Lease {
        act: LeaseAct::Release { id: id.to_owned() },
        actor: Actor::of(agent),
    };
    assert!(matches!(world.drive("a", release(&id, "ada")), Err(Rejection::NoLease(_))), "it is not hers");
}

#[test]
fn leases_last_while_people_are_waited_for_and_may_be_renewed_then() {
    let mut world = active("a");
    world.drive("a", acquire("all", 60, "ada")).unwrap();
    let id = lease_of(&world, "a", "ada");
    world.later(30_000);
    world.set("a", "_suspension", record("s1")).unwrap();
    world.send("a", IntentSent::Suspended).unwrap();
    world.later(24 * 3_600_000);
    assert!(matches!(world.drive("a", acquire("all", 60, "bob")), Err(Rejection::Leased { .. })));
    let renew = IntentCommand::Lease {
        act: LeaseAct::Renew { id: id.clone(), seconds: 90 },
        actor: Actor::of("ada"),
    };
    world.drive("a", renew).expect("it is renewed although the intent waits");
    world.respond("a", "s1", &json!("yes")).unwrap();
    let lease = world.run("a").intent().unwrap().leases[&id].clone();
    assert_eq!(lease.expires_at - world.now, 90_000, "what was left of it is left of it");
    world.later(90_000);
    world.drive("a", acquire("all", 60, "bob")).expect("now it is over");
}

#[test]
fn leases_last_from_the_first_word_on_and_not_only_from_what_is_asked_in_the_end() {
    let mut world = active("a");
    world.drive("a", acquire("all", 900, "ada")).unwrap();
    let id = lease_of(&world, "a", "ada");
    world.later(10_000);
    world.send("a", IntentSent::Suspended).unwrap();
    world.later(2 * 3_600_000);
    world.set("a", "_suspension", record("s1")).expect("it is better late");
    world.later(3_600_000);
    world.respond("a", "s1", &json!("yes")).unwrap();
    let lease = world.run("a").intent().unwrap().leases[&id].clone();
    assert_eq!(lease.expires_at - world.now, 890_000, "what was left of it is left of it");
    assert_eq!(world.holder("a").as_deref(), Some("ada"));
    assert!(matches!(world.drive("a", acquire("all", 60, "bob")), Err(Rejection::Leased { .. })));
}

#[test]
fn nothing_of_an_intent_is_had_while_what_goes_into_it_waits_for_people() {
    let mut world = World::new();
    made(&mut world, "Fetch", &json!({ "_io_outputs": { "rows": "any" } }), false, &[]);
    let state =
        json!({ "_io_inputs": { "rows": "fetch.rows" }, "_io_dep_title_to_name": { "Fetch": "fetch" } });
    let inputs = json_map(&json!({ "title": "b", "created_by": ADA, "state": state }));
    world.begin_with("b", Arc::new(intent_graph()), &["Fetch"], |mut start| {
        start.depends_on[0].name = Some("fetch".to_owned());
        Start { inputs, ..start }
    });
    world.settle();
    world.set("Fetch", "_suspension", record("s1")).unwrap();
    world.send("Fetch", IntentSent::Suspended).unwrap();
    world.drive("b", acquire("all", 60, "bob")).expect("the request is taken");
    let refused = world.run("b").lease_refused("bob").expect("and refused for now");
    assert!(matches!(refused, abide_core::Unclaimed::UpstreamSuspended { .. }), "{refused:?}");
    world.respond("Fetch", "s1", &json!("yes")).unwrap();
    world.set("Fetch", "rows", json!([1, 2])).unwrap();
    world.send("Fetch", IntentSent::Completed).unwrap();
    assert_eq!(world.holder("b").as_deref(), Some("bob"), "whoever was refused has it without asking again");
    world.drive("b", acquire("all", 60, "bob")).expect("and may have the lease");
}

#[test]
fn a_policy_says_who_works_on_an_intent_and_when_it_is_done() {
    let mut world = active("a");
    let expected = world.version("a");
    let policy = json!({
        "write_scope": "assigned_only", "allowed_agents": ["ada", "bob"], "require_status_reason": true,
        "completion_mode": "require_approval",
    });
    let govern = IntentCommand::Govern { expected, policy: Some(Json::of(&policy)), actor: Actor::of(ADA) };
    world.drive("a", govern).unwrap();
    let rule = |refused: Result<(), Rejection>| match refused {
        Err(Rejection::Governed { rule, .. }) => rule,
        other => panic!("{other:?}"),
    };
    assert_eq!(rule(world.set("a", "x", json!(1))), "write_scope");
    let assign = |agent: &str| IntentCommand::Assign {
        agent: agent.to_owned(),
        role: "worker".to_owned(),
        actor: Actor::of(ADA),
    };
    assert_eq!(rule(world.drive("a", assign("eve"))), "allowed_agents");
    world.drive("a", assign("ada")).unwrap();
    world.set("a", "x", json!(1)).expect("she is assigned");
    assert_eq!(rule(world.send("a", IntentSent::Completed)), "require_status_reason");
    let complete = |world: &mut World| {
        let expected = world.version("a");
        let reason = Some("all is done".to_owned());
        world.drive(
            "a",
            IntentCommand::Send { expected, to: IntentSent::Completed, reason, actor: Actor::of(ADA) },
        )
    };
    assert_eq!(rule(complete(&mut world)), "completion_mode");
    let asked = json_map(&json!({ "action": "complete", "reason": "please" }));
    world
        .drive("a", IntentCommand::Request { kind: RequestKind::Approval, asked, actor: Actor::of(ADA) })
        .unwrap();
    assert_eq!(world.intent_status("a"), "active", "it goes on while people are asked");
    let id = *world.run("a").intent().unwrap().requests.keys().next().unwrap();
    let accept = Json::of(&json!({ "action": "accept" }));
    world.accept("a", Command::Resolve(Resolve { id, value: accept, by: Answerer::of("zoe") }));
    assert_eq!(world.run("a").intent().unwrap().requests[&id].status, RequestStatus::Approved);
    complete(&mut world).expect("it was approved");
    world.stands("a", Status::Completed);
}

fn govern(world: &mut World, name: &str, policy: Option<&Value>, agent: &str) -> Result<(), Rejection> {
    let expected = world.version(name);
    world.drive(
        name,
        IntentCommand::Govern { expected, policy: policy.map(Json::of), actor: Actor::of(agent) },
    )
}

fn entry(principal: &str, permission: Permission) -> AccessEntry {
    AccessEntry {
        id: String::new(),
        principal: principal.to_owned(),
        principal_type: "agent".to_owned(),
        permission,
        granted_by: String::new(),
        granted_at: 0,
        expires_at: None,
        reason: None,
    }
}

fn is_governed(refused: &Result<(), Rejection>, by: &str) -> bool {
    matches!(refused, Err(Rejection::Governed { rule, .. }) if *rule == by)
}

#[test]
fn a_policy_is_replaced_by_whoever_set_it_and_by_those_who_are_named() {
    let mut world = active("a");
    let free = json!({ "write_scope": "any" });
    let gated = json!({ "completion_mode": "require_approval" });
    govern(&mut world, "a", Some(&free), "bob").expect("nothing stands there");
    let refused = govern(&mut world, "a", None, "eve");
    assert!(is_governed(&refused, "governance_policy"), "{refused:?}");
    govern(&mut world, "a", None, ADA).expect("she made the intent");
    govern(&mut world, "a", Some(&gated), "bob").unwrap();
    for held_back in [ADA, "eve"] {
        for policy in [None, Some(&free)] {
            let refused = govern(&mut world, "a", policy, held_back);
            assert!(is_governed(&refused, "governance_policy"), "{held_back}: {refused:?}");
        }
    }
    // Nobody is an administrator on their own word.
    let grant = |by: &str, who: &str| IntentCommand::Grant {
        entry: Box::new(entry(who, Permission::Admin)),
        actor: Actor::of(by),
    };
    world.drive("a", grant("eve", "eve")).expect("everybody may say so as long as nobody is named");
    let refused = govern(&mut world, "a", None, "eve");
    assert!(is_governed(&refused, "governance_policy"), "{refused:?}");
    world.drive("a", grant("eve", "zoe")).unwrap();
    govern(&mut world, "a", Some(&free), "zoe").expect("somebody else has named her");
}

#[test]
fn a_policy_that_came_with_the_intent_is_its_makers() {
    let mut world = World::new();
    let policy = json!({ "completion_mode": "require_approval" });
    let inputs = json_map(&json!({ "title": "a", "created_by": ADA, "governance_policy": policy }));
    world.begin_with("a", Arc::new(intent_graph()), &[], |start| Start { inputs, ..start }).settle();
    let refused = govern(&mut world, "a", None, "bob");
    assert!(is_governed(&refused, "governance_policy"), "{refused:?}");
    govern(&mut world, "a", None, ADA).expect("she set it");
}

#[test]
fn whoever_may_not_work_on_an_intent_takes_nothing_back_sends_nobody_away_and_asks_nobody() {
    let mut world = active("a");
    let assign = |agent: &str| IntentCommand::Assign {
        agent: agent.to_owned(),
        role: "worker".to_owned(),
        actor: Actor::of(ADA),
    };
    world.drive("a", assign("bob")).unwrap();
    world.drive("a", assign("cid")).unwrap();
    govern(&mut world, "a", Some(&json!({ "allowed_agents": ["bob"] })), ADA).unwrap();
    let bob = || Actor::of("bob");
    world
        .drive("a", IntentCommand::Suspend { record: Json::of(&record("s1")), reason: None, actor: bob() })
        .unwrap();
    let cancel = |actor| IntentCommand::CancelSuspension { id: "s1".to_owned(), actor };
    let unassign = |agent: &str, actor| IntentCommand::Unassign { agent: agent.to_owned(), actor };
    let asked = || json_map(&json!({ "action": "complete" }));
    let request = |actor| IntentCommand::Request { kind: RequestKind::Approval, asked: asked(), actor };
    let before = world.history("a");
    for command in [cancel(Actor::of("eve")), unassign("bob", Actor::of("eve")), request(Actor::of("eve"))] {
        let refused = world.drive("a", command);
        assert!(is_governed(&refused, "allowed_agents"), "{refused:?}");
    }
    assert_eq!(world.history("a"), before);
    world.drive("a", unassign("bob", Actor::of(ADA))).expect("she made it, and had him work on it");
    world.drive("a", unassign("cid", Actor::of("cid"))).expect("nobody has to stay");
    world.drive("a", request(bob())).expect("he may work on it");
    world.drive("a", cancel(bob())).expect("he may work on it");
    assert_eq!(world.intent_status("a"), "active");
}

#[test]
fn children_tasks_plans_and_coordinators_are_for_those_who_may_work_on_the_intent() {
    let mut world = active("a");
    let closed = Box::new(Access { closed: true, entries: Vec::new() });
    world.drive("a", IntentCommand::SetAccess { access: closed, actor: Actor::of(ADA) }).unwrap();
    let task = || {
        let task = NewTask { name: "write".to_owned(), ..NewTask::default() };
        Command::Plan(Box::new(PlanCommand::CreateTask { task: Box::new(task), by: None }))
    };
    let lead = || {
        let asked = Registration { agent: "eve".to_owned(), ..Registration::default() };
        Command::Coordinator(Box::new(CoordinatorCommand::Register(asked)))
    };
    let by = |agent: &str, command| Command::By { actor: Actor::of(agent), command: Box::new(command) };
    let before = world.history("a");
    for command in [task(), lead(), world.adoption("child", &[])] {
        let refused = world.ask("a", by("eve", command.clone()));
        assert!(matches!(refused, Err(Rejection::NotPermitted { .. })), "{command:?}: {refused:?}");
    }
    assert_eq!(world.history("a"), before);
    world.ask("a", by(ADA, task())).expect("she made it");
    // What holds is what holds when it is decided.
    govern(&mut world, "a", Some(&json!({ "allowed_agents": ["bob"] })), ADA).unwrap();
    for command in [task(), world.adoption("another", &[])] {
        let refused = world.ask("a", by(ADA, command.clone()));
        assert!(is_governed(&refused, "allowed_agents"), "{command:?}: {refused:?}");
    }
    let nameless = world.ask("a", by("", task()));
    assert!(matches!(nameless, Err(Rejection::Invalid { .. })), "{nameless:?}");
}

#[test]
fn the_tasks_of_a_draft_are_worked_on_unless_it_waits_for_others() {
    let mut world = active("a");
    made(&mut world, "draft", &json!({}), true, &[]);
    made(&mut world, "after", &json!({}), true, &["a"]);
    for name in ["draft", "after"] {
        let task = Box::new(NewTask { name: "write".to_owned(), ..NewTask::default() });
        world.accept(name, Command::Plan(Box::new(PlanCommand::CreateTask { task, by: None })));
    }
    let mut begin = |name: &str, act| {
        let id = world.run(name).tasks_posted().last().expect("a task is posted").id;
        let act = PlanCommand::Task { id, version: None, agent: None, act, by: None };
        world.ask(name, Command::Plan(Box::new(act)))
    };
    let claim = || TaskAct::Claim { agent: ADA.to_owned() };
    begin("draft", claim()).expect("it is ready");
    begin("draft", TaskAct::Start).unwrap();
    begin("draft", TaskAct::Complete { output: None }).unwrap();
    assert!(
        matches!(begin("after", claim()), Err(Rejection::Unclaimed(_))),
        "what it needs is not there yet"
    );
    assert_eq!(world.intent_status("draft"), "draft");
}

#[test]
fn policies_that_make_no_sense_are_refused() {
    let mut world = active("a");
    for odd in [
        json!({ "completion_mode": "sometimes" }),
        json!({ "write_scope": 1 }),
        json!({ "quorum_threshold": 0 }),
        json!({ "max_cost": -1 }),
        json!({ "allowed_agents": "ada" }),
        json!({ "require_status_reason": "yes" }),
        json!([]),
    ] {
        let expected = world.version("a");
        let govern = IntentCommand::Govern { expected, policy: Some(Json::of(&odd)), actor: Actor::of(ADA) };
        assert!(matches!(world.drive("a", govern), Err(Rejection::Invalid { .. })), "{odd}");
    }
}

#[test]
fn a_quorum_counts_each_who_approves_once() {
    let mut world = active("a");
    for agent in ["ada", "bob", "cid"] {
        let role = "worker".to_owned();
        world
            .drive("a", IntentCommand::Assign { agent: agent.to_owned(), role, actor: Actor::of(ADA) })
            .unwrap();
    }
    let expected = world.version("a");
    let policy = json!({ "completion_mode": "quorum", "quorum_threshold": 0.6 });
    world
        .drive(
            "a",
            IntentCommand::Govern { expected, policy: Some(Json::of(&policy)), actor: Actor::of(ADA) },
        )
        .unwrap();
    for by in ["zoe", "zoe", "yan"] {
        let asked = json_map(&json!({ "action": "complete" }));
        world
            .drive("a", IntentCommand::Request { kind: RequestKind::Approval, asked, actor: Actor::of(ADA) })
            .unwrap();
        let refused = world.send("a", IntentSent::Completed);
        assert!(matches!(refused, Err(Rejection::Governed { .. })), "{by}: {refused:?}");
        let requests = &world.run("a").intent().unwrap().requests;
        let id = *requests.iter().find(|(_, request)| request.status == RequestStatus::Pending).unwrap().0;
        let value = Json::of(&json!({ "action": "accept" }));
        world.accept("a", Command::Resolve(Resolve { id, value, by: Answerer::of(by) }));
    }
    world.send("a", IntentSent::Completed).expect("two of three have approved");
}

#[test]
fn whoever_is_let_in_no_more_gives_back_what_they_have() {
    let mut world = active("a");
    let closed = Box::new(Access { closed: true, entries: Vec::new() });
    world.drive("a", IntentCommand::SetAccess { access: closed, actor: Actor::of(ADA) }).unwrap();
    for who in ["bob", "cid"] {
        let entry = Box::new(entry(who, Permission::Write));
        world.drive("a", IntentCommand::Grant { entry, actor: Actor::of(ADA) }).unwrap();
    }
    world.drive("a", acquire("x", 900, "bob")).unwrap();
    world.drive("a", acquire("y", 900, "cid")).unwrap();
    let access = world.run("a").intent().unwrap().access.clone().unwrap();
    let id = access.entries.iter().find(|entry| entry.principal == "bob").unwrap().id.clone();
    world.drive("a", IntentCommand::Revoke { id, actor: Actor::of(ADA) }).unwrap();
    let leases = &world.run("a").intent().unwrap().leases;
    let held: Vec<&str> = leases
        .values()
        .filter(|lease| lease.released_at.is_none())
        .map(|lease| lease.agent.as_str())
        .collect();
    assert_eq!(held, ["cid"]);
    world.drive("a", acquire("x", 900, ADA)).expect("it can be had again");
}

#[test]
fn access_that_is_closed_is_for_those_who_are_named() {
    let mut world = active("a");
    let closed = Box::new(Access { closed: true, entries: Vec::new() });
    world.drive("a", IntentCommand::SetAccess { access: closed, actor: Actor::of(ADA) }).unwrap();
    let now = world.now;
    assert!(!world.run("a").permits("bob", Permission::Read, now));
    assert!(matches!(world.send_as("a", IntentSent::Blocked, "bob"), Err(Rejection::NotPermitted { .. })));
    let entry = AccessEntry { expires_at: Some(now + 1_000), ..entry("bob", Permission::Write) };
    world.drive("a", IntentCommand::Grant { entry: Box::new(entry), actor: Actor::of(ADA) }).unwrap();
    assert!(world.run("a").permits("bob", Permission::Write, now));
    assert!(!world.run("a").permits("bob", Permission::Admin, now));
    world.send_as("a", IntentSent::Blocked, "bob").expect("he may");
    assert!(!world.run("a").permits("bob", Permission::Read, now + 1_000), "his time is over");
    let id = world.run("a").intent().unwrap().access.as_ref().unwrap().entries[0].id.clone();
    world.drive("a", IntentCommand::Revoke { id: id.clone(), actor: Actor::of(ADA) }).unwrap();
    let again = world.drive("a", IntentCommand::Revoke { id, actor: Actor::of(ADA) });
    assert!(matches!(again, Err(Rejection::NoAccessEntry(_))), "{again:?}");
}

#[test]
fn a_look_that_people_are_asked_for_makes_nobody_wait_and_ends_with_the_intent() {
    let mut world = active("a");
    let asked = json_map(&json!({ "reason": "odd numbers", "priority": "high" }));
    world
        .drive("a", IntentCommand::Request { kind: RequestKind::Escalation, asked, actor: Actor::of(ADA) })
        .unwrap();
    assert_eq!((world.intent_status("a"), world.run("a").interrupts().count()), ("active", 1));
    world.send("a", IntentSent::Completed).expect("nobody waits for it");
    let request = world.run("a").intent().unwrap().requests.values().next().unwrap().clone();
    assert_eq!(request.status, RequestStatus::Withdrawn);
    assert_eq!(world.run("a").interrupts().count(), 0);
}
