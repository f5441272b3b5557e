//! Real Multipath TCP and plain TCP under every algorithm.

use std::fs;
use std::time::Duration;

use crate::common::network::{Host, Network, connect, send_for};
use crate::common::{SEND_TIME, can_load, in_full, lock_names, measured};
use anabranch_kernel::{PROGRAMS, Program, connections, load, registered, set_weight};
use socket2::SockRef;

const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

#[test]
fn every_algorithm_carries_multipath_tcp_over_both_links() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let network = Network::new(2, Some(50));
    for program in PROGRAMS {
        let name = program.name;
        let loaded = load(&name.parse().unwrap()).unwrap();
        let (received, connections) = measured(&network, name, true);
        drop(loaded);

        let [connection] = connections.as_slice() else {
            panic!("{name}: {connections:?}")
        };
        assert!(connection.token.is_some());
        let [one, two] = connection.subflows.as_slice() else {
            panic!("{name}: {connection:?}")
        };
        for subflow in [one, two] {
            assert_eq!(subflow.algorithm, name);
            assert!(
                subflow.window >= 1.0 && subflow.rtt_ms > 0.0,
                "{name}: {subflow:?}"
            );
            assert!(
                subflow.base_rtt_ms.unwrap() <= 1.5 * subflow.rtt_ms,
                "{name}: {subflow:?}"
            );
        }
        // One link of 50 Mbps carries 3.75 MB in 0.6 s: a third of that is a very low bar.
        assert!(received > 1_250_000, "{name}: {received} bytes");
        assert!(
            !registered().unwrap().iter().any(|other| other == name),
            "{name} is still registered"
        );
    }
}

/// At an RTT of tens of microseconds the hosts' own delays resemble a queue.
#[test]
fn delay_based_rules_fill_links_without_a_delay() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let network = Network::new(2, None);
    for program in PROGRAMS.iter().filter(|program| program.info().delay_based) {
        let name = program.name;
        let _loaded = load(&name.parse().unwrap()).unwrap();
        // 0.01 of NewReno's goodput if those delays counted, about 1 as it is; less on a busy
        // machine.
        let fills = || measured(&network, name, true).0 > measured(&network, "reno", true).0 / 4;
        assert!((0..5).any(|_| fills()), "{name}");
    }
}

/// Slow start leaves packets queued. They would stay if it undid each decrease at the next packet.
#[test]
fn a_delay_based_rule_drains_the_queue_of_slow_start() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let network = Network::new(1, Some(50));
    let _loaded = load(&"vegas_k".parse().unwrap()).unwrap();
    let _sink = network.sink();
    let connections = network.inside(Host::Client, || {
        let mut stream = connect("vegas_k", false);
        send_for(&mut stream, Duration::from_secs(2));
        connections().unwrap()
    });
    let windows: Vec<f64> = connections.iter().map(|c| c.subflows[0].window).collect();
    // 50 Mbps times the 5 ms below which no queue is seen are 21 packets of 1500 bytes; one is
    // queued.
    assert!(
        windows.len() == 1 && (15.0..27.0).contains(&windows[0]),
        "{windows:?}"
    );
}

#[test]
fn every_algorithm_carries_plain_tcp() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let network = Network::new(1, Some(50));
    // In the gate a loss-based and a delay-based rule; above, Multipath TCP runs every one.
    let delay_based = |program: &Program| program.info().delay_based;
    let first = |kind| PROGRAMS.iter().find(|one| delay_based(one) == kind);
    let programs: Vec<_> = match in_full() {
        true => PROGRAMS.iter().collect(),
        false => [false, true].into_iter().filter_map(first).collect(),
    };
    for program in programs {
        let name = program.name;
        let _loaded = load(&name.parse().unwrap()).unwrap();
        let allowed = fs::read_to_string(ALLOWED).unwrap();
        let mut allowed = allowed.split_whitespace();
        assert!(
            allowed.any(|other| other == name),
            "not any user may choose {name}"
        );
        let (received, connections) = measured(&network, name, false);
        let [connection] = connections.as_slice() else {
            panic!("{name}: {connections:?}")
        };
        assert_eq!(connection.token, None);
        assert_eq!(connection.subflows[0].algorithm, name);
        // Above 0: the rule was called, as a delay-based one is over one path too.
        assert_eq!(
            connection.subflows[0]
                .alpha
                .is_some_and(|alpha| alpha > 0.0),
            program.info().delay_based,
            "{name}"
        );
        assert!(received > 1_250_000, "{name}: {received} bytes");
    }
}

/// EWTCP's growth is a times NewReno's, so alpha is its parameter at any window.
#[test]
fn the_parameters_of_load_reach_the_kernel() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let network = Network::new(2, Some(50));
    let _loaded = load(&"ewtcp:a=0.3".parse().unwrap()).unwrap();
    let (_, connections) = measured(&network, "ewtcp", true);
    // 0 for a subflow that is still in slow start.
    let alphas: Vec<f64> = connections[0]
        .subflows
        .iter()
        .filter_map(|s| s.alpha)
        .collect();
    assert!(alphas.iter().any(|&alpha| alpha != 0.0), "{alphas:?}");
    // The window has grown since by the last increase.
    assert!(
        alphas
            .iter()
            .all(|&alpha| alpha == 0.0 || (alpha - 0.3).abs() < 0.02),
        "{alphas:?}"
    );
}

#[test]
fn a_socket_can_have_a_weight_of_its_own() {
    if !can_load() {
        return;
    }
    let _lock = lock_names();
    let network = Network::new(2, Some(50));
    let loaded = load(&"vegas_k:kappa=2".parse().unwrap()).unwrap();
    let weights = loaded.weights().unwrap();
    let _sink = network.sink();
    network.inside(Host::Client, move || {
        let (mut light, mut heavy) = (connect("vegas_k", true), connect("vegas_k", true));
        let cookie = SockRef::from(&heavy).cookie().unwrap();
        set_weight(&weights, cookie, Some(5.5)).unwrap();
        send_for(&mut light, SEND_TIME);
        send_for(&mut heavy, SEND_TIME);
        let alphas = |heavy: bool| -> Vec<f64> {
            let all = connections().unwrap().into_iter();
            let of_one = all.filter(|connection| (connection.cookie == cookie) == heavy);
            of_one
                .flat_map(|one| one.subflows)
                .filter_map(|subflow| subflow.alpha)
                .collect()
        };
        // 0 before the first round of congestion avoidance.
        for (alphas, kappa) in [(alphas(true), 5.5), (alphas(false), 2.0)] {
            assert!(alphas.contains(&kappa), "{alphas:?} {kappa}");
            assert!(
                alphas.iter().all(|&alpha| alpha == 0.0 || alpha == kappa),
                "{alphas:?}"
            );
        }
        set_weight(&weights, cookie, None).unwrap();
        assert!(set_weight(&weights, cookie, None).is_err());
    });
}
