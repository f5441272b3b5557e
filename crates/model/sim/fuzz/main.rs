//! A target of libFuzzer for each check of `tests/fuzzed/checks.rs`, which the environment variable
//! TARGET chooses: `make fuzz`.

#![no_main]

use std::env;
use std::sync::LazyLock;

use fuzzed::checks;
use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../tests/common.rs"]
mod common;
mod fuzzed;
mod laws;

static CHECK: LazyLock<checks::Check> = LazyLock::new(|| {
    let name = env::var("TARGET").unwrap_or_default();
    let known = checks::TARGETS.iter().find(|(target, _)| *target == name);
    known
        .unwrap_or_else(|| panic!("TARGET={name}: a folder of fuzz/corpus.tar.gz"))
        .1
});

fuzz_target!(|input: &[u8]| CHECK(input));
