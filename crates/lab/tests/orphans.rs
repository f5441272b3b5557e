//! Processes that a killed lab leaves running. The only test in its file, because every lab that
//! starts kills them. Needs root.

mod common;

use common::{Hosts, TWO_LINKS, can_create_hosts, file, lab, running, wait_for};

#[test]
fn the_next_lab_kills_the_orphans_of_a_killed_one() {
    if !can_create_hosts() {
        return;
    }
    let scenario = file(TWO_LINKS);
    let scenario = scenario.to_str().unwrap();
    // The shell dies with the lab, the two processes that it has started don't.
    let name = format!("61.{}", std::process::id());
    let daemons = format!("sleep {name} & setsid sleep {name} & wait");
    let mut exec = lab(&["exec", scenario, "two", "--", "sh", "-c", &daemons])
        .spawn()
        .unwrap();
    let hosts = Hosts::of(&exec);
    let sleepers = || running(&["sleep", &name]);
    wait_for("programs", || (sleepers() == 2).then_some(()));
    exec.kill().unwrap();
    exec.wait().unwrap();
    assert_eq!(sleepers(), 2);
    let next = lab(&["exec", scenario, "one", "--", "true"])
        .status()
        .unwrap();
    assert!(next.success());
    wait_for("end of the programs", || (sleepers() == 0).then_some(()));
    hosts.wait_for_their_end();
}
