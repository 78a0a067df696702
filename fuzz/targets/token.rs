//! Feeds arbitrary bytes to `token::token`.

#![no_main]

#[path = "../src/token.rs"]
mod token;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    token::token(bytes);
});
