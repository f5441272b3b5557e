//! A middlebox that changes payload, so that the checksum of Multipath TCP fails and TCP's does not (RFC
//! 8684, section 3.7): with several subflows the one concerned is reset, with one the connection falls
//! back to plain TCP by an infinite mapping.

mod common;

use std::fs;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anabranch_kernel::{Connection, connections, load, registered};
use common::middle::{Middle, Packet};
use common::network::{Host, Network, connect, send_for};
use common::{WHILE, can_load, counter, names_are_ours, objects, wait_until};

/// Two hosts that use checksums, without a link.
fn with_checksums() -> Network {
    let network = Network::new(0, None);
    for host in [Host::Client, Host::Server] {
        network.inside(host, || {
            fs::write("/proc/sys/net/mptcp/checksum_enabled", "1").unwrap();
        });
    }
    network
}

fn is_data(packet: &Packet) -> bool {
    matches!(packet.from(), Host::Client) && !packet.data.is_empty()
}

fn count(network: &Network, host: Host, name: &'static str) -> u64 {
    network.inside(host, move || counter(name))
}

fn client(network: &Network) -> Connection {
    network.inside(Host::Client, || connections().unwrap().remove(0))
}

#[test]
fn over_one_path_the_rule_goes_on_after_the_fallback() {
    if !can_load() {
        return;
    }
    let _names = names_are_ours();
    // NewReno's growth, and EWTCP's with a = 0.05.
    for (rule, alpha) in [("lia", 1.0), ("ewtcp:a=0.05", 0.05)] {
        let before = objects();
        let loaded = load(&rule.parse().unwrap()).unwrap();
        let name = rule.split(':').next().unwrap();
        let network = with_checksums();
        let mut sent = 0;
        // Changes the second packet; drops the 200th, which ends slow start.
        let _middle = Middle::on(&network, 0, move |mut packet| {
            sent += u32::from(is_data(&packet));
            match sent {
                2 if is_data(&packet) => packet.data[0] ^= 1,
                200 if is_data(&packet) => return vec![],
                _ => {}
            }
            vec![packet]
        });
        let sink = network.sink();
        let mut stream = network.inside(Host::Client, move || connect(name, true));
        // Packet by packet: this kernel makes the first one after the failure larger than the MTU if it
        // can, and then nothing gets through any more, under Reno as well.
        for packets in 1..=3 {
            stream.write_all(&[0; 1000]).unwrap();
            wait_until("a packet", || sink.received() == packets * 1000);
        }
        assert_eq!(count(&network, Host::Server, "DataCsumErr"), 1);
        for host in [Host::Client, Host::Server] {
            assert_eq!(count(&network, host, "MPFailTx"), 1, "{host:?}");
            assert_eq!(count(&network, host, "MPFailRx"), 1, "{host:?}");
        }
        assert_eq!(count(&network, Host::Client, "InfiniteMapTx"), 1);
        assert_eq!(count(&network, Host::Server, "InfiniteMapRx"), 1);
        assert_eq!(client(&network).subflows[0].alpha, Some(0.0));

        let (sent, stream) = network.inside(Host::Client, move || {
            let sent = 3000 + send_for(&mut stream, WHILE);
            (sent, stream)
        });
        wait_until("all has arrived", || sink.received() == sent);
        let [subflow] = &client(&network).subflows[..] else {
            panic!("one subflow")
        };
        // The window moved since by what the last acknowledgement added.
        let part = subflow.alpha.unwrap() / alpha;
        assert!((0.9..1.1).contains(&part), "{rule}: {subflow:?}");
        assert!(subflow.ssthresh.is_some(), "{rule}: {subflow:?}");
        drop((stream, sink, loaded));
        wait_until("nothing is left", || objects().is_subset(&before));
    }
}

#[test]
fn of_two_subflows_the_one_concerned_is_reset_and_the_other_is_alone() {
    if !can_load() {
        return;
    }
    let _names = names_are_ours();
    let before = objects();
    let loaded = load(&"semicoupled".parse().unwrap()).unwrap();
    let network = with_checksums();
    let (change, stop) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let (changing, stopped) = (change.clone(), stop.clone());
    let middle = Middle::on(&network, 0, move |mut packet| {
        if is_data(&packet) && changing.swap(false, Relaxed) {
            packet.data[0] ^= 1;
        }
        vec![packet]
    });
    network.add_link(1, Some(50));
    network.add_endpoint(1, "");
    let sink = network.sink();
    let sending = network.spawn(Host::Client, move || {
        let (mut stream, mut sent) = (connect("semicoupled", true), 0);
        // Not for ever, should this test fail.
        for _ in 0..500 {
            if !stopped.load(Relaxed) {
                sent += send_for(&mut stream, WHILE / 10);
            }
        }
        sent
    });
    // Semicoupled's alpha is a subflow's part of the windows that count; 0 before it was asked.
    let alphas = || {
        let connection = network.inside(Host::Client, || connections().unwrap().pop());
        let mut subflows = connection.map_or(vec![], |one| one.subflows);
        subflows.sort_by_key(|subflow| subflow.local);
        let alphas = subflows.iter().filter_map(|subflow| subflow.alpha);
        alphas.collect::<Vec<_>>()
    };
    wait_until(
        "two couple",
        || matches!(alphas()[..], [_, two] if 0.0 < two && two < 0.95),
    );
    change.store(true, Relaxed);
    wait_until(
        "one is alone",
        || matches!(alphas()[..], [one] if one > 0.95),
    );
    assert_eq!(count(&network, Host::Server, "DataCsumErr"), 1);
    assert_eq!(count(&network, Host::Server, "MPFailTx"), 1);
    assert_eq!(count(&network, Host::Server, "MPRstTx"), 1);
    assert_eq!(count(&network, Host::Client, "MPFailRx"), 1);
    assert_eq!(count(&network, Host::Client, "MPRstRx"), 1);

    stop.store(true, Relaxed);
    let sent = sending.join().unwrap();
    wait_until("all has arrived", || sink.received() == sent);
    drop((sink, loaded, middle, network));
    assert!(
        !registered()
            .unwrap()
            .iter()
            .any(|name| name == "semicoupled")
    );
    wait_until("nothing is left", || objects().is_subset(&before));
}
