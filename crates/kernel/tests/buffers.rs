//! What the subflows of a connection may hold: send buffers and unsent data.

use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::common::network::{Host, Network, connect, send_for};
use crate::common::{can_load, lock_names};
use anabranch_kernel::load;

const SEND_TIME: Duration = Duration::from_millis(1500);
/// Payload of a packet of 1500 bytes.
const PAYLOAD: u64 = 1448;
/// The most that the scheduler assigns at once.
const BURST: u64 = 1 << 16;

/// What `ss -timn` prints of the TCP sockets of a connection that sends, every 20 ms.
fn samples(network: &Network, specification: &str, multipath: bool) -> Vec<String> {
    let _loaded = load(&specification.parse().unwrap()).unwrap();
    network.inside(Host::Client, move || {
        let mut stream = connect("lia", multipath);
        let sender = thread::spawn(move || send_for(&mut stream, SEND_TIME));
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
        let samples = samples(&network, specification, multipath);
        let later = &samples[samples.len() / 2..];
        let (window, unsent) = (largest(later, "cwnd:"), largest(later, "notsent:"));
        assert_eq!(
            unsent <= window * PAYLOAD + BURST,
            is_limited,
            "{specification}, multipath {multipath}: {unsent} bytes, {window} packets"
        );
    }
}
