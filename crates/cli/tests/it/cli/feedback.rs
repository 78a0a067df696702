//! `abide run annotate`, `annotations` and `artifacts`.

use super::*;

#[test]
fn what_is_said_about_a_run_is_listed_and_mentioned() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = stdout(&server.cli(&["run", "start", "quick"])).trim().to_owned();
    insta::assert_snapshot!("annotations_none", told(&server.cli(&["run", "annotations", &run])));
    for said in [
        &["--rating", "4", "--note", "quick and right"][..],
        &["--label", "good"],
        &["--flag"],
        &["--correction", "{\"total\": 12}"],
        &["--correction", "twelve, not ten"],
    ] {
        let output = server.cli(&[&["run", "annotate", &run], said].concat());
        assert_eq!((code(&output), stderr(&output)), (0, ""), "{output:?}");
        assert!(stdout(&output).starts_with("ann-"), "{output:?}");
    }
    insta::assert_snapshot!("annotations", told(&server.cli(&["run", "annotations", &run])));
    let shown = server.cli(&["run", "show", &run]);
    assert!(stderr(&shown).contains("5 annotations; read them with"), "{shown:?}");
    for wrong in [&["--rating", "6"][..], &["--rating", "3", "--flag"], &[]] {
        let output = server.cli(&[&["run", "annotate", &run], wrong].concat());
        assert_eq!(code(&output), 2, "{output:?}");
    }
}

#[tokio::test]
async fn what_a_run_made_is_listed_and_printed() {
    let site = site();
    let mut made =
        node("report", "core.transform", json!({ "outputs": { "pages": "3.0" } }), json!({}), json!({}));
    made["artifactType"] = json!("report");
    site.workflow(&workflow("reporter", &[made], &[], json!([])));
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("reporter", json!({})).await;
    let listed: serde_json::Value =
        serde_json::from_str(stdout(&server.cli(&["run", "artifacts", &run, "--json"]))).unwrap();
    let id = listed["artifacts"][0]["artifactId"].as_str().unwrap();
    let table = server.cli(&["run", "artifacts", &run]);
    assert!(stdout(&table).contains(id) && stdout(&table).contains("report"), "{table:?}");
    assert_eq!(stdout(&server.cli(&["run", "artifacts", &run, id])), "{\"pages\":3.0}\n");
    assert_eq!(code(&server.cli(&["run", "artifacts", &run, "nothing"])), 4);
    let none = server.start_run("quick", json!({})).await;
    assert!(stderr(&server.cli(&["run", "artifacts", &none])).contains("it has made none"));
}
