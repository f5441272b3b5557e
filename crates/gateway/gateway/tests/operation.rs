//! The process beside hostile users of its host: descriptors, the status page, key files.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{
    Pid, PidfdFlags, PidfdGetfdFlags, Resource, Rlimit, Signal, pidfd_getfd, pidfd_open, prlimit,
};
use socket2::Socket;

use crate::process::pair::{GATEWAY, Pair, Running, echoes, keygen, text, wait};

/// Runs the program in a shell after a command of that shell.
fn after(command: &str, arguments: &[&str], folder: &Path) -> Command {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &format!("{command}; exec \"$0\" \"$@\""), GATEWAY])
        .args(arguments)
        .current_dir(folder);
    shell
}

fn run(command: &mut Command) -> Output {
    command.output().expect("the program")
}

#[test]
fn idle_connections_to_the_status_page_take_no_descriptors_from_clients() {
    let pair = Pair::start(1.0);
    let few = Rlimit {
        current: Some(300),
        maximum: Some(300),
    };
    let near = Pid::from_child(&pair.near.child);
    prlimit(Some(near), Resource::Nofile, few).expect("own child");
    let idle: Vec<TcpStream> = (0..400)
        .map(|_| TcpStream::connect(pair.status).expect("near listens"))
        .collect();
    wait("a new connection beside them", || echoes(pair.forward));
    assert_eq!(pair.status()["role"], "near");
    drop(idle);
}

/// Follows the status as the page does; the status line and, if there is one, the first event.
fn events(at: SocketAddr, site: &str) -> (String, String) {
    let mut stream = TcpStream::connect(at).expect("near listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .expect("a timeout");
    let head = format!("GET /events HTTP/1.1\r\nHost: {at}\r\nSec-Fetch-Site: {site}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("a request");
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let status = lines.next().unwrap_or_default();
    let event = lines.find(|line| line.starts_with("event: "));
    (status, event.unwrap_or_default())
}

#[test]
fn only_its_own_page_follows_the_status() {
    let pair = Pair::start(1.0);
    for site in ["cross-site", "same-site"] {
        assert_eq!(events(pair.status, site).0, "HTTP/1.1 403 Forbidden");
    }
    let own = events(pair.status, "same-origin");
    assert_eq!(
        own,
        ("HTTP/1.1 200 OK".to_owned(), "event: update".to_owned())
    );
}

#[test]
fn the_gateway_raises_its_limit_of_descriptors() {
    let mut pair = Pair::start(1.0);
    pair.near.signal(Signal::KILL);
    pair.near.end();
    let log = pair.folder.path().join("again.log");
    let child = after("ulimit -Sn 256", &["near", "near.toml"], pair.folder.path())
        .stderr(fs::File::create(&log).expect("own folder"))
        .stdout(Stdio::null())
        .spawn()
        .expect("the program");
    pair.near = Running { child, log };
    wait("a connection", || echoes(pair.forward));
    let limits = fs::read_to_string(format!("/proc/{}/limits", pair.near.child.id()));
    let limits = limits.expect("own child");
    let files = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let columns: Vec<&str> = files.expect("a limit").split_whitespace().collect();
    assert_eq!(columns[3], columns[4], "soft and hard limit");
}

#[test]
fn limits_that_need_more_descriptors_than_the_process_may_have_are_refused() {
    let pair = Pair::start(1.0);
    let folder = pair.folder.path();
    // Two for each place, one for each query, and a reserve.
    let (near, far) = (2 * 4096 + 1024 + 1024, 2 * 8192 + 2048 + 1024);
    for (file, needed) in [("near.toml", near), ("far.toml", far)] {
        let done = run(&mut after("ulimit -n 1024", &["check", file], folder));
        assert_eq!(done.status.code(), Some(2), "{}", text(&done.stderr));
        let said = text(&done.stderr);
        assert!(said.contains("limits.connections"), "{said}");
        assert!(said.contains(&format!("ulimit -n {needed}")), "{said}");
    }
}

#[test]
fn a_key_that_cannot_be_written_leaves_no_file_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let no_files = "trap '' XFSZ; ulimit -f 0";
    let done = run(&mut after(no_files, &["keygen", "a.key"], folder.path()));
    assert_eq!(done.status.code(), Some(1));
    let left = fs::read_dir(folder.path()).expect("own folder").count();
    assert_eq!(left, 0, "{}", text(&done.stderr));
    keygen(folder.path(), "a.key");
}

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
