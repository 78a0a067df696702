//! Random plays: whatever a provider does, nobody sees the words of two calls as one answer, and nothing hangs.

use abide_core::{ErrorKind, Lifecycle, ModelError, Rejection};
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// What may happen next.
#[derive(Clone, Debug)]
enum Move {
    Say,
    Fail { thrown: bool, retryable: Option<bool>, content: bool },
    Answer,
    UseTool,
    ToolEnds(bool),
    Refuse,
    Go,
    WaitOut,
    RetryNow,
    Pause,
    Drain,
    Resume,
    ResumeDue,
    Cancel,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let fail = (any::<bool>(), prop::option::of(any::<bool>()), any::<bool>()).prop_map(
        |(thrown, retryable, content)| Move::Fail { thrown, retryable, content: content && thrown },
    );
    let one = prop_oneof![
        4 => Just(Move::Say),
        6 => fail,
        2 => Just(Move::Answer),
        2 => Just(Move::UseTool),
        3 => any::<bool>().prop_map(Move::ToolEnds),
        3 => Just(Move::Refuse),
        3 => Just(Move::Go),
        8 => Just(Move::WaitOut),
        1 => Just(Move::RetryNow),
        1 => Just(Move::Pause),
        1 => Just(Move::Drain),
        1 => Just(Move::Resume),
        1 => Just(Move::ResumeDue),
        1 => Just(Move::Cancel),
    ];
    prop::collection::vec(one, 1..40)
}

fn play(story: Story, chosen: &Move, number: usize) -> Story {
    let by = "ops".to_owned();
    match chosen {
        Move::Say => story.says(&format!("<{number}>")),
        Move::Fail { thrown, retryable, content } => {
            let kind = if *thrown { ErrorKind::Thrown } else { ErrorKind::Emitted { retryable: *retryable } };
            story.fails(ModelError { kind, had_content: *content, ..overloaded() })
        }
        Move::Answer => story.answers(saying("done")),
        Move::UseTool => {
            story.answers(using(&[("c", "t", json!({})), ("c", "t", json!({})), ("c", "nothing", json!({}))]))
        }
        Move::ToolEnds(well) => {
            let Some(child) = under_way(&story).pop() else { return story };
            let lifecycle = if *well { Lifecycle::Completed } else { Lifecycle::Failed };
            let notice = abide_core::Notice { node: "ask".to_owned(), ..story::notice(child, 5, lifecycle) };
            story.hear(notice, None)
        }
        Move::Refuse => story.put_off(),
        Move::Go => story.may_go(),
        Move::WaitOut if story.node("ask").until.is_some() => story.waits_out(),
        Move::WaitOut => story.fire_timer("provider/1/ask"),
        Move::RetryNow => story.turn(TurnCommand::RetryNow { node: None, by }),
        Move::Pause => story.pause(),
        Move::Drain => story.drain(),
        Move::Resume => story.resume(),
        Move::ResumeDue => story.fire_timer("resume"),
        Move::Cancel => story.cancel(),
    }
}

/// The runs of tools that have not ended.
fn under_way(story: &Story) -> Vec<abide_core::RunId> {
    let of = |name: &str| story.payloads(name).into_iter().map(|payload| payload["child"].clone());
    let ended: Vec<Value> = of("child.reported").collect();
    let open = of("node.spawned").filter(|child| !ended.contains(child));
    open.map(|child| serde_json::from_value(child).expect("a run's id")).collect()
}

/// Nobody sees the words of two calls as one: what a call said is over, or broken off, before the next one speaks.
fn check_chunks(story: &Story) {
    let mut open: Option<Value> = None;
    for chunk in story.payloads("ai.message.chunk") {
        if let Some(open) = &open {
            assert_eq!(open, &chunk["call"], "two calls speak at once");
        }
        open = (chunk["isLast"] != true).then(|| chunk["call"].clone());
    }
    let all = story.payloads("ai.message.chunk");
    let words: Vec<_> =
        all.iter().filter_map(|chunk| chunk["chunk"].as_str()).filter(|w| !w.is_empty()).collect();
    let different: std::collections::BTreeSet<_> = words.iter().collect();
    assert_eq!(words.len(), different.len(), "something was said twice");
}

/// A retry is never made of a call that has said something.
fn check_retries(story: &Story) {
    let mut said = false;
    for record in story.journal() {
        match story::type_name(record) {
            "model.called" => said = false,
            "ai.message.chunk" => said = true,
            "provider-retry" => assert!(!said, "a call was retried that had said something"),
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_stretch_is_seen_twice_and_no_turn_hangs(moves in moves(), idempotent: bool) {
        let tool = json!([{ "name": "t", "kind": "core.noop" }]);
        let sketch = turn("ask").config("tools", tool).setting("idempotent", json!(idempotent));
        let mut story = of(&workflow([sketch])).start();
        for (number, chosen) in moves.iter().enumerate() {
            story = play(story.after(1), chosen, number);
            let ended = story.run().lifecycle().is_terminal();
            prop_assert!(ended || story.run().is_at_rest(), "it hangs after {chosen:?}: {:?}", story.history());
            let waits = story.view().status.name() == "tools" && story.run().hold() == abide_core::Hold::None;
            prop_assert!(!waits || !under_way(&story).is_empty(), "no tool is under way: {:?}", story.history());
        }
        check_chunks(&story);
        check_retries(&story);
        prop_assert!(story.count("turn.sealed") <= 1);
        let ended = story.run().lifecycle().is_terminal();
        prop_assert_eq!(story.count("turn.sealed"), usize::from(ended), "{:?}", story.history());
        if ended {
            prop_assert!(story.run().timers().is_empty());
            let story = story.says("late");
            prop_assert!(matches!(story.last_rejection(), Rejection::Ended(_)));
        }
    }
}
