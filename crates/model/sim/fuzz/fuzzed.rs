//! The targets.

#[path = "../tests/fuzzed/checks.rs"]
pub mod checks;
#[path = "../tests/fuzzed/generated.rs"]
mod generated;
