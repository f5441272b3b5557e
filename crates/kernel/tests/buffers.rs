//! The send buffers of subflows.

use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::common::network::{Host, Network, connect, send_for};
use crate::common::{can_load, lock_names};
use anabranch_kernel::load;

/// What `ss -timn` prints of the TCP sockets of a connection that sends, every 20 ms.
fn samples(network: &Network, algorithm: &str) -> Vec<String> {
    let algorithm = algorithm.to_owned();
    network.inside(Host::Client, move || {
        let mut stream = connect(&algorithm, true);
        let sender = thread::spawn(move || send_for(&mut stream, Duration::from_millis(1500)));
        let mut listed = Vec::new();
        while !sender.is_finished() {
            thread::sleep(Duration::from_millis(20));
            let mut ss = Command::new("ss");
            let output = ss
                .args(["-timnH", "state", "established"])
                .output()
                .unwrap();
            listed.push(String::from_utf8(output.stdout).unwrap());
        }
        listed
    })
}

/// The values of a field such as `cwnd:10` or, with commas around it, `tb46080`.
fn values(samples: &[String], name: &str) -> Vec<u64> {
    let texts = samples
        .iter()
        .flat_map(|text| text.split([' ', ',', '(', ')', '\n']));
    let fields = texts.filter_map(|field| field.strip_prefix(name));
    fields.filter_map(|value| value.parse().ok()).collect()
}

/// Data is assigned while less than a window is unsent, up to 64 kB at once, and the window before
/// a loss is at most the largest. With `buffers=linux` the send buffer, twice the window at 2304
/// bytes of memory for a packet of 1448, is the only limit.
#[test]
fn a_subflow_has_at_most_a_window_and_a_burst_of_unsent_data() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let network = Network::new(2, Some(50));
    let _sink = network.sink();
    let _loaded = load(&"lia".parse().unwrap()).unwrap();
    let samples = samples(&network, "lia");
    let window = values(&samples, "cwnd:").into_iter().max().unwrap();
    let unsent = values(&samples, "notsent:").into_iter().max().unwrap();
    assert!(
        unsent <= window * 1448 + (1 << 16),
        "{unsent} bytes, {window} packets"
    );
}
