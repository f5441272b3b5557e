//! Send buffers and unsent data of the subflows of a connection.

use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::middlebox::Middlebox;
use crate::common::network::{Host, Network, PORT, connect, send_for};
use crate::common::{can_load, lock_names, wait_until};
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
    for (specification, expected) in [("lia", 2), ("lia:min_ssthresh=1", 1)] {
        let samples = samples(&network, specification, true, 1500);
        let all = samples.iter().flat_map(|text| values(text, "ssthresh:"));
        let least = all.fold(f64::INFINITY, f64::min);
        assert_eq!(least, f64::from(expected), "{specification}");
    }
}

/// Packets of either window, which is also the initial one.
const WINDOW: u32 = 10;
/// FRAGMENT_PACKETS of bpf/buffers.h.
const FRAGMENT: f64 = 22.0;

type Times = Arc<Mutex<Vec<Instant>>>;

/// Two subflows with locked windows, of 20 and 60 ms; when the fast one sends data.
fn unequal(network: &Network) -> (Times, [Middlebox; 2]) {
    let times = Times::default();
    let seen = times.clone();
    let fast = Middlebox::with_delay(network, 0, Duration::from_millis(10), move |packet| {
        if matches!(packet.from(), Host::Client) && !packet.data.is_empty() {
            seen.lock().unwrap().push(Instant::now());
        }
        vec![packet]
    });
    let slow = Middlebox::with_delay(network, 1, Duration::from_millis(30), |packet| vec![packet]);
    network.add_endpoint(1, "");
    (0..2).for_each(|k| limit_windows(network, k));
    (times, [fast, slow])
}

/// The fast subflow has the larger buffer: 22 packets at 10 in 60 ms take 132 ms, which are 6.6
/// round trips of its 20 ms. With the one in flight these are 7.6 windows, two thirds of a buffer
/// of 12. The slow one, for which the fast one takes 0.7 round trips, has 3.
#[test]
fn a_send_buffer_has_the_windows_in_which_the_slow_path_sends_a_fragment() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let network = Network::new(0, None);
    let _sink = network.sink();
    let (_times, _links) = unequal(&network);
    let linux = samples(&network, "lia:buffers=linux", true, 800);
    let ours = samples(&network, "lia", true, 800);
    assert_eq!(largest(&ours, "cwnd:"), u64::from(WINDOW));
    let (linux, ours) = (pairs(&linux), pairs(&ours));
    let [(_, buffer), _] = linux.last().unwrap();
    let [(_, fast), (_, slow)] = ours.last().unwrap();
    // Linux' own buffer has 2 windows, whatever the kernel counts per packet.
    let windows = [fast, slow].map(|bytes| bytes / (buffer / 2.0));
    let largest = |ratio: fn(&[(f64, f64); 2]) -> f64| ours.iter().map(ratio).fold(0.0, f64::max);
    let expected = [
        largest(|[fast, slow]| slow.0 / fast.0),
        largest(|[fast, slow]| fast.0 / slow.0),
    ]
    .map(|ratio| (1.5 * (1.0 + FRAGMENT * ratio / f64::from(WINDOW))).ceil());
    // Tolerance of a window: an RTT may change between a sample and the end of a round trip.
    assert!(
        (0..2).all(|k| (windows[k] - expected[k]).abs() <= 1.0),
        "{windows:?} windows, {expected:?} expected"
    );
}

/// The most packets in `SPAN`, the median over the round trips of the second half.
fn burst(times: &[Instant]) -> usize {
    const SPAN: Duration = Duration::from_millis(2);
    const ROUND_TRIP: Duration = Duration::from_millis(20);
    let later = &times[times.len() / 2..];
    let number = |time: &Instant| (*time - later[0]).as_millis() / ROUND_TRIP.as_millis();
    let rounds = later.chunk_by(|one, next| number(one) == number(next));
    let most = |round: &[Instant]| {
        let within = |first: &Instant| {
            let near = round
                .iter()
                .filter(|time| **time >= *first && **time < *first + SPAN);
            near.count()
        };
        round.iter().map(within).max().unwrap_or(0)
    };
    let mut bursts: Vec<usize> = rounds.map(most).collect();
    bursts.sort_unstable();
    bursts[bursts.len() / 2]
}

/// Acknowledgements of a window that was sent at once arrive at once, so that a burst stays
/// together on a path without a bottleneck, unless the kernel spaces the window over a round trip.
#[test]
fn a_subflow_beside_a_slow_one_is_paced() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let network = Network::new(0, None);
    let _sink = network.sink();
    let (times, _links) = unequal(&network);
    let [ours, linux] = ["lia", "lia:buffers=linux"].map(|specification| {
        times.lock().unwrap().clear();
        samples(&network, specification, true, 800);
        burst(&times.lock().unwrap())
    });
    assert!(ours <= WINDOW as usize / 2, "{ours} packets in 2 ms");
    assert!(linux > WINDOW as usize / 2, "{linux} packets in 2 ms");
}

/// The slow subflow gets fragments, too, while it is there; the program waits between writes of two
/// windows, so that the fast one has a window to send at once.
#[test]
fn pacing_ends_with_the_subflow_that_needs_it() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let network = Network::new(0, None);
    let _sink = network.sink();
    let (times, _links) = unequal(&network);
    let _loaded = load(&"lia".parse().unwrap()).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let sender = network.spawn(Host::Client, move || {
        let mut stream = connect("lia", true);
        while !stopped.load(Relaxed) {
            stream
                .write_all(&[0; 2 * WINDOW as usize * PAYLOAD as usize])
                .unwrap();
            thread::sleep(Duration::from_millis(100));
        }
    });
    let [beside, alone] = [false, true].map(|remove| {
        if remove {
            network.remove_endpoint(1);
        }
        times.lock().unwrap().clear();
        thread::sleep(Duration::from_millis(1500));
        burst(&times.lock().unwrap())
    });
    stop.store(true, Relaxed);
    sender.join().unwrap();
    assert!(beside <= WINDOW as usize / 2, "{beside} packets in 2 ms");
    assert!(alone > WINDOW as usize / 2, "{alone} packets in 2 ms");
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

/// RTT and send buffer of the two subflows in each sample that has both, the fast one first.
fn pairs(samples: &[String]) -> Vec<[(f64, f64); 2]> {
    let of_sample = |text: &String| {
        let both = values(text, "rtt:").zip(values(text, "tb"));
        let mut both: Vec<(f64, f64)> = both.collect();
        both.sort_by(|one, other| one.0.total_cmp(&other.0));
        both.try_into().ok()
    };
    samples.iter().filter_map(of_sample).collect()
}
