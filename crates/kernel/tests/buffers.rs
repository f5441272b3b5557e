//! What the subflows of a connection may hold: send buffers and unsent data.

use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::common::middlebox::Middlebox;
use crate::common::network::{Host, Network, PORT, connect, send_for};
use crate::common::{can_load, lock_names, wait_until};
use anabranch_kernel::load;

/// Payload of a packet of 1500 bytes.
const PAYLOAD: u64 = 1448;
/// The most that the scheduler assigns at once.
const BURST: u64 = 1 << 16;

/// What `ss -timn` prints of the TCP sockets of a connection that sends, every 20 ms.
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

/// The largest value of a field such as `cwnd:10` or, with commas around it, `tb46080`.
fn largest(samples: &[String], name: &str) -> u64 {
    let texts = samples
        .iter()
        .flat_map(|text| text.split([' ', ',', '(', ')', '\n']));
    let fields = texts.filter_map(|field| field.strip_prefix(name));
    fields.filter_map(|value| value.parse().ok()).max().unwrap()
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

/// Packets of either window, which is also the initial one.
const WINDOW: u32 = 10;
/// FRAGMENT_PACKETS of bpf/buffers.h.
const FRAGMENT: f64 = 22.0;

/// The fast subflow's buffer is the largest: its windows are those of 22 packets at 10 in 60 ms, 132
/// ms, in its RTT of 20 ms, so 6. The slow one's has Linux' 2.
#[test]
fn a_send_buffer_has_the_windows_in_which_the_slow_path_sends_a_fragment() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let network = Network::new(0, None);
    let delays = [10, 30].map(Duration::from_millis);
    let _links =
        [0, 1].map(|k| Middlebox::with_delay(&network, k, delays[k], |packet| vec![packet]));
    network.add_endpoint(1, "");
    let _sink = network.sink();
    (0..2).for_each(|k| limit_windows(&network, k));
    let linux = samples(&network, "lia:buffers=linux", true, 800);
    let ours = samples(&network, "lia", true, 800);
    assert_eq!(largest(&ours, "cwnd:"), u64::from(WINDOW));
    // Linux' own buffer has 2 windows, whatever the kernel counts per packet.
    let windows = largest(&ours, "tb") as f64 / (largest(&linux, "tb") as f64 / 2.0);
    let expected = (FRAGMENT * ratio_of_rtts(&ours) / f64::from(WINDOW)).floor();
    // Within a window: an RTT may change between a sample and the end of a round trip.
    assert!(
        (windows - expected).abs() <= 1.0,
        "{windows} windows, {expected} expected"
    );
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

/// The largest that any sample has, of the slow path's to the fast one's.
fn ratio_of_rtts(samples: &[String]) -> f64 {
    let ratios = samples.iter().filter_map(|text| {
        let fields = text
            .split(' ')
            .filter_map(|field| field.strip_prefix("rtt:"));
        let rtts: Vec<f64> = fields
            .filter_map(|field| field.split('/').next()?.parse().ok())
            .collect();
        match rtts[..] {
            [one, other] => Some(f64::max(one / other, other / one)),
            _ => None,
        }
    });
    ratios.fold(0.0, f64::max)
}
