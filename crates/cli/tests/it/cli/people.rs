//! `abide people`: list, show, set, rm, import.

use super::*;

#[test]
fn a_person_is_set_shown_and_removed() {
    let site = site();
    let server = site.start(&[]);
    insta::assert_snapshot!("nobody", told(&server.cli(&["people", "list"])));
    let set = server.cli(&[
        "people",
        "set",
        "ada@example.com",
        "--name",
        "Ada Lovelace",
        "--roles",
        "finance,approver",
        "--address",
        "email=ada@example.com",
        "--address",
        "slack=U012",
    ]);
    insta::assert_snapshot!("person_set", told(&set));
    insta::assert_snapshot!("people_list", told(&server.cli(&["people", "list"])));
    insta::assert_snapshot!("person_shown", told(&server.cli(&["people", "show", "ada@example.com"])));
    insta::assert_snapshot!("person_removed", told(&server.cli(&["people", "rm", "ada@example.com"])));
    insta::assert_snapshot!("person_not_found", told(&server.cli(&["people", "show", "ada@example.com"])));
}

#[test]
fn a_file_of_people_is_imported_and_what_was_listed_can_be() {
    let site = site();
    let server = site.start(&[]);
    let file = site.path("people.yaml");
    let text = "- principal: ada\n  roles: [finance]\n- principal: bob@example.com\n  addresses: { email: b@example.com }\n";
    std::fs::write(&file, text).unwrap();
    let imported = server.cli(&["people", "import", file.to_str().unwrap()]);
    assert_eq!(stdout(&imported), "2 people are set\n", "{imported:?}");
    let listed = server.cli(&["people", "list", "--json"]);
    let page: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(page["people"][1]["addresses"]["email"], "b@example.com");
    std::fs::write(&file, &listed.stdout).unwrap();
    assert_eq!(stdout(&server.cli(&["people", "import", file.to_str().unwrap()])), "2 people are set\n");

    std::fs::write(&file, "- principal: eve\n- roles: [x]\n").unwrap();
    let wrong = server.cli(&["people", "import", file.to_str().unwrap()]);
    assert!(code(&wrong) == 1 && stderr(&wrong).contains("entry 2 has no 'principal'"), "{wrong:?}");
    assert!(!stdout(&server.cli(&["people", "list"])).contains("eve"), "nothing of a wrong file is entered");
}

#[test]
fn more_than_a_page_is_listed_whole() {
    let site = site();
    let server = site.start(&[]);
    let people: Vec<_> = (0..501).map(|n| json!({ "principal": format!("p{n:04}") })).collect();
    let file = site.path("people.json");
    std::fs::write(&file, json!(people).to_string()).unwrap();
    assert_eq!(stdout(&server.cli(&["people", "import", file.to_str().unwrap()])), "501 people are set\n");
    let listed = server.cli(&["people", "list"]);
    assert_eq!(stdout(&listed).lines().count(), 502);
}
