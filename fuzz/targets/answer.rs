//! Feeds arbitrary bytes to `abide_fuzz::answer`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| abide_fuzz::answer(bytes));
