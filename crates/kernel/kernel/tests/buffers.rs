//! Send buffers and unsent data of the subflows of a connection.

use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use crate::common::middlebox::Middlebox;
use crate::common::network::{Host, Network, PORT, connect, send_for};
use crate::common::program::run;
use crate::common::{can_load, lock_names, wait_until};
use anabranch_kernel::load;
use serde_json::Value;

/// Payload of a packet of 1500 bytes.
const PAYLOAD: u64 = 1448;
/// The most that the scheduler assigns at once.
const BURST: u64 = 1 << 16;

/// Output of `ss -timn` about the TCP sockets of a connection that sends, every 20 ms.
fn samples(network: &Network, specification: &str, multipath: bool, ms: u64) -> Vec<String> {
    let _loaded = load(&specification.parse().unwrap()).unwrap();
    network.inside(Host::Client, move || {
        let mut stream = connect("lia", multipath);
        let sender = thread::spawn(move || send_for(&mut stream, Duration::from_millis(ms)));
        let mut listed = Vec::new();
        while !sender.is_finished() {
            let mut ss = Command::new("ss");
            let ss = ss.args(["-timnH", "state", "established"]);
            listed.push(String::from_utf8(ss.output().unwrap().stdout).unwrap());
            thread::sleep(Duration::from_millis(20));
        }
        listed
    })
}

/// The values of a field such as `cwnd:10`, `rtt:20.5/1.3` or, with commas around it, `tb46080`.
fn values(text: &str, name: &str) -> impl Iterator<Item = f64> {
    let fields = text.split([' ', ',', '(', ')', '/', '\n']);
    let values = fields.filter_map(move |field| field.strip_prefix(name));
    values.filter_map(|value| value.parse().ok())
}

fn largest(samples: &[String], name: &str) -> u64 {
    let all = samples.iter().flat_map(|text| values(text, name));
    all.fold(0.0, f64::max) as u64
}

/// In congestion avoidance, where the window between two samples is little larger than in them. The
/// send buffer, at least two windows, is the only other limit.
#[test]
fn a_subflow_has_at_most_a_window_and_a_burst_of_unsent_data() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let network = Network::new(2, Some(50));
    let _sink = network.sink();
    for (specification, multipath, is_limited) in [
        ("lia", true, true),
        ("lia:buffers=linux", true, false),
        ("lia", false, false),
    ] {
        let samples = samples(&network, specification, multipath, 1500);
        let later = &samples[samples.len() / 2..];
        let (window, unsent) = (largest(later, "cwnd:"), largest(later, "notsent:"));
        assert_eq!(
            unsent <= window * PAYLOAD + BURST,
            is_limited,
            "{specification}, multipath {multipath}: {unsent} bytes, {window} packets"
        );
    }
}

/// With every eighth packet lost on one path, the rule's window there is below 2.
#[test]
fn the_smallest_threshold_is_that_of_tcp_or_1_packet() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let network = Network::new(0, None);
    let _sink = network.sink();
    let delay = Duration::from_millis(5);
    let _clean = Middlebox::with_delay(&network, 0, delay, |packet| vec![packet]);
    let mut sent = 0;
    let _lossy = Middlebox::with_delay(&network, 1, delay, move |packet| {
        let is_data = matches!(packet.from(), Host::Client) && !packet.data.is_empty();
        sent += u32::from(is_data);
        let is_lost = is_data && sent.is_multiple_of(8);
        if is_lost { vec![] } else { vec![packet] }
    });
    network.add_endpoint(1, "");
    for (specification, expected) in [
        ("lia:buffers=linux", 2),
        ("lia:buffers=linux:min_ssthresh=1", 1),
    ] {
        let samples = samples(&network, specification, true, 1500);
        let all = samples.iter().flat_map(|text| values(text, "ssthresh:"));
        let least = all.fold(f64::INFINITY, f64::min);
        assert_eq!(least, f64::from(expected), "{specification}");
    }
}

/// Packets of either window, which is also the initial one.
const WINDOW: u32 = 10;

/// Packets that the client sent over the slow path.
type Packets = Arc<AtomicU32>;

/// Two subflows with locked windows, of 20 ms and of a second; `loses` drops the fast one's
/// packets.
fn unequal(network: &Network, loses: &Arc<AtomicBool>) -> (Packets, [Middlebox; 2]) {
    let (packets, loses) = (Packets::default(), loses.clone());
    let fast = Middlebox::with_delay(network, 0, Duration::from_millis(10), move |packet| {
        if loses.load(Relaxed) {
            vec![]
        } else {
            vec![packet]
        }
    });
    let sent = packets.clone();
    let slow = Middlebox::with_delay(network, 1, Duration::from_millis(500), move |packet| {
        if matches!(packet.from(), Host::Client) && !packet.data.is_empty() {
            sent.fetch_add(1, Relaxed);
        }
        vec![packet]
    });
    network.add_endpoint(1, "");
    (0..2).for_each(|k| limit_windows(network, k));
    packets.store(0, Relaxed);
    (packets, [fast, slow])
}

/// A connection that sends until `stop`, and whether `ss` shows a keepalive timer of its subflows.
fn sends(network: &Network, stop: &Arc<AtomicBool>) -> thread::JoinHandle<()> {
    let stopped = stop.clone();
    network.spawn(Host::Client, move || {
        let mut stream = connect("lia", true);
        let timeout = Some(Duration::from_millis(100));
        stream.set_write_timeout(timeout).unwrap();
        while !stopped.load(Relaxed) {
            let _ = stream.write(&[0; 1 << 16]);
        }
    })
}

fn has_keepalive(network: &Network) -> bool {
    let listed = network.inside(Host::Client, || {
        let mut ss = Command::new("ss");
        ss.args(["-tnoH", "state", "established"])
            .output()
            .unwrap()
            .stdout
    });
    String::from_utf8(listed)
        .unwrap()
        .contains("timer:(keepalive")
}

/// The fast path sends 10 packets in 20 ms, 0.7 MB/s. A fragment of 22 packets over the slow one
/// arrives 0.5 + 22 / 3 s later, since a loss may leave a window of 3: 5.6 MB, where half of a send
/// buffer of at most 4 MB may be spared. A second and a half is more than its handshake takes.
#[test]
fn a_path_is_held_before_its_first_fragment_and_used_where_the_fast_one_dies() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let network = Network::new(0, None);
    let _sink = network.sink();
    let (loses, stop) = <(Arc<AtomicBool>, Arc<AtomicBool>)>::default();
    let (packets, _links) = unequal(&network, &loses);
    let _loaded = load(&"lia".parse().unwrap()).unwrap();
    let sender = sends(&network, &stop);
    thread::sleep(Duration::from_millis(3500));
    let (held, probed) = (packets.load(Relaxed), has_keepalive(&network));
    loses.store(true, Relaxed);
    // A probe each second, and its answer a second later.
    thread::sleep(Duration::from_millis(3000));
    let woken = packets.load(Relaxed);
    stop.store(true, Relaxed);
    sender.join().unwrap();
    assert_eq!(held, 0, "packets over the slow path while it is held");
    assert!(probed, "a held path is probed");
    assert!(
        woken > 0,
        "nothing over the slow path after the fast one died"
    );
}

/// The kernel refuses the storage of a socket beyond the limit of its namespace, 0 bytes: then the
/// slow path is used, as without hold-back, whose fragments are more than a packet.
#[test]
fn status_says_how_often_paths_were_held_back_and_how_often_the_kernel_refused() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    for refuses in [false, true] {
        let network = Network::new(0, None);
        let _sink = network.sink();
        let (packets, _links) = unequal(&network, &Arc::default());
        let limit = "/proc/sys/net/core/optmem_max"; // of a namespace since Linux 6.8
        let is_set = network.inside(Host::Client, move || {
            !refuses || fs::write(limit, "0").is_ok()
        });
        if !is_set {
            return;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let _loaded = load(&"lia".parse().unwrap()).unwrap();
        let sender = sends(&network, &stop);
        thread::sleep(Duration::from_millis(3500));
        let used = packets.load(Relaxed) > 0;
        let (text, document) = (run(&["status"]), run(&["status", "--json"]));
        let metrics = run(&["metrics", "--once"]);
        stop.store(true, Relaxed);
        sender.join().unwrap();
        assert_eq!(used, refuses, "the slow path is used");
        let document: Value = serde_json::from_str(&document).unwrap();
        let holds = &document["registered"][0]["holds"];
        let [begun, refused] = ["begun", "refused"].map(|key| holds[key].as_u64().unwrap());
        assert_eq!((begun > 0, refused > 0), (!refuses, refuses), "{holds}");
        let line = text.lines().nth(1).unwrap();
        println!("{line}");
        assert!(line.starts_with("lia held a path back "), "{line}");
        assert_eq!(
            line.contains(" 0 times; the kernel refused "),
            refuses,
            "{line}"
        );
        // The sender goes on meanwhile.
        for (name, count) in [("begun", begun), ("refused", refused)] {
            let start =
                format!("anabranch_holds_{name}{{algorithm=\"lia\",program=\"registered\"}} ");
            let mut counts = metrics.lines().filter_map(|line| line.strip_prefix(&start));
            let counted: f64 = counts.next().unwrap().parse().unwrap();
            assert_eq!(counted > 0.0, count > 0, "{name}: {metrics}");
        }
    }
}

#[test]
fn no_path_is_held_with_the_buffers_of_linux() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let network = Network::new(0, None);
    let _sink = network.sink();
    let stop = Arc::new(AtomicBool::new(false));
    let (packets, _links) = unequal(&network, &Arc::default());
    let _loaded = load(&"lia:buffers=linux".parse().unwrap()).unwrap();
    let sender = sends(&network, &stop);
    thread::sleep(Duration::from_millis(2500));
    let (used, probed) = (packets.load(Relaxed), has_keepalive(&network));
    stop.store(true, Relaxed);
    sender.join().unwrap();
    assert!(used > 0 && !probed, "{used} packets, probed: {probed}");
}

/// Limits the windows of the client's later subflows on link k. The kernel takes the limit of a
/// route with the metrics that a closed connection leaves.
fn limit_windows(network: &Network, k: u8) {
    let client = network.name(Host::Client);
    let ip = |arguments: String| {
        let output = Command::new("ip").args(arguments.split(' ')).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    ip(format!(
        "-n {client} route change 10.77.{k}.0/24 dev v{k} src 10.77.{k}.1 cwnd lock {WINDOW}"
    ));
    let server = Ipv4Addr::new(10, 77, k, 2);
    network.inside(Host::Client, move || {
        let mut stream = TcpStream::connect((server, PORT)).unwrap();
        stream.write_all(&[0]).unwrap();
    });
    wait_until("metrics of a closed connection", || {
        ip(format!("-n {client} tcp_metrics show")).contains(&server.to_string())
    });
}
