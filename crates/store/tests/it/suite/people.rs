//! People: entered, changed, listed page by page, forgotten, and each tenant's own.

use abide_core::TenantId;
use abide_store::Person;

use crate::engine::engines;
use crate::live::{BEGIN, TENANT};

fn person(tenant: TenantId, principal: &str, at: i64) -> Person {
    let address = (String::from("email"), format!("{principal}@{at}.example"));
    Person {
        tenant,
        principal: principal.to_owned(),
        display_name: Some(format!("{principal} O'Neill")),
        roles: vec!["finance".to_owned()],
        groups: vec!["eu".to_owned(), "night shift".to_owned()],
        addresses: [address].into(),
        created_at: BEGIN + at,
        updated_at: BEGIN + at,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_comes_back_as_entered_and_survives_a_restart() {
    for engine in engines() {
        let store = engine.open();
        let (ada, bare) = (person(TENANT, "ada", 1), person(TENANT, "bare", 2));
        let (roles, groups, addresses) = Default::default();
        let bare = Person { display_name: None, roles, groups, addresses, ..bare };
        for person in [&bare, &ada] {
            store.put_person(person.clone()).await.unwrap();
        }
        drop(store);
        let store = engine.open();
        for person in [&ada, &bare] {
            let found = store.person(TENANT, person.principal.clone()).await.unwrap();
            assert_eq!(found.as_ref(), Some(person));
        }
        let other = store.person(TENANT, "Ada".to_owned()).await.unwrap();
        assert_eq!(other, None, "a principal is taken as it is written");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_is_set_again_keeps_only_the_time_it_was_made() {
    for engine in engines() {
        let store = engine.open();
        store.put_person(person(TENANT, "ada", 1)).await.unwrap();
        let (roles, groups, addresses) = Default::default();
        let less = Person { display_name: None, roles, groups, addresses, ..person(TENANT, "ada", 2) };
        store.put_person(less.clone()).await.unwrap();
        let found = store.person(TENANT, "ada".to_owned()).await.unwrap();
        assert_eq!(found, Some(Person { created_at: BEGIN + 1, ..less }));
        assert!(!format!("{:?}", engine.dump()).contains("1.example"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_goes_on_behind_the_last_of_a_page() {
    for engine in engines() {
        let store = engine.open();
        for principal in ["b", "a@x", "c", "a", "B"] {
            store.put_person(person(TENANT, principal, 1)).await.unwrap();
        }
        let names = async |after: &str, limit| -> Vec<String> {
            let people = store.people(TENANT, after.to_owned(), limit).await.unwrap();
            people.into_iter().map(|person| person.principal).collect()
        };
        assert_eq!(names("", 100).await, ["B", "a", "a@x", "b", "c"]);
        assert_eq!(names("", 2).await, ["B", "a"]);
        assert_eq!(names("a", 2).await, ["a@x", "b"]);
        assert_eq!(names("aa", 9).await, ["b", "c"], "the last one may be gone by then");
        assert_eq!(names("c", 9).await, [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_is_one_tenants_and_can_be_forgotten() {
    for engine in engines() {
        let store = engine.open();
        let other = store.tenant("other".to_owned(), true).await.unwrap().unwrap();
        for tenant in [TENANT, other] {
            store.put_person(person(tenant, "ada", i64::from(tenant.0))).await.unwrap();
        }
        assert!(store.delete_person(TENANT, "ada".to_owned()).await.unwrap());
        assert!(!store.delete_person(TENANT, "ada".to_owned()).await.unwrap());
        assert_eq!(store.person(TENANT, "ada".to_owned()).await.unwrap(), None);
        assert_eq!(store.people(TENANT, String::new(), 9).await.unwrap(), []);
        let kept = person(other, "ada", i64::from(other.0));
        assert_eq!(store.people(other, String::new(), 9).await.unwrap(), [kept]);
    }
}

#[test]
fn a_log_shows_who_and_no_address() {
    let told = format!("{:?}", person(TENANT, "ada", 1));
    assert!(told.contains("\"ada\"") && !told.contains("example") && !told.contains("O'Neill"), "{told}");
}
