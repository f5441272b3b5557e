//! Views of operators: version, parameters and stale rates in `status`, weights, metrics.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use anabranch_kernel::connections;
use libbpf_rs::MapCore;
use socket2::SockRef;

use crate::common::network::{Host, Network, connect, send_for};
use crate::common::program::{own_bpf_fs, programs, run};
use crate::common::{can_load, is_installed, lock_names, wait_until};

#[test]
fn status_shows_version_parameters_and_stale_rates() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let _pins = own_bpf_fs();
    let said = run(&["load", "vegas_k:kappa=3", "lia", "--pin"]);
    let caution = "vegas_k: a delayed ACK is a queue to it: ";
    assert!(
        said.starts_with(&format!("anabranch-kernel: {caution}")),
        "{said}"
    );
    assert_eq!(said.lines().count(), 2, "{said}");
    assert!(run(&["list"]).contains("caution: a delayed ACK is a queue to it: "));
    let version = env!("CARGO_PKG_VERSION");
    let shown = run(&["status"]);
    let expected =
        format!("registered: lia {version} (pinned), vegas_k:kappa=3 {version} (pinned)");
    assert!(shown.contains(&expected), "{shown}");
    let wrapped = on_terminal(40, "status");
    let expected = format!(
        "registered: lia {version} (pinned),\r\n    vegas_k:kappa=3 {version} (pinned)\r\n"
    );
    assert!(wrapped.contains(&expected), "{wrapped}");

    let network = Network::new(1, Some(50));
    let _sink = network.sink();
    let mut stream = network.inside(Host::Client, || connect("lia", true));
    send_for(&mut stream, Duration::from_millis(300));
    let shown = || network.inside(Host::Client, || (run(&["status"]), connections().unwrap()));
    let (text, connections) = shown();
    assert!(!text.contains("stale"), "{text}");
    assert_eq!(connections[0].subflows[0].share, 1.0);
    wait_until("the rate is stale", || {
        let (text, connections) = shown();
        let subflow = &connections[0].subflows[0];
        assert_eq!(subflow.is_stale(), subflow.rate_age_s > 1.0);
        subflow.share == 0.0 && text.contains("stale ")
    });
}

/// Output of the program on a terminal with this many columns.
fn on_terminal(columns: usize, arguments: &str) -> String {
    let binary = env!("CARGO_BIN_EXE_anabranch-kernel");
    let command = format!("stty cols {columns} rows 24; exec {binary} {arguments}");
    let mut script = Command::new("script");
    let output = script.args(["-qec", &command, "/dev/null"]).output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}

#[test]
fn the_weight_of_a_connection_goes_with_its_last_socket() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let loaded = anabranch_kernel::load(&"vegas_k".parse().unwrap()).unwrap();
    let weights = loaded.weights().unwrap();
    let network = Network::new(2, None);
    let _sink = network.sink();
    let mut streams = network.inside(Host::Client, || {
        [true, false].map(|multipath| connect("vegas_k", multipath))
    });
    for stream in &mut streams {
        let cookie = SockRef::from(&*stream).cookie().unwrap();
        anabranch_kernel::set_weight(&weights, cookie, Some(2.5)).unwrap();
        send_for(stream, Duration::from_millis(50));
    }
    let subflows = || programs(&network).iter().map(|(_, n)| n).sum::<usize>();
    wait_until("both subflows and the plain socket", || subflows() == 3);
    network.remove_endpoint(1);
    wait_until("a subflow is closed", || subflows() == 2);
    assert_eq!(
        weights.keys().count(),
        2,
        "it stays while a subflow is left"
    );
    drop(streams);
    wait_until("no weight is left", || weights.keys().count() == 0);
}

#[test]
fn metrics_are_printed_and_served() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let _pins = own_bpf_fs();
    run(&["load", "balia:cap=2", "--pin"]);
    let network = Network::new(2, None);
    let _sink = network.sink();
    let mut stream = network.inside(Host::Client, || connect("balia", true));
    send_for(&mut stream, Duration::from_millis(300));
    let version = env!("CARGO_PKG_VERSION");
    let loaded = format!(
        "anabranch_loaded{{algorithm=\"balia\",parameters=\"balia:cap=2\",version=\"{version}\",\
         program=\"registered\",pinned=\"true\"}} 1.0\n"
    );
    let subflows = "anabranch_subflows{algorithm=\"balia\",program=\"registered\"} 2.0\n";
    let served = network.inside(Host::Client, metrics_by_http);
    let once = network.inside(Host::Client, || run(&["metrics", "--once"]));
    for text in [&once, &served] {
        for expected in [&loaded, subflows, "# TYPE anabranch_window_packets gauge\n"] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }
}

/// Starts the server of metrics, gets them by HTTP, and stops it.
fn metrics_by_http() -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch-kernel"));
    let mut server = command
        .args(["metrics", "--listen", "127.0.0.1:0"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(server.stderr.take().unwrap())
        .read_line(&mut said)
        .unwrap();
    let address = said.split('/').nth(2).unwrap();
    let address: SocketAddr = address.parse().unwrap();
    let text = get_metrics(address, "localhost");
    let rebound = get_metrics(address, "rebound.example");
    // Clients that connect and say nothing.
    let idle: Vec<_> = (0..400)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    let beside = get_metrics(address, "localhost");
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    drop(idle);
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    assert!(beside.starts_with("HTTP/1.1 200 OK\r\n"), "{beside}");
    let threads = status
        .lines()
        .find_map(|line| line.strip_prefix("Threads:"));
    let threads: usize = threads.unwrap().trim().parse().unwrap();
    assert!(threads < 10, "{threads} threads");
    assert!(rebound.starts_with("HTTP/1.1 421 "), "{rebound}");
    text
}

fn get_metrics(address: SocketAddr, host: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

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
