//! A target of libFuzzer for each check of the gateway's `tests/parsers/checks`, which the
//! environment variable TARGET chooses: `make fuzz`.

#![no_main]

use std::env;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

#[path = "../gateway/tests/parsers/checks/mod.rs"]
mod checks;

static CHECK: LazyLock<checks::Check> = LazyLock::new(|| {
    let name = env::var("TARGET").unwrap_or_default();
    let known = checks::PARSERS.iter().find(|(parser, _)| *parser == name);
    known
        .unwrap_or_else(|| panic!("TARGET={name}: a folder of fuzz/corpus.tar.gz"))
        .1
});

fuzz_target!(|input: &[u8]| CHECK(input));
