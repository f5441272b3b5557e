//! The send buffers of subflows.

use std::process::Command;

use crate::common::network::{Host, Network, connect};
use crate::common::{can_load, lock_names};
use anabranch_kernel::load;

/// The send buffer of each TCP socket of a new connection, bytes: `tb` in the output of `ss -tm`.
fn send_buffers(network: &Network, algorithm: &str, multipath: bool) -> Vec<u32> {
    let algorithm = algorithm.to_owned();
    let listed = network.inside(Host::Client, move || {
        let _stream = connect(&algorithm, multipath);
        let mut ss = Command::new("ss");
        ss.args(["-tmnH", "state", "established"]).output().unwrap()
    });
    let text = String::from_utf8(listed.stdout).unwrap();
    let fields = text.split([',', '(', ')']);
    let buffers = fields.filter_map(|field| field.strip_prefix("tb"));
    buffers.map(|bytes| bytes.parse().unwrap()).collect()
}

/// A new socket has a buffer for windows of 10 packets of 2304 bytes each: 16 of them, and with
/// `buffers=linux` and for plain TCP 2.
#[test]
fn a_subflow_has_a_send_buffer_of_sixteen_windows() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let network = Network::new(1, Some(50));
    let _sink = network.sink();
    for (specification, multipath, windows) in [
        ("lia", true, 16),
        ("lia:buffers=linux", true, 2),
        ("lia", false, 2),
    ] {
        let loaded = load(&specification.parse().unwrap()).unwrap();
        let buffers = send_buffers(&network, "lia", multipath);
        assert!(
            buffers.contains(&(windows * 10 * 2304)),
            "{specification}: {buffers:?}"
        );
        drop(loaded);
    }
}
