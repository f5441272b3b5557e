//! The program: keys, exit codes, status, reload, drain, over a pair of gateways on loopback.

use rustix::process::Signal;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::Duration;

mod init;
pub mod pair;

use pair::{Pair, Running, echoes, echoes_on, free, gateway, get, keygen, request, text, wait};

#[test]
fn keygen_writes_a_private_file_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let public = keygen(folder.path(), "a.key");
    let file = folder.path().join("a.key");
    assert_eq!(
        fs::metadata(&file).expect("written").permissions().mode() & 0o777,
        0o600
    );
    let key = fs::read(&file).expect("own file");
    let again = gateway(&["keygen", "a.key"], folder.path());
    assert_eq!(again.status.code(), Some(1));
    assert!(
        text(&again.stderr).contains("a.key"),
        "{}",
        text(&again.stderr)
    );
    assert_eq!(fs::read(&file).expect("own file"), key);
    assert!(!text(&key).contains(&public));
}

#[test]
fn a_faulty_configuration_has_exit_code_2_and_nothing_on_stdout() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("bad.toml"), "far = 3\n").expect("own folder");
    for command in ["check", "near"] {
        let done = gateway(&[command, "bad.toml"], folder.path());
        assert_eq!(done.status.code(), Some(2));
        let error = "error: bad.toml:1: far: expected a string, got 3\n";
        assert_eq!(
            (text(&done.stdout), text(&done.stderr)),
            (String::new(), error.to_owned())
        );
    }
    let other = gateway(&["status", "nowhere"], folder.path());
    assert_eq!(other.status.code(), Some(1));
    let message = "nowhere: expected an address, such as 127.0.0.1:9480, or a configuration";
    assert!(
        text(&other.stderr).contains(message),
        "{}",
        text(&other.stderr)
    );
}

#[test]
fn a_pair_carries_data_and_reports_its_state_to_this_host_only() {
    let pair = Pair::start(1.0);
    assert!(echoes(pair.forward));
    wait("a tunnel in the status", || {
        pair.status()["phase"] == "ready"
    });
    let done = gateway(&["status", "near.toml"], pair.folder.path());
    assert!(
        text(&done.stdout).starts_with("near 0."),
        "{}",
        text(&done.stderr)
    );
    let (head, metrics) = get(pair.status, "/metrics", "localhost");
    assert!(head.contains("openmetrics-text"), "{head}");
    assert!(
        metrics.contains("anabranch_gateway_ready 1.0\n"),
        "{metrics}"
    );
    assert!(metrics.ends_with("# EOF\n"));
    let (head, page) = get(pair.status, "/", "127.0.0.1");
    for header in [
        "content-security-policy: default-src 'none'",
        "x-content-type-options: nosniff",
    ] {
        assert!(head.contains(header), "{head}");
    }
    assert!(page.contains("<h1>Anabranch gateway"), "{page}");
    assert!(!page.contains("://"), "nothing from elsewhere");
    let (_, history) = get(pair.status, "/history.json", "127.0.0.1");
    let history: serde_json::Value = serde_json::from_str(&history).expect("a document");
    assert!(history["paths"]["lo"].is_array(), "{history}");
    // A page of another site that rebinds its name to this address cannot read it.
    let (head, _) = get(pair.status, "/status.json", "evil.example");
    assert!(head.starts_with("HTTP/1.0 421"), "{head}");
    let (head, _) = request("POST", pair.status, "/status.json", "127.0.0.1");
    assert!(head.starts_with("HTTP/1.0 405"), "{head}");
    assert_eq!(get(pair.status, "/ready", "127.0.0.1").1, "ready\n");
}

#[test]
fn a_reload_applies_what_it_can_and_a_faulty_file_changes_nothing() {
    let pair = Pair::start(1.0);
    let reload = pair.reload(&pair.near_toml.replace("drain_s = 1", "drain_s = -1"));
    let error = reload["errors"][0].as_str().unwrap_or_default();
    assert!(error.contains("near.toml:5: operation.drain_s"), "{reload}");
    assert!(echoes(pair.forward));
    // Another port, and another rule, which needs a new tunnel.
    let moved = free();
    let new = pair
        .near_toml
        .replace(&pair.forward.to_string(), &moved.to_string());
    let reload = pair.reload(&new.replace("cubic", "reno"));
    assert_eq!(
        reload["applied"],
        serde_json::json!(["services"]),
        "{reload}"
    );
    assert_eq!(reload["restart"], serde_json::json!(["tunnel"]), "{reload}");
    // The same file again: a part that needs a restart still needs it.
    let reload = pair.reload(&new.replace("cubic", "reno"));
    let (none, tunnel) = (serde_json::json!([]), serde_json::json!(["tunnel"]));
    assert_eq!((&reload["applied"], &reload["restart"]), (&none, &tunnel));
    // The first rule again, which still runs.
    let reload = pair.reload(&new);
    assert_eq!((&reload["applied"], &reload["restart"]), (&none, &none));
    wait("the new port", || echoes(moved));
    assert!(
        TcpStream::connect(pair.forward).is_err(),
        "the old port is closed"
    );
}

#[test]
fn refusals_at_a_limit_are_one_line_in_the_log() {
    let pair = Pair::start(1.0);
    let limits = "limits.connections_per_client = 2\n";
    pair.reload(&format!("{limits}{}", pair.near_toml));
    let open = || TcpStream::connect(pair.forward).expect("near listens");
    let connections: Vec<_> = (0..6).map(|_| open()).collect();
    let refused = "Connection refused: 2 at present, see limits.connections_per_client";
    wait("a refusal in the log", || pair.near.log().contains(refused));
    drop(connections);
    assert_eq!(pair.near.log().matches(refused).count(), 1);
}

#[test]
fn keys_are_rotated_without_a_restart() {
    let mut pair = Pair::start(1.0);
    let folder = pair.folder.path();
    let public = keygen(folder, "new.key");
    // far accepts both keys, then near presents the new one; connections continue.
    let both = pair
        .far_toml
        .replace("peers = ['", &format!("peers = ['{public}', '"));
    fs::write(folder.join("far.toml"), both).expect("own folder");
    let open = TcpStream::connect(pair.forward).expect("near listens");
    assert!(echoes_on(&open));
    pair.far.signal(Signal::HUP);
    wait("a reload of far", || {
        pair.far.log().contains("reload: applied keys")
    });
    let reload = pair.reload(&pair.near_toml.replace("near.key", "new.key"));
    assert_eq!(reload["applied"], serde_json::json!(["keys"]), "{reload}");
    assert!(echoes_on(&open));
    // A far that accepts the new key alone, which near has presented in no handshake yet.
    let (_, tail) = pair.far_toml.split_once("peers = ['").expect("the key");
    let (old, _) = tail.split_once('\'').expect("its end");
    fs::write(folder.join("far.toml"), pair.far_toml.replace(old, &public)).expect("own folder");
    pair.far.signal(Signal::TERM);
    pair.far.end();
    pair.far = Running::start(pair.folder.path(), "far");
    wait("a tunnel with the new key", || echoes(pair.forward));
}

#[test]
fn sigterm_lets_connections_end_and_accepts_no_new_ones() {
    let mut pair = Pair::start(60.0);
    let open = TcpStream::connect(pair.forward).expect("near listens");
    assert!(echoes_on(&open));
    pair.near.signal(Signal::TERM);
    wait("near drains", || {
        pair.near.log().contains("draining 1 connections")
    });
    wait("no new connections", || {
        TcpStream::connect(pair.forward).is_err()
    });
    assert!(echoes_on(&open), "the open connection continues");
    assert_eq!(get(pair.status, "/ready", "127.0.0.1").1, "draining\n");
    let mut page = TcpStream::connect(pair.status).expect("near has a status");
    let _ = write!(page, "GET /events HTTP/1.0\r\nHost: localhost\r\n\r\n");
    thread::sleep(Duration::from_secs(2));
    let mut seen = vec![0; 1 << 20];
    let read = page.read(&mut seen).expect("events");
    assert!(text(&seen[..read]).matches("event:").count() < 8);
    drop(open);
    assert_eq!(pair.near.end().code(), Some(0));
    assert!(
        pair.near.log().contains("every connection has ended"),
        "{}",
        pair.near.log()
    );
}

#[test]
fn the_deadline_or_a_second_signal_ends_it_with_open_connections() {
    for (drain_s, second, says) in [
        (0.3, false, "the deadline is over: 1 connections"),
        (60.0, true, "a second signal"),
    ] {
        let mut pair = Pair::start(drain_s);
        let open = TcpStream::connect(pair.forward).expect("near listens");
        assert!(echoes_on(&open));
        pair.near.signal(Signal::TERM);
        wait("near drains", || pair.near.log().contains("draining"));
        if second {
            pair.near.signal(Signal::INT);
        }
        assert_eq!(pair.near.end().code(), Some(0));
        assert!(pair.near.log().contains(says), "{}", pair.near.log());
        assert!(!echoes_on(&open), "the connection was reset");
    }
}

/// A path without a link is no silence: one line in the log, and the reason in the status.
#[test]
fn a_path_that_carries_nothing_has_one_line_with_the_reason() {
    let mut pair = Pair::start(1.0);
    pair.near.signal(Signal::KILL);
    pair.near.end();
    let paths = "{ name = 'lo', address = '127.0.0.1' }, { name = 'gone', interface = 'nowhere7' }";
    let near = pair.near_toml.replace("'mptcp'", "'quic'");
    let near = near.replace("{ name = 'lo', address = '127.0.0.1' }", paths);
    fs::write(pair.folder.path().join("near.toml"), near).expect("own folder");
    pair.near = Running::start(pair.folder.path(), "near");
    let reason = "this host has no interface nowhere7";
    let line = format!("path dead: {reason}");
    wait("a line", || pair.near.log().contains(&line));
    thread::sleep(Duration::from_secs(2));
    assert_eq!(pair.near.log().matches(&line).count(), 1);
    let shown = || {
        let address = pair.status.to_string();
        text(&gateway(&["status", &address], pair.folder.path()).stdout)
    };
    let status = shown();
    assert!(
        status.contains(&format!("gone: dead: {reason}")),
        "{status}"
    );
    assert!(status.contains("127.0.0.1"), "the path's address: {status}");
    // Nothing was carried over it: no loss is known.
    let gone = &pair.status()["tunnels"][0]["paths"][1];
    assert_eq!(gone["loss"], serde_json::Value::Null, "{gone}");
    pair.far.signal(Signal::TERM);
    pair.far.end();
    wait("why there is no tunnel", || {
        let status = shown();
        status.contains("no tunnel is established") && status.contains("no answer from")
    });
}

/// With glibc's default each thread has a heap, for which it reserves 64 MiB (`share_heap`).
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn no_thread_has_a_heap_of_its_own() {
    let pair = Pair::start(1.0);
    let reserved_kb = reserved_kb(pair.far.child.id());
    assert!(reserved_kb < 32 << 10, "{reserved_kb} kB are reserved");
}

/// Address space without access, kB.
fn reserved_kb(pid: u32) -> usize {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("it runs");
    let reserved = maps.lines().filter(|line| line.contains(" ---p "));
    let size = |line: &str| {
        let (range, _) = line.split_once(' ').expect("start-end");
        let (start, end) = range.split_once('-').expect("start-end");
        let parse = |text| usize::from_str_radix(text, 16).expect("hexadecimal");
        (parse(end) - parse(start)) >> 10
    };
    reserved.map(size).sum()
}
