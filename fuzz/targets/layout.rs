#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| aetheel_fuzz::layout(data));
