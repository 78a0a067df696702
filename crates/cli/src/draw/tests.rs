//! Pictures of small workflows as snapshots, and of any graph as properties.

use std::collections::BTreeSet;
use std::time::Instant;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::canvas::{DOWN, LEFT, RIGHT};
use super::layers::Layers;
use super::text;
use super::words::{legible, shorten, width};
use super::{Mark, Picture};

/// A definition of the nodes that the edges name. `a>b` is an edge, `a>b:word` one with a label, `a` a node.
fn graph(parts: &str) -> Value {
    let mut nodes: Vec<&str> = Vec::new();
    let mut edges = Vec::new();
    for part in parts.split_whitespace() {
        let (ends, label) = part.split_once(':').map_or((part, None), |(ends, label)| (ends, Some(label)));
        let names: Vec<&str> = ends.split('>').collect();
        for name in &names {
            if !nodes.contains(name) {
                nodes.push(name);
            }
        }
        if let [from, to] = names[..] {
            let id = edges.len().to_string();
            edges.push(json!({ "id": id, "sourceNodeId": from, "targetNodeId": to, "label": label }));
        }
    }
    let nodes: Vec<Value> =
        nodes.iter().map(|id| json!({ "id": id, "name": id, "typeId": "core.noop" })).collect();
    json!({ "nodes": nodes, "edges": edges })
}

fn picture(parts: &str) -> Picture {
    Picture::of(&graph(parts))
}

fn drawn(parts: &str) -> String {
    picture(parts).to_text(80)
}

/// A graph of numbered nodes.
fn numbered(nodes: usize, edges: &[(usize, usize)]) -> Value {
    let nodes: Vec<Value> =
        (0..nodes).map(|n| json!({ "id": format!("n{n}"), "typeId": "core.noop" })).collect();
    let edges: Vec<Value> = edges
        .iter()
        .map(|(from, to)| json!({ "sourceNodeId": format!("n{from}"), "targetNodeId": format!("n{to}") }))
        .collect();
    json!({ "nodes": nodes, "edges": edges })
}

#[test]
fn a_single_node_is_a_box() {
    insta::assert_snapshot!(drawn("greet"));
}

#[test]
fn a_chain_runs_straight_down() {
    insta::assert_snapshot!(drawn("fetch>check check>store"));
}

#[test]
fn a_diamond_parts_and_meets() {
    insta::assert_snapshot!(drawn("split>left split>right left>join right>join"));
}

#[test]
fn a_branch_shows_when_each_way_is_taken() {
    let condition = |kind: &str, right: &str| json!({ "type": kind, "left": "status", "right": right });
    let mut definition = graph("check>pay check>refuse check>wait pay>end refuse>end wait>end");
    definition["edges"][0]["condition"] =
        json!({ "type": "expression", "expression": "output.ok ==\n  true" });
    definition["edges"][1]["condition"] = condition("equals", "failed");
    definition["edges"][2]["sourceOutput"] = json!("later");
    definition["edges"][4]["triggerRule"] = json!("any_success");
    definition["edges"][5]["condition"] =
        json!({ "type": "expression", "expression": "nodes.check.outputs.size() > variables.limit" });
    insta::assert_snapshot!(Picture::of(&definition).to_text(100));
}

#[test]
fn five_ways_fan_out_and_join() {
    insta::assert_snapshot!(drawn("s>a s>b s>c s>d s>e a>join b>join c>join d>join e>join"));
}

#[test]
fn eight_ways_lose_the_kinds_to_fit() {
    let ways = "s>a s>b s>c s>d s>e s>f s>g s>h a>j b>j c>j d>j e>j f>j g>j h>j";
    insta::assert_snapshot!(drawn(ways));
}

#[test]
fn an_edge_that_closes_a_loop_is_told_below() {
    insta::assert_snapshot!(drawn("draft>gate gate>send:approve gate>draft:refine send>send"));
}

#[test]
fn a_long_edge_passes_beside_the_boxes() {
    insta::assert_snapshot!(drawn("a>b a>c b>d a>d:skip c>d d>e a>e"));
}

#[test]
fn ways_that_must_cross_stay_apart() {
    insta::assert_snapshot!(drawn("a>d a>e b>e b>f c>d c>f"));
}

#[test]
fn parallel_edges_share_a_line_and_their_labels() {
    insta::assert_snapshot!(drawn("choose>next:yes choose>next:no"));
}

#[test]
fn a_run_shows_how_far_it_is() {
    let marks = |id: &str| match id {
        "a" => Some(Mark::Done),
        "b" => Some(Mark::Failed),
        "c" => Some(Mark::Running),
        "d" => Some(Mark::Waiting),
        "e" => Some(Mark::Skipped),
        "f" => Some(Mark::Cancelled),
        _ => Some(Mark::Pending),
    };
    let parts = "a>b a>c a>d b>e c>f d>f e>g f>g";
    insta::assert_snapshot!(picture(parts).marked(marks).to_text(80));
}

#[test]
fn a_wide_graph_becomes_a_list() {
    let edges: Vec<(usize, usize)> = (1..99).flat_map(|n| [(0, n), (n, 99)]).chain([(99, 0)]).collect();
    insta::assert_snapshot!(Picture::of(&numbered(100, &edges)).to_text(80));
}

#[test]
fn a_list_shows_marks_and_labels() {
    let picture = picture("a>b:yes a>c:no b>d c>d").marked(|id| (id < "c").then_some(Mark::Done));
    insta::assert_snapshot!(picture.to_text(12));
}

#[test]
fn long_ids_lose_their_middle() {
    let text = drawn("this-is-a-very-long-id-of-a-node-that-reads-the-mail>done");
    assert!(text.contains("│ this-is-a-very…eads-the-mail  │"), "{text}");
}

#[test]
fn ids_that_would_look_the_same_are_listed_in_full() {
    let ids = ["common-beginning-one-common-ending", "common-beginning-two-common-ending"];
    let text = drawn(&format!("{}>{}", ids[0], ids[1]));
    assert!(ids.iter().all(|id| text.contains(id)), "{text}");
}

#[test]
fn control_characters_never_reach_the_terminal() {
    let definition = json!({ "nodes": [{ "id": "a\u{1b}[2J\n\u{202e}b", "typeId": "x\u{7}" }] });
    for page in [Picture::of(&definition).to_text(80), Picture::of(&definition).to_svg()] {
        assert!(!page.chars().any(|c| c != '\n' && c.is_control() || c == '\u{202e}'), "{page:?}");
        assert!(page.contains("a\u{FFFD}[2J \u{FFFD}b"), "{page}");
    }
}

#[test]
fn wide_letters_keep_the_frame_whole() {
    let text = drawn("注文>確認");
    let widths: Vec<usize> = text.lines().filter(|line| line.contains('│')).map(width).collect();
    assert!(widths.windows(2).all(|pair| pair[0] == pair[1]), "{text}");
}

#[test]
fn what_is_no_definition_draws_nothing() {
    for definition in [json!(null), json!([]), json!({ "nodes": 3, "edges": "x" }), json!({ "nodes": [] })] {
        assert_eq!(Picture::of(&definition).to_text(80), "no nodes\n");
        check_svg(&Picture::of(&definition).to_svg());
    }
}

#[test]
fn edges_to_nowhere_are_left_out() {
    let definition = json!({
        "nodes": [{ "id": "a" }, { "id": "a" }, 7],
        "edges": [{ "sourceNodeId": "a", "targetNodeId": "b" }, {}, "x"],
    });
    let picture = Picture::of(&definition);
    assert_eq!((picture.nodes.len(), picture.edges.len()), (3, 0));
}

#[test]
fn the_svg_of_a_diamond() {
    let svg = picture("split>left:yes split>right:no left>join right>join").to_svg();
    check_svg(&svg);
    insta::assert_snapshot!(svg);
}

#[test]
fn hostile_words_stay_words_in_svg() {
    let evil = "<script>alert(\"1\")</script>&'";
    let definition = json!({
        "nodes": [{ "id": evil, "name": evil, "typeId": evil }, { "id": "b" }],
        "edges": [{ "sourceNodeId": evil, "targetNodeId": "b", "label": evil }],
    });
    let svg = Picture::of(&definition).to_svg();
    check_svg(&svg);
    assert!(
        !svg.contains("<script")
            && svg.contains("&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;&#39;")
    );
}

#[test]
fn loops_and_marks_are_classes_in_svg() {
    let svg = picture("a>b b>a:again b>b:self b>c").marked(|_| Some(Mark::Waiting)).to_svg();
    check_svg(&svg);
    assert_eq!(svg.matches("class=\"edge back\"").count(), 2);
    assert_eq!(svg.matches("class=\"node waiting\"").count(), 3);
}

#[test]
fn ten_thousand_nodes_are_no_burden() {
    let chain: Vec<(usize, usize)> = (1..10_000).map(|n| (n - 1, n)).collect();
    let star: Vec<(usize, usize)> = (1..10_000).map(|n| (0, n)).collect();
    let skips: Vec<(usize, usize)> = chain.iter().copied().chain(star.iter().copied()).collect();
    let backs: Vec<(usize, usize)> = chain.iter().copied().chain((1..10_000).map(|n| (n, n / 2))).collect();
    for edges in [chain, star, skips, backs] {
        let picture = Picture::of(&numbered(10_000, &edges));
        let begun = Instant::now();
        let text = picture.to_text(80);
        assert!(text.contains("n9999") && begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
        let begun = Instant::now();
        let svg = picture.to_svg();
        assert!(svg.contains("n9999") && begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    }
}

/// Fails unless every tag is closed in order and no stray `<` or bare `&` stands between them.
fn check_svg(svg: &str) {
    let mut open: Vec<&str> = Vec::new();
    for piece in svg.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').expect("a tag ends");
        assert!(!text.contains('>'), "{text}");
        assert!(tag.matches('"').count() % 2 == 0, "{tag}");
        let name = tag.split([' ', '/']).find(|word| !word.is_empty()).expect("a tag has a name");
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
    for entity in svg.split('&').skip(1) {
        let known = ["amp;", "lt;", "gt;", "quot;", "#39;"];
        assert!(known.iter().any(|known| entity.starts_with(known)), "{entity:.20}");
    }
    for forbidden in ["<script", "<image", "<foreignObject", " href=", "url("] {
        assert!(!svg.contains(forbidden), "{forbidden}");
    }
    // A node may be called so, but no place may.
    for place in ["x", "y", "width", "height", "d", "points", "viewBox"] {
        for value in svg.split(&format!(" {place}=\"")).skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(!value.contains("NaN") && !value.contains("inf"), "{place}: {value}");
        }
    }
}

/// Definitions of up to 40 nodes with any ids, and any edges between them.
fn any_definition() -> impl Strategy<Value = Value> {
    let ids = prop::collection::vec(prop_oneof!["[a-z]{1,12}", "\\PC{0,40}", ".{0,8}"], 1..40);
    let edges = prop::collection::vec(
        (any::<prop::sample::Index>(), any::<prop::sample::Index>(), "\\PC{0,9}"),
        0..60,
    );
    (ids, edges).prop_map(|(ids, edges)| {
        let edges: Vec<Value> = edges
            .iter()
            .map(|(from, to, label)| {
                json!({ "sourceNodeId": from.get(&ids), "targetNodeId": to.get(&ids), "label": label })
            })
            .collect();
        let nodes: Vec<Value> = ids.iter().map(|id| json!({ "id": id, "typeId": "core.noop" })).collect();
        json!({ "nodes": nodes, "edges": edges })
    })
}

/// Follows the lines of a drawing with the eye, from each box down to the arrows, and tells who leads to whom.
fn followed(drawing: &str) -> BTreeSet<(String, String)> {
    let sheet: Vec<Vec<char>> = drawing.lines().map(|line| line.chars().collect()).collect();
    let at = |x: usize, y: usize| sheet.get(y).and_then(|row| row.get(x)).copied().unwrap_or(' ');
    // A box is found by a column of its upper or lower edge; the id is its first line.
    let id = |x: usize, y: usize| {
        let left = (0..=x).rev().find(|&x| "┌└".contains(at(x, y))).unwrap();
        let top = (0..=y).rev().find(|&y| at(left, y) == '┌').unwrap();
        let line = (left + 1..).map(|x| at(x, top + 1)).take_while(|&c| c != '│').collect::<String>();
        line.trim().to_owned()
    };
    let mut found = BTreeSet::new();
    for (y, x) in (0..sheet.len()).flat_map(|y| (0..sheet[y].len()).map(move |x| (y, x))) {
        let in_box = "─└┘".contains(at(x.wrapping_sub(1), y)) && "─┘".contains(at(x + 1, y));
        let edge = (0..x).rev().map(|x| at(x, y)).find(|c| !"─┬".contains(*c));
        if at(x, y) != '┬' || !in_box || edge != Some('└') {
            continue;
        }
        let mut ways = vec![(x, y + 1, DOWN)];
        while let Some((x2, y2, going)) = ways.pop() {
            let sides = match (at(x2, y2), going) {
                ('▼', _) => {
                    found.insert((id(x, y), id(x2, y2 + 1)));
                    0
                }
                ('│' | '─', going) => going,
                ('╭', LEFT) | ('╮', RIGHT) => DOWN,
                ('╰', DOWN) => RIGHT,
                ('╯', DOWN) => LEFT,
                // The way up from a corner or a joint leads to another source.
                ('╰' | '╯', _) => 0,
                ('├', DOWN) => RIGHT | DOWN,
                ('┤', DOWN) => LEFT | DOWN,
                ('├' | '┤', _) => DOWN,
                ('┴', DOWN) => LEFT | RIGHT,
                ('┴', going) => going,
                ('┬', going) => going | DOWN,
                ('┼', DOWN) => LEFT | RIGHT | DOWN,
                ('┼', going) => going | DOWN,
                (other, _) => panic!("{other:?} in the way at {x2},{y2} of\n{drawing}"),
            };
            ways.extend((sides & DOWN != 0).then_some((x2, y2 + 1, DOWN)));
            ways.extend((sides & LEFT != 0).then(|| (x2 - 1, y2, LEFT)));
            ways.extend((sides & RIGHT != 0).then_some((x2 + 1, y2, RIGHT)));
        }
    }
    found
}

/// Graphs that can be drawn without shortening anything.
fn any_small_graph() -> impl Strategy<Value = Value> {
    (1_usize..14).prop_flat_map(|nodes| {
        prop::collection::vec((0..nodes, 0..nodes), 0..22).prop_map(move |edges| numbered(nodes, &edges))
    })
}

proptest! {
    /// The eye that follows the lines finds the edges of the graph: none is lost, none seems to be there.
    #[test]
    fn lines_lead_where_the_edges_do(definition in any_small_graph()) {
        let picture = Picture::of(&definition);
        let name = |node: usize| picture.nodes[node].id.clone();
        let forward = picture.edges.iter().filter(|edge| !edge.back);
        let edges: BTreeSet<(String, String)> = forward.map(|edge| (name(edge.from), name(edge.to))).collect();
        if let Some(drawing) = text::draw(&picture, &Layers::of(&picture), 400) {
            prop_assert_eq!(followed(&drawing), edges, "{}", drawing);
        }
    }

    #[test]
    fn any_graph_is_drawn_within_its_width(definition in any_definition(), room in 0_usize..140) {
        let picture = Picture::of(&definition);
        let text = picture.to_text(room);
        for node in &picture.nodes {
            let id = legible(&node.id);
            let forms = [shorten(&id, 28), shorten(&id, 12), id];
            prop_assert!(forms.iter().any(|form| text.contains(form)), "{:?}\n{}", forms, text);
        }
        if let Some(drawing) = text::draw(&picture, &Layers::of(&picture), room) {
            prop_assert!(drawing.lines().all(|line| width(line) <= room), "{}", drawing);
        }
        check_svg(&picture.to_svg());
    }

    /// Leaving out the edges that lead back leaves no loop, and every other edge leads on to a later layer.
    #[test]
    fn only_edges_of_loops_lead_back(definition in any_definition()) {
        let picture = Picture::of(&definition);
        let layers = Layers::of(&picture);
        for edge in picture.edges.iter().filter(|edge| !edge.back) {
            prop_assert!(layers.of_node[edge.from] < layers.of_node[edge.to]);
        }
        let back = picture.edges.iter().filter(|edge| edge.back).count();
        prop_assert_eq!(layers.back.len(), back);
    }
}
