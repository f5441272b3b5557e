//! What several tests use.
#![allow(dead_code, reason = "every test file takes its share")]

pub mod network;
pub mod question;
pub mod states;

use std::env;
use std::fs::File;

use anabranch_kernel::{PROGRAMS, Program};
use rustix::fs::FlockOperation;

/// The kernel's algorithm of this name.
pub fn program(name: &str) -> &'static Program {
    PROGRAMS
        .iter()
        .find(|program| program.name == name)
        .unwrap()
}

/// Whether BPF programs can be loaded here. If not, says so loudly; with `ANABRANCH_REQUIRE_KERNEL=1`
/// it is a failure.
pub fn can_load() -> bool {
    let missing = anabranch_kernel::doctor::missing();
    if missing.is_empty() {
        return true;
    }
    let why = missing.join("; ");
    assert!(
        env::var_os("ANABRANCH_REQUIRE_KERNEL").is_none(),
        "needs the kernel: {why}"
    );
    eprintln!("SKIPPED, NOTHING TESTED: {why}");
    false
}

/// Names of congestion controls are the kernel's, of which there is one: waits until no other test has
/// them, in this process or another, and keeps them until the file is closed.
pub fn names_are_ours() -> File {
    let file = File::create(env::temp_dir().join("anabranch-kernel.lock")).unwrap();
    rustix::fs::flock(&file, FlockOperation::LockExclusive).unwrap();
    file
}
