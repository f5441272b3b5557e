//! Who couples with whom. Semicoupled shows it best: its alpha, `I_r w_r`, is the subflow's part of the
//! windows that count, so 1 for one that is alone.

mod common;

use std::process::Command;

use anabranch_kernel::{Subflow, load};
use common::network::{Host, Network};
use common::{can_load, names_are_ours, seen};

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

#[test]
fn siblings_share_one_increase() {
    if !can_load() {
        return;
    }
    let _names = names_are_ours();
    let [one, two] = two_subflows(&Network::new(2, Some(50)));
    assert!(!is_alone(&one) && !is_alone(&two), "{one:?} {two:?}");
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
    assert!(!is_alone(&one) && two.alpha.is_none(), "{one:?} {two:?}");
}
