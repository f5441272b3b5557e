//! Who couples with whom. Semicoupled shows it best: its alpha, `I_r w_r`, is the subflow's part of the
//! windows that count, so 1 for one that is alone.

mod common;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use anabranch_kernel::{Subflow, connections, load};
use common::network::{Host, Network, connect, send_for};
use common::{WHILE, can_load, names_are_ours, seen, wait_until};

/// The client's two subflows under Semicoupled, that of the first link first.
fn two_subflows(network: &Network) -> [Subflow; 2] {
    let _loaded = load(&"semicoupled".parse().unwrap()).unwrap();
    let (_, connections) = seen(network, "semicoupled", true);
    let mut subflows = connections[0].subflows.clone();
    subflows.sort_by_key(|subflow| subflow.local);
    subflows.try_into().expect("two subflows")
}

fn is_alone(subflow: &Subflow) -> bool {
    // The window moved since by what the last acknowledgement added, or by a loss.
    subflow.alpha.unwrap() > 0.95
}

fn is_coupled(subflow: &Subflow) -> bool {
    // 0 before it was asked.
    subflow.alpha.unwrap() > 0.0 && !is_alone(subflow)
}

#[test]
fn siblings_share_one_increase() {
    if !can_load() {
        return;
    }
    let _names = names_are_ours();
    let [one, two] = two_subflows(&Network::new(2, Some(50)));
    assert!(is_coupled(&one) && is_coupled(&two), "{one:?} {two:?}");
}

#[test]
fn a_backup_that_is_idle_does_not_count() {
    if !can_load() {
        return;
    }
    let _names = names_are_ours();
    let network = Network::new(1, Some(50));
    network.add_link(1, Some(50));
    network.add_endpoint(1, "backup");
    let [one, two] = two_subflows(&network);
    assert!(two.backup && !one.backup, "{one:?} {two:?}");
    assert!(is_alone(&one), "{one:?} {two:?}");
}

#[test]
fn a_sibling_with_another_algorithm_counts() {
    if !can_load() {
        return;
    }
    let _names = names_are_ours();
    let network = Network::new(2, Some(50));
    let route = "route change 10.77.1.0/24 dev v1 src 10.77.1.1 congctl lock reno".split(' ');
    let mut ip = Command::new("ip");
    assert!(
        ip.args(["-n", &network.name(Host::Client)])
            .args(route)
            .status()
            .unwrap()
            .success()
    );
    let [one, two] = two_subflows(&network);
    assert_eq!(
        (one.algorithm.as_str(), two.algorithm.as_str()),
        ("semicoupled", "reno")
    );
    assert!(is_coupled(&one) && two.alpha.is_none(), "{one:?} {two:?}");
}

#[test]
fn who_counts_follows_the_path_manager() {
    if !can_load() {
        return;
    }
    let _names = names_are_ours();
    let _loaded = load(&"semicoupled".parse().unwrap()).unwrap();
    let network = Network::new(2, Some(50));
    let _sink = network.sink();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let sending = network.spawn(Host::Client, move || {
        let mut stream = connect("semicoupled", true);
        // Not for ever, should this test fail.
        for _ in 0..500 {
            if !stopped.load(Relaxed) {
                send_for(&mut stream, WHILE / 10);
            }
        }
    });
    let look = || {
        let connections = network.inside(Host::Client, || connections().unwrap());
        let mut subflows = connections[0].subflows.clone();
        subflows.sort_by_key(|subflow| subflow.local);
        subflows
    };
    // Until it has held for some round trips: just after a loss, alpha is off.
    let wait = |what: &str, holds: fn(&[Subflow]) -> bool| {
        let holds_now = |_| {
            thread::sleep(WHILE / 30);
            holds(&look())
        };
        wait_until(what, || (0..6).all(holds_now));
    };
    wait("two couple", |of| of.len() == 2 && is_coupled(&of[0]));
    network.change_endpoint(1, "backup");
    wait("a backup does not count", |of| {
        of[1].backup && is_alone(&of[0])
    });
    network.change_endpoint(1, "nobackup");
    wait("it counts again", |of| !of[1].backup && is_coupled(&of[0]));
    network.remove_endpoint(1);
    wait("one is left", |of| of.len() == 1 && is_alone(&of[0]));
    network.add_endpoint(1, "");
    wait("a new one couples", |of| {
        of.len() == 2 && is_coupled(&of[0])
    });
    stop.store(true, Relaxed);
    sending.join().unwrap();
}
