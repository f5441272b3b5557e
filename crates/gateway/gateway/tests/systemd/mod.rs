//! The units under systemd, in a container.

use std::process::Command;

use crate::process::pair::{GATEWAY, text};

#[test]
#[ignore = "slow: make test-all"]
fn both_units_become_ready_start_again_and_end_under_systemd() {
    let nspawn = Command::new("systemd-nspawn").arg("--version").output();
    if !rustix::process::geteuid().is_root() || nspawn.is_err() {
        println!("SKIPPED: booting systemd takes root and systemd-container");
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/systemd/boot.sh");
    let done = Command::new(script).arg(GATEWAY).output().expect("sh");
    assert!(
        done.status.success(),
        "{}{}",
        text(&done.stdout),
        text(&done.stderr)
    );
}
