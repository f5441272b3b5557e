//! Who couples with whom. Semicoupled shows it best: its alpha, `I_r w_r`, is the subflow's part of
//! the windows that count, so 1 for one that is alone.

mod common;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use anabranch_kernel::{Loaded, Subflow, connections, load};
use common::network::{Host, Network, Sink, connect, send_for};
use common::{WHILE, can_load, names_are_ours, wait_until};

/// A connection under Semicoupled that sends until it is dropped.
struct Sending<'a> {
    network: &'a Network,
    stop: Arc<AtomicBool>,
    _loaded: Loaded,
    _sink: Sink,
}

impl Sending<'_> {
    fn over(network: &Network) -> Sending<'_> {
        let loaded = load(&"semicoupled".parse().unwrap()).unwrap();
        let sink = network.sink();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        network.spawn(Host::Client, move || {
            let mut stream = connect("semicoupled", true);
            while !stopped.load(Relaxed) {
                send_for(&mut stream, WHILE / 10);
            }
        });
        Sending {
            network,
            stop,
            _loaded: loaded,
            _sink: sink,
        }
    }

    /// Its subflows, that of the first link first.
    fn look(&self) -> Vec<Subflow> {
        let look = || connections().unwrap();
        let connections = self.network.inside(Host::Client, look);
        let mut subflows: Vec<Subflow> = connections
            .into_iter()
            .flat_map(|one| one.subflows)
            .collect();
        subflows.sort_by_key(|subflow| subflow.local);
        subflows
    }

    /// Waits until its subflows have looked so for some round trips: just after a loss, alpha is
    /// off.
    fn comes_to(&self, what: &str, holds: impl Fn(&[Subflow]) -> bool) {
        let holds_now = |_| {
            thread::sleep(WHILE / 30);
            holds(&self.look())
        };
        wait_until(what, || (0..6).all(holds_now));
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
    }
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
    let network = Network::new(2, Some(50));
    Sending::over(&network).comes_to("both are coupled", |of| {
        of.len() == 2 && of.iter().all(is_coupled)
    });
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
    Sending::over(&network).comes_to("the first is alone", |of| {
        of.len() == 2 && of[1].backup && !of[0].backup && is_alone(&of[0])
    });
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
    Sending::over(&network).comes_to("the first is coupled with Reno", |of| {
        of.len() == 2
            && of[0].algorithm == "semicoupled"
            && is_coupled(&of[0])
            && of[1].algorithm == "reno"
            && of[1].alpha.is_none()
    });
}

#[test]
fn who_counts_follows_the_path_manager() {
    if !can_load() {
        return;
    }
    let _names = names_are_ours();
    let network = Network::new(2, Some(50));
    let sending = Sending::over(&network);
    sending.comes_to("two couple", |of| of.len() == 2 && is_coupled(&of[0]));
    network.change_endpoint(1, "backup");
    sending.comes_to("a backup does not count", |of| {
        of.len() == 2 && of[1].backup && is_alone(&of[0])
    });
    network.change_endpoint(1, "nobackup");
    sending.comes_to("it counts again", |of| {
        of.len() == 2 && !of[1].backup && is_coupled(&of[0])
    });
    network.remove_endpoint(1);
    sending.comes_to("one is left", |of| of.len() == 1 && is_alone(&of[0]));
    network.add_endpoint(1, "");
    sending.comes_to("a new one couples", |of| {
        of.len() == 2 && is_coupled(&of[0])
    });
}
