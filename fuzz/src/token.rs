//! What the fuzz target `token` does with the bytes it is given. `crates/server/tests/corpus.rs` does the same.

use std::sync::{Arc, LazyLock};

use abide_server::Keyring;
use abide_server::limits::INTERRUPT_TOKEN_CHARS_MAX;
use abide_server::token::{Minter, Refused, Verifier};

/// Nobody guesses the newest of these secrets; the older one is known to whoever makes a corpus.
static KEYRING: LazyLock<Arc<Keyring>> =
    LazyLock::new(|| Arc::new(Keyring::of(&[(1, [7; 32]), (2, [0xd5; 32])])));

/// A token: it is refused, or it is one of ours, and then signing what it says gives one of ours again. Says whether it is.
pub fn token(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let verifier = Verifier::new(KEYRING.clone());
    let read = verifier.read(&text);
    match (verifier.verify(&text, i64::MIN), verifier.verify(&text, i64::MAX)) {
        (Ok(token), Err(Refused::Expired(expired))) => {
            assert_eq!(Some(&token), read.as_ref());
            assert_eq!(token, *expired);
            assert!(text.len() <= INTERRUPT_TOKEN_CHARS_MAX);
            let again = Minter::new(KEYRING.clone()).mint(&token);
            assert_eq!(verifier.read(&again), Some(token));
            true
        }
        (Err(Refused::Unknown), Err(Refused::Unknown)) => {
            assert_eq!(read, None);
            false
        }
        (early, late) => panic!("its time decides more than whether it has expired: {early:?}, {late:?}"),
    }
}
