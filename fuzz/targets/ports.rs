//! Feeds arbitrary bytes to `abide_fuzz::ports`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| abide_fuzz::ports(bytes));
