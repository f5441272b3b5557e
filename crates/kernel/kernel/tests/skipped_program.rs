//! A kernel may skip a program and use uninitialised stack memory as its result.

use std::thread;
use std::time::Duration;

use crate::common::network::{Host, Network, connect, send_for};
use crate::common::{can_load, lock_names};
use anabranch_kernel::connections;
use libbpf_rs::{MapCore, ObjectBuilder};

/// Two paths of 50 Mbps whose queues hold 20 ms: with their bursts of 20 kB at most 100 packets,
/// and slow start may briefly have twice that in flight.
const MOST: f64 = 250.0;

#[test]
fn a_threshold_from_uninitialised_memory_does_not_open_the_window() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let object = include_bytes!(concat!(env!("OUT_DIR"), "/uninitialised.o"));
    let mut object = ObjectBuilder::default()
        .open_memory(object)
        .unwrap()
        .load()
        .unwrap();
    let algorithm = object.maps_mut().find(|map| map.name() == "uninitialised");
    let _link = algorithm.unwrap().attach_struct_ops().unwrap();

    let network = Network::new(2, Some(50));
    let sink = network.sink();
    let windows: Vec<f64> = network.inside(Host::Client, || {
        let mut stream = connect("uninitialised", true);
        let sender = thread::spawn(move || send_for(&mut stream, Duration::from_secs(3)));
        let mut windows = Vec::new();
        while !sender.is_finished() {
            let subflows = connections().unwrap().into_iter().flat_map(|c| c.subflows);
            windows.extend(subflows.map(|subflow| subflow.window));
            thread::sleep(Duration::from_millis(5));
        }
        windows
    });
    let beyond: Vec<_> = windows.iter().filter(|&&window| window > MOST).collect();
    assert!(
        beyond.len() * 50 < windows.len(),
        "{} of {}, such as {:?}",
        beyond.len(),
        windows.len(),
        beyond.first()
    );
    // 50 Mbps over 3 s are 18.75 MB a link.
    assert!(sink.received() > 15_000_000, "{}", sink.received());
}
