//! A listener that fails ends the program, so that systemd starts it again.

use std::fs;
use std::net::Shutdown;

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use socket2::Socket;

use crate::process::pair::Pair;

/// The sockets of a process that satisfy a condition; operations on them are operations on its own.
fn sockets(process: u32, condition: impl Fn(&Socket) -> bool) -> Vec<Socket> {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    let process_fd = pidfd_open(pid.expect("a process"), PidfdFlags::empty()).expect("it runs");
    let entries = fs::read_dir(format!("/proc/{process}/fd")).expect("own child");
    let numbers = entries.flatten().filter_map(|entry| {
        let target = fs::read_link(entry.path()).ok()?;
        let is_socket = target.to_string_lossy().starts_with("socket:");
        let number = entry.file_name().to_str()?.parse().ok()?;
        is_socket.then_some(number)
    });
    let copies = numbers.map(|number| {
        let copy = pidfd_getfd(&process_fd, number, PidfdGetfdFlags::empty());
        Socket::from(copy.expect("own child"))
    });
    copies.filter(condition).collect()
}

#[test]
fn far_exits_with_1_if_it_can_accept_no_more_tunnels() {
    let mut pair = Pair::start(60.0);
    let listeners = sockets(pair.far.child.id(), |socket| {
        socket.is_listener().unwrap_or(false)
    });
    assert_eq!(listeners.len(), 1, "of the carrier mptcp");
    listeners[0].shutdown(Shutdown::Both).expect("a listener");
    assert_eq!(pair.far.end().code(), Some(1), "{}", pair.far.log());
    let log = pair.far.log();
    assert!(log.contains("no more tunnels are accepted"), "{log}");
}
