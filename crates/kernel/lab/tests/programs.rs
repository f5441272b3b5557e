//! Programs in the hosts of a scenario. Needs root and python3.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Hosts, TWO_LINKS, can_create_hosts, file, lab, running, wait_for};
use rustix::process::{Pid, Signal, kill_process_group};

/// Accepts one connection, and prints the client's address and the number of bytes received.
const SERVER: &str = "
import socket
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
listener.bind(('10.255.255.254', 5005))
listener.listen()
connection, peer = listener.accept()
total = 0
while block := connection.recv(1 << 16):
    total += len(block)
print(peer[0], total)
";

/// Sends 2 MB, and prints the algorithm and the number of additional subflows, the first byte of
/// `struct mptcp_info`.
const CLIENT: &str = "
import socket, time
for attempt in range(100):
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
    try:
        connection.connect(('10.255.255.254', 5005))
        break
    except ConnectionRefusedError:
        time.sleep(0.05)
connection.sendall(bytes(2_000_000))
algorithm = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
SOL_MPTCP, MPTCP_INFO = 284, 1
print(algorithm.rstrip(bytes(1)).decode(), connection.getsockopt(SOL_MPTCP, MPTCP_INFO, 64)[0])
";

/// Prints a line once its socket is bound. Receives bursts of 30 packets, and answers each with the
/// time from the first to the last, us, and a burst. The kernel's timestamps (SO_TIMESTAMP, 29) are
/// used.
const BURST_SERVER: &str = "
import socket, struct
server = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
server.setsockopt(socket.SOL_SOCKET, 29, 1)
server.bind(('::', 5005))
print('bound', flush=True)
while True:
    times = []
    while len(times) < 30:
        data, [[_, _, time]], _, peer = server.recvmsg(2000, 100)
        seconds, us = struct.unpack('qq', time)
        times.append(seconds * 1_000_000 + us)
    for packet in range(30):
        server.sendto(str(times[-1] - times[0]).encode().ljust(1452), peer)
";

/// Sends a burst from each path's address; prints the times from the first to the last packet at
/// the server and of the server's burst here, ms.
const BURST_CLIENT: &str = "
import socket, struct
v4, v6 = (socket.AF_INET, '10.255.255.254'), (socket.AF_INET6, 'fd00::10.255.255.254')
for (family, server), address in ((v4, '10.0.0.1'), (v4, '10.0.0.2'), (v6, 'fd00::10.0.0.2')):
    client = socket.socket(family, socket.SOCK_DGRAM)
    client.setsockopt(socket.SOL_SOCKET, 29, 1)
    client.settimeout(10)
    client.bind((address, 0))
    for packet in range(30):
        client.sendto(bytes(1452), (server, 5005))
    times = []
    while len(times) < 30:
        data, [[_, _, time]], _, _ = client.recvmsg(2000, 100)
        seconds, us = struct.unpack('qq', time)
        times.append(seconds * 1_000_000 + us)
    print(round(int(data) / 1000), round((times[-1] - times[0]) / 1000))
";

fn stdout_of(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_program_sends_over_both_paths_with_the_hosts_algorithm() {
    if !can_create_hosts() {
        return;
    }
    let scenario = file(TWO_LINKS);
    let scenario = scenario.to_str().unwrap();
    // The scenario has reno, and the namespace's default may be anything.
    let server = [
        "exec",
        "--algorithm",
        "cubic",
        scenario,
        "server",
        "--",
        "python3",
        "-c",
        SERVER,
    ];
    let server = lab(&server).spawn().unwrap();
    Hosts::of(&server);
    let client = ["exec", scenario, "two", "--", "python3", "-c", CLIENT];
    assert_eq!(stdout_of(&lab(&client).output().unwrap()), "cubic 1\n");
    let received = stdout_of(&server.wait_with_output().unwrap());
    assert_eq!(received, "10.0.0.1 2000000\n");
}

#[test]
fn packets_leave_by_the_path_of_their_address_and_with_duplex_return_at_its_rate() {
    if !can_create_hosts() {
        return;
    }
    // 29 packets of 1480 bytes (IPv6: 1500) at 8 and 4 Mbps; the forwarder may be late.
    let (first, second) = (42..60, 85..110);
    for duplex in [true, false] {
        let scenario = file(TWO_LINKS);
        let scenario = scenario.to_str().unwrap();
        let mut server = vec!["exec", scenario, "server"];
        server.extend(duplex.then_some("--duplex"));
        server.extend(["--", "python3", "-c", BURST_SERVER]);
        let mut server = lab(&server).spawn().unwrap();
        let mut bound = String::new();
        let stdout = server.stdout.as_mut().unwrap();
        stdout.take(6).read_to_string(&mut bound).unwrap();
        assert_eq!(bound, "bound\n");
        let client = ["exec", scenario, "two", "--", "python3", "-c", BURST_CLIENT];
        let times = stdout_of(&lab(&client).output().unwrap());
        server.kill().unwrap();
        server.wait().unwrap();
        let ms: Vec<u32> = times
            .split_whitespace()
            .map(|time| time.parse().unwrap())
            .collect();
        let expected = [&first, &second, &second]; // the third over IPv6
        assert_eq!(ms.len(), 6);
        for (expected, ms) in expected.into_iter().zip(ms.chunks(2)) {
            assert!(expected.contains(&ms[0]), "{ms:?}");
            assert!(
                if duplex {
                    expected.contains(&ms[1])
                } else {
                    ms[1] < 20
                },
                "{ms:?}"
            );
        }
    }
}

#[test]
fn shell_runs_the_users_shell_in_the_host() {
    if !can_create_hosts() {
        return;
    }
    let scenario = file(TWO_LINKS);
    let mut shell = lab(&["shell", scenario.to_str().unwrap(), "one"]);
    let mut shell = shell
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = shell.stdin.take().unwrap();
    stdin.write_all(b"ip -brief address; exit 5\n").unwrap();
    let output = shell.wait_with_output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(
        stdout.contains("path0") && stdout.contains("10.0.1.1/32"),
        "{stdout}"
    );
    assert_eq!(output.status.code(), Some(5));
}

#[test]
fn ctrl_c_ends_the_program_and_the_lab() {
    if !can_create_hosts() {
        return;
    }
    let scenario = file(TWO_LINKS);
    let name = format!("62.{}", std::process::id());
    let arguments = [
        "exec",
        scenario.to_str().unwrap(),
        "two",
        "--",
        "sleep",
        &name,
    ];
    // Both get the signal, as from a terminal.
    let exec = lab(&arguments).process_group(0).spawn().unwrap();
    wait_for("program", || {
        (running(&["sleep", &name]) == 1).then_some(())
    });
    kill_process_group(Pid::from_child(&exec), Signal::INT).unwrap();
    let output = exec.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
}

#[test]
fn errors_are_one_line() {
    if !can_create_hosts() {
        return;
    }
    let scenario = file(TWO_LINKS);
    let scenario = scenario.to_str().unwrap();
    for (arguments, expected) in [
        (
            ["exec", scenario, "three", "--", "true"],
            "unknown host \"three\": expected one of two.0",
        ),
        (
            ["exec", scenario, "two", "--", "nonsense"],
            "nonsense: program not found",
        ),
        (
            ["exec", scenario, "two", "--", "./nonsense"],
            "./nonsense: program not found",
        ),
        (
            ["run", scenario, "--algorithm", "nonsense", "--seed=1"],
            "if `anabranch-kernel list` has it",
        ),
        (
            ["exec", "nowhere.toml", "two", "--", "true"],
            "nowhere.toml: ",
        ),
    ] {
        let output = lab(&arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(
            error.starts_with("anabranch-lab: ") && error.contains(expected),
            "{error}"
        );
        assert_eq!(
            (error.lines().count(), output.status.code()),
            (1, Some(2)),
            "{error}"
        );
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_full_disk_ends_a_run_at_once() {
    if !can_create_hosts() {
        return;
    }
    let scenario = file(&TWO_LINKS.replace("duration_s = 3", "duration_s = 60"));
    let directory = tempfile::tempdir().unwrap();
    // Every write to /dev/full fails for lack of space.
    let capture = directory.path().join("1-B.pcapng");
    std::os::unix::fs::symlink("/dev/full", &capture).unwrap();
    let mut run = lab(&["run", scenario.to_str().unwrap(), "--capture"]);
    let start = Instant::now();
    let output = run.arg(directory.path()).output().unwrap();
    // The first 8 kB are written after some ten packets; the run itself takes 60 s.
    assert!(start.elapsed() < Duration::from_secs(20));
    let error = String::from_utf8_lossy(&output.stderr);
    let expected = format!("{}: No space left on device", capture.display());
    assert!(error.contains(&expected), "{error}");
    assert_eq!((error.lines().count(), output.status.code()), (1, Some(2)));
    assert!(output.stdout.is_empty());
}
