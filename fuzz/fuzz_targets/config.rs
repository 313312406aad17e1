#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ackline_fuzz::config::run(data));
