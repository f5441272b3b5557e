//! The units under systemd, in a container.

use std::process::Command;

use crate::common::{can_load, is_installed};

#[test]
#[ignore = "slow: make test-all"]
fn the_units_load_reload_and_unload_under_systemd() {
    if !can_load() || !is_installed("systemd-nspawn") {
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/boot.sh");
    let binary = env!("CARGO_BIN_EXE_anabranch-kernel");
    let done = Command::new(script).arg(binary).output().unwrap();
    let printed = [done.stdout, done.stderr].concat();
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&printed)
    );
}
