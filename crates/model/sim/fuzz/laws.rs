//! The laws that the targets check.

#[path = "../tests/laws/checks.rs"]
pub mod checks;
