//! Processes that programs leave running end with their program and with the lab. Needs root.

use std::fs;
use std::io::{self, Write};
use std::process::{Child, Command, Stdio};

use crate::common::{Hosts, LAB, TWO_LINKS, can_create_hosts, file, lab, running, wait_for};

/// Starts two processes that sleep for `name` seconds: a child, and a daemon in a session of its
/// own that has nothing in its environment by which a lab could recognise it.
fn daemons(name: &str) -> String {
    format!("sleep {name} & setsid env -i sleep {name} & ")
}

#[test]
fn nothing_is_left_of_a_killed_lab() {
    if !can_create_hosts() {
        return;
    }
    let scenario = file(TWO_LINKS);
    let name = format!("61.{}", std::process::id());
    let script = daemons(&name) + "wait";
    let mut exec = exec(scenario.to_str().unwrap(), &script);
    let hosts = Hosts::of(&exec);
    let sleepers = || running(&["sleep", &name]);
    wait_for("programs", || (sleepers() == 2).then_some(()));
    exec.kill().unwrap();
    exec.wait().unwrap();
    wait_for("end of the programs", || (sleepers() == 0).then_some(()));
    hosts.wait_for_their_end();
}

#[test]
fn a_program_that_has_joined_a_lab_ends_with_it() {
    if !can_create_hosts() {
        return;
    }
    let scenario = file(TWO_LINKS);
    let scenario = scenario.to_str().unwrap();
    let name = format!("63.{}", std::process::id());
    let mut first = exec(scenario, "exec sleep 60");
    let hosts = Hosts::of(&first);
    let second = exec(scenario, &(daemons(&name) + "wait"));
    let sleepers = || running(&["sleep", &name]);
    wait_for("programs", || (sleepers() == 2).then_some(()));
    first.kill().unwrap();
    first.wait().unwrap();
    wait_for("end of the programs", || (sleepers() == 0).then_some(()));
    hosts.wait_for_their_end();
    let output = second.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        error.ends_with("the lab has ended, and with it this program\n"),
        "{error}"
    );
}

#[test]
fn what_a_program_leaves_running_ends_with_it() {
    if !can_create_hosts() {
        return;
    }
    let scenario = file(TWO_LINKS);
    let name = format!("62.{}", std::process::id());
    // A daemon starts within 100 ms, or it is ended before it has started.
    let script = daemons(&name) + "sleep 0.1; exit 7";
    // Not `wait_with_output`, which waits for all that have its pipes open.
    let status = exec(scenario.to_str().unwrap(), &script).wait();
    assert_eq!(status.unwrap().code(), Some(7));
    assert_eq!(running(&["sleep", &name]), 0);
}

#[test]
fn a_program_finds_itself_in_proc() {
    if !can_create_hosts() {
        return;
    }
    let scenario = file(TWO_LINKS);
    let script = "readlink /proc/self/ns/net /proc/$$/ns/net";
    let output = exec(scenario.to_str().unwrap(), script).wait_with_output();
    let stdout = String::from_utf8(output.unwrap().stdout).unwrap();
    let links: Vec<&str> = stdout.lines().collect();
    assert_eq!(links.len(), 2, "{stdout}");
    assert_eq!(links[0], links[1]);
}

/// nginx forks twice, starts a session, and replaces its environment by the title that `ps` shows.
#[test]
fn nginx_does_not_survive_its_lab() {
    if !can_create_hosts() || !is_installed("nginx") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let configuration = format!("{path}/nginx.conf");
    let text = format!(
        "pid {path}/pid; error_log {path}/errors; worker_processes 2; events {{}}\n\
         http {{ access_log off; server {{ listen 80; }} }}\n"
    );
    fs::write(&configuration, text).unwrap();
    let scenario = file(TWO_LINKS);
    let script = format!("nginx -c {configuration} -p {path} && exec sleep 60");
    let nginx = || {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let commands = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        commands
            .filter(|command| String::from_utf8_lossy(command).starts_with("nginx: "))
            .count()
    };
    let others = nginx();
    let mut exec = exec(scenario.to_str().unwrap(), &script);
    // A master and two workers.
    wait_for("nginx", || (nginx() == others + 3).then_some(()));
    exec.kill().unwrap();
    exec.wait().unwrap();
    wait_for("end of nginx", || (nginx() == others).then_some(()));
}

#[test]
fn a_run_dies_with_its_parent_on_request() {
    if !can_create_hosts() {
        return;
    }
    let scenario = file(&TWO_LINKS.replace("duration_s = 3", "duration_s = 60"));
    let scenario = scenario.to_str().unwrap();
    let run = format!("{LAB} run {scenario} --die-with-parent $$ & wait");
    let mut shell = Command::new("sh")
        .args(["-c", &run])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let words = [
        LAB,
        "run",
        scenario,
        "--die-with-parent",
        &shell.id().to_string(),
    ];
    wait_for("run", || (running(&words) == 1).then_some(()));
    shell.kill().unwrap();
    shell.wait().unwrap();
    wait_for("end of the run", || (running(&words) == 0).then_some(()));
}

/// Runs a shell script in the first host of a lab.
fn exec(scenario: &str, script: &str) -> Child {
    let command = ["exec", scenario, "two", "--", "sh", "-c", script];
    lab(&command).spawn().unwrap()
}

/// Whether a program can be run. If not, prints that the test is skipped.
fn is_installed(program: &str) -> bool {
    let found = Command::new(program).arg("-v").output().is_ok();
    if !found {
        // Not `eprintln!`, whose output is shown only if the test fails.
        writeln!(io::stderr(), "SKIPPED: {program} is not installed").expect("stderr is open");
    }
    found
}
