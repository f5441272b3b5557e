//! Send buffers and unsent data of the subflows of a connection.

use std::io::Write;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::middlebox::Middlebox;
use crate::common::network::{Host, Network, connect, send_for};
use crate::common::{can_load, lock_names};
use anabranch_kernel::load;

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

/// In congestion avoidance, after the first loss of one in 200 packets, where the window between
/// two samples is little larger than in them. The send buffer, which has grown to two windows of
/// before that loss, is the only other limit.
#[test]
fn a_subflow_has_at_most_a_window_and_a_burst_of_unsent_data() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let network = Network::new(0, None);
    let _links = [0, 1].map(|k| {
        let mut sent = 0;
        Middlebox::with_delay(&network, k, Duration::from_millis(5), move |packet| {
            let is_data = matches!(packet.from(), Host::Client) && !packet.data.is_empty();
            sent += u32::from(is_data);
            let is_lost = is_data && sent.is_multiple_of(200);
            if is_lost { vec![] } else { vec![packet] }
        })
    });
    network.add_endpoint(1, "");
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

/// With every eighth packet lost on one path, the rule's window there is below 2. An
/// acknowledgement that the receiver delays after a timeout looks like a queue, at which a late
/// path leaves slow start.
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
    let _lossy = Middlebox::with_delay(&network, 1, 2 * delay, move |packet| {
        let is_data = matches!(packet.from(), Host::Client) && !packet.data.is_empty();
        sent += u32::from(is_data);
        let is_lost = is_data && sent.is_multiple_of(8);
        if is_lost { vec![] } else { vec![packet] }
    });
    network.add_endpoint(1, "");
    for (specification, expected) in [
        // Held back it may have no second loss.
        ("lia", 2..=u64::MAX),
        ("lia:buffers=linux", 2..=2),
        ("lia:buffers=linux:min_ssthresh=1", 1..=1),
    ] {
        let samples = samples(&network, specification, true, 3000);
        let all = samples.iter().flat_map(|text| values(text, "ssthresh:"));
        let least = all.fold(f64::INFINITY, f64::min) as u64;
        assert!(expected.contains(&least), "{specification}: {least}");
    }
}

/// A window after a pause over 100 ms of round-trip time: with pacing it takes at least half of
/// that in slow start, without it as long as a processor needs.
#[test]
fn a_window_after_a_pause_is_paced() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let network = Network::new(0, None);
    let _sink = network.sink();
    let times = Arc::new(Mutex::new(Vec::new()));
    let noted = times.clone();
    let delay = Duration::from_millis(50);
    let _link = Middlebox::with_delay(&network, 0, delay, move |packet| {
        if matches!(packet.from(), Host::Client) && !packet.data.is_empty() {
            noted.lock().unwrap().push(Instant::now());
        }
        vec![packet]
    });
    for (specification, paced) in [("lia", true), ("lia:buffers=linux", false)] {
        let _loaded = load(&specification.parse().unwrap()).unwrap();
        let sent = times.clone();
        network.inside(Host::Client, move || {
            let mut stream = connect("lia", true);
            // Grows the window to 100 packets.
            for packets in [10, 20, 40, 80, 100] {
                sent.lock().unwrap().clear();
                stream
                    .write_all(&vec![0; packets * PAYLOAD as usize])
                    .unwrap();
                thread::sleep(Duration::from_millis(250));
            }
        });
        let times = times.lock().unwrap();
        let most = times.windows(50).map(|w| w[49] - w[0]).min().unwrap();
        assert_eq!(
            most > Duration::from_millis(10),
            paced,
            "{specification}: {most:?}"
        );
    }
}
